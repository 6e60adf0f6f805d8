//! The old primary comes back: as a replica when it has nothing of its own, else it stays closed to writes
//! and what nobody else has is shown.
//!
//! What it has of its own are transactions that it wrote and no replica received. Without semi-sync clients
//! may have been told that they are safe; with it they never were. They cannot be taken back on a running
//! server: MariaDB truncates them when it is *started* after the crash with `--init-rpl-role=SLAVE` (they are
//! then only prepared, never committed), and once committed only a rebuild from the new primary removes them,
//! on MySQL always.

use super::receiver;
use crate::connection::{BRIEFLY, Connection};
use crate::dialect::{Dialect, Source};
use crate::facts::{self, Channel, Facts};
use crate::login;
use crate::perform::{Logins, Member, RECEIVER_STOPS};
use crate::semi_sync::Switches;
use crate::survey;
use crate::{Error, check};
use config::Credentials;
use fleet::{Flavour, GtidSet, ServerName, Snapshot};
use observe::AskError;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// Transactions that the old primary has and the new one does not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnTransactions {
    /// In the server's words: `0-1-101..0-1-105`, or a GTID set.
    pub transactions: String,
    /// How many, where that can be counted.
    pub count: u64,
}

/// Why it cannot be said what a server has of its own.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnreadableGtid {
    #[error("'{0}' is no GTID")]
    Gtid(String),
    #[error(transparent)]
    Set(fleet::GtidError),
}

/// Each server's last transaction in each domain, as `gtid_binlog_state` lists it.
type BinlogState = BTreeMap<(u32, u32), u64>;

/// What `old` has and `new` does not, by MariaDB's `gtid_binlog_state` or MySQL's `gtid_executed`; `None`
/// when nothing. The old one must be closed to writes when it is read. Comparing positions is not enough: the
/// new primary has gone on, under higher numbers.
///
/// # Errors
/// When one of the two cannot be read: then nothing is known.
pub fn own_transactions(
    flavour: Flavour,
    old: &str,
    new: &str,
) -> Result<Option<OwnTransactions>, UnreadableGtid> {
    own_of(flavour, old, new, false)
}

/// The same; `strict` where the old one has `gtid_strict_mode`: then the numbers of a domain only rise in its
/// log, and whoever has a higher one of that domain from it has had all before. A server that was rebuilt
/// from a backup knows no others by name.
fn own_of(
    flavour: Flavour,
    old: &str,
    new: &str,
    strict: bool,
) -> Result<Option<OwnTransactions>, UnreadableGtid> {
    if flavour == Flavour::MySql {
        let read = |text: &str| text.parse::<GtidSet>().map_err(UnreadableGtid::Set);
        let own = read(old)?.minus(&read(new)?);
        let count = own.len();
        return Ok((count > 0).then(|| OwnTransactions { transactions: own.to_string(), count }));
    }
    let (old, new) = (state(old)?, state(new)?);
    let (mut transactions, mut count) = (Vec::new(), 0);
    for (&(domain, server), &last) in &old {
        let known = new.get(&(domain, server)).copied();
        let came_before = |(&(of, by), &later): (&(u32, u32), &u64)| {
            of == domain && later > last && new.get(&(of, by)).is_some_and(|there| *there >= later)
        };
        if strict && known.is_none() && old.iter().any(came_before) {
            continue;
        }
        let there = known.unwrap_or(0);
        if last > there {
            transactions.push(format!("{domain}-{server}-{} to {domain}-{server}-{last}", there + 1));
            // At most this many: other servers' transactions use numbers of the domain too.
            count += last - there;
        }
    }
    let transactions = transactions.join(", ");
    Ok((count > 0).then_some(OwnTransactions { transactions, count }))
}

/// What a server of this number wrote itself, by its own `gtid_binlog_state` and that of another server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Written {
    /// The other one has less from it.
    pub(crate) lacking: Option<OwnTransactions>,
    /// The other one has never had anything from it, or its log does not know any more.
    pub(crate) unknown: Option<OwnTransactions>,
}

