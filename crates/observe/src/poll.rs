//! One look at one server: which questions, in which order, and what is remembered between looks.
//!
//! Every round: a ping (for the round-trip time), switches and position, replication threads. Less often,
//! because they cost a busy server something: sessions and statements, who replicates from it, reads by
//! client host; each of these is spaced so that it takes at most a hundredth of the time.
//!
//! Where many routers ask, visits are seldom and the connection is given up between them (`pace`). Then who
//! answers is asked together with the vitals, and all that is known of the server holds on: two statements a
//! visit.

mod rare;
pub(crate) mod seats;

use crate::answer::{self, Answer, Channel, Channels, Identity};
use crate::ask::{AskError, ControlConnection, Recognized};
use crate::dialect::{self, Dialect, Together};
use crate::discovery_scope::DiscoveryScope;
use crate::epoch::{self, ServerEpoch};
use crate::pace::{Budget, Pace};
use crate::privilege::{Missing, Purpose};
use crate::switchover::{Acknowledgement, SwitchoverState};
use config::Credentials;
use fleet::Address;
use rare::{AFTER_REFUSAL, RareQuestions, Spacing};
use seats::Candidates;
use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How many pings the shortest round trip is taken from.
const RECENT_PINGS: usize = 16;
/// A server that refuses to have those counted that ask it is asked for that again after this long: it may be
/// upgraded, or somebody may have granted it.
const AFTER_REFUSED_SEATS: Duration = Duration::from_secs(600);
/// A question for its replication that had no answer in time rests for this long, and then for twice as long
/// each time, up to [`AFTER_REFUSAL`]: what waits on the server meanwhile is a session of ours each.
const AFTER_A_HANG: Duration = Duration::from_secs(1);

/// What asks one server, again and again.
pub(crate) struct Poller {
    called: Address,
    reach: Address,
    who: Credentials,
    deadline: Duration,
    /// Its name must lead into these networks.
    inside: Option<DiscoveryScope>,
    connection: Option<ControlConnection>,
    introduction: Option<Introduction>,
    pings: VecDeque<Duration>,
    resolved_at: Option<Instant>,
    opened_at: Option<Instant>,
    /// A privilege was missing at the last look.
    lacks: bool,
    /// Noted once: that the host name led elsewhere.
    moved: Option<String>,
    /// A switchover that some server announces, and what this connection has answered.
    announced: Arc<SwitchoverState>,
    answered: Acknowledgement,
    budget: Budget,
    /// How often it is asked now.
    pace: Pace,
    /// Our seat among those that ask it: a lock of this connection.
    seat: Option<u32>,
    /// When the others were last counted on this connection.
    counted_at: Option<Instant>,
    /// The others could not be counted, and that is not tried again before.
    without_seats_until: Option<Instant>,
    /// Its newest finished operation, and when it was last asked.
    epoch: Option<(ServerEpoch, Instant)>,
    /// How long the vitals took when last asked alone, and when that was.
    question_time: Option<(Duration, Instant)>,
    /// The connection is new, and who answers is taken for the one that answered before until it says so.
    unsure: bool,
    /// The connection still waits for the answer to a seldom question.
    left_waiting: bool,
    /// Where its host name led when it was last known.
    led_to: Vec<IpAddr>,
    /// The channels that it told last, and the identity of the server that told them.
    told: Option<(String, Vec<Channel>)>,
    /// Set while the question for them rests.
    hang: Option<Hang>,
    /// It had no answer in time in this visit.
    hangs_now: bool,
}

/// A question for its replication that had no answer in time.
struct Hang {
    /// In words.
    why: String,
    pause: Duration,
    /// It rests until then.
    until: Instant,
}

/// What is asked once a connection.
struct Introduction {
    dialect: Dialect,
    product: String,
    /// As the server writes it, to notice an upgrade.
    version: String,
    identity: Identity,
    rare: RareQuestions,
    /// What is odd about its settings, in words: it blocks hosts sooner than others, it is in a cluster that
    /// is not followed.
    odd: Vec<String>,
}

