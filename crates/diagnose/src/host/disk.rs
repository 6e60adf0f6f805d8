//! `/proc/diskstats`: how many reads, writes and flushes a device did, how long each took, how many are under
//! way.
//!
//! A line is `major minor name` and then 11 numbers; from 4.18 on 4 more (discards), from 5.5 on 2 more
//! (flushes). Times are sums over requests in milliseconds: the mean of a window is its growth over the
//! growth of the count (`await`). The kernel lets one flush of a device run at a time, so that a flush may
//! wait for another and its mean time double. `busy` (time with any request under way) is no measure of what
//! a device can do at most: SSDs and arrays work in parallel.
//!
//! A volume (LVM, dm-crypt, an array of md, the paths to an NVMe together) hands its flushes to the disks
//! that it lies on. The kernel counts them there alone (`block/blk-flush.c`); the volume's own count stays 0.

use super::text::{decimal, grown, grown_32, lines, text, words};
use rustix::fs::{major, minor, stat};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Levels of volumes that are looked through: dm-crypt on LVM on md is three.
const DEEPEST: usize = 8;

/// Requests of one kind since boot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    pub requests: u64,
    /// 512 bytes each.
    pub sectors: u64,
    /// Their times added up.
    pub ms: u64,
}

/// One device since boot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Device {
    /// `nvme0n1`, `dm-3`, partitions too.
    pub name: String,
    pub read: Totals,
    pub written: Totals,
    /// Flushes of its cache; `None` before Linux 5.5, and where none was ever counted: of a volume, and of a
    /// disk without a cache that loses its data (a cloud's, an array with a battery), which is not flushed.
    pub flushed: Option<Totals>,
    /// Requests under way now.
    pub in_flight: u64,
    /// Time with any request under way.
    pub busy_ms: u64,
    /// Time times requests under way.
    pub queue_ms: u64,
}

pub type Reading = Vec<Device>;

/// Requests of one kind between two readings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Work {
    /// Requests a second.
    pub per_s: f64,
    /// Bytes a second.
    pub bytes_per_s: f64,
    /// Mean time of a request that ended; `None` when none did.
    pub await_ms: Option<f64>,
    /// Their times added up, a second of them each second: how many were under way on average.
    pub under_way: f64,
}

/// One device between two readings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    pub name: String,
    pub read: Work,
    pub written: Work,
    /// Flushes; `None` where there are none to count, or the kernel does not.
    pub flushed: Option<Work>,
    /// Share of time with any request under way, 0 to 1.
    pub busy: f64,
    /// Requests under way on average.
    pub queue: f64,
    /// Requests under way at the later reading.
    pub in_flight: u64,
}

/// Reads `/proc/diskstats`. Devices that never did anything are left out.
pub fn parse(bytes: &[u8]) -> Reading {
    lines(bytes).filter_map(device).filter(|d| d.read.requests > 0 || d.written.requests > 0).collect()
}

/// The device that holds `path`, by the name it has in a reading; `None` where that is no device of this
/// machine (a network or ZFS file system, a path that we may not look at) or the number of the file system
/// tells none ([`beneath`]). `sys` is `/sys`, elsewhere in tests.
pub fn holding(path: &Path, sys: &Path) -> Option<String> {
    let device = stat(path).ok()?.st_dev;
    called(&format!("{}:{}", major(device), minor(device)), sys)
}

/// The same of a path of ours, also where the mount tells it ([`beneath`]).
pub fn holding_here(path: &Path) -> Option<String> {
    let sys = Path::new("/sys");
    holding(path, sys).or_else(|| {
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
        beneath(&path.canonicalize().ok()?, &mounts, &mounts, sys)
    })
}

/// The device `MAJOR:MINOR`, by the name it has in a reading; `None` where that is none of this machine.
pub fn called(number: &str, sys: &Path) -> Option<String> {
    let node = std::fs::canonicalize(sys.join("dev/block").join(number)).ok()?;
    disk_at(&node)
}

/// The disk of a device's directory; a partition's lies in its disk's.
fn disk_at(node: &Path) -> Option<String> {
    let disk = if node.join("partition").exists() { node.parent()? } else { node };
    Some(disk.file_name()?.to_str()?.to_owned())
}