/// Of MariaDB. What is compared is only what the server wrote itself: of others it may have more than the
/// other server, which was read at another time.
pub(crate) fn written_by(server_id: u32, own: &str, other: &str) -> Result<Written, UnreadableGtid> {
    let there = state(other)?;
    let (mut known, mut unknown) = (Vec::new(), Vec::new());
    for ((domain, server), last) in state(own)?.into_iter().filter(|((_, server), _)| *server == server_id) {
        let list = if there.contains_key(&(domain, server)) { &mut known } else { &mut unknown };
        list.push(format!("{domain}-{server}-{last}"));
    }
    let compared = |list: &[String]| own_transactions(Flavour::MariaDb, &list.join(","), other);
    Ok(Written { lacking: compared(&known)?, unknown: compared(&unknown)? })
}

/// The last of each; of one that is named twice the later.
fn state(text: &str) -> Result<BinlogState, UnreadableGtid> {
    let one = |text: &str| -> Result<((u32, u32), u64), UnreadableGtid> {
        let unreadable = || UnreadableGtid::Gtid(text.to_owned());
        let mut numbers = text.split('-').map(str::parse::<u64>);
        let mut next = || numbers.next().and_then(Result::ok).ok_or_else(unreadable);
        let (domain, server, sequence) = (next()?, next()?, next()?);
        let narrow = |number: u64| u32::try_from(number).map_err(|_| unreadable());
        Ok(((narrow(domain)?, narrow(server)?), sequence))
    };
    let mut all = BinlogState::new();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let (key, sequence) = one(part)?;
        let last = all.entry(key).or_default();
        *last = sequence.max(*last);
    }
    Ok(all)
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RejoinOutcome {
    /// It follows the new primary.
    Follows,
    /// It has something of its own; it is closed to writes and follows nobody.
    Refused {
        own: OwnTransactions,
        /// What to do, in words.
        mend: String,
    },
}

/// Who takes writes in the place of `old`, and how its replicas protect their connections to it. Beside a
/// returned one that is writable nobody is called the primary: the server that takes writes is meant.
///
/// # Errors
/// When it is not exactly one.
pub async fn new_primary(
    snapshot: &Snapshot,
    old: &ServerName,
    who: &Credentials,
    deadline: Duration,
) -> Result<(Facts, Vec<(String, String)>), Error> {
    let (mut writers, mut protection) = (Vec::new(), None);
    for server in snapshot.servers.iter().filter(|server| server.name != *old) {
        let Ok(facts) = facts::read(&server.name, &server.reach, who, deadline).await else { continue };
        if facts.refuses_writes() {
            protection = facts.channels.first().map(|channel| channel.protection.clone()).or(protection);
        } else {
            writers.push(facts);
        }
    }
    let names: Vec<&str> = writers.iter().map(|facts| facts.server.as_str()).collect();
    if names.len() != 1 {
        let who = if names.is_empty() { "none".to_owned() } else { names.join(" and ") };
        let why = format!("one of the other servers must take writes; it is {who}");
        return Err(Error::Refused { server: old.clone(), why });
    }
    let new = writers.swap_remove(0);
    let protection = match protection {
        Some(protection) => protection,
        None => recorded_protection(&new, who, deadline).await.unwrap_or_default(),
    };
    Ok((new, protection))
}

