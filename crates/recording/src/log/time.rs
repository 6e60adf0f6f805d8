//! Time: the moments that logs write. `2026-11-20T19:40:01.123456Z` (MySQL, with an offset or Z) and `261120
//! 19:40:01` (MariaDB, local time, taken as it stands: only differences matter).

use ::time::{Date, Month, UtcDateTime};

/// A moment in microseconds since 1970, how many bytes it took, and whether it knows whole seconds only.
pub(super) fn moment(text: &[u8]) -> Option<(u64, usize, bool)> {
    iso(text).or_else(|| short(text))
}

fn iso(text: &[u8]) -> Option<(u64, usize, bool)> {
    let separators = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')];
    if separators.iter().any(|(at, byte)| text.get(*at) != Some(byte)) {
        return None;
    }
    let part = |from: usize, to: usize| number(text.get(from..to)?);
    let day = days(part(0, 4)?, part(5, 7)?, part(8, 10)?)?;
    let mut at = ((day * 24 + part(11, 13)?) * 60 + part(14, 16)?) * 60 + part(17, 19)?;
    let (mut used, mut micros) = (19, 0);
    if text.get(19) == Some(&b'.') {
        let digits = text[20..].iter().take(6).take_while(|b| b.is_ascii_digit()).count();
        micros = number(&text[20..20 + digits])? * 10u64.pow(6 - digits as u32);
        used = 20 + digits;
    }
    match text.get(used) {
        Some(b'Z') => used += 1,
        Some(sign @ (b'+' | b'-')) => {
            let offset = (part(used + 1, used + 3)? * 60 + part(used + 4, used + 6)?) * 60;
            at = if *sign == b'+' { at.checked_sub(offset)? } else { at + offset };
            used += 6;
        }
        _ => {}
    }
    Some((at * 1_000_000 + micros, used, false))
}

fn short(text: &[u8]) -> Option<(u64, usize, bool)> {
    if text.get(6) != Some(&b' ') || text.get(9) != Some(&b':') || text.get(12) != Some(&b':') {
        return None;
    }
    let part = |from: usize, to: usize| number(text.get(from..to)?.trim_ascii_start());
    let day = days(2000 + part(0, 2)?, part(2, 4)?, part(4, 6)?)?;
    let at = ((day * 24 + part(7, 9)?) * 60 + part(10, 12)?) * 60 + part(13, 15)?;
    Some((at * 1_000_000, 15, true))
}

/// Digits, at most ten of them.
pub(super) fn number(text: &[u8]) -> Option<u64> {
    let right = !text.is_empty() && text.len() <= 10 && text.iter().all(u8::is_ascii_digit);
    right.then(|| text.iter().fold(0, |value, digit| value * 10 + u64::from(digit - b'0')))
}

/// Days since 1970-01-01 of a date of the Gregorian calendar.
fn days(year: u64, month: u64, day: u64) -> Option<u64> {
    let month = Month::try_from(u8::try_from(month).ok()?).ok()?;
    let date = Date::from_calendar_date(i32::try_from(year).ok()?, month, u8::try_from(day).ok()?).ok()?;
    u64::try_from((date - UtcDateTime::UNIX_EPOCH.date()).whole_days()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_are_the_same_moment() {
        let at = 1_795_203_601_000_000;
        assert_eq!(moment(b"2026-11-20T19:40:01.250000Z\t"), Some((at + 250_000, 27, false)));
        assert_eq!(moment(b"2026-11-20T20:40:01+01:00"), Some((at, 25, false)));
        assert_eq!(moment(b"261120 19:40:01\t"), Some((at, 15, true)));
        assert_eq!(moment(b"261120  9:40:01"), Some((at - 36_000_000_000, 15, true)));
        for wrong in
            ["", "2026-11-20", "SELECT 1", "261320 19:40:01", "260230 19:40:01", "2026-11-20T19:40:0"]
        {
            assert_eq!(moment(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
