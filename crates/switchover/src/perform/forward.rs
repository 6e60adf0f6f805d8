//! What each step does on the servers.

use super::servers::{Servers, going_on};
use super::{
    FenceBy, Kind, Member, Outcome, Plan, acknowledged, applier, closed, demote, mark, planned, takeover,
};
use crate::connection::{Connection, quoted};
use crate::dialect::{Dialect, Source};
use crate::facts::{self, Channel};
use crate::step::{Event, Step};
use crate::{Error, announce};
use fleet::announcement::{FREEZE, HOLD, OPERATION, PREPARE};
use observe::AskError;
use std::time::{Duration, Instant};
use tokio::task::{JoinError, JoinSet};

const POLL: Duration = Duration::from_millis(5);
/// InnoDB answers `INNODB_TRX` from a cache that it refreshes only when nobody has read it for 100 ms:
/// whoever asks more often sees a transaction that ended long ago for ever.
pub(super) const TRANSACTIONS_POLL: Duration = Duration::from_millis(110);

/// Does a step.
pub(super) async fn forward(
    step: Step,
    plan: &Plan,
    servers: &mut Servers<'_>,
    outcome: &mut Outcome,
) -> Event {
    if step == Step::Promote {
        return promote(plan, servers).await;
    }
    let fence = match &plan.kind {
        Kind::Switchover => None,
        Kind::Failover { fence, gray } => Some((fence, *gray)),
    };
    let done = match step {
        Step::Freeze if let Some((fence, gray)) = fence => takeover::fence(plan, fence, gray, servers).await,
        Step::Await if fence.is_some() => takeover::apply(plan, servers).await,
        Step::Lock => lock(plan, servers).await,
        Step::Record => record(plan, servers).await,
        Step::Prepare => prepare(plan, servers, outcome).await,
        Step::CatchUp => catch_up(plan, servers).await,
        Step::Hold => hold(plan, servers, outcome).await,
        Step::Drain => drain(plan, servers).await,
        Step::Freeze => freeze(plan, servers).await,
        Step::Await => await_candidate(plan, servers).await,
        Step::StopReplication => stop_replication(plan, servers).await,
        Step::Promote => Ok(()),
        Step::Mark => mark::mark(plan, servers).await,
        Step::Release => release(plan, servers).await,
        Step::Repoint => repoint(plan, servers).await,
        Step::Verify => verify(plan, servers, outcome).await,
    };
    match done {
        Ok(()) => Event::Done,
        Err(error) => Event::Failed { why: error.to_string() },
    }
}

/// A lock on every server that answers; the candidate must, and a primary that is not dead.
async fn lock(plan: &Plan, servers: &mut Servers<'_>) -> Result<(), Error> {
    let primary = (plan.kind == Kind::Switchover).then_some(&plan.primary);
    for member in primary.into_iter().chain([&plan.candidate]).chain(&plan.others) {
        let taken = servers.scalar(member, &format!("SELECT GET_LOCK('{OPERATION}', 0)")).await?;
        if taken.as_deref() != Some("1") {
            let holder = servers.scalar(member, &format!("SELECT IS_USED_LOCK('{OPERATION}')")).await?;
            return Err(going_on(member.server(), holder.as_deref(), plan, servers.logins));
        }
    }
    servers.begin();
    match plan.kind {
        Kind::Switchover => planned::still_holds(plan, servers).await,
        Kind::Failover { .. } => takeover::is_still_needed(plan, servers).await,
    }
}

async fn record(plan: &Plan, servers: &mut Servers<'_>) -> Result<(), Error> {
    mark::make_table(&plan.primary, servers).await?;
    let statement = format!(
        "INSERT INTO headroom.switchover (epoch, primary_server, state, plan) VALUES ({}, {}, 'begun', {})",
        plan.epoch,
        quoted(&plan.primary.name),
        quoted(&plan.text_for_servers())
    );
    servers.run(&plan.primary, &statement).await
}

