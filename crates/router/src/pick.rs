//! Pick: which server the next session gets, and why. One pure function of the view and of our own session
//! counts.
//!
//! 1. **Zone.** Our row of the flow table says which share of our sessions each zone should hold. With `n`
//!    sessions now, [`apportion`](crate::apportion) turns the row into whole numbers for `n + 1`, and the new
//!    session goes to a zone that is short of its number. Not a coin flip per session: a router with 30
//!    sessions is then off by less than one, and the random phase each router draws keeps many routers with
//!    one session each unbiased.
//! 2. **Server.** Inside the zone the same by capacity, over our own counts, which are exact and ours alone.
//!    Where several servers are equally short, two of them are drawn and the one that reports less work is
//!    more likely taken. What servers report is as old as the snapshot and looks the same to every router: to
//!    follow it outright would make all of them run to the same server at once, so a report never moves the
//!    odds beyond 3 : 1.
//! 3. **Last resorts, in order:** any other zone (when the servers that should serve were tried and failed),
//!    the primary (only if allowed), then servers in doubt: suspected ones, and those that gave no answer in
//!    time, none of them further behind than allowed. Where everything waits for a processor, ours too, all
//!    look like that. A writer's last resort is the primary itself, as soon as it may be tried again
//!    ([`suspect`](crate::suspect)).

mod because;

use crate::apportion::{apportion, phase_within};
use crate::view::View;
pub use because::Because;
use fleet::{ListenerRole, Role, ServerName, State, Zone};
use rand::Rng;

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub struct PickRequest<'a> {
    /// Reads or writes.
    pub role: ListenerRole,
    /// The zone the session is born in: our own.
    pub from: Option<&'a Zone>,
    /// Our own reader sessions on each candidate now, in the view's order.
    pub have: &'a [u32],
    /// Servers this session has already tried in vain, with what happened.
    pub tried: &'a [(ServerName, String)],
    /// This router's phase, 0 up to 1, drawn once at its start.
    pub phase: f64,
}

/// The choice.
#[derive(Clone, Debug, PartialEq)]
pub struct Picked {
    /// Index into the view's candidates.
    pub server: usize,
    /// Why this one.
    pub because: Because,
}

/// Nobody may be picked: every server with its reason in words.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct NoEligibleServer {
    /// In the view's order.
    pub reasons: Vec<(ServerName, String)>,
}

/// Chooses a server.
pub fn pick(view: &View, request: &PickRequest<'_>, rng: &mut impl Rng) -> Result<Picked, NoEligibleServer> {
    match request.role {
        ListenerRole::Writer => writer(view, request),
        ListenerRole::Reader => reader(view, request, rng),
    }
    .ok_or_else(|| refused(view, request))
}

/// The primary; there is no other to try when it is in doubt.
fn writer(view: &View, request: &PickRequest<'_>) -> Option<Picked> {
    let certain = view.writer().map(|server| Picked { server, because: Because::Primary });
    let in_doubt = || Some(Picked { server: view.writer_in_doubt()?, because: Because::LastResort });
    certain.or_else(in_doubt).filter(|picked| usable(view, request, picked.server))
}

fn reader(view: &View, request: &PickRequest<'_>, rng: &mut impl Rng) -> Option<Picked> {
    if let Some(zone) = choose_zone(view, request, rng) {
        let server = choose_member(view, request, zone, rng)?;
        return Some(Picked { server, because: because(view, request, zone) });
    }
    let primary = view.primary_for_reads().filter(|server| usable(view, request, *server));
    if view.config.reads_on_primary
        && let Some(server) = primary
    {
        return Some(Picked { server, because: Because::NoReplica });
    }
    last_resort(view, request, rng).map(|server| Picked { server, because: Because::LastResort })
}

/// Of those in doubt rather one that answers our questions, and rather a replica.
fn last_resort(view: &View, request: &PickRequest<'_>, rng: &mut impl Rng) -> Option<usize> {
    let rank = |server: usize| {
        let silent = view.snapshot.servers[server].state != State::Answering;
        (silent, view.candidates[server].role == Role::Primary)
    };
    let mut left: Vec<usize> = (0..view.candidates.len())
        .filter(|c| view.candidates[*c].last_resort && usable(view, request, *c))
        .collect();
    let best = left.iter().map(|server| rank(*server)).min()?;
    left.retain(|server| rank(*server) == best);
    Some(left[rng.random_range(0..left.len())])
}

/// Whether this session has not tried it yet.
fn usable(view: &View, request: &PickRequest<'_>, server: usize) -> bool {
    !request.tried.iter().any(|(name, _)| *name == view.candidates[server].name)
}

