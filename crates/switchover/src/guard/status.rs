//! What a guard says of itself: as JSON, and as metrics.

use super::decide::{Decision, LockCount};
use super::lock::LOCK;
use super::record::{self, FailoverRecord, GuardRecord, Pause};
use crate::check::{self, Finding, Level};
use crate::connection::{BRIEFLY, Connection};
use crate::facts::{self, Facts};
use crate::failover::risk::{LossRisk, SourceEvidence};
use crate::failover::scene::{self, Scene, ServerAddress};
use crate::failover::source;
use crate::{Error, Flags};
use config::Credentials;
use fleet::{Address, Server, ServerName, Snapshot, State};
use serde::{Serialize, Serializer};
use std::fmt::Write;
use std::time::{Duration, Instant};

/// What a running guard sees and does.
#[derive(Clone, Debug, Serialize)]
pub struct GuardStatus {
    pub primary: Option<ServerName>,
    /// Whether it holds the lock on more than half of the other servers.
    pub active: bool,
    pub lock: LockCount,
    pub decision: Decision,
    pub pause: Option<Pause>,
    pub last_failover: Option<FailoverRecord>,
    /// How the last attempt ended, in words.
    pub last_attempt: Option<String>,
    /// Why an attempt left it to a person, until the primary is healthy, somebody took over, or it is paused.
    pub left_to_person: Option<String>,
    pub dry_run: bool,
    /// Failovers that this process completed.
    pub failovers: u64,
    /// Attempts that it did not complete: not confirmed, refused, undone.
    pub not_done: u64,
    /// Rounds since it began.
    pub rounds: u64,
}

impl GuardStatus {
    /// Why a person has to decide, while one has to.
    pub fn person_needed(&self) -> Option<&str> {
        match &self.decision {
            Decision::Ask { why } => Some(why),
            _ => self.left_to_person.as_deref(),
        }
    }

    /// In OpenMetrics text.
    pub fn metrics(&self) -> String {
        let mut text = String::new();
        let mut gauge = |name: &str, help: &str, value: u64| {
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} gauge\n{name} {value}");
        };
        gauge("headroom_guard_active", "1 when this guard is the active one.", u64::from(self.active));
        gauge(
            "headroom_guard_paused",
            "1 while a person has paused guards.",
            u64::from(self.pause.is_some()),
        );
        gauge("headroom_guard_locks_held", "Servers on which it holds the lock.", self.lock.held as u64);
        gauge("headroom_guard_locks_possible", "Servers other than the primary.", self.lock.of as u64);
        gauge(
            "headroom_guard_person_needed",
            "1 when the primary is not well and a person has to decide.",
            u64::from(self.person_needed().is_some()),
        );
        for (name, help, value) in [
            ("headroom_guard_failovers", "Failovers completed by this process.", self.failovers),
            ("headroom_guard_attempts_not_done", "Attempts refused, not confirmed or undone.", self.not_done),
            ("headroom_guard_rounds", "Looks at the fleet.", self.rounds),
        ] {
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} counter\n{name}_total {value}");
        }
        text.push_str(
            "# HELP headroom_guard_decision What it does now.\n# TYPE headroom_guard_decision gauge\n",
        );
        for word in ["watch", "standby", "paused", "ask", "act"] {
            let now = u8::from(self.decision.word() == word);
            let _ = writeln!(text, "headroom_guard_decision{{decision=\"{word}\"}} {now}");
        }
        text.push_str("# EOF\n");
        text
    }

    /// In one line.
    pub fn line(&self) -> String {
        let primary = self.primary.as_ref().map_or("unknown", ServerName::as_str);
        match &self.left_to_person {
            Some(why) => format!("ask: {why} (primary {primary})"),
            None => format!("{}: {} (primary {primary})", self.decision.word(), self.decision.why()),
        }
    }
}

/// What `headroom guard status` finds on the servers, without asking any guard.
#[derive(Clone, Debug, Serialize)]
pub struct GuardOverview {
    pub primary: Option<ServerName>,
    /// Who holds the lock where: the server, and the holder's account and address.
    pub holders: Vec<(ServerName, Option<String>)>,
    pub pause: Option<Pause>,
    pub last_failover: Option<FailoverRecord>,
    /// Servers that did not answer, with the reason.
    pub silent: Vec<(ServerName, String)>,
    /// Replicas that are not read-only, and what to do: no failover begins while there is one.
    pub writable_replicas: Vec<(ServerName, String)>,
    /// What a failover now could lose, or the facts by which nothing could.
    #[serde(serialize_with = "in_words")]
    pub loss: Result<String, LossRisk>,
    /// Whether our own account may do what a failover needs, on each replica that answers.
    pub own_privileges: Finding,
}

/// What could be lost is a sentence in JSON.
fn in_words<S: Serializer>(loss: &Result<String, LossRisk>, to: S) -> Result<S::Ok, S::Error> {
    loss.as_ref().map_err(ToString::to_string).serialize(to)
}

