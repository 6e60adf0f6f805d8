//! Reads what a failover decides on: who the dead primary is, what its replicas have, and whether it is dead.

use super::choose::{NoChoice, Received, Standing, choose};
use super::confirm::{Look, Rule, Verdict, View, confirm};
use super::risk::{self, LossRisk, SemiSync, SourceEvidence};
use super::{gray, own_writes, receiver, unfinished};
use crate::check::{self, Finding};
use crate::connection::{BRIEFLY, Connection};
use crate::dialect::Dialect;
use crate::facts::{self, Channel, Facts};
use crate::perform::{Deadlines, FenceBy, Kind, Member, Plan};
use crate::semi_sync::{self as plugins, Switches};
use crate::survey;
use crate::{Error, Flags};
use config::Credentials;
use fleet::{Address, ServerName, Snapshot, Thread};
use observe::AskError;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// Time between two looks.
const PAUSE: Duration = Duration::from_millis(200);

/// A server's name and address.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerAddress {
    pub name: ServerName,
    pub reach: Address,
}

/// What was read.
#[derive(Clone, Debug)]
pub struct Scene {
    /// The primary that does not answer.
    pub primary: ServerAddress,
    /// Where its replicas look for it.
    pub source: (String, u16),
    /// Its direct replicas that answer.
    pub replicas: Vec<Facts>,
    /// Other servers that answer: replicas of replicas keep their source.
    pub others: Vec<Facts>,
    /// Servers that are known and do not answer, the primary left out.
    pub silent: Vec<ServerName>,
    /// Why each of these could not be read.
    pub unread: Vec<(ServerName, String)>,
    /// The highest epoch recorded anywhere.
    pub epoch: u64,
}

/// What all servers answered, by their names.
pub(super) struct Answers {
    pub(super) answering: Vec<Facts>,
    /// Why each of these could not be read.
    pub(super) unread: Vec<(ServerName, String)>,
    /// The highest epoch recorded anywhere.
    pub(super) epoch: u64,
    /// The state and the plan that are recorded with it, where that can be read.
    pub(super) newest: Option<(String, Plan)>,
}

impl Answers {
    /// Asks all at once, but for `left_out`.
    pub(super) async fn read(
        snapshot: &Snapshot,
        left_out: Option<&ServerName>,
        who: &Credentials,
        deadline: Duration,
    ) -> Self {
        let mut asked = JoinSet::new();
        for server in snapshot.servers.iter().filter(|server| Some(&server.name) != left_out) {
            let (name, reach, who) = (server.name.clone(), server.reach.clone(), who.clone());
            let reserved = server.reserved.clone();
            asked.spawn(async move {
                let facts = facts::read_for_failover(&name, &reach, &who, deadline).await;
                let facts = facts.map(|facts| Facts { reserved, ..facts });
                let recorded = survey::newest_record(&name, &reach, &who, deadline).await;
                (name, facts, recorded.ok().flatten())
            });
        }
        let mut answers = Self { answering: Vec::new(), unread: Vec::new(), epoch: 0, newest: None };
        let mut state = String::new();
        while let Some(Ok((name, facts, recorded))) = asked.join_next().await {
            // A state that is further on counts: replicas may be late.
            if let Some((epoch, further, plan)) = recorded
                && (epoch > answers.epoch || (epoch == answers.epoch && state == "begun"))
            {
                answers.epoch = epoch;
                answers.newest = serde_json::from_str(&plan).ok().map(|plan| (further.clone(), plan));
                state = further;
            }
            match facts {
                Ok(facts) => answers.answering.push(facts),
                Err(error) => answers.unread.push((name, error.to_string())),
            }
        }
        answers.answering.sort_by(|a, b| a.server.cmp(&b.server));
        answers.unread.sort();
        answers
    }
}

/// How death was confirmed.
#[derive(Clone, Debug)]
pub struct Confirmation {
    /// Looks that were needed.
    pub looks: usize,
    pub took: Duration,
    /// What each direct replica saw of it then.
    pub views: Vec<(ServerName, View)>,
}

