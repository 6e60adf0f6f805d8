//! The search for a placement, and the bound below it.

mod subsets;

use super::{Assignment, NoPlacement, Placement, Question, RESOURCES, Resources};
use good_lp::{
    Expression, ProblemVariables, ResolutionError, Solution, SolutionStatus, SolverModel, Variable,
    WithInitialSolution, WithTimeLimit, constraint, microlp, variable,
};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Above this number of (role, host) pairs the whole is not given to the solver: it would not end.
const MOST_PAIRS: usize = 600;
/// Orders that are tried.
const ORDERS: u64 = 60;

const HINT: &str = "; without the rule that keeps roles of the same dominant resource apart there may be one";

/// The cheapest placement that is found within about this time, with the bound that tells how good it is.
///
/// # Errors
/// There is none, or none was found.
pub fn solve(question: &Question, time: Duration) -> Result<Placement, NoPlacement> {
    let began = Instant::now();
    impossible(question)?;
    let (at_once, hint) = (question.takes_over(), if question.apart { HINT } else { "" });
    let state = State::new(question);
    let mut bound = covering(question, &state, &state.demands, time / 4);
    let mut best: Option<(f64, Assignment)> = None;
    for order in 0..ORDERS {
        if began.elapsed() > time / 2 {
            break;
        }
        if let Some(found) = state.fill(order).map(|found| state.emptied(&found, began, time / 2)) {
            let price = question.price(&found);
            if best.as_ref().is_none_or(|(least, _)| price < least - 1e-9) {
                best = Some((price, found));
            }
        }
        if best.as_ref().is_some_and(|(price, _)| *price <= bound + 1e-9 * price.abs()) {
            break;
        }
    }
    let mut by =
        "first and best fit, hosts emptied one after the other; bound by an integer program of the hosts";
    let mut proved = best.as_ref().is_some_and(|(price, _)| *price <= bound + 1e-9 * price.abs());
    if !proved && question.hosts.len() <= subsets::MOST_HOSTS {
        let left = time.saturating_sub(began.elapsed());
        let found = subsets::search(&state, best.as_ref().map(|(price, _)| *price), left * 2 / 3);
        if let Some(on) = found.on.filter(|on| super::check(question, on).is_empty()) {
            best = Some((question.price(&on), on));
            by = "a search over sets of hosts, the cheapest first";
        }
        bound = bound.max(found.bound);
        proved = best.as_ref().is_some_and(|(price, _)| *price <= bound + 1e-9 * price.abs());
        if best.is_none() && bound.is_infinite() {
            return Err(NoPlacement::Proved { at_once, hint });
        }
    }
    let small = question.roles.len() * question.hosts.len() <= MOST_PAIRS;
    if !proved && small {
        let left = time.saturating_sub(began.elapsed());
        match whole(question, &state, best.as_ref(), left) {
            Whole::Found { price, on, proved } => {
                if best.as_ref().is_none_or(|(least, _)| price < least - 1e-9) {
                    best = Some((price, on));
                    by = "an integer program of roles and hosts";
                }
                if proved {
                    bound = best.as_ref().map_or(bound, |(least, _)| *least);
                }
            }
            Whole::None if best.is_none() => return Err(NoPlacement::Proved { at_once, hint }),
            Whole::None | Whole::Unknown => {}
        }
    }
    let Some((price, on)) = best else {
        return Err(NoPlacement::NotFound { seconds: began.elapsed().as_secs_f64(), hint });
    };
    let bound = bound.min(price);
    let floor = if at_once { covering(question, &state, &question.own_demands(), time / 8) } else { bound };
    Ok(Placement { on, price, bound, floor: floor.min(bound), by: by.to_owned() })
}

