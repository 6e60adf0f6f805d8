//! Answers as they were given, with their predictions: a file of JSON lines, appended to and never rewritten,
//! so that a prediction cannot be changed once the outcome is known.

use plan::Interval;
use serde::{Deserialize, Serialize};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Which question an answer is to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    Load,
    Memory,
    Placement,
    Replicas,
    Disks,
    Estimate,
}

/// A figure that will be seen or not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prediction {
    /// Which model: `queue`, `memory`, `disks`, `estimate`, `growth`.
    pub model: String,
    /// Which figure, with its unit: `p99_ms`, `mean_ms`, `miss_ratio`.
    pub what: String,
    /// At which rate a second, at which size in bytes, or on which day of the user's file of growth.
    pub at: f64,
    /// On how many cores, where that matters.
    #[serde(default)]
    pub cores: Option<u32>,
    pub value: Interval,
    /// Of the interval.
    pub level: f64,
}

/// One line.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Entry {
    /// Seconds since 1970 UTC.
    pub at: u64,
    pub kind: Kind,
    /// Server, target or file.
    pub subject: String,
    /// What was sent, where something was.
    #[serde(default)]
    pub workload: String,
    pub predictions: Vec<Prediction>,
    /// What was seen while it was answered: outcomes of earlier predictions.
    #[serde(default)]
    pub seen: Vec<Observed>,
    /// The whole answer, of the type that belongs to the kind.
    pub answer: serde_json::Value,
}

/// A figure that was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Observed {
    /// As in a prediction.
    pub what: String,
    /// As in a prediction.
    pub at: f64,
    /// As in a prediction.
    #[serde(default)]
    pub cores: Option<u32>,
    pub value: f64,
}

/// An answer that is shown, kept, and held against what comes.
pub trait Answer: Serialize {
    /// Which question it is to, whose, and of what workload.
    fn about(&self) -> (Kind, String, String);

    /// What can be held against what comes.
    fn predictions(&self) -> Vec<Prediction> {
        Vec::new()
    }

    /// What was measured for it.
    fn observed(&self) -> Vec<Observed> {
        Vec::new()
    }

    /// Whether the answer is yes: something is predicted, nothing is broken.
    fn is_good(&self) -> bool;

    /// As text.
    fn text(&self) -> String;
}

impl Entry {
    /// An answer as it is kept.
    ///
    /// # Errors
    /// It is no JSON.
    pub fn of(answer: &impl Answer) -> serde_json::Result<Self> {
        let (kind, subject, workload) = answer.about();
        let (predictions, seen) = (answer.predictions(), answer.observed());
        let answer = serde_json::to_value(answer)?;
        Ok(Self { at: now(), kind, subject, workload, predictions, seen, answer })
    }
}

/// What went wrong with the file.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// It cannot be read or written.
    #[error("{path}: {source}")]
    File { path: PathBuf, source: std::io::Error },
    /// A line is something else.
    #[error("{path}:{line}: not a line of past answers: {source}")]
    Line {
        path: PathBuf,
        /// From 1.
        line: usize,
        source: serde_json::Error,
    },
}

/// Seconds since 1970 UTC.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Appends an answer.
///
/// # Errors
/// The file cannot be written.
pub fn keep(path: &Path, entry: &Entry) -> Result<(), LedgerError> {
    let failed = |source| LedgerError::File { path: path.to_owned(), source };
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory).map_err(failed)?;
    }
    let line = serde_json::to_string(entry).map_err(std::io::Error::from).map_err(failed)? + "\n";
    let mut file = std::fs::File::options().create(true).append(true).open(path).map_err(failed)?;
    file.write_all(line.as_bytes()).and_then(|()| file.sync_data()).map_err(failed)
}

/// All answers, oldest first; none where there is no file yet. A last line without its end was not finished,
/// and is left out.
///
/// # Errors
/// It cannot be read, or holds something else.
pub fn read(path: &Path) -> Result<Vec<Entry>, LedgerError> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => return Err(LedgerError::File { path: path.to_owned(), source }),
    };
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let entry = |(at, line): (usize, &str)| {
        serde_json::from_str(line).map_err(|source| LedgerError::Line {
            path: path.to_owned(),
            line: at + 1,
            source,
        })
    };
    whole.lines().enumerate().filter(|(_, line)| !line.is_empty()).map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(at: u64) -> Entry {
        Entry {
            at,
            kind: Kind::Load,
            subject: "db1".into(),
            workload: "oltp".into(),
            predictions: Vec::new(),
            seen: Vec::new(),
            answer: serde_json::json!({"x": 1}),
        }
    }

    #[test]
    fn answers_are_appended_and_an_unfinished_line_is_left_out() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/plan.jsonl");
        assert!(read(&path).unwrap().is_empty());
        keep(&path, &entry(1)).unwrap();
        keep(&path, &entry(2)).unwrap();
        let mut file = std::fs::File::options().append(true).open(&path).unwrap();
        file.write_all(b"{\"at\":3,").unwrap();
        let all = read(&path).unwrap();
        assert_eq!(all.iter().map(|one| one.at).collect::<Vec<_>>(), [1, 2]);
        std::fs::write(&path, "nonsense\n").unwrap();
        assert!(read(&path).unwrap_err().to_string().contains("plan.jsonl:1:"));
    }
}
