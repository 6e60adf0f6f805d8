//! Ceilings of a host: what its disk (by fio), its CPUs and memory, and the way to each server can do at
//! most. With them "busy" is a share of what was measured here, and a figure of a bench says on what it was
//! measured.
//!
//! It uses `fleet`, `plan`, `observe`, `load` (the history, where probes are kept) and `term`. Read first:
//!
//! * `disk.rs`: which requests at which depth, and where the knee is;
//! * `fio.rs`: what fio is asked, and what its JSON says;
//! * `machine.rs`: which machine it was, and whether others used it;
//! * `kept.rs`: where probes are kept and found.

mod compute;
mod disk;
pub mod fio;
mod kept;
pub mod machine;
mod network;
pub mod text;

pub use compute::Compute;
pub use disk::{Disk, Step, knee, most};
pub use kept::{KeptIn, known_ceilings, known_probe};
pub use machine::Machine;
pub use network::Way;

use anyhow::Context;
use config::Credentials;
use diagnose::host::process::database_servers;
use diagnose::verdict::Ceilings;
use fleet::Address;
use load::store::Store;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What a host can do at most.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Probe {
    /// When it began, seconds since 1970 UTC.
    pub at: u64,
    /// The host's name.
    pub host: String,
    /// CPU busy before, 0 to 1: what others used while it was measured is missing in its figures.
    pub busy_before: f64,
    /// Its disk.
    pub disk: Option<Disk>,
    /// Its CPUs and memory.
    pub compute: Compute,
    /// The way to each server.
    pub servers: Vec<Way>,
}

impl Probe {
    /// What verdicts need of it.
    pub fn ceilings(&self) -> Ceilings {
        let Some(disk) = &self.disk else { return Ceilings::default() };
        Ceilings {
            disk: disk.device.clone(),
            idle_read_ms: Some(disk.idle_read.mean_ms),
            idle_write_ms: Some(disk.idle_write.mean_ms),
            reads_per_s: most(&disk.reads),
            writes_per_s: most(&disk.writes),
            disk_bytes_per_s: Some(disk.read_bytes_per_s.max(disk.write_bytes_per_s)),
            network_bytes_per_s: None,
        }
    }
}

/// What is to be probed.
#[derive(Clone, Debug)]
pub struct Scope {
    /// A directory on the disk; `None` leaves the disk out.
    pub directory: Option<PathBuf>,
    /// Size of the file on it, MiB.
    pub file_mib: u32,
    /// Seconds of each figure.
    pub seconds: u32,
    /// Servers to which the way is measured, and the account that asks them.
    pub servers: Option<(Vec<Address>, Credentials)>,
}

impl Scope {
    /// How long disk, CPUs and memory will be loaded fully, seconds.
    pub fn duration_s(&self) -> u32 {
        self.seconds * 4 + if self.directory.is_some() { disk::seconds(self.seconds) } else { 0 }
    }

    /// Measures all of it; `progress` is called with what comes next. `busy_before` is the share of CPU that
    /// others used.
    ///
    /// # Errors
    /// A server cannot be reached or refuses the account; the directory is none, or has too little room; fio
    /// fails.
    pub async fn measure(
        &self,
        busy_before: f64,
        progress: &mut (dyn FnMut(&str) + Send),
    ) -> anyhow::Result<Probe> {
        let each = Duration::from_secs(self.seconds.into());
        // First, while nothing is loaded: whoever cannot be reached is known before a minute is spent.
        let mut servers = Vec::new();
        if let Some((addresses, who)) = &self.servers {
            for server in addresses {
                progress(&format!("the way to {server}"));
                servers.push(network::measure(server, who, each).await?);
            }
        }
        let at = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let disk = match &self.directory {
            None => None,
            Some(directory) => Some(disk::measure(directory, self.file_mib, self.seconds, progress).await?),
        };
        progress("CPUs and memory");
        let compute = tokio::task::spawn_blocking(move || compute::measure(each)).await?;
        Ok(Probe { at, host: host(), busy_before, disk, compute, servers })
    }
}

impl Probe {
    /// Keeps it in the history.
    ///
    /// # Errors
    /// The history cannot be written.
    pub fn keep(&self, store: &Store) -> anyhow::Result<()> {
        store.keep_probe(&self.host, self.at, &serde_json::to_string(self)?)?;
        Ok(())
    }
}

/// The probes that the history has of this host, newest first, at most this many.
///
/// # Errors
/// The history cannot be read.
pub fn history(store: &Store, host: &str, count: u32) -> anyhow::Result<Vec<Probe>> {
    store.probes(host, count)?.iter().map(|text| read(text)).collect()
}

/// The newest probe of this host in these histories that measured a disk; one that cannot be read is left out
/// with a warning.
pub fn newest(places: &[PathBuf]) -> Option<Probe> {
    let there = places.iter().filter(|path| path.exists());
    let read = there.filter_map(|path| {
        newest_of(path, None).unwrap_or_else(|error| {
            tracing::warn!("ceilings that were measured before are not used: {error:#}");
            None
        })
    });
    read.max_by_key(|probe| probe.at)
}

/// The newest probe of this host in one history that measured this disk, as `/proc/diskstats` calls it; any
/// disk where none is named. One that left the disk out does not hide an older one that did not.
///
/// # Errors
/// It cannot be read, or a newer probe in it.
pub fn newest_of(path: &Path, disk: Option<&str>) -> anyhow::Result<Option<Probe>> {
    let is_it = |found: &Disk| disk.is_none_or(|disk| found.device.as_deref() == Some(disk));
    for text in Store::read(path)?.probes(&host(), u32::MAX)? {
        let probe = read(&text)?;
        if probe.disk.as_ref().is_some_and(is_it) {
            return Ok(Some(probe));
        }
    }
    Ok(None)
}

