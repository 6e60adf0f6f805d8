//! Which role runs on which host: the cheapest set of hosts that carries all roles.
//!
//! A role has a demand in five resources, measured at its 95th percentile; a host has ceilings, and a
//! share of them (`fill`) may be used. The rules:
//!
//! 1. No host carries more than its share in any resource.
//! 2. Roles of one group (the readers of one database) are on different hosts, and spread over zones as
//!    evenly as whole roles allow: at most ceil(k / zones) in one.
//! 3. The failure of any one host is survived: the k - 1 roles of a group that are left take over equal
//!    parts of a lost one (of cpu, iops, bandwidth and network; memory stays). Each role is counted with the
//!    most that it may take over, all roles of a host **at once**, although one host fails at a time. That is
//!    linear and never too little; it is too much where the take-overs of one host come from several others,
//!    so that a placement that counts failures one by one may be cheaper. A role without a group has nobody
//!    to take over; the answer names it.
//! 4. Two roles that want most of the same resource are not put together, if the question says so (after
//!    Hatena 2009: different kinds of role share a host, the same kind never).
//!
//! **How it is solved.** First-fit and best-fit in several orders, then hosts are emptied one after the
//! other: that gives a placement. A small integer program gives a bound: the cheapest hosts that together
//! have enough of each resource. Where both cost the same, the placement is the best there is. Else the whole
//! is given to an integer program (good_lp on microlp), where it is small enough, for as long as is allowed;
//! what is left between the placement and the best bound is the *gap*, and is part of the answer. The bound
//! is of placements that are counted so; the *floor* is below all that survive a failure, however it is
//! counted. A placement is checked by [`check`], which shares no code with what made it and counts failures
//! one by one.

mod solve;

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

pub use solve::solve;

/// Resources in the order of a demand.
pub const RESOURCES: [&str; 5] = ["cpu", "memory", "iops", "mb_s", "network"];
/// Those that grow when a role takes over from another: all but memory.
const GROWS: [bool; 5] = [true, false, true, true, true];
/// Demands and ceilings.
pub type Resources = [f64; 5];
/// What rounding may add.
const DUST: f64 = 1e-6;

/// Something that runs on one host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Role {
    /// Its name.
    pub name: String,
    /// Roles of one group stand in for each other.
    pub group: Option<String>,
    /// At the 95th percentile: cores, GiB, operations a second, MB a second, MB a second.
    pub demand: Resources,
}

/// Where roles run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Host {
    /// Its name.
    pub name: String,
    /// Where it stands.
    pub zone: String,
    /// The most it can do, as demands.
    pub ceiling: Resources,
    /// What it costs, in any unit that all share.
    pub price: f64,
    /// What it draws.
    pub watts: Option<f64>,
    /// What it gets done, such as transactions a second at the objective.
    pub work: Option<f64>,
}

/// What is asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Question {
    /// What has to run.
    pub roles: Vec<Role>,
    /// What is there.
    pub hosts: Vec<Host>,
    /// Share of a ceiling that may be used.
    pub fill: f64,
    /// Rule 4.
    pub apart: bool,
}

/// Role by role, the host.
pub type Assignment = Vec<usize>;

/// An answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Placement {
    /// Role by role, the number of its host.
    pub on: Assignment,
    /// Of the hosts that are used.
    pub price: f64,
    /// No placement that is counted with all take-overs at once is cheaper than this.
    pub bound: f64,
    /// No placement at all is cheaper than this: the cheapest hosts that have enough for what roles want by
    /// themselves. The bound, where nothing is taken over.
    pub floor: f64,
    /// How it was found.
    pub by: String,
}

impl Placement {
    /// How much cheaper the best may be, as a share of this one's price.
    pub fn gap(&self) -> f64 {
        if self.price > 0.0 { ((self.price - self.bound) / self.price).max(0.0) } else { 0.0 }
    }

    /// Whether none that is counted in the same way is cheaper.
    pub fn is_best(&self) -> bool {
        self.gap() < 1e-6
    }
}

/// How take-overs are counted, after what is said of the rules.
const AT_ONCE: &str = " when all that roles take over is counted at once, although one host fails at a time";

/// What stands behind a need that has take-overs in it.
fn without_take_overs(own: f64, need: f64) -> String {
    match own < need {
        true => format!(
            " ({own:.2} without what they take over from each other: that is counted at once, although one host fails at a time)"
        ),
        false => String::new(),
    }
}