impl Scene {
    /// Reads all servers at once. The dead primary is the server that others follow and that does not answer;
    /// `primary` names it where it is known; `flags` are those that whoever asks was started with.
    ///
    /// # Errors
    /// When a server takes writes, or is the primary by the newest record and answers, or nobody or more than
    /// one is followed and does not answer.
    pub async fn read(
        snapshot: &Snapshot,
        primary: Option<&ServerName>,
        who: &Credentials,
        deadline: Duration,
        flags: &Flags,
    ) -> Result<Self, Error> {
        let Answers { answering, mut unread, epoch, newest } =
            Answers::read(snapshot, primary, who, deadline).await;
        let mut silent: Vec<ServerName> = unread.iter().map(|(name, _)| name.clone()).collect();
        if let Some(writer) = answering.iter().find(|facts| !facts.refuses_writes()) {
            return Err(in_the_way(writer, flags));
        }
        if primary.is_none()
            && let Some(error) = unfinished::closed_primary(&answering, newest.as_ref(), flags)
        {
            return Err(error);
        }
        let (source, replicas, others) = split(answering, snapshot, primary, &unread)?;
        let primary = match primary {
            Some(name) => name.clone(),
            None => named(snapshot, &source, &replicas, &silent),
        };
        let reach = snapshot
            .server(&primary)
            .map_or_else(|| Address::tcp(source.0.clone(), source.1), |server| server.reach.clone());
        silent.retain(|name| *name != primary);
        unread.retain(|(name, _)| *name != primary);
        let primary = ServerAddress { name: primary, reach };
        Ok(Self { primary, source, replicas, others, silent, unread, epoch })
    }

    /// Looks until the primary is confirmed dead by `rule`, at most `within`.
    ///
    /// # Errors
    /// When it answers, or not everything needed is seen in time.
    pub async fn confirm(
        &self,
        who: &Credentials,
        rule: &Rule,
        within: Duration,
    ) -> Result<Confirmation, Error> {
        let replicas: Vec<(ServerAddress, Dialect)> = self
            .replicas
            .iter()
            .map(|facts| {
                (ServerAddress { name: facts.server.clone(), reach: facts.reach.clone() }, facts.dialect())
            })
            .collect();
        confirm_death(&self.primary, replicas, &self.silent, who, rule, within).await
    }

    /// Looks until it is sure that the primary answers while its commits hang; the evidence in words.
    ///
    /// # Errors
    /// See [`gray::confirm`].
    pub async fn confirm_gray(
        &self,
        who: &Credentials,
        rule: &Rule,
        deadline: Duration,
    ) -> Result<String, Error> {
        gray::confirm(&self.primary.name, &self.primary.reach, who, rule, deadline).await
    }

    /// The other servers of the fleet, by name, whether they answer or not.
    pub fn known(&self) -> Vec<&ServerName> {
        let answering = self.replicas.iter().chain(&self.others).map(|facts| &facts.server);
        let mut all: Vec<&ServerName> = answering.chain(&self.silent).collect();
        all.sort();
        all
    }

    /// Whether the receivers of all replicas are stopped, as a failover leaves them whose tool was killed:
    /// they do not look for the primary, and its death is not confirmed.
    pub fn all_stopped(&self) -> bool {
        let stopped = |facts: &Facts| view(&facts.channels) == View::Stopped;
        !self.replicas.is_empty() && self.replicas.iter().all(stopped)
    }

    /// The statements that let replicas look for the primary again, each with its server, and who stays
    /// stopped, in words.
    pub fn receive_again(&self) -> String {
        receiver::in_words(&self.replicas)
    }

    /// Passes where no replica whose threads stand wrote something which no other server has: else it was
    /// promoted, and must not be made a replica again. Asked where [`Self::all_stopped`].
    ///
    /// # Errors
    /// [`Error::Refused`] where one did, or nobody can tell, with what a person can do.
    pub async fn nobody_was_promoted(
        &self,
        who: &Credentials,
        deadline: Duration,
        flags: &Flags,
    ) -> Result<(), Error> {
        let answering: Vec<&Facts> = self.replicas.iter().chain(&self.others).collect();
        own_writes::nobody_was_promoted(&self.replicas, &answering, who, deadline, flags).await
    }

