//! What a guard does when it is told to stop, and when it asks for a person.

use super::*;
use crate::journal::JournalRecord;
use crate::perform::FenceBy;
use crate::perform::tests::failover;
use fleet::{Address, Server};
use lab::scripted::{Reply, Script, ScriptedServer};

const SOON: Duration = Duration::from_secs(20);

fn guard(journals: &tempfile::TempDir) -> Guard {
    let options = GuardOptions {
        // A round would end it too, for want of the lock.
        interval: Duration::from_secs(3600),
        deadline: Duration::from_secs(1),
        rule: Rule::default(),
        within: Duration::from_secs(70),
        caution: Caution { not_again_within: Duration::from_secs(3600), act_on_gray: false },
        dry_run: false,
        fence: None,
        deadlines: Deadlines::default(),
        journals: journals.path().to_owned(),
        by: "test".to_owned(),
        flags: Default::default(),
    };
    let (_, snapshots) = watch::channel(Arc::new(Snapshot::empty(Instant::now())));
    Guard::new(options, Credentials::default(), snapshots, None).unwrap()
}

fn open(guard: &Guard, stop: watch::Receiver<bool>) -> Open {
    let (admin, deadline) = (guard.admin.clone(), guard.options.deadline);
    let interval = guard.options.interval;
    let source = SourceWatch::start(guard.snapshots.clone(), admin.clone(), interval, deadline);
    Open { locks: Locks::new(admin, deadline), source, stop }
}

#[tokio::test]
async fn one_that_is_told_to_stop_while_it_confirms_does_not_fail_over() {
    let journals = tempfile::tempdir().unwrap();
    let guard = guard(&journals);
    let (tell, stop) = watch::channel(false);
    let mut open = open(&guard, stop);
    let committed = AtomicBool::new(false);
    let confirming = guard.keeping(None, &mut open, &committed, std::future::pending());
    let told = async {
        tokio::task::yield_now().await;
        tell.send_replace(true);
    };
    let (attempt, ()) = tokio::time::timeout(SOON, async { tokio::join!(confirming, told) }).await.unwrap();
    assert!(matches!(attempt, Attempt::NotDone(why) if why.contains("told to stop")));
}

#[tokio::test]
async fn a_failover_that_has_begun_is_finished_although_it_is_told_to_stop() {
    let journals = tempfile::tempdir().unwrap();
    let guard = guard(&journals);
    let (tell, stop) = watch::channel(false);
    let mut open = open(&guard, stop);
    let committed = AtomicBool::new(false);
    let work = async {
        committed.store(true, Relaxed);
        tell.send_replace(true);
        tokio::time::sleep(Duration::from_millis(50)).await;
        Ok(Attempt::Done("promoted".to_owned()))
    };
    let attempt = guard.keeping(None, &mut open, &committed, work);
    let attempt = tokio::time::timeout(SOON, attempt).await.unwrap();
    assert!(matches!(attempt, Attempt::Done(_)));
}

#[tokio::test]
async fn the_end_is_listened_for_from_the_start() {
    let journals = tempfile::tempdir().unwrap();
    let rounds = std::cell::Cell::new(0);
    let running = guard(&journals).run(std::future::ready(()), |status| rounds.set(status.rounds));
    tokio::time::timeout(SOON, running).await.unwrap();
    assert_eq!(rounds.get(), 0);
}

/// It guards a1, which its watcher saw alive.
fn watching(journals: &tempfile::TempDir) -> Guard {
    let mut guard = guard(journals);
    guard.status.primary = Some(ServerName::new("a1"));
    guard
}

