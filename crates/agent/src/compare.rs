//! Two stretches of the history side by side: did it get better, by how much, and how sure is that?
//!
//! A figure of a stretch is its mean over the readings. The mean duration of a statement is *sessions at work
//! / statements*, both over the whole stretch: a mean of means would give a quiet second the weight of a busy
//! one.
//!
//! Readings a second apart depend on each other, and taken one by one they would seem far surer than they
//! are. So a stretch is cut into slices (20, but none shorter than 15 s), each has its figure, and with their
//! mean m, standard deviation s and number n
//!
//! ```text
//! interval = m ± t(n-1) * s / sqrt(n)                             t: 97.5 % quantile of Student's
//! distribution ratio    = after / before, its logarithm ± t * sqrt((sb/mb)^2/nb + (sa/ma)^2/na)
//! ```
//!
//! With fewer than five slices there is no interval, and the answer says so. Slices longer than the load's
//! own swings are assumed to be independent: two stretches of different hours differ also because the hours
//! do.

mod text;

pub use text::{PastStretch, StretchError, target, text};

use crate::history::{HistoryStore, gap, moment, seconds};
use console::comparison_view::{ComparisonView, Estimate, RatioView, RowView, SideView};
use console::history_view::{GapView, Subject};
use diagnose::history::{GAP_MS, History, MOST_SUBJECTS, Point, Track};
use diagnose::verdict::Unit;
use plan::student;
use serde::Deserialize;
use std::time::Instant;

/// Slices that a stretch is cut into at most, and at least for an interval.
const SLICES: (u64, usize) = (20, 5);
/// A slice is this long at least, milliseconds; where only minutes are kept, two of them.
const SLICE_MS: (u64, u64) = (15_000, 120_000);

/// Which stretches, in seconds as in [`super::history::HistoryQuery`].
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CompareQuery {
    pub(crate) before_from: f64,
    pub(crate) before_to: f64,
    pub(crate) after_from: f64,
    pub(crate) after_to: f64,
}

