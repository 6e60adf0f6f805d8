//! `[fleet]` and `[[map]]`: where the servers are, and how they are asked.

use super::matcher::net_or_name;
use super::section::Section;
use super::value;
use super::{Credentials, Matcher, OwnZone, ServerRule, ZoneRule};
use fleet::Address;
use std::time::Duration;
use toml::Spanned;

/// The servers and how to ask them.
#[derive(Clone, Debug, PartialEq)]
pub struct FleetConfig {
    /// Where discovery starts; any one member is enough.
    pub seeds: Vec<Address>,
    /// Whether servers that the seeds tell of are added (`true` by default).
    pub discover: bool,
    /// Networks and names that servers found so must lie in; `None` is the networks and domains of the seeds.
    pub discover_within: Option<Vec<Matcher>>,
    /// Time between two rounds of questions.
    pub interval: Duration,
    /// An answer later than this counts as none.
    pub deadline: Duration,
    /// What all that ask one server may cost it together.
    pub asking: AskingBudget,
    /// Who we are to the servers.
    pub credentials: Credentials,
    /// What servers call themselves -> how we reach them (NAT, tunnels, the lab).
    pub address_map: Vec<(Address, Address)>,
    /// Zones with the rules that place hosts in them, in order; the first rule that matches wins.
    pub zones: Vec<ZoneRule>,
    /// Whether servers that no rule places are grouped by measured round-trip time.
    pub zones_by_round_trip: bool,
    /// Where we stand ourselves.
    pub own_zone: OwnZone,
    /// What the operator says of single servers, in order; every matching rule applies.
    pub servers: Vec<ServerRule>,
}

/// What all routers together may ask of one server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AskingBudget {
    /// Statements a second, in quiet times.
    pub statements_per_second: u32,
    /// Control connections that are kept.
    pub connections: u32,
    /// Whether we hold to it. A single survey that ends at once does not count itself, nor does a guard.
    pub counted: bool,
}

impl FleetConfig {
    /// An answer of a server asked every `interval` that is older than this counts as silence: whatever asks
    /// that server has missed three rounds, however late each of their answers came.
    pub fn answer_holds(&self, interval: Duration) -> Duration {
        (self.interval.max(interval) + self.deadline) * 3
    }
}

impl Default for AskingBudget {
    fn default() -> Self {
        Self { statements_per_second: 50, connections: 100, counted: true }
    }
}

impl Default for FleetConfig {
    fn default() -> Self {
        Self {
            seeds: Vec::new(),
            discover: true,
            discover_within: None,
            interval: Duration::from_millis(500),
            deadline: Duration::from_secs(1),
            asking: AskingBudget::default(),
            credentials: Credentials::default(),
            address_map: Vec::new(),
            zones: Vec::new(),
            zones_by_round_trip: true,
            own_zone: OwnZone::Auto,
            servers: Vec::new(),
        }
    }
}

/// Reads `[fleet]`: what has a section of its own is left at its default.
pub(super) fn read(document: &mut Section<'_>) -> FleetConfig {
    let default = FleetConfig::default();
    let mut section = document.section("fleet");
    let seeds = section.list("seeds", value::address);
    if section.is_empty_list("seeds") || !section.is_present() {
        let wrong = "[fleet] names no server to start from";
        let right = "write one or more: seeds = [\"db1:3306\"]; the others are found by asking it";
        section.complain("seeds", wrong, right);
    } else {
        section.require("seeds", "write one or more: seeds = [\"db1:3306\"]");
    }
    let read = FleetConfig {
        seeds: seeds.unwrap_or_default(),
        discover: section.flag("discover").unwrap_or(default.discover),
        discover_within: section.list("discover_within", net_or_name),
        interval: section.duration("interval", Duration::from_millis(50)).unwrap_or(default.interval),
        deadline: section.duration("deadline", Duration::from_millis(10)).unwrap_or(default.deadline),
        asking: AskingBudget {
            statements_per_second: section
                .count("statements_per_second", (5, 10_000))
                .unwrap_or(default.asking.statements_per_second),
            connections: section.count("control_connections", (2, 256)).unwrap_or(default.asking.connections),
            counted: true,
        },
        zones_by_round_trip: section.flag("zones_by_round_trip").unwrap_or(default.zones_by_round_trip),
        ..default
    };
    section.finish();
    read
}

/// Reads every `[[map]]`.
pub(super) fn maps(document: &mut Section<'_>) -> Vec<Spanned<(Address, Address)>> {
    let mut maps = Vec::new();
    for mut section in document.sections("map") {
        let says = section.text("says", value::address);
        section.require("says", "write the address the server calls itself: says = \"10.0.0.5:3306\"");
        let reach = section.text("reach", value::address);
        section.require("reach", "write how we reach it: reach = \"127.0.0.1:13306\"");
        if let (Some(says), Some(reach)) = (says, reach) {
            maps.push(Spanned::new(says.span(), (says.into_inner(), reach.into_inner())));
        }
        section.finish();
    }
    maps
}
