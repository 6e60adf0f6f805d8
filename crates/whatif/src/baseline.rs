//! The rate that growth is counted from: today's load where it is known, else the highest rate that was sent,
//! under that name. A ladder stops at half of what the cores can do, so that "times the highest rate sent" is
//! about two whatever the server's clients do: it must not be taken for today's load.
//!
//! Today's load is read from the server's own counter of statements before anything is sent, and turned into
//! transactions of the workload by the statements that one of them is seen to take.

use crate::load_point::{LoadPoint, most};
use crate::words::{figure, interval};
use plan::{Interval, student};
use serde::{Deserialize, Serialize};

/// Below this share of what the cores could do a server counts as idle: its statements are those of whoever
/// monitors it.
const IDLE: f64 = 0.01;

/// Where a rate is from.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BaselineSource {
    /// The user's: `--current`.
    Named,
    /// The server's counter of statements, before anything was sent.
    Statements {
        /// Of others, a second.
        per_s: Interval,
        /// That a transaction of the workload takes.
        each: f64,
    },
    /// The highest rate of an agent's history.
    History,
    /// The highest rate that was sent. Today's load is not known.
    HighestSent,
}

/// What a rate counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Of a workload.
    #[default]
    Transactions,
    /// That clients send, in an agent's history: what belongs together is not known there.
    Statements,
}

impl Unit {
    /// Its word for one.
    pub fn one(self) -> &'static str {
        match self {
            Self::Transactions => "transaction",
            Self::Statements => "statement",
        }
    }

    /// Its word for several.
    pub fn many(self) -> &'static str {
        match self {
            Self::Transactions => "transactions",
            Self::Statements => "statements",
        }
    }
}

/// The rate that growth is counted from.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Baseline {
    /// In its unit.
    pub per_s: Interval,
    #[serde(default)]
    pub unit: Unit,
    pub source: BaselineSource,
}

impl Baseline {
    /// A rate of transactions that is taken as it is.
    pub fn of(per_s: f64, source: BaselineSource) -> Self {
        let per_s = Interval { low: per_s, estimate: per_s, high: per_s };
        Self { per_s, unit: Unit::Transactions, source }
    }

    /// The user's figure, transactions a second.
    pub fn named(per_s: f64) -> Self {
        Self::of(per_s, BaselineSource::Named)
    }

    /// The highest rate that was sent in an open loop; today's load is not known.
    pub fn highest_sent(seen: &[LoadPoint]) -> Self {
        Self::of(most(seen), BaselineSource::HighestSent)
    }

    /// From statements of others, a second in each of several seconds, and the statements that a transaction
    /// of the workload takes; `None` where the server is idle beside `full`, the transactions a second that
    /// its cores could do, or where the readings do not tell its rate from none.
    pub fn of_statements(readings: &[f64], each: f64, full: f64) -> Option<Self> {
        let per_s = mean(readings)?;
        if each <= 0.0 || per_s.low <= 0.0 || per_s.estimate / each < IDLE * full {
            return None;
        }
        let transactions =
            Interval { low: per_s.low / each, estimate: per_s.estimate / each, high: per_s.high / each };
        let source = BaselineSource::Statements { per_s, each };
        Some(Self { per_s: transactions, unit: Unit::Transactions, source })
    }

    /// Whether it is today's load.
    pub fn is_today(&self) -> bool {
        self.source != BaselineSource::HighestSent
    }

    /// What a multiple of it is called: `today's load`.
    pub fn name(&self) -> &'static str {
        if self.is_today() { "today's load" } else { "the highest rate sent" }
    }

    /// A rate as a multiple of it; `None` where today's load is not known.
    pub fn times(&self, rate: &Interval) -> Option<Interval> {
        (self.is_today() && self.per_s.estimate > 0.0).then(|| Interval {
            low: rate.low / self.per_s.high,
            estimate: rate.estimate / self.per_s.estimate,
            high: rate.high / self.per_s.low,
        })
    }

    /// A sentence: the rate, and how it is known.
    pub fn words(&self) -> String {
        let unit = self.unit.many();
        let rate = if self.per_s.low < self.per_s.high {
            interval(&self.per_s)
        } else {
            figure(self.per_s.estimate)
        };
        let how = match self.source {
            BaselineSource::Named => "by --current".to_owned(),
            BaselineSource::Statements { per_s, each } => format!(
                "by the server's own counter before the first step: {} statements of others a second, and {} statements a transaction of this workload",
                interval(&per_s),
                figure(each)
            ),
            BaselineSource::History => "the highest of the agent's history".to_owned(),
            BaselineSource::HighestSent => {
                return format!(
                    "Growth is counted from the highest rate sent, {rate} {unit} a second. Today's load is not known; --current names it."
                );
            }
        };
        format!("Growth is counted from today's load, {rate} {unit} a second ({how}).")
    }
}

/// The mean of a few readings with its 95 % interval, not below 0; `None` of fewer than three.
fn mean(readings: &[f64]) -> Option<Interval> {
    let count = readings.len() as f64;
    if readings.len() < 3 {
        return None;
    }
    let estimate = readings.iter().sum::<f64>() / count;
    let variance = readings.iter().map(|one| (one - estimate).powi(2)).sum::<f64>() / (count - 1.0);
    let reach = student::quantile(0.975, count - 1.0) * (variance / count).sqrt();
    Some(Interval { low: (estimate - reach).max(0.0), estimate, high: estimate + reach })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn todays_load_is_read_from_statements_and_an_idle_server_has_none() {
        let today = Baseline::of_statements(&[990.0, 1010.0, 1000.0, 1005.0, 995.0], 20.0, 400.0).unwrap();
        assert!((today.per_s.estimate - 50.0).abs() < 1e-9 && today.per_s.low < 50.0);
        let times = today.times(&Interval { low: 380.0, estimate: 400.0, high: 420.0 }).unwrap();
        assert!((times.estimate - 8.0).abs() < 1e-9 && times.low < 7.6 && times.high > 8.4, "{times:?}");
        assert!(today.words().contains("20.0 statements a transaction"), "{}", today.words());
        assert_eq!(Baseline::of_statements(&[0.0; 5], 20.0, 400.0), None);
        assert_eq!(Baseline::of_statements(&[5.0; 5], 20.0, 400.0), None, "a monitor's statements");
        assert_eq!(Baseline::of_statements(&[9000.0, 0.0, 0.0, 0.0, 0.0], 20.0, 400.0), None, "one burst");
    }

    #[test]
    fn the_highest_rate_sent_is_never_called_todays() {
        let sent = Baseline::highest_sent(&[LoadPoint { per_s: 200.0, ..LoadPoint::default() }]);
        assert_eq!(sent.times(&Interval { low: 380.0, estimate: 400.0, high: 420.0 }), None);
        assert!(sent.words().contains("Today's load is not known") && !sent.is_today());
    }
}