/// What is plainly impossible, with the reason.
fn impossible(question: &Question) -> Result<(), NoPlacement> {
    let demands = question.demands();
    for (k, resource) in RESOURCES.iter().enumerate() {
        let most = question.hosts.iter().map(|host| host.ceiling[k] * question.fill).fold(0.0, f64::max);
        for (role, demand) in question.roles.iter().zip(&demands) {
            if demand[k] > most + 1e-9 {
                return Err(NoPlacement::TooLarge {
                    role: role.name.clone(),
                    resource,
                    need: demand[k],
                    most,
                });
            }
        }
        let need: f64 = demands.iter().map(|demand| demand[k]).sum();
        let have: f64 = question.hosts.iter().map(|host| host.ceiling[k] * question.fill).sum();
        if need > have + 1e-9 {
            let own = question.roles.iter().map(|role| role.demand[k]).sum();
            return Err(NoPlacement::TooMuch { resource, need, own, have });
        }
    }
    for (group, members) in question.groups() {
        if members.len() > question.hosts.len() {
            let (group, members, hosts) = (group.to_owned(), members.len(), question.hosts.len());
            return Err(NoPlacement::Spread { group, members, hosts });
        }
    }
    Ok(())
}

/// What the search needs of a question, worked out once.
struct State<'a> {
    question: &'a Question,
    demands: Vec<Resources>,
    usable: Vec<Resources>,
    group: Vec<Option<usize>>,
    most_in_zone: Vec<usize>,
    zone: Vec<usize>,
    zones: usize,
    dominant: Vec<usize>,
}

/// Hosts as they are filled.
struct Filled {
    on: Vec<Option<usize>>,
    left: Vec<Resources>,
    here: Vec<Vec<usize>>,
    in_zone: Vec<Vec<usize>>,
}

impl<'a> State<'a> {
    fn new(question: &'a Question) -> Self {
        let names: Vec<(&str, Vec<usize>)> = question.groups().into_iter().collect();
        let place = |role: usize| names.iter().position(|(_, members)| members.contains(&role));
        let mut zones: BTreeMap<&str, usize> = BTreeMap::new();
        for host in &question.hosts {
            let next = zones.len();
            zones.entry(&host.zone).or_insert(next);
        }
        Self {
            demands: question.demands(),
            usable: (0..question.hosts.len()).map(|host| question.usable(host)).collect(),
            group: (0..question.roles.len()).map(place).collect(),
            most_in_zone: names.iter().map(|(_, members)| question.most_in_zone(members.len())).collect(),
            zone: question.hosts.iter().map(|host| zones[host.zone.as_str()]).collect(),
            zones: zones.len(),
            dominant: (0..question.roles.len()).map(|role| question.dominant(role)).collect(),
            question,
        }
    }

    fn empty(&self) -> Filled {
        Filled {
            on: vec![None; self.demands.len()],
            left: self.usable.clone(),
            here: vec![Vec::new(); self.usable.len()],
            in_zone: vec![vec![0; self.zones]; self.most_in_zone.len()],
        }
    }

    fn fits(&self, filled: &Filled, role: usize, host: usize) -> bool {
        let room = (0..5).all(|k| self.demands[role][k] <= filled.left[host][k] + 1e-9);
        let alone = self.group[role].is_none_or(|group| {
            filled.in_zone[group][self.zone[host]] < self.most_in_zone[group]
                && !filled.here[host].iter().any(|other| self.group[*other] == Some(group))
        });
        let apart = !self.question.apart
            || !filled.here[host].iter().any(|other| self.dominant[*other] == self.dominant[role]);
        room && alone && apart
    }

    fn put(&self, filled: &mut Filled, role: usize, host: usize) {
        filled.on[role] = Some(host);
        filled.here[host].push(role);
        for k in 0..5 {
            filled.left[host][k] -= self.demands[role][k];
        }
        if let Some(group) = self.group[role] {
            filled.in_zone[group][self.zone[host]] += 1;
        }
    }

    fn take(&self, filled: &mut Filled, role: usize) {
        let Some(host) = filled.on[role].take() else { return };
        filled.here[host].retain(|other| *other != role);
        for k in 0..5 {
            filled.left[host][k] += self.demands[role][k];
        }
        if let Some(group) = self.group[role] {
            filled.in_zone[group][self.zone[host]] -= 1;
        }
    }

