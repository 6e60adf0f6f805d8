//! Factors from made-up times: who is slow, who only looks slow, and that all of it is followed calmly.

use super::tracked::STEP;
use super::*;
use proptest::prelude::*;

const SECOND: Duration = Duration::from_secs(1);
const ON: Switches = Switches { speed: true, work: true, heat: true };

fn peers(n: usize) -> Vec<Peer> {
    (0..n).map(|i| Peer::new(ServerName::new(&format!("r{i}")))).collect()
}

/// Times of a digest on each of the servers, ms; `None` where it was not sent.
fn digest(number: u32, count: f64, ms: &[Option<f64>]) -> Vec<Times> {
    let times = |(i, ms): (usize, &Option<f64>)| {
        let server = ServerName::new(&format!("r{i}"));
        ms.map(|ms| {
            let (log_sum, sum_ns) = (count * (ms * 1e6).ln(), count * ms * 1e6);
            Times { server, digest: number, count, of_all: count, log_sum, sum_ns }
        })
    };
    ms.iter().enumerate().filter_map(times).collect()
}

/// The factors after some seconds of the same.
fn after(seconds: u64, fresh: &[Times], peers: &[Peer]) -> (Vec<f64>, usize) {
    let (mut speeds, start, mut changes) = (Speeds::default(), Instant::now(), 0);
    for second in 0..seconds {
        changes += speeds.update(fresh, peers, ON, SECOND, start + SECOND * second as u32).len();
    }
    (peers.iter().map(|peer| speeds.of(&peer.name).factor).collect(), changes)
}

#[test]
fn a_server_whose_statements_take_twice_as_long_counts_for_half_within_half_a_minute_and_says_why() {
    let fresh = digest(1, 50.0, &[Some(2.0), Some(1.0), Some(1.0)]);
    let (mut speeds, start) = (Speeds::default(), Instant::now());
    let told: Vec<Change> =
        (0..70).flat_map(|s| speeds.update(&fresh, &peers(3), ON, SECOND, start + SECOND * s)).collect();
    assert!(told.len() >= 2 && told.iter().all(|change| change.server.as_str() == "r0"), "{told:?}");
    let speed = speeds.of(&ServerName::new("r0"));
    assert!((0.43..0.58).contains(&speed.factor), "{speed:?}");
    let since = told[0].now.since.unwrap();
    let reason = speed.reason(since + SECOND * 40).unwrap();
    let factor = format!("counts as {:.2}: ", speed.factor);
    assert_eq!(reason, factor + "its statements take 2.0 times as long as the same ones elsewhere, for 40 s");
    let fresh = digest(1, 50.0, &[Some(1.0), Some(1.0), Some(1.0)]);
    (70..125).for_each(|s| drop(speeds.update(&fresh, &peers(3), ON, SECOND, start + SECOND * s)));
    assert_eq!(speeds.of(&ServerName::new("r0")).factor, 1.0, "and all of it within a minute");
    assert_eq!(speeds.of(&ServerName::new("r0")).reason(start), None);
}

/// Speeds of three servers over time, the first with times of its own.
struct Three {
    speeds: Speeds,
    start: Instant,
}

impl Three {
    fn new() -> Self {
        Self { speeds: Speeds::default(), start: Instant::now() }
    }

    /// What is known of the first after these seconds, in which its statements take `ms` typically and
    /// `average` on average, and those of the others 1 ms.
    fn run(&mut self, seconds: std::ops::Range<u32>, ms: f64, average: f64) -> Speed {
        let mut fresh = digest(1, 200.0, &[Some(ms), Some(1.0), Some(1.0)]);
        fresh[0].sum_ns = 200.0 * average * 1e6;
        for second in seconds {
            self.speeds.update(&fresh, &peers(3), ON, SECOND, self.start + SECOND * second);
        }
        self.speeds.of(&ServerName::new("r0"))
    }
}

#[test]
fn a_slow_server_is_not_given_more_while_a_few_of_its_statements_wait_for_long() {
    let mut three = Three::new();
    let mut factor = |seconds, ms, average| three.run(seconds, ms, average).factor;
    let slow = factor(0..40, 2.5, 2.5);
    assert!(slow < 0.5, "{slow}");
    let held = factor(40..60, 1.0, 1.2);
    assert!((0.85 * slow..1.3 * slow).contains(&held), "its quota is nearly used up: {held} after {slow}");
    let less = factor(60..120, 1.0, 1.5);
    assert!(less < 0.3, "it is not the share that fits: {less}");
    assert_eq!(factor(120..200, 1.0, 1.0), 1.0, "it has recovered");
    assert_eq!(factor(200..400, 1.0, 1.5), 1.0, "a few long statements alone make no server slow");
}

