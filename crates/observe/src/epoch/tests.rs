//! Epochs: what a router believes of servers that all say that they take writes.

use super::*;
use crate::answer::{Channel, Runs, Switches};
use crate::judge::{Facts, Member, judge};
use fleet::{Address, WriterStatus};
use proptest::prelude::*;

fn claim(key: &str, epoch: u64) -> ServerClaim<'_> {
    ServerClaim { key, epoch: Some(epoch), takes_writes: true, announces: false, operation: false }
}

fn seen(epoch: u64) -> Fence {
    let mut fence = Fence::default();
    fence.saw(&ServerName::new("b"), epoch);
    fence
}

#[test]
fn a_server_of_a_lower_epoch_takes_no_writes_and_announces_nothing() {
    let (mut fence, now) = (seen(4), Instant::now());
    assert_eq!(fence.refuses(claim("a", 3), now), Some(Claim::Writes));
    let announces = ServerClaim { takes_writes: false, announces: true, ..claim("a", 3) };
    assert_eq!(fence.refuses(announces, now), Some(Claim::Announces));
    assert_eq!(fence.refuses(claim("b", 4), now), None);
    let replica = ServerClaim { takes_writes: false, ..claim("c", 3) };
    assert_eq!(fence.refuses(replica, now), None, "a replica that is behind claims nothing");
}

#[test]
fn without_the_privilege_to_ask_the_claim_counts_as_before() {
    let silent = ServerClaim { epoch: None, ..claim("a", 0) };
    assert_eq!(seen(4).refuses(silent, Instant::now()), None);
}

#[test]
fn a_promotion_waits_for_its_record_but_not_for_ever_and_one_by_hand_does_not_wait() {
    let (mut fence, now) = (seen(4), Instant::now());
    fence.acted("b", 4);
    let promoted = ServerClaim { operation: true, ..claim("c", 4) };
    assert_eq!(fence.refuses(promoted, now), Some(Claim::Unrecorded));
    let late = now + UNRECORDED_FOR;
    assert_eq!(fence.refuses(promoted, late), None, "whoever promoted it was stopped before it wrote");
    assert_eq!(fence.refuses(claim("c", 4), now), None, "by hand");
    fence.saw(&ServerName::new("c"), 5);
    assert_eq!(fence.refuses(ServerClaim { operation: true, ..claim("c", 5) }, now), None, "recorded");
    assert_eq!(fence.refuses(claim("b", 4), now), Some(Claim::Writes));
}

#[test]
fn a_claim_that_lasts_is_counted_once() {
    let mut fence = seen(4);
    let ignored = IgnoredClaim { server: ServerName::new("a"), epoch: 3, claim: Claim::Writes };
    for _ in 0..3 {
        fence.ignores(vec![ignored.clone()]);
    }
    fence.ignores(Vec::new());
    fence.ignores(vec![ignored]);
    let status = fence.status(Vec::new(), &Memory::default());
    assert_eq!((status.ignored_total, status.ignored.len(), status.highest), (2, 1, 4));
}

#[test]
fn it_is_asked_for_when_it_may_matter() {
    let at = |age: u64, writable, matters| {
        is_due(Some(Duration::from_millis(age)), writable, matters, Duration::ZERO)
    };
    assert!(is_due(None, false, false, Duration::from_secs(60)), "at first");
    assert!(at(0, true, true));
    assert!(!at(900, true, false) && at(1000, true, false));
    assert!(!at(4900, false, false) && at(5000, false, false));
    assert!(!is_due(Some(Duration::from_secs(6)), false, false, Duration::from_secs(10)), "many ask");
}

/// What happens in the world, in any order. What cannot happen just then does nothing.
#[derive(Clone, Debug)]
enum Deed {
    /// A planned move, or a failover where the primary does not answer, begins. Every router has heard of the
    /// primary before.
    Begin {
        to: usize,
    },
    /// The operation under way does its next step.
    Step,
    /// A host is frozen, or cut off; and back.
    Freeze {
        server: usize,
    },
    Thaw {
        server: usize,
    },
    /// A replica gets what its source has.
    Replicate {
        server: usize,
    },
    /// A router hears from those of these servers that answer, and from no other.
    Look {
        router: usize,
        reaches: [bool; 3],
    },
    /// A router is started anew.
    Restart {
        router: usize,
    },
}

#[derive(Clone, Debug)]
struct Host {
    takes_writes: bool,
    answers: bool,
    source: Option<usize>,
    epoch: u64,
}

#[derive(Clone, Copy, Debug)]
struct Operation {
    from: usize,
    to: usize,
    step: u8,
    /// The former primary answers: it announces the move.
    planned: bool,
}

