//! `headroom route` when something of its own fails: it says so where people and machines look, it goes on or
//! it ends, and what it tells never delays it.

use crate::support::one_server::{Alone, LIMIT};
use mysql_async::prelude::Queryable;
use rustix::process::Signal;
use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

async fn healthz(alone: &Alone, what: &str, so: impl Fn(&str) -> bool) -> String {
    let deadline = Instant::now() + LIMIT;
    loop {
        let said = alone.get("/healthz");
        if so(&said) {
            return said;
        }
        assert!(Instant::now() < deadline, "never: {what}; {said}\n{}", alone.words());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_thread_that_stands_still_is_told_of_and_one_that_is_gone_ends_the_process_with_a_reason() {
    let mut alone = Alone::up("").await;
    let mut child = alone.start_with_faults();
    let status = alone.ready().await;
    assert_eq!(alone.get("/healthz"), "ok\n");
    let mut faults = child.stdin.take().unwrap();

    let part = if status["data_path"] == "io_uring" { "ring 0" } else { "thread 0" };
    writeln!(faults, "{part} stalls 8000").unwrap();
    let said = healthz(&alone, "seen", |said| said != "ok\n").await;
    assert!(said.starts_with(part) && said.contains("has not answered"), "{said}");
    assert!(alone.get("/metrics").contains("headroom_data_plane_well 0"));
    assert!(alone.status()["troubles"][0].as_str().unwrap().starts_with(part));
    healthz(&alone, "over", |said| said == "ok\n").await;

    writeln!(faults, "listener 0 panics").unwrap();
    alone.wait_for("started anew", |status| status["restarts"] == 1).await;
    let one: Option<u8> = alone.connect().await.unwrap().query_first("SELECT 1").await.unwrap();
    assert_eq!(one, Some(1));

    writeln!(faults, "thread 0 ends").unwrap();
    assert_eq!(alone.ended(&mut child).await.code(), Some(2));
    let words = alone.words();
    assert!(words.contains("this process ends, so that it is started anew: thread 0 has ended"), "{words}");
    assert!(words.contains("panic: a fault was asked for"), "a panic is a line of the log: {words}");
}

#[tokio::test]
async fn a_log_that_nobody_reads_holds_no_session_up() {
    let mut alone = Alone::up("").await;
    let mut child = alone.start_unread();
    alone.ready().await;
    // Far more lines than a pipe and the queue before it hold.
    for _ in 0..40 {
        let mut sessions = Vec::new();
        for _ in 0..10 {
            sessions.push(tokio::time::timeout(LIMIT, alone.connect()).await.unwrap().unwrap());
        }
        for mut session in sessions {
            let one = tokio::time::timeout(LIMIT, session.query_first("SELECT 1")).await.unwrap();
            assert_eq!(one.unwrap(), Some(1u8));
            session.disconnect().await.unwrap();
        }
    }
    alone.signal(u64::from(child.id()), Signal::TERM);
    assert_eq!(alone.ended(&mut child).await.code(), Some(0));
}

/// Killed when dropped.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_router_without_sessions_ends_at_once_although_a_name_is_being_looked_up() {
    let dir = tempfile::tempdir().unwrap();
    let (source, shim) = (dir.path().join("names.c"), dir.path().join("names.so"));
    let text = "#include <unistd.h>\nint getaddrinfo(const char *a, const char *b, const void *c, void *d)\n\
                { write(2, \"looked up\\n\", 10); sleep(600); return -3; }\n";
    std::fs::write(&source, text).unwrap();
    let built = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&shim).arg(&source).status().unwrap();
    assert!(built.success());
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (file, log) = (dir.path().join("names.toml"), dir.path().join("log"));
    let config = format!(
        "[fleet]\nseeds = [\"db.example:3306\"]\n[credentials]\nuser = \"nobody\"\n\
         [router]\nzero_hop = \"off\"\n[[listener]]\naddress = \"{free}\"\nrole = \"writer\"\n"
    );
    std::fs::write(&file, config).unwrap();
    let child = Command::new(env!("CARGO_BIN_EXE_headroom"))
        .args(["route", "--admin", "off", "--config"])
        .arg(&file)
        .env_clear()
        .env("LD_PRELOAD", &shim)
        .env("HEADROOM_PASSWORD", "none")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(&log).unwrap())
        .spawn()
        .unwrap();
    let mut child = Killed(child);
    let words = || std::fs::read_to_string(&log).unwrap();
    let wait = |what: &str, child: &mut Killed, so: &dyn Fn(&mut Killed) -> bool| {
        let deadline = Instant::now() + LIMIT;
        while !so(child) {
            assert!(Instant::now() < deadline, "never {what}: {}", words());
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    wait("looked up", &mut child, &|_| words().contains("looked up"));
    let pid = rustix::process::Pid::from_raw(child.0.id().cast_signed()).unwrap();
    rustix::process::kill_process(pid, Signal::TERM).unwrap();
    // A tenth of what the look-up takes.
    wait("ended", &mut child, &|child| child.0.try_wait().unwrap().is_some());
    assert!(words().contains("stopped cut=0"), "{}", words());
}
