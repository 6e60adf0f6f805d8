//! Rules on made-up windows, and what holds for any window.

mod cause;
mod latches;
mod no_host;
mod recorded;
mod request;

use super::*;
use crate::host::{cpu, disk, pressure};
use crate::server;
use proptest::prelude::*;

/// Two CPUs, half busy, one disk at ease, a server with some sessions at work.
fn healthy() -> Window {
    let shares = cpu::Shares { user: 0.3, system: 0.1, idle: 0.58, softirq: 0.02, ..cpu::Shares::default() };
    let work = |per_s, await_ms: f64| disk::Work {
        per_s,
        bytes_per_s: per_s * 16384.0,
        await_ms: Some(await_ms),
        under_way: per_s * await_ms / 1e3,
    };
    let mut host = host::Sample { seconds: 10.0, ..host::Sample::default() };
    host.cpu = cpu::Sample { all: shares, each: vec![(0, shares), (1, shares)], ..cpu::Sample::default() };
    host.pressure.cpu = Some(pressure::Sample { some: 0.05, full: 0.0 });
    // As an idle MariaDB with io_uring shows it.
    host.pressure.io = Some(pressure::Sample { some: 0.99, full: 0.9 });
    host.pressure.memory = Some(pressure::Sample::default());
    host.disks = vec![disk::Sample {
        name: "nvme0n1".to_owned(),
        read: work(20.0, 0.2),
        written: work(200.0, 0.1),
        flushed: Some(work(100.0, 0.5)),
        busy: 0.1,
        queue: 0.1,
        in_flight: 0,
    }];
    let mut server = server::Sample {
        seconds: 10.0,
        uptime_s: 86_400,
        statements_per_s: 2000.0,
        writes_per_s: 200.0,
        commits_per_s: 200.0,
        active: 2.0,
        in_commit: 0.3,
        connected: 50.0,
        max_connections: 500,
        mean_statement_ms: Some(1.0),
        ..server::Sample::default()
    };
    server.pool.room = 0.01;
    server.pool.misses_per_s = 20.0;
    Window { host: Some(host), server: Some(server), ..Window::default() }
}

fn with(change: impl FnOnce(&mut host::Sample, &mut server::Sample)) -> Window {
    let mut window = healthy();
    change(window.host.as_mut().unwrap(), window.server.as_mut().unwrap());
    window
}

/// A replica that runs, and is this many seconds behind.
fn behind(lag_s: f64) -> server::Replica {
    server::Replica { lag_s: Some(lag_s), receives: true, applies: true, delay_s: 0.0 }
}

fn named(window: &Window) -> Option<Name> {
    judge(window).bottleneck.map(|finding| finding.name)
}

fn busy(host: &mut host::Sample) {
    host.cpu.all.user = 0.9;
    host.cpu.all.idle = 0.0;
    host.pressure.cpu = Some(pressure::Sample { some: 0.7, full: 0.0 });
}

#[test]
fn every_name_has_one_row_and_every_row_says_what_to_do() {
    let mut names: Vec<Name> = Name::every().collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), RULES.len());
    for rule in RULES {
        assert!(!rule.called.is_empty() && !rule.when.is_empty() && !rule.next.is_empty(), "{:?}", rule.name);
        assert!(!rule.explains.contains(&rule.name));
    }
}

#[test]
fn a_healthy_server_has_no_bottleneck_but_a_tightest_ceiling() {
    let verdict = judge(&healthy());
    assert_eq!(verdict.bottleneck, None, "{verdict:#?}");
    let (name, used) = verdict.tightest.unwrap();
    assert_eq!(name, Name::Cpu);
    assert!((used - 0.42).abs() < 1e-9, "{used}");
}

