//! A server that Headroom may restart, so that more of it can be varied: variables that need a restart, its
//! memory allocator and NUMA policy, the file system below its data directory, limits of its own cgroup.
//!
//! A description says how it is stopped and started. It is given by `--managed FILE` or by a trial's spec,
//! and `headroom lab managed SERVER` prints that of a server of a lab:
//!
//! ```toml
//! stop = ["systemctl", "stop", "mariadb"]        # returns when the server has ended
//! start = ["systemctl", "start", "mariadb"]      # returns when the server answers
//! pid_file = "/run/mysqld/mysqld.pid"
//! data_dir = "/var/lib/mysql"
//! option_file = "/etc/mysql/mariadb.conf.d/zz-headroom.cnf"  # nobody else's: it is made and removed
//! environment = "/var/lib/headroom/mariadb.env"  # the same; EnvironmentFile=-... of the unit reads it
//! work_dir = "/var/lib/headroom/mariadb"         # the image of a file system lies there
//! # image_mib = 20480                            # its size; twice the data and 1 GiB unless said
//! # device = "/dev/nvme1n1"                      # an empty device in place of an image
//! ```
//!
//! The journal keeps the whole description with each change, so that a later process can put it back. What
//! the server is set to is read from the server's process, from `/proc/self/mountinfo` and from the two
//! files: this module remembers nothing.
//!
//! *Killed in the middle.* A restart has many steps. A marker is there, synced, from before the server is
//! stopped until it runs again; it names the process. Whoever puts back or changes a setting of the server
//! next finds the marker of a dead process, stops the server, removes what is half made and starts it: both
//! commands must do no harm where nothing is left to do. Whoever only reads is told to run the restore.

mod cgroup;
mod drop_in;
mod file_system;
mod numa;

use crate::action::Action;
use crate::error::{Error, Refusal};
use crate::host::{Host, LONG_LIMIT};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

pub use file_system::{AS_IT_IS, zpool_create};
pub use numa::{DEFAULT as NUMA_DEFAULT, can_vary as can_vary_numa};

/// What stands behind `@` for a setting of the managed server.
pub const TARGET: &str = "server";
/// How a description begins where the journal has the name of a program.
const PREFIX: &str = "managed:";

/// How a server is restarted, and where its files lie.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Managed {
    /// Stops it and returns when it has ended.
    pub stop: Vec<String>,
    /// Starts it and returns when it answers.
    pub start: Vec<String>,
    /// Its process's number.
    pub pid_file: String,
    pub data_dir: String,
    /// An option file that it reads last, for Headroom alone.
    pub option_file: String,
    /// A file of `NAME=VALUE` lines that its start reads, for Headroom alone.
    pub environment: String,
    /// A directory for Headroom alone.
    pub work_dir: String,
    /// The size of the image of a file system, MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_mib: Option<u64>,
    /// An empty device in place of an image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
}

/// What of a managed server is varied.
#[derive(Clone, Debug, PartialEq, Eq)]
enum What {
    FileSystem,
    Allocator,
    Numa,
    /// A limit, by its name in v2.
    Limit(String),
}

impl What {
    fn of(knob: &str) -> Option<Self> {
        match knob.strip_suffix(TARGET)?.strip_suffix('@')? {
            "file_system.type" => Some(Self::FileSystem),
            "allocator.library" => Some(Self::Allocator),
            "numa.policy" => Some(Self::Numa),
            limit => limit.strip_prefix("cgroup.").map(|limit| Self::Limit(limit.to_owned())),
        }
    }
}