/// Why there is no placement.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum NoPlacement {
    /// One role alone is too large.
    #[error(
        "{role} fits on no host: it needs {need:.2} of {resource}, and the most that a host gives is {most:.2}"
    )]
    TooLarge {
        /// Which.
        role: String,
        /// Of what.
        resource: &'static str,
        /// With what it takes over.
        need: f64,
        /// The largest host's usable part.
        most: f64,
    },
    /// All hosts together are too small.
    #[error(
        "all hosts together give {have:.2} of {resource}, and the roles need {need:.2}{}",
        without_take_overs(*own, *need)
    )]
    TooMuch {
        /// Of what.
        resource: &'static str,
        /// By all roles, with what they take over.
        need: f64,
        /// The same without what they take over.
        own: f64,
        /// On all hosts.
        have: f64,
    },
    /// A group cannot be spread.
    #[error("group {group} has {members} roles, which must be on different hosts: there are {hosts}")]
    Spread {
        /// Which.
        group: String,
        /// Roles of it.
        members: usize,
        /// Hosts.
        hosts: usize,
    },
    /// Proved by the solver.
    #[error("no placement keeps all rules{}{hint}", if *at_once { AT_ONCE } else { "" })]
    Proved {
        /// Roles take over from each other: proved of placements that are counted with all of it at once.
        at_once: bool,
        /// What could be given up.
        hint: &'static str,
    },
    /// Not found in time, and not proved impossible.
    #[error(
        "none was found in {seconds:.0} s, and it is not proved that there is none; allow more time{hint}"
    )]
    NotFound {
        /// How long was searched.
        seconds: f64,
        /// What could be given up.
        hint: &'static str,
    },
}

impl Question {
    /// Members of each group.
    pub fn groups(&self) -> BTreeMap<&str, Vec<usize>> {
        let mut groups: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (at, role) in self.roles.iter().enumerate() {
            if let Some(group) = &role.group {
                groups.entry(group).or_default().push(at);
            }
        }
        groups
    }

    /// Role by role, the demand without what it takes over.
    pub fn own_demands(&self) -> Vec<Resources> {
        self.roles.iter().map(|role| role.demand).collect()
    }

    /// Whether any role takes anything over from another.
    pub fn takes_over(&self) -> bool {
        self.demands() != self.own_demands()
    }

    /// Role by role, the demand with the most that it takes over when another of its group is lost.
    pub fn demands(&self) -> Vec<Resources> {
        let groups = self.groups();
        let most = |members: &[usize], k: usize| {
            members.iter().map(|role| self.roles[*role].demand[k]).fold(0.0, f64::max)
        };
        let each = self.roles.iter().enumerate().map(|(at, role)| {
            let mates =
                role.group.as_deref().map(|group| groups[group].iter().copied().filter(|mate| *mate != at));
            let mates: Vec<usize> = mates.into_iter().flatten().collect();
            let over = |k: usize| {
                if GROWS[k] && !mates.is_empty() { most(&mates, k) / mates.len() as f64 } else { 0.0 }
            };
            std::array::from_fn(|k| role.demand[k] + over(k))
        });
        each.collect()
    }

    /// What a host may be filled with.
    pub fn usable(&self, host: usize) -> Resources {
        self.hosts[host].ceiling.map(|ceiling| ceiling * self.fill)
    }

    /// The resource that a role wants most of, as a share of what the hosts have on average.
    pub fn dominant(&self, role: usize) -> usize {
        let hosts = self.hosts.len().max(1) as f64;
        let share = |k: usize| {
            let mean = self.hosts.iter().map(|host| host.ceiling[k]).sum::<f64>() / hosts;
            if mean > 0.0 { self.roles[role].demand[k] / mean } else { 0.0 }
        };
        (0..5).max_by(|a, b| share(*a).total_cmp(&share(*b))).unwrap_or(0)
    }

    /// Zones, and how many roles of a group of this size may be in one.
    pub fn most_in_zone(&self, members: usize) -> usize {
        let zones: std::collections::BTreeSet<&str> =
            self.hosts.iter().map(|host| host.zone.as_str()).collect();
        members.div_ceil(zones.len().max(1))
    }