impl Poller {
    /// A poller for the server `called` so, at `reach`.
    pub(crate) fn new(
        called: Address,
        reach: Address,
        who: Credentials,
        deadline: Duration,
        inside: Option<DiscoveryScope>,
        announced: Arc<SwitchoverState>,
        budget: Budget,
    ) -> Self {
        let pings = VecDeque::with_capacity(RECENT_PINGS);
        Self {
            called,
            reach,
            who,
            deadline,
            inside,
            connection: None,
            introduction: None,
            pings,
            resolved_at: None,
            opened_at: None,
            lacks: false,
            moved: None,
            announced,
            answered: Acknowledgement::default(),
            budget,
            pace: Pace::new(&budget),
            seat: None,
            counted_at: None,
            without_seats_until: None,
            epoch: None,
            question_time: None,
            unsure: false,
            left_waiting: false,
            led_to: Vec::new(),
            told: None,
            hang: None,
            hangs_now: false,
        }
    }

    /// Asks everything that is due. A connection that broke since the last look is no fault yet: one new one
    /// is tried. It is also where the question for its replication hangs: the others may be answered.
    pub(crate) async fn visit(&mut self) -> Result<Answer, AskError> {
        self.follow_the_name().await;
        self.try_new_privileges();
        let knew = self.connection.is_some() || self.may_skip_introduction();
        let mut outcome = self.look().await;
        let broken = matches!(&outcome, Err(e) if e.is_fatal() && !matches!(e, AskError::Silent { .. }));
        if knew && broken {
            outcome = self.look().await;
        }
        // Now that question rests.
        if std::mem::take(&mut self.hangs_now) {
            outcome = self.look().await;
        }
        outcome
    }

    /// Closes the connection, so that nothing of it lingers on the server.
    pub(crate) fn close(&mut self) {
        self.connection = None;
    }

    /// Whether there is a connection.
    pub(crate) fn is_open(&self) -> bool {
        self.connection.is_some()
    }

    /// How often it is asked now.
    pub(crate) fn pace(&self) -> Pace {
        self.pace
    }

    /// Time until the connection is to be given up; `None`: it stays. What a switchover was answered holds
    /// only as long as the connection.
    pub(crate) fn gives_up_after(&self) -> Option<Duration> {
        let answered = self.answered != Acknowledgement::default();
        self.pace.gives_up_after(&self.budget, self.seat.is_some()).filter(|_| !answered)
    }

    /// On a new connection: whether who answers may be asked together with the rest.
    fn may_skip_introduction(&self) -> bool {
        let seldom = self.pace.interval() > self.budget.hold();
        self.introduction.is_some() && !self.lacks && seldom
    }

    /// What is granted to an account holds for its next connection. So while something is refused, the
    /// connection is made anew from time to time.
    fn try_new_privileges(&mut self) {
        let patience = AFTER_REFUSAL.max(self.pace.seldom(&self.budget));
        if self.lacks && self.opened_at.is_some_and(|at| at.elapsed() >= patience) {
            self.connection = None;
        }
    }

