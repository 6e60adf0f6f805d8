//! Objectives of a running router: once every second or so what insight has counted is held against what was promised; an
//! incident that opens or closes is logged, shown and sent to the webhook. What an incident is, `insight::objective` says.

pub(crate) mod metrics;
pub(crate) mod view;
mod webhook;

use crate::objectives::view::{ObjectiveView, WebhookView};
use fleet::config::{Objective, Target};
use insight::objective::Tracked;
use insight::objective::incident::{Change, Open};
use insight::{Dimension, Figures, Filter, Report, Since};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio_util::sync::CancellationToken;
pub(crate) use webhook::Hook;
use webhook::Told;

/// With nothing promised: how soon that is looked at again.
const IDLE: Duration = Duration::from_secs(1);

/// What is promised, and how it is kept.
#[derive(Clone, Default)]
pub(crate) struct Objectives {
    book: Arc<Mutex<Book>>,
}

#[derive(Default)]
struct Book {
    tracked: Vec<Tracked>,
    hook: Option<Hook>,
}

/// An incident that opened or closed, for the log and the webhook.
#[derive(Clone, Debug, PartialEq)]
struct News {
    objective: Objective,
    opened: bool,
    open: Open,
    at: Instant,
}

impl Objectives {
    /// Holds figures against `objectives` until `stop`; `insight` says where to ask, `None` when nothing runs any more.
    pub(crate) fn start(
        objectives: &[Objective],
        hook: Option<Hook>,
        insight: impl Fn() -> Option<router::Insight> + Send + 'static,
        stop: CancellationToken,
    ) -> Self {
        let started = Self::default();
        started.change(objectives, hook);
        let judging = started.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = judging.judge(insight) => {}
            }
        });
        started
    }

    /// Takes over what is promised now. What was promised before goes on with its past.
    pub(crate) fn change(&self, objectives: &[Objective], hook: Option<Hook>) {
        let mut book = self.book();
        let mut before = std::mem::take(&mut book.tracked);
        let track = |objective: &Objective| match before.iter().position(|t| t.objective() == objective) {
            Some(at) => before.swap_remove(at),
            None => Tracked::new(objective.clone()),
        };
        book.tracked = objectives.iter().map(track).collect();
        // What waits to be told is told by the one before, which ends when it has nothing left.
        if book.hook.as_ref().map(Hook::id) != hook.as_ref().map(Hook::id) {
            book.hook = hook;
        }
    }

    /// What people see.
    pub(crate) fn view(&self) -> (Vec<ObjectiveView>, Option<WebhookView>) {
        let (book, now) = (self.book(), Instant::now());
        (book.tracked.iter().map(|t| view::objective(t, now)).collect(), book.hook.as_ref().map(Hook::view))
    }

    async fn judge(&self, insight: impl Fn() -> Option<router::Insight>) {
        loop {
            let every = self.book().tracked.iter().map(Tracked::every).min();
            tokio::time::sleep(every.unwrap_or(IDLE)).await;
            if every.is_none() {
                continue;
            }
            let Some(insight) = insight() else { return };
            let Some(report) = insight.report(Since::Start).await else { return };
            self.hold_against(&report, Instant::now());
        }
    }

    fn hold_against(&self, report: &Report, now: Instant) {
        let mut book = self.book();
        let Book { tracked, hook } = &mut *book;
        let rows = Rows::of(report, tracked);
        for tracked in tracked {
            let objective = tracked.objective();
            let (good, all) = rows.find(&objective.target).map_or((0, 0), |figures| {
                let limit = u64::try_from(objective.threshold.as_nanos()).unwrap_or(u64::MAX);
                (figures.latency.at_most(limit), figures.latency.count())
            });
            let Some(change) = tracked.next(now, good, all) else { continue };
            let (opened, open) = match change {
                Change::Opened(open) => (true, open),
                Change::Closed(open) => (false, open),
            };
            let news = News { objective: tracked.objective().clone(), opened, open, at: now };
            if opened {
                tracing::warn!("{}", news.text());
            } else {
                tracing::info!("{}", news.text());
            }
            if let Some(hook) = hook {
                hook.tell(news.told());
            }
        }
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Figures by the dimensions that are asked for.
struct Rows(Vec<(Dimension, Vec<insight::Row>)>);

impl Rows {
    fn of(report: &Report, tracked: &[Tracked]) -> Self {
        let mut wanted: Vec<Dimension> = tracked.iter().map(|t| dimension(&t.objective().target).0).collect();
        wanted.sort_by_key(|dimension| *dimension as u8);
        wanted.dedup();
        Self(wanted.into_iter().map(|by| (by, report.rows(by, &Filter::default()))).collect())
    }

    fn find(&self, target: &Target) -> Option<&Figures> {
        let (by, name) = dimension(target);
        let (_, rows) = self.0.iter().find(|(dimension, _)| *dimension == by)?;
        // Insight calls a listener by its role and address.
        let called = |row: &&insight::Row| match target {
            Target::Listener(address) => row.name.split_once(' ').is_some_and(|(_, at)| at == address),
            _ => row.name == name,
        };
        rows.iter().find(called).map(|row| &row.figures)
    }
}

fn dimension(target: &Target) -> (Dimension, &str) {
    match target {
        Target::Endpoint(name) => (Dimension::Endpoint, name),
        Target::Server(name) => (Dimension::Server, name),
        Target::Listener(name) => (Dimension::Listener, name),
    }
}

impl News {
    /// One sentence for the log and for people.
    fn text(&self) -> String {
        let Objective { name, .. } = &self.objective;
        let promise = self.objective.text();
        let lasted = self.at.saturating_duration_since(self.open.since).as_secs();
        let worst = self.open.worst;
        if self.opened {
            let days = self.objective.window_days;
            let gone = f64::from(days) * 24.0 / worst.max(1e-9);
            format!(
                "incident opened: {name}: {promise} is broken at {worst:.1} times the allowed rate \
                 (the budget of {days} days would last {gone:.0} h)"
            )
        } else {
            format!(
                "incident closed: {name}: {promise}; it lasted {lasted} s, at worst {worst:.1} times the allowed rate"
            )
        }
    }

    /// What the webhook is sent. `text` is the key that chat programs show.
    fn told(&self) -> Told {
        let since = SystemTime::now() - self.at.saturating_duration_since(self.open.since);
        let since = since.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        Told {
            event: if self.opened { "opened" } else { "closed" },
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
