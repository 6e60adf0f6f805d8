//! What the demo does, as data: servers, phases, how sessions are placed in each, and how much of everything.
//! Pure.
//!
//! One lab serves all phases. A group is a set of phases over the same readers that are compared with each
//! other: their slices alternate (a b c, a b c, ...), so that whatever else the machine does meets all of
//! them alike.
//!
//! | group | readers | phases |
//! |---|---|---|
//! | distance | a2, b1, c1 | (a) one zone each, (b) round robin, (c) headroom |
//! | no reader in c | a2, a3, b1 | (d) first backup, round robin, headroom; demand even |
//! | uneven | a2, a3, b1 | (d) the same; demand 90/10/0 |
//! | faults | a2, a3, b1, c1 | (e) headroom, while b1 is killed and later silenced |
//! | a move | a2, a3, b1, c1 | (f) headroom, while the primary is moved to a2 and back under write load |
//!
//! The primary a1 takes the writes in all of them, but for a part of (f).

use lab::app::{DataSize, PoolOrder, Rates};
use serde::Serialize;
use std::time::Duration;

/// Zones of the lab, in order, with their servers.
pub(crate) const ZONES: [(&str, u8); 3] = [("a", 3), ("b", 1), ("c", 1)];
/// The server that takes writes.
pub(crate) const PRIMARY: &str = "a1";
/// The server that is killed and silenced.
pub(crate) const VICTIM: &str = "b1";

/// Everything the demo does.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    /// Phases with traffic, compared within each group.
    pub(crate) groups: Vec<Group>,
    /// Length of a slice of traffic.
    pub(crate) slice: Duration,
    /// Traffic before the first slice of a group, not counted.
    pub(crate) settle: Duration,
    /// Requests per second of one zone when demand is even.
    pub(crate) rates: Rates,
    /// Sessions one application keeps for reads.
    pub(crate) reader_sessions: usize,
    /// Sessions one application keeps for writes.
    pub(crate) writer_sessions: usize,
    /// Rows.
    pub(crate) data: DataSize,
    /// Round-trip time between zones.
    pub(crate) between_zones: Duration,
    /// How the faults of (e) run; `None` leaves (e) out.
    pub(crate) faults: Option<FaultSchedule>,
    /// How the primary is moved in (f); `None` leaves (f) out.
    pub(crate) moves: Option<MoveSchedule>,
    /// From which arrivals and keys are drawn.
    pub(crate) seed: u64,
    /// All sessions go through the routers, also where the kernel would let them bypass the routers.
    pub(crate) relay: bool,
    /// Which session the applications' pools hand out.
    pub(crate) order: PoolOrder,
}

/// Phases over the same readers.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    /// Replicas that serve reads; the others are kept out.
    pub(crate) readers: Vec<&'static str>,
    /// What is compared, in the order of slices.
    pub(crate) phases: Vec<Phase>,
    /// How often each phase gets a slice.
    pub(crate) rounds: u32,
}

/// One way to place sessions under one demand.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Phase {
    /// Short and unique: the column in tables.
    pub(crate) id: &'static str,
    /// For headings.
    pub(crate) title: &'static str,
    /// How sessions are placed.
    pub(crate) policy: Policy,
    /// Share of requests that each zone's application takes.
    pub(crate) demand: [f64; 3],
}

/// How sessions find their reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Policy {
    /// Straight to the zone's own reader.
    OwnReader,
    /// Straight to all readers in turn.
    RoundRobin,
    /// Straight to the readers of the own zone in turn; a zone without one uses the first other reader and no
    /// further, as HAProxy does with `backup` servers.
    FirstBackup,
    /// Through the zone's own `headroom route`.
    Headroom,
}

/// How the faults of (e) run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct FaultSchedule {
    /// Undisturbed traffic before each fault.
    pub(crate) before: Duration,
    /// How long the reader stays away.
    pub(crate) away: Duration,
    /// Its traffic must be back after this long.
    pub(crate) back_within: Duration,
    /// Traffic is back when the server answers this share of what it answered before the fault.
    pub(crate) back_share: f64,
    /// Pause between two new sessions of the probe in each zone.
    pub(crate) probe_every: Duration,
}

/// How the primary is moved in (f).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct MoveSchedule {
    /// The replica that becomes the primary for a while.
    pub(crate) to: &'static str,
    /// Requests with writes, relative to the other phases.
    pub(crate) writes: f64,
    /// Traffic before each move, for comparison.
    pub(crate) calm: Duration,
    /// Traffic after each move that still counts as during it.
    pub(crate) afterwards: Duration,
}

