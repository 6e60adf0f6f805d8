//! `headroom-bench soak`: the router under load for an hour while servers die, stand still and come back.
//!
//! Clients of several kinds ask what a server has answered directly before, and compare checksums of the
//! result sets. Every failure is held against what was done to the servers (`soak/blame.rs`). The router's
//! memory and descriptors are read once a second; all is written as it comes, so that a run that is ended
//! early keeps what it has.

mod blame;
mod client;
mod client_pool;
mod fixture;
mod question;
mod report;
mod timetable;
mod watch;

use super::output::{Directory, scratch};
use anyhow::Context;
use clap::Args;
use client::{Done, Kind};
use client_pool::ClientPool;
use console::status_view::StatusView;
use fixture::{PRIMARY, SoakFixture};
use hdrhistogram::Histogram;
use lab::{Change, DATABASE, Lab};
use mysql_async::prelude::Queryable;
use probe::Machine;
use report::{Latency, Run, Written};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use term::{exit, interrupted, terminal};
use timetable::{Planned, Trouble, timetable};
use tokio::io::AsyncWriteExt;
use tokio::process::ChildStdin;
use tokio::task::JoinSet;
use watch::Watch;

const SECOND: Duration = Duration::from_secs(1);
/// A line of progress every so often.
const SAID_EVERY: u64 = 60;
/// After the load the router lets go of everything within this.
const LET_GO_WITHIN: Duration = Duration::from_secs(15);
/// Beyond its deadlines no client is still busy.
const CLIENTS_END_WITHIN: Duration = Duration::from_secs(90);

/// Flags of `headroom-bench soak`.
#[derive(Args, Clone, Debug)]
pub(crate) struct SoakArgs {
    /// Seconds under load.
    #[arg(long, default_value_t = 3600, value_parser = clap::value_parser!(u64).range(20..=86_400 * 7))]
    seconds: u64,
    /// Clients at once, of nine kinds.
    #[arg(long, default_value_t = 24, value_parser = clap::value_parser!(u32).range(1..=2000))]
    clients: u32,
    /// Statements a second, all clients together; 0 is as fast as they are answered.
    #[arg(long, default_value_t = 0)]
    rate: u32,
    /// Connections bypass the router where its listener says so, instead of through it (needs the privilege).
    #[arg(long)]
    zero_hop: bool,
    /// No faults.
    #[arg(long)]
    calm: bool,
    /// From which faults and statements are drawn.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where the run's files go [default: benchmarks/runs/soak/YYYY-MM-DD-soak].
    #[arg(long)]
    out: Option<PathBuf>,
    /// Print everything as JSON instead of a table.
    #[arg(long)]
    json: bool,
}

/// Runs it.
pub(crate) async fn run(args: SoakArgs) -> anyhow::Result<ExitCode> {
    let directory = Directory::new(args.out.as_deref(), "soak", false)?;
    let date = directory.date().to_owned();
    let machine = Machine::look(&[], 2 * SECOND).await?;
    let path = directory.create()?;
    terminal::complain(&format!("{} s under load. Result: {}", args.seconds, path.display()));
    let base = scratch();
    let mut fixture = tokio::select! {
        fixture = SoakFixture::up(&base, args.clients, args.zero_hop) => fixture?,
        () = interrupted() => anyhow::bail!("interrupted before the load began"),
    };
    let run = soak(&args, date, machine, &mut fixture, &path).await;
    let down = fixture.down(&path).await;
    let run = run?;
    run.write(&path)?;
    if args.json {
        terminal::print_json(&run)?;
    } else {
        terminal::print(&format!("{}\nkept in {}\n", run.markdown(), path.display()))?;
    }
    down?;
    Ok(if run.kept() { exit::DONE } else { exit::no() })
}

async fn soak(
    args: &SoakArgs,
    date: String,
    mut machine: Machine,
    fixture: &mut SoakFixture,
    path: &std::path::Path,
) -> anyhow::Result<Run> {
    machine.programs.push(("server".to_owned(), fixture.lab.version()));
    let interval = match args.rate {
        0 => Duration::ZERO,
        rate => Duration::from_secs_f64(f64::from(args.clients) / f64::from(rate)),
    };
    let length = Duration::from_secs(args.seconds);
    let pid = fixture.pid()?;
    let pool = Arc::new(fixture.pool(interval, args.seed).await?);
    let before = watch::descriptors(pid)?;
    let mut watch = Watch::new(path)?;
    let planned = if args.calm { Vec::new() } else { timetable(&fixture.lab.servers(), length, args.seed) };
    let mut clients = JoinSet::new();
    for number in 0..args.clients {
        clients.spawn(client::run(pool.clone(), number));
    }
    let end = {
        let watching = watched(&mut watch, pid, &pool, args.seconds);
        tokio::pin!(watching);
        // Whatever is in force when this is dropped is healed below.
        let faults = trouble(&fixture.lab, fixture.faults.as_mut(), &planned, &pool);
        tokio::pin!(faults);
        let mut faulted = false;
        loop {
            tokio::select! {
                end = &mut watching => break end.map(|()| None),
                made = &mut faults, if !faulted => match made {
                    Ok(()) => faulted = true,
                    Err(error) => break Err(error.context("making faults")),
                },
                () = interrupted() => break Ok(Some("interrupted".to_owned())),
            }
        }
    };
    pool.stop.cancel();
    fixture.lab.heal_all().await?;
    let done = tokio::time::timeout(CLIENTS_END_WITHIN, ended(clients)).await.context("clients hang")??;
    // The router's own end is what a soak is to find: it is told, and what was measured until then kept.
    let cut_short = end.unwrap_or_else(|error| Some(format!("{error:#}")));
    let alive = fixture.pid().is_ok();
    let after = if alive { let_go(pid, before).await? } else { 0 };
    let status = if alive { fixture.status().await.ok() } else { None };
    Ok(Run {
        date,
        machine,
        asked_s: args.seconds,
        clients: args.clients,
        rate: args.rate,
        seed: args.seed,
        zero_hop: args.zero_hop,
        cut_short,
        questions: pool.answers.len(),
        length_s: watch.samples.last().map_or(0.0, |sample| sample.at_s),
        counted: pool.counted(),
        deliberate: status.as_ref().map(deliberate),
        written: written(fixture, &done).await?,
        slowest: pool.slowest(),
        latency: latencies(&done)?,
        memory: plan::Slope::after_warm_up(
            &watch.samples.iter().map(|s| (s.at_s, s.resident_kib as f64 / 1024.0)).collect::<Vec<_>>(),
        ),
        descriptors: (before, after),
        faults: pool.lapses(),
        failures: pool.failures(),
        samples: watch.samples,
    })
}

