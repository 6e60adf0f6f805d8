//! `headroom probe`: what this host can do at most: its disk (fio), its CPUs and memory, the way to each server. Kept in the
//! history, where `watch` and `agent` find it: then "busy" is a share of what was measured here.

mod compute;
mod disk;
pub(crate) mod fio;
mod network;
mod text;

use crate::cli::SourceArgs;
use crate::environment::Environment;
use crate::report_command::usual_store;
use crate::{credentials, machine, source};
use anyhow::{Context, bail};
use clap::Args;
use compute::Compute;
use disk::Disk;
use load::store::Store;
use network::Way;
use observe::verdict::Ceilings;
use serde::{Deserialize, Serialize};
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use term::{exit, interrupted, terminal};

/// A host that is busier than this serves somebody.
const IN_SERVICE: f64 = 0.10;
/// Over so long it is seen whether it does.
const LOOK: Duration = Duration::from_secs(1);

const EXAMPLES: &str = "\
Examples:
  headroom probe --directory /var/lib/mysql --server db1:3306
      Disk, CPUs, memory, and the way to each server of the fleet; asks first if the host is in service.
  headroom probe --directory /data --yes --json
  headroom probe --list

The disk is measured by fio on a file of its own (never a raw device), past the page cache; the file is removed. Afterwards
`headroom watch` and `headroom agent` tell how much of these ceilings is used.";

/// Measure what this host can do at most.
///
/// Random 16 KiB reads and writes at growing depth with the knee, flushes, bandwidth of disk and memory, speed of the CPUs,
/// round trips to each server. Bounded: about forty seconds and one file of 1 GiB.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ProbeArgs {
    /// Servers to which the way is measured; without any, none.
    #[command(flatten)]
    source: SourceArgs,
    /// A directory on the disk that is measured: the server's data directory, or one beside it.
    #[arg(long, value_name = "DIR", default_value = ".")]
    directory: PathBuf,
    /// Leave the disk out.
    #[arg(long)]
    no_disk: bool,
    /// Size of the file, MiB; larger than the disk's own cache.
    #[arg(long, value_name = "MIB", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(64..=65_536))]
    file_mib: u32,
    /// Seconds of each figure.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=60))]
    seconds: u32,
    /// Do not ask, also when the host is in service.
    #[arg(long)]
    yes: bool,
    /// The history [default: headroom/history.sqlite in the user's data directory].
    #[arg(long, value_name = "FILE")]
    store: Option<PathBuf>,
    /// Do not keep it.
    #[arg(long, conflicts_with = "list")]
    no_store: bool,
    /// Show what the history has of this host, newest first, and measure nothing.
    #[arg(long)]
    list: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// What a host can do at most.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Probe {
    /// When it began, seconds since 1970 UTC.
    pub(crate) at: u64,
    /// The host's name.
    pub(crate) host: String,
    /// CPU busy before, 0 to 1: what others used while it was measured is missing in its figures.
    pub(crate) busy_before: f64,
    /// Its disk.
    pub(crate) disk: Option<Disk>,
    /// Its CPUs and memory.
    pub(crate) compute: Compute,
    /// The way to each server.
    pub(crate) servers: Vec<Way>,
}

impl Probe {
    /// What verdicts need of it.
    pub(crate) fn ceilings(&self) -> Ceilings {
        let Some(disk) = &self.disk else { return Ceilings::default() };
        Ceilings {
            disk: disk.device.clone(),
            idle_read_ms: Some(disk.idle_read.mean_ms),
            idle_write_ms: Some(disk.idle_write.mean_ms),
            reads_per_s: disk::most(&disk.reads),
            writes_per_s: disk::most(&disk.writes),
            disk_bytes_per_s: Some(disk.read_bytes_per_s.max(disk.write_bytes_per_s)),
            network_bytes_per_s: None,
        }
    }
}

/// The ceilings that the history has of this host; none where it has none, or there is no history.
pub(crate) fn known_ceilings(environment: &Environment) -> Ceilings {
    let Some(path) = usual_store(environment).filter(|path| path.exists()) else {
        return Ceilings::default();
    };
    let newest =
        Store::open(&path).map_err(anyhow::Error::from).and_then(|store| of_host(&store, &host(), 1));
    match newest {
        Ok(probes) => probes.first().map(Probe::ceilings).unwrap_or_default(),
        Err(error) => {
            tracing::warn!(%error, "ceilings that were measured before are not used");
            Ceilings::default()
        }
    }
}

