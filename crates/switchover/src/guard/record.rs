//! What guards know of each other and of people, in two tables that replicate: `headroom.guard` (paused, and
//! by whom) and `headroom.switchover` (the last failover).
//!
//! Read from every server that answers, the primary too; the newest row counts, since a replica may be
//! behind. What the primary showed last is kept when it dies: it may not have reached any replica. Ages are
//! taken from one server's clock each, so that ours does not matter.

use crate::Error;
use crate::connection::{Connection, Named, quoted};
use observe::AskError;
use serde::Serialize;
use std::cmp::Reverse;
use std::fmt;
use std::time::Duration;

const TABLE: &str = "(generation BIGINT UNSIGNED NOT NULL PRIMARY KEY, paused TINYINT NOT NULL, \
    until_ms BIGINT NOT NULL, by_whom VARCHAR(255) NOT NULL, why VARCHAR(255) NOT NULL, \
    changed TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6)) \
    ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4";
const NOW_MS: &str = "CAST(UNIX_TIMESTAMP(NOW(6)) * 1000 AS SIGNED)";

/// A person has said to do nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Pause {
    pub by: String,
    pub why: String,
    /// `None`: until somebody says `resume`.
    pub left: Option<Duration>,
}

impl fmt::Display for Pause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "paused by {}", self.by)?;
        if !self.why.is_empty() {
            write!(f, " ({})", self.why)?;
        }
        match self.left {
            Some(left) => write!(f, " for {} s more", left.as_secs()),
            None => write!(f, " until headroom guard resume"),
        }
    }
}

/// The last failover.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FailoverRecord {
    pub epoch: u64,
    pub by: String,
    pub age: Duration,
    /// A person said `resume` since.
    pub looked_at: bool,
}

/// What one server has recorded.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GuardRecord {
    /// Generation of the newest row of `headroom.guard`; 0 without one.
    generation: u64,
    pause: Option<Pause>,
    resumed_ms: i64,
    /// Epoch, by whom, when, and the server's clock.
    failover: Option<(u64, String, i64, i64)>,
}

impl GuardRecord {
    /// What was read this long ago.
    pub(super) fn aged(&self, age: Duration) -> Self {
        let pause = self.pause.clone().and_then(|pause| match pause.left {
            Some(left) => {
                Some(Pause { left: Some(left.checked_sub(age).filter(|left| !left.is_zero())?), ..pause })
            }
            None => Some(pause),
        });
        let ms = i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
        let failover =
            self.failover.clone().map(|(epoch, by, at, now)| (epoch, by, at, now.saturating_add(ms)));
        Self { pause, failover, ..*self }
    }

    /// Whether this row, or a later one, has arrived.
    pub(super) fn has(&self, generation: u64) -> bool {
        self.generation >= generation
    }
}

/// The newest of what several servers have recorded. Each tells by its own clock how long a pause lasts, and
/// how old a failover is: of those that have the same row the one that keeps guards still for longest counts.
pub fn newest(all: &[GuardRecord]) -> (Option<Pause>, Option<FailoverRecord>) {
    let generation = all.iter().map(|one| one.generation).max().unwrap_or(0);
    let guards: Vec<&GuardRecord> = all.iter().filter(|one| one.generation == generation).collect();
    let age = |(_, _, at, now): &(u64, String, i64, i64)| now.saturating_sub(*at).max(0);
    let failovers = all.iter().filter_map(|one| one.failover.as_ref());
    let failover = failovers.max_by_key(|failover| (failover.0, Reverse(age(failover))));
    let resumed_ms = guards.first().map_or(0, |one| one.resumed_ms);
    let last = failover.map(|failover| FailoverRecord {
        epoch: failover.0,
        by: failover.1.clone(),
        age: Duration::from_millis(age(failover) as u64),
        looked_at: resumed_ms > failover.2,
    });
    let pauses = guards.iter().filter_map(|one| one.pause.as_ref());
    let pause = pauses.max_by_key(|pause| pause.left.unwrap_or(Duration::MAX));
    (pause.cloned(), last)
}

