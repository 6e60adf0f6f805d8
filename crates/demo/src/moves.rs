//! Runs phase (f): the primary is moved to another server and back by `headroom switchover`, while the
//! applications of all zones write through their routers.
//!
//! Writer sessions pass through the routers here: one that bypasses them cannot be held (see
//! docs/guide/switchover.md).

use crate::figures::{MoveFigures, SwitchoverOutcome, Window};
use crate::fixture::{Apps, Fixture, end};
use crate::progress::Progress;
use crate::routers::Routers;
use crate::scenario::{MoveSchedule, PRIMARY, Phase, Policy, Scenario};
use anyhow::{Context, bail};
use lab::Account;
use lab::app::Rates;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// Every replica serves.
const READERS: [&str; 4] = ["a2", "a3", "b1", "c1"];
const LOOK: Duration = Duration::from_millis(100);
/// A move that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// Moves the primary there and back.
pub(crate) async fn run(
    fixture: &Fixture,
    scenario: &Scenario,
    how: &MoveSchedule,
    progress: &Progress,
) -> anyhow::Result<Vec<MoveFigures>> {
    let routers = Routers::start(&fixture.lab, &READERS, true).await?;
    let phase = Phase { id: "f", title: "a move", policy: Policy::Headroom, demand: [1.0 / 3.0; 3] };
    let apps = fixture.open(scenario, &phase, &READERS, Some(&routers)).await?;
    let even = scenario.rates;
    let writes = Rates { orders: even.orders * how.writes, profile: even.profile * how.writes, ..even };
    let traffic = apps.begin(&phase, writes, scenario.seed);
    let mut figures = Vec::new();
    for (from, to) in [(PRIMARY, how.to), (how.to, PRIMARY)] {
        progress.step(&format!("(f) the primary moves from {from} to {to}"));
        let (moved, one) = one(fixture, &apps, how, from, to).await?;
        figures.push(one);
        // What was undone needs no way back.
        if !moved {
            break;
        }
    }
    progress.say("(f) requests under way end");
    end(traffic).await;
    apps.close().await;
    routers.stop().await?;
    Ok(figures)
}

async fn one(
    fixture: &Fixture,
    apps: &Apps,
    how: &MoveSchedule,
    from: &str,
    to: &str,
) -> anyhow::Result<(bool, MoveFigures)> {
    let (mut before, mut during) = (Window::default(), Window::default());
    // What came before belongs to no window.
    apps.take();
    count(apps, &mut before, tokio::time::sleep(how.calm)).await;
    let began = Instant::now();
    let outcome = count(apps, &mut during, switchover(fixture, to)).await?;
    let took = began.elapsed().as_secs_f64();
    count(apps, &mut during, tokio::time::sleep(how.afterwards)).await;
    Ok((outcome.is_done(), MoveFigures::new(from, to, outcome, took, &before, during)))
}

/// Adds what applications count while something goes on.
async fn count<T>(apps: &Apps, window: &mut Window, something: impl Future<Output = T>) -> T {
    let mut something = std::pin::pin!(something);
    let mut look = tokio::time::interval(LOOK);
    loop {
        let ended = tokio::select! {
            ended = &mut something => Some(ended),
            _ = look.tick() => None,
        };
        apps.take().iter().for_each(|(_, counts)| window.add(counts));
        if let Some(ended) = ended {
            return ended;
        }
    }
}

/// The command as an operator types it.
async fn switchover(fixture: &Fixture, to: &str) -> anyhow::Result<SwitchoverOutcome> {
    let lab = &fixture.lab;
    let binary = std::env::current_exe().context("finding this program's own file")?;
    let mut command = tokio::process::Command::new(binary);
    command.args(["switchover", to, "--yes", "--json", "--config"]).arg(lab.dir().join("router-a.toml"));
    command.arg("--admin-option-file").arg(lab.credentials_file(Account::Admin));
    command.arg("--replication-option-file").arg(lab.credentials_file(Account::Repl));
    command.arg("--journal").arg(lab.dir().join("switchover"));
    command.stdin(Stdio::null()).kill_on_drop(true);
    let output = tokio::time::timeout(PATIENCE, command.output());
    let output = output.await.with_context(|| format!("headroom switchover {to} hangs"))?;
    let output = output.context("starting headroom switchover")?;
    match serde_json::from_slice(&output.stdout) {
        Ok(outcome) => Ok(outcome),
        Err(_) => bail!("headroom switchover {to}: {}", String::from_utf8_lossy(&output.stderr).trim()),
    }
}
