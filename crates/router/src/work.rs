//! Work: what a server's sessions do, beside their number. Pure: counts and the clock are arguments.
//!
//! A pool that hands out its newest session first (Go's database/sql) leaves most of its sessions idle:
//! twenty on each of three servers may mean that one does all the work. So a session counts for what the
//! sessions of its server do on average, beside the mean of all:
//!
//! ```text
//! load = sessions x (work / sessions here) / (work / sessions everywhere)
//! ```
//!
//! The loads of all servers sum to the number of sessions, so that shares mean the same as before. Work is
//! statements, each counted as what its digest takes everywhere: a server that is slow does no more work for
//! it, and a statement that is a hundred times dearer counts a hundred times.
//!
//! **A slow server is not an idle one.** Its sessions do less work because each statement takes longer there,
//! or because clients wait for them; it would be given more. So a session counts for less only where it is
//! also busy for less of the time than sessions are everywhere, and for more only where it is also busy for
//! more; of the two, what is nearer to one.
//!
//! **What is not known counts as the mean.** That is so for all while fewer than [`ENOUGH`] statements a
//! second are seen, and for sessions that cannot be read (TLS that ends at the server, compression, listeners
//! without insight): `work / sessions` is of those that can be, and the others count as one each. Within
//! [`BAND`] of the mean a session counts as one: numbers are exact, rates are not. And at most [`MOST`] times
//! as much or as little, so that sessions that never speak do not gather on one server without limit.

use fleet::ServerName;
use std::collections::HashMap;
use std::time::Duration;

/// Time constant of the rates.
const SMOOTH: Duration = Duration::from_secs(5);
const ENOUGH: f64 = 5.0;
const BAND: f64 = 0.05;
const MOST: f64 = 8.0;

/// What a server's sessions did.
#[derive(Clone, Debug, PartialEq)]
pub struct Done {
    pub server: ServerName,
    /// Sessions now.
    pub sessions: u32,
    /// For how many sessions those stand whose statements are seen. More than there are where a sample stands
    /// for others that have ended.
    pub readable: f64,
    /// Statements measured since the last look, by which it is judged what is noise: those that a sample
    /// stands for are not among them.
    pub statements: f64,
    /// What they, and those that they stand for, would have taken anywhere, in any unit.
    pub work: f64,
    /// Seconds that they took.
    pub busy_s: f64,
}

/// The work of each server's sessions, lately.
#[derive(Clone, Debug, Default)]
pub struct Works {
    rates: HashMap<ServerName, Rate>,
    per_session: HashMap<ServerName, f64>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Rate {
    statements: f64,
    work: f64,
    /// Sessions that are busy, on average.
    busy: f64,
}

impl Works {
    /// A server has another name from now on.
    pub fn rename(&mut self, before: &ServerName, name: &ServerName) {
        if let Some(rate) = self.rates.remove(before) {
            self.rates.insert(name.clone(), rate);
        }
        if let Some(each) = self.per_session.remove(before) {
            self.per_session.insert(name.clone(), each);
        }
    }

    /// Takes in what was done in the `elapsed` time.
    pub fn update(&mut self, done: &[Done], elapsed: Duration) {
        let seconds = elapsed.as_secs_f64().max(1e-3);
        let part = 1.0 - (-seconds / SMOOTH.as_secs_f64()).exp();
        let known = |done: &&Done| done.sessions > 0 && done.readable > 0.0;
        self.rates.retain(|name, _| done.iter().filter(known).any(|d| d.server == *name));
        for done in done.iter().filter(known) {
            let now = Rate {
                statements: done.statements / seconds,
                work: done.work / seconds,
                busy: done.busy_s / seconds,
            };
            let rate = self.rates.entry(done.server.clone()).or_insert(now);
            rate.statements += part * (now.statements - rate.statements);
            rate.work += part * (now.work - rate.work);
            rate.busy += part * (now.busy - rate.busy);
        }
        let readable: f64 = done.iter().filter(known).map(|done| done.readable).sum();
        let sum = |of: fn(&Rate) -> f64| self.rates.values().map(of).sum::<f64>();
        let (statements, work, busy) = (sum(|r| r.statements), sum(|r| r.work), sum(|r| r.busy));
        self.per_session.clear();
        if statements < ENOUGH || work <= 0.0 {
            return;
        }
        for done in done {
            let Some(rate) = self.rates.get(&done.server) else { continue };
            let by_work = rate.work / done.readable / (work / readable);
            let by_time = if busy > 0.0 { rate.busy / done.readable / (busy / readable) } else { by_work };
            let beside = by_work.min(by_time).max(1.0) * by_work.max(by_time).min(1.0);
            // Of as few statements as its sessions send if they are like all, no more is known than this.
            let expected = statements * done.readable / readable * 2.0 * SMOOTH.as_secs_f64();
            let noise = BAND.max(2.0 / expected.sqrt());
            let counts = if (beside - 1.0).abs() <= noise { 1.0 } else { beside.clamp(1.0 / MOST, MOST) };
            let known = (done.readable / f64::from(done.sessions)).min(1.0);
            self.per_session.insert(done.server.clone(), known * counts + 1.0 - known);
        }
    }

