//! Event: one change of what the status page shows, for the log and for a list of the last ones.
//!
//! [`changes`] compares two [`Picture`]s, each the part of a view that people follow: state, role,
//! replication and eligibility of every server, the writer, the fallbacks, the flow table. It is a pure
//! function, so that the log, the list and the page cannot tell different stories. [`History`] holds the last
//! picture, the last events, and since when everything has been as it is: "does not answer" is half of the
//! news, "for 4 min 12 s" the other half.
//!
//! One cause, one line: a server that dies is not also told to be not eligible, nor a new primary to be no
//! reader any more. Figures inside a reason (a lag that grows) are no change. A flow is told when some share
//! has moved by a tenth of the reads of its zone since it was last told, and that not more often than every
//! ten seconds; without that measured demand, and a server that warms up, would write a line a second.

use crate::eligible::Reason;
use crate::view::View;
use fleet::{Replication, Role, ServerName, State, WriterStatus, long};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::{Duration, Instant, SystemTime};

/// Events kept.
const KEPT: usize = 200;
/// A share of a zone's reads that moves by this much is news.
const FLOW_STEP: f64 = 0.1;
/// Flows are told at most so often; what moves meanwhile is told then.
const FLOW_EVERY: Duration = Duration::from_secs(10);

/// What people follow of a view.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Picture {
    /// Every server that was asked at least once.
    pub servers: BTreeMap<ServerName, ServerPicture>,
    /// Who takes writes, or why nobody does.
    pub writer: Option<WriterStatus>,
    /// Fallbacks in force with their words.
    pub fallbacks: BTreeMap<&'static str, String>,
    /// From zone to zone, the share of the reads born in the first.
    pub flow: BTreeMap<(String, String), f64>,
}

/// The same of one server.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerPicture {
    /// Whether it answers.
    pub state: State,
    /// What it is, and why.
    pub role: (Role, String),
    /// Why its replication stands still, if it does.
    pub stopped: Option<String>,
    /// Why it may not be picked for reads: the reason's name and words.
    pub not_for_reads: Option<(&'static str, String)>,
}

/// How much an event matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Something is as it should be again, or merely different.
    Info,
    /// Something is lost.
    Warn,
}

/// What an event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A server became known or is known no more.
    Membership,
    /// A server answers, or does not.
    State,
    /// A server's role.
    Role,
    /// A server's replication threads.
    Replication,
    /// Whether a server may be picked for reads.
    Eligible,
    /// Who takes writes.
    Writer,
    /// A fallback came into force or ended.
    Fallback,
    /// Where reads go.
    Flow,
}

/// One change.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// What it is about.
    pub kind: Kind,
    /// How much it matters.
    pub severity: Severity,
    /// The server, the fallback, or the zone it is about; empty for the writer.
    pub subject: String,
    /// One sentence, without its end.
    pub text: String,
}

/// An event and when it happened.
#[derive(Clone, Debug)]
pub struct EventRecord {
    /// What changed.
    pub event: Event,
    /// When, for people.
    pub at: SystemTime,
    /// When, for arithmetic.
    pub since: Instant,
    /// How long it had been as it was before; `None` for what is new.
    pub lasted: Option<Duration>,
}

/// The last picture, the last events, and since when things are as they are.
#[derive(Debug, Default)]
pub struct History {
    last: Option<Picture>,
    events: VecDeque<EventRecord>,
    since: HashMap<(Kind, String), Instant>,
    flow_told: Option<Instant>,
}

impl Picture {
    /// What people follow of `view`; `without_tls` are servers whose sessions are not encrypted although that
    /// is preferred.
    pub fn of(view: &View, without_tls: &[ServerName]) -> Self {
        let seen = view.snapshot.servers.iter().zip(&view.candidates);
        let servers = seen.filter(|(server, _)| server.state != State::Unasked).map(|(server, candidate)| {
            let stopped = match &server.replication {
                Replication::Stopped { why, .. } => Some(why.clone()),
                _ => None,
            };
            let reason = |reason: &Reason| (reason.name(), reason.to_string());
            let picture = ServerPicture {
                state: server.state.clone(),
                role: (server.role, server.because.clone()),
                stopped,
                not_for_reads: candidate.reads.reason().map(reason),
            };
            (server.name.clone(), picture)
        });
        let mut fallbacks: BTreeMap<&'static str, String> =
            view.fallbacks.iter().map(|fallback| (fallback.name(), fallback.to_string())).collect();
        if !without_tls.is_empty() {
            let names: Vec<&str> = without_tls.iter().map(ServerName::as_str).collect();
            fallbacks.insert("server_without_tls", format!("{} offers no TLS", names.join(", ")));
        }
        let zone = |at: usize| {
            view.flow.zones[at].zone.as_ref().map_or_else(|| "(unknown)".to_owned(), ToString::to_string)
        };
        let cells = view.flow.rows.iter().enumerate().flat_map(|(from, row)| {
            row.iter().enumerate().map(move |(to, share)| ((zone(from), zone(to)), *share))
        });
        Self {
            servers: servers.collect(),
            writer: Some(view.snapshot.writer.clone()),
            fallbacks,
            flow: cells.collect(),
        }
    }
}

