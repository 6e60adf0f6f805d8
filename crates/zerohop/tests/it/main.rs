//! On the real kernel: redirect, reverse lookup, doubt, takeover, removal. Needs root and a kernel with BPF,
//! and fails loudly without: whoever is not root is told that nothing was tested.

#![allow(clippy::unwrap_used, reason = "a test that cannot do its next step has failed")]

mod close;
mod leftovers;
mod mirror;
mod pinned;

use pinned::{ALIVE, Pinned, answers, root, spec, three, wait_for, word};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use zerohop::{Bypass, CloseOutcome, Wakeup, close_session, pins, socket};

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
                // In this order: a server that closes first is suspect.
                drop(client);
                drop(server);
            }
        }
        let counts = pinned.bypass.connect_counts(number).unwrap();
        assert_eq!((counts.bypassed, counts.chosen, counts.suspect, counts.unfit), (4, 2, 0, 0));
    }
}

#[test]
fn a_client_reaches_a_server_of_the_other_family_only_where_its_socket_is_sure_to() {
    if !root() {
        return;
    }
    let [(ordinary, dialled), (_, at_four), (four, _)] = three("127.0.0.1");
    let [(ordinary6, dialled6), (_six, at_six), _] = three("[::1]");
    let mut pinned = Pinned::new("families");
    let (number, _) = pinned.send(dialled, &[Some(at_six)]);
    let client = TcpStream::connect(dialled).unwrap();
    answers(&ordinary, "plain");
    assert_eq!(word(&client), "plain", "an IPv4 socket has no way to an IPv6 server");
    assert_eq!(pinned.bypass.connect_counts(number).unwrap().unfit, 1);
    // One for IPv6 alone could not reach an IPv4 server, and looks like any other.
    let (number, _) = pinned.send(dialled6, &[Some(at_four)]);
    let socket = socket_with(AddressFamily::INET6, SocketType::STREAM, SocketFlags::empty(), None).unwrap();
    rustix::net::sockopt::set_ipv6_v6only(&socket, true).unwrap();
    rustix::net::connect(&socket, &dialled6).expect("the listener is there");
    answers(&ordinary6, "plain");
    assert_eq!(word(&TcpStream::from(socket)), "plain");
    assert_eq!(pinned.bypass.connect_counts(number).unwrap().unfit, 1);
    // One that dials an IPv4 address is for both.
    pinned.send(dialled, &[Some(four.local_addr().unwrap())]);
    let SocketAddr::V4(v4) = dialled else { panic!("{dialled}") };
    let mapped = SocketAddr::new(v4.ip().to_ipv6_mapped().into(), v4.port());
    let client = TcpStream::connect(mapped).unwrap();
    let _kept = answers(&four, "four.");
    assert_eq!(word(&client), "four.");
    assert_eq!(client.peer_addr().unwrap(), mapped);
}

#[test]
fn a_socket_bound_to_an_address_is_left_to_a_listener_that_checks_its_clients() {
    if !root() {
        return;
    }
    let [(ordinary, dialled), (one, at_one), _] = three("127.0.0.1");
    let mut pinned = Pinned::new("checks");
    pinned.terms.checks = true;
    let (number, _) = pinned.send(dialled, &[Some(at_one)]);
    let client = TcpStream::connect(dialled).unwrap();
    let _kept = answers(&one, "one..");
    assert_eq!(word(&client), "one..");
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::empty(), None).unwrap();
    let source: SocketAddr = "127.0.0.9:0".parse().unwrap();
    rustix::net::bind(&socket, &source).unwrap();
    rustix::net::connect(&socket, &dialled).unwrap();
    let accepted = answers(&ordinary, "plain");
    assert_eq!(accepted.peer_addr().unwrap().ip(), source.ip(), "it sees who it is");
    assert_eq!(pinned.bypass.connect_counts(number).unwrap().unfit, 1);
}

