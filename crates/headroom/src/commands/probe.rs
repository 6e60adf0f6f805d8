//! `headroom probe`: what this host can do at most: its disk (fio), its CPUs and memory, the way to each
//! server. Kept in the history, where `watch` and `agent` find it: then "busy" is a share of what was
//! measured here.

use crate::commands::report::usual_store;
use crate::environment::Environment;
use crate::source::SourceArgs;
use crate::{credentials, source};
use anyhow::{Context, bail};
use clap::Args;
use diagnose::verdict::Ceilings;
use load::store::Store;
use probe::{Probe, Scope, host, machine, servers_here};
use serde::Serialize;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use term::{exit, interrupted, terminal};

/// A host that is busier than this serves somebody.
const IN_SERVICE: f64 = 0.10;
/// Over this long it is seen whether it does.
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
/// Random 16 KiB reads and writes at growing depth with the knee, flushes, bandwidth of disk and memory,
/// speed of the CPUs, round trips to each server. Bounded: about forty seconds and one file of 1 GiB.
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

/// The ceilings that the history has of this host; none where it has none, or there is no history.
pub(crate) fn known_ceilings(environment: &Environment) -> Ceilings {
    let Some(path) = usual_store(environment).filter(|path| path.exists()) else {
        return Ceilings::default();
    };
    let newest =
        Store::open(&path).map_err(anyhow::Error::from).and_then(|store| probe::history(&store, &host(), 1));
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
        let probes = probe::history(&store, &host(), 20)?;
        show(&args, &probes, || probes.iter().map(probe::text::one).collect())?;
        if probes.is_empty() {
            terminal::complain(&format!(
                "headroom: the history has no probe of this host ({}); headroom probe --directory DIR makes one",
                host()
            ));
        }
        return Ok(if probes.is_empty() { exit::no() } else { exit::DONE });
    }
    let scope = scope(&args, environment)?;
    let before = machine::cpu_times();
    tokio::time::sleep(LOOK).await;
    let busy_before = machine::busy(before, machine::cpu_times());
    if !args.yes && !agreed(&scope, busy_before)? {
        terminal::complain("nothing was measured");
        return Ok(exit::no());
    }
    let mut progress = terminal::complain;
    let probe = tokio::select! {
        probe = scope.measure(busy_before, &mut progress) => probe?,
        () = interrupted() => bail!("interrupted; nothing was kept, the probe's file is removed"),
    };
    if let Some(store) = &store {
        probe.keep(store)?;
    }
    show(&args, &probe, || probe::text::one(&probe))?;
    Ok(exit::DONE)
}

fn show<T: Serialize>(args: &ProbeArgs, value: &T, text: impl FnOnce() -> String) -> anyhow::Result<()> {
    if args.json { terminal::print_json(value) } else { terminal::print(&text()) }
}

/// Asks, where there is a reason to; `false` is no. Without a terminal the answer is an error that says what
/// to do.
fn agreed(scope: &Scope, busy: f64) -> anyhow::Result<bool> {
    let servers = servers_here(Path::new("/proc"));
    let why = match servers.as_slice() {
        [] if busy <= IN_SERVICE => return Ok(true),
        [] => format!("its CPUs are {:.0} % busy", busy * 100.0),
        names => format!("{} runs here", names.join(" and ")),
    };
    let what = format!(
        "This host seems to be in service ({why}). For about {} s its disk, then its CPUs and memory will be loaded fully.",
        scope.duration_s()
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

/// What is to be measured.
fn scope(args: &ProbeArgs, environment: &Environment) -> anyhow::Result<Scope> {
    let with_servers = !args.source.server.is_empty() || args.source.config.is_some();
    let servers = with_servers.then(|| -> anyhow::Result<_> {
        let config = source::for_fleet(&args.source)?.config;
        let who = credentials::resolve(&config, environment)?;
        Ok((config.fleet.seeds, who))
    });
    Ok(Scope {
        directory: (!args.no_disk).then(|| args.directory.clone()),
        file_mib: args.file_mib,
        seconds: args.seconds,
        servers: servers.transpose()?,
    })
}

fn history(args: &ProbeArgs, environment: &Environment) -> anyhow::Result<Option<Store>> {
    if args.no_store {
        return Ok(None);
    }
    let path = args.store.clone().or_else(|| usual_store(environment));
    let path = path.context("no home directory is known; name a history with --store, or use --no-store")?;
    Ok(Some(Store::open(&path)?))
}
