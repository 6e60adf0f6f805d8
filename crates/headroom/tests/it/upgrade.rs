//! A new process takes over under a stream of connects: none is refused, and no session is cut.

use crate::support::one_server::{Alone, LIMIT, POLL};
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, OptsBuilder};
use rustix::process::Signal;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

/// Clients that connect, ask and leave, one after the other, until told to stop.
struct Stream {
    stop: Arc<AtomicBool>,
    done: Arc<AtomicUsize>,
    clients: Vec<tokio::task::JoinHandle<Result<(), String>>>,
}

impl Stream {
    fn start(opts: &[OptsBuilder]) -> Self {
        let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let client = |opts: &OptsBuilder| {
            let (opts, stop, done) = (opts.clone(), stop.clone(), done.clone());
            tokio::spawn(async move {
                while !stop.load(SeqCst) {
                    once(opts.clone()).await.map_err(|e| format!("{e}"))?;
                    done.fetch_add(1, SeqCst);
                }
                Ok(())
            })
        };
        let clients = opts.iter().map(client).collect();
        Self { stop, done, clients }
    }

    /// Waits for this many more.
    async fn go_on(&self, more: usize) {
        let until = self.done.load(SeqCst) + more;
        let deadline = std::time::Instant::now() + LIMIT;
        while self.done.load(SeqCst) < until && self.clients.iter().any(|c| !c.is_finished()) {
            assert!(std::time::Instant::now() < deadline, "{} of {until}", self.done.load(SeqCst));
            tokio::time::sleep(POLL).await;
        }
    }

    async fn end(self) -> (usize, Vec<String>) {
        self.stop.store(true, SeqCst);
        let mut errors = Vec::new();
        for client in self.clients {
            errors.extend(client.await.unwrap().err());
        }
        (self.done.load(SeqCst), errors)
    }
}

/// What a pool does for a statement on a new connection. The statement may meet the end of the session's
/// process, when a session is closed between two uses; here it follows the connect at once, so it must not.
async fn once(opts: OptsBuilder) -> mysql_async::Result<()> {
    let mut conn = Conn::new(opts).await?;
    conn.query_drop("BEGIN").await?;
    conn.query_drop("SELECT 1").await?;
    conn.query_drop("COMMIT").await?;
    conn.disconnect().await
}

#[tokio::test]
async fn no_connect_is_refused_and_no_transaction_cut_while_processes_take_over() {
    let mut alone = Alone::up("").await;
    let mut first = alone.start(&[], None);
    let pid = |status: &serde_json::Value| status["process"]["pid"].as_u64().unwrap();
    assert_eq!(pid(&alone.ready().await), u64::from(first.id()));
    let by_socket = alone.opts().socket(Some(alone.socket.display().to_string()));
    let stream = Stream::start(&[alone.opts(), alone.opts(), by_socket.clone()]);
    let mut long = alone.connect().await.unwrap();
    long.query_drop("BEGIN").await.unwrap();
    stream.go_on(50).await;

    let mut second = alone.start(&["--take-over"], None);
    let other = |before: u64| move |s: &serde_json::Value| pid(s) != before && !s["writer"].is_null();
    let status = alone.wait_for("the second serves", other(u64::from(first.id()))).await;
    assert_eq!(pid(&status), u64::from(second.id()));
    stream.go_on(50).await;
    long.query_drop("SELECT 1").await.unwrap();
    assert!(first.try_wait().unwrap().is_none(), "a transaction is waited for");
    long.query_drop("COMMIT").await.unwrap();
    assert_eq!(alone.ended(&mut first).await.code(), Some(0), "{}", alone.words());
    assert!(alone.socket.exists(), "the unix socket belongs to the second now");

    // And once more, the way that a service manager or an operator would.
    alone.signal(u64::from(second.id()), Signal::USR2);
    let status = alone.wait_for("the third serves", other(u64::from(second.id()))).await;
    stream.go_on(50).await;
    assert_eq!(alone.ended(&mut second).await.code(), Some(0), "{}", alone.words());
    once(by_socket).await.unwrap();
    let (done, errors) = stream.end().await;
    assert!(errors.is_empty(), "{errors:?} among {done} connects\n{}", alone.words());
    alone.signal(pid(&status), Signal::TERM);
    let deadline = std::time::Instant::now() + LIMIT;
    while std::net::TcpStream::connect(alone.writer).is_ok() {
        assert!(std::time::Instant::now() < deadline, "the third does not end\n{}", alone.words());
        tokio::time::sleep(POLL).await;
    }
    assert!(!alone.socket.exists(), "and the last one takes it away");
}

