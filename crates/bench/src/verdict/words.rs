//! What the two families of servers call differently, where a making says it.

use lab::Flavour;

/// Statements and names of one family.
#[derive(Debug)]
pub(super) struct Words {
    pub(super) stop_replica: &'static str,
    pub(super) start_replica: &'static str,
    pub(super) stop_receiver: &'static str,
    pub(super) start_receiver: &'static str,
    /// How many threads may apply in parallel.
    pub(super) appliers: &'static str,
    /// Begin of the names of semi-sync's variables, at the primary and at a replica.
    pub(super) semi_sync: (&'static str, &'static str),
    /// Its plugins by those names, where it is not built in.
    pub(super) semi_sync_plugins: Option<(&'static str, &'static str)>,
}

const MARIADB: Words = Words {
    stop_replica: "STOP SLAVE",
    start_replica: "START SLAVE",
    stop_receiver: "STOP SLAVE IO_THREAD",
    start_receiver: "START SLAVE IO_THREAD",
    appliers: "slave_parallel_threads",
    semi_sync: ("rpl_semi_sync_master", "rpl_semi_sync_slave"),
    semi_sync_plugins: None,
};

const MYSQL: Words = Words {
    stop_replica: "STOP REPLICA",
    start_replica: "START REPLICA",
    stop_receiver: "STOP REPLICA IO_THREAD",
    start_receiver: "START REPLICA IO_THREAD",
    appliers: "replica_parallel_workers",
    semi_sync: ("rpl_semi_sync_source", "rpl_semi_sync_replica"),
    semi_sync_plugins: Some(("semisync_source.so", "semisync_replica.so")),
};

impl Words {
    pub(super) fn of(flavour: Flavour) -> &'static Self {
        match flavour {
            Flavour::MariaDb => &MARIADB,
            Flavour::MySql => &MYSQL,
        }
    }

    /// How many replicas acknowledge.
    pub(super) fn acknowledging(&self) -> String {
        format!("SHOW GLOBAL STATUS LIKE '{}_clients'", self.semi_sync.0)
    }
}
