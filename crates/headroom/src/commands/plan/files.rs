//! `headroom plan placement`, `replicas`, `report` and `check`: answers from files and from the ledger.

use super::{KeepArgs, ledger_path, verdict};
use crate::commands::knob::credentials_as;
use crate::environment::Environment;
use anyhow::{Context, anyhow, bail};
use clap::Args;
use fleet::Address;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use term::{exit, terminal};
use whatif::inventory::Inventory;
use whatif::ledger::{self, Entry, Kind, now};
use whatif::outcome;
use whatif::page::Report;
use whatif::placement;
use whatif::prices::Prices;
use whatif::replicas::{self, ReplicasQuestion};
use whatif::server::Server;

/// Place roles on hosts: the cheapest hosts that carry all of them, and survive the failure of any.
#[derive(Args, Debug, Clone)]
#[command(
    after_help = "Examples:\n  headroom plan placement inventory.toml\n  headroom plan placement inventory.csv \
                  --time 60s --json\n\nThe format: docs/guide/plan.md. Exit code 1: there is no placement (the text \
                  says why)."
)]
pub(crate) struct PlacementArgs {
    /// Hosts and roles, TOML or CSV.
    inventory: PathBuf,
    /// How long a cheaper one is searched for.
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = fleet::parse_duration)]
    time: Duration,
    /// First compare the inventory with what its servers say.
    #[arg(long)]
    ask: bool,
    /// Account [default: from the option file, else $HEADROOM_USER].
    #[arg(long, short, value_name = "NAME", requires = "ask")]
    user: Option<String>,
    /// Option file with user and password, in the format of ~/.my.cnf (which is the default).
    #[arg(long, value_name = "FILE", requires = "ask")]
    option_file: Option<PathBuf>,
    #[command(flatten)]
    keep: KeepArgs,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Readers in each zone that survive the loss of any zone.
#[derive(Args, Debug, Clone)]
#[command(
    after_help = "Examples:\n  headroom plan replicas --zone a=400 --zone b=300 --zone c=200 --reader-per-s \
                  500\n  headroom plan replicas --zone a=400 --zone b=300 --reader-per-s 500 --apply-share 0.2 \
                  --readers 2,1 --growth reads.csv --prices prices.toml\n\nExit code 1: there is no plan, or \
                  today's readers do not survive the loss of a zone."
)]
pub(crate) struct ReplicasArgs {
    /// A zone and the reads a second that are born there, at the peak. Repeatable.
    #[arg(long, value_name = "NAME=READS", required = true)]
    zone: Vec<String>,
    /// Reads a second of one reader within the objective: the lower end that headroom measure gives.
    #[arg(long, value_name = "PER_SECOND")]
    reader_per_s: f64,
    /// Share of a reader that applying the primary's writes takes, where the capacity was measured without.
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    apply_share: f64,
    /// Share of the capacity that may be used.
    #[arg(long, value_name = "SHARE", default_value_t = 0.9)]
    fill: f64,
    /// Readers that are there, zone by zone in the same order.
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',')]
    readers: Vec<usize>,
    /// Bytes of an answer to a read: what crosses zones is priced.
    #[arg(long, value_name = "BYTES")]
    read_bytes: Option<f64>,
    /// A file of lines DAY,READS_PER_SECOND: growth so far.
    #[arg(long, value_name = "FILE")]
    growth: Option<PathBuf>,
    /// Writes a second now, and the most that the primary takes.
    #[arg(long, value_name = "NOW,MOST", value_delimiter = ',')]
    writes: Vec<f64>,
    /// Your prices, TOML.
    #[arg(long, value_name = "FILE")]
    prices: Option<PathBuf>,
    #[command(flatten)]
    keep: KeepArgs,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// One page: what each purchase would buy, ranked.
