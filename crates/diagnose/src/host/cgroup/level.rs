//! Limits of one kind at several levels: which of them counts, and who was killed at which.
//!
//! Each level limits all that is below it together. The smallest limit need not be the one that ends first: a
//! container may have many threads left while its pod, with a larger limit, has none.

use super::super::text::grown;
use super::files::{bytes, named};
use super::{Ceiling, CpuLimit, MemoryLimit, MemoryReading};
use std::path::{Path, PathBuf};

/// Of the periods with work; a level that held back in fewer is no news.
const HELD_BACK: f64 = 0.05;
/// Of its quota. A level with less use holds back only what comes at once.
const USED_UP: f64 = 0.85;

/// Of the quotas of CPU time the one that holds back most, those that are used up first: of another one more
/// may be used, which has enough in each period. Where none holds back it is the nearest.
pub(super) fn holding_back(levels: Vec<CpuLimit>) -> Option<CpuLimit> {
    let place = |level: &CpuLimit| (level.used >= USED_UP * level.cpus, level.throttled);
    let holding = levels.iter().filter(|level| level.throttled >= HELD_BACK);
    let most = holding.max_by(|a, b| {
        let (a, b) = (place(a), place(b));
        a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))
    });
    most.cloned().or_else(|| nearest(levels, |limit| (limit.used, limit.cpus)))
}

/// Of the limits of memory the nearest of those that were met; of another one as much may be used, most of it
/// file cache that nobody asked to give back. Where none was met it is the nearest.
pub(super) fn nearest_met(levels: Vec<MemoryLimit>) -> Option<MemoryLimit> {
    let (met, others): (Vec<MemoryLimit>, Vec<MemoryLimit>) =
        levels.into_iter().partition(|limit| limit.met_per_s > 0.0);
    let of = |limit: &MemoryLimit| (limit.used as f64, limit.limit as f64);
    nearest(met, of).or_else(|| nearest(others, of))
}

/// The level that most is used of, by `of` (what is used and the limit); levels come innermost first. Of
/// those that are used alike (to a hundredth, so that it does not flap; or where nothing is known of it) the
/// one with the smallest limit.
pub(super) fn nearest<T>(levels: Vec<T>, of: impl Fn(&T) -> (f64, f64)) -> Option<T> {
    let place = |level: &T| {
        let (used, limit) = of(level);
        (if limit > 0.0 { (used / limit * 100.0).round() } else { 0.0 }, limit)
    };
    levels.into_iter().min_by(|a, b| {
        let (a, b) = (place(a), place(b));
        b.0.total_cmp(&a.0).then(a.1.total_cmp(&b.1))
    })
}

impl Ceiling {
    /// How often processes were killed, of version 1: there a kill is counted in the group of who was killed
    /// alone, and in none above, wherever the limit stands.
    pub(super) fn killed_below(&self) -> u64 {
        let killed = |dir: &Path| named(&bytes(dir, "memory.oom_control"), b"oom_kill").unwrap_or(0);
        let of_process = if self.of_process == self.dir { 0 } else { killed(&self.of_process) };
        killed(&self.dir).saturating_add(of_process)
    }
}

/// How often processes were killed in the cgroups with a memory limit. A server that is killed comes back as
/// another process, and what was read of the one before is no window of it: these outlive it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kills(Vec<KillsAt>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct KillsAt {
    dir: PathBuf,
    met: u64,
    killed: u64,
    above: Option<KillsAbove>,
}

/// What the group above a limit has counted of all below it (version 2). A service or container that ends
/// takes its own group along, and the next one begins at 0.
#[derive(Clone, Debug, PartialEq, Eq)]
struct KillsAbove {
    dir: PathBuf,
    /// Times that a limit was met and nothing could be taken back; not the host's want of memory.
    met: u64,
    killed: u64,
}

impl KillsAbove {
    /// Above the group in this directory; `None` where nobody counts there.
    fn of(dir: &Path) -> Option<Self> {
        let dir = dir.parent()?;
        let events = bytes(dir, "memory.events");
        let (met, killed) = (named(&events, b"oom")?, named(&events, b"oom_kill")?);
        Some(Self { dir: dir.to_owned(), met, killed })
    }
}

impl Kills {
    pub(super) fn add(&mut self, dir: &Path, reading: &MemoryReading) {
        let (met, killed) = (reading.met, reading.killed);
        self.0.push(KillsAt { dir: dir.to_owned(), met, killed, above: KillsAbove::of(dir) });
    }

