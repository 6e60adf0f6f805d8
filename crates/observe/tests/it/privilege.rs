//! What is refused is answered with the statement that mends it.

use crate::scene::Scene;
use fleet::{Replication, Role};
use lab::Spec;
use mysql_async::prelude::Queryable;
use std::time::{Duration, Instant};

#[tokio::test]
async fn a_missing_privilege_is_named_with_its_grant_and_the_grant_mends_it() {
    let scene = Scene::up(&Spec::new(&[("a", 1), ("b", 1)])).await;
    for server in ["a1", "b1"] {
        let mut root = scene.lab.connect(server).await.unwrap();
        root.query_drop("SET sql_log_bin = 0").await.unwrap();
        root.query_drop("CREATE USER poor@'%' IDENTIFIED BY 'poor'").await.unwrap();
    }
    let mut config = scene.config(&["a1", "b1"]);
    config.credentials.user = Some("poor".to_owned());
    config.credentials.password = Some("poor".to_owned());
    let mut watching = scene.watch_with(config);
    watching.until("remarks", |s| s.remarks.iter().any(|r| r.contains("GRANT SLAVE MONITOR"))).await;
    let refused = |s: &fleet::Server| s.because.contains("could not be asked");
    let replica = watching.until_server("b1", "refuses to tell of its replication", refused).await;
    assert_eq!(replica.replication, Replication::Unknown);

    // Every statement named is run as it stands, until none is named any more. A new account is asked for
    // what was refused only after a while; a changed configuration asks anew.
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let snapshot = watching.watcher.snapshots().borrow().clone();
        let grants: Vec<(&str, String)> = snapshot.remarks.iter().filter_map(|r| grant(&scene, r)).collect();
        if grants.is_empty() && snapshot.servers.iter().any(|s| s.role == Role::Replica) {
            break;
        }
        assert!(Instant::now() < deadline, "still missing: {:?}", snapshot.remarks);
        for (server, statement) in grants {
            let mut root = scene.lab.connect(server).await.unwrap();
            root.query_drop("SET sql_log_bin = 0").await.unwrap();
            root.query_drop(statement).await.unwrap();
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    watching.until_sound("a1").await;
    watching.watcher.stop().await;
}

/// The server and the statement that a remark names.
fn grant<'a>(scene: &Scene, remark: &str) -> Option<(&'a str, String)> {
    let server = ["a1", "b1"].into_iter().find(|server| remark.starts_with(&scene.name(server)))?;
    let statement = remark.split_once("to mend it: ")?.1.trim_end_matches(';');
    Some((server, statement.to_owned()))
}
