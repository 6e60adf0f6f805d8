//! What one server answered, as facts. Reading only: what the facts mean is said in `judge`.

mod clients;
pub(crate) mod managed;
mod replication;

use crate::ask::AskError;
use crate::privilege::Missing;
use crate::rows::Rows;
use fleet::heat::PoolCounters;
use fleet::{Address, FilePosition, Flavour, Position, Version};
use std::net::IpAddr;
use std::time::{Duration, Instant};

pub(crate) use clients::{Clients, Counting};
pub(crate) use managed::Managed;
pub use replication::without_statement;
pub(crate) use replication::{Channel, RegisteredReplica, Runs, channels, dump_hosts, registered_replicas};

#[derive(Clone, Debug)]
pub(crate) struct Answer {
    /// Flavour and numbers in words.
    pub(crate) product: String,
    pub(crate) identity: Identity,
    pub(crate) switches: Switches,
    /// Whether a switchover away from it is announced.
    pub(crate) announced: fleet::Announcement,
    /// Whether a switchover or failover holds its lock there.
    pub(crate) operation: bool,
    /// The newest finished operation that it knows of.
    pub(crate) epoch: crate::epoch::ServerEpoch,
    /// What its own binary log holds.
    pub(crate) written: Option<Position>,
    /// What it has applied of its source, where that is not told by file and offset.
    pub(crate) applied: Option<Position>,
    /// Where it replicates from, a channel each.
    pub(crate) channels: Channels,
    /// Who replicates from it, as far as known.
    pub(crate) replicas: Vec<RegisteredReplica>,
    /// What the cloud's own tables say of the whole cluster.
    pub(crate) managed: Option<Managed>,
    pub(crate) load: Option<Counters>,
    /// Its replication threads count as running threads (MariaDB).
    pub(crate) counts_replication: bool,
    /// What its client hosts ask of it.
    pub(crate) clients: Option<Clients>,
    /// Privileges that we miss.
    pub(crate) missing: Vec<Missing>,
    /// When the position was asked for and when its answer was there.
    pub(crate) asked: Instant,
    pub(crate) answered: Instant,
    /// What the question that is the same for all servers took, and when it was answered.
    pub(crate) question_time: Option<(Duration, Instant)>,
    pub(crate) round_trip: Option<Duration>,
    /// The address we talk to and the one it sees us by.
    pub(crate) peer: Option<IpAddr>,
    pub(crate) local: Option<IpAddr>,
    /// Why the connection is not encrypted although that was preferred.
    pub(crate) plain_because: Option<String>,
    /// Fallbacks in force on this connection, in words.
    pub(crate) remarks: Vec<String>,
    /// How often it is asked now.
    pub(crate) asking: fleet::Asking,
}

/// The channels of a server, or why they are not known.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Channels {
    Known(Vec<Channel>),
    Unknown {
        why: String,
        /// For want of a privilege, or because no answer came in time: it may replicate all the same.
        hidden: bool,
        /// What it told last, but for the state of its threads; `None` where it never told.
        last: Option<Vec<Channel>>,
    },
}

/// Who a server is, whatever address it is reached by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    /// The same for the same server, different for different ones.
    pub(crate) key: String,
    /// `server_uuid` (MySQL).
    pub(crate) uuid: Option<String>,
    pub(crate) server_id: u32,
    /// The address it says others should use (`report_host`), if it says one.
    pub(crate) reports: Option<Address>,
    pub(crate) port: u16,
    pub(crate) account: String,
    pub(crate) performance_schema: bool,
    pub(crate) userstat: bool,
    /// GTIDs are on (always, in MariaDB).
    pub(crate) gtid: bool,
    /// Its event scheduler counts as a running thread.
    pub(crate) event_scheduler: bool,
}

/// What keeps a server from taking writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Switches {
    pub(crate) read_only: bool,
    pub(crate) super_read_only: bool,
    pub(crate) innodb_read_only: bool,
}

/// Counters of load, with the moment they were read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Counters {
    pub(crate) at: Instant,
    pub(crate) sessions: u32,
    pub(crate) running: u32,
    pub(crate) questions: u64,
    /// Of the buffer pool; `None` where it has none.
    pub(crate) pool: Option<PoolCounters>,
}

