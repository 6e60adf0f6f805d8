//! A build without OTLP: the log alone. It takes what the other takes, and sends nothing.

use crate::environment;
use agent::Views;
use console::service::ServiceStatus;
use daemon::process::Process;
use std::net::SocketAddr;
use std::sync::Arc;
use term::log::{self, Flush, LogFormat};
use tokio::sync::watch;

/// Where a collector is named.
const ENDPOINTS: [&str; 3] = [
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
];

/// Nothing.
pub(crate) struct Telemetry;

impl Telemetry {
    /// Begins the log; says once that this build sends nothing, where somebody seems to wish it.
    ///
    /// # Errors
    /// As [`log::start`].
    pub(crate) fn start(format: LogFormat, filter: Option<&str>) -> anyhow::Result<(Flush, Self)> {
        let flush = log::start(format, filter)?;
        let is_set = |name: &&str| environment::variable(name).is_some_and(|value| !value.trim().is_empty());
        if let Some(name) = ENDPOINTS.into_iter().find(|name| is_set(name)) {
            tracing::warn!(
                "{name} is set, and this build has no OTLP: nothing is sent. Build it with --features otlp, or let \
                 the collector scrape /metrics"
            );
        }
        Ok((flush, Self))
    }

    pub(crate) fn of_router(self, _: &Arc<Process>, _: &str) -> Self {
        self
    }

    pub(crate) fn of_agent(self, _: Views, _: SocketAddr) -> Self {
        self
    }

    pub(crate) fn of_guard(self, _: watch::Receiver<ServiceStatus>, _: SocketAddr) -> Self {
        self
    }

    pub(crate) async fn stop(self) {}
}
