//! What a primary says of its own semi-sync while it answers. Its replicas do not tell: they count as
//! semi-sync replicas of a source that is switched off, too (MariaDB 10.11: `Rpl_semi_sync_slave_status = ON`
//! beside `rpl_semi_sync_master_enabled = OFF`), and their counter of acknowledgements says that there were
//! some, not that the last write had one. So a primary that was restarted in place, without the switch, loses
//! what nobody would see afterwards.

use super::risk::{SourceEvidence, SourceSemiSync};
use super::scene::ServerAddress;
use crate::Error;
use crate::connection::{BRIEFLY, Connection};
use crate::facts::{self, Facts};
use config::Credentials;
use std::collections::BTreeMap;
use std::time::Duration;

/// Asks a primary that answers; [`SourceEvidence::Unknown`] when it does not within `deadline`.
pub async fn ask(primary: &ServerAddress, who: &Credentials, deadline: Duration) -> SourceEvidence {
    let asked = async {
        let mut conn = Connection::open(&primary.name, &primary.reach, who, deadline, BRIEFLY).await?;
        let said = said(&mut conn, deadline).await;
        conn.close().await;
        said
    };
    match asked.await {
        Ok(said) => SourceEvidence::Seen { said, before: Duration::ZERO },
        Err(_) => SourceEvidence::Unknown,
    }
}

/// The same of a primary that was read.
pub(crate) fn of(primary: &Facts) -> SourceSemiSync {
    read(&primary.status, &primary.variables)
}

/// The same on an open connection.
pub(crate) async fn said(conn: &mut Connection, deadline: Duration) -> Result<SourceSemiSync, Error> {
    const STATUS: &str = "SHOW GLOBAL STATUS WHERE Variable_name IN ('Rpl_semi_sync_master_status', \
        'Rpl_semi_sync_source_status', 'Rpl_semi_sync_master_clients', 'Rpl_semi_sync_source_clients')";
    const VARIABLES: &str = "SHOW GLOBAL VARIABLES LIKE 'rpl\\_semi\\_sync\\_%'";
    let status = facts::pairs(conn.ask(STATUS, deadline).await?);
    Ok(read(&status, &facts::pairs(conn.ask(VARIABLES, deadline).await?)))
}

fn read(status: &BTreeMap<String, String>, variables: &BTreeMap<String, String>) -> SourceSemiSync {
    let on = |value: &String| matches!(value.to_ascii_lowercase().as_str(), "on" | "1" | "yes");
    let first = |from: &BTreeMap<String, String>, names: [&str; 2]| {
        names.iter().find_map(|name| from.get(*name)).cloned()
    };
    let clients = first(status, ["rpl_semi_sync_master_clients", "rpl_semi_sync_source_clients"]);
    let needed = first(
        variables,
        ["rpl_semi_sync_master_wait_for_slave_count", "rpl_semi_sync_source_wait_for_replica_count"],
    );
    let status = first(status, ["rpl_semi_sync_master_status", "rpl_semi_sync_source_status"]);
    let timeout = first(variables, ["rpl_semi_sync_master_timeout", "rpl_semi_sync_source_timeout"]);
    let waits =
        first(variables, ["rpl_semi_sync_master_wait_no_slave", "rpl_semi_sync_source_wait_no_replica"]);
    SourceSemiSync {
        on: status.as_ref().is_some_and(on),
        clients: clients.and_then(|clients| clients.parse().ok()),
        needed: needed.and_then(|needed| needed.parse().ok()),
        timeout: timeout.and_then(|ms| ms.parse().ok()).map(Duration::from_millis),
        waits_without_replicas: waits.as_ref().map(on),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_flavours_say_it_in_their_own_words() {
        let map = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        let mysql = read(
            &map(&[("rpl_semi_sync_source_status", "ON"), ("rpl_semi_sync_source_clients", "2")]),
            &map(&[
                ("rpl_semi_sync_source_timeout", "10000"),
                ("rpl_semi_sync_source_wait_for_replica_count", "2"),
                ("rpl_semi_sync_source_wait_no_replica", "ON"),
            ]),
        );
        let ten = Some(Duration::from_secs(10));
        let waits_without_replicas = Some(true);
        let (clients, needed) = (Some(2), Some(2));
        let expected = SourceSemiSync { on: true, clients, needed, timeout: ten, waits_without_replicas };
        assert_eq!(mysql, expected);
        let restarted = read(
            &map(&[("rpl_semi_sync_master_status", "OFF")]),
            &map(&[("rpl_semi_sync_master_wait_no_slave", "OFF")]),
        );
        assert_eq!(
            restarted,
            SourceSemiSync {
                on: false,
                clients: None,
                needed: None,
                timeout: None,
                waits_without_replicas: Some(false)
            }
        );
    }
}
