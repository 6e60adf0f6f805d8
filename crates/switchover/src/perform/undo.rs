//! What takes each step back. A step may have happened by half or not at all: undoing it must be right in
//! every case.

use super::forward::release_lock;
use super::servers::Servers;
use super::{Kind, Member, Plan, doubt, takeover};
use crate::Error;
use crate::facts::{self, Channel};
use crate::step::{Event, Step};
use fleet::announcement::HOLD;
use observe::AskError;
use std::time::{Duration, Instant};

/// How long a primary that does not answer is told again to take writes, and the pause between two times.
const THAW: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(200);
/// Another server that does not answer by then takes no writes that anybody could get an answer to.
const LOOK: Duration = Duration::from_secs(1);

/// What goes on with a switchover, before its flags.
const RESUME: &str = "headroom switchover --resume";

/// Takes a step back.
pub(super) async fn undo(step: Step, plan: &Plan, servers: &mut Servers<'_>) -> Event {
    let is_failover = plan.kind != Kind::Switchover;
    // A candidate that has something of its own is no replica of the dead primary any more.
    let makes_replica = is_failover && matches!(step, Step::StopReplication | Step::Freeze);
    if makes_replica && let Err(error) = doubt::wrote_nothing(plan, servers).await {
        return Event::Failed { why: error.to_string() };
    }
    let undone = match step {
        // Never the old primary: it is dead, or fenced.
        Step::Freeze if is_failover => takeover::receive_again(plan, servers).await,
        Step::StopReplication => start_replication(plan, servers).await,
        Step::Freeze => thaw_soon(plan, servers).await,
        Step::Hold => withdraw_hold(servers).await,
        Step::Prepare => withdraw(servers).await,
        Step::Record => mark_undone(plan, servers).await,
        // The lock ends with its connections, and the others changed nothing.
        _ => Ok(()),
    };
    match undone {
        Ok(()) => Event::Done,
        Err(error) => Event::Failed { why: error.to_string() },
    }
}

/// Both statements, whatever becomes of the other: a replica that is left with the switch on does not apply
/// what it receives.
async fn start_replication(plan: &Plan, servers: &mut Servers<'_>) -> Result<(), Error> {
    let candidate = &plan.candidate;
    let (mut failed, mut left) = (None, Vec::new());
    for statement in start_statements(plan) {
        if let Err(error) = servers.run(candidate, &statement).await {
            failed = Some(error);
            left.push(statement);
        }
    }
    match failed {
        None => Ok(()),
        Some(error) => {
            let why = format!("{error}. Type there, once it answers: {}", left.join("; "));
            Err(Error::Refused { server: candidate.server(), why })
        }
    }
}

fn start_statements(plan: &Plan) -> Vec<String> {
    let candidate = &plan.candidate;
    let switch = candidate.semi_sync.source.filter(|_| plan.semi_sync).map(|source| source.set(source.on));
    switch.into_iter().chain([candidate.dialect().start_replication().to_owned()]).collect()
}

/// What is said of a candidate that whoever undid this before could not make a replica again, where nobody
/// tells it now.
pub(super) fn left_stopped(plan: &Plan) -> String {
    format!(
        "{}: it could not be made a replica again before, and is not told now. If it stands still, type there, once it \
         answers: {}",
        plan.candidate.name,
        start_statements(plan).join("; ")
    )
}

/// Tells it again for a while when it does not answer: until it takes writes nobody does.
async fn thaw_soon(plan: &Plan, servers: &mut Servers<'_>) -> Result<(), Error> {
    let until = Instant::now() + THAW;
    loop {
        match thaw(plan, servers).await {
            Err(Error::Server { .. }) if Instant::now() < until => tokio::time::sleep(PAUSE).await,
            Err(error @ Error::Server { .. }) => {
                let flags = &servers.logins.flags;
                let (resume, failover) = (flags.after(RESUME), flags.after("headroom failover"));
                let why = format!(
                    "{error}. It may refuse writes, and nobody takes any. When it answers: {resume}; when it is lost: \
                     {failover}"
                );
                return Err(Error::Refused { server: plan.primary.server(), why });
            }
            thawed => return thawed,
        }
    }
}

