//! One of the routers: the real view, pick and placement, and simulated sessions.

use super::PER_SECOND;
use config::RouterConfig;
use fleet::{KnownZone, ListenerRole, Snapshot, Zone, ZoneSource};
use rand::Rng;
use rand::rngs::StdRng;
use router::pick::{PickRequest, pick};
use router::placement::{Held, PACED_AFTER, TRIM_AFTER, Urgency, decide};
use router::speed::{Peer, Speeds, Times};
use router::view::{OwnState, View};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Mean life of a session, when clients churn.
const LIFE_SECONDS: f64 = 120.0;

pub(super) struct Session {
    pub(super) server: usize,
    pub(super) rate: f64,
}

pub(super) struct Router {
    pub(super) zone: Zone,
    phase: f64,
    /// Offset of its snapshots.
    pub(super) offset: u64,
    pub(super) sessions: Vec<Session>,
    /// Sessions that return at a tick, with their rate.
    pub(super) returning: Vec<(u64, f64)>,
    pub(super) view: Option<View>,
    pub(super) speeds: Speeds,
    tokens: f64,
    recent: VecDeque<(u64, u32)>,
    /// Since when sessions should leave each server.
    since: BTreeMap<usize, u64>,
}

impl Router {
    /// Without sessions; those in `returning` come at their tick.
    pub(super) fn new(zone: Zone, phase: f64, offset: u64, returning: Vec<(u64, f64)>) -> Self {
        Self {
            zone,
            phase,
            offset,
            sessions: Vec::new(),
            returning,
            view: None,
            speeds: Speeds::default(),
            tokens: 0.0,
            recent: VecDeque::new(),
            since: BTreeMap::new(),
        }
    }

    pub(super) fn hear(&mut self, snapshot: &Snapshot, now: Instant) {
        let own = KnownZone { zone: self.zone.clone(), by: ZoneSource::Rule };
        let snapshot = Arc::new(Snapshot { own_zone: Some(own), ..snapshot.clone() });
        let speeds = snapshot.servers.iter().map(|s| (s.name.clone(), self.speeds.of(&s.name))).collect();
        let own = OwnState { speeds, ..OwnState::default() };
        self.view = Some(View::new(snapshot, Arc::default(), &own, now));
    }

    /// One second's statements of its sessions, which took these times on average, ms.
    pub(super) fn compare(&mut self, appetite: f64, times_ms: &[f64], now: Instant, rng: &mut StdRng) {
        let view = self.view.as_ref().expect("heard once");
        let mut count = vec![0.0; times_ms.len()];
        self.sessions.iter().for_each(|s| count[s.server] += s.rate * appetite);
        let times = |(at, ms): (usize, &f64)| {
            // The mean of that number of exponential times, roughly.
            let noise = 1.0 + rng.random_range(-1.7..1.7) / count[at].max(1.0).sqrt();
            let log_sum = count[at] * (ms * noise.max(0.1) * 1e6).ln();
            let server = view.candidates[at].name.clone();
            Times { server, digest: 1, count: count[at], of_all: count[at], log_sum }
        };
        let fresh: Vec<Times> = times_ms.iter().enumerate().map(times).collect();
        let peer =
            |c: &router::view::Candidate| Peer { name: c.name.clone(), round_trip: None, question: None };
        let peers: Vec<Peer> = view.candidates.iter().map(peer).collect();
        let switches = RouterConfig::default().capacity;
        self.speeds.update(&fresh, &peers, switches, Duration::from_secs(1), now);
    }

    /// One tick: clients leave and come, sessions are moved. Returns how many were.
    pub(super) fn act(&mut self, now: u64, churn: bool, rng: &mut StdRng) -> u64 {
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
            let ask =
                PickRequest { role, from: Some(&self.zone), have: &have, tried: &[], phase: self.phase };
            match pick(view, &ask, rng) {
                Ok(picked) => self.sessions.push(Session { server: picked.server, rate }),
                Err(_) => self.returning.push((now + 1, rate)),
            }
        }
        self.place(now, rng)
    }

    /// The rebalancer's loop with its pace; a session is idle at a look in one case of three.
    fn place(&mut self, now: u64, rng: &mut StdRng) -> u64 {
        let view = self.view.as_ref().expect("heard once");
        let config = RouterConfig::default();
        let readers = self.sessions.len() as u32;
        self.recent.push_back((now, readers));
        self.recent.retain(|(at, _)| at + 3 * PER_SECOND >= now);
        let remembered = self.recent.iter().map(|r| r.1).max().unwrap_or(readers);
        let pace = (config.rebalance.pace_per_second * f64::from(readers)).max(1.0);
        self.tokens = (self.tokens + pace / PER_SECOND as f64).min((pace / 2.0).max(1.0));
        let held: Vec<Held> = held(&self.sessions, view.candidates.len())
            .into_iter()
            .map(|readers| Held { readers, load: f64::from(readers), writers: 0 })
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
