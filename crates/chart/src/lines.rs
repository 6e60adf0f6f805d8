//! Lines over one axis: each with a band around it, dashed, or as dots.

use crate::axis::{Axis, short};
use crate::canvas::{Anchor, Canvas, escape};
use crate::figure::{WIDTH, caption, figure};
use std::fmt::Write;

const HEIGHT: f64 = 240.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 10.0;
const BOTTOM: f64 = 28.0;
const TOP: f64 = 10.0;
/// Colours in `style.css`.
const COLOURS: usize = 6;

/// A line.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    name: String,
    colour: Option<usize>,
    is_dashed: bool,
    are_dots: bool,
    points: Vec<(f64, f64)>,
    band: Vec<(f64, f64, f64)>,
}

impl Line {
    /// Through these points (x, y), in this order.
    pub fn new(name: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        let name = name.into();
        Self { name, colour: None, is_dashed: false, are_dots: false, points, band: Vec::new() }
    }

    /// Another colour than that of its place: lines that belong together have the same.
    pub fn colour(mut self, colour: usize) -> Self {
        self.colour = Some(colour % COLOURS);
        self
    }

    /// Drawn in dashes.
    pub fn dashed(mut self) -> Self {
        self.is_dashed = true;
        self
    }

    /// Measured points: dots, with nothing between them.
    pub fn dots(mut self) -> Self {
        self.are_dots = true;
        self
    }

    /// An interval around it: (x, low, high) in the order of x.
    pub fn band(mut self, band: Vec<(f64, f64, f64)>) -> Self {
        self.band = band;
        self
    }
}

/// A chart of lines.
#[derive(Clone, Debug, PartialEq)]
pub struct Lines {
    title: String,
    unit: String,
    x_axis: String,
    lines: Vec<Line>,
    ticks: Vec<(f64, String)>,
    levels: Vec<(f64, String)>,
    marks: Vec<(f64, String)>,
    is_logarithmic: bool,
}

impl Lines {
    /// What is shown, and its unit.
    pub fn new(title: impl Into<String>, unit: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            unit: unit.into(),
            x_axis: String::new(),
            lines: Vec::new(),
            ticks: Vec::new(),
            levels: Vec::new(),
            marks: Vec::new(),
            is_logarithmic: false,
        }
    }

    /// What x is, with its unit.
    pub fn x_axis(mut self, words: impl Into<String>) -> Self {
        self.x_axis = words.into();
        self
    }

    pub fn line(mut self, line: Line) -> Self {
        self.lines.push(line);
        self
    }

    pub fn lines(mut self, lines: impl IntoIterator<Item = Line>) -> Self {
        self.lines.extend(lines);
        self
    }

    /// Labels of the x axis; without any they are round numbers.
    pub fn ticks(mut self, ticks: impl IntoIterator<Item = (f64, String)>) -> Self {
        self.ticks.extend(ticks);
        self
    }

    /// A y axis of powers of ten.
    pub fn logarithmic(mut self) -> Self {
        self.is_logarithmic = true;
        self
    }

    /// A horizontal line at this y: an objective, today's load.
    pub fn level(mut self, y: f64, words: impl Into<String>) -> Self {
        self.levels.push((y, words.into()));
        self
    }

    /// A vertical line at this x: a change, a limit.
    pub fn mark(mut self, x: f64, words: impl Into<String>) -> Self {
        self.marks.push((x, words.into()));
        self
    }

    /// The figure; empty when there is nothing above zero to show.
    pub fn html(&self) -> String {
        let points = || self.lines.iter().flat_map(|line| line.points.iter().copied());
        let bands = || self.lines.iter().flat_map(|line| line.band.iter().copied());
        if points().all(|(_, y)| !(y.is_finite() && y != 0.0)) {
            return String::new();
        }
        let ys = points()
            .map(|(_, y)| y)
            .chain(bands().flat_map(|(_, low, high)| [low, high]))
            .chain(self.levels.iter().map(|(y, _)| *y));
        let xs = points()
            .map(|(x, _)| x)
            .chain(bands().map(|(x, ..)| x))
            .chain(self.ticks.iter().map(|(x, _)| *x))
            .chain(self.marks.iter().map(|(x, _)| *x));
        let y_axis = if self.is_logarithmic { Axis::logarithmic(ys) } else { Axis::linear(ys) };
        let (from, to) = xs
            .filter(|x| x.is_finite())
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(from, to), x| (from.min(x), to.max(x)));
        let Some(y_axis) = y_axis.filter(|_| from <= to) else { return String::new() };
        let x_axis = Axis::between(from, to);
        let x = |value: f64| LEFT + x_axis.at(value) * (WIDTH - LEFT - RIGHT);
        let y = |value: f64| HEIGHT - BOTTOM - y_axis.at(value) * (HEIGHT - BOTTOM - TOP);

        let mut canvas = Canvas::new(WIDTH, HEIGHT);
        for value in y_axis.ticks() {
            let at = y(value);
            canvas.line("grid", (LEFT, at), (WIDTH, at));
            canvas.text("", LEFT - 6.0, at + 4.0, Anchor::End, short(value));
        }
        let ticks = if self.ticks.is_empty() {
            x_axis.ticks().into_iter().map(|value| (value, short(value))).collect()
        } else {
            self.ticks.clone()
        };
        for (value, label) in &ticks {
            canvas.text("", x(*value), HEIGHT - 8.0, Anchor::Middle, label);
        }
        for (at, line) in self.lines.iter().enumerate() {
            let class = class(line, at);
            if !line.band.is_empty() {
                let above = line.band.iter().map(|(px, _, high)| (x(*px), y(*high)));
                let below = line.band.iter().rev().map(|(px, low, _)| (x(*px), y(*low)));
                canvas.polygon(&format!("band {class}"), above.chain(below));
            }
            let drawn = line.points.iter().filter(|(px, py)| px.is_finite() && py.is_finite());
            let drawn = drawn.map(|(px, py)| (x(*px), y(*py)));
            if line.are_dots {
                drawn.for_each(|(px, py)| canvas.circle(&format!("dot {class}"), px, py, 3.5));
            } else {
                let dashes = if line.is_dashed { " dashed" } else { "" };
                canvas.polyline(&format!("line {class}{dashes}"), drawn);
            }
        }
        for (value, words) in &self.levels {
            canvas.line("level", (LEFT, y(*value)), (WIDTH, y(*value)));
            canvas.text("", WIDTH - RIGHT, y(*value) - 4.0, Anchor::End, words);
        }
        for (value, words) in &self.marks {
            canvas.line("level", (x(*value), TOP), (x(*value), HEIGHT - BOTTOM));
            canvas.text("", x(*value) + 4.0, TOP + 10.0, Anchor::Start, words);
        }
        let caption = caption(&self.title, &self.unit);
        let (headings, rows) = self.table(&ticks);
        figure(&caption, &canvas.finish(&self.says()), &self.legend(), &headings, &rows)
    }

    /// What a screen reader reads: each line with its ends.
    fn says(&self) -> String {
        let mut says = caption(&self.title, &self.unit);
        for line in &self.lines {
            if let (Some((_, first)), Some((_, last))) = (line.points.first(), line.points.last()) {
                let _ = write!(says, "; {} from {} to {}", line.name, short(*first), short(*last));
            }
        }
        says
    }

    fn legend(&self) -> String {
        let mut legend = String::from("<p class=\"legend\">");
        for (at, line) in self.lines.iter().enumerate() {
            let dashes = if line.is_dashed { " dashed" } else { "" };
            let _ =
                write!(legend, "<span class=\"{}{dashes}\">{}</span> ", class(line, at), escape(&line.name));
        }
        if !self.x_axis.is_empty() {
            let _ = write!(legend, "by {}", escape(&self.x_axis));
        }
        legend + "</p>"
    }

    /// A row for each x, a column for each line.
    fn table(&self, ticks: &[(f64, String)]) -> (Vec<String>, Vec<Vec<String>>) {
        let mut headings = vec![self.x_axis.clone()];
        headings.extend(self.lines.iter().map(|line| line.name.clone()));
        let mut xs: Vec<f64> =
            self.lines.iter().flat_map(|line| line.points.iter().map(|(x, _)| *x)).collect();
        xs.sort_by(f64::total_cmp);
        xs.dedup();
        let mut places: Vec<_> = self.lines.iter().map(|line| sorted(line).into_iter().peekable()).collect();
        let mut rows = Vec::with_capacity(xs.len());
        for x in xs {
            let label = ticks.iter().find(|(value, _)| *value == x).map(|(_, label)| label.clone());
            let mut row = vec![label.unwrap_or_else(|| short(x))];
            for points in &mut places {
                let mut cell = String::new();
                while let Some((_, y)) = points.next_if(|(at, _)| *at == x) {
                    cell = short(y);
                }
                row.push(cell);
            }
            rows.push(row);
        }
        (headings, rows)
    }
}

