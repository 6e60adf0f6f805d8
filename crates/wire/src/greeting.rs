//! The server's first packet (HandshakeV10), read and written, both flavours.
//!
//! MariaDB up to 10.x sends its version with the prefix `5.5.5-`, because old replicas of MySQL refuse a
//! first number above 5; [`Greeting::plain_version`] leaves it out. Its own capability flags travel in four
//! of the ten bytes that MySQL reserves.

use crate::capability::Capabilities;
use crate::error::{WireError, Within};
use crate::read::Reader;
use crate::status::Status;
use crate::write;

/// Which family of servers speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Flavour {
    /// MySQL and what speaks like it (Percona Server, Aurora, Vitess, TiDB).
    MySql,
    /// MariaDB.
    MariaDb,
}

/// What the server says first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Greeting {
    /// The version as sent, maybe with the prefix `5.5.5-`.
    pub version: String,
    /// The connection's number on the server (`KILL` takes it); the low 32 bits.
    pub connection_id: u32,
    /// Random bytes for the authentication, without the NUL that ends them; 8 or 20.
    pub nonce: Vec<u8>,
    /// What the server can do.
    pub capabilities: Capabilities,
    /// The low byte of the server's collation number.
    pub charset: u8,
    /// Status at the start: `autocommit` as a rule.
    pub status: Status,
    /// The plugin that the nonce is for; empty when the server names none.
    pub auth_plugin: String,
}

const VERSION_PREFIX: &str = "5.5.5-";

impl Greeting {
    /// Reads the payload of a greeting.
    ///
    /// # Errors
    /// [`WireError::NotA`] for another first byte than 10 (0xff is an [`ErrPacket`](crate::ErrPacket): the
    /// server refuses), [`WireError::TooOld`] for the protocol before 4.1, [`WireError::CutShort`].
    pub fn parse(payload: &[u8]) -> Result<Self, WireError> {
        let within = Within("greeting");
        let mut r = Reader::new(payload);
        match within.need("protocol version", r.u8())? {
            10 => {}
            9 => return Err(WireError::TooOld),
            first => return Err(WireError::NotA { packet: "greeting", first }),
        }
        let version = text(within.need("server version", r.until_nul())?);
        let connection_id = within.need("connection id", r.u32())?;
        let mut nonce = within.need("nonce", r.bytes(8))?.to_vec();
        within.need("filler", r.skip(1))?;
        let low = u32::from(within.need("capabilities", r.u16())?);
        if low & Capabilities::PROTOCOL_41.classic() == 0 {
            return Err(WireError::TooOld);
        }
        let charset = within.need("collation", r.u8())?;
        let status = Status::from_bits_retain(within.need("status", r.u16())?);
        let high = u32::from(within.need("capabilities", r.u16())?);
        let nonce_length = usize::from(within.need("nonce length", r.u8())?);
        within.need("reserved bytes", r.skip(6))?;
        let extended = within.need("extended capabilities", r.u32())?;
        let capabilities = Capabilities::from_halves(low | high << 16, extended);
        if capabilities.contains(Capabilities::SECURE_CONNECTION) {
            let second =
                within.need("second part of the nonce", r.bytes(nonce_length.saturating_sub(8).max(13)))?;
            nonce.extend_from_slice(second.strip_suffix(&[0]).unwrap_or(second));
        }
        let auth_plugin = if capabilities.contains(Capabilities::PLUGIN_AUTH) {
            // Some servers forget the NUL at the end.
            text(r.until_nul().unwrap_or(r.rest()))
        } else {
            String::new()
        };
        Ok(Self { version, connection_id, nonce, capabilities, charset, status, auth_plugin })
    }

    /// Writes the payload of a greeting; [`Greeting::parse`] reads it back. A nonce of 20 bytes is what every
    /// plugin expects; shorter ones are filled with `x`, longer than 246 cut.
    pub fn encode(&self) -> Vec<u8> {
        let mut nonce = self.nonce.clone();
        nonce.truncate(246);
        let needed = if self.capabilities.contains(Capabilities::SECURE_CONNECTION) { 20 } else { 8 };
        nonce.resize(nonce.len().max(needed), b'x');
        let mut out = vec![10];
        write::with_nul(&mut out, self.version.as_bytes());
        out.extend_from_slice(&self.connection_id.to_le_bytes());
        out.extend_from_slice(&nonce[..8]);
        out.push(0);
        let [a, b, c, d] = self.capabilities.classic().to_le_bytes();
        out.extend_from_slice(&[a, b, self.charset]);
        out.extend_from_slice(&self.status.bits().to_le_bytes());
        out.extend_from_slice(&[c, d, nonce.len() as u8 + 1]);
        out.extend_from_slice(&[0; 6]);
        out.extend_from_slice(&self.capabilities.extended().to_le_bytes());
        if self.capabilities.contains(Capabilities::SECURE_CONNECTION) {
            out.extend_from_slice(&nonce[8..]);
            out.push(0);
        }
        if self.capabilities.contains(Capabilities::PLUGIN_AUTH) {
            write::with_nul(&mut out, self.auth_plugin.as_bytes());
        }
        out
    }

