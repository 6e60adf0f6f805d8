//! Which trials count. A trial is one bit, good or bad, so that it is void only when something else than the
//! server may have turned that bit.
//!
//! Response time counts from the intended start: whatever the generator adds by its own lateness makes it
//! longer and never shorter. (In a queue that serves first come, first served, who comes later leaves no
//! earlier: Lindley 1952; Kiefer and Wolfowitz 1955 for several places.) So the losses counted are an **upper
//! bound** of the server's, and
//!
//! | trial | counts |
//! |---|---|
//! | good | always: it would have been at least as good with a better generator |
//! | bad, and bad still without the losses for which the generator's lateness is an excuse | yes |
//! | bad only with them | no: the generator decided ([`Unsound::Generator`]) |
//! | bad, while the generator's threads used more than 70 % of their CPU or found send buffers full | no |
//! | one that is on its way from good to bad or back ([`Unsound::Drifting`]) | no: a longer one is needed |
//! | one in which half of the clients lost their connections | no: a server or a router was restarted |
//! | one in which nothing was due, at a very low rate | no: nothing was lost because nothing was asked |
//!
//! Losses are on their way when the seconds' median response times rise or fall beyond chance (1 in 100,
//! [`trend`]) *and* that changes the answer: the last third by itself says the opposite of the whole, or,
//! going on at this slope for the trial's length once more, the median itself would miss the objective.
//!
//! Example: p99 < 15 ms, 10,000 due, 130 late, and the generator was up to 4 ms late around 50 of them, which
//! were answered after 15 to 19 ms. 1.3 % is bad, 0.8 % would be good: void. With 10 of the 130 excused it is
//! bad and counts.

use super::{Objective, Trial, trend};
use crate::Outcome;
use crate::outcome::Moment;
use crate::soundness::{CPU_OPEN, SATURATED};

/// Why a trial does not count.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Unsound {
    /// Its own lateness made it bad.
    #[error(
        "{excused} of {lost} losses were the generator's own lateness ({late_ms:.1} ms at p99.9), and without them the \
         objective is met: this machine is too busy or too noisy; run the generator on another one than the servers"
    )]
    Generator {
        /// Transactions lost.
        lost: u64,
        /// Those that the generator is to blame for.
        excused: u64,
        /// Its lateness at p99.9, in ms.
        late_ms: f64,
    },
    /// Its own CPU was full.
    #[error(
        "the generator's threads used {:.0} % of their CPU, so that a miss may be its own: give it more threads \
         (--threads) or another machine", share * 100.0
    )]
    Busy {
        /// Of its threads' CPU.
        share: f64,
    },
    /// What was sent did not leave.
    #[error(
        "the send buffers were full for {:.1} % of the statements: the network takes them too slowly to say when they \
         were sent", share * 100.0
    )]
    Saturated {
        /// Of the statements.
        share: f64,
    },
    /// What was measured did not stay as it was.
    #[error(
        "not steady: the median response time went from {from_ms:.2} to {to_ms:.2} ms within {seconds} s, and a longer \
         trial would say otherwise; warm the server up, or use --trial {}s", seconds * 3
    )]
    Drifting {
        /// At the beginning.
        from_ms: f64,
        /// At the end.
        to_ms: f64,
        /// How long the trial was.
        seconds: u64,
    },
    /// Chance sent nothing.
    #[error(
        "no transaction was due within {seconds:.1} s: at so low a rate a trial says nothing of the server; a longer one \
         does (--trial)"
    )]
    NothingDue {
        /// How long the trial was.
        seconds: f64,
    },
    /// Connections broke.
    #[error(
        "connections of {clients} clients were lost, or not made again, {lost} times: was a server or a router \
         restarted, or is one down?"
    )]
    Restarted {
        /// How often a connection was lost, or could not be made again.
        lost: u64,
        clients: u32,
    },
}

impl Unsound {
    /// Whether the next trial will find the same: what is too small stays so, while noise, warming up and
    /// restarts pass.
    pub fn lasts(&self) -> bool {
        match self {
            Self::Busy { .. } | Self::Saturated { .. } | Self::NothingDue { .. } => true,
            Self::Generator { .. } | Self::Drifting { .. } | Self::Restarted { .. } => false,
        }
    }
}

pub(super) fn check(trial: &Trial, outcome: &Outcome, objective: Objective) -> Result<(), Unsound> {
    let generator = &outcome.generator;
    if generator.reconnects * 2 >= u64::from(outcome.clients) {
        return Err(Unsound::Restarted { lost: generator.reconnects, clients: outcome.clients });
    }
    if trial.due == 0 {
        return Err(Unsound::NothingDue { seconds: trial.seconds });
    }
    let bad = |lost: u64| lost as f64 > objective.loss() * trial.due as f64;
    if bad(trial.lost) {
        if !bad(trial.lost - trial.excused) {
            let late_ms = generator.lateness.as_ref().map_or(0.0, |lateness| lateness.p999_ms);
            return Err(Unsound::Generator { lost: trial.lost, excused: trial.excused, late_ms });
        }
        if generator.cpu_share > CPU_OPEN {
            return Err(Unsound::Busy { share: generator.cpu_share });
        }
        let share = generator.saturated_sends as f64 / outcome.totals.queries.max(1) as f64;
        if share > SATURATED {
            return Err(Unsound::Saturated { share });
        }
    }
    steady(bad(trial.lost), &outcome.series, objective)
}

fn steady(bad: bool, series: &[Moment], objective: Objective) -> Result<(), Unsound> {
    let medians: Vec<f64> = series.iter().map(|second| second.p50_ms).collect();
    let Some(slope) = trend::slope(&medians) else { return Ok(()) };
    let last = &series[series.len() - series.len() / 3..];
    let ended: u64 = last.iter().map(|second| second.done + second.failed).sum();
    let lost: u64 = last.iter().map(|second| second.late + second.failed).sum();
    let bad_at_last = lost as f64 > objective.loss() * ended as f64;
    let (from_ms, to_ms) = (medians[0], medians[medians.len() - 1]);
    let later = slope.mul_add(medians.len() as f64, to_ms);
    let missed_later = !bad && later > objective.within.as_secs_f64() * 1e3;
    // Getting worse and bad at last is what too high a rate looks like.
    let turns = bad_at_last != bad && (slope > 0.0) == bad_at_last;
    if turns || missed_later {
        return Err(Unsound::Drifting { from_ms, to_ms, seconds: series.len() as u64 });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
