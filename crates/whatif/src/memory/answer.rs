//! What was found: the curve, its table, what a size would be worth, and how it is said.

use super::Measurement;
use crate::ledger::{Answer, Kind, Observed, Prediction};
use crate::words::{assumed, bytes, figure, interval, percent};
use plan::Interval;
use plan::memory::{BETWEEN, Curve, Measured, NoCurve, Predicted};
use serde::{Deserialize, Serialize};
use std::fmt::Write;
use term::Table;

/// Of intervals.
const LEVEL: f64 = 0.95;
/// Rows of the table, as factors of today's size.
const FACTORS: [f64; 9] = [0.1, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 4.0];
const GIB: f64 = (1_u64 << 30) as f64;

/// A row of the table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Of today's size.
    pub factor: f64,
    pub bytes: u64,
    /// `None` outside of what was measured.
    pub predicted: Option<Predicted>,
    /// Reads of the disk a second at today's rate of transactions; `None` also where none was done.
    pub reads_per_s: Option<Interval>,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MemoryAnswer {
    pub subject: String,
    pub workload: String,
    /// Of the pool, before and after.
    pub today_bytes: u64,
    pub measured: Vec<Measured>,
    pub rows: Vec<Row>,
    /// Beyond it a further doubling saves less.
    pub knee: Option<u64>,
    /// The curve, for a chart.
    pub curve: Vec<Predicted>,
    /// Whether the pool is as it was.
    pub is_back: bool,
    pub notes: Vec<String>,
    /// Whether each client began its next transaction at once: then more of them done is what a size buys.
    #[serde(default)]
    pub closed: bool,
}

/// From what was measured to the table.
///
/// # Errors
/// Fewer than three sizes.
pub fn answer(subject: String, workload: String, measurement: Measurement) -> Result<MemoryAnswer, NoCurve> {
    let Measurement { sizes: measured, today_bytes, notes, is_back } = measurement;
    let curve = Curve::new(&measured, LEVEL)?;
    let (least, most) = curve.range();
    // Today's requests: those of the size next to today's.
    let near = measured.iter().min_by_key(|one| one.bytes.abs_diff(today_bytes));
    let requests = near.and_then(|one| Some(one.requests_each * plan::quantile::median(&one.per_s)?));
    // None where nothing got done: the pages were others', and a rate of ours is not known.
    let requests = requests.filter(|requests| *requests > 0.0);
    let row = |factor: f64| {
        let bytes = (today_bytes as f64 * factor).round() as u64;
        let predicted = curve.at(bytes);
        let reads = |(Predicted { miss_ratio: misses, .. }, requests): (Predicted, f64)| Interval {
            low: misses.low * requests,
            estimate: misses.estimate * requests,
            high: misses.high * requests,
        };
        Row { factor, bytes, predicted, reads_per_s: predicted.zip(requests).map(reads) }
    };
    let steps = 40;
    let size = |at: i32| {
        (least as f64 * (most as f64 / least as f64).powf(f64::from(at) / f64::from(steps))).round() as u64
    };
    Ok(MemoryAnswer {
        subject,
        workload,
        today_bytes,
        rows: FACTORS.map(row).to_vec(),
        knee: curve.knee(),
        curve: (0..=steps).filter_map(|at| curve.at(size(at).clamp(least, most))).collect(),
        measured,
        is_back,
        notes,
        closed: false,
    })
}

impl MemoryAnswer {
    /// Whether this size was measured while its miss ratio still fell.
    fn is_unsteady(&self, bytes: u64) -> bool {
        self.measured.iter().any(|one| one.bytes == bytes && !one.steady)
    }

    /// Transactions a second that a size gets done beyond today's, with as many clients: `None` where they
    /// did not send as fast as they could, and where the two cannot be told. Never less than none, because a
    /// larger pool does not do less.
    pub fn more_per_s(&self, then: &Predicted) -> Option<Interval> {
        let today = self.today()?.per_s.filter(|_| self.closed)?;
        let then = then.per_s?;
        let more = |then: f64, now: f64| (then - now).max(0.0);
        Some(Interval {
            low: more(then.low, today.high),
            estimate: more(then.estimate, today.estimate),
            high: more(then.high, today.low),
        })
    }

    /// What is known of today's size.
    pub fn today(&self) -> Option<Predicted> {
        self.rows.iter().find(|row| (row.factor - 1.0).abs() < 1e-9)?.predicted
    }

    /// Reads a second that each GiB beyond today's size saves, up to the next row; from the least to the most
    /// that both intervals allow.
    pub fn worth_per_gib(&self) -> Option<Interval> {
        let today = self.rows.iter().find(|row| (row.factor - 1.0).abs() < 1e-9)?;
        let next = self.rows.iter().find(|row| row.factor > 1.0 && row.reads_per_s.is_some())?;
        let (now, then) = (today.reads_per_s?, next.reads_per_s?);
        let gib = (next.bytes - today.bytes) as f64 / GIB;
        // A larger pool never misses more.
        let saved = |now: f64, then: f64| ((now - then) / gib).max(0.0);
        Some(Interval {
            low: saved(now.low, then.high),
            estimate: saved(now.estimate, then.estimate),
            high: saved(now.high, then.low),
        })
    }
}

