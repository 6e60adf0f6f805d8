//! Whether positions may be compared and the freeze finds nothing in its way: GTIDs, logs, errant
//! transactions, open and prepared ones, locks.

use super::{Outcome, Situation, everybody, is_source, nobody, pass, replicas, stop, warn};
use crate::facts::Facts;
use crate::failover::rejoin;
use fleet::GtidPosition;
use std::collections::BTreeSet;

pub(super) fn gtid(s: &Situation<'_>) -> Outcome {
    for facts in everybody(s) {
        let mode = facts.variable(&["gtid_mode"]).unwrap_or("OFF");
        if !facts.dialect().is_mariadb() && !["ON", "ON_PERMISSIVE"].contains(&mode) {
            let mend = format!("on {}: gtid_mode = ON, enforce_gtid_consistency = ON", facts.server);
            return stop(format!("gtid_mode is {mode} on {}", facts.server), mend);
        }
        if let Some(channel) = facts.channels.iter().find(|channel| !channel.by_gtid) {
            let text = format!("{} follows {} by file and offset", facts.server, channel.host);
            return stop(text, format!("on {}: {}", facts.server, facts.dialect().go_by_gtid()));
        }
    }
    if let Some(mode) = s.candidate.gtid_mode_that_nobody_can_follow() {
        let candidate = &s.candidate.server;
        return stop(
            format!("gtid_mode is {mode} on {candidate}: servers that go by GTID follow one with ON only"),
            format!("on {candidate}: SET GLOBAL gtid_mode = ON"),
        );
    }
    if let Some(outcome) = domains_that_never_come(s) {
        return outcome;
    }
    let loose = |facts: &Facts| facts.is_on(&["gtid_strict_mode"]) == Some(false);
    nobody(everybody(s), loose, "all servers go by GTID", |loose| {
        warn(
            format!("gtid_strict_mode is off on {loose}"),
            "SET GLOBAL gtid_strict_mode = ON: out-of-order transactions are refused instead of mixed in",
        )
    })
}

/// *Catch up* waits on the candidate for every domain of a MariaDB primary, by what was replicated there. A
/// replica that was made from a backup follows without an error and never gets one whose logs were removed by
/// then.
fn domains_that_never_come(s: &Situation<'_>) -> Option<Outcome> {
    if !s.primary.dialect().is_mariadb() || !s.candidate.dialect().is_mariadb() {
        return None;
    }
    let (primary, candidate) = (&s.primary.server, &s.candidate.server);
    let written: GtidPosition = s.primary.position.parse().ok()?;
    let replicated = s.candidate.variable(&["gtid_slave_pos"]).unwrap_or(&s.candidate.position);
    let replicated: GtidPosition = replicated.parse().ok()?;
    // The first write of the move comes there in any case.
    let writes_in = s.primary.variable(&["gtid_domain_id"]).and_then(|domain| domain.parse::<u32>().ok());
    let never_comes = |domain| replicated.domain(domain).is_none() && writes_in != Some(domain);
    let missing = written.only(never_comes);
    let domains: Vec<String> = missing.domains().map(|(domain, _)| domain.to_string()).collect();
    let domains = domains.join(",");
    (!missing.is_empty()).then(|| {
        stop(
            format!(
                "{candidate} has replicated nothing of GTID domain {domains}, in which {primary} has \
                 {missing}: the move would wait for that in vain"
            ),
            format!(
                "if it has only begun, wait until {candidate} has it; if nothing uses it any more, on \
                 {primary}, once its binary logs that have it are purged: FLUSH BINARY LOGS \
                 DELETE_DOMAIN_ID=({domains}); if {candidate} has its data, on {candidate}: STOP SLAVE; \
                 SET GLOBAL gtid_slave_pos = '{}'; START SLAVE",
                replicated.union(&missing)
            ),
        )
    })
}

pub(super) fn binary_log(s: &Situation<'_>) -> Outcome {
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
    let (Some(of_primary), Some(of_candidate)) =
        (&s.primary.binary_log_filters, &s.candidate.binary_log_filters)
    else {
        return warn(
            "whether databases are left out of the binary logs cannot be read",
            "GRANT BINLOG MONITOR (MariaDB), REPLICATION CLIENT (MySQL) to the account",
        );
    };
    if leaves_out_more(of_candidate, of_primary) {
        return stop(
            format!("{} would leave out of its log: {}", s.candidate.server, of_candidate.join("; ")),
            "take that out of its option file, and restart it: what it writes there would be on no replica",
        );
    }
    if !of_primary.is_empty() {
        return warn(
            format!("{} leaves out of its log: {}", s.primary.server, of_primary.join("; ")),
            format!("see whether {} needs what is written there: it does not have it", s.candidate.server),
        );
    }
    pass(format!("{} logs, replicated changes included", s.candidate.server))
}

