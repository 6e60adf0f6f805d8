//! What a disk can do: fio on one file, a few seconds a figure. Random 16 KiB requests (a page of InnoDB) at
//! growing depth, to find the knee: the least number of requests under way at which the disk does nearly all
//! it can; beyond it only the time of each grows. Small writes made durable one by one; large requests for
//! the bandwidth.

use crate::fio::{Job, Kind, Measured};
use anyhow::{Context, bail};
use diagnose::host::disk;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Depths that are tried.
const DEPTHS: [u32; 5] = [1, 4, 16, 32, 64];
/// A page of InnoDB.
const PAGE: u32 = 16 << 10;
/// "Nearly all".
const KNEE: f64 = 0.90;
/// This many times the file must be free, so that the probe fills no disk.
const ROOM: u64 = 4;
/// The idle disk is measured at this many requests a second.
const IDLE_PER_S: u32 = 200;

/// What one directory's disk can do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Disk {
    /// Where the file was.
    pub directory: PathBuf,
    /// The device below it, as /proc/diskstats calls it, where it is one.
    pub device: Option<String>,
    /// Of the file, MiB.
    pub file_mib: u32,
    /// One random read at a time, few a second: what it takes when nobody else asks.
    pub idle_read: Measured,
    /// Likewise a write.
    pub idle_write: Measured,
    /// Random reads at growing depth.
    pub reads: Vec<Step>,
    /// Random writes.
    pub writes: Vec<Step>,
    /// Small writes, each durable before the next.
    pub flush: Measured,
    /// Bytes a second of large reads.
    pub read_bytes_per_s: f64,
    /// Bytes a second of large writes.
    pub write_bytes_per_s: f64,
}

/// Requests at one depth.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// Requests under way.
    pub depth: u32,
    /// What came of it.
    pub measured: Measured,
}

/// The least depth that reaches nearly the greatest rate.
pub fn knee(steps: &[Step]) -> Option<Step> {
    let most = most(steps)?;
    steps.iter().find(|step| step.measured.per_s >= most * KNEE).copied()
}

/// The greatest rate, requests a second.
pub fn most(steps: &[Step]) -> Option<f64> {
    steps.iter().map(|step| step.measured.per_s).max_by(f64::total_cmp)
}

/// How long it takes, seconds.
pub(crate) fn seconds(each: u32) -> u32 {
    // Two idle ones, flush, read, and the depths twice; laying the file out comes on top.
    each * (4 + 2 * DEPTHS.len() as u32) + each
}

/// Measures the disk of `directory` with a file of `mib`, `each` seconds a figure; `progress` is called with
/// what comes next.
///
/// # Errors
/// Not a directory, too little room, or fio fails.
pub(crate) async fn measure(
    directory: &Path,
    mib: u32,
    each: u32,
    progress: &mut (dyn FnMut(&str) + Send),
) -> anyhow::Result<Disk> {
    let room =
        rustix::fs::statvfs(directory).with_context(|| format!("looking at {}", directory.display()))?;
    let (free, file) = (room.f_bavail * room.f_frsize, u64::from(mib) << 20);
    if free < file * ROOM {
        bail!(
            "{} has {} MiB free, and the probe leaves {ROOM} times its file's size: name a smaller --file-mib, or another --directory",
            directory.display(),
            free >> 20
        );
    }
    let file = ProbeFile { file: File::new(directory)?, mib, each };
    progress("large writes");
    let write = file.run(Kind::Write, 1 << 20, 8, None, 0).await?;
    progress("large reads");
    let read = file.run(Kind::Read, 1 << 20, 8, None, each).await?;
    progress("the idle disk");
    let idle_read = file.run(Kind::RandomRead, PAGE, 1, Some(IDLE_PER_S), each).await?;
    let idle_write = file.run(Kind::RandomWrite, PAGE, 1, Some(IDLE_PER_S), each).await?;
    let (mut reads, mut writes) = (Vec::new(), Vec::new());
    for depth in DEPTHS {
        progress(&format!("random reads and writes, {depth} at a time"));
        reads.push(Step { depth, measured: file.run(Kind::RandomRead, PAGE, depth, None, each).await? });
        writes.push(Step { depth, measured: file.run(Kind::RandomWrite, PAGE, depth, None, each).await? });
    }
    progress("flushes");
    let flush = file.run(Kind::Flush, 4096, 1, None, each).await?;
    let directory = directory.canonicalize().unwrap_or_else(|_| directory.to_owned());
    Ok(Disk {
        device: disk::holding_here(&directory),
        directory,
        file_mib: mib,
        idle_read,
        idle_write,
        reads,
        writes,
        flush,
        read_bytes_per_s: read.bytes_per_s,
        write_bytes_per_s: write.bytes_per_s,
    })
}

struct ProbeFile {
    file: File,
    mib: u32,
    each: u32,
}

impl ProbeFile {
    async fn run(
        &self,
        kind: Kind,
        block: u32,
        depth: u32,
        rate: Option<u32>,
        s: u32,
    ) -> anyhow::Result<Measured> {
        // Only laying the file out ends by itself.
        let seconds = if kind == Kind::Write { 0 } else { s.min(self.each) };
        let (file, mib) = (self.file.0.clone(), self.mib);
        Job { file, mib, kind, block, depth, rate, seconds }.run().await
    }
}

/// The file, removed when it is dropped.
struct File(PathBuf);

impl File {
    fn new(directory: &Path) -> anyhow::Result<Self> {
        let path = directory.join(format!(".headroom-probe-{}", std::process::id()));
        let made = std::fs::OpenOptions::new().write(true).create_new(true).open(&path);
        made.with_context(|| {
            format!("making {}: name a directory on that disk where we may write", path.display())
        })?;
        Ok(Self(path))
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(all: &[(u32, f64)]) -> Vec<Step> {
        let step = |(depth, per_s): &(u32, f64)| {
            let measured = Measured { per_s: *per_s, ..Measured::default() };
            Step { depth: *depth, measured }
        };
        all.iter().map(step).collect()
    }

    #[test]
    fn the_knee_is_the_least_depth_that_reaches_nearly_the_most() {
        let all = steps(&[(1, 10_000.0), (4, 20_000.0), (16, 28_000.0), (32, 30_000.0), (64, 29_500.0)]);
        assert_eq!(knee(&all).unwrap().depth, 16);
        assert_eq!(most(&all), Some(30_000.0));
        assert_eq!(knee(&steps(&[(1, 100.0), (4, 100.0)])).unwrap().depth, 1, "one at a time is all it can");
        assert!(knee(&[]).is_none());
    }

    #[tokio::test]
    async fn a_disk_with_too_little_room_is_not_filled_and_nothing_is_left_behind() {
        let dir = tempfile::tempdir().unwrap();
        let error = measure(dir.path(), u32::MAX, 1, &mut |_| {}).await.unwrap_err().to_string();
        assert!(error.contains("smaller --file-mib"), "{error}");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        drop(File::new(dir.path()).unwrap());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
