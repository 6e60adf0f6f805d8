//! Heat: how a reader that came back warms up, by its miss rate beside the other readers'. Pure: what the
//! servers count and the clock are arguments; the formula is [`fleet::heat`]'s.
//!
//! ```text
//! warmth = min(fast, max(heat, proven, slow))
//! fast   = a tenth, growing to 1 over warm_up after it came back, or    what heat is not known of gets this
//!          was restarted though nobody saw it go
//! slow   = a tenth, growing to 1 over warm_up_limit
//! proven = the share with which its statements have been as fast as the others', and some more
//! ```
//!
//! So a cold server gets its share in step with its miss rate, never faster than the clock alone would give
//! it, and all of it after `warm_up_limit` whatever it misses. One that misses little is warm as soon as the
//! clock allows.
//!
//! **Misses that cost little.** What a miss costs, the miss rate does not say; nor that the others have no
//! room for what a cold server does not get. Its statements say both. With `rel` what they take beside the
//! same ones on the others (their median, the upper of two), `proven` is multiplied by
//! `2^(r * time / DOUBLES)`:
//!
//! ```text
//! l = ln rel + LAGS * slope of ln rel, where it rises     what it is coming to: times show a share late
//! r = 1 - l / ln(AS_FAST)                                 -FALLS to 1
//!     1 where both take as long or the others longer, 0 at AS_FAST, less where it is slower
//! ```
//!
//! It grows from the share that was in force and not from what it was itself, so a share that proved right
//! outlasts the first miss rates, which say that the server is cold. It falls where statements wait, and then
//! misses and the clock alone count. Where a disk is the limit the slope says so before there is a queue:
//! without it, twenty routers went on for seconds, and p99 was 56 times as high.
//!
//! **Counters that come seldom.** Where many routers ask a server, its counters come every half a minute or
//! more, and a miss rate takes two of them after its return. Until then only `slow` counts, for no longer
//! than `2 * spacing + warm_up`: `fast` would give a cold server all of its share before anybody could know,
//! and take it back later. A server that has been up for long, as its first counters tell, was only
//! unreachable.
//!
//! **When a server warms up.** It came back; or it was restarted less than `warm_up_limit` ago, though nobody
//! saw it go. One that has been up for longer and misses more than others has too small a buffer pool, not a
//! cold one: its speed says that.
//!
//! **Why it does not swing.** What is missed a page read hardly depends on how many there are, so more share
//! does not make a server colder. And the heat only rises during a warm-up, in steps of [`STEP`]; at
//! [`fleet::heat::WARM`] the warm-up is over for good. Heat that was known once stays in force while too few
//! page reads come to tell it. What is proven may fall, but not to nothing at once, and slower near
//! [`AS_FAST`].

use crate::speed::Speed;
use config::RouterConfig;
use fleet::heat::{self, MissRate, PoolCounters, PoolLoad};
use fleet::{Role, Server, ServerName, State};
use std::collections::HashMap;
use std::fmt;
use std::time::{Duration, Instant};

/// The share of its weight that a server starts with when it comes back.
const COLD: f64 = heat::LEAST;
/// Heat rises by at least this factor.
const STEP: f64 = 1.1;
/// A server whose statements take no more than this many times as long as the others' has room for more.
const AS_FAST: f64 = 1.25;
/// The time in which the share of a server doubles whose statements take as long as the others'; the window
/// over which they are compared, so that what more of them do is seen in time.
const DOUBLES: Duration = Duration::from_secs(9);
/// A share falls by no more halvings than this in the same time.
const FALLS: f64 = 4.0;
/// How late a share shows in the times: that window, and about as much again until sessions have moved and
/// their statements wait. And what the slope of the times is taken over.
const LAGS: Duration = Duration::from_secs(16);
const SLOPE_OVER: Duration = Duration::from_secs(1);
/// A server that started no more than this after it was seen to be back has not been restarted again: it
/// counts whole seconds, and an answer may be late.
const SAME_START: Duration = Duration::from_secs(3);
/// No single look proves more than this much time does: what was between two looks was not seen.
const LONGEST_LOOK: Duration = Duration::from_secs(2);

