//! Windows that look like one bottleneck and are another: who asked the disk, what waits for what, what is
//! too short to see.

use super::*;

#[test]
fn a_pool_is_not_too_small_when_the_disk_is_busy_with_what_others_read() {
    let window = |others: f64| {
        with(|host, server| {
            (server.active, server.pool.misses_per_s) = (8.0, 500.0);
            host.disks[0].read.per_s = 500.0 + others;
            host.disks[0].read.await_ms = Some(12.0);
            host.disks[0].read.under_way = 12.0;
            host.disks[0].busy = 1.0;
        })
    };
    assert_eq!(named(&window(100.0)), Some(Name::BufferPool));
    assert_eq!(named(&window(4000.0)), Some(Name::DiskLatency));
}

#[test]
fn a_disk_that_does_all_it_can_is_named_though_nobody_counts_as_waiting() {
    let window = |per_s: f64, await_ms: f64| {
        let mut window = with(|host, _| {
            host.pressure.io = Some(pressure::Sample { some: 0.02, full: 0.0 });
            let written = &mut host.disks[0].written;
            (written.per_s, written.await_ms, written.under_way) =
                (per_s, Some(await_ms), per_s * await_ms / 1e3);
            host.disks[0].busy = 1.0;
        });
        window.ceilings = Ceilings {
            writes_per_s: Some(3000.0),
            reads_per_s: Some(3000.0),
            idle_write_ms: Some(0.2),
            ..window.ceilings
        };
        window
    };
    assert_eq!(named(&window(2900.0, 5.0)), Some(Name::DiskLatency));
    assert_eq!(
        named(&window(1000.0, 5.0)),
        None,
        "slow, and not at its end: somebody would have to wait for it"
    );
    assert_eq!(named(&window(2900.0, 0.2)), None, "busy, and as quick as before");
}

#[test]
fn only_the_disk_with_the_data_counts_once_it_is_known() {
    let mut window = with(|host, _| {
        let mut other = host.disks[0].clone();
        other.name = "sdb".to_owned();
        (other.written.await_ms, other.written.under_way, other.busy) = (Some(40.0), 8.0, 1.0);
        host.disks.push(other);
    });
    assert_eq!(named(&window), Some(Name::DiskLatency), "any disk");
    window.data_disk = Some("nvme0n1".to_owned());
    assert_eq!(named(&window), None);
}

#[test]
fn flushes_of_a_volume_are_counted_by_the_disks_below_it() {
    let mut window = with(|host, server| {
        (server.active, server.in_commit) = (8.0, 7.5);
        host.disks[0].flushed.as_mut().unwrap().under_way = 0.43;
        let mut volume = host.disks[0].clone();
        (volume.name, volume.flushed) = ("dm-0".to_owned(), None);
        let mut other = host.disks[0].clone();
        other.name = "sdb".to_owned();
        other.flushed.as_mut().unwrap().under_way = 0.9;
        host.disks.extend([volume, other]);
    });
    window.data_disk = Some("dm-0".to_owned());
    window.disks_below = vec!["nvme0n1".to_owned()];
    let finding = judge(&window).bottleneck.unwrap();
    assert_eq!((finding.name, finding.who.as_deref()), (Name::FlushBound, Some("disk nvme0n1")));
    window.host.as_mut().unwrap().disks[0].flushed.as_mut().unwrap().under_way = 0.01;
    assert_eq!(named(&window), None, "its own disk hardly flushes");
    // Multipath counts its flushes itself, and its paths none.
    let disks = &mut window.host.as_mut().unwrap().disks;
    disks[1].flushed = disks[0].flushed.take();
    disks[1].flushed.as_mut().unwrap().under_way = 0.43;
    let finding = judge(&window).bottleneck.unwrap();
    assert_eq!((finding.name, finding.who.as_deref()), (Name::FlushBound, Some("disk dm-0")));
}

#[test]
fn commits_that_wait_behind_other_peoples_writes_are_an_effect_of_the_disk() {
    let window = with(|host, server| {
        (server.active, server.in_commit) = (16.0, 14.0);
        let disk = &mut host.disks[0];
        disk.flushed.as_mut().unwrap().under_way = 0.95;
        (disk.written.await_ms, disk.written.under_way, disk.busy) = (Some(40.0), 20.0, 1.0);
    });
    let verdict = judge(&window);
    assert_eq!(verdict.bottleneck.unwrap().name, Name::DiskLatency);
    assert_eq!(verdict.runner_up.unwrap().name, Name::FlushBound);
}

