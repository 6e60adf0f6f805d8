//! One server in the survey.

use crate::answer::{Answer, Counters, Runs};
use crate::ask::AskError;
use crate::zone::{self, Host};
use config::FleetConfig;
use fleet::{Address, Load, Newcomer, ServerName, State};
use std::collections::HashSet;
use std::time::{Duration, Instant};

/// A discovered server is picked only after this many answers in a row that agree on who it is and what it
/// does.
pub(crate) const AGREEING: u32 = 3;

/// What a server is called inside this crate; never used twice.
pub(crate) type ServerId = u32;

#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) id: ServerId,
    pub(crate) name: ServerName,
    /// What it is called by the configuration or by other servers.
    pub(crate) called: Address,
    /// What we dial.
    pub(crate) reach: Address,
    pub(crate) origin: Origin,
    /// What it last answered, however long ago.
    pub(crate) answer: Option<Answer>,
    pub(crate) state: State,
    /// Looks so far, and failed ones since the last answer.
    pub(crate) looks: u64,
    pub(crate) failures: u32,
    pub(crate) answered_at: Option<Instant>,
    pub(crate) back_since: Option<Instant>,
    /// When somebody last told of it.
    pub(crate) named_at: Instant,
    /// What is odd about its address, in words.
    pub(crate) remark: Option<String>,
    /// Found in the cloud's own table, at an address made of one that the operator wrote.
    pub(crate) by_the_cloud: bool,
    /// Answers in a row that agree with each other, up to [`AGREEING`].
    agreeing: u32,
    pub(crate) statements_per_second: f64,
}

/// How we came to know a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The configuration names it.
    Seed,
    /// Another server told of it.
    Discovered,
    /// Concluded from a session: shown only once it answers.
    Guessed,
}

impl Entry {
    pub(crate) fn new(
        id: ServerId,
        name: ServerName,
        called: Address,
        reach: Address,
        origin: Origin,
        now: Instant,
    ) -> Self {
        Self {
            id,
            name,
            called,
            reach,
            origin,
            answer: None,
            state: State::Unasked,
            looks: 0,
            failures: 0,
            answered_at: None,
            back_since: None,
            named_at: now,
            remark: None,
            by_the_cloud: false,
            agreeing: 0,
            statements_per_second: 0.0,
        }
    }

    /// Whether it is shown: named by the configuration, or looked at once (an address may turn out to be
    /// another one of a server we know).
    pub(crate) fn is_shown(&self) -> bool {
        match self.origin {
            Origin::Seed => true,
            Origin::Discovered => self.looks > 0,
            Origin::Guessed => self.answer.is_some(),
        }
    }

    pub(crate) fn is_fresh(&self) -> bool {
        self.state == State::Answering
    }

    pub(crate) fn identity(&self) -> Option<&str> {
        self.answer.as_ref().map(|a| a.identity.key.as_str())
    }

    pub(crate) fn uuid(&self) -> Option<&String> {
        self.answer.as_ref().and_then(|a| a.identity.uuid.as_ref())
    }

    pub(crate) fn server_id(&self) -> Option<u32> {
        self.answer.as_ref().map(|a| a.identity.server_id)
    }

    /// It answered. What answers from the start on counts as warm; what comes later or comes back warms up
    /// from here.
    pub(super) fn accept(&mut self, answer: Answer, now: Instant, at_start: bool) {
        let was_away = self.failures > 0 || (self.answer.is_none() && !at_start);
        if was_away {
            self.back_since = Some(now);
        }
        if let (Some(before), Some(after)) = (self.answer.as_ref().and_then(|a| a.load), answer.load) {
            self.count(before, after);
        }
        let agrees = self.answer.as_ref().is_some_and(|before| agree(before, &answer));
        // Once accepted it stays so: what changes later (a promotion, another source) is what the judge is
        // for.
        if self.agreeing < AGREEING {
            self.agreeing = if agrees { self.agreeing + 1 } else { 1 };
        }
        self.failures = 0;
        self.state = State::Answering;
        self.answered_at = Some(now);
        self.answer = Some(answer);
    }

    /// How long its last answer counts.
    pub(crate) fn answer_holds(&self, config: &FleetConfig) -> Duration {
        config.answer_holds(self.answer.as_ref().map_or(config.interval, |a| a.asking.interval))
    }

    /// It gave no answer, or an error.
    pub(super) fn fail(&mut self, error: &AskError) {
        if self.failures == 0 {
            // The router's log has the line for people: it knows what follows from it.
            tracing::debug!(server = %self.name, %error, "does not answer");
        }
        if self.agreeing < AGREEING {
            self.agreeing = 0;
        }
        self.failures = self.failures.saturating_add(1);
        self.back_since = None;
        self.statements_per_second = 0.0;
        self.state = match error {
            AskError::Silent { .. } | AskError::Overdue { .. } => State::Silent { why: error.to_string() },
            _ => State::Failing { why: with_remedy(error) },
        };
    }

