//! The file of trials: a line of JSON that says what is measured, then one for each trial. A search goes on from it.

use anyhow::{Context, bail};
use load::measure::{Objective, Trial};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::Path;

/// What the trials of a file are of: those of different measurements must not be mixed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Heading {
    pub(crate) workload: String,
    pub(crate) target: String,
    pub(crate) objective: Objective,
}

/// Where trials are appended.
pub(crate) struct TrialFile(File);

/// Opens a file or makes it; what is in it already.
///
/// # Errors
/// A file that cannot be read or written, one that holds something else, and trials of another measurement.
pub(crate) fn open(path: &Path, heading: &Heading) -> anyhow::Result<(TrialFile, Vec<Trial>)> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
    };
    let place = |number: usize| format!("{}:{number}: not a line of a measurement", path.display());
    let mut lines = text.lines().enumerate();
    if let Some((_, first)) = lines.next() {
        let found: Heading = serde_json::from_str(first).with_context(|| place(1))?;
        if found != *heading {
            bail!(
                "{} holds trials of {} at {} for p{} < {:?}, and this is another measurement; name another file",
                path.display(),
                found.workload,
                found.target,
                found.objective.percent(),
                found.objective.within
            );
        }
    }
    let trial = |(number, line)| serde_json::from_str(line).with_context(|| place(number + 1));
    let trials = lines.map(trial).collect::<anyhow::Result<Vec<Trial>>>()?;
    let failed = || format!("cannot write {}", path.display());
    let mut file = File::options().create(true).append(true).open(path).with_context(failed)?;
    if text.is_empty() {
        writeln!(file, "{}", serde_json::to_string(heading)?).with_context(failed)?;
    }
    Ok((TrialFile(file), trials))
}

impl TrialFile {
    /// Appends a trial.
    pub(crate) fn keep(&self, trial: &Trial) -> anyhow::Result<()> {
        let line = serde_json::to_string(trial)? + "\n";
        (&self.0).write_all(line.as_bytes()).context("cannot write the file of trials")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trials_come_back_and_those_of_another_measurement_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("trials.jsonl");
        let objective = Objective::parse("p99 < 15ms").unwrap();
        let heading = Heading { workload: "w".into(), target: "db1".into(), objective };
        let trial = Trial { rate: 100.5, seconds: 10.0, due: 1005, lost: 3, ..Trial::default() };
        let (file, none) = open(&path, &heading).unwrap();
        assert!(none.is_empty());
        file.keep(&trial).unwrap();
        assert_eq!(open(&path, &heading).unwrap().1, [trial]);
        let other = Heading { target: "db2".into(), ..heading.clone() };
        assert!(format!("{:#}", open(&path, &other).err().unwrap()).contains("another measurement"));
        std::fs::write(&path, serde_json::to_string(&heading).unwrap() + "\n{\"rate\": 1").unwrap();
        assert!(format!("{:#}", open(&path, &heading).err().unwrap()).contains("trials.jsonl:2"));
    }
}
