//! The survey of servers: one server under several addresses, mentioned ones, and those that go.

use super::*;
use crate::answer::{Channels, Identity, RegisteredReplica, Runs, Switches};
use config::Matcher;
use fleet::Role;

/// These tests are about what is found, not about where it may be: discovery may go to 10.0.0.0/8 and any
/// name.
fn config(seeds: &[&str]) -> FleetConfig {
    let within = vec![Matcher::Net("10.0.0.0/8".parse().unwrap()), Matcher::Name("*".to_owned())];
    FleetConfig { discover_within: Some(within), ..by_seeds(seeds) }
}

fn by_seeds(seeds: &[&str]) -> FleetConfig {
    FleetConfig { seeds: seeds.iter().map(|s| s.parse().unwrap()).collect(), ..FleetConfig::default() }
}

fn survey(seeds: &[&str]) -> (Survey, Instant) {
    let now = Instant::now();
    (Survey::new(config(seeds), now), now)
}

/// A writable server of this identity that tells of nobody.
fn answer(key: &str, now: Instant) -> Answer {
    Answer {
        product: "MySQL 9.1.0".to_owned(),
        identity: Identity {
            key: key.to_owned(),
            uuid: None,
            server_id: 0,
            reports: None,
            port: 3306,
            account: "u@h".to_owned(),
            performance_schema: true,
            userstat: false,
            gtid: true,
            event_scheduler: false,
        },
        switches: Switches::default(),
        announced: fleet::Announcement::Nothing,
        operation: false,
        epoch: crate::epoch::ServerEpoch::Known(0),
        written: None,
        applied: None,
        channels: Channels::Known(Vec::new()),
        replicas: Vec::new(),
        managed: None,
        load: None,
        counts_replication: false,
        clients: None,
        missing: Vec::new(),
        asked: now,
        answered: now,
        question_time: None,
        round_trip: None,
        peer: None,
        local: None,
        plain_because: None,
        remarks: Vec::new(),
        asking: fleet::Asking {
            interval: Duration::from_millis(500),
            counters: None,
            routers: None,
            because: None,
        },
    }
}

fn replicating(mut answer: Answer, source: &str) -> Answer {
    answer.switches.read_only = true;
    answer.channels = Channels::Known(vec![Channel {
        name: String::new(),
        source: source.parse().unwrap(),
        source_id: 0,
        source_uuid: None,
        receiver: Runs::Yes,
        applier: Runs::Yes,
        receiver_error: String::new(),
        applier_error: String::new(),
        seconds_behind: Some(0),
        executed: None,
        delay: 0,
        counts_own_writes: false,
        domains: Default::default(),
    }]);
    answer
}

fn telling(mut answer: Answer, addresses: &[&str], guessed: bool) -> Answer {
    answer.replicas = addresses
        .iter()
        .map(|a| Some(a.parse().unwrap()))
        .map(|address| RegisteredReplica { address, port: 3306, server_id: 0, uuid: None, guessed })
        .collect();
    answer
}

fn refused() -> AskError {
    AskError::Broken { why: "connection refused".to_owned() }
}

fn names(survey: &Survey) -> Vec<String> {
    survey.entries.values().map(|e| e.name.to_string()).collect()
}

fn id_of(survey: &Survey, name: &str) -> ServerId {
    survey.entries.values().find(|e| e.name.as_str() == name).unwrap_or_else(|| panic!("{name}")).id
}

#[test]
fn the_fleet_is_found_upwards_and_downwards() {
    let (mut survey, now) = survey(&["b"]);
    survey.take(0, Ok(replicating(telling(answer("B", now), &["c:3306"], false), "a")), now);
    assert_eq!(names(&survey), ["b:3306", "a:3306", "c:3306"]);
    let mut alone = config(&["b"]);
    alone.discover = false;
    let mut survey = Survey::new(alone, now);
    survey.take(0, Ok(replicating(answer("B", now), "a")), now);
    assert_eq!(names(&survey), ["b:3306"], "unless it is told not to");
}

#[test]
fn what_servers_call_each_other_goes_through_the_address_map() {
    let now = Instant::now();
    let mut config = config(&["tunnel:7001"]);
    config.address_map = vec![
        ("db1:3306".parse().unwrap(), "tunnel:7001".parse().unwrap()),
        ("db2:3306".parse().unwrap(), "tunnel:7002".parse().unwrap()),
    ];
    let mut survey = Survey::new(config, now);
    survey.take(0, Ok(telling(answer("A", now), &["db2:3306", "db1:3306"], false)), now);
    let reached: Vec<(String, String)> =
        survey.entries.values().map(|e| (e.name.to_string(), e.reach.to_string())).collect();
    let wanted = [("db1:3306", "tunnel:7001"), ("db2:3306", "tunnel:7002")];
    assert_eq!(reached, wanted.map(|(name, reach)| (name.to_owned(), reach.to_owned())));
}