    async fn look(&mut self) -> Result<Answer, AskError> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.connect().await?,
        };
        let result = self.questions(&mut connection).await;
        self.lacks = result.as_ref().is_ok_and(|answer| !answer.missing.is_empty());
        let left_waiting = std::mem::take(&mut self.left_waiting);
        if !left_waiting && result.as_ref().err().is_none_or(|e| !e.is_fatal()) {
            self.connection = Some(connection);
        }
        result
    }

    async fn connect(&mut self) -> Result<ControlConnection, AskError> {
        let (inside, led_to) = (self.inside.as_ref(), &self.led_to);
        let mut connection =
            ControlConnection::open_inside(&self.reach, &self.who, self.deadline, inside, led_to).await?;
        self.led_to.clone_from(&connection.addresses);
        self.unsure = self.may_skip_introduction();
        if !self.unsure {
            let rare = self.introduction.take().map(|introduction| introduction.rare);
            self.introduction = Some(self.introduce(&mut connection, rare).await?);
            self.epoch = None;
            self.pings.clear();
        }
        (self.seat, self.counted_at) = (None, None);
        self.answered = Acknowledgement::default();
        self.opened_at = Some(Instant::now());
        Ok(connection)
    }

    /// Who are you? Asked on each new connection: another server may stand behind the same address.
    async fn introduce(
        &self,
        connection: &mut ControlConnection,
        rare: Option<RareQuestions>,
    ) -> Result<Introduction, AskError> {
        let Recognized { dialect, product, account, version } = connection.recognize(self.deadline).await?;
        let rows = connection.ask(dialect.identity(), self.deadline).await?;
        let identity = answer::identity(&rows, dialect.version, &account)
            .ok_or_else(|| AskError::Broken { why: "it told no identity".to_owned() })?;
        // Counters of another server, or of one that was restarted, continue nothing.
        let rare = match (&self.introduction, rare) {
            (_, Some(mut rare)) if rare.of == identity.key => {
                rare.ask_again_what_was_refused();
                rare.read_counters_again();
                rare
            }
            _ => RareQuestions::new(identity.key.clone()),
        };
        // Nothing else depends on it: a server that does not say is one about which nothing is remarked.
        let rows = connection.ask(dialect::SETTINGS, self.deadline).await.unwrap_or_default();
        let odd = answer::host_blocking(&rows).into_iter().chain(answer::foreign_cluster(&rows)).collect();
        Ok(Introduction { dialect, product, version, identity, rare, odd })
    }

    async fn questions(&mut self, connection: &mut ControlConnection) -> Result<Answer, AskError> {
        let ping = connection.ping(self.deadline).await?;
        if self.pings.len() == RECENT_PINGS {
            self.pings.pop_front();
        }
        self.pings.push_back(ping);
        let introduction = self
            .introduction
            .as_ref()
            .ok_or_else(|| AskError::Broken { why: "not introduced".to_owned() })?;
        let (dialect, deadline) = (introduction.dialect, self.deadline);
        let mut missing = Vec::new();

        // The window that both positions (by file in the one answer, by GTID in the other) were read in.
        let asked = Instant::now();
        let channels = if let Some(hang) = self.hang.as_ref().filter(|hang| asked < hang.until) {
            self.as_told_last(hang.why.clone(), true)
        } else {
            let identity = &introduction.identity;
            let (channels, lost) = replication(connection, dialect, identity, deadline, &mut missing).await;
            if let Some(error) = lost {
                self.replication_failed(&error, Instant::now());
                return Err(error);
            }
            self.hang = None;
            self.remember(channels)
        };
        let candidates = self.seats_to_count().map(|seats| Candidates::among(seats, self.seat));
        let together = Together { identity: self.unsure, seats: candidates.as_ref() };
        let (before, alone) = (Instant::now(), candidates.is_none() && !self.unsure);
        let vitals = match connection.ask(&dialect.vitals_with(together), deadline).await {
            // Some proxies and clusters have no user locks.
            Err(error) if !error.is_fatal() && candidates.is_some() => {
                tracing::debug!(%error, server = %self.called, "those that ask it cannot be counted");
                self.count_again_later(&error, Instant::now());
                let together = Together { identity: self.unsure, seats: None };
                connection.ask(&dialect.vitals_with(together), deadline).await?
            }
            vitals => vitals?,
        };
        // Comparable only while the same is asked.
        if alone {
            self.question_time = Some((before.elapsed(), Instant::now()));
        }
        let question_time = self.question_time;
        let introduction = self
            .introduction
            .as_mut()
            .ok_or_else(|| AskError::Broken { why: "not introduced".to_owned() })?;
        if self.unsure && !introduction.is_of(&vitals) {
            self.introduction = None;
            return Err(AskError::Broken { why: "another server or version answers".to_owned() });
        }
        self.unsure = false;
        if let Some((seats, seat)) = candidates.and_then(|candidates| candidates.read(&vitals)) {
            self.counted_at = Some(Instant::now());
            self.seat = seat;
            self.pace = self.pace.after(&self.budget, Some(seats));
        }
        if let Some(refusal) = answer::offline(&vitals) {
            return Err(refusal);
        }
        let announced = answer::announced(&vitals);
        self.announced.saw(announced, Instant::now());
        let connection_id = vitals.first().and_then(|row| row.parse(&["connection_id"]));
        self.answered.answer(connection, announced, connection_id, &self.announced, deadline).await?;
        let (switches, operation) = (answer::switches(&vitals), answer::operation(&vitals));
        let (epoch, asked_for_epoch) =
            self.newest_epoch(connection, dialect, switches.writable(), operation).await?;
        self.epoch = Some((epoch.clone(), asked_for_epoch));
        let introduction = self
            .introduction
            .as_mut()
            .ok_or_else(|| AskError::Broken { why: "not introduced".to_owned() })?;
        let gtid = answer::gtid(&vitals).unwrap_or(introduction.identity.gtid);
        let (mut written, applied) = answer::positions(&vitals, gtid, channels.list());
        if written.is_none() && !gtid && !dialect.aurora {
            written = optional(
                connection,
                dialect.file_position(),
                Purpose::FilePosition,
                introduction,
                deadline,
                &mut missing,
            )
            .await?
            .and_then(|rows| answer::file_position(&rows));
        }
        let answered = Instant::now();
        let spacing = Spacing { least: self.pace.seldom(&self.budget), visits: self.pace.interval() };
        let (rare, identity) = (&mut introduction.rare, &introduction.identity);
        rare.ask_topology(connection, dialect, identity, deadline, spacing).await?;
        let seldom =
            rare.ask_what_is_due(connection, dialect, identity, &self.called, deadline, spacing).await;
        self.left_waiting = is_left_waiting(seldom)?;
        missing.extend(introduction.rare.missing.iter().cloned());
        let mut remarks: Vec<String> = self.moved.iter().cloned().collect();
        remarks.extend(introduction.rare.unanswered().chain(introduction.odd.iter().cloned()));
        remarks.extend(self.hang.as_ref().map(|hang| format!("{}; that is asked again", hang.why)));
        Ok(Answer {
            product: introduction.product.clone(),
            identity: introduction.identity.clone(),
            switches,
            announced,
            operation,
            epoch,
            written,
            applied,
            channels,
            replicas: introduction.rare.replicas.clone(),
            managed: introduction.rare.managed.clone(),
            load: introduction.rare.load,
            counts_replication: dialect.is_mariadb(),
            clients: introduction.rare.clients.clone(),
            missing,
            asked,
            answered,
            question_time,
            round_trip: self.pings.iter().min().copied(),
            peer: connection.peer,
            local: connection.local,
            plain_because: connection.plain_because.clone(),
            remarks,
            asking: self.pace.asking(&self.budget, introduction.rare.load_spacing),
        })
    }

    /// The question for its replication lost the connection. If it had no answer in time, it rests.
    fn replication_failed(&mut self, error: &AskError, now: Instant) {
        if !matches!(error, AskError::Silent { .. }) {
            return;
        }
        let pause = self.hang.as_ref().map_or(AFTER_A_HANG, |hang| (hang.pause * 2).min(AFTER_REFUSAL));
        self.hang = Some(Hang { why: not_asked(error), pause, until: now + pause });
        self.hangs_now = true;
    }

    /// Keeps the channels for a time when it does not tell them. With an error that is no refusal they are as
    /// it told them last.
    fn remember(&mut self, channels: Channels) -> Channels {
        match (channels, &self.introduction) {
            (Channels::Known(list), Some(introduction)) => {
                self.told = Some((introduction.identity.key.clone(), list.clone()));
                Channels::Known(list)
            }
            (Channels::Unknown { why, hidden: false, .. }, _) => self.as_told_last(why, false),
            (channels, _) => channels,
        }
    }

    /// Its channels as it told them last: whom it follows is likely as before, and no more is known.
    fn as_told_last(&self, why: String, hidden: bool) -> Channels {
        let key = self.introduction.as_ref().map(|introduction| &introduction.identity.key);
        let told = self.told.as_ref().filter(|(of, _)| Some(of) == key);
        let last = told.map(|(_, list)| list.iter().map(Channel::as_it_was).collect());
        Channels::Unknown { why, hidden, last }
    }

    /// Its newest finished operation: asked for where it may matter now, else from time to time. Only a lost
    /// connection is an error.
    async fn newest_epoch(
        &self,
        connection: &mut ControlConnection,
        dialect: Dialect,
        writable: bool,
        operation: bool,
    ) -> Result<(ServerEpoch, Instant), AskError> {
        let now = Instant::now();
        if operation && writable {
            self.announced.saw_operation(now);
        }
        let age = self.epoch.as_ref().map(|(_, at)| now.saturating_duration_since(*at));
        let own = self.epoch.as_ref().and_then(|(epoch, _)| epoch.known());
        let is_behind = own.is_some_and(|own| own < self.announced.highest());
        let matters = own.is_some() && (operation || is_behind || self.announced.is_near(now));
        let least = match own {
            Some(_) => self.pace.seldom(&self.budget),
            None => AFTER_REFUSAL.max(self.pace.seldom(&self.budget)),
        };
        if let Some(last) = &self.epoch
            && !epoch::is_due(age, writable, matters && writable, least)
        {
            return Ok(last.clone());
        }
        // The cloud moves the writer of a cluster, not we.
        if dialect.aurora {
            return Ok((ServerEpoch::Known(0), now));
        }
        match connection.ask(epoch::EPOCH, self.deadline).await {
            Ok(rows) => Ok((answer::epoch(&rows), now)),
            // No table yet, or no database: nothing was ever moved.
            Err(AskError::Answered { code: 1146 | 1049, .. }) => Ok((ServerEpoch::Known(0), now)),
            Err(error) if error.is_fatal() => Err(error),
            Err(error) if error.is_denied() => {
                let account = self.introduction.as_ref().map(|i| i.identity.account.as_str());
                let grant = Missing::new(Purpose::Epoch, dialect, account.unwrap_or_default());
                Ok((ServerEpoch::Unknown { why: grant.words() }, now))
            }
            Err(error) => Ok((ServerEpoch::Unknown { why: error.to_string() }, now)),
        }
    }

    /// The seats to count now, if it is time.
    fn seats_to_count(&self) -> Option<u32> {
        let due = self.counted_at.is_none_or(|at| at.elapsed() >= self.pace.counts_every(&self.budget));
        let refused = self.without_seats_until.is_some_and(|until| Instant::now() < until);
        self.budget.seats().filter(|_| due && !refused)
    }

    /// The others could not be counted: for long where the server says that they cannot, else until they
    /// would be counted next.
    fn count_again_later(&mut self, error: &AskError, now: Instant) {
        let usual = self.pace.counts_every(&self.budget);
        let pause = if error.refuses_locks() { AFTER_REFUSED_SEATS } else { usual };
        self.without_seats_until = Some(now + pause);
    }

    /// Every few seconds: does the host name still lead to the server we talk to? If not, the connection is
    /// given up, because everybody who connects now gets the other one.
    async fn follow_the_name(&mut self) {
        const EVERY: Duration = Duration::from_secs(2);
        let Some(peer) = self.connection.as_ref().and_then(|connection| connection.peer) else { return };
        if self.resolved_at.is_some_and(|at| at.elapsed() < EVERY) {
            return;
        }
        self.resolved_at = Some(Instant::now());
        let found = tokio::time::timeout(self.deadline, crate::ask::resolve(&self.reach)).await;
        if let Ok(Ok(addresses)) = found
            && !addresses.contains(&peer)
            && let Some(new) = addresses.first()
        {
            tracing::info!(server = %self.reach, from = %peer, to = %new, "the host name leads elsewhere");
            self.moved = Some(format!("{} led to {peer} and now leads to {new}", self.reach));
            self.connection = None;
        }
    }
}

