//! What is asked of a server: its variables and counters, and how much CPU its process has used, where it
//! runs on this machine. Never writes.
//!
//! Blocks: to be used on a thread of its own.

use crate::inventory::ServerFacts;
use config::Credentials;
use diagnose::host::cgroup::Limits;
use diagnose::host::disk::holding_here;
use diagnose::host::is_here;
use fleet::{Address, AddressError};
use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use observe::AskError;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

const DEADLINE: Duration = Duration::from_secs(20);
/// Ticks a second of `/proc/PID/stat`: the kernel's USER_HZ, 100 on every architecture of ours.
const TICKS: f64 = 100.0;
pub(crate) const POOL_SIZE: &str = "innodb_buffer_pool_size";

/// What went wrong.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// Where it should be is no address.
    #[error("{text}: {source}")]
    NoAddress { text: String, source: AddressError },
    /// No connection, or no answer.
    #[error("{address}: {why}")]
    Unanswered {
        /// Whom.
        address: String,
        /// In the server's or system's words.
        why: String,
    },
    /// What it does not tell is not 0.
    #[error("the server does not tell {name} (SHOW GLOBAL STATUS)")]
    Counter { name: &'static str },
    /// The same of a variable.
    #[error("the server does not tell {name} (SHOW GLOBAL VARIABLES)")]
    Variable { name: &'static str },
}

/// A connection to a server.
pub struct Server {
    address: Address,
    runtime: tokio::runtime::Runtime,
    conn: Conn,
}

/// The process of a server on this machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Process {
    pid: u32,
    /// CPUs that it may run on.
    pub allowed: u32,
    /// The tightest quota of CPU time of its cgroups, where that is less.
    pub quota: Option<CpuQuota>,
}

/// A quota of CPU time.
#[derive(Clone, Debug, PartialEq)]
pub struct CpuQuota {
    /// The cgroup that it stands at.
    pub cgroup: PathBuf,
    /// CPU seconds a second.
    pub cpus: f64,
}

impl Server {
    /// Connects.
    ///
    /// # Errors
    /// The server cannot be reached or refuses the account.
    pub fn open(address: &Address, who: &Credentials) -> Result<Self, ServerError> {
        let failed = |why: String| ServerError::Unanswered { address: address.to_string(), why };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| failed(error.to_string()))?;
        let conn = runtime
            .block_on(observe::connect(address, who, DEADLINE))
            .map_err(|error| failed(error.to_string()))?;
        Ok(Self { address: address.clone(), runtime, conn })
    }

    /// What the server at an address says of itself.
    ///
    /// # Errors
    /// No address, or no answer.
    pub fn ask(server: &str, who: &Credentials) -> Result<ServerFacts, ServerError> {
        let no_address = |source| ServerError::NoAddress { text: server.to_owned(), source };
        let address: Address = server.parse().map_err(no_address)?;
        Self::open(&address, who)?.facts()
    }

    /// Rows of two texts.
    ///
    /// # Errors
    /// No answer.
    pub fn pairs(&mut self, statement: &str) -> Result<BTreeMap<String, String>, ServerError> {
        let Self { runtime, conn, address } = self;
        let rows = runtime.block_on(async {
            tokio::time::timeout(DEADLINE, conn.query::<(String, Option<String>), _>(statement)).await
        });
        let failed = |why: String| ServerError::Unanswered { address: address.to_string(), why };
        let rows = rows.map_err(|_| failed(format!("no answer within {} s", DEADLINE.as_secs())))?;
        let rows = rows.map_err(|error| failed(AskError::from(error).to_string()))?;
        Ok(rows.into_iter().map(|(name, value)| (name, value.unwrap_or_default())).collect())
    }

    /// Global variables by name; those it does not have are left out.
    ///
    /// # Errors
    /// No answer.
    pub fn variables(&mut self, names: &[&str]) -> Result<BTreeMap<String, String>, ServerError> {
        self.pairs(&format!("SHOW GLOBAL VARIABLES WHERE Variable_name IN ({})", quoted(names)))
    }

    /// Counters by name.
    ///
    /// # Errors
    /// No answer.
    pub fn counters(&mut self, names: &[&str]) -> Result<BTreeMap<String, f64>, ServerError> {
        let all = self.pairs(&format!("SHOW GLOBAL STATUS WHERE Variable_name IN ({})", quoted(names)))?;
        Ok(all.into_iter().filter_map(|(name, value)| Some((name, value.parse().ok()?))).collect())
    }

    /// What it says of itself, of the host it runs on, and of its buffer pool.
    ///
    /// # Errors
    /// No answer.
    pub fn facts(&mut self) -> Result<ServerFacts, ServerError> {
        let all = self.variables(&["hostname", POOL_SIZE, "server_uuid", "server_uid"])?;
        let of = |name: &str| all.get(name).cloned().unwrap_or_default();
        Ok(ServerFacts {
            hostname: of("hostname"),
            pool_bytes: bytes_of_pool(&all).ok(),
            id: all.get("server_uuid").or(all.get("server_uid")).cloned(),
        })
    }

    /// The size of its buffer pool that is set now, bytes.
    ///
    /// # Errors
    /// No answer, or it does not tell.
    pub fn pool_bytes(&mut self) -> Result<u64, ServerError> {
        bytes_of_pool(&self.variables(&[POOL_SIZE])?)
    }

    /// Its process, where it runs on this machine: its address is one of this host, it says this host's name,
    /// and the process of its PID file is a database server that works in its data directory. A server
    /// elsewhere may name a PID file that is also here, of another server.
    ///
    /// # Errors
    /// No answer.
    pub fn process(&mut self) -> Result<Option<Process>, ServerError> {
        if !is_here(&self.address) {
            return Ok(None);
        }
        let variables = self.variables(&["hostname", "pid_file", "datadir"])?;
        Ok(Process::named(&variables, &probe::host(), Path::new("/proc")))
    }

    /// The disk that its data lie on, as `/proc/diskstats` calls it; `None` where it runs elsewhere, or that
    /// cannot be seen from here.
    ///
    /// # Errors
    /// No answer.
    pub fn disk(&mut self) -> Result<Option<String>, ServerError> {
        if self.process()?.is_none() {
            return Ok(None);
        }
        let variables = self.variables(&["datadir"])?;
        Ok(variables.get("datadir").and_then(|datadir| holding_here(Path::new(datadir))))
    }
}

