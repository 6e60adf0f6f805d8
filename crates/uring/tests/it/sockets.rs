//! The ring against real sockets of this machine. Needs a kernel that allows io_uring, and fails loudly
//! without.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};
use uring::{Event, Incoming, Ring, Size, Token};

const SMALL: Size = Size { requests: 8, completions: 16, chunks: 4, chunk_bytes: 1024 };

/// A ring with one socket, and its other end.
fn one(size: Size) -> (Ring, Token, UnixStream) {
    let mut ring = Ring::new(size).expect("this test needs io_uring");
    let (near, far) = UnixStream::pair().unwrap();
    let token = ring.add(near.into(), 7).unwrap();
    (ring, token, far)
}

/// Turns until something has happened.
fn event(ring: &mut Ring) -> Event {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        if let Some(event) = ring.event() {
            return event;
        }
        assert!(Instant::now() < deadline, "nothing happens");
        ring.enter(Some(Duration::from_millis(100))).unwrap();
    }
}

#[test]
fn bytes_that_come_are_handed_out_and_go_back_out_in_one_call() {
    let (mut ring, token, mut far) = one(SMALL);
    for round in 0..100u8 {
        ring.receive(token, false);
        far.write_all(&[round; 100]).unwrap();
        let Event::Received { owner: 7, incoming: Incoming::Bytes { chunk, more: _ } } = event(&mut ring)
        else {
            panic!("not the bytes")
        };
        assert_eq!(*chunk, [round; 100]);
        ring.send(token, chunk);
        assert!(ring.is_sending(token), "not known before the call");
        ring.receive(token, false);
        ring.enter(Some(Duration::from_millis(1))).unwrap();
        assert!(!ring.is_sending(token) && ring.event().is_none(), "taken at once, and no event");
        let mut back = [0; 100];
        far.read_exact(&mut back).unwrap();
        assert_eq!(back, [round; 100]);
    }
}

#[test]
fn a_peer_that_does_not_read_holds_no_chunk_and_gets_everything_in_the_end() {
    let (mut ring, token, mut far) =
        one(Size { requests: 8, completions: 16, chunks: 2, chunk_bytes: 1 << 16 });
    let (source, mut feed) = UnixStream::pair().unwrap();
    let source = ring.add(source.into(), 8).unwrap();
    let feeding = std::thread::spawn(move || {
        for piece in 0..64u8 {
            feed.write_all(&vec![piece; 1 << 16]).unwrap();
        }
    });
    // Until the socket's own buffer is full: then the rest is kept aside.
    let mut sent = 0;
    ring.receive(source, false);
    loop {
        match event(&mut ring) {
            Event::Received { owner: 8, incoming: Incoming::Bytes { chunk, .. } } => {
                sent += chunk.len();
                ring.send(token, chunk);
                ring.enter(Some(Duration::ZERO)).unwrap();
                if ring.is_sending(token) {
                    break;
                }
                ring.receive(source, true);
            }
            other => panic!("{other:?}"),
        }
    }
    // Both chunks are free: another socket can receive as many bytes as both hold.
    let (third, mut others) = UnixStream::pair().unwrap();
    let third = ring.add(third.into(), 9).unwrap();
    others.write_all(&[1; 1 << 17]).unwrap();
    let mut chunks = Vec::new();
    for _ in 0..2 {
        ring.receive(third, true);
        match event(&mut ring) {
            Event::Received { owner: 9, incoming: Incoming::Bytes { chunk, .. } } => chunks.push(chunk),
            other => panic!("{other:?}"),
        }
    }
    drop(chunks);
    let mut got = vec![0; sent];
    let reading = std::thread::spawn(move || {
        far.read_exact(&mut got).unwrap();
        got
    });
    assert!(matches!(event(&mut ring), Event::Sent { owner: 7 }));
    let got = reading.join().unwrap();
    assert!(got.iter().enumerate().all(|(at, byte)| usize::from(*byte) == at >> 16));
    drop(ring);
    feeding.join().unwrap_err();
}

#[test]
fn more_sockets_than_chunks_are_served_one_after_the_other() {
    let mut ring = Ring::new(SMALL).unwrap();
    let mut ends = Vec::new();
    for owner in 0..40 {
        let (near, far) = UnixStream::pair().unwrap();
        let token = ring.add(near.into(), owner).unwrap();
        ring.receive(token, false);
        ends.push((token, far));
    }
    ring.enter(Some(Duration::ZERO)).unwrap();
    for (at, (_, far)) in ends.iter_mut().enumerate() {
        far.write_all(&[at as u8; 10]).unwrap();
    }
    let mut seen = [false; 40];
    for _ in 0..40 {
        let Event::Received { owner, incoming: Incoming::Bytes { chunk, .. } } = event(&mut ring) else {
            panic!("not bytes")
        };
        assert_eq!(*chunk, [owner as u8; 10]);
        assert!(!std::mem::replace(&mut seen[owner as usize], true));
    }
}

