//! Each fault does what it says, and its end undoes it. Real servers, one lab for each group of faults.

use crate::until::until;
use lab::{Account, Change, Fault, Lab, ProcessState, Role, Spec};
use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use std::io::{ErrorKind, Read};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// After which nothing is expected any more.
const SOON: Duration = Duration::from_millis(300);
/// For what is expected.
const PATIENCE: Duration = Duration::from_secs(20);

/// Whether a server answers an application of a zone within a moment, however it fails otherwise.
async fn answers(lab: &Lab, from: &str, server: &str) -> bool {
    let opts = lab.opts(from, server, Account::App).unwrap();
    let ask = async {
        let mut conn = Conn::new(opts).await.ok()?;
        conn.query_first::<u32, _>("SELECT 1").await.ok().flatten()
    };
    tokio::time::timeout(SOON, ask).await.ok().flatten().is_some()
}

async fn healed(lab: &Lab, from: &str, server: &str) {
    until("it answers again", async || answers(lab, from, server).await).await;
}

fn connect(lab: &Lab, from: &str, server: &str, within: Duration) -> std::io::Result<TcpStream> {
    TcpStream::connect_timeout(&lab.reach(from, server).unwrap().into(), within)
}

async fn query(lab: &Lab, server: &str, query: &str) -> Option<String> {
    let mut conn = lab.connect(server).await.ok()?;
    conn.query_first(query).await.ok().flatten()
}

/// Threads of a process that are not stopped, as `/proc` lists them.
fn moving(pid: u32) -> Vec<String> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let stats = tasks.map(|task| std::fs::read_to_string(task.unwrap().path().join("stat")).unwrap());
    stats.filter(|stat| !stat.rsplit(") ").next().unwrap().starts_with('T')).collect()
}

#[tokio::test]
async fn a_server_that_was_busy_stands_still_once_it_is_frozen() {
    let base = tempfile::tempdir().unwrap();
    let lab = Lab::up(&Spec::new(&[("a", 1)]), base.path()).await.unwrap();
    let pid = lab.status().await.servers[0].pid.unwrap();
    let mut busy = lab.connect("a1").await.unwrap();
    let statement =
        tokio::spawn(async move { busy.query_drop("SELECT BENCHMARK(1000000000, MD5('a'))").await });
    until("the statement runs", async || {
        query(&lab, "a1", "SELECT id FROM information_schema.processlist WHERE info LIKE 'SELECT BENCH%'")
            .await
            .is_some()
    })
    .await;
    for _ in 0..20 {
        lab.fault("a1", Fault::Freeze).await.unwrap();
        assert!(moving(pid).is_empty(), "{:#?}", moving(pid));
        lab.heal("a1").await.unwrap();
    }
    lab.fault("a1", Fault::Kill).await.unwrap();
    assert!(statement.await.unwrap().is_err(), "it ran to the end");
}

#[tokio::test]
async fn processes_die_stand_still_and_come_back() {
    let base = tempfile::tempdir().unwrap();
    let lab = Lab::up(&Spec::new(&[("a", 1), ("b", 1)]), base.path()).await.unwrap();
    for fault in [Fault::Kill, Fault::Stop] {
        lab.fault("b1", fault).await.unwrap();
        let refused = connect(&lab, "a", "b1", PATIENCE).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused, "{fault}");
        let status = lab.status().await;
        assert_eq!((status.servers[1].process, status.servers[1].pid), (ProcessState::Dead, None));
        lab.change("b1", Change::End(fault)).await.unwrap();
        healed(&lab, "a", "b1").await;
        let replicates = async || {
            let status = lab.status().await;
            status.servers[1].answer.as_ref().is_some_and(|a| a.replicates == Some(true) && a.read_only)
        };
        until("it replicates again, closed to writes", replicates).await;
    }

    lab.fault("b1", Fault::Freeze).await.unwrap();
    let mut stream = connect(&lab, "a", "b1", PATIENCE).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    assert!(stream.read(&mut [0]).is_err(), "a frozen server greets nobody");
    assert_eq!(lab.status().await.servers[1].process, ProcessState::Frozen);
    lab.heal("b1").await.unwrap();
    healed(&lab, "a", "b1").await;

    lab.fault("b1", Fault::Freeze).await.unwrap();
    lab.fault("b1", Fault::Kill).await.unwrap();
    let error = lab.fault("b1", Fault::Freeze).await.unwrap_err();
    assert!(error.to_string().contains("start it first"), "{error}");
    lab.heal_all().await.unwrap();
    healed(&lab, "a", "b1").await;
    assert!(lab.status().await.servers.iter().all(|s| s.faults.is_empty()));
}

