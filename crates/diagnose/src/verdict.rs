//! The bottleneck of a server, with evidence: pure functions of samples and ceilings, one table of rules
//! ([`RULES`]).
//!
//! Each rule looks at a window of some seconds and finds three figures:
//! - `load`: how far things are towards what the rule calls a bottleneck, 1 where its thresholds are just
//!   met. Where all of several must hold it is the least of value / threshold, where one is enough the
//!   greatest. It never falls when evidence grows.
//! - `weight`, 0 to 1: how much of the sessions' waiting it explains. Sessions at work are shared out: those
//!   in row locks, metadata locks and commits are seen as such; only the rest can be waiting for a CPU, and
//!   of that what reading missed pages takes is seen too. Named is the rule of the greatest weight among
//!   those with a load of 1 or more, the next is the runner-up.
//! - `ceiling`, 0 to 1: how much of something that has an end is used. Without a bottleneck the greatest of
//!   these is the answer: "no bottleneck: 42 % of the tightest ceiling".
//!
//! A cause goes before its effects: a full lock queue fills the connections, a thrashing host makes its disk
//! slow. Such pairs stand in the table (`explains`); the effect can then be no more than the runner-up.
//!
//! Worked example: 40 sessions at work, 32 in row locks, 2 in commits; two CPUs, 90 % busy, somebody waits
//! for them 60 % of the time. Row locks: load 0.8 / 0.2 = 4, weight 0.8. CPU: load min(0.90 / 0.85, 0.6 /
//! 0.2) = 1.06, weight 0.6 * (1 - 34 / 40) = 0.09. Named: row locks; runner-up: CPU.
//!
//! What is deliberately no evidence by itself: `iowait` and `pressure/io` (a thread that waits in an io_uring
//! for nothing counts; MariaDB's do), a disk's `%util` (SSDs work in parallel), the load average (it mixes
//! CPU and disk), the buffer pool's hit ratio.

mod compute;
mod elsewhere;
mod engine;
mod limit;
mod lock;
mod network;
mod replication;
mod request;
mod rule;
mod settle;
mod storage;
#[cfg(test)]
mod tests;
mod usual;

pub use elsewhere::{Application, Vantage};
pub use request::{EndpointRequests, RequestBaseline, RequestComparison, RequestTimes};
pub use rule::{RULES, Rule};
pub use settle::Settler;
pub use usual::{Timing, TimingBaseline};

use crate::{host, server};
use serde::{Deserialize, Serialize};

/// What a verdict is found from. What is not known is `None`; rules that need it do not judge.
#[derive(Clone, Debug, Default)]
pub struct Window {
    /// The host that the server runs on.
    pub host: Option<host::Sample>,
    pub server: Option<server::Sample>,
    /// The disk that holds the server's data, by the name it has in the host's sample; without it any disk
    /// counts.
    pub data_disk: Option<String>,
    /// Where that is a volume (LVM, md), the disks that it lies on, which alone count its flushes.
    pub disks_below: Vec<String>,
    /// CPU seconds a second that the server's process uses; the host's CPUs may be busy with others.
    pub server_cpus: Option<f64>,
    /// The cgroup limits that the server lives under.
    pub limits: Option<host::cgroup::Sample>,
    /// Room of the file system that holds its data.
    pub space: Option<Space>,
    /// How far behind a replica is by positions, milliseconds.
    pub lag_ms: Option<f64>,
    /// Where we stand as seen from the server.
    pub vantage: Option<Vantage>,
    /// How an application in front of the server does.
    pub application: Option<Application>,
    /// What its requests spend where, by a router that sees them: those of the endpoint that has slowed down
    /// most.
    pub requests: Option<RequestComparison>,
    /// What this host can do at most, as measured.
    pub ceilings: Ceilings,
}

/// Room of a file system.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Space {
    /// A directory in it.
    pub path: String,
    /// Bytes.
    pub total: u64,
    /// Bytes that a server may still write.
    pub available: u64,
    /// When it is full if it goes on as in the last ten minutes and more, seconds from now; `None` where it
    /// does not fill.
    pub full_in_s: Option<f64>,
}

