//! Whether the old primary is still closed, just before the candidate takes writes.
//!
//! Between the freeze and the promotion it may have been restarted by whoever supervises it, writable, or
//! opened by hand. What it takes then is on no other server, and a promotion would lose it beside a second
//! writer. So it is asked once more: one that answers must refuse writes as the freeze left it, and have
//! nothing beyond what the candidate was waited for. One that gives no answer may be dead, and keeps nobody
//! waiting.
//!
//! The same may have happened after the promotion, where the tool was killed then: whoever goes on may come
//! hours later. So before the former primary follows, it is compared once more, closed to writes.
//!
//! A failover has the same question where no command fenced: relay logs may take minutes to apply, and a
//! primary that was dead may be back, writable, and without semi-sync. What it acknowledges then would be
//! lost.

use super::Plan;
use super::forward::position_of;
use super::servers::{READ_ONLY, Servers, takes_writes};
use crate::Error;
use crate::dialect::Dialect;
use crate::facts;
use crate::failover::rejoin::{self, OwnTransactions};
use fleet::announcement::FREEZE;
use observe::AskError;
use std::time::Duration;

/// One that does not answer by then is silent: clients wait meanwhile.
const LOOK: Duration = Duration::from_secs(1);
/// The same of one that was confirmed dead: usually it refuses at once, or its host has vanished.
const DEAD: Duration = Duration::from_millis(500);

/// What it says of itself.
#[derive(Clone, Debug, PartialEq)]
struct Look {
    /// Its switch, in its own words.
    switch: String,
    /// The session that holds [`FREEZE`] is ours, and with it the read lock, where there is one.
    locked: bool,
    position: String,
}

/// Passes where the old primary is as *await* left it, or does not answer.
///
/// # Errors
/// It may take writes, or took some since; or nobody waited for its last writes.
pub(super) async fn is_still_closed(plan: &Plan, servers: &mut Servers<'_>) -> Result<(), Error> {
    let primary = &plan.primary;
    let Some(awaited) = servers.awaited.clone() else {
        let why = "was not waited for until it had the last writes: begin again".to_owned();
        return Err(Error::Refused { server: plan.candidate.server(), why });
    };
    let mut seen = look(plan, servers).await;
    // A connection that ended says nothing of the server: it may have been restarted.
    if let Some(Err(Error::Server { source, .. })) = &seen
        && source.is_fatal()
    {
        servers.forget(primary);
        seen = look(plan, servers).await;
    }
    let opened = match seen {
        Some(Ok(seen)) => opened(primary.dialect(), &seen, &awaited),
        Some(Err(error)) if answered(&error) => return Err(error),
        None | Some(Err(_)) => None,
    };
    opened.map_or(Ok(()), |why| Err(Error::Refused { server: primary.server(), why }))
}

/// `None` when it is silent for too long.
async fn look(plan: &Plan, servers: &mut Servers<'_>) -> Option<Result<Look, Error>> {
    let (primary, deadline) = (&plan.primary, servers.deadline());
    let freezer = servers.freezer.as_ref().map(|freezer| freezer.id().to_string());
    let switch = primary.dialect().freeze_switch();
    let looked = async {
        let ask = format!("SELECT {switch} AS switch, IS_USED_LOCK('{FREEZE}') AS holder");
        let mut rows = servers.of(primary).await?.ask(&ask, deadline).await?;
        let mut row = rows.pop().unwrap_or_default();
        let (switch, holder) = (row.remove("switch").unwrap_or_default(), row.remove("holder"));
        // Read last: once it is closed nothing is added.
        let position = position_of(primary, servers).await?;
        Ok(Look { switch, locked: holder.is_some() && holder == freezer, position })
    };
    tokio::time::timeout(LOOK, looked).await.ok()
}

/// Passes where the former primary, which is closed to writes, has written nothing that the candidate lacks.
///
/// # Errors
/// It has: clients may have been told that this is safe, and a replica would keep it for itself.
pub(super) async fn has_nothing_of_its_own(plan: &Plan, servers: &mut Servers<'_>) -> Result<(), Error> {
    let Some(own) = own(plan, servers).await? else { return Ok(()) };
    let why = format!(
        "has {own} that {} does not have: it took writes since that was promoted. It is closed to \
         writes and follows nobody",
        plan.candidate.name
    );
    Err(Error::Refused { server: plan.primary.server(), why })
}

