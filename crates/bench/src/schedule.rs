//! What is measured, in which order and for how long: subjects x conditions x rounds.
//!
//! A **cell** is one subject under one condition in one round; a **block** is one condition of one round with
//! every subject in it once. Subjects of a block follow each other directly, in an order drawn anew for each
//! block, and so do the conditions of a round: slow changes of the machine (heat, neighbours, a growing undo
//! log) meet all subjects alike instead of the one that happens to be last. Ratios are taken inside blocks
//! only.

use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng, rngs::StdRng};
use serde::Serialize;
use std::fmt;
use std::time::Duration;

/// Who carries the queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Subject {
    /// Nobody: clients connect to the server.
    Direct,
    /// HAProxy of the distribution.
    Haproxy,
    /// A newer HAProxy, where there is one.
    HaproxyNewer,
    /// The distribution's HAProxy once more: what differs from [`Subject::Haproxy`] is chance.
    HaproxyAgain,
    /// MySQL Router, where there is one.
    MysqlRouter,
    /// `headroom route` as a relay that times every statement: `zero_hop = "off"`, `insight = "on"`.
    Headroom,
    /// The same with `insight = "off"`: what insight costs is the difference.
    HeadroomInsightOff,
    /// `headroom route` with connections that bypass it, where the kernel allows it: `zero_hop = "require"`,
    /// `insight = "off"`.
    HeadroomZeroHop,
    /// The same with `insight = "on"`: the kernel mirrors every session, and every statement is timed.
    HeadroomZeroHopInsight,
}

impl Subject {
    /// Whether connections bypass it.
    pub(crate) fn goes_past(self) -> bool {
        matches!(self, Self::HeadroomZeroHop | Self::HeadroomZeroHopInsight)
    }

    /// As tables and files call it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Haproxy => "haproxy",
            Self::HaproxyNewer => "haproxy-newer",
            Self::HaproxyAgain => "haproxy-again",
            Self::MysqlRouter => "mysql-router",
            Self::Headroom => "headroom",
            Self::HeadroomInsightOff => "headroom-insight-off",
            Self::HeadroomZeroHop => "headroom-zero-hop",
            Self::HeadroomZeroHopInsight => "headroom-zero-hop-insight",
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What the subject has to stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub(crate) enum Condition {
    /// Point selects, each client sending the next as soon as the last is answered.
    Load {
        /// Clients at once.
        clients: u32,
        /// Sessions that are open beside them and say nothing.
        idle: u32,
    },
    /// One client that connects, asks one query and closes, over and over.
    Connect {
        /// How many times.
        cycles: u32,
    },
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Load { clients: 1, idle: 0 } => f.write_str("1 client"),
            Self::Load { clients, idle: 0 } => write!(f, "{clients} clients"),
            Self::Load { clients, idle } => write!(f, "{clients} clients, {idle} idle"),
            Self::Connect { cycles } => write!(f, "{cycles} connects"),
        }
    }
}

/// The whole run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Plan {
    /// Who is measured.
    pub(crate) subjects: Vec<Subject>,
    /// Under what.
    pub(crate) conditions: Vec<Condition>,
    /// How often all of it.
    pub(crate) rounds: u32,
    /// Length of one load, without its warm-up.
    pub(crate) seconds: u32,
    /// Load before each measured load, not counted.
    pub(crate) warm_up_seconds: u32,
    /// From which the orders are drawn; the same seed gives the same order.
    pub(crate) seed: u64,
}

/// One condition of one round, with every subject in it once.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Block {
    /// From 1.
    pub(crate) round: u32,
    /// The same for all of the block.
    pub(crate) condition: Condition,
    /// In the order in which they are measured.
    pub(crate) subjects: Vec<Subject>,
}

/// Start, readiness, sessions and stop of a subject, beside the load itself; measured on two cores, rounded
/// up.
const CELL_OVERHEAD: Duration = Duration::from_secs(2);
/// Server, table, and the ends of the run.
const SET_UP: Duration = Duration::from_secs(20);

