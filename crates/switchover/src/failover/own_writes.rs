//! Whether a replica was promoted and written to, where the journal of that failover is lost.
//!
//! A failover stops both threads of its candidate and then lets it take writes. A candidate that took some,
//! and was restarted with `read_only` in its option file, looks like one that nobody promoted: nobody takes
//! writes, and no replica looks for the primary. Started again it would be a replica of its dead primary, the
//! next failover may choose another one, and what it acknowledged is on no other server. So it is asked what
//! it wrote itself, as [`crate::perform::doubt`] asks the candidate of a plan.
//!
//! One that starts its threads by itself (no `skip_slave_start`) looks for its dead primary again, as any
//! replica does. On MariaDB what it wrote does not count when replicas are compared by what they received, so
//! another one could be chosen: [`none_is_lost`]. On MySQL it counts.

use super::confirm::View;
use super::scene::{self, Scene};
use super::{receiver, rejoin};
use crate::connection::{BRIEFLY, Connection};
use crate::facts::Facts;
use crate::perform::doubt;
use crate::{Error, Flags};
use config::Credentials;
use fleet::{Flavour, GtidError, GtidPosition, ServerName};
use std::time::Duration;
use tokio::task::JoinSet;

/// Passes where none of `stopped` that may have been promoted wrote something which no other server has.
/// `answering` are all servers that answer; those of `stopped` may be among them.
///
/// # Errors
/// One did, or nobody can tell.
pub(super) async fn nobody_was_promoted(
    stopped: &[Facts],
    answering: &[&Facts],
    who: &Credentials,
    deadline: Duration,
    flags: &Flags,
) -> Result<(), Error> {
    for facts in stopped.iter().filter(|facts| receiver::both_stand(facts)) {
        let refused = |why: String| Error::Refused { server: facts.server.clone(), why };
        let Some(Own { transactions: own, .. }) = own(facts, who, deadline).await? else { continue };
        let known = of_others(facts, answering, who, deadline).await;
        let flavour = facts.version.flavour;
        // What it wrote when it was the primary before counts too, until somebody is found to have it.
        if flavour == Flavour::MySql && known.is_empty() {
            let way_out = way_out(facts, stopped, answering, flags);
            return Err(refused(format!(
                "may have been promoted and written to by a failover that was cut off: no other server answers that \
                 {own} could be compared with. {way_out}"
            )));
        }
        let lacking = rejoin::own_transactions(flavour, &own, &known.join(","));
        let Some(lacking) = lacking.map_err(|error| refused(error.to_string()))? else { continue };
        let lacking = if flavour == Flavour::MySql { lacking.to_string() } else { own };
        let way_out = way_out(facts, stopped, answering, flags);
        return Err(refused(format!(
            "has {lacking}, which no other server has: a failover that was cut off promoted it, it was written to, and \
             refuses writes now. {way_out}"
        )));
    }
    Ok(())
}

