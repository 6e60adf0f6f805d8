//! What a failover could lose, and whether the old primary can still acknowledge writes. Pure.
//!
//! With semi-sync a commit is acknowledged only after a replica has received it. Once the receivers of *all*
//! replicas are stopped, a primary that never falls back cannot acknowledge anything, wherever it is; and
//! what it acknowledged before is on the replica that received most. Whether it waited can only be known from
//! when it answered ([`SourceEvidence`]): one that was restarted in place without the switch acknowledges at
//! once, and its replicas show the same as before. What is looked at: a replica was connected as a semi-sync
//! replica and acknowledged; the primary waited when it was last seen, by its own settings; and where a
//! person says so instead, the replicas' settings as a source, since a fleet that fails over runs its servers
//! alike.
//! A replica that does not answer may be the one that acknowledged, and so may one that nobody knows of: the
//! primary has counted those that were connected.

use fleet::ServerName;
use serde::Serialize;
use std::time::Duration;

/// An answer of the primary that is older than this, when it falls silent, says nothing: it may have been
/// restarted or reset since. Guards look every interval (a second by default).
pub const SEEN_WITHIN: Duration = Duration::from_secs(10);

/// A primary that falls back sooner may have done so, or may do so before anybody fences it.
const NEVER: Duration = Duration::from_secs(3600);

/// What a replica shows of semi-sync.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SemiSync {
    pub server: ServerName,
    /// Its receiver last spoke to the primary as a semi-sync replica.
    pub replica: bool,
    /// Acknowledgements that it sent, where it counts them (MariaDB).
    pub acknowledged: Option<u64>,
    /// Its own fallback time as a source.
    pub timeout: Option<Duration>,
    /// As a source it waits even when no replica is connected.
    pub waits_without_replicas: Option<bool>,
}

/// What a primary said of its own semi-sync.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SourceSemiSync {
    /// It waited for acknowledgements: switched on, and not fallen back.
    pub on: bool,
    /// The replicas that were connected to it and acknowledge.
    pub clients: Option<u64>,
    /// How many of them it waited for; `None` where there is no such setting (MariaDB): one.
    pub needed: Option<u64>,
    /// When it falls back.
    pub timeout: Option<Duration>,
    /// Whether it waits even when no replica is connected.
    pub waits_without_replicas: Option<bool>,
}

/// How it is known that the primary waited for acknowledgements until it died.
#[derive(Clone, Debug, PartialEq)]
pub enum SourceEvidence {
    /// It said so itself.
    Seen {
        said: SourceSemiSync,
        /// How long before its last sign of life.
        before: Duration,
    },
    /// A person says that it did.
    Stated,
    /// Nobody looked.
    Unknown,
}

/// What could be lost, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LossRisk {
    #[error(
        "{} does not answer and may be the only one that received the last acknowledged writes",
        .0.iter().map(ServerName::as_str).collect::<Vec<_>>().join(", ")
    )]
    Silent(Vec<ServerName>),
    #[error(
        "{} receives by a channel with a name, or by several: it is not stopped, may acknowledge more, and may have \
         received what the others lack",
        .0.iter().map(ServerName::as_str).collect::<Vec<_>>().join(", ")
    )]
    KeepsReceiving(Vec<ServerName>),
    #[error(
        "{clients} replicas that acknowledge were connected to the primary when it last answered, and only {known} of its \
         replicas are known: another one may be the only one that received the last acknowledged writes"
    )]
    UnknownReplicas { clients: u64, known: usize },
    #[error("no replica acknowledged as a semi-sync replica: {LOST}")]
    NotAcknowledged,
    #[error(
        "nobody saw whether the primary waited for acknowledgements until it died, and its replicas do not tell: if it was \
         restarted without semi-sync, {LOST}. If you know that it waited: --semi-sync-was-on"
    )]
    SourceNotSeen,
    #[error(
        "whether the primary waited for acknowledgements was last seen {:.0} s before it fell silent: if it was restarted \
         without semi-sync since, {LOST}. If you know that it waited: --semi-sync-was-on",
        before.as_secs_f64()
    )]
    SourceSeenLongBefore { before: Duration },
    #[error("the primary did not wait for acknowledgements when it last answered: {LOST}")]
    SourceOff,
    #[error(
        "semi-sync falls back to asynchronous after {:.1} s (by the settings of {server}): if it did, {LOST}",
        timeout.as_secs_f64()
    )]
    FallsBack { server: ServerName, timeout: Duration },
    #[error("{server} does not say when semi-sync falls back: {LOST}")]
    UnknownTimeout { server: ServerName },
    #[error("a primary without replicas does not wait (by the settings of {server}): {LOST}")]
    DoesNotWait { server: ServerName },
}