/// A line of the comparison: a figure, or one over another.
struct Line {
    figure: &'static str,
    label: &'static str,
    over: Option<(&'static str, f64)>,
}

const fn line(figure: &'static str, label: &'static str) -> Line {
    Line { figure, label, over: None }
}

/// What is compared, most telling first. A quantile of a stretch cannot be computed from the quantiles of its
/// parts: their mean is told, and called so.
const ROUTER: &[Line] = &[
    line("span_ms", "median request"),
    line("request_ms", "its time in the database"),
    line("p50_ms", "median statement"),
    line("p99_ms", "p99, mean of windows"),
    line("statements", "statements"),
];
const HOST: &[Line] =
    &[line("cpu", "CPU, busy"), line("disk_busy", "disk, busy"), line("flush_ms", "a disk flush")];
const SERVER: &[Line] = &[
    Line { figure: "at_work", label: "mean statement", over: Some(("statements", 1e3)) },
    line("p99_ms", "p99, mean of windows"),
    line("statements", "statements"),
    line("at_work", "sessions at work"),
    line("pool_misses", "pool misses"),
    line("lag_ms", "lag"),
];

impl HistoryStore {
    /// Compares two stretches.
    pub(crate) fn compare(&self, question: &CompareQuery) -> ComparisonView {
        let history = self.lock();
        let now_ms = history.ms(Instant::now());
        let at = |s: f64| moment(&history, s, now_ms).min(now_ms);
        let ordered = |from: u64, to: u64| (from.min(to), from.max(to));
        let before = ordered(at(question.before_from), at(question.before_to));
        let after = ordered(at(question.after_from), at(question.after_to));
        let mut rows: Vec<RowView> =
            history.subjects().flat_map(|(subject, track)| rows(subject, track, before, after)).collect();
        // What the application sees comes first.
        rows.sort_by_key(|row| row.subject != Subject::Router);
        let side = |(from, to): (u64, u64)| SideView {
            from_epoch_s: history.clock().epoch_ms(from) as f64 / 1e3,
            to_epoch_s: history.clock().epoch_ms(to) as f64 / 1e3,
            seconds: seconds(to - from),
        };
        let notes = notes(&history, &rows, before, after);
        ComparisonView { before: side(before), after: side(after), rows, notes }
    }
}

fn rows(subject: &Subject, track: &Track, before: (u64, u64), after: (u64, u64)) -> Vec<RowView> {
    let lines = match subject {
        Subject::Host | Subject::Agent(_) => HOST,
        Subject::Server(_) => SERVER,
        Subject::Router | Subject::Endpoint(_) => ROUTER,
    };
    let series = crate::series::of(subject);
    let place = |name: &str| series.iter().position(|(known, ..)| *known == name);
    let row = |line: &Line| {
        let at = place(line.figure)?;
        let over = line.over.and_then(|(name, scale)| Some((place(name)?, scale)));
        let (before, after) = (estimate(track, at, over, before), estimate(track, at, over, after));
        (before.is_some() || after.is_some()).then(|| RowView {
            subject: subject.clone(),
            who: subject.called(),
            figure: if line.over.is_some() { "mean_ms".to_owned() } else { line.figure.to_owned() },
            label: line.label.to_owned(),
            unit: if line.over.is_some() { Unit::Milliseconds } else { series[at].2 },
            ratio: before.zip(after).and_then(|(before, after)| ratio(&before, &after)),
            before,
            after,
        })
    };
    lines.iter().filter_map(row).collect()
}

/// The figure of a stretch; `None` where it was never read.
fn estimate(
    track: &Track,
    at: usize,
    over: Option<(usize, f64)>,
    (from, to): (u64, u64),
) -> Option<Estimate> {
    let coarse = from < track.fine_from_ms();
    let length = ((to - from) / SLICES.0).max(if coarse { SLICE_MS.1 } else { SLICE_MS.0 });
    let mut whole = Sum::default();
    let mut slices: Vec<(u64, Sum)> = Vec::new();
    for point in track.points(from, to) {
        let number = (point.at_ms - from) / length;
        if slices.last().is_none_or(|(last, _)| *last != number) {
            slices.push((number, Sum::default()));
        }
        whole.add(point, at, over);
        if let Some((_, slice)) = slices.last_mut() {
            slice.add(point, at, over);
        }
    }
    let mean = whole.mean(over)?;
    let each: Vec<f64> = slices.iter().filter_map(|(_, slice)| slice.mean(over)).collect();
    let n = each.len();
    let error = (n >= SLICES.1).then(|| {
        let middle = each.iter().sum::<f64>() / n as f64;
        let variance = each.iter().map(|x| (x - middle).powi(2)).sum::<f64>() / (n - 1) as f64;
        (variance / n as f64).sqrt()
    });
    let interval = error.map(|error| {
        let half = student::quantile(0.975, (n - 1) as f64) * error;
        ((mean - half).max(0.0), mean + half)
    });
    let relative = error.filter(|_| mean > 0.0).map(|error| (error / mean, n));
    Some(Estimate { mean, interval, readings: whole.readings, error: relative })
}

/// After over before; `None` where there is nothing to divide by.
fn ratio(before: &Estimate, after: &Estimate) -> Option<RatioView> {
    if before.mean <= 0.0 {
        return None;
    }
    let ratio = after.mean / before.mean;
    let interval = before.error.zip(after.error).map(|((b, nb), (a, na))| {
        let half = student::quantile(0.975, (nb.min(na) - 1) as f64) * b.hypot(a);
        (ratio * (-half).exp(), ratio * half.exp())
    });
    Some(RatioView { ratio, interval })
}

#[derive(Clone, Copy, Default)]
struct Sum {
    of: f64,
    over: f64,
    readings: u64,
}

impl Sum {
    fn add(&mut self, point: &Point, at: usize, over: Option<(usize, f64)>) {
        let count = f64::from(point.count);
        let below = over.map_or(1.0, |(below, _)| f64::from(point.figures[below]));
        let figure = f64::from(point.figures[at]);
        if figure.is_finite() && below.is_finite() {
            self.of += figure * count;
            self.over += below * count;
            self.readings += u64::from(point.count);
        }
    }

