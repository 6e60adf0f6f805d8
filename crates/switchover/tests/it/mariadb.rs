//! A planned move of the primary on real servers: what was acknowledged is there, roles are as they should
//! be, a failure before the point of no return leaves everything as it was.

use crate::moving::{self, DEADLINE, Fleet, quick};
use lab::Spec;
use mysql_async::prelude::Queryable;
use std::time::{Duration, Instant};
use switchover::journal::{self, Journal, JournalRecord};
use switchover::perform::{self, Deadlines};
use switchover::semi_sync::{Name, Switch};
use switchover::step::{State, Step};

fn three() -> Spec {
    Spec::new(&[("a", 2), ("b", 1)])
}

#[tokio::test]
async fn the_primary_moves_there_and_back_and_nothing_acknowledged_is_lost() {
    moving::there_and_back(Fleet::up(three()).await, &["a2", "a1", "b1"]).await;
}

#[tokio::test]
async fn replicas_of_replicas_keep_their_source_and_get_everything() {
    let spec = three().replica_of("b1", "a2");
    moving::there_and_back(Fleet::up(spec).await, &["a2", "a1"]).await;
}

#[tokio::test]
async fn with_semi_sync_that_never_falls_back_the_first_write_does_not_wait_for_replicas_that_follow_nobody()
{
    let fleet = Fleet::up(three()).await;
    fleet.semi_sync("a1", &["a2", "b1"]).await;
    moving::there_and_back(fleet, &["a2", "a1", "b1"]).await;
}

#[tokio::test]
async fn a_transaction_that_ends_in_time_does_not_stop_the_move() {
    let fleet = Fleet::up(three()).await;
    let survey = fleet.survey("a2").await;
    let mut open = fleet.lab.connect("a1").await.unwrap();
    open.query_drop("BEGIN").await.unwrap();
    open.query_drop("INSERT INTO app.writes VALUES (1)").await.unwrap();
    let plan = survey.plan(quick(), "test");
    let mut journal = Journal::create(fleet.journals.path(), &plan).unwrap();
    // It ends once the drain has seen it open.
    let (drains, drained) = tokio::sync::oneshot::channel();
    let mut drains = Some(drains);
    let commit = async move {
        drained.await.unwrap();
        tokio::time::sleep(Duration::from_millis(250)).await;
        open.query_drop("COMMIT").await.unwrap();
    };
    let logins = fleet.logins();
    let mut progress = |progress: perform::Progress<'_>| {
        if let perform::Progress::Begins { step: Step::Drain, .. } = progress {
            let _ = drains.take().unwrap().send(());
        }
    };
    let run = perform::run(&plan, &logins, &mut journal, State::START, &|| false, &mut progress);
    let (outcome, ()) = tokio::join!(run, commit);
    let outcome = outcome.unwrap();
    assert_eq!(outcome.state, State::Done, "{outcome:#?}");
    let mut conn = fleet.lab.connect("a2").await.unwrap();
    let there: Option<i64> = conn.query_first("SELECT COUNT(*) FROM app.writes").await.unwrap();
    assert_eq!(there, Some(1));
    fleet.lab.down().await.unwrap();
}

#[tokio::test]
async fn what_an_administrator_was_told_is_written_is_on_the_new_primary_and_nothing_else_on_the_old() {
    let fleet = Fleet::up(three()).await;
    let survey = fleet.survey("a2").await;
    // root may write to a server that is read-only: only the read lock keeps it out, and its writes queue for
    // it.
    let mut root = fleet.lab.connect("a1").await.unwrap();
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let stopping = stop.clone();
    let writing = tokio::spawn(async move {
        let mut acknowledged = Vec::new();
        for number in 1i64.. {
            if stopping.load(std::sync::atomic::Ordering::Relaxed) {
                break;
            }
            match root.query_drop(format!("INSERT INTO app.writes VALUES ({number})")).await {
                Ok(()) => acknowledged.push(number),
                Err(_) => break,
            }
        }
        acknowledged
    });
    let plan = survey.plan(quick(), "test");
    let mut journal = Journal::create(fleet.journals.path(), &plan).unwrap();
    let outcome = perform::run(&plan, &fleet.logins(), &mut journal, State::START, &|| false, &mut |_| ())
        .await
        .unwrap();
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    let acknowledged = writing.await.unwrap();
    assert_eq!(outcome.state, State::Done, "{outcome:#?}");
    assert_eq!(outcome.remarks, Vec::<String>::new());
    assert!(!acknowledged.is_empty());
    for server in ["a1", "a2"] {
        let mut conn = fleet.lab.connect(server).await.unwrap();
        let there: Vec<i64> = conn.query("SELECT id FROM app.writes ORDER BY id").await.unwrap();
        assert_eq!(there, acknowledged, "{server}");
    }
    fleet.lab.down().await.unwrap();
}

