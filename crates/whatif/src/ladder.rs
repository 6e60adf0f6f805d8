//! A ladder of rates sent to a server, from little to half of what it can do: what the models are fitted to.
//! Nothing is driven to its limit, so that what is predicted beyond was not seen.
//!
//! First a few seconds of one client tell what a transaction costs; the rates follow from it as shares of
//! what all cores could do. Each rate is sent in several rounds in turn, up and down, so that a slow minute
//! of the machine does not fall on one rate alone.
//!
//! What others make the server do costs CPU and reads too. A look before the first step measures it, and it
//! is taken off what each step cost; where it is much, there is no ladder.

use crate::baseline::Baseline;
use crate::disks;
use crate::load_point::{LoadPoint, Observations, is_overloaded};
use crate::server::{Process, Server, ServerError};
use crate::words::figure;
use config::Credentials;
use load::arrivals::{Arrivals, Open, Spacing};
use load::{Load, LoadError, Plan};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Shares of what the cores could do, unless rates are named.
pub const SHARES: [f64; 5] = [0.10, 0.20, 0.30, 0.40, 0.50];

/// Seconds of the look at what others make the server do, where their statements need no longer one.
const LOOK_S: u32 = 3;
/// Of the server's CPUs: where others use more, their ups and downs would be taken for what a transaction
/// costs.
const MOST_OTHERS: f64 = 0.20;
/// From this share on it is told.
const SOME_OTHERS: f64 = 0.02;

/// How it is sent.
#[derive(Clone, Debug)]
pub struct Ladder {
    /// Length of a step.
    pub step: Duration,
    /// Rounds of all steps.
    pub rounds: u32,
    /// Named rates; empty: [`SHARES`].
    pub rates: Vec<f64>,
    /// Closed loops of these numbers of clients too, for the scalability law; these do load the server fully.
    pub clients: Vec<u32>,
    /// Cores of the server, where it does not run here.
    pub cores: Option<u32>,
    /// Reads a second of its disk at most, where that is known: rates stay below half of it too.
    pub disk_reads_per_s: Option<f64>,
    /// Seconds for which the statements of others are counted before the first step, for today's load; at
    /// least 3. `None`: today's load is named elsewhere.
    pub count_others_s: Option<u32>,
}

/// Whom a step watches while it is sent.
struct Watched<'a> {
    server: Option<&'a mut Server>,
    process: Option<Process>,
    /// CPU seconds a second that the server may use.
    cpus: f64,
    /// What it does for others meanwhile.
    others: Others,
    stop: &'a Arc<AtomicBool>,
}

/// What a server does for others, a second.
#[derive(Clone, Debug, Default)]
struct Others {
    /// Statements in each second of the look.
    statements: Vec<f64>,
    /// CPU seconds.
    cpu_s: f64,
    /// Pages read from its disk.
    reads: f64,
}

/// Why there are no steps.
#[derive(Debug, thiserror::Error)]
pub enum LadderError {
    /// The load cannot be sent.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The first look found nothing.
    #[error("one client got no transaction done within {} s; look at headroom load run", .0.as_secs())]
    Nothing(Duration),
    /// Others use the server too much.
    #[error(
        "others keep {:.0} % of the server's CPUs busy (at most {:.0} %): what a transaction costs cannot be told from what theirs cost; ask again when they are quiet, or at a server of its own",
        .share * 100.0, MOST_OTHERS * 100.0
    )]
    Others {
        /// Of the CPUs that it may use.
        share: f64,
    },
    /// Its settings are not known.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// It was ended.
    #[error("interrupted; nothing was kept")]
    Interrupted,
}

/// What was seen, step by step, and the server's cores.
#[derive(Clone, Debug)]
pub struct Climbed {
    pub seen: Vec<LoadPoint>,
    pub cores: u32,
    /// Today's load, where it was asked for and the server is not idle.
    pub today: Option<Baseline>,
    /// What to know beside the figures.
    pub notes: Vec<String>,
}

/// A server under a ladder.
#[derive(Clone, Debug)]
pub struct ServerObservations {
    pub of: Observations,
    pub cores: u32,
    /// Waits of a transaction until a log is durable, one after the other.
    pub flushes: f64,
}