    /// The largest share that a role takes of a usual host.
    fn size(&self, role: usize) -> f64 {
        let hosts = self.usable.len() as f64;
        let share = |k: usize| {
            let mean = self.usable.iter().map(|host| host[k]).sum::<f64>() / hosts;
            if mean > 0.0 { self.demands[role][k] / mean } else { 0.0 }
        };
        (0..5).map(share).fold(0.0, f64::max) + 0.2 * (0..5).map(share).sum::<f64>()
    }

    /// What a host costs for each part of a usual one.
    fn dearness(&self, host: usize) -> f64 {
        let hosts = self.usable.len() as f64;
        let share = |k: usize| {
            let mean = self.usable.iter().map(|one| one[k]).sum::<f64>() / hosts;
            if mean > 0.0 { self.usable[host][k] / mean } else { 1.0 }
        };
        self.question.hosts[host].price / (0..5).map(share).sum::<f64>().max(1e-9)
    }

    /// All roles placed, the large ones first; later orders are shuffled more.
    fn fill(&self, order: u64) -> Option<Assignment> {
        let mut random = Shuffle(order.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        let blur = if order == 0 { 0.0 } else { 0.15 + 0.02 * order as f64 };
        let mut roles: Vec<(f64, usize)> = (0..self.demands.len())
            .map(|role| (self.size(role) * (1.0 + blur * random.next()), role))
            .collect();
        roles.sort_by(|a, b| b.0.total_cmp(&a.0));
        let mut hosts: Vec<(f64, usize)> = (0..self.usable.len())
            .map(|host| (self.dearness(host) * (1.0 + blur * random.next()), host))
            .collect();
        hosts.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut filled = self.empty();
        for (_, role) in roles {
            let open = hosts.iter().map(|(_, host)| *host).filter(|host| !filled.here[*host].is_empty());
            let best = open
                .filter(|host| self.fits(&filled, role, *host))
                .max_by(|a, b| self.alike(&filled, role, *a).total_cmp(&self.alike(&filled, role, *b)));
            let fresh = || {
                let closed = hosts.iter().map(|(_, host)| *host).filter(|host| filled.here[*host].is_empty());
                closed.into_iter().find(|host| self.fits(&filled, role, *host))
            };
            let host = best.or_else(fresh).or_else(|| self.displaced(&mut filled, role))?;
            self.put(&mut filled, role, host);
        }
        filled.on.into_iter().collect()
    }

    /// Makes room for a role by moving one other away.
    fn displaced(&self, filled: &mut Filled, role: usize) -> Option<usize> {
        for host in 0..self.usable.len() {
            for other in filled.here[host].clone() {
                self.take(filled, other);
                if self.fits(filled, role, host) {
                    self.put(filled, role, host);
                    let to = (0..self.usable.len()).find(|to| *to != host && self.fits(filled, other, *to));
                    self.take(filled, role);
                    if let Some(to) = to {
                        self.put(filled, other, to);
                        return Some(host);
                    }
                }
                self.put(filled, other, host);
            }
        }
        None
    }

    /// How much a role's demand is like what a host has left (the dot product of Panigrahy et al. 2011).
    fn alike(&self, filled: &Filled, role: usize, host: usize) -> f64 {
        let part = |k: usize| {
            let all = self.usable[host][k].max(1e-9);
            self.demands[role][k] / all * filled.left[host][k] / all
        };
        let left: f64 = (0..5).map(|k| filled.left[host][k] / self.usable[host][k].max(1e-9)).sum();
        (0..5).map(part).sum::<f64>() / left.max(1e-9)
    }

    /// The same with hosts emptied, the dearest first, where their roles fit elsewhere.
    fn emptied(&self, on: &[usize], began: Instant, time: Duration) -> Assignment {
        let mut filled = self.empty();
        for (role, host) in on.iter().enumerate() {
            self.put(&mut filled, role, *host);
        }
        let mut again = true;
        while again && began.elapsed() < time {
            again = false;
            let mut used: Vec<usize> =
                (0..self.usable.len()).filter(|host| !filled.here[*host].is_empty()).collect();
            used.sort_by(|a, b| self.question.hosts[*b].price.total_cmp(&self.question.hosts[*a].price));
            for host in used {
                if self.empty_one(&mut filled, host) || self.exchange(&mut filled, host) {
                    again = true;
                    break;
                }
            }
        }
        filled.on.into_iter().flatten().collect()
    }

    /// Moves all roles of a host to others that are used.
    fn empty_one(&self, filled: &mut Filled, host: usize) -> bool {
        let mut moved: Vec<usize> = filled.here[host].clone();
        moved.sort_by(|a, b| self.size(*b).total_cmp(&self.size(*a)));
        for role in &moved {
            self.take(filled, *role);
        }
        for role in &moved {
            let to = (0..self.usable.len())
                .filter(|to| *to != host && !filled.here[*to].is_empty() && self.fits(filled, *role, *to))
                .max_by(|a, b| self.alike(filled, *role, *a).total_cmp(&self.alike(filled, *role, *b)));
            let Some(to) = to else {
                for role in moved {
                    self.take(filled, role);
                    self.put(filled, role, host);
                }
                return false;
            };
            self.put(filled, *role, to);
        }
        true
    }

    /// Moves all roles of a host to a cheaper one that is not used.
    fn exchange(&self, filled: &mut Filled, host: usize) -> bool {
        let roles = filled.here[host].clone();
        for role in &roles {
            self.take(filled, *role);
        }
        let cheaper = (0..self.usable.len()).filter(|to| {
            filled.here[*to].is_empty()
                && self.question.hosts[*to].price < self.question.hosts[host].price - 1e-9
        });
        let mut cheaper: Vec<usize> = cheaper.collect();
        cheaper.sort_by(|a, b| self.question.hosts[*a].price.total_cmp(&self.question.hosts[*b].price));
        for to in cheaper {
            let mut all = true;
            for (at, role) in roles.iter().enumerate() {
                if !self.fits(filled, *role, to) {
                    roles[..at].iter().for_each(|role| self.take(filled, *role));
                    all = false;
                    break;
                }
                self.put(filled, *role, to);
            }
            if all {
                return true;
            }
        }
        for role in roles {
            self.put(filled, role, host);
        }
        false
    }
}

/// The cheapest hosts that together have enough of each resource for these demands of the roles, and enough
/// hosts for the largest group: a bound.
fn covering(question: &Question, state: &State<'_>, demands: &[Resources], time: Duration) -> f64 {
    let mut variables = ProblemVariables::new();
    let used: Vec<Variable> = question.hosts.iter().map(|_| variables.add(variable().binary())).collect();
    let price: Expression = used.iter().zip(&question.hosts).map(|(y, host)| *y * host.price).sum();
    let mut problem = variables.minimise(price).using(microlp).with_time_limit(time.as_secs_f64().max(0.1));
    for k in 0..5 {
        let need: f64 = demands.iter().map(|demand| demand[k]).sum();
        if need > 0.0 {
            let have: Expression = used.iter().zip(&state.usable).map(|(y, usable)| *y * usable[k]).sum();
            problem = problem.with(constraint!(have >= need - 1e-9));
        }
    }
    let group = question.groups().values().map(Vec::len).max().unwrap_or(0);
    let mut least = group.max(usize::from(!question.roles.is_empty()));
    if question.apart {
        // Each resource is the dominant one of at most one role a host.
        let kinds = (0..5).map(|k| state.dominant.iter().filter(|one| **one == k).count());
        least = least.max(kinds.max().unwrap_or(0));
    }
    let count: Expression = used.iter().map(|y| Expression::from(*y)).sum();
    problem = problem.with(constraint!(count >= least as f64));
    match problem.solve() {
        Ok(found) if matches!(found.status(), SolutionStatus::Optimal) => {
            used.iter().zip(&question.hosts).map(|(y, host)| found.value(*y).round() * host.price).sum()
        }
        // Not solved in time: no bound but that the dearest need costs at least its share.
        _ => (0..5).map(|k| fractional(question, state, demands, k)).fold(0.0, f64::max),
    }
}

/// The price of enough of one resource, where parts of hosts were sold.
fn fractional(question: &Question, state: &State<'_>, demands: &[Resources], k: usize) -> f64 {
    let mut need: f64 = demands.iter().map(|demand| demand[k]).sum();
    let mut hosts: Vec<usize> = (0..state.usable.len()).filter(|host| state.usable[*host][k] > 0.0).collect();
    let per = |host: &usize| question.hosts[*host].price / state.usable[*host][k];
    hosts.sort_by(|a, b| per(a).total_cmp(&per(b)));
    let mut price = 0.0;
    for host in hosts {
        let part = (need / state.usable[host][k]).clamp(0.0, 1.0);
        price += part * question.hosts[host].price;
        need -= part * state.usable[host][k];
    }
    price
}

enum Whole {
    Found {
        price: f64,
        on: Assignment,
        proved: bool,
    },
    /// Proved.
    None,
    Unknown,
}

/// The whole question as an integer program.
fn whole(question: &Question, state: &State<'_>, start: Option<&(f64, Assignment)>, time: Duration) -> Whole {
    let (roles, hosts) = (question.roles.len(), question.hosts.len());
    let mut variables = ProblemVariables::new();
    let used: Vec<Variable> = (0..hosts).map(|_| variables.add(variable().binary())).collect();
    let on: Vec<Vec<Variable>> =
        (0..roles).map(|_| (0..hosts).map(|_| variables.add(variable().binary())).collect()).collect();
    let price: Expression = used.iter().zip(&question.hosts).map(|(y, host)| *y * host.price).sum();
    let mut problem = variables.minimise(price).using(microlp).with_time_limit(time.as_secs_f64().max(0.1));
    for row in &on {
        let once: Expression = row.iter().map(|x| Expression::from(*x)).sum();
        problem = problem.with(constraint!(once == 1.0));
    }
    for host in 0..hosts {
        for k in 0..5 {
            let load: Expression = (0..roles).map(|role| on[role][host] * state.demands[role][k]).sum();
            problem = problem.with(constraint!(load <= state.usable[host][k] * used[host]));
        }
        // A role only on a host that is used: tightens the relaxation.
        for row in &on {
            problem = problem.with(constraint!(row[host] <= used[host]));
        }
        if question.apart {
            for k in 0..5 {
                let same: Expression = (0..roles)
                    .filter(|role| state.dominant[*role] == k)
                    .map(|role| Expression::from(on[role][host]))
                    .sum();
                problem = problem.with(constraint!(same <= used[host]));
            }
        }
    }
    for (group, most) in state.most_in_zone.iter().enumerate() {
        let members = || (0..roles).filter(|role| state.group[*role] == Some(group));
        for host in 0..hosts {
            let here: Expression = members().map(|role| Expression::from(on[role][host])).sum();
            problem = problem.with(constraint!(here <= used[host]));
        }
        for zone in 0..state.zones {
            let there = members().flat_map(|role| {
                (0..hosts).filter(|host| state.zone[*host] == zone).map(move |host| (role, host))
            });
            let there: Expression = there.map(|(role, host)| Expression::from(on[role][host])).sum();
            problem = problem.with(constraint!(there <= *most as f64));
        }
    }
    if let Some((_, start)) = start {
        let mut values: Vec<(Variable, f64)> = used
            .iter()
            .enumerate()
            .map(|(host, y)| (*y, f64::from(u8::from(start.contains(&host)))))
            .collect();
        for (role, row) in on.iter().enumerate() {
            values.extend(
                row.iter().enumerate().map(|(host, x)| (*x, f64::from(u8::from(start[role] == host)))),
            );
        }
        problem = problem.with_initial_solution(values);
    }
    match problem.solve() {
        Ok(found) => {
            let proved = matches!(found.status(), SolutionStatus::Optimal);
            let on = on.iter().map(|row| row.iter().position(|x| found.value(*x) > 0.5));
            match on.collect::<Option<Assignment>>().filter(|on| super::check(question, on).is_empty()) {
                Some(on) => Whole::Found { price: question.price(&on), on, proved },
                // What the solver's tolerance let pass is no answer.
                None => Whole::Unknown,
            }
        }
        Err(ResolutionError::Infeasible) => Whole::None,
        Err(_) => Whole::Unknown,
    }
}

/// Numbers from 0 to 1 (xorshift): the same for the same order, so that an answer can be repeated.
struct Shuffle(u64);

impl Shuffle {
    fn next(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Host, Role, check};
    use super::*;
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    fn role(name: &str, group: Option<&str>, cpu: f64, memory: f64) -> Role {
        Role {
            name: name.to_owned(),
            group: group.map(str::to_owned),
            demand: [cpu, memory, 100.0, 10.0, 1.0],
        }
    }