#[tokio::test]
async fn a_drain_outlives_an_upgrade_and_ends_by_command_even_if_its_server_has_left() {
    let mut alone = Alone::up("").await;
    let mut first = alone.start(&[], None);
    let status = alone.ready().await;
    let name = status["servers"][0]["name"].as_str().unwrap().to_owned();
    let admin = alone.admin.to_string();
    let ran = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_headroom"));
        let output = command.args(arguments).env_clear().env("HEADROOM_ADMIN", &admin).output().unwrap();
        (output.status.success(), format!("{output:?}"))
    };
    let (drained, words) = ran(&["drain", &name, "--force", "--deadline", "1h"]);
    assert!(drained, "{words}");

    let mut second = alone.start(&["--take-over"], None);
    let pid = u64::from(second.id());
    let knows = |s: &serde_json::Value| s["process"]["pid"] == pid && s["servers"][0]["routing"].is_object();
    let status = alone.wait_for("the second knows the server", knows).await;
    assert_eq!(alone.ended(&mut first).await.code(), Some(0), "{}", alone.words());
    let routing = &status["servers"][0]["routing"];
    assert_eq!(routing["draining"], true, "{routing}\n{}", alone.words());
    assert_eq!(routing["reads"]["eligible"], false, "{routing}");
    let left_ms = routing["draining_ms"].as_u64().unwrap();
    assert!((3_000_000..3_600_000).contains(&left_ms), "{left_ms}");

    let seed = alone.lab.real("a1").unwrap().to_string();
    let text = std::fs::read_to_string(&alone.file).unwrap().replace(&seed, "127.0.0.1:1");
    std::fs::write(&alone.file, text).unwrap();
    alone.signal(pid, Signal::HUP);
    let left = |s: &serde_json::Value| s["servers"].as_array().unwrap().iter().all(|s| s["name"] != *name);
    alone.wait_for("the server has left the fleet", left).await;
    // The second answers commands once the first has left the name.
    let begun = std::time::Instant::now();
    let (undrained, words) = loop {
        let (undrained, words) = ran(&["undrain", &name]);
        if undrained || !words.contains("no headroom route") || begun.elapsed() > LIMIT {
            break (undrained, words);
        }
        tokio::time::sleep(POLL).await;
    };
    assert!(undrained, "{words}");
    let (undrained, words) = ran(&["undrain", &name]);
    assert!(!undrained && words.contains("there is no server"), "{words}");
    alone.signal(pid, Signal::TERM);
    assert_eq!(alone.ended(&mut second).await.code(), Some(0), "{}", alone.words());
}

#[tokio::test]
async fn a_reload_that_moves_the_admin_address_moves_commands_and_upgrades_too() {
    let mut alone = Alone::up("").await;
    let mut first = alone.start(&[], None);
    let status = alone.ready().await;
    let name = status["servers"][0]["name"].as_str().unwrap().to_owned();
    let pid = u64::from(first.id());
    let before = alone.admin;
    let to = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    alone.move_admin(&before.to_string(), to);
    alone.signal(pid, Signal::HUP);
    alone.wait_for("it answers at the new address", |s| s["process"]["pid"] == pid).await;
    let known_by = to.to_string();
    let deadline = std::time::Instant::now() + LIMIT;
    let drain = |admin: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_headroom"));
        command.args(["drain", &name, "--force"]).env_clear().env("HEADROOM_ADMIN", admin);
        let output = command.output().unwrap();
        (output.status.success(), format!("{output:?}"))
    };
    while !drain(&known_by).0 {
        assert!(std::time::Instant::now() < deadline, "{}\n{}", drain(&known_by).1, alone.words());
        tokio::time::sleep(POLL).await;
    }
    let (found, words) = drain(&before.to_string());
    assert!(!found && words.contains("no headroom route"), "{words}");
    alone.signal(pid, Signal::USR2);
    let status = alone.wait_for("the second serves", |s| s["process"]["pid"] != pid).await;
    assert_eq!(alone.ended(&mut first).await.code(), Some(0), "{}", alone.words());
    alone.signal(status["process"]["pid"].as_u64().unwrap(), Signal::TERM);
}