impl Scenario {
    /// The demo of about two minutes; `rounds` is how often the slices of (a), (b), (c) alternate.
    pub(crate) fn new(rounds: u32, seed: u64) -> Self {
        let even = [1.0 / 3.0; 3];
        let uneven = [0.9, 0.1, 0.0];
        let phase = |id, title, policy, demand| Phase { id, title, policy, demand };
        let distance = Group {
            readers: vec!["a2", "b1", "c1"],
            phases: vec![
                phase("a", "one zone each", Policy::OwnReader, even),
                phase("b", "three zones, round robin", Policy::RoundRobin, even),
                phase("c", "three zones, headroom", Policy::Headroom, even),
            ],
            rounds,
        };
        let without = |phases| Group { readers: vec!["a2", "a3", "b1"], phases, rounds: rounds.div_ceil(3) };
        let no_reader = without(vec![
            phase("d1", "zone c has no reader, first backup", Policy::FirstBackup, even),
            phase("d2", "zone c has no reader, round robin", Policy::RoundRobin, even),
            phase("d3", "zone c has no reader, headroom", Policy::Headroom, even),
        ]);
        let skewed = without(vec![
            phase("d4", "demand 90/10/0, first backup", Policy::FirstBackup, uneven),
            phase("d5", "demand 90/10/0, round robin", Policy::RoundRobin, uneven),
            phase("d6", "demand 90/10/0, headroom", Policy::Headroom, uneven),
        ]);
        Self {
            groups: vec![distance, no_reader, skewed],
            slice: Duration::from_secs(4),
            settle: Duration::from_secs(2),
            rates: Rates { timeline: 2.5, orders: 2.5, profile: 5.0 },
            reader_sessions: 60,
            writer_sessions: 6,
            data: DataSize { accounts: 10_000, items: 50_000 },
            between_zones: lab::Network::default().between,
            faults: Some(FaultSchedule {
                before: Duration::from_secs(2),
                away: Duration::from_secs(3),
                back_within: Duration::from_secs(30),
                back_share: 0.8,
                probe_every: Duration::from_millis(100),
            }),
            moves: Some(MoveSchedule {
                to: "a2",
                writes: 3.0,
                calm: Duration::from_secs(2),
                afterwards: Duration::from_secs(1),
            }),
            seed,
            relay: false,
            order: PoolOrder::default(),
        }
    }

    /// Traffic through the routers before the first slice that is counted: with pools that leave most of
    /// their sessions idle, routers first find out which sessions work.
    pub(crate) fn balances_for(&self) -> Duration {
        match self.order {
            PoolOrder::OldestFirst => Duration::ZERO,
            PoolOrder::NewestFirst => Duration::from_secs(45),
        }
    }

    /// Leaves out what is in none of these parts: `c` (with a and b), `d`, `e`, `f`.
    pub(crate) fn keep_parts(&mut self, parts: &[char]) {
        let part = |group: &Group| if group.phases.iter().any(|p| p.id == "c") { 'c' } else { 'd' };
        self.groups.retain(|group| parts.contains(&part(group)));
        self.faults = self.faults.filter(|_| parts.contains(&'e'));
        self.moves = self.moves.filter(|_| parts.contains(&'f'));
    }

    /// Slices of traffic in all groups.
    pub(crate) fn slices(&self) -> u32 {
        self.groups.iter().map(|g| g.rounds * u32::try_from(g.phases.len()).unwrap_or(u32::MAX)).sum()
    }
}

impl Phase {
    /// Requests per second of the application of one zone: the total is the same in every phase.
    pub(crate) fn rates(&self, zone: usize, even: Rates) -> Rates {
        even.times(self.demand[zone] * self.demand.len() as f64)
    }
}

impl Policy {
    /// In words.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::OwnReader => "own reader, direct",
            Self::RoundRobin => "round robin over all readers, direct",
            Self::FirstBackup => {
                "own readers, else the first backup (HAProxy's rule, simulated in the pool), direct"
            }
            Self::Headroom => "headroom route in every zone",
        }
    }

    /// The readers an application of `zone` spreads its sessions over in turn; `None` where a router chooses.
    pub(crate) fn readers<'a>(self, zone: &str, readers: &[&'a str]) -> Option<Vec<&'a str>> {
        let own: Vec<&str> = readers.iter().copied().filter(|r| zone_of(r) == zone).collect();
        match self {
            Self::Headroom => None,
            Self::RoundRobin => Some(readers.to_vec()),
            Self::OwnReader | Self::FirstBackup if !own.is_empty() => Some(own),
            Self::OwnReader | Self::FirstBackup => Some(readers.first().copied().into_iter().collect()),
        }
    }
}

/// The zone of a lab server: its name without the number.
pub(crate) fn zone_of(server: &str) -> &str {
    server.trim_end_matches(|c: char| c.is_ascii_digit())
}

/// Names of all servers, in the lab's order, which is also that of their `@@server_id` from 1.
#[cfg(test)]
pub(crate) fn servers() -> Vec<String> {
    ZONES.iter().flat_map(|(zone, count)| (1..=*count).map(move |n| format!("{zone}{n}"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zone_without_a_reader_uses_the_first_backup_and_no_other() {
        let readers = ["a2", "a3", "b1"];
        assert_eq!(Policy::FirstBackup.readers("a", &readers), Some(vec!["a2", "a3"]));
        assert_eq!(Policy::FirstBackup.readers("b", &readers), Some(vec!["b1"]));
        assert_eq!(Policy::FirstBackup.readers("c", &readers), Some(vec!["a2"]));
        assert_eq!(Policy::RoundRobin.readers("c", &readers), Some(readers.to_vec()));
        assert_eq!(Policy::Headroom.readers("c", &readers), None);
    }

    #[test]
    fn every_phase_sends_the_same_number_of_requests() {
        let scenario = Scenario::new(3, 1);
        for phase in scenario.groups.iter().flat_map(|g| &g.phases) {
            let total: f64 = (0..3).map(|zone| phase.rates(zone, scenario.rates).timeline).sum();
            assert!((total - 3.0 * scenario.rates.timeline).abs() < 1e-9, "{}", phase.id);
        }
    }

    #[test]
    fn sessions_divide_evenly_over_the_readers_of_every_phase() {
        let scenario = Scenario::new(3, 1);
        for group in &scenario.groups {
            for phase in &group.phases {
                for (zone, _) in ZONES {
                    let readers = phase.policy.readers(zone, &group.readers).map_or(1, |r| r.len());
                    assert_eq!(scenario.reader_sessions % readers, 0, "{} in zone {zone}", phase.id);
                }
            }
        }
    }
}
