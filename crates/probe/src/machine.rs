//! On what the figures were measured: enough to judge them and to repeat them, and nothing that names a host,
//! a person or a directory.

use anyhow::Context;
use serde::Serialize;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// A machine that is busier than this before we start is somebody else's too.
const BUSY: f64 = 0.1;

/// Facts about the machine and the programs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Machine {
    /// Model name of the first CPU.
    pub cpu: String,
    /// Logical CPUs that we may use.
    pub cores: usize,
    /// Memory in GiB.
    pub memory_gib: f64,
    /// Kernel release.
    pub kernel: String,
    /// Distribution.
    pub system: String,
    /// The program and what it says of its version, in the order of the tables.
    pub programs: Vec<(String, String)>,
    /// Share of CPU time that others used just before the run, 0 to 1.
    pub busy_before: f64,
}

impl Machine {
    /// Asks `programs` for their versions, and watches others use the CPU for a moment: the load average
    /// would still remember the compiler that built us.
    ///
    /// # Errors
    /// One of the programs does not start, or names no version.
    pub async fn look(programs: &[(&str, &Path)], moment: Duration) -> anyhow::Result<Self> {
        let versions = programs.iter().map(|(name, path)| Ok(((*name).to_owned(), version(path)?)));
        let mut programs: Vec<_> = versions.collect::<anyhow::Result<_>>()?;
        programs.push(("headroom".to_owned(), own_version()));
        let before = cpu_times();
        tokio::time::sleep(moment).await;
        Ok(Self {
            cpu: fact("/proc/cpuinfo", "model name"),
            cores: std::thread::available_parallelism()?.get(),
            memory_gib: memory_gib(),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            system: fact("/etc/os-release", "PRETTY_NAME").trim_matches('"').to_owned(),
            programs,
            busy_before: busy(before, cpu_times()),
        })
    }

    /// What speaks against figures taken here and now.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if cfg!(debug_assertions) {
            warnings
                .push("headroom is a DEBUG build: its figures mean nothing; use a release build".to_owned());
        }
        if self.was_busy() {
            warnings.push(format!(
                "others used {:.0} % of the CPU before the run: repeat it on a quiet machine",
                self.busy_before * 100.0
            ));
        }
        warnings
    }

    /// CPU, cores, kernel and programs, in a line.
    pub fn line(&self) -> String {
        let programs: Vec<String> = self.programs.iter().map(|(name, v)| format!("{name} {v}")).collect();
        format!("{}, {} cores, kernel {}, {}", self.cpu, self.cores, self.kernel, programs.join("; "))
    }

    /// Whether others were using it when we began.
    pub fn was_busy(&self) -> bool {
        self.busy_before > BUSY
    }
}

/// Today in UTC, `YYYY-MM-DD`.
pub fn today() -> String {
    time::OffsetDateTime::now_utc().date().to_string()
}

/// The first line with a number in it that `--version` (or HAProxy's `-v`) gives, without the program's path.
fn version(program: &Path) -> anyhow::Result<String> {
    let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let flag = if name.starts_with("haproxy") { "-v" } else { "--version" };
    let output = Command::new(program).arg(flag).stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("asking {name} for its version"))?;
    // Some programs say it as a complaint.
    let said = if output.stdout.is_empty() { &output.stderr } else { &output.stdout };
    let said = String::from_utf8_lossy(said);
    let line = said.lines().find(|line| line.contains(|c: char| c.is_ascii_digit()));
    let line = line.with_context(|| format!("{name} {flag} names no version"))?;
    Ok(tidy_version(line))
}

/// `/usr/sbin/mariadbd Ver 10.11.19-MariaDB for ...` -> `10.11.19-MariaDB for ...`; web addresses are left
/// out.
fn tidy_version(line: &str) -> String {
    let after = line.split_once("Ver ").map_or(line, |(_, version)| version);
    let words = after.split_whitespace().filter(|word| !word.contains("://") && !word.starts_with('/'));
    words.collect::<Vec<_>>().join(" ").trim_end_matches([' ', '-']).to_owned()
}

