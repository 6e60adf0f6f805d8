//! What an ordinary server answers to what drivers ask by themselves.

use super::Reply;

/// Settings and their values, by name in lower case.
const SETTINGS: &[(&str, &str)] = &[
    ("autocommit", "1"),
    ("character_set_client", "utf8mb4"),
    ("interactive_timeout", "28800"),
    ("lower_case_table_names", "0"),
    ("max_allowed_packet", "16777216"),
    ("net_write_timeout", "60"),
    ("performance_schema", "1"),
    ("read_only", "0"),
    ("socket", ""),
    ("sql_mode", "STRICT_TRANS_TABLES"),
    ("time_zone", "SYSTEM"),
    ("transaction_isolation", "REPEATABLE-READ"),
    ("wait_timeout", "28800"),
];

/// Replaces [`Reply::Usual`], also after a delay.
pub(super) fn instead_of_usual(reply: Reply, statement: &str, version: &str) -> Reply {
    match reply {
        Reply::Usual => usual(statement, version),
        Reply::Delay(time, then) => Reply::Delay(time, Box::new(instead_of_usual(*then, statement, version))),
        other => other,
    }
}

fn usual(statement: &str, version: &str) -> Reply {
    let words = statement.trim().trim_end_matches(';');
    let unknown = || Reply::Err {
        code: 1064,
        sqlstate: *b"42000",
        message: format!("the script of this server has no answer to: {words}"),
    };
    let Some((verb, rest)) = words.split_once(char::is_whitespace) else { return unknown() };
    if verb.eq_ignore_ascii_case("set") {
        return Reply::Ok;
    }
    if !verb.eq_ignore_ascii_case("select") {
        return unknown();
    }
    let mut columns = Vec::new();
    let mut row = Vec::new();
    for item in rest.split(',') {
        let Some((name, value)) = select_item(item.trim(), version) else { return unknown() };
        columns.push(name);
        row.push(Some(value));
    }
    Reply::Rows { columns, rows: vec![row] }
}

/// One item of a select list, `@@setting [AS name]`, `VERSION()` or a number: its name and value.
fn select_item(item: &str, version: &str) -> Option<(String, String)> {
    let mut words = item.split_whitespace();
    let expression = words.next()?;
    let name = match (words.next(), words.next(), words.next()) {
        (None, ..) => expression,
        (Some(r#as), Some(name), None) if r#as.eq_ignore_ascii_case("as") => name.trim_matches('`'),
        _ => return None,
    };
    let lower = expression.to_ascii_lowercase();
    let value = if let Some(setting) = lower.strip_prefix("@@") {
        let setting = setting.strip_prefix("global.").or(setting.strip_prefix("session.")).unwrap_or(setting);
        let known = SETTINGS.iter().find(|(name, _)| *name == setting).map(|(_, value)| *value);
        if setting == "version" { version.to_owned() } else { known?.to_owned() }
    } else if lower == "version()" {
        version.to_owned()
    } else if lower.parse::<i64>().is_ok() {
        lower
    } else {
        return None;
    };
    Some((name.to_owned(), value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_drivers_ask_is_answered_and_the_rest_is_an_error_that_names_it() {
        let reply = usual("SELECT @@max_allowed_packet, @@GLOBAL.wait_timeout AS w;", "8.0.1");
        assert_eq!(reply, Reply::rows(&["@@max_allowed_packet", "w"], &[&[Some("16777216"), Some("28800")]]));
        assert_eq!(usual("select version()", "8.0.1"), Reply::value("version()", "8.0.1"));
        assert_eq!(usual("SELECT @@version", "8.0.1"), Reply::value("@@version", "8.0.1"));
        assert_eq!(usual("SET NAMES utf8mb4", "8.0.1"), Reply::Ok);
        for statement in ["SHOW TABLES", "SELECT a FROM b", "SELECT @@nonsense", ""] {
            let Reply::Err { message, .. } = usual(statement, "8.0.1") else { panic!("{statement}") };
            assert!(message.ends_with(statement));
        }
    }
}
