//! What was seen of a server under load: from runs of `headroom load`, from trials of `headroom measure`,
//! from an agent's history.

use crate::baseline::{Baseline, BaselineSource, Unit};
use crate::file::{self, FileError, Mistake};
use load::Outcome;
use load::arrivals::Arrivals;
use load::measure::{Heading, Trial};
use load::store::{Run, Store, StoreError};
use load::workload::in_words;
use plan::queue::{QueueInputs, Response};
use plan::scalability::Throughput;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Percentiles of the shape of response times that are taken from a histogram.
const SHAPE: usize = 100;

/// A trial may lose this share, whatever its objective; of a run at a rate, it may be left unanswered.
const LOST: f64 = 0.01;

/// With fewer cores than the host has, a statement would seem to take less of one than it does.
const OF_THE_HOST: &str = "How busy the cores were is the share of the agent's whole host, with whatever else runs there: --cores is taken to be all of its cores, also where a limit leaves the server fewer.";

/// Where observations are that were made before.
#[derive(Clone, Debug)]
pub enum Source {
    /// The last runs of `headroom load` in its history.
    Runs {
        history: PathBuf,
        /// How many at most.
        last: u32,
    },
    /// A file of `headroom measure --trials`.
    Trials(PathBuf),
    /// What an agent answers at `/history.json`, in a file.
    Agent {
        file: PathBuf,
        /// Which server, where the agent watches several.
        server: Option<String>,
    },
}

/// Of one server under one workload.
#[derive(Clone, Debug, PartialEq)]
pub struct Observations {
    /// Server or target, in words.
    pub subject: String,
    /// What was sent, in words.
    pub workload: String,
    /// What its rates count.
    pub unit: Unit,
    pub seen: Vec<LoadPoint>,
    /// Today's load, where it is known.
    pub today: Option<Baseline>,
    /// What to know beside the figures.
    pub notes: Vec<String>,
}

/// Why there are none.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the history has no run; headroom load run makes one")]
    Empty,
}

impl Observations {
    /// Of a load that was sent: what the server's own clients do is not known.
    pub fn of(subject: String, workload: String, seen: Vec<LoadPoint>) -> Self {
        Self { subject, workload, unit: Unit::Transactions, seen, today: None, notes: Vec::new() }
    }

    /// The rate that growth is counted from: the one that is named, else today's, else the highest sent.
    pub fn baseline(&self, named: Option<f64>) -> Baseline {
        let known = named.map(Baseline::named).or(self.today);
        let baseline = known.unwrap_or_else(|| Baseline::highest_sent(&self.seen));
        Baseline { unit: self.unit, ..baseline }
    }
}

impl Source {
    /// Reads them. Of runs: those of the newest one's target, workload, options, protocol and idle
    /// connections, and where they are at a rate, of the newest such one's number of clients.
    ///
    /// # Errors
    /// See [`SourceError`].
    pub fn read(&self) -> Result<Observations, SourceError> {
        let wrong = |path: &Path| FileError::wrong(path.display().to_string());
        match self {
            Self::Trials(path) => {
                let (heading, seen) = of_trials(&file::read(path)?).map_err(wrong(path))?;
                Ok(Observations::of(heading.target, heading.workload, seen))
            }
            Self::Agent { file: path, server } => {
                let seen = of_agent(&file::read(path)?, server.as_deref()).map_err(wrong(path))?;
                let subject = server.clone().unwrap_or_else(|| "the server".to_owned());
                // What the server's own clients did: its peak is today's load.
                let today = Some(Baseline::of(most(&seen), BaselineSource::History));
                let unit = Unit::Statements;
                let is_busy_known = seen.iter().any(|one| one.busy.is_some());
                let notes = is_busy_known.then(|| OF_THE_HOST.to_owned()).into_iter().collect();
                let of = Observations::of(subject, unit.many().to_owned(), seen);
                Ok(Observations { today, unit, notes, ..of })
            }
            Self::Runs { history, last } => {
                let runs = Store::open(history)?.last(*last)?;
                let newest = runs.first().ok_or(SourceError::Empty)?;
                let (same, mut notes) = of_one_load(&runs, newest);
                let full = same.iter().filter(|run| is_overloaded(&run.outcome)).count();
                if full > 0 {
                    notes.push(format!(
                        "{full} of the runs at a rate left more than {:.0} % of it unanswered, and are left out: \
                         their queue did not drain",
                        LOST * 100.0
                    ));
                }
                let seen = same.into_iter().filter_map(|run| LoadPoint::of_run(&run.outcome, None));
                let of = Observations::of(newest.target.clone(), sent(newest), seen.collect());
                Ok(Observations { notes, ..of })
            }
        }
    }
}

