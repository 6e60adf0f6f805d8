//! Twenty routers act at once on the same delayed, noisy measurements: load must become even, and stay.
//!
//! A simulation in virtual time: nothing sleeps, nothing is random beyond the seed. Every router uses the real view, pick and
//! placement; the world around them (sessions, their rates, what servers report and when) is simulated. Routers see
//! snapshots half a second old, each at its own moment, with demand smoothed over five seconds as `observe` does it, and 1 %
//! noise left.
//! Clients churn (a session lives two minutes on average) or do not, and a session that was placed anew returns after half a second to two
//! seconds, as from a pool. Figures are printed: `cargo test -p router --test convergence -- --nocapture`.

#![allow(clippy::print_stdout, reason = "the figures are what a reader wants to see")]

use fleet::config::RouterConfig;
use fleet::{
    Address, Demand, DemandSource, Lag, LagSource, ListenerRole, Replication, Role, Server, ServerName,
    Snapshot, State, WriterStatus, Zone, ZoneShare, Zoned, ZonedBy,
};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use router::pick::{Ask, pick};
use router::placement::{Held, PACED_AFTER, TRIM_AFTER, Urgency, decide};
use router::view::{OwnState, View};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Ticks of the simulation a second.
const PER_SECOND: u64 = 10;
/// A router hears a snapshot every so many ticks, this many ticks after it was measured.
const INTERVAL: u64 = 5;
const DELAY: u64 = 5;
/// Mean life of a session, when clients churn.
const LIFE_SECONDS: f64 = 120.0;
/// Time constant of the smoothing of demand.
const SMOOTHING_SECONDS: f64 = 5.0;

struct Session {
    server: usize,
    rate: f64,
}

struct Router {
    zone: Zone,
    phase: f64,
    /// Offset of its snapshots.
    offset: u64,
    sessions: Vec<Session>,
    /// Sessions that return at a tick, with their rate.
    returning: Vec<(u64, f64)>,
    view: Option<View>,
    tokens: f64,
    recent: VecDeque<(u64, u32)>,
    /// Since when sessions should leave each server.
    since: BTreeMap<usize, u64>,
}

struct World {
    now: u64,
    start: Instant,
    /// Zone of each server, and whether it lives, and since which tick it is back.
    servers: Vec<(Zone, bool, Option<u64>)>,
    routers: Vec<Router>,
    /// What every zone asks for, relative to the start.
    appetite: BTreeMap<Zone, f64>,
    /// Snapshots of the last ticks.
    past: VecDeque<Snapshot>,
    smoothed: BTreeMap<Zone, f64>,
    churn: bool,
    rng: StdRng,
    moves: u64,
    log: Vec<Moment>,
}

/// What the servers carry at one tick.
struct Moment {
    tick: u64,
    loads: Vec<f64>,
    crossing: f64,
    moves: u64,
}

