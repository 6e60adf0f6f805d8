//! The thin loop: does the step that [`crate::step`] names, writes down what came of it, and asks what
//! follows.
//!
//! What a step means on the servers stands in `perform/`: [`forward`] and [`undo`], one function a step.

mod acknowledged;
mod applier;
mod closed;
mod demote;
pub(crate) mod doubt;
mod forward;
mod mark;
mod planned;
mod resume;
mod servers;
mod takeover;
mod undo;

use crate::facts::ScheduledEvent;
use crate::journal::{self, Journal, JournalRecord};
use crate::semi_sync::Switches;
use crate::step::{Event, State, Step};
use crate::{Error, Flags};
use config::Credentials;
use fleet::{Address, ServerName, Snapshot, Thread};
pub use resume::{
    end_sessions, is_under_way, left_behind, moved_by_hand, promoted, superseded, written_elsewhere,
};
use serde::{Deserialize, Serialize};
use servers::Servers;
use std::time::{Duration, Instant};
pub(crate) use takeover::RECEIVER_STOPS;

/// What is to be done: written into the journal and onto the primary before anything changes. Holds no
/// password of ours. A command that fences is its author's text: only the journal, which its owner alone may
/// read, has it; what servers keep is `Plan::text_for_servers`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Whether the primary is moved, or dead and replaced.
    #[serde(default)]
    pub kind: Kind,
    /// Counts up with each switchover of this fleet; routers never go back to a lower one.
    pub epoch: u64,
    /// Who takes writes now.
    pub primary: Member,
    /// Its `server_id`, by which replicas know it whatever address leads there; 0 where nobody has told.
    #[serde(default)]
    pub primary_id: u32,
    /// Who shall.
    pub candidate: Member,
    /// All other replicas; those of the primary follow the candidate afterwards, others keep their source.
    pub others: Vec<Member>,
    /// Enabled events of the primary that the candidate takes over.
    pub events: Vec<ScheduledEvent>,
    /// Events that the candidate of a failover does not run: nobody can tell which of them the dead primary
    /// ran, since a replica calls those that are disabled by the same name. Left to a person.
    #[serde(default)]
    pub events_left: Vec<ScheduledEvent>,
    /// Events that are enabled at the candidate of a failover: they run once it takes writes. One that was
    /// copied from a primary, or was the primary of a MySQL fleet, has them.
    #[serde(default)]
    pub events_enabled: Vec<ScheduledEvent>,
    /// The account does not see all events: there may be others than these.
    #[serde(default)]
    pub events_unknown: bool,
    /// Whether the primary was a semi-sync source.
    pub semi_sync: bool,
    /// It was one, and too few are left to acknowledge: the new primary's switch stays off, or its writes
    /// would wait for nobody.
    #[serde(default)]
    pub semi_sync_stays_off: bool,
    /// How the former primary protects its connection to the new one: as the candidate's to it was protected.
    #[serde(default)]
    pub protection: Vec<(String, String)>,
    /// How long each thing may take.
    pub deadlines: Deadlines,
    /// The host that began it.
    pub by: String,
}

/// What is done with the primary.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Kind {
    #[default]
    Switchover,
    /// It is dead: somebody takes over.
    Failover {
        /// What keeps it from taking writes that count.
        fence: FenceBy,
        /// It answers, and its commits hang: replicas stay connected to it until they are stopped.
        #[serde(default)]
        gray: bool,
    },
}

/// What keeps a primary that may not be dead from acknowledging writes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "by", rename_all = "snake_case")]
pub enum FenceBy {
    /// This command, which must end with 0.
    Command {
        /// Run by `/bin/sh -c`.
        command: String,
    },
    /// No replica receives any more, and semi-sync never falls back.
    SemiSync { facts: String },
    /// Nothing: accepted by name.
    Nothing,
}

/// In the place of a command's text. It fences nothing: whoever ran it would be told so.
const WITHHELD: &str = "false # a command was given; the journal of whoever began this has its text";

impl Kind {
    /// Whether a step is part of it. Nobody can ask a dead primary, and routers hold by themselves while
    /// there is none.
    pub fn has(&self, step: Step) -> bool {
        match self {
            Self::Switchover => true,
            Self::Failover { .. } => !matches!(
                step,
                Step::Record | Step::Prepare | Step::CatchUp | Step::Hold | Step::Drain | Step::Release
            ),
        }
    }

