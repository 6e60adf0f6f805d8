//! `headroom-bench replay`: is what is replayed what was recorded? The demo's application through a router,
//! recorded, sent again at its own pace to another lab with the same rows, and counted four times: by the
//! router's insight, in the recording, by the replay, and in the target server's general log.

mod target;

use super::output::{Directory, finish, scratch};
use super::report::section::section;
use crate::binary;
use anyhow::{Context, anyhow, bail};
use clap::Args;
use console::admin_client::AdminClient;
use console::insight_view::{By, Question, Sort};
use fleet::Address;
use insight::Since;
use lab::app::{self, App, AppSpec, DataSize, Rates};
use lab::process::{self, Process};
use lab::{Account, Lab, RouterOptions, Spec};
use load::replay::compare::{self, ReplayView};
use load::replay::{self, ReplayPlan, ScriptOptions, replay};
use probe::machine;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use term::{interrupted, terminal};

/// Rows of the demo.
const DATA: DataSize = DataSize { accounts: 10_000, items: 50_000 };
/// What the demo's three zones ask for together.
const RATES: Rates = Rates { timeline: 7.5, orders: 7.5, profile: 15.0 };
const READERS: usize = 60;
const WRITERS: usize = 6;
const LIMIT: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(50);
/// Before the first request and after the last one, so that all of them are recorded.
const MARGIN: Duration = Duration::from_secs(5);
/// Labs, routers and rows take this long beside the traffic, usually and at most.
const USUAL_BESIDE: Duration = Duration::from_secs(30);
const MOST_BESIDE: Duration = Duration::from_secs(240);
/// Arrivals within this at p99 is what is asked.
const ASKED_LATE_MS: f64 = 1.0;

