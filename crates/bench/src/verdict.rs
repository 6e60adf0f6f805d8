//! `headroom-bench verdict`: bottlenecks really made on a lab's servers, and which of them is named: the
//! confusion table.
//!
//! Each is made at some strengths, some times over, in an order drawn anew for each round. Every making is
//! bounded in time and ends by itself; afterwards the verdict has to go before the next begins, else that is
//! said. What counts is the verdict in force when the making ends; what was named first, and how long it
//! took until the right one was, is measured beside it. What cannot be made where the run takes place is said
//! with the reason, in the plan and in the summary.
//!
//! The host's own trouble is evidence too: on a machine that is busy with something else "the CPU" is a right
//! answer. How busy it was before anything was made, and how much of its CPUs was taken away meanwhile
//! (steal), stand in the report, and the table is worth only what these figures allow.

mod application;
mod client;
mod conntrack;
mod fixture;
mod limit;
mod lossy;
mod making;
mod neighbour;
mod packets;
mod place;
mod stream;
mod table;
mod tables;
mod veth;
mod words;

use super::output::{Directory, finish, read_kept, scratch};
use super::volume::{USUAL_PER_S, Volume};
use agent::{Monitor, MonitorOptions};
use anyhow::Context;
use clap::Args;
use config::{Credentials, FleetConfig, Matcher, OwnZone, ZoneRule};
use console::watch_view::{VerdictView, WatchView};
use diagnose::verdict::{Ceilings, Name, figure as words};
use fixture::VerdictFixture;
use fleet::Address;
use lab::{Account, Flavour, Lab, Spec};
use making::{Bed, Making};
use place::{NotMade, Place};
use probe::machine;
use rand::seq::SliceRandom;
use rand::{SeedableRng, rngs::StdRng};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::SocketAddrV4;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use term::{exit, interrupted, terminal};

/// Put there by `scripts/mysql-root.sh`.
const MYSQL: &str = "target/mysql/mysqld";
/// The file of a run that holds all of it.
const OUTCOMES: &str = "outcomes.json";
/// Of each server: enough for its logs and indexes, a quarter of its largest table.
const POOL_MIB: u32 = 48;
/// Of each healthy load where only those are sent, seconds.
const HEALTHY_S: u64 = 600;
/// Windows that are judged.
const WINDOW: Duration = Duration::from_secs(10);
/// How busy the machine is by itself is looked at for this long at least before each making.
const LOOK_BEFORE: Duration = Duration::from_secs(2);
/// Whoever watches knows by then what a server was set to, which is asked every 15 s: in the field it was set
/// long before the trouble.
const SETTINGS_SEEN: Duration = Duration::from_secs(18);
/// A verdict that is still in force this long after its cause has gone is noted.
const GONE_WITHIN: Duration = Duration::from_secs(20);

/// Flags of `headroom-bench verdict`.
#[derive(Args, Clone, Debug)]
pub(crate) struct VerdictArgs {
    /// How often each is made at each strength.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=100))]
    times: u32,
    /// Strengths, 0 to 2.
    #[arg(long, value_delimiter = ',', default_values_t = [0, 1, 2],
          value_parser = clap::value_parser!(u32).range(0..=2))]
    strengths: Vec<u32>,
    /// Seconds of each making, where it does not take longer.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(14..=900))]
    seconds: u64,
    /// Seconds of each healthy load [default: those of the others; with --healthy 600].
    #[arg(long, value_parser = clap::value_parser!(u64).range(14..=7200))]
    healthy_seconds: Option<u64>,
    /// Only these, by name.
    #[arg(long, value_delimiter = ',', value_enum)]
    only: Vec<Making>,
    /// Only the healthy loads: four kinds, each with and without limits far above what it needs.
    #[arg(long, conflicts_with_all = ["only", "quick"])]
    healthy: bool,
    /// MySQL (target/mysql/mysqld, by scripts/mysql-root.sh, or what --program names), and only what is made
    /// inside a server; --only may name others.
    #[arg(long)]
    mysql: bool,
    /// A smoke run: each once at the middle strength.
    #[arg(long)]
    quick: bool,
    /// Say what would be made and how long that would take, and make nothing.
    #[arg(long)]
    plan: bool,
    /// Add to the run that is kept in this directory: so a long run can be made in parts.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["out", "quick"])]
    add_to: Option<PathBuf>,
    /// Another server program.
    #[arg(long)]
    program: Option<PathBuf>,
    /// From which the order is drawn.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where the run's files go [default: benchmarks/runs/verdict/YYYY-MM-DD-verdict, of MySQL with -mysql
    /// and of healthy loads alone with -healthy behind it; with --quick target/bench].
    #[arg(long)]
    out: Option<PathBuf>,
    /// Say the evidence of each making as it ends.
    #[arg(long)]
    evidence: bool,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

