//! One of the routers: the real view, pick and placement, and simulated sessions.

use super::PER_SECOND;
use config::RouterConfig;
use fleet::{KnownZone, ListenerRole, Server, ServerName, Snapshot, Zone, ZoneSource};
use rand::Rng;
use rand::rngs::StdRng;
use router::heat::{Heats, Reader};
use router::pick::{PickRequest, pick};
use router::placement::{Held, PACED_AFTER, TRIM_AFTER, Urgency, decide};
use router::speed::{Peer, Speeds, Times};
use router::view::{OwnState, View};
use router::work::{Done, Works};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Mean life of a session, when clients churn.
const LIFE_SECONDS: f64 = 120.0;

/// A statement of the dear digest takes this many times as long as the others.
pub(super) const DEAR: f64 = 100.0;

/// What a session sends, wherever it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Client {
    /// Statements a second.
    pub(super) rate: f64,
    /// They are of the dear digest.
    pub(super) dear: bool,
}

/// What a statement takes on each server.
#[derive(Clone, Copy)]
pub(super) struct Taken<'a> {
    pub(super) typical_ms: &'a [f64],
    pub(super) average_ms: &'a [f64],
}

pub(super) struct Session {
    pub(super) server: usize,
    pub(super) client: Client,
}

impl Client {
    /// What it costs its server, in statements of the cheap digest a second.
    pub(super) fn work(self) -> f64 {
        if self.dear { self.rate * DEAR } else { self.rate }
    }
}

pub(super) struct Router {
    pub(super) zone: Zone,
    phase: f64,
    /// Offset of its snapshots.
    pub(super) offset: u64,
    pub(super) sessions: Vec<Session>,
    /// Sessions that return at a tick.
    pub(super) returning: Vec<(u64, Client)>,
    pub(super) view: Option<View>,
    pub(super) speeds: Speeds,
    pub(super) heats: Heats,
    works: Works,
    config: Arc<RouterConfig>,
    /// When each server came back, and when this router saw it.
    back: BTreeMap<ServerName, (Instant, Instant)>,
    tokens: f64,
    recent: VecDeque<(u64, u32)>,
    /// Since when sessions should leave each server.
    since: BTreeMap<usize, u64>,
}

impl Router {
    /// Without sessions; those in `returning` come at their tick.
    pub(super) fn new(zone: Zone, phase: f64, offset: u64, returning: Vec<(u64, Client)>) -> Self {
        Self {
            zone,
            phase,
            offset,
            sessions: Vec::new(),
            returning,
            view: None,
            speeds: Speeds::default(),
            heats: Heats::default(),
            works: Works::default(),
            config: Arc::default(),
            back: BTreeMap::new(),
            tokens: 0.0,
            recent: VecDeque::new(),
            since: BTreeMap::new(),
        }
    }

    pub(super) fn hear(&mut self, snapshot: &Snapshot, now: Instant) {
        let own = KnownZone { zone: self.zone.clone(), by: ZoneSource::Rule };
        let mut snapshot = Snapshot { own_zone: Some(own), ..snapshot.clone() };
        for server in &mut snapshot.servers {
            let Some(at) = server.back_since else { continue };
            let (known, seen) = self.back.entry(server.name.clone()).or_insert((at, now));
            if *known != at {
                (*known, *seen) = (at, now);
            }
            server.back_since = Some(*seen);
        }
        self.renew(Arc::new(snapshot), now);
    }

    /// Its view anew, with what it has found out itself since it last heard of the servers.
    pub(super) fn look_again(&mut self, now: Instant) {
        if let Some(view) = &self.view {
            self.renew(view.snapshot.clone(), now);
        }
    }

    fn renew(&mut self, snapshot: Arc<Snapshot>, now: Instant) {
        let speeds = snapshot.servers.iter().map(|s| (s.name.clone(), self.speeds.of(&s.name))).collect();
        let heats = snapshot.servers.iter().map(|s| (s.name.clone(), self.heats.of(&s.name))).collect();
        let own = OwnState { speeds, heats, ..OwnState::default() };
        self.view = Some(View::new(snapshot, self.config.clone(), &own, now));
    }

    /// Sessions count for what they do.
    pub(super) fn count_work(&mut self) {
        let mut config = RouterConfig::default();
        config.capacity.work = true;
        self.config = Arc::new(config);
    }

    /// It goes by the clock alone.
    pub(super) fn ignore_heat(&mut self) {
        let mut config = RouterConfig::default();
        config.capacity.heat = false;
        self.config = Arc::new(config);
    }

