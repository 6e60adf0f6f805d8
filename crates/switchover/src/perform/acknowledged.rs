//! Whether those are connected to the new primary that must acknowledge what it commits (semi-sync).

use super::servers::Servers;
use super::{Kind, Member, Plan};
use crate::semi_sync::Switch;
use std::time::{Duration, Instant};

/// Replicas that were told to follow are waited for this long.
const CONNECTS: Duration = Duration::from_secs(1);
const POLL: Duration = Duration::from_millis(50);
/// A write that nobody acknowledges is waited for this long.
const HOPELESS: Duration = Duration::from_secs(1);

/// How many must acknowledge. MariaDB has no such variable: one is enough there.
pub(super) async fn needed(candidate: &Member, servers: &mut Servers<'_>) -> u64 {
    const NEEDED: &str = "SHOW GLOBAL VARIABLES LIKE 'rpl\\_semi\\_sync\\_%\\_wait\\_for\\_%\\_count'";
    number(candidate, NEEDED, servers).await.unwrap_or(1)
}

/// How many that acknowledge are connected, not only told to connect; `None` where it does not say.
pub(super) async fn connected(candidate: &Member, servers: &mut Servers<'_>) -> Option<u64> {
    const CONNECTED: &str = "SHOW GLOBAL STATUS LIKE 'Rpl\\_semi\\_sync\\_%\\_clients'";
    number(candidate, CONNECTED, servers).await
}

/// How many may still acknowledge the first write: those that do so, but for the `lost` ones, which could not
/// be told whom to follow.
pub(super) fn may_come(plan: &Plan, lost: &[String]) -> u64 {
    let is_lost = |member: &Member| lost.contains(&member.name);
    let acknowledges = |member: &&Member| member.semi_sync_replica && member.receives() && !is_lost(member);
    let others = plan.others.iter().filter(acknowledges).count() as u64;
    let primary = plan.kind == Kind::Switchover && plan.primary.semi_sync.replica.is_some();
    others + u64::from(primary && !is_lost(&plan.primary))
}

/// How long the first write is waited for where too few are left to acknowledge it: clients wait meanwhile,
/// and it is written all the same. Where the new primary goes on without them in time, until then.
pub(super) async fn patience(candidate: &Member, servers: &mut Servers<'_>) -> Duration {
    let usual = servers.deadline();
    let Some(source) = candidate.semi_sync.source else { return usual };
    let ask = format!("SELECT @@GLOBAL.{}", source.name.variable().replace("_enabled", "_timeout"));
    let said = servers.scalar(candidate, &ask).await.ok().flatten();
    let falls_back = said.and_then(|ms| ms.parse().ok()).map(Duration::from_millis);
    if falls_back.is_some_and(|after| after >= usual) { HOPELESS.min(usual) } else { usual }
}

/// What is said where too few are connected to the new primary, though it waits for them: clients wait with
/// each commit.
pub(super) async fn too_few(plan: &Plan, servers: &mut Servers<'_>) -> Option<String> {
    let candidate = &plan.candidate;
    let source = candidate.semi_sync.source.filter(|_| plan.semi_sync)?;
    let ask = format!("SELECT @@GLOBAL.{}", source.name.variable());
    if servers.scalar(candidate, &ask).await.ok()?.as_deref() != Some("1") {
        return None;
    }
    let (needed, until) = (needed(candidate, servers).await, Instant::now() + CONNECTS);
    loop {
        let connected = connected(candidate, servers).await?;
        if connected >= needed {
            return None;
        }
        if Instant::now() >= until {
            return Some(words(&candidate.name, source, needed, connected));
        }
        tokio::time::sleep(POLL).await;
    }
}

fn words(candidate: &str, source: Switch, needed: u64, connected: u64) -> String {
    let variable = source.name.variable();
    format!(
        "{candidate} waits for {needed} acknowledgements of each commit ({variable} = ON), and {connected} \
         replicas that give one are connected: until enough follow, there: {}",
        source.set(false)
    )
}

/// The value of the first line that a SHOW answers with; `None` when there is none.
async fn number(member: &Member, show: &str, servers: &mut Servers<'_>) -> Option<u64> {
    let deadline = servers.deadline();
    let rows = servers.of(member).await.ok()?.ask(show, deadline).await.ok()?;
    rows.first()?.get("value")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perform::tests::{failover, logins};
    use crate::perform::{FenceBy, Kind};
    use crate::semi_sync::Name;
    use lab::scripted::{Reply, Script, ScriptedServer};

    /// What is said of a candidate whose switch and number of connected replicas are these.
    async fn said(semi_sync: bool, switch: &'static str, clients: &'static str) -> Option<String> {
        let script = Script::new("10.11.6-MariaDB", move |statement, _| match statement {
            "SELECT @@GLOBAL.rpl_semi_sync_master_enabled" => Reply::value("switch", switch),
            _ if statement.starts_with("SHOW GLOBAL STATUS LIKE") => Reply::value("Value", clients),
            _ if statement.starts_with("SHOW GLOBAL VARIABLES LIKE") => Reply::value("Value", "1"),
            _ => Reply::Usual,
        });
        let server = ScriptedServer::start(script).await.unwrap();
        let mut plan = Plan { kind: Kind::Switchover, semi_sync, ..failover(FenceBy::Nothing) };
        plan.candidate.reach = server.address().to_string();
        plan.candidate.semi_sync.source = Some(Switch { name: Name::Master, on: false });
        let logins = logins();
        let mut servers = Servers::new(&plan, &logins);
        too_few(&plan, &mut servers).await
    }

    #[test]
    fn those_that_could_not_be_told_whom_to_follow_acknowledge_nothing() {
        let mut plan = failover(FenceBy::Nothing);
        let replica = Member { semi_sync_replica: true, ..plan.candidate.clone() };
        let late = Some(fleet::Thread::Receiver);
        plan.others = vec![
            Member { name: "b1".to_owned(), ..replica.clone() },
            Member { name: "b2".to_owned(), semi_sync_replica: false, ..replica.clone() },
            Member { name: "b3".to_owned(), stopped: late, ..replica },
        ];
        plan.primary.semi_sync.replica = Some(Switch { name: Name::Slave, on: false });
        assert_eq!(may_come(&plan, &[]), 1, "the primary is dead");
        plan.kind = Kind::Switchover;
        assert_eq!(may_come(&plan, &[]), 2);
        assert_eq!(may_come(&plan, &["b1".to_owned()]), 1);
        assert_eq!(may_come(&plan, &["b1".to_owned(), "a1".to_owned()]), 0);
    }

    #[tokio::test]
    async fn a_primary_that_waits_for_nobody_is_named_with_the_statement_that_ends_it() {
        let waits = said(true, "1", "0").await.unwrap();
        assert!(waits.starts_with("a2 waits for 1 acknowledgements of each commit"), "{waits}");
        assert!(waits.ends_with("there: SET GLOBAL rpl_semi_sync_master_enabled = OFF"), "{waits}");
        assert_eq!(said(true, "1", "1").await, None);
        assert_eq!(said(true, "0", "0").await, None, "somebody has switched it off");
        assert_eq!(said(false, "1", "0").await, None, "it was not moved with the primary");
    }
}
