//! How long statements take, by the server's own count: a histogram over all, and the statements that take most time.
//!
//! MySQL 8 counts both always (`performance_schema`); MariaDB has the histogram with the plugin `query_response_time` and
//! statements with `performance_schema` on, without quantiles. Where neither is there, the router's own timing is the
//! only one.

use crate::rows::Rows;
use serde::{Deserialize, Serialize};

/// Statements by duration since some beginning: (upper limit in milliseconds, how many), rising.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Histogram(Vec<(f64, u64)>);

/// Durations that a share of statements kept below, milliseconds: upper limits of the ranges they fall into.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Quantiles {
    /// Statements counted.
    pub statements: u64,
    /// Half of them.
    pub p50_ms: f64,
    /// 95 of 100.
    pub p95_ms: f64,
    /// 99 of 100.
    pub p99_ms: f64,
}

/// A kind of statement since the server's start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Digest {
    /// Its text with literals left out.
    pub text: String,
    /// How often.
    pub calls: u64,
    /// Mean duration, milliseconds.
    pub mean_ms: f64,
    /// 95 of 100 took at most so long.
    pub p95_ms: Option<f64>,
    /// 99 of 100.
    pub p99_ms: Option<f64>,
    /// Rows looked at, each time.
    pub rows_examined: f64,
}

impl Histogram {
    /// Reads rows of `upper_s`, `statements`; `None` when nothing was ever counted (the plugin is loaded and off).
    pub(super) fn read(rows: &Rows) -> Option<Self> {
        let mut all: Vec<(f64, u64)> = rows
            .iter()
            .filter_map(|row| {
                // MariaDB's last range has words in place of a limit.
                let upper_s = row.parse::<f64>(&["upper_s"]).unwrap_or(f64::INFINITY);
                Some((upper_s * 1e3, row.parse::<u64>(&["statements"]).filter(|count| *count > 0)?))
            })
            .collect();
        all.sort_by(|a, b| a.0.total_cmp(&b.0));
        (!all.is_empty()).then_some(Self(all))
    }

    /// What was added since `before`; everything, if it was reset in between.
    pub fn since(&self, before: &Self) -> Self {
        let earlier = |upper: f64| before.0.iter().find(|(u, _)| *u == upper).map_or(0, |(_, count)| *count);
        let reset = before.0.iter().any(|(upper, count)| {
            self.0.iter().find(|(u, _)| u == upper).map_or(0, |(_, now)| *now) < *count
        });
        if reset {
            return self.clone();
        }
        Self(self.0.iter().map(|(upper, count)| (*upper, count - earlier(*upper))).collect())
    }

    /// Quantiles; `None` when nothing was counted.
    pub fn quantiles(&self) -> Option<Quantiles> {
        let statements: u64 = self.0.iter().map(|(_, count)| count).sum();
        if statements == 0 {
            return None;
        }
        let longest = self.0.iter().rev().map(|(upper, _)| *upper).find(|upper| upper.is_finite());
        let at = |share: f64| {
            let wanted = (share * statements as f64).ceil() as u64;
            let mut sum = 0;
            let range = self.0.iter().find(|(_, count)| {
                sum += count;
                sum >= wanted
            });
            range.map(|(upper, _)| *upper).filter(|upper| upper.is_finite()).or(longest).unwrap_or(0.0)
        };
        Some(Quantiles { statements, p50_ms: at(0.5), p95_ms: at(0.95), p99_ms: at(0.99) })
    }
}

/// Reads rows of `text`, `calls`, `ms`, `p95_ms`, `p99_ms`, `examined`.
pub(super) fn digests(rows: &Rows) -> Vec<Digest> {
    rows.iter()
        .filter_map(|row| {
            let calls = row.parse::<u64>(&["calls"]).filter(|calls| *calls > 0)?;
            Some(Digest {
                text: row.text(&["text"]).unwrap_or("(statements beyond the table of digests)").to_owned(),
                calls,
                mean_ms: row.parse::<f64>(&["ms"]).unwrap_or(0.0) / calls as f64,
                p95_ms: row.parse(&["p95_ms"]),
                p99_ms: row.parse(&["p99_ms"]),
                rows_examined: row.parse::<f64>(&["examined"]).unwrap_or(0.0) / calls as f64,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn histogram(all: &[(&str, u64)]) -> Histogram {
        let row = |(upper, count): &(&str, u64)| vec![Some((*upper).to_owned()), Some(count.to_string())];
        let rows = Rows::new(["upper_s".to_owned(), "statements".to_owned()], all.iter().map(row).collect());
        Histogram::read(&rows).unwrap()
    }

    #[test]
    fn quantiles_are_of_what_was_added() {
        let before = histogram(&[("0.001", 1000), ("0.01", 10)]);
        let now = histogram(&[("0.001", 1050), ("0.01", 50), ("0.1", 9), ("TOO LONG", 1)]);
        let quantiles = now.since(&before).quantiles().unwrap();
        let expected = Quantiles { statements: 100, p50_ms: 1.0, p95_ms: 100.0, p99_ms: 100.0 };
        assert_eq!(quantiles, expected);
        assert_eq!(before.since(&now), before, "it was reset: what is there was all added since");
        assert_eq!(now.since(&now).quantiles(), None);
    }
}
