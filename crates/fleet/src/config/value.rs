//! What the texts of a configuration mean: durations, addresses, matchers. Pure; each error says what would be right.

use super::Matcher;
use crate::Address;
use ipnet::IpNet;
use std::borrow::Cow;
use std::net::IpAddr;
use std::time::Duration;

/// Why a value is refused: what is wrong, and what would be right.
pub(super) type Refusal = (String, String);

/// No duration of this product is longer; a longer one is a slip.
const LONGEST: Duration = Duration::from_secs(7 * 24 * 3600);

/// A duration as people write it: `500ms`, `1.5s`, `2m`, `1h`, `1d`.
pub fn duration(text: &str) -> Result<Duration, String> {
    const RIGHT: &str = "write a number and a unit: 500ms, 10s, 2m, 1h";
    let trimmed = text.trim();
    let split = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(split);
    let seconds_each = match unit.trim() {
        "ms" => 1e-3,
        "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        "" => return Err(format!("'{text}' has no unit; {RIGHT}")),
        _ => return Err(format!("'{text}' is not a duration; {RIGHT}")),
    };
    let number: f64 = number.parse().map_err(|_| format!("'{text}' is not a duration; {RIGHT}"))?;
    let seconds = number * seconds_each;
    if seconds > LONGEST.as_secs_f64() {
        return Err(format!("'{text}' is longer than a week; {RIGHT}"));
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

/// The key of a tag on a statement: `endpoint`, or two joined, `controller+action`.
pub(super) fn tag(text: &str) -> Result<String, Refusal> {
    let is_key = |key: &str| {
        !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.'))
    };
    if text.len() <= 128 && text.split('+').count() <= 2 && text.split('+').all(is_key) {
        return Ok(text.to_owned());
    }
    let right = "write the tag's key (endpoint), or two keys whose values are joined (controller+action)";
    Err((format!("'{text}' is not the key of a tag"), right.to_owned()))
}

/// What picks hosts out: `10.1.0.0/16`, `10.1.2.3`, `db-a*`, `db1:3306`, `rack=7`.
pub(super) fn matcher(text: &str) -> Result<Matcher, Refusal> {
    const FORMS: &str =
        "write an address block (10.1.0.0/16), a host or server name (db1, db-a*), or a label (rack=7)";
    let refuse = |why: &str| Err((format!("'{text}' {why}"), FORMS.to_owned()));
    if text.trim() != text || text.is_empty() {
        return refuse("is empty or has spaces around it");
    }
    if let Some((key, value)) = text.split_once('=') {
        return if key.is_empty() || value.is_empty() {
            refuse("is not a label")
        } else {
            Ok(Matcher::Label(key.to_owned(), value.to_owned()))
        };
    }
    if text.contains('/') && !text.starts_with('/') {
        return match text.parse::<IpNet>() {
            Ok(net) if net.trunc() == net => Ok(Matcher::Net(net)),
            Ok(net) => {
                let right =
                    format!("write {} for the block, or {} for the one host", net.trunc(), net.addr());
                Err((format!("'{text}' has bits set beyond its prefix"), right))
            }
            Err(_) => refuse("is not an address block"),
        };
    }
    if let Ok(ip) = text.parse::<IpAddr>() {
        return Ok(Matcher::Net(IpNet::from(ip)));
    }
    let looks_like_ipv4 =
        !text.contains('*') && text.split('.').count() == 4 && text.split('.').all(is_number);
    if looks_like_ipv4 {
        return refuse("is not an IPv4 address");
    }
    if text.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return refuse("is not a host name");
    }
    Ok(Matcher::Name(text.to_owned()))
}

/// The same without labels, for hosts that nothing is known of but their address: `10.0.0.0/8`,
/// `*.db.internal`.
pub(super) fn net_or_name(text: &str) -> Result<Matcher, Refusal> {
    match matcher(text) {
        Ok(Matcher::Label(..)) => Err((
            format!("'{text}' is a label, and a server that is not known yet has none"),
            "write an address block (10.0.0.0/8) or a host name (*.db.internal)".to_owned(),
        )),
        other => other,
    }
}

/// An address that is dialled: a host name is welcome, nonsense in it is not.
pub(super) fn address(text: &str) -> Result<Address, Refusal> {
    let address: Address = text.parse().map_err(|error: crate::AddressError| split(&error.to_string()))?;
    if let Some(host) = address.host() {
        let odd = host.is_empty() || host.chars().any(|c| !(c.is_alphanumeric() || "-_.:%".contains(c)));
        let numbers = host.split('.').count() == 4 && host.split('.').all(is_number);
        if odd || (numbers && host.parse::<IpAddr>().is_err()) {
            let right = "write host:port, [ipv6]:port or /path/to/socket";
            return Err((format!("'{text}' names no possible host"), right.to_owned()));
        }
    }
    Ok(address)
}

/// The same with `localhost` as its number, which no name server has a say in.
pub(super) fn numeric(text: &str) -> Cow<'_, str> {
    match text.strip_prefix("localhost") {
        Some(rest) if rest.is_empty() || rest.starts_with(':') => Cow::Owned(format!("127.0.0.1{rest}")),
        _ => Cow::Borrowed(text),
    }
}