#[derive(Clone, Debug)]
struct Router {
    fence: Fence,
    file: Remembered,
    /// What each server said last, and whether it answered the last look.
    known: Vec<Option<(Host, bool, Option<Operation>)>>,
    /// Writers by epoch, over restarts.
    writers: std::collections::BTreeMap<u64, usize>,
}

#[derive(Clone, Debug)]
struct World {
    hosts: Vec<Host>,
    operation: Option<Operation>,
    routers: Vec<Router>,
    now: Instant,
}

const NAMES: [&str; 3] = ["a", "b", "c"];

impl World {
    fn new() -> Self {
        let host =
            |source: Option<usize>| Host { takes_writes: source.is_none(), answers: true, source, epoch: 0 };
        let router = Router {
            fence: Fence::default(),
            file: Remembered::default(),
            known: vec![None; 3],
            writers: Default::default(),
        };
        let hosts = vec![host(None), host(Some(0)), host(Some(0))];
        Self { hosts, operation: None, routers: vec![router; 2], now: Instant::now() }
    }

    /// Who should take writes: of the highest epoch.
    fn primary(&self) -> Option<usize> {
        let open = (0..3).filter(|&at| self.hosts[at].takes_writes && self.hosts[at].source.is_none());
        open.max_by_key(|&at| self.hosts[at].epoch)
    }

    fn play(&mut self, deed: &Deed) {
        match *deed {
            Deed::Begin { to } => {
                let Some(from) = self.primary() else { return };
                let one_writer = self.hosts.iter().filter(|host| host.takes_writes).count() == 1;
                let replica = self.hosts[to].source == Some(from) && self.hosts[to].answers;
                // It has what the primary has, its epoch included: the operation waits for that.
                let caught_up = self.hosts[to].epoch == self.hosts[from].epoch;
                // A router that never heard of a primary cannot tell it from one that is just promoted.
                let epoch = self.hosts[from].epoch;
                let is_known = |router: &Router| router.writers.get(&epoch) == Some(&from);
                let all_know = self.routers.iter().all(is_known);
                if self.operation.is_none() && replica && caught_up && one_writer && all_know {
                    let planned = self.hosts[from].answers;
                    self.operation = Some(Operation { from, to, step: 0, planned });
                }
            }
            Deed::Step => self.step(),
            Deed::Freeze { server } => {
                let busy = self.operation.as_ref().is_some_and(|o| o.to == server);
                self.hosts[server].answers &= busy;
            }
            Deed::Thaw { server } => self.hosts[server].answers = true,
            Deed::Replicate { server } => {
                let Some(source) = self.hosts[server].source.filter(|&s| self.hosts[s].answers) else {
                    return;
                };
                self.hosts[server].epoch = self.hosts[server].epoch.max(self.hosts[source].epoch);
            }
            Deed::Look { router, reaches } => self.look(router, reaches),
            Deed::Restart { router } => {
                let router = &mut self.routers[router];
                router.fence = Fence::from_memory(Some(router.file.clone()));
                router.known = vec![None; 3];
            }
        }
    }

    fn step(&mut self) {
        let Some(Operation { from, to, step, planned }) = self.operation.take() else { return };
        match step {
            // Undone: the freeze is the last step for which a planned move needs the former primary.
            0 if planned && !self.hosts[from].answers => return,
            // In a failover it is away.
            0 if planned => self.hosts[from].takes_writes = false,
            1 => (self.hosts[to].takes_writes, self.hosts[to].source) = (true, None),
            2 => self.hosts[to].epoch = 1 + self.hosts.iter().map(|host| host.epoch).max().unwrap_or(0),
            3 => {
                for at in (0..3).filter(|&at| at != to) {
                    // A former primary that is away, or came back by itself, is not touched.
                    if self.hosts[at].answers && !self.hosts[at].takes_writes {
                        self.hosts[at].source = Some(to);
                    }
                }
                return;
            }
            _ => {}
        }
        self.operation = Some(Operation { from, to, step: step + 1, planned });
    }