#[test]
fn once_headroom_is_silent_writers_are_sent_nowhere_while_readers_still_are() {
    if !root() {
        return;
    }
    let [(ordinary, read), (one, at_one), (other, write)] = three("127.0.0.1");
    let mut pinned = Pinned::new("writers");
    pinned.send(read, &[Some(at_one)]);
    pinned.terms.writes = true;
    pinned.send(write, &[Some(at_one)]);
    let writer = TcpStream::connect(write).unwrap();
    let _kept = answers(&one, "write");
    assert_eq!(word(&writer), "write");
    drop((ordinary, other));
    // As after a crash: the router was there until now, and readers may go on for a while.
    pinned.bypass.beat(Duration::ZERO, ALIVE).unwrap();
    assert!(TcpStream::connect(write).is_err(), "nobody knows who the primary is by now");
    let reader = TcpStream::connect(read).unwrap();
    let _kept = answers(&one, "read.");
    assert_eq!(word(&reader), "read.");
}

#[test]
fn a_connection_under_way_is_a_session_of_its_server() {
    if !root() {
        return;
    }
    let [(_ordinary, dialled), _, _] = three("127.0.0.1");
    // Nobody accepts, and there is room for one: a later client waits with its first packet.
    let full = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::empty(), None).unwrap();
    rustix::net::bind(&full, &"127.0.0.1:0".parse::<SocketAddr>().unwrap()).unwrap();
    rustix::net::listen(&full, 0).unwrap();
    let at: SocketAddr = rustix::net::getsockname(&full).unwrap().try_into().unwrap();
    let mut pinned = Pinned::new("underway");
    let (_, picks) = pinned.send(dialled, &[Some(at)]);
    let target = picks[0].unwrap();
    let mut clients = Vec::new();
    wait_for("a client waits", || {
        let socket =
            socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::NONBLOCK, None).unwrap();
        let _ = rustix::net::connect(&socket, &dialled);
        clients.push(socket);
        pinned.bypass.sessions().unwrap().iter().any(|s| !s.open)
    });
    let open = pinned.bypass.counters(target).unwrap().open() as usize;
    assert!(pinned.bypass.sessions_on(target).unwrap() > open);
    drop(clients);
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
    assert_eq!(pinned.bypass.counters(picks[0].unwrap()).unwrap().refused, 1);
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
    let counters = pinned.bypass.counters(picks[0].unwrap()).unwrap();
    assert_eq!((counters.opened, counters.ended, counters.lost, counters.open()), (2, 2, 2, 0));
}

#[test]
fn a_doubt_rings_and_is_void_once_the_server_was_seen_well_after_it() {
    if !root() {
        return;
    }
    let [(ordinary, dialled), (one, at_one), _] = three("127.0.0.1");
    let mut pinned = Pinned::new("well");
    let (listener, picks) = pinned.send(dialled, &[Some(at_one)]);
    let wakeup = Wakeup::open(&pinned.bypass).unwrap();
    let rings = || wakeup.wait(Duration::ZERO);
    assert!(!rings());
    let (mut client, opened) = (TcpStream::connect(dialled).unwrap(), Instant::now());
    let server = answers(&one, "one..");
    wait_for("it is of some age", || opened.elapsed() > Duration::from_millis(1100));
    drop(server);
    client.read_to_end(&mut Vec::new()).unwrap();
    assert!(rings(), "the session ended");
    assert!(!rings());
    let since = pinned.bypass.counters(picks[0].unwrap()).unwrap().suspect_since().unwrap();

    pinned.bypass.mark_healthy(listener, at_one, since - 1).unwrap();
    let client = TcpStream::connect(dialled).unwrap();
    answers(&ordinary, "plain");
    assert_eq!(word(&client), "plain", "what was seen before the doubt says nothing against it");
    pinned.bypass.mark_healthy(listener, at_one, since).unwrap();
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
    let counters = || pinned.bypass.counters(picks[0].unwrap()).unwrap();
    wait_for("both sessions are over", || counters().ended == 2 && counters().to_server >= 6);
    assert_eq!((counters().lost, counters().suspect_until), (0, 0));
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
        let client = TcpStream::connect(dialled).expect("the one suspect is left out");
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
    let mut next = Bypass::open(&spec(&pinned.name)).unwrap();
    assert!(next.inherited() && !pinned.bypass.inherited());
    next.beat(ALIVE, ALIVE).unwrap();
    assert_eq!(next.listeners(), [dialled]);
    assert_eq!(next.sessions().unwrap().len(), 1);
    assert_eq!(client.peer_addr().unwrap(), dialled);
    let again = TcpStream::connect(dialled).unwrap();
    let _kept = answers(&one, "again");
    assert_eq!(word(&again), "again");
    let told = pinned.bypass.beat(ALIVE, ALIVE).unwrap_err().to_string();
    assert!(told.contains("has taken over"), "of the same process id, as in two containers: {told}");
    assert!(pinned.bypass.is_ours().is_err() && next.is_ours().is_ok());
    assert!(pins::is_alive(&pinned.name));
    let listed = pins::list().into_iter().find(|p| p.name == pinned.name).unwrap();
    assert_eq!((listed.programs.len(), listed.sessions, listed.alive), (6, 2, true));
    assert_eq!(listed.listeners[0].servers, [(at_one, 2)]);
    next.beat(Duration::ZERO, ALIVE).unwrap();
    assert!(!pins::is_alive(&pinned.name), "the one before may have it back");
}

