//! What is asked before somebody goes on with an operation that its tool has left: whether it was promoted,
//! whether another one is at work, and whether the primary was moved since.

use super::servers::{READ_ONLY, Servers, takes_writes};
use super::{Logins, Plan, forward};
use crate::Error;
use crate::connection::{BRIEFLY, Connection};
use config::Credentials;
use fleet::announcement::{FREEZE, HOLD, OPERATION, PREPARE};
use fleet::{ServerName, Snapshot, WriterStatus};
use std::time::Duration;
use tokio::task::JoinSet;

/// Whether the candidate takes writes, by its own answer; `None` when it gives none. Needed to resume.
pub async fn promoted(plan: &Plan, logins: &Logins) -> Option<bool> {
    let mut servers = Servers::new(plan, logins);
    let answer = servers.candidate_takes_writes().await.ok();
    servers.close().await;
    answer
}

/// Whether somebody holds the lock of an operation on a server of the plan that answers: then it may be the
/// very one that its journal tells of.
pub async fn is_under_way(plan: &Plan, logins: &Logins) -> bool {
    let mut servers = Servers::new(plan, logins);
    let mut held = false;
    for member in std::iter::once(&plan.candidate).chain(&plan.others) {
        let holder = servers.scalar(member, &format!("SELECT IS_USED_LOCK('{OPERATION}')")).await;
        held |= matches!(holder, Ok(Some(_)));
    }
    servers.close().await;
    held
}

/// Ends the sessions by which another program holds the locks of an operation, on every server of the plan
/// that answers: for one whose host was lost, which servers notice only minutes later. What was ended, in
/// words.
///
/// # Errors
/// A server answers and does not end a session.
pub async fn end_sessions(plan: &Plan, logins: &Logins) -> Result<Vec<String>, Error> {
    let mut servers = Servers::new(plan, logins);
    let mut ended = Vec::new();
    for member in [&plan.primary, &plan.candidate].into_iter().chain(&plan.others) {
        for lock in [OPERATION, PREPARE, HOLD, FREEZE] {
            let ask = format!("SELECT IS_USED_LOCK('{lock}')");
            let Ok(Some(session)) = servers.scalar(member, &ask).await else { continue };
            let session: u32 = session.parse().unwrap_or(0);
            forward::end_session(member, session, &mut servers).await?;
            ended.push(format!("session {session} on {}, which held {lock}", member.name));
        }
    }
    servers.close().await;
    Ok(ended)
}

/// The epoch of a later operation, if any server that answers knows of one: then what this plan began is
/// over, and whoever resumes it late must touch nothing.
pub async fn superseded(plan: &Plan, logins: &Logins) -> Option<u64> {
    let deadline = Duration::from_millis(plan.deadlines.statement_ms);
    let mut latest = plan.epoch;
    for member in [&plan.primary, &plan.candidate].into_iter().chain(&plan.others) {
        let Ok(address) = member.address() else { continue };
        let epoch = crate::survey::epoch(&member.server(), &address, &logins.admin, deadline).await;
        latest = latest.max(epoch.unwrap_or(0));
    }
    (latest > plan.epoch).then_some(latest)
}

/// One that does not answer by then is not who clients write to.
const WRITER_ANSWERS: Duration = Duration::from_secs(2);

