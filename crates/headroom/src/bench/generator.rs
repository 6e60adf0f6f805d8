//! `headroom bench load`: headroom's load generator beside sysbench, on the same server in the same run.
//!
//! | case | what it shows |
//! |---|---|
//! | point selects and read-write at 16 clients, closed loop | the same QPS, at what CPU of the client |
//! | the null server, the client pinned to one core | how much one core can send at most |
//! | the null server in an open loop, about a quarter of that | the generator's own part of a latency |
//!
//! CPU is that of the whole client process from its start to its end, read from `/proc` when it has ended and before it
//! is reaped: its start and the logins are on the bill, alike for both.

mod table;

use super::server::Server;
use super::statistics::{Ratio, median};
use super::{output, process, sysbench};
use crate::child::Program;
use crate::interrupted::interrupted;
use crate::machine::Machine;
use crate::{exit, terminal};
use anyhow::{Context, anyhow, bail};
use clap::Args;
use lab::null::{NullServer, Service};
use rand::SeedableRng;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use serde::Serialize;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use tokio::io::AsyncReadExt;

const GRACE: Duration = Duration::from_secs(45);
const QUIET_LOOK: Duration = Duration::from_secs(2);
/// The generator's own latency is looked at with this share of what one core can send.
const OWN_LATENCY_SHARE: f64 = 0.25;

/// Flags of `headroom bench load`.
#[derive(Args, Clone, Debug)]
pub(crate) struct GeneratorArgs {
    /// How often everything is measured; ratios are taken within a round.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Seconds of each load.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=600))]
    seconds: u32,
    /// Rows of the table.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    rows: u32,
    /// One round of 2 s, to see that everything works.
    #[arg(long)]
    quick: bool,
    /// From which the order is drawn.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where the run's files go [default: benchmarks/runs/YYYY-MM-DD-load, with --quick target/bench].
    #[arg(long)]
    out: Option<PathBuf>,
    /// Print everything as JSON instead of a table.
    #[arg(long)]
    json: bool,
}

/// Who sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
enum Tool {
    Sysbench,
    Headroom,
}

/// What is sent, and to whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Case {
    /// 16 clients, prepared.
    PointSelects,
    /// 16 clients, text.
    PointSelectsText,
    /// 16 clients, prepared.
    ReadWrite,
    /// 16 clients on one core, text, the null server.
    OneCore,
}

const CASES: [Case; 4] = [Case::PointSelects, Case::PointSelectsText, Case::ReadWrite, Case::OneCore];
const CLIENTS: u32 = 16;

/// One load.
#[derive(Clone, Debug, Serialize)]
struct Sample {
    round: u32,
    case: Case,
    tool: Tool,
    qps: f64,
    /// CPU of the client process, microseconds a query.
    client_cpu_us: f64,
    /// CPU of the server process, microseconds a query; none for the null server.
    server_cpu_us: Option<f64>,
    p50_ms: f64,
    p99_ms: f64,
}

/// The generator's own part of a latency, at the null server.
#[derive(Clone, Debug, Serialize)]
struct OwnLatency {
    rate: f64,
    cpu_share: f64,
    p50_ms: f64,
    p99_ms: f64,
    lateness_p99_ms: f64,
}

/// Both tools in one case, over the rounds.
#[derive(Clone, Debug, Serialize)]
struct Row {
    case: Case,
    sysbench_qps: f64,
    headroom_qps: f64,
    qps: Option<Ratio>,
    client_cpu: Option<Ratio>,
    sysbench_cpu_us: f64,
    headroom_cpu_us: f64,
    p99: Option<Ratio>,
}

/// All that is kept of a run.
#[derive(Clone, Debug, Serialize)]
struct Report {
    date: String,
    machine: Machine,
    warnings: Vec<String>,
    rounds: u32,
    seconds: u32,
    rows: Vec<Row>,
    own_latency: Vec<OwnLatency>,
    samples: Vec<Sample>,
}

