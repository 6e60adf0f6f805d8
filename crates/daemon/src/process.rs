//! The running process: the engine, the configuration in force, the admin server. Reload takes all of a new
//! configuration or nothing of it, and remembers which for the status page.

use crate::admin_server::{AdminServer, ReadyAdmin};
use crate::engine::Engine;
use crate::{recorder, systemd};
use config::{AdminAccess, Sourced};
use console::PendingReport;
use console::admin::{self, Live};
use console::control::server::{Controlled, DrainRequest, RecordRequest};
use console::control::{self, Directory};
use console::objectives::{Objectives, WebhookSender};
use console::own_limit::OwnLimit;
use console::status_view::{ProcessView, ReloadView, StatusView};
use insight::Since;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// What was counted is added up within this time when a process stops, or it is not told any more.
const LAST_LOOK: Duration = Duration::from_secs(1);

/// What `/healthz` says meanwhile: whoever goes by it sends clients elsewhere.
const STOPS: &str = "the router stops: it accepts no new clients";

/// Reads the configuration once more, with the account that it names, and starts what calls its webhook.
pub type ReadAgain = Box<dyn Fn() -> anyhow::Result<(Sourced, Option<WebhookSender>)> + Send + Sync>;

/// Where a process comes from: what it is read from and started by again.
pub struct Origin {
    /// For a reload.
    pub read: ReadAgain,
    /// The program and its arguments, with those that have it take over from this one.
    pub command_line: Vec<OsString>,
    /// Where systemd wants to hear of it (`NOTIFY_SOCKET`).
    pub notify_socket: Option<String>,
}

/// Everything that lives from start to end.
pub struct Process {
    engine: Arc<Engine>,
    objectives: Objectives,
    /// Cancelled when nobody judges objectives any more.
    judging: CancellationToken,
    origin: Origin,
    started: Instant,
    stopping: AtomicBool,
    /// Nobody records from this process any more.
    leaves: Arc<AtomicBool>,
    changing: Mutex<Changing>,
    own_limit: OwnLimit,
    /// What `/metrics` said when the last session had ended, once it has stopped; `None`: not in time.
    last_metrics: OnceLock<Option<String>>,
}

/// What a reload changes. Locked for moments, never over an await.
struct Changing {
    sourced: Sourced,
    access: Arc<AdminAccess>,
    admin: Option<AdminServer>,
    reload: Option<Reload>,
}

#[derive(Clone)]
struct Reload {
    accepted: bool,
    at: Instant,
    notes: Vec<String>,
}

impl Process {
    /// Of an engine that runs by this configuration; `hook` is told of incidents.
    pub fn new(engine: Engine, hook: Option<WebhookSender>, origin: Origin, sourced: Sourced) -> Self {
        let (engine, judging) = (Arc::new(engine), CancellationToken::new());
        let asked = engine.clone();
        let objectives = &sourced.config.objectives;
        let objectives =
            Objectives::start(objectives, hook, move || asked.report(Since::Start), judging.clone());
        let access = Arc::new(sourced.config.admin_access.clone());
        let changing = Mutex::new(Changing { sourced, access, admin: None, reload: None });
        Self {
            engine,
            objectives,
            judging,
            origin,
            started: Instant::now(),
            stopping: AtomicBool::new(false),
            leaves: Arc::default(),
            changing,
            own_limit: OwnLimit::default(),
            last_metrics: OnceLock::new(),
        }
    }

    /// What it consists of.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Why the data plane cannot go on; never, where it can.
    pub async fn failed(&self) -> String {
        let Some((_, mut failure)) = self.engine.life() else { return std::future::pending().await };
        match failure.wait_for(Option::is_some).await {
            Ok(why) => why.clone().unwrap_or_default(),
            // Stopped in order.
            Err(_) => std::future::pending().await,
        }
    }

    /// Over when this process no longer speaks for the router: another has taken over, or this one has
    /// stopped.
    pub fn superseded(&self) -> impl Future<Output = ()> + Send + use<> {
        self.judging.clone().cancelled_owned()
    }

    /// Where systemd wants to hear of it.
    pub(crate) fn notify_socket(&self) -> Option<&str> {
        self.origin.notify_socket.as_deref()
    }

    /// Carries out commands of this host's user (drain, record), until we stop or `moved` is set.
    pub(crate) fn serve_commands(
        self: &Arc<Self>,
        directory: Directory,
        address: String,
        moved: Arc<AtomicBool>,
    ) -> std::io::Result<()> {
        control::server::serve(directory, address, self.clone(), self.leaves.clone(), moved)
    }

    /// What this process is known by on this host, by the configuration in force.
    pub(crate) fn control_address(&self) -> String {
        control::address(&self.changing().sourced.config)
    }

    /// Where the admin server really listens.
    pub fn admin_address(&self) -> Option<SocketAddr> {
        self.changing().admin.as_ref().map(|admin| admin.address)
    }

