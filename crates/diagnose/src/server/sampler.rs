//! Asks one server, again and again, on a connection of its own: few statements a reading, each with a
//! deadline, the costly ones seldom, and the whole never more than about a hundredth of the time.

mod holder;

use super::row_search::{self, Keys};
use super::{
    Blocker, Cost, Histogram, LatchWait, Reading, Replica, RowSearch, Sessions, Settings, Status,
    TopStatement, latch, latency, question,
};
use crate::host::{Roots, process};
use config::Credentials;
use fleet::Address;
use holder::{METADATA_LOCKS, untold_locks};
use observe::{AskError, ControlConnection, Dialect, Rows};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often who holds a lock may be asked.
const BLOCKERS_EVERY: Duration = Duration::from_secs(3);
/// How often MySQL is asked how far purge is behind.
const HISTORY_EVERY: Duration = Duration::from_secs(5);
/// Undo logs left to purge from which on the oldest transaction is looked for.
const LONG_HISTORY: u64 = 10_000;
/// How often durations are asked.
const DURATIONS_EVERY: Duration = Duration::from_secs(5);
/// How often the statements that take most time are asked.
const DIGESTS_EVERY: Duration = Duration::from_secs(5);
/// What is known of them holds until they are asked again, a slow server's pauses included.
const DIGESTS_HOLD: Duration = Duration::from_secs(3 * DIGESTS_EVERY.as_secs());
/// How often settings are asked.
const SETTINGS_EVERY: Duration = Duration::from_secs(15);
/// What was refused or is not there is asked again after this long.
const REFUSED: Duration = Duration::from_secs(60);
/// After a question hung that keeps a temporary table on MariaDB's disk, none such is asked for this long.
const TABLES_HANG: Duration = Duration::from_secs(60);
/// A reading whose answers took `t` of the server is followed by a pause of at least this many times `t` ...
const SHARE: f64 = 100.0;
/// ... but of no more than this, unless the interval is longer: a server that is slow to answer is the one
/// whose bottleneck somebody wants named, and what it takes long over is waiting, not two statements.
const LONGEST: Duration = Duration::from_secs(3);

/// Of MySQL without its `performance_schema`: the table of threads is empty there.
const NOT_COUNTED: &str = "what its sessions wait for is not known: performance_schema is off. Set \
    performance_schema = ON in the server's configuration and restart it";

/// What an account of MySQL needs so that changes applied without a key are seen.
const ROW_SEARCH_NEEDS: &str = "GRANT SELECT ON performance_schema.* TO this account, and GRANT SELECT ON \
    mysql.innodb_index_stats TO this account";

/// Asks one server.
pub struct Sampler {
    address: Address,
    who: Credentials,
    deadline: Duration,
    open: Option<Open>,
    /// When questions that keep a temporary table there may be asked.
    tables: Due,
}

struct Open {
    connection: ControlConnection,
    dialect: Dialect,
    on_this_host: bool,
    /// Such a question is under way.
    needs_table: bool,
    row_blocker: Held<Blocker>,
    metadata_blocker: Held<Blocker>,
    table_blocker: Held<Blocker>,
    latch_wait: Held<LatchWait>,
    oldest_transaction: Held<Blocker>,
    history: Due,
    latch_instruments: Due,
    durations: Due,
    digests: Due,
    settings: Due,
    grants: Due,
    row_search: Due,
    seen: RareAnswers,
}

/// What is asked seldom and remembered.
#[derive(Default)]
struct RareAnswers {
    histogram: Option<Arc<Histogram>>,
    digests: Arc<super::Digests>,
    /// What took most time between the last two times that digests were asked, and when the later one was.
    top: Option<(Instant, Arc<TopStatement>)>,
    settings: Arc<Settings>,
    missing: Arc<Vec<String>>,
    history: Option<u64>,
    /// Whether the account may see the sessions of others, as MariaDB's grants say.
    may_see_all: bool,
    /// Whether the server tells who waits for a latch of InnoDB.
    latches_told: bool,
    /// MariaDB's plugin that tells who holds locks was not there: when it is asked again.
    lock_plugin: Due,
    keys: Keys,
    unanswered: Unanswered,
}