    /// The price of the hosts that an assignment uses.
    pub fn price(&self, on: &[usize]) -> f64 {
        let used: std::collections::BTreeSet<usize> = on.iter().copied().collect();
        used.iter().map(|host| self.hosts[*host].price).sum()
    }
}

/// Which rules an assignment breaks, in words; empty when it keeps all.
pub fn check(question: &Question, on: &[usize]) -> Vec<String> {
    let mut broken = Vec::new();
    if on.len() != question.roles.len() || on.iter().any(|host| *host >= question.hosts.len()) {
        return vec!["not every role has a host".to_owned()];
    }
    for (at, host) in question.hosts.iter().enumerate() {
        let here: Vec<usize> = (0..on.len()).filter(|role| on[*role] == at).collect();
        // By the failure of each other host, role by role: what is really taken over.
        for failed in (0..question.hosts.len()).map(Some).chain([None]).filter(|failed| *failed != Some(at)) {
            for (k, resource) in RESOURCES.iter().enumerate() {
                let load: f64 = here.iter().map(|role| taken(question, on, *role, failed, k)).sum();
                if load > host.ceiling[k] * question.fill * (1.0 + DUST) + DUST {
                    broken.push(format!(
                        "{} has {load:.2} of {resource}, and may have {:.2}",
                        host.name,
                        host.ceiling[k] * question.fill
                    ));
                }
            }
        }
        for (n, a) in here.iter().enumerate() {
            for b in &here[n + 1..] {
                let (one, two) = (&question.roles[*a], &question.roles[*b]);
                if one.group.is_some() && one.group == two.group {
                    broken.push(format!(
                        "{} and {} of one group are both on {}",
                        one.name, two.name, host.name
                    ));
                }
                if question.apart && question.dominant(*a) == question.dominant(*b) {
                    broken.push(format!(
                        "{} and {} on {} both want most of {}",
                        one.name,
                        two.name,
                        host.name,
                        RESOURCES[question.dominant(*a)]
                    ));
                }
            }
        }
    }
    for (group, members) in question.groups() {
        let mut zones: BTreeMap<&str, usize> = BTreeMap::new();
        for role in &members {
            *zones.entry(question.hosts[on[*role]].zone.as_str()).or_default() += 1;
        }
        for (zone, count) in zones {
            if count > question.most_in_zone(members.len()) {
                broken.push(format!("{count} roles of group {group} are in zone {zone}"));
            }
        }
    }
    broken.dedup();
    broken
}

/// What a role needs of a resource when a host has failed.
fn taken(question: &Question, on: &[usize], role: usize, failed: Option<usize>, k: usize) -> f64 {
    let own = question.roles[role].demand[k];
    let Some(failed) = failed.filter(|_| GROWS[k]) else { return own };
    let mates: Vec<usize> = (0..on.len())
        .filter(|other| {
            question.roles[*other].group.is_some()
                && question.roles[*other].group == question.roles[role].group
        })
        .collect();
    let lost: f64 =
        mates.iter().filter(|mate| on[**mate] == failed).map(|mate| question.roles[*mate].demand[k]).sum();
    let left = mates.iter().filter(|mate| on[**mate] != failed).count().max(1) as f64;
    own + lost / left
}

/// Hosts in the order in which to retire them: those that no role needs first, and of these the one that gets
/// least done for its price (and for its watts, where the price is the same).
pub fn retire(question: &Question, on: &[usize]) -> Vec<usize> {
    let largest: Resources =
        std::array::from_fn(|k| question.hosts.iter().map(|host| host.ceiling[k]).fold(1e-9, f64::max));
    let mut hosts: Vec<usize> = (0..question.hosts.len()).filter(|host| !on.contains(host)).collect();
    let per = |host: usize| {
        let one = &question.hosts[host];
        let done = work(one, &largest);
        (done / one.price.max(1e-9), one.watts.map_or(f64::INFINITY, |watts| done / watts.max(1e-9)))
    };
    hosts.sort_by(|a, b| {
        let (a, b) = (per(*a), per(*b));
        a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1))
    });
    hosts
}

/// What a host gets done: as stated, else the mean of its ceilings as shares of the largest.
pub fn work(host: &Host, largest: &Resources) -> f64 {
    let mean = || host.ceiling.iter().zip(largest).map(|(own, most)| own / most).sum::<f64>() / 5.0;
    host.work.unwrap_or_else(mean)
}
