//! Whether our own account may say what the steps of [`crate::perform`] say. Without a privilege a step would
//! be refused while clients wait, and the switchover undone, or the failover given up half-way.

use super::{Finding, Outcome, Situation, everybody, is_source, pass, stop, warn};
use crate::connection::quoted;
use crate::facts::{Facts, OwnGrants};
use fleet::ServerName;

/// What is needed on a server for everything, and for the database `headroom`.
type Needed = (Vec<&'static str>, Vec<&'static str>);

/// What the account lacks on a server.
struct Lack<'a> {
    facts: &'a Facts,
    grants: &'a OwnGrants,
    global: Vec<&'static str>,
    database: Vec<&'static str>,
}

pub(super) fn own(s: &Situation<'_>) -> Outcome {
    judge(everybody(s).map(|facts| (facts, needed(s, facts))), Some(&s.primary.server))
}

/// The same of a failover, on the replicas of the dead primary; `may_be_chosen` are those of them that may
/// take over, and `semi_sync` says of one that does whether it waits for acknowledgements.
pub(crate) fn failover_privileges<'a>(
    replicas: impl Iterator<Item = &'a Facts>,
    may_be_chosen: impl Fn(&Facts) -> bool,
    semi_sync: impl Fn(&Facts) -> bool,
) -> Finding {
    let needed =
        |facts: &'a Facts| (facts, needed_for_failover(facts, may_be_chosen(facts), semi_sync(facts)));
    let (level, facts, mend) = judge(replicas.map(needed), None);
    Finding { check: "own privileges", level, facts, mend }
}

/// `primary`: what is granted there comes to the others.
fn judge<'a>(servers: impl Iterator<Item = (&'a Facts, Needed)>, primary: Option<&ServerName>) -> Outcome {
    let (mut unread, mut missing, mut doubtful) = (Vec::new(), Vec::new(), Vec::new());
    for (facts, (global, database)) in servers {
        if global.is_empty() && database.is_empty() {
            continue;
        }
        let Some(grants) = &facts.own_grants else {
            unread.push(facts.server.to_string());
            continue;
        };
        let global = global.into_iter().filter(|name| !suffices(facts, grants, name));
        let (unsure, global): (Vec<_>, Vec<_>) =
            global.partition(|name| grants.unclear || by_super(grants, name));
        let database = database.into_iter().filter(|name| !grants.database(name));
        let (unsure_database, database): (Vec<_>, Vec<_>) = database.partition(|_| grants.unclear);
        if !global.is_empty() || !database.is_empty() {
            missing.push(Lack { facts, grants, global, database });
        }
        if !unsure.is_empty() || !unsure_database.is_empty() {
            doubtful.push(Lack { facts, grants, global: unsure, database: unsure_database });
        }
    }
    if !missing.is_empty() {
        return stop(words(&missing), mend(primary, &missing));
    }
    if !unread.is_empty() {
        return warn(
            format!("what our own account may do cannot be read on {}", unread.join(", ")),
            "compare what SHOW GRANTS says there with the privileges in docs/guide/switchover.md",
        );
    }
    if !doubtful.is_empty() {
        let text = words(&doubtful);
        return warn(
            format!("{text}; whether a role or another privilege gives it cannot be told"),
            format!("SHOW GRANTS; make its role the default one, or {}", mend(primary, &doubtful)),
        );
    }
    pass("our own account may do what the steps need")
}

/// What the steps are certain to need on a server: for everything, and for the database `headroom`. Beside
/// the primary and the candidate only those that are told to follow another source.
fn needed(s: &Situation<'_>, facts: &Facts) -> Needed {
    let (is_primary, is_candidate) = (facts.server == s.primary.server, facts.server == s.candidate.server);
    let moves = is_primary || is_candidate;
    if !moves && !facts.channels.iter().any(|channel| is_source(s.primary, channel)) {
        return (Vec::new(), Vec::new());
    }
    let dialect = facts.dialect();
    let mariadb = dialect.is_mariadb();
    let mut global = Vec::new();
    if moves {
        global.push(if mariadb { "READ_ONLY ADMIN" } else { "SYSTEM_VARIABLES_ADMIN" });
    }
    global.push(if mariadb { "REPLICATION SLAVE ADMIN" } else { "REPLICATION_SLAVE_ADMIN" });
    if moves && mariadb && s.primary.semi_sync_source() {
        global.push("REPLICATION MASTER ADMIN");
    }
    // The candidate forgets its source; the freeze takes the read lock.
    if is_candidate || (is_primary && !dialect.read_only_binds_administrators()) {
        global.push("RELOAD");
    }
    // Open transactions and routers.
    if is_primary {
        global.push("PROCESS");
    }
    let database: &[&'static str] = match (is_primary, is_candidate) {
        (true, _) => &["SELECT", "INSERT", "UPDATE"],
        (_, true) => &["SELECT", "INSERT", "DELETE"],
        _ => &["SELECT"],
    };
    (global, database.to_vec())
}

