//! The thin loop of a guard: looks, decides, has it done by `attempt.rs`, and says what came of it and why.

use super::attempt::{Attempt, Operator};
use super::cut_off::{self, CutOff};
use super::decide::{Caution, Decision, Health, LockCount, NoWriter, Observation, decide};
use super::decision_log::DecisionLog;
use super::lock::{Locks, Round};
use super::record::{self, FailoverRecord, Pause};
use super::source::{Alive, SourceWatch};
use super::status::GuardStatus;
use super::undone::LastUndone;
use crate::failover::confirm::Rule;
use crate::failover::risk::SourceEvidence;
use crate::failover::unfinished::{self, Found, Successor};
use crate::journal::{self, Journal};
use crate::perform::{self, Deadlines};
use crate::step::{State, Step};
use crate::{Error, Flags};
use config::Credentials;
use fleet::{ServerName, Snapshot, WriterStatus};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// After an attempt that was not completed, before the next.
pub(super) const RETRY: Duration = Duration::from_secs(2);
/// The longest pause between two attempts that fail alike, to end a failover or to begin one: each is written
/// down.
pub(super) const RETRY_AT_MOST: Duration = Duration::from_secs(300);

/// How a guard behaves.
#[derive(Clone, Debug)]
pub struct GuardOptions {
    /// Between two looks.
    pub interval: Duration,
    /// How long a statement may take on a server that is healthy.
    pub deadline: Duration,
    /// When a primary counts as dead.
    pub rule: Rule,
    /// How long its replicas may take to notice.
    pub within: Duration,
    pub caution: Caution,
    /// Decides and says so, and changes nothing.
    pub dry_run: bool,
    /// Keeps the dead primary from coming back: see [`perform::FenceBy::Command`].
    pub fence: Option<String>,
    pub deadlines: Deadlines,
    /// Journals of failovers, and `guard.jsonl` with each decision.
    pub journals: PathBuf,
    /// Who this is, in journals and on the new primary.
    pub by: String,
    /// That it was started with.
    pub flags: Flags,
}

/// A guard of one fleet.
pub struct Guard {
    options: GuardOptions,
    admin: Credentials,
    snapshots: watch::Receiver<Arc<Snapshot>>,
    /// Evidence that the primary is gray, by its name, from whoever looks for that.
    gray: Option<watch::Receiver<Option<(ServerName, String)>>>,
    /// When the primary was seen alive, and whether it is silent since.
    alive: Option<Alive>,
    silent: bool,
    /// Whether its journals were looked at since it began.
    looked_back: bool,
    /// The failover that was cut off and that going on has left to a person.
    left: Option<LeftToPerson>,
    /// The last failover that was begun and undone, until the primary is healthy.
    undone: Option<LastUndone>,
    /// Since when replicas look for a source that does not answer, beside a primary that does.
    cut_off_since: Option<Instant>,
    /// Since when nobody takes writes, beside a primary that is healthy as far as is known.
    no_writer_since: Option<Instant>,
    status: GuardStatus,
    decisions: DecisionLog,
}

/// What a running guard has open.
struct Open {
    locks: Locks,
    source: SourceWatch,
    /// Set once the guard is told to stop.
    stop: watch::Receiver<bool>,
}

/// An attempt to go on with a failover that was cut off, after which a person has to decide.
struct LeftToPerson {
    journal: PathBuf,
    /// Where it went on: anything else is tried at once, as when the candidate takes writes now.
    from: State,
    at: Instant,
    /// Until the next attempt.
    pause: Duration,
    text: String,
}

impl Guard {
    /// A guard that decides on these snapshots and acts as `admin`.
    ///
    /// # Errors
    /// When its journal cannot be written.
    pub fn new(
        options: GuardOptions,
        admin: Credentials,
        snapshots: watch::Receiver<Arc<Snapshot>>,
        gray: Option<watch::Receiver<Option<(ServerName, String)>>>,
    ) -> Result<Self, Error> {
        let decisions = DecisionLog::open(options.journals.join("guard.jsonl"))?;
        let status = GuardStatus {
            primary: None,
            active: false,
            lock: LockCount::default(),
            decision: Decision::Standby { why: "has not looked yet".to_owned() },
            pause: None,
            last_failover: None,
            last_attempt: None,
            left_to_person: None,
            dry_run: options.dry_run,
            failovers: 0,
            not_done: 0,
            rounds: 0,
        };
        Ok(Self {
            options,
            admin,
            snapshots,
            gray,
            alive: None,
            silent: false,
            looked_back: false,
            left: None,
            undone: None,
            cut_off_since: None,
            no_writer_since: None,
            status,
            decisions,
        })
    }

