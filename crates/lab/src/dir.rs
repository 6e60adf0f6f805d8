//! The directory of a lab, so made that nothing of a lab outlives its owner for longer than until the next
//! start.
//!
//! `<base>/headroom-lab-<random>` holds data directories, sockets and credentials. Its file `lock` is held
//! with flock by the owner for as long as it lives, however it ends. [`sweep`] finds directories whose lock
//! is free, kills the servers that still run on them and removes them.
//!
//! A leftover server is recognised by its own command line: an argument that names this very directory. The
//! directory's name is random and never used again, so no recycled process id can be mistaken for one. The
//! process is pinned (pidfd) before it is looked at and killed through the pin.

use crate::Error;
use rustix::fs::MetadataExt;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const PREFIX: &str = "headroom-lab-";
/// Under this name until the lock is held, so that no sweep meets a directory that is not locked yet.
const NEW_PREFIX: &str = "headroom-new-lab-";
/// A directory that was not locked after this long never will be.
const NEW_IS_ABANDONED: Duration = Duration::from_secs(60);
const LOCK: &str = "lock";
/// How long a killed process may take to end.
const GONE: Duration = Duration::from_secs(10);

/// A lab's directory, removed when this is dropped.
#[derive(Debug)]
pub(crate) struct LabDir {
    path: PathBuf,
    _lock: File,
}

impl LabDir {
    /// Makes and locks a new directory under `base` (which is made too if need be), readable by us only.
    pub(crate) fn create(base: &Path) -> Result<Self, Error> {
        make_base(base)?;
        let base = base.canonicalize().map_err(Error::io(format!("resolve {}", base.display())))?;
        let random: u32 = rand::random();
        let new = base.join(format!("{NEW_PREFIX}{random:08x}"));
        let path = base.join(format!("{PREFIX}{random:08x}"));
        DirBuilder::new().mode(0o700).create(&new).map_err(Error::io(format!("make {}", new.display())))?;
        let locked = lock_new(&new).and_then(|lock| fs::rename(&new, &path).map(|()| lock));
        match locked {
            Ok(lock) => Ok(Self { path, _lock: lock }),
            Err(source) => {
                // What we failed to make we also fail to keep; the next sweep takes the rest.
                let _ = fs::remove_dir_all(&new);
                Err(Error::Io { action: format!("lock {}", new.display()), source })
            }
        }
    }

    /// Where it is, without symbolic links.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for LabDir {
    fn drop(&mut self) {
        self.destroy();
    }
}

impl LabDir {
    /// Kills what runs on it and removes it. Again when something was added meanwhile.
    pub(crate) fn destroy(&self) {
        if !self.path.exists() {
            return;
        }
        kill_all_on(&self.path);
        if let Err(error) = remove(&self.path) {
            tracing::warn!(dir = %self.path.display(), %error, "the lab's directory could not be removed; the next sweep tries again");
        }
    }
}

/// Makes the directory that labs lie in, or takes the one that is there, if nobody else may rename what is in
/// it.
///
/// # Errors
/// It cannot be made, belongs to another user than us and root, or others may write to it and it is not
/// sticky.
pub fn make_base(base: &Path) -> Result<(), Error> {
    fs::create_dir_all(base).map_err(Error::io(format!("make directory {}", base.display())))?;
    let found = fs::metadata(base).map_err(Error::io(format!("look at {}", base.display())))?;
    let ours = rustix::process::geteuid().as_raw();
    if is_safe(found.uid(), found.mode(), ours) {
        return Ok(());
    }
    Err(Error::BaseOfOthers { base: base.to_owned(), owner: found.uid(), mode: found.mode() & 0o7777, ours })
}

fn is_safe(owner: u32, mode: u32, ours: u32) -> bool {
    const STICKY: u32 = 0o1000;
    [0, ours].contains(&owner) && (mode & 0o022 == 0 || mode & STICKY != 0)
}

