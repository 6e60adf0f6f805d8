//! Disk, flushes, buffer pool.

use super::{Ceilings, Finding, Name, Unit, Window, greatest, least};
use crate::host;

/// Sessions in their commit, of those at work: with sight of the disk, and without.
const IN_COMMIT: (f64, f64) = (0.30, 0.50);
/// A commit that has been under way for this long at each of the last looks hangs, seconds ...
const HANGS_S: f64 = 5.0;
/// ... where at least one was at every look.
const HANGING: f64 = 1.0;
/// The disk flushes this share of the time, where commits queue: between two flushes of a group commit there
/// is other work, so that a quick disk is never seen to flush all the time.
const FLUSHES: f64 = 0.30;
/// The same where they do not queue: a single session that commits again and again.
const FLUSHES_ALONE: f64 = 0.60;
/// This many sessions in their commit queue for the flush. One that commits now and then waits for its own
/// flush only, however large a part of its time that is.
const QUEUE: f64 = 2.0;
/// Commits that queue are flushed together, at least this many with each flush on average. Where nobody waits
/// for another's flush the disk has room, however long one takes.
const TOGETHER: f64 = 1.5;
/// At least this many are in their commit, on average, where it is one after the other, and where the log's
/// buffer is full.
const ALONE: f64 = 0.5;
/// Reading missed pages, as a share of the sessions' time.
const MISSES: f64 = 0.20;
/// A pool with more room than this is not too small. What the page cleaner keeps free ahead is not counted as
/// room: on MariaDB 10.11 that is up to 1,536 pages, all of a small pool.
const ROOM: f64 = 0.05;
/// A server younger than this is cold.
const COLD_S: u64 = 300;
/// Of all reads of the disk, those of missed pages: with less, a larger pool would not take away the most of
/// its work.
const OWN_READS: f64 = 0.50;
/// Times of an idle disk.
const SLOWER: f64 = 3.0;
/// Where nobody measured the idle disk.
const SLOW_MS: f64 = 10.0;
/// Requests under way.
const UNDER_WAY: f64 = 2.0;
/// Somebody waits for the disk ...
const WAITS: f64 = 0.10;
/// ... or it does this much of what it was measured to do. Who waits for asynchronous requests (a database's
/// writers, its log) often counts as waiting for nothing in the kernel's pressure figures: a disk at its end
/// needs no witness.
const FULL: f64 = 0.85;

pub(super) fn flush_bound(window: &Window) -> Option<Finding> {
    let server = window.server.as_ref()?.with_sessions()?;
    if server.writes_per_s == 0.0 && server.commits_per_s == 0.0 && server.in_commit == 0.0 {
        return Some(Finding::new(Name::FlushBound, 0.0, 0.0));
    }
    // Who waits for a replica's acknowledgement waits for no flush of ours.
    let in_commit = (server.in_commit - server.in_semi_sync).max(0.0);
    let share = if server.active > 0.0 { in_commit / server.active } else { 0.0 };
    let flushing = flushing(window);
    let flushed = flushing.and_then(|disk| disk.flushed);
    let waits_for_log = server.log.waits_per_s;
    // Where the binary log is not flushed, commits queue before it, and are grouped where nobody counts.
    let together = server.log.commits_in_group().filter(|_| server.settings.sync_binlog == Some(1));
    let queued = |load: f64| together.map_or(load, |n| load.min(n / TOGETHER));
    let by_commits = match flushed {
        Some(work) => {
            let queue = least([(share, IN_COMMIT.0), (work.under_way, FLUSHES), (in_commit, QUEUE)]);
            let alone = least([(share, IN_COMMIT.0), (work.under_way, FLUSHES_ALONE), (in_commit, ALONE)]);
            queued(queue).max(alone)
        }
        None => queued(least([(share, IN_COMMIT.1), (in_commit, QUEUE)])),
    };
    // The log's buffer is full: writers wait for the disk before they even commit. One large row now and then
    // fills it, too: somebody must be in a commit for much of the time.
    let by_buffer = least([(waits_for_log.min(1.0) * share, IN_COMMIT.0), (in_commit, ALONE)]);
    // Where nothing is flushed at a commit, one that takes long waits for something else: writes that the
    // kernel holds back (the disk's rule), a large transaction before it in the binary log, a delay that was
    // asked for. Flushes that the disk does meanwhile are of pages, or somebody else's.
    let flushes = server.settings.flushes_at_commit() != Some(false);
    let load = if flushes { by_commits.max(by_buffer) } else { by_buffer };
    let (counted, commits_per_s) = server.commits();
    let mut finding = Finding::new(Name::FlushBound, load, share)
        .figure("sessions at work that wait for their commit", share, Unit::Share, Some(IN_COMMIT.0))
        .figure("sessions in their commit", in_commit, Unit::Count, Some(QUEUE))
        .figure(counted, commits_per_s, Unit::PerSecond, None);
    if let (Some(disk), Some(work)) = (flushing, flushed) {
        if flushes {
            // One flush runs at a time: this one has an end.
            finding = finding.ceiling(work.under_way);
        }
        finding = finding
            .figure(
                format!("time in which {} flushed", disk.name),
                work.under_way,
                Unit::Share,
                Some(FLUSHES),
            )
            .figure("flushes", work.per_s, Unit::PerSecond, None)
            .figure("a flush takes", work.await_ms.unwrap_or(0.0), Unit::Milliseconds, None)
            .who(Some(format!("disk {}", disk.name)));
    }
    let finding = match together {
        Some(n) => finding.figure("commits that are flushed together", n, Unit::Count, Some(TOGETHER)),
        None => finding,
    };
    let finding =
        finding.figure("waits for room in the redo log's buffer", waits_for_log, Unit::PerSecond, None);
    Some(match server.log.checkpoint_age {
        Some(age) => finding.figure("redo log used since the checkpoint", age, Unit::Share, None),
        None => finding,
    })
}

