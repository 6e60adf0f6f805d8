//! A limit of what a server's process reads from its disk: a cgroup of its own, version 1. Only direct reads
//! count, which do not use the system's cache.

use anyhow::{Context, bail};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A process in a cgroup of its own; the cgroup goes once the process has ended or left.
#[derive(Debug)]
pub(super) struct DiskLimit {
    root: PathBuf,
    directory: PathBuf,
    pid: u32,
}

impl DiskLimit {
    /// Lets the process read this many times a second from the disk that holds `data`.
    pub(super) fn new(name: &str, pid: u32, data: &Path, reads_per_second: u32) -> anyhow::Result<Self> {
        let device = disk_of(data)?;
        let root = PathBuf::from("/sys/fs/cgroup/blkio");
        if !root.join("blkio.throttle.read_iops_device").exists() {
            bail!(
                "this part needs the blkio controller of cgroup v1, which limits a disk's reads, at {}",
                root.display()
            );
        }
        let directory = root.join(format!("headroom-bench-{}-{name}", std::process::id()));
        std::fs::create_dir(&directory)
            .with_context(|| format!("making the cgroup {} (root is needed)", directory.display()))?;
        let limit = Self { root, directory, pid };
        limit.write("blkio.throttle.read_iops_device", &format!("{device} {reads_per_second}"))?;
        limit.write("cgroup.procs", &pid.to_string())?;
        Ok(limit)
    }

    fn write(&self, file: &str, value: &str) -> anyhow::Result<()> {
        let path = self.directory.join(file);
        std::fs::write(&path, value).with_context(|| format!("writing {value} to {}", path.display()))
    }
}

impl Drop for DiskLimit {
    fn drop(&mut self) {
        // The process may have ended; then the cgroup is empty already.
        let _ = std::fs::write(self.root.join("cgroup.procs"), self.pid.to_string());
        let _ = std::fs::remove_dir(&self.directory);
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
