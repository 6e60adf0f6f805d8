//! Dots with intervals, one below the other: how sure each of several estimates is.

use crate::axis::{Axis, short};
use crate::canvas::{Anchor, Canvas};
use crate::figure::{WIDTH, caption, figure, shortened};

const LEFT: f64 = 240.0;
const RIGHT: f64 = 150.0;
const ROW: f64 = 24.0;
const BOTTOM: f64 = 22.0;
/// Characters of a name that find room at the left.
const NAME: usize = 33;
/// Ratios further from 1 than this stand at the end of the axis.
const REACH: f64 = 20.0;

/// What an estimate means to the reader.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    #[default]
    Plain,
    Good,
    Bad,
    Warn,
}

impl Tone {
    /// Its class in the style.
    pub fn class(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Good => "good",
            Self::Bad => "bad",
            Self::Warn => "warn",
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
struct Dot {
    name: String,
    estimate: f64,
    low: f64,
    high: f64,
    tone: Tone,
}

/// A chart of dots with intervals.
#[derive(Clone, Debug)]
pub struct Dots {
    title: String,
    unit: String,
    are_ratios: bool,
    reference: Option<f64>,
    words: fn(f64) -> String,
    dots: Vec<Dot>,
}

impl Dots {
    /// Estimates in this unit, on an even axis.
    pub fn new(title: impl Into<String>, unit: impl Into<String>) -> Self {
        let (title, unit) = (title.into(), unit.into());
        Self { title, unit, are_ratios: false, reference: None, words: short, dots: Vec::new() }
    }

    /// Ratios to something that is 1, in percent: twice as much is as far away as half as much.
    pub fn ratios(title: impl Into<String>) -> Self {
        let words = |ratio: f64| format!("{:+.1} %", (ratio - 1.0) * 100.0);
        Self { are_ratios: true, reference: Some(1.0), words, ..Self::new(title, "") }
    }

    /// A vertical line that estimates are held against.
    pub fn reference(mut self, value: f64) -> Self {
        self.reference = Some(value);
        self
    }

    /// How a value is written [default: in few characters].
    pub fn words(mut self, words: fn(f64) -> String) -> Self {
        self.words = words;
        self
    }

    /// An estimate with its interval.
    pub fn dot(
        mut self,
        name: impl Into<String>,
        estimate: f64,
        (low, high): (f64, f64),
        tone: Tone,
    ) -> Self {
        self.dots.push(Dot { name: name.into(), estimate, low, high, tone });
        self
    }

    /// The figure; empty without an estimate.
    pub fn html(&self) -> String {
        let values =
            || self.dots.iter().flat_map(|dot| [dot.low, dot.estimate, dot.high]).chain(self.reference);
        let axis = if self.are_ratios {
            let reach = values().filter(|ratio| *ratio > 0.0).map(|ratio| ratio.ln().abs().exp());
            Some(Axis::ratio(reach.fold(1.05, f64::max).min(REACH)))
        } else {
            Axis::linear(values())
        };
        let Some(axis) = axis.filter(|_| !self.dots.is_empty()) else { return String::new() };
        let height = ROW * self.dots.len() as f64 + BOTTOM;
        let x = |value: f64| LEFT + axis.at(value) * (WIDTH - LEFT - RIGHT);
        let mut canvas = Canvas::new(WIDTH, height);
        for value in axis.ticks() {
            canvas.line("grid", (x(value), 0.0), (x(value), height - BOTTOM));
            canvas.text("", x(value), height - 6.0, Anchor::Middle, (self.words)(value));
        }
        if let Some(value) = self.reference {
            canvas.line("level", (x(value), 0.0), (x(value), height - BOTTOM));
        }
        for (at, dot) in self.dots.iter().enumerate() {
            let y = ROW * (at as f64 + 0.5);
            let class = dot.tone.class();
            canvas.text("", LEFT - 8.0, y + 4.0, Anchor::End, shortened(&dot.name, NAME));
            canvas.line(&format!("reach {class}"), (x(dot.low), y), (x(dot.high), y));
            canvas.circle(&format!("dot {class}"), x(dot.estimate), y, 5.0);
            canvas.text("", WIDTH, y + 4.0, Anchor::End, self.interval(dot));
        }
        let says: Vec<String> = self
            .dots
            .iter()
            .map(|dot| format!("{}: {}, {}", dot.name, (self.words)(dot.estimate), self.interval(dot)))
            .collect();
        let caption = caption(&self.title, &self.unit);
        let headings = ["", "estimate", "from", "to"].map(str::to_owned);
        let row = |dot: &Dot| {
            let [estimate, low, high] = [dot.estimate, dot.low, dot.high].map(self.words);
            vec![dot.name.clone(), estimate, low, high]
        };
        let rows: Vec<_> = self.dots.iter().map(row).collect();
        figure(&caption, &canvas.finish(&format!("{caption}: {}", says.join("; "))), "", &headings, &rows)
    }

    fn interval(&self, dot: &Dot) -> String {
        format!("{} to {}", (self.words)(dot.low), (self.words)(dot.high))
    }
}

/// A single interval of a ratio, for the cell of a table whose rows share `axis` ([`Axis::ratio`]): the line
/// in the middle is 1. `says` is what a screen reader reads. The table or a parent has the class `chart`.
pub fn interval(axis: &Axis, estimate: f64, (low, high): (f64, f64), tone: Tone, says: &str) -> String {
    const WIDTH: f64 = 600.0;
    let x = |value: f64| axis.at(value) * WIDTH;
    let mut canvas = Canvas::new(WIDTH, ROW);
    canvas.line("grid", (x(1.0), 0.0), (x(1.0), ROW));
    canvas.line(&format!("reach {}", tone.class()), (x(low), ROW / 2.0), (x(high), ROW / 2.0));
    canvas.circle(&format!("dot {}", tone.class()), x(estimate), ROW / 2.0, 6.0);
    canvas.finish(says)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_has_its_words_its_interval_and_a_table() {
        let html = Dots::ratios("Cells").dot("a <b>", 1.08, (1.02, 1.14), Tone::Good).html();
        for part in ["reach good", "a &lt;b&gt;", "+2.0 % to +14.0 %", "<td>+8.0 %</td>"] {
            assert!(html.contains(part), "{part} is not in\n{html}");
        }
        assert_eq!(Dots::new("none", "").html(), "");
    }

    #[test]
    fn what_lies_beyond_the_axis_is_drawn_at_its_end() {
        let svg = interval(&Axis::ratio(1.5), 100.0, (0.0, f64::INFINITY), Tone::Bad, "x");
        assert!(
            svg.contains("x1=\"0.0\"") && svg.contains("x2=\"600.0\"") && svg.contains("cx=\"600.0\""),
            "{svg}"
        );
    }
}
