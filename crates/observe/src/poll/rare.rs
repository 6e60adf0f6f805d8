//! The questions that are not asked every round, and what they last brought.

use crate::answer::{self, Clients, Counters, Counting, Identity, Managed, RegisteredReplica, managed};
use crate::ask::{AskError, ControlConnection};
use crate::dialect::{self, Dialect};
use crate::privilege::{Missing, Purpose};
use crate::rows::Rows;
use fleet::Address;
use std::time::{Duration, Instant};

/// The shortest time between two askings of the same seldom question.
const EVERY: Duration = Duration::from_secs(1);
/// A question that took `t` is not asked again before `SHARE * t` has passed: at most a hundredth of the
/// time.
const SHARE: u32 = 100;
/// A question that was refused is tried again after this long: somebody may have granted it.
pub(super) const AFTER_REFUSAL: Duration = Duration::from_secs(15);

/// What the seldom questions brought.
#[derive(Default)]
pub(crate) struct RareQuestions {
    /// The identity of the server it is about.
    pub(crate) of: String,
    pub(crate) replicas: Vec<RegisteredReplica>,
    pub(crate) load: Option<Counters>,
    pub(crate) clients: Option<Clients>,
    pub(crate) managed: Option<Managed>,
    pub(crate) missing: Vec<Missing>,
    /// The time between two answers to what `load` is of; `None` before the first.
    pub(crate) load_spacing: Option<Duration>,
    load_due: Due,
    replicas_due: Due,
    clients_due: Due,
    rds_due: Due,
    /// Ways to count reads that this server refused or does not have.
    beyond: Vec<Counting>,
}

/// When a question may be asked again.
#[derive(Clone, Copy, Default)]
struct Due {
    at: Option<Instant>,
    /// From the last asking to then.
    pause: Duration,
    /// The last asking had no answer in time. So it is not asked sooner on a new connection either: that one
    /// would be lost like the last.
    unanswered: bool,
}

/// How often something may be asked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spacing {
    /// The least time between two askings of the same seldom question: many ask.
    pub(crate) least: Duration,
    /// The time between two visits.
    pub(crate) visits: Duration,
}

impl Due {
    fn now(self) -> bool {
        self.at.is_none_or(|at| Instant::now() >= at)
    }

    fn after(&mut self, took: Duration, refused: bool, least: Duration) {
        self.pause = if refused { AFTER_REFUSAL } else { EVERY.max(took * SHARE) }.max(least);
        self.at = Some(Instant::now() + self.pause);
    }

    /// A new connection is another case.
    fn again(&mut self) {
        if !self.unanswered {
            *self = Self::default();
        }
    }

    /// The longest time between two answers: what is due waits for a visit.
    fn spacing(self, visits: Duration) -> Duration {
        self.pause + visits
    }
}

impl RareQuestions {
    pub(crate) fn new(of: String) -> Self {
        Self { of, ..Self::default() }
    }

    /// On a new connection nothing is refused yet.
    pub(crate) fn ask_again_what_was_refused(&mut self) {
        if !self.missing.is_empty() {
            for due in [&mut self.load_due, &mut self.replicas_due, &mut self.clients_due, &mut self.rds_due]
            {
                due.again();
            }
            self.missing.clear();
            self.beyond.clear();
        }
    }

    /// The server may have been restarted before this connection: its counters say so, and whether its buffer
    /// pool is warm.
    pub(crate) fn read_counters_again(&mut self) {
        self.load_due.again();
    }

    /// What had no answer in time when it was last asked, in words.
    pub(crate) fn unanswered(&self) -> impl Iterator<Item = String> {
        let questions = [
            (self.load_due, "what it carries"),
            (self.replicas_due, "who replicates from it"),
            (self.clients_due, "what its client hosts ask"),
            (self.rds_due, "who is in its cluster"),
        ];
        questions
            .into_iter()
            .filter(|(due, _)| due.unanswered)
            .map(|(_, what)| format!("it does not say within the deadline {what}; that is asked again later"))
    }