impl Ladder {
    /// Sends it to the server that the plan reads from, and asks that for its process and its settings as
    /// `who`, where it lets us. `subject`: the server, in words. Blocks.
    ///
    /// # Errors
    /// See [`LadderError`].
    pub fn observe(
        &self,
        plan: &Plan,
        who: &Credentials,
        subject: String,
        stop: &Arc<AtomicBool>,
        each: impl FnMut(&str),
    ) -> Result<ServerObservations, LadderError> {
        let address = plan.target.readers.first().or(plan.target.writers.first());
        let mut server = address.and_then(|address| Server::open(address, who).ok());
        let Climbed { seen, cores, today, notes } = self.climb(plan, server.as_mut(), stop, each)?;
        let writes = plan.workload.writes;
        let flushes = server.as_mut().map(|server| disks::flushes(server, writes)).transpose()?;
        let of = Observations { today, notes, ..Observations::of(subject, plan.workload.in_words(), seen) };
        Ok(ServerObservations { of, cores, flushes: flushes.unwrap_or(0.0) })
    }

    /// Seconds of the look at what others do.
    fn look_s(&self) -> u32 {
        self.count_others_s.unwrap_or(0).max(LOOK_S)
    }

    /// How long it takes, about.
    pub fn length(&self) -> Duration {
        let steps =
            self.rates.len().max(if self.rates.is_empty() { SHARES.len() } else { 0 }) + self.clients.len();
        let count = Duration::from_secs(self.look_s().into());
        count + self.step * (u32::try_from(steps).unwrap_or(u32::MAX).saturating_mul(self.rounds) + 1)
    }

    /// Sends it. `server` is asked where its process is, so that its CPU time can be read.
    ///
    /// # Errors
    /// See [`LadderError`].
    pub fn climb(
        &self,
        plan: &Plan,
        server: Option<&mut Server>,
        stop: &Arc<AtomicBool>,
        mut each: impl FnMut(&str),
    ) -> Result<Climbed, LadderError> {
        let mut server = server;
        let process = server.as_deref_mut().and_then(|server| server.process().ok().flatten());
        let here = || {
            std::thread::available_parallelism().map_or(1, |cores| u32::try_from(cores.get()).unwrap_or(1))
        };
        let named = self.cores.map(f64::from);
        let cpus =
            named.or(process.as_ref().map(Process::cpus)).unwrap_or_else(|| f64::from(here())).max(0.01);
        // The model has whole cores: those of a quota are slower ones, that together do what it allows.
        let cores = cpus.ceil() as u32;
        let mut notes = Vec::new();
        notes.extend(process.as_ref().and_then(|process| quota_note(process, cores, named.is_some())));
        if process.is_none() {
            notes.push(elsewhere_note(cores));
        }
        let mut watched = Watched { server, process, cpus, others: Others::default(), stop };
        let mut others = None;
        if watched.server.is_some() {
            each("nothing is sent yet: what the server does for others is measured");
            if let Some(found) = watched.look(self.look_s())? {
                notes.extend(found.bearable(cpus)?);
                others = self.count_others_s.map(|_| found.statements.clone());
                watched.others = found;
            }
        }
        let load = Load::connect_until(plan.clone(), watched.stop)?;
        let one = Load::connect_until(Plan { clients: 1, threads: 1, ..plan.clone() }, watched.stop)?;
        let closed = Arrivals::Closed { think: Duration::ZERO };
        each("one client, to see what a transaction costs");
        let before = watched.statements();
        let first = watched.step(&one, &closed, self.step, 1)?;
        let statements = before.zip(watched.statements()).map(|(before, after)| after - before);
        let first = first.map_err(|_| LadderError::Nothing(self.step))?;
        let busy = first.busy.map_or(1.0, |busy| busy * cpus).max(0.05);
        // What one client gets done in a second of a core, times the cores.
        let by_cores = first.per_s / busy.min(1.0) * cpus;
        let today = others.as_ref().zip(statements).and_then(|(others, all)| {
            let step_s = self.step.as_secs_f64();
            let each = statements_each(all, others, step_s, first.per_s * step_s);
            Baseline::of_statements(others, each, by_cores)
        });
        if let Some(others) = others.filter(|_| today.is_none()) {
            let most = others.iter().copied().fold(0.0, f64::max);
            notes.push(format!(
                "others sent at most {} statements a second before the first step: the server is idle or its rate too unsteady, and today's load is not known (--current names it)",
                figure(most)
            ));
        }
        let reads = self.disk_reads_per_s.zip(first.reads_each.filter(|reads| *reads > 0.0));
        let full = reads.map_or(by_cores, |(most, each)| by_cores.min(most / each));
        let rates = if self.rates.is_empty() {
            SHARES.map(|share| share * full).to_vec()
        } else {
            self.rates.clone()
        };
        let (mut seen, mut left_out) = (vec![first], 0);
        for round in 0..self.rounds {
            let mut order = rates.clone();
            if round % 2 == 1 {
                order.reverse();
            }
            for (at, rate) in order.into_iter().enumerate() {
                each(&format!("round {} of {}: {rate:.0} transactions a second", round + 1, self.rounds));
                let arrivals = Arrivals::Open(Open { rate, ramp: None, spacing: Spacing::Poisson });
                let seed = u64::from(round) * 100 + at as u64 + 2;
                match watched.step(&load, &arrivals, self.step, seed)? {
                    Ok(one) => seen.push(one),
                    Err(why) => {
                        left_out += 1;
                        each(&format!("the step was not sound and is left out: {why}"));
                    }
                }
            }
            for clients in &self.clients {
                each(&format!(
                    "round {} of {}: {clients} client(s) in a closed loop",
                    round + 1,
                    self.rounds
                ));
                let many = Load::connect_until(Plan { clients: *clients, ..plan.clone() }, watched.stop)?;
                match watched.step(&many, &closed, self.step, u64::from(*clients))? {
                    Ok(one) => seen.push(one),
                    Err(why) => {
                        left_out += 1;
                        each(&format!("the step was not sound and is left out: {why}"));
                    }
                }
            }
        }
        if left_out > 0 {
            notes.push(format!(
                "{left_out} of {} steps were not sound and are left out",
                seen.len() + left_out
            ));
        }
        Ok(Climbed { seen, cores, today, notes })
    }
}

