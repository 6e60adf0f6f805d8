//! The connections of a switchover: one to each server for what is done, one more to the primary that holds
//! the announcements, and one that holds the freeze.
//!
//! **Whoever lost its place stops.** A tool that slept (a stopped process, a paused machine) may wake when
//! another one has gone on in its place, ended its sessions and moved the primary elsewhere. So each
//! connection that is opened once the operation has begun takes the operation's lock of that server anew and
//! looks at what is recorded there: where another operation holds the lock, or a later one is recorded,
//! nothing is said to that server.

use super::forward::Followers;
use super::{Logins, Member, Plan};
use crate::Error;
use crate::connection::Connection;
use crate::survey;
use fleet::ServerName;
use fleet::announcement::OPERATION;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::task::JoinSet;

/// How long a session of ours that was told to end may take.
const ENDS: Duration = Duration::from_secs(1);
/// How long a server may take to notice that the program which began this was killed: its last statement has
/// to end, see [`super::forward::wait_for`].
const NOTICES: Duration = Duration::from_secs(4);

pub(super) struct Servers<'a> {
    plan: &'a Plan,
    pub(super) logins: &'a Logins,
    open: BTreeMap<String, Connection>,
    /// Holds [`fleet::announcement::PREPARE`] and [`fleet::announcement::HOLD`] on the primary.
    pub(super) announcer: Option<Connection>,
    /// Holds the global read lock on the primary, where the switch alone does not bind administrators.
    pub(super) freezer: Option<Connection>,
    /// What the frozen primary had written when the candidate was found to have it.
    pub(super) awaited: Option<String>,
    /// Those that are told to follow the candidate already.
    pub(super) followers: Option<Followers>,
    /// The operation has begun: connections take its lock.
    begun: bool,
    /// The numbers of our sessions on each server: one that we gave up may hold the lock for a while.
    ours: BTreeMap<String, Vec<u32>>,
    /// A server has this operation recorded as undone, and it was not us.
    pub(super) undone_elsewhere: bool,
    /// The candidate was told to take writes, and whether it did is not known, see
    /// [`crate::journal::Journal::promotion_in_doubt`].
    pub(super) promotion_in_doubt: bool,
    /// Whether somebody asks for the end; `None` in a step that is not stopped.
    pub(super) interrupted: Option<&'a dyn Fn() -> bool>,
}

/// Between two looks whether somebody asks for the end, where no server is asked meanwhile.
const LOOK: Duration = Duration::from_millis(200);

impl<'a> Servers<'a> {
    pub(super) fn new(plan: &'a Plan, logins: &'a Logins) -> Self {
        Self {
            plan,
            logins,
            open: BTreeMap::new(),
            announcer: None,
            freezer: None,
            awaited: None,
            followers: None,
            begun: false,
            ours: BTreeMap::new(),
            undone_elsewhere: false,
            promotion_in_doubt: false,
            interrupted: None,
        }
    }

    /// For steps that wait.
    ///
    /// # Errors
    /// [`Error::Interrupted`] when somebody asks for the end, and this step may be stopped.
    pub(super) fn check_interrupted(&self) -> Result<(), Error> {
        if self.interrupted.is_some_and(|interrupted| interrupted()) {
            Err(Error::Interrupted)
        } else {
            Ok(())
        }
    }

