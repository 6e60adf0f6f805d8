//! Waits for InnoDB's latches: rows in the servers' words, through what is read of them to the verdict; and
//! what looks like such a bottleneck and is none, or is the effect of another one.

use super::*;
use crate::server::LatchWait;
use observe::Rows;

/// Session, event, instance, table and statement.
type Wait<'a> = (&'a str, &'a str, &'a str, Option<&'a str>, Option<&'a str>);

/// MySQL 8 and 9: inserts and a second CHECK TABLE behind one that looks through the tree of the table.
const MYSQL: [Wait<'static>; 4] = [
    (
        "31",
        "wait/synch/sxlock/innodb/index_tree_rw_lock",
        "140224318467296",
        Some("app.tree"),
        Some("INSERT INTO `app` . `tree` VALUES (...) /* , ... */"),
    ),
    (
        "32",
        "wait/synch/sxlock/innodb/index_tree_rw_lock",
        "140224318467296",
        Some("app.tree"),
        Some("INSERT INTO `app` . `tree` VALUES (...) /* , ... */"),
    ),
    (
        "33",
        "wait/synch/sxlock/innodb/index_tree_rw_lock",
        "140224318467296",
        None,
        Some("CHECK TABLE `app` . `tree`"),
    ),
    ("34", "wait/synch/mutex/innodb/trx_sys_mutex", "140224301850400", None, Some("COMMIT")),
];

/// MariaDB 10.11, which has other names for most of them, and tells no statement by default.
const MARIADB: [Wait<'static>; 3] = [
    ("31", "wait/synch/rwlock/innodb/btr_search_latch", "94417265829056", Some("app.big"), None),
    ("32", "wait/synch/rwlock/innodb/btr_search_latch", "94417265829056", Some("app.big"), None),
    ("33", "wait/synch/sxlock/innodb/index_tree_rw_lock", "139871046139928", Some("app.tree"), None),
];

/// A server at work on these waits and on `others` that wait for nothing.
fn waiting(waits: &[Wait<'_>], others: f64) -> Window {
    let names = ["id", "event", "instance", "held", "statement"].map(str::to_owned);
    let row = |&(id, event, instance, held, statement): &Wait<'_>| {
        let texts = [Some(id), Some(event), Some(instance), held, statement];
        texts.map(|text| text.map(str::to_owned)).to_vec()
    };
    let rows = Rows::new(names, waits.iter().map(row).collect());
    with(|_, server| {
        let sessions = waits.len() as f64;
        (server.active, server.in_commit) = (sessions + others, 0.0);
        (server.in_latch, server.latch) = (Some(sessions), LatchWait::read(&rows));
    })
}

#[test]
fn a_latch_is_named_with_its_table_and_statement_in_the_words_of_either_family() {
    let found = |waits: &[Wait<'_>]| {
        let first = judge(&waiting(waits, 3.0)).bottleneck.unwrap();
        (first.name, first.who.unwrap())
    };
    let (name, who) = found(&MYSQL);
    let words = "the tree of an index (index_tree_rw_lock), 3 wait for it, on app.tree, in INSERT INTO `app` \
                 . `tree` VALUES (...) /* , ... */";
    assert_eq!((name, who.as_str()), (Name::Latches, words));
    let (name, who) = found(&MARIADB);
    let words = "the adaptive hash index (btr_search_latch), 2 wait for it, on app.big";
    assert_eq!((name, who.as_str()), (Name::Latches, words));
}

#[test]
fn a_few_short_waits_for_latches_and_one_alone_are_no_bottleneck() {
    assert_eq!(named(&waiting(&MARIADB, 17.0)), None, "3 of 20");
    assert_eq!(named(&waiting(&MARIADB[..1], 1.0)), None, "one of two");
    let none = waiting(&[], 20.0);
    assert_eq!(named(&none), None);
    assert!(!judge(&none).not_judged.contains(&Name::Latches), "it is known that nobody waits");
}

#[test]
fn latches_are_not_judged_where_the_server_does_not_tell_who_waits() {
    let mut unknown = waiting(&MYSQL, 3.0);
    unknown.server.as_mut().unwrap().in_latch = None;
    let verdict = judge(&unknown);
    assert_eq!(verdict.bottleneck, None, "{verdict:#?}");
    assert!(verdict.not_judged.contains(&Name::Latches));
    // Nor where its sessions are hidden.
    let mut hidden = waiting(&MYSQL, 3.0);
    hidden.server.as_mut().unwrap().sessions_unseen = true;
    assert!(judge(&hidden).not_judged.contains(&Name::Latches));
}

#[test]
fn who_waits_for_latches_waits_for_no_cpu_and_a_server_held_back_keeps_its_latches() {
    let mut window = waiting(&MYSQL, 1.0);
    busy(window.host.as_mut().unwrap());
    let verdict = judge(&window);
    assert_eq!(verdict.bottleneck.map(|first| first.name), Some(Name::Latches));
    assert_eq!(verdict.runner_up.map(|next| next.name), Some(Name::Cpu));
    let cpu = host::cgroup::CpuLimit { cpus: 0.2, used: 0.2, throttled: 0.9, ..Default::default() };
    let limits = Some(host::cgroup::Sample { cpu: Some(cpu), ..Default::default() });
    let verdict = judge(&Window { limits, ..waiting(&MYSQL, 1.0) });
    assert_eq!(verdict.bottleneck.map(|first| first.name), Some(Name::CpuLimit));
    assert_eq!(verdict.runner_up.map(|next| next.name), Some(Name::Latches));
}

#[test]
fn who_reads_from_a_slow_disk_or_misses_pages_keeps_its_latches_meanwhile() {
    let first_two = |window: &Window| {
        let verdict = judge(window);
        [verdict.bottleneck, verdict.runner_up].map(|finding| finding.map(|finding| finding.name))
    };
    // Of eight at work four wait for a latch.
    let mut slow = waiting(&MYSQL, 4.0);
    let disk = &mut slow.host.as_mut().unwrap().disks[0];
    (disk.read.await_ms, disk.read.under_way, disk.busy) = (Some(40.0), 8.0, 1.0);
    assert_eq!(first_two(&slow), [Some(Name::DiskLatency), Some(Name::Latches)]);
    let mut missing = waiting(&MYSQL, 4.0);
    missing.host.as_mut().unwrap().disks[0].read.await_ms = Some(1.0);
    missing.server.as_mut().unwrap().pool.misses_per_s = 5000.0;
    assert_eq!(first_two(&missing), [Some(Name::BufferPool), Some(Name::Latches)]);
}

#[test]
fn a_commit_that_waits_for_a_latch_is_taken_from_the_rest_once() {
    let mut window = waiting(&MYSQL, 6.0);
    let server = window.server.as_mut().unwrap();
    // Of ten at work four wait for a latch, three of them within their commit.
    (server.in_commit, server.in_latch_and_commit) = (3.0, 3.0);
    assert!((window.rest() - 0.6).abs() < 1e-9, "{}", window.rest());
    // Others are in their commit.
    window.server.as_mut().unwrap().in_latch_and_commit = 0.0;
    assert!((window.rest() - 0.3).abs() < 1e-9, "{}", window.rest());
}
