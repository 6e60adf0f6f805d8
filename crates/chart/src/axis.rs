//! An axis: from values to places, and where its labels stand. And numbers in few characters.

/// A range of values, laid out evenly or by powers of ten.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Axis {
    low: f64,
    high: f64,
    /// Between two labels of an even axis.
    step: f64,
    is_logarithmic: bool,
}

impl Axis {
    /// From zero, or from the least value where one is below, to a round number. `None` without a value.
    pub fn linear(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let (low, high) = ends(values.into_iter())?;
        let (low, high) = (low.min(0.0), high.max(0.0));
        // All zero: any step will do.
        let step = if high > low { step(high - low) } else { 1.0 };
        let high = if high > 0.0 { (high / step).ceil() * step } else { 0.0 };
        let low = (low / step).floor() * step;
        let high = if high > low { high } else { low + 1.0 };
        Some(Self { low, high, step: step.min(high - low), is_logarithmic: false })
    }

    /// Whole powers of ten around all values above zero. `None` without one.
    pub fn logarithmic(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let (low, high) = ends(values.into_iter().filter(|value| *value > 0.0))?;
        let low = low.log10().floor();
        let high = high.log10().ceil().max(low + 1.0);
        Some(Self { low: 10_f64.powf(low), high: 10_f64.powf(high), step: 0.0, is_logarithmic: true })
    }

    /// Exactly from here to there.
    pub fn between(low: f64, high: f64) -> Self {
        let high = if high > low { high } else { low + 1.0 };
        Self { low, high, step: step(high - low), is_logarithmic: false }
    }

    /// Ratios: as far below 1 as above it, on a logarithmic scale, by a factor of `reach` at most.
    pub fn ratio(reach: f64) -> Self {
        let reach = reach.max(1.01);
        Self { low: 1.0 / reach, high: reach, step: 0.0, is_logarithmic: true }
    }

    /// Where a value stands, 0 to 1; values outside stand at the end.
    pub fn at(&self, value: f64) -> f64 {
        let place = if self.is_logarithmic {
            let least = f64::MIN_POSITIVE;
            (value.max(least) / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        if place.is_nan() { 0.0 } else { place.clamp(0.0, 1.0) }
    }

    /// Values for labels: round ones, both ends among them where they are round.
    pub fn ticks(&self) -> Vec<f64> {
        if self.is_logarithmic {
            let decades = (self.high / self.low).log10();
            let first = self.low.log10().ceil();
            let last = (self.high.log10() + 1e-9).floor();
            if decades >= 1.0 {
                return (0..=(last - first) as i32).map(|n| 10_f64.powf(first + f64::from(n))).collect();
            }
            return vec![self.low, (self.low * self.high).sqrt(), self.high];
        }
        let step = self.step;
        let first = (self.low / step - 1e-9).ceil();
        let count = ((self.high + step * 1e-9) / step).floor() - first;
        (0..=count.max(0.0) as i32).map(|n| (first + f64::from(n)) * step).collect()
    }
}

fn ends(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.filter(|value| value.is_finite()).fold(None, |ends, value| {
        Some(ends.map_or((value, value), |(low, high): (f64, f64)| (low.min(value), high.max(value))))
    })
}

/// Between two labels, so that there are three to six of them: 1, 2, 2.5 or 5 times a power of ten.
fn step(range: f64) -> f64 {
    let rough = range / 5.0;
    let power = 10_f64.powf(rough.log10().floor());
    let steps = [1.0, 2.0, 2.5, 5.0, 10.0];
    steps.iter().map(|step| step * power).find(|step| *step >= rough * 0.9999).unwrap_or(10.0 * power)
}

/// A small round number that is at least `value`: where an axis may end.
pub fn round_up(value: f64) -> f64 {
    if value <= 0.0 || !value.is_finite() {
        return 1.0;
    }
    let power = 10f64.powf(value.log10().floor());
    let steps = [1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0];
    steps.iter().map(|s| s * power).find(|v| *v >= value * 0.9999).unwrap_or(10.0 * power)
}

/// A number of any size in few characters: `0.05`, `250`, `12k`, `1.2M`.
pub fn short(value: f64) -> String {
    let rounded = |value: f64, digits: f64| (value * digits).round() / digits;
    match value.abs() {
        v if v >= 1e6 => format!("{}M", rounded(value / 1e6, 100.0)),
        v if v >= 1e4 => format!("{}k", rounded(value / 1e3, 100.0)),
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => rounded(value, 10.0).to_string(),
        _ => rounded(value, 1000.0).to_string(),
    }
}

/// Milliseconds with as many digits as they deserve.
pub fn ms(value: f64) -> String {
    match value {
        v if v >= 100.0 => format!("{v:.0} ms"),
        v if v >= 10.0 => format!("{v:.1} ms"),
        v => format!("{v:.2} ms"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_end_at_round_numbers() {
        for (value, end) in
            [(0.0, 1.0), (0.9, 1.0), (1.2, 1.5), (37.0, 40.0), (101.0, 150.0), (1000.0, 1000.0)]
        {
            assert!((round_up(value) - end).abs() < 1e-9, "{value}");
        }
        let ticks = |values: &[f64]| Axis::linear(values.iter().copied()).unwrap().ticks();
        assert_eq!(ticks(&[3.0, 950.0]), [0.0, 200.0, 400.0, 600.0, 800.0, 1000.0]);
        assert_eq!(ticks(&[-5.0, 5.0]), [-6.0, -4.0, -2.0, 0.0, 2.0, 4.0, 6.0]);
        assert_eq!(Axis::logarithmic([0.5, 950.0]).unwrap().ticks(), [0.1, 1.0, 10.0, 100.0, 1000.0]);
    }

    #[test]
    fn a_value_stands_inside_the_axis_whatever_it_is() {
        for axis in [Axis::linear([0.0, 7.0]), Axis::logarithmic([1.0, 7.0]), Some(Axis::ratio(1.0))] {
            let axis = axis.unwrap();
            for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, 0.0, 1e300] {
                assert!((0.0..=1.0).contains(&axis.at(value)), "{value} on {axis:?}");
            }
        }
        assert!((Axis::ratio(1.5).at(1.0) - 0.5).abs() < 1e-9);
        assert_eq!(
            (Axis::linear([]), Axis::linear([f64::NAN]), Axis::logarithmic([0.0])),
            (None, None, None)
        );
        // All values are the same, or zero: it still has a length.
        assert!(Axis::linear([0.0]).unwrap().at(0.0).abs() < 1e-9);
    }

    #[test]
    fn numbers_are_short() {
        let shown = [0.05, 2.5, 12.34, 250.4, 12_000.0, 1_234_567.0, -3.0].map(short);
        assert_eq!(shown, ["0.05", "2.5", "12.3", "250", "12k", "1.23M", "-3"]);
    }
}
