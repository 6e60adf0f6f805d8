//! What the sessions of a server do at a moment, told apart by the words of their state.
//!
//! States are words that the servers have kept over the years; both spellings (slave, replica) are known. A
//! session at work whose state says nothing is counted as at work, no more. `Threads_running` is not used: it
//! counts ourselves and the server's own threads.

use observe::{Row, Rows};

/// Sessions that may be missing in sight though nothing is hidden.
const CAME_AND_WENT: u64 = 2;

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sessions {
    /// Clients and events at work, whatever at; those that wait for GET_LOCK are not, nor for the applier.
    pub active: u64,
    /// Of those, waiting for a metadata lock or a table flush.
    pub metadata_lock: u64,
    /// Clients and appliers that wait for a table flush: until a statement gives its tables back, and no lock
    /// tells whose.
    pub table_flush: u64,
    /// Of those, waiting for a global read lock or a backup lock.
    pub global_lock: u64,
    /// Of those, waiting for the lock that an engine without row locks has on a whole table.
    pub table_lock: u64,
    /// Of those, inserting rows.
    pub insert: u64,
    /// Of those, waiting for their commit to be durable or acknowledged.
    pub commit: u64,
    /// Of those, waiting for a replica's acknowledgement.
    pub semi_sync: u64,
    /// Of those in their commit, waiting for the nodes of a Galera cluster; DDL that waits for them too.
    pub galera: u64,
    /// Clients that wait until the applier has come as far as they ask: not at work.
    pub for_applier: u64,
    /// The longest that a commit which waits for no replica has been under way, with its statement,
    /// milliseconds.
    pub longest_commit_ms: f64,
    /// Connections that are being authenticated.
    pub login: u64,
    /// The longest that one at work has been at it, those in SLEEP() left out, milliseconds.
    pub longest_ms: f64,
    /// Threads that apply changes of a source.
    pub appliers: u64,
    /// Of those, at work.
    pub appliers_busy: u64,
    /// Of those, altering a table.
    pub appliers_altering: u64,
    /// Appliers that wait for a metadata lock or a table flush, as behind a long SELECT: not at work.
    pub appliers_in_metadata_lock: u64,
    /// Likewise for a lock on everything.
    pub appliers_in_global_lock: u64,
    /// Likewise for a whole table.
    pub appliers_in_table_lock: u64,
    /// Clients in sight, idle ones too.
    pub visible: u64,
    /// Whether sessions of other accounts are in sight (MariaDB): that takes the right to see them all.
    pub of_others: bool,
}

/// States of a client that waits for another's metadata lock or table.
const METADATA: [&str; 3] = ["metadata lock", "Waiting for table flush", "Waiting for tables"];

/// Of those, the ones that wait until a statement gives back a table that is flushed.
const FLUSH: [&str; 2] = ["Waiting for table flush", "Waiting for tables"];

/// States of a client that waits for a lock on everything (`FLUSH TABLES WITH READ LOCK`, a backup). A table
/// backup lock is Percona Server's (`LOCK TABLES FOR BACKUP`). The last two are MariaDB's on a replica: the
/// client waits until the appliers have ended what they are at, and those that have stand still for it.
const GLOBAL: [&str; 6] = [
    "Waiting for global read lock",
    "Waiting for commit lock",
    "Waiting for backup lock",
    "Waiting for table backup lock",
    "Waiting for worker threads to pause for global read lock",
    "Waiting due to global read lock",
];

/// States of a client that waits for a table of an engine that locks whole tables (MyISAM, Aria, MEMORY).
const TABLE: [&str; 1] = ["Waiting for table level lock"];

/// The state of a client whose INSERT is at its rows: of MariaDB and of MySQL.
const INSERT: [&str; 2] = ["Update", "update"];

/// The state of a client that waits for GET_LOCK: for another client, by its own wish, and for nothing of the
/// server's. A dozen workers that wait for their turn are no load, and must not thin out the share of those
/// that wait for a row or a commit.
const OWN_LOCK: &str = "User lock";

