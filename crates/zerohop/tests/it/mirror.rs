//! What passes on a session that the kernel carries, told to the byte.

use super::pinned::{LIMIT, Pinned, answers, root, three, wait_for, word};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Instant;
use zerohop::{Mirror, Page, Piece, PieceKind};

#[test]
fn what_passes_on_a_mirrored_session_is_told_to_the_byte() {
    if !root() {
        return;
    }
    for ip in ["127.0.0.1", "[::1]"] {
        let [(_ordinary, dialled), (server, at), _] = three(ip);
        let mut pinned = Pinned::new(if ip == "[::1]" { "mirror6" } else { "mirror4" });
        let (number, picks) = pinned.send(dialled, &[Some(at)]);
        // Every second one: the first is not told.
        pinned.bypass.set_page(number, &Page { picks: picks.clone(), wrap: 0, mirror: 2 }).unwrap();
        pinned.bypass.set_mirroring(true).unwrap();
        let mut mirror = Mirror::open(&pinned.bypass).unwrap();
        let untold = TcpStream::connect(dialled).unwrap();
        let _untold = answers(&server, "one..");
        assert_eq!(word(&untold), "one..");
        let mut client = TcpStream::connect(dialled).unwrap();
        let mut accepted = answers(&server, "two..");
        assert_eq!(word(&client), "two..");
        // Sizes around those of the ring's records, and far more than a packet.
        let sizes = [1usize, 255, 256, 257, 1024, 1025, 4096, 4097, 16_384, 16_385, 65_536, 300_000];
        let mut received = Reassembled::default();
        for (n, size) in sizes.into_iter().enumerate() {
            let bytes: Vec<u8> = (0..size).map(|i| (i * 7 + n) as u8).collect();
            let mut read = vec![0; size];
            std::thread::scope(|scope| {
                scope.spawn(|| client.write_all(&bytes).unwrap());
                accepted.read_exact(&mut read).unwrap();
            });
            std::thread::scope(|scope| {
                scope.spawn(|| accepted.write_all(&read).unwrap());
                let mut back = vec![0; size];
                (&client).read_exact(&mut back).unwrap();
                assert_eq!(back, bytes);
            });
            received.expect(&bytes);
            mirror.read(|piece| received.piece(piece, picks[0].unwrap()));
        }
        drop(client);
        drop(accepted);
        wait_for("its end is told", || {
            mirror.read(|piece| received.piece(piece, picks[0].unwrap()));
            received.ended
        });
        same("what the client sent", &received.up, &received.expected);
        same("what it was sent", &received.down, &[b"two..".as_slice(), &received.expected].concat());
        assert_eq!(mirror.missed().unwrap(), 0);
        assert_eq!(mirror.live().unwrap().len(), 1, "the one that is not told");
    }
}

#[test]
fn a_session_that_was_stopped_or_came_when_nothing_is_mirrored_tells_nothing_and_what_does_not_fit_is_counted()
 {
    if !root() {
        return;
    }
    let [(_ordinary, dialled), (server, at), _] = three("127.0.0.1");
    let mut pinned = Pinned::new("unmirrored");
    let (number, picks) = pinned.send(dialled, &[Some(at)]);
    pinned.bypass.set_page(number, &Page { picks, wrap: 0, mirror: 1 }).unwrap();
    pinned.bypass.set_mirroring(true).unwrap();
    let mut mirror = Mirror::open(&pinned.bypass).unwrap();
    let client = TcpStream::connect(dialled).unwrap();
    let mut accepted = answers(&server, "first");
    assert_eq!(word(&client), "first");
    let mut cookies = Vec::new();
    mirror.read(|piece| cookies.push(piece.cookie));
    mirror.stop(cookies[0]);
    accepted.write_all(b"again").unwrap();
    assert_eq!(word(&client), "again");
    assert_eq!(mirror.read(|piece| panic!("{piece:?}")), 0);
    // Nobody reads: the ring fills, the session goes on.
    let client = TcpStream::connect(dialled).unwrap();
    let mut accepted = answers(&server, "first");
    assert_eq!(word(&client), "first");
    let much = vec![7; 8 << 20];
    std::thread::scope(|scope| {
        scope.spawn(|| accepted.write_all(&much).unwrap());
        let mut read = vec![0; much.len()];
        (&client).read_exact(&mut read).unwrap();
        assert!(read == much);
    });
    assert!(mirror.missed().unwrap() > 0);
    let begun = Instant::now();
    mirror.wait(LIMIT);
    assert!(begun.elapsed() < LIMIT, "whoever waits is woken when the ring fills");
    assert!(mirror.read(|_| ()) > 1 << 20);
    pinned.bypass.set_mirroring(false).unwrap();
    let client = TcpStream::connect(dialled).unwrap();
    let _accepted = answers(&server, "third");
    assert_eq!(word(&client), "third");
    mirror.read(|piece| assert!(!matches!(piece.kind, PieceKind::FromServer { .. }), "{piece:?}"));
}

fn same(what: &str, received: &[u8], expected: &[u8]) {
    let first = received.iter().zip(expected).position(|(a, b)| a != b);
    assert_eq!((received.len(), first), (expected.len(), None), "{what}");
}

/// What was told of one session.
#[derive(Default)]
struct Reassembled {
    first: (u32, u32),
    up: Vec<u8>,
    down: Vec<u8>,
    ended: bool,
    expected: Vec<u8>,
}

impl Reassembled {
    fn expect(&mut self, bytes: &[u8]) {
        self.expected.extend_from_slice(bytes);
    }

    fn piece(&mut self, piece: Piece<'_>, expected: u32) {
        match piece.kind {
            PieceKind::Begins { target, client, server } => {
                assert_eq!(target, expected);
                self.first = (client, server);
            }
            PieceKind::FromClient { seq, bytes } => put(&mut self.up, seq.wrapping_sub(self.first.0), bytes),
            PieceKind::FromServer { seq, bytes } => {
                put(&mut self.down, seq.wrapping_sub(self.first.1), bytes);
            }
            PieceKind::Ends => self.ended = true,
        }
    }
}

/// Puts bytes where their sequence number says; a packet may come twice.
fn put(to: &mut Vec<u8>, at: u32, bytes: &[u8]) {
    let at = at as usize;
    to.resize(to.len().max(at + bytes.len()), 0);
    to[at..at + bytes.len()].copy_from_slice(bytes);
}
