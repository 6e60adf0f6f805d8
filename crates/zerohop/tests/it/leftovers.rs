//! What one router has left, and another that starts on the same address.

use super::pinned::{ALIVE, Pinned, answers, root, spec, three, word};
use std::net::TcpStream;
use std::time::Duration;
use zerohop::{Bypass, Terms, pins};

#[test]
fn a_router_of_another_name_takes_over_what_a_dead_one_has_pinned_for_its_address() {
    if !root() {
        return;
    }
    let [(_ordinary, dialled), (one, at_one), (two, at_two)] = three("127.0.0.1");
    let mut dead = Pinned::new("dead");
    dead.send(dialled, &[Some(at_one)]);
    let client = TcpStream::connect(dialled).unwrap();
    let _kept = answers(&one, "one..");
    dead.bypass.beat(Duration::ZERO, ALIVE).unwrap();
    let name = format!("{}-next", dead.name);
    let claimed = pins::claim(&[dialled], &name, true).unwrap();
    assert_eq!(claimed.taken_over.as_deref(), Some("a test"));
    assert!(!dead.bypass.directory().exists());
    let mut next = Pinned { bypass: Bypass::open(&spec(&name)).unwrap(), name, terms: Terms::default() };
    assert!(next.bypass.inherited());
    assert_eq!(next.bypass.sessions().unwrap().len(), 1, "its sessions are known");
    assert_eq!(client.peer_addr().unwrap(), dialled);
    next.bypass.beat(ALIVE, ALIVE).unwrap();
    next.send(dialled, &[Some(at_two)]);
    let client = TcpStream::connect(dialled).unwrap();
    let _kept = answers(&two, "two..");
    assert_eq!(word(&client), "two..", "the new router decides");
}

#[test]
fn a_router_without_zero_hop_ends_what_others_have_pinned_for_its_address_and_nothing_else() {
    if !root() {
        return;
    }
    let [(ordinary, dialled), (one, at_one), (_, elsewhere)] = three("127.0.0.1");
    let mut dead = Pinned::new("overruled");
    dead.send(dialled, &[Some(at_one)]);
    dead.send(elsewhere, &[Some(at_one)]);
    let claimed = pins::claim(&[dialled], "test-somebody", false).unwrap();
    assert_eq!((claimed.taken_over, claimed.overruled), (None, vec!["a test".to_owned()]));
    let client = TcpStream::connect(dialled).unwrap();
    answers(&ordinary, "plain");
    assert_eq!(word(&client), "plain");
    assert!(dead.bypass.was_removed(dialled).unwrap() && !dead.bypass.was_removed(elsewhere).unwrap());
    let client = TcpStream::connect(elsewhere).unwrap();
    let _kept = answers(&one, "other");
    assert_eq!(word(&client), "other", "an address of somebody else is not touched");
    // One that writes on does not bring it back.
    dead.send(dialled, &[Some(at_one)]);
    let client = TcpStream::connect(dialled).unwrap();
    answers(&ordinary, "plain");
    assert_eq!(word(&client), "plain");
    let claimed = pins::claim(&[elsewhere], "test-somebody", false).unwrap();
    assert_eq!(claimed.overruled.len(), 1);
    assert!(!dead.bypass.directory().exists(), "its last address: nothing is left");
}

#[test]
fn remains_of_the_dead_do_not_pile_up() {
    if !root() {
        return;
    }
    let [(_ordinary, dialled), (_one, at_one), (_, elsewhere)] = three("127.0.0.1");
    let name = format!("test-unborn-{}", std::process::id());
    let unborn = Pinned { bypass: Bypass::open(&spec(&name)).unwrap(), name, terms: Terms::default() };
    let mut remains = Pinned::new("remains");
    remains.send(dialled, &[Some(at_one)]);
    let is_there = || remains.bypass.directory().exists();
    pins::claim(&[elsewhere], "test-somebody", true).unwrap();
    assert!(is_there(), "its router lives");
    remains.bypass.beat(Duration::ZERO, ALIVE).unwrap();
    pins::claim(&[elsewhere], "test-somebody", true).unwrap();
    assert!(remains.bypass.directory().exists(), "its router may come back");
    remains.bypass.beat(Duration::ZERO, Duration::ZERO).unwrap();
    pins::claim(&[elsewhere], "test-somebody", true).unwrap();
    assert!(!remains.bypass.directory().exists());
    assert!(unborn.bypass.directory().exists(), "its router is about to start");
}

#[test]
fn one_listener_can_be_removed_alone() {
    if !root() {
        return;
    }
    let [(ordinary, dialled), (one, at_one), (_, elsewhere)] = three("127.0.0.1");
    let mut pinned = Pinned::new("single");
    pinned.send(dialled, &[Some(at_one)]);
    pinned.send(elsewhere, &[Some(at_one)]);
    let session = TcpStream::connect(dialled).unwrap();
    let _kept = answers(&one, "one..");
    let removed = pins::remove_listeners(&[dialled]).unwrap();
    assert_eq!((removed.listeners, removed.names.len(), removed.sessions), (vec![dialled], 0, 1));
    let client = TcpStream::connect(dialled).unwrap();
    answers(&ordinary, "plain");
    assert_eq!((word(&client), word(&session)), ("plain".to_owned(), "one..".to_owned()));
    let removed = pins::remove_listeners(&[elsewhere]).unwrap();
    assert_eq!(removed.names, std::slice::from_ref(&pinned.name));
}
