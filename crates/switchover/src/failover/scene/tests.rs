//! Who is the dead one, who follows it, and what is planned, of facts that are made up.

use super::*;
use crate::facts::ScheduledEvent;
use crate::facts::tests::{channel, facts};
use crate::failover::text;
use fleet::Server;

/// a1 is dead, these follow it, and nobody else is known.
pub(in crate::failover) fn scene(replicas: Vec<Facts>) -> Scene {
    Scene {
        primary: ServerAddress { name: ServerName::new("a1"), reach: Address::tcp("a1", 3306) },
        source: ("a1".to_owned(), 3306),
        replicas,
        others: Vec::new(),
        silent: Vec::new(),
        unread: Vec::new(),
        epoch: 0,
    }
}

/// a1 is the primary, c1 its replica, and both are silent; a2 follows a1, c2 follows c1.
fn fleet() -> (Snapshot, Vec<Facts>, Vec<(ServerName, String)>) {
    let mut snapshot = Snapshot::empty(Instant::now());
    for name in ["a1", "a2", "c1", "c2"] {
        let reach = Address::tcp(name.to_owned(), 3306);
        snapshot.servers.push(Server::unasked(ServerName::new(name), reach));
    }
    let follows = |name: &str, source: &str, id: u32| Facts {
        channels: vec![Channel { receiver_runs: false, ..channel(source, 3306, id) }],
        variables: [("read_only".to_owned(), "ON".to_owned())].into(),
        ..facts(name, "10.11.6-MariaDB")
    };
    let answering = vec![follows("a2", "a1", 11), follows("c2", "c1", 13)];
    (snapshot, answering, vec![(ServerName::new("c1"), "connecting: refused".to_owned())])
}

#[test]
fn replicas_of_a_replica_that_died_with_the_primary_are_others() {
    let (snapshot, answering, unread) = fleet();
    let a1 = ServerName::new("a1");
    let (source, replicas, others) =
        split(answering.clone(), &snapshot, Some(&a1), &unread).expect("one fleet");
    assert_eq!(source, ("a1".to_owned(), 3306));
    let names = |all: &[Facts]| all.iter().map(|facts| facts.server.to_string()).collect::<Vec<_>>();
    assert_eq!((names(&replicas), names(&others)), (vec!["a2".to_owned()], vec!["c2".to_owned()]));
    // Which of the two is the primary is not known, or c1 is no server of this fleet.
    assert!(split(answering.clone(), &snapshot, None, &unread).is_err());
    assert!(split(answering, &snapshot, Some(&a1), &[]).is_err());
}

#[test]
fn where_no_replica_answers_it_says_what_a_failover_needs() {
    let (snapshot, _, unread) = fleet();
    let refused = split(Vec::new(), &snapshot, None, &unread).err().map(|error| error.to_string());
    let refused = refused.unwrap_or_default();
    assert!(refused.contains("c1 was not read: connecting: refused. A failover needs"), "{refused}");
}

