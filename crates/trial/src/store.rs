//! What an experiment leaves on disk: a directory with its spec and a file of lines, each a JSON value. The
//! first line says how it was begun, then comes a line for each trial, in the end one that says how it ended.
//!
//! Lines are appended and synced, never rewritten. A crash leaves at most one torn line, the last: its trial
//! is run again. Damage elsewhere is refused.

use crate::guard::Window;
use crate::order::Run;
use crate::schedule::TrialSlot;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// The form of the lines.
const FORMAT: u32 = 1;
const LINES: &str = "trials.jsonl";
const SPEC: &str = "spec.toml";

/// Seconds since 1970 UTC.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "line", rename_all = "snake_case")]
enum Record {
    Begun(Begun),
    Trial(Trial),
    Ended(Ended),
}

/// How an experiment was begun.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Begun {
    /// The form of the lines.
    pub format: u32,
    /// Seconds since 1970.
    pub at: u64,
    /// The version of the program.
    pub version: String,
    /// The server's address; empty without one. Of several hosts each with its name.
    pub server: String,
    /// Whether a server runs on another machine: figures of the host are those of the one that sends.
    #[serde(default)]
    pub elsewhere: bool,
    /// On what: this machine, the version of each server, and what is sent, in words. Empty in experiments of
    /// versions that did not keep it.
    #[serde(default)]
    pub setup: Vec<(String, String)>,
    /// Each knob that is varied, with the value that it had.
    pub start: BTreeMap<String, String>,
    /// Levels that cannot be set here, known before anything was touched.
    pub refused: Vec<RefusedLevel>,
}

impl Begun {
    /// What is another by now, or there: what it is, as it was, as it is.
    pub fn setup_differs(&self, now: &[(String, String)]) -> Vec<(String, String, String)> {
        let differs = |(what, then): &(String, String)| {
            let (_, now) = now.iter().find(|(name, _)| name == what)?;
            (now != then).then(|| (what.clone(), then.clone(), now.clone()))
        };
        self.setup.iter().filter_map(differs).collect()
    }
}

/// A level that cannot be set here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedLevel {
    pub knob: String,
    pub level: String,
    pub why: String,
}

/// A trial that was run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Where in the experiment.
    pub place: TrialSlot,
    pub run: Run,
    /// When it began, seconds since 1970.
    pub at: u64,
    /// How long all of it took, seconds.
    pub seconds: f64,
    pub outcome: Outcome,
}

/// What came of a trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum Outcome {
    /// It has a figure.
    Measured(Box<Measured>),
    /// A setting was refused; it was not tried.
    Refused { why: String },
    /// A guard broke it off.
    GivenUp { why: String },
    /// Its figures must not be used.
    Void {
        why: String,
        /// It was too slow: the second time that gives the cell up.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        slow: bool,
    },
}

impl Outcome {
    /// For any reason but that it was too slow.
    pub fn void(why: String) -> Self {
        Self::Void { why, slow: false }
    }

    /// What cells are judged by.
    pub fn figure(&self) -> Option<f64> {
        match self {
            Self::Measured(measured) => Some(measured.figure),
            _ => None,
        }
    }
}

/// Figures of a trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// The primary metric.
    pub figure: f64,
    pub window: Window,
    /// Length of the warm-up, seconds.
    pub warm_up_s: f64,
    /// Whether the warm-up ended because the load was steady, and not because its time was over; `None` where
    /// it had too few transactions to tell.
    pub steady: Option<bool>,
    pub series: Vec<Second>,
    pub host: HostFigures,
    /// What `diagnose` named as the bottleneck while it was measured.
    #[serde(default)]
    pub bottleneck: Option<String>,
    /// What else to know.
    pub notes: Vec<String>,
}

/// One second of a measurement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Second {
    /// Transactions that ended well.
    pub done: u64,
    pub failed: u64,
    /// 99 % of response times are shorter, ms.
    pub p99_ms: f64,
}

/// This host during a measurement: why a cell is as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HostFigures {
    /// CPU that was busy, share of all.
    pub cpu: f64,
    /// Of that, in the kernel.
    pub system: f64,
    /// Of that, soft interrupts.
    pub softirq: f64,
    /// Idle and waiting for a disk.
    pub iowait: f64,
    /// Taken by the hypervisor.
    pub steal: f64,
    /// Context switches a transaction.
    pub switches: f64,
    /// KiB read from disks a transaction.
    pub read_kib: f64,
    /// KiB written to disks a transaction.
    pub written_kib: f64,
    /// Flushes of disks a transaction.
    pub flushes: f64,
    /// Memory in use in the end, share of all.
    pub memory: f64,
    /// CPUs that were online; `None` in experiments of versions that did not keep it.
    #[serde(default)]
    pub cpus: Option<u32>,
    /// Share of the time in which a limit of CPU held somebody back.
    #[serde(default)]
    pub throttled: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ended {
    /// Seconds since 1970.
    pub at: u64,
    /// Whether all trials were run; else its time was over.
    pub complete: bool,
    /// Knobs that are not as they were at the start: knob, then, now.
    pub differ: Vec<(String, String, String)>,
    /// The baseline once more after everything, for each load; `None` where it was void.
    pub back: Vec<Option<f64>>,
}

