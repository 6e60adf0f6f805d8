//! Remembered: servers that a running router knows and that were not found from here, as replicas that only
//! the dead primary could have named.

use config::FleetConfig;
use console::admin_client::AdminClient;
use fleet::{Address, Snapshot};
use std::collections::BTreeSet;

/// What a router of this fleet remembers.
pub(super) struct Remembered {
    /// Its admin address.
    pub(super) router: String,
    /// Servers that the snapshot lacks.
    pub(super) missing: Vec<Address>,
}

/// Asks the router; `None` when none answers, or one that shares no server with the snapshot. An address
/// where discovery may not go is left out: whoever answers in the place of a router must not be able to have
/// us log in anywhere.
pub(super) async fn ask(
    router: Option<&str>,
    config: &FleetConfig,
    snapshot: &Snapshot,
) -> Option<Remembered> {
    let client = AdminClient::new(router);
    let status = client.status().await.ok()?;
    let remembered: BTreeSet<Address> =
        status.fleet.servers.iter().filter_map(|server| server.reach.parse().ok()).collect();
    let found: BTreeSet<Address> = snapshot.servers.iter().map(|server| server.reach.clone()).collect();
    if remembered.is_disjoint(&found) {
        return None;
    }
    let missing = remembered.difference(&found).filter(|address| observe::lies_inside(config, address));
    Some(Remembered { router: client.address().to_owned(), missing: missing.cloned().collect() })
}

impl Remembered {
    /// What was added, for people.
    pub(super) fn words(&self) -> String {
        let missing: Vec<String> = self.missing.iter().map(ToString::to_string).collect();
        format!("the router at {} knows of more servers: {}", self.router, missing.join(", "))
    }
}