/// What a failover is certain to need on a replica: receivers are stopped everywhere, and one is promoted.
fn needed_for_failover(facts: &Facts, may_be_chosen: bool, semi_sync: bool) -> Needed {
    let mariadb = facts.dialect().is_mariadb();
    let mut global = vec![if mariadb { "REPLICATION SLAVE ADMIN" } else { "REPLICATION_SLAVE_ADMIN" }];
    if !may_be_chosen {
        return (global, Vec::new());
    }
    global.push(if mariadb { "READ_ONLY ADMIN" } else { "SYSTEM_VARIABLES_ADMIN" });
    if mariadb && semi_sync {
        global.push("REPLICATION MASTER ADMIN");
    }
    // It forgets its source.
    global.push("RELOAD");
    (global, vec!["SELECT", "INSERT", "DELETE"])
}

/// MariaDB has taken from SUPER what has a privilege of its own, see [`by_super`].
fn suffices(facts: &Facts, grants: &OwnGrants, privilege: &str) -> bool {
    let narrow = if privilege == "READ_ONLY ADMIN" { (10, 11, 0) } else { (11, 0, 0) };
    grants.global(privilege) || (by_super(grants, privilege) && !facts.version.mariadb_from(narrow))
}

/// Whether SUPER gave it once.
fn by_super(grants: &OwnGrants, privilege: &str) -> bool {
    privilege.ends_with("ADMIN") && grants.global("SUPER")
}

fn words(lacks: &[Lack<'_>]) -> String {
    let lack = |lack: &Lack<'_>| {
        let global = (!lack.global.is_empty()).then(|| format!("{} ON *.*", lack.global.join(", ")));
        let database =
            (!lack.database.is_empty()).then(|| format!("{} ON headroom.*", lack.database.join(", ")));
        let objects: Vec<String> = global.into_iter().chain(database).collect();
        format!("on {} {} lacks {}", lack.facts.server, lack.grants.account, objects.join(" and "))
    };
    lacks.iter().map(lack).collect::<Vec<_>>().join("; ")
}