/// Whether one server leaves a database out of its log that the other logs, in whatever order their option
/// files name them. Beside `binlog_do_db` the other option says nothing.
fn leaves_out_more(ours: &[String], theirs: &[String]) -> bool {
    let (logged, they_log) = (databases(ours, "binlog_do_db"), databases(theirs, "binlog_do_db"));
    let (ignored, they_ignore) = (databases(ours, "binlog_ignore_db"), databases(theirs, "binlog_ignore_db"));
    match (logged.is_empty(), they_log.is_empty()) {
        (true, true) => !ignored.is_subset(&they_ignore),
        (true, false) => !ignored.is_disjoint(&they_log),
        (false, true) => true,
        (false, false) => !they_log.is_subset(&logged),
    }
}

/// The databases that an option names.
fn databases<'a>(filters: &'a [String], option: &str) -> BTreeSet<&'a str> {
    let lists = filters.iter().filter_map(|filter| filter.split_once(" = "));
    let lists = lists.filter(|(name, _)| *name == option);
    lists.flat_map(|(_, list)| list.split(',').map(str::trim)).collect()
}

pub(super) fn errant(s: &Situation<'_>) -> Outcome {
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

pub(super) fn purged(s: &Situation<'_>) -> Outcome {
    let candidate = s.candidate;
    let Some(purged) = &candidate.purged else {
        return warn(
            format!("what {} has purged cannot be read", candidate.server),
            "GRANT BINLOG MONITOR (MariaDB)",
        );
    };
    // Replicas of replicas keep their source.
    let moves = |facts: &&Facts| facts.channels.iter().any(|channel| is_source(s.primary, channel));
    for other in s.others.iter().filter(moves) {
        let lacks = |position: &str| crate::facts::beyond(candidate.version.flavour, purged, position);
        // A replica that does not log what it applies has it in its other position.
        let applied = other.variable(&["gtid_slave_pos"]);
        let missing =
            lacks(&other.position).filter(|_| applied.is_none_or(|applied| lacks(applied).is_some()));
        let Some(missing) = missing else { continue };
        return stop(
            format!(
                "{} lacks {missing}, which the binary logs of {} do not have",
                other.server, candidate.server
            ),
            format!("wait until {} has caught up, or rebuild it from a backup", other.server),
        );
    }
    pass(format!("{} has all that those lack which will follow it", candidate.server))
}

pub(super) fn transactions(s: &Situation<'_>) -> Outcome {
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

pub(super) fn prepared(s: &Situation<'_>) -> Outcome {
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

pub(super) fn locks(s: &Situation<'_>) -> Outcome {
    const WORDS: [&str; 4] = ["read lock", "backup", "metadata lock", "flush"];
    let waits = |what: &str| WORDS.iter().any(|word| what.to_ascii_lowercase().contains(word));
    let waiting = s.primary.blockers.iter().flatten().find(|blocker| waits(&blocker.what));
    let candidate = &s.candidate.server;
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
        // The freeze does not wait for it, and whoever writes there afterwards does.
        None if let Some(holder) = s.candidate.lock_holders.iter().flatten().next() => warn(
            format!(
                "session {} on {candidate}, of {}: {} for {} s; once {candidate} is the primary, writes or \
                 DDL there may wait for it",
                holder.session, holder.who, holder.what, holder.seconds
            ),
            format!("wait until the backup is over, or on {candidate}: KILL {}", holder.session),
        ),
        None if s.primary.lock_holders.is_none() => warn(
            format!(
                "nobody waits for a global or metadata lock; whether an idle session of {} holds one is not known, and \
                 the freeze would find out and be undone",
                s.primary.server
            ),
            match s.primary.dialect().is_mariadb() {
                true => format!("on {}: INSTALL SONAME 'metadata_lock_info'", s.primary.server),
                false if s.primary.is_on(&["performance_schema"]) == Some(false) => {
                    format!("start {} with performance_schema = ON", s.primary.server)
                }
                false => "GRANT SELECT ON performance_schema.* to the account; with that, UPDATE \
                          performance_schema.setup_instruments SET ENABLED = 'YES' WHERE NAME = 'wait/lock/metadata/sql/mdl'"
                    .to_owned(),
            },
        ),
        None => pass(format!("nobody holds or waits for a global or metadata lock on {}", s.primary.server)),
    }
}
