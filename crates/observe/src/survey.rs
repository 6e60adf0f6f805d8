//! The survey of servers: which we know, by which addresses, and what each last answered.
//!
//! From any one seed the whole fleet is found: upwards along `source_host`, downwards along the replicas that
//! a server names, sideways along the tables of a managed cluster. Every address told goes through the
//! address map. One server seen under several addresses is one: servers are compared by identity (MySQL's
//! `server_uuid`; in MariaDB host name, port, `server_id` and data directory together), not by address.
//!
//! What the configuration names stays known, answering or not. What was only told of is forgotten when it has
//! not answered for ten minutes (or never) and nobody tells of it any more; an address that was guessed is
//! shown only once it answers.

mod entry;

use crate::answer::{Answer, Channel, Managed, managed};
use crate::ask::AskError;
use crate::discovery_scope::{DiscoveryScope, Follow};
use crate::lag::{Track, Window};
use crate::zone::{self, Host};
use config::{FleetConfig, TlsMode};
use entry::name_of;
use fleet::{Address, ServerName, State};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::IpAddr;
use std::time::{Duration, Instant};

pub(crate) use entry::{AGREEING, Entry, Origin, ServerId};

/// More servers than this are not one fleet: discovery stops and says so.
pub const MOST_SERVERS: usize = 256;
/// What a snapshot remarks when more were named.
pub const MORE_SERVERS: &str = "more servers were named than one fleet may have; no more are added";
/// A server that was only told of is forgotten after this long without answer or mention.
const FORGET_AFTER: Duration = Duration::from_secs(600);
/// One that never answered: an address that means nothing to us, or means a server that we know by another
/// one.
const FORGET_UNSEEN_AFTER: Duration = Duration::from_secs(5);
/// Looks that a guessed address is given.
const GUESS_LOOKS: u32 = 2;
/// Failed looks after which another address of the same server is tried.
const TRY_OTHER_ADDRESS: u32 = 3;
/// Addresses that are not followed, remembered to be shown.
const MOST_NOT_FOLLOWED: usize = 32;
/// For this long after they were last named.
const NOT_FOLLOWED_FOR: Duration = Duration::from_secs(60);
/// What answers within this time after we started is taken as warm.
const START: Duration = Duration::from_secs(10);

/// All servers known.
pub(crate) struct Survey {
    pub(crate) config: FleetConfig,
    pub(crate) entries: BTreeMap<ServerId, Entry>,
    /// Every address (as we reach it) that is known to lead to a server.
    aliases: HashMap<Address, ServerId>,
    /// Positions over time of every server that has them.
    pub(crate) tracks: HashMap<ServerId, Track>,
    /// Guesses that led nowhere.
    dead_guesses: HashSet<Address>,
    /// Where discovery may go.
    within: DiscoveryScope,
    /// Addresses that servers named and that are not asked: why, and when they were last named.
    not_followed: BTreeMap<Address, (String, Instant)>,
    next: ServerId,
    started: Instant,
    pub(crate) overflow: bool,
}

impl Survey {
    /// A survey that holds the seeds.
    pub(crate) fn new(config: FleetConfig, now: Instant) -> Self {
        let mut survey = Self {
            within: DiscoveryScope::new(&config),
            not_followed: BTreeMap::new(),
            config,
            entries: BTreeMap::new(),
            aliases: HashMap::new(),
            tracks: HashMap::new(),
            dead_guesses: HashSet::new(),
            next: 0,
            started: now,
            overflow: false,
        };
        survey.add_seeds(now);
        survey
    }

    /// Takes over a changed configuration; what it does not touch stays.
    pub(crate) fn reconfigure(&mut self, config: FleetConfig, now: Instant) {
        self.config = config;
        self.within = DiscoveryScope::new(&self.config);
        for (seed, peer) in self.entries.values().filter_map(|e| Some((e, e.answer.as_ref()?.peer?))) {
            if seed.origin == Origin::Seed {
                self.within.reached(peer);
            }
        }
        self.not_followed.clear();
        let seeds: HashSet<Address> = self.config.seeds.iter().map(|seed| self.reach_of(seed)).collect();
        let config = &self.config;
        let map = &config.address_map;
        for entry in self.entries.values_mut() {
            let is_seed = seeds.contains(&entry.reach) || seeds.contains(&reach(map, &entry.called));
            entry.origin = match entry.origin {
                Origin::Seed if !is_seed => Origin::Discovered,
                _ if is_seed => Origin::Seed,
                other => other,
            };
        }
        let (keep_told, within) = (self.config.discover, &self.within);
        self.entries.retain(|_, entry| {
            let inside = || entry.by_the_cloud || within.follow(&entry.reach) != Follow::No;
            entry.origin == Origin::Seed || (keep_told && inside())
        });
        let entries = &self.entries;
        self.aliases.retain(|_, id| entries.contains_key(id));
        self.tracks.retain(|id, _| entries.contains_key(id));
        self.add_seeds(now);
        let mut taken = HashSet::new();
        for entry in self.entries.values_mut() {
            entry.name = name_of(&self.config, &entry.called, &entry.reach, &mut taken);
        }
    }

