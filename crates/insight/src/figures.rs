//! Figures: what is counted of a set of commands. Sums that add up, so that any grouping of them is exact.

use crate::histogram::Histogram;
use std::time::Duration;
use wire::Finish;

/// Error numbers told apart for one set; further ones count together.
const CODES: usize = 8;

/// Errors of statements that ran until they were given up: interrupted, a lock waited for too long, and the
/// time limits of MariaDB and MySQL. They took at least their time.
const GIVEN_UP: [u16; 4] = [1317, 1205, 1969, 3024];

/// Counts of commands that have been answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    pub count: u64,
    /// Those answered with an error.
    pub errors: u64,
    pub rows: u64,
    /// Rows changed.
    pub affected: u64,
    pub bytes_to_server: u64,
    pub bytes_to_client: u64,
    /// Time from the first byte of a command to the last byte of its answer, summed, ns.
    pub time_ns: u64,
    /// Time to the first byte of the answer, summed, ns.
    pub first_byte_ns: u64,
    /// Those whose times say how fast a server is: all but what it refused, which takes no time. A server
    /// that fails what others answer would look like the fastest.
    pub timed: u64,
    /// The binary logarithms of their times in ns, summed, in units of 1/1024: a mean that one long wait does
    /// not move.
    pub log_sum: u64,
    /// Their times, summed, ns.
    pub timed_ns: u64,
    /// The longest time, ns. Over a span it is the longest ever.
    pub longest_ns: u64,
    /// The times, ns.
    pub latency: Histogram,
    /// Errors by number, and those beyond the limit.
    codes: Vec<(u16, u64)>,
    other_codes: u64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Measurement {
    pub(crate) time: Duration,
    pub(crate) first_byte: Duration,
    pub(crate) bytes_to_server: u64,
    pub(crate) finish: Finish,
}

impl Figures {
    pub(crate) fn record(&mut self, measurement: &Measurement) {
        let time = nanoseconds(measurement.time);
        self.count += 1;
        self.rows += measurement.finish.rows;
        self.affected = self.affected.saturating_add(measurement.finish.affected);
        self.bytes_to_server += measurement.bytes_to_server;
        self.bytes_to_client += measurement.finish.bytes;
        self.time_ns += time;
        self.first_byte_ns += nanoseconds(measurement.first_byte);
        if measurement.finish.error.is_none_or(|code| GIVEN_UP.contains(&code)) {
            self.timed += 1;
            self.log_sum += log2(time);
            self.timed_ns = self.timed_ns.saturating_add(time);
        }
        self.longest_ns = self.longest_ns.max(time);
        self.latency.record(time);
        if let Some(code) = measurement.finish.error {
            self.errors += 1;
            self.count_code(code, 1);
        }
    }

    pub fn merge(&mut self, other: &Self) {
        self.merge_times(other, 1);
    }

    /// Adds another set `times` over: of sessions that each stand for this many. Times beyond the longest are
    /// not made up.
    pub fn merge_times(&mut self, other: &Self, times: u32) {
        let n = u64::from(times.max(1));
        self.count += other.count * n;
        self.errors += other.errors * n;
        self.rows += other.rows * n;
        self.affected = self.affected.saturating_add(other.affected.saturating_mul(n));
        self.bytes_to_server += other.bytes_to_server * n;
        self.bytes_to_client += other.bytes_to_client * n;
        self.time_ns = self.time_ns.saturating_add(other.time_ns.saturating_mul(n));
        self.first_byte_ns = self.first_byte_ns.saturating_add(other.first_byte_ns.saturating_mul(n));
        self.timed += other.timed * n;
        self.log_sum = self.log_sum.saturating_add(other.log_sum.saturating_mul(n));
        self.timed_ns = self.timed_ns.saturating_add(other.timed_ns.saturating_mul(n));
        self.longest_ns = self.longest_ns.max(other.longest_ns);
        self.latency.merge_times(&other.latency, times.max(1));
        other.codes.iter().for_each(|(code, count)| self.count_code(*code, *count * n));
        self.other_codes += other.other_codes * n;
    }

    /// Takes off an earlier state of the same set. The longest time stays what it was.
    pub fn subtract(&mut self, earlier: &Self) {
        let take = |mine: &mut u64, theirs: u64| *mine = mine.saturating_sub(theirs);
        take(&mut self.count, earlier.count);
        take(&mut self.errors, earlier.errors);
        take(&mut self.rows, earlier.rows);
        take(&mut self.affected, earlier.affected);
        take(&mut self.bytes_to_server, earlier.bytes_to_server);
        take(&mut self.bytes_to_client, earlier.bytes_to_client);
        take(&mut self.time_ns, earlier.time_ns);
        take(&mut self.first_byte_ns, earlier.first_byte_ns);
        take(&mut self.timed, earlier.timed);
        take(&mut self.log_sum, earlier.log_sum);
        take(&mut self.timed_ns, earlier.timed_ns);
        take(&mut self.other_codes, earlier.other_codes);
        self.latency.subtract(&earlier.latency);
        for (code, count) in &earlier.codes {
            if let Some((_, mine)) = self.codes.iter_mut().find(|(known, _)| known == code) {
                take(mine, *count);
            }
        }
        self.codes.retain(|(_, count)| *count > 0);
    }

