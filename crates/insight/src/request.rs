//! Request: how many queries one request of the application sends, how long they take together (the N+1
//! finder), and how long the request thinks between them.
//!
//! Statements of one request carry the same id (a trace id, say) and may go over several sessions on several
//! threads. Each thread keeps for each request it sees how many of its commands were answered and their time
//! ([`Open`]), and hands that over every second. [`Requests`] adds the threads' parts up; a request about
//! which nothing was heard for a while is over and counts for its endpoint. A trace that passes several
//! endpoints is one request of each.
//!
//! The time of a request is the sum of its commands' times. Commands that ran side by side count each, so it
//! may be more than the request took. A request that pauses for longer than the limit counts as two.
//!
//! Its *span* runs from the first byte of its first command to the last byte of its last answer. Of that it
//! was *thinking* for at least `span - time`: exactly so where no two commands ran side by side. What the
//! request does before its first command and after its last one cannot be seen. Worked example: queries of 4,
//! 3 and 2 ms with 50 ms and 61 ms between them: a span of 120 ms: 9 ms are the database's and 111
//! ms thinking.
//!
//! Both books are bounded. Requests for which there is no room are counted, and told.

use crate::figures::nanoseconds;
use crate::histogram::Histogram;
use sql::fold::Map;
use std::time::{Duration, Instant};

/// Counts are recorded in a histogram made for nanoseconds from 1024 on: shifted by this, small ones are
/// exact.
const SHIFT: u32 = 10;

/// Which request, at which endpoint.
type Key = (u64, u32);

/// What is known of a request so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    commands: u32,
    time_ns: u64,
    /// The first byte of the first command.
    begun: Instant,
    /// The last byte of the last answer.
    ended: Instant,
}

/// A thread's book of requests, until handed over.
#[derive(Debug)]
pub(crate) struct Open {
    parts: Map<Key, Part>,
    limit: usize,
    /// Commands of requests that there was no room for.
    pub(crate) untold: u64,
}

/// A thread's part, handed over.
pub(crate) type Parts = Map<Key, Part>;

impl Open {
    pub(crate) fn new(limit: usize) -> Self {
        Self { parts: Map::default(), limit, untold: 0 }
    }

    /// A command of a request that began at `begun` was answered after `time`.
    pub(crate) fn add(&mut self, id: u64, endpoint: u32, begun: Instant, time: Duration) {
        let one = Part { commands: 1, time_ns: nanoseconds(time), begun, ended: begun + time };
        if let Some(part) = self.parts.get_mut(&(id, endpoint)) {
            part.add(&one);
        } else if self.parts.len() < self.limit {
            self.parts.insert((id, endpoint), one);
        } else {
            self.untold += 1;
        }
    }

    /// Hands everything over.
    pub(crate) fn take(&mut self) -> Parts {
        std::mem::take(&mut self.parts)
    }
}

impl Part {
    fn add(&mut self, other: &Self) {
        self.commands = self.commands.saturating_add(other.commands);
        self.time_ns = self.time_ns.saturating_add(other.time_ns);
        self.begun = self.begun.min(other.begun);
        self.ended = self.ended.max(other.ended);
    }
}

/// Requests of all threads: those under way, and what became of those that are over.
#[derive(Debug)]
pub(crate) struct Requests {
    open: Parts,
    limit: usize,
    quiet: Duration,
    over: Map<u32, RequestFigures>,
    /// Requests that there was no room for.
    pub(crate) untold: u64,
}

/// Finished requests of one endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestFigures {
    pub count: u64,
    pub commands: u64,
    /// Their commands' time, ns.
    pub time_ns: u64,
    /// From the first byte of the first command to the last byte of the last answer, summed, ns.
    pub span_ns: u64,
    /// Of that, what surely passed without a command under way, summed, ns.
    pub thinking_ns: u64,
    /// Most commands of one request, ever.
    pub most_commands: u64,
    commands_each: Histogram,
    time_each: Histogram,
    span_each: Histogram,
}

impl Requests {
    /// Holds at most `limit` requests under way; one is over after `quiet`.
    pub(crate) fn new(limit: usize, quiet: Duration) -> Self {
        Self { open: Map::default(), limit, quiet, over: Map::default(), untold: 0 }
    }