/// A p99, or a dash where none is known.
pub(crate) fn in_words(p99_ms: Option<Interval>) -> String {
    p99_ms.as_ref().map_or_else(|| "-".to_owned(), interval)
}

impl Answer for MemoryAnswer {
    fn about(&self) -> (Kind, String, String) {
        (Kind::Memory, self.subject.clone(), self.workload.clone())
    }

    /// Of sizes that were not measured.
    fn predictions(&self) -> Vec<Prediction> {
        let guesses = self.rows.iter().filter_map(|row| row.predicted).chain(self.curve.iter().copied());
        let of = |one: Predicted, what: &str, value| Prediction {
            model: "memory".to_owned(),
            what: what.to_owned(),
            at: one.bytes as f64,
            cores: None,
            value,
            level: LEVEL,
        };
        guesses
            .filter(|one| !one.measured)
            .flat_map(|one| {
                let p99 = one.p99_ms.map(|p99| of(one, "p99_ms", p99));
                [Some(of(one, "miss_ratio", one.miss_ratio)), p99].into_iter().flatten()
            })
            .collect()
    }

    fn observed(&self) -> Vec<Observed> {
        let of = |one: &Measured, what: &str, values: &[f64]| {
            let value = plan::quantile::median(values)?;
            Some(Observed { what: what.to_owned(), at: one.bytes as f64, cores: None, value })
        };
        let both = |one: &Measured| [of(one, "miss_ratio", &one.miss_ratio), of(one, "p99_ms", &one.p99_ms)];
        // What was still falling is no outcome of a prediction.
        self.measured.iter().filter(|one| one.steady).flat_map(both).flatten().collect()
    }

    fn assumptions(&self) -> Vec<String> {
        let mut all = vec![
            "The load stays what was sent, and the data what they are.".to_owned(),
            format!(
                "Between two sizes the curve may be off by {:.0} % of their difference; that is in the intervals.",
                BETWEEN * 100.0
            ),
        ];
        if self.closed {
            all.push(
                "What a larger pool gets done more is of as many clients as were sent; more clients may get more."
                    .to_owned(),
            );
        }
        all
    }

    fn is_good(&self) -> bool {
        self.is_back
    }

