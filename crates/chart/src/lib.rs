//! Charts of pages: lines with bands, dots with intervals, bars. Values in, one `<figure>` out: SVG, a legend
//! and a table of the same figures for those who do not see it. No script, no font, no network, no I/O.
//!
//! ```
//! use chart::{Bars, Dots, Line, Lines, Tone};
//! let model = Line::new("model", vec![(0.0, 0.0), (16.0, 900.0)]).band(vec![(0.0, 0.0, 10.0), (16.0, 850.0, 950.0)]);
//! let measured = Line::new("measured", vec![(8.0, 460.0), (16.0, 880.0)]).dots();
//! let lines = Lines::new("Capacity", "queries/s").x_axis("cores").line(model).line(measured).level(800.0, "today");
//! let dots = Dots::ratios("Cells against the baseline").dot("io_capacity=2000", 1.08, (1.02, 1.14), Tone::Good);
//! let bars = Bars::new("Headroom", "times today's load").bar("8 cores", 1.8, Some((1.5, 2.1)));
//! let page = format!("<style>{}</style>{}{}{}", chart::STYLE, lines.html(), dots.html(), bars.html());
//! # assert_eq!(page.matches("<svg").count(), 3);
//! ```
//!
//! A page has [`STYLE`] once, in its `<style>`: colours are variables that follow the reader's light or dark,
//! and a page may set them again (`.chart{--chart-0:#0a0}`). Whatever was measured or named elsewhere goes
//! through [`escape`]; the charts do that themselves. A chart without a value is the empty text.
//!
//! It uses no other crate of ours. Read first: `lines.rs`, `dots.rs`, and `canvas.rs` for a drawing that is
//! none of these.

mod axis;
mod bars;
mod canvas;
mod dots;
mod figure;
mod lines;

pub use axis::{Axis, ms, round_up, short};
pub use bars::Bars;
pub use canvas::{Anchor, Canvas, escape};
pub use dots::{Dots, Tone, interval};
pub use lines::{Line, Lines};

/// The style of every chart, for a page's `<style>`. A page sets `font-family` itself.
pub const STYLE: &str = include_str!("style.css");
