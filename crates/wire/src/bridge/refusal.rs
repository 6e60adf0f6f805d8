//! Why a login is refused by us and not by the server.

use std::fmt;

/// Why, as facts. What the client is told is made from these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// The listener demands TLS and the client came without.
    TlsRequired,
    /// The client sent something else than a login takes.
    BadHandshake {
        /// What it sent, in words.
        what: &'static str,
    },
    /// The client encrypted its password with another key than ours: it has the server's own in a file.
    OtherKey,
    /// The server was asked for its public key and gave none that fits.
    NoServerKey,
    /// The plugin sends the password as it is, and the way to the server is open.
    WouldLeak,
    /// The server wants the password itself over an open way, and its key may not be asked for there.
    KeyInClear,
    /// The server sent something else than a login takes.
    BadServer,
}

impl Refusal {
    /// MySQL's number and SQLSTATE for it.
    pub fn code(self) -> (u16, &'static [u8; 5]) {
        match self {
            // ER_SECURE_TRANSPORT_REQUIRED, ER_HANDSHAKE_ERROR, ER_ACCESS_DENIED_ERROR, ER_SERVER_SHUTDOWN.
            Self::TlsRequired | Self::WouldLeak | Self::KeyInClear => (3159, b"HY000"),
            Self::BadHandshake { .. } => (1043, b"08S01"),
            Self::OtherKey => (1045, b"28000"),
            Self::NoServerKey | Self::BadServer => (1053, b"08S01"),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TlsRequired => f.write_str("connections without TLS are refused here; use TLS (ssl-mode=REQUIRED)"),
            Self::BadHandshake { what } => write!(f, "Bad handshake: {what}"),
            Self::OtherKey => f.write_str(
                "the password was encrypted with another key than headroom's; let the client ask for the key \
                 (get-server-public-key) instead of giving it a file, or use TLS",
            ),
            Self::NoServerKey => f.write_str("the server gave no public key to send the password with"),
            Self::WouldLeak => f.write_str(
                "this account's authentication sends the password as it is, and the way to the server is not encrypted; \
                 set [router.tls] mode = \"required\" or better",
            ),
            Self::KeyInClear => f.write_str(
                "the server asks for the password itself, and the way to it is not encrypted; under [router.tls], set \
                 mode = \"required\" or better, or give its key (server_public_key), or let the key be asked for in clear \
                 (allow_public_key_retrieval = true)",
            ),
            Self::BadServer => f.write_str("the server said something that belongs to no login"),
        }
    }
}