/// What came of one making.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Outcome {
    pub(super) made: Making,
    pub(super) strength: u32,
    /// The verdict in force when it ended.
    pub(super) named: Option<Name>,
    pub(super) text: String,
    pub(super) runner_up: Option<Name>,
    /// The evidence of what was named and of what came next, as figures.
    pub(super) evidence: Vec<String>,
    /// What was named before anything else; `None` where nothing was, or where that was not kept.
    #[serde(default)]
    pub(super) named_first: Option<Name>,
    /// How long until the right one was named first.
    pub(super) named_after_s: Option<f64>,
    /// Share of the seconds from then on in which it was in force.
    pub(super) kept: f64,
    /// Whether the verdict went within [`GONE_WITHIN`] of its cause.
    pub(super) gone: bool,
    /// CPU busy before it was made, 0 to 1.
    pub(super) busy_before: f64,
    /// Share of the CPUs that the host took away while it was made; `None` where that is not known.
    #[serde(default)]
    pub(super) steal: Option<f64>,
    /// How long it was made.
    #[serde(default)]
    pub(super) seconds: u64,
    /// What was in force at how many looks, one a second.
    #[serde(default)]
    pub(super) looks: BTreeMap<String, u32>,
    /// Gaps in what was read of the host and the servers while it was made.
    #[serde(default)]
    pub(super) gaps: u64,
}

impl Outcome {
    /// Whether what was made is what was named.
    fn is_right(&self) -> bool {
        self.named == self.made.expected()
    }
}

/// Everything a run found.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Run {
    pub(super) server: String,
    /// On what its parts were made, and with which headroom.
    #[serde(default)]
    pub(super) machines: Vec<String>,
    pub(super) seconds: u64,
    pub(super) outcomes: Vec<Outcome>,
    /// Point reads a second that the primary was found to carry: what "healthy" is a share of; 0 where that
    /// was not measured.
    pub(super) capacity: f64,
    /// What the disk was found to take when idle.
    pub(super) ceilings: Ceilings,
    /// CPUs and memory that watching took.
    pub(super) watching_cpu_share: f64,
    pub(super) watching_resident_bytes: u64,
    /// Rules that nothing was made for, and why.
    #[serde(default)]
    pub(super) not_made: Vec<NotMade>,
}

/// What became of a making.
enum Attempt {
    Made(Outcome),
    /// It could not be begun.
    NotMade(String),
}

