//! Runs the phases with traffic: opens the applications of a group, lets their slices alternate, adds up.

use crate::figures::{Fleet, PhaseFigures, Round};
use crate::fixture::{Apps, Fixture, end};
use crate::progress::Progress;
use crate::routers::Routers;
use crate::scenario::{Group, Phase, Policy, Scenario};
use probe::machine::{busy, cpu_times};

/// Runs one group and sums up each of its phases, in order.
pub(crate) async fn run(
    fixture: &Fixture,
    scenario: &Scenario,
    group: &Group,
    progress: &Progress,
) -> anyhow::Result<Vec<PhaseFigures>> {
    let fleet = Fleet::new(fixture.lab.servers());
    let routers = match group.phases.iter().any(|p| p.policy == Policy::Headroom) {
        true => Some(Routers::start(&fixture.lab, &group.readers, scenario.relay).await?),
        false => None,
    };
    warm_up(fixture, scenario, group, progress).await?;
    let mut apps: Vec<Option<Apps>> = group.phases.iter().map(|_| None).collect();
    let mut rounds: Vec<Vec<Round>> = vec![Vec::new(); group.phases.len()];
    for round in 0..group.rounds {
        for (n, phase) in group.phases.iter().enumerate() {
            progress.slice(phase, round + 1, group.rounds);
            // Opened only now: hundreds of new sessions are statements too, and the routers would take them
            // for demand.
            let apps = match &mut apps[n] {
                Some(open) => open,
                none => {
                    let apps = fixture.open(scenario, phase, &group.readers, routers.as_ref()).await?;
                    if phase.policy == Policy::Headroom {
                        balance(scenario, phase, &apps, progress).await;
                    }
                    none.insert(apps)
                }
            };
            let seed = scenario.seed * 100 + u64::from(round);
            rounds[n].push(slice(scenario, phase, apps, seed).await);
        }
    }
    for apps in apps.into_iter().flatten() {
        apps.close().await;
    }
    if let Some(routers) = routers {
        routers.stop().await?;
    }
    let phases = group.phases.iter().zip(rounds);
    Ok(phases.map(|(phase, rounds)| PhaseFigures::new(phase, &group.readers, &fleet, rounds)).collect())
}

/// Traffic that is not counted: caches fill, and the routers measure from where the reads come.
async fn warm_up(
    fixture: &Fixture,
    scenario: &Scenario,
    group: &Group,
    progress: &Progress,
) -> anyhow::Result<()> {
    let even = Phase { policy: Policy::RoundRobin, ..group.phases[0].clone() };
    progress.say("warming up");
    let apps = fixture.open(scenario, &even, &group.readers, None).await?;
    let traffic = apps.begin(&even, scenario.rates, scenario.seed);
    tokio::time::sleep(scenario.settle).await;
    end(traffic).await;
    apps.close().await;
    Ok(())
}

/// Traffic that is not counted, while the routers move sessions by what they do.
async fn balance(scenario: &Scenario, phase: &Phase, apps: &Apps, progress: &Progress) {
    let time = scenario.balances_for();
    if time.is_zero() {
        return;
    }
    progress.say(&format!("{} s of traffic, in which the routers see which sessions work", time.as_secs()));
    let traffic = apps.begin(phase, scenario.rates, scenario.seed);
    tokio::time::sleep(time).await;
    end(traffic).await;
}

async fn slice(scenario: &Scenario, phase: &Phase, apps: &Apps, seed: u64) -> Round {
    // What sessions that were closed meanwhile left behind does not belong to this slice.
    apps.take();
    let before = cpu_times();
    let traffic = apps.begin(phase, scenario.rates, seed);
    tokio::time::sleep(scenario.slice).await;
    end(traffic).await;
    Round { zones: apps.take().into_iter().collect(), cpu_busy: busy(before, cpu_times()) }
}
