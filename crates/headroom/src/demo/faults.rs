//! Runs phase (e): steady traffic through the routers while a reader is killed, comes back, is blackholed and comes back.

use super::figures::FailedRequest;
use super::figures::{Course, FaultFigures, FaultKind, Fleet, Lapse, Mark, Probe, Seen};
use super::plan::{FaultPlan, Phase, Plan, Policy, VICTIM};
use super::progress::Progress;
use super::routers::{Routers, Way};
use super::stage::{Apps, Stage, end};
use lab::app::App;
use lab::{Change, Fault};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// Every replica serves.
const READERS: [&str; 4] = ["a2", "a3", "b1", "c1"];
const LOOK: Duration = Duration::from_millis(200);
/// Looked at for this long after traffic was back, so that what fails late is seen.
const AFTERWARDS: Duration = Duration::from_secs(1);

/// Runs the faults one after the other.
pub(crate) async fn run(
    stage: &Stage,
    plan: &Plan,
    how: &FaultPlan,
    progress: &Progress,
) -> anyhow::Result<(Vec<FaultFigures>, Course)> {
    let fleet = Fleet::new(stage.lab.servers());
    let routers = Routers::start(&stage.lab, &READERS, plan.relay).await?;
    let phase = Phase { id: "e", title: "faults", policy: Policy::Headroom, demand: [1.0 / 3.0; 3] };
    let apps = stage.open(plan, &phase, &READERS, Some(&routers)).await?;
    let past = routers.all().iter().any(|router| matches!(router.way, Way::Past(_)));
    let (seen, slowest) = (Seen::default(), Duration::ZERO);
    let mut watch = Watch { stage, plan: how, progress, apps: &apps, past, seen, slowest };
    let probes = Probes::start(stage, &apps, how.probe_every);
    let origin = stage.now();
    let traffic = apps.begin(&phase, plan.rates, plan.seed);
    let mut lapses = Vec::new();
    for kind in [FaultKind::Killed, FaultKind::Blackholed] {
        lapses.push(watch.lapse(kind, &fleet).await?);
    }
    progress.say("(e) requests under way end");
    end(traffic).await;
    watch.look();
    let mut seen = watch.seen;
    seen.probes = probes.stop().await;
    apps.close().await;
    routers.stop().await?;
    seen.start_at(origin);
    let lapses: Vec<Lapse> = lapses.iter().map(|l| l.start_at(origin)).collect();
    let figures =
        lapses.iter().map(|l| FaultFigures::new(l, VICTIM, &fleet, &seen, how.back_share)).collect();
    Ok((figures, Course::new(&READERS, &fleet, &seen, lapses.iter().flat_map(marks).collect())))
}

fn marks(lapse: &Lapse) -> [Mark; 2] {
    let what = match lapse.kind {
        FaultKind::Killed => "killed",
        FaultKind::Blackholed => "blackholed",
    };
    [
        Mark { t_s: lapse.begun, label: format!("{VICTIM} {what}") },
        Mark { t_s: lapse.returned, label: format!("{VICTIM} back") },
    ]
}

/// Looks at the applications while faults come and go.
struct Watch<'a> {
    stage: &'a Stage,
    plan: &'a FaultPlan,
    progress: &'a Progress,
    apps: &'a Apps,
    /// Sessions go past the routers.
    past: bool,
    seen: Seen,
    /// The slowest request since the last fault came.
    slowest: Duration,
}

impl Watch<'_> {
    async fn lapse(&mut self, kind: FaultKind, fleet: &Fleet) -> anyhow::Result<Lapse> {
        let fault = match kind {
            FaultKind::Killed => Fault::Kill,
            FaultKind::Blackholed => Fault::Blackhole,
        };
        let calm_from = self.stage.now();
        self.progress.fault(kind, "before");
        self.pass(self.plan.before).await;
        self.progress.fault(kind, "away");
        let begun = self.stage.now();
        self.slowest = Duration::ZERO;
        self.stage.lab.change(VICTIM, Change::Begin(fault)).await?;
        self.pass(self.plan.away).await;
        self.progress.fault(kind, "coming back");
        self.stage.lab.change(VICTIM, Change::End(fault)).await?;
        let returned = self.stage.now();
        let (ended, slowest_request) = (returned, 0.0);
        let mut lapse = Lapse { kind, calm_from, begun, returned, ended, slowest_request, past: self.past };
        while lapse.ended - returned < self.plan.back_within.as_secs_f64() {
            self.pass(LOOK).await;
            lapse.ended = self.stage.now();
            let share = self.plan.back_share;
            if FaultFigures::new(&lapse, VICTIM, fleet, &self.seen, share).back_s.is_some() {
                break;
            }
        }
        self.pass(AFTERWARDS).await;
        lapse.ended = self.stage.now();
        lapse.slowest_request = self.slowest.as_secs_f64();
        Ok(lapse)
    }

    /// Lets time pass, looking now and then.
    async fn pass(&mut self, time: Duration) {
        let until = Instant::now() + time;
        while Instant::now() < until {
            tokio::time::sleep(LOOK.min(until.saturating_duration_since(Instant::now()))).await;
            self.look();
        }
    }

    fn look(&mut self) {
        for (_, tally) in self.apps.take() {
            let slowest = tally.endpoints.values().map(|e| e.request_ns.max()).max().unwrap_or(0);
            self.slowest = self.slowest.max(Duration::from_nanos(slowest));
            for (tick, add) in tally.ticks {
                let sum = self.seen.ticks.entry(tick).or_default();
                sum.requests += add.requests;
                sum.failed += add.failed;
                for (server, reads) in add.reads {
                    *sum.reads.entry(server).or_default() += reads;
                }
            }
            self.seen.failures.extend(tally.failures.into_iter().map(|(endpoint, f)| FailedRequest {
                said: format!("{endpoint}: {}", f.said),
                kind: f.kind,
                server: f.server,
                sent: self.stage.seconds(f.sent),
                at: self.stage.seconds(f.at),
            }));
        }
    }
}

/// New sessions at a steady pace in each zone.
struct Probes {
    tasks: JoinSet<()>,
    seen: Arc<Mutex<Vec<Probe>>>,
}

impl Probes {
    fn start(stage: &Stage, apps: &Apps, every: Duration) -> Self {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = JoinSet::new();
        for app in apps.all() {
            tasks.spawn(probe(app.clone(), stage.epoch, every, Arc::clone(&seen)));
        }
        Self { tasks, seen }
    }

    async fn stop(mut self) -> Vec<Probe> {
        self.tasks.shutdown().await;
        std::mem::take(&mut *self.seen.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// One new session each `every`, without waiting for the one before.
async fn probe(app: App, epoch: Instant, every: Duration, seen: Arc<Mutex<Vec<Probe>>>) {
    let mut under_way = JoinSet::new();
    let mut pace = tokio::time::interval(every);
    loop {
        pace.tick().await;
        while under_way.try_join_next().is_some() {}
        let (app, seen) = (app.clone(), Arc::clone(&seen));
        under_way.spawn(async move {
            let asked = Instant::now();
            let landed = app.probe().await.ok();
            let probe = Probe {
                asked: asked.saturating_duration_since(epoch).as_secs_f64(),
                took: asked.elapsed().as_secs_f64(),
                landed,
            };
            seen.lock().unwrap_or_else(PoisonError::into_inner).push(probe);
        });
    }
}
