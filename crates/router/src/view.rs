//! The view: everything a pick needs, worked out once per snapshot and then only read.
//!
//! Built from the last snapshot and what our own side knows (drains, suspects); shared behind an `ArcSwap`,
//! so that the data plane reads it without a lock. Built anew on every snapshot, suspicion, drain and reload.

use crate::apportion::{apportion, phase_within};
use crate::capacity::Capacity;
use crate::eligible::{self, Own, Reason, Verdict};
use crate::flow::{Flow, ZoneLoad};
use crate::heat::Heat;
use crate::speed::{Given, Speed};
use crate::suspect::Suspects;
use config::RouterConfig;
use fleet::{Address, Announcement, DemandSource, Role, ServerName, Snapshot, WriterStatus, Zone};
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

/// The immutable view.
#[derive(Clone, Debug)]
pub struct View {
    /// What it was built from.
    pub snapshot: Arc<Snapshot>,
    /// The data plane's configuration.
    pub config: Arc<RouterConfig>,
    /// Where we stand.
    pub own_zone: Option<Zone>,
    /// One a server of the snapshot, in its order.
    pub candidates: Vec<Candidate>,
    /// Which share of each zone's reads goes where.
    pub flow: Flow,
    /// For each zone of the flow table, the candidates eligible for reads there.
    pub members: Vec<Vec<usize>>,
    /// What is done instead of what was asked for, each with a name.
    pub fallbacks: Vec<Fallback>,
}

/// A server as the pick sees it.
#[derive(Clone, Debug)]
pub struct Candidate {
    pub name: ServerName,
    pub reach: Address,
    /// Whether it is told the client's address by a PROXY protocol header.
    pub proxy_protocol: bool,
    pub role: Role,
    /// Where it stands.
    pub zone: Option<Zone>,
    /// What it counts for when it may serve reads.
    pub capacity: Capacity,
    /// How its speed is known.
    pub speed: Speed,
    /// How its warmth is known.
    pub heat: Heat,
    /// May it serve reads?
    pub reads: Verdict,
    /// May it serve writes?
    pub writes: Verdict,
    /// May writers try it although it is not eligible?
    pub writers_may_try: bool,
    /// May it serve reads when nobody is eligible?
    pub last_resort: bool,
    /// Statements it says it runs now; as old as the snapshot.
    pub running: u32,
}

/// A fallback in force. Each has a stable name (metric label) and a line in words.
#[derive(Clone, Debug, PartialEq)]
pub enum Fallback {
    /// No replica is eligible, reads go to the primary.
    ReadsOnPrimary,
    /// No replica is eligible and the primary is not allowed or not there: readers are refused.
    NoReads,
    /// The same, but some are only in doubt: readers are sent there.
    LastResort,
    /// Replicas answer, and the lag limit excludes every one of them.
    LagLimitExcludesAll,
    /// Nobody takes writes: new writer sessions are held.
    WriterUnknown { why: String },
    /// Demand is not measured by statement counters.
    DemandNotMeasured {
        /// What stands in.
        source: DemandSource,
    },
    /// We do not know where we stand: our reads go where there is room.
    OwnZoneUnknown,
    /// Eligible servers that stand in no known zone.
    ServersWithoutZone { servers: Vec<ServerName> },
    /// No two replicas can be compared by what statements or our own questions take.
    SpeedsUnknown,
}

/// What our own side knows.
#[derive(Clone, Debug, Default)]
pub struct OwnState {
    /// Servers being emptied by command.
    pub draining: HashSet<ServerName>,
    /// Servers that just failed a session.
    pub suspects: Suspects,
    /// How fast they are beside each other; those not named have all of their weight.
    pub speeds: HashMap<ServerName, Speed>,
    /// Nothing has told for a while which of them is slow.
    pub speeds_unknown: bool,
    /// How warm they are; those not named go by the clock.
    pub heats: HashMap<ServerName, Heat>,
}