/// Runs `headroom probe`.
pub(crate) async fn run(args: ProbeArgs, environment: &Environment) -> anyhow::Result<ExitCode> {
    let store = history(&args, environment)?;
    if args.list {
        let store = store.context("no home directory is known; name the history with --store")?;
        let probes = of_host(&store, &host(), 20)?;
        show(&args, &probes, || probes.iter().map(text::one).collect())?;
        if probes.is_empty() {
            terminal::complain(&format!(
                "headroom: the history has no probe of this host ({}); headroom probe --directory DIR makes one",
                host()
            ));
        }
        return Ok(if probes.is_empty() { exit::no() } else { exit::DONE });
    }
    let before = machine::cpu_times();
    tokio::time::sleep(LOOK).await;
    let busy_before = machine::busy(before, machine::cpu_times());
    if !args.yes && !agreed(&args, busy_before)? {
        terminal::complain("nothing was measured");
        return Ok(exit::no());
    }
    let probe = tokio::select! {
        probe = measure(&args, environment, busy_before) => probe?,
        () = interrupted() => bail!("interrupted; nothing was kept, the probe's file is removed"),
    };
    if let Some(store) = &store {
        store.keep_probe(&probe.host, probe.at, &serde_json::to_string(&probe)?)?;
    }
    show(&args, &probe, || text::one(&probe))?;
    Ok(exit::DONE)
}

fn show<T: Serialize>(args: &ProbeArgs, value: &T, text: impl FnOnce() -> String) -> anyhow::Result<()> {
    if args.json { terminal::print_json(value) } else { terminal::print(&text()) }
}

/// Asks, where there is a reason to; `false` is no. Without a terminal the answer is an error that says what to do.
fn agreed(args: &ProbeArgs, busy: f64) -> anyhow::Result<bool> {
    let servers = servers_here(Path::new("/proc"));
    let why = match servers.as_slice() {
        [] if busy <= IN_SERVICE => return Ok(true),
        [] => format!("its CPUs are {:.0} % busy", busy * 100.0),
        names => format!("{} runs here", names.join(" and ")),
    };
    let what = format!(
        "This host seems to be in service ({why}). For about {} s its disk, then its CPUs and memory will be loaded fully.",
        seconds(args)
    );
    if !std::io::stdin().is_terminal() {
        bail!("{what} Say that this is meant with --yes.");
    }
    let mut error = std::io::stderr();
    write!(error, "{what} Go on? [y/N] ")?;
    error.flush()?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

fn seconds(args: &ProbeArgs) -> u32 {
    args.seconds * 4 + if args.no_disk { 0 } else { disk::seconds(args.seconds) }
}

/// Database servers among the processes, by name, each once.
fn servers_here(proc: &Path) -> Vec<String> {
    let processes = std::fs::read_dir(proc).into_iter().flatten().flatten();
    let names = processes.filter_map(|process| std::fs::read_to_string(process.path().join("comm")).ok());
    let mut servers: Vec<String> = names
        .map(|name| name.trim().to_owned())
        .filter(|name| matches!(&**name, "mysqld" | "mariadbd"))
        .collect();
    servers.sort_unstable();
    servers.dedup();
    servers
}

async fn measure(args: &ProbeArgs, environment: &Environment, busy_before: f64) -> anyhow::Result<Probe> {
    let each = Duration::from_secs(args.seconds.into());
    // First, while nothing is loaded: whoever cannot be reached is known before a minute is spent.
    let mut servers = Vec::new();
    if !args.source.server.is_empty() || args.source.config.is_some() {
        let config = source::for_fleet(&args.source)?.config;
        let who = credentials::resolve(&config, environment)?;
        for server in &config.fleet.seeds {
            terminal::complain(&format!("the way to {server}"));
            servers.push(network::measure(server, &who, each).await?);
        }
    }
    let at =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let disk = match args.no_disk {
        true => None,
        false => {
            let mut said = |what: &str| terminal::complain(what);
            Some(disk::measure(&args.directory, args.file_mib, args.seconds, &mut said).await?)
        }
    };
    terminal::complain("CPUs and memory");
    let compute = tokio::task::spawn_blocking(move || compute::measure(each)).await?;
    Ok(Probe { at, host: host(), busy_before, disk, compute, servers })
}

fn history(args: &ProbeArgs, environment: &Environment) -> anyhow::Result<Option<Store>> {
    if args.no_store {
        return Ok(None);
    }
    let path = args.store.clone().or_else(|| usual_store(environment));
    let path = path.context("no home directory is known; name a history with --store, or use --no-store")?;
    Ok(Some(Store::open(&path)?))
}

fn of_host(store: &Store, host: &str, count: u32) -> anyhow::Result<Vec<Probe>> {
    let texts = store.probes(host, count)?;
    texts
        .iter()
        .map(|text| serde_json::from_str(text).context("a probe of the history cannot be read"))
        .collect()
}

fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
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
        let probe = text::tests::example();
        store.keep_probe("db1", 5, &serde_json::to_string(&probe).unwrap()).unwrap();
        store.keep_probe("db2", 6, "of another host, and never read").unwrap();
        let back = of_host(&store, "db1", 9).unwrap();
        assert_eq!(back, std::slice::from_ref(&probe));
        let ceilings = back[0].ceilings();
        assert_eq!((ceilings.disk.as_deref(), ceilings.reads_per_s), (Some("nvme0n1"), Some(30_000.0)));
        assert!(of_host(&store, "db3", 9).unwrap().is_empty());
    }
}