impl Managed {
    /// Reads a description.
    ///
    /// # Errors
    /// It cannot be read, or does not say what it must.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let wrong = |why: String| Error::Managed { path: path.to_owned(), why };
        let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
        let mut managed: Self = toml::from_str(&text).map_err(|error| wrong(error.to_string()))?;
        for (key, words) in [("stop", &managed.stop), ("start", &managed.start)] {
            if words.is_empty() {
                return Err(wrong(format!("{key} names no program")));
            }
        }
        let Self { pid_file, data_dir, option_file, environment, work_dir, .. } = &managed;
        for (key, path) in [
            ("pid_file", pid_file),
            ("data_dir", data_dir),
            ("option_file", option_file),
            ("environment", environment),
            ("work_dir", work_dir),
        ] {
            if !path.starts_with('/') || path.split('/').any(|part| part == "..") {
                return Err(wrong(format!("{key} = \"{path}\" is no absolute path")));
            }
        }
        let (data, work) = (canonical(data_dir), canonical(work_dir));
        (managed.data_dir, managed.work_dir) = (data, work);
        managed.device = managed.device.as_deref().map(canonical);
        let Self { data_dir, work_dir, .. } = &managed;
        if Path::new(work_dir).starts_with(data_dir) || Path::new(data_dir).starts_with(work_dir) {
            return Err(wrong("work_dir and data_dir lie one in the other".to_owned()));
        }
        Ok(managed)
    }

    /// What restarts a server: by the description in the file `managed`, else the program `restart_with`.
    ///
    /// # Errors
    /// Whichever is named cannot be used.
    pub fn restart_by(
        host: &Host,
        managed: Option<&Path>,
        restart_with: Option<&Path>,
    ) -> Result<Option<String>, Error> {
        match (managed, restart_with) {
            (Some(path), _) => Ok(Some(Self::read(path)?.program())),
            (None, program) => program.map(|path| host.whole_path(path)).transpose(),
        }
    }

    /// What stands in the journal in the place of a program's name: the whole description.
    pub fn program(&self) -> String {
        let text = serde_json::to_string(self).unwrap_or_default();
        format!("{PREFIX}{text}")
    }

    /// The other way.
    pub(crate) fn of_program(program: &str) -> Option<Result<Self, Refusal>> {
        let wrong = |error: serde_json::Error| Refusal::Denied {
            why: format!("the journal's description of the server cannot be read: {error}"),
        };
        program.strip_prefix(PREFIX).map(|text| serde_json::from_str(text).map_err(wrong))
    }

    /// Whether a program's name is a description.
    pub(crate) fn is_program(program: &str) -> bool {
        program.starts_with(PREFIX)
    }

    /// Sets a variable that needs a restart. `before` is what it was: asked for that again, the line is taken
    /// out.
    pub(crate) fn set_option(
        &self,
        host: &Host,
        variable: &str,
        before: &str,
        value: &str,
    ) -> Result<(), Refusal> {
        self.tidy(host)?;
        let text = host.read(&self.option_file).unwrap_or_default();
        self.restart(
            host,
            |host| drop_in::set(host, &self.option_file, Some(SECTION), variable, before, value),
            |host| drop_in::put(host, &self.option_file, &text),
        )
    }

    /// Stops the server, does the work and starts it. A server that does not start with it gets it undone and
    /// is started as it was. If that fails too, whoever restores tries again.
    fn restart(
        &self,
        host: &Host,
        work: impl FnOnce(&Host) -> Result<(), Refusal>,
        undo: impl FnOnce(&Host) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        self.mark(host)?;
        self.run(host, &self.stop)?;
        if let Some(pid) = self.pid(host) {
            return Err(denied(format!("stop has returned, and process {pid} of the server still runs")));
        }
        let worked = work(host);
        // Also when the work was refused: the server is to run.
        let Err(refusal) = self.run(host, &self.start) else {
            self.unmark(host)?;
            return worked;
        };
        // It may hang half started.
        let stopped = self.run(host, &self.stop);
        match stopped.and_then(|()| undo(host)).and_then(|()| self.run(host, &self.start)) {
            Ok(()) => {
                self.unmark(host)?;
                worked?;
                Err(denied(format!("the server does not start with it, and runs as before: {refusal}")))
            }
            Err(stuck) => Err(denied(format!(
                "the server does not start with it ({refusal}), nor as before ({stuck}); headroom knob restore \
                 takes out what is in {} and {} and tries again",
                self.option_file, self.environment
            ))),
        }
    }

    /// Removes what a dead process left half made, and starts the server.
    pub(crate) fn tidy(&self, host: &Host) -> Result<(), Refusal> {
        let marker = self.marker();
        let Ok(holder) = host.read(&marker) else { return Ok(()) };
        if alive(host, &holder) && holder != this_process(host) {
            return Err(denied(format!("process {holder} is restarting the server")));
        }
        // Its stop may still be under way, though it itself is dead.
        self.run(host, &self.stop)?;
        file_system::tidy(self, host)?;
        if let Err(refusal) = self.run(host, &self.start) {
            self.start_bare(host).map_err(|stuck| {
                denied(format!(
                    "the server does not start ({refusal}), nor without settings of ours: {stuck}"
                ))
            })?;
            tracing::warn!(%refusal, "the server started only without the settings of ours that need a restart");
        }
        self.unmark(host)
    }

    /// Starts the server, stopped or hanging half started, without anything that we gave it.
    fn start_bare(&self, host: &Host) -> Result<(), Refusal> {
        self.run(host, &self.stop)?;
        drop_in::clear(host, &self.option_file, Some(SECTION))?;
        drop_in::clear(host, &self.environment, None)?;
        file_system::unmount(self, host)?;
        self.run(host, &self.start)
    }

    /// Refuses while a restart is under way, or was cut off.
    fn whole(&self, host: &Host) -> Result<(), Refusal> {
        let Ok(holder) = host.read(&self.marker()) else { return Ok(()) };
        if alive(host, &holder) && holder != this_process(host) {
            return Err(denied(format!("process {holder} is restarting the server")));
        }
        let what = "a restart of the server was interrupted; run headroom knob restore".to_owned();
        Err(Refusal::Needs { what })
    }

    fn marker(&self) -> String {
        format!("{}/restarting", self.work_dir)
    }

    fn mark(&self, host: &Host) -> Result<(), Refusal> {
        host.write_file(&self.marker(), &this_process(host))
    }

    fn unmark(&self, host: &Host) -> Result<(), Refusal> {
        host.remove_file(&self.marker())
    }

    fn run(&self, host: &Host, words: &[String]) -> Result<(), Refusal> {
        let (program, args) = words.split_first().ok_or_else(|| denied("no program is named".to_owned()))?;
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        host.order_within(program, &args, LONG_LIMIT)
    }

    /// The server's process, while it runs.
    fn pid(&self, host: &Host) -> Option<u32> {
        let pid = host.read(&self.pid_file).ok()?.parse().ok()?;
        // A zombie has ended.
        let stat = host.read(&format!("/proc/{pid}/stat")).ok()?;
        let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
        (state != Some('Z')).then_some(pid)
    }

    fn running(&self, host: &Host) -> Result<u32, Refusal> {
        self.pid(host).ok_or_else(|| denied(format!("the server does not run ({})", self.pid_file)))
    }
}