/// What this host can do at most. Nothing is assumed where nothing was measured: then rules fall back on
/// thresholds that hold for any machine, and say so by being less sure.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ceilings {
    /// The disk that the figures of a disk are of; without it they count for any.
    pub disk: Option<String>,
    /// Mean time of a random read of an otherwise idle disk, milliseconds.
    pub idle_read_ms: Option<f64>,
    /// Mean time of a write, likewise.
    pub idle_write_ms: Option<f64>,
    /// Random reads of a page a second.
    pub reads_per_s: Option<f64>,
    /// Random writes of a page a second.
    pub writes_per_s: Option<f64>,
    /// Bytes a second of large requests.
    pub disk_bytes_per_s: Option<f64>,
    /// What the network carries each way, bytes a second, where the driver does not say.
    pub network_bytes_per_s: Option<f64>,
}

/// The bottlenecks that have a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Name {
    /// Not enough CPU.
    Cpu,
    /// The host of this guest takes CPU away.
    Steal,
    /// Memory of the host is short.
    HostMemory,
    /// The disk takes long.
    DiskLatency,
    /// Commits wait for the disk's flushes.
    FlushBound,
    /// The buffer pool is too small for what is read.
    BufferPool,
    /// One CPU handles all packets.
    SoftirqOnOneCpu,
    PacketDrops,
    /// The network interface is full.
    Nic,
    /// The table of neighbours is full.
    NeighbourTable,
    /// The table of tracked connections is full.
    ConntrackTable,
    /// The CPU limit of the server's cgroup.
    CpuLimit,
    /// The server may run on some of the CPUs only.
    CpuPinned,
    /// The memory limit of the server's cgroup.
    MemoryLimit,
    /// A limit of IO of the server's cgroup.
    IoLimit,
    /// The limit of threads of the server's cgroup or of its user.
    ThreadLimit,
    /// The limit of open files of the server's process.
    OpenFiles,
    /// The file system with the data is nearly full.
    DiskSpace,
    /// Segments are sent again.
    Retransmits,
    /// Somebody holds a lock on everything.
    GlobalLock,
    /// The redo log is too small.
    RedoLog,
    /// An old transaction holds purge back.
    Purge,
    /// Temporary tables go to disk.
    TemporaryTables,
    /// Connections are begun for a statement or two.
    NewConnections,
    /// The server lets fewer statements work than could.
    Admission,
    /// The cache of open tables is too small.
    TableCache,
    /// One statement that looks at many rows takes most of the time.
    OneStatement,
    /// One session keeps one CPU busy while the others are idle.
    OneSession,
    /// Commits wait for a replica.
    SemiSync,
    /// Commits were begun and do not end, while the server answers.
    CommitsHang,
    /// Sessions wait for each other's rows.
    RowLocks,
    /// Sessions wait for a table's definition.
    MetadataLocks,
    /// Sessions wait for a whole table.
    TableLocks,
    /// Inserts wait for a table's auto-increment values.
    AutoIncrement,
    /// Sessions wait for a latch inside of InnoDB.
    Latches,
    /// No more connections fit.
    Connections,
    /// A replica falls behind.
    ReplicationLag,
    /// One thread applies all changes.
    SingleThreadedApply,
    /// The applier looks for each row of a change by reading the table.
    ApplyWithoutKey,
    /// Statements spend their time on the way between zones.
    CrossZone,
    /// The database waits for the application.
    NotTheDatabase,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    pub what: String,
    pub value: f64,
    pub unit: Unit,
    /// Where it begins to count, if it has such a place.
    pub threshold: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// 0 to 1, shown as percent.
    Share,
    /// A number of things.
    Count,
    /// Things a second.
    PerSecond,
    /// Bytes a second.
    BytesPerSecond,
    Bytes,
    /// Milliseconds.
    Milliseconds,
    Seconds,
}

