//! A ladder of rates sent to a server, from little to half of what it can do: what the models are fitted to.
//! Nothing is driven to its limit, so that what is predicted beyond was not seen.
//!
//! First a few seconds of one client tell what a transaction costs; the rates follow from it as shares of
//! what all cores could do. Each rate is sent in several rounds in turn, up and down, so that a slow minute
//! of the machine does not fall on one rate alone.

use crate::load_point::LoadPoint;
use crate::server::{Process, Server};
use load::arrivals::{Arrivals, Open, Spacing};
use load::{Load, LoadError, Plan};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Shares of what the cores could do, unless rates are named.
pub const SHARES: [f64; 5] = [0.10, 0.20, 0.30, 0.40, 0.50];

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
    /// It was ended.
    #[error("interrupted; nothing was kept")]
    Interrupted,
}

/// What was seen, step by step, and the server's cores.
#[derive(Clone, Debug)]
pub struct Climbed {
    pub seen: Vec<LoadPoint>,
    pub cores: u32,
    /// What to know beside the figures.
    pub notes: Vec<String>,
}

impl Ladder {
    /// How long it takes, about.
    pub fn length(&self) -> Duration {
        let steps =
            self.rates.len().max(if self.rates.is_empty() { SHARES.len() } else { 0 }) + self.clients.len();
        self.step * (u32::try_from(steps).unwrap_or(u32::MAX).saturating_mul(self.rounds) + 1)
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
        let process = server.and_then(|server| server.process().ok().flatten());
        let here = || {
            std::thread::available_parallelism().map_or(1, |cores| u32::try_from(cores.get()).unwrap_or(1))
        };
        let cores = self.cores.or(process.as_ref().map(|process| process.cores)).unwrap_or_else(here);
        let mut notes = Vec::new();
        if process.is_none() {
            notes.push(format!(
                "the server's process is not on this machine: how busy its cores are is not known, and {cores} cores are assumed (--cores)"
            ));
        }
        let load = Load::connect(plan.clone())?;
        let one = Load::connect(Plan { clients: 1, threads: 1, ..plan.clone() })?;
        let closed = Arrivals::Closed { think: Duration::ZERO };
        each("one client, to see what a transaction costs");
        let first = step(&one, &closed, self.step, 1, process.as_ref(), cores, stop)?;
        let first = first.map_err(|_| LadderError::Nothing(self.step))?;
        let busy = first.busy.map_or(1.0, |busy| busy * f64::from(cores)).max(0.05);
        // What one client gets done in a second of a core, times the cores.
        let full = first.per_s / busy.min(1.0) * f64::from(cores);
        let rates = if self.rates.is_empty() {
            SHARES.map(|share| share * full).to_vec()
        } else {
            self.rates.clone()
        };
        let mut seen = vec![first];
        for round in 0..self.rounds {
            let mut order = rates.clone();
            if round % 2 == 1 {
                order.reverse();
            }
            for (at, rate) in order.into_iter().enumerate() {
                each(&format!("round {} of {}: {rate:.0} a second", round + 1, self.rounds));
                let arrivals = Arrivals::Open(Open { rate, ramp: None, spacing: Spacing::Poisson });
                let seed = u64::from(round) * 100 + at as u64 + 2;
                match step(&load, &arrivals, self.step, seed, process.as_ref(), cores, stop)? {
                    Ok(one) => seen.push(one),
                    Err(why) => notes
                        .push(format!("{rate:.0} a second: the step was not sound and is left out: {why}")),
                }
            }
            for clients in &self.clients {
                each(&format!(
                    "round {} of {}: {clients} client(s) in a closed loop",
                    round + 1,
                    self.rounds
                ));
                let many = Load::connect(Plan { clients: *clients, ..plan.clone() })?;
                seen.extend(step(
                    &many,
                    &closed,
                    self.step,
                    u64::from(*clients),
                    process.as_ref(),
                    cores,
                    stop,
                )?);
            }
        }
        Ok(Climbed { seen, cores, notes })
    }
}

/// One step, or why its figures must not be used.
fn step(
    load: &Load,
    arrivals: &Arrivals,
    time: Duration,
    seed: u64,
    process: Option<&Process>,
    cores: u32,
    stop: &Arc<AtomicBool>,
) -> Result<Result<LoadPoint, String>, LadderError> {
    let (before, began) = (process.and_then(Process::cpu_s), Instant::now());
    let outcome = load.send(arrivals, time, seed, stop, |_| {})?;
    let took = began.elapsed().as_secs_f64();
    if stop.load(Ordering::Relaxed) {
        return Err(LadderError::Interrupted);
    }
    let used = before.zip(process.and_then(Process::cpu_s)).map(|(before, after)| after - before);
    let busy = used.map(|used| (used / took / f64::from(cores)).clamp(0.0, 1.0));
    let why = || match outcome.void.is_empty() {
        true => "no transaction ended well".to_owned(),
        false => outcome.void.join("; "),
    };
    Ok(LoadPoint::of_run(&outcome, busy).ok_or_else(why))
}
