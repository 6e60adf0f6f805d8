//! Servers that send what no server should: they break nothing but the look at themselves.

use config::{Credentials, FleetConfig, OwnZone, Tls, TlsMode};
use fleet::{Address, Snapshot, State};
use lab::scripted::{Opening, Reply, Script, ScriptedServer};
use observe::Watcher;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

fn config(server: &ScriptedServer) -> FleetConfig {
    let credentials = Credentials {
        user: Some("watch".to_owned()),
        password: Some("secret".to_owned()),
        tls: Tls { mode: TlsMode::Disabled, ..Tls::default() },
        ..Credentials::default()
    };
    FleetConfig {
        seeds: vec![Address::tcp(server.address().ip().to_string(), server.address().port())],
        interval: Duration::from_millis(100),
        credentials,
        own_zone: OwnZone::Named("here".into()),
        ..FleetConfig::default()
    }
}

async fn until(watcher: &Watcher, what: &str, holds: impl Fn(&Snapshot) -> bool) -> Arc<Snapshot> {
    let mut snapshots = watcher.snapshots();
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let now = snapshots.borrow_and_update().clone();
        if !now.servers.is_empty() && holds(&now) {
            return now;
        }
        assert!(Instant::now() < deadline, "never seen: {what}; last seen:\n{now:#?}");
        let _ = tokio::time::timeout(Duration::from_secs(1), snapshots.changed()).await;
    }
}

/// A greeting that asks for `caching_sha2_password`, "send me your password in full", and, in place of a
/// public key, a text that is none: the driver panics on it.
fn bad_key() -> Vec<u8> {
    let mut greeting = vec![10];
    greeting.extend(b"8.0.39\0");
    greeting.extend([1, 0, 0, 0]);
    greeting.extend(b"nonce-00\0");
    // All capabilities of today but SSL and compression.
    greeting.extend([0xdf, 0xf7, 45, 2, 0, 0xff, 0xc1, 21]);
    greeting.extend([0; 10]);
    greeting.extend(b"nonce-000000\0");
    greeting.extend(b"caching_sha2_password\0");
    let packet = |sequence: u8, payload: &[u8]| {
        let length = u32::try_from(payload.len()).unwrap().to_le_bytes();
        [&length[..3], &[sequence], payload].concat()
    };
    [packet(0, &greeting), packet(2, &[1, 4]), packet(4, b"\x01this is no key")].concat()
}

/// A server that is an ordinary writable MariaDB, but for what `odd` answers.
fn script(odd: impl Fn(&str) -> Option<Reply> + Send + Sync + 'static) -> Script {
    Script::new("10.11.6-MariaDB", move |statement, _| {
        if let Some(reply) = odd(statement) {
            return reply;
        }
        let nothing = Reply::Rows { columns: vec!["Nothing".to_owned()], rows: Vec::new() };
        match statement {
            _ if statement.starts_with("SELECT @@version") => Reply::rows(
                &["version", "version_comment", "account"],
                &[&[Some("10.11.6-MariaDB"), Some("-"), Some("watch@%")]],
            ),
            _ if statement.starts_with("SELECT @@hostname") => Reply::rows(
                &["hostname", "port", "server_id", "datadir"],
                &[&[Some("odd"), Some("3306"), Some("1"), Some("/d")]],
            ),
            _ if statement.starts_with("SELECT @@global.read_only") => Reply::rows(
                &["read_only", "innodb_read_only", "gtid_binlog_pos", "gtid_slave_pos"],
                &[&[Some("0"), Some("0"), Some("0-1-1"), Some("")]],
            ),
            "SHOW ALL REPLICAS STATUS" | "SHOW REPLICA HOSTS" => nothing,
            _ => Reply::Usual,
        }
    })
}