impl Introduction {
    /// Whether the one that answers now is the one that was introduced.
    fn is_of(&self, vitals: &crate::rows::Rows) -> bool {
        let identity = answer::identity(vitals, self.dialect.version, &self.identity.account);
        let version = vitals.first().and_then(|row| row.text(&["version"]));
        identity.is_some_and(|identity| identity.key == self.identity.key) && version == Some(&self.version)
    }
}

/// The replication threads. That this one statement is refused says nothing against the server; that the
/// connection is lost does. It may hang, too: it waits while replication is being stopped.
async fn replication(
    connection: &mut ControlConnection,
    dialect: Dialect,
    identity: &Identity,
    deadline: Duration,
    missing: &mut Vec<Missing>,
) -> (Channels, Option<AskError>) {
    let Some(statement) = dialect.replication() else { return (Channels::Known(Vec::new()), None) };
    match connection.ask(statement, deadline).await {
        Ok(rows) => (Channels::Known(answer::channels(&rows)), None),
        Err(error) if error.is_denied() => {
            let lack = Missing::new(Purpose::Replication, dialect, &identity.account);
            let why = format!("its replication could not be asked: {}", lack.words());
            missing.push(lack);
            (Channels::Unknown { why, hidden: true, last: None }, None)
        }
        Err(error) if error.is_fatal() => (Channels::Known(Vec::new()), Some(error)),
        Err(error) => (Channels::Unknown { why: not_asked(&error), hidden: false, last: None }, None),
    }
}

