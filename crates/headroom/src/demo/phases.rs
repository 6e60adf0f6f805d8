//! Runs the phases with traffic: opens the applications of a group, lets their slices alternate, adds up.

use super::figures::{Fleet, PhaseFigures, Round};
use super::plan::{Group, Phase, Plan, Policy};
use super::progress::Progress;
use super::routers::Routers;
use super::stage::{Apps, Stage, end};
use probe::machine::{busy, cpu_times};

/// Runs one group and sums up each of its phases, in order.
pub(crate) async fn run(
    stage: &Stage,
    plan: &Plan,
    group: &Group,
    progress: &Progress,
) -> anyhow::Result<Vec<PhaseFigures>> {
    let fleet = Fleet::new(stage.lab.servers());
    let routers = match group.phases.iter().any(|p| p.policy == Policy::Headroom) {
        true => Some(Routers::start(&stage.lab, &group.readers, plan.relay).await?),
        false => None,
    };
    warm_up(stage, plan, group, progress).await?;
    let mut apps: Vec<Option<Apps>> = group.phases.iter().map(|_| None).collect();
    let mut rounds: Vec<Vec<Round>> = vec![Vec::new(); group.phases.len()];
    for round in 0..group.rounds {
        for (n, phase) in group.phases.iter().enumerate() {
            progress.slice(phase, round + 1, group.rounds);
            // Opened only now: hundreds of new sessions are statements too, and the routers would take them for demand.
            let apps = match &mut apps[n] {
                Some(open) => open,
                none => none.insert(stage.open(plan, phase, &group.readers, routers.as_ref()).await?),
            };
            let seed = plan.seed * 100 + u64::from(round);
            rounds[n].push(slice(plan, phase, apps, seed).await);
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
async fn warm_up(stage: &Stage, plan: &Plan, group: &Group, progress: &Progress) -> anyhow::Result<()> {
    let even = Phase { policy: Policy::RoundRobin, ..group.phases[0].clone() };
    progress.say("warming up");
    let apps = stage.open(plan, &even, &group.readers, None).await?;
    let traffic = apps.begin(&even, plan.rates, plan.seed);
    tokio::time::sleep(plan.settle).await;
    end(traffic).await;
    apps.close().await;
    Ok(())
}

async fn slice(plan: &Plan, phase: &Phase, apps: &Apps, seed: u64) -> Round {
    // What sessions that were closed meanwhile left behind does not belong to this slice.
    apps.take();
    let before = cpu_times();
    let traffic = apps.begin(phase, plan.rates, seed);
    tokio::time::sleep(plan.slice).await;
    end(traffic).await;
    Round { zones: apps.take().into_iter().collect(), cpu_busy: busy(before, cpu_times()) }
}
