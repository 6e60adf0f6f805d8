//! Sessions that are closed in the very moment in which their clients send: each statement is executed and
//! answered, or never reaches the server.

use super::pinned::{ALIVE, Pinned, answers, root, three, wait_for, word};
use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use zerohop::{CloseOutcome, close_session, socket};

/// Clients; each sends about one statement a millisecond.
const CLIENTS: usize = 4;
/// What is expected to happen in this time.
const CLOSED: u64 = 200;
const LIMIT: Duration = Duration::from_secs(30);
/// On a machine that has no time for us, a tenth of it in that time is still a test.
const AT_LEAST: u64 = CLOSED / 10;
const LONGEST: Duration = Duration::from_secs(150);
/// Longer than any statement takes: a client that waits for ever would hang the test, not fail it.
const ANSWERED_WITHIN: Duration = Duration::from_secs(30);

/// What became of statements.
#[derive(Default)]
struct ServerLog {
    executed: Mutex<HashSet<u64>>,
    answered: AtomicU64,
    /// Of statements whose client met an error.
    unanswered: Mutex<HashSet<u64>>,
    over: AtomicBool,
}

#[test]
fn what_a_client_sends_to_a_session_that_is_held_back_reaches_the_server_only_if_it_stays() {
    if !root() {
        return;
    }
    for ip in ["127.0.0.1", "[::1]"] {
        let [(_ordinary, dialled), (server, at), _] = three(ip);
        let mut pinned = Pinned::new(if ip == "[::1]" { "held6" } else { "held4" });
        pinned.send(dialled, &[Some(at)]);
        pinned.bypass.set_holding(true).unwrap();
        let mut client = TcpStream::connect(dialled).unwrap();
        let mut accepted = answers(&server, "hello");
        assert_eq!(word(&client), "hello");
        let session = pinned.bypass.sessions().unwrap()[0];
        let look =
            || socket::established().unwrap().into_iter().find(|s| s.cookie == session.cookie).unwrap();
        let before = look();
        pinned.bypass.hold(&session).unwrap();
        client.write_all(b"first").unwrap();
        assert!(look().busy, "it is busy although nothing left");
        // What has left would be there: it is one machine.
        accepted.set_nonblocking(true).unwrap();
        assert_eq!(accepted.read(&mut [0; 1]).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
        assert_eq!(
            close_session(&pinned.bypass, &session, &before).unwrap(),
            CloseOutcome::InUse,
            "so it stays"
        );
        accepted.set_nonblocking(false).unwrap();
        assert_eq!(word(&accepted), "first", "sent again once it is released");

        wait_for("its acknowledgement", || !look().busy);
        pinned.bypass.hold(&session).unwrap();
        client.write_all(b"never").unwrap();
        look().end().unwrap();
        assert!(pinned.bypass.release(&session) > 0);
        assert!(client.read(&mut [0; 1]).is_err(), "the client sees it");
        let mut rest = Vec::new();
        assert!(accepted.read_to_end(&mut rest).is_err() && rest.is_empty(), "the server never saw it");
    }
}

#[test]
fn no_statement_is_executed_and_left_without_an_answer_however_often_sessions_are_closed() {
    if !root() {
        return;
    }
    let [(_ordinary, dialled), (server, at), _] = three("127.0.0.1");
    let mut pinned = Pinned::new("closing");
    pinned.send(dialled, &[Some(at)]);
    pinned.bypass.set_holding(true).unwrap();
    let server_log = Arc::new(ServerLog::default());
    serve(server, server_log.clone());
    let clients: Vec<_> = (0..CLIENTS as u64)
        .map(|n| {
            let server_log = server_log.clone();
            std::thread::spawn(move || ask(dialled, n << 32, &server_log))
        })
        .collect();
    let (mut closed, mut refused, mut in_use) = (0u64, 0u64, 0u64);
    let began = Instant::now();
    while closed < CLOSED && began.elapsed() < if closed < AT_LEAST { LONGEST } else { LIMIT } {
        // Whoever falls silent longer than that has its clients sent to the ordinary listener.
        pinned.bypass.beat(ALIVE, ALIVE).unwrap();
        let sessions = pinned.bypass.sessions().unwrap();
        for found in socket::established().unwrap() {
            let Some(session) = sessions.iter().find(|s| s.cookie == found.cookie && s.open) else {
                continue;
            };
            // What is known of these sessions: a statement is eight bytes, and so is its answer.
            if found.busy || found.data_sent() != found.received || found.received == 0 {
                continue;
            }
            match close_session(&pinned.bypass, session, &found).unwrap() {
                CloseOutcome::Closed => closed += 1,
                CloseOutcome::ClosedBeforeStatement => (closed, refused) = (closed + 1, refused + 1),
                CloseOutcome::InUse => in_use += 1,
            }
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    server_log.over.store(true, Relaxed);
    clients.into_iter().for_each(|client| client.join().unwrap());
    let (executed, unanswered) = (server_log.executed.lock().unwrap(), server_log.unanswered.lock().unwrap());
    let lost = unanswered.intersection(&executed).count();
    let words = format!(
        "{closed} sessions closed ({refused} with a statement that had not left the host), {in_use} found in use; {} \
         statements answered, {} refused before the server saw them, {lost} executed and unanswered",
        server_log.answered.load(Relaxed),
        unanswered.len() - lost,
    );
    std::io::stderr().write_all(format!("{words}\n").as_bytes()).unwrap();
    assert_eq!(lost, 0, "{words}");
    assert!(closed >= AT_LEAST && server_log.answered.load(Relaxed) > 0, "{words}");
}

/// Executes and answers.
fn serve(listener: TcpListener, server_log: Arc<ServerLog>) {
    std::thread::spawn(move || {
        for mut session in listener.incoming().flatten() {
            let server_log = server_log.clone();
            std::thread::spawn(move || {
                let mut statement = [0; 8];
                while session.read_exact(&mut statement).is_ok() {
                    server_log.executed.lock().unwrap().insert(u64::from_ne_bytes(statement));
                    if session.write_all(&statement).is_err() {
                        break;
                    }
                }
            });
        }
    });
}

/// Sends a statement each millisecond or so, and a new connection where one has ended.
fn ask(to: SocketAddr, mut number: u64, server_log: &ServerLog) {
    while !server_log.over.load(Relaxed) {
        let mut session = TcpStream::connect(to).unwrap();
        session.set_nodelay(true).unwrap();
        session.set_read_timeout(Some(ANSWERED_WITHIN)).unwrap();
        loop {
            number += 1;
            let mut answer = [0; 8];
            let done =
                session.write_all(&number.to_ne_bytes()).and_then(|()| session.read_exact(&mut answer));
            if done.is_err() {
                server_log.unanswered.lock().unwrap().insert(number);
                break;
            }
            server_log.answered.fetch_add(1, Relaxed);
            if server_log.over.load(Relaxed) {
                return;
            }
            // Of many lengths, so that statements and looks meet at every distance.
            std::thread::sleep(Duration::from_micros(200 + number * 137 % 1800));
        }
    }
}
