//! The report of a run: every cell with its seconds, the ratios, and what was asked.

use crate::promise::{Promise, all_met, table};
use probe::Machine;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The share of what was asked for that has to be answered.
const KEPT_UP: f64 = 0.95;

/// One way in one round.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Cell {
    pub(super) part: String,
    pub(super) round: u32,
    pub(super) way: String,
    /// Of the slow reader, beside the others.
    pub(super) speed: f64,
    /// Statements a second that all readers answer together at full speed.
    pub(super) carried_per_s: f64,
    /// Statements a second that were asked for, in an open loop, and how long that was measured.
    pub(super) asked_per_s: Option<f64>,
    pub(super) seconds: u64,
    pub(super) answers: usize,
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
    /// The same before the reader was restarted, in the part `cold`.
    pub(super) before_p99_ms: Option<f64>,
    /// Answered by each reader while it was measured, by its own count.
    pub(super) statements: BTreeMap<String, u64>,
    /// Share of the commands that left their zone.
    pub(super) crossing: f64,
    pub(super) errors: Vec<String>,
    /// The second at which the reader became slow, and that at which it was as fast as the others again.
    pub(super) slow_at_s: usize,
    pub(super) recovered_at_s: usize,
    pub(super) series: Vec<Second>,
}

/// What the first router says of the slow reader, and what clients see, in one second.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Second {
    pub(super) share: f64,
    pub(super) speed: f64,
    pub(super) warmth: f64,
    /// The lowest factor of any reader.
    pub(super) least_speed: f64,
    pub(super) sessions: u64,
    /// Sessions moved for balance, ever.
    pub(super) moved: u64,
    pub(super) p99_ms: f64,
}

/// A run.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Report {
    date: String,
    machine: Machine,
    asked: f64,
    full: f64,
    pub(super) cells: Vec<Cell>,
}

impl Cell {
    pub(super) fn new(part: &str, round: u32, way: &str, speed: f64) -> Self {
        Self { part: part.to_owned(), round, way: way.to_owned(), speed, ..Self::default() }
    }

    /// What the busiest reader answered over the mean, each beside its weight.
    fn busiest(&self) -> f64 {
        let weight = |name: &str| if self.way == "a2 weighs 0.5" && name == "a2" { 0.5 } else { 1.0 };
        let loads: Vec<f64> = self.statements.iter().map(|(name, n)| *n as f64 / weight(name)).collect();
        let all: f64 = self.statements.values().map(|n| *n as f64).sum();
        let weights: f64 = self.statements.keys().map(|name| weight(name)).sum();
        loads.iter().fold(0.0, |a: f64, b| a.max(*b)) / (all / weights).max(1.0)
    }

    /// Whether less than [`KEPT_UP`] of what was asked for was answered: then its times are of a queue that
    /// grows for as long as it is measured.
    fn fell_behind(&self) -> bool {
        self.asked_per_s.is_some_and(|asked| (self.answers as f64) < KEPT_UP * asked * self.seconds as f64)
    }

    /// Seconds until the slow reader's share is within a fifth of its worth and stays there.
    fn converged_s(&self) -> f64 {
        let worth = self.speed / (2.0 + self.speed);
        let seen = &self.series[self.slow_at_s..self.recovered_at_s];
        let least = (0.25 / 2.25f64).max(worth);
        seen.iter()
            .rposition(|s| s.share > 1.2 * least || s.share < 0.8 * worth)
            .map_or(0.0, |at| at as f64 + 1.0)
    }

    /// Seconds from its recovery until its share is back.
    fn back_s(&self) -> Option<f64> {
        let seen = self.series.get(self.recovered_at_s..).filter(|seen| !seen.is_empty())?;
        Some(seen.iter().position(|s| s.share > 0.95 / 3.0).map_or(f64::INFINITY, |at| at as f64 + 1.0))
    }
}

impl Report {
    pub(super) fn new(date: String, machine: Machine, asked: f64, full: f64) -> Self {
        Self { date, machine, asked, full, cells: Vec::new() }
    }

    pub(super) fn met(&self) -> bool {
        all_met(&self.promises())
    }

