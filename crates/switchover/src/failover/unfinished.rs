//! What a failover left behind whose tool was lost, as the servers themselves show it: for a host that does
//! not have its journal.
//!
//! | the servers show | what is left |
//! |---|---|
//! | nobody takes writes, and no replica looks for the primary | replicas look for it again: nothing was promoted |
//! | one takes writes and still holds its stopped channel | from *mark* on |
//! | one takes writes, recorded as the new primary, and replicas look for the old one | from *repoint* on |
//!
//! A candidate that was promoted, written to and restarted closed looks like the first row: see
//! `own_writes.rs`.
//!
//! A replica that was opened to writes by mistake looks like the second row. So nobody goes on while any
//! other replica is connected to the old primary, while that answers and cannot be read, or where another one
//! has received more.

use super::choose::Received;
use super::confirm::View;
use super::own_writes;
use super::receiver;
use super::scene::{self, Answers, Scene, ServerAddress};
use crate::check::is_source;
use crate::facts::{Channel, Facts};
use crate::perform::{Deadlines, FenceBy, Kind, Member, Plan};
use crate::step::Step;
use crate::survey;
use crate::{Error, Flags};
use config::Credentials;
use fleet::{ServerName, Snapshot};
use std::time::Duration;

/// What was found.
#[derive(Debug)]
pub enum Found {
    /// Nothing is left to do.
    Nothing,
    /// Nobody was promoted, and no replica of `primary` looks for it.
    NobodyPromoted(Stopped),
    /// The candidate of the plan was promoted.
    Promoted(Box<Unfinished>),
}

/// Replicas that do not look for their source.
#[derive(Debug)]
pub struct Stopped {
    pub primary: ServerName,
    replicas: Vec<Facts>,
}

/// A failover that promoted somebody and did not end.
#[derive(Debug)]
pub struct Unfinished {
    pub plan: Plan,
    /// Where to go on.
    pub from: Step,
    /// Replicas that were not told whom to follow.
    pub left: Vec<ServerName>,
    /// What shows it, in words.
    pub why: String,
}

impl Stopped {
    /// The statements that let them look again, each with its server, and who stays stopped, in words.
    pub fn statements(&self) -> String {
        receiver::in_words(&self.replicas)
    }

    /// Ends the sessions by which a program whose host was lost holds the lock of an operation on them. What
    /// was ended, in words. The program may have gone on until then: look again with [`find`].
    ///
    /// # Errors
    /// A server does not do it.
    pub async fn end_sessions(&self, who: &Credentials, deadline: Duration) -> Result<Vec<String>, Error> {
        receiver::end_holders(&self.replicas, who, deadline).await
    }

    /// Lets them look again.
    ///
    /// # Errors
    /// An operation is going on, or a server does not do it.
    pub async fn start(&self, who: &Credentials, deadline: Duration) -> Result<(), Error> {
        receiver::start(&self.replicas, who, deadline).await
    }
}

/// Who would go on, and how.
#[derive(Clone, Copy, Debug)]
pub struct Successor<'a> {
    pub who: &'a Credentials,
    /// For records.
    pub by: &'a str,
    pub deadlines: Deadlines,
    /// That it was started with.
    pub flags: &'a Flags,
}

/// Looks at all servers.
///
/// # Errors
/// When no server can be read, two take writes, one that refuses writes took some or is the primary by the
/// newest record, or what is seen has another reason than a failover that was cut off.
pub async fn find(snapshot: &Snapshot, successor: Successor<'_>, deadline: Duration) -> Result<Found, Error> {
    let answers = Answers::read(snapshot, None, successor.who, deadline).await;
    let found = found(&answers, snapshot, successor, deadline).await?;
    if let Found::NobodyPromoted(stopped) = &found {
        let closed = closed_primary(&answers.answering, answers.newest.as_ref(), successor.flags);
        if let Some(error) = closed {
            return Err(error);
        }
        let answering: Vec<&Facts> = answers.answering.iter().collect();
        let (who, flags) = (successor.who, successor.flags);
        own_writes::nobody_was_promoted(&stopped.replicas, &answering, who, deadline, flags).await?;
    }
    Ok(found)
}

