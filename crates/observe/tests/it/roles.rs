//! Discovery and roles.

use crate::scene::{Scene, why_unknown, writer};
use config::{Matcher, ServerRule};
use fleet::{Replication, Role, Thread, Zone, ZoneSource};
use lab::{Fault, Spec};

#[tokio::test]
async fn any_one_server_leads_to_the_whole_fleet() {
    let mut spec = Spec::new(&[("a", 2), ("b", 1), ("c", 1)]);
    spec.replicas = vec![("c1".to_owned(), "b1".to_owned())];
    let scene = Scene::up(&spec).await;
    for seed in scene.lab.servers() {
        let snapshot = scene.survey(&seed).await;
        assert_eq!(snapshot.servers.len(), 4, "from {seed}: {snapshot:#?}");
        assert_eq!(writer(&snapshot), Some(scene.name("a1").as_str()), "from {seed}");
        for (server, zone, role) in [
            ("a1", "a", Role::Primary),
            ("a2", "a", Role::Replica),
            ("b1", "b", Role::Replica),
            ("c1", "c", Role::Replica),
        ] {
            let name = fleet::ServerName::new(&scene.name(server));
            let seen = snapshot.server(&name).unwrap_or_else(|| panic!("{server} from {seed}"));
            let zoned = seen.zone.clone().unwrap();
            assert_eq!(
                (seen.role, zoned.zone, zoned.by),
                (role, Zone::new(zone), ZoneSource::Rule),
                "{server}"
            );
        }
        let of_replica = snapshot.server(&fleet::ServerName::new(&scene.name("c1"))).unwrap();
        assert_eq!(of_replica.source.as_deref(), Some(scene.name("b1").as_str()));
        assert!(of_replica.because.contains("itself a replica"), "{}", of_replica.because);
        assert!(snapshot.remarks.is_empty(), "{:?}", snapshot.remarks);
    }
}

#[tokio::test]
async fn one_server_under_several_addresses_is_one_and_the_map_leads_over_links() {
    let scene = Scene::up(&Spec::new(&[("a", 1), ("b", 1)])).await;
    let mut config = scene.config(&["a1"]);
    let over_links = scene.lab.address_map("b").unwrap();
    let tcp = |a: &std::net::SocketAddrV4| fleet::Address::tcp(a.ip().to_string(), a.port());
    // Also by its unix socket, and by what the map leads to.
    config.seeds.push(fleet::Address::Unix(scene.lab.socket("a1").unwrap()));
    config.seeds.extend(over_links.iter().map(|(_, to)| tcp(to)));
    config.address_map = over_links.iter().map(|(from, to)| (tcp(from), tcp(to))).collect();
    let mut watching = scene.watch_with(config);
    let snapshot = watching.until_sound("a1").await;
    for server in &snapshot.servers {
        let mapped = over_links.iter().find(|(from, _)| tcp(from).to_string() == server.name.as_str());
        if let Some((_, to)) = mapped {
            assert_eq!(server.reach, tcp(to), "{}", server.name);
        }
    }
    let zone = |name: &str| snapshot.server(&fleet::ServerName::new(&scene.name(name))).unwrap().zone.clone();
    assert_eq!(zone("b1").unwrap().zone, Zone::new("b"), "by what it is called, not by the end of the link");
    watching.watcher.stop().await;
}

#[tokio::test]
async fn a_stopped_applier_and_two_writable_servers_are_seen() {
    let scene = Scene::up(&Spec::new(&[("a", 1), ("b", 1), ("c", 1)])).await;
    let mut watching = scene.watch(&["b1"]);
    watching.until_sound("a1").await;

    scene.lab.fault("b1", Fault::StopApplier).await.unwrap();
    let stopped =
        |s: &fleet::Server| matches!(&s.replication, Replication::Stopped { thread: Thread::Applier, .. });
    watching.until_server("b1", "does not apply", stopped).await;
    scene.lab.heal("b1").await.unwrap();
    watching.until_sound("a1").await;

    scene.lab.fault("c1", Fault::Writable).await.unwrap();
    let told_on =
        watching.until_server("c1", "takes writes", |s| s.because.contains("takes writes too")).await;
    assert_eq!(told_on.role, Role::Replica);
    scene.lab.heal("c1").await.unwrap();
    watching.until_server("c1", "takes none", |s| !s.because.contains("takes writes too")).await;

    scene.lab.fault("c1", Fault::PromoteAlone).await.unwrap();
    let stray = watching.until_server("c1", "is a stray", |s| s.role == Role::Stray).await;
    assert!(stray.because.contains("no replica follows it"), "{}", stray.because);
    watching.until("a1 still the writer", |s| writer(s) == Some(&scene.name("a1"))).await;
    scene.lab.heal("c1").await.unwrap();
    watching.until_sound("a1").await;

    scene.lab.fault("a1", Fault::ReadOnly).await.unwrap();
    let nobody = watching.until("nobody takes writes", |s| writer(s).is_none()).await;
    assert!(why_unknown(&nobody).contains("is read-only (read_only=1)"), "{}", why_unknown(&nobody));
    scene.lab.heal("a1").await.unwrap();
    watching.until_sound("a1").await;
    watching.watcher.stop().await;
}

#[tokio::test]
async fn a_promotion_is_followed_and_the_old_primary_gets_nothing() {
    let scene = Scene::up(&Spec::new(&[("a", 1), ("b", 1), ("c", 1)])).await;
    let mut watching = scene.watch(&["a1"]);
    watching.until_sound("a1").await;
    scene.lab.fault("b1", Fault::Promote).await.unwrap();
    watching.until("b1 takes writes", |s| writer(s) == Some(&scene.name("b1"))).await;
    watching.until_server("a1", "is a stray", |s| s.role == Role::Stray).await;
    // It forgets what it was and takes writes again: still nobody follows it.
    scene.run("a1", "SET GLOBAL read_only = 0").await;
    let old = watching.until_server("a1", "takes writes", |s| s.because.contains("takes writes too")).await;
    assert_eq!(old.role, Role::Stray);
    watching.until("b1 stays", |s| writer(s) == Some(&scene.name("b1"))).await;
    watching.watcher.stop().await;
}

#[tokio::test]
async fn reserved_servers_stay_reserved_when_the_fleet_grows() {
    let scene = Scene::up(&Spec::new(&[("a", 1), ("b", 2)])).await;
    let mut config = scene.config(&["a1"]);
    config.servers.push(ServerRule {
        proxy_protocol: false,
        matcher: Matcher::Net("127.2.0.0/16".parse().unwrap()),
        name: None,
        weight: None,
        zone: None,
        reserved: true,
        labels: Vec::new(),
    });
    // b2 is down when the watcher starts, and comes later.
    scene.lab.fault("b2", Fault::Kill).await.unwrap();
    let mut watching = scene.watch_with(config);
    watching.until_server("b1", "answers", |s| s.reserved.is_some() && s.role == Role::Replica).await;
    scene.lab.heal("b2").await.unwrap();
    let late = watching.until_server("b2", "answers", |s| s.role == Role::Replica).await;
    assert_eq!(late.reserved.as_deref(), Some("127.2.0.0/16"));
    watching.watcher.stop().await;
}
