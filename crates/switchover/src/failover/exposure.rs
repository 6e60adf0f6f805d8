//! What a crash at any moment would lose without semi-sync: transactions that the primary has and no replica
//! has received, counted while it lives.
//!
//! In each look all replicas are asked before the primary: what it commits in between is counted as well, so
//! a look never finds too few. How long that takes is part of the figure: over a network with a round trip
//! of 20 ms and 200 commits a second it is some 4 to 8 transactions more than are on their way. A burst
//! between two looks is not seen. So the greatest of all looks is a prediction and no promise.
//!
//! Worked example: a2 has received up to 0-1-98 and b1 up to 0-1-95, then the primary says 0-1-103: a2 would
//! take over, and at most 5 would be lost.

use super::choose::Received;
use crate::Error;
use crate::connection::{BRIEFLY, Connection};
use crate::dialect::Dialect;
use crate::facts::{self, Facts};
use config::Credentials;
use serde::Serialize;
use std::fmt;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(20);

/// What was counted.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Exposure {
    pub looks: usize,
    /// The most transactions that no replica had received at a look.
    pub most: u64,
    /// What the primary commits meanwhile.
    pub commits_per_s: f64,
}

impl fmt::Display for Exposure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "at {:.0} commits a second at most {} transactions were on no replica yet ({} looks)",
            self.commits_per_s, self.most, self.looks
        )
    }
}

/// Looks for this long at a primary and its replicas.
///
/// # Errors
/// When one of them does not answer.
pub async fn measure(
    primary: &Facts,
    replicas: &[&Facts],
    who: &Credentials,
    over: Duration,
    deadline: Duration,
) -> Result<Exposure, Error> {
    let dialect = primary.dialect();
    let refused =
        |error: fleet::GtidError| Error::Refused { server: primary.server.clone(), why: error.to_string() };
    let open =
        async |facts: &Facts| Connection::open(&facts.server, &facts.reach, who, deadline, BRIEFLY).await;
    let mut source = open(primary).await?;
    let mut receivers = Vec::new();
    for facts in replicas {
        receivers.push(open(facts).await?);
    }
    let (began, mut looks, mut most) = (Instant::now(), 0, 0);
    let mut first = None;
    let commits_per_s = loop {
        let mut asked = JoinSet::new();
        for connection in std::mem::take(&mut receivers) {
            asked.spawn(received(connection, dialect, deadline));
        }
        let mut received = Vec::new();
        while let Some(answer) = asked.join_next().await {
            let (connection, found) = answer.map_err(|error| Error::Refused {
                server: primary.server.clone(),
                why: format!("a look was lost: {error}"),
            })??;
            receivers.push(connection);
            received.push(found);
        }
        let position = source.scalar(dialect.position(), deadline).await?.unwrap_or_default();
        let has =
            Received::new(dialect.0.flavour, "", &position.replace(['\n', ' '], "")).map_err(refused)?;
        looks += 1;
        most = most.max(on_no_replica(&has, &received));
        let (since, at_first) = first.get_or_insert_with(|| (Instant::now(), has.clone()));
        if began.elapsed() >= over {
            let seconds = since.elapsed().as_secs_f64().max(1e-3);
            break has.beyond(at_first) as f64 / seconds;
        }
        tokio::time::sleep(PAUSE).await;
    };
    for connection in receivers.into_iter().chain([source]) {
        connection.close().await;
    }
    Ok(Exposure { looks, most, commits_per_s })
}

async fn received(
    mut connection: Connection,
    dialect: Dialect,
    deadline: Duration,
) -> Result<(Connection, Received), Error> {
    let server = connection.server.clone();
    let channels = facts::channels(&mut connection, dialect, deadline).await?;
    let applied = connection.scalar(dialect.applied(), deadline).await?.unwrap_or_default();
    let received = channels.first().map_or("", |channel| channel.received.as_str());
    let found = Received::new(dialect.0.flavour, received, &applied.replace(['\n', ' '], ""));
    Ok((connection, found.map_err(|error| Error::Refused { server, why: error.to_string() })?))
}

/// The replica that lacks least would take over. Pure.
fn on_no_replica(primary: &Received, replicas: &[Received]) -> u64 {
    let all = Received::nothing(primary);
    replicas.iter().map(|replica| primary.beyond(replica)).min().unwrap_or_else(|| primary.beyond(&all))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fleet::{Address, Flavour, ServerName};
    use lab::scripted::{Reply, Script, ScriptedServer};

    #[tokio::test]
    async fn what_a_replica_by_files_has_is_what_it_replicated_and_not_what_it_wrote_itself() {
        let script = Script::new("10.11.6-MariaDB", |statement, _| match statement {
            "SHOW ALL SLAVES STATUS" => Reply::rows(
                &["Master_Host", "Using_Gtid", "Gtid_IO_Pos"],
                &[&[Some("a1"), Some("No"), Some("")]],
            ),
            "SELECT @@GLOBAL.gtid_slave_pos" => Reply::value("replicated", "0-11-104"),
            "SELECT @@GLOBAL.gtid_binlog_pos" => Reply::value("position", "0-12-105"),
            _ => Reply::Usual,
        });
        let replica = ScriptedServer::start(script).await.unwrap();
        let (name, limit) = (ServerName::new("a2"), Duration::from_secs(5));
        let reach = Address::tcp("127.0.0.1", replica.address().port());
        let opened = Connection::open(&name, &reach, &Credentials::default(), limit, BRIEFLY).await.unwrap();
        let dialect = Dialect("10.11.6-MariaDB".parse().unwrap());
        let (_, found) = received(opened, dialect, limit).await.unwrap();
        assert_eq!(found, Received::new(Flavour::MariaDb, "0-11-104", "").unwrap());
    }

    #[test]
    fn what_the_best_replica_lacks_is_counted() {
        let mariadb = |position: &str| Received::new(Flavour::MariaDb, position, "").unwrap();
        let replicas = [mariadb("0-1-98"), mariadb("0-1-95")];
        assert_eq!(on_no_replica(&mariadb("0-1-103"), &replicas), 5);
        assert_eq!(on_no_replica(&mariadb("0-1-103,1-1-2"), &replicas), 7);
        assert_eq!(on_no_replica(&mariadb("0-1-90"), &replicas), 0);
        assert_eq!(on_no_replica(&mariadb("0-1-3"), &[]), 3);
        let uuid = "3e11fa47-71ca-11e1-9e33-c80aa9429562";
        let mysql = |to: u64| Received::new(Flavour::MySql, "", &format!("{uuid}:1-{to}")).unwrap();
        assert_eq!(on_no_replica(&mysql(10), &[mysql(7), mysql(8)]), 2);
    }
}