/// What is said where the server's process is not seen: what others use of its CPUs is then not known, and
/// not none.
fn elsewhere_note(cores: u32) -> String {
    format!(
        "the server's process is not known to be on this machine: how busy its cores are and what others use of them is not known, and {cores} cores are assumed (--cores); ask when nobody else uses it"
    )
}

/// What is said of a quota that binds before the CPUs that the server may run on.
fn quota_note(process: &Process, cores: u32, named: bool) -> Option<String> {
    let quota = process.quota.as_ref()?;
    let (cpus, place, allowed) = (figure(quota.cpus), quota.cgroup.display(), process.allowed);
    let taken = if named {
        "--cores takes its place".to_owned()
    } else {
        format!(
            "{cores} core(s) that together do the work of {cpus} are assumed, and other numbers of cores are multiples of these"
        )
    };
    Some(format!(
        "a quota of {cpus} CPUs at {place} binds before the {allowed} CPUs that the server may run on: {taken}"
    ))
}

impl Others {
    /// What is said of them; an error where they use too much of the CPUs.
    fn bearable(&self, cpus: f64) -> Result<Option<String>, LadderError> {
        let share = self.cpu_s / cpus;
        if share > MOST_OTHERS {
            return Err(LadderError::Others { share });
        }
        Ok((share >= SOME_OTHERS).then(|| {
            format!(
                "others kept {:.0} % of the server's CPUs busy before the first step; that is taken off what each step cost",
                share * 100.0
            )
        }))
    }
}

/// Statements of a transaction: all that were counted during a step of this length, less our own three
/// questions and what others send in that time.
fn statements_each(all: f64, others: &[f64], step_s: f64, transactions: f64) -> f64 {
    let others = others.iter().sum::<f64>() / others.len().max(1) as f64 * step_s;
    if transactions > 0.0 { (all - 3.0 - others) / transactions } else { 0.0 }
}

