//! The connections of a switchover: one to each server for what is done, one more to the primary that holds
//! the announcements, and one that holds the freeze.

use super::forward::Followers;
use super::{Logins, Member, Plan};
use crate::Error;
use crate::connection::Connection;
use std::collections::BTreeMap;
use std::time::Duration;

pub(super) struct Servers<'a> {
    plan: &'a Plan,
    pub(super) logins: &'a Logins,
    open: BTreeMap<String, Connection>,
    /// Holds [`fleet::announcement::PREPARE`] and [`fleet::announcement::HOLD`] on the primary.
    pub(super) announcer: Option<Connection>,
    /// Holds the global read lock on the primary, where the switch alone does not bind administrators.
    pub(super) freezer: Option<Connection>,
    /// Those that are told to follow the candidate already.
    pub(super) followers: Option<Followers>,
}

impl<'a> Servers<'a> {
    pub(super) fn new(plan: &'a Plan, logins: &'a Logins) -> Self {
        Self { plan, logins, open: BTreeMap::new(), announcer: None, freezer: None, followers: None }
    }

    pub(super) fn deadline(&self) -> Duration {
        Duration::from_millis(self.plan.deadlines.statement_ms)
    }

    /// The connection to a member, opened when it is not there.
    pub(super) async fn of(&mut self, member: &Member) -> Result<&mut Connection, Error> {
        if !self.open.contains_key(&member.name) {
            let connection = self.another(member).await?;
            self.open.insert(member.name.clone(), connection);
        }
        self.open.get_mut(&member.name).ok_or_else(|| unreachable_member(member))
    }

    /// A connection beside the usual one.
    pub(super) async fn another(&self, member: &Member) -> Result<Connection, Error> {
        self.opening(member).await
    }

    /// The same, to be awaited elsewhere.
    pub(super) fn opening(
        &self,
        member: &Member,
    ) -> impl Future<Output = Result<Connection, Error>> + Send + use<> {
        let (server, address, who) = (member.server(), member.address(), self.logins.admin.clone());
        let (deadline, idle) = (self.deadline(), self.plan.deadlines.idle());
        async move { Connection::open(&server, &address?, &who, deadline, idle).await }
    }

    /// Forgets a connection that failed, so that the next use opens one.
    pub(super) fn forget(&mut self, member: &Member) {
        self.open.remove(&member.name);
    }

    pub(super) async fn run(&mut self, member: &Member, statement: &str) -> Result<(), Error> {
        let deadline = self.deadline();
        let ran = self.of(member).await?.run(statement, deadline).await;
        if ran.is_err() {
            self.forget(member);
        }
        ran
    }

    pub(super) async fn scalar(&mut self, member: &Member, statement: &str) -> Result<Option<String>, Error> {
        let deadline = self.deadline();
        let answer = self.of(member).await?.scalar(statement, deadline).await;
        if answer.is_err() {
            self.forget(member);
        }
        answer
    }

    /// Asked on a new connection, so that what is true of the server is heard and not what became of a
    /// session.
    pub(super) async fn candidate_takes_writes(&mut self) -> Result<bool, Error> {
        let limit = self.deadline();
        self.takes_writes(limit).await
    }

    /// The same while clients wait for an answer: one that does not answer soon is taken as silent.
    pub(super) async fn candidate_takes_writes_soon(&mut self) -> Result<bool, Error> {
        self.takes_writes(Duration::from_secs(2)).await
    }

    async fn takes_writes(&mut self, limit: Duration) -> Result<bool, Error> {
        let candidate = &self.plan.candidate;
        let asked = tokio::time::timeout(limit, self.ask_read_only()).await;
        asked.unwrap_or_else(|_| {
            let why = format!("does not say within {} s whether it takes writes", limit.as_secs());
            Err(Error::Refused { server: candidate.server(), why })
        })
    }

    async fn ask_read_only(&mut self) -> Result<bool, Error> {
        let candidate = &self.plan.candidate;
        self.forget(candidate);
        self.says_it_takes_writes(candidate).await
    }

    /// By its own answer.
    pub(super) async fn says_it_takes_writes(&mut self, member: &Member) -> Result<bool, Error> {
        // A number, or a word from MariaDB 12 on.
        let value = self.scalar(member, "SELECT @@GLOBAL.read_only").await?;
        Ok(value.is_some_and(|value| matches!(value.to_ascii_lowercase().as_str(), "0" | "off")))
    }

    pub(super) async fn close(self) {
        for connection in self.open.into_values().chain(self.announcer).chain(self.freezer) {
            connection.close().await;
        }
    }
}

fn unreachable_member(member: &Member) -> Error {
    Error::Refused { server: member.server(), why: "no connection".to_owned() }
}
