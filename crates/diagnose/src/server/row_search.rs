//! Appliers that look for the row of a change without a key: how many, and in which table.
//!
//! - **MariaDB**'s appliers say in their state that they look for a row, newer ones with the table. With a
//!   key that is over at once, and hardly a look falls on it.
//! - **MySQL**'s say that they apply an update or a delete. The metadata lock that they have on it names the
//!   table, and `mysql.innodb_index_stats` tells whether it has a key: InnoDB adds an index of its own,
//!   `GEN_CLUST_INDEX`, to a table that has neither a primary key nor a unique one without NULLs. Without
//!   those an applier finds no row at once (`slave_rows_search_algorithms`: primary key, unique key without
//!   NULLs, any other index, the whole table). A generated invisible primary key counts as one.
//!
//! `information_schema.statistics` is not asked: it hides tables on which the account has no privilege, so
//! that each table of the application's would look as if it had no key, and it hides generated keys where
//! `show_gipk_in_create_table_and_information_schema` is off.
//!
//! A transaction that has changed a table without a key and one with a key may be at either: of such an
//! applier it is not known, as many a log that is only inserted into has no key.

use observe::Rows;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::time::{Duration, Instant};
use term::printable;

/// What is known of a table's keys is asked again after this long: somebody may have added one.
const REMEMBERED: Duration = Duration::from_secs(60);
/// Tables that are remembered at most.
const MOST: usize = 256;
/// Tables that are asked for in one reading at most.
const AT_ONCE: usize = 4;

/// Which appliers look for rows without a key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowSearch {
    /// Appliers that do.
    pub appliers: u64,
    /// Appliers at work where it is not known.
    pub unknown: u64,
    /// The table that most of them are at, with its schema where that is told.
    pub table: Option<String>,
}

/// A table by its schema and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Table {
    pub(super) schema: String,
    pub(super) name: String,
}

/// The tables that each applier holds while it changes or deletes rows, by the applier's thread; none where
/// that is not told.
pub(super) type Held = BTreeMap<u64, BTreeSet<Table>>;

/// Which tables lack a key, for a while.
#[derive(Debug, Default)]
pub(super) struct Keys {
    /// When it was asked, and whether the table lacks one, if the server tells.
    known: HashMap<Table, (Instant, Option<bool>)>,
}

impl RowSearch {
    /// Reads the states of MariaDB's sessions, grouped or one by one.
    pub(super) fn by_states(rows: &Rows) -> Self {
        let mut search = Self::default();
        let mut at: BTreeMap<String, u64> = BTreeMap::new();
        for row in rows.iter() {
            let state = row.text(&["state"]).unwrap_or_default();
            let applies = matches!(row.text(&["command"]), Some("Slave_SQL" | "Slave_worker"));
            if !applies || !state.contains("_rows_log_event::find_row") {
                continue;
            }
            let count = row.parse::<u64>(&["sessions"]).unwrap_or(1);
            search.appliers += count;
            if let Some(table) = table_in(state, row.filled(&["db"])) {
                *at.entry(table).or_default() += count;
            }
        }
        search.table = most(at);
        search
    }

    /// Of appliers at work when nothing could be asked.
    pub(super) fn not_known(appliers: u64) -> Self {
        Self { unknown: appliers, ..Self::default() }
    }
}

impl Keys {
    /// The tables whose keys are to be asked for now. What is known for too long is forgotten.
    pub(super) fn next_to_ask(&mut self, held: &Held, now: Instant) -> Vec<Table> {
        self.known.retain(|_, (at, _)| now.saturating_duration_since(*at) < REMEMBERED);
        let unknown: BTreeSet<&Table> =
            held.values().flatten().filter(|table| !self.known.contains_key(*table)).collect();
        unknown.into_iter().take(AT_ONCE).cloned().collect()
    }

    /// Remembers what the server said.
    pub(super) fn note(&mut self, table: Table, lacks_key: Option<bool>, now: Instant) {
        if self.known.len() >= MOST {
            self.known.clear();
        }
        self.known.insert(table, (now, lacks_key));
    }