    fn host(name: &str, zone: &str, size: f64, price: f64) -> Host {
        let ceiling = [8.0 * size, 64.0 * size, 4000.0 * size, 400.0 * size, 1000.0];
        Host { name: name.to_owned(), zone: zone.to_owned(), ceiling, price, watts: None, work: None }
    }

    fn random(seed: u64, roles: usize, hosts: usize) -> Question {
        let mut rng = StdRng::seed_from_u64(seed);
        let zones = ["a", "b", "c"];
        Question {
            roles: (0..roles)
                .map(|at| {
                    let group = rng.random_bool(0.4).then(|| format!("g{}", at / 3));
                    let mut one = role(
                        &format!("r{at}"),
                        group.as_deref(),
                        rng.random_range(0.3..3.0),
                        rng.random_range(2.0..24.0),
                    );
                    one.demand[2] = rng.random_range(10.0..1200.0);
                    one
                })
                .collect(),
            hosts: (0..hosts)
                .map(|at| {
                    host(
                        &format!("h{at}"),
                        zones[at % 3],
                        rng.random_range(0.7..1.6),
                        f64::from(rng.random_range(50..200)),
                    )
                })
                .collect(),
            fill: 0.8,
            apart: false,
        }
    }

    /// The cheapest price by trying every set of hosts from the cheapest on; `None` where none holds all.
    fn exhaustive(question: &Question) -> Option<f64> {
        let hosts = question.hosts.len();
        let mut sets: Vec<(f64, usize)> = (1..1_usize << hosts)
            .map(|set| {
                ((0..hosts).filter(|at| set >> at & 1 == 1).map(|at| question.hosts[at].price).sum(), set)
            })
            .collect();
        sets.sort_by(|a, b| a.0.total_cmp(&b.0));
        let state = State::new(question);
        let found = sets.iter().find(|(_, set)| try_all(&state, &mut state.empty(), *set, 0));
        found.map(|(price, _)| *price)
    }

