//! `headroom-bench asking`: what routers that only ask cost a server, for some numbers of routers, with the
//! bound of `[fleet] statements_per_second` and without it; and how soon a promotion and a failure are known
//! to all of them.
//!
//! A router here is one watcher, as each `headroom route` has one. All run in this process; only the servers'
//! processor time is counted.

use super::promise::{self, Promise};
use super::report::section::section;
use super::{output, process};
use anyhow::{Context, anyhow};
use clap::Args;
use config::{AskingBudget, Credentials, FleetConfig};
use fleet::{Address, ServerName, Snapshot, State, WriterStatus};

use lab::{Account, Fault, Lab, Spec};
use mysql_async::prelude::Queryable;
use observe::Watcher;
use probe::Machine;
use serde::Serialize;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use term::{interrupted, terminal};

const SERVERS: [&str; 3] = ["a1", "a2", "b1"];
const PATIENCE: Duration = Duration::from_secs(60);
const STATEMENTS: f64 = 50.0;
const CORE_PERCENT: f64 = 1.0;
const CONNECTIONS: u64 = 100;
const PROMOTION_MS: f64 = 3_000.0;
const FAILURE_MS: f64 = 1_000.0;

/// Flags of `headroom-bench asking`.
#[derive(Args, Clone, Debug)]
pub(crate) struct AskingBenchArgs {
    /// How many routers ask, one condition each; promises are about the last.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 10, 50],
          value_parser = clap::value_parser!(u32).range(1..=500))]
    routers: Vec<u32>,
    /// Seconds of each condition that are measured.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(2..=600))]
    seconds: u32,
    /// Seconds before, in which routers count each other.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=600))]
    settle: u32,
    /// A smoke run of about half a minute.
    #[arg(long)]
    quick: bool,
    /// Where the run's files go [default: benchmarks/runs/asking/YYYY-MM-DD-asking, with --quick
    /// target/bench].
    #[arg(long)]
    out: Option<PathBuf>,
    /// Print everything as JSON instead of tables.
    #[arg(long)]
    json: bool,
}

/// What one server had to bear in one condition.
#[derive(Clone, Debug, Serialize)]
struct Cost {
    routers: u32,
    bounded: bool,
    server: String,
    statements_per_second: f64,
    /// Of one core, without what the server uses when nobody asks, percent.
    core_percent: f64,
    /// The most connections of routers at one look.
    connections: u64,
    /// The interval that the first router has in the end, ms.
    interval_ms: f64,
}

#[derive(Debug, Serialize)]
struct Report {
    date: String,
    machine: Machine,
    seconds: u32,
    costs: Vec<Cost>,
    /// Milliseconds until each router knows the new primary, from its own sessions' suspicion on.
    promotion_ms: Vec<f64>,
    /// Until each shows a killed replica as failed, from the first failure of a session of its own.
    failure_ms: Vec<f64>,
    promises: Vec<Promise>,
}

/// Measures, writes the run's directory, prints the tables; "no" when a promise was missed.
pub(crate) async fn run(mut args: AskingBenchArgs) -> anyhow::Result<ExitCode> {
    if args.quick {
        (args.seconds, args.settle) = (args.seconds.min(3), args.settle.min(3));
    }
    let directory = output::Directory::new(args.out.as_deref(), "asking", args.quick)?;
    let conditions = args.routers.len() as u32 * 2 + 1;
    terminal::complain(&format!(
        "about {} s. Result: {}",
        conditions * (args.seconds + args.settle + 2) + 20,
        directory.path().display()
    ));
    let machine = Machine::look(&[], Duration::from_secs(1)).await?;
    let spec = Spec::new(&[("a", 2), ("b", 1)]).option("max_connections", "1500");
    let lab = Lab::up(&spec, &output::scratch()).await.context("bringing up the servers")?;
    let measured = tokio::select! {
        measured = measure(&args, &lab) => measured,
        () = interrupted() => Err(anyhow!("interrupted: everything that was started is stopped")),
    };
    lab.down().await?;
    let (costs, promotion_ms, failure_ms) = measured?;
    let promises = promises(&args, &costs, &promotion_ms, &failure_ms);
    let met = promise::all_met(&promises);
    let date = directory.date().to_owned();
    let report = Report { date, machine, seconds: args.seconds, costs, promotion_ms, failure_ms, promises };
    let text = markdown(&report);
    output::finish(&directory.create()?, "run.json", &report, &text, met, args.json)
}

type Measured = (Vec<Cost>, Vec<f64>, Vec<f64>);