    /// Which of the appliers look for rows without a key.
    pub(super) fn search(&self, held: &Held) -> RowSearch {
        let mut search = RowSearch::default();
        let mut at: BTreeMap<String, u64> = BTreeMap::new();
        for tables in held.values() {
            if tables.iter().any(|table| self.lack(table).is_none()) || tables.is_empty() {
                search.unknown += 1;
            } else if tables.iter().all(|table| self.lack(table) == Some(true)) {
                search.appliers += 1;
                for table in tables {
                    *at.entry(table.to_string()).or_default() += 1;
                }
            } else if tables.iter().any(|table| self.lack(table) == Some(true)) {
                search.unknown += 1;
            }
        }
        search.table = most(at);
        search
    }

    /// Why it is not known of some, in words.
    pub(super) fn why_unknown(&self, held: &Held) -> Option<String> {
        held.values().find_map(|tables| {
            let find = |lack: Option<bool>| {
                tables.iter().find(|table| self.known.get(*table).is_some_and(|(_, known)| *known == lack))
            };
            if let Some(table) = find(None) {
                return Some(format!(
                    "whether {table}, which an applier changes, has a key is not told: \
                     mysql.innodb_index_stats has no row of it (it is not of InnoDB, or keeps no persistent \
                     statistics)"
                ));
            }
            let (without, with) = (find(Some(true))?, find(Some(false))?);
            Some(format!(
                "whether an applier looks for rows without a key is not told: it has changed {without}, \
                 which has none, and {with}, which has one, in one transaction"
            ))
        })
    }

    fn lack(&self, table: &Table) -> Option<bool> {
        self.known.get(table).and_then(|(_, lack)| *lack)
    }
}

/// Reads rows of `applier`, `in_schema`, `in_table`.
pub(super) fn held(rows: &Rows) -> Held {
    let mut held = Held::new();
    for row in rows.iter() {
        let Some(applier) = row.parse::<u64>(&["applier"]) else { continue };
        let tables = held.entry(applier).or_default();
        if let (Some(schema), Some(name)) = (row.text(&["in_schema"]), row.text(&["in_table"])) {
            tables.insert(Table { schema: schema.to_owned(), name: name.to_owned() });
        }
    }
    held
}

/// Reads a row of `lacks_key`; `None` where nothing is told of the table.
pub(super) fn lacks_key(rows: &Rows) -> Option<bool> {
    rows.first()?.parse::<u8>(&["lacks_key"]).map(|lacks| lacks != 0)
}

/// The one that counts most.
fn most(of: BTreeMap<String, u64>) -> Option<String> {
    of.into_iter().max_by_key(|(_, count)| *count).map(|(table, _)| table)
}