    fn look(&mut self, router: usize, reaches: [bool; 3]) {
        let World { hosts, operation, routers, now } = self;
        let router = &mut routers[router];
        for at in 0..3 {
            let answers = reaches[at] && hosts[at].answers;
            match (&mut router.known[at], answers) {
                (known, true) => *known = Some((hosts[at].clone(), true, *operation)),
                (Some((_, fresh, _)), false) => *fresh = false,
                (None, false) => {}
            }
        }
        let before = router.fence.highest();
        for (at, name) in NAMES.iter().enumerate() {
            if let Some((host, true, _)) = &router.known[at] {
                router.fence.saw(&ServerName::new(name), host.epoch);
            }
        }
        let mut members = Vec::new();
        for (at, key) in NAMES.into_iter().enumerate() {
            let Some((host, fresh, operation)) = router.known[at].clone() else {
                members.push(member(at, false, None));
                continue;
            };
            let claim = ServerClaim {
                key,
                epoch: Some(host.epoch),
                takes_writes: host.takes_writes && host.source.is_none(),
                announces: operation.is_some_and(|of| of.planned && of.from == at),
                operation: operation.is_some(),
            };
            let refused = if fresh { router.fence.refuses(claim, *now) } else { None };
            members.push(member(at, fresh, Some((&host, refused.map(|_| "refused".to_owned())))));
        }
        if let (_, WriterStatus::Known { server }) = judge(&members) {
            let at = NAMES.iter().position(|name| *name == server.as_str()).unwrap();
            let (host, fresh, _) = router.known[at].as_ref().unwrap();
            if *fresh {
                let epoch = host.epoch;
                assert!(epoch >= router.fence.highest(), "{server} is of epoch {epoch}");
                let first = *router.writers.entry(epoch).or_insert(at);
                assert_eq!(first, at, "two writers of epoch {epoch}");
                router.fence.acted(NAMES[at], epoch);
            }
        }
        assert!(router.fence.highest() >= before.max(router.file.epoch), "it never goes back");
        router.file = router.fence.memory();
    }
}

fn member(at: usize, fresh: bool, known: Option<(&Host, Option<String>)>) -> Member {
    let facts = known.map(|(host, refused)| {
        let running = if fresh { Runs::Yes } else { Runs::No };
        let channels = host.source.iter().map(|_| channel(running));
        Facts {
            switches: Switches { read_only: !host.takes_writes, ..Switches::default() },
            channels: channels.collect(),
            sources: host.source.iter().map(|source| Some(*source)).collect(),
            refused,
            ..Facts::default()
        }
    });
    Member { name: ServerName::new(NAMES[at]), fresh, trouble: String::new(), listed_by: None, facts }
}

fn channel(receiver: Runs) -> Channel {
    Channel {
        name: String::new(),
        source: Address::tcp("source", 3306),
        source_id: 1,
        source_uuid: None,
        receiver,
        applier: receiver,
        receiver_error: String::new(),
        applier_error: String::new(),
        seconds_behind: None,
        executed: None,
        delay: 0,
        counts_own_writes: false,
        domains: Default::default(),
    }
}

fn deeds() -> impl Strategy<Value = Vec<Deed>> {
    let deed = prop_oneof![
        1 => (0..3_usize).prop_map(|to| Deed::Begin { to }),
        4 => Just(Deed::Step),
        1 => (0..3_usize).prop_map(|server| Deed::Freeze { server }),
        1 => (0..3_usize).prop_map(|server| Deed::Thaw { server }),
        3 => (0..3_usize).prop_map(|server| Deed::Replicate { server }),
        6 => (0..2_usize, any::<[bool; 3]>()).prop_map(|(router, reaches)| Deed::Look { router, reaches }),
        1 => (0..2_usize).prop_map(|router| Deed::Restart { router }),
    ];
    proptest::collection::vec(deed, 1..80)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn an_epoch_never_goes_back_and_has_one_writer(deeds in deeds()) {
        let mut world = World::new();
        for deed in &deeds {
            world.play(deed);
        }
    }
}

/// The property above would hold in a world where nothing happens: this one thing must.
#[test]
fn a_former_primary_that_alone_answers_gets_nothing_although_it_takes_writes() {
    let mut world = World::new();
    let all = [true; 3];
    world.look(0, all);
    world.look(1, all);
    for deed in [Deed::Freeze { server: 0 }, Deed::Begin { to: 1 }, Deed::Step, Deed::Step] {
        world.play(&deed);
    }
    world.look(0, all);
    assert_eq!(world.routers[0].writers.len(), 1, "promoted and not recorded: not yet");
    for deed in [Deed::Step, Deed::Step, Deed::Replicate { server: 2 }] {
        world.play(&deed);
    }
    world.look(0, all);
    assert_eq!(world.routers[0].writers[&1], 1);
    world.play(&Deed::Thaw { server: 0 });
    world.play(&Deed::Restart { router: 0 });
    world.look(0, [true, false, false]);
    assert_eq!(world.routers[0].writers[&1], 1, "after a restart, the former primary alone");
    let mut forgetful = world.routers[0].clone();
    forgetful.fence = Fence::default();
    assert_eq!(forgetful.fence.refuses(claim("a", 0), world.now), None, "without the file it would");
}