impl Switches {
    /// Whether it takes writes from ordinary accounts.
    pub(crate) fn writable(self) -> bool {
        !(self.read_only || self.super_read_only || self.innodb_read_only)
    }

    /// The switch that forbids writes, strongest first; empty when it takes them.
    pub(crate) fn words(self) -> &'static str {
        match (self.innodb_read_only, self.super_read_only, self.read_only) {
            (true, _, _) => "innodb_read_only=1",
            (_, true, _) => "super_read_only=1",
            (_, _, true) => "read_only=1",
            _ => "",
        }
    }
}

impl Channels {
    /// The channels as it told them last, if it did.
    pub(crate) fn told(&self) -> Option<&[Channel]> {
        match self {
            Self::Known(list) => Some(list),
            Self::Unknown { last, .. } => last.as_deref(),
        }
    }

    /// The same, none where it never told.
    pub(crate) fn list(&self) -> &[Channel] {
        self.told().unwrap_or_default()
    }
}

pub(crate) fn identity(rows: &Rows, version: Version, account: &str) -> Option<Identity> {
    let row = rows.first()?;
    let port = row.parse::<u16>(&["port"]).unwrap_or(fleet::DEFAULT_PORT);
    let server_id = row.parse(&["server_id"]).unwrap_or(0);
    let uuid = row.filled(&["server_uuid"]).map(str::to_owned);
    let hostname = row.filled(&["hostname"]).unwrap_or_default();
    let report_host = row.filled(&["report_host"]);
    let key = match (row.filled(&["aurora_server_id"]), &uuid, version.flavour) {
        (Some(instance), _, _) => format!("aurora {instance}"),
        (None, Some(uuid), _) => format!("uuid {uuid}"),
        // MariaDB gives a server no identity of its own; within a fleet this is one, also for several on one
        // host.
        (None, None, Flavour::MariaDb | Flavour::MySql) => format!(
            "host {hostname}:{port} id {server_id} data {} reports {}",
            row.filled(&["datadir"]).unwrap_or_default(),
            report_host.unwrap_or_default()
        ),
    };
    let report_port = row.parse::<u16>(&["report_port"]).filter(|port| *port > 0).unwrap_or(port);
    Some(Identity {
        key,
        uuid,
        server_id,
        reports: report_host.map(|host| Address::tcp(host, report_port)),
        port,
        account: account.to_owned(),
        performance_schema: row.is_on(&["performance_schema"]),
        userstat: row.is_on(&["userstat"]),
        gtid: row.is_on(&["gtid_mode"]),
        event_scheduler: row.is_on(&["event_scheduler"]),
    })
}

/// A server's default for `max_connect_errors`.
const USUAL_CONNECT_ERRORS: u64 = 100;

/// Whether it blocks hosts sooner than servers do by default, in words. One that looks up no names keeps no
/// account of hosts.
pub(crate) fn host_blocking(rows: &Rows) -> Option<String> {
    let value = |name: &str| setting(rows, name);
    let limit: u64 = value("max_connect_errors")?.parse().ok()?;
    let counts = value("skip_name_resolve").is_some_and(|skips| skips.eq_ignore_ascii_case("OFF"))
        && value("host_cache_size").is_none_or(|size| size != "0");
    (counts && limit < USUAL_CONNECT_ERRORS).then(|| {
        format!(
            "it blocks a host after {limit} connections in a row that break off (max_connect_errors): SET GLOBAL \
             max_connect_errors = {USUAL_CONNECT_ERRORS} or more"
        )
    })
}

/// Whether it is a node of a cluster whose replication we do not follow, in words.
pub(crate) fn foreign_cluster(rows: &Rows) -> Option<String> {
    let galera = setting(rows, "wsrep_on").is_some_and(|on| on.eq_ignore_ascii_case("ON"));
    let group = setting(rows, "group_replication_group_name").is_some_and(|name| !name.is_empty());
    let cluster = match (galera, group) {
        (true, _) => "Galera",
        (false, true) => "Group Replication",
        (false, false) => return None,
    };
    Some(format!("it is set up for {cluster}, which is not followed: its role and lag there are not known"))
}

fn setting(rows: &Rows, name: &str) -> Option<String> {
    let of = rows.iter().find(|r| r.text(&["variable_name"]).is_some_and(|n| n.eq_ignore_ascii_case(name)));
    of.and_then(|row| row.text(&["value"]).map(str::to_owned))
}

