//! What takes each step back. A step may have happened by half or not at all: undoing it must be right in
//! every case.

use super::forward::release_lock;
use super::servers::Servers;
use super::{Kind, Plan, takeover};
use crate::Error;
use crate::facts;
use crate::step::{Event, Step};
use fleet::announcement::HOLD;

/// Takes a step back.
pub(super) async fn undo(step: Step, plan: &Plan, servers: &mut Servers<'_>) -> Event {
    let is_failover = plan.kind != Kind::Switchover;
    let undone = match step {
        // Never the old primary: it is dead, or fenced.
        Step::Freeze if is_failover => takeover::receive_again(plan, servers).await,
        Step::StopReplication => start_replication(plan, servers).await,
        Step::Freeze => thaw(plan, servers).await,
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

async fn start_replication(plan: &Plan, servers: &mut Servers<'_>) -> Result<(), Error> {
    let (candidate, dialect) = (&plan.candidate, plan.candidate.dialect());
    // First of all: whatever becomes of the switch, it replicates.
    servers.run(candidate, dialect.start_replication()).await?;
    match candidate.semi_sync.source.filter(|_| plan.semi_sync) {
        Some(source) => servers.run(candidate, &source.set(source.on)).await,
        None => Ok(()),
    }
}

/// Never while the candidate takes writes: whoever reads this journal late must not make a second writer.
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
                let why = format!(
                    "has {beyond}, which {} does not have: it was promoted and written to. {} stays read-only; \
                     go on with headroom switchover --resume, or make {} a replica again by hand",
                    plan.primary.name, plan.primary.name, plan.candidate.name
                );
                return Err(Error::Refused { server: plan.candidate.server(), why });
            }
        }
        Err(_) => {}
    }
    if let Some(freezer) = servers.freezer.take() {
        freezer.close().await;
    }
    if plan.primary.read_only {
        return Ok(());
    }
    servers.run(&plan.primary, plan.primary.dialect().thaw()).await
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
