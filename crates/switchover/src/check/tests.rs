//! The checks on facts that are made up: what stops a move, what warns, and what is not known.

use super::*;
use crate::facts::ScheduledEvent;
use crate::facts::tests::{channel, facts};
use crate::login::LedTo;

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
    let situation =
        Situation { primary, candidate, others, limits, has_replication_login: true, login, exposure: None };
    all(&situation).into_iter().find(|finding| finding.check == check).unwrap()
}

fn set(facts: &mut Facts, variables: &[(&str, &str)]) {
    facts.variables.extend(variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
}

/// A primary and its replica.
fn pair(version: &str) -> (Facts, Facts) {
    let primary = facts("a1", version);
    let mut candidate = facts("a2", version);
    (candidate.server_id, candidate.channels) = (2, vec![channel("a1", 3306, 1)]);
    (primary, candidate)
}

fn event(name: &str) -> ScheduledEvent {
    ScheduledEvent { schema: "app".to_owned(), name: name.to_owned(), definer: "batch@%".to_owned() }
}

#[test]
fn events_that_are_enabled_on_the_candidate_alone_are_named() {
    for (version, word) in [("10.11.6-MariaDB", "SLAVE"), ("8.4.2", "REPLICA")] {
        let (mut primary, mut candidate) = pair(version);
        primary.events = Some(Vec::new());
        assert_eq!(found("events", &primary, &candidate, &[]).level, Level::Warn, "not known");
        candidate.events = Some(vec![event("purge")]);
        let own = found("events", &primary, &candidate, &[]);
        assert!(own.level == Level::Warn && own.facts.contains("app.purge"), "{own:?}");
        let mend = own.mend.unwrap();
        let statement = format!("ALTER DEFINER = 'batch'@'%' EVENT `app`.`purge` DISABLE ON {word}");
        assert!(mend.contains("sql_log_bin = 0") && mend.ends_with(&statement), "{mend}");
        set(&mut candidate, &[("super_read_only", "ON")]);
        let mend = found("events", &primary, &candidate, &[]).mend.unwrap();
        assert!(mend.contains("super_read_only = OFF") && mend.ends_with("super_read_only = ON"), "{mend}");
        // A copy of the primary's files has those of the primary enabled.
        primary.events = Some(vec![event("purge")]);
        candidate.may_set_definer = Some(("admin@%".to_owned(), true));
        let moved = found("events", &primary, &candidate, &[]);
        assert!(moved.level == Level::Warn && !moved.facts.contains("app.purge"), "{moved:?}");
        candidate.events = Some(vec![event("purge"), event("other")]);
        let both = found("events", &primary, &candidate, &[]);
        assert!(both.facts.starts_with("1 enabled on a1") && both.facts.ends_with("app.other"), "{both:?}");
        candidate.may_set_definer = Some(("admin@%".to_owned(), false));
        assert_eq!(found("events", &primary, &candidate, &[]).level, Level::Stop);
    }
}

#[test]
fn events_of_others_need_the_privilege_to_keep_their_definers() {
    let (mut primary, mut candidate) = pair("10.11.6-MariaDB");
    primary.events = Some(vec![event("nightly")]);
    candidate.events = Some(Vec::new());
    let level = |candidate: &Facts| found("events", &primary, candidate, &[]).level;
    assert_eq!(level(&candidate), Level::Warn, "not known");
    candidate.may_set_definer = Some(("admin@%".to_owned(), false));
    let stops = found("events", &primary, &candidate, &[]);
    assert!(stops.level == Level::Stop && stops.facts.contains("batch@%"), "{stops:?}");
    assert_eq!(stops.mend.as_deref(), Some("GRANT SET USER ON *.* to the account"));
    candidate.events = None;
    let hidden = found("events", &primary, &candidate, &[]);
    assert!(hidden.level == Level::Stop && hidden.facts.contains("already is not known"), "{hidden:?}");
    candidate.events = Some(Vec::new());
    candidate.may_set_definer = Some(("batch@%".to_owned(), false));
    assert_eq!(level(&candidate), Level::Warn, "its own");
    candidate.may_set_definer = Some(("admin@%".to_owned(), true));
    assert_eq!(level(&candidate), Level::Warn);
}

#[test]
fn events_and_locks_that_cannot_be_seen_are_not_known_and_no_pass() {
    let (mut primary, mut candidate) = pair("8.4.2");
    candidate.events = Some(Vec::new());
    let events = found("events", &primary, &candidate, &[]);
    assert!(events.level == Level::Warn && events.mend.unwrap().contains("GRANT EVENT"));
    let mends = |primary: &Facts| {
        let locks = found("locks", primary, &candidate, &[]);
        (locks.level == Level::Warn).then_some(locks.mend).flatten().unwrap()
    };
    assert!(mends(&primary).contains("wait/lock/metadata/sql/mdl"));
    set(&mut primary, &[("performance_schema", "OFF")]);
    assert!(mends(&primary).contains("performance_schema = ON"));
    (primary.events, primary.lock_holders) = (Some(Vec::new()), Some(Vec::new()));
    for check in ["events", "locks"] {
        assert_eq!(found(check, &primary, &candidate, &[]).level, Level::Pass, "{check}");
    }
}

#[test]
fn a_lock_that_is_held_on_the_candidate_is_a_warning() {
    let (mut primary, mut candidate) = pair("8.4.2");
    let (who, what) = ("backup@localhost".to_owned(), "holds a lock (backup lock)".to_owned());
    candidate.lock_holders = Some(vec![crate::facts::Blocker { session: 77, who, what, seconds: 600 }]);
    for on_primary in [None, Some(Vec::new())] {
        primary.lock_holders = on_primary;
        let held = found("locks", &primary, &candidate, &[]);
        assert!(held.level == Level::Warn && held.facts.starts_with("session 77 on a2"), "{held:?}");
        assert!(held.mend.unwrap().ends_with("on a2: KILL 77"));
    }
    candidate.lock_holders = Some(Vec::new());
    assert_eq!(found("locks", &primary, &candidate, &[]).level, Level::Pass);
}

#[test]
fn databases_that_are_left_out_of_the_binary_log_are_seen() {
    let (mut primary, mut candidate) = pair("10.11.6-MariaDB");
    set(&mut candidate, &[("log_bin", "ON"), ("log_slave_updates", "ON")]);
    let check = "binary log";
    let unread = found(check, &primary, &candidate, &[]);
    assert!(unread.level == Level::Warn && unread.mend.unwrap().contains("BINLOG MONITOR"));
    (primary.binary_log_filters, candidate.binary_log_filters) = (Some(Vec::new()), Some(Vec::new()));
    assert_eq!(found(check, &primary, &candidate, &[]).level, Level::Pass);
    let ignores = || Some(vec!["binlog_ignore_db = scratch".to_owned()]);
    candidate.binary_log_filters = ignores();
    let stops = found(check, &primary, &candidate, &[]);
    assert!(stops.level == Level::Stop && stops.facts.contains("scratch"), "{stops:?}");
    primary.binary_log_filters = ignores();
    assert_eq!(found(check, &primary, &candidate, &[]).level, Level::Warn, "as it was before");
    candidate.binary_log_filters = Some(Vec::new());
    let lacks = found(check, &primary, &candidate, &[]);
    assert!(lacks.level == Level::Warn && lacks.mend.unwrap().contains("a2 needs"));
    let mut level = |of_primary: &str, of_candidate: &str| {
        primary.binary_log_filters = Some(vec![of_primary.to_owned()]);
        candidate.binary_log_filters = Some(vec![of_candidate.to_owned()]);
        found(check, &primary, &candidate, &[]).level
    };
    // In another order, or fewer of them: nothing is lost that was not lost before.
    assert_eq!(level("binlog_ignore_db = a,b", "binlog_ignore_db = b,a"), Level::Warn);
    assert_eq!(level("binlog_ignore_db = a,b", "binlog_ignore_db = b"), Level::Warn);
    assert_eq!(level("binlog_ignore_db = a", "binlog_ignore_db = a,b"), Level::Stop);
    assert_eq!(level("binlog_do_db = a", "binlog_do_db = b,a"), Level::Warn);
    assert_eq!(level("binlog_do_db = a,b", "binlog_do_db = a"), Level::Stop);
    assert_eq!(level("binlog_do_db = a", "binlog_ignore_db = b"), Level::Warn);
    assert_eq!(level("binlog_do_db = a", "binlog_ignore_db = a"), Level::Stop);
    assert_eq!(level("binlog_ignore_db = b", "binlog_do_db = a"), Level::Stop);
}

#[test]
fn transactions_without_a_gtid_cannot_be_waited_for() {
    let (mut primary, mut candidate) = pair("8.4.2");
    let mut level = |of_primary: &str, of_candidate: &str| {
        set(&mut primary, &[("gtid_mode", of_primary)]);
        set(&mut candidate, &[("gtid_mode", of_candidate)]);
        found("GTID", &primary, &candidate, &[]).level
    };
    assert_eq!((level("ON", "ON"), level("ON_PERMISSIVE", "ON")), (Level::Pass, Level::Pass));
    assert_eq!((level("ON", "OFF_PERMISSIVE"), level("ON", "OFF")), (Level::Stop, Level::Stop));
    assert_eq!(level("ON", "ON_PERMISSIVE"), Level::Stop, "nobody could follow it by GTID");
}

#[test]
fn a_domain_that_the_candidate_never_gets_is_named() {
    let (mut primary, mut candidate) = pair("10.11.6-MariaDB");
    let of_pair = |primary: &Facts, candidate: &Facts| found("GTID", primary, candidate, &[]);
    primary.position = "0-1-105,7-1-3".to_owned();
    candidate.position = "0-1-100".to_owned();
    let named = of_pair(&primary, &candidate);
    assert_eq!(named.level, Level::Stop);
    assert!(named.facts.contains("domain 7, in which a1 has 7-1-3"), "{named:?}");
    assert!(named.mend.unwrap().contains("on a1, once its"), "the primary forgets it");
    // What it wrote itself under that domain is not what it replicated.
    candidate.position = "0-1-100,7-1-3".to_owned();
    set(&mut candidate, &[("gtid_slave_pos", "0-1-100")]);
    let mend = of_pair(&primary, &candidate).mend.unwrap();
    assert!(mend.contains("DELETE_DOMAIN_ID=(7)") && mend.contains("= '0-1-100,7-1-3'"), "{mend}");
    set(&mut candidate, &[("gtid_slave_pos", "0-1-100,7-1-2")]);
    assert_eq!(of_pair(&primary, &candidate).level, Level::Pass, "it is late, and gets there");
    // It was the primary before, and nothing was written since it follows.
    set(&mut candidate, &[("gtid_slave_pos", "")]);
    set(&mut primary, &[("gtid_domain_id", "0")]);
    primary.position = "0-1-105".to_owned();
    assert_eq!(of_pair(&primary, &candidate).level, Level::Pass, "the move itself writes there");
    let (mut primary, candidate) = pair("8.4.2");
    set(&mut primary, &[("gtid_mode", "ON")]);
    primary.position = "0-1-105".to_owned();
    assert!(!of_pair(&primary, &candidate).facts.contains("domain"), "MySQL has none");
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
fn what_the_former_primary_is_not_told_of_a_channel_is_named() {
    let (primary, mut candidate) = pair("8.4.2");
    let check = "channel settings";
    let unread = found(check, &primary, &candidate, &[]);
    assert!(unread.level == Level::Warn && unread.mend.unwrap().contains("performance_schema"));
    candidate.channels[0].left_to_person = Some(Vec::new());
    assert_eq!(found(check, &primary, &candidate, &[]).level, Level::Pass);
    candidate.channels[0].left_to_person = Some(vec!["SOURCE_BIND = 10.0.0.7".to_owned()]);
    let bound = found(check, &primary, &candidate, &[]);
    assert!(bound.level == Level::Warn && bound.facts.contains("SOURCE_BIND = 10.0.0.7"), "{bound:?}");
    assert!(bound.mend.unwrap().contains("STOP REPLICA; CHANGE REPLICATION SOURCE TO"));
}

#[test]
fn the_account_of_replication_is_tried_and_what_only_this_host_cannot_know_is_a_warning() {
    let (primary, mut candidate) = pair("10.11.6-MariaDB");
    let level = |candidate: &Facts, host: &str, led_to: LedTo| {
        let login = LoginAttempt { user: "repl".to_owned(), host: host.to_owned(), port: 3306, led_to };
        found_with("replication account", &primary, candidate, &[], Some(&login)).level
    };
    let reached = |server_id| LedTo::Server { server_id, may_replicate: true, needs_tls: false };
    let denied =
        |wants_certificate| LedTo::Refused { code: 1045, why: "Access denied".to_owned(), wants_certificate };
    let refused = || denied(false);
    let nowhere = || LedTo::Nowhere { why: "Connection refused".to_owned() };
    assert_eq!(level(&candidate, "a2", reached(2)), Level::Pass);
    assert_eq!(level(&candidate, "a2", reached(1)), Level::Stop, "another server answers there");
    let powerless = LedTo::Server { server_id: 2, may_replicate: false, needs_tls: false };
    assert_eq!(level(&candidate, "a2", powerless), Level::Stop);
    assert_eq!(level(&candidate, "127.0.0.1", reached(2)), Level::Warn, "a1 would follow itself");
    let tls_only = || LedTo::Server { server_id: 2, may_replicate: true, needs_tls: true };
    assert_eq!(level(&candidate, "a2", tls_only()), Level::Pass, "whether a2 encrypts is not known");
    for (switch, expected) in [("0", Level::Stop), ("1", Level::Pass)] {
        candidate.channels[0].protection = vec![("SSL".to_owned(), switch.to_owned())];
        assert_eq!(level(&candidate, "a2", tls_only()), expected);
        assert_eq!(level(&candidate, "a2", reached(2)), Level::Pass);
    }
    assert_eq!(level(&candidate, "a2", refused()), Level::Stop);
    assert_eq!(level(&candidate, "a2", denied(true)), Level::Stop, "a1 would show no certificate either");
    candidate.channels[0].protection.push(("SSL_CERT".to_owned(), "'/etc/mysql/cert.pem'".to_owned()));
    assert_eq!(level(&candidate, "a2", denied(true)), Level::Warn, "it is a1 that has it");
    let accounts = |host: &str| Some([(format!("repl@{host}"), None)].into());
    candidate.accounts = accounts("%");
    assert_eq!(level(&candidate, "a2", refused()), Level::Stop, "any host may, so the password is wrong");
    candidate.accounts = accounts("10.0.0.%");
    assert_eq!(level(&candidate, "a2", refused()), Level::Warn, "this host may be the wrong one");
    let words = |candidate: &Facts| {
        let (host, led_to) = ("a2".to_owned(), denied(true));
        let login = LoginAttempt { user: "repl".to_owned(), host, port: 3306, led_to };
        let found = found_with("replication account", &primary, candidate, &[], Some(&login));
        (found.level, found.mend.unwrap())
    };
    let (level_there, mend) = words(&candidate);
    assert!(level_there == Level::Warn && mend.contains("--ssl-cert"), "{mend}");
    let mut bare = candidate.clone();
    bare.channels[0].protection.retain(|(option, _)| option != "SSL_CERT");
    assert_eq!(words(&bare).0, Level::Stop, "a1 would show none");
    bare.accounts = Some([("repl@10.0.0.%".to_owned(), None), ("repl@10.0.1.%".to_owned(), None)].into());
    assert_eq!(words(&bare).0, Level::Warn, "the other account may want none");
    assert_eq!(level(&candidate, "a2", nowhere()), Level::Stop);
    set(&mut candidate, &[("report_host", "a2.servers")]);
    assert_eq!(level(&candidate, "a2.servers", nowhere()), Level::Warn, "a network of servers");
}

#[tokio::test]
async fn a_password_that_the_former_primary_cannot_be_told_stops_the_move() {
    let tried = async |version: &str, bytes: usize| {
        let (primary, mut candidate) = pair(version);
        // Nobody listens there.
        candidate.reach = fleet::Address::tcp("127.0.0.1".to_owned(), 1);
        let replication = ("repl".to_owned(), "x".repeat(bytes));
        let admin = config::Credentials::default();
        let login = crate::login::attempt(&candidate, &replication, &admin, Duration::from_secs(1)).await;
        (found_with("replication account", &primary, &candidate, &[], Some(&login)), login.led_to)
    };
    for (version, limit) in [("8.4.2", 32), ("10.11.6-MariaDB", 96)] {
        let bytes = limit + 1;
        let (found, led_to) = tried(version, bytes).await;
        assert_eq!(led_to, LedTo::TooLong { bytes, limit });
        let words = format!("has {bytes} bytes");
        assert!(found.level == Level::Stop && found.facts.contains(&words), "{found:?}");
        assert!(found.mend.unwrap().contains("ALTER USER"));
        let (_, led_to) = tried(version, limit).await;
        assert!(matches!(led_to, LedTo::Nowhere { .. }), "{version}: it was tried: {led_to:?}");
    }
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
    assert!(missing.level == Level::Stop && missing.facts.starts_with("a1 cannot be a semi-sync replica"));
    let mut other = facts("b1", "8.0.36");
    other.channels = vec![channel("a1", 3306, 1)];
    set(&mut other, &[("rpl_semi_sync_replica_enabled", "ON")]);
    assert_eq!(found(check, &primary, &candidate, &[other.clone()]).level, Level::Warn, "b1 acknowledges");
    other.channels[0].receiver_runs = false;
    assert_eq!(found(check, &primary, &candidate, &[other]).level, Level::Stop, "it is not started");
    set(&mut primary, &[("rpl_semi_sync_slave_enabled", "OFF")]);
    assert_eq!(found(check, &primary, &candidate, &[]).level, Level::Pass, "older names count too");
    set(&mut candidate, &[("rpl_semi_sync_master_wait_for_slave_count", "2")]);
    let few = found(check, &primary, &candidate, &[]);
    assert!(few.level == Level::Stop && few.facts.contains("wait for 2") && few.facts.contains("only 1"));
    let mut own = facts("b1", "8.0.36");
    own.channels = vec![channel("a2", 3306, 2)];
    set(&mut own, &[("rpl_semi_sync_replica_enabled", "ON")]);
    assert_eq!(found(check, &primary, &candidate, &[own]).level, Level::Pass, "b1 follows it already");
    let (mut primary, candidate) = pair("8.0.25");
    set(&mut primary, &[("rpl_semi_sync_master_enabled", "ON")]);
    assert!(found(check, &primary, &candidate, &[]).mend.unwrap().contains("semisync_master.so"));
}

#[test]
fn what_a_primary_does_by_its_variables_is_compared() {
    let (mut primary, mut candidate) = pair("10.11.6-MariaDB");
    assert_eq!(found("variables", &primary, &candidate, &[]).level, Level::Pass);
    set(&mut primary, &[("foreign_key_checks", "ON"), ("rpl_semi_sync_master_timeout", "86400000")]);
    set(&mut candidate, &[("foreign_key_checks", "OFF"), ("rpl_semi_sync_master_timeout", "10000")]);
    for (name, on_primary, on_candidate) in
        [("auto_increment_offset", "1", "2"), ("gtid_domain_id", "0", "7"), ("tx_read_only", "OFF", "ON")]
    {
        set(&mut primary, &[(name, on_primary)]);
        set(&mut candidate, &[(name, on_candidate)]);
    }
    // Another version has another name for it.
    set(&mut candidate, &[("transaction_read_only", "OFF")]);
    let differing = found("variables", &primary, &candidate, &[]);
    assert_eq!(differing.level, Level::Warn);
    assert_eq!(
        differing.facts,
        "auto_increment_offset 1 -> 2, gtid_domain_id 0 -> 7, foreign_key_checks ON -> OFF, \
         tx_read_only OFF -> ON, rpl_semi_sync_master_timeout 86400000 -> 10000"
    );
    set(&mut candidate, &[("offline_mode", "ON")]);
    assert_eq!(found("variables", &primary, &candidate, &[]).level, Level::Stop);
}

#[test]
fn a_schema_that_is_read_only_on_the_candidate_alone_stops_a_move() {
    let (mut primary, mut candidate) = pair("8.4.2");
    let check = "read-only schemas";
    assert_eq!(found(check, &primary, &candidate, &[]).level, Level::Warn, "not known");
    (primary.read_only_schemas, candidate.read_only_schemas) = (Some(Vec::new()), Some(Vec::new()));
    assert_eq!(found(check, &primary, &candidate, &[]).level, Level::Pass);
    candidate.read_only_schemas = Some(vec!["arch`ive".to_owned(), "old".to_owned()]);
    primary.read_only_schemas = Some(vec!["old".to_owned()]);
    let stops = found(check, &primary, &candidate, &[]);
    assert_eq!(stops.level, Level::Stop);
    assert_eq!(stops.facts, "READ ONLY on a2 and not on a1: arch`ive");
    assert_eq!(stops.mend.unwrap(), "on a2: ALTER SCHEMA `arch``ive` READ ONLY = 0");
    set(&mut candidate, &[("super_read_only", "ON")]);
    let mend = found(check, &primary, &candidate, &[]).mend.unwrap();
    assert!(mend.contains("read_only = OFF; ALTER") && mend.ends_with("super_read_only = ON"), "{mend}");
}

#[test]
fn a_candidate_that_is_late_on_purpose_is_not_moved_to_however_near_it_seems() {
    for (version, changes) in [
        ("10.11.6-MariaDB", "STOP SLAVE; CHANGE MASTER TO MASTER_DELAY = 0; START SLAVE"),
        ("8.0.22", "STOP REPLICA; CHANGE MASTER TO MASTER_DELAY = 0; START REPLICA"),
        ("8.4.2", "STOP REPLICA; CHANGE REPLICATION SOURCE TO SOURCE_DELAY = 0; START REPLICA"),
    ] {
        let (primary, mut candidate) = pair(version);
        let check = "lag";
        candidate.channels[0].seconds_behind = Some(0);
        assert_eq!(found(check, &primary, &candidate, &[]).level, Level::Pass);
        candidate.channels[0].seconds_behind = Some(11);
        let behind = found(check, &primary, &candidate, &[]);
        assert!(behind.level == Level::Stop && behind.facts.contains("11 s behind, allowed are 10 s"));
        candidate.channels[0].seconds_behind = Some(0);
        candidate.channels[0].delay_s = 6;
        let late = found(check, &primary, &candidate, &[]);
        assert!(late.level == Level::Stop && late.facts.contains("6 s late on purpose"), "{late:?}");
        assert!(late.mend.as_ref().is_some_and(|mend| mend.ends_with(changes)), "{late:?}");
    }
}

#[test]
fn what_the_candidate_has_purged_matters_to_those_alone_that_will_follow_it() {
    let (primary, mut candidate) = pair("10.11.6-MariaDB");
    candidate.purged = Some("0-1-100".to_owned());
    let mut other = facts("b1", "10.11.6-MariaDB");
    (other.channels, other.position) = (vec![channel("a1", 3306, 1)], "0-1-90".to_owned());
    let check = "purged logs";
    let lacks = found(check, &primary, &candidate, &[other.clone()]);
    assert!(lacks.level == Level::Stop && lacks.facts.starts_with("b1 lacks 0-1-100"), "{lacks:?}");
    other.channels = vec![channel("c1", 3306, 7)];
    assert_eq!(found(check, &primary, &candidate, &[other]).level, Level::Pass, "it keeps its source");
}

#[test]
fn a_server_that_follows_nobody_is_named() {
    let (primary, candidate) = pair("10.11.6-MariaDB");
    let mut other = facts("b1", "10.11.6-MariaDB");
    other.channels = vec![channel("a1", 3306, 1)];
    let check = "threads run";
    assert_eq!(found(check, &primary, &candidate, &[other.clone()]).level, Level::Pass);
    other.channels.clear();
    let alone = found(check, &primary, &candidate, &[other]);
    assert!(alone.level == Level::Warn && alone.facts.starts_with("b1 replicates from nobody"), "{alone:?}");
    assert!(alone.mend.unwrap().contains("--rejoin b1"));
    let lone = Facts { channels: Vec::new(), ..candidate };
    assert_eq!(found(check, &primary, &lone, &[]).level, Level::Pass, "another check stops that");
}

#[test]
fn a_candidate_that_routers_may_not_pick_is_not_moved_to() {
    let (primary, mut candidate) = pair("8.4.2");
    assert_eq!(found("reserved", &primary, &candidate, &[]).level, Level::Pass);
    candidate.reserved = Some("'analytics'".to_owned());
    let reserved = found("reserved", &primary, &candidate, &[]);
    assert!(reserved.level == Level::Stop && reserved.facts.contains("rule 'analytics'"), "{reserved:?}");
}
