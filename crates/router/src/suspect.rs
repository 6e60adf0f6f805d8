//! Suspect: a server that failed one of our own sessions is avoided at once, before `observe` has looked
//! again.
//!
//! A suspicion is lifted when a snapshot that must have been asked *after* the failure says the server
//! answers, and not before a pause that doubles with each failure in a row: a server that answers our probes
//! but fails sessions (its `max_connections` is reached, it blocks this host) would otherwise cost a new
//! session every round.
//!
//! Writers have nobody else to go to. So they try the one server that takes writes again after the first
//! pause each time, under the same condition, while it is still avoided as a server for reads: a held session
//! is late by the first pause at most, and not by the 16 s that failures in a row may come to.

use fleet::{ServerName, Snapshot, State};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// The pause after the first failure.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// Doublings of the pause, at most: 16 s.
const MOST_DOUBLINGS: u32 = 5;
/// A failure this long after the last one counts as a first one again.
const FORGET: Duration = Duration::from_secs(60);

/// One suspected server.
#[derive(Clone, Debug, PartialEq)]
pub struct Suspect {
    /// What happened to the session.
    pub why: String,
    /// The snapshot in force at that time.
    pub round: u64,
    /// When.
    pub since: Instant,
    /// Failures in a row, at least 1.
    pub strikes: u32,
    /// Whether it is still avoided; a lifted one is remembered for its strikes.
    pub avoided: bool,
    /// Whether writers may try it again although it is.
    pub writers_may_try: bool,
}

/// What another failure changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Added {
    /// It was not avoided before: sessions that fail together are one failure.
    pub news: bool,
    /// Somebody could have been sent there, and nobody can now.
    pub closes: bool,
}

/// All suspects, by name. Bounded by the servers a snapshot has: names it does not have are dropped.
#[derive(Clone, Debug, Default)]
pub struct Suspects(HashMap<ServerName, Suspect>);

impl Suspect {
    /// A first failure, in the time of snapshot `round`.
    pub fn new(why: &str, round: u64, since: Instant) -> Self {
        Self { why: why.to_owned(), round, since, strikes: 1, avoided: true, writers_may_try: false }
    }

    /// How long it is avoided at least.
    fn pause(&self) -> Duration {
        FIRST_PAUSE * 2u32.pow((self.strikes - 1).min(MOST_DOUBLINGS))
    }
}

impl Suspects {
    /// A session just failed on `server`.
    pub fn add(&mut self, server: &ServerName, why: &str, round: u64, now: Instant) -> Added {
        let known = self.of(server);
        let news = known.is_none();
        let closes = known.is_none_or(|known| known.writers_may_try);
        let strikes = match self.0.get(server) {
            Some(s) if s.avoided => s.strikes,
            Some(s) if now.saturating_duration_since(s.since) < FORGET => s.strikes + 1,
            _ => 1,
        };
        self.0.insert(server.clone(), Suspect { strikes, ..Suspect::new(why, round, now) });
        Added { news, closes }
    }

    /// A session got its greeting from `server`: nothing is held against it any more.
    pub fn clear(&mut self, server: &ServerName) {
        self.0.remove(server);
    }

    /// A server has another name: what is held against it stays.
    pub fn rename(&mut self, before: &ServerName, name: &ServerName) {
        if let Some(suspect) = self.0.remove(before) {
            self.0.insert(name.clone(), suspect);
        }
    }

    /// Whether anything is held against `server`, avoided or not.
    pub fn knows(&self, server: &ServerName) -> bool {
        self.0.contains_key(server)
    }

    /// The suspicion in force against `server`.
    pub fn of(&self, server: &ServerName) -> Option<&Suspect> {
        self.0.get(server).filter(|s| s.avoided)
    }

