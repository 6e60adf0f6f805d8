//! A run: connect, warm up, drain, measure.

use crate::arrivals::Arrivals;
use crate::counts::Second;
use crate::driver::{Driver, Phase, Shared};
use crate::error::{LoadError, PlanError};
use crate::files::allow_files;
use crate::outcome::{Facts, Moment, Outcome};
use crate::session::Session;
use crate::target::Target;
use crate::workload::{Lane, Workload};
use config::DataPath;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// What a run is asked for.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What to send.
    pub workload: Arc<Workload>,
    pub target: Target,
    /// Clients: the most transactions at a time.
    pub clients: u32,
    /// Connections beyond one for each client: that many are idle at any time, and all take turns.
    pub idle: u32,
    /// Every session is read-only for the server too, and a workload that changes data is refused.
    pub read_only: bool,
    /// Threads that send; see [`Plan::usual_threads`].
    pub threads: usize,
    /// Threads never sleep: each looks for answers and arrivals again and again, and needs a core of its own.
    /// A core that sleeps takes some 50 us to wake up, and as long again when an answer comes.
    pub busy: bool,
    /// How bytes get to the servers and back; [`DataPath::Auto`] for all but tests and comparisons.
    pub data_path: DataPath,
    pub arrivals: Arrivals,
    /// Load before the measurement, not counted; its queue is drained before the measurement begins.
    pub warm_up: Duration,
    /// Length of the measurement.
    pub time: Duration,
    /// What is due before the end may be answered this much later.
    pub grace: Duration,
    /// From which keys and moments follow.
    pub seed: u64,
    /// Answers later than this are counted as late.
    pub objective: Option<Duration>,
}

/// From which the moments and the keys of a stretch of load follow. A number alone is both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seed {
    /// When transactions are due in an open loop.
    pub moments: u64,
    /// What each transaction draws.
    pub keys: u64,
}

impl From<u64> for Seed {
    fn from(seed: u64) -> Self {
        Self { moments: seed, keys: seed }
    }
}

/// How a run comes along.
#[derive(Clone, Debug, PartialEq)]
pub enum Progress {
    /// All clients are connected.
    Connected,
    /// A second of the warm-up is over.
    WarmingUp(Moment),
    /// A second of the measurement is over.
    Measuring(Moment),
}

/// Threads begin this long after they are reported to, so that all begin together.
const LEAD: Duration = Duration::from_millis(5);

impl Plan {
    /// One that is measured from its first second, with one Poisson arrival a second: what most callers
    /// change are the arrivals. Sessions may write.
    pub fn new(workload: Arc<Workload>, target: Target, clients: u32, time: Duration) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            workload,
            target,
            clients,
            idle: 0,
            read_only: false,
            threads: Self::usual_threads(clients, cores),
            busy: false,
            data_path: DataPath::Auto,
            arrivals: Arrivals::poisson(1.0),
            warm_up: Duration::ZERO,
            time,
            grace: Duration::from_secs(2),
            seed: 1,
            objective: None,
        }
    }

    /// Threads for this many clients: one for every 64 clients, at most one a core and at least one. A single
    /// thread serves many clients cheaper than several do, because one wait brings the answers of many.
    pub fn usual_threads(clients: u32, cores: usize) -> usize {
        (clients as usize).div_ceil(64).clamp(1, cores.max(1))
    }

    fn check(&self) -> Result<(), LoadError> {
        let fault = match &self.arrivals {
            _ if self.clients == 0 => PlanError::NoClients,
            _ if self.threads == 0 => PlanError::NoThreads,
            _ if self.read_only && self.workload.writes => {
                PlanError::WritesRefused { workload: self.workload.name.clone() }
            }
            _ if self.time.is_zero() => PlanError::NoTime,
            Arrivals::Open(open) if !(open.rate > 0.0 && open.rate.is_finite()) => PlanError::Rate,
            _ => return Ok(()),
        };
        Err(fault.into())
    }

    /// With the values that its workload takes from tables.
    fn filled(mut self) -> Result<Self, LoadError> {
        let mut workload = Workload::clone(&self.workload);
        if workload.has_columns() {
            let lane = if self.target.readers.is_empty() { Lane::Writer } else { Lane::Reader };
            let peers = self.target.resolve(lane)?;
            let tls = self.target.tls_client()?;
            let mut session = Session::connect(peers[0].clone(), &self.target.account, tls.as_ref())?;
            workload.fill(|sql| session.column(sql))?;
            self.workload = workload.into();
        }
        Ok(self)
    }
}