    fn try_all(state: &State<'_>, filled: &mut Filled, set: usize, role: usize) -> bool {
        if role == state.demands.len() {
            return true;
        }
        for host in (0..state.usable.len()).filter(|host| set >> host & 1 == 1) {
            if state.fits(filled, role, host) {
                state.put(filled, role, host);
                let all = try_all(state, filled, set, role + 1);
                state.take(filled, role);
                if all {
                    return true;
                }
            }
        }
        false
    }

    #[test]
    fn small_questions_are_answered_as_by_exhaustive_search() {
        for seed in 0..40 {
            let question = random(seed, 6, 5);
            let found = solve(&question, Duration::from_secs(20));
            match exhaustive(&question) {
                Some(price) => {
                    let found =
                        found.unwrap_or_else(|error| panic!("seed {seed}: {error}, and {price} is possible"));
                    assert!(
                        (found.price - price).abs() < 1e-6,
                        "seed {seed}: {} and not {price} ({})",
                        found.price,
                        found.by
                    );
                    assert_eq!(check(&question, &found.on), Vec::<String>::new(), "seed {seed}");
                }
                None => assert!(found.is_err(), "seed {seed}"),
            }
        }
    }

    #[test]
    fn a_group_is_spread_over_hosts_and_zones_and_survives_a_host() {
        let roles =
            vec![role("x1", Some("x"), 2.0, 8.0), role("x2", Some("x"), 2.0, 8.0), role("y", None, 1.0, 8.0)];
        let hosts = vec![host("a1", "a", 1.0, 10.0), host("a2", "a", 1.0, 10.0), host("b1", "b", 1.0, 30.0)];
        let question = Question { roles, hosts, fill: 0.8, apart: false };
        let found = solve(&question, Duration::from_secs(5)).unwrap();
        assert_eq!(found.price, 40.0, "a second host in zone a would be cheaper, and die with it");
        assert!(found.is_best());
        // Each reader alone needs 2 cores, with the other's part 4.
        assert_eq!(question.demands()[0][0], 4.0);
    }