impl View {
    /// Works everything out. Pure: the same inputs give the same view. Servers whose last answer is too old
    /// at `now` are silent in it: whatever asks them may have died, and its snapshots with it.
    pub fn new(snapshot: Arc<Snapshot>, config: Arc<RouterConfig>, own: &OwnState, now: Instant) -> Self {
        let snapshot = snapshot.aged(now).map_or(snapshot, Arc::new);
        let candidates: Vec<Candidate> = snapshot
            .servers
            .iter()
            .map(|server| {
                let speed = own.speeds.get(&server.name).copied().unwrap_or_default();
                let heat = own.heats.get(&server.name).copied().unwrap_or_default();
                let own = Own {
                    speed: speed.factor,
                    heat,
                    draining: own.draining.contains(&server.name),
                    suspect: own.suspects.of(&server.name),
                };
                Candidate {
                    name: server.name.clone(),
                    reach: server.reach.clone(),
                    proxy_protocol: server.proxy_protocol,
                    role: server.role,
                    zone: server.zone_name().cloned(),
                    capacity: eligible::capacity(server, own, &config, now),
                    speed,
                    heat,
                    reads: eligible::for_reads(server, own, &config, now),
                    writes: eligible::for_writes(server, own, &snapshot.writer),
                    writers_may_try: eligible::may_be_tried_for_writes(server, own, &snapshot.writer),
                    last_resort: eligible::in_the_last_resort(server, own, &config, &snapshot.writer),
                    running: server.load.running,
                }
            })
            .collect();
        let own_zone = snapshot.own_zone.as_ref().map(|z| z.zone.clone());
        let flow = Flow::new(zone_loads(&candidates, &snapshot, own_zone.as_ref()), config.slack);
        let members = flow
            .zones
            .iter()
            .map(|load| {
                let here = |c: &Candidate| c.reads.is_eligible() && c.zone == load.zone;
                (0..candidates.len()).filter(|i| here(&candidates[*i])).collect()
            })
            .collect();
        let mut fallbacks = fallbacks(&candidates, &snapshot, &config, flow.zones.len());
        fallbacks.extend(own.speeds_unknown.then_some(Fallback::SpeedsUnknown));
        Self { snapshot, config, own_zone, candidates, flow, members, fallbacks }
    }

    /// The share of the reads born in `from` that each candidate should serve: flow into its zone, divided
    /// inside the zone by capacity. All 0 when no replica is eligible.
    pub fn shares(&self, from: Option<&Zone>) -> Vec<f64> {
        let mut shares = vec![0.0; self.candidates.len()];
        for ((load, members), part) in self.flow.zones.iter().zip(&self.members).zip(self.row(from)) {
            debug_assert!(members.is_empty() || load.capacity > 0.0);
            let capacity: f64 = members.iter().map(|m| self.candidates[*m].reads.capacity()).sum();
            for member in members {
                shares[*member] = part * self.candidates[*member].reads.capacity() / capacity;
            }
        }
        shares
    }

    /// Of `n` sessions born in `from`, how many each candidate should hold, in whole numbers: what
    /// [`pick`](crate::pick) arrives at when it opens them one by one.
    pub fn targets(&self, from: Option<&Zone>, n: usize, phase: f64) -> Vec<u32> {
        let mut targets = vec![0; self.candidates.len()];
        let per_zone = apportion(&self.row(from), n, phase);
        for (zone, (members, count)) in self.members.iter().zip(per_zone).enumerate() {
            let capacity: Vec<f64> = members.iter().map(|m| self.candidates[*m].reads.capacity()).collect();
            let counts = apportion(&capacity, count as usize, phase_within(phase, zone));
            members.iter().zip(counts).for_each(|(member, count)| targets[*member] = count);
        }
        targets
    }

    /// What each server that may be read from is given of our sessions, `loads`, beside its share of them.
    pub fn given(&self, loads: &[f64]) -> HashMap<ServerName, Given> {
        let shares = self.shares(self.own_zone.as_ref());
        let with_share = shares.iter().zip(loads).filter(|(share, _)| **share > 0.0);
        let all: f64 = with_share.map(|(_, load)| load).sum();
        let given = |((candidate, share), sessions): ((&Candidate, &f64), &f64)| {
            // Of less than half a session a whole one says nothing.
            let expected = share * all;
            let load = if expected < 0.5 { 1.0 } else { (sessions / expected).clamp(0.25, 4.0) };
            let lacks = (expected - sessions).max(0.0);
            let given = Given { load, lacks, warm: candidate.capacity.warmth >= 1.0 };
            candidate.reads.is_eligible().then(|| (candidate.name.clone(), given))
        };
        self.candidates.iter().zip(&shares).zip(loads).filter_map(given).collect()
    }

    /// The row of the flow table for reads born in `from`; an origin the table does not know goes by
    /// capacity. It sums to 1, or is all 0 where no replica is eligible.
    pub fn row(&self, from: Option<&Zone>) -> Vec<f64> {
        if let Some(row) = self.flow.row(from) {
            return row.to_vec();
        }
        let all: f64 = self.flow.zones.iter().map(|zone| zone.capacity).sum();
        let share = |capacity: f64| if all > 0.0 { capacity / all } else { 0.0 };
        self.flow.zones.iter().map(|zone| share(zone.capacity)).collect()
    }

