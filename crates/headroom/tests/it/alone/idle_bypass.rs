//! Ten thousand idle sessions to a real server past `headroom route`: all counted, all still answer. Needs
//! root and a kernel with BPF, and fails loudly without; only who is not root is told that nothing was
//! tested.

use crate::support::bypass;
use crate::support::ten_thousand::{Session, WANTED, allow_files, open, roomy};
use crate::support::told::routing;
use lab::{Account, Lab};
use serde_json::Value;

#[tokio::test]
async fn ten_thousand_idle_sessions_go_past_the_router_and_still_answer() {
    if !bypass::root() {
        return;
    }
    allow_files();
    let base = tempfile::tempdir().unwrap();
    let lab = Lab::up(&roomy(), base.path()).await.unwrap();
    let mut route = bypass::in_zone_a(&lab, "require", "off");
    route.start();
    route.wait_for("zero-hop is in force", |status| status["zero_hop"]["in_force"] == true).await;
    let (to, password) = (route.writer.into(), lab.password(Account::App).to_owned());
    let open = move || open(to, &password, WANTED as usize);
    let mut held = tokio::task::spawn_blocking(open).await.unwrap();
    // The first few are placed one by one, by the router.
    let past = |status: &Value| {
        routing(status, "a1")["bypassed"].as_u64().is_some_and(|past| past > WANTED * 99 / 100)
    };
    let all = |status: &Value| routing(status, "a1")["sessions"] == WANTED && past(status);
    route.wait_for("all of them", all).await;
    let held = tokio::task::spawn_blocking(move || {
        held.iter_mut().for_each(Session::answers);
        held
    })
    .await
    .unwrap();
    let status = route.status();
    assert!(all(&status), "{}", status["listeners"]);
    drop(held);
    route.wait_for("all have ended", |status| routing(status, "a1")["sessions"] == 0).await;
    drop(route);
    lab.down().await.unwrap();
}