impl GuardOverview {
    /// Whether a guard is active.
    pub fn is_guarded(&self) -> bool {
        let others =
            self.holders.len() + self.silent.iter().filter(|(s, _)| Some(s) != self.primary.as_ref()).count();
        self.holders.iter().filter(|(_, holder)| holder.is_some()).count() * 2 > others
    }

    /// Asks every server of a snapshot; `flags` are those that whoever asks was started with.
    pub async fn read(snapshot: &Snapshot, who: &Credentials, deadline: Duration, flags: &Flags) -> Self {
        let primary = snapshot.primary().map(|server| server.name.clone());
        let (mut evidence, mut writable_replicas) = (SourceEvidence::Unknown, Vec::new());
        let (mut seen_primary, mut unread) = (None, Vec::new());
        let (mut holders, mut silent, mut recorded, mut found_replicas) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for server in &snapshot.servers {
            let is_primary = Some(&server.name) == primary.as_ref();
            match look(server, who, deadline).await {
                Ok((holder, found)) => {
                    recorded.push(found);
                    if !is_primary {
                        holders.push((server.name.clone(), holder));
                    }
                }
                Err(error) => silent.push((server.name.clone(), error.to_string())),
            }
            match facts::read_for_failover(&server.name, &server.reach, who, deadline).await {
                Ok(facts) if is_primary => {
                    let (said, before) = (source::of(&facts), Duration::ZERO);
                    evidence = SourceEvidence::Seen { said, before };
                    seen_primary = Some(facts);
                }
                Ok(facts) => {
                    let channel = facts.channels.first().filter(|_| !facts.refuses_writes());
                    let words =
                        channel.map(|channel| scene::writable_replica(channel, facts.dialect(), flags));
                    writable_replicas.extend(words.map(|words| (facts.server.clone(), words)));
                    found_replicas.push(Facts { reserved: server.reserved.clone(), ..facts });
                }
                Err(_) => unread.push(server.name.clone()),
            }
        }
        let (pause, last_failover) = record::newest(&recorded);
        // One whose replication cannot be read may have what nobody else has, too.
        let mut names: Vec<ServerName> = silent.iter().map(|(name, _)| name.clone()).chain(unread).collect();
        names.retain(|name| Some(name) != primary.as_ref());
        names.sort();
        names.dedup();
        facts::read_own_grants(&mut found_replicas, who, deadline).await;
        let (replicas, others): (Vec<Facts>, Vec<Facts>) =
            found_replicas.into_iter().partition(|facts| follows(facts, seen_primary.as_ref()));
        // What a failover would find, were the primary dead now.
        let scene = Scene {
            primary: ServerAddress {
                name: primary.clone().unwrap_or_else(|| ServerName::new("the primary")),
                reach: snapshot.primary().map_or(Address::tcp("", 0), |server| server.reach.clone()),
            },
            source: (String::new(), 0),
            replicas,
            others,
            silent: names,
            unread: Vec::new(),
            epoch: 0,
        };
        let (loss, own_privileges) = (scene.rule_out_loss(&evidence), scene.own_privileges_of_all());
        Self { primary, holders, pause, last_failover, silent, writable_replicas, loss, own_privileges }
    }

    /// In a few lines.
    pub fn text(&self) -> String {
        let mut text =
            format!("primary         {}\n", self.primary.as_ref().map_or("unknown", ServerName::as_str));
        let guard = if self.is_guarded() { "active" } else { "none is active" };
        let _ = writeln!(text, "guard           {guard}");
        for (server, holder) in &self.holders {
            let holder = holder.as_deref().unwrap_or("nobody");
            let _ = writeln!(text, "  lock on {server:<6}{holder}");
        }
        for (server, why) in &self.silent {
            let _ = writeln!(text, "  {server} does not answer: {why}");
        }
        for (server, words) in &self.writable_replicas {
            let _ = writeln!(text, "  {server} {words}");
        }
        let pause = self.pause.as_ref().map_or("no".to_owned(), ToString::to_string);
        let _ = writeln!(text, "paused          {pause}");
        let last = self.last_failover.as_ref().map_or("none recorded".to_owned(), |last| {
            let looked = if last.looked_at { ", and a person said resume since" } else { "" };
            format!("epoch {} by {}, {} s ago{looked}", last.epoch, last.by, last.age.as_secs())
        });
        let _ = writeln!(text, "last failover   {last}");
        let _ = match &self.loss {
            Ok(facts) => writeln!(text, "could be lost   nothing: {facts}"),
            Err(loss) => writeln!(text, "could be lost   {loss}. The guard would not act by itself"),
        };
        if self.own_privileges.level != Level::Pass {
            let mend = self.own_privileges.mend.as_deref().unwrap_or_default();
            let _ = writeln!(text, "own privileges  {}\n  -> {mend}", self.own_privileges.facts);
        }
        text
    }
}