impl World {
    /// `zones` says how many routers stand in each zone and which share of all reads is born there.
    fn new(servers: &[&str], zones: &[(&str, usize, f64)], pool: usize, seed: u64) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut world = Self {
            now: 0,
            start: Instant::now(),
            servers: servers.iter().map(|z| (Zone::new(z), true, None)).collect(),
            routers: Vec::new(),
            appetite: zones.iter().map(|z| (Zone::new(z.0), 1.0)).collect(),
            past: VecDeque::new(),
            smoothed: BTreeMap::new(),
            churn: true,
            moves: 0,
            log: Vec::new(),
            rng: StdRng::seed_from_u64(seed + 1),
        };
        for (zone, routers, share) in zones {
            for _ in 0..*routers {
                // Sessions are of unequal weight, within a fifth.
                let each = share / (*routers * pool) as f64 * 10_000.0;
                let returning = (0..pool).map(|_| (1, each * rng.random_range(0.8..1.2))).collect();
                world.routers.push(Router {
                    zone: Zone::new(zone),
                    phase: rng.random_range(0.0..1.0),
                    offset: rng.random_range(0..INTERVAL),
                    sessions: Vec::new(),
                    returning,
                    view: None,
                    tokens: 0.0,
                    recent: VecDeque::new(),
                    since: BTreeMap::new(),
                });
            }
        }
        world
    }

    fn run(&mut self, seconds: u64) {
        for _ in 0..seconds * PER_SECOND {
            self.now += 1;
            let snapshot = self.measure();
            self.past.push_back(snapshot);
            if self.past.len() as u64 > DELAY + 1 {
                self.past.pop_front();
            }
            let at = self.start + Duration::from_millis(self.now * 1000 / PER_SECOND);
            for router in &mut self.routers {
                if router.view.is_none() || (self.now + router.offset).is_multiple_of(INTERVAL) {
                    router.hear(&self.past[0], at);
                }
                self.moves += router.act(self.now, self.churn, &mut self.rng);
            }
            self.note();
        }
    }

    /// What `observe` would publish now.
    fn measure(&mut self) -> Snapshot {
        let mut by_zone: BTreeMap<Zone, f64> = BTreeMap::new();
        for router in &self.routers {
            let rate: f64 = router.sessions.iter().map(|s| s.rate).sum();
            *by_zone.entry(router.zone.clone()).or_default() += rate * self.appetite[&router.zone];
        }
        let weight = 1.0 - (-1.0 / (PER_SECOND as f64 * SMOOTHING_SECONDS)).exp();
        for (zone, rate) in &mut by_zone {
            let smoothed = self.smoothed.entry(zone.clone()).or_insert(*rate);
            *smoothed += weight * (*rate - *smoothed);
            *rate = *smoothed * self.rng.random_range(0.99..1.01);
        }
        let all: f64 = by_zone.values().sum();
        let zones = by_zone.into_iter().map(|(zone, rate)| ZoneShare { zone, share: rate / all.max(1e-9) });
        let demand = Demand {
            zones: if all > 0.0 { zones.collect() } else { Vec::new() },
            source: DemandSource::StatementCounters,
            reads_per_second: all,
            unplaced: 0.0,
            idle: false,
        };
        let back = |tick: u64| self.start + Duration::from_millis(tick * 1000 / PER_SECOND);
        let loads = self.loads();
        let servers = self.servers.iter().enumerate().map(|(i, (zone, alive, since))| {
            let mut server = Server::unasked(ServerName::new(&format!("r{i}")), Address::tcp("127.0.0.1", 1));
            server.role = Role::Replica;
            server.replication = Replication::Running;
            server.zone = Some(Zoned { zone: zone.clone(), by: ZonedBy::Rule });
            let zero = Duration::ZERO;
            server.lag = Some(Lag { at_least: zero, uncertainty: zero, source: LagSource::GtidSamples });
            server.load.running = (loads[i] / 500.0) as u32;
            server.back_since = since.map(back);
            server.state = match alive {
                true => State::Answering,
                false => State::Failing { why: "connection refused".to_owned() },
            };
            server
        });
        Snapshot {
            round: self.now,
            settled: true,
            servers: servers.collect(),
            writer: WriterStatus::Unknown { why: "not simulated".to_owned() },
            demand,
            ..Snapshot::empty(back(self.now))
        }
    }

    fn loads(&self) -> Vec<f64> {
        let mut loads = vec![0.0; self.servers.len()];
        for router in &self.routers {
            router.sessions.iter().for_each(|s| loads[s.server] += s.rate * self.appetite[&router.zone]);
        }
        loads
    }

    fn note(&mut self) {
        let (mut all, mut crossing) = (0.0, 0.0);
        for router in &self.routers {
            for session in &router.sessions {
                let rate = session.rate * self.appetite[&router.zone];
                all += rate;
                crossing += if self.servers[session.server].0 == router.zone { 0.0 } else { rate };
            }
        }
        let (loads, crossing) = (self.loads(), crossing / f64::max(all, 1e-9));
        self.log.push(Moment { tick: self.now, loads, crossing, moves: self.moves });
    }

    fn kill(&mut self, server: usize) {
        (self.servers[server].1, self.servers[server].2) = (false, None);
        for router in &mut self.routers {
            // Relays end, pools notice and open new sessions at once.
            let (lost, kept) = router.sessions.drain(..).partition(|s| s.server == server);
            router.sessions = kept;
            router.returning.extend(lost.into_iter().map(|s: Session| (self.now + 1, s.rate)));
        }
    }

    fn revive(&mut self, server: usize) {
        (self.servers[server].1, self.servers[server].2) = (true, Some(self.now));
    }

    /// The least share of reads that any exact balance must send across zones.
    fn least_crossing(&self) -> f64 {
        let mut demand: BTreeMap<Zone, f64> = BTreeMap::new();
        for router in &self.routers {
            let rate: f64 = router.sessions.iter().map(|s| s.rate).sum();
            *demand.entry(router.zone.clone()).or_default() += rate * self.appetite[&router.zone];
        }
        let all: f64 = demand.values().sum();
        let alive = self.servers.iter().filter(|s| s.1).count() as f64;
        let capacity =
            |zone: &Zone| self.servers.iter().filter(|s| s.1 && s.0 == *zone).count() as f64 / alive;
        demand.iter().map(|(zone, rate)| (rate / all - capacity(zone)).max(0.0)).sum()
    }

    /// Load of the busiest live server relative to the mean, averaged over each ten seconds of the last `seconds`, worst of
    /// these; the mean share that crossed zones; moves a minute and the widest swing of any server's load share.
    fn figures(&self, seconds: u64) -> Figures {
        let from = self.now - seconds * PER_SECOND;
        let window: Vec<&Moment> = self.log.iter().filter(|m| m.tick > from).collect();
        let alive: Vec<usize> = (0..self.servers.len()).filter(|i| self.servers[*i].1).collect();
        let mut worst: f64 = 0.0;
        let mut shares: Vec<Vec<f64>> = Vec::new();
        for ten in window.chunks((10 * PER_SECOND) as usize) {
            let sums: Vec<f64> = alive.iter().map(|i| ten.iter().map(|m| m.loads[*i]).sum()).collect();
            let mean = sums.iter().sum::<f64>() / alive.len() as f64;
            worst = worst.max(sums.iter().fold(0.0, |a: f64, b| a.max(*b)) / mean);
            shares.push(sums.iter().map(|s| s / mean).collect());
        }
        let swing = (0..alive.len())
            .map(|i| {
                let of = shares.iter().map(|s| s[i]);
                of.clone().fold(0.0, f64::max) - of.fold(f64::MAX, f64::min)
            })
            .fold(0.0, f64::max);
        let crossing = window.iter().map(|m| m.crossing).sum::<f64>() / window.len() as f64;
        let moves = window[window.len() - 1].moves - window[0].moves;
        let moves_per_minute = moves as f64 * 60.0 / seconds as f64;
        Figures { busiest: worst, crossing, least: self.least_crossing(), moves_per_minute, swing }
    }
}

