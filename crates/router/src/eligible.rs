//! Eligible: whether a server may be picked for reads or writes now, and if not, why, in words.
//!
//! How much it counts for then, [`crate::capacity`] says.

use crate::capacity::Capacity;
use crate::heat::Heat;
use crate::suspect::Suspect;
use config::RouterConfig;
use fleet::{Announcement, Lag, Newcomer, Replication, Role, Server, State, Thread, WriterStatus};
use std::fmt;
use std::time::{Duration, Instant};

/// Whether a server may be picked.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// It may.
    Eligible {
        /// Its weight by speed and warmth, above 0.
        capacity: f64,
    },
    /// It may not.
    Ineligible(Reason),
}

/// Why a server is not eligible. `Display` is what status page, log and refused clients show.
#[derive(Clone, Debug, PartialEq)]
pub enum Reason {
    /// Kept out by the operator.
    Reserved {
        /// The rule that says so.
        rule: String,
    },
    /// Being emptied by command.
    Draining,
    /// Gives no answer.
    Silent {
        /// What was waited for.
        why: String,
    },
    /// Refuses, closes or answers with an error.
    Failing {
        /// The error.
        why: String,
    },
    /// Was never asked.
    Unasked,
    /// Was discovered and has not answered often enough yet.
    Newcomer(Newcomer),
    /// Just failed one of our own sessions; waits for a newer answer.
    Suspected {
        /// What happened to that session.
        why: String,
    },
    /// Writable beside the primary, or a former primary.
    Stray {
        /// Why it counts as one.
        because: String,
    },
    /// Its role is not known.
    RoleUnknown {
        /// Why not.
        because: String,
    },
    /// Takes writes; reads go there only when nothing else is left.
    IsPrimary,
    /// Does not take writes.
    NotPrimary {
        /// What it is instead.
        role: Role,
    },
    /// A switchover away from it is under way: writes wait.
    WritesHeld,
    /// Nobody takes writes, as far as we know.
    NoPrimary {
        /// Why not.
        why: String,
    },
    /// Its applier does not run.
    Stopped {
        /// The server's last error, or that it was stopped by command.
        why: String,
    },
    /// Further behind than allowed.
    Behind {
        /// How far.
        lag: Lag,
        /// What is allowed.
        limit: Duration,
    },
    /// How far behind it is cannot be told.
    LagUnknown,
}

impl Verdict {
    /// The capacity; 0 when it may not be picked.
    pub fn capacity(&self) -> f64 {
        match self {
            Self::Eligible { capacity } => *capacity,
            Self::Ineligible(_) => 0.0,
        }
    }

    /// Whether it may be picked.
    pub fn is_eligible(&self) -> bool {
        matches!(self, Self::Eligible { .. })
    }

    /// Why not, if so.
    pub fn reason(&self) -> Option<&Reason> {
        match self {
            Self::Eligible { .. } => None,
            Self::Ineligible(reason) => Some(reason),
        }
    }
}

impl Reason {
    /// Its stable name: metric label and JSON.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Reserved { .. } => "reserved",
            Self::Draining => "draining",
            Self::Silent { .. } => "silent",
            Self::Failing { .. } => "failing",
            Self::Unasked => "unasked",
            Self::Newcomer(_) => "newcomer",
            Self::Suspected { .. } => "suspected",
            Self::Stray { .. } => "stray",
            Self::RoleUnknown { .. } => "role_unknown",
            Self::IsPrimary => "is_primary",
            Self::NotPrimary { .. } => "not_primary",
            Self::WritesHeld => "writes_held",
            Self::NoPrimary { .. } => "no_primary",
            Self::Stopped { .. } => "replication_stopped",
            Self::Behind { .. } => "behind",
            Self::LagUnknown => "lag_unknown",
        }
    }
}

/// What our own side knows of a server beside the snapshot.
#[derive(Clone, Copy, Debug)]
pub struct Own<'a> {
    /// How fast it is beside the others.
    pub speed: f64,
    /// How warm it is.
    pub heat: Heat,
    /// It is being emptied by command.
    pub draining: bool,
    /// It failed one of our sessions since it last answered.
    pub suspect: Option<&'a Suspect>,
}

