//! Roles: who is primary among the servers of a fleet, and for which reason.

use super::*;
use crate::answer::Channel;
use fleet::{Address, ServerName};
use proptest::prelude::*;

/// A server that answers, writable, replicating from nobody.
fn writable(name: &str) -> Member {
    let (name, trouble) = (ServerName::new(name), String::new());
    Member { name, fresh: true, trouble, listed_by: None, facts: Some(Facts::default()) }
}

fn read_only(name: &str) -> Member {
    let mut server = writable(name);
    server.facts.as_mut().unwrap().switches.read_only = true;
    server
}

/// A read-only server that replicates from the one at `source`.
fn replica(name: &str, source: usize) -> Member {
    let mut server = read_only(name);
    let facts = server.facts.as_mut().unwrap();
    facts.channels.push(channel(Runs::Yes, Runs::Yes));
    facts.sources.push(Some(source));
    server
}

fn channel(receiver: Runs, applier: Runs) -> Channel {
    Channel {
        name: String::new(),
        source: Address::tcp("source", 3306),
        source_id: 1,
        source_uuid: None,
        receiver,
        applier,
        receiver_error: String::new(),
        applier_error: String::new(),
        seconds_behind: None,
        executed: None,
        delay: 0,
        counts_own_writes: false,
        domains: Default::default(),
    }
}

fn silent(mut server: Member) -> Member {
    server.fresh = false;
    server.trouble = "no answer within 1000 ms".to_owned();
    server
}

/// One that has been silent since we began.
fn unseen(name: &str) -> Member {
    Member { facts: None, ..silent(writable(name)) }
}

fn with(mut server: Member, change: impl FnOnce(&mut Facts)) -> Member {
    change(server.facts.as_mut().unwrap());
    server
}

fn named_by(name: &str, server: Member) -> Member {
    Member { listed_by: Some(ServerName::new(name)), ..server }
}

fn roles(members: &[Member]) -> (Vec<Role>, Option<String>) {
    let (judged, writer) = judge(members);
    let writer = match writer {
        WriterStatus::Known { server } => Some(server.to_string()),
        WriterStatus::Unknown { .. } => None,
    };
    (judged.iter().map(|j| j.role).collect(), writer)
}

fn why_unknown(members: &[Member]) -> String {
    match judge(members).1 {
        WriterStatus::Unknown { why } => why,
        WriterStatus::Known { server } => panic!("{server} was named"),
    }
}

use Role::{Primary, Replica, Stray, Unknown};

#[test]
fn a_primary_with_replicas_is_plain() {
    let fleet = [writable("a"), replica("b", 0), replica("c", 0)];
    assert_eq!(roles(&fleet), (vec![Primary, Replica, Replica], Some("a".into())));
    assert_eq!(judge(&fleet).0[0].because, "takes writes, and b and c replicate from it");
}

#[test]
fn a_single_writable_server_is_the_primary() {
    assert_eq!(roles(&[writable("a")]), (vec![Primary], Some("a".into())));
}

#[test]
fn a_replica_of_a_replica_says_so() {
    let fleet = [writable("a"), replica("b", 0), replica("c", 1)];
    assert_eq!(roles(&fleet).0, [Primary, Replica, Replica]);
    let (judged, _) = judge(&fleet);
    assert_eq!(judged[2].because, "replicates from b, itself a replica");
    assert_eq!(judged[2].source.as_deref(), Some("b"));
}

#[test]
fn a_writable_replica_is_still_a_replica_and_is_told_on() {
    let fleet = [writable("a"), with(replica("b", 0), |f| f.switches.read_only = false)];
    assert_eq!(roles(&fleet), (vec![Primary, Replica], Some("a".into())));
    assert!(judge(&fleet).0[1].because.contains("takes writes too"));
}

#[test]
fn a_demoted_primary_that_still_takes_writes_is_a_stray() {
    let fleet = [writable("old"), writable("new"), replica("c", 1)];
    assert_eq!(roles(&fleet), (vec![Stray, Primary, Replica], Some("new".into())));
    assert!(judge(&fleet).0[0].because.contains("no replica follows it; new is the primary"));
}

