//! Durations as people write and read them: `500ms`, `1.5s`, `2m`.

use crate::Blame;
use std::time::Duration;

/// No duration of this product is longer; a longer one is a slip.
const LONGEST: Duration = Duration::from_secs(7 * 24 * 3600);

/// Why a text is not a duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// A number alone.
    #[error("'{0}' has no unit; {RIGHT}")]
    NoUnit(String),
    /// Not a number and a unit that we know.
    #[error("'{0}' is not a duration; {RIGHT}")]
    NotADuration(String),
    /// Longer than a week.
    #[error("'{0}' is longer than a week; {RIGHT}")]
    TooLong(String),
}

impl DurationError {
    /// Whose fault it is: whoever wrote it.
    pub fn blame(&self) -> Blame {
        Blame::Config
    }
}

const RIGHT: &str = "write a number and a unit: 500ms, 10s, 2m, 1h";

/// A duration as people write it: `500ms`, `1.5s`, `2m`, `1h`, `1d`, at most a week, rounded to microseconds.
///
/// # Errors
/// The text has no unit, is no duration or longer than a week.
pub fn parse_duration(text: &str) -> Result<Duration, DurationError> {
    let no_duration = || DurationError::NotADuration(text.to_owned());
    let trimmed = text.trim();
    let split = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(split);
    let seconds_each = match unit.trim() {
        "ms" => 1e-3,
        "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        "" => return Err(DurationError::NoUnit(text.to_owned())),
        _ => return Err(no_duration()),
    };
    let number: f64 = number.parse().map_err(|_| no_duration())?;
    let seconds = number * seconds_each;
    if seconds > LONGEST.as_secs_f64() {
        return Err(DurationError::TooLong(text.to_owned()));
    }
    // Rounded to microseconds, so that 0.1s is 100ms and not one floating-point hair beside it.
    Ok(Duration::from_micros((seconds * 1e6).round() as u64))
}

/// A duration in the fewest words that read back the same: `500ms`, `10s`, `2m`.
pub fn duration_text(duration: Duration) -> String {
    let (seconds, micros) = (duration.as_secs(), duration.subsec_micros());
    match (seconds, micros) {
        (0, 0) => "0s".to_owned(),
        (s, 0) if s % 3600 == 0 => format!("{}h", s / 3600),
        (s, 0) if s % 60 == 0 => format!("{}m", s / 60),
        (s, 0) => format!("{s}s"),
        (0, u) if u % 1000 == 0 => format!("{}ms", u / 1000),
        (0, u) => format!("{}ms", f64::from(u) / 1000.0),
        _ => format!("{}s", duration.as_secs_f64()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn durations_need_a_unit() {
        assert_eq!(parse_duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_duration("1.5 s"), Ok(Duration::from_millis(1500)));
        assert_eq!(parse_duration("2m"), Ok(Duration::from_secs(120)));
        assert_eq!(parse_duration("10"), Err(DurationError::NoUnit("10".to_owned())));
        for bad in ["", "s", "-1s", "1..2s", "3 fortnights", "9999h"] {
            assert!(parse_duration(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn durations_read_back_as_they_are_written(ms in 0u64..600_000_000) {
            let written = Duration::from_millis(ms);
            prop_assert_eq!(parse_duration(&duration_text(written)), Ok(written));
        }

        #[test]
        fn no_text_makes_a_duration_panic(text in "\\PC{0,24}") {
            let _ = parse_duration(&text);
        }
    }
}