/// By roles and channels alone.
async fn found(
    answers: &Answers,
    snapshot: &Snapshot,
    successor: Successor<'_>,
    deadline: Duration,
) -> Result<Found, Error> {
    if answers.answering.is_empty()
        && let Some((server, why)) = answers.unread.first()
    {
        let why = format!("no server was read, so what was begun is not known: {why}");
        return Err(Error::Refused { server: server.clone(), why });
    }
    let writers: Vec<&Facts> = answers.answering.iter().filter(|facts| !facts.refuses_writes()).collect();
    let writer = match writers.as_slice() {
        [] => return Ok(nobody_promoted(answers, snapshot)),
        [writer] => *writer,
        [first, rest @ ..] => {
            let others: Vec<&str> = rest.iter().map(|facts| facts.server.as_str()).collect();
            let why = format!("takes writes, and so does {}: close one of them first", others.join(", "));
            return Err(refused(first, why));
        }
    };
    let recorded = recorded(writer, successor.who, deadline).await?;
    let Some(channel) = writer.channels.first() else { return Ok(marked(writer, answers, recorded)) };
    if recorded.is_some_and(|(state, _)| state == "begun") {
        let resume = successor.flags.after("headroom switchover --resume --from-servers");
        let why = format!("takes writes since a switchover that did not end: {resume}");
        return Err(refused(writer, why));
    }
    let scene = scene_of(channel, answers, snapshot);
    old_is_out(writer, channel, &scene, answers, successor).await?;
    unmarked(writer, &scene, successor)
}

/// The newest operation that the server knows of: its state and its plan.
async fn recorded(
    writer: &Facts,
    who: &Credentials,
    deadline: Duration,
) -> Result<Option<(String, Plan)>, Error> {
    let newest = survey::newest_record(&writer.server, &writer.reach, who, deadline).await?;
    let Some((_, state, plan)) = newest else { return Ok(None) };
    let plan = serde_json::from_str(&plan)
        .map_err(|error| refused(writer, format!("its newest record cannot be read: {error}")))?;
    Ok(Some((state, plan)))
}

/// Nobody takes writes: receivers that a failover stopped are started again.
fn nobody_promoted(answers: &Answers, snapshot: &Snapshot) -> Found {
    let alive = |channel: &Channel| answers.answering.iter().any(|other| is_source(other, channel));
    let followed = |facts: &&Facts| facts.channels.first().is_some_and(|channel| !alive(channel));
    let replicas: Vec<Facts> = answers.answering.iter().filter(followed).cloned().collect();
    let Some(channel) = replicas.first().and_then(|facts| facts.channels.first()) else {
        return Found::Nothing;
    };
    let silent: Vec<ServerName> = answers.unread.iter().map(|(name, _)| name.clone()).collect();
    let primary = scene::named(snapshot, &(channel.host.clone(), channel.port), &replicas, &silent);
    stopped(primary, replicas)
}

/// [`Found::NobodyPromoted`] where none of the primary's replicas looks for it. Those that were stopped by
/// hand are their people's affair while one at least goes on.
fn stopped(primary: ServerName, replicas: Vec<Facts>) -> Found {
    let all = replicas.iter().all(|facts| scene::view(&facts.channels) == View::Stopped);
    if all && !replicas.is_empty() {
        Found::NobodyPromoted(Stopped { primary, replicas })
    } else {
        Found::Nothing
    }
}

