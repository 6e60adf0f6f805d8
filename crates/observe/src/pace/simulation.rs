//! A server and all that ask it, second by second, in made-up time: what they cost it together, how many
//! connections they keep, and when a change of primary is known.

use super::{Budget, Pace, Seats, tests::budget};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

/// A splitmix generator: the same run for the same seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((bits ^ (bits >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[derive(Clone, Copy)]
struct Router {
    pace: Pace,
    seat: Option<u32>,
    counted_ms: Option<u64>,
    /// Which of its planned events still counts: a new plan makes older ones void.
    plan: u64,
    next_seldom_ms: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Visit,
    GiveUp,
}

/// One server, and what it has seen.
struct World {
    budget: Budget,
    routers: Vec<Router>,
    seats: Vec<bool>,
    due: BinaryHeap<Reverse<(u64, usize, Event, u64)>>,
    dice: Dice,
    now_ms: u64,
    /// Statements in each second.
    statements: Vec<u32>,
    most_connections: usize,
    /// Time until which all look for a primary, with the time it began.
    event: Option<(u64, u64)>,
    found_ms: Vec<u64>,
}

impl World {
    fn new(routers: usize, starts_within: Duration) -> Self {
        let budget = budget();
        let mut world = Self {
            budget,
            routers: Vec::new(),
            seats: vec![false; budget.seats as usize],
            due: BinaryHeap::new(),
            dice: Dice(7),
            now_ms: 0,
            statements: Vec::new(),
            most_connections: 0,
            event: None,
            found_ms: Vec::new(),
        };
        for at in 0..routers {
            let pace = Pace::new(&budget);
            world.routers.push(Router { pace, seat: None, counted_ms: None, plan: 0, next_seldom_ms: 0 });
            let start = (world.dice.roll() * starts_within.as_millis() as f64) as u64;
            world.due.push(Reverse((start, at, Event::Visit, 0)));
        }
        world
    }

    fn run_until(&mut self, second: u64) {
        while let Some(Reverse((ms, at, event, plan))) = self.due.pop() {
            if ms >= second * 1_000 {
                self.due.push(Reverse((ms, at, event, plan)));
                break;
            }
            self.now_ms = ms;
            if self.routers[at].plan == plan {
                match event {
                    Event::Visit => self.visit(at),
                    Event::GiveUp => self.give_up(at),
                }
            }
        }
        self.now_ms = second * 1_000;
    }

    /// As the poll task does it: two statements, seats counted when due, then the pause.
    fn visit(&mut self, at: usize) {
        let Router { mut pace, mut seat, counted_ms, mut next_seldom_ms, .. } = self.routers[at];
        let (now, mut statements) = (self.now_ms, 2);
        let every = pace.counts_every(&self.budget).as_millis() as u64;
        let mut counted = counted_ms;
        if counted_ms.is_none_or(|last| now - last >= every) {
            for _ in 0..5 {
                let number = (self.dice.roll() * f64::from(self.budget.seats)) as usize;
                if seat.is_none() && !self.seats[number] {
                    self.seats[number] = true;
                    seat = Some(number as u32);
                }
            }
            let taken = self.seats.iter().filter(|taken| **taken).count() as u32;
            pace = pace.after(&self.budget, Some(Seats { taken, mine: seat.is_some() }));
            counted = Some(now);
        }
        if now >= next_seldom_ms {
            statements += 3;
            next_seldom_ms = now + pace.seldom(&self.budget).max(Duration::from_secs(1)).as_millis() as u64;
        }
        let second = (now / 1_000) as usize;
        if self.statements.len() <= second {
            self.statements.resize(second + 1, 0);
        }
        self.statements[second] += statements;
        if let Some((begun, _)) = self.event {
            self.found_ms[at] = self.found_ms[at].min(now - begun);
        }
        self.routers[at] = Router { pace, seat, counted_ms: counted, next_seldom_ms, ..self.routers[at] };
        self.plan(at);
        self.most_connections = self.most_connections.max(self.seats.iter().filter(|t| **t).count());
    }

