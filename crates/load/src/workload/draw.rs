//! Values for parameters: drawn from a distribution, made from a template, taken from a slot.

use super::column::Column;
use crate::distribution::{Distribution, Keys};
use rand::Rng;
use rand::rngs::SmallRng;

/// How a value comes about.
#[derive(Clone, Debug)]
pub enum Draw {
    /// A key of a range.
    Key(Keys),
    /// A key of this client's own part of a range: `size` keys shared evenly by all clients.
    Segment {
        /// How keys are spread over the part.
        distribution: Distribution,
        /// Keys of all clients together.
        size: u32,
    },
    /// Always this number.
    Fixed(i64),
    /// `#` becomes a digit, `@` a letter, all else stays.
    Template(Box<[u8]>),
    /// Random bytes, this many.
    Bytes(usize),
    /// What `AUTO_INCREMENT` gave this client last.
    LastInsertId,
    /// One of these numbers.
    Number(Column<i64>),
    /// One of these texts.
    Text(Column<Box<[u8]>>),
    /// A number that no other draw of the run gives, in an order that looks random.
    Unique,
}

/// What stands for a question mark.
#[derive(Clone, Debug)]
pub enum Parameter {
    /// Drawn for this statement alone.
    Draw(Draw),
    /// What a slot holds.
    Slot(usize),
    /// What a slot holds, and this much more.
    SlotPlus(usize, i64),
    /// Bytes that follow from what a slot holds: the same number always gives the same bytes.
    Digest {
        slot: usize,
        /// How many bytes.
        length: usize,
        /// Different salts give different bytes for the same number.
        salt: u64,
    },
}

/// What a parameter is to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParameterType {
    /// A 64-bit integer.
    Number,
    /// Characters.
    Text,
    /// Bytes without a character set.
    Bytes,
}

/// A value, ready to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    Integer(i64),
    Text(&'a [u8]),
    Bytes(&'a [u8]),
}

/// Everything a client draws with.
pub(crate) struct Draws<'a> {
    pub(crate) rng: &'a mut SmallRng,
    pub(crate) slots: &'a mut [i64],
    /// Which client this is, from 0, and of how many.
    pub(crate) client: (u32, u32),
    pub(crate) last_insert_id: u64,
    /// Bytes that outlive no statement.
    pub(crate) scratch: &'a mut Vec<u8>,
}

impl Draw {
    /// A key from `low` to `high`.
    pub fn key(distribution: Distribution, low: u32, high: u32) -> Self {
        Self::Key(distribution.over(low, high))
    }

    /// What it gives.
    pub fn kind(&self) -> ParameterType {
        match self {
            Self::Template(_) | Self::Text(_) => ParameterType::Text,
            Self::Bytes(_) => ParameterType::Bytes,
            _ => ParameterType::Number,
        }
    }

    /// A number; text counts as 0.
    pub(crate) fn number(&self, draws: &mut Draws<'_>) -> i64 {
        match self {
            Self::Key(keys) => i64::from(keys.draw(draws.rng)),
            Self::Segment { distribution, size } => {
                let (client, clients) = draws.client;
                let length = f64::from(*size) / f64::from(clients.max(1));
                let low = length * f64::from(client);
                i64::from(distribution.over(low as u32, (low + length) as u32).draw(draws.rng))
            }
            Self::Fixed(number) => *number,
            Self::LastInsertId => draws.last_insert_id as i64,
            // 63 random bits: among the 10^8 draws of a long run, two are the same once in two thousand runs.
            Self::Unique => (draws.rng.random::<u64>() >> 1) as i64,
            Self::Number(column) => column.draw(draws.rng).copied().unwrap_or_default(),
            Self::Template(_) | Self::Bytes(_) | Self::Text(_) => 0,
        }
    }

