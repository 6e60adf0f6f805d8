//! Which figures have a series: whose, what they are called and where they come from. These tables drive
//! the history, its JSON, the charts of the page and the comparison of two windows.

use console::history_view::Subject;
use console::insight_view::{FiguresView, RequestView};
use console::sample_view::{DiskView, HostSampleView, QuantilesView, ServerSampleView};
use diagnose::history::{Figures, WIDTH};
use diagnose::verdict::Unit;

/// One figure.
pub(crate) struct Series<T> {
    /// Its name in JSON.
    pub(crate) name: &'static str,
    /// What it is called.
    pub(crate) label: &'static str,
    /// Its unit.
    pub(crate) unit: Unit,
    of: fn(&T) -> Option<f64>,
}

/// What a host's figures are found from.
pub(crate) struct HostNow {
    /// Since the reading before.
    pub(crate) sample: HostSampleView,
    /// The disk that holds a server's data, if one is here; else the busiest counts.
    pub(crate) disk: Option<String>,
}

impl HostNow {
    fn disk(&self) -> Option<&DiskView> {
        let disks = &self.sample.disks;
        let named = disks.iter().find(|disk| self.disk.as_ref() == Some(&disk.name));
        named.or_else(|| disks.iter().max_by(|a, b| a.busy.total_cmp(&b.busy)))
    }
}

/// What a server's figures are found from.
pub(crate) struct ServerNow {
    /// Since the reading before.
    pub(crate) sample: ServerSampleView,
    /// Of the window that verdicts are of: durations are told every few seconds only.
    pub(crate) quantiles: Option<QuantilesView>,
    /// How far behind, milliseconds.
    pub(crate) lag_ms: Option<f64>,
}

/// What a router's figures are found from.
pub(crate) struct StatementsNow {
    /// What it counted and timed.
    pub(crate) figures: FiguresView,
    /// The requests that it told apart.
    pub(crate) requests: Option<RequestView>,
}

/// Figures of the host.
pub(crate) const HOST: &[Series<HostNow>] = &[
    Series { name: "cpu", label: "CPU, busy", unit: Unit::Share, of: |h| Some(h.sample.cpu.all.busy()) },
    Series { name: "steal", label: "CPU, stolen", unit: Unit::Share, of: |h| Some(h.sample.cpu.all.steal) },
    Series {
        name: "softirq",
        label: "CPU, interrupts",
        unit: Unit::Share,
        of: |h| Some(h.sample.cpu.all.softirq + h.sample.cpu.all.irq),
    },
    Series { name: "memory", label: "memory, in use", unit: Unit::Share, of: |h| memory(&h.sample) },
    Series { name: "disk_busy", label: "disk, busy", unit: Unit::Share, of: |h| Some(h.disk()?.busy) },
    Series { name: "reads", label: "disk reads", unit: Unit::PerSecond, of: |h| Some(h.disk()?.read.per_s) },
    Series {
        name: "writes",
        label: "disk writes",
        unit: Unit::PerSecond,
        of: |h| Some(h.disk()?.written.per_s),
    },
    Series {
        name: "flushes",
        label: "disk flushes",
        unit: Unit::PerSecond,
        of: |h| Some(h.disk()?.flushed.as_ref()?.per_s),
    },
    Series {
        name: "read_ms",
        label: "a disk read",
        unit: Unit::Milliseconds,
        of: |h| h.disk()?.read.await_ms,
    },
    Series {
        name: "flush_ms",
        label: "a disk flush",
        unit: Unit::Milliseconds,
        of: |h| h.disk()?.flushed.as_ref()?.await_ms,
    },
    Series {
        name: "received",
        label: "network, in",
        unit: Unit::BytesPerSecond,
        of: |h| Some(network(&h.sample).0),
    },
    Series {
        name: "sent",
        label: "network, out",
        unit: Unit::BytesPerSecond,
        of: |h| Some(network(&h.sample).1),
    },
];

/// Figures of a server.
pub(crate) const SERVER: &[Series<ServerNow>] = &[
    Series {
        name: "statements",
        label: "statements",
        unit: Unit::PerSecond,
        of: |s| Some(s.sample.statements_per_s),
    },
    Series { name: "changes", label: "changes", unit: Unit::PerSecond, of: |s| Some(s.sample.writes_per_s) },
    Series {
        name: "mean_ms",
        label: "mean statement",
        unit: Unit::Milliseconds,
        of: |s| s.sample.mean_statement_ms,
    },
    Series {
        name: "p99_ms",
        label: "p99",
        unit: Unit::Milliseconds,
        of: |s| Some(s.quantiles.as_ref()?.p99_ms),
    },
    Series { name: "at_work", label: "sessions at work", unit: Unit::Count, of: |s| Some(s.sample.active) },
    Series {
        name: "connected",
        label: "sessions connected",
        unit: Unit::Count,
        of: |s| Some(s.sample.connected),
    },
    Series {
        name: "in_locks",
        label: "in locks",
        unit: Unit::Count,
        of: |s| {
            Some(
                s.sample.in_row_lock?
                    + s.sample.in_metadata_lock?
                    + s.sample.in_global_lock?
                    + s.sample.in_table_lock?
                    + s.sample.in_auto_increment?,
            )
        },
    },
    Series { name: "in_commit", label: "in commit", unit: Unit::Count, of: |s| s.sample.in_commit },
    Series {
        name: "pool_misses",
        label: "pool misses",
        unit: Unit::PerSecond,
        of: |s| Some(s.sample.pool.misses_per_s),
    },
    Series {
        name: "fsyncs",
        label: "fsyncs",
        unit: Unit::PerSecond,
        of: |s| Some(s.sample.log.fsyncs_per_s),
    },
    Series { name: "redo", label: "redo log in use", unit: Unit::Share, of: |s| s.sample.log.checkpoint_age },
    Series { name: "lag_ms", label: "lag", unit: Unit::Milliseconds, of: |s| s.lag_ms },
];

