//! Servers that fail new sessions, and clients that get none.

use super::fake::{Client, Fake, Front, Script, defaults, within};
use config::{Listener, RouterConfig};
use fleet::{Address, ListenerRole::Reader, ListenerRole::Writer, Role};
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

/// Far from the deadline on both sides: a machine that is busy elsewhere delays this process by some tenths
/// of a second.
const ATTEMPT: Duration = Duration::from_secs(1);

/// One server that hangs is waited for; one that answers does so in time although this machine is busy.
fn quick() -> RouterConfig {
    RouterConfig {
        attempt_deadline: Duration::from_secs(2),
        hold_deadline: Duration::from_millis(400),
        reads_on_primary: false,
        ..defaults()
    }
}

#[tokio::test]
async fn servers_that_are_all_slow_are_tried_again_with_more_time() {
    let config = RouterConfig { attempt_deadline: ATTEMPT, ..quick() };
    let late = Script::ServesLate(ATTEMPT * 3 / 2);
    let (one, two) = (Fake::start("one", late).await, Fake::start("two", late).await);
    let front = Front::start(config, &[Reader], vec![one.replica(), two.replica()]);
    let client = within(10, Client::connect(front.port(0))).await.unwrap();
    assert!(["one", "two"].contains(&client.server.as_str()));
    // Where this machine stands still for a moment, some with more time again.
    let accepted = one.accepted.load(SeqCst) + two.accepted.load(SeqCst);
    assert!((3..=6).contains(&accepted), "each once, and one with more time: {accepted}");
}

#[tokio::test]
async fn servers_that_fail_before_the_first_byte_cost_the_client_no_error() {
    for script in [Script::Refuses, Script::Hangs, Script::Breaks, Script::Errs(1040)] {
        let bad = Fake::start("bad", script).await;
        let good = Fake::start("good", Script::Serves).await;
        let front = Front::start(quick(), &[Reader], vec![bad.replica(), good.replica()]);
        // Whichever is picked first, both kinds come up among a few sessions.
        let mut clients = Vec::new();
        for _ in 0..6 {
            let client = within(5, Client::connect(front.port(0))).await.unwrap();
            assert_eq!(client.server, "good", "{script:?}");
            clients.push(client);
        }
        assert_eq!(good.accepted.load(SeqCst), 6);
        let suspected = front.suspected.lock().unwrap().clone();
        assert_eq!(suspected.len(), 1, "{script:?}: once tried, it is avoided: {suspected:?}");
        let status = front.router.status();
        let reason = status.servers[0].reads.reason.clone().unwrap();
        assert!(reason.contains("just failed a session"), "{reason}");
    }
}

#[tokio::test]
async fn a_suspect_is_picked_again_once_newer_rounds_say_it_answers() {
    let flaky = Fake::start("flaky", Script::Refuses).await;
    let front = Front::start(quick(), &[Reader], vec![flaky.replica()]);
    assert!(within(5, Client::connect(front.port(0))).await.is_err());
    front.publish(vec![flaky.replica()]);
    front.until("still avoided in the next round", |s| s.round == 2 && !s.servers[0].reads.eligible).await;
    front.publish(vec![flaky.replica()]);
    front.until("eligible again", |s| s.servers[0].reads.eligible).await;
}

#[tokio::test]
async fn when_nobody_is_eligible_the_client_is_told_each_server_and_its_reason() {
    let far = Fake::start("far", Script::Serves).await;
    let node = Fake::start("node", Script::Serves).await;
    let mut behind = far.replica();
    behind.lag.as_mut().unwrap().at_least = Duration::from_secs(75);
    let mut reserved = node.replica();
    reserved.reserved = Some("'analytics'".to_owned());
    let front = Front::start(quick(), &[Reader], vec![behind, reserved]);
    let refusal = within(5, Client::connect(front.port(0))).await.err().unwrap();
    assert_eq!(refusal.code, 1053);
    let words = "headroom: no server for reads: far: 75.0 s behind (by gtid samples), the limit is 10.0 s; \
                 node: reserved by rule 'analytics'";
    assert_eq!(refusal.message, words);
    let names: Vec<_> = front.router.status().fallbacks.iter().map(|f| f.name).collect();
    assert_eq!(names, ["no_reads", "lag_limit_excludes_all", "writer_unknown"]);
    assert_eq!(front.router.status().listeners[0].refused["no_server"], 1);
}

