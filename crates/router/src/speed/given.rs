//! Given: what each server was given to do lately, and how evenly it answered. Pure, as [`crate::speed`] is,
//! which says what it is for.

use super::{LONGEST_LOOK, Peer, Times, WINDOW};
use fleet::ServerName;
use insight::OTHER;
use std::collections::HashMap;
use std::time::Duration;

/// From this part of their time on in which our sessions are busy a warm server counts as given more than a
/// cold one, and from which on by all of the difference.
const BUSY_FROM: f64 = 0.7;
const BUSY: f64 = 0.9;

/// What a server is given of what its weight says it can carry, as our own sessions tell (see
/// [`View::given`](crate::view::View::given)).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Given {
    /// By its speed factor, and by how its sessions come out in whole numbers; above 0.
    pub load: f64,
    /// The part of that which its warmth leaves, above 0 to 1.
    pub warmth: f64,
    /// For how many of our sessions there those stand whose statements are seen.
    pub readable: f64,
}

/// The servers that are compared.
#[derive(Clone, Debug, Default)]
pub(super) struct Loads {
    lately: HashMap<ServerName, Lately>,
    busy: Busy,
}

/// A server, over [`WINDOW`].
#[derive(Clone, Copy, Debug, Default)]
struct Lately {
    given: Option<Given>,
    /// Seconds with statements, and the sums of the logarithm of what they took beside the same ones wherever
    /// they were sent, and of its square.
    seconds: f64,
    sum: f64,
    square: f64,
}

/// Seconds of our sessions, over [`WINDOW`]: those that statements took, and all.
#[derive(Clone, Copy, Debug, Default)]
struct Busy {
    statements: f64,
    sessions: f64,
}

/// What came of a server's statements since the last look.
#[derive(Clone, Copy, Debug, Default)]
struct Fresh {
    count: f64,
    /// The logarithms of what they took beside the same ones wherever they were sent, summed.
    beside: f64,
    busy_s: f64,
}

impl Loads {
    /// A server has another name from now on.
    pub(super) fn rename(&mut self, before: &ServerName, name: &ServerName) {
        if let Some(lately) = self.lately.remove(before) {
            self.lately.insert(name.clone(), lately);
        }
    }

    /// Takes in what was measured in the `elapsed` time, beside what each digest usually takes, ns.
    pub(super) fn note(
        &mut self,
        fresh: &[Times],
        peers: &[Peer],
        usual_ns: &HashMap<u32, f64>,
        elapsed: Duration,
    ) {
        let seconds = elapsed.as_secs_f64();
        let keep = (-seconds / WINDOW.as_secs_f64()).exp();
        let mut by_server: HashMap<&ServerName, Fresh> = HashMap::new();
        for times in fresh {
            let here = by_server.entry(&times.server).or_default();
            here.busy_s += times.of_all * times.mean_ns() / 1e9;
            if let Some(usual) = usual_ns.get(&times.digest).filter(|_| times.digest != OTHER) {
                here.count += times.count;
                here.beside += times.log_sum - times.count * usual.ln();
            }
        }
        self.lately.retain(|name, _| peers.iter().any(|peer| peer.name == *name));
        (self.busy.statements, self.busy.sessions) = (self.busy.statements * keep, self.busy.sessions * keep);
        for peer in peers {
            let here = by_server.get(&peer.name).copied().unwrap_or_default();
            if let Some(given) = peer.given {
                self.busy.statements += here.busy_s;
                self.busy.sessions += given.readable * seconds;
            }
            let seconds = seconds.min(LONGEST_LOOK.as_secs_f64());
            self.lately.entry(peer.name.clone()).or_default().take(peer.given, here, seconds, keep);
        }
    }

    /// How much more the one is given than the other, as a logarithm; 0 where it is not more, or not known.
    pub(super) fn more(&self, one: &ServerName, other: &ServerName) -> f64 {
        let part = self.busy.part();
        let given = |server: &ServerName| {
            let given = self.lately.get(server)?.given?;
            Some(given.load.ln() + part * given.warmth.ln())
        };
        match (given(one), given(other)) {
            (Some(one), Some(other)) => f64::max(one - other, 0.0),
            _ => 0.0,
        }
    }

    /// The variance of the logarithm of a server's times, each second being one time.
    pub(super) fn variance(&self, server: &ServerName) -> f64 {
        self.lately.get(server).map_or(0.0, Lately::variance)
    }
}

impl Lately {
    /// Takes in a look that counts for `seconds`, of what was before keeping the part `keep`.
    fn take(&mut self, given: Option<Given>, fresh: Fresh, seconds: f64, keep: f64) {
        self.given = given.map(|now| {
            let before = self.given.unwrap_or(now);
            let follow = |before: f64, now: f64| keep * before + (1.0 - keep) * now;
            let (load, warmth) = (follow(before.load, now.load), follow(before.warmth, now.warmth));
            Given { load, warmth, ..now }
        });
        for sum in [&mut self.seconds, &mut self.sum, &mut self.square] {
            *sum *= keep;
        }
        if fresh.count > 0.0 {
            let mean = fresh.beside / fresh.count;
            self.seconds += seconds;
            self.sum += seconds * mean;
            self.square += seconds * mean * mean;
        }
    }

    /// Of the mean; 0 while there is none.
    fn variance(&self) -> f64 {
        if self.seconds <= 0.0 {
            return 0.0;
        }
        let mean = self.sum / self.seconds;
        (self.square / self.seconds - mean * mean).max(0.0) / self.seconds
    }
}

impl Busy {
    /// How far sessions are busy all the time, 0 to 1.
    fn part(self) -> f64 {
        let busy = if self.sessions > 0.0 { self.statements / self.sessions } else { 0.0 };
        ((busy - BUSY_FROM) / (BUSY - BUSY_FROM)).clamp(0.0, 1.0)
    }
}
