//! Events of an old primary that comes back: they are enabled there, as they were when it died.
//!
//! MariaDB's `read_only` keeps out the events of ordinary accounts. Those of administrators would write on a
//! replica what no other server has. MySQL's `super_read_only` keeps out all, so nothing is done there.
//!
//! After a switchover they stop because the new primary enables them: that is replicated, and a replica calls
//! such an event disabled. After a failover a person chooses which the new primary runs. So it is told the
//! state once more that each event has there already, which stops it on the replica alike. A statement on the
//! old primary itself would be a transaction of its own.

use super::text::listed;
use crate::Error;
use crate::connection::{BRIEFLY, Connection};
use crate::facts::{self, Facts, ScheduledEvent};
use config::Credentials;
use std::time::Duration;

/// What came of the events of a returned primary.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoppedEvents {
    /// What somebody may want to know.
    pub notes: Vec<String>,
    /// What did not go as it should, each with what to do.
    pub remarks: Vec<String>,
}

/// Keeps the events of `old`, which follows `new`, from running there.
pub async fn stop(old: &Facts, new: &Facts, who: &Credentials, deadline: Duration) -> StoppedEvents {
    let mut found = StoppedEvents::default();
    if !old.dialect().is_mariadb() {
        return found;
    }
    if let Err(error) = stop_each(old, new, who, deadline, &mut found).await {
        found.remarks.push(format!(
            "events that {} ran may run there still, and write there if their definers may: {error}. Once that is mended, --rejoin again",
            old.server
        ));
    }
    found
}

async fn stop_each(
    old: &Facts,
    new: &Facts,
    who: &Credentials,
    deadline: Duration,
    found: &mut StoppedEvents,
) -> Result<(), Error> {
    let mut returned = Connection::open(&old.server, &old.reach, who, deadline, BRIEFLY).await?;
    let mut primary = Connection::open(&new.server, &new.reach, who, deadline, BRIEFLY).await?;
    let here = facts::enabled_events(&mut returned, deadline).await;
    let there = facts::enabled_events(&mut primary, deadline).await;
    let disabled = facts::disabled_events(&mut primary, deadline).await;
    let (Some(here), Some(there), Some(disabled)) = (here, there, disabled) else {
        found.notes.push(unknown(old));
        return Ok(());
    };
    if here.is_empty() {
        return Ok(());
    }
    let (dialect, mut refused, mut idle) = (new.dialect(), Vec::new(), Vec::new());
    for event in &here {
        let is_it = |other: &&ScheduledEvent| is_the_same(other, event);
        let runs_there = there.iter().find(is_it);
        // Called a replica's, one that somebody disabled would be offered like others at the next failover.
        let statement = match (runs_there, disabled.iter().find(is_it)) {
            (Some(twin), _) => dialect.enable_event(twin),
            (None, Some(twin)) => dialect.disable_event(twin),
            (None, None) => dialect.disable_event_on_replica(event),
        };
        match primary.run(&statement, deadline).await {
            Ok(()) if runs_there.is_none() => idle.push(event),
            Ok(()) => {}
            Err(error) if primary.is_late() => return Err(error),
            Err(error) => refused.push((event, error)),
        }
    }
    let position = primary.scalar(dialect.position(), deadline).await?.unwrap_or_default();
    primary.close().await;
    let wait = old.dialect().wait_for(&position, deadline.as_secs_f64());
    returned.scalar(&wait, deadline + Duration::from_secs(2)).await?;
    let still = facts::enabled_events(&mut returned, deadline).await;
    returned.close().await;
    let Some(still) = still else {
        found.notes.push(unknown(old));
        return Ok(());
    };
    for event in &still {
        let why = refused.iter().find(|(other, _)| is_the_same(other, event));
        let why = why.map_or_else(
            || "it has not applied yet that it shall not".to_owned(),
            |(_, why)| why.to_string(),
        );
        found.remarks.push(format!(
            "event {}.{} runs at {} still, and writes there if its definer may: {why}. There: SET SESSION sql_log_bin = 0; {}",
            event.schema,
            event.name,
            old.server,
            old.dialect().disable_event_on_replica(event)
        ));
    }
    idle.retain(|event| !still.iter().any(|other| is_the_same(other, event)));
    if !idle.is_empty() {
        let statements: Vec<String> = idle.iter().map(|event| dialect.enable_event(event)).collect();
        found.notes.push(format!(
            "{} events were enabled at {old}. It runs them no more, and {new} does not run them: enable those that shall \
             run, at {new}: {}",
            statements.len(),
            listed(&statements),
            old = old.server,
            new = new.server
        ));
    }
    Ok(())
}

fn is_the_same(one: &ScheduledEvent, other: &ScheduledEvent) -> bool {
    (&one.schema, &one.name) == (&other.schema, &other.name)
}

