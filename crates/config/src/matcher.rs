//! What picks hosts out: `10.1.0.0/16`, `10.1.2.3`, `db-a*`, `db1:3306`, `rack=7`.

use super::value::{Refusal, is_number};
use ipnet::IpNet;
use std::fmt;
use std::net::IpAddr;

/// What picks hosts out.
#[derive(Clone, Debug, PartialEq)]
pub enum Matcher {
    /// An address block; host names are matched by the addresses they resolve to.
    Net(IpNet),
    /// A host name, `host:port` or server name, `*` standing for any run of characters.
    Name(String),
    /// A label `key=value` that a [`ServerRule`] gives.
    Label(String, String),
}

impl fmt::Display for Matcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Net(net) => net.fmt(f),
            Self::Name(name) => write!(f, "'{name}'"),
            Self::Label(key, value) => write!(f, "{key}={value}"),
        }
    }
}

/// Reads any matcher.
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

/// Reads an address block.
pub(super) fn block(text: &str) -> Result<IpNet, Refusal> {
    match matcher(text)? {
        Matcher::Net(net) => Ok(net),
        _ => Err((
            format!("'{text}' is not an address block"),
            "write 10.0.0.0/8, 192.168.1.7 or fd00::/8".to_owned(),
        )),
    }
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
        fn no_text_makes_a_matcher_panic(text in "\\PC{0,24}") {
            let _ = matcher(&text);
        }
    }
}