#[test]
fn each_bottleneck_is_named_when_only_it_is_there() {
    let cases: Vec<(Name, Window)> = vec![
        (Name::Cpu, with(|host, _| busy(host))),
        (Name::Steal, with(|host, _| host.cpu.all.steal = 0.25)),
        (
            Name::HostMemory,
            with(|host, _| {
                host.pressure.memory = Some(pressure::Sample { some: 0.4, full: 0.2 });
            }),
        ),
        (
            Name::FlushBound,
            with(|host, server| {
                (server.active, server.in_commit) = (16.0, 14.0);
                host.disks[0].flushed.as_mut().unwrap().under_way = 0.95;
            }),
        ),
        (
            Name::BufferPool,
            with(|host, server| {
                (server.active, server.pool.misses_per_s) = (8.0, 5000.0);
                host.disks[0].read.await_ms = Some(1.0);
            }),
        ),
        (
            Name::DiskLatency,
            with(|host, _| {
                host.disks[0].written.await_ms = Some(40.0);
                host.disks[0].written.under_way = 8.0;
                host.disks[0].busy = 1.0;
            }),
        ),
        (Name::SoftirqOnOneCpu, with(|host, _| host.cpu.each[0].1.softirq = 0.9)),
        (
            Name::PacketDrops,
            with(|host, _| {
                host.softnet =
                    vec![host::softnet::Sample { cpu: 0, dropped_per_s: 50.0, ..Default::default() }];
            }),
        ),
        (
            Name::Nic,
            with(|host, _| {
                let mut nic = host::nic::Sample { name: "eth0".to_owned(), ..Default::default() };
                (nic.sent.bytes_per_s, nic.link_bytes_per_s) = (1.2e8, Some(1.25e8));
                host.nics = vec![nic];
            }),
        ),
        (
            Name::NeighbourTable,
            with(|host, _| {
                host.neighbours = host::table::Sample { entries: 1024, limit: 1024, refused_per_s: 3.0 };
            }),
        ),
        (
            Name::ConntrackTable,
            with(|host, _| {
                host.conntrack =
                    Some(host::table::Sample { entries: 65_000, limit: 65_536, refused_per_s: 0.0 });
            }),
        ),
        (Name::RowLocks, with(|_, server| (server.active, server.in_row_lock) = (20.0, 18.0))),
        (Name::TableLocks, with(|_, server| (server.active, server.in_table_lock) = (20.0, 18.0))),
        (Name::AutoIncrement, with(|_, server| (server.active, server.in_auto_increment) = (20.0, 18.0))),
        (Name::Latches, with(|_, server| (server.active, server.in_latch) = (20.0, Some(18.0)))),
        (Name::MetadataLocks, with(|_, server| (server.active, server.in_metadata_lock) = (20.0, 18.0))),
        (Name::Connections, with(|_, server| server.connected = 499.0)),
        (
            Name::ReplicationLag,
            with(|_, server| {
                let replica = behind(40.0);
                (server.replica, server.appliers) = (Some(replica), (0.1, 4.0));
            }),
        ),
        (
            Name::SingleThreadedApply,
            with(|_, server| {
                let replica = behind(40.0);
                (server.replica, server.appliers) = (Some(replica), (0.98, 1.0));
            }),
        ),
        (Name::CpuLimit, {
            let cpu = host::cgroup::CpuLimit { cpus: 0.2, used: 0.2, throttled: 0.9, ..Default::default() };
            Window {
                limits: Some(host::cgroup::Sample { cpu: Some(cpu), ..Default::default() }),
                ..healthy()
            }
        }),
        (Name::CpuPinned, pinned(16, &[3])),
        (Name::MemoryLimit, {
            let pressure = Some(pressure::Sample { some: 0.5, full: 0.3 });
            let memory = host::cgroup::MemoryLimit {
                limit: 100,
                used: 100,
                met_per_s: 40.0,
                pressure,
                ..Default::default()
            };
            Window {
                limits: Some(host::cgroup::Sample { memory: Some(memory), ..Default::default() }),
                ..healthy()
            }
        }),
        (
            Name::Admission,
            with(|_, server| {
                (server.settings.at_work, server.active, server.in_admission) = (2, 2.0, Some(12.0));
            }),
        ),
        (Name::ThreadLimit, {
            let threads = host::cgroup::ThreadLimit { limit: 100, used: 99, ..Default::default() };
            let limits = Some(host::cgroup::Sample { threads: Some(threads), ..Default::default() });
            Window { limits, ..healthy() }
        }),
        (Name::OpenFiles, {
            let files = Some(host::cgroup::FileLimit { limit: 1024, open: 1000 });
            let limits = Some(host::cgroup::Sample { files, ..Default::default() });
            Window { limits, ..healthy() }
        }),
        (Name::IoLimit, {
            let io = host::cgroup::IoLimit {
                limit: 2e6,
                used: 1.96e6,
                what: "bytes written".into(),
                ..Default::default()
            };
            let limits = Some(host::cgroup::Sample { io: Some(io), ..Default::default() });
            // Its writes are slow, and commits wait for them: the effects.
            let busy = with(|host, server| {
                (server.active, server.in_commit) = (16.0, 12.0);
                host.disks[0].flushed.as_mut().unwrap().under_way = 0.95;
            });
            Window { limits, ..busy }
        }),
        (
            Name::OneSession,
            with(|host, server| {
                (host.cpu.all.user, host.cpu.all.idle) = (0.45, 0.43);
                (server.active, server.in_commit, server.longest_s) = (1.1, 0.0, 12.0);
            }),
        ),
        (
            Name::ApplyWithoutKey,
            with(|_, server| {
                let replica = behind(40.0);
                (server.replica, server.appliers, server.appliers_searching) =
                    (Some(replica), (0.98, 1.0), 0.9);
            }),
        ),
        (Name::DiskSpace, {
            let space = Space { total: 1000, available: 20, ..Space::default() };
            Window { space: Some(space), ..healthy() }
        }),
        (
            Name::Retransmits,
            with(|host, _| {
                (host.tcp.sent_again_share, host.tcp.sent_again_per_s) = (Some(0.05), 200.0);
            }),
        ),
        (Name::GlobalLock, with(|_, server| (server.active, server.in_global_lock) = (20.0, 18.0))),
        (
            Name::SemiSync,
            with(|_, server| {
                (server.active, server.in_commit, server.in_semi_sync) = (20.0, 18.0, 17.0);
            }),
        ),
        (
            Name::CommitsHang,
            with(|host, server| {
                (server.active, server.in_commit, server.longest_commit_s) = (12.0, 10.0, 7.0);
                host.disks[0].flushed.as_mut().unwrap().under_way = 1.0;
            }),
        ),
        (
            Name::RedoLog,
            with(|_, server| {
                (server.active, server.writes_per_s, server.log.redo_bytes_per_s) = (8.0, 1500.0, 4e6);
                (server.log.checkpoint_age, server.log.capacity) = (Some(0.9), Some(8 << 20));
            }),
        ),
        (
            Name::Purge,
            with(|_, server| {
                server.history = Some(200_000);
                server.oldest_transaction = Some(server::Blocker {
                    id: 7,
                    user: "app".to_owned(),
                    host: "10.0.0.7".to_owned(),
                    held: server::HeldBy::ByAnIdleClient,
                    age_s: 600,
                    in_transaction: true,
                    table: None,
                    waiting: 0,
                    guessed: false,
                });
            }),
        ),
        (
            Name::TemporaryTables,
            with(|_, server| {
                (server.active, server.selects_per_s) = (4.0, 60.0);
                server.temporary_per_s = (55.0, 50.0);
            }),
        ),
        (
            Name::NewConnections,
            with(|host, server| {
                busy(host);
                (server.statements_per_s, server.connections_per_s) = (900.0, 800.0);
            }),
        ),
        (
            Name::TableCache,
            with(|_, server| {
                (server.active, server.tables, server.tables_opened_per_s) = (4.0, (400, 400), 1800.0);
            }),
        ),
        (
            Name::OneStatement,
            with(|host, server| {
                busy(host);
                server.settings.performance_schema = true;
                server.top = Some(server::TopStatement {
                    share: 0.8,
                    rows_examined: 50_000.0,
                    rows_sent: 1.0,
                    ..Default::default()
                });
            }),
        ),
        (Name::CrossZone, {
            let vantage = Vantage { other_zone: true, asked_from_here: true, round_trip_ms: 1.5 };
            Window { vantage: Some(vantage), ..with(|_, server| server.mean_statement_ms = Some(0.2)) }
        }),
        (Name::NotTheDatabase, {
            let application = Application {
                request_p99_ms: 900.0,
                usual_request_p99_ms: 100.0,
                statement_p99_ms: 5.0,
                usual_statement_p99_ms: 5.0,
            };
            Window { application: Some(application), ..with(|_, server| server.active = 0.2) }
        }),
    ];
    assert_eq!(cases.len(), RULES.len(), "a case for each rule");
    for (name, window) in cases {
        let verdict = judge(&window);
        assert_eq!(verdict.bottleneck.as_ref().map(|f| f.name), Some(name), "{verdict:#?}");
    }
}

