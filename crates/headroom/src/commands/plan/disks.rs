//! `headroom plan disks`: another host's disk in the place of this one's.

use super::KeepArgs;
use super::ladder::{ClimbArgs, refused};
use crate::commands::knob::blocking;
use crate::commands::report::usual_store;
use crate::environment::Environment;
use anyhow::Context;
use clap::Args;
use std::path::PathBuf;
use std::process::ExitCode;
use whatif::disks::{self, DisksQuestion, NamedDisk, answer};
use whatif::server::Server;
use whatif::words::parse_above_zero;

const EXAMPLES: &str = "\
Examples:
  headroom probe --directory /srv/data --json > nvme.json      (on the other host)
  headroom plan disks shop.toml --server replica3 --database shop --probe nvme.json

The present disk: the newest headroom probe in the history of the disk that the server's data lie on,
or --here FILE.

Exit code 1: nothing is predicted (the text says why).";

/// Predict response times with another host's disk.
///
/// Warning: it loads the server up to half of what its cores or its disk can do. Use a replica that nobody
/// needs meanwhile. It has to run on the server's host, where the CPU time of the server's process is known.
#[derive(Args, Debug, Clone)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DisksArgs {
    #[command(flatten)]
    climb: ClimbArgs,
    /// What headroom probe --json printed on the other host.
    #[arg(long, value_name = "FILE")]
    probe: PathBuf,
    /// What headroom probe --json printed on the server's host [default: from the history].
    #[arg(long, value_name = "FILE")]
    here: Option<PathBuf>,
    /// How many times today's load, or where that is not known the highest rate sent.
    #[arg(long, value_name = "TIMES", value_delimiter = ',', default_values_t = [1.0, 1.5, 2.0, 4.0], value_parser = parse_above_zero)]
    growth: Vec<f64>,
    /// Today's rate in transactions a second [default: counted where the server is busy; else not known].
    #[arg(long, value_name = "PER_SECOND", value_parser = parse_above_zero)]
    current: Option<f64>,
    #[command(flatten)]
    keep: KeepArgs,
}

/// Does it.
pub(crate) async fn run(args: DisksArgs, environment: &Environment) -> anyhow::Result<ExitCode> {
    let other = disks::read(&args.probe)?;
    let here = args.here(environment).await?;
    let climbed = args.climb.climb(Vec::new(), Some(here.disk.reads_per_s), args.current, environment).await;
    let climbed = match climbed {
        Ok(climbed) => climbed,
        Err(error) => return refused(error, args.keep.json),
    };
    let question = DisksQuestion {
        cores: climbed.cores,
        baseline: climbed.of.baseline(args.current),
        growths: args.growth.clone(),
        here,
        other,
        flushes: climbed.flushes,
    };
    args.keep.finish(&answer(&question, climbed.of), environment)
}

impl DisksArgs {
    /// The disk of this host that the server's data lie on. Where that cannot be seen, the one that was
    /// measured last.
    async fn here(&self, environment: &Environment) -> anyhow::Result<NamedDisk> {
        if let Some(path) = &self.here {
            return Ok(disks::read(path)?);
        }
        let disk = self.disk(environment).await?;
        let probe = probe::known_probe(usual_store(environment), disk.as_deref())?;
        probe.as_ref().and_then(disks::of_probe).with_context(|| unknown(disk.as_deref()))
    }

    async fn disk(&self, environment: &Environment) -> anyhow::Result<Option<String>> {
        let Some(address) = self.climb.target.server() else { return Ok(None) };
        let who = self.climb.target.credentials(environment)?;
        // What hinders it hinders the ladder too, which says so.
        blocking(move || Ok(Server::open(&address, &who).and_then(|mut server| server.disk()).ok().flatten()))
            .await
    }
}

/// That nobody has measured the disk that is there, and what does.
fn unknown(disk: Option<&str>) -> String {
    let which = disk.map_or_else(String::new, |disk| format!(", {disk},"));
    format!(
        "the present disk{which} is not known; headroom probe --directory DIR measures it, or name a file with --here"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_that_nobody_has_measured_is_named() {
        assert!(unknown(Some("sda")).starts_with("the present disk, sda, is not known; headroom probe "));
        assert!(unknown(None).starts_with("the present disk is not known; headroom probe "));
    }
}