#[test]
fn a_replica_with_sources_outside_of_the_fleet_keeps_nobody_from_taking_over() {
    let (snapshot, mut answering, unread) = fleet();
    let outside = Channel { received: "9-99-7".to_owned(), ..channel("elsewhere", 3306, 99) };
    let plain = Channel { received: "0-11-5".to_owned(), ..answering[0].channels[0].clone() };
    answering[0].channels = vec![plain.clone()];
    let of_two = |channels: Vec<Channel>| Facts { channels, ..facts("r1", "10.11.6-MariaDB") };
    answering.push(of_two(vec![outside, Channel { name: "x".to_owned(), ..plain }]));
    let a1 = ServerName::new("a1");
    let split = |answering: &[Facts], primary| split(answering.to_vec(), &snapshot, primary, &unread);
    let (source, replicas, others) = split(&answering, Some(&a1)).expect("one fleet");
    assert_eq!((source.0.as_str(), replicas.len(), others[0].server.as_str()), ("a1", 2, "c2"));
    assert_eq!(replicas[1].channels[0].host, "a1", "the one that leads to the dead one comes first");
    let on = |name: &str| (name.to_owned(), "ON".to_owned());
    let mut scene = Scene {
        primary: ServerAddress { name: a1.clone(), reach: Address::tcp("a1", 3306) },
        source,
        replicas,
        others,
        silent: Vec::new(),
        unread: Vec::new(),
        epoch: 0,
    };
    for facts in &mut scene.replicas {
        facts.variables.extend([on("log_bin"), on("log_slave_updates")]);
    }
    scene.replicas[1].position = "0-11-5,9-99-7".to_owned();
    assert_eq!(scene.choose(None).unwrap().as_str(), "a2");
    let refused = scene.choose(Some(&ServerName::new("r1"))).unwrap_err().to_string();
    assert!(refused.contains("several sources"), "{refused}");
    let loss = scene.rule_out_loss(&SourceEvidence::Stated).unwrap_err();
    assert_eq!(loss, LossRisk::KeepsReceiving(vec![ServerName::new("r1")]));
    // Which of the others it follows is nobody's concern, and without a name it is found all the same.
    answering.remove(1);
    answering[1].channels.truncate(1);
    answering[1].channels.push(channel("elsewhere", 3307, 98));
    let (source, replicas, others) = split(&answering, None).expect("one fleet");
    assert_eq!((source.0.as_str(), replicas.len(), others.len()), ("a1", 1, 1));
}

#[test]
fn what_a_replica_wrote_itself_does_not_stand_for_what_it_received() {
    // Started anew beside a dead primary, a2 has no position of its receiver. An ANALYZE TABLE is its own.
    let replica = |name: &str, received: &str| {
        let on = |name: &str| (name.to_owned(), "ON".to_owned());
        let received = received.to_owned();
        Facts {
            channels: vec![Channel { receiver_runs: false, received, ..channel("a1", 3306, 11) }],
            variables: [on("log_bin"), on("log_slave_updates"), on("read_only")].into(),
            ..facts(name, "10.11.6-MariaDB")
        }
    };
    let (mut a2, b1) = (replica("a2", ""), replica("b1", "0-11-105"));
    a2.position = "0-12-105".to_owned();
    a2.variables.insert("gtid_slave_pos".to_owned(), "0-11-104".to_owned());
    let scene = scene(vec![a2, b1]);
    assert_eq!(scene.choose(None).unwrap().as_str(), "b1");
    let behind = scene.choose(Some(&ServerName::new("a2"))).unwrap_err().to_string();
    assert!(behind.contains("a2 has received less than b1"), "{behind}");
}

#[test]
fn a_replica_that_refuses_clients_does_not_take_over() {
    let replica = |name: &str, offline: &str| {
        let set = [("log_bin", "ON"), ("log_replica_updates", "ON"), ("offline_mode", offline)];
        Facts {
            channels: vec![Channel { receiver_runs: false, ..channel("a1", 3306, 11) }],
            variables: set.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
            ..facts(name, "8.4.2")
        }
    };
    let both = scene(vec![replica("a2", "ON"), replica("b1", "OFF")]);
    assert_eq!(both.choose(None).unwrap().as_str(), "b1");
    let refused = scene(vec![replica("a2", "ON")]).choose(None).unwrap_err().to_string();
    assert!(refused.ends_with("it is in offline_mode and refuses clients"), "{refused}");
}