#[derive(Debug)]
struct Figures {
    busiest: f64,
    crossing: f64,
    least: f64,
    moves_per_minute: f64,
    swing: f64,
}

impl Router {
    fn hear(&mut self, snapshot: &Snapshot, now: Instant) {
        let own = Zoned { zone: self.zone.clone(), by: ZonedBy::Rule };
        let snapshot = Arc::new(Snapshot { own_zone: Some(own), ..snapshot.clone() });
        self.view = Some(View::new(snapshot, Arc::default(), &OwnState::default(), now));
    }

    /// One tick: clients leave and come, sessions are placed anew. Returns how many were.
    fn act(&mut self, now: u64, churn: bool, rng: &mut StdRng) -> u64 {
        let view = self.view.as_ref().expect("heard once");
        let leave = 1.0 / (LIFE_SECONDS * PER_SECOND as f64);
        let mut came: Vec<f64> = Vec::new();
        self.sessions.retain(|s| {
            let stays = !churn || !rng.random_bool(leave);
            if !stays {
                came.push(s.rate);
            }
            stays
        });
        came.extend(self.returning.iter().filter(|(at, _)| *at <= now).map(|(_, rate)| *rate));
        self.returning.retain(|(at, _)| *at > now);
        for rate in came {
            let have = held(&self.sessions, view.candidates.len());
            let role = ListenerRole::Reader;
            let ask = Ask { role, from: Some(&self.zone), have: &have, tried: &[], phase: self.phase };
            match pick(view, &ask, rng) {
                Ok(picked) => self.sessions.push(Session { server: picked.server, rate }),
                Err(_) => self.returning.push((now + 1, rate)),
            }
        }
        self.place(now, rng)
    }

