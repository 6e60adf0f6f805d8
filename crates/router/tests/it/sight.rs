//! What a router is told of the servers, made up: all reads are born in zone a, which is its own.

use fleet::{
    Demand, DemandSource, KnownZone, Role, Server, Snapshot, WriterStatus, Zone, ZoneShare, ZoneSource,
};
use std::time::Instant;

/// The writer is whoever of them is primary.
pub(crate) fn snapshot(round: u64, servers: Vec<Server>) -> Snapshot {
    let writer = match servers.iter().find(|s| s.role == Role::Primary) {
        Some(primary) => WriterStatus::Known { server: primary.name.clone() },
        None => WriterStatus::Unknown { why: "nobody is writable".to_owned() },
    };
    let zone = Zone::new("a");
    Snapshot {
        round,
        settled: round > 0,
        servers,
        writer,
        own_zone: Some(KnownZone { zone: zone.clone(), by: ZoneSource::Rule }),
        demand: Demand {
            zones: vec![ZoneShare { zone, share: 1.0 }],
            source: DemandSource::StatementCounters,
            reads_per_second: 100.0,
            unplaced: 0.0,
            idle: false,
        },
        ..Snapshot::empty(Instant::now())
    }
}