#[tokio::test]
async fn a_panic_on_what_a_server_sends_is_a_failed_look_and_it_is_asked_again() {
    let server = ScriptedServer::start(script(|_| None)).await.unwrap();
    let watcher = Watcher::start(config(&server));
    until(&watcher, "a sound server", |s| s.servers[0].state == State::Answering).await;

    server.set_opening(Opening::Garbage(bad_key()));
    // A suspicion makes the next look a new connection, which meets the bad key.
    let name = watcher.snapshots().borrow().servers[0].name.clone();
    let mut seen = 0;
    while seen < 2 {
        watcher.suspect(&name, "a session broke");
        let before = server.connections();
        let broken = until(
            &watcher,
            "the panic in words",
            |s| matches!(&s.servers[0].state, State::Failing { why } if why.contains("broke the asking")),
        );
        assert!(broken.await.primary().is_none(), "what it last answered counts no more");
        let deadline = Instant::now() + Duration::from_secs(60);
        while server.connections() == before {
            assert!(Instant::now() < deadline, "it is not asked again");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        seen += 1;
    }
    server.set_opening(Opening::Greet);
    until(&watcher, "the server is back", |s| {
        s.servers[0].state == State::Answering && s.primary().is_some()
    })
    .await;
    watcher.stop().await;
}

#[tokio::test]
async fn an_endless_answer_is_not_read_to_its_end() {
    // As many rows as one answer can have here, and more than any honest answer has.
    let flood = Reply::Rows {
        columns: vec!["Variable_name".to_owned(), "Value".to_owned()],
        rows: vec![vec![Some("Questions".to_owned()), Some("1".to_owned())]; 100_002],
    };
    let server = ScriptedServer::start(script(move |statement| {
        statement.starts_with("SHOW GLOBAL STATUS").then(|| flood.clone())
    }))
    .await
    .unwrap();
    let mut config = config(&server);
    config.deadline = Duration::from_secs(20);
    let watcher = Watcher::start(config);
    until(
        &watcher,
        "the answer is refused",
        |s| matches!(&s.servers[0].state, State::Failing { why } if why.contains("more than 100000 rows")),
    )
    .await;
    watcher.stop().await;
}

#[tokio::test]
async fn a_server_that_is_slow_to_add_up_its_counters_answers_all_the_same() {
    let asked = Arc::new(AtomicU32::new(0));
    let count = asked.clone();
    let server = ScriptedServer::start(script(move |statement| {
        statement.starts_with("SHOW GLOBAL STATUS").then(|| {
            count.fetch_add(1, Relaxed);
            Reply::Hang
        })
    }))
    .await
    .unwrap();
    let mut config = config(&server);
    config.deadline = Duration::from_secs(2);
    let watcher = Watcher::start(config);
    let first = until(&watcher, "it takes writes", |s| s.primary().is_some()).await;
    let remarked = first.remarks.iter().any(|remark| remark.contains("what it carries"));
    assert!(remarked, "{:?}", first.remarks);
    until(&watcher, "it is asked on", |s| {
        assert_eq!(s.servers[0].state, State::Answering);
        s.round >= first.round + 30
    })
    .await;
    assert_eq!(asked.load(Relaxed), 1, "that question has a pause");
    watcher.stop().await;
}

#[tokio::test]
async fn a_server_that_does_not_say_how_it_replicates_answers_all_the_same() {
    let hangs = Arc::new(AtomicBool::new(false));
    let now = hangs.clone();
    let server = ScriptedServer::start(script(move |statement| {
        (statement == "SHOW ALL REPLICAS STATUS" && now.load(Relaxed)).then_some(Reply::Hang)
    }))
    .await
    .unwrap();
    let mut config = config(&server);
    config.deadline = Duration::from_secs(2);
    let watcher = Watcher::start(config);
    until(&watcher, "it takes writes", |s| s.primary().is_some()).await;
    let remarked = |s: &Snapshot| s.remarks.iter().any(|r| r.contains("SHOW ALL REPLICAS STATUS"));
    hangs.store(true, Relaxed);
    until(&watcher, "that is remarked", |s| {
        assert_eq!(s.servers[0].state, State::Answering);
        assert!(s.primary().is_some(), "it replicated from nobody when it told last");
        remarked(s)
    })
    .await;
    hangs.store(false, Relaxed);
    until(&watcher, "it tells again", |s| !remarked(s)).await;
    watcher.stop().await;
}
