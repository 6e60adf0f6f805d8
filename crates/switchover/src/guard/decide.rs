//! What a guard does next, and why: a pure function of what it sees.

use super::record::{FailoverRecord, Pause};
use crate::Flags;
use fleet::ServerName;
use serde::Serialize;
use std::time::Duration;

/// The fleet as this guard sees it at a moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Observation {
    /// Who takes writes, or took them last; `None` before one was known.
    pub primary: Option<ServerName>,
    pub health: Health,
    /// Nobody takes writes, as far as can be told, and no operation is under way; `None` else, and while the
    /// primary is not healthy.
    pub no_writer: Option<NoWriter>,
    pub lock: LockCount,
    /// Another guard holds the lock on a server.
    pub rival: bool,
    /// The last error of a server on which the lock could not be taken.
    pub trouble: Option<String>,
    pub pause: Option<Pause>,
    /// The last failover that is recorded anywhere.
    pub last: Option<FailoverRecord>,
}

/// How the primary looks from here.
#[derive(Clone, Debug, PartialEq)]
pub enum Health {
    /// Answers, or nobody knows one.
    Well,
    /// Does not answer: to be confirmed with its replicas.
    Silent { why: String },
    /// Answers while its commits hang, by this evidence.
    Gray { evidence: String },
}

/// That nobody can be named who takes writes.
#[derive(Clone, Debug, PartialEq)]
pub struct NoWriter {
    /// How long that is seen without a gap.
    pub lasts: Duration,
    /// What the servers show instead.
    pub why: String,
}

/// A move of the primary by hand, a restart, or a look that has just begun takes less.
pub const SETTLED: Duration = Duration::from_secs(10);

/// Servers other than the primary on which this guard holds the lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LockCount {
    pub held: usize,
    /// All that are known.
    pub of: usize,
}

impl LockCount {
    /// More than half: two guards cannot both have that.
    pub fn is_active(self) -> bool {
        self.held * 2 > self.of
    }
}

/// How careful it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Caution {
    /// No second failover within this time of the last, unless a person said `resume` since.
    pub not_again_within: Duration,
    /// Whether a primary that answers while its commits hang is replaced.
    pub act_on_gray: bool,
}

/// What it does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Decision {
    /// The primary is healthy.
    Watch,
    /// Another guard is active, or nobody is.
    Standby { why: String },
    /// The primary is not well, and a person has said to do nothing.
    Paused { why: String },
    /// The primary is not well, or nobody takes writes, and a person has to decide.
    Ask { why: String },
    /// Confirm that it is dead, and fail over.
    Act { gray: bool, why: String },
}

impl Decision {
    /// In one word, for metrics.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Watch => "watch",
            Self::Standby { .. } => "standby",
            Self::Paused { .. } => "paused",
            Self::Ask { .. } => "ask",
            Self::Act { .. } => "act",
        }
    }

    pub fn why(&self) -> &str {
        match self {
            Self::Watch => "the primary answers",
            Self::Standby { why } | Self::Paused { why } | Self::Ask { why } | Self::Act { why, .. } => why,
        }
    }
}