    #[test]
    fn take_overs_are_counted_at_once_and_no_bound_is_claimed_for_another_count() {
        // Three pairs on three hosts of 8 cores. At once each host of two roles has 2 x (1.6 + 1.6) = 6.4.
        let pair = |group: &str| [0, 1].map(|at| role(&format!("{group}{at}"), Some(group), 1.6, 1.0));
        let hosts = |size: f64| ["a", "b", "c"].map(|zone| host(zone, zone, size, 10.0)).to_vec();
        let of = |hosts: Vec<Host>| Question {
            roles: ["x", "y", "z"].into_iter().flat_map(pair).collect(),
            hosts,
            fill: 0.8,
            apart: false,
        };
        let question = of(hosts(1.0));
        assert!(question.takes_over());
        let found = solve(&question, Duration::from_secs(5)).unwrap();
        assert_eq!((found.price, found.bound, found.floor), (30.0, 30.0, 20.0));
        // One failure at a time leaves room for less: each host takes over from each other host once.
        let tight = of(hosts(0.8));
        assert_eq!(check(&tight, &[0, 1, 1, 2, 2, 0]), Vec::<String>::new());
        let why = solve(&tight, Duration::from_secs(5)).unwrap_err();
        assert!(
            why.to_string().ends_with(
                "(9.60 without what they take over from each other: that is counted at once, although one host fails at a time)"
            ),
            "{why}"
        );
        // Where nothing is taken over there is one count.
        let alone = Question { roles: vec![role("p", None, 1.0, 1.0)], ..of(hosts(1.0)) };
        let found = solve(&alone, Duration::from_secs(5)).unwrap();
        assert!(!alone.takes_over() && found.is_best() && found.floor == found.price);
    }