/// A server whose heat may be compared.
#[derive(Clone, Debug)]
pub struct Reader {
    pub name: ServerName,
    /// Since when it has been answering, if it was away.
    pub back_since: Option<Instant>,
    /// What its buffer pool has counted.
    pub pool: Option<PoolCounters>,
    /// The time between two samples of that.
    pub spacing: Duration,
    /// How many times as long its statements take as the same ones on the fastest, where they were compared.
    pub times: Option<f64>,
}

/// How warm a server is as far as heat says.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Heat {
    /// Since when it has been warming up; `None` when it is not.
    pub since: Option<Instant>,
    /// The share by its heat; `None` while that is not known, so that the clock alone counts.
    pub share: Option<f64>,
    /// Its miss rate and the one that it is compared with, where they are known.
    pub own: Option<f64>,
    pub others: Option<f64>,
    /// Its counters, or those of all others, have not come often enough to tell a miss rate since it came
    /// back, because they come this far apart.
    pub awaits: Option<Duration>,
    /// It counts no page reads for us.
    pub without_counters: bool,
    /// It reads back the pages that it remembered: the part that is done.
    pub loading: Option<f64>,
    /// The share that its statements allow: 0 to 1, 0 while nothing is known of them.
    pub proven: f64,
    /// Its last warm-up ended with `warm_up_limit`, and not because it was warm.
    pub limit_passed: bool,
}

/// A warm-up that is over.
#[derive(Clone, Debug, PartialEq)]
pub struct WarmUpEnded {
    pub server: ServerName,
    pub after: Duration,
    /// Its miss rate, where it was known.
    pub own: Option<f64>,
    /// It was not warm, and the time was over.
    pub at_the_limit: bool,
}

/// The heat of a fleet's readers as one router sees it.
#[derive(Clone, Debug, Default)]
pub struct Heats {
    known: HashMap<ServerName, TrackedHeat>,
}

#[derive(Clone, Debug, Default)]
struct TrackedHeat {
    rate: MissRate,
    /// The `back_since` that was last taken in.
    back: Option<Instant>,
    heat: Heat,
    /// When its warm-up was noticed.
    noticed: Option<Instant>,
    /// Samples of its counters since it came back.
    samples: u32,
    /// The last look.
    looked: Option<Instant>,
    /// The logarithm of its times beside the others' then, and what that grew by a second.
    beside: Option<f64>,
    slope: f64,
}

impl Reader {
    /// The reader that a server of this speed is; `None` for one that gets no reads now.
    pub fn of(server: &Server, speed: &Speed) -> Option<Self> {
        let reads = server.role == Role::Replica && server.state == State::Answering;
        (reads && server.reserved.is_none()).then(|| Self {
            name: server.name.clone(),
            back_since: server.back_since,
            pool: server.pool,
            spacing: server.asking.as_ref().and_then(|asking| asking.counters).unwrap_or_default(),
            times: speed.times.filter(|_| !speed.by_questions),
        })
    }
}

impl Heats {
    /// What is known of a server.
    pub fn of(&self, server: &ServerName) -> Heat {
        self.known.get(server).map_or_else(Heat::default, |known| known.heat)
    }

    /// A server has another name from now on.
    pub fn rename(&mut self, before: &ServerName, name: &ServerName) {
        if let Some(known) = self.known.remove(before) {
            self.known.insert(name.clone(), known);
        }
    }

