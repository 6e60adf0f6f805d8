//! What takes each step back. A step may have happened by half or not at all: undoing it must be right in
//! every case.

use super::forward::release_lock;
use super::servers::Servers;
use super::{Kind, Member, Plan, doubt, takeover};
use crate::Error;
use crate::facts;
use crate::step::{Event, Step};
use fleet::announcement::HOLD;
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
    let (candidate, dialect) = (&plan.candidate, plan.candidate.dialect());
    let switch = candidate.semi_sync.source.filter(|_| plan.semi_sync).map(|source| source.set(source.on));
    let (mut failed, mut left) = (None, Vec::new());
    for statement in switch.into_iter().chain([dialect.start_replication().to_owned()]) {
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

/// It may have been moved since, by hand even.
async fn is_still_the_primary(plan: &Plan, servers: &mut Servers<'_>) -> Result<(), Error> {
    let (deadline, dialect) = (servers.deadline(), plan.primary.dialect());
    let channels = facts::channels(servers.of(&plan.primary).await?, dialect, deadline).await?;
    let ours = || std::iter::once(&plan.candidate).chain(&plan.others);
    let follows =
        |member: &&Member| channels.iter().any(|c| (&c.host, c.port) == (&member.host, member.port));
    if let Some(source) = ours().find(follows) {
        let why = format!("follows {}: it is not the primary any more, and stays read-only", source.name);
        return Err(Error::Refused { server: plan.primary.server(), why });
    }
    for member in &plan.others {
        if let Ok(Ok(true)) = tokio::time::timeout(LOOK, servers.says_it_takes_writes(member)).await {
            let why = format!("takes writes, so {} stays read-only", plan.primary.name);
            return Err(Error::Refused { server: member.server(), why });
        }
    }
    Ok(())
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
    servers.run(&plan.primary, &statement).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perform::tests::failover;
    use crate::perform::{FenceBy, Logins};
    use config::Credentials;
    use lab::scripted::{Reply, Script, ScriptedServer};
    use std::sync::{Arc, Mutex};

    #[tokio::test]
    async fn a_primary_is_not_opened_beside_a_silent_candidate_that_was_told_to_take_writes() {
        let told = Arc::new(Mutex::new(Vec::<String>::new()));
        let heard = told.clone();
        let script = Script::new("10.11.6-MariaDB", move |statement, _| {
            heard.lock().unwrap().push(statement.to_owned());
            match statement {
                "SHOW ALL SLAVES STATUS" => Reply::rows(&["Connection_name"], &[]),
                _ => Reply::Usual,
            }
        });
        let primary = ScriptedServer::start(script).await.unwrap();
        let mut plan = Plan { kind: Kind::Switchover, ..failover(FenceBy::Nothing) };
        plan.primary.reach = primary.address().to_string();
        // Nobody listens there.
        plan.candidate.reach = "127.0.0.1:1".to_owned();
        let logins = Logins {
            admin: Credentials::default(),
            replication: Default::default(),
            flags: Default::default(),
        };
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
