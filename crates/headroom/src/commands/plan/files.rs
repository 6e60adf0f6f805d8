//! `headroom plan placement`, `replicas`, `report` and `check`: answers from files and from the ledger.

use super::{KeepArgs, ledger_path, none, past, show, verdict};
use crate::commands::knob::{blocking, credentials_as};
use crate::environment::Environment;
use ::agent::Agents;
use anyhow::{Context, anyhow, bail};
use clap::Args;
use console::token::Token;
use console::watch_view::{ServerWatch, VerdictView, WatchView};
use diagnose::verdict::figure;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use term::{exit, terminal};
use whatif::inventory::Inventory;
use whatif::lets_encrypt;
use whatif::now::BottleneckNow;
use whatif::outcome;
use whatif::page::Report;
use whatif::placement;
use whatif::prices::Prices;
use whatif::replicas::{self, ReplicasQuestion};
use whatif::server::Server;
use whatif::words::{parse_above_zero, parse_fill, parse_share};

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
    #[arg(long, value_name = "NAME=READS", required = true, value_parser = replicas::parse_zone)]
    zone: Vec<(String, f64)>,
    /// Reads a second of one reader within the objective: the lower end that headroom measure gives, or both
    /// ends. Readers are counted by the lower; what one more adds has both.
    #[arg(long, value_name = "LOWER[,UPPER]", required = true, value_delimiter = ',', value_parser = parse_above_zero)]
    reader_per_s: Vec<f64>,
    /// Share of a reader that applying the primary's writes takes, where the capacity was measured without.
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, value_parser = parse_share)]
    apply_share: f64,
    /// Share of the capacity that may be used.
    #[arg(long, value_name = "SHARE", default_value_t = 0.9, value_parser = parse_fill)]
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
    #[arg(long, value_name = "NOW,MOST", value_delimiter = ',', value_parser = parse_above_zero)]
    writes: Vec<f64>,
    /// Your prices, TOML.
    #[arg(long, value_name = "FILE")]
    prices: Option<PathBuf>,
    #[command(flatten)]
    keep: KeepArgs,
}