    /// Takes in what the readers last counted, and says which are warm now.
    pub fn update(&mut self, readers: &[Reader], config: &RouterConfig, now: Instant) -> Vec<WarmUpEnded> {
        if !config.capacity.heat || config.warm_up.is_zero() {
            self.known.clear();
            return Vec::new();
        }
        self.known.retain(|name, _| readers.iter().any(|reader| reader.name == *name));
        for reader in readers {
            self.known.entry(reader.name.clone()).or_default().take(reader, config.warm_up_limit, now);
        }
        let awaits: Vec<Option<Duration>> =
            readers.iter().map(|r| self.known[&r.name].awaits(r, config, now)).collect();
        let rates: Vec<Option<f64>> = readers.iter().map(|r| self.known[&r.name].rate.value()).collect();
        let mut ended = Vec::new();
        for (at, reader) in readers.iter().enumerate() {
            let others = rates.iter().enumerate().filter(|(other, _)| *other != at);
            let others: Vec<f64> = others.filter_map(|(_, rate)| *rate).collect();
            let their_spacing =
                || (0..readers.len()).filter(|other| *other != at).filter_map(|at| awaits[at]);
            let awaits = awaits[at].or_else(|| if others.is_empty() { their_spacing().max() } else { None });
            let Some(known) = self.known.get_mut(&reader.name) else { continue };
            known.heat.awaits = awaits;
            let their_times = readers.iter().enumerate().filter(|(other, _)| *other != at);
            let their_times: Vec<f64> = their_times.filter_map(|(_, other)| other.times).collect();
            let beside =
                reader.times.zip(heat::of_the_others(&their_times)).map(|(own, others)| own / others);
            known.prove(beside, reader.back_since, config, now);
            if let Some((after, at_the_limit)) =
                known.heat.follow(rates[at], heat::of_the_others(&others), config, now)
            {
                ended.push(WarmUpEnded { server: reader.name.clone(), after, own: rates[at], at_the_limit });
            }
        }
        ended
    }
}

impl TrackedHeat {
    fn take(&mut self, reader: &Reader, limit: Duration, now: Instant) {
        if reader.back_since != self.back {
            self.back = reader.back_since;
            if self.back.is_some() {
                (self.rate, self.heat) = (MissRate::default(), Heat { since: self.back, ..Heat::default() });
                (self.noticed, self.samples) = (Some(now), 0);
            }
        }
        self.heat.without_counters = reader.pool.is_none();
        let Some(pool) = &reader.pool else { return };
        let first = self.rate.last().is_none();
        let is_new = self.rate.last().is_none_or(|last| last.at < pool.at);
        let restarted = self.rate.take(pool);
        if is_new && self.back.is_none_or(|back| back < pool.at) {
            self.samples = if restarted { 1 } else { self.samples.saturating_add(1) };
        }
        // Counters that come seldom show a restart long after its warm-up began, or even ended.
        let is_known = |started: Instant| self.back.is_some_and(|back| started <= back + SAME_START);
        let young = pool.started().filter(|started| now.saturating_duration_since(*started) < limit);
        let young = young.filter(|started| !is_known(*started));
        if (restarted || (first && self.heat.since.is_none())) && young.is_some() {
            self.heat = Heat { since: young, ..Heat::default() };
            self.noticed = Some(now);
        }
        self.heat.loading = match pool.load {
            PoolLoad::Loading { part } => Some(part),
            PoolLoad::None | PoolLoad::Completed => None,
        };
    }

    /// Takes in how many times as long its statements take as the others'.
    fn prove(
        &mut self,
        beside: Option<f64>,
        back_since: Option<Instant>,
        config: &RouterConfig,
        now: Instant,
    ) {
        let Some(looked) = self.looked.replace(now) else { return };
        let Some(beside) = beside.filter(|_| self.heat.since.is_some()) else { return };
        let elapsed = now.saturating_duration_since(looked).min(LONGEST_LOOK);
        let doublings =
            room(self.coming(beside.ln(), elapsed)) * elapsed.as_secs_f64() / DOUBLES.as_secs_f64();
        let in_force = self.heat.warmth(back_since, config, looked);
        let proven = &mut self.heat.proven;
        *proven = match doublings > 0.0 {
            true => proven.max(in_force * doublings.exp2()).min(1.0),
            false => *proven * doublings.exp2(),
        };
    }

