//! The task that keeps the survey: takes what comes in, publishes what follows, and sees to it that every
//! server known is being asked.

use super::command::Command;
use super::poll_task::{PollTask, PollTerms};
use crate::epoch::file::{self, Remembered};
use crate::epoch::{Fence, Memory};
use crate::survey::{Entry, ServerId, Survey};
use crate::switchover::SwitchoverState;
use crate::view::View;
use crate::view::zones::own_by_rule;
use crate::zone::metadata;
use config::{FleetConfig, OwnZone};
use fleet::{Snapshot, State};
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The metadata service answers in milliseconds or not at all.
const METADATA_DEADLINE: Duration = Duration::from_millis(500);
/// Client hosts that servers show by name, resolved at most this many at a time and kept this many.
const MOST_RESOLVED: usize = 1024;
/// A client host whose name led nowhere is asked for again after this long: the resolver may have been out.
const RESOLVE_AGAIN: Duration = Duration::from_secs(60);

/// Publishing takes at most one part in this many of the time.
const PUBLISHING_SHARE: u32 = 20;

/// A fleet whose primary has been silent for longer, or that has been without one for longer, is asked at the
/// usual pace.
const LOOKS_FOR: Duration = Duration::from_secs(60);

/// Keeps the survey.
pub(super) struct Publisher {
    survey: Survey,
    view: View,
    polls: HashMap<ServerId, PollTask>,
    metadata: SocketAddr,
    metadata_asked: bool,
    commands: mpsc::UnboundedSender<Command>,
    snapshots: watch::Sender<Arc<Snapshot>>,
    rounds: watch::Sender<u64>,
    tasks: TaskTracker,
    stop: CancellationToken,
    announced: Arc<SwitchoverState>,
    vacancy: Vacancy,
    /// Where epochs are remembered over restarts.
    epoch_file: Option<PathBuf>,
    /// What stands there, as far as we know.
    remembered: Remembered,
    /// It is being written.
    remembering: bool,
    /// Client hosts whose names led nowhere, and when that was found.
    unresolved: HashMap<String, Instant>,
}

/// Whether a new primary may have to be found: whether one is known that does not answer (its replicas may
/// say for a minute that they receive from a host that is dead), or none, and since when.
#[derive(Clone, Copy, Debug, Default)]
struct Vacancy(Option<(bool, Instant)>);

impl Vacancy {
    /// Whether one is looked for now: for [`LOOKS_FOR`] from when the one known fell silent, and as long from
    /// when none is known.
    fn is_looked_into(&mut self, snapshot: &Snapshot, now: Instant) -> bool {
        let primary = snapshot.primary();
        if !snapshot.settled || primary.is_some_and(|primary| primary.state == State::Answering) {
            self.0 = None;
            return false;
        }
        let since = self.0.filter(|(known, _)| *known == primary.is_some()).map_or(now, |(_, since)| since);
        self.0 = Some((primary.is_some(), since));
        now.saturating_duration_since(since) < LOOKS_FOR
    }
}

impl Publisher {
    pub(super) fn new(
        config: FleetConfig,
        epoch_file: Option<PathBuf>,
        metadata: SocketAddr,
        commands: mpsc::UnboundedSender<Command>,
        tasks: TaskTracker,
        stop: CancellationToken,
        announced: Arc<SwitchoverState>,
    ) -> (Self, watch::Receiver<Arc<Snapshot>>, watch::Receiver<u64>) {
        let now = Instant::now();
        let (fence, memory) = recall(epoch_file.as_deref());
        let remembered = fence.memory();
        announced.raise(fence.highest());
        let (survey, view) = (Survey::new(config, now), View::with(fence, memory));
        let (snapshots, receiver) = watch::channel(Arc::new(Snapshot::empty(now)));
        let (rounds, rounds_receiver) = watch::channel(0);
        let polls = HashMap::new();
        let publisher = Self {
            survey,
            view,
            polls,
            metadata,
            metadata_asked: false,
            commands,
            snapshots,
            rounds,
            tasks,
            stop,
            announced,
            vacancy: Vacancy::default(),
            epoch_file,
            remembered,
            remembering: false,
            unresolved: HashMap::new(),
        };
        (publisher, receiver, rounds_receiver)
    }

