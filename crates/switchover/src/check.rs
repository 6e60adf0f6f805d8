//! What must hold before a primary is moved: one table of checks, each a pure function of what was read.
//!
//! A check passes, warns (the switchover may go on, and somebody should know) or stops it. Each says its
//! facts and the command that mends it. What could not be read is never a pass: it warns and says which
//! privilege is missing.

use crate::facts::Facts;
use crate::failover::exposure::Exposure;
use crate::failover::rejoin;
use crate::login::{self, LedTo, LoginAttempt};
use crate::semi_sync::{self as plugins, Switches};
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
#[derive(Clone, Debug, PartialEq, Serialize)]
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
}

impl Default for Limits {
    fn default() -> Self {
        Self { lag: Duration::from_secs(10), transaction: Duration::from_secs(5) }
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
    Check { name: "one writer", why: "a second writable server would diverge", run: one_writer },
    Check { name: "candidate follows", why: "only a replica of the primary has its data", run: follows },
    Check { name: "channels", why: "which one is changed must be beyond doubt", run: channels },
    Check { name: "threads run", why: "a stopped replica never catches up", run: threads_run },
    Check { name: "GTID", why: "replicas are moved by position, never by file and offset", run: gtid },
    Check { name: "binary log", why: "the others replicate from it afterwards", run: binary_log },
    Check { name: "version", why: "an older server cannot read a newer one's log", run: version },
    Check {
        name: "formats",
        why: "a primary with another binlog_format changes what replicas get",
        run: formats,
    },
    Check {
        name: "errant transactions",
        why: "they would spread to everybody, or break replication",
        run: errant,
    },
    Check {
        name: "purged logs",
        why: "a replica that lacks what the candidate has purged cannot follow it",
        run: purged,
    },
    Check { name: "lag", why: "writes wait until the candidate has everything", run: lag },
    Check { name: "open transactions", why: "the freeze waits for them", run: transactions },
    Check { name: "XA", why: "a prepared transaction is not moved", run: prepared },
    Check { name: "locks", why: "a backup or LOCK TABLES delays the freeze", run: locks },
    Check { name: "events", why: "they must run on the new primary only", run: events },
    Check { name: "accounts", why: "clients must be able to log in there", run: accounts },
    Check { name: "variables", why: "a primary behaves as its variables say", run: variables },
    Check { name: "semi-sync", why: "what was acknowledged must be on a replica", run: semi_sync },
    Check {
        name: "semi-sync plugins",
        why: "the new primary waits for an acknowledgement, and somebody must give it",
        run: semi_sync_plugins,
    },
    Check {
        name: "silence is noticed",
        why: "replicas that wait a minute for a dead source delay a failover",
        run: net_timeout,
    },
    Check {
        name: "commit order",
        why: "a replica that commits out of order shows states that never were",
        run: commit_order,
    },
    Check { name: "warmth", why: "a cold buffer pool makes the first minutes slow", run: warmth },
    Check { name: "free disk", why: "a primary whose disk is full hangs at its next commit", run: free_disk },
    Check { name: "clocks", why: "lag and times are compared across hosts", run: clocks },
    Check {
        name: "replication account",
        why: "the former primary must be able to follow",
        run: replication_login,
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

fn one_writer(s: &Situation<'_>) -> Outcome {
    if s.primary.refuses_writes() {
        let mend = format!("on {}: SET GLOBAL read_only = OFF", s.primary.server);
        return stop(format!("{} refuses writes", s.primary.server), mend);
    }
    let alone = format!("{} alone takes writes", s.primary.server);
    nobody(
        replicas(s),
        |facts| !facts.refuses_writes(),
        &alone,
        |writable| {
            stop(format!("{writable} take writes too"), format!("on {writable}: SET GLOBAL read_only = ON"))
        },
    )
}

/// Statements address the default channel: of a server with others the wrong one would be moved.
fn channels(s: &Situation<'_>) -> Outcome {
    if let Some(channel) = s.primary.channels.first() {
        return stop(
            format!(
                "the primary {} itself replicates from {}:{}",
                s.primary.server, channel.host, channel.port
            ),
            format!(
                "where that is left from before, on {}: {}; else move a primary that follows nobody",
                s.primary.server,
                s.primary.dialect().forget_source()
            ),
        );
    }
    let moved = |facts: &&Facts| {
        facts.server == s.candidate.server || facts.channels.iter().any(|c| is_source(s.primary, c))
    };
    for facts in replicas(s).filter(moved) {
        if facts.channels.len() > 1 {
            return stop(
                format!("{} has {} channels", facts.server, facts.channels.len()),
                "a server that replicates from several sources is not moved by this tool",
            );
        }
        if let Some(channel) = facts.channels.iter().find(|channel| !channel.name.is_empty()) {
            return stop(
                format!("{} replicates by a channel named '{}'", facts.server, channel.name),
                format!(
                    "on {}: {}, and follow the primary by the default channel",
                    facts.server,
                    facts.dialect().forget_channel(&channel.name)
                ),
            );
        }
    }
    pass("the primary follows nobody, and its replicas have one channel each, without a name")
}

fn follows(s: &Situation<'_>) -> Outcome {
    let Some(channel) = s.candidate.channels.first() else {
        let facts = format!("{} replicates from nobody", s.candidate.server);
        return stop(facts, "choose a replica of the primary");
    };
    let from = format!("{}:{}", channel.host, channel.port);
    match is_source(s.primary, channel) {
        true if channel.leaves_out().is_some() => stop(
            format!("{}: {}", s.candidate.server, channel.leaves_out().unwrap_or_default()),
            "choose a replica without filters: this one lacks data",
        ),
        true => pass(format!("{} replicates from {from}", s.candidate.server)),
        false => stop(
            format!("{} replicates from {from}, which is not {}", s.candidate.server, s.primary.server),
            "choose a direct replica of the primary, or move that replica first",
        ),
    }
}

/// Whether a channel reads from this server. Its number says so, whatever address leads there (NAT, tunnels);
/// before the first contact only the address is known.
pub(crate) fn is_source(server: &Facts, channel: &crate::facts::Channel) -> bool {
    if channel.source_id != 0 {
        return channel.source_id == server.server_id;
    }
    let port = server.variable(&["report_port"]).filter(|port| *port != "0").or(server.variable(&["port"]));
    let same_port = port.is_some_and(|ours| ours.parse() == Ok(channel.port));
    let reported = server.variable(&["report_host"]).filter(|host| !host.is_empty());
    let hosts = reported.into_iter().chain(server.variable(&["hostname"])).chain(server.reach.host());
    same_port && hosts.into_iter().any(|host| host == channel.host)
}

fn threads_run(s: &Situation<'_>) -> Outcome {
    for facts in replicas(s) {
        for channel in &facts.channels {
            if channel.receiver_runs && channel.applier_runs {
                continue;
            }
            let which = if channel.receiver_runs { "applying" } else { "receiving" };
            let error = if channel.last_error.is_empty() {
                String::new()
            } else {
                format!(": {}", channel.last_error)
            };
            let text = format!("the {which} thread of {} does not run{error}", facts.server);
            let mend = format!("on {}: {}", facts.server, facts.dialect().start_replication());
            return if facts.server == s.candidate.server { stop(text, mend) } else { warn(text, mend) };
        }
    }
    pass(format!("on {}", names(replicas(s))))
}

fn gtid(s: &Situation<'_>) -> Outcome {
    for facts in everybody(s) {
        if !facts.dialect().is_mariadb() && facts.is_on(&["gtid_mode"]) != Some(true) {
            let mend = format!("on {}: gtid_mode = ON, enforce_gtid_consistency = ON", facts.server);
            return stop(format!("gtid_mode is off on {}", facts.server), mend);
        }
        if let Some(channel) = facts.channels.iter().find(|channel| !channel.by_gtid) {
            let text = format!("{} follows {} by file and offset", facts.server, channel.host);
            return stop(text, format!("on {}: {}", facts.server, facts.dialect().go_by_gtid()));
        }
    }
    let loose = |facts: &Facts| facts.is_on(&["gtid_strict_mode"]) == Some(false);
    nobody(everybody(s), loose, "all servers go by GTID", |loose| {
        warn(
            format!("gtid_strict_mode is off on {loose}"),
            "SET GLOBAL gtid_strict_mode = ON: out-of-order transactions are refused instead of mixed in",
        )
    })
}

fn binary_log(s: &Situation<'_>) -> Outcome {
    let on = |names: &[&str]| s.candidate.is_on(names) == Some(true);
    if !on(&["log_bin"]) {
        return stop(
            format!("{} writes no binary log", s.candidate.server),
            "log_bin in its option file, and a restart",
        );
    }
    if !on(&["log_replica_updates", "log_slave_updates"]) {
        let text = format!("{} does not log what it replicates", s.candidate.server);
        return stop(text, "log_slave_updates (log_replica_updates) = ON in its option file, and a restart");
    }
    pass(format!("{} logs, replicated changes included", s.candidate.server))
}

fn version(s: &Situation<'_>) -> Outcome {
    let newer = s.others.iter().chain([s.primary]).find(|facts| {
        let (a, b) = (facts.version.numbers(), s.candidate.version.numbers());
        (a.0, a.1) < (b.0, b.1)
    });
    if s.primary.version.flavour != s.candidate.version.flavour {
        return stop(
            "the primary and the candidate are of two flavours",
            "choose a candidate of the same flavour",
        );
    }
    match newer {
        Some(facts) => stop(
            format!("{} is older than {}: it cannot follow it", facts.server, s.candidate.server),
            "upgrade replicas before the primary, or choose a candidate with the oldest version",
        ),
        None => pass(format!("no server is older than {}", s.candidate.server)),
    }
}

fn formats(s: &Situation<'_>) -> Outcome {
    for name in ["binlog_format", "binlog_row_image"] {
        let (ours, theirs) = (s.primary.variable(&[name]), s.candidate.variable(&[name]));
        if ours != theirs {
            let text =
                format!("{name} is {} on the primary, {} on the candidate", or_none(ours), or_none(theirs));
            let mend = format!("on {}: SET GLOBAL {name} = {}", s.candidate.server, or_none(ours));
            return warn(text, mend);
        }
    }
    pass("binlog_format and binlog_row_image agree")
}

fn or_none(value: Option<&str>) -> &str {
    value.unwrap_or("not there")
}

fn errant(s: &Situation<'_>) -> Outcome {
    for facts in replicas(s) {
        if let Some(errant) = facts.lacking_in(s.primary) {
            let mend = format!(
                "find what it is ({errant}); then rebuild {}, or bring it into the primary with an empty transaction of that GTID",
                facts.server
            );
            return stop(format!("{} has {errant}, which the primary does not have", facts.server), mend);
        }
    }
    wrote_itself(s)
}

/// On MariaDB a position holds the last transaction of a domain only: one that a replica wrote itself is
/// hidden by the next one that it replicates under a higher number (`gtid_strict_mode = OFF`). The state of
/// its binary log names the last one of each server.
fn wrote_itself(s: &Situation<'_>) -> Outcome {
    const STATE: &[&str] = &["gtid_binlog_state"];
    let nothing = "no replica has anything that the primary does not have";
    let Some(primary) = s.primary.variable(STATE) else { return pass(nothing) };
    let mut unknown = Vec::new();
    for facts in replicas(s) {
        let own = rejoin::written_by(facts.server_id, facts.variable(STATE).unwrap_or_default(), primary);
        let own = match own {
            Ok(own) => own,
            Err(error) => {
                return warn(
                    format!(
                        "the binary log state of {} or of the primary cannot be read: {error}",
                        facts.server
                    ),
                    "SELECT @@GLOBAL.gtid_binlog_state on both",
                );
            }
        };
        let mend = format!("look at it: mariadb-binlog over its binary logs; then rebuild {}", facts.server);
        if let Some(lacking) = own.lacking {
            return stop(
                format!("{} wrote {lacking} itself, which the primary does not have", facts.server),
                mend,
            );
        }
        // A primary that was rebuilt from a backup has no record of what everybody has.
        unknown.extend(own.unknown.map(|unknown| (format!("{} wrote {unknown} itself", facts.server), mend)));
    }
    match unknown.into_iter().next() {
        Some((text, mend)) => warn(
            format!(
                "{text}; the log of the primary has no record of that server, so nobody can tell whether the \
                 primary has it"
            ),
            mend,
        ),
        None => pass(nothing),
    }
}

fn purged(s: &Situation<'_>) -> Outcome {
    let candidate = s.candidate;
    let Some(purged) = &candidate.purged else {
        return warn(
            format!("what {} has purged cannot be read", candidate.server),
            "GRANT BINLOG MONITOR (MariaDB)",
        );
    };
    for other in s.others {
        let lacks = |position: &str| crate::facts::beyond(candidate.version.flavour, purged, position);
        // A replica that does not log what it applies has it in its other position.
        let applied = other.variable(&["gtid_slave_pos"]);
        let missing =
            lacks(&other.position).filter(|_| applied.is_none_or(|applied| lacks(applied).is_some()));
        let Some(missing) = missing else { continue };
        return stop(
            format!("{} lacks {missing}, which {} has purged", other.server, candidate.server),
            format!("wait until {} has caught up, or rebuild it from a backup", other.server),
        );
    }
    pass(format!("{} has all that the others lack", candidate.server))
}

fn lag(s: &Situation<'_>) -> Outcome {
    let behind = s.candidate.channels.first().and_then(|channel| channel.seconds_behind);
    match behind {
        None => {
            stop(format!("{} does not say how far behind it is", s.candidate.server), "see 'threads run'")
        }
        Some(seconds) if seconds > s.limits.lag.as_secs() => stop(
            format!("{} is {seconds} s behind, allowed are {} s", s.candidate.server, s.limits.lag.as_secs()),
            "wait until it has caught up, or allow more with --max-lag",
        ),
        Some(seconds) => pass(format!("{} is {seconds} s behind by its own figure", s.candidate.server)),
    }
}

fn transactions(s: &Situation<'_>) -> Outcome {
    let limit = s.limits.transaction.as_secs();
    let Some(blockers) = &s.primary.blockers else {
        return warn(
            format!("open transactions of {} cannot be read", s.primary.server),
            format!("on {}: GRANT PROCESS", s.primary.server),
        );
    };
    let old: Vec<_> = blockers.iter().filter(|blocker| blocker.seconds >= limit.max(1)).collect();
    match old.first() {
        None => pass(format!("none older than {limit} s on {}", s.primary.server)),
        Some(first) => stop(
            format!(
                "{} older than {limit} s; session {} of {}: {} for {} s",
                old.len(),
                first.session,
                first.who,
                first.what,
                first.seconds
            ),
            format!("end it, or on {}: KILL {}", s.primary.server, first.session),
        ),
    }
}

fn prepared(s: &Situation<'_>) -> Outcome {
    match s.primary.prepared.as_ref().map(Vec::len) {
        None => warn(
            format!("prepared transactions of {} cannot be read", s.primary.server),
            "GRANT XA_RECOVER_ADMIN (MySQL) to the account",
        ),
        Some(0) => pass("none prepared"),
        Some(n) => stop(
            format!("{n} prepared XA transactions on {}", s.primary.server),
            "XA RECOVER shows them; XA COMMIT or XA ROLLBACK each",
        ),
    }
}

fn locks(s: &Situation<'_>) -> Outcome {
    const WORDS: [&str; 4] = ["read lock", "backup", "metadata lock", "flush"];
    let waits = |what: &str| WORDS.iter().any(|word| what.to_ascii_lowercase().contains(word));
    let waiting = s.primary.blockers.iter().flatten().find(|blocker| waits(&blocker.what));
    match s.primary.lock_holders.iter().flatten().next().or(waiting) {
        Some(blocker) => stop(
            format!(
                "session {} of {}: {} for {} s",
                blocker.session, blocker.who, blocker.what, blocker.seconds
            ),
            format!(
                "wait until the backup or the DDL is over, or on {}: KILL {}",
                s.primary.server, blocker.session
            ),
        ),
        None if s.primary.lock_holders.is_none() => warn(
            format!(
                "nobody waits for a global or metadata lock; whether an idle session of {} holds one is not known, and \
                 the freeze would find out and be undone",
                s.primary.server
            ),
            match s.primary.dialect().is_mariadb() {
                true => format!("on {}: INSTALL SONAME 'metadata_lock_info'", s.primary.server),
                false => "GRANT SELECT ON performance_schema.* to the account".to_owned(),
            },
        ),
        None => pass("nobody holds or waits for a global or metadata lock"),
    }
}

fn events(s: &Situation<'_>) -> Outcome {
    let Some(events) = &s.primary.events else {
        return warn(
            format!("events of {} cannot be read, and would not be moved", s.primary.server),
            "GRANT EVENT ON *.* to the account",
        );
    };
    if events.is_empty() {
        return pass("none enabled");
    }
    let moved = format!(
        "{} enabled on {}: {} enables them, {} stops running them",
        events.len(),
        s.primary.server,
        s.candidate.server,
        s.primary.server
    );
    let grant = || match (s.candidate.dialect().is_mariadb(), s.candidate.version.mysql_from((8, 2, 0))) {
        (true, _) => "GRANT SET USER ON *.* to the account",
        (false, true) => "GRANT SET_ANY_DEFINER ON *.* to the account",
        (false, false) => "GRANT SET_USER_ID ON *.* to the account",
    };
    match &s.candidate.may_set_definer {
        None => warn(format!("{moved}; whether it may keep their definers is not known"), grant()),
        // Enabled as another account, it would run with other privileges, or fail.
        Some((account, false)) if events.iter().any(|event| event.definer != *account) => {
            let other = events.iter().find(|event| event.definer != *account);
            let definer = other.map_or("", |event| event.definer.as_str());
            stop(format!("{moved}; {account} may not enable those of {definer}"), grant())
        }
        Some(_) => warn(moved, "nothing, if they may run there; else ALTER EVENT ... DISABLE first"),
    }
}

fn accounts(s: &Situation<'_>) -> Outcome {
    let (Some(ours), Some(theirs)) = (&s.primary.accounts, &s.candidate.accounts) else {
        return warn(
            "accounts cannot be compared",
            "GRANT SELECT ON mysql.user, or mysql.global_priv, to the account",
        );
    };
    let candidate = &s.candidate.server;
    let missing: Vec<&str> =
        ours.keys().filter(|name| !theirs.contains_key(*name)).map(String::as_str).take(5).collect();
    if !missing.is_empty() {
        return stop(
            format!("missing on {candidate}: {}", missing.join(", ")),
            "create them there, or replicate the mysql schema",
        );
    }
    let differs =
        |(name, digest): &(&String, &Option<u64>)| theirs.get(*name).is_some_and(|other| other != *digest);
    let differing: Vec<&str> = ours.iter().filter(differs).map(|(name, _)| name.as_str()).take(5).collect();
    if !differing.is_empty() {
        return warn(
            format!("privileges or passwords differ on {candidate}: {}", differing.join(", ")),
            format!(
                "SHOW GRANTS and SHOW CREATE USER on both; then on {candidate}: SET sql_log_bin = 0, GRANT, ALTER USER"
            ),
        );
    }
    let unread = ours.values().filter(|digest| digest.is_none()).count();
    if unread > 0 {
        return warn(
            format!(
                "all {} of the primary are on {candidate}; what {unread} of them may do cannot be compared",
                ours.len()
            ),
            "GRANT SELECT ON mysql.* to the account",
        );
    }
    pass(format!("all {} of the primary are on {candidate}, with the same privileges", ours.len()))
}

/// What changes behaviour or durability when the primary has another value.
const COMPARED: [&str; 14] = [
    "sql_mode",
    "max_connections",
    "max_allowed_packet",
    "innodb_flush_log_at_trx_commit",
    "sync_binlog",
    "innodb_buffer_pool_size",
    "character_set_server",
    "collation_server",
    "lower_case_table_names",
    "time_zone",
    "transaction_isolation",
    "tx_isolation",
    "innodb_doublewrite",
    "event_scheduler",
];

fn variables(s: &Situation<'_>) -> Outcome {
    let differs = |name: &&str| {
        let (ours, theirs) = (s.primary.variable(&[name]), s.candidate.variable(&[name]));
        (ours != theirs).then(|| format!("{name} {} -> {}", or_none(ours), or_none(theirs)))
    };
    let differing: Vec<String> = COMPARED.iter().filter_map(differs).collect();
    if differing.is_empty() {
        return pass(format!("{} that matter agree", COMPARED.len()));
    }
    warn(differing.join(", "), format!("set them on {} before", s.candidate.server))
}

fn semi_sync(s: &Situation<'_>) -> Outcome {
    if !s.primary.semi_sync_source() {
        let measured = s.exposure.map_or(String::new(), |exposure| format!("; {exposure}"));
        return warn(
            format!(
                "off on {}: a crash loses what was acknowledged and is on no replica (a switchover loses nothing){measured}",
                s.primary.server
            ),
            "docs/guide/failover.md tells how to switch it on",
        );
    }
    let active = s.primary.variable(&["rpl_semi_sync_master_timeout", "rpl_semi_sync_source_timeout"]);
    let status = ["rpl_semi_sync_master_status", "rpl_semi_sync_source_status"];
    let on = status
        .iter()
        .find_map(|name| s.primary.status.get(*name))
        .is_some_and(|value| value.eq_ignore_ascii_case("on"));
    if !on {
        return warn(
            "switched on, but fallen back to asynchronous",
            "see why no replica acknowledges: threads, rpl_semi_sync_*_enabled on replicas",
        );
    }
    pass(format!("on and acknowledged; falls back after {} ms", or_none(active)))
}

fn semi_sync_plugins(s: &Situation<'_>) -> Outcome {
    if !s.primary.semi_sync_source() {
        return pass("semi-sync is off");
    }
    let (primary, candidate) = (&s.primary.server, &s.candidate.server);
    let [source, _] = plugins::install(s.candidate.version);
    if Switches::of(s.candidate).source.is_none() {
        return stop(
            format!("{candidate} cannot be a semi-sync source: the plugin is not installed"),
            format!("on {candidate}: {source}"),
        );
    }
    if Switches::of(s.primary).replica.is_some() {
        return pass(format!("{candidate} can be a source, {primary} a replica"));
    }
    let acknowledges = |facts: &&Facts| {
        Switches::of(facts).replica.is_some_and(|switch| switch.on)
            && facts.channels.iter().any(|channel| is_source(s.primary, channel))
    };
    let [_, replica] = plugins::install(s.primary.version);
    let mend = format!("on {primary}: {replica}");
    let text = format!("{primary} cannot be a semi-sync replica: the plugin is not installed");
    if s.others.iter().any(|facts| acknowledges(&facts)) {
        return warn(format!("{text}; others acknowledge"), mend);
    }
    stop(format!("{text}, and nobody else would acknowledge what {candidate} commits"), mend)
}

fn net_timeout(s: &Situation<'_>) -> Outcome {
    let slow = |facts: &Facts| {
        let timeout =
            facts.variable(&["replica_net_timeout", "slave_net_timeout"]).and_then(|t| t.parse::<u64>().ok());
        timeout.is_none_or(|seconds| seconds > 10)
    };
    nobody(replicas(s), slow, "replica_net_timeout is at most 10 s everywhere", |slow| {
        warn(
            format!("replica_net_timeout is above 10 s on {slow}"),
            "SET GLOBAL replica_net_timeout (slave_net_timeout) = 8, and restart the threads",
        )
    })
}

fn commit_order(s: &Situation<'_>) -> Outcome {
    let loose = |facts: &Facts| {
        let parallel = facts.variable(&["replica_parallel_workers", "slave_parallel_workers"]);
        !facts.dialect().is_mariadb()
            && parallel.is_some_and(|workers| workers != "0" && workers != "1")
            && facts.is_on(&["replica_preserve_commit_order", "slave_preserve_commit_order"]) == Some(false)
    };
    nobody(replicas(s), loose, "replicas commit in the primary's order", |loose| {
        warn(
            format!("replica_preserve_commit_order is off on {loose}"),
            "SET GLOBAL replica_preserve_commit_order = ON, with the applier stopped",
        )
    })
}

/// Share of logical reads that went to disk since the server started: the only figure that both flavours
/// always have.
fn miss_rate(facts: &Facts) -> Option<f64> {
    let requests = facts.counter("innodb_buffer_pool_read_requests")?;
    let reads = facts.counter("innodb_buffer_pool_reads")?;
    (requests > 0).then(|| reads as f64 / requests as f64)
}

fn warmth(s: &Situation<'_>) -> Outcome {
    let pages = |facts: &Facts| facts.counter("innodb_buffer_pool_pages_data");
    let (Some(ours), Some(theirs)) = (pages(s.primary), pages(s.candidate)) else {
        return warn("buffer pools cannot be compared", "GRANT PROCESS");
    };
    let rate = |facts: &Facts| {
        miss_rate(facts).map_or("unknown".to_owned(), |rate| format!("{:.2} %", rate * 100.0))
    };
    let text = format!(
        "pages cached: {ours} on the primary, {theirs} on the candidate; reads from disk since start: {}, {}",
        rate(s.primary),
        rate(s.candidate)
    );
    if theirs * 2 < ours {
        return warn(
            text,
            "send it reads first; --wait-warm waits until it misses about as few as the primary",
        );
    }
    pass(text)
}

/// Below this the candidate would hang within minutes of its first writes.
const ROOM_STOPS: u64 = 256 << 20;
/// Below this share somebody should look.
const ROOM_WARNS: f64 = 0.05;

fn free_disk(s: &Situation<'_>) -> Outcome {
    let candidate = &s.candidate.server;
    let Some(disks) = &s.candidate.disks else {
        let look = format!("df -h {} on its host", or_none(s.candidate.variable(&["datadir"])));
        return warn(
            format!("{candidate} does not say how much room its disk has"),
            match s.candidate.dialect().is_mariadb() {
                true => format!(
                    "{look}; or on {candidate}: INSTALL SONAME 'disks', and GRANT FILE to the account"
                ),
                false => format!("{look}: no statement of MySQL tells it"),
            },
        );
    };
    let Some(least) = disks.iter().min_by_key(|room| room.available) else {
        return warn(
            format!("the disk of {candidate} is not among those that it lists"),
            "df -h on its host",
        );
    };
    // Its next binary log must fit, with what is written meanwhile.
    let log =
        s.candidate.variable(&["max_binlog_size"]).and_then(|bytes| bytes.parse().ok()).unwrap_or(1 << 30);
    let share = least.available as f64 / least.total.max(1) as f64;
    let text = format!(
        "{} MiB left ({:.0} %) for the {} of {candidate}",
        least.available >> 20,
        share * 100.0,
        least.holds.join(", ")
    );
    let mend =
        format!("make room in {} on the host of {candidate}, or choose another candidate", least.directory);
    if least.available < ROOM_STOPS {
        return stop(text, mend);
    }
    if share < ROOM_WARNS || least.available < log * 2 {
        return warn(text, mend);
    }
    pass(text)
}

fn clocks(s: &Situation<'_>) -> Outcome {
    let far = everybody(s).max_by_key(|facts| facts.clock_ahead_ms.abs());
    match far {
        Some(facts) if facts.clock_ahead_ms.abs() > 500 => warn(
            format!("{} is {} ms away from this host's clock", facts.server, facts.clock_ahead_ms),
            "run chrony or ntpd there",
        ),
        Some(facts) => pass(format!("within {} ms of this host's", facts.clock_ahead_ms.abs())),
        None => pass("one server"),
    }
}

fn replication_login(s: &Situation<'_>) -> Outcome {
    let (primary, candidate) = (&s.primary.server, &s.candidate.server);
    if !s.has_replication_login {
        return stop(
            format!("{primary} has to follow {candidate} afterwards, with which account?"),
            "--replication-option-file FILE with user and password of an account with REPLICATION SLAVE",
        );
    }
    let Some(login) = s.login else {
        return warn("given, and not tried", "headroom switchover --check tries it");
    };
    let at = format!("{} at {}:{}", login.user, login.host, login.port);
    let address = format!(
        "{primary} will be told this address of {candidate}: correct its report_host and report_port"
    );
    let reported = s.candidate.variable(&["report_host"]).is_some_and(|host| !host.is_empty());
    match &login.led_to {
        LedTo::Server { server_id, .. } if *server_id != s.candidate.server_id => stop(
            format!("{at} leads to server_id {server_id}; {candidate} is {}", s.candidate.server_id),
            address,
        ),
        LedTo::Server { may_replicate: false, .. } => stop(
            format!("{at} may not replicate"),
            format!("GRANT REPLICATION SLAVE ON *.* to {}", login.user),
        ),
        LedTo::Server { .. } if login::is_loopback(&login.host) && is_elsewhere(s.primary) => {
            warn(format!("{at}: from {primary} this address leads to {primary} itself"), address)
        }
        LedTo::Server { .. } => pass(format!("{at} leads to {candidate}")),
        // Access denied, host not allowed: it may be this host alone that is not in the account's name.
        LedTo::Refused { code: 1045 | 1130, why } if of_other_hosts(s.candidate, &login.user) => warn(
            format!(
                "{at} is refused to this host ({why}); the account is of other hosts, perhaps of {primary}"
            ),
            format!(
                "on {primary}, log in with it once: mariadb -h {} -P {} -u {}",
                login.host, login.port, login.user
            ),
        ),
        LedTo::Refused { code, why } => stop(
            format!("{at} is refused: error {code}: {why}"),
            "correct user and password in the file of --replication-option-file, or the account there",
        ),
        // Somebody wrote down this address on purpose: perhaps of a network that only servers are in.
        LedTo::Nowhere { why } if reported && !login::is_loopback(&login.host) => warn(
            format!("{at} cannot be reached from this host: {why}"),
            format!(
                "on {primary}, log in with it once: mariadb -h {} -P {} -u {}",
                login.host, login.port, login.user
            ),
        ),
        LedTo::Nowhere { why } => stop(format!("{at} leads nowhere: {why}"), address),
    }
}

/// Whether a server is on another host than this one.
fn is_elsewhere(facts: &Facts) -> bool {
    facts.reach.host().is_some_and(|host| !login::is_loopback(host))
}

/// Whether all accounts of this user are of certain hosts. No where they cannot be read.
fn of_other_hosts(facts: &Facts, user: &str) -> bool {
    let accounts = facts.accounts.iter().flat_map(|accounts| accounts.keys());
    let mut hosts =
        accounts.filter_map(|name| name.rsplit_once('@')).filter(|(name, _)| *name == user).peekable();
    hosts.peek().is_some() && hosts.all(|(_, host)| host != "%")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::ScheduledEvent;
    use crate::facts::tests::{channel, facts};

    /// What a check says of a fleet of a primary `a1`, its replica `a2`, and others.
    fn found(check: &str, primary: &Facts, candidate: &Facts, others: &[Facts]) -> Finding {
        found_with(check, primary, candidate, others, None)
    }

    fn found_with(
        check: &str,
        primary: &Facts,
        candidate: &Facts,
        others: &[Facts],
        login: Option<&LoginAttempt>,
    ) -> Finding {
        let limits = Limits::default();
        let situation = Situation {
            primary,
            candidate,
            others,
            limits,
            has_replication_login: true,
            login,
            exposure: None,
        };
        all(&situation).into_iter().find(|finding| finding.check == check).unwrap()
    }

    fn set(facts: &mut Facts, variables: &[(&str, &str)]) {
        facts
            .variables
            .extend(variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    }

    /// A primary and its replica.
    fn pair(version: &str) -> (Facts, Facts) {
        let primary = facts("a1", version);
        let mut candidate = facts("a2", version);
        (candidate.server_id, candidate.channels) = (2, vec![channel("a1", 3306, 1)]);
        (primary, candidate)
    }

    #[test]
    fn events_of_others_need_the_privilege_to_keep_their_definers() {
        let (mut primary, mut candidate) = pair("10.11.6-MariaDB");
        let (schema, name) = ("app".to_owned(), "nightly".to_owned());
        primary.events = Some(vec![ScheduledEvent { schema, name, definer: "batch@%".to_owned() }]);
        let level = |candidate: &Facts| found("events", &primary, candidate, &[]).level;
        assert_eq!(level(&candidate), Level::Warn, "not known");
        candidate.may_set_definer = Some(("admin@%".to_owned(), false));
        let stops = found("events", &primary, &candidate, &[]);
        assert!(stops.level == Level::Stop && stops.facts.contains("batch@%"), "{stops:?}");
        assert_eq!(stops.mend.as_deref(), Some("GRANT SET USER ON *.* to the account"));
        candidate.may_set_definer = Some(("batch@%".to_owned(), false));
        assert_eq!(level(&candidate), Level::Warn, "its own");
        candidate.may_set_definer = Some(("admin@%".to_owned(), true));
        assert_eq!(level(&candidate), Level::Warn);
    }

    #[test]
    fn a_channel_with_a_name_or_a_second_one_is_not_moved() {
        let (mut primary, mut candidate) = pair("10.11.6-MariaDB");
        let mut other = facts("b1", "10.11.6-MariaDB");
        other.channels = vec![channel("a1", 3306, 1)];
        let check = "channels";
        let others = [other.clone()];
        assert_eq!(found(check, &primary, &candidate, &others).level, Level::Pass);
        other.channels.push(channel("elsewhere", 3306, 9));
        let second = found(check, &primary, &candidate, &[other.clone()]);
        assert!(second.level == Level::Stop && second.facts == "b1 has 2 channels", "{second:?}");
        other.channels.remove(0);
        let elsewhere = found(check, &primary, &candidate, &[other]);
        assert_eq!(elsewhere.level, Level::Pass, "it does not follow the primary and keeps its source");
        candidate.channels[0].name = "from_a1".to_owned();
        let named = found(check, &primary, &candidate, &[]);
        assert!(named.level == Level::Stop && named.facts.contains("'from_a1'"), "{named:?}");
        assert!(named.mend.unwrap().contains("RESET SLAVE 'from_a1' ALL"));
        candidate.channels[0].name = String::new();
        primary.channels = vec![channel("elsewhere", 3306, 9)];
        assert_eq!(found(check, &primary, &candidate, &[]).level, Level::Stop);
    }

    #[test]
    fn the_account_of_replication_is_tried_and_what_only_this_host_cannot_know_is_a_warning() {
        let (primary, mut candidate) = pair("10.11.6-MariaDB");
        let level = |candidate: &Facts, host: &str, led_to: LedTo| {
            let login = LoginAttempt { user: "repl".to_owned(), host: host.to_owned(), port: 3306, led_to };
            found_with("replication account", &primary, candidate, &[], Some(&login)).level
        };
        let reached = |server_id| LedTo::Server { server_id, may_replicate: true };
        let refused = || LedTo::Refused { code: 1045, why: "Access denied".to_owned() };
        let nowhere = || LedTo::Nowhere { why: "Connection refused".to_owned() };
        assert_eq!(level(&candidate, "a2", reached(2)), Level::Pass);
        assert_eq!(level(&candidate, "a2", reached(1)), Level::Stop, "another server answers there");
        let powerless = LedTo::Server { server_id: 2, may_replicate: false };
        assert_eq!(level(&candidate, "a2", powerless), Level::Stop);
        assert_eq!(level(&candidate, "127.0.0.1", reached(2)), Level::Warn, "a1 would follow itself");
        assert_eq!(level(&candidate, "a2", refused()), Level::Stop);
        let accounts = |host: &str| Some([(format!("repl@{host}"), None)].into());
        candidate.accounts = accounts("%");
        assert_eq!(level(&candidate, "a2", refused()), Level::Stop, "any host may, so the password is wrong");
        candidate.accounts = accounts("10.0.0.%");
        assert_eq!(level(&candidate, "a2", refused()), Level::Warn, "this host may be the wrong one");
        assert_eq!(level(&candidate, "a2", nowhere()), Level::Stop);
        set(&mut candidate, &[("report_host", "a2.servers")]);
        assert_eq!(level(&candidate, "a2.servers", nowhere()), Level::Warn, "a network of servers");
    }

    #[test]
    fn what_a_replica_wrote_itself_is_seen_behind_what_it_replicated_later() {
        let (mut primary, mut candidate) = pair("10.11.6-MariaDB");
        (primary.position, candidate.position) = ("0-1-105".to_owned(), "0-1-105".to_owned());
        set(&mut candidate, &[("gtid_binlog_state", "0-2-101,0-1-105")]);
        set(&mut primary, &[("gtid_binlog_state", "0-2-100,0-1-105")]);
        let check = "errant transactions";
        let errant = found(check, &primary, &candidate, &[]);
        assert!(errant.level == Level::Stop && errant.facts.contains("0-2-101"), "{errant:?}");
        set(&mut primary, &[("gtid_binlog_state", "0-2-101,0-1-105")]);
        assert_eq!(found(check, &primary, &candidate, &[]).level, Level::Pass);
        set(&mut primary, &[("gtid_binlog_state", "0-1-105")]);
        assert_eq!(found(check, &primary, &candidate, &[]).level, Level::Warn, "it may have been rebuilt");
        set(&mut candidate, &[("gtid_binlog_state", "0-1-106")]);
        assert_eq!(found(check, &primary, &candidate, &[]).level, Level::Pass, "not of its own");
    }

    #[test]
    fn semi_sync_is_moved_only_to_a_server_that_can_go_on_with_it() {
        let (mut primary, mut candidate) = pair("8.0.36");
        let check = "semi-sync plugins";
        assert_eq!(found(check, &primary, &candidate, &[]).level, Level::Pass, "it is off");
        set(&mut primary, &[("rpl_semi_sync_source_enabled", "ON")]);
        let missing = found(check, &primary, &candidate, &[]);
        assert_eq!(missing.level, Level::Stop);
        assert!(missing.mend.unwrap().contains("semisync_source.so"));
        set(&mut candidate, &[("rpl_semi_sync_master_enabled", "OFF")]);
        let missing = found(check, &primary, &candidate, &[]);
        assert!(
            missing.level == Level::Stop && missing.facts.starts_with("a1 cannot be a semi-sync replica")
        );
        let mut other = facts("b1", "8.0.36");
        other.channels = vec![channel("a1", 3306, 1)];
        set(&mut other, &[("rpl_semi_sync_replica_enabled", "ON")]);
        assert_eq!(found(check, &primary, &candidate, &[other]).level, Level::Warn, "b1 acknowledges");
        set(&mut primary, &[("rpl_semi_sync_slave_enabled", "OFF")]);
        assert_eq!(found(check, &primary, &candidate, &[]).level, Level::Pass, "older names count too");
        let (mut primary, candidate) = pair("8.0.25");
        set(&mut primary, &[("rpl_semi_sync_master_enabled", "ON")]);
        assert!(found(check, &primary, &candidate, &[]).mend.unwrap().contains("semisync_master.so"));
    }
}