/// Never while another server takes writes, or it follows one: whoever reads this journal late must not make
/// a second writer.
async fn thaw(plan: &Plan, servers: &mut Servers<'_>) -> Result<(), Error> {
    // One that does not answer takes no writes that anybody could get an answer to, and comes back read-only
    // as its option file says; one that answers must say that it refuses them, and have nothing of its own:
    // it may have been promoted, written to, and restarted.
    match servers.candidate_takes_writes_soon().await {
        Ok(true) => {
            let why = format!("takes writes already, so {} stays read-only", plan.primary.name);
            return Err(Error::Refused { server: plan.candidate.server(), why });
        }
        Ok(false) => {
            if let Some(beyond) = beyond(plan, servers).await? {
                let (primary, candidate) = (&plan.primary.name, &plan.candidate.name);
                let resume = servers.logins.flags.after(RESUME);
                let why = format!(
                    "has {beyond}, which {primary} does not have: it was promoted and written to. {primary} stays \
                     read-only; go on with {resume}, or make {candidate} a replica again by hand"
                );
                return Err(Error::Refused { server: plan.candidate.server(), why });
            }
        }
        // Unless it was told to take writes: it may have, and comes back with them.
        Err(error) if servers.promotion_in_doubt => {
            let primary = &plan.primary.name;
            let flags = &servers.logins.flags;
            let (resume, undo) = (flags.after(RESUME), flags.after("headroom switchover --undo"));
            let why = format!(
                "was told to take writes, and does not say what it has: {error}. {primary} stays read-only. When it \
                 answers: {resume}; when it is lost for good and cannot come back writable: {undo}"
            );
            return Err(Error::Refused { server: plan.candidate.server(), why });
        }
        Err(_) => {}
    }
    is_still_the_primary(plan, servers).await?;
    if let Some(freezer) = servers.freezer.take() {
        freezer.close().await;
    }
    if plan.primary.read_only {
        return Ok(());
    }
    servers.run(&plan.primary, plan.primary.dialect().thaw()).await
}

/// It may have been moved since, by hand even, and to a server that the plan does not name: that was silent
/// when the plan was made, or is new. Nobody begins a move while the primary follows anybody.
async fn is_still_the_primary(plan: &Plan, servers: &mut Servers<'_>) -> Result<(), Error> {
    let (deadline, dialect) = (servers.deadline(), plan.primary.dialect());
    let channels = facts::channels(servers.of(&plan.primary).await?, dialect, deadline).await?;
    if let Some(channel) = channels.first() {
        let why = format!(
            "follows {}: it is not the primary any more, and stays read-only. If it follows nobody in truth: {}; {} there",
            source_in_words(plan, channel),
            dialect.stop_replication(),
            dialect.forget_source()
        );
        return Err(Error::Refused { server: plan.primary.server(), why });
    }
    for member in &plan.others {
        let said = tokio::time::timeout(LOOK, servers.says_it_takes_writes(member)).await;
        let Ok(Ok(takes_writes)) = said else { continue };
        if takes_writes {
            let why = format!("takes writes, so {} stays read-only", plan.primary.name);
            return Err(Error::Refused { server: member.server(), why });
        }
        if let Ok(Ok(channels)) = tokio::time::timeout(LOOK, channels_of(member, servers)).await
            && let Some(channel) = follows_elsewhere(plan, member, &channels)
        {
            let primary = &plan.primary.name;
            let why = format!(
                "followed {primary}, and reads from {} now, which was no part of this: {primary} may not be the primary \
                 any more, and stays read-only. If it is, there: {}",
                source_in_words(plan, channel),
                plan.primary.dialect().thaw()
            );
            return Err(Error::Refused { server: member.server(), why });
        }
    }
    Ok(())
}

async fn channels_of(member: &Member, servers: &mut Servers<'_>) -> Result<Vec<Channel>, Error> {
    let deadline = servers.deadline();
    facts::channels(servers.of(member).await?, member.dialect(), deadline).await
}

/// The channel by which a replica of the primary reads from a server that is neither that nor of the plan. A
/// source is known by its number, whatever address leads there; one that is not reached has none.
fn follows_elsewhere<'a>(plan: &Plan, member: &Member, channels: &'a [Channel]) -> Option<&'a Channel> {
    if plan.primary_id == 0 || !member.follows_primary {
        return None;
    }
    let of_primary = |channel: &Channel| {
        let address = (&channel.host, channel.port) == (&plan.primary.host, plan.primary.port);
        address || channel.source_id == plan.primary_id
    };
    if channels.iter().any(of_primary) {
        return None;
    }
    let reads = |channel: &&Channel| channel.receiver_runs && channel.source_id != 0;
    channels.iter().find(reads).filter(|channel| member_at(plan, channel).is_none())
}

fn member_at<'a>(plan: &'a Plan, channel: &Channel) -> Option<&'a Member> {
    let mut members = std::iter::once(&plan.candidate).chain(&plan.others);
    members.find(|member| (&channel.host, channel.port) == (&member.host, member.port))
}

