//! Whether a primary that answers is gray: its commits hang, and for no reason that a failover would not
//! mend.
//!
//! Asked of the primary itself, without a write, several times over some time: its position must not move,
//! and commits must be under way all the while. Where a data file has to grow first, statements hang before
//! their commit: those that wait for no lock count when no page has changed.
//!
//! Commits that wait for an acknowledgement of a replica, for a lock of a backup or for the global read lock
//! hang too, and promoting somebody would not help; then who holds it is for a person to find out. A full
//! disk is named: MariaDB's session that wants to write its binary log says that it waits for space, and the
//! others that commit wait for it.

use super::confirm::Rule;
use crate::Error;
use crate::connection::{BRIEFLY, Connection, Named};
use crate::dialect::Dialect;
use config::Credentials;
use fleet::{Address, ServerName};
use std::time::{Duration, Instant};

const PAUSE: Duration = Duration::from_millis(250);
/// One that answers at all does so at once.
const ENGINE: Duration = Duration::from_secs(1);

/// One look.
#[derive(Clone, Debug, Default, PartialEq)]
struct Look {
    position: String,
    /// Commits under way, by what they wait for in the server's words.
    commits: Vec<String>,
    /// Statements under way that write, and have not come to their commit.
    writes: usize,
    engine: Option<Engine>,
}

