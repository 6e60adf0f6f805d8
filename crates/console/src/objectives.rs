//! Objectives of a running router or agent: what insight or a server has counted is held against what was
//! promised, as it comes; an incident that opens or closes is logged, shown and sent to the webhook. What an
//! incident is, `insight::objective` says.

pub mod metrics;
pub mod view;
mod webhook;

use crate::PendingReport;
use crate::objectives::view::{ObjectiveView, WebhookView};
use config::{Objective, Target};
use insight::objective::Tracked;
use insight::objective::incident::{Change, Open};
use insight::{Dimension, Figures, Report};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio_util::sync::CancellationToken;
use webhook::Message;
pub use webhook::WebhookSender;

/// With nothing promised: how soon that is looked at again.
const IDLE: Duration = Duration::from_secs(1);
/// A router that is stopped has nothing more to tell this long, at the most, before judging is ended.
const STOPPING: Duration = Duration::from_secs(15);
/// Why nothing is judged where nobody tells what was counted.
const NOTHING_TELLS: &str =
    "the thread that adds up what was counted has ended; start the router again, its log says why it ended";

/// What is promised, and how it is kept.
#[derive(Clone, Default)]
pub struct Objectives {
    book: Arc<Mutex<Tracking>>,
}

#[derive(Default)]
struct Tracking {
    tracked: Vec<Tracked>,
    /// Why an objective is not judged now, by its name.
    why_not: BTreeMap<String, String>,
    /// When the open incident of an objective began, by the calendar of then: opening and end have one id,
    /// also when the calendar is set meanwhile.
    began_unix_s: BTreeMap<String, u64>,
    hook: Option<WebhookSender>,
}

/// What is known of the statements that an objective is about.
#[derive(Clone, Debug, PartialEq)]
pub enum Observation {
    /// How many were good, of all, since the start of counting.
    Counted { good: u64, all: u64 },
    /// Nothing was counted since the last time.
    Unchanged,
    /// They cannot be judged; why, and what to do about it.
    NotJudged(String),
}

/// An incident that opened or closed, for the log and the webhook.
#[derive(Clone, Debug, PartialEq)]
struct IncidentChange {
    objective: Objective,
    event: IncidentEvent,
    open: Open,
    at: Instant,
    /// When it opened, by the calendar of then.
    since_unix_s: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IncidentEvent {
    Opened,
    /// It was calm for long enough.
    Closed,
    /// The configuration promises something else now, or nothing.
    Withdrawn,
}

impl Objectives {
    /// Promises that nothing is held against yet.
    pub fn new(objectives: &[Objective], hook: Option<WebhookSender>) -> Self {
        let new = Self::default();
        new.change(objectives, hook);
        new
    }

