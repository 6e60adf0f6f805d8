//! The lock that makes one guard the active one: a user lock on every server.
//!
//! Taken in the order of the servers' names, and given back altogether when one is taken by another guard, so
//! that two that begin at once do not each keep a half. It is asked about in each round, which keeps its
//! connection from being closed; a guard that is stopped or whose host vanishes loses it after [`LEASE`].

use super::decide::LockCount;
use super::record::{self, GuardRecord};
use crate::Error;
use crate::connection::Connection;
use config::Credentials;
use fleet::announcement::OPERATION;
use fleet::{Address, ServerName};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::task::JoinSet;

/// Held by the active guard.
pub const LOCK: &str = "headroom.guard";
/// A session that asks nothing for this long is closed by its server, and its lock ends.
pub const LEASE: Duration = Duration::from_secs(10);

/// One guard's connections, one a server.
#[derive(Debug)]
pub(super) struct Locks {
    who: Credentials,
    deadline: Duration,
    open: BTreeMap<ServerName, LockConnection>,
}

#[derive(Debug)]
struct LockConnection {
    connection: Connection,
    held: bool,
}

/// What a round gave.
#[derive(Clone, Debug, Default)]
pub(super) struct Round {
    pub(super) lock: LockCount,
    /// The last error of a server on which it could not be taken.
    pub(super) trouble: Option<String>,
    pub(super) recorded: Vec<GuardRecord>,
    /// Somebody moves the primary: holds the lock of an operation on a server.
    pub(super) operation: bool,
    /// Another guard holds the lock on a server.
    pub(super) rival: bool,
}

/// What a server showed of locks and records.
#[derive(Debug)]
struct Look {
    recorded: GuardRecord,
    operation: bool,
    rival: bool,
}

impl Locks {
    pub(super) fn new(who: Credentials, deadline: Duration) -> Self {
        Self { who, deadline, open: BTreeMap::new() }
    }

    /// Keeps, takes or gives back, and reads what is recorded. `primary` gives none: it may be dead just when
    /// it matters.
    pub(super) async fn round(
        &mut self,
        servers: &[(ServerName, Address, bool)],
        primary: Option<&ServerName>,
    ) -> Round {
        let mut asked = JoinSet::new();
        for (name, reach, answers) in servers.iter().filter(|(name, ..)| Some(name) != primary) {
            let line = self.open.remove(name);
            if !answers {
                continue;
            }
            let (name, reach, who, deadline) = (name.clone(), reach.clone(), self.who.clone(), self.deadline);
            asked.spawn(async move {
                let line = match line {
                    Some(line) => Ok(line),
                    None => open(&name, &reach, &who, deadline).await,
                };
                match line {
                    Ok(mut line) => match line.look(deadline).await {
                        Ok(look) => Ok((name, line, look)),
                        Err(error) => {
                            tracing::debug!(%error, "a guard's connection ended");
                            Err(error)
                        }
                    },
                    Err(error) => {
                        tracing::debug!(%error, "a guard cannot reach a server");
                        Err(error)
                    }
                }
            });
        }
        // Whatever is not in `servers` any more, the primary included, is given back by closing it.
        self.open.clear();
        let mut round = Round::default();
        while let Some(answer) = asked.join_next().await {
            match answer {
                Ok(Ok((name, line, look))) => {
                    self.open.insert(name, line);
                    round.recorded.push(look.recorded);
                    round.operation |= look.operation;
                    round.rival |= look.rival;
                }
                Ok(Err(error)) => round.trouble = Some(error.to_string()),
                Err(_) => {}
            }
        }
        self.take().await;
        let of = servers.iter().filter(|(name, ..)| Some(name) != primary).count();
        let held = self.open.values().filter(|line| line.held).count();
        Round { lock: LockCount { held, of }, ..round }
    }

    /// Whether this guard holds the lock on that server, by the last round.
    pub(super) fn holds(&self, server: &ServerName) -> bool {
        self.open.get(server).is_some_and(|line| line.held)
    }

    async fn take(&mut self) {
        let (deadline, mut lost) = (self.deadline, false);
        for line in self.open.values_mut() {
            if !line.held {
                line.held = line.scalar(&format!("SELECT GET_LOCK('{LOCK}', 0)"), deadline).await;
                if !line.held {
                    lost = true;
                    break;
                }
            }
        }
        // Never given back by one that is active: it has more than half, whoever came first elsewhere.
        let held = self.open.values().filter(|line| line.held).count();
        if lost && held * 2 <= self.open.len() {
            for line in self.open.values_mut().filter(|line| line.held) {
                let _ = line.scalar(&format!("SELECT RELEASE_LOCK('{LOCK}')"), deadline).await;
                line.held = false;
            }
        }
        // It may have the lock all the same, and gives it back by being closed.
        self.open.retain(|_, line| !line.connection.is_late());
    }

    pub(super) async fn close(self) {
        for line in self.open.into_values() {
            line.connection.close().await;
        }
    }
}

async fn open(
    name: &ServerName,
    reach: &Address,
    who: &Credentials,
    deadline: Duration,
) -> Result<LockConnection, Error> {
    Ok(LockConnection { connection: Connection::open(name, reach, who, deadline, LEASE).await?, held: false })
}

impl LockConnection {
    async fn look(&mut self, deadline: Duration) -> Result<Look, Error> {
        let ask = format!(
            "SELECT IS_USED_LOCK('{LOCK}') AS guard, CONNECTION_ID() AS ours, IS_USED_LOCK('{OPERATION}') AS operation"
        );
        let row = self.connection.ask(&ask, deadline).await?.into_iter().next().unwrap_or_default();
        let holder = row.get("guard");
        self.held = holder.is_some() && holder == row.get("ours");
        let (rival, operation) = (holder.is_some() && !self.held, row.contains_key("operation"));
        Ok(Look { recorded: record::read(&mut self.connection, deadline).await?, operation, rival })
    }

    async fn scalar(&mut self, statement: &str, deadline: Duration) -> bool {
        matches!(self.connection.scalar(statement, deadline).await, Ok(Some(value)) if value == "1")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab::scripted::{Reply, Script, ScriptedServer};

    #[tokio::test]
    async fn a_lock_that_was_given_too_late_is_taken_anew_over_another_connection() {
        let script = Script::new("10.11.6-MariaDB", |statement, session| match statement {
            statement if statement.starts_with("SELECT GET_LOCK") => match session.connection_id {
                1 => Reply::value("l", "1").after(Duration::from_millis(2_000)),
                _ => Reply::value("l", "1"),
            },
            statement if statement.contains("IS_USED_LOCK") => Reply::value("l", "0"),
            statement if statement.contains("FROM headroom.") => Reply::error(1146, "no table"),
            _ => Reply::Usual,
        });
        let server = ScriptedServer::start(script).await.unwrap();
        let address = Address::tcp("127.0.0.1".to_owned(), server.address().port());
        let servers = [(ServerName::new("a2"), address, true)];
        let mut locks = Locks::new(Credentials::default(), Duration::from_secs(1));
        assert_eq!(locks.round(&servers, None).await.lock.held, 0);
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        assert_eq!(locks.round(&servers, None).await.lock.held, 1);
        assert_eq!(server.connections(), 2);
        locks.close().await;
    }
}
