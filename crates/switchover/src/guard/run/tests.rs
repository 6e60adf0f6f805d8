//! What a guard does when it is told to stop, and when it asks for a person.

use super::*;

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
