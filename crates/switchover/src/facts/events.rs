//! Which events a server runs, and which it does not run because it is a replica: where the account may see
//! them all.

use super::ScheduledEvent;
use crate::connection::{Connection, Named};
use std::time::Duration;

const ENABLED: &str = "STATUS = 'ENABLED'";

type Events = Option<Vec<ScheduledEvent>>;

/// Those that it runs, and those that it does not run as a replica.
pub(super) async fn read(conn: &mut Connection, deadline: Duration) -> (Events, Events) {
    if !may_see_all(conn, deadline).await {
        return (None, None);
    }
    let enabled = list(conn, ENABLED, deadline).await;
    (enabled, list(conn, "STATUS LIKE '%SIDE_DISABLED'", deadline).await)
}

/// Those that it runs; `None` where the account may not see them all.
pub(crate) async fn enabled(conn: &mut Connection, deadline: Duration) -> Events {
    if may_see_all(conn, deadline).await { list(conn, ENABLED, deadline).await } else { None }
}

/// Those that somebody disabled there, while it was no replica; `None` as above.
pub(crate) async fn disabled(conn: &mut Connection, deadline: Duration) -> Events {
    if may_see_all(conn, deadline).await { list(conn, "STATUS = 'DISABLED'", deadline).await } else { None }
}

/// Of databases in which the account lacks EVENT the server shows none, without a word.
async fn may_see_all(conn: &mut Connection, deadline: Duration) -> bool {
    let rows = conn.ask("SHOW GRANTS", deadline).await.unwrap_or_default();
    let grants: Vec<&str> = rows.iter().flat_map(Named::values).map(String::as_str).collect();
    let said: Vec<bool> = grants.into_iter().filter_map(event_privilege).collect();
    !said.is_empty() && !said.contains(&false)
}

/// What a line of SHOW GRANTS says of EVENT: given for every database, or taken back for one (partial revokes
/// of MySQL); `None` where it says neither.
fn event_privilege(grant: &str) -> Option<bool> {
    let names = |privileges: &str| {
        privileges.split(',').any(|name| ["EVENT", "ALL PRIVILEGES"].contains(&name.trim()))
    };
    if let Some((privileges, _)) =
        grant.strip_prefix("GRANT ").and_then(|rest| rest.split_once(" ON *.* TO "))
    {
        return names(privileges).then_some(true);
    }
    let (privileges, _) = grant.strip_prefix("REVOKE ")?.split_once(" ON ")?;
    names(privileges).then_some(false)
}

async fn list(conn: &mut Connection, condition: &str, deadline: Duration) -> Events {
    const ASK: &str =
        "SELECT EVENT_SCHEMA AS s, EVENT_NAME AS n, DEFINER AS d FROM information_schema.EVENTS WHERE";
    let rows = conn.ask(&format!("{ASK} {condition} ORDER BY 1, 2"), deadline).await.ok()?;
    let event = |mut row: Named| {
        let definer = row.remove("d").unwrap_or_default();
        Some(ScheduledEvent { schema: row.remove("s")?, name: row.remove("n")?, definer })
    };
    Some(rows.into_iter().filter_map(event).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whether_an_account_sees_the_events_of_every_database_is_read_from_its_grants() {
        let given = |grant: &str| event_privilege(grant);
        assert_eq!(
            given("GRANT PROCESS, EVENT ON *.* TO `admin`@`%` IDENTIFIED BY PASSWORD '*'"),
            Some(true)
        );
        assert_eq!(given("GRANT ALL PRIVILEGES ON *.* TO `root`@`localhost` WITH GRANT OPTION"), Some(true));
        assert_eq!(given("GRANT PROCESS, SELECT ON *.* TO `EVENT`@`%`"), None);
        assert_eq!(given("GRANT EVENT ON `app`.* TO `admin`@`%`"), None, "those of app only");
        assert_eq!(given("REVOKE EVENT ON `app`.* FROM `admin`@`%`"), Some(false));
        assert_eq!(given("REVOKE SELECT ON `app`.* FROM `admin`@`%`"), None);
    }
}
