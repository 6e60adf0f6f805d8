//! A small file system in a file, on which one server of a lab has its data: it can be frozen and filled
//! without touching anybody else's disk. Needs root ([`crate::root_or_not_tested`]).

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Thawed and unmounted when dropped, so that nothing is left that cannot be killed.
#[derive(Debug)]
pub struct SmallDisk {
    at: PathBuf,
}

impl SmallDisk {
    /// An ext4 file system of this size, mounted below `base`.
    pub fn new(base: &Path, mib: u64) -> Self {
        let (image, at) = (base.join("image"), base.join("mount"));
        std::fs::File::create(&image).unwrap().set_len(mib << 20).unwrap();
        std::fs::create_dir(&at).unwrap();
        // Nothing is kept back for root, as which the servers run.
        ran("mkfs.ext4", &["-q", "-F", "-m", "0", image.to_str().unwrap()]);
        ran("mount", &["-o", "loop", image.to_str().unwrap(), at.to_str().unwrap()]);
        Self { at }
    }

    /// The server, which does not run, has its data here from now on; the new place, to which the old one
    /// leads.
    pub fn take_data(&self, directory: &Path) -> PathBuf {
        ran("cp", &["-a", directory.to_str().unwrap(), self.at.to_str().unwrap()]);
        let moved = self.at.join(directory.file_name().unwrap());
        std::fs::remove_dir_all(directory).unwrap();
        std::os::unix::fs::symlink(&moved, directory).unwrap();
        moved
    }

    /// Whatever writes to it, or flushes it, hangs; what is cached is read.
    pub fn freeze(&self) {
        ran("fsfreeze", &["-f", self.at.to_str().unwrap()]);
    }

    pub fn thaw(&self) {
        let _ = Command::new("fsfreeze").args(["-u", self.at.to_str().unwrap()]).output();
    }

    /// Until only this many MiB are left.
    pub fn fill_but(&self, mib: u64) {
        let output =
            Command::new("stat").args(["-f", "-c", "%a %S", self.at.to_str().unwrap()]).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let (blocks, size) = text.trim().split_once(' ').unwrap();
        let free = blocks.parse::<u64>().unwrap() * size.parse::<u64>().unwrap();
        let filler = self.filler();
        ran("fallocate", &["-l", &(free - (mib << 20)).to_string(), filler.to_str().unwrap()]);
    }

    /// To the last block, while others may write too.
    pub fn fill(&self) {
        let mut filler = std::fs::File::create(self.filler()).unwrap();
        for size in [1 << 20, 4096, 512] {
            let block = vec![0; size];
            while filler.write_all(&block).is_ok() {}
        }
    }

    /// Ends [`fill`](Self::fill).
    pub fn empty(&self) {
        let _ = std::fs::remove_file(self.filler());
    }

    fn filler(&self) -> PathBuf {
        self.at.join("filler")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        self.thaw();
        let _ = Command::new("umount").args(["-l", self.at.to_str().unwrap()]).output();
    }
}

fn ran(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output().unwrap();
    assert!(output.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}
