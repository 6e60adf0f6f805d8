//! Files of the user: read, and what is wrong with them told with their name.

use std::path::{Path, PathBuf};

/// What is wrong with a file of the user.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    #[error("cannot read {path}: {source}")]
    Unreadable { path: PathBuf, source: std::io::Error },
    /// The place and what is wrong there.
    #[error("{0}")]
    Wrong(String),
}

/// A file as text.
pub(crate) fn read(path: &Path) -> Result<String, FileError> {
    std::fs::read_to_string(path).map_err(|source| FileError::Unreadable { path: path.to_owned(), source })
}