#[test]
fn a_tail_that_stays_however_little_a_server_is_given_holds_it_back_for_minutes_and_not_for_ever() {
    let mut three = Three::new();
    three.run(0..40, 2.5, 2.5);
    let held_back = three.run(40..200, 1.0, 1.5);
    assert!(held_back.factor < 0.3, "{held_back:?}");
    let reason = held_back.reason(three.start + SECOND * 200).unwrap();
    assert!(reason.contains("take 1.0 times") && reason.contains("(1.5 times on average)"), "{reason}");
    let later = three.run(200..600, 1.0, 1.5);
    assert!(later.factor == 1.0 && later.on_average.is_none(), "a smaller share is no help: {later:?}");
}

#[test]
fn the_factor_stays_within_its_limits_however_slow_a_server_is() {
    let (factors, _) = after(90, &digest(1, 50.0, &[Some(90.0), Some(1.0)]), &peers(2));
    assert!((LEAST..1.08 * LEAST).contains(&factors[0]) && factors[1] == 1.0, "{factors:?}");
}

#[test]
fn harder_statements_are_no_slowness_nor_is_one_digest_that_got_a_hundred_times_dearer() {
    // Server 0 has most of the dear digest, all take what they take.
    let mut fresh = digest(1, 5.0, &[Some(100.0), Some(100.0)]);
    fresh.extend(digest(2, 100.0, &[Some(1.0), Some(1.0)]));
    fresh[0].count *= 10.0;
    fresh[0].log_sum *= 10.0;
    fresh[0].sum_ns *= 10.0;
    assert_eq!(after(60, &fresh, &peers(2)), (vec![1.0, 1.0], 0));
    // One digest got dear on server 0 alone (its rows there are locked).
    let mut fresh = digest(1, 4.0, &[Some(100.0), Some(1.0)]);
    fresh.extend(digest(2, 100.0, &[Some(1.0), Some(1.0)]));
    assert_eq!(after(60, &fresh, &peers(2)), (vec![1.0, 1.0], 0));
}

#[test]
fn a_common_cause_changes_nothing() {
    let (mut speeds, start, mut changes) = (Speeds::default(), Instant::now(), 0);
    for second in 0..120u32 {
        let ms = if second < 40 { 1.0 } else { 20.0 };
        let fresh = digest(1, 50.0, &[Some(ms); 3]);
        changes += speeds.update(&fresh, &peers(3), ON, SECOND, start + SECOND * second).len();
    }
    assert_eq!(changes, 0);
}

#[test]
fn distance_is_no_slowness() {
    let mut far = peers(2);
    far[1].round_trip = Some(Duration::from_millis(2));
    assert_eq!(after(60, &digest(1, 50.0, &[Some(0.3), Some(2.35)]), &far), (vec![1.0, 1.0], 0));
}

#[test]
fn few_samples_and_digests_without_a_peer_say_nothing() {
    assert_eq!(after(60, &digest(1, 0.05, &[Some(9.0), Some(1.0)]), &peers(2)).1, 0);
    let mut fresh = digest(1, 50.0, &[Some(9.0), None]);
    fresh.extend(digest(2, 50.0, &[None, Some(1.0)]));
    assert_eq!(after(60, &fresh, &peers(2)).1, 0);
}

#[test]
fn statements_that_are_not_told_apart_are_work_and_not_compared() {
    let fresh = digest(OTHER, 50.0, &[Some(9.0), Some(1.0)]);
    assert_eq!(after(60, &fresh, &peers(2)), (vec![1.0, 1.0], 0));
    let mut speeds = Speeds::default();
    speeds.update(&fresh, &peers(2), ON, SECOND, Instant::now());
    assert!((speeds.typical_ns()[&OTHER] - 3e6).abs() < 1.0);
}

#[test]
fn a_server_with_too_few_times_makes_no_other_slow() {
    let mut fresh = digest(1, 50.0, &[Some(2.0), Some(2.0), None]);
    fresh.extend(digest(1, 1.0, &[None, None, Some(0.2)]));
    assert_eq!(after(60, &fresh, &peers(3)), (vec![1.0; 3], 0));
}

