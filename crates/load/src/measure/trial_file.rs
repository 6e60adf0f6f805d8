//! The file of trials: a line of JSON that says what is measured, then one for each trial. A search goes on
//! from it.

use super::{Objective, Trial};
use crate::LoadError;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

/// What the trials of a file are of: those of different measurements must not be mixed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Heading {
    /// What is sent.
    pub workload: String,
    /// Whereto, in words.
    pub target: String,
    /// What must hold.
    pub objective: Objective,
    /// Clients: with fewer they may be the limit. `None` in files of a time when it was not kept.
    #[serde(default)]
    pub clients: Option<u32>,
}

/// Where trials are appended.
#[derive(Debug)]
pub struct TrialFile {
    file: File,
    path: PathBuf,
}

impl TrialFile {
    /// Opens a file or makes it; what is in it already. Half of a last line, as a killed process leaves it,
    /// is cut off.
    ///
    /// # Errors
    /// A file that cannot be read or written, one that holds something else, and trials of another
    /// measurement.
    pub fn open(path: &Path, heading: &Heading) -> Result<(Self, Vec<Trial>), LoadError> {
        let failed = |source| LoadError::TrialFile { path: path.to_owned(), source };
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
            Err(error) => return Err(failed(error)),
        };
        let no_line = |number: usize| {
            move |source| LoadError::TrialLine { path: path.to_owned(), line: number, source }
        };
        // Without any whole line it is none of ours.
        let (whole, torn) = text.rfind('\n').map_or((text.as_str(), ""), |end| text.split_at(end + 1));
        let mut lines = whole.lines().enumerate();
        if let Some((_, first)) = lines.next() {
            let found: Heading = serde_json::from_str(first).map_err(no_line(1))?;
            let clients = found.clients.or(heading.clients);
            if (Heading { clients, ..found.clone() }) != *heading {
                return Err(LoadError::OtherMeasurement { path: path.to_owned(), found: Box::new(found) });
            }
        }
        let trial = |(number, line)| serde_json::from_str(line).map_err(no_line(number + 1));
        let mut trials = lines.map(trial).collect::<Result<Vec<Trial>, _>>()?;
        let file = File::options().create(true).append(true).open(path).map_err(failed)?;
        let last = (!torn.is_empty()).then(|| serde_json::from_str::<Trial>(torn));
        if let Some(Err(_)) = last {
            file.set_len(whole.len() as u64).map_err(failed)?;
        } else if !text.is_empty() && !text.ends_with('\n') {
            (&file).write_all(b"\n").map_err(failed)?;
        }
        trials.extend(last.and_then(Result::ok));
        let file = Self { file, path: path.to_owned() };
        if text.is_empty() {
            file.append(heading)?;
        }
        Ok((file, trials))
    }

    /// Appends a trial.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn push(&self, trial: &Trial) -> Result<(), LoadError> {
        self.append(trial)
    }

    fn append(&self, value: &impl Serialize) -> Result<(), LoadError> {
        let line = serde_json::to_string(value).map_err(io::Error::from);
        let written = line.and_then(|line| (&self.file).write_all((line + "\n").as_bytes()));
        written.map_err(|source| LoadError::TrialFile { path: self.path.clone(), source })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heading() -> Heading {
        let objective = Objective::parse("p99 < 15ms").unwrap();
        Heading { workload: "w".into(), target: "db1".into(), objective, clients: Some(8) }
    }

    #[test]
    fn trials_come_back_and_those_of_another_measurement_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("trials.jsonl");
        let heading = heading();
        let trial = Trial { rate: 100.5, seconds: 10.0, due: 1005, lost: 3, ..Trial::default() };
        let (file, none) = TrialFile::open(&path, &heading).unwrap();
        assert!(none.is_empty());
        file.push(&trial).unwrap();
        assert_eq!(TrialFile::open(&path, &heading).unwrap().1, [trial]);
        let other = Heading { target: "db2".into(), ..heading.clone() };
        assert!(TrialFile::open(&path, &other).err().unwrap().to_string().contains("another measurement"));
        let other = Heading { clients: Some(64), ..heading.clone() };
        assert!(TrialFile::open(&path, &other).err().unwrap().to_string().contains("with 8 clients"));
        let unknown = std::fs::read_to_string(&path).unwrap().replace(",\"clients\":8", "");
        std::fs::write(&path, unknown).unwrap();
        assert_eq!(TrialFile::open(&path, &other).unwrap().1, [trial], "it was not kept");
        std::fs::write(&path, serde_json::to_string(&heading).unwrap() + "\n{\"rate\": 1\n").unwrap();
        assert!(TrialFile::open(&path, &heading).err().unwrap().to_string().contains("trials.jsonl:2"));
    }

    #[test]
    fn half_of_a_last_line_is_cut_off_and_a_whole_one_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("trials.jsonl");
        let heading = heading();
        let trial = Trial { rate: 100.5, seconds: 10.0, due: 1005, lost: 3, ..Trial::default() };
        TrialFile::open(&path, &heading).unwrap().0.push(&trial).unwrap();
        let whole = std::fs::read_to_string(&path).unwrap();
        for left in [format!("{whole}{{\"rate\": 1"), whole.trim_end().to_owned()] {
            std::fs::write(&path, left).unwrap();
            let (file, found) = TrialFile::open(&path, &heading).unwrap();
            assert_eq!(found, [trial]);
            file.push(&trial).unwrap();
            assert_eq!(TrialFile::open(&path, &heading).unwrap().1, [trial, trial]);
        }
        std::fs::write(&path, "somebody's notes").unwrap();
        assert!(TrialFile::open(&path, &heading).is_err());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "somebody's notes");
    }
}