/// A value with its unit.
pub fn figure(value: f64, unit: Unit) -> String {
    let short = |value: f64| match value.abs() {
        v if v >= 100.0 || v == 0.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    };
    let bytes = |value: f64| {
        let steps = ["B", "KiB", "MiB", "GiB", "TiB"];
        let step = (value.max(1.0).log2() / 10.0).floor().min(4.0);
        format!("{} {}", short(value / 1024f64.powf(step)), steps[step as usize])
    };
    match unit {
        Unit::Share => format!("{:.0} %", value * 100.0),
        Unit::Count => short(value),
        Unit::PerSecond => format!("{}/s", short(value)),
        Unit::BytesPerSecond => format!("{}/s", bytes(value)),
        Unit::Bytes => bytes(value),
        Unit::Milliseconds => format!("{} ms", short(value)),
        Unit::Seconds => format!("{} s", short(value)),
    }
}

/// What one rule found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    pub name: Name,
    /// How far towards it, 1 where it is called one.
    pub load: f64,
    /// How much of the waiting it explains, 0 to 1.
    pub weight: f64,
    /// How much of something that has an end is used, 0 to 1.
    pub ceiling: Option<f64>,
    pub evidence: Vec<Figure>,
    /// Who or what in particular: a session, a device, a CPU.
    pub who: Option<String>,
}

/// How sure a verdict is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Confidence {
    /// Thresholds are met, another explains nearly as much.
    Possible,
    /// It explains clearly more than any other.
    Likely,
    /// And its thresholds are met by half as much again.
    Certain,
}

/// The answer for one window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The bottleneck, if there is one.
    pub bottleneck: Option<Finding>,
    pub sure: Option<Confidence>,
    /// What would be next.
    pub runner_up: Option<Finding>,
    /// The ceiling that is used most, and how much, 0 to 1.
    pub tightest: Option<(Name, f64)>,
    /// Rules that could not judge for want of evidence.
    pub not_judged: Vec<Name>,
}

/// What every rule that can judge finds in a window, in the order of the table.
pub fn find(window: &Window) -> Vec<Finding> {
    RULES.iter().filter_map(|rule| (rule.judge)(window)).collect()
}

/// Judges a window by itself. [`Settler`] keeps verdicts of one window after another from flapping.
pub fn judge(window: &Window) -> Verdict {
    verdict(find(window))
}

/// The verdict that findings add up to.
pub(crate) fn verdict(findings: Vec<Finding>) -> Verdict {
    let not_judged =
        RULES.iter().map(|rule| rule.name).filter(|name| findings.iter().all(|f| f.name != *name)).collect();
    let ceilings = findings.iter().filter_map(|f| Some((f.name, f.ceiling?)));
    let tightest = ceilings.max_by(|a, b| a.1.total_cmp(&b.1));
    let ranked = rank(findings);
    let called = ranked.iter().filter(|f| f.load >= 1.0).count();
    let mut ranked = ranked.into_iter();
    let bottleneck = if called > 0 { ranked.next() } else { None };
    let runner_up = ranked.next().filter(|f| f.load > 0.0);
    let sure = bottleneck.as_ref().map(|first| sure(first, runner_up.as_ref()));
    Verdict { bottleneck, sure, runner_up, tightest, not_judged }
}

/// Called ones first, causes before their effects, then by weight; the others by how near they are.
fn rank(mut findings: Vec<Finding>) -> Vec<Finding> {
    let called = findings.iter().filter(|f| f.load >= 1.0);
    let effects: Vec<Name> = called.flat_map(Finding::explains).copied().collect();
    let is_effect = |name: Name| effects.contains(&name);
    let key = |f: &Finding| {
        let called = f.load >= 1.0;
        (called, called && !is_effect(f.name), if called { f.weight } else { f.load })
    };
    findings.sort_by(|a, b| {
        let (a, b) = (key(a), key(b));
        b.0.cmp(&a.0).then(b.1.cmp(&a.1)).then(b.2.total_cmp(&a.2))
    });
    findings
}

fn sure(first: &Finding, second: Option<&Finding>) -> Confidence {
    let explained = second.is_some_and(|second| first.explains().contains(&second.name));
    let rival = second.filter(|second| second.load >= 1.0 && !explained).map_or(0.0, |second| second.weight);
    match (first.weight > rival * 1.3, first.load >= 1.5) {
        (false, _) => Confidence::Possible,
        (true, false) => Confidence::Likely,
        (true, true) => Confidence::Certain,
    }
}

