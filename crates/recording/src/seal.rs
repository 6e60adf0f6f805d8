//! Seal: frames as sealed boxes, ChaCha20-Poly1305.
//!
//! A key is 32 bytes that people keep, and may use for many recordings. Each file gets a key of its own from
//! it and from 32 random bytes in its head (HKDF-SHA256, with the whole head as context), because two boxes
//! with the same key and the same nonce would open each other; then a frame's number can be its nonce. Frames
//! that are swapped, repeated or changed do not open. That the last ones were cut off is not noticed by the
//! seal: an event at the end says that it is the end.

use crate::error::RecordingError;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, Salt};
use ring::rand::{SecureRandom, SystemRandom};
use zeroize::Zeroizing;

const LENGTH: usize = 32;
/// Says what the key is for, in front of the head.
const PURPOSE: &[u8] = b"headroom recording";

/// What people keep to open their recordings.
#[derive(Clone)]
pub struct Key(Zeroizing<[u8; LENGTH]>);

pub(crate) struct Seal(LessSafeKey);

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key(not shown)")
    }
}

impl std::fmt::Debug for Seal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Seal(not shown)")
    }
}

impl Key {
    /// Reads a key: 64 hexadecimal digits, with space around them.
    ///
    /// # Errors
    /// [`RecordingError::KeyLength`] and [`RecordingError::KeyDigits`], which never show what was read.
    pub fn parse(text: &str) -> Result<Self, RecordingError> {
        let digits = text.trim().as_bytes();
        let needed = 2 * LENGTH;
        if digits.len() != needed {
            return Err(RecordingError::KeyLength { needed, found: digits.len() });
        }
        let mut key = Zeroizing::new([0; LENGTH]);
        for (byte, pair) in key.iter_mut().zip(digits.chunks(2)) {
            let digit = |digit: u8| char::from(digit).to_digit(16);
            let (Some(high), Some(low)) = (digit(pair[0]), digit(pair[1])) else {
                return Err(RecordingError::KeyDigits);
            };
            *byte = (high * 16 + low) as u8;
        }
        Ok(Self(key))
    }
}

pub(crate) fn random<const N: usize>() -> Result<[u8; N], RecordingError> {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).map_err(|_| RecordingError::Seal)?;
    Ok(bytes)
}

impl Seal {
    /// The key of the file with this head.
    pub(crate) fn new(key: &Key, salt: &[u8], head: &[u8]) -> Result<Self, RecordingError> {
        let failed = |_| RecordingError::Seal;
        let context = [PURPOSE, head];
        let pseudorandom = Salt::new(HKDF_SHA256, salt).extract(key.0.as_slice());
        let key = pseudorandom.expand(&context, &CHACHA20_POLY1305).map_err(failed)?;
        Ok(Self(LessSafeKey::new(UnboundKey::from(key))))
    }

    /// Seals frame number `frame` in place; its tag is appended.
    pub(crate) fn close(&self, frame: u64, bytes: &mut Vec<u8>) -> Result<(), RecordingError> {
        self.0.seal_in_place_append_tag(nonce(frame), Aad::empty(), bytes).map_err(|_| RecordingError::Seal)
    }

    /// Opens it in place; `None` when this is not the key, or not the frame.
    pub(crate) fn open<'a>(&self, frame: u64, bytes: &'a mut [u8]) -> Option<&'a [u8]> {
        self.0.open_in_place(nonce(frame), Aad::empty(), bytes).ok().map(|opened| &*opened)
    }
}

fn nonce(frame: u64) -> Nonce {
    let mut bytes = [0; 12];
    bytes[4..].copy_from_slice(&frame.to_be_bytes());
    Nonce::assume_unique_for_key(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_sixty_four_digits_and_a_bad_one_is_not_shown() {
        assert!(Key::parse(&format!(" {}\n", "0aF1".repeat(16))).is_ok());
        let short = Key::parse("secret").unwrap_err().to_string();
        assert!(short.contains("openssl rand -hex 32") && !short.contains("secret"), "{short}");
        assert!(Key::parse(&"zz".repeat(32)).is_err());
        assert!(!format!("{:?}", Key::parse(&"11".repeat(32)).unwrap()).contains("11"));
    }

    #[test]
    fn a_frame_opens_under_its_own_number_and_files_own_key_only() {
        let key = Key::parse(&"07".repeat(32)).unwrap();
        let seal = Seal::new(&key, &[1; 32], b"head").unwrap();
        let mut bytes = b"SELECT 1".to_vec();
        seal.close(3, &mut bytes).unwrap();
        assert!(!bytes.starts_with(b"SELECT"));
        assert_eq!(seal.open(4, &mut bytes.clone()), None);
        for other in [Seal::new(&key, &[2; 32], b"head"), Seal::new(&key, &[1; 32], b"haed")] {
            assert_eq!(other.unwrap().open(3, &mut bytes.clone()), None);
        }
        assert_eq!(seal.open(3, &mut bytes), Some(&b"SELECT 1"[..]));
    }
}