    /// What one look at a server brought.
    pub(crate) fn take(&mut self, id: ServerId, outcome: Result<Answer, AskError>, now: Instant) {
        let Some(entry) = self.entries.get_mut(&id) else { return };
        entry.looks += 1;
        match outcome {
            Ok(answer) => {
                if let Some(id) = self.settle_identity(id, &answer, now) {
                    self.accept(id, answer, now);
                }
            }
            Err(error) => {
                entry.fail(&error);
                let failures = entry.failures;
                if entry.origin == Origin::Guessed && entry.answer.is_none() && failures >= GUESS_LOOKS {
                    let reach = entry.reach.clone();
                    self.forget(id);
                    if self.dead_guesses.len() < MOST_SERVERS {
                        self.dead_guesses.insert(reach);
                    }
                } else if failures.is_multiple_of(TRY_OTHER_ADDRESS) {
                    self.try_other_address(id);
                }
            }
        }
        self.forget_the_gone(now);
    }

    /// Marks as silent every server whose last answer is too old, and names them: whatever asks them is
    /// stuck, if it lives.
    pub(crate) fn overdue(&mut self, now: Instant) -> Vec<ServerId> {
        let config = &self.config;
        let late = |e: &Entry| {
            let holds = e.answer_holds(config);
            e.answered_at.is_some_and(|at| now.saturating_duration_since(at) > holds)
        };
        let overdue = self.entries.values_mut().filter(|e| e.is_fresh() && late(e));
        overdue
            .map(|entry| {
                let age = now.saturating_duration_since(entry.answered_at.unwrap_or(now));
                entry.fail(&AskError::Overdue { age });
                entry.id
            })
            .collect()
    }