#[test]
fn a_slow_server_whose_statements_no_longer_end_is_not_taken_for_fast() {
    let r0 = ServerName::new("r0");
    for answers_to_questions in [false, true] {
        let (mut speeds, start) = (Speeds::default(), Instant::now());
        let mut run = |from: u32, to: u32, ms: Option<f64>| {
            for second in from..to {
                let now = start + SECOND * second;
                let mut peers = peers(3);
                if answers_to_questions {
                    peers.iter_mut().for_each(|peer| peer.question = Some((SECOND / 1000, now)));
                }
                speeds.update(&digest(1, 50.0, &[ms, Some(1.0), Some(1.0)]), &peers, ON, SECOND, now);
            }
            speeds.of(&r0)
        };
        let slow = run(0, 60, Some(4.0));
        assert!(slow.factor < 0.32, "{slow:?}");
        let held = run(60, 120, None);
        assert!(held.factor < 0.42 && !held.by_questions && held.times.is_none(), "{held:?}");
        assert!(held.reason(start + SECOND * 120).unwrap().contains("when last compared"));
        assert_eq!(run(120, 1200, None).factor, 1.0, "it is tried again in the end");
        run(1200, 1260, Some(4.0));
        assert_eq!(
            run(1260, 1340, Some(1.0)).factor,
            1.0,
            "measured, it has all of it within a minute or so"
        );
    }
}

#[test]
fn a_slow_server_that_does_not_answer_for_a_moment_is_as_slow_when_it_is_back() {
    let (mut speeds, start, r0) = (Speeds::default(), Instant::now(), ServerName::new("r0"));
    let slow = digest(1, 50.0, &[Some(4.0), Some(1.0), Some(1.0)]);
    let mut run = |from: u32, to: u32, peers: &[Peer]| {
        for second in from..to {
            speeds.update(&slow, peers, ON, SECOND, start + SECOND * second);
        }
        speeds.of(&r0).factor
    };
    let before = run(0, 60, &peers(3));
    assert!(before < 0.32, "{before}");
    run(60, 100, &peers(3)[1..]);
    assert!(run(100, 101, &peers(3)) < 0.35);
    run(101, 170, &peers(3)[1..]);
    assert_eq!(run(170, 171, &peers(3)), 1.0, "what was known is too old");
}

#[test]
fn a_far_server_hides_no_slowness_among_those_that_share_no_statement_with_it() {
    let mut far = peers(4);
    (far[2].round_trip, far[3].round_trip) =
        (Some(Duration::from_millis(100)), Some(Duration::from_millis(100)));
    let mut fresh = digest(1, 50.0, &[Some(2.0), Some(0.5), None, None]);
    fresh.extend(digest(2, 50.0, &[None, None, Some(101.0), Some(101.0)]));
    let (factors, _) = after(90, &fresh, &far);
    assert!(factors[0] < 0.4 && factors[1..] == [1.0; 3], "{factors:?}");
}

#[test]
fn servers_that_share_hardly_any_statement_are_not_compared_by_them() {
    // Two zones with applications of their own, one statement that both send now and then, and our questions.
    let (mut speeds, start) = (Speeds::default(), Instant::now());
    let mut fresh = digest(1, 50.0, &[Some(3.0), Some(1.0), None, None]);
    fresh.extend(digest(2, 50.0, &[None, None, Some(1.0), Some(1.0)]));
    fresh.extend(digest(3, 1.0, &[Some(3.0), Some(1.0), Some(1.0), Some(1.0)]));
    for second in 0..90u32 {
        let now = start + SECOND * second;
        let mut peers = peers(4);
        for (peer, ms) in peers.iter_mut().zip([3, 1, 1, 1]) {
            peer.question = Some((Duration::from_millis(ms), now));
        }
        speeds.update(&fresh, &peers, ON, SECOND, now);
    }
    let factors: Vec<f64> = peers(4).iter().map(|peer| speeds.of(&peer.name).factor).collect();
    assert!(factors[0] < 0.4 && factors[1..] == [1.0; 3], "{factors:?}");
}

