//! Recorded servers, and what is found on them.

use super::*;
use crate::Status;
use fleet::{Address, Lack, Lag, LagSource, ServerName, Thread};

fn replica() -> Server {
    let mut server = Server::unasked(ServerName::new("db2"), Address::tcp("db2.example", 3306));
    (server.role, server.state, server.replication) = (Role::Replica, State::Answering, Replication::Running);
    server.version = Some("MariaDB 10.11.9".to_owned());
    server.zone = Some(fleet::KnownZone { zone: fleet::Zone::new("a"), by: fleet::ZoneSource::Rule });
    let source = LagSource::GtidSamples;
    server.lag = Some(Lag { at_least: Duration::ZERO, uncertainty: Duration::from_millis(500), source });
    server
}

fn sound() -> ServerFacts {
    ServerFacts {
        supported: Some(true),
        performance_schema: Some(true),
        userstat: false,
        mariadb: true,
        report_host: Some("db2.example".to_owned()),
        cipher: Some("TLS_AES_256_GCM_SHA384".to_owned()),
        remote: true,
        clock: Some(Skew { ahead_s: 0.004, uncertainty: Duration::from_millis(1) }),
        sessions: Some(20),
        max_connections: Some(151),
    }
}

fn find(server: &Server, seed: bool, facts: ServerFacts, check: &str) -> Finding {
    let all = findings(server, seed, &Ok(facts));
    all.into_iter().find(|finding| finding.check == check).unwrap_or_else(|| panic!("no {check}"))
}

#[test]
fn a_sound_server_passes_everywhere() {
    let all = findings(&replica(), false, &Ok(sound()));
    assert!(all.iter().all(|finding| finding.status == Status::Pass), "{all:?}");
    assert!(all.len() > 8, "{all:?}");
}

#[test]
fn a_missing_privilege_shows_the_statement_that_grants_it() {
    let lack = Lack {
        unknown: "reads by client host are not counted".to_owned(),
        grant: "GRANT SELECT ON performance_schema.* TO 'headroom'@'%'".to_owned(),
    };
    let found = find(&Server { lacks: vec![lack], ..replica() }, true, sound(), "privileges");
    assert_eq!(found.status, Status::Warn);
    assert_eq!(found.mend.unwrap(), "GRANT SELECT ON performance_schema.* TO 'headroom'@'%';");
}

#[test]
fn a_server_that_does_not_answer_has_one_finding() {
    let silent = Server { state: State::Silent { why: "no greeting within 1s".to_owned() }, ..replica() };
    let all = findings(&silent, true, &Err(FactsError::NotAsked));
    let [login] = &all[..] else { panic!("{all:?}") };
    assert_eq!((login.status, login.check), (Status::Fail, "login"));
}

#[test]
fn a_server_that_refuses_for_another_reason_than_the_password_is_not_mended_by_one() {
    let why = "the server offers no TLS, and ssl_mode demands it".to_owned();
    let failing = Server { state: State::Failing { why: why.clone() }, ..replica() };
    let all = findings(&failing, true, &Err(FactsError::NotAsked));
    let [login] = &all[..] else { panic!("{all:?}") };
    assert_eq!((login.status, &login.found), (Status::Fail, &why));
    let mend = login.mend.as_deref().unwrap();
    assert!(mend.starts_with("as the error says") && mend.contains("ssl_mode"), "{mend}");
}

#[test]
fn what_costs_figures_warns() {
    let with = |facts: ServerFacts, check| find(&replica(), false, facts, check).status;
    let off = ServerFacts { performance_schema: Some(false), ..sound() };
    assert_eq!(with(off.clone(), "counters"), Status::Warn);
    assert_eq!(with(ServerFacts { userstat: true, ..off }, "counters"), Status::Pass);
    assert_eq!(with(ServerFacts { cipher: Some(String::new()), ..sound() }, "tls"), Status::Warn);
    assert_eq!(
        with(ServerFacts { cipher: Some(String::new()), remote: false, ..sound() }, "tls"),
        Status::Pass
    );
    assert_eq!(with(ServerFacts { sessions: Some(150), ..sound() }, "room"), Status::Warn);
    assert_eq!(with(ServerFacts { supported: Some(false), ..sound() }, "version"), Status::Warn);
    let ahead = |ahead_s| Some(Skew { ahead_s, uncertainty: Duration::from_millis(300) });
    assert_eq!(with(ServerFacts { clock: ahead(-3.5), ..sound() }, "clock"), Status::Warn);
    assert_eq!(
        with(ServerFacts { clock: ahead(1.2), ..sound() }, "clock"),
        Status::Pass,
        "within what is known"
    );
}

#[test]
fn a_replica_without_report_host_is_found_by_its_seed() {
    let nameless = ServerFacts { report_host: Some(String::new()), ..sound() };
    assert_eq!(find(&replica(), false, nameless.clone(), "report_host").status, Status::Warn);
    assert_eq!(find(&replica(), true, nameless, "report_host").status, Status::Pass);
}

#[test]
fn replication_that_stopped_fails_with_the_servers_own_error() {
    let stopped = Replication::Stopped { thread: Thread::Applier, why: "Duplicate entry '7'".to_owned() };
    let found = find(&Server { replication: stopped, ..replica() }, true, sound(), "role");
    assert_eq!(found.status, Status::Fail);
    assert!(found.found.contains("Duplicate entry"), "{found:?}");
}
