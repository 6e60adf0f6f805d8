//! Bytes: numbers in this machine's order, as the kernel writes them.

/// The number at this offset.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut four = [0; 4];
    four.copy_from_slice(&bytes[at..at + 4]);
    u32::from_ne_bytes(four)
}

/// The number at this offset.
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut eight = [0; 8];
    eight.copy_from_slice(&bytes[at..at + 8]);
    u64::from_ne_bytes(eight)
}
