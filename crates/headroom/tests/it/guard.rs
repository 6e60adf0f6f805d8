//! `headroom guard` as it is typed: it answers over HTTP, is paused and resumed from the command line, and
//! leaves to a person what could lose an acknowledged write.

use lab::{Account, Fault, Lab, RouterOptions, Spec};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

/// Killed when the test fails, too.
pub(crate) struct Running(pub(crate) Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) fn ask(at: SocketAddr, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(at).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(10))).ok()?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {at}\r\nConnection: close\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}

pub(crate) async fn until(at: SocketAddr, path: &'static str, part: &'static str) -> String {
    let until = Instant::now() + PATIENCE;
    loop {
        let answer = tokio::task::spawn_blocking(move || ask(at, path)).await.unwrap();
        if let Some(answer) = answer.as_ref().filter(|answer| answer.contains(part)) {
            return answer.clone();
        }
        assert!(Instant::now() < until, "no {part} at {path}: {answer:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test]
async fn it_is_paused_from_the_command_line_and_leaves_a_possible_loss_to_a_person() {
    let base = tempfile::tempdir().unwrap();
    let spec = Spec::new(&[("a", 2)]).option("slave_net_timeout", "4");
    let lab = Lab::up(&spec, base.path()).await.unwrap();
    let config = base.path().join("headroom.toml");
    std::fs::write(&config, lab.status().await.router_config("a", &RouterOptions::default()).unwrap())
        .unwrap();
    // Freed at once and taken by the guard.
    let at = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let headroom = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_headroom"));
        command.arg("guard").args(arguments).arg("--config").arg(&config);
        command.arg("--admin-option-file").arg(lab.credentials_file(Account::Admin));
        command.arg("--journal").arg(base.path().join("journals"));
        command
    };
    let nobody = output(headroom(&["status"])).await;
    assert_eq!(nobody.status.code(), Some(1), "{}", text(&nobody));
    assert!(text(&nobody).contains("none is active"), "{}", text(&nobody));

    let listen = at.to_string();
    let mut guard = headroom(&["--confirm", "600ms", "--listen", &listen]);
    let log = std::fs::File::create(base.path().join("guard.log")).unwrap();
    let guard = Running(guard.stdout(Stdio::null()).stderr(log).spawn().unwrap());
    until(at, "/metrics", "headroom_guard_active 1").await;
    assert!(until(at, "/healthz", "ok").await.starts_with("HTTP/1.1 200"));
    let status = output(headroom(&["status", "--json"])).await;
    assert_eq!(status.status.code(), Some(0), "{}", text(&status));

    let paused = output(headroom(&["pause", "--for", "1h", "--why", "a new disk", "--json"])).await;
    assert_eq!(paused.status.code(), Some(0), "{}", text(&paused));
    let paused: serde_json::Value = serde_json::from_slice(&paused.stdout).unwrap();
    assert!(paused["primary"].is_string() && paused["pause"]["why"] == "a new disk", "{paused:#}");
    until(at, "/status.json", "a new disk").await;
    assert_eq!(output(headroom(&["status"])).await.status.code(), Some(1));
    let resumed = output(headroom(&["resume", "--json"])).await;
    assert_eq!(resumed.status.code(), Some(0), "{}", text(&resumed));
    let resumed: serde_json::Value = serde_json::from_slice(&resumed.stdout).unwrap();
    assert!(resumed["pause"].is_null(), "{resumed:#}");
    until(at, "/metrics", "headroom_guard_paused 0").await;

    // Without semi-sync what was acknowledged may be lost: it says so and promotes nobody.
    lab.fault("a1", Fault::Kill).await.unwrap();
    let refused = until(at, "/status.json", "a person has to decide").await;
    assert!(refused.contains("did not wait for acknowledgements when it last answered"), "{refused}");
    assert!(refused.contains("\"failovers\": 0"), "{refused}");
    until(at, "/metrics", "headroom_guard_person_needed 1").await;
    let log = std::fs::read_to_string(base.path().join("guard.log")).unwrap();
    assert!(log.contains("is confirmed dead") && log.contains("not done"), "{log}");
    drop(guard);

    // One that is started only now has never seen a1 alive: it acts on nothing, and asks too.
    let mut late = headroom(&["--confirm", "600ms", "--listen", &listen]);
    let late = Running(late.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    let asks = until(at, "/status.json", "has not seen the primary alive").await;
    assert!(asks.contains("\"is\": \"ask\""), "{asks}");
    until(at, "/metrics", "headroom_guard_person_needed 1").await;
    drop(late);

    // Told to stop while it confirms for a minute: it ends at once, and nothing was done.
    lab.heal("a1").await.unwrap();
    let mut confirming = headroom(&["--confirm", "1m", "--listen", &listen]);
    let mut confirming = Running(confirming.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    until(at, "/metrics", "headroom_guard_active 1").await;
    until(at, "/metrics", "headroom_guard_decision{decision=\"watch\"} 1").await;
    lab.fault("a1", Fault::Kill).await.unwrap();
    until(at, "/metrics", "headroom_guard_decision{decision=\"act\"} 1").await;
    let pid = rustix::process::Pid::from_child(&confirming.0);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let told = Instant::now();
    let ended = loop {
        match confirming.0.try_wait().unwrap() {
            Some(status) => break status,
            None => tokio::time::sleep(Duration::from_millis(50)).await,
        }
        assert!(told.elapsed() < Duration::from_secs(30), "it goes on confirming");
    };
    assert_eq!(ended.code(), Some(0));
    lab.down().await.unwrap();
}

async fn output(mut command: Command) -> Output {
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}