/// What is different in `after`, as people would say it. Pure; in a fixed order: servers, writer, fallbacks,
/// flow.
pub fn changes(before: &Picture, after: &Picture) -> Vec<Event> {
    let mut events = Vec::new();
    for (name, now) in &after.servers {
        match before.servers.get(name) {
            Some(was) => server(name, was, now, &mut events),
            None => events.push(appeared(name, now)),
        }
    }
    for name in before.servers.keys().filter(|name| !after.servers.contains_key(*name)) {
        let text = format!("{name} is no longer part of the fleet: nobody names it and it does not answer");
        events.push(Event::new(Kind::Membership, Severity::Info, name.as_str(), text));
    }
    writer(before.writer.as_ref(), after.writer.as_ref(), &mut events);
    fallbacks(before, after, &mut events);
    flow(before, after, &mut events);
    events
}

impl Event {
    fn new(kind: Kind, severity: Severity, subject: &str, text: String) -> Self {
        Self { kind, severity, subject: subject.to_owned(), text }
    }
}

fn appeared(name: &ServerName, now: &ServerPicture) -> Event {
    let role = now.role.0;
    match trouble(&now.state) {
        Some(trouble) => Event::new(
            Kind::Membership,
            Severity::Warn,
            name.as_str(),
            format!("{name} is known and {trouble}"),
        ),
        None => Event::new(Kind::Membership, Severity::Info, name.as_str(), format!("{name} is a {role}")),
    }
}

/// What is wrong with a server that does not answer; `None` while it does.
fn trouble(state: &State) -> Option<String> {
    match state {
        State::Silent { why } => Some(format!("does not answer: {why}")),
        State::Failing { why } => Some(format!("fails: {why}")),
        State::Answering | State::Unasked => None,
    }
}

fn server(name: &ServerName, was: &ServerPicture, now: &ServerPicture, events: &mut Vec<Event>) {
    let mut tell = |kind, severity, text| events.push(Event::new(kind, severity, name.as_str(), text));
    let (was_answering, answering) = (was.state == State::Answering, now.state == State::Answering);
    match (was_answering, trouble(&now.state)) {
        (true, Some(trouble)) => tell(Kind::State, Severity::Warn, format!("{name} {trouble}")),
        (false, None) => tell(Kind::State, Severity::Info, format!("{name} answers again")),
        _ => {}
    }
    let role_changed = was.role.0 != now.role.0;
    if role_changed {
        let (before, (role, because)) = (was.role.0, &now.role);
        let lost = before == Role::Primary || matches!(role, Role::Stray | Role::Unknown);
        let severity = if lost { Severity::Warn } else { Severity::Info };
        tell(Kind::Role, severity, format!("{name} is {role} now, it was {before}: {because}"));
    }
    // Of one that does not answer nothing is known; what it says when it is back is compared with what it
    // said before.
    if was_answering && answering {
        match (&was.stopped, &now.stopped) {
            (None, Some(why)) => {
                tell(Kind::Replication, Severity::Warn, format!("replication of {name} is stopped: {why}"));
            }
            (Some(_), None) => {
                tell(Kind::Replication, Severity::Info, format!("replication of {name} runs again"));
            }
            (Some(before), Some(why)) if before != why => {
                tell(Kind::Replication, Severity::Warn, format!("replication of {name} is stopped: {why}"));
            }
            _ => {}
        }
    }
    let reason = |picture: &ServerPicture| picture.not_for_reads.as_ref().map(|(name, _)| *name);
    if reason(was) == reason(now) {
        return;
    }
    let told_already = was_answering != answering && matches!(reason(now), Some("silent" | "failing"))
        || role_changed && matches!(reason(now), Some("is_primary" | "stray" | "role_unknown"));
    match &now.not_for_reads {
        Some(_) if told_already => {}
        // An ordinary start: first not asked, then new, then eligible.
        Some(("unasked" | "newcomer", _)) => {}
        Some((label, why)) => {
            let severity = if matches!(*label, "draining" | "reserved" | "is_primary" | "suspected") {
                Severity::Info
            } else {
                Severity::Warn
            };
            tell(Kind::Eligible, severity, format!("{name} takes no new reads: {why}"));
        }
        None => tell(Kind::Eligible, Severity::Info, format!("{name} takes reads")),
    }
}

