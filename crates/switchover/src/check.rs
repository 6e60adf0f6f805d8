//! What must hold before a primary is moved: one table of checks, each a pure function of what was read.
//!
//! A check passes, warns (the switchover may go on, and somebody should know) or stops it. Each says its
//! facts and the command that mends it. What could not be read is never a pass: it warns and says which
//! privilege is missing.

mod announcement;
mod candidate;
mod privileges;
mod replication;
mod semi_sync;
#[cfg(test)]
mod tests;
mod transaction;

use crate::facts::Facts;
use crate::failover::exposure::Exposure;
use crate::login::LoginAttempt;
pub use announcement::{AskingRouters, told_before};
pub(crate) use candidate::at_a_replica;
pub(crate) use privileges::failover_privileges;
pub(crate) use replication::is_source;
use serde::Serialize;
use std::time::Duration;

/// How a check came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    Pass,
    /// It does not, and that is a risk somebody should know.
    Warn,
    /// It does not, and the switchover would fail or lose something.
    Stop,
}

/// One check's outcome.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub check: &'static str,
    /// How it came out.
    pub level: Level,
    /// What was found.
    pub facts: String,
    /// The command that mends it, or what to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mend: Option<String>,
}

/// Everything the checks look at.
#[derive(Clone, Debug)]
pub struct Situation<'a> {
    /// Who takes writes now.
    pub primary: &'a Facts,
    /// Who shall.
    pub candidate: &'a Facts,
    /// All other servers that answered.
    pub others: &'a [Facts],
    /// Limits that the user may set.
    pub limits: Limits,
    /// Whether an account for the former primary's replication is given.
    pub has_replication_login: bool,
    /// Where that account got to, where it was tried.
    pub login: Option<&'a LoginAttempt>,
    /// What a crash would lose without semi-sync, where that was measured.
    pub exposure: Option<&'a Exposure>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Limits {
    /// The candidate may be this far behind before we begin.
    pub lag: Duration,
    /// A transaction open for longer stops a switchover.
    pub transaction: Duration,
    /// Routers are told this long before the hold.
    pub prepare: Duration,
    /// Routers ask each server this often, as configured.
    pub interval: Duration,
    /// Those that ask the primary, where they could be counted.
    pub routers: Option<AskingRouters>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            lag: Duration::from_secs(10),
            transaction: Duration::from_secs(5),
            prepare: Duration::from_millis(1_500),
            interval: Duration::from_millis(500),
            routers: None,
        }
    }
}