/// A server that may run on some CPUs of many; they are full, the others are half busy. The kernel's figure
/// of waits is what such a host has.
fn pinned(cpus: u32, allowed: &[u32]) -> Window {
    let mut window = with(|host, _| {
        let of = |busy: f64| cpu::Shares { user: busy, idle: 1.0 - busy, ..cpu::Shares::default() };
        let busy = |number: &u32| if allowed.contains(number) { 1.0 } else { 0.5 };
        host.cpu.each = (0..cpus).map(|number| (number, of(busy(&number)))).collect();
        let work: f64 = (0..cpus).map(|number| busy(&number)).sum();
        host.cpu.all = of(work / f64::from(cpus));
        let waited = allowed.len() as f64 / work;
        host.pressure.cpu = Some(pressure::Sample { some: waited, full: 0.0 });
    });
    window.limits =
        Some(host::cgroup::Sample { pinned_to: Some(allowed.to_vec()), ..host::cgroup::Sample::default() });
    window
}

#[test]
fn a_pinned_server_is_judged_by_its_own_cpus() {
    let verdict = judge(&pinned(16, &[2, 3, 7]));
    let first = verdict.bottleneck.unwrap();
    assert_eq!((first.name, first.who.as_deref()), (Name::CpuPinned, Some("CPUs 2-3,7")));
    assert_eq!(first.ceiling, Some(1.0));
    // The same host with a server that may run everywhere has room.
    let free = Window { limits: None, ..pinned(16, &[2, 3, 7]) };
    assert_eq!(named(&free), None);
    // Its own CPUs rest while the others are full: the host's trouble is not its.
    let mut resting = pinned(16, &[2, 3]);
    let allowed = resting.limits.as_mut().unwrap();
    allowed.pinned_to = Some((0..2).chain(4..16).collect());
    assert_eq!(named(&resting), None);
    // The others are full too: it is the host that is short of CPU.
    let mut full = pinned(4, &[1]);
    let host = full.host.as_mut().unwrap();
    (host.cpu.each.iter_mut()).for_each(|(_, shares)| (shares.user, shares.idle) = (1.0, 0.0));
    (host.cpu.all.user, host.cpu.all.idle) = (1.0, 0.0);
    host.pressure.cpu = Some(pressure::Sample { some: 0.8, full: 0.0 });
    assert_eq!(named(&full), Some(Name::Cpu));
    // One session on the one CPU that it has: no other CPU is kept from it by its statement.
    let mut alone = pinned(16, &[3]);
    let server = alone.server.as_mut().unwrap();
    (server.active, server.in_commit, server.longest_s) = (1.1, 0.0, 12.0);
    assert_ne!(named(&alone), Some(Name::OneSession));
}