/// What to do now; `flags` are those that the guard was started with.
pub fn decide(seen: &Observation, caution: Caution, flags: &Flags) -> Decision {
    if let Some(why) = nobody_takes_writes(seen, flags) {
        return match &seen.pause {
            Some(pause) => Decision::Paused { why: format!("{why}. {pause}") },
            None => Decision::Ask { why },
        };
    }
    let Some(primary) = &seen.primary else {
        return Decision::Standby { why: "no primary is known yet".to_owned() };
    };
    let LockCount { held, of } = seen.lock;
    if !seen.lock.is_active() {
        let mut why =
            format!("holds the lock on {held} of {of} servers; the active guard holds more than half");
        if let Some(trouble) = &seen.trouble {
            why.push_str(&format!(". {trouble}"));
        }
        return Decision::Standby { why };
    }
    let (gray, ill) = match &seen.health {
        Health::Well => return Decision::Watch,
        Health::Silent { why } => (false, format!("{primary} does not answer: {why}")),
        Health::Gray { evidence } => (true, format!("{primary} answers and its commits hang: {evidence}")),
    };
    if let Some(pause) = &seen.pause {
        return Decision::Paused { why: format!("{ill}. {pause}") };
    }
    if gray && !caution.act_on_gray {
        let by_hand = flags.after("headroom failover --gray");
        let why = format!("{ill}. A person decides: {by_hand} (or guard --act-on-gray)");
        return Decision::Ask { why };
    }
    let recent = seen.last.as_ref().filter(|last| !last.looked_at && last.age < caution.not_again_within);
    if let Some(last) = recent {
        let (by_hand, resume) = (flags.after("headroom failover"), flags.after("headroom guard resume"));
        let why = format!(
            "{ill}. The last failover (epoch {}, by {}) was {} s ago, less than {} s: a second one is for a person to \
             decide: {by_hand}; guards may do it after {resume}",
            last.epoch,
            last.by,
            last.age.as_secs(),
            caution.not_again_within.as_secs()
        );
        return Decision::Ask { why };
    }
    Decision::Act { gray, why: ill }
}