    /// Lets replicas look for the primary again, but those that somebody stopped: once
    /// [`Self::nobody_was_promoted`].
    ///
    /// # Errors
    /// A failover or switchover is going on, whose work this would be, or a server does not do it.
    pub async fn start_receivers(&self, who: &Credentials, deadline: Duration) -> Result<(), Error> {
        receiver::start(&self.replicas, who, deadline).await
    }

    /// What each replica shows of semi-sync.
    pub fn semi_sync(&self) -> Vec<SemiSync> {
        self.replicas.iter().map(semi_sync).collect()
    }

    /// What could be lost, or the facts by which nothing can, by what is known of the primary's own
    /// semi-sync.
    ///
    /// # Errors
    /// What could be lost.
    pub fn rule_out_loss(&self, evidence: &SourceEvidence) -> Result<String, LossRisk> {
        let kept: Vec<ServerName> = self.keep_their_channels().map(|facts| facts.server.clone()).collect();
        if !kept.is_empty() {
            return Err(LossRisk::KeepsReceiving(kept));
        }
        risk::rule_out_loss(&self.semi_sync(), &self.silent, &self.primary.name, evidence)
    }

    /// Replicas whose channels have names, or that have several: no statement of ours means these.
    fn keep_their_channels(&self) -> impl Iterator<Item = &Facts> {
        self.replicas.iter().filter(|facts| !has_one_plain_channel(facts))
    }

    /// Who takes over.
    ///
    /// # Errors
    /// Nobody can, or the one that is wanted lacks something.
    pub fn choose(&self, wanted: Option<&ServerName>) -> Result<ServerName, Error> {
        // What one with several sources has of the others nobody else has: it is compared only where it is
        // wanted, or alone. That it may have more is said of what could be lost.
        let is_compared = |facts: &&Facts| {
            facts.channels.len() == 1 || wanted.is_some_and(|wanted| *wanted == facts.server)
        };
        let mut compared: Vec<&Facts> = self.replicas.iter().filter(is_compared).collect();
        if compared.is_empty() {
            compared.extend(&self.replicas);
        }
        let mut standings = Vec::new();
        for facts in compared {
            standings.push(standing(facts)?);
        }
        let refused =
            |error: NoChoice| Error::Refused { server: self.primary.name.clone(), why: error.to_string() };
        choose(&standings, wanted).map(|chosen| chosen.server.clone()).map_err(refused)
    }

    /// Whether too few would be left to acknowledge what `candidate` commits, where somebody did before.
    pub fn semi_sync_stays_off(&self, candidate: &ServerName) -> bool {
        self.was_semi_sync() && !self.enough_acknowledge(candidate)
    }

    /// Reads what our own account may do on the replicas, for [`Self::own_privileges`].
    pub async fn read_own_grants(&mut self, who: &Credentials, deadline: Duration) {
        facts::read_own_grants(&mut self.replicas, who, deadline).await;
    }

    /// Whether it may do what a failover to `candidate` needs; of nobody, what all of them need.
    pub fn own_privileges(&self, candidate: Option<&ServerName>) -> Finding {
        let is_chosen = |facts: &Facts| Some(&facts.server) == candidate;
        let moves = |facts: &&Facts| has_one_plain_channel(facts) || is_chosen(facts);
        check::failover_privileges(self.replicas.iter().filter(moves), is_chosen, self.waits_once_promoted())
    }

    /// The same while nobody is chosen: of each replica that may be, what it would need.
    pub(crate) fn own_privileges_of_all(&self) -> Finding {
        let may_be_chosen = |facts: &Facts| facts.reserved.is_none();
        let moved = self.replicas.iter().filter(|facts| has_one_plain_channel(facts));
        check::failover_privileges(moved, may_be_chosen, self.waits_once_promoted())
    }

    /// Whether a replica waits for acknowledgements once it is promoted: not where too few would give one.
    fn waits_once_promoted(&self) -> impl Fn(&Facts) -> bool {
        move |facts| self.was_semi_sync() && self.enough_acknowledge(&facts.server)
    }

    /// The dead one's `server_id`, as its replicas know it; 0 when none does.
    fn primary_id(&self) -> u32 {
        let channels = self.replicas.iter().filter_map(|facts| facts.channels.first());
        let lives = |id: &u32| self.replicas.iter().chain(&self.others).any(|facts| facts.server_id == *id);
        channels.map(|channel| channel.source_id).find(|id| *id != 0 && !lives(id)).unwrap_or(0)
    }

