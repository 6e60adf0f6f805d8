//! `[[zone]]`: which hosts belong to a zone, and where we stand ourselves.

use super::Matcher;
use super::matcher::matcher;
use super::section::Section;
use fleet::Zone;
use toml::Spanned;

/// A zone and who belongs to it.
#[derive(Clone, Debug, PartialEq)]
pub struct ZoneRule {
    pub zone: Zone,
    /// Servers and client hosts that belong to it.
    pub members: Vec<Matcher>,
    /// Share of reads born there, where the operator states it; overrides nothing that can be measured.
    pub demand: Option<f64>,
}

/// Where we stand ourselves (`[router] zone`).
#[derive(Clone, Debug, PartialEq)]
pub enum OwnZone {
    /// Asks the zone rules with this host's addresses, then the cloud's metadata service, then round-trip
    /// times.
    Auto,
    Named(Zone),
}

/// The matchers of all zones in the order of the file.
pub(super) type Members = Vec<(Zone, Spanned<Matcher>)>;

/// Reads every `[[zone]]`; their members once more with their places.
pub(super) fn read(document: &mut Section<'_>) -> (Vec<Spanned<ZoneRule>>, Members) {
    let (mut zones, mut placed) = (Vec::new(), Vec::new());
    for mut section in document.sections("zone") {
        let name = section.plain("name");
        section.require("name", "write the zone's name: name = \"us-east-1a\"");
        let members = section.texts("members", matcher);
        section.require("members", "say who belongs to it: members = [\"10.1.0.0/16\", \"db-a*\"]");
        let demand = section.number("demand", (0.0, 1.0));
        if let Some(name) = name {
            let zone = Zone::new(&name);
            let members = members.unwrap_or_default();
            let matchers = members.iter().map(|member| member.get_ref().clone()).collect();
            placed.extend(members.into_iter().map(|member| (zone.clone(), member)));
            zones.push(Spanned::new(section.place_of("name"), ZoneRule { zone, members: matchers, demand }));
        }
        section.finish();
    }
    (zones, placed)
}
