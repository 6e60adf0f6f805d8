//! The tables that trouble is made on.

use super::client;
use super::fixture::{BIG, LOADED_WITHIN, SLOW_S};
use anyhow::bail;
use lab::{Flavour, Lab};
use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use std::time::{Duration, Instant};

/// Makes all tables, and waits until b1 has those that it gets.
pub(super) async fn tables(lab: &Lab) -> anyhow::Result<()> {
    let mut root = lab.connect("a1").await?;
    for statement in [
        "CREATE TABLE app.hot (id INT PRIMARY KEY, n BIGINT NOT NULL)",
        "INSERT INTO app.hot VALUES (1, 0), (2, 0)",
        "CREATE TABLE app.shape (id INT PRIMARY KEY, n INT)",
        "INSERT INTO app.shape VALUES (1, 1)",
        "CREATE TABLE app.pace (s DOUBLE NOT NULL)",
        &format!("INSERT INTO app.pace VALUES ({SLOW_S})"),
        "CREATE TABLE app.journal (id BIGINT AUTO_INCREMENT PRIMARY KEY, n INT)",
        "CREATE TABLE app.notes (id INT PRIMARY KEY, body TEXT NOT NULL)",
        "CREATE TABLE app.scan (id INT PRIMARY KEY, n INT NOT NULL)",
        "INSERT INTO app.notes VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd')",
        "CREATE TABLE app.keyless (n INT NOT NULL, filler VARCHAR(200) NOT NULL)",
    ] {
        root.query_drop(statement).await?;
    }
    for start in (0..client::SCANNED).step_by(10_000) {
        let values: Vec<String> = (start..start + 10_000).map(|id| format!("({id},{id})")).collect();
        root.query_drop(format!("INSERT INTO app.scan VALUES {}", values.join(","))).await?;
    }
    root.query_drop("INSERT INTO app.keyless SELECT id, REPEAT('k', 200) FROM app.scan ORDER BY id").await?;
    for number in 0..client::TABLES {
        root.query_drop(format!("CREATE TABLE app.many_{number} (id INT PRIMARY KEY)")).await?;
    }
    big(&mut root, BIG).await?;
    let deadline = Instant::now() + LOADED_WITHIN;
    let mut replica = lab.connect("b1").await?;
    if lab.flavour() == Flavour::MySql {
        // What its statements wait for is changed there by itself. Nobody else writes to it.
        replica.query_drop("SET GLOBAL super_read_only = OFF").await?;
    }
    while replica.query_first::<u32, _>("SELECT COUNT(*) FROM app.big").await.ok().flatten() != Some(BIG) {
        if Instant::now() > deadline {
            bail!("the rows did not reach b1 within {} s", LOADED_WITHIN.as_secs());
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    // Tables of an engine without row locks, of a1 alone.
    for statement in [
        "SET SESSION sql_log_bin = 0",
        "CREATE TABLE app.whole (id INT PRIMARY KEY, n BIGINT NOT NULL) ENGINE = MyISAM",
        &format!("INSERT INTO app.whole SELECT id, 0 FROM app.scan WHERE id < {}", client::WHOLE),
        "CREATE TABLE app.mapped (id INT PRIMARY KEY, filler VARCHAR(400) NOT NULL) ENGINE = MyISAM",
        "INSERT INTO app.mapped SELECT id, filler FROM app.big",
    ] {
        root.query_drop(statement).await?;
    }
    Ok(root.disconnect().await?)
}

/// Hours of changes would fill the disk.
pub(super) async fn forget_the_binary_logs(lab: &Lab) -> anyhow::Result<()> {
    for server in lab.servers() {
        let mut root = lab.connect(&server).await?;
        root.query_drop("FLUSH BINARY LOGS").await?;
        root.query_drop("PURGE BINARY LOGS BEFORE NOW()").await?;
        root.disconnect().await?;
    }
    Ok(())
}

/// The table that point reads are of, with this many rows.
pub(super) async fn big(root: &mut Conn, rows: u32) -> anyhow::Result<()> {
    root.query_drop("CREATE TABLE app.big (id INT PRIMARY KEY, filler VARCHAR(400) NOT NULL)").await?;
    let at_once = rows.min(10_000);
    for start in (0..rows).step_by(at_once as usize) {
        let values: Vec<String> =
            (start..start + at_once).map(|id| format!("({id},REPEAT('x',400))")).collect();
        root.query_drop(format!("INSERT INTO app.big VALUES {}", values.join(","))).await?;
    }
    Ok(())
}