    /// Guards until `stop`, which is listened to from the start: no failover begins after it, and one that
    /// has begun is finished first. `tell` gets the status after each look.
    pub async fn run(self, stop: impl Future<Output = ()>, tell: impl Fn(&GuardStatus)) {
        let (told, heard) = watch::channel(false);
        let listening = async {
            stop.await;
            tracing::info!("told to stop: a failover that has begun is finished first");
            told.send_replace(true);
        };
        tokio::join!(listening, self.guard(heard, tell));
    }

    async fn guard(mut self, stop: watch::Receiver<bool>, tell: impl Fn(&GuardStatus)) {
        let GuardOptions { interval, deadline, .. } = self.options;
        let source = SourceWatch::start(self.snapshots.clone(), self.admin.clone(), interval, deadline);
        let mut open = Open { locks: Locks::new(self.admin.clone(), deadline), source, stop };
        while !open.is_stopped() {
            let pause = self.round(&mut open, &tell).await;
            tokio::select! {
                () = open.stopped() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
        open.locks.close().await;
    }

    /// One look, and what follows from it; how long to wait for the next.
    async fn round(&mut self, open: &mut Open, tell: &impl Fn(&GuardStatus)) -> Duration {
        let snapshot = self.snapshots.borrow().clone();
        if let WriterStatus::Known { server } = &snapshot.writer {
            if self.status.primary.as_ref() != Some(server) {
                self.alive = None;
            }
            self.status.primary = Some(server.clone());
        }
        let found = open.locks.round(&servers(&snapshot), self.status.primary.as_ref()).await;
        let seen = self.see(&snapshot, &found, open);
        self.note_life(&snapshot, &seen);
        let well = seen.health == Health::Well;
        let decision = decide(&seen, self.options.caution, &self.options.flags);
        self.status.lock = seen.lock;
        self.status.active = seen.lock.is_active();
        self.status.pause = seen.pause;
        self.status.last_failover = seen.last;
        self.status.rounds += 1;
        self.decided(&decision);
        self.status.decision = decision.clone();
        tell(&self.status);
        if open.is_stopped() {
            return Duration::ZERO;
        }
        let act = match (&decision, seen.primary) {
            (Decision::Act { gray, .. }, Some(primary)) => Some((*gray, primary)),
            _ => None,
        };
        if act.is_some() || !self.looked_back {
            match self.go_on(&snapshot, act.as_ref().map(|(_, primary)| primary), open).await {
                // Before that, whether a journal is of this fleet is not known.
                None => self.looked_back = snapshot.settled,
                // The fleet is another one now: it is looked at before anything else is done.
                Some(attempt) => return self.ended(attempt, decision.word(), tell),
            }
        }
        let Some((gray, primary)) = act else {
            self.status.left_to_person = None;
            if well {
                self.undone = None;
            }
            return match self.finish(well, &snapshot, open).await {
                Some(attempt) => self.ended(attempt, decision.word(), tell),
                None => self.options.interval,
            };
        };
        if self.undone.as_ref().is_some_and(|last| last.is_waited_for(&primary)) {
            return RETRY;
        }
        let evidence = open.source.evidence(&primary, self.alive);
        let attempt = self.act(&snapshot, &primary, gray, &evidence, open).await;
        if let Attempt::Undone { why, .. } = &attempt {
            self.undone = Some(LastUndone::after(self.undone.take(), primary, why));
        }
        self.ended(attempt, decision.word(), tell)
    }

    /// Notes how an attempt ended; how long to wait.
    fn ended(&mut self, attempt: Attempt, decision: &str, tell: &impl Fn(&GuardStatus)) -> Duration {
        let changed = |text: &String| self.status.last_attempt.as_ref() != Some(text);
        let asks = matches!(attempt, Attempt::Ask(_));
        let (text, pause) = match attempt {
            Attempt::Done(text) => {
                tracing::warn!("{text}");
                self.status.failovers += 1;
                // The watcher has not seen the new primary yet; until it has, the old one would be called
                // dead.
                self.status.primary = None;
                self.status.left_to_person = None;
                (text, self.options.interval)
            }
            Attempt::NotDone(text) | Attempt::Undone { text, .. } | Attempt::Ask(text) => {
                if changed(&text) {
                    tracing::error!("not done: {text}");
                }
                self.status.not_done += 1;
                if asks {
                    self.status.left_to_person = Some(text.clone());
                }
                (text, RETRY)
            }
            Attempt::Dry(text) => {
                if changed(&text) {
                    tracing::warn!("dry run: {text}");
                }
                (text, RETRY)
            }
        };
        // Each line differs from the one before: an attempt that fails every two seconds would push all else
        // out of the file.
        if self.status.last_attempt.as_ref() != Some(&text) {
            self.decisions.note(&text, if asks { "ask" } else { decision });
        }
        self.status.last_attempt = Some(text);
        tell(&self.status);
        pause
    }

    /// Notes until when the primary answered without a gap.
    fn note_life(&mut self, snapshot: &Snapshot, seen: &Observation) {
        let was_silent = std::mem::replace(&mut self.silent, matches!(seen.health, Health::Silent { .. }));
        let server = seen.primary.as_ref().and_then(|primary| snapshot.server(primary));
        let Some(last) = server.and_then(|server| server.answered_at) else { return };
        let before = self.alive.filter(|_| !was_silent || self.silent);
        self.alive = Some(Alive { since: before.map_or(last, |before| before.since), last });
    }

    fn see(&mut self, snapshot: &Snapshot, found: &Round, open: &Open) -> Observation {
        let (pause, last) = open.recorded(found, self.status.primary.as_ref());
        let primary = self.status.primary.clone();
        let health = match &primary {
            None => Health::Well,
            Some(name) => self.health(snapshot, name),
        };
        let no_writer = self.no_writer(snapshot, found, &health);
        let (lock, rival, trouble) = (found.lock, found.rival, found.trouble.clone());
        Observation { primary, health, no_writer, lock, rival, trouble, pause, last }
    }

    /// That nobody takes writes, and since when: counted while servers answer us, and nobody moves the
    /// primary.
    fn no_writer(&mut self, snapshot: &Snapshot, found: &Round, health: &Health) -> Option<NoWriter> {
        let counts = snapshot.settled && *health == Health::Well;
        let moves = found.operation || found.recorded.is_empty();
        match &snapshot.writer {
            WriterStatus::Unknown { why } if counts && !moves => {
                let since = *self.no_writer_since.get_or_insert_with(Instant::now);
                Some(NoWriter { lasts: since.elapsed(), why: why.clone() })
            }
            _ => {
                self.no_writer_since = None;
                None
            }
        }
    }

    fn health(&self, snapshot: &Snapshot, primary: &ServerName) -> Health {
        let silent = |why: &str| Health::Silent { why: why.to_owned() };
        match snapshot.server(primary).map(|server| &server.state) {
            None => silent("it left the fleet as others see it"),
            Some(fleet::State::Silent { why } | fleet::State::Failing { why }) => silent(why),
            Some(fleet::State::Answering | fleet::State::Unasked) => {
                let gray = self.gray.as_ref().and_then(|gray| gray.borrow().clone());
                match gray.filter(|(name, _)| name == primary) {
                    Some((_, evidence)) => Health::Gray { evidence },
                    None => Health::Well,
                }
            }
        }
    }

    /// Logs and journals a decision once, when it is another one than before.
    fn decided(&mut self, decision: &Decision) {
        if *decision == self.status.decision {
            return;
        }
        let (before, now) = (self.status.decision.word(), decision.word());
        match decision {
            Decision::Watch | Decision::Standby { .. } | Decision::Paused { .. } if before == now => {}
            Decision::Watch | Decision::Standby { .. } => {
                tracing::info!(decision = now, "{}", decision.why());
            }
            Decision::Ask { .. } if before == now => return,
            Decision::Ask { .. } => tracing::error!(decision = now, "{}", decision.why()),
            Decision::Paused { .. } | Decision::Act { .. } => {
                tracing::warn!(decision = now, "{}", decision.why());
            }
        }
        if before != now {
            self.decisions.note(decision.why(), now);
        }
    }

    fn operator(&self) -> Operator<'_> {
        Operator { options: &self.options, admin: &self.admin }
    }

    /// Confirms and fails over, and keeps the lock meanwhile. One that loses it, is paused or is told to stop
    /// before the first step does nothing.
    async fn act(
        &self,
        snapshot: &Snapshot,
        primary: &ServerName,
        gray: bool,
        evidence: &SourceEvidence,
        open: &mut Open,
    ) -> Attempt {
        let committed = AtomicBool::new(false);
        let attempt = self.operator().fail_over(snapshot, primary, gray, evidence, &committed);
        self.keeping(Some(primary), open, &committed, attempt).await
    }

    /// Works, and keeps the lock meanwhile.
    async fn keeping(
        &self,
        primary: Option<&ServerName>,
        open: &mut Open,
        committed: &AtomicBool,
        work: impl Future<Output = Result<Attempt, Error>>,
    ) -> Attempt {
        tokio::select! {
            attempt = work => attempt.unwrap_or_else(|error| Attempt::NotDone(error.to_string())),
            why = self.keep(primary, open, committed) => Attempt::NotDone(why),
        }
    }

    /// Keeps the lock; ends with the reason when it must not begin.
    async fn keep(&self, primary: Option<&ServerName>, open: &mut Open, committed: &AtomicBool) -> String {
        loop {
            tokio::select! {
                () = open.stopped(), if !committed.load(Relaxed) => {}
                () = tokio::time::sleep(self.options.interval) => {}
            }
            if open.is_stopped() && !committed.load(Relaxed) {
                break "told to stop before anything was done".to_owned();
            }
            // Let go before waiting: who publishes the next snapshot waits for whoever looks at this one.
            let known = servers(&self.snapshots.borrow());
            let found = open.locks.round(&known, primary).await;
            if committed.load(Relaxed) {
                continue;
            }
            if !found.lock.is_active() {
                break "lost its lock on the other servers before anything was done".to_owned();
            }
            if let (Some(pause), _) = open.recorded(&found, primary) {
                break pause.to_string();
            }
        }
    }

    /// Goes on with a failover of this guard that was cut off, whether it is the active one or not: what was
    /// promoted is finished, what was not is undone. What that leaves to a person is tried again ever more
    /// rarely: each attempt is written into its journal. `None` when there is nothing to go on with.
    async fn go_on(
        &mut self,
        snapshot: &Snapshot,
        primary: Option<&ServerName>,
        open: &mut Open,
    ) -> Option<Attempt> {
        if self.options.dry_run || self.status.pause.is_some() {
            return None;
        }
        let logins = self.operator().logins();
        for CutOff { path, plan, lines } in cut_off::find(&self.options.journals, &self.options.by, snapshot)
        {
            if perform::is_under_way(&plan, &logins).await {
                return None;
            }
            let superseded = perform::superseded(&plan, &logins).await.is_some();
            if open.is_stopped() {
                return None;
            }
            if superseded {
                continue;
            }
            let state = journal::go_on(&lines, perform::promoted(&plan, &logins).await);
            if let State::Undecided { why } = &state {
                let why = format!("a failover was cut off at its promotion, and {why}; {}", path.display());
                return Some(Attempt::ask(&why));
            }
            if matches!(state, State::Forward { step } if step > Step::Promote)
                && let Some(why) = perform::moved_by_hand(&plan, &logins, Some(snapshot)).await
            {
                tracing::warn!(epoch = plan.epoch, "a failover that was cut off is left as it is: {why}");
                continue;
            }
            let before = self.left.take().filter(|left| left.journal == path && left.from == state);
            if let Some(left) = before.as_ref().filter(|left| left.at.elapsed() < left.pause) {
                let text = left.text.clone();
                self.left = before;
                return Some(Attempt::Ask(text));
            }
            tracing::warn!(epoch = plan.epoch, journal = %path.display(), "goes on with a failover that was cut off");
            let from = state.clone();
            let going_on = async {
                let (mut journal, _) = Journal::reopen(&path)?;
                self.operator().perform(&plan, &mut journal, state).await
            };
            let attempt = self.keeping(primary, open, &AtomicBool::new(true), going_on).await;
            let why = match attempt {
                Attempt::Ask(why) => why,
                ended => return Some(ended),
            };
            let resume = self.options.flags.after("headroom failover --resume");
            let seconds = RETRY_AT_MOST.as_secs();
            let text =
                format!("{why}. Tried again ever more rarely, at last every {seconds} s; at once: {resume}");
            let pause = before.map_or(RETRY, |left| (left.pause * 2).min(RETRY_AT_MOST));
            self.left =
                Some(LeftToPerson { journal: path, from, at: Instant::now(), pause, text: text.clone() });
            return Some(Attempt::Ask(text));
        }
        None
    }

    /// Ends a failover that whoever began it has recorded and not ended, where its own tool had time to: a
    /// guard whose host died, or a person. After a failover no guard may be active for want of servers:
    /// whoever holds the lock on all servers that were not told does it. `None` when there is nothing to end,
    /// or it is not ours to do.
    async fn finish(&mut self, well: bool, snapshot: &Snapshot, open: &mut Open) -> Option<Attempt> {
        if !is_cut_off(snapshot, self.status.primary.as_ref()) {
            self.cut_off_since = None;
            return None;
        }
        let Deadlines { verify_ms, statement_ms, .. } = self.options.deadlines;
        // Telling replicas is three statements at once on each; then its tool only looks.
        let given_up = Duration::from_millis(verify_ms + 4 * statement_ms);
        let since = *self.cut_off_since.get_or_insert_with(Instant::now);
        let ours = well && self.status.lock.held > 0 && since.elapsed() >= given_up;
        if !ours || self.options.dry_run || self.status.pause.is_some() {
            return None;
        }
        self.cut_off_since = Some(Instant::now());
        let limit = self.options.deadline.max(Duration::from_secs(2));
        let GuardOptions { by, deadlines, flags, .. } = &self.options;
        let successor = Successor { who: &self.admin, by, deadlines: *deadlines, flags };
        let unfinished = match unfinished::find(snapshot, successor, limit).await {
            Ok(Found::Promoted(unfinished)) if unfinished.from == Step::Repoint => unfinished,
            // What is not recorded a person has to look at: headroom failover --resume --from-servers.
            Ok(_) => return None,
            Err(error) => {
                tracing::debug!(%error, "whether the last failover has ended cannot be read");
                return None;
            }
        };
        if !unfinished.left.iter().all(|server| open.locks.holds(server)) {
            return None;
        }
        if perform::is_under_way(&unfinished.plan, &self.operator().logins()).await || open.is_stopped() {
            return None;
        }
        tracing::warn!(
            epoch = unfinished.plan.epoch,
            "ends a failover whose tool was lost: {}",
            unfinished.why
        );
        let primary = self.status.primary.clone();
        let ending = async {
            let mut journal = Journal::create(&self.options.journals, &unfinished.plan)?;
            let state = State::Forward { step: unfinished.from };
            self.operator().perform(&unfinished.plan, &mut journal, state).await
        };
        Some(self.keeping(primary.as_ref(), open, &AtomicBool::new(true), ending).await)
    }
}

impl Open {
    /// What people and other guards have said, by this round and by what the primary showed last.
    fn recorded(
        &self,
        found: &Round,
        primary: Option<&ServerName>,
    ) -> (Option<Pause>, Option<FailoverRecord>) {
        let mut all = found.recorded.clone();
        all.extend(primary.and_then(|primary| self.source.recorded(primary)));
        record::newest(&all)
    }

