//! Where a run's files go: `benchmarks/runs/YYYY-MM-DD-<what>/`, never over an earlier run.

use anyhow::Context;
use probe::machine;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use term::{exit, terminal};

const RUNS: &str = "benchmarks/runs";
/// Smoke runs and unfinished ones are not kept beside real ones.
const SMOKE: &str = "target/bench";

/// A directory that will be made once there is something to put into it.
#[derive(Debug)]
pub(crate) struct Directory {
    path: PathBuf,
    date: String,
}

impl Directory {
    /// `given`, or today's in its usual place with a number behind it if that is there already.
    ///
    /// # Errors
    /// `given` is there already, and not empty.
    pub(crate) fn new(given: Option<&Path>, what: &str, smoke: bool) -> anyhow::Result<Self> {
        let date = machine::today();
        let path = match given {
            Some(path) if !is_free(path) => {
                anyhow::bail!(
                    "{} is not empty; runs are never overwritten, name another --out",
                    path.display()
                )
            }
            Some(path) => path.to_owned(),
            None => free(Path::new(if smoke { SMOKE } else { RUNS }), &format!("{date}-{what}")),
        };
        Ok(Self { path, date })
    }

    /// For what a run that failed had measured until then.
    pub(crate) fn unfinished(what: &str) -> Self {
        let date = machine::today();
        Self { path: free(Path::new(SMOKE), &format!("{date}-{what}-unfinished")), date }
    }

    /// Where it will be.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// `YYYY-MM-DD` when the run began, UTC.
    pub(crate) fn date(&self) -> &str {
        &self.date
    }

    /// Makes it.
    pub(crate) fn create(self) -> anyhow::Result<PathBuf> {
        std::fs::create_dir_all(&self.path).with_context(|| format!("making {}", self.path.display()))?;
        Ok(self.path)
    }
}

/// Keeps a run in `directory`: its report as JSON in `file`, `text` as `summary.md`. Prints one of them. "No"
/// unless all that was asked is met.
pub(crate) fn finish(
    directory: &Path,
    file: &str,
    report: &impl Serialize,
    text: &str,
    met: bool,
    json: bool,
) -> anyhow::Result<ExitCode> {
    write(directory, file, &(serde_json::to_string_pretty(report)? + "\n"))?;
    write(directory, "summary.md", text)?;
    if json {
        terminal::print_json(report)?;
    } else {
        terminal::print(text)?;
    }
    terminal::complain(&format!("kept in {}", directory.display()));
    Ok(if met { exit::DONE } else { exit::no() })
}

/// Writes one file of a run.
pub(crate) fn write(directory: &Path, name: &str, text: &str) -> anyhow::Result<()> {
    let path = directory.join(name);
    std::fs::write(&path, text).with_context(|| format!("writing {}", path.display()))
}

/// Where the lab of a bench lives: one place a user, so that the next run sweeps what a killed one left.
pub(crate) fn scratch() -> PathBuf {
    std::env::temp_dir().join(format!("headroom-bench-{}", rustix::process::getuid().as_raw()))
}

fn free(parent: &Path, name: &str) -> PathBuf {
    let numbered = (2..).map(|number| parent.join(format!("{name}-{number}")));
    let mut candidates = std::iter::once(parent.join(name)).chain(numbered);
    candidates.find(|path| is_free(path)).unwrap_or_else(|| parent.join(name))
}

fn is_free(path: &Path) -> bool {
    match std::fs::read_dir(path) {
        Ok(mut entries) => entries.next().is_none(),
        Err(_) => !path.exists(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_run_on_a_day_gets_a_number_and_an_explicit_directory_is_not_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(free(dir.path(), "2026-11-20-relay"), dir.path().join("2026-11-20-relay"));
        let first = dir.path().join("2026-11-20-relay");
        std::fs::create_dir(&first).unwrap();
        assert_eq!(free(dir.path(), "2026-11-20-relay"), first, "an empty one is free");
        std::fs::write(first.join("summary.md"), "x").unwrap();
        assert_eq!(free(dir.path(), "2026-11-20-relay"), dir.path().join("2026-11-20-relay-2"));
        assert!(Directory::new(Some(&first), "relay", false).is_err());
    }
}