#[test]
fn the_worked_example_names_row_locks_before_the_cpu() {
    let window = with(|host, server| {
        busy(host);
        host.pressure.cpu = Some(pressure::Sample { some: 0.6, full: 0.0 });
        (server.active, server.in_row_lock, server.in_commit) = (40.0, 32.0, 2.0);
    });
    let verdict = judge(&window);
    assert_eq!(verdict.bottleneck.as_ref().map(|f| f.name), Some(Name::RowLocks));
    assert_eq!(verdict.runner_up.as_ref().map(|f| f.name), Some(Name::Cpu));
    assert_eq!(verdict.sure, Some(Confidence::Certain));
}

#[test]
fn a_cause_goes_before_its_effect() {
    let window = with(|_, server| {
        (server.active, server.in_metadata_lock, server.connected) = (480.0, 400.0, 500.0);
        server.refused_per_s = 20.0;
    });
    let verdict = judge(&window);
    assert_eq!(verdict.bottleneck.map(|f| f.name), Some(Name::MetadataLocks));
    assert_eq!(verdict.runner_up.map(|f| f.name), Some(Name::Connections));
}

#[test]
fn what_looks_like_a_limit_and_is_none_is_not_named() {
    let cpu = |used, throttled| {
        let cpu = host::cgroup::CpuLimit { cpus: 2.0, used, throttled, ..Default::default() };
        Window { limits: Some(host::cgroup::Sample { cpu: Some(cpu), ..Default::default() }), ..healthy() }
    };
    // Far below its limit; at it without being held back; held back by bursts at half of it.
    for window in [cpu(0.4, 0.0), cpu(1.9, 0.02), cpu(1.0, 0.6)] {
        assert_eq!(named(&window), None);
    }
    // Version 1 meets its limit all the time where files are read: page cache is given back.
    let memory = host::cgroup::MemoryLimit { limit: 100, used: 100, met_per_s: 900.0, ..Default::default() };
    let cached = Window {
        limits: Some(host::cgroup::Sample { memory: Some(memory), ..Default::default() }),
        ..healthy()
    };
    assert_eq!(named(&cached), None);
    // A full log that holds an hour of writes; a long history that purge is about to remove.
    let roomy = with(|_, server| {
        (server.active, server.log.redo_bytes_per_s) = (8.0, 1e6);
        (server.log.checkpoint_age, server.log.capacity) = (Some(0.9), Some(4 << 30));
    });
    let purging = with(|_, server| server.history = Some(1_000_000));
    assert_eq!((named(&roomy), named(&purging)), (None, None));
}

