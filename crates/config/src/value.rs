//! What the texts of a configuration mean: addresses, matchers, tags. Pure; each error says what would be right.

use super::Matcher;
use fleet::{Address, AddressError};
use ipnet::IpNet;
use std::borrow::Cow;
use std::net::IpAddr;

/// Why a value is refused: what is wrong, and what would be right.
pub(super) type Refusal = (String, String);

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
    let address: Address = text.parse().map_err(|error: AddressError| split(&error.to_string()))?;
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
        fn no_text_makes_a_value_panic(text in "\\PC{0,24}") {
            let _ = (matcher(&text), address(&text), listening_address(&text));
        }
    }
}