/// Version, build kind, and the commit where this is run inside the repository.
fn own_version() -> String {
    let build = if cfg!(debug_assertions) { "debug build" } else { "release build" };
    let commit = git(&["rev-parse", "--short=12", "HEAD"]);
    // Results of earlier runs are no change of the program.
    let changed = git(&["status", "--porcelain", "--", "crates", "Cargo.toml", "Cargo.lock"]);
    let commit = match (commit, changed) {
        (Some(commit), Some(changes)) if changes.is_empty() => format!(", commit {commit}"),
        (Some(commit), _) => format!(", commit {commit} with changes"),
        (None, _) => String::new(),
    };
    format!("{} ({build}{commit})", env!("CARGO_PKG_VERSION"))
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).stdin(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// CPU time of all cores since boot: (not idle, all), in ticks.
pub fn cpu_times() -> (u64, u64) {
    parse_cpu_times(&read("/proc/stat"))
}

/// CPU time of all cores since boot that a hypervisor took away (steal), and all, in ticks; `None` where the
/// kernel does not tell.
pub fn stolen_times() -> Option<(u64, u64)> {
    parse_stolen_times(&read("/proc/stat"))
}

fn parse_stolen_times(stat: &str) -> Option<(u64, u64)> {
    let ticks = ticks(stat);
    Some((*ticks.get(7)?, ticks.iter().sum()))
}

/// `cpu  user nice system idle iowait irq softirq steal ...`; guest time is in user time already.
fn ticks(stat: &str) -> Vec<u64> {
    let line = stat.lines().next().unwrap_or_default();
    line.split_whitespace().skip(1).take(8).filter_map(|t| t.parse().ok()).collect()
}

fn parse_cpu_times(stat: &str) -> (u64, u64) {
    let ticks = ticks(stat);
    let all = ticks.iter().sum();
    let idle: u64 = ticks.iter().skip(3).take(2).sum();
    (all - idle, all)
}

/// The share of CPU time, 0 to 1, that was used between two readings of [`cpu_times`], or stolen between two
/// of [`stolen_times`].
pub fn busy(before: (u64, u64), after: (u64, u64)) -> f64 {
    let all = after.1.saturating_sub(before.1).max(1);
    after.0.saturating_sub(before.0) as f64 / all as f64
}

fn memory_gib() -> f64 {
    let kib: f64 =
        fact("/proc/meminfo", "MemTotal").trim_end_matches("kB").trim().parse().unwrap_or_default();
    (kib / 1024.0 / 1024.0 * 10.0).round() / 10.0
}

/// Memory that is free or can be freed at once, where the kernel tells.
pub(crate) fn free_bytes() -> Option<u64> {
    let kib: u64 = fact("/proc/meminfo", "MemAvailable").trim_end_matches("kB").trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// The value of the first line `name: value` or `name=value`.
fn fact(path: &str, name: &str) -> String {
    let text = read(path);
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.trim_start().strip_prefix([':', '=']));
    value.map_or_else(|| "unknown".to_owned(), |value| value.trim().to_owned())
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn today_is_written_as_a_date() {
        let today = today();
        let parts: Vec<usize> = today.split('-').map(str::len).collect();
        assert!(parts == [4, 2, 2] && today.starts_with("20"), "{today}");
    }

    #[test]
    fn versions_are_kept_and_paths_are_not() {
        for (line, expected) in [
            (
                "/usr/sbin/mariadbd  Ver 10.11.19-MariaDB-0+deb12u1 for debian-linux-gnu on x86_64 (Debian 12)",
                "10.11.19-MariaDB-0+deb12u1 for debian-linux-gnu on x86_64 (Debian 12)",
            ),
            (
                "HAProxy version 2.6.12-1+deb12u4 2026/10/17 - https://haproxy.org/",
                "HAProxy version 2.6.12-1+deb12u4 2026/10/17",
            ),
            ("sysbench 1.0.20", "sysbench 1.0.20"),
        ] {
            assert_eq!(tidy_version(line), expected);
        }
    }

    #[test]
    fn what_a_hypervisor_took_is_told_apart_and_is_not_known_of_an_old_kernel() {
        let before = parse_stolen_times("cpu  100 0 100 700 100 0 0 0 0 0\ncpu0 1 2 3\n").unwrap();
        let after = parse_stolen_times("cpu  120 0 105 720 120 3 2 30 0 0\n").unwrap();
        assert!((busy(before, after) - 0.3).abs() < 1e-9);
        assert_eq!((parse_stolen_times("cpu  100 0 100 700\n"), parse_stolen_times("")), (None, None));
    }

    #[test]
    fn waiting_for_a_disk_is_not_being_busy() {
        let before = parse_cpu_times("cpu  100 0 100 700 100 0 0 0 0 0\ncpu0 1 2 3\n");
        let after = parse_cpu_times("cpu  120 0 105 750 120 3 2 0 0 0\n");
        assert_eq!(before, (200, 1000));
        assert!((busy(before, after) - 0.3).abs() < 1e-9);
        assert_eq!(busy(before, before), 0.0);
    }

    #[tokio::test]
    async fn this_machine_has_a_kernel_and_cores() {
        let machine = Machine::look(&[], Duration::ZERO).await.unwrap();
        assert!(machine.cores > 0 && machine.memory_gib > 0.0);
        assert!(!machine.kernel.is_empty());
        assert_eq!(machine.programs.last().unwrap().0, "headroom");
    }
}