/// Figures of a router, and of an endpoint.
pub(crate) const STATEMENTS: &[Series<StatementsNow>] = &[
    Series {
        name: "statements",
        label: "statements",
        unit: Unit::PerSecond,
        of: |s| Some(s.figures.per_second),
    },
    Series {
        name: "p50_ms",
        label: "median statement",
        unit: Unit::Milliseconds,
        of: |s| timed(s, |f| f.p50_ms),
    },
    Series {
        name: "mean_ms",
        label: "mean statement",
        unit: Unit::Milliseconds,
        of: |s| timed(s, |f| f.mean_ms),
    },
    Series { name: "p99_ms", label: "p99", unit: Unit::Milliseconds, of: |s| timed(s, |f| f.p99_ms) },
    Series {
        name: "at_work",
        label: "statements under way",
        unit: Unit::Count,
        of: |s| Some(s.figures.load),
    },
    Series {
        name: "request_ms",
        label: "median request's time in the database",
        unit: Unit::Milliseconds,
        of: |s| requested(s, |r| r.time_p50_ms),
    },
    Series {
        name: "queries",
        label: "statements a request",
        unit: Unit::Count,
        of: |s| requested(s, |r| r.queries_mean),
    },
    Series {
        name: "span_ms",
        label: "median request",
        unit: Unit::Milliseconds,
        of: |s| requested(s, |r| r.span_p50_ms),
    },
    Series {
        name: "thinking",
        label: "requests, thinking between statements",
        unit: Unit::Share,
        of: |s| requested(s, |r| r.thinking),
    },
];

/// All of a table, in its order.
pub(crate) fn figures<T>(table: &[Series<T>], now: &T) -> Figures {
    let mut figures = [f32::NAN; WIDTH];
    for (place, row) in figures.iter_mut().zip(table) {
        *place = (row.of)(now).map_or(f32::NAN, |figure| figure as f32);
    }
    figures
}

/// Names, words and units of a subject's figures, in their order.
pub(crate) fn of(subject: &Subject) -> Vec<(&'static str, &'static str, Unit)> {
    fn all<T>(table: &[Series<T>]) -> Vec<(&'static str, &'static str, Unit)> {
        table.iter().map(|row| (row.name, row.label, row.unit)).collect()
    }
    match subject {
        Subject::Host | Subject::Agent(_) => all(HOST),
        Subject::Server(_) => all(SERVER),
        Subject::Router | Subject::Endpoint(_) => all(STATEMENTS),
    }
}

fn memory(sample: &HostSampleView) -> Option<f64> {
    let level = &sample.memory.level;
    (level.total > 0).then(|| 1.0 - level.available as f64 / level.total as f64)
}

/// Bytes a second in and out, over all interfaces but the loopback.
fn network(sample: &HostSampleView) -> (f64, f64) {
    let real = sample.nics.iter().filter(|nic| nic.name != "lo");
    real.fold((0.0, 0.0), |(received, sent), nic| {
        (received + nic.received.bytes_per_s, sent + nic.sent.bytes_per_s)
    })
}

/// A time, where anything was timed.
fn timed(now: &StatementsNow, of: fn(&FiguresView) -> Option<f64>) -> Option<f64> {
    of(&now.figures).filter(|_| now.figures.count > 0)
}

/// A figure of requests, where any have ended.
fn requested(now: &StatementsNow, of: fn(&RequestView) -> f64) -> Option<f64> {
    now.requests.as_ref().filter(|requests| requests.requests > 0).map(of)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_that_wait_for_any_lock_are_in_locks() {
        let at = SERVER.iter().position(|series| series.name == "in_locks").unwrap();
        let in_locks = |in_global_lock| {
            let sample = ServerSampleView {
                in_row_lock: Some(1.0),
                in_metadata_lock: Some(2.0),
                in_global_lock,
                in_table_lock: Some(3.0),
                in_auto_increment: Some(4.0),
                ..ServerSampleView::default()
            };
            figures(SERVER, &ServerNow { sample, quantiles: None, lag_ms: None })[at]
        };
        assert_eq!(in_locks(Some(10.0)), 20.0);
        assert!(in_locks(None).is_nan(), "what is not known is no 0");
    }
}
