//! More load, or more cores: from what was seen to figures with intervals, or to the reason why there is
//! none.

use crate::baseline::Baseline;
use crate::ledger::{Answer, Kind, Observed, Prediction};
use crate::load_point::{LoadPoint, queue_inputs, responses, throughputs};
use crate::words::{assumed, figure, interval, ms, percent};
use plan::Interval;
use plan::open_law::OpenLaw;
use plan::queue::{EDGE, LOSS_PER_DOUBLING, MODEL_ERROR, Queue};
use plan::scalability::{Scalability, Unfit};
use serde::{Deserialize, Serialize};
use std::fmt::Write;
use term::Table;

/// Of intervals.
pub const LEVEL: f64 = 0.95;
/// The largest throughput is told where this share of its concurrency was seen: before that the curve may
/// bend elsewhere.
const PEAK_SEEN: f64 = 0.7;

/// What is asked.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadQuestion {
    /// Whose load: server or target, in words.
    pub subject: String,
    /// What is sent, in words.
    pub workload: String,
    /// Cores that the server may use.
    pub cores: u32,
    /// Growth is counted from it.
    pub baseline: Baseline,
    /// How many times the baseline.
    pub growths: Vec<f64>,
    /// Other numbers of cores.
    pub cores_then: Vec<u32>,
    /// p99 must be shorter, ms.
    pub objective_ms: Option<f64>,
    /// What to know beside the figures.
    pub notes: Vec<String>,
}

/// What is predicted at a rate on a number of cores; refused with the reason where that is not sound.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AtLoad {
    /// How many times the baseline.
    pub growth: f64,
    /// In the unit of the baseline, as all rates of the answer.
    pub per_s: f64,
    pub cores: u32,
    /// Share of the cores.
    pub busy: Interval,
    pub mean_ms: Option<Interval>,
    pub p99_ms: Option<Interval>,
    /// Why a figure is missing.
    pub refused: Option<String>,
}

/// A number of cores.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WithCores {
    pub cores: u32,
    /// The rate at which all cores are busy.
    pub saturation: Interval,
    /// The largest rate whose p99 meets the objective as far as the model may say: estimate, and the rate at
    /// which the unfavourable end of the p99 does.
    pub within_objective: Option<(f64, f64)>,
    /// The model ends at the first of these rates, and the p99 still meets the objective there: the largest
    /// rate that meets it is not known.
    #[serde(default)]
    pub model_ends_there: bool,
}

/// The scalability law.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Law {
    /// The rate of one at work; contention; coherency.
    pub parameters: [Interval; 3],
    /// The most, and at how many at work; `None` where no limit is in sight.
    pub most: Option<(Interval, f64)>,
    /// (at work, a second) for a chart.
    pub curve: Vec<(f64, Interval)>,
    /// Scatter as a share.
    pub scatter: f64,
    /// Whether it is from open loops: response times at rates, in place of throughput with a number of
    /// clients.
    #[serde(default)]
    pub open: bool,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadAnswer {
    pub subject: String,
    pub workload: String,
    pub cores: u32,
    /// Growth is counted from it.
    pub baseline: Baseline,
    pub objective_ms: Option<f64>,
    pub seen: Vec<LoadPoint>,
    /// CPU of a transaction, or statement, ms; `None` when the queue was refused.
    pub demand_ms: Option<Interval>,
    pub queue_refused: Option<String>,
    pub rows: Vec<AtLoad>,
    pub by_cores: Vec<WithCores>,
    pub law: Option<Law>,
    pub law_refused: Option<String>,
    pub assumptions: Vec<String>,
}

/// Answers.
pub fn answer(question: &LoadQuestion, seen: Vec<LoadPoint>) -> LoadAnswer {
    let queue = Queue::new(&responses(&seen), queue_inputs(&seen, question.cores), LEVEL);
    let law = law(&seen);
    let mut numbers = vec![question.cores];
    numbers.extend(question.cores_then.iter().copied().filter(|cores| *cores != question.cores));
    let (mut rows, mut by_cores) = (Vec::new(), Vec::new());
    if let Ok(queue) = &queue {
        // Without an open loop there is no rate to grow from.
        let growths = question.growths.iter().filter(|_| question.baseline.per_s.estimate > 0.0);
        for cores in &numbers {
            rows.extend(growths.clone().map(|growth| at_load(queue, question, *growth, *cores)));
            let within = question.objective_ms.and_then(|limit| within(queue, *cores, limit));
            by_cores.push(WithCores {
                cores: *cores,
                saturation: queue.saturation(*cores),
                within_objective: within.map(|(rates, _)| rates),
                model_ends_there: within.is_some_and(|(_, model_ends)| model_ends),
            });
        }
    }
    LoadAnswer {
        subject: question.subject.clone(),
        workload: question.workload.clone(),
        cores: question.cores,
        baseline: question.baseline,
        objective_ms: question.objective_ms,
        demand_ms: queue.as_ref().ok().map(|queue| ms(&queue.demand_s())),
        queue_refused: queue.err().map(|why| why.to_string()),
        rows,
        by_cores,
        assumptions: question.notes.iter().cloned().chain(assumptions(&seen, law.as_ref().ok())).collect(),
        law_refused: law.as_ref().err().cloned(),
        law: law.ok(),
        seen,
    }
}

