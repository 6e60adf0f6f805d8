//! Where servers, client hosts and we ourselves stand, and what is remembered for it.

use crate::survey::{Entry, ServerId, Survey};
use crate::zone::metadata::MetadataError;
use crate::zone::{self, Host, round_trip};
use config::OwnZone;
use fleet::{KnownZone, Zone, ZoneSource};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// Groups by round-trip time are made anew only this often: a zone that flickers is worse than one found
/// late.
const REGROUP_EVERY: Duration = Duration::from_secs(10);

/// A server moves to another group only when this many groupings in a row say so: half a minute. A busy
/// machine or a slow minute of the network is no other place, and every move of a server moves sessions.
const SAID_IN_A_ROW: u32 = 4;

/// What is remembered about places.
#[derive(Default)]
pub(crate) struct ZonePlacement {
    /// What the cloud said of our own host, once asked.
    pub(crate) metadata: Option<Result<Zone, MetadataError>>,
    groups: BTreeMap<ServerId, Zone>,
    /// Another grouping that was measured, and how often in a row.
    measured: Option<(BTreeMap<ServerId, Zone>, u32)>,
    grouped_at: Option<Instant>,
}

impl ZonePlacement {
    /// The zone of each shown server, in order.
    pub(super) fn zones(
        &mut self,
        survey: &Survey,
        shown: &[&Entry],
        now: Instant,
    ) -> Vec<Option<KnownZone>> {
        let ruled: Vec<Option<Zone>> = shown.iter().map(|entry| survey.rule_outcome(entry).1).collect();
        if survey.config.zones_by_round_trip {
            let rest: Vec<&Entry> = shown
                .iter()
                .zip(&ruled)
                .filter(|(_, zone)| zone.is_none())
                .map(|(entry, _)| *entry)
                .collect();
            self.regroup(survey, &rest, ruled.iter().any(Option::is_some), now);
        } else {
            self.groups.clear();
        }
        shown
            .iter()
            .zip(ruled)
            .map(|(entry, ruled)| {
                let by_rule = ruled.map(|zone| KnownZone { zone, by: ZoneSource::Rule });
                let by_time = || {
                    Some(KnownZone { zone: self.groups.get(&entry.id)?.clone(), by: ZoneSource::RoundTrip })
                };
                by_rule.or_else(by_time)
            })
            .collect()
    }

    fn regroup(&mut self, survey: &Survey, rest: &[&Entry], rules_place_others: bool, now: Instant) {
        let timed: Vec<(ServerId, Duration)> =
            rest.iter().filter_map(|e| Some((e.id, e.answer.as_ref()?.round_trip?))).collect();
        let known: BTreeSet<ServerId> = self.groups.keys().copied().collect();
        let wanted: BTreeSet<ServerId> = timed.iter().map(|(id, _)| *id).collect();
        let due = self.grouped_at.is_none_or(|at| now.saturating_duration_since(at) >= REGROUP_EVERY);
        if !due && known == wanted {
            return;
        }
        let times: Vec<Duration> = timed.iter().map(|(_, time)| *time).collect();
        // The nearest group stands where we stand, as far as times can tell; it takes the name of our zone
        // where that is known, unless rules place other servers (then our zone has its members already).
        let ours = self.named_own(survey).filter(|_| !rules_place_others);
        let name = |zone: Zone| match &ours {
            Some(own) if zone.as_str() == round_trip::NEAR => own.clone(),
            _ => zone,
        };
        let zones = round_trip::groups(&times).into_iter().map(name);
        let measured = timed.iter().map(|(id, _)| *id).zip(zones).collect();
        self.grouped_at = Some(now);
        self.settle(measured, known == wanted);
    }

    /// Takes a grouping over at once when it is of other servers than before, else when it has been measured
    /// often enough.
    fn settle(&mut self, measured: BTreeMap<ServerId, Zone>, same_servers: bool) {
        if !same_servers {
            (self.groups, self.measured) = (measured, None);
        } else if measured == self.groups {
            self.measured = None;
        } else {
            let times = match &self.measured {
                Some((before, times)) if *before == measured => times + 1,
                _ => 1,
            };
            if times < SAID_IN_A_ROW {
                self.measured = Some((measured, times));
            } else {
                (self.groups, self.measured) = (measured, None);
            }
        }
    }

    /// Our own zone: named, by rule, from the cloud, or with the nearest servers.
    pub(super) fn own(
        &self,
        survey: &Survey,
        shown: &[&Entry],
        zones: &[Option<KnownZone>],
    ) -> Option<KnownZone> {
        if let OwnZone::Named(zone) = &survey.config.own_zone {
            return Some(KnownZone { zone: zone.clone(), by: ZoneSource::Rule });
        }
        if let Some(zone) = own_by_rule(survey) {
            return Some(KnownZone { zone, by: ZoneSource::Rule });
        }
        if let Some(Ok(zone)) = &self.metadata {
            return Some(KnownZone { zone: zone.clone(), by: ZoneSource::Metadata });
        }
        let nearest = shown
            .iter()
            .zip(zones)
            .filter(|(_, zone)| zone.as_ref().is_some_and(|z| z.by == ZoneSource::RoundTrip))
            .min_by_key(|(entry, _)| {
                entry.answer.as_ref().and_then(|a| a.round_trip).unwrap_or(Duration::MAX)
            });
        nearest.and_then(|(_, zone)| zone.clone())
    }

    fn named_own(&self, survey: &Survey) -> Option<Zone> {
        match (&survey.config.own_zone, &self.metadata) {
            (OwnZone::Named(zone), _) => Some(zone.clone()),
            (OwnZone::Auto, Some(Ok(zone))) => Some(zone.clone()),
            (OwnZone::Auto, _) => None,
        }
    }

    /// The zone of a client host, by the same rules.
    pub(super) fn client(&self, survey: &Survey, host: &str, resolved: &[IpAddr]) -> Option<Zone> {
        zone::by_rule(&survey.config.zones, &Host::client(host, resolved))
    }

    pub(super) fn remarks(&self) -> Vec<String> {
        match &self.metadata {
            Some(Err(error)) => vec![format!("our own zone is not known from the cloud: {error}")],
            _ => Vec::new(),
        }
    }
}

/// Our zone by the rules, matched with the addresses that servers see us by.
pub(crate) fn own_by_rule(survey: &Survey) -> Option<Zone> {
    let addresses: Vec<IpAddr> = survey.entries.values().filter_map(|e| e.answer.as_ref()?.local).collect();
    zone::by_rule(&survey.config.zones, &Host { names: Vec::new(), addresses, labels: Vec::new() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_moves_to_another_group_only_when_that_lasts() {
        let groups = |zones: &[&str]| -> BTreeMap<ServerId, Zone> {
            zones.iter().enumerate().map(|(id, zone)| (id as ServerId, Zone::new(zone))).collect()
        };
        let (near, split) = (groups(&["near", "near"]), groups(&["near", "far-1"]));
        let mut placement = ZonePlacement::default();
        placement.settle(near.clone(), false);
        for measured in [&split, &split, &split, &near, &split, &split, &split] {
            placement.settle(measured.clone(), true);
            assert_eq!(placement.groups, near);
        }
        placement.settle(split.clone(), true);
        assert_eq!(placement.groups, split);
        placement.settle(groups(&["near"]), false);
        assert_eq!(placement.groups, groups(&["near"]), "other servers are other groups at once");
    }
}