#[test]
fn two_addresses_of_one_server_are_one_and_the_seed_gives_the_name() {
    let (mut survey, now) = survey(&["db1", "vip"]);
    survey.take(1, Ok(telling(answer("A", now), &["10.0.0.1"], false)), now);
    survey.take(2, Ok(answer("A", now)), now);
    assert_eq!(names(&survey), ["db1:3306", "vip:3306"]);
    survey.take(0, Ok(answer("A", now)), now);
    assert_eq!(names(&survey), ["db1:3306"], "of two seeds the first");
    survey.take(0, Ok(telling(answer("A", now), &["vip", "10.0.0.1"], false)), now);
    assert_eq!(names(&survey), ["db1:3306"], "and the others stay known as its addresses");
}

#[test]
fn a_server_that_answers_at_a_new_address_keeps_its_name() {
    let (mut survey, now) = survey(&["db1", "db2"]);
    survey.take(0, Ok(answer("A", now)), now);
    survey.take(0, Err(refused()), now);
    survey.take(1, Ok(telling(answer("B", now), &["10.0.0.9"], false)), now);
    survey.take(2, Ok(answer("A", now)), now);
    let moved = &survey.entries[&0];
    assert_eq!((moved.name.as_str(), moved.reach.to_string().as_str()), ("db1:3306", "10.0.0.9:3306"));
    assert!(moved.remark.as_deref().unwrap().contains("but at 10.0.0.9:3306"), "{:?}", moved.remark);
    assert_eq!(moved.state, State::Answering);
}

#[test]
fn another_server_behind_the_same_address_is_noticed() {
    let (mut survey, now) = survey(&["vip"]);
    survey.take(0, Ok(telling(answer("A", now), &["a"], false)), now);
    // "a" turns out to be what "vip" leads to; then "vip" leads to another one.
    survey.take(1, Ok(answer("A", now)), now);
    assert_eq!(names(&survey), ["vip:3306"]);
    survey.take(0, Ok(telling(answer("B", now), &["a"], false)), now);
    assert_eq!(names(&survey), ["vip:3306", "a:3306"], "the old one is looked for anew");
    assert!(survey.entries[&0].remark.as_deref().unwrap().contains("another server answers"));
}

#[test]
fn a_guess_is_shown_only_once_it_answers_and_given_up_soon() {
    let now = Instant::now();
    let mut config = config(&["a"]);
    config.credentials.tls.mode = TlsMode::VerifyCa;
    let mut survey = Survey::new(config, now);
    let told = || telling(answer("A", Instant::now()), &["10.0.0.7:3306"], true);
    survey.take(0, Ok(told()), now);
    assert!(!survey.entries[&1].is_shown());
    for _ in 0..GUESS_LOOKS {
        survey.take(1, Err(refused()), now);
    }
    survey.take(0, Ok(told()), now);
    assert_eq!(names(&survey), ["a:3306"], "and not guessed again");
}

#[test]
fn a_told_server_goes_by_the_name_it_gives_itself_and_a_seed_by_the_operators() {
    let (mut survey, now) = survey(&["seed"]);
    let reporting = |key: &str, host: &str| {
        let mut answer = answer(key, now);
        answer.identity.reports = Some(Address::tcp(host, 3306));
        answer
    };
    survey.take(0, Ok(telling(reporting("A", "a.internal"), &["10.0.0.2"], false)), now);
    survey.take(1, Ok(reporting("B", "b.internal")), now);
    assert_eq!(names(&survey), ["seed:3306", "b.internal:3306"]);
    assert_eq!(survey.entries[&1].reach.to_string(), "10.0.0.2:3306", "reached where it answers");
}

#[test]
fn what_was_only_told_of_is_forgotten_when_it_is_gone_for_long() {
    let (mut survey, now) = survey(&["a"]);
    survey.take(0, Ok(telling(answer("A", now), &["b"], false)), now);
    let b = id_of(&survey, "b:3306");
    survey.take(b, Err(refused()), now);
    let later = now + FORGET_AFTER + Duration::from_secs(1);
    survey.take(0, Ok(answer("A", later)), later);
    assert_eq!(names(&survey), ["a:3306"]);
    survey.take(0, Err(refused()), later + FORGET_AFTER * 2);
    assert_eq!(names(&survey), ["a:3306"], "what the configuration names stays");
}

