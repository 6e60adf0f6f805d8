//! Who holds a lock that others wait for: the session to look at, by its number, account and place. The text
//! of its statement is left out, because it may hold secrets.

use observe::Rows;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::IpAddr;
use term::printable;

/// A session that others wait for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blocker {
    /// Its number on the server: what KILL takes. 0 is no session: a transaction that was prepared by XA
    /// before its session ended, or that is rolled back after a crash.
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
        let place = match row.text(&["host_port"]) {
            // Of MariaDB's process list: the last colon of an IPv6 address, too, is that of a port.
            Some(place) => place.rsplit_once(':').map_or(place, |(host, _)| host),
            None => without_port(row.text(&["host"]).unwrap_or_default()),
        };
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

/// Performance schemas tell an address without a port, which of IPv6 has colons of its own.
fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((place, _)) if host.parse::<IpAddr>().is_err() => place,
        _ => host,
    }
}

impl fmt::Display for Blocker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let likely = if self.guessed { "likely " } else { "" };
        let Self { id, user, host, age_s, .. } = self;
        let on = |f: &mut fmt::Formatter<'_>| match &self.table {
            Some(table) => write!(f, ", on {table}"),
            None => Ok(()),
        };
        if *id == 0 {
            write!(f, "{likely}a transaction of no session, open for {age_s} s")?;
            on(f)?;
            return write!(f, "; XA RECOVER lists those that were prepared");
        }
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
        on(f)
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
    fn an_address_of_ipv6_is_whole_with_and_without_a_port_and_a_transaction_may_have_no_session() {
        let said = |id: &str, host: Option<&str>| {
            let names = ["id", "user", "host", "command", "age_s", "held"].map(str::to_owned);
            let row = [Some(id), host.map(|_| "app"), host, Some("Sleep"), Some("31"), Some("shop.orders")];
            let rows = vec![row.map(|text| text.map(str::to_owned)).to_vec()];
            Blocker::read(&Rows::new(names, rows)).unwrap().to_string()
        };
        let words = |place: &str| {
            format!("session 42 of app@{place}, its transaction open for 31 s, idle, on shop.orders")
        };
        assert_eq!(said("42", Some("2001:db8::5")), words("2001:db8::5"));
        assert_eq!(said("42", Some("2001:db8::5:51234")), words("2001:db8::5"));
        assert_eq!(said("42", Some("localhost")), words("localhost"));
        let words = "a transaction of no session, open for 31 s, on shop.orders; XA RECOVER lists those that \
                     were prepared";
        assert_eq!(said("0", None), words);
        let names = ["id", "host_port"].map(str::to_owned);
        for (host_port, host) in [("2001:db8::5:8080", "2001:db8::5"), ("localhost", "localhost")] {
            let row = ["42", host_port].map(|text| Some(text.to_owned())).to_vec();
            assert_eq!(Blocker::read(&Rows::new(names.clone(), vec![row])).unwrap().host, host);
        }
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