async fn prepare(plan: &Plan, servers: &mut Servers<'_>, outcome: &mut Outcome) -> Result<(), Error> {
    let mut announcer = servers.another(&plan.primary).await?;
    take(&mut announcer, PREPARE, servers.deadline()).await?;
    servers.announcer = Some(announcer);
    servers.sleep(Duration::from_millis(plan.deadlines.prepare_ms)).await?;
    outcome.routers.ready = routers(plan, servers).await?.0;
    Ok(())
}

async fn take(connection: &mut Connection, lock: &str, deadline: Duration) -> Result<(), Error> {
    let taken = connection.scalar(&format!("SELECT GET_LOCK({}, 0)", quoted(lock)), deadline).await?;
    if taken.as_deref() == Some("1") {
        return Ok(());
    }
    Err(Error::Refused {
        server: connection.server.clone(),
        why: format!("somebody else holds the lock {lock}"),
    })
}

async fn routers(plan: &Plan, servers: &mut Servers<'_>) -> Result<(u64, u64), Error> {
    let deadline = servers.deadline();
    announce::count_routers(servers.of(&plan.primary).await?, deadline).await
}

/// A server waits no longer at a time: it notices that whoever asked was killed once its statement ends, and
/// until then the session holds its locks.
const WAITS: Duration = Duration::from_secs(2);

/// The server itself says when it has everything. Ends sooner when somebody asks for the end, or when what
/// applies there has stopped for an error: then it never has.
pub(super) async fn wait_for(
    member: &Member,
    position: &str,
    seconds: f64,
    servers: &mut Servers<'_>,
) -> Result<bool, Error> {
    if position.is_empty() {
        return Ok(true);
    }
    let until = Instant::now() + Duration::from_secs_f64(seconds);
    loop {
        let left = until.saturating_duration_since(Instant::now()).min(WAITS);
        let statement = member.dialect().wait_for(position, left.as_secs_f64().max(0.001));
        let answer = servers.of(member).await?.scalar(&statement, patience(left)).await?;
        if answer.as_deref() == Some("0") || Instant::now() >= until {
            return Ok(answer.as_deref() == Some("0"));
        }
        servers.check_interrupted()?;
        if let Some(error) = applier::error(&applier::channels(member, servers).await) {
            let why =
                format!("its applying thread has stopped, so it never has what it is waited for: {error}");
            return Err(Error::Refused { server: member.server(), why });
        }
    }
}

/// The server says no by itself; one that is silent for a second longer does not answer. MySQL waits whole
/// seconds, at least one: also when none is left.
fn patience(left: Duration) -> Duration {
    Duration::from_secs_f64(left.as_secs_f64().ceil().max(1.0) + 1.0)
}

async fn catch_up(plan: &Plan, servers: &mut Servers<'_>) -> Result<(), Error> {
    let position = position_of(&plan.primary, servers).await?;
    let seconds = plan.deadlines.catch_up_ms as f64 / 1e3;
    if wait_for(&plan.candidate, &position, seconds, servers).await? {
        return Ok(());
    }
    Err(Error::TooLate {
        server: plan.candidate.server(),
        what: "has not caught up with the primary".to_owned(),
        seconds,
        detail: String::new(),
    })
}

pub(super) async fn position_of(member: &Member, servers: &mut Servers<'_>) -> Result<String, Error> {
    let position = servers.scalar(member, member.dialect().position()).await?;
    Ok(position.unwrap_or_default().replace(['\n', ' '], ""))
}