#[test]
fn what_looks_like_one_session_or_a_missing_key_and_is_none_is_not_named() {
    // Many short statements add up to one CPU and one session.
    let short = with(|host, server| {
        (host.cpu.all.user, host.cpu.all.idle) = (0.45, 0.43);
        (server.active, server.longest_s) = (1.1, 0.02);
    });
    // It waits for a row; the other CPU is busy too.
    let waits = with(|host, server| {
        (host.cpu.all.user, host.cpu.all.idle) = (0.45, 0.43);
        (server.active, server.in_row_lock, server.longest_s) = (1.1, 0.6, 12.0);
    });
    let both = with(|host, server| {
        busy(host);
        (server.active, server.longest_s) = (1.1, 12.0);
    });
    assert_eq!(named(&short), None);
    assert!([&waits, &both].iter().all(|window| named(window) != Some(Name::OneSession)));
    // With a key a row is looked for now and then; far below its limit nothing is held back.
    let keyed = with(|_, server| {
        let replica = behind(40.0);
        (server.replica, server.appliers, server.appliers_searching) = (Some(replica), (0.98, 1.0), 0.2);
    });
    assert_eq!(named(&keyed), Some(Name::SingleThreadedApply));
    assert!(!judge(&keyed).not_judged.contains(&Name::ApplyWithoutKey));
    let mut untold = keyed.clone();
    untold.server.as_mut().unwrap().appliers_untold = 0.7;
    assert!(judge(&untold).not_judged.contains(&Name::ApplyWithoutKey), "these decide");
    let io = host::cgroup::IoLimit { limit: 2e6, used: 1e6, ..Default::default() };
    let limits = Some(host::cgroup::Sample { io: Some(io), ..Default::default() });
    assert_eq!(named(&Window { limits, ..healthy() }), None);
}

