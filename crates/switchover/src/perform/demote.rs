//! The former primary follows the new one, closed to writes all the while.

use super::forward::TRANSACTIONS_POLL;
use super::servers::Servers;
use super::{Plan, closed, takeover};
use crate::Error;
use crate::connection::{Connection, Named};
use crate::dialect::Source;
use crate::facts::{self, Blocker};
use std::time::{Duration, Instant};

/// Writes of administrators, whom `read_only` alone does not keep out.
#[derive(Clone, Copy)]
enum Writes {
    /// They wait for the read lock: they would happen on the former primary the moment it is given back, and
    /// be acknowledged there alone.
    Queued,
    /// They were begun or went on when it was given back, and are not committed yet: one may take longer than
    /// the former primary takes to follow.
    Running,
}

/// Ends the sessions of such writes. Whoever is only reading stays.
async fn end_writes(writes: Writes, plan: &Plan, servers: &mut Servers<'_>) -> Result<(), Error> {
    let deadline = servers.deadline();
    let until = Instant::now() + deadline;
    loop {
        let primary = servers.of(&plan.primary).await?;
        let (found, detail) = match writes {
            Writes::Queued => (
                facts::queued_writes(primary, deadline).await?,
                "; the read lock is given back when this program ends",
            ),
            Writes::Running => (
                running_writes(primary, deadline).await?,
                "; it may write there what no other server has, although that follows now",
            ),
        };
        let Some(first) = found.first() else { return Ok(()) };
        if Instant::now() >= until {
            return Err(Error::TooLate {
                server: plan.primary.server(),
                what: format!("session {} of {} cannot be ended", first.session, first.who),
                seconds: deadline.as_secs_f64(),
                detail: detail.to_owned(),
            });
        }
        for blocker in &found {
            // It may have ended by itself (error 1094).
            let _ = servers.run(&plan.primary, &format!("KILL {}", blocker.session)).await;
        }
        tokio::time::sleep(TRANSACTIONS_POLL).await;
    }
}

/// Sessions of clients that have changed something, or run a statement that locks what it may change: an
/// UPDATE that reads for minutes before it finds a row. A SELECT that locks loses nothing, and its session is
/// not cut; should it change something after all (a function), that is seen then.
async fn running_writes(conn: &mut Connection, deadline: Duration) -> Result<Vec<Blocker>, Error> {
    const ASK: &str = "SELECT p.id AS id, CONCAT(p.user, '@', p.host) AS who, COALESCE(p.state, '') AS what, \
        p.time AS seconds, t.trx_rows_modified AS changed, LEFT(p.info, 1000) AS statement \
        FROM information_schema.PROCESSLIST p \
        JOIN information_schema.INNODB_TRX t ON t.trx_mysql_thread_id = p.id \
        WHERE p.id <> CONNECTION_ID() AND p.user NOT IN ('system user', 'event_scheduler') \
        AND (t.trx_rows_modified > 0 OR (p.command <> 'Sleep' AND t.trx_tables_locked > 0))";
    let rows = conn.ask(ASK, deadline).await?;
    let running = |row: &Named| {
        Some(Blocker {
            session: row.get("id")?.parse().ok()?,
            who: row.get("who").cloned().unwrap_or_default(),
            what: row.get("what").cloned().unwrap_or_default(),
            seconds: row.get("seconds").and_then(|seconds| seconds.parse().ok()).unwrap_or(0),
        })
    };
    let only_reads = |row: &&Named| {
        let unchanged = row.get("changed").is_some_and(|rows| rows == "0");
        unchanged && row.get("statement").is_some_and(|statement| is_select(statement))
    };
    Ok(rows.iter().filter(|row| !only_reads(row)).filter_map(running).collect())
}

/// By its first word, behind comments that the server does not execute.
fn is_select(statement: &str) -> bool {
    fn begin(text: &str) -> &str {
        text.trim_start_matches(|c: char| c.is_whitespace() || c == '(')
    }
    let mut rest = begin(statement);
    while let Some(comment) = rest.strip_prefix("/*") {
        if comment.starts_with('!') || comment.starts_with("M!") {
            return false;
        }
        let Some((_, behind)) = comment.split_once("*/") else { return false };
        rest = begin(behind);
    }
    let word = rest.split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or_default();
    ["SELECT", "WITH"].iter().any(|select| word.eq_ignore_ascii_case(select))
}

