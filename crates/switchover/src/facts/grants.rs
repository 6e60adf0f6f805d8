//! What our own account may do on a server, as SHOW GRANTS says. Of a line nothing is kept but names of
//! privileges: what follows the account may be its password.

use super::Facts;
use crate::connection::{BRIEFLY, Connection, Named};
use crate::dialect::Dialect;
use config::Credentials;
use std::collections::BTreeSet;
use std::time::Duration;

/// The database that the steps write to, see [`crate::perform`].
const DATABASE: &str = "headroom";

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct OwnGrants {
    /// `user@host`.
    pub(crate) account: String,
    /// Given for everything, see [`normal`].
    global: BTreeSet<String>,
    /// Given for [`DATABASE`], or for a table of it.
    database: BTreeSet<String>,
    /// Given for everything but [`DATABASE`] (partial revokes of MySQL).
    revoked: BTreeSet<String>,
    /// There is a line which may give more than is seen: a role that may not be active, single columns, or
    /// one that is not understood.
    pub(crate) unclear: bool,
}

/// Without a role named the server shows those that are active, and every session of ours begins with the
/// same ones.
pub(super) async fn own(conn: &mut Connection, dialect: Dialect, deadline: Duration) -> Option<OwnGrants> {
    let account = conn.scalar("SELECT CURRENT_USER()", deadline).await.ok()??;
    let mut rows = conn.ask("SHOW GRANTS", deadline).await.ok()?;
    if dialect.0.mariadb_from((10, 11, 0)) {
        // Everybody has these.
        rows.extend(conn.ask("SHOW GRANTS FOR PUBLIC", deadline).await.unwrap_or_default());
    }
    let mut grants = OwnGrants { account, ..OwnGrants::default() };
    rows.iter().flat_map(Named::values).for_each(|line| grants.add(line));
    (!rows.is_empty()).then_some(grants)
}

/// Reads them of servers whose rest is known, over connections of its own; `None` where one does not
/// say.
pub(crate) async fn read_own_grants(servers: &mut [Facts], who: &Credentials, deadline: Duration) {
    for facts in servers {
        let opened = Connection::open(&facts.server, &facts.reach, who, deadline, BRIEFLY).await;
        if let Ok(mut conn) = opened {
            facts.own_grants = own(&mut conn, facts.dialect(), deadline).await;
            conn.close().await;
        }
    }
}

impl OwnGrants {
    /// Whether it has a privilege for everything.
    pub(crate) fn global(&self, privilege: &str) -> bool {
        has(&self.global, privilege)
    }

    /// Whether it has a privilege for the database `headroom`.
    pub(crate) fn database(&self, privilege: &str) -> bool {
        has(&self.database, privilege) || (self.global(privilege) && !has(&self.revoked, privilege))
    }

    fn add(&mut self, line: &str) {
        if line.starts_with("SET DEFAULT ROLE ") || line.starts_with("GRANT PROXY ON ") {
            return;
        }
        let given = line.strip_prefix("GRANT ").and_then(|rest| split_outside(rest, " TO "));
        let revoked = line.strip_prefix("REVOKE ").and_then(|rest| split_outside(rest, " FROM "));
        let Some((what, _)) = given.or(revoked) else {
            self.unclear = true;
            return;
        };
        // One without an object is that of a role.
        let Some((privileges, object)) = split_outside(what, " ON ") else {
            self.unclear = true;
            return;
        };
        let (schema, table) = split_outside(object, ".").unwrap_or((object, ""));
        let schema = schema.trim_matches('`').replace("``", "`");
        let given_for = match (object, given.is_some()) {
            ("*.*", true) => &mut self.global,
            (_, true) if covers(&schema) => &mut self.database,
            (_, false) if table == "*" && schema == DATABASE => &mut self.revoked,
            _ => return,
        };
        let mut rest = Some(privileges);
        while let Some(list) = rest {
            let (privilege, after) = match split_outside(list, ",") {
                Some((one, more)) => (one, Some(more)),
                None => (list, None),
            };
            self.unclear |= privilege.contains('(');
            given_for.insert(normal(privilege));
            rest = after;
        }
    }
}

fn has(privileges: &BTreeSet<String>, privilege: &str) -> bool {
    privileges.contains("ALL PRIVILEGES") || privileges.contains(&normal(privilege))
}

/// MySQL writes `_` in some names, MariaDB a space; both have an older word for a replica.
fn normal(privilege: &str) -> String {
    privilege.trim().to_ascii_uppercase().replace('_', " ").replace("REPLICA ", "SLAVE ")
}

/// Whether a name, or a pattern by its beginning, may mean the database. Too much rather than too little: a
/// privilege that is there must not be missed.
fn covers(schema: &str) -> bool {
    match schema.split_once(['%', '_', '\\']) {
        Some((beginning, _)) => DATABASE.starts_with(beginning),
        None => schema.eq_ignore_ascii_case(DATABASE),
    }
}

