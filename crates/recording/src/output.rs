//! Output: the file of a recording, for its owner alone, on disk before it is called done.

use crate::error::RecordingError;
use crate::event::Event;
use crate::file::Writer;
use crate::seal::Key;
use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// A file that a recording is written to.
#[derive(Debug)]
pub struct Output {
    path: PathBuf,
    sealed: bool,
    writer: Writer<File>,
    replaced: Option<Replaced>,
}

/// The file whose place ours takes, under another name until ours is sure to stay. It is removed with this.
#[derive(Debug)]
struct Replaced(PathBuf);

impl Drop for Replaced {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

impl Output {
    /// Makes it. A file that may be replaced is moved away first and not written to: who could read it, or
    /// has it open, does not read the recording. It is removed with [`Output::begun`] or at the end, and is
    /// back in its place after an error here and after [`Output::discard`].
    ///
    /// # Errors
    /// It is there already and may not be replaced, is no ordinary file, or cannot be made.
    pub fn create(path: &Path, force: bool, key: Option<&Key>) -> Result<Self, RecordingError> {
        let replaced = if force { make_way(path)? } else { None };
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
        let file = file.map_err(|source| RecordingError::Make { path: path.to_owned(), source });
        match file.and_then(|file| Writer::new(file, key)) {
            Ok(writer) => Ok(Self { path: path.to_owned(), sealed: key.is_some(), writer, replaced }),
            Err(error) => {
                if let Some(Replaced(aside)) = &replaced {
                    let _ = std::fs::rename(aside, path);
                }
                Err(error)
            }
        }
    }

    /// It is sure to stay: a file that it replaces is removed.
    pub fn begun(&mut self) {
        self.replaced = None;
    }

    /// Its name.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether a key was given.
    pub fn is_sealed(&self) -> bool {
        self.sealed
    }

    /// Adds an event.
    ///
    /// # Errors
    /// The file system says no; then the recording ends here.
    pub fn push(&mut self, event: &Event) -> Result<(), RecordingError> {
        let pushed = self.writer.push(event);
        pushed.map_err(|source| self.ends_here(source))
    }

    /// Everything pushed is in the file after this.
    ///
    /// # Errors
    /// As [`Output::push`].
    pub fn flush(&mut self) -> Result<(), RecordingError> {
        let flushed = self.writer.flush();
        flushed.map_err(|source| self.ends_here(source))
    }

    /// Writes all of it to the disk; returns its length.
    ///
    /// # Errors
    /// The file system says no.
    pub fn finish(self) -> Result<u64, RecordingError> {
        let path = self.path;
        let file = match self.writer.finish() {
            Ok(file) => file,
            Err(source) => return Err(RecordingError::EndsEarly { path, source: Box::new(source) }),
        };
        let length = file.sync_all().and_then(|()| file.metadata());
        length.map(|found| found.len()).map_err(|source| RecordingError::NotOnDisk { path, source })
    }

    /// Removes the file, which nobody but us has written to and nothing of worth is in. One that it was to
    /// replace is back in its place.
    pub fn discard(self) {
        let _ = match &self.replaced {
            Some(Replaced(aside)) => std::fs::rename(aside, &self.path),
            None => std::fs::remove_file(&self.path),
        };
    }

    fn ends_here(&self, source: RecordingError) -> RecordingError {
        RecordingError::EndsHere { path: self.path.clone(), source: Box::new(source) }
    }
}

fn make_way(path: &Path) -> Result<Option<Replaced>, RecordingError> {
    let named = || path.to_owned();
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(source) => Err(RecordingError::LookAt { path: named(), source }),
        Ok(found) if !found.is_file() => Err(RecordingError::NoOrdinaryFile { path: named() }),
        Ok(_) => {
            let mut aside = path.as_os_str().to_owned();
            aside.push(format!(".replaced-{}", std::process::id()));
            let moved = std::fs::rename(path, &aside);
            moved.map_err(|source| RecordingError::Replace { path: named(), source })?;
            Ok(Some(Replaced(aside.into())))
        }
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
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "the old one is removed");
    }

    #[test]
    fn a_file_that_was_to_be_replaced_is_back_where_no_recording_came() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.hrec");
        std::fs::write(&path, "old").unwrap();
        Output::create(&path, true, None).unwrap().discard();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "old");
        let mut output = Output::create(&path, true, None).unwrap();
        output.begun();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "the old one is removed");
        output.discard();
        assert!(!path.exists());
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
