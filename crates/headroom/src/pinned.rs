//! What a router that we started has pinned in the kernel; removed when this is dropped, after the router itself.

use std::path::PathBuf;
use term::complain;
use zerohop::pins;

/// The pins of the router with this configuration file.
#[derive(Debug)]
pub(crate) struct Pinned(pub(crate) PathBuf);

impl Pinned {
    /// How many connections have gone past the router.
    pub(crate) fn past(&self) -> u64 {
        self.all().flat_map(|pinned| pinned.listeners).map(|listener| listener.fate.past).sum()
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
