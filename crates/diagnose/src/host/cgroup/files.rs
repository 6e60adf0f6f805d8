//! Where the groups of a process are, and what their files say, one level at a time and all levels up to the
//! mount.

use super::super::cpu;
use super::super::text::{decimal, lines, words};
use super::{Ceiling, IO, NO_LIMIT, ThreadCeiling, Throttle, Version};
use std::path::{Component, Path, PathBuf};

/// The online CPUs that the process in this directory may run on; `None` where that is all of them, or is
/// not known. In a container of LXC the CPUs are numbered anew (lxcfs), and those that a process may run on
/// are not: then it is not known.
pub(super) fn pinned_to(process: &Path, proc: &Path) -> Option<Vec<u32>> {
    let mounts = std::fs::read_to_string(proc.join("self/mounts")).unwrap_or_default();
    if are_numbered_anew(&mounts, &proc.join("stat")) {
        return None;
    }
    let status = std::fs::read_to_string(process.join("status")).ok()?;
    let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    let online = cpu::parse(&std::fs::read(proc.join("stat")).ok()?).each;
    let left: Vec<u32> =
        online.iter().map(|(number, _)| *number).filter(|number| lists(allowed, *number)).collect();
    (!left.is_empty() && left.len() < online.len()).then_some(left)
}

/// Whether `stat` is a file of lxcfs.
fn are_numbered_anew(mounts: &str, stat: &Path) -> bool {
    mounts.lines().any(|line| {
        let mut words = line.split(' ').skip(1);
        let (at, kind) = (words.next(), words.next());
        at.is_some_and(|at| Path::new(at) == stat) && kind == Some("fuse.lxcfs")
    })
}

/// Whether a list of the kernel's (`0-3,8`) has a number.
fn lists(list: &str, number: u32) -> bool {
    list.trim().split(',').any(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let bounds = first.parse::<u32>().ok().zip(last.parse().ok());
        bounds.is_some_and(|(first, last)| (first..=last).contains(&number))
    })
}

/// The lines of every `io.max` from `dir` up to the mount: each level limits what is below it together.
pub(super) fn throttles(dir: &Path, mount: &Path) -> Vec<Throttle> {
    let of = |dir: &Path| {
        let text = bytes(dir, "io.max");
        let throttle = |line: &[u8]| {
            let device = String::from_utf8_lossy(words(line).next()?).into_owned();
            let most = IO.map(|(limited, _, _)| {
                words(line).find_map(|word| decimal(word.strip_prefix(limited.as_bytes())?))
            });
            most.iter().any(Option::is_some).then(|| Throttle { dir: dir.to_owned(), device, most })
        };
        lines(&text).filter_map(throttle).collect::<Vec<_>>()
    };
    upwards(dir, mount).flat_map(of).collect()
}

/// The groups of a process, and what is mounted here of their hierarchies.
pub(super) struct Hierarchies {
    /// `/proc/<pid>/cgroup`.
    groups: String,
    /// Our `mounts`.
    mounts: String,
    /// Our `mountinfo`, which says which group a mount has at its top; empty where it cannot be read.
    tops: String,
}

impl Hierarchies {
    /// `None` where there is no such process.
    pub(super) fn of(pid: u32, proc: &Path) -> Option<Self> {
        let groups = std::fs::read_to_string(proc.join(pid.to_string()).join("cgroup")).ok()?;
        let mounts = std::fs::read_to_string(proc.join("self/mounts")).ok()?;
        let tops = std::fs::read_to_string(proc.join("self/mountinfo")).unwrap_or_default();
        Some(Self { groups, mounts, tops })
    }

    /// The directory of the process for a controller, and the mount above it; `None` where there is none, or
    /// it is not mounted here.
    pub(super) fn directory(&self, controller: &str) -> Option<(PathBuf, PathBuf, Version)> {
        let (mount, path, version) = self.group(controller)?;
        let below = below(path, self.top(&mount))?;
        Some((mount.join(below), mount, version))
    }

    /// Whether the hierarchy of a controller is mounted here, and the process's group in it is not.
    pub(super) fn is_elsewhere(&self, controller: &str) -> bool {
        self.group(controller).is_some_and(|(mount, path, _)| below(path, self.top(&mount)).is_none())
    }

    /// The mount of a controller's hierarchy and the process's group in it: of version 1 where the controller
    /// is mounted by itself, else of version 2. Of several mounts the first that has the group counts: a
    /// container may have the host's beside its own.
    fn group(&self, controller: &str) -> Option<(PathBuf, &str, Version)> {
        let mount = |path: &str, wanted: &dyn Fn(&str, &str) -> bool| {
            let all = self.mounts.lines().filter_map(|line| {
                let mut words = line.split(' ').skip(1);
                let (at, kind, options) = (words.next()?, words.next()?, words.next()?);
                wanted(kind, options).then(|| PathBuf::from(at))
            });
            let all: Vec<PathBuf> = all.collect();
            let has_it = |mount: &&PathBuf| below(path, self.top(mount)).is_some();
            all.iter().find(has_it).or(all.first()).cloned()
        };
        let mut lines = self.groups.lines().filter_map(|line| {
            let (_, rest) = line.split_once(':')?;
            rest.split_once(':')
        });
        let of_it = |names: &str| names.split(',').any(|name| name == controller);
        if let Some((_, path)) = lines.clone().find(|(names, _)| of_it(names)) {
            let mount = mount(path, &|kind, options| kind == "cgroup" && of_it(options))?;
            return Some((mount, path, Version::One));
        }
        let (_, path) = lines.find(|(names, _)| names.is_empty())?;
        Some((mount(path, &|kind, _| kind == "cgroup2")?, path, Version::Two))
    }