    /// Sessions open now.
    pub(crate) fn sessions(&self) -> u64 {
        self.engine.status().listeners.iter().map(|listener| listener.sessions).sum()
    }

    /// How long sessions may take to end when we stop.
    pub(crate) fn stop_deadline(&self) -> Duration {
        self.changing().sourced.config.router.rebalance.drain_deadline
    }

    /// Serves the admin address in the background, in place of the one before.
    pub fn serve_admin(self: &Arc<Self>, ready: ReadyAdmin) {
        let ReadyAdmin { listener, server, paused } = ready;
        tokio::spawn(admin::serve(listener, self.clone(), server.stop.clone()));
        if let Some(before) = self.changing().admin.replace(server) {
            before.stop.cancel();
        }
        if let Some(paused) = paused {
            paused.replaced();
        }
    }

    /// Reads the configuration again and takes it over, or says why not and changes nothing.
    pub(crate) async fn reload(self: &Arc<Self>) {
        let reload = match self.take_over().await {
            Ok(notes) if notes.is_empty() => {
                tracing::info!("configuration read again: nothing changed");
                Reload { accepted: true, at: Instant::now(), notes: vec!["nothing changed".to_owned()] }
            }
            Ok(notes) => {
                tracing::info!("configuration read again: {}", notes.join("; "));
                Reload { accepted: true, at: Instant::now(), notes }
            }
            Err(error) => {
                let notes: Vec<String> = format!("{error:#}").lines().map(str::to_owned).collect();
                for note in &notes {
                    tracing::error!("reload rejected, keeping the previous configuration: {note}");
                }
                Reload { accepted: false, at: Instant::now(), notes }
            }
        };
        if reload.accepted {
            self.store_sockets();
        }
        self.changing().reload = Some(reload);
    }

    async fn take_over(self: &Arc<Self>) -> anyhow::Result<Vec<String>> {
        let before = self.changing().sourced.config.clone();
        let (sourced, hook) = (self.origin.read)()?;
        let asked_for = self.changing().admin.as_ref().map(|admin| admin.asked_for);
        let admin = match sourced.config.admin {
            Some(address) if asked_for != Some(address) => {
                let in_the_way =
                    self.changing().admin.as_ref().and_then(|admin| admin.in_the_way_of(address));
                Some(ReadyAdmin::bind_in_place_of(in_the_way, address).await?)
            }
            _ => None,
        };
        // Nothing of the new configuration is in force up to here, and nothing below can fail but the first
        // line, which then changes nothing.
        let mut notes = self.engine.reconfigure(&sourced.config)?;
        notes.extend(config::changed(&before, &sourced.config));
        self.objectives.change(&sourced.config.objectives, hook);
        let off = sourced.config.admin.is_none();
        {
            let mut changing = self.changing();
            changing.access = Arc::new(sourced.config.admin_access.clone());
            changing.sourced = sourced;
        }
        if let Some(ready) = admin {
            self.serve_admin(ready);
        } else if off && let Some(admin) = self.changing().admin.take() {
            admin.stop.cancel();
        }
        Ok(notes)
    }

    /// Every listening socket once more, the admin address's too, for a process that takes over.
    pub(crate) fn listening(&self) -> Vec<OwnedFd> {
        let mut sockets = self.engine.listening();
        sockets.extend(self.changing().admin.as_ref().and_then(|admin| admin.ear.try_clone().ok()));
        sockets
    }

    /// Leaves every listening socket with systemd, for the process after this one, should this one die.
    pub fn store_sockets(&self) {
        systemd::store(self.notify_socket(), &self.listening());
    }

    /// Another process serves our sockets from now on.
    pub(crate) fn hand_over(&self) {
        // The one that takes over judges all new sessions; two would tell everything twice.
        self.judging.cancel();
        self.leaves.store(true, Relaxed);
        self.engine.hand_over();
        if let Some(admin) = self.changing().admin.take() {
            admin.stop.cancel();
        }
    }

    /// Starts this program anew, with the order to take over.
    pub(crate) fn renew(&self) {
        if let Some(why) = cannot_be_renewed(std::process::id()) {
            tracing::error!("USR2: {why}; this process continues");
            return;
        }
        let [program, words @ ..] = &self.origin.command_line[..] else { return };
        let mut command = tokio::process::Command::new(program);
        command.args(words);
        // systemd's watchdog is for this process's number; without one it is for whichever process serves.
        command.env_remove("WATCHDOG_PID");
        match command.spawn() {
            Ok(mut child) => {
                tracing::info!(
                    pid = child.id(),
                    "USR2: started the new process; it takes over when it is ready"
                );
                tokio::spawn(async move {
                    if let Ok(status) = child.wait().await {
                        tracing::error!(%status, "the process that was to take over has ended");
                    }
                });
            }
            Err(error) => {
                tracing::error!(?program, %error, "USR2: the program cannot be started again; this process continues");
            }
        }
    }

