//! What is refused is answered with the statement that mends it.

use crate::scene::Scene;
use fleet::{Replication, Role};
use lab::Spec;

#[tokio::test]
async fn a_missing_privilege_is_named_with_its_grant_and_the_grant_mends_it() {
    let scene = Scene::up(&Spec::new(&[("a", 1), ("b", 1)])).await;
    for server in ["a1", "b1"] {
        let mut root = scene.lab.connect(server).await.unwrap();
        use mysql_async::prelude::Queryable;
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

    // Every statement named is run as it stands; then nothing is missing.
    loop {
        let name = scene.name("b1");
        let snapshot = watching.watcher.snapshots().borrow().clone();
        let grants: Vec<(String, String)> = snapshot
            .remarks
            .iter()
            .filter_map(|r| {
                let (server, rest) = r.split_once(": ")?;
                let grant = rest.split_once("to mend it: ")?.1.trim_end_matches(';');
                Some((server.to_owned(), grant.to_owned()))
            })
            .collect();
        if grants.is_empty()
            && snapshot.server(&fleet::ServerName::new(&name)).is_some_and(|s| s.role == Role::Replica)
        {
            break;
        }
        for (server, grant) in grants {
            let server = if server == name { "b1" } else { "a1" };
            use mysql_async::prelude::Queryable;
            let mut root = scene.lab.connect(server).await.unwrap();
            root.query_drop("SET sql_log_bin = 0").await.unwrap();
            root.query_drop(grant).await.unwrap();
        }
        watching.watcher.reconfigure(scene.config(&["a1", "b1"]));
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    }
    watching.until_sound("a1").await;
    watching.watcher.stop().await;
}
