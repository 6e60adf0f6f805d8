//! Simulated servers: a queue before c cores with known parameters, the scalability law with noise, readers
//! in zones.

use plan::Interval;
use plan::placement::Question;
use plan::replicas::{Layout, Question as Replicas};
use plan::scalability::{Scalability, Throughput};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde::Serialize;
use whatif::baseline::Baseline;
use whatif::load_answer::{LoadQuestion, answer};
use whatif::load_point::LoadPoint;

/// Transactions of a step, and of what is taken as the truth.
const STEP: usize = 8_000;
const TRUTH: usize = 150_000;
/// The load that is predicted, as a share of what the cores can do; seen is up to half of it and less.
const PREDICTED: f64 = 0.70;
const SHARES: [f64; 5] = [0.07, 0.14, 0.21, 0.28, 0.35];

/// A figure that is known and was predicted.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Figure {
    pub(super) name: &'static str,
    pub(super) truth: f64,
    /// `None` when it was refused.
    pub(super) interval: Option<Interval>,
}

/// A simulated server.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Case {
    pub(super) words: String,
    pub(super) figures: Vec<Figure>,
}

impl Figure {
    pub(super) fn holds(&self) -> bool {
        self.interval.is_some_and(|one| (one.low..=one.high).contains(&self.truth))
    }

    pub(super) fn error(&self) -> Option<f64> {
        self.interval.map(|one| (one.estimate / self.truth - 1.0).abs())
    }

    pub(super) fn width(&self) -> Option<f64> {
        self.interval.map(|one| (one.high - one.low) / 2.0 / one.estimate)
    }
}

/// How times are spread: equal, Erlang of two, exponential, or a mixture of two exponentials.
#[derive(Clone, Copy, Debug)]
enum Spread {
    Equal,
    Even,
    Random,
    Wide,
}

impl Spread {
    fn draw(self, mean: f64, rng: &mut StdRng) -> f64 {
        let exponential = |mean: f64, rng: &mut StdRng| -mean * (1.0 - rng.random::<f64>()).ln();
        match self {
            Self::Equal => mean,
            Self::Even => exponential(mean / 2.0, rng) + exponential(mean / 2.0, rng),
            Self::Random => exponential(mean, rng),
            // Balanced means with a squared coefficient of variation of 2.
            Self::Wide => {
                let p = 0.5 * (1.0 + (1.0_f64 / 3.0).sqrt());
                let one = rng.random_bool(p);
                exponential(mean / (2.0 * if one { p } else { 1.0 - p }), rng)
            }
        }
    }
}

struct Server {
    cores: usize,
    demand_s: f64,
    fixed_s: f64,
    service: Spread,
}

impl Server {
    /// Random arrivals, served in their order by the first core that is free.
    fn run(&self, per_s: f64, count: usize, rng: &mut StdRng) -> LoadPoint {
        let mut free = vec![0.0_f64; self.cores];
        let (mut now, mut work, mut times) = (0.0, 0.0, Vec::with_capacity(count));
        for _ in 0..count {
            now += Spread::Random.draw(1.0 / per_s, rng);
            let first = (0..self.cores).min_by(|a, b| free[*a].total_cmp(&free[*b])).unwrap_or(0);
            let service = self.service.draw(self.demand_s, rng);
            let done = free[first].max(now) + service;
            free[first] = done;
            work += service;
            times.push((done - now + self.fixed_s) * 1e3);
        }
        let mean_ms = times.iter().sum::<f64>() / count as f64;
        let times = plan::quantile::sorted(times);
        let shape = (0..100).filter_map(|at| plan::quantile::quantile(&times, (f64::from(at) + 0.5) / 100.0));
        let rate = count as f64 / now;
        LoadPoint {
            per_s: rate,
            mean_ms,
            p99_ms: plan::quantile::nearest_rank(&times, 0.99),
            at_work: rate * mean_ms / 1e3,
            busy: Some(work / now / self.cores as f64),
            reads_each: None,
            closed: false,
            shape: shape.collect(),
        }
    }
}

