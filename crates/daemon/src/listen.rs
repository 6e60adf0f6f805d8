//! Listen: an address to listen on, as people write it: numbers, or a name that means this host alone.
//!
//! A name is taken only if everything it resolves to is loopback, so that no name server decides who may
//! come.

use fleet::Blame;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

const RIGHT: &str = "write an IP address and a port, as in 127.0.0.1:9306, or localhost and a port";

/// Why a text is no address to listen on.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Neither numbers nor a name with a port.
    #[error("'{text}' is no address to listen on; {RIGHT}")]
    NotAnAddress { text: String },
    /// The system finds no address for the name.
    #[error("'{name}' does not resolve ({error}); {RIGHT}")]
    Unresolved { name: String, error: std::io::Error },
    /// Whoever answers for names could let others in.
    #[error("'{name}' is {ip}, which is not loopback; {RIGHT}")]
    NotLoopback { name: String, ip: IpAddr },
    /// The name is known and has no address.
    #[error("'{name}' resolves to nothing; {RIGHT}")]
    Nothing { name: String },
}

impl ListenError {
    /// Whose fault it is: whoever wrote the address.
    pub fn blame(&self) -> Blame {
        Blame::Config
    }
}

/// The address that `text` means; of several the first of IPv4.
///
/// # Errors
/// What is wrong with it, and what would be right.
pub fn address(text: &str) -> Result<SocketAddr, ListenError> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let named = text.rsplit_once(':').filter(|(name, port)| !name.is_empty() && port.parse::<u16>().is_ok());
    let Some((name, _)) = named else {
        return Err(ListenError::NotAnAddress { text: text.to_owned() });
    };
    let resolved = text.to_socket_addrs().map(Iterator::collect::<Vec<_>>);
    choose(name, &resolved.map_err(|error| ListenError::Unresolved { name: name.to_owned(), error })?)
}

fn choose(name: &str, resolved: &[SocketAddr]) -> Result<SocketAddr, ListenError> {
    if let Some(beyond) = resolved.iter().find(|address| !address.ip().is_loopback()) {
        return Err(ListenError::NotLoopback { name: name.to_owned(), ip: beyond.ip() });
    }
    let first = resolved.iter().find(|address| address.is_ipv4()).or(resolved.first());
    first.copied().ok_or_else(|| ListenError::Nothing { name: name.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_taken_as_they_are_and_localhost_is_loopback() {
        for text in ["0.0.0.0:9306", "[::1]:9306", "127.0.0.1:1"] {
            assert_eq!(address(text).unwrap(), text.parse().unwrap());
        }
        let named = address("localhost:9307").unwrap();
        assert!(named.ip().is_loopback() && named.port() == 9307, "{named}");
    }

    #[test]
    fn what_is_no_address_says_what_would_be_right() {
        for wrong in ["9306", "localhost", ":9306", "127.0.0.1:99999", "localhost:x", ""] {
            let words = address(wrong).unwrap_err().to_string();
            assert!(words.contains(&format!("'{wrong}'")) && words.contains("127.0.0.1:9306"), "{words}");
        }
    }

    #[test]
    fn a_name_must_be_loopback_whatever_it_resolves_to() {
        let all =
            |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<SocketAddr>>();
        assert_eq!(choose("h", &all(&["[::1]:1", "127.0.0.1:1"])).unwrap(), "127.0.0.1:1".parse().unwrap());
        assert_eq!(choose("h", &all(&["[::1]:1"])).unwrap(), "[::1]:1".parse().unwrap());
        let beyond = choose("h", &all(&["127.0.0.1:1", "10.0.0.7:1"])).unwrap_err();
        assert!(beyond.to_string().contains("10.0.0.7"), "{beyond}");
        assert!(matches!(choose("h", &[]), Err(ListenError::Nothing { .. })));
    }
}