#[test]
fn two_writable_servers_of_equal_standing_leave_the_writer_unknown_and_are_both_named() {
    let alone = [writable("a"), writable("b")];
    assert_eq!(roles(&alone), (vec![Unknown, Unknown], None));
    assert!(why_unknown(&alone).contains("a and b take writes and no replica follows either"));
    let both_followed = [writable("a"), writable("b"), replica("c", 0), replica("d", 1)];
    assert!(why_unknown(&both_followed).contains("replicas follow more than one"));
}

#[test]
fn a_running_follower_outweighs_a_stopped_one() {
    let stopped = with(replica("c", 0), |f| f.channels[0].receiver = Runs::No);
    assert_eq!(roles(&[writable("a"), writable("b"), stopped, replica("d", 1)]).1, Some("b".into()));
}

#[test]
fn in_a_ring_the_writable_one_is_the_primary() {
    let ring = [with(replica("a", 1), |f| f.switches.read_only = false), replica("b", 0)];
    assert_eq!(roles(&ring), (vec![Primary, Replica], Some("a".into())));
    let both = ring.map(|s| with(s, |f| f.switches.read_only = false));
    assert_eq!(roles(&both).1, None);
}

#[test]
fn a_silent_primary_stays_the_writer_while_a_replica_receives_from_it() {
    let fleet = [silent(writable("a")), replica("b", 0)];
    assert_eq!(roles(&fleet), (vec![Primary, Replica], Some("a".into())));
    let lost = [silent(writable("a")), with(replica("b", 0), |f| f.channels[0].receiver = Runs::Connecting)];
    assert_eq!(roles(&lost), (vec![Unknown, Replica], None));
    assert!(why_unknown(&lost).contains("a was the primary and does not answer"));
}

#[test]
fn a_stray_does_not_take_over_when_the_primary_falls_silent() {
    let blip = [silent(writable("a")), writable("stray"), replica("c", 0)];
    assert_eq!(roles(&blip), (vec![Primary, Stray, Replica], Some("a".into())));
    let lost = [
        silent(writable("a")),
        writable("stray"),
        with(replica("c", 0), |f| f.channels[0].receiver = Runs::Connecting),
    ];
    assert_eq!(roles(&lost).1, None);
    assert!(why_unknown(&lost).contains("stray takes writes, but c replicates from a"));
}

#[test]
fn a_promoted_replica_takes_over_from_a_dead_primary() {
    let followed = [silent(writable("a")), writable("b"), replica("c", 1)];
    assert_eq!(roles(&followed), (vec![Stray, Primary, Replica], Some("b".into())));
    let alone = [silent(writable("a")), writable("b")];
    assert_eq!(roles(&alone).1, Some("b".into()));
    let by_hand = with(replica("b", 0), |f| {
        f.switches.read_only = false;
        f.channels[0] = channel(Runs::No, Runs::No);
    });
    assert_eq!(roles(&[silent(writable("a")), by_hand, replica("c", 1)]).1, Some("b".into()));
}

#[test]
fn when_nobody_takes_writes_the_switches_are_named() {
    let fleet = [read_only("a"), replica("b", 0)];
    assert_eq!(roles(&fleet), (vec![Unknown, Replica], None));
    assert!(why_unknown(&fleet).contains("a is read-only (read_only=1)"));
    assert!(judge(&fleet).0[0].because.contains("b replicates from it, but it takes no writes"));
}

#[test]
fn a_read_only_server_that_nobody_feeds_is_a_stray() {
    assert_eq!(roles(&[writable("a"), replica("b", 0), read_only("c")]).0[2], Stray);
}

#[test]
fn stopped_threads_come_with_the_servers_error() {
    let broken = with(replica("b", 0), |f| {
        f.channels[0].applier = Runs::No;
        f.channels[0].applier_error = "Duplicate entry '1' for key 'PRIMARY'".to_owned();
    });
    let Replication::Stopped { thread, why } = judge(&[writable("a"), broken]).0[1].replication.clone()
    else {
        panic!("it is stopped");
    };
    assert_eq!((thread, why.as_str()), (Thread::Applier, "Duplicate entry '1' for key 'PRIMARY'"));
    let commanded = with(replica("b", 0), |f| f.channels[0] = channel(Runs::No, Runs::No));
    let judged = judge(&[writable("a"), commanded]).0;
    assert!(
        matches!(&judged[1].replication, Replication::Stopped { thread: Thread::Both, why } if why.contains("by command"))
    );
}