/// There is no death to confirm, and nobody takes writes for longer than any move of the primary leaves it
/// so. The active guard asks; where there is none, whoever sees it.
fn nobody_takes_writes(seen: &Observation, flags: &Flags) -> Option<String> {
    let none = seen.no_writer.as_ref().filter(|none| none.lasts >= SETTLED)?;
    if seen.health != Health::Well || (seen.rival && !seen.lock.is_active()) {
        return None;
    }
    let (seconds, why) = (SETTLED.as_secs(), &none.why);
    let nobody = format!("for more than {seconds} s nobody can be named who takes writes: {why}");
    Some(match &seen.primary {
        Some(primary) => format!(
            "{primary} answers, and {nobody}. If it was restarted: switch semi-sync on there as before, then SET GLOBAL \
             read_only = OFF; if a switchover was cut off: {}",
            flags.after("headroom switchover --resume")
        ),
        None => format!(
            "{nobody}. This guard has not seen the primary alive and confirms no death: {}",
            flags.after("headroom failover --check")
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CAUTION: Caution = Caution { not_again_within: Duration::from_secs(3600), act_on_gray: false };

    fn decide(seen: &Observation, caution: Caution) -> Decision {
        super::decide(seen, caution, &Flags::new("--config f.toml"))
    }

    fn silent() -> Observation {
        Observation {
            primary: Some(ServerName::new("a1")),
            health: Health::Silent { why: "refused".to_owned() },
            no_writer: None,
            lock: LockCount { held: 2, of: 2 },
            rival: false,
            trouble: None,
            pause: None,
            last: None,
        }
    }

    fn failover(age_s: u64, looked_at: bool) -> Option<FailoverRecord> {
        Some(FailoverRecord { epoch: 3, by: "guard".to_owned(), age: Duration::from_secs(age_s), looked_at })
    }

    #[test]
    fn the_active_one_acts_on_a_silent_primary_and_nobody_else_does() {
        assert!(matches!(decide(&silent(), CAUTION), Decision::Act { gray: false, .. }));
        let standby = Observation { lock: LockCount { held: 1, of: 2 }, ..silent() };
        assert_eq!(decide(&standby, CAUTION).word(), "standby");
        let trouble = Some("a2: connecting: error 1045: Access denied".to_owned());
        let denied = decide(&Observation { trouble, ..standby }, CAUTION);
        assert!(denied.why().contains("Access denied"), "{denied:?}");
        let nobody = Observation { lock: LockCount::default(), ..silent() };
        assert_eq!(decide(&nobody, CAUTION).word(), "standby");
        let well = Observation { health: Health::Well, ..silent() };
        assert_eq!(decide(&well, CAUTION), Decision::Watch);
    }

    #[test]
    fn a_second_death_is_for_a_person_until_the_time_is_over_or_somebody_has_looked() {
        let again =
            |age, looked_at| decide(&Observation { last: failover(age, looked_at), ..silent() }, CAUTION);
        assert_eq!(again(60, false).word(), "ask");
        assert!(again(60, false).why().contains("headroom failover --config f.toml"));
        assert!(again(60, false).why().ends_with("headroom guard resume --config f.toml"));
        assert_eq!(again(60, true).word(), "act");
        assert_eq!(again(3600, false).word(), "act");
    }

    /// Seen for this long.
    fn no_writer(seconds: u64) -> Option<NoWriter> {
        Some(NoWriter { lasts: Duration::from_secs(seconds), why: "a1 is read-only".to_owned() })
    }

    #[test]
    fn a_primary_that_is_back_and_closed_is_for_a_person_once_that_lasts() {
        let closed =
            |seconds| Observation { health: Health::Well, no_writer: no_writer(seconds), ..silent() };
        assert_eq!(decide(&closed(9), CAUTION), Decision::Watch);
        let asks = decide(&closed(10), CAUTION);
        assert_eq!(asks.word(), "ask");
        assert!(asks.why().contains("a1 is read-only"), "{asks:?}");
        assert!(asks.why().ends_with("headroom switchover --resume --config f.toml"), "{asks:?}");
        let pause = Some(Pause { by: "x".to_owned(), why: String::new(), left: None });
        assert_eq!(decide(&Observation { pause, ..closed(10) }, CAUTION).word(), "paused");
        // A death is confirmed as always.
        let dead = Observation { no_writer: no_writer(60), ..silent() };
        assert_eq!(decide(&dead, CAUTION).word(), "act");
        // Without the lock it asks only where no other guard does.
        let standby = |rival| Observation { lock: LockCount { held: 0, of: 2 }, rival, ..closed(10) };
        assert_eq!(decide(&standby(true), CAUTION).word(), "standby");
        assert_eq!(decide(&standby(false), CAUTION).word(), "ask");
    }

    #[test]
    fn one_that_was_started_after_the_death_asks_for_a_person() {
        let late = |seconds| Observation {
            primary: None,
            health: Health::Well,
            no_writer: no_writer(seconds),
            lock: LockCount { held: 1, of: 2 },
            ..silent()
        };
        assert_eq!(decide(&late(9), CAUTION).word(), "standby");
        let asks = decide(&late(10), CAUTION);
        assert_eq!(asks.word(), "ask");
        assert!(asks.why().ends_with("headroom failover --check --config f.toml"), "{asks:?}");
        let known = Observation { no_writer: None, ..late(10) };
        assert_eq!(decide(&known, CAUTION).word(), "standby");
    }

    #[test]
    fn a_gray_primary_is_left_to_a_person_unless_it_was_said_otherwise() {
        let gray = Observation { health: Health::Gray { evidence: "3 commits".to_owned() }, ..silent() };
        let asks = decide(&gray, CAUTION);
        assert!(asks.word() == "ask" && asks.why().contains("failover --gray --config f.toml"), "{asks:?}");
        let told = Caution { act_on_gray: true, ..CAUTION };
        assert!(matches!(decide(&gray, told), Decision::Act { gray: true, .. }));
    }

    proptest! {
        #[test]
        fn two_guards_are_never_active_at_once(of in 1usize..20, one in 0usize..20, other in 0usize..20) {
            // No server gives its lock to both.
            let one = one % (of + 1);
            let other = other % (of - one + 1);
            let count = |held| LockCount { held, of };
            prop_assert!(!(count(one).is_active() && count(other).is_active()));
        }

        #[test]
        fn it_never_acts_while_paused_or_without_the_lock(
            held in 0usize..4, paused: bool, age in proptest::option::of(0u64..7200), gray: bool, told: bool,
        ) {
            let seen = Observation {
                lock: LockCount { held, of: 3 },
                pause: paused.then(|| Pause { by: "x".to_owned(), why: String::new(), left: None }),
                last: age.and_then(|age| failover(age, false)),
                health: if gray { Health::Gray { evidence: String::new() } } else { silent().health },
                ..silent()
            };
            let caution = Caution { act_on_gray: told, ..CAUTION };
            if matches!(decide(&seen, caution), Decision::Act { .. }) {
                prop_assert!(held >= 2 && !paused && age.is_none_or(|age| age >= 3600) && (!gray || told));
            }
        }
    }
}
