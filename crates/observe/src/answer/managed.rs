//! What the cloud's own tables say of a cluster: Aurora's `replica_host_status`, RDS Multi-AZ's
//! `rds_topology`.
//!
//! Aurora: during a failover the old writer's row can keep `MASTER_SESSION_ID` for a while, so the writer is
//! the row with that session id **and the latest update**. Reader rows older than five minutes are instances
//! that no longer exist.

use crate::rows::Rows;
use fleet::Address;
use std::time::Duration;

/// Aurora's mark on the writer's row.
const WRITER_SESSION: &str = "MASTER_SESSION_ID";
/// A row not updated for this long is an instance that no longer exists.
const GONE_AFTER_S: f64 = 300.0;

/// A cluster as its own tables show it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Managed {
    Aurora {
        /// `aurora_server_id` of the server that answered.
        own: String,
        instances: Vec<Instance>,
    },
    MultiAz {
        /// `server_id` and endpoint of each.
        members: Vec<(u32, Address)>,
    },
}

/// One instance of an Aurora cluster.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Instance {
    pub(crate) id: String,
    pub(crate) writer: bool,
    pub(crate) lag: Option<Duration>,
}

impl Managed {
    /// An Aurora instance by its id.
    pub(crate) fn instance(&self, id: &str) -> Option<&Instance> {
        match self {
            Self::Aurora { instances, .. } => instances.iter().find(|i| i.id == id),
            Self::MultiAz { .. } => None,
        }
    }
}

/// Reads `replica_host_status`.
pub(crate) fn aurora_instances(rows: &Rows) -> Vec<Instance> {
    let latest_writer = rows
        .iter()
        .filter(|row| row.text(&["session_id"]) == Some(WRITER_SESSION))
        .filter_map(|row| Some((row.text(&["last_update_timestamp"])?, row.filled(&["server_id"])?)))
        .max()
        .map(|(_, id)| id);
    rows.iter()
        .filter_map(|row| {
            let id = row.filled(&["server_id"])?;
            let writer = latest_writer == Some(id);
            let age = row.parse::<f64>(&["age_s"]).unwrap_or(0.0);
            if age > GONE_AFTER_S && !writer {
                return None;
            }
            let lag =
                row.parse::<f64>(&["replica_lag_in_milliseconds"]).filter(|ms| *ms >= 0.0 && *ms < 1e12);
            let lag = if writer { None } else { lag.map(|ms| Duration::from_secs_f64(ms / 1e3)) };
            Some(Instance { id: id.to_owned(), writer, lag })
        })
        .collect()
}

/// Reads `mysql.rds_topology`.
pub(crate) fn multi_az_members(rows: &Rows) -> Vec<(u32, Address)> {
    rows.iter()
        .filter_map(|row| {
            let port = row.parse(&["port"]).unwrap_or(fleet::DEFAULT_PORT);
            Some((row.parse(&["id"])?, Address::tcp(row.filled(&["endpoint"])?, port)))
        })
        .collect()
}

/// Whether a host name is one that AWS gives to its databases.
pub(crate) fn is_cloud_name(address: &Address) -> bool {
    address
        .host()
        .is_some_and(|host| host.ends_with(".rds.amazonaws.com") || host.ends_with(".rds.amazonaws.com.cn"))
}

/// The address of an Aurora instance, from the address of any endpoint of its cluster.
///
/// `mycluster.cluster-abc123.eu-west-1.rds.amazonaws.com` (also `cluster-ro-`, `cluster-custom-`) and
/// `other.abc123.eu-west-1.rds.amazonaws.com` both lead to `<id>.abc123.eu-west-1.rds.amazonaws.com`. `None`
/// for any other name: an address map or seeds must say how instances are reached.
pub(crate) fn aurora_address(endpoint: &Address, id: &str) -> Option<Address> {
    let Address::Tcp { host, port } = endpoint else { return None };
    let (_, domain) = host.split_once('.')?;
    let (hash, region_and_rest) = domain.split_once('.')?;
    let (region, rest) = region_and_rest.split_once('.')?;
    if !is_cloud_name(endpoint) {
        return None;
    }
    let hash = ["cluster-custom-", "cluster-ro-", "cluster-"]
        .iter()
        .find_map(|prefix| hash.strip_prefix(prefix))
        .unwrap_or(hash);
    Some(Address::tcp(format!("{id}.{hash}.{region}.{rest}"), *port))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(rows: &[[&str; 5]]) -> Rows {
        let columns =
            ["server_id", "session_id", "replica_lag_in_milliseconds", "last_update_timestamp", "age_s"];
        Rows::new(
            columns.iter().map(|c| (*c).to_owned()),
            rows.iter().map(|row| row.iter().map(|v| Some((*v).to_owned())).collect()).collect(),
        )
    }

    #[test]
    fn the_writer_is_the_latest_row_that_claims_it_and_gone_instances_are_left_out() {
        let rows = status(&[
            ["a", "MASTER_SESSION_ID", "0", "2026-11-20 10:00:00.000", "30"],
            ["b", "MASTER_SESSION_ID", "0", "2026-11-20 10:00:29.500", "0"],
            ["c", "x-y", "18.5", "2026-11-20 10:00:29.000", "1"],
            ["old", "x-z", "9", "2026-11-20 09:00:00.000", "3600"],
        ]);
        let found = aurora_instances(&rows);
        let writers: Vec<&str> = found.iter().filter(|i| i.writer).map(|i| &*i.id).collect();
        assert_eq!(writers, ["b"]);
        assert_eq!(found.len(), 3);
        assert_eq!(found[2].lag, Some(Duration::from_micros(18_500)));
    }

    #[test]
    fn instance_addresses_follow_from_any_endpoint_of_the_cluster() {
        for host in [
            "c.cluster-h4sh.eu-west-1.rds.amazonaws.com",
            "c.cluster-ro-h4sh.eu-west-1.rds.amazonaws.com",
            "c.cluster-custom-h4sh.eu-west-1.rds.amazonaws.com",
            "inst.h4sh.eu-west-1.rds.amazonaws.com",
        ] {
            let address = aurora_address(&Address::tcp(host, 3307), "db-2").unwrap();
            assert_eq!(address.to_string(), "db-2.h4sh.eu-west-1.rds.amazonaws.com:3307", "{host}");
        }
        assert_eq!(aurora_address(&Address::tcp("127.0.0.1", 3306), "db-2"), None);
        assert_eq!(aurora_address(&Address::tcp("db.example.com", 3306), "db-2"), None);
    }
}