    /// An empty survey with the configuration and the readers of this one.
    pub(super) fn anew(&self) -> Self {
        Self {
            survey: Survey::new(self.survey.config.clone(), Instant::now()),
            view: View::after(&self.view),
            polls: HashMap::new(),
            metadata: self.metadata,
            metadata_asked: false,
            commands: self.commands.clone(),
            snapshots: self.snapshots.clone(),
            rounds: self.rounds.clone(),
            tasks: self.tasks.clone(),
            stop: self.stop.clone(),
            announced: self.announced.clone(),
            vacancy: Vacancy::default(),
            epoch_file: self.epoch_file.clone(),
            remembered: self.remembered.clone(),
            remembering: self.remembering,
            unresolved: HashMap::new(),
        }
    }

    pub(super) async fn run(&mut self, inbox: &mut mpsc::UnboundedReceiver<Command>) {
        let stop = self.stop.clone();
        self.send_visitors();
        // What came in is published at once, unless publishing (a large fleet) would take more than its share
        // of time.
        let mut due = Some(tokio::time::Instant::now());
        let mut earliest = tokio::time::Instant::now();
        loop {
            let next = due.unwrap_or(earliest + self.survey.config.interval);
            tokio::select! {
                () = stop.cancelled() => break,
                Some(command) = inbox.recv() => {
                    self.take(command);
                    // What came in together is judged together.
                    while let Ok(command) = inbox.try_recv() {
                        self.take(command);
                    }
                    due = Some(earliest);
                }
                () = tokio::time::sleep_until(next) => {}
            }
            self.look_after_visitors();
            let now = tokio::time::Instant::now();
            if now >= due.unwrap_or(next) {
                self.publish();
                due = None;
                let finished = tokio::time::Instant::now();
                earliest = finished + (finished - now) * PUBLISHING_SHARE;
            }
        }
    }

    fn take(&mut self, command: Command) {
        match command {
            Command::Polled { id, outcome } => {
                if (*outcome).as_ref().is_ok_and(|answer| answer.announced != fleet::Announcement::Nothing) {
                    self.wake_all();
                }
                self.survey.take(id, *outcome, Instant::now());
                self.count_clients(id);
                self.ask_own_zone();
            }
            Command::Suspect { server, why } => {
                let id = self.survey.entries.values().find(|e| e.name == server).map(|e| e.id);
                if let Some(polls) = id.and_then(|id| self.polls.get(&id)) {
                    tracing::debug!(%server, why, "under suspicion");
                    polls.poke();
                }
                if self.snapshots.borrow().primary().is_some_and(|primary| primary.name == server) {
                    self.look_for_a_primary();
                }
            }
            Command::Reconfigure(config) => self.survey.reconfigure(*config, Instant::now()),
            Command::OwnZone(outcome) => self.view.placement.metadata = Some(outcome),
            Command::Remembered { trouble } => {
                self.remembering = false;
                self.view.memory = Memory { is_kept: trouble.is_none(), trouble };
            }
            Command::Resolved { host, addresses } if addresses.is_empty() => self.led_nowhere(host),
            Command::Resolved { host, addresses } => drop(self.view.resolved.insert(host, addresses)),
            #[cfg(test)]
            Command::Panic => panic!("a fault made on purpose"),
            #[cfg(test)]
            Command::EndPolls => {
                self.polls.values().filter_map(|v| v.task.as_ref()).for_each(tokio::task::AbortHandle::abort);
            }
        }
    }

    /// Ends visitors that are stuck, lets go of those that have ended, and starts those that are missing.
    fn look_after_visitors(&mut self) {
        for id in self.survey.overdue(Instant::now()) {
            if let (Some(entry), Some(_)) = (self.survey.entries.get(&id), self.polls.remove(&id)) {
                tracing::warn!(server = %entry.name, "whatever asks it is stuck; another one begins");
            }
        }
        self.polls.retain(|_, polls| !polls.has_ended());
        self.send_visitors();
    }

    /// Starts a task for every server that has none, ends those of servers that no longer exist, and starts
    /// anew those whose address or account changed, or where their names may lead.
    fn send_visitors(&mut self) {
        let how = PollTerms::of(&self.survey.config);
        let survey = &self.survey;
        self.polls.retain(|id, polls| {
            let leads = |entry: &Entry| survey.must_lead_into(entry) == polls.inside.as_ref();
            let stays = |entry: &Entry| entry.reach == polls.reach && leads(entry);
            survey.entries.get(id).is_some_and(stays) && polls.how == how
        });
        for (id, entry) in &survey.entries {
            if !self.polls.contains_key(id) {
                let (stop, tell) = (self.stop.child_token(), self.commands.clone());
                let inside = survey.must_lead_into(entry).cloned();
                let announced = self.announced.clone();
                let (mut polls, task) = PollTask::start(entry, how.clone(), inside, tell, announced, stop);
                polls.task = Some(self.tasks.spawn(task).abort_handle());
                self.polls.insert(*id, polls);
            }
        }
    }

