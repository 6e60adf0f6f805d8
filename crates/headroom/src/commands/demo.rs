//! `headroom demo`: its flags. What it does is crate `demo`.

use super::lab::default_base;
use crate::environment::Environment;
use clap::Args;
use demo::{Options, PoolOrder};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use term::{Paint, exit};

const EXAMPLES: &str = "\
Examples:
  headroom demo                             about two minutes, then a table and headroom-demo.html
  headroom demo --json --report demo.html   the same figures as JSON on standard output
  headroom demo --only d --pool lifo        the applications' pools hand out their newest session first
  headroom demo --keep                      afterwards servers, routers and status pages stay until Ctrl-C

Exit code 1 when something that was asked was not met: the table says what.";

/// Show the product's main job on real servers of this machine.
///
/// Starts a primary and four replicas in three zones with simulated distance, sends the traffic of a small
/// API from every zone, and measures: reads in one zone, over zones round robin, over zones with headroom; a
/// zone without a reader; a reader that is killed, silenced, and comes back; the primary moved under write
/// load. Nothing is left behind.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DemoArgs {
    /// Print the figures as JSON.
    #[arg(long)]
    json: bool,
    /// Where the page with charts goes.
    #[arg(long, value_name = "FILE", default_value = "headroom-demo.html")]
    report: PathBuf,
    /// Leave servers, routers, status pages and a little traffic up until Ctrl-C, and print how to connect.
    #[arg(long)]
    keep: bool,
    /// How often the slices of each phase alternate; more take longer and say more.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Round-trip time between zones; within a zone it is 0.12 ms.
    #[arg(long, value_name = "DURATION", default_value = "0.7ms", value_parser = round_trip)]
    round_trip: Duration,
    /// Requests per second of GET /timeline that each zone takes when demand is even; the others follow.
    #[arg(long, value_name = "NUMBER", default_value_t = 2.5)]
    rate: f64,
    /// Only these parts: c (with a and b), d, e, f.
    #[arg(long, value_name = "PARTS", value_delimiter = ',', default_values_t = ['c', 'd', 'e', 'f'], value_parser = part)]
    only: Vec<char>,
    /// Send all sessions through the routers, also where the kernel would let them bypass these (zero-hop).
    #[arg(long)]
    relay: bool,
    /// Which idle session the applications' pools hand out: the one returned first (fifo), or last (lifo), as
    /// Go's database/sql does. With lifo the routers have 45 s to see which sessions work.
    #[arg(long, value_name = "ORDER", default_value = "fifo", value_parser = order)]
    pool: PoolOrder,
    /// From which arrivals and keys are drawn.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where the servers' files go while it runs [default: where `headroom lab` keeps labs].
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

impl DemoArgs {
    fn options(self, base: PathBuf, paint: Paint) -> anyhow::Result<Options> {
        if !(0.1..=100.0).contains(&self.rate) {
            return Err(exit::usage_error(format!("--rate is between 0.1 and 100, not {}", self.rate)));
        }
        let Self {
            json, report, keep, rounds, round_trip, rate, only: parts, relay, pool: order, seed, ..
        } = self;
        Ok(Options { json, report, keep, rounds, round_trip, rate, parts, relay, order, seed, base, paint })
    }
}

/// A part of the demo, by its letter.
fn part(text: &str) -> Result<char, String> {
    match text {
        "c" | "d" | "e" | "f" => Ok(text.chars().next().unwrap_or_default()),
        // They are measured with (c), which is compared with them.
        "a" | "b" => Err(format!("'{text}' is measured with c; write c")),
        _ => Err(format!("'{text}' is no part of the demo; there are c (with a and b), d, e, f")),
    }
}

/// The order of a pool.
fn order(text: &str) -> Result<PoolOrder, String> {
    match text {
        "fifo" => Ok(PoolOrder::OldestFirst),
        "lifo" => Ok(PoolOrder::NewestFirst),
        _ => Err(format!("'{text}' is no order of a pool; there are fifo and lifo")),
    }
}

/// A round-trip time: `0.7ms`, `700us`.
fn round_trip(text: &str) -> Result<Duration, String> {
    let refuse = || format!("'{text}' is not a round-trip time; write for instance 1ms, at most 1s");
    let (number, unit) = match text.strip_suffix("us") {
        Some(number) => (number, 1e-6),
        None => (text.strip_suffix("ms").ok_or_else(refuse)?, 1e-3),
    };
    let seconds = number.trim().parse::<f64>().map_err(|_| refuse())? * unit;
    if (0.0..=1.0).contains(&seconds) { Ok(Duration::from_secs_f64(seconds)) } else { Err(refuse()) }
}

/// Runs `headroom demo`.
pub(crate) async fn run(args: DemoArgs, environment: &Environment) -> anyhow::Result<ExitCode> {
    let usual = args.dir.is_none();
    let base = args.dir.clone().unwrap_or_else(|| default_base(environment));
    let options = args.options(base.clone(), Paint::for_stdout(environment.no_colour))?;
    let outcome = demo::run(options).await;
    if usual {
        // Made for it; where another lab runs it is not empty, and stays.
        let _ = std::fs::remove_dir(&base);
    }
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Wrapped {
        #[command(flatten)]
        args: DemoArgs,
    }

    #[test]
    fn a_part_that_is_none_is_refused_before_anything_is_started() {
        let only = |parts: &str| Wrapped::try_parse_from(["demo", "--only", parts]).map(|w| w.args.only);
        assert_eq!(only("d,e").unwrap(), ['d', 'e']);
        assert!(only("z").unwrap_err().to_string().contains("there are c (with a and b), d, e"));
        assert!(only("a").unwrap_err().to_string().contains("measured with c"));
        assert!(only("c,z").is_err());
    }

    #[test]
    fn zones_are_as_far_apart_as_in_the_lab_unless_told_otherwise() {
        let round_trip =
            |flags: &[&str]| Wrapped::parse_from(std::iter::once(&"demo").chain(flags)).args.round_trip;
        assert_eq!(round_trip(&[]), lab::Network::default().between);
        assert_eq!(round_trip(&["--round-trip", "2ms"]), Duration::from_millis(2));
    }
}
