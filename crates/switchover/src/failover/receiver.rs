//! Replicas whose receivers were stopped look for their source again.

use super::choose::Received;
use crate::Error;
use crate::connection::{BRIEFLY, Connection};
use crate::dialect::Dialect;
use crate::facts::{self, Channel, Facts};
use config::Credentials;
use fleet::announcement::OPERATION;
use std::time::{Duration, Instant};

/// How long the lock of a tool that has ended may be seen, and how often it is looked at.
const GIVES_BACK: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(50);

/// Runs what [`look_again`] says, unless somebody holds the lock of an operation.
pub(super) async fn start(stopped: &[Facts], who: &Credentials, deadline: Duration) -> Result<(), Error> {
    for facts in stopped {
        let mut conn = Connection::open(&facts.server, &facts.reach, who, deadline, BRIEFLY).await?;
        nobody_is_at_work(&mut conn, deadline).await?;
        // Now that nobody is at work there: the last statement of a tool that was killed may have ended since
        // it was looked at.
        let dialect = facts.dialect();
        let channels = facts::channels(&mut conn, dialect, deadline).await?;
        let position = conn.scalar(dialect.position(), deadline).await?.unwrap_or_default();
        let facts = Facts { channels, position: position.replace('\n', ""), ..facts.clone() };
        if let Some(why) = would_throw_away(&facts) {
            return Err(Error::Refused { server: facts.server.clone(), why });
        }
        conn.run(look_again(&facts), deadline).await?;
        conn.close().await;
    }
    Ok(())
}

/// Passes unless somebody holds the lock of an operation there, and keeps it: a server gives that of a tool
/// which has just ended back in a moment.
pub(super) async fn nobody_is_at_work(conn: &mut Connection, deadline: Duration) -> Result<(), Error> {
    let (ask, until) = (format!("SELECT IS_USED_LOCK('{OPERATION}')"), Instant::now() + GIVES_BACK);
    while let Some(session) = conn.scalar(&ask, deadline).await? {
        if Instant::now() >= until {
            let why = format!("a failover or switchover is going on (session {session} holds {OPERATION})");
            return Err(Error::Refused { server: conn.server.clone(), why });
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}

fn would_throw_away(facts: &Facts) -> Option<String> {
    let logs = facts.is_on(&["log_slave_updates"]) == Some(true);
    start_throws_away(facts.dialect(), facts.channels.first()?, &facts.position).filter(|_| logs)
}

/// Where both threads of a replica stand, MariaDB throws its relay logs away when either starts, and gets
/// everything from the source again: which may be dead. `position` is what it has applied.
pub(crate) fn start_throws_away(dialect: Dialect, channel: &Channel, position: &str) -> Option<String> {
    let stands = !channel.receiver_runs && !channel.receiver_tries && !channel.applier_runs;
    if !dialect.is_mariadb() || !stands {
        return None;
    }
    let read = |received: &str| Received::new(dialect.0.flavour, received, position).ok();
    let (received, applied) = (read(&channel.received)?, read("")?);
    (!applied.covers(&received)).then(|| {
        format!(
            "has received {received} and applied only {applied}, and both of its threads stand: MariaDB throws its relay \
             logs away when one of them starts. Save these first (mariadb-binlog reads them); START SLAVE there, then again, \
             does without them"
        )
    })
}

/// What lets a replica look for its source again. One whose applying thread was stopped as well, and not by
/// an error, was to be promoted: both start.
pub(super) fn look_again(facts: &Facts) -> &'static str {
    if was_to_be_promoted(facts) {
        facts.dialect().start_replication()
    } else {
        facts.dialect().start_receiving()
    }
}

/// Whether its applying thread was stopped as well, and not by an error: of a candidate alone it is.
pub(super) fn was_to_be_promoted(facts: &Facts) -> bool {
    let stopped = |channel: &Channel| !channel.applier_runs && channel.applier_error.is_empty();
    facts.channels.first().is_some_and(stopped)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::tests::{channel, facts};

    #[test]
    fn relay_logs_that_a_start_would_throw_away_are_kept() {
        let stands = |received: &str, position: &str| Facts {
            channels: vec![Channel {
                receiver_runs: false,
                applier_runs: false,
                received: received.to_owned(),
                ..channel("a1", 3306, 11)
            }],
            variables: [("log_slave_updates".to_owned(), "ON".to_owned())].into(),
            position: position.to_owned(),
            ..facts("a2", "10.11.6-MariaDB")
        };
        let why = would_throw_away(&stands("0-11-50", "0-11-40")).unwrap();
        assert!(why.contains("0-11-50") && why.contains("0-11-40"), "{why}");
        assert_eq!(would_throw_away(&stands("0-11-50", "0-11-50")), None);
        let mut runs = stands("0-11-50", "0-11-40");
        runs.channels[0].applier_runs = true;
        assert_eq!(would_throw_away(&runs), None);
    }
}
