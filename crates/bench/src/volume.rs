//! A disk of the bench's own: a file system in an image of bounded size, on a loop device, whose requests of
//! some processes are limited as a cloud volume's are. So a saturated disk is saturated at a known rate and
//! at little CPU, and nobody else's disk is.
//!
//! The limit sits on the disk below the image (cgroup v1 `blkio.throttle`, v2 `io.max`), by the process that
//! asked: a request that has to wait is under way on the loop device meanwhile, as it would be on a
//! provisioned volume. Where it is `io.max`, a server below it is one with a limit of its own, which is
//! another bottleneck than a slow disk: [`Volume::limits_by_io_max`].
//!
//! [`USUAL_PER_S`] is what AWS documents as the baseline of a gp3 volume.

use crate::cgroup::{self, Group, Hierarchy};
use anyhow::{Context, bail};
use diagnose::host::disk;
use diagnose::verdict::Ceilings;
use probe::fio::{Job, Kind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Reads, and as many writes, a second, where a bench has no other wish.
pub(crate) const USUAL_PER_S: u32 = 3000;
/// Size of the image; sparse, so that only what is written takes room.
const MIB: u64 = 3 * 1024;
/// How the idle disk is measured: the file, requests a second, seconds.
const IDLE_MIB: u32 = 256;
const IDLE_PER_S: u32 = 200;
const IDLE_S: u32 = 3;
/// What is ended may hold the disk for this long.
const LET_GO: Duration = Duration::from_secs(5);
/// Of the cgroup, with the number of this process behind it.
const CGROUP: &str = "headroom-bench-disk";
/// Of the cgroup around a server whose own IO is limited.
const ENCLOSED: &str = "headroom-bench-io";

/// The disk; dropped, it is unmounted and removed.
pub(crate) struct Volume {
    image: PathBuf,
    mount: PathBuf,
    limit: Limit,
    per_s: u32,
}

/// The cgroup whose processes are limited, and how.
#[derive(Clone)]
struct Limit {
    group: PathBuf,
    /// Whether it is `io.max` of version 2.
    io_max: bool,
    /// File of the group -> what it says when limited, and when not.
    words: Vec<(&'static str, String, String)>,
}

/// While it is there requests are not limited.
pub(crate) struct Lifted(Limit);

/// While it is there whatever writes to the disk hangs. Beside it a program waits that thaws it after the
/// time, should this process have died.
pub(crate) struct Frozen {
    mount: PathBuf,
    watchdog: std::process::Child,
}

impl Drop for Frozen {
    fn drop(&mut self) {
        if let Err(error) = run("fsfreeze", &["-u".as_ref(), self.mount.as_os_str()]) {
            tracing::warn!(%error, "the bench's disk stays frozen until its watchdog thaws it");
            return;
        }
        let _ = self.watchdog.kill();
        let _ = self.watchdog.wait();
    }
}

/// While it is there the disk is nearly full.
pub(crate) struct Filled(PathBuf);

impl Drop for Filled {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

impl Drop for Lifted {
    fn drop(&mut self) {
        if let Err(error) = self.0.set(true) {
            tracing::warn!(%error, "the disk of the bench is no longer limited");
        }
    }
}

impl Volume {
    /// Makes it below `base`, in place of one that was left behind there; limited to `per_s` reads, and as
    /// many writes, a second.
    ///
    /// # Errors
    /// Not root, or a tool is missing: the message says which.
    pub(crate) fn make(base: &Path, per_s: u32) -> anyhow::Result<Self> {
        if !rustix::process::geteuid().is_root() {
            bail!("a disk of its own needs root (a loop device and a cgroup); run as root");
        }
        lab::make_base(base)?;
        let (image, mount) = (base.join("disk.img"), base.join("disk"));
        std::fs::create_dir_all(&mount).with_context(|| format!("making {}", mount.display()))?;
        if is_mounted(&mount) {
            unmount(&mount)?;
        }
        let file = std::fs::File::create(&image).with_context(|| format!("making {}", image.display()))?;
        file.set_len(MIB << 20)?;
        let limit = limit_of(&image, per_s)?;
        limit.set(true)?;
        let volume = Self { limit, image, mount, per_s };
        let image = volume.image.as_os_str();
        run(
            "mkfs.ext4",
            &["-q".as_ref(), "-E".as_ref(), "lazy_itable_init=0,lazy_journal_init=0".as_ref(), image],
        )?;
        let device =
            run("losetup", &["--find".as_ref(), "--show".as_ref(), "--direct-io=on".as_ref(), image])?;
        let mounted = run("mount", &[device.as_ref(), volume.mount.as_os_str()]);
        // Once mounted it goes with the last user; before, at once.
        run("losetup", &["--detach".as_ref(), device.as_ref()])?;
        mounted?;
        Ok(volume)
    }

    /// Where it is mounted.
    pub(crate) fn path(&self) -> &Path {
        &self.mount
    }

    /// What it takes when nobody else asks: one request at a time, few a second.
    pub(crate) async fn ceilings(&self) -> anyhow::Result<Ceilings> {
        let job = |kind, block, rate, seconds| {
            let (file, mib) = (self.mount.join("idle"), IDLE_MIB);
            Job { file, mib, kind, block, depth: 1, rate, seconds }
        };
        job(Kind::Write, 1 << 20, None, 0).run().await?;
        let read = job(Kind::RandomRead, 16 << 10, Some(IDLE_PER_S), IDLE_S).run().await?;
        let write = job(Kind::RandomWrite, 16 << 10, Some(IDLE_PER_S), IDLE_S).run().await?;
        std::fs::remove_file(self.mount.join("idle"))?;
        Ok(Ceilings {
            idle_read_ms: Some(read.mean_ms),
            idle_write_ms: Some(write.mean_ms),
            disk: disk::holding(&self.mount, Path::new("/sys")),
            reads_per_s: Some(self.per_s.into()),
            writes_per_s: Some(self.per_s.into()),
            ..Ceilings::default()
        })
    }

    /// As fast as the disk below can, until what is returned is dropped.
    pub(crate) fn lifted(&self) -> anyhow::Result<Lifted> {
        self.limit.set(false)?;
        Ok(Lifted(self.limit.clone()))
    }

    /// From now on it takes this many reads, and as many writes, a second.
    pub(crate) fn change(&mut self, per_s: u32) -> anyhow::Result<()> {
        self.limit = limit_of(&self.image, per_s)?;
        self.per_s = per_s;
        self.limit.set(true)
    }

    /// Freezes it until what is returned is dropped, or a little more than `time` has passed.
    pub(crate) fn freeze(&self, time: Duration) -> anyhow::Result<Frozen> {
        let thaw = format!("sleep {}; exec fsfreeze -u \"$0\"", time.as_secs() + 5);
        let mut watchdog = Command::new("sh");
        watchdog.args(["-c", &thaw]).arg(&self.mount).stdin(std::process::Stdio::null());
        let watchdog = watchdog.spawn().context("starting what thaws the disk")?;
        let frozen = Frozen { mount: self.mount.clone(), watchdog };
        run("fsfreeze", &["-f".as_ref(), self.mount.as_os_str()])?;
        Ok(frozen)
    }

    /// Fills it to this share until what is returned is dropped.
    pub(crate) fn fill(&self, share: f64) -> anyhow::Result<Filled> {
        let space = rustix::fs::statvfs(&self.mount).context("looking at the room on the bench's disk")?;
        let left = (space.f_blocks as f64 * (1.0 - share)) as u64;
        let bytes = space.f_bavail.saturating_sub(left) * space.f_frsize;
        let filled = Filled(self.mount.join("filler"));
        run("fallocate", &["-l".as_ref(), bytes.to_string().as_ref(), filled.0.as_os_str()])?;
        Ok(filled)
    }

    /// Whether its limit is `io.max` of a cgroup, which whoever is in that group has as a limit of its own.
    pub(crate) fn limits_by_io_max(&self) -> bool {
        self.limit.io_max
    }

    /// Until what is returned is dropped, `io.max` of a cgroup around the process allows this many reads and
    /// writes a second of the disk.
    ///
    /// # Errors
    /// Not root, or no cgroup of version 2 has the controller.
    pub(crate) fn enclose(&self, pid: u32, per_s: u32) -> anyhow::Result<Group> {
        let io = Hierarchy::of("io").context("no cgroup of version 2 has the controller of disks")?;
        let number = std::fs::metadata(&self.mount).context("looking at the bench's disk")?.dev();
        let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
        let group = io.around(pid, ENCLOSED)?;
        group.write("io.max", &format!("{major}:{minor} riops={per_s} wiops={per_s}"))?;
        group.enter()?;
        Ok(group)
    }

    /// From now on what the process asks of it counts against the limit.
    pub(crate) fn limit(&self, pid: u32) -> anyhow::Result<()> {
        let procs = self.limit.group.join("cgroup.procs");
        std::fs::write(&procs, pid.to_string())
            .with_context(|| format!("writing {pid} to {}", procs.display()))
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        if is_mounted(&self.mount)
            && let Err(error) = unmount(&self.mount)
        {
            tracing::warn!(%error, "the bench's disk stays mounted");
            return;
        }
        let _ = std::fs::remove_file(&self.image);
        cgroup::remove(&self.limit.group);
    }
}

impl Limit {
    fn set(&self, limited: bool) -> anyhow::Result<()> {
        for (file, with, without) in &self.words {
            let path = self.group.join(file);
            let words = if limited { with } else { without };
            std::fs::write(&path, words)
                .with_context(|| format!("writing '{words}' to {}", path.display()))?;
        }
        Ok(())
    }
}

/// The cgroup with the limit on the disk that holds `path`.
fn limit_of(path: &Path, per_s: u32) -> anyhow::Result<Limit> {
    let disk = disk::holding(path, Path::new("/sys")).context("the disk below the image is not known")?;
    let number = std::fs::read_to_string(format!("/sys/block/{disk}/dev"))
        .with_context(|| format!("reading the number of disk {disk}"))?;
    let number = number.trim();
    let hierarchy = Hierarchy::of("blkio")
        .or_else(|| Hierarchy::of("io"))
        .context("no cgroup can limit requests: neither blkio (v1) nor io (v2) is there")?;
    let words = if hierarchy.is_version_2() {
        let limited = format!("{number} riops={per_s} wiops={per_s}");
        vec![("io.max", limited, format!("{number} riops=max wiops=max"))]
    } else {
        ["blkio.throttle.read_iops_device", "blkio.throttle.write_iops_device"]
            .map(|file| (file, format!("{number} {per_s}"), format!("{number} 0")))
            .to_vec()
    };
    let group = hierarchy.directory(&format!("{CGROUP}-{}", std::process::id()));
    if !group.exists() {
        hierarchy.make(&group)?;
    }
    Ok(Limit { group, io_max: hierarchy.is_version_2(), words })
}

fn is_mounted(path: &Path) -> bool {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let path = path.to_string_lossy();
    mounts.lines().any(|line| line.split(' ').nth(1) == Some(&*path))
}

/// Processes that were told to end may hold it for a moment; after a while it is detached for them to let go
/// of.
fn unmount(path: &Path) -> anyhow::Result<String> {
    let until = Instant::now() + LET_GO;
    while run("umount", &[path.as_os_str()]).is_err() {
        if Instant::now() >= until {
            return run("umount", &["--lazy".as_ref(), path.as_os_str()]);
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    Ok(String::new())
}

fn run(program: &str, arguments: &[&std::ffi::OsStr]) -> anyhow::Result<String> {
    let output =
        Command::new(program).args(arguments).output().with_context(|| format!("starting {program}"))?;
    if !output.status.success() {
        bail!("{program} failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