/// The same once it follows: where the read lock kept administrators out, their writes may have ended after
/// it was given back.
///
/// # Errors
/// One did.
pub(super) async fn wrote_nothing_meanwhile(plan: &Plan, servers: &mut Servers<'_>) -> Result<(), Error> {
    let Some(own) = own(plan, servers).await? else { return Ok(()) };
    let why = format!(
        "has {own} that {} does not have: an administrator wrote to it when its read lock was given back. It is closed \
         to the writes of others, and its replication is stopped again",
        plan.candidate.name
    );
    Err(Error::Refused { server: plan.primary.server(), why })
}

/// What the former primary wrote and the candidate lacks.
async fn own(plan: &Plan, servers: &mut Servers<'_>) -> Result<Option<OwnTransactions>, Error> {
    let (primary, candidate) = (&plan.primary, &plan.candidate);
    let mut histories = Vec::new();
    // The former primary first: what it replicates in between is no difference.
    for member in [primary, candidate] {
        let history = servers.scalar(member, rejoin::history(member.dialect())).await?;
        histories.push(history.unwrap_or_default().replace(['\n', ' '], ""));
    }
    if primary.dialect().is_mariadb() {
        // It logs nothing of what changed nothing there: a statement that met no row, a temporary table.
        let replicated = servers.scalar(candidate, "SELECT @@GLOBAL.gtid_slave_pos").await?;
        histories[1] = format!("{},{}", histories[1], replicated.unwrap_or_default());
    }
    let (of_old, of_new) = (&histories[0], &histories[1]);
    let own = match primary.dialect().is_mariadb() {
        // What others wrote before it a candidate that was rebuilt may not know by name. A journal of an
        // older version does not tell which of it the former primary wrote.
        true if plan.primary_id != 0 => {
            rejoin::written_by(plan.primary_id, of_old, of_new).map(|written| written.lacking)
        }
        _ => rejoin::own_transactions(primary.dialect().0.flavour, of_old, of_new),
    };
    own.map_err(|error| Error::Refused { server: primary.server(), why: error.to_string() })
}

/// Passes unless the dead primary of a failover is back and takes writes. Asked over a connection of its own:
/// the operation holds no lock there.
///
/// # Errors
/// It takes writes.
pub(super) async fn is_still_dead(plan: &Plan, servers: &Servers<'_>) -> Result<(), Error> {
    let (opening, deadline) = (servers.opening(&plan.primary), servers.deadline());
    let asked = async {
        let mut connection = opening.await?;
        let read_only = connection.scalar(READ_ONLY, deadline).await?;
        connection.close().await;
        Ok::<_, Error>(takes_writes(read_only.as_deref()))
    };
    match tokio::time::timeout(DEAD, asked).await {
        Ok(Ok(true)) => {
            let why = "is back and takes writes; nothing was promoted".to_owned();
            Err(Error::Refused { server: plan.primary.server(), why })
        }
        _ => Ok(()),
    }
}

/// Whether the server said something, and be it no.
fn answered(error: &Error) -> bool {
    !matches!(error, Error::Server { source, .. } if !matches!(source, AskError::Answered { .. }))
}