fn not_asked(error: &AskError) -> String {
    format!("its replication could not be asked: {error}")
}

/// Whether a seldom question has no answer in time. It may walk over all sessions, and a busy server has many
/// of them: that it is slow says nothing against the server, which has just answered all that says how it is.
fn is_left_waiting(seldom: Result<(), AskError>) -> Result<bool, AskError> {
    match seldom {
        Err(AskError::Silent { .. }) => Ok(true),
        other => other.map(|()| false),
    }
}

/// A question whose refusal for want of a privilege is an answer too.
async fn optional(
    connection: &mut ControlConnection,
    statement: &str,
    purpose: Purpose,
    introduction: &Introduction,
    deadline: Duration,
    missing: &mut Vec<Missing>,
) -> Result<Option<crate::rows::Rows>, AskError> {
    match connection.ask(statement, deadline).await {
        Ok(rows) => Ok(Some(rows)),
        Err(error) if error.is_denied() => {
            missing.push(Missing::new(purpose, introduction.dialect, &introduction.identity.account));
            Ok(None)
        }
        Err(error) if error.is_fatal() => Err(error),
        Err(_) => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use config::{AskingBudget, FleetConfig};

    fn poller(config: &FleetConfig, now: Instant) -> Poller {
        let address: Address = "db1:3306".parse().unwrap();
        let (who, announced) = (config.credentials.clone(), SwitchoverState::new(now));
        Poller::new(address.clone(), address, who, config.deadline, None, announced, Budget::of(config))
    }

    #[test]
    fn a_question_for_replication_that_hangs_rests_for_longer_each_time() {
        let now = Instant::now();
        let mut poller = poller(&FleetConfig::default(), now);
        poller.replication_failed(&AskError::Broken { why: "closed".to_owned() }, now);
        assert!(poller.hang.is_none() && !poller.hangs_now);
        let silent =
            AskError::Silent { what: "SHOW REPLICA STATUS".to_owned(), deadline: Duration::from_secs(1) };
        let pauses = [1, 2, 4, 8, 15, 15].map(Duration::from_secs);
        let rests = pauses.map(|_| {
            poller.replication_failed(&silent, now);
            poller.hang.as_ref().unwrap().until - now
        });
        assert_eq!((rests, poller.hangs_now), (pauses, true));
    }

    #[test]
    fn the_others_are_counted_again_after_an_error_and_later_after_a_refusal() {
        let asking = AskingBudget { statements_per_second: 20, connections: 10, counted: true };
        let config = FleetConfig { asking, ..FleetConfig::default() };
        let now = Instant::now();
        let mut poller = poller(&config, now);
        assert_eq!(poller.seats_to_count(), Some(10));
        let error = |code| AskError::Answered { code, state: String::new(), message: String::new() };
        let minute = Duration::from_secs(60);
        // The statement took too long, once.
        poller.count_again_later(&error(1969), now - minute);
        assert_eq!(poller.seats_to_count(), Some(10));
        poller.count_again_later(&error(1370), now - minute);
        assert_eq!(poller.seats_to_count(), None);
        poller.count_again_later(&error(1370), now - 10 * minute);
        assert_eq!(poller.seats_to_count(), Some(10), "somebody may have granted it");
    }
}