const LOST: &str = "what the old primary acknowledged and no replica received is lost";

/// Whether nothing acknowledged can be lost and nothing more can be acknowledged once all receivers are
/// stopped: the facts for it, or else what could be lost.
///
/// # Errors
/// What could be lost.
pub fn rule_out_loss(
    replicas: &[SemiSync],
    silent: &[ServerName],
    primary: &ServerName,
    evidence: &SourceEvidence,
) -> Result<String, LossRisk> {
    if !silent.is_empty() {
        return Err(LossRisk::Silent(silent.to_vec()));
    }
    // Said first, since it is the cause: with it off, replicas acknowledge nothing either.
    if matches!(evidence, SourceEvidence::Seen { said, before } if *before <= SEEN_WITHIN && !said.on) {
        return Err(LossRisk::SourceOff);
    }
    // One is enough, since all answer: an asynchronous replica acknowledges nothing and takes nothing away.
    let acknowledges = |replica: &&SemiSync| replica.replica && replica.acknowledged != Some(0);
    let names: Vec<&str> =
        replicas.iter().filter(acknowledges).map(|replica| replica.server.as_str()).collect();
    if names.is_empty() {
        return Err(LossRisk::NotAcknowledged);
    }
    let waited = match evidence {
        SourceEvidence::Unknown => return Err(LossRisk::SourceNotSeen),
        SourceEvidence::Seen { before, .. } if *before > SEEN_WITHIN => {
            return Err(LossRisk::SourceSeenLongBefore { before: *before });
        }
        SourceEvidence::Seen { said, before } => {
            let (known, needed) = (replicas.len(), said.needed.unwrap_or(1));
            // Where it waited for more than there are unknown ones, a known one has what it acknowledged.
            let suffice = |clients: &u64| clients.saturating_sub(names.len() as u64) >= needed;
            let unknown = said.clients.filter(|clients| *clients > known as u64).filter(suffice);
            if let Some(clients) = unknown {
                return Err(LossRisk::UnknownReplicas { clients, known });
            }
            never_falls_back(primary, said.timeout, said.waits_without_replicas)?;
            format!("{primary} said {:.1} s before it fell silent that it waits", before.as_secs_f64())
        }
        SourceEvidence::Stated => {
            for replica in replicas {
                never_falls_back(&replica.server, replica.timeout, replica.waits_without_replicas)?;
            }
            format!("{primary} waited as somebody says, and by the replicas' settings")
        }
    };
    Ok(format!(
        "all replicas answer, {} acknowledged as semi-sync replicas, and {waited} for at least {} h: once their receivers \
         are stopped nothing more is acknowledged",
        names.join(", "),
        NEVER.as_secs() / 3600
    ))
}

/// By the settings of `server`, a primary does not go on without acknowledgements.
fn never_falls_back(
    server: &ServerName,
    timeout: Option<Duration>,
    waits_without_replicas: Option<bool>,
) -> Result<(), LossRisk> {
    let server = server.clone();
    match timeout {
        Some(timeout) if timeout >= NEVER => {}
        Some(timeout) => return Err(LossRisk::FallsBack { server, timeout }),
        None => return Err(LossRisk::UnknownTimeout { server }),
    }
    if waits_without_replicas == Some(false) {
        return Err(LossRisk::DoesNotWait { server });
    }
    Ok(())
}

/// Why the old primary writes nothing that anybody is told is safe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Guard {
    /// A command fences it.
    Hook,
    /// Semi-sync does, by these facts.
    SemiSync(String),
    /// Nothing does, and somebody accepts that.
    Accepted,
}

/// Why a failover must not go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAllowed {
    #[error("{0}. To go on all the same: --accept-loss")]
    Fenced(LossRisk),
    #[error(
        "{0}. Nothing keeps the old primary from acknowledging more either: fence it with --fence COMMAND. To go on with \
         both risks: --accept-loss"
    )]
    NotFenced(LossRisk),
}

