//! `/metrics`: the status in OpenMetrics, made anew for each scrape from the same values that the page shows,
//! so that the two cannot disagree. Labels come from bounded sets: servers, zones, listeners and fixed lists
//! of reasons.

use crate::objectives;
use crate::status_view::{ListenerView, ServerView, StatusView};
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;

type Labels = Vec<(&'static str, String)>;
type Gauges = Family<Labels, Gauge<f64, AtomicU64>>;
type Counters = Family<Labels, Counter>;

/// The whole exposition, with the part of insight.
///
/// # Errors
/// Only if the text cannot be written, which memory alone decides.
pub fn text(status: &StatusView, measured: &str) -> Result<String, std::fmt::Error> {
    let mut sheet = Sheet { registry: Registry::with_prefix("headroom") };
    process(status, &mut sheet);
    servers(status, &mut sheet);
    routing(status, &mut sheet);
    zones(status, &mut sheet);
    listeners(status, &mut sheet);
    objectives::metrics::register(&status.objectives, status.webhook.as_ref(), &mut sheet.registry);
    let mut text = String::new();
    encode(&mut text, &sheet.registry)?;
    // Histograms that are counted elsewhere come ready made; the mark of the end stays last.
    let end = text.rfind("# EOF").unwrap_or(text.len());
    text.insert_str(end, measured);
    Ok(text)
}

struct Sheet {
    registry: Registry,
}

impl Sheet {
    /// A gauge without labels.
    fn single(&mut self, name: &str, help: &str, value: f64) {
        let gauge = Gauge::<f64, AtomicU64>::default();
        gauge.set(value);
        self.registry.register(name, help, gauge);
    }

    fn gauge(&mut self, name: &str, help: &str, values: impl IntoIterator<Item = (Labels, f64)>) {
        let family = Gauges::default();
        self.registry.register(name, help, family.clone());
        for (labels, value) in values {
            family.get_or_create(&labels).set(value);
        }
    }

    fn counter(&mut self, name: &str, help: &str, values: impl IntoIterator<Item = (Labels, u64)>) {
        let family = Counters::default();
        self.registry.register(name, help, family.clone());
        for (labels, value) in values {
            family.get_or_create(&labels).inc_by(value);
        }
    }
}

fn process(status: &StatusView, sheet: &mut Sheet) {
    let process = &status.process;
    let version = vec![("version", process.version.clone())];
    sheet.gauge("build_info", "Version of Headroom", [(version, 1.0)]);
    sheet.single("uptime_seconds", "Seconds since the start", process.uptime_s);
    let help = "That the CPU limit of its own cgroup holds the router back; absent when it does not";
    sheet.gauge("held_back", help, process.held_back.as_ref().map(|_| (Vec::new(), 1.0)));
    let age = status.fleet.age_ms / 1e3;
    sheet.single("snapshot_age_seconds", "Age of the last look at the fleet", age);
    let accepted = process.reload.as_ref().is_none_or(|reload| reload.accepted);
    let help = "Whether the configuration in force is the last one that was asked for";
    sheet.single("configuration_accepted", help, f64::from(u8::from(accepted)));
    let known = f64::from(u8::from(status.fleet.writer.is_some()));
    sheet.single("writer_known", "Whether a primary is known", known);
    let in_force = f64::from(u8::from(status.zero_hop.in_force));
    sheet.single("zero_hop_in_force", "Whether zero-hop programs are in force in the kernel", in_force);
    let recording = status.recording.clone().unwrap_or_default();
    let under_way = f64::from(u8::from(status.recording.is_some()));
    sheet.single("recording", "Whether what clients send is being recorded, literals included", under_way);
    let help = "Events of the recording under way that were dropped because its reader could not keep up";
    sheet.single("recording_lost_events", help, recording.lost as f64);
    let help = "Commands in the recording under way";
    sheet.single("recording_commands", help, recording.commands as f64);
    let fallbacks = status.fallbacks.iter().map(|f| (vec![("fallback", f.name.clone())], 1.0));
    sheet.gauge("fallback_in_force", "Fallbacks in force, by name; absent when not in force", fallbacks);
    let path = Some(&status.data_path).filter(|path| !path.is_empty());
    let path = path.map(|path| (vec![("path", path.clone())], 1.0));
    sheet.gauge("data_path_info", "How sessions' bytes are moved: io_uring or epoll; always 1", path);
    let well = f64::from(u8::from(status.troubles.is_empty()));
    let help = "Whether every thread and task of the router answers and none keeps ending, as /healthz says";
    sheet.single("data_plane_well", help, well);
    let help = "Threads and tasks of the router that ended and were started anew";
    let restarts = Counter::<u64>::default();
    restarts.inc_by(status.restarts);
    sheet.registry.register("data_plane_restarts", help, restarts);
    let most = status.most_sessions.map(|most| (Vec::new(), most as f64));
    let help = "Sessions of all listeners that the limit of file descriptors leaves room for";
    sheet.gauge("most_sessions", help, most);
    let epoch = &status.fleet.epoch;
    let help = "The highest epoch of a finished switchover or failover that was seen; 0 before the first";
    sheet.single("epoch", help, epoch.highest as f64);
    let help = "Servers that answer and do not say their epoch";
    sheet.single("epoch_unknown_servers", help, epoch.unknown.len() as f64);
    let ignored = epoch.ignored.iter().map(|ignored| {
        (vec![("server", ignored.server.clone()), ("claim", ignored.claim.clone())], ignored.epoch as f64)
    });
    let help = "The epoch of a server whose claim to take writes, or whose announcement, is ignored now";
    sheet.gauge("ignored_claim_epoch", help, ignored);
    let ignored = Counter::<u64>::default();
    ignored.inc_by(epoch.ignored_total);
    let help = "Claims of former primaries that were ignored";
    sheet.registry.register("ignored_claims", help, ignored);
    sheet.single("remarks", "Remarks for the operator on the status page", status.fleet.remarks.len() as f64);
}

fn servers(status: &StatusView, sheet: &mut Sheet) {
    let all = &status.fleet.servers;
    let each = |value: fn(&ServerView) -> Option<f64>| {
        all.iter()
            .filter_map(move |s| Some((vec![("server", s.name.clone())], value(s)?)))
            .collect::<Vec<_>>()
    };
    let info = all.iter().map(|s| {
        let labels = vec![
            ("server", s.name.clone()),
            ("role", s.role.clone()),
            ("zone", s.zone.as_ref().map(|z| z.zone.clone()).unwrap_or_default()),
            ("version", s.version.clone().unwrap_or_default()),
            ("reserved", s.reserved.is_some().to_string()),
        ];
        (labels, 1.0)
    });
    sheet.gauge("server_info", "What a server is; always 1", info);
    let up = each(|s| Some(f64::from(u8::from(s.state == "answering"))));
    sheet.gauge("server_up", "Whether a server answers", up);
    let help = "How far behind a replica is, at least; absent while that is not known";
    sheet.gauge("server_lag_seconds", help, each(|s| s.lag_ms.map(|lag| lag / 1e3)));
    let help =
        "How far behind a replica is, at most: what max_lag is compared with; absent while that is not known";
    sheet.gauge("server_lag_at_most_seconds", help, each(|s| s.lag_at_most_ms.map(|lag| lag / 1e3)));
    let help = "Round-trip time of the probe, shortest of the recent ones";
    sheet.gauge("server_round_trip_seconds", help, each(|s| s.round_trip_ms.map(|rtt| rtt / 1e3)));
    let help = "Time between two visits of this router to a server: longer than `interval` where many ask";
    sheet.gauge("server_asked_interval_seconds", help, each(|s| s.asked_every_ms.map(|every| every / 1e3)));
    let help = "Routers that ask a server, as counted there; absent where they cannot be counted";
    sheet.gauge("server_routers", help, each(|s| s.routers.map(|routers| routers as f64)));
    let help = "Statements per second by the server's own count; absent while it does not answer";
    let counted = each(|s| (s.state == "answering").then_some(s.statements_per_second));
    sheet.gauge("server_statements_per_second", help, counted);
    let help = "Share of the statements of all replicas";
    sheet.gauge("server_load_share", help, each(|s| s.share_of_load));
}

fn routing(status: &StatusView, sheet: &mut Sheet) {
    let routed: Vec<_> = status.fleet.servers.iter().filter_map(|s| Some((s, s.routing.as_ref()?))).collect();
    let eligible = routed.iter().flat_map(|(server, routing)| {
        [("reader", &routing.reads), ("writer", &routing.writes)].map(|(role, eligible)| {
            let reason = eligible.reason_label.clone().unwrap_or_default();
            let labels =
                vec![("server", server.name.clone()), ("listener", role.to_owned()), ("reason", reason)];
            (labels, f64::from(u8::from(eligible.eligible)))
        })
    });
    let help = "Whether a server may be picked for a kind of listener; the reason label says why not";
    sheet.gauge("server_eligible", help, eligible);
    let name = |server: &ServerView| vec![("server", server.name.clone())];
    let help = "How fast a server is beside the others, 0.25 to 1: what its weight is multiplied by, unless its \
                warmth is lower";
    let speed = routed.iter().filter_map(|(s, r)| Some((name(s), r.speed?)));
    sheet.gauge("server_speed_factor", help, speed);
    let help = "How warm a server is that came back or was restarted, 0.1 to 1: its buffer pool's misses beside the \
                others', or the clock";
    sheet.gauge("server_warmth_ratio", help, routed.iter().filter_map(|(s, r)| Some((name(s), r.warmth?))));
    let help = "Whether the clock, and not a server's misses, says how warm it is or ended its warm-up";
    let by_clock = routed.iter().filter(|(_, r)| r.warmth.is_some());
    let by_clock = by_clock.map(|(s, r)| (name(s), f64::from(u8::from(r.warm_by_clock.is_some()))));
    sheet.gauge("server_warm_by_clock", help, by_clock);
    let help =
        "What a server that may be picked for reads counts for: its weight by speed and warmth; else 0";
    sheet.gauge("server_capacity", help, routed.iter().map(|(s, r)| (name(s), r.reads.capacity)));
    let help = "Whether a server is being emptied by command";
    let draining = routed.iter().map(|(s, r)| (name(s), f64::from(u8::from(r.draining))));
    sheet.gauge("server_draining", help, draining);
    let help =
        "Whether the commits that this router relays to a server hang although it answers (a gray failure)";
    let gray = routed.iter().map(|(s, r)| (name(s), f64::from(u8::from(r.gray.is_some()))));
    sheet.gauge("server_commits_hang", help, gray);
    let help = "Sessions of this router on a server";
    let sessions = routed.iter().flat_map(|(server, routing)| {
        [("reader", routing.readers), ("writer", routing.writers)]
            .map(|(role, n)| (vec![("server", server.name.clone()), ("listener", role.to_owned())], n as f64))
    });
    sheet.gauge("server_sessions", help, sessions);
    let help = "Share of this router's own reads that should go to a server";
    sheet.gauge("server_share", help, routed.iter().map(|(s, r)| (name(s), r.share)));
    let help = "Connections made to a server";
    sheet.counter("server_connections", help, routed.iter().map(|(s, r)| (name(s), r.connections)));
    let help = "Connections to a server that failed before the client saw a byte";
    sheet.counter("server_connection_failures", help, routed.iter().map(|(s, r)| (name(s), r.failures)));
    let bytes = routed.iter().flat_map(|(server, routing)| {
        [("to_server", routing.bytes_to_server), ("to_client", routing.bytes_to_client)].map(
            |(direction, n)| (vec![("server", server.name.clone()), ("direction", direction.to_owned())], n),
        )
    });
    sheet.counter("server_bytes", "Bytes of sessions, those that bypass the router among them", bytes);
    let help = "Commands that a server answered; of sessions that bypass the router an estimate from those that are \
                measured, absent where none was";
    let path =
        |server: &ServerView, path: &str| vec![("server", server.name.clone()), ("path", path.to_owned())];
    let commands = routed.iter().flat_map(|(s, r)| {
        let bypassed = r.commands_bypassed.map(|commands| (path(s, "bypassed"), commands));
        [(path(s, "relayed"), r.commands)].into_iter().chain(bypassed)
    });
    sheet.counter("server_commands", help, commands);
    let picks = routed.iter().flat_map(|(server, routing)| {
        let labels = |because: &String| vec![("server", server.name.clone()), ("because", because.clone())];
        routing.picks.iter().map(move |(because, count)| (labels(because), *count))
    });
    sheet.counter("picks", "How often a server was picked, by reason", picks);
    let closed = routed.iter().flat_map(|(server, routing)| {
        let labels = |reason: &String| vec![("server", server.name.clone()), ("reason", reason.clone())];
        routing.closed.iter().map(move |(reason, count)| (labels(reason), *count))
    });
    let help = "Sessions that ended, by reason: by themselves, moved, drained, cut";
    sheet.counter("sessions_closed", help, closed);
}

fn zones(status: &StatusView, sheet: &mut Sheet) {
    let demand = status.fleet.demand.zones.iter().map(|(zone, share)| (vec![("zone", zone.clone())], *share));
    sheet.gauge("demand_share", "Share of all reads that comes from a zone", demand);
    let help = "Reads per second over the whole fleet that the shares of demand stand on; absent where they are not \
                counted";
    let reads = status.fleet.demand.reads_per_second.map(|reads| (Vec::new(), reads));
    sheet.gauge("reads_per_second", help, reads);
    let flow = &status.flow;
    let capacity = flow.zones.iter().zip(&flow.capacity).map(|(zone, c)| (vec![("zone", zone.clone())], *c));
    sheet.gauge("capacity_share", "Share of the eligible capacity in a zone", capacity);
    let cells = flow.zones.iter().zip(&flow.rows).flat_map(|(from, row)| {
        flow.zones
            .iter()
            .zip(row)
            .map(move |(to, share)| (vec![("from", from.clone()), ("to", to.clone())], *share))
    });
    sheet.gauge("flow_share", "Share of the reads from one zone that goes to the servers of another", cells);
}

fn listeners(status: &StatusView, sheet: &mut Sheet) {
    let labels =
        |address: &str, role: &str| vec![("listener", address.to_owned()), ("role", role.to_owned())];
    let all = &status.listeners;
    let sessions = all.iter().map(|l| (labels(&l.address, &l.role), l.open as f64));
    let help = "Sessions open on a listener, those that bypass the router among them";
    sheet.gauge("listener_sessions", help, sessions);
    let connections = all.iter().map(|l| (labels(&l.address, &l.role), l.connections));
    let help = "Connections to a listener: accepted by the router, or sent to a server directly";
    sheet.counter("listener_connections", help, connections);
    let accepted = all.iter().map(|l| (labels(&l.address, &l.role), l.accepted));
    sheet.counter("listener_accepted", "Clients accepted by the router", accepted);
    let connecting = all.iter().map(|l| (labels(&l.address, &l.role), l.connecting as f64));
    sheet.gauge("listener_connecting", "Clients that are logging in now", connecting);
    let by = |name: &'static str, counts: fn(&ListenerView) -> &BTreeMap<String, u64>| {
        all.iter().flat_map(move |l| {
            counts(l).iter().map(move |(word, count)| {
                let mut labels = labels(&l.address, &l.role);
                labels.push((name, word.clone()));
                (labels, *count)
            })
        })
    };
    sheet.counter("listener_refused", "Clients refused, by reason", by("reason", |l| &l.refused));
    let help = "Logins by what carried them: in the open, TLS that ends here, or what cannot be read";
    sheet.counter("listener_logins", help, by("transport", |l| &l.logins));
    let help = "Whether new connections of a listener go straight to a server and bypass the router";
    let bypassed =
        all.iter().map(|l| (labels(&l.address, &l.role), f64::from(u8::from(l.zero_hop.in_force))));
    sheet.gauge("listener_zero_hop", help, bypassed);
    let bypassed = all.iter().map(|l| (labels(&l.address, &l.role), l.zero_hop.sessions as f64));
    sheet.gauge("listener_sessions_bypassed", "Sessions of a listener that bypass the router", bypassed);
    let bypassed = all.iter().map(|l| (labels(&l.address, &l.role), l.zero_hop.bypassed));
    sheet.counter(
        "listener_connections_bypassed",
        "Connections sent straight to a server by the kernel",
        bypassed,
    );
    let help = "Connections that the kernel left to the listener, by reason";
    sheet.counter("listener_connections_kept", help, by("reason", |l| &l.zero_hop.ordinary));
    let counters = &status.counters;
    let help = "Writer connections that wait for a primary now";
    sheet.single("holding", help, counters.holding as f64);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status_view::RoutingView;

    #[test]
    fn a_clock_in_place_of_misses_and_a_router_held_back_are_told() {
        let mut status = crate::sample_status::status();
        let held = |text: &str| {
            text.lines().any(|line| line.starts_with("headroom_held_back") && line.ends_with(" 1.0"))
        };
        let exposed = text(&status, "").unwrap();
        assert!(!held(&exposed) && !exposed.contains("headroom_server_warm_by_clock{"), "{exposed}");
        status.process.held_back = Some("held back by its own limit of 0.50 CPUs".to_owned());
        let routing = |warm_by_clock: Option<&str>| RoutingView {
            warmth: Some(1.0),
            warm_by_clock: warm_by_clock.map(str::to_owned),
            ..RoutingView::default()
        };
        status.fleet.servers[1].routing = Some(routing(Some("warm_up_limit was over")));
        status.fleet.servers[2].routing = Some(routing(None));
        let exposed = text(&status, "").unwrap();
        assert!(held(&exposed), "{exposed}");
        for (server, by_clock) in [("db2", "1.0"), ("db3", "0.0")] {
            let line = format!("headroom_server_warm_by_clock{{server=\"{server}\"}} {by_clock}");
            assert!(exposed.lines().any(|one| one == line), "{line}: {exposed}");
        }
    }
}