/// Runs it.
pub(crate) async fn run(args: VerdictArgs) -> anyhow::Result<ExitCode> {
    let server = args.spec().server_program();
    let usual = if args.mysql { Flavour::MySql } else { Flavour::MariaDb };
    let place = Place::look(server.as_ref().map_or(usual, |(flavour, _)| *flavour));
    let makings = makings(&args, &place);
    let seconds: u64 = makings.iter().map(|(made, _)| whole(args.time(*made)).as_secs()).sum();
    let words = format!("{} makings, about {} min", makings.len(), seconds.div_ceil(60));
    let not_made = place.not_made(args.mysql);
    let missing: Vec<String> =
        not_made.iter().map(|one| format!("not made: {}: {}\n", one.rule.rule().called, one.why)).collect();
    if args.plan {
        let lines: String = makings.iter().map(|(made, strength)| format!("{made} {strength}\n")).collect();
        terminal::print(&format!("{lines}{}{words}\n", missing.concat()))?;
        return Ok(exit::DONE);
    }
    if makings.is_empty() {
        anyhow::bail!("nothing that was asked for can be made here:\n{}", missing.concat().trim_end());
    }
    let (flavour, server) = server?;
    if args.mysql && flavour != Flavour::MySql {
        anyhow::bail!("{server} is no MySQL: leave --mysql out, or name its program with --program");
    }
    let before = args.add_to.as_deref().map(kept).transpose()?;
    if let Some(before) = before.as_ref().filter(|before| before.server != server) {
        anyhow::bail!("the run to add to is of {}, not of {server}: make a run of its own", before.server);
    }
    let what = match (flavour, args.healthy) {
        (Flavour::MariaDb, false) => "verdict",
        (Flavour::MariaDb, true) => "verdict-healthy",
        (Flavour::MySql, false) => "verdict-mysql",
        (Flavour::MySql, true) => "verdict-mysql-healthy",
    };
    let directory = match &args.add_to {
        Some(_) => None,
        None => Some(Directory::new(args.out.as_deref(), what, args.quick)?),
    };
    terminal::complain(&words);
    missing.iter().for_each(|line| terminal::complain(line.trim_end()));
    let machine = machine::Machine::look(&[], LOOK_BEFORE).await?.line();
    let mut run = make(&args, makings, &place).await?;
    run.machines.push(machine);
    run.not_made.splice(0..0, not_made);
    if let Some(before) = before {
        run.outcomes.splice(0..0, before.outcomes);
        run.machines.splice(0..0, before.machines);
        run.machines.dedup();
        run.not_made.extend(before.not_made);
        if run.capacity == 0.0 {
            run.capacity = before.capacity;
        }
    }
    run.tidy();
    let path = match (directory, args.add_to) {
        (Some(directory), _) => directory.create()?,
        (None, path) => path.context("neither a new directory nor one to add to")?,
    };
    let text = table::markdown(&run, &machine::today());
    finish(&path, OUTCOMES, &run, &text, table::right(&run.outcomes) >= 0.9, args.json)
}

impl VerdictArgs {
    /// The servers of a lab, but for what its bed adds.
    fn spec(&self) -> Spec {
        let mut spec = Spec::new(&[("a", 1), ("b", 1)]).round_trip(fixture::NEAR, fixture::NEAR);
        spec.server.program = self.program.clone().or_else(|| self.mysql.then(|| MYSQL.into()));
        spec.server.durable = true;
        spec.server.buffer_pool_mib = POOL_MIB;
        spec.option("max_connections", &fixture::MAX_CONNECTIONS.to_string())
            .option("performance_schema", "ON")
            // A redo log must not be smaller than this.
            .option("innodb_log_buffer_size", "2097152")
            // MariaDB's own. MySQL's 10,000 is more than this disk does: pages are written as fast as it
            // takes them, and a healthy server's disk is full.
            .option("innodb_io_capacity", "200")
            .option("innodb_io_capacity_max", "2000")
    }

    /// How long something is made.
    fn time(&self, making: Making) -> Duration {
        let seconds = match (making.is_healthy(), self.healthy_seconds) {
            (true, Some(seconds)) => seconds,
            (true, None) if self.healthy => HEALTHY_S,
            _ => self.seconds,
        };
        Duration::from_secs(seconds).max(making.takes())
    }

    /// Whether it is one of those that the run is about.
    fn wants(&self, making: Making) -> bool {
        match (self.healthy, self.only.is_empty()) {
            (true, _) => making.is_healthy(),
            (false, false) => self.only.contains(&making),
            (false, true) => !self.mysql || making.is_of_the_server(),
        }
    }
}

impl Run {
    /// Of the rules that nothing was made for those are left that still have no outcome, each once.
    fn tidy(&mut self) {
        let made: Vec<Name> = self.outcomes.iter().filter_map(|outcome| outcome.made.expected()).collect();
        let mut seen = made;
        self.not_made.retain(|one| {
            let is_new = !seen.contains(&one.rule);
            seen.push(one.rule);
            is_new
        });
    }
}

