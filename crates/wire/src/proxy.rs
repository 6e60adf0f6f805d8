//! The PROXY protocol: the address of a client, told by whoever connects in its name.
//!
//! Version 2 is twelve bytes that begin no other protocol, then version and command, family, length,
//! addresses (network byte order), and extensions, which nobody needs to understand. `LOCAL` stands for a
//! connection of the proxy itself. Version 1 is a line, `PROXY TCP4 10.1.2.3 10.0.0.1 50000 3306`; `PROXY
//! UNKNOWN` is of the proxy itself, whatever follows. Both are read, version 2 is written.
//! <https://www.haproxy.org/download/3.0/doc/proxy-protocol.txt>

use fleet::Blame;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// How every header of version 2 starts.
pub const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
/// Signature, version and command, family, length.
pub const FIXED: usize = 16;
/// The longest variable part that we read; real ones have some dozen bytes.
pub const LONGEST: usize = 4096;
/// The longest line of version 1, with its end.
pub const LONGEST_LINE: usize = 107;

const VERSION_2: u8 = 0x20;
const LOCAL: u8 = 0;
const PROXY: u8 = 1;
const TCP_4: u8 = 0x11;
const TCP_6: u8 = 0x21;

/// Who a header says the client is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxySource {
    /// A client at this address.
    Client(SocketAddr),
    /// The proxy itself, or a client without an IP address: the connection's own address counts.
    Nobody,
}

/// Why bytes are no header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProxyError {
    /// They begin with something else.
    #[error("no PROXY protocol header")]
    NotAHeader,
    /// A line of version 1 whose words are none of it.
    #[error("a PROXY protocol header of version 1 that makes no sense")]
    Line,
    /// Another version, or a command that does not exist.
    #[error("a PROXY protocol header of another version")]
    OtherVersion,
    /// Shorter than its family says, or longer than any.
    #[error("a PROXY protocol header of impossible length")]
    Length,
}

impl ProxyError {
    /// Whose fault it is: whoever connects from an address that is configured as a proxy's has to send a
    /// header.
    pub const fn blame(self) -> Blame {
        Blame::Client
    }
}

/// How many bytes follow the fixed part.
///
/// # Errors
/// [`ProxyError`] when these bytes begin no header that we take.
pub fn length(fixed: &[u8; FIXED]) -> Result<usize, ProxyError> {
    if !fixed.starts_with(&SIGNATURE) {
        return Err(ProxyError::NotAHeader);
    }
    if !matches!(fixed[12], 0x20 | 0x21) {
        return Err(ProxyError::OtherVersion);
    }
    match usize::from(u16::from_be_bytes([fixed[14], fixed[15]])) {
        length if length <= LONGEST => Ok(length),
        _ => Err(ProxyError::Length),
    }
}

/// Reads a header whose fixed part [`length`] has checked.
///
/// # Errors
/// [`ProxyError`] when the rest does not hold what the fixed part announces.
pub fn read(fixed: &[u8; FIXED], rest: &[u8]) -> Result<ProxySource, ProxyError> {
    let wanted = length(fixed)?;
    if rest.len() != wanted {
        return Err(ProxyError::Length);
    }
    if fixed[12] == VERSION_2 | LOCAL {
        return Ok(ProxySource::Nobody);
    }
    match fixed[13] {
        TCP_4 => {
            let addresses = rest.first_chunk::<12>().ok_or(ProxyError::Length)?;
            let [a, b, c, d, _, _, _, _, high, low, ..] = *addresses;
            Ok(client(Ipv4Addr::new(a, b, c, d).into(), [high, low]))
        }
        TCP_6 => {
            let addresses = rest.first_chunk::<36>().ok_or(ProxyError::Length)?;
            let ip = addresses.first_chunk::<16>().ok_or(ProxyError::Length)?;
            Ok(client(Ipv6Addr::from(*ip).to_canonical(), [addresses[32], addresses[33]]))
        }
        _ => Ok(ProxySource::Nobody),
    }
}

/// Whether a header that begins with this byte is of version 1.
pub fn is_line(first: u8) -> bool {
    first == b'P'
}

/// Reads a line of version 1, with its end.
///
/// # Errors
/// [`ProxyError`] when it is no such line.
pub fn read_line(line: &[u8]) -> Result<ProxySource, ProxyError> {
    let text = line.strip_suffix(b"\r\n").and_then(|line| std::str::from_utf8(line).ok());
    let words = text.and_then(|text| text.strip_prefix("PROXY ")).ok_or(ProxyError::NotAHeader)?;
    let words: Vec<&str> = words.split(' ').collect();
    if words[0] == "UNKNOWN" {
        return Ok(ProxySource::Nobody);
    }
    let [family, client, own, port, own_port] = words[..] else { return Err(ProxyError::Line) };
    let ip = |word: &str| -> Option<IpAddr> {
        match family {
            "TCP4" => word.parse().ok().map(IpAddr::V4),
            "TCP6" => word.parse().ok().map(IpAddr::V6),
            _ => None,
        }
    };
    let number = |word: &str| word.parse::<u16>().ok();
    match (ip(client), ip(own), number(port), number(own_port)) {
        (Some(client), Some(_), Some(port), Some(_)) => {
            Ok(ProxySource::Client(SocketAddr::new(client.to_canonical(), port)))
        }
        _ => Err(ProxyError::Line),
    }
}