/// A server seen at up to half of the load that is predicted.
pub(super) fn queue(seed: u64) -> Case {
    let mut rng = StdRng::seed_from_u64(seed);
    let cores = [1_usize, 2, 4, 8, 16][rng.random_range(0..5)];
    let service = [Spread::Equal, Spread::Even, Spread::Random, Spread::Wide][rng.random_range(0..4)];
    let server = Server {
        cores,
        demand_s: rng.random_range(0.0005..0.008),
        fixed_s: rng.random_range(0.0001..0.003),
        service,
    };
    let full = cores as f64 / server.demand_s;
    let mut seen = Vec::new();
    for _ in 0..3 {
        seen.extend(SHARES.map(|share| server.run(share * full, STEP, &mut rng)));
    }
    let truth = server.run(PREDICTED * full, TRUTH, &mut rng);
    let question = LoadQuestion {
        subject: "simulated".to_owned(),
        workload: format!("{service:?}"),
        cores: u32::try_from(cores).unwrap_or(1),
        baseline: Baseline::named(truth.per_s),
        growths: vec![1.0],
        cores_then: Vec::new(),
        objective_ms: None,
        notes: Vec::new(),
    };
    let answer = answer(&question, seen);
    let mean = answer.rows.first().and_then(|row| row.mean_ms);
    let saturation = answer.by_cores.first().map(|with| with.saturation);
    Case {
        words: format!("{cores} cores, {service:?}"),
        figures: vec![
            Figure { name: "mean_s", truth: truth.mean_ms, interval: mean },
            Figure { name: "saturation", truth: full, interval: saturation },
        ],
    }
}

/// The scalability law seen up to half of the concurrency that is predicted.
pub(super) fn law(seed: u64) -> Case {
    let mut rng = StdRng::seed_from_u64(seed);
    let (one, contention) = (rng.random_range(100.0..5000.0), rng.random_range(0.0..0.15));
    let coherency = 10.0_f64.powf(rng.random_range(-5.0..-2.3));
    let true_at = |n: f64| one * n / (1.0 + contention * (n - 1.0) + coherency * n * (n - 1.0));
    let levels = [1.0, 2.0, 4.0, 6.0, 8.0, 12.0, 16.0];
    let noise = |rng: &mut StdRng| {
        // The sum of twelve even numbers is nearly normal.
        let sum: f64 = (0..12).map(|_| rng.random::<f64>()).sum();
        1.0 + 0.03 * (sum - 6.0)
    };
    let mut seen = Vec::new();
    for _ in 0..3 {
        seen.extend(levels.map(|n| Throughput { at_work: n, per_s: true_at(n) * noise(&mut rng) }));
    }
    let found = Scalability::new(&seen, 0.95).ok().and_then(|law| law.throughput(32.0));
    Case {
        words: format!("{one:.0} a second, contention {contention:.3}, coherency {coherency:.5}"),
        figures: vec![Figure { name: "per_s", truth: true_at(32.0), interval: found }],
    }
}

/// Random questions; how many plans there were, and how many carried all reads after each loss of a zone.
///
/// Reads arrive at random and go to one of two random readers, the one with less to do; a plan survives when
/// no reader is asked for more than it can carry.
pub(super) fn replicas(seed: u64, cases: u32) -> (usize, usize) {
    let mut rng = StdRng::seed_from_u64(seed);
    let (mut plans, mut survived) = (0, 0);
    for _ in 0..cases {
        let zones = rng.random_range(2..6);
        let question = Replicas {
            zones: (0..zones).map(|at| (format!("z{at}"), rng.random_range(0.0..3000.0))).collect(),
            reader_per_s: rng.random_range(100.0..900.0),
            apply_share: rng.random_range(0.0..0.5),
            fill: 0.9,
        };
        let Ok(layout) = question.fewest() else { continue };
        plans += 1;
        let all_well = (0..zones).all(|lost| carries(&question, &layout, lost, &mut rng));
        survived += usize::from(all_well && question.survives(&layout).iter().all(|well| *well));
    }
    (plans, survived)
}