fn source_in_words(plan: &Plan, channel: &Channel) -> String {
    let address = || format!("{}:{}", channel.host, channel.port);
    member_at(plan, channel).map_or_else(address, |member| member.name.clone())
}

/// What the candidate has and the primary does not.
async fn beyond(plan: &Plan, servers: &mut Servers<'_>) -> Result<Option<String>, Error> {
    // The candidate first: what it gets from the primary in between is no difference.
    let theirs = servers.scalar(&plan.candidate, plan.candidate.dialect().position()).await?;
    let ours = servers.scalar(&plan.primary, plan.primary.dialect().position()).await?;
    let flavour = plan.primary.dialect().0.flavour;
    Ok(facts::beyond(flavour, &theirs.unwrap_or_default(), &ours.unwrap_or_default()))
}

async fn withdraw_hold(servers: &mut Servers<'_>) -> Result<(), Error> {
    let deadline = servers.deadline();
    match &mut servers.announcer {
        // Its locks end with it.
        Some(announcer) if announcer.is_late() => withdraw(servers).await,
        Some(announcer) => announcer.run(&release_lock(HOLD), deadline).await,
        None => Ok(()),
    }
}

async fn withdraw(servers: &mut Servers<'_>) -> Result<(), Error> {
    if let Some(announcer) = servers.announcer.take() {
        announcer.close().await;
    }
    Ok(())
}

