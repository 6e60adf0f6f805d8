//! Whether a candidate wrote anything that was told to take writes and refuses them now.
//!
//! The tool that told it was killed before it saw the answer. It may have been promoted, written to, and
//! restarted with `read_only` in its option file: then what it took is on no other server. Undoing a failover
//! would make it a replica of its dead primary again, and the next failover may choose another one. So it is
//! asked what it wrote itself since it was a replica.
//!
//! On MariaDB its own log and what it has replicated tell: what it writes gets a higher number than all that
//! it replicated of that domain. Where each server writes in a domain of its own, it replicated nothing of
//! its own one; and on MySQL numbers of several servers cannot be compared. So the others are asked whether
//! they have what it wrote as a primary before.

use super::servers::Servers;
use super::{Member, Plan};
use crate::Error;
use crate::failover::rejoin;
use fleet::{Flavour, GtidPosition};
use std::time::Duration;

/// Another server that does not answer by then is not compared with.
const LOOK: Duration = Duration::from_secs(1);

/// Passes where the promotion is not in doubt, and where the candidate wrote nothing.
///
/// # Errors
/// It wrote something, or nobody can tell.
pub(super) async fn wrote_nothing(plan: &Plan, servers: &mut Servers<'_>) -> Result<(), Error> {
    if !servers.promotion_in_doubt {
        return Ok(());
    }
    let logins = servers.logins;
    let resume = logins.flags.after(&format!("{} --resume", plan.kind.command()));
    let undo = logins.flags.after("headroom switchover --undo");
    let thaw = plan.candidate.dialect().thaw();
    let why = match written(plan, servers).await {
        Ok(None) => return Ok(()),
        Ok(Some(own)) => format!(
            "has {own}, which no other server has: it was promoted and written to. To keep that, there: {thaw}; then \
             {resume}. To lose it: {undo}"
        ),
        Err(error) => format!(
            "was told to take writes, and whether it took any is not known: {error}. Again: {resume}; to lose what it \
             may have: {undo}"
        ),
    };
    Err(Error::Refused { server: plan.candidate.server(), why })
}

/// What the candidate wrote since it was a replica, in words.
async fn written(plan: &Plan, servers: &mut Servers<'_>) -> Result<Option<String>, Error> {
    let candidate = &plan.candidate;
    let unreadable = |why: String| Error::Refused { server: candidate.server(), why };
    let history = servers.scalar(candidate, rejoin::history(candidate.dialect())).await?;
    let history = history.unwrap_or_default().replace(['\n', ' '], "");
    if candidate.dialect().is_mariadb() {
        let id = servers.scalar(candidate, "SELECT @@GLOBAL.server_id").await?.unwrap_or_default();
        let replicated = servers.scalar(candidate, "SELECT @@GLOBAL.gtid_slave_pos").await?;
        let id = id.parse().map_err(|_| unreadable(format!("'{id}' is no server_id")))?;
        let newer = newer(id, &history, &replicated.unwrap_or_default());
        let Some(own) = newer.map_err(|error| unreadable(error.to_string()))? else { return Ok(None) };
        let known = of_others(plan, servers).await.join(",");
        let lacking = rejoin::own_transactions(Flavour::MariaDb, &own, &known);
        return Ok(lacking.map_err(|error| unreadable(error.to_string()))?.map(|_| own));
    }
    let uuid = servers.scalar(candidate, "SELECT @@GLOBAL.server_uuid").await?.unwrap_or_default();
    let own = of_uuid(&uuid, &history);
    if own.is_empty() {
        return Ok(None);
    }
    let known = of_others(plan, servers).await;
    if known.is_empty() {
        return Err(unreadable("no other server answers that it could be compared with".to_owned()));
    }
    let lacking = rejoin::own_transactions(Flavour::MySql, &own, &known.join(","));
    Ok(lacking.map_err(|error| unreadable(error.to_string()))?.map(|own| own.to_string()))
}

/// What each other server has that answers soon.
async fn of_others(plan: &Plan, servers: &mut Servers<'_>) -> Vec<String> {
    let mut known = Vec::new();
    for member in std::iter::once(&plan.primary).chain(&plan.others) {
        known.extend(executed(member, servers).await);
    }
    known
}

/// What a server has; `None` where it does not answer soon.
async fn executed(member: &Member, servers: &mut Servers<'_>) -> Option<String> {
    let asked = servers.scalar(member, rejoin::history(member.dialect()));
    let answer = tokio::time::timeout(LOOK, asked).await.ok()?.ok()??;
    Some(answer.replace(['\n', ' '], ""))
}