/// Kills what dead owners left running under `base` and removes their directories. Returns the directories.
pub(crate) fn sweep(base: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut swept = Vec::new();
    for (path, is_new) in candidates(base)? {
        if is_new {
            let age = fs::metadata(&path).and_then(|m| m.modified()).ok().and_then(|t| t.elapsed().ok());
            if age.is_some_and(|age| age > NEW_IS_ABANDONED) {
                let _ = fs::remove_dir_all(&path);
            }
            continue;
        }
        let Some(_lock) = lock_of_the_dead(&path) else { continue };
        kill_all_on(&path);
        remove(&path).map_err(Error::io(format!("remove {}", path.display())))?;
        tracing::info!(dir = %path.display(), "removed a lab whose owner has ended");
        swept.push(path);
    }
    Ok(swept)
}

/// Directories under `base` whose owner lives.
pub(crate) fn living(base: &Path) -> Result<Vec<PathBuf>, Error> {
    let all = candidates(base)?.into_iter().filter(|(_, is_new)| !is_new);
    let held = |path: &Path| match File::open(path.join(LOCK)) {
        Ok(lock) => matches!(lock.try_lock_shared(), Err(fs::TryLockError::WouldBlock)),
        Err(_) => false,
    };
    Ok(all.map(|(path, _)| path).filter(|path| held(path)).collect())
}

/// Directories of our own user that look like a lab's, and whether each is still being made.
fn candidates(base: &Path) -> Result<Vec<(PathBuf, bool)>, Error> {
    // Without symbolic links, as the command lines of leftover servers name it.
    let entries = match base.canonicalize().and_then(fs::read_dir) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => return Err(Error::Io { action: format!("list {}", base.display()), source }),
    };
    let us = rustix::process::geteuid().as_raw();
    let mut found = Vec::new();
    for entry in entries.flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let is_new = name.starts_with(NEW_PREFIX);
        let ours = entry.metadata().is_ok_and(|m| m.is_dir() && MetadataExt::uid(&m) == us);
        if ours && (is_new || name.starts_with(PREFIX)) {
            found.push((entry.path(), is_new));
        }
    }
    Ok(found)
}

fn lock_new(dir: &Path) -> io::Result<File> {
    let lock = File::create_new(dir.join(LOCK))?;
    lock.try_lock()?;
    Ok(lock)
}

/// The lock of a directory nobody owns; `None` when its owner lives, or when it is no lab's. A lab's
/// directory without the file lost it to a removal that did not finish.
fn lock_of_the_dead(dir: &Path) -> Option<Option<File>> {
    match File::open(dir.join(LOCK)) {
        Ok(lock) => lock.try_lock().is_ok().then_some(Some(lock)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => (!holds_labs(dir)).then_some(None),
        Err(_) => None,
    }
}

/// Whether labs lie in it. The usual place of a user's labs (`/tmp/headroom-lab-1000`) is called like one,
/// and who keeps labs in `/tmp` itself must not take it for the remains of one.
fn holds_labs(dir: &Path) -> bool {
    let Ok(entries) = fs::read_dir(dir) else { return true };
    entries.flatten().any(|entry| {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        name.starts_with(PREFIX) || name.starts_with(NEW_PREFIX)
    })
}

/// Removes a directory; the lock goes last, so that an interrupted removal is still recognised and never
/// looks owned.
fn remove(dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)?.flatten() {
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            fs::remove_dir_all(&path)?;
        } else if entry.file_name() != LOCK {
            fs::remove_file(&path)?;
        }
    }
    fs::remove_dir_all(dir)
}

