//! Page: a listener's next picks, written for the kernel to take one by one.
//!
//! Readers: [`pick`](crate::pick) is asked over and over, each time with one more session on the server it
//! just named, so the kernel's next connections land exactly where the relay would have put them, also when a
//! pool opens all of its sessions at once. What it cannot know between two looks (a tenth of a second) is who
//! left meanwhile. When more connections come than a page has picks, its second half is taken again: by then
//! the first has made up for what was uneven, and the second goes by the shares.

use super::count::KernelCounts;
use super::fit::{Fit, MirrorScope, fit};
use super::mirror::{Target, TargetNames};
use super::overview::ListenerZeroHop;
use crate::listener::Listener;
use crate::names::Names;
use crate::pick::{Because, PickRequest, pick};
use crate::shared_state::{RoutingState, SharedState};
use crate::view::Candidate;
use fleet::{Address, ListenerRole, ServerName};
use rand::Rng;
use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::{Arc, PoisonError};
use zerohop::{Bypass, Error, Page, Terms};

/// Picks in a page: more than the connections that an application opens in a tenth of a second.
const PICKS: usize = 128;

/// Why a listener has no zero-hop after somebody else removed its pins.
const REMOVED: &str = "it was switched off from outside (headroom zero-hop off, or another router on its address); restart \
                       headroom route to have it back";

/// What was written.
#[derive(Debug, Default)]
pub(super) struct Pages {
    listeners: HashMap<Address, Result<ListenerPage, String>>,
    /// Addresses that somebody else removed: they stay out until this process is started anew, whatever is
    /// opened again or changed meanwhile.
    removed: HashSet<SocketAddr>,
    /// For the thread that follows mirrored sessions.
    target_names: TargetNames,
}

#[derive(Debug)]
struct ListenerPage {
    fit: Fit,
    numbers: Vec<u32>,
    /// What the page was made from; as long as it is the same and nothing was taken, the page stays.
    from: PageInputs,
}

/// Everything that a page depends on.
#[derive(Clone, Debug)]
struct PageInputs {
    /// Held, not only its address: a later state may be allocated where this one was.
    routing: Arc<RoutingState>,
    have: Vec<u32>,
    room: usize,
    /// Why all come to the listener for now, if they do.
    none_bypass: Option<&'static str>,
}

impl PartialEq for PageInputs {
    fn eq(&self, other: &Self) -> bool {
        let same = (&self.have, self.room, self.none_bypass) == (&other.have, other.room, other.none_bypass);
        same && Arc::ptr_eq(&self.routing, &other.routing)
    }
}

impl Pages {
    /// Nothing written yet; which server each target is will stand in `target_names`.
    pub(super) fn new(target_names: TargetNames) -> Self {
        Self { target_names, ..Self::default() }
    }

    /// Nothing is written any more: the kernel's maps may be others.
    pub(super) fn begin_again(&mut self) {
        self.listeners.clear();
    }

    /// Writes what has changed since the last look.
    pub(super) fn write(
        &mut self,
        bypass: &mut Bypass,
        shared: &SharedState,
        listeners: &[Arc<Listener>],
        counts: &KernelCounts,
        mirrors: MirrorScope,
    ) -> Result<(), Error> {
        self.listeners.retain(|address, _| listeners.iter().any(|listener| listener.bound == *address));
        let routing = shared.routing();
        let mut wanted: Vec<SocketAddr> = Vec::new();
        for listener in listeners {
            let fitted = fit(&listener.config(), &listener.bound, routing.view.config.tls.tls.mode, mirrors);
            let fitted = match fitted {
                Ok(fit) if self.is_removed(bypass, &fit.dialled)? => Err(REMOVED.to_owned()),
                fitted => fitted,
            };
            let written = match fitted {
                Err(why) => Err(why),
                Ok(fit) => {
                    let dialled = fit.dialled.clone();
                    match self.listener(bypass, shared, &routing, listener, fit, counts) {
                        // The others have what they need.
                        Err(error @ Error::TooMany { .. }) => Err(error.to_string()),
                        written => {
                            wanted.extend(dialled);
                            Ok(written?)
                        }
                    }
                }
            };
            self.listeners.insert(listener.bound.clone(), written);
        }
        for address in bypass.listeners() {
            if !wanted.contains(&address) {
                bypass.forget_listener(address);
            }
        }
        Ok(())
    }