/// What the storage engine says of itself; it may not answer while its disk hangs.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Engine {
    /// Transactions that wait for a row.
    waiting: usize,
    /// Changes of pages since the server's start.
    changes: u64,
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
    // Apart, because it may hang.
    let mut engine = Some(Connection::open(server, reach, who, deadline, BRIEFLY).await?);
    let (began, mut looks) = (Instant::now(), Vec::new());
    let found = loop {
        let mut seen = look(&mut conn, dialect, deadline).await?;
        if let Some(asked) = &mut engine {
            seen.engine = ask_engine(asked, deadline.min(ENGINE)).await;
            engine = engine.filter(|_| seen.engine.is_some());
        }
        looks.push(seen);
        match judge(&looks) {
            Err(why) => break Err(Error::Refused { server: server.clone(), why }),
            Ok(evidence) if looks.len() >= rule.looks && began.elapsed() >= rule.over => {
                let sure = format!("{evidence} for {:.1} s", began.elapsed().as_secs_f64());
                break no_other_reason(&looks)
                    .map(|()| sure)
                    .map_err(|why| Error::Refused { server: server.clone(), why });
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
    let commits: Vec<String> = rows.iter().filter_map(commit).collect();
    let writes = rows.iter().filter(|row| commit(row).is_none() && is_write(row)).count();
    Ok(Look { position, commits, writes, engine: None })
}

async fn ask_engine(conn: &mut Connection, deadline: Duration) -> Option<Engine> {
    const WAITING: &str = "SELECT COUNT(*) FROM information_schema.INNODB_TRX WHERE trx_state = 'LOCK WAIT'";
    const CHANGES: &str = "SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_write_requests'";
    let waiting = conn.scalar(WAITING, deadline).await.ok()??.parse().ok()?;
    let changes = conn.ask(CHANGES, deadline).await.ok()?.first()?.get("value")?.parse().ok()?;
    Some(Engine { waiting, changes })
}

/// A statement that changes rows and waits for nobody that the process list knows of.
fn is_write(row: &Named) -> bool {
    let column = |name: &str| row.get(name).map_or("", String::as_str);
    let word = column("info").split_whitespace().next().unwrap_or_default();
    let writes =
        ["INSERT", "UPDATE", "DELETE", "REPLACE", "LOAD"].iter().any(|w| word.eq_ignore_ascii_case(w));
    matches!(column("command"), "Query" | "Execute" | "Killed")
        && writes
        && !column("state").starts_with("Waiting")
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
    let commits = word("COMMIT")
        || state.to_ascii_lowercase().contains("commit")
        || is_for_another_reason(state)
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
    let fewest = looks.iter().map(|look| look.commits.len()).min().unwrap_or(0);
    if fewest == 0 {
        return hanging_writes(looks);
    }
    let full = last.commits.iter().any(|state| waits_for_space(state));
    let disk = if full { "; its disk is full" } else { "" };
    Ok(format!("it answers, and at least {fewest} commits have been under way and none has ended{disk}"))
}

/// Statements that hang before their commit: none of them waits for a row, and no page has changed. Pure.
fn hanging_writes(looks: &[Look]) -> Result<String, String> {
    let none = || "has no commit under way: nothing hangs, or nobody writes".to_owned();
    let engines: Option<Vec<Engine>> = looks.iter().map(|look| look.engine).collect();
    let Some(engines) = engines else {
        return Err(none() + ", or its storage engine does not say what statements wait for");
    };
    let alone =
        |(look, engine): (&Look, &Engine)| (look.commits.len() + look.writes).saturating_sub(engine.waiting);
    let fewest = looks.iter().zip(&engines).map(alone).min().unwrap_or(0);
    if fewest == 0 {
        return Err(none());
    }
    let (first, last) = (engines.first().map(|e| e.changes), engines.last().map(|e| e.changes));
    if first != last {
        return Err("has no commit under way, and its statements go on changing pages".to_owned());
    }
    Ok(format!(
        "it answers, and at least {fewest} writes have been under way that wait for no lock; none has ended and no page has \
         changed"
    ))
}

/// Any commit may wait for a replica's acknowledgement for a moment; one that is seen waiting in every look
/// does not end for that reason.
fn no_other_reason(looks: &[Look]) -> Result<(), String> {
    let of = |look: &Look| look.commits.iter().find(|state| is_for_another_reason(state)).cloned();
    let states: Option<Vec<String>> = looks.iter().map(of).collect();
    match states.as_deref() {
        Some([state, ..]) => Err(format!(
            "has commits that wait in the state '{state}': that is no failure of the server, and another primary would \
             not mend it"
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(position: &str, commits: &[&str]) -> Look {
        Look {
            position: position.to_owned(),
            commits: commits.iter().map(|s| (*s).to_owned()).collect(),
            writes: 0,
            engine: None,
        }
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
        let waits = look("0-1-5", &["Commit", "Waiting for semi-sync ACK from slave"]);
        let acked = no_other_reason(&[waits.clone(), waits.clone()]).unwrap_err();
        assert!(acked.contains("semi-sync ACK"), "{acked}");
        assert_eq!(no_other_reason(&[waits, look("0-1-5", &["Commit"])]), Ok(()));
    }

    #[test]
    fn writes_that_hang_before_their_commit_are_gray_unless_they_wait_for_a_row_or_change_something() {
        let writes = |writes, waiting, changes| Look {
            writes,
            engine: Some(Engine { waiting, changes }),
            ..look("0-1-5", &[])
        };
        let hang = judge(&[writes(3, 0, 7), writes(2, 0, 7)]).unwrap();
        assert!(hang.contains("at least 2 writes") && hang.contains("none has ended"), "{hang}");
        assert!(judge(&[writes(3, 3, 7), writes(3, 3, 7)]).is_err(), "rows are locked");
        let works = judge(&[writes(1, 0, 7), writes(1, 0, 8)]).unwrap_err();
        assert!(works.contains("go on changing"), "{works}");
        let silent = Look { engine: None, ..writes(3, 0, 7) };
        assert!(judge(&[writes(3, 0, 7), silent]).unwrap_err().contains("does not say"));
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
        assert!(
            commit(&row("Query", "Waiting for someone to free space", "INSERT INTO t VALUES (1)")).is_some()
        );
        assert!(commit(&row("Query", "Updating", "UPDATE t SET a = 1")).is_none());
        assert!(commit(&row("Sleep", "", "COMMIT")).is_none());
        assert!(commit(&row("Binlog Dump", "commit", "")).is_none());
    }
}