#[test]
fn a_few_statements_of_three_equal_servers_make_none_of_them_slow() {
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};
    let mut slow = Vec::new();
    for per_second in [2u32, 5, 20, 100] {
        let mut rng = StdRng::seed_from_u64(u64::from(per_second));
        let (mut speeds, start) = (Speeds::default(), Instant::now());
        let mut seconds_slow = 0;
        for second in 0..1800u32 {
            let mut fresh = Vec::new();
            for mut times in digest(1, f64::from(per_second), &[Some(1.0); 3]) {
                // Exponential times with a mean of 1 ms.
                let ns = |_| -rng.random_range(1e-9..1.0f64).ln() * 1e6;
                let all: Vec<f64> = (0..per_second).map(ns).collect();
                (times.log_sum, times.sum_ns) = (all.iter().map(|ns| ns.ln()).sum(), all.iter().sum());
                fresh.push(times);
            }
            speeds.update(&fresh, &peers(3), ON, SECOND, start + SECOND * second);
            seconds_slow += peers(3).iter().filter(|peer| speeds.of(&peer.name).factor < 1.0).count();
        }
        slow.push((per_second, seconds_slow));
    }
    // Of 5,400 seconds of servers.
    assert!(slow.iter().all(|(_, seconds)| *seconds < 54), "{slow:?}");
}

#[test]
fn one_look_after_a_long_pause_makes_no_server_slow() {
    let (mut speeds, start) = (Speeds::default(), Instant::now());
    let even = digest(1, 50.0, &[Some(1.0); 3]);
    (0..30).for_each(|s| drop(speeds.update(&even, &peers(3), ON, SECOND, start + SECOND * s)));
    // The router stood still for a minute, and one server's statements with it.
    let long = digest(1, 50.0, &[Some(9000.0), Some(1.0), Some(1.0)]);
    assert_eq!(speeds.update(&long, &peers(3), ON, SECOND * 60, start + SECOND * 90), []);
    assert_eq!(speeds.of(&ServerName::new("r0")).factor, 1.0);
}

#[test]
fn our_own_questions_tell_a_slow_server_where_nothing_else_is_the_same() {
    let (mut speeds, start) = (Speeds::default(), Instant::now());
    for half in 0..180u32 {
        let now = start + SECOND / 2 * half;
        let mut peers = peers(3);
        for (peer, ms) in peers.iter_mut().zip([3, 1, 1]) {
            peer.question = Some((Duration::from_millis(ms), now));
        }
        let fresh = digest(1, 50.0, &[Some(9.0), None, None]);
        speeds.update(&fresh, &peers, ON, SECOND / 2, now);
    }
    let speed = speeds.of(&ServerName::new("r0"));
    assert!(speed.factor < 0.45 && speed.by_questions, "{speed:?}");
    assert!(
        speed.reason(start + SECOND * 99).unwrap().contains("its answers to our questions take 3.0 times")
    );
    assert_eq!(speeds.of(&ServerName::new("r1")).factor, 1.0);
}

#[test]
fn our_own_questions_are_compared_among_servers_of_one_dialect() {
    let (mut speeds, start) = (Speeds::default(), Instant::now());
    for half in 0..180u32 {
        let now = start + SECOND / 2 * half;
        let mut peers = peers(5);
        let asked = [(3, "A"), (3, "A"), (1, "B"), (1, "B"), (3, "B")];
        for (peer, (ms, dialect)) in peers.iter_mut().zip(asked) {
            peer.question = Some((Duration::from_millis(ms), now));
            peer.dialect = Some(dialect.to_owned());
        }
        speeds.update(&[], &peers, ON, SECOND / 2, now);
    }
    let factors = [0, 1, 2, 3, 4].map(|at| speeds.of(&ServerName::new(&format!("r{at}"))).factor);
    assert_eq!(factors[..4], [1.0; 4], "the questions differ, not the servers");
    assert!(factors[4] < 0.45, "{factors:?}");
}

#[test]
fn our_own_questions_count_however_seldom_they_are_asked_and_each_only_once() {
    // Three seconds apart: as one of nearly fifty routers asks. Later they are no longer asked alone.
    let (mut speeds, start) = (Speeds::default(), Instant::now());
    let mut run = |from: u32, to: u32, asked: fn(u32) -> u32| {
        for second in from..to {
            let mut peers = peers(3);
            for (peer, ms) in peers.iter_mut().zip([3, 1, 1]) {
                peer.question = Some((Duration::from_millis(ms), start + SECOND * asked(second)));
            }
            speeds.update(&[], &peers, ON, SECOND, start + SECOND * second);
        }
        let now = start + SECOND * to;
        (speeds.of(&ServerName::new("r0")), speeds.are_unknown(now))
    };
    let (speed, unknown) = run(0, 180, |second| second / 3 * 3);
    assert!(speed.factor < 0.45 && speed.by_questions && !unknown, "{speed:?}");
    let (speed, unknown) = run(180, 360, |_| 177);
    assert!(speed.times.is_none() && unknown, "{speed:?}");
}

