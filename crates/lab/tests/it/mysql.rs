//! The lab on a real mysqld, from target/mysql (`make test-mysql` brings it there).

use crate::until::until;
use lab::{Account, Fault, Lab, Role, Spec};
use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use testkit::mysqld;

async fn has(lab: &Lab, server: &str, id: u32) -> bool {
    let mut conn = lab.connect(server).await.unwrap();
    let query = format!("SELECT id FROM app.t WHERE id = {id}");
    conn.query_first::<u32, _>(query).await.ok().flatten().is_some()
}

#[tokio::test]
async fn mysql_comes_up_replicates_fails_and_heals() {
    let base = tempfile::tempdir().unwrap();
    let spec = Spec::new(&[("a", 2), ("b", 1), ("c", 1)]).program(mysqld());
    let lab = Lab::up(&spec, base.path()).await.unwrap();
    println!("four servers up and replicating in {:?}, {}", lab.came_up_in(), lab.version());
    let mut app = Conn::new(lab.opts("b", "a1", Account::App).unwrap()).await.unwrap();
    app.query_drop("CREATE TABLE app.t (id INT PRIMARY KEY)").await.unwrap();
    app.query_drop("INSERT INTO app.t VALUES (1)").await.unwrap();
    for server in ["a2", "b1", "c1"] {
        until(server, async || has(&lab, server, 1).await).await;
        let mut conn = Conn::new(lab.opts("a", server, Account::Headroom).unwrap()).await.unwrap();
        for query in
            ["SHOW REPLICA STATUS", "SHOW REPLICAS", "SHOW BINARY LOG STATUS", "SHOW FULL PROCESSLIST"]
        {
            conn.query_drop(query).await.unwrap_or_else(|e| panic!("{query}: {e}"));
        }
        let read_only: Option<bool> = conn.query_first("SELECT @@GLOBAL.super_read_only").await.unwrap();
        assert_eq!(read_only, Some(true));
    }

    lab.fault("b1", Fault::Kill).await.unwrap();
    app.query_drop("INSERT INTO app.t VALUES (2)").await.unwrap();
    lab.heal("b1").await.unwrap();
    until("b1 catches up", async || has(&lab, "b1", 2).await).await;

    lab.fault("b1", Fault::Lag { seconds: 3600 }).await.unwrap();
    lab.fault("a2", Fault::StopApplier).await.unwrap();
    app.query_drop("INSERT INTO app.t VALUES (3)").await.unwrap();
    lab.heal_all().await.unwrap();
    until("b1 catches up", async || has(&lab, "b1", 3).await && has(&lab, "a2", 3).await).await;

    lab.fault("b1", Fault::Promote).await.unwrap();
    let roles = async || lab.status().await.servers.iter().map(|s| s.role).collect::<Vec<_>>();
    assert_eq!(roles().await, [Role::Alone, Role::Replica, Role::Primary, Role::Replica]);
    let mut conn = Conn::new(lab.opts("b", "b1", Account::App).unwrap()).await.unwrap();
    conn.query_drop("INSERT INTO app.t VALUES (4)").await.unwrap();
    lab.heal("b1").await.unwrap();
    assert_eq!(roles().await, [Role::Primary, Role::Replica, Role::Replica, Role::Replica]);
    until("all have it", async || has(&lab, "a1", 4).await && has(&lab, "c1", 4).await).await;
    lab.down().await.unwrap();
}
