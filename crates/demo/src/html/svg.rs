//! Just enough SVG: a canvas with a view box, shapes with classes (the style sheet has the colours), escaped
//! text.

use std::fmt::{Display, Write};

/// A drawing; the browser scales it to the width it has.
pub(super) struct Canvas {
    width: f64,
    height: f64,
    body: String,
}

/// Where a text stands relative to its point.
#[derive(Clone, Copy)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

impl Canvas {
    pub(super) fn new(width: f64, height: f64) -> Self {
        Self { width, height, body: String::new() }
    }

    pub(super) fn rect(&mut self, class: &str, x: f64, y: f64, width: f64, height: f64, radius: f64) {
        let (width, height) = (width.max(0.0), height.max(0.0));
        self.push(format_args!(
            "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"{radius}\"/>"
        ));
    }

    pub(super) fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        self.push(format_args!(
            "<line class=\"{class}\" x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\"/>",
            from.0, from.1, to.0, to.1
        ));
    }

    /// A path with a width of its own; `d` is made of numbers only.
    pub(super) fn path(&mut self, class: &str, d: &str, stroke_width: Option<f64>) {
        let width = stroke_width.map_or(String::new(), |w| format!(" stroke-width=\"{w:.1}\""));
        self.push(format_args!("<path class=\"{class}\" d=\"{d}\"{width}/>"));
    }

    pub(super) fn circle(&mut self, class: &str, x: f64, y: f64, r: f64) {
        self.push(format_args!("<circle class=\"{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{r:.1}\"/>"));
    }

    pub(super) fn text(&mut self, class: &str, x: f64, y: f64, anchor: Anchor, text: impl Display) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let text = escape(&text.to_string());
        self.push(format_args!(
            "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>"
        ));
    }

    /// The element; `says` is what a screen reader reads.
    pub(super) fn finish(self, says: &str) -> String {
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

/// Text that is no markup, in content and in quoted attributes.
pub(super) fn escape(text: &str) -> String {
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

/// The smallest of 1, 2, 2.5, 5 times a power of ten that is at least `value`: where an axis may end.
pub(super) fn round_up(value: f64) -> f64 {
    if value <= 0.0 || !value.is_finite() {
        return 1.0;
    }
    let power = 10f64.powf(value.log10().floor());
    let steps = [1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0];
    steps.iter().map(|s| s * power).find(|v| *v >= value * 0.9999).unwrap_or(10.0 * power)
}

/// Milliseconds with as many digits as they deserve.
pub(super) fn ms(value: f64) -> String {
    match value {
        v if v >= 100.0 => format!("{v:.0} ms"),
        v if v >= 10.0 => format!("{v:.1} ms"),
        v => format!("{v:.2} ms"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_end_at_round_numbers() {
        for (value, end) in
            [(0.0, 1.0), (0.9, 1.0), (1.2, 1.5), (37.0, 40.0), (101.0, 150.0), (1000.0, 1000.0)]
        {
            assert!((round_up(value) - end).abs() < 1e-9, "{value}");
        }
    }

    #[test]
    fn text_is_no_markup() {
        assert_eq!(escape("<a href='x'>&\""), "&lt;a href=&#39;x&#39;&gt;&amp;&quot;");
    }
}
