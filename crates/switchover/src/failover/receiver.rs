//! Replicas whose receivers were stopped look for their source again.

use super::choose::Received;
use crate::Error;
use crate::connection::{BRIEFLY, Connection};
use crate::dialect::Dialect;
use crate::facts::{self, Channel, Facts};
use crate::semi_sync::{Switch, Switches};
use config::Credentials;
use fleet::announcement::OPERATION;
use observe::AskError;
use std::time::{Duration, Instant};

/// How long the lock of a tool that has ended may be seen, and how often it is looked at.
const GIVES_BACK: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(50);

/// Runs what [`look_again`] says, unless somebody holds the lock of an operation.
pub(super) async fn start(stopped: &[Facts], who: &Credentials, deadline: Duration) -> Result<(), Error> {
    for facts in stopped {
        let mut conn = Connection::open(&facts.server, &facts.reach, who, deadline, BRIEFLY).await?;
        nobody_is_at_work(&mut conn, deadline).await?;
        // Now that nobody is at work there: the last statement of a tool that was killed may have ended since
        // it was looked at.
        let dialect = facts.dialect();
        let channels = facts::channels(&mut conn, dialect, deadline).await?;
        let applied = conn.scalar(dialect.applied(), deadline).await?.unwrap_or_default().replace('\n', "");
        let mut facts = Facts { channels, ..facts.clone() };
        if dialect.is_mariadb() {
            facts.variables.insert("gtid_slave_pos".to_owned(), applied);
        } else {
            facts.position = applied;
        }
        let statements = look_again(&facts, stopped);
        if !statements.is_empty()
            && let Some(why) = would_throw_away(&facts)
        {
            return Err(Error::LosesRelayLogs { server: facts.server.clone(), why });
        }
        for statement in &statements {
            conn.run(statement, deadline).await?;
        }
        conn.close().await;
    }
    Ok(())
}