    fn was_semi_sync(&self) -> bool {
        self.semi_sync().iter().any(|replica| replica.replica)
    }

    /// Whether as many servers as the candidate would wait for follow it afterwards, or do already, as
    /// semi-sync replicas.
    pub(super) fn enough_acknowledge(&self, candidate: &ServerName) -> bool {
        let chosen = self.replicas.iter().find(|facts| facts.server == *candidate);
        let follows_it = |facts: &&Facts| {
            let channel = facts.channels.first();
            chosen.zip(channel).is_some_and(|(chosen, channel)| crate::check::is_source(chosen, channel))
        };
        let stopped = |facts: &Facts| facts.channels.first().and_then(Channel::stopped_beside_the_dead);
        let receives = |facts: &Facts| has_one_plain_channel(facts) && stopped(facts) != Some(Thread::Both);
        let moves = |facts: &&Facts| facts.server != *candidate && receives(facts);
        let acknowledges = |facts: &&Facts| survey::member(facts).semi_sync_replica;
        let followers = self.replicas.iter().filter(moves).chain(self.others.iter().filter(follows_it));
        followers.filter(acknowledges).count() >= chosen.map_or(1, plugins::needed)
    }

    /// What is to be done to promote `candidate`.
    ///
    /// # Errors
    /// When it is no replica.
    pub fn plan(
        &self,
        candidate: &ServerName,
        fence: FenceBy,
        deadlines: Deadlines,
        by: &str,
    ) -> Result<Plan, Error> {
        let found = self.replicas.iter().find(|facts| facts.server == *candidate);
        let chosen = found.ok_or_else(|| Error::Refused {
            server: candidate.clone(),
            why: "is no replica of the dead primary that answers".to_owned(),
        })?;
        let member =
            |facts: &Facts, follows: bool| Member { follows_primary: follows, ..survey::member(facts) };
        let siblings = self.replicas.iter().filter(|facts| facts.server != *candidate);
        let others = siblings.map(|facts| Member {
            stopped: facts.channels.first().and_then(Channel::stopped_beside_the_dead),
            ..member(facts, has_one_plain_channel(facts))
        });
        let others = others.chain(self.others.iter().map(|facts| member(facts, false))).collect();
        let candidate = member(chosen, true);
        Ok(Plan {
            kind: Kind::Failover { fence, gray: false },
            epoch: self.epoch + 1,
            primary: Member {
                name: self.primary.name.to_string(),
                reach: self.primary.reach.to_string(),
                host: self.source.0.clone(),
                port: self.source.1,
                version: candidate.version.clone(),
                follows_primary: false,
                stopped: None,
                read_only: false,
                semi_sync_replica: false,
                semi_sync: Switches::default(),
            },
            primary_id: self.primary_id(),
            candidate,
            others,
            events: Vec::new(),
            events_left: chosen.replica_side_events.clone().unwrap_or_default(),
            events_enabled: chosen.events.clone().unwrap_or_default(),
            events_unknown: chosen.replica_side_events.is_none() || chosen.events.is_none(),
            semi_sync: self.was_semi_sync() && self.enough_acknowledge(&chosen.server),
            semi_sync_stays_off: self.semi_sync_stays_off(&chosen.server),
            protection: chosen.channels.first().map_or_else(Vec::new, |channel| channel.protection.clone()),
            deadlines,
            by: by.to_owned(),
        })
    }
}