/// The table that a state ends with, in quotes. `information_schema` cuts long states off.
fn table_in(state: &str, schema: Option<&str>) -> Option<String> {
    let quoted = state.split_once(" on table ")?.1.trim();
    let quote = ['`', '"'].into_iter().find(|quote| quoted.starts_with(*quote));
    let name = match quote {
        None => quoted.to_owned(),
        Some(quote) => match quoted[1..].strip_suffix(quote) {
            Some(whole) => whole.to_owned(),
            None => format!("{}...", &quoted[1..]),
        },
    };
    let name = schema.map_or_else(|| name.clone(), |schema| format!("{schema}.{name}"));
    Some(printable(&name)).filter(|name| !name.is_empty())
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&printable(&format!("{}.{}", self.schema, self.name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(names: &[&str], all: &[&[Option<&str>]]) -> Rows {
        let row = |row: &&[Option<&str>]| row.iter().map(|text| text.map(str::to_owned)).collect();
        Rows::new(names.iter().map(|name| (*name).to_owned()), all.iter().map(row).collect())
    }

    fn table(name: &str) -> Table {
        Table { schema: "app".to_owned(), name: name.to_owned() }
    }

    #[test]
    fn appliers_of_mariadb_that_look_for_a_row_name_the_table() {
        let find = "Update_rows_log_event::find_row(-1) on table `keyless`";
        let old = "Delete_rows_log_event::find_row()";
        let write = "Write_rows_log_event::write_row(-1) on table `a`";
        let listed = rows(
            &["Id", "User", "db", "Command", "Time", "State"],
            &[
                &[Some("5"), Some("system user"), Some("app"), Some("Slave_worker"), Some("3"), Some(find)],
                &[Some("6"), Some("system user"), Some("app"), Some("Slave_worker"), Some("3"), Some(find)],
                &[Some("7"), Some("system user"), None, Some("Slave_worker"), Some("3"), Some(old)],
                &[Some("8"), Some("system user"), Some("app"), Some("Slave_worker"), Some("3"), Some(write)],
                &[Some("9"), Some("app"), Some("app"), Some("Query"), Some("3"), Some("Updating")],
            ],
        );
        let search = RowSearch::by_states(&listed);
        assert_eq!((search.appliers, search.unknown, search.table.as_deref()), (3, 0, Some("app.keyless")));
        // Cut off at 64 characters, in groups.
        let cut = "Update_rows_log_event::find_row(-1) on table `a_rather_long_name";
        let grouped = rows(
            &["command", "state", "sessions", "longest_ms", "db"],
            &[&[Some("Slave_worker"), Some(cut), Some("4"), Some("2.5"), None]],
        );
        let search = RowSearch::by_states(&grouped);
        assert_eq!((search.appliers, search.table.as_deref()), (4, Some("a_rather_long_name...")));
        assert_eq!(RowSearch::by_states(&rows(&["command", "state"], &[])), RowSearch::default());
    }

    #[test]
    fn appliers_of_mysql_are_known_by_the_tables_that_they_hold() {
        let held = held(&rows(
            &["applier", "in_schema", "in_table"],
            &[
                &[Some("61"), Some("app"), Some("keyless")],
                &[Some("61"), Some("app"), Some("keyless")],
                &[Some("62"), Some("app"), Some("keyless")],
                &[Some("63"), Some("app"), Some("orders")],
                &[Some("64"), Some("app"), Some("log")],
                &[Some("64"), Some("app"), Some("orders")],
                &[Some("65"), None, None],
                &[Some("66"), Some("app"), Some("aria")],
            ],
        ));
        let (mut keys, now) = (Keys::default(), Instant::now());
        assert_eq!(keys.search(&held), RowSearch::not_known(6), "nothing was asked yet");
        assert_eq!(keys.next_to_ask(&held, now), ["aria", "keyless", "log", "orders"].map(table));
        let said = |lacks: Option<&str>| lacks_key(&rows(&["lacks_key"], &[&[lacks]]));
        keys.note(table("keyless"), said(Some("1")), now);
        keys.note(table("orders"), said(Some("0")), now);
        keys.note(table("log"), said(Some("1")), now);
        keys.note(table("aria"), said(None), now);
        assert!(keys.next_to_ask(&held, now).is_empty());
        let search = keys.search(&held);
        // Of 64 it may be either table, 65's is not told, nor the key of 66's.
        assert_eq!((search.appliers, search.unknown), (2, 3));
        assert_eq!(search.table.as_deref(), Some("app.keyless"));
        let why = keys.why_unknown(&held).unwrap();
        assert!(why.contains("app.log, which has none, and app.orders"), "{why}");
        let untold: Held = [(66, BTreeSet::from([table("aria")]))].into();
        assert!(keys.why_unknown(&untold).unwrap().contains("innodb_index_stats has no row of it"));
        let keyed: Held = [(63, BTreeSet::from([table("orders")]))].into();
        assert_eq!((keys.search(&keyed), keys.why_unknown(&keyed)), (RowSearch::default(), None));
    }

    #[test]
    fn a_table_is_asked_for_again_after_a_minute_and_few_at_a_time() {
        let (mut keys, start) = (Keys::default(), Instant::now());
        let held: Held = [(1, (0..300).map(|number| table(&format!("t{number:03}"))).collect())].into();
        assert_eq!(keys.next_to_ask(&held, start).len(), AT_ONCE);
        for table in held.values().flatten() {
            keys.note(table.clone(), Some(false), start);
        }
        assert!(keys.known.len() <= MOST);
        let last: Held = [(1, BTreeSet::from([table("t299")]))].into();
        assert!(keys.next_to_ask(&last, start + Duration::from_secs(59)).is_empty());
        assert_eq!(keys.next_to_ask(&last, start + REMEMBERED), [table("t299")]);
    }
}