#[test]
fn statements_too_short_to_be_seen_still_show_that_the_way_to_them_is_long() {
    let window = |statements_per_s: f64| {
        let mut window = with(|_, server| {
            (server.active, server.mean_statement_ms, server.looks) = (0.0, None, 10);
            server.statements_per_s = statements_per_s;
        });
        window.vantage = Some(Vantage { other_zone: true, asked_from_here: true, round_trip_ms: 2.0 });
        window
    };
    assert_eq!(named(&window(500.0)), Some(Name::CrossZone), "0.2 ms at most");
    assert_eq!(named(&window(30.0)), None, "3 ms at most: that proves nothing");
}

#[test]
fn a_few_dropped_packets_of_very_many_are_no_bottleneck() {
    let window = |processed_per_s| {
        with(|host, _| {
            let dropped =
                host::softnet::Sample { dropped_per_s: 40.0, processed_per_s, ..Default::default() };
            host.softnet = vec![dropped];
        })
    };
    assert_eq!((named(&window(200_000.0)), named(&window(1000.0))), (None, Some(Name::PacketDrops)));
}

#[test]
fn a_backup_on_a_disk_with_room_does_not_fill_it() {
    let window = |available| {
        let space = Space { path: "/data".to_owned(), total: 1000, available, full_in_s: Some(1800.0) };
        Window { space: Some(space), ..healthy() }
    };
    assert_eq!(named(&window(400)), None, "60 % used: it would have to go on for half an hour");
    assert_eq!(named(&window(150)), Some(Name::DiskSpace));
}

#[test]
fn commits_that_do_not_queue_are_not_held_back_by_their_own_flush() {
    let window = |in_commit, under_way| {
        with(|host, server| {
            (server.active, server.in_commit) = (in_commit * 1.05, in_commit);
            host.disks[0].flushed.as_mut().unwrap().under_way = under_way;
        })
    };
    assert_eq!(named(&window(0.97, 0.39)), None, "a thousand commits a second at 40 % of what is possible");
    assert_eq!(named(&window(7.5, 0.43)), Some(Name::FlushBound), "eight sessions that only commit");
    assert_eq!(named(&window(0.97, 0.85)), Some(Name::FlushBound), "one session that only commits");
}

#[test]
fn commits_that_are_flushed_one_by_one_do_not_queue_however_long_a_flush_takes() {
    let window = |in_commit, commits: f64, groups: f64, sync_binlog| {
        with(|host, server| {
            (server.active, server.in_commit) = (in_commit, in_commit);
            (server.log.binlog_commits_per_s, server.log.binlog_groups_per_s) = (commits, groups);
            server.settings.flush_log_at_commit = Some(1);
            server.settings.sync_binlog = Some(sync_binlog);
            host.disks[0].flushed.as_mut().unwrap().under_way = 0.43;
        })
    };
    // As seen: 30 % of what a server carries, and four sessions that commit without a pause.
    assert_eq!(named(&window(2.8, 831.0, 800.0, 1)), None);
    assert_eq!(named(&window(3.8, 2447.0, 1325.0, 1)), Some(Name::FlushBound));
    assert_eq!(
        named(&window(3.8, 2447.0, 2400.0, 0)),
        Some(Name::FlushBound),
        "the redo log is flushed, and uncounted"
    );
    assert_eq!(named(&window(3.8, 0.0, 0.0, 1)), Some(Name::FlushBound), "MySQL does not count them");
}

#[test]
fn commits_that_wait_for_a_galera_cluster_are_told_from_those_that_wait_for_a_replica() {
    let found = |in_galera| {
        // Nothing is flushed at a commit, as usual there: other nodes have it.
        let window = with(|_, server| {
            (server.active, server.in_commit, server.in_semi_sync) = (20.0, 16.0, 15.0);
            server.in_galera = in_galera;
            (server.settings.flush_log_at_commit, server.settings.sync_binlog) = (Some(2), Some(0));
        });
        let bottleneck = judge(&window).bottleneck.unwrap();
        (bottleneck.name, bottleneck.who, bottleneck.evidence[0].what.clone())
    };
    let cluster = "the nodes of its Galera cluster: the slowest one counts".to_owned();
    let waits = |whom: &str| format!("sessions at work that wait for {whom}");
    assert_eq!(found(15.0), (Name::SemiSync, Some(cluster), waits("the cluster")));
    assert_eq!(found(0.0), (Name::SemiSync, None, waits("a replica")));
}

