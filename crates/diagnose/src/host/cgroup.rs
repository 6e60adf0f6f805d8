//! The limits that a process lives under: those of its cgroup (a container's, a service's), version 1 or 2,
//! and how often it met them; on which CPUs it may run, how many files it may open and how many threads its
//! user may have.
//!
//! A limit may stand at any level above the process: a pod's above a container's. Of each kind the one that
//! is used most counts, of CPU time and memory one that holds back or was met before others (`level`); how
//! often it was is read where it stands. Version 1 and 2 may be mounted beside each other, each with some of
//! the controllers.
//!
//! Inside of a container the mount may begin at the container's own group. The group of a process of another
//! container (a pod with one process namespace) is then not there, and the limits at the mount are not its.
//!
//! Sources: the kernel's `cgroup-v2.rst` (`cpu.max`, `cpu.stat`, `memory.max`, `memory.high`,
//! `memory.events`) and `scheduler/sched-bwc.rst`, `cgroup-v1/memory.rst` (`cpu.cfs_quota_us`,
//! `memory.limit_in_bytes`, `memory.failcnt`), `cgroup-v1/pids.rst`. Limits of IO (`io.max`, `io.stat`) are
//! read of version 2 alone. Open files: `proc(5)`, `limits` and `fd`, for its own user and root. CPUs:
//! `proc(5)`, `Cpus_allowed_list` of `status`, which has both the cgroup's cpuset and `sched_setaffinity`.

mod burst;
mod files;
mod level;
mod quota;
mod ulimit;

pub use burst::Burst;
pub use level::Kills;

use super::pressure;
use super::process::cpu_us;
use super::text::{decimal, grown, lines, words};
use burst::Drawn;
use files::{Hierarchies, bytes, ceilings, first, in_use, named, pinned_to, thread_ceilings, throttles};
use level::{holding_back, nearest, nearest_met};
use quota::cpu_quotas;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::Instant;
use ulimit::OwnThreads;

/// A memory limit at or above this is none: version 1 writes the greatest number of pages.
const NO_LIMIT: u64 = 1 << 60;

/// Where the limits of a process stand. Looked up once; a process seldom moves.
#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
    /// Of every level that has one, the innermost first, as all of these.
    cpu: Vec<Quota>,
    memory: Vec<Ceiling>,
    threads: Vec<ThreadCeiling>,
    /// Of every device, too.
    io: Vec<Throttle>,
    /// The process in `/proc`, where its open files can be counted, and how many those may be.
    process: Option<(PathBuf, u64)>,
    /// The same, where the threads of its user are limited.
    of_user: Option<(PathBuf, u64)>,
    /// The CPUs that it may run on, where those are not all that are online.
    pinned_to: Option<Vec<u32>>,
}

/// How many threads (`pids.max`) a cgroup may have.
#[derive(Clone, Debug, PartialEq)]
struct ThreadCeiling {
    dir: PathBuf,
    most: u64,
}

/// What a cgroup may do to a device: a line of its `io.max`.
#[derive(Clone, Debug, PartialEq)]
struct Throttle {
    dir: PathBuf,
    /// `MAJOR:MINOR`.
    device: String,
    /// A second, in the order of [`IO`].
    most: [Option<u64>; 4],
}

/// What `io.max` limits, what `io.stat` counts it as, and what it is called.
const IO: [(&str, &str, &str); 4] = [
    ("rbps=", "rbytes=", "bytes read"),
    ("wbps=", "wbytes=", "bytes written"),
    ("riops=", "rios=", "reads"),
    ("wiops=", "wios=", "writes"),
];

#[derive(Clone, Debug, PartialEq)]
struct Quota {
    dir: PathBuf,
    /// CPU time a second.
    cpus: f64,
    used: Used,
    /// What of it may be saved up, microseconds.
    burst_us: Option<u64>,
}

/// Where the CPU time that counts against a quota is counted.
#[derive(Clone, Debug, PartialEq)]
enum Used {
    /// With the quota (version 2).
    There,
    /// The group of the same name in the hierarchy of version 1 that counts.
    Counted(PathBuf),
    /// No group is counted: `/proc/<pid>/stat`, the process without its siblings.
    Process(PathBuf),
}