    fn value<'d>(&self, draws: &'d mut Draws<'_>) -> Value<'d> {
        match self {
            Self::Template(template) => {
                draws.scratch.clear();
                for &byte in template {
                    draws.scratch.push(match byte {
                        b'#' => b'0' + draws.rng.random_range(0..10),
                        b'@' => b'a' + draws.rng.random_range(0..26),
                        other => other,
                    });
                }
                Value::Text(draws.scratch)
            }
            Self::Text(column) => {
                draws.scratch.clear();
                draws.scratch.extend_from_slice(column.draw(draws.rng).map_or(b"", |text| text));
                Value::Text(draws.scratch)
            }
            Self::Bytes(length) => {
                draws.scratch.resize(*length, 0);
                draws.rng.fill(draws.scratch.as_mut_slice());
                Value::Bytes(draws.scratch)
            }
            number => Value::Integer(number.number(draws)),
        }
    }
}

impl Parameter {
    /// What it gives.
    pub fn kind(&self) -> ParameterType {
        match self {
            Self::Draw(draw) => draw.kind(),
            Self::Digest { .. } => ParameterType::Bytes,
            Self::Slot(_) | Self::SlotPlus(..) => ParameterType::Number,
        }
    }

    pub(crate) fn value<'d>(&self, draws: &'d mut Draws<'_>) -> Value<'d> {
        match self {
            Self::Draw(draw) => draw.value(draws),
            Self::Slot(slot) => Value::Integer(draws.slots[*slot]),
            Self::SlotPlus(slot, more) => Value::Integer(draws.slots[*slot].wrapping_add(*more)),
            Self::Digest { slot, length, salt } => {
                digest(draws.slots[*slot] as u64 ^ salt, *length, draws.scratch);
                Value::Bytes(draws.scratch)
            }
        }
    }
}

/// Bytes that follow from a number, by the finalizer of SplitMix64: spread evenly, and no secret.
fn digest(seed: u64, length: usize, out: &mut Vec<u8>) {
    out.clear();
    let mut state = seed;
    while out.len() < length {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        let left = length - out.len();
        out.extend_from_slice(&mixed.to_le_bytes()[..left.min(8)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    fn with_draws<T>(client: (u32, u32), work: impl FnOnce(&mut Draws<'_>) -> T) -> T {
        let mut rng = SmallRng::seed_from_u64(1);
        let (mut slots, mut scratch) = ([5, 6], Vec::new());
        work(&mut Draws {
            rng: &mut rng,
            slots: &mut slots,
            client,
            last_insert_id: 9,
            scratch: &mut scratch,
        })
    }

    #[test]
    fn a_template_keeps_its_shape() {
        with_draws((0, 1), |draws| {
            let Value::Text(text) = Draw::Template(b"##-@x".as_slice().into()).value(draws) else {
                panic!("text")
            };
            assert!(text[0].is_ascii_digit() && text[1].is_ascii_digit() && text[3].is_ascii_lowercase());
            assert_eq!((text[2], text[4], text.len()), (b'-', b'x', 5));
        });
    }

    #[test]
    fn each_client_draws_from_its_own_segment() {
        let draw = Draw::Segment { distribution: Distribution::Uniform, size: 1000 };
        with_draws((3, 10), |draws| {
            for _ in 0..1000 {
                let key = draw.number(draws);
                assert!((300..=400).contains(&key), "{key}");
            }
        });
    }

    #[test]
    fn a_digest_follows_from_its_slot_alone() {
        let parameter = |slot, salt| Parameter::Digest { slot, length: 13, salt };
        with_draws((0, 1), |draws| {
            let mut bytes = |parameter: Parameter| match parameter.value(draws) {
                Value::Bytes(bytes) => bytes.to_vec(),
                _ => panic!("bytes"),
            };
            assert_eq!(bytes(parameter(0, 1)), bytes(parameter(0, 1)));
            assert_eq!(bytes(parameter(0, 1)).len(), 13);
            assert_ne!(bytes(parameter(0, 1)), bytes(parameter(1, 1)));
            assert_ne!(bytes(parameter(0, 1)), bytes(parameter(0, 2)));
        });
    }
}