/// As a tool that is killed once the candidate takes writes, before routers are let go.
async fn promote_and_die(plan: &perform::Plan, logins: &perform::Logins, journal: &mut Journal) {
    let (begins, mut begun) = tokio::sync::mpsc::unbounded_channel();
    let mut progress = |progress: perform::Progress<'_>| {
        if let perform::Progress::Begins { step: Step::Release, .. } = progress {
            let _ = begins.send(());
        }
    };
    let run = perform::run(plan, logins, journal, State::START, &|| false, &mut progress);
    tokio::select! { _ = run => {}, _ = begun.recv() => {} }
}

#[tokio::test]
async fn the_old_primary_stays_closed_when_the_candidate_was_written_to_and_restarted_read_only() {
    let fleet = Fleet::up(three()).await;
    let plan = fleet.survey("a2").await.plan(quick(), "test");
    let mut journal = Journal::create(fleet.journals.path(), &plan).unwrap();
    let logins = fleet.logins();
    promote_and_die(&plan, &logins, &mut journal).await;
    let mut a2 = fleet.lab.connect("a2").await.unwrap();
    a2.query_drop("INSERT INTO app.writes VALUES (1)").await.unwrap();
    a2.query_drop("SET GLOBAL read_only = ON").await.unwrap();
    // As if the journal had been lost from the promotion on: the candidate says that it refuses writes.
    let state = State::resume(Step::Promote, None, perform::promoted(&plan, &logins).await);
    assert!(matches!(state, State::Undoing { .. }));
    let outcome = perform::run(&plan, &logins, &mut journal, state, &|| false, &mut |_| ()).await.unwrap();
    let remark = outcome.remarks.iter().find(|remark| remark.starts_with("undoing freeze"));
    assert!(remark.is_some_and(|remark| remark.contains("was promoted and written to")), "{outcome:#?}");
    assert!(fleet.read_only("a1").await, "a second history would begin");
    fleet.lab.down().await.unwrap();
}

#[tokio::test]
async fn what_the_old_primary_took_while_the_tool_was_dead_is_named_and_it_follows_nobody() {
    let fleet = Fleet::up(three()).await;
    let plan = fleet.survey("a2").await.plan(Deadlines { verify_ms: 1_000, ..quick() }, "test");
    let mut journal = Journal::create(fleet.journals.path(), &plan).unwrap();
    let logins = fleet.logins();
    promote_and_die(&plan, &logins, &mut journal).await;
    // As one that was restarted, and is writable by its option file. What it takes reaches nobody.
    fleet.lab.connect("b1").await.unwrap().query_drop("STOP SLAVE").await.unwrap();
    let mut a1 = fleet.lab.connect("a1").await.unwrap();
    for statement in ["SET GLOBAL read_only = OFF", "INSERT INTO app.writes VALUES (1)"] {
        a1.query_drop(statement).await.unwrap();
    }
    let state = State::Forward { step: Step::Release };
    let outcome = perform::run(&plan, &logins, &mut journal, state, &|| false, &mut |_| ()).await.unwrap();
    assert_eq!(outcome.state, State::Done, "{outcome:#?}");
    let remark = outcome.remarks.iter().find(|remark| remark.starts_with("repoint")).unwrap();
    assert!(remark.contains("at most 1 transactions") && remark.contains("a2 does not have"), "{remark}");
    assert!(remark.ends_with("headroom failover --rejoin a1"), "{remark}");
    assert!(fleet.read_only("a1").await && !fleet.read_only("a2").await);
    let follows: Option<mysql_async::Row> = a1.query_first("SHOW SLAVE STATUS").await.unwrap();
    assert!(follows.is_none(), "{follows:?}");
    let mut a2 = fleet.lab.connect("a2").await.unwrap();
    a2.query_drop("INSERT INTO app.writes VALUES (2)").await.unwrap();
    fleet.lab.wait_applied("b1", "a2", DEADLINE).await.unwrap();
    fleet.lab.down().await.unwrap();
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
    assert_eq!(outcome.primary_takes_writes, Some(true));
    assert!(!fleet.read_only("a1").await && fleet.read_only("a2").await);
    open.query_drop("COMMIT").await.unwrap();
    fleet.lab.wait_applied("a2", "a1", DEADLINE * 6).await.unwrap();
    fleet.lab.down().await.unwrap();
}

