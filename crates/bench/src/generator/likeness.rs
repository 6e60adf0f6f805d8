//! Is it the same load as sysbench's? Statements by the server's own digest counts, per event; keys of point
//! selects, as they stand in the server's general log, by a chi-square test.
//!
//! zipfian is not compared: sysbench 1.0, which distributions of Linux ship, does not know it.
//!
//! One client each: the digest counters are raised without a lock, and two sessions at once lose some.

use super::super::report::section::section;
use super::super::server::Server;
use super::super::{output, sysbench};
use super::env::{self, client, figure, ourselves};
use crate::promise::Promise;
use anyhow::{Context, bail};
use lab::process::{Process, command};
use load::workload::sysbench::WORKLOADS;
use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use plan::chi_square::{self, Difference};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const ROWS: u32 = 10_000;
/// sysbench's events, for the statements and for the keys: ten keys an event.
const EVENTS: u32 = 300;
const KEY_EVENTS: u32 = 2000;
/// Seconds of headroom's loads.
const SECONDS: u32 = 2;
/// Two samples of one law differ by as much once in a thousand times.
const LEAST_P: f64 = 0.001;
/// All of them together, about.
pub(super) const ABOUT_SECONDS: u32 = 100;

/// What came of it.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Likeness {
    mixes: Vec<Mix>,
    keys: Vec<Keys>,
}

/// A workload's statements.
#[derive(Clone, Debug, Serialize)]
struct Mix {
    workload: String,
    sysbench_events: u64,
    headroom_events: u64,
    /// Statements by the server's digest, as sysbench sent them and as we did.
    digests: BTreeMap<String, (u64, u64)>,
    /// Per event, every digest came as often.
    same: bool,
}

/// The keys of one distribution.
#[derive(Clone, Debug, Serialize)]
struct Keys {
    distribution: &'static str,
    sysbench: usize,
    headroom: usize,
    difference: Option<Difference>,
}

/// Compares, on a server of its own.
pub(super) async fn measure(sysbench: &Path) -> anyhow::Result<Likeness> {
    let server = Server::with_digests(&output::scratch(), 20).await?;
    let env = Compared { sysbench, log: server.directory().join("bench.log"), server: &server };
    let likeness = env.compare().await;
    server.down().await?;
    likeness
}

struct Compared<'a> {
    sysbench: &'a Path,
    server: &'a Server,
    log: PathBuf,
}

impl Compared<'_> {
    async fn compare(&self) -> anyhow::Result<Likeness> {
        let prepare = sysbench::prepare(self.server.address, ROWS);
        Process::start("sysbench", self.sysbench, &prepare, &self.log)?.finish(super::GRACE).await?;
        let mut session = self.server.session().await?;
        let mut mixes = Vec::new();
        for (workload, _) in WORKLOADS {
            mixes.push(self.mix(&mut session, workload).await.context(workload)?);
        }
        for statement in ["SET GLOBAL log_output = 'TABLE'", "SET GLOBAL general_log = 1"] {
            session.query_drop(statement).await?;
        }
        let mut all = Vec::new();
        for distribution in ["uniform", "gaussian", "special", "pareto"] {
            all.push(self.keys(&mut session, distribution).await.context(distribution)?);
        }
        session.disconnect().await?;
        Ok(Likeness { mixes, keys: all })
    }

    async fn mix(&self, session: &mut Conn, workload: &str) -> anyhow::Result<Mix> {
        self.digests(session).await?;
        let arguments = sysbench::events(self.server.address, ROWS, workload, EVENTS, "special");
        self.sysbench(&arguments).await?;
        let theirs = self.digests(session).await?;
        let headroom_events = self.headroom(workload, "special", false).await?;
        let ours = self.digests(session).await?;
        let mut all: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        theirs.into_iter().for_each(|(digest, count)| all.entry(digest).or_default().0 = count);
        ours.into_iter().for_each(|(digest, count)| all.entry(digest).or_default().1 = count);
        let events = u64::from(EVENTS);
        let same = all.values().all(|(theirs, ours)| theirs * headroom_events == ours * events);
        let workload = workload.to_owned();
        Ok(Mix { workload, sysbench_events: events, headroom_events, digests: all, same })
    }

    /// Statements by digest since the last call, all of them counted.
    async fn digests(&self, session: &mut Conn) -> anyhow::Result<BTreeMap<String, u64>> {
        self.server.wait_gone(super::GRACE).await?;
        digests(session).await
    }

    async fn keys(&self, session: &mut Conn, distribution: &'static str) -> anyhow::Result<Keys> {
        logged(session).await?;
        let mut arguments =
            sysbench::events(self.server.address, ROWS, "oltp_read_only", KEY_EVENTS, distribution);
        arguments.insert(1, "--range-selects=off".to_owned());
        self.sysbench(&arguments).await?;
        let theirs = logged(session).await?;
        self.headroom("oltp_read_only", distribution, true).await?;
        let ours = logged(session).await?;
        let difference = chi_square::compare(&theirs, &ours);
        Ok(Keys { distribution, sysbench: theirs.len(), headroom: ours.len(), difference })
    }

    async fn sysbench(&self, arguments: &[String]) -> anyhow::Result<()> {
        let (text, _) = client(command(self.sysbench), arguments, &self.log, SECONDS).await?;
        sysbench::parse(&text)?;
        Ok(())
    }

    /// Sends for a while; returns how many events were begun: all of them are finished.
    async fn headroom(&self, workload: &str, distribution: &str, only_points: bool) -> anyhow::Result<u64> {
        let mut given = vec![
            ("--table-size", ROWS.to_string()),
            ("--distribution", distribution.to_owned()),
            ("--clients", "1".to_owned()),
            ("--time", format!("{SECONDS}s")),
            ("--text", String::new()),
        ];
        given.extend(only_points.then(|| ("--no-range-selects", String::new())));
        let arguments = env::load(workload, self.server.address, &given);
        let (text, _) = client(command(&ourselves()?), &arguments, &self.log, SECONDS).await?;
        let found = env::outcome(&text)?;
        if figure(&found, "/totals/failed")? > 0.0 {
            bail!("transactions failed: {}", found["totals"]["errors"]);
        }
        Ok(figure(&found, "/totals/arrivals")? as u64)
    }
}