#[tokio::test]
async fn servers_that_gave_no_answer_in_time_are_tried_before_a_client_is_refused() {
    let (far, near) = (Fake::start("far", Script::Serves).await, Fake::start("near", Script::Serves).await);
    let silent = |mut server: fleet::Server| {
        server.state = fleet::State::Silent { why: "no answer to a ping within 1000 ms".to_owned() };
        server
    };
    let mut behind = silent(far.replica());
    behind.lag.as_mut().unwrap().at_least = Duration::from_secs(75);
    let front = Front::start(quick(), &[Reader], vec![behind, silent(near.replica())]);
    let client = within(5, Client::connect(front.port(0))).await.unwrap();
    assert_eq!(client.server, "near", "the other is further behind than allowed");
    let status = front.router.status();
    assert_eq!(status.servers[1].picks["last resort"], 1);
    assert!(status.fallbacks.iter().any(|f| f.name == "last_resort"));
}

#[tokio::test]
async fn reads_go_to_the_primary_last_and_only_if_allowed() {
    let primary = Fake::start("primary", Script::Serves).await;
    let config = RouterConfig { reads_on_primary: true, ..quick() };
    let front = Front::start(config, &[Reader], vec![primary.server(Role::Primary)]);
    let client = within(5, Client::connect(front.port(0))).await.unwrap();
    assert_eq!(client.server, "primary");
    assert_eq!(front.router.status().servers[0].picks["no replica eligible"], 1);
    let front = Front::start(quick(), &[Reader], vec![primary.server(Role::Primary)]);
    let refusal = within(5, Client::connect(front.port(0))).await.err().unwrap();
    assert!(refusal.message.contains("primary: is the primary"), "{}", refusal.message);
}

#[tokio::test]
async fn a_writer_session_waits_for_a_primary_and_gets_it() {
    let server = Fake::start("p", Script::Serves).await;
    let config = RouterConfig { hold_deadline: Duration::from_secs(10), ..quick() };
    let front = Front::start(config, &[Writer], vec![server.replica()]);
    let port = front.port(0);
    let waiting = tokio::spawn(async move { Client::connect(port).await.map(|c| c.server) });
    front.until("held", |s| s.held == 1).await;
    assert!(front.router.status().fallbacks.iter().any(|f| f.name == "writer_unknown"));
    front.publish(vec![server.server(Role::Primary)]);
    assert_eq!(within(5, waiting).await.unwrap().unwrap(), "p");
    front.until("nobody held", |s| s.held == 0).await;
}

#[tokio::test]
async fn a_writer_session_is_refused_in_words_when_no_primary_comes() {
    let server = Fake::start("r", Script::Serves).await;
    let front = Front::start(quick(), &[Writer], vec![server.replica()]);
    let begun = Instant::now();
    let refusal = within(5, Client::connect(front.port(0))).await.err().unwrap();
    assert!(begun.elapsed() >= Duration::from_millis(400));
    assert_eq!(refusal.code, 1053);
    assert!(refusal.message.contains("r: no primary is known: nobody is writable"), "{}", refusal.message);
}

#[tokio::test]
async fn without_a_hold_a_writer_session_is_refused_at_once_and_a_primary_still_has_its_time() {
    let slow = Fake::start("p", Script::ServesLate(Duration::from_millis(300))).await;
    let attempt_deadline = Duration::from_secs(20);
    let config = RouterConfig { attempt_deadline, hold_deadline: Duration::ZERO, ..quick() };
    let front = Front::start(config, &[Writer], vec![slow.replica()]);
    let begun = Instant::now();
    let refusal = within(5, Client::connect(front.port(0))).await.err().unwrap();
    assert!(refusal.message.contains("p: no primary is known"), "{}", refusal.message);
    assert!(begun.elapsed() < attempt_deadline, "{:?}", begun.elapsed());
    front.publish(vec![slow.server(Role::Primary)]);
    front.until("a primary", |s| s.servers[0].writes.eligible).await;
    assert_eq!(within(10, Client::connect(front.port(0))).await.unwrap().server, "p");
}