    /// Asks an Aurora cluster's own table in every visit: it says who the writer is.
    pub(crate) async fn ask_topology(
        &mut self,
        connection: &mut ControlConnection,
        dialect: Dialect,
        identity: &Identity,
        deadline: Duration,
        spacing: Spacing,
    ) -> Result<(), AskError> {
        if !dialect.aurora {
            return Ok(());
        }
        let mut ask = Asker { connection, dialect, identity, deadline, spacing };
        let mut always = Due::default();
        if let Some(rows) =
            ask.one(dialect::AURORA_TOPOLOGY, Purpose::Counters, &mut always, &mut self.missing).await?
        {
            let own = identity.key.trim_start_matches("aurora ").to_owned();
            self.managed = Some(Managed::Aurora { own, instances: managed::aurora_instances(&rows) });
        }
        Ok(())
    }

    /// Asks what is due, nothing again before the least spacing has passed. Only a lost connection is an
    /// error, and no answer in time, after which the connection is of no more use: what cannot be asked is
    /// remembered as missing.
    pub(crate) async fn ask_what_is_due(
        &mut self,
        connection: &mut ControlConnection,
        dialect: Dialect,
        identity: &Identity,
        called: &Address,
        deadline: Duration,
        spacing: Spacing,
    ) -> Result<(), AskError> {
        let mut ask = Asker { connection, dialect, identity, deadline, spacing };
        if self.load_due.now()
            && let Some(rows) =
                ask.one(dialect::LOAD, Purpose::Sessions, &mut self.load_due, &mut self.missing).await?
        {
            self.load = answer::counters(&rows, Instant::now());
            self.load_spacing = Some(self.load_due.spacing(ask.spacing.visits));
        }
        if self.replicas_due.now() && dialect.replicas().is_some() {
            self.ask_replicas(&mut ask).await?;
        }
        if self.clients_due.now() {
            self.ask_clients(&mut ask).await?;
        }
        if self.rds_due.now()
            && managed::is_cloud_name(called)
            && !dialect.aurora
            && !dialect.is_mariadb()
            && let Some(rows) = ask
                .one(dialect::RDS_TOPOLOGY, Purpose::RdsTopology, &mut self.rds_due, &mut self.missing)
                .await?
        {
            self.managed = Some(Managed::MultiAz { members: managed::multi_az_members(&rows) });
        }
        Ok(())
    }

    /// Registered replicas; where some say no address, also the hosts that read the binary log.
    async fn ask_replicas(&mut self, ask: &mut Asker<'_>) -> Result<(), AskError> {
        let Some(statement) = ask.dialect.replicas() else { return Ok(()) };
        let registered =
            ask.one(statement, Purpose::Replicas, &mut self.replicas_due, &mut self.missing).await?;
        let mut told = registered.as_ref().map(answer::registered_replicas).unwrap_or_default();
        if registered.is_none() || told.iter().any(|t| t.address.is_none()) {
            let mut due = Due::default();
            let sessions =
                ask.one(ask.dialect.dump_sessions(), Purpose::Sessions, &mut due, &mut self.missing).await;
            if due.unanswered {
                self.replicas_due = due;
            }
            let hosts = sessions?.as_ref().map(answer::dump_hosts).unwrap_or_default();
            let mut ports: Vec<u16> = told.iter().filter(|t| t.address.is_none()).map(|t| t.port).collect();
            if ports.is_empty() {
                ports.push(ask.identity.port);
            }
            ports.sort_unstable();
            ports.dedup();
            told.retain(|t| t.address.is_some());
            for host in hosts.iter().take(64) {
                told.extend(ports.iter().map(|port| RegisteredReplica {
                    address: Some(Address::tcp(host.clone(), *port)),
                    port: *port,
                    server_id: 0,
                    uuid: None,
                    guessed: true,
                }));
            }
        }
        self.replicas = told;
        Ok(())
    }