/// Routers that were ready confirm; one that does not keeps its clients' writes going until the freeze
/// refuses them.
pub(super) async fn hold(plan: &Plan, servers: &mut Servers<'_>, outcome: &mut Outcome) -> Result<(), Error> {
    let deadline = servers.deadline();
    if let Some(announcer) = &mut servers.announcer {
        take(announcer, HOLD, deadline).await?;
    }
    let began = Instant::now();
    outcome.routers.count(routers(plan, servers).await?);
    while outcome.routers.holding < outcome.routers.ready
        && began.elapsed() < outcome.routers.hold_within(plan.deadlines)
    {
        servers.check_interrupted()?;
        tokio::time::sleep(POLL).await;
        outcome.routers.count(routers(plan, servers).await?);
    }
    if outcome.routers.holding < outcome.routers.ready {
        let (ready, holding) = (outcome.routers.ready, outcome.routers.holding);
        let missing = ready - holding;
        outcome.notes.push(format!(
            "{missing} of {ready} routers did not confirm that they hold writes: the freeze refused those of their sessions"
        ));
    }
    Ok(())
}

/// Waits until no transaction is open and nothing runs; one that does not end undoes the switchover.
async fn drain(plan: &Plan, servers: &mut Servers<'_>) -> Result<(), Error> {
    let until = Instant::now() + Duration::from_millis(plan.deadlines.drain_ms);
    let deadline = servers.deadline();
    loop {
        let open = facts::open_transactions(servers.of(&plan.primary).await?, deadline).await?;
        let Some(first) = open.first() else { return Ok(()) };
        if Instant::now() >= until {
            return Err(Error::TooLate {
                server: plan.primary.server(),
                what: format!("{} transactions did not end", open.len()),
                seconds: plan.deadlines.drain_ms as f64 / 1e3,
                detail: format!(
                    "; session {} of {}: {} for {} s",
                    first.session, first.who, first.what, first.seconds
                ),
            });
        }
        servers.check_interrupted()?;
        tokio::time::sleep(TRANSACTIONS_POLL).await;
    }
}

/// The freeze waits for commits under way. It runs on a connection of its own: when it takes too long that is
/// killed, the switch taken back, and whoever stands in the way named.
async fn freeze(plan: &Plan, servers: &mut Servers<'_>) -> Result<(), Error> {
    let (primary, limit) = (&plan.primary, Duration::from_millis(plan.deadlines.freeze_ms));
    let dialect = primary.dialect();
    let mut freezer = servers.another(primary).await?;
    let session = freezer.id();
    take(&mut freezer, FREEZE, servers.deadline()).await?;
    let frozen = tokio::select! {
        frozen = close(&mut freezer, dialect, limit) => frozen,
        () = servers.interrupted() => Err(Error::Interrupted),
    };
    if let Err(error) = frozen {
        let deadline = servers.deadline();
        let others = facts::blockers(servers.of(primary).await?, deadline).await.unwrap_or_default();
        // Gone before anything is taken back: one that waits still would close the primary afterwards.
        let left = kill(primary, session, servers).await.err().map_or(String::new(), |error| {
            format!("; its session may close it later: KILL {session} there ({error})")
        });
        if matches!(error, Error::Interrupted) && left.is_empty() {
            return Err(error);
        }
        let blocker = others.iter().find(|blocker| blocker.session != u64::from(session));
        let detail = blocker.map_or(String::new(), |blocker| {
            format!(
                "; in the way: session {} of {}: {} for {} s",
                blocker.session, blocker.who, blocker.what, blocker.seconds
            )
        });
        return Err(Error::TooLate {
            server: primary.server(),
            what: format!("the freeze did not take hold ({error})"),
            seconds: limit.as_secs_f64(),
            detail: format!("{detail}{left}"),
        });
    }
    servers.freezer = Some(freezer);
    Ok(())
}

/// Refuses writes, of administrators too.
async fn close(freezer: &mut Connection, dialect: Dialect, limit: Duration) -> Result<(), Error> {
    freezer.run(dialect.freeze(), limit).await?;
    if !dialect.read_only_binds_administrators() {
        freezer.run("FLUSH TABLES WITH READ LOCK", limit).await?;
    }
    Ok(())
}