    /// Every server is asked more often for a moment: a primary may have taken another one's place.
    fn look_for_a_primary(&mut self) {
        self.announced.looks_for_a_primary(Instant::now());
        self.wake_all();
    }

    fn wake_all(&self) {
        self.polls.values().for_each(PollTask::wake);
    }

    fn publish(&mut self) {
        let now = Instant::now();
        let snapshot = self.view.snapshot(&self.survey, now);
        if self.vacancy.is_looked_into(&snapshot, now) {
            self.look_for_a_primary();
        }
        self.snapshots.send_replace(Arc::new(snapshot));
        self.announced.raise(self.view.fence.highest());
        self.remember();
        let rounds = self.survey.entries.values().map(|entry| entry.looks).min().unwrap_or(0);
        self.rounds.send_replace(rounds);
    }

    /// Writes down what is new of epochs. A disk that hangs delays nobody.
    fn remember(&mut self) {
        let Some(path) = self.epoch_file.clone().filter(|_| !self.remembering) else { return };
        let new = self.view.fence.memory();
        if new == self.remembered {
            return;
        }
        (self.remembered, self.remembering) = (new.clone(), true);
        let tell = self.commands.clone();
        self.tasks.spawn_blocking(move || {
            let trouble = file::write(&path, &new).err().map(|error| {
                let why = format!("the epoch file {} cannot be written: {error}", path.display());
                tracing::error!("{why}");
                why
            });
            let _ = tell.send(Command::Remembered { trouble });
        });
    }

    fn count_clients(&mut self, id: ServerId) {
        let known = &self.survey.entries;
        self.view.estimator.keep(|id| known.contains_key(&id));
        let clients = known.get(&id).and_then(|e| e.answer.as_ref()).and_then(|a| a.clients.as_ref());
        let Some(clients) = clients else { return };
        self.view.estimator.take(id, clients);
        let now = Instant::now();
        let unknown: Vec<String> = self
            .view
            .estimator
            .hosts()
            .filter(|host| host.parse::<IpAddr>().is_err() && *host != "localhost" && !host.starts_with('('))
            .filter(|host| self.is_to_be_resolved(host, now))
            .map(str::to_owned)
            .collect();
        for host in unknown {
            if self.view.resolved.len() >= MOST_RESOLVED {
                break;
            }
            self.view.resolved.insert(host.clone(), Vec::new());
            let tell = self.commands.clone();
            self.tasks.spawn(async move {
                let found = tokio::net::lookup_host((host.as_str(), 0)).await;
                let addresses = found.map(|all| all.map(|a| a.ip()).collect()).unwrap_or_default();
                let _ = tell.send(Command::Resolved { host, addresses });
            });
        }
    }

    /// Whether the resolver is to be asked for a client host's name.
    fn is_to_be_resolved(&self, host: &str, now: Instant) -> bool {
        let rests = |at: &Instant| now.saturating_duration_since(*at) < RESOLVE_AGAIN;
        !self.view.resolved.contains_key(host) && !self.unresolved.get(host).is_some_and(rests)
    }

    /// A client host's name led nowhere. Of more than are kept it stays so.
    fn led_nowhere(&mut self, host: String) {
        let now = Instant::now();
        self.unresolved.retain(|_, at| now.saturating_duration_since(*at) < RESOLVE_AGAIN);
        if self.unresolved.len() < MOST_RESOLVED {
            self.view.resolved.remove(&host);
            self.unresolved.insert(host, now);
        }
    }

    /// Once the first server told how it sees us and no rule places us: asks the cloud. On a loopback there
    /// is none.
    fn ask_own_zone(&mut self) {
        let local: Vec<IpAddr> =
            self.survey.entries.values().filter_map(|e| e.answer.as_ref()?.local).collect();
        let auto = self.survey.config.own_zone == OwnZone::Auto;
        let away = local.iter().any(|ip| !ip.is_loopback());
        if self.metadata_asked || !auto || !away || own_by_rule(&self.survey).is_some() {
            return;
        }
        self.metadata_asked = true;
        let (at, tell) = (self.metadata, self.commands.clone());
        self.tasks.spawn(async move {
            let _ = tell.send(Command::OwnZone(metadata::own_zone(at, METADATA_DEADLINE).await));
        });
    }
}

