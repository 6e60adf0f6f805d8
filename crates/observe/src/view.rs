//! From the survey to the snapshot that others decide on: judgement, lag, zones and demand put together.

pub(crate) mod zones;

use crate::answer::{Answer, Channels, Managed, Runs};
use crate::demand::Estimator;
use crate::epoch::{self, Fence, Memory, ServerClaim, ServerEpoch};
use crate::judge::{self, Facts, Judgement, Member};
use crate::lag::{self, Track, Window};
use crate::privilege::Missing;
use crate::survey::{Entry, MORE_SERVERS, Origin, ServerId, Survey};
use fleet::{
    Claim, Demand, IgnoredClaim, KnownZone, Lag, LagSource, Role, Server, ServerName, Snapshot, State,
    WriterStatus,
};
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::time::{Duration, Instant};
use zones::ZonePlacement;

/// What is remembered from one snapshot to the next.
#[derive(Default)]
pub(crate) struct View {
    round: u64,
    /// Every server known at the start has been asked.
    settled: bool,
    /// The last server known as primary: lag is counted against it also while the writer is unknown.
    reference: Option<ServerId>,
    /// When it was first seen in the place of another; `None` where it already was when we began.
    took_over_at: Option<Instant>,
    pub(crate) placement: ZonePlacement,
    pub(crate) estimator: Estimator,
    /// Addresses of client hosts that servers show by name.
    pub(crate) resolved: HashMap<String, Vec<IpAddr>>,
    /// The last lag known of each server, and when.
    last_lags: HashMap<ServerId, (Lag, Instant)>,
    /// Which claims to take writes are out of date.
    pub(crate) fence: Fence,
    /// Whether that is kept over a restart.
    pub(crate) memory: Memory,
}

impl View {
    /// One that counts its rounds on, and forgets no epoch.
    pub(crate) fn after(other: &Self) -> Self {
        let (fence, memory) = (other.fence.clone(), other.memory.clone());
        Self { round: other.round, fence, memory, ..Self::default() }
    }

    /// One that begins with what was remembered of epochs.
    pub(crate) fn with(fence: Fence, memory: Memory) -> Self {
        Self { fence, memory, ..Self::default() }
    }

    /// Puts together what is known now.
    pub(crate) fn snapshot(&mut self, survey: &Survey, now: Instant) -> Snapshot {
        self.round += 1;
        let shown: Vec<&Entry> = survey.entries.values().filter(|e| e.is_shown()).collect();
        let refused = self.refused_claims(&shown, now);
        let seen = seen(survey, &shown, &refused, self.fence.highest());
        let (mut judged, mut writer) = judge::judge(&seen);
        self.hold_back_until_all_were_asked(survey, &mut judged, &mut writer);
        if let Some(primary) = shown.iter().zip(&judged).find(|(_, j)| j.role == Role::Primary) {
            let before = self.reference.replace(primary.0.id);
            if before != self.reference {
                self.took_over_at = before.map(|_| now);
            }
            if let (Some(answer), true) = (&primary.0.answer, self.settled)
                && let Some(epoch) = answer.epoch.known()
            {
                self.fence.acted(&answer.identity.key, epoch);
            }
        }
        let zones = self.placement.zones(survey, &shown, now);
        let own_zone = self.placement.own(survey, &shown, &zones);
        let lags = self.lags(survey, &shown, &judged);
        self.remember_lags(survey, &shown, &lags, now);
        let servers: Vec<Server> = shown
            .iter()
            .zip(&judged)
            .zip(zones.into_iter().zip(lags))
            .map(|((entry, judged), (zone, lag))| Server {
                last_lag: self.last_lags.get(&entry.id).copied(),
                ..server(survey, entry, judged, zone, lag)
            })
            .zip(&refused)
            .map(|(server, refused)| match refused {
                // What a former primary announces concerns nobody.
                Some(Claim::Writes | Claim::Announces) => {
                    Server { announced: fleet::Announcement::Nothing, ..server }
                }
                _ => server,
            })
            .collect();
        let (demand, mut remarks) = self.demand(survey, &servers, own_zone.as_ref(), now);
        remarks.extend(self.remarks(survey, &shown, &servers, &writer));
        remarks.sort();
        remarks.dedup();
        let (round, settled) = (self.round, self.settled);
        let epoch = self.fence.status(unknown_epochs(&shown), &self.memory);
        Snapshot { at: now, round, settled, servers, writer, epoch, own_zone, demand, remarks }
    }

