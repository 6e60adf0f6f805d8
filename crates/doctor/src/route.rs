//! What a configuration would do with the servers as they are now: who takes writes, where we stand, and
//! which servers each listener would use. The router's own functions decide, on the same view.

use crate::Finding;
use config::Listener;
use fleet::{DemandSource, ListenerRole, Snapshot, WriterStatus};
use router::view::{OwnState, View};
use std::sync::Arc;
use std::time::Instant;

const FLEET: &str = "the fleet";

/// The findings about the whole fleet.
pub fn fleet_findings(snapshot: &Snapshot) -> Vec<Finding> {
    let primary = match &snapshot.writer {
        WriterStatus::Known { server } => Finding::pass(FLEET, "primary", format!("writes go to {server}")),
        WriterStatus::Unknown { why } => Finding::fail(FLEET, "primary", format!("none can be named: {why}"))
            .costs("writes wait, and are refused after hold_deadline")
            .mend("docs/guide/who-is-who.md says when a server counts as the primary"),
    };
    let zone = match &snapshot.own_zone {
        Some(own) => Finding::pass(FLEET, "own zone", own.zone.to_string()),
        None => Finding::warn(FLEET, "own zone", "it is not known where this host stands")
            .costs("reads go where there is room, near or far")
            .mend("--zone NAME, [router] zone, or members of a [[zone]] that hold this host's address"),
    };
    let demand = format!("reads of zones by {}", snapshot.demand.basis());
    let demand = match snapshot.demand.source {
        DemandSource::StatementCounters | DemandSource::Configured => Finding::pass(FLEET, "demand", demand),
        _ if snapshot.demand.idle => Finding::pass(FLEET, "demand", demand),
        _ => Finding::warn(FLEET, "demand", demand)
            .costs("which zone may keep how many of its reads is a guess")
            .mend("performance_schema = ON, and the privileges of docs/guide/privileges.md"),
    };
    vec![primary, zone, demand]
}

/// Which servers each listener would use now.
pub fn listener_findings(
    listeners: &[Listener],
    config: &config::RouterConfig,
    snapshot: &Snapshot,
    now: Instant,
) -> Vec<Finding> {
    let view = View::new(Arc::new(snapshot.clone()), Arc::new(config.clone()), &OwnState::default(), now);
    listeners
        .iter()
        .map(|listener| match listener.role {
            ListenerRole::Writer => writer(listener, &view),
            ListenerRole::Reader => reader(listener, &view),
        })
        .collect()
}

fn subject(listener: &Listener) -> String {
    format!("listener {}", listener.address)
}

fn writer(listener: &Listener, view: &View) -> Finding {
    match view.writer() {
        Some(server) => {
            Finding::pass(&subject(listener), "writer", format!("to {}", view.candidates[server].name))
        }
        None => Finding::fail(&subject(listener), "writer", "no server takes writes")
            .costs("clients wait, and are refused after hold_deadline")
            .mend("see the fleet's primary above"),
    }
}

fn reader(listener: &Listener, view: &View) -> Finding {
    let subject = subject(listener);
    let shares = view.shares(view.own_zone.as_ref());
    let mut used: Vec<(f64, String)> = shares
        .into_iter()
        .zip(&view.candidates)
        .filter(|(share, _)| *share > 0.0)
        .map(|(share, candidate)| (share, candidate.name.to_string()))
        .collect();
    used.sort_by(|a, b| b.0.total_cmp(&a.0));
    if !used.is_empty() {
        let parts: Vec<_> =
            used.iter().map(|(share, name)| format!("{name} {:.0} %", share * 100.0)).collect();
        return Finding::pass(&subject, "reader", format!("to {}", parts.join(", ")));
    }
    let reasons: Vec<_> = view
        .candidates
        .iter()
        .filter_map(|candidate| Some(format!("{}: {}", candidate.name, candidate.reads.reason()?)))
        .collect();
    let primary = view.writer().filter(|_| view.config.reads_on_primary);
    match primary {
        Some(server) => {
            let found =
                format!("no replica may be picked, so to the primary {}", view.candidates[server].name);
            Finding::warn(&subject, "reader", found).costs(reasons.join("; ")).mend("mend a replica above")
        }
        None => Finding::fail(&subject, "reader", "no server takes reads")
            .costs(format!("clients are refused ({})", reasons.join("; ")))
            .mend("mend a replica above"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Status;
    use fleet::{Address, KnownZone, Lag, LagSource, Role, Server, ServerName, State, Zone, ZoneSource};
    use std::time::Duration;

    fn server(name: &str, role: Role, zone: &str) -> Server {
        let mut server = Server::unasked(ServerName::new(name), Address::tcp(name, 3306));
        (server.role, server.state) = (role, State::Answering);
        server.replication = fleet::Replication::Running;
        server.zone = Some(KnownZone { zone: Zone::new(zone), by: ZoneSource::Rule });
        let source = LagSource::GtidSamples;
        server.lag = Some(Lag { at_least: Duration::ZERO, uncertainty: Duration::from_millis(1), source });
        server
    }

    fn listeners() -> [Listener; 2] {
        let at = |port, role| Listener::new(Address::tcp("127.0.0.1", port), role);
        [at(3306, ListenerRole::Reader), at(3307, ListenerRole::Writer)]
    }

    fn snapshot(servers: Vec<Server>) -> Snapshot {
        let primary = servers.iter().find(|server| server.role == Role::Primary);
        let writer = match primary {
            Some(primary) => WriterStatus::Known { server: primary.name.clone() },
            None => WriterStatus::Unknown { why: "none is writable".to_owned() },
        };
        Snapshot { servers, writer, settled: true, ..Snapshot::empty(Instant::now()) }
    }

    fn find(snapshot: &Snapshot, config: &config::RouterConfig) -> Vec<Finding> {
        listener_findings(&listeners(), config, snapshot, Instant::now())
    }

    #[test]
    fn each_listener_names_the_servers_it_would_use() {
        let servers = vec![server("db1", Role::Primary, "a"), server("db2", Role::Replica, "a")];
        let found = find(&snapshot(servers), &config::RouterConfig::default());
        assert_eq!(found[0].found, "to db2 100 %");
        assert_eq!(found[1].found, "to db1");
        assert!(found.iter().all(|finding| finding.status == Status::Pass));
    }

    #[test]
    fn reads_that_only_the_primary_can_take_warn_and_fail_where_that_is_forbidden() {
        let snapshot = snapshot(vec![server("db1", Role::Primary, "a")]);
        let allowed = find(&snapshot, &config::RouterConfig::default());
        assert_eq!(allowed[0].status, Status::Warn);
        let forbidden = find(
            &snapshot,
            &config::RouterConfig { reads_on_primary: false, ..config::RouterConfig::default() },
        );
        assert_eq!((forbidden[0].status, forbidden[1].status), (Status::Fail, Status::Pass));
        assert!(forbidden[0].costs.as_ref().unwrap().contains("db1"), "{forbidden:?}");
    }

    #[test]
    fn a_fleet_without_a_primary_fails_and_says_why() {
        let found = fleet_findings(&snapshot(Vec::new()));
        assert_eq!(found[0].status, Status::Fail);
        assert!(found[0].found.contains("none is writable"), "{found:?}");
    }
}
