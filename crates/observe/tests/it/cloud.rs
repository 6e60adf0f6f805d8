//! Managed clusters, played by scripted servers: Aurora MySQL and RDS Multi-AZ. And servers that misbehave.

use crate::scene::writer;
use config::{Credentials, FleetConfig, OwnZone};
use fleet::{Address, LagSource, Replication, Role, Snapshot, State};
use lab::scripted::{Opening, Reply, Script, ScriptedServer};
use observe::Watcher;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const DOMAIN: &str = "h4sh.eu-west-1.rds.amazonaws.com";

fn config(seed: &str, instances: &[(&str, &ScriptedServer)]) -> FleetConfig {
    let map = |(name, server): &(&str, &ScriptedServer)| {
        let at = server.address();
        (Address::tcp(format!("{name}.{DOMAIN}"), 3306), Address::tcp(at.ip().to_string(), at.port()))
    };
    FleetConfig {
        seeds: vec![Address::tcp(format!("{seed}.{DOMAIN}"), 3306)],
        interval: Duration::from_millis(100),
        credentials: Credentials { user: Some("watch".to_owned()), ..Credentials::default() },
        address_map: instances.iter().map(map).collect(),
        own_zone: OwnZone::Named("here".into()),
        ..FleetConfig::default()
    }
}

async fn until(watcher: &Watcher, what: &str, holds: impl Fn(&Snapshot) -> bool) -> Arc<Snapshot> {
    let mut snapshots = watcher.snapshots();
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let now = snapshots.borrow_and_update().clone();
        if holds(&now) {
            return now;
        }
        assert!(Instant::now() < deadline, "never seen: {what}; last seen:\n{now:#?}");
        let _ = tokio::time::timeout(Duration::from_secs(1), snapshots.changed()).await;
    }
}

fn full(instance: &str) -> String {
    format!("{instance}.{DOMAIN}:3306")
}

/// What every MySQL answers to the questions that open a connection.
fn introduction(statement: &str, identity: &[(&str, &str)]) -> Option<Reply> {
    if statement.starts_with("SELECT @@version") {
        let columns = ["version", "version_comment", "account"];
        return Some(Reply::rows(
            &columns,
            &[&[Some("8.0.39"), Some("Source distribution"), Some("watch@%")]],
        ));
    }
    if statement.contains("AS server_id, ") && statement.contains("@@port") {
        let (columns, values): (Vec<&str>, Vec<Option<&str>>) =
            identity.iter().map(|(c, v)| (*c, Some(*v))).unzip();
        return Some(Reply::rows(&columns, &[&values]));
    }
    None
}

/// One Aurora instance. `writer` is the truth that all share; rows are what Aurora's table shows, with the
/// old writer's row left over after a failover.
async fn aurora(own: &'static str, writer: Arc<Mutex<&'static str>>) -> ScriptedServer {
    let script = Script::new("8.0.39", move |statement, _| {
        let now = *writer.lock().unwrap();
        let identity = [("hostname", own), ("port", "3306"), ("server_id", "7"), ("aurora_server_id", own)];
        if let Some(reply) = introduction(statement, &identity) {
            return reply;
        }
        if statement.starts_with("SHOW GLOBAL VARIABLES LIKE 'aurora") {
            return Reply::rows(&["Variable_name", "Value"], &[&[Some("aurora_version"), Some("3.08.0")]]);
        }
        if statement.starts_with("SELECT @@global.read_only") {
            let read_only = Some(if own == now { "0" } else { "1" });
            return Reply::rows(&["read_only", "innodb_read_only"], &[&[read_only, read_only]]);
        }
        if statement.contains("replica_host_status") {
            let row = |id: &'static str| {
                let session =
                    if id == now || now != "db-1" && id == "db-1" { "MASTER_SESSION_ID" } else { "5e55-10n" };
                let updated = if id == now { "2026-11-20 10:00:01.5" } else { "2026-11-20 10:00:00.1" };
                vec![
                    Some(id.to_owned()),
                    Some(session.to_owned()),
                    Some("17.5".to_owned()),
                    Some(updated.to_owned()),
                ]
            };
            let columns = ["SERVER_ID", "SESSION_ID", "REPLICA_LAG_IN_MILLISECONDS", "LAST_UPDATE_TIMESTAMP"];
            return Reply::Rows {
                columns: columns.map(str::to_owned).to_vec(),
                rows: ["db-1", "db-2", "db-3"].map(row).to_vec(),
            };
        }
        Reply::Usual
    });
    ScriptedServer::start(script).await.unwrap()
}

