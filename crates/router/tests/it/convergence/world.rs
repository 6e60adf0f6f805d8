//! The world around the routers: servers, what is asked for, and what is reported, late and noisy.

use super::PER_SECOND;
use super::buffer_pool::BufferPool;
use super::member::{Client, Router, Session, Taken};
use config::FleetConfig;
use fleet::heat::PoolCounters;
use fleet::{
    Address, Asking, Demand, DemandSource, KnownZone, Lag, LagSource, Replication, Role, Server, ServerName,
    Snapshot, State, WriterStatus, Zone, ZoneShare, ZoneSource,
};
use observe::Rhythm;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

/// A router hears a snapshot every this many ticks, this many ticks after it was measured.
const INTERVAL: u64 = 5;
const DELAY: u64 = 5;
/// Time constant of the smoothing of demand.
const SMOOTHING_SECONDS: f64 = 5.0;

/// What is known of a server's counters where many routers ask: a sample now and then.
struct Sampled {
    /// The tick of its last sample.
    at: u64,
    /// Reads of each zone since then, in ticks of a rate.
    since: BTreeMap<Zone, f64>,
    /// Reads a second of each zone, between the last two samples.
    rates: BTreeMap<Zone, f64>,
    pool: Option<PoolCounters>,
}

pub(super) struct World {
    now: u64,
    start: Instant,
    /// Zone of each server, and whether it lives, and since which tick it is back.
    servers: Vec<(Zone, bool, Option<u64>)>,
    pub(super) routers: Vec<Router>,
    /// What every zone asks for, relative to the start.
    pub(super) appetite: BTreeMap<Zone, f64>,
    /// Snapshots of the last ticks.
    past: VecDeque<Snapshot>,
    smoothed: BTreeMap<Zone, f64>,
    /// Ticks between two snapshots that a router hears.
    interval: u64,
    /// Ticks between two samples of a server's counters, and what they said; none: they are always fresh.
    sampled: Option<(Rhythm, Vec<Sampled>)>,
    pub(super) churn: bool,
    /// How fast each server is now, 1 being usual.
    pub(super) speeds: Vec<f64>,
    /// The part of what it can carry that each server is allowed; it is as fast as others until it waits.
    pub(super) quotas: Vec<f64>,
    /// Statements a second that a server of the usual speed can carry; `None` leaves times out.
    pub(super) full: Option<f64>,
    /// Statements that wait on each server.
    waiting: Vec<f64>,
    /// Of each server; none where memory is not simulated.
    pub(super) pools: Vec<BufferPool>,
    rng: StdRng,
    moves: u64,
    pub(super) log: Vec<Moment>,
}

/// What the servers carry at one tick.
pub(super) struct Moment {
    tick: u64,
    pub(super) loads: Vec<f64>,
    crossing: f64,
    moves: u64,
}

