//! Where something listens or is reached: `host:port` (name, IPv4, `[IPv6]`) or the path of a unix socket.

use crate::Blame;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// The port MySQL and MariaDB listen on unless told otherwise.
pub const DEFAULT_PORT: u16 = 3306;

/// An address as people write it; a host name is not resolved here, because it may change its address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Address {
    /// A host name or IP address (without brackets) and a port.
    Tcp {
        /// Host name, IPv4 or IPv6 address.
        host: String,
        /// TCP port.
        port: u16,
    },
    /// The path of a unix socket.
    Unix(PathBuf),
}

/// Why a text is not an address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// Nothing before the port, or nothing at all.
    #[error("'{0}' names no host; write host:port, [ipv6]:port or /path/to/socket")]
    NoHost(String),
    /// The part after the last colon is not a port.
    #[error("'{0}' has no valid port after the colon (1 to 65535)")]
    BadPort(String),
    /// An address that is only good together with an interface.
    #[error("'{0}' names an interface after the %, which is not supported; write an address that needs none")]
    Interface(String),
    /// An IPv6 address without brackets is ambiguous.
    #[error("'{0}' looks like IPv6; write it in brackets: [{0}]:3306")]
    BareIpv6(String),
}

impl AddressError {
    /// Whose fault it is: whoever wrote it.
    pub fn blame(&self) -> Blame {
        Blame::Config
    }
}

impl Address {
    /// A TCP address.
    pub fn tcp(host: impl Into<String>, port: u16) -> Self {
        Self::Tcp { host: host.into(), port }
    }

    /// Host name or IP address, `None` for a unix socket.
    pub fn host(&self) -> Option<&str> {
        match self {
            Self::Tcp { host, .. } => Some(host),
            Self::Unix(_) => None,
        }
    }

    /// Whether only this machine can reach it: a unix socket, `localhost` or a loopback address.
    pub fn is_local_only(&self) -> bool {
        match self {
            Self::Unix(_) => true,
            Self::Tcp { host, .. } => {
                host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
            }
        }
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        if text.starts_with('/') {
            return Ok(Self::Unix(PathBuf::from(text)));
        }
        let bad_port = || AddressError::BadPort(text.to_owned());
        let parse_port = |p: &str| p.parse::<u16>().ok().filter(|p| *p > 0).ok_or_else(bad_port);
        if let Some(rest) = text.strip_prefix('[') {
            let (host, after) = rest.split_once(']').ok_or_else(|| AddressError::NoHost(text.to_owned()))?;
            if host.contains('%') {
                return Err(AddressError::Interface(text.to_owned()));
            }
            let port = match after.strip_prefix(':') {
                Some(p) => parse_port(p)?,
                None if after.is_empty() => DEFAULT_PORT,
                None => return Err(bad_port()),
            };
            return Ok(Self::tcp(host, port));
        }
        match text.split_once(':') {
            _ if text.is_empty() => Err(AddressError::NoHost(text.to_owned())),
            None => Ok(Self::tcp(text, DEFAULT_PORT)),
            Some(("", _)) => Err(AddressError::NoHost(text.to_owned())),
            Some((_, rest)) if rest.contains(':') => Err(AddressError::BareIpv6(text.to_owned())),
            Some((host, port)) => Ok(Self::tcp(host, parse_port(port)?)),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

impl Serialize for Address {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Address {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_read_back_as_they_are_written() {
        for text in ["db1:3306", "127.0.0.1:1", "[::1]:3307", "/run/mysqld/mysqld.sock"] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
        assert_eq!("db1".parse::<Address>().unwrap(), Address::tcp("db1", 3306));
        assert_eq!("[fe80::2]".parse::<Address>().unwrap(), Address::tcp("fe80::2", 3306));
    }

    #[test]
    fn what_is_not_an_address_is_refused_with_its_reason() {
        for (text, part) in [
            ("", "no host"),
            (":3306", "no host"),
            ("db:0", "port"),
            ("db:99999", "port"),
            ("::1", "no host"),
            ("fe80::1", "IPv6"),
            ("[fe80::1%eth0]:3306", "interface"),
        ] {
            assert!(text.parse::<Address>().unwrap_err().to_string().contains(part), "{text}");
        }
    }
}