#[tokio::test]
async fn an_aurora_cluster_is_found_from_its_endpoint_and_a_failover_is_followed() {
    let truth = Arc::new(Mutex::new("db-1"));
    let (one, two, three) = (
        aurora("db-1", truth.clone()).await,
        aurora("db-2", truth.clone()).await,
        aurora("db-3", truth.clone()).await,
    );
    let mut config = config("prod.cluster-h4sh", &[("db-1", &one), ("db-2", &two), ("db-3", &three)]);
    let endpoint = format!("prod.cluster-{DOMAIN}");
    config.seeds = vec![Address::tcp(endpoint.clone(), 3306)];
    let at = one.address();
    config.address_map.push((Address::tcp(endpoint, 3306), Address::tcp(at.ip().to_string(), at.port())));
    let watcher = Watcher::start(config);
    let sound = |s: &Snapshot| s.servers.len() == 3 && s.servers.iter().all(|s| s.state == State::Answering);
    let snapshot = until(&watcher, "three instances", |s| sound(s) && writer(s) == Some(&full("db-1"))).await;
    let reader = snapshot.servers.iter().find(|s| s.name.as_str() == full("db-2")).unwrap();
    assert_eq!((reader.role, &reader.replication), (Role::Replica, &Replication::Managed));
    let lag = reader.lag.unwrap();
    assert_eq!((lag.at_least, lag.source), (Duration::from_micros(17_500), LagSource::Aurora));
    assert_eq!(reader.version.as_deref(), Some("MySQL 8.0.39 (Aurora 3.08.0)"));

    *truth.lock().unwrap() = "db-3";
    let after = until(&watcher, "db-3 writes", |s| writer(s) == Some(&full("db-3"))).await;
    let roles = |s: &Snapshot| s.servers.iter().filter(|s| s.role == Role::Replica).count();
    let after =
        if roles(&after) == 2 { after } else { until(&watcher, "two readers", |s| roles(s) == 2).await };
    assert_eq!(after.servers.len(), 3);
    watcher.stop().await;
}

/// One instance of a Multi-AZ cluster: ordinary replication, plus a table of all three.
async fn multi_az(n: u32, allowed: bool) -> ScriptedServer {
    let script = Script::new("8.0.39", move |statement, _| {
        let (id, uuid) = (n.to_string(), format!("00000000-0000-0000-0000-00000000000{n}"));
        let identity = [
            ("hostname", "ip-10-0-0-1"),
            ("port", "3306"),
            ("server_id", &*id),
            ("server_uuid", &*uuid),
            ("gtid_mode", "1"),
        ];
        if let Some(reply) = introduction(statement, &identity) {
            return reply;
        }
        if statement.starts_with("SELECT @@global.read_only") {
            let columns = ["read_only", "super_read_only", "innodb_read_only", "gtid_executed"];
            let switch = Some(if n == 1 { "0" } else { "1" });
            let set = Some("00000000-0000-0000-0000-000000000001:1-100");
            return Reply::rows(&columns, &[&[switch, switch, Some("0"), set]]);
        }
        let nothing = Reply::Rows { columns: vec!["Nothing".to_owned()], rows: Vec::new() };
        match statement {
            "SHOW REPLICA STATUS" if n == 1 => nothing,
            "SHOW REPLICA STATUS" => Reply::rows(
                &["Source_Host", "Source_Port", "Replica_IO_Running", "Replica_SQL_Running", "Source_UUID"],
                &[&[
                    Some("127.9.9.9"),
                    Some("3306"),
                    Some("Yes"),
                    Some("Yes"),
                    Some("00000000-0000-0000-0000-000000000001"),
                ]],
            ),
            "SHOW REPLICAS" => nothing,
            _ if statement.contains("rds_topology") && !allowed => Reply::Err {
                code: 1142,
                sqlstate: *b"42000",
                message: "SELECT command denied to user 'watch'@'%' for table 'rds_topology'".to_owned(),
            },
            _ if statement.contains("rds_topology") => Reply::Rows {
                columns: ["id", "endpoint", "port"].map(str::to_owned).to_vec(),
                rows: (1..4)
                    .map(|n: u32| {
                        vec![Some(n.to_string()), Some(format!("i{n}.{DOMAIN}")), Some("3306".to_owned())]
                    })
                    .collect(),
            },
            _ if statement.starts_with("SHOW GLOBAL VARIABLES") => nothing,
            _ => Reply::Usual,
        }
    });
    ScriptedServer::start(script).await.unwrap()
}