/// A load generator whose clients are connected.
#[derive(Debug)]
pub struct Load {
    plan: Plan,
    driver: Driver,
}

impl Load {
    /// Connects all clients.
    ///
    /// # Errors
    /// A plan that makes no sense, or whatever keeps a client from logging in and preparing its statements.
    pub fn connect(plan: Plan) -> Result<Self, LoadError> {
        plan.check()?;
        let connections = u64::from(plan.clients) + u64::from(plan.idle);
        allow_files(connections * plan.workload.lanes().count() as u64)?;
        let plan = plan.filled()?;
        let shared = Shared::new(&plan)?;
        let threads = plan.threads.min(plan.clients as usize);
        let driver = Driver::start(shared, threads)?;
        Ok(Self { plan, driver })
    }

    /// Sends for a while with these arrivals. May be called again: each time begins with nothing in flight.
    ///
    /// # Errors
    /// Only a fault of our own; whatever the server does is counted.
    pub fn send(
        &self,
        arrivals: &Arrivals,
        time: Duration,
        seed: impl Into<Seed>,
        stop: &Arc<AtomicBool>,
        mut each_second: impl FnMut(Moment),
    ) -> Result<Outcome, LoadError> {
        let seed = seed.into();
        let start_ns = self.driver.shared().now_ns() + as_ns(LEAD);
        let end_ns = start_ns + as_ns(time);
        let phase = Phase {
            start_ns,
            end_ns,
            grace_ns: end_ns + as_ns(self.plan.grace),
            arrivals: arrivals.clone(),
            seed,
            objective_ns: self.plan.objective.map(as_ns),
            stop: stop.clone(),
        };
        let mut series: BTreeMap<u64, (usize, Second)> = BTreeMap::new();
        let threads = self.plan.threads.min(self.plan.clients as usize);
        let counts = self.driver.run(&phase, |second| {
            let (reported, whole) =
                series.entry(second.index).or_insert_with(|| (0, Second::new(second.index)));
            whole.add(&second);
            *reported += 1;
            if *reported == threads {
                each_second(Moment::of(whole));
            }
        })?;
        let series = series.into_iter().map(|(index, (_, second))| (index, second)).collect();
        let seconds = counts.wall_ns.min(as_ns(time) * threads as u64) as f64 / threads as f64 / 1e9;
        Ok(Outcome::of(&Facts {
            workload: &self.plan.workload,
            arrivals,
            clients: self.plan.clients,
            idle: self.plan.idle,
            threads,
            data_path: self.driver.data_path(),
            why_not_ring: self.driver.why_not_ring(),
            seed: seed.moments,
            seconds,
            counts: &counts,
            series: &series,
        }))
    }
}

/// Connects, warms up, drains and measures.
///
/// # Errors
/// As [`Load::connect`]; once the load has begun, errors are counted and end nothing.
pub fn run(
    plan: &Plan,
    stop: &Arc<AtomicBool>,
    mut progress: impl FnMut(Progress),
) -> Result<Outcome, LoadError> {
    let load = Load::connect(plan.clone())?;
    progress(Progress::Connected);
    if !plan.warm_up.is_zero() {
        // Other keys than the measurement's: a warm-up with the same ones would put exactly those into the
        // cache.
        let seed = plan.seed.wrapping_add(1 << 32);
        load.send(&plan.arrivals, plan.warm_up, seed, stop, |second| {
            progress(Progress::WarmingUp(second));
        })?;
    }
    load.send(&plan.arrivals, plan.time, plan.seed, stop, |second| progress(Progress::Measuring(second)))
}

fn as_ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
