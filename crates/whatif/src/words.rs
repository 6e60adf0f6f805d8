//! How figures with intervals are written, and values of a command line are read.

use plan::Interval;
use std::ops::RangeInclusive;
use std::time::Duration;

/// Why a value of a command line is not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ValueError {
    #[error("must be a number above 0")]
    NotAboveZero { text: String },
    #[error("must be a share, from 0 to 1")]
    NoShare { text: String },
    #[error("must be a share above 0 and at most 1, such as 0.9")]
    NoFill { text: String },
    #[error("write NAME=READS, such as a=400")]
    NoZone { text: String },
    #[error("'{text}' is no size; write for example 16G")]
    NoSize { text: String },
    /// More or fewer sizes than are allowed.
    #[error("name {} to {} different sizes; there are {found}", allowed.start(), allowed.end())]
    Sizes { allowed: RangeInclusive<usize>, found: usize },
    /// Less time than it takes to see that a buffer pool is warm.
    #[error(
        "a size is seen to be warm after {passes} passes of {:.0} s at the earliest; give it {:.0} s or more",
        pass.as_secs_f64(), least.as_secs_f64()
    )]
    WarmTooShort {
        passes: u32,
        /// How long one takes.
        pass: Duration,
        /// All of them.
        least: Duration,
    },
}

/// Three significant digits: what is small is not written as 0.
pub fn figure(value: f64) -> String {
    if !value.is_finite() {
        return "no limit".to_owned();
    }
    match value.abs() {
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        v if v >= 1.0 => format!("{value:.2}"),
        0.0 => "0".to_owned(),
        v if v >= 0.1 => format!("{value:.3}"),
        v if v >= 1e-6 => {
            let decimals = (2.0 - v.log10().floor()) as usize;
            format!("{value:.decimals$}")
        }
        _ => format!("{value:.2e}"),
    }
}

/// So much for each unit of what it takes: nothing where that is not known, or is none.
pub(crate) fn per_unit(value: f64, units: Option<f64>) -> Option<f64> {
    units.filter(|units| *units > 0.0).map(|units| value / units)
}

/// What a host gets done for its price.
pub(crate) fn for_price(per_price: Option<f64>, free: bool) -> String {
    match per_price {
        Some(per) => figure(per),
        None if free => "free".to_owned(),
        None => "no price".to_owned(),
    }
}

/// Reads a number above 0.
///
/// # Errors
/// It is no number, or not above 0.
pub fn parse_above_zero(text: &str) -> Result<f64, ValueError> {
    let value = text.parse().ok().filter(|value: &f64| *value > 0.0 && value.is_finite());
    value.ok_or_else(|| ValueError::NotAboveZero { text: text.to_owned() })
}

/// Reads a share.
///
/// # Errors
/// It is no number from 0 to 1.
pub fn parse_share(text: &str) -> Result<f64, ValueError> {
    let value = text.parse().ok().filter(|value| (0.0..=1.0).contains(value));
    value.ok_or_else(|| ValueError::NoShare { text: text.to_owned() })
}

/// Reads the share that may be used: of none of it nothing can be planned.
///
/// # Errors
/// It is no number above 0, up to 1.
pub fn parse_fill(text: &str) -> Result<f64, ValueError> {
    let value = text.parse().ok().filter(|value: &f64| *value > 0.0 && *value <= 1.0);
    value.ok_or_else(|| ValueError::NoFill { text: text.to_owned() })
}

/// `12.3 (11.0 to 14.1)`.
pub fn interval(of: &Interval) -> String {
    format!("{} ({} to {})", figure(of.estimate), figure(of.low), figure(of.high))
}

/// The same, of a share, in percent.
pub fn percent(of: &Interval) -> String {
    let hundred = |value: f64| value * 100.0;
    interval(&Interval { low: hundred(of.low), estimate: hundred(of.estimate), high: hundred(of.high) })
        + " %"
}

/// The same, of seconds, in milliseconds.
pub fn ms(of: &Interval) -> Interval {
    Interval { low: of.low * 1e3, estimate: of.estimate * 1e3, high: of.high * 1e3 }
}

/// What an answer assumes, as a list at its end.
pub fn assumed(lines: &[String]) -> String {
    let lines: String = lines.iter().map(|line| format!("  {line}\n")).collect();
    if lines.is_empty() { lines } else { format!("\nAssumed:\n{lines}") }
}

/// Bytes in the largest unit that they fill.
pub fn bytes(value: u64) -> String {
    const UNITS: [(&str, u64); 3] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    let unit = UNITS.iter().find(|(_, size)| value >= *size);
    unit.map_or_else(
        || format!("{value} B"),
        |(name, size)| format!("{} {name}", figure(value as f64 / *size as f64)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_may_be_0_and_what_may_be_used_may_not() {
        assert_eq!((parse_share("0"), parse_fill("0.9"), parse_fill("1")), (Ok(0.0), Ok(0.9), Ok(1.0)));
        for text in ["0", "-0.1", "1.1", "nan", "x"] {
            assert_eq!(parse_fill(text), Err(ValueError::NoFill { text: text.to_owned() }));
        }
    }

    #[test]
    fn figures_have_three_digits_and_stand_with_their_interval() {
        assert_eq!(interval(&Interval { low: 0.5, estimate: 12.345, high: 2000.4 }), "12.3 (0.500 to 2000)");
        assert_eq!(figure(f64::INFINITY), "no limit");
        let small = [0.1, 0.05, 0.000_123, -0.02, 3e-9].map(figure);
        assert_eq!(small, ["0.100", "0.0500", "0.000123", "-0.0200", "3.00e-9"]);
        assert_eq!(percent(&Interval { low: 0.1, estimate: 0.2, high: 0.25 }), "20.0 (10.0 to 25.0) %");
        assert_eq!(
            (bytes(3 << 30), bytes(48 << 20), bytes(12)),
            ("3.00 GiB".into(), "48.0 MiB".into(), "12 B".into())
        );
    }
}