/// Looks at a primary and at what its replicas see until it is confirmed dead, at most `within`.
///
/// # Errors
/// When it answers, or not everything needed is seen in time.
pub(crate) async fn confirm_death(
    primary: &ServerAddress,
    replicas: Vec<(ServerAddress, Dialect)>,
    silent: &[ServerName],
    who: &Credentials,
    rule: &Rule,
    within: Duration,
) -> Result<Confirmation, Error> {
    const LOOK: Duration = Duration::from_secs(1);
    let began = Instant::now();
    let mut looks = Vec::new();
    let mut lines: Vec<ReplicaWatch> = replicas
        .into_iter()
        .map(|(replica, dialect)| ReplicaWatch { replica, dialect, open: None })
        .collect();
    // A look at a host that vanished takes its whole second: the replicas are asked all the while.
    let begin_look = || {
        let (to, login, at) = (primary.reach.clone(), who.clone(), began.elapsed());
        tokio::spawn(async move { Look { at, answered: answers(&to, &login, LOOK).await } })
    };
    let mut look = begin_look();
    loop {
        let mut asked = JoinSet::new();
        for mut line in std::mem::take(&mut lines) {
            let login = who.clone();
            asked.spawn(async move {
                let view = line.view(&login, LOOK).await;
                (line, view)
            });
        }
        let mut views: Vec<(ServerName, View)> =
            silent.iter().map(|name| (name.clone(), View::Silent)).collect();
        while let Some(Ok((line, view))) = asked.join_next().await {
            views.push((line.replica.name.clone(), view));
            lines.push(line);
        }
        if look.is_finished() {
            looks.extend((&mut look).await.ok());
            look = begin_look();
        }
        match confirm(&looks, &views, rule) {
            Verdict::Dead => return Ok(Confirmation { looks: looks.len(), took: began.elapsed(), views }),
            Verdict::Alive => {
                let why = "answers: it is not dead. A planned move is headroom switchover".to_owned();
                return Err(Error::Refused { server: primary.name.clone(), why });
            }
            Verdict::NotYet { why } if began.elapsed() >= within => {
                return Err(Error::TooLate {
                    server: primary.name.clone(),
                    what: "is not confirmed dead".to_owned(),
                    seconds: within.as_secs_f64(),
                    detail: format!(": {why}"),
                });
            }
            Verdict::NotYet { .. } => tokio::time::sleep(PAUSE).await,
        }
    }
}

/// Any answer counts, a refused login too.
pub(super) async fn answers(to: &Address, who: &Credentials, deadline: Duration) -> bool {
    match observe::connect(to, who, deadline).await {
        Ok(conn) => {
            let _ = tokio::time::timeout(deadline, conn.disconnect()).await;
            true
        }
        Err(AskError::Answered { .. }) => true,
        Err(_) => false,
    }
}

struct ReplicaWatch {
    replica: ServerAddress,
    dialect: Dialect,
    open: Option<Connection>,
}

impl ReplicaWatch {
    async fn view(&mut self, who: &Credentials, deadline: Duration) -> View {
        let Ok(channels) = self.channels(who, deadline).await else {
            self.open = None;
            return View::Silent;
        };
        view(&channels)
    }

    async fn channels(&mut self, who: &Credentials, deadline: Duration) -> Result<Vec<Channel>, Error> {
        if self.open.is_none() {
            let ServerAddress { name, reach } = &self.replica;
            self.open = Some(Connection::open(name, reach, who, deadline, BRIEFLY).await?);
        }
        match &mut self.open {
            Some(open) => facts::channels(open, self.dialect, deadline).await,
            None => Ok(Vec::new()),
        }
    }
}

pub(super) fn view(channels: &[Channel]) -> View {
    match channels.first() {
        Some(channel) if channel.receiver_runs => View::Connected,
        Some(channel) if channel.receiver_tries => View::Lost,
        _ => View::Stopped,
    }
}

/// Where the dead one was, its direct replicas, and the rest.
type Split = ((String, u16), Vec<Facts>, Vec<Facts>);

/// What is in the way of a failover while this one takes writes.
fn in_the_way(writer: &Facts, flags: &Flags) -> Error {
    let (server, why) = (writer.server.clone(), takes_writes(writer, flags));
    if writer.channels.is_empty() {
        Error::HasPrimary { server, why }
    } else {
        Error::Refused { server, why }
    }
}

/// The same in words.
fn takes_writes(writer: &Facts, flags: &Flags) -> String {
    match writer.channels.first() {
        None => "takes writes: there is a primary, and nothing to fail over".to_owned(),
        Some(channel) => writable_replica(channel, writer.dialect(), flags),
    }
}

