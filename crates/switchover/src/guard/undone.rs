//! When a guard begins anew after a failover that was begun and undone.
//!
//! Each one writes a journal, stops and starts the receivers, and runs the command that fences. A command
//! that fails for a reason of its own (no way to the power switch, a typing error) fails each time: so what
//! ends alike is tried ever more rarely. What ends otherwise, or of another primary, is tried soon.

use super::run::{RETRY, RETRY_AT_MOST};
use fleet::ServerName;
use std::time::{Duration, Instant};

/// A failover that was begun and undone.
pub(super) struct LastUndone {
    primary: ServerName,
    why: String,
    at: Instant,
    /// Until the next one begins.
    pause: Duration,
}

impl LastUndone {
    /// That of `primary` was undone just now, after `before`.
    pub(super) fn after(before: Option<Self>, primary: ServerName, why: &str) -> Self {
        let alike = before.filter(|last| last.primary == primary && last.why == why);
        let pause = alike.map_or(RETRY, |last| (last.pause * 2).min(RETRY_AT_MOST));
        Self { primary, why: why.to_owned(), at: Instant::now(), pause }
    }

    /// Whether it is too early for the next one of `primary`.
    pub(super) fn is_waited_for(&self, primary: &ServerName) -> bool {
        self.primary == *primary && self.at.elapsed() < self.pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fails_alike_is_tried_ever_more_rarely_and_anything_else_soon() {
        let (a1, a2) = (ServerName::new("a1"), ServerName::new("a2"));
        let fence = "a1: is not fenced: the command ended with exit status: 1; nothing was promoted";
        let mut last = LastUndone::after(None, a1.clone(), fence);
        assert!(last.is_waited_for(&a1) && !last.is_waited_for(&a2));
        let mut pauses = vec![last.pause.as_secs()];
        for _ in 0..9 {
            last = LastUndone::after(Some(last), a1.clone(), fence);
            pauses.push(last.pause.as_secs());
        }
        assert_eq!(pauses, [2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
        last.at = Instant::now().checked_sub(RETRY_AT_MOST).unwrap();
        assert!(!last.is_waited_for(&a1), "the pause is over");
        let other = LastUndone::after(Some(last), a1, "a2: connecting: refused");
        assert_eq!(other.pause, RETRY);
        assert_eq!(LastUndone::after(Some(other), a2, "a2: connecting: refused").pause, RETRY);
    }
}
