//! The client's first packet: the login (HandshakeResponse41), or the request to speak TLS first
//! (SSLRequest).
//!
//! An SSLRequest is the first 32 bytes of a login with [`Capabilities::SSL`] set; after it come TLS records.
//! Servers look only at the flag, and so do we. The reader is as lenient as servers are: what is missing at
//! the end counts as empty.

use crate::capability::Capabilities;
use crate::error::{WireError, Within};
use crate::read::Reader;
use crate::write;

/// What the client says first. Names are bytes in the client's character set, as a rule UTF-8.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Login<'a> {
    /// What the client can do and wants.
    pub capabilities: Capabilities,
    /// The longest packet that the client takes, in bytes.
    pub max_packet: u32,
    /// The low byte of the client's collation number.
    pub charset: u8,
    /// The account's name.
    pub user: &'a [u8],
    /// The answer to the nonce, in the form of `auth_plugin`.
    pub auth_response: &'a [u8],
    /// The default database; empty for none.
    pub database: &'a [u8],
    /// The plugin that made `auth_response`; empty when not named.
    pub auth_plugin: &'a [u8],
    /// The connection's attributes, as sent: see [`Login::attributes`].
    pub raw_attributes: &'a [u8],
}

/// The fixed part: flags, longest packet, collation, 23 reserved bytes.
pub(crate) const FIXED: usize = 32;

/// The capabilities of a client's first packet, and whether it asks for TLS (then nothing after it can be
/// read). `None` when it is too short or speaks the protocol before 4.1.
pub fn opening(payload: &[u8]) -> Option<(Capabilities, bool)> {
    let mut r = Reader::new(payload);
    let low = r.u32()?;
    let extended = if payload.len() >= FIXED { u32_at(payload, FIXED - 4)? } else { 0 };
    let capabilities = Capabilities::from_halves(low, extended);
    let wants_tls = capabilities.contains(Capabilities::SSL);
    (wants_tls || capabilities.contains(Capabilities::PROTOCOL_41)).then_some((capabilities, wants_tls))
}

/// Is this an SSLRequest?
pub fn is_ssl_request(payload: &[u8]) -> bool {
    payload.len() <= FIXED && opening(payload).is_some_and(|(_, wants_tls)| wants_tls)
}

/// Says in the payload of a login (or a request for TLS) whether TLS is asked for, and leaves every other
/// byte alone.
pub(crate) fn ask_tls(payload: &mut [u8], asked: bool) {
    let bit = (Capabilities::SSL.classic() >> 8) as u8;
    if let Some(byte) = payload.get_mut(1) {
        *byte = if asked { *byte | bit } else { *byte & !bit };
    }
}

/// Asks in the payload of a login for no compression, and leaves every other flag alone.
pub(crate) fn ask_no_compression(payload: &mut [u8]) {
    let compression = Capabilities::COMPRESSION.classic().to_le_bytes();
    payload.iter_mut().zip(compression).for_each(|(byte, bits)| *byte &= !bits);
}

impl<'a> Login<'a> {
    /// Reads the payload of a login.
    ///
    /// # Errors
    /// [`WireError::TooOld`] for the protocol before 4.1; [`WireError::CutShort`] when there is no user name.
    pub fn parse(payload: &'a [u8]) -> Result<Self, WireError> {
        let within = Within("login");
        let mut r = Reader::new(payload);
        let low = within.need("capabilities", r.u32())?;
        if low & Capabilities::PROTOCOL_41.classic() == 0 {
            return Err(WireError::TooOld);
        }
        let max_packet = within.need("longest packet", r.u32())?;
        let charset = within.need("collation", r.u8())?;
        within.need("reserved bytes", r.skip(19))?;
        let extended = within.need("extended capabilities", r.u32())?;
        let capabilities = Capabilities::from_halves(low, extended);
        let user = within.need("user", r.until_nul())?;
        let auth_response = read_auth_response(&mut r, capabilities);
        let mut named = |flag| if capabilities.contains(flag) { nul_or_rest(&mut r) } else { &[] };
        let database = named(Capabilities::CONNECT_WITH_DB);
        let auth_plugin = named(Capabilities::PLUGIN_AUTH);
        let raw_attributes = if capabilities.contains(Capabilities::CONNECT_ATTRS) {
            r.lenenc_bytes().unwrap_or_default()
        } else {
            &[]
        };
        Ok(Self {
            capabilities,
            max_packet,
            charset,
            user,
            auth_response,
            database,
            auth_plugin,
            raw_attributes,
        })
    }