/// From closed loops, where there are enough; else from what open ones tell. The first look of a ladder is a
/// closed loop, too, and tells no law.
fn law(seen: &[LoadPoint]) -> Result<Law, String> {
    let too_few = match Scalability::new(&throughputs(seen), LEVEL) {
        Err(why @ Unfit::TooFew { .. }) => why,
        law => return law.map(|law| law_of(&law)).map_err(|why| why.to_string()),
    };
    let law = OpenLaw::new(&responses(seen), LEVEL).map(|law| law_of_open(&law));
    let all_closed = !seen.is_empty() && seen.iter().all(|one| one.closed);
    law.map_err(|why| if all_closed { too_few.to_string() } else { why.to_string() })
}

fn assumptions(seen: &[LoadPoint], law: Option<&Law>) -> Vec<String> {
    let mut all = vec![
        "The workload stays the same mix: only its rate grows.".to_owned(),
        "CPU is what runs out. A disk, a lock or the network that runs out first is not in this model."
            .to_owned(),
        format!(
            "The queueing approximation may be wrong by {:.0} % of the wait; that is in the intervals.",
            MODEL_ERROR * 100.0
        ),
        format!(
            "Each doubling of cores may be worth {:.0} % less than twice; that is in the intervals.",
            LOSS_PER_DOUBLING * 100.0
        ),
        format!("Nothing but the saturation is predicted above {:.0} % of the cores busy.", EDGE * 100.0),
    ];
    if law.is_some_and(|law| law.open) {
        all.push(
            "What is sent comes independently of each other; where it comes in bursts, the law takes that for contention."
                .to_owned(),
        );
    }
    if seen.iter().all(|one| one.busy.is_none()) {
        all.push(
            "How busy the cores were was not measured; it is derived from response times, and is less sure."
                .to_owned(),
        );
    }
    all
}

fn at_load(queue: &Queue, question: &LoadQuestion, growth: f64, cores: u32) -> AtLoad {
    let per_s = question.baseline.per_s.estimate * growth;
    let (mean, p99) = (queue.mean_s(per_s, cores), queue.quantile_s(0.99, per_s, cores));
    let refused = mean.as_ref().err().or(p99.as_ref().err()).map(ToString::to_string);
    AtLoad {
        growth,
        per_s,
        cores,
        busy: queue.busy(per_s, cores),
        mean_ms: mean.ok().map(|mean| ms(&mean)),
        p99_ms: p99.ok().map(|p99| ms(&p99)),
        refused,
    }
}

/// The largest rates at which the p99, and its unfavourable end, meet the objective; and whether it is the
/// model that ends at the first.
fn within(queue: &Queue, cores: u32, limit_ms: f64) -> Option<((f64, f64), bool)> {
    // The p99 grows with the rate, and beyond the edge there is none: a bisection.
    let largest = |meets: &dyn Fn(&Interval) -> bool| {
        let holds = |rate: f64| queue.quantile_s(0.99, rate, cores).is_ok_and(|p99| meets(&ms(&p99)));
        let (mut low, mut high) = (0.0, queue.saturation(cores).estimate);
        for _ in 0..9 {
            let middle = f64::midpoint(low, high);
            if holds(middle) { low = middle } else { high = middle }
        }
        let model_ends = queue.quantile_s(0.99, high, cores).is_err();
        (low > 0.0).then_some((low, model_ends))
    };
    let (rate, model_ends) = largest(&|p99| p99.estimate <= limit_ms)?;
    let sure = largest(&|p99| p99.high <= limit_ms).map_or(0.0, |(rate, _)| rate);
    Some(((rate, sure), model_ends))
}