/// One row of the table.
#[derive(Clone, Copy)]
pub struct Check {
    /// Its name in output and documentation.
    pub name: &'static str,
    /// Why it is looked at.
    pub why: &'static str,
    run: fn(&Situation<'_>) -> (Level, String, Option<String>),
}

/// The table, in the order in which it is shown.
pub const CHECKS: &[Check] = &[
    Check { name: "one writer", why: "a second writable server would diverge", run: replication::one_writer },
    Check {
        name: "candidate follows",
        why: "only a replica of the primary has its data",
        run: replication::follows,
    },
    Check {
        name: "reserved",
        why: "a primary that routers may not pick gets no writes",
        run: candidate::reserved,
    },
    Check { name: "channels", why: "which one is changed must be beyond doubt", run: replication::channels },
    Check {
        name: "channel settings",
        why: "the former primary follows as the candidate did",
        run: replication::channel_settings,
    },
    Check { name: "threads run", why: "a stopped replica never catches up", run: replication::threads_run },
    Check {
        name: "GTID",
        why: "replicas are moved by position, never by file and offset",
        run: transaction::gtid,
    },
    Check {
        name: "binary log",
        why: "the others replicate from it afterwards",
        run: transaction::binary_log,
    },
    Check { name: "version", why: "an older server cannot read a newer one's log", run: candidate::version },
    Check {
        name: "formats",
        why: "a primary with another binlog_format changes what replicas get",
        run: candidate::formats,
    },
    Check {
        name: "errant transactions",
        why: "they would spread to everybody, or break replication",
        run: transaction::errant,
    },
    Check {
        name: "purged logs",
        why: "a replica that lacks what the candidate has purged cannot follow it",
        run: transaction::purged,
    },
    Check { name: "lag", why: "writes wait until the candidate has everything", run: replication::lag },
    Check { name: "open transactions", why: "the freeze waits for them", run: transaction::transactions },
    Check { name: "XA", why: "a prepared transaction is not moved", run: transaction::prepared },
    Check { name: "locks", why: "a backup or LOCK TABLES delays the freeze", run: transaction::locks },
    Check { name: "events", why: "they must run on the new primary only", run: candidate::events },
    Check {
        name: "own privileges",
        why: "a step that is refused is undone while clients wait",
        run: privileges::own,
    },
    Check { name: "accounts", why: "clients must be able to log in there", run: candidate::accounts },
    Check { name: "variables", why: "a primary behaves as its variables say", run: candidate::variables },
    Check {
        name: "read-only schemas",
        why: "writes to a schema that is read-only there are refused",
        run: candidate::read_only_schemas,
    },
    Check { name: "semi-sync", why: "what was acknowledged must be on a replica", run: semi_sync::semi_sync },
    Check {
        name: "semi-sync plugins",
        why: "the new primary waits for an acknowledgement, and somebody must give it",
        run: semi_sync::semi_sync_plugins,
    },
    Check {
        name: "silence is noticed",
        why: "replicas that wait a minute for a dead source delay a failover",
        run: replication::net_timeout,
    },
    Check {
        name: "commit order",
        why: "a replica that commits out of order shows states that never were",
        run: replication::commit_order,
    },
    Check { name: "warmth", why: "a cold buffer pool makes the first minutes slow", run: candidate::warmth },
    Check {
        name: "free disk",
        why: "a primary whose disk is full hangs at its next commit",
        run: candidate::free_disk,
    },
    Check {
        name: "announcement",
        why: "routers that are not told in time do not hold",
        run: announcement::announced_in_time,
    },
    Check { name: "clocks", why: "lag and times are compared across hosts", run: candidate::clocks },
    Check {
        name: "replication account",
        why: "the former primary must be able to follow",
        run: replication::replication_login,
    },
];

/// Runs the table.
pub fn all(situation: &Situation<'_>) -> Vec<Finding> {
    let run = |check: &Check| {
        let (level, facts, mend) = (check.run)(situation);
        Finding { check: check.name, level, facts, mend: mend.filter(|_| level != Level::Pass) }
    };
    CHECKS.iter().map(run).collect()
}

pub fn worst(findings: &[Finding]) -> Level {
    findings.iter().map(|finding| finding.level).max().unwrap_or(Level::Pass)
}

type Outcome = (Level, String, Option<String>);

fn pass(facts: impl Into<String>) -> Outcome {
    (Level::Pass, facts.into(), None)
}

fn warn(facts: impl Into<String>, mend: impl Into<String>) -> Outcome {
    (Level::Warn, facts.into(), Some(mend.into()))
}

fn stop(facts: impl Into<String>, mend: impl Into<String>) -> Outcome {
    (Level::Stop, facts.into(), Some(mend.into()))
}

fn names<'a>(servers: impl IntoIterator<Item = &'a Facts>) -> String {
    servers.into_iter().map(|facts| facts.server.to_string()).collect::<Vec<_>>().join(", ")
}

/// Passes if no server is concerned; else what is said of those that are.
fn nobody<'a>(
    servers: impl Iterator<Item = &'a Facts>,
    concerned: impl Fn(&Facts) -> bool,
    otherwise: &str,
    complaint: impl FnOnce(String) -> Outcome,
) -> Outcome {
    let concerned: Vec<&Facts> = servers.filter(|facts| concerned(facts)).collect();
    if concerned.is_empty() { pass(otherwise) } else { complaint(names(concerned)) }
}

/// The primary, the candidate and all others.
fn everybody<'a>(s: &'a Situation<'_>) -> impl Iterator<Item = &'a Facts> {
    std::iter::once(s.primary).chain(replicas(s))
}

/// Candidate and all others.
fn replicas<'a>(s: &'a Situation<'_>) -> impl Iterator<Item = &'a Facts> {
    std::iter::once(s.candidate).chain(s.others)
}

fn or_none(value: Option<&str>) -> &str {
    value.unwrap_or("not there")
}