/// States of a client that waits until the applier has come as far as it asks: in MASTER_GTID_WAIT (MariaDB),
/// WAIT_FOR_EXECUTED_GTID_SET (MySQL), and MASTER_POS_WAIT or SOURCE_POS_WAIT. Whoever wants to read what was
/// just written on the primary waits so, for the replication and for nothing else here. In Group Replication
/// a transaction waits likewise before it begins (`group_replication_consistency = BEFORE`, or a primary that
/// has just taken over); without that the hook has nothing to wait for.
const FOR_APPLIER: [&str; 4] = [
    "Waiting in MASTER_GTID_WAIT()",
    "Waiting for GTID to be committed",
    "SQL thread to advance position",
    "Executing hook on transaction begin",
];

/// The state of a client in SLEEP(): however long its statement takes, it keeps no CPU busy.
const SLEEPS: &str = "User sleep";

/// States of a client that waits for a replica.
const SEMI_SYNC: [&str; 1] = ["Waiting for semi-sync"];

/// States of a client that waits for a Galera cluster. A commit waits until it has its place in the order of
/// the cluster and is certified, and before that while a node that is behind asks the others to pause (flow
/// control); DDL waits for its place, and others for DDL. The first four are MariaDB's, from 11.0 on; the
/// others are those of Percona XtraDB Cluster, which before 5.7 had the last one.
const GALERA: [&str; 9] = [
    "Waiting for certification",
    "Waiting for flow control",
    "Waiting to execute in isolation",
    "Waiting for TOI DDL",
    "wsrep: replicating",
    "wsrep: initiating replication",
    "wsrep: initiating pre-commit",
    "wsrep: initiating TOI",
    "wsrep in pre-commit stage",
];

/// States of a client whose commit is on its way to disk or to a replica; with a full disk MariaDB's commit
/// waits for space.
pub(super) const COMMIT: [&str; 7] = [
    "Commit",
    "Commit_implicit",
    "waiting for handler commit",
    "Waiting for prior transaction to commit",
    "Waiting for semi-sync",
    "Writing to binlog",
    "Waiting for someone to free space",
];

/// States of an applier that alters a table. Changes that follow it wait for it, however many appliers there
/// are.
const ALTERS: [&str; 3] = ["altering table", "alter table", "copy to tmp table"];

/// States of an applier that has nothing to do, or waits for another one, in lower case: versions differ in
/// theirs ("Waiting for dependent transaction to commit" became "Waiting for preceding transaction to
/// commit", "Waiting for Slave Workers to process their queues" has capitals or none).
const IDLE: [&str; 10] = [
    "has read all relay log",
    "waiting for an event from coordinator",
    "waiting for work from",
    "waiting for room in worker thread",
    "waiting for dependent transaction",
    "waiting for preceding transaction",
    "waiting for prior transaction",
    "waiting until",
    "waiting for replica worker",
    "waiting for slave worker",
];

impl Sessions {
    /// Reads rows of `command`, `state`, `sessions`, `longest_ms`, `of_others`.
    pub(super) fn read(rows: &Rows) -> Self {
        let mut sessions = Self::default();
        for row in rows.iter() {
            let command = row.text(&["command"]).unwrap_or_default();
            let state = row.text(&["state"]).unwrap_or_default();
            let count = row.parse::<u64>(&["sessions"]).unwrap_or(0);
            let longest_ms = row.parse::<f64>(&["longest_ms"]).unwrap_or(0.0);
            sessions.add(command, state, count, longest_ms);
            sessions.of_others |= row.is_on(&["of_others"]);
        }
        sessions
    }

    /// Appliers that wait for a lock which a session may have.
    pub(super) fn appliers_in_lock(&self) -> u64 {
        self.appliers_in_metadata_lock + self.appliers_in_global_lock + self.appliers_in_table_lock
    }

    /// Whether too few are in sight of those that the server counts, ourselves among them: an account without
    /// the right sees its own sessions only. Who has the right (`may_see_all`) misses those that end between
    /// one question and the next; of who has it not, every one that is missing is hidden.
    pub(super) fn are_hidden(&self, connected: u64, may_see_all: bool) -> bool {
        let came_and_went = if may_see_all { CAME_AND_WENT + connected / 10 } else { 0 };
        self.visible + 1 + came_and_went < connected
    }

