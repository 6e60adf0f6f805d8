//! A limit of what a server's process reads from its disk: a cgroup of its own, version 1. Only direct reads
//! count, which do not use the system's cache.

use crate::cgroup::{Group, Hierarchy};
use anyhow::Context;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A process in a cgroup of its own; dropped, it is back where it was.
#[derive(Debug)]
pub(super) struct DiskLimit(#[expect(dead_code, reason = "held")] Group);

impl DiskLimit {
    /// Lets the process read this many times a second from the disk that holds `data`.
    pub(super) fn new(name: &str, pid: u32, data: &Path, reads_per_second: u32) -> anyhow::Result<Self> {
        let device = disk_of(data)?;
        let hierarchy = Hierarchy::of("blkio")
            .context("this part needs the blkio controller of cgroup v1, which limits a disk's reads")?;
        let group = hierarchy.around(pid, &format!("headroom-bench-{}-{name}", std::process::id()))?;
        group.write("blkio.throttle.read_iops_device", &format!("{device} {reads_per_second}"))?;
        group.enter()?;
        Ok(Self(group))
    }
}

/// `major:minor` of the whole disk that holds a path: limits are for disks, not for their partitions.
fn disk_of(path: &Path) -> anyhow::Result<String> {
    let number = std::fs::metadata(path).with_context(|| format!("looking at {}", path.display()))?.dev();
    let device = format!("{}:{}", rustix::fs::major(number), rustix::fs::minor(number));
    let block = PathBuf::from("/sys/dev/block").join(&device);
    let link = std::fs::canonicalize(&block)
        .with_context(|| format!("{} is on no disk of this host", path.display()))?;
    let parent = link.parent().filter(|_| link.join("partition").exists());
    match parent {
        Some(disk) => Ok(std::fs::read_to_string(disk.join("dev"))?.trim().to_owned()),
        None => Ok(device),
    }
}