#[derive(Args, Debug, Clone)]
#[command(
    after_help = "Examples:\n  headroom plan report --html plan.html --prices prices.toml\n\nIt shows the \
                  newest answer to each question. Exit code 1: no question has been answered yet."
)]
pub(crate) struct ReportArgs {
    /// Write the page.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Your prices, TOML.
    #[arg(long, value_name = "FILE")]
    prices: Option<PathBuf>,
    /// The file of answers [default: headroom/plan.jsonl in the user's data directory].
    #[arg(long, value_name = "FILE")]
    ledger: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Past predictions beside what came.
#[derive(Args, Debug, Clone)]
#[command(
    after_help = "Examples:\n  headroom plan check\n  headroom plan check --lets-encrypt\n\nExit code 1: a \
                  model does badly, or nothing can be judged yet."
)]
pub(crate) struct CheckArgs {
    /// A published change as a case: what the model explains of it.
    #[arg(long)]
    lets_encrypt: bool,
    /// The file of answers [default: headroom/plan.jsonl in the user's data directory].
    #[arg(long, value_name = "FILE")]
    ledger: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

fn read(path: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

fn prices(path: Option<&PathBuf>) -> anyhow::Result<Prices> {
    let Some(path) = path else { return Ok(Prices::default()) };
    Prices::parse(&read(path)?, &path.display().to_string()).map_err(|why| anyhow!(why))
}

fn entry(kind: Kind, subject: String, answer: serde_json::Value) -> Entry {
    let (predictions, seen, workload) = (Vec::new(), Vec::new(), String::new());
    Entry { at: now(), kind, subject, workload, predictions, seen, answer }
}

pub(crate) async fn placement(args: &PlacementArgs, environment: &Environment) -> anyhow::Result<ExitCode> {
    let name = args.inventory.display().to_string();
    let inventory = Inventory::parse(&read(&args.inventory)?, &name).map_err(|why| anyhow!(why))?;
    if args.ask {
        let who = credentials_as(args.user.as_deref(), args.option_file.as_deref(), environment)?;
        let asked = inventory.clone();
        let ask = move |server: &str| {
            let address: Address = server.parse().map_err(|error| format!("{server}: {error}"))?;
            let facts = Server::open(&address, &who).and_then(|mut server| server.facts());
            facts.map_err(|error| error.to_string())
        };
        let differences = tokio::task::spawn_blocking(move || asked.differences(ask)).await?;
        differences.iter().for_each(|one| terminal::complain(&format!("differs: {one}")));
    }
    let answer = match placement::answer(&inventory, args.time) {
        Ok(answer) => answer,
        Err(why) => {
            terminal::complain(&format!("headroom: no placement: {why}"));
            return Ok(exit::no());
        }
    };
    if args.json {
        terminal::print_json(&answer)?;
    } else {
        terminal::print(&answer.text())?;
    }
    args.keep.keep(&entry(Kind::Placement, name, serde_json::to_value(&answer)?), environment)?;
    Ok(exit::DONE)
}

pub(crate) fn replicas(args: &ReplicasArgs, environment: &Environment) -> anyhow::Result<ExitCode> {
    let shares = [args.apply_share, args.fill].iter().all(|share| (0.0..=1.0).contains(share));
    if !(args.reader_per_s > 0.0 && shares) {
        return Err(exit::usage_error(
            "--reader-per-s must be above 0; --apply-share and --fill are from 0 to 1",
        ));
    }
    let zone = |text: &String| {
        let parts =
            text.split_once('=').and_then(|(name, reads)| Some((name.to_owned(), reads.parse().ok()?)));
        let fine = parts.filter(|(_, reads): &(String, f64)| *reads >= 0.0 && reads.is_finite());
        fine.ok_or_else(|| exit::usage_error(format!("--zone '{text}': write NAME=READS, such as a=400")))
    };
    let zones = args.zone.iter().map(zone).collect::<anyhow::Result<Vec<_>>>()?;
    if !args.readers.is_empty() && args.readers.len() != zones.len() {
        return Err(exit::usage_error("--readers needs a number for each --zone"));
    }
    let writes = match args.writes.as_slice() {
        [] => None,
        [now, most] if *now > 0.0 && *most > 0.0 => Some((*now, *most)),
        _ => return Err(exit::usage_error("--writes takes two numbers above 0: NOW,MOST")),
    };
    let seen = args
        .growth
        .as_ref()
        .map(|path| replicas::growth(&read(path)?).map_err(|why| anyhow!("{}:{why}", path.display())));
    let context = replicas::Context {
        today: (!args.readers.is_empty()).then(|| args.readers.clone()),
        read_bytes: args.read_bytes,
        seen: seen.transpose()?.unwrap_or_default(),
        writes,
    };
    let (reader_per_s, apply_share, fill) = (args.reader_per_s, args.apply_share, args.fill);
    let question = ReplicasQuestion { zones, reader_per_s, apply_share, fill };
    let answer = match replicas::answer(&question, &context, &prices(args.prices.as_ref())?) {
        Ok(answer) => answer,
        Err(why) => {
            terminal::complain(&format!("headroom: no plan: {why}"));
            return Ok(exit::no());
        }
    };
    if args.json {
        terminal::print_json(&answer)?;
    } else {
        terminal::print(&answer.text())?;
    }
    args.keep
        .keep(&entry(Kind::Replicas, args.zone.join(" "), serde_json::to_value(&answer)?), environment)?;
    Ok(verdict(answer.today_survives.is_none_or(|all| all.iter().all(|well| *well))))
}

pub(crate) fn report(args: &ReportArgs, environment: &Environment) -> anyhow::Result<ExitCode> {
    let path = ledger_path(args.ledger.as_ref(), environment)?;
    let report = Report::new(ledger::read(&path)?, &prices(args.prices.as_ref())?);
    if report.is_empty() && report.unread.is_empty() {
        bail!("{} has no answer yet; headroom plan ladder gives the first", path.display());
    }
    if let Some(path) = &args.html {
        std::fs::write(path, report.html()).with_context(|| format!("cannot write {}", path.display()))?;
        terminal::complain(&format!("written: {}", path.display()));
    }
    if args.json {
        terminal::print_json(&report)?;
    } else {
        terminal::print(&report.text())?;
    }
    Ok(verdict(!report.is_empty()))
}

pub(crate) fn check(args: &CheckArgs, environment: &Environment) -> anyhow::Result<ExitCode> {
    if args.lets_encrypt {
        terminal::print(&whatif::lets_encrypt::text())?;
        return Ok(exit::DONE);
    }
    let check = outcome::check(&ledger::read(&ledger_path(args.ledger.as_ref(), environment)?)?);
    if args.json {
        terminal::print_json(&check)?;
    } else {
        terminal::print(&check.text())?;
    }
    let well = !check.judged.is_empty() && check.scores.iter().all(|score| !score.does_badly);
    Ok(verdict(well))
}