/// Passes where no other replica than `candidate` wrote something which no other server has.
///
/// A replica may write a little for itself (an ANALYZE TABLE of an administrator), and nobody can tell that
/// from what clients wrote. In a domain that it replicates others overtake that soon. In one of its own it
/// stays for ever, so there it counts only while another receiver stands, as a failover that was cut off
/// leaves it.
///
/// # Errors
/// [`Error::Refused`] where one did, with what a person can do; a server does not answer.
pub async fn none_is_lost(
    scene: &Scene,
    candidate: &ServerName,
    who: &Credentials,
    deadline: Duration,
    flags: &Flags,
) -> Result<(), Error> {
    let answering: Vec<&Facts> = scene.replicas.iter().chain(&scene.others).collect();
    let mut asked = JoinSet::new();
    for facts in scene.replicas.iter().filter(|facts| facts.server != *candidate) {
        if !facts.dialect().is_mariadb() {
            continue;
        }
        let (facts, who) = (facts.clone(), who.clone());
        asked.spawn(async move {
            let own = own(&facts, &who, deadline).await;
            (facts, own)
        });
    }
    while let Some(Ok((facts, own))) = asked.join_next().await {
        let server = &facts.server;
        let refused = |why: String| Error::Refused { server: server.clone(), why };
        let stands = |other: &Facts| other.server != *server && scene::view(&other.channels) == View::Stopped;
        let Some(own) = own? else { continue };
        let own = match scene.replicas.iter().any(stands) {
            true => Some(own.transactions),
            false => own.where_it_replicates().map_err(|error| refused(error.to_string()))?,
        };
        let Some(own) = own else { continue };
        let known = of_others(&facts, &answering, who, deadline).await;
        let lacking = rejoin::own_transactions(facts.version.flavour, &own, &known.join(","));
        if lacking.map_err(|error| refused(error.to_string()))?.is_some() {
            let keep = flags.after(&format!("headroom failover {server}"));
            let lose = flags.after("headroom failover --accept-loss");
            return Err(refused(format!(
                "has {own}, which no other server has: a failover that was cut off may have promoted it, and {candidate} \
                 would take over without that. To keep it: {keep}; to lose it: {lose}"
            )));
        }
    }
    Ok(())
}

/// What a person types to keep what it wrote, or to lose it.
fn way_out(facts: &Facts, stopped: &[Facts], answering: &[&Facts], flags: &Flags) -> String {
    let each = |other: &Facts| {
        let mut statements = receiver::look_again(other, stopped);
        if statements.is_empty() && other.server == facts.server {
            statements.push(other.dialect().start_replication().to_owned());
        }
        (!statements.is_empty()).then(|| format!("on {}: {}", other.server, statements.join("; ")))
    };
    let lose = stopped.iter().filter_map(each).collect::<Vec<_>>().join("; ");
    let keep = match answering.iter().find(|other| !other.refuses_writes()) {
        // Opened beside that it would be a second writer.
        Some(writer) => format!("To keep that, bring it to {} first, which takes writes", writer.server),
        None => {
            let resume = flags.after("headroom failover --resume --from-servers");
            format!("To keep that, on {}: {}; then {resume}", facts.server, facts.dialect().thaw())
        }
    };
    format!("{keep}. To lose it, {lose}")
}

/// What a server wrote itself.
struct Own {
    transactions: String,
    /// On MariaDB: up to where it replicated, in each domain.
    replicated: String,
}

impl Own {
    /// What it wrote in domains that it replicates too, of MariaDB.
    fn where_it_replicates(&self) -> Result<Option<String>, GtidError> {
        let replicated: GtidPosition = self.replicated.parse()?;
        let domain = |gtid: &str| gtid.split('-').next().and_then(|domain| domain.parse::<u32>().ok());
        let replicates = |gtid: &&str| domain(gtid).is_some_and(|domain| replicated.domain(domain).is_some());
        let there = self.transactions.split(',').filter(replicates).collect::<Vec<_>>().join(",");
        Ok((!there.is_empty()).then_some(there))
    }
}

/// What it may have written since it was a replica: on MariaDB what has a higher number than all that it
/// replicated of that domain. `None` where there is nothing.
async fn own(facts: &Facts, who: &Credentials, deadline: Duration) -> Result<Option<Own>, Error> {
    let refused = |why: String| Error::Refused { server: facts.server.clone(), why };
    let dialect = facts.dialect();
    let log = history(facts, who, deadline).await?;
    let ask = match dialect.is_mariadb() {
        true => "SELECT @@GLOBAL.gtid_slave_pos",
        false => "SELECT @@GLOBAL.server_uuid",
    };
    let mut conn = Connection::open(&facts.server, &facts.reach, who, deadline, BRIEFLY).await?;
    let answer = conn.scalar(ask, deadline).await?.unwrap_or_default();
    conn.close().await;
    let transactions = match dialect.is_mariadb() {
        true => doubt::newer(facts.server_id, &log, &answer).map_err(|error| refused(error.to_string()))?,
        false => Some(doubt::of_uuid(&answer, &log)).filter(|own| !own.is_empty()),
    };
    Ok(transactions.map(|transactions| Own { transactions, replicated: answer }))
}

