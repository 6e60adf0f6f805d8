//! `headroom-bench demo`: the demo several times over, each in a process of its own, and how its figures
//! vary.
//!
//! One demo shows that a promise was met once. Repeated, its verdicts are counted and every figure of its
//! report gets a median and a range. The report's shape is the demo's business: any number in it becomes a
//! figure, named by its path.

use super::report::section::section;
use super::{DemoBenchArgs, output};
use crate::binary;
use anyhow::{Context, bail};
use lab::process;
use plan::quantile::median;
use rustix::process::{Pid, Signal, kill_process};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::process::{ExitCode, Stdio};
use std::time::Duration;
use term::{interrupted, terminal};
use tokio::io::AsyncReadExt;
use tokio::process::Child;

/// A demo takes about two minutes; one that takes longer hangs.
const DEADLINE: Duration = Duration::from_secs(300);
/// It takes its lab down in less than this.
const FAREWELL: Duration = Duration::from_secs(20);
/// Parts of the demo's report that hold figures; the rest describes what was done.
const PARTS: [&str; 3] = ["phases", "faults", "moves"];
/// What elements of a list are called by, in order of preference.
const NAMES: [&str; 6] = ["id", "name", "route", "kind", "server", "to"];
/// Longer lists are courses in time, not figures.
const LONGEST_LIST: usize = 16;

/// What the repetitions gave.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Repeated {
    /// How many.
    repetitions: usize,
    /// In the demo's order.
    verdicts: Vec<Verdict>,
    /// By path.
    figures: BTreeMap<String, Figure>,
}

/// A verdict over all repetitions.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Verdict {
    asked: String,
    /// In how many repetitions it was met.
    met: usize,
    /// What each of them measured.
    measured: Vec<String>,
}

/// A number of the report over all repetitions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct Figure {
    median: f64,
    least: f64,
    most: f64,
}

/// Runs the demo again and again, keeps what each gave, prints medians. "No" when a promise was missed most
/// of the time.
pub(crate) async fn run(args: DemoBenchArgs) -> anyhow::Result<ExitCode> {
    let directory = output::Directory::new(args.out.as_deref(), "demo", false)?;
    let date = directory.date().to_owned();
    terminal::complain(&format!(
        "{} demos of up to 2 min each. Result: {}",
        args.repetitions,
        directory.path().display()
    ));
    let path = directory.create()?;
    let mut reports = Vec::new();
    for number in 1..=args.repetitions {
        terminal::complain(&format!("demo {number} of {}", args.repetitions));
        let text = tokio::time::timeout(DEADLINE, demo()).await.context("the demo hangs")??;
        let report = serde_json::from_str(&text).context("the demo's JSON cannot be read")?;
        output::keep(&path, &format!("run-{number}.json"), text.as_bytes())?;
        reports.push(report);
    }
    let repeated = Repeated::new(&reports);
    let text = format!(
        "# The demo, {} times, {date}\n\n{}{}",
        repeated.repetitions,
        repeated.verdict_table(),
        repeated.figure_table()
    );
    let is_met = |verdict: &Verdict| verdict.met * 2 > repeated.repetitions;
    let met = repeated.verdicts.iter().all(is_met);
    output::finish(&path, "medians.json", &repeated, &text, met, args.json)
}

/// One demo; its report as JSON. On Ctrl-C it is asked to end too, and given the time to take its servers
/// down.
async fn demo() -> anyhow::Result<String> {
    let program = binary::headroom()?;
    let mut command = process::command(&program);
    command.args(["demo", "--json"]).stdout(Stdio::piped());
    let mut demo = command.spawn().context("starting the demo")?;
    let mut output = demo.stdout.take().context("a piped output was asked for")?;
    let mut text = String::new();
    tokio::select! {
        read = output.read_to_string(&mut text) => { read.context("reading the demo's report")?; }
        () = interrupted() => {
            end(&mut demo).await;
            bail!("interrupted: the demo is stopped");
        }
    }
    let status = demo.wait().await?;
    // 1 is "no, a promise was missed": that is a result.
    if !matches!(status.code(), Some(0 | 1)) {
        bail!("the demo ended with {status}; what it said is above");
    }
    Ok(text)
}

async fn end(demo: &mut Child) {
    let pid = demo.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
    if let Some(pid) = pid {
        // If it has ended already, all the better; if it does not listen, it is killed when dropped.
        let _ = kill_process(pid, Signal::INT);
        let _ = tokio::time::timeout(FAREWELL, demo.wait()).await;
    }
}

