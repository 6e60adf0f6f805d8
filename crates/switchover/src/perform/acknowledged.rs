//! Whether those are connected to the new primary that must acknowledge what it commits (semi-sync).

use super::servers::Servers;
use super::{Member, Plan};
use crate::semi_sync::Switch;
use std::time::{Duration, Instant};

/// Replicas that were told to follow are waited for this long.
const CONNECTS: Duration = Duration::from_secs(1);
const POLL: Duration = Duration::from_millis(50);

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
    use crate::perform::tests::failover;
    use crate::perform::{FenceBy, Kind, Logins};
    use crate::semi_sync::Name;
    use config::Credentials;
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
        let logins = Logins {
            admin: Credentials::default(),
            replication: Default::default(),
            flags: Default::default(),
        };
        let mut servers = Servers::new(&plan, &logins);
        too_few(&plan, &mut servers).await
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