    /// What `/metrics` says now, in OpenMetrics; once this process has stopped, what it said at the end, and
    /// `None` where that was not known in time: an engine that has ended counts nothing.
    pub async fn exposition(&self) -> Option<String> {
        match self.last_metrics.get() {
            Some(last) => last.clone(),
            None => admin::exposition(self).await.ok(),
        }
    }

    /// Ends everything, within `deadline`. Returns how many sessions had to be cut.
    pub(crate) async fn stop(&self, deadline: Duration) -> usize {
        self.stopping.store(true, Relaxed);
        let cut = self.engine.empty(deadline).await;
        // Whoever sends the last values asks when nobody is left who counted.
        let last = tokio::time::timeout(LAST_LOOK, admin::exposition(self)).await;
        let _ = self.last_metrics.set(last.ok().and_then(Result::ok));
        self.engine.stop().await;
        self.judging.cancel();
        self.leaves.store(true, Relaxed);
        if let Some(admin) = self.changing().admin.take() {
            admin.stop.cancel();
        }
        cut
    }

    fn changing(&self) -> MutexGuard<'_, Changing> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Controlled for Process {
    fn drain(&self, request: &DrainRequest) -> anyhow::Result<()> {
        let DrainRequest { server, deadline_ms, force } = request;
        if !force {
            let reads_on_primary = self.changing().sourced.config.router.reads_on_primary;
            if let Some(words) = console::drain::takes_away(&self.engine.status(), server, reads_on_primary) {
                anyhow::bail!("{words}; --force drains it all the same");
            }
        }
        Ok(self.engine.drain(server, deadline_ms.map(Duration::from_millis))?)
    }

    fn undrain(&self, server: &str) -> anyhow::Result<()> {
        Ok(self.engine.undrain(server)?)
    }

    fn record(&self, command: &UnixStream, request: &RecordRequest, over: &AtomicBool) -> anyhow::Result<()> {
        recorder::record(command, request, over, |wanted| self.engine.record(wanted))
    }
}

impl Live for Process {
    fn status(&self) -> StatusView {
        let mut status = self.engine.status();
        (status.objectives, status.webhook) = self.objectives.view();
        let changing = self.changing();
        status.process = ProcessView {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            stopping: self.stopping.load(Relaxed),
            uptime_s: self.started.elapsed().as_secs_f64(),
            config: changing.sourced.file.as_ref().map(|file| file.display().to_string()),
            reload: changing.reload.as_ref().map(|reload| ReloadView {
                accepted: reload.accepted,
                age_s: reload.at.elapsed().as_secs_f64(),
                notes: reload.notes.clone(),
            }),
            held_back: self.own_limit.held_back(),
        };
        status
    }

    fn troubles(&self) -> Vec<String> {
        let stops = self.stopping.load(Relaxed).then(|| STOPS.to_owned());
        stops.into_iter().chain(self.engine.troubles()).collect()
    }

    fn report(&self, since: Since) -> PendingReport {
        self.engine.report(since)
    }

    fn access(&self) -> Arc<AdminAccess> {
        self.changing().access.clone()
    }
}

/// Why the process of this number cannot leave its place to one that it starts.
fn cannot_be_renewed(pid: u32) -> Option<&'static str> {
    (pid == 1).then_some("this is process 1 of its container, which ends with it, the new process too")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity;
    use config::{Config, Listener, ZeroHop};
    use fleet::{Address, ListenerRole};
    use router::Sockets;

    #[test]
    fn the_first_process_of_a_container_stays() {
        assert!(cannot_be_renewed(1).is_some_and(|why| why.contains("container")));
        assert_eq!(cannot_be_renewed(2), None);
    }

    async fn process() -> Process {
        let listener = Listener::new(Address::tcp("127.0.0.1", 0), ListenerRole::Reader);
        let mut config = Config::bare(vec!["127.0.0.1:1".parse().unwrap()], vec![listener]);
        config.router.zero_hop = ZeroHop::Off;
        let sourced = Sourced { config, file: None };
        let (identity, mut sockets) = (identity::of(&sourced), Sockets::default());
        let engine = Engine::start(&sourced.config, identity, &mut sockets).await.unwrap();
        let read: ReadAgain = Box::new(|| anyhow::bail!("there is no file"));
        let origin = Origin { read, command_line: Vec::new(), notify_socket: None };
        Process::new(engine, None, origin, sourced)
    }

    #[tokio::test]
    async fn what_was_counted_is_told_when_it_has_stopped() {
        let process = process().await;
        assert_eq!(process.stop(Duration::ZERO).await, 0);
        let last = process.exposition().await.unwrap();
        assert!(last.contains("\nheadroom_listener_accepted_total{"), "{last}");
    }

    #[tokio::test]
    async fn one_that_accepts_nobody_any_more_does_not_say_that_it_is_healthy() {
        let process = process().await;
        assert!(!process.troubles().contains(&STOPS.to_owned()));
        process.stop(Duration::ZERO).await;
        assert_eq!(process.troubles(), [STOPS]);
    }
}