#[test]
fn a_server_that_never_answered_is_unknown_with_its_trouble() {
    let fleet = [unseen("a"), replica("b", 0)];
    assert_eq!(roles(&fleet), (vec![Unknown, Replica], None));
    assert!(why_unknown(&fleet).contains("b replicates from it, but it has not answered us yet"));
}

#[test]
fn without_the_privilege_a_read_only_server_named_by_its_source_is_a_replica() {
    let refused = with(read_only("b"), |f| {
        f.channels_unknown = Some("its replication could not be asked".to_owned());
    });
    let (judged, _) = judge(&[writable("a"), named_by("a", refused)]);
    assert_eq!((judged[1].role, &judged[1].replication), (Replica, &Replication::Unknown));
}

#[test]
fn in_a_managed_cluster_the_cluster_names_the_writer() {
    let reader = with(read_only("b"), |f| f.managed_writer = Some(false));
    let old_writer = with(writable("c"), |f| f.managed_writer = Some(false));
    let fleet = [with(writable("a"), |f| f.managed_writer = Some(true)), reader, old_writer];
    assert_eq!(roles(&fleet), (vec![Primary, Replica, Replica], Some("a".into())));
    assert_eq!(judge(&fleet).0[1].replication, Replication::Managed);
}

#[test]
fn a_server_that_may_not_say_whether_it_replicates_is_no_primary_unless_others_follow_it() {
    let refused = |name: &str| {
        with(writable(name), |f| {
            f.channels_unknown = Some("its replication could not be asked: GRANT SLAVE MONITOR".to_owned());
            f.channels_hidden = true;
        })
    };
    let alone = [refused("a")];
    assert_eq!(roles(&alone), (vec![Unknown], None));
    assert!(why_unknown(&alone).contains("GRANT SLAVE MONITOR"), "{}", why_unknown(&alone));
    assert!(judge(&alone).0[0].because.contains("GRANT SLAVE MONITOR"));
    assert_eq!(roles(&[refused("a"), replica("b", 0)]).1, Some("a".into()), "b says whom it follows");
    assert_eq!(roles(&[refused("a"), writable("b")]), (vec![Unknown, Primary], Some("b".into())));
    // In the middle of a chain: its own source names it.
    let chain = [writable("a"), named_by("a", refused("b")), replica("c", 1)];
    assert_eq!(roles(&chain), (vec![Primary, Unknown, Replica], Some("a".into())));
    let ring = [replica("a", 1), named_by("a", refused("b"))];
    assert_eq!(roles(&ring).1, Some("b".into()), "a is below it");
}

#[test]
fn a_lone_server_is_no_primary_while_others_follow_one_that_has_never_answered() {
    // A router that was started while the primary is silent.
    let started = [unseen("a"), writable("lone"), replica("c", 0)];
    assert_eq!(roles(&started), (vec![Unknown, Unknown, Replica], None));
    let why = why_unknown(&started);
    let words = "lone takes writes, but c replicates from a, which has not answered us yet (no answer within";
    assert!(why.starts_with(words), "{why}");
    assert!(why.ends_with("; point the replicas to lone if it is the new primary"), "{why}");
    assert_eq!(roles(&[unseen("a"), writable("b"), replica("c", 1)]).1, Some("b".into()), "c was told");
    assert_eq!(roles(&[unseen("a"), writable("b")]).1, Some("b".into()), "nobody follows a");
    // A failover promoted b, and was cut off before it pointed c there.
    let at = |server: Member, epoch| with(server, |f| f.epoch = epoch);
    for a in [unseen("a"), silent(writable("a"))] {
        let lost = with(replica("c", 0), |f| f.channels[0].receiver = Runs::Connecting);
        let fleet = |b, c| [a.clone(), at(writable("b"), b), at(lost.clone(), c)];
        assert_eq!(roles(&fleet(Some(2), Some(1))).1, Some("b".into()));
        for (b, c) in [(Some(1), Some(1)), (Some(2), None), (None, None)] {
            assert_eq!(roles(&fleet(b, c)).1, None, "{b:?} and {c:?}");
        }
    }
    // A replica that others replicate from, by the word of its source.
    let between = [named_by("b", unseen("a")), writable("b"), replica("c", 0)];
    assert_eq!(roles(&between).1, Some("b".into()));
}

