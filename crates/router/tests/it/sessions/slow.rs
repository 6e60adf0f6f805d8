//! Peers that rest and dead peers: the first keep their sessions, the second do not keep ours.
//! (`slow_readers` is the same with real servers and the default of half a minute.)

use super::fake::{Client, Fake, Front, Script, defaults, vanish, within};
use config::RouterConfig;
use fleet::ListenerRole::Reader;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

const DEADLINE: Duration = Duration::from_secs(1);

fn impatient() -> RouterConfig {
    RouterConfig { peer_deadline: DEADLINE, ..defaults() }
}

/// Asks for a flood, and waits until it stands still because nobody reads.
async fn dammed(client: &mut Client<tokio::net::TcpStream>, server: &Fake) {
    client.send(0, b"\x03FLOOD").await;
    let mut before = usize::MAX;
    within(20, async {
        while before != server.flooded.load(SeqCst) || before == 0 {
            before = server.flooded.load(SeqCst);
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_client_that_rests_in_the_middle_of_a_result_for_many_deadlines_gets_all_of_it() {
    let server = Fake::start("r", Script::Floods(64)).await;
    let front = Front::start(impatient(), &[Reader], vec![server.replica()]);
    let mut client = Client::login(front.port(0)).await;
    client.send(0, b"\x03FLOOD").await;
    let resting = tokio::time::sleep(DEADLINE * 4);
    resting.await;
    assert_eq!(front.router.status().sessions, 1);
    client.swallows_a_flood(&server).await;
}

#[tokio::test]
async fn a_client_that_is_gone_in_the_middle_of_a_result_is_found() {
    let server = Fake::start("r", Script::Floods(64)).await;
    let front = Front::start(impatient(), &[Reader], vec![server.replica()]);
    let mut client = Client::login(front.port(0)).await;
    // It has no room any more, so only the question whether it has again is under way.
    dammed(&mut client, &server).await;
    vanish(&client.stream);
    front.until("found", |s| s.servers[0].closed.contains_key("client silent")).await;
    front.until("gone", |s| s.sessions == 0).await;
}

#[tokio::test]
async fn a_client_that_is_gone_when_its_answer_comes_is_found() {
    let server = Fake::start("r", Script::Serves).await;
    let front = Front::start(impatient(), &[Reader], vec![server.replica()]);
    let mut client = Client::login(front.port(0)).await;
    client.send(0, b"\x03SLOW").await;
    vanish(&client.stream);
    front.until("found", |s| s.servers[0].closed.contains_key("client silent")).await;
}

#[tokio::test]
async fn a_server_that_is_gone_is_found_and_its_client_told_by_an_end() {
    let server = Fake::start("r", Script::Vanishes).await;
    let front = Front::start(impatient(), &[Reader], vec![server.replica()]);
    let mut client = Client::login(front.port(0)).await;
    assert!(client.query("one").await.is_some());
    client.send(0, b"\x03two").await;
    within(20, client.closed()).await;
    front.until("found", |s| s.servers[0].closed.contains_key("server silent")).await;
}

#[tokio::test]
async fn a_session_that_rests_with_nothing_under_way_stays() {
    let server = Fake::start("r", Script::Serves).await;
    let front = Front::start(impatient(), &[Reader], vec![server.replica()]);
    let mut client = Client::login(front.port(0)).await;
    tokio::time::sleep(DEADLINE * 3).await;
    assert!(client.query("still there").await.is_some());
}
