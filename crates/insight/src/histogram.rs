//! Histogram: how often which value came, with buckets that grow with the value, so that any quantile is
//! within 3 %.
//!
//! Values are whole numbers; latencies are nanoseconds. An octave, from (not including) 2^k to (including)
//! 2^(k+1), has [`STEPS`] buckets of equal width; 30 octaves reach from 2^10 (1.024 us) to 2^40 (1,100 s).
//! What is smaller has one bucket before them, what is larger counts in the last. A value is told as the
//! middle of its bucket: at most 1/33 of it wrong.
//!
//! Worked example: 1,500,000 ns lies in octave 20 (above 1,048,576), whose buckets are 65,536 wide; in the
//! seventh of them (1,441,792 to 1,507,328); told as 1,474,560, which is 1.7 % off.
//!
//! Only the buckets between the smallest and the largest value seen are held, eight bytes each: a statement
//! whose times lie between 100 us and 10 ms takes about 850 bytes, and none takes more than 3,848. Four bytes
//! would be full after some weeks of a busy router. Histograms add up bucket by bucket, so that the sum over
//! threads, hosts or time is what one histogram would have counted.

/// Buckets of an octave.
const STEPS: usize = 16;
const STEP_BITS: u32 = STEPS.ilog2();
/// The octaves: 2^[`FIRST`] to 2^[`LAST`].
const FIRST: u32 = 10;
const LAST: u32 = 40;
/// One for everything up to 2^[`FIRST`], then those of the octaves.
const BUCKETS: usize = 1 + (LAST - FIRST) as usize * STEPS;

/// Counts by bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    /// The bucket that `counts` begins with.
    from: u16,
    counts: Vec<u64>,
}

impl Histogram {
    #[inline]
    pub fn record(&mut self, value: u64) {
        let bucket = bucket(value);
        match bucket.checked_sub(usize::from(self.from)).and_then(|at| self.counts.get_mut(at)) {
            Some(count) => *count += 1,
            None => self.add(bucket, 1),
        }
    }

    /// Adds all counts of another.
    pub fn merge(&mut self, other: &Self) {
        self.merge_times(other, 1);
    }

    /// Adds all counts of another `times` over.
    pub fn merge_times(&mut self, other: &Self, times: u32) {
        for (bucket, count) in other.filled() {
            self.add(bucket, count.saturating_mul(u64::from(times)));
        }
    }

    /// Takes off all counts of an earlier state of the same histogram.
    pub fn subtract(&mut self, earlier: &Self) {
        for (bucket, count) in earlier.filled() {
            if let Some(mine) =
                bucket.checked_sub(usize::from(self.from)).and_then(|at| self.counts.get_mut(at))
            {
                *mine = mine.saturating_sub(count);
            }
        }
    }

    /// How many values were counted.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The value that a share `q` (0 to 1) of all values does not exceed: the middle of its bucket. `None`
    /// when empty.
    pub fn quantile(&self, q: f64) -> Option<u64> {
        self.bucket_of(q).map(|bucket| (lower(bucket) + upper(bucket)) / 2)
    }

    /// The same, as the largest value of its bucket: exact for small whole numbers that were recorded shifted
    /// by [`FIRST`].
    pub fn quantile_at_most(&self, q: f64) -> Option<u64> {
        self.bucket_of(q).map(upper)
    }

    /// How many values were at most 2^`exponent`, from 10 to 40; exact.
    pub fn at_most_power(&self, exponent: u32) -> u64 {
        let end = 1 + (exponent.clamp(FIRST, LAST) - FIRST) as usize * STEPS;
        self.filled().take_while(|(bucket, _)| *bucket < end).map(|(_, count)| count).sum()
    }

    /// How many values were at most `value`, as they are told: by the middle of their bucket.
    pub fn at_most(&self, value: u64) -> u64 {
        let told = |bucket: usize| (lower(bucket) + upper(bucket)) / 2;
        self.filled().take_while(|(bucket, _)| told(*bucket) <= value).map(|(_, count)| count).sum()
    }

    fn bucket_of(&self, q: f64) -> Option<usize> {
        let all = self.count();
        let wanted = ((all as f64 * q).ceil() as u64).clamp(1, all.max(1));
        let mut seen = 0;
        self.filled().find_map(|(bucket, count)| {
            seen += count;
            (seen >= wanted).then_some(bucket)
        })
    }

    fn filled(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        let from = usize::from(self.from);
        self.counts
            .iter()
            .enumerate()
            .filter(|(_, count)| **count > 0)
            .map(move |(at, count)| (from + at, *count))
    }

    /// Adds to a bucket, making room for it.
    fn add(&mut self, bucket: usize, count: u64) {
        if self.counts.is_empty() {
            self.from = bucket as u16;
        }
        let from = usize::from(self.from);
        if bucket < from {
            let zeros = std::iter::repeat_n(0, from - bucket);
            self.counts.splice(0..0, zeros);
            self.from = bucket as u16;
        }
        let at = bucket - usize::from(self.from);
        if at >= self.counts.len() {
            self.counts.resize(at + 1, 0);
        }
        self.counts[at] = self.counts[at].saturating_add(count);
    }
}