    /// The group at the top of a mount; of several mounts at one place the last is the one to be seen.
    fn top(&self, mount: &Path) -> &str {
        let top = self.tops.lines().rev().find_map(|line| {
            let mut words = line.split(' ').skip(3);
            let (top, at) = (words.next()?, words.next()?);
            (Path::new(at) == mount).then_some(top)
        });
        top.unwrap_or("/")
    }
}

/// What of a group's path lies below the top of its mount; `None` for a group that is not there: that of
/// another container, as seen from inside of a cgroup namespace (`/../db`) or by a mount of one's own group.
fn below<'a>(path: &'a str, top: &str) -> Option<&'a Path> {
    let below = Path::new(path).strip_prefix(top).ok()?;
    below.components().all(|part| part != Component::ParentDir).then_some(below)
}

/// `dir` and all above it, up to the mount.
fn upwards<'a>(dir: &'a Path, mount: &'a Path) -> impl Iterator<Item = &'a Path> {
    dir.ancestors().take_while(move |dir| dir.starts_with(mount))
}

/// Every quota of CPU time from `dir` up to the mount.
pub(super) fn quotas(dir: &Path, mount: &Path, version: Version) -> Vec<(PathBuf, f64)> {
    upwards(dir, mount).filter_map(|dir| Some((dir.to_owned(), quota(dir, version)?))).collect()
}

/// CPU seconds a second that `dir` allows.
fn quota(dir: &Path, version: Version) -> Option<f64> {
    let (quota, period) = match version {
        Version::Two => {
            let max = bytes(dir, "cpu.max");
            let mut words = words(&max);
            (words.next().and_then(decimal)?, words.next().and_then(decimal)?)
        }
        Version::One => (first(&bytes(dir, "cpu.cfs_quota_us"))?, first(&bytes(dir, "cpu.cfs_period_us"))?),
    };
    (period > 0).then(|| quota as f64 / period as f64)
}

/// Every limit of memory, likewise.
pub(super) fn ceilings(dir: &Path, mount: &Path, version: Version) -> Vec<Ceiling> {
    let of = |level: &Path| {
        let limit = |file| first(&bytes(level, file)).filter(|bytes| *bytes < NO_LIMIT);
        let bytes = match version {
            Version::Two => limit("memory.max").into_iter().chain(limit("memory.high")).min(),
            Version::One => limit("memory.limit_in_bytes"),
        }?;
        Some(Ceiling { dir: level.to_owned(), of_process: dir.to_owned(), bytes, version })
    };
    upwards(dir, mount).filter_map(of).collect()
}

/// The share of the memory limit of `dir` that is in use, without the file cache and the entries of files and
/// directories (which version 2 alone tells): the kernel takes them back before it kills. `None` where no
/// limit kills (`memory.high` only slows down), or one cannot be read.
pub(super) fn in_use(dir: &Path, version: Version) -> Option<f64> {
    let (limit, used, caches) = match version {
        Version::Two => ("memory.max", "memory.current", ["active_file", "inactive_file"]),
        Version::One => {
            ("memory.limit_in_bytes", "memory.usage_in_bytes", ["total_active_file", "total_inactive_file"])
        }
    };
    let limit = first(&bytes(dir, limit)).filter(|limit| (1..NO_LIMIT).contains(limit))?;
    let used = first(&bytes(dir, used))?;
    let stat = bytes(dir, "memory.stat");
    let cache = caches.iter().map(|name| named(&stat, name.as_bytes())).sum::<Option<u64>>()?;
    let of_files = named(&stat, b"slab_reclaimable").unwrap_or(0);
    Some(used.saturating_sub(cache + of_files) as f64 / limit as f64)
}

/// Every limit of threads, likewise.
pub(super) fn thread_ceilings(dir: &Path, mount: &Path) -> Vec<ThreadCeiling> {
    let of = |dir: &Path| Some(ThreadCeiling { dir: dir.to_owned(), most: first(&bytes(dir, "pids.max"))? });
    upwards(dir, mount).filter_map(of).collect()
}

pub(super) fn bytes(dir: &Path, file: &str) -> Vec<u8> {
    std::fs::read(dir.join(file)).unwrap_or_default()
}

pub(super) fn first(bytes: &[u8]) -> Option<u64> {
    words(bytes).next().and_then(decimal)
}

pub(super) fn named(bytes: &[u8], wanted: &[u8]) -> Option<u64> {
    lines(bytes).find_map(|line| {
        let mut words = words(line);
        (words.next() == Some(wanted)).then(|| words.next().and_then(decimal)).flatten()
    })
}
