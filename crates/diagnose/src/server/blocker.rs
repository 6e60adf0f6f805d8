//! Who holds a lock that others wait for: the session to look at, by its number, account and place. The text
//! of its statement is left out, because it may hold secrets.

use super::printable;
use observe::Rows;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A session that others wait for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blocker {
    /// Its number on the server: what KILL takes.
    pub id: u64,
    pub user: String,
    /// Where it came from, without the port.
    pub host: String,
    /// Whether it is doing something or nothing.
    pub held: HeldBy,
    /// How long its transaction has been open, seconds; without one, how long it has been idle or in its
    /// statement.
    pub age_s: u64,
    /// Whether it has a transaction open. `LOCK TABLES` and `FLUSH TABLES WITH READ LOCK` need none.
    #[serde(default = "open")]
    pub in_transaction: bool,
    /// The table in question, where known.
    pub table: Option<String>,
    /// How many wait for it, at least; 0 when not known.
    pub waiting: u64,
    /// Whether it is the likeliest session instead of a known one.
    pub guessed: bool,
}

/// What the blocker does meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HeldBy {
    /// Its client has sent no statement: a transaction left open.
    ByAnIdleClient,
    ByAStatement,
}

/// Of a blocker that an older version wrote.
fn open() -> bool {
    true
}

impl Blocker {
    pub(super) fn read(rows: &Rows) -> Option<Self> {
        let row = rows.first()?;
        let host = row.text(&["host"]).unwrap_or_default();
        let place = host.rsplit_once(':').map_or(host, |(place, _)| place);
        let idle = row.text(&["command"]).is_some_and(|command| command.eq_ignore_ascii_case("Sleep"));
        Some(Self {
            id: row.parse(&["id"])?,
            user: printable(row.text(&["user"]).unwrap_or("?")),
            host: printable(place),
            held: if idle { HeldBy::ByAnIdleClient } else { HeldBy::ByAStatement },
            age_s: row.parse(&["age_s"]).unwrap_or(0),
            in_transaction: row.text(&["in_transaction"]).is_none_or(|text| text != "0"),
            table: row.filled(&["held"]).map(|table| printable(&table.replace('`', ""))),
            waiting: row.parse(&["waiting"]).unwrap_or(0),
            guessed: row.is_on(&["guessed"]),
        })
    }
}

impl fmt::Display for Blocker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let likely = if self.guessed { "likely " } else { "" };
        let Self { id, user, host, age_s, .. } = self;
        write!(f, "{likely}session {id} of {user}@{host}")?;
        let does = match self.held {
            HeldBy::ByAnIdleClient => "idle",
            HeldBy::ByAStatement => "in a statement",
        };
        if self.in_transaction {
            write!(f, ", its transaction open for {age_s} s, {does}")?;
        } else {
            write!(f, ", {does} for {age_s} s")?;
        }
        match &self.table {
            Some(table) => write!(f, ", on {table}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blocker_is_named_so_that_one_can_go_and_look() {
        let names =
            ["id", "user", "host", "command", "age_s", "held", "waiting", "guessed"].map(str::to_owned);
        let row = ["42", "app", "10.0.0.7:51234", "Sleep", "31", "`shop`.`orders`", "9", "0"];
        let rows = Rows::new(names, vec![row.iter().map(|text| Some((*text).to_owned())).collect()]);
        let blocker = Blocker::read(&rows).unwrap();
        let words = "session 42 of app@10.0.0.7, its transaction open for 31 s, idle, on shop.orders";
        assert_eq!((blocker.to_string().as_str(), blocker.waiting), (words, 9));
    }

    #[test]
    fn who_holds_a_lock_without_a_transaction_is_said_to_have_none() {
        let names = ["id", "user", "host", "command", "age_s", "in_transaction", "guessed"];
        let row = ["42", "a\u{1b}p", "10.0.0.7:51234", "Query", "31", "0", "1"];
        let row = row.iter().map(|text| Some((*text).to_owned())).collect();
        let blocker = Blocker::read(&Rows::new(names.map(str::to_owned), vec![row])).unwrap();
        // Nor does its name reach the terminal as a command.
        assert_eq!(blocker.to_string(), "likely session 42 of a p@10.0.0.7, in a statement for 31 s");
    }
}