    /// Returns once somebody asks for the end, and this step may be stopped.
    pub(super) async fn interrupted(&self) {
        while self.check_interrupted().is_ok() {
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Waits, where no server is asked meanwhile.
    ///
    /// # Errors
    /// As [`Self::check_interrupted`].
    pub(super) async fn sleep(&self, time: Duration) -> Result<(), Error> {
        tokio::select! {
            () = tokio::time::sleep(time) => Ok(()),
            () = self.interrupted() => Err(Error::Interrupted),
        }
    }

    /// From now on every connection holds the operation's lock; those that are open have taken it.
    pub(super) fn begin(&mut self) {
        self.begun = true;
    }

    /// Goes on with what another program began: takes the lock of every server that answers.
    ///
    /// # Errors
    /// Somebody else holds one, or a later operation is recorded.
    pub(super) async fn go_on(&mut self) -> Result<(), Error> {
        self.begun = true;
        let plan = self.plan;
        let mut opening = JoinSet::new();
        for member in [&plan.primary, &plan.candidate].into_iter().chain(&plan.others) {
            let (name, connection) = (member.name.clone(), self.opening(member));
            opening.spawn(async move { (name, connection.await) });
        }
        while let Some(Ok((name, opened))) = opening.join_next().await {
            // One that does not answer is told nothing now, and asked again when it is needed.
            let Ok(mut connection) = opened else { continue };
            self.claim(&name, &mut connection, NOTICES).await?;
            self.open.insert(name, connection);
        }
        Ok(())
    }

    /// Takes the operation's lock, and looks whether the operation is still ours to do.
    async fn claim(
        &mut self,
        name: &str,
        connection: &mut Connection,
        patience: Duration,
    ) -> Result<(), Error> {
        let deadline = self.deadline();
        let ours = self.ours.entry(name.to_owned()).or_default();
        let mut taken = take_lock(connection, patience, deadline).await?;
        let holder = match taken {
            true => None,
            false => connection.scalar(&format!("SELECT IS_USED_LOCK('{OPERATION}')"), deadline).await?,
        };
        if let Some(session) = holder.as_ref().and_then(|id| id.parse().ok()).filter(|id| ours.contains(id)) {
            // It was given up when it did not answer, and the server is still at its statement.
            let _ = connection.run(&format!("KILL {session}"), deadline).await;
            let _ = take_lock(connection, ENDS, deadline).await?;
            taken = true;
        }
        if !taken {
            return Err(going_on(connection.server.clone(), holder.as_deref(), self.plan, self.logins));
        }
        ours.push(connection.id());
        match survey::newest_record_of(connection, deadline).await? {
            Some((epoch, ..)) if epoch > self.plan.epoch => {
                let why = format!(
                    "has epoch {epoch} recorded, this operation is {}: it is over, and touches nothing",
                    self.plan.epoch
                );
                Err(Error::Refused { server: connection.server.clone(), why })
            }
            Some((epoch, state, _)) => {
                self.undone_elsewhere |= epoch == self.plan.epoch && state == "undone";
                Ok(())
            }
            None => Ok(()),
        }
    }

    pub(super) fn deadline(&self) -> Duration {
        Duration::from_millis(self.plan.deadlines.statement_ms)
    }

    /// The connection to a member, opened when it is not there or still owes an answer.
    pub(super) async fn of(&mut self, member: &Member) -> Result<&mut Connection, Error> {
        if self.open.get(&member.name).is_some_and(Connection::is_late) {
            self.forget(member);
        }
        if !self.open.contains_key(&member.name) {
            let mut connection = self.another(member).await?;
            if self.begun {
                self.claim(&member.name, &mut connection, Duration::ZERO).await?;
            } else {
                self.ours.entry(member.name.clone()).or_default().push(connection.id());
            }
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

    /// The number of the session that is used for a member.
    pub(super) async fn session(&mut self, member: &Member) -> Result<u32, Error> {
        Ok(self.of(member).await?.id())
    }

    /// Forgets a connection that failed, so that the next use opens one.
    pub(super) fn forget(&mut self, member: &Member) {
        self.open.remove(&member.name);
    }

    pub(super) async fn run(&mut self, member: &Member, statement: &str) -> Result<(), Error> {
        self.run_within(member, statement, self.deadline()).await
    }

    /// For a statement that may take longer than others.
    pub(super) async fn run_within(
        &mut self,
        member: &Member,
        statement: &str,
        deadline: Duration,
    ) -> Result<(), Error> {
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

    /// `None` where it does not say so soon.
    pub(super) async fn primary_takes_writes(&mut self) -> Option<bool> {
        let primary = &self.plan.primary;
        let asked = async {
            match self.says_it_takes_writes(primary).await {
                // The connection may be what ended.
                Err(Error::Server { .. }) => self.says_it_takes_writes(primary).await,
                said => said,
            }
        };
        tokio::time::timeout(ENDS, asked).await.ok()?.ok()
    }

    /// By its own answer.
    pub(super) async fn says_it_takes_writes(&mut self, member: &Member) -> Result<bool, Error> {
        Ok(takes_writes(self.scalar(member, READ_ONLY).await?.as_deref()))
    }

    pub(super) async fn close(self) {
        for connection in self.open.into_values().chain(self.announcer).chain(self.freezer) {
            connection.close().await;
        }
    }
}

/// Whether a server refuses writes.
pub(super) const READ_ONLY: &str = "SELECT @@GLOBAL.read_only";

/// What it answers to [`READ_ONLY`] where it takes them: a number, or a word from MariaDB 12 on.
pub(super) fn takes_writes(read_only: Option<&str>) -> bool {
    read_only.is_some_and(|value| matches!(value.to_ascii_lowercase().as_str(), "0" | "off"))
}

/// Whether it is ours now, once it was waited for.
async fn take_lock(
    connection: &mut Connection,
    patience: Duration,
    deadline: Duration,
) -> Result<bool, Error> {
    let statement = format!("SELECT GET_LOCK('{OPERATION}', {})", patience.as_secs());
    let taken = connection.scalar(&statement, deadline + patience).await?;
    Ok(taken.as_deref() == Some("1"))
}

/// Another operation is at work on this server.
pub(super) fn going_on(server: ServerName, holder: Option<&str>, plan: &Plan, logins: &Logins) -> Error {
    let resume = logins.flags.after(&format!("{} --resume --take-over", plan.kind.command()));
    let session = holder.unwrap_or("unknown");
    let why = format!(
        "another switchover or failover is going on: session {session} holds the lock {OPERATION}. Wait for it; if its \
         program is dead or its host was lost: {resume}"
    );
    Error::Refused { server, why }
}

fn unreachable_member(member: &Member) -> Error {
    Error::Refused { server: member.server(), why: "no connection".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Flags;
    use crate::perform::FenceBy;
    use crate::perform::tests::failover;

    #[test]
    fn what_goes_on_elsewhere_is_taken_over_with_the_flags_that_were_typed() {
        let flags = Flags::new("--config f.toml");
        let logins = Logins { admin: Default::default(), replication: Default::default(), flags };
        let plan = failover(FenceBy::Nothing);
        let words = going_on(ServerName::new("a2"), Some("7"), &plan, &logins).to_string();
        assert!(words.contains("session 7"), "{words}");
        assert!(words.ends_with("headroom failover --resume --take-over --config f.toml"), "{words}");
    }
}
