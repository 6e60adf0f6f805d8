//! The buffer pool's curve as charts: misses and response times by size, with their bands, and what was
//! measured.

use crate::memory::MemoryAnswer;
use chart::{Line, Lines};
use plan::Interval;
use plan::memory::{Measured, Predicted};

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// Misses and p99 by the size of the pool; `later` was measured afterwards, and is not part of the curve.
pub fn figures(answer: &MemoryAnswer, later: &[Measured]) -> String {
    let line = |of: fn(&Predicted) -> Option<Interval>| {
        let known: Vec<_> = answer.curve.iter().filter_map(|one| Some((mib(one.bytes), of(one)?))).collect();
        let points = known.iter().map(|(size, at)| (*size, at.estimate)).collect();
        let band = known.iter().map(|(size, at)| (*size, at.low, at.high)).collect();
        Line::new("predicted", points).band(band)
    };
    let dots = |name: &str, all: &[Measured], of: fn(&Measured) -> Vec<f64>| {
        let each = all.iter().flat_map(|one| of(one).into_iter().map(|value| (mib(one.bytes), value)));
        Line::new(name, each.collect()).dots()
    };
    let chart = |title: &str, unit: &str, model: Line, of: fn(&Measured) -> Vec<f64>| {
        let mut lines = Lines::new(title, unit).x_axis("MiB").line(model);
        lines = lines.line(dots("measured", &answer.measured, of));
        if !later.is_empty() {
            lines = lines.line(dots("measured, not part of the curve", later, of).colour(2));
        }
        if let Some(knee) = answer.knee {
            lines = lines.mark(mib(knee), "knee");
        }
        lines.html()
    };
    let percent = |one: &Predicted| {
        let Interval { low, estimate, high } = one.miss_ratio;
        Some(Interval { low: low * 100.0, estimate: estimate * 100.0, high: high * 100.0 })
    };
    let misses = |one: &Measured| one.miss_ratio.iter().map(|misses| misses * 100.0).collect();
    chart("Misses by the size of the buffer pool", "% of page requests", line(percent), misses)
        + &chart("p99 by the size of the buffer pool", "ms", line(|one| one.p99_ms), |one| one.p99_ms.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{Measurement, answer};

    #[test]
    fn both_curves_show_what_was_measured_later_too() {
        let at = |mib: u64, misses: f64| Measured {
            bytes: mib << 20,
            miss_ratio: vec![misses; 3],
            p99_ms: vec![2.0 + 40.0 * misses; 3],
            per_s: vec![100.0; 3],
            requests_each: 50.0,
            steady: true,
        };
        let sizes = vec![at(64, 0.4), at(128, 0.2), at(256, 0.05)];
        let measurement = Measurement { sizes, today_bytes: 64 << 20, notes: Vec::new(), is_back: true };
        let answer = answer("db1".into(), "w".into(), measurement).unwrap();
        assert_eq!(figures(&answer, &[]).matches("<svg").count(), 2);
        assert!(figures(&answer, &[at(96, 0.3)]).contains("not part of the curve"));
    }
}