    /// The server that takes writes now.
    pub fn writer(&self) -> Option<usize> {
        self.candidates.iter().position(|c| c.writes.is_eligible())
    }

    /// The server that takes writes and failed a session of ours, once it may be tried again.
    pub fn writer_in_doubt(&self) -> Option<usize> {
        self.candidates.iter().position(|c| c.writers_may_try)
    }

    /// The primary from which a switchover is announced, if writes are held for it: also one that is drained
    /// first, or failed a session of ours.
    pub fn held_primary(&self) -> Option<usize> {
        let WriterStatus::Known { server } = &self.snapshot.writer else { return None };
        let at = self.index(server)?;
        (self.snapshot.servers[at].announced == Announcement::Hold).then_some(at)
    }

    /// The primary, for reads that no replica can serve: one from which a switchover is under way serves them
    /// while new writes wait.
    pub fn primary_for_reads(&self) -> Option<usize> {
        self.candidates.iter().position(may_read_as_primary)
    }

    /// Whether a switchover is announced: from now on no new writer session may bypass the router.
    pub fn switchover_is_announced(&self) -> bool {
        self.snapshot.servers.iter().any(|server| server.announced != Announcement::Nothing)
    }

    /// Where a server stands in this view.
    pub fn index(&self, name: &ServerName) -> Option<usize> {
        self.candidates.iter().position(|c| c.name == *name)
    }
}

fn may_read_as_primary(candidate: &Candidate) -> bool {
    candidate.writes.reason().is_none_or(|reason| *reason == Reason::WritesHeld)
}

/// Demand and capacity of every zone that has either, and of our own.
fn zone_loads(candidates: &[Candidate], snapshot: &Snapshot, own: Option<&Zone>) -> Vec<ZoneLoad> {
    let mut zones: Vec<Option<Zone>> = Vec::new();
    let mut add = |zone: Option<Zone>| {
        if !zones.contains(&zone) {
            zones.push(zone);
        }
    };
    candidates.iter().filter(|c| c.zone.is_some()).for_each(|c| add(c.zone.clone()));
    snapshot.demand.zones.iter().for_each(|z| add(Some(z.zone.clone())));
    add(own.cloned());
    let unplaced = snapshot.demand.unplaced.clamp(0.0, 1.0);
    if unplaced > 0.0 || candidates.iter().any(|c| c.zone.is_none() && c.reads.is_eligible()) {
        add(None);
    }
    zones.sort();
    let capacity_of = |zone: &Option<Zone>| -> f64 {
        candidates.iter().filter(|c| c.zone == *zone).map(|c| c.reads.capacity()).sum()
    };
    let measured = snapshot.demand.zones.iter().any(|z| z.share > 0.0);
    zones
        .into_iter()
        .map(|zone| {
            let capacity = capacity_of(&zone);
            let demand = match &zone {
                // Nothing measured: whoever has a reader counts the same, and so do we.
                _ if !measured => f64::from(u8::from(capacity > 0.0 || zone.as_ref() == own)),
                Some(zone) => snapshot.demand.share(zone) * (1.0 - unplaced),
                None => unplaced,
            };
            ZoneLoad { zone, demand, capacity }
        })
        .collect()
}

/// Everything that is not as asked for. Where there is one zone, reads go there whatever the demand.
fn fallbacks(
    candidates: &[Candidate],
    snapshot: &Snapshot,
    config: &RouterConfig,
    zones: usize,
) -> Vec<Fallback> {
    let mut found = Vec::new();
    let writer = candidates.iter().any(|c| c.writes.is_eligible());
    if !candidates.iter().any(|c| c.reads.is_eligible()) {
        found.push(if config.reads_on_primary && candidates.iter().any(may_read_as_primary) {
            Fallback::ReadsOnPrimary
        } else if candidates.iter().any(|c| c.last_resort) {
            Fallback::LastResort
        } else {
            Fallback::NoReads
        });
        let behind = |c: &Candidate| matches!(c.reads.reason(), Some(Reason::Behind { .. }));
        if candidates.iter().any(behind) {
            found.push(Fallback::LagLimitExcludesAll);
        }
    }
    if !writer {
        let why = match &snapshot.writer {
            WriterStatus::Unknown { why } => why.clone(),
            WriterStatus::Known { server } => {
                let at = candidates.iter().find(|c| c.name == *server).and_then(|c| c.writes.reason());
                format!(
                    "{server}: {}",
                    at.map_or_else(|| "not in the snapshot".to_owned(), ToString::to_string)
                )
            }
        };
        found.push(Fallback::WriterUnknown { why });
    }
    let is_measured = snapshot.demand.source == DemandSource::StatementCounters;
    if !is_measured && !snapshot.demand.idle && zones > 1 {
        found.push(Fallback::DemandNotMeasured { source: snapshot.demand.source });
    }
    if snapshot.own_zone.is_none() {
        found.push(Fallback::OwnZoneUnknown);
    }
    let lost: Vec<ServerName> = candidates
        .iter()
        .filter(|c| c.zone.is_none() && c.reads.is_eligible())
        .map(|c| c.name.clone())
        .collect();
    if !lost.is_empty() {
        found.push(Fallback::ServersWithoutZone { servers: lost });
    }
    found
}