/// Reads both tables of one server.
pub(crate) async fn read(conn: &mut Connection, deadline: Duration) -> Result<GuardRecord, Error> {
    let guard = format!(
        "SELECT generation, paused, until_ms, by_whom, why, {NOW_MS} AS now_ms, \
         CAST(UNIX_TIMESTAMP(changed) * 1000 AS SIGNED) AS changed_ms \
         FROM headroom.guard ORDER BY generation DESC LIMIT 1"
    );
    let failover = format!(
        "SELECT epoch, plan, {NOW_MS} AS now_ms, CAST(UNIX_TIMESTAMP(changed) * 1000 AS SIGNED) AS changed_ms \
         FROM headroom.switchover WHERE state = 'done' AND plan LIKE '%\"is\":\"failover\"%' \
         ORDER BY epoch DESC LIMIT 1"
    );
    let mut recorded = GuardRecord::default();
    if let Some(row) = if_there(conn.ask(&guard, deadline).await)? {
        recorded.generation = number(&row, "generation") as u64;
        let (now, until) = (number(&row, "now_ms"), number(&row, "until_ms"));
        if number(&row, "paused") == 0 {
            recorded.resumed_ms = number(&row, "changed_ms");
        } else if until == 0 || until > now {
            let left = (until != 0).then(|| Duration::from_millis((until - now).max(0) as u64));
            recorded.pause = Some(Pause { by: text(&row, "by_whom"), why: text(&row, "why"), left });
        }
    }
    if let Some(row) = if_there(conn.ask(&failover, deadline).await)? {
        let by = serde_json::from_str::<crate::perform::Plan>(&text(&row, "plan")).map(|plan| plan.by);
        recorded.failover = Some((
            number(&row, "epoch") as u64,
            by.unwrap_or_else(|_| "unknown".to_owned()),
            number(&row, "changed_ms"),
            number(&row, "now_ms"),
        ));
    }
    Ok(recorded)
}

/// Pauses all guards of the fleet, for a time or until `resume`; or resumes. Written on the primary; the
/// generation of the row.
pub(crate) async fn write(
    conn: &mut Connection,
    pause: bool,
    time: Option<Duration>,
    by: &str,
    why: &str,
    deadline: Duration,
) -> Result<u64, Error> {
    conn.make_table("guard", TABLE, deadline).await?;
    let until = time.map_or("0".to_owned(), |time| format!("{NOW_MS} + {}", time.as_millis()));
    let cut = |text: &str| quoted(&text.chars().take(200).collect::<String>());
    let insert = format!(
        "INSERT INTO headroom.guard (generation, paused, until_ms, by_whom, why) \
         SELECT COALESCE(MAX(generation), 0) + 1, {}, {until}, {}, {} FROM headroom.guard",
        u8::from(pause),
        cut(by),
        cut(why)
    );
    conn.run(&insert, deadline).await?;
    let newest = conn.scalar("SELECT MAX(generation) FROM headroom.guard", deadline).await?;
    Ok(newest.and_then(|generation| generation.parse().ok()).unwrap_or(0))
}