    fn is_stopped(&self) -> bool {
        *self.stop.borrow()
    }

    /// Returns once the guard is told to stop.
    async fn stopped(&self) {
        // Whoever would tell lives as long as the guard.
        let _ = self.stop.clone().wait_for(|stop| *stop).await;
    }
}

/// Whether a replica looks for a source that does not answer, while a primary takes writes: as a failover
/// leaves it that did not end.
fn is_cut_off(snapshot: &Snapshot, primary: Option<&ServerName>) -> bool {
    let answers = |name: &str| {
        let server = snapshot.servers.iter().find(|server| server.name.as_str() == name);
        server.is_some_and(|server| server.state == fleet::State::Answering)
    };
    let others = snapshot.servers.iter().filter(|server| Some(&server.name) != primary);
    let mut sources =
        others.filter(|server| answers(server.name.as_str())).filter_map(|s| s.source.as_deref());
    primary.is_some() && sources.any(|source| !answers(source))
}

/// Names, addresses and whether they answer.
fn servers(snapshot: &Snapshot) -> Vec<(ServerName, fleet::Address, bool)> {
    let server = |server: &fleet::Server| {
        (server.name.clone(), server.reach.clone(), server.state == fleet::State::Answering)
    };
    snapshot.servers.iter().map(server).collect()
}

#[cfg(test)]
mod tests;