/// A making with the window before it, in which the verdict of the last one goes.
fn whole(time: Duration) -> Duration {
    time + WINDOW + LOOK_BEFORE
}

/// What is made in which order: each time all of them, in an order drawn anew.
fn makings(args: &VerdictArgs, place: &Place) -> Vec<(Making, u32)> {
    let mut rng = StdRng::seed_from_u64(args.seed);
    let (times, strengths) = if args.quick { (1, vec![1]) } else { (args.times, args.strengths.clone()) };
    let mut all = Vec::new();
    for _ in 0..times {
        let mut block: Vec<(Making, u32)> = Making::every()
            .iter()
            .filter(|making| args.wants(**making) && place.obstacle(**making).is_none())
            .flat_map(|making| strengths.iter().map(|strength| (*making, *strength)))
            .collect();
        block.shuffle(&mut rng);
        all.extend(block);
    }
    all
}

fn kept(directory: &Path) -> anyhow::Result<Run> {
    let text = read_kept(directory, OUTCOMES)?;
    let path = directory.join(OUTCOMES);
    serde_json::from_str(&text).with_context(|| format!("{} is of another version", path.display()))
}

/// Makes everything on a disk of its own, one lab after the other.
async fn make(args: &VerdictArgs, makings: Vec<(Making, u32)>, place: &Place) -> anyhow::Result<Run> {
    let volume = Volume::make(&scratch(), USUAL_PER_S)?;
    let mut ceilings = unless_interrupted(volume.ceilings()).await?;
    // What a pair's driver says is no link's speed: this stands for what a probe measures of one.
    ceilings.network_bytes_per_s = Some(stream::LINK);
    let mut run = Run {
        server: String::new(),
        machines: Vec::new(),
        seconds: args.seconds,
        outcomes: Vec::new(),
        capacity: 0.0,
        ceilings,
        watching_cpu_share: 0.0,
        watching_resident_bytes: 0,
        not_made: Vec::new(),
    };
    for bed in Bed::ALL {
        let of_bed: Vec<(Making, u32)> =
            makings.iter().filter(|(made, _)| made.bed(place.flavour) == bed).copied().collect();
        if of_bed.is_empty() {
            continue;
        }
        if let Err(error) = on(bed, args, of_bed, place, &volume, &mut run).await {
            if run.outcomes.is_empty() {
                return Err(error);
            }
            terminal::complain(&format!("ended early, what was made until now is kept: {error:#}"));
            break;
        }
    }
    Ok(run)
}

/// Brings a lab up, makes there what belongs there, and takes it down.
async fn on(
    bed: Bed,
    args: &VerdictArgs,
    makings: Vec<(Making, u32)>,
    place: &Place,
    volume: &Volume,
    run: &mut Run,
) -> anyhow::Result<()> {
    let options = bed.options(place.flavour).iter();
    let mut spec = options.fold(args.spec(), |spec, (name, value)| spec.option(name, value));
    match place.flavour {
        // It tells who holds a lock on everything with this plugin only.
        Flavour::MariaDb if args.program.is_none() => {
            spec = spec.option("plugin_load_add", "metadata_lock_info");
        }
        Flavour::MariaDb => {}
        // With several, each has a part of the tables.
        Flavour::MySql => spec = spec.option("table_open_cache_instances", "1"),
    }
    let lab = unless_interrupted(async { Ok(Lab::up(&spec, volume.path()).await?) }).await?;
    let fixture = VerdictFixture::set(&lab, volume, WINDOW, bed);
    let fixture = unless_interrupted(fixture).await.context("preparing the tables")?;
    let watching = MonitorOptions {
        application: Some(fixture.timings()),
        ..MonitorOptions::against(run.ceilings.clone(), WINDOW)
    };
    let station = Monitor::start(Some(fleet(&lab)?), watching);
    let ended = unless_interrupted(all(args, makings, &fixture, &station, run)).await;
    let cost = station.views().borrow().cost;
    station.stop().await;
    run.server = lab.version();
    // Of several labs the usual one counts, which comes first.
    if run.watching_resident_bytes == 0 {
        (run.capacity, run.watching_cpu_share) = (fixture.capacity(), cost.cpu_share);
        run.watching_resident_bytes = cost.resident_bytes;
    }
    drop(fixture);
    lab.down().await?;
    ended
}