    /// Those since `before`; of a cgroup whose limit was not met none: somebody else's want of memory killed
    /// there. Where none was counted in a cgroup itself, which may be another one of that name by now, it is
    /// what the group above has counted meanwhile.
    pub fn since(&self, before: &Self) -> Self {
        let at = |now: &KillsAt, met: u64, killed: u64| {
            (met > 0 && killed > 0).then(|| KillsAt { dir: now.dir.clone(), met, killed, above: None })
        };
        let own = |now: &KillsAt| {
            let then = before.0.iter().find(|then| then.dir == now.dir)?;
            at(now, grown(now.met, then.met), grown(now.killed, then.killed))
        };
        let by_above = |now: &KillsAt| {
            let above = now.above.as_ref()?;
            let mut known = before.0.iter().filter_map(|then| then.above.as_ref());
            let then = known.find(|then| then.dir == above.dir)?;
            at(now, grown(above.met, then.met), grown(above.killed, then.killed))
        };
        let counted: Vec<KillsAt> = self.0.iter().filter_map(own).collect();
        if counted.is_empty() { Self(self.0.iter().filter_map(by_above).collect()) } else { Self(counted) }
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn at(&self, dir: &Path) -> u64 {
        self.0.iter().find(|kills| kills.dir == dir).map_or(0, |kills| kills.killed)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{host, limits};
    use super::*;
    use std::time::Duration;

    #[test]
    fn of_nested_limits_the_one_that_is_used_most_counts_though_it_is_not_the_smallest() {
        let root = host(
            "0::/pod/db\n",
            &[("cg", "cgroup2", "rw")],
            &[
                ("cg/pod/pids.max", "1000\n"),
                ("cg/pod/pids.current", "950\n"),
                ("cg/pod/db/pids.max", "500\n"),
                ("cg/pod/db/pids.current", "100\n"),
                ("cg/pod/db/pids.events", "max 0\n"),
                ("cg/pod/memory.max", "1000000\n"),
                ("cg/pod/memory.current", "990000\n"),
                ("cg/pod/db/memory.max", "500000\n"),
                ("cg/pod/db/memory.current", "100000\n"),
                ("cg/pod/cpu.max", "400000 100000\n"),
                ("cg/pod/cpu.stat", "usage_usec 0\nnr_periods 0\nnr_throttled 0\n"),
                ("cg/pod/db/cpu.max", "200000 100000\n"),
                ("cg/pod/db/cpu.stat", "usage_usec 0\nnr_periods 0\nnr_throttled 0\n"),
            ],
        );
        let write = |name: &str, text: &str| std::fs::write(root.path().join(name), text).unwrap();
        let limits = limits(&root).unwrap();
        let before = limits.read().earlier(Duration::from_secs(10));
        write("cg/pod/cpu.stat", "usage_usec 39000000\nnr_periods 100\nnr_throttled 60\n");
        write("cg/pod/db/cpu.stat", "usage_usec 2000000\nnr_periods 100\nnr_throttled 0\n");
        write("cg/pod/db/pids.events", "max 2\n");
        let sample = limits.between(&before, &limits.read()).unwrap();
        let (threads, memory, cpu) = (sample.threads.unwrap(), sample.memory.unwrap(), sample.cpu.unwrap());
        assert_eq!((threads.limit, threads.used), (1000, 950));
        assert_eq!(threads.refused, 2, "an older kernel counts it where it was asked for");
        assert_eq!((memory.limit, memory.used), (1_000_000, 990_000));
        assert_eq!((cpu.cpus, cpu.throttled), (4.0, 0.6));
        assert!(threads.path.ends_with("cg/pod") && memory.path.ends_with("cg/pod"));
        assert_eq!(limits.cpu_quota().map(|(_, cpus)| cpus), Some(2.0), "what it may use at most");
        assert_eq!(limits.memory_limit(), Some(500_000));
    }

    #[test]
    fn of_nested_quotas_the_one_that_holds_back_counts_though_more_is_used_of_another() {
        let level = |path: &str, cpus, used, throttled| CpuLimit {
            path: path.to_owned(),
            cpus,
            used,
            throttled,
            ..CpuLimit::default()
        };
        let told = |levels: &[CpuLimit]| holding_back(levels.to_vec()).unwrap().path;
        let (service, slice) = (level("db.service", 2.0, 1.9, 0.0), level("db.slice", 4.0, 3.5, 0.4));
        assert_eq!(told(&[service.clone(), slice.clone()]), "db.slice");
        // What comes at once is held back, of the slice as much as there is used.
        let bursty = level("db.service", 0.5, 0.3, 0.34);
        assert_eq!(told(&[bursty.clone(), level("db.slice", 1.0, 0.7, 0.0)]), "db.service");
        assert_eq!(told(&[bursty, slice]), "db.slice", "used up");
        assert_eq!(told(&[service, level("db.slice", 4.0, 3.5, 0.01)]), "db.service", "the nearest");
    }

    #[test]
    fn of_nested_limits_of_memory_the_one_that_is_met_counts_though_another_is_as_full() {
        let level = |path: &str, limit, used, met_per_s| MemoryLimit {
            path: path.to_owned(),
            limit,
            used,
            met_per_s,
            ..MemoryLimit::default()
        };
        let told = |levels: [MemoryLimit; 2]| nearest_met(levels.into()).unwrap().path;
        let service = || level("db.service", 4000, 3999, 0.0);
        assert_eq!(told([service(), level("db.slice", 8000, 7999, 50.0)]), "db.slice");
        assert_eq!(told([service(), level("db.slice", 8000, 7999, 0.0)]), "db.service");
    }

    #[test]
    fn memory_in_use_leaves_the_file_cache_out_and_is_that_of_the_limit_that_is_used_most() {
        let stat = |active: u32| format!("anon 9\nactive_file {active}\ninactive_file 100000\n");
        let two = |db_stat: &str| {
            let root = host(
                "0::/pod/db\n",
                &[("cg", "cgroup2", "rw")],
                &[
                    ("cg/pod/memory.max", "1000000\n"),
                    ("cg/pod/memory.current", "990000\n"),
                    ("cg/pod/memory.stat", stat(390_000).as_str()),
                    ("cg/pod/db/memory.max", "500000\n"),
                    ("cg/pod/db/memory.current", "490000\n"),
                    ("cg/pod/db/memory.stat", db_stat),
                ],
            );
            limits(&root).unwrap().memory_in_use()
        };
        assert_eq!(two(&stat(40_000)), Some(0.7), "of 490000 bytes 140000 are file cache");
        let entries = format!("{}slab_reclaimable 50000\n", stat(40_000));
        assert_eq!(two(&entries), Some(0.6), "entries of files are given back, too");
        assert_eq!(two(""), Some(0.5), "what cannot be told apart is unknown, and the pod's is known");
        let slows = [("cg/db/memory.high", "500000\n"), ("cg/db/memory.current", "490000\n")];
        let root = host("0::/db\n", &[("cg", "cgroup2", "rw")], &slows);
        assert_eq!(limits(&root).unwrap().memory_in_use(), None, "nobody is killed there");
        let root = host(
            "1:memory:/db\n",
            &[("mem", "cgroup", "rw,memory")],
            &[
                ("mem/db/memory.limit_in_bytes", "1000000\n"),
                ("mem/db/memory.usage_in_bytes", "950000\n"),
                ("mem/db/memory.stat", "cache 5\ntotal_active_file 100000\ntotal_inactive_file 50000\n"),
            ],
        );
        assert_eq!(limits(&root).unwrap().memory_in_use(), Some(0.8));
    }

    #[test]
    fn where_nothing_is_known_of_what_is_used_the_smallest_limit_counts() {
        let nearest = |levels: &[(f64, f64)]| nearest(levels.to_vec(), |level| *level).unwrap().1;
        assert_eq!(nearest(&[(0.0, 300.0), (0.0, 100.0), (0.0, 200.0)]), 100.0);
        assert_eq!(nearest(&[(10.0, 100.0), (190.0, 200.0)]), 200.0);
    }

    #[test]
    fn who_was_killed_before_the_server_came_back_is_told_at_the_limit_that_was_met() {
        let root = host(
            "0::/pod/db\n",
            &[("cg", "cgroup2", "rw")],
            &[
                ("cg/pod/memory.max", "1000000\n"),
                ("cg/pod/memory.current", "600000\n"),
                ("cg/pod/memory.events", "max 5\noom_kill 1\n"),
                ("cg/pod/db/memory.max", "500000\n"),
                ("cg/pod/db/memory.current", "100000\n"),
                ("cg/pod/db/memory.events", "max 5\noom_kill 1\n"),
            ],
        );
        let events = |at: &str, text: &str| {
            std::fs::write(root.path().join(at).join("memory.events"), text).unwrap();
        };
        let of = limits(&root).unwrap();
        let before = of.kills(&of.read());
        // The host had no memory left, which is no matter of these limits.
        events("cg/pod/db", "max 5\noom_kill 2\n");
        assert!(of.kills(&of.read()).since(&before).is_empty());
        // A kernel counts what was met below above, too.
        events("cg/pod/db", "max 9\noom_kill 2\n");
        events("cg/pod", "max 9\noom_kill 2\n");
        let killed = of.kills(&of.read()).since(&before);
        let first = of.read().earlier(Duration::from_secs(1));
        let memory = |killed: &Kills| of.between_after(&first, &of.read(), killed).unwrap().memory.unwrap();
        let told = memory(&killed);
        assert!(told.killed == 1 && told.path.ends_with("cg/pod/db"), "{told:?}");
        let told = memory(&Kills::default());
        assert!(told.killed == 0 && told.path.ends_with("cg/pod"), "{told:?}");
    }

    #[test]
    fn who_was_killed_in_a_group_that_ended_with_it_is_told_by_the_group_above() {
        let own = [
            ("memory.max", "500000\n"),
            ("memory.current", "400000\n"),
            ("memory.events", "max 0\noom 0\noom_kill 0\n"),
        ];
        let files: Vec<(String, &str)> =
            own.iter().map(|(name, text)| (format!("cg/system.slice/db.service/{name}"), *text)).collect();
        let mut files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (name.as_str(), *text)).collect();
        files.push(("cg/system.slice/memory.events", "max 7\noom 1\noom_kill 1\n"));
        let root = host("0::/system.slice/db.service\n", &[("cg", "cgroup2", "rw")], &files);
        let slice = root.path().join("cg/system.slice");
        let of = limits(&root).unwrap();
        let before = of.kills(&of.read());
        std::fs::remove_dir_all(slice.join("db.service")).unwrap();
        std::fs::create_dir(slice.join("db.service")).unwrap();
        for (name, text) in own {
            std::fs::write(slice.join("db.service").join(name), text).unwrap();
        }
        let killed = |events: &str| {
            std::fs::write(slice.join("memory.events"), events).unwrap();
            of.kills(&of.read()).since(&before).at(&slice.join("db.service"))
        };
        assert_eq!(killed("max 9\noom 2\noom_kill 2\n"), 1);
        assert_eq!(killed("max 9\noom 1\noom_kill 2\n"), 0, "the host had none left");
        assert_eq!(killed("max 7\noom 1\noom_kill 1\n"), 0, "restarted by somebody");
    }

    #[test]
    fn version_1_counts_a_kill_below_the_limit_that_was_met() {
        let root = host(
            "1:memory:/pod/db\n",
            &[("mem", "cgroup", "rw,memory")],
            &[
                ("mem/pod/memory.limit_in_bytes", "1000000\n"),
                ("mem/pod/memory.usage_in_bytes", "900000\n"),
                ("mem/pod/memory.failcnt", "5\n"),
                ("mem/pod/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 0\n"),
                ("mem/pod/db/memory.limit_in_bytes", "9223372036854771712\n"),
                ("mem/pod/db/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 0\n"),
            ],
        );
        let write = |name: &str, text: &str| std::fs::write(root.path().join(name), text).unwrap();
        let limits = limits(&root).unwrap();
        let before = limits.read().earlier(Duration::from_secs(10));
        write("mem/pod/memory.failcnt", "9\n");
        write("mem/pod/db/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n");
        let memory = limits.between(&before, &limits.read()).unwrap().memory.unwrap();
        assert!(memory.killed == 1 && memory.path.ends_with("mem/pod"), "{memory:?}");
    }

    #[test]
    fn what_another_server_met_at_a_limit_of_its_own_was_not_met_at_the_limit_of_both() {
        let events = |met: u32, killed: u32| format!("low 0\nhigh 0\nmax {met}\noom 0\noom_kill {killed}\n");
        let memory = |all: &str, own: Option<&str>| {
            let mut files = vec![
                ("cg/both/memory.max", "1000000\n"),
                ("cg/both/memory.current", "900000\n"),
                ("cg/both/memory.events", all),
                ("cg/both/db/memory.max", "500000\n"),
                ("cg/both/db/memory.current", "100000\n"),
            ];
            files.extend(own.map(|own| ("cg/both/memory.events.local", own)));
            let root = host("0::/both/db\n", &[("cg", "cgroup2", "rw")], &files);
            let limits = limits(&root).unwrap();
            let mut before = limits.read().earlier(Duration::from_secs(10));
            before.memory = vec![MemoryReading::default(); 2];
            let on_the_way = limits.kills(&limits.read()).since(&limits.kills(&before));
            let memory = limits.between(&before, &limits.read()).unwrap().memory.unwrap();
            (memory.met_per_s > 0.0, memory.killed, on_the_way.is_empty())
        };
        let (all, none) = (events(50, 1), events(0, 0));
        assert_eq!(memory(&all, Some(&none)), (false, 0, true), "the other one's limit");
        assert_eq!(memory(&all, Some(&events(50, 0))), (true, 1, false));
        assert_eq!(memory(&all, None), (true, 1, false), "an older kernel does not tell them apart");
        assert_eq!(memory(&events(0, 1), None), (false, 0, true), "the host had none left");
    }
}
