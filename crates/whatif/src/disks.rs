//! Another disk: what was seen on the present one, with its latencies and ceilings replaced by what `headroom
//! probe` measured on another host.

use crate::baseline::Baseline;
use crate::file::{self, FileError, Mistake};
use crate::ledger::{Answer, Kind, Observed, Prediction};
use crate::load_answer::LEVEL;
use crate::load_point::{LoadPoint, Observations};
use crate::server::{Server, ServerError};
use crate::words::{assumed, figure, interval, percent};
use plan::Interval;
use plan::disks::{Demand, Disk, Disks, Latency, MODEL_ERROR, MeasuredRate, Refusal};
use probe::Probe;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use term::Table;

/// A disk and whose it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NamedDisk {
    pub name: String,
    pub disk: Disk,
}

/// What is asked.
#[derive(Clone, Debug, PartialEq)]
pub struct DisksQuestion {
    /// Cores that the server may use.
    pub cores: u32,
    /// Growth is counted from it.
    pub baseline: Baseline,
    /// How many times the baseline.
    pub growths: Vec<f64>,
    /// The disk that it was seen on.
    pub here: NamedDisk,
    pub other: NamedDisk,
    /// Waits of a transaction until a log is durable, one after the other.
    pub flushes: f64,
}

/// Response times on a disk at a rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AtDisk {
    pub disk: String,
    /// How many times the baseline.
    pub growth: f64,
    /// Transactions a second.
    pub per_s: f64,
    /// Share of the disk's reads.
    pub busy: Interval,
    pub mean_ms: Option<Interval>,
    pub p99_ms: Option<Interval>,
    /// Why a figure is missing.
    pub refused: Option<String>,
}

/// Where a disk or the cores are full.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Full {
    pub disk: String,
    /// Transactions a second.
    pub per_s: Interval,
    /// What is full then: the disk or the cores.
    pub first: String,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DisksAnswer {
    pub subject: String,
    pub workload: String,
    pub cores: u32,
    /// Growth is counted from it.
    pub baseline: Baseline,
    pub here: NamedDisk,
    pub other: NamedDisk,
    pub demand: Option<Demand>,
    /// CPU (ms) and reads of a transaction.
    pub demand_intervals: Option<[Interval; 2]>,
    /// About the simulation of the present disk, as a share.
    pub scatter: Option<f64>,
    pub refused: Option<String>,
    pub rows: Vec<AtDisk>,
    /// Of the present disk, then of the other.
    pub full: Vec<Full>,
    pub seen: Vec<LoadPoint>,
    /// What to know beside the figures.
    pub notes: Vec<String>,
}

/// The disk of a probe, as `headroom probe --json` prints it.
///
/// # Errors
/// The file cannot be read, is no probe, or left the disk out.
pub fn read(path: &Path) -> Result<NamedDisk, FileError> {
    let probe = serde_json::from_str::<Probe>(&file::read(path)?).map_err(Mistake::NoProbe);
    let disk = probe.and_then(|probe| of_probe(&probe).ok_or(Mistake::NoDisk));
    disk.map_err(FileError::wrong(path.display().to_string()))
}

/// The disk of a probe; `None` where it was left out.
pub fn of_probe(probe: &Probe) -> Option<NamedDisk> {
    let found = probe.disk.as_ref()?;
    let latency = |one: &probe::fio::Measured| Latency { mean_ms: one.mean_ms, p99_ms: one.p99_ms };
    let disk = Disk {
        read: latency(&found.idle_read),
        reads_per_s: probe::most(&found.reads)?,
        flush: latency(&found.flush),
    };
    Some(NamedDisk { name: probe.host.clone(), disk })
}

/// Waits of a transaction that writes until its logs are durable, one after the other: by the server's
/// settings.
///
/// # Errors
/// The server does not answer.
pub fn flushes(server: &mut Server, writes: bool) -> Result<f64, ServerError> {
    if !writes {
        return Ok(0.0);
    }
    let all = server.variables(&["innodb_flush_log_at_trx_commit", "sync_binlog", "log_bin"])?;
    Ok(flushes_of_commit(&all))
}

/// A commit waits for the redo log, and after that for the binary log: they are files of their own. With
/// MariaDB's `innodb_flush_log_at_trx_commit = 3` the redo log is flushed as with 1, and once more behind the
/// binary log.
fn flushes_of_commit(variables: &BTreeMap<String, String>) -> f64 {
    let of = |name: &str| variables.get(name).map_or("", String::as_str);
    let has_binlog = of("log_bin") == "ON";
    let redo: u8 = match of("innodb_flush_log_at_trx_commit") {
        "3" if has_binlog => 2,
        "1" | "3" => 1,
        _ => 0,
    };
    f64::from(redo + u8::from(has_binlog && of("sync_binlog") == "1"))
}