    fn plan(&mut self, at: usize) {
        let random = self.dice.roll();
        let router = &mut self.routers[at];
        router.plan += 1;
        let usual = router.pace.spread(router.pace.interval(), random);
        let pause = match self.event {
            Some((_, until)) if self.now_ms < until => usual.min(router.pace.in_an_event(self.budget.usual)),
            _ => usual,
        };
        let plan = router.plan;
        if let Some(after) =
            router.pace.gives_up_after(&self.budget, router.seat.is_some()).filter(|after| *after < pause)
        {
            self.due.push(Reverse((self.now_ms + after.as_millis() as u64, at, Event::GiveUp, plan)));
        }
        self.due.push(Reverse((self.now_ms + pause.as_millis() as u64, at, Event::Visit, plan)));
    }

    fn give_up(&mut self, at: usize) {
        if let Some(number) = self.routers[at].seat.take() {
            self.seats[number as usize] = false;
        }
        self.routers[at].counted_ms = None;
    }

    /// Another server becomes primary, and every router's own sessions show it that the old one has gone: all
    /// look for the new one from now on, each from a moment of its own.
    fn promote(&mut self) {
        let lasts = 10_000;
        self.event = Some((self.now_ms, self.now_ms + lasts));
        self.found_ms = vec![u64::MAX; self.routers.len()];
        for at in 0..self.routers.len() {
            let random = self.dice.roll();
            let router = &mut self.routers[at];
            router.plan += 1;
            let after = router.pace.in_an_event(self.budget.usual).mul_f64(random);
            self.due.push(Reverse((self.now_ms + after.as_millis() as u64, at, Event::Visit, router.plan)));
        }
    }

    /// The mean of the statements a second, and the most in one, between two seconds.
    fn statements(&self, from: usize, to: usize) -> (f64, u32) {
        let seconds = &self.statements[from..to];
        let most = seconds.iter().copied().max().unwrap_or(0);
        (f64::from(seconds.iter().sum::<u32>()) / seconds.len() as f64, most)
    }
}

#[test]
fn a_thousand_routers_cost_a_server_less_than_fifty_statements_a_second() {
    for routers in [1, 5, 20, 50, 200, 1_000, 3_000] {
        let mut world = World::new(routers, Duration::from_secs(30));
        world.run_until(2_700);
        let (mean, most) = world.statements(2_400, 2_699);
        assert!(mean < 50.0, "{routers} routers: {mean:.1} statements a second, at most {most}");
        assert!(world.most_connections <= 100, "{routers} routers: {}", world.most_connections);
        println!(
            "{routers} routers: {mean:.1} statements/s, at most {most}, interval {:.1} s, {} connections",
            world.routers[0].pace.interval().as_secs_f64(),
            world.most_connections
        );
    }
}

#[test]
fn shares_of_routers_that_start_at_different_times_grow_alike() {
    let mut world = World::new(1_000, Duration::from_secs(300));
    let mut spread_after = |seconds: u64| {
        world.run_until(seconds);
        let mut intervals: Vec<f64> = world.routers.iter().map(|r| r.pace.interval().as_secs_f64()).collect();
        intervals.sort_by(f64::total_cmp);
        intervals[950] / intervals[50]
    };
    let (early, late) = (spread_after(900), spread_after(14_400));
    println!("the slowest ask {early:.1} times as seldom after 15 minutes, {late:.1} times after four hours");
    assert!(late < early && late < 4.0, "{early} and {late}");
}

#[test]
fn most_routers_that_leave_are_noticed_and_the_others_ask_more_often_again() {
    let mut world = World::new(1_000, Duration::from_secs(30));
    world.run_until(600);
    let long = world.routers[0].pace.interval();
    for at in 10..1_000 {
        world.give_up(at);
        world.routers[at].plan += 1;
    }
    world.run_until(1_200);
    let short = world.routers[0].pace.interval();
    assert!(long > Duration::from_secs(30) && short < Duration::from_secs(1), "{long:?} and {short:?}");
}

#[test]
fn a_promotion_is_known_to_a_thousand_routers_within_three_seconds_and_costs_a_bounded_burst() {
    let mut world = World::new(1_000, Duration::from_secs(30));
    world.run_until(600);
    world.promote();
    world.run_until(620);
    let slowest = world.found_ms.iter().max().copied().unwrap();
    let (_, most) = world.statements(600, 610);
    println!("slowest {slowest} ms, at most {most} statements a second");
    assert!(slowest <= 3_000, "{slowest} ms");
    assert!(most < 1_400, "{most} statements in one second");
}
