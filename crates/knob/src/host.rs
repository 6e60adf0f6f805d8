//! The host as a directory: `/`, or a tree that a test made. Every file and every program of this crate is
//! found below it.
//!
//! [`Effects`] is the seam through which everything leaves the process, so that a test can stop the process
//! before any of them, or answer as a kernel would (`echo none > scheduler` reads back as `[none]
//! mq-deadline`).

use crate::command_output::{CommandOutput, OUTPUT_LIMIT};
use crate::error::{Error, Refusal};
use rustix::process::{Pid, Signal};
use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Where programs are looked for, below the root.
const PROGRAM_PLACES: [&str; 5] = ["usr/local/sbin", "usr/sbin", "sbin", "usr/bin", "bin"];
/// A program that has not ended by then is killed: `zfs` on a suspended pool never does.
const PROGRAM_LIMIT: Duration = Duration::from_secs(60);
/// The same for programs that restart a server or copy its data, the operator's own among them: a large
/// buffer pool takes minutes to be written and read again.
pub(crate) const LONG_LIMIT: Duration = Duration::from_secs(1800);

/// Of a file of our own, whatever root's umask is: a server that runs as its own user passes over an option
/// file that it cannot read.
const READABLE: u32 = 0o644;

/// Something that is about to leave the process.
#[derive(Clone, Copy, Debug)]
pub enum Step<'a> {
    /// A file of the journal is made and renamed into place.
    Create(&'a Path),
    /// Bytes `from..to` are appended to the journal.
    Append {
        /// Length before.
        from: u64,
        /// Length after.
        to: u64,
    },
    /// The journal is synced up to this length.
    Sync(u64),
    /// The directory of the journal is synced.
    SyncDirectory,
    /// A setting is written.
    Write(&'a str),
    /// A setting was written.
    Written(&'a str),
}

/// How effects leave the process.
pub trait Effects: Send + Sync {
    /// Called before each step; an error stops it from happening.
    ///
    /// # Errors
    /// The step shall not happen.
    fn before(&self, _step: Step<'_>) -> io::Result<()> {
        Ok(())
    }

    /// Writes a setting to a file of the host.
    ///
    /// # Errors
    /// The kernel's own.
    fn write(&self, file: &Path, text: &str) -> io::Result<()> {
        // Never created: a setting that is not there is refused, not made up.
        let mut open = std::fs::OpenOptions::new();
        let mut file = open.write(true).truncate(true).open(file)?;
        io::Write::write_all(&mut file, text.as_bytes())
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Real;

impl Effects for Real {}

#[derive(Clone)]
pub struct Host {
    root: PathBuf,
    effects: Arc<dyn Effects>,
}

impl std::fmt::Debug for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Host").field("root", &self.root).finish_non_exhaustive()
    }
}

impl Host {
    /// The host below this directory; `/` is the one we run on.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self::with_effects(root, Arc::new(Real))
    }

    /// The same with other effects, for tests.
    pub fn with_effects(root: impl Into<PathBuf>, effects: Arc<dyn Effects>) -> Self {
        Self { root: root.into(), effects }
    }

    pub(crate) fn effects(&self) -> &Arc<dyn Effects> {
        &self.effects
    }

    /// Whether this is the host we run on, and not a tree.
    pub fn is_this_one(&self) -> bool {
        self.root == Path::new("/")
    }

    /// Where an absolute path of the host really lies.
    pub fn path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// A program's path from the root on: the journal outlives the directory that a command was started in.
    /// Below another root a path is that root's.
    ///
    /// # Errors
    /// It is not there, or its name is no text.
    pub fn whole_path(&self, path: &Path) -> Result<String, Error> {
        let whole = match self.is_this_one() {
            true => path.canonicalize().map_err(|source| Error::Program { path: path.to_owned(), source })?,
            false => path.to_owned(),
        };
        whole.to_str().map(str::to_owned).ok_or_else(|| Error::NoText { path: whole.clone() })
    }

    /// The text of a file, trimmed.
    ///
    /// # Errors
    /// It is not there or cannot be read.
    pub fn read(&self, path: &str) -> Result<String, Refusal> {
        let text = std::fs::read(self.path(path)).map_err(|error| refusal(path, &error))?;
        Ok(String::from_utf8_lossy(&text).trim().to_owned())
    }

    /// Writes a setting.
    ///
    /// # Errors
    /// The kernel refused it.
    pub(crate) fn write(&self, path: &str, text: &str) -> Result<(), Refusal> {
        let stopped = |error: &io::Error| refusal(path, error);
        self.effects.before(Step::Write(path)).map_err(|error| stopped(&error))?;
        self.effects.write(&self.path(path), text).map_err(|error| stopped(&error))?;
        self.effects.before(Step::Written(path)).map_err(|error| stopped(&error))
    }

    /// Names in a directory, sorted; none if it is not there.
    pub fn list(&self, path: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.path(path)).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort_by_key(|name| natural(name));
        names
    }

    /// Whether a file or directory is there.
    pub fn has(&self, path: &str) -> bool {
        self.path(path).exists()
    }

    /// This boot's id; empty where the kernel does not say.
    pub fn boot_id(&self) -> String {
        self.read("/proc/sys/kernel/random/boot_id").unwrap_or_default()
    }

    /// CPUs that exist, online or not: the highest number plus one.
    pub fn cpus(&self) -> u32 {
        let possible = self.read("/sys/devices/system/cpu/possible").unwrap_or_default();
        let last = crate::value::cpu_set(&possible, u32::MAX).ok().and_then(|set| set.last().copied());
        last.map_or(1, |last| last + 1)
    }

    /// CPUs that run now, as a list; empty where the kernel does not say.
    pub fn online(&self) -> String {
        self.read("/sys/devices/system/cpu/online").unwrap_or_default()
    }

    /// Where a program lies below the root.
    pub fn program(&self, name: &str) -> Option<PathBuf> {
        if name.starts_with('/') {
            return Some(self.path(name)).filter(|path| path.exists());
        }
        PROGRAM_PLACES.iter().map(|place| self.root.join(place).join(name)).find(|path| path.exists())
    }

    /// Runs a program that reads; its standard output.
    ///
    /// # Errors
    /// It is not there, failed, or did not end.
    pub(crate) fn ask(&self, name: &str, args: &[&str]) -> Result<String, Refusal> {
        self.ask_within(name, args, PROGRAM_LIMIT)
    }

    /// The same for one that may take longer.
    ///
    /// # Errors
    /// As above.
    pub(crate) fn ask_within(&self, name: &str, args: &[&str], limit: Duration) -> Result<String, Refusal> {
        let Some(program) = self.program(name) else {
            return Err(Refusal::Absent { what: format!("the program {name}") });
        };
        // It ends with us, even when we are killed: half a copy must not go on beside whoever puts it back.
        let with_us = self.is_this_one().then(|| self.program("setpriv")).flatten();
        let mut command = Command::new(with_us.as_ref().unwrap_or(&program));
        if with_us.is_some() {
            command.args(["--pdeathsig", "KILL", "--"]).arg(&program);
        }
        command
            .args(args)
            .env_clear()
            .env("LC_ALL", "C")
            .env("PATH", "/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin");
        let line = format!("{name} {}", args.join(" "));
        let failed = |why: String| Refusal::Denied { why: format!("{line}: {why}") };
        let unheard = |error: io::Error| failed(error.to_string());
        let (stdout, stderr) =
            (CommandOutput::new().map_err(unheard)?, CommandOutput::new().map_err(unheard)?);
        command.stdin(Stdio::null());
        command.stdout(stdout.writer().map_err(unheard)?).stderr(stderr.writer().map_err(unheard)?);
        // A Ctrl-C on the terminal is for us: a file system is not left half made.
        command.process_group(0);
        let mut child = command.spawn().map_err(|error| failed(error.to_string()))?;
        let begun = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait().map_err(|error| failed(error.to_string()))? {
                break status;
            }
            let why = if begun.elapsed() > limit {
                format!("no end within {} s", limit.as_secs())
            } else if stdout.length().max(stderr.length()) > OUTPUT_LIMIT {
                format!("it says more than {} MiB", OUTPUT_LIMIT >> 20)
            } else {
                std::thread::sleep(Duration::from_millis(2));
                continue;
            };
            // With everything that it has started. Whether it can be killed or not, nobody waits any longer.
            if let Some(group) = Pid::from_raw(child.id().cast_signed()) {
                let _ = rustix::process::kill_process_group(group, Signal::KILL);
            }
            return Err(failed(why));
        };
        if status.success() {
            return Ok(stdout.text().trim_end().to_owned());
        }
        let words = stderr.text();
        let first =
            words.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("it failed without a word");
        Err(failed(first.to_owned()))
    }

    /// Runs a program that changes something.
    ///
    /// # Errors
    /// As for one that reads.
    pub(crate) fn order(&self, name: &str, args: &[&str]) -> Result<(), Refusal> {
        self.order_within(name, args, PROGRAM_LIMIT)
    }

    /// The same for one that takes longer.
    ///
    /// # Errors
    /// As for one that reads.
    pub(crate) fn order_within(&self, name: &str, args: &[&str], limit: Duration) -> Result<(), Refusal> {
        let denied = |error: io::Error| Refusal::Denied { why: error.to_string() };
        self.effects.before(Step::Write(name)).map_err(denied)?;
        self.ask_within(name, args, limit)?;
        self.effects.before(Step::Written(name)).map_err(denied)
    }

    /// Writes a file of our own as a whole: after a crash the old one is there or the new one.
    ///
    /// # Errors
    /// The system refused it.
    pub(crate) fn write_file(&self, path: &str, text: &str) -> Result<(), Refusal> {
        let stopped = |error: io::Error| refusal(path, &error);
        self.effects.before(Step::Write(path)).map_err(stopped)?;
        let whole = self.path(path);
        let parent = whole.parent().unwrap_or(&self.root);
        let write = || -> io::Result<()> {
            std::fs::create_dir_all(parent)?;
            let new = whole.with_extension("headroom-new");
            let mut file = File::create(&new)?;
            file.set_permissions(Permissions::from_mode(READABLE))?;
            io::Write::write_all(&mut file, text.as_bytes())?;
            file.sync_all()?;
            std::fs::rename(&new, &whole)?;
            File::open(parent)?.sync_all()
        };
        write().map_err(stopped)?;
        self.effects.before(Step::Written(path)).map_err(stopped)
    }

    /// Removes a file of our own; one that is not there is removed.
    ///
    /// # Errors
    /// The system refused it.
    pub(crate) fn remove_file(&self, path: &str) -> Result<(), Refusal> {
        self.remove(path, |whole| std::fs::remove_file(whole))
    }

    /// The same for an empty directory.
    ///
    /// # Errors
    /// It is not empty, or the system refused it.
    pub(crate) fn remove_directory(&self, path: &str) -> Result<(), Refusal> {
        self.remove(path, |whole| std::fs::remove_dir(whole))
    }

    fn remove(&self, path: &str, work: impl Fn(&Path) -> io::Result<()>) -> Result<(), Refusal> {
        let stopped = |error: io::Error| refusal(path, &error);
        let whole = self.path(path);
        if !whole.exists() {
            return Ok(());
        }
        self.effects.before(Step::Write(path)).map_err(stopped)?;
        work(&whole).map_err(stopped)?;
        self.effects.before(Step::Written(path)).map_err(stopped)
    }

    /// Makes a directory of our own, and those above it.
    ///
    /// # Errors
    /// The system refused it.
    pub(crate) fn make_directory(&self, path: &str) -> Result<(), Refusal> {
        let stopped = |error: io::Error| refusal(path, &error);
        self.effects.before(Step::Write(path)).map_err(stopped)?;
        std::fs::create_dir_all(self.path(path)).map_err(stopped)?;
        self.effects.before(Step::Written(path)).map_err(stopped)
    }
}

