//! Limits of a container or service (its cgroup), of open files and threads of the process, and of the file
//! system with the data.

use super::{Finding, Name, Unit, Window, greatest, least};

/// Of the CPU time that the quota allows.
const QUOTA_USED: f64 = 0.85;
/// Share of periods in which the quota ended before the work.
const THROTTLED: f64 = 0.25;
/// Somebody in the cgroup waits for memory, and all of it.
const MEMORY_WAITS: (f64, f64) = (0.15, 0.02);
/// As far as it goes while its limit is not met: whoever waits for memory of a host that is short of it waits
/// in some cgroup, too.
const NOT_MET: f64 = 0.9;
/// Where the kernel tells no pressure of a cgroup (version 1): the limit is met this often a second, while
/// pages come back from the disk.
const LIMIT_MET: (f64, f64) = (100.0, 20.0);
/// Of what `io.max` allows, over the whole window.
const IO_USED: f64 = 0.90;
/// Of the threads that its cgroup or its user may have.
const THREADS_USED: f64 = 0.95;
/// Of the files that its process may open.
const FILES_USED: f64 = 0.90;
/// Of the file system.
const SPACE_USED: f64 = 0.95;
/// From here on writes wait or fail: it explains why commits hang.
pub(super) const FULL: f64 = 0.98;
/// It will be full before somebody who is called can have made room, and is nearly so: a backup fills a disk
/// as fast for some minutes, and stops long before its end.
const FULL_IN_S: f64 = 4.0 * 3600.0;
const FILLS_FROM: f64 = 0.80;

pub(super) fn cpu(window: &Window) -> Option<Finding> {
    let limit = window.limits.as_ref()?.cpu.as_ref()?;
    let used = if limit.cpus > 0.0 { limit.used / limit.cpus } else { 0.0 };
    let load = least([(used, QUOTA_USED), (limit.throttled, THROTTLED)]);
    let finding = Finding::new(Name::CpuLimit, load, limit.throttled.min(1.0) * window.rest())
        .ceiling(used)
        .figure("of the CPU time that its limit allows", used, Unit::Share, Some(QUOTA_USED))
        .figure("periods in which it was held back", limit.throttled, Unit::Share, Some(THROTTLED))
        .figure("the limit, CPUs", limit.cpus, Unit::Count, None)
        .figure("used, CPUs", limit.used, Unit::Count, None)
        .who(Some(format!("cgroup {}", limit.path)));
    Some(match &limit.burst {
        Some(burst) => finding
            .figure("periods in which it drew on its burst", burst.periods, Unit::Share, None)
            .figure("burst that it may save up, of CPU time", burst.allowed_s, Unit::Seconds, None),
        None => finding,
    })
}

pub(super) fn memory(window: &Window) -> Option<Finding> {
    let limit = window.limits.as_ref()?.memory.as_ref()?;
    let used = if limit.limit > 0 { limit.used as f64 / limit.limit as f64 } else { 0.0 };
    let faults = window.host.as_ref().map_or(0.0, |host| host.memory.major_faults_per_s);
    let (short, waits) = match limit.pressure {
        Some(pressure) => {
            let waits = greatest([(pressure.some, MEMORY_WAITS.0), (pressure.full, MEMORY_WAITS.1)]);
            (if limit.met_per_s > 0.0 { waits } else { waits.min(NOT_MET) }, pressure.some)
        }
        None => {
            let met = least([(limit.met_per_s, LIMIT_MET.0), (faults, LIMIT_MET.1)]);
            (met, (met / 4.0).min(1.0))
        }
    };
    // Who was killed cannot be seen to wait.
    let killed = limit.killed as f64;
    let weight = if limit.killed > 0 { 1.0 } else { waits };
    let finding = Finding::new(Name::MemoryLimit, greatest([(short, 1.0), (killed, 1.0)]), weight)
        .figure("of its memory limit charged, page cache included", used, Unit::Share, None)
        .figure("the limit", limit.limit as f64, Unit::Bytes, None)
        .figure("times the limit was met", limit.met_per_s, Unit::PerSecond, None)
        .figure("processes killed for want of memory", killed, Unit::Count, Some(1.0))
        .who(Some(format!("cgroup {}", limit.path)));
    Some(match limit.pressure {
        Some(pressure) => finding.figure(
            "time in which somebody in it waited for memory",
            pressure.some,
            Unit::Share,
            Some(MEMORY_WAITS.0),
        ),
        None => finding.figure(
            "pages read back by the host's programs",
            faults,
            Unit::PerSecond,
            Some(LIMIT_MET.1),
        ),
    })
}