fn read(text: &str) -> anyhow::Result<Probe> {
    serde_json::from_str(text).context("a probe of the history cannot be read")
}

/// This host's name.
pub fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Database servers among the processes, by name, each once.
pub fn servers_here(proc: &Path) -> Vec<String> {
    let mut servers: Vec<String> = database_servers(proc).into_iter().map(|server| server.program).collect();
    servers.sort_unstable();
    servers.dedup();
    servers
}

/// A probe as tests of whoever shows one need it.
#[cfg(any(test, feature = "sample"))]
pub fn sample() -> Probe {
    let measured =
        |per_s: f64| fio::Measured { per_s, bytes_per_s: per_s * 16384.0, mean_ms: 0.5, p99_ms: 2.0 };
    let steps =
        |all: [(u32, f64); 2]| all.map(|(depth, per_s)| Step { depth, measured: measured(per_s) }).to_vec();
    Probe {
        at: 1_795_000_000,
        host: "db1".to_owned(),
        busy_before: 0.02,
        disk: Some(Disk {
            directory: "/var/lib/mysql".into(),
            device: Some("nvme0n1".to_owned()),
            file_mib: 1024,
            idle_read: measured(200.0),
            idle_write: measured(200.0),
            reads: steps([(1, 10_000.0), (16, 30_000.0)]),
            writes: steps([(1, 8_000.0), (16, 8_100.0)]),
            flush: measured(900.0),
            read_bytes_per_s: 5e8,
            write_bytes_per_s: 4e8,
        }),
        compute: Compute { cpus: 2, one_cpu_per_s: 4e8, all_cpus_per_s: 8e8, ..Compute::default() },
        servers: vec![Way {
            server: "db2:3306".to_owned(),
            round_trip_p50_ms: 0.2,
            round_trip_p99_ms: 0.4,
            round_trips_per_s: 60_000.0,
        }],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_with_a_database_server_is_in_service() {
        let proc = tempfile::tempdir().unwrap();
        for (pid, name) in [("7", "mariadbd\n"), ("8", "mariadbd\n"), ("9", "bash\n"), ("self", "x\n")] {
            std::fs::create_dir(proc.path().join(pid)).unwrap();
            std::fs::write(proc.path().join(pid).join("comm"), name).unwrap();
        }
        assert_eq!(servers_here(proc.path()), ["mariadbd"]);
    }

    #[test]
    fn what_was_kept_comes_back_and_becomes_ceilings() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("history.sqlite")).unwrap();
        let probe = sample();
        store.keep_probe("db1", 5, &serde_json::to_string(&probe).unwrap()).unwrap();
        store.keep_probe("db2", 6, "of another host, and never read").unwrap();
        let back = history(&store, "db1", 9).unwrap();
        assert_eq!(back, std::slice::from_ref(&probe));
        let ceilings = back[0].ceilings();
        assert_eq!((ceilings.disk.as_deref(), ceilings.reads_per_s), (Some("nvme0n1"), Some(30_000.0)));
        assert!(history(&store, "db3", 9).unwrap().is_empty());
    }

    #[test]
    fn the_newest_probe_of_all_histories_counts_and_one_that_is_none_does_no_harm() {
        let dir = tempfile::tempdir().unwrap();
        let place = |name: &str| dir.path().join(name);
        let keep = |name: &str, at: u64, idle_read_ms: f64| {
            let mut probe = sample();
            (probe.host, probe.at) = (host(), at);
            probe.disk.as_mut().unwrap().idle_read.mean_ms = idle_read_ms;
            probe.keep(&Store::open(&place(name)).unwrap()).unwrap();
        };
        keep("a", 200, 0.7);
        keep("b", 100, 0.8);
        std::fs::write(place("broken"), "this is no database, whatever its name may say").unwrap();
        let places = ["b", "a", "broken", "absent"].map(place);
        assert_eq!(newest(&places).map(|probe| probe.at), Some(200));
        assert_eq!(newest(&places[2..]), None);
        assert_eq!(newest_of(&place("b"), None).unwrap().unwrap().ceilings().idle_read_ms, Some(0.8));
        newest_of(&place("broken"), None).unwrap_err();
    }

    #[test]
    fn a_later_probe_without_the_disk_or_of_another_one_does_not_hide_what_is_known_of_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("history.sqlite");
        let keep = |at: u64, device: Option<&str>| {
            let mut probe = sample();
            (probe.host, probe.at) = (host(), at);
            match device {
                Some(device) => probe.disk.as_mut().unwrap().device = Some(device.to_owned()),
                None => probe.disk = None,
            }
            probe.keep(&Store::open(&path).unwrap()).unwrap();
        };
        for (at, device) in [(100, Some("nvme0n1")), (200, Some("sda")), (300, None)] {
            keep(at, device);
        }
        let found = |disk| newest_of(&path, disk).unwrap().map(|probe| probe.at);
        assert_eq!(
            (found(Some("nvme0n1")), found(Some("sda")), found(None)),
            (Some(100), Some(200), Some(200))
        );
        assert_eq!(found(Some("sdb")), None, "it was never measured");
        assert_eq!(newest(std::slice::from_ref(&path)).map(|probe| probe.at), Some(200));
    }
}
