//! ERR packets.
//!
//! With the 4.1 protocol the code is followed by `#` and five characters of SQLSTATE. Before the greeting
//! nothing is agreed yet: a client that does not look for the marker would print it as text, so servers leave
//! it out there (MySQL's `Too many connections`), and [`ErrPacket::before_greeting`] does the same.

use crate::capability::Capabilities;
use crate::error::{WireError, Within};
use crate::packet;
use crate::read::Reader;

/// An error as the server tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrPacket {
    /// The error's number, e.g. 1040.
    pub code: u16,
    /// Five characters, e.g. `08004`; `HY000` when the packet has none.
    pub sqlstate: [u8; 5],
    /// The text. Clients keep at most 512 bytes.
    pub message: String,
}

/// `SQLSTATE` of errors that have no better one.
const GENERAL: [u8; 5] = *b"HY000";

/// The code of an ERR packet's payload, without reading the rest. 0xffff is a MariaDB progress report and no
/// error.
pub fn error_code(payload: &[u8]) -> Option<u16> {
    match payload {
        [0xff, low, high, ..] => Some(u16::from_le_bytes([*low, *high])),
        _ => None,
    }
}

impl ErrPacket {
    /// An error with its number, SQLSTATE and text.
    pub fn new(code: u16, sqlstate: &[u8; 5], message: impl Into<String>) -> Self {
        Self { code, sqlstate: *sqlstate, message: message.into() }
    }

    /// Reads the payload of an ERR packet, with or without SQLSTATE.
    ///
    /// # Errors
    /// [`WireError::NotA`] for another first byte than 0xff, [`WireError::CutShort`].
    pub fn parse(payload: &[u8]) -> Result<Self, WireError> {
        let within = Within("ERR");
        let mut r = Reader::new(payload);
        match within.need("first byte", r.u8())? {
            0xff => {}
            first => return Err(WireError::NotA { packet: "ERR", first }),
        }
        let code = within.need("code", r.u16())?;
        let sqlstate = match r.rest() {
            [b'#', a, b, c, d, e, ..] => {
                let state = [*a, *b, *c, *d, *e];
                within.need("SQLSTATE", r.skip(6))?;
                state
            }
            _ => GENERAL,
        };
        Ok(Self { code, sqlstate, message: String::from_utf8_lossy(r.rest()).into_owned() })
    }

    /// The payload for a session with these capabilities.
    pub fn encode(&self, capabilities: Capabilities) -> Vec<u8> {
        let mut out = vec![0xff];
        out.extend_from_slice(&self.code.to_le_bytes());
        if capabilities.contains(Capabilities::PROTOCOL_41) {
            out.push(b'#');
            out.extend_from_slice(&self.sqlstate);
        }
        out.extend_from_slice(self.message.as_bytes());
        out
    }

    /// A whole packet, header included, that refuses a client instead of greeting it: sequence id 0, no
    /// SQLSTATE.
    pub fn before_greeting(&self) -> Vec<u8> {
        self.packet(0, Capabilities::empty())
    }

    /// A whole packet, header included, with this sequence id: that of the packet it answers, plus one.
    pub fn packet(&self, sequence: u8, capabilities: Capabilities) -> Vec<u8> {
        let mut out = Vec::new();
        packet::write(&mut out, &mut { sequence }, &self.encode(capabilities));
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_comes_back_as_it_was_written() {
        let err = ErrPacket::new(1040, b"08004", "Too many connections");
        assert_eq!(ErrPacket::parse(&err.encode(Capabilities::ORDINARY)), Ok(err.clone()));
        assert_eq!(error_code(&err.encode(Capabilities::ORDINARY)), Some(1040));
    }

    #[test]
    fn before_the_greeting_there_is_no_sqlstate() {
        let bytes = ErrPacket::new(1040, b"08004", "Too many connections").before_greeting();
        assert_eq!(bytes, b"\x17\0\0\0\xff\x10\x04Too many connections");
        let read = ErrPacket::parse(&bytes[4..]).expect("what we wrote");
        assert_eq!((read.code, read.sqlstate), (1040, GENERAL));
    }
}
