//! OK and EOF packets.
//!
//! An OK packet starts with 0x00, or with 0xfe where it takes the place of an EOF packet
//! ([`Capabilities::DEPRECATE_EOF`]). With [`Capabilities::SESSION_TRACK`] it may tell changes of the
//! session's state.

use crate::capability::Capabilities;
use crate::error::{WireError, Within};
use crate::read::Reader;
use crate::status::Status;
use crate::write;

/// The end of a command that went well.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OkPacket<'a> {
    /// Rows changed (or found, see [`Capabilities::FOUND_ROWS`]).
    pub affected_rows: u64,
    /// The first `AUTO_INCREMENT` value given, or 0.
    pub last_insert_id: u64,
    /// The session's status after the command.
    pub status: Status,
    /// How many warnings there are.
    pub warnings: u16,
    /// A line for people, as a rule empty.
    pub info: &'a [u8],
    /// Changes of the session's state, as sent: see [`OkPacket::changes`].
    pub raw_changes: &'a [u8],
}

/// One change of the session's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionChange<'a> {
    /// A system variable has a new value.
    Variable {
        /// Its name.
        name: &'a [u8],
        /// Its value.
        value: &'a [u8],
    },
    /// The default database changed.
    Database(&'a [u8]),
    /// Some state that a reconnect would lose has changed (`session_track_state_change`).
    State,
    /// GTIDs of the transaction just committed (`session_track_gtids`).
    Gtids(&'a [u8]),
    /// The statements that start the same transaction again (`CHARACTERISTICS`).
    TransactionCharacteristics(&'a [u8]),
    /// The transaction's state, eight characters such as `T_R___S_`.
    TransactionState(&'a [u8]),
    /// Any other kind, with its bytes.
    Other(u8, &'a [u8]),
}

impl<'a> OkPacket<'a> {
    /// Reads the payload of an OK packet, with either first byte.
    ///
    /// # Errors
    /// [`WireError::NotA`], or [`WireError::CutShort`] when the status is missing. `info` and changes that
    /// are cut count as empty.
    pub fn parse(payload: &'a [u8], capabilities: Capabilities) -> Result<Self, WireError> {
        let within = Within("OK");
        let mut r = Reader::new(payload);
        match within.need("first byte", r.u8())? {
            0x00 | 0xfe => {}
            first => return Err(WireError::NotA { packet: "OK", first }),
        }
        let affected_rows = within.need("affected rows", r.lenenc())?;
        let last_insert_id = within.need("insert id", r.lenenc())?;
        let status = Status::from_bits_retain(within.need("status", r.u16())?);
        let warnings = within.need("warnings", r.u16())?;
        let ok = Self { affected_rows, last_insert_id, status, warnings, info: &[], raw_changes: &[] };
        if !capabilities.contains(Capabilities::SESSION_TRACK) {
            return Ok(Self { info: r.rest(), ..ok });
        }
        let info = r.lenenc_bytes().unwrap_or_default();
        let changed = status.contains(Status::SESSION_STATE_CHANGED);
        let raw_changes = if changed { r.lenenc_bytes().unwrap_or_default() } else { &[] };
        Ok(Self { info, raw_changes, ..ok })
    }

    /// The payload of an OK packet, first byte 0x00.
    pub fn encode(&self, capabilities: Capabilities) -> Vec<u8> {
        self.encode_as(0x00, capabilities)
    }

    /// The payload of what ends rows: an EOF packet, or an OK packet in its place.
    pub fn encode_end_of_rows(&self, capabilities: Capabilities) -> Vec<u8> {
        if capabilities.contains(Capabilities::DEPRECATE_EOF) {
            self.encode_as(0xfe, capabilities)
        } else {
            Eof { warnings: self.warnings, status: self.status }.encode()
        }
    }

    fn encode_as(&self, first: u8, capabilities: Capabilities) -> Vec<u8> {
        let mut out = vec![first];
        write::lenenc(&mut out, self.affected_rows);
        write::lenenc(&mut out, self.last_insert_id);
        out.extend_from_slice(&self.status.bits().to_le_bytes());
        out.extend_from_slice(&self.warnings.to_le_bytes());
        let changed = self.status.contains(Status::SESSION_STATE_CHANGED);
        if !capabilities.contains(Capabilities::SESSION_TRACK) {
            out.extend_from_slice(self.info);
        } else if changed || !self.info.is_empty() {
            write::lenenc_bytes(&mut out, self.info);
            if changed {
                write::lenenc_bytes(&mut out, self.raw_changes);
            }
        }
        out
    }

    /// The changes of the session's state; ends at the first that is malformed.
    pub fn changes(&self) -> impl Iterator<Item = SessionChange<'a>> + use<'a> {
        let mut r = Reader::new(self.raw_changes);
        std::iter::from_fn(move || {
            let kind = r.u8()?;
            let data = r.lenenc_bytes()?;
            SessionChange::parse(kind, data)
        })
    }
}

impl<'a> SessionChange<'a> {
    fn parse(kind: u8, data: &'a [u8]) -> Option<Self> {
        let mut r = Reader::new(data);
        Some(match kind {
            0 => Self::Variable { name: r.lenenc_bytes()?, value: r.lenenc_bytes()? },
            1 => Self::Database(r.lenenc_bytes()?),
            2 => Self::State,
            3 => {
                // One byte says how the GTIDs are written; there is only one way.
                r.u8()?;
                Self::Gtids(r.lenenc_bytes()?)
            }
            4 => Self::TransactionCharacteristics(r.lenenc_bytes()?),
            5 => Self::TransactionState(r.lenenc_bytes()?),
            other => Self::Other(other, data),
        })
    }
}

/// The end of columns or rows, without [`Capabilities::DEPRECATE_EOF`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Eof {
    /// How many warnings there are.
    pub warnings: u16,
    /// The session's status.
    pub status: Status,
}

impl Eof {
    /// Reads the payload of an EOF packet.
    ///
    /// # Errors
    /// [`WireError::NotA`], [`WireError::CutShort`].
    pub fn parse(payload: &[u8]) -> Result<Self, WireError> {
        let within = Within("EOF");
        let mut r = Reader::new(payload);
        match within.need("first byte", r.u8())? {
            0xfe => {}
            first => return Err(WireError::NotA { packet: "EOF", first }),
        }
        let warnings = within.need("warnings", r.u16())?;
        Ok(Self { warnings, status: Status::from_bits_retain(within.need("status", r.u16())?) })
    }

    /// The payload of an EOF packet.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![0xfe];
        out.extend_from_slice(&self.warnings.to_le_bytes());
        out.extend_from_slice(&self.status.bits().to_le_bytes());
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ok_packet_comes_back_as_it_was_written() {
        let tracking = Capabilities::ORDINARY | Capabilities::SESSION_TRACK | Capabilities::DEPRECATE_EOF;
        let ok = OkPacket {
            affected_rows: 300,
            last_insert_id: 70_000,
            status: Status::AUTOCOMMIT | Status::SESSION_STATE_CHANGED,
            warnings: 2,
            info: b"Rows matched: 1",
            raw_changes: b"\x01\x05\x04shop\x02\x02\x011",
        };
        for payload in [ok.encode(tracking), ok.encode_end_of_rows(tracking)] {
            assert_eq!(OkPacket::parse(&payload, tracking), Ok(ok));
        }
        let changes: Vec<_> = ok.changes().collect();
        assert_eq!(changes, [SessionChange::Database(b"shop"), SessionChange::State]);
    }

    #[test]
    fn the_end_of_rows_is_an_eof_packet_for_clients_that_know_no_better() {
        let ok = OkPacket { status: Status::AUTOCOMMIT, warnings: 1, ..OkPacket::default() };
        let payload = ok.encode_end_of_rows(Capabilities::ORDINARY);
        assert_eq!(Eof::parse(&payload), Ok(Eof { warnings: 1, status: Status::AUTOCOMMIT }));
    }
}