    /// For how many average sessions one of this server counts; `None` while that is not known, which counts
    /// as one.
    pub fn per_session(&self, server: &ServerName) -> Option<f64> {
        self.per_session.get(server).copied()
    }
}

/// What each server carries, in average sessions: they sum to the number of sessions.
pub fn loads(sessions: &[u32], per_session: &[Option<f64>]) -> Vec<f64> {
    let raw: Vec<f64> =
        sessions.iter().zip(per_session).map(|(n, each)| f64::from(*n) * each.unwrap_or(1.0)).collect();
    let (all, sum) = (sessions.iter().map(|n| f64::from(*n)).sum::<f64>(), raw.iter().sum::<f64>());
    if sum <= 0.0 { raw } else { raw.into_iter().map(|load| load * all / sum).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn done(of: &[(u32, f64)]) -> Vec<Done> {
        let one = |(at, (sessions, work)): (usize, &(u32, f64))| Done {
            server: ServerName::new(&format!("r{at}")),
            sessions: *sessions,
            readable: f64::from(*sessions),
            statements: *work,
            work: *work,
            busy_s: 0.0,
        };
        of.iter().enumerate().map(one).collect()
    }

    fn counts(of: &[(u32, f64)]) -> Vec<Option<f64>> {
        let mut works = Works::default();
        works.update(&done(of), Duration::from_secs(1));
        (0..of.len()).map(|at| works.per_session(&ServerName::new(&format!("r{at}")))).collect()
    }

    #[test]
    fn sessions_count_for_what_those_of_their_server_do() {
        let each = counts(&[(20, 320.0), (20, 140.0), (20, 140.0)]);
        let loads = loads(&[20, 20, 20], &each);
        assert!((loads[0] - 32.0).abs() < 1e-9 && (loads[1] - 14.0).abs() < 1e-9, "{loads:?}");
    }

    #[test]
    fn sessions_that_are_all_busy_count_by_their_number_however_much_they_do() {
        let mut works = Works::default();
        let mut done = done(&[(8, 50.0), (8, 100.0)]);
        done.iter_mut().for_each(|done| done.busy_s = 8.0);
        works.update(&done, Duration::from_secs(1));
        assert_eq!(works.per_session(&done[0].server), Some(1.0), "it is slow, not idle");
    }

    #[test]
    fn a_slow_server_between_fast_ones_that_rest_is_not_taken_for_idle() {
        // A fifth of the speed: its sessions are busy most of the time, the others' hardly ever.
        let (mut works, mut done) = (Works::default(), done(&[(7, 46.0), (9, 171.0), (8, 171.0)]));
        (done[0].busy_s, done[1].busy_s, done[2].busy_s) = (5.0, 0.4, 0.4);
        (0..10).for_each(|_| works.update(&done, Duration::from_secs(1)));
        let each: Vec<_> = done.iter().map(|done| works.per_session(&done.server)).collect();
        assert_eq!(each, [Some(1.0); 3]);
        // The same work where it is as fast as the others: its sessions rest, and count for less.
        done[0].busy_s = 0.1;
        (0..60).for_each(|_| works.update(&done, Duration::from_secs(1)));
        assert!(works.per_session(&done[0].server).unwrap() < 0.6);
    }

    #[test]
    fn sessions_that_cannot_be_read_count_as_the_mean() {
        let mut works = Works::default();
        // All sessions do the same; of r1 a quarter can be read, of r2 none.
        let mut done = done(&[(20, 200.0), (20, 50.0), (20, 0.0)]);
        (done[1].readable, done[2].readable) = (5.0, 0.0);
        works.update(&done, Duration::from_secs(1));
        let each = |works: &Works| done.iter().map(|d| works.per_session(&d.server)).collect::<Vec<_>>();
        assert_eq!(each(&works), [Some(1.0), Some(1.0), None]);
        // Those that can be read do four times as much as the others' ones: it is known of a quarter only.
        let mut works = Works::default();
        done[1].work = 200.0;
        works.update(&done, Duration::from_secs(1));
        let of_r1 = works.per_session(&done[1].server).unwrap();
        assert!((of_r1 - (0.25 * 2.5 + 0.75)).abs() < 1e-9, "{of_r1}");
    }

    #[test]
    fn a_few_measured_statements_that_stand_for_many_are_as_noisy_as_a_few() {
        // One session in 16 is measured: 24 statements a second and server.
        let mut works = Works::default();
        let mut done = done(&[(64, 16.0 * 26.0), (64, 16.0 * 23.0), (64, 16.0 * 23.0)]);
        done.iter_mut().for_each(|done| done.statements /= 16.0);
        works.update(&done, Duration::from_secs(1));
        let each: Vec<_> = done.iter().map(|done| works.per_session(&done.server)).collect();
        assert_eq!(each, [Some(1.0); 3]);
    }

    #[test]
    fn one_session_on_a_server_is_as_noisy_as_one_beside_many_on_another() {
        // Two and a half statements a second for two: of some 20 in the time that counts.
        assert_eq!(counts(&[(40, 80.0), (1, 2.6)]), [Some(1.0), Some(1.0)]);
        assert!(counts(&[(40, 80.0), (1, 8.0)])[1].is_some_and(|counts| counts > 3.0), "that is no noise");
    }

    #[test]
    fn what_is_not_known_and_what_is_within_the_noise_counts_as_the_mean() {
        assert_eq!(counts(&[(20, 1.0), (20, 0.0)]), [None, None], "too few statements");
        assert_eq!(counts(&[(20, 102.0), (20, 98.0)]), [Some(1.0), Some(1.0)]);
        assert_eq!(loads(&[3, 4], &[None, None]), [3.0, 4.0]);
        assert_eq!(counts(&[(20, 100.0), (0, 0.0)])[1], None);
    }

    proptest! {
        #[test]
        fn loads_sum_to_the_sessions_and_are_never_negative(
            of in prop::collection::vec((0u32..50, 0.0..1000.0f64), 1..6)
        ) {
            let sessions: Vec<u32> = of.iter().map(|(n, _)| *n).collect();
            let loads = loads(&sessions, &counts(&of));
            prop_assert!(loads.iter().all(|load| *load >= 0.0));
            prop_assert!((loads.iter().sum::<f64>() - f64::from(sessions.iter().sum::<u32>())).abs() < 1e-6);
        }
    }
}