/// Measures, writes the run's directory, prints the table.
pub(crate) async fn run(mut args: GeneratorArgs) -> anyhow::Result<ExitCode> {
    if args.quick {
        (args.rounds, args.seconds) = (1, 2);
    }
    let tools = [find("sysbench")?, find("taskset")?];
    let directory = output::Directory::new(args.out.as_deref(), "load", args.quick)?;
    let cells = args.rounds * (2 * CASES.len() as u32 + 1);
    let minutes = f64::from(cells * (args.seconds + 1)) / 60.0;
    terminal::complain(&format!(
        "{cells} loads of {} s, about {minutes:.0} min. Result: {}",
        args.seconds,
        directory.path().display()
    ));
    let mut machine = Machine::look(&[("sysbench", tools[0].as_path())], QUIET_LOOK).await?;
    let server = Server::up(&output::scratch(), 100).await?;
    machine.programs.push(("server".to_owned(), server.version.clone()));
    let measured = tokio::select! {
        measured = measure(&args, &tools, &server) => measured,
        () = interrupted() => Err(anyhow!("interrupted: everything that was started is stopped")),
    };
    server.down().await?;
    let (samples, own_latency) = measured?;
    let report = Report {
        date: directory.date().to_owned(),
        warnings: warnings(&machine, &args),
        machine,
        rounds: args.rounds,
        seconds: args.seconds,
        rows: CASES.iter().filter_map(|case| Row::of(*case, &samples)).collect(),
        own_latency,
        samples,
    };
    let path = directory.create()?;
    std::fs::write(path.join("samples.json"), serde_json::to_string_pretty(&report)? + "\n")?;
    let text = table::markdown(&report);
    std::fs::write(path.join("summary.md"), &text)?;
    if args.json {
        terminal::print_json(&report)?;
    } else {
        terminal::print(&text)?;
    }
    Ok(exit::DONE)
}

async fn measure(
    args: &GeneratorArgs,
    tools: &[PathBuf; 2],
    server: &Server,
) -> anyhow::Result<(Vec<Sample>, Vec<OwnLatency>)> {
    let log = server.directory().join("bench.log");
    let prepare = sysbench::prepare(server.address, args.rows);
    Program::start("sysbench", &tools[0], &prepare, &log)?.finish(GRACE).await?;
    let null = NullServer::start(Service::Immediate)?;
    let site = Site { args, tools, server, null: null.address(), log };
    let mut rng = SmallRng::seed_from_u64(args.seed);
    let (mut samples, mut own) = (Vec::new(), Vec::new());
    for round in 1..=args.rounds {
        let mut cells: Vec<(Case, Tool)> =
            CASES.iter().flat_map(|case| [(*case, Tool::Sysbench), (*case, Tool::Headroom)]).collect();
        cells.shuffle(&mut rng);
        for (case, tool) in cells {
            let sample = site.sample(round, case, tool).await?;
            terminal::complain(&table::line(&sample));
            samples.push(sample);
        }
        let most = samples.iter().rev().find(|s| s.case == Case::OneCore && s.tool == Tool::Headroom);
        if let Some(most) = most {
            own.push(site.own_latency(most.qps * OWN_LATENCY_SHARE).await?);
        }
    }
    Ok((samples, own))
}

/// Where and with what everything is measured.
struct Site<'a> {
    args: &'a GeneratorArgs,
    tools: &'a [PathBuf; 2],
    server: &'a Server,
    null: SocketAddr,
    log: PathBuf,
}