#[test]
fn a_cold_or_roomy_pool_is_not_too_small() {
    let reads = |host: &mut host::Sample, server: &mut server::Sample| {
        (server.active, server.pool.misses_per_s) = (8.0, 5000.0);
        host.disks[0].read.await_ms = Some(1.0);
    };
    let roomy = with(|host, server| {
        reads(host, server);
        server.pool.room = 0.4;
    });
    let loading = with(|host, server| {
        reads(host, server);
        server.pool.loading = true;
    });
    assert_eq!((named(&roomy), named(&loading)), (None, None));
}

#[test]
fn a_disk_is_named_by_what_it_does_and_not_by_the_pressure_of_an_idle_server() {
    let slow = |host: &mut host::Sample, ms: f64| {
        (host.disks[0].written.await_ms, host.disks[0].written.under_way) = (Some(ms), 8.0);
    };
    let measured = |window: Window, writes: f64| {
        let (reads, writes) = (Some(10_000.0), Some(writes));
        let ceilings = Ceilings {
            idle_write_ms: Some(0.1),
            reads_per_s: reads,
            writes_per_s: writes,
            ..Default::default()
        };
        Window { ceilings, ..window }
    };
    // A copy beside an idle server; a disk that does a tenth of what it can, in 2 ms.
    let idle = with(|host, server| {
        slow(host, 40.0);
        (server.active, server.in_commit) = (0.1, 0.0);
    });
    let at_ease = with(|host, _| slow(host, 2.0));
    assert_eq!((named(&idle), named(&measured(at_ease.clone(), 2000.0))), (None, None));
    // The same at its end; and far from it, but slower than any disk should be.
    assert_eq!(named(&measured(at_ease, 210.0)), Some(Name::DiskLatency));
    let used_up = with(|host, _| slow(host, 40.0));
    assert_eq!(named(&measured(used_up, 2000.0)), Some(Name::DiskLatency));
    // No kernel says who waits: no such figure is made up.
    let unknown = judge(&with(|host, _| {
        slow(host, 40.0);
        host.pressure.io = None;
    }));
    let found = unknown.bottleneck.unwrap();
    assert_eq!(found.name, Name::DiskLatency);
    assert!(found.evidence.iter().all(|figure| !figure.what.contains("waited for a disk")), "{found:?}");
}

#[test]
fn a_few_short_waits_for_a_table_are_no_bottleneck() {
    assert_eq!(named(&with(|_, server| (server.active, server.in_auto_increment) = (20.0, 2.0))), None);
    assert_eq!(named(&with(|_, server| (server.active, server.in_table_lock) = (20.0, 2.0))), None);
    assert_eq!(named(&with(|_, server| (server.active, server.in_table_lock) = (1.5, 0.6))), None);
}

#[test]
fn what_has_no_evidence_is_not_judged_and_said_so() {
    let verdict = judge(&Window::default());
    assert_eq!(verdict.bottleneck, None);
    assert_eq!(verdict.not_judged.len(), RULES.len());
    assert_eq!(verdict.tightest, None);
}