impl Plan {
    /// The blocks in the order in which they are measured.
    pub(crate) fn blocks(&self) -> Vec<Block> {
        let mut rng = StdRng::seed_from_u64(self.seed);
        (1..=self.rounds).flat_map(|round| self.round(round, &mut rng)).collect()
    }

    fn round(&self, round: u32, rng: &mut impl Rng) -> Vec<Block> {
        let mut conditions = self.conditions.clone();
        conditions.shuffle(rng);
        let mut block = |condition| {
            let mut subjects = self.subjects.clone();
            subjects.shuffle(rng);
            Block { round, condition, subjects }
        };
        conditions.into_iter().map(&mut block).collect()
    }

    /// Rounds and their length, as people say it: `5 rounds of 8 s`.
    pub(crate) fn rounds_in_words(&self) -> String {
        let plural = if self.rounds == 1 { "" } else { "s" };
        format!("{} round{plural} of {} s", self.rounds, self.seconds)
    }

    /// How many cells there are.
    pub(crate) fn cells(&self) -> usize {
        self.subjects.len() * self.conditions.len() * self.rounds as usize
    }

    /// How long it should take, told before it starts.
    pub(crate) fn expected(&self) -> Duration {
        let cell = |condition: &Condition| match condition {
            Condition::Load { .. } => Duration::from_secs(u64::from(self.seconds + self.warm_up_seconds)),
            Condition::Connect { cycles } => Duration::from_micros(500) * *cycles,
        };
        let round: Duration = self.conditions.iter().map(|c| cell(c) + CELL_OVERHEAD).sum();
        SET_UP + round * self.subjects.len() as u32 * self.rounds
    }

    /// The run is given up after this long: something hangs.
    pub(crate) fn deadline(&self) -> Duration {
        self.expected() * 3
    }

    /// Most sessions that are open at once.
    pub(crate) fn most_sessions(&self) -> u32 {
        let sessions = |condition: &Condition| match condition {
            Condition::Load { clients, idle } => clients + idle,
            Condition::Connect { .. } => 1,
        };
        self.conditions.iter().map(sessions).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn plan(seed: u64) -> Plan {
        Plan {
            subjects: vec![Subject::Direct, Subject::Haproxy, Subject::Headroom],
            conditions: vec![
                Condition::Load { clients: 1, idle: 0 },
                Condition::Load { clients: 16, idle: 1000 },
                Condition::Connect { cycles: 1000 },
            ],
            rounds: 5,
            seconds: 8,
            warm_up_seconds: 1,
            seed,
        }
    }

    #[test]
    fn every_subject_meets_every_condition_once_in_each_round() {
        let plan = plan(7);
        let cells: Vec<_> = plan
            .blocks()
            .into_iter()
            .flat_map(|b| b.subjects.into_iter().map(move |s| (b.round, b.condition, s)))
            .collect();
        assert_eq!(cells.len(), plan.cells());
        assert_eq!(cells.iter().copied().collect::<BTreeSet<_>>().len(), plan.cells());
    }

    #[test]
    fn rounds_follow_each_other_and_blocks_are_not_torn_apart() {
        let rounds: Vec<u32> = plan(7).blocks().iter().map(|b| b.round).collect();
        assert!(rounds.is_sorted());
        assert!(plan(7).blocks().iter().all(|b| b.subjects.len() == 3));
    }

    #[test]
    fn the_order_comes_from_the_seed_and_changes_between_blocks() {
        assert_eq!(plan(7).blocks(), plan(7).blocks());
        assert_ne!(plan(7).blocks(), plan(8).blocks());
        let orders: BTreeSet<_> = plan(7).blocks().into_iter().map(|b| b.subjects).collect();
        assert!(orders.len() > 1);
    }

    #[test]
    fn the_time_told_covers_all_loads_and_the_deadline_covers_the_time_told() {
        let plan = plan(7);
        assert!(plan.expected() >= Duration::from_secs(2 * 3 * 5 * 9));
        assert!(plan.deadline() > plan.expected());
    }

    #[test]
    fn idle_sessions_count_among_the_most_that_are_open() {
        assert_eq!(plan(7).most_sessions(), 1016);
    }
}
