//! A configuration and the file it came from, and how both are named to people.

use crate::Config;
use std::path::PathBuf;

/// A configuration and the file it came from.
#[derive(Clone, Debug)]
pub struct Sourced {
    /// The checked configuration, flags applied.
    pub config: Config,
    /// The file; `None` when flags stood in its place.
    pub file: Option<PathBuf>,
}

impl Sourced {
    /// The file by its name, or that there is none.
    pub fn name(&self) -> String {
        self.file.as_ref().map_or("the command line".to_owned(), |file| file.display().to_string())
    }

    /// How many seeds, zones and listeners it has, in words.
    pub fn parts(&self) -> String {
        let count = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
        let parts = [
            count(self.config.fleet.seeds.len(), "seed"),
            count(self.config.fleet.zones.len(), "zone"),
            count(self.config.listeners.len(), "listener"),
        ];
        parts.join(", ")
    }
}