fn sent(run: &Run) -> String {
    in_words(&run.outcome.workload, &run.outcome.options)
}

/// The runs of the load that `newest` is of, and what to know beside them. Clients are no part of it in a
/// closed loop: their number is what differs there. At a rate they are: with fewer, transactions wait for a
/// free one, which is no wait of the server's.
fn of_one_load<'a>(runs: &'a [Run], newest: &Run) -> (Vec<&'a Run>, Vec<String>) {
    let load = |run: &Run| (run.target.clone(), sent(run), run.outcome.protocol, run.outcome.idle);
    let same = runs.iter().filter(|run| load(run) == load(newest));
    let (at_a_rate, mut kept): (Vec<&Run>, Vec<&Run>) = same.partition(|run| run.outcome.arrivals.is_open());
    let Some(clients) = at_a_rate.first().map(|run| run.outcome.clients) else { return (kept, Vec::new()) };
    let (same, others): (Vec<&Run>, Vec<&Run>) =
        at_a_rate.into_iter().partition(|run| run.outcome.clients == clients);
    kept.extend(same);
    let note = format!(
        "{} of the runs at a rate had another number of clients than {clients}, and are left out",
        others.len()
    );
    (kept, (!others.is_empty()).then_some(note).into_iter().collect())
}

/// A server under one load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LoadPoint {
    /// Transactions, or statements, done a second.
    pub per_s: f64,
    /// Their mean response time, ms.
    pub mean_ms: f64,
    /// 99 % are shorter, ms.
    pub p99_ms: Option<f64>,
    /// Transactions at work at a time, on average.
    pub at_work: f64,
    /// Share of the server's cores that was busy.
    pub busy: Option<f64>,
    /// Pages that a transaction read from the disk, where it was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reads_each: Option<f64>,
    /// Whether the next began only when the last had ended: then the rate follows from the response time.
    pub closed: bool,
    /// Percentiles of the response time at equal steps, ms; empty where there was no histogram.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shape: Vec<f64>,
}

impl LoadPoint {
    /// A run; `None` where its figures must not be used, or its rate was more than the server takes.
    pub fn of_run(outcome: &Outcome, busy: Option<f64>) -> Option<Self> {
        let (per_s, mean_ms) = (outcome.totals.per_second, outcome.response.mean_ms);
        if !outcome.is_sound() || is_overloaded(outcome) || per_s <= 0.0 || mean_ms <= 0.0 {
            return None;
        }
        let steps: Vec<f64> = (0..SHAPE).map(|at| (at as f64 + 0.5) / SHAPE as f64).collect();
        Some(Self {
            per_s,
            mean_ms,
            p99_ms: Some(outcome.response.p99_ms),
            at_work: per_s * mean_ms / 1e3,
            busy,
            reads_each: None,
            closed: matches!(outcome.arrivals, Arrivals::Closed { .. }),
            shape: outcome.response.at(&steps).unwrap_or_default(),
        })
    }

    /// A point of an agent's history: statements a second, their mean, the host's busy share.
    pub fn of_history(per_s: f64, mean_ms: f64, p99_ms: Option<f64>, busy: Option<f64>) -> Option<Self> {
        (per_s > 0.0 && mean_ms > 0.0).then(|| Self {
            per_s,
            mean_ms,
            p99_ms,
            at_work: per_s * mean_ms / 1e3,
            busy,
            reads_each: None,
            closed: false,
            shape: Vec::new(),
        })
    }
}

/// Whether a run at a rate left so much unanswered that its queue did not drain: how long that is says how
/// long the run was.
pub(crate) fn is_overloaded(outcome: &Outcome) -> bool {
    let totals = &outcome.totals;
    (totals.not_started + totals.unfinished) as f64 > LOST * totals.arrivals as f64
        && outcome.arrivals.is_open()
}

/// The highest rate that was seen in an open loop, a second.
pub fn most(seen: &[LoadPoint]) -> f64 {
    seen.iter().filter(|one| !one.closed).map(|one| one.per_s).fold(0.0, f64::max)
}