/// The logs of all others that answer still.
async fn of_others(
    facts: &Facts,
    answering: &[&Facts],
    who: &Credentials,
    deadline: Duration,
) -> Vec<String> {
    let mut known = Vec::new();
    for other in answering.iter().filter(|other| other.server != facts.server) {
        known.extend(history(other, who, deadline).await.ok());
    }
    known
}

/// Everything that a server has in its log.
async fn history(facts: &Facts, who: &Credentials, deadline: Duration) -> Result<String, Error> {
    let mut conn = Connection::open(&facts.server, &facts.reach, who, deadline, BRIEFLY).await?;
    let log = conn.scalar(rejoin::history(facts.dialect()), deadline).await?.unwrap_or_default();
    conn.close().await;
    Ok(log.replace(['\n', ' '], ""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::Channel;
    use crate::facts::tests::{channel, facts};
    use crate::failover::scene::tests::scene;
    use fleet::Address;
    use lab::scripted::{Reply, Script, ScriptedServer};

    const MARIADB: &str = "10.11.6-MariaDB";
    const MYSQL: &str = "8.4.2";

    /// A server whose receiver is stopped: its log, and what it replicated or its uuid.
    async fn stopped(
        name: &str,
        version: &'static str,
        [log, second]: [&'static str; 2],
        applier_runs: bool,
    ) -> (Facts, ScriptedServer) {
        let script = Script::new(version, move |statement, _| match statement {
            "SELECT @@GLOBAL.gtid_binlog_state" | "SELECT @@GLOBAL.gtid_executed" => Reply::value("log", log),
            "SELECT @@GLOBAL.gtid_slave_pos" | "SELECT @@GLOBAL.server_uuid" => Reply::value("it", second),
            _ => Reply::Usual,
        });
        let server = ScriptedServer::start(script).await.unwrap();
        let channel = Channel { receiver_runs: false, applier_runs, ..channel("a1", 3306, 11) };
        let facts = Facts {
            reach: Address::tcp("127.0.0.1", server.address().port()),
            server_id: 12,
            channels: vec![channel],
            variables: [("read_only".to_owned(), "ON".to_owned())].into(),
            ..facts(name, version)
        };
        (facts, server)
    }

    /// How a look at a2 ends, whose threads stand, beside b1, whose applying thread runs.
    async fn look(
        version: &'static str,
        a2: [&'static str; 2],
        b1: Option<[&'static str; 2]>,
        a2_applies: bool,
    ) -> Result<(), Error> {
        let (a2, _a2) = stopped("a2", version, a2, a2_applies).await;
        let (mut all, mut open) = (vec![a2], Vec::new());
        if let Some(b1) = b1 {
            let (b1, server) = stopped("b1", version, b1, true).await;
            all.push(b1);
            open.push(server);
        }
        let answering: Vec<&Facts> = all.iter().collect();
        let (who, limit, flags) =
            (Credentials::default(), Duration::from_secs(5), Flags::new("--config f.toml"));
        let looked = nobody_was_promoted(&all, &answering, &who, limit, &flags).await;
        drop(open);
        looked
    }

    #[tokio::test]
    async fn a_candidate_that_took_writes_and_refuses_them_now_is_made_no_replica() {
        let others = Some(["0-11-104", "0-11-104"]);
        let wrote = ["0-12-105,0-11-104", "0-11-104"];
        let found = look(MARIADB, wrote, others, false).await.unwrap_err().to_string();
        assert!(found.starts_with("a2: has 0-12-105, which no other server has"), "{found}");
        let keep = "on a2: SET GLOBAL read_only = OFF; then headroom failover --resume --from-servers --config f.toml";
        assert!(found.contains(keep), "{found}");
        assert!(found.ends_with("on a2: START SLAVE; on b1: START SLAVE IO_THREAD"), "{found}");
        assert!(look(MARIADB, wrote, None, false).await.is_err(), "nobody is there who could have it");
        // It wrote nothing since it was a replica; somebody has what it wrote; its applying thread runs.
        look(MARIADB, ["0-12-70,0-11-104", "0-11-104"], others, false).await.unwrap();
        look(MARIADB, wrote, Some(["0-11-104,0-12-105", "0-12-105"]), false).await.unwrap();
        look(MARIADB, wrote, others, true).await.unwrap();
    }

    #[tokio::test]
    async fn a_candidate_that_looks_for_the_dead_one_again_loses_nothing_to_another() {
        let look = async |log: [&'static str; 2], b1_looks: bool, candidate: &str| {
            let (mut a2, _a2) = stopped("a2", MARIADB, log, true).await;
            let (mut b1, _b1) = stopped("b1", MARIADB, ["0-11-104", "0-11-104"], true).await;
            a2.channels[0].receiver_tries = true;
            b1.channels[0].receiver_tries = b1_looks;
            b1.server_id = 13;
            let scene = scene(vec![a2, b1]);
            let (who, limit, flags) =
                (Credentials::default(), Duration::from_secs(5), Flags::new("--config f.toml"));
            none_is_lost(&scene, &ServerName::new(candidate), &who, limit, &flags).await
        };
        let wrote = ["0-12-105,0-11-104", "0-11-104"];
        let found = look(wrote, true, "b1").await.unwrap_err().to_string();
        assert!(found.starts_with("a2: has 0-12-105, which no other server has"), "{found}");
        assert!(found.contains("To keep it: headroom failover a2 --config f.toml;"), "{found}");
        assert!(found.ends_with("to lose it: headroom failover --accept-loss --config f.toml"), "{found}");
        look(wrote, true, "a2").await.unwrap();
        look(["0-12-70,0-11-104", "0-11-104"], true, "b1").await.unwrap();
        // In a domain of its own it may have written that at any time.
        let apart = ["0-11-104,2-12-7", "0-11-104"];
        look(apart, true, "b1").await.unwrap();
        assert!(look(apart, false, "b1").await.is_err(), "a failover has stopped the other one's receiver");
    }

    #[tokio::test]
    async fn on_mysql_what_it_wrote_is_looked_for_on_the_others() {
        const OWN: &str = "3e11fa47-71ca-11e1-9e33-c80aa9429562";
        const LOG: &str =
            "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-9,\n4f11fa47-71ca-11e1-9e33-c80aa9429562:1-90";
        const LESS: &str =
            "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-7,\n4f11fa47-71ca-11e1-9e33-c80aa9429562:1-90";
        let found = look(MYSQL, [LOG, OWN], Some([LESS, ""]), false).await.unwrap_err().to_string();
        assert!(found.contains(&format!("has {OWN}:8-9")), "{found}");
        look(MYSQL, [LOG, OWN], Some([LOG, ""]), false).await.unwrap();
        let unknown = look(MYSQL, [LOG, OWN], None, false).await.unwrap_err().to_string();
        assert!(unknown.contains("no other server answers"), "{unknown}");
        let never = "4f11fa47-71ca-11e1-9e33-c80aa9429563";
        look(MYSQL, [LOG, never], None, false).await.unwrap();
    }

    #[tokio::test]
    async fn beside_a_server_that_takes_writes_nobody_is_told_to_open_another() {
        let (a2, _a2) = stopped("a2", MARIADB, ["0-12-105,0-11-104", "0-11-104"], false).await;
        let (a1, _a1) = stopped("a1", MARIADB, ["0-11-106", ""], false).await;
        let a1 = Facts { channels: Vec::new(), variables: Default::default(), ..a1 };
        let stopped = [a2];
        let answering = [&stopped[0], &a1];
        let (who, limit) = (Credentials::default(), Duration::from_secs(5));
        let found = nobody_was_promoted(&stopped, &answering, &who, limit, &Flags::default()).await;
        let found = found.unwrap_err().to_string();
        assert!(found.contains("bring it to a1 first") && !found.contains("read_only = OFF"), "{found}");
    }
}
