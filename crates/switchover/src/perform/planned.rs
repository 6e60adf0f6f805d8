//! Whether what a move was planned on still holds. Looked at with the locks held, which keep other operations
//! away; a move by hand takes none, and can still come after this look.
//!
//! A person is asked after the checks, and may take minutes. Another operation that ended meanwhile has left
//! its epoch. A move by hand leaves none: the record of this one would be a write on a replica then, that no
//! other server has, and on MariaDB one that may break its replication.

use super::servers::Servers;
use super::{Member, Plan};
use crate::Error;
use crate::facts;
use crate::survey;

/// Passes where no later operation is recorded, and the primary alone takes writes and follows nobody.
///
/// # Errors
/// Something else is so, or a server does not answer.
pub(super) async fn still_holds(plan: &Plan, servers: &mut Servers<'_>) -> Result<(), Error> {
    for member in [&plan.primary, &plan.candidate].into_iter().chain(&plan.others) {
        let deadline = servers.deadline();
        let recorded = survey::epoch_of(servers.of(member).await?, deadline).await?;
        if recorded >= plan.epoch {
            let why = format!("has epoch {recorded} recorded, this one is {}: begin again", plan.epoch);
            return Err(Error::Refused { server: member.server(), why });
        }
    }
    primary_alone_takes_writes(plan, servers).await
}

async fn primary_alone_takes_writes(plan: &Plan, servers: &mut Servers<'_>) -> Result<(), Error> {
    let changed = |member: &Member, what: &str| Error::Refused {
        server: member.server(),
        why: format!("{what} since this was planned; nothing was touched: begin again"),
    };
    let (primary, deadline) = (&plan.primary, servers.deadline());
    let channels = facts::channels(servers.of(primary).await?, primary.dialect(), deadline).await?;
    if let Some(channel) = channels.first() {
        return Err(changed(primary, &format!("follows {}:{}", channel.host, channel.port)));
    }
    if !servers.says_it_takes_writes(primary).await? {
        return Err(changed(primary, "refuses writes"));
    }
    for member in std::iter::once(&plan.candidate).chain(&plan.others) {
        if servers.says_it_takes_writes(member).await? {
            return Err(changed(member, "takes writes"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perform::tests::{failover, logins};
    use crate::perform::{FenceBy, Kind};
    use lab::scripted::{Reply, Script, ScriptedServer};

    async fn server(read_only: &'static str, follows: Option<&'static str>) -> ScriptedServer {
        let script = Script::new("10.11.6-MariaDB", move |statement, _| match statement {
            "SELECT @@GLOBAL.read_only" => Reply::value("read_only", read_only),
            "SHOW ALL SLAVES STATUS" => match follows {
                Some(host) => Reply::rows(&["Master_Host", "Master_Port"], &[&[Some(host), Some("3306")]]),
                None => Reply::rows(&["Connection_name"], &[]),
            },
            _ if statement.contains("FROM headroom.switchover") => Reply::value("epoch", "2"),
            _ => Reply::Usual,
        });
        ScriptedServer::start(script).await.unwrap()
    }

    #[tokio::test]
    async fn a_primary_that_was_moved_by_hand_while_a_person_was_asked_is_not_written_to() {
        for (primary, follows, candidate, epoch, refused) in [
            ("0", None, "1", 3, None),
            ("0", None, "1", 2, Some("a1: has epoch 2 recorded")),
            ("1", Some("b1"), "1", 3, Some("a1: follows b1:3306 since this was planned")),
            ("1", None, "1", 3, Some("a1: refuses writes since this was planned")),
            ("0", None, "0", 3, Some("a2: takes writes since this was planned")),
        ] {
            let (a1, a2) = (server(primary, follows).await, server(candidate, None).await);
            let mut plan = Plan { kind: Kind::Switchover, epoch, ..failover(FenceBy::Nothing) };
            plan.primary.reach = a1.address().to_string();
            plan.candidate.reach = a2.address().to_string();
            let logins = logins();
            let held = still_holds(&plan, &mut Servers::new(&plan, &logins)).await;
            match (held, refused) {
                (Ok(()), None) => {}
                (Err(error), Some(why)) => {
                    let words = error.to_string();
                    assert!(words.starts_with(why), "{words}");
                }
                (held, refused) => panic!("{held:?}, {refused:?}"),
            }
        }
    }
}