impl Site<'_> {
    async fn sample(&self, round: u32, case: Case, tool: Tool) -> anyhow::Result<Sample> {
        let arguments = match tool {
            Tool::Sysbench => self.sysbench(case),
            Tool::Headroom => self.headroom(case, &[]),
        };
        let program = match tool {
            Tool::Sysbench => self.tools[0].clone(),
            Tool::Headroom => std::env::current_exe().context("finding our own program")?,
        };
        let before = process::cpu(self.server.pid)?;
        let (text, client) = self.client(program, arguments, case == Case::OneCore).await?;
        let server = process::cpu(self.server.pid)?.saturating_sub(before);
        let (queries, qps, p50_ms, p99_ms) = match tool {
            Tool::Sysbench => {
                let found = sysbench::parse(&text)?;
                (found.queries, found.qps, found.p50_ms, found.p99_ms)
            }
            Tool::Headroom => {
                let found = outcome(&text)?;
                let number = |pointer: &str| figure(&found, pointer);
                let failed = number("/totals/failed")?;
                if failed > 0.0 {
                    bail!("{failed} transactions failed during the load; none are allowed");
                }
                (
                    number("/totals/queries")? as u64,
                    number("/totals/queries_per_second")?,
                    number("/response/p50_ms")?,
                    number("/response/p99_ms")?,
                )
            }
        };
        let each = |time: Duration| time.as_secs_f64() * 1e6 / queries.max(1) as f64;
        let server_cpu_us = (case != Case::OneCore).then(|| each(server));
        Ok(Sample { round, case, tool, qps, client_cpu_us: each(client), server_cpu_us, p50_ms, p99_ms })
    }

    async fn own_latency(&self, rate: f64) -> anyhow::Result<OwnLatency> {
        let rate = rate.round().max(100.0);
        let open = ["--rate".to_owned(), rate.to_string()];
        let program = std::env::current_exe().context("finding our own program")?;
        let (text, _) = self.client(program, self.headroom(Case::OneCore, &open), false).await?;
        let found = outcome(&text)?;
        Ok(OwnLatency {
            rate,
            cpu_share: figure(&found, "/generator/cpu_share")?,
            p50_ms: figure(&found, "/response/p50_ms")?,
            p99_ms: figure(&found, "/response/p99_ms")?,
            lateness_p99_ms: figure(&found, "/generator/lateness/p99_ms")?,
        })
    }

    fn sysbench(&self, case: Case) -> Vec<String> {
        let (target, script) = self.target(case);
        let mut arguments = sysbench::run(target, self.args.rows, CLIENTS, self.args.seconds);
        script.clone_into(&mut arguments[0]);
        if matches!(case, Case::PointSelects | Case::ReadWrite) {
            arguments.retain(|argument| argument != "--db-ps-mode=disable");
        }
        arguments
    }

    fn headroom(&self, case: Case, more: &[String]) -> Vec<String> {
        let (target, workload) = self.target(case);
        let mut arguments: Vec<String> =
            ["load", "run", workload, "--json", "--no-store", "--distribution", "uniform"]
                .iter()
                .map(|word| (*word).to_owned())
                .collect();
        for (flag, value) in [
            ("--server", target.to_string()),
            ("--user", sysbench::ACCOUNT.to_owned()),
            ("--database", sysbench::DATABASE.to_owned()),
            ("--table-size", self.args.rows.to_string()),
            ("--clients", CLIENTS.to_string()),
            ("--time", format!("{}s", self.args.seconds)),
            // sysbench has no warm-up either.
            ("--warm-up", "0s".to_owned()),
        ] {
            arguments.extend([flag.to_owned(), value]);
        }
        if matches!(case, Case::PointSelectsText | Case::OneCore) {
            arguments.push("--text".to_owned());
        }
        arguments.extend_from_slice(more);
        arguments
    }

    fn target(&self, case: Case) -> (SocketAddr, &'static str) {
        match case {
            Case::PointSelects | Case::PointSelectsText => (self.server.address, "oltp_point_select"),
            Case::ReadWrite => (self.server.address, "oltp_read_write"),
            Case::OneCore => (self.null, "oltp_point_select"),
        }
    }

    /// Runs a client to its end: what it said, and its CPU time.
    async fn client(
        &self,
        program: PathBuf,
        arguments: Vec<String>,
        pinned: bool,
    ) -> anyhow::Result<(String, Duration)> {
        let (program, arguments) = if pinned {
            let mut all = vec!["-c".to_owned(), "0".to_owned(), program.display().to_string()];
            all.extend(arguments);
            (self.tools[1].clone(), all)
        } else {
            (program, arguments)
        };
        let started = Program::start_with_output("the client", &program, &arguments, &self.log);
        let (mut client, mut output) = started?;
        let pid = client.pid()?;
        let mut text = String::new();
        let deadline = Duration::from_secs(u64::from(self.args.seconds)) + GRACE;
        let ended = tokio::time::timeout(deadline, async {
            output.read_to_string(&mut text).await?;
            while !is_over(pid) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            process::cpu(pid)
        });
        let cpu = ended.await.with_context(|| format!("the load did not end within {deadline:?}"))??;
        // What it said is looked at; exit code 1 is headroom's word that its figures are its own limit, as asked here.
        let finished = client.finish(GRACE).await;
        if text.trim().is_empty() {
            finished?;
        }
        Ok((text, cpu))
    }
}