    /// What the logarithm of its times beside the others' is coming to: they show a share late, so they
    /// go on by their slope times [`LAGS`]. Only upwards: to wait for good news costs little.
    fn coming(&mut self, beside: f64, elapsed: Duration) -> f64 {
        let passed = elapsed.as_secs_f64();
        if let Some(before) = self.beside.replace(beside)
            && passed > 0.0
        {
            let keep = (-passed / SLOPE_OVER.as_secs_f64()).exp();
            self.slope = keep * self.slope + (1.0 - keep) * (beside - before) / passed;
        }
        beside + LAGS.as_secs_f64() * self.slope.max(0.0)
    }

    /// The spacing of the counters that are still to come before its miss rate can be known; `None` when it
    /// is, or will not be.
    fn awaits(&self, reader: &Reader, config: &RouterConfig, now: Instant) -> Option<Duration> {
        let (pool, noticed) = (reader.pool.as_ref()?, self.noticed?);
        let is_warming = self.heat.since.is_some() && self.rate.value().is_none() && self.samples < 2;
        let old = |started: Instant| now.saturating_duration_since(started) >= config.warm_up_limit;
        let was_unreachable = self.samples > 0 && pool.started().is_none_or(old);
        let longest = reader.spacing * 2 + config.warm_up;
        let in_time = now.saturating_duration_since(noticed) < longest;
        (is_warming && !was_unreachable && in_time).then_some(reader.spacing)
    }
}

impl Heat {
    /// One step of a warm-up, given both miss rates. When it is over: after which time, and whether at its
    /// limit.
    ///
    /// Within `warm_up` heat falls as well as it rises, and ends nothing: a server's first page reads are its
    /// own (recovery, its dictionary), which say nothing about those of statements.
    fn follow(
        &mut self,
        own: Option<f64>,
        others: Option<f64>,
        config: &RouterConfig,
        now: Instant,
    ) -> Option<(Duration, bool)> {
        (self.own, self.others) = (own, others);
        let lasts = now.saturating_duration_since(self.since?);
        let by_rate = own.zip(others).map(|(own, others)| heat::heat(own, others));
        let aim = by_rate.or(self.loading.map(|part| part.max(heat::LEAST)));
        let is_early = lasts < config.warm_up;
        if let Some(aim) = aim
            && (is_early || self.share.is_none_or(|share| aim >= share * STEP))
        {
            self.share = Some(aim);
        }
        let warm = !is_early && self.share.unwrap_or_default().max(self.proven) >= heat::WARM;
        if !warm && lasts < config.warm_up_limit {
            return None;
        }
        let compared = self.share.is_some() || self.proven >= heat::WARM;
        (self.since, self.share, self.proven, self.limit_passed) = (None, None, 0.0, !warm);
        compared.then_some((lasts, !warm))
    }

    /// How warm a server is, a tenth to 1, `back_since` it came back, if it was away.
    pub fn warmth(&self, back_since: Option<Instant>, config: &RouterConfig, now: Instant) -> f64 {
        // Of a restart that nobody saw only the counters tell: it may be later than the last return, if any.
        let fast = clock(back_since.max(self.since), config.warm_up, now);
        if !config.capacity.heat {
            return fast;
        }
        let slow = clock(self.since, config.warm_up_limit, now);
        match self.share {
            Some(share) => fast.min(share.max(slow).max(self.proven)),
            None if self.awaits.is_some() => fast.min(slow.max(self.proven)),
            None => fast,
        }
    }