/// What was closed is released, and nothing more is heard of it.
fn lets_go(ring: &mut Ring) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while ring.sockets() > 0 {
        ring.enter(Some(Duration::from_millis(10))).unwrap();
        assert!(ring.event().is_none());
        assert!(Instant::now() < deadline, "never released");
    }
}

#[test]
fn an_end_is_told_and_a_closed_socket_tells_nothing_more() {
    let (mut ring, token, far) = one(SMALL);
    ring.receive(token, false);
    ring.enter(Some(Duration::ZERO)).unwrap();
    assert!(ring.is_silent(token));
    drop(far);
    assert!(matches!(event(&mut ring), Event::Received { owner: 7, incoming: Incoming::End }));
    assert!(!ring.is_silent(token));
    ring.receive(token, false);
    ring.close(token);
    lets_go(&mut ring);
}

#[test]
fn what_is_sent_last_arrives_before_the_end() {
    let (mut ring, token, mut far) = one(SMALL);
    ring.receive(token, false);
    far.write_all(b"last words").unwrap();
    let Event::Received { incoming: Incoming::Bytes { chunk, .. }, .. } = event(&mut ring) else {
        panic!("not bytes")
    };
    ring.send(token, chunk);
    ring.notify_when_sent(token);
    assert!(matches!(event(&mut ring), Event::Sent { owner: 7 }));
    ring.close_half(token);
    let mut got = Vec::new();
    far.read_to_end(&mut got).unwrap();
    assert_eq!(got, b"last words");
}

#[test]
fn the_bell_wakes_a_ring_that_sleeps_and_rings_again() {
    let mut ring = Ring::new(SMALL).unwrap();
    let waker = ring.waker();
    for _ in 0..3 {
        let waker = waker.clone();
        let ringing = std::thread::spawn(move || waker.wake());
        assert!(matches!(event(&mut ring), Event::Woken));
        ringing.join().unwrap();
    }
}

#[test]
fn a_send_to_nobody_is_broken() {
    let (mut ring, token, far) = one(SMALL);
    drop(far);
    ring.send_patiently(token, vec![1; 10]);
    assert!(matches!(event(&mut ring), Event::Broken { owner: 7 }));
}

#[test]
fn a_ring_dropped_with_everything_under_way_ends() {
    let (mut ring, token, _far) = one(SMALL);
    ring.receive(token, false);
    ring.send_patiently(token, vec![1; 8 << 20]);
    ring.enter(Some(Duration::ZERO)).unwrap();
    assert!(ring.is_sending(token));
}

#[test]
fn one_request_receives_all_that_comes_and_copies_are_sent_from_memory_that_is_used_again() {
    let (mut ring, token, mut far) = one(SMALL);
    ring.receive_all(token);
    for round in 0..100u8 {
        far.write_all(&[round; 100]).unwrap();
        let Event::Received { owner: 7, incoming: Incoming::Bytes { chunk, .. } } = event(&mut ring) else {
            panic!("not the bytes")
        };
        assert_eq!(*chunk, [round; 100]);
        let answer = vec![round; 1 + usize::from(round)];
        ring.send_bytes(token, &answer);
        assert_eq!(ring.waiting_requests(), 1, "only the send: the receive goes on");
        ring.enter(Some(Duration::ZERO)).unwrap();
        assert!(!ring.is_sending(token) && ring.event().is_none());
        let mut back = vec![0; answer.len()];
        far.read_exact(&mut back).unwrap();
        assert_eq!(back, answer);
    }
    drop(far);
    assert!(matches!(event(&mut ring), Event::Received { owner: 7, incoming: Incoming::End }));
    assert_eq!(ring.slow_sends(), 0);
}

#[test]
fn receiving_goes_on_when_all_chunks_were_out_and_after_more_than_all_hold() {
    let (mut ring, token, mut far) = one(SMALL);
    ring.receive_all(token);
    let feeding = std::thread::spawn(move || {
        let bytes: Vec<u8> = (0..1_000_000u32).map(|at| (at % 251) as u8).collect();
        far.write_all(&bytes).unwrap();
        bytes
    });
    let (mut got, mut held) = (Vec::new(), Vec::new());
    while got.len() < 1_000_000 {
        let Event::Received { owner: 7, incoming: Incoming::Bytes { chunk, .. } } = event(&mut ring) else {
            panic!("not bytes after {}", got.len())
        };
        got.extend_from_slice(&chunk);
        held.push(chunk);
        if held.len() == usize::from(SMALL.chunks) {
            // The kernel finds none, and says so, before they come back.
            ring.enter(Some(Duration::from_millis(1))).unwrap();
            held.clear();
        }
    }
    assert!(got == feeding.join().unwrap(), "other bytes than those that were sent");
}

