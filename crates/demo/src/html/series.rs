//! Phase (e) in time: reads per second of each replica, one on top of the other, and requests that failed.

use super::figure;
use crate::figures::{FaultFigures, TimeSeries};
use chart::{Anchor, Canvas, escape, round_up};
use std::fmt::Write;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 48.0;
const TOP: f64 = 60.0;
const BASE: f64 = 262.0;

/// The chart, with its legend.
pub(super) fn panel(series: &TimeSeries, faults: &[FaultFigures]) -> String {
    let mut canvas = Canvas::new(WIDTH, HEIGHT);
    let end = series.points.last().map_or(1.0, |p| p.t_s + series.step_s);
    let highest = series.points.iter().map(|p| p.reads_per_s.iter().sum::<f64>()).fold(0.0, f64::max);
    let top = round_up(highest);
    let x = |t: f64| LEFT + t / end * (WIDTH - LEFT - 8.0);
    let y = |v: f64| BASE - v / top * (BASE - TOP);
    for part in 0..=4 {
        let value = top * f64::from(part) / 4.0;
        canvas.line("rule", (LEFT, y(value)), (WIDTH - 8.0, y(value)));
        canvas.text("small", LEFT - 6.0, y(value) + 4.0, Anchor::End, format_args!("{value:.0}"));
    }
    for n in (0..series.servers.len()).rev() {
        canvas.path(&format!("area server-{n}"), &area(series, n, x, y), None);
    }
    for point in series.points.iter().filter(|p| p.failed > 0) {
        let at = x(point.t_s + series.step_s / 2.0);
        canvas.circle("failed", at, TOP - 8.0, (3.0 + (point.failed as f64).sqrt()).min(8.0));
        canvas.text("small", at + 9.0, TOP - 4.0, Anchor::Start, point.failed);
    }
    for (n, mark) in series.marks.iter().enumerate() {
        let at = x(mark.t_s);
        // In two rows: what begins above, what ends below, because they lie close together.
        let row = if n % 2 == 0 { 14.0 } else { 30.0 };
        canvas.line("event", (at, row - 10.0), (at, BASE));
        let near_end = at > WIDTH - 110.0;
        let (anchor, shift) = if near_end { (Anchor::End, -4.0) } else { (Anchor::Start, 4.0) };
        canvas.text("label", at + shift, row, anchor, &mark.label);
    }
    let every = if end > 40.0 { 10.0 } else { 5.0 };
    let mut t = 0.0;
    while t < end {
        canvas.text("small", x(t), BASE + 18.0, Anchor::Middle, format_args!("{t:.0} s"));
        t += every;
    }
    let svg = format!(
        "<div class=\"scroll\"><div class=\"wide\">{}</div></div>{}",
        canvas.finish(&says(faults)),
        legend(series)
    );
    figure("Reads per second of each replica", "one on top of the other; red: requests that failed", &svg)
}

/// The band between the sum of the servers before this one and the sum with it.
fn area(series: &TimeSeries, server: usize, x: impl Fn(f64) -> f64, y: impl Fn(f64) -> f64) -> String {
    let below = |n: usize, upto: usize| series.points[n].reads_per_s[..upto].iter().sum::<f64>();
    let mut d = String::new();
    let forth = (0..series.points.len()).map(|n| (n, server + 1));
    let back = (0..series.points.len()).rev().map(|n| (n, server));
    for (i, (n, upto)) in forth.chain(back).enumerate() {
        let middle = series.points[n].t_s + series.step_s / 2.0;
        // Writing to a String cannot fail.
        let _ = write!(d, "{}{:.1} {:.1}", if i == 0 { 'M' } else { 'L' }, x(middle), y(below(n, upto)));
    }
    d + "Z"
}

fn legend(series: &TimeSeries) -> String {
    let mut items = String::new();
    for (n, server) in series.servers.iter().enumerate() {
        let _ = write!(items, "<span><i class=\"server-{n}\"></i>{}</span>", escape(server));
    }
    format!("<div class=\"legend\">{items}<span><i class=\"failed\"></i>failed requests</span></div>")
}

fn says(faults: &[FaultFigures]) -> String {
    let one = |f: &FaultFigures| {
        let back =
            f.back_s.map_or("not back".to_owned(), |s| format!("traffic back {s:.1} s after its return"));
        format!("{}: {} failed on it, {} otherwise, {back}", f.title, f.failed_on_it, f.failed_other)
    };
    faults.iter().map(one).collect::<Vec<_>>().join("; ")
}
