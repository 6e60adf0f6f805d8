//! The thin loop around the decisions: one task a server asks it, one task keeps the book and publishes snapshots.
//!
//! A server that hangs delays nobody: its own task waits for it, up to the deadline. Whatever comes in is judged and
//! published at once; a tick of one interval keeps the snapshot moving when nothing comes in.

mod keeper;
mod visiting;

use crate::announced::Announced;
use crate::idle::Idleness;
use fleet::config::FleetConfig;
use fleet::{ServerName, Snapshot};
use keeper::{Command, Keeper};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Asks the servers and publishes snapshots until it is stopped or dropped.
pub struct Watcher {
    snapshots: watch::Receiver<Arc<Snapshot>>,
    rounds: watch::Receiver<u64>,
    commands: mpsc::UnboundedSender<Command>,
    tasks: TaskTracker,
    stop: CancellationToken,
    idleness: Idleness,
    announced: Arc<Announced>,
}

/// A handle to report servers that look ill; cheap to clone and to send.
#[derive(Clone)]
pub struct Suspicion {
    commands: mpsc::UnboundedSender<Command>,
}

impl Watcher {
    /// Starts on the current tokio runtime. Credentials are already complete in `config.credentials`.
    pub fn start(config: FleetConfig) -> Self {
        Self::start_with(config, crate::zone::metadata::EC2)
    }

    /// The same, with the address of the metadata service given.
    pub(crate) fn start_with(config: FleetConfig, metadata: SocketAddr) -> Self {
        let (commands, inbox) = mpsc::unbounded_channel();
        let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
        let announced = Announced::new(Instant::now());
        let (tell, ended, seen) = (commands.clone(), stop.clone(), announced.clone());
        let (keeper, snapshots, rounds) =
            Keeper::new(config.clone(), metadata, tell, tasks.clone(), ended, seen);
        tasks.spawn(keeper.run(inbox));
        let idleness = Idleness::new(config, snapshots.clone());
        Self { snapshots, rounds, commands, tasks, stop, idleness, announced }
    }

    /// The latest snapshot, and word of the next.
    pub fn snapshots(&self) -> watch::Receiver<Arc<Snapshot>> {
        self.snapshots.clone()
    }

    /// The data plane saw `server` fail: it is asked now, not at the next interval.
    pub fn suspect(&self, server: &ServerName, why: &str) {
        self.suspicion().suspect(server, why);
    }

    /// A handle with which others may do the same.
    pub fn suspicion(&self) -> Suspicion {
        Suspicion { commands: self.commands.clone() }
    }

    /// When a switchover is announced and `drained` is set, the server is told that writes are held here. Set by whoever
    /// routes them, once no writer session is left on the server that announces.
    pub fn confirm_hold_with(&self, drained: Arc<AtomicBool>) {
        self.announced.confirm_with(drained);
    }

    /// A handle to ask servers which of their sessions are idle.
    pub fn idleness(&self) -> Idleness {
        self.idleness.clone()
    }

    /// Takes over a changed configuration. Servers and connections that it does not touch stay as they are.
    pub fn reconfigure(&self, config: FleetConfig) {
        self.idleness.reconfigure(&config);
        let _ = self.commands.send(Command::Reconfigure(Box::new(config)));
    }

    /// Stops asking and closes every control connection.
    pub async fn stop(self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Suspicion {
    /// `server` failed somebody; `why` goes to the log. Asked too often it is still asked only once at a time.
    pub fn suspect(&self, server: &ServerName, why: &str) {
        let _ = self.commands.send(Command::Suspect { server: server.clone(), why: why.to_owned() });
    }
}

/// One complete look at the fleet: every server found is asked twice (lag and rates need two samples), then the
/// watching ends. Servers that do not answer do not prolong it beyond a few deadlines.
pub async fn survey(config: &FleetConfig) -> Snapshot {
    const ROUNDS: u64 = 3;
    let patience = (config.deadline + config.interval) * 6 + Duration::from_secs(1);
    let watcher = Watcher::start(config.clone());
    let mut rounds = watcher.rounds.clone();
    let _ = tokio::time::timeout(patience, rounds.wait_for(|rounds| *rounds >= ROUNDS)).await;
    let snapshot = watcher.snapshots.borrow().as_ref().clone();
    watcher.stop().await;
    snapshot
}
