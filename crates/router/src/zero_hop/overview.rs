//! Overview: what the status shows of zero-hop, and by what name its pins are known.

use fleet::Address;
use serde::Serialize;
use std::collections::HashMap;
use zerohop::ConnectCounts;

/// Tells one configuration's pins from another's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Letters, digits, `-` and `_`; the same for the next process of this configuration.
    pub name: String,
    /// For people: the configuration file, or the listeners.
    pub title: String,
}

/// Whether connections bypass the router.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ZeroHopStatus {
    /// Programs are in force.
    pub in_force: bool,
    /// Which, or why not.
    pub words: String,
    /// What limits the closing of bypassed sessions, if anything.
    pub limits: Vec<String>,
}

/// Whether a listener's connections bypass the router.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ListenerZeroHop {
    /// They do, with the exceptions that `words` names.
    pub in_force: bool,
    /// Which, or why not.
    pub words: String,
    pub sessions: usize,
    /// What became of connection attempts, ever.
    pub connects: ConnectCounts,
}

/// What the status shows.
#[derive(Clone, Debug, Default)]
pub(crate) struct ZeroHopOverview {
    pub(crate) whole: ZeroHopStatus,
    /// By the address as bound.
    pub(crate) listeners: HashMap<Address, ListenerZeroHop>,
}