    /// What was counted for endpoints that have given up their places counts for what `number` says now.
    pub(crate) fn renumber(&mut self, number: impl Fn(u32) -> u32) {
        for (endpoint, figures) in std::mem::take(&mut self.over) {
            self.over.entry(number(endpoint)).or_default().merge(&figures);
        }
        for ((id, endpoint), part) in std::mem::take(&mut self.open) {
            let key = (id, number(endpoint));
            self.open.entry(key).and_modify(|known| known.add(&part)).or_insert(part);
        }
    }

    /// Adds a thread's parts, with the number that an endpoint has now.
    pub(crate) fn absorb(&mut self, parts: Parts, number: impl Fn(u32) -> u32) {
        for ((id, endpoint), part) in parts {
            let key = (id, number(endpoint));
            if let Some(known) = self.open.get_mut(&key) {
                known.add(&part);
            } else if self.open.len() < self.limit {
                self.open.insert(key, part);
            } else {
                self.untold += 1;
            }
        }
    }

    /// Counts the requests about which nothing was heard for long enough.
    pub(crate) fn close(&mut self, now: Instant) {
        let (quiet, over) = (self.quiet, &mut self.over);
        self.open.retain(|(_, endpoint), part| {
            let under_way = now.saturating_duration_since(part.ended) < quiet;
            if !under_way {
                over.entry(*endpoint).or_default().record(part);
            }
            under_way
        });
    }

    /// What is over, by endpoint.
    pub(crate) fn over(&self) -> &Map<u32, RequestFigures> {
        &self.over
    }
}

impl RequestFigures {
    fn record(&mut self, part: &Part) {
        let commands = u64::from(part.commands);
        let span_ns = nanoseconds(part.ended.saturating_duration_since(part.begun));
        self.count += 1;
        self.commands += commands;
        self.time_ns += part.time_ns;
        self.span_ns += span_ns;
        self.thinking_ns += span_ns.saturating_sub(part.time_ns);
        self.most_commands = self.most_commands.max(commands);
        self.commands_each.record(commands << SHIFT);
        self.time_each.record(part.time_ns);
        self.span_each.record(span_ns);
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.commands += other.commands;
        self.time_ns += other.time_ns;
        self.span_ns += other.span_ns;
        self.thinking_ns += other.thinking_ns;
        self.most_commands = self.most_commands.max(other.most_commands);
        self.commands_each.merge(&other.commands_each);
        self.time_each.merge(&other.time_each);
        self.span_each.merge(&other.span_each);
    }

    /// Takes off an earlier state of the same figures.
    pub(crate) fn subtract(&mut self, earlier: &Self) {
        self.count = self.count.saturating_sub(earlier.count);
        self.commands = self.commands.saturating_sub(earlier.commands);
        self.time_ns = self.time_ns.saturating_sub(earlier.time_ns);
        self.span_ns = self.span_ns.saturating_sub(earlier.span_ns);
        self.thinking_ns = self.thinking_ns.saturating_sub(earlier.thinking_ns);
        self.commands_each.subtract(&earlier.commands_each);
        self.time_each.subtract(&earlier.time_each);
        self.span_each.subtract(&earlier.span_each);
    }

    /// The number of commands that a share `q` of requests does not exceed: exact up to 32, else at most 6 %
    /// too large.
    pub fn commands_quantile(&self, q: f64) -> Option<u64> {
        self.commands_each.quantile_at_most(q).map(|shifted| (shifted >> SHIFT).min(self.most_commands))
    }

    /// The database time, ns, that a share `q` of requests does not exceed.
    pub fn time_quantile_ns(&self, q: f64) -> Option<u64> {
        self.time_each.quantile(q)
    }

    /// The span, ns, that a share `q` of requests does not exceed.
    pub fn span_quantile_ns(&self, q: f64) -> Option<u64> {
        self.span_each.quantile(q)
    }

