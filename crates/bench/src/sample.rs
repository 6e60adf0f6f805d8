//! What one cell gave, and the figures that tables are made of.

use super::process::Memory;
use super::schedule::{Condition, Subject};
use super::sysbench::Outcome;
use serde::Serialize;

/// One cell of the plan, measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Sample {
    /// From 1.
    pub(crate) round: u32,
    /// The how-manieth cell of the run this was, from 1.
    pub(crate) position: usize,
    /// Who carried the queries.
    pub(crate) subject: Subject,
    /// What it had to stand.
    pub(crate) condition: Condition,
    /// What came out.
    #[serde(flatten)]
    pub(crate) found: Found,
}

/// What came out of a cell.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "found")]
pub(crate) enum Found {
    /// Under load.
    Load {
        /// What the clients saw.
        clients: Outcome,
        /// What it cost the server process: CPU in microseconds a query.
        server_cpu_us: f64,
        /// What it cost the subject; nothing for a direct connection, which has no process.
        cost: Option<Cost>,
    },
    /// Connect, ask, close: microseconds a cycle.
    Connect {
        /// The middle one.
        p50_us: f64,
        /// All but one in a hundred were shorter.
        p99_us: f64,
    },
}

/// What a subject's process used.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Cost {
    /// User and system time in microseconds a query.
    pub(crate) cpu_us: f64,
    /// Just started, one session served and closed.
    pub(crate) empty: Memory,
    /// With the idle sessions open and nothing else; as `empty` where the condition has none.
    pub(crate) idle: Memory,
    /// The most that was seen during the load.
    pub(crate) loaded: Memory,
}

/// A figure of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Metric {
    /// Queries a second.
    Qps,
    /// Median response time, ms.
    P50Ms,
    /// 99th percentile of response time, ms.
    P99Ms,
    /// CPU of the subject, microseconds a query.
    CpuUs,
    /// CPU of the server, microseconds a query.
    ServerCpuUs,
    /// Resident memory under load, KiB.
    LoadedKib,
    /// Resident memory just started, KiB.
    EmptyKib,
    /// Resident memory with the idle sessions open, KiB.
    IdleKib,
    /// Resident memory that the idle sessions added, KiB.
    SessionsKib,
    /// The same for one of them, KiB.
    IdleSessionKib,
    /// Median of connect, ask, close, microseconds.
    ConnectP50Us,
    /// 99th percentile of it.
    ConnectP99Us,
}

impl Metric {
    /// All of them.
    pub(crate) const ALL: [Self; 12] = [
        Self::Qps,
        Self::P50Ms,
        Self::P99Ms,
        Self::CpuUs,
        Self::ServerCpuUs,
        Self::LoadedKib,
        Self::EmptyKib,
        Self::IdleKib,
        Self::SessionsKib,
        Self::IdleSessionKib,
        Self::ConnectP50Us,
        Self::ConnectP99Us,
    ];

    /// In tables.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Qps => "QPS",
            Self::P50Ms => "p50",
            Self::P99Ms => "p99",
            Self::CpuUs => "CPU us a query",
            Self::ServerCpuUs => "server CPU us a query",
            Self::LoadedKib => "KiB under load",
            Self::EmptyKib => "KiB just started",
            Self::IdleKib => "KiB with the idle sessions",
            Self::SessionsKib => "KiB that the idle sessions add",
            Self::IdleSessionKib => "KiB a session",
            Self::ConnectP50Us => "connect, ask, close p50",
            Self::ConnectP99Us => "connect, ask, close p99",
        }
    }
}

impl Sample {
    /// A figure of this sample; `None` when it has none of that kind.
    pub(crate) fn value(&self, metric: Metric) -> Option<f64> {
        match &self.found {
            Found::Connect { p50_us, p99_us } => match metric {
                Metric::ConnectP50Us => Some(*p50_us),
                Metric::ConnectP99Us => Some(*p99_us),
                _ => None,
            },
            Found::Load { clients, server_cpu_us, cost } => match metric {
                Metric::Qps => Some(clients.qps),
                Metric::P50Ms => Some(clients.p50_ms),
                Metric::P99Ms => Some(clients.p99_ms),
                Metric::ServerCpuUs => Some(*server_cpu_us),
                _ => cost.as_ref().and_then(|cost| cost.value(metric, self.condition)),
            },
        }
    }
}

impl Cost {
    fn value(&self, metric: Metric, condition: Condition) -> Option<f64> {
        let sessions = match condition {
            Condition::Load { idle, .. } if idle > 0 => Some(f64::from(idle)),
            _ => None,
        };
        let idle = |kib: u64| sessions.map(|_| kib as f64);
        let added = self.idle.resident_kib.saturating_sub(self.empty.resident_kib);
        match metric {
            Metric::CpuUs => Some(self.cpu_us),
            Metric::LoadedKib => Some(self.loaded.resident_kib as f64),
            Metric::EmptyKib => Some(self.empty.resident_kib as f64),
            Metric::IdleKib => idle(self.idle.resident_kib),
            Metric::SessionsKib => idle(added),
            Metric::IdleSessionKib => sessions.map(|sessions| added as f64 / sessions),
            _ => None,
        }
    }
}