/// What a volume lies on, at all levels, by the names that they have in a reading: the disks at the bottom
/// flush it, and multipath, which may stand between, counts its own. Empty for a disk that lies on no other.
/// `sys` is `/sys`, elsewhere in tests.
pub fn below(volume: &str, sys: &Path) -> Vec<String> {
    let (mut found, mut level) = (Vec::new(), directly_below(volume, sys));
    for _ in 0..DEEPEST {
        let mut next = Vec::new();
        for device in level {
            if !found.contains(&device) {
                next.extend(directly_below(&device, sys));
                found.push(device);
            }
        }
        level = next;
    }
    found
}

/// What a device lies on, one level down.
fn directly_below(name: &str, sys: &Path) -> Vec<String> {
    let blocks = sys.join("block");
    let entries = |dir: &Path| std::fs::read_dir(dir).into_iter().flatten().flatten();
    let slaves = entries(&blocks.join(name).join("slaves"));
    let mut lower: Vec<String> =
        slaves.filter_map(|slave| disk_at(&std::fs::canonicalize(slave.path()).ok()?)).collect();
    // The paths to `nvme0n1` are `nvme0c0n1` and its sisters, without a link.
    if let Some((system, space)) = name.strip_prefix("nvme").and_then(|rest| rest.split_once('n')) {
        let is_path = |other: &str| {
            let path =
                other.strip_prefix("nvme").and_then(|rest| rest.strip_prefix(system)?.strip_prefix('c'));
            path.and_then(|path| path.split_once('n')).is_some_and(|(_, of)| of == space)
        };
        let names = entries(&blocks).filter_map(|entry| entry.file_name().into_string().ok());
        lower.extend(names.filter(|other| is_path(other)));
    }
    lower
}

/// Whether a device lies on others, which count the same work once more (a volume of LVM, an array of md, the
/// paths to an NVMe, a file, a pool of ZFS), or is no disk at all but memory. Whoever adds devices up leaves
/// it out. `sys` is `/sys`, elsewhere in tests.
pub fn lies_on_others(name: &str, sys: &Path) -> bool {
    let other = ["loop", "zram", "zd"].iter().any(|kind| name.starts_with(kind));
    other || !directly_below(name, sys).is_empty()
}

/// The device that holds `path` for a process with these mounts (its `mountinfo`), as `MAJOR:MINOR`; of
/// several mounts at one place the last is the one to be seen. Links are not followed.
pub fn mounted<'a>(mountinfo: &'a str, path: &Path) -> Option<&'a str> {
    Some(Mount::holding(mountinfo, path)?.device)
}

/// The device beneath `path` for a process with the mounts `its`, where the number of the file system tells
/// none: btrfs names it as the source of the mount, an overlay (the files of a container's image) the
/// directory that it writes to, in the mounts `ours` of the host. `None` for btrfs on several devices and for
/// all others. `sys` is `/sys`, elsewhere in tests.
pub fn beneath(path: &Path, its: &str, ours: &str, sys: &Path) -> Option<String> {
    let mount = Mount::holding(its, path)?;
    if mount.kind != "overlay" {
        return mount.only_device_of_btrfs(sys);
    }
    let upper = mount.options.split(',').find_map(|option| option.strip_prefix("upperdir="))?;
    let below = Mount::holding(ours, Path::new(upper))?;
    called(below.device, sys).or_else(|| below.only_device_of_btrfs(sys))
}

/// A line of `mountinfo`: `36 35 98:0 /root /at rw,noatime master:1 - ext4 /dev/sda1 rw,errors=continue`.
struct Mount<'a> {
    device: &'a str,
    kind: &'a str,
    source: &'a str,
    options: &'a str,
}

impl<'a> Mount<'a> {
    fn holding(mountinfo: &'a str, path: &Path) -> Option<Self> {
        let mounts = mountinfo.lines().filter_map(|line| {
            let (before, behind) = line.split_once(" - ").unwrap_or((line, ""));
            let mut words = before.split(' ').skip(2);
            let (device, at) = (words.next()?, Path::new(words.nth(1)?));
            let mut words = behind.split(' ');
            let mut next = || words.next().unwrap_or_default();
            let mount = Self { device, kind: next(), source: next(), options: next() };
            path.starts_with(at).then(|| (at.components().count(), mount))
        });
        mounts.max_by_key(|(depth, _)| *depth).map(|(_, mount)| mount)
    }

