//! On the real kernel: redirect, reverse lookup, doubt, takeover, removal. Needs root and a kernel with BPF, and fails
//! loudly without: whoever is not root is told that nothing was tested.

#![allow(clippy::unwrap_used, reason = "a test that cannot do its next step has failed")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};
use zerohop::{Bypass, Piece, Spec, Wanted, What, pins, socket};

const ALIVE: Duration = Duration::from_secs(60);
const LIMIT: Duration = Duration::from_secs(10);

/// Programs under a name of their own; removed at the end, on panic too.
struct Pinned {
    bypass: Bypass,
    name: String,
}

impl Pinned {
    fn new(test: &str) -> Self {
        let name = format!("test-{test}-{}", std::process::id());
        let mut bypass = Bypass::open(&spec(&name)).unwrap_or_else(|error| panic!("{error}"));
        bypass.beat(ALIVE, ALIVE).unwrap();
        Self { bypass, name }
    }

    /// Sends connections on `listener` to these, in turn; `None` is the ordinary listener.
    fn send(&mut self, listener: SocketAddr, servers: &[Option<SocketAddr>]) -> (u32, Vec<Option<u32>>) {
        let number = self.bypass.listener(listener).unwrap();
        let picks: Vec<Option<u32>> =
            servers.iter().map(|s| s.map(|s| self.bypass.target(number, s, false).unwrap())).collect();
        self.bypass.set_page(number, &Wanted { picks: picks.clone(), wrap: 0, mirror: 0 }).unwrap();
        (number, picks)
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        pins::remove(std::slice::from_ref(&self.name)).unwrap();
    }
}

fn spec(name: &str) -> Spec {
    Spec { name: name.to_owned(), title: "a test".to_owned(), cgroup: None }
}

/// Accepts one connection, says its word, and hands the connection back.
fn answers(listener: &TcpListener, word: &str) -> TcpStream {
    listener.set_nonblocking(true).unwrap();
    let mut accepted = None;
    wait_for("a connection comes", || {
        accepted = listener.accept().ok();
        accepted.is_some()
    });
    let (mut stream, _) = accepted.unwrap();
    stream.set_nonblocking(false).unwrap();
    stream.write_all(word.as_bytes()).unwrap();
    stream
}

fn word(mut stream: &TcpStream) -> String {
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    let mut word = [0; 5];
    stream.read_exact(&mut word).unwrap();
    String::from_utf8_lossy(&word).into_owned()
}

