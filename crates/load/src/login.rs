//! Logging in, as a state machine over packets: `mysql_native_password` and `caching_sha2_password`.
//!
//! `caching_sha2_password` first tries a proof that the server can check from its cache: `SHA256(password)
//! xor SHA256(SHA256(SHA256(password)), nonce)`. When the server has not cached the password it wants it
//! whole: in clear where nobody can listen (TLS, a unix socket), else `xor` the nonce and encrypted with the
//! RSA key that it shows when asked.
//!
//! With TLS the answer to the greeting is an SSLRequest; the login follows once [`Handshake::secured`] is
//! told that TLS stands.

use crate::error::LoadError;
use fleet::Address;
use sha2::{Digest, Sha256};
use wire::auth::{NATIVE_PASSWORD, native_password};
use wire::{Capabilities, ErrPacket, Greeting, Login, packet};

const CACHING_SHA2: &str = "caching_sha2_password";
const AUTH_SWITCH: u8 = 0xfe;
const AUTH_MORE: u8 = 0x01;
const FAST_OK: u8 = 3;
const FULL_NEEDED: u8 = 4;
/// Bytes of an SSLRequest.
const SSL_REQUEST: usize = 32;
/// Asks for the server's RSA key.
const SHOW_KEY: u8 = 2;

/// Who logs in, and where to.
#[derive(Clone, Default)]
pub struct Account {
    /// The account's name.
    pub user: String,
    /// Its password; empty for none.
    pub password: String,
    /// The default database; empty for none.
    pub database: String,
}

impl std::fmt::Debug for Account {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Account")
            .field("user", &self.user)
            .field("database", &self.database)
            .finish_non_exhaustive()
    }
}

/// A login that is under way.
#[derive(Debug, Default)]
pub(crate) struct Handshake {
    greeted: bool,
    plugin: String,
    nonce: Vec<u8>,
    capabilities: Capabilities,
    transport: Transport,
    asked_for_key: bool,
}

/// Who can listen to what is sent, and whether TLS begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Transport {
    /// Anybody on the way.
    #[default]
    Open,
    /// Nobody: a unix socket, or TLS that stands.
    Private,
    /// TLS begins if the server offers it.
    TlsPreferred,
    /// TLS begins, or there is no login.
    TlsRequired,
}

/// Where a login stands after a packet.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum LoginStep {
    /// The server's turn (after what was put into `out`, if anything, is sent).
    Wait,
    /// Begin TLS once what was put into `out` is sent, then go on with [`Handshake::secured`].
    BeginTls,
    /// Done: these capabilities hold.
    Done(Capabilities),
}

/// Why a login failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LoginFailure {
    #[error("error {}: {}", .0.code, .0.message)]
    Refused(ErrPacket),
    #[error(transparent)]
    Wire(#[from] wire::WireError),
    #[error(transparent)]
    Impossible(#[from] LoginError),
}

/// Why we cannot log in as the server wants.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoginError {
    #[error(
        "it offers no TLS, and --ssl-mode demands it; give the server a certificate, or use --ssl-mode=DISABLED"
    )]
    NoTls,
    #[error(
        "the password of {user} cannot be encrypted with the key that the server shows; use --ssl-mode=REQUIRED"
    )]
    Key { user: String },
    #[error("the account {user} uses {plugin}; headroom load knows {NATIVE_PASSWORD} and {CACHING_SHA2}")]
    Plugin { user: String, plugin: String },
}

impl LoginFailure {
    /// The error of a run that could not start because of it.
    pub(crate) fn at(self, address: Address) -> LoadError {
        match self {
            Self::Refused(error) => LoadError::Refused { address, code: error.code, message: error.message },
            Self::Wire(source) => LoadError::Wire { address, source },
            Self::Impossible(source) => LoadError::Login { address, source },
        }
    }
}

impl Handshake {
    pub(crate) fn new(transport: Transport) -> Self {
        Self { transport, ..Self::default() }
    }

    /// The login as it would be without TLS and without a proof, for who follows the session and must not
    /// know of either.
    pub(crate) fn in_the_clear(&self, account: &Account) -> Vec<u8> {
        let capabilities = self.capabilities.difference(Capabilities::SSL);
        self.login_with(account, capabilities, &[])
    }

    /// Whether the server has greeted.
    pub(crate) fn is_greeted(&self) -> bool {
        self.greeted
    }

