//! When growth meets a ceiling.
//!
//! The load is taken to grow by an equal share in equal times: ln y = a + b t, fitted by least squares. The
//! day is where the fitted line meets the ceiling; its interval is where the bounds of a *new* observation
//! do, so it holds the scatter from day to day as well as what is not known of the line. A straight line
//! forecasts a future like the past, and no more: it is refused beyond [`REACH`] times the stretch that was
//! seen.

use crate::student;
use serde::{Deserialize, Serialize};

/// A forecast reaches this many times the stretch that was seen.
pub const REACH: f64 = 3.0;
/// A trend takes this many days.
pub const FEWEST: usize = 5;

/// A trend.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Growth {
    /// Growth a day, as a share.
    pub a_day: f64,
    intercept: f64,
    slope: f64,
    scatter: f64,
    middle: f64,
    spread: f64,
    count: f64,
    from: f64,
    to: f64,
}

/// When the ceiling is met, days after [`Growth::last_day`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Meeting {
    /// At the earliest.
    pub earliest: f64,
    /// By the line; `None` beyond what may be forecast.
    pub expected: Option<f64>,
    /// At the latest; `None` beyond what may be forecast.
    pub latest: Option<f64>,
}

impl Growth {
    /// From the load at some days; `None` of fewer than five, or where they are of one moment.
    pub fn new(seen: &[(f64, f64)]) -> Option<Self> {
        let points: Vec<(f64, f64)> = seen
            .iter()
            .filter(|(day, load)| day.is_finite() && *load > 0.0)
            .map(|(d, l)| (*d, l.ln()))
            .collect();
        let count = points.len() as f64;
        if points.len() < FEWEST {
            return None;
        }
        let middle = points.iter().map(|point| point.0).sum::<f64>() / count;
        let mean = points.iter().map(|point| point.1).sum::<f64>() / count;
        let spread: f64 = points.iter().map(|point| (point.0 - middle).powi(2)).sum();
        if spread <= 0.0 {
            return None;
        }
        let slope = points.iter().map(|(d, l)| (d - middle) * (l - mean)).sum::<f64>() / spread;
        let intercept = mean - slope * middle;
        let misfit: f64 = points.iter().map(|(d, l)| (l - intercept - slope * d).powi(2)).sum();
        let scatter = (misfit / (count - 2.0)).sqrt();
        let from = points.iter().map(|point| point.0).fold(f64::INFINITY, f64::min);
        let to = points.iter().map(|point| point.0).fold(f64::NEG_INFINITY, f64::max);
        Some(Self { a_day: slope.exp() - 1.0, intercept, slope, scatter, middle, spread, count, from, to })
    }

    /// The load on a day, with the bounds of a new observation.
    pub fn on(&self, day: f64, level: f64) -> crate::Interval {
        let line = self.intercept + self.slope * day;
        let reach = student::quantile(f64::midpoint(1.0, level), self.count - 2.0)
            * self.scatter
            * (1.0 + 1.0 / self.count + (day - self.middle).powi(2) / self.spread).sqrt();
        crate::Interval { low: (line - reach).exp(), estimate: line.exp(), high: (line + reach).exp() }
    }

    /// The last day with a load: one without any tells no trend.
    pub fn last_day(&self) -> f64 {
        self.to
    }

    /// Days after the last one with a load that a forecast reaches.
    pub fn horizon(&self) -> f64 {
        REACH * (self.to - self.from)
    }

    /// The load of the line on the last day that was seen.
    pub fn now(&self) -> f64 {
        (self.intercept + self.slope * self.to).exp()
    }

    /// When the ceiling is met; `None` where it is not within the forecast's reach even at the earliest.
    pub fn meets(&self, ceiling: f64, level: f64) -> Option<Meeting> {
        let horizon = self.horizon();
        let steps = 2000;
        let days = (0..=steps).map(|at| horizon * f64::from(at) / f64::from(steps));
        let first = |of: fn(&crate::Interval) -> f64| {
            days.clone().find(|day| of(&self.on(self.to + day, level)) >= ceiling)
        };
        Some(Meeting {
            earliest: first(|i| i.high)?,
            expected: first(|i| i.estimate),
            latest: first(|i| i.low),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(a_day: f64, noise: f64) -> Vec<(f64, f64)> {
        let wave = [0.4, -1.0, 0.7, 0.1, -0.6, 1.0, -0.5];
        (0..60)
            .map(|d| (f64::from(d), 1000.0 * (1.0 + a_day).powi(d) * (1.0 + noise * wave[d as usize % 7])))
            .collect()
    }

    #[test]
    fn growth_meets_the_ceiling_on_the_day_that_compound_growth_does() {
        let growth = Growth::new(&seen(0.01, 0.03)).unwrap();
        assert!((growth.a_day - 0.01).abs() < 5e-4, "{growth:?}");
        // 1000 * 1.01^d = 3000 at d = 110.4, which is 51.4 days after the last.
        let meeting = growth.meets(3000.0, 0.95).unwrap();
        let (expected, latest) = (meeting.expected.unwrap(), meeting.latest.unwrap());
        assert!((expected - 51.4).abs() < 2.0, "{meeting:?}");
        assert!(meeting.earliest < 51.4 && 51.4 < latest, "{meeting:?}");
    }

    #[test]
    fn a_load_that_does_not_grow_meets_no_ceiling_within_reach() {
        assert_eq!(Growth::new(&seen(0.0, 0.02)).unwrap().meets(2000.0, 0.95), None);
        assert!(Growth::new(&seen(0.01, 0.0)[..4]).is_none(), "too few days");
    }
}
