//! A router that has run out of file descriptors says so to those it cannot take, and goes on.

use crate::support::one_server::{Alone, LIMIT, POLL};
use mysql_async::prelude::Queryable;
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use std::io::Read;
use std::net::TcpStream;

/// A client's first packet from the other side: a greeting, or an error with its number.
fn first_packet(stream: &mut TcpStream) -> Result<(), (u16, String)> {
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    let mut header = [0; 4];
    stream.read_exact(&mut header).unwrap();
    let mut payload = vec![0; usize::from(header[0]) | usize::from(header[1]) << 8];
    stream.read_exact(&mut payload).unwrap();
    match payload[0] {
        10 => Ok(()),
        _ => {
            Err((u16::from_le_bytes([payload[1], payload[2]]), String::from_utf8_lossy(&payload[3..]).into()))
        }
    }
}

#[tokio::test]
async fn clients_beyond_the_descriptors_are_told_and_the_others_are_served() {
    let mut alone = Alone::up("").await;
    let mut child = alone.start(&[], Some(64));
    alone.ready().await;
    let mut conn = alone.connect().await.unwrap();
    let (mut held, mut refused) = (Vec::new(), Vec::new());
    let began = std::time::Instant::now();
    for _ in 0..100 {
        let mut client = TcpStream::connect(alone.writer).unwrap();
        match first_packet(&mut client) {
            Ok(()) => held.push(client),
            Err(error) => refused.push(error),
        }
    }
    let words = alone.words();
    assert!(
        !held.is_empty() && refused.len() > 50,
        "{} held, {} refused\n{words}",
        held.len(),
        refused.len()
    );
    assert!(refused.iter().all(|(code, _)| *code == 1040), "{refused:?}");
    assert!(
        refused.iter().any(|(_, text)| text.contains("descriptor") || text.contains("open files")),
        "{refused:?}"
    );
    let one: Option<u8> = conn.query_first("SELECT 1").await.unwrap();
    assert_eq!(one, Some(1), "who is in stays in");
    let words = alone.words();
    // Once in five seconds, for all that has come since.
    let often = 3 + began.elapsed().as_secs() / 5;
    assert!(
        words.matches("cannot accept clients").count() as u64 <= often,
        "said now and then, not each time:\n{words}"
    );
    assert!(words.contains("limit of file descriptors"), "and at the start:\n{words}");
    // The admin address has a descriptor of its own.
    let status = alone.status();
    assert!(status["listeners"][0]["refused"]["no_descriptor"].as_u64().unwrap() > 50, "{status}");
    drop(held);
    let deadline = std::time::Instant::now() + LIMIT;
    while alone.connect().await.is_err() {
        assert!(std::time::Instant::now() < deadline, "never again\n{}", alone.words());
        tokio::time::sleep(POLL).await;
    }
    alone.signal(u64::from(child.id()), rustix::process::Signal::TERM);
    assert_eq!(alone.ended(&mut child).await.code(), Some(0));
}

#[tokio::test]
async fn descriptors_that_others_have_taken_are_missed_in_words_and_used_when_they_are_back() {
    let mut alone = Alone::up("").await;
    let mut child = alone.start(&[], Some(64));
    alone.ready().await;
    let mut conn = alone.connect().await.unwrap();
    // Fewer and fewer, until none is free.
    let pid = Pid::from_raw(child.id().cast_signed()).unwrap();
    let limit = |most: u64| Rlimit { current: Some(most), maximum: Some(64) };
    let refused = (8..64).rev().find_map(|most| {
        prlimit(Some(pid), Resource::Nofile, limit(most)).unwrap();
        first_packet(&mut TcpStream::connect(alone.writer).unwrap()).err()
    });
    let (code, text) = refused.unwrap_or_else(|| panic!("never refused\n{}", alone.words()));
    let deadline = std::time::Instant::now() + LIMIT;
    assert!(
        code == 1040 && (text.contains("descriptor") || text.contains("open files")),
        "{code} {text}\n{}",
        alone.words()
    );
    let one: Option<u8> = conn.query_first("SELECT 1").await.unwrap();
    assert_eq!(one, Some(1), "who is in stays in");
    prlimit(Some(pid), Resource::Nofile, limit(64)).unwrap();
    while alone.connect().await.is_err() {
        assert!(std::time::Instant::now() < deadline, "never again\n{}", alone.words());
        tokio::time::sleep(POLL).await;
    }
    let status = alone.wait_for("the status", |status| !status["writer"].is_null()).await;
    assert!(
        status["listeners"][0]["refused"]["no_descriptor"].as_u64().unwrap() > 0,
        "{}",
        status["listeners"]
    );
    assert!(status["servers"][0]["routing"]["writes"]["eligible"] == true, "no server is to blame: {status}");
    drop(conn);
    alone.signal(u64::from(child.id()), rustix::process::Signal::TERM);
    assert_eq!(alone.ended(&mut child).await.code(), Some(0));
}

#[tokio::test]
async fn idle_connections_to_the_admin_address_take_no_descriptor_from_clients() {
    let mut alone = Alone::up("").await;
    let mut child = alone.start(&[], Some(128));
    let status = alone.ready().await;
    let room = usize::try_from(status["most_sessions"].as_u64().unwrap()).unwrap();
    assert!(room >= 10, "{status}");
    let lookers: Vec<TcpStream> = (0..500).map(|_| TcpStream::connect(alone.admin).unwrap()).collect();
    // As many as there is room for come in, and each gets a server's greeting: two descriptors.
    let mut held = Vec::new();
    for n in 0..room {
        let mut client = TcpStream::connect(alone.writer).unwrap();
        first_packet(&mut client)
            .unwrap_or_else(|error| panic!("{n} of {room}: {error:?}\n{}", alone.words()));
        held.push(client);
    }
    let words = alone.words();
    assert!(!words.contains("cannot accept clients"), "{words}");
    drop((held, lookers));
    alone.wait_for("the status is back", |status| !status["writer"].is_null()).await;
    alone.signal(u64::from(child.id()), rustix::process::Signal::TERM);
    assert_eq!(alone.ended(&mut child).await.code(), Some(0));
}