#[test]
fn an_open_replica_whose_source_may_be_one_that_has_never_answered_is_no_primary() {
    let open = |source_unseen| {
        let open = with(replica("b", 0), |f| f.switches.read_only = false);
        with(open, |f| (f.sources, f.source_unseen) = (vec![None], source_unseen))
    };
    let fleet = [unseen("a"), open(true)];
    assert_eq!(roles(&fleet), (vec![Unknown, Replica], None));
    let words = "who takes writes cannot be told: b replicates from source:3306, which is not known; a has \
                 not answered yet: no answer within 1000 ms";
    assert_eq!(why_unknown(&fleet), words);
    // Promoted by hand without the reset, and followed: as a router says that knows what a was.
    let stopped = |source_unasked| {
        with(open(true), |f| {
            (f.channels, f.source_unasked) = (vec![channel(Runs::No, Runs::No)], source_unasked);
        })
    };
    assert_eq!(roles(&[unseen("a"), stopped(false), replica("c", 1)]).1, Some("b".into()));
    assert_eq!(roles(&[unseen("a"), stopped(true), replica("c", 1)]).1, None, "a moment later a is asked");
    let fed_from_outside = [open(false), replica("c", 0)];
    assert_eq!(roles(&fed_from_outside).1, Some("b".into()), "every server of ours has answered");
}

/// Any server of a fleet of four: what it says, or said last, or that it never answered.
fn any_member(at: usize) -> impl Strategy<Value = Member> {
    let source = proptest::option::of((0..4_usize, any::<bool>()));
    let says = (any::<bool>(), source, any::<bool>());
    (0..3, says).prop_map(move |(answers, (read_only, source, source_unseen))| {
        let facts = |f: &mut Facts| {
            f.switches.read_only = read_only;
            if let Some((source, receives)) = source {
                f.channels.push(channel(if receives { Runs::Yes } else { Runs::Connecting }, Runs::Yes));
                f.sources.push((source != at).then_some(source));
                f.source_unseen = source == at && source_unseen;
            }
        };
        let name = ["a", "b", "c", "d"][at];
        match answers {
            0 => unseen(name),
            1 => silent(with(writable(name), facts)),
            _ => with(writable(name), facts),
        }
    })
}

proptest! {
    #[test]
    fn who_takes_writes_is_above_all_that_may_be_above_it(
        fleet in (any_member(0), any_member(1), any_member(2), any_member(3))
    ) {
        let members = [fleet.0, fleet.1, fleet.2, fleet.3];
        let WriterStatus::Known { server } = judge(&members).1 else { return Ok(()) };
        let at = members.iter().position(|m| m.name == server).unwrap();
        let facts = members[at].facts.as_ref().unwrap();
        let graph = Graph::new(&members);
        let promoted = graph.is_promoted(&members, at);
        prop_assert!(facts.switches.writable() && !facts.source_unasked);
        prop_assert!(promoted || (graph.is_top(at) && !facts.source_unseen));
        let followed_and_unseen =
            (0..4).any(|old| members[old].facts.is_none() && graph.followers(&members, old) > 0);
        prop_assert!(!followed_and_unseen || graph.followers(&members, at) > 0);
    }
}

#[test]
fn a_replica_whose_source_died_says_which_and_where_it_stands() {
    let lost = with(replica("c", 1), |f| f.stands_at = Some("0-1-77".to_owned()));
    let fleet = [writable("a"), silent(replica("b", 0)), lost];
    let expected = "replicates from b, itself a replica, which does not answer (no answer within 1000 ms); \
                    it has applied up to 0-1-77";
    assert_eq!(judge(&fleet).0[2].because, expected);
}
