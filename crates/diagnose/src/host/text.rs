//! Words and numbers of a `/proc` text, as bytes: what is no number is `None`, nothing panics, nothing is
//! copied.

/// The lines, without their ends.
pub(super) fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.split(|byte| *byte == b'\n')
}

pub(super) fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty())
}

/// A decimal number; `None` for anything else, and beyond 64 bits.
pub(super) fn decimal(word: &[u8]) -> Option<u64> {
    number(word, 10)
}

/// A hexadecimal number without prefix.
pub(super) fn hexadecimal(word: &[u8]) -> Option<u64> {
    number(word, 16)
}

/// A word as text; bytes that are no UTF-8 are replaced.
pub(super) fn text(word: &[u8]) -> String {
    String::from_utf8_lossy(word).into_owned()
}

/// `name: rest` of a line, blanks around the name left out. The last colon before a blank counts: device
/// names may have one of their own.
pub(super) fn named(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let start = line.iter().position(|byte| !byte.is_ascii_whitespace())?;
    let line = &line[start..];
    let blank = line.iter().position(u8::is_ascii_whitespace).unwrap_or(line.len());
    let colon = line[..blank].iter().rposition(|byte| *byte == b':')?;
    Some((&line[..colon], &line[colon + 1..]))
}

/// How much a counter of 64 bits has grown; 0 when it went back (a device that came anew, `iowait` on some
/// kernels).
pub(super) fn grown(now: u64, before: u64) -> u64 {
    now.saturating_sub(before)
}

/// How much a counter of 32 bits has grown, over its wrap. A fall from below three quarters of its range is
/// no wrap: it came anew, and counts 0.
pub(super) fn grown_32(now: u64, before: u64) -> u64 {
    const RANGE: u64 = 1 << 32;
    match now.checked_sub(before) {
        Some(grown) => grown,
        None if (RANGE / 4 * 3..RANGE).contains(&before) && now < RANGE / 4 => RANGE - before + now,
        None => 0,
    }
}

/// `part / whole`, `None` when there is no whole.
pub(super) fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

fn number(word: &[u8], base: u64) -> Option<u64> {
    if word.is_empty() {
        return None;
    }
    word.iter().try_fold(0u64, |sum, byte| {
        let digit = u64::from((*byte as char).to_digit(base as u32)?);
        sum.checked_mul(base)?.checked_add(digit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_or_refused() {
        assert_eq!(decimal(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(decimal(b"18446744073709551616"), None);
        assert_eq!(hexadecimal(b"05cf5590"), Some(0x05cf_5590));
        assert_eq!((decimal(b""), decimal(b"-1"), decimal(b"1a")), (None, None, None));
    }

    #[test]
    fn a_name_ends_at_its_last_colon() {
        assert_eq!(named(b"  lo: 1 2"), Some((&b"lo"[..], &b" 1 2"[..])));
        assert_eq!(named(b"eth0:1:3534461631 2"), Some((&b"eth0:1"[..], &b"3534461631 2"[..])));
        assert_eq!(named(b"  12 34"), None);
    }

    #[test]
    fn a_short_counter_that_wrapped_has_grown_and_one_that_came_anew_has_not() {
        assert_eq!(grown_32(5, u64::from(u32::MAX)), 6);
        assert_eq!(grown_32(5, 1000), 0);
        assert_eq!(grown_32(1005, 1000), 5);
    }
}
