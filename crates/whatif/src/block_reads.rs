//! Which pages are read from a disk, as the kernel's tracing tells: the misses of a buffer pool whose server
//! reads past the page cache (`innodb_flush_method = O_DIRECT`). From them `plan::reads` estimates what a
//! larger pool would miss.
//!
//! A tracing instance of our own is made and removed again; events of other tools are left alone. All reads
//! of the device are in it, whoever asks: a device that others read much from gives a poor estimate.

use plan::reads::{self, Estimate, Request};
use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A page of InnoDB, as it is unless a server was made with another size.
pub const PAGE_BYTES: u64 = 16_384;
/// Of it.
const SECTORS: u64 = PAGE_BYTES / 512;
const EVENT: &str = "events/block/block_bio_queue";
/// As it stands in a line.
const NAME: &str = ": block_bio_queue: ";
/// The buffer of the kernel is emptied this often.
const PAUSE: Duration = Duration::from_millis(20);
/// Requests that are simulated at most.
const MOST: usize = 2_000_000;

/// What was seen while it was traced.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TracedReads {
    /// Reads of pages that somebody waits for.
    pub reads: Vec<Request>,
    /// Events of all kinds, and those that the kernel dropped because its buffer was full.
    pub events: u64,
    pub lost: u64,
}

impl TracedReads {
    fn take(&mut self, line: &str) {
        match lost(line) {
            Some(lost) => self.lost += lost,
            None => {
                self.events += u64::from(line.contains(NAME));
                self.reads.extend(pages(line));
            }
        }
    }

    /// Share of the events that was lost.
    pub fn lost_share(&self) -> f64 {
        self.lost as f64 / (self.lost + self.events).max(1) as f64
    }
}

/// Why reads are not seen.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    #[error("tracefs is not mounted; as root: mount -t tracefs none /sys/kernel/tracing")]
    NotMounted,
    #[error("{path}: {source}; tracing needs root and a kernel with block events")]
    Refused { path: PathBuf, source: std::io::Error },
    /// The data directory.
    #[error("{path}: {source}")]
    Directory { path: PathBuf, source: std::io::Error },
    /// The events of the kernel name the devices below it, and not this one.
    #[error(
        "{path} is on a file system that has no block device of its own number (btrfs, overlay, zfs, tmpfs, a network's), so that the kernel does not tell its reads from others; give the server a directory on ext4 or xfs, or let headroom plan memory try sizes"
    )]
    NoDevice { path: PathBuf },
}

/// A tracing instance; dropped, it is removed.
#[derive(Debug)]
pub struct BlockReads {
    instance: PathBuf,
    pipe: File,
}

impl BlockReads {
    /// Begins to trace the device that holds a directory.
    ///
    /// # Errors
    /// See [`TraceError`].
    pub fn start(directory: &Path) -> Result<Self, TraceError> {
        let (major, minor) = device_of(directory)?;
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let root = mounted(&mounts).ok_or(TraceError::NotMounted)?;
        remove_left(&root.join("instances"), Path::new("/proc"));
        let instance = root.join(format!("instances/headroom-{}", std::process::id()));
        let refused = |path: PathBuf| move |source| TraceError::Refused { path, source };
        std::fs::create_dir(&instance).map_err(refused(instance.clone()))?;
        let pipe = (|| {
            let event = instance.join(EVENT);
            let filter = format!("dev == {}", (u64::from(major) << 20) | u64::from(minor));
            for (file, value) in [("filter", filter.as_str()), ("enable", "1")] {
                let path = event.join(file);
                std::fs::write(&path, value).map_err(refused(path))?;
            }
            let path = instance.join("trace_pipe");
            let open = rustix::fs::open(&path, OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty());
            open.map(File::from).map_err(|error| refused(path)(error.into()))
        })();
        match pipe {
            Ok(pipe) => Ok(Self { instance, pipe }),
            Err(error) => {
                let _ = std::fs::remove_dir(&instance);
                Err(error)
            }
        }
    }