    /// Lifts what a newer snapshot has answered and forgets servers that no longer exist.
    pub fn review(&mut self, snapshot: &Snapshot, now: Instant) {
        self.0.retain(|name, suspect| {
            let Some(server) = snapshot.server(name) else { return false };
            // The next round may have asked this server just before it failed; the one after cannot have.
            let asked_since = snapshot.round >= suspect.round + 2 && snapshot.at > suspect.since;
            let waited = now.saturating_duration_since(suspect.since);
            // An answer from before the failure, or one that has grown old, says nothing for the server.
            let answered = server.state == State::Answering && !server.is_overdue(now);
            let since = server.answered_at.is_none_or(|at| at > suspect.since);
            if asked_since && answered && since {
                suspect.avoided &= waited < suspect.pause();
                suspect.writers_may_try |= waited >= FIRST_PAUSE;
            }
            suspect.avoided || waited < FORGET
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fleet::{Address, Server};

    fn snapshot(round: u64, at: Instant, state: State) -> Snapshot {
        let mut server = Server::unasked(ServerName::new("r1"), Address::tcp("127.0.0.1", 1));
        server.state = state;
        Snapshot { round, servers: vec![server], ..Snapshot::empty(at) }
    }

    #[test]
    fn a_suspicion_holds_until_a_snapshot_asked_after_the_failure_says_it_answers() {
        let (start, name) = (Instant::now(), ServerName::new("r1"));
        let mut suspects = Suspects::default();
        suspects.add(&name, "refused", 7, start);
        let at = |s: u64| start + Duration::from_secs(s);
        suspects.review(&snapshot(8, at(1), State::Answering), at(1));
        assert!(suspects.of(&name).is_some(), "round 8 may have asked it before it failed");
        suspects.review(&snapshot(9, at(2), State::Silent { why: String::new() }), at(2));
        assert!(suspects.of(&name).is_some(), "it does not answer");
        suspects.review(&snapshot(10, at(3), State::Answering), at(3));
        assert!(suspects.of(&name).is_none());
    }

    #[test]
    fn an_answer_from_before_the_failure_or_one_grown_old_lifts_nothing() {
        let (start, name) = (Instant::now(), ServerName::new("r1"));
        let mut suspects = Suspects::default();
        let at = |s: u64| start + Duration::from_secs(s);
        suspects.add(&name, "refused", 0, at(1));
        let answered = |round: u64, when: u64, holds: u64| {
            let mut snapshot = snapshot(round, at(round), State::Answering);
            (snapshot.servers[0].answered_at, snapshot.servers[0].answer_holds_until) =
                (Some(at(when)), Some(at(holds)));
            snapshot
        };
        suspects.review(&answered(5, 0, 9), at(5));
        assert!(suspects.of(&name).is_some(), "snapshots go on, and it was not asked since");
        suspects.review(&answered(7, 2, 6), at(7));
        assert!(suspects.of(&name).is_some(), "nobody asks it any more");
        suspects.review(&answered(8, 7, 12), at(8));
        assert!(suspects.of(&name).is_none());
    }

    #[test]
    fn a_server_that_answers_probes_but_fails_sessions_is_tried_less_and_less() {
        let (start, name) = (Instant::now(), ServerName::new("r1"));
        let mut suspects = Suspects::default();
        let (mut round, mut now, mut pauses) = (0, start, Vec::new());
        for _ in 0..4 {
            suspects.add(&name, "error 1040", round, now);
            let failed = now;
            while suspects.of(&name).is_some() {
                (round, now) = (round + 1, now + Duration::from_millis(250));
                suspects.review(&snapshot(round, now, State::Answering), now);
            }
            pauses.push(now.duration_since(failed).as_millis());
        }
        assert_eq!(pauses, [500, 1000, 2000, 4000]);
        suspects.clear(&name);
        assert!(!suspects.knows(&name));
    }

    #[test]
    fn writers_try_it_again_after_the_first_pause_each_time_and_only_once_it_has_answered() {
        let (start, name) = (Instant::now(), ServerName::new("r1"));
        let mut suspects = Suspects::default();
        let (mut round, mut now, mut pauses, mut added) = (0, start, Vec::new(), Vec::new());
        for _ in 0..4 {
            added.push(suspects.add(&name, "error 1040", round, now));
            assert_eq!(suspects.add(&name, "error 1040", round, now), Added { news: false, closes: false });
            let failed = now;
            while suspects.of(&name).is_some_and(|suspect| !suspect.writers_may_try) {
                (round, now) = (round + 1, now + Duration::from_millis(250));
                suspects.review(&snapshot(round, now, State::Answering), now);
            }
            pauses.push(now.duration_since(failed).as_millis());
        }
        assert_eq!(pauses, [500; 4]);
        // The first two times the pause is over for all; then writers alone find it open.
        let first = Added { news: true, closes: true };
        assert_eq!(added, [first, first, Added { news: false, ..first }, Added { news: false, ..first }]);
        suspects.add(&name, "error 1040", round, now);
        now += Duration::from_secs(60);
        suspects.review(&snapshot(round + 9, now, State::Silent { why: String::new() }), now);
        assert!(!suspects.of(&name).unwrap().writers_may_try, "it does not answer");
    }

    #[test]
    fn servers_that_left_the_fleet_are_forgotten() {
        let mut suspects = Suspects::default();
        let now = Instant::now();
        suspects.add(&ServerName::new("gone"), "refused", 0, now);
        suspects.review(&snapshot(1, now, State::Answering), now);
        assert!(!suspects.knows(&ServerName::new("gone")));
    }
}