impl Repeated {
    fn new(reports: &[Value]) -> Self {
        let mut values: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        let mut verdicts: Vec<Verdict> = Vec::new();
        for report in reports {
            for part in PARTS {
                numbers(&report[part], part, &mut values);
            }
            for verdict in report["verdicts"].as_array().into_iter().flatten() {
                let asked = verdict["asked"].as_str().unwrap_or_default();
                let index = verdicts.iter().position(|known| known.asked == asked).unwrap_or_else(|| {
                    verdicts.push(Verdict { asked: asked.to_owned(), met: 0, measured: Vec::new() });
                    verdicts.len() - 1
                });
                verdicts[index].met += usize::from(verdict["met"] == true);
                verdicts[index].measured.push(verdict["measured"].as_str().unwrap_or_default().to_owned());
            }
        }
        let figure = |(path, values): (String, Vec<f64>)| {
            let least = values.iter().copied().fold(f64::INFINITY, f64::min);
            let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            Some((path, Figure { median: median(&values)?, least, most }))
        };
        Self {
            repetitions: reports.len(),
            verdicts,
            figures: values.into_iter().filter_map(figure).collect(),
        }
    }

    fn verdict_table(&self) -> String {
        let row = |verdict: &Verdict| {
            let met = format!("{} of {}", verdict.met, self.repetitions);
            vec![verdict.asked.clone(), met, verdict.measured.join("; ")]
        };
        section(
            "Asked and measured",
            &["asked", ">met", "measured, each time"],
            self.verdicts.iter().map(row),
        )
    }

    fn figure_table(&self) -> String {
        let row = |(path, figure): (&String, &Figure)| {
            vec![path.clone(), shown(figure.median), shown(figure.least), shown(figure.most)]
        };
        section("Figures", &["figure", ">median", ">least", ">most"], self.figures.iter().map(row))
    }
}

fn shown(value: f64) -> String {
    if value.fract() == 0.0 { format!("{value:.0}") } else { format!("{value:.3}") }
}

/// Every number below `value`, under its path: `phases/c/busiest_of_mean`.
fn numbers(value: &Value, path: &str, into: &mut BTreeMap<String, Vec<f64>>) {
    match value {
        Value::Number(number) => {
            into.entry(path.to_owned()).or_default().extend(number.as_f64());
        }
        Value::Object(fields) => {
            for (name, field) in fields {
                numbers(field, &format!("{path}/{name}"), into);
            }
        }
        Value::Array(elements) if elements.len() <= LONGEST_LIST => {
            for (index, element) in elements.iter().enumerate() {
                let name = NAMES.iter().find_map(|name| element[*name].as_str());
                let name = name.map_or_else(|| index.to_string(), str::to_owned);
                numbers(element, &format!("{path}/{name}"), into);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn report(busiest: f64, met: bool) -> Value {
        json!({
            "about": { "seed": 7 },
            "phases": [{
                "id": "d3",
                "busiest_of_mean": busiest,
                "endpoints": [{ "route": "GET /timeline", "p50_ms": 4, "course": vec![1; 40] }],
            }],
            "verdicts": [{ "asked": "even load", "measured": format!("{busiest} x"), "met": met }],
        })
    }

    #[test]
    fn figures_are_named_by_what_they_belong_to_and_get_a_median_and_a_range() {
        let repeated = Repeated::new(&[report(1.02, true), report(1.09, false), report(1.04, true)]);
        let figure = repeated.figures["phases/d3/busiest_of_mean"];
        assert_eq!(figure, Figure { median: 1.04, least: 1.02, most: 1.09 });
        assert_eq!(repeated.figures["phases/d3/endpoints/GET /timeline/p50_ms"].median, 4.0);
        assert_eq!(repeated.figures.len(), 2, "neither seeds nor courses are figures");
    }

    #[test]
    fn a_verdict_counts_how_often_it_was_met_and_shows_every_measurement() {
        let repeated = Repeated::new(&[report(1.02, true), report(1.09, false)]);
        let table = repeated.verdict_table();
        assert!(table.contains("1 of 2") && table.contains("1.02 x; 1.09 x"), "{table}");
        assert_eq!(repeated.verdicts.len(), 1);
    }
}