/// The zone that is short of sessions. When exclusions leave none of those: a zone the row names, then any
/// with a server.
fn choose_zone(view: &View, request: &PickRequest<'_>, rng: &mut impl Rng) -> Option<usize> {
    let row = view.row(request.from);
    let have: Vec<u32> = view.members.iter().map(|m| m.iter().map(|s| held(request, *s)).sum()).collect();
    let want = apportion(&row, have.iter().sum::<u32>() as usize + 1, request.phase);
    let open: Vec<bool> =
        view.members.iter().map(|members| members.iter().any(|s| usable(view, request, *s))).collect();
    let capacity: Vec<f64> = view.flow.zones.iter().map(|zone| zone.capacity).collect();
    draw(&only(&open, shortfall(&want, &have)), rng)
        .or_else(|| draw(&only(&open, row), rng))
        .or_else(|| draw(&only(&open, capacity), rng))
}

/// The server of a zone that is short of sessions; of two drawn among those, rather the one that reports less
/// work.
fn choose_member(view: &View, request: &PickRequest<'_>, zone: usize, rng: &mut impl Rng) -> Option<usize> {
    let members = &view.members[zone];
    let capacity: Vec<f64> = members.iter().map(|m| view.candidates[*m].reads.capacity()).collect();
    let have: Vec<u32> = members.iter().map(|m| held(request, *m)).collect();
    let n = have.iter().sum::<u32>() as usize + 1;
    let want = apportion(&capacity, n, phase_within(request.phase, zone));
    let open: Vec<bool> = members.iter().map(|m| usable(view, request, *m)).collect();
    let mut short = only(&open, shortfall(&want, &have));
    if short.iter().all(|s| *s <= 0.0) {
        // Only exclusions lead here: the fullest of its kind still beats no server.
        let room =
            capacity.iter().zip(&have).map(|(capacity, have)| capacity / f64::from(have + 1)).collect();
        short = only(&open, room);
    }
    let first = draw(&short, rng)?;
    let firsts = std::mem::replace(&mut short[first], 0.0);
    // A rival must be just as short; else the counts have decided.
    short.iter_mut().filter(|s| **s < firsts).for_each(|s| *s = 0.0);
    let Some(second) = draw(&short, rng) else { return Some(members[first]) };
    let work = |m: usize| f64::from(view.candidates[members[m]].running + 1) / capacity[m];
    let odds = (work(second) / (work(first) + work(second))).clamp(0.25, 0.75);
    Some(members[if rng.random_bool(odds) { first } else { second }])
}

/// How many sessions each is short of what it should hold.
fn shortfall(want: &[u32], have: &[u32]) -> Vec<f64> {
    want.iter().zip(have).map(|(want, have)| f64::from(want.saturating_sub(*have))).collect()
}

/// These weights, and 0 where there is nobody to pick.
fn only(open: &[bool], mut weights: Vec<f64>) -> Vec<f64> {
    weights.iter_mut().zip(open).filter(|(_, open)| !**open).for_each(|(weight, _)| *weight = 0.0);
    weights
}

fn held(request: &PickRequest<'_>, server: usize) -> u32 {
    request.have.get(server).copied().unwrap_or(0)
}

/// An index drawn in proportion to its weight; `None` when all weights are 0.
fn draw(weights: &[f64], rng: &mut impl Rng) -> Option<usize> {
    let sum: f64 = weights.iter().sum();
    if sum <= 0.0 {
        return None;
    }
    let mut at = rng.random_range(0.0..sum);
    for (index, weight) in weights.iter().enumerate() {
        if at < *weight {
            return Some(index);
        }
        at -= weight;
    }
    weights.iter().rposition(|w| *w > 0.0)
}

fn because(view: &View, request: &PickRequest<'_>, zone: usize) -> Because {
    let to = view.flow.zones[zone].zone.clone();
    let Some(own) = request.from else { return Because::OwnZoneUnknown { to } };
    if to.as_ref() == Some(own) {
        return Because::OwnZone;
    }
    let at_home: &[usize] = match view.flow.zones.iter().position(|p| p.zone.as_ref() == Some(own)) {
        Some(home) => &view.members[home],
        None => &[],
    };
    if at_home.is_empty() {
        Because::NoReaderInZone { own: own.clone(), to }
    } else if at_home.iter().any(|m| usable(view, request, *m)) {
        Because::Overflow { to }
    } else {
        Because::OthersFailed { to }
    }
}