/// A cgroup in which no process is; removed at the end.
struct EmptyCgroup(PathBuf);

impl Drop for EmptyCgroup {
    fn drop(&mut self) {
        std::fs::remove_dir(&self.0).unwrap();
    }
}

#[test]
fn programs_move_to_another_cgroup_and_back_while_they_are_in_force() {
    if !root() {
        return;
    }
    let [(ordinary, dialled), (one, at_one), _] = three("127.0.0.1");
    let mut pinned = Pinned::new("moved");
    pinned.send(dialled, &[Some(at_one)]);
    pinned.bypass.set_mirroring(true).unwrap();
    let home = pinned.bypass.cgroup().to_owned();
    let elsewhere = EmptyCgroup(home.join(&pinned.name));
    std::fs::create_dir(&elsewhere.0).unwrap();
    let words = pinned.bypass.move_to(Some(Path::new("/nowhere"))).unwrap_err().to_string();
    assert!(words.contains("/nowhere is no directory of a cgroup v2"), "{words}");
    pinned.bypass.move_to(Some(&elsewhere.0)).unwrap();
    let plain = TcpStream::connect(dialled).unwrap();
    answers(&ordinary, "plain");
    assert_eq!(word(&plain), "plain");
    pinned.bypass.move_to(None).unwrap();
    let client = TcpStream::connect(dialled).unwrap();
    let _kept = answers(&one, "one..");
    assert_eq!(word(&client), "one..", "as before");
    let listed = pins::list().into_iter().find(|p| p.name == pinned.name).unwrap();
    assert_eq!((listed.programs.len(), pinned.bypass.cgroup()), (8, home.as_path()));
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
    let look = || socket::established().unwrap().into_iter().find(|s| s.cookie == session.cookie).unwrap();
    let found = look();
    assert_eq!((found.peer, found.received, found.data_sent()), (at_one, 5, 0));
    assert!(close_session(&pinned.bypass, &session, &found).is_err(), "nothing is held back yet");
    pinned.bypass.set_holding(true).unwrap();
    server.write_all(b"more.").unwrap();
    assert_eq!(word(&client), "more.");
    assert_eq!(
        close_session(&pinned.bypass, &session, &found).unwrap(),
        CloseOutcome::InUse,
        "it was used since"
    );
    assert_eq!(pinned.bypass.sessions().unwrap(), [session]);
    client.write_all(b"after").unwrap();
    assert_eq!(word(&server), "after", "nothing is held back any more");
    let found = look();
    assert_eq!(found.data_sent(), 5);
    assert_eq!(close_session(&pinned.bypass, &session, &found).unwrap(), CloseOutcome::Closed);
    assert_eq!(close_session(&pinned.bypass, &session, &found).unwrap(), CloseOutcome::InUse, "it has ended");
    assert!(client.read(&mut [0; 1]).is_err(), "the client sees it");
    assert!(server.read(&mut [0; 1]).is_err(), "the server too");
    let counters = pinned.bypass.counters(picks[0].unwrap()).unwrap();
    assert_eq!((counters.ended, counters.lost, counters.suspect_until), (1, 0, 0));
}