    /// Reads `SHOW PROCESSLIST`, a row for each session; `own` is left out.
    pub(super) fn read_list(rows: &Rows, own: u64) -> Self {
        let mut sessions = Self::default();
        let is_own = |row: &Row<'_>| row.parse::<u64>(&["id"]) == Some(own);
        let account = rows.iter().find(is_own).and_then(|row| row.text(&["user"]));
        for row in rows.iter().filter(|row| !is_own(row)) {
            sessions.of_others |= account.is_some() && row.text(&["user"]) != account;
            let state = row.text(&["state"]).unwrap_or_default();
            let command = row.text(&["command"]).unwrap_or_default();
            let command = if is_event(row, state) { "Query" } else { command };
            let longest_ms = row.parse::<f64>(&["time"]).unwrap_or(0.0) * 1e3;
            sessions.add(command, state, 1, longest_ms);
        }
        sessions
    }

    fn add(&mut self, command: &str, state: &str, count: u64, longest_ms: f64) {
        if !matches!(command, "Slave_SQL" | "Slave_worker" | "Slave_IO" | "Daemon") {
            self.visible += count;
        }
        if is_one_of(state, &FLUSH) {
            self.table_flush += count;
        }
        match command {
            "Slave_SQL" | "Slave_worker" => {
                self.appliers += count;
                if is_one_of(state, &METADATA) {
                    self.appliers_in_metadata_lock += count;
                } else if is_one_of(state, &GLOBAL) {
                    self.appliers_in_global_lock += count;
                } else if is_one_of(state, &TABLE) {
                    self.appliers_in_table_lock += count;
                } else if !state.is_empty() && !is_one_of(&state.to_lowercase(), &IDLE) {
                    self.appliers_busy += count;
                    if is_one_of(state, &ALTERS) {
                        self.appliers_altering += count;
                    }
                }
            }
            "Connect" if state == "login" || state == "Receiving from client" => self.login += count,
            "Slave_IO" | "Connect" | "Sleep" | "Daemon" => {}
            _ if command.starts_with("Binlog Dump") || state == OWN_LOCK => {}
            _ if is_one_of(state, &FOR_APPLIER) => self.for_applier += count,
            _ => {
                self.active += count;
                if is_one_of(state, &METADATA) {
                    self.metadata_lock += count;
                } else if is_one_of(state, &GLOBAL) {
                    self.global_lock += count;
                } else if is_one_of(state, &TABLE) {
                    self.table_lock += count;
                } else if INSERT.contains(&state) {
                    self.insert += count;
                } else if is_one_of(state, &GALERA) {
                    self.commit += count;
                    self.galera += count;
                } else if is_one_of(state, &COMMIT) {
                    self.commit += count;
                    if is_one_of(state, &SEMI_SYNC) {
                        self.semi_sync += count;
                    } else {
                        self.longest_commit_ms = self.longest_commit_ms.max(longest_ms);
                    }
                }
                if state != SLEEPS {
                    self.longest_ms = self.longest_ms.max(longest_ms);
                }
            }
        }
    }
}

/// Whether a session of MariaDB is an event that runs: its command is that of a connection that begins, and
/// it has the account of whoever made the event, which a connection has only once it is let in.
fn is_event(row: Row<'_>, state: &str) -> bool {
    row.text(&["command"]) == Some("Connect")
        && !matches!(state, "" | "login" | "Receiving from client")
        && !matches!(row.text(&["user"]), None | Some("system user" | "unauthenticated user"))
}

