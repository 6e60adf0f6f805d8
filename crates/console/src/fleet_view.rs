//! From a snapshot to what people see: the plain values of [`FleetView`], and the table of `headroom fleet`.

use crate::status_view::{DemandView, EpochView, FleetView, IgnoredClaimView, ServerView, ZoneView};
use fleet::{
    Demand, DemandSource, EpochSource, EpochStatus, KnownZone, Replication, Role, Server, Snapshot, State,
    Thread, WriterStatus, ZoneSource, long,
};
use std::time::{Duration, Instant};
use term::{Paint, Table};

/// The snapshot in plain values, as it looks at `now`.
pub fn view(snapshot: &Snapshot, now: Instant) -> FleetView {
    // An answer that is too old is none, also where whatever asks has died.
    let aged = snapshot.aged(now);
    let snapshot = aged.as_ref().unwrap_or(snapshot);
    let (writer, writer_unknown_because) = match &snapshot.writer {
        WriterStatus::Known { server } => (Some(server.to_string()), None),
        WriterStatus::Unknown { why } => (None, Some(why.clone())),
    };
    let counted = snapshot.servers.iter().filter(|server| shares_load(server));
    let all: f64 = counted.map(|s| s.load.statements_per_second).sum();
    let mut servers: Vec<ServerView> =
        snapshot.servers.iter().map(|server| server_view(server, all, now)).collect();
    let zone = |s: &ServerView| s.zone.as_ref().map_or("~".to_owned(), |z| z.zone.clone());
    servers.sort_by(|a, b| {
        let key = |s: &ServerView| (s.role != "primary", zone(s), s.name.clone());
        key(a).cmp(&key(b))
    });
    FleetView {
        round: snapshot.round,
        age_ms: ms(now.saturating_duration_since(snapshot.at)),
        own_zone: snapshot.own_zone.as_ref().map(zone_view),
        writer,
        writer_unknown_because,
        epoch: epoch_view(&snapshot.epoch),
        demand: DemandView {
            source: snapshot.demand.basis(),
            idle: snapshot.demand.idle,
            reads_per_second: reads_per_second(&snapshot.demand),
            unplaced: snapshot.demand.unplaced,
            zones: snapshot.demand.zones.iter().map(|z| (z.zone.to_string(), z.share)).collect(),
        },
        servers,
        remarks: snapshot.remarks.clone(),
    }
}

/// The rate where it is counted: where demand is told by sessions, as on MariaDB without `userstat`, it is
/// not.
fn reads_per_second(demand: &Demand) -> Option<f64> {
    let counted = demand.source == DemandSource::StatementCounters || demand.idle;
    counted.then_some(demand.reads_per_second)
}

fn epoch_view(epoch: &EpochStatus) -> EpochView {
    let ignored = epoch.ignored.iter().map(|ignored| IgnoredClaimView {
        server: ignored.server.to_string(),
        epoch: ignored.epoch,
        claim: ignored.claim.word().to_owned(),
    });
    EpochView {
        highest: epoch.highest,
        source: match &epoch.source {
            EpochSource::Nothing => "no switchover is known".to_owned(),
            EpochSource::Remembered => "remembered from before the restart".to_owned(),
            EpochSource::Server { server } => format!("recorded on {server}"),
        },
        survives_restart: epoch.survives_restart,
        trouble: epoch.trouble.clone(),
        unknown: epoch.unknown.iter().map(|(server, why)| (server.to_string(), why.clone())).collect(),
        ignored: ignored.collect(),
        ignored_total: epoch.ignored_total,
    }
}