/// A gray failure: whoever only pings or reads calls this server well. The commit of a large transaction that
/// is written to the binary log for as long looks the same; a failover therefore confirms it by looks of its
/// own.
pub(super) fn commits_hang(window: &Window) -> Option<Finding> {
    let server = window.server.as_ref()?.with_sessions()?;
    let hanging = (server.in_commit - server.in_semi_sync).max(0.0);
    let share = if server.active > 0.0 { hanging / server.active } else { 0.0 };
    let load = least([(server.longest_commit_s, HANGS_S), (hanging, HANGING)]);
    Some(
        Finding::new(Name::CommitsHang, load, share)
            .figure("the longest commit under way", server.longest_commit_s, Unit::Seconds, Some(HANGS_S))
            .figure("sessions in their commit, for no replica", hanging, Unit::Count, Some(HANGING))
            .figure("SELECTs", server.selects_per_s, Unit::PerSecond, None),
    )
}

pub(super) fn buffer_pool(window: &Window) -> Option<Finding> {
    let server = window.server.as_ref()?;
    let reading = busiest(window, |disk| disk.read.under_way)?;
    let pool = server.pool;
    if pool.loading || server.uptime_s < COLD_S && pool.room > ROOM {
        return Some(Finding::new(Name::BufferPool, 0.0, 0.0));
    }
    let read_ms = reading.read.await_ms.unwrap_or(0.0);
    let share = page_reads(window);
    let full = ((1.0 - pool.room) / (1.0 - ROOM)).min(1.0);
    // A pool with room is never too small, however much is read: not even nearly.
    let own = pool.misses_per_s / reading.read.per_s.max(pool.misses_per_s).max(1.0);
    let by_misses = least([(share, MISSES), (own, OWN_READS)]);
    let load = if pool.room > ROOM { (full * by_misses).min(0.9) } else { by_misses };
    Some(
        Finding::new(Name::BufferPool, load, share.min(window.rest()))
            .figure("sessions' time spent on reading missed pages", share.min(1.0), Unit::Share, Some(MISSES))
            .figure("pages missed", pool.misses_per_s, Unit::PerSecond, None)
            .figure(format!("of all reads of {}", reading.name), own, Unit::Share, Some(OWN_READS))
            .figure(format!("a read of {} takes", reading.name), read_ms, Unit::Milliseconds, None)
            .figure("of the pool never needed so far", pool.room, Unit::Share, Some(ROOM))
            .figure("the pool", pool.size as f64, Unit::Bytes, None),
    )
}

/// Share of the sessions' time that reading missed pages takes: how many, and how long the disk takes for
/// one. Measured, as waits for locks and commits are; may be more than 1 where reads are merged or several go
/// at a time.
pub(super) fn page_reads(window: &Window) -> f64 {
    let reading = busiest(window, |disk| disk.read.under_way);
    let (Some(server), Some(disk)) = (&window.server, reading) else { return 0.0 };
    let read_s = disk.read.await_ms.unwrap_or(0.0) / 1e3;
    if server.active > 0.0 { server.pool.misses_per_s * read_s / server.active } else { 0.0 }
}