fn writer(before: Option<&WriterStatus>, after: Option<&WriterStatus>, events: &mut Vec<Event>) {
    let mut tell = |severity, text| events.push(Event::new(Kind::Writer, severity, "", text));
    match (before, after) {
        (Some(WriterStatus::Known { server: old }), Some(WriterStatus::Known { server }))
            if old != server =>
        {
            tell(Severity::Warn, format!("writes go to {server}, they went to {old}"));
        }
        (Some(WriterStatus::Known { .. }), Some(WriterStatus::Known { .. })) => {}
        (_, Some(WriterStatus::Known { server })) => tell(Severity::Info, format!("writes go to {server}")),
        (Some(WriterStatus::Known { server }), Some(WriterStatus::Unknown { why })) => {
            tell(Severity::Warn, format!("no server takes writes, {server} did: {why}"));
        }
        (None, Some(WriterStatus::Unknown { why })) => {
            tell(Severity::Warn, format!("no server takes writes: {why}"));
        }
        _ => {}
    }
}

fn fallbacks(before: &Picture, after: &Picture, events: &mut Vec<Event>) {
    for (name, words) in after.fallbacks.iter().filter(|(name, _)| !before.fallbacks.contains_key(*name)) {
        // That nobody takes writes has a line of its own.
        if *name != "writer_unknown" {
            let text = format!("fallback {name} is in force: {words}");
            // Ordinary in the first second of every start.
            let severity = if *name == "demand_not_measured" { Severity::Info } else { Severity::Warn };
            events.push(Event::new(Kind::Fallback, severity, name, text));
        }
    }
    for name in before.fallbacks.keys().filter(|name| !after.fallbacks.contains_key(*name)) {
        if *name != "writer_unknown" {
            let text = format!("fallback {name} has ended");
            events.push(Event::new(Kind::Fallback, Severity::Info, name, text));
        }
    }
}

fn flow(before: &Picture, after: &Picture, events: &mut Vec<Event>) {
    // The first table is no change.
    if before.flow.is_empty() {
        return;
    }
    let mut rows: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let cells = after.flow.keys().chain(before.flow.keys());
    for cell in cells.collect::<std::collections::BTreeSet<_>>() {
        let share = |picture: &Picture| picture.flow.get(cell).copied().unwrap_or(0.0);
        let (was, now) = (share(before), share(after));
        if (now - was).abs() >= FLOW_STEP {
            let (was, now) = (was * 100.0, now * 100.0);
            rows.entry(&cell.0).or_default().push(format!("to {} {now:.0} % (before {was:.0} %)", cell.1));
        }
    }
    for (from, cells) in rows {
        let text = format!("reads born in {from} go {}", cells.join(", "));
        events.push(Event::new(Kind::Flow, Severity::Info, from, text));
    }
}

impl History {
    /// Compares with the picture before and remembers what changed; returns it for the log ([`log`]).
    #[must_use]
    pub fn note(&mut self, mut picture: Picture, now: Instant, at: SystemTime) -> Vec<EventRecord> {
        let nothing = Picture::default();
        let before = self.last.as_ref().unwrap_or(&nothing);
        if self.flow_told.is_some_and(|at| now.saturating_duration_since(at) < FLOW_EVERY) {
            picture.flow.clone_from(&before.flow);
        }
        let events = changes(before, &picture);
        if events.iter().any(|event| event.kind == Kind::Flow) {
            self.flow_told = Some(now);
        } else if !before.flow.is_empty() {
            // Small steps add up until they are told.
            picture.flow.clone_from(&before.flow);
        }
        let mut noted = Vec::with_capacity(events.len());
        for event in events {
            let key = (event.kind, event.subject.clone());
            let since = self.since.insert(key, now);
            let lasted = since.map(|since| now.saturating_duration_since(since));
            if event.kind == Kind::Membership {
                self.begin(
                    &event.subject,
                    picture.servers.contains_key(&ServerName::new(&event.subject)),
                    now,
                );
            }
            if self.events.len() == KEPT {
                self.events.pop_front();
            }
            let event = EventRecord { event, at, since: now, lasted };
            self.events.push_back(event.clone());
            noted.push(event);
        }
        self.last = Some(picture);
        noted
    }

