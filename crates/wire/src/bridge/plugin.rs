//! The authentication plugins whose packets depend on whether the transport keeps secrets.

/// A plugin, as far as the bridge has to tell it from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Plugin {
    /// `caching_sha2_password`: a proof first, the password only when the server has not cached it.
    CachingSha2,
    /// `sha256_password`: the password at once.
    Sha256,
    /// Sends the password (or a token that is as good as one) as it is, whatever the transport.
    Clear,
    /// Proves without sending it (`mysql_native_password`, `ed25519`, `parsec`, ...): passes through.
    Other,
}

/// What the server says when it wants the password itself.
const FULL_AUTHENTICATION: u8 = 4;

/// A plugin that no server has: it answers by naming the account's own.
pub(super) const NOBODY: &[u8] = b"headroom_ask_anew";

impl Plugin {
    pub(super) fn named(name: &[u8]) -> Self {
        match name {
            b"caching_sha2_password" => Self::CachingSha2,
            b"sha256_password" => Self::Sha256,
            b"mysql_clear_password" | b"dialog" | b"authentication_openid_connect_client" => Self::Clear,
            _ => Self::Other,
        }
    }

    /// Whether it sends the password even where anybody can read it.
    pub(super) fn is_open_only(self) -> bool {
        self == Self::Clear
    }

    /// Whether its first packet already holds the password, in the form that the transport asks for.
    pub(super) fn puts_password_in_login(self) -> bool {
        self == Self::Sha256
    }

    /// What asks the other side for its public key.
    pub(super) fn request_for_key(self) -> u8 {
        if self == Self::Sha256 { 1 } else { 2 }
    }

    /// Whether this packet of the server asks for the password itself. It comes behind a byte 1 or two of
    /// them.
    pub(super) fn asks_for_password(self, payload: &[u8]) -> bool {
        self == Self::CachingSha2 && matches!(payload, [1, FULL_AUTHENTICATION] | [1, 1, FULL_AUTHENTICATION])
    }
}

/// Plugin and nonce of a packet that switches to another plugin or goes on to the next factor.
pub(super) fn switched(payload: &[u8]) -> (&[u8], &[u8]) {
    let rest = payload.get(1..).unwrap_or_default();
    match memchr::memchr(0, rest) {
        Some(end) => {
            let nonce = &rest[end + 1..];
            (&rest[..end], nonce.strip_suffix(&[0]).unwrap_or(nonce))
        }
        None => (rest, &[]),
    }
}
