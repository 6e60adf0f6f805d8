//! The fourth count: what the target server itself saw, from its general log.
//!
//! Not from `performance_schema.events_statements_summary_by_digest`: its counters are shared by all sessions
//! and raised without a lock (`count++` on two cores at once counts once), so that a few of ten thousand
//! statements are missing there whenever sessions run at the same time. The general log is written under a
//! lock, a line a statement.

use anyhow::Context;
use lab::Lab;
use load::replay::GroupBy;
use load::replay::compare::Groups;
use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use recording::log::{self, Kind};
use recording::{Event, RecordingError};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;

/// `COM_QUERY`.
const QUERY: u8 = 3;

/// The general log of a lab's server while it is written.
pub(super) struct Log {
    path: PathBuf,
    session: Conn,
    mariadb: bool,
}

impl Log {
    /// Begins it.
    pub(super) async fn begin(lab: &Lab, server: &str) -> anyhow::Result<Self> {
        let path = lab.dir().join("target-general.log");
        let mut session = lab.connect(server).await?;
        for statement in [
            "SET GLOBAL log_output = 'FILE'".to_owned(),
            format!("SET GLOBAL general_log_file = '{}'", path.display()),
            "SET GLOBAL general_log = 1".to_owned(),
        ] {
            session.query_drop(statement).await?;
        }
        Ok(Self { path, session, mariadb: lab.version().contains("MariaDB") })
    }

    /// Ends it: statements by digest. Our own are among them, under digests of their own.
    pub(super) async fn end(mut self) -> anyhow::Result<BTreeMap<String, u64>> {
        self.session.query_drop("SET GLOBAL general_log = 0").await?;
        self.session.disconnect().await?;
        tokio::task::spawn_blocking(move || {
            let file = File::open(&self.path).with_context(|| format!("opening {}", self.path.display()))?;
            Ok(counted(BufReader::new(file), self.mariadb)?)
        })
        .await?
    }
}

/// By digest. A log does not say whose dialect it speaks.
fn counted(log: impl BufRead, mariadb: bool) -> Result<BTreeMap<String, u64>, RecordingError> {
    let (mut groups, mut counts) = (Groups::default(), BTreeMap::<u32, u64>::new());
    log::read(Kind::General, log, "the target's general log", |event: &Event| {
        if let Event::Command(said) = event
            && said.command == QUERY
        {
            *counts.entry(groups.of(GroupBy::Statement { text: &said.body, mariadb })).or_default() += 1;
        }
        Ok::<(), RecordingError>(())
    })?;
    Ok(counts.into_iter().map(|(group, count)| (groups.name(group).to_owned(), count)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_of_a_log_are_counted_by_digest() {
        let log = "\
/usr/sbin/mariadbd, Version: 10.11.6-MariaDB (Debian). started with:
Tcp port: 0  Unix socket: /tmp/s
Time\t\t    Id Command\tArgument
261122  1:00:00\t    10 Connect\tapp@localhost on app using Socket
\t\t    10 Query\tSELECT id FROM item WHERE id = 1 /*endpoint='a'*/
\t\t    10 Query\tSELECT id FROM item WHERE id = 22
\t\t    10 Query\tBEGIN
\t\t    10 Quit\t
";
        let counts = counted(log.as_bytes(), true).unwrap();
        assert_eq!(counts.values().sum::<u64>(), 3, "{counts:?}");
        assert!(counts.iter().any(|(digest, count)| digest.contains("item") && *count == 2), "{counts:?}");
    }
}