    /// Errors by number, the most frequent first, and how many had numbers beyond the limit.
    pub fn codes(&self) -> (Vec<(u16, u64)>, u64) {
        let mut codes = self.codes.clone();
        codes.sort_unstable_by_key(|(code, count)| (std::cmp::Reverse(*count), *code));
        (codes, self.other_codes)
    }

    /// Mean time, ns; 0 when nothing was counted.
    pub fn mean_ns(&self) -> u64 {
        self.time_ns / self.count.max(1)
    }

    /// Mean time to the first byte, ns.
    pub fn mean_first_byte_ns(&self) -> u64 {
        self.first_byte_ns / self.count.max(1)
    }

    /// A quantile of the times, ns, never above the longest.
    pub fn quantile_ns(&self, q: f64) -> Option<u64> {
        self.latency.quantile(q).map(|ns| ns.min(self.longest_ns))
    }

    fn count_code(&mut self, code: u16, count: u64) {
        if let Some((_, known)) = self.codes.iter_mut().find(|(known, _)| *known == code) {
            *known += count;
        } else if self.codes.len() < CODES {
            self.codes.push((code, count));
        } else {
            self.other_codes += count;
        }
    }
}

pub(crate) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// The binary logarithm in units of 1/1024, right to 1 %: between powers of two by a parabola.
fn log2(value: u64) -> u64 {
    let value = value.max(1);
    let zeros = value.leading_zeros();
    let beyond = if zeros == 63 { 0 } else { value << (zeros + 1) >> 54 };
    u64::from(63 - zeros) * 1024 + beyond + ((beyond * (1024 - beyond) * 352) >> 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithms_add_up_to_a_mean_that_one_long_wait_hardly_moves() {
        for value in [1u64, 2, 3, 1000, 150_000, 1_500_000, u64::MAX / 3] {
            let exact = (value as f64).log2();
            assert!((log2(value) as f64 / 1024.0 - exact).abs() < 0.01, "{value}");
        }
        let mut figures = Figures::default();
        (0..99).for_each(|_| figures.record(&measurement(100, None)));
        figures.record(&measurement(50_000_000, None));
        let typical = (figures.log_sum as f64 / 1024.0 / 100.0).exp2();
        assert!((100_000.0..125_000.0).contains(&typical), "{typical}");
    }

    #[test]
    fn what_a_server_refused_says_nothing_of_its_speed_and_what_it_gave_up_does() {
        let mut figures = Figures::default();
        figures.record(&measurement(4096, None));
        figures.record(&measurement(1, Some(1146)));
        assert_eq!((figures.count, figures.timed, figures.log_sum), (2, 1, log2(4_096_000)));
        let earlier = figures.clone();
        GIVEN_UP.iter().for_each(|code| figures.record(&measurement(4096, Some(*code))));
        assert_eq!((figures.errors, figures.timed, figures.log_sum), (5, 5, 5 * log2(4_096_000)));
        let mut all = figures.clone();
        all.merge_times(&earlier, 16);
        assert_eq!((all.timed, all.log_sum), (21, 21 * log2(4_096_000)));
        figures.subtract(&earlier);
        assert_eq!((figures.timed, figures.log_sum), (4, 4 * log2(4_096_000)));
        assert_eq!((figures.timed_ns, all.timed_ns), (4 * 4_096_000, 21 * 4_096_000));
    }

    fn measurement(us: u64, error: Option<u16>) -> Measurement {
        let time = Duration::from_micros(us);
        let finish = Finish { error, rows: 2, affected: 1, bytes: 100, ..Finish::default() };
        Measurement { time, first_byte: time / 2, bytes_to_server: 40, finish }
    }

    #[test]
    fn what_is_merged_and_taken_off_again_is_as_before() {
        let (mut one, mut two) = (Figures::default(), Figures::default());
        one.record(&measurement(100, None));
        two.record(&measurement(300, Some(1062)));
        two.record(&measurement(200, Some(1213)));
        let mut both = one.clone();
        both.merge(&two);
        assert_eq!((both.count, both.errors, both.rows, both.bytes_to_client), (3, 2, 6, 300));
        assert_eq!(both.codes(), (vec![(1062, 1), (1213, 1)], 0));
        assert_eq!((both.mean_ns(), both.longest_ns), (200_000, 300_000));
        both.subtract(&two);
        assert_eq!((both.count, both.time_ns, both.codes()), (1, one.time_ns, (vec![], 0)));
        assert_eq!(both.latency.count(), 1);
    }

    #[test]
    fn errors_beyond_the_limit_of_numbers_are_counted_together() {
        let mut figures = Figures::default();
        (0..20).for_each(|code| figures.record(&measurement(1, Some(1000 + code))));
        let (codes, other) = figures.codes();
        assert_eq!((codes.len(), other, figures.errors), (CODES, 12, 20));
    }
}