/// One page: what each purchase would buy, ranked.
#[derive(Args, Debug, Clone)]
#[command(
    after_help = "Examples:\n  headroom plan report --html plan.html --prices prices.toml\n  headroom plan report \
                  --agent http://127.0.0.1:9307\n      Also what stops the server now, as its agent says.\n\nIt shows the \
                  newest answer to each question about one server. Exit code 1: no question has been answered yet."
)]
pub(crate) struct ReportArgs {
    /// Write the page.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// The server, as it was named when it was measured [default: that of the newest answer about load].
    #[arg(long, value_name = "SERVER")]
    subject: Option<String>,
    /// Your prices, TOML.
    #[arg(long, value_name = "FILE")]
    prices: Option<PathBuf>,
    /// Show what stops the server now, as this agent says: https://host:9307; http:// on this machine only.
    #[arg(long, value_name = "URL", conflicts_with = "watch")]
    agent: Option<String>,
    /// The same from a file that headroom watch --once --json wrote.
    #[arg(long, value_name = "FILE")]
    watch: Option<PathBuf>,
    /// PEM file of the authority that vouches for the agent [default: those that the web trusts].
    #[arg(long, value_name = "FILE", requires = "agent")]
    agent_ca: Option<PathBuf>,
    /// File whose first line is the agent's token [default: $HEADROOM_AGENT_TOKEN].
    #[arg(long, value_name = "FILE", requires = "agent")]
    agent_token_file: Option<PathBuf>,
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

pub(crate) async fn placement(args: &PlacementArgs, environment: &Environment) -> anyhow::Result<ExitCode> {
    let inventory = Inventory::read(&args.inventory)?;
    if args.ask {
        let who = credentials_as(args.user.as_deref(), args.option_file.as_deref(), environment)?;
        let asked = inventory.clone();
        let differences = blocking(move || Ok(asked.differences(|server| Server::ask(server, &who)))).await?;
        differences.iter().for_each(|one| terminal::complain(&format!("differs: {one}")));
    }
    match placement::answer(&inventory, &args.inventory.display().to_string(), args.time) {
        Ok(answer) => args.keep.finish(&answer, environment),
        Err(why) => none("placement", why, args.keep.json),
    }
}

pub(crate) fn replicas(args: &ReplicasArgs, environment: &Environment) -> anyhow::Result<ExitCode> {
    if !args.readers.is_empty() && args.readers.len() != args.zone.len() {
        return Err(exit::usage_error("--readers needs a number for each --zone"));
    }
    if args.zone.iter().all(|(_, reads)| *reads == 0.0) {
        return Err(exit::usage_error(
            "no zone has reads: give --zone the reads a second at its peak, such as a=400",
        ));
    }
    let writes = match args.writes.as_slice() {
        [] => None,
        [now, most] => Some((*now, *most)),
        _ => return Err(exit::usage_error("--writes takes two numbers: NOW,MOST")),
    };
    let (reader_per_s, reader_at_most) = match *args.reader_per_s.as_slice() {
        [lower] => (lower, None),
        [lower, upper] if lower <= upper => (lower, Some(upper)),
        _ => return Err(exit::usage_error("--reader-per-s takes LOWER or LOWER,UPPER")),
    };
    let context = replicas::Context {
        today: (!args.readers.is_empty()).then(|| args.readers.clone()),
        reader_at_most,
        read_bytes: args.read_bytes,
        seen: args.growth.as_deref().map(replicas::read_growth).transpose()?.unwrap_or_default(),
        writes,
    };
    let (apply_share, fill) = (args.apply_share, args.fill);
    let question = ReplicasQuestion { zones: args.zone.clone(), reader_per_s, apply_share, fill };
    match replicas::answer(&question, &context, &Prices::read(args.prices.as_deref())?) {
        Ok(answer) => args.keep.finish(&answer, environment),
        Err(why) => none("plan", why, args.keep.json),
    }
}

pub(crate) async fn report(args: &ReportArgs, environment: &Environment) -> anyhow::Result<ExitCode> {
    let path = ledger_path(args.ledger.as_ref(), environment)?;
    let entries = past(&path)?;
    if entries.is_empty() {
        let why = format!("{} has no answer yet; headroom plan ladder gives the first", path.display());
        return none("report", why, args.json);
    }
    let report = Report::new(entries, &Prices::read(args.prices.as_deref())?, args.subject.as_deref());
    let report = report.beside(args.now(environment).await?);
    if let Some(subject) = args.subject.as_deref().filter(|_| !report.has_server()) {
        let others = report.others.join(", ");
        bail!("{} has no answer about {subject}; it has some about: {others}", path.display());
    }
    if let Some(path) = &args.html {
        std::fs::write(path, report.html()).with_context(|| format!("cannot write {}", path.display()))?;
        terminal::complain(&format!("written: {}", path.display()));
    }
    show(&report, Report::text, args.json)?;
    Ok(verdict(!report.is_empty()))
}

impl ReportArgs {
    /// What stops the servers and hosts that are watched.
    async fn now(&self, environment: &Environment) -> anyhow::Result<Vec<BottleneckNow>> {
        let view = match (&self.agent, &self.watch) {
            (Some(agent), _) => {
                let token =
                    Token::find(self.agent_token_file.as_deref(), environment.agent_token.as_deref())?;
                Agents::new(std::slice::from_ref(agent), self.agent_ca.as_deref(), token)?.ask().await
            }
            (None, Some(path)) => {
                let text = std::fs::read_to_string(path).map_err(|error| {
                    anyhow!(
                        "cannot read {}: {error}; name a file that is there, and that this user may read \
                         (headroom watch --once --json > FILE writes one)",
                        path.display()
                    )
                })?;
                serde_json::from_str(&text).with_context(|| {
                    format!("{}: not what headroom watch --once --json prints", path.display())
                })?
            }
            (None, None) => return Ok(Vec::new()),
        };
        match view.unread() {
            Some(why) if !view.has_sample() => bail!("what stops the server now is not known: {why}"),
            Some(why) => terminal::complain(&format!("not all was seen: {why}")),
            None => {}
        }
        Ok(bottlenecks(&view))
    }
}

/// Those of the servers, and of hosts without one.
fn bottlenecks(view: &WatchView) -> Vec<BottleneckNow> {
    let of = |name: &str, verdict: &VerdictView| {
        let first = verdict.bottleneck.as_ref();
        let evidence = first.iter().flat_map(|first| &first.evidence).map(|one| {
            let from = one.threshold.map(|from| format!(" (counts from {})", figure(from, one.unit)));
            format!("{} {}{}", one.what, figure(one.value, one.unit), from.unwrap_or_default())
        });
        BottleneckNow {
            of: name.to_owned(),
            verdict: verdict.text.clone(),
            evidence: evidence.collect(),
            next: first.and_then(|first| first.next.first().cloned()),
        }
    };
    if !view.servers.is_empty() {
        let one = |server: &ServerWatch| {
            let mut now = of(&server.name, &server.verdict);
            match &server.sample {
                None => {
                    let why = server.unanswered.as_deref().unwrap_or("no answer within the window");
                    now.verdict = format!("not known: {why}");
                }
                Some(sample) if sample.sessions_unseen => {
                    now.evidence.push("what its sessions wait for was not seen all the time".to_owned());
                }
                Some(_) => {}
            }
            now
        };
        return view.servers.iter().map(one).collect();
    }
    let hosts: Vec<_> = view.hosts.iter().map(|host| of(&host.agent, &host.verdict)).collect();
    if hosts.is_empty() { vec![of("this host", &view.verdict)] } else { hosts }
}

pub(crate) fn check(args: &CheckArgs, environment: &Environment) -> anyhow::Result<ExitCode> {
    if args.lets_encrypt {
        show(&lets_encrypt::case(), lets_encrypt::Case::text, args.json)?;
        return Ok(exit::DONE);
    }
    let check = outcome::check(&past(&ledger_path(args.ledger.as_ref(), environment)?)?);
    show(&check, outcome::Check::text, args.json)?;
    Ok(verdict(check.is_good()))
}
