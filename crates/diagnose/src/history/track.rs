//! The course of one subject: two rings, one of readings, one of minutes.

use super::GAP_MS;
use crate::verdict::Name;
use std::collections::VecDeque;

/// Figures of a point.
pub const WIDTH: usize = 12;

/// Figures in an order that whoever adds them knows; NaN where one is not known.
pub type Figures = [f32; WIDTH];

/// Length of the means that the coarse ring keeps, milliseconds.
const MINUTE_MS: u64 = 60_000;
/// What a reading stands for when none follows, milliseconds.
const OWN_MS: u64 = 1_000;

/// The verdict of a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Outcome {
    #[default]
    Nothing,
    /// No bottleneck.
    Free,
    Bottleneck(Name),
}

/// A reading, or the mean of some.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// When, milliseconds of the history; of a mean the beginning of its minute, or its first reading if that
    /// is later.
    pub at_ms: u64,
    pub count: u16,
    pub figures: Figures,
    /// The verdict then; of a mean the most frequent one.
    pub outcome: Outcome,
}

/// A stretch with one verdict, without a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Its beginning, milliseconds of the history.
    pub from_ms: u64,
    pub to_ms: u64,
    pub outcome: Outcome,
}

/// The course of one subject.
#[derive(Clone, Debug)]
pub struct Track {
    fine: VecDeque<Point>,
    coarse: VecDeque<Point>,
    minute: Option<Minute>,
    newest_ms: u64,
}

/// A mean under way. Each figure has its own count: it may be unknown in some readings.
#[derive(Clone, Debug)]
struct Minute {
    number: u64,
    first_ms: u64,
    count: u16,
    sums: [(f64, u16); WIDTH],
    outcome: Vec<(Outcome, u16)>,
}

impl Track {
    /// Readings kept.
    pub const FINE: usize = 3_600;
    /// Minutes kept.
    pub const COARSE: usize = 1_440;
    /// How long anything is kept, milliseconds.
    pub const KEPT_MS: u64 = Self::COARSE as u64 * MINUTE_MS;
    /// Memory at most, bytes.
    pub const BYTES: usize = (Self::FINE + Self::COARSE) * size_of::<Point>() + size_of::<Self>() + 512;

    pub(super) fn new() -> Self {
        // At once and exactly: a ring that doubles when it is full would take up to twice as much. Pages that
        // hold nothing yet are not resident.
        let (fine, coarse) = (VecDeque::with_capacity(Self::FINE), VecDeque::with_capacity(Self::COARSE));
        Self { fine, coarse, minute: None, newest_ms: 0 }
    }

