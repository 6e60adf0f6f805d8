//! What was begun and how it ended, a JSON line each, on disk before the step is done.
//!
//! The file is created with its first line (the plan), flushed with its directory, and only ever appended to.
//! A last line that is torn (power loss, a full disk) is left out: the step it announced was not begun,
//! because it is begun only after the line is on disk. It is cut off before the next line is written.

use crate::Error;
use crate::error::JournalError;
use crate::perform::{Kind, Plan};
use crate::step::{Event, State, Step};
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "line", rename_all = "snake_case")]
pub enum JournalRecord {
    /// The first: everything that undoing needs.
    Plan {
        /// Milliseconds since 1970.
        at_ms: u64,
        /// See [`crate::perform::Plan`].
        plan: Box<crate::perform::Plan>,
    },
    /// A step, or its undoing, is about to begin.
    Begun {
        /// Milliseconds since 1970.
        at_ms: u64,
        step: Step,
        /// Whether it is being undone.
        undo: bool,
    },
    Ended {
        /// Milliseconds since 1970.
        at_ms: u64,
        step: Step,
        /// Whether it was undone.
        undo: bool,
        event: Event,
    },
    Over {
        /// Milliseconds since 1970.
        at_ms: u64,
        state: State,
    },
}

#[derive(Debug)]
pub struct Journal {
    file: File,
    path: PathBuf,
    /// The last line may not have been written to its end.
    torn: bool,
    promotion_in_doubt: bool,
    candidate_left: bool,
}

impl Journal {
    /// Begins a journal in `directory`, which is made when it is not there.
    ///
    /// # Errors
    /// [`Error::Journal`] when it cannot be written.
    pub fn create(directory: &Path, plan: &crate::perform::Plan) -> Result<Self, Error> {
        let at_ms = now_ms();
        // A clock that was set back must not have it stand before one that is over, which hides older ones.
        let number = newest(directory).and_then(|path| number_of(&path));
        let number = number.map_or(at_ms, |newest| at_ms.max(newest.saturating_add(1)));
        let path = directory.join(format!("switchover-{number}.jsonl"));
        let wrong = |error: std::io::Error| Error::Journal { path: path.clone(), source: error.into() };
        std::fs::create_dir_all(directory).map_err(wrong)?;
        let options = OpenOptions::new().append(true).create_new(true).mode(0o600).open(&path);
        let file = options.map_err(wrong)?;
        let mut journal =
            Self { file, path: path.clone(), torn: false, promotion_in_doubt: false, candidate_left: false };
        journal.append(&JournalRecord::Plan { at_ms, plan: Box::new(plan.clone()) })?;
        File::open(directory).and_then(|folder| folder.sync_all()).map_err(wrong)?;
        Ok(journal)
    }

    /// Goes on with one that was left; what stands in it comes back with it.
    ///
    /// # Errors
    /// [`Error::Journal`] when it cannot be read, or a line other than the last is not one.
    pub fn reopen(path: &Path) -> Result<(Self, Vec<JournalRecord>), Error> {
        let lines = read(path)?;
        let wrong = |error: std::io::Error| Error::Journal { path: path.to_owned(), source: error.into() };
        let file = OpenOptions::new().append(true).open(path).map_err(wrong)?;
        let promotion_in_doubt = leaves_promotion_in_doubt(&lines);
        let candidate_left = candidate_is_left(&lines);
        let path = path.to_owned();
        Ok((Self { file, path, torn: true, promotion_in_doubt, candidate_left }, lines))
    }

    /// Whether whoever undid this before could not make the candidate a replica again.
    pub(crate) fn candidate_left(&self) -> bool {
        self.candidate_left
    }

    /// Whether the candidate was told to take writes by a tool that did not see what came of it: it may have
    /// taken some, and refuse them now because it was restarted. Undoing then looks at what it has.
    pub(crate) fn promotion_in_doubt(&self) -> bool {
        self.promotion_in_doubt
    }

    /// This journal was begun in the place of one that was lost: nobody knows how far that one was.
    pub fn doubt_promotion(&mut self) {
        self.promotion_in_doubt = true;
    }

