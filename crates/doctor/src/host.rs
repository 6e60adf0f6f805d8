//! What this host allows: facts, and the findings that follow from them.
//!
//! Each finding asks what Headroom would do here. Whether io_uring and bpf(2) work is tried, not looked up: a
//! container's seccomp profile forbids them on a kernel that has both, and nothing but trying tells. Why they
//! do not work is read from the rest: the sysctl, the capabilities, the seccomp filter of this process.

pub mod gather;

use crate::Finding;
use config::{Config, DataPath};
use fleet::duration_text;
use std::path::PathBuf;
use std::time::Duration;

const HOST: &str = "this host";
/// Numbers of `capability.h`.
const NET_ADMIN: u32 = 12;
const SYS_ADMIN: u32 = 21;
const BPF: u32 = 39;
/// Linux that has all that relaying over io_uring takes, and all that zero-hop takes.
const RING_KERNEL: (u32, u32) = (6, 1);
const BPF_KERNEL: (u32, u32) = (5, 15);
/// The first Linux with io_uring at all.
const FIRST_RING_KERNEL: (u32, u32) = (5, 1);
const RELAYED: &str = "sessions are relayed with epoll, which works everywhere and costs more CPU";
const NO_BYPASS: &str = "zero-hop is not available: the relay is used";
const PRIVILEGES: &str = "docs/guide/privileges.md#zero-hop";

/// What was found on this host.
#[derive(Clone, Debug, PartialEq)]
pub struct HostFacts {
    /// As `uname -r` prints it.
    pub kernel: String,
    /// Who we are, and the effective capabilities, as in `/proc/self/status`.
    pub uid: u32,
    pub capabilities: u64,
    /// Whether system calls of this process go through a seccomp filter.
    pub seccomp_filter: bool,
    pub io_uring: RingOutcome,
    /// `kernel.io_uring_disabled`; `None` where the kernel does not have it.
    pub io_uring_disabled: Option<u32>,
    pub zero_hop: BypassOutcome,
    pub bpffs: Bpffs,
    /// Cores, and what the cgroup leaves of them, in cores.
    pub cores: usize,
    pub cpu_limit: Option<f64>,
    /// Bytes that the cgroup allows.
    pub memory_limit: Option<u64>,
    /// The hard limit of file descriptors; `None` is none.
    pub descriptors: Option<u64>,
    pub clock: Clock,
    /// Files that the agent reads and that this user cannot.
    pub unreadable: Vec<String>,
    /// Whether the kernel tells for how long tasks waited (`/proc/pressure`).
    pub pressure: bool,
    pub runtime_directory: RuntimeDirectory,
}

/// What came of setting up a ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RingOutcome {
    Available,
    /// EPERM or EACCES.
    NotAllowed,
    /// ENOSYS.
    Missing,
    TooOld,
    Failed(String),
}

/// What came of asking whether programs can be brought into the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BypassOutcome {
    Available,
    /// The kernel says no to this process.
    NotPermitted,
    /// No cgroup v2 is mounted.
    NoCgroup,
    /// Anything else, in words that say what to do.
    Failed(String),
}

/// Where programs are pinned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bpffs {
    NotMounted,
    /// Mounted, and our directory there can be made or written.
    Writable(PathBuf),
    /// Mounted, and closed to this user.
    Closed(PathBuf),
}

/// Where routers of this user take commands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuntimeDirectory {
    Usable(PathBuf),
    /// Nowhere: why, in words that say what to do.
    Unusable(String),
}

/// Whether this host's clock is kept right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    Synchronised,
    Unsynchronised,
    /// Nothing here says.
    Unknown,
}

/// What a configuration asks of the host.
#[derive(Clone, Debug, PartialEq)]
pub struct Demands {
    /// Sessions of all listeners together.
    pub sessions: u64,
    /// Threads of the router; `None` is as many as it takes by itself.
    pub threads: Option<usize>,
    pub data_path: DataPath,
    pub zero_hop: config::ZeroHop,
}

impl Demands {
    /// What this configuration asks for; without listeners, what one default listener does.
    pub fn of(config: Option<&Config>) -> Self {
        let usual = config::Listener::DEFAULT_MAX_SESSIONS as u64;
        let Some(config) = config else {
            let (data_path, zero_hop) = (DataPath::Auto, config::ZeroHop::Auto);
            return Self { sessions: usual, threads: None, data_path, zero_hop };
        };
        let sessions = config.listeners.iter().fold(0u64, |sum, l| sum.saturating_add(l.max_sessions as u64));
        let sessions = if config.listeners.is_empty() { usual } else { sessions };
        let config::RouterConfig { threads, data_path, zero_hop, .. } = config.router;
        Self { sessions, threads, data_path, zero_hop }
    }
}

