//! A build with OTLP: the settings are read before the log begins, because spans are collected beside it;
//! what is wrong with them is logged, and the process goes on without OTLP. The variables are often those of
//! a whole host, and no data plane stays down for what somebody else's collector needs.

use crate::environment;
use agent::Views;
use console::admin::Live;
use console::service::ServiceStatus;
use daemon::process::Process;
use otlp::span::Names;
use otlp::{Exporter, Pending, Resource, Sessions, Settings, Source};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use term::log::{self, Beside, Flush, LogFormat};
use tokio::sync::watch;

/// The last values and spans may take this long when the process ends.
const FAREWELL: Duration = Duration::from_secs(2);

/// What is sent, if anything is.
pub(crate) struct Telemetry {
    settings: Option<Settings>,
    sessions: Option<Sessions>,
    /// Before anything was counted.
    started: SystemTime,
    exporter: Option<Exporter>,
}

impl Telemetry {
    /// Reads the settings and begins the log.
    ///
    /// # Errors
    /// As [`log::start`].
    pub(crate) fn start(format: LogFormat, filter: Option<&str>) -> anyhow::Result<(Flush, Self)> {
        let (settings, wrong) = match Settings::read(environment::variable) {
            Ok(settings) => (settings, None),
            Err(error) => (None, Some(error)),
        };
        let traced = settings.as_ref().filter(|settings| settings.traces.is_some());
        let (layer, sessions): (Option<Beside>, _) =
            traced.map(|settings| otlp::collect(settings.sampled)).unzip();
        let flush = log::start_beside(layer, format, filter)?;
        if let Some(error) = wrong {
            tracing::error!("nothing is sent by OTLP: {error}");
        }
        Ok((flush, Self { settings, sessions, started: SystemTime::now(), exporter: None }))
    }

    /// Sends what a router measures, and its sessions. `address` is the same for a process that takes over.
    pub(crate) fn of_router(self, process: &Arc<Process>, address: &str) -> Self {
        let (live, named) = (process.clone(), process.clone());
        let exposition = move || -> Pending<Option<String>> {
            let live = live.clone();
            Box::pin(async move { live.exposition().await })
        };
        let names = Box::new(move || Names::of(&named.status()));
        self.export("headroom-route", address, exposition, names, Box::pin(process.superseded()))
    }

    /// Sends what an agent measures.
    pub(crate) fn of_agent(self, views: Views, address: SocketAddr) -> Self {
        let text = move || {
            let view = views.borrow().clone();
            agent::metrics::text(&view).ok()
        };
        self.of_text("headroom-agent", address, text)
    }

    /// Sends what a guard says of itself.
    pub(crate) fn of_guard(self, latest: watch::Receiver<ServiceStatus>, address: SocketAddr) -> Self {
        self.of_text("headroom-guard", address, move || Some(latest.borrow().metrics.clone()))
    }

    /// Of a process without sessions, whose text is at hand.
    fn of_text(
        self,
        service: &str,
        address: SocketAddr,
        text: impl Fn() -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        let exposition = move || -> Pending<Option<String>> { Box::pin(std::future::ready(text())) };
        let never = Box::pin(std::future::pending());
        self.export(service, &address.to_string(), exposition, Box::new(Names::default), never)
    }

    fn export(
        mut self,
        service: &str,
        address: &str,
        exposition: impl Fn() -> Pending<Option<String>> + Send + Sync + 'static,
        names: Box<dyn Fn() -> Names + Send + Sync>,
        superseded: Pending<()>,
    ) -> Self {
        let Some(settings) = self.settings.take() else { return self };
        let host = probe::host();
        let (instance, version) = (format!("{host}/{address}"), env!("CARGO_PKG_VERSION"));
        let source = Source {
            resource: Resource::new(service, &instance, &host, version, &settings.attributes),
            started: self.started,
            exposition: Box::new(exposition),
            names,
            superseded,
        };
        self.exporter = Some(Exporter::start(settings, source, self.sessions.take()));
        self
    }

    /// Sends the last of it.
    pub(crate) async fn stop(self) {
        if let Some(exporter) = self.exporter {
            exporter.stop(FAREWELL).await;
        }
    }
}