/// A replica that somebody left open for writes.
fn open_replica(key: &str, source: &str, now: Instant) -> Answer {
    let mut answer = replicating(answer(key, now), source);
    answer.switches.read_only = false;
    answer
}

#[test]
fn a_source_that_does_not_answer_stays_known_while_a_replica_names_it_and_its_replica_is_no_primary() {
    let (mut survey, now) = survey(&["b"]);
    let mut view = crate::view::View::default();
    survey.take(0, Ok(open_replica("B", "a", now)), now);
    let a = id_of(&survey, "a:3306");
    survey.take(a, Err(refused()), now);
    let look = |survey: &mut Survey, view: &mut crate::view::View, at: Instant| {
        survey.take(0, Ok(open_replica("B", "a", at)), at);
        let snapshot = view.snapshot(survey, at);
        let role = snapshot.server(&ServerName::new("b:3306")).unwrap().role;
        (survey.entries.contains_key(&a), role, snapshot.primary().is_some())
    };
    let after = |seconds| now + Duration::from_secs(seconds);
    for second in 1..30 {
        assert_eq!(look(&mut survey, &mut view, after(second)), (true, Role::Replica, false), "{second} s");
    }
    // The same of one that answered once.
    survey.take(a, Ok(answer("A", after(30))), after(30));
    survey.take(a, Err(refused()), after(31));
    for minute in 1..30 {
        let at = after(31) + Duration::from_secs(60 * minute);
        let (known, role, _) = look(&mut survey, &mut view, at);
        assert_eq!((known, role), (true, Role::Replica), "{minute} min");
    }
    let later = after(31) + Duration::from_secs(60 * 60);
    survey.take(0, Ok(answer("B", later)), later);
    assert_eq!(names(&survey), ["b:3306"], "nobody names it any more");
}

#[test]
fn a_replica_of_a_server_that_was_not_asked_yet_is_no_primary() {
    let (mut survey, now) = survey(&["a", "b"]);
    let mut view = crate::view::View::default();
    survey.take(0, Ok(answer("A", now)), now);
    survey.take(1, Ok(open_replica("B", "a", now)), now);
    let before = view.snapshot(&survey, now);
    assert_eq!(before.primary().map(|p| p.name.as_str()), Some("a:3306"));
    // A failover by somebody else, to a server that we hear of only now.
    survey.take(0, Err(refused()), now);
    survey.take(1, Ok(open_replica("B", "c", now)), now);
    let role = |snapshot: &fleet::Snapshot| snapshot.server(&ServerName::new("b:3306")).unwrap().role;
    let during = view.snapshot(&survey, now);
    assert_eq!((role(&during), during.primary().is_none()), (Role::Replica, true));
    survey.take(id_of(&survey, "c:3306"), Ok(answer("C", now)), now);
    let after = view.snapshot(&survey, now);
    assert_eq!(role(&after), Role::Replica);
    assert_eq!(after.primary().map(|p| p.name.as_str()), Some("c:3306"));
}

#[test]
fn an_open_replica_is_no_primary_while_the_seed_that_may_be_its_source_has_never_answered() {
    let now = Instant::now();
    let mut survey = Survey::new(FleetConfig { discover: false, ..config(&["a", "b"]) }, now);
    survey.take(0, Err(refused()), now);
    survey.take(1, Ok(open_replica("B", "10.0.0.9", now)), now);
    let snapshot = crate::view::View::default().snapshot(&survey, now);
    let role = snapshot.server(&ServerName::new("b:3306")).unwrap().role;
    assert_eq!((role, snapshot.primary().is_none()), (Role::Replica, true));
}

#[test]
fn a_source_at_an_address_where_nobody_answers_is_the_server_that_has_its_number() {
    let (mut survey, now) = survey(&["b", "a"]);
    let replica = |at: Instant| {
        let mut replica = replicating(answer("B", at), "10.0.0.9");
        let Channels::Known(channels) = &mut replica.channels else { unreachable!("they are known") };
        channels[0].source_id = 7;
        replica
    };
    survey.take(0, Ok(replica(now)), now);
    survey.take(id_of(&survey, "10.0.0.9:3306"), Err(refused()), now);
    let mut source = answer("A", now);
    source.identity.server_id = 7;
    survey.take(1, Ok(source), now);
    assert_eq!(survey.source_of(0, &replica(now).channels.list()[0]), Some(1));
    let later = now + Duration::from_secs(10);
    survey.take(0, Ok(replica(later)), later);
    assert_eq!(names(&survey), ["b:3306", "a:3306"], "and the address is forgotten");
}

