//! `headroom-bench agent`: what the agent costs at one-second samples beside a server with a thousand tables,
//! and what node_exporter and mysqld_exporter cost there, scraped once a second. One server, the two in turn
//! (A B A B ...), each started afresh, scraped by the same client. CPU is user and system time of their
//! processes over the measured time, as a share of one core; memory is the most that was resident.

mod fixture;
mod report;

use super::output::{Directory, finish};
use super::process;
use anyhow::{Context, bail};
use clap::Args;
use fixture::{AgentFixture, Subject, Watching};
use probe::Machine;
use report::{Run, Trial};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use term::{interrupted, terminal};

/// Between two scrapes, and between two looks at memory.
const EVERY: Duration = Duration::from_secs(1);

/// Flags of `headroom-bench agent`.
#[derive(Args, Clone, Debug)]
pub(crate) struct AgentBenchArgs {
    /// How often both are measured; ratios are taken within a round.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Seconds of each measurement.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u32).range(5..=3600))]
    seconds: u32,
    /// Seconds before each that do not count.
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u32).range(1..=600))]
    warm_up: u32,
    /// Tables of the server.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    tables: u32,
    /// Statements a second that the server is asked meanwhile.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rate: u32,
    /// The first of three ports on 127.0.0.1 that are taken for the run.
    #[arg(long, default_value_t = 23_340, value_parser = clap::value_parser!(u16).range(1024..=32_000))]
    port: u16,
    /// A smoke run of half a minute, to see that everything works; its figures mean nothing.
    #[arg(long)]
    quick: bool,
    /// Where the run's files go [default: benchmarks/runs/agent/YYYY-MM-DD-agent, with --quick target/bench].
    #[arg(long)]
    out: Option<PathBuf>,
    /// Print everything as JSON instead of tables.
    #[arg(long)]
    json: bool,
}

/// Runs it.
pub(crate) async fn run(mut args: AgentBenchArgs) -> anyhow::Result<ExitCode> {
    if args.quick {
        (args.rounds, args.seconds, args.warm_up, args.tables) = (1, 5, 3, args.tables.min(50));
    }
    let exporters = [
        ("node_exporter", program("prometheus-node-exporter")?),
        ("mysqld_exporter", program("prometheus-mysqld-exporter")?),
    ];
    let named: Vec<(&str, &Path)> = exporters.iter().map(|(name, path)| (*name, path.as_path())).collect();
    let machine = Machine::look(&named, 2 * EVERY).await?;
    let directory = Directory::new(args.out.as_deref(), "agent", args.quick)?;
    terminal::complain(&format!(
        "{} tables, {} rounds of two times {} s. Result: {}",
        args.tables,
        args.rounds,
        args.warm_up + args.seconds,
        directory.path().display()
    ));
    let date = directory.date().to_owned();
    let [(_, node), (_, mysqld)] = exporters;
    let fixture = tokio::select! {
        fixture = AgentFixture::up(args.tables, args.rate, args.port, [node, mysqld]) => fixture?,
        () = interrupted() => bail!("interrupted before anything was measured"),
    };
    let version = fixture.version.clone();
    let measured = tokio::select! {
        trials = measure(&args, &fixture) => trials,
        () = interrupted() => Err(anyhow::anyhow!("interrupted; nothing was kept")),
    };
    fixture.down().await?;
    let mut machine = machine;
    machine.programs.push(("server".to_owned(), version));
    let AgentBenchArgs { rounds, seconds, warm_up, tables, rate, .. } = args;
    let run = Run { date, machine, rounds, seconds, warm_up, tables, rate, trials: measured? };
    let met = run.kept() || args.quick;
    finish(&directory.create()?, "samples.json", &run, &run.markdown(), met, args.json)
}

async fn measure(args: &AgentBenchArgs, fixture: &AgentFixture) -> anyhow::Result<Vec<Trial>> {
    let mut trials = Vec::new();
    for round in 1..=args.rounds {
        for subject in Subject::ALL {
            let trial = one(args, fixture, round, subject).await?;
            terminal::complain(&format!(
                "round {round}  {:<10} {:.3} % of a core  {:.1} MiB  {} scrapes of {} bytes",
                subject.name(),
                trial.cpu_share * 100.0,
                trial.resident_kib as f64 / 1024.0,
                trial.scrapes,
                trial.bytes
            ));
            trials.push(trial);
        }
    }
    Ok(trials)
}

async fn one(
    args: &AgentBenchArgs,
    fixture: &AgentFixture,
    round: u32,
    subject: Subject,
) -> anyhow::Result<Trial> {
    let mut watching = fixture.start(subject).await?;
    let scraped = scrape(&mut watching, args.warm_up).await.context("during the warm-up")?;
    if scraped.failed > 0 {
        bail!("{} did not answer {} of {} scrapes", subject.name(), scraped.failed, args.warm_up);
    }
    let used = |watching: &mut Watching| -> anyhow::Result<Duration> {
        watching.pids()?.into_iter().map(process::cpu).sum()
    };
    let (before, server_before, start) =
        (used(&mut watching)?, process::cpu(fixture.server)?, Instant::now());
    let scraped = scrape(&mut watching, args.seconds).await?;
    let wall = start.elapsed().as_secs_f64();
    let cpu = used(&mut watching)?.saturating_sub(before).as_secs_f64();
    let server = process::cpu(fixture.server)?.saturating_sub(server_before).as_secs_f64();
    watching.stop().await?;
    Ok(Trial {
        round,
        subject: subject.name(),
        cpu_share: cpu / wall,
        server_cpu_share: server / wall,
        resident_kib: scraped.resident_kib,
        anonymous_kib: scraped.anonymous_kib,
        scrapes: scraped.count,
        failed: scraped.failed,
        bytes: scraped.bytes,
        seconds: wall,
    })
}

/// What came of some scrapes.
#[derive(Default)]
struct Scraped {
    count: u32,
    failed: u32,
    /// Of the last ones together.
    bytes: usize,
    resident_kib: u64,
    anonymous_kib: u64,
}

/// Once a second this many times: every address, then a look at memory.
async fn scrape(watching: &mut Watching, times: u32) -> anyhow::Result<Scraped> {
    let mut scraped = Scraped::default();
    let mut tick = tokio::time::interval(EVERY);
    for _ in 0..times {
        tick.tick().await;
        let mut bytes = 0;
        for web in watching.addresses() {
            match web.get(None).await {
                Ok((200, body)) => bytes += body.len(),
                Ok((code, _)) => bail!("{} answered {code}", web.address()),
                Err(_) => scraped.failed += 1,
            }
        }
        let mut memory = process::Memory::default();
        for pid in watching.pids()? {
            let one = process::memory(pid)?;
            memory.resident_kib += one.resident_kib;
            memory.anonymous_kib += one.anonymous_kib;
        }
        scraped.resident_kib = scraped.resident_kib.max(memory.resident_kib);
        scraped.anonymous_kib = scraped.anonymous_kib.max(memory.anonymous_kib);
        (scraped.count, scraped.bytes) = (scraped.count + 1, bytes);
    }
    // The last second counts whole.
    tick.tick().await;
    Ok(scraped)
}

fn program(name: &str) -> anyhow::Result<PathBuf> {
    let places = ["/usr/bin", "/usr/local/bin", "/usr/sbin"];
    let found = places.iter().map(|place| Path::new(place).join(name)).find(|path| path.exists());
    found.with_context(|| format!("{name} is not there: scripts/install.sh exporters (or make bench-agent)"))
}