    /// Takes the server's next packet and puts the answer to it into `out`.
    pub(crate) fn packet(
        &mut self,
        account: &Account,
        sequence: u8,
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<LoginStep, LoginFailure> {
        if payload.first() == Some(&0xff) {
            return Err(LoginFailure::Refused(ErrPacket::parse(payload)?));
        }
        let mut next = sequence.wrapping_add(1);
        if !self.greeted {
            return self.greet(account, Greeting::parse(payload)?, &mut next, out);
        }
        match payload {
            [0x00, ..] => return Ok(LoginStep::Done(self.capabilities)),
            [AUTH_SWITCH, rest @ ..] => {
                let mut reader = wire::read::Reader::new(rest);
                let plugin = reader.until_nul().unwrap_or(NATIVE_PASSWORD.as_bytes());
                self.plugin = String::from_utf8_lossy(plugin).into_owned();
                let nonce = reader.rest();
                self.nonce = nonce.strip_suffix(&[0]).unwrap_or(nonce).to_vec();
                packet::write(out, &mut next, &self.proof(account)?);
            }
            [AUTH_MORE, FAST_OK, ..] => {}
            [AUTH_MORE, FULL_NEEDED, ..] if self.transport == Transport::Private => {
                packet::write(out, &mut next, &[account.password.as_bytes(), &[0]].concat());
            }
            [AUTH_MORE, FULL_NEEDED, ..] => {
                self.asked_for_key = true;
                packet::write(out, &mut next, &[SHOW_KEY]);
            }
            [AUTH_MORE, key @ ..] if self.asked_for_key => {
                self.asked_for_key = false;
                packet::write(out, &mut next, &self.encrypted_password(account, key)?);
            }
            other => {
                let first = other.first().copied().unwrap_or_default();
                return Err(LoginFailure::Wire(wire::WireError::NotA { packet: "answer to a login", first }));
            }
        }
        Ok(LoginStep::Wait)
    }

    fn greet(
        &mut self,
        account: &Account,
        greeting: Greeting,
        next: &mut u8,
        out: &mut Vec<u8>,
    ) -> Result<LoginStep, LoginFailure> {
        self.greeted = true;
        let mut wanted = Capabilities::ORDINARY
            .difference(Capabilities::CONNECT_ATTRS)
            .difference(Capabilities::MULTI_STATEMENTS)
            | Capabilities::DEPRECATE_EOF
            | Capabilities::MARIADB_CACHE_METADATA;
        if account.database.is_empty() {
            wanted = wanted.difference(Capabilities::CONNECT_WITH_DB);
        }
        if greeting.flavour() == wire::greeting::Flavour::MariaDb {
            // Unset, it announces the flags that only MariaDB has.
            wanted = wanted.difference(Capabilities::LONG_PASSWORD);
        }
        let offers_tls = greeting.capabilities.contains(Capabilities::SSL);
        self.capabilities = (wanted & greeting.capabilities).difference(Capabilities::SSL);
        self.nonce = greeting.nonce;
        self.plugin = greeting.auth_plugin;
        match self.transport {
            Transport::TlsRequired if !offers_tls => Err(LoginError::NoTls.into()),
            Transport::TlsPreferred | Transport::TlsRequired if offers_tls => {
                self.capabilities |= Capabilities::SSL;
                // The first 32 bytes of the login to come.
                let login = self.login(account, &[]);
                packet::write(out, next, &login[..SSL_REQUEST]);
                Ok(LoginStep::BeginTls)
            }
            _ => {
                self.log_in(account, next, out)?;
                Ok(LoginStep::Wait)
            }
        }
    }

    /// TLS stands: the login goes on inside it.
    pub(crate) fn secured(&mut self, account: &Account, out: &mut Vec<u8>) -> Result<(), LoginFailure> {
        self.transport = Transport::Private;
        // The greeting had 0, the SSLRequest 1.
        self.log_in(account, &mut 2, out)
    }

    fn log_in(&mut self, account: &Account, next: &mut u8, out: &mut Vec<u8>) -> Result<(), LoginFailure> {
        // An unknown plugin may be the server's default and not this account's: the server switches.
        let proof = match self.proof(account) {
            Ok(proof) => proof,
            Err(LoginFailure::Impossible(_)) => {
                NATIVE_PASSWORD.clone_into(&mut self.plugin);
                self.proof(account)?
            }
            Err(other) => return Err(other),
        };
        packet::write(out, next, &self.login(account, &proof));
        Ok(())
    }

    fn login(&self, account: &Account, proof: &[u8]) -> Vec<u8> {
        self.login_with(account, self.capabilities, proof)
    }

    fn login_with(&self, account: &Account, capabilities: Capabilities, proof: &[u8]) -> Vec<u8> {
        let login = Login {
            capabilities,
            max_packet: 1 << 30,
            // utf8mb4_general_ci
            charset: 45,
            user: account.user.as_bytes(),
            auth_response: proof,
            database: account.database.as_bytes(),
            auth_plugin: self.plugin.as_bytes(),
            raw_attributes: &[],
        };
        login.encode()
    }

    /// The password as the server wants it where others can listen: `xor` the nonce, encrypted with its key.
    fn encrypted_password(&self, account: &Account, key: &[u8]) -> Result<Vec<u8>, LoginFailure> {
        let nonce = self.nonce.iter().cycle();
        let hidden: Vec<u8> = account.password.bytes().chain([0]).zip(nonce).map(|(a, b)| a ^ b).collect();
        tls::sealed(key, &hidden).ok_or_else(|| LoginError::Key { user: account.user.clone() }.into())
    }

    fn proof(&self, account: &Account) -> Result<Vec<u8>, LoginFailure> {
        match self.plugin.as_str() {
            NATIVE_PASSWORD | "" => Ok(native_password(account.password.as_bytes(), &self.nonce)),
            CACHING_SHA2 => Ok(caching_sha2(account.password.as_bytes(), &self.nonce)),
            other => Err(LoginError::Plugin { user: account.user.clone(), plugin: other.to_owned() }.into()),
        }
    }
}

/// The proof that the server can check from its cache.
fn caching_sha2(password: &[u8], nonce: &[u8]) -> Vec<u8> {
    if password.is_empty() {
        return Vec::new();
    }
    let once = Sha256::digest(password);
    let twice = Sha256::digest(once);
    let mask = Sha256::new().chain_update(twice).chain_update(nonce).finalize();
    once.iter().zip(mask).map(|(a, b)| a ^ b).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_proof_is_as_long_as_a_digest_and_empty_without_a_password() {
        assert_eq!(caching_sha2(b"secret", &[1; 20]).len(), 32);
        assert_ne!(caching_sha2(b"secret", &[1; 20]), caching_sha2(b"secret", &[2; 20]));
        assert!(caching_sha2(b"", &[1; 20]).is_empty());
    }

    #[test]
    fn a_password_is_never_shown() {
        let account = Account { user: "u".into(), password: "secret".into(), database: String::new() };
        assert!(!format!("{account:?}").contains("secret"));
    }
}
