//! Runs phase (e): steady traffic through the routers while a reader is killed, comes back, is blackholed and
//! comes back.

use crate::figures::FailedRequest;
use crate::figures::{FaultFigures, FaultKind, Fleet, Lapse, Mark, Observations, Probe, TimeSeries};
use crate::fixture::{Apps, Fixture, end};
use crate::progress::Progress;
use crate::routers::{Routers, Way};
use crate::scenario::{FaultSchedule, Phase, Policy, Scenario, VICTIM};
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
    fixture: &Fixture,
    scenario: &Scenario,
    how: &FaultSchedule,
    progress: &Progress,
) -> anyhow::Result<(Vec<FaultFigures>, TimeSeries)> {
    let fleet = Fleet::new(fixture.lab.servers());
    let routers = Routers::start(&fixture.lab, &READERS, scenario.relay).await?;
    let phase = Phase { id: "e", title: "faults", policy: Policy::Headroom, demand: [1.0 / 3.0; 3] };
    let apps = fixture.open(scenario, &phase, &READERS, Some(&routers)).await?;
    let past = routers.all().iter().any(|router| matches!(router.way, Way::Bypass(_)));
    let (observed, slowest) = (Observations::default(), Duration::ZERO);
    let mut watch = Watch { fixture, schedule: how, progress, apps: &apps, past, observed, slowest };
    let probes = Probes::start(fixture, &apps, how.probe_every);
    let origin = fixture.now();
    let traffic = apps.begin(&phase, scenario.rates, scenario.seed);
    let mut lapses = Vec::new();
    for kind in [FaultKind::Killed, FaultKind::Blackholed] {
        lapses.push(watch.lapse(kind, &fleet).await?);
    }
    progress.say("(e) requests under way end");
    end(traffic).await;
    watch.look();
    let mut observed = watch.observed;
    observed.probes = probes.stop().await;
    apps.close().await;
    routers.stop().await?;
    observed.start_at(origin);
    let lapses: Vec<Lapse> = lapses.iter().map(|l| l.start_at(origin)).collect();
    let figures =
        lapses.iter().map(|l| FaultFigures::new(l, VICTIM, &fleet, &observed, how.back_share)).collect();
    Ok((figures, TimeSeries::new(&READERS, &fleet, &observed, lapses.iter().flat_map(marks).collect())))
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
    fixture: &'a Fixture,
    schedule: &'a FaultSchedule,
    progress: &'a Progress,
    apps: &'a Apps,
    /// Sessions bypass the routers.
    past: bool,
    observed: Observations,
    /// The slowest request since the last fault came.
    slowest: Duration,
}

impl Watch<'_> {
    async fn lapse(&mut self, kind: FaultKind, fleet: &Fleet) -> anyhow::Result<Lapse> {
        let fault = match kind {
            FaultKind::Killed => Fault::Kill,
            FaultKind::Blackholed => Fault::Blackhole,
        };
        let calm_from = self.fixture.now();
        self.progress.fault(kind, "before");
        self.pass(self.schedule.before).await;
        self.progress.fault(kind, "away");
        let begun = self.fixture.now();
        self.slowest = Duration::ZERO;
        self.fixture.lab.change(VICTIM, Change::Begin(fault)).await?;
        self.pass(self.schedule.away).await;
        self.progress.fault(kind, "coming back");
        self.fixture.lab.change(VICTIM, Change::End(fault)).await?;
        let returned = self.fixture.now();
        let (ended, slowest_request) = (returned, 0.0);
        let mut lapse = Lapse { kind, calm_from, begun, returned, ended, slowest_request, past: self.past };
        while lapse.ended - returned < self.schedule.back_within.as_secs_f64() {
            self.pass(LOOK).await;
            lapse.ended = self.fixture.now();
            let share = self.schedule.back_share;
            if FaultFigures::new(&lapse, VICTIM, fleet, &self.observed, share).back_s.is_some() {
                break;
            }
        }
        self.pass(AFTERWARDS).await;
        lapse.ended = self.fixture.now();
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
                let sum = self.observed.ticks.entry(tick).or_default();
                sum.requests += add.requests;
                sum.failed += add.failed;
                for (server, reads) in add.reads {
                    *sum.reads.entry(server).or_default() += reads;
                }
            }
            self.observed.failures.extend(tally.failures.into_iter().map(|(endpoint, f)| FailedRequest {
                said: format!("{endpoint}: {}", f.said),
                kind: f.kind,
                server: f.server,
                sent: self.fixture.seconds(f.sent),
                at: self.fixture.seconds(f.at),
            }));
        }
    }
}

/// New sessions at a steady pace in each zone.
struct Probes {
    tasks: JoinSet<()>,
    observed: Arc<Mutex<Vec<Probe>>>,
}

impl Probes {
    fn start(fixture: &Fixture, apps: &Apps, every: Duration) -> Self {
        let observed = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = JoinSet::new();
        for app in apps.all() {
            tasks.spawn(probe(app.clone(), fixture.epoch, every, Arc::clone(&observed)));
        }
        Self { tasks, observed }
    }

    async fn stop(mut self) -> Vec<Probe> {
        self.tasks.shutdown().await;
        std::mem::take(&mut *self.observed.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// One new session each `every`, without waiting for the one before.
async fn probe(app: App, epoch: Instant, every: Duration, observed: Arc<Mutex<Vec<Probe>>>) {
    let mut under_way = JoinSet::new();
    let mut pace = tokio::time::interval(every);
    loop {
        pace.tick().await;
        while under_way.try_join_next().is_some() {}
        let (app, observed) = (app.clone(), Arc::clone(&observed));
        under_way.spawn(async move {
            let asked = Instant::now();
            let landed = app.probe().await.ok();
            let probe = Probe {
                asked: asked.saturating_duration_since(epoch).as_secs_f64(),
                took: asked.elapsed().as_secs_f64(),
                landed,
            };
            observed.lock().unwrap_or_else(PoisonError::into_inner).push(probe);
        });
    }
}