/// What is said of a replica that is not read-only.
pub(crate) fn writable_replica(channel: &Channel, dialect: Dialect, flags: &Flags) -> String {
    let source = format!("{}:{}", channel.host, channel.port);
    let mut words = format!(
        "is a replica of {source} and not read-only, so it counts as a primary: {} there, then again",
        dialect.refuse_as_replica()
    );
    if view(std::slice::from_ref(channel)) == View::Stopped && !channel.applier_runs {
        let (resume, from_servers) = (
            flags.after("headroom failover --resume"),
            flags.after("headroom failover --resume --from-servers"),
        );
        words.push_str(&format!(
            ". If a failover that was cut off has promoted it: on the host of that failover {resume}; on any other \
             {from_servers}"
        ));
    }
    words
}

/// Of servers that follow different ones that do not answer, those of `primary` are its replicas, where each
/// of the rest follows another server that is known and silent: a replica that went with it. A server with
/// several channels may have sources outside of the fleet, which say nothing of it: it is a replica where one
/// of them leads to the dead one, which is then its first.
fn split(
    answering: Vec<Facts>,
    snapshot: &Snapshot,
    primary: Option<&ServerName>,
    unread: &[(ServerName, String)],
) -> Result<Split, Error> {
    let refused = |why: &str| Error::Refused { server: ServerName::new("the fleet"), why: why.to_owned() };
    // One that was told to follow a server and has not reached it still shows the number of the one before.
    let leads_to_silent = |channel: &Channel| {
        let address = Address::tcp(channel.host.clone(), channel.port);
        let silent =
            |name: &ServerName| Some(name) == primary || unread.iter().any(|(silent, _)| silent == name);
        let mut there = snapshot.servers.iter().filter(|server| server.reach == address);
        !channel.receiver_runs && there.any(|server| silent(&server.name))
    };
    let leads_to_the_dead = |channel: &Channel| {
        leads_to_silent(channel) || !answering.iter().any(|other| crate::check::is_source(other, channel))
    };
    let of = |facts: &Facts, channel: &Channel, name: &ServerName| {
        let followed = snapshot.server(&facts.server).and_then(|server| server.source.as_deref());
        let address = Address::tcp(channel.host.clone(), channel.port);
        let reached = snapshot.server(name).is_some_and(|server| server.reach == address);
        (facts.channels.len() == 1 && followed == Some(name.as_str())) || reached
    };
    let dead = |facts: &Facts| -> Vec<Channel> {
        facts.channels.iter().filter(|channel| leads_to_the_dead(channel)).cloned().collect()
    };
    let dead: Vec<Vec<Channel>> = answering.iter().map(dead).collect();
    let with_channels = || {
        answering.iter().zip(&dead).flat_map(|(facts, dead)| dead.iter().map(move |channel| (facts, channel)))
    };
    let of_primary =
        primary.and_then(|name| with_channels().find(|(facts, channel)| of(facts, channel, name)));
    let has_one = |(facts, _): &(&Facts, &Channel)| facts.channels.len() == 1;
    let first = of_primary.or_else(|| with_channels().find(has_one)).or_else(|| with_channels().next());
    let Some((_, first)) = first else {
        let mut why = "no server follows one that does not answer: which primary is dead?".to_owned();
        let each = |(name, error): &(ServerName, String)| format!(" {name} was not read: {error}.");
        why.extend(unread.iter().map(each));
        why.push_str(
            " A failover needs a replica that answers: headroom fleet shows who does, and whom it follows.",
        );
        return Err(refused(&why));
    };
    // Each may reach it by another address: its number says that it is the same.
    let same = |channel: &Channel| {
        let address = (&channel.host, channel.port) == (&first.host, first.port);
        address || (first.source_id != 0 && channel.source_id == first.source_id)
    };
    let of_another = |facts: &Facts, channel: &Channel| {
        let another = |(name, _): &&(ServerName, String)| Some(name) != primary && of(facts, channel, name);
        of_primary.is_some() && unread.iter().any(|one| another(&one))
    };
    let strange = |(facts, channel): (&Facts, &Channel)| !same(channel) && !of_another(facts, channel);
    if with_channels().filter(has_one).any(strange) {
        return Err(refused("servers follow two different ones that do not answer: this is not one fleet"));
    }
    let source = (first.host.clone(), first.port);
    let at: Vec<Option<usize>> = answering
        .iter()
        .map(|facts| facts.channels.iter().position(|channel| leads_to_the_dead(channel) && same(channel)))
        .collect();
    let (mut replicas, mut others) = (Vec::new(), Vec::new());
    for (mut facts, at) in answering.into_iter().zip(at) {
        match at {
            Some(at) => {
                facts.channels.swap(0, at);
                replicas.push(facts);
            }
            None => others.push(facts),
        }
    }
    Ok((source, replicas, others))
}

