//! What readings of a server add up to.

use super::*;

/// A reading by a server's own counters, its sessions in sight.
fn reading(at: Instant, status: Status, sessions: Sessions) -> Reading {
    Reading {
        at,
        status,
        sessions,
        sessions_seen: true,
        row_blocker: None,
        metadata_blocker: None,
        table_blocker: None,
        oldest_transaction: None,
        in_admission: Some(0),
        in_auto_increment: 0,
        in_latch: None,
        in_latch_and_commit: 0,
        latch: None,
        history: None,
        replica: None,
        row_search: RowSearch::default(),
        histogram: None,
        digests: Arc::default(),
        top: None,
        settings: Arc::default(),
        round_trip: Duration::ZERO,
        cost: Cost::default(),
        missing: Arc::default(),
    }
}

#[test]
fn appliers_that_wait_for_rows_are_not_taken_for_sessions() {
    let start = Instant::now();
    let in_row_lock = |waits: u64, appliers_busy: u64| {
        let status = Status { row_waits_now: waits, ..Status::default() };
        let sessions = Sessions { active: 10, appliers_busy, ..Sessions::default() };
        let at = |s| Arc::new(reading(start + Duration::from_secs(s), status.clone(), sessions));
        Sample::over(&[at(0), at(1)]).unwrap().in_row_lock
    };
    // A replica whose sixteen appliers wait for each other, while ten clients read.
    assert_eq!(in_row_lock(15, 16), 0.0);
    assert_eq!((in_row_lock(8, 0), in_row_lock(8, 2), in_row_lock(40, 0)), (8.0, 6.0, 10.0));
}

#[test]
fn appliers_that_look_for_rows_are_counted_over_the_window_and_their_table_is_kept() {
    let start = Instant::now();
    let at = |s, appliers, unknown, table: Option<&str>| {
        let reading = reading(start + Duration::from_secs(s), Status::default(), Sessions::default());
        let row_search = RowSearch { appliers, unknown, table: table.map(str::to_owned) };
        Arc::new(Reading { row_search, ..reading })
    };
    let readings = [at(0, 1, 0, Some("app.old")), at(1, 1, 0, Some("app.keyless")), at(2, 0, 1, None)];
    let sample = Sample::over(&readings).unwrap();
    assert!((sample.appliers_searching - 2.0 / 3.0).abs() < 1e-9, "{sample:?}");
    assert!((sample.appliers_untold - 1.0 / 3.0).abs() < 1e-9, "{sample:?}");
    assert_eq!(sample.searched_table.as_deref(), Some("app.keyless"));
}

#[test]
fn appliers_at_work_together_count_so_though_for_most_of_the_window_none_was() {
    let start = Instant::now();
    let at = |s, appliers_busy| {
        let sessions = Sessions { appliers: 4, appliers_busy, ..Sessions::default() };
        Arc::new(reading(start + Duration::from_secs(s), Status::default(), sessions))
    };
    let of = |busy: [u64; 4]| {
        let readings: Vec<_> = (0..).zip(busy).map(|(s, busy)| at(s, busy)).collect();
        let sample = Sample::over(&readings).unwrap();
        (sample.appliers.0, sample.appliers_at_once)
    };
    assert_eq!((of([0, 0, 0, 3]), of([1, 0, 1, 1])), ((0.75, 3.0), (0.75, 1.0)));
    assert_eq!(of([0; 4]), (0.0, 0.0));
}

#[test]
fn an_applier_that_waits_for_a_row_does_not_look_for_it() {
    let start = Instant::now();
    let of = |row_waits_now, blocked: bool| {
        let status = Status { row_waits_now, connected: 20, ..Status::default() };
        let sessions = Sessions { appliers: 5, appliers_busy: 4, ..Sessions::default() };
        let row_blocker = blocked.then(|| Blocker {
            id: 42,
            user: "app".to_owned(),
            host: "10.0.0.7".to_owned(),
            held: HeldBy::ByAnIdleClient,
            age_s: 31,
            in_transaction: true,
            table: None,
            waiting: 3,
            guessed: false,
        });
        let at = |s| {
            let reading = reading(start + Duration::from_secs(s), status.clone(), sessions);
            let row_search = RowSearch { appliers: 4, ..RowSearch::default() };
            Arc::new(Reading { row_search, row_blocker: row_blocker.clone(), ..reading })
        };
        let sample = Sample::over(&[at(0), at(1)]).unwrap();
        (sample.appliers_in_row, sample.appliers_searching)
    };
    assert_eq!((of(3, true), of(9, true)), ((3.0, 1.0), (4.0, 0.0)));
    assert_eq!((of(3, false), of(u64::MAX, true)), ((0.0, 4.0), (0.0, 4.0)), "the count is wrong");
}

#[test]
fn who_commits_while_one_of_them_waits_for_a_replica_waits_for_it_too_where_it_waits_for_all() {
    let start = Instant::now();
    let waits = |semi_sync: u64, galera: u64, acknowledged_together| {
        let settings = Arc::new(Settings { acknowledged_together, ..Settings::default() });
        let (commit, longest_commit_ms) = (16, 7e3);
        let sessions = Sessions { commit, semi_sync, galera, longest_commit_ms, ..Sessions::default() };
        let at = |s| {
            let reading = reading(start + Duration::from_secs(s), Status::default(), sessions);
            Arc::new(Reading { settings: settings.clone(), ..reading })
        };
        let sample = Sample::over(&[at(0), at(1)]).unwrap();
        (sample.in_semi_sync, sample.longest_commit_s)
    };
    // A replica that is away: the leader of a group says so, the others "waiting for handler commit".
    assert_eq!((waits(1, 0, true), waits(1, 0, false)), ((16.0, 0.0), (1.0, 7.0)));
    assert_eq!(waits(0, 0, true), (0.0, 7.0), "for the disk");
    assert_eq!((waits(0, 3, true), waits(0, 16, false)), ((3.0, 7.0), (16.0, 0.0)), "for a cluster");
}