/// What should be known of epochs, a line each; nothing where none is known and nothing is wrong.
pub fn epoch_remarks(epoch: &EpochView) -> Vec<String> {
    let mut remarks: Vec<String> = epoch.trouble.clone().into_iter().collect();
    for ignored in &epoch.ignored {
        let what = match ignored.claim.as_str() {
            "writes" => "takes writes",
            "announces" => "announces a switchover",
            _ => "was promoted, and its epoch is not recorded yet",
        };
        remarks.push(format!(
            "{} {what}; ignored: it is of epoch {}, and epoch {} was seen ({})",
            ignored.server, ignored.epoch, epoch.highest, epoch.source
        ));
    }
    // Before the first switchover nothing depends on it.
    if epoch.highest > 0 {
        remarks.extend(epoch.unknown.iter().map(|(server, why)| format!("{server}: epoch unknown: {why}")));
    }
    remarks
}

/// The fleet as a table, with what should be known of it below.
pub fn text(fleet: &FleetView, paint: Paint) -> String {
    let mut table = Table::new(&["SERVER", "ROLE", "ZONE", ">LAG", "STATE", "BECAUSE"]);
    for server in &fleet.servers {
        table.row(vec![
            paint.bold(&server.name),
            role(server, paint),
            server.zone.as_ref().map_or("?".to_owned(), |z| z.zone.clone()),
            lag(server),
            state(server, paint),
            because(server),
        ]);
    }
    let servers = if fleet.servers.is_empty() { "No server is known.\n".to_owned() } else { table.text() };
    // The table has each server's reason already.
    let silent =
        !fleet.servers.is_empty() && fleet.servers.iter().all(|server| server.state_because.is_some());
    let because = silent.then_some("no server answers");
    // What is missing comes first.
    match fleet.writer {
        Some(_) => format!("{servers}\n{}", summary(fleet, paint)),
        None => format!("{}\n\n{servers}\n{}", writes(fleet, because, paint), rest(fleet, paint)),
    }
}

/// The lines below the table: writer, own zone, demand, remarks.
pub fn summary(fleet: &FleetView, paint: Paint) -> String {
    format!("{} {}", writes(fleet, None, paint), rest(fleet, paint))
}

/// Who takes writes, or why nobody is known to: `because` in place of the fleet's own reason.
fn writes(fleet: &FleetView, because: Option<&str>, paint: Paint) -> String {
    match &fleet.writer {
        Some(writer) => format!("Writes go to {}.", paint.bold(writer)),
        None => {
            let why = because.or(fleet.writer_unknown_because.as_deref()).unwrap_or("no reason is known");
            paint.red(&format!("No primary is known: {why}."))
        }
    }
}

fn rest(fleet: &FleetView, paint: Paint) -> String {
    let mut text = match &fleet.own_zone {
        Some(own) => format!("Our zone is {} (by {}).\n", own.zone, by_words(&own.by)),
        None => "Our zone is not known: name it with --zone, or with members of a [[zone]].\n".to_owned(),
    };
    if !fleet.demand.zones.is_empty() {
        let shares: Vec<String> =
            fleet.demand.zones.iter().map(|(zone, share)| format!("{zone} {}", percent(*share))).collect();
        let rate = match fleet.demand.reads_per_second {
            Some(rate) if rate >= 1.0 => format!(", {rate:.0} reads/s"),
            _ => String::new(),
        };
        text.push_str(&if fleet.demand.idle {
            format!("{} ({}).\n", capitalised(&fleet.demand.source), shares.join(", "))
        } else {
            format!("Reads from zone {} (by {}{rate}).\n", shares.join(", "), fleet.demand.source)
        });
    }
    if fleet.epoch.highest > 0 {
        text.push_str(&format!("Epoch {} ({}).\n", fleet.epoch.highest, fleet.epoch.source));
    }
    for remark in epoch_remarks(&fleet.epoch) {
        text.push_str(&format!("{} {remark}\n", paint.yellow("!")));
    }
    // That there is no writer, and why, stands above.
    let said = fleet.writer_unknown_because.as_deref().map(|why| format!("no writer: {why}"));
    for remark in fleet.remarks.iter().filter(|remark| Some(*remark) != said.as_ref()) {
        text.push_str(&format!("{} {remark}\n", paint.yellow("!")));
    }
    text
}