/// Answers.
pub fn answer(question: &DisksQuestion, of: Observations) -> DisksAnswer {
    let cores = f64::from(question.cores);
    let other = told_apart(&question.here, &question.other);
    let seen = of.seen.iter().filter(|one| !one.closed).filter_map(|one| {
        let cpu_ms = one.busy? * cores * 1e3 / one.per_s;
        Some(MeasuredRate { per_s: one.per_s, mean_ms: one.mean_ms, cpu_ms, reads: one.reads_each? })
    });
    let seen: Vec<MeasuredRate> = seen.collect();
    let known = of.seen.is_empty() || !seen.is_empty();
    let model = Disks::new(&seen, question.here.disk, question.cores, question.flushes);
    let mut answer = DisksAnswer {
        subject: of.subject,
        workload: of.workload,
        cores: question.cores,
        baseline: question.baseline,
        here: question.here.clone(),
        other: other.clone(),
        demand: None,
        demand_intervals: None,
        scatter: None,
        refused: None,
        rows: Vec::new(),
        full: Vec::new(),
        seen: of.seen,
        notes: of.notes,
    };
    let model = match model {
        Ok(model) => model,
        Err(why) => {
            answer.refused = Some(match known {
                true => why.to_string(),
                false => "the CPU time of the server's process and its reads are needed: run it on the server's host".to_owned(),
            });
            return answer;
        }
    };
    answer.demand = Some(model.demand());
    answer.demand_intervals = Some(model.demand_intervals());
    answer.scatter = Some(model.scatter);
    for named in [&question.here, &other] {
        let (per_s, first) = model.saturation(&named.disk);
        answer.full.push(Full { disk: named.name.clone(), per_s, first: first.to_owned() });
        answer.rows.extend(question.growths.iter().map(|growth| at(&model, named, question, *growth)));
    }
    answer
}

/// The other disk, by another name than that of the present one: a host may have both, and rows and
/// predictions go by their names.
fn told_apart(here: &NamedDisk, other: &NamedDisk) -> NamedDisk {
    let same = here.name == other.name;
    let name = if same { format!("{} (the other one)", other.name) } else { other.name.clone() };
    NamedDisk { name, disk: other.disk }
}

fn at(model: &Disks, named: &NamedDisk, question: &DisksQuestion, growth: f64) -> AtDisk {
    let per_s = question.baseline.per_s.estimate * growth;
    let found: Result<_, Refusal> = model.at(&named.disk, per_s);
    AtDisk {
        disk: named.name.clone(),
        growth,
        per_s,
        busy: model.busy(&named.disk, per_s),
        mean_ms: found.as_ref().ok().map(|(mean, _)| *mean),
        p99_ms: found.as_ref().ok().map(|(_, p99)| *p99),
        refused: found.err().map(|why| why.to_string()),
    }
}

impl Full {
    fn words(&self) -> String {
        let is = if self.first == "disk" { "is" } else { "are" };
        format!("the {} {is} full first", self.first)
    }
}

impl DisksAnswer {
    /// What the other disk adds before something is full, transactions a second.
    pub fn headroom(&self) -> Option<Interval> {
        let [here, other] = self.full.as_slice() else { return None };
        let (then, now) = (other.per_s, here.per_s);
        let both = [then.low - now.low, then.high - now.high];
        let estimate = then.estimate - now.estimate;
        Some(Interval {
            low: both.iter().copied().fold(estimate, f64::min),
            estimate,
            high: both.iter().copied().fold(estimate, f64::max),
        })
    }

    /// What it buys, in words: the response time at the largest load that both carry.
    pub fn buys(&self) -> String {
        let of = |disk: &str, growth: f64| {
            self.rows.iter().find(|row| row.disk == disk && (row.growth - growth).abs() < 1e-9)?.p99_ms
        };
        let mut both =
            self.rows.iter().map(|row| row.growth).filter_map(|growth| {
                Some((growth, of(&self.here.name, growth)?, of(&self.other.name, growth)?))
            });
        let first = self.full.get(1).map(Full::words).unwrap_or_default();
        match both.next_back() {
            Some((growth, now, then)) => format!(
                "p99 {} instead of {} ms at {} transactions a second; {first}",
                interval(&then),
                interval(&now),
                figure(self.baseline.per_s.estimate * growth)
            ),
            None => first,
        }
    }
}