    fn mean(&self, over: Option<(usize, f64)>) -> Option<f64> {
        // Of statements that were never seen at work no duration is known: too short is not zero.
        let seen = self.over > 0.0 && (over.is_none() || self.of > 0.0);
        seen.then(|| self.of / self.over * over.map_or(1.0, |(_, scale)| scale))
    }
}

fn notes(history: &History<Subject>, rows: &[RowView], before: (u64, u64), after: (u64, u64)) -> Vec<String> {
    let mut notes = Vec::new();
    for (name, (from, to)) in [("before", before), ("after", after)] {
        if to.saturating_sub(from) < SLICES.1 as u64 * SLICE_MS.0 {
            notes.push(format!(
                "{name} is {:.0} s long: too short to say how sure its figures are (75 s and more have an interval)",
                seconds(to - from)
            ));
        }
        for (subject, _) in history.subjects().filter(|(subject, _)| !matches!(subject, Subject::Endpoint(_)))
        {
            let missing: Vec<GapView> = history.gaps(subject, from, to).map(gap).collect();
            let lost = |gap: &GapView| {
                gap.to_s.unwrap_or(seconds(to)).min(seconds(to)) - gap.from_s.max(seconds(from))
            };
            let lost: f64 = missing.iter().map(lost).filter(|lost| *lost * 1e3 > GAP_MS as f64 / 2.0).sum();
            if lost > 0.0 {
                notes.push(format!(
                    "{name}: {} has gaps of {lost:.0} s; means are of the rest",
                    subject.called()
                ));
            }
        }
    }
    if before.0 < after.1 && after.0 < before.1 {
        notes.push("the two stretches overlap".to_owned());
    }
    if history.untold() > 0 {
        notes.push(format!(
            "there are more than {MOST_SUBJECTS} servers and endpoints: of those beyond that no history is kept"
        ));
    }
    if rows.is_empty() {
        notes.push("nothing was read in either stretch".to_owned());
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::series::ServerNow;
    use console::sample_view::ServerSampleView;
    use console::watch_view::VerdictView;
    use std::time::{Duration, SystemTime};

    fn now(statements: f64, active: f64) -> ServerNow {
        let sample = ServerSampleView { statements_per_s: statements, active, ..ServerSampleView::default() };
        ServerNow { sample, quantiles: None, lag_ms: None }
    }

    /// A stretch before and one after a change, with swings that are no change. Readings are half a second
    /// off the borders.
    fn changed(before: (f64, f64), after: (f64, f64), seconds: u64) -> (HistoryStore, CompareQuery) {
        let ago = Duration::from_secs(2 * seconds);
        let began = Instant::now().checked_sub(ago).unwrap();
        let kept = HistoryStore::since(began, SystemTime::now() - ago);
        for second in 0..2 * seconds {
            let swing = 1.0 + 0.1 * (second as f64 / 7.3).sin() + 0.05 * (second as f64 / 17.0).sin();
            let (statements, active) = if second < seconds { before } else { after };
            let now = now(statements * swing, active * swing);
            let at = began + Duration::from_millis(second * 1000 + 500);
            kept.server("db1", at, &now, &VerdictView::default());
        }
        let s = seconds as f64;
        (kept, CompareQuery { before_from: -2.0 * s, before_to: -s, after_from: -s, after_to: 0.0 })
    }

    fn row<'a>(view: &'a ComparisonView, figure: &str) -> &'a RowView {
        view.rows.iter().find(|row| row.figure == figure).unwrap()
    }

