//! All servers of a configuration, asked at the same time: `observe` finds them and says who is who, and each
//! that answers gets our own questions.

use crate::server::{self, ServerFacts};
use crate::{FactsError, Finding, route};
use config::FleetConfig;
use fleet::{Server, Snapshot, State};
use tokio::task::JoinSet;

/// Asks them, and finds. The snapshot is what the listeners would route by.
pub async fn survey(config: &FleetConfig) -> (Snapshot, Vec<Finding>) {
    let snapshot = observe::survey(config).await;
    let mut asked = JoinSet::new();
    for (at, server) in snapshot.servers.iter().enumerate().filter(|(_, s)| s.state == State::Answering) {
        let (server, who, deadline) = (server.clone(), config.credentials.clone(), config.deadline);
        asked.spawn(async move { (at, server::gather::facts(&server, &who, deadline).await) });
    }
    let mut facts: Vec<Result<ServerFacts, FactsError>> =
        snapshot.servers.iter().map(|_| Err(FactsError::NotAsked)).collect();
    while let Some(answered) = asked.join_next().await {
        if let Ok((at, answer)) = answered {
            facts[at] = answer;
        }
    }
    let seed = |server: &Server| config.seeds.contains(&server.reach);
    let of_servers =
        snapshot.servers.iter().zip(&facts).flat_map(|(s, facts)| server::findings(s, seed(s), facts));
    let mut findings = route::fleet_findings(&snapshot);
    findings.extend(of_servers);
    (snapshot, findings)
}