/// Read twice and equal: nothing is written any more. Then the candidate gets the rest.
async fn await_candidate(plan: &Plan, servers: &mut Servers<'_>) -> Result<(), Error> {
    let seconds = plan.deadlines.await_ms as f64 / 1e3;
    let until = Instant::now() + Duration::from_millis(plan.deadlines.await_ms);
    let mut position = position_of(&plan.primary, servers).await?;
    loop {
        let again = position_of(&plan.primary, servers).await?;
        if again == position {
            break;
        }
        if Instant::now() >= until {
            return Err(Error::TooLate {
                server: plan.primary.server(),
                what: "goes on writing although it is frozen".to_owned(),
                seconds,
                detail: String::new(),
            });
        }
        position = again;
    }
    if wait_for(&plan.candidate, &position, seconds, servers).await? {
        servers.awaited = Some(position);
        return Ok(());
    }
    Err(Error::TooLate {
        server: plan.candidate.server(),
        what: "does not have the last writes".to_owned(),
        seconds,
        detail: String::new(),
    })
}

/// A receiver with semi-sync ends its source's session when it stops, over a connection of its own that it
/// waits five seconds for.
const REPLICATION_STOPS: Duration = Duration::from_secs(15);

async fn stop_replication(plan: &Plan, servers: &mut Servers<'_>) -> Result<(), Error> {
    let candidate = &plan.candidate;
    let deadline = servers.deadline().max(REPLICATION_STOPS);
    servers.run_within(candidate, candidate.dialect().stop_replication(), deadline).await?;
    // Before it takes writes: the first one is already acknowledged by a replica. And once its threads have
    // stopped: a replica with this switch on waits for acknowledgements of what it applies, and nobody gives
    // them.
    match candidate.semi_sync.source.filter(|_| plan.semi_sync) {
        Some(source) => servers.run(candidate, &source.set(true)).await,
        None => Ok(()),
    }
}

/// The one statement after which there is no way back. A primary that was opened since keeps it from being
/// said. When its answer is lost its session is ended, lest it arrive later, and the candidate is asked.
async fn promote(plan: &Plan, servers: &mut Servers<'_>) -> Event {
    let candidate = &plan.candidate;
    let session = match servers.session(candidate).await {
        Ok(_) if servers.undone_elsewhere => {
            let why = format!("{}: this operation was undone by somebody else meanwhile", candidate.name);
            return Event::Failed { why };
        }
        Ok(session) => session,
        Err(error) => return Event::Failed { why: error.to_string() },
    };
    let kept_out = match &plan.kind {
        Kind::Switchover => closed::is_still_closed(plan, servers).await,
        // A command has fenced it; a gray one answers all the while.
        Kind::Failover { fence, gray } if *gray || matches!(fence, FenceBy::Command { .. }) => Ok(()),
        Kind::Failover { .. } => closed::is_still_dead(plan, servers).await,
    };
    if let Err(error) = kept_out {
        return Event::Failed { why: error.to_string() };
    }
    let Err(error) = servers.run(candidate, candidate.dialect().thaw()).await else { return Event::Done };
    let answer = match end_session(candidate, session, servers).await {
        Ok(()) => servers.candidate_takes_writes().await,
        Err(error) => Err(error),
    };
    match answer {
        Ok(true) => Event::Done,
        Ok(false) => Event::Failed { why: error.to_string() },
        Err(again) => {
            let flags = &servers.logins.flags;
            let resume = flags.after(&format!("{} --resume", plan.kind.command()));
            let undo = flags.after("headroom switchover --undo");
            let why = format!(
                "{error}; asked again: {again}. The old primary stays frozen. When {} answers: {resume}; when it is lost \
                 for good and cannot come back writable: {undo}",
                candidate.name
            );
            Event::Unknown { why }
        }
    }
}

/// Ends a session: what it was told and has not read is read no more.
pub(super) async fn end_session(
    member: &Member,
    session: u32,
    servers: &mut Servers<'_>,
) -> Result<(), Error> {
    servers.forget(member);
    kill(member, session, servers).await
}

