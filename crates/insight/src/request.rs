//! Request: how many queries one request of the application sends, and how long they take together: the N+1 finder.
//!
//! Statements of one request carry the same id (a trace id, say) and may go over several sessions on several threads. Each
//! thread keeps for each request it sees how many of its commands were answered and their time ([`Open`]), and hands that
//! over every second. [`Requests`] adds the threads' parts up; a request of which nothing was heard for a while is over and
//! counts for its endpoint. A trace that passes several endpoints is one request of each.
//!
//! The time of a request is the sum of its commands' times. Commands that ran side by side count each, so it may be more than
//! the request took. A request that pauses for longer than the limit counts as two.
//!
//! Both books are bounded. Requests for which there is no room are counted, and told.

use crate::fold::Map;
use crate::histogram::Histogram;
use std::time::{Duration, Instant};

/// Counts are recorded in a histogram made for nanoseconds from 1024 on: shifted by this, small ones are exact.
const SHIFT: u32 = 10;

/// Which request, at which endpoint.
type Key = (u64, u32);

/// What is known of a request so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    commands: u32,
    time_ns: u64,
    last: Instant,
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

    /// A command of a request was answered.
    pub(crate) fn add(&mut self, id: u64, endpoint: u32, time_ns: u64, now: Instant) {
        if let Some(part) = self.parts.get_mut(&(id, endpoint)) {
            part.commands = part.commands.saturating_add(1);
            part.time_ns += time_ns;
            part.last = now;
        } else if self.parts.len() < self.limit {
            self.parts.insert((id, endpoint), Part { commands: 1, time_ns, last: now });
        } else {
            self.untold += 1;
        }
    }

    /// Hands everything over.
    pub(crate) fn take(&mut self) -> Parts {
        std::mem::take(&mut self.parts)
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
    /// Requests that are over.
    pub count: u64,
    /// Their commands.
    pub commands: u64,
    /// Their commands' time, ns.
    pub time_ns: u64,
    /// Most commands of one request, ever.
    pub most_commands: u64,
    commands_each: Histogram,
    time_each: Histogram,
}

impl Requests {
    /// Holds at most `limit` requests under way; one is over after `quiet`.
    pub(crate) fn new(limit: usize, quiet: Duration) -> Self {
        Self { open: Map::default(), limit, quiet, over: Map::default(), untold: 0 }
    }

    /// Adds a thread's parts.
    pub(crate) fn absorb(&mut self, parts: Parts) {
        for (key, part) in parts {
            if let Some(known) = self.open.get_mut(&key) {
                known.commands = known.commands.saturating_add(part.commands);
                known.time_ns += part.time_ns;
                known.last = known.last.max(part.last);
            } else if self.open.len() < self.limit {
                self.open.insert(key, part);
            } else {
                self.untold += 1;
            }
        }
    }

    /// Counts the requests of which nothing was heard for long enough.
    pub(crate) fn close(&mut self, now: Instant) {
        let (quiet, over) = (self.quiet, &mut self.over);
        self.open.retain(|(_, endpoint), part| {
            let under_way = now.saturating_duration_since(part.last) < quiet;
            if !under_way {
                over.entry(*endpoint).or_default().record(part);
            }
            under_way
        });
    }

    /// Requests under way now.
    pub(crate) fn under_way(&self) -> usize {
        self.open.len()
    }

    /// What is over, by endpoint.
    pub(crate) fn over(&self) -> &Map<u32, RequestFigures> {
        &self.over
    }
}

impl RequestFigures {
    fn record(&mut self, part: &Part) {
        let commands = u64::from(part.commands);
        self.count += 1;
        self.commands += commands;
        self.time_ns += part.time_ns;
        self.most_commands = self.most_commands.max(commands);
        self.commands_each.record(commands << SHIFT);
        self.time_each.record(part.time_ns);
    }

    /// Takes off an earlier state of the same figures.
    pub(crate) fn subtract(&mut self, earlier: &Self) {
        self.count = self.count.saturating_sub(earlier.count);
        self.commands = self.commands.saturating_sub(earlier.commands);
        self.time_ns = self.time_ns.saturating_sub(earlier.time_ns);
        self.commands_each.subtract(&earlier.commands_each);
        self.time_each.subtract(&earlier.time_each);
    }

    /// The number of commands that a share `q` of requests does not exceed: exact up to 32, else at most 6 % too large.
    pub fn commands_quantile(&self, q: f64) -> Option<u64> {
        self.commands_each.quantile_at_most(q).map(|shifted| (shifted >> SHIFT).min(self.most_commands))
    }

    /// The database time, ns, that a share `q` of requests does not exceed.
    pub fn time_quantile_ns(&self, q: f64) -> Option<u64> {
        self.time_each.quantile(q)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUIET: Duration = Duration::from_secs(10);

    #[test]
    fn a_request_over_two_threads_is_one_and_counts_when_it_has_been_quiet() {
        let now = Instant::now();
        let (mut one, mut two) = (Open::new(10), Open::new(10));
        (0..20).for_each(|_| one.add(7, 1, 1_000_000, now));
        (0..3).for_each(|_| two.add(7, 1, 1_000_000, now));
        two.add(8, 1, 5_000_000, now);
        let mut requests = Requests::new(10, QUIET);
        requests.absorb(one.take());
        requests.absorb(two.take());
        requests.close(now + QUIET / 2);
        assert_eq!((requests.under_way(), requests.over().len()), (2, 0));
        requests.close(now + QUIET);
        let over = &requests.over()[&1];
        assert_eq!((over.count, over.commands, over.most_commands), (2, 24, 23));
        assert_eq!((over.commands_quantile(0.5), over.commands_quantile(0.99)), (Some(1), Some(23)));
    }

    #[test]
    fn a_flood_of_ids_is_counted_and_not_kept() {
        let now = Instant::now();
        let mut open = Open::new(4);
        (0..100).for_each(|id| open.add(id, 1, 1, now));
        assert_eq!((open.parts.len(), open.untold), (4, 96));
        let mut requests = Requests::new(3, QUIET);
        requests.absorb(open.take());
        assert_eq!((requests.under_way(), requests.untold), (3, 1));
    }
}
