//! What a soak found: asked and measured, and everything else as JSON.

use super::super::output::{json_to_keep, keep, pack, write};
use super::super::promise::{Promise, all_met, table};
use super::blame::{Lapse, Sort};
use super::client::Kind;
use super::client_pool::{Failure, Slow, Slowest, Totals};
use super::watch::{SAMPLES, Sample};
use hdrhistogram::Histogram;
use plan::Slope;
use probe::Machine;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;

/// Memory that grows by less is flat, MiB an hour: a session more or less is 4 KiB, a leak of 100 bytes a
/// session at 50 sessions a second is 17 MiB.
const FLAT_MIB_AN_HOUR: f64 = 1.0;
/// Sockets to servers come and go: this many may be on their way.
const SPARE_DESCRIPTORS: u64 = 6;
/// A statement whose server has no fault is answered within this: longer than a result set of many MiB takes
/// on a busy machine, and shorter than any deadline.
const SLOWEST_S: f64 = 5.0;

/// Everything a soak found.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Run {
    pub(super) date: String,
    pub(super) machine: Machine,
    /// Seconds that were asked for and those that were.
    pub(super) asked_s: u64,
    pub(super) length_s: f64,
    pub(super) clients: u32,
    /// Statements a second at most; 0 is no limit.
    pub(super) rate: u32,
    pub(super) seed: u64,
    pub(super) zero_hop: bool,
    /// Why it ended before its time.
    pub(super) cut_short: Option<String>,
    /// Different result sets that were compared with.
    pub(super) questions: usize,
    pub(super) counted: Totals,
    /// Sessions that the router ended while they rested; `None` when it did not say.
    pub(super) deliberate: Option<u64>,
    pub(super) written: Written,
    pub(super) slowest: Slowest,
    pub(super) latency: Vec<Latency>,
    /// Resident memory of the router, MiB, over seconds.
    pub(super) memory: Option<Slope>,
    /// Open descriptors of the router before the first client and after the last.
    pub(super) descriptors: (u64, u64),
    pub(super) faults: Vec<Lapse>,
    #[serde(skip)]
    pub(super) failures: Vec<Failure>,
    #[serde(skip)]
    pub(super) samples: Vec<Sample>,
}

/// Rows that clients wrote over the writer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Written {
    pub(super) acknowledged: u64,
    /// Never acknowledged; they may be there or not.
    pub(super) doubtful: u64,
    /// Acknowledged and not there.
    pub(super) lost: u64,
    /// There and never sent.
    pub(super) twice: u64,
}

/// How long a kind of client waited for its answers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Latency {
    pub(super) kind: Kind,
    pub(super) statements: u64,
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
    pub(super) most_ms: f64,
}

impl Latency {
    pub(super) fn of(kind: Kind, times: &Histogram<u64>) -> Self {
        let ms = |micros: u64| micros as f64 / 1000.0;
        Self {
            kind,
            statements: times.len(),
            p50_ms: ms(times.value_at_quantile(0.5)),
            p99_ms: ms(times.value_at_quantile(0.99)),
            most_ms: ms(times.max()),
        }
    }
}

impl Run {
    /// Whether nothing that was asked was missed, to the end of the time that was asked for.
    pub(super) fn kept(&self) -> bool {
        self.cut_short.is_none() && all_met(&self.promises())
    }

    /// Writes everything but the samples, which are there already, and complete now.
    pub(super) fn write(&self, directory: &Path) -> anyhow::Result<()> {
        keep(directory, "run.json", json_to_keep(self)?.as_bytes())?;
        let failures: Vec<String> =
            self.failures.iter().map(serde_json::to_string).collect::<Result<_, _>>()?;
        keep(directory, "failures.jsonl", (failures.join("\n") + "\n").as_bytes())?;
        write(directory, "summary.md", &self.markdown())?;
        pack(directory, SAMPLES)
    }

    fn promises(&self) -> Vec<Promise> {
        let Totals { sessions, statements, wrong, moved, unexplained, .. } = self.counted;
        let none = |asked: &str, count: u64, measured: String| Promise {
            asked: format!("{asked}: 0"),
            measured,
            met: Some(count == 0),
        };
        let (before, after) = self.descriptors;
        let mut promises = vec![
            none(
                "result sets with another checksum than directly",
                wrong,
                format!("{wrong} of {statements} statements in {sessions} sessions"),
            ),
            none("failures that no fault explains", unexplained, unexplained.to_string()),
            Promise {
                asked: "sessions ended while they rested: not more than the router says it ended".to_owned(),
                measured: match self.deliberate {
                    Some(deliberate) => format!("{moved} seen, {deliberate} said"),
                    None => format!("{moved} seen, the router did not say"),
                },
                met: self.deliberate.map(|deliberate| moved <= deliberate),
            },
            none(
                "acknowledged rows that are lost or there twice",
                self.written.lost + self.written.twice,
                format!(
                    "{} lost, {} twice, of {} ({} never acknowledged)",
                    self.written.lost, self.written.twice, self.written.acknowledged, self.written.doubtful
                ),
            ),
            self.memory_promise(),
            Promise {
                asked: format!(
                    "descriptors after the last client: at most {SPARE_DESCRIPTORS} more than before the first"
                ),
                measured: format!("{before} before, {after} after"),
                met: Some(after <= before + SPARE_DESCRIPTORS),
            },
        ];
        let slow = self.slowest.undisturbed.as_ref();
        promises.push(Promise {
            asked: format!("slowest statement whose server had no fault: under {SLOWEST_S} s"),
            measured: slow.map_or("none".to_owned(), words),
            met: slow.map(|slow| slow.seconds < SLOWEST_S),
        });
        promises
    }