    fn text(&self) -> String {
        let mut text = format!(
            "{} on {}; the pool is {} today\n\n",
            self.workload,
            self.subject,
            bytes(self.today_bytes)
        );
        let mut table = Table::new(&[">size", ">factor", ">miss", ">reads a second", ">p99 ms", ""]);
        for row in &self.rows {
            let cells =
                row.predicted.map(|one| (percent(&one.miss_ratio), in_words(one.p99_ms), one.measured));
            let reads = row.reads_per_s.as_ref().map_or_else(|| "-".to_owned(), interval);
            let (misses, p99, words) = match cells {
                Some((misses, p99, true)) if self.is_unsteady(row.bytes) => {
                    (misses, p99, "measured, not steady")
                }
                Some((misses, p99, true)) => (misses, p99, "measured"),
                Some((misses, p99, false)) => (misses, p99, "predicted"),
                None => ("-".to_owned(), "-".to_owned(), "outside of what was measured"),
            };
            table.row(vec![
                bytes(row.bytes),
                format!("{:.2}", row.factor),
                misses,
                reads,
                p99,
                words.to_owned(),
            ]);
        }
        text += &table.text();
        text.push('\n');
        for one in &self.measured {
            let middle = |values: &[f64]| plan::quantile::median(values).unwrap_or(0.0);
            let _ = writeln!(
                text,
                "measured: {:>9}  {:6.2} % miss  p99 {} ms  {} a second (medians of {} windows){}",
                bytes(one.bytes),
                middle(&one.miss_ratio) * 100.0,
                plan::quantile::median(&one.p99_ms).map_or_else(|| "-".to_owned(), figure),
                figure(middle(&one.per_s)),
                one.per_s.len(),
                if one.steady { "" } else { ", NOT steady" }
            );
        }
        let _ = match self.knee {
            Some(knee) => {
                writeln!(text, "Knee at about {}: beyond it a further doubling saves less.", bytes(knee))
            }
            None if self.measured.iter().any(|one| !one.steady) => {
                writeln!(text, "No knee is named: a size did not become steady.")
            }
            None => writeln!(text, "No knee: within these sizes the curve has no bend."),
        };
        if let Some(worth) = self.worth_per_gib() {
            let _ = writeln!(
                text,
                "More memory from here: {} reads a second less for each GiB.",
                interval(&worth)
            );
        }
        for note in &self.notes {
            let _ = writeln!(text, "Note: {note}");
        }
        if !self.is_back {
            text += "The pool could NOT be put back; headroom knob restore tries again.\n";
        }
        text += &assumed(&self.assumptions());
        text += "Intervals are 95 %. Nothing is said outside of the sizes measured.\n";
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_what_was_measured_and_says_what_was_not() {
        let at = |mib: u64, misses: f64| Measured {
            bytes: mib << 20,
            miss_ratio: vec![misses; 3],
            p99_ms: vec![2.0 + 40.0 * misses; 3],
            per_s: vec![100.0; 3],
            requests_each: 50.0,
            steady: true,
        };
        let measured = vec![at(64, 0.4), at(128, 0.2), at(256, 0.05)];
        let today_bytes = 128 << 20;
        let measurement = Measurement { sizes: measured, today_bytes, notes: Vec::new(), is_back: true };
        let answer = answer("db1".into(), "w".into(), measurement).unwrap();
        let text = answer.text();
        assert!(text.contains("outside of what was measured"), "{text}");
        let double = answer.rows.iter().find(|row| row.factor == 2.0).unwrap();
        assert!((double.reads_per_s.unwrap().estimate - 250.0).abs() < 1.0);
        let worth = answer.worth_per_gib().unwrap();
        assert!(0.0 < worth.low && worth.low <= worth.estimate && worth.estimate <= worth.high, "{worth:?}");
        assert_eq!(answer.observed().len(), 6);
        let json = serde_json::to_string(&answer).unwrap();
        assert_eq!(serde_json::from_str::<MemoryAnswer>(&json).unwrap().rows.len(), 9);
    }

    #[test]
    fn a_size_that_did_not_become_steady_is_said_and_is_no_outcome() {
        let at = |mib: u64, misses: f64, steady: bool| Measured {
            bytes: mib << 20,
            miss_ratio: vec![misses; 3],
            p99_ms: vec![2.0 + 40.0 * misses; 3],
            per_s: vec![100.0; 3],
            requests_each: 50.0,
            steady,
        };
        let sizes = vec![at(64, 0.4, true), at(128, 0.2, false), at(256, 0.05, true)];
        let measurement = Measurement { sizes, today_bytes: 128 << 20, notes: Vec::new(), is_back: true };
        let answer = answer("db1".into(), "w".into(), measurement).unwrap();
        let today = answer.rows.iter().find(|row| row.factor == 1.0).unwrap().predicted.unwrap();
        assert!(today.miss_ratio.low < 0.06, "{today:?}");
        assert_eq!((answer.knee, answer.observed().len()), (None, 4));
        let text = answer.text();
        assert!(text.contains("measured, not steady") && text.contains("No knee is named"), "{text}");
    }

    #[test]
    fn where_no_transaction_was_done_reads_a_second_are_not_known_and_not_none() {
        let at = |mib: u64, misses: f64| Measured {
            bytes: mib << 20,
            miss_ratio: vec![misses; 3],
            p99_ms: Vec::new(),
            per_s: vec![0.0; 3],
            requests_each: 0.0,
            steady: true,
        };
        let sizes = vec![at(64, 0.4), at(128, 0.2), at(256, 0.05)];
        let measurement = Measurement { sizes, today_bytes: 128 << 20, notes: Vec::new(), is_back: true };
        let answer = answer("db1".into(), "w".into(), measurement).unwrap();
        let today = answer.rows.iter().find(|row| row.factor == 1.0).unwrap();
        assert!(today.predicted.is_some() && today.reads_per_s.is_none(), "{today:?}");
        assert!(!answer.text().contains("More memory from here"), "{}", answer.text());
    }

    #[test]
    fn a_size_whose_load_was_not_sound_has_no_p99() {
        let at = |mib: u64, misses: f64, p99: usize| Measured {
            bytes: mib << 20,
            miss_ratio: vec![misses; 3],
            p99_ms: vec![2.0 + 40.0 * misses; p99],
            per_s: vec![100.0; 3],
            requests_each: 50.0,
            steady: true,
        };
        let sizes = vec![at(64, 0.4, 0), at(128, 0.2, 3), at(256, 0.05, 3)];
        let measurement = Measurement { sizes, today_bytes: 128 << 20, notes: Vec::new(), is_back: true };
        let answer = answer("db1".into(), "w".into(), measurement).unwrap();
        assert_eq!(answer.observed().len(), 5);
        let half = answer.rows.iter().find(|row| row.factor == 0.5).unwrap().predicted.unwrap();
        assert!(half.p99_ms.is_none() && half.miss_ratio.estimate > 0.3, "{half:?}");
        assert!(answer.text().contains("p99 - ms"), "{}", answer.text());
        assert!(answer.predictions().iter().all(|one| one.what != "p99_ms" || one.at > 100e6));
    }
}
