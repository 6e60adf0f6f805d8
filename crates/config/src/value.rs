//! What the texts of a configuration mean: durations, addresses, tags. Pure; each error says what would be
//! right.

use fleet::{Address, AddressError};
use std::borrow::Cow;
use std::net::IpAddr;
use std::time::Duration;

/// Why a value is refused: what is wrong, and what would be right.
pub(super) type Refusal = (String, String);

/// A duration as people write it.
pub(super) fn duration(text: &str) -> Result<Duration, Refusal> {
    fleet::parse_duration(text).map_err(|error| split(&error.to_string()))
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
fn split(text: &str) -> Refusal {
    match text.split_once("; ") {
        Some((wrong, right)) => (wrong.to_owned(), right.to_owned()),
        None => (text.to_owned(), String::new()),
    }
}

pub(super) fn is_number(part: &str) -> bool {
    !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_text_makes_a_value_panic(text in "\\PC{0,24}") {
            let _ = (address(&text), listening_address(&text));
        }
    }
}
