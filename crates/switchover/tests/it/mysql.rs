//! The same moves on a real mysqld, from target/mysql (`make test-mysql` brings it there).

use crate::moving::{self, DEADLINE, Fleet, quick};
use fleet::ServerName;
use lab::{Fault, Spec};
use mysql_async::prelude::Queryable;
use std::time::Duration;
use switchover::facts;
use switchover::failover::confirm::Rule;
use switchover::failover::rejoin::{self, RejoinOutcome};
use switchover::failover::risk::SourceEvidence;
use switchover::failover::scene::Scene;
use switchover::journal::Journal;
use switchover::perform::{self, FenceBy};
use switchover::step::State;
use testkit::mysqld;

#[tokio::test]
async fn the_primary_moves_there_and_back_and_nothing_acknowledged_is_lost_on_mysql() {
    moving::there_and_back(
        Fleet::up(Spec::new(&[("a", 2), ("b", 1)]).program(mysqld())).await,
        &["a2", "a1", "b1"],
    )
    .await;
}

#[tokio::test]
async fn a_replica_takes_over_from_a_dead_primary_that_comes_back_as_a_replica_on_mysql() {
    let fleet = Fleet::up(Spec::new(&[("a", 2), ("b", 1)]).program(mysqld())).await;
    let mut a1 = fleet.lab.connect("a1").await.unwrap();
    a1.query_drop("INSERT INTO app.writes VALUES (1)").await.unwrap();
    for replica in ["a2", "b1"] {
        fleet.lab.wait_applied(replica, "a1", DEADLINE * 6).await.unwrap();
    }
    fleet.lab.fault("a1", Fault::Kill).await.unwrap();
    let (logins, known, a1) = (fleet.logins(), fleet.known(), ServerName::new("a1"));
    let scene = Scene::read(&known, Some(&a1), &logins.admin, DEADLINE, &logins.flags).await.unwrap();
    let rule = Rule { looks: 3, over: Duration::from_millis(600) };
    scene.confirm(&logins.admin, &rule, DEADLINE * 6).await.unwrap();
    let scene = Scene::read(&known, Some(&a1), &logins.admin, DEADLINE, &logins.flags).await.unwrap();
    assert!(
        scene
            .rule_out_loss(&SourceEvidence::Unknown)
            .unwrap_err()
            .to_string()
            .contains("no replica acknowledged")
    );
    let candidate = scene.choose(None).unwrap();
    let plan = scene.plan(&candidate, FenceBy::Nothing, quick(), "test").unwrap();
    let mut journal = Journal::create(fleet.journals.path(), &plan).unwrap();
    let outcome =
        perform::run(&plan, &logins, &mut journal, State::START, &|| false, &mut |_| ()).await.unwrap();
    assert_eq!(outcome.state, State::Done, "{outcome:#?}");
    assert_eq!(outcome.remarks, Vec::<String>::new());
    let mut new = fleet.lab.connect(candidate.as_str()).await.unwrap();
    new.query_drop("INSERT INTO app.writes VALUES (2)").await.unwrap();
    fleet.lab.heal("a1").await.unwrap();
    let read = async |name: &ServerName| {
        let server = known.server(name).unwrap();
        facts::read(&server.name, &server.reach, &logins.admin, DEADLINE).await.unwrap()
    };
    // The replicas' connections ask for the source's key; without it the login by password is refused.
    let protection = &scene.replicas[0].channels[0].protection;
    assert!(protection.iter().any(|(option, _)| option == "GET_PUBLIC_KEY"), "{protection:?}");
    let (old, primary) = (read(&a1).await, read(&candidate).await);
    let recorded = rejoin::recorded_protection(&primary, &logins.admin, DEADLINE).await;
    assert_eq!(recorded.as_ref(), Some(protection), "where no other replica is left to say it");
    let rejoined = rejoin::rejoin(&old, &primary, protection, &logins, DEADLINE).await.unwrap();
    assert_eq!(rejoined, RejoinOutcome::Follows);
    let mut conn = fleet.lab.connect("a1").await.unwrap();
    let there: Vec<i64> = conn.query("SELECT id FROM app.writes ORDER BY id").await.unwrap();
    assert_eq!(there, [1, 2]);
    assert!(fleet.read_only("a1").await);
    // Written on its own since: a history that nobody else has keeps it out.
    conn.query_drop("STOP REPLICA").await.unwrap();
    conn.query_drop("SET GLOBAL read_only = OFF").await.unwrap();
    conn.query_drop("INSERT INTO app.writes VALUES (3)").await.unwrap();
    let refused = rejoin::rejoin(&read(&a1).await, &primary, protection, &logins, DEADLINE).await.unwrap();
    assert!(matches!(&refused, RejoinOutcome::Refused { own, .. } if own.count == 1), "{refused:?}");
    assert!(fleet.read_only("a1").await);
    fleet.lab.down().await.unwrap();
}

#[tokio::test]
async fn each_check_that_stops_is_seen_on_real_servers_and_passes_once_it_is_mended_on_mysql() {
    crate::checks::each_check_that_stops_is_seen_on_mysql().await;
}

#[tokio::test]
async fn events_keep_their_definers_and_one_that_is_refused_stops_no_other_on_mysql() {
    crate::events::events_move(
        Fleet::up(Spec::new(&[("a", 2), ("b", 1)]).program(mysqld())).await,
        "SET_ANY_DEFINER",
    )
    .await;
}

#[tokio::test]
async fn servers_with_other_defaults_are_moved_all_the_same_on_mysql() {
    let fleet = Fleet::up(Spec::new(&[("a", 2), ("b", 1)]).program(mysqld())).await;
    moving::with_other_defaults(fleet, "max_execution_time = 1000").await;
}

#[tokio::test]
async fn a_primary_that_was_opened_before_the_promotion_stays_the_primary_on_mysql() {
    let fleet = Fleet::up(Spec::new(&[("a", 2), ("b", 1)]).program(mysqld())).await;
    moving::opened_before_the_promotion(fleet, &["SET GLOBAL super_read_only = OFF"]).await;
}

#[tokio::test]
async fn a_move_that_is_resumed_at_its_end_tells_servers_that_follow_already_on_mysql() {
    let fleet = Fleet::up(Spec::new(&[("a", 2), ("b", 1)]).program(mysqld())).await;
    moving::resumed_at_the_end(fleet).await;
}