/// Why questions that not every reading asks had no answer: told in each reading until they are asked again.
#[derive(Default)]
struct Unanswered {
    row_blocker: Vec<String>,
    metadata_blocker: Vec<String>,
    table_blocker: Vec<String>,
    latch_wait: Vec<String>,
    oldest_transaction: Vec<String>,
    history: Vec<String>,
    row_search: Vec<String>,
}

/// When a question may be asked again.
#[derive(Clone, Copy, Default)]
struct Due(Option<Instant>);

impl Due {
    fn now(self) -> bool {
        self.0.is_none_or(|at| Instant::now() >= at)
    }

    fn after(&mut self, pause: Duration) {
        self.0 = Some(Instant::now() + pause);
    }
}

/// Whom sessions wait for: what was answered holds until it may be asked again, for as long as any wait. A
/// short window has readings in which it was not.
struct Held<T> {
    due: Due,
    answer: Option<T>,
}

impl<T: Clone> Held<T> {
    fn unasked() -> Self {
        Self { due: Due::default(), answer: None }
    }

    /// Whether it is to be asked now: then nothing is known until it is answered.
    fn is_due(&mut self) -> bool {
        let is_due = self.due.now();
        if is_due {
            self.due.after(BLOCKERS_EVERY);
            self.answer = None;
        }
        is_due
    }

    /// What is known of it at a reading; nobody waits any more where there is no reason to ask.
    fn told(&mut self, any_wait: bool) -> Option<T> {
        self.answer = self.answer.take().filter(|_| any_wait);
        self.answer.clone()
    }
}

impl RareAnswers {
    /// What took most time lately; `None` where that was too long ago.
    fn top_at(&self, now: Instant) -> Option<Arc<TopStatement>> {
        let (at, top) = self.top.as_ref()?;
        (now.saturating_duration_since(*at) <= DIGESTS_HOLD).then(|| top.clone())
    }
}

impl Sampler {
    /// A sampler of the server at `address`; nothing is asked yet. An answer that takes longer than
    /// `deadline` is none.
    pub fn new(address: Address, who: Credentials, deadline: Duration) -> Self {
        Self { address, who, deadline, open: None, tables: Due::default() }
    }

    /// Asks now. After an error the next reading begins with a new connection.
    ///
    /// # Errors
    /// The server cannot be reached, does not answer in time, or refuses what every reading needs.
    pub async fn read(&mut self) -> Result<Reading, AskError> {
        let mut open = match self.open.take() {
            Some(open) => open,
            None => Open::introduce(&self.address, &self.who, self.deadline).await?,
        };
        let reading = open.read(self.deadline, self.tables.now()).await;
        match &reading {
            Ok(_) => self.open = Some(open),
            Err(error) if open.needs_table && hung(error) => self.tables.after(TABLES_HANG),
            Err(_) => {}
        }
        reading
    }

    /// Whether the server runs on this machine, also in a container that has an address of its own, so that
    /// what is read of the host is its host; `None` while not connected. A tunnel that ends on this machine
    /// looks the same.
    pub fn is_on_this_host(&self) -> Option<bool> {
        self.open.as_ref().map(|open| open.on_this_host)
    }

    /// How long to wait after `reading`, at least `interval`.
    pub fn pause(reading: &Reading, interval: Duration) -> Duration {
        pause_after(reading.cost.server_ms, interval)
    }

    /// Ends the connection.
    pub fn close(&mut self) {
        self.open = None;
    }
}