/// Both sides of the first `mark` outside quotes and brackets.
fn split_outside<'a>(text: &'a str, mark: &str) -> Option<(&'a str, &'a str)> {
    let (mut quote, mut depth) = (None, 0_u32);
    for (at, character) in text.char_indices() {
        if quote.is_none()
            && depth == 0
            && let Some(after) = text[at..].strip_prefix(mark)
        {
            return Some((&text[..at], after));
        }
        match (quote, character) {
            // A doubled one closes and opens again.
            (Some(open), _) if character == open => quote = None,
            (Some(_), _) => {}
            (None, '`' | '\'' | '"') => quote = Some(character),
            (None, '(') => depth += 1,
            (None, ')') => depth = depth.saturating_sub(1),
            (None, _) => {}
        }
    }
    None
}

#[cfg(test)]
impl OwnGrants {
    /// Of what SHOW GRANTS prints.
    pub(crate) fn of(account: &str, lines: &[&str]) -> Self {
        let mut grants = Self { account: account.to_owned(), ..Self::default() };
        lines.iter().for_each(|line| grants.add(line));
        grants
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(lines: &[&str]) -> OwnGrants {
        OwnGrants::of("admin@%", lines)
    }

    #[test]
    fn nothing_of_a_password_is_kept() {
        let all =
            of(&["GRANT ALL PRIVILEGES ON *.* TO `root`@`localhost` IDENTIFIED VIA mysql_native_password \
              USING '*6BB4837EB74329105EE4568DDA7DC67ED2CA2AD9' OR unix_socket WITH GRANT OPTION"]);
        assert!(all.global("RELOAD") && all.global("READ_ONLY ADMIN") && all.database("INSERT"));
        let shown = format!("{all:?}");
        assert!(!shown.contains("6BB4") && !shown.contains("IDENTIFIED"), "{shown}");
        let text = "GRANT USAGE ON *.* TO 'a'@'%' IDENTIFIED BY PASSWORD 'se, RELOAD ON *.* TO cret'";
        assert!(!of(&[text]).global("RELOAD"));
        // What is not understood is not kept either.
        let odd = of(&["CREATE USER x IDENTIFIED BY 'secret'"]);
        assert!(odd.unclear && !format!("{odd:?}").contains("secret"));
    }

    #[test]
    fn names_in_quotes_are_no_privileges_and_columns_are_not_certain() {
        let account = of(&["GRANT PROCESS ON *.* TO `RELOAD ON *.* TO x`@`%`"]);
        assert!(account.global("PROCESS") && !account.global("RELOAD") && !account.unclear);
        let database = of(&["GRANT INSERT ON `a`` ON headroom`.* TO `admin`@`%`"]);
        assert!(!database.database("INSERT"));
        let columns =
            of(&["GRANT SELECT, INSERT (`epoch`, ` ON x TO `) ON `headroom`.`switchover` TO `a`@`%`"]);
        assert!(columns.database("SELECT") && !columns.database("INSERT") && columns.unclear);
        let elsewhere = of(&["GRANT SELECT (`host`, `user`) ON `mysql`.`user` TO `admin`@`%`"]);
        assert!(!elsewhere.unclear);
        assert!(of(&["GRANT ALL PRIVILEGES ON `head%`.* TO `admin`@`%`"]).database("DELETE"));
        assert!(!of(&["GRANT ALL PRIVILEGES ON `app\\_1`.* TO `admin`@`%`"]).database("DELETE"));
        assert!(!of(&["GRANT EXECUTE ON PROCEDURE `headroom`.`p` TO `admin`@`%`"]).database("EXECUTE"));
    }

    #[test]
    fn partial_revokes_and_roles_are_read() {
        let global = "GRANT SELECT, INSERT, UPDATE, DELETE, RELOAD ON *.* TO `admin`@`%`";
        let revoked = of(&[global, "REVOKE INSERT, UPDATE ON `headroom`.* FROM `admin`@`%`"]);
        assert!(revoked.database("DELETE") && !revoked.database("INSERT") && revoked.global("RELOAD"));
        let other = of(&[global, "REVOKE INSERT ON `mysql`.* FROM `admin`@`%`"]);
        assert!(other.database("INSERT") && !other.unclear);
        for role in ["GRANT `dba`@`%` TO `admin`@`%`", "GRANT `dba` TO `admin`@`%` WITH ADMIN OPTION"] {
            assert!(of(&[global, role]).unclear, "{role}");
        }
        // MariaDB shows those of the current role with its name.
        let role = of(&[
            "GRANT `dba` TO `admin`@`%`",
            "GRANT USAGE ON *.* TO `admin`@`%` IDENTIFIED BY PASSWORD '*'",
            "GRANT READ_ONLY ADMIN ON *.* TO `dba`",
            "SET DEFAULT ROLE `dba` FOR `admin`@`%`",
        ]);
        assert!(role.global("READ_ONLY ADMIN"));
        assert!(!of(&["GRANT PROXY ON ``@`` TO `root`@`localhost` WITH GRANT OPTION"]).unclear);
    }
}
