//! Idle: which sessions of a server wait for a statement outside a transaction, by the server's own word. For whoever
//! wants to close connections that do not pass through him.
//!
//! Asked on connections of their own, only when somebody wants to know, and kept for a while because he will again. It
//! takes the PROCESS privilege: without it a server shows neither other accounts' sessions nor anybody's transactions.

use crate::ask::{AskError, ControlConnection};
use crate::rows::Rows;
use config::{Credentials, FleetConfig};
use fleet::{Address, ServerName, Snapshot};
use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// Both flavours know both tables. Sessions first, then transactions, would miss one that begins in between; in one
/// statement the server reads the sessions last, which can only err on the safe side: what is idle then was asked for after.
const STATEMENT: &str = "SELECT p.id AS id, p.host AS host, p.command AS command, t.trx_mysql_thread_id AS trx \
     FROM information_schema.processlist p \
     LEFT JOIN information_schema.innodb_trx t ON t.trx_mysql_thread_id = p.id \
     WHERE p.id <> CONNECTION_ID()";
/// A connection that was not used for so long is closed.
const KEEP: Duration = Duration::from_secs(30);

/// Sessions of a server as it sees them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IdleSessions {
    /// Clients whose sessions wait for a statement outside a transaction.
    pub idle: HashSet<SocketAddr>,
    /// Clients whose sessions do not.
    pub busy: HashSet<SocketAddr>,
    /// Whether any session has a transaction open.
    pub any_transaction: bool,
}

/// Asks servers for their idle sessions; cheap to clone and to send.
#[derive(Clone)]
pub struct Idleness {
    shared: Arc<Shared>,
}

struct Shared {
    snapshots: watch::Receiver<Arc<Snapshot>>,
    state: Mutex<State>,
}

struct State {
    credentials: Credentials,
    deadline: Duration,
    /// Connections that nobody uses at the moment.
    lines: HashMap<ServerName, Spare>,
}

struct Spare {
    line: ControlConnection,
    reach: Address,
    since: Instant,
}

impl Idleness {
    pub(crate) fn new(config: FleetConfig, snapshots: watch::Receiver<Arc<Snapshot>>) -> Self {
        let state =
            State { credentials: config.credentials, deadline: config.deadline, lines: HashMap::new() };
        Self { shared: Arc::new(Shared { snapshots, state: Mutex::new(state) }) }
    }

    pub(crate) fn reconfigure(&self, config: &FleetConfig) {
        let mut state = self.state();
        if state.credentials != config.credentials {
            state.lines.clear();
        }
        state.credentials = config.credentials.clone();
        state.deadline = config.deadline;
    }

    /// Which sessions of this server are idle now.
    ///
    /// # Errors
    /// Why the server does not tell, in words, with the statement that mends it where a privilege is missing.
    pub async fn of(&self, server: &ServerName) -> Result<IdleSessions, String> {
        let reach = self.reach(server)?;
        let (who, deadline, spare) = self.take_line(server, &reach);
        let mut line = match spare {
            Some(line) => line,
            None => ControlConnection::open(&reach, &who, deadline).await.map_err(|error| words(&error, &who))?,
        };
        let rows = line.ask(STATEMENT, deadline).await.map_err(|error| words(&error, &who))?;
        self.state().lines.insert(server.clone(), Spare { line, reach, since: Instant::now() });
        Ok(read(&rows))
    }

    /// Whether this server lets us log in now: on a connection made for it and closed again.
    ///
    /// # Errors
    /// Why not, in words.
    pub async fn login(&self, server: &ServerName) -> Result<(), String> {
        let reach = self.reach(server)?;
        let (who, deadline) = {
            let state = self.state();
            (state.credentials.clone(), state.deadline)
        };
        let line = ControlConnection::open(&reach, &who, deadline).await.map_err(|error| error.to_string())?;
        line.close().await;
        Ok(())
    }

    fn reach(&self, server: &ServerName) -> Result<Address, String> {
        let known = self.shared.snapshots.borrow().server(server).map(|s| s.reach.clone());
        known.ok_or_else(|| format!("{server} is not part of the fleet any more"))
    }

    fn take_line(&self, server: &ServerName, reach: &Address) -> (Credentials, Duration, Option<ControlConnection>) {
        let mut state = self.state();
        state.lines.retain(|_, spare| spare.since.elapsed() < KEEP);
        let spare = state.lines.remove(server).filter(|spare| spare.reach == *reach);
        (state.credentials.clone(), state.deadline, spare.map(|spare| spare.line))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Every change is one assignment or insertion.
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn words(error: &AskError, who: &Credentials) -> String {
    if error.is_denied() {
        let user = who.user.as_deref().unwrap_or("headroom");
        return format!("{error}; to mend it: GRANT PROCESS ON *.* TO '{user}'@...");
    }
    error.to_string()
}

fn read(rows: &Rows) -> IdleSessions {
    let mut sessions = IdleSessions::default();
    for row in rows.iter() {
        let in_transaction = row.filled(&["trx"]).is_some();
        sessions.any_transaction |= in_transaction;
        // Replication and the server's own threads have no address; they are nobody's connections.
        let Some(client) = row.filled(&["host"]).and_then(client) else { continue };
        let sleeps = row.filled(&["command"]).is_some_and(|command| command.eq_ignore_ascii_case("sleep"));
        if sleeps && !in_transaction {
            sessions.idle.insert(client)
        } else {
            sessions.busy.insert(client)
        };
    }
    sessions
}

/// `10.0.0.7:51234`; a server that resolves names shows them instead, and is matched by nobody.
fn client(host: &str) -> Option<SocketAddr> {
    let (ip, port) = host.rsplit_once(':')?;
    let ip: IpAddr = ip.trim_matches(['[', ']']).parse().ok()?;
    Some(SocketAddr::new(ip.to_canonical(), port.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(of: &[(&str, &str, Option<&str>)]) -> Rows {
        let columns = ["id", "host", "command", "trx"].map(str::to_owned);
        let row = |(host, command, trx): &(&str, &str, Option<&str>)| {
            vec![
                Some("1".to_owned()),
                Some((*host).to_owned()),
                Some((*command).to_owned()),
                trx.map(str::to_owned),
            ]
        };
        Rows::new(columns, of.iter().map(row).collect())
    }

    #[test]
    fn a_session_that_sleeps_outside_a_transaction_is_idle_and_no_other() {
        let read = read(&rows(&[
            ("10.0.0.7:1001", "Sleep", None),
            ("10.0.0.7:1002", "Query", None),
            ("::1:1003", "Sleep", Some("9")),
            ("app.example:1004", "Sleep", None),
            ("localhost", "Sleep", None),
        ]));
        let at = |text: &str| text.parse::<SocketAddr>().unwrap();
        assert_eq!(read.idle, [at("10.0.0.7:1001")].into());
        assert_eq!(read.busy, [at("10.0.0.7:1002"), at("[::1]:1003")].into());
        assert!(read.any_transaction);
    }
}
