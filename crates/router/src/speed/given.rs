//! Given: what each server was given to do lately, and how evenly it answered. Pure, as [`crate::speed`] is,
//! which says what it is for.

use super::{LONGEST_LOOK, Peer, Times, WINDOW};
use fleet::ServerName;
use insight::OTHER;
use std::collections::HashMap;
use std::time::Duration;

/// What a server is given of our own sessions (see [`View::given`](crate::view::View::given)).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Given {
    /// Its sessions over its share of them, above 0: sessions come in whole numbers, and move one by one.
    pub load: f64,
    /// Sessions that it has less than its share is.
    pub lacks: f64,
    /// It does not warm up.
    pub warm: bool,
}

/// Sessions are moved from one too many on.
const WHOLE: f64 = 1.25;
/// And of many sessions a part.
const EVEN: f64 = 0.95;

/// The servers that are compared.
#[derive(Clone, Debug, Default)]
pub(super) struct Loads {
    lately: HashMap<ServerName, Lately>,
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

/// What came of a server's statements since the last look.
#[derive(Clone, Copy, Debug, Default)]
struct Fresh {
    count: f64,
    /// The logarithms of what they took beside the same ones wherever they were sent, summed.
    beside: f64,
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
            if let Some(usual) = usual_ns.get(&times.digest).filter(|_| times.digest != OTHER) {
                here.count += times.count;
                here.beside += times.log_sum - times.count * usual.ln();
            }
        }
        self.lately.retain(|name, _| peers.iter().any(|peer| peer.name == *name));
        for peer in peers {
            let here = by_server.get(&peer.name).copied().unwrap_or_default();
            let seconds = seconds.min(LONGEST_LOOK.as_secs_f64());
            self.lately.entry(peer.name.clone()).or_default().take(peer.given, here, seconds, keep);
        }
    }

    /// How much more the one is given than the other, as a logarithm; 0 where it is not more, or not known.
    /// And beside one that warms up: it has no full share yet, and one that is cold and fast is to relieve
    /// the others.
    pub(super) fn more(&self, one: &ServerName, other: &ServerName) -> f64 {
        let given = |server: &ServerName| self.lately.get(server)?.given;
        match (given(one), given(other)) {
            (Some(one), Some(other)) if other.warm => f64::max(one.load.ln() - other.load.ln(), 0.0),
            _ => 0.0,
        }
    }

    /// Whether a whole session and more of a server's share has not come yet: what it answers says nothing of
    /// its share.
    pub(super) fn is_short(&self, server: &ServerName) -> bool {
        let given = self.lately.get(server).and_then(|lately| lately.given);
        given.is_some_and(|given| given.lacks > WHOLE && given.load < EVEN)
    }

    /// The variance of how much longer the one's times are than the other's, as a logarithm, each second
    /// being one time. 0 beside one that warms up.
    pub(super) fn variance(&self, one: &ServerName, other: &ServerName) -> f64 {
        let (one, other) = (self.lately.get(one), self.lately.get(other));
        if other.and_then(|other| other.given).is_some_and(|given| !given.warm) {
            return 0.0;
        }
        one.map_or(0.0, Lately::variance) + other.map_or(0.0, Lately::variance)
    }
}

impl Lately {
    /// Takes in a look that counts for `seconds`, of what was before keeping the part `keep`.
    fn take(&mut self, given: Option<Given>, fresh: Fresh, seconds: f64, keep: f64) {
        self.given = given.map(|now| {
            let before = self.given.unwrap_or(now);
            Given { load: keep * before.load + (1.0 - keep) * now.load, ..now }
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