/// The transactions of a MariaDB server's log that it wrote itself, and that have a higher number than all
/// that it replicated of their domain.
pub(crate) fn newer(id: u32, log: &str, replicated: &str) -> Result<Option<String>, fleet::GtidError> {
    let replicated: GtidPosition = replicated.parse()?;
    let mut newer = Vec::new();
    // The log names a domain several times: the last transaction of each server.
    for part in log.split(',') {
        for (domain, last) in part.parse::<GtidPosition>()?.domains() {
            let reached = replicated.domain(domain).map_or(0, |last| last.sequence);
            if last.server == id && last.sequence > reached {
                newer.push(format!("{domain}-{id}-{}", last.sequence));
            }
        }
    }
    Ok((!newer.is_empty()).then(|| newer.join(",")))
}

/// The part of a GTID set that a server wrote itself.
pub(crate) fn of_uuid(uuid: &str, executed: &str) -> String {
    let own = |part: &&str| {
        let source = part.split(':').next().unwrap_or_default();
        source.eq_ignore_ascii_case(uuid)
    };
    executed.split(',').filter(own).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perform::FenceBy;
    use crate::perform::tests::{failover, logins};
    use lab::scripted::{Reply, Script, ScriptedServer};

    /// Its number or uuid, what its log has, and what it replicated.
    async fn server(version: &'static str, [id, log, replicated]: [&'static str; 3]) -> ScriptedServer {
        let script = Script::new(version, move |statement, _| match statement {
            "SELECT @@GLOBAL.server_id" | "SELECT @@GLOBAL.server_uuid" => Reply::value("id", id),
            "SELECT @@GLOBAL.gtid_binlog_state" | "SELECT @@GLOBAL.gtid_executed" => Reply::value("log", log),
            "SELECT @@GLOBAL.gtid_slave_pos" => Reply::value("replicated", replicated),
            _ => Reply::Usual,
        });
        ScriptedServer::start(script).await.unwrap()
    }

    /// How a look at such a candidate ends, while its primary is dead and another replica has `other`.
    async fn look(
        version: &'static str,
        state: [&'static str; 3],
        other: Option<&'static str>,
        doubt: bool,
    ) -> Result<(), Error> {
        let candidate = server(version, state).await;
        let mut plan = failover(FenceBy::Nothing);
        // Nobody listens there.
        plan.primary.reach = "127.0.0.1:1".to_owned();
        plan.candidate.reach = candidate.address().to_string();
        plan.candidate.version = version.to_owned();
        plan.primary.version = version.to_owned();
        let mut another = None;
        if let Some(log) = other {
            let server = server(version, ["", log, ""]).await;
            let (name, reach) = ("a3".to_owned(), server.address().to_string());
            plan.others.push(Member { name, reach, ..plan.candidate.clone() });
            another = Some(server);
        }
        let logins = logins();
        let mut servers = Servers::new(&plan, &logins);
        servers.promotion_in_doubt = doubt;
        let looked = wrote_nothing(&plan, &mut servers).await;
        drop(another);
        looked
    }

    #[tokio::test]
    async fn a_candidate_that_was_written_to_and_refuses_writes_now_is_found() {
        let (mariadb, mysql) = ("10.11.6-MariaDB", "8.4.2");
        let own = "3e11fa47-71ca-11e1-9e33-c80aa9429562";
        let old = "4f11fa47-71ca-11e1-9e33-c80aa9429562";
        let set = |text: String| -> &'static str { Box::leak(text.into_boxed_str()) };
        let (mine, all) = (set(format!("{own}:1-7")), set(format!("{old}:1-90,\n{own}:1-9")));
        // It was a primary before, and everybody has what it wrote then.
        look(mariadb, ["12", "0-12-70,0-11-104", "0-11-104"], None, true).await.unwrap();
        look(mysql, [own, all, ""], Some(all), true).await.unwrap();
        // The same, where each server writes in a domain of its own.
        let [log, replicated] = ["1-11-104,2-12-70", "1-11-104"];
        look(mariadb, ["12", log, replicated], Some(log), true).await.unwrap();
        let lacks = look(mariadb, ["12", log, replicated], Some("1-11-104,2-12-69"), true).await.unwrap_err();
        assert!(lacks.to_string().contains("has 2-12-70, which no other server has"), "{lacks}");
        // It never wrote: nobody has to be asked.
        look(mysql, [old, mine, ""], None, true).await.unwrap();
        for (version, state, other) in
            [(mariadb, ["12", "0-12-105,0-11-104", "0-11-104"], None), (mysql, [own, all, ""], Some(mine))]
        {
            let found = look(version, state, other, true).await.unwrap_err().to_string();
            assert!(found.contains("it was promoted and written to"), "{found}");
            assert!(found.ends_with("headroom switchover --undo"), "{found}");
            // Nobody told it to take writes, or somebody gave that up.
            look(version, state, other, false).await.unwrap();
        }
        let unknown = look(mysql, [own, all, ""], None, true).await.unwrap_err().to_string();
        assert!(unknown.contains("is not known") && unknown.contains("no other server answers"), "{unknown}");
    }
}