    fn only_device_of_btrfs(&self, sys: &Path) -> Option<String> {
        if self.kind != "btrfs" {
            return None;
        }
        // A link of device-mapper leads to `dm-0`.
        let source = std::fs::canonicalize(self.source).unwrap_or_else(|_| self.source.into());
        let name = source.file_name()?;
        for system in std::fs::read_dir(sys.join("fs/btrfs")).into_iter().flatten().flatten() {
            let devices = system.path().join("devices");
            if devices.join(name).exists() && std::fs::read_dir(&devices).ok()?.count() > 1 {
                return None;
            }
        }
        disk_at(&std::fs::canonicalize(sys.join("class/block").join(name)).ok()?)
    }
}

fn device(line: &[u8]) -> Option<Device> {
    let mut words = words(line).skip(2);
    let name = text(words.next()?);
    let mut figures = [0; 17];
    let mut count = 0;
    for (figure, word) in figures.iter_mut().zip(words) {
        *figure = decimal(word)?;
        count += 1;
    }
    // 7 figures only: a partition of a kernel before 2.6.25, whose numbers mean something else.
    if count < 11 {
        return None;
    }
    let done = |requests: u64, sectors: u64, ms: u64| Totals { requests, sectors, ms };
    let flushed = (count >= 17).then(|| done(figures[15], 0, figures[16]));
    Some(Device {
        name,
        read: done(figures[0], figures[2], figures[3]),
        written: done(figures[4], figures[6], figures[7]),
        in_flight: figures[8],
        busy_ms: figures[9],
        queue_ms: figures[10],
        flushed: flushed.filter(|flushed| flushed.requests > 0),
    })
}

/// What each device did since `before`, `seconds` ago; devices that are new wait for their second reading.
pub fn since(now: &Reading, before: &Reading, seconds: f64) -> Vec<Sample> {
    now.iter()
        .filter_map(|device| Some(device.since(before.iter().find(|b| b.name == device.name)?, seconds)))
        .collect()
}

impl Device {
    fn since(&self, before: &Self, seconds: f64) -> Sample {
        let ms = seconds * 1e3;
        Sample {
            name: self.name.clone(),
            read: self.read.since(before.read, seconds),
            written: self.written.since(before.written, seconds),
            flushed: self.flushed.zip(before.flushed).map(|(now, before)| now.since(before, seconds)),
            // The kernel keeps these two in 32 bits on some machines and wraps them after 49 days.
            busy: (grown_32(self.busy_ms, before.busy_ms) as f64 / ms).min(1.0),
            queue: grown_32(self.queue_ms, before.queue_ms) as f64 / ms,
            in_flight: self.in_flight,
        }
    }
}

impl Totals {
    fn since(self, before: Self, seconds: f64) -> Work {
        let requests = grown(self.requests, before.requests);
        let ms = grown_32(self.ms, before.ms) as f64;
        Work {
            per_s: requests as f64 / seconds,
            bytes_per_s: grown(self.sectors, before.sectors) as f64 * 512.0 / seconds,
            await_ms: (requests > 0).then(|| ms / requests as f64),
            under_way: ms / 1e3 / seconds,
        }
    }
}

