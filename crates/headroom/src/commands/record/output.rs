//! Output: the file of a recording, for its owner alone, on disk before it is called done.

use anyhow::{Context, bail};
use recording::{Event, Key, Writer};
use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// A file that a recording is written to.
pub(super) struct Output {
    path: PathBuf,
    writer: Writer<File>,
}

impl Output {
    /// Makes it. A file that may be replaced is removed first and not written to: who could read it, or has
    /// it open, does not read the recording.
    ///
    /// # Errors
    /// It is there already and may not be replaced, is no ordinary file, or cannot be made.
    pub(super) fn create(path: &Path, force: bool, key: Option<&Key>) -> anyhow::Result<Self> {
        if force {
            make_way(path)?;
        }
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
        let file = file.with_context(|| {
            format!("cannot make {} (one that is there is replaced with --force)", path.display())
        })?;
        Ok(Self { path: path.to_owned(), writer: Writer::new(file, key)? })
    }

    pub(super) fn push(&mut self, event: &Event) -> anyhow::Result<()> {
        self.writer.push(event).with_context(|| self.so_far())
    }

    /// Everything pushed is in the file after this.
    pub(super) fn flush(&mut self) -> anyhow::Result<()> {
        self.writer.flush().with_context(|| self.so_far())
    }

    /// Writes all of it to the disk; returns its length.
    pub(super) fn finish(self) -> anyhow::Result<u64> {
        let path = self.path;
        let file = self.writer.finish().with_context(|| format!("{} ends too early", path.display()))?;
        file.sync_all().with_context(|| format!("{} may not be on the disk", path.display()))?;
        Ok(file.metadata()?.len())
    }

    fn so_far(&self) -> String {
        format!(
            "the recording ends here; what {} has is whole up to that and can be replayed",
            self.path.display()
        )
    }
}

fn make_way(path: &Path) -> anyhow::Result<()> {
    let shown = path.display();
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error).with_context(|| format!("cannot look at {shown}")),
        Ok(found) if !found.is_file() => {
            bail!(
                "{shown} is a link or no ordinary file, which --force does not replace: remove it, or name another file"
            )
        }
        Ok(_) => std::fs::remove_file(path).with_context(|| format!("cannot replace {shown}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn a_file_that_others_could_read_is_replaced_by_one_for_its_owner_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.hrec");
        std::fs::write(&path, "old").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        let before = File::open(&path).unwrap();
        assert!(Output::create(&path, false, None).is_err());
        Output::create(&path, true, None).unwrap().finish().unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(std::io::read_to_string(before).unwrap(), "old", "who has the old one open reads that");
    }

    #[test]
    fn a_link_is_neither_followed_nor_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let (path, there) = (dir.path().join("a.hrec"), dir.path().join("there"));
        std::fs::write(&there, "precious").unwrap();
        symlink(&there, &path).unwrap();
        for force in [false, true] {
            assert!(Output::create(&path, force, None).is_err());
        }
        assert_eq!(std::fs::read_to_string(&there).unwrap(), "precious");
        assert!(path.is_symlink());
    }
}