#[test]
fn a_replica_that_says_a_wrong_address_is_the_server_that_has_its_uuid() {
    let now = Instant::now();
    let mut survey = Survey::new(by_seeds(&["a.internal", "b.internal"]), now);
    let mut replica = replicating(answer("uuid b", now), "a.internal");
    replica.identity.uuid = Some("b".to_owned());
    survey.take(1, Ok(replica), now);
    // The name of a container, and an address that nobody but the servers reaches.
    let mut source = telling(answer("uuid a", now), &["3f2c.internal", "198.51.100.7"], false);
    source.replicas.iter_mut().for_each(|replica| replica.uuid = Some("b".to_owned()));
    survey.take(0, Ok(source), now);
    assert_eq!((survey.entries.len(), survey.not_followed().count()), (2, 0));
    // One that does not answer where it did may have moved.
    survey.take(1, Err(refused()), now);
    let mut source = telling(answer("uuid a", now), &["c.internal"], false);
    source.replicas[0].uuid = Some("b".to_owned());
    survey.take(0, Ok(source), now);
    assert!(names(&survey).contains(&"c.internal:3306".to_owned()));
}

#[test]
fn reconfiguring_keeps_what_it_does_not_touch() {
    let (mut survey, now) = survey(&["a"]);
    survey.take(0, Ok(telling(answer("A", now), &["b"], false)), now);
    let b = id_of(&survey, "b:3306");
    survey.take(b, Ok(answer("B", now)), now);
    survey.reconfigure(config(&["b", "c"]), now);
    assert_eq!(names(&survey), ["a:3306", "b:3306", "c:3306"]);
    assert!(survey.entries[&0].is_fresh() && survey.entries[&b].origin == Origin::Seed);
}

fn aurora(now: Instant, own: &str, writer: &str, lag_ms: u64) -> Answer {
    let mut answer = answer(&format!("aurora {own}"), now);
    answer.switches.innodb_read_only = own != writer;
    let instances = ["db-1", "db-2"]
        .map(|id| managed::Instance {
            id: id.to_owned(),
            writer: id == writer,
            lag: (id != writer).then_some(Duration::from_millis(lag_ms)),
        })
        .to_vec();
    answer.managed = Some(Managed::Aurora { own: own.to_owned(), instances });
    answer
}

#[test]
fn an_aurora_cluster_is_known_by_its_instances_whatever_endpoint_led_there() {
    let domain = "h4sh.eu-west-1.rds.amazonaws.com";
    let (mut survey, now) = survey(&[&format!("c.cluster-{domain}"), &format!("c.cluster-ro-{domain}")]);
    let mut view = crate::view::View::default();
    // Both endpoints answer, in this order; then the instance that the first told of.
    survey.take(0, Ok(aurora(now, "db-1", "db-1", 20)), now);
    survey.take(1, Ok(aurora(now, "db-2", "db-1", 20)), now);
    if survey.entries.contains_key(&2) {
        survey.take(2, Ok(aurora(now, "db-2", "db-1", 20)), now);
    }
    let names = names(&survey);
    assert_eq!(names.len(), 2, "{names:?}");
    assert!(names.contains(&format!("db-1.{domain}:3306")) && names.contains(&format!("db-2.{domain}:3306")));
    let snapshot = view.snapshot(&survey, now);
    let of =
        |name: &str| snapshot.servers.iter().find(|s| s.name.as_str().starts_with(name)).unwrap().clone();
    assert_eq!((of("db-1").role, of("db-2").role), (Role::Primary, Role::Replica));
    let lag = of("db-2").lag.unwrap();
    assert_eq!((lag.at_least, lag.source), (Duration::from_millis(20), fleet::LagSource::Aurora));

    // Failover: the old writer's own view is late, the new writer's is not.
    let (old, new) =
        (id_of(&survey, &format!("db-1.{domain}:3306")), id_of(&survey, &format!("db-2.{domain}:3306")));
    survey.take(old, Ok(aurora(now, "db-1", "db-1", 20)), now);
    survey.take(new, Ok(aurora(now, "db-2", "db-2", 5)), now);
    survey.take(old, Ok(aurora(now, "db-1", "db-2", 5)), now);
    let snapshot = view.snapshot(&survey, now);
    assert_eq!(snapshot.primary().map(|p| p.name.to_string()), Some(format!("db-2.{domain}:3306")));
}