#[tokio::test]
async fn links_fall_silent_hang_refuse_and_heal() {
    let base = tempfile::tempdir().unwrap();
    let lab = Lab::up(&Spec::new(&[("a", 1), ("b", 1)]), base.path()).await.unwrap();
    for (target, fault, near_too) in [
        ("b1", Fault::Blackhole, true),
        ("a:b", Fault::Blackhole, false),
        ("b1", Fault::Drop, true),
        ("b:a", Fault::Drop, false),
        ("b1", Fault::Refuse, true),
        ("a:b", Fault::Refuse, false),
    ] {
        lab.fault(target, fault).await.unwrap();
        let within = if fault == Fault::Drop { SOON } else { PATIENCE };
        let attempt = connect(&lab, "a", "b1", within);
        match fault {
            Fault::Blackhole => assert!(attempt.is_ok(), "{target} {fault}"),
            Fault::Drop => assert_eq!(attempt.unwrap_err().kind(), ErrorKind::TimedOut),
            _ => assert_eq!(attempt.unwrap_err().kind(), ErrorKind::ConnectionRefused),
        }
        assert!(!answers(&lab, "a", "b1").await, "{target} {fault}");
        if near_too {
            assert!(!answers(&lab, "b", "b1").await, "{target} {fault}");
        } else {
            healed(&lab, "b", "b1").await;
        }
        lab.heal(target).await.unwrap();
        healed(&lab, "a", "b1").await;
    }
    lab.set_round_trip("a", "b", Duration::from_millis(30)).await.unwrap();
    let mut conn = Conn::new(lab.opts("a", "b1", Account::App).unwrap()).await.unwrap();
    let start = Instant::now();
    conn.query_drop("SELECT 1").await.unwrap();
    assert!(start.elapsed() >= Duration::from_millis(30));
    let links = lab.links();
    let link = links.iter().find(|l| l.from == "a" && l.server == "b1").unwrap();
    assert_eq!(link.round_trip_us, 30_000);
    assert!(link.round_trips > 0 && link.bytes_to_client > 0 && link.connections > 0, "{link:?}");
    lab.heal("a:b").await.unwrap();
    assert_eq!(lab.links().iter().find(|l| l.from == "a" && l.server == "b1").unwrap().round_trip_us, 700);
}

#[tokio::test]
async fn replicas_fall_behind_stop_and_take_writes() {
    let base = tempfile::tempdir().unwrap();
    let lab = Lab::up(&Spec::new(&[("a", 1), ("b", 1)]), base.path()).await.unwrap();
    let mut primary = lab.connect("a1").await.unwrap();
    primary.query_drop("CREATE TABLE app.t (id INT PRIMARY KEY)").await.unwrap();
    let has =
        async |id: u32| query(&lab, "b1", &format!("SELECT id FROM app.t WHERE id = {id}")).await.is_some();

    lab.fault("b1", Fault::StopApplier).await.unwrap();
    primary.query_drop("INSERT INTO app.t VALUES (1)").await.unwrap();
    assert_eq!(lab.status().await.servers[1].answer.as_ref().unwrap().replicates, Some(false));
    assert!(!has(1).await);
    lab.heal("b1").await.unwrap();
    until("the row arrives", async || has(1).await).await;

    lab.fault("b1", Fault::Lag { seconds: 3 }).await.unwrap();
    let written = Instant::now();
    primary.query_drop("INSERT INTO app.t VALUES (2)").await.unwrap();
    until("the late row arrives", async || has(2).await).await;
    assert!(written.elapsed() > Duration::from_secs(1), "{:?}", written.elapsed());
    lab.fault("b1", Fault::Lag { seconds: 3600 }).await.unwrap();
    primary.query_drop("INSERT INTO app.t VALUES (3)").await.unwrap();
    lab.heal("b1").await.unwrap();
    until("it caught up", async || has(3).await).await;

    let read_only = async |server: &str| query(&lab, server, "SELECT @@GLOBAL.read_only").await.unwrap();
    lab.fault("b1", Fault::Writable).await.unwrap();
    assert_eq!(read_only("b1").await, "0");
    lab.fault("a1", Fault::ReadOnly).await.unwrap();
    assert_eq!(read_only("a1").await, "1");
    lab.heal_all().await.unwrap();
    assert_eq!((read_only("a1").await.as_str(), read_only("b1").await.as_str()), ("0", "1"));

    for fault in [Fault::Lag { seconds: 1 }, Fault::StopApplier, Fault::Promote] {
        let error = lab.fault("a1", fault).await.unwrap_err();
        assert!(error.to_string().contains("replicates from nobody"), "{error}");
    }
    assert!(lab.fault("a:b", Fault::Kill).await.is_err());
}

#[tokio::test]
async fn another_server_becomes_the_primary_and_the_first_one_again() {
    let base = tempfile::tempdir().unwrap();
    let lab = Lab::up(&Spec::new(&[("a", 1), ("b", 1), ("c", 1)]), base.path()).await.unwrap();
    let write = async |server: &str, sql: &str| {
        let mut conn = Conn::new(lab.opts("a", server, Account::App).unwrap()).await.unwrap();
        conn.query_drop(sql).await
    };
    let everywhere = async |id: u32| {
        for server in ["a1", "b1", "c1"] {
            let sql = format!("SELECT id FROM app.t WHERE id = {id}");
            until(server, async || query(&lab, server, &sql).await.is_some()).await;
        }
    };
    let roles = async || lab.status().await.servers.iter().map(|s| s.role).collect::<Vec<_>>();
    write("a1", "CREATE TABLE app.t (id INT PRIMARY KEY)").await.unwrap();

    lab.fault("b1", Fault::Promote).await.unwrap();
    assert_eq!(roles().await, [Role::Alone, Role::Primary, Role::Replica]);
    write("b1", "INSERT INTO app.t VALUES (1)").await.unwrap();
    until("c1 follows b1", async || query(&lab, "c1", "SELECT id FROM app.t WHERE id = 1").await.is_some())
        .await;
    assert!(write("a1", "INSERT INTO app.t VALUES (2)").await.is_err(), "the old primary takes writes");
    lab.heal("b1").await.unwrap();
    assert_eq!(roles().await, [Role::Primary, Role::Replica, Role::Replica]);
    write("a1", "INSERT INTO app.t VALUES (3)").await.unwrap();
    everywhere(1).await;
    everywhere(3).await;

    lab.fault("b1", Fault::PromoteAlone).await.unwrap();
    assert_eq!(roles().await, [Role::Primary, Role::Alone, Role::Replica]);
    write("a1", "INSERT INTO app.t VALUES (4)").await.unwrap();
    lab.heal("b1").await.unwrap();
    everywhere(4).await;
    assert_eq!(roles().await, [Role::Primary, Role::Replica, Role::Replica]);
}
