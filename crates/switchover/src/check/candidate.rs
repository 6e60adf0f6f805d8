//! Whether the candidate can take the primary's place: version, settings, accounts, events, its cache, its
//! disk and its clock.

use super::{Level, Outcome, Situation, everybody, or_none, pass, stop, warn};
use crate::facts::{Facts, ScheduledEvent};
use crate::failover::scene::reserved_words;

pub(super) fn reserved(s: &Situation<'_>) -> Outcome {
    match &s.candidate.reserved {
        None => pass("routers may pick the candidate"),
        Some(rule) => stop(
            format!("{}: {}", s.candidate.server, reserved_words(rule)),
            "take `reserved` out of its [[server]] for all routers, and reload them",
        ),
    }
}

pub(super) fn version(s: &Situation<'_>) -> Outcome {
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

pub(super) fn formats(s: &Situation<'_>) -> Outcome {
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

pub(super) fn events(s: &Situation<'_>) -> Outcome {
    let Some(events) = &s.primary.events else {
        return warn(
            format!(
                "whether {} has events is not known: the account may not see them all. None would be moved",
                s.primary.server
            ),
            "GRANT EVENT ON *.* to the account",
        );
    };
    let moving = moving_events(s, events);
    let moves = |own: &ScheduledEvent| {
        events.iter().any(|event| (&event.schema, &event.name) == (&own.schema, &own.name))
    };
    let own = match &s.candidate.events {
        None => Some((
            format!("which events run on {} already is not known", s.candidate.server),
            "GRANT EVENT ON *.* to the account".to_owned(),
        )),
        Some(candidates) => {
            let own: Vec<&ScheduledEvent> = candidates.iter().filter(|event| !moves(event)).collect();
            (!own.is_empty()).then(|| own_events(s, &own))
        }
    };
    let Some((own, statements)) = own else { return moving };
    match moving {
        (Level::Stop, facts, mend) => (Level::Stop, format!("{facts}; {own}"), mend),
        (Level::Warn, facts, mend) => {
            let mend = mend.unwrap_or_default();
            let mend = format!("{mend}; of those of {}: {statements}", s.candidate.server);
            warn(format!("{facts}; {own}"), mend)
        }
        (Level::Pass, ..) => warn(own, statements),
    }
}

/// Events of the candidate that the primary does not run, and what keeps them from running: on a read-only
/// server they change nothing.
fn own_events(s: &Situation<'_>, own: &[&ScheduledEvent]) -> (String, String) {
    let (candidate, dialect) = (&s.candidate.server, s.candidate.dialect());
    let names: Vec<String> = own.iter().map(|event| format!("{}.{}", event.schema, event.name)).collect();
    let facts = format!(
        "enabled on {candidate} and not on {}, so they change data there once it takes writes: {}",
        s.primary.server,
        names.join(", ")
    );
    let statements: Vec<String> = own.iter().map(|event| dialect.disable_event_on_replica(event)).collect();
    let statements = at_a_replica(s.candidate, &statements.join("; "));
    (facts, format!("nothing, if they shall run there; else on {candidate}: {statements}"))
}

/// Statements that change what a replica alone has. In its binary log they would be an errant transaction,
/// and super_read_only refuses them.
pub(crate) fn at_a_replica(replica: &Facts, statements: &str) -> String {
    let unlogged = format!("SET SESSION sql_log_bin = 0; {statements}");
    if replica.is_on(&["super_read_only"]) == Some(true) {
        return format!("SET GLOBAL super_read_only = OFF; {unlogged}; SET GLOBAL super_read_only = ON");
    }
    unlogged
}

/// Those that the primary runs.
fn moving_events(s: &Situation<'_>, events: &[ScheduledEvent]) -> Outcome {
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

/// MySQL keeps this in the schema, and does not replicate it.
pub(super) fn read_only_schemas(s: &Situation<'_>) -> Outcome {
    let candidate = &s.candidate.server;
    let (Some(of_primary), Some(of_candidate)) =
        (&s.primary.read_only_schemas, &s.candidate.read_only_schemas)
    else {
        return warn(
            format!("which schemas of {} or {candidate} are READ ONLY is not known", s.primary.server),
            "GRANT SHOW DATABASES ON *.* to the account",
        );
    };
    let only_there: Vec<&str> =
        of_candidate.iter().filter(|schema| !of_primary.contains(schema)).map(String::as_str).collect();
    if only_there.is_empty() {
        return pass(format!("{candidate} keeps no schema READ ONLY that {} does not", s.primary.server));
    }
    let name = |schema: &&str| format!("ALTER SCHEMA `{}` READ ONLY = 0", schema.replace('`', "``"));
    let mut statements: Vec<String> = only_there.iter().map(name).collect();
    if s.candidate.is_on(&["super_read_only"]) == Some(true) {
        statements.insert(0, "SET GLOBAL super_read_only = OFF".to_owned());
        statements.push("SET GLOBAL super_read_only = ON".to_owned());
    }
    stop(
        format!("READ ONLY on {candidate} and not on {}: {}", s.primary.server, only_there.join(", ")),
        format!("on {candidate}: {}", statements.join("; ")),
    )
}

pub(super) fn accounts(s: &Situation<'_>) -> Outcome {
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

/// What changes behaviour or durability when the primary has another value. One that only one of them has is
/// not compared: versions have other names for the same.
const COMPARED: [&str; 32] = [
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
    // Who writes there gets other numbers, or writes in another domain than before.
    "auto_increment_increment",
    "auto_increment_offset",
    "gtid_domain_id",
    // Some switch these off on replicas, which apply faster then.
    "foreign_key_checks",
    "unique_checks",
    "autocommit",
    // On these writes, or logins, would be refused.
    "transaction_read_only",
    "tx_read_only",
    "innodb_read_only",
    "require_secure_transport",
    "default_storage_engine",
    "explicit_defaults_for_timestamp",
    // What is lost when the next primary dies, see docs/guide/failover.md.
    "rpl_semi_sync_master_timeout",
    "rpl_semi_sync_source_timeout",
    "rpl_semi_sync_master_wait_point",
    "rpl_semi_sync_source_wait_point",
    "rpl_semi_sync_master_wait_no_slave",
    "rpl_semi_sync_source_wait_no_replica",
];

pub(super) fn variables(s: &Situation<'_>) -> Outcome {
    let candidate = &s.candidate.server;
    if s.candidate.is_on(&["offline_mode"]) == Some(true) {
        return stop(
            format!("{candidate} is in offline_mode: it would refuse all clients"),
            format!("on {candidate}: SET GLOBAL offline_mode = OFF"),
        );
    }
    let differs = |name: &&str| {
        let (ours, theirs) = s.primary.variable(&[name]).zip(s.candidate.variable(&[name]))?;
        (ours != theirs).then(|| format!("{name} {ours} -> {theirs}"))
    };
    let differing: Vec<String> = COMPARED.iter().filter_map(differs).collect();
    if differing.is_empty() {
        return pass(format!("{} that matter agree", COMPARED.len()));
    }
    warn(differing.join(", "), format!("set them on {candidate} before"))
}

/// Share of logical reads that went to disk since the server started: the only figure that both flavours
/// always have.
fn miss_rate(facts: &Facts) -> Option<f64> {
    let requests = facts.counter("innodb_buffer_pool_read_requests")?;
    let reads = facts.counter("innodb_buffer_pool_reads")?;
    (requests > 0).then(|| reads as f64 / requests as f64)
}

pub(super) fn warmth(s: &Situation<'_>) -> Outcome {
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

pub(super) fn free_disk(s: &Situation<'_>) -> Outcome {
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

pub(super) fn clocks(s: &Situation<'_>) -> Outcome {
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