    /// The addresses that are not followed, each with the reason.
    pub(crate) fn not_followed(&self) -> impl Iterator<Item = String> + '_ {
        self.not_followed.iter().map(|(address, (why, _))| format!("{address} is not followed: {why}"))
    }

    /// The networks that the addresses of a server must lie in, where its name does not say that it is one of
    /// ours. It is compared for each server at each answer, so nothing is copied for that.
    pub(crate) fn must_lead_into(&self, entry: &Entry) -> Option<&DiscoveryScope> {
        let unsure = entry.origin != Origin::Seed
            && !entry.by_the_cloud
            && self.within.follow(&entry.reach) == Follow::IfItLeadsInside;
        unsure.then_some(&self.within)
    }

    /// The server that `channel` of the server `of` leads to, if it is known.
    pub(crate) fn source_of(&self, of: ServerId, channel: &Channel) -> Option<ServerId> {
        let others = || self.entries.values().filter(|e| e.id != of && e.answer.is_some());
        if let Some(uuid) = &channel.source_uuid
            && let Some(found) = others().find(|e| e.uuid() == Some(uuid))
        {
            return Some(found.id);
        }
        let named = self.at(&channel.source).filter(|id| *id != of);
        // An address that nobody has answered at may be another one of a server that we know.
        let answers = |id: &ServerId| self.entries.get(id).is_some_and(|e| e.answer.is_some());
        named.filter(answers).or_else(|| self.by_server_id(channel.source_id, of)).or(named)
    }

    /// The server an address, as servers write it, leads to.
    fn at(&self, called: &Address) -> Option<ServerId> {
        self.aliases.get(&self.reach_of(called)).or_else(|| self.aliases.get(called)).copied()
    }

    /// In one fleet `server_id` is unique, so where only one other server has it, that is meant. For MariaDB,
    /// which has no uuid.
    fn by_server_id(&self, server_id: u32, not: ServerId) -> Option<ServerId> {
        let mut found = self.entries.values().filter(|e| {
            e.id != not && server_id != 0 && e.uuid().is_none() && e.server_id() == Some(server_id)
        });
        match (found.next(), found.next()) {
            (Some(one), None) => Some(one.id),
            _ => None,
        }
    }

    /// The server of this uuid, if it answers, at whatever address. One that does not may have moved.
    fn by_uuid(&self, uuid: Option<&String>) -> Option<ServerId> {
        let uuid = uuid?;
        self.entries.values().find(|e| e.is_fresh() && e.uuid() == Some(uuid)).map(|e| e.id)
    }

    fn accept(&mut self, id: ServerId, answer: Answer, now: Instant) {
        if let Some(position) = &answer.written {
            let window = Window { asked: answer.asked, answered: answer.answered };
            self.tracks.entry(id).or_default().push(position.clone(), window);
        }
        let at_start = self.is_start(now);
        let own = self.entries.get(&id).and_then(|e| own_endpoint(&e.called, &answer));
        if let Some(own) = own.as_ref().or(answer.identity.reports.as_ref()) {
            self.call_it_as_it_says(id, own);
        }
        let Some(entry) = self.entries.get_mut(&id) else { return };
        entry.accept(answer, now, at_start);
        if entry.origin == Origin::Seed
            && let Some(peer) = entry.answer.as_ref().and_then(|a| a.peer)
        {
            self.within.reached(peer);
        }
        if self.config.discover {
            self.discover(id, now);
        }
    }

    /// A server that others told of by some address goes by the one it gives itself, from its first answer
    /// on. It is reached there, too, where the address map says how; else where it answers. A seed keeps the
    /// name the operator wrote, except where the cloud names the instance: a cluster's endpoint leads to
    /// another instance tomorrow.
    fn call_it_as_it_says(&mut self, id: ServerId, reports: &Address) {
        let mapped = self.reach_of(reports);
        let is_instance = managed::is_cloud_name(reports);
        let goes_there = (is_instance || mapped != *reports) && self.within.follow(&mapped) == Follow::Yes;
        let leads_to = *self.aliases.entry(mapped.clone()).or_insert(id);
        let Some(entry) = self.entries.get(&id) else { return };
        let keeps_name = entry.origin == Origin::Seed && !is_instance;
        if keeps_name || entry.answer.is_some() || entry.called == *reports || leads_to != id {
            return;
        }
        let mut taken: HashSet<ServerName> =
            self.entries.values().filter(|e| e.id != id).map(|e| e.name.clone()).collect();
        let reach = if goes_there { mapped } else { entry.reach.clone() };
        let name = name_of(&self.config, reports, &reach, &mut taken);
        if let Some(entry) = self.entries.get_mut(&id) {
            (entry.name, entry.called, entry.reach) = (name, reports.clone(), reach);
        }
    }

    /// Adds every server that this one told of.
    fn discover(&mut self, id: ServerId, now: Instant) {
        let Some(entry) = self.entries.get(&id) else { return };
        let Some(answer) = &entry.answer else { return };
        let by = entry.name.clone();
        let mut mentioned: Vec<(Address, Origin)> = Vec::new();
        let mut by_the_cloud: Vec<Address> = Vec::new();
        let mut named: Vec<ServerId> = Vec::new();
        for channel in answer.channels.list() {
            match self.source_of(id, channel) {
                Some(source) => named.push(source),
                None => mentioned.push((channel.source.clone(), Origin::Discovered)),
            }
        }
        for replica in &answer.replicas {
            let Some(address) = &replica.address else { continue };
            if replica.guessed {
                mentioned.push((address.clone(), Origin::Guessed));
                continue;
            }
            // The address that it says may mean nothing to us, as the name of a container.
            let known = self.by_uuid(replica.uuid.as_ref());
            match known.or_else(|| self.by_server_id(replica.server_id, id)) {
                Some(known) => named.push(known),
                None => mentioned.push((address.clone(), Origin::Discovered)),
            }
        }
        match &answer.managed {
            Some(Managed::Aurora { instances, .. }) => {
                let known = |key: &str| self.entries.values().any(|e| e.identity() == Some(key));
                // Made of the endpoint that the operator wrote and an id of the cluster's own table.
                by_the_cloud.extend(
                    instances
                        .iter()
                        .filter(|i| !known(&format!("aurora {}", i.id)))
                        .filter_map(|instance| managed::aurora_address(&entry.called, &instance.id)),
                );
            }
            Some(Managed::MultiAz { members }) => {
                mentioned.extend(members.iter().map(|(_, member)| (member.clone(), Origin::Discovered)));
            }
            None => {}
        }
        for id in named {
            if let Some(entry) = self.entries.get_mut(&id) {
                entry.named_at = now;
            }
        }
        for address in by_the_cloud {
            self.add(&address, Origin::Discovered, true, now);
        }
        for (address, origin) in mentioned {
            match self.why_not_follow(&address, origin, &by) {
                None => self.add(&address, origin, false, now),
                Some(why) => self.do_not_follow(address, why, now),
            }
        }
        self.not_followed.retain(|_, (_, at)| now.saturating_duration_since(*at) <= NOT_FOLLOWED_FOR);
    }

    /// Why an address that `by` named is not asked, if it is not.
    fn why_not_follow(&self, called: &Address, origin: Origin, by: &ServerName) -> Option<String> {
        let reach = self.reach_of(called);
        if self.aliases.contains_key(&reach) || self.aliases.contains_key(called) {
            return None;
        }
        let mapped = reach != *called;
        if !mapped && self.within.follow(&reach) == Follow::No {
            return Some(format!(
                "{by} names it, and it lies outside {}; if it is yours, add it to discover_within or seeds",
                self.within
            ));
        }
        let verified =
            matches!(self.config.credentials.tls.mode, TlsMode::VerifyCa | TlsMode::VerifyIdentity);
        // Hosts are told from sessions, and ports apart from them: another server of that host may be meant,
        // but not the one that names it, unless the port is its own.
        let known = || {
            let Address::Tcp { host, port } = &reach else { return false };
            let Ok(host) = host.parse::<IpAddr>() else { return false };
            let is_it = |e: &Entry, a: &Answer| {
                let dialled = matches!(&e.reach, Address::Tcp { port: dialled, .. } if dialled == port);
                a.peer == Some(host) && (e.name != *by || dialled || a.identity.port == *port)
            };
            self.entries.values().any(|e| e.answer.as_ref().is_some_and(|a| is_it(e, a)))
        };
        if origin == Origin::Guessed && !verified {
            // Nothing to say of a server that we know by a name that leads to the same host.
            return Some(if known() {
                String::new()
            } else {
                format!(
                    "it replicates from {by} without saying its address, and no password goes to a guessed address \
                     without verified TLS; set report_host on it, add it to seeds, or use ssl_mode = \"VERIFY_CA\""
                )
            });
        }
        None
    }

    fn do_not_follow(&mut self, address: Address, why: String, now: Instant) {
        if why.is_empty() {
            return;
        }
        let room = self.not_followed.len() < MOST_NOT_FOLLOWED;
        match self.not_followed.get_mut(&address) {
            Some(known) => *known = (why, now),
            None if room => {
                tracing::warn!(%address, why, "a server is not followed");
                self.not_followed.insert(address, (why, now));
            }
            None => {}
        }
    }

    /// Makes an address known; nothing happens when it is.
    fn add(&mut self, called: &Address, origin: Origin, by_the_cloud: bool, now: Instant) {
        let reach = self.reach_of(called);
        if let Some(id) = self.aliases.get(&reach) {
            if let Some(entry) = self.entries.get_mut(id) {
                entry.named_at = now;
            }
            return;
        }
        if origin == Origin::Guessed && self.dead_guesses.contains(&reach) {
            return;
        }
        self.overflow = self.entries.len() >= MOST_SERVERS;
        if self.overflow {
            return;
        }
        let called = match origin {
            // Whoever writes a seed may write what we dial: then the map says how the server is called.
            Origin::Seed => called_of(&self.config.address_map, called),
            _ => called.clone(),
        };
        let mut taken: HashSet<ServerName> = self.entries.values().map(|e| e.name.clone()).collect();
        let name = name_of(&self.config, &called, &reach, &mut taken);
        let id = self.next;
        self.next += 1;
        self.aliases.insert(reach.clone(), id);
        let mut entry = Entry::new(id, name, called, reach, origin, now);
        entry.by_the_cloud = by_the_cloud;
        self.entries.insert(id, entry);
    }

    fn add_seeds(&mut self, now: Instant) {
        for seed in self.config.seeds.clone() {
            self.add(&seed, Origin::Seed, false, now);
        }
    }

    /// Sees to it that one server is one entry; returns the entry that the answer belongs to.
    fn settle_identity(&mut self, id: ServerId, answer: &Answer, now: Instant) -> Option<ServerId> {
        let key = answer.identity.key.as_str();
        let at_start = self.is_start(now);
        let entry = self.entries.get_mut(&id)?;
        if entry.identity().is_some_and(|old| old != key) {
            entry.exchanged();
            let reach = entry.reach.clone();
            self.tracks.remove(&id);
            self.aliases.retain(|address, to| *to != id || *address == reach);
        }
        let twin = self.entries.values().find(|e| e.id != id && e.identity() == Some(key)).map(|e| e.id);
        let Some(twin) = twin else { return Some(id) };
        let (ours, theirs) = (self.entries.get(&id)?, self.entries.get(&twin)?);
        let twin_answers = theirs.state == State::Answering;
        let own = own_endpoint(&ours.called, answer);
        let keep = match (ours.origin, theirs.origin) {
            // An instance's own endpoint outlasts a cluster's, which leads elsewhere after a failover.
            _ if own.as_ref() == Some(&ours.called) => id,
            _ if own.as_ref() == Some(&theirs.called) => twin,
            (Origin::Seed, Origin::Discovered | Origin::Guessed) => id,
            // Which of two seeds answers first is chance; while we start, the one written first gives the
            // name.
            (Origin::Seed, Origin::Seed) if at_start => id.min(twin),
            _ => twin,
        };
        let drop = if keep == id { twin } else { id };
        tracing::debug!(kept = %self.entries[&keep].name, dropped = %self.entries[&drop].reach, "the same server");
        if keep == twin && !twin_answers {
            // It answers at the new address and not at the old one: it has moved.
            let reach = ours.reach.clone();
            self.entries.get_mut(&twin)?.moved_to(reach);
        }
        self.forget_but_keep_address(drop, keep);
        (keep == id || !twin_answers).then_some(keep)
    }

    /// After several failures: another address that has led to the same server.
    fn try_other_address(&mut self, id: ServerId) {
        let Some(entry) = self.entries.get_mut(&id) else { return };
        let mut others: Vec<&Address> =
            self.aliases.iter().filter(|(_, to)| **to == id).map(|(address, _)| address).collect();
        // What a server says of itself is no reason to log in there.
        others.retain(|address| **address == entry.reach || self.within.follow(address) == Follow::Yes);
        others.sort();
        let after = others.iter().position(|a| **a == entry.reach).map_or(0, |at| at + 1);
        if let Some(next) = others.get(after % others.len().max(1))
            && **next != entry.reach
        {
            entry.reach = (*next).clone();
        }
    }

    fn forget_the_gone(&mut self, now: Instant) {
        let unseen = FORGET_UNSEEN_AFTER + self.config.interval * 2;
        let gone: Vec<ServerId> = self
            .entries
            .values()
            .filter(|e| {
                let quiet = |at: Instant, long| now.saturating_duration_since(at) > long;
                let forgotten = match e.answered_at {
                    Some(at) => quiet(at, FORGET_AFTER) && quiet(e.named_at, FORGET_AFTER),
                    None => e.failures > 0 && quiet(e.named_at, unseen),
                };
                e.origin != Origin::Seed && e.state != State::Answering && forgotten
            })
            .map(|e| e.id)
            .collect();
        gone.into_iter().for_each(|id| self.forget(id));
    }

    fn forget(&mut self, id: ServerId) {
        self.entries.remove(&id);
        self.tracks.remove(&id);
        self.aliases.retain(|_, to| *to != id);
    }

    fn forget_but_keep_address(&mut self, id: ServerId, now_leads_to: ServerId) {
        self.entries.remove(&id);
        if let Some(track) = self.tracks.remove(&id) {
            self.tracks.entry(now_leads_to).or_insert(track);
        }
        for to in self.aliases.values_mut().filter(|to| **to == id) {
            *to = now_leads_to;
        }
    }

    fn is_start(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.started) < START
    }

    fn reach_of(&self, called: &Address) -> Address {
        reach(&self.config.address_map, called)
    }

    /// What the rules say of a server, and its zone by rule.
    pub(crate) fn rule_outcome(&self, entry: &Entry) -> (zone::RuleOutcome, Option<fleet::Zone>) {
        let peer = entry.answer.as_ref().and_then(|a| a.peer);
        let mut host = Host::server(&entry.called, entry.reports(), &entry.reach, peer);
        host.names.push(entry.name.to_string());
        let said = zone::apply(&self.config.servers, &mut host);
        let zone = said.zone.clone().or_else(|| zone::by_rule(&self.config.zones, &host));
        (said, zone)
    }
}

/// The instance's own address, where the cloud's tables tell it.
fn own_endpoint(called: &Address, answer: &Answer) -> Option<Address> {
    match answer.managed.as_ref()? {
        Managed::Aurora { own, .. } => managed::aurora_address(called, own),
        Managed::MultiAz { members } => members
            .iter()
            .find(|(id, _)| *id == answer.identity.server_id)
            .map(|(_, endpoint)| endpoint.clone()),
    }
}

fn reach(map: &[(Address, Address)], called: &Address) -> Address {
    map.iter().find(|(from, _)| from == called).map_or_else(|| called.clone(), |(_, to)| to.clone())
}

fn called_of(map: &[(Address, Address)], reach: &Address) -> Address {
    map.iter().find(|(_, to)| to == reach).map_or_else(|| reach.clone(), |(from, _)| from.clone())
}

#[cfg(test)]
mod tests;