#[tokio::test]
async fn a_primary_that_refuses_is_tried_again_after_the_same_short_pause_each_time() {
    let full = Fake::start("p", Script::Errs(1040)).await;
    let config = RouterConfig { hold_deadline: Duration::from_secs(30), ..quick() };
    let front = Front::start(config, &[Writer], vec![full.server(Role::Primary)]);
    let port = front.port(0);
    let waiting = tokio::spawn(async move { Client::connect(port).await.map(|c| c.server) });
    let begun = Instant::now();
    // With pauses that double the sixth attempt would come after 15.5 s.
    while full.accepted.load(SeqCst) < 6 {
        assert!(begun.elapsed() < Duration::from_secs(12), "tried {} times", full.accepted.load(SeqCst));
        front.publish(vec![full.server(Role::Primary)]);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(begun.elapsed() > Duration::from_secs(2), "not without a pause: {:?}", begun.elapsed());
    waiting.abort();
}

#[tokio::test]
async fn a_primary_that_refuses_holds_the_session_until_it_is_back() {
    let dead = Fake::start("p", Script::Refuses).await;
    let config = RouterConfig { hold_deadline: Duration::from_secs(10), ..quick() };
    let front = Front::start(config, &[Writer], vec![dead.server(Role::Primary)]);
    let port = front.port(0);
    let waiting = tokio::spawn(async move { Client::connect(port).await.map(|c| c.server) });
    front.until("held", |s| s.held == 1).await;
    let back = Fake::start("p", Script::Serves).await;
    within(10, async {
        while !waiting.is_finished() {
            front.publish(vec![back.server(Role::Primary)]);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
    assert_eq!(waiting.await.unwrap().unwrap(), "p");
}

#[tokio::test]
async fn a_primary_that_is_slow_to_greet_is_given_more_time_whenever_it_may_be_tried_again() {
    let slow = Fake::start("p", Script::ServesLate(ATTEMPT * 3 / 2)).await;
    let hold_deadline = Duration::from_secs(20);
    let config = RouterConfig { attempt_deadline: ATTEMPT, hold_deadline, ..quick() };
    let front = Front::start(config, &[Writer], vec![slow.server(Role::Primary)]);
    let port = front.port(0);
    let waiting = tokio::spawn(async move { Client::connect(port).await.map(|c| c.server) });
    within(20, async {
        while !waiting.is_finished() {
            front.publish(vec![slow.server(Role::Primary)]);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
    assert_eq!(waiting.await.unwrap().unwrap(), "p");
}

#[tokio::test]
async fn the_way_to_a_far_server_is_not_its_slowness() {
    let far = Fake::start("far", Script::ServesLate(Duration::from_millis(600))).await;
    let mut server = far.replica();
    server.round_trip = Some(Duration::from_secs(2));
    let config = RouterConfig { attempt_deadline: Duration::from_millis(150), ..quick() };
    let front = Front::start(config, &[Reader], vec![server]);
    assert_eq!(within(5, Client::connect(front.port(0))).await.unwrap().server, "far");
    assert_eq!(far.accepted.load(SeqCst), 1, "at the first attempt");
}

#[tokio::test]
async fn a_client_that_leaves_while_it_waits_gives_its_place_back() {
    let server = Fake::start("r", Script::Serves).await;
    let config = RouterConfig { hold_deadline: Duration::from_secs(60), ..quick() };
    let front = Front::start(config, &[Writer], vec![server.replica()]);
    let waiting = tokio::net::TcpStream::connect(("127.0.0.1", front.port(0))).await.unwrap();
    front.until("held", |s| s.held == 1).await;
    drop(waiting);
    front.until("given back", |s| s.held == 0 && s.sessions == 0).await;
}

#[tokio::test]
async fn sessions_beyond_the_limit_get_error_1040() {
    let server = Fake::start("r", Script::Serves).await;
    let listener = Listener { max_sessions: 2, ..Listener::new(Address::tcp("127.0.0.1", 0), Reader) };
    let front = Front::with_listeners(quick(), vec![listener], vec![server.replica()]);
    let port = front.port(0);
    let first = Client::login(port).await;
    let _second = Client::login(port).await;
    let refusal = within(5, Client::connect(port)).await.err().unwrap();
    assert_eq!(refusal.code, 1040);
    assert_eq!(front.router.status().listeners[0].refused["max_sessions"], 1);
    drop(first);
    front.until("one left", |s| s.sessions == 1).await;
    assert!(Client::connect(port).await.is_ok());
}
