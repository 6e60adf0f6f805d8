//! What is asked of a server: its variables and counters, and how much CPU its process has used, where it
//! runs on this machine. Never writes.
//!
//! Blocks: to be used on a thread of its own.

use crate::inventory::ServerFacts;
use config::Credentials;
use fleet::Address;
use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

const DEADLINE: Duration = Duration::from_secs(20);
/// Ticks a second of `/proc/PID/stat`: the kernel's USER_HZ, 100 on every architecture of ours.
const TICKS: f64 = 100.0;

/// What went wrong.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// No connection, or no answer.
    #[error("{address}: {why}")]
    Unanswered {
        /// Whom.
        address: String,
        /// In the server's or system's words.
        why: String,
    },
}

/// A connection to a server.
pub struct Server {
    address: Address,
    runtime: tokio::runtime::Runtime,
    conn: Conn,
}

/// The process of a server on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    pid: u32,
    /// CPUs that it may use.
    pub cores: u32,
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

    /// What the server at an address says of itself; why not, in words.
    ///
    /// # Errors
    /// No address, or no answer.
    pub fn ask(server: &str, who: &Credentials) -> Result<ServerFacts, String> {
        let address: Address = server.parse().map_err(|error| format!("{server}: {error}"))?;
        let facts = Self::open(&address, who).and_then(|mut server| server.facts());
        facts.map_err(|error| error.to_string())
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
        let rows = rows.map_err(|error| failed(error.to_string()))?;
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
        let all = self.variables(&["hostname", "innodb_buffer_pool_size", "server_uuid", "server_uid"])?;
        let of = |name: &str| all.get(name).cloned().unwrap_or_default();
        Ok(ServerFacts {
            hostname: of("hostname"),
            pool_bytes: of("innodb_buffer_pool_size").parse().unwrap_or(0),
            id: all.get("server_uuid").or(all.get("server_uid")).cloned(),
        })
    }

    /// Its process, where it runs on this machine; by its PID file, and by what the kernel says of it.
    ///
    /// # Errors
    /// No answer.
    pub fn process(&mut self) -> Result<Option<Process>, ServerError> {
        let variables = self.variables(&["pid_file", "datadir"])?;
        let of = |name: &str| variables.get(name).map(PathBuf::from).unwrap_or_default();
        let path = of("datadir").join(of("pid_file"));
        let pid = std::fs::read_to_string(path).ok().and_then(|text| text.trim().parse().ok());
        Ok(pid.and_then(Process::of))
    }
}

fn quoted(names: &[&str]) -> String {
    names.iter().map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ")
}

impl Process {
    /// `None` unless it is a database server.
    fn of(pid: u32) -> Option<Self> {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        let name = field("Name:")?;
        if !(name.contains("mariadb") || name.contains("mysqld")) {
            return None;
        }
        Some(Self { pid, cores: cpus(field("Cpus_allowed_list:")?)? })
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
    fn a_process_that_is_no_database_server_is_none() {
        assert_eq!(Process::of(std::process::id()), None);
    }
}