    /// A person gives up what the candidate may have written.
    pub fn give_up_promotion(&mut self) {
        self.promotion_in_doubt = false;
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a line and waits until it is on disk.
    ///
    /// # Errors
    /// [`Error::Journal`].
    pub fn append(&mut self, line: &JournalRecord) -> Result<(), Error> {
        let why = |error: serde_json::Error| Error::Journal { path: self.path.clone(), source: error.into() };
        let mut text = serde_json::to_string(line).map_err(why)?;
        text.push('\n');
        self.write(text.as_bytes())
    }

    /// Only what follows the end of the last whole line: somebody else may have gone on with this journal.
    fn cut_torn_line(&self) -> std::io::Result<()> {
        let bytes = std::fs::read(&self.path)?;
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        if whole == bytes.len() { Ok(()) } else { self.file.set_len(whole as u64) }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let whole = if self.torn { self.cut_torn_line() } else { Ok(()) };
        let written = whole.and_then(|()| self.file.write_all(bytes)).and_then(|()| self.file.sync_data());
        self.torn = written.is_err();
        written.map_err(|error| Error::Journal { path: self.path.clone(), source: error.into() })
    }
}

/// The newest journal in a directory, by name; `None` when there is none.
pub fn newest(directory: &Path) -> Option<PathBuf> {
    newest_first(directory).into_iter().next()
}

/// What a journal's name counts by: the milliseconds since 1970 at which it was begun, or more than that of
/// the one before. `None` for a name of another kind.
fn number_of(path: &Path) -> Option<u64> {
    let name = path.file_name()?.to_str()?;
    name.strip_prefix("switchover-")?.strip_suffix(".jsonl")?.parse().ok()
}

/// The journals in a directory, by the numbers in their names: one that was begun while the clock stood near
/// 1970 has fewer digits.
pub(crate) fn newest_first(directory: &Path) -> Vec<PathBuf> {
    let ours = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.starts_with("switchover-") && name.ends_with(".jsonl")
    };
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let mut journals: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(ours).collect();
    journals.sort_by_cached_key(|path| Reverse((number_of(path), path.clone())));
    journals
}

/// The newest journal that begins with its plan.
#[derive(Debug)]
pub struct Newest {
    pub journal: Journal,
    /// What stands in it.
    pub lines: Vec<JournalRecord>,
    /// Why newer ones were passed over.
    pub damaged: Vec<Error>,
}

/// The newest journal in a directory that begins with its plan: a newer one that is damaged hides no older
/// one. `None` where there is no journal.
///
/// # Errors
/// [`Error::Journal`] of the newest one, where none begins with a plan.
pub fn reopen_newest(directory: &Path) -> Result<Option<Newest>, Error> {
    let mut damaged = Vec::new();
    for path in newest_first(directory) {
        match Journal::reopen(&path) {
            Ok((journal, lines)) if matches!(lines.first(), Some(JournalRecord::Plan { .. })) => {
                return Ok(Some(Newest { journal, lines, damaged }));
            }
            Ok(_) => damaged.push(Error::Journal { path, source: JournalError::NoPlan }),
            Err(error) => damaged.push(error),
        }
    }
    damaged.into_iter().next().map_or(Ok(None), Err)
}

/// What journals tell of that is not over.
#[derive(Debug, Default)]
pub struct Unfinished {
    /// Newest first, each with its plan.
    pub left: Vec<(PathBuf, Plan)>,
    /// Those of journals that cannot be read.
    pub unread: Vec<Error>,
}

/// The operations that the journal `newest` and older ones in its directory tell of and that are not over.
/// One that was refused or undone since hides none of them; a move of the same servers that was done since
/// has made them pointless.
pub fn unfinished(newest: &Path) -> Unfinished {
    let (mut found, mut done) = (Unfinished::default(), Vec::<Plan>::new());
    let all = newest.parent().map(newest_first).unwrap_or_default();
    for path in all.into_iter().skip_while(|path| path != newest) {
        let lines = match read(&path) {
            Ok(lines) => lines,
            Err(error) => {
                found.unread.push(error);
                continue;
            }
        };
        let Some(JournalRecord::Plan { plan, .. }) = lines.first() else { continue };
        let plan = Plan::clone(plan);
        if done.iter().any(|done| done.shares_a_server(&plan)) {
            continue;
        }
        if matches!(lines.last(), Some(JournalRecord::Over { state: State::Done, .. })) {
            done.push(plan);
        } else if !is_over(&lines) {
            found.left.push((path, plan));
        }
    }
    found
}

/// The lines of a journal.
///
/// # Errors
/// [`Error::Journal`] when it cannot be read, or a line other than the last is not one.
pub fn read(path: &Path) -> Result<Vec<JournalRecord>, Error> {
    let wrong = |source: JournalError| Error::Journal { path: path.to_owned(), source };
    let text = std::fs::read_to_string(path).map_err(|error| wrong(error.into()))?;
    parse(&text).map_err(wrong)
}