/// The path as the kernel shows it in mountinfo and for a loop device: without symbolic links, and without a
/// slash at its end (`@@datadir` has one). Of a directory that is not made yet, as much as there is.
fn canonical(path: &str) -> String {
    let path = Path::new(path);
    let found = path.ancestors().find_map(|there| Some((there, there.canonicalize().ok()?)));
    let Some((there, real)) = found else { return path.display().to_string() };
    // Joining an empty rest would put the slash back.
    let rest = path.strip_prefix(there).unwrap_or(Path::new(""));
    real.components().chain(rest.components()).collect::<PathBuf>().display().to_string()
}

/// A setting of a managed server.
#[derive(Debug)]
pub(crate) struct ManagedAction {
    host: Host,
    managed: Managed,
    what: What,
    known_policy: numa::KnownPolicy,
}

impl ManagedAction {
    /// `None` for a knob that is not the server's.
    pub(crate) fn new(host: Host, managed: Managed, knob: &str) -> Option<Self> {
        What::of(knob).map(|what| Self { host, managed, what, known_policy: numa::KnownPolicy::default() })
    }
}

impl Action for ManagedAction {
    fn read(&mut self) -> Result<String, Refusal> {
        // Reading is also what a dry run does: it restarts nothing.
        self.managed.whole(&self.host)?;
        match &self.what {
            What::FileSystem => file_system::read(&self.managed, &self.host),
            What::Allocator => self.managed.allocator(&self.host),
            What::Numa => numa::read(&self.managed, &self.host, &mut self.known_policy),
            What::Limit(limit) => cgroup::read(&self.managed, &self.host, limit),
        }
    }

    fn check(&mut self, value: &str) -> Result<(), Refusal> {
        match &self.what {
            What::FileSystem => file_system::check(&self.managed, &self.host, value),
            What::Allocator => library(&self.host, value).map(drop),
            What::Numa => numa::check(&self.managed, &self.host, &mut self.known_policy, value),
            What::Limit(limit) => cgroup::check(&self.managed, &self.host, limit),
        }
    }