#[test]
fn a_send_that_is_not_taken_at_once_is_counted_and_its_end_is_told() {
    let (mut ring, token, mut far) = one(SMALL);
    ring.send_bytes(token, &vec![3; 8 << 20]);
    ring.enter(Some(Duration::ZERO)).unwrap();
    assert!(ring.is_sending(token));
    assert_eq!(ring.slow_sends(), 1);
    let reading = std::thread::spawn(move || {
        let mut all = vec![0; 8 << 20];
        far.read_exact(&mut all).unwrap();
        (all, far)
    });
    assert!(matches!(event(&mut ring), Event::Sent { owner: 7 }));
    let (all, _far) = reading.join().unwrap();
    assert!(all.iter().all(|byte| *byte == 3));
}

#[test]
fn a_closed_socket_that_received_all_lets_go() {
    let (mut ring, token, mut far) = one(SMALL);
    ring.receive_all(token);
    ring.enter(Some(Duration::ZERO)).unwrap();
    far.write_all(b"unread").unwrap();
    ring.close(token);
    lets_go(&mut ring);
}

#[test]
fn a_connection_that_is_refused_is_told_with_its_reason() {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with};
    let mut ring = Ring::new(SMALL).unwrap();
    // A port that was free a moment ago.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::NONBLOCK, None).unwrap();
    assert_eq!(connect(&socket, &free), Err(rustix::io::Errno::INPROGRESS));
    let token = ring.add(socket, 9).unwrap();
    ring.receive_all(token);
    let Event::Received { owner: 9, incoming: Incoming::Broken(why) } = event(&mut ring) else {
        panic!("not refused")
    };
    assert_eq!(why, rustix::io::Errno::CONNREFUSED);
}

/// More happens in one call than there is room for, and behind it stands what came of a send that was not
/// taken.
#[test]
fn a_send_that_fails_behind_more_completions_than_there_is_room_for_is_not_taken_for_done() {
    let tiny = Size { requests: 4, completions: 4, chunks: 64, chunk_bytes: 1024 };
    let mut ring = Ring::new(tiny).expect("this test needs io_uring");
    let (mut near, mut far) = UnixStream::pair().unwrap();
    near.set_nonblocking(true).unwrap();
    let mut before = 0;
    while let Ok(written) = near.write(&[0; 1 << 12]) {
        before += written;
    }
    let blocked = ring.add(near.into(), 1000).unwrap();
    let mut others = Vec::new();
    for owner in 0..64 {
        let (near, far) = UnixStream::pair().unwrap();
        let token = ring.add(near.into(), owner).unwrap();
        ring.receive(token, false);
        others.push((token, far));
    }
    ring.enter(Some(Duration::ZERO)).unwrap();
    let others: Vec<_> = others.into_iter().map(|(token, _)| token).collect();
    // All peers have closed by now.
    ring.enter(Some(Duration::ZERO)).unwrap();
    ring.send_bytes(blocked, b"the middle of a stream");
    ring.enter(Some(Duration::ZERO)).unwrap();
    assert!(ring.is_sending(blocked), "nobody has read: it cannot have been taken");
    let mut ended = 0;
    while let Some(event) = ring.event() {
        assert!(matches!(event, Event::Received { incoming: Incoming::End, .. }), "{event:?}");
        ended += 1;
    }
    assert_eq!(ended, 64, "every end is seen by the call in which it happened or the next");
    // Numbers are given out anew; what was sent before is none of theirs.
    others.into_iter().for_each(|token| ring.close(token));
    let reading = std::thread::spawn(move || {
        let mut all = vec![1; before + 22];
        far.read_exact(&mut all).unwrap();
        (all, far)
    });
    assert!(matches!(event(&mut ring), Event::Sent { owner: 1000 }));
    let (all, mut far) = reading.join().unwrap();
    assert_eq!(&all[before..], b"the middle of a stream");
    ring.close(blocked);
    lets_go(&mut ring);
    let mut more = Vec::new();
    far.read_to_end(&mut more).unwrap();
    assert!(more.is_empty(), "nothing twice: {more:?}");
}

/// A receive that the kernel carried out while more was being asked for has taken bytes off the socket that
/// nobody has seen.
#[test]
fn no_peer_counts_as_silent_while_something_may_have_been_received_that_was_not_handed_out() {
    let tiny = Size { requests: 2, completions: 4, chunks: 64, chunk_bytes: 1024 };
    let mut ring = Ring::new(tiny).expect("this test needs io_uring");
    let mut pairs: Vec<_> = (0..8)
        .map(|owner| {
            let (near, far) = UnixStream::pair().unwrap();
            (ring.add(near.into(), owner).unwrap(), far)
        })
        .collect();
    pairs.iter_mut().for_each(|(_, far)| far.write_all(b"a statement").unwrap());
    // More than there is room for: the first are handed over, and carried out, before the call.
    pairs.iter().for_each(|(token, _)| ring.receive(*token, true));
    assert!(pairs.iter().all(|(token, _)| !ring.is_silent(*token)));
    let mut seen = 0;
    while seen < pairs.len() {
        assert!(matches!(event(&mut ring), Event::Received { incoming: Incoming::Bytes { .. }, .. }));
        seen += 1;
    }
    assert!(pairs.iter().all(|(token, _)| ring.is_silent(*token)));
}