/// The writer follows nobody: its failover is recorded, or it is the primary that a failover took for dead.
fn marked(writer: &Facts, answers: &Answers, recorded: Option<(String, Plan)>) -> Found {
    if let Some((state, plan)) = recorded
        && state == "done"
        && matches!(plan.kind, Kind::Failover { .. })
        && is_the_same(&plan.candidate, writer)
    {
        let plan = as_seen_from_here(plan, writer, &answers.answering);
        let left = left_behind(&plan, &answers.answering);
        if left.is_empty() {
            return Found::Nothing;
        }
        let names: Vec<&str> = left.iter().map(ServerName::as_str).collect();
        let why = format!(
            "{} took over from {} (epoch {}), and {} was not told",
            writer.server,
            plan.primary.name,
            plan.epoch,
            names.join(", ")
        );
        return Found::Promoted(Box::new(Unfinished { plan, from: Step::Repoint, left, why }));
    }
    let follows = |facts: &&Facts| facts.channels.first().is_some_and(|channel| is_source(writer, channel));
    stopped(writer.server.clone(), answers.answering.iter().filter(follows).cloned().collect())
}

/// Whether the plan means this server: by the address under which it registers, since each host may have
/// names and ways of its own, or by its name.
fn is_the_same(member: &Member, facts: &Facts) -> bool {
    let registered = survey::member(facts);
    (&registered.host, registered.port) == (&member.host, member.port) || registered.name == member.name
}

/// What is in the way while the server that is the primary by the newest record answers, follows nobody and
/// refuses writes: it was restarted closed. A replica that still looks for the one before it lacks all that
/// was written since, and must not take over.
pub(super) fn closed_primary(
    answering: &[Facts],
    newest: Option<&(String, Plan)>,
    flags: &Flags,
) -> Option<Error> {
    let (_, plan) = newest.filter(|(state, _)| state == "done")?;
    let found = answering.iter().find(|facts| is_the_same(&plan.candidate, facts))?;
    let closed = found.channels.is_empty() && found.refuses_writes();
    closed.then(|| Error::Refused {
        server: found.server.clone(),
        why: format!(
            "took over from {} by the newest record (epoch {}), answers, and refuses writes: it is the primary. There: {}; \
             then again. If the primary was moved by hand since: {}",
            plan.primary.name,
            plan.epoch,
            found.dialect().thaw(),
            flags.after("headroom failover --primary NAME")
        ),
    })
}

/// The plan in our names and by our ways to the servers; of the others those that answer us.
fn as_seen_from_here(plan: Plan, writer: &Facts, answering: &[Facts]) -> Plan {
    let ours = |member: &Member, facts: &Facts| Member {
        name: facts.server.to_string(),
        reach: facts.reach.to_string(),
        ..member.clone()
    };
    let found = |member: &Member| {
        let facts = answering.iter().find(|facts| is_the_same(member, facts))?;
        Some(ours(member, facts))
    };
    let others = plan.others.iter().filter_map(found).collect();
    Plan { candidate: ours(&plan.candidate, writer), others, ..plan }
}

/// Servers of the plan that do not reach the one it replaced, and follow nobody else. One that is back as a
/// replica may have replicas of its own.
fn left_behind(plan: &Plan, answering: &[Facts]) -> Vec<ServerName> {
    let is_left = |name: &str| {
        let facts = answering.iter().find(|facts| facts.server.as_str() == name);
        facts.and_then(|facts| facts.channels.first()).is_some_and(|channel| {
            let address = (&channel.host, channel.port) == (&plan.primary.host, plan.primary.port);
            let is_the_old = address || (plan.primary_id != 0 && channel.source_id == plan.primary_id);
            !channel.receiver_runs && is_the_old && !answering.iter().any(|other| is_source(other, channel))
        })
    };
    let others = plan.others.iter().filter(|member| member.follows_primary);
    others.filter(|member| is_left(&member.name)).map(Member::server).collect()
}

/// The writer still holds its channel to the old primary. It was promoted only if that is stopped, and
/// neither the old one takes writes nor anybody else is connected to it.
async fn old_is_out(
    writer: &Facts,
    channel: &Channel,
    scene: &Scene,
    answers: &Answers,
    successor: Successor<'_>,
) -> Result<(), Error> {
    if scene::view(&writer.channels) != View::Stopped || channel.applier_runs {
        return Err(refused(writer, scene::writable_replica(channel, writer.dialect(), successor.flags)));
    }
    // Whoever takes writes was found before: it answers and is closed, or it must not answer at all.
    let closed = answers.answering.iter().any(|facts| is_source(facts, channel));
    if !closed && scene::answers(&scene.primary.reach, successor.who, Duration::from_secs(2)).await {
        let why = format!("answers and cannot be read, and {} takes writes", writer.server);
        return Err(Error::Refused { server: scene.primary.name.clone(), why });
    }
    let connected = scene.replicas.iter().find(|facts| scene::view(&facts.channels) == View::Connected);
    connected.map_or(Ok(()), |facts| {
        let why = format!("is connected to {}, and {} takes writes", scene.primary.name, writer.server);
        Err(refused(facts, why))
    })
}