    /// The steward's loop with its pace; a session is idle at a look in one case of three.
    fn place(&mut self, now: u64, rng: &mut StdRng) -> u64 {
        let view = self.view.as_ref().expect("heard once");
        let config = RouterConfig::default();
        let readers = self.sessions.len() as u32;
        self.recent.push_back((now, readers));
        self.recent.retain(|(at, _)| at + 3 * PER_SECOND >= now);
        let remembered = self.recent.iter().map(|r| r.1).max().unwrap_or(readers);
        let pace = (config.replace.pace_per_second * f64::from(readers)).max(1.0);
        self.tokens = (self.tokens + pace / PER_SECOND as f64).min((pace / 2.0).max(1.0));
        let held: Vec<Held> = held(&self.sessions, view.candidates.len())
            .into_iter()
            .map(|readers| Held { readers, writers: 0 })
            .collect();
        let mut moved = 0;
        let leaves = decide(view, &held, remembered, self.phase);
        self.since.retain(|server, _| leaves.iter().any(|l| l.server == *server));
        for leave in leaves {
            let since = *self.since.entry(leave.server).or_insert(now);
            let waited = Duration::from_millis((now - since) * 1000 / PER_SECOND);
            let settled = match leave.urgency {
                Urgency::Trim => TRIM_AFTER,
                _ => PACED_AFTER,
            };
            if waited < settled {
                continue;
            }
            for _ in 0..leave.sessions {
                if self.tokens < 1.0 || !rng.random_bool(1.0 / 3.0) {
                    break;
                }
                let on: Vec<usize> =
                    (0..self.sessions.len()).filter(|s| self.sessions[*s].server == leave.server).collect();
                let session = self.sessions.swap_remove(on[rng.random_range(0..on.len())]);
                self.returning.push((now + rng.random_range(5..20), session.rate));
                (self.tokens, moved) = (self.tokens - 1.0, moved + 1);
            }
        }
        moved
    }
}

fn held(sessions: &[Session], servers: usize) -> Vec<u32> {
    let mut have = vec![0; servers];
    sessions.iter().for_each(|s| have[s.server] += 1);
    have
}

/// Runs a case with several seeds, prints what came out, and holds each against the limits.
fn check(name: &str, busiest: f64, case: impl Fn(u64) -> World) {
    let mut beyond_least = 0.0;
    for seed in 1..=5 {
        let world = case(seed);
        let f = world.figures(60);
        println!(
            "{name:<34} seed {seed}: busiest {:.3} x mean, crossing {:.1} % (least {:.1} %), {:.1} moves/min of {} sessions, swing {:.3}",
            f.busiest,
            f.crossing * 100.0,
            f.least * 100.0,
            f.moves_per_minute,
            world.routers.iter().map(|r| r.sessions.len()).sum::<usize>(),
            f.swing
        );
        assert!(f.busiest <= busiest, "{name}: {f:?}");
        // One percentage point on the average of the seeds; whole sessions allow a single one a little more.
        assert!(f.crossing <= f.least + 0.015, "{name}: {f:?}");
        beyond_least += (f.crossing - f.least) / 5.0;
        assert!(f.swing <= 0.05, "{name}: {f:?}");
        // Churn alone replaces 160 sessions a minute; placement adds next to nothing to that.
        assert!(f.moves_per_minute <= 16.0, "{name}: {f:?}");
    }
    assert!(beyond_least <= 0.01, "{name}: crosses {beyond_least} more than the least");
}