/// For the law: closed loops only. In an open one what waits counts as at work, and a server that has cores
/// to spare looks as if it were near its limit.
pub(crate) fn throughputs(seen: &[LoadPoint]) -> Vec<Throughput> {
    seen.iter()
        .filter(|one| one.closed)
        .map(|one| Throughput { at_work: one.at_work, per_s: one.per_s })
        .collect()
}

/// For the queue: open loops only. In a closed one the rate depends on the response time, and the queue that
/// the model has never forms.
pub(crate) fn responses(seen: &[LoadPoint]) -> Vec<Response> {
    let open = seen.iter().filter(|one| !one.closed);
    open.map(|one| Response { per_s: one.per_s, mean_s: one.mean_ms / 1e3, busy: one.busy }).collect()
}

/// What else is known. The variability of service is that of response times at the lowest rate. A database
/// gives each transaction a thread, and the kernel shares cores among threads: a queue of shared processors
/// waits as M/M/1 does whatever the lengths (variability 1), one in order of arrival by (1 + Cs^2) / 2.
/// Either may hold, so the middle is taken, and half the difference, at least 0.3, as its standard deviation.
pub(crate) fn queue_inputs(seen: &[LoadPoint], cores: u32) -> QueueInputs {
    let open = seen.iter().filter(|one| !one.closed && !one.shape.is_empty());
    let calm = open.min_by(|a, b| a.per_s.total_cmp(&b.per_s));
    let shape = calm.map(|one| one.shape.clone()).unwrap_or_default();
    let variability = (!shape.is_empty()).then(|| {
        let count = shape.len() as f64;
        let mean = shape.iter().sum::<f64>() / count;
        let variance = shape.iter().map(|time| (time - mean).powi(2)).sum::<f64>() / count;
        let in_order = f64::midpoint(1.0, (variance / (mean * mean)).min(4.0));
        (f64::midpoint(1.0, in_order), (0.5 * (in_order - 1.0).abs()).max(0.3))
    });
    QueueInputs { cores, variability, shape }
}

/// Reads a file of trials of `headroom measure --trials`: its first line says of what they are. Trials that
/// lost more than a hundredth, and more than their objective allows, had a queue that did not drain, and are
/// left out. With p90 a tenth may be late at a rate that is good. Half of a last line, as a killed process
/// leaves it, is left out, too.
fn of_trials(text: &str) -> Result<(Heading, Vec<LoadPoint>), Mistake> {
    let mut lines = text.lines().enumerate();
    let wrong = |at: usize, source| Mistake::NoTrial { line: at + 1, source };
    let (_, first) = lines.next().ok_or(Mistake::Empty)?;
    let heading: Heading = serde_json::from_str(first).map_err(|error| wrong(0, error))?;
    let allowed = heading.objective.loss().max(LOST);
    let mut seen = Vec::new();
    let torn = text.lines().count().checked_sub(1).filter(|_| !text.ends_with('\n'));
    for (at, line) in lines {
        let trial: Trial = match serde_json::from_str(line) {
            Ok(trial) => trial,
            Err(_) if torn == Some(at) => break,
            Err(error) => return Err(wrong(at, error)),
        };
        if trial.mean_ms > 0.0 && trial.loss() <= allowed {
            seen.extend(LoadPoint::of_history(trial.rate, trial.mean_ms, Some(trial.p99_ms), None));
        }
    }
    Ok((heading, seen))
}

/// Reads the JSON of an agent's `/history.json` for one server: cells in which both rate and mean were read.
fn of_agent(json: &str, server: Option<&str>) -> Result<Vec<LoadPoint>, Mistake> {
    let view: History = serde_json::from_str(json).map_err(Mistake::NoHistory)?;
    let named = |subject: &&Subject| {
        subject.kind == "server" && server.is_none_or(|name| subject.name.as_deref() == Some(name))
    };
    let servers: Vec<&Subject> = view.subjects.iter().filter(named).collect();
    let [subject] = servers.as_slice() else {
        let names: Vec<String> = servers.iter().filter_map(|one| one.name.clone()).collect();
        return Err(match servers.is_empty() {
            true => Mistake::UnknownServer,
            false => Mistake::SeveralServers { names },
        });
    };
    let host = view.subjects.iter().find(|one| one.kind == "host");
    let course = |subject: Option<&Subject>, name: &str| {
        let found = subject.and_then(|subject| subject.series.iter().find(|series| series.name == name));
        found.map(|course| course.values.clone()).unwrap_or_default()
    };
    let (rates, means) = (course(Some(subject), "statements"), course(Some(subject), "mean_ms"));
    let (p99, busy) = (course(Some(subject), "p99_ms"), course(host, "cpu"));
    let at = |values: &[Option<f64>], cell: usize| values.get(cell).copied().flatten();
    let cells = (0..rates.len()).filter_map(|cell| {
        LoadPoint::of_history(at(&rates, cell)?, at(&means, cell)?, at(&p99, cell), at(&busy, cell))
    });
    Ok(cells.collect())
}