/// Reads what the vitals row says of a switchover.
pub(crate) fn announced(rows: &Rows) -> fleet::Announcement {
    match rows.first() {
        Some(row) if row.is_on(&["hold"]) => fleet::Announcement::Hold,
        Some(row) if row.is_on(&["prepare"]) => fleet::Announcement::Prepare,
        _ => fleet::Announcement::Nothing,
    }
}

/// Reads from the vitals row whether a switchover or failover holds its lock there.
pub(crate) fn operation(rows: &Rows) -> bool {
    rows.first().is_some_and(|row| row.is_on(&["operation"]))
}

/// Reads the newest finished operation: no row where there was none.
pub(crate) fn epoch(rows: &Rows) -> crate::epoch::ServerEpoch {
    crate::epoch::ServerEpoch::Known(rows.first().and_then(|row| row.parse(&["epoch"])).unwrap_or(0))
}

/// Reads the switches of the vitals row.
pub(crate) fn switches(rows: &Rows) -> Switches {
    rows.first().map_or_else(Switches::default, |row| Switches {
        read_only: row.is_on(&["read_only"]),
        super_read_only: row.is_on(&["super_read_only"]),
        innodb_read_only: row.is_on(&["innodb_read_only"]),
    })
}

/// Reads from the vitals row whether it lets in nobody but administrators (we may be one): what any
/// other account would be answered (MySQL).
pub(crate) fn offline(rows: &Rows) -> Option<AskError> {
    rows.first()?.is_on(&["offline_mode"]).then(|| AskError::Answered {
        code: 3032,
        state: "HY000".to_owned(),
        message: "The server is currently in offline mode".to_owned(),
    })
}

/// Reads from the vitals row whether GTIDs are on, where it says so: it may be changed while the server runs.
pub(crate) fn gtid(rows: &Rows) -> Option<bool> {
    let row = rows.first()?;
    row.filled(&["gtid_mode"]).map(|_| row.is_on(&["gtid_mode"]))
}

/// Reads what the binary log holds and what has been applied: (written, applied).
///
/// A MariaDB replica that replicates with `current_pos` counts its own former writes as applied; one with
/// `slave_pos` does not. An empty position is no position: such a server has no GTIDs yet.
pub(crate) fn positions(
    rows: &Rows,
    gtid: bool,
    channels: &[Channel],
) -> (Option<Position>, Option<Position>) {
    let Some(row) = rows.first() else { return (None, None) };
    let domains = |name: &str| {
        let position: fleet::GtidPosition = row.filled(&[name])?.parse().ok()?;
        (!position.is_empty()).then_some(Position::Domains(position))
    };
    if let Some(executed) = row.text(&["gtid_executed"]) {
        let set = executed.parse::<fleet::GtidSet>().ok().filter(|_| gtid).map(Position::Set);
        return (set.clone(), set);
    }
    let own = channels.iter().any(|channel| channel.counts_own_writes);
    let applied = if own { domains("gtid_current_pos") } else { domains("gtid_slave_pos") };
    (domains("gtid_binlog_pos"), applied)
}

/// Reads `SHOW MASTER STATUS` / `SHOW BINARY LOG STATUS`.
pub(crate) fn file_position(rows: &Rows) -> Option<Position> {
    let row = rows.first()?;
    Some(Position::File(FilePosition::new(row.filled(&["file"])?, row.parse(&["position"])?)))
}