/// Flags of `headroom-bench replay`.
#[derive(Args, Clone, Debug)]
pub(crate) struct ReplayBenchArgs {
    /// Seconds of traffic.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// Where the run's files go [default: benchmarks/runs/replay/YYYY-MM-DD-replay].
    #[arg(long)]
    out: Option<PathBuf>,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

/// What came of it.
#[derive(Clone, Debug, Serialize)]
struct Run {
    machine: machine::Machine,
    server: String,
    seconds: u64,
    lost_while_recording: u64,
    /// Every statement digest, with its four counts.
    digests: Vec<Counted>,
    /// Digests whose four figures are not the same.
    differing: usize,
    late_p50_ms: f64,
    late_p99_ms: f64,
    late_max_ms: f64,
    own_late_p99_ms: f64,
    replay: ReplayView,
}

/// A digest's count at each place.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
struct Counted {
    digest: String,
    router: u64,
    recording: u64,
    replay: u64,
    target: u64,
}

/// Runs it.
pub(crate) async fn run(args: ReplayBenchArgs) -> anyhow::Result<ExitCode> {
    let directory = Directory::new(args.out.as_deref(), "replay", false)?;
    let seconds = Duration::from_secs(2 * args.seconds) + 2 * MARGIN;
    terminal::complain(&format!(
        "{} s recorded, then sent again: about {:.1} min, at most {:.0}. Result: {}",
        args.seconds,
        (seconds + USUAL_BESIDE).as_secs_f64() / 60.0,
        (seconds + MOST_BESIDE).as_secs_f64() / 60.0,
        directory.path().display()
    ));
    let file = scratch().join("bench.hrec");
    lab::make_base(&scratch())?;
    let outcome = tokio::select! {
        outcome = measure(&args, &file) => outcome,
        () = tokio::time::sleep(seconds + MOST_BESIDE) => {
            Err(anyhow!("not over after {:.0} min: given up", (seconds + MOST_BESIDE).as_secs_f64() / 60.0))
        }
        () = interrupted() => Err(anyhow!("interrupted")),
    };
    // It holds literals, if only of the lab.
    let _ = std::fs::remove_file(&file);
    let run = outcome?;
    let text = run.text(directory.date());
    let met = run.differing == 0 && run.late_p99_ms <= ASKED_LATE_MS && run.lost_while_recording == 0;
    finish(&directory.create()?, "replay.json", &run, &text, met, args.json)
}

async fn measure(args: &ReplayBenchArgs, file: &Path) -> anyhow::Result<Run> {
    let machine = machine::Machine::look(&[], Duration::from_secs(1)).await?;
    let router = record(args.seconds, file).await?;
    terminal::complain("recorded; a second lab gets the same rows, and then the same traffic");
    let lab = Lab::up(&Spec::new(&[("a", 1)]), &scratch()).await?;
    let replayed = send(&lab, file).await;
    let server = lab.version();
    lab.down().await?;
    let (view, target) = replayed?;
    let mut digests: BTreeMap<String, Counted> = BTreeMap::new();
    let mut count = |digest: &str, add: &dyn Fn(&mut Counted)| {
        // Commands that are no statements have no digest at a server.
        if !digest.starts_with("COM_") {
            add(digests.entry(digest.to_owned()).or_default());
        }
    };
    router.iter().for_each(|(digest, n)| count(digest, &|counted| counted.router = *n));
    for group in &view.groups {
        let answered = group.replayed.iter().map(|side| side.answered).sum();
        count(&group.name, &|counted| (counted.recording, counted.replay) = (group.commands, answered));
    }
    let mut digests: Vec<Counted> =
        digests.into_iter().map(|(digest, counted)| Counted { digest, ..counted }).collect();
    for counted in &mut digests {
        counted.target = target.get(&counted.digest).copied().unwrap_or(0);
    }
    let differs = |c: &&Counted| c.router != c.recording || c.recording != c.replay || c.replay != c.target;
    let run = view.runs.first().cloned().context("there was one target")?;
    Ok(Run {
        machine,
        server,
        seconds: args.seconds,
        lost_while_recording: view.lost_while_recording,
        differing: digests.iter().filter(differs).count(),
        digests,
        late_p50_ms: run.late_p50_ms,
        late_p99_ms: run.late_p99_ms,
        late_max_ms: run.late_max_ms,
        own_late_p99_ms: run.own_late_p99_ms,
        replay: view,
    })
}

/// Traffic through a router, recorded. Returns what the router's insight counted, by digest.
async fn record(seconds: u64, file: &Path) -> anyhow::Result<BTreeMap<String, u64>> {
    let lab = Lab::up(&Spec::new(&[("a", 2)]), &scratch()).await?;
    let counted = recorded(&lab, seconds, file).await;
    lab.down().await?;
    counted
}

async fn recorded(lab: &Lab, seconds: u64, file: &Path) -> anyhow::Result<BTreeMap<String, u64>> {
    load_rows(lab, &["a1", "a2"]).await?;
    let status = lab.status().await;
    let addresses = status.router_addresses("a")?;
    let options = RouterOptions { zero_hop: Some("off"), threads: Some(1), ..RouterOptions::default() };
    let config = lab.dir().join("router.toml");
    std::fs::write(&config, status.router_config("a", &options)?)?;
    let binary = binary::headroom()?;
    let arguments = ["route", "--config", &config.display().to_string()].map(str::to_owned);
    let router = Process::start("headroom route", &binary, &arguments, &lab.dir().join("router.log"))?;
    let admin = addresses.admin.to_string();
    let client = AdminClient::new(Some(&admin));
    until(&client, "the router to know both servers", |status| {
        let reads =
            |s: &console::status_view::ServerView| s.routing.as_ref().is_some_and(|r| r.reads.eligible);
        status.fleet.writer.is_some() && status.fleet.servers.iter().any(reads)
    })
    .await?;
    let time = format!("{}s", seconds + 2 * MARGIN.as_secs());
    let mut recorder = process::command(&binary);
    let out = file.display().to_string();
    recorder.args(["record", "--router", &admin, "--for", &time, "--force", "--out", &out]);
    let mut recorder = recorder.stdout(Stdio::null()).spawn().context("starting headroom record")?;
    until(&client, "the recording to begin", |status| status.recording.is_some()).await?;
    let address = |at: std::net::SocketAddrV4| Address::tcp(at.ip().to_string(), at.port());
    let app = App::open(AppSpec {
        zone: "a".into(),
        readers: vec![address(addresses.reader)],
        writer: address(addresses.writer),
        reader_sessions: READERS,
        writer_sessions: WRITERS,
        order: lab::app::PoolOrder::default(),
        password: lab.password(Account::App).to_owned(),
        statement_deadline: LIMIT,
        connect_deadline: LIMIT,
        data: DATA,
        epoch: Instant::now(),
    })
    .await
    .map_err(|failure| anyhow!("the application could not open its sessions: {}", failure.said))?;
    let traffic = app.begin(RATES, 1);
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    traffic.stop().await;
    app.close().await;
    let ended = recorder.wait().await?;
    if !ended.success() {
        bail!("headroom record ended with {ended}");
    }
    let question = Question {
        by: By::Digest,
        sort: Some(Sort::Count),
        since: Since::Start,
        limit: 10_000,
        digest: None,
        endpoint: None,
        server: None,
    };
    let rows = client.insight(&question).await?.rows;
    router.stop().await?;
    Ok(rows.into_iter().map(|row| (row.name, row.figures.count)).collect())
}

/// Sends the recording to a fresh lab; returns what came of it, and what its server counted.
async fn send(lab: &Lab, file: &Path) -> anyhow::Result<(ReplayView, BTreeMap<String, u64>)> {
    load_rows(lab, &["a1"]).await?;
    let log = target::Log::begin(lab, "a1").await?;
    let (script, groups) = replay::open(file, None, ScriptOptions { read_only: false, memory: 1 << 30 })?;
    let at = lab.real("a1")?;
    let plan = ReplayPlan {
        target: Address::tcp(at.ip().to_string(), at.port()),
        tls: None,
        account: load::Account {
            user: Account::App.user().to_owned(),
            password: lab.password(Account::App).to_owned(),
            database: String::new(),
        },
        speed: 1.0,
        read_only: false,
        threads: 1,
        grace: LIMIT,
    };
    let view = tokio::task::spawn_blocking(move || -> anyhow::Result<ReplayView> {
        let replayed = replay(&script, &plan, &AtomicBool::new(false), |_| {})?;
        Ok(compare::view(&script, &groups, 1.0, &[(plan.target.to_string(), replayed)]))
    })
    .await??;
    Ok((view, log.end().await?))
}

async fn load_rows(lab: &Lab, servers: &[&str]) -> anyhow::Result<()> {
    app::load(&mut lab.connect("a1").await?, DATA).await.context("loading the tables")?;
    let deadline = Instant::now() + LIMIT;
    for server in servers {
        let mut session = lab.connect(server).await?;
        while !app::is_ready(&mut session).await? {
            if Instant::now() > deadline {
                bail!("the rows did not reach {server} within {} s", LIMIT.as_secs());
            }
            tokio::time::sleep(POLL).await;
        }
    }
    Ok(())
}

async fn until(
    client: &AdminClient,
    what: &str,
    so: impl Fn(&console::status_view::StatusView) -> bool,
) -> anyhow::Result<()> {
    let deadline = Instant::now() + LIMIT;
    loop {
        if client.status().await.is_ok_and(|status| so(&status)) {
            return Ok(());
        }
        if Instant::now() > deadline {
            bail!("waited {} s for {what}", LIMIT.as_secs());
        }
        tokio::time::sleep(POLL).await;
    }
}

impl Run {
    fn text(&self, date: &str) -> String {
        let machine::Machine { cpu, cores, kernel, busy_before, .. } = &self.machine;
        let machine =
            format!("{cpu}, {cores} cores, Linux {kernel}, {:.0} % busy before", busy_before * 100.0);
        let mut text = format!(
            "# Recorded and replayed, {date}\n\n{} s of the demo's application through a router, sent again at 1x to {} with the \
             same rows. {}\n\n",
            self.seconds, self.server, machine
        );
        let verdict = |met: bool| if met { "met" } else { "**not met**" };
        let same = format!("{} of {} digests differ", self.differing, self.digests.len());
        let late = format!(
            "{:.3} ms at p99 ({:.3} at p50, {:.3} at most; our own part {:.3} at p99)",
            self.late_p99_ms, self.late_p50_ms, self.late_max_ms, self.own_late_p99_ms
        );
        let asked = [
            ["the same statements per digest", &same, verdict(self.differing == 0)],
            ["arrivals within 1 ms at p99", &late, verdict(self.late_p99_ms <= ASKED_LATE_MS)],
        ];
        let rows = asked.iter().map(|row| row.map(str::to_owned).to_vec());
        text += &section("Asked and measured", &["asked", "measured", "met"], rows);
        let rows = self.digests.iter().map(|c| {
            let counts = [c.router, c.recording, c.replay, c.target].map(|n| n.to_string());
            counts.into_iter().chain([c.digest.clone()]).collect()
        });
        let head = [">router", ">recording", ">replay", ">target's log", "digest"];
        text += &section("Statements per digest", &head, rows);
        text
    }
}
