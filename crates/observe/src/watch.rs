//! The thin loop around the decisions: one task a server asks it, one task keeps the survey and publishes
//! snapshots.
//!
//! A server that hangs delays nobody: its own task waits for it, up to the deadline. Whatever comes in is
//! judged and published at once; a tick of one interval keeps the snapshot moving when nothing comes in.
//!
//! Nothing here may die unseen. A task that asks a server and ends or panics is started anew; one that is
//! stuck leaves an answer that grows old, and an old answer is silence ([`FleetConfig::answer_holds`]), here
//! and to whoever reads the snapshot. The task that keeps the survey, too, begins anew after a panic.

mod caught;
mod command;
mod poll_task;
mod publisher;

use crate::login::LoginProbe;
use crate::switchover::SwitchoverState;
use caught::caught;
use command::Command;
use config::{AskingBudget, FleetConfig};
use fleet::{ServerName, Snapshot};
use publisher::Publisher;
use std::net::SocketAddr;
use std::path::PathBuf;
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
    logins: LoginProbe,
    announced: Arc<SwitchoverState>,
}

/// A handle to report servers that look ill; cheap to clone and to send.
#[derive(Clone)]
pub struct Suspicion {
    commands: mpsc::UnboundedSender<Command>,
}

impl Watcher {
    /// Starts on the current tokio runtime. Credentials are already complete in `config.credentials`.
    pub fn start(config: FleetConfig) -> Self {
        Self::start_with(config, None, crate::zone::metadata::EC2)
    }

    /// The same, with epochs remembered in a file: a restart forgets none.
    pub fn start_remembering(config: FleetConfig, epoch_file: Option<PathBuf>) -> Self {
        Self::start_with(config, epoch_file, crate::zone::metadata::EC2)
    }

    /// The same, with the address of the metadata service given.
    fn start_with(config: FleetConfig, epoch_file: Option<PathBuf>, metadata: SocketAddr) -> Self {
        let (commands, inbox) = mpsc::unbounded_channel();
        let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
        let announced = SwitchoverState::new(Instant::now());
        let (tell, ended, seen) = (commands.clone(), stop.clone(), announced.clone());
        let (who, deadline) = (config.credentials.clone(), config.deadline);
        let (publisher, snapshots, rounds) =
            Publisher::new(config, epoch_file, metadata, tell, tasks.clone(), ended, seen);
        tasks.spawn(keep(publisher, inbox, stop.clone()));
        let logins = LoginProbe::new(who, deadline, snapshots.clone());
        Self { snapshots, rounds, commands, tasks, stop, logins, announced }
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

    /// When a switchover is announced and `drained` is set, the server is told that writes are held here. Set
    /// by whoever routes them, once no writer session is left on the server that announces.
    pub fn confirm_hold_with(&self, drained: Arc<AtomicBool>) {
        self.announced.confirm_with(drained);
    }

    /// A handle to try logins.
    pub fn login_probe(&self) -> LoginProbe {
        self.logins.clone()
    }

    /// Takes over a changed configuration. Servers and connections that it does not touch stay as they are.
    pub fn reconfigure(&self, config: FleetConfig) {
        self.logins.reconfigure(&config);
        let _ = self.commands.send(Command::Reconfigure(Box::new(config)));
    }

    /// Stops asking and closes every control connection.
    pub async fn stop(self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

/// Keeps the survey until it is stopped; after a panic with an empty survey and the configuration in force.
async fn keep(
    mut publisher: Publisher,
    mut inbox: mpsc::UnboundedReceiver<Command>,
    stop: CancellationToken,
) {
    const PAUSE: Duration = Duration::from_millis(500);
    while let Err(why) = caught(publisher.run(&mut inbox)).await {
        tracing::error!(why, "keeping the survey of servers failed; it begins anew");
        publisher = publisher.anew();
        tokio::select! {
            () = stop.cancelled() => break,
            () = tokio::time::sleep(PAUSE) => {}
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Suspicion {
    /// `server` failed somebody; `why` goes to the log. Asked too often it is still asked only once at a
    /// time.
    pub fn suspect(&self, server: &ServerName, why: &str) {
        let _ = self.commands.send(Command::Suspect { server: server.clone(), why: why.to_owned() });
    }
}

/// One complete look at the fleet: every server found is asked twice (lag and rates need two samples), then
/// the watching ends. Servers that do not answer do not prolong it beyond a few deadlines.
pub async fn survey(config: &FleetConfig) -> Snapshot {
    const ROUNDS: u64 = 3;
    let patience = (config.deadline + config.interval) * 6 + Duration::from_secs(1);
    // It has left before it could matter to the others.
    let asking = AskingBudget { counted: false, ..config.asking };
    let watcher = Watcher::start(FleetConfig { asking, ..config.clone() });
    let mut rounds = watcher.rounds.clone();
    let _ = tokio::time::timeout(patience, rounds.wait_for(|rounds| *rounds >= ROUNDS)).await;
    let snapshot = watcher.snapshots.borrow().as_ref().clone();
    watcher.stop().await;
    snapshot
}

#[cfg(test)]
mod tests {
    use super::*;
    use fleet::Address;
    use lab::scripted::{Reply, Script, ScriptedServer};
    use std::time::Instant;

    async fn watched() -> (ScriptedServer, Watcher) {
        let server = ScriptedServer::start(Script::new("8.0.39", |_, _| Reply::Usual)).await.unwrap();
        let at = server.address();
        let config = FleetConfig {
            seeds: vec![Address::tcp(at.ip().to_string(), at.port())],
            interval: Duration::from_millis(50),
            ..FleetConfig::default()
        };
        let watcher = Watcher::start(config);
        (server, watcher)
    }

    /// Waits until the server was connected to more than `than` times: each look at this one takes a new
    /// connection, because it does not say who it is.
    async fn asked_more(server: &ScriptedServer, than: u32) {
        let deadline = Instant::now() + Duration::from_secs(20);
        while server.connections() <= than {
            assert!(Instant::now() < deadline, "nobody asks it any more");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    #[tokio::test]
    async fn a_task_that_ends_is_started_anew() {
        let (server, watcher) = watched().await;
        asked_more(&server, 1).await;
        watcher.commands.send(Command::EndPolls).unwrap();
        // What was under way may still come; five more cannot be left over.
        asked_more(&server, server.connections() + 5).await;
        watcher.stop().await;
    }

    #[tokio::test]
    async fn a_keeper_that_panics_begins_anew_and_rounds_count_on() {
        let (server, watcher) = watched().await;
        asked_more(&server, 1).await;
        let mut snapshots = watcher.snapshots();
        let before = snapshots.borrow().round;
        watcher.commands.send(Command::Panic).unwrap();
        asked_more(&server, server.connections() + 3).await;
        let newer = |s: &Arc<Snapshot>| s.round > before + 3 && s.servers.len() == 1;
        let wait = tokio::time::timeout(Duration::from_secs(20), snapshots.wait_for(newer));
        assert!(wait.await.expect("snapshots go on").is_ok(), "readers keep their channel");
        watcher.stop().await;
    }
}
