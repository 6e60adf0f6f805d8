//! Where a run takes place: what can be made there, and why not the rest. Rules whose bottleneck is not made
//! are tested on readings in the kernel's own words instead (`diagnose/src/verdict/tests/recorded.rs`).

use super::making::Making;
use super::{conntrack, neighbour, packets};
use crate::cgroup::Hierarchy;
use diagnose::verdict::Name;
use lab::Flavour;
use serde::{Deserialize, Serialize};

/// A rule that nothing is made for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NotMade {
    pub(super) rule: Name,
    pub(super) why: String,
}

/// Rules that nothing is made for anywhere, and why.
const NOWHERE: [(Name, &str); 3] = [
    (
        Name::HostMemory,
        "all memory of the machine would have to be taken, and the kernel may end any program then",
    ),
    (
        Name::Steal,
        "only the host of a guest can take CPU time away from it, which no program in it can ask for",
    ),
    (
        Name::Latches,
        "a latch is held for microseconds: of sessions on few CPUs hardly two meet at one, whatever they do",
    ),
];

/// What of this host and of its servers matters.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) flavour: Flavour,
    /// A controller of memory, of any version.
    pub(super) memory: bool,
    /// `io.max`: a controller of disks in version 2.
    pub(super) io_max: bool,
    /// How many neighbours and tracked connections fit, where that can be read.
    pub(super) neighbours: Option<u64>,
    pub(super) tracked: Option<u64>,
    /// Packets that the backlog of a CPU holds.
    pub(super) backlog: u32,
}

impl Place {
    /// Looks at this host.
    pub(super) fn look(flavour: Flavour) -> Self {
        Self {
            flavour,
            memory: Hierarchy::of("memory").is_some(),
            io_max: Hierarchy::of("io").is_some(),
            neighbours: neighbour::now().map(|table| table.limit),
            tracked: conntrack::limit().ok(),
            backlog: packets::backlog(),
        }
    }

    /// Why something cannot be made here; `None` where it can.
    pub(super) fn obstacle(&self, making: Making) -> Option<String> {
        let fits = |table: Option<u64>, most: u64, what: &str| match table {
            None => Some(format!("the kernel tells no limit of its table of {what} here")),
            Some(limit) if limit > most => Some(format!("{limit} {what} fit, more than {most} are not made")),
            Some(_) => None,
        };
        match making {
            Making::MemoryLimit if !self.memory => Some("no cgroup can limit memory here".to_owned()),
            Making::IoLimit if !self.io_max => Some(
                "the rule reads io.max of cgroup version 2, and here the controller of disks is mounted by \
                 itself (version 1, blkio) or is missing"
                    .to_owned(),
            ),
            Making::PacketDrops if self.backlog > packets::MOST => Some(format!(
                "the backlog of a CPU holds {} packets, and bursts for more than {} are not made",
                self.backlog,
                packets::MOST
            )),
            Making::NeighbourTable => fits(self.neighbours, neighbour::MOST, "neighbours"),
            Making::ConntrackTable => fits(self.tracked, conntrack::MOST, "tracked connections"),
            _ => None,
        }
    }

    /// Every rule that nothing is made for here; beside another run (`of_the_server`) those of the host are
    /// that one's.
    pub(super) fn not_made(&self, of_the_server: bool) -> Vec<NotMade> {
        let of_the_host = |making: &Making| of_the_server && !making.is_of_the_server();
        let why = |making: &Making| {
            if of_the_host(making) {
                Some("of the host, whatever server runs there: made in a run without --mysql".to_owned())
            } else {
                self.obstacle(*making)
            }
        };
        let nowhere = NOWHERE.iter().map(|(rule, why)| NotMade { rule: *rule, why: (*why).to_owned() });
        let here = Making::every()
            .iter()
            .filter_map(|making| Some(NotMade { rule: making.expected()?, why: why(making)? }));
        nowhere.chain(here).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn everything() -> Place {
        Place {
            flavour: Flavour::MariaDb,
            memory: true,
            io_max: true,
            neighbours: Some(1024),
            tracked: Some(262_144),
            backlog: 1000,
        }
    }

    #[test]
    fn every_rule_has_a_making_or_a_reason_and_none_has_both() {
        for rule in Name::every() {
            let made = Making::every().iter().filter(|making| making.expected() == Some(rule)).count();
            let nowhere = NOWHERE.iter().filter(|(name, _)| *name == rule).count();
            assert_eq!(made + nowhere, 1, "{rule:?}");
        }
        assert_eq!(everything().not_made(false).len(), NOWHERE.len());
        let beside = everything().not_made(true);
        assert!(
            beside.iter().any(|one| one.rule == Name::Cpu)
                && beside.iter().all(|one| one.rule != Name::RowLocks)
        );
    }

    #[test]
    fn what_a_host_or_a_server_lacks_is_said() {
        let place = Place {
            memory: false,
            io_max: false,
            neighbours: None,
            tracked: Some(4_000_000),
            backlog: 250_000,
            ..everything()
        };
        for making in [
            Making::MemoryLimit,
            Making::IoLimit,
            Making::PacketDrops,
            Making::NeighbourTable,
            Making::ConntrackTable,
        ] {
            assert!(place.obstacle(making).is_some(), "{making}");
            assert_eq!(everything().obstacle(making), None, "{making}");
        }
        let mysql = Place { flavour: Flavour::MySql, ..everything() };
        for making in [Making::ApplyWithoutKey, Making::RowLocks] {
            assert_eq!(mysql.obstacle(making), None, "{making}");
        }
    }
}
