//! `/history.json`: the series of a stretch on a grid, what was said, and the gaps; and who adds to the
//! history.

use crate::series::{self, HostNow, ServerNow, StatementsNow};
use console::history_view::{
    GapView, HistoryView, JumpView, KeptView, SeriesView, SpanView, Subject, SubjectView,
};
use console::watch_view::RouterWatch;
use console::watch_view::VerdictView;
use diagnose::history::{Gap, History, Outcome, Track};
use diagnose::verdict::Unit;
use serde::Deserialize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// Cells of a grid at most; the step is raised until it fits.
const MOST_CELLS: u64 = 2_000;
/// A number below this counts seconds from now; from there on those of the Unix epoch.
const EPOCH_FROM: f64 = 1e9;

/// The history that one task adds to and answers are made of. Locked for the time of one point or one answer,
/// never over an await.
#[derive(Clone)]
pub(crate) struct HistoryStore(Arc<Mutex<History<Subject>>>);

/// Which stretch, in seconds: 0 is now, -600 ten minutes ago, 1700000000 a moment of the Unix epoch.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct HistoryQuery {
    pub(crate) from: f64,
    pub(crate) to: f64,
    /// Length of the means, seconds.
    pub(crate) step: f64,
}

impl Default for HistoryQuery {
    fn default() -> Self {
        Self { from: -600.0, to: 0.0, step: 3.0 }
    }
}

impl HistoryStore {
    /// An empty one that begins now.
    pub(crate) fn new() -> Self {
        Self::since(Instant::now(), SystemTime::now())
    }

    pub(crate) fn since(now: Instant, calendar: SystemTime) -> Self {
        Self(Arc::new(Mutex::new(History::new(now, calendar))))
    }

    /// The history itself.
    pub(crate) fn lock(&self) -> MutexGuard<'_, History<Subject>> {
        // A panic while it was locked would have left whole points only.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Once a second: notes what happened to the clocks.
    pub(crate) fn tick(&self, now: Instant) {
        self.lock().tick(now, SystemTime::now());
    }

    /// A reading of the host.
    pub(crate) fn host(&self, at: Instant, now: &HostNow, verdict: &VerdictView) {
        self.lock().add(&Subject::Host, at, series::figures(series::HOST, now), said(verdict));
    }

    /// A reading of a server.
    pub(crate) fn server(&self, name: &str, at: Instant, now: &ServerNow, verdict: &VerdictView) {
        let figures = series::figures(series::SERVER, now);
        self.lock().add(&Subject::Server(name.to_owned()), at, figures, said(verdict));
    }

    /// A server does not answer.
    pub(crate) fn lose(&self, name: &str, why: &str) {
        self.lock().lose(&Subject::Server(name.to_owned()), Instant::now(), why);
    }

    /// A server left the fleet.
    pub(crate) fn leave(&self, name: &str) {
        self.lock().leave(&Subject::Server(name.to_owned()), Instant::now());
    }

    /// What a router said, or that it says nothing.
    pub(crate) fn router(&self, watch: &RouterWatch, at: Instant) {
        let mut history = self.lock();
        if let Some(why) = &watch.unanswered {
            // One that never answered has no gap: nobody promised a router.
            if history.track(&Subject::Router).is_some() {
                history.lose(&Subject::Router, at, why);
            }
            return;
        }
        let now = StatementsNow { figures: watch.total.clone(), requests: None };
        history.add(&Subject::Router, at, series::figures(series::STATEMENTS, &now), Outcome::Nothing);
        for endpoint in &watch.endpoints {
            let now =
                StatementsNow { figures: endpoint.figures.clone(), requests: endpoint.requests.clone() };
            let figures = series::figures(series::STATEMENTS, &now);
            history.add(&Subject::Endpoint(endpoint.name.clone()), at, figures, Outcome::Nothing);
        }
    }

