//! A run: connect, warm up, drain, measure.

use crate::arrivals::Arrivals;
use crate::counts::Second;
use crate::driver::{Driver, Phase, Shared};
use crate::error::{LoadError, PlanError};
use crate::files::allow_files;
use crate::outcome::{Facts, Moment, Outcome};
use crate::tables::{StoppableSession, Way};
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

    /// With the values that its workload takes from tables; a query that runs when somebody asks for the end
    /// is ended at the server.
    fn filled(mut self, stop: &AtomicBool) -> Result<Self, LoadError> {
        let mut workload = Workload::clone(&self.workload);
        if workload.has_columns() {
            let lane = if self.target.readers.is_empty() { Lane::Writer } else { Lane::Reader };
            let peers = self.target.resolve(lane)?;
            let tls = self.target.tls_client()?;
            let way = Way::new(&peers[0], &self.target.account, tls.as_ref());
            let mut session = StoppableSession::connect(way, stop)?;
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
        Self::connect_until(plan, &AtomicBool::new(false))
    }

    /// The same; what the server is asked for before the load ends when somebody asks for the end.
    ///
    /// # Errors
    /// As [`Load::connect`], and [`LoadError::Interrupted`] or [`LoadError::StillRunning`].
    pub fn connect_until(plan: Plan, stop: &AtomicBool) -> Result<Self, LoadError> {
        plan.check()?;
        let connections = u64::from(plan.clients) + u64::from(plan.idle);
        allow_files(connections * plan.workload.lanes().count() as u64)?;
        let plan = plan.filled(stop)?;
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
/// As [`Load::connect_until`]; once the load has begun, errors are counted and end nothing.
pub fn run(
    plan: &Plan,
    stop: &Arc<AtomicBool>,
    mut progress: impl FnMut(Progress),
) -> Result<Outcome, LoadError> {
    let load = Load::connect_until(plan.clone(), stop)?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::login::Account;
    use crate::workload::file::File;
    use fleet::Address;
    use lab::scripted::{Reply, Script, ScriptedServer};
    use std::sync::Mutex;
    use std::sync::atomic::Ordering;

    const FILE: &str = r#"
name = "t"
[values]
id = "number from SELECT id FROM item"
[statements]
read = { sql = "SELECT * FROM item WHERE id = :id" }
[[transaction]]
name = "GET"
steps = ["read"]
"#;

    #[tokio::test]
    async fn whoever_asks_for_the_end_while_values_are_read_ends_their_query_at_the_server() {
        let (stop, asked) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
        let (asks, log) = (stop.clone(), asked.clone());
        let script = Script::new("8.0.39", move |statement, session| {
            log.lock().unwrap().push(statement.to_owned());
            match statement {
                "SELECT CONNECTION_ID()" => Reply::value("id", &session.connection_id.to_string()),
                "SELECT id FROM item" => {
                    asks.store(true, Ordering::Relaxed);
                    Reply::error(1317, "Query execution was interrupted").after(Duration::from_millis(300))
                }
                _ if statement.contains("PROCESSLIST") => Reply::value("ID", "1"),
                _ if statement.starts_with("KILL QUERY") => Reply::Ok,
                _ => Reply::Usual,
            }
        });
        let server = ScriptedServer::start(script).await.unwrap();
        let account = Account { user: "load".to_owned(), ..Account::default() };
        let target = Target::single(Address::tcp("127.0.0.1", server.address().port()), account);
        let workload = File::parse(FILE, "t.toml").unwrap().workload;
        let plan = Plan::new(workload.into(), target, 1, Duration::from_secs(1));
        let ended = tokio::task::spawn_blocking(move || run(&plan, &stop, |_| ()).map(|_| ()));
        let ended = ended.await.unwrap();
        assert!(matches!(ended, Err(LoadError::Interrupted)), "{ended:?}");
        let asked = asked.lock().unwrap().clone();
        assert_eq!(asked.last().unwrap(), "KILL QUERY 1", "{asked:?}");
    }
}