/// The bucket of a value. One is taken off first, so that a power of two is the last value of its octave.
#[inline]
fn bucket(value: u64) -> usize {
    let value = value.saturating_sub(1);
    let octave = (value | 1).ilog2();
    if octave < FIRST {
        return 0;
    }
    let step = (value >> (octave - STEP_BITS)) as usize % STEPS;
    (1 + (octave - FIRST) as usize * STEPS + step).min(BUCKETS - 1)
}

/// The largest value below a bucket.
fn lower(bucket: usize) -> u64 {
    bucket.checked_sub(1).map_or(0, upper)
}

/// The largest value of a bucket.
fn upper(bucket: usize) -> u64 {
    let (octave, step) =
        (FIRST as usize + bucket.saturating_sub(1) / STEPS, bucket.saturating_sub(1) % STEPS);
    let steps = if bucket == 0 { 0 } else { step as u64 + 1 };
    (1 << octave) + (steps << (octave as u32 - STEP_BITS))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(values: &[u64]) -> Histogram {
        let mut histogram = Histogram::default();
        values.iter().for_each(|value| histogram.record(*value));
        histogram
    }

    /// Values over the whole range, as often small as large.
    fn value() -> impl Strategy<Value = u64> {
        (FIRST..LAST, 0.0..1.0f64)
            .prop_map(|(octave, part)| (2f64.powi(octave as i32) * (1.0 + part)) as u64 + 1)
    }

    #[test]
    fn the_buckets_meet_without_gap_or_overlap() {
        for at in 1..BUCKETS {
            assert_eq!(lower(at), upper(at - 1), "{at}");
            assert_eq!((bucket(lower(at) + 1), bucket(upper(at))), (at, at));
        }
        assert_eq!((bucket(0), bucket(1), bucket(u64::MAX)), (0, 0, BUCKETS - 1));
    }

    #[test]
    fn the_sum_up_to_a_power_of_two_is_exact() {
        let histogram = of(&[1 << 20, (1 << 20) + 1, 5, 1 << 30]);
        assert_eq!((histogram.at_most_power(20), histogram.at_most_power(21)), (2, 3));
        assert_eq!((histogram.at_most_power(10), histogram.at_most_power(40)), (1, 4));
    }

    #[test]
    fn a_bucket_is_not_full_after_four_billion() {
        let mut histogram = of(&[1 << 20, 1 << 30]);
        for _ in 0..33 {
            let as_many = histogram.clone();
            histogram.merge(&as_many);
        }
        let all = histogram.clone();
        histogram.record(1 << 20);
        assert_eq!((histogram.at_most_power(20), histogram.count()), ((1 << 33) + 1, (1 << 34) + 1));
        histogram.subtract(&all);
        assert_eq!((histogram.at_most_power(20), histogram.count()), (1, 1));
    }

    #[test]
    fn small_whole_numbers_are_exact_when_shifted() {
        for n in 1u64..=32 {
            assert_eq!(of(&[n << FIRST]).quantile_at_most(0.5), Some(n << FIRST), "{n}");
        }
    }

    proptest! {
        #[test]
        fn a_value_is_told_within_three_per_cent(value in value()) {
            let told = of(&[value]).quantile(0.5).unwrap() as f64;
            prop_assert!((told - value as f64).abs() / value as f64 <= 1.0 / 32.0, "{} told as {}", value, told);
        }

        #[test]
        fn what_is_at_most_a_value_is_counted_within_four_per_cent(value in 2_000u64..1_000_000_000_000, others in prop::collection::vec(2_000u64..1_000_000_000_000, 0..50)) {
            let histogram = of(&others);
            let below = others.iter().filter(|other| (**other as f64) < value as f64 * 0.96).count() as u64;
            let above = others.iter().filter(|other| (**other as f64) > value as f64 * 1.04).count() as u64;
            let counted = histogram.at_most(value);
            prop_assert!(below <= counted && counted + above <= others.len() as u64, "{} of {:?}", counted, others);
        }

        #[test]
        fn a_merge_is_the_histogram_of_the_union(one in prop::collection::vec(value(), 0..50), two in prop::collection::vec(value(), 0..50)) {
            let mut merged = of(&one);
            merged.merge(&of(&two));
            let union = of(&[one.clone(), two].concat());
            prop_assert_eq!(merged.count(), union.count());
            prop_assert!(merged.filled().eq(union.filled()));
            for q in [0.0, 0.5, 0.9, 0.99, 0.999, 1.0] {
                prop_assert_eq!(merged.quantile(q), union.quantile(q));
            }
            merged.subtract(&of(&one));
            prop_assert_eq!(merged.count(), union.count() - one.len() as u64);
        }

        #[test]
        fn quantiles_are_those_of_the_values(mut values in prop::collection::vec(value(), 1..200), q in 0.0..1.0f64) {
            let told = of(&values).quantile(q).unwrap() as f64;
            values.sort_unstable();
            let rank = ((values.len() as f64 * q).ceil() as usize).clamp(1, values.len());
            let exact = values[rank - 1] as f64;
            prop_assert!((told - exact).abs() / exact <= 1.0 / 32.0);
        }
    }
}
