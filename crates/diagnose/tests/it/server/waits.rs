//! A server under real waits, as its sampler sees it: the same on either flavour.

use super::scene::Scene;
use config::Credentials;
use diagnose::server::{HeldBy, Reading, Sample, Sampler};
use fleet::Address;
use lab::Account;
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// InnoDB tells of transactions as they were until nobody has asked for 100 ms. Whoever watches asks once a
/// second; these tests ask as soon as they can.
const TRANSACTIONS_TOLD_ANEW: Duration = Duration::from_millis(200);

async fn app(scene: &Scene) -> Conn {
    let opts: Opts = scene.lab.opts("a", "a1", Account::App).unwrap();
    Conn::new(opts).await.unwrap()
}

/// Reads until a reading is as `holds` wants it.
pub(crate) async fn until(sampler: &mut Sampler, what: &str, holds: impl Fn(&Reading) -> bool) -> Reading {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let reading = sampler.read().await.unwrap();
        if holds(&reading) {
            return reading;
        }
        assert!(Instant::now() < deadline, "never seen: {what}; last seen:\n{reading:#?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

pub(crate) async fn waits_are_seen_and_their_blocker_is_named(scene: &Scene, certain: bool) {
    scene.run("a1", "CREATE TABLE app.stock (id INT PRIMARY KEY, n INT)").await;
    scene.run("a1", "INSERT INTO app.stock VALUES (1, 1)").await;
    let mut watching = scene.sampler("a1", Duration::from_secs(5));
    let quiet = watching.read().await.unwrap();
    assert_eq!(quiet.missing.as_slice(), [""; 0]);
    assert!(quiet.sessions_seen);
    assert_eq!((quiet.status.row_waits_now, quiet.sessions.metadata_lock), (0, 0));
    assert!(quiet.settings.max_connections > 0 && quiet.settings.pool_size > 0 && quiet.replica.is_none());
    assert!(quiet.cost.statements <= 4, "{:?}", quiet.cost);

    let mut holder = app(scene).await;
    holder.query_drop("BEGIN").await.unwrap();
    holder.query_drop("UPDATE app.stock SET n = n + 1 WHERE id = 1").await.unwrap();
    let mut waiter = app(scene).await;
    let waits =
        tokio::spawn(async move { waiter.query_drop("UPDATE app.stock SET n = n + 1 WHERE id = 1").await });
    let locked = until(&mut watching, "a row lock and its blocker", |r| r.row_blocker.is_some()).await;
    let blocker = locked.row_blocker.clone().unwrap();
    assert_eq!((blocker.id, blocker.held), (u64::from(holder.id()), HeldBy::ByAnIdleClient), "{blocker}");
    assert_eq!(blocker.table.as_deref(), Some("app.stock"), "{blocker}");
    let sample = Sample::over(&[Arc::new(quiet), Arc::new(locked)]).unwrap();
    assert!(sample.in_row_lock > 0.0 && sample.row_waits_per_s > 0.0, "{sample:#?}");

    // Of two transactions that hold the table the older one is to be ended.
    tokio::time::sleep(Duration::from_millis(1100)).await;
    let mut younger = app(scene).await;
    younger.query_drop("BEGIN").await.unwrap();
    younger.query_drop("SELECT * FROM app.stock").await.unwrap();
    let mut altering = app(scene).await;
    let alters =
        tokio::spawn(async move { altering.query_drop("ALTER TABLE app.stock ADD COLUMN m INT").await });
    let locked =
        until(&mut watching, "a metadata lock and its blocker", |r| r.metadata_blocker.is_some()).await;
    let blocker = locked.metadata_blocker.unwrap();
    assert_eq!((blocker.id, blocker.guessed), (u64::from(holder.id()), !certain), "{blocker}");
    holder.query_drop("COMMIT").await.unwrap();
    younger.query_drop("COMMIT").await.unwrap();
    waits.await.unwrap().unwrap();
    alters.await.unwrap().unwrap();
    until(&mut watching, "nobody waits", |r| r.status.row_waits_now == 0 && r.sessions.metadata_lock == 0)
        .await;
}

/// A transaction that was prepared by XA holds its rows and its table after its session has ended, and is
/// named.
pub(crate) async fn a_transaction_of_no_session_that_holds_a_row_is_named(scene: &Scene) {
    scene.run("a1", "CREATE TABLE app.parcel (id INT PRIMARY KEY, n INT)").await;
    scene.run("a1", "INSERT INTO app.parcel VALUES (1, 1)").await;
    let change = "UPDATE app.parcel SET n = n + 1 WHERE id = 1";
    let mut preparing = app(scene).await;
    for statement in ["XA START 'parcel'", change, "XA END 'parcel'", "XA PREPARE 'parcel'"] {
        preparing.query_drop(statement).await.unwrap();
    }
    preparing.disconnect().await.unwrap();
    let mut watching = scene.sampler("a1", Duration::from_secs(5));
    let mut waiter = app(scene).await;
    let waits = tokio::spawn(async move { waiter.query_drop(change).await });
    tokio::time::sleep(TRANSACTIONS_TOLD_ANEW).await;
    let locked = until(&mut watching, "a row lock of no session", |r| r.row_blocker.is_some()).await;
    let blocker = locked.row_blocker.unwrap();
    assert_eq!((blocker.id, blocker.table.as_deref()), (0, Some("app.parcel")), "{blocker}");
    let mut altering = app(scene).await;
    let alters =
        tokio::spawn(async move { altering.query_drop("ALTER TABLE app.parcel ADD COLUMN m INT").await });
    tokio::time::sleep(TRANSACTIONS_TOLD_ANEW).await;
    let locked = until(&mut watching, "a table of no session", |r| r.metadata_blocker.is_some()).await;
    let blocker = locked.metadata_blocker.unwrap();
    assert_eq!((blocker.id, blocker.table.as_deref()), (0, Some("app.parcel")), "{blocker}");
    scene.run("a1", "XA COMMIT 'parcel'").await;
    waits.await.unwrap().unwrap();
    alters.await.unwrap().unwrap();
}

/// Where MySQL keeps no metadata locks nobody can be named: then it is said what mends that.
pub(crate) async fn metadata_locks_that_are_not_kept_are_said_to_be(scene: &Scene) {
    let instrument = |enabled: &str| {
        format!(
            "UPDATE performance_schema.setup_instruments SET enabled = '{enabled}' \
             WHERE name = 'wait/lock/metadata/sql/mdl'"
        )
    };
    scene.run("a1", "CREATE TABLE app.shelf (id INT PRIMARY KEY)").await;
    scene.run("a1", &instrument("NO")).await;
    let mut holder = app(scene).await;
    holder.query_drop("BEGIN").await.unwrap();
    holder.query_drop("SELECT * FROM app.shelf").await.unwrap();
    let mut altering = app(scene).await;
    let alters =
        tokio::spawn(async move { altering.query_drop("ALTER TABLE app.shelf ADD COLUMN m INT").await });
    let mut watching = scene.sampler("a1", Duration::from_secs(5));
    let says = |r: &Reading| r.missing.iter().any(|missing| missing.contains("setup_instruments"));
    until(&mut watching, "what makes the server tell of metadata locks", says).await;
    scene.run("a1", &instrument("YES")).await;
    holder.query_drop("COMMIT").await.unwrap();
    alters.await.unwrap().unwrap();
}

/// An older transaction that has read the table does not hold back who writes to it; `LOCK TABLES` does.
pub(crate) async fn of_two_that_have_a_table_the_one_in_the_way_is_named(scene: &Scene) {
    scene.run("a1", "CREATE TABLE app.desk (id INT PRIMARY KEY)").await;
    let mut reading = app(scene).await;
    reading.query_drop("BEGIN").await.unwrap();
    reading.query_drop("SELECT * FROM app.desk").await.unwrap();
    tokio::time::sleep(Duration::from_millis(2100)).await;
    let mut holder = scene.lab.connect("a1").await.unwrap();
    holder.query_drop("LOCK TABLES app.desk READ").await.unwrap();
    let mut waiter = app(scene).await;
    let waits = tokio::spawn(async move { waiter.query_drop("INSERT INTO app.desk VALUES (1)").await });
    let mut watching = scene.sampler("a1", Duration::from_secs(5));
    let locked = until(&mut watching, "who is in the way", |r| r.metadata_blocker.is_some()).await;
    let blocker = locked.metadata_blocker.unwrap();
    assert_eq!((blocker.id, blocker.guessed), (u64::from(holder.id()), false), "{blocker}");
    assert_eq!((blocker.table.as_deref(), blocker.waiting), (Some("app.desk"), 1), "{blocker}");
    holder.query_drop("UNLOCK TABLES").await.unwrap();
    waits.await.unwrap().unwrap();
    reading.query_drop("COMMIT").await.unwrap();
}

/// Nobody has a metadata lock for what `FLUSH TABLES` waits for.
pub(crate) async fn whom_a_flush_of_tables_waits_for_is_likely(scene: &Scene) {
    scene.run("a1", "CREATE TABLE app.archive (id INT PRIMARY KEY)").await;
    scene.run("a1", "INSERT INTO app.archive VALUES (1), (2), (3)").await;
    let mut reading = app(scene).await;
    let id = reading.id();
    let reads = tokio::spawn(async move { reading.query_drop("SELECT SLEEP(2), id FROM app.archive").await });
    tokio::time::sleep(Duration::from_millis(500)).await;
    let mut flushing = scene.lab.connect("a1").await.unwrap();
    let flushes = tokio::spawn(async move { flushing.query_drop("FLUSH TABLES").await });
    let mut watching = scene.sampler("a1", Duration::from_secs(5));
    let waits = until(&mut watching, "whom a flush waits for", |r| r.metadata_blocker.is_some()).await;
    let blocker = waits.metadata_blocker.clone().unwrap();
    assert_eq!((blocker.id, blocker.guessed), (u64::from(id), true), "{waits:#?}");
    reads.await.unwrap().unwrap();
    flushes.await.unwrap().unwrap();
}

/// An event that runs is at work like the statement of a client.
pub(crate) async fn an_event_that_runs_is_at_work(scene: &Scene) {
    let mut watching = scene.sampler("a1", Duration::from_secs(5));
    until(&mut watching, "nobody at work", |r| r.sessions.active == 0).await;
    scene.run("a1", "SET GLOBAL event_scheduler = ON").await;
    scene.run("a1", "CREATE EVENT app.busy ON SCHEDULE AT NOW() DO SELECT SLEEP(4)").await;
    until(&mut watching, "an event at work", |r| r.sessions.active == 1).await;
    until(&mut watching, "its end", |r| r.sessions.active == 0).await;
    scene.run("a1", "SET GLOBAL event_scheduler = OFF").await;
}

/// Inserts wait for the statement that takes auto-increment values until it ends. The engine does not count
/// them among the waits for rows.
pub(crate) async fn inserts_behind_another_statements_values_are_seen(scene: &Scene) {
    scene.run("a1", "CREATE TABLE app.journal (id BIGINT AUTO_INCREMENT PRIMARY KEY, n DOUBLE)").await;
    scene.run("a1", "CREATE TABLE app.pace (s DOUBLE)").await;
    // The first row takes the lock; what is slow comes behind it.
    scene.run("a1", "INSERT INTO app.pace VALUES (0), (1), (1), (1), (1)").await;
    let mut watching = scene.sampler("a1", Duration::from_secs(5));
    let quiet = watching.read().await.unwrap();
    assert!(quiet.settings.holds_auto_increment && quiet.in_auto_increment == 0);
    let mut holder = app(scene).await;
    let id = holder.id();
    let holds = tokio::spawn(async move {
        holder.query_drop("INSERT INTO app.journal (n) SELECT SLEEP(s) FROM app.pace").await
    });
    tokio::time::sleep(Duration::from_millis(500)).await;
    let mut waiters = Vec::new();
    for _ in 0..2 {
        let mut waiter = app(scene).await;
        waiters.push(tokio::spawn(async move {
            waiter.query_drop("INSERT INTO app.journal (n) VALUES (1)").await
        }));
    }
    let seen = |r: &Reading| r.in_auto_increment == 2 && r.row_blocker.is_some();
    let locked = until(&mut watching, "two that wait for values, and for whom", seen).await;
    let blocker = locked.row_blocker.clone().unwrap();
    assert_eq!((blocker.id, blocker.held), (u64::from(id), HeldBy::ByAStatement), "{blocker}");
    assert_eq!(blocker.table.as_deref(), Some("app.journal"), "{blocker}");
    assert_eq!((locked.status.row_waits_now, locked.sessions.insert), (0, 2), "{locked:#?}");
    let sample = Sample::over(&[Arc::new(quiet), Arc::new(locked)]).unwrap();
    assert!(sample.in_auto_increment > 0.0 && sample.in_row_lock == 0.0, "{sample:#?}");
    holds.await.unwrap().unwrap();
    for waiter in waiters {
        waiter.await.unwrap().unwrap();
    }
    until(&mut watching, "nobody waits for values", |r| r.in_auto_increment == 0).await;
}

/// Who holds a table of an engine that locks whole tables is told by `performance_schema`.
pub(crate) async fn who_holds_a_whole_table_is_named(scene: &Scene) {
    let instrument = "UPDATE performance_schema.setup_instruments SET enabled = 'YES' \
                      WHERE name = 'wait/lock/table/sql/handler'";
    scene.run("a1", instrument).await;
    scene.run("a1", "CREATE TABLE app.board (id INT PRIMARY KEY, n INT) ENGINE = MyISAM").await;
    // The lock on a table of a single row ends before the statement does.
    scene.run("a1", "INSERT INTO app.board VALUES (1, 1), (2, 1), (3, 1)").await;
    let mut watching = scene.sampler("a1", Duration::from_secs(5));
    let quiet = watching.read().await.unwrap();
    assert!(quiet.settings.performance_schema && quiet.table_blocker.is_none());
    let mut holder = app(scene).await;
    let id = holder.id();
    let holds = tokio::spawn(async move { holder.query_drop("SELECT SLEEP(2), n FROM app.board").await });
    tokio::time::sleep(Duration::from_millis(500)).await;
    let mut waiter = app(scene).await;
    let waits = tokio::spawn(async move { waiter.query_drop("UPDATE app.board SET n = n + 1").await });
    let locked = until(&mut watching, "who holds a table", |r| r.table_blocker.is_some()).await;
    let blocker = locked.table_blocker.clone().unwrap();
    assert_eq!((blocker.id, blocker.held), (u64::from(id), HeldBy::ByAStatement), "{blocker}");
    assert_eq!((blocker.table.as_deref(), blocker.waiting), (Some("app.board"), 1), "{blocker}");
    assert!(!blocker.guessed && locked.sessions.table_lock == 1, "{locked:#?}");
    let sample = Sample::over(&[Arc::new(quiet), Arc::new(locked)]).unwrap();
    assert!(sample.in_table_lock > 0.0 && sample.table_blocker.is_some(), "{sample:#?}");
    holds.await.unwrap().unwrap();
    waits.await.unwrap().unwrap();
}

/// Makes a table and drops it again until it is aborted: each waits for the data dictionary.
async fn create_and_drop(mut conn: Conn, number: usize) {
    let create = format!("CREATE TABLE app.d{number} (id INT PRIMARY KEY, a INT, b INT, KEY (a), KEY (b))");
    let drop = format!("DROP TABLE IF EXISTS app.d{number}");
    while conn.query_drop(&create).await.is_ok() && conn.query_drop(&drop).await.is_ok() {}
}

/// Who waits for a latch of the engine is known where the instruments are on; where they are off it is not 0.
/// Of sessions that make tables one is at the data dictionary at a time.
pub(crate) async fn waits_for_latches_are_told_where_their_instruments_are_on(scene: &Scene) {
    let instruments = "WHERE name LIKE 'wait/synch/%lock/innodb/%'";
    let switch = |on: &str| {
        [
            format!("UPDATE performance_schema.setup_instruments SET enabled = '{on}' {instruments}"),
            format!(
                "UPDATE performance_schema.setup_consumers SET enabled = '{on}' \
                 WHERE name = 'events_waits_current'"
            ),
        ]
    };
    let mut makers = Vec::new();
    for number in 0..12 {
        makers.push(tokio::spawn(create_and_drop(app(scene).await, number)));
    }
    let mut watching = scene.sampler("a1", Duration::from_secs(5));
    for _ in 0..2 {
        let off = watching.read().await.unwrap();
        assert_eq!((off.in_latch, &off.latch), (None, &None));
    }
    for statement in switch("YES") {
        scene.run("a1", &statement).await;
    }
    // Whether they are on is asked seldom, and first of all.
    let mut watching = scene.sampler("a1", Duration::from_secs(5));
    let waits = until(&mut watching, "a latch that is waited for", |r| r.latch.is_some()).await;
    let latch = waits.latch.clone().unwrap();
    assert!(latch.latch.contains("lock") || latch.latch.contains("latch"), "{latch}");
    assert!(waits.in_latch.is_some_and(|waiting| waiting > 0) && latch.waiting > 0, "{waits:#?}");
    let is_theirs = |text: &String| text.starts_with("CREATE TABLE") || text.starts_with("DROP TABLE");
    assert!(latch.statement.as_ref().is_none_or(is_theirs), "{waits:#?}");
    assert_eq!(waits.missing.as_slice(), [""; 0]);
    makers.iter().for_each(tokio::task::JoinHandle::abort);
    until(&mut watching, "nobody waits for a latch", |r| r.in_latch == Some(0)).await;
    for statement in switch("NO") {
        scene.run("a1", &statement).await;
    }
}

/// An account that sees no session but its own does not take the others for nobody.
pub(crate) async fn sessions_that_are_hidden_are_said_to_be(scene: &Scene) {
    scene.run("a1", "CREATE USER small@'%' IDENTIFIED BY 'Sm4ll-pass'").await;
    let real = scene.lab.real("a1").unwrap();
    let credentials = Credentials {
        user: Some("small".to_owned()),
        password: Some("Sm4ll-pass".to_owned()),
        ..Credentials::default()
    };
    let address = Address::tcp(real.ip().to_string(), real.port());
    let mut watching = Sampler::new(address, credentials, Duration::from_secs(5));
    // Two idle sessions of others are few enough to be taken for some that just ended.
    let mut others = Vec::new();
    for _ in 0..2 {
        others.push(app(scene).await);
    }
    let reading = watching.read().await.unwrap();
    assert!(!reading.sessions_seen, "{reading:#?}");
    for _ in 0..4 {
        others.push(app(scene).await);
    }
    let reading = watching.read().await.unwrap();
    assert!(reading.status.connected >= 7 && !reading.sessions_seen, "{reading:#?}");
    assert!(reading.missing.iter().any(|line| line.contains("sessions")), "{:?}", reading.missing);
    // A quick server answers all questions within the millisecond that is too short for a sample.
    tokio::time::sleep(Duration::from_millis(20)).await;
    let again = watching.read().await.unwrap();
    let sample = Sample::over(&[Arc::new(reading), Arc::new(again)]).unwrap();
    assert!(sample.sessions_unseen);
    scene.run("a1", "DROP USER small@'%'").await;
}

/// Who holds a lock on everything is asked every few seconds; that nobody tells is said all the while.
pub(crate) async fn a_holder_that_is_not_told_is_said_to_be_so_in_each_reading(scene: &Scene) {
    let mut holder = scene.lab.connect("a1").await.unwrap();
    holder.query_drop("FLUSH TABLES WITH READ LOCK").await.unwrap();
    let mut waiter = app(scene).await;
    let waits =
        tokio::spawn(async move { waiter.query_drop("INSERT INTO app.stock (id, n) VALUES (2, 1)").await });
    let mut watching = scene.sampler("a1", Duration::from_secs(5));
    until(&mut watching, "a lock on everything", |r| r.sessions.global_lock > 0).await;
    for _ in 0..3 {
        let reading = watching.read().await.unwrap();
        let said = reading.missing.iter().any(|line| line.contains("metadata_lock_info"));
        assert!(said && reading.metadata_blocker.is_none(), "{:?}", reading.missing);
    }
    holder.query_drop("UNLOCK TABLES").await.unwrap();
    waits.await.unwrap().unwrap();
    // Without a transaction nobody is likely to hold a table either.
    holder.query_drop("LOCK TABLES app.stock WRITE").await.unwrap();
    let mut waiter = app(scene).await;
    let waits = tokio::spawn(async move { waiter.query_drop("SELECT * FROM app.stock").await });
    let mut watching = scene.sampler("a1", Duration::from_secs(5));
    let told = |r: &Reading| r.missing.iter().any(|line| line.starts_with("who holds the metadata lock"));
    until(&mut watching, "what would tell who holds a table", told).await;
    holder.query_drop("UNLOCK TABLES").await.unwrap();
    waits.await.unwrap().unwrap();
}

/// MariaDB's plugin tells who holds what: a session with a stronger lock on another table is not named for
/// it, and what the plugin does not tell is marked as a guess.
pub(crate) async fn the_lock_plugin_names_who_holds_the_table_that_is_waited_for(scene: &Scene) {
    scene.run("a1", "INSTALL SONAME 'metadata_lock_info'").await;
    for table in ["shape", "elsewhere"] {
        scene.run("a1", &format!("CREATE TABLE app.{table} (id INT PRIMARY KEY)")).await;
    }
    let mut unrelated = scene.lab.connect("a1").await.unwrap();
    unrelated.query_drop("LOCK TABLES app.elsewhere WRITE").await.unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    let mut holder = app(scene).await;
    holder.query_drop("BEGIN").await.unwrap();
    holder.query_drop("SELECT * FROM app.shape").await.unwrap();
    let mut altering = app(scene).await;
    let alters =
        tokio::spawn(async move { altering.query_drop("ALTER TABLE app.shape ADD COLUMN n INT").await });
    let mut watching = scene.sampler("a1", Duration::from_secs(5));
    let locked = until(&mut watching, "who holds the table", |r| r.metadata_blocker.is_some()).await;
    let blocker = locked.metadata_blocker.unwrap();
    assert_eq!((blocker.id, blocker.guessed), (u64::from(holder.id()), false), "{blocker}");
    assert_eq!(blocker.table.as_deref(), Some("app.shape"), "{blocker}");
    holder.query_drop("COMMIT").await.unwrap();
    alters.await.unwrap().unwrap();
    // Who was named holds until it may be asked again, or a reading in which nobody waits.
    until(&mut watching, "that nobody waits", |r| r.metadata_blocker.is_none()).await;
    // A reader has no lock on the table that it waits for.
    let mut reading = app(scene).await;
    let reads = tokio::spawn(async move { reading.query_drop("SELECT * FROM app.elsewhere").await });
    let locked = until(&mut watching, "who is likely", |r| r.metadata_blocker.is_some()).await;
    let blocker = locked.metadata_blocker.unwrap();
    assert_eq!((blocker.id, blocker.guessed), (u64::from(unrelated.id()), true), "{blocker}");
    assert!(!blocker.in_transaction && blocker.to_string().contains("idle for"), "{blocker}");
    unrelated.query_drop("UNLOCK TABLES").await.unwrap();
    reads.await.unwrap().unwrap();
    until(&mut watching, "that nobody waits", |r| r.metadata_blocker.is_none()).await;
    // Who is in its commit has a lock on a table that an older transaction has read.
    holder.query_drop("BEGIN").await.unwrap();
    holder.query_drop("SELECT * FROM app.elsewhere").await.unwrap();
    tokio::time::sleep(Duration::from_millis(2100)).await;
    for stage in ["START", "FLUSH", "BLOCK_DDL", "BLOCK_COMMIT"] {
        unrelated.query_drop(format!("BACKUP STAGE {stage}")).await.unwrap();
    }
    let mut writing = app(scene).await;
    let insert = "INSERT INTO app.elsewhere VALUES (1)";
    let writes = tokio::spawn(async move { writing.query_drop(insert).await });
    let locked = until(&mut watching, "who makes a backup", |r| r.metadata_blocker.is_some()).await;
    let blocker = locked.metadata_blocker.unwrap();
    assert_eq!((blocker.id, blocker.guessed), (u64::from(unrelated.id()), false), "{blocker}");
    assert_eq!(blocker.table, None, "{blocker}");
    unrelated.query_drop("BACKUP STAGE END").await.unwrap();
    writes.await.unwrap().unwrap();
    holder.query_drop("COMMIT").await.unwrap();
    scene.run("a1", "UNINSTALL SONAME 'metadata_lock_info'").await;
}

/// Changes of a table without a key, which take the replica many looks through it, are seen with the table.
pub(crate) async fn changes_without_a_key_are_seen(scene: &Scene) {
    scene.run("a1", "CREATE TABLE app.keyless (n INT NOT NULL, filler VARCHAR(200) NOT NULL)").await;
    let first = "INSERT INTO app.keyless WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r \
                 WHERE n < 1000) SELECT n, REPEAT('k', 200) FROM r";
    scene.run("a1", first).await;
    for doubling in 1..6 {
        scene
            .run("a1", &format!("INSERT INTO app.keyless SELECT n + {doubling}000, filler FROM app.keyless"))
            .await;
    }
    let mut replica = scene.sampler("b1", Duration::from_secs(5));
    scene.run("a1", "UPDATE app.keyless SET filler = REPEAT('l', 200)").await;
    let seen = |r: &Reading| r.row_search.appliers > 0;
    let reading = until(&mut replica, "an applier that looks for rows", seen).await;
    assert_eq!(reading.row_search.table.as_deref(), Some("app.keyless"), "{reading:#?}");
    assert_eq!(reading.missing.as_slice(), [""; 0]);
}