#[test]
fn switched_off_every_server_counts_for_its_weight_at_once() {
    let fresh = digest(1, 50.0, &[Some(5.0), Some(1.0)]);
    let (mut speeds, now) = (Speeds::default(), Instant::now());
    (0..60).for_each(|_| drop(speeds.update(&fresh, &peers(2), ON, SECOND, now)));
    let off = Switches { speed: false, ..ON };
    let changes = speeds.update(&fresh, &peers(2), off, SECOND, now);
    assert_eq!((changes.len(), changes[0].now.factor, speeds.of(&changes[0].server).factor), (1, 1.0, 1.0));
}

/// A server that is as fast as the others until its factor is more than what it can carry.
fn until_it_waits(factor: f64, carries: f64) -> f64 {
    if factor > carries { 3.0 * factor / carries } else { 1.15 }
}

#[test]
fn a_share_that_fits_is_kept_and_given_back_once_the_server_is_as_fast_as_the_fastest() {
    let (mut speeds, start, r0) = (Speeds::default(), Instant::now(), ServerName::new("r0"));
    let mut run = |from: u32, to: u32, carries: Option<f64>| {
        let mut factors = Vec::new();
        for second in from..to {
            let factor = speeds.of(&r0).factor;
            let ms = carries.map_or(1.02, |carries| until_it_waits(factor, carries));
            let fresh = digest(1, 500.0, &[Some(ms), Some(1.0), Some(1.0)]);
            speeds.update(&fresh, &peers(3), ON, SECOND, start + SECOND * second);
            factors.push(speeds.of(&r0).factor);
        }
        factors
    };
    let slow = run(0, 400, Some(0.4));
    let (least, most) = slow[60..].iter().fold((1.0f64, 0.0f64), |(l, m), f| (l.min(*f), m.max(*f)));
    assert!(least > 0.3 && most < 0.43, "{slow:.2?}");
    let back = run(400, 460, None);
    assert_eq!(back[59], 1.0, "and all of it within a minute: {back:?}");
}

/// Readers of equal weight on which all of these sessions are busy all the time, and that answer that many
/// statements a second: a statement takes as long as it takes to answer one of each session.
fn in_line(sessions: &[u32], rates: &[f64]) -> (Vec<Times>, Vec<Peer>) {
    let mean = f64::from(sessions.iter().sum::<u32>()) / sessions.len() as f64;
    let mut peers = peers(sessions.len());
    let mut fresh = Vec::new();
    for (peer, (n, rate)) in peers.iter_mut().zip(sessions.iter().zip(rates)) {
        let (n, count) = (f64::from(*n), *rate);
        peer.given = Some(Given { load: n / mean, lacks: 0.0, warm: true });
        let (server, ns) = (peer.name.clone(), n / rate * 1e9);
        let (log_sum, sum_ns) = (count * ns.ln(), count * ns);
        fresh.push(Times { server, digest: 1, count, of_all: count, log_sum, sum_ns });
    }
    (fresh, peers)
}

#[test]
fn whole_sessions_that_all_wait_in_line_make_no_server_slow_and_a_slow_one_is_found() {
    let (fresh, with_given) = in_line(&[3, 3, 2], &[300.0; 3]);
    assert_eq!(after(120, &fresh, &with_given), (vec![1.0; 3], 0));
    assert!(after(120, &fresh, &peers(3)).1 > 0, "their times alone differ");
    let (fresh, with_given) = in_line(&[3, 3, 2], &[150.0, 300.0, 300.0]);
    let (factors, _) = after(120, &fresh, &with_given);
    assert!((0.43..0.58).contains(&factors[0]) && factors[1..] == [1.0; 2], "{factors:?}");
    // At its share a slow one is as slow as its times say.
    let (fresh, with_given) = in_line(&[8, 8, 8], &[150.0, 300.0, 300.0]);
    let (factors, _) = after(120, &fresh, &with_given);
    assert!((0.43..0.58).contains(&factors[0]) && factors[1..] == [1.0; 2], "{factors:?}");
}