/// The CPUs that a server may run on; the host's where nothing pins it.
#[derive(Clone, Debug)]
pub(crate) struct OwnCpus {
    pub count: f64,
    /// Share of their time in which they worked, 0 to 1.
    pub busy: f64,
    /// Their numbers, and how idle the host's other CPUs are (0 to 1), where the server is pinned.
    pub pinned: Option<(Vec<u32>, f64)>,
}

impl Window {
    /// `None` without a host.
    pub(crate) fn own_cpus(&self) -> Option<OwnCpus> {
        let host = self.host.as_ref()?;
        let all = OwnCpus { count: host.cpus() as f64, busy: host.cpu.all.busy(), pinned: None };
        let Some(allowed) = self.limits.as_ref().and_then(|limits| limits.pinned_to.as_ref()) else {
            return Some(all);
        };
        let is_own = |number: &u32| allowed.contains(number);
        let (own, others): (Vec<_>, Vec<_>) = host.cpu.each.iter().partition(|(number, _)| is_own(number));
        if own.is_empty() || others.is_empty() {
            return Some(all);
        }
        let busy = |of: &[(u32, host::cpu::Shares)]| {
            of.iter().map(|(_, shares)| shares.busy()).sum::<f64>() / of.len() as f64
        };
        let numbers = own.iter().map(|(number, _)| *number).collect();
        let pinned = Some((numbers, 1.0 - busy(&others)));
        Some(OwnCpus { count: own.len() as f64, busy: busy(&own), pinned })
    }

    /// Share of the sessions at work that are not seen to wait for a lock, a latch or a commit, 0 to 1; 1
    /// without a server.
    pub(crate) fn rest(&self) -> f64 {
        let Some(server) = self.server.as_ref().filter(|server| server.active > 0.0) else { return 1.0 };
        let locks = server.in_row_lock
            + server.in_metadata_lock
            + server.in_global_lock
            + server.in_table_lock
            + server.in_auto_increment;
        // A commit that waits for a latch is one session, not two.
        let latches = server.in_latch.unwrap_or(0.0) - server.in_latch_and_commit;
        let seen = locks + latches.max(0.0) + server.in_commit;
        (1.0 - seen / server.active).clamp(0.0, 1.0)
    }
}

impl Finding {
    pub(crate) fn new(name: Name, load: f64, weight: f64) -> Self {
        let finite = |value: f64| if value.is_finite() { value.max(0.0) } else { 0.0 };
        let (load, weight) = (finite(load), finite(weight).min(1.0));
        Self { name, load, weight, ceiling: None, evidence: Vec::new(), who: None }
    }

    /// Bottlenecks that are its effects. A disk that fills up holds nobody back yet, one that is full does.
    pub(crate) fn explains(&self) -> &'static [Name] {
        let still_fills = self.name == Name::DiskSpace && self.ceiling.is_none_or(|used| used < limit::FULL);
        if still_fills { &[] } else { rule::of(self.name).explains }
    }

    pub(crate) fn ceiling(mut self, used: f64) -> Self {
        self.ceiling = Some(if used.is_finite() { used.clamp(0.0, 1.0) } else { 0.0 });
        self
    }

    pub(crate) fn figure(
        mut self,
        what: impl Into<String>,
        value: f64,
        unit: Unit,
        threshold: Option<f64>,
    ) -> Self {
        self.evidence.push(Figure { what: what.into(), value, unit, threshold });
        self
    }

    pub(crate) fn who(mut self, who: Option<String>) -> Self {
        self.who = who;
        self
    }
}

/// All must hold: the least of value / threshold.
pub(crate) fn least<const N: usize>(of: [(f64, f64); N]) -> f64 {
    of.iter().map(|(value, threshold)| value / threshold).fold(f64::INFINITY, f64::min)
}

/// One is enough: the greatest.
pub(crate) fn greatest<const N: usize>(of: [(f64, f64); N]) -> f64 {
    of.iter().map(|(value, threshold)| value / threshold).fold(0.0, f64::max)
}