fn refused(view: &View, request: &PickRequest<'_>) -> NoEligibleServer {
    let reasons = view.candidates.iter().map(|candidate| {
        let tried =
            request.tried.iter().find(|(name, _)| *name == candidate.name).map(|(_, why)| why.clone());
        let verdict = match request.role {
            ListenerRole::Reader => &candidate.reads,
            ListenerRole::Writer => &candidate.writes,
        };
        let why = tried.or_else(|| verdict.reason().map(ToString::to_string));
        (candidate.name.clone(), why.unwrap_or_else(|| "eligible".to_owned()))
    });
    NoEligibleServer { reasons: reasons.collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eligible::Reason;
    use crate::view::tests::{snapshot, view};
    use proptest::prelude::*;
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    fn request<'a>(
        from: Option<&'a Zone>,
        have: &'a [u32],
        tried: &'a [(ServerName, String)],
    ) -> PickRequest<'a> {
        PickRequest { role: ListenerRole::Reader, from, have, tried, phase: 0.3 }
    }

    /// Opens `n` sessions one after the other and says where they are.
    fn open(view: &View, from: &str, n: usize, phase: f64, rng: &mut StdRng) -> Vec<u32> {
        let zone = Zone::new(from);
        let mut have = vec![0; view.candidates.len()];
        for _ in 0..n {
            let request =
                PickRequest { role: ListenerRole::Reader, from: Some(&zone), have: &have, tried: &[], phase };
            let server = pick(view, &request, rng).unwrap().server;
            have[server] += 1;
        }
        have
    }

    #[test]
    fn sessions_follow_the_flow_within_one() {
        let view = view(snapshot("a", &[("a", 1.0), ("b", 1.0), ("c", 1.0)], &[("a", 0.9), ("b", 0.1)]));
        let have = open(&view, "a", 100, 0.4, &mut StdRng::seed_from_u64(1));
        // 0.9 x flow = 1/3 at home, and the rest by room: b has 0.2333, c has 0.3333 to spare.
        for (got, want) in have[1..].iter().zip([37.04, 25.93, 37.04]) {
            assert!((f64::from(*got) - want).abs() < 1.0, "{have:?}");
        }
    }

    #[test]
    fn twenty_routers_with_one_session_each_spread_by_the_shares() {
        let view = view(snapshot("a", &[("a", 3.0), ("a", 1.0), ("b", 1.0)], &[("a", 1.0)]));
        let mut rng = StdRng::seed_from_u64(2);
        let mut sums = [0u32; 4];
        for _ in 0..20_000 {
            let phase = rng.random_range(0.0..1.0);
            let have = open(&view, "a", 1, phase, &mut rng);
            sums.iter_mut().zip(have).for_each(|(s, h)| *s += h);
        }
        for (sum, want) in sums.iter().zip([0.0, 0.6, 0.2, 0.2]) {
            assert!((f64::from(*sum) / 20_000.0 - want).abs() < 0.015, "{sums:?}");
        }
    }

    #[test]
    fn what_servers_report_breaks_ties_without_a_stampede() {
        let mut s = snapshot("a", &[("a", 1.0), ("a", 1.0)], &[("a", 1.0)]);
        s.servers[1].load.running = 1000;
        let view = view(s);
        let mut rng = StdRng::seed_from_u64(3);
        let mut busy = 0;
        for _ in 0..10_000 {
            busy += open(&view, "a", 1, rng.random_range(0.0..1.0), &mut rng)[1];
        }
        assert!((2_000..5_100).contains(&busy), "{busy}");
    }

    #[test]
    fn each_kind_of_pick_says_why() {
        let zone = Zone::new("a");
        let mut rng = StdRng::seed_from_u64(4);
        let mut said = |snapshot, from: Option<&Zone>, tried: &[(ServerName, String)]| {
            let view = view(snapshot);
            pick(&view, &request(from, &[0, 0, 0], tried), &mut rng).unwrap().because.to_string()
        };
        let two = || snapshot("a", &[("a", 1.0), ("b", 1.0)], &[("a", 0.5), ("b", 0.5)]);
        assert_eq!(said(two(), Some(&zone), &[]), "own zone");
        let tried = [(ServerName::new("r0"), "refused".to_owned())];
        assert_eq!(said(two(), Some(&zone), &tried), "others failed: zone b");
        let b_only = snapshot("a", &[("b", 1.0)], &[("a", 0.5), ("b", 0.5)]);
        assert_eq!(said(b_only, Some(&zone), &[]), "no reader in zone a: share of zone b");
        assert_eq!(said(snapshot("a", &[], &[]), Some(&zone), &[]), "no replica eligible: primary");
        assert!(said(two(), None, &[]).starts_with("own zone unknown: share of zone"));
        let busy = snapshot("a", &[("a", 0.001), ("b", 1.0)], &[("a", 1.0)]);
        assert_eq!(said(busy, Some(&zone), &[]), "own zone is full: overflow to zone b");
        let mut silent = two();
        for server in &mut silent.servers {
            server.state = State::Silent { why: "no answer".to_owned() };
        }
        assert_eq!(said(silent.clone(), Some(&zone), &[]), "last resort");
        let tried = ["r0", "r1"].map(|name| (ServerName::new(name), "slow".to_owned()));
        let picked =
            pick(&view(silent), &request(Some(&zone), &[0; 3], &tried), &mut StdRng::seed_from_u64(1));
        assert_eq!(picked.unwrap().server, 0, "and the primary after all replicas");
    }

    #[test]
    fn reads_that_the_primary_serves_go_on_there_while_writes_are_held() {
        let mut s = snapshot("a", &[], &[("a", 1.0)]);
        s.servers[0].announced = fleet::Announcement::Hold;
        let view = view(s);
        let mut rng = StdRng::seed_from_u64(6);
        let picked = pick(&view, &request(None, &[0], &[]), &mut rng).unwrap();
        assert_eq!((picked.server, picked.because), (0, Because::NoReplica));
        let names: Vec<_> = view.fallbacks.iter().map(crate::view::Fallback::name).collect();
        assert!(names.starts_with(&["reads_on_primary", "writer_unknown"]), "{names:?}");
        let writes = PickRequest { role: ListenerRole::Writer, ..request(None, &[0], &[]) };
        assert!(pick(&view, &writes, &mut rng).is_err(), "new writes wait");
    }

    #[test]
    fn writers_try_a_primary_in_doubt_once_and_zero_hop_does_not() {
        let mut view = view(snapshot("a", &[("a", 1.0)], &[("a", 1.0)]));
        view.candidates[0].writes =
            crate::eligible::Verdict::Ineligible(Reason::Suspected { why: "error 1040".to_owned() });
        let mut rng = StdRng::seed_from_u64(7);
        let writes = PickRequest { role: ListenerRole::Writer, ..request(None, &[0, 0], &[]) };
        assert!(pick(&view, &writes, &mut rng).is_err(), "the pause is not over");
        view.candidates[0].writers_may_try = true;
        let picked = pick(&view, &writes, &mut rng).unwrap();
        assert_eq!((picked.server, picked.because), (0, Because::LastResort), "no page has a last resort");
        let tried = [(ServerName::new("p"), "error 1040".to_owned())];
        assert!(pick(&view, &PickRequest { tried: &tried, ..writes }, &mut rng).is_err());
    }

    #[test]
    fn a_refusal_names_every_server_with_its_reason() {
        let mut s = snapshot("a", &[("a", 1.0)], &[("a", 1.0)]);
        s.servers[1].reserved = Some("'analytics'".to_owned());
        let view = view(s);
        let tried = [(ServerName::new("p"), "connection refused".to_owned())];
        let refused =
            pick(&view, &request(None, &[0, 0], &tried), &mut StdRng::seed_from_u64(5)).unwrap_err();
        let lines: Vec<String> = refused.reasons.iter().map(|(n, w)| format!("{n}: {w}")).collect();
        assert_eq!(lines, ["p: connection refused", "r0: reserved by rule 'analytics'"]);
    }

    proptest! {
        #[test]
        fn never_an_ineligible_or_already_tried_server(
            lags in proptest::collection::vec(0u64..20, 1..6), have in proptest::collection::vec(0u32..9, 7),
            silent in proptest::collection::vec(any::<bool>(), 7), bad in 0usize..7, seed in 0u64..1000
        ) {
            let readers: Vec<(&str, f64)> = lags.iter().map(|l| (["a", "b", "c"][*l as usize % 3], 1.0)).collect();
            let mut s = snapshot("a", &readers, &[("a", 0.5), ("c", 0.5)]);
            for (server, lag) in s.servers[1..].iter_mut().zip(&lags) {
                server.lag.as_mut().unwrap().at_least = std::time::Duration::from_secs(*lag);
            }
            for (server, _) in s.servers.iter_mut().zip(&silent).filter(|(_, silent)| **silent) {
                server.state = State::Silent { why: "no answer".to_owned() };
            }
            let view = view(s);
            let tried: Vec<_> = view.candidates.get(bad).map(|c| (c.name.clone(), String::new())).into_iter().collect();
            let zone = Zone::new("a");
            if let Ok(picked) = pick(&view, &request(Some(&zone), &have, &tried), &mut StdRng::seed_from_u64(seed)) {
                prop_assert_ne!(picked.server, bad);
                let candidate = &view.candidates[picked.server];
                match picked.because {
                    Because::NoReplica => prop_assert_eq!(view.primary_for_reads(), Some(picked.server)),
                    Because::LastResort => {
                        let left = |c: usize| c != bad && view.candidates[c].reads.is_eligible();
                        prop_assert!(!(0..view.candidates.len()).any(left));
                        prop_assert!(view.writer().is_none_or(|writer| writer == bad));
                        let lag = view.snapshot.servers[picked.server].lag.unwrap();
                        prop_assert!(lag.at_most() <= view.config.max_lag);
                    }
                    _ => prop_assert!(candidate.reads.is_eligible()),
                }
            }
        }
    }
}
