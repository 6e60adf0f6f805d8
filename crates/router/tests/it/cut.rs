//! Sessions that a real server ends, in the middle of a result or at rest, and one that never ends by itself:
//! on both ways of moving bytes.

use crate::{sight, watching};
use config::{DataPath, Listener, RouterConfig};
use fleet::{Address, ListenerRole, Role, Server, ServerName, Snapshot, State};
use lab::{Fault, Lab, Spec};
use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use router::{Router, Status};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;

const WAYS: [DataPath; 2] = [DataPath::IoUring, DataPath::Epoll];
/// More than every buffer on the way holds.
const ROWS: u64 = 400_000;

struct Front {
    router: Router,
    _snapshots: watch::Sender<Arc<Snapshot>>,
}

impl Front {
    /// In front of a1, with a listener for writes.
    fn start(lab: &Lab, data_path: DataPath) -> Self {
        let real = lab.real("a1").unwrap();
        let reach = Address::tcp(real.ip().to_string(), real.port());
        let mut server = Server::unasked(ServerName::new("a1"), reach);
        server.role = Role::Primary;
        server.state = State::Answering;
        let (keep, snapshots) = watch::channel(Arc::new(sight::snapshot(1, vec![server])));
        let config = RouterConfig { data_path, threads: Some(1), ..RouterConfig::default() };
        let listener = Listener::new(Address::tcp("127.0.0.1", 0), ListenerRole::Writer);
        let router = Router::start(config, vec![listener], snapshots, |_, _| {}).unwrap();
        Self { router, _snapshots: keep }
    }

    fn address(&self) -> Address {
        self.router.status().listeners[0].address.clone()
    }

    async fn connect(&self, lab: &Lab) -> Conn {
        let opts =
            watching::opts(lab, &self.address()).max_allowed_packet(Some(1 << 24)).wait_timeout(Some(600));
        Conn::new(opts).await.unwrap()
    }

    async fn until(&self, what: &str, holds: impl Fn(&Status) -> bool) -> Status {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let status = self.router.status();
            if holds(&status) {
                return status;
            }
            assert!(Instant::now() < deadline, "never: {what}; {:#?}", status.servers);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), future).await.expect("in time")
}

async fn lab(zones: &[(&str, u8)], base: &std::path::Path) -> Lab {
    Lab::up(&Spec::new(zones), base).await.unwrap()
}

/// Reads rows until there are no more or the session breaks; each must follow the one before.
async fn read_on(conn: &mut Conn, mut cut: impl AsyncFnMut()) -> (u64, Option<mysql_async::Error>) {
    let ask = format!("SELECT seq, REPEAT('x', 200) FROM app.seq_1_to_{ROWS}");
    let mut rows = within(conn.query_iter(ask)).await.unwrap();
    let mut read = 0;
    loop {
        match within(rows.next()).await {
            Ok(Some(row)) => {
                let (seq, text): (u64, String) = mysql_async::from_row(row);
                assert_eq!((seq, text.len()), (read + 1, 200), "whole rows, in order");
                read = seq;
            }
            Ok(None) => return (read, None),
            Err(error) => return (read, Some(error)),
        }
        if read == 1000 {
            cut().await;
        }
    }
}

#[tokio::test]
async fn a_session_that_is_killed_ends_after_what_was_sent_and_a_killed_statement_ends_alone() {
    let base = tempfile::tempdir().unwrap();
    let lab = lab(&[("a", 1)], base.path()).await;
    let mut root = lab.connect("a1").await.unwrap();
    for way in WAYS {
        let front = Front::start(&lab, way);
        let mut conn = front.connect(&lab).await;
        let id = conn.id();
        // The statement: an error in the middle of its rows, then the session goes on.
        let (read, error) =
            read_on(&mut conn, async || root.query_drop(format!("KILL QUERY {id}")).await.unwrap()).await;
        let error = error.expect("not all of it").to_string();
        assert!(read < ROWS && error.contains("1317"), "{way} {read}: {error}");
        let one: Option<u8> = within(conn.query_first("SELECT 1")).await.unwrap();
        assert_eq!(one, Some(1), "{way}");
        // The session, in the middle of its rows.
        let (read, error) =
            read_on(&mut conn, async || root.query_drop(format!("KILL {id}")).await.unwrap()).await;
        assert!(read < ROWS && error.is_some(), "{way} {read}");
        front.until("ended", |s| s.sessions == 0).await;
        // The session, at rest.
        let mut conn = front.connect(&lab).await;
        root.query_drop(format!("KILL {}", conn.id())).await.unwrap();
        let status = front.until("ended too", |s| s.sessions == 0).await;
        assert!(within(conn.ping()).await.is_err(), "{way}");
        assert_eq!(status.servers[0].closed["server left"], 2, "{way}: {:?}", status.servers[0].closed);
        assert!(status.servers[0].writes.eligible, "a killed session says nothing of its server");
        front.router.stop(Duration::from_secs(2)).await;
    }
    root.disconnect().await.unwrap();
    lab.down().await.unwrap();
}

