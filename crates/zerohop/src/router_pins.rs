//! What a router that we started (a demo, a bench) has pinned in the kernel.

use crate::pins;
use std::path::PathBuf;

/// The pins of the router with one configuration file; removed when this is dropped, which is after the
/// router itself.
#[derive(Debug)]
pub struct RouterPins {
    file: PathBuf,
    complain: fn(&str),
}

impl RouterPins {
    /// Those of the router with this configuration file; `complain` is called with what cannot be removed.
    pub fn new(file: PathBuf, complain: fn(&str)) -> Self {
        Self { file, complain }
    }

    /// How many connections have bypassed the router.
    pub fn bypassed(&self) -> u64 {
        self.all().flat_map(|pinned| pinned.listeners).map(|listener| listener.counts.bypassed).sum()
    }

    fn all(&self) -> impl Iterator<Item = pins::PinSet> {
        let title = self.file.canonicalize().unwrap_or_else(|_| self.file.clone()).display().to_string();
        pins::list().into_iter().filter(move |pinned| pinned.title == title)
    }
}

impl Drop for RouterPins {
    fn drop(&mut self) {
        let names: Vec<String> = self.all().map(|pinned| pinned.name).collect();
        if !names.is_empty()
            && let Err(error) = pins::remove(&names)
        {
            (self.complain)(&format!("headroom: {error}"));
        }
    }
}
