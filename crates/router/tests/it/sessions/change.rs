//! Listeners, reload and stop.

use super::fake::{Client, Fake, Front, Script, defaults, within};
use config::{Listener, RouterConfig};
use fleet::{Address, ListenerRole::Reader, ListenerRole::Writer, Role};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;
use tokio::net::UnixStream;

fn unix(path: &Path) -> Listener {
    Listener { max_sessions: 10, ..Listener::new(Address::Unix(path.to_owned()), Reader) }
}

#[tokio::test]
async fn a_unix_socket_is_open_to_all_replaced_when_stale_and_removed_at_the_stop() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("reader.sock");
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    assert!(path.exists(), "a stale file, as a kill -9 leaves it");
    let server = Fake::start("r", Script::Serves).await;
    let front = Front::with_listeners(defaults(), vec![unix(&path)], vec![server.replica()]);
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o777);
    let mut client = within(5, Client::greet(UnixStream::connect(&path).await.unwrap())).await.unwrap();
    client.log_in().await;
    assert_eq!(client.query("SELECT 1").await.unwrap()[0], 0);
    let (_keep, snapshots) = tokio::sync::watch::channel(front.snapshots.borrow().clone());
    let second = router::Router::start(defaults(), vec![unix(&path)], snapshots, |_, _| {});
    assert!(second.err().unwrap().to_string().contains("another process listens"));
    assert!(path.exists(), "the one in use is left alone");
    within(10, front.router.stop(Duration::from_secs(5))).await;
    assert!(!path.exists());
}

#[tokio::test]
async fn a_reload_changes_what_differs_and_leaves_sessions_alone() {
    let dir = tempfile::tempdir().unwrap();
    let (one, two) = (unix(&dir.path().join("one")), unix(&dir.path().join("two")));
    let (primary, replica) = (Fake::start("p", Script::Serves).await, Fake::start("r", Script::Serves).await);
    let servers = vec![primary.server(Role::Primary), replica.replica()];
    let front = Front::with_listeners(defaults(), vec![one.clone()], servers);
    let connect = async |at: &Listener| match &at.address {
        Address::Unix(path) => Client::greet(UnixStream::connect(path).await.unwrap()).await.unwrap(),
        Address::Tcp { .. } => unreachable!(),
    };
    let mut before = within(5, connect(&one)).await;
    before.log_in().await;
    let nothing = front.router.reconfigure(defaults(), vec![one.clone()]).unwrap();
    assert_eq!(nothing, router::Changes::default());
    let writer = Listener { role: Writer, ..one.clone() };
    let changes = front.router.reconfigure(defaults(), vec![writer.clone(), two.clone()]).unwrap();
    assert_eq!((changes.opened.len(), changes.closed.len(), changes.changed.len()), (1, 0, 1));
    assert_eq!(within(5, connect(&one)).await.server, "p");
    assert_eq!(within(5, connect(&two)).await.server, "r");
    let config = RouterConfig { slack: 0.2, ..defaults() };
    let changes = front.router.reconfigure(config.clone(), vec![two.clone()]).unwrap();
    assert!(changes.router && changes.closed == [writer.address.clone()]);
    assert_eq!(before.query("SELECT 1").await.unwrap()[0], 0, "its listener is closed, its session is not");
    let impossible = Listener { address: Address::tcp("db.example", 3306), ..two.clone() };
    let error = front.router.reconfigure(config, vec![impossible]).err().unwrap();
    assert!(error.to_string().contains("write an IP address"), "{error}");
    assert_eq!(within(5, connect(&two)).await.server, "r", "a reload that fails changes nothing");
}

/// This test runs once for each engine, beside itself.
static RUNS: AtomicU32 = AtomicU32::new(0);

#[tokio::test]
async fn a_reload_widens_and_narrows_a_listener_on_its_port() {
    let server = Fake::start("r", Script::Serves).await;
    // Free on all addresses, and not in the range that outgoing connections and listeners of other tests take
    // their ports from: between two listeners it belongs to nobody.
    let own = std::process::id() + RUNS.fetch_add(1_000, Relaxed);
    let mut below = (10_000..32_000).cycle().skip(own as usize % 20_000);
    let port: u16 = below.find(|port| std::net::TcpListener::bind(("0.0.0.0", *port)).is_ok()).unwrap();
    let at = |host: &str, port| Listener::new(Address::tcp(host, port), Reader);
    let front = Front::with_listeners(defaults(), vec![at("127.0.0.1", port)], vec![server.replica()]);
    let mut before = Client::login(port).await;
    // All or nothing: another program has the second address.
    let other = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let taken = at("127.0.0.1", other.local_addr().unwrap().port());
    let refused = front.router.reconfigure(defaults(), vec![at("0.0.0.0", port), taken]);
    assert!(refused.unwrap_err().to_string().contains("in use"));
    Client::login(port).await;
    for host in ["0.0.0.0", "127.0.0.1", "0.0.0.0"] {
        let changes = front.router.reconfigure(defaults(), vec![at(host, port)]).unwrap();
        assert_eq!((changes.opened.len(), changes.closed.len()), (1, 1), "{host}");
        assert_eq!(Client::login(port).await.query("SELECT 1").await.unwrap()[0], 0);
    }
    assert_eq!(before.query("SELECT 1").await.unwrap()[0], 0, "its listener is closed, its session is not");
}

#[tokio::test]
async fn the_same_address_twice_is_refused() {
    let (_keep, snapshots) =
        tokio::sync::watch::channel(std::sync::Arc::new(fleet::Snapshot::empty(std::time::Instant::now())));
    let twice = Listener { max_sessions: 1, ..Listener::new(Address::tcp("127.0.0.1", 1), Reader) };
    let error = router::Router::start(defaults(), vec![twice.clone(), twice], snapshots, |_, _| {});
    assert!(error.err().unwrap().to_string().contains("two listeners"));
}

#[tokio::test]
async fn a_stop_closes_idle_sessions_waits_for_transactions_and_cuts_at_the_deadline() {
    let server = Fake::start("r", Script::Serves).await;
    let front = Front::start(defaults(), &[Reader], vec![server.replica()]);
    let port = front.port(0);
    let (mut idle, mut finishing, mut endless) =
        (Client::login(port).await, Client::login(port).await, Client::login(port).await);
    finishing.query("BEGIN").await.unwrap();
    endless.query("BEGIN").await.unwrap();
    let stop = tokio::spawn(front.router.stop(Duration::from_secs(6)));
    within(5, idle.closed()).await;
    assert_eq!(finishing.query("COMMIT").await.unwrap()[0], 0);
    within(5, finishing.closed()).await;
    assert_eq!(endless.query("SELECT 1").await.unwrap()[0], 0);
    within(10, endless.closed()).await;
    assert_eq!(within(10, stop).await.unwrap(), 1, "one was cut");
    assert!(tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_err());
}
