//! Tests that mostly wait: they run beside the others.

mod agent_gaps;
mod agent_objectives;
mod watch_router;
