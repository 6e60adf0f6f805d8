//! How often the log hears of exports that fail: the first at once, then once a minute with how many there
//! were, and once when they arrive again. A collector may be away for a day.

use std::time::{Duration, Instant};

const BETWEEN: Duration = Duration::from_secs(60);

/// Of one signal.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// When the last line was written; nothing while all is in order.
    said: Option<Instant>,
    /// What happened since then.
    unsaid: u64,
}

impl Pace {
    /// This many more; how many to tell of now, if any.
    pub(crate) fn add(&mut self, more: u64, now: Instant) -> Option<u64> {
        self.unsaid += more;
        let due = self.said.is_none_or(|said| now.saturating_duration_since(said) >= BETWEEN);
        if self.unsaid == 0 || !due {
            return None;
        }
        self.said = Some(now);
        Some(std::mem::take(&mut self.unsaid))
    }

    /// It works again: whether anything was told before, so that its end is told too.
    pub(crate) fn over(&mut self) -> bool {
        self.unsaid = 0;
        self.said.take().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_is_told_at_once_the_rest_once_a_minute_and_the_end_once() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut pace = Pace::default();
        assert!(!pace.over() && pace.add(0, at(0)).is_none());
        assert_eq!(pace.add(1, at(0)), Some(1));
        assert_eq!(pace.add(1, at(15)), None);
        assert_eq!(pace.add(3, at(59)), None);
        assert_eq!(pace.add(1, at(60)), Some(5));
        assert!(pace.over() && !pace.over());
        assert_eq!(pace.add(1, at(61)), Some(1), "after it worked, the next is a first one");
    }
}
