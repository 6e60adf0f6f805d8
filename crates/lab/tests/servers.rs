//! The lab on real servers: they come up, replicate, and disappear.

use lab::{Lab, Spec};
use mysql_async::prelude::Queryable;
use std::time::{Duration, Instant};

#[tokio::test]
async fn four_servers_come_up_and_replicate() {
    let base = tempfile::tempdir().unwrap();
    let lab = Lab::up(&Spec::new(&[("a", 2), ("b", 1), ("c", 1)]), base.path()).await.unwrap();
    println!("four servers up and replicating in {:?}, {}", lab.came_up_in(), lab.version());
    let mut primary = lab.connect("a1").await.unwrap();
    primary.query_drop("CREATE TABLE app.t (id INT PRIMARY KEY)").await.unwrap();
    primary.query_drop("INSERT INTO app.t VALUES (7)").await.unwrap();
    for server in ["a2", "b1", "c1"] {
        let mut replica = lab.connect(server).await.unwrap();
        let deadline = Instant::now() + Duration::from_secs(10);
        while replica.query_first::<u32, _>("SELECT id FROM app.t").await.ok().flatten() != Some(7) {
            assert!(Instant::now() < deadline, "{server} never got the row");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
    let dir = lab.dir().to_owned();
    lab.down().await.unwrap();
    assert!(!dir.exists());
}