    /// Reads by client host, by the best way this server has.
    async fn ask_clients(&mut self, ask: &mut Asker<'_>) -> Result<(), AskError> {
        let user = ask.identity.account.rsplit_once('@').map_or(&*ask.identity.account, |(user, _)| user);
        for counting in Counting::BEST_FIRST {
            let offered = match counting {
                Counting::Statements => ask.identity.performance_schema,
                Counting::UserStatistics => ask.identity.userstat,
                Counting::Sessions => true,
            };
            if !offered || self.beyond.contains(&counting) {
                continue;
            }
            let purpose =
                if counting == Counting::Statements { Purpose::Counters } else { Purpose::Sessions };
            let statement = counting.statement(ask.dialect, user);
            match ask.one(&statement, purpose, &mut self.clients_due, &mut self.missing).await? {
                Some(rows) => {
                    let spacing = self.clients_due.spacing(ask.spacing.visits);
                    self.clients = Some(Clients::read(counting, &rows, Instant::now(), spacing));
                    return Ok(());
                }
                None => self.beyond.push(counting),
            }
        }
        self.beyond.clear();
        self.clients_due.after(Duration::ZERO, true, ask.spacing.least);
        Ok(())
    }
}

struct Asker<'a> {
    connection: &'a mut ControlConnection,
    dialect: Dialect,
    identity: &'a Identity,
    deadline: Duration,
    spacing: Spacing,
}

impl Asker<'_> {
    /// `None` when the server refuses; then the privilege is named.
    async fn one(
        &mut self,
        statement: &str,
        purpose: Purpose,
        due: &mut Due,
        missing: &mut Vec<Missing>,
    ) -> Result<Option<Rows>, AskError> {
        missing.retain(|m| m.purpose != purpose);
        let start = Instant::now();
        let answer = self.connection.ask(statement, self.deadline).await;
        due.after(start.elapsed(), answer.is_err(), self.spacing.least);
        due.unanswered = matches!(answer, Err(AskError::Silent { .. }));
        match answer {
            Ok(rows) => Ok(Some(rows)),
            Err(error) if error.is_fatal() => Err(error),
            Err(error) => {
                if error.is_denied() {
                    missing.push(Missing::new(purpose, self.dialect, &self.identity.account));
                }
                tracing::debug!(%error, statement, "not answered");
                Ok(None)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_read_at_once_on_a_new_connection_and_else_when_due() {
        let mut rare = RareQuestions::new("a".to_owned());
        let (least, visits) = (Duration::from_secs(30), Duration::from_secs(3));
        rare.load_due.after(Duration::from_millis(1), false, least);
        rare.clients_due.after(Duration::from_millis(1), false, least);
        assert_eq!(rare.load_due.spacing(visits), least + visits);
        assert!(!rare.load_due.now());
        rare.read_counters_again();
        assert!(rare.load_due.now() && !rare.clients_due.now());
    }

    #[test]
    fn what_had_no_answer_in_time_waits_for_its_pause_on_a_new_connection_too() {
        let mut rare = RareQuestions::new("a".to_owned());
        let dialect = Dialect { version: "8.4.2".parse().unwrap(), aurora: false };
        rare.missing.push(Missing::new(Purpose::Replicas, dialect, "u@h"));
        for due in [&mut rare.load_due, &mut rare.clients_due] {
            due.after(Duration::from_secs(1), true, Duration::ZERO);
        }
        rare.load_due.unanswered = true;
        rare.read_counters_again();
        rare.ask_again_what_was_refused();
        assert!(!rare.load_due.now() && rare.clients_due.now());
        let unanswered: Vec<String> = rare.unanswered().collect();
        assert!(matches!(&unanswered[..], [why] if why.contains("what it carries")), "{unanswered:?}");
    }
}