fn carries(question: &Replicas, layout: &Layout, lost: usize, rng: &mut StdRng) -> bool {
    let left: usize =
        layout.readers.iter().enumerate().filter(|(zone, _)| *zone != lost).map(|(_, n)| n).sum();
    if left == 0 {
        return question.reads() <= 0.0;
    }
    // A few seconds of reads, each of equal work.
    let reads = (question.reads() * 5.0) as usize;
    let mut done = vec![0_usize; left];
    for _ in 0..reads {
        let (a, b) = (rng.random_range(0..left), rng.random_range(0..left));
        let idle = if done[a] <= done[b] { a } else { b };
        done[idle] += 1;
    }
    let most = done.iter().copied().max().unwrap_or(0) as f64 / 5.0;
    most <= question.reader_per_s * (1.0 - question.apply_share)
}

/// The cheapest price by trying every set of hosts from the cheapest on; `None` where none holds all. Shares
/// no code with what is compared but the demands.
pub(super) fn exhaustive(question: &Question) -> Option<f64> {
    let hosts = question.hosts.len();
    let price = |set: usize| -> f64 {
        (0..hosts).filter(|at| set >> at & 1 == 1).map(|at| question.hosts[at].price).sum()
    };
    let mut sets: Vec<usize> = (1..1_usize << hosts).collect();
    sets.sort_by(|a, b| price(*a).total_cmp(&price(*b)));
    let demands = question.demands();
    sets.into_iter().find(|set| holds(question, &demands, *set, &mut Vec::new())).map(price)
}

fn holds(question: &Question, demands: &[[f64; 5]], set: usize, on: &mut Vec<usize>) -> bool {
    let role = on.len();
    if role == demands.len() {
        return true;
    }
    for host in (0..question.hosts.len()).filter(|host| set >> host & 1 == 1) {
        on.push(host);
        let usable = question.usable(host);
        let room = (0..5).all(|k| {
            let load: f64 =
                (0..=role).filter(|other| on[*other] == host).map(|other| demands[other][k]).sum();
            load <= usable[k] + 1e-9
        });
        if room && keeps_apart(question, on) && holds(question, demands, set, on) {
            return true;
        }
        on.pop();
    }
    false
}

/// Whether the last role's group is on different hosts, and not too much of it in one zone.
fn keeps_apart(question: &Question, on: &[usize]) -> bool {
    let last = on.len() - 1;
    let Some(group) = question.roles[last].group.as_deref() else { return true };
    let members = question.groups()[group].len();
    let mates = (0..=last).filter(|other| question.roles[*other].group.as_deref() == Some(group));
    let zone = |role: usize| &question.hosts[on[role]].zone;
    let (mut there, mut same) = (0, 0);
    for mate in mates {
        there += usize::from(zone(mate) == zone(last));
        same += usize::from(on[mate] == on[last]);
    }
    same == 1 && there <= question.most_in_zone(members)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_simulated_queue_is_that_of_theory() {
        let server = Server { cores: 1, demand_s: 0.001, fixed_s: 0.0, service: Spread::Random };
        let seen = server.run(500.0, 200_000, &mut StdRng::seed_from_u64(1));
        assert!((seen.mean_ms - 2.0).abs() < 0.1, "{}", seen.mean_ms);
        assert!((seen.busy.unwrap() - 0.5).abs() < 0.02);
    }

    #[test]
    fn most_simulated_servers_are_inside_their_interval() {
        let cases: Vec<Case> = (0..30).map(law).collect();
        let held = cases.iter().filter(|case| case.figures[0].holds()).count();
        assert!(held >= 25, "{held} of 30");
    }
}
