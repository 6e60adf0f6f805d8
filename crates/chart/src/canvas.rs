//! Just enough SVG: a canvas with a view box, shapes with classes (the style sheet has the colours), escaped
//! text.

use std::fmt::{Display, Write};

/// A drawing; the browser scales it to the width it has.
#[derive(Clone, Debug)]
pub struct Canvas {
    width: f64,
    height: f64,
    body: String,
}

/// Where a text stands relative to its point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    Start,
    Middle,
    End,
}

impl Canvas {
    pub fn new(width: f64, height: f64) -> Self {
        Self { width, height, body: String::new() }
    }

    pub fn rect(&mut self, class: &str, x: f64, y: f64, width: f64, height: f64, radius: f64) {
        let (width, height) = (width.max(0.0), height.max(0.0));
        self.push(format_args!(
            "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"{radius}\"/>"
        ));
    }

    pub fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        self.push(format_args!(
            "<line class=\"{class}\" x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\"/>",
            from.0, from.1, to.0, to.1
        ));
    }

    /// A path with a width of its own; `d` is made of numbers only.
    pub fn path(&mut self, class: &str, d: &str, stroke_width: Option<f64>) {
        let width = stroke_width.map_or(String::new(), |w| format!(" stroke-width=\"{w:.1}\""));
        self.push(format_args!("<path class=\"{class}\" d=\"{d}\"{width}/>"));
    }

    /// Straight lines from point to point.
    pub fn polyline(&mut self, class: &str, points: impl Iterator<Item = (f64, f64)>) {
        self.push(format_args!("<polyline class=\"{class}\" points=\"{}\"/>", joined(points)));
    }

    /// An area within these points.
    pub fn polygon(&mut self, class: &str, points: impl Iterator<Item = (f64, f64)>) {
        self.push(format_args!("<polygon class=\"{class}\" points=\"{}\"/>", joined(points)));
    }

    pub fn circle(&mut self, class: &str, x: f64, y: f64, r: f64) {
        self.push(format_args!("<circle class=\"{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{r:.1}\"/>"));
    }

    pub fn text(&mut self, class: &str, x: f64, y: f64, anchor: Anchor, text: impl Display) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let text = escape(&text.to_string());
        let class = if class.is_empty() { String::new() } else { format!("class=\"{class}\" ") };
        self.push(format_args!(
            "<text {class}x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>"
        ));
    }

    /// The element; `says` is what a screen reader reads.
    pub fn finish(self, says: &str) -> String {
        format!(
            "<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">\n{}</svg>",
            self.width,
            self.height,
            escape(says),
            self.body
        )
    }

    fn push(&mut self, element: std::fmt::Arguments<'_>) {
        // Writing to a String cannot fail.
        let _ = writeln!(self.body, "{element}");
    }
}

fn joined(points: impl Iterator<Item = (f64, f64)>) -> String {
    points.map(|(x, y)| format!("{x:.1},{y:.1}")).collect::<Vec<_>>().join(" ")
}

/// Text that is no markup, in content and in quoted attributes.
pub fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            c => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_no_markup() {
        assert_eq!(escape("<a href='x'>&\""), "&lt;a href=&#39;x&#39;&gt;&amp;&quot;");
    }
}