    fn of<'a>(&'a self, part: &'a str, way: &'a str) -> impl Iterator<Item = &'a Cell> {
        self.cells.iter().filter(move |cell| cell.part == part && cell.way == way)
    }

    /// Each p99 of a way over that of hand-set weights in the same round, where those kept up: else it was
    /// more than the readers carry, and nothing is learnt of the other ways.
    fn ratios(&self, part: &str, way: &str, speed: f64) -> Vec<f64> {
        let by_hand = |cell: &Cell| {
            let mut same = self.of(part, "by hand").filter(|b| b.round == cell.round && b.speed == speed);
            same.find(|b| !b.fell_behind()).map(|b| b.p99_ms)
        };
        let cells = self.of(part, way).filter(|cell| cell.speed == speed);
        cells.filter_map(|cell| Some(cell.p99_ms / by_hand(cell)?)).collect()
    }

    /// The p99 during each warm-up over that before.
    fn during<'a>(&'a self, way: &'a str) -> impl Iterator<Item = f64> + 'a {
        self.of("Cold", way).filter_map(|cell| Some(cell.p99_ms / cell.before_p99_ms?))
    }

    fn promises(&self) -> Vec<Promise> {
        let mut all = Vec::new();
        for (part, speed) in [("Slow", 0.5), ("Slow", 0.2), ("Closed", 0.5), ("Closed", 0.2)] {
            let mut ratios = self.ratios(part, "measured", speed);
            ratios.sort_by(f64::total_cmp);
            if let Some(middle) = ratios.get(ratios.len() / 2) {
                let what =
                    format!("{part}, speed {speed}: p99 over that of hand-set weights, median of rounds");
                all.push(at_most(&what, *middle, 1.3));
            }
        }
        let worst = |values: &mut dyn Iterator<Item = f64>| values.reduce(f64::max);
        let mut add = |what: &str, value: Option<f64>, limit: f64| {
            all.extend(value.map(|value| at_most(what, value, limit)));
        };
        let slow = || self.of("Slow", "measured");
        add("Slow: s until its share fits", worst(&mut slow().map(Cell::converged_s)), 30.0);
        add("Slow: s until its share is back", worst(&mut slow().filter_map(Cell::back_s)), 60.0);
        for way in ["measured", "weights 0.5", "a2 weighs 0.5"] {
            let busiest = worst(&mut self.of("Lifo", way).map(Cell::busiest));
            add(&format!("Lifo, {way}: busiest reader over the mean"), busiest, 1.10);
        }
        let mut during: Vec<f64> = self.during("heat").collect();
        during.sort_by(f64::total_cmp);
        let middle = during.get(during.len() / 2).copied();
        add("Cold, by heat: p99 during the warm-up over that before, median of rounds", middle, 1.3);
        let errors: usize = self.cells.iter().map(|cell| cell.errors.len()).sum();
        add("errors that clients saw", (!self.cells.is_empty()).then_some(errors as f64), 0.0);
        // Demand is a third each, room 0.5 of 2.5 in the slow zone: 1/3 - 1/5 must leave it.
        let beyond = worst(&mut self.of("Alone", "measured").map(|c| (c.crossing - (1.0 / 3.0 - 0.2)).abs()));
        add("Alone: distance from the least crossing", beyond, 0.02);
        let equal = || self.of("Equal", "measured");
        let lowest = equal().flat_map(|cell| &cell.series).map(|s| s.least_speed).reduce(f64::min);
        add("Equal: how far a factor fell below 1", lowest.map(|lowest| 1.0 - lowest), 0.1);
        let moved = equal()
            .filter_map(|c| Some(c.series.last()?.moved - c.series.get(c.series.len().min(11) - 1)?.moved));
        add(
            "Equal: sessions moved after the first 10 s",
            moved.map(|moved| moved as f64).reduce(f64::max),
            0.0,
        );
        all
    }

    pub(super) fn markdown(&self) -> String {
        let mut text = format!(
            "# Room, {}\n\n{}. Each reader has {} of a core, the slow one a part of that; {:.0} % of what all carry together, as measured in a closed loop, is asked for.\n\n",
            self.date,
            self.machine.line(),
            self.full,
            self.asked * 100.0
        );
        text.push_str("| part | round | way | speed | carried a second | answers | p50 ms | p99 ms | p99 over by hand | answered by | busiest | crossing | errors |\n");
        text.push_str("|---|---|---|---|---|---|---|---|---|---|---|---|---|\n");
        for cell in &self.cells {
            let by_hand =
                self.of(&cell.part, "by hand").find(|b| b.round == cell.round && b.speed == cell.speed);
            let ratio = match by_hand {
                Some(by_hand) if by_hand.fell_behind() => "void".to_owned(),
                Some(by_hand) => format!("{:.2}", cell.p99_ms / by_hand.p99_ms),
                None => "-".to_owned(),
            };
            let answered: Vec<String> =
                cell.statements.iter().map(|(name, n)| format!("{name} {n}")).collect();
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} | {:.0} | {} | {:.1} | {:.1} | {ratio} | {} | {:.2} | {:.1} % | {} |",
                cell.part,
                cell.round,
                cell.way,
                cell.speed,
                cell.carried_per_s,
                cell.answers,
                cell.p50_ms,
                cell.p99_ms,
                answered.join(", "),
                cell.busiest(),
                cell.crossing * 100.0,
                cell.errors.len()
            );
        }
        let void = self.cells.iter().filter(|cell| cell.way == "by hand" && cell.fell_behind()).count();
        if void > 0 {
            let _ = writeln!(
                text,
                "\nvoid ({void} of the conditions): by hand, too, less than {:.0} % of what was asked was answered: the \
                 machine became slower than when it was measured.",
                KEPT_UP * 100.0
            );
        }
        for way in ["heat", "clock"] {
            let ratios: Vec<String> = self.during(way).map(|ratio| format!("{ratio:.2}")).collect();
            if !ratios.is_empty() {
                let rounds = ratios.join(", ");
                let _ = writeln!(
                    text,
                    "\nCold, by {way}: p99 during the warm-up over that before, by round: {rounds}."
                );
            }
        }
        text + "\n" + &table(&self.promises())
    }
}

fn at_most(what: &str, value: f64, limit: f64) -> Promise {
    Promise::new(&format!("{what} <= {limit}"), format!("{value:.2}"), value <= limit)
}