#[tokio::test]
async fn sockets_that_systemd_opened_are_used() {
    let mut alone = Alone::up("").await;
    let listener = std::net::TcpListener::bind(alone.writer).unwrap();
    let mut child = alone.start_activated(&listener);
    alone.ready().await;
    once(alone.opts()).await.unwrap();
    alone.signal(u64::from(child.id()), Signal::TERM);
    assert_eq!(alone.ended(&mut child).await.code(), Some(0));
    // Still open: a client waits for the next process instead of being refused.
    let waits = std::net::TcpStream::connect(alone.writer).unwrap();
    let mut child = alone.start_activated(&listener);
    alone.ready().await;
    let mut header = [0; 4];
    waits.set_read_timeout(Some(LIMIT)).unwrap();
    std::io::Read::read_exact(&mut &waits, &mut header).unwrap();
    alone.signal(u64::from(child.id()), Signal::TERM);
    drop(waits);
    assert_eq!(alone.ended(&mut child).await.code(), Some(0));
}

#[tokio::test]
async fn a_socket_from_systemd_that_no_listener_takes_is_closed() {
    let mut alone = Alone::up("").await;
    let of_nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = of_nobody.local_addr().unwrap();
    let mut child = alone.start_activated(&of_nobody);
    drop(of_nobody);
    alone.ready().await;
    assert!(alone.words().contains("is of no listener here"), "{}", alone.words());
    assert!(std::net::TcpStream::connect(address).is_err(), "a client would wait for good");
    alone.signal(u64::from(child.id()), Signal::TERM);
    assert_eq!(alone.ended(&mut child).await.code(), Some(0));
}

#[tokio::test]
async fn a_control_directory_that_others_may_enter_is_refused_in_words_and_clients_are_served_all_the_same() {
    let mut alone = Alone::up("").await;
    let directory = alone.lab.dir().join("private");
    std::fs::create_dir(&directory).unwrap();
    std::fs::set_permissions(&directory, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    alone.runtime_dir = Some(directory.clone());
    let mut first = alone.start(&[], None);
    alone.ready().await;
    once(alone.opts()).await.unwrap();
    let words = alone.words();
    assert!(words.contains("no command reaches this process") && words.contains("mode 0755"), "{words}");
    assert!(std::fs::read_dir(&directory).unwrap().next().is_none(), "nothing is put there");
    let mut second = alone.start(&["--take-over"], None);
    assert_eq!(alone.ended(&mut second).await.code(), Some(2), "{}", alone.words());
    assert!(alone.words().contains("--take-over: "), "{}", alone.words());
    alone.signal(u64::from(first.id()), Signal::TERM);
    assert_eq!(alone.ended(&mut first).await.code(), Some(0));

    // With the mode that it asks for, the sockets are there, and a killed process leaves only what the next
    // one replaces.
    std::fs::set_permissions(&directory, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    let sockets = |alone: &Alone| {
        let names =
            std::fs::read_dir(&directory).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.contains(&alone.admin.to_string())).count()
    };
    let both = async |alone: &Alone| {
        let deadline = std::time::Instant::now() + LIMIT;
        while sockets(alone) < 2 {
            assert!(std::time::Instant::now() < deadline, "{} sockets\n{}", sockets(alone), alone.words());
            tokio::time::sleep(POLL).await;
        }
    };
    let mut third = alone.start(&[], None);
    both(&alone).await;
    third.kill().unwrap();
    third.wait().unwrap();
    assert_eq!(sockets(&alone), 2, "left behind");
    let mut fourth = alone.start(&[], None);
    alone.ready().await;
    let mut fifth = alone.start(&["--take-over"], None);
    assert_eq!(alone.ended(&mut fourth).await.code(), Some(0), "taken over\n{}", alone.words());
    both(&alone).await;
    alone.signal(u64::from(fifth.id()), Signal::TERM);
    assert_eq!(alone.ended(&mut fifth).await.code(), Some(0));
    assert_eq!(sockets(&alone), 0, "who ends in peace leaves nothing");
}