#[tokio::test]
async fn whoever_asks_for_the_end_while_writes_wait_does_not_wait_for_the_deadline() {
    let fleet = Fleet::up(three()).await;
    let (logins, minute) = (fleet.logins(), Deadlines { drain_ms: 60_000, freeze_ms: 60_000, ..quick() });
    for (at, in_the_way, ends) in [
        (Step::Drain, ["BEGIN", "INSERT INTO app.writes VALUES (1)"].as_slice(), "ROLLBACK"),
        (Step::Freeze, ["LOCK TABLES app.writes WRITE"].as_slice(), "UNLOCK TABLES"),
    ] {
        let plan = fleet.survey("a2").await.plan(minute, "test");
        let mut journal = Journal::create(fleet.journals.path(), &plan).unwrap();
        let mut blocker = fleet.lab.connect("a1").await.unwrap();
        for statement in in_the_way {
            blocker.query_drop(*statement).await.unwrap();
        }
        let begun = std::cell::Cell::new(None::<Instant>);
        let mut progress = |progress: perform::Progress<'_>| match progress {
            perform::Progress::Begins { step, undo: false } if step == at => begun.set(Some(Instant::now())),
            _ => {}
        };
        let asks = || begun.get().is_some_and(|begun| begun.elapsed() > Duration::from_millis(500));
        let run = perform::run(&plan, &logins, &mut journal, State::START, &asks, &mut progress);
        let outcome = run.await.unwrap();
        let took = begun.get().unwrap().elapsed();
        assert_eq!(outcome.state, State::Undone { why: "interrupted".to_owned() }, "{outcome:#?}");
        assert!(took < Duration::from_secs(10), "{at}: {took:?}");
        assert_eq!((outcome.primary_takes_writes, outcome.remarks.len()), (Some(true), 0), "{outcome:#?}");
        // Nobody is left who closes it once the way is free.
        blocker.query_drop(ends).await.unwrap();
        blocker.query_drop("INSERT INTO app.writes VALUES (2)").await.unwrap();
        blocker.query_drop("DELETE FROM app.writes").await.unwrap();
        assert!(!fleet.read_only("a1").await && fleet.read_only("a2").await);
    }
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
            fleet.lab.wait_applied(server, primary, DEADLINE * 6).await.unwrap();
        }
    }
    fleet.lab.down().await.unwrap();
}

#[tokio::test]
async fn a_semi_sync_switch_that_the_candidate_refuses_leaves_it_replicating() {
    let fleet = Fleet::up(three()).await;
    let mut plan = fleet.survey("a2").await.plan(quick(), "test");
    plan.semi_sync = true;
    // A name that MariaDB does not know, as an uninstalled plugin has.
    plan.candidate.semi_sync.source = Some(Switch { name: Name::Source, on: false });
    let mut journal = Journal::create(fleet.journals.path(), &plan).unwrap();
    let outcome = perform::run(&plan, &fleet.logins(), &mut journal, State::START, &|| false, &mut |_| ())
        .await
        .unwrap();
    let State::Undone { why } = &outcome.state else { panic!("{outcome:#?}") };
    assert!(why.contains("rpl_semi_sync_source_enabled"), "{why}");
    // It cannot be restored either: that is for a person to read, and stops nothing.
    let remark = outcome.remarks.first().unwrap();
    assert!(remark.starts_with("undoing stop replication"), "{remark}");
    let mut a1 = fleet.lab.connect("a1").await.unwrap();
    a1.query_drop("INSERT INTO app.writes VALUES (1)").await.unwrap();
    fleet.lab.wait_applied("a2", "a1", DEADLINE * 6).await.unwrap();
    assert!(!fleet.read_only("a1").await && fleet.read_only("a2").await);
    fleet.lab.down().await.unwrap();
}