fn sorted(line: &Line) -> Vec<(f64, f64)> {
    let mut points = line.points.clone();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    points
}

fn class(line: &Line, at: usize) -> String {
    format!("c{}", line.colour.unwrap_or(at % COLOURS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_stays_inside_its_frame_and_an_empty_one_is_left_out() {
        let of = |points| Lines::new("t", "ms").line(Line::new("a", points)).logarithmic().html();
        let svg = of(vec![(0.0, 1.0), (0.5, 0.0), (1.0, 950.0)]);
        let points = svg.split("points=\"").nth(1).unwrap().split('"').next().unwrap();
        for point in points.split(' ') {
            let (x, y) = point.split_once(',').unwrap();
            let (x, y): (f64, f64) = (x.parse().unwrap(), y.parse().unwrap());
            assert!((LEFT..=WIDTH).contains(&x) && (0.0..=HEIGHT).contains(&y), "{point}");
        }
        assert_eq!((of(vec![]), of(vec![(0.0, 0.0), (1.0, f64::NAN)])), (String::new(), String::new()));
    }

    #[test]
    fn bands_levels_and_marks_are_drawn_and_names_are_no_markup() {
        let line = Line::new("<a>", vec![(1.0, 2.0), (2.0, 3.0)])
            .band(vec![(1.0, 1.0, 3.0), (2.0, 2.0, 4.0)])
            .dashed();
        let html = Lines::new("T", "u").line(line).level(5.0, "most").mark(1.5, "here").html();
        for part in ["<polygon class=\"band c0\"", "dashed", ">most<", ">here<", "&lt;a&gt;", "role=\"img\""]
        {
            assert!(html.contains(part), "{part} is not in\n{html}");
        }
        assert!(!html.contains("<a>"), "{html}");
    }

    #[test]
    fn the_table_has_what_the_chart_shows() {
        let html = Lines::new("T", "u")
            .x_axis("threads")
            .line(Line::new("a", vec![(1.0, 10.0), (2.0, 20.0)]))
            .line(Line::new("b", vec![(2.0, 25.0)]).dots())
            .html();
        assert!(html.contains("<tr><td>2</td><td>20</td><td>25</td></tr>"), "{html}");
        assert!(html.contains("<tr><td>1</td><td>10</td><td></td></tr>"), "{html}");
    }
}
