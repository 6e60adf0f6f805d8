//! Servers that do not answer.

use crate::scene::{Scene, why_unknown, writer};
use fleet::{Role, State};
use lab::{Fault, Spec};
use std::time::Duration;

#[tokio::test]
async fn killed_frozen_and_returned_servers_are_seen_and_delay_nobody() {
    let scene = Scene::up(&Spec::new(&[("a", 1), ("b", 1), ("c", 1)])).await;
    let mut watching = scene.watch(&["a1"]);
    let before = watching.until_sound("a1").await;
    assert!(before.servers.iter().all(|s| s.back_since.is_none()), "warm: they were there before us");
    // A restart within the seconds that uptimes are rounded to would not be told from none.
    let counts =
        |s: &fleet::Server| s.pool.is_some_and(|pool| pool.requests > 0 && pool.up > Duration::from_secs(6));
    let old = watching.until_server("b1", "counts its page reads", counts).await.pool.unwrap();

    scene.lab.fault("b1", Fault::Kill).await.unwrap();
    let dead = watching.until_server("b1", "is dead", |s| matches!(s.state, State::Failing { .. })).await;
    assert_eq!(dead.role, Role::Replica, "its role is remembered");
    scene.lab.heal("b1").await.unwrap();
    watching.until_server("b1", "is back and warms up", |s| s.back_since.is_some()).await;
    let anew = |s: &fleet::Server| s.pool.is_some_and(|pool| pool.restarted_since(&old));
    watching.until_server("b1", "counts anew", anew).await;
    watching.until_sound("a1").await;

    scene.lab.fault("c1", Fault::Freeze).await.unwrap();
    let frozen = watching.until_server("c1", "is silent", |s| matches!(s.state, State::Silent { .. })).await;
    assert!(format!("{:?}", frozen.state).contains("within 1000 ms"), "{:?}", frozen.state);
    let round = watching.until("the others answer", |s| {
        s.servers.iter().filter(|s| s.state == State::Answering).count() == 2
    });
    let round = round.await.round;
    watching.until("and go on answering", |s| s.round > round + 5).await;
    scene.lab.heal("c1").await.unwrap();
    watching.until_sound("a1").await;
    watching.watcher.stop().await;
}

#[tokio::test]
async fn a_primary_that_falls_silent_to_us_alone_stays_the_writer() {
    let scene = Scene::up(&Spec::new(&[("a", 1), ("b", 1)])).await;
    // The watcher goes over links, replication does not: the link can be cut for the watcher alone.
    let mut config = scene.config(&["b1"]);
    let tcp = |a: &std::net::SocketAddrV4| fleet::Address::tcp(a.ip().to_string(), a.port());
    config.address_map = scene.lab.address_map("b").unwrap().iter().map(|(f, t)| (tcp(f), tcp(t))).collect();
    let mut watching = scene.watch_with(config);
    watching.until_sound("a1").await;

    scene.lab.fault("a1", Fault::Blackhole).await.unwrap();
    watching.until_server("a1", "is silent", |s| matches!(s.state, State::Silent { .. })).await;
    let snapshot = watching.until("it is kept", |s| writer(s) == Some(&scene.name("a1"))).await;
    let primary = snapshot.primary().unwrap();
    assert!(primary.because.contains("still receives from it"), "{}", primary.because);
    scene.lab.heal("a1").await.unwrap();
    watching.until_sound("a1").await;

    scene.lab.fault("a1", Fault::Kill).await.unwrap();
    let nobody = watching.until("no writer", |s| writer(s).is_none()).await;
    assert!(why_unknown(&nobody).contains("was the primary and does not answer"), "{}", why_unknown(&nobody));
    scene.lab.heal("a1").await.unwrap();
    watching.until_sound("a1").await;
    watching.watcher.stop().await;
}

#[tokio::test]
async fn a_suspicion_is_followed_up_before_the_interval_is_over() {
    let scene = Scene::up(&Spec::new(&[("a", 1), ("b", 1)])).await;
    let mut config = scene.config(&["a1", "b1"]);
    config.interval = std::time::Duration::from_secs(600);
    let mut watching = scene.watch_with(config);
    watching.until_server("b1", "answers", |s| s.state == State::Answering).await;
    scene.lab.fault("b1", Fault::Kill).await.unwrap();
    let name = fleet::ServerName::new(&scene.name("b1"));
    watching.watcher.suspicion().suspect(&name, "a session broke");
    watching.until_server("b1", "is dead", |s| matches!(s.state, State::Failing { .. })).await;
    watching.watcher.stop().await;
}

#[tokio::test]
async fn a_seed_that_is_not_there_is_named_with_its_reason() {
    let scene = Scene::up(&Spec::new(&[("a", 1)])).await;
    let mut config = scene.config(&["a1"]);
    config.seeds.push("no-such-host.invalid:3306".parse().unwrap());
    let snapshot = observe::survey(&config).await;
    let lost = snapshot.server(&fleet::ServerName::new("no-such-host.invalid:3306")).unwrap();
    assert_eq!(lost.role, Role::Unknown);
    assert!(lost.because.contains("cannot be resolved"), "{}", lost.because);
    assert_eq!(writer(&snapshot), Some(scene.name("a1").as_str()));

    let mut config = scene.config(&["a1"]);
    config.credentials.password = Some("wrong".to_owned());
    let snapshot = observe::survey(&config).await;
    assert!(why_unknown(&snapshot).contains("check user and password"), "{}", why_unknown(&snapshot));
}