/// What was begun is dropped, and so undone, when a person asks for the end.
async fn unless_interrupted<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::select! {
        done = work => done,
        () = interrupted() => anyhow::bail!("interrupted"),
    }
}

async fn all(
    args: &VerdictArgs,
    makings: Vec<(Making, u32)>,
    fixture: &VerdictFixture<'_>,
    station: &Monitor,
    run: &mut Run,
) -> anyhow::Result<()> {
    let mut ended = Instant::now();
    for (made, strength) in makings {
        let outcome = match one(fixture, station, (made, strength), args.time(made), &mut ended).await? {
            Attempt::Made(outcome) => outcome,
            Attempt::NotMade(why) => {
                terminal::complain(&format!("NOT MADE: {made} at strength {strength}: {why}"));
                run.not_made.extend(made.expected().map(|rule| NotMade { rule, why }));
                continue;
            }
        };
        let after = outcome.named_after_s.map_or(String::new(), |s| format!(", after {s:.0} s"));
        let right = if outcome.is_right() { "right" } else { "WRONG" };
        terminal::complain(&format!("{right}: {made} at strength {strength}: {}{after}", outcome.text));
        if args.evidence {
            outcome.evidence.iter().for_each(|line| terminal::complain(&format!("    {line}")));
        }
        run.outcomes.push(outcome);
    }
    Ok(())
}

/// `ended` is when the last making ended, and then when this one did.
async fn one(
    fixture: &VerdictFixture<'_>,
    station: &Monitor,
    (made, strength): (Making, u32),
    time: Duration,
    ended: &mut Instant,
) -> anyhow::Result<Attempt> {
    let mut views = station.views();
    let server = fixture.name(made.server());
    // What an end of another kind brings with it (a replica that catches up, a log that is made anew) is not
    // what this making is named first.
    let calm = |view: &std::sync::Arc<WatchView>| named(view, &server).is_none();
    let _ = tokio::time::timeout(GONE_WITHIN, views.wait_for(calm)).await;
    // A window before, in which nothing of the last making is; much of it may have passed while its verdict
    // went.
    let rest = WINDOW.saturating_sub(ended.elapsed()).max(LOOK_BEFORE);
    let rest = match fixture.prepare(made).await {
        Ok(false) => rest,
        Ok(true) => rest.max(SETTINGS_SEEN),
        Err(error) => return not_made(fixture, made, &error, ended).await,
    };
    let before = machine::cpu_times();
    tokio::time::sleep(rest).await;
    let busy_before = machine::busy(before, machine::cpu_times());
    let gaps_before = views.borrow().gaps;
    let (began, stolen) = (Instant::now(), machine::stolen_times());
    let making = match fixture.make(made, strength, time).await {
        Ok(making) => making,
        Err(error) => return not_made(fixture, made, &error, ended).await,
    };
    let (mut named_first, mut named_after_s, mut since, mut kept) = (None, None, 0u32, 0u32);
    let mut looks: BTreeMap<String, u32> = BTreeMap::new();
    let mut last = None;
    while began.elapsed() < time {
        let left = time.saturating_sub(began.elapsed());
        if tokio::time::timeout(left, views.changed()).await.is_err() {
            break;
        }
        let view = views.borrow_and_update().clone();
        let now = named(&view, &server);
        *looks.entry(table::called(now).to_owned()).or_default() += 1;
        named_first = named_first.or(now);
        let right = now == made.expected();
        if right && named_after_s.is_none() && made.expected().is_some() {
            named_after_s = Some(began.elapsed().as_secs_f64());
        }
        if named_after_s.is_some() || made.expected().is_none() {
            since += 1;
            kept += u32::from(right);
        }
        last = Some(view);
    }
    let steal = stolen.zip(machine::stolen_times()).map(|(before, after)| machine::busy(before, after));
    making.end().await?;
    fixture.tidy(made).await?;
    *ended = Instant::now();
    let last = last.context("nothing was judged")?;
    let seen = last.servers.iter().find(|s| s.name == server);
    let gone = gone(&mut views, &server, made).await;
    Ok(Attempt::Made(Outcome {
        made,
        strength,
        named: named(&last, &server),
        text: seen.map_or("not seen".to_owned(), |s| s.verdict.text.clone()),
        runner_up: seen.and_then(|s| s.verdict.runner_up.as_ref()).map(|next| next.name),
        evidence: seen.map(|seen| evidence(&seen.verdict)).unwrap_or_default(),
        named_first,
        named_after_s,
        kept: if since > 0 { f64::from(kept) / f64::from(since) } else { 0.0 },
        gone,
        busy_before,
        steal,
        seconds: time.as_secs(),
        looks,
        gaps: last.gaps - gaps_before,
    }))
}

