//! Fold: a 64-bit number for bytes, the same in every process and on every machine.
//!
//! Multiply and fold the 128-bit product, eight bytes at a time (the idea of wyhash). Not for adversaries:
//! whoever can send statements can make two of them share a number, and all they get is a wrong row in their
//! own statistics.

const SEEDS: [u64; 2] = [0xa076_1d64_78bd_642f, 0xe703_7ed1_a0b4_28db];

/// The number of some bytes.
pub fn hash(bytes: &[u8]) -> u64 {
    let mut sum = SEEDS[0] ^ bytes.len() as u64;
    let (chunks, rest) = bytes.as_chunks::<8>();
    for chunk in chunks {
        sum = mix(sum ^ u64::from_le_bytes(*chunk), SEEDS[1]);
    }
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    mix(mix(sum ^ u64::from_le_bytes(last), SEEDS[1]), SEEDS[0])
}

/// Two numbers made one.
pub fn mix(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product as u64) ^ (product >> 64) as u64
}

/// For maps whose keys are such numbers already.
#[derive(Clone, Copy, Debug, Default)]
pub struct Folded(u64);

impl std::hash::Hasher for Folded {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = mix(self.0 ^ hash(bytes), SEEDS[0]);
    }

    fn write_u16(&mut self, number: u16) {
        self.write_u64(u64::from(number));
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(u64::from(number));
    }

    fn write_u128(&mut self, number: u128) {
        self.write_u64(number as u64);
        self.write_u64((number >> 64) as u64);
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = mix(self.0 ^ number ^ SEEDS[1], SEEDS[0]);
    }
}

/// A map that hashes with [`Folded`].
pub type Map<K, V> = std::collections::HashMap<K, V, std::hash::BuildHasherDefault<Folded>>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_and_the_length_count() {
        let base = b"0123456789abcdef0123".to_vec();
        for at in 0..base.len() {
            let mut other = base.clone();
            other[at] ^= 1;
            assert_ne!(hash(&base), hash(&other), "{at}");
        }
        assert_ne!(hash(b""), hash(b"\0"));
        assert_ne!(hash(b"a"), hash(b"a\0"));
    }
}