/// The size of the buffer pool by these variables, bytes.
///
/// # Errors
/// They do not tell it, which is not 0.
pub(crate) fn bytes_of_pool(variables: &BTreeMap<String, String>) -> Result<u64, ServerError> {
    let told = variables.get(POOL_SIZE).and_then(|text| text.parse().ok());
    told.ok_or(ServerError::Variable { name: POOL_SIZE })
}

/// How much a counter rose between two looks.
///
/// # Errors
/// One of them is without it.
pub(crate) fn rise(
    before: &BTreeMap<String, f64>,
    after: &BTreeMap<String, f64>,
    name: &'static str,
) -> Result<f64, ServerError> {
    let both = before.get(name).zip(after.get(name));
    both.map(|(before, after)| after - before).ok_or(ServerError::Counter { name })
}

fn quoted(names: &[&str]) -> String {
    names.iter().map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ")
}

impl Process {
    /// That of a server with these variables; `None` unless it is one of the host `host`.
    fn named(variables: &BTreeMap<String, String>, host: &str, proc: &Path) -> Option<Self> {
        if variables.get("hostname")? != host {
            return None;
        }
        let of = |name: &str| variables.get(name).map(PathBuf::from);
        let datadir = of("datadir")?;
        let pid = std::fs::read_to_string(datadir.join(of("pid_file")?)).ok()?.trim().parse().ok()?;
        // A server works in its data directory. Only root and the server's own user may see where.
        let works_there = match std::fs::read_link(proc.join(format!("{pid}/cwd"))) {
            Ok(cwd) => std::fs::canonicalize(&datadir).is_ok_and(|datadir| datadir == cwd),
            Err(error) => error.kind() == std::io::ErrorKind::PermissionDenied,
        };
        if works_there { Self::of(pid, proc) } else { None }
    }

    /// `None` unless it is a database server.
    fn of(pid: u32, proc: &Path) -> Option<Self> {
        let status = std::fs::read_to_string(proc.join(format!("{pid}/status"))).ok()?;
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        let name = field("Name:")?;
        if !(name.contains("mariadb") || name.contains("mysqld")) {
            return None;
        }
        let allowed = cpus(field("Cpus_allowed_list:")?)?;
        let limits = Limits::of(pid, proc);
        let quota = limits.as_ref().and_then(Limits::cpu_quota);
        let quota = quota.map(|(cgroup, cpus)| CpuQuota { cgroup: cgroup.to_owned(), cpus });
        Some(Self { pid, allowed, quota: quota.filter(|quota| quota.cpus < f64::from(allowed)) })
    }

    /// CPU seconds a second that it may use.
    pub fn cpus(&self) -> f64 {
        self.quota.as_ref().map_or(f64::from(self.allowed), |quota| quota.cpus)
    }

    /// Seconds of CPU that it has used.
    pub fn cpu_s(&self) -> Option<f64> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid)).ok()?;
        // The name may hold blanks; what follows its bracket does not. utime and stime are fields 14 and 15.
        let after = stat.rsplit_once(')')?.1;
        let mut fields = after.split_whitespace().skip(11);
        let (user, system): (f64, f64) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
        Some((user + system) / TICKS)
    }
}

