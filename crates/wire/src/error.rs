//! What can be wrong with bytes that claim to be a packet of the protocol.

use crate::side::Side;
use fleet::Blame;
use thiserror::Error;

/// Why a packet could not be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum WireError {
    /// The packet ends before a field, or a field says it is longer than the packet.
    #[error("{packet} packet is cut short: no room for its {field}")]
    CutShort {
        /// Which packet, in words.
        packet: &'static str,
        /// Which field is missing.
        field: &'static str,
    },
    /// The packet starts with another byte than its kind must.
    #[error("not a {packet} packet: it starts with {first:#04x}")]
    NotA {
        /// Which packet was expected.
        packet: &'static str,
        /// Its first byte.
        first: u8,
    },
    /// The peer speaks a protocol from before MySQL 4.1.
    #[error("the peer speaks the protocol from before MySQL 4.1; upgrade it")]
    TooOld,
}

impl WireError {
    /// Whose fault it is: that of the side whose packet it is, whatever is wrong with it.
    pub fn blame(&self, sender: Side) -> Blame {
        sender.blame()
    }
}

/// Names the packet once for a run of fields.
#[derive(Clone, Copy)]
pub(crate) struct Within(pub(crate) &'static str);

impl Within {
    /// The field's value, or the error that says which one is missing.
    pub(crate) fn need<T>(self, field: &'static str, value: Option<T>) -> Result<T, WireError> {
        value.ok_or(WireError::CutShort { packet: self.0, field })
    }
}