#[test]
fn commits_wait_for_no_flush_where_nothing_is_flushed_at_one() {
    let window = |flush_log_at_commit, sync_binlog| {
        with(|host, server| {
            (server.active, server.in_commit) = (16.0, 14.0);
            let settings = &mut server.settings;
            (settings.flush_log_at_commit, settings.sync_binlog) = (flush_log_at_commit, sync_binlog);
            host.disks[0].flushed.as_mut().unwrap().under_way = 0.95;
        })
    };
    let from_elsewhere = |window: Window| Window { host: None, ..window };
    for redo in [0, 2] {
        let relaxed = window(Some(redo), Some(0));
        let verdict = judge(&relaxed);
        assert_eq!(verdict.bottleneck, None, "{verdict:#?}");
        assert_ne!(verdict.tightest.map(|(name, _)| name), Some(Name::FlushBound), "pages are flushed");
        assert_eq!(named(&from_elsewhere(relaxed)), None);
    }
    for (redo, binary) in [(Some(1), Some(0)), (Some(2), Some(1)), (None, None), (None, Some(0))] {
        assert_eq!(named(&window(redo, binary)), Some(Name::FlushBound), "{redo:?} {binary:?}");
        assert_eq!(named(&from_elsewhere(window(redo, binary))), Some(Name::FlushBound));
    }
    // The disk's writes are slow, and the kernel holds back whoever writes.
    let mut slow = window(Some(2), Some(0));
    let disk = &mut slow.host.as_mut().unwrap().disks[0];
    (disk.written.await_ms, disk.written.under_way, disk.busy) = (Some(40.0), 20.0, 1.0);
    assert_eq!(named(&slow), Some(Name::DiskLatency));
}

#[test]
fn a_bulk_load_that_fills_the_redo_log_is_one_statement_and_is_seen() {
    let window = |redo_bytes_per_s| {
        with(|_, server| {
            (server.active, server.in_commit) = (1.2, 0.0);
            (server.writes_per_s, server.log.redo_bytes_per_s) = (0.0, redo_bytes_per_s);
            (server.log.checkpoint_age, server.log.capacity) = (Some(0.88), Some(96 << 20));
        })
    };
    assert_eq!(named(&window(20e6)), Some(Name::RedoLog));
    assert_eq!(named(&window(0.0)), None, "full of what was written before, and at rest");
    assert_eq!(named(&window(4e5)), None, "it holds four minutes: MariaDB lets it fill up, and nobody waits");
}

#[test]
fn what_the_engines_count_of_commits_is_not_called_transactions() {
    let evidence = |name: Name, binlog_commits_per_s: f64| {
        let window = with(|_, server| {
            (server.active, server.in_commit, server.in_semi_sync) = (16.0, 14.0, 7.0);
            // A reader of 9,000 rows a second, each a commit of its own.
            (server.commits_per_s, server.log.binlog_commits_per_s) = (9400.0, binlog_commits_per_s);
        });
        let finding = (name.rule().judge)(&window).unwrap();
        let of_commits = |what: &str| what.starts_with("transactions") || what.starts_with("commits inside");
        let figure = finding.evidence.into_iter().find(|figure| of_commits(&figure.what)).unwrap();
        (figure.what, figure.value)
    };
    for name in [Name::FlushBound, Name::SemiSync] {
        assert_eq!(evidence(name, 180.0), ("transactions written to the binary log".to_owned(), 180.0));
        let engines = "commits inside the engines, those of reads too".to_owned();
        assert_eq!(evidence(name, 0.0), (engines, 9400.0), "no binary log, or MySQL");
    }
}

