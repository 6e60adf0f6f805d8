//! What the task that publishes snapshots receives.

use crate::answer::Answer;
use crate::ask::AskError;
use crate::survey::ServerId;
use crate::zone::metadata::MetadataError;
use config::FleetConfig;
use fleet::{ServerName, Zone};
use std::net::IpAddr;

pub(super) enum Command {
    Polled {
        id: ServerId,
        outcome: Box<Result<Answer, AskError>>,
    },
    Suspect {
        server: ServerName,
        why: String,
    },
    Reconfigure(Box<FleetConfig>),
    OwnZone(Result<Zone, MetadataError>),
    /// What is known of epochs was written to its file, or why not.
    Remembered {
        trouble: Option<String>,
    },
    Resolved {
        host: String,
        addresses: Vec<IpAddr>,
    },
    #[cfg(test)]
    Panic,
    /// Every task that asks a server ends without a word.
    #[cfg(test)]
    EndPolls,
}