/// What is granted on the primary replicates; a replica that lacks more is told by itself.
fn mend(primary: Option<&ServerName>, lacks: &[Lack<'_>]) -> String {
    let of_primary = lacks.iter().find(|lack| Some(&lack.facts.server) == primary);
    let mut mends = Vec::new();
    for lack in lacks {
        let is_primary = Some(&lack.facts.server) == primary;
        let replicates = of_primary.filter(|_| !is_primary);
        let comes = |name: &str| replicates.is_some_and(|primary| primary.global.contains(&name));
        let global: Vec<&str> = lack.global.iter().copied().filter(|name| !comes(name)).collect();
        let database =
            !lack.database.is_empty() && replicates.is_none_or(|primary| primary.database.is_empty());
        let to = match lack.grants.account.rsplit_once('@') {
            Some((user, host)) => format!("{}@{}", quoted(user), quoted(host)),
            None => quoted(&lack.grants.account),
        };
        let mut statements = Vec::new();
        if !global.is_empty() {
            statements.push(format!("GRANT {} ON *.* TO {to}", global.join(", ")));
        }
        if database {
            statements.push(format!("GRANT ALL ON headroom.* TO {to}"));
        }
        if statements.is_empty() {
            continue;
        }
        if !is_primary {
            statements.insert(0, "SET sql_log_bin = 0".to_owned());
        }
        mends.push(format!("on {}: {}", lack.facts.server, statements.join("; ")));
    }
    mends.join("; then ")
}

#[cfg(test)]
mod tests {
    use super::super::{Finding, Level, Limits, all};
    use super::*;
    use crate::facts::tests::{channel, facts};

    const MARIADB: &[&str] = &[
        "GRANT RELOAD, PROCESS, BINLOG MONITOR, EVENT, CONNECTION ADMIN, READ_ONLY ADMIN, \
         REPLICATION SLAVE ADMIN, REPLICATION MASTER ADMIN, SLAVE MONITOR ON *.* TO `admin`@`%` \
         IDENTIFIED BY PASSWORD '*6BB4837EB743'",
        "GRANT SELECT ON `mysql`.* TO `admin`@`%`",
        "GRANT ALL PRIVILEGES ON `headroom`.* TO `admin`@`%`",
    ];
    const MYSQL: &[&str] = &[
        "GRANT RELOAD, PROCESS, REPLICATION SLAVE, REPLICATION CLIENT, EVENT ON *.* TO `admin`@`%`",
        "GRANT CONNECTION_ADMIN,REPLICATION_SLAVE_ADMIN,SYSTEM_VARIABLES_ADMIN,XA_RECOVER_ADMIN \
         ON *.* TO `admin`@`%`",
        "GRANT ALL PRIVILEGES ON `headroom`.* TO `admin`@`%`",
        "GRANT SELECT ON `mysql`.* TO `admin`@`%`",
        "GRANT SELECT ON `performance_schema`.* TO `admin`@`%`",
    ];

    /// What is said where the primary shows the first lines, and the candidate the second.
    fn found(version: &str, on_primary: &[&str], on_candidate: &[&str]) -> Finding {
        let (mut primary, mut candidate) = (facts("a1", version), facts("a2", version));
        (candidate.server_id, candidate.channels) = (2, vec![channel("a1", 3306, 1)]);
        primary.variables.insert("rpl_semi_sync_master_enabled".to_owned(), "ON".to_owned());
        primary.own_grants = Some(OwnGrants::of("admin@%", on_primary));
        candidate.own_grants = Some(OwnGrants::of("admin@%", on_candidate));
        of(&primary, &candidate, &[])
    }

    fn of(primary: &Facts, candidate: &Facts, others: &[Facts]) -> Finding {
        let situation = Situation {
            primary,
            candidate,
            others,
            limits: Limits::default(),
            has_replication_login: true,
            login: None,
            exposure: None,
        };
        all(&situation).into_iter().find(|finding| finding.check == "own privileges").unwrap()
    }

    /// Lines without one privilege.
    fn without(lines: &[&str], privilege: &str) -> Vec<String> {
        let less = |line: &&str| {
            let line = line.replacen(&format!("GRANT {privilege},"), "GRANT ", 1);
            line.replacen(&format!(", {privilege}"), "", 1).replacen(&format!(",{privilege}"), "", 1)
        };
        lines.iter().map(less).collect()
    }

    const EACH: [(&str, &[&str]); 6] = [
        ("10.6.18-MariaDB", MARIADB),
        ("10.11.6-MariaDB", MARIADB),
        ("11.8.2-MariaDB", MARIADB),
        ("8.0.36", MYSQL),
        ("8.4.2", MYSQL),
        ("9.4.0", MYSQL),
    ];

    #[test]
    fn the_documented_account_passes_and_one_without_a_privilege_stops() {
        for (version, lines) in EACH {
            let level = |lines: &[&str]| found(version, lines, lines).level;
            assert_eq!(level(lines), Level::Pass, "{version}");
            assert_eq!(level(&["GRANT ALL PRIVILEGES ON *.* TO `root`@`%` WITH GRANT OPTION"]), Level::Pass);
            let each = match version.contains("MariaDB") {
                true => ["READ_ONLY ADMIN", "REPLICATION SLAVE ADMIN", "REPLICATION MASTER ADMIN", "RELOAD"],
                false => ["SYSTEM_VARIABLES_ADMIN", "REPLICATION_SLAVE_ADMIN", "PROCESS", "RELOAD"],
            };
            for privilege in each {
                let less = without(lines, privilege);
                let less: Vec<&str> = less.iter().map(String::as_str).collect();
                let stops = found(version, &less, lines);
                let on_candidate = found(version, lines, &less);
                if privilege == "PROCESS" {
                    assert_eq!(on_candidate.level, Level::Pass, "{version}");
                } else {
                    let wanted =
                        format!("on a2: SET sql_log_bin = 0; GRANT {privilege} ON *.* TO 'admin'@'%'");
                    assert_eq!(on_candidate.mend.as_deref(), Some(wanted.as_str()), "{version}");
                }
                if privilege != "RELOAD" || version.contains("MariaDB") {
                    assert_eq!(stops.level, Level::Stop, "{version}: {privilege}: {stops:?}");
                    assert_eq!(stops.facts, format!("on a1 admin@% lacks {privilege} ON *.*"));
                }
                assert!(!format!("{stops:?}{on_candidate:?}").contains("6BB4"));
            }
            let both = found(version, &lines[..1], &lines[..1]);
            let mend = both.mend.unwrap();
            assert!(both.level == Level::Stop && both.facts.contains("on a2"), "{}", both.facts);
            assert!(mend.contains("ALL ON headroom.* TO 'admin'@'%'"), "{mend}");
            assert!(!mend.contains("on a2: SET sql_log_bin = 0; GRANT ALL"), "it replicates: {mend}");
        }
    }

    #[test]
    fn super_is_enough_where_it_still_is_and_no_certain_stop_elsewhere() {
        let lines = [
            "GRANT RELOAD, PROCESS, SUPER ON *.* TO `admin`@`%`",
            "GRANT ALL PRIVILEGES ON `headroom`.* TO `admin`@`%`",
        ];
        for (version, level) in [
            ("8.4.2", Level::Pass),
            ("10.6.18-MariaDB", Level::Pass),
            ("10.11.6-MariaDB", Level::Warn),
            ("11.8.2-MariaDB", Level::Warn),
        ] {
            assert_eq!(found(version, &lines, &lines).level, level, "{version}");
        }
    }

    #[test]
    fn what_a_role_may_give_or_nobody_can_read_stops_nothing() {
        for (version, lines) in EACH {
            let role = ["GRANT USAGE ON *.* TO `admin`@`%`", "GRANT `dba`@`%` TO `admin`@`%`"];
            let found = found(version, lines, &role);
            assert!(found.level == Level::Warn && found.facts.contains("on a2"), "{found:?}");
        }
        let (mut primary, candidate) = (facts("a1", "8.4.2"), facts("a2", "8.4.2"));
        primary.own_grants = Some(OwnGrants::of("admin@%", MYSQL));
        let unread = of(&primary, &candidate, &[]);
        assert!(unread.level == Level::Warn && unread.facts.ends_with("on a2"), "{unread:?}");
    }

    #[test]
    fn a_failover_needs_less_of_those_that_are_not_chosen_and_nothing_comes_from_a_dead_primary() {
        for (version, lines) in EACH {
            let (mut a2, mut b1) = (facts("a2", version), facts("b1", version));
            a2.own_grants = Some(OwnGrants::of("admin@%", lines));
            b1.own_grants = a2.own_grants.clone();
            let found = |a2: &Facts, b1: &Facts| {
                let chosen = |facts: &Facts| facts.server.as_str() == "a2";
                failover_privileges([a2, b1].into_iter(), chosen, |_| true)
            };
            assert_eq!(found(&a2, &b1).level, Level::Pass, "{version}");
            let admin = match version.contains("MariaDB") {
                true => "READ_ONLY ADMIN",
                false => "SYSTEM_VARIABLES_ADMIN",
            };
            let less = without(lines, admin);
            let less: Vec<&str> = less.iter().map(String::as_str).collect();
            b1.own_grants = Some(OwnGrants::of("admin@%", &less));
            assert_eq!(found(&a2, &b1).level, Level::Pass, "{version}: it does not take over");
            a2.own_grants = b1.own_grants.clone();
            let stops = found(&a2, &b1);
            assert_eq!(stops.facts, format!("on a2 admin@% lacks {admin} ON *.*"));
            let wanted = format!("on a2: SET sql_log_bin = 0; GRANT {admin} ON *.* TO 'admin'@'%'");
            assert_eq!((stops.level, stops.mend.as_deref()), (Level::Stop, Some(wanted.as_str())));
            b1.own_grants = None;
            let unread = found(&b1, &b1);
            assert!(unread.level == Level::Warn && unread.facts.ends_with("on b1, b1"), "{unread:?}");
        }
    }

    #[test]
    fn another_server_counts_where_it_is_told_to_follow_the_new_primary() {
        let (mut primary, mut candidate) = (facts("a1", "8.4.2"), facts("a2", "8.4.2"));
        let mut other = facts("b1", "8.4.2");
        primary.own_grants = Some(OwnGrants::of("admin@%", MYSQL));
        candidate.own_grants = primary.own_grants.clone();
        let lines = ["GRANT USAGE ON *.* TO `admin`@`%`", "GRANT SELECT ON `headroom`.* TO `admin`@`%`"];
        other.own_grants = Some(OwnGrants::of("admin@%", &lines));
        assert_eq!(of(&primary, &candidate, std::slice::from_ref(&other)).level, Level::Pass);
        other.channels = vec![channel("a1", 3306, 1)];
        let stops = of(&primary, &candidate, &[other]);
        assert_eq!(stops.facts, "on b1 admin@% lacks REPLICATION_SLAVE_ADMIN ON *.*");
    }
}
