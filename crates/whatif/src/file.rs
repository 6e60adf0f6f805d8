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

/// A file as text, without the mark (U+FEFF) that spreadsheets put before it.
pub(crate) fn read(path: &Path) -> Result<String, FileError> {
    let text = std::fs::read_to_string(path)
        .map_err(|source| FileError::Unreadable { path: path.to_owned(), source })?;
    Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mark_of_a_spreadsheet_is_no_part_of_the_first_word() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("hosts.csv");
        std::fs::write(&path, "\u{feff}kind,name\n").unwrap();
        assert_eq!(read(&path).unwrap(), "kind,name\n");
    }
}
