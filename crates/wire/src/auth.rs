//! `mysql_native_password`, for scripted servers and simple clients. Sessions of real clients pass through
//! unread.
//!
//! The client proves that it knows the password without sending it: with `H = SHA1`,
//! `answer = H(password) xor H(nonce + H(H(password)))`. The server stores `H(H(password))`; no password is
//! an empty answer.

use sha1::{Digest, Sha1};

/// The plugin's name in greeting and login.
pub const NATIVE_PASSWORD: &str = "mysql_native_password";

/// The client's answer to the server's nonce (20 bytes).
pub fn native_password(password: &[u8], nonce: &[u8]) -> Vec<u8> {
    if password.is_empty() {
        return Vec::new();
    }
    let once = Sha1::digest(password);
    let mask = mask(Sha1::digest(once).as_slice(), nonce);
    once.iter().zip(mask).map(|(a, b)| a ^ b).collect()
}

/// Does the answer prove this password?
pub fn native_password_matches(password: &[u8], nonce: &[u8], answer: &[u8]) -> bool {
    if password.is_empty() || answer.len() != 20 {
        return password.is_empty() && answer.is_empty();
    }
    let stored = Sha1::digest(Sha1::digest(password));
    let once: Vec<u8> = answer.iter().zip(mask(stored.as_slice(), nonce)).map(|(a, b)| a ^ b).collect();
    Sha1::digest(once) == stored
}

fn mask(stored: &[u8], nonce: &[u8]) -> [u8; 20] {
    Sha1::new().chain_update(nonce).chain_update(stored).finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_proves_its_password_and_no_other() {
        let nonce: Vec<u8> = (1..=20).collect();
        let answer = native_password(b"secret", &nonce);
        assert!(native_password_matches(b"secret", &nonce, &answer));
        assert!(!native_password_matches(b"Secret", &nonce, &answer));
        assert!(!native_password_matches(b"secret", &[9; 20], &answer));
        assert!(!native_password_matches(b"", &nonce, &answer));
        assert!(!native_password_matches(b"secret", &nonce, b""));
    }

    #[test]
    fn no_password_is_an_empty_answer() {
        assert_eq!(native_password(b"", &[1; 20]), b"");
        assert!(native_password_matches(b"", &[1; 20], b""));
    }
}