fn capitalised(words: &str) -> String {
    let mut letters = words.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

/// A share for people: `33.3 %`, `0 %`.
pub fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if (percent - percent.round()).abs() < 0.05 {
        format!("{percent:.0} %")
    } else {
        format!("{percent:.1} %")
    }
}

/// A lag for people: `0 to 500 ms`, `12.3 s`, `unknown since 4 min 12 s`, and `-` where there is none.
pub fn lag(server: &ServerView) -> String {
    let duration = |ms: f64| Duration::try_from_secs_f64(ms / 1e3).unwrap_or_default();
    match (server.lag_ms, server.seconds_behind, server.lag_unknown_for_s) {
        (Some(least), ..) => fleet::bounds(duration(least), duration(server.lag_at_most_ms.unwrap_or(least))),
        (None, Some(seconds), _) => format!("~{seconds} s"),
        (None, None, Some(seconds)) => format!("unknown since {}", long(duration(seconds * 1e3))),
        (None, None, None) if server.role == "replica" => "unknown".to_owned(),
        (None, None, None) => "-".to_owned(),
    }
}

fn role(server: &ServerView, paint: Paint) -> String {
    match server.role.as_str() {
        "stray" | "unknown" => paint.yellow(&server.role),
        _ => server.role.clone(),
    }
}

/// The state, coloured; of one that does not answer, for how long.
pub fn state(server: &ServerView, paint: Paint) -> String {
    match (server.state.as_str(), server.state_for_s) {
        ("answering", _) => paint.green("answering"),
        ("unasked", _) => paint.dim("unasked"),
        (other, Some(seconds)) => {
            let lasts = long(Duration::try_from_secs_f64(seconds).unwrap_or_default());
            paint.red(&format!("{other} for {lasts}"))
        }
        (other, None) => paint.red(other),
    }
}

fn because(server: &ServerView) -> String {
    let mut parts = Vec::new();
    parts.extend(server.state_because.clone());
    if parts.is_empty() || server.role != "unknown" {
        parts.push(server.because.clone());
    }
    if server.replication.starts_with("stopped") {
        parts.push(format!("replication {}", server.replication));
    }
    parts.extend(server.reserved.as_ref().map(|rule| format!("reserved by {rule}")));
    parts.retain(|part| !part.is_empty());
    parts.join("; ")
}

/// Whether its part of the load of all replicas is known: what one carries that does not answer is not.
fn shares_load(server: &Server) -> bool {
    server.role == Role::Replica && server.reserved.is_none() && server.state == State::Answering
}

fn server_view(server: &Server, statements_of_all: f64, now: Instant) -> ServerView {
    let (state, state_because) = match &server.state {
        State::Answering => ("answering", None),
        State::Silent { why } => ("silent", Some(why.clone())),
        State::Failing { why } => ("failing", Some(why.clone())),
        State::Unasked => ("unasked", None),
    };
    let counts = shares_load(server) && statements_of_all > 0.0;
    let known = server.last_lag.filter(|_| server.lag.is_none() && server.role == Role::Replica);
    let view = ServerView {
        name: server.name.to_string(),
        reach: server.reach.to_string(),
        version: server.version.clone(),
        role: server.role.to_string(),
        because: server.because.clone(),
        state: state.to_owned(),
        state_because,
        zone: server.zone.as_ref().map(zone_view),
        lag_unknown_for_s: known.map(|(_, at)| now.saturating_duration_since(at).as_secs_f64()),
        lag_ms: server.lag.map(|lag| ms(lag.at_least)),
        lag_at_most_ms: server.lag.map(|lag| ms(lag.at_most())),
        lag_source: server.lag.map(|lag| lag.source.to_string()),
        seconds_behind: server.seconds_behind,
        replication: replication(&server.replication),
        source: server.source.clone(),
        weight: server.weight.value(),
        reserved: server.reserved.clone(),
        all_sessions: server.load.sessions,
        running: server.load.running,
        statements_per_second: server.load.statements_per_second,
        share_of_load: counts.then(|| server.load.statements_per_second / statements_of_all),
        round_trip_ms: server.round_trip.map(ms),
        asked_every_ms: server.asking.as_ref().map(|asking| ms(asking.interval)),
        counted_every_ms: server.asking.as_ref().and_then(|asking| asking.counters).map(ms),
        routers: server.asking.as_ref().and_then(|asking| asking.routers),
        asked_because: server.asking.as_ref().and_then(|asking| asking.because.clone()),
        ..ServerView::default()
    };
    ServerView { lag_text: lag(&view), ..view }
}