impl Watched<'_> {
    /// One step, or why its figures must not be used.
    fn step(
        &mut self,
        load: &Load,
        arrivals: &Arrivals,
        time: Duration,
        seed: u64,
    ) -> Result<Result<LoadPoint, String>, LadderError> {
        let (before, began) = (self.cpu_s(), Instant::now());
        let reads_before = self.reads();
        let outcome = load.send(arrivals, time, seed, self.stop, |_| {})?;
        let reads = reads_before.zip(self.reads()).map(|(before, after)| after - before);
        let took = began.elapsed().as_secs_f64();
        if self.stop.load(Ordering::Relaxed) {
            return Err(LadderError::Interrupted);
        }
        let reads = reads.map(|reads| (reads - self.others.reads * took).max(0.0));
        let used = before.zip(self.cpu_s()).map(|(before, after)| after - before - self.others.cpu_s * took);
        let busy = used.map(|used| (used / took / self.cpus).clamp(0.0, 1.0));
        let why = || match outcome.void.is_empty() {
            true if is_overloaded(&outcome) => "the rate is more than the server takes".to_owned(),
            true => "no transaction ended well".to_owned(),
            false => outcome.void.join("; "),
        };
        let done = outcome.totals.per_second * time.as_secs_f64();
        let reads_each = reads.filter(|_| done > 0.0).map(|reads| reads / done);
        Ok(LoadPoint::of_run(&outcome, busy).map(|point| LoadPoint { reads_each, ..point }).ok_or_else(why))
    }

    /// What the server does for others in some seconds; `None` where it does not answer.
    fn look(&mut self, seconds: u32) -> Result<Option<Others>, LadderError> {
        let mut counts = Vec::new();
        let (began, cpu_before, reads_before) = (Instant::now(), self.cpu_s(), self.reads());
        let mut last = self.statements().map(|count| (count, Instant::now()));
        for _ in 0..seconds {
            std::thread::sleep(Duration::from_secs(1));
            if self.stop.load(Ordering::Relaxed) {
                return Err(LadderError::Interrupted);
            }
            let now = self.statements().map(|count| (count, Instant::now()));
            let Some(((before, began), (after, ended))) = last.zip(now) else { return Ok(None) };
            // Asking is a statement, too.
            counts.push((after - before - 1.0).max(0.0) / (ended - began).as_secs_f64());
            last = now;
        }
        let took = began.elapsed().as_secs_f64();
        let a_second = |before: Option<f64>, after: Option<f64>| {
            before.zip(after).map_or(0.0, |(before, after)| (after - before).max(0.0) / took)
        };
        let (cpu_s, reads) = (a_second(cpu_before, self.cpu_s()), a_second(reads_before, self.reads()));
        Ok(Some(Others { statements: counts, cpu_s, reads }))
    }

    /// Statements that clients have sent to the server; `None` where it does not answer.
    fn statements(&mut self) -> Option<f64> {
        self.counter("Questions")
    }

    fn cpu_s(&self) -> Option<f64> {
        self.process.as_ref().and_then(Process::cpu_s)
    }

    /// Pages that the server has read from its disk; `None` where it does not answer.
    fn reads(&mut self) -> Option<f64> {
        self.counter("Innodb_buffer_pool_reads")
    }

    fn counter(&mut self, name: &str) -> Option<f64> {
        self.server.as_deref_mut()?.counters(&[name]).ok()?.get(name).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_use_is_told_and_too_much_of_it_is_refused() {
        let of = |cpu_s: f64| Others { cpu_s, ..Others::default() }.bearable(4.0);
        assert!(of(0.04).unwrap().is_none());
        assert!(of(0.4).unwrap().unwrap().starts_with("others kept 10 %"));
        assert!(of(1.2).unwrap_err().to_string().starts_with("others keep 30 %"));
    }

    #[test]
    fn of_a_server_elsewhere_what_others_use_is_not_known_and_not_none() {
        let note = elsewhere_note(4);
        assert!(note.contains("what others use of them is not known, and 4 cores"), "{note}");
    }

    #[test]
    fn statements_of_a_transaction_are_those_that_neither_others_nor_we_sent() {
        assert!((statements_each(1703.0, &[100.0, 100.0], 2.0, 100.0) - 15.0).abs() < 1e-9);
        assert_eq!(statements_each(3.0, &[0.0], 2.0, 0.0), 0.0);
    }
}