#[test]
fn a_large_row_that_fills_the_buffer_of_the_log_on_an_idle_server_is_no_bottleneck() {
    // One look in ten found a session at work, in its commit.
    let window = |in_commit: f64| {
        with(|_, server| {
            (server.active, server.in_commit, server.log.waits_per_s) = (in_commit, in_commit, 3.0);
        })
    };
    assert_eq!(named(&window(0.1)), None);
    assert_eq!(named(&window(0.8)), Some(Name::FlushBound));
}

#[test]
fn a_disk_that_is_full_in_hours_does_not_displace_what_holds_commits_back_now() {
    let window = |available, full_in_s| {
        let space = Space { path: "/var/lib/mysql".to_owned(), total: 1000, available, full_in_s };
        let flushes = with(|host, server| {
            (server.active, server.in_commit) = (16.0, 14.0);
            host.disks[0].flushed.as_mut().unwrap().under_way = 0.95;
        });
        Window { space: Some(space), ..flushes }
    };
    assert_eq!(named(&window(400, Some(3600.0))), Some(Name::FlushBound), "it fills");
    assert_eq!(named(&window(150, Some(3600.0))), Some(Name::FlushBound), "and is nearly full");
    assert_eq!(named(&window(40, None)), Some(Name::FlushBound), "nearly full, and still written to");
    assert_eq!(named(&window(10, None)), Some(Name::DiskSpace), "full: writes wait for space");
    let mut settler = Settler::default();
    for full_in_s in [None, None, None, Some(3600.0), Some(3600.0), Some(3600.0), Some(3600.0)] {
        settler.next(&window(400, full_in_s));
    }
    let verdict = settler.next(&window(400, Some(3600.0)));
    assert_eq!(verdict.bottleneck.map(|f| f.name), Some(Name::FlushBound));
}

#[test]
fn sessions_that_cannot_be_seen_are_not_taken_for_sessions_that_wait_for_nothing() {
    let verdict = judge(&with(|_, server| {
        (server.active, server.in_row_lock, server.sessions_unseen) = (20.0, 18.0, true);
        let replica = behind(40.0);
        server.replica = Some(replica);
    }));
    assert_eq!(verdict.bottleneck.map(|f| f.name), Some(Name::RowLocks), "the server counts these itself");
    for name in [
        Name::MetadataLocks,
        Name::GlobalLock,
        Name::TableLocks,
        Name::AutoIncrement,
        Name::Latches,
        Name::FlushBound,
        Name::CommitsHang,
        Name::SemiSync,
        Name::OneSession,
        Name::SingleThreadedApply,
        Name::ApplyWithoutKey,
    ] {
        assert!(verdict.not_judged.contains(&name), "{name:?}");
    }
}

#[test]
fn appliers_of_which_no_key_is_known_are_judged_only_where_they_do_not_matter() {
    let window = |searching: f64, untold: f64| {
        with(|_, server| {
            let replica = behind(40.0);
            (server.replica, server.appliers) = (Some(replica), (0.98, 1.0));
            (server.appliers_searching, server.appliers_untold) = (searching, untold);
            server.searched_table = Some("app.keyless".to_owned());
        })
    };
    let bottleneck = judge(&window(0.9, 0.05)).bottleneck.unwrap();
    assert_eq!(bottleneck.name, Name::ApplyWithoutKey);
    assert_eq!(bottleneck.who.as_deref(), Some("the table app.keyless"));
    // Between two changes a look meets no lock now and then.
    let now_and_then = judge(&window(0.0, 0.2));
    assert!(!now_and_then.not_judged.contains(&Name::ApplyWithoutKey));
    for (searching, untold) in [(0.0, 0.98), (0.3, 0.4)] {
        let verdict = judge(&window(searching, untold));
        assert!(verdict.not_judged.contains(&Name::ApplyWithoutKey), "{searching} {untold}");
        assert_eq!(verdict.bottleneck.map(|f| f.name), Some(Name::SingleThreadedApply));
    }
    let healthy = with(|_, server| server.appliers_untold = 1.0);
    assert_eq!(judge(&healthy).bottleneck, None, "it is no replica that is behind");
}

#[test]
fn statements_that_the_account_may_not_read_are_not_judged() {
    let not_judged = |refused| {
        let window = with(|_, server| {
            (server.settings.performance_schema, server.digests_refused) = (true, refused);
        });
        judge(&window).not_judged.contains(&Name::OneStatement)
    };
    assert!(not_judged(true) && !not_judged(false));
}