#[test]
fn servers_are_known_by_their_ipv6_addresses() {
    let (mut snapshot, mut answering, unread) = fleet();
    for (server, address) in snapshot.servers.iter_mut().zip(["fd00::1", "fd00::2", "fd00::3", "fd00::4"]) {
        server.reach = Address::tcp(address, 3306);
    }
    answering[0].channels[0].host = "fd00::1".to_owned();
    answering[1].channels[0].host = "fd00::3".to_owned();
    let a1 = ServerName::new("a1");
    let (source, replicas, others) = split(answering, &snapshot, Some(&a1), &unread).expect("one fleet");
    assert_eq!((replicas[0].server.as_str(), others[0].server.as_str()), ("a2", "c2"));
    assert_eq!(named(&snapshot, &source, &[], &[]), a1);
    let unknown = named(&snapshot, &("fd00::9".to_owned(), 3306), &[], &[]);
    assert_eq!(unknown.as_str(), "[fd00::9]:3306");
}

#[test]
fn a_replica_that_has_not_reached_its_new_source_is_one_of_that() {
    // a2 was promoted and died at once: b1 was told, and shows the number of a1 still, which lives.
    let mut snapshot = Snapshot::empty(Instant::now());
    for name in ["a1", "a2", "b1"] {
        let reach = Address::tcp(name.to_owned(), 3306);
        snapshot.servers.push(Server::unasked(ServerName::new(name), reach));
    }
    let a1 = Facts { server_id: 11, ..facts("a1", "10.11.6-MariaDB") };
    let told = Channel { receiver_runs: false, ..channel("a2", 3306, 11) };
    let b1 = Facts { channels: vec![told], server_id: 13, ..facts("b1", "10.11.6-MariaDB") };
    let a2 = ServerName::new("a2");
    let (source, replicas, others) = split(vec![a1, b1], &snapshot, Some(&a2), &[]).expect("b1 follows a2");
    assert_eq!(source, ("a2".to_owned(), 3306));
    assert_eq!((replicas[0].server.as_str(), others[0].server.as_str()), ("b1", "a1"));
}

#[test]
fn why_a_server_was_not_read_is_said() {
    let (snapshot, _, _) = fleet();
    let unread = [(ServerName::new("a2"), "Access denied for user 'admin'".to_owned())];
    let error = split(Vec::new(), &snapshot, None, &unread).unwrap_err().to_string();
    assert!(error.contains("a2 was not read: Access denied"), "{error}");
}

#[test]
fn a_channel_with_a_name_is_neither_promoted_nor_called_stopped() {
    let on = |name: &str| (name.to_owned(), "ON".to_owned());
    let replica = |server: &str, channel_name: &str| Facts {
        channels: vec![Channel {
            name: channel_name.to_owned(),
            receiver_runs: false,
            ..channel("a1", 3306, 11)
        }],
        variables: [on("log_bin"), on("log_slave_updates"), on("read_only")].into(),
        ..facts(server, "10.11.6-MariaDB")
    };
    let scene = scene(vec![replica("a2", ""), replica("b1", "x")]);
    assert!(standing(&scene.replicas[1]).unwrap().unusable.unwrap().contains("has a name (x)"));
    let loss = scene.rule_out_loss(&SourceEvidence::Stated).unwrap_err();
    assert_eq!(loss, LossRisk::KeepsReceiving(vec![ServerName::new("b1")]));
    let plan = scene.plan(&ServerName::new("a2"), FenceBy::Nothing, Deadlines::default(), "here").unwrap();
    assert!(!plan.others[0].follows_primary, "no statement of ours reaches that channel");
}

#[test]
fn an_applying_thread_that_somebody_stopped_is_not_started_by_a_failover() {
    let replica = |server: &str, receiver_tries: bool, applier_runs: bool| Facts {
        channels: vec![Channel {
            receiver_runs: false,
            receiver_tries,
            applier_runs,
            ..channel("a1", 3306, 11)
        }],
        variables: [("rpl_semi_sync_slave_enabled".to_owned(), "ON".to_owned())].into(),
        status: [("rpl_semi_sync_slave_status".to_owned(), "ON".to_owned())].into(),
        ..facts(server, "10.11.6-MariaDB")
    };
    let mut scene = scene(vec![
        replica("a2", true, true),
        replica("b1", true, false),
        replica("b2", false, false),
        replica("b3", false, true),
    ]);
    let a2 = ServerName::new("a2");
    let plan = scene.plan(&a2, FenceBy::Nothing, Deadlines::default(), "here").unwrap();
    let stopped: Vec<Option<Thread>> = plan.others.iter().map(|member| member.stopped).collect();
    assert_eq!(stopped, [Some(Thread::Applier), Some(Thread::Both), None]);
    assert!(plan.others.iter().all(|member| member.follows_primary) && plan.semi_sync);
    // What receives nothing acknowledges nothing.
    scene.replicas = vec![replica("a2", true, true), replica("b2", false, false)];
    assert!(scene.semi_sync_stays_off(&a2));
}