impl Default for Own<'_> {
    fn default() -> Self {
        Self { speed: 1.0, heat: Heat::default(), draining: false, suspect: None }
    }
}

/// What `server` counts for when it is eligible for reads.
pub fn capacity(server: &Server, own: Own<'_>, config: &RouterConfig, now: Instant) -> Capacity {
    let warmth = own.heat.warmth(server.back_since, config, now);
    Capacity { weight: server.weight.value(), speed: own.speed, warmth }
}

/// May `server` serve reads?
pub fn for_reads(server: &Server, own: Own<'_>, config: &RouterConfig, now: Instant) -> Verdict {
    let reason = match server.role {
        _ if server.reserved.is_some() => unfit(server, own),
        Role::Primary => Some(Reason::IsPrimary),
        Role::Stray => Some(Reason::Stray { because: server.because.clone() }),
        _ => unfit(server, own).or_else(|| unfit_replica(server, server.lag, config.max_lag)),
    };
    match reason {
        Some(reason) => Verdict::Ineligible(reason),
        None => Verdict::Eligible { capacity: capacity(server, own, config, now).value() },
    }
}

/// May `server` serve writes (and, as the last resort, reads), given who the fleet says takes them?
pub fn for_writes(server: &Server, own: Own<'_>, writer: &WriterStatus) -> Verdict {
    let reason = match writer {
        WriterStatus::Unknown { why } => Some(Reason::NoPrimary { why: why.clone() }),
        WriterStatus::Known { server: primary } if *primary != server.name => {
            Some(Reason::NotPrimary { role: server.role })
        }
        WriterStatus::Known { .. } => unfit(server, own)
            .or_else(|| (server.announced == Announcement::Hold).then_some(Reason::WritesHeld)),
    };
    match reason {
        Some(reason) => Verdict::Ineligible(reason),
        None => Verdict::Eligible { capacity: server.weight.value() },
    }
}

/// May `server` serve reads when nobody is eligible? It failed a session of ours or gave no answer in time,
/// which is also what a host looks like whose processes wait for a processor, ours included: to try it costs
/// a client who would be refused nothing but time. Not one that refuses or is too far behind.
pub fn in_the_last_resort(
    server: &Server,
    own: Own<'_>,
    config: &RouterConfig,
    writer: &WriterStatus,
) -> bool {
    let suspect = match &server.state {
        State::Answering => own.suspect.is_some(),
        State::Silent { .. } => true,
        State::Failing { .. } | State::Unasked => false,
    };
    // Of one that gives no answer the lag is not known; what it was last must do.
    let lag = server.lag.or(server.last_lag.map(|(lag, _)| lag));
    let fit = match server.role {
        Role::Replica => unfit_replica(server, lag, config.max_lag).is_none(),
        Role::Primary => {
            config.reads_on_primary
                && matches!(writer, WriterStatus::Known { server: primary } if *primary == server.name)
        }
        Role::Stray | Role::Unknown => false,
    };
    suspect && fit && server.reserved.is_none() && !own.draining
}

/// May writers try `server` although it failed a session of ours? It is the one that takes writes, and has
/// answered since.
pub fn may_be_tried_for_writes(server: &Server, own: Own<'_>, writer: &WriterStatus) -> bool {
    let again = own.suspect.is_some_and(|suspect| suspect.writers_may_try);
    again && for_writes(server, Own { suspect: None, ..own }, writer).is_eligible()
}

/// What rules a server out whatever it is wanted for.
fn unfit(server: &Server, own: Own<'_>) -> Option<Reason> {
    if let Some(rule) = &server.reserved {
        return Some(Reason::Reserved { rule: rule.clone() });
    }
    if own.draining {
        return Some(Reason::Draining);
    }
    match &server.state {
        State::Silent { why } => Some(Reason::Silent { why: why.clone() }),
        State::Failing { why } => Some(Reason::Failing { why: why.clone() }),
        State::Unasked => Some(Reason::Unasked),
        State::Answering => match own.suspect {
            Some(suspect) => Some(Reason::Suspected { why: suspect.why.clone() }),
            None => server.newcomer.map(Reason::Newcomer),
        },
    }
}

