//! What a router that we started has pinned in the kernel; removed when this is dropped, after the router itself.

use crate::terminal::complain;
use std::path::PathBuf;
use zerohop::pins;

/// The pins of the router with this configuration file.
#[derive(Debug)]
pub(crate) struct Pinned(pub(crate) PathBuf);

impl Pinned {
    /// Whether a connection has gone past the router.
    pub(crate) fn was_used(&self) -> bool {
        self.all().flat_map(|pinned| pinned.listeners).any(|listener| listener.fate.past > 0)
    }

    fn all(&self) -> impl Iterator<Item = pins::Pinned> {
        let title = self.0.canonicalize().unwrap_or_else(|_| self.0.clone()).display().to_string();
        pins::list().into_iter().filter(move |pinned| pinned.title == title)
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        let names: Vec<String> = self.all().map(|pinned| pinned.name).collect();
        if !names.is_empty()
            && let Err(error) = pins::remove(&names)
        {
            complain(&format!("headroom: {error}"));
        }
    }
}
