//! The steps of a failover that differ from those of a planned move: nobody can be asked to stop, so whoever
//! could still write is fenced, and what the candidate received is applied.

use super::forward::wait_for;
use super::servers::Servers;
use super::{FenceBy, Member, Plan};
use crate::Error;
use crate::facts;
use crate::failover::choose::Received;
use crate::failover::receiver;
use crate::survey;
use rustix::process::{Pid, Signal};
use std::process::Stdio;
use std::time::Duration;
use tokio::task::JoinSet;

/// Another failover may have ended since this one was decided on (its tool slept, or somebody typed it
/// twice): then its epoch is recorded, or a server takes writes. Looked at with the locks held, so that it
/// stays true.
pub(super) async fn is_still_needed(plan: &Plan, servers: &mut Servers<'_>) -> Result<(), Error> {
    for member in std::iter::once(&plan.candidate).chain(&plan.others) {
        if servers.says_it_takes_writes(member).await? {
            let why = "takes writes: somebody was promoted meanwhile".to_owned();
            return Err(Error::Refused { server: member.server(), why });
        }
        let deadline = servers.deadline();
        let recorded = survey::epoch_of(servers.of(member).await?, deadline).await?;
        if recorded >= plan.epoch {
            let why = format!("has epoch {recorded} recorded, this one is {}: begin again", plan.epoch);
            return Err(Error::Refused { server: member.server(), why });
        }
    }
    Ok(())
}

/// No replica receives any more: then the primary's semi-sync acknowledges nothing, and what each received is
/// final. After that the command fences.
pub(super) async fn fence(
    plan: &Plan,
    fence: &FenceBy,
    gray: bool,
    servers: &mut Servers<'_>,
) -> Result<(), Error> {
    if !gray {
        nobody_is_connected(plan, servers).await?;
    }
    stop_receiving(plan, servers).await?;
    servers.check_interrupted()?;
    match fence {
        FenceBy::Command { command } => run_command(plan, command, servers).await,
        FenceBy::SemiSync { .. } | FenceBy::Nothing => Ok(()),
    }
}

/// Since its death was confirmed it may have come back, and then nothing is stopped.
async fn nobody_is_connected(plan: &Plan, servers: &mut Servers<'_>) -> Result<(), Error> {
    for member in direct(plan) {
        let (deadline, dialect) = (servers.deadline(), member.dialect());
        let channels = facts::channels(servers.of(member).await?, dialect, deadline).await?;
        if channels.iter().any(|channel| channel.receiver_runs) {
            let why = format!("is back: {} is connected to it again; nothing was stopped", member.name);
            return Err(Error::Refused { server: plan.primary.server(), why });
        }
    }
    Ok(())
}

/// A receiver that is just trying to reach a host that vanished stops once that attempt has ended: after
/// `replica_net_timeout`, 60 s by default. All are stopped at once, so that this is waited for once. Whoever
/// asks for the end waits for it too: undoing starts the same receivers, which the servers do only when they
/// have stopped.
pub(crate) const RECEIVER_STOPS: Duration = Duration::from_secs(75);

async fn stop_receiving(plan: &Plan, servers: &mut Servers<'_>) -> Result<(), Error> {
    let mut connections = Vec::new();
    for member in direct(plan) {
        connections.push((member.dialect().stop_receiving(), servers.another(member).await?));
    }
    let mut stopping = JoinSet::new();
    for (statement, mut connection) in connections {
        stopping.spawn(async move {
            let stopped = connection.run(statement, RECEIVER_STOPS).await;
            connection.close().await;
            stopped
        });
    }
    let mut failed = None;
    // All of them, also where one fails: undoing would be told to start what still stops.
    while let Some(stopped) = stopping.join_next().await {
        let lost = |error| Error::Refused {
            server: plan.candidate.server(),
            why: format!("stopping the receivers was lost: {error}"),
        };
        failed = stopped.map_err(lost).flatten().err().or(failed);
    }
    failed.map_or(Ok(()), Err)
}

/// The command gets the name and the address of the server as `$1`, `$2`, and as HEADROOM_SERVER and
/// HEADROOM_ADDRESS.
async fn run_command(plan: &Plan, command: &str, servers: &Servers<'_>) -> Result<(), Error> {
    let limit = Duration::from_millis(plan.deadlines.fence_ms);
    let (name, address) = (&plan.primary.name, &plan.primary.reach);
    let failed = |why: String| Error::Refused {
        server: plan.primary.server(),
        why: format!("is not fenced: the command {why}; nothing was promoted"),
    };
    let mut shell = tokio::process::Command::new("/bin/sh");
    shell
        .args(["-c", command, "fence", name, address])
        .env("HEADROOM_SERVER", name)
        .env("HEADROOM_ADDRESS", address)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .process_group(0);
    let mut child = shell.spawn().map_err(|error| failed(format!("did not start: {error}")))?;
    let group = child.id().and_then(|id| Pid::from_raw(id.cast_signed())).map(Group);
    let ended = tokio::select! {
        ended = tokio::time::timeout(limit, child.wait()) => ended,
        () = servers.interrupted() => return Err(failed("was interrupted".to_owned())),
    };
    if matches!(ended, Ok(Ok(_))) {
        // What it leaves running on purpose, stays.
        std::mem::forget(group);
    }
    match ended {
        Ok(Ok(status)) if status.success() => Ok(()),
        Ok(Ok(status)) => Err(failed(format!("ended with {status}"))),
        Ok(Err(error)) => Err(failed(format!("was lost: {error}"))),
        Err(_) => Err(failed(format!("did not end within {} s", limit.as_secs_f64()))),
    }
}