    /// Why its misses are not compared.
    fn not_compared(&self) -> Option<&'static str> {
        let warms_up = self.since.is_some();
        if self.without_counters {
            Some("it shows no counters of a buffer pool")
        } else if warms_up && self.own.is_none() {
            Some("with too few page reads to compare")
        } else if warms_up && self.others.is_none() {
            Some("with no other reader to compare with")
        } else {
            None
        }
    }

    /// Why it is the clock that says how warm a server is, or that said it at the end of its warm-up, in
    /// words; `None` where its misses or its statements say so, and where nobody saw it cold.
    pub fn by_clock(&self, config: &RouterConfig) -> Option<&'static str> {
        if !config.capacity.heat {
            return (!config.warm_up.is_zero()).then_some("as heat = false wants it");
        }
        match self.since {
            Some(_) if self.share.is_none() && self.awaits.is_none() => self.not_compared(),
            None if self.limit_passed => Some("warm_up_limit was over before its misses said so"),
            _ => None,
        }
    }

    /// Its statements allow more than its misses.
    fn counts_as_proven(&self) -> bool {
        self.share.is_some_and(|share| self.proven > share)
    }

    /// Why a server of this `warmth` counts for less than its weight, e.g. `counts as 0.32 while it warms up:
    /// 4.1 % of its page reads go to the disk, 0.2 % elsewhere, for 40 s`; `None` when it is warm.
    pub fn reason(&self, warmth: f64, now: Instant) -> Option<String> {
        if warmth >= 1.0 {
            return None;
        }
        let why = match (self.own.zip(self.others), self.loading, self.share) {
            (_, _, None) if self.awaits.is_some() && self.proven > 0.0 => {
                "its statements hardly wait, and its misses are not known yet".to_owned()
            }
            (_, _, None) if self.awaits.is_some() => {
                let every = fleet::long(self.awaits.unwrap_or_default());
                format!("by the slow clock until its misses are known, its counters come every {every}")
            }
            (Some((own, others)), _, Some(_)) => {
                let [own, others] = [own, others].map(percent);
                let but = if self.counts_as_proven() { ", but its statements hardly wait" } else { "" };
                format!("{own} of its page reads go to the disk, {others} elsewhere{but}")
            }
            (_, Some(part), Some(_)) => format!("it has read back {} of its buffer pool", percent(part)),
            (None, None, Some(_)) => "it missed more than the others when last compared".to_owned(),
            _ => match self.not_compared() {
                Some(why) => format!("by the clock alone, {why}"),
                None => "by the clock".to_owned(),
            },
        };
        let lasts = self.since.filter(|_| self.share.is_some());
        let lasts = lasts.map(|since| format!(", for {}", fleet::long(now.saturating_duration_since(since))));
        Some(format!("counts as {warmth:.2} while it warms up: {why}{}", lasts.unwrap_or_default()))
    }
}

/// How fast the share may grow, in doublings each [`DOUBLES`], of a server whose statements take that
/// many times as long as the others', as a logarithm; below 0 it has too much already.
fn room(beside: f64) -> f64 {
    ((AS_FAST.ln() - beside) / AS_FAST.ln()).clamp(-FALLS, 1.0)
}

/// From [`COLD`] to 1 over `time` from `since` on; 1 for what has no start.
fn clock(since: Option<Instant>, time: Duration, now: Instant) -> f64 {
    match since {
        Some(since) if !time.is_zero() => {
            let part = now.saturating_duration_since(since).as_secs_f64() / time.as_secs_f64();
            COLD + (1.0 - COLD) * part.min(1.0)
        }
        _ => 1.0,
    }
}

fn percent(part: f64) -> String {
    format!("{:.1} %", part * 100.0)
}

impl fmt::Display for WarmUpEnded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { server, after, own, at_the_limit } = self;
        let after = fleet::long(*after);
        match (own, at_the_limit) {
            (Some(own), false) => {
                write!(
                    f,
                    "{server} is warm after {after}: {} of its page reads go to the disk",
                    percent(*own)
                )
            }
            (None, false) => write!(f, "{server} is warm after {after}"),
            (own, true) => {
                let own = own.map_or_else(|| "unknown".to_owned(), percent);
                write!(
                    f,
                    "{server} counts as warm after {after}, the limit: of its page reads {own} go to the disk"
                )
            }
        }
    }
}

#[cfg(test)]
mod tests;