/// Statements by digest since the last call.
async fn digests(session: &mut Conn) -> anyhow::Result<BTreeMap<String, u64>> {
    let found: Vec<(String, u64)> = session
        .query(format!(
            "SELECT DIGEST_TEXT, COUNT_STAR FROM performance_schema.events_statements_summary_by_digest \
             WHERE SCHEMA_NAME = '{}' AND DIGEST_TEXT IS NOT NULL AND DIGEST_TEXT NOT LIKE 'SET%'",
            sysbench::DATABASE
        ))
        .await?;
    session.query_drop("TRUNCATE performance_schema.events_statements_summary_by_digest").await?;
    Ok(found.into_iter().collect())
}

/// Keys of point selects since the last call.
async fn logged(session: &mut Conn) -> anyhow::Result<Vec<u32>> {
    let statements: Vec<String> = session
        .query(
            "SELECT argument FROM mysql.general_log WHERE command_type = 'Query' \
             AND argument LIKE 'SELECT c FROM sbtest_ WHERE id=%'",
        )
        .await?;
    session.query_drop("TRUNCATE mysql.general_log").await?;
    let key = |sql: &String| sql.rsplit_once('=').and_then(|(_, key)| key.trim().parse().ok());
    statements.iter().map(key).collect::<Option<_>>().context("a key that is no number")
}

impl Likeness {
    /// What was asked.
    pub(super) fn promises(&self) -> [Promise; 2] {
        let different: Vec<&str> =
            self.mixes.iter().filter(|mix| !mix.same).map(|mix| mix.workload.as_str()).collect();
        let p = |keys: &Keys| keys.difference.map_or(0.0, |difference| difference.p);
        let all = self.keys.iter().map(|keys| format!("{} p = {:.3}", keys.distribution, p(keys)));
        [
            Promise::new(
                "the same statements per event as sysbench, by the server's digests",
                format!(
                    "{} of {} workloads differ {}",
                    different.len(),
                    self.mixes.len(),
                    different.join(", ")
                ),
                different.is_empty() && !self.mixes.is_empty(),
            ),
            Promise::new(
                "keys by sysbench's distributions: chi-square, p at least 0.001 each",
                all.collect::<Vec<_>>().join(", "),
                self.keys.iter().all(|keys| p(keys) >= LEAST_P) && !self.keys.is_empty(),
            ),
        ]
    }

    /// The tables.
    pub(super) fn tables(&self) -> String {
        let rows = self.mixes.iter().map(|mix| {
            let each = |count: u64, events: u64| format!("{:.3}", count as f64 / events.max(1) as f64);
            let all = |of: fn(&(u64, u64)) -> u64| mix.digests.values().map(of).sum::<u64>();
            vec![
                mix.workload.clone(),
                mix.digests.len().to_string(),
                each(all(|counts| counts.0), mix.sysbench_events),
                each(all(|counts| counts.1), mix.headroom_events),
                if mix.same { "yes" } else { "NO" }.to_owned(),
            ]
        });
        let head =
            ["workload", ">digests", ">statements an event, sysbench", ">headroom", "each digest the same"];
        let mut text = section("Statements by the server's digests", &head, rows);
        let rows = self.keys.iter().map(|keys| {
            let mut cells =
                vec![keys.distribution.to_owned(), keys.sysbench.to_string(), keys.headroom.to_string()];
            cells.extend(match keys.difference {
                Some(found) => {
                    [format!("{:.1}", found.chi_square), found.degrees.to_string(), format!("{:.3}", found.p)]
                }
                None => ["-".to_owned(), "-".to_owned(), "-".to_owned()],
            });
            cells
        });
        let head = ["keys", ">of sysbench", ">of headroom", ">chi-square", ">degrees", ">p"];
        text.push_str(&section("Keys of point selects, from the server's general log", &head, rows));
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_that_comes_more_often_and_keys_of_another_law_break_the_promise() {
        let mix = |same| Mix {
            workload: "oltp_x".to_owned(),
            sysbench_events: 300,
            headroom_events: 600,
            digests: [("SELECT ?".to_owned(), (300, 600))].into(),
            same,
        };
        let keys = |p| Keys {
            distribution: "uniform",
            sysbench: 10,
            headroom: 10,
            difference: Some(Difference { chi_square: 1.0, degrees: 24, p }),
        };
        let met = |same, p| {
            Likeness { mixes: vec![mix(same)], keys: vec![keys(p)] }.promises().map(|p| p.met == Some(true))
        };
        assert_eq!(met(true, 0.4), [true, true]);
        assert_eq!(met(false, 0.0001), [false, false]);
        let text = Likeness { mixes: vec![mix(true)], keys: vec![keys(0.4)] }.tables();
        assert!(text.contains("| oltp_x   |       1 |") && text.contains("0.400"), "{text}");
    }
}