    /// The command that does it.
    pub fn command(&self) -> &'static str {
        match self {
            Self::Switchover => "headroom switchover",
            Self::Failover { .. } => "headroom failover",
        }
    }

    /// What a step is called there.
    pub fn name(&self, step: Step) -> &'static str {
        match (self, step) {
            (Self::Failover { .. }, Step::Freeze) => "fence",
            (Self::Failover { .. }, Step::Await) => "apply relay logs",
            _ => step.about().name,
        }
    }
}

/// A server of the plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Member {
    pub name: String,
    /// How this host reaches it: `host:port` or a socket path.
    pub reach: String,
    /// What replicas are told: the address under which it registered.
    pub host: String,
    pub port: u16,
    /// `@@version`.
    pub version: String,
    /// Whether it replicates from the primary directly.
    pub follows_primary: bool,
    /// Its threads that somebody had stopped before a move: it is re-pointed, and they stay so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<Thread>,
    /// Whether `super_read_only` (else `read_only`) was on: what undoing goes back to.
    pub read_only: bool,
    /// Whether it acknowledged as a semi-sync replica.
    pub semi_sync_replica: bool,
    /// The semi-sync switches that it has, and how they stood.
    #[serde(default)]
    pub semi_sync: Switches,
}

/// How long things may take, in milliseconds where stored.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Deadlines {
    /// Any plain statement.
    pub statement_ms: u64,
    /// Routers get to know that a switchover is near: two of their intervals.
    pub prepare_ms: u64,
    /// The candidate catches up before anybody waits.
    pub catch_up_ms: u64,
    /// Routers confirm that they hold.
    pub hold_ms: u64,
    /// Open transactions end.
    pub drain_ms: u64,
    /// The freeze takes hold.
    pub freeze_ms: u64,
    /// The candidate gets the rest; in a failover, applies what it received.
    pub await_ms: u64,
    /// The command that fences a dead primary.
    #[serde(default)]
    pub fence_ms: u64,
    /// Replicas run again from their new source.
    pub verify_ms: u64,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self {
            statement_ms: 5_000,
            prepare_ms: 1_500,
            catch_up_ms: 30_000,
            hold_ms: 1_000,
            drain_ms: 2_000,
            freeze_ms: 2_000,
            await_ms: 5_000,
            fence_ms: 30_000,
            verify_ms: 20_000,
        }
    }
}

impl Deadlines {
    /// How long a connection may rest while its locks must hold: as long as everything between two uses of it
    /// can take.
    fn idle(&self) -> Duration {
        let waits = [
            self.prepare_ms,
            self.catch_up_ms,
            self.hold_ms,
            self.drain_ms,
            self.freeze_ms,
            self.await_ms,
            self.fence_ms,
            self.verify_ms,
        ];
        Duration::from_millis(waits.iter().sum::<u64>() + 4 * self.statement_ms) + RECEIVER_STOPS
    }
}

/// Who we are to the servers.
#[derive(Clone, Debug)]
pub struct Logins {
    /// The account that changes roles.
    pub admin: Credentials,
    /// User and password with which the former primary replicates.
    pub replication: (String, String),
    /// By which they were named: for what a person is told to type next.
    pub flags: Flags,
}

/// Told while it goes on.
#[derive(Clone, Debug)]
pub enum Progress<'a> {
    Begins {
        step: Step,
        /// Whether it is being undone.
        undo: bool,
    },
    Ended {
        step: Step,
        /// Whether it was undone.
        undo: bool,
        event: &'a Event,
        took: Duration,
    },
}

#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    pub state: State,
    /// What the primary said in the end of a switchover that was undone; `None` where it said nothing, and of
    /// whatever else was done.
    pub primary_takes_writes: Option<bool>,
    /// Milliseconds of each step, in order; undone ones are marked.
    pub steps: Vec<StepTime>,
    /// From the hold to the release, milliseconds: the longest a client's write had to wait for us. `None`
    /// when nothing was held.
    pub writes_held_ms: Option<f64>,
    /// Routers that said they were ready, and that held.
    pub routers: Routers,
    /// What did not go as it should after the point of no return, or could not be undone: each needs a look.
    pub remarks: Vec<String>,
    /// What somebody may want to know, and nobody has to mend.
    pub notes: Vec<String>,
}

/// Routers that took part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Routers {
    /// Saw the announcement.
    pub ready: u64,
    /// Held writes before the freeze.
    pub holding: u64,
}

impl Routers {
    /// After another count. One that asks seldom sees the announcement only after others, and is waited for
    /// all the same; one that was ready and is not any more has lost its connection, and may hold nothing.
    fn count(&mut self, (ready, holding): (u64, u64)) {
        *self = Self { ready: self.ready.max(ready), holding };
    }