fn is_one_of(state: &str, known: &[&str]) -> bool {
    known.iter().any(|words| state.contains(words))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(all: &[(&str, &str, u64)]) -> Rows {
        let names = ["command", "state", "sessions", "longest_ms"].map(str::to_owned);
        let row = |(command, state, count): &(&str, &str, u64)| {
            [command, state, &&*count.to_string(), &"2.5"]
                .iter()
                .map(|text| Some((**text).to_owned()))
                .collect()
        };
        Rows::new(names, all.iter().map(row).collect())
    }

    #[test]
    fn waits_of_mariadb_are_told_apart() {
        let sessions = Sessions::read(&rows(&[
            ("Query", "Waiting for table metadata lock", 7),
            ("Query", "Commit", 3),
            ("Query", "Updating", 2),
            ("Query", "Update", 4),
            ("Slave_SQL", "Slave has read all relay log; waiting for more updates", 1),
            ("Slave_worker", "Write_rows_log_event::write_row(-1)", 1),
            ("Slave_worker", "Update_rows_log_event::find_row()", 2),
            ("Slave_IO", "Waiting for master to send event", 1),
        ]));
        assert_eq!((sessions.active, sessions.metadata_lock, sessions.commit), (16, 7, 3));
        assert_eq!(sessions.insert, 4, "those that update are others");
        assert_eq!((sessions.appliers, sessions.appliers_busy, sessions.longest_ms), (4, 3, 2.5));
    }

    #[test]
    fn who_waits_for_a_flush_waits_for_the_definition_of_a_table_and_for_no_lock() {
        let sessions = Sessions::read(&rows(&[
            ("Query", "Waiting for table flush", 5),
            ("Query", "Waiting for table metadata lock", 2),
            ("Slave_worker", "Waiting for table flush", 1),
        ]));
        assert_eq!((sessions.metadata_lock, sessions.table_flush), (7, 6));
    }

    #[test]
    fn locks_on_everything_acknowledgements_and_logins_are_told_apart() {
        let sessions = Sessions::read(&rows(&[
            ("Query", "Waiting for backup lock", 4),
            ("Query", "Waiting for table backup lock", 1),
            ("Query", "Waiting for global read lock", 1),
            ("Query", "Waiting for worker threads to pause for global read lock", 1),
            ("Query", "Waiting for semi-sync ACK from slave", 3),
            ("Query", "Waiting for table level lock", 6),
            ("Connect", "login", 4),
            ("Connect", "Waiting for master to send event", 1),
        ]));
        assert_eq!((sessions.active, sessions.metadata_lock, sessions.global_lock), (16, 0, 7));
        assert_eq!(sessions.table_lock, 6, "of one table, not of everything");
        assert_eq!((sessions.commit, sessions.semi_sync, sessions.login), (3, 3, 4));
        assert_eq!(sessions.longest_commit_ms, 0.0, "they wait for a replica");
    }

    #[test]
    fn a_list_of_sessions_counts_as_groups_do_and_without_us() {
        let names = ["Id", "User", "Command", "Time", "State", "Info"].map(str::to_owned);
        let row = |id: u64, command: &str, time: u64, state: Option<&str>| {
            let texts = [Some(id.to_string()), Some("app".to_owned()), Some(command.to_owned())];
            let rest = [Some(time.to_string()), state.map(str::to_owned), None];
            texts.into_iter().chain(rest).collect()
        };
        let rows = Rows::new(
            names,
            vec![
                row(1, "Query", 7, Some("Commit")),
                row(2, "Query", 9, Some("Sending data")),
                row(3, "Sleep", 900, Some("")),
                row(4, "Binlog Dump", 5000, Some("Master has sent all binlog to slave")),
                row(5, "Slave_SQL", 5000, Some("Slave has read all relay log; waiting for more updates")),
                row(6, "Query", 0, Some("starting")),
                row(7, "Daemon", 0, None),
            ],
        );
        let sessions = Sessions::read_list(&rows, 6);
        assert_eq!((sessions.active, sessions.commit, sessions.appliers), (2, 1, 1));
        assert_eq!(sessions.visible, 4, "idle ones and readers of the binary log too");
        assert_eq!((sessions.longest_commit_ms, sessions.longest_ms), (7000.0, 9000.0));
    }

    #[test]
    fn an_event_that_runs_is_at_work_and_a_connection_that_begins_is_not() {
        let names = ["Id", "User", "Command", "Time", "State", "Info"].map(str::to_owned);
        let list = |user: &str, state: &str| {
            let row = [Some("7"), Some(user), Some("Connect"), Some("12"), Some(state), None];
            let rows = vec![row.map(|text| text.map(str::to_owned)).to_vec()];
            let sessions = Sessions::read_list(&Rows::new(names.clone(), rows), 6);
            (sessions.active, sessions.login, sessions.longest_ms)
        };
        assert_eq!(list("root", "Sending data"), (1, 0, 12_000.0));
        assert_eq!(list("root", "login"), (0, 1, 0.0));
        for (user, state) in [
            ("unauthenticated user", "Starting"),
            ("system user", "Waiting for master to send event"),
            ("root", ""),
        ] {
            assert_eq!(list(user, state), (0, 0, 0.0), "{user} {state}");
        }
    }

    #[test]
    fn an_account_that_sees_its_own_sessions_only_is_told_from_a_quiet_server() {
        let of = |visible| Sessions { visible, ..Sessions::default() };
        let hidden = |visible, connected| of(visible).are_hidden(connected, true);
        assert!(hidden(0, 40) && hidden(3, 40));
        assert!(!hidden(39, 40) && !hidden(36, 40), "some have just left");
        assert!(!hidden(0, 1), "we are alone");
        // On an idle server two sessions of others are all there is to see.
        let unseen = |visible, connected| of(visible).are_hidden(connected, false);
        assert!(unseen(1, 4) && unseen(0, 2) && !unseen(1, 2) && !unseen(0, 1));
    }

    #[test]
    fn who_sees_sessions_of_another_account_sees_them_all() {
        let names = ["Id", "User", "Command", "Time", "State", "Info"].map(str::to_owned);
        let row = |id: &str, user: &str| {
            [Some(id), Some(user), Some("Sleep"), Some("1"), None, None].map(|text| text.map(str::to_owned))
        };
        let of_others = |other: &str| {
            let rows = vec![row("6", "headroom").to_vec(), row("7", other).to_vec()];
            Sessions::read_list(&Rows::new(names.clone(), rows), 6).of_others
        };
        assert!(of_others("app") && of_others("system user") && !of_others("headroom"));
    }

    #[test]
    fn whoever_waits_for_a_lock_of_the_applications_own_is_not_at_work() {
        let sessions = Sessions::read(&rows(&[("Query", "User lock", 30), ("Query", "Commit", 4)]));
        assert_eq!((sessions.active, sessions.commit, sessions.visible), (4, 4, 34));
    }

    #[test]
    fn whoever_waits_for_the_applier_is_not_at_work() {
        let sessions = Sessions::read(&rows(&[
            ("Query", "Waiting in MASTER_GTID_WAIT()", 10),
            ("Query", "Waiting in MASTER_GTID_WAIT() (primary waiter)", 1),
            ("Query", "Waiting for GTID to be committed", 5),
            ("Execute", "Waiting for the slave SQL thread to advance position", 2),
            ("Query", "Waiting for the replica SQL thread to advance position", 3),
            ("Query", "Executing hook on transaction begin.", 6),
            ("Query", "Commit", 4),
        ]));
        assert_eq!((sessions.active, sessions.commit, sessions.for_applier), (4, 4, 27));
        assert_eq!(sessions.visible, 31);
    }

    #[test]
    fn whoever_sleeps_is_at_work_and_not_the_one_that_is_longest_at_its_statement() {
        let longest = |state| Sessions::read(&rows(&[("Query", state, 1)])).longest_ms;
        assert_eq!((longest("User sleep"), longest("Sending data")), (0.0, 2.5));
        assert_eq!(Sessions::read(&rows(&[("Query", "User sleep", 3)])).active, 3);
    }

    #[test]
    fn whoever_waits_for_the_nodes_of_a_galera_cluster_waits_in_a_commit_that_is_not_on_its_way_to_disk() {
        let sessions = Sessions::read(&rows(&[
            ("Query", "Waiting for certification", 12),
            ("Query", "Waiting for flow control", 1),
            ("Query", "Waiting to execute in isolation", 1),
            ("Query", "Waiting for TOI DDL", 2),
            ("Query", "Updating", 4),
            ("Sleep", "wsrep applier idle", 4),
        ]));
        assert_eq!((sessions.active, sessions.commit, sessions.galera, sessions.semi_sync), (20, 16, 16, 0));
        assert_eq!((sessions.longest_commit_ms, sessions.appliers), (0.0, 0));
    }

    #[test]
    fn a_commit_of_percona_xtradb_cluster_waits_for_its_nodes_in_words_of_its_own() {
        let sessions = Sessions::read(&rows(&[
            ("Query", "wsrep: replicating and certifying write set(-1)", 12),
            ("Query", "wsrep: initiating replication for write set (-1)", 3),
            ("Query", "wsrep: initiating TOI for write set (-1)", 1),
            ("Query", "wsrep in pre-commit stage", 2),
            ("Query", "updating", 4),
            ("Sleep", "wsrep: committed write set (7)", 4),
        ]));
        assert_eq!((sessions.active, sessions.commit, sessions.galera), (22, 18, 18));
        assert_eq!(sessions.longest_commit_ms, 0.0);
    }

    #[test]
    fn a_commit_that_waits_for_space_on_the_disk_is_a_commit() {
        let sessions = Sessions::read(&rows(&[
            ("Query", "Waiting for someone to free space", 1),
            ("Query", "Waiting for prior transaction to commit", 2),
        ]));
        assert_eq!((sessions.active, sessions.commit, sessions.longest_commit_ms), (3, 3, 2.5));
    }

    #[test]
    fn an_applier_of_mysql_that_waits_is_not_at_work_whatever_the_case_of_its_state() {
        for state in [
            "Waiting for preceding transaction to commit",
            "Waiting for dependent transaction to commit",
            "Waiting for Replica Workers to process their queues",
            "Waiting for Replica Worker to release partition",
            "Waiting for replica workers to process their queues",
            "Waiting for Slave Worker queue",
            "Waiting for slave workers to process their queues",
            "waiting for an event from coordinator",
        ] {
            let sessions = Sessions::read(&rows(&[("Slave_worker", state, 2)]));
            assert_eq!((sessions.appliers, sessions.appliers_busy), (2, 0), "{state}");
        }
    }

    #[test]
    fn an_applier_that_alters_a_table_is_told_from_one_that_changes_rows() {
        let altering = |state| {
            let sessions = Sessions::read(&rows(&[("Slave_worker", state, 1)]));
            (sessions.appliers_busy, sessions.appliers_altering)
        };
        for state in ["altering table", "preparing for alter table", "copy to tmp table"] {
            assert_eq!(altering(state), (1, 1), "{state}");
        }
        assert_eq!(altering("Write_rows_log_event::write_row(-1)"), (1, 0));
        assert_eq!(altering("Waiting for prior transaction to commit"), (0, 0));
    }

    #[test]
    fn an_applier_that_waits_for_a_lock_of_a_session_is_not_at_work_and_no_client() {
        let sessions = Sessions::read(&rows(&[
            ("Slave_SQL", "Waiting for table metadata lock", 1),
            ("Slave_worker", "Waiting for table flush", 1),
            ("Slave_worker", "Waiting for backup lock", 2),
            ("Slave_worker", "Waiting due to global read lock", 1),
            ("Slave_SQL", "Waiting for table level lock", 4),
            ("Slave_worker", "altering table", 1),
        ]));
        assert_eq!((sessions.appliers, sessions.appliers_busy, sessions.active), (10, 1, 0));
        let locks = (sessions.appliers_in_metadata_lock, sessions.appliers_in_global_lock);
        assert_eq!((locks, sessions.appliers_in_table_lock), ((2, 3), 4));
        assert_eq!((sessions.metadata_lock, sessions.global_lock, sessions.table_lock), (0, 0, 0));
    }

    #[test]
    fn waits_of_mysql_are_told_apart() {
        let sessions = Sessions::read(&rows(&[
            ("Query", "waiting for handler commit", 4),
            ("Execute", "Waiting for schema metadata lock", 1),
            ("Query", "executing", 1),
            ("Slave_SQL", "Replica has read all relay log; waiting for more updates", 1),
            ("Slave_worker", "Waiting for an event from Coordinator", 3),
            ("Slave_worker", "Applying batch of row changes (write)", 1),
        ]));
        assert_eq!((sessions.active, sessions.metadata_lock, sessions.commit), (6, 1, 4));
        assert_eq!((sessions.appliers, sessions.appliers_busy), (5, 1));
    }
}
