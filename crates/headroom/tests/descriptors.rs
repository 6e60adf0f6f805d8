//! A router that has run out of file descriptors says so to those it cannot take, and goes on.

#![allow(clippy::unwrap_used, reason = "a test that cannot do its next step has failed")]

#[path = "support/alone.rs"]
mod alone;

use alone::Alone;
use mysql_async::prelude::Queryable;
use std::io::Read;
use std::net::TcpStream;

/// A client's first packet from the other side: a greeting, or an error with its number.
fn first_packet(stream: &mut TcpStream) -> Result<(), (u16, String)> {
    stream.set_read_timeout(Some(alone::LIMIT)).unwrap();
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
    assert!(
        words.matches("cannot accept clients").count() <= 3,
        "said now and then, not each time:\n{words}"
    );
    assert!(words.contains("limit of file descriptors"), "and at the start:\n{words}");
    // The admin address has a descriptor of its own.
    let status = alone.status();
    assert!(status["listeners"][0]["refused"]["no_descriptor"].as_u64().unwrap() > 50, "{status}");
    drop(held);
    let deadline = std::time::Instant::now() + alone::LIMIT;
    while alone.connect().await.is_err() {
        assert!(std::time::Instant::now() < deadline, "never again\n{}", alone.words());
        tokio::time::sleep(alone::POLL).await;
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
    // Whoever looks at the status takes descriptors too, and these are more than there are.
    let lookers: Vec<TcpStream> = (0..60).map(|_| TcpStream::connect(alone.admin).unwrap()).collect();
    let deadline = std::time::Instant::now() + alone::LIMIT;
    let (code, text) = loop {
        let mut client = TcpStream::connect(alone.writer).unwrap();
        if let Err(error) = first_packet(&mut client) {
            break error;
        }
        assert!(std::time::Instant::now() < deadline, "never refused\n{}", alone.words());
        // The admin address, once it has met the limit, looks again after a second; until it does the last two descriptors may be
        // free, and a client that comes more often than that keeps them from it.
        drop(client);
        tokio::time::sleep(std::time::Duration::from_millis(1500)).await;
    };
    assert!(
        code == 1040 && (text.contains("descriptor") || text.contains("open files")),
        "{code} {text}\n{}",
        alone.words()
    );
    let one: Option<u8> = conn.query_first("SELECT 1").await.unwrap();
    assert_eq!(one, Some(1), "who is in stays in");
    drop(lookers);
    while alone.connect().await.is_err() {
        assert!(std::time::Instant::now() < deadline, "never again\n{}", alone.words());
        tokio::time::sleep(alone::POLL).await;
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
