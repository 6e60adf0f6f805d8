//! How long a thread waits between two looks for quiet sessions.

use crate::shared_state::SharedState;
use std::time::Duration;

/// The shortest time between two looks for quiet sessions.
const SHORTEST_LOOK: Duration = Duration::from_millis(2);

/// The time between two looks for sessions that have to be quiet for a time, fixed or configured.
pub(crate) fn pause(shared: &SharedState, quiet: Duration) -> Duration {
    (quiet.min(shared.routing().view.config.rebalance.quiet) / 2).max(SHORTEST_LOOK)
}

/// What the time between two looks counts for at most: twice the longest that is waited between them.
pub(crate) fn counts_at_most(shared: &SharedState) -> Duration {
    shared.routing().view.config.rebalance.quiet.max(SHORTEST_LOOK * 2)
}
