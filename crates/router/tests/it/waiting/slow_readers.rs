//! Real servers and clients that rest for three quarters of a minute in the middle of something: a client in
//! a result, a server in a packet, a replica in a binlog. On both ways of moving bytes; all of them rest at
//! the same time.

use crate::{sight, watching};
use config::{DataPath, Listener, RouterConfig};
use fleet::{Address, ListenerRole, Role, Server, ServerName, Snapshot, State};
use lab::{Fault, Lab, Spec};
use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use router::Router;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// Longer than the 30 s after which Linux gave up on a peer that does not read, less than the servers' own 60
/// s.
const REST: Duration = Duration::from_secs(45);
/// 100 MB in all.
const ROWS: u64 = 100_000;
const ROW: usize = 1000;
const PACKET: usize = 64 << 20;

struct Front {
    router: Router,
    _snapshots: watch::Sender<Arc<Snapshot>>,
}

impl Front {
    fn start(lab: &Lab, server: &str, data_path: DataPath) -> Self {
        let real = lab.real(server).unwrap();
        let reach = Address::tcp(real.ip().to_string(), real.port());
        let mut server = Server::unasked(ServerName::new(server), reach);
        server.role = Role::Primary;
        server.state = State::Answering;
        let (keep, snapshots) = watch::channel(Arc::new(sight::snapshot(1, vec![server])));
        let config = RouterConfig { data_path, threads: Some(1), ..RouterConfig::default() };
        let listener = Listener::new(Address::tcp("127.0.0.1", 0), ListenerRole::Writer);
        let router = Router::start(config, vec![listener], snapshots, |_, _| {}).unwrap();
        Self { router, _snapshots: keep }
    }

    fn port(&self) -> u16 {
        let Address::Tcp { port, .. } = self.router.status().listeners[0].address else {
            unreachable!("it listens on TCP")
        };
        port
    }

    async fn connect(&self, lab: &Lab) -> Conn {
        let opts = watching::opts(lab, &self.router.status().listeners[0].address);
        Conn::new(opts.max_allowed_packet(Some(2 * PACKET)).wait_timeout(Some(600))).await.unwrap()
    }
}

/// Reads a result of 100 MB, and rests in the middle.
async fn reads_slowly(front: &Front, lab: &Lab) {
    let mut conn = front.connect(lab).await;
    let ask = format!("SELECT seq, REPEAT('x', {ROW}) FROM app.seq_1_to_{ROWS}");
    let mut rows = conn.query_iter(ask).await.unwrap();
    let mut read = 0;
    while let Some(row) = rows.next().await.unwrap() {
        let (seq, text): (u64, String) = mysql_async::from_row(row);
        assert_eq!((seq, text.len()), (read + 1, ROW), "whole rows, in order");
        read = seq;
        if read == 1000 {
            tokio::time::sleep(REST).await;
        }
    }
    assert_eq!(read, ROWS);
    drop(rows);
    conn.disconnect().await.unwrap();
}

/// Sends one packet of 64 MiB; the server does not read most of it for a while.
async fn is_read_slowly(conn: &mut Conn) {
    let text = "p".repeat(PACKET - 1000);
    let length: Option<usize> = conn.query_first(format!("SELECT LENGTH('{text}')")).await.unwrap();
    assert_eq!(length, Some(text.len()));
}

#[tokio::test]
async fn who_rests_for_longer_than_half_a_minute_keeps_its_session() {
    let base = tempfile::tempdir().unwrap();
    let mut spec = Spec::new(&[("a", 4)]).option("max_allowed_packet", &(2 * PACKET).to_string());
    spec.server.buffer_pool_mib = 64;
    let lab = Lab::up(&spec, base.path()).await.unwrap();
    let [ring, epoll] = [DataPath::IoUring, DataPath::Epoll];
    let fronts = [Front::start(&lab, "a1", ring), Front::start(&lab, "a1", epoll)];
    let to_frozen = [Front::start(&lab, "a4", ring), Front::start(&lab, "a4", epoll)];

    // Replicas follow through the routers, and stand still while much is written.
    let mut primary = lab.connect("a1").await.unwrap();
    primary.query_drop("CREATE TABLE app.followed (id INT PRIMARY KEY, b LONGBLOB)").await.unwrap();
    for (name, front) in ["a2", "a3"].into_iter().zip(&fronts) {
        let mut replica = lab.connect(name).await.unwrap();
        replica.query_drop("STOP SLAVE").await.unwrap();
        let port = front.port();
        let to = format!("CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = {port}");
        replica.query_drop(to).await.unwrap();
        replica.query_drop("START SLAVE").await.unwrap();
        let deadline = Instant::now() + Duration::from_secs(20);
        while front.router.status().servers[0].bytes_to_client < 1000 {
            assert!(Instant::now() < deadline, "{name} never followed");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        replica.disconnect().await.unwrap();
    }
    let [mut one, mut two] = [to_frozen[0].connect(&lab).await, to_frozen[1].connect(&lab).await];
    for frozen in ["a2", "a3", "a4"] {
        lab.fault(frozen, Fault::Freeze).await.unwrap();
    }
    primary.query_drop("SET SESSION binlog_format = ROW").await.unwrap();
    for id in 0..4 {
        let insert = format!("INSERT INTO app.followed VALUES ({id}, REPEAT('b', {}))", 16 << 20);
        primary.query_drop(insert).await.unwrap();
    }
    let thaw = async {
        tokio::time::sleep(REST).await;
        for frozen in ["a2", "a3", "a4"] {
            lab.heal(frozen).await.unwrap();
        }
    };
    let all = async {
        tokio::join!(
            reads_slowly(&fronts[0], &lab),
            reads_slowly(&fronts[1], &lab),
            is_read_slowly(&mut one),
            is_read_slowly(&mut two),
            thaw
        )
    };
    tokio::time::timeout(REST * 3, all).await.expect("in time");

    let sum = "SELECT CONCAT(COUNT(*), ' ', SUM(CRC32(b))) FROM app.followed";
    let wanted: Option<String> = primary.query_first(sum).await.unwrap();
    for (name, front) in ["a2", "a3"].into_iter().zip(&fronts) {
        let mut replica = lab.connect(name).await.unwrap();
        let deadline = Instant::now() + Duration::from_secs(60);
        while replica.query_first::<String, _>(sum).await.unwrap() != wanted {
            assert!(Instant::now() < deadline, "{name}: never the same");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        // One stream and the reader's session: the stream was never broken.
        assert_eq!(front.router.status().servers[0].connections, 2, "{name}");
        replica.query_drop("STOP SLAVE").await.unwrap();
        replica.disconnect().await.unwrap();
    }
    for conn in [one, two, primary] {
        conn.disconnect().await.unwrap();
    }
    for front in fronts.into_iter().chain(to_frozen) {
        front.router.stop(Duration::from_secs(5)).await;
    }
    lab.down().await.unwrap();
}