/// The same over the connection that is there.
async fn kill(member: &Member, session: u32, servers: &mut Servers<'_>) -> Result<(), Error> {
    let until = Instant::now() + servers.deadline();
    // It may have ended by itself (error 1094).
    match servers.run(member, &format!("KILL {session}")).await {
        Ok(()) | Err(Error::Server { source: AskError::Answered { code: 1094, .. }, .. }) => {}
        Err(error) => return Err(error),
    }
    let ask = format!("SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE ID = {session}");
    while servers.scalar(member, &ask).await?.as_deref() != Some("0") {
        if Instant::now() >= until {
            let why = format!("session {session} does not end");
            return Err(Error::Refused { server: member.server(), why });
        }
        tokio::time::sleep(TRANSACTIONS_POLL).await;
    }
    Ok(())
}

/// The locks end with their connection. The read lock of the former primary is given back later, once it
/// replicates.
async fn release(_plan: &Plan, servers: &mut Servers<'_>) -> Result<(), Error> {
    if let Some(announcer) = servers.announcer.take() {
        announcer.close().await;
    }
    Ok(())
}

async fn repoint(plan: &Plan, servers: &mut Servers<'_>) -> Result<(), Error> {
    // Once clients write again: none of them waits for an event.
    let enabled = enable_events(plan, servers).await;
    let moved = move_followers(plan, servers).await;
    all_of(&plan.candidate, [enabled, moved])
}

/// The new primary runs the events of the former one. One that is refused keeps no other from running.
async fn enable_events(plan: &Plan, servers: &mut Servers<'_>) -> Result<(), Error> {
    let candidate = &plan.candidate;
    let mut failed = Vec::new();
    for event in &plan.events {
        if let Err(error) = servers.run(candidate, &candidate.dialect().enable_event(event)).await {
            failed.push(format!("event {}.{} is not enabled: {error}", event.schema, event.name));
        }
    }
    if failed.is_empty() {
        return Ok(());
    }
    Err(Error::Refused { server: candidate.server(), why: failed.join("; ") })
}

/// One error of all that there are.
pub(super) fn all_of(
    member: &Member,
    ended: impl IntoIterator<Item = Result<(), Error>>,
) -> Result<(), Error> {
    let mut failed: Vec<Error> = ended.into_iter().filter_map(Result::err).collect();
    if failed.len() < 2 {
        return failed.pop().map_or(Ok(()), Err);
    }
    let failed: Vec<String> = failed.iter().map(ToString::to_string).collect();
    Err(Error::Refused { server: member.server(), why: failed.join("; ") })
}

/// Replicas of the former primary on their way to the new one, all at once, and the former primary.
pub(super) struct Followers {
    moving: JoinSet<(String, Result<(), Error>)>,
    /// The former primary was told too.
    primary_told: bool,
    failed: Vec<String>,
    lost: Vec<String>,
}

impl Followers {
    fn begin(plan: &Plan, servers: &Servers<'_>) -> Self {
        let (mut moving, deadline) = (JoinSet::new(), servers.deadline());
        for member in plan.others.iter().filter(|member| member.follows_primary) {
            let dialect = member.dialect();
            let (host, port) = (plan.candidate.host.as_str(), plan.candidate.port);
            let source = Source { host, port, login: None, protection: &[] };
            let mut statements = vec![dialect.stop_replication().to_owned(), dialect.repoint(&source)];
            statements.extend(dialect.start_but(member.stopped).map(str::to_owned));
            let (name, opening) = (member.name.clone(), servers.opening(member));
            moving.spawn(async move { (name, follow(opening, &statements, deadline).await) });
        }
        Self { moving, primary_told: false, failed: Vec::new(), lost: Vec::new() }
    }

    /// Waits for all.
    async fn end(&mut self, servers: &Servers<'_>) {
        while let Some(ended) = self.moving.join_next().await {
            self.note(ended, servers);
        }
    }

    fn note(&mut self, ended: Result<(String, Result<(), Error>), JoinError>, servers: &Servers<'_>) {
        match ended {
            Ok((_, Ok(()))) => {}
            Ok((name, Err(error))) => {
                self.failed.push(does_not_follow(&name, &error, servers));
                self.lost.push(name);
            }
            Err(error) => self.failed.push(format!("re-pointing a replica was lost: {error}")),
        }
    }