impl World {
    /// `zones` says how many routers stand in each zone and which share of all reads is born there.
    pub(super) fn new(servers: &[&str], zones: &[(&str, usize, f64)], pool: usize, seed: u64) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut world = Self {
            now: 0,
            start: Instant::now(),
            servers: servers.iter().map(|z| (Zone::new(z), true, None)).collect(),
            routers: Vec::new(),
            appetite: zones.iter().map(|z| (Zone::new(z.0), 1.0)).collect(),
            past: VecDeque::new(),
            smoothed: BTreeMap::new(),
            interval: INTERVAL,
            sampled: None,
            churn: true,
            speeds: vec![1.0; servers.len()],
            quotas: vec![1.0; servers.len()],
            full: None,
            waiting: vec![0.0; servers.len()],
            pools: Vec::new(),
            moves: 0,
            log: Vec::new(),
            rng: StdRng::seed_from_u64(seed + 1),
        };
        for (zone, routers, share) in zones {
            for _ in 0..*routers {
                // Sessions are of unequal weight, within a fifth.
                let each = share / (*routers * pool) as f64 * 10_000.0;
                let returning = (0..pool)
                    .map(|_| (1, Client { rate: each * rng.random_range(0.8..1.2), dear: false }))
                    .collect();
                let (phase, offset) = (rng.random_range(0.0..1.0), rng.random_range(0..INTERVAL));
                world.routers.push(Router::new(Zone::new(zone), phase, offset, returning));
            }
        }
        world
    }

    /// Servers are asked as seldom as `routers` leave for each of them.
    pub(super) fn ask_seldom(&mut self, routers: u32) {
        let rhythm = Rhythm::of(&FleetConfig::default(), routers);
        self.interval = ticks(rhythm.visits).max(INTERVAL);
        for (at, router) in self.routers.iter_mut().enumerate() {
            router.offset = at as u64 % self.interval;
        }
        let sampled = |_: &_| Sampled { at: 0, since: BTreeMap::new(), rates: BTreeMap::new(), pool: None };
        self.sampled = Some((rhythm, self.servers.iter().map(sampled).collect()));
    }

    /// Counts the reads of this tick, and takes the samples that are due: each server has its turn.
    fn sample(&mut self) {
        let Some((rhythm, sampled)) = &mut self.sampled else { return };
        for router in &self.routers {
            let appetite = self.appetite[&router.zone];
            for session in &router.sessions {
                let since = &mut sampled[session.server].since;
                *since.entry(router.zone.clone()).or_default() += session.client.rate * appetite;
            }
        }
        let (spacing, servers) = (ticks(rhythm.counters), sampled.len() as u64);
        for (at, sampled) in sampled.iter_mut().enumerate().filter(|(at, _)| self.servers[*at].1) {
            // The first of all at once, as a router that starts does it.
            let first = sampled.rates.is_empty() && !sampled.since.is_empty();
            if first || (self.now + spacing * at as u64 / servers).is_multiple_of(spacing) {
                let passed = (self.now - sampled.at).max(1) as f64;
                let rates = std::mem::take(&mut sampled.since).into_iter();
                sampled.rates = rates.map(|(zone, sum)| (zone, sum / passed)).collect();
                sampled.at = self.now;
                let now = self.start + Duration::from_millis(self.now * 1000 / PER_SECOND);
                sampled.pool = self.pools.get(at).map(|pool| pool.counters(now));
            }
        }
    }

    pub(super) fn run(&mut self, seconds: u64) {
        for _ in 0..seconds * PER_SECOND {
            self.now += 1;
            self.sample();
            let snapshot = self.measure();
            self.past.push_back(snapshot);
            if self.past.len() as u64 > DELAY + 1 {
                self.past.pop_front();
            }
            let at = self.start + Duration::from_millis(self.now * 1000 / PER_SECOND);
            for router in &mut self.routers {
                if router.view.is_none() || (self.now + router.offset).is_multiple_of(self.interval) {
                    router.hear(&self.past[0], at);
                }
                self.moves += router.act(self.now, self.churn, &mut self.rng);
            }
            self.wait_in_line();
            let loads = self.loads();
            for (pool, load) in self.pools.iter_mut().zip(loads) {
                pool.serve(load, 1.0 / PER_SECOND as f64);
            }
            if self.now.is_multiple_of(PER_SECOND) && self.full.is_some() {
                let (typical, average) = (self.typical_ms(), self.times_ms());
                for router in &mut self.routers {
                    let times = Taken { typical_ms: &typical, average_ms: &average };
                    router.compare(self.appetite[&router.zone], times, at, &mut self.rng);
                    router.look_again(at);
                }
            }
            self.note();
        }
    }

    /// What a server cannot do in a tick waits; at most two seconds' worth, as clients wait for answers.
    fn wait_in_line(&mut self) {
        let Some(full) = self.full else { return };
        for (at, load) in self.loads().into_iter().enumerate() {
            let able = full * self.speeds[at].min(self.quotas[at]);
            let more = (load - able) / PER_SECOND as f64;
            self.waiting[at] = (self.waiting[at] + more).clamp(0.0, 2.0 * able);
        }
    }

    /// What a statement takes on each server on average, ms: 1 ms of work, in a queue of its kind.
    fn times_ms(&self) -> Vec<f64> {
        self.times_of(self.loads())
    }

    /// What it takes typically: for a quota that is nearly used up a few wait for long, and most do not.
    fn typical_ms(&self) -> Vec<f64> {
        let quota =
            |at: usize, load: f64| if self.quotas[at] < 1.0 { quota_ms(self.used(at, load)) } else { 0.0 };
        let loads = self.loads();
        let times = self.times_of(loads.clone()).into_iter().zip(loads).enumerate();
        times.map(|(at, (average, load))| average - 0.8 * quota(at, load)).collect()
    }

    /// The part of its quota that a server uses at this load.
    fn used(&self, at: usize, load: f64) -> f64 {
        load / (self.full.unwrap_or(f64::INFINITY) * self.speeds[at].min(self.quotas[at]))
    }

    fn times_of(&self, loads: Vec<f64>) -> Vec<f64> {
        let full = self.full.unwrap_or(f64::INFINITY);
        let time = |(at, load): (usize, f64)| {
            let able = full * self.speeds[at];
            let disk = self.pools.get(at).map_or(0.0, |pool| pool.wait_ms(load));
            let allowed = full * self.speeds[at].min(self.quotas[at]);
            let quota = if self.quotas[at] < 1.0 { quota_ms(self.used(at, load)) } else { 0.0 };
            let line = 1000.0 * self.waiting[at] / allowed;
            1.0 / self.speeds[at] / (1.0 - (load / able).min(0.95)) + line + quota + disk
        };
        loads.into_iter().enumerate().map(time).collect()
    }

    /// The tier's p99 if each server carried what its speed and quota are worth.
    pub(super) fn p99_by_hand(&self) -> f64 {
        let worth: Vec<f64> = self.speeds.iter().zip(&self.quotas).map(|(s, q)| s.min(*q)).collect();
        let (all, sum): (f64, f64) = (self.loads().iter().sum(), worth.iter().sum());
        let loads: Vec<f64> = worth.iter().map(|worth| all * worth / sum).collect();
        p99_ms(&loads.clone().into_iter().zip(self.times_of(loads)).collect::<Vec<_>>())
    }

    /// What each server carries now, and what a statement takes there on average, ms.
    pub(super) fn answers(&self) -> Vec<(f64, f64)> {
        self.loads().into_iter().zip(self.times_ms()).collect()
    }

    /// The share of all load that a server carries.
    pub(super) fn share(&self, server: usize) -> f64 {
        let loads = self.loads();
        loads[server] / loads.iter().sum::<f64>()
    }

    /// What `observe` would publish now.
    fn measure(&mut self) -> Snapshot {
        let mut by_zone: BTreeMap<Zone, f64> = BTreeMap::new();
        for router in &self.routers {
            let rate: f64 = router.sessions.iter().map(|s| s.client.rate).sum();
            *by_zone.entry(router.zone.clone()).or_default() += rate * self.appetite[&router.zone];
        }
        if let Some((_, sampled)) = &self.sampled
            && sampled.iter().any(|sampled| !sampled.rates.is_empty())
        {
            by_zone.clear();
            for (zone, rate) in sampled.iter().flat_map(|sampled| &sampled.rates) {
                *by_zone.entry(zone.clone()).or_default() += rate;
            }
        }
        let weight = 1.0 - (-1.0 / (PER_SECOND as f64 * SMOOTHING_SECONDS)).exp();
        for (zone, rate) in &mut by_zone {
            let smoothed = self.smoothed.entry(zone.clone()).or_insert(*rate);
            let weight = if self.sampled.is_some() { 1.0 } else { weight };
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
            server.zone = Some(KnownZone { zone: zone.clone(), by: ZoneSource::Rule });
            let zero = Duration::ZERO;
            server.lag = Some(Lag { at_least: zero, uncertainty: zero, source: LagSource::GtidSamples });
            server.load.running = (loads[i] / 500.0) as u32;
            server.pool = match &self.sampled {
                Some((_, sampled)) => sampled[i].pool,
                None => self.pools.get(i).map(|pool| pool.counters(back(self.now))),
            };
            server.asking = self.sampled.as_ref().map(|(rhythm, _)| Asking {
                interval: rhythm.visits,
                counters: Some(rhythm.counters),
                routers: None,
                because: None,
            });
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
            router
                .sessions
                .iter()
                .for_each(|s| loads[s.server] += s.client.work() * self.appetite[&router.zone]);
        }
        loads
    }

    fn note(&mut self) {
        let (mut all, mut crossing) = (0.0, 0.0);
        for router in &self.routers {
            for session in &router.sessions {
                let rate = session.client.rate * self.appetite[&router.zone];
                all += rate;
                crossing += if self.servers[session.server].0 == router.zone { 0.0 } else { rate };
            }
        }
        let (loads, crossing) = (self.loads(), crossing / f64::max(all, 1e-9));
        self.log.push(Moment { tick: self.now, loads, crossing, moves: self.moves });
    }

    pub(super) fn kill(&mut self, server: usize) {
        (self.servers[server].1, self.servers[server].2) = (false, None);
        for router in &mut self.routers {
            // Relays end, pools notice and open new sessions at once.
            let (lost, kept) = router.sessions.drain(..).partition(|s| s.server == server);
            router.sessions = kept;
            router.returning.extend(lost.into_iter().map(|s: Session| (self.now + 1, s.client)));
        }
    }

    /// Back, with nothing in its memory.
    pub(super) fn revive(&mut self, server: usize) {
        if let Some(pool) = self.pools.get_mut(server) {
            pool.restart();
        }
        (self.servers[server].1, self.servers[server].2) = (true, Some(self.now));
    }

    /// The least share of reads that any exact balance must send across zones.
    fn least_crossing(&self) -> f64 {
        let mut demand: BTreeMap<Zone, f64> = BTreeMap::new();
        for router in &self.routers {
            let rate: f64 = router.sessions.iter().map(|s| s.client.rate).sum();
            *demand.entry(router.zone.clone()).or_default() += rate * self.appetite[&router.zone];
        }
        let all: f64 = demand.values().sum();
        let alive = self.servers.iter().filter(|s| s.1).count() as f64;
        let capacity =
            |zone: &Zone| self.servers.iter().filter(|s| s.1 && s.0 == *zone).count() as f64 / alive;
        demand.iter().map(|(zone, rate)| (rate / all - capacity(zone)).max(0.0)).sum()
    }

    /// Load of the busiest live server relative to the mean, averaged over each ten seconds of the last
    /// `seconds`, worst of these; the mean share that crossed zones; moves a minute and the widest swing of
    /// any server's load share.
    pub(super) fn figures(&self, seconds: u64) -> Figures {
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

/// What statements wait, ms, on a server that uses this part of its quota: hardly anything until late.
fn quota_ms(used: f64) -> f64 {
    20.0 * used.min(0.97).powi(12) / (1.0 - used.min(0.97))
}

fn ticks(time: Duration) -> u64 {
    (time.as_secs_f64() * PER_SECOND as f64).round() as u64
}

/// The time in ms within which all but a hundredth of these are answered, where the times behind each average
/// are exponential.
pub(super) fn p99_ms(answers: &[(f64, f64)]) -> f64 {
    let all: f64 = answers.iter().map(|(load, _)| load).sum();
    let beyond = |ms: f64| answers.iter().map(|(load, time)| load / all * (-ms / time).exp()).sum::<f64>();
    let (mut low, mut high) = (0.0, 1e6);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if beyond(middle) > 0.01 { low = middle } else { high = middle }
    }
    high
}

/// What a run came to.
#[derive(Debug)]
pub(super) struct Figures {
    pub(super) busiest: f64,
    pub(super) crossing: f64,
    pub(super) least: f64,
    pub(super) moves_per_minute: f64,
    pub(super) swing: f64,
}
