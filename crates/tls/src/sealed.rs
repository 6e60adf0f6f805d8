//! A secret for a server alone: RSA with OAEP and SHA-1, as servers do it.

use rsa::pkcs8::DecodePublicKey;
use rsa::rand_core::UnwrapErr;
use rsa::{Oaep, PublicKey};
use sha1::Sha1;

/// The system's random numbers, in the traits of the key exchange.
pub fn random() -> UnwrapErr<getrandom::SysRng> {
    UnwrapErr(getrandom::SysRng)
}

/// Encrypts with the key in `pem`; `None` when that is no key or `plain` is too long for it.
pub fn sealed(pem: &[u8], plain: &[u8]) -> Option<Vec<u8>> {
    let pem = std::str::from_utf8(pem).ok()?.trim_end_matches('\0');
    let key = PublicKey::from_public_key_pem(pem).ok()?;
    key.encrypt(&mut random(), Oaep::<Sha1>::new(), plain).ok()
}