const THIRDS: [(&str, usize, f64); 3] = [("a", 7, 0.34), ("b", 7, 0.33), ("c", 6, 0.33)];

#[test]
fn even_demand_with_a_reader_in_each_zone_stays_at_home() {
    check("34/33/33, readers a b c", 1.05, |seed| {
        let mut world = World::new(&["a", "b", "c"], &THIRDS, 16, seed);
        world.run(120);
        world
    });
}

#[test]
fn a_zone_without_a_reader_loads_nobody_more_than_others() {
    check("34/33/33, readers a b", 1.05, |seed| {
        let mut world = World::new(&["a", "b"], &THIRDS, 16, seed);
        world.run(120);
        world
    });
    check("34/33/33, readers a a b", 1.05, |seed| {
        let mut world = World::new(&["a", "a", "b"], &THIRDS, 16, seed);
        world.run(120);
        world
    });
}

#[test]
fn ninety_ten_nothing_is_carried_evenly() {
    check("90/10/0, readers a b c", 1.10, |seed| {
        let mut world = World::new(&["a", "b", "c"], &[("a", 18, 0.9), ("b", 2, 0.1)], 16, seed);
        world.run(120);
        world
    });
}

#[test]
fn pools_that_never_let_go_end_up_even_too() {
    check("90/10/0, no churn", 1.10, |seed| {
        let mut world = World::new(&["a", "b", "c"], &[("a", 18, 0.9), ("b", 2, 0.1)], 8, seed);
        world.churn = false;
        world.run(120);
        world
    });
    check("34/33/33, readers a a b, no churn", 1.05, |seed| {
        let mut world = World::new(&["a", "a", "b"], &THIRDS, 8, seed);
        world.churn = false;
        world.run(120);
        world
    });
}

#[test]
fn demand_that_moves_is_followed() {
    check("34/33/33, then a four times as much", 1.06, |seed| {
        let mut world = World::new(&["a", "b", "c"], &THIRDS, 16, seed);
        world.run(60);
        *world.appetite.get_mut(&Zone::new("a")).expect("a zone") = 4.0;
        world.run(120);
        world
    });
}

#[test]
fn a_reader_that_dies_and_returns_carries_its_share_within_half_a_minute() {
    check("34/33/33, reader c dies and returns", 1.05, |seed| {
        let mut world = World::new(&["a", "b", "c"], &THIRDS, 16, seed);
        world.run(60);
        world.kill(2);
        world.run(30);
        world.revive(2);
        world.run(30);
        let last = world.log.last().expect("it ran");
        let mean = last.loads.iter().sum::<f64>() / 3.0;
        println!("  30 s after its return reader c carries {:.3} x the mean", last.loads[2] / mean);
        assert!(last.loads[2] / mean > 0.9);
        world.run(60);
        world
    });
}

#[test]
fn one_session_a_router_still_spreads() {
    // A hundred routers with one session each: only unbiased rounding makes this come out.
    for seed in 1..=5 {
        let mut world = World::new(&["a", "b", "c"], &[("a", 90, 0.9), ("b", 10, 0.1)], 1, seed);
        world.run(120);
        let f = world.figures(60);
        println!("100 routers, one session each, 90/10/0 seed {seed}: busiest {:.3} x mean", f.busiest);
        assert!(f.busiest <= 1.35, "{f:?}");
    }
}