    /// Whether somebody else removed one of these, now or before.
    fn is_removed(&mut self, bypass: &Bypass, dialled: &[SocketAddr]) -> Result<bool, Error> {
        for at in dialled {
            if bypass.was_removed(*at)? {
                self.removed.insert(*at);
            }
        }
        Ok(dialled.iter().any(|at| self.removed.contains(at)))
    }

    fn listener(
        &self,
        bypass: &mut Bypass,
        shared: &SharedState,
        routing: &Arc<RoutingState>,
        listener: &Listener,
        fit: Fit,
        counts: &KernelCounts,
    ) -> Result<ListenerPage, Error> {
        let terms = Terms { writes: listener.role() == ListenerRole::Writer, checks: fit.checks };
        let numbers = fit.dialled.iter().map(|at| bypass.listener(*at, terms));
        let numbers = numbers.collect::<Result<Vec<u32>, _>>()?;
        let open: usize = numbers.iter().map(|n| counts.sessions_of(*n)).sum();
        let room = listener.max_sessions().saturating_sub(listener.sessions() + open).min(PICKS);
        let moves = listener.role() == ListenerRole::Writer && routing.view.switchover_is_announced();
        let none_bypass = match (shared.recorder.is_on(), moves) {
            (true, _) => Some("a recording is under way: new sessions pass through"),
            (_, true) => Some("a switchover is announced: new sessions pass through"),
            _ => None,
        };
        let from = PageInputs { routing: routing.clone(), have: routing.readers(), room, none_bypass };
        let before = self.listeners.get(&listener.bound).and_then(|written| written.as_ref().ok());
        let same = before.is_some_and(|before| before.from == from && before.fit == fit);
        let untouched = |number: &u32| Ok::<bool, Error>(bypass.taken(*number)? == 0);
        if same && numbers.iter().map(untouched).collect::<Result<Vec<_>, _>>()?.iter().all(|u| *u) {
            return Ok(ListenerPage { fit, numbers, from });
        }
        let servers = match none_bypass {
            Some(_) => vec![None; PICKS],
            None => picks(routing, listener.role(), shared.phase, &mut rand::rng()),
        };
        for number in &numbers {
            let connects = bypass.connect_counts(*number)?;
            let mut page = Vec::with_capacity(PICKS);
            for server in sampled(&servers, fit.one_in, connects.bypassed + connects.chosen, room) {
                let at = server.and_then(|s| bypassed_at(&routing.view.candidates[s], &shared.names));
                let lenient = |at: &SocketAddr| counts.closes_mean_nothing(*number, *at);
                page.push(match at {
                    Some(at) => Some(bypass.target(*number, at, lenient(&at))?),
                    None => None,
                });
                if let (Some(server), Some(Some(target))) = (server, page.last()) {
                    self.name(*target, &routing.view.candidates[server].name, listener, &fit);
                }
            }
            let wrap = if room < PICKS { page.len().saturating_sub(1) } else { page.len() / 2 };
            bypass.set_page(*number, &Page { picks: page, wrap, mirror: fit.mirror })?;
        }
        Ok(ListenerPage { fit, numbers, from })
    }

    /// Says who a target is, before a session can be on it.
    fn name(&self, target: u32, server: &ServerName, listener: &Listener, fit: &Fit) {
        let (mirrored, measured) = (fit.mirror.max(1), fit.measure);
        let mut target_names = self.target_names.lock().unwrap_or_else(PoisonError::into_inner);
        match target_names.get_mut(&target) {
            Some(known) if known.server == *server && *known.listener == *listener.label() => {
                (known.mirrored, known.measured) = (mirrored, measured);
            }
            _ => {
                let (server, listener) = (server.clone(), listener.label().to_owned());
                let (commands, refusals) = (Arc::default(), Arc::default());
                let new = Target { server, listener, mirrored, measured, commands, refusals };
                target_names.insert(target, new);
            }
        }
    }