    /// What of each shown server's word on who takes writes does not count, in order.
    fn refused_claims(&mut self, shown: &[&Entry], now: Instant) -> Vec<Option<Claim>> {
        for entry in shown.iter().filter(|entry| entry.is_fresh()) {
            if let Some(epoch) = entry.answer.as_ref().and_then(|answer| answer.epoch.known()) {
                self.fence.saw(&entry.name, epoch);
            }
        }
        let refused: Vec<Option<Claim>> = shown
            .iter()
            .map(|entry| {
                // What a silent one said last is judged with the rest: those that follow it may know better.
                let answer = entry.answer.as_ref().filter(|_| entry.is_fresh())?;
                let channels = answer.channels.list();
                let follows = channels.iter().any(|c| c.receiver != Runs::No || c.applier != Runs::No);
                let claim = ServerClaim {
                    key: &answer.identity.key,
                    epoch: answer.epoch.known(),
                    takes_writes: answer.switches.writable() && !follows,
                    announces: answer.announced != fleet::Announcement::Nothing,
                    operation: answer.operation,
                };
                self.fence.refuses(claim, now)
            })
            .collect();
        let ignored = shown.iter().zip(&refused).filter_map(|(entry, claim)| {
            let epoch = entry.answer.as_ref()?.epoch.known()?;
            Some(IgnoredClaim { server: entry.name.clone(), epoch, claim: (*claim)? })
        });
        self.fence.ignores(ignored.collect());
        refused
    }

    /// At the start, the first that answers may be a former primary that still takes writes. So nobody is
    /// named before every server known has been asked once.
    fn hold_back_until_all_were_asked(
        &mut self,
        survey: &Survey,
        judged: &mut [Judgement],
        writer: &mut WriterStatus,
    ) {
        self.settled |= survey.entries.values().all(|entry| entry.looks > 0);
        if self.settled {
            return;
        }
        let waiting = survey.entries.values().filter(|e| e.looks == 0).map(|e| e.name.to_string());
        let why = format!("still waiting for a first answer of {}", waiting.collect::<Vec<_>>().join(", "));
        for judged in judged.iter_mut().filter(|j| j.role == Role::Primary) {
            judged.role = Role::Unknown;
            judged.because = format!("takes writes; {why}");
        }
        *writer = WriterStatus::Unknown { why };
    }

    /// The lag of each shown server, in order.
    fn lags(&self, survey: &Survey, shown: &[&Entry], judged: &[Judgement]) -> Vec<Option<Lag>> {
        let reference = self.reference.and_then(|id| survey.entries.get(&id));
        let has_primary = judged.iter().any(|j| j.role == Role::Primary);
        let mut lags: BTreeMap<usize, Option<Lag>> = BTreeMap::new();
        // Sources before their replicas; a ring ends after as many rounds as there are servers.
        for _ in 0..shown.len() {
            for at in 0..shown.len() {
                if judged[at].role != Role::Replica || lags.contains_key(&at) {
                    continue;
                }
                let above = match judged[at].source_at {
                    Some(source) if judged[source].role == Role::Replica => match lags.get(&source) {
                        Some(lag) => Above::Replica(*lag),
                        None => continue,
                    },
                    Some(source) if has_primary && stands_alone(shown[source], &judged[source]) => {
                        Above::FormerPrimary(self.took_over_at)
                    }
                    _ => Above::Primary,
                };
                lags.insert(at, lag_of(survey, shown, at, &judged[at], reference, above));
            }
        }
        (0..shown.len()).map(|at| lags.remove(&at).flatten()).collect()
    }

    fn remember_lags(&mut self, survey: &Survey, shown: &[&Entry], lags: &[Option<Lag>], now: Instant) {
        self.last_lags.retain(|id, _| survey.entries.contains_key(id));
        for (entry, lag) in shown.iter().zip(lags) {
            if let Some(lag) = lag {
                self.last_lags.insert(entry.id, (*lag, now));
            }
        }
    }