/// Who takes writes in the place of a candidate that was promoted and takes none, in words: somebody moved
/// the primary by hand since, which has no epoch, and whoever goes on late would make a second writer, or
/// close the only one. `None` while the candidate takes writes, or nobody does. `snapshot` is the fleet as it
/// is now, where it is known: the plan does not name a server that was silent when it was made.
pub async fn moved_by_hand(plan: &Plan, logins: &Logins, snapshot: Option<&Snapshot>) -> Option<String> {
    let mut servers = Servers::new(plan, logins);
    let (mut writer, mut candidate_writes) = (None, false);
    if matches!(servers.candidate_takes_writes_soon().await, Ok(true)) {
        candidate_writes = true;
    } else {
        for member in std::iter::once(&plan.primary).chain(&plan.others) {
            let asked = servers.says_it_takes_writes(member);
            if let Ok(Ok(true)) = tokio::time::timeout(WRITER_ANSWERS, asked).await {
                writer = Some(member.name.clone());
                break;
            }
        }
    }
    servers.close().await;
    if writer.is_none()
        && !candidate_writes
        && let Some(snapshot) = snapshot
    {
        writer = writer_outside(plan, logins, snapshot).await;
    }
    let candidate = &plan.candidate.name;
    writer.map(|writer| format!("{writer} takes writes, and {candidate}, which was promoted, does not"))
}

/// Who takes writes that the plan does not name, in words, before its primary is told to take them again:
/// it may have been silent when the plan was made, and promoted by hand since. `None` where the primary takes
/// writes already, so that nothing is opened.
pub async fn written_elsewhere(plan: &Plan, logins: &Logins, snapshot: &Snapshot) -> Option<String> {
    let mut servers = Servers::new(plan, logins);
    let open = servers.primary_takes_writes().await == Some(true);
    servers.close().await;
    if open {
        return None;
    }
    let writer = writer_outside(plan, logins, snapshot).await?;
    Some(format!("{writer} takes writes, and {}, which was the primary, does not", plan.primary.name))
}

/// A server of the fleet that the plan does not name, and that takes writes. Of another fleet nobody is
/// asked. All are asked at once: readers of binary logs that register as replicas are among them, may be any
/// number, and give no answer, while nobody takes writes.
async fn writer_outside(plan: &Plan, logins: &Logins, snapshot: &Snapshot) -> Option<String> {
    let deadline = Duration::from_millis(plan.deadlines.statement_ms);
    let is_named = |server: &fleet::Server| {
        let reach = server.reach.to_string();
        let mut members = [&plan.primary, &plan.candidate].into_iter().chain(&plan.others);
        members.any(|member| member.name == server.name.as_str() || member.reach == reach)
    };
    let (named, outside): (Vec<&fleet::Server>, Vec<&fleet::Server>) =
        snapshot.servers.iter().partition(|server| is_named(server));
    if named.is_empty() {
        return None;
    }
    let mut asked = JoinSet::new();
    for server in outside {
        let (name, reach, who) = (server.name.clone(), server.reach.clone(), logins.admin.clone());
        asked.spawn(async move {
            let asking = async {
                let opened = Connection::open(&name, &reach, &who, deadline, BRIEFLY).await;
                let mut connection = opened.ok()?;
                let read_only = connection.scalar(READ_ONLY, deadline).await.ok()?;
                connection.close().await;
                read_only
            };
            let answer = tokio::time::timeout(WRITER_ANSWERS, asking).await.ok().flatten();
            takes_writes(answer.as_deref()).then(|| name.to_string())
        });
    }
    let mut writers = Vec::new();
    while let Some(ended) = asked.join_next().await {
        writers.extend(ended.ok().flatten());
    }
    writers.into_iter().min()
}