impl Answer for DisksAnswer {
    fn about(&self) -> (Kind, String, String) {
        (Kind::Disks, self.subject.clone(), self.workload.clone())
    }

    /// On the other disk alone: what it does on the present one was seen.
    fn predictions(&self) -> Vec<Prediction> {
        let mut all = Vec::new();
        for row in self.rows.iter().filter(|row| row.disk == self.other.name) {
            for (what, value) in [("mean_ms", row.mean_ms), ("p99_ms", row.p99_ms)] {
                all.extend(value.map(|value| Prediction {
                    model: "disks".to_owned(),
                    what: format!("{what} on {}", row.disk),
                    at: row.per_s,
                    cores: Some(self.cores),
                    value,
                    level: LEVEL,
                }));
            }
        }
        all
    }

    fn observed(&self) -> Vec<Observed> {
        let of = |one: &LoadPoint, what: &str, value: Option<f64>| {
            let what = format!("{what} on {}", self.here.name);
            value.map(|value| Observed { what, at: one.per_s, cores: Some(self.cores), value })
        };
        let open = self.seen.iter().filter(|one| !one.closed);
        open.flat_map(|one| [of(one, "mean_ms", Some(one.mean_ms)), of(one, "p99_ms", one.p99_ms)])
            .flatten()
            .collect()
    }

    fn assumptions(&self) -> Vec<String> {
        let mut all = self.notes.clone();
        all.push("The pool misses as often on the other host: its size stays.".to_owned());
        all.push(
            "Only reads of pages and flushes of the log are the disk's; pages are written behind.".to_owned(),
        );
        all.push(format!(
            "The simulation may be wrong by {:.0} % of the disk's time; that is in the intervals.",
            MODEL_ERROR * 100.0
        ));
        all
    }

    fn is_good(&self) -> bool {
        self.refused.is_none()
    }