#[test]
fn semi_sync_stays_off_where_fewer_follow_than_the_new_primary_would_wait_for() {
    let (a2, count) = (ServerName::new("a2"), "rpl_semi_sync_source_wait_for_replica_count");
    let replica = |server: &str| {
        let on = |name: &str| (name.to_owned(), "ON".to_owned());
        Facts {
            channels: vec![Channel { receiver_runs: false, ..channel("a1", 3306, 11) }],
            variables: [on("read_only"), on("rpl_semi_sync_replica_enabled")].into(),
            status: [on("rpl_semi_sync_replica_status")].into(),
            ..facts(server, "8.4.2")
        }
    };
    let mut scene = scene(vec![replica("a2"), replica("b1")]);
    let plan = |scene: &Scene| scene.plan(&a2, FenceBy::Nothing, Deadlines::default(), "here").unwrap();
    assert!(plan(&scene).semi_sync && !plan(&scene).semi_sync_stays_off, "b1 is enough");
    scene.replicas[0].variables.insert(count.to_owned(), "2".to_owned());
    assert!(!plan(&scene).semi_sync && plan(&scene).semi_sync_stays_off);
    scene.replicas.push(replica("b2"));
    assert!(plan(&scene).semi_sync && !plan(&scene).semi_sync_stays_off);
    // It stays with the dead one.
    scene.replicas[2].channels[0].name = "x".to_owned();
    assert!(plan(&scene).semi_sync_stays_off);
}

#[test]
fn a_privilege_of_semi_sync_is_needed_of_those_alone_that_wait_once_they_are_promoted() {
    let granted = [
        "GRANT RELOAD, READ_ONLY ADMIN, REPLICATION SLAVE ADMIN ON *.* TO `admin`@`%`",
        "GRANT ALL PRIVILEGES ON `headroom`.* TO `admin`@`%`",
    ];
    let replica = |server: &str, acknowledges: &str| Facts {
        channels: vec![Channel { receiver_runs: false, ..channel("a1", 3306, 11) }],
        variables: [("rpl_semi_sync_slave_enabled".to_owned(), acknowledges.to_owned())].into(),
        status: [("rpl_semi_sync_slave_status".to_owned(), acknowledges.to_owned())].into(),
        own_grants: Some(crate::facts::OwnGrants::of("admin@%", &granted)),
        ..facts(server, "10.11.6-MariaDB")
    };
    let mut scene = scene(vec![replica("a2", "ON")]);
    let alone = scene.own_privileges_of_all();
    assert_eq!(alone.level, crate::check::Level::Pass, "nobody is left to acknowledge: {}", alone.facts);
    // Only b1 would wait: for a2.
    scene.replicas.push(replica("b1", "OFF"));
    assert_eq!(scene.own_privileges_of_all().facts, "on b1 admin@% lacks REPLICATION MASTER ADMIN ON *.*");
    assert_eq!(scene.own_privileges(Some(&ServerName::new("a2"))).level, crate::check::Level::Pass);
    scene.replicas[1].reserved = Some("backup".into());
    assert_eq!(scene.own_privileges_of_all().level, crate::check::Level::Pass, "it is never chosen");
}