/// What went wrong with the directory.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// There is an experiment.
    #[error("{0} holds an experiment already; go on with it by --resume, or name another with --dir")]
    Exists(PathBuf),
    /// There is none.
    #[error("{0} holds no experiment; name the directory of a headroom trial run (--dir, else trial-NAME)")]
    Missing(PathBuf),
    /// A spec of somebody's, where ours would be kept.
    #[error(
        "{0} is there already, and is another spec: it would be written over; name another directory with \
         --dir"
    )]
    SpecThere(PathBuf),
    /// The spec was changed meanwhile.
    #[error(
        "{0} was begun with another spec; what was measured by one does not go on with another: go on with \
         the spec.toml that is kept there, or name another --dir"
    )]
    OtherSpec(PathBuf),
    /// It was begun on another server.
    #[error("{dir} was begun on {begun}, not on {named}; go on with --server {begun}, or name another --dir")]
    OtherServer {
        dir: PathBuf,
        /// In the words of its first line.
        begun: String,
        named: String,
    },
    /// Damage before the last line.
    #[error("{path} is damaged at line {line}: {why}")]
    Damaged {
        path: PathBuf,
        /// From 1.
        line: usize,
        why: String,
    },
    /// Reading or writing failed.
    #[error("cannot {what} {path}: {source}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub struct History {
    /// The spec's text.
    pub spec: String,
    pub begun: Begun,
    /// What was run, in order.
    pub trials: Vec<Trial>,
    /// How it ended, if it did.
    pub ended: Option<Ended>,
}

/// An experiment's directory, open for writing.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    file: File,
}