/// Promoted, and nothing after that is known to have happened.
fn unmarked(writer: &Facts, scene: &Scene, successor: Successor<'_>) -> Result<Found, Error> {
    let ours = has(writer)?;
    let mut left = Vec::new();
    for facts in scene.replicas.iter().filter(|facts| facts.server != writer.server) {
        left.push(facts.server.clone());
        let theirs = has(facts)?;
        if !ours.covers(&theirs) {
            let why = format!("has received {theirs}, {} only {ours}: a person has to decide", writer.server);
            return Err(refused(facts, why));
        }
    }
    let waits = writer.is_on(&["rpl_semi_sync_master_enabled", "rpl_semi_sync_source_enabled"]) == Some(true);
    let acknowledged = scene.enough_acknowledge(&writer.server);
    if waits && !acknowledged {
        let why = "waits for acknowledgements, and too few are left to give them: SET GLOBAL rpl_semi_sync_master_enabled \
                   = OFF there (MySQL 8.0.26 on: rpl_semi_sync_source_enabled), then again";
        return Err(refused(writer, why.to_owned()));
    }
    let mut plan = scene.plan(&writer.server, FenceBy::Nothing, successor.deadlines, successor.by)?;
    plan.semi_sync = waits;
    let why = format!(
        "{} took over from {}, which is not recorded yet: it still holds its stopped channel to it",
        writer.server, scene.primary.name
    );
    Ok(Found::Promoted(Box::new(Unfinished { plan, from: Step::Mark, left, why })))
}

/// What is seen, with the writer among the replicas of the one that it followed.
fn scene_of(channel: &Channel, answers: &Answers, snapshot: &Snapshot) -> Scene {
    let follows = |facts: &Facts| {
        let other = facts.channels.first()?;
        let address = (&other.host, other.port) == (&channel.host, channel.port);
        Some(address || (channel.source_id != 0 && other.source_id == channel.source_id))
    };
    let (replicas, mut others): (Vec<Facts>, Vec<Facts>) =
        answers.answering.iter().cloned().partition(|facts| follows(facts) == Some(true));
    let source = (channel.host.clone(), channel.port);
    let mut silent: Vec<ServerName> = answers.unread.iter().map(|(name, _)| name.clone()).collect();
    let alive = answers.answering.iter().find(|facts| is_source(facts, channel));
    let name = match alive {
        Some(facts) => facts.server.clone(),
        None => scene::named(snapshot, &source, &replicas, &silent),
    };
    let known = snapshot.server(&name).map(|server| server.reach.clone());
    let reach = known.unwrap_or_else(|| fleet::Address::tcp(source.0.clone(), source.1));
    // Back, and closed to writes: headroom failover --rejoin is for it.
    others.retain(|facts| facts.server != name);
    silent.retain(|silent| *silent != name);
    let unread = answers.unread.iter().filter(|(server, _)| *server != name).cloned().collect();
    let primary = ServerAddress { name, reach };
    Scene { primary, source, replicas, others, silent, unread, epoch: answers.epoch }
}

/// What a server has of the old primary, applied or not.
fn has(facts: &Facts) -> Result<Received, Error> {
    let received = facts.channels.first().map_or("", |channel| channel.received.as_str());
    Received::new(facts.version.flavour, received, facts.applied())
        .map_err(|error| refused(facts, error.to_string()))
}

fn refused(facts: &Facts, why: String) -> Error {
    Error::Refused { server: facts.server.clone(), why }
}
