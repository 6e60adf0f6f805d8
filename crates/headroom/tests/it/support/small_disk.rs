//! A file system of bounded size that a test makes, fills and frees.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// In memory; unmounted when dropped.
pub(crate) struct SmallDisk {
    path: PathBuf,
    _base: tempfile::TempDir,
}

impl SmallDisk {
    /// Makes it. `None` for whoever is not root; then it says so.
    pub(crate) fn make(mib: u32) -> Option<Self> {
        if !testkit::root_or_not_tested("a full disk needs root (mount)") {
            return None;
        }
        let base = tempfile::tempdir().unwrap();
        let path = base.path().to_owned();
        let options = format!("size={mib}m");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &options, "headroom-test"]).arg(&path);
        assert!(mount.status().unwrap().success(), "{mount:?}");
        Some(Self { path, _base: base })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Takes all the room that is left.
    pub(crate) fn fill(&self) {
        let mut ballast = std::fs::File::create(self.path.join("ballast")).unwrap();
        let zeros = vec![0u8; 1 << 16];
        while let Ok(written) = ballast.write(&zeros) {
            assert!(written > 0);
        }
    }

    /// Gives it back.
    pub(crate) fn free(&self) {
        std::fs::remove_file(self.path.join("ballast")).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: what still writes there as a panic unwinds does not hold it.
        let _ = Command::new("umount").arg("--lazy").arg(&self.path).status();
    }
}
