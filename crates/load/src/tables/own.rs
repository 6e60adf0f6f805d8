//! Own: whether tables are those that a workload makes. The workloads that come with the program have tables
//! of common names (`orders`, `account`), and whoever names the database of an application must not lose its.
//!
//! A table is the workload's where it has the columns that its `CREATE TABLE` names, in that order.

use crate::error::LoadError;
use crate::session::Session;
use crate::target::Target;
use crate::workload::Lane;
use std::collections::BTreeMap;

/// Columns by table, all in small letters: a server may keep names so.
type Columns = BTreeMap<String, Vec<String>>;

/// How parts of a `CREATE TABLE` begin that are no columns.
const INDEXES: [&str; 3] = ["KEY", "UNIQUE", "PRIMARY"];

/// Looks whether the tables that these statements make are theirs, as far as they are there.
///
/// # Errors
/// [`LoadError::NotOurs`] where one is somebody's, and what the server says.
pub fn check_own(target: &Target, prepare: &[String]) -> Result<(), LoadError> {
    let ours = made_by(prepare);
    let (peers, tls) = (target.resolve(Lane::Writer)?, target.tls_client()?);
    let mut session = Session::connect(peers[0].clone(), &target.account, tls.as_ref())?;
    let names: Vec<String> = ours.keys().map(|name| format!("'{name}'")).collect();
    let cells = session.column(&format!(
        "SELECT CONCAT(TABLE_NAME, ' ', COLUMN_NAME) FROM information_schema.COLUMNS \
         WHERE TABLE_SCHEMA = DATABASE() AND LOWER(TABLE_NAME) IN ({}) ORDER BY TABLE_NAME, ORDINAL_POSITION",
        names.join(", ")
    ))?;
    let mut found = Columns::new();
    for cell in &cells {
        let text = String::from_utf8_lossy(cell).to_lowercase();
        if let Some((table, column)) = text.split_once(' ') {
            found.entry(table.to_owned()).or_default().push(column.to_owned());
        }
    }
    found.retain(|table, columns| ours.get(table) != Some(&*columns));
    if found.is_empty() {
        return Ok(());
    }
    Err(LoadError::NotOurs {
        address: peers[0].address.clone(),
        database: target.account.database.clone(),
        tables: found.into_keys().collect::<Vec<_>>().join(", "),
    })
}

/// The tables that these statements make.
fn made_by(statements: &[String]) -> Columns {
    let one = |sql: &String| {
        let (name, rest) = sql.strip_prefix("CREATE TABLE ")?.split_once('(')?;
        let body = &rest[..rest.rfind(')')?];
        let mut depth = 0;
        let parts = body.split(|c: char| {
            depth += i32::from(c == '(') - i32::from(c == ')');
            c == ',' && depth == 0
        });
        let first = parts.filter_map(|part| part.split_whitespace().next());
        let columns = first.filter(|word| !INDEXES.contains(word)).map(str::to_lowercase).collect();
        Some((name.trim().to_lowercase(), columns))
    };
    statements.iter().filter_map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::login::Account;
    use crate::workload::file::{BUILT_IN, File};
    use fleet::Address;
    use lab::scripted::{Reply, Script, ScriptedServer};

    #[test]
    fn the_columns_of_each_table_that_is_removed_are_known() {
        for (name, ..) in BUILT_IN {
            let file = File::built_in(name).unwrap();
            let made = made_by(&file.prepare);
            let removed = file.cleanup[0].strip_prefix("DROP TABLE IF EXISTS ").unwrap();
            let mut removed: Vec<String> = removed.split(", ").map(str::to_lowercase).collect();
            removed.sort_unstable();
            assert_eq!(made.keys().cloned().collect::<Vec<_>>(), removed, "{name}");
        }
        let made = made_by(&File::built_in("endpoints").unwrap().prepare);
        assert_eq!(made["item"], ["id", "account_id", "posted", "body"]);
    }

    #[tokio::test]
    async fn a_table_of_somebody_with_the_same_name_is_not_removed() {
        let check = async |columns: &'static [&'static str]| {
            let script = Script::new("8.0.39", move |statement, _| {
                if !statement.contains("information_schema.COLUMNS") {
                    return Reply::Usual;
                }
                let rows: Vec<[Option<&str>; 1]> = columns.iter().map(|column| [Some(*column)]).collect();
                let rows: Vec<&[Option<&str>]> = rows.iter().map(<[_; 1]>::as_slice).collect();
                Reply::rows(&["c"], &rows)
            });
            let server = ScriptedServer::start(script).await.unwrap();
            let account =
                Account { user: "load".to_owned(), database: "shop".to_owned(), ..Account::default() };
            let target = Target::single(Address::tcp("127.0.0.1", server.address().port()), account);
            let prepare = File::built_in("endpoints").unwrap().prepare;
            tokio::task::spawn_blocking(move || check_own(&target, &prepare)).await.unwrap()
        };
        assert!(check(&["purchase id", "purchase account_id", "purchase line_count"]).await.is_ok());
        assert!(check(&[]).await.is_ok(), "nothing is there");
        let why = check(&["Account id", "Account email"]).await.unwrap_err().to_string();
        assert!(why.contains("account of the database shop") && why.contains("nothing was removed"), "{why}");
    }
}
