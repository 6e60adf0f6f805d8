//! Bars from zero, one below the other, each with an interval where it has one.

use crate::axis::{Axis, short};
use crate::canvas::{Anchor, Canvas};
use crate::figure::{WIDTH, caption, figure, shortened};

const LEFT: f64 = 240.0;
const RIGHT: f64 = 150.0;
const ROW: f64 = 26.0;
const BOTTOM: f64 = 22.0;
/// Characters of a name that find room at the left.
const NAME: usize = 33;

#[derive(Clone, Debug, PartialEq)]
struct Bar {
    name: String,
    value: f64,
    interval: Option<(f64, f64)>,
}

/// A chart of bars.
#[derive(Clone, Debug)]
pub struct Bars {
    title: String,
    unit: String,
    words: fn(f64) -> String,
    levels: Vec<(f64, String)>,
    bars: Vec<Bar>,
}

impl Bars {
    /// What is shown, and its unit.
    pub fn new(title: impl Into<String>, unit: impl Into<String>) -> Self {
        let (title, unit) = (title.into(), unit.into());
        Self { title, unit, words: short, levels: Vec::new(), bars: Vec::new() }
    }

    /// How a value is written [default: in few characters].
    pub fn words(mut self, words: fn(f64) -> String) -> Self {
        self.words = words;
        self
    }

    /// A bar, with the interval of its end.
    pub fn bar(mut self, name: impl Into<String>, value: f64, interval: Option<(f64, f64)>) -> Self {
        self.bars.push(Bar { name: name.into(), value, interval });
        self
    }

    /// A vertical line at this value: a limit, today's load.
    pub fn level(mut self, value: f64, words: impl Into<String>) -> Self {
        self.levels.push((value, words.into()));
        self
    }

    /// The figure; empty without a bar.
    pub fn html(&self) -> String {
        let of = |bar: &Bar| {
            [Some(bar.value), bar.interval.map(|(low, _)| low), bar.interval.map(|(_, high)| high)]
        };
        let values =
            self.bars.iter().flat_map(of).flatten().chain(self.levels.iter().map(|(value, _)| *value));
        let Some(axis) = Axis::linear(values).filter(|_| !self.bars.is_empty()) else { return String::new() };
        let top = if self.levels.is_empty() { 0.0 } else { 14.0 };
        let height = top + ROW * self.bars.len() as f64 + BOTTOM;
        let x = |value: f64| LEFT + axis.at(value) * (WIDTH - LEFT - RIGHT);
        let mut canvas = Canvas::new(WIDTH, height);
        for value in axis.ticks() {
            canvas.line("grid", (x(value), top), (x(value), height - BOTTOM));
            canvas.text("", x(value), height - 6.0, Anchor::Middle, (self.words)(value));
        }
        for (at, bar) in self.bars.iter().enumerate() {
            let y = top + ROW * (at as f64 + 0.5);
            let (from, to) = (x(bar.value.min(0.0)), x(bar.value.max(0.0)));
            canvas.text("", LEFT - 8.0, y + 4.0, Anchor::End, shortened(&bar.name, NAME));
            canvas.rect("bar c0", from, y - 8.0, to - from, 16.0, 2.0);
            if let Some((low, high)) = bar.interval {
                canvas.line("error", (x(low), y), (x(high), y));
                for end in [low, high] {
                    canvas.line("error", (x(end), y - 4.0), (x(end), y + 4.0));
                }
            }
            canvas.text("", WIDTH, y + 4.0, Anchor::End, self.cell(bar));
        }
        for (value, words) in &self.levels {
            canvas.line("level", (x(*value), top), (x(*value), height - BOTTOM));
            canvas.text("", x(*value), top - 4.0, Anchor::Middle, words);
        }
        let says: Vec<String> =
            self.bars.iter().map(|bar| format!("{}: {}", bar.name, self.cell(bar))).collect();
        let caption = caption(&self.title, &self.unit);
        let headings = ["", "value", "from", "to"].map(str::to_owned);
        let row = |bar: &Bar| {
            let (low, high) = bar.interval.map(|(low, high)| ((self.words)(low), (self.words)(high))).unzip();
            vec![bar.name.clone(), (self.words)(bar.value), low.unwrap_or_default(), high.unwrap_or_default()]
        };
        let rows: Vec<_> = self.bars.iter().map(row).collect();
        figure(&caption, &canvas.finish(&format!("{caption}: {}", says.join("; "))), "", &headings, &rows)
    }

    fn cell(&self, bar: &Bar) -> String {
        let value = (self.words)(bar.value);
        match bar.interval {
            Some((low, high)) => format!("{value} ({} to {})", (self.words)(low), (self.words)(high)),
            None => value,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_begin_at_zero_and_show_how_sure_they_are() {
        let html = Bars::new("Headroom", "times")
            .bar("8 cores", 2.0, Some((1.5, 2.5)))
            .bar("<none>", 0.0, None)
            .level(1.0, "today")
            .html();
        for part in
            ["2 (1.5 to 2.5)", "&lt;none&gt;", ">today<", "class=\"error\"", "x=\"240.0\"", "<td>2.5</td>"]
        {
            assert!(html.contains(part), "{part} is not in\n{html}");
        }
        assert_eq!(Bars::new("none", "").html(), "");
    }
}