#[test]
fn sessions_that_read_missed_pages_wait_for_no_cpu_however_busy_others_keep_it() {
    let window = |misses_per_s: f64| {
        with(|host, server| {
            busy(host);
            (server.active, server.pool.misses_per_s) = (8.0, misses_per_s);
            host.disks[0].read.per_s = misses_per_s;
            host.disks[0].read.await_ms = Some(2.0);
        })
    };
    assert_eq!(named(&window(3000.0)), Some(Name::BufferPool), "three quarters of their time");
    assert_eq!(named(&window(200.0)), Some(Name::Cpu));
}

#[test]
fn a_healthy_server_of_another_zone_is_not_named_unless_statements_are_known_to_go_there() {
    let window = |asked_from_here| {
        let mut window = with(|_, server| server.mean_statement_ms = Some(0.05));
        window.vantage = Some(Vantage { other_zone: true, asked_from_here, round_trip_ms: 0.7 });
        window
    };
    assert_eq!(named(&window(false)), None);
    assert_eq!(named(&window(true)), Some(Name::CrossZone));
}

#[test]
fn a_host_without_swap_is_short_of_memory_where_programs_wait_for_it_and_one_is_killed() {
    let window = |some: f64, killed: u64| {
        with(|host, _| {
            host.pressure.memory = Some(pressure::Sample { some, full: 0.01 });
            host.memory.killed = killed;
        })
    };
    assert_eq!(named(&window(0.3, 1)), Some(Name::HostMemory));
    // Nobody was killed; or a cgroup had met its own limit, and nobody else noticed.
    assert_eq!((named(&window(0.3, 0)), named(&window(0.01, 1))), (None, None));
}

#[test]
fn which_limit_of_threads_is_near_is_said() {
    let who = |by_ulimit: bool, path: &str| {
        let threads =
            host::cgroup::ThreadLimit { path: path.to_owned(), limit: 100, used: 97, refused: 0, by_ulimit };
        let limits = Some(host::cgroup::Sample { threads: Some(threads), ..Default::default() });
        let bottleneck = judge(&Window { limits, ..healthy() }).bottleneck.unwrap();
        assert_eq!(bottleneck.name, Name::ThreadLimit);
        // That none was refused is known of a cgroup only.
        assert_eq!(bottleneck.evidence.len(), if by_ulimit { 2 } else { 3 });
        bottleneck.who.unwrap()
    };
    assert_eq!(who(false, "/sys/fs/cgroup/db"), "cgroup /sys/fs/cgroup/db");
    assert!(who(true, "").starts_with("ulimit -u of its user"));
}

#[test]
fn a_busy_cpu_says_at_which_frequency_it_runs_where_that_is_known() {
    let evidence = |share_of_highest, throttled| {
        let window = with(|host, _| {
            busy(host);
            host.frequency = host::frequency::Sample { share_of_highest, throttled };
        });
        let bottleneck = judge(&window).bottleneck.unwrap();
        assert_eq!(bottleneck.name, Name::Cpu);
        let about = |figure: &&Figure| figure.what.contains("frequency") || figure.what.contains("heat");
        let values = bottleneck.evidence.iter().filter(about).map(|figure| figure.value);
        values.collect::<Vec<f64>>()
    };
    assert_eq!(evidence(Some(0.62), Some(14)), [0.62, 14.0]);
    assert_eq!(evidence(Some(0.62), Some(0)), [0.62]);
    assert_eq!(evidence(None, None), [0.0; 0], "a guest does not tell");
}

#[test]
fn who_may_exceed_a_limit_of_cpu_for_a_while_is_told_how_often_it_does() {
    let evidence = |burst| {
        let cpu =
            host::cgroup::CpuLimit { cpus: 0.2, used: 0.2, throttled: 0.9, burst, ..Default::default() };
        let limits = Some(host::cgroup::Sample { cpu: Some(cpu), ..Default::default() });
        let bottleneck = judge(&Window { limits, ..healthy() }).bottleneck.unwrap();
        assert_eq!(bottleneck.name, Name::CpuLimit);
        bottleneck.evidence.iter().any(|figure| figure.what.contains("burst"))
    };
    assert!(evidence(Some(host::cgroup::Burst { allowed_s: 0.1, periods: 0.4, cpus: 0.05 })));
    assert!(!evidence(None));
}