/// Closes the old primary to writes, looks what nobody else has, and lets it follow the new one when there is
/// nothing, protected as its replicas' connections are ([`facts::Channel::protection`]).
///
/// # Errors
/// When a server does not do what it should.
pub async fn rejoin(
    old: &Facts,
    new: &Facts,
    protection: &[(String, String)],
    logins: &Logins,
    deadline: Duration,
) -> Result<RejoinOutcome, Error> {
    let refused = |facts: &Facts, why: String| Error::Refused { server: facts.server.clone(), why };
    if new.refuses_writes() {
        return Err(refused(new, "refuses writes: it is not the primary".to_owned()));
    }
    if new.channels.iter().any(|channel| follows(channel, old)) {
        let why = format!(
            "takes writes and follows {old}, so which of the two is the primary is not clear; nothing was touched. Where it \
             is {old}, on {}: {}. Else there: {}; {}, then again",
            new.server,
            new.dialect().refuse_as_replica(),
            new.dialect().stop_replication(),
            new.dialect().forget_source(),
            old = old.server
        );
        return Err(refused(new, why));
    }
    let dialect = old.dialect();
    // Told without a name, MySQL would stop all its channels and refuse the rest (error 3079).
    let named = old.channels.iter().find(|channel| !channel.name.is_empty());
    if let Some(channel) = named.filter(|_| !dialect.is_mariadb()) {
        let why = format!(
            "replicates by a channel named '{}', and such a server is not moved by this tool; nothing was touched. Where \
             nobody needs that channel, there: {} FOR CHANNEL '{}'; {}, then again",
            channel.name,
            dialect.stop_replication(),
            channel.name,
            dialect.forget_channel(&channel.name)
        );
        return Err(refused(old, why));
    }
    let (user, password) = &logins.replication;
    // Before it is closed to writes for nothing.
    if let Some(length) = login::too_long(dialect, password) {
        let (facts, mend) = login::too_long_words(old.server.as_str(), user, length);
        return Err(refused(old, format!("{facts}. {mend}")));
    }
    let stops_within = deadline.max(RECEIVER_STOPS);
    // The new primary is asked nothing while the other one stops and catches up.
    let idle = BRIEFLY + stops_within + deadline;
    let mut returned = Connection::open(&old.server, &old.reach, &logins.admin, deadline, idle).await?;
    let mut primary = Connection::open(&new.server, &new.reach, &logins.admin, deadline, idle).await?;
    // It may be about to be promoted in the place of the one that was found to take writes.
    for server in [&mut returned, &mut primary] {
        receiver::nobody_is_at_work(server, deadline).await?;
    }
    // First of all: from here on it writes nothing of its own.
    returned.run(dialect.refuse_as_replica(), deadline).await?;
    let [of_old, mut of_new] = [
        returned.scalar(history(dialect), deadline).await?.unwrap_or_default(),
        primary.scalar(history(new.dialect()), deadline).await?.unwrap_or_default(),
    ]
    .map(|text| text.replace(['\n', ' '], ""));
    if new.dialect().is_mariadb() {
        // It logs nothing of what changed nothing there: a statement that met no row, a temporary table.
        let replicated = primary.scalar("SELECT @@GLOBAL.gtid_slave_pos", deadline).await?;
        of_new = format!("{of_new},{}", replicated.unwrap_or_default());
    }
    let target = survey::member(new);
    let strict = old.is_on(&["gtid_strict_mode"]) == Some(true);
    let own = own_of(old.version.flavour, &of_old, &of_new, strict)
        .map_err(|error| refused(old, error.to_string()))?;
    if let Some(own) = own {
        let mend = mend(dialect, &own, &target);
        return Ok(RejoinOutcome::Refused { own, mend });
    }
    // A replica with the source's switch on waits for acknowledgements of what it applies.
    let has = Switches::of(old);
    let replica = has.replica.filter(|_| new.semi_sync_source());
    let switches = [has.source.map(|switch| switch.set(false)), replica.map(|switch| switch.set(true))];
    for statement in switches.into_iter().flatten() {
        returned.run(&statement, deadline).await?;
    }
    if !old.channels.is_empty() {
        stop_replication(&mut returned, dialect, stops_within).await?;
    }
    let login = Some((user.as_str(), password.as_str()));
    let source = Source { host: &target.host, port: target.port, login, protection };
    returned.follow(dialect, &source, deadline).await?;
    let position = primary.scalar(new.dialect().position(), deadline).await?.unwrap_or_default();
    let seconds = deadline.as_secs_f64();
    let wait = dialect.wait_for(&position, seconds);
    let reached = returned.scalar(&wait, deadline + Duration::from_secs(2)).await?;
    primary.close().await;
    if reached.as_deref() != Some("0") {
        let channels = facts::channels(&mut returned, dialect, deadline).await?;
        let error = channels.first().map_or("", |channel| channel.last_error.as_str());
        let mut detail = format!(" {error}").trim_end_matches([' ', '.']).to_owned();
        if dialect.is_mariadb() {
            detail.push_str(
                ". Until then events of administrators may run there: once it has caught up, --rejoin again",
            );
        }
        return Err(Error::TooLate {
            server: old.server.clone(),
            what: format!("follows {} and has not caught up", new.server),
            seconds,
            detail,
        });
    }
    returned.close().await;
    Ok(RejoinOutcome::Follows)
}

