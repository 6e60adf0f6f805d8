//! Schemas that a server keeps read-only by itself (`ALTER SCHEMA ... READ ONLY = 1`, MySQL 8.0.22 on). It
//! does not replicate, and a replica applies changes of such a schema all the same.

use crate::connection::Connection;
use crate::dialect::Dialect;
use std::time::Duration;

/// With as many, what is beyond is not known.
const MOST: usize = 1000;

/// `None` where the server does not say. Who has a privilege for everything sees them all.
pub(super) async fn read_only(
    conn: &mut Connection,
    dialect: Dialect,
    deadline: Duration,
) -> Option<Vec<String>> {
    if !dialect.0.mysql_from((8, 0, 22)) {
        return Some(Vec::new());
    }
    let ask = format!(
        "SELECT SCHEMA_NAME AS s FROM information_schema.SCHEMATA_EXTENSIONS \
         WHERE OPTIONS LIKE '%READ ONLY=1%' ORDER BY 1 LIMIT {MOST}"
    );
    let rows = conn.ask(&ask, deadline).await.ok()?;
    (rows.len() < MOST).then(|| rows.into_iter().filter_map(|mut row| row.remove("s")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::BRIEFLY;
    use config::Credentials;
    use fleet::{Address, ServerName};
    use lab::scripted::{Reply, Script, ScriptedServer};

    #[tokio::test]
    async fn only_servers_that_have_read_only_schemas_are_asked() {
        let script = Script::new("8.4.2", |statement, _| match statement.contains("SCHEMATA_EXTENSIONS") {
            true => Reply::value("s", "app"),
            false => Reply::Usual,
        });
        let refusing = Script::new("8.4.2", |_, _| Reply::Usual);
        let deadline = Duration::from_secs(5);
        for (script, version, expected) in [
            (script, "8.4.2", Some(vec!["app".to_owned()])),
            (refusing, "8.4.2", None),
            (Script::new("8.0.21", |_, _| Reply::Usual), "8.0.21", Some(Vec::new())),
            (Script::new("10.11.6-MariaDB", |_, _| Reply::Usual), "10.11.6-MariaDB", Some(Vec::new())),
        ] {
            let server = ScriptedServer::start(script).await.unwrap();
            let address = Address::tcp("127.0.0.1".to_owned(), server.address().port());
            let (name, who) = (ServerName::new("a1"), Credentials::default());
            let mut conn = Connection::open(&name, &address, &who, deadline, BRIEFLY).await.unwrap();
            let found = read_only(&mut conn, Dialect(version.parse().unwrap()), deadline).await;
            assert_eq!(found, expected, "{version}");
        }
    }
}
