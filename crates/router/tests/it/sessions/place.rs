//! Sessions moved: when, and when not.

use super::fake::{Client, Fake, Front, Script, defaults, within};
use config::{Rebalance, RouterConfig};
use fleet::{ListenerRole::Reader, ListenerRole::Writer, Role, Server};
use std::time::Duration;
use tokio::net::TcpStream;
use wire::Command;

/// Fast enough for a test.
fn eager() -> RouterConfig {
    RouterConfig {
        rebalance: Rebalance {
            pace_per_second: 50.0,
            quiet: Duration::from_millis(10),
            ..Rebalance::default()
        },
        ..defaults()
    }
}

fn silent(mut server: Server) -> Server {
    server.state = fleet::State::Silent { why: "no answer".to_owned() };
    server
}

async fn sessions(front: &Front, n: usize) -> Vec<Client<TcpStream>> {
    let mut clients = Vec::new();
    for _ in 0..n {
        clients.push(Client::login(front.port(0)).await);
    }
    clients
}

#[tokio::test]
async fn when_a_server_comes_back_idle_sessions_make_room_for_it_and_no_more_than_needed() {
    let (old, new) = (Fake::start("old", Script::Serves).await, Fake::start("new", Script::Serves).await);
    let front = Front::start(eager(), &[Reader], vec![old.replica(), silent(new.replica())]);
    let mut clients = sessions(&front, 8).await;
    front.publish(vec![old.replica(), new.replica()]);
    // As a pool does: whoever finds its connection closed opens a new one.
    let mut reconnected = 0;
    within(20, async {
        while front.router.status().servers[1].readers < 4 {
            for client in &mut clients {
                let idle = tokio::time::timeout(Duration::from_millis(5), client.answer()).await;
                if idle.is_ok() {
                    *client = Client::login(front.port(0)).await;
                    reconnected += 1;
                }
            }
        }
    })
    .await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let status = front.router.status();
    assert_eq!((status.servers[0].readers, status.servers[1].readers), (4, 4));
    assert_eq!(reconnected, 4, "each move put one session on the other server: {status:?}");
    assert_eq!(status.servers[0].closed["moved: balance"], 4);
    assert_eq!(old.saw(Command::Quit), 4, "the server is told as by any polite client");
}

#[tokio::test]
async fn transactions_and_state_keep_a_session_where_it_is() {
    let (old, new) = (Fake::start("old", Script::Serves).await, Fake::start("new", Script::Serves).await);
    let front = Front::start(eager(), &[Reader], vec![old.replica(), silent(new.replica())]);
    let mut clients = sessions(&front, 2).await;
    clients[0].query("BEGIN").await.unwrap();
    clients[1].query("SET @x = 1").await.unwrap();
    let mut lagging = old.replica();
    lagging.lag.as_mut().unwrap().at_least = Duration::from_secs(99);
    front.publish(vec![lagging, new.replica()]);
    front.until("seen", |s| s.round == 2).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(front.router.status().servers[0].readers, 2, "both have something to lose");
    clients[0].query("COMMIT").await.unwrap();
    within(10, clients[0].closed()).await;
    assert_eq!(clients[1].query("SELECT 1").await.unwrap()[0], 0);
    // A pool that resets its connection gives the state up by itself; the reset finds the session closed.
    assert_eq!(within(10, clients[1].command(&[Command::ResetConnection.byte()])).await, None);
    assert_eq!(old.saw(Command::ResetConnection), 0);
}

#[tokio::test]
async fn a_session_that_is_never_quiet_goes_at_a_pools_own_check() {
    let (old, new) = (Fake::start("old", Script::Serves).await, Fake::start("new", Script::Serves).await);
    let mut config = eager();
    config.rebalance.quiet = Duration::from_secs(3600);
    let front = Front::start(config, &[Reader], vec![old.replica(), silent(new.replica())]);
    let mut clients = sessions(&front, 4).await;
    assert_eq!(clients[0].command(&[Command::Ping.byte()]).await.unwrap()[0], 0, "nobody wants it gone yet");
    front.publish(vec![old.replica(), new.replica()]);
    let mut gone = 0;
    within(10, async {
        while gone < 2 {
            for client in &mut clients {
                if client.query("SELECT 1").await.is_none()
                    || client.command(&[Command::Ping.byte()]).await.is_none()
                {
                    *client = Client::login(front.port(0)).await;
                    assert_eq!(client.server, "new");
                    gone += 1;
                }
            }
        }
    })
    .await;
    for client in &mut clients {
        assert_eq!(
            client.command(&[Command::Ping.byte()]).await.unwrap()[0],
            0,
            "balanced: pings are answered"
        );
    }
}