async fn look(
    server: &Server,
    who: &Credentials,
    deadline: Duration,
) -> Result<(Option<String>, GuardRecord), Error> {
    let mut conn = Connection::open(&server.name, &server.reach, who, deadline, BRIEFLY).await?;
    let holder = format!(
        "SELECT CONCAT(user, '@', host) FROM information_schema.PROCESSLIST WHERE id = IS_USED_LOCK('{LOCK}')"
    );
    let holder = conn.scalar(&holder, deadline).await?;
    let found = record::read(&mut conn, deadline).await;
    conn.close().await;
    Ok((holder, found?))
}

/// Whether a failover says something to a server: not to replicas of replicas, which acknowledge nothing to
/// the primary, and not to one that follows nobody. Where no primary was read, every source may be it.
fn follows(facts: &Facts, primary: Option<&Facts>) -> bool {
    facts.channels.iter().any(|channel| primary.is_none_or(|primary| check::is_source(primary, channel)))
}

/// What was written for guards to read, as `headroom guard pause` and `resume` print it with `--json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PauseReport {
    /// Where it was written.
    pub primary: ServerName,
    /// As `headroom guard status --json` has it; `None`: guards act again.
    pub pause: Option<Pause>,
    /// Replicas that do not show it yet: a guard that starts only once the primary is dead may not know it
    /// there.
    pub late: Vec<ServerName>,
    /// The number of what was written, for [`replicas_without`].
    pub generation: u64,
}

/// Pauses or resumes all guards: written on the primary.
///
/// # Errors
/// No primary is known, or it does not take the write.
pub async fn pause(
    snapshot: &Snapshot,
    who: &Credentials,
    on: bool,
    time: Option<Duration>,
    by: &str,
    why: &str,
    deadline: Duration,
) -> Result<PauseReport, Error> {
    let Some(primary) = snapshot.primary() else {
        let instead = instead(on);
        let why =
            format!("no primary takes writes, so nothing can be written for the guards to read; {instead}");
        return Err(Error::Refused { server: ServerName::new("the fleet"), why });
    };
    let mut conn = Connection::open(&primary.name, &primary.reach, who, deadline, BRIEFLY).await?;
    let written = record::write(&mut conn, on, time, by, why, deadline).await;
    conn.close().await;
    let generation = written?;
    let pause = on.then(|| Pause { by: by.to_owned(), why: why.to_owned(), left: time });
    Ok(PauseReport { primary: primary.name.clone(), pause, late: Vec::new(), generation })
}

/// What to do where no primary takes what was to be written: who pauses wants no failover, who resumes does.
fn instead(on: bool) -> &'static str {
    if on {
        "stop their service"
    } else {
        "guards that are paused stay so: headroom failover --check says whether a replica can take over"
    }
}

/// Between two looks whether a replica has it.
const POLL: Duration = Duration::from_millis(100);
/// After this `waits` is told.
const SOON: Duration = Duration::from_secs(1);

/// Waits, at most `patience`, until each replica that answers has what was written on the primary: a guard
/// that is started once that is dead reads it there. Those that do not have it then; `waits` is told once
/// which are waited for, where that takes longer than a moment.
pub async fn replicas_without(
    written: u64,
    snapshot: &Snapshot,
    who: &Credentials,
    patience: Duration,
    deadline: Duration,
    waits: impl FnOnce(&[ServerName]),
) -> Vec<ServerName> {
    let (began, mut waits) = (Instant::now(), Some(waits));
    let primary = snapshot.primary().map(|server| &server.name);
    let replica = |server: &&Server| Some(&server.name) != primary && server.state == State::Answering;
    let mut left: Vec<&Server> = snapshot.servers.iter().filter(replica).collect();
    loop {
        let mut late = Vec::new();
        for server in left {
            let has = look(server, who, deadline).await.is_ok_and(|(_, found)| found.has(written));
            if !has {
                late.push(server);
            }
        }
        left = late;
        let names: Vec<ServerName> = left.iter().map(|server| server.name.clone()).collect();
        if names.is_empty() || began.elapsed() >= patience {
            return names;
        }
        if let Some(waits) = waits.take_if(|_| began.elapsed() >= SOON) {
            waits(&names);
        }
        tokio::time::sleep(POLL).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::tests::{channel, facts};

    #[test]
    fn who_follows_nobody_is_no_replica_of_a_primary_that_was_not_read() {
        let version = "10.11.6-MariaDB";
        let of = |server: &str, channels| Facts { channels, ..facts(server, version) };
        let (alone, replica) = (of("a3", Vec::new()), of("a2", vec![channel("a1", 3306, 11)]));
        let below = of("c2", vec![channel("a2", 3306, 12)]);
        let primary = Facts { server_id: 11, ..facts("a1", version) };
        for (server, primary, expected) in [
            (&alone, None, false),
            (&replica, None, true),
            (&alone, Some(&primary), false),
            (&replica, Some(&primary), true),
            (&below, Some(&primary), false),
        ] {
            assert_eq!(follows(server, primary), expected, "{}", server.server);
        }
    }

    #[test]
    fn who_lets_guards_act_again_is_not_sent_to_stop_them() {
        assert_eq!(instead(true), "stop their service");
        assert!(instead(false).contains("headroom failover --check"), "{}", instead(false));
    }
}