    #[test]
    fn what_cannot_be_is_said_with_its_reason() {
        let hosts = vec![host("a1", "a", 1.0, 10.0)];
        let large = Question {
            roles: vec![role("big", None, 7.0, 1.0)],
            hosts: hosts.clone(),
            fill: 0.8,
            apart: false,
        };
        let why = solve(&large, Duration::from_secs(5)).unwrap_err().to_string();
        assert!(
            why.contains("big fits on no host: it needs 7.00 of cpu, and the most that a host gives is 6.40"),
            "{why}"
        );
        let two = vec![role("x1", Some("x"), 1.0, 1.0), role("x2", Some("x"), 1.0, 1.0)];
        let spread = Question { roles: two, hosts: hosts.clone(), fill: 0.8, apart: false };
        assert!(solve(&spread, Duration::from_secs(5)).unwrap_err().to_string().contains("different hosts"));
        let same = vec![role("p", None, 1.0, 1.0), role("q", None, 1.0, 1.0)];
        let apart = Question { roles: same, hosts, fill: 0.8, apart: true };
        assert!(matches!(solve(&apart, Duration::from_secs(5)), Err(NoPlacement::Proved { .. })));
    }

    #[test]
    fn a_large_question_is_answered_with_a_gap() {
        let question = random(3, 120, 60);
        let found = solve(&question, Duration::from_secs(8)).unwrap();
        assert_eq!(check(&question, &found.on), Vec::<String>::new());
        assert!(found.gap() < 0.25, "{} {}", found.price, found.bound);
    }
}
