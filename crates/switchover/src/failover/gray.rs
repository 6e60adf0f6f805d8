//! Whether a primary that answers is gray: its commits hang, and for no reason that a failover would not
//! mend.
//!
//! Asked of the primary itself, without a write, several times over some time: its position must not move,
//! and commits must be under way all the while. Those that wait for an acknowledgement of a replica, for a
//! lock of a backup or for the global read lock hang too, and promoting somebody would not help; then who
//! holds it is for a person to find out. A full disk is named: MariaDB's session that wants to write its
//! binary log says that it waits for space, and the others that commit wait for it.

use super::confirm::Rule;
use crate::Error;
use crate::connection::{BRIEFLY, Connection, Named};
use crate::dialect::Dialect;
use config::Credentials;
use fleet::{Address, ServerName};
use std::time::{Duration, Instant};

const PAUSE: Duration = Duration::from_millis(250);

/// One look.
#[derive(Clone, Debug, Default, PartialEq)]
struct Look {
    position: String,
    /// Commits under way, by what they wait for in the server's words.
    commits: Vec<String>,
}

/// Looks until it is sure; the evidence in words.
///
/// # Errors
/// It does not answer, its commits end, none is under way, or they wait for something else.
pub async fn confirm(
    server: &ServerName,
    reach: &Address,
    who: &Credentials,
    rule: &Rule,
    deadline: Duration,
) -> Result<String, Error> {
    let mut conn = Connection::open(server, reach, who, deadline, BRIEFLY).await?;
    let version = conn.scalar("SELECT @@version", deadline).await?.unwrap_or_default();
    let unreadable = |error| Error::Refused { server: server.clone(), why: format!("{error}") };
    let dialect = Dialect(version.parse().map_err(unreadable)?);
    let (began, mut looks) = (Instant::now(), Vec::new());
    let found = loop {
        looks.push(look(&mut conn, dialect, deadline).await?);
        match judge(&looks) {
            Err(why) => break Err(Error::Refused { server: server.clone(), why }),
            Ok(evidence) if looks.len() >= rule.looks && began.elapsed() >= rule.over => {
                break Ok(format!("{evidence} for {:.1} s", began.elapsed().as_secs_f64()));
            }
            Ok(_) => tokio::time::sleep(PAUSE).await,
        }
    };
    conn.close().await;
    found
}

async fn look(conn: &mut Connection, dialect: Dialect, deadline: Duration) -> Result<Look, Error> {
    let position = conn.scalar(dialect.position(), deadline).await?.unwrap_or_default();
    // Not from information_schema: that takes a temporary table, on the disk that may be the one that stalls.
    let rows = conn.ask("SHOW FULL PROCESSLIST", deadline).await?;
    Ok(Look { position, commits: rows.iter().filter_map(commit).collect() })
}

/// What a session that commits waits for; `None` for any other session.
fn commit(row: &Named) -> Option<String> {
    let column = |name: &str| row.get(name).map_or("", String::as_str);
    let (state, info) = (column("state"), column("info").trim_start());
    // One that was killed hangs all the same.
    if !matches!(column("command"), "Query" | "Execute" | "Killed") {
        return None;
    }
    let word = |word: &str| info.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word));
    let commits =
        word("COMMIT") || state.to_ascii_lowercase().contains("commit") || is_for_another_reason(state)
            || waits_for_space(state);
    commits.then(|| state.to_owned())
}

/// States of both flavours in which a commit waits for something that the next primary would not change.
fn is_for_another_reason(state: &str) -> bool {
    let state = state.to_ascii_lowercase();
    ["semi-sync ack", "global read lock", "backup lock", "commit lock"]
        .iter()
        .any(|part| state.contains(part))
}

fn waits_for_space(state: &str) -> bool {
    state.eq_ignore_ascii_case("Waiting for someone to free space")
}

/// Whether what was seen so far allows the verdict. Pure.
fn judge(looks: &[Look]) -> Result<String, String> {
    let (Some(first), Some(last)) = (looks.first(), looks.last()) else {
        return Err("was not looked at".to_owned());
    };
    if first.position != last.position {
        return Err(format!("commits: its position went from {} to {}", first.position, last.position));
    }
    let Some(fewest) = looks.iter().map(|look| look.commits.len()).min().filter(|fewest| *fewest > 0) else {
        return Err("has no commit under way: nothing hangs, or nobody writes".to_owned());
    };
    if let Some(state) = last.commits.iter().find(|state| is_for_another_reason(state)) {
        return Err(format!(
            "has commits that wait in the state '{state}': that is no failure of the server, and another primary would \
             not mend it"
        ));
    }
    let full = last.commits.iter().any(|state| waits_for_space(state));
    let disk = if full { "; its disk is full" } else { "" };
    Ok(format!("it answers, and at least {fewest} commits have been under way and none has ended{disk}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(position: &str, commits: &[&str]) -> Look {
        Look { position: position.to_owned(), commits: commits.iter().map(|s| (*s).to_owned()).collect() }
    }

    #[test]
    fn commits_that_hang_are_gray_and_those_that_wait_for_somebody_are_not() {
        assert!(judge(&[look("0-1-5", &["Commit"]), look("0-1-5", &["Commit", "Commit"])]).is_ok());
        let moved = judge(&[look("0-1-5", &["Commit"]), look("0-1-6", &["Commit"])]).unwrap_err();
        assert!(moved.contains("0-1-6"), "{moved}");
        let full = judge(&[look("0-1-5", &["Commit", "Waiting for someone to free space"])]).unwrap();
        assert!(full.contains("its disk is full"), "{full}");
        let idle = judge(&[look("0-1-5", &["Commit"]), look("0-1-5", &[])]).unwrap_err();
        assert!(idle.contains("no commit under way"), "{idle}");
        let acked = judge(&[look("0-1-5", &["Waiting for semi-sync ACK from slave"])]).unwrap_err();
        assert!(acked.contains("semi-sync ACK"), "{acked}");
    }

    #[test]
    fn a_commit_is_known_by_its_text_or_its_state() {
        let row = |command: &str, state: &str, info: &str| {
            Named::from([
                ("command".to_owned(), command.to_owned()),
                ("state".to_owned(), state.to_owned()),
                ("info".to_owned(), info.to_owned()),
            ])
        };
        assert!(commit(&row("Query", "starting", "COMMIT")).is_some());
        assert!(commit(&row("Query", "Commit", "INSERT INTO t VALUES (1)")).is_some());
        assert!(commit(&row("Query", "Waiting for backup lock", "INSERT INTO t VALUES (1)")).is_some());
        assert!(commit(&row("Query", "Waiting for someone to free space", "INSERT INTO t VALUES (1)")).is_some());
        assert!(commit(&row("Query", "Updating", "UPDATE t SET a = 1")).is_none());
        assert!(commit(&row("Sleep", "", "COMMIT")).is_none());
        assert!(commit(&row("Binlog Dump", "commit", "")).is_none());
    }
}