async fn measure(args: &AskingBenchArgs, lab: &Lab) -> anyhow::Result<Measured> {
    let mut idle = Look::at(lab).await?;
    tokio::time::sleep(Duration::from_secs(u64::from(args.seconds))).await;
    let quiet = Look::at(lab).await?.since(&idle);
    let mut costs = Vec::new();
    for bounded in [false, true] {
        for &routers in &args.routers {
            let watchers = start(lab, routers, bounded).await?;
            tokio::time::sleep(Duration::from_secs(u64::from(args.settle))).await;
            idle = Look::at(lab).await?;
            let mut connections = [0; SERVERS.len()];
            for _ in 0..args.seconds {
                tokio::time::sleep(Duration::from_secs(1)).await;
                for (most, now) in connections.iter_mut().zip(of_routers(lab).await?) {
                    *most = now.max(*most);
                }
            }
            let used = Look::at(lab).await?.since(&idle);
            let snapshot = watchers[0].snapshots().borrow().clone();
            for (at, server) in SERVERS.into_iter().enumerate() {
                let asked = snapshot.servers.iter().find(|s| s.name.as_str() == name(lab, server));
                let interval = asked.and_then(|s| s.asking.as_ref()).map(|asking| asking.interval);
                costs.push(Cost {
                    routers,
                    bounded,
                    server: server.to_owned(),
                    // Our own look at the connections is one statement a second.
                    statements_per_second: (used[at].0 - 1.0).max(0.0),
                    core_percent: (used[at].1 - quiet[at].1).max(0.0),
                    connections: connections[at],
                    interval_ms: interval.map_or(0.0, |every| every.as_secs_f64() * 1e3),
                });
            }
            terminal::complain(&format!("{routers} routers, {}: done", mode(bounded)));
            stop(watchers).await;
        }
    }
    let routers = args.routers.last().copied().unwrap_or(1);
    let watchers = start(lab, routers, true).await?;
    tokio::time::sleep(Duration::from_secs(u64::from(args.settle))).await;
    let failure_ms = failure(lab, &watchers).await?;
    let promotion_ms = promotion(lab, &watchers).await?;
    stop(watchers).await;
    Ok((costs, promotion_ms, failure_ms))
}

/// A replica is killed, and every router's own traffic meets it.
async fn failure(lab: &Lab, watchers: &[Watcher]) -> anyhow::Result<Vec<f64>> {
    lab.fault("a2", Fault::Kill).await?;
    let replica = ServerName::new(&name(lab, "a2"));
    let begun = Instant::now();
    watchers.iter().for_each(|watcher| watcher.suspect(&replica, "connection refused"));
    let fails = |s: &Snapshot| s.server(&replica).is_some_and(|s| s.state != State::Answering);
    let times = until(watchers, begun, fails).await?;
    lab.heal("a2").await?;
    until(watchers, begun, |s| s.server(&replica).is_some_and(|s| s.state == State::Answering)).await?;
    Ok(times)
}

/// Another server becomes primary, and every router's own sessions on the old one have ended.
async fn promotion(lab: &Lab, watchers: &[Watcher]) -> anyhow::Result<Vec<f64>> {
    let (old, new) = (ServerName::new(&name(lab, "a1")), ServerName::new(&name(lab, "b1")));
    let begun = Instant::now();
    watchers.iter().for_each(|watcher| watcher.suspect(&old, "the server closed the connection"));
    lab.fault("b1", Fault::Promote).await?;
    let knows = |s: &Snapshot| matches!(&s.writer, WriterStatus::Known { server } if *server == new);
    until(watchers, begun, knows).await
}