    fn demand(
        &self,
        survey: &Survey,
        servers: &[Server],
        own: Option<&KnownZone>,
        now: Instant,
    ) -> (Demand, Vec<String>) {
        let by_name: HashMap<&ServerName, &Server> = servers.iter().map(|s| (&s.name, s)).collect();
        let role = |id: ServerId| survey.entries.get(&id).and_then(|e| by_name.get(&e.name));
        let reads = |s: &Server| s.role == Role::Replica && s.reserved.is_none();
        let any_replica = servers.iter().any(|s| reads(s) && s.state == State::Answering);
        let counts = |id: ServerId| {
            role(id).is_some_and(|s| {
                reads(s) || (!any_replica && s.role == Role::Primary && s.reserved.is_none())
            })
        };
        let place = |id: ServerId, host: &str| {
            let local = host == "localhost";
            let at_server = || role(id).and_then(|s| s.zone_name().cloned());
            self.placement
                .client(survey, host, self.resolved.get(host).map_or(&[], Vec::as_slice))
                .or_else(|| if local { at_server() } else { None })
        };
        let estimate = self.estimator.measure(now, counts, place);
        crate::demand::decide(estimate, &survey.config, servers, own.map(|z| &z.zone))
    }

    fn remarks(
        &self,
        survey: &Survey,
        shown: &[&Entry],
        servers: &[Server],
        writer: &WriterStatus,
    ) -> Vec<String> {
        let mut remarks = self.placement.remarks();
        if let WriterStatus::Unknown { why } = writer {
            remarks.push(format!("no writer: {why}"));
        }
        remarks.extend(survey.not_followed());
        if survey.overflow {
            remarks.push(MORE_SERVERS.to_owned());
        }
        for entry in shown {
            remarks.extend(entry.remark.clone());
            let Some(answer) = &entry.answer else { continue };
            remarks.extend(answer.missing.iter().map(|m| format!("{}: {}", entry.name, m.words())));
            remarks.extend(answer.remarks.iter().map(|r| format!("{}: {r}", entry.name)));
            if let Some(because) = &answer.asking.because {
                let every = fleet::duration_text(answer.asking.rounded());
                remarks.push(format!("{}: asked every {every}: {because}", entry.name));
            }
            if let Some(plain) = &answer.plain_because
                && answer.peer.is_some_and(|ip| !ip.is_loopback())
            {
                remarks.push(format!("{}: our questions travel unencrypted: {plain}", entry.name));
            }
        }
        let primary = self.reference.and_then(|id| survey.entries.get(&id));
        if let Some(primary) = primary.filter(|p| !p.is_fresh() && servers.iter().any(|s| s.lag.is_some())) {
            remarks.push(format!(
                "{} does not answer: lag is counted against what it had when it last did",
                primary.name
            ));
        }
        remarks
    }
}

/// What the judge needs to know.
fn seen(survey: &Survey, shown: &[&Entry], refused: &[Option<Claim>], highest: u64) -> Vec<Member> {
    let place: HashMap<ServerId, usize> = shown.iter().enumerate().map(|(at, e)| (e.id, at)).collect();
    let writer = aurora_writer(shown);
    let unseen = || shown.iter().filter(|entry| entry.origin == Origin::Seed && entry.answer.is_none());
    let all_have_answered = unseen().next().is_none();
    let all_were_asked = unseen().all(|entry| entry.state != State::Unasked);
    shown
        .iter()
        .zip(refused)
        .map(|(entry, refused)| {
            let facts = entry.answer.as_ref().map(|answer| {
                let channels = answer.channels.list().to_vec();
                let known: Vec<Option<ServerId>> =
                    channels.iter().map(|c| survey.source_of(entry.id, c)).collect();
                let sources = known.iter().map(|id| place.get(id.as_ref()?).copied()).collect();
                let may_lead_below =
                    |unknown: bool| known.iter().any(|id| id.map_or(unknown, |id| !place.contains_key(&id)));
                Facts {
                    switches: answer.switches,
                    channels,
                    sources,
                    source_unasked: may_lead_below(!all_were_asked),
                    source_unseen: may_lead_below(!all_have_answered),
                    channels_unknown: match &answer.channels {
                        Channels::Unknown { why, .. } => Some(why.clone()),
                        Channels::Known(_) => None,
                    },
                    channels_hidden: matches!(
                        answer.channels,
                        Channels::Unknown { hidden: true, last: None, .. }
                    ),
                    stands_at: answer.applied.as_ref().map(short),
                    managed_writer: match &answer.managed {
                        Some(Managed::Aurora { own, .. }) => Some(writer.as_ref() == Some(own)),
                        _ => None,
                    },
                    epoch: answer.epoch.known(),
                    refused: refused
                        .filter(|claim| *claim != Claim::Announces)
                        .map(|claim| epoch::because(claim, answer.epoch.known().unwrap_or(0), highest)),
                }
            });
            let trouble = match &entry.state {
                State::Silent { why } | State::Failing { why } => why.clone(),
                State::Answering | State::Unasked => String::new(),
            };
            let (name, listed_by) = (entry.name.clone(), listed_by(shown, entry));
            Member { name, fresh: entry.is_fresh(), trouble, listed_by, facts }
        })
        .collect()
}