impl HostFacts {
    fn may(&self, capability: u32) -> bool {
        self.capabilities >> capability & 1 == 1
    }

    fn is_root(&self) -> bool {
        self.uid == 0
    }
}

/// The findings, in the order of the page.
pub fn findings(facts: &HostFacts, demands: &Demands) -> Vec<Finding> {
    vec![
        kernel(facts),
        account(facts),
        io_uring(facts, demands),
        zero_hop(facts, demands),
        cpu(facts, demands),
        memory(facts),
        descriptors(facts, demands),
        clock(facts),
        procfs(facts),
        pressure(facts),
        runtime_directory(facts),
    ]
}

/// `(6, 12)` of `6.12.4-amd64`.
fn version(kernel: &str) -> Option<(u32, u32)> {
    let mut numbers = kernel.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

fn is_at_least(facts: &HostFacts, least: (u32, u32)) -> bool {
    version(&facts.kernel).is_some_and(|version| version >= least)
}

fn kernel(facts: &HostFacts) -> Finding {
    let found = format!("Linux {}", facts.kernel);
    if is_at_least(facts, RING_KERNEL) {
        return Finding::pass(HOST, "kernel", found);
    }
    let lost =
        if is_at_least(facts, BPF_KERNEL) { RELAYED.to_owned() } else { format!("{RELAYED}; {NO_BYPASS}") };
    let mend = "Linux 6.1 or later has all that Headroom uses; zero-hop takes 5.15";
    Finding::warn(HOST, "kernel", found).costs(lost).mend(mend)
}

fn account(facts: &HostFacts) -> Finding {
    let caps: Vec<_> = [("CAP_NET_ADMIN", NET_ADMIN), ("CAP_SYS_ADMIN", SYS_ADMIN), ("CAP_BPF", BPF)]
        .into_iter()
        .filter(|(_, number)| facts.may(*number))
        .map(|(name, _)| name)
        .collect();
    let caps = if caps.is_empty() { "no capabilities that count here".to_owned() } else { caps.join(", ") };
    let seccomp = if facts.seccomp_filter { ", under a seccomp filter" } else { "" };
    let who = if facts.is_root() { "root".to_owned() } else { format!("user {}", facts.uid) };
    let finding = Finding::pass(HOST, "account", format!("{who}, {caps}{seccomp}"));
    match facts.is_root() {
        true => finding,
        false => {
            finding.costs("enough for all but settings of this host (headroom knob, trial), which take root")
        }
    }
}

fn io_uring(facts: &HostFacts, demands: &Demands) -> Finding {
    let filter = "a container's seccomp filter forbids it";
    let allow =
        "allow io_uring_setup, io_uring_enter and io_uring_register in the container's seccomp profile";
    let (found, mend) = match (&facts.io_uring, facts.io_uring_disabled) {
        (RingOutcome::Available, _) => return Finding::pass(HOST, "io_uring", "a ring was set up"),
        (RingOutcome::NotAllowed, Some(level @ 1..)) => (
            format!("forbidden by kernel.io_uring_disabled = {level}"),
            "sysctl -w kernel.io_uring_disabled=0".to_owned(),
        ),
        (RingOutcome::NotAllowed, _) if facts.seccomp_filter => (filter.to_owned(), allow.to_owned()),
        (RingOutcome::NotAllowed, _) => (
            "the system forbids it (a security module)".to_owned(),
            "allow io_uring for this program in SELinux's or AppArmor's policy".to_owned(),
        ),
        // Profiles that answer "no such call" hide what the kernel has.
        (RingOutcome::Missing, _) if facts.seccomp_filter && is_at_least(facts, FIRST_RING_KERNEL) => {
            (filter.to_owned(), allow.to_owned())
        }
        (RingOutcome::Missing, _) => {
            ("this kernel has none".to_owned(), "Linux 6.1 or later, built with CONFIG_IO_URING".to_owned())
        }
        (RingOutcome::TooOld, _) => ("this kernel's is too old".to_owned(), "Linux 6.1 or later".to_owned()),
        (RingOutcome::Failed(why), _) => (
            format!("it cannot be set up: {why}"),
            "ulimit -Hl and the memory limit of the cgroup".to_owned(),
        ),
    };
    if demands.data_path == DataPath::Epoll {
        return Finding::pass(HOST, "io_uring", format!("{found}; not asked for (data_path = \"epoll\")"));
    }
    let demanded = demands.data_path == DataPath::IoUring;
    let costs = if demanded { "the router does not start: data_path = \"io_uring\"" } else { RELAYED };
    Finding::warn(HOST, "io_uring", found).costs(costs).mend(mend).fail_if(demanded)
}

fn zero_hop(facts: &HostFacts, demands: &Demands) -> Finding {
    let Some((found, mend)) = bypass_obstacle(facts) else {
        return Finding::pass(HOST, "zero-hop", "connections can bypass the router");
    };
    if demands.zero_hop == config::ZeroHop::Off {
        return Finding::pass(HOST, "zero-hop", format!("{found}; not asked for (zero_hop = \"off\")"));
    }
    let demanded = demands.zero_hop == config::ZeroHop::Require;
    let costs = if demanded { "the router does not start: zero_hop = \"require\"" } else { NO_BYPASS };
    Finding::warn(HOST, "zero-hop", found).costs(costs).mend(mend).fail_if(demanded)
}

/// Why connections cannot bypass the router here, and what mends it.
fn bypass_obstacle(facts: &HostFacts) -> Option<(String, String)> {
    let entitled = facts.may(SYS_ADMIN) || facts.may(BPF) && facts.may(NET_ADMIN);
    let capabilities = || match facts.is_root() {
        true => {
            "add the capabilities BPF and NET_ADMIN (docker run --cap-add BPF --cap-add NET_ADMIN)".to_owned()
        }
        false => format!("run it as root, or with AmbientCapabilities=CAP_BPF CAP_NET_ADMIN ({PRIVILEGES})"),
    };
    let obstacle = |found: &str, mend: String| Some((found.to_owned(), mend));
    match &facts.zero_hop {
        BypassOutcome::Failed(why) => obstacle(why, "see docs/guide/zero-hop.md".to_owned()),
        BypassOutcome::NoCgroup => obstacle(
            "no cgroup v2 is mounted",
            "mount -t cgroup2 none /sys/fs/cgroup (systemd: systemd.unified_cgroup_hierarchy=1)".to_owned(),
        ),
        BypassOutcome::NotPermitted if entitled && facts.seccomp_filter => obstacle(
            "a container's seccomp filter forbids bpf(2)",
            "allow bpf in the container's seccomp profile, or run headroom on the host".to_owned(),
        ),
        BypassOutcome::NotPermitted if entitled => obstacle(
            "the system forbids bpf(2) (lockdown or a security module)",
            "cat /sys/kernel/security/lockdown; it must be none or integrity".to_owned(),
        ),
        BypassOutcome::NotPermitted => obstacle("this process may not use bpf(2)", capabilities()),
        BypassOutcome::Available if !entitled => {
            obstacle("this process may not load the programs", capabilities())
        }
        BypassOutcome::Available => match &facts.bpffs {
            Bpffs::Writable(_) => None,
            // We mount it ourselves.
            Bpffs::NotMounted if facts.may(SYS_ADMIN) => None,
            Bpffs::NotMounted => {
                obstacle("no bpffs is mounted", "mount -t bpf -o mode=0711 bpf /sys/fs/bpf".to_owned())
            }
            Bpffs::Closed(at) => obstacle(
                &format!("{} is closed to this user", at.display()),
                // systemd mounts it for root alone.
                format!(
                    "chmod o+x {at} && install -d -o {uid} -m 700 {at}/headroom ({PRIVILEGES})",
                    at = at.display(),
                    uid = facts.uid
                ),
            ),
        },
    }
}

fn cpu(facts: &HostFacts, demands: &Demands) -> Finding {
    let cores = format!("{} core{}", facts.cores, if facts.cores == 1 { "" } else { "s" });
    let Some(limit) = facts.cpu_limit else {
        return Finding::pass(HOST, "cpu", format!("{cores}, no quota"));
    };
    let found = format!("{cores}; the cgroup allows {limit:.1}");
    // By itself the router takes a thread for every four cores.
    let threads = demands.threads.unwrap_or_else(|| (facts.cores / 4).max(1));
    if limit >= threads as f64 {
        return Finding::pass(HOST, "cpu", found);
    }
    let (quota, fewer) = (format!("CPUQuota={}%", threads * 100), limit.floor().max(1.0));
    let mend = if threads as f64 > fewer { format!("{quota}, or [router] threads = {fewer}") } else { quota };
    Finding::warn(HOST, "cpu", found)
        .costs("the router is stopped in the middle of its work when the quota of a period is used up")
        .mend(mend)
}

fn memory(facts: &HostFacts) -> Finding {
    const NEEDED: u64 = 128 << 20;
    match facts.memory_limit {
        None => Finding::pass(HOST, "memory", "no limit"),
        Some(limit) if limit >= NEEDED => {
            Finding::pass(HOST, "memory", format!("the cgroup allows {} MiB", limit >> 20))
        }
        Some(limit) => Finding::warn(HOST, "memory", format!("the cgroup allows {} MiB", limit >> 20))
            .costs("with some thousand sessions the router is killed for want of memory")
            .mend("MemoryMax=256M or more"),
    }
}

fn descriptors(facts: &HostFacts, demands: &Demands) -> Finding {
    let needed = demands.sessions.saturating_mul(2).saturating_add(64);
    let Some(limit) = facts.descriptors else {
        return Finding::pass(HOST, "descriptors", "no limit of file descriptors");
    };
    let found = format!("at most {limit} file descriptors (ulimit -Hn)");
    if limit >= needed {
        return Finding::pass(HOST, "descriptors", found);
    }
    let room = limit.saturating_sub(64) / 2;
    Finding::warn(HOST, "descriptors", found)
        .costs(format!(
            "enough for {room} sessions; listeners take {}, and clients beyond {room} are refused",
            demands.sessions
        ))
        .mend(format!(
            "LimitNOFILE={needed} in the unit (ulimit -Hn {needed} in a shell), or a smaller max_sessions"
        ))
}

fn clock(facts: &HostFacts) -> Finding {
    match facts.clock {
        Clock::Synchronised => Finding::pass(HOST, "clock", "synchronised"),
        Clock::Unsynchronised => Finding::warn(HOST, "clock", "not synchronised")
            .costs("times in logs and histories of several hosts do not fit together")
            .mend("timedatectl set-ntp true"),
        Clock::Unknown => Finding::unknown(HOST, "clock", "nothing here says whether it is synchronised")
            .mend("timedatectl show -p NTPSynchronized (on the host, if this is a container)"),
    }
}

fn procfs(facts: &HostFacts) -> Finding {
    if facts.unreadable.is_empty() {
        return Finding::pass(HOST, "agent", "all that the agent reads of /proc and /sys can be read");
    }
    Finding::warn(HOST, "agent", format!("cannot be read: {}", facts.unreadable.join(", ")))
        .costs("headroom watch and agent show no figures of these, and no verdict that takes them")
        .mend("mount /proc and /sys as the distribution does (no ProcSubset=pid, no masked paths)")
}

fn pressure(facts: &HostFacts) -> Finding {
    if facts.pressure {
        return Finding::pass(HOST, "pressure", "the kernel tells how long tasks waited (PSI)");
    }
    Finding::warn(HOST, "pressure", "no /proc/pressure")
        .costs("verdicts about CPU, memory and disk lack one of their figures")
        .mend("psi=1 on the kernel's command line (CONFIG_PSI)")
}

fn runtime_directory(facts: &HostFacts) -> Finding {
    match &facts.runtime_directory {
        RuntimeDirectory::Usable(directory) => {
            Finding::pass(HOST, "runtime directory", directory.display().to_string())
        }
        RuntimeDirectory::Unusable(why) => Finding::warn(HOST, "runtime directory", why.as_str())
            .costs("no command reaches a router (drain, undrain, record), and no other process takes over from it")
            .mend("RuntimeDirectory=headroom and RuntimeDirectoryMode=0700 in the unit, or HEADROOM_RUNTIME_DIR"),
    }
}

/// How far two clocks may be apart before their logs mislead.
pub(crate) const SKEW: Duration = Duration::from_secs(1);

/// `1.2s` without its sign.
pub(crate) fn seconds(duration: Duration) -> String {
    duration_text(Duration::from_millis(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)))
}

#[cfg(test)]
mod tests;