impl Open {
    async fn introduce(to: &Address, who: &Credentials, deadline: Duration) -> Result<Self, AskError> {
        let mut connection = ControlConnection::open(to, who, deadline).await?;
        let dialect = connection.recognize(deadline).await?.dialect;
        let in_container = || {
            let proc = Roots::default().proc;
            connection.peer().is_some_and(|ip| process::has_address(ip, &proc))
        };
        let on_this_host = connection.is_on_this_host() || in_container();
        let now = Due::default();
        Ok(Self {
            connection,
            dialect,
            on_this_host,
            needs_table: false,
            row_blocker: Held::unasked(),
            metadata_blocker: Held::unasked(),
            table_blocker: Held::unasked(),
            latch_wait: Held::unasked(),
            oldest_transaction: Held::unasked(),
            history: now,
            latch_instruments: now,
            durations: now,
            digests: now,
            settings: now,
            grants: now,
            row_search: now,
            seen: RareAnswers::default(),
        })
    }

    /// Without `tables` nothing is asked that keeps a temporary table on the server's disk.
    async fn read(&mut self, deadline: Duration, tables: bool) -> Result<Reading, AskError> {
        let at = Instant::now();
        let own = self.connection.session_id();
        let round_trip = self.connection.ping(deadline).await?;
        let mut asking =
            Asker { connection: &mut self.connection, deadline, statements: 0, took: Duration::ZERO };
        asking.settings(&mut self.seen, &mut self.settings).await?;
        (asking.statements, asking.took) = (0, Duration::ZERO);
        let mut missing = Vec::new();
        let status = Status::read(&asking.must(question::STATUS).await?);
        let listed = self.dialect.is_mariadb() && (!tables || status.connected <= question::FEW_SESSIONS);
        let uncounted = !self.dialect.is_mariadb() && !self.seen.settings.performance_schema;
        let mut row_search = RowSearch::default();
        let sessions = if uncounted {
            missing.push(NOT_COUNTED.to_owned());
            None
        } else if listed {
            let rows = asking.may(question::SESSION_LIST, "its sessions", &mut missing).await?;
            rows.map(|rows| {
                row_search = RowSearch::by_states(&rows);
                Sessions::read_list(&rows, own)
            })
        } else {
            self.needs_table = self.dialect.is_mariadb();
            let rows = asking.may(question::sessions(self.dialect), "its sessions", &mut missing).await?;
            self.needs_table = false;
            rows.map(|rows| {
                row_search = RowSearch::by_states(&rows);
                Sessions::read(&rows)
            })
        };
        let only_own = |sessions: &Sessions| !sessions.of_others && sessions.visible + 1 < status.connected;
        if self.dialect.is_mariadb() && sessions.as_ref().is_some_and(only_own) && self.grants.now() {
            self.grants.after(SETTINGS_EVERY);
            let rows = asking.may(question::GRANTS, "its own privileges", &mut missing).await?;
            self.seen.may_see_all = rows.as_ref().is_some_and(may_see_all);
        }
        let hidden = sessions.filter(|sessions| {
            let may_see_all = !self.dialect.is_mariadb() || sessions.of_others || self.seen.may_see_all;
            sessions.are_hidden(status.connected, may_see_all)
        });
        missing.extend(hidden.map(|seen| hidden_sessions(self.dialect, seen.visible + 1, status.connected)));
        let sessions = sessions.filter(|_| hidden.is_none());
        let sessions_seen = sessions.is_some();
        // Without them the server's own count is left, ourselves taken out.
        let sessions = sessions
            .unwrap_or_else(|| Sessions { active: status.running.saturating_sub(1), ..Sessions::default() });
        let replica = asking.replica(self.dialect, &mut missing).await?;
        let behind = replica.as_ref().is_some_and(Replica::may_be_behind);
        if !self.dialect.is_mariadb() && behind && sessions.appliers_busy > 0 {
            row_search = RowSearch::not_known(sessions.appliers_busy);
            if self.row_search.now() {
                let mut lacks = Vec::new();
                match asking.row_search(&mut self.seen.keys, &mut lacks).await? {
                    Some(found) => row_search = found,
                    None => self.row_search.after(REFUSED),
                }
                self.seen.unanswered.row_search = lacks;
            }
            missing.extend_from_slice(&self.seen.unanswered.row_search);
        }
        if !tables {
            missing.push(
                "who holds locks: the question hung, as where the disk with the temporary tables does not answer"
                    .to_owned(),
            );
        }
        self.needs_table = self.dialect.is_mariadb();
        let mut in_auto_increment = 0;
        if self.seen.settings.holds_auto_increment && sessions.insert > 0 {
            let what = "who waits for auto-increment values";
            let rows = asking.may(question::AUTO_INCREMENT, what, &mut missing).await?;
            in_auto_increment = rows.as_ref().and_then(|rows| rows.first()?.parse(&["waiting"])).unwrap_or(0);
        }
        let any_wait = tables && (status.row_waits_now > 0 || in_auto_increment > 0);
        if any_wait {
            let lacks = &mut self.seen.unanswered.row_blocker;
            if self.row_blocker.is_due() {
                let statement = question::row_blocker(self.dialect);
                self.row_blocker.answer = asking.blocker(statement, "who holds row locks", lacks).await?;
            }
            missing.extend_from_slice(lacks);
        }
        let row_blocker = self.row_blocker.told(any_wait);
        let in_metadata_lock = sessions.metadata_lock + sessions.appliers_in_metadata_lock;
        let in_global_lock = sessions.global_lock + sessions.appliers_in_global_lock;
        let any_wait = tables && in_metadata_lock + in_global_lock > 0;
        if any_wait {
            if self.metadata_blocker.is_due() {
                let (global, flush) = (in_global_lock > in_metadata_lock, sessions.table_flush > 0);
                let (seen, mut lacks) = (&mut self.seen, Vec::new());
                let found = asking.lock_holder(self.dialect, global, flush, seen, &mut lacks).await?;
                self.metadata_blocker.answer = found;
                self.seen.unanswered.metadata_blocker = lacks;
            }
            missing.extend_from_slice(&self.seen.unanswered.metadata_blocker);
        }
        let metadata_blocker = self.metadata_blocker.told(any_wait);
        let any_wait = tables && sessions.table_lock + sessions.appliers_in_table_lock > 0;
        if any_wait {
            if self.table_blocker.is_due() {
                let mut lacks = Vec::new();
                let told = self.seen.settings.performance_schema;
                let found = asking.table_holder(told, status.open_tables, &mut lacks).await?;
                self.table_blocker.answer = found;
                self.seen.unanswered.table_blocker = lacks;
            }
            missing.extend_from_slice(&self.seen.unanswered.table_blocker);
        }
        let table_blocker = self.table_blocker.told(any_wait);
        let mut in_admission = Some(0);
        if self.seen.settings.at_work > 0 {
            in_admission = None;
            if let Some(statement) = question::admission(self.dialect, self.seen.settings.pool_of_threads) {
                let rows = asking.may(statement, "who waits to be let in", &mut missing).await?;
                in_admission = rows.as_ref().and_then(|rows| rows.first()?.parse(&["waiting"]));
            }
        }
        if !self.dialect.is_mariadb() && self.history.now() {
            self.history.after(HISTORY_EVERY);
            let (what, mut lacks) = ("how far purge is behind", Vec::new());
            let rows = asking.may(question::HISTORY, what, &mut lacks).await?;
            self.seen.history =
                rows.as_ref().and_then(|rows| rows.first().and_then(|row| row.parse(&["value"])));
            self.seen.unanswered.history = lacks;
        }
        missing.extend_from_slice(&self.seen.unanswered.history);
        let history = status.history.or(self.seen.history);
        let is_long = tables && history.is_some_and(|length| length >= LONG_HISTORY);
        if is_long {
            let lacks = &mut self.seen.unanswered.oldest_transaction;
            if self.oldest_transaction.is_due() {
                let statement = question::oldest_transaction(self.dialect);
                let found = asking.blocker(statement, "the oldest transaction", lacks).await?;
                self.oldest_transaction.answer = found;
            }
            missing.extend_from_slice(lacks);
        }
        let oldest_transaction = self.oldest_transaction.told(is_long);
        self.needs_table = false;
        let mut in_latch = None;
        let mut in_latch_and_commit = 0;
        if self.seen.latches_told
            && let Some((waiting, committing)) = asking.in_latch(sessions.active, &mut missing).await?
        {
            (in_latch, in_latch_and_commit) = (Some(waiting), committing);
        }
        let any_wait = in_latch.is_some_and(|waiting| waiting > 0);
        if any_wait {
            let lacks = &mut self.seen.unanswered.latch_wait;
            if self.latch_wait.is_due() {
                lacks.clear();
                let what = "which latch is waited for";
                let rows = asking.may(&question::latch_waits(), what, lacks).await?;
                self.latch_wait.answer = rows.as_ref().and_then(LatchWait::read);
            }
            missing.extend_from_slice(lacks);
        }
        let latch_wait = self.latch_wait.told(any_wait);
        let every_reading = (asking.statements, asking.took);
        asking.latch_instruments(&mut self.seen, &mut self.latch_instruments).await?;
        asking.seldom(self.dialect, &mut self.seen, &mut self.durations, &mut self.digests).await?;
        if !missing.is_empty() || !self.seen.missing.is_empty() {
            self.seen.missing = Arc::new(missing);
        }
        let trips = round_trip * every_reading.0;
        Ok(Reading {
            at,
            status,
            sessions,
            sessions_seen,
            row_blocker,
            metadata_blocker,
            table_blocker,
            oldest_transaction,
            in_admission,
            in_auto_increment,
            in_latch,
            in_latch_and_commit,
            latch: latch_wait,
            history,
            replica,
            row_search,
            histogram: self.seen.histogram.clone(),
            digests: self.seen.digests.clone(),
            top: self.seen.top_at(at),
            settings: self.seen.settings.clone(),
            round_trip,
            cost: Cost {
                statements: every_reading.0,
                server_ms: every_reading.1.saturating_sub(trips).as_secs_f64() * 1e3,
            },
            missing: self.seen.missing.clone(),
        })
    }
}

