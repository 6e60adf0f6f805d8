//! Limits of the process itself (`ulimit`): how many files it may open, and how many threads its user may
//! have.
//!
//! The kernel counts all threads of the user against `RLIMIT_NPROC`. Those of the process alone are what is
//! known for certain: there are at least this many. Root and whoever may exceed limits is not held by it.
//! (The root of a user namespace is: that it is near its limit is not told.)
//!
//! Sources: `getrlimit(2)` (`RLIMIT_NPROC`), `proc(5)` (`limits`, `fd`, and `Threads`, `Uid` and `CapEff` of
//! `status`), `linux/capability.h`.

use super::{FileLimit, ThreadLimit};
use std::path::Path;

/// `CAP_SYS_ADMIN` and `CAP_SYS_RESOURCE`: with either the number of threads is not limited.
const EXEMPT: u64 = (1 << 21) | (1 << 24);

/// The threads of a process, and how many its user may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OwnThreads {
    pub(super) limit: u64,
    threads: u64,
}

impl OwnThreads {
    /// Of the process in this directory of `/proc`; `None` where it has no such limit, or is not held by it.
    pub(super) fn of(process: &Path) -> Option<Self> {
        let limit = soft_limit(process, "Max processes")?;
        let status = std::fs::read_to_string(process.join("status")).ok()?;
        let capabilities = u64::from_str_radix(first(&status, "CapEff:")?, 16).ok()?;
        if first(&status, "Uid:")? == "0" || capabilities & EXEMPT != 0 {
            return None;
        }
        Some(Self { limit, threads: first(&status, "Threads:")?.parse().ok()? })
    }

    /// The threads of one that was looked up, and has that limit.
    pub(super) fn now(process: &Path, limit: u64) -> Option<Self> {
        let status = std::fs::read_to_string(process.join("status")).ok()?;
        Some(Self { limit, threads: first(&status, "Threads:")?.parse().ok()? })
    }

    pub(super) fn as_limit(self) -> ThreadLimit {
        let Self { limit, threads } = self;
        ThreadLimit { path: String::new(), limit, used: threads, refused: 0, by_ulimit: true }
    }
}

impl FileLimit {
    /// Of the process in this directory of `/proc`; `None` where they cannot be counted.
    pub(super) fn of(process: &Path) -> Option<Self> {
        Self::now(process, soft_limit(process, "Max open files")?)
    }

    /// The open files of one that was looked up, and has that limit.
    pub(super) fn now(process: &Path, limit: u64) -> Option<Self> {
        let files = process.join("fd");
        // From Linux 6.2 on the directory's size is their number; before it is 0.
        let counted = std::fs::metadata(&files).ok()?.len();
        let open = match counted {
            0 => std::fs::read_dir(&files).ok()?.count() as u64,
            counted => counted,
        };
        Some(Self { limit, open })
    }
}

/// The first word of a line of `status`.
fn first<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    let rest = status.lines().find_map(|line| line.strip_prefix(name))?;
    rest.split_whitespace().next()
}

/// The limit in force, of a line of `limits`; `None` where it is unlimited or not told.
fn soft_limit(process: &Path, called: &str) -> Option<u64> {
    let limits = std::fs::read_to_string(process.join("limits")).ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix(called))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{host, limits};
    use super::*;
    use std::time::Duration;

    /// The kernel's words (Linux 6.18), some lines left out.
    fn process(processes: &str, uid: u32, capabilities: &str) -> [String; 2] {
        let limits = format!(
            "Limit                     Soft Limit           Hard Limit           Units     \n\
             Max processes             {processes:<20} unlimited            processes \n\
             Max open files            1024                 1048576              files     \n"
        );
        let status = format!(
            "Name:\tmariadbd\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\nThreads:\t97\n\
             CapEff:\t{capabilities}\nCpus_allowed_list:\t0-1\n"
        );
        [limits, status]
    }

    fn of(processes: &str, uid: u32, capabilities: &str) -> Option<OwnThreads> {
        let [limits, status] = process(processes, uid, capabilities);
        let root = host("0::/\n", &[], &[("proc/42/limits", &limits), ("proc/42/status", &status)]);
        OwnThreads::of(&root.path().join("proc/42"))
    }

    #[test]
    fn threads_are_limited_for_an_ordinary_user_and_not_for_root_or_one_that_may_exceed_limits() {
        const NONE: &str = "0000000000000000";
        assert_eq!(of("100", 999, NONE), Some(OwnThreads { limit: 100, threads: 97 }));
        assert_eq!(of("unlimited", 999, NONE), None);
        assert_eq!(of("100", 0, NONE), None);
        assert_eq!(of("100", 999, "0000000001000000"), None, "CAP_SYS_RESOURCE");
        assert_eq!(of("100", 999, "0000000000800000"), Some(OwnThreads { limit: 100, threads: 97 }));
    }

    #[test]
    fn of_the_cgroups_limit_and_the_users_the_one_that_is_nearer_counts() {
        let [text, status] = process("100", 999, "0000000000000000");
        let sample = |pids_max: &str, refused_before: u64| {
            let root = host(
                "0::/db\n",
                &[("cg", "cgroup2", "rw")],
                &[
                    ("cg/db/pids.max", pids_max),
                    ("cg/db/pids.current", "99\n"),
                    ("cg/db/pids.events", "max 3\n"),
                    ("proc/42/limits", &text),
                    ("proc/42/status", &status),
                ],
            );
            let limits = limits(&root).unwrap();
            let mut before = limits.read().earlier(Duration::from_secs(10));
            before.threads.iter_mut().for_each(|(_, refused)| *refused = refused_before);
            let threads = limits.between(&before, &limits.read()).unwrap().threads.unwrap();
            (threads.limit, threads.used, threads.by_ulimit)
        };
        assert_eq!(sample("4000\n", 3), (100, 97, true));
        assert_eq!(sample("max\n", 3), (100, 97, true), "without a limit of the cgroup, too");
        assert_eq!(sample("100\n", 3), (100, 99, false));
        assert_eq!(sample("110\n", 2), (110, 99, false), "it refused one");
    }
}
