//! On the real kernel: redirect, reverse lookup, doubt, takeover, removal. Needs root and a kernel with BPF, and fails
//! loudly without: whoever is not root is told that nothing was tested.

#![allow(clippy::unwrap_used, reason = "a test that cannot do its next step has failed")]

mod mirror;
mod pinned;

use pinned::{ALIVE, Pinned, answers, root, spec, three, wait_for, word};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};
use zerohop::{Bypass, pins, socket};

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
    let look = || socket::established().unwrap().into_iter().find(|s| s.cookie == session.cookie).unwrap();
    let found = look();
    assert_eq!((found.peer, found.received), (at_one, 5));
    server.write_all(b"more.").unwrap();
    assert_eq!(word(&client), "more.");
    assert!(pinned.bypass.will_end(&session));
    assert!(!found.end_if_unused_since().unwrap(), "it was used since");
    pinned.bypass.will_not_end(&session);
    assert_eq!(pinned.bypass.sessions().unwrap(), [session]);
    let found = look();
    assert!(pinned.bypass.will_end(&session));
    assert!(found.end_if_unused_since().unwrap());
    assert!(!found.end_if_unused_since().unwrap(), "it has ended");
    assert!(client.read(&mut [0; 1]).is_err(), "the client sees it");
    assert!(server.read(&mut [0; 1]).is_err(), "the server too");
    let tally = pinned.bypass.tally(picks[0].unwrap()).unwrap();
    assert_eq!((tally.ended, tally.lost, tally.doubt_until), (1, 0, 0));
}