/// State of the threads in words.
pub fn replication(replication: &Replication) -> String {
    match replication {
        Replication::None => "none".to_owned(),
        Replication::Running => "running".to_owned(),
        Replication::Stopped { thread, why } => {
            let thread = match thread {
                Thread::Receiver => "receiver",
                Thread::Applier => "applier",
                Thread::Both => "receiver and applier",
            };
            format!("stopped ({thread}): {why}")
        }
        Replication::Managed => "managed by the server".to_owned(),
        Replication::Unknown => "unknown".to_owned(),
    }
}

fn zone_view(zoned: &KnownZone) -> ZoneView {
    let by = match zoned.by {
        ZoneSource::Rule => "rule",
        ZoneSource::Metadata => "metadata",
        ZoneSource::RoundTrip => "round_trip",
    };
    ZoneView { zone: zoned.zone.to_string(), by: by.to_owned() }
}

fn by_words(by: &str) -> &str {
    match by {
        "round_trip" => "round-trip time",
        other => other,
    }
}

fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use super::*;
    use fleet::{Address, ServerName};

    #[test]
    fn a_fleet_of_which_nothing_is_known_says_so() {
        let snapshot = Snapshot::empty(Instant::now());
        let text = text(&view(&snapshot, Instant::now()), Paint::off());
        assert!(text.contains("No server is known."), "{text}");
        assert!(text.contains("No primary is known: no server has been asked yet."), "{text}");
    }

    #[test]
    fn the_primary_comes_first_and_a_silent_server_says_why() {
        let mut snapshot = Snapshot::empty(Instant::now());
        let named = |name: &str| Server::unasked(ServerName::new(name), Address::tcp(name, 3306));
        let mut replica = named("a-replica");
        replica.role = Role::Replica;
        replica.state = State::Silent { why: "no greeting within 1s".to_owned() };
        let mut primary = named("z-primary");
        primary.role = Role::Primary;
        primary.state = State::Answering;
        snapshot.servers = vec![replica, primary];
        snapshot.writer = WriterStatus::Known { server: ServerName::new("z-primary") };
        let text = text(&view(&snapshot, Instant::now()), Paint::off());
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[1].starts_with("z-primary"), "{text}");
        assert!(lines[2].contains("silent") && lines[2].contains("no greeting within 1s"), "{text}");
        assert!(text.contains("Writes go to z-primary."), "{text}");
    }

    #[test]
    fn what_a_replica_carries_that_does_not_answer_is_unknown_and_not_nothing() {
        let replica = |name: &str, state: State, statements_per_second: f64| {
            let server = Server::unasked(ServerName::new(name), Address::tcp(name, 3306));
            let load = fleet::Load { statements_per_second, ..fleet::Load::default() };
            Server { role: Role::Replica, state, load, ..server }
        };
        let silent = State::Silent { why: "no greeting within 1s".to_owned() };
        let servers = vec![
            replica("a", State::Answering, 300.0),
            replica("b", State::Answering, 100.0),
            replica("c", silent, 0.0),
        ];
        let snapshot = Snapshot { servers, ..Snapshot::empty(Instant::now()) };
        let fleet = view(&snapshot, Instant::now());
        let shares: Vec<Option<f64>> = fleet.servers.iter().map(|server| server.share_of_load).collect();
        assert_eq!(shares, [Some(0.75), Some(0.25), None]);
    }

    #[test]
    fn reads_that_nobody_counts_are_unknown_and_those_of_idle_servers_none() {
        let rate = |source, idle, reads_per_second| {
            let demand = Demand { source, idle, reads_per_second, ..Demand::unknown() };
            let snapshot = Snapshot { demand, ..Snapshot::empty(Instant::now()) };
            view(&snapshot, Instant::now()).demand.reads_per_second
        };
        assert_eq!(rate(DemandSource::Sessions, false, 0.0), None);
        assert_eq!(rate(DemandSource::StatementCounters, false, 250.0), Some(250.0));
        assert_eq!(rate(DemandSource::Equal, true, 0.0), Some(0.0));
    }

    #[test]
    fn an_error_is_told_once() {
        let mut snapshot = Snapshot::empty(Instant::now());
        let mut refused = Server::unasked(ServerName::new("db1"), Address::tcp("db1", 3306));
        refused.state = State::Failing { why: "Access denied".to_owned() };
        snapshot.servers = vec![refused];
        let why = "no server answers (db1: Access denied)".to_owned();
        snapshot.remarks = vec![format!("no writer: {why}"), "another remark".to_owned()];
        snapshot.writer = WriterStatus::Unknown { why };
        let fleet = view(&snapshot, Instant::now());
        let text = text(&fleet, Paint::off());
        assert_eq!(text.matches("Access denied").count(), 1, "{text}");
        assert!(
            text.contains("No primary is known: no server answers.") && text.contains("another remark"),
            "{text}"
        );
        // Without the table the reason is needed.
        assert_eq!(summary(&fleet, Paint::off()).matches("Access denied").count(), 1);
    }

    #[test]
    fn figures_are_short() {
        assert_eq!(percent(1.0 / 3.0), "33.3 %");
        assert_eq!(percent(0.5), "50 %");
        let with = |lag_ms| lag(&ServerView { lag_ms, ..ServerView::default() });
        assert_eq!(with(Some(3.4)), "3 ms");
        assert_eq!(with(Some(12_340.0)), "12.3 s");
        assert_eq!(with(None), "-");
        let bounds = ServerView { lag_ms: Some(0.0), lag_at_most_ms: Some(500.0), ..ServerView::default() };
        assert_eq!(lag(&bounds), "0 to 500 ms");
    }

    #[test]
    fn a_dead_replica_has_no_lag_and_says_since_when() {
        let (start, name) = (Instant::now(), ServerName::new("b1"));
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut replica = Server::unasked(name, Address::tcp("b1", 3306));
        (replica.role, replica.state) = (Role::Replica, State::Answering);
        let source = fleet::LagSource::GtidSamples;
        replica.lag =
            Some(fleet::Lag { at_least: Duration::ZERO, uncertainty: Duration::from_millis(500), source });
        (replica.answered_at, replica.answer_holds_until) = (Some(start), Some(at(4)));
        let snapshot = Snapshot { servers: vec![replica], ..Snapshot::empty(start) };
        assert_eq!(view(&snapshot, at(1)).servers[0].lag_text, "0 to 500 ms");
        // Nobody published a snapshot since: the answer is old all the same.
        let dead = view(&snapshot, at(252)).servers.remove(0);
        assert_eq!((dead.lag_ms, dead.lag_at_most_ms, dead.seconds_behind), (None, None, None));
        assert_eq!((dead.state.as_str(), dead.lag_text.as_str()), ("silent", "unknown since 4 min 12 s"));
        let json = serde_json::to_value(&dead).unwrap();
        assert!(json["lag_ms"].is_null());
        assert_eq!(json["lag_unknown_for_s"], 252.0);
    }
}
