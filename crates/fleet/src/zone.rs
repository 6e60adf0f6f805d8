//! A zone: a place whose members reach each other faster and cheaper than anybody else (an availability zone,
//! a rack, a site). Zones are compared by name; the name is whatever the operator or the cloud calls it.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

/// The name of a zone. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Zone(Arc<str>);

impl Zone {
    /// Names a zone.
    pub fn new(name: &str) -> Self {
        Self(Arc::from(name))
    }

    /// The name as it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl From<&str> for Zone {
    fn from(name: &str) -> Self {
        Self::new(name)
    }
}
