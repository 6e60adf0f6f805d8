//! What a host and a server did in a window, as JSON, the page and the terminal show it. The field names are
//! a promise to whoever reads them; the samples that they are copied from are free to change.

use diagnose::host::{self, Pressures};
use diagnose::server::{self, HeldBy};
use serde::{Deserialize, Serialize};

/// A value that is shown, made of one that is not.
pub trait Shows<T> {
    /// Copies it.
    fn of(value: &T) -> Self;
}

/// Structs with the same fields as the one that each shows.
macro_rules! shows {
    ($($(#[$about:meta])* $name:ident of $from:ty { $($(#[$field_about:meta])* $field:ident: $type:ty,)* })*) => {$(
        $(#[$about])*
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
        pub struct $name {
            $($(#[$field_about])* pub $field: $type,)*
        }

        impl Shows<$from> for $name {
            fn of(value: &$from) -> Self {
                Self { $($field: Shows::of(&value.$field),)* }
            }
        }
    )*};
}

macro_rules! shows_itself {
    ($($type:ty)*) => {$(
        impl Shows<$type> for $type {
            fn of(value: &$type) -> Self {
                value.clone()
            }
        }
    )*};
}

shows_itself!(bool u32 u64 usize f64 String);

impl<T, S: Shows<T>> Shows<Option<T>> for Option<S> {
    fn of(value: &Option<T>) -> Self {
        value.as_ref().map(S::of)
    }
}

impl<T, S: Shows<T>> Shows<Vec<T>> for Vec<S> {
    fn of(value: &Vec<T>) -> Self {
        value.iter().map(S::of).collect()
    }
}

impl<A, B, S: Shows<A>, T: Shows<B>> Shows<(A, B)> for (S, T) {
    fn of((a, b): &(A, B)) -> Self {
        (S::of(a), T::of(b))
    }
}

/// A figure that is known.
impl Shows<f64> for Option<f64> {
    fn of(value: &f64) -> Self {
        Some(*value)
    }
}

impl Shows<(f64, f64)> for Option<(f64, f64)> {
    fn of(value: &(f64, f64)) -> Self {
        Some(*value)
    }
}

impl Shows<HeldBy> for String {
    fn of(held: &HeldBy) -> Self {
        match held {
            HeldBy::ByAnIdleClient => "by-an-idle-client",
            HeldBy::ByAStatement => "by-a-statement",
        }
        .to_owned()
    }
}

shows! {
    /// A host in a window.
    HostSampleView of host::Sample {
        /// Length of the window.
        seconds: f64,
        /// CPU time of a reading.
        cost_ms: f64,
        cpu: CpuView,
        /// How fast its CPUs run.
        #[serde(default)]
        frequency: FrequencyView,
        pressure: PressuresView,
        memory: MemoryView,
        disks: Vec<DiskView>,
        nics: Vec<NicView>,
        softnet: Vec<SoftnetView>,
        tcp: TcpView,
        neighbours: TableView,
        conntrack: Option<TableView>,
        /// The busiest.
        interrupts: Vec<InterruptView>,
        /// The busiest.
        softirqs: Vec<InterruptView>,
    }

    /// CPUs.
    CpuView of host::cpu::Sample {
        all: SharesView,
        /// By the CPU's number.
        each: Vec<(u32, SharesView)>,
        switches_per_s: f64,
        forks_per_s: f64,
        running: u64,
        blocked: u64,
    }

    /// How fast CPUs run; null where it is not known, as on most guests.
    FrequencyView of host::frequency::Sample {
        /// Of their highest frequency, at which they run.
        share_of_highest: Option<f64>,
        /// How often heat held back the one that was held back most.
        throttled: Option<u64>,
    }

    /// Shares of CPU time, 0 to 1.
    SharesView of host::cpu::Shares {
        user: f64,
        system: f64,
        irq: f64,
        softirq: f64,
        steal: f64,
        iowait: f64,
        idle: f64,
    }

    /// Where tasks waited; absent where the kernel does not say.
    PressuresView of Pressures<host::pressure::Sample> {
        cpu: Option<PressureView>,
        memory: Option<PressureView>,
        io: Option<PressureView>,
    }

    /// Shares of time.
    PressureView of host::pressure::Sample {
        /// Somebody waited.
        some: f64,
        /// Nobody could work.
        full: f64,
    }

    /// Memory.
    MemoryView of host::memory::Sample {
        level: MemoryLevelView,
        swapped_in_per_s: f64,
        swapped_out_per_s: f64,
        scanned_direct_per_s: f64,
        scanned_per_s: Option<f64>,
        stalls_per_s: f64,
        major_faults_per_s: f64,
        refaults_per_s: f64,
        /// Programs killed for want of memory in the window.
        killed: u64,
    }

    /// Bytes.
    MemoryLevelView of host::memory::Level {
        total: u64,
        free: u64,
        available: u64,
        cached: u64,
        dirty: u64,
        writeback: u64,
        swap_total: u64,
        swap_free: u64,
    }

    /// A disk.
    DiskView of host::disk::Sample {
        name: String,
        read: DiskWorkView,
        written: DiskWorkView,
        flushed: Option<DiskWorkView>,
        /// Share of time.
        busy: f64,
        queue: f64,
        in_flight: u64,
    }

    /// Requests of one kind.
    DiskWorkView of host::disk::Work {
        per_s: f64,
        bytes_per_s: f64,
        /// Mean time of one.
        await_ms: Option<f64>,
        /// On average.
        under_way: f64,
    }

    /// A network interface.
    NicView of host::nic::Sample {
        name: String,
        received: TrafficView,
        sent: TrafficView,
        /// What it can carry each way, as its driver says.
        link_bytes_per_s: Option<f64>,
    }

    /// One way.
    TrafficView of host::nic::Traffic {
        bytes_per_s: f64,
        packets_per_s: f64,
        errors_per_s: f64,
        dropped_per_s: f64,
    }

    /// The backlog of a CPU.
    SoftnetView of host::softnet::Sample {
        cpu: u32,
        processed_per_s: f64,
        dropped_per_s: f64,
        /// It stopped with packets left.
        squeezed_per_s: f64,
    }

    /// TCP.
    TcpView of host::tcp::Sample {
        sent_per_s: f64,
        sent_again_per_s: f64,
        sent_again_share: Option<f64>,
        established: u64,
        timeouts_per_s: f64,
        listen_overflows_per_s: f64,
        listen_drops_per_s: f64,
    }

    /// A table of the kernel that can be full.
    TableView of host::table::Sample {
        entries: u64,
        /// 0 when not known.
        limit: u64,
        refused_per_s: f64,
    }

    /// The limits that a server lives under.
    LimitsView of host::cgroup::Sample {
        cpu: Option<CpuLimitView>,
        memory: Option<MemoryLimitView>,
        /// The limit of IO that is used most.
        io: Option<IoLimitView>,
        threads: Option<ThreadLimitView>,
        files: Option<FileLimitView>,
        /// The CPUs that it may run on, where those are not all that are online.
        pinned_to: Option<Vec<u32>>,
    }

    /// A limit of threads and processes.
    ThreadLimitView of host::cgroup::ThreadLimit {
        /// The cgroup it stands at; empty for the limit of its user.
        path: String,
        limit: u64,
        /// Of its user's limit, its own threads alone.
        used: u64,
        /// How often one more was refused in the window.
        refused: u64,
        /// Whether it is the limit of its user (`ulimit -u`).
        #[serde(default)]
        by_ulimit: bool,
    }

    /// The files that a process may open, and those that it has open.
    FileLimitView of host::cgroup::FileLimit {
        limit: u64,
        open: u64,
    }

    /// A limit of what may be read from or written to a device in a second.
    IoLimitView of host::cgroup::IoLimit {
        path: String,
        device: String,
        what: String,
        limit: f64,
        used: f64,
    }

    /// A quota of CPU time.
    CpuLimitView of host::cgroup::CpuLimit {
        /// The cgroup it stands at.
        path: String,
        cpus: f64,
        used: f64,
        /// Share of periods in which it was held back.
        throttled: f64,
        /// What it draws on beyond its quota; null where it may not.
        burst: Option<BurstView>,
    }

    /// The burst of a quota of CPU time.
    BurstView of host::cgroup::Burst {
        /// CPU seconds that may be saved up.
        allowed_s: f64,
        /// Share of periods in which some of it was used.
        periods: f64,
        /// CPUs used beyond the quota.
        cpus: f64,
    }

    /// A limit of memory, bytes.
    MemoryLimitView of host::cgroup::MemoryLimit {
        path: String,
        limit: u64,
        used: u64,
        met_per_s: f64,
        killed: u64,
        pressure: Option<PressureView>,
    }

    /// Room of the file system with the data, bytes.
    SpaceView of diagnose::verdict::Space {
        path: String,
        total: u64,
        available: u64,
        /// Seconds from now.
        full_in_s: Option<f64>,
    }

    /// An interrupt on a CPU.
    InterruptView of host::interrupt::Sample {
        name: String,
        what: String,
        cpu: u32,
        per_s: f64,
    }

    /// A server in a window.
    ServerSampleView of server::Sample {
        /// Length of the window.
        seconds: f64,
        /// How often its sessions were looked at.
        looks: usize,
        uptime_s: u64,
        statements_per_s: f64,
        selects_per_s: f64,
        writes_per_s: f64,
        /// Inside the engines (`Handler_commit`): of reads too.
        commits_per_s: f64,
        mean_statement_ms: Option<f64>,
        quantiles: Option<QuantilesView>,
        /// Sessions at work on average.
        active: f64,
        /// What they wait for could not be seen, row locks excepted: then the figures of it are null.
        #[serde(default)]
        sessions_unseen: bool,
        /// Null where the server's count of them cannot be right.
        in_row_lock: Option<f64>,
        in_metadata_lock: Option<f64>,
        in_global_lock: Option<f64>,
        /// Of engines without row locks.
        #[serde(default)]
        in_table_lock: Option<f64>,
        /// Inserts that wait until another statement has its auto-increment values.
        #[serde(default)]
        in_auto_increment: Option<f64>,
        /// Waiting for a latch of InnoDB; null where the server does not tell.
        in_latch: Option<f64>,
        /// The latch that most of them wait for.
        latch: Option<LatchWaitView>,
        in_commit: Option<f64>,
        /// Waiting for a replica's acknowledgement, or for the nodes of a Galera cluster.
        in_semi_sync: Option<f64>,
        /// Seconds, commits that wait for a replica left out.
        longest_commit_s: Option<f64>,
        in_login: Option<f64>,
        /// Statements that wait until fewer are at work; null where the server does not tell.
        in_admission: Option<f64>,
        longest_s: Option<f64>,
        row_waits_per_s: f64,
        row_blocker: Option<BlockerView>,
        metadata_blocker: Option<BlockerView>,
        /// Who holds a table of an engine without row locks.
        table_blocker: Option<BlockerView>,
        oldest_transaction: Option<BlockerView>,
        /// Undo logs that purge has not removed.
        history: Option<u64>,
        connected: f64,
        /// 0 when not known.
        max_connections: u64,
        refused_per_s: f64,
        connections_per_s: f64,
        /// Open tables, and how many the cache holds.
        tables: (u64, u64),
        tables_opened_per_s: f64,
        threads_created_per_s: f64,
        pool: PoolView,
        log: LogView,
        /// Temporary tables a second, and of those on disk.
        temporary_per_s: (f64, f64),
        replica: Option<ReplicaView>,
        /// Appliers at work on average, and in all.
        appliers: Option<(f64, f64)>,
        round_trip_ms: f64,
        digests: Vec<DigestView>,
        top: Option<TopStatementView>,
        settings: SettingsView,
        cost: AskingCostView,
        /// What could not be asked and why.
        missing: Vec<String>,
    }

    /// Durations of statements.
    QuantilesView of server::Quantiles {
        statements: u64,
        p50_ms: f64,
        p95_ms: f64,
        p99_ms: f64,
    }

    /// The statement that took most of the window.
    TopStatementView of server::TopStatement {
        text: String,
        share: f64,
        calls: u64,
        mean_ms: f64,
        rows_examined: f64,
        rows_sent: f64,
    }

    /// A session that others wait for.
    BlockerView of server::Blocker {
        id: u64,
        user: String,
        host: String,
        /// `by-an-idle-client` or `by-a-statement`.
        held: String,
        age_s: u64,
        /// Without one, `age_s` is how long it has been idle or in its statement.
        #[serde(default)]
        in_transaction: bool,
        table: Option<String>,
        waiting: u64,
        guessed: bool,
    }

    /// A latch of InnoDB that sessions wait for.
    LatchWaitView of server::LatchWait {
        /// Its name on the server.
        latch: String,
        waiting: u64,
        table: Option<String>,
        /// The statement that most of them are in, without its literals.
        statement: Option<String>,
    }

    /// The buffer pool; shares of its pages.
    PoolView of server::Pool {
        /// Bytes.
        size: u64,
        free: f64,
        room: f64,
        dirty: f64,
        requests_per_s: f64,
        misses_per_s: f64,
        read_ahead_per_s: f64,
        read_ahead_wasted_per_s: f64,
        flushed_per_s: f64,
        waits_for_free_per_s: f64,
        loading: bool,
    }

    /// The redo log and the binary log.
    LogView of server::Log {
        redo_bytes_per_s: f64,
        /// Share of what the log can hold.
        checkpoint_age: Option<f64>,
        /// Bytes.
        capacity: Option<u64>,
        waits_per_s: f64,
        fsyncs_per_s: f64,
        fsyncs_pending: f64,
        #[serde(default)]
        binlog_commits_per_s: f64,
        binlog_groups_per_s: f64,
    }

    /// What it replicates.
    ReplicaView of server::Replica {
        lag_s: Option<f64>,
        delay_s: f64,
        receives: bool,
        applies: bool,
    }

    /// A kind of statement.
    DigestView of server::Digest {
        text: String,
        calls: u64,
        mean_ms: f64,
        p95_ms: Option<f64>,
        p99_ms: Option<f64>,
        rows_examined: f64,
        rows_sent: f64,
    }

    /// Settings of the server.
    SettingsView of server::Settings {
        max_connections: u64,
        pool_size: u64,
        kept_free: u64,
        pool_parts: u64,
        /// Null when not known, as the next one.
        flush_log_at_commit: Option<u64>,
        sync_binlog: Option<u64>,
        parallel_appliers: u64,
        performance_schema: bool,
        datadir: String,
        pid_file: String,
        hostname: String,
        port: u64,
        server_id: u64,
    }

    /// What a reading costs.
    AskingCostView of server::Cost {
        statements: u32,
        server_ms: f64,
    }
}

impl ServerSampleView {
    /// The figures of a sample. Those that need sight of the sessions are none where they are hidden: a
    /// sample has 0 there.
    pub fn of_sample(sample: &server::Sample) -> Self {
        let mut view: Self = Shows::of(sample);
        view.in_row_lock = view.in_row_lock.filter(|_| !sample.row_waits_unknown);
        if !sample.sessions_unseen {
            return view;
        }
        Self {
            in_metadata_lock: None,
            in_global_lock: None,
            in_table_lock: None,
            in_auto_increment: None,
            in_latch: None,
            latch: None,
            in_commit: None,
            in_semi_sync: None,
            longest_commit_s: None,
            in_login: None,
            longest_s: None,
            appliers: None,
            ..view
        }
    }
}

impl HostSampleView {
    /// How many CPUs are online.
    pub fn cpus(&self) -> usize {
        self.cpu.each.len().max(1)
    }

    /// Bytes of a request to its disks; `None` where there was none.
    pub fn request_bytes(&self) -> Option<f64> {
        let (mut requests, mut bytes) = (0.0, 0.0);
        for work in self.disks.iter().flat_map(|disk| [&disk.read, &disk.written]) {
            requests += work.per_s;
            bytes += work.bytes_per_s;
        }
        (requests > 0.0).then(|| bytes / requests)
    }
}

impl SharesView {
    /// Share of time in which it worked: idle, iowait and steal left out.
    pub fn busy(&self) -> f64 {
        self.user + self.system + self.irq + self.softirq
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_sessions_that_are_hidden_are_null_and_not_0() {
        let sample = server::Sample { active: 3.0, in_row_lock: 1.0, ..server::Sample::default() };
        let json =
            |sample: &server::Sample| serde_json::to_value(ServerSampleView::of_sample(sample)).unwrap();
        let seen = json(&sample);
        assert_eq!((&seen["in_commit"], &seen["appliers"][1]), (&0.0.into(), &0.0.into()));
        let hidden = json(&server::Sample { sessions_unseen: true, ..sample });
        assert_eq!((&hidden["active"], &hidden["in_row_lock"]), (&3.0.into(), &1.0.into()), "counted there");
        let broken = json(&server::Sample { row_waits_unknown: true, ..server::Sample::default() });
        assert!(broken["in_row_lock"].is_null() && broken["in_metadata_lock"].is_number());
        for name in ["in_metadata_lock", "in_commit", "in_login", "longest_s", "appliers"] {
            assert!(hidden[name].is_null(), "{name}");
        }
    }
}
