//! Answers as they were given, with their predictions: a file of JSON lines, appended to and never rewritten,
//! so that a prediction cannot be changed once the outcome is known.

use plan::Interval;
use serde::{Deserialize, Serialize};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
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

    /// What is taken to hold without having been measured, in sentences.
    fn assumptions(&self) -> Vec<String> {
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
    /// No line is an answer: another file.
    #[error("{path}: no line of it is a past answer; the first is not because of: {source}")]
    Other { path: PathBuf, source: serde_json::Error },
}

/// What is in the file.
#[derive(Clone, Debug, Default)]
pub struct Past {
    /// Oldest first.
    pub entries: Vec<Entry>,
    /// Lines that cannot be read, from 1: one that was cut off by a full disk or a kill, or that somebody
    /// changed.
    pub unreadable: Vec<usize>,
}

impl Past {
    /// What is said of the lines that cannot be read.
    pub fn note(&self, path: &Path) -> Option<String> {
        let lines: Vec<String> = self.unreadable.iter().map(usize::to_string).collect();
        (!lines.is_empty()).then(|| {
            format!(
                "{} line(s) of {} cannot be read and are left out: line {}",
                lines.len(),
                path.display(),
                lines.join(", ")
            )
        })
    }
}

/// Seconds since 1970 UTC.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Appends an answer. What was cut off before is left as a line of its own.
///
/// # Errors
/// The file cannot be written.
pub fn keep(path: &Path, entry: &Entry) -> Result<(), LedgerError> {
    let failed = |source| LedgerError::File { path: path.to_owned(), source };
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory).map_err(failed)?;
    }
    let line = serde_json::to_string(entry).map_err(std::io::Error::from).map_err(failed)? + "\n";
    let mut file =
        std::fs::File::options().create(true).read(true).append(true).open(path).map_err(failed)?;
    let line = if is_cut_off(&mut file).map_err(failed)? { format!("\n{line}") } else { line };
    file.write_all(line.as_bytes()).and_then(|()| file.sync_data()).map_err(failed)
}

/// Whether the last line has no end.
fn is_cut_off(file: &mut std::fs::File) -> std::io::Result<bool> {
    if file.seek(SeekFrom::End(0))? == 0 {
        return Ok(false);
    }
    file.seek(SeekFrom::End(-1))?;
    let mut last = [0];
    file.read_exact(&mut last)?;
    Ok(last != *b"\n")
}

/// All answers; none where there is no file yet. A last line without its end was not finished, and is left
/// out.
///
/// # Errors
/// The file cannot be read, or is something else.
pub fn read(path: &Path) -> Result<Past, LedgerError> {
    let text = match std::fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Past::default()),
        Err(source) => return Err(LedgerError::File { path: path.to_owned(), source }),
    };
    let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(&[][..], |end| &text[..end]);
    let (mut past, mut first) = (Past::default(), None);
    for (at, line) in whole.split(|byte| *byte == b'\n').enumerate() {
        if line.trim_ascii().is_empty() {
            continue;
        }
        match serde_json::from_slice(line) {
            Ok(entry) => past.entries.push(entry),
            Err(error) => {
                past.unreadable.push(at + 1);
                first.get_or_insert(error);
            }
        }
    }
    match first {
        Some(source) if past.entries.is_empty() => Err(LedgerError::Other { path: path.to_owned(), source }),
        _ => Ok(past),
    }
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
        assert!(read(&path).unwrap().entries.is_empty());
        keep(&path, &entry(1)).unwrap();
        keep(&path, &entry(2)).unwrap();
        let mut file = std::fs::File::options().append(true).open(&path).unwrap();
        file.write_all(b"{\"at\":3,").unwrap();
        let at = |past: &Past| past.entries.iter().map(|one| one.at).collect::<Vec<_>>();
        let all = read(&path).unwrap();
        assert_eq!((at(&all), all.note(&path)), (vec![1, 2], None));
        // The next answer does not become the end of the unfinished line.
        keep(&path, &entry(4)).unwrap();
        let all = read(&path).unwrap();
        assert_eq!((at(&all), &all.unreadable[..]), (vec![1, 2, 4], &[3][..]));
        assert!(all.note(&path).unwrap().ends_with("are left out: line 3"));
        // Neither is half of a letter the end of all.
        std::fs::write(&path, [&b"{\"subject\":\"\xc3\n"[..], &std::fs::read(&path).unwrap()].concat())
            .unwrap();
        assert_eq!(at(&read(&path).unwrap()), [1, 2, 4]);
        std::fs::write(&path, "nonsense\n").unwrap();
        assert!(read(&path).unwrap_err().to_string().contains("plan.jsonl: no line of it"));
    }
}