#[derive(Clone, Debug, PartialEq)]
struct Ceiling {
    dir: PathBuf,
    /// The group of the process, at or below `dir`.
    of_process: PathBuf,
    bytes: u64,
    version: Version,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// What was counted up to a moment.
#[derive(Clone, Debug)]
pub struct Reading {
    at: Instant,
    /// Of each level, as all of these.
    cpu: Vec<CpuReading>,
    memory: Vec<MemoryReading>,
    /// Threads now, and how often one more was refused.
    threads: Vec<(u64, u64)>,
    /// Of each throttle, in the order of [`IO`].
    io: Vec<[u64; 4]>,
    files: Option<FileLimit>,
    own_threads: Option<OwnThreads>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct CpuReading {
    used_us: u64,
    /// Periods in which something ran, and those in which the quota ended before the work.
    periods: u64,
    throttled: u64,
    drawn: Option<Drawn>,
}

#[derive(Clone, Copy, Debug, Default)]
struct MemoryReading {
    bytes: u64,
    /// Times the limit was met and pages had to be taken back.
    met: u64,
    killed: u64,
    pressure: Option<pressure::Reading>,
}

/// Between two readings. `None`: no limit of that kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    pub cpu: Option<CpuLimit>,
    pub memory: Option<MemoryLimit>,
    /// The limit of IO that is used most.
    #[serde(default)]
    pub io: Option<IoLimit>,
    #[serde(default)]
    pub threads: Option<ThreadLimit>,
    #[serde(default)]
    pub files: Option<FileLimit>,
    /// The CPUs that it may run on, where those are not all that are online.
    #[serde(default)]
    pub pinned_to: Option<Vec<u32>>,
}

/// A limit of threads and processes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ThreadLimit {
    /// The cgroup it stands at; empty for the limit of its user.
    pub path: String,
    pub limit: u64,
    /// Of its user's limit, its own threads alone.
    pub used: u64,
    /// How often one more was refused in the window.
    pub refused: u64,
    /// Whether it is the limit of its user (`ulimit -u`).
    #[serde(default)]
    pub by_ulimit: bool,
}

/// The files that a process may open, and those that it has open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FileLimit {
    pub limit: u64,
    pub open: u64,
}

/// A limit of what may be read from or written to a device in a second.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct IoLimit {
    pub path: String,
    /// `MAJOR:MINOR`, as `lsblk` shows it.
    pub device: String,
    /// What is limited: `bytes read`, `writes`.
    pub what: String,
    /// A second.
    pub limit: f64,
    /// A second.
    pub used: f64,
}

/// A quota of CPU time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CpuLimit {
    /// The cgroup it stands at, below the mount.
    pub path: String,
    /// CPU seconds a second that it allows.
    pub cpus: f64,
    /// CPU seconds a second that were used.
    pub used: f64,
    /// Share of the periods with work in which it was held back, 0 to 1.
    pub throttled: f64,
    /// What it draws on beyond its quota; `None` where it may not.
    #[serde(default)]
    pub burst: Option<Burst>,
}

/// A limit of memory.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MemoryLimit {
    pub path: String,
    /// Bytes that it allows.
    pub limit: u64,
    /// Bytes charged to it now, page cache included.
    pub used: u64,
    /// Times a second that it was met.
    pub met_per_s: f64,
    /// Processes killed for want of memory in the window.
    pub killed: u64,
    /// Shares of time in which some or all of its processes waited for memory; `None` in version 1.
    pub pressure: Option<pressure::Sample>,
}

impl Limits {
    /// The limits of process `pid`, as `/proc` and the mounts tell; `None` where there is no such process or
    /// no limit.
    pub fn of(pid: u32, proc: &Path) -> Option<Self> {
        let hierarchies = Hierarchies::of(pid, proc)?;
        let find = |controller: &str| hierarchies.directory(controller);
        let cpu = cpu_quotas(&hierarchies, pid, proc);
        let memory =
            find("memory").map_or_else(Vec::new, |(dir, mount, version)| ceilings(&dir, &mount, version));
        let threads = find("pids").map_or_else(Vec::new, |(dir, mount, _)| thread_ceilings(&dir, &mount));
        let io = find("io").map_or_else(Vec::new, |(dir, mount, _)| throttles(&dir, &mount));
        let process = proc.join(pid.to_string());
        let pinned_to = pinned_to(&process, proc);
        let of_user = OwnThreads::of(&process).map(|own| (process.clone(), own.limit));
        let process = FileLimit::of(&process).map(|files| (process, files.limit));
        let any = !cpu.is_empty()
            || !memory.is_empty()
            || !threads.is_empty()
            || !io.is_empty()
            || process.is_some()
            || of_user.is_some()
            || pinned_to.is_some();
        any.then_some(Self { cpu, memory, threads, io, process, of_user, pinned_to })
    }