#[tokio::test]
async fn a_server_that_is_killed_in_the_middle_of_a_result_ends_the_session_after_what_it_sent() {
    let base = tempfile::tempdir().unwrap();
    let lab = lab(&[("a", 1)], base.path()).await;
    for way in WAYS {
        let front = Front::start(&lab, way);
        let mut conn = front.connect(&lab).await;
        let (read, error) = read_on(&mut conn, async || lab.fault("a1", Fault::Kill).await.unwrap()).await;
        assert!((1000..ROWS).contains(&read) && error.is_some(), "{way} {read}");
        front.until("ended", |s| s.sessions == 0).await;
        lab.heal("a1").await.unwrap();
        let mut conn = front.connect(&lab).await;
        let (read, error) = read_on(&mut conn, async || {}).await;
        assert!(
            read == ROWS && error.is_none(),
            "{way}: all of it from the server that is back: {read}, {error:?}"
        );
        front.router.stop(Duration::from_secs(2)).await;
    }
    lab.down().await.unwrap();
}

/// What a replica says of its source.
async fn receiver(replica: &mut Conn) -> (String, String) {
    let row: mysql_async::Row = replica.query_first("SHOW SLAVE STATUS").await.unwrap().unwrap();
    (row.get("Slave_IO_Running").unwrap(), row.get::<String, _>("Last_IO_Error").unwrap())
}

#[tokio::test]
async fn a_replica_follows_its_primary_through_the_router() {
    let base = tempfile::tempdir().unwrap();
    let lab = lab(&[("a", 2)], base.path()).await;
    let (mut primary, mut replica) = (lab.connect("a1").await.unwrap(), lab.connect("a2").await.unwrap());
    primary.query_drop("CREATE TABLE app.followed (id INT PRIMARY KEY, b LONGBLOB)").await.unwrap();
    for (round, way) in WAYS.into_iter().enumerate() {
        let front = Front::start(&lab, way);
        let Address::Tcp { port, .. } = front.address() else { unreachable!("it listens on TCP") };
        replica.query_drop("STOP SLAVE").await.unwrap();
        let to = format!("CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = {port}");
        replica.query_drop(to).await.unwrap();
        replica.query_drop("START SLAVE").await.unwrap();
        front.until("its session", |s| s.sessions == 1).await;
        // Small events, and one that is longer than the longest packet.
        for (at, bytes) in [10, 2_000_000, 17 << 20, 10].into_iter().enumerate() {
            let id = round * 10 + at;
            let insert = format!("INSERT INTO app.followed VALUES ({id}, REPEAT('b', {bytes}))");
            primary.query_drop("SET SESSION binlog_format = ROW").await.unwrap();
            primary.query_drop(insert).await.unwrap();
        }
        let sum = "SELECT CONCAT(COUNT(*), ' ', COALESCE(SUM(CRC32(b)), 'none')) FROM app.followed";
        let wanted: Option<String> = primary.query_first(sum).await.unwrap();
        let deadline = Instant::now() + Duration::from_secs(60);
        while replica.query_first::<String, _>(sum).await.unwrap() != wanted {
            let said = receiver(&mut replica).await;
            assert!(Instant::now() < deadline, "{way}: never the same; {said:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(receiver(&mut replica).await, ("Yes".to_owned(), String::new()), "{way}");
        let status = front.router.status();
        assert_eq!(
            (status.sessions, status.servers[0].connections),
            (1, 1),
            "{way}: one stream, never broken"
        );
        assert!(
            status.servers[0].bytes_to_client > 19_000_000,
            "{way}: {}",
            status.servers[0].bytes_to_client
        );
        replica.query_drop("STOP SLAVE").await.unwrap();
        front.until("ended", |s| s.sessions == 0).await;
        front.router.stop(Duration::from_secs(2)).await;
    }
    primary.disconnect().await.unwrap();
    replica.disconnect().await.unwrap();
    lab.down().await.unwrap();
}