    /// How long they may take: one look to see the hold, and one to confirm it, come to what is allowed.
    fn hold_within(self, deadlines: Deadlines) -> Duration {
        Duration::from_millis(deadlines.hold_ms) + observe::Rhythm::while_announced(self.ready) * 2
    }
}

#[derive(Clone, Debug, Serialize)]
pub struct StepTime {
    pub step: Step,
    /// Whether it was undone.
    pub undo: bool,
    /// Milliseconds.
    pub ms: f64,
}

/// Does or undoes everything from `state` on. `interrupted` is looked at between steps and in those that wait
/// for long, and ends only what can be undone. A journal that cannot be written does the same: it never
/// leaves the primary frozen.
///
/// # Errors
/// Somebody else is at work on what is to be resumed: nothing was touched. All else is in the outcome.
pub async fn run(
    plan: &Plan,
    logins: &Logins,
    journal: &mut Journal,
    mut state: State,
    interrupted: &dyn Fn() -> bool,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<Outcome, Error> {
    let mut servers = Servers::new(plan, logins);
    servers.promotion_in_doubt = journal.promotion_in_doubt();
    if state != State::START && !state.is_over() {
        servers.go_on().await?;
    }
    let mut outcome = Outcome::new(state.clone());
    let is_past_it = matches!(&state, State::Undoing { step, .. } if *step < Step::StopReplication);
    if is_past_it && journal.candidate_left() {
        let step = plan.kind.name(Step::StopReplication);
        outcome.remarks.push(format!("undoing {step}: {}", undo::left_stopped(plan)));
    }
    let mut held_since: Option<Instant> = None;
    while !state.is_over() {
        let (step, undo) = match &state {
            State::Forward { step } => (*step, false),
            State::Undoing { step, .. } => (*step, true),
            _ => break,
        };
        if !plan.kind.has(step) {
            state = state.next(Event::Done);
            continue;
        }
        if let Err(error) = journal.append(&JournalRecord::Begun { at_ms: journal::now_ms(), step, undo }) {
            let next = state.clone().unwritten(error.to_string());
            if next != state {
                state = next;
                continue;
            }
            outcome.unwritten(&error);
        }
        progress(Progress::Begins { step, undo });
        let begun = Instant::now();
        if step == Step::Hold && !undo {
            held_since = Some(begun);
        }
        let may_stop = !undo && step.is_before_the_point_of_no_return();
        servers.interrupted = may_stop.then_some(interrupted);
        let mut event = if undo {
            undo::undo(step, plan, &mut servers).await
        } else if let Err(error) = servers.check_interrupted() {
            Event::Failed { why: error.to_string() }
        } else {
            forward::forward(step, plan, &mut servers, &mut outcome).await
        };
        let took = begun.elapsed();
        let ended = JournalRecord::Ended { at_ms: journal::now_ms(), step, undo, event: event.clone() };
        if let Err(error) = journal.append(&ended) {
            event = event.unwritten(step, undo, error.to_string());
            outcome.unwritten(&error);
        }
        progress(Progress::Ended { step, undo, event: &event, took });
        outcome.steps.push(StepTime { step, undo, ms: took.as_secs_f64() * 1e3 });
        let releases = matches!((step, undo), (Step::Release, false) | (Step::Hold, true));
        if let Some(since) = held_since.filter(|_| releases) {
            outcome.writes_held_ms = Some(since.elapsed().as_secs_f64() * 1e3);
        }
        if let Event::Failed { why } | Event::Unknown { why } = &event
            // Why a step up to the promotion failed stands in the state.
            && (undo || step > Step::Promote)
        {
            let doing = if undo { "undoing " } else { "" };
            outcome.remarks.push(format!("{doing}{}: {why}", plan.kind.name(step)));
        }
        state = state.next(event);
    }
    if plan.kind == Kind::Switchover && matches!(state, State::Undone { .. }) {
        outcome.primary_takes_writes = servers.primary_takes_writes().await;
    }
    servers.close().await;
    if let Err(error) =
        journal.append(&JournalRecord::Over { at_ms: journal::now_ms(), state: state.clone() })
    {
        outcome.unwritten(&error);
    }
    outcome.state = state;
    Ok(outcome)
}

impl Outcome {
    /// Where nothing is done yet.
    pub(crate) fn new(state: State) -> Self {
        Self {
            state,
            primary_takes_writes: None,
            steps: Vec::new(),
            writes_held_ms: None,
            routers: Routers::default(),
            remarks: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Whether nothing is left of a move that did not happen, as far as servers say.
    pub fn is_as_before(&self, kind: &Kind) -> bool {
        let primary = *kind != Kind::Switchover || self.primary_takes_writes == Some(true);
        matches!(self.state, State::Undone { .. }) && self.remarks.is_empty() && primary
    }

    /// The journal lacks what was done: one remark, however many lines.
    fn unwritten(&mut self, error: &Error) {
        let remark = format!("{error}; it does not tell all that was done");
        if !self.remarks.contains(&remark) {
            self.remarks.push(remark);
        }
    }
}

impl Plan {
    /// What enables the events that were left at the candidate.
    pub(crate) fn statements_of_events(&self) -> Vec<String> {
        self.events_left.iter().map(|event| self.candidate.dialect().enable_event(event)).collect()
    }

    /// What stops the events that run at the candidate once it was promoted.
    pub(crate) fn statements_that_stop_events(&self) -> Vec<String> {
        self.events_enabled.iter().map(|event| self.candidate.dialect().disable_event(event)).collect()
    }

    /// As it stands in `headroom.switchover`, which goes into binary logs and backups and which the watching
    /// account may read: without the text of a command that fences. Whoever goes on from there does so after
    /// the fence. In ASCII: a table of latin1, as servers make one by default, refuses an event's name in
    /// another script.
    pub(crate) fn text_for_servers(&self) -> String {
        let mut plan = self.clone();
        if let Kind::Failover { fence: FenceBy::Command { command }, .. } = &mut plan.kind {
            WITHHELD.clone_into(command);
        }
        in_ascii(&serde_json::to_string(&plan).unwrap_or_default())
    }

    fn members(&self) -> impl Iterator<Item = &Member> {
        [&self.primary, &self.candidate].into_iter().chain(&self.others)
    }

    /// Whether it names a server of this fleet.
    pub fn is_of(&self, snapshot: &Snapshot) -> bool {
        self.members().any(|member| {
            let is_it = |server: &fleet::Server| {
                server.name.as_str() == member.name || server.reach.to_string() == member.reach
            };
            snapshot.servers.iter().any(is_it)
        })
    }

    /// Whether both name a server.
    pub fn shares_a_server(&self, other: &Self) -> bool {
        self.members().any(|ours| {
            let is_it = |theirs: &Member| theirs.name == ours.name || theirs.reach == ours.reach;
            other.members().any(is_it)
        })
    }

    /// The same failover for a primary that answers while its commits hang.
    #[must_use]
    pub fn of_gray_primary(mut self) -> Self {
        if let Kind::Failover { gray, .. } = &mut self.kind {
            *gray = true;
        }
        self
    }
}

impl Member {
    pub(crate) fn address(&self) -> Result<Address, Error> {
        let refused = |error: fleet::AddressError| Error::Refused {
            server: self.server(),
            why: format!("its address {} cannot be read: {error}", self.reach),
        };
        self.reach.parse().map_err(refused)
    }

    pub(crate) fn server(&self) -> ServerName {
        ServerName::new(&self.name)
    }

    /// Whether it receives what the new primary writes, once it is told to follow.
    pub(crate) fn receives(&self) -> bool {
        !matches!(self.stopped, Some(Thread::Receiver | Thread::Both))
    }

    pub(crate) fn dialect(&self) -> crate::dialect::Dialect {
        // Written from a version that was read; a journal of other hands may hold anything, and then MySQL's
        // words are refused.
        let fallback = fleet::Version::new(fleet::Flavour::MySql, 8, 0, 22);
        crate::dialect::Dialect(self.version.parse().unwrap_or(fallback))
    }
}

/// The same JSON: what is not ASCII stands in its strings alone.
fn in_ascii(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for character in json.chars() {
        if character.is_ascii() {
            text.push(character);
            continue;
        }
        for unit in character.encode_utf16(&mut [0; 2]) {
            text.push_str(&format!("\\u{unit:04x}"));
        }
    }
    text
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use lab::scripted::{Reply, Script, ScriptedServer};

    #[test]
    fn the_text_of_a_command_that_fences_stays_in_the_journal() {
        let command = "curl -u admin:secret https://power.example/off/$1".to_owned();
        let plan = failover(FenceBy::Command { command });
        let kept = plan.text_for_servers();
        assert!(!kept.contains("secret") && kept.contains("a command was given"), "{kept}");
        // As guards look for the last failover, see `guard/record.rs`.
        assert!(kept.contains(r#""is":"failover""#), "{kept}");
        let read: Plan = serde_json::from_str(&kept).unwrap();
        let Kind::Failover { fence, .. } = &read.kind else { panic!("{read:?}") };
        let FenceBy::Command { command } = fence else { panic!("{fence:?}") };
        let ran = std::process::Command::new("/bin/sh").args(["-c", command]).status().unwrap();
        assert!(!ran.success(), "it fences nothing, and must not say that it did");
        assert_eq!(Plan { kind: plan.kind.clone(), ..read }, plan, "the rest is there");
        let semi_sync = failover(FenceBy::SemiSync { facts: "all acknowledged".to_owned() });
        assert_eq!(serde_json::from_str::<Plan>(&semi_sync.text_for_servers()).unwrap(), semi_sync);
    }

    #[test]
    fn the_names_of_events_fit_into_a_table_of_any_character_set() {
        let name = "ночь \"日\" 🌙\\".to_owned();
        let (schema, definer) = ("café".to_owned(), String::new());
        let mut plan = failover(FenceBy::Nothing);
        plan.events_left = vec![ScheduledEvent { schema, name, definer }];
        let kept = plan.text_for_servers();
        assert!(kept.is_ascii() && kept.contains(r"caf\u00e9") && kept.contains(r"\ud83c\udf19"), "{kept}");
        assert_eq!(serde_json::from_str::<Plan>(&kept).unwrap(), plan);
    }

    #[tokio::test]
    async fn a_router_that_sees_the_announcement_late_is_waited_for() {
        let asked = std::sync::atomic::AtomicU32::new(0);
        let script = Script::new("10.11.6-MariaDB", move |statement, _| {
            if !statement.contains("'headroom.ready.'") {
                return Reply::Usual;
            }
            // One at first, then two; one of them takes longer.
            let (ready, holding) = match asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed) {
                0 => ("1", "0"),
                1..=3 => ("2", "1"),
                _ => ("2", "2"),
            };
            Reply::rows(&["ready", "holding"], &[&[Some(ready), Some(holding)]])
        });
        let server = ScriptedServer::start(script).await.unwrap();
        let mut plan = Plan { kind: Kind::Switchover, ..failover(FenceBy::Nothing) };
        plan.primary.reach = server.address().to_string();
        plan.deadlines.hold_ms = 60_000;
        let logins = logins();
        let mut outcome = Outcome::new(State::START);
        forward::hold(&plan, &mut Servers::new(&plan, &logins), &mut outcome).await.unwrap();
        assert_eq!(outcome.routers, Routers { ready: 2, holding: 2 });
        assert_eq!(outcome.notes, Vec::<String>::new());
        // A thousand look every two seconds.
        let all = Routers { ready: 1_000, holding: 0 };
        assert_eq!(all.hold_within(Deadlines::default()), Duration::from_secs(5));
    }

    /// Nobody in particular.
    pub(crate) fn logins() -> Logins {
        Logins { admin: Credentials::default(), replication: Default::default(), flags: Default::default() }
    }

    /// As [`failover`], of servers that share no name and no address with its own.
    pub(crate) fn elsewhere() -> Plan {
        let mut plan = failover(FenceBy::Nothing);
        for member in [&mut plan.primary, &mut plan.candidate] {
            member.name.insert(0, 'x');
            member.reach.insert(0, 'x');
        }
        plan
    }

    /// a2 takes over from a1.
    pub(crate) fn failover(fence: FenceBy) -> Plan {
        let member = |name: &str| Member {
            name: name.to_owned(),
            reach: format!("{name}:3306"),
            host: name.to_owned(),
            port: 3306,
            version: "10.11.6-MariaDB".to_owned(),
            follows_primary: name != "a1",
            stopped: None,
            read_only: name != "a1",
            semi_sync_replica: false,
            semi_sync: Switches::default(),
        };
        Plan {
            kind: Kind::Failover { fence, gray: false },
            epoch: 3,
            primary: member("a1"),
            primary_id: 11,
            candidate: member("a2"),
            others: Vec::new(),
            events: Vec::new(),
            events_left: Vec::new(),
            events_enabled: Vec::new(),
            events_unknown: false,
            semi_sync: false,
            semi_sync_stays_off: false,
            protection: Vec::new(),
            deadlines: Deadlines::default(),
            by: "test".to_owned(),
        }
    }
}