    /// How a listener stands.
    pub(super) fn show(&self, bound: &Address, bypass: &Bypass, counts: &KernelCounts) -> ListenerZeroHop {
        match self.listeners.get(bound) {
            None => ListenerZeroHop::default(),
            Some(Err(why)) => ListenerZeroHop { words: why.clone(), ..ListenerZeroHop::default() },
            Some(Ok(written)) => {
                let mut shown = ListenerZeroHop {
                    in_force: true,
                    words: written.from.none_bypass.map_or_else(|| written.fit.words.clone(), str::to_owned),
                    sessions: written.numbers.iter().map(|n| counts.sessions_of(*n)).sum(),
                    ..ListenerZeroHop::default()
                };
                for counts in written.numbers.iter().filter_map(|n| bypass.connect_counts(*n).ok()) {
                    shown.connects.bypassed += counts.bypassed;
                    shown.connects.chosen += counts.chosen;
                    shown.connects.suspect += counts.suspect;
                    shown.connects.unfit += counts.unfit;
                }
                shown
            }
        }
    }
}

/// The servers that the next sessions of this role would get, one after the other; nobody where it is not
/// certain.
fn picks(routing: &RoutingState, role: ListenerRole, phase: f64, rng: &mut impl Rng) -> Vec<Option<usize>> {
    let view = &routing.view;
    let mut have = routing.readers();
    let mut servers = Vec::with_capacity(PICKS);
    for _ in 0..PICKS {
        let ask = PickRequest { role, from: view.own_zone.as_ref(), have: &have, tried: &[], phase };
        match pick(view, &ask, rng) {
            Ok(picked) if picked.because != Because::LastResort => {
                have[picked.server] += 1;
                servers.push(Some(picked.server));
            }
            // It will not be another a moment later.
            _ => return vec![None; PICKS],
        }
    }
    servers
}

/// Where connections to a server lead without the router. Nowhere for one that is told the client's address:
/// who connects directly sends no PROXY protocol header.
fn bypassed_at(server: &Candidate, names: &Names) -> Option<SocketAddr> {
    (!server.proxy_protocol).then(|| names.socket_address(&server.reach)).flatten()
}

/// The picks with every `one_in`th left to the ordinary listener, counted over all sessions there have been,
/// and all beyond `room`.
fn sampled(servers: &[Option<usize>], one_in: u32, before: u64, room: usize) -> Vec<Option<usize>> {
    let ordinary = |n: usize| one_in > 0 && (before + n as u64 + 1).is_multiple_of(u64::from(one_in));
    let pick = |(n, server): (usize, &Option<usize>)| server.filter(|_| n < room && !ordinary(n));
    servers.iter().enumerate().map(pick).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sixteenth_session_is_left_over_wherever_a_page_begins() {
        let servers = [Some(0); 40];
        let left = |before| -> Vec<usize> {
            let page = sampled(&servers, 16, before, PICKS);
            (0..page.len()).filter(|n| page[*n].is_none()).collect()
        };
        assert_eq!(left(0), [15, 31]);
        assert_eq!(left(15), [0, 16, 32]);
        assert_eq!(sampled(&servers, 0, 15, PICKS), servers);
    }

    #[test]
    fn connections_to_a_server_that_is_told_who_the_client_is_do_not_bypass_the_router() {
        let at = |proxy_protocol| {
            let mut s = crate::view::tests::snapshot("a", &[], &[("a", 1.0)]);
            s.servers[0].reach = Address::tcp("10.0.0.5", 3306);
            s.servers[0].proxy_protocol = proxy_protocol;
            bypassed_at(&crate::view::tests::view(s).candidates[0], &Names::default())
        };
        assert_eq!(at(false), Some("10.0.0.5:3306".parse().unwrap()));
        assert_eq!(at(true), None);
    }

    #[test]
    fn beyond_the_room_of_a_listener_no_session_bypasses_the_router() {
        let page = sampled(&[Some(2); 5], 0, 0, 3);
        assert_eq!(page, [Some(2), Some(2), Some(2), None, None]);
    }
}
