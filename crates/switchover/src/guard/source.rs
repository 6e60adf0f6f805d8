//! Remembers, while the primary answers, whether it waits for acknowledgements, and what people have told
//! guards: once it is dead nobody can ask, and its replicas may not have received a pause that was written a
//! moment ago.
//!
//! In a task of its own: a primary that hangs must not keep the guard from looking at the others.

use super::record::{self, GuardRecord};
use crate::connection::{BRIEFLY, Connection};
use crate::failover::risk::{SourceEvidence, SourceSemiSync};
use crate::failover::source;
use config::Credentials;
use fleet::{Address, ServerName, Snapshot, WriterStatus};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Its last answer.
#[derive(Clone, Debug)]
struct Answer {
    server: ServerName,
    said: SourceSemiSync,
    /// When it was asked.
    at: Instant,
    /// What it has recorded, and when that was read: this time or, where it could not be, an earlier one.
    recorded: Option<(GuardRecord, Instant)>,
}

/// Looks at the primary until it is dropped.
pub(super) struct SourceWatch {
    latest: watch::Receiver<Option<Answer>>,
    _looking: JoinSet<()>,
}

impl SourceWatch {
    /// Asks whoever is the primary of these snapshots, or was it last, once an interval.
    pub(super) fn start(
        snapshots: watch::Receiver<Arc<Snapshot>>,
        who: Credentials,
        interval: Duration,
        deadline: Duration,
    ) -> Self {
        let (publish, latest) = watch::channel(None);
        let mut looking = JoinSet::new();
        looking.spawn(async move {
            let (mut open, mut last): (Option<Connection>, Option<ServerName>) = (None, None);
            while !publish.is_closed() {
                let primary = primary(&snapshots.borrow(), last.take());
                if let Some((name, reach)) = primary {
                    last = Some(name.clone());
                    open = open.filter(|open| open.server == name);
                    let at = Instant::now();
                    if open.is_none() {
                        open = Connection::open(&name, &reach, &who, deadline, BRIEFLY).await.ok();
                    }
                    let said = match &mut open {
                        Some(open) => source::said(open, deadline).await.ok(),
                        None => None,
                    };
                    let recorded = match &mut open {
                        Some(open) if said.is_some() => record::read(open, deadline).await.ok(),
                        _ => None,
                    };
                    if recorded.is_none() {
                        open = None;
                    }
                    if let Some(said) = said {
                        let recorded = recorded.map(|recorded| (recorded, Instant::now()));
                        let recorded = recorded.or_else(|| known(publish.borrow().as_ref(), &name));
                        publish.send_replace(Some(Answer { server: name, said, at, recorded }));
                    }
                }
                tokio::time::sleep(interval).await;
            }
        });
        Self { latest, _looking: looking }
    }

    /// What is known of a primary that was seen alive then.
    pub(super) fn evidence(&self, primary: &ServerName, alive: Option<Alive>) -> SourceEvidence {
        let latest = self.latest.borrow();
        evidence(latest.as_ref(), primary, alive)
    }

    /// What a primary has recorded, or had when it was last read.
    pub(super) fn recorded(&self, primary: &ServerName) -> Option<GuardRecord> {
        let (recorded, at) = known(self.latest.borrow().as_ref(), primary)?;
        Some(recorded.aged(at.elapsed()))
    }
}

/// When a primary was seen alive without a gap.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Alive {
    pub(super) since: Instant,
    pub(super) last: Instant,
}

/// Who takes writes. While nobody does it is the `last` one, since it may die before it is seen to be open
/// again.
fn primary(snapshot: &Snapshot, last: Option<ServerName>) -> Option<(ServerName, Address)> {
    let name = match &snapshot.writer {
        WriterStatus::Known { server } => server.clone(),
        WriterStatus::Unknown { .. } => last?,
    };
    let reach = snapshot.server(&name)?.reach.clone();
    Some((name, reach))
}

/// What it said before it was away for a moment does not count: it may have been restarted.
fn evidence(latest: Option<&Answer>, primary: &ServerName, alive: Option<Alive>) -> SourceEvidence {
    match (latest, alive) {
        (Some(answer), Some(alive)) if answer.server == *primary && answer.at >= alive.since => {
            let before = alive.last.saturating_duration_since(answer.at);
            SourceEvidence::Seen { said: answer.said.clone(), before }
        }
        _ => SourceEvidence::Unknown,
    }
}

/// What a server has recorded, and when it was read.
fn known(latest: Option<&Answer>, server: &ServerName) -> Option<(GuardRecord, Instant)> {
    latest.filter(|answer| answer.server == *server)?.recorded.clone()
}

#[cfg(test)]
mod tests {
    use super::*;
    use fleet::Server;

    #[test]
    fn who_took_writes_last_is_asked_while_nobody_does() {
        let [a1, a2] = ["a1", "a2"].map(ServerName::new);
        let at = |port| Address::tcp("127.0.0.1", port);
        let servers = vec![Server::unasked(a1.clone(), at(1)), Server::unasked(a2.clone(), at(2))];
        let nobody = Snapshot { servers, ..Snapshot::empty(Instant::now()) };
        let known = WriterStatus::Known { server: a2.clone() };
        let somebody = Snapshot { writer: known, ..nobody.clone() };
        assert_eq!(primary(&nobody, None), None);
        assert_eq!(primary(&nobody, Some(a1.clone())), Some((a1.clone(), at(1))));
        assert_eq!(primary(&somebody, Some(a1)), Some((a2, at(2))), "another one took over");
        assert_eq!(primary(&nobody, Some(ServerName::new("b1"))), None, "it left the fleet");
    }

    #[test]
    fn an_answer_counts_for_the_server_that_gave_it_and_by_its_age_at_its_last_sign_of_life() {
        let said = SourceSemiSync {
            on: true,
            clients: None,
            needed: None,
            timeout: None,
            waits_without_replicas: None,
        };
        let at = Instant::now();
        let recorded = Some((GuardRecord::default(), at));
        let answer = Answer { server: ServerName::new("a1"), said, at, recorded };
        assert!(known(Some(&answer), &ServerName::new("a1")).is_some(), "kept however long it is dead");
        assert!(known(Some(&answer), &ServerName::new("a2")).is_none(), "it has a record of its own");
        let evidence_of = |name: &str, alive| evidence(Some(&answer), &ServerName::new(name), alive);
        let alive = Some(Alive { since: at, last: at + Duration::from_secs(7) });
        let SourceEvidence::Seen { before, .. } = evidence_of("a1", alive) else { panic!() };
        assert_eq!(before, Duration::from_secs(7));
        assert_eq!(evidence_of("a2", alive), SourceEvidence::Unknown);
        assert_eq!(evidence_of("a1", None), SourceEvidence::Unknown);
        assert_eq!(evidence(None, &ServerName::new("a1"), alive), SourceEvidence::Unknown);
        let returned = Some(Alive { since: at + Duration::from_secs(1), last: at + Duration::from_secs(2) });
        assert_eq!(evidence_of("a1", returned), SourceEvidence::Unknown, "it was away since");
    }
}