#[tokio::test]
async fn replicas_that_do_not_answer_are_waited_for_once_and_not_one_after_the_other() {
    let fleet = Fleet::up(three()).await;
    let mut plan = fleet.survey("a2").await.plan(quick(), "test");
    let mut journal = Journal::create(fleet.journals.path(), &plan).unwrap();
    let logins = fleet.logins();
    let outcome =
        perform::run(&plan, &logins, &mut journal, State::START, &|| false, &mut |_| ()).await.unwrap();
    assert_eq!(outcome.state, State::Done, "{outcome:#?}");
    // They take connections and say nothing.
    let mute = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let reach = mute.local_addr().unwrap().to_string();
    let b1 = plan.others[0].clone();
    plan.others = (0..8)
        .map(|number| perform::Member { name: format!("mute{number}"), reach: reach.clone(), ..b1.clone() })
        .collect();
    plan.deadlines = Deadlines { statement_ms: 1_000, verify_ms: 100, ..quick() };
    let again = State::Forward { step: Step::Repoint };
    let outcome = perform::run(&plan, &logins, &mut journal, again, &|| false, &mut |_| ()).await.unwrap();
    let repoint = outcome.steps.iter().find(|step| step.step == Step::Repoint).unwrap();
    assert!((900.0..7_000.0).contains(&repoint.ms), "{} ms", repoint.ms);
    let remark = outcome.remarks.iter().find(|remark| remark.starts_with("repoint")).unwrap();
    for number in 0..8 {
        let next = format!("headroom failover --rejoin mute{number}");
        assert!(remark.contains(&format!("mute{number}: ")) && remark.contains(&next), "{remark}");
    }
    fleet.lab.down().await.unwrap();
}

#[tokio::test]
async fn servers_with_other_defaults_are_moved_all_the_same() {
    moving::with_other_defaults(Fleet::up(three()).await, "max_statement_time = 1").await;
}

#[tokio::test]
async fn a_primary_that_was_opened_before_the_promotion_stays_the_primary() {
    // Without the read lock root may write; a restart ends it too.
    let unlock = "EXECUTE IMMEDIATE CONCAT('KILL ', IS_USED_LOCK('headroom.switchover.freeze'))";
    moving::opened_before_the_promotion(Fleet::up(three()).await, &[unlock]).await;
}

/// A journal that takes no more lines once this file is closed to them: as on a full disk.
fn journal_in_memory(plan: &perform::Plan) -> (std::os::fd::OwnedFd, Journal) {
    let file = rustix::fs::memfd_create("journal", rustix::fs::MemfdFlags::ALLOW_SEALING).unwrap();
    let line = JournalRecord::Plan { at_ms: 1, plan: Box::new(plan.clone()) };
    let line = format!("{}\n", serde_json::to_string(&line).unwrap());
    rustix::io::write(&file, line.as_bytes()).unwrap();
    let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
    let (journal, _) = Journal::reopen(path.as_ref()).unwrap();
    (file, journal)
}

#[tokio::test]
async fn a_journal_that_cannot_be_written_leaves_no_primary_frozen() {
    let fleet = Fleet::up(three()).await;
    let logins = fleet.logins();
    // Whether the disk is full once the step has begun, or before it can begin.
    let moved = async |at: Step, begun: bool| {
        let plan = fleet.survey("a2").await.plan(quick(), "test");
        let (file, mut journal) = journal_in_memory(&plan);
        let mut progress = |progress: perform::Progress<'_>| {
            let is_full = match progress {
                perform::Progress::Begins { step, undo } => begun && step == at && !undo,
                perform::Progress::Ended { step, undo, .. } => !begun && step == Step::Await && !undo,
            };
            if is_full {
                rustix::fs::fcntl_add_seals(&file, rustix::fs::SealFlags::GROW).unwrap();
            }
        };
        perform::run(&plan, &logins, &mut journal, State::START, &|| false, &mut progress).await.unwrap()
    };
    for begun in [true, false] {
        let at = if begun { Step::Freeze } else { Step::StopReplication };
        let outcome = moved(at, begun).await;
        let State::Undone { why } = &outcome.state else { panic!("{outcome:#?}") };
        assert!(why.starts_with("the journal /proc/"), "{why}");
        // That the undoing could not be written either.
        let [remark] = outcome.remarks.as_slice() else { panic!("{outcome:#?}") };
        assert!(remark.contains("does not tell all"), "{remark}");
        assert_eq!(outcome.steps.iter().any(|done| done.step == at && !done.undo), begun, "{outcome:#?}");
        assert!(!fleet.read_only("a1").await && fleet.read_only("a2").await);
        let mut a1 = fleet.lab.connect("a1").await.unwrap();
        a1.query_drop(format!("INSERT INTO app.writes VALUES ({})", u8::from(begun))).await.unwrap();
        fleet.lab.wait_applied("a2", "a1", DEADLINE * 6).await.unwrap();
    }
    let outcome = moved(Step::Promote, true).await;
    assert_eq!(outcome.state, State::Done, "{outcome:#?}");
    let [remark] = outcome.remarks.as_slice() else { panic!("{outcome:#?}") };
    assert!(remark.contains("does not tell all"), "{remark}");
    assert!(fleet.read_only("a1").await && !fleet.read_only("a2").await);
    for server in ["a1", "b1"] {
        fleet.lab.wait_applied(server, "a2", DEADLINE * 6).await.unwrap();
    }
    fleet.lab.down().await.unwrap();
}