#[test]
fn the_members_of_a_multi_az_cluster_are_found_and_go_by_their_endpoints() {
    let domain = "h4sh.eu-west-1.rds.amazonaws.com";
    let (mut survey, now) = survey(&[&format!("c.cluster-{domain}")]);
    let endpoint = |n: u32| Address::tcp(format!("i{n}.{domain}"), 3306);
    let member = |n: u32| {
        let mut answer = answer(&format!("uuid {n}"), now);
        answer.identity.server_id = n;
        answer.managed = Some(Managed::MultiAz { members: (1..4).map(|n| (n, endpoint(n))).collect() });
        answer
    };
    survey.take(0, Ok(member(2)), now);
    let mut names = names(&survey);
    names.sort();
    assert_eq!(names, [1, 2, 3].map(|n| endpoint(n).to_string()));
}

#[test]
fn nobody_is_named_as_the_writer_before_every_seed_was_asked_once() {
    let (mut survey, now) = survey(&["old", "new"]);
    let mut view = crate::view::View::default();
    survey.take(0, Ok(answer("OLD", now)), now);
    let early = view.snapshot(&survey, now);
    assert!(early.primary().is_none() && early.servers.iter().all(|s| s.role == Role::Unknown));
    survey.take(1, Ok(telling(answer("NEW", now), &["replica"], false)), now);
    let still = view.snapshot(&survey, now);
    assert!(still.primary().is_none(), "the new one told of a replica that was not asked yet");
    survey.take(2, Ok(replicating(answer("REPLICA", now), "new")), now);
    let all = view.snapshot(&survey, now);
    assert_eq!(all.primary().map(|p| p.name.as_str()), Some("new:3306"));
    // From then on a server that is told of later makes nobody wait.
    survey.take(1, Ok(telling(answer("NEW", now), &["later"], false)), now);
    assert!(view.snapshot(&survey, now).primary().is_some());
}

#[test]
fn lag_through_files_adds_up_along_the_chain() {
    let (mut survey, now) = survey(&["a", "b", "c"]);
    let mut view = crate::view::View::default();
    let at = |ms: u64| now + Duration::from_millis(ms);
    let place = |offset| fleet::FilePosition::new("bin.000001", offset);
    let look = |ms: u64, key: &str, written: Option<u64>, source: Option<(&str, u64)>| {
        let mut answer = answer(key, at(ms));
        answer.written = written.map(|offset| fleet::Position::File(place(offset)));
        if let Some((source, executed)) = source {
            answer = replicating(answer, source);
            let Channels::Known(channels) = &mut answer.channels else { unreachable!("they are known") };
            channels[0].executed = Some(place(executed));
        }
        answer
    };
    // b has all of a's 100 at 500 ms and lacks the 200 written by 1000 ms; c has all that b wrote to its own
    // log.
    for (ms, offset) in [(0, 100), (500, 100), (1000, 200), (1500, 200)] {
        survey.take(0, Ok(look(ms, "A", Some(offset), None)), at(ms));
        survey.take(1, Ok(look(ms + 10, "B", Some(40), Some(("a", 100)))), at(ms + 10));
        survey.take(2, Ok(look(ms + 20, "C", None, Some(("b", 40)))), at(ms + 20));
    }
    let snapshot = view.snapshot(&survey, at(1520));
    let lag = |name: &str| snapshot.server(&ServerName::new(name)).unwrap().lag.unwrap();
    assert_eq!(lag("b:3306").source, fleet::LagSource::FileSamples);
    assert_eq!((lag("b:3306").at_least, lag("b:3306").at_most()), (at(510) - now, at(1010) - now));
    assert_eq!((lag("c:3306").at_least, lag("c:3306").at_most()), (at(510) - now, at(1020) - now));
}

#[test]
fn an_address_outside_the_seeds_networks_and_domains_is_not_followed_and_is_named() {
    let now = Instant::now();
    let mut survey = Survey::new(by_seeds(&["10.1.0.1"]), now);
    let mut told = telling(answer("A", now), &["10.2.0.2", "198.51.100.7", "evil.example"], false);
    told.replicas.push(RegisteredReplica {
        address: "10.1.0.9".parse().ok(),
        port: 3306,
        server_id: 0,
        uuid: None,
        guessed: true,
    });
    survey.take(0, Ok(told), now);
    assert_eq!(names(&survey), ["10.1.0.1:3306", "10.2.0.2:3306", "evil.example:3306"]);
    let refused: Vec<String> = survey.not_followed().collect();
    assert_eq!(refused.len(), 2, "{refused:?}");
    let why = "198.51.100.7:3306 is not followed: 10.1.0.1:3306 names it, and it lies outside 10.0.0.0/8";
    assert!(refused.iter().any(|line| line.starts_with(why)), "{refused:?}");
    assert!(refused.iter().any(|line| line.starts_with("10.1.0.9:3306") && line.contains("report_host")));
    // A name says nothing: where it leads is looked at before each login.
    let evil = &survey.entries[&id_of(&survey, "evil.example:3306")];
    assert!(survey.must_lead_into(evil).is_some_and(|within| !within.contains([198, 51, 100, 7].into())));
    assert!(survey.must_lead_into(&survey.entries[&0]).is_none());
    let snapshot = crate::view::View::default().snapshot(&survey, now);
    assert!(snapshot.remarks.iter().any(|r| r.contains("198.51.100.7:3306 is not followed")));
    let later = now + NOT_FOLLOWED_FOR * 2;
    survey.take(0, Ok(answer("A", later)), later);
    assert_eq!(survey.not_followed().count(), 0, "nobody names them any more");
}