#[tokio::test]
async fn a_drain_waits_for_the_transaction_until_its_deadline_and_then_cuts() {
    let (one, two) = (Fake::start("one", Script::Serves).await, Fake::start("two", Script::Serves).await);
    let front = Front::start(eager(), &[Reader], vec![one.replica(), silent(two.replica())]);
    let mut clients = sessions(&front, 2).await;
    clients[0].query("BEGIN").await.unwrap();
    front.publish(vec![one.replica(), two.replica()]);
    let drained = fleet::ServerName::new("one");
    assert!(front.router.drain(&drained, Some(Duration::from_secs(600))));
    within(10, clients[1].closed()).await;
    // A client may see its end before it is counted.
    front.until("one counted as drained", |s| s.servers[0].closed.get("drained") == Some(&1)).await;
    assert_eq!(
        clients[0].query("SELECT 1").await.unwrap()[0],
        0,
        "before the deadline a transaction goes on"
    );
    assert_eq!(Client::login(front.port(0)).await.server, "two");
    // Told once more, it has a new deadline.
    assert!(front.router.drain(&drained, Some(Duration::from_millis(500))));
    within(10, clients[0].closed()).await;
    front
        .until("one counted as cut", |s| s.servers[0].closed.get("cut at the drain deadline") == Some(&1))
        .await;
    assert!(front.router.status().servers[0].reads.reason.as_ref().unwrap().contains("drained"));
    assert!(front.router.undrain(&drained));
    front.until("in service", |s| s.servers[0].reads.eligible).await;
    assert!(!front.router.drain(&fleet::ServerName::new("nobody"), None));
}

#[tokio::test]
async fn a_server_that_is_given_another_name_keeps_its_sessions_and_its_drain() {
    let (mut one, mut two) =
        (Fake::start("10.0.0.1", Script::Serves).await, Fake::start("10.0.0.2", Script::Serves).await);
    let front = Front::start(eager(), &[Reader], vec![one.replica(), two.replica()]);
    let mut clients = sessions(&front, 4).await;
    for client in &mut clients {
        client.query("BEGIN").await.unwrap();
    }
    assert!(front.router.drain(&fleet::ServerName::new("10.0.0.2"), Some(Duration::from_secs(600))));
    (one.name, two.name) = ("a", "b");
    front.publish(vec![one.replica(), two.replica()]);
    front.until("named", |s| s.servers[0].name.as_str() == "a").await;
    let status = front.router.status();
    assert_eq!((status.servers[0].readers, status.servers[1].readers), (2, 2));
    assert!(status.servers[0].draining_ms.is_none() && status.servers[1].draining_ms.is_some());
    for client in &mut clients {
        client.query("COMMIT").await.unwrap();
    }
    front.until("drained", |s| s.servers[1].closed.get("drained") == Some(&2)).await;
    // Some rounds of the rebalancer later.
    tokio::time::sleep(Duration::from_millis(500)).await;
    let mut left = 0;
    for client in &mut clients {
        left += usize::from(client.query("SELECT 1").await.is_some());
    }
    assert_eq!(left, 2, "those of the other server stay");
    assert!(front.router.undrain(&fleet::ServerName::new("b")));
}

#[tokio::test]
async fn writer_sessions_leave_a_demoted_primary_when_idle() {
    let (a, b) = (Fake::start("a", Script::Serves).await, Fake::start("b", Script::Serves).await);
    let front = Front::start(defaults(), &[Writer], vec![a.server(Role::Primary), b.replica()]);
    let mut clients = sessions(&front, 6).await;
    clients[0].query("BEGIN").await.unwrap();
    front.publish(vec![a.replica(), b.server(Role::Primary)]);
    for client in &mut clients[1..] {
        within(5, client.closed()).await;
    }
    assert_eq!(clients[0].query("SELECT 1").await.unwrap()[0], 0);
    clients[0].query("COMMIT").await.unwrap();
    within(5, clients[0].closed()).await;
    assert_eq!(Client::login(front.port(0)).await.server, "b");
    // A client may see its end before it is counted.
    let moved = |s: &router::Status| s.servers[0].closed.get("moved: server is not the primary") == Some(&6);
    front.until("all counted as moved", moved).await;
}

#[tokio::test]
async fn idle_sessions_leave_a_silent_server_and_busy_ones_wait() {
    let (one, two) = (Fake::start("one", Script::Serves).await, Fake::start("two", Script::Serves).await);
    let front = Front::start(defaults(), &[Reader], vec![one.replica(), silent(two.replica())]);
    let mut clients = sessions(&front, 4).await;
    clients[0].query("BEGIN").await.unwrap();
    front.publish(vec![silent(one.replica()), two.replica()]);
    for client in &mut clients[1..] {
        within(5, client.closed()).await;
    }
    assert_eq!(clients[0].query("SELECT 1").await.unwrap()[0], 0);
}

#[tokio::test]
async fn switched_off_nobody_is_moved() {
    let (old, new) = (Fake::start("old", Script::Serves).await, Fake::start("new", Script::Serves).await);
    let mut config = eager();
    config.rebalance.enabled = false;
    let front = Front::start(config, &[Reader], vec![old.replica(), silent(new.replica())]);
    let _clients = sessions(&front, 4).await;
    front.publish(vec![old.replica(), new.replica()]);
    front.until("seen", |s| s.servers[1].reads.eligible).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(front.router.status().servers[0].readers, 4);
}
