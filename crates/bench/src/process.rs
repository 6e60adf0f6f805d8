//! What a process costs: CPU time and resident memory, from `/proc/<pid>`; and on which cores it runs.
//!
//! CPU is user + system time of all its threads, ended ones included, in ticks of 10 ms: over 8 s at half a
//! core that is 400 ticks, 0.25 % each. Work that the kernel does for a packet in the receiver's stead
//! (loopback delivers in the sender's system call) is charged to whoever sent it, alike for every subject.

use anyhow::Context;
use rustix::thread::{CpuSet, Pid, sched_setaffinity};
use serde::Serialize;
use std::ops::Range;
use std::time::Duration;

/// User and system time are counted in these (`USER_HZ`), 100 a second on every Linux that this runs on.
const TICK: Duration = Duration::from_millis(10);

/// Resident memory of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct Memory {
    /// `VmRSS`: pages in memory, those of its program file and libraries included.
    pub(crate) resident_kib: u64,
    /// `RssAnon`: its own data alone.
    pub(crate) anonymous_kib: u64,
}

/// CPU time by where it went. The kernel knows the sum exactly and divides it by where its ticks found the
/// process: the shares of n ticks are known to within about 1/sqrt(n), 5 % for 5 s of a core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cpu {
    /// In the program's own code and its libraries.
    pub(crate) user: Duration,
    /// In the kernel, on its behalf.
    pub(crate) system: Duration,
}

impl Cpu {
    /// All of it.
    pub(crate) fn total(self) -> Duration {
        self.user + self.system
    }
}

/// CPU time that the process has used since it started.
pub(crate) fn cpu(pid: u32) -> anyhow::Result<Duration> {
    cpu_by_place(pid).map(Cpu::total)
}

/// The same, by where it went.
pub(crate) fn cpu_by_place(pid: u32) -> anyhow::Result<Cpu> {
    let path = format!("/proc/{pid}/stat");
    let text = std::fs::read_to_string(&path).with_context(|| format!("reading {path}"))?;
    parse_cpu(&text).with_context(|| format!("{path} does not read like proc(5) says"))
}

/// Memory that the process has resident now.
pub(crate) fn memory(pid: u32) -> anyhow::Result<Memory> {
    let path = format!("/proc/{pid}/status");
    let text = std::fs::read_to_string(&path).with_context(|| format!("reading {path}"))?;
    parse_memory(&text).with_context(|| format!("{path} does not read like proc(5) says"))
}

/// Lets all threads of a process, and those that they start, run on these cores alone.
pub(crate) fn run_on(pid: u32, cores: Range<usize>) -> anyhow::Result<()> {
    let set = set_of(cores.clone());
    let path = format!("/proc/{pid}/task");
    for thread in std::fs::read_dir(&path).with_context(|| format!("reading {path}"))? {
        let Some(thread) = thread?.file_name().to_string_lossy().parse().ok().and_then(Pid::from_raw) else {
            continue;
        };
        match sched_setaffinity(Some(thread), &set) {
            // It ended meanwhile.
            Ok(()) | Err(rustix::io::Errno::SRCH) => {}
            Err(error) => return Err(error).with_context(|| format!("running a server on cores {cores:?}")),
        }
    }
    Ok(())
}

/// Lets this thread run on this core alone.
pub(crate) fn run_here_on(core: usize) -> anyhow::Result<()> {
    sched_setaffinity(None, &set_of(core..core + 1)).with_context(|| format!("running on core {core} alone"))
}

fn set_of(cores: Range<usize>) -> CpuSet {
    let mut set = CpuSet::new();
    cores.for_each(|core| set.set(core));
    set
}

/// Fields 14 and 15; the name in field 2 may hold spaces and brackets, so counting starts after its last
/// bracket.
fn parse_cpu(stat: &str) -> Option<Cpu> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_ascii_whitespace().skip(11);
    let mut time = || Some(TICK * fields.next()?.parse::<u32>().ok()?);
    Some(Cpu { user: time()?, system: time()? })
}

fn parse_memory(status: &str) -> Option<Memory> {
    let kib = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim_end_matches("kB").trim().parse().ok()
    };
    Some(Memory { resident_kib: kib("VmRSS:")?, anonymous_kib: kib("RssAnon:")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_runs_where_it_is_told_to() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let moved = run_on(child.id(), 0..1);
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        moved.unwrap();
        let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        assert_eq!(allowed.map(str::trim), Some("0"));
    }

    #[test]
    fn a_process_name_with_spaces_and_brackets_shifts_nothing() {
        let stat = "4242 (ha) (p x) S 1 4242 4242 0 -1 4194560 1290 0 0 0 153 47 0 0 20 0 3 0 8817 1 2";
        let expected = Cpu { user: Duration::from_millis(1530), system: Duration::from_millis(470) };
        assert_eq!(parse_cpu(stat), Some(expected));
        assert_eq!(expected.total(), Duration::from_secs(2));
        assert_eq!(parse_cpu("4242 (short) S 1"), None);
    }

    #[test]
    fn resident_memory_is_read_by_name() {
        let status = "Name:\thaproxy\nVmHWM:\t  9000 kB\nVmRSS:\t    8312 kB\nRssAnon:\t    4100 kB\nRssFile:\t 4212 kB\n";
        assert_eq!(parse_memory(status), Some(Memory { resident_kib: 8312, anonymous_kib: 4100 }));
        assert_eq!(parse_memory("Name:\tkthreadd\n"), None);
    }

    #[test]
    fn our_own_process_has_memory_and_a_process_that_is_gone_is_an_error() {
        assert!(memory(std::process::id()).unwrap().resident_kib > 0);
        assert!(cpu(std::process::id()).is_ok());
        assert!(cpu(u32::MAX).unwrap_err().to_string().contains("/proc/4294967295/stat"));
    }
}