    /// The last events, oldest first.
    pub fn events(&self) -> Vec<EventRecord> {
        self.events.iter().cloned().collect()
    }

    /// Since when `kind` has been as it is for `subject`.
    pub fn since(&self, kind: Kind, subject: &str) -> Option<Instant> {
        self.since.get(&(kind, subject.to_owned())).copied()
    }

    /// A server came: everything of it begins now. One that left leaves nothing behind.
    fn begin(&mut self, server: &str, came: bool, now: Instant) {
        for kind in [Kind::State, Kind::Role, Kind::Replication, Kind::Eligible] {
            let key = (kind, server.to_owned());
            if came {
                self.since.insert(key, now)
            } else {
                self.since.remove(&key)
            };
        }
        if !came {
            self.since.remove(&(Kind::Membership, server.to_owned()));
        }
    }
}

/// One line in the log for each.
pub fn log(events: &[EventRecord]) {
    for EventRecord { event, lasted, .. } in events {
        let after = lasted.map_or_else(String::new, |lasted| format!(" (after {})", long(lasted)));
        match event.severity {
            Severity::Info => tracing::info!("{}{after}", event.text),
            Severity::Warn => tracing::warn!("{}{after}", event.text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replica() -> ServerPicture {
        ServerPicture {
            state: State::Answering,
            role: (Role::Replica, "replicates from a1".to_owned()),
            stopped: None,
            not_for_reads: None,
        }
    }

    fn primary() -> ServerPicture {
        ServerPicture {
            role: (Role::Primary, "takes writes".to_owned()),
            not_for_reads: Some(("is_primary", "is the primary".to_owned())),
            ..replica()
        }
    }

    fn known(server: &str) -> Option<WriterStatus> {
        Some(WriterStatus::Known { server: ServerName::new(server) })
    }

    fn fleet(b1: ServerPicture) -> Picture {
        let servers = [("a1", primary()), ("b1", b1)];
        Picture {
            servers: servers.into_iter().map(|(name, picture)| (ServerName::new(name), picture)).collect(),
            writer: known("a1"),
            ..Picture::default()
        }
    }

    fn silent() -> ServerPicture {
        ServerPicture {
            state: State::Silent { why: "no answer within 1000 ms".to_owned() },
            not_for_reads: Some(("silent", "silent: no answer within 1000 ms".to_owned())),
            ..replica()
        }
    }

    fn said(before: &Picture, after: &Picture) -> Vec<(Severity, String)> {
        changes(before, after).into_iter().map(|event| (event.severity, event.text)).collect()
    }

    #[test]
    fn a_death_is_one_warning_and_a_return_one_line() {
        let (well, dead) = (fleet(replica()), fleet(silent()));
        let death = "b1 does not answer: no answer within 1000 ms".to_owned();
        assert_eq!(said(&well, &dead), [(Severity::Warn, death)]);
        let back =
            [(Severity::Info, "b1 answers again".to_owned()), (Severity::Info, "b1 takes reads".to_owned())];
        assert_eq!(said(&dead, &well), back);
        assert_eq!(said(&dead, &dead), []);
    }

    #[test]
    fn every_kind_of_change_is_told_with_its_reason() {
        let well = fleet(replica());
        let stopped = ServerPicture {
            stopped: Some("error 1062".to_owned()),
            not_for_reads: Some(("replication_stopped", "replication is stopped: error 1062".to_owned())),
            ..replica()
        };
        assert_eq!(
            said(&well, &fleet(stopped)),
            [
                (Severity::Warn, "replication of b1 is stopped: error 1062".to_owned()),
                (Severity::Warn, "b1 takes no new reads: replication is stopped: error 1062".to_owned()),
            ]
        );
        let mut promoted = fleet(primary());
        promoted.servers.insert(ServerName::new("a1"), replica());
        promoted.writer = known("b1");
        assert_eq!(
            said(&well, &promoted),
            [
                (Severity::Warn, "a1 is replica now, it was primary: replicates from a1".to_owned()),
                (Severity::Info, "a1 takes reads".to_owned()),
                (Severity::Info, "b1 is primary now, it was replica: takes writes".to_owned()),
                (Severity::Warn, "writes go to b1, they went to a1".to_owned()),
            ]
        );
        let mut lost = well.clone();
        lost.writer = Some(WriterStatus::Unknown { why: "two take writes".to_owned() });
        lost.fallbacks.insert("writer_unknown", "no server takes writes".to_owned());
        lost.fallbacks.insert("reads_on_primary", "reads go to the primary".to_owned());
        assert_eq!(
            said(&well, &lost),
            [
                (Severity::Warn, "no server takes writes, a1 did: two take writes".to_owned()),
                (Severity::Warn, "fallback reads_on_primary is in force: reads go to the primary".to_owned()),
            ]
        );
        let ended = (Severity::Info, "fallback reads_on_primary has ended".to_owned());
        assert_eq!(said(&lost, &well)[1], ended);
        let mut gone = well.clone();
        gone.servers.remove(&ServerName::new("b1"));
        assert!(said(&well, &gone)[0].1.starts_with("b1 is no longer part of the fleet"));
        assert_eq!(said(&gone, &well), [(Severity::Info, "b1 is a replica".to_owned())]);
    }

    #[test]
    fn a_lag_that_grows_is_no_news_once_it_is_beyond_the_limit() {
        let behind =
            |words: &str| ServerPicture { not_for_reads: Some(("behind", words.to_owned())), ..replica() };
        let (ten, twelve) = (fleet(behind("10.1 s behind")), fleet(behind("12.0 s behind")));
        assert_eq!(
            said(&fleet(replica()), &ten),
            [(Severity::Warn, "b1 takes no new reads: 10.1 s behind".into())]
        );
        assert_eq!(said(&ten, &twelve), []);
    }

    #[test]
    fn a_flow_is_told_when_small_steps_have_added_up() {
        let with = |to_b: f64| {
            let cell = |to: &str, share| (("a".to_owned(), to.to_owned()), share);
            Picture { flow: [cell("a", 1.0 - to_b), cell("b", to_b)].into(), ..fleet(replica()) }
        };
        let mut history = History::default();
        let flows = |history: &History| {
            let of = |n: &&EventRecord| n.event.kind == Kind::Flow;
            history.events.iter().filter(of).map(|n| n.event.text.clone()).collect::<Vec<_>>()
        };
        let start = Instant::now();
        for (second, share) in
            [(0, 0.0), (1, 0.04), (2, 0.08), (3, 0.12), (4, 0.14), (5, 0.5), (6, 0.9), (13, 0.8)]
        {
            let _ = history.note(with(share), start + Duration::from_secs(second), SystemTime::now());
        }
        assert_eq!(
            flows(&history),
            [
                "reads born in a go to a 88 % (before 100 %), to b 12 % (before 0 %)",
                "reads born in a go to a 20 % (before 88 %), to b 80 % (before 12 %)"
            ]
        );
    }

    #[test]
    fn the_list_is_bounded_and_says_how_long_each_state_lasted() {
        let (mut history, start) = (History::default(), Instant::now());
        let at = |s: u64| start + Duration::from_secs(s);
        let wall = SystemTime::UNIX_EPOCH;
        assert_eq!(history.note(fleet(replica()), at(0), wall).len(), 3, "two servers and the writer");
        assert_eq!(history.note(fleet(silent()), at(60), wall).len(), 1);
        assert_eq!(history.since(Kind::State, "b1"), Some(at(60)));
        let _ = history.note(fleet(replica()), at(312), wall);
        let back = history.events.iter().find(|n| n.event.text == "b1 answers again").unwrap();
        assert_eq!((back.lasted, back.since), (Some(Duration::from_secs(252)), at(312)));
        assert_eq!(long(back.lasted.unwrap()), "4 min 12 s");
        for second in 0..400 {
            let picture = if second % 2 == 0 { silent() } else { replica() };
            let _ = history.note(fleet(picture), at(400 + second), wall);
        }
        assert_eq!(history.events().len(), KEPT);
        assert!(history.since.len() < 20, "{:?}", history.since);
    }
}
