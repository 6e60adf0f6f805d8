//! The tables of the simulated application, in the lab's database for applications.

use super::DataSize;
use crate::DATABASE;
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Error};

/// Creates the tables and their rows through a session on the primary. What was there of an earlier run is
/// replaced.
///
/// # Errors
/// The server's answer to the statement that failed.
pub async fn load(primary: &mut Conn, data: DataSize) -> Result<(), Error> {
    for statement in statements(data) {
        primary.query_drop(statement).await?;
    }
    Ok(())
}

/// Whether everything [`load`] wrote has reached the server of this session.
///
/// # Errors
/// The server's answer, except that a table is not there yet.
pub async fn is_ready(session: &mut Conn) -> Result<bool, Error> {
    let there: Option<u64> = session
        .query_first(format!(
            "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = '{DATABASE}' AND table_name = 'loaded'"
        ))
        .await?;
    Ok(there == Some(1))
}

/// Rows come from joined digits, which both flavours in all versions can do, unlike sequences or deep
/// recursion.
fn statements(data: DataSize) -> Vec<String> {
    let DataSize { accounts, items } = data;
    let numbers = "(SELECT a.d + 10 * b.d + 100 * c.d + 1000 * e.d + 10000 * f.d AS n \
         FROM digit a, digit b, digit c, digit e, digit f) numbers";
    let digits = (0..10).map(|d| format!("({d})")).collect::<Vec<_>>().join(",");
    vec![
        format!("USE {DATABASE}"),
        "DROP TABLE IF EXISTS loaded, digit, purchase_line, purchase, item, account".to_owned(),
        "CREATE TABLE account (id INT UNSIGNED PRIMARY KEY, name VARCHAR(40) NOT NULL, \
         balance INT NOT NULL, visits INT NOT NULL DEFAULT 0) ENGINE=InnoDB"
            .to_owned(),
        "CREATE TABLE item (id INT UNSIGNED PRIMARY KEY, account_id INT UNSIGNED NOT NULL, posted INT UNSIGNED NOT NULL, \
         body VARCHAR(200) NOT NULL, KEY by_account (account_id, posted)) ENGINE=InnoDB"
            .to_owned(),
        "CREATE TABLE purchase (id INT UNSIGNED AUTO_INCREMENT PRIMARY KEY, account_id INT UNSIGNED NOT NULL, \
         line_count INT NOT NULL) ENGINE=InnoDB"
            .to_owned(),
        "CREATE TABLE purchase_line (id INT UNSIGNED AUTO_INCREMENT PRIMARY KEY, purchase_id INT UNSIGNED NOT NULL, \
         item_id INT UNSIGNED NOT NULL) ENGINE=InnoDB"
            .to_owned(),
        "CREATE TABLE digit (d INT NOT NULL PRIMARY KEY) ENGINE=InnoDB".to_owned(),
        format!("INSERT INTO digit VALUES {digits}"),
        format!("INSERT INTO account (id, name, balance) SELECT n, CONCAT('account ', n), 1000000 FROM {numbers} WHERE n < {accounts}"),
        format!(
            "INSERT INTO item (id, account_id, posted, body) \
             SELECT n, n % {accounts}, n, REPEAT('x', 100) FROM {numbers} WHERE n < {items}"
        ),
        "CREATE TABLE loaded (at INT) ENGINE=InnoDB".to_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_marker_that_says_ready_is_written_last() {
        let statements = statements(DataSize { accounts: 10, items: 20 });
        assert!(statements.last().is_some_and(|s| s.contains("TABLE loaded")));
    }
}
