//! RSA for the key exchange of `caching_sha2_password`: a pair of our own, made when it is first needed, and
//! the servers' public keys. OAEP with SHA-1, as servers do it.
//!
//! Our pair lives as long as the process: clients ask for the public half in the login itself and keep it no
//! longer.

use crate::error::Error;
use ::tls::random;
use config::{ClientTlsMode, Listener, ServerTls, TlsMode};
use fleet::Address;
use rsa::pkcs8::{DecodePublicKey, EncodePublicKey, LineEnding};
use rsa::traits::PublicKeyParts;
use rsa::{Oaep, PrivateKey, PublicKey};
use sha1::Sha1;
use std::sync::{Arc, OnceLock};
use tokio::sync::Semaphore;
use wire::bridge::{Keys, Secret};

/// Bits of our pair; servers make theirs of the same size.
const BITS: usize = 2048;

/// Decryptions at the same time, over all threads. One takes some milliseconds of a core and costs whoever
/// asks for it one packet, before any password is checked: more of them would only take cores from sessions.
const AT_ONCE: usize = 2;

/// Our pair, made (0.1 s) when a client first asks for it or when [`OwnKeys::prepare`] is called.
pub(crate) struct OwnKeys {
    pair: OnceLock<Option<Arc<Pair>>>,
    decrypting: Arc<Semaphore>,
}

/// Whose key encrypts a password that came in secret and goes on over an open way.
#[derive(Debug, Default)]
pub(crate) struct ServerKey {
    /// The servers' key, PEM, from a file.
    pinned: Option<Vec<u8>>,
    /// Without one, the server may be asked.
    pub(crate) retrieved: bool,
}

pub(crate) struct LoginKeys<'a> {
    pub(crate) own: &'a OwnKeys,
    pub(crate) server: Arc<ServerKey>,
}

impl Default for OwnKeys {
    fn default() -> Self {
        Self { pair: OnceLock::new(), decrypting: Arc::new(Semaphore::new(AT_ONCE)) }
    }
}

struct Pair {
    private: PrivateKey,
    public_pem: String,
}

impl OwnKeys {
    /// Makes the pair now. Takes about 0.1 s of a core: not for a thread of the data plane.
    pub(crate) fn prepare(&self) {
        self.pair();
    }

    /// Decrypts what was encrypted with our public key, on a thread for such work; `None` when it was not.
    pub(crate) async fn decrypt(&self, sealed: Vec<u8>) -> Option<Secret> {
        let pair = self.pair()?.clone();
        if sealed.len() != pair.private.size() {
            return None;
        }
        let turn = self.decrypting.clone().acquire_owned().await.ok()?;
        // The turn ends with the work, not with the login that may have been given up meanwhile.
        let work = move || {
            let _turn = turn;
            pair.decrypt(&sealed)
        };
        tokio::task::spawn_blocking(work).await.ok()?
    }

    fn pair(&self) -> Option<&Arc<Pair>> {
        let made = self.pair.get_or_init(|| {
            let private = PrivateKey::new(&mut random(), BITS).ok()?;
            let public_pem = private.to_public_key().to_public_key_pem(LineEnding::LF).ok()?;
            Some(Arc::new(Pair { private, public_pem }))
        });
        made.as_ref()
    }
}

impl Pair {
    fn decrypt(&self, sealed: &[u8]) -> Option<Secret> {
        self.private.decrypt_blinded(&mut random(), Oaep::<Sha1>::new(), sealed).ok().map(Secret::new)
    }
}

impl ServerKey {
    /// Reads what `[router.tls]` says about the servers' key.
    pub(crate) fn load(config: &ServerTls) -> Result<Self, Error> {
        let retrieved = config.allow_public_key_retrieval;
        let Some(path) = &config.server_public_key else { return Ok(Self { pinned: None, retrieved }) };
        let failed = |why: String| Error::Tls(format!("server_public_key: {}: {why}", path.display()));
        let pem = std::fs::read_to_string(path).map_err(|e| failed(e.to_string()))?;
        // MySQL ends its own file with a zero byte.
        let pem = pem.trim_end_matches('\0').to_owned();
        PublicKey::from_public_key_pem(&pem).map_err(|e| {
            failed(format!("no RSA public key in PEM form ({e}); servers have theirs in public_key.pem"))
        })?;
        Ok(Self { pinned: Some(pem.into_bytes()), retrieved: false })
    }
}

