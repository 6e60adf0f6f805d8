//! Line charts as SVG, drawn here so that the page needs no script.

use std::fmt::Write;

/// Two runs are told apart by these.
pub(super) const COLOURS: [&str; 2] = ["#1f6feb", "#d1570a"];
const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 240.0;
const LEFT: f64 = 64.0;
const BOTTOM: f64 = 28.0;
const TOP: f64 = 10.0;

/// A line.
pub(super) struct Line {
    pub(super) name: String,
    pub(super) colour: &'static str,
    /// Drawn in dashes.
    pub(super) dashed: bool,
    pub(super) points: Vec<(f64, f64)>,
}

/// A chart with a legend; `ticks` are labels of the x axis.
pub(super) fn chart(
    title: &str,
    unit: &str,
    lines: &[Line],
    ticks: &[(f64, String)],
    logarithmic: bool,
) -> String {
    let points = || lines.iter().flat_map(|line| line.points.iter().copied());
    let values = points().map(|(_, y)| y).filter(|y| *y > 0.0);
    let highest = values.clone().fold(0.0, f64::max);
    if highest <= 0.0 {
        return String::new();
    }
    let lowest = if logarithmic { values.fold(f64::INFINITY, f64::min) } else { 0.0 };
    let (low, high) = if logarithmic {
        (lowest.log10().floor(), highest.log10().ceil().max(lowest.log10().floor() + 1.0))
    } else {
        (0.0, nice(highest))
    };
    let xs = || points().map(|(x, _)| x).chain(ticks.iter().map(|(x, _)| *x));
    let (from, to) = (xs().fold(f64::INFINITY, f64::min), xs().fold(f64::NEG_INFINITY, f64::max));
    let x = |value: f64| LEFT + (value - from) / (to - from).max(1e-9) * (WIDTH - LEFT - 10.0);
    let y = |value: f64| {
        let value = if logarithmic { value.max(1e-9).log10() } else { value };
        HEIGHT - BOTTOM - ((value - low) / (high - low)).clamp(0.0, 1.0) * (HEIGHT - BOTTOM - TOP)
    };
    let mut svg = format!(
        "<figure><figcaption>{title}, {unit}</figcaption><svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\">\n"
    );
    for value in grid(low, high, logarithmic) {
        let at = y(value);
        let _ = writeln!(
            svg,
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{WIDTH}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>\
             <text x=\"{:.0}\" y=\"{:.1}\" class=\"right\">{}</text>",
            LEFT - 6.0,
            at + 4.0,
            short(value)
        );
    }
    for (value, label) in ticks {
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.0}\" class=\"middle\">{label}</text>",
            x(*value),
            HEIGHT - 8.0
        );
    }
    for line in lines {
        let path: Vec<String> =
            line.points.iter().map(|(px, py)| format!("{:.1},{:.1}", x(*px), y(*py))).collect();
        let dashes = if line.dashed { " stroke-dasharray=\"5 4\"" } else { "" };
        let _ = writeln!(
            svg,
            "<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"1.6\"{dashes} points=\"{}\"/>",
            line.colour,
            path.join(" ")
        );
    }
    svg.push_str("</svg><p class=\"legend\">");
    for line in lines {
        let style = if line.dashed { "dashed" } else { "solid" };
        let _ =
            write!(svg, "<span style=\"border-bottom:2px {style} {}\">{}</span> ", line.colour, line.name);
    }
    svg.push_str("</p></figure>\n");
    svg
}

fn grid(low: f64, high: f64, logarithmic: bool) -> Vec<f64> {
    if logarithmic {
        let decades = (high - low).round() as i32;
        return (0..=decades).map(|n| 10_f64.powf(low + f64::from(n))).collect();
    }
    (0..=4).map(|n| high * f64::from(n) / 4.0).collect()
}

/// The next number of the kind 1, 2, 4, 8 times a power of ten.
fn nice(value: f64) -> f64 {
    let power = 10_f64.powf(value.log10().floor());
    let steps = [1.0, 2.0, 4.0, 8.0, 10.0];
    steps.iter().map(|step| step * power).find(|step| *step >= value).unwrap_or(value)
}

fn short(value: f64) -> String {
    match value {
        v if v >= 1e6 => format!("{}M", v / 1e6),
        v if v >= 1e4 => format!("{}k", v / 1e3),
        v if v >= 10.0 || v == 0.0 => format!("{v:.0}"),
        v => format!("{}", (v * 1000.0).round() / 1000.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_stays_inside_its_frame_and_an_empty_one_is_left_out() {
        let line = |points| Line { name: "a".into(), colour: COLOURS[0], dashed: false, points };
        let svg = chart("t", "ms", &[line(vec![(0.0, 1.0), (1.0, 950.0)])], &[(0.0, "0".into())], true);
        let points = svg.split("points=\"").nth(1).unwrap().split('"').next().unwrap();
        for point in points.split(' ') {
            let (x, y) = point.split_once(',').unwrap();
            let (x, y): (f64, f64) = (x.parse().unwrap(), y.parse().unwrap());
            assert!((LEFT..=WIDTH).contains(&x) && (0.0..=HEIGHT).contains(&y), "{point}");
        }
        assert!(chart("t", "ms", &[line(vec![])], &[], false).is_empty());
    }

    #[test]
    fn axes_end_at_round_numbers() {
        assert_eq!((nice(0.7), nice(950.0), nice(2001.0)), (0.8, 1000.0, 4000.0));
        assert_eq!((short(0.05), short(250.0), short(12_000.0)), ("0.05".into(), "250".into(), "12k".into()));
    }
}