#[test]
fn a_count_of_waits_that_cannot_be_right_is_neither_nobody_nor_everybody() {
    let start = Instant::now();
    let waits = |row_waits_now: u64, connected: u64, sessions_seen: bool| {
        let status = Status { row_waits_now, connected, ..Status::default() };
        let sessions = Sessions { active: 10, ..Sessions::default() };
        let at = |s| {
            let reading = reading(start + Duration::from_secs(s), status.clone(), sessions);
            Arc::new(Reading { sessions_seen, ..reading })
        };
        let sample = Sample::over(&[at(0), at(1)]).unwrap();
        (sample.in_row_lock, sample.row_waits_unknown)
    };
    assert_eq!(waits(u64::MAX, 20, false), (0.0, true));
    assert_eq!(waits(u64::MAX, 20, true), (0.0, true));
    assert_eq!((waits(8, 20, false), waits(8, 20, true)), ((8.0, false), (8.0, false)));
    assert_eq!(waits(15, 20, true), (10.0, false));
    // A version that does not tell how many are connected.
    assert_eq!((waits(8, 0, false), waits(0, 0, false)), ((0.0, true), (0.0, false)));
}

#[test]
fn who_waits_to_be_let_in_is_not_known_where_no_reading_tells() {
    let start = Instant::now();
    let mean = |waiting: [Option<u64>; 2]| {
        let at = |s, in_admission| {
            let reading = reading(start + Duration::from_secs(s), Status::default(), Sessions::default());
            Arc::new(Reading { in_admission, ..reading })
        };
        Sample::over(&[at(0, waiting[0]), at(1, waiting[1])]).unwrap().in_admission
    };
    assert_eq!(mean([None, None]), None);
    assert_eq!((mean([Some(0), Some(3)]), mean([None, Some(3)])), (Some(1.5), Some(3.0)));
}

#[test]
fn who_waits_for_a_latch_is_not_known_where_no_reading_tells() {
    let start = Instant::now();
    let mean = |waiting: [Option<u64>; 2]| {
        let sessions = Sessions { active: 4, ..Sessions::default() };
        let at = |s, in_latch| {
            let reading = reading(start + Duration::from_secs(s), Status::default(), sessions);
            Arc::new(Reading { in_latch, ..reading })
        };
        Sample::over(&[at(0, waiting[0]), at(1, waiting[1])]).unwrap().in_latch
    };
    assert_eq!((mean([None, None]), mean([Some(0), Some(0)])), (None, Some(0.0)));
    // Who came between two questions is at work as little as before.
    assert_eq!((mean([None, Some(3)]), mean([Some(2), Some(40)])), (Some(3.0), Some(3.0)));
}

#[test]
fn a_sample_of_a_version_before_reads_with_what_it_does_not_have_as_not_known() {
    let log = Log { binlog_commits_per_s: 30.0, binlog_groups_per_s: 10.0, ..Log::default() };
    assert_eq!(log.commits_in_group(), Some(3.0));
    let mut before = serde_json::to_value(log).unwrap();
    before.as_object_mut().unwrap().remove("binlog_commits_per_s").unwrap();
    assert_eq!(serde_json::from_value::<Log>(before).unwrap().commits_in_group(), None);
}

#[test]
fn commits_that_wait_for_a_latch_are_no_more_than_those_that_were_seen_in_their_commit() {
    let start = Instant::now();
    let mean = |commit: u64, waiting: [Option<u64>; 2], committing: u64| {
        let sessions = Sessions { active: 8, commit, ..Sessions::default() };
        let at = |s, in_latch| {
            let reading = reading(start + Duration::from_secs(s), Status::default(), sessions);
            Arc::new(Reading { in_latch, in_latch_and_commit: committing, ..reading })
        };
        Sample::over(&[at(0, waiting[0]), at(1, waiting[1])]).unwrap().in_latch_and_commit
    };
    assert_eq!((mean(6, [Some(4), Some(4)], 3), mean(6, [Some(4), Some(2)], 3)), (3.0, 2.5));
    assert_eq!((mean(1, [Some(4), Some(4)], 3), mean(6, [None, None], 3)), (1.0, 0.0));
    assert_eq!(mean(6, [None, Some(4)], 3), 3.0, "as the waits themselves");
}

#[test]
fn the_statement_that_takes_most_time_is_known_in_a_window_in_which_digests_were_not_asked_for() {
    let (start, top) = (Instant::now(), TopStatement { share: 0.9, ..TopStatement::default() });
    let at = |s, top| {
        let reading = reading(start + Duration::from_secs(s), Status::default(), Sessions::default());
        Arc::new(Reading { top, ..reading })
    };
    let known = |top: Option<Arc<TopStatement>>| Sample::over(&[at(0, None), at(2, top)]).unwrap().top;
    assert_eq!(known(Some(Arc::new(top.clone()))), Some(top));
    assert_eq!(known(None), None);
}