    fn text(&self) -> String {
        let mut text = format!(
            "{} on {}: the disk of {} in the place of that of {}\n",
            self.workload, self.subject, self.other.name, self.here.name
        );
        if let Some(why) = &self.refused {
            let _ = writeln!(text, "Nothing is predicted: {why}.");
            return text;
        }
        let mut disks = Table::new(&["disk", ">read ms", ">its p99", ">reads a second", ">flush ms"]);
        for one in [&self.here, &self.other] {
            let Disk { read, reads_per_s, flush } = one.disk;
            let cells = [read.mean_ms, read.p99_ms, reads_per_s, flush.mean_ms].map(figure);
            disks.row(std::iter::once(one.name.clone()).chain(cells).collect());
        }
        text += &disks.text();
        if let (Some(demand), Some([cpu_ms, reads])) = (&self.demand, &self.demand_intervals) {
            let _ = writeln!(
                text,
                "\nA transaction takes {} ms of a core, {} reads of the disk and waits for {} flushes.\n",
                interval(cpu_ms),
                interval(reads),
                figure(demand.flushes)
            );
        }
        let mut table = Table::new(&[
            "disk",
            ">growth",
            ">transactions/s",
            ">disk busy",
            ">mean ms",
            ">p99 ms",
            "not predicted, because",
        ]);
        for row in &self.rows {
            let or = |value: &Option<Interval>| value.as_ref().map_or_else(|| "-".to_owned(), interval);
            table.row(vec![
                row.disk.clone(),
                format!("{:.2}x", row.growth),
                figure(row.per_s),
                percent(&row.busy),
                or(&row.mean_ms),
                or(&row.p99_ms),
                row.refused.clone().unwrap_or_default(),
            ]);
        }
        text += &table.text();
        let _ = writeln!(text, "{}\n", self.baseline.words());
        for full in &self.full {
            let _ = writeln!(
                text,
                "With the disk of {} {}, at {} transactions a second",
                full.disk,
                full.words(),
                interval(&full.per_s)
            );
        }
        text += &assumed(&self.assumptions());
        text += "Intervals are 95 %.\n";
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plan::disks::simulate;

    fn disk(name: &str, mean_ms: f64, reads_per_s: f64) -> NamedDisk {
        let latency = Latency { mean_ms, p99_ms: 3.0 * mean_ms };
        NamedDisk { name: name.to_owned(), disk: Disk { read: latency, reads_per_s, flush: latency } }
    }

    fn asked() -> (DisksQuestion, Observations) {
        let (here, other) = (disk("db1", 5.0, 200.0), disk("db2", 0.2, 20_000.0));
        let demand = Demand { cpu_ms: 1.0, reads: 4.0, flushes: 0.0 };
        let seen = [5.0, 10.0, 15.0, 20.0, 25.0, 30.0].map(|per_s| LoadPoint {
            per_s,
            mean_ms: simulate(&demand, &here.disk, 2, per_s).mean_ms,
            busy: Some(per_s * 1e-3 / 2.0),
            reads_each: Some(4.0),
            ..LoadPoint::default()
        });
        let (cores, baseline, growths) = (2, Baseline::named(30.0), vec![1.0, 2.0]);
        let question = DisksQuestion { cores, baseline, growths, here, other, flushes: 0.0 };
        let of = Observations::of("s".into(), "w".into(), seen.to_vec());
        (question, of)
    }

    #[test]
    fn a_faster_disk_is_predicted_and_says_what_is_full_then() {
        let (question, of) = asked();
        let answer = answer(&question, of);
        let text = answer.text();
        assert!(text.contains("With the disk of db1 the disk is full first"), "{text}");
        assert!(text.contains("With the disk of db2 the cores are full first"), "{text}");
        assert_eq!((answer.full[0].first.as_str(), answer.full[1].first.as_str()), ("disk", "cores"));
        assert!(answer.rows[1].refused.is_some(), "twice the load is too much for the present disk: {text}");
        let busy = answer.rows[0].busy;
        assert!(busy.low < 0.6 && 0.6 < busy.high && (busy.estimate - 0.6).abs() < 0.01, "{busy:?}");
        assert!(text.contains("4.00 (3.84 to 4.16) reads of the disk"), "{text}");
        let fast = answer.rows[3].mean_ms.unwrap();
        assert!(fast.low < 1.85 && 1.85 < fast.high, "{fast:?}");
        assert!(answer.headroom().unwrap().estimate > 300.0);
        assert!(answer.predictions().iter().all(|one| one.what.ends_with(" on db2")));
        assert!(answer.observed().iter().all(|one| one.what.ends_with(" on db1")));
        let json = serde_json::to_string(&answer).unwrap();
        assert_eq!(serde_json::from_str::<DisksAnswer>(&json).unwrap().rows.len(), 4);
    }

    #[test]
    fn two_disks_of_one_host_are_told_apart() {
        let (mut question, of) = asked();
        question.other.name = question.here.name.clone();
        let answer = answer(&question, of);
        let buys = answer.buys();
        let p99 = |row: usize| interval(&answer.rows[row].p99_ms.unwrap());
        assert_eq!(answer.rows[2].disk, "db1 (the other one)");
        assert!(buys.starts_with(&format!("p99 {} instead of {} ms", p99(2), p99(0))), "{buys}");
        assert!(answer.predictions().iter().all(|one| one.what.ends_with(" on db1 (the other one)")));
        assert!(answer.observed().iter().all(|one| one.what.ends_with(" on db1")));
    }

    #[test]
    fn a_commit_waits_for_each_log_that_it_makes_durable() {
        let of = |redo: &str, sync_binlog: &str, log_bin: &str| {
            let all = [
                ("innodb_flush_log_at_trx_commit", redo),
                ("sync_binlog", sync_binlog),
                ("log_bin", log_bin),
            ];
            flushes_of_commit(&all.map(|(name, value)| (name.to_owned(), value.to_owned())).into())
        };
        assert_eq!((of("1", "1", "ON"), of("1", "0", "ON"), of("2", "1", "ON")), (2.0, 1.0, 1.0));
        assert_eq!((of("1", "1", "OFF"), of("0", "1", "OFF"), of("2", "100", "ON")), (1.0, 0.0, 0.0));
        assert_eq!((of("3", "1", "ON"), of("3", "0", "OFF")), (3.0, 1.0));
    }

    #[test]
    fn without_the_servers_process_it_is_refused() {
        let (question, mut of) = asked();
        of.seen.iter_mut().for_each(|one| one.busy = None);
        let answer = answer(&question, of);
        assert!(
            !answer.is_good() && answer.text().contains("run it on the server's host"),
            "{}",
            answer.text()
        );
    }

    #[test]
    fn a_probe_is_read_and_what_is_none_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("p.json");
        let mut probe = probe::sample();
        std::fs::write(&path, serde_json::to_string(&probe).unwrap()).unwrap();
        let found = read(&path).unwrap();
        assert_eq!((found.name.as_str(), found.disk.reads_per_s), ("db1", 30_000.0));
        probe.disk = None;
        std::fs::write(&path, serde_json::to_string(&probe).unwrap()).unwrap();
        assert!(read(&path).unwrap_err().to_string().contains("left the disk out"));
        std::fs::write(&path, "{}").unwrap();
        assert!(read(&path).unwrap_err().to_string().contains("headroom probe --json"));
    }
}
