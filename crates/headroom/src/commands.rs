//! One file a command: its flags, and what it does with the crates below.

pub(crate) mod failover;
pub(crate) mod fleet;
pub(crate) mod knob;
#[cfg(feature = "lab")]
pub(crate) mod demo;
#[cfg(feature = "lab")]
pub(crate) mod lab;
pub(crate) mod load;
pub(crate) mod measure;
pub(crate) mod probe;
pub(crate) mod record;
pub(crate) mod replay;
pub(crate) mod switchover;
pub(crate) mod trial;
pub(crate) mod zero_hop;
