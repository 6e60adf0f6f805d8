//! Ten thousand idle sessions through one router (as far as this machine has descriptors): all held, all
//! still answer.
//!
//! Client, router and server are one process here, so a session takes four descriptors.

#![allow(clippy::print_stdout, reason = "its figure is shown")]

#[path = "../sessions/fake.rs"]
#[allow(dead_code, reason = "the sessions use more of it")]
mod fake;

use config::Listener;
use fake::{Client, Fake, Front, Script, within};
use fleet::Address;
use fleet::ListenerRole::Reader;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The default: io_uring where it is available.
const DATA_PATH: config::DataPath = config::DataPath::Auto;
const WANTED: usize = 10_000;
/// Descriptors that are for nothing of the kind.
const SPARE: u64 = 500;

/// As many sessions as the limit of descriptors allows, at most those wanted; says so when it allows fewer.
fn sessions() -> usize {
    let before = getrlimit(Resource::Nofile);
    let all = WANTED as u64 * 4 + SPARE;
    let raised = Rlimit { current: Some(all), maximum: before.maximum.map(|maximum| maximum.max(all)) };
    let highest = Rlimit { current: before.maximum, maximum: before.maximum };
    setrlimit(Resource::Nofile, raised).or_else(|_| setrlimit(Resource::Nofile, highest)).unwrap();
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(all);
    let sessions = WANTED.min(usize::try_from((limit - SPARE) / 4).unwrap());
    if sessions < WANTED {
        println!(
            "ONLY {sessions} SESSIONS instead of {WANTED}: this machine allows a process {limit} descriptors"
        );
    }
    assert!(sessions >= 1_000, "{limit} descriptors are too few for this test (ulimit -Hn)");
    sessions
}

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[tokio::test]
async fn idle_sessions_by_the_thousand_are_held_and_still_answer() {
    let sessions = sessions();
    let server = Fake::start("r", Script::Serves).await;
    let listener = Listener { max_sessions: sessions, ..Listener::new(Address::tcp("127.0.0.1", 0), Reader) };
    let front = Front::with_listeners(fake::defaults(), vec![listener], vec![server.replica()]);
    let port = front.port(0);
    let before = resident_kib();
    let mut clients = Vec::with_capacity(sessions);
    while clients.len() < sessions {
        // A storm of a hundred at a time.
        let storm: Vec<_> = (0..100.min(sessions - clients.len()))
            .map(|_| tokio::spawn(async move { Client::login(port).await }))
            .collect();
        for client in storm {
            clients.push(within(20, client).await.unwrap());
        }
    }
    let a_session = (resident_kib() - before) as f64 / sessions as f64;
    println!("client, router and scripted server together: {a_session:.1} KiB a session");
    // The last one has its answer before it is counted as logged in.
    front.until("all logged in", |s| (s.sessions, s.listeners[0].connecting) == (sessions, 0)).await;
    assert_eq!(Client::connect(port).await.err().unwrap().code, 1040, "one more is one too many");
    for client in clients.iter_mut().step_by(7) {
        assert_eq!(within(5, client.query("SELECT 1")).await.unwrap()[0], 0);
    }
    drop(clients);
    front.until("all gone", |s| s.sessions == 0).await;
}