impl Row {
    fn of(case: Case, samples: &[Sample]) -> Option<Self> {
        let of = |tool: Tool| samples.iter().filter(move |s| s.case == case && s.tool == tool);
        let middle = |tool: Tool, value: fn(&Sample) -> f64| median(&of(tool).map(value).collect::<Vec<_>>());
        let ratio = |value: fn(&Sample) -> f64| {
            let pair = |ours: &Sample| {
                let theirs = of(Tool::Sysbench).find(|theirs| theirs.round == ours.round)?;
                Some((value(ours), value(theirs)))
            };
            Ratio::of(&of(Tool::Headroom).filter_map(pair).collect::<Vec<_>>())
        };
        Some(Self {
            case,
            sysbench_qps: middle(Tool::Sysbench, |s| s.qps)?,
            headroom_qps: middle(Tool::Headroom, |s| s.qps)?,
            qps: ratio(|s| s.qps),
            client_cpu: ratio(|s| s.client_cpu_us),
            sysbench_cpu_us: middle(Tool::Sysbench, |s| s.client_cpu_us)?,
            headroom_cpu_us: middle(Tool::Headroom, |s| s.client_cpu_us)?,
            p99: ratio(|s| s.p99_ms),
        })
    }
}

fn warnings(machine: &Machine, args: &GeneratorArgs) -> Vec<String> {
    let mut warnings = Vec::new();
    if cfg!(debug_assertions) {
        warnings.push("headroom is a DEBUG build: its figures mean nothing; use make bench-load".to_owned());
    }
    if machine.was_busy() {
        warnings.push(format!(
            "others used {:.0} % of the CPU before the run: repeat it on a quiet machine",
            machine.busy_before * 100.0
        ));
    }
    if args.rounds < 3 || args.seconds < 5 {
        warnings.push("a smoke run: it shows that everything works, not how fast".to_owned());
    }
    warnings
}

fn outcome(text: &str) -> anyhow::Result<serde_json::Value> {
    serde_json::from_str(text).context("headroom's JSON cannot be read")
}

fn figure(found: &serde_json::Value, pointer: &str) -> anyhow::Result<f64> {
    found.pointer(pointer).and_then(serde_json::Value::as_f64).with_context(|| format!("no {pointer}"))
}

/// Whether a process has ended and waits to be reaped.
fn is_over(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_none_or(|(_, rest)| rest.trim_start().starts_with('Z'))
}

fn find(name: &str) -> anyhow::Result<PathBuf> {
    let directories = ["/usr/local/bin", "/usr/bin", "/bin"];
    let found = directories.iter().map(|d| Path::new(d).join(name)).find(|path| path.is_file());
    found.with_context(|| format!("{name} is missing; run scripts/install.sh bench"))
}