fn wait_for(what: &str, mut so: impl FnMut() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !so() {
        assert!(Instant::now() < deadline, "not within {LIMIT:?}: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The listener and two servers, on this address.
fn three(ip: &str) -> [(TcpListener, SocketAddr); 3] {
    [0; 3].map(|_| {
        let listener = TcpListener::bind(format!("{ip}:0")).unwrap();
        let address = listener.local_addr().unwrap();
        (listener, address)
    })
}

fn root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        // The harness shows this only with --nocapture; the run as root (CI, make test) is the one that counts.
        std::io::stderr().write_all(b"NOT TESTED: zero-hop needs root\n").unwrap();
    }
    root
}

#[test]
fn connections_take_the_picks_in_turn_and_the_peer_is_what_was_dialled() {
    if !root() {
        return;
    }
    for ip in ["127.0.0.1", "[::1]"] {
        let [(ordinary, dialled), (one, at_one), (two, at_two)] = three(ip);
        let mut pinned = Pinned::new(if ip == "[::1]" { "turn6" } else { "turn4" });
        let (number, _) = pinned.send(dialled, &[Some(at_one), None, Some(at_two)]);
        for _ in 0..2 {
            for (listener, expected) in [(&one, "one.."), (&ordinary, "plain"), (&two, "two..")] {
                let client = TcpStream::connect(dialled).unwrap();
                let server = answers(listener, expected);
                assert_eq!(word(&client), expected);
                assert_eq!(client.peer_addr().unwrap(), dialled, "what was dialled");
                assert_eq!(server.peer_addr().unwrap(), client.local_addr().unwrap());
                // In this order: a server that closes first is in doubt.
                drop(client);
                drop(server);
            }
        }
        let fate = pinned.bypass.fate(number).unwrap();
        assert_eq!((fate.past, fate.chosen, fate.doubt, fate.unfit), (4, 2, 0, 0));
    }
}

#[test]
fn an_ipv6_client_reaches_an_ipv4_server_and_an_ipv4_client_no_ipv6_one() {
    if !root() {
        return;
    }
    let [(ordinary, dialled), _, _] = three("127.0.0.1");
    let [(ordinary6, dialled6), (six, at_six), _] = three("[::1]");
    let (four, at_four) = three("127.0.0.1").into_iter().next().unwrap();
    let mut pinned = Pinned::new("families");
    pinned.send(dialled6, &[Some(at_four)]);
    let (number, _) = pinned.send(dialled, &[Some(at_six)]);
    let client = TcpStream::connect(dialled6).unwrap();
    answers(&four, "four.");
    assert_eq!(word(&client), "four.");
    assert_eq!(client.peer_addr().unwrap(), dialled6);
    let client = TcpStream::connect(dialled).unwrap();
    answers(&ordinary, "plain");
    assert_eq!(word(&client), "plain");
    assert_eq!(pinned.bypass.fate(number).unwrap().unfit, 1);
    drop((six, ordinary6));
}

#[test]
fn a_server_that_refuses_or_drops_a_session_is_in_doubt_at_once() {
    if !root() {
        return;
    }
    let [(ordinary, dialled), (one, at_one), (two, at_two)] = three("127.0.0.1");
    let mut pinned = Pinned::new("doubt");
    let (_, picks) = pinned.send(dialled, &[Some(at_one)]);
    drop(one);
    assert_eq!(TcpStream::connect(dialled).unwrap_err().kind(), std::io::ErrorKind::ConnectionRefused);
    assert_eq!(pinned.bypass.tally(picks[0].unwrap()).unwrap().refused, 1);
    let client = TcpStream::connect(dialled).unwrap();
    answers(&ordinary, "plain");
    assert_eq!(word(&client), "plain");

    let (_, picks) = pinned.send(dialled, &[Some(at_two)]);
    // A young session that the server closes is no sign; one of some age is.
    drop((TcpStream::connect(dialled).unwrap(), answers(&two, "young")).1);
    let (mut client, opened) = (TcpStream::connect(dialled).unwrap(), Instant::now());
    let server = answers(&two, "two..");
    wait_for("it is of some age", || opened.elapsed() > Duration::from_millis(1100));
    drop(server);
    assert_eq!(client.read_to_end(&mut Vec::new()).unwrap(), 5);
    let client = TcpStream::connect(dialled).unwrap();
    answers(&ordinary, "plain");
    assert_eq!(word(&client), "plain");
    let tally = pinned.bypass.tally(picks[0].unwrap()).unwrap();
    assert_eq!((tally.opened, tally.ended, tally.lost, tally.open()), (2, 2, 2, 0));
}

#[test]
fn a_doubt_rings_and_is_void_once_the_server_was_seen_well_after_it() {
    if !root() {
        return;
    }
    let [(ordinary, dialled), (one, at_one), _] = three("127.0.0.1");
    let mut pinned = Pinned::new("well");
    let (listener, picks) = pinned.send(dialled, &[Some(at_one)]);
    let bell = pinned.bypass.bell().unwrap();
    let rings = || bell.wait(Duration::ZERO);
    assert!(!rings());
    let (mut client, opened) = (TcpStream::connect(dialled).unwrap(), Instant::now());
    let server = answers(&one, "one..");
    wait_for("it is of some age", || opened.elapsed() > Duration::from_millis(1100));
    drop(server);
    client.read_to_end(&mut Vec::new()).unwrap();
    assert!(rings(), "the session ended");
    assert!(!rings());
    let since = pinned.bypass.tally(picks[0].unwrap()).unwrap().doubted_at().unwrap();

    pinned.bypass.seen_well(listener, at_one, since - 1).unwrap();
    let client = TcpStream::connect(dialled).unwrap();
    answers(&ordinary, "plain");
    assert_eq!(word(&client), "plain", "what was seen before the doubt says nothing against it");
    pinned.bypass.seen_well(listener, at_one, since).unwrap();
    let client = TcpStream::connect(dialled).unwrap();
    let kept = answers(&one, "again");
    assert_eq!(word(&client), "again");
    drop((kept, one));
    drop(client);
    assert!(TcpStream::connect(dialled).is_err());
    assert!(rings(), "a new failure is a new doubt");
    let client = TcpStream::connect(dialled).unwrap();
    answers(&ordinary, "plain");
    assert_eq!(word(&client), "plain");
}

#[test]
fn a_client_that_leaves_is_no_failure_and_its_bytes_are_counted() {
    if !root() {
        return;
    }
    let [(_ordinary, dialled), (one, at_one), _] = three("127.0.0.1");
    let mut pinned = Pinned::new("leaves");
    let (_, picks) = pinned.send(dialled, &[Some(at_one)]);
    for unread in [false, true] {
        let mut client = TcpStream::connect(dialled).unwrap();
        let mut server = answers(&one, "hello");
        client.write_all(b"abc").unwrap();
        server.read_exact(&mut [0; 3]).unwrap();
        if !unread {
            word(&client);
        }
        drop(client);
        drop(server);
    }
    let tally = || pinned.bypass.tally(picks[0].unwrap()).unwrap();
    wait_for("both sessions are over", || tally().ended == 2 && tally().to_server >= 6);
    assert_eq!((tally().lost, tally().doubt_until), (0, 0));
    wait_for("nothing is remembered", || pinned.bypass.sessions().unwrap().is_empty());
}

#[test]
fn when_headroom_is_gone_the_next_pick_is_taken_and_after_a_while_none() {
    if !root() {
        return;
    }
    let [(ordinary, dialled), (one, at_one), (two, at_two)] = three("127.0.0.1");
    drop(ordinary);
    let mut pinned = Pinned::new("gone");
    pinned.send(dialled, &[None, Some(at_one), None, Some(at_two)]);
    pinned.bypass.beat(Duration::ZERO, ALIVE).unwrap();
    drop(two);
    let client = TcpStream::connect(dialled).unwrap();
    let mut kept = vec![answers(&one, "one..")];
    assert_eq!(word(&client), "one..");
    assert!(TcpStream::connect(dialled).is_err(), "the second server refuses");
    for _ in 0..3 {
        let client = TcpStream::connect(dialled).expect("the one in doubt is left out");
        kept.push(answers(&one, "one.."));
        assert_eq!(word(&client), "one..");
    }
    pinned.bypass.beat(Duration::ZERO, Duration::ZERO).unwrap();
    assert!(TcpStream::connect(dialled).is_err(), "as if there had never been zero-hop");
}

#[test]
fn the_next_process_takes_over_and_the_one_before_is_told() {
    if !root() {
        return;
    }
    let [(_ordinary, dialled), (one, at_one), _] = three("127.0.0.1");
    let mut pinned = Pinned::new("next");
    pinned.send(dialled, &[Some(at_one)]);
    let client = TcpStream::connect(dialled).unwrap();
    let _kept = answers(&one, "one..");
    // The same process here, so that the owner stays; what matters is that maps and links do too.
    let mut next = Bypass::open(&spec(&pinned.name)).unwrap();
    assert!(next.inherited() && !pinned.bypass.inherited());
    next.beat(ALIVE, ALIVE).unwrap();
    assert_eq!(next.listeners(), [dialled]);
    assert_eq!(next.sessions().unwrap().len(), 1);
    assert_eq!(client.peer_addr().unwrap(), dialled);
    let again = TcpStream::connect(dialled).unwrap();
    let _kept = answers(&one, "again");
    assert_eq!(word(&again), "again");
    let listed = pins::list().into_iter().find(|p| p.name == pinned.name).unwrap();
    assert_eq!((listed.programs.len(), listed.sessions, listed.alive), (6, 2, true));
    assert_eq!(listed.listeners[0].servers, [(at_one, 2)]);
}

#[test]
fn removed_pins_end_the_redirect_and_leave_sessions_alone() {
    if !root() {
        return;
    }
    let [(ordinary, dialled), (one, at_one), _] = three("127.0.0.1");
    let mut pinned = Pinned::new("removed");
    pinned.send(dialled, &[Some(at_one)]);
    let kept = TcpStream::connect(dialled).unwrap();
    let mut server = answers(&one, "first");
    let removed = pins::remove(std::slice::from_ref(&pinned.name)).unwrap();
    assert_eq!((removed.names.len(), removed.sessions), (1, 1));
    let client = TcpStream::connect(dialled).unwrap();
    answers(&ordinary, "plain");
    assert_eq!(word(&client), "plain");
    server.write_all(b"more.").unwrap();
    assert_eq!((word(&kept), word(&kept)), ("first".to_owned(), "more.".to_owned()));
    assert!(pinned.bypass.beat(ALIVE, ALIVE).unwrap_err().to_string().contains("switched off"));
    assert!(!pinned.bypass.directory().exists());
}

#[test]
fn a_session_can_be_ended_from_outside_and_that_is_no_failure_of_its_server() {
    if !root() {
        return;
    }
    let [(_ordinary, dialled), (one, at_one), _] = three("127.0.0.1");
    let mut pinned = Pinned::new("ended");
    let (_, picks) = pinned.send(dialled, &[Some(at_one)]);
    let mut client = TcpStream::connect(dialled).unwrap();
    let mut server = answers(&one, "hello");
    word(&client);
    let session = pinned.bypass.sessions().unwrap()[0];
    let found = socket::established().unwrap().into_iter().find(|s| s.cookie == session.cookie).unwrap();
    assert_eq!((found.peer, found.received), (at_one, 5));
    assert!(pinned.bypass.will_end(&session));
    found.end().unwrap();
    assert!(client.read(&mut [0; 1]).is_err(), "the client sees it");
    assert!(server.read(&mut [0; 1]).is_err(), "the server too");
    let tally = pinned.bypass.tally(picks[0].unwrap()).unwrap();
    assert_eq!((tally.ended, tally.lost, tally.doubt_until), (1, 0, 0));
}

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
        pinned.bypass.set_page(number, &Wanted { picks: picks.clone(), wrap: 0, mirror: 2 }).unwrap();
        pinned.bypass.set_mirroring(true).unwrap();
        let mut mirror = pinned.bypass.mirror().unwrap();
        let untold = TcpStream::connect(dialled).unwrap();
        let _untold = answers(&server, "one..");
        assert_eq!(word(&untold), "one..");
        let mut client = TcpStream::connect(dialled).unwrap();
        let mut accepted = answers(&server, "two..");
        assert_eq!(word(&client), "two..");
        // Sizes around those of the ring's records, and far more than a packet.
        let sizes = [1usize, 255, 256, 257, 1024, 1025, 4096, 4097, 16_384, 16_385, 65_536, 300_000];
        let mut heard = Heard::default();
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
            heard.expect(&bytes);
            mirror.read(|piece| heard.piece(piece, picks[0].unwrap()));
        }
        drop(client);
        drop(accepted);
        wait_for("its end is told", || {
            mirror.read(|piece| heard.piece(piece, picks[0].unwrap()));
            heard.ended
        });
        same("what the client sent", &heard.up, &heard.expected);
        same("what it was sent", &heard.down, &[b"two..".as_slice(), &heard.expected].concat());
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
    pinned.bypass.set_page(number, &Wanted { picks, wrap: 0, mirror: 1 }).unwrap();
    pinned.bypass.set_mirroring(true).unwrap();
    let mut mirror = pinned.bypass.mirror().unwrap();
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
    mirror.read(|piece| assert!(!matches!(piece.what, What::FromServer { .. }), "{piece:?}"));
}