    fn apply(&mut self, value: &str) -> Result<(), Refusal> {
        let (managed, host) = (&self.managed, &self.host);
        managed.tidy(host)?;
        match &self.what {
            What::FileSystem => file_system::apply(managed, host, value),
            What::Allocator => managed.set_allocator(host, value),
            What::Numa => numa::apply(managed, host, &mut self.known_policy, value),
            What::Limit(limit) => cgroup::apply(managed, host, limit, value),
        }
    }

    fn program(&self) -> Option<String> {
        Some(self.managed.program())
    }

    fn restarts(&self) -> bool {
        !matches!(self.what, What::Limit(_))
    }
}

/// Allocators and how their libraries' names begin.
const ALLOCATORS: [(&str, &str); 3] =
    [("jemalloc", "libjemalloc"), ("tcmalloc", "libtcmalloc"), ("mimalloc", "libmimalloc")];
/// The allocator that a server has without another.
pub const GLIBC: &str = "glibc";
const PRELOAD: &str = "LD_PRELOAD";
/// Where the server looks for its options.
const SECTION: &str = "[mysqld]";
/// Where libraries lie on the usual distributions.
const LIBRARY_PLACES: [&str; 6] = [
    "/usr/local/lib",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/lib64",
    "/usr/lib",
];

impl Managed {
    /// The allocator that the server's process really has: what is mapped into it.
    fn allocator(&self, host: &Host) -> Result<String, Refusal> {
        let maps = host.read(&format!("/proc/{}/maps", self.running(host)?))?;
        Ok(allocator_of(&maps).to_owned())
    }

    fn set_allocator(&self, host: &Host, value: &str) -> Result<(), Refusal> {
        let before = self.allocator(host)?;
        let library = library(host, value)?;
        let text = host.read(&self.environment).unwrap_or_default();
        self.restart(
            host,
            |host| drop_in::set(host, &self.environment, None, PRELOAD, &before, &library),
            |host| drop_in::put(host, &self.environment, &text),
        )?;
        match self.allocator(host)? {
            now if now == value => Ok(()),
            now => Err(denied(format!("{library} was to be loaded, and the server runs with {now}"))),
        }
    }
}

fn allocator_of(maps: &str) -> &'static str {
    let mapped = |library: &str| {
        maps.lines().any(|line| line.rsplit('/').next().is_some_and(|name| name.starts_with(library)))
    };
    ALLOCATORS.iter().find(|(_, library)| mapped(library)).map_or(GLIBC, |(name, _)| name)
}

/// The library of an allocator on this host; glibc's is none, and gives its name.
///
/// # Errors
/// No such allocator is known, or its library is not there.
pub fn library(host: &Host, value: &str) -> Result<String, Refusal> {
    if value == GLIBC {
        return Ok(GLIBC.to_owned());
    }
    let Some((_, start)) = ALLOCATORS.iter().find(|(name, _)| *name == value) else {
        let known: Vec<&str> = ALLOCATORS.iter().map(|(name, _)| *name).chain([GLIBC]).collect();
        return Err(denied(format!("the allocator '{value}' is not known: {}", known.join(", "))));
    };
    let is_it = |name: &String| name.starts_with(start) && name.contains(".so") && !name.contains("debug");
    let found = LIBRARY_PLACES.iter().find_map(|place| {
        let mut names: Vec<String> = host.list(place).into_iter().filter(is_it).collect();
        // The library itself before variants of it: libmimalloc-secure.so is another, slower one.
        names.sort_by_key(|name| !name[start.len()..].starts_with(".so"));
        names.first().map(|name| format!("{place}/{name}"))
    });
    found.ok_or_else(|| Refusal::Absent { what: format!("{start}*.so* in {}", LIBRARY_PLACES.join(", ")) })
}

/// This process, so that a later one of the same number is told from it.
fn this_process(host: &Host) -> String {
    let pid = std::process::id();
    format!("{pid} {}", started(host, pid).unwrap_or_default())
}

fn alive(host: &Host, holder: &str) -> bool {
    let mut words = holder.split_whitespace();
    let pid = words.next().and_then(|pid| pid.parse().ok());
    let began = words.next();
    pid.is_some_and(|pid| began.is_some() && started(host, pid).as_deref() == began)
}

/// When a process began, in ticks since the boot.
fn started(host: &Host, pid: u32) -> Option<String> {
    let stat = host.read(&format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(") ")?;
    rest.split(' ').nth(19).map(str::to_owned)
}

fn denied(why: String) -> Refusal {
    Refusal::Denied { why }
}

#[cfg(test)]
mod tests;