    /// Whether the cgroup of process `pid` is not mounted here, as another container's is not inside of a
    /// container: then its limits are not known, and those at the mount are of somebody else.
    pub fn are_elsewhere(pid: u32, proc: &Path) -> bool {
        let hierarchies = Hierarchies::of(pid, proc);
        hierarchies.is_some_and(|all| ["cpu", "memory"].iter().any(|controller| all.is_elsewhere(controller)))
    }

    /// The smallest quota of CPU time: the cgroup that it stands at, and CPU seconds a second.
    pub fn cpu_quota(&self) -> Option<(&Path, f64)> {
        let tightest = self.cpu.iter().min_by(|a, b| a.cpus.total_cmp(&b.cpus));
        tightest.map(|quota| (quota.dir.as_path(), quota.cpus))
    }

    /// The smallest limit of memory, bytes.
    pub fn memory_limit(&self) -> Option<u64> {
        self.memory.iter().map(|ceiling| ceiling.bytes).min()
    }

    /// The share in use now, without the file cache, of the memory limit that is used most of those at which
    /// processes are killed.
    pub fn memory_in_use(&self) -> Option<f64> {
        let shares = self.memory.iter().filter_map(|ceiling| in_use(&ceiling.dir, ceiling.version));
        shares.max_by(f64::total_cmp)
    }

    /// Counters now.
    pub fn read(&self) -> Reading {
        Reading {
            at: Instant::now(),
            cpu: self.cpu.iter().map(Quota::read).collect(),
            memory: self.memory.iter().map(Ceiling::read).collect(),
            threads: self.threads.iter().map(ThreadCeiling::read).collect(),
            files: self.process.as_ref().and_then(|(process, limit)| FileLimit::now(process, *limit)),
            own_threads: self.of_user.as_ref().and_then(|(process, limit)| OwnThreads::now(process, *limit)),
            io: self.io.iter().map(Throttle::read).collect(),
        }
    }

    /// How often processes were killed, up to a reading.
    pub fn kills(&self, reading: &Reading) -> Kills {
        let mut kills = Kills::default();
        for (ceiling, memory) in self.memory.iter().zip(&reading.memory) {
            kills.add(&ceiling.dir, memory);
        }
        kills
    }

    /// What happened between two readings.
    pub fn between(&self, before: &Reading, now: &Reading) -> Option<Sample> {
        self.between_after(before, now, &Kills::default())
    }