#[test]
fn what_an_attempt_leaves_to_a_person_is_for_a_person_until_it_is_decided() {
    let journals = tempfile::tempdir().unwrap();
    let mut guard = watching(&journals);
    guard.status.decision = Decision::Act { gray: false, why: "a1 does not answer".to_owned() };
    let needed = |guard: &Guard| guard.status.metrics().contains("headroom_guard_person_needed 1\n");
    assert!(!needed(&guard));
    guard.ended(Attempt::ask(&"semi-sync was off"), "act", &|_| ());
    assert!(needed(&guard), "{}", guard.status.metrics());
    assert!(
        guard.status.line().contains("a person has to decide: semi-sync was off"),
        "{}",
        guard.status.line()
    );
    // Tried again, and not confirmed this time: nobody has decided.
    guard.ended(Attempt::NotDone("a2 is connected to it".to_owned()), "act", &|_| ());
    assert!(needed(&guard));
    let log = std::fs::read_to_string(journals.path().join("guard.jsonl")).unwrap();
    assert!(log.contains("\"decision\":\"ask\"") && log.contains("semi-sync was off"), "{log}");
    guard.ended(Attempt::Done("a2 takes writes".to_owned()), "act", &|_| ());
    assert!(!needed(&guard));
}

#[test]
fn nobody_takes_writes_is_counted_beside_a_healthy_primary_while_nobody_moves_it() {
    let journals = tempfile::tempdir().unwrap();
    let mut guard = watching(&journals);
    let mut snapshot = Snapshot::empty(Instant::now());
    let read = Round { recorded: vec![Default::default()], ..Round::default() };
    assert_eq!(guard.no_writer(&snapshot, &read, &Health::Well), None, "nobody was asked yet");
    snapshot.settled = true;
    snapshot.writer = WriterStatus::Unknown { why: "a1 is read-only".to_owned() };
    let first = guard.no_writer(&snapshot, &read, &Health::Well).unwrap();
    assert_eq!(first.why, "a1 is read-only");
    std::thread::sleep(Duration::from_millis(20));
    assert!(guard.no_writer(&snapshot, &read, &Health::Well).unwrap().lasts >= Duration::from_millis(20));
    let moving = Round { operation: true, ..read.clone() };
    let moves = Instant::now();
    assert_eq!(guard.no_writer(&snapshot, &moving, &Health::Well), None);
    let again = guard.no_writer(&snapshot, &read, &Health::Well).unwrap();
    assert!(again.lasts <= moves.elapsed(), "counted anew: {again:?}");
    let silent = Health::Silent { why: "refused".to_owned() };
    assert_eq!(guard.no_writer(&snapshot, &read, &silent), None);
    assert_eq!(guard.no_writer(&snapshot, &Round::default(), &Health::Well), None, "no server was read");
    snapshot.writer = WriterStatus::Known { server: ServerName::new("a1") };
    assert_eq!(guard.no_writer(&snapshot, &read, &Health::Well), None);
}

/// A candidate that was told to take writes, took some, and refuses them now.
async fn written_to_and_closed() -> ScriptedServer {
    let script = Script::new("10.11.6-MariaDB", |statement, _| match statement {
        "SELECT @@GLOBAL.read_only" => Reply::value("it", "1"),
        "SELECT @@GLOBAL.server_id" => Reply::value("it", "12"),
        "SELECT @@GLOBAL.gtid_binlog_state" => Reply::value("it", "0-12-105,0-11-104"),
        "SELECT @@GLOBAL.gtid_slave_pos" => Reply::value("it", "0-11-104"),
        _ if statement.contains("IS_USED_LOCK") => Reply::rows(&["it"], &[&[None]]),
        _ if statement.starts_with("SELECT GET_LOCK") => Reply::value("it", "1"),
        _ if statement.contains("FROM headroom.") => Reply::error(1146, "no table"),
        _ => Reply::Usual,
    });
    ScriptedServer::start(script).await.unwrap()
}