fn law_of(law: &Scalability) -> Law {
    let most = law.most();
    let reach = plan::scalability::REACH * law.most_seen;
    let points = (1..=40).map(|at| reach * f64::from(at) / 40.0);
    Law {
        parameters: law.parameters(),
        most: (most.high.is_finite() && law.most_seen >= PEAK_SEEN * law.best_concurrency().estimate)
            .then(|| (most, law.best_concurrency().estimate))
            .filter(|(_, at)| at.is_finite()),
        curve: points.filter_map(|at| Some((at, law.throughput(at)?))).collect(),
        scatter: law.scatter,
        open: false,
    }
}

fn law_of_open(law: &OpenLaw) -> Law {
    let reach = plan::scalability::REACH * law.most_at_work;
    let points = (1..=40).map(|at| reach * f64::from(at) / 40.0).filter(|at| *at >= 1.0);
    Law {
        parameters: law.parameters(),
        most: law.most(),
        curve: points.map(|at| (at, law.throughput(at))).collect(),
        scatter: law.scatter,
        open: true,
    }
}

impl LoadAnswer {
    /// That something else than the cores ends the load, where both models tell it.
    pub fn ends_before_the_cores(&self) -> Option<String> {
        let (most, _) = self.law.as_ref()?.most?;
        let full = self.by_cores.iter().find(|with| with.cores == self.cores)?.saturation;
        (most.high < full.low).then(|| {
            format!(
                "By the law it ends at {} {} a second, and the cores are full at {} only: something else runs out first, and more cores buy little; headroom watch names it under load",
                interval(&most),
                self.baseline.unit.many(),
                interval(&full)
            )
        })
    }

    /// Why no rate is named that meets the objective: none does, or nobody can tell.
    pub fn without_objective(&self, limit_ms: f64) -> String {
        let limit = figure(limit_ms);
        match self.seen.iter().any(|one| !one.closed && !one.shape.is_empty()) {
            true => format!("p99 < {limit} ms at no rate, however low"),
            false => format!("whether p99 < {limit} ms is not known without a histogram of response times"),
        }
    }

    /// Whether anything is predicted.
    pub fn says_something(&self) -> bool {
        self.demand_ms.is_some() || self.law.is_some()
    }
}

impl Answer for LoadAnswer {
    fn about(&self) -> (Kind, String, String) {
        (Kind::Load, self.subject.clone(), self.workload.clone())
    }

    fn predictions(&self) -> Vec<Prediction> {
        let mut all = Vec::new();
        for row in &self.rows {
            for (what, value) in [("mean_ms", row.mean_ms), ("p99_ms", row.p99_ms)] {
                all.extend(value.map(|value| Prediction {
                    model: "queue".to_owned(),
                    what: what.to_owned(),
                    at: row.per_s,
                    cores: Some(row.cores),
                    value,
                    level: LEVEL,
                }));
            }
        }
        all
    }

    fn observed(&self) -> Vec<Observed> {
        let figures = |one: &LoadPoint| {
            let (at, cores) = (one.per_s, Some(self.cores));
            let of = |what: &str, value| Observed { what: what.to_owned(), at, cores, value };
            let mut all = vec![of("mean_ms", one.mean_ms)];
            all.extend(one.p99_ms.map(|p99| of("p99_ms", p99)));
            all
        };
        self.seen.iter().filter(|one| !one.closed).flat_map(figures).collect()
    }

    fn assumptions(&self) -> Vec<String> {
        self.assumptions.clone()
    }

    fn is_good(&self) -> bool {
        self.says_something()
    }

