//! Whether routers get to know of the switchover in time: one that looks after the hold has begun is not
//! ready, nobody waits for it, and from the freeze on its writers meet error 1290.

use super::{Outcome, Situation, pass, warn};
use fleet::duration_text;

pub(super) fn announced_in_time(s: &Situation<'_>) -> Outcome {
    let (prepare, interval) = (s.limits.prepare, s.limits.interval);
    let text = format!(
        "routers are told {} before the hold, and ask every {} ([fleet] interval)",
        duration_text(prepare),
        duration_text(interval)
    );
    if prepare >= interval * 2 {
        return pass(text);
    }
    warn(
        format!("{text}: one that has not asked by then does not hold"),
        format!(
            "--prepare {} or more; where many routers share a server they ask less often still: see headroom \
             status",
            duration_text(interval * 2)
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::super::{Level, Limits};
    use super::*;
    use crate::facts::tests::facts;
    use std::time::Duration;

    #[test]
    fn routers_are_told_two_of_their_intervals_before_the_hold() {
        let (primary, candidate) = (facts("a1", "8.4.2"), facts("a2", "8.4.2"));
        let found = |prepare: u64, interval: u64| {
            let [prepare, interval] = [prepare, interval].map(Duration::from_millis);
            let situation = Situation {
                primary: &primary,
                candidate: &candidate,
                others: &[],
                limits: Limits { prepare, interval, ..Limits::default() },
                has_replication_login: true,
                login: None,
                exposure: None,
            };
            announced_in_time(&situation)
        };
        let usual = Limits::default();
        assert!(usual.prepare >= usual.interval * 2);
        assert_eq!(found(1_500, 500).0, Level::Pass);
        assert_eq!(found(4_000, 2_000).0, Level::Pass);
        let (level, text, mend) = found(1_500, 2_000);
        assert!(level == Level::Warn && text.starts_with("routers are told 1.5s before the hold"), "{text}");
        assert!(mend.unwrap().starts_with("--prepare 4s or more"));
    }
}
