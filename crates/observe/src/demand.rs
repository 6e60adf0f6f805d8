//! Demand: how many reads are born in each zone, from what the servers count by client host.

mod estimate;

use config::FleetConfig;
use fleet::{Demand, DemandSource, Role, Server, Zone, ZoneShare};
use std::collections::{BTreeMap, BTreeSet};

pub(crate) use estimate::{Estimate, Estimator};

/// Above this share of reads from hosts that stand in no known zone, the rest says too little.
const MOST_UNPLACED: f64 = 0.5;

/// The demand to act on: measured, else as configured, else equal; with what should be said about it.
pub(crate) fn decide(
    estimate: Estimate,
    config: &FleetConfig,
    servers: &[Server],
    own: Option<&Zone>,
) -> (Demand, Vec<String>) {
    let mut remarks = Vec::new();
    let idle = estimate == Estimate::Idle;
    if let Estimate::Measured(mut measured) = estimate {
        if let Some(zone) = only_zone(config, servers, own) {
            (measured.shares, measured.unplaced) = (BTreeMap::from([(zone, 1.0)]), 0.0);
        }
        if measured.unplaced <= MOST_UNPLACED {
            let source =
                if measured.reads { DemandSource::StatementCounters } else { DemandSource::Sessions };
            let reads_per_second = if measured.reads { measured.total } else { 0.0 };
            let zones = measured.shares.into_iter().map(|(zone, share)| ZoneShare { zone, share }).collect();
            return (Demand { zones, source, reads_per_second, unplaced: measured.unplaced, idle }, remarks);
        }
        remarks.push(format!(
            "{:.0} % of reads come from hosts that stand in no known zone, so demand is not measured; \
             give the zones the networks of their client hosts",
            measured.unplaced * 100.0
        ));
    }
    let configured: f64 = config.zones.iter().filter_map(|zone| zone.demand).sum();
    let (source, weights): (_, BTreeMap<Zone, f64>) = if configured > 0.0 {
        let stated = config.zones.iter().filter_map(|rule| Some((rule.zone.clone(), rule.demand?)));
        (DemandSource::Configured, stated.filter(|(_, share)| *share > 0.0).collect())
    } else {
        let with_reader = servers.iter().filter(|s| s.role == Role::Replica && s.reserved.is_none());
        let zones = with_reader.filter_map(|s| s.zone_name().cloned()).chain(own.cloned());
        (DemandSource::Equal, zones.map(|zone| (zone, 1.0)).collect())
    };
    let total: f64 = weights.values().sum();
    let zones = weights.into_iter().map(|(zone, weight)| ZoneShare { zone, share: weight / total }).collect();
    (Demand { zones, source, reads_per_second: 0.0, unplaced: 0.0, idle }, remarks)
}

/// The zone that there is, where servers, rules and we ourselves stand in no other: wherever a client is, its
/// reads are for that one. Zones that nobody wrote down place no client hosts.
fn only_zone(config: &FleetConfig, servers: &[Server], own: Option<&Zone>) -> Option<Zone> {
    let answered = servers.iter().filter(|server| server.answered_at.is_some());
    let mut zones = answered.map(Server::zone_name).collect::<Option<BTreeSet<&Zone>>>()?;
    zones.extend(own);
    zones.extend(config.zones.iter().map(|rule| &rule.zone));
    zones.first().filter(|_| zones.len() == 1).copied().cloned()
}

#[cfg(test)]
mod tests {
    use super::estimate::Measurement;
    use super::*;
    use fleet::{Address, KnownZone, ServerName, ZoneSource};
    use std::time::Instant;

    fn replica(zone: Option<&str>) -> Server {
        let zone = zone.map(|zone| KnownZone { zone: Zone::new(zone), by: ZoneSource::RoundTrip });
        let server = Server::unasked(ServerName::new("db"), Address::tcp("db", 3306));
        Server { role: Role::Replica, zone, answered_at: Some(Instant::now()), ..server }
    }

    #[test]
    fn where_there_is_one_zone_all_reads_are_born_there_and_else_it_is_told_that_hosts_stand_nowhere() {
        let near = Zone::new("near");
        let decide = |zones: [Option<&str>; 2]| {
            let measured = Measurement { shares: BTreeMap::new(), total: 500.0, unplaced: 1.0, reads: true };
            let servers = zones.map(replica);
            super::decide(Estimate::Measured(measured), &FleetConfig::default(), &servers, Some(&near))
        };
        let (demand, remarks) = decide([Some("near"), Some("near")]);
        assert_eq!((demand.source, demand.unplaced), (DemandSource::StatementCounters, 0.0));
        assert_eq!((demand.share(&near), demand.reads_per_second, remarks.len()), (1.0, 500.0, 0));
        for zones in [[Some("near"), Some("far-1")], [Some("near"), None]] {
            let (demand, remarks) = decide(zones);
            assert_eq!((demand.source, remarks.len()), (DemandSource::Equal, 1), "{zones:?}");
        }
    }
}