#[derive(Deserialize)]
struct History {
    subjects: Vec<Subject>,
}

#[derive(Deserialize)]
struct Subject {
    kind: String,
    #[serde(default)]
    name: Option<String>,
    series: Vec<Series>,
}

#[derive(Deserialize)]
struct Series {
    name: String,
    values: Vec<Option<f64>>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::{Answer, Entry};
    use crate::load_answer::{self, LoadQuestion};
    use crate::page::Report;
    use crate::prices::Prices;
    use load::outcome::{Generator, Times, Totals};
    use load::workload::Protocol;

    const HISTORY: &str = r#"{"now_s":9.0,"subjects":[
      {"kind":"host","series":[{"name":"cpu","values":[0.2,0.4,null]}]},
      {"kind":"server","name":"db1","series":[{"name":"statements","values":[100,200,null]},
        {"name":"mean_ms","values":[2.0,3.0,1.0]},{"name":"p99_ms","values":[9.0,null,1.0]}]}]}"#;

    #[test]
    fn an_agents_history_gives_cells_that_were_read_whole() {
        let seen = of_agent(HISTORY, None).unwrap();
        assert_eq!(seen.len(), 2);
        assert_eq!((seen[1].per_s, seen[1].at_work, seen[1].busy), (200.0, 0.6, Some(0.4)));
        assert!(matches!(of_agent(HISTORY, Some("db2")), Err(Mistake::UnknownServer)));
        assert!(matches!(of_agent("[]", None), Err(Mistake::NoHistory(_))));
    }

    #[test]
    fn a_history_says_that_its_busy_share_is_of_the_whole_host() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let notes = |history: &str| {
            std::fs::write(file.path(), history).unwrap();
            Source::Agent { file: file.path().to_owned(), server: None }.read().unwrap().notes
        };
        assert!(notes(HISTORY)[0].contains("--cores is taken to be all of its cores"));
        assert_eq!(notes(&HISTORY.replace("\"host\"", "\"other\"")), Vec::<String>::new());
    }

    #[test]
    fn rates_of_a_history_are_statements_and_never_called_transactions() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let cells = |of: fn(f64) -> f64| {
            (1..=20).map(|at| of(f64::from(at)).to_string()).collect::<Vec<_>>().join(",")
        };
        // M/M/1 with 1 ms each, from 30 to 600 a second.
        let (rates, means) = (cells(|at| at * 30.0), cells(|at| 1e3 / (1e3 - at * 30.0)));
        let series = format!(
            r#"[{{"name":"statements","values":[{rates}]}},{{"name":"mean_ms","values":[{means}]}}]"#
        );
        let history = format!(r#"{{"subjects":[{{"kind":"server","name":"db1","series":{series}}}]}}"#);
        std::fs::write(file.path(), history).unwrap();
        let seen = Source::Agent { file: file.path().to_owned(), server: None }.read().unwrap();
        for named in [None, Some(400.0)] {
            let question = LoadQuestion {
                subject: seen.subject.clone(),
                workload: seen.workload.clone(),
                cores: 1,
                baseline: seen.baseline(named),
                growths: vec![1.0],
                cores_then: vec![2],
                objective_ms: None,
                notes: Vec::new(),
            };
            let answer = load_answer::answer(&question, seen.seen.clone());
            let text = answer.text();
            assert!(text.contains("statements/s") && text.contains("statements a second"), "{text}");
            assert!(!text.to_lowercase().contains("transaction"), "{text}");
            let report = Report::new(vec![Entry::of(&answer).unwrap()], &Prices::default(), None);
            let unit = report.purchases[0].unit.clone().unwrap();
            assert!(
                unit.starts_with("times today's") && unit.contains("statements a second of the server"),
                "{unit}"
            );
            assert!(!report.html().contains("transactions a second"), "{}", report.html());
        }
    }

    #[test]
    fn runs_of_another_load_are_not_put_beside_the_newest_ones() {
        let dir = tempfile::tempdir().unwrap();
        let history = dir.path().join("history.sqlite");
        let store = Store::open(&history).unwrap();
        let keep_with =
            |arrivals: Arrivals, clients: u32, protocol: Protocol, idle: u32, not_started: u64| {
                let outcome = Outcome {
                    workload: "shop".to_owned(),
                    options: String::new(),
                    arrivals,
                    protocol,
                    clients,
                    idle,
                    threads: 1,
                    seed: 1,
                    seconds: 10.0,
                    void: Vec::new(),
                    notes: Vec::new(),
                    totals: Totals {
                        per_second: f64::from(clients),
                        arrivals: 1000,
                        not_started,
                        ..Totals::default()
                    },
                    response: Times { mean_ms: 2.0, ..Times::default() },
                    service: None,
                    transactions: Vec::new(),
                    statements: Vec::new(),
                    series: Vec::new(),
                    generator: Generator::default(),
                };
                store.keep(&outcome, "db1", "").unwrap();
            };
        let keep = |arrivals, clients, protocol, idle| keep_with(arrivals, clients, protocol, idle, 0);
        let open = || Arrivals::poisson(100.0);
        keep_with(open(), 64, Protocol::Prepared, 0, 400);
        keep(open(), 8, Protocol::Prepared, 0);
        keep(open(), 64, Protocol::Prepared, 0);
        keep(open(), 64, Protocol::Text, 0);
        keep(open(), 64, Protocol::Prepared, 5000);
        keep(Arrivals::closed(), 2, Protocol::Prepared, 0);
        keep(open(), 64, Protocol::Prepared, 0);
        keep(Arrivals::closed(), 4, Protocol::Prepared, 0);
        let found = Source::Runs { history, last: 20 }.read().unwrap();
        let rates = |closed: bool| {
            found.seen.iter().filter(|one| one.closed == closed).map(|one| one.per_s).collect::<Vec<_>>()
        };
        assert_eq!(rates(false), [64.0, 64.0]);
        assert_eq!(rates(true), [4.0, 2.0], "the law is fitted to different numbers of clients");
        assert!(
            found.notes[0].starts_with("1 of the runs at a rate had another number"),
            "{:?}",
            found.notes
        );
        let full = &found.notes[1];
        assert!(full.starts_with("1 of the runs at a rate left more than 1 % of it unanswered"), "{full}");
    }

    #[test]
    fn trials_that_lost_much_are_left_out() {
        let heading = r#"{"workload":"w","target":"db1","objective":{"quantile":0.99,"within":{"secs":0,"nanos":15000000}}}"#;
        let trial = |lost: u32, mean: f64| {
            format!(r#"{{"rate":100.0,"seconds":1.0,"due":100,"lost":{lost},"mean_ms":{mean},"p99_ms":9.0}}"#)
        };
        let text = [heading.to_owned(), trial(0, 2.0), trial(50, 400.0), trial(0, 0.0)].join("\n");
        let (found, seen) = of_trials(&text).unwrap();
        assert_eq!((found.workload.as_str(), seen.len()), ("w", 1));
        let of = |quantile: &str, lost: u32| {
            let heading = heading.replace("0.99", quantile);
            of_trials(&[heading, trial(lost, 2.0)].join("\n")).unwrap().1.len()
        };
        assert_eq!((of("0.9", 10), of("0.9", 11), of("0.99", 10)), (1, 0, 0), "p90 has a tenth that is late");
        assert_eq!((of("0.999", 1), of("0.999", 2)), (1, 0), "no stricter than for p99");
        // A search that was killed while it wrote.
        assert_eq!(of_trials(&format!("{text}\n{{\"rate\": 1")).unwrap().1.len(), 1);
        assert!(of_trials(&format!("{text}\n{{\"rate\": 1\n")).is_err());
        assert!(of_trials("{}").unwrap_err().to_string().starts_with("line 1: "));
    }

    #[test]
    fn equal_lengths_are_taken_to_wait_less_than_random_ones() {
        let at = |shape: Vec<f64>| LoadPoint { per_s: 10.0, mean_ms: 1.0, shape, ..LoadPoint::default() };
        let (mean, sd) = queue_inputs(&[at(vec![1.0; 10])], 1).variability.unwrap();
        assert!((mean - 0.75).abs() < 1e-9 && sd >= 0.25, "{mean} {sd}");
        assert_eq!(queue_inputs(&[at(Vec::new())], 1).variability, None);
    }
}
