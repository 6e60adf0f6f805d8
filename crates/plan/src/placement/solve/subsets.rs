//! The cheapest set of hosts that holds all roles, by trying sets from the cheapest on: for few hosts, where
//! there are some thousand sets at most.
//!
//! A set is refuted when its hosts together have too little of a resource, when it is part of a set that was
//! refuted before, or when a search over all its assignments ends without one. That search takes the role
//! with the fewest hosts left first, and gives up at its share of the time: then the set stays open, and the
//! bound is the price of the cheapest open one.

use super::{Assignment, Filled, State};
use std::time::{Duration, Instant};

/// More hosts than this have too many sets.
pub(super) const MOST_HOSTS: usize = 16;
/// The clock is read after this number of steps.
const STEPS: u32 = 512;

/// What the search came to.
pub(super) struct Found {
    /// The cheapest placement, where one cheaper than the one before was found.
    pub(super) on: Option<Assignment>,
    /// No placement is cheaper.
    pub(super) bound: f64,
}

/// Searches below the price of the best placement that is known.
pub(super) fn search(state: &State<'_>, best: Option<f64>, time: Duration) -> Found {
    let (began, hosts) = (Instant::now(), state.usable.len());
    let price = |set: u32| -> f64 {
        (0..hosts).filter(|host| set >> host & 1 == 1).map(|host| state.question.hosts[host].price).sum()
    };
    let mut best_price = best.unwrap_or(f64::INFINITY);
    let mut sets: Vec<(f64, u32)> = (1..1_u32 << hosts)
        .map(|set| (price(set), set))
        .filter(|(price, set)| *price < best_price - 1e-9 && enough(state, *set))
        .collect();
    sets.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (mut refuted, mut open, mut on): (Vec<u32>, Option<f64>, _) = (Vec::new(), None, None);
    let count = sets.len();
    let sizes: Vec<f64> = (0..state.demands.len()).map(|role| state.size(role)).collect();
    for (at, (price, set)) in sets.into_iter().enumerate() {
        if refuted.iter().any(|larger| set & larger == set) {
            continue;
        }
        let left = time.saturating_sub(began.elapsed());
        // Half of what is left for one set as long as there are others.
        let share = if at + 1 < count { left / 2 } else { left };
        let until = Instant::now() + share;
        let mut search = Search { state, sizes: &sizes, set, until, steps: 0, out_of_time: left.is_zero() };
        let mut filled = state.empty();
        let holds = !search.out_of_time && search.place(&mut filled);
        if holds {
            (best_price, on) = (price, filled.on.into_iter().collect());
            break;
        }
        if search.out_of_time {
            open = open.or(Some(price));
        } else {
            refuted.push(set);
        }
    }
    Found { on, bound: open.unwrap_or(best_price) }
}

/// Whether the hosts of a set have enough of each resource together.
fn enough(state: &State<'_>, set: u32) -> bool {
    (0..5).all(|k| {
        let have: f64 = state
            .usable
            .iter()
            .enumerate()
            .filter(|(host, _)| set >> host & 1 == 1)
            .map(|(_, one)| one[k])
            .sum();
        state.demands.iter().map(|demand| demand[k]).sum::<f64>() <= have + 1e-9
    })
}

struct Search<'a> {
    state: &'a State<'a>,
    /// Of the roles.
    sizes: &'a [f64],
    set: u32,
    until: Instant,
    steps: u32,
    out_of_time: bool,
}

impl Search<'_> {
    /// Places what is left; `filled` is as before where that cannot be.
    fn place(&mut self, filled: &mut Filled) -> bool {
        self.steps += 1;
        if self.steps.is_multiple_of(STEPS) && Instant::now() > self.until {
            self.out_of_time = true;
        }
        if self.out_of_time || !self.room(filled) {
            return false;
        }
        let Some((role, hosts)) = self.hardest(filled) else { return true };
        for host in hosts {
            self.state.put(filled, role, host);
            if self.place(filled) {
                return true;
            }
            self.state.take(filled, role);
            if self.out_of_time {
                return false;
            }
        }
        false
    }

    /// Whether what is left of all hosts is enough for what is left of all roles.
    fn room(&self, filled: &Filled) -> bool {
        let left = || (0..self.state.usable.len()).filter(|host| self.set >> host & 1 == 1);
        (0..5).all(|k| {
            let have: f64 = left().map(|host| filled.left[host][k].max(0.0)).sum();
            let open = filled.on.iter().zip(&self.state.demands).filter(|(on, _)| on.is_none());
            open.map(|(_, demand)| demand[k]).sum::<f64>() <= have + 1e-6
        })
    }

    /// The role with the fewest hosts that still take it, the larger first; those hosts, the fullest first.
    fn hardest(&self, filled: &Filled) -> Option<(usize, Vec<usize>)> {
        let state = self.state;
        let mut hardest: Option<(usize, f64, usize, Vec<usize>)> = None;
        for role in (0..state.demands.len()).filter(|role| filled.on[*role].is_none()) {
            let mut hosts: Vec<usize> = (0..state.usable.len())
                .filter(|host| self.set >> host & 1 == 1 && state.fits(filled, role, *host))
                .collect();
            let size = self.sizes[role];
            let harder = hardest.as_ref().is_none_or(|(count, larger, ..)| {
                hosts.len() < *count || hosts.len() == *count && size > *larger
            });
            if harder {
                hosts.sort_by(|a, b| state.alike(filled, role, *b).total_cmp(&state.alike(filled, role, *a)));
                hardest = Some((hosts.len(), size, role, hosts));
            }
            if hardest.as_ref().is_some_and(|(count, ..)| *count == 0) {
                break;
            }
        }
        hardest.map(|(_, _, role, hosts)| (role, hosts))
    }
}