    /// The same of a process that came after another one: what was killed on the way from that one to it is
    /// told, too.
    pub fn between_after(&self, before: &Reading, now: &Reading, on_the_way: &Kills) -> Option<Sample> {
        let seconds = now.at.checked_duration_since(before.at)?.as_secs_f64();
        if seconds < 1e-3 {
            return None;
        }
        let cpu = self.cpu.iter().zip(before.cpu.iter().zip(&now.cpu)).map(|(quota, (before, now))| {
            let periods = grown(now.periods, before.periods);
            let throttled = grown(now.throttled, before.throttled);
            let drawn = quota.burst_us.zip(now.drawn.zip(before.drawn));
            CpuLimit {
                path: quota.dir.display().to_string(),
                cpus: quota.cpus,
                used: grown(now.used_us, before.used_us) as f64 / 1e6 / seconds,
                throttled: if periods > 0 { throttled as f64 / periods as f64 } else { 0.0 },
                burst: drawn.map(|(us, (now, before))| now.since(before, us, periods, seconds)),
            }
        });
        let cpu = holding_back(cpu.collect());
        let memory = self.memory.iter().zip(before.memory.iter().zip(&now.memory));
        let mut memory: Vec<MemoryLimit> = memory
            .map(|(ceiling, (before, now))| {
                let met = grown(now.met, before.met);
                // Where it was not met, somebody else's want of memory killed: the host's, or that of a group
                // below at a limit of its own.
                let killed = if met > 0 { grown(now.killed, before.killed) } else { 0 };
                MemoryLimit {
                    path: ceiling.dir.display().to_string(),
                    limit: ceiling.bytes,
                    used: now.bytes,
                    met_per_s: met as f64 / seconds,
                    killed: killed + on_the_way.at(&ceiling.dir),
                    pressure: now
                        .pressure
                        .zip(before.pressure)
                        .map(|(now, before)| now.since(&before, seconds)),
                }
            })
            .collect();
        // A kill is counted at every level above, too, and frees what was used: the innermost limit that was
        // met is the one that killed.
        let kills = memory.iter().position(|limit| limit.killed > 0);
        let memory = match kills {
            Some(at) => Some(memory.swap_remove(at)),
            None => nearest_met(memory),
        };
        let io = self.io.iter().zip(before.io.iter().zip(&now.io));
        let io = io.flat_map(|(throttle, (before, now))| throttle.between(before, now, seconds));
        let io = io.max_by(|a, b| (a.used / a.limit).total_cmp(&(b.used / b.limit)));
        // Before Linux 6.11 a refusal is counted at the group that asked, not at the one that refused.
        let counted = before.threads.iter().zip(&now.threads);
        let refused = counted.map(|((_, before), (_, now))| grown(*now, *before)).max().unwrap_or(0);
        let threads = self.threads.iter().zip(&now.threads).map(|(ceiling, (used, _))| ThreadLimit {
            path: ceiling.dir.display().to_string(),
            limit: ceiling.most,
            used: *used,
            refused,
            by_ulimit: false,
        });
        // Where a cgroup refused one, it is the cgroup's that is met.
        let own = now.own_threads.filter(|_| refused == 0).map(OwnThreads::as_limit);
        let threads: Vec<ThreadLimit> = threads.chain(own).collect();
        let threads = nearest(threads, |limit| (limit.used as f64, limit.limit as f64));
        Some(Sample { cpu, memory, io, threads, files: now.files, pinned_to: self.pinned_to.clone() })
    }
}

impl Reading {
    /// As if it had been read that much earlier.
    #[cfg(test)]
    pub(crate) fn earlier(self, by: std::time::Duration) -> Self {
        Self { at: self.at.checked_sub(by).unwrap_or(self.at), ..self }
    }

    /// Seconds between this and `later`.
    pub fn seconds_before(&self, later: &Self) -> f64 {
        later.at.saturating_duration_since(self.at).as_secs_f64()
    }
}

impl Quota {
    fn read(&self) -> CpuReading {
        let stat = bytes(&self.dir, "cpu.stat");
        let used_us = match &self.used {
            Used::There => named(&stat, b"usage_usec").unwrap_or(0),
            Used::Counted(dir) => first(&bytes(dir, "cpuacct.usage")).unwrap_or(0) / 1000,
            Used::Process(stat) => cpu_us(&std::fs::read(stat).unwrap_or_default()).unwrap_or(0),
        };
        CpuReading {
            used_us,
            periods: named(&stat, b"nr_periods").unwrap_or(0),
            throttled: named(&stat, b"nr_throttled").unwrap_or(0),
            drawn: Drawn::read(&stat),
        }
    }
}

impl Ceiling {
    fn read(&self) -> MemoryReading {
        let read = |file| bytes(&self.dir, file);
        match self.version {
            Version::Two => {
                let events = read("memory.events");
                // What a group below met at a limit of its own is counted above, too; from Linux 5.2 on this
                // one is told by itself.
                let own = Some(read("memory.events.local")).filter(|own| !own.is_empty());
                let met = |name: &[u8]| named(own.as_ref().unwrap_or(&events), name).unwrap_or(0);
                MemoryReading {
                    bytes: first(&read("memory.current")).unwrap_or(0),
                    met: met(b"max") + met(b"high"),
                    killed: named(&events, b"oom_kill").unwrap_or(0),
                    pressure: pressure::parse(&read("memory.pressure")),
                }
            }
            Version::One => MemoryReading {
                bytes: first(&read("memory.usage_in_bytes")).unwrap_or(0),
                met: first(&read("memory.failcnt")).unwrap_or(0),
                killed: self.killed_below(),
                pressure: None,
            },
        }
    }
}

