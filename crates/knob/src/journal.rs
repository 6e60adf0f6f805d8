//! The journal: what was there before each change, on disk before the change is made.
//!
//! One file, one record a line: a checksum, a blank, JSON. A record is appended and synced before the step
//! that it announces; the file itself is made under another name, synced, renamed and its directory synced.
//! So after a crash the file ends in at most one torn record, and the step of a torn record was never taken:
//! it is dropped. A damaged record before the last is no crash but damage, and is refused: an original value
//! may be in it.
//!
//! ```text
//! opened    entry 7: block.scheduler@vda was mq-deadline (and all that is one state with it), will be none
//!                    -> the setting is written, and read back
//! written   entry 7: read back none
//!                    -> ... until it is put back:
//! restoring entry 7
//!                    -> the original is written, and read back
//! closed    entry 7: restored
//! ```
//! One process at a time writes; it holds a lock on the file `lock` for as long as it lives, so an entry that
//! is open when the lock is free belongs to a process that is dead.

mod file;

use crate::error::Error;
use crate::host::{Host, Step};
use crate::identity::Facts;
use crate::item::ItemValue;
use file::Lines;
use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Raised when records change their shape.
pub(crate) const FORMAT: u32 = 1;
/// A file longer than this is set aside once nothing in it is open.
const LONG: u64 = 1 << 20;
/// For the owner alone, also in a directory that is for others, too: an original value may be nobody else's
/// business.
const OWNER: u32 = 0o600;

/// Who made a change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Author {
    /// The user's name or number.
    pub user: String,
    pub pid: u32,
    /// What was run.
    pub command: String,
}

impl Author {
    /// This process, which runs this command.
    pub fn here(command: impl Into<String>) -> Self {
        Self {
            user: rustix::process::getuid().as_raw().to_string(),
            pid: std::process::id(),
            command: command.into(),
        }
    }
}

/// What is known before a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Intent {
    /// The knob with its target.
    pub knob: String,
    /// The value that was asked for, canonical.
    pub value: String,
    /// The name of the state that the knob is part of.
    pub key: String,
    /// Members where writing one sets another to zero.
    pub twins: bool,
    /// Whether it lasts over a reboot.
    pub lasts: bool,
    /// What will be written.
    pub writes: Vec<ItemValue>,
    /// The whole state before, in the order in which it is put back.
    pub before: Vec<ItemValue>,
    pub facts: Facts,
    /// Which boot of the host.
    pub boot: String,
    /// When, seconds since 1970 UTC.
    pub at: u64,
    pub author: Author,
    /// Whether it stays when the process ends.
    pub keep: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "how", rename_all = "snake_case")]
pub enum End {
    /// The setting was refused, and what was there is there.
    Refused { why: String },
    /// Put back.
    Restored,
    /// It was back already.
    Already,
    /// The host (or the server) has started anew since, which put it back.
    Restarted,
    /// Somebody else has changed it since: left as they set it.
    Left { why: String },
    /// The thing it was made to is not there any more.
    Gone { why: String },
    /// Closed because somebody asked for that: nothing was put back.
    Forgotten {
        /// What it was left at, by item.
        left: String,
    },
}

/// How far an entry has come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "phase", rename_all = "snake_case")]
pub enum Phase {
    /// Announced; whether it was written is not known.
    Opened,
    /// Written, and this was read back: the whole state.
    Written {
        /// The state as we left it.
        after: Vec<ItemValue>,
    },
    /// Being put back.
    Restoring {
        /// The state as we left it, if it was known.
        after: Option<Vec<ItemValue>>,
    },
    Closed {
        end: End,
        /// When, seconds since 1970 UTC.
        at: u64,
    },
}

/// One change, with everything that happened to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Its number, from 1.
    pub id: u64,
    /// What was known before.
    #[serde(flatten)]
    pub intent: Intent,
    /// How far it has come.
    #[serde(flatten)]
    pub phase: Phase,
}

impl Entry {
    /// Whether something is left to be put back.
    pub fn is_open(&self) -> bool {
        !matches!(self.phase, Phase::Closed { .. })
    }
}

/// One line of the file.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case")]
pub(crate) enum Record {
    /// The first line.
    Header { format: u32 },
    /// A change is about to be made.
    Opened { entry: u64, intent: Box<Intent> },
    /// It was made.
    Written { entry: u64, after: Vec<ItemValue> },
    /// They are about to be put back, together: entries of one state.
    Restoring { entries: Vec<u64> },
    /// They are over, together: with one of them closed alone, a crash would leave half a state to put back.
    Closed { entries: Vec<u64>, end: End, at: u64 },
}

/// An open journal, which no other process can open meanwhile.
pub struct Journal {
    directory: PathBuf,
    host: Host,
    file: File,
    _lock: Lock,
    length: u64,
    entries: Vec<Entry>,
    dropped: Option<String>,
}