    /// The series of a stretch.
    pub(crate) fn view(&self, stretch: &HistoryQuery) -> HistoryView {
        let history = self.lock();
        let now_ms = history.ms(Instant::now());
        let (from_ms, to_ms) = (moment(&history, stretch.from, now_ms), moment(&history, stretch.to, now_ms));
        let (from_ms, to_ms) = (from_ms.min(to_ms), to_ms.max(from_ms).min(now_ms + 1));
        let step_ms = step(&history, stretch.step, from_ms, to_ms);
        // Cells begin at multiples of the step: the same reading is in the same cell whenever it is asked.
        let from_ms = from_ms / step_ms * step_ms;
        let clock = history.clock();
        HistoryView {
            now_s: seconds(now_ms),
            now_epoch_s: clock.epoch_ms(now_ms) as f64 / 1e3,
            from_s: seconds(from_ms),
            to_s: seconds(to_ms.max(from_ms)),
            step_s: seconds(step_ms),
            subjects: history
                .subjects()
                .map(|(subject, track)| subject_view(&history, subject, track, (from_ms, to_ms, step_ms)))
                .collect(),
            jumps: clock
                .jumps()
                .filter(|jump| jump.at_ms >= from_ms && jump.at_ms <= to_ms)
                .map(|jump| JumpView { at_s: seconds(jump.at_ms), by_s: jump.by_ms as f64 / 1e3 })
                .collect(),
            kept: kept(&history),
        }
    }
}

/// A moment of the question, milliseconds of the history.
pub(crate) fn moment(history: &History<Subject>, at: f64, now_ms: u64) -> u64 {
    if at >= EPOCH_FROM {
        return history.clock().history_ms((at * 1e3) as i64);
    }
    let ago = (-at).max(0.0) * 1e3;
    now_ms.saturating_sub(ago as u64)
}

fn step(history: &History<Subject>, wanted: f64, from_ms: u64, to_ms: u64) -> u64 {
    // Where only minutes are kept, a finer grid would be holes.
    let minutes = history.subjects().any(|(_, track)| {
        track.points(0, u64::MAX).next().is_some_and(|first| first.at_ms < track.fine_from_ms())
            && from_ms < track.fine_from_ms()
    });
    let least = if minutes { 60_000 } else { 1_000 };
    let wanted = if wanted.is_finite() { (wanted * 1e3) as u64 } else { 0 };
    wanted.max(least).max(to_ms.saturating_sub(from_ms).div_ceil(MOST_CELLS))
}

fn subject_view(
    history: &History<Subject>,
    subject: &Subject,
    track: &Track,
    (from_ms, to_ms, step_ms): (u64, u64, u64),
) -> SubjectView {
    let means = track.means(from_ms, to_ms, step_ms);
    let one = |(at, (name, label, unit)): (usize, (&'static str, &'static str, Unit))| SeriesView {
        name,
        label,
        unit,
        values: means.iter().map(|cell| cell.map(|f| f[at]).filter(|f| f.is_finite()).map(short)).collect(),
    };
    let said = |span: &diagnose::history::Span| {
        let (name, called) = match span.outcome {
            Outcome::Nothing => return None,
            Outcome::Free => (None, "no bottleneck"),
            Outcome::Bottleneck(name) => (Some(name), name.rule().called),
        };
        Some(SpanView { from_s: seconds(span.from_ms), to_s: seconds(span.to_ms), name, called })
    };
    SubjectView {
        subject: subject.clone(),
        series: series::of(subject).into_iter().enumerate().map(one).collect(),
        verdicts: track.spans(from_ms, to_ms).iter().filter_map(said).collect(),
        gaps: history.gaps(subject, from_ms, to_ms).map(gap).collect(),
    }
}

pub(crate) fn gap(gap: &Gap<Subject>) -> GapView {
    GapView { from_s: seconds(gap.from_ms), to_s: gap.to_ms.map(seconds), why: gap.why.clone() }
}

fn kept(history: &History<Subject>) -> KeptView {
    let (readings, minutes): (Duration, Duration) = History::<Subject>::kept();
    KeptView {
        readings_s: readings.as_secs(),
        minutes_s: minutes.as_secs(),
        bytes: history.bytes(),
        bytes_at_most: History::<Subject>::most_bytes(),
        untold: history.untold(),
    }
}

/// What a verdict says, for the history.
pub(crate) fn said(verdict: &VerdictView) -> Outcome {
    match &verdict.bottleneck {
        Some(named) => Outcome::Bottleneck(named.name),
        None if verdict.text.is_empty() => Outcome::Nothing,
        None => Outcome::Free,
    }
}

