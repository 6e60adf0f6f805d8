//! The history of runs: one SQLite file, one row a run.
//!
//! What is looked for stands in columns, the rest of a run is its [`Outcome`] as JSON, histograms included:
//! an old file stays readable for any program that knows SQLite. Several processes may write at the same
//! time.

use crate::outcome::Outcome;
use rusqlite::{Connection, OptionalExtension, params};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Another process may hold the file this long.
const PATIENCE: Duration = Duration::from_secs(10);
/// Raised when the tables change their shape.
const VERSION: u32 = 1;

/// What went wrong with the history.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The file cannot be used.
    #[error("the history {path}: {source}")]
    Database {
        /// The file.
        path: PathBuf,
        source: rusqlite::Error,
    },
    /// Its directory cannot be made.
    #[error("cannot make the directory of the history {path}: {source}")]
    Directory {
        /// The file.
        path: PathBuf,
        source: std::io::Error,
    },
    /// A newer program has written it.
    #[error(
        "the history {path} was written by a newer headroom (version {found} of the file, we know {VERSION}); update headroom or name another --store"
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
    },
    /// A run's JSON does not read as an outcome.
    #[error("run {run} of the history {path} cannot be read: {source}")]
    Damaged {
        /// The file.
        path: PathBuf,
        run: i64,
        source: serde_json::Error,
    },
}

/// An open history.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    connection: Connection,
}

/// A run that is kept.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// Its number, from 1.
    pub id: i64,
    /// When it ended, seconds since 1970 UTC.
    pub at: u64,
    /// What the operator called it.
    pub label: String,
    /// Where it went.
    pub target: String,
    /// What came of it.
    pub outcome: Outcome,
}