/// The name of the dead one: by what the fleet's survey says that its replicas follow, by its address, or
/// because no other server is silent.
pub(super) fn named(
    snapshot: &Snapshot,
    source: &(String, u16),
    replicas: &[Facts],
    silent: &[ServerName],
) -> ServerName {
    let address = Address::tcp(source.0.clone(), source.1);
    let followed = replicas.iter().find_map(|facts| snapshot.server(&facts.server)?.source.clone());
    let known = |name: &String| snapshot.servers.iter().any(|server| server.name.as_str() == name);
    if let Some(name) = followed.filter(known) {
        return ServerName::new(&name);
    }
    let reached = snapshot.servers.iter().find(|server| server.reach == address);
    match (reached, silent) {
        (Some(server), _) => server.name.clone(),
        (None, [only]) => only.clone(),
        _ => ServerName::new(&address.to_string()),
    }
}

fn has_one_plain_channel(facts: &Facts) -> bool {
    matches!(facts.channels.as_slice(), [channel] if channel.name.is_empty())
}

/// Why routers would send nobody to a server that this rule reserves.
pub(crate) fn reserved_words(rule: &str) -> String {
    format!("it is reserved by rule {rule}, so routers would send it no writer")
}

fn standing(facts: &Facts) -> Result<Standing, Error> {
    let channel = facts.channels.first();
    let received = channel.map_or("", |channel| channel.received.as_str());
    let unreadable =
        |error: fleet::GtidError| Error::Refused { server: facts.server.clone(), why: error.to_string() };
    let received = Received::new(facts.version.flavour, received, facts.applied()).map_err(unreadable)?;
    let off = |names: &[&str]| facts.is_on(names) != Some(true);
    let unusable = match channel {
        _ if off(&["log_bin"]) => Some("it writes no binary log".to_owned()),
        _ if off(&["log_replica_updates", "log_slave_updates"]) => {
            Some("it does not log what it replicates".to_owned())
        }
        _ if facts.channels.len() > 1 => Some("it replicates from several sources".to_owned()),
        _ if facts.reserved.is_some() => facts.reserved.as_deref().map(reserved_words),
        _ if !off(&["offline_mode"]) => Some("it is in offline_mode and refuses clients".to_owned()),
        Some(channel) if !channel.name.is_empty() => {
            Some(format!("its channel has a name ({}), and only those without one are moved", channel.name))
        }
        Some(channel) if !channel.by_gtid => Some("it follows by file and offset".to_owned()),
        Some(_) if let Some(mode) = facts.gtid_mode_that_nobody_can_follow() => Some(format!(
            "its gtid_mode is {mode}, and replicas that go by GTID follow one with ON only: there SET \
                 GLOBAL gtid_mode = ON"
        )),
        Some(channel) if channel.withholds().is_some() => channel.withholds(),
        Some(channel) if !channel.applier_runs => {
            Some(format!("its applying thread does not run {}", channel.last_error).trim_end().to_owned())
        }
        _ => None,
    };
    Ok(Standing { server: facts.server.clone(), received, unusable, version: facts.version })
}

pub(crate) fn semi_sync(facts: &Facts) -> SemiSync {
    let status = |names: [&str; 2]| names.iter().find_map(|name| facts.status.get(*name));
    let timeout = facts.variable(&["rpl_semi_sync_master_timeout", "rpl_semi_sync_source_timeout"]);
    SemiSync {
        server: facts.server.clone(),
        replica: status(["rpl_semi_sync_slave_status", "rpl_semi_sync_replica_status"])
            .is_some_and(|value| value.eq_ignore_ascii_case("on")),
        acknowledged: facts.counter("rpl_semi_sync_slave_send_ack"),
        timeout: timeout.and_then(|ms| ms.parse().ok()).map(Duration::from_millis),
        waits_without_replicas: facts
            .is_on(&["rpl_semi_sync_master_wait_no_slave", "rpl_semi_sync_source_wait_no_replica"]),
    }
}

#[cfg(test)]
pub(super) mod tests;
