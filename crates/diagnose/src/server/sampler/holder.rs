//! Who holds the row, the metadata lock or the table that sessions wait for, by every means that the server
//! has; and what would tell where none does.

use super::{Asker, REFUSED, RareAnswers};
use crate::server::{Blocker, question};
use observe::{AskError, Dialect, Rows};

/// Of a server without its `performance_schema` whose sessions wait for a whole table.
const TABLES_UNTOLD: &str = "who holds the table that is waited for is not told here, as performance_schema \
    is off: set performance_schema = ON in the server's configuration and restart it";

/// Locks that a server keeps if an instrument of its `performance_schema` is on.
pub(super) struct KeptLocks {
    called: &'static str,
    instrument: &'static str,
    /// What it tells of once that is switched on.
    then: &'static str,
}

pub(super) const METADATA_LOCKS: KeptLocks = KeptLocks {
    called: "metadata locks",
    instrument: "wait/lock/metadata/sql/mdl",
    then: "locks that are taken from then on",
};

const TABLE_LOCKS: KeptLocks = KeptLocks {
    called: "table locks",
    instrument: "wait/lock/table/sql/handler",
    then: "tables that are opened from then on",
};

/// That a server does not keep these locks, and what mends it.
pub(super) fn untold_locks(instrument: &Rows, of: &KeptLocks) -> Option<String> {
    let enabled = instrument.first()?.text(&["enabled"])?;
    let KeptLocks { called, instrument, then } = of;
    let mend = format!(
        "UPDATE performance_schema.setup_instruments SET enabled = 'YES' WHERE name = '{instrument}' (the \
         server tells of {then})"
    );
    let is_off = !enabled.eq_ignore_ascii_case("yes");
    is_off.then(|| format!("who holds {called} is not told here, as an instrument is off: {mend}"))
}

/// That MariaDB does not tell who holds a lock, and what would. `LOCK TABLES` needs no transaction either:
/// then nobody is likely.
fn untold_without_plugin(global: bool) -> String {
    let lock = if global { "the lock on everything" } else { "the metadata lock" };
    format!(
        "who holds {lock} is not told here: INSTALL SONAME 'metadata_lock_info' would, or performance_schema \
         with the instrument wait/lock/metadata/sql/mdl"
    )
}

impl Asker<'_> {
    /// One session that holds others back. What is missing for that stays in `lacks` until it is asked again.
    pub(super) async fn blocker(
        &mut self,
        statement: &str,
        what: &str,
        lacks: &mut Vec<String>,
    ) -> Result<Option<Blocker>, AskError> {
        lacks.clear();
        let rows = self.may(statement, what, lacks).await?;
        Ok(rows.as_ref().and_then(Blocker::read))
    }

    /// Who holds the lock that sessions wait for: by `performance_schema` where it keeps metadata locks, by
    /// MariaDB's plugin, or the likeliest. A lock on everything needs no transaction, so that nobody is
    /// likely. Of MySQL somebody is only where sessions wait for a table to be flushed (`flush`).
    pub(super) async fn lock_holder(
        &mut self,
        dialect: Dialect,
        global: bool,
        flush: bool,
        seen: &mut RareAnswers,
        missing: &mut Vec<String>,
    ) -> Result<Option<Blocker>, AskError> {
        let what = "who holds metadata locks";
        if !dialect.is_mariadb() {
            let rows = self.may(&question::locks_of_performance_schema(), what, missing).await?;
            let found = rows.as_ref().and_then(Blocker::read);
            if rows.is_none() || found.is_some() {
                return Ok(found);
            }
            let mut absent = Vec::new();
            let rows = self.may(question::LOCK_INSTRUMENT, what, &mut absent).await?;
            missing.extend(rows.as_ref().and_then(|rows| untold_locks(rows, &METADATA_LOCKS)));
            if !flush || global {
                return Ok(None);
            }
            let rows = self.may(question::likely_metadata_blocker(dialect), what, missing).await?;
            return Ok(rows.as_ref().and_then(Blocker::read));
        }
        if seen.settings.performance_schema {
            let mut absent = Vec::new();
            let rows = self.may(&question::locks_of_performance_schema(), what, &mut absent).await?;
            if let Some(found) = rows.as_ref().and_then(Blocker::read) {
                return Ok(Some(found));
            }
        }
        let mut no_plugin = !seen.lock_plugin.now();
        if !no_plugin {
            let mut absent = Vec::new();
            let rows = self.may(&question::lock_plugin(global), what, &mut absent).await?;
            if rows.is_none() {
                no_plugin = true;
                seen.lock_plugin.after(REFUSED);
            }
            let found = rows.as_ref().and_then(Blocker::read);
            // Whoever has a lock on everything is told for certain.
            if let Some(found) = found.filter(|found| !global || !found.guessed) {
                return Ok(Some(found));
            }
        }
        let mut found = None;
        if !global {
            let rows = self.may(question::likely_metadata_blocker(dialect), what, missing).await?;
            found = rows.as_ref().and_then(Blocker::read);
        }
        if no_plugin && found.is_none() {
            missing.push(untold_without_plugin(global));
        }
        Ok(found)
    }

    /// Who holds the table, of an engine without row locks, that sessions wait for: by `performance_schema`,
    /// where it is on (`told`). No other means tells it.
    pub(super) async fn table_holder(
        &mut self,
        told: bool,
        open_tables: u64,
        missing: &mut Vec<String>,
    ) -> Result<Option<Blocker>, AskError> {
        let (what, most) = ("who holds table locks", question::MOST_HANDLES);
        if !told {
            missing.push(TABLES_UNTOLD.to_owned());
            return Ok(None);
        }
        if open_tables > most {
            missing.push(format!("{what} is not asked where more than {most} tables are open"));
            return Ok(None);
        }
        let rows = self.may(question::TABLE_BLOCKER, what, missing).await?;
        let found = rows.as_ref().and_then(Blocker::read);
        if rows.is_some() && found.is_none() {
            let mut absent = Vec::new();
            let rows = self.may(question::TABLE_INSTRUMENT, what, &mut absent).await?;
            missing.extend(rows.as_ref().and_then(|rows| untold_locks(rows, &TABLE_LOCKS)));
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_tell_who_holds_a_lock_is_said_of_a_lock_on_everything_and_of_one_on_a_table() {
        let said = [true, false].map(untold_without_plugin);
        assert!(said[0].starts_with("who holds the lock on everything is not told here: INSTALL SONAME '"));
        assert!(said[1].starts_with("who holds the metadata lock is not told here: INSTALL SONAME '"));
    }

    #[test]
    fn a_server_that_keeps_no_metadata_locks_is_told_how_to() {
        let told = |enabled: &str| {
            let rows = Rows::new(["enabled".to_owned()], vec![vec![Some(enabled.to_owned())]]);
            untold_locks(&rows, &METADATA_LOCKS)
        };
        assert!(
            told("NO").unwrap().contains("setup_instruments SET enabled = 'YES' WHERE name = 'wait/lock")
        );
        assert_eq!(told("YES"), None);
        let nothing = Rows::new(["enabled".to_owned()], Vec::new());
        assert_eq!(untold_locks(&nothing, &METADATA_LOCKS), None);
        let off = Rows::new(["enabled".to_owned()], vec![vec![Some("NO".to_owned())]]);
        let text = untold_locks(&off, &TABLE_LOCKS).unwrap();
        assert!(text.starts_with("who holds table locks") && text.contains("'wait/lock/table/sql/handler'"));
    }
}