    pub(super) fn push(&mut self, point: Point) {
        if self.fine.len() >= Self::FINE {
            self.fine.pop_front();
        }
        self.fine.push_back(point);
        self.newest_ms = point.at_ms;
        let number = point.at_ms / MINUTE_MS;
        if let Some(done) = self.minute.take_if(|minute| minute.number != number) {
            if self.coarse.len() >= Self::COARSE {
                self.coarse.pop_front();
            }
            self.coarse.push_back(done.point());
        }
        self.minute.get_or_insert_with(|| Minute::begin(number, point.at_ms)).add(&point);
        let oldest = point.at_ms.saturating_sub(Self::KEPT_MS);
        while self.fine.front().is_some_and(|first| first.at_ms < oldest) {
            self.fine.pop_front();
        }
        while self.coarse.front().is_some_and(|first| first.at_ms < oldest) {
            self.coarse.pop_front();
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.fine.is_empty()
    }

    /// When its last reading was.
    pub fn newest_ms(&self) -> u64 {
        self.newest_ms
    }

    /// From when on readings are kept one by one.
    pub fn fine_from_ms(&self) -> u64 {
        self.fine.front().map_or(0, |first| first.at_ms)
    }

    /// Memory taken, bytes.
    pub fn bytes(&self) -> usize {
        let outcome =
            self.minute.as_ref().map_or(0, |minute| minute.outcome.capacity() * size_of::<(Outcome, u16)>());
        (self.fine.capacity() + self.coarse.capacity()) * size_of::<Point>() + size_of::<Self>() + outcome
    }

    /// The points of a stretch, oldest first: minutes where not all of their readings are kept any more.
    pub fn points(&self, from_ms: u64, to_ms: u64) -> impl Iterator<Item = &Point> {
        let fine_from = self.fine_from_ms();
        let minutes = self.coarse.partition_point(|minute| minute.at_ms < fine_from);
        // Readings of the last of those minutes would be told twice.
        let told = self
            .coarse
            .get(minutes.wrapping_sub(1))
            .map_or(0, |last| (last.at_ms / MINUTE_MS + 1) * MINUTE_MS);
        let readings = self.fine.partition_point(|point| point.at_ms < told);
        let all = self.coarse.range(..minutes).chain(self.fine.range(readings..));
        all.filter(move |p| p.at_ms >= from_ms && p.at_ms < to_ms)
    }

    /// Means on a grid: of each `step_ms` from `from_ms` on; `None` where nothing was read.
    pub fn means(&self, from_ms: u64, to_ms: u64, step_ms: u64) -> Vec<Option<Figures>> {
        let step_ms = step_ms.max(1);
        let cells = usize::try_from(to_ms.saturating_sub(from_ms).div_ceil(step_ms)).unwrap_or(0);
        let mut means: Vec<Option<Figures>> = vec![None; cells];
        let mut under_way: Option<(usize, Minute)> = None;
        for point in self.points(from_ms, to_ms) {
            let cell = usize::try_from((point.at_ms - from_ms) / step_ms).unwrap_or(0);
            if let Some((at, done)) = under_way.take_if(|(at, _)| *at != cell) {
                means[at] = Some(done.point().figures);
            }
            under_way.get_or_insert_with(|| (cell, Minute::begin(0, point.at_ms))).1.add(point);
        }
        if let Some((at, done)) = under_way {
            means[at] = Some(done.point().figures);
        }
        means
    }

    /// The verdicts over a stretch, oldest first.
    pub fn spans(&self, from_ms: u64, to_ms: u64) -> Vec<Span> {
        let mut spans: Vec<Span> = Vec::new();
        let fine_from = self.fine_from_ms();
        for point in self.points(from_ms, to_ms) {
            let coarse = point.at_ms < fine_from;
            // How long a point stands for, and how long after that the next one is still its neighbour.
            let (own, near) = if coarse { (MINUTE_MS, MINUTE_MS) } else { (OWN_MS, GAP_MS - OWN_MS) };
            if let Some(last) = spans.last_mut().filter(|last| point.at_ms.saturating_sub(last.to_ms) <= near)
            {
                last.to_ms = point.at_ms;
                if last.outcome == point.outcome {
                    last.to_ms += own;
                    continue;
                }
            }
            spans.push(Span { from_ms: point.at_ms, to_ms: point.at_ms + own, outcome: point.outcome });
        }
        if let Some(last) = spans.last_mut() {
            last.to_ms = last.to_ms.min(to_ms);
        }
        spans
    }
}

impl Minute {
    fn begin(number: u64, first_ms: u64) -> Self {
        Self { number, first_ms, count: 0, sums: [(0.0, 0); WIDTH], outcome: Vec::new() }
    }

    fn add(&mut self, point: &Point) {
        self.count = self.count.saturating_add(point.count);
        for ((sum, count), figure) in self.sums.iter_mut().zip(point.figures) {
            if figure.is_finite() && count.checked_add(point.count).is_some() {
                *sum += f64::from(figure) * f64::from(point.count);
                *count += point.count;
            }
        }
        match self.outcome.iter_mut().find(|(outcome, _)| *outcome == point.outcome) {
            Some((_, count)) => *count = count.saturating_add(point.count),
            None => self.outcome.push((point.outcome, point.count)),
        }
    }

    fn point(&self) -> Point {
        let mean =
            |(sum, count): (f64, u16)| if count == 0 { f32::NAN } else { (sum / f64::from(count)) as f32 };
        let outcome = self
            .outcome
            .iter()
            .max_by_key(|(_, count)| *count)
            .map_or(Outcome::Nothing, |(outcome, _)| *outcome);
        Point { at_ms: self.first_ms, count: self.count, figures: self.sums.map(mean), outcome }
    }
}