#[test]
fn who_holds_a_whole_table_is_named_where_it_is_told() {
    let who = |table_blocker: Option<server::Blocker>| {
        let window = with(|_, server| {
            (server.active, server.in_table_lock) = (20.0, 18.0);
            server.table_blocker = table_blocker;
        });
        let bottleneck = judge(&window).bottleneck.unwrap();
        assert_eq!(bottleneck.name, Name::TableLocks);
        bottleneck.who
    };
    let holder = server::Blocker {
        id: 42,
        user: "app".to_owned(),
        host: "10.0.0.7".to_owned(),
        held: server::HeldBy::ByAnIdleClient,
        age_s: 31,
        in_transaction: false,
        table: Some("shop.log".to_owned()),
        waiting: 18,
        guessed: false,
    };
    assert_eq!(who(Some(holder)).as_deref(), Some("session 42 of app@10.0.0.7, idle for 31 s, on shop.log"));
    assert_eq!(who(None), None);
}

#[test]
fn statements_that_take_hardly_more_are_no_reason_for_requests_that_take_much_more() {
    let window = |statement_p99_ms| {
        let application = Some(Application {
            request_p99_ms: 170.0,
            usual_request_p99_ms: 10.0,
            statement_p99_ms,
            usual_statement_p99_ms: 0.5,
        });
        Window { application, ..with(|_, server| server.active = 0.1) }
    };
    assert_eq!(named(&window(0.8)), Some(Name::NotTheDatabase), "0.3 of 160 ms");
    assert_eq!(named(&window(6.0)), None, "some of those in a request may be the reason");
}

#[test]
fn a_cpu_that_is_busy_with_opening_tables_is_an_effect_and_one_that_seldom_does_is_not() {
    let window = |opened_per_s| {
        with(|host, server| {
            busy(host);
            (server.active, server.tables, server.in_commit) = (8.0, (50, 50), 0.0);
            (server.statements_per_s, server.tables_opened_per_s) = (20_000.0, opened_per_s);
        })
    };
    assert_eq!(named(&window(11_000.0)), Some(Name::TableCache));
    assert_eq!(named(&window(400.0)), Some(Name::Cpu));
}

#[test]
fn a_server_that_is_busy_for_its_quota_is_not_cleared_by_the_cpus_of_its_host() {
    let window = |limits: Option<host::cgroup::Sample>| {
        let application = Some(Application {
            request_p99_ms: 900.0,
            usual_request_p99_ms: 100.0,
            statement_p99_ms: 5.0,
            usual_statement_p99_ms: 5.0,
        });
        Window { application, limits, ..with(|_, server| server.active = 0.4) }
    };
    let quota = |cpus| {
        let cpu = Some(host::cgroup::CpuLimit { cpus, used: cpus / 2.0, ..Default::default() });
        Some(host::cgroup::Sample { cpu, ..Default::default() })
    };
    assert_eq!(named(&window(None)), Some(Name::NotTheDatabase), "0.2 for each of two CPUs");
    assert_eq!(named(&window(quota(0.5))), None, "0.8 for each that it may use");
    assert_eq!(named(&window(quota(8.0))), Some(Name::NotTheDatabase), "more than there are");
}

#[test]
fn statements_that_wait_to_be_let_in_where_the_quota_is_used_up_wait_for_that() {
    let window = |used: f64, throttled: f64| {
        let cpu = Some(host::cgroup::CpuLimit { cpus: 0.5, used, throttled, ..Default::default() });
        let limits = Some(host::cgroup::Sample { cpu, ..Default::default() });
        let waiting = with(|_, server| {
            (server.settings.at_work, server.active, server.in_admission) = (2, 2.0, Some(12.0));
        });
        Window { limits, ..waiting }
    };
    assert_eq!(named(&window(0.49, 0.6)), Some(Name::CpuLimit), "the host has CPU left, the server has none");
    assert_eq!(named(&window(0.1, 0.0)), Some(Name::Admission));
}

