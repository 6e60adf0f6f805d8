//! What is tried again, and when: what OTLP allows, with pauses that grow and differ, so that routers whose
//! collector comes back do not all come at once.
//!
//! Metrics are made anew for each attempt, so an attempt that failed is never repeated as it was: the newest
//! values take its place, at the next interval at the latest, or when the collector says so.

use crate::error::OtlpError;
use std::time::Duration;

/// The first pause; doubled after each failure.
const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(30);
/// What a collector may ask for; longer is taken for a mistake.
const LONGEST_ASKED: Duration = Duration::from_secs(120);

/// The pause after the failure with this number, counted from 1; nothing where the same message cannot
/// succeed. `random` is from 0 to 1, and a pause is from half to the whole of what it may be.
pub(crate) fn pause(error: &OtlpError, failures: u32, random: f64) -> Option<Duration> {
    match error {
        OtlpError::Busy { after: Some(after), .. } => return Some(asked(*after)),
        OtlpError::Busy { after: None, .. } => {}
        // A certificate that is not right stays so for longer than anybody waits.
        OtlpError::Web(error) if error.blame() != fleet::Blame::Config => {}
        _ => return None,
    }
    let whole = FIRST.saturating_mul(1 << failures.saturating_sub(1).min(10)).min(LONGEST);
    Some(whole.mul_f64(0.5 + random / 2.0))
}

/// The pause that a collector asks for. One of no time would be a loop without any.
fn asked(after: Duration) -> Duration {
    after.clamp(FIRST, LONGEST_ASKED)
}

/// From the beginning of one export of the metrics to that of the next.
pub(crate) fn next_metrics(
    failed: Option<&OtlpError>,
    failures: u32,
    interval: Duration,
    random: f64,
) -> Duration {
    match failed {
        Some(OtlpError::Busy { after: Some(after), .. }) => asked(*after),
        Some(error) => pause(error, failures, random).map_or(interval, |pause| pause.min(interval)),
        None => interval,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use console::web::WebError;

    const INTERVAL: Duration = Duration::from_secs(15);

    fn busy(after: Option<u64>) -> OtlpError {
        OtlpError::Busy { at: String::new(), code: 503, after: after.map(Duration::from_secs) }
    }

    fn refused() -> OtlpError {
        OtlpError::Refused { at: String::new(), code: 400 }
    }

    #[test]
    fn pauses_grow_differ_and_have_a_limit() {
        let seconds = |failures, random| pause(&busy(None), failures, random).unwrap().as_secs_f64();
        assert_eq!([1, 2, 3, 4, 5, 6, 60].map(|n| seconds(n, 1.0)), [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]);
        assert_eq!([1, 2, 3].map(|n| seconds(n, 0.0)), [0.5, 1.0, 2.0]);
    }

    #[test]
    fn a_collector_that_says_when_is_asked_then() {
        assert_eq!(pause(&busy(Some(7)), 5, 0.3), Some(Duration::from_secs(7)));
        assert_eq!(pause(&busy(Some(86_400)), 1, 0.3), Some(LONGEST_ASKED));
        assert_eq!(pause(&busy(Some(0)), 1, 0.3), Some(FIRST), "and not again and again at once");
        assert_eq!(next_metrics(Some(&busy(Some(0))), 1, INTERVAL, 0.3), FIRST);
    }

    #[test]
    fn what_is_refused_is_not_repeated_nor_is_a_wrong_certificate() {
        let (at, why) = (String::new, String::new);
        assert_eq!(pause(&refused(), 1, 1.0), None);
        assert_eq!(pause(&WebError::Tls { at: at(), why: why() }.into(), 1, 1.0), None);
        assert!(pause(&WebError::Unreached { at: at(), why: why() }.into(), 1, 1.0).is_some());
        assert!(pause(&WebError::Late { at: at(), limit: INTERVAL }.into(), 1, 1.0).is_some());
    }

    #[test]
    fn metrics_come_again_at_the_interval_at_the_latest_unless_the_collector_wants_it_later() {
        let next = |error: Option<OtlpError>, failures| next_metrics(error.as_ref(), failures, INTERVAL, 1.0);
        assert_eq!(next(None, 0), INTERVAL);
        assert_eq!(next(Some(refused()), 1), INTERVAL);
        assert_eq!(next(Some(busy(None)), 1), Duration::from_secs(1));
        assert_eq!(next(Some(busy(None)), 9), INTERVAL);
        assert_eq!(next(Some(busy(Some(2))), 1), Duration::from_secs(2));
        assert_eq!(next(Some(busy(Some(60))), 1), Duration::from_secs(60));
    }
}
