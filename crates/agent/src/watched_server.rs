//! One server, as the monitor's loop knows it: its last readings, and what of them went into the history.

use crate::history::HistoryStore;
use crate::objectives::ServerAnswer;
use crate::series::ServerNow;
use crate::surroundings::Surroundings;
use console::sample_view::{ServerSampleView, Shows};
use console::watch_view::VerdictView;
use diagnose::Recent;
use diagnose::host::Roots;
use diagnose::verdict::Window;
use fleet::{Address, ServerName};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// One server, as the loop knows it.
pub(crate) struct WatchedServer {
    pub(crate) recent: Recent,
    pub(crate) on_this_host: bool,
    surroundings: Surroundings,
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
            surroundings: Surroundings::default(),
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
            let sample = ServerSampleView::of_sample(&sample);
            kept.server(name.as_str(), at, &ServerNow { sample, quantiles, lag_ms }, verdict);
        }
    }

    /// The disk of its data directory, as last looked up.
    pub(crate) fn known_disk(&self) -> Option<String> {
        self.surroundings.disk()
    }

    /// Adds what surrounds the server to its window, if it runs on this host.
    pub(crate) fn surround(&mut self, window: &mut Window, now: Instant, span: Duration) {
        let Some(sample) = window.server.as_mut().filter(|_| self.on_this_host) else { return };
        let roots = Roots::default();
        self.surroundings.look(&sample.settings, now, span, &roots.proc, &roots.sys);
        sample.missing.extend(self.surroundings.missing());
        window.data_disk = self.surroundings.disk();
        window.disks_below = self.surroundings.disks_below();
        window.server_cpus = self.surroundings.cpus();
        window.limits = self.surroundings.limits(now);
        window.space = self.surroundings.space();
        if let (Some(host), Some(tcp)) = (window.host.as_mut(), self.surroundings.tcp()) {
            host.tcp = tcp;
        }
    }
}
