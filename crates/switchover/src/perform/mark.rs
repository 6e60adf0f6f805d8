//! The first write of the new primary: that it is one, and how it came to be one.

use super::forward::{all_of, move_acknowledging};
use super::servers::Servers;
use super::{Member, Plan, acknowledged, takeover};
use crate::Error;
use crate::connection::quoted;
use observe::AskError;
use std::time::Duration;

/// The epochs' table, replicated like any other: whoever finds the fleet later knows what was meant.
const TABLE: &str = "(epoch BIGINT UNSIGNED NOT NULL PRIMARY KEY, primary_server VARCHAR(255) NOT NULL, \
    state VARCHAR(16) NOT NULL, plan MEDIUMTEXT NOT NULL, \
    changed TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6)) \
    ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4";

pub(super) async fn make_table(member: &Member, servers: &mut Servers<'_>) -> Result<(), Error> {
    let deadline = servers.deadline();
    let made = servers.of(member).await?.make_table("switchover", TABLE, deadline).await;
    if made.is_err() {
        servers.forget(member);
    }
    made
}

/// The epoch is written whatever becomes of the rest: without it routers could not tell the new primary from
/// the former one.
pub(super) async fn mark(plan: &Plan, servers: &mut Servers<'_>) -> Result<(), Error> {
    let candidate = &plan.candidate;
    // Past the point of no return, and perhaps long ago: a candidate that restarted meanwhile may refuse
    // writes again.
    servers.run(candidate, candidate.dialect().thaw()).await?;
    let forgotten = forget_source(candidate, servers).await;
    let mut limit = servers.deadline();
    // Its first write waits for an acknowledgement, and nobody follows it yet.
    let may_be_acknowledged = !plan.semi_sync || move_acknowledging(plan, servers).await;
    if !may_be_acknowledged {
        limit = acknowledged::patience(candidate, servers).await;
    }
    let recorded = match record(plan, servers, limit).await {
        Err(error @ Error::Server { source: AskError::Silent { .. }, .. }) if !may_be_acknowledged => {
            let why = format!("{error}: too few are left to acknowledge it (semi-sync)");
            Err(Error::Refused { server: candidate.server(), why })
        }
        recorded => recorded,
    };
    all_of(candidate, [forgotten, recorded])
}

/// The candidate follows nobody any more. One that was restarted since it was promoted may have started its
/// threads by itself (no `skip_slave_start`), and refuses until they are stopped (errors 1198, 3081).
async fn forget_source(candidate: &Member, servers: &mut Servers<'_>) -> Result<(), Error> {
    let dialect = candidate.dialect();
    if servers.run(candidate, dialect.forget_source()).await.is_ok() {
        return Ok(());
    }
    let limit = servers.deadline().max(takeover::RECEIVER_STOPS);
    servers.run_within(candidate, dialect.stop_replication(), limit).await?;
    servers.run(candidate, dialect.forget_source()).await
}

/// Whether or not the row has come there: the candidate may leave the database `headroom` out of what it
/// replicates, and an UPDATE that finds no row succeeds.
async fn record(plan: &Plan, servers: &mut Servers<'_>, limit: Duration) -> Result<(), Error> {
    let candidate = &plan.candidate;
    make_table(candidate, servers).await?;
    let statement = format!(
        "REPLACE INTO headroom.switchover (epoch, primary_server, state, plan) VALUES ({}, {}, 'done', {})",
        plan.epoch,
        quoted(&candidate.name),
        quoted(&plan.text_for_servers())
    );
    servers.run_within(candidate, &statement, limit).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perform::tests::{failover, logins};
    use crate::perform::{FenceBy, Kind};
    use crate::semi_sync::{Name, Switch};
    use lab::scripted::{Reply, Script, ScriptedServer};
    use std::sync::{Arc, Mutex};

    /// What a candidate was told whose threads run, and how that ended. Stopped, it forgets its source or, of
    /// `forgets`, does not.
    async fn told(kind: Kind, forgets: bool) -> (Vec<String>, Result<(), Error>) {
        let told = Arc::new(Mutex::new(Vec::<String>::new()));
        let heard = told.clone();
        let script = Script::new("10.11.6-MariaDB", move |statement, _| {
            let mut told = heard.lock().unwrap();
            told.push(statement.to_owned());
            let stopped = told.iter().any(|statement| statement == "STOP SLAVE");
            match statement {
                "RESET SLAVE ALL" if !(stopped && forgets) => Reply::error(1198, "you have a running slave"),
                "RESET SLAVE ALL" | "STOP SLAVE" => Reply::Ok,
                _ if statement.contains("information_schema.TABLES") => Reply::value("n", "1"),
                _ if statement.starts_with("REPLACE INTO headroom.switchover") => Reply::Ok,
                _ => Reply::Usual,
            }
        });
        let server = ScriptedServer::start(script).await.unwrap();
        let mut plan = Plan { kind, ..failover(FenceBy::Nothing) };
        plan.candidate.reach = server.address().to_string();
        let logins = logins();
        let mut servers = Servers::new(&plan, &logins);
        let ended = mark(&plan, &mut servers).await;
        let told = told.lock().unwrap().clone();
        (told, ended)
    }

    #[tokio::test]
    async fn a_candidate_that_was_restarted_is_stopped_and_the_epoch_is_written_whatever_comes_of_it() {
        for kind in [Kind::Switchover, failover(FenceBy::Nothing).kind] {
            let (statements, ended) = told(kind.clone(), true).await;
            ended.unwrap();
            let resets = statements.iter().filter(|statement| *statement == "RESET SLAVE ALL").count();
            assert_eq!(resets, 2, "{statements:?}");
            assert!(statements.last().unwrap().contains("(3, 'a2', 'done', "), "{statements:?}");
            let (statements, ended) = told(kind, false).await;
            assert!(ended.unwrap_err().to_string().contains("running slave"));
            assert!(statements.last().unwrap().starts_with("REPLACE INTO"), "{statements:?}");
        }
    }
    /// How the mark of a new primary ends that nobody follows, and whose first write takes three seconds.
    async fn unacknowledged(falls_back_ms: &'static str) -> Result<(), Error> {
        let script = Script::new("10.11.6-MariaDB", move |statement, _| match statement {
            "RESET SLAVE ALL" => Reply::Ok,
            "SELECT @@GLOBAL.rpl_semi_sync_master_timeout" => Reply::value("timeout", falls_back_ms),
            _ if statement.starts_with("SHOW GLOBAL STATUS LIKE") => Reply::value("Value", "0"),
            _ if statement.starts_with("SHOW GLOBAL VARIABLES LIKE") => Reply::value("Value", "1"),
            _ if statement.contains("information_schema.TABLES") => Reply::value("n", "1"),
            _ if statement.starts_with("REPLACE INTO") => Reply::Ok.after(Duration::from_secs(3)),
            _ => Reply::Usual,
        });
        let server = ScriptedServer::start(script).await.unwrap();
        let mut plan = Plan { semi_sync: true, ..failover(FenceBy::Nothing) };
        plan.candidate.reach = server.address().to_string();
        plan.candidate.semi_sync.source = Some(Switch { name: Name::Master, on: true });
        plan.deadlines.statement_ms = 60_000;
        let logins = logins();
        mark(&plan, &mut Servers::new(&plan, &logins)).await
    }

    #[tokio::test]
    async fn nobody_waits_for_an_acknowledgement_that_nobody_can_give() {
        let error = unacknowledged("86400000").await.unwrap_err().to_string();
        assert!(error.ends_with("too few are left to acknowledge it (semi-sync)"), "{error}");
        unacknowledged("2500").await.unwrap();
    }
}
