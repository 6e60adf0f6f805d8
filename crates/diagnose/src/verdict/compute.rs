//! CPU, steal and memory of the host.

use super::storage::page_reads;
use super::{Finding, Name, OwnCpus, Unit, Window, greatest, least};
use crate::host;

/// Busy from here on.
const BUSY: f64 = 0.85;
/// Somebody waits for a CPU this share of the time.
const WAITS: f64 = 0.20;
/// Tasks that could run, a CPU, where the kernel has no pressure.
const RUNNABLE: f64 = 1.5;
/// Of the CPUs that a pinned server may not run on.
const OTHERS_IDLE: f64 = 0.25;
const STEAL: f64 = 0.10;
/// Nobody can work for want of memory.
const STALLED: f64 = 0.02;
/// CPUs' worth of work, sessions at work at least and at most, the longest at its statement, and the share
/// of it that is neither lock nor commit nor disk.
const ONE_SESSION: (f64, f64, f64, f64, f64) = (0.85, 0.8, 1.5, 5.0, 0.7);
/// Somebody waits for memory while pages come back from swap, or a program is killed: without swap that is
/// all that a host can do. Alone it is no evidence, as a cgroup at its own limit kills, too.
const SHORT: (f64, f64, f64) = (0.15, 10.0, 1.0);
/// Pages that the kernel looks at for the host, a second. Whoever waits at the limit of a cgroup, be it
/// another server's, counts as somebody who waits for memory of the host, too, while the kernel looks for
/// none of that.
const SCANNED: f64 = 1.0;

pub(super) fn cpu(window: &Window) -> Option<Finding> {
    let (host, own) = (window.host.as_ref()?, window.own_cpus()?);
    let mut finding = busy_and_waited_for(Name::Cpu, host, &own, window)
        .figure("in programs", host.cpu.all.user, Unit::Share, None)
        .figure("in the kernel", host.cpu.all.system, Unit::Share, None);
    // Where others of its CPUs are idle, those run slowly because they may.
    let frequency = Some(host.frequency).filter(|_| own.pinned.is_none()).unwrap_or_default();
    if let Some(share) = frequency.share_of_highest {
        finding = finding.figure("of their highest frequency, at which they run", share, Unit::Share, None);
    }
    if let Some(times) = frequency.throttled.filter(|times| *times > 0) {
        finding = finding.figure("times they were throttled for heat", times as f64, Unit::Count, None);
    }
    Some(finding.who(own.pinned.map(|(numbers, _)| the_cpus(&numbers))))
}

/// Where the others are busy too, more CPUs of this host would not help: then it is [`cpu`] alone.
pub(super) fn cpu_pinned(window: &Window) -> Option<Finding> {
    let (host, own) = (window.host.as_ref()?, window.own_cpus()?);
    let (numbers, others_idle) = own.pinned.as_ref()?;
    let mut finding = busy_and_waited_for(Name::CpuPinned, host, &own, window);
    finding.load = finding.load.min(others_idle / OTHERS_IDLE);
    Some(
        finding
            .figure("the others idle", *others_idle, Unit::Share, Some(OTHERS_IDLE))
            .figure("CPUs that it may run on", own.count, Unit::Count, None)
            .figure("CPUs there are", host.cpus() as f64, Unit::Count, None)
            .who(Some(the_cpus(numbers))),
    )
}

/// The kernel counts waits for all CPUs together, each weighted by how busy it is. Where the server is pinned
/// they are put down to its own CPUs: where one of 16 CPUs is full and 15 are half busy, somebody waits 12 %
/// of the time by the kernel's count, and at the one CPU all the time.
fn busy_and_waited_for(name: Name, host: &host::Sample, own: &OwnCpus, window: &Window) -> Finding {
    let (all_cpus, busy) = (host.cpus() as f64, own.busy);
    let of_all_work = if own.pinned.is_some() && busy > 0.0 {
        (host.cpu.all.busy() * all_cpus / (busy * own.count)).max(1.0)
    } else {
        1.0
    };
    let pressure = host.pressure.cpu.map(|pressure| (pressure.some * of_all_work).min(1.0));
    let runnable = host.cpu.running.saturating_sub(1) as f64 / own.count;
    let (waits, threshold) = pressure.map_or((runnable, RUNNABLE), |some| (some, WAITS));
    let load = least([(busy, BUSY), (waits, threshold)]);
    // Who waits for a page waits for no CPU.
    let may_wait = (window.rest() - page_reads(window)).max(0.0);
    let what = if own.pinned.is_some() { "of the CPUs that it may run on, busy" } else { "CPU busy" };
    let finding = Finding::new(name, load, waits.min(1.0) * may_wait).ceiling(busy).figure(
        what,
        busy,
        Unit::Share,
        Some(BUSY),
    );
    match pressure {
        Some(some) => {
            finding.figure("time in which somebody waited for a CPU", some, Unit::Share, Some(WAITS))
        }
        None => finding.figure("runnable tasks a CPU", runnable, Unit::Count, Some(RUNNABLE)),
    }
}

