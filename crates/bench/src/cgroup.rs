//! Where cgroups are on this host, and one of the bench's own around a process, for as long as it is held.
//!
//! A controller is mounted by itself (version 1), or belongs to the hierarchy of version 2. Both may be
//! mounted beside each other, each with some of the controllers; who has a controller is asked for each.
//! Groups are made below the root: those of others (a service manager's, a container's) are left alone, and a
//! group of version 2 that has processes may have no limited groups below it anyway.

use anyhow::{Context, bail};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A group that was left a moment ago may still count as in use.
const TRIES: u32 = 20;
const BETWEEN: Duration = Duration::from_millis(25);

/// The mount that has a controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hierarchy {
    mount: PathBuf,
    controller: String,
    version_2: bool,
}

/// A group around a process; dropped, the process is back where it was and the group is removed.
#[derive(Debug)]
pub(crate) struct Group {
    directory: PathBuf,
    home: PathBuf,
    pid: u32,
    version_2: bool,
}

impl Hierarchy {
    /// The mount with a controller; `None` where this host has no such cgroups.
    pub(crate) fn of(controller: &str) -> Option<Self> {
        let mounts = std::fs::read_to_string("/proc/self/mounts").ok()?;
        find(&mounts, controller, |mount| {
            std::fs::read_to_string(mount.join("cgroup.controllers")).unwrap_or_default()
        })
    }

    /// Whether it is the one of version 2.
    pub(crate) fn is_version_2(&self) -> bool {
        self.version_2
    }

    /// Where a group of this name is, or would be, below the root.
    pub(crate) fn directory(&self, name: &str) -> PathBuf {
        self.mount.join(name)
    }

    /// Makes a group without processes there.
    ///
    /// # Errors
    /// Not root.
    pub(crate) fn make(&self, directory: &Path) -> anyhow::Result<()> {
        if self.version_2 {
            self.enable()?;
        }
        make(directory)
    }

    /// Puts a process into a group of its own, without a limit yet.
    ///
    /// # Errors
    /// Not root, or there is no such process.
    pub(crate) fn around(&self, pid: u32, name: &str) -> anyhow::Result<Group> {
        let path = format!("/proc/{pid}/cgroup");
        let groups = std::fs::read_to_string(&path).with_context(|| format!("reading {path}"))?;
        let home =
            self.home(&groups).with_context(|| format!("{path} names no group of {}", self.controller))?;
        let directory = self.directory(name);
        self.make(&directory)?;
        Ok(Group { directory, home, pid, version_2: self.version_2 })
    }

    /// Where the lines of `/proc/<pid>/cgroup` say that a process is.
    fn home(&self, groups: &str) -> Option<PathBuf> {
        let path = groups.lines().find_map(|line| {
            let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
            let is_it = if self.version_2 {
                controllers.is_empty()
            } else {
                controllers.split(',').any(|one| one == self.controller)
            };
            is_it.then_some(path)
        })?;
        Some(self.mount.join(path.trim_start_matches('/')))
    }

    /// Lets groups below the root of version 2 be limited.
    pub(crate) fn enable(&self) -> anyhow::Result<()> {
        let file = self.mount.join("cgroup.subtree_control");
        let enabled = std::fs::read_to_string(&file).unwrap_or_default();
        if enabled.split_ascii_whitespace().any(|one| one == self.controller) {
            return Ok(());
        }
        write(&file, &format!("+{}", self.controller))
    }
}

impl Group {
    /// Whether it may have limits of other controllers, too.
    pub(crate) fn is_version_2(&self) -> bool {
        self.version_2
    }

    /// Sets one of its limits.
    pub(crate) fn write(&self, file: &str, words: &str) -> anyhow::Result<()> {
        write(&self.directory.join(file), words)
    }

    /// From now on the process, with all its threads, is in it.
    pub(crate) fn enter(&self) -> anyhow::Result<()> {
        self.write("cgroup.procs", &self.pid.to_string())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let is_there = || Path::new("/proc").join(self.pid.to_string()).exists();
        if let Err(error) = write(&self.home.join("cgroup.procs"), &self.pid.to_string())
            && is_there()
        {
            tracing::warn!(%error, "the server stays in a cgroup of the bench");
        }
        remove(&self.directory);
    }
}

