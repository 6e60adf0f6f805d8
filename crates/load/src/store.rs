//! The history of runs: one SQLite file, one row a run.
//!
//! What is looked for stands in columns, the rest of a run is its [`Outcome`] as JSON, histograms included:
//! an old file stays readable for any program that knows SQLite. Several processes may write at the same
//! time.

use crate::outcome::Outcome;
use rusqlite::{Connection, OpenFlags, OptionalExtension, params};
use std::fs::{OpenOptions, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Another process may hold the file this long.
const PATIENCE: Duration = Duration::from_secs(10);
/// Raised when the tables change their shape.
const VERSION: u32 = 1;
/// A history that other users read: the writer is its owner.
const READ_BY_ALL: u32 = 0o644;

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
    /// It cannot be made for all to read.
    #[error("the history {path}: {source}")]
    File {
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
        Self::prepared(path, connection)
    }

    /// The same where every user may read it; the file's directory must be there. The directory may belong to
    /// a user with fewer rights than ours: a link in the file's place is refused, and only a file that was
    /// made here gets its mode here.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn open_for_all_to_read(path: &Path) -> Result<Self, StoreError> {
        let failed = |source| StoreError::File { path: path.to_owned(), source };
        // A directory that is a link is the administrator's own way to arrange disks.
        let directory = path.parent().unwrap_or(Path::new("/")).canonicalize().map_err(failed)?;
        let real = directory.join(path.file_name().unwrap_or_default());
        // `create_new` follows no link, and the mode is set on the open file, whatever the umask.
        match OpenOptions::new().write(true).create_new(true).mode(READ_BY_ALL).open(&real) {
            Ok(file) => file.set_permissions(Permissions::from_mode(READ_BY_ALL)).map_err(failed)?,
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(failed(error)),
        }
        let wrong = |source| StoreError::Database { path: path.to_owned(), source };
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NOFOLLOW;
        let connection = Connection::open_with_flags(&real, flags).map_err(wrong)?;
        Self::prepared(path, connection)
    }

    /// Opens a file that is there, to read: nothing is made or written.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn read(path: &Path) -> Result<Self, StoreError> {
        let wrong = |source| StoreError::Database { path: path.to_owned(), source };
        let connection =
            Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).map_err(wrong)?;
        Self::understood(path, &connection)?;
        Ok(Self { path: path.to_owned(), connection })
    }

    /// The version of a file's tables, if this program knows it; 0 has none yet.
    fn understood(path: &Path, connection: &Connection) -> Result<u32, StoreError> {
        let wrong = |source| StoreError::Database { path: path.to_owned(), source };
        connection.busy_timeout(PATIENCE).map_err(wrong)?;
        let found: u32 = connection.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(wrong)?;
        if found > VERSION {
            return Err(StoreError::Newer { path: path.to_owned(), found });
        }
        Ok(found)
    }

    /// With the tables that are missing.
    fn prepared(path: &Path, connection: Connection) -> Result<Self, StoreError> {
        let wrong = |source| StoreError::Database { path: path.to_owned(), source };
        if Self::understood(path, &connection)? == 0 {
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
        let wrong = |source| self.wrong(source);
        // A file of an older program that is only read has no such table.
        let there = "SELECT EXISTS (SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'probe')";
        if !self.connection.query_row(there, [], |row| row.get::<_, bool>(0)).map_err(wrong)? {
            return Ok(Vec::new());
        }
        let sql = "SELECT probe FROM probe WHERE host = ? ORDER BY id DESC LIMIT ?";
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
            options: String::new(),
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
    fn a_history_for_all_is_readable_by_all_and_a_link_in_its_place_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("history.sqlite");
        Store::open_for_all_to_read(&path).unwrap().keep_probe("db1", 1, "{}").unwrap();
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&path), 0o644);
        Store::open_for_all_to_read(&path).unwrap().keep_probe("db1", 2, "[]").unwrap();
        assert_eq!(Store::read(&path).unwrap().probes("db1", 5).unwrap(), ["[]", "{}"]);

        let (private, link) = (dir.path().join("private"), dir.path().join("link"));
        std::fs::write(&private, "").unwrap();
        std::fs::set_permissions(&private, Permissions::from_mode(0o600)).unwrap();
        std::os::unix::fs::symlink(&private, &link).unwrap();
        Store::open_for_all_to_read(&link).unwrap_err();
        assert_eq!((mode(&private), private.metadata().unwrap().len()), (0o600, 0));
        let nowhere = dir.path().join("nowhere/history.sqlite");
        assert!(matches!(Store::open_for_all_to_read(&nowhere), Err(StoreError::File { .. })));
    }

    #[test]
    fn reading_makes_no_file_writes_nothing_and_takes_a_file_without_probes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("history.sqlite");
        assert!(matches!(Store::read(&path), Err(StoreError::Database { .. })));
        assert!(!path.exists());
        Store::open(&path).unwrap().connection.execute_batch("DROP TABLE probe").unwrap();
        let store = Store::read(&path).unwrap();
        assert!(store.probes("db1", 1).unwrap().is_empty());
        store.keep_probe("db1", 1, "{}").unwrap_err();
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