    /// Reads until `stop`, or for this time.
    ///
    /// # Errors
    /// The kernel's buffer cannot be read.
    pub fn collect(mut self, time: Duration, stop: &AtomicBool) -> Result<TracedReads, TraceError> {
        let until = Instant::now() + time;
        let (mut all, mut rest, mut bytes) = (TracedReads::default(), String::new(), vec![0; 1 << 16]);
        while Instant::now() < until && !stop.load(Ordering::Relaxed) {
            match self.pipe.read(&mut bytes) {
                Ok(0) => std::thread::sleep(PAUSE),
                Ok(count) => {
                    rest += &String::from_utf8_lossy(&bytes[..count]);
                    let whole = rest.rfind('\n').map_or(0, |end| end + 1);
                    rest[..whole].lines().for_each(|line| all.take(line));
                    rest.drain(..whole);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::sleep(PAUSE),
                Err(source) => {
                    return Err(TraceError::Refused { path: self.instance.join("trace_pipe"), source });
                }
            }
        }
        Ok(all)
    }
}

impl Drop for BlockReads {
    fn drop(&mut self) {
        let _ = std::fs::write(self.instance.join(EVENT).join("enable"), "0");
        // The instance cannot be removed while its pipe is open.
        if let Ok(null) = File::open("/dev/null") {
            self.pipe = null;
        }
        let _ = std::fs::remove_dir(&self.instance);
    }
}

/// Major and minor number of the block device that holds a directory. File systems without one have numbers
/// of their own, below the major number 0.
///
/// # Errors
/// There is no such directory, or no such device.
pub(crate) fn device_of(directory: &Path) -> Result<(u32, u32), TraceError> {
    let path = || directory.to_owned();
    let found = std::fs::metadata(directory);
    let device = found.map_err(|source| TraceError::Directory { path: path(), source })?.dev();
    match (rustix::fs::major(device), rustix::fs::minor(device)) {
        (0, _) => Err(TraceError::NoDevice { path: path() }),
        device => Ok(device),
    }
}

/// Removes the instances of processes of ours that are dead: one that was killed goes on tracing for nobody.
fn remove_left(instances: &Path, proc: &Path) {
    let all = std::fs::read_dir(instances).into_iter().flatten().flatten();
    for instance in all.map(|entry| entry.path()) {
        let name = instance.file_name().and_then(std::ffi::OsStr::to_str).unwrap_or_default();
        let pid = name.strip_prefix("headroom-").and_then(|pid| pid.parse::<u32>().ok());
        if pid.is_some_and(|pid| !proc.join(pid.to_string()).exists()) {
            let _ = std::fs::write(instance.join(EVENT).join("enable"), "0");
            let _ = std::fs::remove_dir(&instance);
        }
    }
}

fn mounted(mounts: &str) -> Option<PathBuf> {
    let tracefs = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let mut tracefs = tracefs.filter(|fields| fields.get(2) == Some(&"tracefs"));
    tracefs.next().map(|fields| PathBuf::from(fields[1]))
}

/// How many events a line such as `CPU:0 [LOST 12 EVENTS]` says were dropped.
fn lost(line: &str) -> Option<u64> {
    line.split_once("[LOST ")?.1.split_once(" EVENTS]")?.0.trim().parse().ok()
}

/// The pages of an event such as `... 12.345678: block_bio_queue: 7,0 R 1024 + 32 [mariadbd]`; none where it
/// is no read that somebody waits for.
fn pages(line: &str) -> Vec<Request> {
    let found = (|| {
        let (before, event) = line.split_once(NAME)?;
        let at_ms = before.rsplit(' ').next()?.parse::<f64>().ok()? * 1e3;
        let mut fields = event.split_whitespace().skip(1);
        let kind = fields.next()?;
        // RA is read-ahead, RM the file system's own.
        if !kind.starts_with('R') || kind.contains(['A', 'M']) {
            return None;
        }
        let sector: u64 = fields.next()?.parse().ok()?;
        let count: u64 = fields.nth(1)?.parse().ok()?;
        Some((at_ms, sector / SECTORS, count.div_ceil(SECTORS).max(1)))
    })();
    let (at_ms, first, count) = found.unwrap_or((0.0, 0, 0));
    (first..first + count).map(|page| Request { at_ms, page }).collect()
}

/// What pools of these sizes in bytes would miss, from reads beside a pool of `today` bytes with this miss
/// ratio.
pub fn estimate(reads: &[Request], today: u64, miss_ratio: f64, sizes: &[u64]) -> Vec<Estimate> {
    let today = today / PAGE_BYTES;
    let larger: Vec<u64> =
        sizes.iter().map(|size| size / PAGE_BYTES).filter(|pages| *pages > today).collect();
    let step = larger.iter().map(|pages| pages - today).min().unwrap_or(1);
    let share = reads::share(step, reads.len(), MOST);
    reads::of_reads(reads, today, miss_ratio, &larger, share)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_of_pages_are_taken_and_nothing_else() {
        let line = |kind: &str| {
            format!(
                "  one_connection-812     [001] .....   212.250000: block_bio_queue: 7,0 {kind} 1088 + 64 [x]"
            )
        };
        let read = pages(&line("R"));
        assert_eq!(read, [34, 35].map(|page| Request { at_ms: 212_250.0, page }));
        for other in ["W", "RA", "RM", "FWS"] {
            assert_eq!(pages(&line(other)), [], "{other}");
        }
        let mut seen = TracedReads::default();
        let lines = [line("R"), line("W"), line("RA"), "CPU:0 [LOST 2 EVENTS]".to_owned()];
        lines.iter().for_each(|line| seen.take(line));
        assert_eq!((seen.reads.len(), seen.events, seen.lost), (2, 3, 2));
        assert!((seen.lost_share() - 0.4).abs() < 1e-9);
    }

    #[test]
    fn a_file_system_without_a_device_of_its_own_is_refused() {
        let refused = device_of(Path::new("/proc")).unwrap_err();
        assert!(matches!(&refused, TraceError::NoDevice { path } if path == Path::new("/proc")));
        assert!(refused.to_string().contains("headroom plan memory"), "{refused}");
        let missing = device_of(Path::new("/proc/no-such-directory"));
        assert!(matches!(missing, Err(TraceError::Directory { .. })), "{missing:?}");
    }

    #[test]
    fn what_a_killed_trace_left_is_removed_and_nothing_of_anybody_else() {
        let root = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join(path);
        for path in ["instances/headroom-7", "instances/headroom-8", "instances/headroom-x", "instances/perf"]
        {
            std::fs::create_dir_all(at(path)).unwrap();
        }
        std::fs::create_dir_all(at("proc/8")).unwrap();
        remove_left(&at("instances"), &at("proc"));
        assert!(!at("instances/headroom-7").exists(), "its process is dead");
        for path in ["instances/headroom-8", "instances/headroom-x", "instances/perf"] {
            assert!(at(path).exists(), "{path}");
        }
        remove_left(&at("none"), &at("proc"));
    }

    #[test]
    fn tracefs_is_found_among_the_mounts() {
        let mounts = "proc /proc proc rw 0 0\ntracefs /sys/kernel/tracing tracefs rw 0 0\n";
        assert_eq!(mounted(mounts), Some(PathBuf::from("/sys/kernel/tracing")));
        assert_eq!(mounted("proc /proc proc rw 0 0\n"), None);
    }
}