    async fn tell_primary(&mut self, plan: &Plan, servers: &mut Servers<'_>) {
        self.primary_told = true;
        if plan.kind == Kind::Switchover
            && let Err(error) = demote::demote(plan, servers).await
        {
            self.failed.push(does_not_follow(&plan.primary.name, &error, servers));
            self.lost.push(plan.primary.name.clone());
        }
    }
}

/// Why a server does not follow the new primary, and what lets it.
fn does_not_follow(name: &str, error: &Error, servers: &Servers<'_>) -> String {
    let rejoin = servers.logins.flags.after(&format!("headroom failover --rejoin {name}"));
    let then = match error {
        Error::Server { source: AskError::Answered { .. }, .. } => {
            "It refused that, and its replication may be stopped. Once that is mended"
        }
        Error::Server { .. } => "Once it answers",
        _ => "To go on with it",
    };
    format!("{error}. {then}: {rejoin}")
}

async fn follow(
    opening: impl Future<Output = Result<Connection, Error>>,
    statements: &[String],
    deadline: Duration,
) -> Result<(), Error> {
    let mut connection = opening.await?;
    let mut followed = Ok(());
    // The first one stops the receiver, which may be at an attempt to reach the old primary.
    let limits = std::iter::once(deadline.max(takeover::RECEIVER_STOPS)).chain(std::iter::repeat(deadline));
    for (statement, limit) in statements.iter().zip(limits) {
        followed = connection.run(statement, limit).await;
        if followed.is_err() {
            break;
        }
    }
    connection.close().await;
    followed
}

/// How long replicas are waited for before the former primary is told: it answers, and acknowledges too.
const FIRST_FOLLOWER: Duration = Duration::from_secs(1);

/// With semi-sync, before the first write: whether as many follow as must acknowledge it, or may do so soon.
pub(super) async fn move_acknowledging(plan: &Plan, servers: &mut Servers<'_>) -> bool {
    let (mut followers, candidate) = (Followers::begin(plan, servers), &plan.candidate);
    let needed = acknowledged::needed(candidate, servers).await;
    let until = Instant::now() + FIRST_FOLLOWER;
    let acknowledges =
        |member: &Member| member.follows_primary && member.semi_sync_replica && member.receives();
    let acknowledging = plan.others.iter().any(acknowledges);
    while acknowledging && acknowledged::connected(candidate, servers).await.is_some_and(|n| n < needed) {
        if Instant::now() >= until {
            break;
        }
        tokio::time::sleep(POLL).await;
    }
    let mut may_suffice = true;
    if acknowledged::connected(candidate, servers).await.is_none_or(|connected| connected < needed) {
        followers.tell_primary(plan, servers).await;
        while let Some(ended) = followers.moving.try_join_next() {
            followers.note(ended, servers);
        }
        may_suffice = acknowledged::may_come(plan, &followers.lost) >= needed;
    }
    servers.followers = Some(followers);
    may_suffice
}

async fn move_followers(plan: &Plan, servers: &mut Servers<'_>) -> Result<(), Error> {
    let mut followers = match servers.followers.take() {
        Some(followers) => followers,
        None => Followers::begin(plan, servers),
    };
    if !followers.primary_told {
        followers.tell_primary(plan, servers).await;
    }
    followers.end(servers).await;
    if followers.failed.is_empty() {
        return Ok(());
    }
    followers.failed.extend(acknowledged::too_few(plan, servers).await);
    Err(Error::Refused { server: plan.candidate.server(), why: followers.failed.join("; ") })
}