/// Undoes the half of it that was begun.
async fn not_made(
    fixture: &VerdictFixture<'_>,
    made: Making,
    why: &anyhow::Error,
    ended: &mut Instant,
) -> anyhow::Result<Attempt> {
    fixture.tidy(made).await?;
    *ended = Instant::now();
    Ok(Attempt::NotMade(format!("{why:#}")))
}

async fn gone(
    views: &mut tokio::sync::watch::Receiver<std::sync::Arc<WatchView>>,
    server: &str,
    made: Making,
) -> bool {
    let Some(expected) = made.expected() else { return true };
    let holds = |view: &std::sync::Arc<WatchView>| named(view, server) != Some(expected);
    tokio::time::timeout(GONE_WITHIN, views.wait_for(holds)).await.is_ok_and(|seen| seen.is_ok())
}

fn named(view: &WatchView, server: &str) -> Option<Name> {
    let seen = view.servers.iter().find(|s| s.name == server)?;
    seen.verdict.bottleneck.as_ref().map(|bottleneck| bottleneck.name)
}

/// What was named, what came next, and all of their figures.
fn evidence(verdict: &VerdictView) -> Vec<String> {
    let all = [("named", &verdict.bottleneck), ("next", &verdict.runner_up)];
    let lines =
        all.into_iter().filter_map(|(place, one)| Some((place, one.as_ref()?))).flat_map(|(place, one)| {
            let head = format!("{place}: {}, load {:.2}, weight {:.2}", one.called, one.load, one.weight);
            let figures = one.evidence.iter().map(|figure| {
                let from = figure
                    .threshold
                    .map_or(String::new(), |t| format!(" (counts from {})", words(t, figure.unit)));
                format!("  {}: {}{from}", figure.what, words(figure.value, figure.unit))
            });
            std::iter::once(head).chain(figures)
        });
    lines.collect()
}

/// Both servers of the lab: the primary at its own address, the replica as it is seen from the primary's
/// zone.
fn fleet(lab: &Lab) -> anyhow::Result<FleetConfig> {
    let address = |at: SocketAddrV4| Address::tcp(at.ip().to_string(), at.port());
    let (a1, b1) = (lab.real("a1")?, lab.real("b1")?);
    let zone = |(at, zone): (usize, &fleet::Zone)| {
        let net = format!("127.{}.0.0/16", at + 1).parse().ok()?;
        Some(ZoneRule { zone: zone.clone(), members: vec![Matcher::Net(net)], demand: None })
    };
    Ok(FleetConfig {
        seeds: vec![address(a1)],
        address_map: vec![(address(b1), address(lab.reach("a", "b1")?))],
        credentials: Credentials {
            user: Some(Account::Headroom.user().to_owned()),
            password: Some(lab.password(Account::Headroom).to_owned()),
            ..Credentials::default()
        },
        zones: lab.zones().iter().enumerate().filter_map(zone).collect(),
        own_zone: lab.zones().first().map_or(OwnZone::Auto, |zone| OwnZone::Named(zone.clone())),
        ..FleetConfig::default()
    })
}