    /// Writes the payload of a login. Fields that the capabilities do not announce are left out.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(FIXED + 128);
        out.extend_from_slice(&self.capabilities.classic().to_le_bytes());
        out.extend_from_slice(&self.max_packet.to_le_bytes());
        out.push(self.charset);
        out.extend_from_slice(&[0; 19]);
        out.extend_from_slice(&self.capabilities.extended().to_le_bytes());
        write::with_nul(&mut out, self.user);
        if self.capabilities.contains(Capabilities::PLUGIN_AUTH_LENENC_DATA) {
            write::lenenc_bytes(&mut out, self.auth_response);
        } else if self.capabilities.contains(Capabilities::SECURE_CONNECTION) {
            let response = &self.auth_response[..self.auth_response.len().min(255)];
            out.push(response.len() as u8);
            out.extend_from_slice(response);
        } else {
            write::with_nul(&mut out, self.auth_response);
        }
        if self.capabilities.contains(Capabilities::CONNECT_WITH_DB) {
            write::with_nul(&mut out, self.database);
        }
        if self.capabilities.contains(Capabilities::PLUGIN_AUTH) {
            write::with_nul(&mut out, self.auth_plugin);
        }
        if self.capabilities.contains(Capabilities::CONNECT_ATTRS) {
            write::lenenc_bytes(&mut out, self.raw_attributes);
        }
        out
    }

    /// The same login without its answer to the nonce.
    pub(crate) fn without_proof(&self) -> Self {
        Self { auth_response: &[], ..self.clone() }
    }

    /// The same login in the name of a plugin that does not exist: the server names the account's own and
    /// asks anew.
    pub(crate) fn asking_anew(&self, plugin: &'a [u8]) -> Self {
        let capabilities = self.capabilities | Capabilities::PLUGIN_AUTH;
        Self { capabilities, auth_response: &[], auth_plugin: plugin, ..self.clone() }
    }

    /// The connection's attributes (`program_name`, `_client_name`, ...) as name and value; ends at the first
    /// that is malformed.
    pub fn attributes(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + use<'a> {
        let mut r = Reader::new(self.raw_attributes);
        std::iter::from_fn(move || Some((r.lenenc_bytes()?, r.lenenc_bytes()?)))
    }
}

/// Appends one attribute in the form of [`Login::raw_attributes`].
pub fn push_attribute(raw: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    write::lenenc_bytes(raw, name);
    write::lenenc_bytes(raw, value);
}

fn read_auth_response<'a>(r: &mut Reader<'a>, capabilities: Capabilities) -> &'a [u8] {
    let found = if capabilities.contains(Capabilities::PLUGIN_AUTH_LENENC_DATA) {
        r.lenenc_bytes()
    } else if capabilities.contains(Capabilities::SECURE_CONNECTION) {
        r.u8().and_then(|n| r.bytes(usize::from(n)))
    } else {
        r.until_nul()
    };
    found.unwrap_or_default()
}

fn nul_or_rest<'a>(r: &mut Reader<'a>) -> &'a [u8] {
    r.until_nul().or_else(|| r.bytes(r.rest().len())).unwrap_or_default()
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Reader::new(bytes.get(at..)?).u32()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_comes_back_as_it_was_written() {
        let mut raw = Vec::new();
        push_attribute(&mut raw, b"program_name", b"shop");
        push_attribute(&mut raw, b"_pid", b"12");
        let login = Login {
            capabilities: Capabilities::ORDINARY,
            max_packet: 1 << 24,
            charset: 45,
            user: b"shop",
            auth_response: &[7; 20],
            database: b"orders",
            auth_plugin: b"mysql_native_password",
            raw_attributes: &raw,
        };
        let bytes = login.encode();
        let read = Login::parse(&bytes).expect("what we wrote");
        assert_eq!(read, login);
        let attributes: Vec<_> = read.attributes().collect();
        assert_eq!(attributes, [(b"program_name".as_slice(), b"shop".as_slice()), (b"_pid", b"12")]);
    }

    #[test]
    fn the_first_32_bytes_with_the_tls_flag_are_an_ssl_request() {
        let capabilities = Capabilities::ORDINARY | Capabilities::SSL;
        let login = Login { capabilities, user: b"u", ..Login::default() }.encode();
        assert!(is_ssl_request(&login[..FIXED]));
        assert!(!is_ssl_request(&login), "a login in clear is no request");
        let plain = Login { capabilities: Capabilities::ORDINARY, user: b"u", ..Login::default() }.encode();
        assert!(!is_ssl_request(&plain[..FIXED]));
    }

    #[test]
    fn the_old_protocol_is_told_apart() {
        assert_eq!(Login::parse(&[5, 0, 0, 0, 1, b'u', 0]), Err(WireError::TooOld));
        assert_eq!(opening(&[5, 0, 0, 0, 1, b'u', 0]), None);
    }
}