pub(super) fn disk_latency(window: &Window) -> Option<Finding> {
    let host = window.host.as_ref()?;
    let disk = busiest(window, |disk| disk.queue)?;
    let slow = |idle: Option<f64>| idle.map_or(SLOW_MS, |ms| ms * SLOWER);
    let none = Ceilings::default();
    let ceilings = &window.ceilings;
    // The paths of an NVMe are as quick as it is.
    let is_below = || window.disks_below.contains(&disk.name);
    let is_its_own =
        |name: &String| *name == disk.name || window.data_disk.as_ref() == Some(name) && is_below();
    let ceilings = if ceilings.disk.as_ref().is_none_or(is_its_own) { ceilings } else { &none };
    let (read_limit, write_limit) = (slow(ceilings.idle_read_ms), slow(ceilings.idle_write_ms));
    let (read, write) = (disk.read.await_ms.unwrap_or(0.0), disk.written.await_ms.unwrap_or(0.0));
    // Requests that flushes wait for are the flush rule's.
    let under_way = disk.read.under_way + disk.written.under_way;
    let latency = greatest([(read, read_limit), (write, write_limit)]);
    let waits = host.pressure.io.map(|io| io.some);
    // A disk that waits for nobody holds nobody back.
    let active = window.server.as_ref().map_or(1.0, |server| server.active);
    // Reads and writes share the disk: half of each is all of it. Large requests reach its bandwidth first.
    let requests = ceilings
        .reads_per_s
        .zip(ceilings.writes_per_s)
        .map(|(reads, writes)| disk.read.per_s / reads.max(1.0) + disk.written.per_s / writes.max(1.0));
    let bytes = disk.read.bytes_per_s + disk.written.bytes_per_s;
    let used = requests.into_iter().chain(ceilings.disk_bytes_per_s.map(|most| bytes / most.max(1.0)));
    let used = used.max_by(f64::total_cmp);
    // Where the kernel does not say who waits, nothing is made of it.
    let waited_for = waits.map_or(f64::INFINITY, |waits| waits / WAITS);
    let wanted = match used {
        // Far from its end, it must be slow for any disk: a volume whose burst is used up.
        Some(used) => greatest([(used, FULL), (waited_for.min(read.max(write) / SLOW_MS), 1.0)]),
        None => waited_for,
    };
    let load = least([(latency, 1.0), (under_way, UNDER_WAY), (wanted, 1.0), (active, 1.0)]);
    let finding = Finding::new(Name::DiskLatency, load, disk.busy * window.rest());
    let finding = match used {
        Some(used) => {
            finding.ceiling(used).figure("of what it was measured to do", used, Unit::Share, Some(FULL))
        }
        None => finding,
    };
    let finding = finding
        .figure(format!("a read of {} takes", disk.name), read, Unit::Milliseconds, Some(read_limit))
        .figure("a write takes", write, Unit::Milliseconds, Some(write_limit))
        .figure("requests under way", under_way, Unit::Count, Some(UNDER_WAY))
        .figure("reads", disk.read.per_s, Unit::PerSecond, None)
        .figure("writes", disk.written.per_s, Unit::PerSecond, None)
        .who(Some(format!("disk {}", disk.name)));
    Some(match waits {
        Some(waits) => {
            finding.figure("time in which somebody waited for a disk", waits, Unit::Share, Some(WAITS))
        }
        None => finding,
    })
}

/// The disk that flushes what is committed: of the volume and those below it the one that flushes most. One
/// that counts none says less than one that had none to do.
fn flushing(window: &Window) -> Option<&host::disk::Sample> {
    let flushes = |disk: &host::disk::Sample| disk.flushed.map_or(-1.0, |work| work.under_way);
    let of_data = |disk: &&host::disk::Sample| {
        window.data_disk.as_ref() == Some(&disk.name) || window.disks_below.contains(&disk.name)
    };
    let disks = window.host.as_ref()?.disks.iter();
    let most = disks.filter(of_data).max_by(|a, b| flushes(a).total_cmp(&flushes(b)));
    most.or_else(|| busiest(window, flushes))
}

/// The disk with the server's data where that is known, else the one that does most of it. An NVMe of several
/// paths counts nothing itself before Linux 6.4: then it is the busiest of its paths.
fn busiest(window: &Window, by: impl Fn(&host::disk::Sample) -> f64) -> Option<&host::disk::Sample> {
    let disks = &window.host.as_ref()?.disks;
    let most = |of: &dyn Fn(&host::disk::Sample) -> bool| {
        disks.iter().filter(|disk| of(disk)).max_by(|a, b| by(a).total_cmp(&by(b)))
    };
    let data = most(&|disk| window.data_disk.as_ref() == Some(&disk.name));
    data.or_else(|| most(&|disk| window.disks_below.contains(&disk.name))).or_else(|| most(&|_| true))
}