/// Looks once a second until the time is over.
async fn watched(watch: &mut Watch, pid: u32, pool: &ClientPool, seconds: u64) -> anyhow::Result<()> {
    let mut ticks = tokio::time::interval(SECOND);
    for second in 0..=seconds {
        ticks.tick().await;
        watch.look(pid, pool).context("the router has ended")?;
        if second % SAID_EVERY == 0 && second > 0 {
            let (sample, counted) = (watch.samples.last().copied(), pool.counted());
            let resident_mib = sample.map_or(0.0, |s| s.resident_kib as f64 / 1024.0);
            terminal::complain(&format!(
                "{second} s: {} statements, {} sessions, {resident_mib:.1} MiB, {} faults, {} wrong, {} unexplained",
                counted.statements,
                counted.sessions,
                pool.lapses().len(),
                counted.wrong,
                counted.unexplained
            ));
        }
    }
    Ok(())
}

/// Makes every fault at its time.
async fn trouble(
    lab: &Lab,
    mut router: Option<&mut ChildStdin>,
    planned: &[Planned],
    pool: &ClientPool,
) -> anyhow::Result<()> {
    for Planned { at_s, lasts_s, server, what, fault } in planned {
        let until = Duration::from_secs_f64((at_s - pool.now()).max(0.0));
        tokio::time::sleep(until).await;
        pool.begin(server, what);
        match (fault, &mut router) {
            (Trouble::Server(fault), _) => lab.change(server, Change::Begin(*fault)).await?,
            (Trouble::Router(part), Some(input)) => input.write_all(format!("{part}\n").as_bytes()).await?,
            (Trouble::Router(_), None) => {}
        }
        pool.struck();
        tokio::time::sleep(Duration::from_secs_f64(*lasts_s)).await;
        if let Trouble::Server(fault) = fault {
            lab.change(server, Change::End(*fault)).await?;
        }
        pool.end();
    }
    Ok(())
}

async fn ended(mut clients: JoinSet<anyhow::Result<Done>>) -> anyhow::Result<Vec<Done>> {
    let mut done = Vec::new();
    while let Some(client) = clients.join_next().await {
        done.push(client??);
    }
    done.sort_by_key(|done| done.number);
    Ok(done)
}

/// Descriptors when they are as few as before, or at the deadline.
async fn let_go(pid: u32, before: u64) -> anyhow::Result<u64> {
    let deadline = tokio::time::Instant::now() + LET_GO_WITHIN;
    loop {
        let now = watch::descriptors(pid)?;
        if now <= before || tokio::time::Instant::now() > deadline {
            return Ok(now);
        }
        tokio::time::sleep(SECOND / 5).await;
    }
}

/// Sessions that the router ended while they rested, by its own count.
fn deliberate(status: &StatusView) -> u64 {
    let by_us = |reason: &str| reason.starts_with("moved") || reason.starts_with("drained");
    status.counters.closed.iter().filter(|(reason, _)| by_us(reason)).map(|(_, count)| count).sum()
}

/// Looks for every row that a client was told is written.
async fn written(fixture: &SoakFixture, done: &[Done]) -> anyhow::Result<Written> {
    let mut written = Written::default();
    let mut conn = fixture.direct(PRIMARY).await.context("looking for what was written")?;
    for done in done.iter().filter(|done| done.kind == Kind::Writer) {
        let mut of_this =
            format!("SELECT COUNT(*) FROM {DATABASE}.soak_written WHERE client = {}", done.number);
        let all: Option<u64> = conn.query_first(&of_this).await?;
        let doubtful: Vec<String> = done.doubtful.iter().map(u32::to_string).collect();
        of_this.push_str(&format!(" AND number IN ({})", doubtful.join(",")));
        let of_doubtful: Option<u64> =
            if doubtful.is_empty() { None } else { conn.query_first(&of_this).await? };
        let acknowledged = u64::from(done.written) - doubtful.len() as u64;
        written.acknowledged += acknowledged;
        written.doubtful += doubtful.len() as u64;
        let found = all.unwrap_or(0) - of_doubtful.unwrap_or(0);
        written.lost += acknowledged.saturating_sub(found);
        written.twice += found.saturating_sub(acknowledged);
    }
    conn.disconnect().await?;
    Ok(written)
}

fn latencies(done: &[Done]) -> anyhow::Result<Vec<Latency>> {
    let mut kinds: Vec<(Kind, Histogram<u64>)> = Vec::new();
    for done in done {
        match kinds.iter_mut().find(|(kind, _)| *kind == done.kind) {
            Some((_, times)) => times.add(&done.times)?,
            None => kinds.push((done.kind, done.times.clone())),
        }
    }
    Ok(kinds.iter().map(|(kind, times)| Latency::of(*kind, times)).collect())
}