pub(crate) fn seconds(ms: u64) -> f64 {
    ms as f64 / 1e3
}

/// Four digits are enough for a picture and keep the answer short.
fn short(value: f32) -> f32 {
    if value == 0.0 {
        return 0.0;
    }
    let scale = 10f32.powf(3.0 - value.abs().log10().floor());
    let rounded = (value * scale).round() / scale;
    if rounded.is_finite() { rounded } else { value }
}

#[cfg(test)]
mod tests {
    use super::*;
    use console::sample_view::HostSampleView;

    fn busy(share: f64) -> HostNow {
        let mut sample = HostSampleView::default();
        sample.cpu.all.user = share;
        HostNow { sample, disk: None }
    }

    #[test]
    fn a_stretch_is_told_on_a_grid_with_what_was_said_and_where_nothing_was_read() {
        let ago = Duration::from_secs(20);
        let began = Instant::now().checked_sub(ago).unwrap();
        let kept = HistoryStore::since(began, SystemTime::now() - ago);
        let free = VerdictView { text: "no bottleneck".to_owned(), ..VerdictView::default() };
        kept.host(began + Duration::from_secs(10), &busy(0.25), &free);
        let locks = console::watch_view::verdict(&diagnose::verdict::Verdict {
            bottleneck: Some(diagnose::verdict::Finding {
                name: diagnose::verdict::Name::RowLocks,
                load: 1.0,
                weight: 1.0,
                ceiling: None,
                evidence: Vec::new(),
                who: None,
            }),
            ..diagnose::verdict::Verdict::default()
        });
        kept.host(began + Duration::from_secs(11), &busy(0.5), &locks);
        kept.host(began + Duration::from_secs(19), &busy(0.75), &free);
        let view = kept.view(&HistoryQuery { from: -15.0, to: 0.0, step: 1.0 });
        let host = &view.subjects[0];
        assert_eq!((&host.subject, host.series[0].name), (&Subject::Host, "cpu"));
        assert_eq!(host.series[0].values.iter().flatten().collect::<Vec<_>>(), [&0.25, &0.5, &0.75]);
        let said: Vec<_> = host.verdicts.iter().map(|span| (span.from_s, span.called)).collect();
        assert_eq!(said, [(10.0, "no bottleneck"), (11.0, "row locks"), (19.0, "no bottleneck")]);
        assert_eq!((host.gaps[0].from_s, host.gaps[0].to_s), (11.0, Some(19.0)));
        assert!(view.kept.bytes < view.kept.bytes_at_most);
        let coarse = kept.view(&HistoryQuery { from: -15.0, to: 0.0, step: 100.0 });
        assert_eq!(coarse.subjects[0].series[0].values, [Some(0.5)]);
    }

    #[test]
    fn a_stretch_that_lies_in_the_future_is_empty() {
        let ago = Duration::from_secs(20);
        let kept = HistoryStore::since(Instant::now().checked_sub(ago).unwrap(), SystemTime::now() - ago);
        kept.host(Instant::now(), &busy(0.25), &VerdictView::default());
        let ahead = SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64() + 3600.0;
        let view = kept.view(&HistoryQuery { from: ahead, to: ahead + 60.0, step: 1.0 });
        assert!(
            view.subjects.iter().all(|subject| subject.series.iter().all(|c| c
                .values
                .iter()
                .flatten()
                .count()
                == 0))
        );
        assert!(view.from_s <= view.to_s, "{} {}", view.from_s, view.to_s);
    }

    #[test]
    fn moments_are_counted_from_now_or_from_the_epoch() {
        let kept = HistoryStore::new();
        let history = kept.lock();
        assert_eq!(moment(&history, -2.0, 10_000), 8_000);
        assert_eq!(moment(&history, 0.0, 10_000), 10_000);
        assert_eq!(moment(&history, -60.0, 10_000), 0, "before the beginning there is nothing");
        let began = history.clock().epoch_ms(0) as f64 / 1e3;
        assert!(moment(&history, began + 4.0, 10_000).abs_diff(4_000) <= 1);
    }

    #[test]
    fn values_are_told_with_four_digits() {
        assert_eq!(
            [short(0.123_456), short(1846.4), short(184_612.0), short(0.0)],
            [0.1235, 1846.0, 184_600.0, 0.0]
        );
    }
}