/// A command with whatever it has started: none of it goes on when it is not waited for any longer, and
/// fences a server that the next failover has promoted.
struct Group(Pid);

impl Drop for Group {
    fn drop(&mut self) {
        let _ = rustix::process::kill_process_group(self.0, Signal::KILL);
    }
}

/// Undoing: replicas receive again, should the primary come back. What a command fenced stays fenced. One
/// whose applier failed is left as it stands, where a start would lose what nobody else may have. Threads
/// that somebody had stopped before stay so.
pub(super) async fn receive_again(plan: &Plan, servers: &mut Servers<'_>) -> Result<(), Error> {
    let mut failed = None;
    for member in direct(plan) {
        let Some(start) = member.dialect().start_but(member.stopped) else { continue };
        let started = match keeps_relay_logs(member, servers).await {
            Ok(()) => servers.run(member, start).await,
            refused => refused,
        };
        if let Err(error) = started {
            failed = Some(error);
        }
    }
    failed.map_or(Ok(()), Err)
}

/// Whether starting its threads throws nothing away.
async fn keeps_relay_logs(member: &Member, servers: &mut Servers<'_>) -> Result<(), Error> {
    let (deadline, dialect) = (servers.deadline(), member.dialect());
    let channels = facts::channels(servers.of(member).await?, dialect, deadline).await?;
    let Some(channel) = channels.first().filter(|channel| !channel.applier_runs) else { return Ok(()) };
    if !dialect.is_mariadb() {
        return Ok(());
    }
    let applied = servers.scalar(member, dialect.applied()).await?.unwrap_or_default();
    match receiver::start_throws_away(dialect, channel, &applied) {
        Some(why) => Err(Error::Refused { server: member.server(), why }),
        None => Ok(()),
    }
}

/// The candidate has received what anybody has, and applies it all.
pub(super) async fn apply(plan: &Plan, servers: &mut Servers<'_>) -> Result<(), Error> {
    let ours = received(&plan.candidate, servers).await?;
    for member in plan.others.iter().filter(|member| member.follows_primary) {
        let theirs = received(member, servers).await?;
        if !ours.covers(&theirs) {
            let why = format!("has received {theirs}, {} only {ours}: begin again", plan.candidate.name);
            return Err(Error::Refused { server: member.server(), why });
        }
    }
    let seconds = plan.deadlines.await_ms as f64 / 1e3;
    if wait_for(&plan.candidate, &ours.to_string(), seconds, servers).await? {
        return Ok(());
    }
    Err(Error::TooLate {
        server: plan.candidate.server(),
        what: "has not applied what it received".to_owned(),
        seconds,
        detail: "; more time: --apply".to_owned(),
    })
}

async fn received(member: &Member, servers: &mut Servers<'_>) -> Result<Received, Error> {
    let (deadline, dialect) = (servers.deadline(), member.dialect());
    let connection = servers.of(member).await?;
    let channels = facts::channels(connection, dialect, deadline).await?;
    let applied = connection.scalar(dialect.applied(), deadline).await?.unwrap_or_default();
    let received = channels.first().map_or("", |channel| channel.received.as_str());
    Received::new(dialect.0.flavour, received, &applied.replace(['\n', ' '], ""))
        .map_err(|error| Error::Refused { server: member.server(), why: error.to_string() })
}

fn direct(plan: &Plan) -> impl Iterator<Item = &Member> {
    std::iter::once(&plan.candidate).chain(plan.others.iter().filter(|member| member.follows_primary))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perform::tests::{failover, logins};
    use lab::scripted::{Reply, Script, ScriptedServer};
    use std::time::Instant;

    #[tokio::test]
    async fn a_receiver_that_still_stops_is_waited_for_where_another_one_fails() {
        const STOPS: Duration = Duration::from_millis(700);
        let server = async |stops: Reply| {
            let script = Script::new("10.11.6-MariaDB", move |statement, _| match statement {
                "STOP SLAVE IO_THREAD" => stops.clone(),
                _ => Reply::Usual,
            });
            ScriptedServer::start(script).await.unwrap()
        };
        let (a2, b1) = (server(Reply::error(1255, "no")).await, server(Reply::Ok.after(STOPS)).await);
        let mut plan = failover(FenceBy::Nothing);
        plan.candidate.reach = a2.address().to_string();
        let (name, reach) = ("b1".to_owned(), b1.address().to_string());
        plan.others.push(Member { name, reach, ..plan.candidate.clone() });
        let logins = logins();
        let began = Instant::now();
        let stopped = stop_receiving(&plan, &mut Servers::new(&plan, &logins)).await;
        assert!(stopped.unwrap_err().to_string().starts_with("a2: "));
        assert!(began.elapsed() >= STOPS, "{:?}", began.elapsed());
    }

    #[tokio::test]
    async fn whoever_asks_for_the_end_does_not_wait_for_the_command() {
        let plan = failover(FenceBy::Nothing);
        let logins = logins();
        let mut servers = Servers::new(&plan, &logins);
        let began = Instant::now();
        let asks = || began.elapsed() > Duration::from_millis(300);
        servers.interrupted = Some(&asks);
        let why = run_command(&plan, "sleep 1000", &servers).await.unwrap_err().to_string();
        assert!(why.contains("was interrupted; nothing was promoted"), "{why}");
        assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
        // Where nothing is stopped any more nobody is listened to.
        servers.interrupted = None;
        assert!(servers.check_interrupted().is_ok());
        run_command(&plan, "sleep 0.5", &servers).await.unwrap();
    }
}
