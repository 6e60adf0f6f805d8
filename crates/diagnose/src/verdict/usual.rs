//! What is usual: the median of what the windows of the last quarter of an hour showed.
//!
//! A median, so that a disturbance shorter than half of that time does not become usual while it lasts; one
//! that stays longer is how things are now, and is no news. Nothing is called usual before [`ENOUGH`] windows
//! were seen.

use super::Application;
use std::collections::VecDeque;

/// Windows kept of an application: a quarter of an hour at one a second.
const MOST: usize = 900;
/// Windows before anything is usual.
const ENOUGH: usize = 10;

/// The windows that were seen, a fixed number of them at most.
#[derive(Clone, Debug)]
pub(super) struct RecentWindows<T> {
    seen: VecDeque<T>,
    most: usize,
}

/// What an application's requests and statements took in one window, by its own or the router's timing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Timing {
    /// 99 of 100 requests took at most this long, milliseconds.
    pub request_p99_ms: f64,
    /// 99 of 100 statements.
    pub statement_p99_ms: f64,
}

/// What is usual for an application.
#[derive(Clone, Debug)]
pub struct TimingBaseline(RecentWindows<Timing>);

impl<T> RecentWindows<T> {
    pub(super) fn new(most: usize) -> Self {
        Self { seen: VecDeque::new(), most }
    }

    pub(super) fn push(&mut self, window: T) {
        self.seen.push_back(window);
        if self.seen.len() > self.most {
            self.seen.pop_front();
        }
    }

    /// Whether anything is usual yet.
    pub(super) fn is_known(&self) -> bool {
        self.seen.len() >= ENOUGH
    }

    pub(super) fn median(&self, of: impl Fn(&T) -> f64) -> f64 {
        let mut values: Vec<f64> = self.seen.iter().map(of).collect();
        if values.is_empty() {
            return 0.0;
        }
        let middle = values.len() / 2;
        *values.select_nth_unstable_by(middle, f64::total_cmp).1
    }
}

impl Default for TimingBaseline {
    fn default() -> Self {
        Self(RecentWindows::new(MOST))
    }
}

impl TimingBaseline {
    /// One more window; how it compares with what is usual, once that is known.
    pub fn next(&mut self, timing: Timing) -> Option<Application> {
        let usual = self.0.is_known().then(|| Application {
            request_p99_ms: timing.request_p99_ms,
            usual_request_p99_ms: self.0.median(|t| t.request_p99_ms),
            statement_p99_ms: timing.statement_p99_ms,
            usual_statement_p99_ms: self.0.median(|t| t.statement_p99_ms),
        });
        self.0.push(timing);
        usual
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timing(request_p99_ms: f64) -> Timing {
        Timing { request_p99_ms, statement_p99_ms: 1.0 }
    }

    #[test]
    fn nothing_is_usual_at_first_and_a_short_disturbance_does_not_become_it() {
        let mut usual = TimingBaseline::default();
        for _ in 0..ENOUGH {
            assert_eq!(usual.next(timing(20.0)), None);
        }
        for _ in 0..ENOUGH - 1 {
            let application = usual.next(timing(200.0)).unwrap();
            assert_eq!((application.request_p99_ms, application.usual_request_p99_ms), (200.0, 20.0));
        }
        for _ in 0..5 * MOST {
            usual.next(timing(200.0));
        }
        assert_eq!(usual.0.seen.len(), MOST);
        assert_eq!(usual.next(timing(200.0)).unwrap().usual_request_p99_ms, 200.0, "it stayed");
    }
}
