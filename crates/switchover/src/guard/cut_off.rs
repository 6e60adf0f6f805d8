//! Failovers of a guard that were cut off, as the journals of its host tell of them.

use crate::journal::{self, JournalRecord};
use crate::perform::{Kind, Plan};
use crate::step::State;
use fleet::Snapshot;
use std::path::{Path, PathBuf};

/// A failover that was begun and has no end in its journal.
pub(super) struct CutOff {
    pub(super) path: PathBuf,
    pub(super) plan: Plan,
    pub(super) lines: Vec<JournalRecord>,
}

/// Those of the guard `by` in this fleet, newest first. Other commands of this host write their journals in
/// the same directory: one that was undone, or refused, hides none of them. A move that was done since has
/// made them pointless.
pub(super) fn find(directory: &Path, by: &str, snapshot: &Snapshot) -> Vec<CutOff> {
    let mut found = Vec::new();
    for path in journal::newest_first(directory) {
        let lines = match journal::read(&path) {
            Ok(lines) => lines,
            Err(error) => {
                tracing::error!("a failover that may have been cut off cannot be read: {error}");
                continue;
            }
        };
        let Some(JournalRecord::Plan { plan, .. }) = lines.first() else { continue };
        let plan = Plan::clone(plan);
        if !plan.is_of(snapshot) {
            continue;
        }
        if matches!(lines.last(), Some(JournalRecord::Over { state: State::Done, .. })) {
            break;
        }
        if !journal::is_over(&lines) && plan.by == by && matches!(plan.kind, Kind::Failover { .. }) {
            found.push(CutOff { path, plan, lines });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perform::FenceBy;
    use crate::perform::tests::{elsewhere, failover};
    use crate::step::Step;
    use fleet::{Address, Server, ServerName};
    use std::time::Instant;

    #[test]
    fn what_another_command_wrote_later_hides_no_failover_that_was_cut_off() {
        let journals = tempfile::tempdir().unwrap();
        let mut snapshot = Snapshot::empty(Instant::now());
        let a2 = Server::unasked(ServerName::new("a2"), Address::tcp("a2".to_owned(), 3306));
        snapshot.servers.push(a2);
        let write = |number: u32, plan: Plan, over: Option<State>| {
            let begun = JournalRecord::Begun { at_ms: 1, step: Step::Lock, undo: false };
            let over = over.map(|state| JournalRecord::Over { at_ms: 1, state });
            let plan = JournalRecord::Plan { at_ms: 1, plan: Box::new(plan) };
            let lines: Vec<String> = [plan, begun]
                .into_iter()
                .chain(over)
                .map(|line| serde_json::to_string(&line).unwrap() + "\n")
                .collect();
            let path = journals.path().join(format!("switchover-{number}.jsonl"));
            std::fs::write(path, lines.concat()).unwrap();
        };
        let found = || -> Vec<String> {
            let found = find(journals.path(), "test", &snapshot);
            found.iter().map(|one| one.path.file_name().unwrap().to_string_lossy().into_owned()).collect()
        };
        let ours = || failover(FenceBy::Nothing);
        let switchover = || Plan { kind: Kind::Switchover, ..ours() };
        let undone = || Some(State::Undone { why: "w".to_owned() });
        write(1, ours(), None);
        assert_eq!(found(), ["switchover-1.jsonl"]);
        write(2, switchover(), undone());
        write(3, switchover(), None);
        write(4, Plan { by: "somebody".to_owned(), ..ours() }, None);
        write(5, elsewhere(), None);
        write(6, elsewhere(), Some(State::Done));
        assert_eq!(found(), ["switchover-1.jsonl"]);
        write(7, ours(), Some(State::Undecided { why: "w".to_owned() }));
        assert_eq!(found(), ["switchover-7.jsonl", "switchover-1.jsonl"]);
        write(8, switchover(), Some(State::Done));
        assert_eq!(found(), Vec::<String>::new());
    }
}