/// How many CPUs a list such as `0-3,6` has.
fn cpus(list: &str) -> Option<u32> {
    let each = list.split(',').map(|part| match part.split_once('-') {
        Some((from, to)) => Some(to.trim().parse::<u32>().ok()?.checked_sub(from.trim().parse().ok()?)? + 1),
        None => part.trim().parse::<u32>().ok().map(|_| 1),
    });
    each.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_cpus_is_counted() {
        assert_eq!((cpus("0-3,6"), cpus("1"), cpus("0-1"), cpus("x")), (Some(5), Some(1), Some(2), None));
    }

    #[test]
    fn a_counter_that_is_not_told_has_not_risen_by_nothing() {
        let of = |value: f64| BTreeMap::from([("Innodb_buffer_pool_reads".to_owned(), value)]);
        let (before, after) = (of(100.0), of(130.0));
        assert_eq!(rise(&before, &after, "Innodb_buffer_pool_reads").unwrap(), 30.0);
        let requests = "Innodb_buffer_pool_read_requests";
        let why = rise(&before, &after, requests).unwrap_err().to_string();
        assert_eq!(why, format!("the server does not tell {requests} (SHOW GLOBAL STATUS)"));
        assert!(rise(&before, &BTreeMap::new(), "Innodb_buffer_pool_reads").is_err());
    }

    #[test]
    fn a_buffer_pool_that_is_not_told_is_not_one_without_a_page() {
        let of =
            |value: &str| bytes_of_pool(&BTreeMap::from([(POOL_SIZE.to_owned(), value.to_owned())])).ok();
        assert_eq!((of("134217728"), of(""), of("128M")), (Some(128 << 20), None, None));
        let why = bytes_of_pool(&BTreeMap::new()).unwrap_err().to_string();
        assert_eq!(why, "the server does not tell innodb_buffer_pool_size (SHOW GLOBAL VARIABLES)");
    }

    #[test]
    fn a_process_that_is_no_database_server_is_none() {
        assert_eq!(Process::of(std::process::id(), Path::new("/proc")), None);
    }

    /// A host with a server whose process is 42, and the server's variables.
    fn host() -> (tempfile::TempDir, BTreeMap<String, String>) {
        let root = tempfile::tempdir().unwrap();
        let datadir = root.path().join("data");
        std::fs::create_dir_all(root.path().join("proc/42")).unwrap();
        std::fs::create_dir_all(root.path().join("proc/self")).unwrap();
        std::fs::create_dir(&datadir).unwrap();
        let status = "Name:\tmariadbd\nCpus_allowed_list:\t0-3\n";
        std::fs::write(root.path().join("proc/42/status"), status).unwrap();
        std::fs::write(datadir.join("db.pid"), "42\n").unwrap();
        let cwd = std::fs::canonicalize(&datadir).unwrap();
        std::os::unix::fs::symlink(cwd, root.path().join("proc/42/cwd")).unwrap();
        let text = |text: &str| text.to_owned();
        let variables = [
            (text("hostname"), text("db1")),
            (text("datadir"), datadir.display().to_string()),
            (text("pid_file"), text("db.pid")),
        ];
        (root, variables.into())
    }

    #[test]
    fn the_process_of_another_host_or_server_is_not_taken_for_this_ones() {
        let (root, mut variables) = host();
        let proc = root.path().join("proc");
        let found = Process::named(&variables, "db1", &proc).unwrap();
        assert_eq!((found.pid, found.allowed, found.quota), (42, 4, None));
        assert_eq!(Process::named(&variables, "replica3", &proc), None, "it says that it is elsewhere");
        let other = root.path().join("other");
        std::fs::create_dir(&other).unwrap();
        std::fs::write(other.join("db.pid"), "42\n").unwrap();
        variables.insert("datadir".to_owned(), other.display().to_string());
        assert_eq!(Process::named(&variables, "db1", &proc), None, "another server's PID file");
    }

    #[test]
    fn a_quota_of_cpu_time_that_binds_is_less_than_the_cpus_that_it_may_run_on() {
        let (root, variables) = host();
        let proc = root.path().join("proc");
        let mount = root.path().join("cg");
        std::fs::create_dir_all(mount.join("pod/db")).unwrap();
        std::fs::write(proc.join("42/cgroup"), "0::/pod/db\n").unwrap();
        std::fs::write(proc.join("self/mounts"), format!("cg {} cgroup2 rw 0 0\n", mount.display())).unwrap();
        let quota = |max: &str| {
            std::fs::write(mount.join("pod/cpu.max"), max).unwrap();
            Process::named(&variables, "db1", &proc).unwrap()
        };
        let binds = quota("150000 100000\n");
        assert_eq!((binds.cpus(), binds.quota.unwrap().cgroup), (1.5, mount.join("pod")));
        assert_eq!(quota("800000 100000\n").cpus(), 4.0);
        assert_eq!(quota("max 100000\n").cpus(), 4.0);
    }
}