async fn verify(plan: &Plan, servers: &mut Servers<'_>, outcome: &mut Outcome) -> Result<(), Error> {
    let until = Instant::now() + Duration::from_millis(plan.deadlines.verify_ms);
    let position = position_of(&plan.candidate, servers).await?;
    let primary = (plan.kind == Kind::Switchover).then_some(&plan.primary);
    let followers: Vec<&Member> =
        primary.into_iter().chain(plan.others.iter().filter(|member| member.follows_primary)).collect();
    let mut wrong = Vec::new();
    for member in followers {
        if member.stopped.is_some() {
            let (name, candidate, start) =
                (&member.name, &plan.candidate.name, member.dialect().start_replication());
            outcome.notes.push(format!(
                "{name} is told to follow {candidate}, and stays stopped as it was found; there: {start}"
            ));
            continue;
        }
        let left = until.saturating_duration_since(Instant::now()).as_secs_f64().max(0.1);
        match wait_for(member, &position, left, servers).await {
            Ok(true) => {}
            Ok(false) => {
                let channels = applier::channels(member, servers).await;
                match channels.first().and_then(Channel::is_late_on_purpose) {
                    Some(seconds) => outcome.notes.push(format!(
                        "{} receives from {}, and applies everything {seconds} s late on purpose",
                        member.name, plan.candidate.name
                    )),
                    None => {
                        let error = last_error(&channels);
                        wrong.push(format!(
                            "{} does not follow {} yet{error}",
                            member.name, plan.candidate.name
                        ));
                    }
                }
            }
            Err(error) => wrong.push(error.to_string()),
        }
    }
    if wrong.is_empty() {
        return Ok(());
    }
    Err(Error::Refused { server: plan.candidate.server(), why: wrong.join("; ") })
}

/// What replication complains of, to be appended; empty when it does not.
fn last_error(channels: &[Channel]) -> String {
    let error = channels.iter().map(|channel| &channel.last_error).find(|error| !error.is_empty());
    error.map_or_else(String::new, |error| format!(": {error}"))
}

/// Used by `undo` too.
pub(super) fn release_lock(lock: &str) -> String {
    format!("DO RELEASE_LOCK({})", quoted(lock))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Flags;
    use crate::perform::Logins;
    use crate::perform::tests::failover;
    use config::Credentials;
    use lab::scripted::{Reply, Script, ScriptedServer};

    #[tokio::test]
    async fn a_replica_that_refuses_whom_to_follow_is_said_to_be_stopped_with_what_brings_it_back() {
        let script = Script::new("10.11.6-MariaDB", |statement, _| match statement {
            "STOP SLAVE" => Reply::Ok,
            _ if statement.starts_with("CHANGE MASTER TO") => Reply::error(1227, "Access denied"),
            _ => Reply::Usual,
        });
        let server = ScriptedServer::start(script).await.unwrap();
        let logins = Logins {
            admin: Credentials::default(),
            replication: Default::default(),
            flags: Flags::new("--config f.toml"),
        };
        // Nobody listens at the second one.
        for (reach, then) in [
            (server.address().to_string(), "its replication may be stopped. Once that is mended: "),
            ("127.0.0.1:1".to_owned(), "Once it answers: "),
        ] {
            let mut plan = failover(FenceBy::Nothing);
            plan.others.push(Member { name: "b1".to_owned(), reach, ..plan.candidate.clone() });
            let moved = move_followers(&plan, &mut Servers::new(&plan, &logins)).await;
            let words = moved.unwrap_err().to_string();
            assert!(words.contains("b1: ") && words.contains(then), "{words}");
            assert!(words.ends_with("headroom failover --rejoin b1 --config f.toml"), "{words}");
        }
    }

    #[test]
    fn a_server_is_waited_for_longer_than_it_waits_itself() {
        let dialect = crate::dialect::Dialect("8.4.2".parse().unwrap());
        for (left, waits) in [(0, 1), (1, 1), (999, 1), (1000, 1), (1001, 2), (2000, 2)] {
            let left = Duration::from_millis(left);
            let statement = dialect.wait_for("u:1", left.as_secs_f64().max(0.001));
            assert!(statement.ends_with(&format!(", {waits})")), "{statement}");
            assert_eq!(patience(left), Duration::from_secs(waits + 1));
        }
    }
}
