//! Zero-hop on a lab of real servers: `headroom route` as a child process, programs in the real kernel. Needs
//! root and a kernel with BPF, and fails loudly without; only who is not root is told that nothing was
//! tested.

use crate::support::bypass;
use crate::support::bypass::{in_zone_a, ready, root};
use crate::support::route::{Route, connect};
use lab::{Lab, Spec};
use mysql_async::prelude::Queryable;
use rustix::process::Signal;

/// What starts a program with everything but what BPF and mounts need: the files of the lab are root's.
const UNPRIVILEGED: [&str; 3] = ["setpriv", "--bounding-set", "-bpf,-sys_admin,-net_admin"];

/// Three servers in two zones and a router in zone a that is not started yet; none without root.
async fn privileged(zero_hop: &str, insight: &str) -> Option<(tempfile::TempDir, Lab, Route)> {
    if !root() {
        return None;
    }
    let base = tempfile::tempdir().unwrap();
    let lab = Lab::up(&Spec::new(&[("a", 2), ("b", 1)]), base.path()).await.unwrap();
    let route = in_zone_a(&lab, zero_hop, insight);
    Some((base, lab, route))
}

#[tokio::test]
async fn connections_go_past_the_router_and_everything_is_seen_moved_and_removed() {
    let Some((_base, lab, mut route)) = privileged("require", "off").await else { return };
    route.start();
    ready(&route).await;

    bypass::sessions_are_past_and_counted(&lab, &route).await;
    bypass::a_drained_server_is_left_idle_first(&lab, &route).await;
    bypass::restarts_lose_no_connection(&lab, &mut route).await;
    bypass::a_goodbye_puts_nobody_in_doubt(&lab, &route).await;
    bypass::a_killed_server_refuses_nobody(&lab, &route).await;
    bypass::a_take_over_that_fails_changes_nothing(&lab, &mut route).await;
    bypass::a_take_over_loses_no_connection(&lab, &mut route).await;
    bypass::switched_off_the_listener_serves(&lab, &route).await;
    drop(route);
    lab.down().await.unwrap();
}

#[tokio::test]
async fn no_session_in_use_is_cut_unless_somebody_drains_its_server() {
    let Some((_base, lab, mut route)) = privileged("require", "off").await else { return };
    let text = std::fs::read_to_string(&route.file).unwrap();
    let short = "[router.rebalance]\ndrain_deadline = \"1s\"\n[admin]";
    std::fs::write(&route.file, text.replace("[admin]", short)).unwrap();
    route.start();
    ready(&route).await;
    bypass::a_server_that_may_not_be_read_from_keeps_what_is_in_use(&lab, &route).await;
    drop(route);
    lab.down().await.unwrap();
}

#[tokio::test]
async fn whoever_starts_on_an_address_decides_about_it_whatever_a_dead_router_has_left() {
    let Some((_base, lab, mut route)) = privileged("require", "off").await else { return };
    route.start();
    ready(&route).await;
    bypass::another_file_decides_on_the_same_address(&lab, &mut route).await;
    drop(route);
    lab.down().await.unwrap();
}

#[tokio::test]
async fn sessions_that_go_past_are_measured_to_the_statement() {
    let Some((_base, lab, mut route)) = privileged("require", "on").await else { return };
    route.start();
    ready(&route).await;
    bypass::statements_past_are_counted(&lab, &route).await;
    bypass::a_session_from_before_is_told_as_unread(&lab, &mut route).await;
    bypass::with_one_in_sixteen_all_go_past(&lab, &mut route).await;
    bypass::what_two_of_thirty_two_say_is_scaled_to_all(&lab, &route).await;
    drop(route);
    lab.down().await.unwrap();
}

#[tokio::test]
async fn without_the_right_the_listener_serves_and_require_says_what_is_missing() {
    let Some((_base, lab, mut route)) = privileged("auto", "sampled").await else { return };
    route.start_by(&UNPRIVILEGED);
    ready(&route).await;
    let mut session = connect(&lab, route.reader).await.unwrap();
    session.query_drop("SELECT 1").await.unwrap();
    let status = route.status();
    assert_eq!(status["listeners"][0]["accepted"], 1);
    let words = status["listeners"][0]["zero_hop"]["text"].as_str().unwrap();
    assert!(words.contains("not permitted") && words.contains("CAP_BPF"), "{words}");
    session.disconnect().await.unwrap();
    route.signal(Signal::TERM);
    route.end().await;

    let text = std::fs::read_to_string(&route.file).unwrap();
    std::fs::write(&route.file, text.replace("zero_hop = \"auto\"", "zero_hop = \"require\"")).unwrap();
    route.start_by(&UNPRIVILEGED);
    let ended = route.end().await;
    assert_eq!(ended.code(), Some(2));
    assert!(route.words().contains("zero_hop = \"require\", but not permitted"), "{}", route.words());
    drop(route);
    lab.down().await.unwrap();
}