/// A receiver that is at an attempt to reach a host that vanished stops once that attempt has ended.
async fn stop_replication(returned: &mut Connection, dialect: Dialect, limit: Duration) -> Result<(), Error> {
    match returned.run(dialect.stop_replication(), limit).await {
        Err(Error::Server { server, source: AskError::Silent { .. }, .. }) => Err(Error::TooLate {
            server,
            what: "its replication does not stop".to_owned(),
            seconds: limit.as_secs_f64(),
            detail: format!(
                ": its receiver may be at an attempt to reach its source. It was told to ({}) and refuses writes; once it has \
                 stopped, again",
                dialect.stop_replication()
            ),
        }),
        stopped => stopped,
    }
}

/// Whether a channel reads from a server, or tries to. One that is stopped may be left from before a
/// promotion by hand.
fn follows(channel: &Channel, server: &Facts) -> bool {
    (channel.receiver_runs || channel.receiver_tries) && check::is_source(server, channel)
}

/// How the replicas' connections to the primary were protected when it was promoted, as it has recorded;
/// `None` where it has recorded nothing. For a fleet in which no other replica is left to read that from.
pub async fn recorded_protection(
    new: &Facts,
    who: &Credentials,
    deadline: Duration,
) -> Option<Vec<(String, String)>> {
    let record = survey::newest_record(&new.server, &new.reach, who, deadline).await.ok()??;
    let plan: crate::perform::Plan = serde_json::from_str(&record.2).ok()?;
    // It comes out of a table that others may write, and goes into a statement.
    Some(plan.protection.into_iter().filter(is_safe).collect())
}

/// Whether an option is a name and a number, or a text that ends where it seems to.
fn is_safe((name, value): &(String, String)) -> bool {
    let name = name.chars().all(|c| c.is_ascii_uppercase() || c == '_');
    let inner = value.strip_prefix('\'').and_then(|value| value.strip_suffix('\''));
    let text = inner.is_some_and(|inner| !inner.replace("''", "").replace(r"\\", "").contains(['\'', '\\']));
    let number = value.starts_with(|c: char| c.is_ascii_digit())
        && value.chars().all(|c| c.is_ascii_digit() || c == '.');
    name && (text || number)
}

/// Asks for what [`own_transactions`] compares.
pub(crate) fn history(dialect: Dialect) -> &'static str {
    if dialect.is_mariadb() { "SELECT @@GLOBAL.gtid_binlog_state" } else { "SELECT @@GLOBAL.gtid_executed" }
}

/// How to see what it has, and how to get rid of it.
fn mend(dialect: Dialect, own: &OwnTransactions, primary: &Member) -> String {
    let from = format!("{}:{}", primary.host, primary.port);
    if dialect.is_mariadb() {
        return format!(
            "look at it first: mariadb-binlog --base64-output=decode-rows -v over its newest binary logs. It is committed and \
             cannot be discarded on the running server; rebuild it: mariadb-backup --backup on {from}, --prepare, \
             --copy-back here. To have MariaDB truncate what was never acknowledged, a crashed primary must be started with \
             --init-rpl-role=SLAVE (and rpl_semi_sync_slave_enabled) the first time"
        );
    }
    format!(
        "look at it first: mysqlbinlog --include-gtids='{}' -v over its newest binary logs. It cannot be discarded on the \
         running server; rebuild it: CLONE INSTANCE FROM 'user'@'{}':{} IDENTIFIED BY '...'",
        own.transactions, primary.host, primary.port
    )
}

