//! Waits for InnoDB's latches, the short locks inside of the engine: which one most sessions wait for, at
//! which table and in which statement.
//!
//! `performance_schema` tells who is in such a wait at a moment, where its instruments and the consumer
//! `events_waits_current` are on. By default they are off: then nothing is known, which is not the same as
//! nobody who waits. Nothing is switched on from here.
//!
//! Limits: the servers' makers leave the latches of single pages without an instrument, as there are very
//! many. So a hot page of an index is seen by the latch of the tree above it, once its inserts split it.

use observe::{Row, Rows};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use term::printable;

/// Consumers without which no session's wait is kept.
const CONSUMERS: u64 = 3;

/// The latch that most sessions wait for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LatchWait {
    /// Its name on the server, such as `index_tree_rw_lock`.
    pub latch: String,
    /// Sessions that wait for it: of latches that have one name, as each index has its own, for the same one.
    pub waiting: u64,
    /// The table that most of them are at, where that is told.
    pub table: Option<String>,
    /// The statement that most of them are in, its literals left out by the server, where that is told.
    pub statement: Option<String>,
}

/// A latch: the name of its instrument, and which of those that have the name.
type Latch<'a> = (&'a str, Option<&'a str>);

impl LatchWait {
    /// Reads rows of `id`, `event`, `instance`, `held`, `statement`: a session's wait each.
    pub(crate) fn read(rows: &Rows) -> Option<Self> {
        // A session has a row for each of its statements that stand in one another.
        let waits: BTreeSet<(Latch<'_>, &str)> =
            rows.iter().filter_map(|row| Some((latch(row)?, row.text(&["id"])?))).collect();
        let (first, waiting) = most(waits.iter().map(|(latch, _)| *latch))?;
        let told = |column: &str| {
            let its = rows.iter().filter(|row| latch(*row) == Some(first));
            most(its.filter_map(|row| row.filled(&[column]))).map(|(text, _)| printable(text))
        };
        let name = first.0.rsplit('/').next().unwrap_or(first.0);
        Some(Self { latch: printable(name), waiting, table: told("held"), statement: told("statement") })
    }
}

/// Whether the server tells who waits for a latch, by a row of `consumers`, `latches` and `enabled`. One
/// instrument that is off would make nobody of those who wait for its latch.
pub(super) fn are_told(rows: &Rows) -> bool {
    let Some(row) = rows.first() else { return false };
    let count = |name: &str| row.parse::<u64>(&[name]).unwrap_or(0);
    count("consumers") == CONSUMERS && count("latches") > 0 && count("enabled") == count("latches")
}

fn latch(row: Row<'_>) -> Option<Latch<'_>> {
    Some((row.filled(&["event"])?, row.text(&["instance"])))
}

/// What is there most often, and how often.
fn most<T: Ord>(all: impl Iterator<Item = T>) -> Option<(T, u64)> {
    let mut counts: BTreeMap<T, u64> = BTreeMap::new();
    for one in all {
        *counts.entry(one).or_default() += 1;
    }
    counts.into_iter().max_by_key(|(_, count)| *count)
}

/// What a latch guards, in plain words.
fn guarded(latch: &str) -> &'static str {
    match latch {
        "index_tree_rw_lock" => "the tree of an index",
        "btr_search_latch" => "the adaptive hash index",
        // Of builds that count it.
        "buf_block_lock" => "a page",
        "hash_table_locks" | "flush_list_mutex" => "the buffer pool",
        name if name.starts_with("buf_") => "the buffer pool",
        "dict_operation_lock" | "dict_sys_mutex" => "the data dictionary",
        "fil_space_latch" | "fil_system_mutex" => "the tablespaces",
        "trx_sys_mutex" | "trx_sys_serialisation_mutex" => "the list of transactions",
        "trx_rseg_latch" | "rsegs_lock" | "undo_spaces_lock" => "the rollback segments",
        "trx_purge_latch" => "purge",
        "lock_latch" | "lock_sys_global_rw_lock" | "lock_sys_page_mutex" | "lock_sys_table_mutex" => {
            "the table of row locks"
        }
        name if name.starts_with("log_") => "the redo log",
        "autoinc_mutex" => "a table's next auto-increment value",
        _ => "a part of the engine",
    }
}

impl fmt::Display for LatchWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { latch, waiting, table, statement } = self;
        write!(f, "{} ({latch}), {waiting} wait for it", guarded(latch))?;
        if let Some(table) = table {
            write!(f, ", on {table}")?;
        }
        match statement {
            Some(statement) => write!(f, ", in {statement}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TREE: &str = "wait/synch/sxlock/innodb/index_tree_rw_lock";
    const INSERT: Option<&str> = Some("INSERT INTO `tree` VALUES (...)");

    /// Session, event, instance, table and statement.
    type Wait<'a> = (&'a str, &'a str, &'a str, Option<&'a str>, Option<&'a str>);

    fn rows(all: &[Wait<'_>]) -> Rows {
        let row = |&(id, event, instance, held, statement): &Wait<'_>| {
            let texts = [Some(id), Some(event), Some(instance), held, statement];
            texts.map(|text| text.map(str::to_owned)).to_vec()
        };
        let names = ["id", "event", "instance", "held", "statement"].map(str::to_owned);
        Rows::new(names, all.iter().map(row).collect())
    }

    #[test]
    fn the_latch_that_most_wait_for_is_named_with_its_table_and_statement() {
        let wait = LatchWait::read(&rows(&[
            ("11", TREE, "140100", Some("app.tree"), INSERT),
            ("12", TREE, "140100", Some("app.tree"), INSERT),
            // The same session in a statement of a stored procedure.
            ("12", TREE, "140100", Some("app.tree"), Some("CALL `fill` ( )")),
            ("13", TREE, "140100", None, Some("CHECK TABLE `tree`")),
            // The trees of other indexes, and more of them together.
            ("14", TREE, "140200", Some("app.a"), None),
            ("15", TREE, "140300", Some("app.b"), None),
            ("16", "wait/synch/rwlock/innodb/btr_search_latch", "140400", None, None),
        ]))
        .unwrap();
        assert_eq!((wait.latch.as_str(), wait.waiting), ("index_tree_rw_lock", 3));
        let words = "the tree of an index (index_tree_rw_lock), 3 wait for it, on app.tree, in INSERT INTO \
                     `tree` VALUES (...)";
        assert_eq!(wait.to_string(), words);
        assert_eq!(LatchWait::read(&rows(&[])), None);
    }

    #[test]
    fn what_is_not_told_of_a_wait_is_left_out_and_nothing_reaches_the_terminal_as_a_command() {
        let of = |event: &str, statement| {
            LatchWait::read(&rows(&[("11", event, "1", None, statement)])).unwrap().to_string()
        };
        assert_eq!(
            of("wait/synch/rwlock/innodb/btr_search_latch", None),
            "the adaptive hash index (btr_search_latch), 1 wait for it"
        );
        assert_eq!(
            of("wait/synch/mutex/innodb/new_mutex", Some("SELECT `a\u{1b}b`")),
            "a part of the engine (new_mutex), 1 wait for it, in SELECT `a b`"
        );
    }

    #[test]
    fn waits_are_told_only_where_every_instrument_and_consumer_is_on() {
        let told = |consumers: &str, latches: &str, enabled: Option<&str>| {
            let names = ["consumers", "latches", "enabled"].map(str::to_owned);
            let row = [Some(consumers), Some(latches), enabled].map(|text| text.map(str::to_owned));
            are_told(&Rows::new(names, vec![row.to_vec()]))
        };
        assert!(told("3", "15", Some("15")));
        assert!(!told("3", "15", Some("0")) && !told("3", "15", Some("14")) && !told("2", "15", Some("15")));
        // A server without InnoDB has a sum of nothing.
        assert!(!told("3", "0", None) && !told("3", "0", Some("0")));
        assert!(!are_told(&Rows::default()));
    }
}
