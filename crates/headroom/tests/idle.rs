//! Ten thousand idle sessions through `headroom route` to a real server: all held, all still answer, one more is refused.
//!
//! Router, server and clients are processes of their own here, as they are in service. The router needs two descriptors a
//! session: where the hard limit is below 20,100 it holds as many as it says it can, and this test says so.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that cannot do its next step has failed, and its figure is shown"
)]

#[path = "support/alone.rs"]
mod alone;

use alone::Alone;
use lab::{Account, Spec};
use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use wire::{Capabilities, Command, ErrPacket, Greeting, Login, auth, packet};

const WANTED: u64 = 10_000;
/// Logins at a time.
const STORM: usize = 16;

/// A session in raw packets: ten thousand drivers' would be the test of their memory.
struct Session(TcpStream);

impl Session {
    fn connect(to: SocketAddr) -> Self {
        let stream = TcpStream::connect(to).unwrap();
        stream.set_read_timeout(Some(alone::LIMIT)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self(stream)
    }

    fn log_in(to: SocketAddr, password: &str) -> Self {
        let mut session = Self::connect(to);
        let greeting = session.receive();
        let greeting = Greeting::parse(&greeting)
            .unwrap_or_else(|_| panic!("{:?} instead of a greeting", ErrPacket::parse(&greeting)));
        let login = Login {
            capabilities: Capabilities::ORDINARY.without(Capabilities::CONNECT_ATTRS),
            max_packet: 1 << 24,
            charset: 45,
            user: Account::App.user().as_bytes(),
            auth_response: &auth::native_password(password.as_bytes(), &greeting.nonce),
            database: lab::DATABASE.as_bytes(),
            auth_plugin: auth::NATIVE_PASSWORD.as_bytes(),
            ..Login::default()
        };
        session.send(1, &login.encode());
        let answer = session.receive();
        assert_eq!(answer[0], 0, "{:?}", ErrPacket::parse(&answer));
        session
    }

    fn answers(&mut self) {
        self.send(0, &[Command::Ping.byte()]);
        assert_eq!(self.receive()[0], 0);
    }

    fn send(&mut self, mut sequence: u8, payload: &[u8]) {
        let mut bytes = Vec::new();
        packet::write(&mut bytes, &mut sequence, payload);
        self.0.write_all(&bytes).unwrap();
    }

    fn receive(&mut self) -> Vec<u8> {
        let mut header = [0; packet::HEADER];
        self.0.read_exact(&mut header).unwrap();
        let mut payload = vec![0; packet::Header::parse(header).length as usize];
        self.0.read_exact(&mut payload).unwrap();
        payload
    }
}

/// So many sessions, opened by a few threads at once.
fn open(to: SocketAddr, password: &str, sessions: usize) -> Vec<Session> {
    let part = |at: usize| sessions / STORM + usize::from(at < sessions % STORM);
    std::thread::scope(|scope| {
        let storm: Vec<_> = (0..STORM)
            .map(|at| {
                scope.spawn(move || (0..part(at)).map(|_| Session::log_in(to, password)).collect::<Vec<_>>())
            })
            .collect();
        storm.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    })
}

#[tokio::test]
async fn ten_thousand_idle_sessions_are_held_and_still_answer() {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum }).unwrap();
    // A thread each would be the server's memory, which is not the question.
    let spec = Spec::new(&[("a", 1)])
        .option("max_connections", "10200")
        .option("thread_handling", "pool-of-threads");
    let mut alone = Alone::with(&spec, "").await;
    let mut child = alone.start(&[], None);
    let status = alone.ready().await;
    let room = status["most_sessions"].as_u64().unwrap_or(u64::MAX);
    let sessions = usize::try_from(room.min(WANTED)).unwrap();
    if room < WANTED {
        println!(
            "ONLY {sessions} SESSIONS instead of {WANTED}: a process may open {:?} files here (ulimit -Hn)",
            limit.maximum
        );
    }
    assert!(sessions >= 1_000, "{:?} files are too few for this test (ulimit -Hn)", limit.maximum);
    let (to, password) = (alone.writer, alone.lab.password(Account::App).to_owned());
    let open = move || open(to, &password, sessions);
    let mut held = tokio::task::spawn_blocking(open).await.unwrap();
    let all =
        |status: &serde_json::Value| status["listeners"][0]["sessions"].as_u64() == Some(sessions as u64);
    alone.wait_for("all of them", all).await;
    // One more is one too many, by the listener's limit or for want of descriptors, and hears it.
    let refusal = tokio::task::spawn_blocking(move || Session::connect(to).receive()).await.unwrap();
    assert_eq!(ErrPacket::parse(&refusal).unwrap().code, 1040);
    let mut held = tokio::task::spawn_blocking(move || {
        held.iter_mut().for_each(Session::answers);
        held
    })
    .await
    .unwrap();
    let status = alone.status();
    assert!(all(&status) && !status["writer"].is_null(), "{}", status["listeners"]);
    held.truncate(10);
    alone.wait_for("most are gone", |status| status["listeners"][0]["sessions"] == 10).await;
    drop(held);
    alone.signal(u64::from(child.id()), Signal::TERM);
    assert_eq!(alone.ended(&mut child).await.code(), Some(0));
}