#[tokio::test]
async fn a_multi_az_cluster_is_found_from_any_instance() {
    let (one, two, three) = (multi_az(1, true).await, multi_az(2, true).await, multi_az(3, true).await);
    let config = config("i2", &[("i1", &one), ("i2", &two), ("i3", &three)]);
    let watcher = Watcher::start(config);
    let snapshot = until(&watcher, "three instances", |s| {
        // The source's internal address leads nowhere from here; who it is follows from its uuid.
        writer(s) == Some(&full("i1"))
            && s.servers.len() == 3
            && s.servers.iter().filter(|s| s.role == Role::Replica).count() == 2
    })
    .await;
    assert!(snapshot.servers.iter().all(|s| s.role == Role::Primary || s.lag.is_some()), "{snapshot:#?}");
    watcher.stop().await;

    let refusing = multi_az(2, false).await;
    let watcher = Watcher::start(self::config("i2", &[("i1", &one), ("i2", &refusing)]));
    let grant = "GRANT SELECT ON mysql.rds_topology TO 'watch'@'%'";
    until(&watcher, grant, |s| s.remarks.iter().any(|r| r.contains(grant))).await;
    watcher.stop().await;
}

#[tokio::test]
async fn servers_that_misbehave_are_seen_each_for_what_it_is() {
    let refuse = |code, message: &str| Opening::Refuse { code, message: message.to_owned() };
    let openings = [
        ("hang", Opening::Hang, "within 2000 ms"),
        ("hang-at-login", Opening::HangAtLogin, "within 2000 ms"),
        ("close", Opening::Close, ""),
        ("garbage", Opening::Garbage(b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()), ""),
        ("full", refuse(1040, "Too many connections"), "raise max_connections"),
        ("blocked", refuse(1129, "Host is blocked"), "FLUSH HOSTS"),
    ];
    let mut servers = Vec::new();
    for (name, opening, _) in &openings {
        let script = Script::new("8.0.39", |_, _| Reply::Usual).opening(opening.clone());
        servers.push((*name, ScriptedServer::start(script).await.unwrap()));
    }
    let instances: Vec<(&str, &ScriptedServer)> =
        servers.iter().map(|(name, server)| (*name, server)).collect();
    let mut config = config("hang", &instances);
    config.deadline = Duration::from_secs(2);
    config.seeds = openings.iter().map(|(name, ..)| Address::tcp(format!("{name}.{DOMAIN}"), 3306)).collect();
    let snapshot = observe::survey(&config).await;
    for (name, opening, words) in &openings {
        let server = snapshot.servers.iter().find(|s| s.name.as_str() == full(name)).unwrap();
        let (silent, why) = match &server.state {
            State::Silent { why } => (true, why),
            State::Failing { why } => (false, why),
            other => panic!("{name}: {other:?}"),
        };
        let hangs = matches!(opening, Opening::Hang | Opening::HangAtLogin | Opening::Garbage(_));
        assert!(!silent || hangs, "{name}: {why}");
        assert!(why.contains(words), "{name}: {why}");
    }
}