/// No table yet (1146), or no database (1049), is no row.
fn if_there(asked: Result<Vec<Named>, Error>) -> Result<Option<Named>, Error> {
    match asked {
        Ok(rows) => Ok(rows.into_iter().next()),
        Err(Error::Server { source: AskError::Answered { code: 1146 | 1049, .. }, .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

fn number(row: &Named, column: &str) -> i64 {
    row.get(column).and_then(|value| value.parse().ok()).unwrap_or(0)
}

fn text(row: &Named, column: &str) -> String {
    row.get(column).cloned().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::BRIEFLY;
    use config::Credentials;
    use fleet::{Address, ServerName};
    use lab::scripted::{Reply, Script, ScriptedServer};
    use std::sync::{Arc, Mutex};

    #[tokio::test]
    async fn a_pause_defines_its_table_only_where_that_is_not_there() {
        for (there, defined) in [("0", 2), ("1", 0)] {
            let definitions = Arc::new(Mutex::new(0));
            let heard = definitions.clone();
            let script = Script::new("10.11.6-MariaDB", move |statement, _| match statement {
                _ if statement.contains("information_schema.TABLES") => Reply::value("n", there),
                _ if statement.starts_with("CREATE ") => {
                    *heard.lock().unwrap() += 1;
                    Reply::Ok
                }
                _ if statement.starts_with("INSERT INTO headroom.guard") => Reply::Ok,
                "SELECT MAX(generation) FROM headroom.guard" => Reply::value("g", "4"),
                _ => Reply::Usual,
            });
            let server = ScriptedServer::start(script).await.unwrap();
            let address = Address::tcp("127.0.0.1".to_owned(), server.address().port());
            let (name, who, deadline) = (ServerName::new("a1"), Credentials::default(), BRIEFLY);
            let mut conn = Connection::open(&name, &address, &who, deadline, BRIEFLY).await.unwrap();
            assert_eq!(write(&mut conn, true, None, "x", "", deadline).await.unwrap(), 4);
            assert_eq!(*definitions.lock().unwrap(), defined);
        }
    }

    #[test]
    fn the_newest_row_counts_whichever_server_has_it() {
        let pause = Pause { by: "x".to_owned(), why: String::new(), left: None };
        let failover = |epoch, at| Some((epoch, "g".to_owned(), at, 100_000));
        let old = GuardRecord {
            generation: 1,
            pause: Some(pause.clone()),
            failover: failover(1, 10),
            resumed_ms: 0,
        };
        let resumed =
            GuardRecord { generation: 2, pause: None, resumed_ms: 50_000, failover: failover(2, 40_000) };
        let (paused, last) = newest(&[old.clone(), resumed]);
        assert_eq!(paused, None);
        let last = last.unwrap();
        assert!((last.epoch, last.age, last.looked_at) == (2, Duration::from_secs(60), true), "{last:?}");
        assert_eq!(newest(&[GuardRecord::default(), old]).0, Some(pause));
        assert_eq!(newest(&[]), (None, None));
    }

    #[test]
    fn a_server_whose_clock_is_ahead_ends_no_pause_and_makes_no_failover_old() {
        const HOUR_MS: i64 = 3_600_000;
        let pause = |seconds| Pause {
            by: "x".to_owned(),
            why: String::new(),
            left: Some(Duration::from_secs(seconds)),
        };
        let read = |pause, now| GuardRecord {
            generation: 3,
            pause,
            failover: Some((1, "g".to_owned(), 10_000, now)),
            resumed_ms: 0,
        };
        let (right, ahead) = (read(Some(pause(60)), 40_000), read(None, 40_000 + HOUR_MS));
        for all in [[right.clone(), ahead.clone()], [ahead, right]] {
            let (paused, last) = newest(&all);
            assert_eq!(paused, Some(pause(60)));
            assert_eq!(last.unwrap().age, Duration::from_secs(30));
        }
    }

    #[test]
    fn what_was_read_a_while_ago_is_as_old_as_it_is() {
        let pause = |left| Some(Pause { by: "x".to_owned(), why: String::new(), left });
        let minute = Some(Duration::from_secs(60));
        let read = |left| GuardRecord {
            generation: 3,
            pause: pause(left),
            failover: Some((1, "g".to_owned(), 10_000, 40_000)),
            resumed_ms: 0,
        };
        let (paused, last) = newest(&[read(minute).aged(Duration::from_secs(20))]);
        assert_eq!(paused, pause(Some(Duration::from_secs(40))));
        assert_eq!(last.unwrap().age, Duration::from_secs(50));
        assert_eq!(newest(&[read(minute).aged(Duration::from_secs(60))]).0, None, "it is over");
        assert_eq!(newest(&[read(None).aged(Duration::from_secs(7200))]).0, pause(None));
        assert!(read(None).has(3) && !read(None).has(4));
    }
}