/// Milliseconds after `begun` at which each first shows what is waited for.
async fn until(
    watchers: &[Watcher],
    begun: Instant,
    holds: impl Fn(&Snapshot) -> bool,
) -> anyhow::Result<Vec<f64>> {
    let mut times = vec![None; watchers.len()];
    while times.iter().any(Option::is_none) {
        for (time, watcher) in times.iter_mut().zip(watchers).filter(|(time, _)| time.is_none()) {
            if holds(&watcher.snapshots().borrow()) {
                *time = Some(begun.elapsed().as_secs_f64() * 1e3);
            }
        }
        anyhow::ensure!(begun.elapsed() < PATIENCE, "not all routers noticed within a minute");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(times.into_iter().flatten().collect())
}

async fn start(lab: &Lab, routers: u32, bounded: bool) -> anyhow::Result<Vec<Watcher>> {
    let mut watchers = Vec::new();
    for _ in 0..routers {
        watchers.push(Watcher::start(FleetConfig {
            seeds: vec![address(lab, "a1")?],
            credentials: Credentials {
                user: Some(Account::Headroom.user().to_owned()),
                password: Some(lab.password(Account::Headroom).to_owned()),
                ..Credentials::default()
            },
            asking: AskingBudget { counted: bounded, ..AskingBudget::default() },
            ..FleetConfig::default()
        }));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let begun = Instant::now();
    until(&watchers, begun, |s| s.servers.len() == SERVERS.len() && s.primary().is_some()).await?;
    Ok(watchers)
}

async fn stop(watchers: Vec<Watcher>) {
    for watcher in watchers {
        watcher.stop().await;
    }
}

fn address(lab: &Lab, server: &str) -> anyhow::Result<Address> {
    let real = lab.real(server)?;
    Ok(Address::tcp(real.ip().to_string(), real.port()))
}

fn name(lab: &Lab, server: &str) -> String {
    address(lab, server).map(|address| address.to_string()).unwrap_or_default()
}

/// The servers' counters at one time.
struct Look {
    at: Instant,
    each: Vec<(u64, Duration)>,
}

impl Look {
    async fn at(lab: &Lab) -> anyhow::Result<Self> {
        let mut each = Vec::new();
        for server in SERVERS {
            let mut root = lab.connect(server).await?;
            let questions: Option<(String, u64)> =
                root.query_first("SHOW GLOBAL STATUS LIKE 'Questions'").await?;
            root.disconnect().await?;
            let pid = lab.status().await.servers.iter().find(|s| s.name == server).and_then(|s| s.pid);
            let cpu = process::cpu(pid.context("a server without a process")?)?;
            each.push((questions.context("no counter")?.1, cpu));
        }
        Ok(Self { at: Instant::now(), each })
    }

    /// Statements a second and percent of a core since `before`, each server.
    fn since(&self, before: &Self) -> Vec<(f64, f64)> {
        let seconds = (self.at - before.at).as_secs_f64();
        let each = self.each.iter().zip(&before.each);
        each.map(|(now, then)| {
            let core = now.1.saturating_sub(then.1).as_secs_f64() / seconds * 100.0;
            ((now.0 - then.0) as f64 / seconds, core)
        })
        .collect()
    }
}

/// How many connections of routers each server has.
async fn of_routers(lab: &Lab) -> anyhow::Result<Vec<u64>> {
    let mut each = Vec::new();
    for server in SERVERS {
        let mut root = lab.connect(server).await?;
        let statement = format!(
            "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE user = '{}'",
            Account::Headroom.user()
        );
        let count: Option<u64> = root.query_first(statement).await?;
        root.disconnect().await?;
        each.push(count.unwrap_or(0));
    }
    Ok(each)
}

fn promises(args: &AskingBenchArgs, costs: &[Cost], promotion: &[f64], failure: &[f64]) -> Vec<Promise> {
    let routers = args.routers.last().copied().unwrap_or(1);
    let ours: Vec<&Cost> = costs.iter().filter(|c| c.bounded && c.routers == routers).collect();
    let most = |figure: fn(&Cost) -> f64| ours.iter().map(|c| figure(c)).fold(0.0, f64::max);
    let (statements, core) = (most(|c| c.statements_per_second), most(|c| c.core_percent));
    let connections = ours.iter().map(|c| c.connections).max().unwrap_or(0);
    let slowest = |times: &[f64]| times.iter().copied().fold(0.0, f64::max);
    let (promotion, failure) = (slowest(promotion), slowest(failure));
    let asked = |what: &str| format!("{routers} routers: {what}");
    vec![
        Promise::new(
            &asked("less than 50 statements a second on each server"),
            format!("{statements:.1}"),
            statements < STATEMENTS,
        ),
        Promise::new(&asked("less than 1 % of a core"), format!("{core:.2} %"), core < CORE_PERCENT),
        Promise::new(&asked("at most 100 connections"), connections.to_string(), connections <= CONNECTIONS),
        Promise::new(
            &asked("all know a promotion within 3 s"),
            format!("{promotion:.0} ms"),
            promotion <= PROMOTION_MS,
        ),
        Promise::new(
            &asked("all know a failure that their traffic met within 1 s"),
            format!("{failure:.0} ms"),
            failure <= FAILURE_MS,
        ),
    ]
}

fn mode(bounded: bool) -> &'static str {
    if bounded { "bounded" } else { "every 500 ms" }
}

fn markdown(report: &Report) -> String {
    let heads = ["routers", "asking", "server", "statements/s", "% of a core", "connections", "interval ms"];
    let rows = report.costs.iter().map(|c| {
        vec![
            c.routers.to_string(),
            mode(c.bounded).to_owned(),
            c.server.clone(),
            format!("{:.1}", c.statements_per_second),
            format!("{:.2}", c.core_percent),
            c.connections.to_string(),
            format!("{:.0}", c.interval_ms),
        ]
    });
    format!(
        "# What asking costs, {}\n\n{} s a condition; the primary is a1.\n\n{}\n{}",
        report.date,
        report.seconds,
        section("Cost of each server", &heads, rows),
        promise::table(&report.promises)
    )
}