/// Servers that answer and do not say their epoch.
fn unknown_epochs(shown: &[&Entry]) -> Vec<(ServerName, String)> {
    let why = |entry: &&Entry| match &entry.answer.as_ref()?.epoch {
        ServerEpoch::Unknown { why } => Some((entry.name.clone(), why.clone())),
        ServerEpoch::Known(_) => None,
    };
    shown.iter().copied().filter(|entry| entry.is_fresh()).filter_map(|entry| why(&entry)).collect()
}

/// A position for people: sets of transactions can be long.
fn short(position: &fleet::Position) -> String {
    const LONGEST: usize = 120;
    let text = position.to_string();
    match text.char_indices().nth(LONGEST) {
        Some((at, _)) => format!("{} ...", &text[..at]),
        None => text,
    }
}

/// The writer's id by the best view there is: the writer's own, else that of any instance that answers.
fn aurora_writer(shown: &[&Entry]) -> Option<String> {
    let views = || {
        shown.iter().filter(|e| e.is_fresh()).filter_map(|e| match e.answer.as_ref()?.managed.as_ref()? {
            Managed::Aurora { own, instances } => {
                let writer = instances.iter().find(|i| i.writer)?.id.clone();
                Some((*own == writer, writer))
            }
            Managed::MultiAz { .. } => None,
        })
    };
    views().find(|(own, _)| *own).or_else(|| views().next()).map(|(_, writer)| writer)
}

/// A server that names `entry` as its replica.
fn listed_by(shown: &[&Entry], entry: &Entry) -> Option<ServerName> {
    let is_it = |told: &crate::answer::RegisteredReplica| {
        told.address.as_ref() == Some(&entry.called)
            || (told.server_id != 0 && Some(told.server_id) == entry.server_id())
    };
    shown
        .iter()
        .find(|e| e.id != entry.id && e.answer.as_ref().is_some_and(|a| a.replicas.iter().any(is_it)))
        .map(|e| e.name.clone())
}

/// What a replica's source is, for its lag.
#[derive(Clone, Copy)]
enum Above {
    /// The primary, as far as anybody knows.
    Primary,
    /// A replica that is so late, if that is known.
    Replica(Option<Lag>),
    /// Another server that replicates from nobody, as a former primary that came back read-only: what has
    /// been written since another one took over, if that is known, does not come this way.
    FormerPrimary(Option<Instant>),
}

/// Whether it answers, replicates from nobody and is not the primary.
fn stands_alone(entry: &Entry, judged: &Judgement) -> bool {
    let alone =
        |answer: &Answer| answer.managed.is_none() && answer.channels.told().is_some_and(<[_]>::is_empty);
    judged.role != Role::Primary && entry.is_fresh() && entry.answer.as_ref().is_some_and(alone)
}

