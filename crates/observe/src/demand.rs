//! Demand: how many reads are born in each zone, from what the servers count by client host.

mod estimate;

use config::FleetConfig;
use fleet::{Demand, DemandSource, Role, Server, Zone, ZoneShare};
use std::collections::BTreeMap;

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
    if let Estimate::Measured(measured) = estimate {
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