#[test]
fn a_guessed_address_of_a_server_that_is_known_by_name_is_no_news() {
    let now = Instant::now();
    let mut survey = Survey::new(by_seeds(&["a.internal", "b.internal"]), now);
    let reached = Answer { peer: Some([10, 0, 0, 2].into()), ..replicating(answer("B", now), "a.internal") };
    survey.take(1, Ok(reached), now);
    survey.take(0, Ok(telling(answer("A", now), &["10.0.0.2"], true)), now);
    assert_eq!((survey.entries.len(), survey.not_followed().count()), (2, 0));
    // A replica on the host of its source is another server than that.
    let source = Answer { peer: Some([10, 0, 0, 1].into()), ..answer("A", now) };
    survey.take(0, Ok(telling(source, &["10.0.0.1:3306", "10.0.0.1:3307", "10.0.0.2:3307"], true)), now);
    let told: Vec<String> = survey.not_followed().collect();
    assert!(told.len() == 1 && told[0].starts_with("10.0.0.1:3307 is not followed"), "{told:?}");
}

#[test]
fn a_server_that_leads_out_by_its_own_words_is_still_reached_where_it_answers() {
    let now = Instant::now();
    let mut survey = Survey::new(by_seeds(&["10.0.0.1"]), now);
    survey.take(0, Ok(telling(answer("A", now), &["10.0.0.2"], false)), now);
    let mut lies = answer("B", now);
    lies.identity.reports = Some(Address::tcp("evil.h4.eu-1.rds.amazonaws.com", 3306));
    survey.take(1, Ok(lies), now);
    for _ in 0..TRY_OTHER_ADDRESS * 3 {
        survey.take(1, Err(refused()), now);
    }
    assert_eq!(survey.entries[&1].reach.to_string(), "10.0.0.2:3306");
}

#[test]
fn a_discovered_server_is_a_newcomer_until_its_answers_have_agreed() {
    let (mut survey, now) = survey(&["a"]);
    survey.take(0, Ok(telling(answer("A", now), &["b"], false)), now);
    let left = |survey: &Survey, id: u32| survey.entries[&id].newcomer().map(|n| n.agreeing);
    assert_eq!(left(&survey, 0), None, "the operator named it");
    let look = |survey: &mut Survey, source: &str| {
        survey.take(1, Ok(replicating(answer("B", now), source)), now);
        left(survey, 1)
    };
    assert_eq!(left(&survey, 1), Some(0));
    assert_eq!((look(&mut survey, "a"), look(&mut survey, "a")), (Some(1), Some(2)));
    assert_eq!(look(&mut survey, "elsewhere"), Some(1), "it contradicts itself");
    survey.take(1, Err(refused()), now);
    assert_eq!(
        (look(&mut survey, "a"), look(&mut survey, "a"), look(&mut survey, "a")),
        (Some(1), Some(2), None)
    );
    assert_eq!(look(&mut survey, "elsewhere"), None, "what changes from here on is judged");
}