impl Store {
    /// Opens the file; makes it, and its directory, when it is not there.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        if let Some(directory) = path.parent() {
            let failed = |source| StoreError::Directory { path: path.to_owned(), source };
            std::fs::create_dir_all(directory).map_err(failed)?;
        }
        let wrong = |source| StoreError::Database { path: path.to_owned(), source };
        let connection = Connection::open(path).map_err(wrong)?;
        connection.busy_timeout(PATIENCE).map_err(wrong)?;
        let found: u32 = connection.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(wrong)?;
        if found > VERSION {
            return Err(StoreError::Newer { path: path.to_owned(), found });
        }
        if found == 0 {
            let made = connection.execute_batch(&format!(
                "BEGIN IMMEDIATE; \
                 CREATE TABLE IF NOT EXISTS run (id INTEGER PRIMARY KEY, at INTEGER NOT NULL, workload TEXT NOT NULL, \
                 label TEXT NOT NULL, target TEXT NOT NULL, sound INTEGER NOT NULL, outcome TEXT NOT NULL); \
                 PRAGMA user_version = {VERSION}; COMMIT"
            ));
            made.map_err(wrong)?;
        }
        // A table beside the runs, which older programs do not look for: no reason to raise the version.
        let probes = "CREATE TABLE IF NOT EXISTS probe (id INTEGER PRIMARY KEY, at INTEGER NOT NULL, \
                      host TEXT NOT NULL, probe TEXT NOT NULL)";
        connection.execute_batch(probes).map_err(wrong)?;
        Ok(Self { path: path.to_owned(), connection })
    }

    /// Keeps what a host was found to be able to do at most, as JSON; `at` is seconds since 1970 UTC.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn keep_probe(&self, host: &str, at: u64, json: &str) -> Result<i64, StoreError> {
        let sql = "INSERT INTO probe (at, host, probe) VALUES (?, ?, ?)";
        self.connection.execute(sql, params![at as i64, host, json]).map_err(|source| self.wrong(source))?;
        Ok(self.connection.last_insert_rowid())
    }

    /// The last probes of a host, newest first, as they were kept.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn probes(&self, host: &str, count: u32) -> Result<Vec<String>, StoreError> {
        let sql = "SELECT probe FROM probe WHERE host = ? ORDER BY id DESC LIMIT ?";
        let wrong = |source| self.wrong(source);
        let mut statement = self.connection.prepare(sql).map_err(wrong)?;
        let rows = statement.query_map(params![host, count], |row| row.get(0)).map_err(wrong)?;
        rows.collect::<Result<_, _>>().map_err(wrong)
    }

    /// Keeps a run; its number.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn keep(&self, outcome: &Outcome, target: &str, label: &str) -> Result<i64, StoreError> {
        let at = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let json = serde_json::to_string(outcome).map_err(|source| StoreError::Damaged {
            path: self.path.clone(),
            run: 0,
            source,
        })?;
        let sql = "INSERT INTO run (at, workload, label, target, sound, outcome) VALUES (?, ?, ?, ?, ?, ?)";
        let values = params![at as i64, outcome.workload, label, target, outcome.is_sound(), json];
        self.connection.execute(sql, values).map_err(|source| self.wrong(source))?;
        Ok(self.connection.last_insert_rowid())
    }

    /// A run by its number.
    ///
    /// # Errors
    /// The file, or the run in it, cannot be read.
    pub fn run(&self, id: i64) -> Result<Option<Run>, StoreError> {
        Ok(self.select("WHERE id = ?", id)?.into_iter().next())
    }

    /// The last runs, newest first.
    ///
    /// # Errors
    /// As [`Store::run`].
    pub fn last(&self, count: u32) -> Result<Vec<Run>, StoreError> {
        self.select("ORDER BY id DESC LIMIT ?", i64::from(count))
    }

    /// How many runs are kept.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn count(&self) -> Result<u64, StoreError> {
        let count = self.connection.query_row("SELECT COUNT(*) FROM run", [], |row| row.get::<_, i64>(0));
        Ok(count.optional().map_err(|source| self.wrong(source))?.unwrap_or_default() as u64)
    }

    fn select(&self, which: &str, value: i64) -> Result<Vec<Run>, StoreError> {
        let sql = format!("SELECT id, at, label, target, outcome FROM run {which}");
        let mut statement = self.connection.prepare(&sql).map_err(|source| self.wrong(source))?;
        let rows = statement.query_map([value], |row| {
            let text: String = row.get(4)?;
            Ok((row.get(0)?, row.get::<_, i64>(1)?, row.get(2)?, row.get(3)?, text))
        });
        let mut runs = Vec::new();
        for row in rows.map_err(|source| self.wrong(source))? {
            let (id, at, label, target, text) = row.map_err(|source| self.wrong(source))?;
            let outcome = serde_json::from_str(&text).map_err(|source| StoreError::Damaged {
                path: self.path.clone(),
                run: id,
                source,
            })?;
            runs.push(Run { id, at: at as u64, label, target, outcome });
        }
        Ok(runs)
    }

    fn wrong(&self, source: rusqlite::Error) -> StoreError {
        StoreError::Database { path: self.path.clone(), source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arrivals::Arrivals;
    use crate::outcome::{Generator, Times, Totals};
    use crate::workload::Protocol;

    fn outcome() -> Outcome {
        let mut histogram = crate::counts::histogram();
        (1..=100_u64).for_each(|ms| histogram.saturating_record(ms * 1_000_000));
        Outcome {
            workload: "shop".into(),
            arrivals: Arrivals::poisson(123.5),
            protocol: Protocol::Prepared,
            clients: 4,
            idle: 0,
            threads: 1,
            seed: 1,
            seconds: 10.0,
            void: vec![],
            notes: vec![],
            totals: Totals::default(),
            response: Times::of(&histogram),
            service: None,
            transactions: vec![],
            statements: vec![],
            series: vec![],
            generator: Generator::default(),
        }
    }

    #[test]
    fn a_run_comes_back_as_it_was_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("below/history.sqlite");
        let first = Store::open(&path).unwrap().keep(&outcome(), "db1:3306", "before").unwrap();
        let store = Store::open(&path).unwrap();
        let second = store.keep(&outcome(), "db1:3306", "after").unwrap();
        assert_eq!((first, second, store.count().unwrap()), (1, 2, 2));
        let run = store.run(first).unwrap().unwrap();
        assert_eq!((run.label.as_str(), &run.outcome), ("before", &outcome()));
        let p50 = run.outcome.response.at(&[0.5]).unwrap()[0];
        assert!((p50 - 50.0).abs() < 0.1, "{p50}");
        let ids: Vec<_> = store.last(5).unwrap().iter().map(|run| run.id).collect();
        assert_eq!(ids, [2, 1]);
        assert!(store.run(9).unwrap().is_none());
    }

    #[test]
    fn a_file_of_a_newer_program_and_a_file_that_is_none_are_refused_in_words() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("history.sqlite");
        Store::open(&path).unwrap().connection.execute_batch("PRAGMA user_version = 99").unwrap();
        assert!(Store::open(&path).unwrap_err().to_string().contains("newer headroom"));
        std::fs::write(&path, "this is no database, whatever its name may say").unwrap();
        assert!(matches!(Store::open(&path), Err(StoreError::Database { .. })));
    }
}
