//! What was asked of the moves and what came of them.

use super::super::promise::{self, Promise};
use super::SwitchoverBenchArgs;
use super::history::Anomalies;
use super::under_writes::{errors_and_remarks, nothing_lost, quantile, times};
use ::switchover::perform::{Routers, StepTime};
use probe::Machine;
use serde::Serialize;
use std::collections::BTreeMap;

/// Half of the moves stall no client for longer, milliseconds.
const P50_MS: f64 = 300.0;
/// Of a hundred moves one may stall a client for longer, milliseconds.
const P99_MS: f64 = 1000.0;

/// One move.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Move {
    pub(super) number: u32,
    pub(super) candidate: String,
    pub(super) done: bool,
    /// From the hold to the release, milliseconds.
    pub(super) held_ms: Option<f64>,
    /// What the client that fared worst waited for a transaction, from when it should have begun,
    /// milliseconds.
    pub(super) waited_ms: Option<f64>,
    pub(super) steps: Vec<StepTime>,
    pub(super) routers: Routers,
    pub(super) remarks: Vec<String>,
}

/// All that is kept of a run.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    date: String,
    machine: Machine,
    warnings: Vec<String>,
    clients: u32,
    rate: f64,
    zero_hop: bool,
    transactions: u64,
    anomalies: Anomalies,
    /// What clients were told that was no success, by kind.
    errors: BTreeMap<String, u64>,
    pub(super) promises: Vec<Promise>,
    moves: Vec<Move>,
}

impl Report {
    pub(super) fn new(
        date: &str,
        machine: Machine,
        args: &SwitchoverBenchArgs,
        moves: Vec<Move>,
        anomalies: Anomalies,
        errors: BTreeMap<String, u64>,
        transactions: u64,
    ) -> Self {
        let mut warnings = machine.warnings();
        if args.writes.quick {
            warnings.push("a smoke run: it shows that everything works, not how fast".to_owned());
        }
        let promises = promises(&moves, &anomalies, &errors, transactions);
        let (clients, rate, zero_hop) = (args.writes.clients, args.writes.rate, args.zero_hop);
        let date = date.to_owned();
        Self {
            date,
            machine,
            warnings,
            clients,
            rate,
            zero_hop,
            transactions,
            anomalies,
            errors,
            promises,
            moves,
        }
    }

    pub(super) fn markdown(&self) -> String {
        let way = if self.zero_hop { "sessions bypass the routers" } else { "relayed" };
        let mut text = format!(
            "# The primary moved {} times, {}, {} transactions a second over {} clients, two routers, {way}\n\n{}\n\n",
            self.moves.len(),
            self.date,
            self.rate,
            self.clients,
            self.machine.line()
        );
        for warning in &self.warnings {
            text.push_str(&format!("**{warning}**\n\n"));
        }
        text.push_str(&promise::table(&self.promises));
        let figures = [
            ("the client that fared worst waited, ms", self.of(|m| m.waited_ms)),
            ("writes were held, ms", self.of(|m| m.held_ms)),
        ];
        let rows = figures.into_iter().map(|(name, values)| (name.to_owned(), values));
        text.push_str(&times("Each move", rows));
        let mut steps: BTreeMap<_, Vec<f64>> = BTreeMap::new();
        for took in self.moves.iter().flat_map(|m| &m.steps).filter(|took| !took.undo) {
            steps.entry(took.step).or_default().push(took.ms);
        }
        text.push_str(&times(
            "Steps, ms",
            steps.into_iter().map(|(step, values)| (step.to_string(), values)),
        ));
        let remarks = self.moves.iter().map(|m| (m.number, m.remarks.as_slice()));
        text.push_str(&errors_and_remarks(&self.errors, "move", remarks));
        text.push_str(
            "A client's wait counts from when its transaction should have begun to its answer, for all that were due \
             during a move.\nWhat clients were told is held against the rows of every server by a checker of its own.\n",
        );
        text
    }

    fn of(&self, figure: impl Fn(&Move) -> Option<f64>) -> Vec<f64> {
        self.moves.iter().filter_map(figure).collect()
    }
}

fn promises(
    moves: &[Move],
    anomalies: &Anomalies,
    errors: &BTreeMap<String, u64>,
    transactions: u64,
) -> Vec<Promise> {
    let done = moves.iter().filter(|m| m.done).count();
    let waited: Vec<f64> = moves.iter().filter_map(|m| m.waited_ms).collect();
    let topology = moves.iter().filter(|m| !m.remarks.is_empty()).count();
    let told: u64 = errors.values().sum();
    let within = |share: f64, most: f64| {
        let found = quantile(&waited, share);
        (
            found.map_or("nothing measured".to_owned(), |ms| format!("{ms:.0} ms")),
            found.is_some_and(|ms| ms <= most),
        )
    };
    let (p50, p50_met) = within(0.5, P50_MS);
    let (p99, p99_met) = within(0.99, P99_MS);
    vec![
        Promise::new("every move is done", format!("{done} of {}", moves.len()), done == moves.len()),
        nothing_lost(anomalies, transactions),
        Promise::new(
            "one writer, everybody follows it, nobody has anything of its own after each move",
            format!("{topology} moves with a remark"),
            topology == 0,
        ),
        Promise::new(&format!("clients wait at most {P50_MS:.0} ms in half of the moves"), p50, p50_met),
        Promise::new(&format!("and at most {P99_MS:.0} ms in 99 of 100"), p99, p99_met),
        Promise::new(
            "no error for clients with a validating pool",
            format!("{told} of {transactions}"),
            told == 0,
        ),
    ]
}
