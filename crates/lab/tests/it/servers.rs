//! The lab on real servers: they come up, replicate, see clients where they are, and disappear however the
//! owner ends.

use crate::until::until;
use lab::{Account, Lab, Role, Spec, Status, control};
use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

async fn number(conn: &mut Conn, query: &str) -> Option<u32> {
    conn.query_first(query).await.ok().flatten()
}

fn is_alive(pid: u32) -> bool {
    // A zombie waits for its parent, it does not run.
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}

#[tokio::test]
async fn four_servers_come_up_replicate_and_see_clients_in_their_zones() {
    let base = tempfile::tempdir().unwrap();
    let spec = Spec::new(&[("a", 2), ("b", 1), ("c", 1)]).replica_of("c1", "b1");
    let lab = Lab::up(&spec, base.path()).await.unwrap();
    println!("four servers up and replicating in {:?}, {}", lab.came_up_in(), lab.version());
    let mut app = Conn::new(lab.opts("a", "a1", Account::App).unwrap()).await.unwrap();
    app.query_drop("CREATE TABLE app.t (id INT PRIMARY KEY)").await.unwrap();
    app.query_drop("INSERT INTO app.t VALUES (7)").await.unwrap();
    for server in ["a2", "b1", "c1"] {
        let mut replica = Conn::new(lab.opts("c", server, Account::App).unwrap()).await.unwrap();
        until(server, async || number(&mut replica, "SELECT id FROM app.t").await == Some(7)).await;
        assert!(replica.query_drop("INSERT INTO app.t VALUES (8)").await.is_err(), "{server} takes writes");
        let host: Option<String> =
            replica.query_first("SELECT SUBSTRING_INDEX(host, ':', 1) FROM information_schema.processlist WHERE id = CONNECTION_ID()").await.unwrap();
        assert_eq!(host.unwrap(), "127.3.0.254");
    }
    let status = lab.status().await;
    let c1 = &status.servers[3];
    assert_eq!((c1.role, c1.source.as_deref()), (Role::Replica, Some("b1")));
    assert!(c1.answer.as_ref().unwrap().read_only);
    let dir = lab.dir().to_owned();
    lab.down().await.unwrap();
    assert!(!dir.exists());
    assert!(status.servers.iter().all(|s| !is_alive(s.pid.unwrap())));
}

#[tokio::test]
async fn the_watching_account_sees_what_it_must_and_nothing_more() {
    let base = tempfile::tempdir().unwrap();
    let lab = Lab::up(&Spec::new(&[("a", 2)]), base.path()).await.unwrap();
    let mut conn = Conn::new(lab.opts("a", "a2", Account::Headroom).unwrap()).await.unwrap();
    for query in [
        "SHOW SLAVE STATUS",
        "SHOW MASTER STATUS",
        "SHOW SLAVE HOSTS",
        "SHOW FULL PROCESSLIST",
        "SELECT COUNT(*) FROM performance_schema.events_statements_summary_by_host_by_event_name",
    ] {
        conn.query_drop(query).await.unwrap_or_else(|e| panic!("{query}: {e}"));
    }
    assert!(conn.query_drop("SELECT * FROM mysql.global_priv").await.is_err());
    assert!(conn.query_drop("SET GLOBAL read_only = OFF").await.is_err());
    let mut root = lab.opts("a", "a1", Account::Root).map(Conn::new).unwrap().await;
    assert!(root.is_err(), "root logs in over TCP: {:?}", root.as_mut().map(|c| c.id()));
}

#[tokio::test]
async fn a_panicking_owner_leaves_nothing() {
    let base = tempfile::tempdir().unwrap();
    let path = base.path().to_owned();
    let (tell, told) = std::sync::mpsc::channel::<Status>();
    let panicked = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let lab = Lab::up(&Spec::new(&[("a", 1)]), &path).await.unwrap();
            tell.send(lab.status().await).unwrap();
            panic!("as a test would");
        });
    });
    assert!(panicked.join().is_err());
    let status = told.recv().unwrap();
    assert!(!status.dir.exists());
    assert!(!is_alive(status.servers[0].pid.unwrap()));
}

/// The program that owns a lab in a process of its own.
struct Owner {
    process: Child,
    status: Status,
}

impl Owner {
    fn start(base: &Path) -> Self {
        let program = env!("CARGO_BIN_EXE_lab-owner");
        let mut process = Command::new(program).arg(base).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self { process, status: serde_json::from_str(&line).unwrap() }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[tokio::test]
async fn what_a_killed_owner_leaves_is_gone_after_the_next_sweep() {
    let base = tempfile::tempdir().unwrap();
    let mut owner = Owner::start(base.path());
    assert!(Lab::sweep(base.path()).unwrap().is_empty(), "a lab with an owner is left alone");
    assert!(owner.status.servers.iter().all(|s| is_alive(s.pid.unwrap())));
    owner.process.kill().unwrap();
    owner.process.wait().unwrap();
    assert!(owner.status.dir.exists());
    assert_eq!(Lab::sweep(base.path()).unwrap(), [owner.status.dir.clone()]);
    assert!(!owner.status.dir.exists());
    let dead = async || owner.status.servers.iter().all(|s| !is_alive(s.pid.unwrap()));
    until("all servers are dead", dead).await;
}

#[tokio::test]
async fn another_process_asks_changes_and_takes_down_a_lab() {
    let base = tempfile::tempdir().unwrap();
    let mut owner = Owner::start(base.path());
    let labs = control::labs(base.path()).unwrap();
    assert_eq!(labs, [owner.status.dir.clone()]);
    control::change(&labs[0], "b1", "freeze".parse().unwrap()).await.unwrap();
    let status = control::status(&labs[0]).await.unwrap();
    assert_eq!(status.servers[1].faults, ["freeze".parse().unwrap()]);
    let error = control::change(&labs[0], "z9", "freeze".parse().unwrap()).await.unwrap_err();
    assert!(error.to_string().contains("no 'z9'; it has a1, b1"), "{error}");
    control::down(&labs[0]).await.unwrap();
    assert!(owner.process.wait().unwrap().success());
}
