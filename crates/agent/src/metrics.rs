//! `/metrics` of the agent: the view in OpenMetrics. Gauges over the window, made anew for each scrape;
//! labels come from bounded sets (servers, CPUs, devices, names of rules).

use console::objectives;
use console::sample_view::{DiskWorkView, ServerSampleView, SpaceView};
use console::watch_view::{VerdictView, WatchView};
use diagnose::verdict::Name;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use std::sync::atomic::AtomicU64;

type Labels = Vec<(&'static str, String)>;

/// The whole exposition.
///
/// # Errors
/// Only if the text cannot be written, which memory alone decides.
pub fn text(view: &WatchView) -> Result<String, std::fmt::Error> {
    let mut sheet = Sheet(Registry::with_prefix("headroom"));
    host(view, &mut sheet);
    servers(view, &mut sheet);
    verdicts(view, &mut sheet);
    objectives::metrics::register(&view.objectives, view.webhook.as_ref(), &mut sheet.0);
    sheet.gauge("watch_cpu_cores", "CPUs that watching uses", [(vec![], view.cost.cpu_share)]);
    let resident = view.cost.resident_bytes as f64;
    sheet.gauge("watch_resident_bytes", "Memory that watching uses", [(vec![], resident)]);
    sheet.gauge("watch_gaps", "Gaps in the samples since the start", [(vec![], view.gaps as f64)]);
    let help = "That the CPU limit of its own cgroup holds back what watches; absent when it does not";
    sheet.gauge("watch_held_back", help, view.held_back.as_ref().map(|_| (vec![], 1.0)));
    let mut text = String::new();
    encode(&mut text, &sheet.0)?;
    Ok(text)
}

struct Sheet(Registry);

impl Sheet {
    fn gauge(&mut self, name: &str, help: &str, values: impl IntoIterator<Item = (Labels, f64)>) {
        let family = Family::<Labels, Gauge<f64, AtomicU64>>::default();
        self.0.register(name, help, family.clone());
        for (labels, value) in values {
            family.get_or_create(&labels).set(value);
        }
    }
}

fn host(view: &WatchView, sheet: &mut Sheet) {
    let Some(host) = &view.host else { return };
    let cpus = host.cpu.each.iter().flat_map(|(number, shares)| {
        [
            ("user", shares.user),
            ("system", shares.system),
            ("irq", shares.irq),
            ("softirq", shares.softirq),
            ("steal", shares.steal),
            ("iowait", shares.iowait),
            ("idle", shares.idle),
        ]
        .map(|(kind, share)| (vec![("cpu", number.to_string()), ("kind", kind.to_owned())], share))
    });
    sheet.gauge("host_cpu_share", "Share of a CPU's time, by kind", cpus);
    let help = "Share of their highest frequency at which CPUs run; idle ones run slowly because they may";
    let frequency = host.frequency.share_of_highest.map(|share| (vec![], share));
    sheet.gauge("host_cpu_frequency_share", help, frequency);
    let help = "How often heat held back, in the window, the CPU that it held back most";
    let throttles = host.frequency.throttled.map(|times| (vec![], times as f64));
    sheet.gauge("host_cpu_heat_throttles", help, throttles);
    let pressure =
        [("cpu", &host.pressure.cpu), ("memory", &host.pressure.memory), ("io", &host.pressure.io)];
    let pressure = pressure.into_iter().filter_map(|(of, p)| Some((of, p.as_ref()?))).flat_map(|(of, p)| {
        [("some", p.some), ("full", p.full)]
            .map(|(who, share)| (vec![("resource", of.to_owned()), ("who", who.to_owned())], share))
    });
    sheet.gauge("host_pressure_share", "Share of time in which tasks waited for a resource", pressure);
    let available = host.memory.level.available as f64;
    sheet.gauge("host_memory_available_bytes", "Memory that programs could get", [(vec![], available)]);
    let disks = host.disks.iter().flat_map(|disk| {
        let kinds =
            [("read", Some(&disk.read)), ("write", Some(&disk.written)), ("flush", disk.flushed.as_ref())];
        kinds.into_iter().filter_map(|(kind, work)| {
            Some((vec![("disk", disk.name.clone()), ("kind", kind.to_owned())], work?))
        })
    });
    let disks: Vec<_> = disks.collect();
    let each = |of: fn(&DiskWorkView) -> Option<f64>| {
        disks.iter().filter_map(move |(labels, work)| Some((labels.clone(), of(work)?))).collect::<Vec<_>>()
    };
    sheet.gauge("host_disk_per_second", "Requests of a disk a second", each(|work| Some(work.per_s)));
    let seconds = each(|work| work.await_ms.map(|ms| ms / 1e3));
    sheet.gauge("host_disk_request_seconds", "Mean time of a request of a disk", seconds);
    let dropped = host.softnet.iter().map(|s| (vec![("cpu", s.cpu.to_string())], s.dropped_per_s));
    sheet.gauge("host_backlog_dropped_per_second", "Packets that found the backlog full", dropped);
    sheet.gauge(
        "host_tcp_sent_again_per_second",
        "Segments sent again",
        [(vec![], host.tcp.sent_again_per_s)],
    );
}

fn servers(view: &WatchView, sheet: &mut Sheet) {
    let each = |of: fn(&ServerSampleView) -> Option<f64>| {
        view.servers
            .iter()
            .filter_map(|s| Some((vec![("server", s.name.clone())], of(s.sample.as_ref()?)?)))
            .collect::<Vec<_>>()
    };
    let up = view.servers.iter().map(|s| {
        (vec![("server", s.name.clone())], f64::from(u8::from(s.unanswered.is_none() && s.sample.is_some())))
    });
    sheet.gauge("watched_server_up", "Whether a server answers", up.collect::<Vec<_>>());
    sheet.gauge("watched_server_statements_per_second", "Statements", each(|s| Some(s.statements_per_s)));
    sheet.gauge("watched_server_sessions_at_work", "Sessions at work on average", each(|s| Some(s.active)));
    sheet.gauge("watched_server_sessions_connected", "Sessions connected", each(|s| Some(s.connected)));
    let waits = view.servers.iter().filter_map(|s| Some((s.name.clone(), s.sample.as_ref()?))).flat_map(
        |(name, s)| {
            let known = [
                ("row-lock", s.in_row_lock),
                ("metadata-lock", s.in_metadata_lock),
                ("global-lock", s.in_global_lock),
                ("table-lock", s.in_table_lock),
                ("auto-increment", s.in_auto_increment),
                ("latch", s.in_latch),
                ("commit", s.in_commit),
            ];
            let labels = move |what: &str| vec![("server", name.clone()), ("for", what.to_owned())];
            known.into_iter().filter_map(move |(what, sessions)| Some((labels(what), sessions?)))
        },
    );
    sheet.gauge(
        "watched_server_sessions_waiting",
        "Sessions at work that wait, by what for",
        waits.collect::<Vec<_>>(),
    );
    let p99 = each(|s| s.quantiles.as_ref().map(|q| q.p99_ms / 1e3));
    sheet.gauge("watched_server_statement_p99_seconds", "Time that 99 of 100 statements take at most", p99);
    sheet.gauge(
        "watched_server_pool_misses_per_second",
        "Pages that had to be read",
        each(|s| Some(s.pool.misses_per_s)),
    );
    sheet.gauge(
        "watched_server_checkpoint_age_share",
        "Redo log used since the checkpoint",
        each(|s| s.log.checkpoint_age),
    );
    surroundings(view, sheet);
    let cost = each(|s| Some(s.cost.server_ms / 1e3));
    sheet.gauge("watched_server_asking_seconds", "What a reading costs the server at most", cost);
}

/// Limits that servers live under, and the room for their data.
fn surroundings(view: &WatchView, sheet: &mut Sheet) {
    let share = |used: f64, limit: f64| (limit > 0.0).then_some(used / limit);
    let used =
        view.servers.iter().filter_map(|s| Some((&s.name, s.limits.as_ref()?))).flat_map(|(name, l)| {
            let all = [
                ("cpu", l.cpu.as_ref().and_then(|cpu| share(cpu.used, cpu.cpus))),
                (
                    "memory",
                    l.memory.as_ref().and_then(|memory| share(memory.used as f64, memory.limit as f64)),
                ),
                ("io", l.io.as_ref().and_then(|io| share(io.used, io.limit))),
                (
                    "threads",
                    l.threads.as_ref().and_then(|threads| share(threads.used as f64, threads.limit as f64)),
                ),
                ("files", l.files.as_ref().and_then(|files| share(files.open as f64, files.limit as f64))),
            ];
            let labels = |of: &str| vec![("server", name.clone()), ("limit", of.to_owned())];
            all.into_iter().filter_map(|(of, share)| Some((labels(of), share?))).collect::<Vec<_>>()
        });
    let help = "How much of a limit of the server's cgroup or process is used";
    sheet.gauge("watched_server_limit_used_share", help, used.collect::<Vec<_>>());
    let held_back = view.servers.iter().filter_map(|s| {
        let cpu = s.limits.as_ref()?.cpu.as_ref()?;
        Some((vec![("server", s.name.clone())], cpu.throttled))
    });
    let help = "Share of the periods in which the CPU limit of its cgroup held a server back";
    sheet.gauge("watched_server_cpu_held_back_share", help, held_back.collect::<Vec<_>>());
    let room = |of: fn(&SpaceView) -> f64| {
        let all = view.servers.iter().filter_map(|s| Some((&s.name, s.space.as_ref()?)));
        all.map(|(name, space)| (vec![("server", name.clone())], of(space))).collect::<Vec<_>>()
    };
    sheet.gauge("watched_server_disk_size_bytes", "Size of the data's file system", room(|s| s.total as f64));
    let help = "Room left on the data's file system";
    sheet.gauge("watched_server_disk_available_bytes", help, room(|s| s.available as f64));
}

fn verdicts(view: &WatchView, sheet: &mut Sheet) {
    let all = || {
        let own = std::iter::once((String::new(), &view.verdict));
        own.chain(view.servers.iter().map(|s| (s.name.clone(), &s.verdict)))
    };
    let of = |server: &str, name: Name| {
        // As JSON writes it.
        let name = serde_json::to_value(name).ok().and_then(|v| v.as_str().map(str::to_owned));
        vec![("server", server.to_owned()), ("name", name.unwrap_or_default())]
    };
    let named = |verdict: &VerdictView| verdict.bottleneck.as_ref().map(|b| b.name);
    let bottleneck = all().filter_map(|(server, v)| Some((of(&server, named(v)?), 1.0))).collect::<Vec<_>>();
    sheet.gauge("bottleneck", "The bottleneck in force; an empty server label is this host", bottleneck);
    let tightest = all().filter_map(|(server, v)| v.tightest.map(|(name, used)| (of(&server, name), used)));
    sheet.gauge("tightest_ceiling_share", "The ceiling that is used most", tightest.collect::<Vec<_>>());
}

#[cfg(test)]
mod tests {
    use super::*;
    use console::sample_view::{CpuLimitView, FrequencyView, HostSampleView, LimitsView};
    use console::watch_view::ServerWatch;

    #[test]
    fn what_holds_cpus_back_is_told_where_it_is_known() {
        let exposed = |frequency, cpu, held_back: Option<&str>| {
            let host = Some(HostSampleView { frequency, ..HostSampleView::default() });
            let limits = Some(LimitsView { cpu, ..LimitsView::default() });
            let server = ServerWatch { name: "db1".to_owned(), limits, ..ServerWatch::default() };
            let held_back = held_back.map(str::to_owned);
            text(&WatchView { host, servers: vec![server], held_back, ..WatchView::default() }).unwrap()
        };
        let value = |text: &str, sample: &str| {
            let line = text.lines().find(|line| line.starts_with(sample))?;
            line.rsplit(' ').next()?.parse::<f64>().ok()
        };
        let names = [
            "headroom_host_cpu_frequency_share",
            "headroom_host_cpu_heat_throttles",
            "headroom_watched_server_cpu_held_back_share{server=\"db1\"}",
            "headroom_watch_held_back",
        ];
        let frequency = FrequencyView { share_of_highest: Some(0.62), throttled: Some(14) };
        let limit = CpuLimitView { throttled: 0.4, ..CpuLimitView::default() };
        let known = exposed(frequency, Some(limit), Some("held back"));
        assert_eq!(names.map(|name| value(&known, name)), [Some(0.62), Some(14.0), Some(0.4), Some(1.0)]);
        let unknown = exposed(FrequencyView::default(), None, None);
        assert_eq!(names.map(|name| value(&unknown, name)), [None; 4], "what is not known is no zero");
    }

    #[test]
    fn every_kind_of_lock_that_sessions_wait_for_is_told() {
        let sample = ServerSampleView {
            in_row_lock: Some(1.0),
            in_metadata_lock: Some(1.0),
            in_global_lock: Some(7.0),
            in_table_lock: Some(1.0),
            in_auto_increment: Some(1.0),
            in_commit: Some(1.0),
            ..ServerSampleView::default()
        };
        let server = ServerWatch { name: "db1".to_owned(), sample: Some(sample), ..ServerWatch::default() };
        let text = text(&WatchView { servers: vec![server], ..WatchView::default() }).unwrap();
        let waits = |line: &&str| line.starts_with("headroom_watched_server_sessions_waiting{");
        let waiting: Vec<&str> = text.lines().filter(waits).collect();
        assert_eq!(waiting.len(), 6, "{waiting:?}");
        let global = waiting.iter().find(|line| line.contains("global-lock")).unwrap();
        assert_eq!(global.rsplit(' ').next().unwrap().parse::<f64>(), Ok(7.0));
    }
}
