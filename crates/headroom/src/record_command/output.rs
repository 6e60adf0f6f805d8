//! Output: the file of a recording, for its owner alone, on disk before it is called done.

use anyhow::Context;
use recording::{Event, Key, Writer};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// A file that a recording is written to.
pub(super) struct Output {
    path: PathBuf,
    writer: Writer<File>,
}

impl Output {
    /// Makes it.
    ///
    /// # Errors
    /// It is there already and may not be replaced, or cannot be made.
    pub(super) fn create(path: &Path, force: bool, key: Option<&Key>) -> anyhow::Result<Self> {
        let mut options = OpenOptions::new();
        options.write(true).mode(0o600);
        let file =
            if force { options.create(true).truncate(true) } else { options.create_new(true) }.open(path);
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