    /// What the server says others should call it.
    pub(crate) fn reports(&self) -> Option<&Address> {
        self.answer.as_ref().and_then(|a| a.identity.reports.as_ref())
    }

    /// Another server answers at this address.
    pub(super) fn exchanged(&mut self) {
        tracing::info!(server = %self.name, address = %self.reach, "another server answers at this address");
        self.remark = Some(format!("{}: another server answers at {} than before", self.name, self.reach));
        self.answer = None;
        self.agreeing = 0;
        self.statements_per_second = 0.0;
        self.failures = self.failures.max(1);
    }

    /// The same server answers at another address, and not at the one we had.
    pub(super) fn moved_to(&mut self, reach: Address) {
        tracing::info!(server = %self.name, from = %self.reach, to = %reach, "answers at another address");
        self.remark =
            Some(format!("{} does not answer at {} any more, but at {reach}", self.name, self.reach));
        self.reach = reach;
    }

    /// Set while it has not answered often enough to be picked; a seed need not prove itself.
    pub(crate) fn newcomer(&self) -> Option<Newcomer> {
        let new = self.origin != Origin::Seed && self.agreeing < AGREEING;
        new.then_some(Newcomer { agreeing: self.agreeing, wanted: AGREEING })
    }

    fn count(&mut self, before: Counters, after: Counters) {
        let seconds = after.at.saturating_duration_since(before.at).as_secs_f64();
        if seconds > 0.0 {
            // A restarted server counts from zero again: no rate for that interval.
            let asked = after.questions.checked_sub(before.questions);
            self.statements_per_second = asked.map_or(0.0, |n| n as f64 / seconds);
        }
    }

    /// What it carries. Our own session and statement, the sessions of its replicas, and the server's own
    /// threads do not count; MariaDB counts its replication threads as running, MySQL does not.
    pub(crate) fn load(&self) -> Load {
        let Some(answer) = &self.answer else { return Load::default() };
        let Some(counters) = answer.load else { return Load::default() };
        let replicas = u32::try_from(answer.replicas.len()).unwrap_or(0);
        let threads = answer.channels.list().iter().flat_map(|c| [c.receiver, c.applier]);
        let replicating = threads.filter(|runs| answer.counts_replication && *runs != Runs::No).count();
        let own = 1 + u32::from(answer.identity.event_scheduler) + u32::try_from(replicating).unwrap_or(0);
        Load {
            sessions: counters.sessions.saturating_sub(1 + replicas),
            running: counters.running.saturating_sub(own + replicas),
            statements_per_second: self.statements_per_second,
        }
    }
}

/// Whether two answers tell of the same server in the same place of the fleet.
fn agree(before: &Answer, after: &Answer) -> bool {
    let sources = |a: &Answer| a.channels.list().iter().map(|c| c.source.clone()).collect::<Vec<_>>();
    before.identity.key == after.identity.key
        && before.product == after.product
        && before.switches.writable() == after.switches.writable()
        && sources(before) == sources(after)
}

/// An error with what mends it, where we know.
fn with_remedy(error: &AskError) -> String {
    let remedy = match error {
        AskError::Answered { code: 1045 | 1698, .. } => {
            "check user and password in the configuration or option file"
        }
        AskError::Answered { code: 1040, .. } => "raise max_connections, or leave one connection to watchers",
        AskError::Answered { code: 1129, .. } => {
            "TRUNCATE TABLE performance_schema.host_cache there (MariaDB: FLUSH HOSTS) unblocks us"
        }
        AskError::Answered { code: 1130, .. } => "the account is not allowed from this host",
        AskError::Answered { code: 3032, .. } => "SET GLOBAL offline_mode = OFF there lets clients in",
        AskError::Answered { code: 1226, .. } => "the account's MAX_USER_CONNECTIONS is used up",
        _ => return error.to_string(),
    };
    format!("{error}; {remedy}")
}

/// The name a rule gives, if nobody has it yet; else what the server is called.
pub(super) fn name_of(
    config: &FleetConfig,
    called: &Address,
    reach: &Address,
    taken: &mut HashSet<ServerName>,
) -> ServerName {
    let said = zone::apply(&config.servers, &mut Host::server(called, None, reach, None));
    let given = said.name.map(|name| ServerName::new(&name)).filter(|name| !taken.contains(name));
    let name = given.unwrap_or_else(|| ServerName::new(&called.to_string()));
    taken.insert(name.clone());
    name
}