    pub fn spans(&self) -> &Histogram {
        &self.span_each
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const QUIET: Duration = Duration::from_secs(10);
    const MS: Duration = Duration::from_millis(1);

    fn same(endpoint: u32) -> u32 {
        endpoint
    }

    #[test]
    fn a_request_over_two_threads_is_one_and_counts_when_it_has_been_quiet() {
        let now = Instant::now();
        let (mut one, mut two) = (Open::new(10), Open::new(10));
        (0..20).for_each(|_| one.add(7, 1, now, MS));
        (0..3).for_each(|_| two.add(7, 1, now, MS));
        two.add(8, 1, now, 5 * MS);
        let mut requests = Requests::new(10, QUIET);
        requests.absorb(one.take(), same);
        requests.absorb(two.take(), same);
        requests.close(now + QUIET / 2);
        assert_eq!((requests.open.len(), requests.over().len()), (2, 0));
        requests.close(now + QUIET + 5 * MS);
        let over = &requests.over()[&1];
        assert_eq!((over.count, over.commands, over.most_commands), (2, 24, 23));
        assert_eq!((over.commands_quantile(0.5), over.commands_quantile(0.99)), (Some(1), Some(23)));
    }

    #[test]
    fn the_worked_example_has_nine_milliseconds_of_the_database_in_a_span_of_120() {
        let start = Instant::now();
        let mut open = Open::new(1);
        for (at, takes) in [(0, 4), (54, 3), (118, 2)] {
            open.add(7, 1, start + at * MS, takes * MS);
        }
        let mut requests = Requests::new(1, QUIET);
        requests.absorb(open.take(), same);
        requests.close(start + QUIET * 2);
        let over = &requests.over()[&1];
        assert_eq!((over.span_ns, over.time_ns, over.thinking_ns), (120_000_000, 9_000_000, 111_000_000));
        assert!(over.span_quantile_ns(0.99).unwrap().abs_diff(120_000_000) < 4_000_000);
        assert_eq!(over.spans().count(), 1);
    }

    #[test]
    fn a_flood_of_ids_is_counted_and_not_kept() {
        let now = Instant::now();
        let mut open = Open::new(4);
        (0..100).for_each(|id| open.add(id, 1, now, MS));
        assert_eq!((open.parts.len(), open.untold), (4, 96));
        let mut requests = Requests::new(3, QUIET);
        requests.absorb(open.take(), same);
        assert_eq!((requests.open.len(), requests.untold), (3, 1));
    }

    proptest! {
        /// Which thread saw a command, and which was handed over first, changes nothing; thinking is never
        /// more than there was.
        #[test]
        fn a_span_is_the_same_however_its_commands_are_spread(
            commands in prop::collection::vec((0u64..5000, 0u32..2000, 0usize..4), 1..40),
        ) {
            let start = Instant::now();
            let (mut apart, mut together) = ([(); 4].map(|()| Open::new(10)), Open::new(10));
            for (at_ms, takes_ms, thread) in &commands {
                let (at, takes) = (start + Duration::from_millis(*at_ms), *takes_ms * MS);
                apart[*thread].add(7, 1, at, takes);
                together.add(7, 1, at, takes);
            }
            let over = |parts: Vec<Parts>| {
                let mut requests = Requests::new(10, QUIET);
                parts.into_iter().for_each(|parts| requests.absorb(parts, same));
                requests.close(start + QUIET * 2);
                requests.over()[&1].clone()
            };
            let figures = over(apart.iter_mut().rev().map(Open::take).collect());
            prop_assert_eq!(&figures, &over(vec![together.take()]));
            // Millisecond by millisecond: when no command was under way.
            let begun = commands.iter().map(|c| c.0).min().unwrap_or(0);
            let ended = commands.iter().map(|c| c.0 + u64::from(c.1)).max().unwrap_or(0);
            let idle = (begun..ended).filter(|ms| !commands.iter().any(|c| (c.0..c.0 + u64::from(c.1)).contains(ms)));
            prop_assert_eq!(figures.span_ns, (ended - begun) * 1_000_000);
            prop_assert!(figures.thinking_ns <= idle.count() as u64 * 1_000_000);
            prop_assert!(figures.thinking_ns >= figures.span_ns.saturating_sub(figures.time_ns));
        }
    }
}
