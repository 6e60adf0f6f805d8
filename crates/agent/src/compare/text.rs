//! `headroom watch --compare`: what an agent's history says of two stretches, as a table.

use super::CompareQuery;
use console::comparison_view::{ComparisonView, Estimate, RatioView, RowView};
use diagnose::verdict::{Unit, figure};
use fleet::Blame;
use std::str::FromStr;
use term::{Paint, Table};

/// A stretch of the past on the command line: `20m..10m`, `10m..now`, or seconds of the Unix epoch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PastStretch {
    from: f64,
    to: f64,
}

/// What an agent is asked for to compare two stretches.
pub fn target(before: PastStretch, after: PastStretch) -> String {
    let question = CompareQuery {
        before_from: before.from,
        before_to: before.to,
        after_from: after.from,
        after_to: after.to,
    };
    format!(
        "/compare.json?before_from={}&before_to={}&after_from={}&after_to={}",
        question.before_from, question.before_to, question.after_from, question.after_to
    )
}

/// The table, a heading for each subject, and what limits it.
pub fn text(view: &ComparisonView, paint: Paint) -> String {
    let mut table = Table::new(&[
        "",
        ">before",
        ">95 % interval",
        ">after",
        ">95 % interval",
        ">after/before",
        ">95 % interval",
    ]);
    let mut whose = "";
    for row in &view.rows {
        if row.who != whose {
            table.row(vec![
                paint.bold(&row.who),
                String::new(),
                String::new(),
                String::new(),
                String::new(),
                String::new(),
                String::new(),
            ]);
            whose = &row.who;
        }
        table.row(cells(row));
    }
    let mut text = format!(
        "{:.0} s before and {:.0} s after, as the agent's history has them\n\n",
        view.before.seconds, view.after.seconds
    );
    if !view.rows.is_empty() {
        text.push_str(&table.text());
        text.push('\n');
    }
    for note in &view.notes {
        text.push_str(&paint.yellow(&format!("note: {note}\n")));
    }
    text
}

fn cells(row: &RowView) -> Vec<String> {
    let mut cells = vec![format!("  {}", row.label)];
    for side in [&row.before, &row.after] {
        cells.extend(estimate(side.as_ref(), row.unit));
    }
    cells.extend(ratio(row.ratio.as_ref()));
    cells
}

fn estimate(estimate: Option<&Estimate>, unit: Unit) -> [String; 2] {
    let Some(estimate) = estimate else { return ["not read".to_owned(), String::new()] };
    let interval =
        estimate.interval.map(|(low, high)| format!("{} to {}", figure(low, unit), figure(high, unit)));
    [figure(estimate.mean, unit), interval.unwrap_or_else(|| "-".to_owned())]
}

fn ratio(ratio: Option<&RatioView>) -> [String; 2] {
    let Some(ratio) = ratio else { return ["-".to_owned(), String::new()] };
    let interval = ratio.interval.map(|(low, high)| format!("{low:.2} to {high:.2}"));
    [format!("{:.2}x", ratio.ratio), interval.unwrap_or_else(|| "-".to_owned())]
}

/// A text that is no stretch of the past.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StretchError {
    /// Not of the form.
    #[error(
        "'{text}' is no stretch of the past; write how long ago it began and ended, as in 20m..10m or 10m..now"
    )]
    Form { text: String },
    /// Its end comes first.
    #[error("'{text}' ends before it begins; write the longer ago first, as in 20m..10m")]
    Backwards { text: String },
}

impl StretchError {
    /// Whose fault it is: whoever wrote it.
    pub fn blame(&self) -> Blame {
        Blame::Config
    }
}

impl FromStr for PastStretch {
    type Err = StretchError;

    fn from_str(text: &str) -> Result<Self, StretchError> {
        let wrong = || StretchError::Form { text: text.to_owned() };
        let (from, to) = text.split_once("..").ok_or_else(wrong)?;
        let (from, to) = (moment(from).ok_or_else(wrong)?, moment(to).ok_or_else(wrong)?);
        let mixed = (from > 0.0) != (to > 0.0) && to != 0.0;
        if mixed || from >= to && !(from > 0.0 && to == 0.0) {
            return Err(StretchError::Backwards { text: text.to_owned() });
        }
        Ok(Self { from, to })
    }
}

/// Seconds from now, or of the Unix epoch where it is a bare number of that size.
fn moment(text: &str) -> Option<f64> {
    match text {
        "now" => Some(0.0),
        digits if digits.len() >= 10 && digits.bytes().all(|b| b.is_ascii_digit()) => digits.parse().ok(),
        ago => fleet::parse_duration(ago).ok().map(|ago| -ago.as_secs_f64()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use console::comparison_view::SideView;

    fn read(text: &str) -> Result<PastStretch, StretchError> {
        text.parse()
    }
    use console::history_view::Subject;

    #[test]
    fn stretches_are_told_by_how_long_ago_or_by_the_epoch() {
        assert_eq!(read("20m..10m"), Ok(PastStretch { from: -1200.0, to: -600.0 }));
        assert_eq!(read("90s..now"), Ok(PastStretch { from: -90.0, to: 0.0 }));
        assert_eq!(
            read("1700000000..1700000600"),
            Ok(PastStretch { from: 1_700_000_000.0, to: 1_700_000_600.0 })
        );
        assert_eq!(read("1700000000..now"), Ok(PastStretch { from: 1_700_000_000.0, to: 0.0 }));
        for wrong in ["10m", "10m..20m", "now..10m", "a..b", "10m..10m", "1700000000..5m"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_comparison_reads_as_a_table_with_units_intervals_and_notes() {
        let json = serde_json::json!({
            "before": { "from_epoch_s": 0.0, "to_epoch_s": 600.0, "seconds": 600.0 },
            "after": { "from_epoch_s": 600.0, "to_epoch_s": 1200.0, "seconds": 600.0 },
            "rows": [
                { "kind": "host", "name": null, "who": "this host", "figure": "cpu", "label": "CPU, busy", "unit": "share",
                  "before": { "mean": 0.9, "interval": [0.88, 0.92], "readings": 600 },
                  "after": { "mean": 0.25, "interval": null, "readings": 600 },
                  "ratio": { "ratio": 0.2778, "interval": null } },
            ],
            "notes": ["after: db1 has gaps of 12 s; means are of the rest"],
        });
        let view: ComparisonView = serde_json::from_value(json).unwrap();
        assert_eq!(view.rows[0].subject, Subject::Host);
        let SideView { seconds, .. } = view.before;
        assert!((seconds - 600.0).abs() < 1e-9);
        let text = text(&view, Paint::off());
        for said in
            ["this host", "CPU, busy", "90 %", "88 % to 92 %", "25 %", "0.28x", "note: after: db1 has gaps"]
        {
            assert!(text.contains(said), "{said} is not in\n{text}");
        }
    }
}