impl fmt::Display for OwnTransactions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (at most {} transactions)", self.transactions, self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perform::tests::logins;
    use lab::scripted::{Reply, Script, ScriptedServer};
    use proptest::prelude::*;
    use std::sync::{Arc, Mutex};

    #[test]
    fn a_new_primary_that_has_gone_on_hides_nothing() {
        // 1 wrote up to 105; 2 received 100 of these and went on from there.
        let found = own_transactions(Flavour::MariaDb, "0-1-105", "0-1-100,0-2-300").unwrap().unwrap();
        assert_eq!((found.transactions.as_str(), found.count), ("0-1-101 to 0-1-105", 5));
        assert_eq!(own_transactions(Flavour::MariaDb, "0-1-100", "0-1-100,0-2-300"), Ok(None));
        let uuid = "3e11fa47-71ca-11e1-9e33-c80aa9429562";
        let found = own_transactions(Flavour::MySql, &format!("{uuid}:1-9"), &format!("{uuid}:1-7"))
            .unwrap()
            .unwrap();
        assert_eq!((found.transactions.as_str(), found.count), (format!("{uuid}:8-9").as_str(), 2));
        assert!(
            own_transactions(Flavour::MariaDb, "nonsense", "").is_err(),
            "what cannot be read is not nothing"
        );
    }

    #[test]
    fn what_a_rebuilt_primary_knows_by_a_higher_number_only_is_not_its_own() {
        let own = |old: &str, new: &str, strict: bool| own_of(Flavour::MariaDb, old, new, strict).unwrap();
        // 3 was the primary once; the new one was rebuilt from a backup of the time of 2.
        let (old, rebuilt) = ("0-3-50,0-2-300", "0-2-300,0-1-400");
        assert_eq!(own(old, rebuilt, true), None);
        assert!(own(old, rebuilt, false).is_some(), "without strict mode a number may have come later");
        assert!(own("0-3-301,0-2-300", rebuilt, true).is_some(), "written after all that the new one has");
        assert!(own("1-3-50,0-2-300", rebuilt, true).is_some(), "another domain");
        assert!(own("0-3-50,0-2-301", rebuilt, true).is_some(), "the higher one is its own too");
    }

    #[tokio::test]
    async fn a_password_that_the_old_primary_cannot_be_told_closes_nothing() {
        // Nobody listens there: a server that was asked anything would be an error of another kind.
        let (old, new) = (facts::tests::facts("a1", "8.4.2"), facts::tests::facts("a2", "8.4.2"));
        let logins = Logins {
            admin: Credentials::default(),
            replication: ("repl".to_owned(), "x".repeat(33)),
            flags: Default::default(),
        };
        let rejoined = rejoin(&old, &new, &[], &logins, Duration::from_secs(1)).await;
        let Err(Error::Refused { why, .. }) = rejoined else { panic!("{rejoined:?}") };
        assert!(why.contains("has 33 bytes") && why.contains("ALTER USER"), "{why}");
    }

    #[tokio::test]
    async fn a_server_of_mysql_with_another_channel_is_not_stopped() {
        // Nobody listens there, as above.
        let named = Channel { name: "reports".to_owned(), ..facts::tests::channel("x1", 3306, 99) };
        let old = Facts { channels: vec![named], ..facts::tests::facts("a1", "8.4.2") };
        let new = facts::tests::facts("a2", "8.4.2");
        let rejoined = rejoin(&old, &new, &[], &logins(), Duration::from_secs(1)).await;
        let Err(Error::Refused { why, .. }) = rejoined else { panic!("{rejoined:?}") };
        assert!(why.contains("a channel named 'reports'") && why.contains("nothing was touched"), "{why}");
        assert!(why.contains("RESET REPLICA ALL FOR CHANNEL 'reports'"), "{why}");
    }

    #[tokio::test]
    async fn a_primary_is_not_closed_because_its_replica_takes_writes_by_mistake() {
        let version = "10.11.6-MariaDB";
        let old = Facts { server_id: 11, ..facts::tests::facts("a1", version) };
        let channel = facts::tests::channel("a1", 3306, 11);
        let logins = logins();
        let rejoined = async |channel: Channel| {
            let new = Facts { channels: vec![channel], ..facts::tests::facts("a2", version) };
            // Nobody listens there: whoever is asked anything is an error of another kind.
            let old = Facts { reach: fleet::Address::tcp("127.0.0.1", 1), ..old.clone() };
            rejoin(&old, &new, &[], &logins, Duration::from_secs(1)).await.unwrap_err()
        };
        let unclear = rejoined(channel.clone()).await;
        assert!(matches!(unclear, Error::Refused { .. }), "{unclear}");
        assert!(unclear.to_string().contains("a2: takes writes and follows a1"), "{unclear}");
        // Promoted by hand; and one that follows somebody else.
        let stopped = Channel { receiver_runs: false, ..channel.clone() };
        let elsewhere = Channel { source_id: 12, ..channel };
        for goes_on in [stopped, elsewhere] {
            let connecting = rejoined(goes_on).await;
            assert!(matches!(connecting, Error::Server { .. }), "{connecting}");
        }
    }

    #[tokio::test]
    async fn a_server_that_is_just_being_promoted_is_not_closed() {
        let told = Arc::new(Mutex::new(Vec::<String>::new()));
        let heard = told.clone();
        let script = Script::new("10.11.6-MariaDB", move |statement, _| {
            heard.lock().unwrap().push(statement.to_owned());
            match statement.contains("IS_USED_LOCK('headroom.switchover')") {
                true => Reply::value("holder", "7"),
                false => Reply::Usual,
            }
        });
        let server = ScriptedServer::start(script).await.unwrap();
        let reach = fleet::Address::tcp("127.0.0.1", server.address().port());
        let [old, new] = ["a1", "a2"]
            .map(|name| Facts { reach: reach.clone(), ..facts::tests::facts(name, "10.11.6-MariaDB") });
        let logins = logins();
        let refused = rejoin(&old, &new, &[], &logins, Duration::from_secs(5)).await.unwrap_err();
        assert!(refused.to_string().contains("session 7 holds headroom.switchover"), "{refused}");
        let told = told.lock().unwrap().clone();
        assert!(!told.iter().any(|statement| statement.contains("SET GLOBAL")), "{told:?}");
    }

    #[tokio::test]
    async fn what_the_new_primary_replicated_and_had_nothing_to_log_of_is_not_the_old_ones_own() {
        let server = async |name: &str, state: &'static str, replicated: &'static str| {
            let script = Script::new("10.11.6-MariaDB", move |statement, _| match statement {
                "SELECT @@GLOBAL.gtid_binlog_state" => Reply::value("state", state),
                "SELECT @@GLOBAL.gtid_slave_pos" => Reply::value("replicated", replicated),
                "SELECT @@GLOBAL.gtid_binlog_pos" => Reply::value("position", "0-12-107"),
                "START SLAVE" => Reply::Ok,
                _ if statement.starts_with("CHANGE MASTER TO") => Reply::Ok,
                _ if statement.starts_with("SELECT MASTER_GTID_WAIT") => Reply::value("reached", "0"),
                _ if statement.contains("IS_USED_LOCK") => Reply::rows(&["holder"], &[&[None]]),
                _ => Reply::Usual,
            });
            let server = ScriptedServer::start(script).await.unwrap();
            let reach = fleet::Address::tcp("127.0.0.1", server.address().port());
            (Facts { reach, ..facts::tests::facts(name, "10.11.6-MariaDB") }, server)
        };
        let logins = logins();
        let (new, _new) = server("a2", "0-11-104,0-12-107", "0-11-105").await;
        for (of_old, follows) in [("0-11-105", true), ("0-11-106", false)] {
            let (old, _old) = server("a1", of_old, "").await;
            let rejoined = rejoin(&old, &new, &[], &logins, Duration::from_secs(5)).await.unwrap();
            assert_eq!(rejoined == RejoinOutcome::Follows, follows, "{of_old}: {rejoined:?}");
        }
    }

    #[tokio::test]
    async fn a_receiver_that_tries_to_reach_a_vanished_host_is_waited_for() {
        const STOPS: Duration = Duration::from_millis(1_500);
        let server = async |name: &str, reached: &'static str| {
            let told = Arc::new(Mutex::new(Vec::<String>::new()));
            let heard = told.clone();
            let script = Script::new("10.11.6-MariaDB", move |statement, _| {
                heard.lock().unwrap().push(statement.to_owned());
                match statement {
                    "SHOW ALL SLAVES STATUS" => Reply::rows(&["Connection_name"], &[]),
                    "STOP SLAVE" => Reply::Ok.after(STOPS),
                    "START SLAVE" => Reply::Ok,
                    "SELECT @@GLOBAL.gtid_binlog_state" => Reply::value("state", "0-11-104"),
                    "SELECT @@GLOBAL.gtid_slave_pos" => Reply::value("replicated", "0-11-104"),
                    "SELECT @@GLOBAL.gtid_binlog_pos" => Reply::value("position", "0-11-104"),
                    _ if statement.starts_with("CHANGE MASTER TO") => Reply::Ok,
                    _ if statement.starts_with("SELECT MASTER_GTID_WAIT") => Reply::value("reached", reached),
                    _ if statement.contains("IS_USED_LOCK") => Reply::rows(&["holder"], &[&[None]]),
                    _ => Reply::Usual,
                }
            });
            let server = ScriptedServer::start(script).await.unwrap();
            let reach = fleet::Address::tcp("127.0.0.1", server.address().port());
            (Facts { reach, ..facts::tests::facts(name, "10.11.6-MariaDB") }, server, told)
        };
        let ((old, _old, _), (new, _new, told)) = (server("b1", "0").await, server("a2", "0").await);
        let old = Facts { channels: vec![facts::tests::channel("a1", 3306, 11)], ..old };
        let logins = logins();
        let deadline = Duration::from_secs(1);
        let rejoined = rejoin(&old, &new, &[], &logins, deadline).await.unwrap();
        assert_eq!(rejoined, RejoinOutcome::Follows);
        let told = told.lock().unwrap().clone();
        let idle =
            told.iter().find_map(|statement| statement.split_once("wait_timeout = ")?.1.split(',').next());
        let idle: u64 = idle.unwrap().parse().unwrap();
        assert!(idle > RECEIVER_STOPS.as_secs(), "the new primary is asked nothing meanwhile: {idle} s");
        let mut conn =
            Connection::open(&old.server, &old.reach, &logins.admin, deadline, BRIEFLY).await.unwrap();
        let late = stop_replication(&mut conn, old.dialect(), STOPS / 2).await.unwrap_err().to_string();
        assert!(late.starts_with("b1: its replication does not stop within 0.75 s: its receiver"), "{late}");
        let (behind, _behind, _) = server("b2", "-1").await;
        let late = rejoin(&behind, &new, &[], &logins, deadline).await.unwrap_err().to_string();
        let words = "b2: follows a2 and has not caught up within 1 s. Until then events of administrators may run there";
        assert!(late.starts_with(words) && late.ends_with("--rejoin again"), "{late}");
    }

    #[test]
    fn what_another_wrote_into_the_record_ends_no_text() {
        let option = |name: &str, value: &str| is_safe(&(name.to_owned(), value.to_owned()));
        assert!(
            option("SSL", "1") && option("SSL_CA", "'/etc/ssl/it''s.pem'") && option("SSL_CA", r"'a\\b'")
        );
        for value in [r"'a\'", r"'a\b'", "'a' , MASTER_HOST = 'b'", "x", ""] {
            assert!(!option("SSL_CA", value), "{value}");
        }
        assert!(!option("SSL = 1, X", "1"));
    }

    proptest! {
        #[test]
        fn only_what_the_new_primary_lacks_is_its_own(
            old in prop::collection::btree_map((0u32..2, 1u32..4), 1u64..50, 0..5),
            new in prop::collection::btree_map((0u32..2, 1u32..4), 1u64..50, 0..5),
        ) {
            let text = |state: &BinlogState| {
                state.iter().map(|((d, s), n)| format!("{d}-{s}-{n}")).collect::<Vec<_>>().join(",")
            };
            let lacks = old.iter().any(|(key, last)| new.get(key).copied().unwrap_or(0) < *last);
            let found = own_transactions(Flavour::MariaDb, &text(&old), &text(&new)).unwrap();
            prop_assert_eq!(found.is_some(), lacks);
        }
    }
}
