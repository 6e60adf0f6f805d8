//! Listen: an address to listen on, as people write it: numbers, or a name that means this host alone.
//!
//! A name is taken only if everything it resolves to is loopback, so that no name server decides who may
//! come.

use std::net::{SocketAddr, ToSocketAddrs};

/// The address that `text` means; of several the first of IPv4.
///
/// # Errors
/// What is wrong with it, and what would be right.
pub fn address(text: &str) -> Result<SocketAddr, String> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let right = "write an IP address and a port, as in 127.0.0.1:9306, or localhost and a port";
    let named = text.rsplit_once(':').filter(|(name, port)| !name.is_empty() && port.parse::<u16>().is_ok());
    let Some((name, _)) = named else {
        return Err(format!("'{text}' is no address to listen on; {right}"));
    };
    let resolved = text.to_socket_addrs().map(Iterator::collect::<Vec<_>>);
    choose(name, &resolved.map_err(|error| format!("'{name}' does not resolve ({error}); {right}"))?)
        .map_err(|why| format!("{why}; {right}"))
}

fn choose(name: &str, resolved: &[SocketAddr]) -> Result<SocketAddr, String> {
    if let Some(beyond) = resolved.iter().find(|address| !address.ip().is_loopback()) {
        return Err(format!("'{name}' is {}, which is not loopback", beyond.ip()));
    }
    let first = resolved.iter().find(|address| address.is_ipv4()).or(resolved.first());
    first.copied().ok_or_else(|| format!("'{name}' resolves to nothing"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_taken_as_they_are_and_localhost_is_loopback() {
        for text in ["0.0.0.0:9306", "[::1]:9306", "127.0.0.1:1"] {
            assert_eq!(address(text), Ok(text.parse().unwrap()));
        }
        let named = address("localhost:9307").unwrap();
        assert!(named.ip().is_loopback() && named.port() == 9307, "{named}");
    }

    #[test]
    fn what_is_no_address_says_what_would_be_right() {
        for wrong in ["9306", "localhost", ":9306", "127.0.0.1:99999", "localhost:x", ""] {
            let words = address(wrong).unwrap_err();
            assert!(words.contains(&format!("'{wrong}'")) && words.contains("127.0.0.1:9306"), "{words}");
        }
    }

    #[test]
    fn a_name_must_be_loopback_whatever_it_resolves_to() {
        let all =
            |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<SocketAddr>>();
        assert_eq!(choose("h", &all(&["[::1]:1", "127.0.0.1:1"])), Ok("127.0.0.1:1".parse().unwrap()));
        assert_eq!(choose("h", &all(&["[::1]:1"])), Ok("[::1]:1".parse().unwrap()));
        let words = choose("h", &all(&["127.0.0.1:1", "10.0.0.7:1"])).unwrap_err();
        assert!(words.contains("10.0.0.7"), "{words}");
        assert!(choose("h", &[]).is_err());
    }
}
