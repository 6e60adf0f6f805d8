//! How long something has lasted, for people.

use std::time::Duration;

/// A duration in words: `0.4 s`, `12 s`, `4 min 12 s`, `3 h 5 min`, `2 days 4 h`.
pub fn long(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..10 => format!("{:.1} s", duration.as_secs_f64()),
        10..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3600..172_800 => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
        _ => format!("{} days {} h", seconds / 86_400, seconds / 3600 % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_said_in_two_units() {
        let of = |s: u64| long(Duration::from_secs(s));
        assert_eq!(
            [of(7), of(42), of(252), of(11_100), of(187_200)],
            ["7.0 s", "42 s", "4 min 12 s", "3 h 5 min", "2 days 4 h"]
        );
    }
}
