//! Threads and tasks of the router that end or stand still: seen within a second, and made good.

use super::DATA_PATH;
use super::fake::{Client, Fake, Front, Script, defaults, within};
use config::{DataPath, RouterConfig};
use fleet::ListenerRole::Reader;
use router::fault::{Fault, RingFault};
use std::time::{Duration, Instant};

const RING: bool = matches!(DATA_PATH, DataPath::IoUring);
/// Long beside the second or two after which it is seen: this machine may stand still for some, too.
const STALL: Duration = Duration::from_secs(8);

/// In front of one server, with this many threads.
async fn front(threads: usize) -> (Fake, Front) {
    let server = Fake::start("r", Script::Serves).await;
    let config = RouterConfig { threads: Some(threads), ..defaults() };
    let front = Front::start(config, &[Reader], vec![server.replica()]);
    (server, front)
}

async fn asks(client: &mut Client<tokio::net::TcpStream>) {
    assert!(within(10, client.query("one")).await.is_some());
}

async fn serves_anew(front: &Front) -> Client<tokio::net::TcpStream> {
    let mut client = within(10, Client::login(front.port(0))).await;
    asks(&mut client).await;
    client
}

#[tokio::test]
async fn a_thread_that_panics_goes_on_and_its_sessions_stay() {
    let (_server, front) = front(1).await;
    let mut client = serves_anew(&front).await;
    front.router.inject(Fault::ThreadPanics(0));
    front.until("started anew", |s| s.restarts == 1).await;
    asks(&mut client).await;
    serves_anew(&front).await;
    front.until("everything works again", |s| s.troubles.is_empty()).await;
}

#[tokio::test]
async fn a_thread_that_stands_still_is_seen_and_new_sessions_go_to_others() {
    let (_server, front) = front(2).await;
    front.router.inject(Fault::ThreadStalls(1, STALL));
    let begun = Instant::now();
    front.until("seen", |s| s.troubles.iter().any(|t| t.starts_with("thread 1"))).await;
    assert!(begun.elapsed() < STALL, "while it lasts");
    let rounds = *front.router.rounds().borrow();
    let mut clients = Vec::new();
    for _ in 0..4 {
        clients.push(serves_anew(&front).await);
    }
    assert!(begun.elapsed() < STALL, "none has waited for it");
    assert_eq!(*front.router.rounds().borrow(), rounds, "and no round is complete");
    front.until("over", |s| s.troubles.is_empty()).await;
    let mut more = front.router.rounds();
    within(10, more.wait_for(|now| *now > rounds)).await.unwrap();
}

#[tokio::test]
async fn a_thread_that_ends_is_a_reason_to_end() {
    let (_server, front) = front(2).await;
    let mut failure = front.router.failure();
    front.router.inject(Fault::ThreadEnds(1));
    let why = within(5, failure.wait_for(Option::is_some)).await.unwrap().clone();
    assert_eq!(why.as_deref(), Some("thread 1 has ended"));
    front.until("that alone is said", |s| s.troubles == ["thread 1 has ended"]).await;
}

#[tokio::test]
async fn a_ring_that_panics_loses_its_sessions_and_serves_new_ones() {
    if !RING {
        return;
    }
    let (_server, front) = front(1).await;
    let mut client = serves_anew(&front).await;
    front.router.inject(Fault::Ring(0, RingFault::Panics));
    within(10, client.closed()).await;
    front.until("counted", |s| s.servers[0].closed.get("cut: a thread of ours failed") == Some(&1)).await;
    front.until("let go", |s| s.sessions == 0 && s.servers[0].readers == 0).await;
    let mut client = serves_anew(&front).await;
    let status = front.router.status();
    assert_eq!(status.restarts, 1);
    assert!(!status.fallbacks.iter().any(|f| f.name == "epoll"), "{:?}", status.fallbacks);
    asks(&mut client).await;
}

#[tokio::test]
async fn a_ring_that_the_kernel_refuses_again_and_again_is_given_up_and_sessions_are_polled() {
    if !RING {
        return;
    }
    let (_server, front) = front(1).await;
    for times in 1..=3 {
        let mut client = serves_anew(&front).await;
        front.router.inject(Fault::Ring(0, RingFault::Refused));
        within(10, client.closed()).await;
        front.until("noticed", |s| s.restarts == times).await;
    }
    front.until("given up", |s| s.fallbacks.iter().any(|f| f.name == "epoll")).await;
    let mut clients = Vec::new();
    for _ in 0..4 {
        clients.push(serves_anew(&front).await);
    }
    for client in &mut clients {
        asks(client).await;
    }
    assert_eq!(front.router.status().servers[0].readers, 4);
}

#[tokio::test]
async fn new_sessions_do_not_wait_for_a_ring_that_stands_still() {
    if !RING {
        return;
    }
    let (_server, front) = front(1).await;
    let mut before = serves_anew(&front).await;
    front.router.inject(Fault::Ring(0, RingFault::Stalls(STALL)));
    let begun = Instant::now();
    front.until("seen", |s| s.troubles.iter().any(|t| t.starts_with("ring 0"))).await;
    let mut during = serves_anew(&front).await;
    assert!(begun.elapsed() < STALL);
    asks(&mut before).await;
    front.until("over", |s| s.troubles.is_empty()).await;
    asks(&mut during).await;
    serves_anew(&front).await;
}

#[tokio::test]
async fn a_listener_that_panics_accepts_again() {
    let (_server, front) = front(1).await;
    let mut client = serves_anew(&front).await;
    for times in 1..=2 {
        front.router.inject(Fault::ListenerPanics(0));
        front.until("started anew", |s| s.restarts == times).await;
        serves_anew(&front).await;
    }
    asks(&mut client).await;
}

#[tokio::test]
async fn a_rebalancer_that_panics_goes_on_with_what_is_known_of_the_fleet() {
    let (server, front) = front(1).await;
    front.router.inject(Fault::RebalancerPanics);
    front.until("started anew", |s| s.restarts == 1).await;
    let other = Fake::start("other", Script::Serves).await;
    front.publish(vec![other.replica()]);
    front.until("heard", |s| s.servers.len() == 1 && s.servers[0].name.as_str() == "other").await;
    assert_eq!(serves_anew(&front).await.server, "other");
    drop(server);
}

#[tokio::test]
async fn without_the_thread_that_adds_up_statements_sessions_go_on_and_it_is_said() {
    let (_server, front) = front(1).await;
    let mut client = serves_anew(&front).await;
    front.router.inject(Fault::InsightPanics);
    let said = |t: &String| t.starts_with("headroom-insight: it has ended");
    front.until("said", |s| s.troubles.iter().any(said)).await;
    assert!(within(10, front.router.insight().report(insight::Since::Start)).await.is_none());
    asks(&mut client).await;
    serves_anew(&front).await;
    assert!(front.router.failure().borrow().is_none(), "no reason to end");
}

#[tokio::test]
async fn what_ends_again_and_again_is_said() {
    let (_server, front) = front(1).await;
    for times in 1..=3 {
        front.router.inject(Fault::ListenerPanics(0));
        front.until("started anew", |s| s.restarts == times).await;
    }
    let said = |t: &String| t.contains("ended 3 times within a minute");
    front.until("said", |s| s.troubles.iter().any(said)).await;
}
