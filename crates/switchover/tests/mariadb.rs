//! A planned move of the primary on real servers: what was acknowledged is there, roles are as they should be, a failure
//! before the point of no return leaves everything as it was.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "support/moving.rs"]
mod moving;

use lab::Spec;
use moving::{DEADLINE, Fleet, quick};
use mysql_async::prelude::Queryable;
use std::time::Duration;
use switchover::journal::{self, Journal};
use switchover::perform::{self, Deadlines};
use switchover::step::{State, Step};

fn three() -> Spec {
    Spec::new(&[("a", 2), ("b", 1)])
}

#[tokio::test]
async fn the_primary_moves_there_and_back_and_nothing_acknowledged_is_lost() {
    moving::there_and_back(Fleet::up(three()).await).await;
}

#[tokio::test]
async fn a_transaction_that_never_ends_is_named_and_everything_is_as_before() {
    let fleet = Fleet::up(three()).await;
    let mut open = fleet.lab.connect("a1").await.unwrap();
    let survey = fleet.survey("a2").await;
    open.query_drop("BEGIN").await.unwrap();
    open.query_drop("INSERT INTO app.writes VALUES (1)").await.unwrap();
    let plan = survey.plan(Deadlines { drain_ms: 300, ..quick() }, "test");
    let mut journal = Journal::create(fleet.journals.path(), &plan).unwrap();
    let outcome = perform::run(&plan, &fleet.logins(), &mut journal, State::START, &|| false, &mut |_| ())
        .await
        .unwrap();
    let State::Undone { why } = &outcome.state else { panic!("{outcome:#?}") };
    assert!(why.contains(&format!("session {}", open.id())) && why.contains("root@"), "{why}");
    assert!(!fleet.read_only("a1").await && fleet.read_only("a2").await);
    open.query_drop("COMMIT").await.unwrap();
    fleet.lab.wait_applied("a2", "a1", DEADLINE).await.unwrap();
    fleet.lab.down().await.unwrap();
}

#[tokio::test]
async fn killed_after_any_step_it_is_resumed_or_undone_from_the_journal() {
    let fleet = Fleet::up(three()).await;
    let mut primary = "a1";
    for about in switchover::step::STEPS {
        let candidate = if primary == "a1" { "a2" } else { "a1" };
        let plan = fleet.survey(candidate).await.plan(quick(), "test");
        let mut journal = Journal::create(fleet.journals.path(), &plan).unwrap();
        let path = journal.path().to_owned();
        // Whoever did it vanishes in the middle: the future is dropped where the step has just begun.
        let (begins, mut begun) = tokio::sync::mpsc::unbounded_channel();
        let logins = fleet.logins();
        let mut progress = |progress: perform::Progress<'_>| {
            if let perform::Progress::Begins { step, .. } = progress {
                let _ = begins.send(step);
            }
        };
        {
            let run = perform::run(&plan, &logins, &mut journal, State::START, &|| false, &mut progress);
            let until = async {
                while begun.recv().await.is_some_and(|step| step != about.step) {}
                tokio::time::sleep(Duration::from_millis(3)).await;
            };
            tokio::select! { _ = run => {}, () = until => {} }
        }
        drop(journal);
        let (mut journal, lines) = Journal::reopen(&path).unwrap();
        let (step, undo, ended) = journal::last(&lines).unwrap();
        assert!(!undo);
        let promoted = perform::promoted(&plan, &logins).await;
        let state = State::resume(step, ended, promoted);
        let outcome =
            perform::run(&plan, &logins, &mut journal, state, &|| false, &mut |_| ()).await.unwrap();
        match outcome.state {
            State::Done => primary = candidate,
            State::Undone { .. } => assert!(step <= Step::Promote),
            _ => panic!("{outcome:#?}"),
        }
        let other = if primary == "a1" { "a2" } else { "a1" };
        assert!(!fleet.read_only(primary).await && fleet.read_only(other).await, "{}", about.name);
        for server in ["a1", "a2", "b1"].iter().filter(|server| **server != primary) {
            fleet.lab.wait_applied(server, primary, DEADLINE).await.unwrap();
        }
    }
    fleet.lab.down().await.unwrap();
}