    /// Holds figures against `objectives` until `stop`; `reports` yields what was counted since the start,
    /// `None` when nothing runs any more.
    pub fn start(
        objectives: &[Objective],
        hook: Option<WebhookSender>,
        reports: impl Fn() -> PendingReport + Send + 'static,
        stop: CancellationToken,
    ) -> Self {
        let started = Self::new(objectives, hook);
        let judging = started.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = judging.judge(reports) => {}
            }
        });
        started
    }

    /// Takes over what is promised now. What was promised before goes on with its past; an open incident of
    /// what is promised no more ends.
    pub fn change(&self, objectives: &[Objective], hook: Option<WebhookSender>) {
        let mut book = self.book();
        // Told by the webhook that told of the opening.
        for withdrawn in book.change(objectives, Instant::now()) {
            withdrawn.tell(book.hook.as_ref());
        }
        // What waits to be told is told by the one before, which ends when it has nothing left.
        if book.hook.as_ref().map(WebhookSender::id) != hook.as_ref().map(WebhookSender::id) {
            book.hook = hook;
        }
    }

    /// What people see.
    pub fn view(&self) -> (Vec<ObjectiveView>, Option<WebhookView>) {
        let (book, now) = (self.book(), Instant::now());
        let view = |tracked: &Tracked| {
            let not_judged = book.why_not.get(&tracked.objective().name).cloned();
            ObjectiveView { not_judged, ..view::objective(tracked, now) }
        };
        (book.tracked.iter().map(view).collect(), book.hook.as_ref().map(WebhookSender::view))
    }

    async fn judge(&self, reports: impl Fn() -> PendingReport) {
        let mut said = false;
        loop {
            let every = self.book().tracked.iter().map(Tracked::every).min();
            tokio::time::sleep(every.unwrap_or(IDLE)).await;
            if every.is_none() {
                continue;
            }
            let Some(report) = reports().await else {
                // While the router stops, this ends here.
                tokio::time::sleep(STOPPING).await;
                self.nothing_tells(&mut said);
                continue;
            };
            self.hold_against(&report, Instant::now());
        }
    }

    /// Shows with each objective that it is not judged, those of later reloads too; the log has it once.
    fn nothing_tells(&self, said: &mut bool) {
        if !std::mem::replace(said, true) {
            tracing::error!("objectives are not judged: {NOTHING_TELLS}");
        }
        self.hold(Instant::now(), |_| Observation::NotJudged(NOTHING_TELLS.to_owned()));
    }

    fn hold_against(&self, report: &Report, now: Instant) {
        let targets: Vec<Target> = self.book().tracked.iter().map(|t| t.objective().target.clone()).collect();
        let rows = Rows::of(report, &targets);
        self.hold(now, |objective| {
            let figures = rows.find(&objective.target);
            let (good, all) = figures.map_or((0, 0), |figures| {
                let limit = u64::try_from(objective.threshold.as_nanos()).unwrap_or(u64::MAX);
                (figures.latency.at_most(limit), figures.latency.count())
            });
            Observation::Counted { good, all }
        });
    }

    /// Holds what `seen` says of each objective against it.
    pub fn hold(&self, now: Instant, seen: impl Fn(&Objective) -> Observation) {
        let mut book = self.book();
        for change in book.hold(now, seen) {
            change.tell(book.hook.as_ref());
        }
    }

    fn book(&self) -> MutexGuard<'_, Tracking> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tracking {
    /// What is promised now; the incidents that end with what is promised no more.
    fn change(&mut self, objectives: &[Objective], now: Instant) -> Vec<IncidentChange> {
        let mut before = std::mem::take(&mut self.tracked);
        let track = |objective: &Objective| match before.iter().position(|t| t.objective() == objective) {
            Some(at) => before.swap_remove(at),
            None => Tracked::new(objective.clone()),
        };
        self.tracked = objectives.iter().map(track).collect();
        self.why_not.clear();
        let mut withdrawn = Vec::new();
        for gone in before {
            let Some(open) = gone.book().open() else { continue };
            let objective = gone.objective().clone();
            let since_unix_s = self.began_unix_s.remove(&objective.name).unwrap_or_else(unix_s);
            let event = IncidentEvent::Withdrawn;
            withdrawn.push(IncidentChange { objective, event, open, at: now, since_unix_s });
        }
        withdrawn
    }

    /// What opened and what closed by what `seen` says of each objective.
    fn hold(&mut self, now: Instant, seen: impl Fn(&Objective) -> Observation) -> Vec<IncidentChange> {
        let Self { tracked, why_not, began_unix_s, .. } = self;
        let mut changes = Vec::new();
        for tracked in tracked {
            let name = tracked.objective().name.clone();
            let (good, all) = match seen(tracked.objective()) {
                Observation::Counted { good, all } => (good, all),
                Observation::Unchanged => continue,
                Observation::NotJudged(why) => {
                    if why_not.get(&name) != Some(&why) {
                        tracing::warn!("objective {name} is not judged: {why}");
                    }
                    why_not.insert(name, why);
                    continue;
                }
            };
            why_not.remove(&name);
            let Some(change) = tracked.next(now, good, all) else { continue };
            let (event, open, since_unix_s) = match change {
                Change::Opened(open) => {
                    let since_unix_s = unix_s();
                    began_unix_s.insert(name, since_unix_s);
                    (IncidentEvent::Opened, open, since_unix_s)
                }
                Change::Closed(open) => {
                    let since_unix_s = began_unix_s.remove(&name).unwrap_or_else(unix_s);
                    (IncidentEvent::Closed, open, since_unix_s)
                }
            };
            let objective = tracked.objective().clone();
            changes.push(IncidentChange { objective, event, open, at: now, since_unix_s });
        }
        changes
    }
}

/// What the calendar says: seconds of the Unix epoch.
fn unix_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Figures by the dimensions that are asked for, as they were measured: a few statements are few, however
/// many they stand for.
struct Rows(Vec<(Dimension, Vec<(String, Figures)>)>);

impl Rows {
    fn of(report: &Report, targets: &[Target]) -> Self {
        let mut wanted: Vec<Dimension> = targets.iter().map(|target| dimension(target).0).collect();
        wanted.sort_by_key(|dimension| *dimension as u8);
        wanted.dedup();
        Self(wanted.into_iter().map(|by| (by, report.measured(by))).collect())
    }

    fn find(&self, target: &Target) -> Option<&Figures> {
        let (by, name) = dimension(target);
        let (_, rows) = self.0.iter().find(|(dimension, _)| *dimension == by)?;
        // Insight calls a listener by its role and address.
        let called = |row: &&(String, Figures)| match target {
            Target::Listener(address) => row.0.split_once(' ').is_some_and(|(_, at)| at == address),
            _ => row.0 == name,
        };
        rows.iter().find(called).map(|(_, figures)| figures)
    }
}

fn dimension(target: &Target) -> (Dimension, &str) {
    match target {
        Target::Endpoint(name) => (Dimension::Endpoint, name),
        Target::Server(name) => (Dimension::Server, name),
        Target::Listener(name) => (Dimension::Listener, name),
    }
}

impl IncidentChange {
    /// To the log, and to whoever is told.
    fn tell(&self, hook: Option<&WebhookSender>) {
        match self.event {
            IncidentEvent::Opened => tracing::warn!("{}", self.text()),
            IncidentEvent::Closed | IncidentEvent::Withdrawn => tracing::info!("{}", self.text()),
        }
        if let Some(hook) = hook {
            hook.tell(self.told());
        }
    }

