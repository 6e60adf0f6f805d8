//! One block: the sessions of both ways, their turns, and what came of each way.

use super::super::process;
use anyhow::{Context, bail};
use hdrhistogram::Histogram;
use load::{Arrivals, Load, Outcome, Plan};
use serde::Serialize;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Whose turn it is in a block, the way whose sessions were made first or the other: each has half of the
/// turns.
pub(super) const TURNS: [usize; 8] = [0, 1, 1, 0, 1, 0, 0, 1];
/// Sent over each way before a block's turns, not counted.
pub(super) const WARM_UP: Duration = Duration::from_millis(150);

/// One way over its turns of a block.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Side {
    pub(super) qps: f64,
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
    /// QPS and p99 in ms of each turn.
    pub(super) turns: Vec<(f64, f64)>,
    /// CPU of our router (the first way's, where both have one) in these turns, as a share of one core.
    pub(super) router_cpu: Option<f64>,
}

/// One block that is to be measured: everything that a thread of its own needs.
pub(super) struct Pair {
    /// The way whose sessions are made first, and the other.
    pub(super) ways: [Plan; 2],
    pub(super) turn: Duration,
    pub(super) router: Option<u32>,
    pub(super) seed: u64,
    pub(super) stop: Arc<AtomicBool>,
}

/// What came of a way's turns so far.
struct Turns {
    load: Load,
    answered: u64,
    time: Duration,
    router: Duration,
    times: Histogram<u64>,
    turns: Vec<(f64, f64)>,
}

impl Pair {
    /// Makes the sessions of both ways, lets them take turns, and closes them.
    pub(super) fn block(self) -> anyhow::Result<[Side; 2]> {
        let Self { ways: [first, second], turn, router, seed, stop } = self;
        let mut ways = [Turns::begin(first)?, Turns::begin(second)?];
        for way in &ways {
            way.load.send(&Arrivals::closed(), WARM_UP, seed, &stop, |_| ())?;
        }
        for (number, turn_of) in (1u64..).zip(TURNS) {
            let before = router.map(process::cpu).transpose()?;
            let way = &mut ways[turn_of];
            let outcome = way.load.send(&Arrivals::closed(), turn, seed + number, &stop, |_| ())?;
            way.add(&outcome)?;
            if let (Some(pid), Some(before)) = (router, before) {
                way.router += process::cpu(pid)?.saturating_sub(before);
            }
        }
        Ok(ways.map(|way| way.side(router.is_some())))
    }
}

impl Turns {
    fn begin(plan: Plan) -> anyhow::Result<Self> {
        Ok(Self {
            load: Load::connect(plan)?,
            answered: 0,
            time: Duration::ZERO,
            router: Duration::ZERO,
            times: Histogram::new(3)?,
            turns: Vec::new(),
        })
    }

    fn add(&mut self, outcome: &Outcome) -> anyhow::Result<()> {
        let totals = &outcome.totals;
        if totals.failed + totals.unfinished > 0 {
            bail!(
                "{} statements failed or were not answered; none are allowed",
                totals.failed + totals.unfinished
            );
        }
        self.answered += totals.queries;
        self.time += Duration::from_secs_f64(outcome.seconds);
        self.turns.push((totals.queries as f64 / outcome.seconds, outcome.response.p99_ms));
        self.times.add(outcome.response.whole().context("the histogram of a turn")?)?;
        Ok(())
    }

    fn side(self, has_router: bool) -> Side {
        let seconds = self.time.as_secs_f64();
        let at = |quantile: f64| self.times.value_at_quantile(quantile) as f64 / 1e6;
        Side {
            qps: self.answered as f64 / seconds,
            p50_ms: at(0.5),
            p99_ms: at(0.99),
            router_cpu: has_router.then(|| self.router.as_secs_f64() / seconds),
            turns: self.turns,
        }
    }
}