/// The plan of the newest operation that was begun and neither done nor undone, as the servers have it: for
/// a host that has no journal of it. `None` when the newest one is over: on all servers, or on the one that
/// takes writes. A move is recorded on the primary before anything else, and whoever takes over has that row,
/// unless filters leave it out. So one that still holds a channel, as a candidate does until it is marked, or
/// that lacks what another server has recorded, does not speak for those that were not read.
///
/// # Errors
/// Servers do not answer, or the plan cannot be read: then it is not known what is left.
pub async fn left_behind(
    snapshot: &Snapshot,
    who: &Credentials,
    deadline: Duration,
) -> Result<Option<Plan>, Error> {
    let mut newest: Option<(&ServerName, (u64, String, String))> = None;
    let mut unread: Vec<(&ServerName, Error)> = Vec::new();
    let writer = match &snapshot.writer {
        WriterStatus::Known { server } => snapshot.server(server),
        WriterStatus::Unknown { .. } => None,
    };
    let mut of_writer = None;
    for server in &snapshot.servers {
        match crate::survey::newest_record(&server.name, &server.reach, who, deadline).await {
            // A state that is further on counts: replicas may be late.
            Ok(Some(found)) => {
                if writer.is_some_and(|writer| writer.name == server.name) {
                    of_writer = Some(found.0);
                }
                let further = |(_, known): &(&ServerName, (u64, String, String))| {
                    found.0 > known.0 || (found.0 == known.0 && known.1 == "begun")
                };
                if newest.as_ref().is_none_or(further) {
                    newest = Some((&server.name, found));
                }
            }
            Ok(None) => {}
            Err(error) => unread.push((&server.name, error)),
        }
    }
    let newest_epoch = newest.as_ref().map(|(_, (epoch, ..))| *epoch);
    if let Some((server, (epoch, state, plan))) = newest
        && state == "begun"
    {
        let unreadable = |error: serde_json::Error| Error::Refused {
            server: server.clone(),
            why: format!(
                "has epoch {epoch} recorded as begun, and its plan cannot be read: {error}. With a program of the version \
                 that began it, or on the host that has its journal: --resume"
            ),
        };
        return serde_json::from_str(&plan).map(Some).map_err(unreadable);
    }
    let Some((first, _)) = unread.first() else { return Ok(None) };
    if let Some(writer) = writer
        && unread.iter().all(|(name, _)| **name != writer.name)
        && writer.source.is_none()
        && of_writer == newest_epoch
    {
        return Ok(None);
    }
    let each: Vec<String> = unread.iter().map(|(_, error)| error.to_string()).collect();
    let why = format!(
        "was not read, and may have one recorded that was begun and is not over; those that were read have none. Not read: \
         {}. Again once they answer, or on the host that has its journal: --resume",
        each.join("; ")
    );
    Err(Error::Refused { server: (*first).clone(), why })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perform::FenceBy;
    use crate::perform::tests::{failover, logins};
    use fleet::{Address, Server};
    use lab::scripted::{Reply, Script, ScriptedServer};
    use std::time::Instant;

    async fn server(read_only: &'static str) -> ScriptedServer {
        let script = Script::new("10.11.6-MariaDB", move |statement, _| match statement {
            READ_ONLY => Reply::value("read_only", read_only),
            _ => Reply::Usual,
        });
        ScriptedServer::start(script).await.unwrap()
    }

    #[tokio::test]
    async fn whoever_was_made_the_primary_by_hand_since_is_named() {
        let (open, closed) = (server("0").await, server("1").await);
        let at = |server: &ScriptedServer| server.address().to_string();
        for (primary, candidate, moved) in [
            (&open, &open, false),
            (&closed, &open, false),
            (&closed, &closed, false),
            (&open, &closed, true),
        ] {
            let mut plan = failover(FenceBy::Nothing);
            (plan.primary.reach, plan.candidate.reach) = (at(primary), at(candidate));
            let words = moved_by_hand(&plan, &logins(), None).await;
            assert_eq!(words.is_some(), moved, "{words:?}");
            assert!(words.is_none_or(|words| words.starts_with("a1 takes writes, and a2")));
        }
    }

    #[tokio::test]
    async fn a_server_that_no_plan_names_and_that_was_promoted_by_hand_is_named() {
        let (open, closed) = (server("0").await, server("1").await);
        let mut plan = failover(FenceBy::Nothing);
        (plan.primary.reach, plan.candidate.reach) =
            (closed.address().to_string(), closed.address().to_string());
        let fleet_of = |servers: &[(&str, &ScriptedServer)]| {
            let mut snapshot = Snapshot::empty(Instant::now());
            for (name, server) in servers {
                let reach = Address::tcp("127.0.0.1", server.address().port());
                snapshot.servers.push(Server::unasked(ServerName::new(name), reach));
            }
            snapshot
        };
        let another = fleet_of(&[("a1", &closed), ("a2", &closed), ("a3", &open)]);
        let words = moved_by_hand(&plan, &logins(), Some(&another)).await.unwrap();
        assert!(words.starts_with("a3 takes writes, and a2"), "{words}");
        assert_eq!(moved_by_hand(&plan, &logins(), None).await, None, "the plan does not name it");
        let words = written_elsewhere(&plan, &logins(), &another).await.unwrap();
        assert!(words.starts_with("a3 takes writes, and a1"), "{words}");
        let elsewhere = fleet_of(&[("b1", &open)]);
        assert_eq!(moved_by_hand(&plan, &logins(), Some(&elsewhere)).await, None, "another fleet");
        let refuses = server("1").await;
        let nobody = fleet_of(&[("a1", &closed), ("a2", &closed), ("a3", &refuses)]);
        assert_eq!(moved_by_hand(&plan, &logins(), Some(&nobody)).await, None);
        assert_eq!(written_elsewhere(&plan, &logins(), &nobody).await, None);
        // It was never closed: undoing opens nothing.
        plan.primary.reach = open.address().to_string();
        assert_eq!(written_elsewhere(&plan, &logins(), &another).await, None);
        // The candidate takes writes, as it should.
        (plan.primary.reach, plan.candidate.reach) =
            (closed.address().to_string(), open.address().to_string());
        assert_eq!(moved_by_hand(&plan, &logins(), Some(&another)).await, None);
    }

    #[tokio::test]
    async fn a_plan_that_cannot_be_read_is_not_the_same_as_none() {
        let looked = async |state: &'static str, plan: String| {
            let script = Script::new("10.11.6-MariaDB", move |statement, _| {
                if !statement.contains("FROM headroom.switchover") {
                    return Reply::Usual;
                }
                let row = [Some("4"), Some(state), Some(plan.as_str())];
                Reply::rows(&["epoch", "state", "plan"], &[&row])
            });
            let server = ScriptedServer::start(script).await.unwrap();
            let mut snapshot = Snapshot::empty(Instant::now());
            let reach = Address::tcp("127.0.0.1", server.address().port());
            snapshot.servers.push(Server::unasked(ServerName::new("a1"), reach));
            left_behind(&snapshot, &Credentials::default(), Duration::from_secs(5)).await
        };
        let plan = failover(FenceBy::Nothing);
        let text = serde_json::to_string(&plan).unwrap();
        assert_eq!(looked("begun", text).await.unwrap(), Some(plan));
        assert_eq!(looked("done", "{}".to_owned()).await.unwrap(), None);
        let unreadable = looked("begun", "{}".to_owned()).await.unwrap_err().to_string();
        let expected = "a1: has epoch 4 recorded as begun, and its plan cannot be read";
        assert!(unreadable.starts_with(expected), "{unreadable}");
    }

    #[tokio::test]
    async fn servers_that_were_not_read_are_named_unless_the_one_that_takes_writes_was() {
        let script = Script::new("10.11.6-MariaDB", |statement, _| {
            let asks = statement.contains("FROM headroom.switchover");
            if asks { Reply::error(1146, "no table") } else { Reply::Usual }
        });
        let a2 = ScriptedServer::start(script).await.unwrap();
        let mut snapshot = Snapshot::empty(Instant::now());
        // Nobody listens at a1 and b1.
        for (name, port) in [("a1", 1), ("a2", a2.address().port()), ("b1", 1)] {
            let reach = Address::tcp("127.0.0.1", port);
            snapshot.servers.push(Server::unasked(ServerName::new(name), reach));
        }
        let who = Credentials::default();
        let unknown = left_behind(&snapshot, &who, Duration::from_secs(5)).await.unwrap_err().to_string();
        assert!(unknown.starts_with("a1: was not read, and may have one recorded"), "{unknown}");
        assert!(unknown.contains("Not read: a1: ") && unknown.contains("; b1: "), "{unknown}");
        snapshot.writer = WriterStatus::Known { server: ServerName::new("b1") };
        assert!(left_behind(&snapshot, &who, Duration::from_secs(5)).await.is_err());
        snapshot.writer = WriterStatus::Known { server: ServerName::new("a2") };
        assert_eq!(left_behind(&snapshot, &who, Duration::from_secs(5)).await.unwrap(), None);
    }

    #[tokio::test]
    async fn a_writer_that_may_lack_a_record_does_not_speak_for_those_that_were_not_read() {
        let server = async |has_it: bool| {
            let script = Script::new("10.11.6-MariaDB", move |statement, _| {
                if !statement.contains("FROM headroom.switchover") {
                    return Reply::Usual;
                }
                let row = [Some("4"), Some("done"), Some("{}")];
                match has_it {
                    true => Reply::rows(&["epoch", "state", "plan"], &[&row]),
                    false => Reply::error(1146, "no table"),
                }
            });
            ScriptedServer::start(script).await.unwrap()
        };
        let (has, lacks) = (server(true).await, server(false).await);
        let looked = async |a2: &ScriptedServer, b1: &ScriptedServer, source: Option<&str>| {
            let mut snapshot = Snapshot::empty(Instant::now());
            // Nobody listens at a1.
            for (name, port) in [("a1", 1), ("a2", a2.address().port()), ("b1", b1.address().port())] {
                let reach = Address::tcp("127.0.0.1", port);
                snapshot.servers.push(Server::unasked(ServerName::new(name), reach));
            }
            snapshot.servers[1].source = source.map(str::to_owned);
            snapshot.writer = WriterStatus::Known { server: ServerName::new("a2") };
            left_behind(&snapshot, &Credentials::default(), Duration::from_secs(5)).await
        };
        assert_eq!(looked(&has, &has, None).await.unwrap(), None);
        assert_eq!(looked(&has, &lacks, None).await.unwrap(), None, "b1 is late, or leaves it out");
        assert_eq!(looked(&lacks, &lacks, None).await.unwrap(), None, "nothing was ever moved");
        let promoted = looked(&lacks, &lacks, Some("a1")).await.unwrap_err().to_string();
        assert!(promoted.starts_with("a1: was not read, and may have one recorded"), "{promoted}");
        assert!(looked(&lacks, &has, None).await.is_err(), "it leaves out what b1 has");
    }

    #[tokio::test]
    async fn many_that_give_no_answer_are_waited_for_together() {
        let script = Script::new("10.11.6-MariaDB", |statement, _| match statement {
            READ_ONLY => Reply::value("read_only", "0").after(Duration::from_secs(60)),
            _ => Reply::Usual,
        });
        let silent = ScriptedServer::start(script).await.unwrap();
        let (open, closed) = (server("0").await, server("1").await);
        let mut plan = failover(FenceBy::Nothing);
        (plan.primary.reach, plan.candidate.reach) =
            (closed.address().to_string(), closed.address().to_string());
        let mut snapshot = Snapshot::empty(Instant::now());
        let mut add = |name: &str, server: &ScriptedServer| {
            let reach = Address::tcp("127.0.0.1", server.address().port());
            snapshot.servers.push(Server::unasked(ServerName::new(name), reach));
        };
        add("a1", &closed);
        for name in ["c1", "c2", "c3", "c4", "c5", "c6", "c7", "c8"] {
            add(name, &silent);
        }
        add("z1", &open);
        let began = Instant::now();
        let words = written_elsewhere(&plan, &logins(), &snapshot).await.unwrap();
        assert!(words.starts_with("z1 takes writes, and a1"), "{words}");
        assert!(began.elapsed() < WRITER_ANSWERS * 4, "{:?}", began.elapsed());
    }
}