fn same(what: &str, heard: &[u8], expected: &[u8]) {
    let first = heard.iter().zip(expected).position(|(a, b)| a != b);
    assert_eq!((heard.len(), first), (expected.len(), None), "{what}");
}

/// What was told of one session.
#[derive(Default)]
struct Heard {
    first: (u32, u32),
    up: Vec<u8>,
    down: Vec<u8>,
    ended: bool,
    expected: Vec<u8>,
}

impl Heard {
    fn expect(&mut self, bytes: &[u8]) {
        self.expected.extend_from_slice(bytes);
    }

    fn piece(&mut self, piece: Piece<'_>, expected: u32) {
        match piece.what {
            What::Begins { target, client, server } => {
                assert_eq!(target, expected);
                self.first = (client, server);
            }
            What::FromClient { seq, bytes } => put(&mut self.up, seq.wrapping_sub(self.first.0), bytes),
            What::FromServer { seq, bytes } => put(&mut self.down, seq.wrapping_sub(self.first.1), bytes),
            What::Ends => self.ended = true,
        }
    }
}

/// Puts bytes where their sequence number says; a packet may come twice.
fn put(to: &mut Vec<u8>, at: u32, bytes: &[u8]) {
    let at = at as usize;
    to.resize(to.len().max(at + bytes.len()), 0);
    to[at..at + bytes.len()].copy_from_slice(bytes);
}