    #[test]
    fn a_change_is_told_with_its_ratio_and_an_interval_that_holds_it() {
        let (kept, question) = changed((1000.0, 0.45), (4000.0, 0.6), 600);
        let view = kept.compare(&question);
        let mean = row(&view, "mean_ms");
        assert!((mean.before.unwrap().mean - 0.45).abs() < 1e-3, "{mean:?}");
        assert!((mean.after.unwrap().mean - 0.15).abs() < 1e-3);
        let ratio = row(&view, "statements").ratio.unwrap();
        let (low, high) = ratio.interval.unwrap();
        assert!(low < 4.0 && 4.0 < high && high - low < 0.5, "{ratio:?}");
        assert!((row(&view, "statements").after.unwrap().mean - 4000.0).abs() < 40.0);
        assert!(view.notes.is_empty(), "{:?}", view.notes);
    }

    #[test]
    fn servers_that_have_no_history_for_want_of_room_are_said_to_be_missing() {
        let (kept, question) = changed((1000.0, 0.45), (4000.0, 0.6), 600);
        let began = Instant::now();
        let add = |number: usize| {
            kept.server(&format!("other{number}"), began, &now(1.0, 0.1), &VerdictView::default());
            kept.compare(&question).notes
        };
        let notes: Vec<Vec<String>> = (1..=MOST_SUBJECTS).map(add).collect();
        assert!(notes[MOST_SUBJECTS - 2].is_empty(), "{:?}", notes[MOST_SUBJECTS - 2]);
        assert!(notes[MOST_SUBJECTS - 1][0].contains("more than 96 servers"), "{notes:?}");
    }

    #[test]
    fn nothing_changed_is_a_ratio_whose_interval_holds_one() {
        let (kept, question) = changed((1000.0, 0.45), (1000.0, 0.45), 600);
        let view = kept.compare(&question);
        let (low, high) = row(&view, "statements").ratio.unwrap().interval.unwrap();
        assert!(low <= 1.0 && 1.0 <= high, "{low} to {high}");
    }

    #[test]
    fn a_short_stretch_has_figures_and_no_interval_and_says_why() {
        let (kept, question) = changed((1000.0, 0.45), (4000.0, 0.6), 30);
        let view = kept.compare(&question);
        let statements = row(&view, "statements");
        assert!(
            statements.before.unwrap().interval.is_none() && statements.ratio.unwrap().interval.is_none()
        );
        assert_eq!(view.notes.iter().filter(|note| note.contains("too short")).count(), 2);
    }

    #[test]
    fn what_was_never_read_is_no_zero() {
        let (kept, question) = changed((1000.0, 0.45), (4000.0, 0.6), 100);
        let view = kept.compare(&question);
        assert!(view.rows.iter().all(|row| row.figure != "lag_ms" && row.figure != "p99_ms"));
        let nobody = kept.compare(&CompareQuery { before_from: -900.0, before_to: -800.0, ..question });
        assert!(row(&nobody, "statements").before.is_none() && row(&nobody, "statements").ratio.is_none());
    }

    #[test]
    fn a_gap_inside_a_stretch_is_told() {
        let ago = Duration::from_secs(100);
        let began = Instant::now().checked_sub(ago).unwrap();
        let kept = HistoryStore::since(began, SystemTime::now() - ago);
        for second in (1..30).chain(50..100) {
            kept.server("db1", began + Duration::from_secs(second), &now(1.0, 1.0), &VerdictView::default());
        }
        let view = kept.compare(&CompareQuery {
            before_from: -100.0,
            before_to: -40.0,
            after_from: -40.0,
            after_to: 0.0,
        });
        assert!(
            view.notes.iter().any(|note| note.contains("before: db1 has gaps of 21 s")),
            "{:?}",
            view.notes
        );
    }
}