fn parse(text: &str) -> Result<Vec<JournalRecord>, JournalError> {
    let mut lines = Vec::new();
    let whole: Vec<(usize, &str)> = text.lines().enumerate().filter(|(_, line)| !line.is_empty()).collect();
    for (position, (number, line)) in whole.iter().enumerate() {
        match serde_json::from_str(line) {
            Ok(line) => lines.push(line),
            Err(_) if position + 1 == whole.len() => {}
            Err(error) => return Err(JournalError::Record { line: number + 1, source: error }),
        }
    }
    Ok(lines)
}

/// Where a switchover stands by its journal: the last step begun and how it ended. `None` when none was
/// begun.
pub fn last(lines: &[JournalRecord]) -> Option<(Step, bool, Option<Event>)> {
    let begun = lines.iter().rposition(|line| matches!(line, JournalRecord::Begun { .. }))?;
    let JournalRecord::Begun { step, undo, .. } = lines[begun] else { return None };
    let ended = lines[begun..].iter().find_map(|line| match line {
        JournalRecord::Ended { event, .. } => Some(event.clone()),
        _ => None,
    });
    Some((step, undo, ended))
}

/// Whether a promotion was begun and is not known to have failed.
fn leaves_promotion_in_doubt(lines: &[JournalRecord]) -> bool {
    let is_promotion =
        |line: &JournalRecord| matches!(line, JournalRecord::Begun { step: Step::Promote, undo: false, .. });
    let Some(begun) = lines.iter().rposition(is_promotion) else { return false };
    let ended = lines[begun..].iter().find_map(|line| match line {
        JournalRecord::Ended { step: Step::Promote, undo: false, event, .. } => Some(event),
        _ => None,
    });
    !matches!(ended, Some(Event::Failed { .. }))
}

/// Whether nothing is left to do. What was left in doubt may be decided now.
pub fn is_over(lines: &[JournalRecord]) -> bool {
    let over = lines.iter().rev().find_map(|line| match line {
        JournalRecord::Over { state, .. } => Some(state),
        _ => None,
    });
    over.is_some_and(|state| !matches!(state, State::Undecided { .. }))
}

/// Whether the candidate of what is undone was not made a replica again.
fn candidate_is_left(lines: &[JournalRecord]) -> bool {
    let undone = lines.iter().rev().find_map(|line| match line {
        JournalRecord::Ended { step: Step::StopReplication, undo: true, event, .. } => Some(event),
        _ => None,
    });
    matches!(undone, Some(Event::Failed { .. }))
}

fn is_of_failover(lines: &[JournalRecord]) -> bool {
    let is_failover = |plan: &Plan| matches!(plan.kind, Kind::Failover { .. });
    matches!(lines.first(), Some(JournalRecord::Plan { plan, .. }) if is_failover(plan))
}

/// Where to go on; `promoted` is the candidate's own answer, as for [`State::resume`].
pub fn go_on(lines: &[JournalRecord], promoted: Option<bool>) -> State {
    match last(lines) {
        None => State::Undone { why: "nothing was begun".to_owned() },
        // It was promoted after all, and then its primary was not told to take writes again.
        Some((Step::Freeze, true, Some(Event::Failed { .. }))) if promoted == Some(true) => {
            State::Forward { step: Step::Mark }
        }
        // What is left would not start it, or its receivers alone: its semi-sync switch would stay on, and it
        // would wait for acknowledgements of what it applies. The candidate of a move is not waited for where
        // it is silent: nobody takes writes until the primary does. Then it is named as left.
        Some((Step::Freeze, true, _))
            if candidate_is_left(lines) && (promoted == Some(false) || is_of_failover(lines)) =>
        {
            let why = "undoing had failed".to_owned();
            State::Undoing { step: Step::StopReplication, why }
        }
        Some((step, true, _)) => State::Undoing { step, why: "undoing was interrupted".to_owned() },
        Some((step, false, ended)) => State::resume(step, ended, promoted),
    }
}