#[test]
fn what_waits_beside_a_cold_server_is_relieved_by_it() {
    let (fresh, mut peers) = in_line(&[1, 11, 12], &[300.0; 3]);
    assert_eq!(after(60, &fresh, &peers), (vec![1.0; 3], 0));
    peers[0].given.as_mut().unwrap().warm = false;
    let (factors, _) = after(60, &fresh, &peers);
    assert!(factors[0] == 1.0 && factors[1] < 0.3 && factors[2] < 0.3, "{factors:?}");
}

#[test]
fn lines_that_come_and_go_by_themselves_make_no_server_slow_for_long_and_a_slow_one_is_found() {
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};
    let run = |seconds: u32, slower: f64| {
        let mut rng = StdRng::seed_from_u64(1);
        let (mut speeds, start) = (Speeds::default(), Instant::now());
        let (mut lines, mut seconds_slow) = ([0.0; 3], 0);
        for second in 0..seconds {
            // The logarithms of the times of one second go on into the next.
            lines = lines.map(|line: f64| 0.4 * line + rng.random_range(-0.5..0.5f64));
            let [r0, r1, r2] = lines.map(f64::exp);
            let fresh = digest(1, 300.0, &[Some(slower * r0), Some(r1), Some(r2)]);
            speeds.update(&fresh, &peers(3), ON, SECOND, start + SECOND * second);
            seconds_slow += peers(3).iter().filter(|peer| speeds.of(&peer.name).factor < 1.0).count();
        }
        (seconds_slow, speeds.of(&ServerName::new("r0")).factor)
    };
    let (seconds_slow, _) = run(1800, 1.0);
    // Of 5,400 seconds of servers; as if all times were apart from each other it would be some 300.
    assert!(seconds_slow < 160, "{seconds_slow}");
    let (_, factor) = run(60, 2.0);
    assert!(factor < 0.75, "{factor}");
}

proptest! {
    /// Where all sessions wait in line, how they come out in whole numbers makes nobody slow.
    #[test]
    fn whole_sessions_are_no_matter(
        sessions in prop::collection::vec(1u32..6, 2..6),
        rate in 50.0..900.0f64,
    ) {
        let (fresh, peers) = in_line(&sessions, &vec![rate; sessions.len()]);
        prop_assert_eq!(after(40, &fresh, &peers), (vec![1.0; sessions.len()], 0));
    }

    #[test]
    fn factors_are_within_their_limits_and_some_server_has_all_of_its_weight(
        ms in prop::collection::vec(prop::collection::vec(prop::option::of(0.05..50.0f64), 4), 1..5),
        counts in prop::collection::vec(0.1..500.0f64, 5),
        seconds in 1u64..60,
    ) {
        let all = ms.iter().enumerate();
        let fresh: Vec<Times> = all.flat_map(|(d, ms)| digest(d as u32 + 1, counts[d], ms)).collect();
        let (factors, _) = after(seconds, &fresh, &peers(4));
        prop_assert!(factors.iter().all(|f| (LEAST..=1.0).contains(f)), "{:?}", factors);
        prop_assert!(factors.contains(&1.0), "{:?}", factors);
    }

    /// What digests cost is no matter, nor how they are spread: servers with the same speed count the same.
    #[test]
    fn the_mix_of_statements_is_no_matter(
        costs in prop::collection::vec(0.5..500.0f64, 2..6),
        spread in prop::collection::vec(30.0..300.0f64, 18),
        slow in 1.0..3.5f64,
    ) {
        let mut fresh = Vec::new();
        for (d, cost) in costs.iter().enumerate() {
            for server in 0..3usize {
                let times = if server == 0 { slow } else { 1.0 };
                let mut all = digest(d as u32 + 1, spread[3 * d + server], &[Some(cost * times); 3]);
                fresh.push(all.swap_remove(server));
            }
        }
        let (factors, _) = after(120, &fresh, &peers(3));
        prop_assert_eq!(&factors[1..], &[1.0, 1.0]);
        let aim = if slow < STEP { 1.0 } else { 1.0 / slow };
        prop_assert!(factors[0] / aim < 1.2 && factors[0] / aim > 0.8, "{} {:?}", aim, factors);
    }
}
