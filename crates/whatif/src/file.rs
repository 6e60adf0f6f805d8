//! Files of the user: read, and what is wrong with them told with their name.

use std::path::{Path, PathBuf};

/// What is wrong with a file of the user.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    #[error("cannot read {path}: {error}; name a file that is there, and that this user may read")]
    Unreadable { path: PathBuf, error: std::io::Error },
    /// What is in it is wrong.
    #[error("{name}: {source}")]
    Wrong {
        /// Of the file.
        name: String,
        source: Mistake,
    },
    /// A line of it is wrong.
    #[error("{name}:{line}: {source}")]
    WrongLine {
        name: String,
        /// From 1.
        line: usize,
        source: Mistake,
    },
}

/// What is wrong in a file of the user.
#[derive(Debug, thiserror::Error)]
pub enum Mistake {
    /// No TOML, or other keys and values than there are; with the place.
    #[error("{0}")]
    Toml(Box<toml::de::Error>),
    #[error("it is empty")]
    Empty,
    /// In the heading of a CSV file.
    #[error("there is no column '{column}'; there are {}", known.join(", "))]
    UnknownColumn { column: String, known: &'static [&'static str] },
    /// As spreadsheets write it where the comma is in numbers.
    #[error("its columns are separated by {found}; separate them by commas, with points in numbers (4.5)")]
    Separator {
        /// `semicolons` or `tabs`.
        found: &'static str,
    },
    /// Twice in the heading: the second would be left out unseen.
    #[error("the column '{column}' stands there twice")]
    ColumnTwice { column: String },
    #[error("quotation marks are not read; leave them out")]
    Quoted,
    /// A row with more or fewer cells than the heading.
    #[error("{found} cells, and the heading has {expected}")]
    Cells { found: usize, expected: usize },
    #[error("{column} = '{cell}' is not a number")]
    NoNumber { column: String, cell: String },
    #[error("{column} is missing")]
    Missing { column: String },
    #[error("kind is neither host nor role")]
    NoKind,
    #[error("options.fill is a share above 0 and at most 1")]
    Fill { fill: f64 },
    #[error("'{name}' is there twice; every host and role has a name of its own")]
    Twice { name: String },
    #[error("{kind} '{name}' has a figure below 0")]
    BelowZero {
        /// `host` or `role`.
        kind: &'static str,
        name: String,
    },
    #[error("{kind} '{name}' has a figure that is no number (nan or inf)")]
    NoFigure {
        /// `host` or `role`.
        kind: &'static str,
        name: String,
    },
    #[error("role '{role}' runs on '{host}', which is no host of this inventory")]
    UnknownHost { role: String, host: String },
    #[error("a price is below 0")]
    Price,
    #[error("trend_a_year is a share, such as -0.1 for 10 % less each year")]
    Trend { trend: f64 },
    #[error("'{text}' is not DAY,READS_PER_SECOND")]
    NoGrowth { text: String },
    /// A line of a file of trials.
    #[error("line {line}: {source}")]
    NoTrial {
        /// From 1.
        line: usize,
        source: serde_json::Error,
    },
    #[error("no history of an agent: {0}")]
    NoHistory(#[source] serde_json::Error),
    #[error("the agent's history has no such server")]
    UnknownServer,
    #[error("the agent watches several servers; name one: {}", names.join(", "))]
    SeveralServers { names: Vec<String> },
    #[error("this is not what headroom probe --json prints: {0}")]
    NoProbe(#[source] serde_json::Error),
    #[error("this probe left the disk out; headroom probe --directory DIR")]
    NoDisk,
}

impl FileError {
    /// In the file of this name; for `map_err`.
    pub(crate) fn wrong(name: impl Into<String>) -> impl FnOnce(Mistake) -> Self {
        let name = name.into();
        move |source| Self::Wrong { name, source }
    }
}

impl From<toml::de::Error> for Mistake {
    fn from(error: toml::de::Error) -> Self {
        Self::Toml(Box::new(error))
    }
}

/// A file as text, without the mark (U+FEFF) that spreadsheets put before it.
pub(crate) fn read(path: &Path) -> Result<String, FileError> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| FileError::Unreadable { path: path.to_owned(), error })?;
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