/// Removes a group that no process is in any more.
pub(crate) fn remove(directory: &Path) {
    for _ in 0..TRIES {
        match std::fs::remove_dir(directory) {
            Err(error) if error.kind() == std::io::ErrorKind::ResourceBusy => std::thread::sleep(BETWEEN),
            _ => return,
        }
    }
    tracing::warn!(directory = %directory.display(), "a cgroup of the bench stays");
}

/// In place of one that a killed run left: its limits would stay in force.
fn make(directory: &Path) -> anyhow::Result<()> {
    let _ = std::fs::remove_dir(directory);
    std::fs::create_dir(directory)
        .with_context(|| format!("making the cgroup {} (root is needed)", directory.display()))?;
    // A plain directory where a hierarchy is no longer mounted would take all words and limit nothing.
    if !directory.join("cgroup.procs").exists() {
        let _ = std::fs::remove_dir(directory);
        bail!("{} is no cgroup", directory.display());
    }
    Ok(())
}

fn write(path: &Path, words: &str) -> anyhow::Result<()> {
    std::fs::write(path, words).with_context(|| format!("writing '{words}' to {}", path.display()))
}

/// The hierarchy with a controller among some mounts: of version 1 where it is mounted by itself, else that
/// of version 2 if it lists it.
fn find(mounts: &str, controller: &str, listed: impl Fn(&Path) -> String) -> Option<Hierarchy> {
    let mount = |version_2: bool, wanted: &dyn Fn(&Path, &str) -> bool| {
        let kind = if version_2 { "cgroup2" } else { "cgroup" };
        mounts.lines().find_map(|line| {
            let mut words = line.split(' ').skip(1);
            let (path, of_kind, options) = (Path::new(words.next()?), words.next()?, words.next()?);
            (of_kind == kind && wanted(path, options)).then(|| Hierarchy {
                mount: path.to_owned(),
                controller: controller.to_owned(),
                version_2,
            })
        })
    };
    let by_itself = |_: &Path, options: &str| options.split(',').any(|option| option == controller);
    let has_it = |path: &Path, _: &str| listed(path).split_ascii_whitespace().any(|one| one == controller);
    mount(false, &by_itself).or_else(|| mount(true, &has_it))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "proc /proc proc rw 0 0\n\
        cgroup /sys/fs/cgroup/memory cgroup rw,relatime,memory 0 0\n\
        cgroup /sys/fs/cgroup/cpu cgroup rw,cpu,cpuacct 0 0\n\
        cgroup2 /sys/fs/cgroup/unified cgroup2 rw,relatime 0 0\n";

    fn of(controller: &str) -> Option<Hierarchy> {
        find(MOUNTS, controller, |mount| {
            assert_eq!(mount, Path::new("/sys/fs/cgroup/unified"));
            "io hugetlb\n".to_owned()
        })
    }

    #[test]
    fn each_controller_is_where_it_is_mounted_and_version_2_has_the_rest() {
        let memory = of("memory").unwrap();
        assert_eq!((memory.mount.to_str(), memory.version_2), (Some("/sys/fs/cgroup/memory"), false));
        let io = of("io").unwrap();
        assert_eq!((io.mount.to_str(), io.version_2), (Some("/sys/fs/cgroup/unified"), true));
        assert_eq!(of("pids"), None, "nobody has it");
    }

    #[test]
    fn a_process_is_found_in_the_group_that_it_goes_back_to() {
        let groups = "4:memory:/service/db\n3:cpuacct,cpu:/\n0::/session\n";
        let home = |controller: &str| of(controller).unwrap().home(groups);
        assert_eq!(home("memory"), Some("/sys/fs/cgroup/memory/service/db".into()));
        assert_eq!(home("cpu"), Some("/sys/fs/cgroup/cpu/".into()));
        assert_eq!(home("io"), Some("/sys/fs/cgroup/unified/session".into()));
    }
}
