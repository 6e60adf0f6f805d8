//! Global transaction ids: which transactions a server has. The two flavours count differently.
//!
//! * MySQL ([`GtidSet`]): the set of every transaction, as intervals per source: `uuid:1-5:7,uuid2:1-9`.
//! * MariaDB ([`GtidPosition`]): the last transaction of each domain: `0-1-42,1-3-7`
//!   (domain-server-sequence).

mod mariadb;
mod mysql;

use crate::Blame;

pub use mariadb::{GtidPosition, Transaction};
pub use mysql::{GtidSet, GtidSource};

/// Why a text is not a GTID set or position.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{text}' is not {wanted}: {why}")]
pub struct GtidError {
    /// The part that could not be read.
    pub text: String,
    /// What it should have been.
    pub wanted: &'static str,
    /// What is wrong with it.
    pub why: &'static str,
}

impl GtidError {
    /// Whose fault it is: the server's, whose answer this is a part of.
    pub fn blame(&self) -> Blame {
        Blame::Server
    }
}