/// Whether to go on: with a command that fences, with semi-sync by which nothing is lost, or with the loss
/// accepted by name.
///
/// # Errors
/// What could be lost, and what to say to go on.
pub fn decide(hook: bool, loss: Result<String, LossRisk>, accepts_loss: bool) -> Result<Guard, NotAllowed> {
    match (hook, loss) {
        (true, Ok(_)) => Ok(Guard::Hook),
        (false, Ok(facts)) => Ok(Guard::SemiSync(facts)),
        (true, Err(_)) if accepts_loss => Ok(Guard::Hook),
        (false, Err(_)) if accepts_loss => Ok(Guard::Accepted),
        (true, Err(risk)) => Err(NotAllowed::Fenced(risk)),
        (false, Err(risk)) => Err(NotAllowed::NotFenced(risk)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn said() -> SourceSemiSync {
        SourceSemiSync {
            on: true,
            clients: Some(1),
            needed: None,
            timeout: Some(Duration::from_secs(86_400)),
            waits_without_replicas: Some(true),
        }
    }

    fn replica() -> SemiSync {
        SemiSync {
            server: ServerName::new("a2"),
            replica: true,
            acknowledged: Some(7),
            timeout: Some(Duration::from_secs(86_400)),
            waits_without_replicas: Some(true),
        }
    }

    #[test]
    fn only_a_primary_that_was_seen_to_wait_shortly_before_its_death_lost_nothing() {
        let (a1, said) = (ServerName::new("a1"), said());
        let judged = |said: &SourceSemiSync, before_s: u64| {
            let evidence = SourceEvidence::Seen { said: said.clone(), before: Duration::from_secs(before_s) };
            rule_out_loss(&[replica()], &[], &a1, &evidence)
        };
        // Its own settings count then, whatever the replicas have.
        let odd = SemiSync { timeout: None, ..replica() };
        let seen = SourceEvidence::Seen { said: said.clone(), before: Duration::ZERO };
        assert!(rule_out_loss(&[odd], &[], &a1, &seen).is_ok());
        assert!(judged(&said, 10).is_ok());
        // It may have been restarted in place since, without the switch.
        assert!(matches!(judged(&said, 11), Err(LossRisk::SourceSeenLongBefore { .. })));
        let off = SourceSemiSync { on: false, ..said.clone() };
        assert_eq!(judged(&off, 0), Err(LossRisk::SourceOff));
        let short = SourceSemiSync { timeout: Some(Duration::from_secs(10)), ..said.clone() };
        assert!(matches!(judged(&short, 0), Err(LossRisk::FallsBack { server, .. }) if server == a1));
        let two = SourceSemiSync { clients: Some(2), ..said.clone() };
        assert_eq!(judged(&two, 0), Err(LossRisk::UnknownReplicas { clients: 2, known: 1 }));
        let of_both = SourceSemiSync { needed: Some(2), ..two };
        assert!(judged(&of_both, 0).is_ok(), "the known one acknowledged too");
        let three = SourceSemiSync { clients: Some(3), ..of_both };
        assert_eq!(judged(&three, 0), Err(LossRisk::UnknownReplicas { clients: 3, known: 1 }));
        let alone = SourceSemiSync { waits_without_replicas: Some(false), ..said };
        assert!(matches!(judged(&alone, 0), Err(LossRisk::DoesNotWait { server }) if server == a1));
        let unknown = rule_out_loss(&[replica()], &[], &a1, &SourceEvidence::Unknown).unwrap_err();
        assert!(unknown.to_string().contains("--semi-sync-was-on"), "{unknown}");
    }

    #[test]
    fn each_doubt_is_a_loss_in_words() {
        let rule_out_loss = |replicas: &[SemiSync], silent: &[ServerName]| {
            super::rule_out_loss(replicas, silent, &ServerName::new("a1"), &SourceEvidence::Stated)
        };
        assert!(rule_out_loss(&[replica(), replica()], &[]).is_ok());
        let doubts = [
            SemiSync { replica: false, ..replica() },
            SemiSync { acknowledged: Some(0), ..replica() },
            SemiSync { timeout: Some(Duration::from_secs(10)), ..replica() },
            SemiSync { timeout: None, ..replica() },
            SemiSync { waits_without_replicas: Some(false), ..replica() },
        ];
        for doubt in doubts {
            let loss = rule_out_loss(std::slice::from_ref(&doubt), &[]).unwrap_err();
            assert!(loss.to_string().contains("lost"), "{doubt:?}: {loss}");
        }
        let asynchronous = SemiSync { replica: false, ..replica() };
        assert!(rule_out_loss(&[replica(), asynchronous], &[]).is_ok());
        assert!(rule_out_loss(&[], &[]).is_err());
        assert!(
            rule_out_loss(&[replica()], &[ServerName::new("b1")]).unwrap_err().to_string().contains("b1")
        );
    }

    proptest! {
        #[test]
        fn a_loss_is_only_ever_accepted_by_name(hook: bool, safe: bool, accepts: bool) {
            let facts = if safe { Ok("facts".to_owned()) } else { Err(LossRisk::NotAcknowledged) };
            match decide(hook, facts, accepts) {
                Ok(Guard::Accepted) => prop_assert!(accepts && !hook && !safe),
                Ok(Guard::Hook) => prop_assert!(hook && (safe || accepts)),
                Ok(Guard::SemiSync(_)) => prop_assert!(safe && !hook),
                Err(risk) => prop_assert!(!accepts && !safe && risk.to_string().contains("--accept-loss")),
            }
        }
    }
}