impl Fallback {
    /// Its stable name: metric label and JSON.
    pub fn name(&self) -> &'static str {
        match self {
            Self::ReadsOnPrimary => "reads_on_primary",
            Self::NoReads => "no_reads",
            Self::LastResort => "last_resort",
            Self::LagLimitExcludesAll => "lag_limit_excludes_all",
            Self::WriterUnknown { .. } => "writer_unknown",
            Self::DemandNotMeasured { .. } => "demand_not_measured",
            Self::OwnZoneUnknown => "own_zone_unknown",
            Self::ServersWithoutZone { .. } => "servers_without_zone",
            Self::SpeedsUnknown => "speeds_unknown",
        }
    }
}

impl fmt::Display for Fallback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ReadsOnPrimary => f.write_str("no replica is eligible: reads go to the primary"),
            Self::NoReads => f.write_str("no server is eligible for reads: new reader sessions are refused"),
            Self::LastResort => f.write_str(
                "no server is eligible for reads: those that gave no answer in time, or just failed a session, are tried",
            ),
            Self::LagLimitExcludesAll => {
                f.write_str("every replica that answers is further behind than max_lag")
            }
            Self::WriterUnknown { why } => {
                write!(f, "no server takes writes ({why}): new writer sessions are held")
            }
            Self::DemandNotMeasured { source } => write!(f, "demand per zone stands on {source}"),
            Self::OwnZoneUnknown => f.write_str("our own zone is not known: reads go wherever there is room"),
            Self::ServersWithoutZone { servers } => {
                let names: Vec<&str> = servers.iter().map(ServerName::as_str).collect();
                write!(f, "in no known zone: {}", names.join(", "))
            }
            Self::SpeedsUnknown => f.write_str(
                "no two replicas can be compared by their speed: a slow one gets as much as before (insight is off, or too few of the same statements)",
            ),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use fleet::{
        Demand, KnownZone, Lag, LagSource, Replication, Server, State, Weight, ZoneShare, ZoneSource,
    };
    use std::time::Duration;

    /// A fleet of answering replicas `r0..` in the given zones (`""` is none) and the primary `p` in zone a.
    pub(crate) fn snapshot(own: &str, readers: &[(&str, f64)], demand: &[(&str, f64)]) -> Snapshot {
        let zoned = |z: &str| (!z.is_empty()).then(|| KnownZone { zone: Zone::new(z), by: ZoneSource::Rule });
        let mut servers = vec![server("p", Role::Primary, zoned("a"), 1.0)];
        for (i, (zone, weight)) in readers.iter().enumerate() {
            servers.push(server(&format!("r{i}"), Role::Replica, zoned(zone), *weight));
        }
        Snapshot {
            round: 1,
            settled: true,
            servers,
            writer: WriterStatus::Known { server: ServerName::new("p") },
            own_zone: zoned(own),
            demand: Demand {
                zones: demand.iter().map(|(z, s)| ZoneShare { zone: Zone::new(z), share: *s }).collect(),
                source: DemandSource::StatementCounters,
                reads_per_second: 1000.0,
                unplaced: 0.0,
                idle: false,
            },
            ..Snapshot::empty(Instant::now())
        }
    }

    fn server(name: &str, role: Role, zone: Option<KnownZone>, weight: f64) -> Server {
        let mut server = Server::unasked(ServerName::new(name), Address::tcp("127.0.0.1", 3306));
        server.role = role;
        server.state = State::Answering;
        server.replication = Replication::Running;
        server.weight = Weight::new(weight).unwrap();
        server.zone = zone;
        let (at_least, uncertainty) = (Duration::from_millis(10), Duration::ZERO);
        server.lag = Some(Lag { at_least, uncertainty, source: LagSource::GtidSamples });
        server
    }

    pub(crate) fn view(snapshot: Snapshot) -> View {
        // Exact shares are easier to say.
        let config = RouterConfig { slack: 0.0, ..RouterConfig::default() };
        View::new(Arc::new(snapshot), Arc::new(config), &OwnState::default(), Instant::now())
    }

    #[test]
    fn shares_follow_the_flow_between_zones_and_the_weight_inside_one() {
        let third = 1.0 / 3.0;
        let demand = [("a", third), ("b", third), ("c", third)];
        let view = view(snapshot("c", &[("a", 1.5), ("a", 0.5), ("b", 1.0)], &demand));
        let shares = view.shares(Some(&Zone::new("c")));
        assert!((shares[1] - 0.75).abs() < 1e-9 && (shares[2] - 0.25).abs() < 1e-9, "{shares:?}");
        assert!(shares[0] == 0.0 && shares[3] < 1e-9, "never the primary, nor a zone without room");
        assert!(view.fallbacks.is_empty(), "{:?}", view.fallbacks);
    }

    #[test]
    fn speeds_that_nothing_tells_are_a_fallback() {
        let own = OwnState { speeds_unknown: true, ..OwnState::default() };
        let s = Arc::new(snapshot("a", &[("a", 1.0), ("a", 1.0)], &[("a", 1.0)]));
        let view = View::new(s, Arc::default(), &own, Instant::now());
        assert_eq!(view.fallbacks, [Fallback::SpeedsUnknown]);
    }

    #[test]
    fn a_slow_server_alone_in_its_zone_keeps_what_fits_and_the_rest_goes_where_there_is_room() {
        let s =
            snapshot("a", &[("a", 1.0), ("b", 1.0), ("c", 1.0)], &[("a", 0.34), ("b", 0.33), ("c", 0.33)]);
        let slow = Speed { factor: 0.5, ..Speed::default() };
        let own = OwnState { speeds: [(ServerName::new("r0"), slow)].into(), ..OwnState::default() };
        let config = RouterConfig { slack: 0.0, ..RouterConfig::default() };
        let view = View::new(Arc::new(s), Arc::new(config), &own, Instant::now());
        assert_eq!(view.candidates[1].reads.capacity(), 0.5);
        assert!((view.flow.carried()[0] - 0.2).abs() < 1e-9, "{:?}", view.flow);
        assert!((view.flow.crossing() - 0.14).abs() < 1e-9, "0.34 of the reads, room for 0.2");
        assert_eq!(view.flow.rows[1][1], 1.0, "the others keep theirs");
    }

    #[test]
    fn what_a_server_is_given_is_by_whole_sessions_and_not_by_its_weight_or_its_speed() {
        let readers = [("a", 2.0), ("a", 1.0), ("a", 1.0), ("b", 1.0)];
        let mut s = snapshot("a", &readers, &[("a", 0.9), ("b", 0.1)]);
        let slow = Speed { factor: 0.5, ..Speed::default() };
        let own = OwnState { speeds: [(ServerName::new("r1"), slow)].into(), ..OwnState::default() };
        s.servers[3].back_since = Some(Instant::now());
        let config = RouterConfig { slack: 0.0, ..RouterConfig::default() };
        let view = View::new(Arc::new(s), Arc::new(config.clone()), &own, Instant::now());
        // The primary, and what is at its share of 100 sessions.
        let shares = view.shares(view.own_zone.as_ref());
        let at_the_share: Vec<f64> = shares.iter().map(|share| share * 100.0).collect();
        let given = view.given(&at_the_share);
        let of = |name: &str| given[&ServerName::new(name)];
        assert_eq!(given.len(), 4, "not the primary: {given:?}");
        assert!(given.values().all(|given| (given.load - 1.0).abs() < 1e-9), "{given:?}");
        assert!(!of("r2").warm && of("r0").warm && of("r1").warm);
        // Whole sessions: three, three and two.
        let s = snapshot("a", &[("a", 1.0), ("a", 1.0), ("a", 1.0)], &[("a", 1.0)]);
        let view = View::new(Arc::new(s), Arc::new(config), &OwnState::default(), Instant::now());
        let given = view.given(&[0.0, 3.0, 3.0, 2.0]);
        let [r0, r2] = ["r0", "r2"].map(|name| given[&ServerName::new(name)].load);
        assert!((r0 / r2 - 1.5).abs() < 1e-9, "{given:?}");
    }

    #[test]
    fn shares_and_what_is_given_are_the_same_to_a_router_that_does_not_know_its_zone() {
        let view = view(snapshot("", &[("a", 5.0); 6], &[("a", 1.0)]));
        let shares = view.shares(None);
        assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-9, "{shares:?}");
        let given = view.given(&[0.0, 3.0, 2.0, 2.0, 2.0, 2.0, 1.0]);
        let [r0, r5] = ["r0", "r5"].map(|name| given[&ServerName::new(name)].load);
        assert!((r0 - 1.5).abs() < 1e-9 && (r5 - 0.5).abs() < 1e-9, "{given:?}");
    }

    #[test]
    fn a_new_replica_alone_in_its_zone_gets_a_part_of_its_reads_while_it_is_cold() {
        let thirds = [("a", 0.34), ("b", 0.33), ("c", 0.33)];
        let mut s = snapshot("a", &[("a", 1.0), ("b", 1.0), ("c", 1.0)], &thirds);
        let back = Instant::now();
        s.servers[1].back_since = Some(back);
        let at = |share: f64, second: u64| {
            let heat = Heat { since: Some(back), share: Some(share), ..Heat::default() };
            let own = OwnState { heats: [(ServerName::new("r0"), heat)].into(), ..OwnState::default() };
            let config = RouterConfig { slack: 0.0, ..RouterConfig::default() };
            View::new(Arc::new(s.clone()), Arc::new(config), &own, back + Duration::from_secs(second))
        };
        let cold = at(0.2, 20);
        assert_eq!(cold.candidates[1].reads.capacity(), 0.2);
        let row = cold.row(Some(&Zone::new("a")));
        assert!((cold.flow.carried()[0] - 0.2 / 2.2).abs() < 1e-9, "its part of all reads: {:?}", cold.flow);
        assert!(row[0] > 0.0 && row[1] > 0.0 && row[2] > 0.0, "the rest goes elsewhere: {row:?}");
        assert_eq!(cold.flow.rows[1][1], 1.0, "the others keep theirs");
        assert!(at(0.7, 20).row(Some(&Zone::new("a")))[0] > row[0]);
    }

    #[test]
    fn fallbacks_are_named_one_by_one() {
        let mut s = snapshot("", &[("", 1.0)], &[]);
        s.demand = Demand::unknown();
        let names: Vec<_> = view(s).fallbacks.iter().map(Fallback::name).collect();
        assert_eq!(names, ["demand_not_measured", "own_zone_unknown", "servers_without_zone"]);
        let mut s = snapshot("a", &[("a", 1.0)], &[]);
        s.demand.source = DemandSource::Sessions;
        assert_eq!(view(s).fallbacks, [], "there is one zone");
        let mut s = snapshot("a", &[("a", 1.0)], &[("a", 1.0)]);
        s.servers[1].lag.as_mut().unwrap().at_least = Duration::from_secs(99);
        let names: Vec<_> = view(s).fallbacks.iter().map(Fallback::name).collect();
        assert_eq!(names, ["reads_on_primary", "lag_limit_excludes_all"]);
    }

    #[test]
    fn an_unknown_own_zone_sends_reads_where_there_is_room() {
        let mut s = snapshot("", &[("a", 1.0), ("b", 1.0)], &[("a", 0.5), ("b", 0.1)]);
        s.demand.unplaced = 0.4;
        let shares = view(s).shares(None);
        assert!(shares[2] > shares[1], "{shares:?}");
        assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn answers_that_grow_old_are_silence_though_no_snapshot_comes_any_more() {
        let now = Instant::now();
        let mut s = snapshot("a", &[("a", 1.0)], &[("a", 1.0)]);
        for server in &mut s.servers {
            (server.answered_at, server.answer_holds_until) = (Some(now), Some(now + Duration::from_secs(4)));
        }
        let at = |seconds| {
            View::new(
                Arc::new(s.clone()),
                Arc::default(),
                &OwnState::default(),
                now + Duration::from_secs(seconds),
            )
        };
        assert!(at(4).candidates[1].reads.is_eligible() && at(4).writer().is_some());
        let old = at(5);
        assert!(!old.candidates[1].reads.is_eligible() && old.writer().is_none());
        assert!(old.candidates[1].last_resort, "it may be the asking that died");
        assert!(old.snapshot.servers[1].lag.is_none());
    }
}