/// Kills every process that was started on a directory of ours and waits until they have ended.
fn kill_all_on(dir: &Path) {
    let deadline = Instant::now() + GONE;
    loop {
        let found = kill_once(dir);
        if found == 0 {
            return;
        }
        if Instant::now() > deadline {
            tracing::warn!(dir = %dir.display(), found, "killed processes do not go away");
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn kill_once(dir: &Path) -> usize {
    let Ok(entries) = fs::read_dir("/proc") else { return 0 };
    let pids = entries.flatten().filter_map(|e| e.file_name().to_str()?.parse::<i32>().ok());
    pids.filter_map(Pid::from_raw).filter(|pid| kill_if_on(*pid, dir)).count()
}

/// Whether the process is one of the directory's and not yet a zombie; if so it is killed.
fn kill_if_on(pid: Pid, dir: &Path) -> bool {
    if pid == rustix::process::getpid() {
        return false;
    }
    let Ok(pin) = pidfd_open(pid, PidfdFlags::empty()) else { return false };
    // Read after pinning: what we read is the process we kill.
    let Ok(command_line) = fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero())) else { return false };
    names(&command_line, dir) && pidfd_send_signal(&pin, Signal::KILL).is_ok()
}

/// Whether an argument is an option whose value is a path below `dir`: `--defaults-file=<dir>/a1/my.cnf`.
fn names(command_line: &[u8], dir: &Path) -> bool {
    let dir = dir.as_os_str().as_bytes();
    command_line.split(|b| *b == 0).any(|argument| {
        let value = argument.strip_prefix(b"--").and_then(|a| a.splitn(2, |b| *b == b'=').nth(1));
        value.and_then(|v| v.strip_prefix(dir)).is_some_and(|rest| rest.starts_with(b"/"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_options_that_name_the_directory_mark_a_process_as_its_own() {
        let dir = Path::new("/tmp/headroom-lab-1");
        assert!(names(b"mariadbd\0--defaults-file=/tmp/headroom-lab-1/a1/my.cnf\0", dir));
        assert!(!names(b"mariadbd\0--defaults-file=/tmp/headroom-lab-12/a1/my.cnf\0", dir));
        assert!(!names(b"tail\0-f\0/tmp/headroom-lab-1/a1/error.log\0", dir));
    }

    #[test]
    fn a_base_where_others_may_rename_is_refused() {
        for (owner, mode, safe) in [
            (7, 0o40_700, true),
            (7, 0o40_755, true),
            (0, 0o41_777, true),
            (7, 0o40_777, false),
            (7, 0o40_770, false),
            (8, 0o40_700, false),
            (8, 0o41_777, false),
        ] {
            assert_eq!(is_safe(owner, mode, 7), safe, "{owner} {mode:o}");
        }
        let base = tempfile::tempdir().unwrap();
        fs::set_permissions(base.path(), std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
        let refused = LabDir::create(base.path()).unwrap_err();
        assert!(refused.to_string().contains("0777"), "{refused}");
        assert!(fs::read_dir(base.path()).unwrap().next().is_none(), "nothing is made there");
    }

    #[test]
    fn a_sweep_does_not_take_the_place_of_all_labs_for_a_lab() {
        let temporary = tempfile::tempdir().unwrap();
        let running = LabDir::create(&temporary.path().join("headroom-lab-1000")).unwrap();
        assert_eq!(sweep(temporary.path()).unwrap(), Vec::<PathBuf>::new());
        assert!(running.path().join(LOCK).exists(), "it belongs to somebody who lives");
    }

    #[test]
    fn a_sweep_leaves_the_living_alone_and_removes_what_nobody_owns() {
        let base = tempfile::tempdir().unwrap();
        let living_one = LabDir::create(base.path()).unwrap();
        let dead = base.path().canonicalize().unwrap().join("headroom-lab-dead");
        fs::create_dir(&dead).unwrap();
        File::create(dead.join(LOCK)).unwrap();
        assert_eq!(sweep(base.path()).unwrap().len(), 1);
        assert!(!dead.exists());
        assert_eq!(living(base.path()).unwrap(), [living_one.path()]);
        let path = living_one.path().to_owned();
        drop(living_one);
        assert!(!path.exists());
    }
}