#[test]
fn a_verdict_is_named_within_three_windows_and_survives_a_short_dip() {
    let mut settling = Settler::default();
    let locked = with(|_, server| (server.active, server.in_row_lock) = (20.0, 18.0));
    let names = |settling: &mut Settler, window: &Window, times: usize| {
        (0..times).map(|_| settling.next(window).bottleneck.map(|f| f.name)).collect::<Vec<_>>()
    };
    let row = Some(Name::RowLocks);
    assert_eq!(names(&mut settling, &healthy(), 3), [None; 3]);
    assert_eq!(names(&mut settling, &locked, 4), [None, None, row, row]);
    assert_eq!(names(&mut settling, &healthy(), 2), [row, row], "a dip");
    assert_eq!(names(&mut settling, &locked, 1), [row]);
    assert_eq!(names(&mut settling, &healthy(), 6), [row, row, row, row, None, None]);
}

#[test]
fn after_a_gap_a_verdict_stays_only_if_the_next_evidence_bears_it_out() {
    let locked = with(|_, server| (server.active, server.in_row_lock) = (20.0, 18.0));
    let unread = Window::default();
    // What is in force at each of these windows after three of the convoy and a gap.
    let after = |windows: &[&Window]| {
        let mut settling = Settler::default();
        (0..3).for_each(|_| drop(settling.next(&locked)));
        settling.gap();
        windows.iter().map(|window| settling.next(window).bottleneck.map(|f| f.name)).collect::<Vec<_>>()
    };
    let row = Some(Name::RowLocks);
    assert_eq!(after(&[&locked, &locked]), [row; 2], "it goes on");
    assert_eq!(after(&[&healthy(), &locked]), [None; 2], "it went, and comes anew");
    assert_eq!(after(&[&unread, &unread, &locked]), [None, None, row], "nothing is said without evidence");
    assert_eq!(after(&[&unread, &unread, &unread, &unread, &unread, &locked]), [None; 6], "too long ago");
    assert_eq!(after(&[&locked, &healthy(), &healthy()]), [row; 3], "a dip after it");
}

#[test]
fn what_alternates_is_not_renamed_each_time() {
    let mut settling = Settler::default();
    let locked = with(|_, server| (server.active, server.in_row_lock) = (20.0, 12.0));
    let torn = with(|host, server| {
        busy(host);
        (server.active, server.in_row_lock) = (20.0, 7.0);
    });
    for _ in 0..4 {
        settling.next(&locked);
    }
    let mut changes = 0;
    let mut last = Some(Name::RowLocks);
    for round in 0..40 {
        let window = if round % 2 == 0 { &torn } else { &locked };
        let now = settling.next(window).bottleneck.map(|f| f.name);
        changes += usize::from(now != last);
        last = now;
    }
    assert_eq!(changes, 0);
}

/// Windows of all kinds, sound or not.
fn windows() -> impl Strategy<Value = Window> {
    let share = || 0.0f64..=1.0;
    let host = (share(), share(), share(), share(), share(), 0.0f64..100.0, 0.0f64..20.0, 0.0f64..2.0);
    let server =
        (0.0f64..100.0, share(), share(), share(), 0.0f64..1000.0, 0.0f64..1e4, share(), 0.0f64..60.0);
    let there = (any::<bool>(), any::<bool>());
    (host, server, there, request::some()).prop_map(|(h, s, (has_host, has_server), requests)| {
        let mut window = Window { requests, ..healthy() };
        let host = window.host.as_mut().unwrap();
        (host.cpu.all.user, host.cpu.all.steal, host.cpu.each[1].1.softirq) = (h.0, h.1, h.2);
        host.pressure.cpu = Some(pressure::Sample { some: h.3, full: 0.0 });
        host.pressure.memory = Some(pressure::Sample { some: h.4, full: h.4 / 10.0 });
        host.disks[0].written.await_ms = Some(h.5);
        host.disks[0].written.under_way = h.6;
        host.disks[0].flushed.as_mut().unwrap().under_way = h.7;
        let server = window.server.as_mut().unwrap();
        server.active = s.0;
        (server.in_row_lock, server.in_metadata_lock, server.in_commit) = (s.0 * s.1, s.0 * s.2, s.0 * s.3);
        (server.connected, server.pool.misses_per_s, server.pool.room) = (s.4, s.5, s.6);
        server.replica = Some(behind(s.7));
        if !has_host {
            window.host = None;
        }
        if !has_server {
            window.server = None;
        }
        window
    })
}