impl std::fmt::Debug for Journal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Journal")
            .field("directory", &self.directory)
            .field("length", &self.length)
            .finish_non_exhaustive()
    }
}

impl Journal {
    /// Opens the journal for writing; makes it, and its directory, when it is not there.
    ///
    /// # Errors
    /// Another process holds it, it is damaged, newer than we are, or cannot be written.
    pub fn open(directory: &Path, host: &Host) -> Result<Self, Error> {
        make_directory(directory)?;
        let lock = lock(directory)?;
        let path = file_of(directory);
        if !path.exists() {
            create(directory, host)?;
        }
        let failed = |what| move |source| Error::Journal { what, path: file_of(directory), source };
        let mut open = std::fs::OpenOptions::new();
        let mut file = open.read(true).append(true).open(&path).map_err(failed("open"))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(failed("read"))?;
        let lines = file::lines(&path, &bytes)?;
        if lines.length < bytes.len() as u64 {
            // What is torn goes before anything is appended to it.
            file.set_len(lines.length).and_then(|()| file.sync_all()).map_err(failed("mend"))?;
        }
        let Lines { records, length, dropped } = lines;
        let entries = fold(&path, records)?;
        let mut journal = Self {
            directory: directory.to_owned(),
            host: host.clone(),
            file,
            _lock: lock,
            length,
            entries,
            dropped,
        };
        if journal.length > LONG && journal.open_entries().next().is_none() {
            journal.set_aside()?;
        }
        Ok(journal)
    }

    /// The entries of a journal that may be in use, without waiting for anybody; none where there is no
    /// journal.
    ///
    /// # Errors
    /// It is damaged, newer than we are, or cannot be read.
    pub fn read(directory: &Path) -> Result<Vec<Entry>, Error> {
        let path = file_of(directory);
        match std::fs::read(&path) {
            Ok(bytes) => fold(&path, file::lines(&path, &bytes)?.records),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(source) => Err(Error::Journal { what: "read", path, source }),
        }
    }

    /// Every entry, oldest first.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Entries with something left to be put back, oldest first.
    pub fn open_entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(|entry| entry.is_open())
    }

    /// What a crash had torn, and was dropped when the journal was opened; in words.
    pub fn dropped(&self) -> Option<&str> {
        self.dropped.as_deref()
    }

    /// Announces a change. When this returns, the original values are on disk.
    pub(crate) fn announce(&mut self, intent: Intent) -> Result<u64, Error> {
        let id = self.entries.last().map_or(1, |entry| entry.id + 1);
        self.append(&Record::Opened { entry: id, intent: Box::new(intent.clone()) })?;
        self.entries.push(Entry { id, intent, phase: Phase::Opened });
        Ok(id)
    }

    /// Notes that a change was made.
    pub(crate) fn written(&mut self, id: u64, after: Vec<ItemValue>) -> Result<(), Error> {
        self.append(&Record::Written { entry: id, after: after.clone() })?;
        self.set(id, |_| Phase::Written { after });
        Ok(())
    }

    /// Announces that changes of one state are put back.
    pub(crate) fn restoring(&mut self, ids: &[u64]) -> Result<(), Error> {
        self.append(&Record::Restoring { entries: ids.to_vec() })?;
        ids.iter().for_each(|id| self.set(*id, restoring));
        Ok(())
    }

    /// Ends entries of one state.
    pub(crate) fn close(&mut self, ids: &[u64], end: &End, at: u64) -> Result<(), Error> {
        self.append(&Record::Closed { entries: ids.to_vec(), end: end.clone(), at })?;
        ids.iter().for_each(|id| self.set(*id, |_| Phase::Closed { end: end.clone(), at }));
        Ok(())
    }

    fn set(&mut self, id: u64, next: impl FnOnce(Phase) -> Phase) {
        if let Some(entry) = self.entries.iter_mut().find(|entry| entry.id == id) {
            entry.phase = next(entry.phase.clone());
        }
    }

    fn append(&mut self, record: &Record) -> Result<(), Error> {
        let line = file::line(record);
        let to = self.length + line.len() as u64;
        let appended = (|| {
            self.host.effects().before(Step::Append { from: self.length, to })?;
            self.file.write_all(&line)?;
            self.host.effects().before(Step::Sync(to))?;
            self.file.sync_data()
        })();
        match appended {
            Ok(()) => {
                self.length = to;
                Ok(())
            }
            Err(source) => {
                // Half a line must not stand before the next one; a crash between the two is what `lines`
                // forgives.
                let _ = self.file.set_len(self.length);
                Err(Error::Journal { what: "write", path: file_of(&self.directory), source })
            }
        }
    }

    /// A long journal in which nothing is open becomes `journal.old`, in the place of the one before.
    fn set_aside(&mut self) -> Result<(), Error> {
        let path = file_of(&self.directory);
        let failed = |source| Error::Journal { what: "set aside", path: file_of(&self.directory), source };
        std::fs::rename(&path, self.directory.join("journal.old")).map_err(failed)?;
        create(&self.directory, &self.host)?;
        let mut open = std::fs::OpenOptions::new();
        self.file = open.read(true).append(true).open(&path).map_err(failed)?;
        self.length = self.file.metadata().map_err(failed)?.len();
        // Numbers go on from the newest.
        self.entries.drain(..self.entries.len().saturating_sub(1));
        Ok(())
    }
}