/// What happens to passwords that are asked for over an open way to the servers, in words, where the
/// configuration leads there. A client's own way is secret where its TLS ends here, and on a unix socket.
pub fn passwords_in_clear(listeners: &[Listener], servers: &ServerTls) -> Option<String> {
    let secret = |listener: &&Listener| {
        matches!(listener.tls.mode, ClientTlsMode::Preferred | ClientTlsMode::Required)
            || matches!(listener.address, Address::Unix(_))
    };
    let listener = &listeners.iter().find(secret)?.address;
    let way = match servers.tls.mode {
        TlsMode::Disabled => "[router.tls] mode is \"off\"",
        TlsMode::Preferred => {
            "[router.tls] mode is \"preferred\", and a server that offers no TLS is reached without"
        }
        _ => return None,
    };
    Some(match (&servers.server_public_key, servers.allow_public_key_retrieval) {
        (Some(path), _) => format!(
            "{way}: a password that caching_sha2_password asks a client of {listener} for goes on encrypted with the key in {}",
            path.display()
        ),
        (None, true) => format!(
            "Warning: {way}, and allow_public_key_retrieval = true: whoever can change packets between router and server can \
             read the passwords of clients of {listener}"
        ),
        (None, false) => format!(
            "{way}: a client of {listener} whose password caching_sha2_password asks for is refused (error 3159); set mode = \
             \"required\" or better, server_public_key, or allow_public_key_retrieval = true"
        ),
    })
}

impl Keys for LoginKeys<'_> {
    fn public_key(&self) -> &[u8] {
        self.own.pair().map_or(&[], |pair| pair.public_pem.as_bytes())
    }

    fn server_key(&self) -> Option<&[u8]> {
        self.server.pinned.as_deref()
    }

    fn seal(&self, pem: &[u8], plain: &[u8]) -> Option<Vec<u8>> {
        ::tls::sealed(pem, plain)
    }
}

impl std::fmt::Debug for OwnKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OwnKeys")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(own: &OwnKeys) -> LoginKeys<'_> {
        LoginKeys { own, server: Arc::default() }
    }

    #[tokio::test]
    async fn what_is_sealed_with_our_public_key_only_we_open() {
        let (ours, others) = (OwnKeys::default(), OwnKeys::default());
        let keys = keys(&ours);
        let sealed = keys.seal(keys.public_key(), b"secret\0").unwrap();
        assert_eq!(ours.decrypt(sealed.clone()).await.unwrap().as_slice(), b"secret\0");
        assert!(others.decrypt(sealed).await.is_none());
        assert!(ours.decrypt(b"short".to_vec()).await.is_none());
        assert!(keys.seal(b"no key", b"x").is_none());
        assert!(keys.seal(keys.public_key(), &[b'x'; 300]).is_none(), "longer than the key can hold");
    }

    #[tokio::test]
    async fn decryptions_wait_for_their_turn_and_leave_the_thread_to_others() {
        let ours = OwnKeys::default();
        let sealed = keys(&ours).seal(keys(&ours).public_key(), b"secret\0").unwrap();
        let turns: Vec<_> =
            (0..AT_ONCE).map(|_| ours.decrypting.clone().try_acquire_owned().unwrap()).collect();
        let mut waiting = Box::pin(ours.decrypt(sealed));
        let patience = std::time::Duration::from_millis(50);
        assert!(tokio::time::timeout(patience, &mut waiting).await.is_err(), "all turns are taken");
        drop(turns);
        assert_eq!(waiting.await.unwrap().as_slice(), b"secret\0");
    }

    #[test]
    fn a_file_without_a_key_is_refused_and_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key.pem");
        let config = ServerTls { server_public_key: Some(path.clone()), ..ServerTls::default() };
        assert!(ServerKey::load(&config).unwrap_err().to_string().contains("key.pem"), "not there");
        std::fs::write(&path, "no key").unwrap();
        assert!(ServerKey::load(&config).unwrap_err().to_string().contains("no RSA public key"));
        let own = OwnKeys::default();
        std::fs::write(&path, [keys(&own).public_key(), b"\0"].concat()).unwrap();
        assert!(ServerKey::load(&config).unwrap().pinned.is_some());
    }

    #[test]
    fn the_check_says_what_happens_to_passwords_on_an_open_way() {
        let mut listener = Listener::new(Address::tcp("127.0.0.1", 3306), fleet::ListenerRole::Reader);
        let mut servers = ServerTls::default();
        assert_eq!(
            passwords_in_clear(&[listener.clone()], &servers),
            None,
            "passthrough: the client's own business"
        );
        listener.tls.mode = ClientTlsMode::Required;
        let says = |servers: &ServerTls| passwords_in_clear(&[listener.clone()], servers).unwrap_or_default();
        assert!(says(&servers).contains("is refused"), "{}", says(&servers));
        servers.allow_public_key_retrieval = true;
        assert!(says(&servers).starts_with("Warning: "), "{}", says(&servers));
        servers.server_public_key = Some("/k.pem".into());
        assert!(says(&servers).contains("/k.pem"));
        servers.tls.mode = TlsMode::Required;
        assert_eq!(says(&servers), "");
    }
}