#[test]
fn events_that_the_account_does_not_see_are_said_to_be_unknown() {
    let channels = vec![Channel { receiver_runs: false, ..channel("a1", 3306, 11) }];
    let mut scene = scene(vec![Facts { channels, ..facts("a2", "10.11.6-MariaDB") }]);
    let chosen = Ok(ServerName::new("a2"));
    let words = |scene: &Scene| {
        let loss = scene.rule_out_loss(&SourceEvidence::Stated);
        let plan =
            scene.plan(&ServerName::new("a2"), FenceBy::Nothing, Deadlines::default(), "here").unwrap();
        let json = text::Checked::of(scene, &chosen, &loss, false, None);
        assert_eq!(plan.events_unknown, json.events_unknown);
        text::check(scene, &chosen, &loss, false, None, term::Paint::off())
    };
    assert!(words(&scene).contains("GRANT EVENT ON *.*"), "{}", words(&scene));
    scene.replicas[0].replica_side_events = Some(Vec::new());
    assert!(words(&scene).contains("run there once it takes writes, is not known"), "{}", words(&scene));
    scene.replicas[0].events = Some(Vec::new());
    assert!(!words(&scene).contains("EVENT"), "{}", words(&scene));
}

#[test]
fn events_that_are_enabled_at_who_takes_over_are_named_with_what_stops_them() {
    let nightly = ScheduledEvent {
        schema: "app".to_owned(),
        name: "nightly".to_owned(),
        definer: "root@localhost".to_owned(),
    };
    // A MySQL primary that came back keeps its events as they were.
    let came_back = Facts {
        channels: vec![Channel { receiver_runs: false, ..channel("a1", 3306, 11) }],
        variables: [("version", "8.4.2"), ("super_read_only", "ON")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
        events: Some(vec![nightly]),
        replica_side_events: Some(Vec::new()),
        ..facts("a2", "8.4.2")
    };
    let scene = scene(vec![came_back]);
    let chosen = Ok(ServerName::new("a2"));
    let loss = scene.rule_out_loss(&SourceEvidence::Stated);
    let check = text::check(&scene, &chosen, &loss, false, None, term::Paint::off());
    let event = "ALTER DEFINER = 'root'@'localhost' EVENT `app`.`nightly` DISABLE";
    let before = format!(
        "SET GLOBAL super_read_only = OFF; SET SESSION sql_log_bin = 0; {event} ON REPLICA; SET GLOBAL super_read_only = ON"
    );
    assert!(check.contains("1 events are enabled at a2") && check.contains(&before), "{check}");
    let json = text::Checked::of(&scene, &chosen, &loss, false, None);
    assert_eq!((json.events_enabled, json.events_unknown), (vec!["app.nightly".to_owned()], false));
    let plan = scene.plan(&ServerName::new("a2"), FenceBy::Nothing, Deadlines::default(), "here").unwrap();
    let done = crate::perform::Outcome::new(crate::step::State::Done);
    let journal = std::path::Path::new("j");
    let words = crate::text::outcome(&plan, &done, journal, &Flags::default(), term::Paint::off());
    assert!(words.contains("1 events were enabled at a2") && words.contains(event), "{words}");
    assert!(!words.contains("sql_log_bin"), "its replicas shall have it too: {words}");
}

#[test]
fn a_replica_that_is_not_read_only_is_no_primary_and_what_to_do_is_said() {
    let open = |runs: bool| {
        let channel = Channel { receiver_runs: runs, applier_runs: runs, ..channel("a1", 3306, 11) };
        let flags = Flags::new("--config f.toml");
        takes_writes(&Facts { channels: vec![channel], ..facts("b1", "10.11.6-MariaDB") }, &flags)
    };
    assert!(open(true).contains("replica of a1:3306 and not read-only"), "{}", open(true));
    assert!(open(true).contains("SET GLOBAL read_only = ON") && !open(true).contains("--resume"));
    assert!(open(false).contains("--resume --config f.toml; on any other"), "{}", open(false));
    assert!(open(false).ends_with("--resume --from-servers --config f.toml"), "{}", open(false));
    let primary = takes_writes(&facts("a1", "10.11.6-MariaDB"), &Flags::default());
    assert!(primary.contains("there is a primary"), "{primary}");
}

#[test]
fn a_replica_that_routers_may_not_pick_does_not_take_over() {
    let follows = |name: &str| {
        let channel =
            Channel { received: "0-11-5".to_owned(), receiver_runs: false, ..channel("a1", 3306, 11) };
        let on = ["read_only", "log_bin", "log_slave_updates"];
        Facts {
            channels: vec![channel],
            variables: on.map(|name| (name.to_owned(), "ON".to_owned())).into(),
            ..facts(name, "10.11.6-MariaDB")
        }
    };
    let reserved = Facts { reserved: Some("'analytics'".to_owned()), ..follows("a2") };
    let mut scene = scene(vec![reserved, follows("b1")]);
    assert_eq!(scene.choose(None).unwrap().as_str(), "b1");
    scene.replicas.truncate(1);
    let why = scene.choose(None).unwrap_err().to_string();
    assert!(why.contains("reserved by rule 'analytics'"), "{why}");
}

#[test]
fn a_replica_that_nobody_could_follow_by_gtid_does_not_take_over() {
    let follows = |name: &str, gtid_mode: &str| {
        let on = ["read_only", "log_bin", "log_replica_updates"].map(|name| (name, "ON"));
        let variables = on.into_iter().chain([("gtid_mode", gtid_mode)]);
        Facts {
            channels: vec![Channel { receiver_runs: false, ..channel("a1", 3306, 11) }],
            variables: variables.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
            ..facts(name, "8.4.2")
        }
    };
    let mut scene = scene(vec![follows("a2", "ON_PERMISSIVE"), follows("b1", "ON")]);
    assert_eq!(scene.choose(None).unwrap().as_str(), "b1");
    scene.replicas.truncate(1);
    let why = scene.choose(None).unwrap_err().to_string();
    assert!(why.contains("its gtid_mode is ON_PERMISSIVE"), "{why}");
}

#[test]
fn a_primary_by_the_newest_record_that_is_closed_keeps_others_from_taking_over() {
    // a2 took over from a1 and was restarted with read_only; b2, which was away, still looks for a1.
    let plan = crate::perform::tests::failover(FenceBy::Nothing);
    let on = || std::collections::BTreeMap::from([("read_only".to_owned(), "ON".to_owned())]);
    let a2 = Facts { variables: on(), ..facts("a2", "10.11.6-MariaDB") };
    let b2 = Facts {
        channels: vec![Channel { receiver_runs: false, ..channel("a1", 3306, 11) }],
        variables: on(),
        ..facts("b2", "10.11.6-MariaDB")
    };
    let flags = Flags::new("--config f.toml");
    let found = |a2: &Facts, state: &str| {
        let newest = (state.to_owned(), plan.clone());
        unfinished::closed_primary(&[b2.clone(), a2.clone()], Some(&newest), &flags)
            .map(|error| error.to_string())
    };
    let why = found(&a2, "done").unwrap();
    assert!(why.starts_with("a2: took over from a1 by the newest record (epoch 3)"), "{why}");
    assert!(why.contains("There: SET GLOBAL read_only = OFF; then again"), "{why}");
    assert!(why.ends_with("headroom failover --primary NAME --config f.toml"), "{why}");
    assert_eq!(found(&a2, "undone"), None);
    assert_eq!(found(&a2, "begun"), None);
    let follows = Facts { channels: vec![channel("b1", 3306, 13)], ..a2.clone() };
    assert_eq!(found(&follows, "done"), None, "somebody else was made the primary since");
    let open = Facts { variables: Default::default(), ..a2.clone() };
    assert_eq!(found(&open, "done"), None, "it takes writes, which is said elsewhere");
    assert!(unfinished::closed_primary(&[a2], None, &flags).is_none());
}