async fn mark_undone(plan: &Plan, servers: &mut Servers<'_>) -> Result<(), Error> {
    let statement = format!("UPDATE headroom.switchover SET state = 'undone' WHERE epoch = {}", plan.epoch);
    match servers.run(&plan.primary, &statement).await {
        // In a fleet's first move: it was ended before the table was made, and so before it was recorded.
        Err(Error::Server { source: AskError::Answered { code: 1146 | 1049, .. }, .. }) => Ok(()),
        marked => marked,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perform::tests::{failover, logins};
    use crate::perform::{FenceBy, Logins};
    use lab::scripted::{Reply, Script, ScriptedServer};
    use std::sync::{Arc, Mutex};

    #[test]
    fn a_replica_that_reads_from_a_server_of_no_plan_says_that_the_primary_was_moved() {
        use crate::facts::tests::channel;
        let mut plan = failover(FenceBy::Nothing);
        let b1 = Member { name: "b1".to_owned(), host: "b1".to_owned(), ..plan.candidate.clone() };
        plan.others.push(b1.clone());
        let elsewhere = |plan: &Plan, channels: &[Channel]| follows_elsewhere(plan, &b1, channels).is_some();
        let (primary, strange) = (channel("10.0.0.1", 3306, 11), channel("x1", 3306, 99));
        assert!(elsewhere(&plan, std::slice::from_ref(&strange)));
        assert!(!elsewhere(&plan, std::slice::from_ref(&primary)), "by another address");
        assert!(!elsewhere(&plan, &[strange.clone(), primary]), "it has several sources");
        assert!(!elsewhere(&plan, &[channel("a2", 3306, 12)]), "a server of the plan, which was asked");
        let lost = Channel { receiver_runs: false, ..strange.clone() };
        assert!(!elsewhere(&plan, &[lost]));
        assert!(!elsewhere(&plan, &[]));
        plan.primary_id = 0;
        assert!(!elsewhere(&plan, &[strange]), "a journal of an older version does not know its number");
    }

    /// A switchover whose primary has these channels and keeps what it is told, and whose candidate does not
    /// answer.
    async fn beside_a_silent_candidate(
        channels: Reply,
    ) -> (Plan, Logins, ScriptedServer, Arc<Mutex<Vec<String>>>) {
        let told = Arc::new(Mutex::new(Vec::<String>::new()));
        let heard = told.clone();
        let script = Script::new("10.11.6-MariaDB", move |statement, _| {
            heard.lock().unwrap().push(statement.to_owned());
            match statement {
                "SHOW ALL SLAVES STATUS" => channels.clone(),
                _ => Reply::Usual,
            }
        });
        let primary = ScriptedServer::start(script).await.unwrap();
        let mut plan = Plan { kind: Kind::Switchover, ..failover(FenceBy::Nothing) };
        plan.primary.reach = primary.address().to_string();
        // Nobody listens there.
        plan.candidate.reach = "127.0.0.1:1".to_owned();
        let logins = logins();
        (plan, logins, primary, told)
    }

    #[tokio::test]
    async fn a_primary_that_follows_a_server_of_no_plan_is_not_opened() {
        let channels = Reply::rows(&["Master_Host", "Master_Port"], &[&[Some("x1"), Some("3306")]]);
        let (plan, logins, _primary, told) = beside_a_silent_candidate(channels).await;
        let event = undo(Step::Freeze, &plan, &mut Servers::new(&plan, &logins)).await;
        let Event::Failed { why } = event else { panic!("{event:?}") };
        assert!(why.contains("follows x1:3306: it is not the primary any more"), "{why}");
        let thaw = plan.primary.dialect().thaw();
        assert!(!told.lock().unwrap().iter().any(|statement| statement == thaw));
    }

    #[tokio::test]
    async fn a_silent_candidate_that_was_left_stopped_is_named_by_whoever_goes_on() {
        use crate::journal::{self, Journal, JournalRecord};
        use crate::step::State;
        let script = Script::new("10.11.6-MariaDB", |statement, _| match statement {
            "SHOW ALL SLAVES STATUS" => Reply::rows(&["Connection_name"], &[]),
            _ if statement.contains("GET_LOCK") => Reply::value("taken", "1"),
            _ if statement.contains("FROM headroom.switchover") => Reply::error(1146, "no table"),
            _ if statement.starts_with("UPDATE headroom.switchover") => Reply::Ok,
            _ => Reply::Usual,
        });
        let primary = ScriptedServer::start(script).await.unwrap();
        let mut plan = Plan { kind: Kind::Switchover, ..failover(FenceBy::Nothing) };
        plan.primary.reach = primary.address().to_string();
        // Nobody listens there.
        plan.candidate.reach = "127.0.0.1:1".to_owned();
        let logins = logins();
        let failed = || Event::Failed { why: "w".to_owned() };
        for (stopped, named) in [(failed(), true), (Event::Done, false)] {
            let directory = tempfile::tempdir().unwrap();
            let mut journal = Journal::create(directory.path(), &plan).unwrap();
            for (step, event) in [(Step::StopReplication, stopped), (Step::Freeze, failed())] {
                journal.append(&JournalRecord::Begun { at_ms: 1, step, undo: true }).unwrap();
                journal.append(&JournalRecord::Ended { at_ms: 1, step, undo: true, event }).unwrap();
            }
            let (mut journal, lines) = Journal::reopen(journal.path()).unwrap();
            let state = journal::go_on(&lines, None);
            let outcome = crate::perform::run(&plan, &logins, &mut journal, state, &|| false, &mut |_| ())
                .await
                .unwrap();
            assert!(matches!(outcome.state, State::Undone { .. }), "{outcome:?}");
            assert_eq!(outcome.is_as_before(&plan.kind), !named, "{outcome:?}");
            let words = outcome.remarks.join("; ");
            assert_eq!(words.ends_with("type there, once it answers: START SLAVE"), named, "{words}");
            assert_eq!(words.is_empty(), !named, "{words}");
        }
    }

    #[tokio::test]
    async fn a_move_that_was_ended_before_it_was_recorded_leaves_nothing_to_mark() {
        for (code, undone) in [(1146, true), (1049, true), (1142, false)] {
            let script = Script::new("10.11.6-MariaDB", move |statement, _| {
                match statement.starts_with("UPDATE headroom.switchover") {
                    true => Reply::error(code, "no"),
                    false => Reply::Usual,
                }
            });
            let primary = ScriptedServer::start(script).await.unwrap();
            let mut plan = Plan { kind: Kind::Switchover, ..failover(FenceBy::Nothing) };
            plan.primary.reach = primary.address().to_string();
            let logins = logins();
            let event = undo(Step::Record, &plan, &mut Servers::new(&plan, &logins)).await;
            assert_eq!(event == Event::Done, undone, "{code}: {event:?}");
        }
    }

    #[tokio::test]
    async fn a_primary_is_not_opened_beside_a_silent_candidate_that_was_told_to_take_writes() {
        let channels = Reply::rows(&["Connection_name"], &[]);
        let (plan, logins, _primary, told) = beside_a_silent_candidate(channels).await;
        let thaw = plan.primary.dialect().thaw();
        let opened = || told.lock().unwrap().iter().any(|statement| statement == thaw);
        for in_doubt in [true, false] {
            let mut servers = Servers::new(&plan, &logins);
            servers.promotion_in_doubt = in_doubt;
            let event = undo(Step::Freeze, &plan, &mut servers).await;
            assert_eq!(opened(), !in_doubt, "{event:?}");
            match event {
                Event::Failed { why } => {
                    assert!(in_doubt && why.contains("does not say what it has"), "{why}");
                }
                event => assert!(!in_doubt && event == Event::Done, "{event:?}"),
            }
        }
    }
}
