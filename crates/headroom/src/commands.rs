//! One file a command: its flags, and what it does with the crates below.

pub(crate) mod agent;
pub(crate) mod drain;
pub(crate) mod report;
pub(crate) mod route;
pub(crate) mod status;
pub(crate) mod top;
pub(crate) mod watch;
pub(crate) mod zero_hop;