impl ThreadCeiling {
    fn read(&self) -> (u64, u64) {
        let read = |file| bytes(&self.dir, file);
        (first(&read("pids.current")).unwrap_or(0), named(&read("pids.events"), b"max").unwrap_or(0))
    }
}

impl Throttle {
    fn read(&self) -> [u64; 4] {
        let stat = bytes(&self.dir, "io.stat");
        let line = lines(&stat).find(|line| words(line).next() == Some(self.device.as_bytes()));
        IO.map(|(_, counted, _)| {
            let mut words = words(line.unwrap_or_default());
            words.find_map(|word| decimal(word.strip_prefix(counted.as_bytes())?)).unwrap_or(0)
        })
    }

    /// Each of its limits with what was used of it.
    fn between<'a>(
        &'a self,
        before: &'a [u64; 4],
        now: &'a [u64; 4],
        seconds: f64,
    ) -> impl Iterator<Item = IoLimit> + 'a {
        let counted = now.iter().zip(before);
        self.most.iter().zip(IO).zip(counted).filter_map(move |((most, (_, _, what)), (now, before))| {
            let limit = (*most)?.max(1) as f64;
            let used = grown(*now, *before) as f64 / seconds;
            let (path, device) = (self.dir.display().to_string(), self.device.clone());
            Some(IoLimit { path, device, what: what.to_owned(), limit, used })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A `/proc` and the mounts it speaks of, in one directory.
    pub(super) fn host(
        groups: &str,
        mounts: &[(&str, &str, &str)],
        files: &[(&str, &str)],
    ) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = root.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("proc/42/cgroup", groups);
        let line = |(at, kind, options): &(&str, &str, &str)| {
            format!("{kind} {}/{at} {kind} {options} 0 0\n", root.path().display())
        };
        write("proc/self/mounts", &mounts.iter().map(line).collect::<String>());
        for (name, text) in files {
            write(name, text);
        }
        root
    }

    pub(super) fn limits(root: &tempfile::TempDir) -> Option<Limits> {
        Limits::of(42, &root.path().join("proc"))
    }

    #[test]
    fn where_a_limit_stands_is_said_of_nested_levels() {
        let stat = "usage_usec 5000000\nnr_periods 100\nnr_throttled 80\nthrottled_usec 9\n";
        let root = host(
            "0::/pod/db\n",
            &[("cg", "cgroup2", "rw")],
            &[
                ("cg/pod/cpu.max", "50000 100000\n"),
                ("cg/pod/cpu.stat", stat),
                ("cg/pod/db/cpu.max", "max 100000\n"),
                ("cg/pod/memory.max", "max\n"),
                ("cg/pod/db/memory.max", "1048576\n"),
                ("cg/pod/db/memory.high", "524288\n"),
                ("cg/pod/db/memory.current", "500000\n"),
                ("cg/pod/db/memory.events", "low 0\nhigh 7\nmax 2\noom 1\noom_kill 1\n"),
            ],
        );
        let limits = limits(&root).unwrap();
        assert_eq!(limits.cpu_quota(), Some((root.path().join("cg/pod").as_path(), 0.5)));
        let before = Reading {
            at: Instant::now().checked_sub(std::time::Duration::from_secs(10)).unwrap(),
            cpu: vec![CpuReading::default()],
            memory: vec![MemoryReading::default()],
            threads: Vec::new(),
            io: Vec::new(),
            files: None,
            own_threads: None,
        };
        let sample = limits.between(&before, &limits.read()).unwrap();
        let (cpu, memory) = (sample.cpu.unwrap(), sample.memory.unwrap());
        assert!(cpu.path.ends_with("cg/pod") && memory.path.ends_with("cg/pod/db"));
        assert_eq!((cpu.cpus, cpu.throttled), (0.5, 0.8));
        assert!((cpu.used - 0.5).abs() < 0.01, "{}", cpu.used);
        assert_eq!((memory.limit, memory.used, memory.killed), (524_288, 500_000, 1));
        assert!((memory.met_per_s - 0.9).abs() < 0.01);
    }

    #[test]
    fn of_the_limits_of_io_the_one_that_is_used_most_is_told_with_its_device() {
        let root = host(
            "0::/pod/db\n",
            &[("cg", "cgroup2", "rw")],
            &[
                ("cg/pod/io.max", "8:16 rbps=max wbps=max riops=max wiops=1000\n"),
                (
                    "cg/pod/io.stat",
                    "8:0 rbytes=9 wbytes=9 rios=9 wios=99999\n8:16 rbytes=1 wbytes=1 rios=1 wios=2000\n",
                ),
                ("cg/pod/db/io.max", "8:16 rbps=2097152 wbps=max riops=max wiops=max\n"),
                ("cg/pod/db/io.stat", "8:16 rbytes=20971520 wbytes=5 rios=3 wios=4 dbytes=0 dios=0\n"),
            ],
        );
        let limits = limits(&root).unwrap();
        let at = Instant::now().checked_sub(std::time::Duration::from_secs(10)).unwrap();
        let (cpu, memory, threads) = (Vec::new(), Vec::new(), Vec::new());
        let io = vec![[0; 4]; 2];
        let before = Reading { at, cpu, memory, threads, io, files: None, own_threads: None };
        let io = limits.between(&before, &limits.read()).unwrap().io.unwrap();
        assert!(io.path.ends_with("cg/pod/db") && io.device == "8:16" && io.what == "bytes read", "{io:?}");
        assert_eq!(io.limit, 2_097_152.0);
        assert!((io.used / io.limit - 1.0).abs() < 0.01, "{io:?}");
    }

    #[test]
    fn version_1_counts_cpu_time_in_another_hierarchy_and_writes_a_limit_where_there_is_none() {
        let root = host(
            "3:cpuacct:/db\n2:cpu:/db\n1:memory:/db\n0::/\n",
            &[
                ("cpu", "cgroup", "rw,cpu"),
                ("acct", "cgroup", "rw,cpuacct"),
                ("mem", "cgroup", "rw,memory"),
                ("two", "cgroup2", "rw"),
            ],
            &[
                ("cpu/db/cpu.cfs_quota_us", "20000\n"),
                ("cpu/db/cpu.cfs_period_us", "100000\n"),
                ("cpu/db/cpu.stat", "nr_periods 10\nnr_throttled 9\nthrottled_time 1\n"),
                ("cpu/cpu.cfs_quota_us", "-1\n"),
                ("acct/db/cpuacct.usage", "2000000000\n"),
                ("mem/db/memory.limit_in_bytes", "9223372036854771712\n"),
            ],
        );
        let limits = limits(&root).unwrap();
        assert!(limits.memory.is_empty());
        let quota = &limits.cpu[0];
        assert_eq!(quota.cpus, 0.2);
        let read = CpuReading { used_us: 2_000_000, periods: 10, throttled: 9, drawn: None };
        assert_eq!(quota.read(), read);
    }

    #[test]
    fn where_no_group_counts_cpu_time_the_process_does() {
        let root = host(
            "2:cpuacct:/\n1:cpu:/db\n",
            &[("cpu", "cgroup", "rw,cpu"), ("acct", "cgroup", "rw,cpuacct")],
            &[
                ("cpu/db/cpu.cfs_quota_us", "20000\n"),
                ("cpu/db/cpu.cfs_period_us", "100000\n"),
                ("acct/cpuacct.usage", "999999999999\n"),
                ("proc/42/stat", "42 (maria db) S 1 1 1 0 -1 0 0 0 0 0 30 20 0 0 20 0 9 0\n"),
            ],
        );
        assert_eq!(limits(&root).unwrap().cpu[0].read().used_us, 500_000);
    }

    #[test]
    fn threads_are_limited_by_the_cgroup_and_files_by_the_process() {
        let root = host(
            "0::/pod/db\n",
            &[("cg", "cgroup2", "rw")],
            &[
                ("cg/pod/pids.max", "40\n"),
                ("cg/pod/pids.current", "39\n"),
                ("cg/pod/pids.events", "max 3\n"),
                ("cg/pod/db/pids.max", "max\n"),
                (
                    "proc/42/limits",
                    "Limit  Soft Limit  Hard Limit  Units\nMax open files            2  1048576  files\n",
                ),
                ("proc/42/fd/0", ""),
                ("proc/42/fd/1", ""),
            ],
        );
        let limits = limits(&root).unwrap();
        let mut before = limits.read();
        before.at = before.at.checked_sub(std::time::Duration::from_secs(10)).unwrap();
        before.threads = vec![(30, 1)];
        let sample = limits.between(&before, &limits.read()).unwrap();
        let threads = sample.threads.unwrap();
        assert_eq!((threads.limit, threads.used, threads.refused), (40, 39, 2));
        assert!(threads.path.ends_with("cg/pod"));
        assert_eq!(sample.files.unwrap().limit, 2);
    }

    #[test]
    fn a_process_that_may_run_on_some_of_the_cpus_is_pinned_to_those_that_are_online() {
        let pinned_in = |mounts: &[(&str, &str, &str)], allowed: &str| {
            let status = format!("Name:\tmariadbd\nCpus_allowed:\tf\nCpus_allowed_list:\t{allowed}\n");
            let stat = "cpu 1 1 1 1\ncpu0 1 1 1 1\ncpu1 1 1 1 1\ncpu9 1 1 1 1\n";
            let root = host("0::/\n", mounts, &[("proc/42/status", &status), ("proc/stat", stat)]);
            limits(&root).and_then(|limits| {
                let mut before = limits.read();
                before.at = before.at.checked_sub(std::time::Duration::from_secs(10)).unwrap();
                limits.between(&before, &limits.read())?.pinned_to
            })
        };
        let pinned_to = |allowed: &str| pinned_in(&[], allowed);
        assert_eq!(pinned_to("0"), Some(vec![0]));
        assert_eq!(pinned_to("1-3,9"), Some(vec![1, 9]));
        assert_eq!(pinned_to("0-255"), None, "more may be added, all that are there are allowed");
        assert_eq!((pinned_to("4-7"), pinned_to("")), (None, None));
        let lxc = [("proc/stat", "fuse.lxcfs", "rw")];
        assert_eq!(pinned_in(&lxc, "1,5,12"), None, "numbers of the host, and the container's own");
    }

    #[test]
    fn the_limits_of_whoever_looks_are_not_taken_for_those_of_another_container() {
        let cpu = |root: &tempfile::TempDir| limits(root)?.cpu_quota().map(|(_, cpus)| cpus);
        let elsewhere = |root: &tempfile::TempDir| Limits::are_elsewhere(42, &root.path().join("proc"));
        // Version 2, in a cgroup namespace of our own: the mount has our own limit.
        let own = [("cg/cpu.max", "10000 100000\n")];
        let mounts = [("cg", "cgroup2", "rw")];
        let (beside, inside) = (host("0::/../db\n", &mounts, &own), host("0::/\n", &mounts, &own));
        assert_eq!((cpu(&beside), elsewhere(&beside)), (None, true));
        assert_eq!((cpu(&inside), elsewhere(&inside)), (Some(0.1), false));
        // Version 1 without a namespace: paths are the host's, and our own group is mounted.
        let mounted = |group: &str| {
            let groups = format!("2:cpu,cpuacct:{group}\n");
            let root = host(
                &groups,
                &[("cpu", "cgroup", "rw,cpu,cpuacct")],
                &[("cpu/cpu.cfs_quota_us", "10000\n"), ("cpu/cpu.cfs_period_us", "100000\n")],
            );
            let line =
                format!("36 35 0:30 /pod/own {}/cpu ro - cgroup cgroup rw,cpu\n", root.path().display());
            std::fs::write(root.path().join("proc/self/mountinfo"), line).unwrap();
            root
        };
        let (beside, inside) = (mounted("/pod/db"), mounted("/pod/own"));
        assert_eq!((cpu(&beside), elsewhere(&beside)), (None, true));
        assert_eq!((cpu(&inside), elsewhere(&inside)), (Some(0.1), false));
    }

    #[test]
    fn without_a_limit_or_a_process_there_is_nothing() {
        let root = host("0::/\n", &[("cg", "cgroup2", "rw")], &[("cg/cpu.max", "max 100000\n")]);
        assert_eq!(limits(&root), None);
        assert_eq!(Limits::of(43, &root.path().join("proc")), None);
    }
}