fn lag_of(
    survey: &Survey,
    shown: &[&Entry],
    at: usize,
    judged: &Judgement,
    reference: Option<&Entry>,
    above: Above,
) -> Option<Lag> {
    let entry = shown[at];
    // What a server lacked when it last answered says nothing of what it lacks now.
    let answer = entry.answer.as_ref().filter(|_| entry.is_fresh())?;
    if let Some(Managed::Aurora { own, .. }) = &answer.managed {
        return aurora_lag(shown, own, survey);
    }
    let when = Window { asked: answer.asked, answered: answer.answered };
    let channel = judged.channel.and_then(|c| answer.channels.list().get(c));
    let seconds = channel.and_then(|c| c.seconds_behind);
    let seconds = seconds.filter(|_| !matches!(above, Above::FormerPrimary(_)));
    let track = |e: &Entry| survey.tracks.get(&e.id);
    if let (Some(applied), Some(primary)) = (&answer.applied, reference)
        && primary.id != entry.id
        && let Some(track) = track(primary)
    {
        // Of one that does not say what it replicates nothing is left out.
        let channels = answer.channels.told();
        let takes = |domain| channels.is_none_or(|list| list.iter().any(|c| c.domains.take(domain)));
        let applied = lag::complete(applied, track, takes);
        let behind = track.behind(&applied, when, !primary.is_fresh());
        if behind != lag::LagBounds::Unknown {
            return lag::lag(behind, LagSource::GtidSamples, seconds);
        }
    }
    let source = judged.source_at.map(|s| shown[s]);
    // By files a replica of a replica is compared with its source alone: what that one lacks is not known
    // once it is silent.
    if source.is_some_and(|s| !s.is_fresh() && reference.is_some_and(|primary| primary.id != s.id)) {
        return None;
    }
    let executed = channel.and_then(|c| c.executed.clone()).map(fleet::Position::File);
    let behind = match (source, &executed) {
        (Some(source), Some(executed)) => track(source).map_or(lag::LagBounds::Unknown, |track: &Track| {
            track.behind(executed, when, !source.is_fresh())
        }),
        _ => lag::LagBounds::Unknown,
    };
    let own = lag::lag(behind, LagSource::FileSamples, seconds)?;
    match above {
        Above::Primary => Some(own),
        Above::Replica(above) => Some(lag::through(above?, own)),
        Above::FormerPrimary(took_over_at) => {
            let uncertainty = when.answered.saturating_duration_since(took_over_at?) + survey.config.interval;
            let since = Lag { at_least: Duration::ZERO, uncertainty, source: own.source };
            Some(lag::through(since, own))
        }
    }
}

/// Aurora's own figure, by the view of an instance that answers.
fn aurora_lag(shown: &[&Entry], own: &str, survey: &Survey) -> Option<Lag> {
    let of = |e: &&&Entry| e.answer.as_ref()?.managed.as_ref()?.instance(own)?.lag;
    let writers_view = shown.iter().filter(|e| e.is_fresh()).find(|e| {
        matches!(e.answer.as_ref().and_then(|a| a.managed.as_ref()),
            Some(Managed::Aurora { own, instances }) if instances.iter().any(|i| i.writer && i.id == *own))
    });
    let any_view = || shown.iter().filter(|e| e.is_fresh()).find(|e| of(e).is_some());
    let at_least = writers_view.as_ref().and_then(of).or_else(|| any_view().as_ref().and_then(of))?;
    Some(Lag { at_least, uncertainty: survey.config.interval, source: LagSource::Aurora })
}

fn server(
    survey: &Survey,
    entry: &Entry,
    judged: &Judgement,
    zone: Option<KnownZone>,
    lag: Option<Lag>,
) -> Server {
    let (said, _) = survey.rule_outcome(entry);
    let answer = entry.answer.as_ref();
    let channel = judged.channel.and_then(|c| answer?.channels.list().get(c));
    Server {
        name: entry.name.clone(),
        reach: entry.reach.clone(),
        version: answer.map(|a| a.product.clone()),
        role: judged.role,
        because: judged.because.clone(),
        state: entry.state.clone(),
        zone,
        lag,
        last_lag: None,
        seconds_behind: channel.filter(|_| entry.is_fresh()).and_then(|c| c.seconds_behind),
        replication: judged.replication.clone(),
        source: judged.source.clone(),
        weight: said.weight.unwrap_or(fleet::Weight::ONE),
        reserved: said.reserved,
        proxy_protocol: said.proxy_protocol,
        announced: answer.filter(|_| entry.is_fresh()).map_or(fleet::Announcement::Nothing, |a| a.announced),
        load: entry.load(),
        pool: answer.filter(|_| entry.is_fresh()).and_then(|a| a.load?.pool),
        back_since: entry.back_since,
        answered_at: entry.answered_at,
        answer_holds_until: entry.answered_at.map(|at| at + entry.answer_holds(&survey.config)),
        asking: answer.map(|a| a.asking.clone()),
        newcomer: entry.newcomer(),
        question_time: answer.and_then(|a| a.question_time),
        round_trip: answer.and_then(|a| a.round_trip),
        lacks: answer.map(|a| a.missing.iter().map(Missing::lack).collect()).unwrap_or_default(),
    }
}