#[tokio::test]
async fn a_move_that_is_resumed_at_its_end_tells_servers_that_follow_already() {
    moving::resumed_at_the_end(Fleet::up(three()).await).await;
}

#[tokio::test]
async fn a_router_that_does_not_confirm_and_a_replica_that_is_late_on_purpose_are_noted() {
    let fleet = Fleet::up(three()).await;
    fleet.lab.fault("b1", lab::Fault::Lag { seconds: 600 }).await.unwrap();
    // A router that saw the announcement, and stands still.
    let mut router = fleet.lab.connect("a1").await.unwrap();
    router.query_drop("DO GET_LOCK(CONCAT('headroom.ready.', CONNECTION_ID()), 0)").await.unwrap();
    let outcome = fleet.switch("a2", Deadlines { verify_ms: 2_000, hold_ms: 200, ..quick() }).await;
    assert_eq!((&outcome.state, outcome.remarks.len()), (&State::Done, 0), "{outcome:#?}");
    let [of_router, of_replica] = outcome.notes.as_slice() else { panic!("{outcome:#?}") };
    assert!(of_router.starts_with("1 of 1 routers did not confirm"), "{of_router}");
    assert!(of_replica.starts_with("b1 receives from a2") && of_replica.contains("600 s"), "{of_replica}");
    fleet.lab.down().await.unwrap();
}

#[tokio::test]
async fn a_replica_that_somebody_stopped_is_told_whom_to_follow_and_not_started() {
    let fleet = Fleet::up(three()).await;
    let mut b1 = fleet.lab.connect("b1").await.unwrap();
    b1.query_drop("STOP SLAVE").await.unwrap();
    let outcome = fleet.switch("a2", quick()).await;
    assert_eq!((&outcome.state, outcome.remarks.len()), (&State::Done, 0), "{outcome:#?}");
    let [note] = outcome.notes.as_slice() else { panic!("{outcome:#?}") };
    assert!(note.starts_with("b1 is told to follow a2") && note.ends_with("START SLAVE"), "{note}");
    let status: mysql_async::Row = b1.query_first("SHOW SLAVE STATUS").await.unwrap().unwrap();
    let text = |column: &str| status.get::<String, _>(column).unwrap();
    assert_eq!((text("Slave_IO_Running").as_str(), text("Slave_SQL_Running").as_str()), ("No", "No"));
    assert_eq!(text("Master_Port"), fleet.lab.real("a2").unwrap().port().to_string());
    b1.query_drop("START SLAVE").await.unwrap();
    let mut a2 = fleet.lab.connect("a2").await.unwrap();
    a2.query_drop("INSERT INTO app.writes VALUES (1)").await.unwrap();
    fleet.lab.wait_applied("b1", "a2", DEADLINE).await.unwrap();
    fleet.lab.down().await.unwrap();
}

#[tokio::test]
async fn of_a_primary_that_died_before_the_freeze_nothing_is_claimed() {
    let fleet = Fleet::up(three()).await;
    let plan = fleet.survey("a2").await.plan(quick(), "test");
    let mut journal = Journal::create(fleet.journals.path(), &plan).unwrap();
    fleet.lab.fault("a1", lab::Fault::Kill).await.unwrap();
    let outcome = perform::run(&plan, &fleet.logins(), &mut journal, State::START, &|| false, &mut |_| ())
        .await
        .unwrap();
    assert!(matches!(outcome.state, State::Undone { .. }), "{outcome:#?}");
    assert_eq!(outcome.primary_takes_writes, None);
    assert!(!outcome.is_as_before(&plan.kind));
    fleet.lab.down().await.unwrap();
}