#[test]
fn a_replica_that_does_not_say_how_it_replicates_stays_one_of_unknown_lag() {
    let (mut survey, now) = survey(&["a", "b", "c"]);
    let mut view = crate::view::View::default();
    survey.take(0, Ok(at_file(answer("A", now), 100, None)), now);
    // One that was left open for writes, and is in the middle of a chain.
    let b = at_file(open_replica("B", "a", now), 40, Some(100));
    let last = b.channels.list().iter().map(Channel::as_it_was).collect();
    let why = "its replication could not be asked: no answer".to_owned();
    let hangs = |last| Channels::Unknown { why: why.clone(), hidden: true, last };
    survey.take(1, Ok(b.clone()), now);
    survey.take(2, Ok(at_file(replicating(answer("C", now), "b"), 7, Some(40))), now);
    let b_at = |view: &mut crate::view::View, survey: &Survey| {
        let snapshot = view.snapshot(survey, now);
        assert_eq!(snapshot.primary().map(|p| p.name.as_str()), Some("a:3306"));
        snapshot.server(&ServerName::new("b:3306")).unwrap().clone()
    };
    assert!(b_at(&mut view, &survey).lag.is_some());
    survey.take(1, Ok(Answer { channels: hangs(Some(last)), ..b.clone() }), now);
    let unknown = b_at(&mut view, &survey);
    assert_eq!((unknown.role, &unknown.state), (Role::Replica, &State::Answering));
    assert_eq!((unknown.lag, unknown.seconds_behind), (None, None));
    assert_eq!(unknown.replication, fleet::Replication::Unknown);
    let words = "replicates from a:3306; its replication could not be asked: no answer; it takes writes too";
    assert!(unknown.because.starts_with(words), "{}", unknown.because);
    // As when a router was started meanwhile.
    let (mut started, _) = self::survey(&["b"]);
    started.take(0, Ok(Answer { channels: hangs(None), ..b }), now);
    assert!(crate::view::View::default().snapshot(&started, now).primary().is_none());
}

#[test]
fn an_answer_that_is_too_old_is_silence_for_roles_lag_and_state() {
    let (mut survey, now) = survey(&["a", "b"]);
    let mut view = crate::view::View::default();
    let at = |ms: u64| now + Duration::from_millis(ms);
    let gtid = |key: &str, ms: u64, text: &str| {
        let position = Some(fleet::Position::Domains(text.parse().unwrap()));
        Answer { written: position.clone(), applied: position, ..answer(key, at(ms)) }
    };
    survey.take(0, Ok(gtid("A", 0, "0-1-5")), at(0));
    survey.take(1, Ok(replicating(gtid("B", 10, "0-1-5"), "a")), at(10));
    let lag = |view: &mut crate::view::View, survey: &Survey, ms: u64| {
        let b = view.snapshot(survey, at(ms)).server(&ServerName::new("b:3306")).unwrap().clone();
        (b.state.clone(), b.lag.map(|lag| lag.at_least), b.last_lag.map(|(_, when)| when), b.seconds_behind)
    };
    assert_eq!(lag(&mut view, &survey, 20), (State::Answering, Some(Duration::ZERO), Some(at(20)), Some(0)));
    // a goes on answering; what asks b is stuck. 3 x (500 ms + 1 s) later its answer counts no more.
    for ms in [1000, 4000, 5000] {
        survey.take(0, Ok(gtid("A", ms, &format!("0-1-{ms}"))), at(ms));
    }
    assert!(survey.overdue(at(4510)).is_empty());
    assert_eq!(survey.overdue(at(4511)), [1]);
    assert!(survey.overdue(at(4512)).is_empty(), "said once");
    let silent = State::Silent { why: "its last answer is 4.5 s old".to_owned() };
    assert_eq!(lag(&mut view, &survey, 5000), (silent, None, Some(at(20)), None));
    // The primary's, too: nobody is sent writes on an old answer.
    assert_eq!(survey.overdue(at(9501)), [0]);
    assert!(view.snapshot(&survey, at(9501)).primary().is_none());
}

#[test]
fn a_replica_that_may_not_say_what_it_replicates_is_as_late_as_what_it_has_applied() {
    let (mut survey, now) = survey(&["a", "b"]);
    let at = |ms: u64| now + Duration::from_millis(ms);
    let gtid = |key: &str, ms: u64, text: &str| {
        let position = Some(fleet::Position::Domains(text.parse().unwrap()));
        Answer { written: position.clone(), applied: position, ..answer(key, at(ms)) }
    };
    for (ms, written) in [(0, "0-1-5"), (100, "0-1-9")] {
        survey.take(0, Ok(telling(gtid("A", ms, written), &["b"], false)), at(ms));
    }
    let channels = Channels::Unknown { why: "GRANT SLAVE MONITOR".to_owned(), hidden: true, last: None };
    let switches = Switches { read_only: true, ..Switches::default() };
    survey.take(1, Ok(Answer { switches, channels, ..gtid("B", 2000, "0-1-5") }), at(2000));
    let snapshot = crate::view::View::default().snapshot(&survey, at(2000));
    let b = snapshot.server(&ServerName::new("b:3306")).unwrap();
    assert_eq!((b.role, b.lag.map(|lag| lag.at_least)), (Role::Replica, Some(at(1900) - now)));
}