/// Milliseconds since 1970.
pub(crate) fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_promotion_whose_end_is_not_written_stays_in_doubt_while_it_is_undone() {
        let begun = |step, undo| JournalRecord::Begun { at_ms: 1, step, undo };
        let ended = |step, undo, event| JournalRecord::Ended { at_ms: 1, step, undo, event };
        let why = || "w".to_owned();
        let promote = |event| vec![begun(Step::Promote, false), ended(Step::Promote, false, event)];
        assert!(!leaves_promotion_in_doubt(&[begun(Step::StopReplication, false)]));
        assert!(!leaves_promotion_in_doubt(&promote(Event::Failed { why: why() })), "it was refused");
        assert!(leaves_promotion_in_doubt(&promote(Event::Unknown { why: why() })));
        let mut killed = vec![begun(Step::Promote, false)];
        assert!(leaves_promotion_in_doubt(&killed));
        // Somebody went on, undid a part, and was killed too.
        killed.push(begun(Step::StopReplication, true));
        killed.push(ended(Step::StopReplication, true, Event::Failed { why: why() }));
        assert!(leaves_promotion_in_doubt(&killed));
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("switchover-1.jsonl");
        let text: String = killed.iter().map(|line| serde_json::to_string(line).unwrap() + "\n").collect();
        std::fs::write(&path, text).unwrap();
        let (mut journal, _) = Journal::reopen(&path).unwrap();
        assert!(journal.promotion_in_doubt());
        journal.give_up_promotion();
        assert!(!journal.promotion_in_doubt());
    }

    #[test]
    fn a_candidate_that_was_not_made_a_replica_again_is_made_one_by_whoever_goes_on() {
        use crate::perform::FenceBy;
        use crate::perform::tests::failover;
        let ended = |step, event| JournalRecord::Ended { at_ms: 1, step, undo: true, event };
        let begun = |step| JournalRecord::Begun { at_ms: 1, step, undo: true };
        let failed = || Event::Failed { why: "w".to_owned() };
        let lines = |kind: Kind, stop: Event| {
            let plan = Plan { kind, ..failover(FenceBy::Nothing) };
            vec![
                JournalRecord::Plan { at_ms: 1, plan: Box::new(plan) },
                begun(Step::StopReplication),
                ended(Step::StopReplication, stop),
                begun(Step::Freeze),
                ended(Step::Freeze, failed()),
            ]
        };
        let moved = failover(FenceBy::Nothing).kind;
        for (kind, stop, promoted, expected) in [
            (moved.clone(), failed(), Some(false), Step::StopReplication),
            (moved.clone(), failed(), None, Step::StopReplication),
            (moved.clone(), Event::Done, Some(false), Step::Freeze),
            (Kind::Switchover, failed(), Some(false), Step::StopReplication),
            (Kind::Switchover, Event::Done, Some(false), Step::Freeze),
            // Nobody takes writes meanwhile.
            (Kind::Switchover, failed(), None, Step::Freeze),
        ] {
            let state = go_on(&lines(kind, stop), promoted);
            assert!(matches!(&state, State::Undoing { step, .. } if *step == expected), "{state:?}");
        }
        assert_eq!(go_on(&lines(moved, failed()), Some(true)), State::Forward { step: Step::Mark });
        // Killed while the primary was told to take writes.
        let mut killed = lines(Kind::Switchover, failed());
        killed.pop();
        let state = go_on(&killed, Some(false));
        assert!(matches!(&state, State::Undoing { step: Step::StopReplication, .. }), "{state:?}");
    }

    #[test]
    fn what_was_undone_since_hides_no_operation_that_was_cut_off() {
        use crate::perform::FenceBy;
        use crate::perform::tests::{elsewhere, failover};
        let directory = tempfile::tempdir().unwrap();
        let ours = || failover(FenceBy::Nothing);
        let write = |number: u32, plan: Plan, over: Option<State>| {
            let mut lines = vec![
                JournalRecord::Plan { at_ms: 1, plan: Box::new(plan) },
                JournalRecord::Begun { at_ms: 1, step: Step::Lock, undo: false },
            ];
            lines.extend(over.map(|state| JournalRecord::Over { at_ms: 1, state }));
            let text: String = lines.iter().map(|line| serde_json::to_string(line).unwrap() + "\n").collect();
            std::fs::write(directory.path().join(format!("switchover-{number}.jsonl")), text).unwrap();
        };
        let left = || -> Vec<String> {
            let found = unfinished(&newest(directory.path()).unwrap());
            assert_eq!(found.unread.len(), 1, "the first one is no journal");
            let names = found.left.iter().map(|(path, _)| path.file_name().unwrap());
            names.map(|name| name.to_string_lossy().into_owned()).collect()
        };
        std::fs::write(directory.path().join("switchover-0.jsonl"), "{\n{}\n").unwrap();
        let undone = || Some(State::Undone { why: "w".to_owned() });
        write(1, ours(), None);
        write(2, Plan { kind: Kind::Switchover, ..ours() }, undone());
        assert_eq!(left(), ["switchover-1.jsonl"]);
        write(3, elsewhere(), Some(State::Done));
        assert_eq!(left(), ["switchover-1.jsonl"], "of other servers");
        write(4, ours(), Some(State::Undecided { why: "w".to_owned() }));
        assert_eq!(left(), ["switchover-4.jsonl", "switchover-1.jsonl"]);
        write(5, ours(), Some(State::Done));
        assert_eq!(left(), Vec::<String>::new());
    }

    #[test]
    fn a_journal_that_is_begun_after_the_clock_was_set_back_is_the_newest() {
        use crate::perform::FenceBy;
        use crate::perform::tests::failover;
        let directory = tempfile::tempdir().unwrap();
        let plan = failover(FenceBy::Nothing);
        let ahead = now_ms() + 86_400_000;
        let over = JournalRecord::Over { at_ms: ahead, state: State::Done };
        let lines = [JournalRecord::Plan { at_ms: ahead, plan: Box::new(plan.clone()) }, over];
        let text: String = lines.iter().map(|line| serde_json::to_string(line).unwrap() + "\n").collect();
        std::fs::write(directory.path().join(format!("switchover-{ahead}.jsonl")), text).unwrap();
        let begun = Journal::create(directory.path(), &plan).unwrap();
        assert_eq!(newest(directory.path()).as_deref(), Some(begun.path()));
        assert_eq!(number_of(begun.path()), Some(ahead + 1));
        let left = unfinished(begun.path()).left;
        assert_eq!(left.len(), 1, "the older one, which is over, does not hide it: {left:?}");
        assert_eq!(number_of(Path::new("switchover-old.jsonl")), None);
        // Begun before the clock of this host was set after its start.
        std::fs::write(directory.path().join("switchover-99999.jsonl"), "").unwrap();
        assert_eq!(newest(directory.path()).as_deref(), Some(begun.path()));
    }

    #[test]
    fn a_newest_journal_that_is_damaged_is_named_and_hides_no_older_one() {
        use crate::perform::FenceBy;
        use crate::perform::tests::failover;
        let directory = tempfile::tempdir().unwrap();
        let path = |number: u32| directory.path().join(format!("switchover-{number}.jsonl"));
        assert!(reopen_newest(directory.path()).unwrap().is_none());
        let plan = JournalRecord::Plan { at_ms: 1, plan: Box::new(failover(FenceBy::Nothing)) };
        let begun = JournalRecord::Begun { at_ms: 1, step: Step::Lock, undo: false };
        let [plan, begun] = [plan, begun].map(|line| serde_json::to_string(&line).unwrap() + "\n");
        std::fs::write(path(2), "").unwrap();
        std::fs::write(path(3), &begun).unwrap();
        std::fs::write(path(4), format!("{{\n{begun}")).unwrap();
        let error = reopen_newest(directory.path()).unwrap_err().to_string();
        assert!(error.contains("switchover-4.jsonl: line 1: "), "{error}");
        std::fs::write(path(1), format!("{plan}{begun}")).unwrap();
        let newest = reopen_newest(directory.path()).unwrap().unwrap();
        assert_eq!((newest.journal.path(), newest.lines.len()), (path(1).as_path(), 2));
        let named: Vec<String> = newest.damaged.iter().map(ToString::to_string).collect();
        assert_eq!(named.len(), 3, "{named:?}");
        assert!(named[1].ends_with("switchover-3.jsonl: it does not begin with a plan"), "{named:?}");
        let found = unfinished(newest.journal.path());
        assert_eq!((found.left.len(), found.unread.len()), (1, 0), "those are named already");
    }

    #[test]
    fn a_torn_line_is_cut_off_before_the_next_one() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("switchover-1.jsonl");
        let begun = |step| JournalRecord::Begun { at_ms: 1, step, undo: false };
        let whole = format!("{}\n", serde_json::to_string(&begun(Step::Lock)).unwrap());
        // Reopened twice: the torn line is not the last one then.
        std::fs::write(&path, format!("{whole}{{\"line\":\"beg")).unwrap();
        for step in [Step::Record, Step::Prepare] {
            let (mut journal, _) = Journal::reopen(&path).unwrap();
            journal.append(&begun(step)).unwrap();
        }
        assert_eq!(read(&path).unwrap(), [Step::Lock, Step::Record, Step::Prepare].map(begun));
        // A write that failed by half, after which there is room again.
        let (mut journal, _) = Journal::reopen(&path).unwrap();
        let file =
            std::mem::replace(&mut journal.file, File::options().write(true).open("/dev/full").unwrap());
        assert!(matches!(journal.append(&begun(Step::CatchUp)), Err(Error::Journal { .. })));
        journal.file = file;
        journal.file.write_all(b"{\"line").unwrap();
        journal.append(&begun(Step::Hold)).unwrap();
        assert_eq!(read(&path).unwrap().last(), Some(&begun(Step::Hold)));
        assert_eq!(last(&read(&path).unwrap()), Some((Step::Hold, false, None)));
    }
}