/// `CPU 3`, `CPUs 0-3,8`.
fn the_cpus(numbers: &[u32]) -> String {
    let ranges = numbers.chunk_by(|a, b| a + 1 == *b).map(|range| match range {
        [first, .., last] => format!("{first}-{last}"),
        _ => range.iter().map(u32::to_string).collect(),
    });
    let plural = if numbers.len() == 1 { "" } else { "s" };
    format!("CPU{plural} {}", ranges.collect::<Vec<_>>().join(","))
}

/// A statement runs on one CPU, however many there are. The scheduler moves it about, so no single CPU need
/// look busy: it is the sum that is about one, with about one session at work, and that one at the same
/// statement for long. (Many short statements may add up to one CPU and one session too, and are no
/// bottleneck.) Where the server's process is known, what others keep busy is left out: a backup's CPU beside
/// a session that sends its rows to a slow client would look the same.
pub(super) fn one_session(window: &Window) -> Option<Finding> {
    let (own, server) = (window.own_cpus()?, window.server.as_ref()?.with_sessions()?);
    let (cores, least_active, most_active, long_s, working) = ONE_SESSION;
    let cpus = own.count;
    let (what, busy) = match window.server_cpus {
        Some(busy) => ("CPUs that the server keeps busy", busy),
        None => ("CPUs busy", own.busy * cpus),
    };
    let works = (window.rest() - page_reads(window)).max(0.0);
    let alone = server.active <= most_active && own.busy < BUSY && cpus >= 2.0;
    let evidence =
        [(busy, cores), (server.active, least_active), (server.longest_s, long_s), (works, working)];
    let load = if alone { least(evidence) } else { 0.0 };
    Some(
        Finding::new(Name::OneSession, load, works.min(1.0) * 0.9)
            .figure(what, busy, Unit::Count, Some(cores))
            .figure("CPUs there are", cpus, Unit::Count, None)
            .figure("sessions at work", server.active, Unit::Count, Some(least_active))
            .figure("the longest is at its statement for", server.longest_s, Unit::Seconds, Some(long_s)),
    )
}

pub(super) fn steal(window: &Window) -> Option<Finding> {
    let steal = window.host.as_ref()?.cpu.all.steal;
    let finding = Finding::new(Name::Steal, steal / STEAL, (steal * 2.0).min(1.0) * window.rest());
    Some(finding.figure("CPU time taken by the host of this guest", steal, Unit::Share, Some(STEAL)))
}

pub(super) fn host_memory(window: &Window) -> Option<Finding> {
    let host = window.host.as_ref()?;
    let pressure = host.pressure.memory?;
    let swap = host.memory.swapped_in_per_s;
    let killed = host.memory.killed as f64;
    let relieved = greatest([(swap, SHORT.1), (killed, SHORT.2)]);
    let short = least([(pressure.some, SHORT.0), (relieved, 1.0)]);
    let load = greatest([(pressure.full, STALLED), (short, 1.0)]);
    let load = host.memory.scanned_per_s.map_or(load, |scanned| least([(load, 1.0), (scanned, SCANNED)]));
    let level = host.memory.level;
    let available = if level.total > 0 { level.available as f64 / level.total as f64 } else { 0.0 };
    let mut finding = Finding::new(Name::HostMemory, load, pressure.some);
    if let Some(scanned) = host.memory.scanned_per_s {
        finding = finding.figure("pages looked at for the host", scanned, Unit::PerSecond, Some(SCANNED));
    }
    Some(
        finding
            .figure("time in which everybody waited for memory", pressure.full, Unit::Share, Some(STALLED))
            .figure("time in which somebody did", pressure.some, Unit::Share, Some(SHORT.0))
            .figure("pages back from swap", swap, Unit::PerSecond, Some(SHORT.1))
            .figure("programs killed for want of memory", killed, Unit::Count, Some(SHORT.2))
            .figure("memory available", available, Unit::Share, None),
    )
}