struct Asker<'a> {
    connection: &'a mut ControlConnection,
    deadline: Duration,
    statements: u32,
    took: Duration,
}

impl Asker<'_> {
    async fn must(&mut self, statement: &str) -> Result<Rows, AskError> {
        let start = Instant::now();
        let answer = self.connection.ask(statement, self.deadline).await;
        self.statements += 1;
        self.took += start.elapsed();
        answer
    }

    /// `None` when the server refuses or does not know; then it is said what is missing.
    async fn may(
        &mut self,
        statement: &str,
        what: &str,
        missing: &mut Vec<String>,
    ) -> Result<Option<Rows>, AskError> {
        match self.must(statement).await {
            Ok(rows) => Ok(Some(rows)),
            Err(error) if error.is_fatal() => Err(error),
            Err(error) => {
                tracing::debug!(%error, statement, "not answered");
                missing.push(format!("{what} could not be asked: {error}"));
                Ok(None)
            }
        }
    }

    /// How many sessions wait for a latch, and how many of those in their commit; where nobody is at work
    /// nobody does.
    async fn in_latch(
        &mut self,
        at_work: u64,
        missing: &mut Vec<String>,
    ) -> Result<Option<(u64, u64)>, AskError> {
        if at_work == 0 {
            return Ok(Some((0, 0)));
        }
        let rows = self.may(&question::in_latch(), "who waits for latches", missing).await?;
        Ok(rows.as_ref().and_then(|rows| {
            let row = rows.first()?;
            Some((row.parse(&["waiting"])?, row.parse(&["committing"])?))
        }))
    }

    /// Whether latches are told. That they are not is no lack: by default no server does.
    async fn latch_instruments(&mut self, seen: &mut RareAnswers, due: &mut Due) -> Result<(), AskError> {
        if due.now() {
            let mut rows = None;
            if seen.settings.performance_schema {
                let (what, mut absent) = ("the instruments of latches", Vec::new());
                rows = self.may(question::LATCH_INSTRUMENTS, what, &mut absent).await?;
            }
            due.after(if rows.is_some() { SETTINGS_EVERY } else { REFUSED });
            seen.latches_told = rows.as_ref().is_some_and(latch::are_told);
        }
        Ok(())
    }

    async fn replica(
        &mut self,
        dialect: Dialect,
        missing: &mut Vec<String>,
    ) -> Result<Option<Replica>, AskError> {
        let what = "its replication";
        if dialect.aurora {
            let rows = self.may(question::AURORA_SELF, what, missing).await?;
            return Ok(rows.as_ref().and_then(Replica::read_aurora));
        }
        let Some(statement) = dialect.replication() else { return Ok(None) };
        let rows = self.may(statement, what, missing).await?;
        Ok(rows.as_ref().and_then(Replica::read))
    }

    /// Which appliers of MySQL look for rows in a table without a key; `None` where it may not be asked.
    async fn row_search(
        &mut self,
        keys: &mut Keys,
        missing: &mut Vec<String>,
    ) -> Result<Option<RowSearch>, AskError> {
        let (what, mut refused) = ("what its appliers change", Vec::new());
        let Some(rows) = self.may(question::CHANGED_TABLES, what, &mut refused).await? else {
            missing.extend(refused.iter().map(|why| format!("{why}. {ROW_SEARCH_NEEDS}")));
            return Ok(None);
        };
        let held = row_search::held(&rows);
        if held.values().any(BTreeSet::is_empty) {
            let rows = self.may(question::LOCK_INSTRUMENT, what, &mut refused).await?;
            missing.extend(rows.as_ref().and_then(|rows| untold_locks(rows, &METADATA_LOCKS)));
        }
        let now = Instant::now();
        for table in keys.next_to_ask(&held, now) {
            let (statement, what) =
                (question::lacks_key(&table), "whether tables that it changes have a key");
            let Some(rows) = self.may(&statement, what, &mut refused).await? else {
                missing.extend(refused.iter().map(|why| format!("{why}. {ROW_SEARCH_NEEDS}")));
                return Ok(None);
            };
            keys.note(table, row_search::lacks_key(&rows), now);
        }
        missing.extend(keys.why_unknown(&held));
        Ok(Some(keys.search(&held)))
    }

    async fn settings(&mut self, seen: &mut RareAnswers, settings: &mut Due) -> Result<(), AskError> {
        if settings.now() {
            settings.after(SETTINGS_EVERY);
            seen.settings = Arc::new(Settings::read(&self.must(question::SETTINGS).await?));
        }
        Ok(())
    }

    async fn seldom(
        &mut self,
        dialect: Dialect,
        seen: &mut RareAnswers,
        durations: &mut Due,
        digests: &mut Due,
    ) -> Result<(), AskError> {
        // What is not there is no lack: the router times statements itself.
        let mut absent = Vec::new();
        if durations.now() {
            let rows = self.may(question::durations(dialect), "durations", &mut absent).await?;
            durations.after(if rows.is_some() { DURATIONS_EVERY } else { REFUSED });
            seen.histogram = rows.as_ref().and_then(Histogram::read).map(Arc::new);
        }
        if seen.settings.performance_schema && digests.now() {
            let rows = self.may(&question::digests(dialect), "digests", &mut absent).await?;
            digests.after(if rows.is_some() { DIGESTS_EVERY } else { REFUSED });
            let refused = || super::Digests { refused: true, ..super::Digests::default() };
            let now = rows.as_ref().map_or_else(refused, latency::digests).following(&seen.digests);
            let top = latency::top(&seen.digests, &now);
            seen.top = top.map(|top| (Instant::now(), Arc::new(top)));
            seen.digests = Arc::new(now);
        }
        Ok(())
    }
}

