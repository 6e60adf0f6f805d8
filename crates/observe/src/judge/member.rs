//! What the judge knows of each server.

use crate::answer::{Channel, Switches};
use fleet::ServerName;

/// What is known of one server.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) name: ServerName,
    /// Answered its last look within the deadline; otherwise `facts` are of before.
    pub(crate) fresh: bool,
    /// Why it does not answer, in words; empty while it does.
    pub(crate) trouble: String,
    /// A server that names this one as its replica.
    pub(crate) listed_by: Option<ServerName>,
    /// `None` until it answered once.
    pub(crate) facts: Option<Facts>,
}

/// What a server said of itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct Facts {
    pub(crate) switches: Switches,
    pub(crate) channels: Vec<Channel>,
    /// For each channel the place in the list of the server it leads to, if it is one of ours.
    pub(crate) sources: Vec<Option<usize>>,
    /// A channel leads to a server that was not asked yet, or may: this one is below it, although the list
    /// does not say so.
    pub(crate) source_unasked: bool,
    /// The same, or it may lead to a seed that was asked and has never answered.
    pub(crate) source_unseen: bool,
    /// Set when its channels could not be asked.
    pub(crate) channels_unknown: Option<String>,
    /// It never told them, for want of a privilege or because no answer came in time: it may be a replica as
    /// well as a primary.
    pub(crate) channels_hidden: bool,
    /// What it has applied, in words.
    pub(crate) stands_at: Option<String>,
    /// In a cluster that manages its own replication: whether the cluster names it as the writer.
    pub(crate) managed_writer: Option<bool>,
    /// Its epoch, where it says it.
    pub(crate) epoch: Option<u64>,
    /// Why its word that it takes writes does not count: its epoch is over.
    pub(crate) refused: Option<String>,
}