    /// One sentence for the log and for people.
    fn text(&self) -> String {
        let Objective { name, .. } = &self.objective;
        let promise = self.objective.text();
        let lasted = self.at.saturating_duration_since(self.open.since).as_secs();
        let worst = self.open.worst;
        let closed = format!(
            "incident closed: {name}: {promise}; it lasted {lasted} s, at worst {worst:.1} times the allowed rate"
        );
        match self.event {
            IncidentEvent::Opened => {
                let days = self.objective.window_days;
                let gone = f64::from(days) * 24.0 / worst.max(1e-9);
                format!(
                    "incident opened: {name}: {promise} is broken at {worst:.1} times the allowed rate \
                     (the budget of {days} days would last {gone:.0} h)"
                )
            }
            IncidentEvent::Closed => closed,
            IncidentEvent::Withdrawn => {
                format!("{closed}. It had not recovered: the configuration no longer promises this")
            }
        }
    }

    /// What the webhook is sent. `text` is the key that chat programs show.
    fn told(&self) -> Message {
        let since = self.since_unix_s;
        Message {
            event: match self.event {
                IncidentEvent::Opened => "opened",
                IncidentEvent::Closed | IncidentEvent::Withdrawn => "closed",
            },
            id: format!("{}-{since}", self.objective.name),
            objective: self.objective.name.clone(),
            promise: self.objective.text(),
            text: self.text(),
            pace: view::pace(self.open.pace),
            worst_burn: self.open.worst,
            since_unix_s: since,
            lasted_s: self.at.saturating_duration_since(self.open.since).as_secs_f64(),
            router: rustix::system::uname().nodename().to_string_lossy().into_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checkout() -> Objective {
        let target = Target::Endpoint("checkout".to_owned());
        let new = Objective::new("checkout".to_owned(), target, Duration::from_millis(15), 0.9);
        Objective { fast: Duration::from_secs(60), fast_burn: 5.0, calm: Duration::from_secs(10), ..new }
    }

    /// Holds these seconds against what is promised: ten statements in each, all of them bad for forty
    /// seconds and good from then on.
    fn seconds(
        book: &mut Tracking,
        start: Instant,
        which: std::ops::RangeInclusive<u64>,
    ) -> Vec<IncidentChange> {
        let counted =
            |second: u64| Observation::Counted { good: 10 * second.saturating_sub(40), all: 10 * second };
        which.flat_map(|second| book.hold(start + Duration::from_secs(second), |_| counted(second))).collect()
    }

    #[test]
    fn opening_and_end_of_an_incident_have_one_id_also_when_the_calendar_is_set_meanwhile() {
        let (mut book, start) = (Tracking::default(), Instant::now());
        assert!(book.change(&[checkout()], start).is_empty());
        let changes = seconds(&mut book, start, 0..=40);
        let [opened] = &changes[..] else { panic!("{changes:?}") };
        assert_eq!((opened.event, opened.told().event), (IncidentEvent::Opened, "opened"));
        assert_eq!(book.began_unix_s.get("checkout"), Some(&opened.since_unix_s));
        // As if it had begun by another calendar than that of now.
        book.began_unix_s.insert("checkout".to_owned(), 7);
        let changes = seconds(&mut book, start, 41..=70);
        let [closed] = &changes[..] else { panic!("{changes:?}") };
        let told = closed.told();
        assert_eq!((told.event, told.id.as_str(), told.since_unix_s), ("closed", "checkout-7", 7));
        assert!(book.began_unix_s.is_empty());
    }

    #[test]
    fn where_nobody_tells_what_was_counted_it_is_shown_that_nothing_is_judged() {
        let objectives = Objectives::new(&[checkout()], None);
        let not_judged = || objectives.view().0[0].not_judged.clone();
        assert_eq!(not_judged(), None);
        let mut said = false;
        objectives.nothing_tells(&mut said);
        assert_eq!((said, not_judged().as_deref()), (true, Some(NOTHING_TELLS)));
        // A reload changes nothing of that.
        objectives.change(&[checkout()], None);
        objectives.nothing_tells(&mut said);
        assert_eq!(not_judged().as_deref(), Some(NOTHING_TELLS));
    }

    #[test]
    fn an_open_incident_ends_with_the_promise_that_it_is_about_and_no_other_does() {
        let (mut book, start) = (Tracking::default(), Instant::now());
        book.change(&[checkout()], start);
        let opened = seconds(&mut book, start, 0..=40);
        let later = start + Duration::from_secs(41);
        assert!(book.change(&[checkout()], later).is_empty(), "a reload that changes nothing of it");
        let slower = Objective { threshold: Duration::from_millis(30), ..checkout() };
        let withdrawn = book.change(&[slower], later);
        let [ended] = &withdrawn[..] else { panic!("{withdrawn:?}") };
        let (told, before) = (ended.told(), opened[0].told());
        assert_eq!((told.event, &told.id, &told.promise), ("closed", &before.id, &before.promise));
        assert!(told.text.contains("no longer promises this"), "{}", told.text);
        assert!(book.change(&[], later).is_empty(), "what replaced it has no incident");
    }
}