impl std::fmt::Debug for Sampler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sampler").field("address", &self.address).finish_non_exhaustive()
    }
}

/// Whether a question hung: a server that ends meanwhile, or is ended, does not.
fn hung(error: &AskError) -> bool {
    matches!(error, AskError::Silent { .. })
}

/// Whether grants let an account see the sessions of all.
fn may_see_all(grants: &Rows) -> bool {
    let everywhere = |grant: &str| {
        grant.split_once(" ON *.* TO ").is_some_and(|(privileges, _)| {
            let named = privileges.trim_start_matches("GRANT ").split(", ");
            named.map(str::trim).any(|name| name == "PROCESS" || name == "ALL PRIVILEGES")
        })
    };
    grants.iter().any(|row| row.values().any(everywhere))
}

/// That sessions of others are hidden, and what shows them.
fn hidden_sessions(dialect: Dialect, visible: u64, connected: u64) -> String {
    let mend = if dialect.is_mariadb() {
        "GRANT PROCESS ON *.* TO this account"
    } else {
        "set performance_schema_max_thread_instances = -1 in the server's configuration and restart it"
    };
    format!(
        "what its sessions wait for is not known: of {connected} sessions {visible} are in sight of this account. {mend}"
    )
}

/// The pause after answers that took this long.
fn pause_after(server_ms: f64, interval: Duration) -> Duration {
    interval.max(Duration::from_secs_f64(server_ms / 1e3 * SHARE).min(LONGEST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_right_to_see_all_sessions_is_read_from_grants() {
        let granted = |grant: &str| {
            let rows = vec![vec![Some(grant.to_owned())], vec![Some("GRANT USAGE ON *.* TO `r`".to_owned())]];
            may_see_all(&Rows::new(["Grants for headroom@%".to_owned()], rows))
        };
        assert!(granted("GRANT SELECT, PROCESS ON *.* TO `h`@`%` IDENTIFIED BY PASSWORD '*0'"));
        assert!(granted("GRANT ALL PRIVILEGES ON *.* TO `root`@`localhost` WITH GRANT OPTION"));
        assert!(!granted("GRANT ALL PRIVILEGES ON `app`.* TO `h`@`%`"));
        assert!(!granted("GRANT REPLICATION SLAVE ADMIN ON *.* TO `PROCESS`@`%`"));
    }

    #[test]
    fn a_server_that_is_restarted_while_it_is_asked_has_not_hung() {
        let deadline = Duration::from_secs(5);
        assert!(hung(&AskError::Silent { what: "a question".to_owned(), deadline }));
        assert!(!hung(&AskError::Broken { why: "connection reset by peer".to_owned() }));
        let (state, message) = ("08S01".to_owned(), "Server shutdown in progress".to_owned());
        assert!(!hung(&AskError::Answered { code: 1053, state, message }));
    }

    #[test]
    fn whom_sessions_wait_for_is_told_until_it_is_asked_again_or_nobody_waits() {
        let mut held: Held<u64> = Held::unasked();
        assert!(held.is_due());
        held.answer = Some(42);
        assert!(!held.is_due(), "a moment ago");
        assert_eq!((held.told(true), held.told(true)), (Some(42), Some(42)));
        assert_eq!((held.told(false), held.told(true)), (None, None), "others wait now");
        held.answer = Some(42);
        held.due = Due::default();
        assert!(held.is_due());
        assert_eq!(held.told(true), None, "this time nobody was found");
    }

    #[test]
    fn the_statement_that_took_most_time_holds_until_it_is_asked_for_again() {
        let start = Instant::now();
        let seen = RareAnswers { top: Some((start, Arc::default())), ..RareAnswers::default() };
        let holds = |s: u64| seen.top_at(start + Duration::from_secs(s)).is_some();
        assert!(holds(0) && holds(13) && holds(15) && !holds(16));
        assert!(RareAnswers::default().top_at(start).is_none());
    }

    #[test]
    fn a_server_that_answers_slowly_is_spared_and_yet_read_every_few_seconds() {
        let pause =
            |server_ms, interval_s| pause_after(server_ms, Duration::from_secs(interval_s)).as_millis();
        assert_eq!((pause(5.0, 1), pause(20.0, 1), pause(150.0, 1)), (1000, 2000, 3000));
        assert_eq!(pause(150.0, 10), 10_000);
    }
}