    /// One second's statements of its sessions.
    pub(super) fn compare(&mut self, appetite: f64, taken: Taken<'_>, now: Instant, rng: &mut StdRng) {
        let view = self.view.as_ref().expect("heard once");
        let mut fresh: Vec<Times> = Vec::new();
        for dear in [false, true] {
            let mut count = vec![0.0; taken.typical_ms.len()];
            for session in self.sessions.iter().filter(|session| session.client.dear == dear) {
                count[session.server] += session.client.rate * appetite;
            }
            let times = |(at, (ms, average)): (usize, (&f64, &f64))| {
                // The mean of that number of exponential times, roughly.
                let noise = 1.0 + rng.random_range(-1.7..1.7) / count[at].max(1.0).sqrt();
                let ns = ms * if dear { DEAR } else { 1.0 } * noise.max(0.1) * 1e6;
                let (server, count) = (view.candidates[at].name.clone(), count[at]);
                let (log_sum, sum_ns) = (count * ns.ln(), count * ns * average / ms.min(*average));
                Times { server, digest: 1 + u32::from(dear), count, of_all: count, log_sum, sum_ns }
            };
            let both = taken.typical_ms.iter().zip(taken.average_ms).enumerate();
            fresh.extend(both.map(times).filter(|times| times.count > 0.0));
        }
        let given = view.given(&self.loads(view));
        let peer = |candidate: &router::view::Candidate| Peer {
            given: given.get(&candidate.name).copied(),
            ..Peer::new(candidate.name.clone())
        };
        let peers: Vec<Peer> = view.candidates.iter().map(peer).collect();
        self.speeds.update(&fresh, &peers, self.config.capacity, Duration::from_secs(1), now);
        let reader = |server: &Server| Reader::of(server, &self.speeds.of(&server.name));
        let readers: Vec<Reader> = view.snapshot.servers.iter().filter_map(reader).collect();
        self.heats.update(&readers, &self.config, now);
        if self.config.capacity.work {
            let typical = self.speeds.typical_ns();
            let done = |(at, candidate): (usize, &router::view::Candidate)| {
                let times = || fresh.iter().filter(|times| times.server == candidate.name);
                let typical = |times: &Times| typical.get(&times.digest).copied().unwrap_or(times.mean_ns());
                let sessions = self.sessions.iter().filter(|session| session.server == at).count() as u32;
                Done {
                    server: candidate.name.clone(),
                    sessions,
                    readable: f64::from(sessions),
                    statements: times().map(|times| times.count).sum(),
                    work: times().map(|times| times.of_all * typical(times)).sum(),
                    busy_s: times().map(|times| times.of_all * times.mean_ns() / 1e9).sum(),
                }
            };
            let done: Vec<Done> = view.candidates.iter().enumerate().map(done).collect();
            self.works.update(&done, Duration::from_secs(1));
        }
    }

    /// One tick: clients leave and come, sessions are moved. Returns how many were.
    pub(super) fn act(&mut self, now: u64, churn: bool, rng: &mut StdRng) -> u64 {
        let view = self.view.as_ref().expect("heard once");
        let leave = 1.0 / (LIFE_SECONDS * PER_SECOND as f64);
        let mut came: Vec<Client> = Vec::new();
        self.sessions.retain(|s| {
            let stays = !churn || !rng.random_bool(leave);
            if !stays {
                came.push(s.client);
            }
            stays
        });
        came.extend(self.returning.iter().filter(|(at, _)| *at <= now).map(|(_, client)| *client));
        self.returning.retain(|(at, _)| *at > now);
        for client in came {
            let have: Vec<u32> = self.loads(view).into_iter().map(|load| load.round() as u32).collect();
            let role = ListenerRole::Reader;
            let ask =
                PickRequest { role, from: Some(&self.zone), have: &have, tried: &[], phase: self.phase };
            match pick(view, &ask, rng) {
                Ok(picked) => self.sessions.push(Session { server: picked.server, client }),
                Err(_) => self.returning.push((now + 1, client)),
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
            .zip(self.loads(view))
            .map(|(readers, load)| Held { readers, load, writers: 0 })
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
                self.returning.push((now + rng.random_range(5..20), session.client));
                (self.tokens, moved) = (self.tokens - 1.0, moved + 1);
            }
        }
        moved
    }

    /// What it has on each server, in average sessions.
    fn loads(&self, view: &View) -> Vec<f64> {
        let each: Vec<Option<f64>> =
            view.candidates.iter().map(|candidate| self.works.per_session(&candidate.name)).collect();
        router::work::loads(&held(&self.sessions, view.candidates.len()), &each)
    }
}

fn held(sessions: &[Session], servers: usize) -> Vec<u32> {
    let mut have = vec![0; servers];
    sessions.iter().for_each(|s| have[s.server] += 1);
    have
}
