//! One file a command: its flags, and what it does with the crates below.

pub(crate) mod agent;
pub(crate) mod completions;
#[cfg(feature = "lab")]
pub(crate) mod demo;
pub(crate) mod drain;
pub(crate) mod failover;
pub(crate) mod fleet;
pub(crate) mod guard;
pub(crate) mod knob;
#[cfg(feature = "lab")]
pub(crate) mod lab;
pub(crate) mod load;
pub(crate) mod man;
pub(crate) mod measure;
pub(crate) mod plan;
pub(crate) mod probe;
pub(crate) mod record;
pub(crate) mod replay;
pub(crate) mod report;
pub(crate) mod route;
pub(crate) mod status;
pub(crate) mod switchover;
pub(crate) mod top;
pub(crate) mod trial;
pub(crate) mod watch;
pub(crate) mod zero_hop;