/// Why the candidate must not take writes beside a primary that says this; `None` where it may. Pure.
fn opened(dialect: Dialect, seen: &Look, awaited: &str) -> Option<String> {
    if !dialect.is_frozen(&seen.switch, seen.locked) {
        return Some(
            "is not closed to writes any more: it was restarted, or opened by somebody; nothing was promoted"
                .to_owned(),
        );
    }
    let more = facts::beyond(dialect.0.flavour, &seen.position, awaited)?;
    Some(format!("has {more}, written after the candidate was waited for; nothing was promoted"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perform::FenceBy;
    use crate::perform::tests::{failover, logins};
    use lab::scripted::{Reply, Script, ScriptedServer};

    #[tokio::test]
    async fn a_dead_primary_that_is_back_and_writable_keeps_the_candidate_from_being_promoted() {
        let logins = logins();
        for (read_only, passes) in [("0", false), ("OFF", false), ("1", true), ("NO_LOCK_NO_ADMIN", true)] {
            let script = Script::new("10.11.6-MariaDB", move |statement, _| match statement {
                READ_ONLY => Reply::value("read_only", read_only),
                _ => Reply::Usual,
            });
            let server = ScriptedServer::start(script).await.unwrap();
            let mut plan = failover(FenceBy::Nothing);
            plan.primary.reach = server.address().to_string();
            let seen = is_still_dead(&plan, &Servers::new(&plan, &logins)).await;
            assert_eq!(seen.is_ok(), passes, "{read_only}: {seen:?}");
            assert!(seen.is_ok() || seen.unwrap_err().to_string().contains("a1: is back and takes writes"));
            drop(server);
            assert!(is_still_dead(&plan, &Servers::new(&plan, &logins)).await.is_ok(), "nobody listens");
        }
    }

    #[tokio::test]
    async fn what_the_candidate_replicated_and_had_nothing_to_log_of_is_not_the_old_primarys_own() {
        let logins = logins();
        let server = async |state: &'static str, replicated: &'static str| {
            let script = Script::new("10.11.6-MariaDB", move |statement, _| match statement {
                "SELECT @@GLOBAL.gtid_binlog_state" => Reply::value("state", state),
                "SELECT @@GLOBAL.gtid_slave_pos" => Reply::value("replicated", replicated),
                _ => Reply::Usual,
            });
            ScriptedServer::start(script).await.unwrap()
        };
        // The other two: it was written to since, and the candidate was a primary before.
        for (of_old, replicated, passes) in
            [("0-11-105", "0-11-105", true), ("0-11-106", "0-11-105", false), ("0-11-104", "0-12-90", true)]
        {
            let (old, new) = (server(of_old, "").await, server("0-11-104,0-12-107", replicated).await);
            let mut plan = failover(FenceBy::Nothing);
            plan.primary.reach = old.address().to_string();
            plan.candidate.reach = new.address().to_string();
            let seen = has_nothing_of_its_own(&plan, &mut Servers::new(&plan, &logins)).await;
            assert_eq!(seen.is_ok(), passes, "{of_old}: {seen:?}");
            // An older journal does not tell its number: whatever the candidate lacks by name counts.
            plan.primary_id = 0;
            let seen = has_nothing_of_its_own(&plan, &mut Servers::new(&plan, &logins)).await;
            assert_eq!(seen.is_ok(), passes, "{of_old}, of nobody: {seen:?}");
        }
    }

    #[test]
    fn a_primary_that_is_open_or_has_more_keeps_the_candidate_from_being_promoted() {
        let dialect = |version: &str| Dialect(version.parse().unwrap());
        let seen = |switch: &str, locked, position: &str| Look {
            switch: switch.to_owned(),
            locked,
            position: position.to_owned(),
        };
        let why = |version: &str, seen: Look, awaited: &str| opened(dialect(version), &seen, awaited);
        let (older, newer, mysql) = ("10.11.6-MariaDB", "12.1.2-MariaDB", "8.4.2");
        let uuid = "3e11fa47-71ca-11e1-9e33-c80aa9429562";
        let (to_5, to_6) = (format!("{uuid}:1-5"), format!("{uuid}:1-6"));
        assert_eq!(why(older, seen("1", true, "0-1-5"), "0-1-5"), None);
        assert_eq!(why(newer, seen("NO_LOCK_NO_ADMIN", true, "0-1-5"), "0-1-5"), None);
        assert_eq!(why(mysql, seen("1", true, &to_5), &to_5), None);
        // It lost what the candidate has: its disk did not keep it over a crash.
        assert_eq!(why(mysql, seen("1", false, &to_5), &to_6), None);
        for open in [
            why(older, seen("0", true, "0-1-5"), "0-1-5"),
            why(older, seen("1", false, "0-1-5"), "0-1-5"),
            why(newer, seen("ON", true, "0-1-5"), "0-1-5"),
            why(mysql, seen("0", true, &to_5), &to_5),
            why(mysql, seen("", true, &to_5), &to_5),
        ] {
            assert!(open.as_ref().is_some_and(|why| why.contains("not closed")), "{open:?}");
        }
        assert!(why(older, seen("1", true, "0-1-6"), "0-1-5").unwrap().starts_with("has 0-1-6"));
        assert!(why(mysql, seen("1", true, &to_6), &to_5).unwrap().contains(":6"));
    }
}
