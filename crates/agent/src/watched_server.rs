//! One server, as the station's loop knows it: its last readings, the verdict in force, what of it went into
//! the history.

use crate::course::ServerNow;
use crate::history::Kept;
use crate::promise::Heard;
use console::watch_view;
use diagnose::Recent;
use diagnose::host::{Roots, disk};
use diagnose::verdict::{Settler, Window};
use fleet::{Address, ServerName};
use std::path::Path;
use std::time::Instant;
use tokio_util::sync::CancellationToken;

/// One server, as the loop knows it.
pub(crate) struct Watched {
    pub(crate) recent: Recent,
    pub(crate) settling: Settler,
    pub(crate) host_settled: bool,
    pub(crate) on_this_host: bool,
    pub(crate) data_disk: Option<(String, Option<String>)>,
    pub(crate) why_not: Option<String>,
    pub(crate) kept_at: Option<Instant>,
    pub(crate) reach: Address,
    pub(crate) asked_by: CancellationToken,
}

impl Watched {
    /// What it last said, or why nothing.
    pub(crate) fn heard(&self) -> Heard<'_> {
        let why = || self.why_not.as_deref().unwrap_or("the first reading is under way");
        self.recent.last_server().map_or_else(|| Heard::Nothing(why()), Heard::Reading)
    }

    /// The last reading goes into the history, once.
    pub(crate) fn keep(
        &mut self,
        name: &ServerName,
        window: &Window,
        lag_ms: Option<f64>,
        verdict: &watch_view::VerdictView,
        kept: &Kept,
    ) {
        let at = self.recent.server_read_at();
        if at == self.kept_at {
            return;
        }
        self.kept_at = at;
        if let (Some(at), Some(sample)) = (at, self.recent.latest_server()) {
            let quantiles = window.server.as_ref().and_then(|sample| sample.quantiles);
            kept.server(name.as_str(), at, &ServerNow { sample, quantiles, lag_ms }, verdict);
        }
    }

    /// The disk of its data directory, looked up when the server first tells of one, and when that changes.
    pub(crate) fn data_disk(&mut self, window: &Window) -> Option<String> {
        let directory = &window.server.as_ref().filter(|_| self.on_this_host)?.settings.datadir;
        if self.data_disk.as_ref().is_none_or(|(known, _)| known != directory) {
            let disk = disk::holding(Path::new(directory), &Roots::default().sys);
            self.data_disk = Some((directory.clone(), disk));
        }
        self.data_disk.as_ref()?.1.clone()
    }
}
