//! `headroom probe`: what this host can do at most: its disk (fio), its CPUs and memory, the way to each
//! server. Kept in the history, where `watch` and `agent` find it: then "busy" is a share of what was
//! measured here.

use crate::commands::refused;
use crate::commands::report::usual_store;
use crate::environment::Environment;
use crate::source::SourceArgs;
use crate::{credentials, source};
use anyhow::{Context, bail};
use clap::Args;
use diagnose::verdict::Ceilings;
use probe::{KeptIn, Scope, host, machine, servers_here};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use term::{StopSignals, exit, terminal};

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
`headroom watch` and `headroom agent` tell how much of these ceilings is used; an agent that runs takes them over on HUP
(systemctl reload headroom-agent).

Exit code 1: nothing was measured (the answer was no), or --list finds no probe of this host.";

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
    /// The history [default: root's is /var/lib/headroom/history.sqlite, where the package's agent finds it,
    /// if that directory is there; else headroom/history.sqlite in the user's data directory].
    #[arg(long, value_name = "FILE")]
    store: Option<PathBuf>,
    /// Do not keep it.
    #[arg(long, conflicts_with = "list")]
    no_store: bool,
    /// Show what the history has of this host, newest first, and measure nothing.
    #[arg(long)]
    list: bool,
    /// Print JSON, or {"refused": WHY} where the answer was no.
    #[arg(long)]
    json: bool,
}

/// The ceilings that the history has of this host: the one that is named, else those in the usual places.
///
/// # Errors
/// The history that was named cannot be read.
pub(crate) fn known_ceilings(named: Option<&Path>, environment: &Environment) -> anyhow::Result<Ceilings> {
    probe::known_ceilings(named, usual_store(environment))
}

/// Runs `headroom probe`.
pub(crate) async fn run(args: ProbeArgs, environment: &Environment) -> anyhow::Result<ExitCode> {
    let kept = kept_in(&args, environment)?;
    let store = kept.as_ref().map(KeptIn::open).transpose()?;
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
        let why = "nothing was measured";
        terminal::complain(why);
        return refused(why, args.json);
    }
    let mut progress = terminal::complain;
    // HUP too: the file is large, and the disk is that of a server.
    let mut stop = StopSignals::listen()?;
    let probe = tokio::select! {
        probe = scope.measure(busy_before, &mut progress) => probe?,
        () = stop.received() => bail!("interrupted; nothing was kept, the probe's file is removed"),
    };
    // What was found is shown also where the history cannot be written.
    let in_history = store.as_ref().map(|store| probe.keep(store)).transpose();
    show(&args, &probe, || probe::text::one(&probe))?;
    if let (Some(()), Some(kept)) = (in_history?, &kept) {
        terminal::complain(&format!("kept in {}", kept.path().display()));
    }
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
    terminal::ask(&format!("{what} Go on?"))
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

/// Where it is kept; `None` is nowhere.
fn kept_in(args: &ProbeArgs, environment: &Environment) -> anyhow::Result<Option<KeptIn>> {
    if args.no_store {
        return Ok(None);
    }
    let named = args.store.clone().map(KeptIn::Own);
    let kept = named.or_else(|| KeptIn::usual(usual_store(environment)));
    kept.context("no home directory is known; name a history with --store, or use --no-store").map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Parsed {
        #[command(flatten)]
        probe: ProbeArgs,
    }

    #[test]
    fn a_probe_is_kept_where_the_flags_say_or_nowhere() {
        let kept = |words: &[&str]| {
            let args = Parsed::parse_from(["probe"].iter().chain(words)).probe;
            kept_in(&args, &Environment::default()).unwrap()
        };
        assert_eq!(kept(&["--store", "x"]), Some(KeptIn::Own("x".into())));
        assert_eq!(kept(&["--no-store"]), None);
    }
}