    fn memory_promise(&self) -> Promise {
        let asked =
            format!("resident memory after the warm-up: grows by less than {FLAT_MIB_AN_HOUR} MiB an hour");
        let Some(slope) = self.memory else {
            return Promise { asked, measured: "too short to tell".to_owned(), met: None };
        };
        let (low, high) = slope.interval;
        let (low, high, mean) = (low * 3600.0, high * 3600.0, slope.mean * 3600.0);
        let met = if high < FLAT_MIB_AN_HOUR {
            Some(true)
        } else if low > FLAT_MIB_AN_HOUR {
            Some(false)
        } else {
            // The interval holds both: with so few blocks it cannot be told.
            None
        };
        Promise { asked, measured: format!("{mean:+.2} MiB an hour (95 %: {low:+.2} to {high:+.2})"), met }
    }

    /// The report.
    pub(super) fn markdown(&self) -> String {
        let rate =
            if self.rate == 0 { "as fast as answered".to_owned() } else { format!("{} a second", self.rate) };
        let way = if self.zero_hop { "past the router (zero-hop)" } else { "through the router" };
        let mut text = format!(
            "# Soak, {}\n\n{:.0} s, {} clients of nine kinds, statements {rate}, {way}, seed {}; {} faults. {} different \
             result sets were asked directly before.\n\n",
            self.date,
            self.length_s,
            self.clients,
            self.seed,
            self.faults.len(),
            self.questions
        );
        if let Some(why) = &self.cut_short {
            text.push_str(&format!("**Ended after {:.0} of {} s: {why}.**\n\n", self.length_s, self.asked_s));
        }
        text.push_str(&format!(
            "{}
",
            table(&self.promises())
        ));
        text.push_str(&self.detail());
        text
    }

    fn detail(&self) -> String {
        let mut text = String::new();
        if let (Some(first), Some(last)) = (self.samples.first(), self.samples.last()) {
            let mib = |kib: u64| kib as f64 / 1024.0;
            let most = self.samples.iter().map(|s| s.resident_kib).max().unwrap_or(0);
            let cpu = (last.cpu_s - first.cpu_s) / (last.at_s - first.at_s).max(1.0);
            text.push_str(&format!(
                "\nThe router: {:.1} MiB resident at first, {:.1} at the end, {:.1} at most; {:.0} % of a core; {:.0} \
                 statements a second.\n",
                mib(first.resident_kib),
                mib(last.resident_kib),
                mib(most),
                cpu * 100.0,
                self.counted.statements as f64 / self.length_s.max(1.0)
            ));
        }
        text.push_str(
            "\n| clients | statements | p50 ms | p99 ms | slowest ms |\n|---|---:|---:|---:|---:|\n",
        );
        for Latency { kind, statements, p50_ms, p99_ms, most_ms } in &self.latency {
            text.push_str(&format!(
                "| {kind:?} | {statements} | {p50_ms:.2} | {p99_ms:.2} | {most_ms:.0} |\n"
            ));
        }
        let mut faults: BTreeMap<(&str, &str), u32> = BTreeMap::new();
        for lapse in &self.faults {
            *faults.entry((lapse.what, &lapse.server)).or_default() += 1;
        }
        let faults: Vec<String> =
            faults.iter().map(|((what, server), count)| format!("{what} {server} x {count}")).collect();
        let Totals { by_fault, moved, .. } = self.counted;
        text.push_str(&format!(
            "\nFaults: {}. {by_fault} statements or logins broke with one, {moved} met a session that had been ended while it \
             rested.\n",
            if faults.is_empty() { "none".to_owned() } else { faults.join(", ") }
        ));
        if let Some(slow) = &self.slowest.any {
            text.push_str(&format!("Slowest of all: {}.\n", words(slow)));
        }
        let unexplained = self.failures.iter().filter(|failure| failure.sort == Sort::Unexplained);
        for failure in unexplained.take(20) {
            let server = failure.server.as_deref().unwrap_or("at login");
            text.push_str(&format!(
                "\n- {:.1} s, {:?}, {server}, {:?}: {}",
                failure.at_s, failure.kind, failure.how, failure.text
            ));
        }
        text
    }
}

fn words(slow: &Slow) -> String {
    format!("{:.2} s at {:.0} s on {} ({})", slow.seconds, slow.at_s, slow.server, slow.what)
}