    fn text(&self) -> String {
        let unit = self.baseline.unit.many();
        let mut text = format!(
            "{} on {}, {} core(s): {} observations\n",
            self.workload,
            self.subject,
            self.cores,
            self.seen.len()
        );
        if let Some(demand) = &self.demand_ms {
            let one = self.baseline.unit.one();
            let _ = writeln!(text, "A {one} takes {} ms of a core.\n", interval(demand));
        }
        if let Some(why) = &self.queue_refused {
            let _ = writeln!(text, "No prediction of response times: {why}.\n");
        }
        if !self.rows.is_empty() {
            let mut table = Table::new(&[
                ">cores",
                ">growth",
                &format!(">{unit}/s"),
                ">busy",
                ">mean ms",
                ">p99 ms",
                "not predicted, because",
            ]);
            for row in &self.rows {
                let or = |value: &Option<Interval>| value.as_ref().map_or_else(|| "-".to_owned(), interval);
                table.row(vec![
                    row.cores.to_string(),
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
        }
        for with in &self.by_cores {
            let _ = write!(
                text,
                "{} core(s) are full at {} {unit} a second",
                with.cores,
                interval(&with.saturation)
            );
            if let Some(times) = self.baseline.times(&with.saturation) {
                let _ = write!(text, ", {} times today's load", interval(&times));
            }
            if let Some(limit) = self.objective_ms {
                let _ = match with.within_objective {
                    Some((rate, sure)) => write!(
                        text,
                        "; p99 < {} ms up to {} a second (surely up to {}){}",
                        figure(limit),
                        figure(rate),
                        figure(sure),
                        if with.model_ends_there {
                            ", where the model ends: more may meet it, too"
                        } else {
                            ""
                        }
                    ),
                    None => write!(text, "; {}", self.without_objective(limit)),
                };
            }
            text.push('\n');
        }
        match (&self.law, &self.law_refused) {
            (Some(law), _) => {
                let [one, contention, coherency] = &law.parameters;
                let _ = writeln!(
                    text,
                    "\nScalability law{}: {} {unit} a second of one at work; contention {}; coherency {} (no unit)",
                    if law.open { ", from response times at these rates" } else { "" },
                    interval(one),
                    interval(contention),
                    interval(coherency)
                );
                let _ = match &law.most {
                    Some((most, at)) => writeln!(
                        text,
                        "The most it gets done: {} {unit} a second, with {} at work",
                        interval(most),
                        figure(*at)
                    ),
                    None if law.open => writeln!(
                        text,
                        "Where it ends cannot be told from these rates: they are too low. headroom measure --trials sends up to what it carries, headroom plan ladder --clients 1,2,4,8,16 fixes how many are at work."
                    ),
                    None => writeln!(text, "Where it ends is not in sight within what was seen."),
                };
                text += &self.ends_before_the_cores().map(|why| why + ".\n").unwrap_or_default();
            }
            (None, Some(why)) => {
                let _ = writeln!(text, "\nNo scalability law: {why}.");
            }
            (None, None) => {}
        }
        text += &assumed(&self.assumptions);
        text += "Intervals are 95 %.\n";
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plan::queue::mean_wait;

    fn seen(rate: f64, noise: f64) -> LoadPoint {
        let mean_ms = 1e3 * (0.002 + mean_wait(rate, 0.002, 2)) * noise;
        let shape = (0..100).map(|at| -2.0 * (1.0 - (f64::from(at) + 0.5) / 100.0).ln()).collect();
        LoadPoint {
            per_s: rate,
            mean_ms,
            at_work: rate * mean_ms / 1e3,
            busy: Some(rate * 0.001 * noise),
            shape,
            ..LoadPoint::default()
        }
    }

    fn question() -> LoadQuestion {
        LoadQuestion {
            subject: "db1".into(),
            workload: "oltp_read_only".into(),
            cores: 2,
            baseline: Baseline::named(400.0),
            growths: vec![1.0, 1.5, 3.0],
            cores_then: vec![4],
            objective_ms: Some(20.0),
            notes: Vec::new(),
        }
    }

    fn ladder() -> Vec<LoadPoint> {
        let rates = [100.0, 200.0, 300.0, 400.0, 500.0];
        rates.iter().flat_map(|rate| [seen(*rate, 1.01), seen(*rate, 0.99)]).collect()
    }

    #[test]
    fn growth_is_predicted_with_an_interval_and_refused_near_the_edge() {
        let answer = answer(&question(), ladder());
        assert!(answer.rows[1].p99_ms.is_some(), "{}", answer.text());
        assert!(
            answer.rows[2].mean_ms.is_none() && answer.rows[2].refused.as_ref().unwrap().contains("busy")
        );
        let four = answer.rows.iter().find(|row| row.cores == 4 && row.growth == 3.0).unwrap();
        assert!(four.mean_ms.is_some(), "four cores carry what two do not");
        let full = answer.by_cores[0].saturation;
        assert!(full.low < 1000.0 && 1000.0 < full.high, "{full:?}");
        assert!(!answer.predictions().is_empty());
        assert!(answer.text().contains("2 core(s) are full at"), "{}", answer.text());
    }

    #[test]
    fn an_objective_that_no_rate_meets_or_that_nobody_can_judge_is_said() {
        let asked = LoadQuestion { objective_ms: Some(0.5), ..question() };
        let text = answer(&asked, ladder()).text();
        assert!(text.contains("; p99 < 0.500 ms at no rate, however low"), "{text}");
        let without = |one: LoadPoint| LoadPoint { shape: Vec::new(), ..one };
        let text = answer(&asked, ladder().into_iter().map(without).collect()).text();
        assert!(text.contains("whether p99 < 0.500 ms is not known") && !text.contains("no rate"), "{text}");
    }

    #[test]
    fn a_loose_objective_ends_where_the_model_does_and_that_is_said() {
        let of = |limit| answer(&LoadQuestion { objective_ms: Some(limit), ..question() }, ladder());
        let (loose, strict) = (of(2000.0), of(20.0));
        let (rate, _) = loose.by_cores[0].within_objective.unwrap();
        assert!(loose.by_cores[0].model_ends_there && (rate - 850.0).abs() < 50.0, "{rate}");
        assert!(loose.text().contains(", where the model ends: more may meet it"), "{}", loose.text());
        let (rate, _) = strict.by_cores[0].within_objective.unwrap();
        assert!(!strict.by_cores[0].model_ends_there && rate < 820.0, "{rate}");
        let four =
            strict.text().lines().find(|line| line.contains("where the model ends")).map(str::to_owned);
        assert!(four.is_some_and(|line| line.starts_with("4 core(s)")), "{}", strict.text());
    }

    #[test]
    fn an_answer_is_read_back_from_what_was_kept() {
        let answer = answer(&question(), ladder());
        let json = serde_json::to_string(&answer).unwrap();
        let back: LoadAnswer = serde_json::from_str(&json).unwrap();
        assert_eq!(back.rows.len(), answer.rows.len());
    }

    #[test]
    fn without_todays_load_the_highest_rate_sent_is_named_and_no_multiple_of_today() {
        let baseline = Baseline::highest_sent(&ladder());
        let text = answer(&LoadQuestion { baseline, ..question() }, ladder()).text();
        assert!(text.contains("the highest rate sent, 500 transactions a second"), "{text}");
        assert!(text.contains("Today's load is not known") && !text.contains("times today's"), "{text}");
        let known = answer(&question(), ladder()).text();
        assert!(known.contains("times today's load") && known.contains("by --current"), "{known}");
    }

    /// Open loops before something that one transaction at a time may have, and cores that have room.
    fn behind_a_lock(share: f64) -> Vec<LoadPoint> {
        let at = |at: u32| {
            let per_s = share * 500.0 * (0.2 + 0.8 * f64::from(at / 2) / 7.0);
            // M/M/1 with 2 ms each; 0.2 ms of that are on one of two cores.
            let mean_ms = 1e3 / (500.0 - per_s) * [1.01, 0.99][at as usize % 2];
            let (busy, at_work) = (Some(per_s * 0.0001), per_s * mean_ms / 1e3);
            LoadPoint { per_s, mean_ms, at_work, busy, ..LoadPoint::default() }
        };
        (0..16).map(at).collect()
    }

    #[test]
    fn the_law_of_open_loops_says_what_ends_before_the_cores() {
        let answer = answer(&question(), behind_a_lock(0.9));
        let law = answer.law.as_ref().unwrap();
        let (most, _) = law.most.unwrap();
        assert!(law.open && most.low <= 500.0 && 500.0 <= most.high && most.high < 600.0, "{most:?}");
        assert!(answer.assumptions.iter().any(|one| one.contains("bursts")), "{:?}", answer.assumptions);
        let json = serde_json::to_string(&answer).unwrap();
        assert_eq!(serde_json::from_str::<LoadAnswer>(&json).unwrap().law.unwrap().most, law.most);
    }

    #[test]
    fn the_first_look_of_a_ladder_does_not_hide_what_its_rates_tell() {
        let look = LoadPoint { closed: true, ..seen(400.0, 1.0) };
        let all = std::iter::once(look.clone()).chain(behind_a_lock(0.9)).collect();
        let found = answer(&question(), all);
        assert!(found.law.as_ref().is_some_and(|law| law.open), "{:?}", found.law_refused);
        let alone = answer(&question(), vec![look; 3]).law_refused.unwrap();
        assert!(alone.starts_with("3 observations at 1 concurrencies are too few"), "{alone}");
    }

    #[test]
    fn low_rates_tell_no_end_and_what_to_run_instead() {
        let text = answer(&question(), behind_a_lock(0.3)).text();
        assert!(
            text.contains("Where it ends cannot be told") && text.contains("--clients 1,2,4,8,16"),
            "{text}"
        );
    }

    #[test]
    fn too_little_is_refused_in_words() {
        let answer = answer(&question(), vec![seen(100.0, 1.0); 3]);
        assert!(!answer.says_something());
        assert!(answer.queue_refused.unwrap().contains("too few"));
    }
}