    /// The version without MariaDB's prefix for old replicas.
    pub fn plain_version(&self) -> &str {
        self.version.strip_prefix(VERSION_PREFIX).unwrap_or(&self.version)
    }

    /// Who speaks: MariaDB shows itself by its capability flags, or (before 10.2) by the prefix of its
    /// version.
    pub fn flavour(&self) -> Flavour {
        let extended = !self.capabilities.contains(Capabilities::LONG_PASSWORD);
        if extended || self.version.starts_with(VERSION_PREFIX) { Flavour::MariaDb } else { Flavour::MySql }
    }
}

/// Says in the payload of a greeting whether TLS is offered, and leaves every other byte alone. Does nothing
/// to what is no greeting of the 4.1 protocol.
pub fn offer_tls(payload: &mut [u8], offered: bool) {
    if let Some(at) = flags_at(payload)
        && let Some(low) = payload.get_mut(at..at + 2)
    {
        let bit = (Capabilities::SSL.classic() >> 8) as u8;
        low[1] = if offered { low[1] | bit } else { low[1] & !bit };
    }
}

/// Takes the offer of compression out of the payload of a greeting, and leaves every other byte alone. Does
/// nothing to what is no greeting of the 4.1 protocol.
pub(crate) fn offer_no_compression(payload: &mut [u8]) {
    let Some(at) = flags_at(payload) else { return };
    // The high half of the flags stands behind collation and status.
    let places = [at, at + 1, at + 5, at + 6];
    for (place, bits) in places.into_iter().zip(Capabilities::COMPRESSION.classic().to_le_bytes()) {
        if let Some(byte) = payload.get_mut(place) {
            *byte &= !bits;
        }
    }
}

/// Where the low half of the flags stands in a greeting of the 4.1 protocol.
fn flags_at(payload: &[u8]) -> Option<usize> {
    let end_of_version = memchr::memchr(0, payload)?;
    // Behind the version: connection id, nonce, filler.
    (payload.first() == Some(&10)).then_some(end_of_version + 1 + 4 + 8 + 1)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mysql() -> Greeting {
        Greeting {
            version: "8.4.3".into(),
            connection_id: 42,
            nonce: (1..=20).collect(),
            capabilities: Capabilities::ORDINARY,
            charset: 255,
            status: Status::AUTOCOMMIT,
            auth_plugin: "caching_sha2_password".into(),
        }
    }

    #[test]
    fn a_greeting_comes_back_as_it_was_written() {
        let mysql = mysql();
        assert_eq!(Greeting::parse(&mysql.encode()), Ok(mysql.clone()));
        assert_eq!(mysql.flavour(), Flavour::MySql);

        let capabilities = Capabilities::ORDINARY.difference(Capabilities::LONG_PASSWORD)
            | Capabilities::MARIADB_CACHE_METADATA;
        let maria = Greeting { version: "5.5.5-10.11.6-MariaDB-log".into(), capabilities, ..mysql };
        assert_eq!(Greeting::parse(&maria.encode()), Ok(maria.clone()));
        assert_eq!(maria.flavour(), Flavour::MariaDb);
        assert_eq!(maria.plain_version(), "10.11.6-MariaDB-log");
    }

    #[test]
    fn a_greeting_cut_anywhere_is_an_error_and_no_panic() {
        let mut whole = mysql();
        whole.auth_plugin.clear();
        whole.capabilities = whole.capabilities.difference(Capabilities::PLUGIN_AUTH);
        let bytes = whole.encode();
        for end in 0..bytes.len() {
            assert!(Greeting::parse(&bytes[..end]).is_err(), "cut at {end}");
        }
    }

    #[test]
    fn tls_is_offered_and_taken_back_without_touching_another_byte() {
        let greeting = mysql();
        let mut bytes = greeting.encode();
        offer_tls(&mut bytes, true);
        let offered = Greeting::parse(&bytes).unwrap();
        assert_eq!(offered.capabilities, greeting.capabilities | Capabilities::SSL);
        offer_tls(&mut bytes, false);
        assert_eq!(bytes, greeting.encode());
        for end in 0..bytes.len() {
            offer_tls(&mut bytes[..end].to_vec(), true);
        }
    }

    #[test]
    fn compression_is_taken_back_without_touching_another_byte() {
        let plain = mysql();
        let capabilities = plain.capabilities | Capabilities::COMPRESSION;
        let mut bytes = Greeting { capabilities, ..plain.clone() }.encode();
        for end in 0..bytes.len() {
            offer_no_compression(&mut bytes[..end].to_vec());
        }
        offer_no_compression(&mut bytes);
        assert_eq!(bytes, plain.encode());
    }

    #[test]
    fn an_error_packet_is_no_greeting() {
        assert_eq!(
            Greeting::parse(&[0xff, 0x10, 0x04]),
            Err(WireError::NotA { packet: "greeting", first: 0xff })
        );
    }
}