fn unknown(old: &Facts) -> String {
    format!(
        "whether {} runs events, which write there if their definers may, is not known: the account may not see them all. \
         GRANT EVENT ON *.* to it, then --rejoin again",
        old.server
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::tests::facts;
    use lab::scripted::{Reply, Script, ScriptedServer};
    use std::sync::{Arc, Mutex};

    type Told = Arc<Mutex<Vec<String>>>;

    /// A server with these enabled events of `app`, until it or another one is `told` otherwise, these that
    /// are disabled, and what it refuses.
    async fn server(
        name: &str,
        enabled: &'static [&'static str],
        disabled: &'static [&'static str],
        refuses: &'static str,
        told: Told,
    ) -> (Facts, ScriptedServer) {
        let script = Script::new("10.11.6-MariaDB", move |statement, _| {
            let is_enabled = |event: &str| {
                let told = told.lock().unwrap();
                !told.iter().any(|statement| statement.contains(&format!("EVENT `app`.`{event}`")))
            };
            if statement.starts_with("ALTER ") {
                if !refuses.is_empty() && statement.contains(refuses) {
                    return Reply::error(1227, "Access denied");
                }
                told.lock().unwrap().push(statement.to_owned());
                return Reply::Ok;
            }
            if !statement.contains("information_schema.EVENTS") {
                return match statement {
                    "SHOW GRANTS" => Reply::value("Grants", "GRANT EVENT ON *.* TO `admin`@`%`"),
                    "SELECT @@GLOBAL.gtid_binlog_pos" => Reply::value("position", "0-12-9"),
                    _ if statement.starts_with("SELECT MASTER_GTID_WAIT") => Reply::value("reached", "0"),
                    _ => Reply::Usual,
                };
            }
            let row = |event: &&'static str| vec![Some("app".to_owned()), Some((*event).to_owned()), None];
            let listed = if statement.contains("'DISABLED'") { disabled } else { enabled };
            let rows = listed.iter().filter(|event| is_enabled(event)).map(row).collect();
            Reply::Rows { columns: ["s", "n", "d"].map(str::to_owned).to_vec(), rows }
        });
        let server = ScriptedServer::start(script).await.unwrap();
        let reach = fleet::Address::tcp("127.0.0.1", server.address().port());
        (Facts { reach, ..facts(name, "10.11.6-MariaDB") }, server)
    }

    #[tokio::test]
    async fn events_of_a_returned_primary_stop_and_those_that_nobody_runs_are_named() {
        let (who, deadline) = (Credentials::default(), Duration::from_secs(5));
        let told = Told::default();
        let (old, _old) = server("a1", &["nightly", "purge"], &[], "", told.clone()).await;
        let (new, _new) = server("a2", &["purge"], &[], "", told.clone()).await;
        let stopped = stop(&old, &new, &who, deadline).await;
        assert_eq!(
            *told.lock().unwrap(),
            ["ALTER EVENT `app`.`nightly` DISABLE ON SLAVE", "ALTER EVENT `app`.`purge` ENABLE"],
            "what a2 runs it goes on running"
        );
        let [note] = stopped.notes.as_slice() else { panic!("{stopped:?}") };
        assert!(note.starts_with("1 events were enabled at a1") && stopped.remarks.is_empty(), "{stopped:?}");
        assert!(note.ends_with("at a2: ALTER EVENT `app`.`nightly` ENABLE"), "{note}");
    }

    #[tokio::test]
    async fn what_somebody_disabled_at_the_new_primary_stays_disabled_there() {
        let (who, deadline) = (Credentials::default(), Duration::from_secs(5));
        let told = Told::default();
        let (old, _old) = server("a1", &["nightly"], &[], "", told.clone()).await;
        let (new, _new) = server("a2", &[], &["nightly"], "", told.clone()).await;
        let stopped = stop(&old, &new, &who, deadline).await;
        assert_eq!(*told.lock().unwrap(), ["ALTER EVENT `app`.`nightly` DISABLE"]);
        let [note] = stopped.notes.as_slice() else { panic!("{stopped:?}") };
        assert!(note.contains("a2 does not run them") && stopped.remarks.is_empty(), "{stopped:?}");
    }

    #[tokio::test]
    async fn an_event_that_cannot_be_stopped_is_named_with_what_stops_it() {
        let (who, deadline) = (Credentials::default(), Duration::from_secs(5));
        let told = Told::default();
        let (old, _old) = server("a1", &["nightly", "purge"], &[], "", told.clone()).await;
        let (new, _new) = server("a2", &[], &[], "purge", told.clone()).await;
        let stopped = stop(&old, &new, &who, deadline).await;
        let [remark] = stopped.remarks.as_slice() else { panic!("{stopped:?}") };
        assert!(
            remark.starts_with("event app.purge runs at a1 still") && remark.contains("1227"),
            "{remark}"
        );
        assert!(remark.ends_with("sql_log_bin = 0; ALTER EVENT `app`.`purge` DISABLE ON SLAVE"), "{remark}");
        assert!(stopped.notes[0].starts_with("1 events were enabled at a1"), "{stopped:?}");
        // Nobody listens there.
        let silent = Facts { reach: fleet::Address::tcp("127.0.0.1", 1), ..new };
        let unknown = stop(&old, &silent, &who, deadline).await;
        assert!(unknown.remarks[0].starts_with("events that a1 ran may run there still"), "{unknown:?}");
    }
}