/// The system's words for a file, with what can be done about the usual ones.
fn refusal(path: &str, error: &io::Error) -> Refusal {
    match error.kind() {
        io::ErrorKind::NotFound => Refusal::Absent { what: path.to_owned() },
        io::ErrorKind::PermissionDenied => {
            Refusal::Denied { why: format!("{path}: {error}; settings of the host need root") }
        }
        io::ErrorKind::ReadOnlyFilesystem => Refusal::Denied {
            why: format!(
                "{path}: {error}; in a container /sys and /proc/sys often are: set it on the host itself"
            ),
        },
        _ => Refusal::Denied { why: format!("{path}: {error}") },
    }
}

/// `rx-2` before `rx-10`.
fn natural(name: &str) -> (String, u64, String) {
    let digits = name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    let (stem, number) = name.split_at(digits);
    (stem.to_owned(), number.parse().unwrap_or(0), name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_in_the_order_that_people_count_in() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["rx-10", "rx-2", "tx-0"] {
            std::fs::create_dir_all(dir.path().join("sys/q").join(name)).unwrap();
        }
        assert_eq!(Host::new(dir.path()).list("/sys/q"), ["rx-2", "rx-10", "tx-0"]);
    }

    #[test]
    fn a_setting_that_is_not_there_is_never_made_up() {
        let dir = tempfile::tempdir().unwrap();
        let refused = Host::new(dir.path()).write("/absent", "1").unwrap_err();
        assert_eq!(refused, Refusal::Absent { what: "/absent".into() });
        assert!(!dir.path().join("absent").exists());
    }

    #[test]
    fn a_file_of_our_own_can_be_read_by_a_server_that_runs_as_another_user() {
        let dir = tempfile::tempdir().unwrap();
        // As a strict umask makes it.
        let new = dir.path().join("zz.headroom-new");
        std::fs::write(&new, "").unwrap();
        std::fs::set_permissions(&new, Permissions::from_mode(0o600)).unwrap();
        Host::new(dir.path()).write_file("/zz.cnf", "[mysqld]\n").unwrap();
        let mode = std::fs::metadata(dir.path().join("zz.cnf")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, READABLE);
    }

    #[test]
    fn a_refusal_says_what_can_be_done_about_it() {
        let why = |kind: io::ErrorKind| refusal("/sys/x", &io::Error::from(kind)).to_string();
        assert!(why(io::ErrorKind::PermissionDenied).contains("need root"));
        assert!(why(io::ErrorKind::ReadOnlyFilesystem).contains("container"));
    }

    #[test]
    fn a_program_may_say_much_and_leave_a_daemon_behind() {
        let host = Host::new("/");
        let much = host.ask("/bin/sh", &["-c", "head -c 300000 /dev/zero | tr '\\0' x"]).unwrap();
        assert_eq!(much.len(), 300_000);
        let begun = Instant::now();
        assert_eq!(host.ask("/bin/sh", &["-c", "sleep 30 & echo $!"]).map(|pid| kill(&pid)), Ok(true));
        assert!(begun.elapsed() < Duration::from_secs(20), "its end is not waited for");
        let failed = host.ask("/bin/sh", &["-c", "echo so >&2; exit 3"]).unwrap_err().to_string();
        assert!(failed.ends_with(": so"), "{failed}");
    }

    #[test]
    fn a_program_that_does_not_end_is_killed_with_what_it_has_started() {
        let (host, dir) = (Host::new("/"), tempfile::tempdir().unwrap());
        let note = dir.path().join("pid");
        let script = format!("sleep 300 & echo $! > {}; wait", note.display());
        let limit = Duration::from_secs(2);
        let refused = host.ask_within("/bin/sh", &["-c", &script], limit).unwrap_err().to_string();
        assert!(refused.contains("no end within 2 s"), "{refused}");
        let pid = std::fs::read_to_string(note).unwrap();
        let begun = Instant::now();
        while runs(&host, pid.trim()) {
            assert!(begun.elapsed() < Duration::from_secs(20), "{pid} still runs");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn kill(pid: &str) -> bool {
        let pid = Pid::from_raw(pid.parse().unwrap()).unwrap();
        rustix::process::kill_process(pid, Signal::KILL).is_ok()
    }

    /// A zombie has ended.
    fn runs(host: &Host, pid: &str) -> bool {
        let stat = host.read(&format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
    }
}