/// Bytes of the file system that holds `directory`, and those that may still be written; `None` where it
/// cannot be asked.
pub fn room(directory: &Path) -> Option<(u64, u64)> {
    let space = rustix::fs::statvfs(directory).ok()?;
    Some((space.f_blocks.saturating_mul(space.f_frsize), space.f_bavail.saturating_mul(space.f_frsize)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 3.10 (11 figures), 4.19 (15) and this one (17).
    const KERNELS: [(&[u8], bool); 3] = [
        (b"   8       0 sda 1000 5 80000 6000 2000 7 160000 9000 3 4000 15000\n", false),
        (b"   8       0 sda 1000 5 80000 6000 2000 7 160000 9000 3 4000 15000 10 0 800 20\n", false),
        (b"   8       0 sda 1000 5 80000 6000 2000 7 160000 9000 3 4000 15000 10 0 800 20 50 700\n", true),
    ];

    #[test]
    fn each_generation_of_the_kernel_is_read() {
        for (bytes, flushes) in KERNELS {
            let reading = parse(bytes);
            let sda = &reading[0];
            assert_eq!(sda.read, Totals { requests: 1000, sectors: 80_000, ms: 6000 });
            assert_eq!(sda.written, Totals { requests: 2000, sectors: 160_000, ms: 9000 });
            assert_eq!((sda.in_flight, sda.busy_ms, sda.queue_ms), (3, 4000, 15_000));
            assert_eq!(sda.flushed.is_some(), flushes);
        }
        let here = parse(include_bytes!("../../tests/recorded/linux-6.18/diskstats"));
        assert_eq!(here.iter().map(|d| &*d.name).collect::<Vec<_>>(), ["vda"], "unused devices are left out");
        assert!(here[0].flushed.unwrap().requests > 700_000);
    }

    #[test]
    fn await_is_time_over_requests_and_none_without_any() {
        let before = parse(KERNELS[2].0);
        let now = parse(b"8 0 sda 1000 5 80000 6000 2400 7 161600 9800 3 4500 17000 10 0 800 20 150 1700\n");
        let sample = &since(&now, &before, 2.0)[0];
        assert_eq!((sample.read.await_ms, sample.written.await_ms), (None, Some(2.0)));
        assert_eq!((sample.written.per_s, sample.written.bytes_per_s), (200.0, 409_600.0));
        let flushed = sample.flushed.unwrap();
        assert_eq!((flushed.per_s, flushed.await_ms, flushed.under_way), (50.0, Some(10.0), 0.5));
        assert_eq!((sample.busy, sample.queue), (0.25, 1.0));
    }

    #[test]
    fn a_path_is_held_by_its_disk_also_where_it_lies_on_a_partition() {
        let dir = tempfile::tempdir().unwrap();
        let device = stat(dir.path()).unwrap().st_dev;
        let node = format!("{}:{}", major(device), minor(device));
        let (sys, blocks) = (dir.path().join("sys"), dir.path().join("sys/dev/block"));
        assert_eq!(holding(dir.path(), &sys), None, "not a device of this machine");
        let disk = sys.join("devices/nvme0n1");
        std::fs::create_dir_all(disk.join("nvme0n1p2")).unwrap();
        std::fs::create_dir_all(&blocks).unwrap();
        std::os::unix::fs::symlink(disk.join("nvme0n1p2"), blocks.join(&node)).unwrap();
        assert_eq!(holding(dir.path(), &sys).as_deref(), Some("nvme0n1p2"), "a disk called like that");
        std::fs::write(disk.join("nvme0n1p2/partition"), "2\n").unwrap();
        assert_eq!(holding(dir.path(), &sys).as_deref(), Some("nvme0n1"));
    }

    #[test]
    fn volumes_arrays_and_files_lie_on_other_disks() {
        let dir = tempfile::tempdir().unwrap();
        for path in ["dm-0/slaves/vda", "vda/slaves", "loop0/loop"] {
            std::fs::create_dir_all(dir.path().join("block").join(path)).unwrap();
        }
        let found = ["dm-0", "vda", "loop0", "nvme0n1"].map(|name| lies_on_others(name, dir.path()));
        assert_eq!(found, [true, false, true, false]);
        std::fs::create_dir_all(dir.path().join("block/nvme0c1n1")).unwrap();
        let found = ["nvme0n1", "nvme0c1n1", "nvme0n2"].map(|name| lies_on_others(name, dir.path()));
        assert_eq!(found, [true, false, false], "two paths, one disk");
    }

    #[test]
    fn what_may_flush_a_volume_is_all_that_it_lies_on() {
        let sys = tempfile::tempdir().unwrap();
        let make = |path: &str| std::fs::create_dir_all(sys.path().join(path)).unwrap();
        let device = |name: &str, below: &[&str]| {
            make(&format!("devices/{name}/slaves"));
            make("block");
            let link = |at: &Path, to: &str| {
                std::os::unix::fs::symlink(sys.path().join("devices").join(to), at).unwrap();
            };
            link(&sys.path().join("block").join(name), name);
            for &lower in below {
                let (_, called) = lower.rsplit_once('/').unwrap_or(("", lower));
                link(&sys.path().join("devices").join(name).join("slaves").join(called), lower);
            }
        };
        make("devices/sda/sda3");
        std::fs::write(sys.path().join("devices/sda/sda3/partition"), "3\n").unwrap();
        device("sda", &[]);
        device("sdb", &[]);
        device("md0", &["sda/sda3", "sdb"]);
        device("dm-0", &["md0"]);
        device("dm-1", &["dm-0"]);
        for name in ["nvme1n1", "nvme1c0n1", "nvme1c4n1", "nvme1c0n2", "nvme10c0n1"] {
            device(name, &[]);
        }
        let below = |name: &str| {
            let mut names = below(name, sys.path());
            names.sort_unstable();
            names
        };
        assert_eq!(below("dm-1"), ["dm-0", "md0", "sda", "sdb"]);
        assert_eq!(below("nvme1n1"), ["nvme1c0n1", "nvme1c4n1"]);
        assert!(below("sda").is_empty() && below("nvme1c0n1").is_empty() && below("none").is_empty());
    }

    #[test]
    fn a_device_that_never_counts_a_flush_does_not_say_how_long_commits_wait_for_it() {
        let flushed = |name: &str, flushes: u64| {
            let line =
                format!("253 0 {name} 9 0 80 6 2000 0 160000 9000 3 4000 15000 0 0 0 0 {flushes} 700\n");
            parse(line.as_bytes())[0].flushed.map(|flushed| flushed.requests)
        };
        assert_eq!((flushed("dm-0", 0), flushed("md127", 0)), (None, None), "the disks below do");
        assert_eq!(flushed("sda", 0), None, "it has no cache to flush");
        assert_eq!((flushed("dm-2", 5), flushed("sda", 7)), (Some(5), Some(7)), "multipath counts its own");
    }

    #[test]
    fn a_path_is_held_by_the_deepest_mount_above_it_and_of_two_by_the_later() {
        let mounts = "22 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw\n\
                      30 22 8:17 / /var/lib/mysql rw - ext4 /dev/sdb1 rw\n\
                      31 22 0:40 / /var/lib/mysql-files rw - tmpfs tmpfs rw\n\
                      32 30 8:33 /data /var/lib/mysql rw - ext4 /dev/sdc1 rw\n";
        let held = |path: &str| mounted(mounts, Path::new(path));
        assert_eq!((held("/var/lib/mysql/"), held("/var/lib")), (Some("8:33"), Some("8:1")));
        assert_eq!((mounted("", Path::new("/")), held("relative")), (None, None));
    }

    #[test]
    fn btrfs_and_an_overlay_lie_on_the_disk_that_their_mounts_tell() {
        let dir = tempfile::tempdir().unwrap();
        let sys = dir.path();
        for path in ["devices/sdx/sdx1", "class/block", "dev/block", "fs/btrfs/8f-1/devices"] {
            std::fs::create_dir_all(sys.join(path)).unwrap();
        }
        std::fs::write(sys.join("devices/sdx/sdx1/partition"), "1\n").unwrap();
        for link in ["class/block/sdx1", "dev/block/8:1", "fs/btrfs/8f-1/devices/sdx1"] {
            std::os::unix::fs::symlink(sys.join("devices/sdx/sdx1"), sys.join(link)).unwrap();
        }
        let host = "1 0 8:1 / / rw - ext4 /dev/sdx1 rw\n\
                    2 1 0:35 /@data /data rw,noatime shared:9 - btrfs /dev/sdx1 rw,subvol=/@data\n\
                    3 1 0:40 / /net rw - nfs4 filer:/vol rw\n";
        let of = |path: &str| beneath(Path::new(path), host, host, sys);
        assert_eq!(of("/data/mysql").as_deref(), Some("sdx"));
        assert_eq!((of("/net/mysql"), of("/var/lib/mysql")), (None, None));
        let overlay =
            |upper: &str| format!("9 8 0:57 / / rw - overlay overlay rw,upperdir={upper},workdir=/w\n");
        for upper in ["/var/lib/containers/1/diff", "/data/containers/1/diff"] {
            let found = beneath(Path::new("/var/lib/mysql"), &overlay(upper), host, sys);
            assert_eq!(found.as_deref(), Some("sdx"), "{upper}");
        }
        std::os::unix::fs::symlink("/nowhere", sys.join("fs/btrfs/8f-1/devices/sdy")).unwrap();
        assert_eq!(of("/data/mysql"), None, "which of two is not told");
    }

    #[test]
    fn a_device_that_came_anew_counts_nothing_for_one_window() {
        let before = parse(KERNELS[2].0);
        let now = parse(b"8 0 sda 5 0 40 9 5 0 40 9 0 9 18\n8 16 sdb 5 0 40 9 5 0 40 9 0 9 18\n");
        let samples = since(&now, &before, 1.0);
        assert_eq!((samples.len(), samples[0].read.per_s, samples[0].busy), (1, 0.0, 0.0));
    }
}