/// The same without GTIDs: what it has written, and executed of its source's file.
fn at_file(mut answer: Answer, written: u64, executed: Option<u64>) -> Answer {
    answer.written = Some(fleet::Position::File(fleet::FilePosition::new("bin.000001", written)));
    if let (Channels::Known(channels), Some(executed)) = (&mut answer.channels, executed) {
        channels[0].executed = Some(fleet::FilePosition::new("bin.000001", executed));
        channels[0].seconds_behind = None;
    }
    answer
}

#[test]
fn a_replica_that_is_level_with_a_former_primary_lacks_what_was_written_since() {
    let (mut survey, now) = survey(&["a", "b", "c"]);
    let mut view = crate::view::View::default();
    let at = |second: u64| now + Duration::from_secs(second);
    // a comes back read-only, b takes writes, and nobody has told c.
    for second in [0, 1, 30] {
        let [a, b, c] = ["A", "B", "C"].map(|key| answer(key, at(second)));
        let moved = second > 0;
        let switches = Switches { read_only: moved, ..Switches::default() };
        let b = if moved { at_file(b, 40, None) } else { at_file(replicating(b, "a"), 40, Some(100)) };
        survey.take(0, Ok(Answer { switches, ..at_file(a, 100, None) }), at(second));
        survey.take(1, Ok(b), at(second));
        survey.take(2, Ok(at_file(replicating(c, "a"), 7, Some(100))), at(second));
        let snapshot = view.snapshot(&survey, at(second));
        assert_eq!(snapshot.primary().unwrap().name.as_str(), if moved { "b:3306" } else { "a:3306" });
        let c = snapshot.server(&ServerName::new("c:3306")).unwrap();
        assert_eq!(c.role, Role::Replica);
        let late = c.lag.unwrap().at_most();
        assert!(if second > 1 { late >= at(29) - now } else { late <= at(1) - now }, "{second}: {late:?}");
    }
    let mut began_now = crate::view::View::default();
    let snapshot = began_now.snapshot(&survey, at(30));
    assert_eq!(snapshot.server(&ServerName::new("c:3306")).unwrap().lag, None, "nobody knows since when");
}

#[test]
fn lag_through_files_is_not_known_while_that_of_the_replica_between_is_not() {
    let (mut survey, now) = survey(&["a", "b", "c"]);
    let mut view = crate::view::View::default();
    survey.take(0, Ok(at_file(answer("A", now), 100, None)), now);
    // What it lacks was written before anybody looked.
    survey.take(1, Ok(at_file(replicating(answer("B", now), "a"), 40, Some(90))), now);
    survey.take(2, Ok(at_file(replicating(answer("C", now), "b"), 7, Some(40))), now);
    let snapshot = view.snapshot(&survey, now);
    let lag = |name: &str| snapshot.server(&ServerName::new(name)).unwrap().lag;
    assert_eq!((lag("b:3306"), lag("c:3306")), (None, None));
}

#[test]
fn lag_through_files_is_not_known_while_the_replica_between_is_silent() {
    let (mut survey, now) = survey(&["a", "b", "c"]);
    let mut view = crate::view::View::default();
    survey.take(0, Ok(at_file(answer("A", now), 100, None)), now);
    survey.take(1, Ok(at_file(replicating(answer("B", now), "a"), 40, Some(100))), now);
    survey.take(2, Ok(at_file(replicating(answer("C", now), "b"), 7, Some(40))), now);
    let c = |view: &mut crate::view::View, survey: &Survey| {
        view.snapshot(survey, now).server(&ServerName::new("c:3306")).unwrap().clone()
    };
    assert!(c(&mut view, &survey).lag.is_some());
    survey.take(1, Err(refused()), now);
    let lost = c(&mut view, &survey);
    assert_eq!(lost.lag, None);
    let words = "replicates from b:3306, itself a replica, which does not answer (connection refused)";
    assert!(lost.because.starts_with(words), "{}", lost.because);
}

#[test]
fn of_more_servers_than_a_fleet_may_have_the_first_are_kept_and_it_is_noticed() {
    let seeds: Vec<String> = (0..300).map(|n| format!("10.0.{}.{}", n / 200, n % 200 + 1)).collect();
    let seeds: Vec<&str> = seeds.iter().map(String::as_str).collect();
    let (all, _) = survey(&seeds[..MOST_SERVERS]);
    assert_eq!((all.entries.len(), all.overflow), (MOST_SERVERS, false));
    let (part, _) = survey(&seeds);
    assert_eq!((part.entries.len(), part.overflow), (MOST_SERVERS, true));
}