#[test]
fn an_applier_that_waits_for_a_lock_is_not_one_that_should_have_company() {
    // A long SELECT on the replica, and ALTER TABLE that comes to it.
    let window = |appliers_in_lock: f64| {
        with(|_, server| {
            let replica = behind(40.0);
            (server.replica, server.appliers) = (Some(replica), (1.0 - appliers_in_lock, 1.0));
            server.appliers_in_lock = appliers_in_lock;
            server.metadata_blocker = Some(server::Blocker {
                id: 42,
                user: "report".to_owned(),
                host: "10.0.0.7".to_owned(),
                held: server::HeldBy::ByAStatement,
                age_s: 900,
                in_transaction: true,
                table: Some("shop.orders".to_owned()),
                waiting: 1,
                guessed: false,
            });
        })
    };
    let found = judge(&window(1.0)).bottleneck.unwrap();
    let who = "its applier waits for session 42 of report@10.0.0.7, its transaction open for 900 s, in a \
               statement, on shop.orders";
    assert_eq!((found.name, found.who.as_deref()), (Name::ReplicationLag, Some(who)));
    assert_eq!(named(&window(0.0)), Some(Name::SingleThreadedApply));
    let alone = (Name::ReplicationLag.rule().judge)(&window(0.0)).unwrap();
    assert_eq!(alone.who, None, "others wait for that session");
}

#[test]
fn sessions_that_wait_for_the_applier_make_a_lag_of_seconds_the_bottleneck() {
    let window = |lag_s, for_applier, in_row_lock| {
        with(|_, server| {
            let replica = behind(lag_s);
            (server.replica, server.appliers) = (Some(replica), (0.1, 4.0));
            (server.active, server.in_row_lock, server.for_applier) = (4.0, in_row_lock, for_applier);
        })
    };
    assert_eq!(named(&window(3.0, 30.0, 0.0)), Some(Name::ReplicationLag));
    assert_eq!(named(&window(0.0, 30.0, 0.0)), None, "it is as quick as it can be");
    assert_eq!((named(&window(3.0, 0.9, 0.0)), named(&window(3.0, 0.0, 0.0))), (None, None), "who waits?");
    let from = |window: Window| judge(&window).bottleneck.unwrap().evidence[0].threshold;
    assert_eq!((from(window(3.0, 30.0, 0.0)), from(window(12.0, 0.0, 0.0))), (Some(1.0), Some(10.0)));
    // Of those at work most wait for a row; far more wait for the applier.
    assert_eq!(named(&window(3.0, 30.0, 2.0)), Some(Name::ReplicationLag));
    assert_eq!(named(&window(3.0, 2.0, 3.6)), Some(Name::RowLocks));
}

#[test]
fn an_applier_that_waits_for_a_row_lacks_neither_a_key_nor_company() {
    let window = |appliers: (f64, f64), searching: f64, in_row: f64| {
        with(|_, server| {
            let replica = behind(40.0);
            (server.replica, server.appliers) = (Some(replica), appliers);
            (server.appliers_searching, server.appliers_in_row) = (searching, in_row);
        })
    };
    assert_eq!(named(&window((1.0, 1.0), 0.0, 1.0)), Some(Name::ReplicationLag), "a client has its row");
    assert_eq!(named(&window((3.0, 5.0), 0.0, 3.0)), Some(Name::ReplicationLag), "one hot row");
    // Without a key a scan locks every row that it reads: one looks, the others wait for it.
    assert_eq!(named(&window((4.0, 5.0), 1.0, 3.0)), Some(Name::ApplyWithoutKey));
    assert_eq!(named(&window((1.0, 1.0), 0.0, 0.0)), Some(Name::SingleThreadedApply));
}

#[test]
fn appliers_that_have_just_begun_together_are_not_one_applier() {
    let window = |at_once| {
        with(|_, server| {
            let replica = behind(3.0);
            (server.replica, server.appliers) = (Some(replica), (1.0, 3.0));
            server.appliers_at_once = at_once;
        })
    };
    assert_eq!((named(&window(3.0)), named(&window(1.0))), (None, Some(Name::SingleThreadedApply)));
}

