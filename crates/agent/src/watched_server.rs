//! One server, as the monitor's loop knows it: its last readings, and what of them went into the history.

use crate::history::HistoryStore;
use crate::objectives::ServerAnswer;
use crate::series::ServerNow;
use console::sample_view::Shows;
use console::watch_view::VerdictView;
use diagnose::Recent;
use diagnose::host::{Roots, disk};
use diagnose::verdict::Window;
use fleet::{Address, ServerName};
use std::path::Path;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// One server, as the loop knows it.
pub(crate) struct WatchedServer {
    pub(crate) recent: Recent,
    pub(crate) on_this_host: bool,
    /// The data directory, and the disk that holds it.
    data_disk: Option<(String, Option<String>)>,
    pub(crate) why_not: Option<String>,
    kept_at: Option<Instant>,
    pub(crate) reach: Address,
    pub(crate) asked_by: CancellationToken,
}

impl WatchedServer {
    /// One that is asked, until `asked_by` is cancelled.
    pub(crate) fn new(window: Duration, reach: Address, asked_by: CancellationToken) -> Self {
        Self {
            recent: Recent::new(window),
            on_this_host: false,
            data_disk: None,
            why_not: Some("not asked yet".to_owned()),
            kept_at: None,
            reach,
            asked_by,
        }
    }

    /// What it last said, or why nothing.
    pub(crate) fn answer(&self) -> ServerAnswer<'_> {
        let why = || self.why_not.as_deref().unwrap_or("the first reading is under way");
        self.recent.last_server().map_or_else(|| ServerAnswer::Nothing(why()), ServerAnswer::Reading)
    }

    /// The last reading goes into the history, once.
    pub(crate) fn keep(
        &mut self,
        name: &ServerName,
        window: &Window,
        lag_ms: Option<f64>,
        verdict: &VerdictView,
        kept: &HistoryStore,
    ) {
        let at = self.recent.server_read_at();
        if at == self.kept_at {
            return;
        }
        self.kept_at = at;
        if let (Some(at), Some(sample)) = (at, self.recent.latest_server()) {
            let quantiles = window.server.as_ref().and_then(|sample| Shows::of(&sample.quantiles));
            let sample = Shows::of(&sample);
            kept.server(name.as_str(), at, &ServerNow { sample, quantiles, lag_ms }, verdict);
        }
    }

    /// The disk of its data directory, as last looked up.
    pub(crate) fn known_disk(&self) -> Option<String> {
        self.data_disk.as_ref()?.1.clone()
    }

    /// The disk of its data directory, looked up when the server first tells of one, and when that changes.
    pub(crate) fn data_disk(&mut self, window: &Window) -> Option<String> {
        let directory = &window.server.as_ref().filter(|_| self.on_this_host)?.settings.datadir;
        if self.data_disk.as_ref().is_none_or(|(known, _)| known != directory) {
            let disk = disk::holding(Path::new(directory), &Roots::default().sys);
            self.data_disk = Some((directory.clone(), disk));
        }
        self.known_disk()
    }
}