#[tokio::test]
async fn an_undo_that_is_left_to_a_person_is_not_written_down_every_two_seconds() {
    let journals = tempfile::tempdir().unwrap();
    let mut guard = watching(&journals);
    let candidate = written_to_and_closed().await;
    let mut plan = failover(FenceBy::Nothing);
    // Nobody listens there.
    plan.primary.reach = "127.0.0.1:1".to_owned();
    plan.candidate.reach = candidate.address().to_string();
    let mut journal = Journal::create(journals.path(), &plan).unwrap();
    journal.append(&JournalRecord::Begun { at_ms: 1, step: Step::Promote, undo: false }).unwrap();
    let mut snapshot = Snapshot::empty(Instant::now());
    let reach = Address::tcp("127.0.0.1", candidate.address().port());
    snapshot.servers.push(Server::unasked(ServerName::new("a2"), reach));
    let (_tell, stop) = watch::channel(false);
    let mut open = open(&guard, stop);
    let lines = |journal: &Journal| std::fs::read_to_string(journal.path()).unwrap().lines().count();
    let mut written = vec![lines(&journal)];
    let mut texts = Vec::new();
    // The first says where it was cut off, the second that undoing had failed; from then on it is the same.
    for _ in 0..4 {
        let attempt = guard.go_on(&snapshot, None, &mut open).await;
        let Some(Attempt::Ask(text)) = attempt else { panic!("a person has to decide") };
        guard.ended(Attempt::Ask(text.clone()), "act", &|_| ());
        texts.push(text);
        written.push(lines(&journal));
        // However slow this machine is.
        guard.left.as_mut().unwrap().at += SOON;
    }
    assert!(texts[0].contains("has 0-12-105, which no other server has"), "{texts:?}");
    assert!(texts[3].ends_with("at once: headroom failover --resume"), "{texts:?}");
    assert!(written[1] > written[0], "{written:?}");
    assert_eq!(written[2..], [written[2]; 3], "{written:?}");
    assert_eq!((&texts[2], &texts[3]), (&texts[1], &texts[1]));
    let log = std::fs::read_to_string(journals.path().join("guard.jsonl")).unwrap();
    assert!(log.lines().count() <= 2, "{log}");
    // Once the pause is over it is tried again, and the next pause is longer.
    let left = guard.left.as_mut().unwrap();
    assert_eq!(left.pause, RETRY);
    left.at = Instant::now().checked_sub(RETRY).unwrap();
    assert!(matches!(guard.go_on(&snapshot, None, &mut open).await, Some(Attempt::Ask(_))));
    assert!(lines(&journal) > written[4]);
    assert_eq!(guard.left.as_ref().unwrap().pause, RETRY * 2);
}

#[tokio::test]
async fn relay_logs_that_a_start_would_throw_away_are_left_to_a_person() {
    let script = Script::new("10.11.6-MariaDB", |statement, _| match statement {
        "SHOW GLOBAL VARIABLES" => Reply::rows(
            &["Variable_name", "Value"],
            &[&[Some("read_only"), Some("ON")], &[Some("log_slave_updates"), Some("ON")]],
        ),
        "SHOW GLOBAL STATUS" => Reply::rows(&["Variable_name", "Value"], &[]),
        "SHOW ALL SLAVES STATUS" => Reply::rows(
            &["Master_Host", "Master_Server_Id", "Slave_IO_Running", "Slave_SQL_Running", "Gtid_IO_Pos"],
            &[&[Some("a1"), Some("11"), Some("No"), Some("No"), Some("0-11-9")]],
        ),
        "SELECT @@GLOBAL.gtid_binlog_pos"
        | "SELECT @@GLOBAL.gtid_binlog_state"
        | "SELECT @@GLOBAL.gtid_slave_pos" => Reply::value("it", "0-11-5"),
        _ if statement.contains("UNIX_TIMESTAMP") => Reply::value("ms", "1"),
        _ if statement.contains("IS_USED_LOCK") => Reply::rows(&["it"], &[&[None]]),
        _ => Reply::Usual,
    });
    let a2 = ScriptedServer::start(script).await.unwrap();
    let mut snapshot = Snapshot::empty(Instant::now());
    let reach = Address::tcp("127.0.0.1", a2.address().port());
    snapshot.servers.push(Server::unasked(ServerName::new("a2"), reach));
    let journals = tempfile::tempdir().unwrap();
    let guard = watching(&journals);
    let (a1, committed) = (ServerName::new("a1"), AtomicBool::new(false));
    let evidence = SourceEvidence::Unknown;
    let attempt = guard.operator().fail_over(&snapshot, &a1, false, &evidence, &committed).await.unwrap();
    let Attempt::Ask(why) = attempt else { panic!("a person has to decide") };
    assert!(why.contains("a2: has received 0-11-9 and applied only 0-11-5"), "{why}");
}
