//! The facts of this host: what is tried, and what is read. Nothing stays of it.

use super::{Bpffs, BypassOutcome, Clock, HostFacts, RingOutcome, RuntimeDirectory};
use diagnose::host::cgroup::Limits;
use rustix::fs::Access;
use rustix::process::{Resource, getrlimit};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What the agent reads (`diagnose/src/host`).
const READ_BY_THE_AGENT: [&str; 9] = [
    "/proc/stat",
    "/proc/meminfo",
    "/proc/vmstat",
    "/proc/diskstats",
    "/proc/interrupts",
    "/proc/softirqs",
    "/proc/net/dev",
    "/proc/net/snmp",
    "/proc/net/softnet_stat",
];
/// The smallest ring that shows whether one is allowed.
const SMALL: uring::Size = uring::Size { requests: 8, completions: 16, chunks: 2, chunk_bytes: 4096 };

/// Looks at this host. Where routers take commands the caller knows, who reads the environment.
pub fn facts(runtime_directory: RuntimeDirectory) -> HostFacts {
    let status = text("/proc/self/status");
    let (cpu_limit, memory_limit) = cgroup_limits();
    HostFacts {
        kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
        uid: rustix::process::geteuid().as_raw(),
        capabilities: field(&status, "CapEff:")
            .and_then(|hex| u64::from_str_radix(hex, 16).ok())
            .unwrap_or(0),
        seccomp_filter: field(&status, "Seccomp:") == Some("2"),
        io_uring: io_uring(),
        io_uring_disabled: text("/proc/sys/kernel/io_uring_disabled").trim().parse().ok(),
        zero_hop: zero_hop(),
        bpffs: bpffs(&text("/proc/self/mounts")),
        cores: std::thread::available_parallelism().map_or(1, usize::from),
        cpu_limit,
        memory_limit,
        descriptors: getrlimit(Resource::Nofile).maximum,
        clock: clock(),
        unreadable: unreadable(),
        pressure: std::fs::read("/proc/pressure/cpu").is_ok(),
        runtime_directory,
    }
}

fn io_uring() -> RingOutcome {
    // On a thread of its own, which the ring belongs to.
    let tried = std::thread::spawn(|| uring::Ring::new(SMALL).map(drop)).join();
    match tried {
        Ok(Ok(())) => RingOutcome::Available,
        Ok(Err(uring::Unavailable::NotAllowed)) => RingOutcome::NotAllowed,
        Ok(Err(uring::Unavailable::Missing)) => RingOutcome::Missing,
        Ok(Err(uring::Unavailable::TooOld)) => RingOutcome::TooOld,
        Ok(Err(uring::Unavailable::Failed(error))) => RingOutcome::Failed(error.to_string()),
        Err(_) => RingOutcome::Failed("trying ended unexpectedly".to_owned()),
    }
}

fn zero_hop() -> BypassOutcome {
    match zerohop::possible() {
        Ok(()) => BypassOutcome::Available,
        Err(zerohop::Error::NotPermitted { .. }) => BypassOutcome::NotPermitted,
        Err(zerohop::Error::NoCgroup) => BypassOutcome::NoCgroup,
        Err(error) => BypassOutcome::Failed(error.to_string()),
    }
}

/// Where bpffs is mounted, and whether our directory there can be made or written.
fn bpffs(mounts: &str) -> Bpffs {
    let fields = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let mut of_kind = fields.filter(|fields| fields.get(2) == Some(&"bpf"));
    let Some(at) = of_kind.find_map(|fields| fields.get(1).map(PathBuf::from)) else {
        return Bpffs::NotMounted;
    };
    let home = at.join("headroom");
    let open = |path: &Path| rustix::fs::access(path, Access::WRITE_OK | Access::EXEC_OK).is_ok();
    let writable = if home.exists() { open(&home) } else { open(&at) };
    if writable { Bpffs::Writable(at) } else { Bpffs::Closed(at) }
}

/// Cores and bytes that the cgroup of this process allows.
fn cgroup_limits() -> (Option<f64>, Option<u64>) {
    let Some(limits) = Limits::of(std::process::id(), Path::new("/proc")) else { return (None, None) };
    (limits.cpu_quota().map(|(_, cpus)| cpus), limits.memory_limit())
}

/// What systemd says: of itself, or of whatever else keeps the clock.
fn clock() -> Clock {
    if Path::new("/run/systemd/timesync/synchronized").exists() {
        return Clock::Synchronised;
    }
    let mut command = Command::new("timedatectl");
    command
        .args(["show", "--property=NTPSynchronized", "--value"])
        .stdin(Stdio::null())
        .stderr(Stdio::null());
    let Ok(output) = command.output() else { return Clock::Unknown };
    match String::from_utf8_lossy(&output.stdout).trim() {
        "yes" => Clock::Synchronised,
        "no" => Clock::Unsynchronised,
        _ => Clock::Unknown,
    }
}

fn unreadable() -> Vec<String> {
    let closed = |path: &&&str| std::fs::read(path).is_err();
    let mut closed: Vec<_> = READ_BY_THE_AGENT.iter().filter(closed).map(|path| (*path).to_owned()).collect();
    if std::fs::read_dir("/sys/block").is_err() {
        closed.push("/sys/block".to_owned());
    }
    closed
}

fn text(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_the_status_are_found_by_name() {
        let status = "Name:\theadroom\nCapEff:\t000001ffffffffff\nSeccomp:\t2\nSeccomp_filters:\t1\n";
        assert_eq!(field(status, "Seccomp:"), Some("2"));
        assert_eq!(field(status, "CapEff:"), Some("000001ffffffffff"));
        assert_eq!(field(status, "NoNewPrivs:"), None);
    }

    #[test]
    fn a_host_without_bpffs_says_so() {
        assert_eq!(bpffs("proc /proc proc rw 0 0\n"), Bpffs::NotMounted);
        assert_eq!(bpffs("bpf /nowhere/at/all bpf rw 0 0\n"), Bpffs::Closed("/nowhere/at/all".into()));
    }
}