/// Reads the load counters.
pub(crate) fn counters(rows: &Rows, at: Instant) -> Option<Counters> {
    let text = |name: &str| {
        rows.iter()
            .find(|row| row.text(&["variable_name"]).is_some_and(|n| n.eq_ignore_ascii_case(name)))
            .and_then(|row| row.text(&["value"]))
    };
    let value = |name: &str| text(name)?.parse::<u64>().ok();
    Some(Counters {
        at,
        sessions: u32::try_from(value("Threads_connected")?).unwrap_or(u32::MAX),
        running: u32::try_from(value("Threads_running")?).unwrap_or(u32::MAX),
        questions: value("Questions")?,
        pool: PoolCounters::read(at, text),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) fn rows(columns: &[&str], values: &[&[&str]]) -> Rows {
        Rows::new(
            columns.iter().map(|c| (*c).to_owned()),
            values.iter().map(|row| row.iter().map(|v| Some((*v).to_owned())).collect()).collect(),
        )
    }

    #[test]
    fn every_kind_of_read_only_forbids_writes() {
        let of = |name: &str, value: &str| switches(&rows(&[name], &[&[value]]));
        assert!(of("read_only", "0").writable() && of("read_only", "OFF").writable());
        for (name, value) in
            [("read_only", "1"), ("read_only", "NO_LOCK_NO_ADMIN"), ("innodb_read_only", "1")]
        {
            assert!(!of(name, value).writable(), "{name}={value}");
        }
        assert_eq!(of("super_read_only", "ON").words(), "super_read_only=1");
    }

    #[test]
    fn a_server_that_blocks_hosts_sooner_than_by_default_is_remarked_and_one_that_looks_up_no_names_is_not() {
        let of = |limit: &str, skips: &str, cache: &str| {
            host_blocking(&rows(
                &["Variable_name", "Value"],
                &[&["host_cache_size", cache], &["max_connect_errors", limit], &["skip_name_resolve", skips]],
            ))
        };
        assert!(of("10", "OFF", "279").unwrap().contains("after 10 connections"));
        assert_eq!(of("100", "OFF", "279"), None, "the default");
        assert_eq!(of("10", "ON", "279"), None);
        assert_eq!(of("10", "OFF", "0"), None);
        assert_eq!(host_blocking(&Rows::default()), None, "a server that does not say");
    }

    #[test]
    fn a_node_of_a_cluster_that_is_not_followed_is_remarked() {
        let of = |name: &str, value: &str| {
            let columns = ["Variable_name", "Value"];
            foreign_cluster(&rows(&columns, &[&["skip_name_resolve", "OFF"], &[name, value]]))
        };
        assert!(of("wsrep_on", "ON").unwrap().contains("Galera"));
        assert!(of("group_replication_group_name", "aaaa-1").unwrap().contains("Group Replication"));
        assert_eq!((of("wsrep_on", "OFF"), of("group_replication_group_name", "")), (None, None));
    }

    #[test]
    fn mariadb_servers_on_one_host_are_told_apart() {
        let columns = ["hostname", "port", "server_id", "datadir", "report_host"];
        let version: Version = "10.11.1-MariaDB".parse().unwrap();
        let of = |values: &[&str]| identity(&rows(&columns, &[values]), version, "u@h").unwrap();
        let one = of(&["h", "3306", "1", "/a/", ""]);
        assert_ne!(one.key, of(&["h", "3306", "2", "/b/", ""]).key);
        assert_eq!(one.key, of(&["h", "3306", "1", "/a/", ""]).key);
        assert_eq!(one.reports, None);
        assert_eq!(of(&["h", "3307", "1", "/a/", "db1"]).reports, Some(Address::tcp("db1", 3307)));
    }

    #[test]
    fn positions_are_read_in_the_notation_of_the_flavour() {
        let maria =
            rows(&["gtid_binlog_pos", "gtid_slave_pos", "gtid_current_pos"], &[&["0-1-9", "0-1-7", "0-1-9"]]);
        let (written, applied) = positions(&maria, true, &[]);
        assert_eq!(written.unwrap().to_string(), "0-1-9");
        assert_eq!(applied.unwrap().to_string(), "0-1-7");
        let mysql = rows(&["gtid_executed"], &[&[""]]);
        assert_eq!(positions(&mysql, false, &[]), (None, None));
        assert!(positions(&mysql, true, &[]).0.is_some(), "an empty set is a position: nothing yet");
    }

    #[test]
    fn a_server_that_lets_in_administrators_alone_answers_as_it_would_anybody_else() {
        let of = |column: &str, value: &str| offline(&rows(&[column], &[&[value]]));
        assert!(matches!(of("offline_mode", "1"), Some(AskError::Answered { code: 3032, .. })));
        assert_eq!((of("offline_mode", "0"), of("read_only", "1")), (None, None));
    }

    #[test]
    fn whether_gtids_are_on_is_told_by_each_look_that_says_so() {
        let told = |value: &str| gtid(&rows(&["gtid_mode"], &[&[value]]));
        assert_eq!((told("1"), told("0")), (Some(true), Some(false)));
        assert_eq!(gtid(&rows(&["read_only"], &[&["0"]])), None);
    }
}
