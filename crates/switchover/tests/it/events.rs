//! Events move with the primary and keep running as the account that they ran as.

use crate::moving::{DEADLINE, Fleet, quick};
use lab::Spec;
use mysql_async::prelude::Queryable;
use switchover::check::{Level, Limits};
use switchover::facts::ScheduledEvent;
use switchover::journal::Journal;
use switchover::perform;
use switchover::step::State;

#[tokio::test]
async fn events_keep_their_definers_and_one_that_is_refused_stops_no_other() {
    events_move(Fleet::up(Spec::new(&[("a", 2), ("b", 1)])).await, "SET USER").await;
}

pub(crate) async fn events_move(fleet: Fleet, privilege: &str) {
    let mut a1 = fleet.lab.connect("a1").await.unwrap();
    for statement in [
        "CREATE USER 'o''brien'@'10.0.%' IDENTIFIED BY 'x'",
        "GRANT INSERT, EVENT ON app.* TO 'o''brien'@'10.0.%'",
        "CREATE DEFINER = 'o''brien'@'10.0.%' EVENT app.nightly ON SCHEDULE EVERY 1 DAY DO INSERT INTO app.writes VALUES (1)",
    ] {
        a1.query_drop(statement).await.unwrap();
    }
    // An account that may see those of another database only: the server shows it none.
    for statement in ["REVOKE EVENT ON *.* FROM admin", "GRANT EVENT ON headroom.* TO admin"] {
        a1.query_drop(statement).await.unwrap();
    }
    let survey = fleet.survey("a2").await;
    let events = survey.checks(Limits::default(), true).into_iter().find(|f| f.check == "events").unwrap();
    assert!(events.level == Level::Warn && events.facts.contains("not known"), "{events:?}");
    a1.query_drop("GRANT EVENT ON *.* TO admin").await.unwrap();
    fleet.lab.wait_applied("a2", "a1", DEADLINE * 6).await.unwrap();
    let findings = fleet.survey("a2").await.checks(Limits::default(), true);
    let events = findings.iter().find(|finding| finding.check == "events").unwrap();
    assert!(events.level == Level::Stop && events.facts.contains("o'brien@10.0.%"), "{events:?}");
    a1.query_drop(format!("GRANT {privilege} ON *.* TO admin")).await.unwrap();
    fleet.lab.wait_applied("a2", "a1", DEADLINE * 6).await.unwrap();
    let survey = fleet.survey("a2").await;
    let findings = survey.checks(Limits::default(), true);
    assert!(findings.iter().all(|finding| finding.level != Level::Stop), "{findings:#?}");
    let mut plan = survey.plan(quick(), "test");
    let (schema, definer) = ("app".to_owned(), "root@localhost".to_owned());
    plan.events.insert(0, ScheduledEvent { schema, name: "dropped_meanwhile".to_owned(), definer });
    let mut journal = Journal::create(fleet.journals.path(), &plan).unwrap();
    let outcome = perform::run(&plan, &fleet.logins(), &mut journal, State::START, &|| false, &mut |_| ())
        .await
        .unwrap();
    assert_eq!(outcome.state, State::Done, "{outcome:#?}");
    let [remark] = outcome.remarks.as_slice() else { panic!("{outcome:#?}") };
    assert!(remark.contains("event app.dropped_meanwhile is not enabled"), "{remark}");
    let ask = "SELECT DEFINER, STATUS FROM information_schema.EVENTS WHERE EVENT_NAME = 'nightly'";
    let mut a2 = fleet.lab.connect("a2").await.unwrap();
    let there: Option<(String, String)> = a2.query_first(ask).await.unwrap();
    assert_eq!(there, Some(("o'brien@10.0.%".to_owned(), "ENABLED".to_owned())));
    fleet.lab.wait_applied("a1", "a2", DEADLINE * 6).await.unwrap();
    let there: Option<(String, String)> = a1.query_first(ask).await.unwrap();
    assert!(there.is_some_and(|(_, status)| status.ends_with("DISABLED")));
    fleet.lab.down().await.unwrap();
}