#[test]
fn a_table_that_is_altered_on_a_replica_is_no_want_of_appliers() {
    let window = |appliers_altering| {
        with(|_, server| {
            let replica = behind(40.0);
            (server.replica, server.appliers) = (Some(replica), (1.0, 5.0));
            server.appliers_altering = appliers_altering;
        })
    };
    let found = judge(&window(1.0)).bottleneck.unwrap();
    let who = "its applier alters a table: what follows waits for that";
    assert_eq!((found.name, found.who.as_deref()), (Name::ReplicationLag, Some(who)));
    assert_eq!(named(&window(0.1)), Some(Name::SingleThreadedApply), "one of many short ones");
}

#[test]
fn a_replica_whose_applier_somebody_stopped_is_behind_though_nobody_knows_by_how_much() {
    let window = |lag_ms, receives, applies| Window {
        lag_ms,
        ..with(|_, server| {
            server.replica = Some(server::Replica { lag_s: None, receives, applies, delay_s: 0.0 });
        })
    };
    let found = |window: &Window| judge(window).bottleneck.map(|f| (f.name, f.who.unwrap_or_default()));
    let stopped = Some((Name::ReplicationLag, "its applier is stopped".to_owned()));
    assert_eq!(found(&window(None, true, false)), stopped);
    assert_eq!(found(&window(Some(40_000.0), true, false)), stopped);
    assert_eq!(found(&window(Some(0.0), true, false)), None, "nothing has come since");
    // What was promoted keeps the words of its replication at times.
    let promoted = judge(&window(None, false, false));
    assert!(promoted.bottleneck.is_none() && promoted.not_judged.contains(&Name::ReplicationLag));
    let (name, who) = found(&window(Some(40_000.0), false, true)).unwrap();
    assert!(name == Name::ReplicationLag && who.starts_with("it receives nothing"), "{who}");
}

#[test]
fn the_likeliest_holder_of_a_metadata_lock_or_that_of_a_table_is_not_named_for_a_lock_on_everything() {
    let who = |guessed, table: Option<&str>| {
        let window = with(|_, server| {
            (server.active, server.in_global_lock, server.in_metadata_lock) = (20.0, 8.0, 9.0);
            server.metadata_blocker = Some(server::Blocker {
                id: 42,
                user: "app".to_owned(),
                host: "10.0.0.7".to_owned(),
                held: server::HeldBy::ByAnIdleClient,
                age_s: 31,
                in_transaction: true,
                table: table.map(str::to_owned),
                waiting: 9,
                guessed,
            });
        });
        let bottleneck = judge(&window).bottleneck.unwrap();
        assert_eq!(bottleneck.name, Name::GlobalLock);
        bottleneck.who
    };
    assert_eq!(who(false, None).as_deref(), Some("session 42 of app@10.0.0.7, for 31 s"));
    assert_eq!((who(true, None), who(false, Some("shop.orders"))), (None, None));
}

#[test]
fn an_nvme_that_counts_nothing_itself_is_judged_by_its_paths_and_not_by_another_disk() {
    let mut window = with(|host, server| {
        (server.active, server.pool.misses_per_s) = (4.0, 1.0);
        // A copy of files keeps the slow disk of the system busy.
        let mut system = disk::Sample { name: "sda".to_owned(), queue: 4.0, ..host.disks[0].clone() };
        (system.read.await_ms, system.read.under_way, system.busy) = (Some(40.0), 4.0, 1.0);
        host.disks[0].name = "nvme0c0n1".to_owned();
        host.disks.push(system);
    });
    assert_eq!(named(&window), Some(Name::DiskLatency), "whose data are on which disk is not known");
    window.data_disk = Some("nvme0n1".to_owned());
    window.disks_below = vec!["nvme0c0n1".to_owned()];
    assert_eq!(named(&window), None);
}

#[test]
fn what_others_keep_busy_is_not_put_down_to_the_one_session_at_work() {
    let window = |server_cpus| {
        let window = with(|host, server| {
            (host.cpu.all.user, host.cpu.all.idle) = (0.45, 0.43);
            (server.active, server.in_commit, server.longest_s) = (1.1, 0.0, 12.0);
        });
        Window { server_cpus, ..window }
    };
    assert_eq!(named(&window(Some(0.98))), Some(Name::OneSession));
    assert_eq!(named(&window(Some(0.05))), None, "it sends rows to a slow client, beside a backup");
    assert_eq!(named(&window(None)), Some(Name::OneSession), "who keeps it busy is not known");
}
