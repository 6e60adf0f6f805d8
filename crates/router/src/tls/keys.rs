//! RSA for the key exchange of `caching_sha2_password`: a pair of our own, made when it is first needed, and the
//! servers' public keys. OAEP with SHA-1, as servers do it.
//!
//! Our pair lives as long as the process: clients ask for the public half in the login itself and keep it no longer.

use ::tls::random;
use rsa::pkcs8::{EncodePublicKey, LineEnding};
use rsa::{Oaep, RsaPrivateKey};
use sha1_for_rsa::Sha1;
use std::sync::OnceLock;
use wire::bridge::{Keys, Secret};

/// Bits of our pair; servers make theirs of the same size.
const BITS: usize = 2048;

/// Our pair, made (0.1 s) when a client first asks for it or when [`OwnKeys::prepare`] is called.
#[derive(Default)]
pub(crate) struct OwnKeys(OnceLock<Option<Pair>>);

struct Pair {
    private: RsaPrivateKey,
    public_pem: String,
}

impl OwnKeys {
    /// Makes the pair now. Takes about 0.1 s of a core: not for a thread of the data plane.
    pub(crate) fn prepare(&self) {
        self.pair();
    }

    fn pair(&self) -> Option<&Pair> {
        let made = self.0.get_or_init(|| {
            let private = RsaPrivateKey::new(&mut random(), BITS).ok()?;
            let public_pem = private.to_public_key().to_public_key_pem(LineEnding::LF).ok()?;
            Some(Pair { private, public_pem })
        });
        made.as_ref()
    }
}

impl Keys for OwnKeys {
    fn public_key(&self) -> &[u8] {
        self.pair().map_or(&[], |pair| pair.public_pem.as_bytes())
    }

    fn open(&self, sealed: &[u8]) -> Option<Secret> {
        let pair = self.pair()?;
        pair.private.decrypt_blinded(&mut random(), Oaep::<Sha1>::new(), sealed).ok().map(Secret::new)
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

    #[test]
    fn what_is_sealed_with_our_public_key_only_we_open() {
        let (ours, others) = (OwnKeys::default(), OwnKeys::default());
        let sealed = ours.seal(ours.public_key(), b"secret\0").unwrap();
        assert_eq!(ours.open(&sealed).unwrap().as_slice(), b"secret\0");
        assert!(others.open(&sealed).is_none());
        assert!(ours.open(b"short").is_none());
        assert!(ours.seal(b"no key", b"x").is_none());
        assert!(ours.seal(ours.public_key(), &[b'x'; 300]).is_none(), "longer than the key can hold");
    }
}
