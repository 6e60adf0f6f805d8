//! Ten thousand idle sessions through `headroom route` to a real server: all held, all still answer, one more
//! is refused.
//!
//! Router, server and clients are processes of their own here, as they are in service. The router needs two
//! descriptors a session that it relays: where the hard limit is below 20,100 it holds as many as it says it
//! can, and this test says so. What bypasses it needs none (`idle_bypass`).

#![allow(clippy::print_stdout, reason = "its figure is shown")]

use crate::support::one_server::Alone;
use crate::support::ten_thousand::{Session, WANTED, allow_files, open, roomy};
use lab::Account;
use rustix::process::Signal;
use wire::ErrPacket;

#[tokio::test]
async fn ten_thousand_idle_sessions_are_held_and_still_answer() {
    let limit = allow_files();
    let mut alone = Alone::with(&roomy(), "").await;
    let mut child = alone.start(&[], None);
    let status = alone.ready().await;
    let room = status["most_sessions"].as_u64().unwrap_or(u64::MAX);
    let sessions = usize::try_from(room.min(WANTED)).unwrap();
    if room < WANTED {
        println!(
            "ONLY {sessions} SESSIONS instead of {WANTED}: a process may open {:?} files here (ulimit -Hn)",
            limit.maximum
        );
    }
    assert!(sessions >= 1_000, "{:?} files are too few for this test (ulimit -Hn)", limit.maximum);
    let (to, password) = (alone.writer, alone.lab.password(Account::App).to_owned());
    let open = move || open(to, &password, sessions);
    let mut held = tokio::task::spawn_blocking(open).await.unwrap();
    let all =
        |status: &serde_json::Value| status["listeners"][0]["sessions"].as_u64() == Some(sessions as u64);
    alone.wait_for("all of them", all).await;
    // One more is one too many, by the listener's limit or for want of descriptors, and hears it.
    let refusal = tokio::task::spawn_blocking(move || Session::connect(to).receive()).await.unwrap();
    assert_eq!(ErrPacket::parse(&refusal).unwrap().code, 1040);
    let mut held = tokio::task::spawn_blocking(move || {
        held.iter_mut().for_each(Session::answers);
        held
    })
    .await
    .unwrap();
    let status = alone.status();
    assert!(all(&status) && !status["writer"].is_null(), "{}", status["listeners"]);
    held.truncate(10);
    alone.wait_for("most have ended", |status| status["listeners"][0]["sessions"] == 10).await;
    drop(held);
    alone.signal(u64::from(child.id()), Signal::TERM);
    assert_eq!(alone.ended(&mut child).await.code(), Some(0));
}