/// Pressure is no evidence here: a thread that waits in an io_uring for nothing counts. Who is at the limit
/// for a whole window is held back by it.
pub(super) fn io(window: &Window) -> Option<Finding> {
    let limit = window.limits.as_ref()?.io.as_ref()?;
    let used = limit.used / limit.limit.max(1.0);
    let server = window.server.as_ref();
    let active = server.map_or(1.0, |server| server.active);
    let load = least([(used, IO_USED), (active, 1.0)]);
    // Who is in its commit waits for the device, too.
    let in_commit = server.map_or(0.0, |server| server.in_commit / server.active.max(1.0));
    let unit = if limit.what.starts_with("bytes") { Unit::BytesPerSecond } else { Unit::PerSecond };
    Some(
        Finding::new(Name::IoLimit, load, used.min(1.0) * (window.rest() + in_commit).min(1.0))
            .ceiling(used)
            .figure("of what its limit of IO allows", used, Unit::Share, Some(IO_USED))
            .figure(format!("the limit: {}", limit.what), limit.limit, unit, None)
            .figure("used", limit.used, unit, None)
            .figure("sessions at work", active, Unit::Count, Some(1.0))
            .who(Some(format!("cgroup {}, device {}", limit.path, limit.device))),
    )
}

pub(super) fn threads(window: &Window) -> Option<Finding> {
    let limit = window.limits.as_ref()?.threads.as_ref().filter(|limit| limit.limit > 0)?;
    let used = limit.used as f64 / limit.limit as f64;
    let refused = limit.refused as f64;
    let weight = if limit.refused > 0 { 1.0 } else { 0.3 };
    let finding = Finding::new(Name::ThreadLimit, greatest([(used, THREADS_USED), (refused, 1.0)]), weight)
        .ceiling(used)
        .figure("of the threads that its limit allows", used, Unit::Share, Some(THREADS_USED))
        .figure("the limit", limit.limit as f64, Unit::Count, None);
    if limit.by_ulimit {
        // Nobody counts how often the kernel refused one.
        return Some(finding.who(Some("ulimit -u of its user, by its own threads alone".to_owned())));
    }
    Some(
        finding
            .figure("threads that could not be started", refused, Unit::Count, Some(1.0))
            .who(Some(format!("cgroup {}", limit.path))),
    )
}

pub(super) fn files(window: &Window) -> Option<Finding> {
    let limit = window.limits.as_ref()?.files.as_ref().filter(|limit| limit.limit > 0)?;
    let used = limit.open as f64 / limit.limit as f64;
    Some(
        Finding::new(Name::OpenFiles, used / FILES_USED, 0.3)
            .ceiling(used.min(1.0))
            .figure("of the files that it may open", used.min(1.0), Unit::Share, Some(FILES_USED))
            .figure("open, connections included", limit.open as f64, Unit::Count, None)
            .figure("the limit", limit.limit as f64, Unit::Count, None),
    )
}

pub(super) fn space(window: &Window) -> Option<Finding> {
    let space = window.space.as_ref().filter(|space| space.total > 0)?;
    let used = 1.0 - space.available as f64 / space.total as f64;
    let soon = space
        .full_in_s
        .map_or(0.0, |seconds| least([(FULL_IN_S / seconds.max(1.0), 1.0), (used, FILLS_FROM)]));
    // Nothing waits for it yet: what is slow now goes first.
    let finding = Finding::new(Name::DiskSpace, greatest([(used, SPACE_USED), (soon, 1.0)]), 0.1)
        .ceiling(used)
        .figure("of the data's file system used", used, Unit::Share, Some(SPACE_USED))
        .figure("available", space.available as f64, Unit::Bytes, None)
        .who(Some(format!("the file system of {}", space.path)));
    Some(match space.full_in_s {
        Some(seconds) => {
            finding.figure("at this rate it is full in", seconds, Unit::Seconds, Some(FULL_IN_S))
        }
        None => finding,
    })
}