/// A header of version 2 in the name of `client`, who came to `own`. Both are written in the family of the
/// client.
pub fn write(client: SocketAddr, own: SocketAddr) -> Vec<u8> {
    let mut out = SIGNATURE.to_vec();
    out.push(VERSION_2 | PROXY);
    match (client.ip().to_canonical(), own.ip().to_canonical()) {
        (IpAddr::V4(client), IpAddr::V4(own)) => {
            out.extend_from_slice(&[TCP_4, 0, 12]);
            out.extend_from_slice(&client.octets());
            out.extend_from_slice(&own.octets());
        }
        (client, own) => {
            out.extend_from_slice(&[TCP_6, 0, 36]);
            out.extend_from_slice(&six(client).octets());
            out.extend_from_slice(&six(own).octets());
        }
    }
    out.extend_from_slice(&client.port().to_be_bytes());
    out.extend_from_slice(&own.port().to_be_bytes());
    out
}

fn client(ip: IpAddr, port: [u8; 2]) -> ProxySource {
    ProxySource::Client(SocketAddr::new(ip, u16::from_be_bytes(port)))
}

fn six(ip: IpAddr) -> Ipv6Addr {
    match ip {
        IpAddr::V4(four) => four.to_ipv6_mapped(),
        IpAddr::V6(six) => six,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read_whole(bytes: &[u8]) -> Result<ProxySource, ProxyError> {
        let (fixed, rest) = bytes.split_first_chunk().expect("at least the fixed part");
        length(fixed).and_then(|_| read(fixed, rest))
    }

    #[test]
    fn a_header_as_haproxy_sends_it_is_read() {
        let header = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\x0a\x01\x02\x03\x0a\0\0\x01\xc3\x50\x0c\xea";
        let client = "10.1.2.3:50000".parse().unwrap();
        assert_eq!(read_whole(header), Ok(ProxySource::Client(client)));
        assert_eq!(write(client, "10.0.0.1:3306".parse().unwrap()), header);
        assert_eq!(read_whole(b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0"), Ok(ProxySource::Nobody));
    }

    #[test]
    fn a_line_of_version_1_is_read() {
        for (line, expected) in [
            ("PROXY TCP4 10.1.2.3 10.0.0.1 50000 3306\r\n", Ok(Some("10.1.2.3:50000"))),
            ("PROXY TCP6 2001:db8::7 ::1 50000 3306\r\n", Ok(Some("[2001:db8::7]:50000"))),
            ("PROXY TCP6 ::ffff:10.1.2.3 ::1 50000 3306\r\n", Ok(Some("10.1.2.3:50000"))),
            ("PROXY UNKNOWN\r\n", Ok(None)),
            ("PROXY UNKNOWN ffff:f...f:ffff ffff:f...f:ffff 65535 65535\r\n", Ok(None)),
            ("PROXY TCP4 10.1.2.3 10.0.0.1 50000 3306\n", Err(ProxyError::NotAHeader)),
            ("POST / HTTP/1.1\r\n", Err(ProxyError::NotAHeader)),
            ("PROXY TCP4 ::1 ::1 50000 3306\r\n", Err(ProxyError::Line)),
            ("PROXY TCP4 10.1.2.3 10.0.0.1 65536 3306\r\n", Err(ProxyError::Line)),
            ("PROXY TCP4 10.1.2.3 10.0.0.1 50000\r\n", Err(ProxyError::Line)),
            ("PROXY \r\n", Err(ProxyError::Line)),
        ] {
            let client = |address: &str| ProxySource::Client(address.parse().unwrap());
            let expected = expected.map(|address| address.map_or(ProxySource::Nobody, client));
            assert_eq!(read_line(line.as_bytes()), expected, "{line:?}");
        }
    }

    #[test]
    fn what_is_no_header_is_told_apart() {
        assert_eq!(read_whole(b"PROXY TCP4 10.1.2.3 10.0.0.1 1 2\r\n"), Err(ProxyError::NotAHeader));
        assert_eq!(read_whole(b"\r\n\r\n\0\r\nQUIT\n\x11\x11\0\0"), Err(ProxyError::OtherVersion));
        assert_eq!(read_whole(b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x04abcd"), Err(ProxyError::Length));
        assert_eq!(read_whole(b"\r\n\r\n\0\r\nQUIT\n\x21\x11\xff\xff"), Err(ProxyError::Length));
    }

    proptest! {
        #[test]
        fn headers_come_back_as_they_were_written(client: SocketAddr, own: SocketAddr) {
            let said = ProxySource::Client(SocketAddr::new(client.ip().to_canonical(), client.port()));
            prop_assert_eq!(read_whole(&write(client, own)), Ok(said));
        }

        #[test]
        fn no_bytes_make_it_panic(version: u8, family: u8, rest in prop::collection::vec(any::<u8>(), 0..60)) {
            let mut bytes = SIGNATURE.to_vec();
            bytes.extend_from_slice(&[version, family, 0, rest.len() as u8]);
            bytes.extend_from_slice(&rest);
            let _ = read_whole(&bytes);
        }
    }
}