proptest! {
    #[test]
    fn any_window_has_a_sound_verdict(window in windows()) {
        let findings = find(&window);
        for finding in &findings {
            prop_assert!(finding.load.is_finite() && finding.load >= 0.0, "{finding:?}");
            prop_assert!((0.0..=1.0).contains(&finding.weight), "{finding:?}");
            prop_assert!(finding.ceiling.is_none_or(|used| (0.0..=1.0).contains(&used)), "{finding:?}");
            prop_assert!(finding.evidence.iter().all(|figure| figure.value.is_finite()), "{finding:?}");
        }
        let called = findings.iter().any(|f| f.load >= 1.0);
        let verdict = judge(&window);
        prop_assert_eq!(verdict.bottleneck.is_some(), called);
        prop_assert!(verdict.bottleneck.as_ref().is_none_or(|f| f.load >= 1.0 && !f.evidence.is_empty()));
        if let (Some(first), Some(second)) = (&verdict.bottleneck, &verdict.runner_up) {
            prop_assert!(first.name != second.name);
            prop_assert!(!second.explains().contains(&first.name) || second.load < 1.0
                || first.explains().contains(&second.name));
        }
        prop_assert_eq!(findings.len() + verdict.not_judged.len(), RULES.len());
    }

    #[test]
    fn more_of_the_evidence_is_never_less_of_the_bottleneck(window in windows(), more in 1.0f64..3.0) {
        let mut worse = window.clone();
        if let Some(host) = &mut worse.host {
            host.cpu.all.steal = (host.cpu.all.steal * more).min(1.0);
            host.pressure.cpu = host.pressure.cpu.map(|p| pressure::Sample { some: (p.some * more).min(1.0), ..p });
        }
        if let Some(server) = &mut worse.server {
            server.in_row_lock = (server.in_row_lock * more).min(server.active);
            server.in_metadata_lock = (server.in_metadata_lock * more).min(server.active);
            server.connected *= more;
        }
        for name in [Name::Cpu, Name::Steal, Name::RowLocks, Name::MetadataLocks, Name::Connections] {
            let load = |window: &Window| (name.rule().judge)(window).map_or(0.0, |finding| finding.load);
            prop_assert!(load(&worse) >= load(&window) - 1e-9, "{name:?}");
        }
    }

    #[test]
    fn what_is_newly_named_was_first_in_three_of_the_last_four_windows(
        windows in prop::collection::vec(windows(), 1..60),
    ) {
        let mut settling = Settler::default();
        let (mut last, mut firsts) = (None, Vec::new());
        for window in &windows {
            firsts.push(named(window));
            let now = settling.next(window).bottleneck.map(|f| f.name);
            if now.is_some() && now != last {
                let times = firsts.iter().rev().take(4).filter(|first| **first == now).count();
                prop_assert!(times >= 3 || last.is_none(), "{last:?} became {now:?} after {times} windows");
            }
            last = now;
        }
    }
}

#[test]
fn figures_have_their_units_and_a_sensible_length() {
    assert_eq!(figure(0.423, Unit::Share), "42 %");
    assert_eq!(figure(1234.5, Unit::PerSecond), "1234/s");
    assert_eq!(figure(128.0 * 1024.0 * 1024.0, Unit::Bytes), "128 MiB");
    assert_eq!((figure(0.0, Unit::Bytes), figure(0.0, Unit::Count)), ("0 B".to_owned(), "0".to_owned()));
    assert_eq!(figure(0.25, Unit::Milliseconds), "0.25 ms");
}
