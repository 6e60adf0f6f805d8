//! The last readings of a host and of a server, and the window that they make: bounded, with gaps noticed.
//!
//! A gap (we were stopped, the server was frozen or restarted, a reading failed) ends the window: what
//! happened across it is nobody's rate. The clock of the readings neither jumps nor stops with the calendar.

use crate::verdict::Window;
use crate::{host, server};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Two readings further apart than this many windows have a gap between them. A server that is only slow (a
/// deadline of 5 s and a pause of 3 s at most, in a window of 10 s) makes none.
const GAP: f64 = 0.9;
/// A gap of a short window is this long at least: the pause after a reading that the server was slow to
/// answer takes up to 3 s.
const LEAST_GAP: Duration = Duration::from_millis(4500);
/// Readings kept at most, however fast they come.
const MOST: usize = 64;

#[derive(Debug)]
pub struct Recent {
    span: Duration,
    host: VecDeque<Arc<host::Reading>>,
    server: VecDeque<Arc<server::Reading>>,
}

impl Recent {
    /// Windows of `span`.
    pub fn new(span: Duration) -> Self {
        Self { span, host: VecDeque::new(), server: VecDeque::new() }
    }

    /// Adds a reading of the host. True when there was a gap before it.
    pub fn add_host(&mut self, reading: Arc<host::Reading>) -> bool {
        let gap = push(&mut self.host, reading, self.span, |r| r.at);
        gap == Some(true)
    }

    /// Adds a reading of the server. True when there was a gap before it.
    pub fn add_server(&mut self, reading: Arc<server::Reading>) -> bool {
        let gap = push(&mut self.server, reading, self.span, |r| r.at);
        gap == Some(true)
    }

    /// The server could not be read: what it did before is no longer now.
    pub fn lose_server(&mut self) {
        self.server.clear();
    }

    /// When the host was last read, and what happened since the reading before.
    pub fn latest_host(&self) -> Option<(Instant, host::Sample)> {
        let (last, before) = (self.host.back()?, self.host.iter().nth_back(1)?);
        Some((last.at, last.since(before)?))
    }

    /// What the server last said.
    pub fn last_server(&self) -> Option<&server::Reading> {
        self.server.back().map(AsRef::as_ref)
    }

    /// When the server was last read.
    pub fn server_read_at(&self) -> Option<Instant> {
        self.server.back().map(|last| last.at)
    }

    /// What the server did between the last two readings. What it tells more seldom (durations) is rarely in
    /// it.
    pub fn latest_server(&self) -> Option<server::Sample> {
        let (last, before) = (self.server.back()?, self.server.iter().nth_back(1)?);
        server::Sample::over(&[before.clone(), last.clone()])
    }

    /// The window that ends now. What was last read longer ago than a gap is left out.
    pub fn window(&self, now: Instant) -> Window {
        let fresh = |at: Instant| now.saturating_duration_since(at) <= longest(self.span);
        let host = match (self.host.front(), self.host.back()) {
            (Some(first), Some(last)) if fresh(last.at) => last.since(first),
            _ => None,
        };
        let server = match self.server.back() {
            Some(last) if fresh(last.at) => {
                let all: Vec<_> = self.server.iter().cloned().collect();
                server::Sample::over(&all)
            }
            _ => None,
        };
        Window { host, server, ..Window::default() }
    }
}

/// The longest time between two readings without a gap.
fn longest(span: Duration) -> Duration {
    span.mul_f64(GAP).max(LEAST_GAP)
}

/// `Some(true)` after a gap, `None` for the first.
fn push<T>(
    readings: &mut VecDeque<Arc<T>>,
    reading: Arc<T>,
    span: Duration,
    at: impl Fn(&T) -> Instant,
) -> Option<bool> {
    let now = at(&reading);
    let gap = readings.back().map(|last| now.saturating_duration_since(at(last)) > longest(span));
    if gap == Some(true) {
        readings.clear();
    }
    readings.push_back(reading);
    while readings.len() > MOST
        || readings.front().is_some_and(|first| now.saturating_duration_since(at(first)) > span)
            && readings.len() > 2
    {
        readings.pop_front();
    }
    gap
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::{Roots, Sampler};

    #[test]
    fn the_window_is_bounded_in_time_and_number_and_a_gap_ends_it() {
        let reading = Sampler::new(Roots::default()).read();
        let start = reading.at;
        let at =
            |ms: u64| Arc::new(host::Reading { at: start + Duration::from_millis(ms), ..reading.clone() });
        let mut recent = Recent::new(Duration::from_secs(10));
        assert!(recent.window(start).host.is_none(), "nothing was read");
        for second in 0..30 {
            assert!(!recent.add_host(at(second * 1000)));
        }
        let (read_at, latest) = recent.latest_host().unwrap();
        assert_eq!(read_at, start + Duration::from_secs(29));
        assert!((latest.seconds - 1.0).abs() < 1e-9);
        let window = recent.window(start + Duration::from_secs(29));
        assert!((window.host.unwrap().seconds - 10.0).abs() < 1e-9);
        assert!(recent.window(start + Duration::from_secs(40)).host.is_none(), "stale");
        assert!(recent.add_host(at(60_000)), "a gap");
        assert!(recent.window(start + Duration::from_secs(60)).host.is_none(), "one reading is no window");
        for fast in 0..500 {
            recent.add_host(at(60_001 + fast));
        }
        assert!(recent.host.len() <= MOST);
    }

    #[test]
    fn a_short_window_has_no_gap_where_readings_are_as_far_apart_as_a_slow_server_makes_them() {
        let reading = Sampler::new(Roots::default()).read();
        let start = reading.at;
        let at = |ms: u64| host::Reading { at: start + Duration::from_millis(ms), ..reading.clone() };
        let mut recent = Recent::new(Duration::from_secs(2));
        for ms in [0, 3100, 6200] {
            assert!(!recent.add_host(Arc::new(at(ms))), "{ms}");
        }
        let window = recent.window(start + Duration::from_millis(6300));
        assert!((window.host.unwrap().seconds - 3.1).abs() < 1e-9, "the last two");
        assert!(recent.add_host(Arc::new(at(11_000))), "a gap");
    }
}