fn restoring(phase: Phase) -> Phase {
    match phase {
        Phase::Written { after } => Phase::Restoring { after: Some(after) },
        Phase::Restoring { after } => Phase::Restoring { after },
        _ => Phase::Restoring { after: None },
    }
}

fn file_of(directory: &Path) -> PathBuf {
    directory.join("journal")
}

/// For the owner alone: an original value may be nobody else's business.
fn make_directory(directory: &Path) -> Result<(), Error> {
    if directory.is_dir() {
        return Ok(());
    }
    let failed = |source| Error::Journal { what: "make the directory", path: directory.to_owned(), source };
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(failed)?;
    let parent = directory.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(parent).and_then(|parent| parent.sync_all()).map_err(failed)
}

/// The lock. It is released explicitly: a child that another thread is starting just now has a copy
/// of the descriptor until it runs its program, and would hold the lock meanwhile.
struct Lock(File);

impl Drop for Lock {
    fn drop(&mut self) {
        // Where this fails the end of the last copy gives it up.
        let _ = rustix::fs::flock(&self.0, FlockOperation::Unlock);
    }
}

fn lock(directory: &Path) -> Result<Lock, Error> {
    let path = directory.join("lock");
    let failed = |what| {
        let path = path.clone();
        move |source: std::io::Error| Error::Journal { what, path, source }
    };
    let mut open = std::fs::OpenOptions::new();
    let mut file = open
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(OWNER)
        .open(&path)
        .map_err(failed("open"))?;
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(rustix::io::Errno::WOULDBLOCK) => {
            let mut holder = String::new();
            // Who it is, is only a help: unread, the lock is held all the same.
            let _ = file.read_to_string(&mut holder);
            let holder = match holder.trim() {
                "" => "another process".to_owned(),
                pid => format!("process {pid}"),
            };
            return Err(Error::InUse { dir: directory.to_owned(), holder });
        }
        Err(error) => return Err(failed("lock")(error.into())),
    }
    // A help, too: on a full disk settings are put back all the same.
    let _ = file.set_len(0).and_then(|()| write!(file, "{}", std::process::id()));
    Ok(Lock(file))
}

fn create(directory: &Path, host: &Host) -> Result<(), Error> {
    let path = file_of(directory);
    let new = directory.join("journal.new");
    let made = (|| {
        host.effects().before(Step::Create(&path))?;
        // One that is left of a crash may be readable for others.
        match std::fs::remove_file(&new) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut open = std::fs::OpenOptions::new();
        let mut file = open.write(true).create_new(true).mode(OWNER).open(&new)?;
        file.write_all(&file::line(&Record::Header { format: FORMAT }))?;
        file.sync_all()?;
        std::fs::rename(&new, &path)?;
        host.effects().before(Step::SyncDirectory)?;
        File::open(directory)?.sync_all()
    })();
    made.map_err(|source| Error::Journal { what: "make", path: file_of(directory), source })
}

/// Entries from records.
fn fold(path: &Path, records: Vec<Record>) -> Result<Vec<Entry>, Error> {
    let mut entries: Vec<Entry> = Vec::new();
    for (at, record) in records.into_iter().enumerate() {
        let corrupt = |why: &str| Error::Corrupt { path: path.to_owned(), line: at + 1, why: why.to_owned() };
        let (ids, next): (Vec<u64>, Box<dyn Fn(Phase) -> Phase>) = match record {
            Record::Header { .. } if at == 0 => continue,
            Record::Header { .. } => return Err(corrupt("a second header")),
            Record::Opened { entry, intent } => {
                if entries.last().is_some_and(|last| last.id >= entry) {
                    return Err(corrupt("an entry whose number is not new"));
                }
                entries.push(Entry { id: entry, intent: *intent, phase: Phase::Opened });
                continue;
            }
            Record::Written { entry, after } => {
                (vec![entry], Box::new(move |_| Phase::Written { after: after.clone() }))
            }
            Record::Restoring { entries } => (entries, Box::new(restoring)),
            Record::Closed { entries, end, at } => {
                (entries, Box::new(move |_| Phase::Closed { end: end.clone(), at }))
            }
        };
        for id in ids {
            let entry = entries.iter_mut().find(|entry| entry.id == id && entry.is_open());
            let entry =
                entry.ok_or_else(|| corrupt(&format!("it is about entry {id}, which is not open")))?;
            entry.phase = next(entry.phase.clone());
        }
    }
    Ok(entries)
}

#[cfg(test)]
mod tests;
