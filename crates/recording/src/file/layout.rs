//! Layout: the numbers of the file that [`super`] draws.

pub(super) const MAGIC: [u8; 8] = *b"headrec\n";
pub(super) const VERSION: u16 = 1;
pub(super) const SEALED: u16 = 1;
pub(super) const SALT: usize = 32;
/// Bytes of a head.
pub(super) const HEAD: usize = MAGIC.len() + 4 + SALT + 4;
/// Bytes in front of a frame's events.
pub(super) const FRAME: usize = 8;
/// No frame is longer: an event has at most a body of 16 MiB, or what [`Writer`] was given.
pub(super) const LONGEST: usize = 1 << 30;

pub(super) fn checksum(length: [u8; 4], bytes: &[u8]) -> [u8; 4] {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&length);
    hasher.update(bytes);
    hasher.finalize().to_le_bytes()
}