fn io(what: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> StoreError {
    let path = path.to_owned();
    move |source| StoreError::Io { what, path, source }
}

impl Store {
    /// Begins an experiment.
    ///
    /// # Errors
    /// There is one already, or another spec; the directory cannot be written.
    pub fn create(dir: &Path, spec: &str, begun: &Begun) -> Result<Self, StoreError> {
        let (path, kept) = (dir.join(LINES), dir.join(SPEC));
        std::fs::create_dir_all(dir).map_err(io("make", dir))?;
        let cut_off = Self::is_cut_off(dir, spec)?;
        if !std::fs::read(&kept).is_ok_and(|there| there == spec.as_bytes()) {
            let mut file = File::create(&kept).map_err(io("make", &kept))?;
            let written = file.write_all(spec.as_bytes()).and_then(|()| file.sync_all());
            written.map_err(io("write", &kept))?;
        }
        if cut_off {
            // A crash before its first line was whole: there is nothing to go on with.
            std::fs::remove_file(&path).map_err(io("remove", &path))?;
        }
        let file = OpenOptions::new().append(true).create_new(true).open(&path);
        let mut store = Self { file: file.map_err(io("make", &path))?, path };
        store.append(&Record::Begun(Begun { format: FORMAT, ..begun.clone() }))?;
        File::open(dir).and_then(|dir| dir.sync_all()).map_err(io("write", dir))?;
        Ok(store)
    }

    /// Whether one can be begun there, asked before a server is touched; nothing is made.
    ///
    /// # Errors
    /// There is an experiment, or another spec.
    pub fn check(dir: &Path, spec: &str) -> Result<(), StoreError> {
        Self::is_cut_off(dir, spec).map(drop)
    }

    /// Whether one was begun there that ended before its first line was whole.
    fn is_cut_off(dir: &Path, spec: &str) -> Result<bool, StoreError> {
        let (path, kept) = (dir.join(LINES), dir.join(SPEC));
        let cut_off = match std::fs::read(&path) {
            Ok(lines) if lines.contains(&b'\n') => return Err(StoreError::Exists(dir.to_owned())),
            Ok(_) => true,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => false,
            Err(source) => return Err(io("read", &path)(source)),
        };
        match std::fs::read(&kept) {
            // The same one is perhaps the very file that was named.
            Ok(there) if there != spec.as_bytes() && !cut_off => Err(StoreError::SpecThere(kept)),
            _ => Ok(cut_off),
        }
    }

    /// Goes on with an experiment that was begun with the same spec on the same server. A torn last line is
    /// cut off.
    ///
    /// # Errors
    /// There is none, it has another spec or server, or it is damaged.
    pub fn resume(dir: &Path, spec: &str, server: &str) -> Result<(Self, History), StoreError> {
        let history = read(dir)?;
        if history.spec != spec {
            return Err(StoreError::OtherSpec(dir.to_owned()));
        }
        if history.begun.server != server {
            let (begun, named) = (history.begun.server, server.to_owned());
            return Err(StoreError::OtherServer { dir: dir.to_owned(), begun, named });
        }
        let path = dir.join(LINES);
        let text = std::fs::read(&path).map_err(io("read", &path))?;
        let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let file = OpenOptions::new().append(true).open(&path).map_err(io("open", &path))?;
        file.set_len(whole as u64).map_err(io("cut", &path))?;
        Ok((Self { path, file }, history))
    }

    /// Keeps a trial.
    ///
    /// # Errors
    /// The disk's.
    pub fn keep(&mut self, trial: &Trial) -> Result<(), StoreError> {
        self.append(&Record::Trial(trial.clone()))
    }

    /// Keeps how it ended.
    ///
    /// # Errors
    /// The disk's.
    pub fn end(&mut self, ended: &Ended) -> Result<(), StoreError> {
        self.append(&Record::Ended(ended.clone()))
    }

    fn append(&mut self, line: &Record) -> Result<(), StoreError> {
        let text = serde_json::to_string(line).map_err(std::io::Error::other);
        let written = text.and_then(|text| self.file.write_all((text + "\n").as_bytes()));
        written.and_then(|()| self.file.sync_data()).map_err(io("write", &self.path))
    }
}

/// Reads an experiment, whether it is under way or over.
///
/// # Errors
/// There is none, or it is damaged.
pub fn read(dir: &Path) -> Result<History, StoreError> {
    let path = dir.join(LINES);
    let bytes = match std::fs::read(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(StoreError::Missing(dir.to_owned()));
        }
        bytes => bytes.map_err(io("read", &path))?,
    };
    let spec = std::fs::read_to_string(dir.join(SPEC)).map_err(io("read", &dir.join(SPEC)))?;
    let damaged = |line: usize, why: String| StoreError::Damaged { path: path.clone(), line, why };
    let (mut begun, mut trials, mut ended) = (None, Vec::new(), None);
    // Without its line end the last one is torn, perhaps within a letter.
    let whole = bytes.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n"));
    for (at, line) in whole.enumerate() {
        match serde_json::from_slice(line).map_err(|error| damaged(at + 1, error.to_string()))? {
            Record::Begun(Begun { format, .. }) if format > FORMAT => {
                return Err(damaged(at + 1, format!("format {format} is of a newer version")));
            }
            Record::Begun(line) => begun = Some(line),
            Record::Trial(trial) => {
                // It was continued.
                ended = None;
                trials.push(trial);
            }
            Record::Ended(line) => ended = Some(line),
        }
    }
    let begun = begun.ok_or_else(|| StoreError::Missing(dir.to_owned()))?;
    Ok(History { spec, begun, trials, ended })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::schedule::Next;

    pub(crate) const EXAMPLE: &str = "name = \"t\"\nmetric = \"throughput\"\n[load]\nworkload = \"w\"\n\
        threads = [4]\n[design]\nkind = \"one-at-a-time\"\n[[factor]]\nknob = \"server.a\"\n\
        levels = [\"0\", \"1\", \"2\"]\n[[factor]]\nknob = \"server.b\"\nlevels = [\"0\", \"1\", \"2\"]\n\
        [[stage]]\ncells = 4\nblocks = 1\n[[stage]]\ncells = 2\nblocks = 3\n";

    pub(crate) fn measured(figure: f64) -> Outcome {
        let window = Window { per_second: figure, p99_ms: 10.0, ..Window::default() };
        Outcome::Measured(Box::new(Measured { figure, window, steady: Some(true), ..Measured::default() }))
    }

    pub(crate) fn trial(next: Next, outcome: Outcome) -> Trial {
        Trial { place: next.place, run: next.run, at: 1, seconds: 1.0, outcome }
    }

    pub(crate) fn begun() -> Begun {
        let start = [("server.a".to_owned(), "0".to_owned()), ("server.b".to_owned(), "0".to_owned())];
        Begun {
            format: FORMAT,
            at: 1,
            version: "test".to_owned(),
            server: "127.0.0.1:1".to_owned(),
            elsewhere: false,
            setup: vec![("server".to_owned(), "10.11.6-MariaDB".to_owned())],
            start: start.into(),
            refused: Vec::new(),
        }
    }

    fn first(outcome: Outcome) -> Trial {
        let place = TrialSlot { load: 0, stage: 0, block: 0, position: 0, attempt: 0 };
        trial(Next { place, run: Run::Cell(3), slow_before: false }, outcome)
    }

    #[test]
    fn what_was_written_is_read_again_and_a_torn_line_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = Store::create(dir.path(), EXAMPLE, &begun()).unwrap();
        let trials = [first(measured(7.5)), first(Outcome::void("late".to_owned()))];
        for trial in &trials {
            store.keep(trial).unwrap();
        }
        store.file.write_all(b"{\"line\":\"trial\",\"why\":\"\xc3").unwrap();
        drop(store);
        let read_back = read(dir.path()).unwrap();
        assert_eq!((read_back.trials.as_slice(), read_back.ended), (&trials[..], None));

        let (mut store, _) = Store::resume(dir.path(), EXAMPLE, "127.0.0.1:1").unwrap();
        store.keep(&trials[0]).unwrap();
        let ended = Ended { at: 2, complete: true, differ: Vec::new(), back: vec![Some(1.0)] };
        store.end(&ended).unwrap();
        let read_back = read(dir.path()).unwrap();
        assert_eq!((read_back.trials.len(), read_back.ended), (3, Some(ended)), "the torn line was dropped");
    }

    #[test]
    fn what_it_runs_on_is_held_against_what_it_was_begun_on() {
        let setup = |version: &str| vec![("server".to_owned(), version.to_owned())];
        assert!(begun().setup_differs(&setup("10.11.6-MariaDB")).is_empty());
        let found = begun().setup_differs(&setup("11.8.3-MariaDB"));
        assert_eq!(found[0].2, "11.8.3-MariaDB");
        let older = Begun { setup: Vec::new(), ..begun() };
        assert!(older.setup_differs(&setup("11.8.3-MariaDB")).is_empty(), "nothing was kept");
    }

    #[test]
    fn one_that_ended_before_its_first_line_was_whole_is_begun_anew() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(SPEC), "an earlier text").unwrap();
        std::fs::write(dir.path().join(LINES), b"{\"line\":\"beg").unwrap();
        assert!(matches!(Store::resume(dir.path(), EXAMPLE, "").map(drop), Err(StoreError::Missing(_))));
        drop(Store::create(dir.path(), EXAMPLE, &begun()).unwrap());
        let read_back = read(dir.path()).unwrap();
        assert_eq!((read_back.spec.as_str(), read_back.trials.len()), (EXAMPLE, 0));
    }

    #[test]
    fn a_spec_that_somebody_has_in_the_directory_is_not_written_over() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(SPEC);
        std::fs::write(&path, "name = \"mine\"\n").unwrap();
        assert!(matches!(Store::check(dir.path(), EXAMPLE), Err(StoreError::SpecThere(_))));
        Store::check(&dir.path().join("new"), EXAMPLE).unwrap();
        assert!(!dir.path().join("new").exists(), "nothing is made by asking");
        let refused = Store::create(dir.path(), EXAMPLE, &begun()).unwrap_err();
        assert!(matches!(&refused, StoreError::SpecThere(there) if *there == path), "{refused}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "name = \"mine\"\n");
        assert!(!dir.path().join(LINES).exists());
        // The same one is what it would write.
        std::fs::write(&path, EXAMPLE).unwrap();
        assert!(Store::create(dir.path(), EXAMPLE, &begun()).is_ok());
    }

    #[test]
    fn an_experiment_is_neither_overwritten_nor_mixed_with_another() {
        let dir = tempfile::tempdir().unwrap();
        assert!(matches!(read(dir.path()), Err(StoreError::Missing(_))));
        drop(Store::create(dir.path(), EXAMPLE, &begun()).unwrap());
        let again = Store::create(dir.path(), EXAMPLE, &begun());
        assert!(matches!(again, Err(StoreError::Exists(_))));
        assert!(matches!(Store::check(dir.path(), EXAMPLE), Err(StoreError::Exists(_))));
        let resume = |spec, server| Store::resume(dir.path(), spec, server).map(drop);
        let other = resume("other", "127.0.0.1:1").unwrap_err();
        assert!(matches!(&other, StoreError::OtherSpec(_)) && other.to_string().contains("--dir"), "{other}");
        let words = resume(EXAMPLE, "127.0.0.2:1").unwrap_err().to_string();
        assert!(words.contains("begun on 127.0.0.1:1, not on 127.0.0.2:1"), "{words}");
        let path = dir.path().join(LINES);
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, format!("{text}nonsense\n{text}")).unwrap();
        assert!(matches!(read(dir.path()), Err(StoreError::Damaged { line: 2, .. })));
    }
}