/// Passes unless somebody holds the lock of an operation there, and keeps it: a server gives that of a tool
/// which has just ended back in a moment.
pub(super) async fn nobody_is_at_work(conn: &mut Connection, deadline: Duration) -> Result<(), Error> {
    let (ask, until) = (format!("SELECT IS_USED_LOCK('{OPERATION}')"), Instant::now() + GIVES_BACK);
    while let Some(session) = conn.scalar(&ask, deadline).await? {
        if Instant::now() >= until {
            let why = format!(
                "a failover or switchover is going on (session {session} holds {OPERATION}). Wait for it; if its program is \
                 dead or its host was lost, there: KILL {session}; then again"
            );
            return Err(Error::Refused { server: conn.server.clone(), why });
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}

/// Ends the sessions that hold the lock of an operation, for a program whose host was lost: servers notice
/// that after minutes. What was ended, in words.
pub(super) async fn end_holders(
    stopped: &[Facts],
    who: &Credentials,
    deadline: Duration,
) -> Result<Vec<String>, Error> {
    let ask = format!("SELECT IS_USED_LOCK('{OPERATION}')");
    let mut ended = Vec::new();
    for facts in stopped {
        let mut conn = Connection::open(&facts.server, &facts.reach, who, deadline, BRIEFLY).await?;
        let holder = conn.scalar(&ask, deadline).await?.and_then(|session| session.parse::<u32>().ok());
        if let Some(session) = holder {
            // It may have ended by itself (error 1094).
            match conn.run(&format!("KILL {session}"), deadline).await {
                Ok(()) | Err(Error::Server { source: AskError::Answered { code: 1094, .. }, .. }) => {}
                Err(error) => return Err(error),
            }
            ended.push(format!("session {session} on {}, which held {OPERATION}", facts.server));
        }
        conn.close().await;
    }
    Ok(ended)
}

fn would_throw_away(facts: &Facts) -> Option<String> {
    start_throws_away(facts.dialect(), facts.channels.first()?, facts.applied())
}

/// Where both threads of a replica stand, MariaDB throws its relay logs away when either starts, and gets
/// everything from the source again: which may be dead. `applied` is what it has applied as a replica.
pub(crate) fn start_throws_away(dialect: Dialect, channel: &Channel, applied: &str) -> Option<String> {
    let stands = !channel.receiver_runs && !channel.receiver_tries && !channel.applier_runs;
    if !dialect.is_mariadb() || !stands {
        return None;
    }
    let read = |received: &str| Received::new(dialect.0.flavour, received, applied).ok();
    let (received, applied) = (read(&channel.received)?, read("")?);
    (!applied.covers(&received)).then(|| {
        format!(
            "has received {received} and applied only {applied}, and both of its threads stand: MariaDB throws its relay \
             logs away when one of them starts. Save these first (mariadb-binlog reads them); START SLAVE there, then again, \
             does without them"
        )
    })
}

/// What lets a replica look for its source again, beside the others of `stopped`. One whose applying thread
/// was stopped as well, and not by an error, was to be promoted, and both start; or somebody stopped it, and
/// it stays as it stands: nothing.
pub(super) fn look_again(facts: &Facts, stopped: &[Facts]) -> Vec<String> {
    if !both_stand(facts) {
        return vec![facts.dialect().start_receiving().to_owned()];
    }
    if !may_be_the_candidate(facts, stopped) {
        return Vec::new();
    }
    let switch = left_on(facts, stopped).map(|source| source.set(false));
    switch.into_iter().chain([facts.dialect().start_replication().to_owned()]).collect()
}

/// The switch of a semi-sync source that a failover has set at its candidate, once that had stopped: of no
/// other replica it is on. With it a replica waits for acknowledgements of what it applies, and stands.
fn left_on(facts: &Facts, stopped: &[Facts]) -> Option<Switch> {
    let on = |facts: &Facts| Switches::of(facts).source.filter(|switch| switch.on);
    let mut others = stopped.iter().filter(|other| other.server != facts.server).peekable();
    let alone = others.peek().is_some() && others.all(|other| on(other).is_none());
    on(facts).filter(|_| alone)
}

/// The statements that let replicas look again, each with its server, and who stays stopped.
pub(super) fn in_words(stopped: &[Facts]) -> String {
    let (mut starts, mut stay) = (Vec::new(), Vec::new());
    for facts in stopped {
        let statements = look_again(facts, stopped);
        if statements.is_empty() {
            stay.push(format!("on {}: {}", facts.server, facts.dialect().start_replication()));
        } else {
            starts.push(format!("on {}: {}", facts.server, statements.join("; ")));
        }
    }
    let mut words = if starts.is_empty() { "nothing that is known".to_owned() } else { starts.join("; ") };
    if !stay.is_empty() {
        words.push_str(&format!(
            ". Replicas whose threads both stand, and that no failover would have chosen, somebody has stopped: they stay so. \
             If that was not on purpose, {}",
            stay.join("; ")
        ));
    }
    words
}

/// Whether its applying thread was stopped as well, and not by an error. A failover does that to its
/// candidate alone.
pub(super) fn both_stand(facts: &Facts) -> bool {
    let stopped = |channel: &Channel| !channel.applier_runs && channel.applier_error.is_empty();
    facts.channels.first().is_some_and(stopped)
}

/// Whether a failover may have stopped it to promote it: it has received all that another of `stopped` has,
/// and applied it. Of several that have, nobody can tell. What MariaDB has not applied, [`would_throw_away`]
/// says.
fn may_be_the_candidate(facts: &Facts, stopped: &[Facts]) -> bool {
    let received = |facts: &Facts| {
        let received = facts.channels.first().map_or("", |channel| channel.received.as_str());
        Received::new(facts.version.flavour, received, facts.applied()).ok()
    };
    let Some(ours) = received(facts) else { return false };
    let has_all = stopped.iter().all(|other| received(other).is_some_and(|theirs| ours.covers(&theirs)));
    let applied = Received::new(facts.version.flavour, "", facts.applied());
    let has_applied = facts.dialect().is_mariadb() || applied.is_ok_and(|applied| applied.covers(&ours));
    let withholds = facts.channels.first().is_some_and(|channel| channel.withholds().is_some());
    has_all && has_applied && !withholds && facts.reserved.is_none()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::tests::{channel, facts};
    use fleet::Address;
    use lab::scripted::{Reply, Script, ScriptedServer};
    use std::sync::{Arc, Mutex};

    #[tokio::test]
    async fn the_lock_of_a_lost_host_is_named_with_a_way_out_and_its_session_is_ended() {
        let told = Arc::new(Mutex::new(Vec::<String>::new()));
        let heard = told.clone();
        let script = Script::new("10.11.6-MariaDB", move |statement, _| {
            heard.lock().unwrap().push(statement.to_owned());
            match statement {
                "KILL 7" => Reply::error(1094, "Unknown thread id: 7"),
                _ if statement.contains("IS_USED_LOCK('headroom.switchover')") => Reply::value("holder", "7"),
                _ => Reply::Usual,
            }
        });
        let server = ScriptedServer::start(script).await.unwrap();
        let reach = Address::tcp("127.0.0.1", server.address().port());
        let stopped = [Facts { reach, ..facts("a2", "10.11.6-MariaDB") }];
        let (who, limit) = (Credentials::default(), Duration::from_secs(5));
        let held = start(&stopped, &who, limit).await.unwrap_err().to_string();
        assert!(held.contains("session 7 holds headroom.switchover"), "{held}");
        assert!(held.ends_with("there: KILL 7; then again"), "{held}");
        assert!(!told.lock().unwrap().iter().any(|statement| statement == "KILL 7"));
        let ended = end_holders(&stopped, &who, limit).await.unwrap();
        assert_eq!(ended, ["session 7 on a2, which held headroom.switchover"]);
        assert!(told.lock().unwrap().iter().any(|statement| statement == "KILL 7"));
    }

    #[test]
    fn a_replica_that_somebody_stopped_stays_so_beside_the_one_that_was_to_be_promoted() {
        let replica =
            |name: &str, version: &str, [received, position]: [&str; 2], applier_runs: bool| Facts {
                channels: vec![Channel {
                    receiver_runs: false,
                    applier_runs,
                    received: received.to_owned(),
                    ..channel("a1", 3306, 11)
                }],
                position: position.to_owned(),
                ..facts(name, version)
            };
        let mariadb = |name: &str, at: &str, runs: bool| replica(name, "10.11.6-MariaDB", [at, at], runs);
        let mut all = [
            mariadb("a2", "0-11-50", false),
            mariadb("b1", "0-11-50", true),
            mariadb("b2", "0-11-40", false),
        ];
        let each = |facts: &Facts, all: &[Facts]| look_again(facts, all).join("; ");
        let starts = |all: &[Facts]| all.iter().map(|facts| each(facts, all)).collect::<Vec<_>>();
        assert_eq!(starts(&all), ["START SLAVE", "START SLAVE IO_THREAD", ""]);
        let words = in_words(&all);
        assert!(words.starts_with("on a2: START SLAVE; on b1: START SLAVE IO_THREAD. "), "{words}");
        assert!(words.ends_with("they stay so. If that was not on purpose, on b2: START SLAVE"), "{words}");
        // As far, and late on purpose: no failover would have chosen it.
        all[2] = mariadb("b2", "0-11-50", false);
        assert_eq!(starts(&all)[2], "START SLAVE", "nobody can tell");
        all[2].channels[0].delay_s = 3_600;
        assert_eq!(starts(&all)[2], "");
        let (all, less) =
            ("3e11fa47-71ca-11e1-9e33-c80aa9429562:1-50", "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-48");
        let mysql = [replica("a2", "8.4.2", [all, less], false), replica("b1", "8.4.2", ["", all], false)];
        assert_eq!(starts(&mysql), ["", "START REPLICA"], "a candidate has applied what it received");
    }

    #[test]
    fn a_candidate_that_becomes_a_replica_again_waits_for_no_acknowledgements() {
        let replica = |name: &str, applier_runs: bool, switch: &str| Facts {
            channels: vec![Channel { receiver_runs: false, applier_runs, ..channel("a1", 3306, 11) }],
            variables: [("rpl_semi_sync_master_enabled".to_owned(), switch.to_owned())].into(),
            ..facts(name, "10.11.6-MariaDB")
        };
        let of_a2 = |all: &[Facts]| look_again(&all[0], all).join("; ");
        let off = "SET GLOBAL rpl_semi_sync_master_enabled = OFF; START SLAVE";
        assert_eq!(of_a2(&[replica("a2", false, "ON"), replica("b1", true, "OFF")]), off);
        assert_eq!(of_a2(&[replica("a2", false, "OFF"), replica("b1", true, "OFF")]), "START SLAVE");
        // Their people have switched it on everywhere.
        assert_eq!(of_a2(&[replica("a2", false, "ON"), replica("b1", true, "ON")]), "START SLAVE");
        // Nobody else could have acknowledged: no failover has set it.
        assert_eq!(of_a2(&[replica("a2", false, "ON")]), "START SLAVE");
        let all = [replica("a2", true, "ON"), replica("b1", true, "OFF")];
        assert_eq!(of_a2(&all), "START SLAVE IO_THREAD", "it was not to be promoted");
    }

    #[test]
    fn relay_logs_that_a_start_would_throw_away_are_kept() {
        let stands = |received: &str, position: &str| Facts {
            channels: vec![Channel {
                receiver_runs: false,
                applier_runs: false,
                received: received.to_owned(),
                ..channel("a1", 3306, 11)
            }],
            variables: [("log_slave_updates".to_owned(), "ON".to_owned())].into(),
            position: position.to_owned(),
            ..facts("a2", "10.11.6-MariaDB")
        };
        let why = would_throw_away(&stands("0-11-50", "0-11-40")).unwrap();
        assert!(why.contains("0-11-50") && why.contains("0-11-40"), "{why}");
        assert_eq!(would_throw_away(&stands("0-11-50", "0-11-50")), None);
        let mut runs = stands("0-11-50", "0-11-40");
        runs.channels[0].applier_runs = true;
        assert_eq!(would_throw_away(&runs), None);
        // Its log has a write of its own, or nothing: what it replicated tells what it has applied.
        for position in ["0-12-51", ""] {
            let mut own = stands("0-11-50", position);
            own.variables.insert("gtid_slave_pos".to_owned(), "0-11-40".to_owned());
            own.variables.insert("log_slave_updates".to_owned(), "OFF".to_owned());
            assert!(would_throw_away(&own).is_some(), "{position}");
        }
    }
}