/// What was remembered of epochs. A file that cannot be read is reported; the servers are asked instead.
fn recall(path: Option<&Path>) -> (Fence, Memory) {
    let Some(path) = path else { return (Fence::default(), Memory::default()) };
    match file::read(path) {
        Ok(remembered) => (Fence::from_memory(remembered), Memory { is_kept: true, trouble: None }),
        Err(error) => {
            let why = format!("the epoch file {} cannot be read: {error}", path.display());
            tracing::error!("{why}");
            (Fence::default(), Memory { is_kept: false, trouble: Some(why) })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::survey::Origin;
    use config::Matcher;
    use fleet::{Address, Server, ServerName, WriterStatus};

    /// One that nobody runs, and whose tasks tell nobody.
    fn publisher(config: FleetConfig, now: Instant) -> Publisher {
        let (commands, _inbox) = mpsc::unbounded_channel();
        let (tasks, stop, announced) =
            (TaskTracker::new(), CancellationToken::new(), SwitchoverState::new(now));
        Publisher::new(config, None, metadata::EC2, commands, tasks, stop, announced).0
    }

    #[test]
    fn a_client_host_that_the_resolver_did_not_know_is_asked_for_again_after_a_minute() {
        let (now, host) = (Instant::now(), || "app1.example.net".to_owned());
        let mut publisher = publisher(FleetConfig::default(), now);
        assert!(publisher.is_to_be_resolved(&host(), now));
        // As when it is being asked.
        publisher.view.resolved.insert(host(), Vec::new());
        assert!(!publisher.is_to_be_resolved(&host(), now));
        publisher.take(Command::Resolved { host: host(), addresses: Vec::new() });
        let led_nowhere = publisher.unresolved[&host()];
        assert!(!publisher.is_to_be_resolved(&host(), led_nowhere));
        assert!(publisher.is_to_be_resolved(&host(), led_nowhere + RESOLVE_AGAIN));
        publisher.take(Command::Resolved { host: host(), addresses: vec![IpAddr::from([10, 0, 0, 1])] });
        assert!(!publisher.is_to_be_resolved(&host(), led_nowhere + RESOLVE_AGAIN * 9));
    }

    #[tokio::test]
    async fn after_a_reload_a_name_must_lead_into_the_networks_in_force() {
        let within = |net: &str| {
            let within = Some(vec![Matcher::Net(net.parse().unwrap())]);
            FleetConfig { discover_within: within, ..FleetConfig::default() }
        };
        let now = Instant::now();
        let mut publisher = publisher(within("10.0.0.0/8"), now);
        let called = Address::tcp("db2.invalid", 3306);
        let entry = Entry::new(7, ServerName::new("db2"), called.clone(), called, Origin::Discovered, now);
        publisher.survey.entries.insert(7, entry);
        let inside = |publisher: &Publisher| publisher.polls[&7].inside.as_ref().map(ToString::to_string);
        publisher.send_visitors();
        assert_eq!(inside(&publisher).as_deref(), Some("10.0.0.0/8"));
        publisher.take(Command::Reconfigure(Box::new(within("10.1.0.0/16"))));
        publisher.look_after_visitors();
        assert_eq!(inside(&publisher).as_deref(), Some("10.1.0.0/16"));
        publisher.stop.cancel();
    }

    #[test]
    fn a_new_primary_is_looked_for_while_the_one_known_is_silent_and_again_once_none_is_known() {
        let (start, mut vacancy) = (Instant::now(), Vacancy::default());
        let db1 = ServerName::new("db1");
        let snapshot = |known: bool, state: State| {
            let mut server = Server::unasked(db1.clone(), Address::tcp("127.0.0.1", 3306));
            server.state = state;
            let writer = match known {
                true => WriterStatus::Known { server: db1.clone() },
                false => WriterStatus::Unknown { why: String::new() },
            };
            Snapshot { settled: true, servers: vec![server], writer, ..Snapshot::empty(start) }
        };
        let silent = || State::Silent { why: String::new() };
        let mut looks = |snapshot: Snapshot, second| {
            vacancy.is_looked_into(&snapshot, start + Duration::from_secs(second))
        };
        assert!(!looks(snapshot(true, State::Answering), 0));
        assert!(looks(snapshot(true, silent()), 1) && looks(snapshot(true, silent()), 60));
        assert!(!looks(snapshot(true, silent()), 61), "a minute is over");
        assert!(looks(snapshot(false, silent()), 70) && looks(snapshot(false, silent()), 129));
        assert!(!looks(snapshot(false, silent()), 130));
        assert!(!looks(snapshot(true, State::Answering), 131) && looks(snapshot(true, silent()), 132));
        let early = Snapshot { settled: false, ..snapshot(false, silent()) };
        assert!(!looks(early, 133), "not all were asked yet");
    }
}