/// A host name alone.
pub(super) fn host_name(text: &str) -> Result<String, Refusal> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if text.is_empty() || !text.chars().all(plain) {
        let right = "write a host name alone, as it stands in the browser's address: \"headroom.example\"";
        return Err((format!("'{text}' is no host name"), right.to_owned()));
    }
    Ok(text.to_owned())
}

/// An address that is listened on: numeric, so that a name server has no say in who may come.
pub(super) fn listening_address(text: &str) -> Result<Address, Refusal> {
    let address = address(&numeric(text))?;
    match address.host() {
        Some(host) if host.parse::<IpAddr>().is_err() => {
            let right = "write an IP address (127.0.0.1:3306; with allow, also 0.0.0.0:3306), localhost, or a socket path";
            Err((
                format!("'{host}' is a host name, and a listener needs a numeric address"),
                right.to_owned(),
            ))
        }
        _ => Ok(address),
    }
}

/// Cuts "what is wrong; what would be right" in two.
pub(super) fn split(text: &str) -> Refusal {
    match text.split_once("; ") {
        Some((wrong, right)) => (wrong.to_owned(), right.to_owned()),
        None => (text.to_owned(), String::new()),
    }
}

fn is_number(part: &str) -> bool {
    !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn durations_need_a_unit() {
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("1.5 s"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        assert!(duration("10").unwrap_err().contains("no unit"));
        for bad in ["", "s", "-1s", "1..2s", "3 fortnights", "9999h"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn matchers_take_blocks_names_and_labels() {
        assert_eq!(matcher("rack=7"), Ok(Matcher::Label("rack".into(), "7".into())));
        assert_eq!(matcher("10.1.0.0/16"), Ok(Matcher::Net("10.1.0.0/16".parse().unwrap())));
        assert_eq!(matcher("10.1.2.3"), Ok(Matcher::Net("10.1.2.3/32".parse().unwrap())));
        assert_eq!(matcher("db-a*"), Ok(Matcher::Name("db-a*".into())));
        assert!(matcher("10.1.2.3/16").unwrap_err().1.contains("10.1.0.0/16"));
        for bad in ["", "10.1.0.0/33", "300.1.1.1", "=7", "rack=", "two words"] {
            assert!(matcher(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn durations_read_back_as_they_are_written(ms in 0u64..600_000_000) {
            let written = Duration::from_millis(ms);
            prop_assert_eq!(duration(&duration_text(written)), Ok(written));
        }

        #[test]
        fn no_text_makes_a_value_panic(text in "\\PC{0,24}") {
            let _ = (duration(&text), matcher(&text), address(&text), listening_address(&text));
        }
    }
}