/// What rules a replica out for reads.
fn unfit_replica(server: &Server, lag: Option<Lag>, limit: Duration) -> Option<Reason> {
    if server.role == Role::Unknown {
        return Some(Reason::RoleUnknown { because: server.because.clone() });
    }
    // A stopped receiver alone does not count: that is what every replica shows while the primary is down,
    // and what has been received and applied is as fresh as anything left. Its lag decides.
    if let Replication::Stopped { thread: Thread::Applier | Thread::Both, why } = &server.replication {
        return Some(Reason::Stopped { why: why.clone() });
    }
    match lag {
        Some(lag) if lag.at_most() > limit => Some(Reason::Behind { lag, limit }),
        Some(_) => None,
        None => Some(Reason::LagUnknown),
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reserved { rule } => write!(f, "reserved by rule {rule}"),
            Self::Draining => f.write_str("being drained by command"),
            Self::Silent { why } => write!(f, "silent: {why}"),
            Self::Failing { why } => write!(f, "failing: {why}"),
            Self::Unasked => f.write_str("not asked yet"),
            Self::Newcomer(Newcomer { agreeing, wanted }) => {
                write!(f, "discovered just now: {agreeing} of {wanted} agreeing answers")
            }
            Self::Suspected { why } => {
                write!(f, "just failed a session ({why}); waiting until it answers again")
            }
            Self::Stray { because } => write!(f, "stray: {because}"),
            Self::RoleUnknown { because } => write!(f, "role unknown: {because}"),
            Self::IsPrimary => f.write_str("is the primary; reads go there only when nothing else is left"),
            Self::NotPrimary { role } => write!(f, "takes no writes, it is a {role}"),
            Self::WritesHeld => f.write_str("a switchover is under way, writes are held"),
            Self::NoPrimary { why } => write!(f, "no primary is known: {why}"),
            Self::Stopped { why } => write!(f, "replication is stopped: {why}"),
            Self::Behind { lag, limit } => write!(
                f,
                "{}{} behind (by {}), the limit is {}",
                if lag.uncertainty.is_zero() { "" } else { "up to " },
                fleet::bounds(lag.at_most(), lag.at_most()),
                lag.source,
                fleet::bounds(*limit, *limit)
            ),
            Self::LagUnknown => f.write_str("how far it is behind is not known"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fleet::{Address, LagSource, ServerName};

    fn replica(lag_ms: u64) -> Server {
        let mut server = Server::unasked(ServerName::new("r1"), Address::tcp("127.0.0.1", 3306));
        server.role = Role::Replica;
        server.state = State::Answering;
        server.replication = Replication::Running;
        server.lag = Some(Lag {
            at_least: Duration::from_millis(lag_ms),
            uncertainty: Duration::ZERO,
            source: LagSource::GtidSamples,
        });
        server
    }

    fn words(server: &Server, own: Own<'_>) -> String {
        let verdict = for_reads(server, own, &RouterConfig::default(), Instant::now());
        verdict.reason().map(ToString::to_string).unwrap_or_default()
    }

    #[test]
    fn a_replica_within_the_limit_is_eligible_with_its_weight() {
        let verdict = for_reads(&replica(100), Own::default(), &RouterConfig::default(), Instant::now());
        assert_eq!(verdict, Verdict::Eligible { capacity: 1.0 });
    }

    #[test]
    fn every_reason_is_said_with_its_figures() {
        assert_eq!(
            words(&replica(12_340), Own::default()),
            "12.3 s behind (by gtid samples), the limit is 10.0 s"
        );
        let mut new = replica(0);
        new.newcomer = Some(Newcomer { agreeing: 1, wanted: 3 });
        assert_eq!(words(&new, Own::default()), "discovered just now: 1 of 3 agreeing answers");
        let writer = WriterStatus::Known { server: new.name.clone() };
        assert!(!for_writes(&new, Own::default(), &writer).is_eligible());
        let mut between = replica(9_800);
        between.lag.as_mut().unwrap().uncertainty = Duration::from_secs(4);
        assert_eq!(
            words(&between, Own::default()),
            "up to 13.8 s behind (by gtid samples), the limit is 10.0 s"
        );
        let mut unknown = replica(0);
        unknown.lag = None;
        assert!(words(&unknown, Own::default()).contains("not known"));
        let mut stopped = replica(0);
        stopped.replication = Replication::Stopped { thread: Thread::Applier, why: "error 1062".to_owned() };
        assert_eq!(words(&stopped, Own::default()), "replication is stopped: error 1062");
        let mut silent = replica(0);
        silent.state = State::Silent { why: "no greeting for 1 s".to_owned() };
        assert_eq!(words(&silent, Own::default()), "silent: no greeting for 1 s");
        assert!(words(&replica(0), Own { draining: true, ..Own::default() }).contains("drained"));
        let suspect = Suspect::new("connection refused", 3, Instant::now());
        assert!(words(&replica(0), Own { suspect: Some(&suspect), ..Own::default() }).contains("refused"));
        let mut reserved = replica(0);
        reserved.reserved = Some("'analytics'".to_owned());
        assert_eq!(words(&reserved, Own::default()), "reserved by rule 'analytics'");
    }

    #[test]
    fn a_stopped_receiver_leaves_the_decision_to_the_lag() {
        let mut server = replica(100);
        server.replication =
            Replication::Stopped { thread: Thread::Receiver, why: "primary is dead".to_owned() };
        assert_eq!(words(&server, Own::default()), "");
    }

    #[test]
    fn a_silent_replica_is_a_last_resort_by_the_lag_it_had_when_it_last_answered() {
        let mut server = replica(100);
        server.state = State::Silent { why: "no answer".to_owned() };
        let writer = WriterStatus::Unknown { why: "nobody".to_owned() };
        let resort =
            |server: &Server| in_the_last_resort(server, Own::default(), &RouterConfig::default(), &writer);
        server.last_lag = server.lag.take().map(|lag| (lag, Instant::now()));
        assert!(resort(&server));
        server.last_lag.as_mut().unwrap().0.at_least = Duration::from_secs(99);
        assert!(!resort(&server));
        server.last_lag = None;
        assert!(!resort(&server), "nobody knows what it has");
    }

    #[test]
    fn a_server_that_came_back_grows_from_a_tenth_to_all_of_its_weight() {
        let now = Instant::now();
        let mut server = replica(0);
        server.back_since = Some(now);
        let capacity = |after: u64| {
            for_reads(&server, Own::default(), &RouterConfig::default(), now + Duration::from_secs(after))
                .capacity()
        };
        assert!((capacity(0) - 0.1).abs() < 1e-9);
        assert!((capacity(5) - 0.55).abs() < 1e-9);
        assert!((capacity(60) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn only_the_known_primary_takes_writes() {
        let server = replica(0);
        let other = WriterStatus::Known { server: ServerName::new("p") };
        let reason = |writer| for_writes(&server, Own::default(), writer).reason().map(ToString::to_string);
        assert_eq!(reason(&other).unwrap(), "takes no writes, it is a replica");
        let nobody = WriterStatus::Unknown { why: "two are writable".to_owned() };
        assert!(reason(&nobody).unwrap().contains("two are writable"));
        assert!(reason(&WriterStatus::Known { server: server.name.clone() }).is_none());
    }

    #[test]
    fn a_suspect_is_tried_for_writes_if_it_is_the_primary_and_nothing_else_is_against_it() {
        let mut suspect = Suspect::new("error 1040", 3, Instant::now());
        let server = replica(0);
        let primary = WriterStatus::Known { server: server.name.clone() };
        fn own(suspect: &Suspect) -> Own<'_> {
            Own { suspect: Some(suspect), ..Own::default() }
        }
        assert!(!may_be_tried_for_writes(&server, own(&suspect), &primary), "the pause is not over");
        suspect.writers_may_try = true;
        assert!(may_be_tried_for_writes(&server, own(&suspect), &primary));
        assert!(!for_writes(&server, own(&suspect), &primary).is_eligible());
        let other = WriterStatus::Known { server: ServerName::new("p") };
        assert!(!may_be_tried_for_writes(&server, own(&suspect), &other));
        let drained = Own { draining: true, ..own(&suspect) };
        assert!(!may_be_tried_for_writes(&server, drained, &primary));
        let mut announced = server.clone();
        announced.announced = Announcement::Hold;
        assert!(!may_be_tried_for_writes(&announced, own(&suspect), &primary), "writes are held");
    }
}