/// The former primary follows the new one. It stays read-only throughout.
pub(super) async fn demote(plan: &Plan, servers: &mut Servers<'_>) -> Result<(), Error> {
    let (primary, dialect) = (&plan.primary, plan.primary.dialect());
    if servers.freezer.is_some() && !dialect.read_only_binds_administrators() {
        // Where one cannot be ended the read lock stays: that write would happen the moment it is given back.
        end_writes(Writes::Queued, plan, servers).await?;
    }
    if let Some(freezer) = servers.freezer.take() {
        freezer.close().await;
    }
    servers.run(primary, dialect.refuse_as_replica()).await?;
    closed::has_nothing_of_its_own(plan, servers).await?;
    if plan.semi_sync {
        let has = primary.semi_sync;
        let switches =
            [has.source.map(|switch| switch.set(false)), has.replica.map(|switch| switch.set(true))];
        for statement in switches.into_iter().flatten() {
            servers.run(primary, &statement).await?;
        }
    }
    let (deadline, logins) = (servers.deadline(), servers.logins);
    // Whoever resumes tells it a second time: while its threads run it refuses that (errors 1198, 3021).
    let channels = facts::channels(servers.of(primary).await?, dialect, deadline).await?;
    if !channels.is_empty() {
        let limit = deadline.max(takeover::RECEIVER_STOPS);
        servers.run_within(primary, dialect.stop_replication(), limit).await?;
    }
    let (user, password) = &logins.replication;
    let login = Some((user.as_str(), password.as_str()));
    let protection = &plan.protection;
    let source = Source { host: &plan.candidate.host, port: plan.candidate.port, login, protection };
    let followed = servers.of(primary).await?.follow(dialect, &source, deadline).await;
    if followed.is_err() {
        servers.forget(primary);
        return followed;
    }
    if dialect.read_only_binds_administrators() {
        return Ok(());
    }
    // A write of an administrator that had waited for the read lock may have ended since it was looked at, or
    // go on: one that is not ended commits after the comparison.
    let ended = end_writes(Writes::Running, plan, servers).await;
    let Err(error) = closed::wrote_nothing_meanwhile(plan, servers).await else { return ended };
    if !matches!(error, Error::Refused { .. }) {
        // It could not be asked: it goes on following.
        return Err(error);
    }
    let limit = deadline.max(takeover::RECEIVER_STOPS);
    if let Err(stopping) = servers.run_within(primary, dialect.stop_replication(), limit).await {
        let why = format!("{error}; and its replication is not stopped: {stopping}");
        return Err(Error::Refused { server: primary.server(), why });
    }
    Err(error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perform::tests::{failover, logins};
    use crate::perform::{FenceBy, Kind};
    use lab::scripted::{Reply, Script, ScriptedServer};
    use std::sync::{Arc, Mutex};

    #[tokio::test]
    async fn a_write_that_had_waited_for_the_read_lock_is_found_after_the_primary_follows() {
        let server = async |meanwhile: &'static str| {
            let told = Arc::new(Mutex::new(Vec::<String>::new()));
            let heard = told.clone();
            let script = Script::new("10.11.6-MariaDB", move |statement, _| {
                let mut told = heard.lock().unwrap();
                told.push(statement.to_owned());
                let follows = told.iter().any(|statement| statement == "START SLAVE");
                match statement {
                    "SELECT @@GLOBAL.gtid_binlog_state" if follows => Reply::value("state", meanwhile),
                    "SELECT @@GLOBAL.gtid_binlog_state" => Reply::value("state", "0-11-104"),
                    "SELECT @@GLOBAL.gtid_slave_pos" => Reply::value("replicated", "0-11-104"),
                    "SHOW ALL SLAVES STATUS" => Reply::rows(&["Connection_name"], &[]),
                    "START SLAVE" | "STOP SLAVE" => Reply::Ok,
                    _ if statement.contains("trx_tables_locked") => Reply::rows(&["id"], &[]),
                    _ if statement.starts_with("CHANGE MASTER TO") => Reply::Ok,
                    _ => Reply::Usual,
                }
            });
            (ScriptedServer::start(script).await.unwrap(), told)
        };
        let (new, _) = server("0-11-104").await;
        for (meanwhile, passes) in [("0-11-104", true), ("0-11-104,0-12-105", true), ("0-11-105", false)] {
            let (old, told) = server(meanwhile).await;
            let mut plan = Plan { kind: Kind::Switchover, ..failover(FenceBy::Nothing) };
            plan.primary.reach = old.address().to_string();
            plan.candidate.reach = new.address().to_string();
            let logins = logins();
            let followed = demote(&plan, &mut Servers::new(&plan, &logins)).await;
            assert_eq!(followed.is_ok(), passes, "{meanwhile}: {followed:?}");
            let stopped = told.lock().unwrap().iter().any(|statement| statement == "STOP SLAVE");
            assert_eq!(stopped, !passes, "{meanwhile}");
            if let Err(error) = followed {
                assert!(error.to_string().contains("has 0-11-105"), "{error}");
            }
        }
    }

    #[tokio::test]
    async fn a_long_write_that_goes_on_while_the_primary_follows_is_ended_before_it_is_compared() {
        let server = async |ends: bool| {
            let told = Arc::new(Mutex::new(Vec::<String>::new()));
            let heard = told.clone();
            let script = Script::new("10.11.6-MariaDB", move |statement, _| {
                let mut told = heard.lock().unwrap();
                told.push(statement.to_owned());
                let killed = ends && told.iter().any(|statement| statement == "KILL 77");
                match statement {
                    "SELECT @@GLOBAL.gtid_binlog_state" => Reply::value("state", "0-11-104"),
                    "SELECT @@GLOBAL.gtid_slave_pos" => Reply::value("replicated", "0-11-104"),
                    "SHOW ALL SLAVES STATUS" => Reply::rows(&["Connection_name"], &[]),
                    "START SLAVE" | "KILL 77" => Reply::Ok,
                    _ if statement.contains("trx_tables_locked") && killed => Reply::rows(&["id"], &[]),
                    _ if statement.contains("trx_tables_locked") => {
                        Reply::rows(&["id", "who"], &[&[Some("77"), Some("root@localhost")]])
                    }
                    _ if statement.starts_with("CHANGE MASTER TO") => Reply::Ok,
                    _ => Reply::Usual,
                }
            });
            (ScriptedServer::start(script).await.unwrap(), told)
        };
        let (new, _) = server(true).await;
        for ends in [true, false] {
            let (old, told) = server(ends).await;
            let mut plan = Plan { kind: Kind::Switchover, ..failover(FenceBy::Nothing) };
            plan.primary.reach = old.address().to_string();
            plan.candidate.reach = new.address().to_string();
            plan.deadlines.statement_ms = 1_000;
            let logins = logins();
            let followed = demote(&plan, &mut Servers::new(&plan, &logins)).await;
            assert_eq!(followed.is_ok(), ends, "{followed:?}");
            if let Err(error) = followed {
                let error = error.to_string();
                assert!(error.contains("session 77 of root@localhost cannot be ended"), "{error}");
                assert!(error.contains("what no other server has"), "{error}");
            }
            let told = told.lock().unwrap();
            let at = |words: &str| told.iter().rposition(|statement| statement.contains(words)).unwrap();
            assert!(at("START SLAVE") < at("KILL 77"), "{told:?}");
            assert!(!ends || at("KILL 77") < at("gtid_binlog_state"), "{told:?}");
        }
    }

    #[tokio::test]
    async fn a_session_that_only_reads_what_it_locks_is_not_ended() {
        let script = Script::new("10.11.6-MariaDB", |statement, _| {
            if !statement.contains("trx_tables_locked") {
                return Reply::Usual;
            }
            Reply::rows(
                &["id", "changed", "statement"],
                &[
                    &[Some("7"), Some("0"), Some("SELECT id FROM t FOR UPDATE")],
                    &[Some("8"), Some("0"), Some("/* app */ (select 1 from t lock in share mode)")],
                    &[Some("9"), Some("3"), Some("SELECT id FROM t FOR UPDATE")],
                    &[Some("10"), Some("0"), Some("UPDATE t SET a = 1 WHERE b = 2")],
                    &[Some("11"), Some("0"), Some("/*!50000 UPDATE */ t SET a = 1")],
                    &[Some("12"), Some("0"), None],
                ],
            )
        });
        let server = ScriptedServer::start(script).await.unwrap();
        let mut plan = Plan { kind: Kind::Switchover, ..failover(FenceBy::Nothing) };
        plan.primary.reach = server.address().to_string();
        let logins = logins();
        let mut servers = Servers::new(&plan, &logins);
        let (deadline, primary) = (servers.deadline(), servers.of(&plan.primary).await.unwrap());
        let found = running_writes(primary, deadline).await.unwrap();
        let sessions: Vec<u64> = found.iter().map(|writer| writer.session).collect();
        assert_eq!(sessions, [9, 10, 11, 12]);
    }

    #[tokio::test]
    async fn the_read_lock_is_kept_while_a_write_that_waits_for_it_cannot_be_ended() {
        let script = Script::new("10.11.6-MariaDB", |statement, _| match statement {
            "KILL 77" => Reply::Ok,
            _ if statement.contains("global read lock") => Reply::rows(&["id"], &[&[Some("77")]]),
            _ => Reply::Usual,
        });
        let server = ScriptedServer::start(script).await.unwrap();
        let mut plan = Plan { kind: Kind::Switchover, ..failover(FenceBy::Nothing) };
        plan.primary.reach = server.address().to_string();
        plan.deadlines.statement_ms = 1_000;
        let logins = logins();
        let mut servers = Servers::new(&plan, &logins);
        servers.freezer = Some(servers.another(&plan.primary).await.unwrap());
        let error = demote(&plan, &mut servers).await.unwrap_err().to_string();
        assert!(error.contains("the read lock is given back when this program ends"), "{error}");
        assert!(servers.freezer.is_some(), "it is what keeps that write out");
    }
}
