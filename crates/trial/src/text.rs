//! What people read of an experiment in the terminal.

use crate::compare::{Compared, Comparison, Comparisons, Drift};
use crate::cost::{self, Reach};
use crate::effects::{FactorStanding, Mixture};
use crate::halving::Stage;
use crate::order::{self, Run};
use crate::report::{CellReport, LoadReport, Report, Standing, Winner};
use crate::run::{Event, Experiment};
use crate::schedule;
use crate::spec::{Kind, Metric, Point, Spec, is_of_this_machine};
use crate::store::Outcome;
use crate::verdict::Verdict;
use serde::Serialize;
use std::time::Duration;
use term::Table;

/// A plan lists this many cells, and as many of a block.
const MOST_LISTED: usize = 24;
/// With fewer blocks in the first stage a factor that takes a restart is not judged, see `effects.rs`.
const LEAST_RESTARTS: u32 = 3;
/// Cells that did not come to the last stage are listed up to this many.
const MOST_DROPPED: usize = 12;

/// What an experiment would run.
#[derive(Debug, Serialize)]
pub struct Plan {
    name: String,
    metric: Metric,
    /// Of the baseline: knob and value.
    baseline: Vec<(String, String)>,
    /// Of each cell, in what it differs.
    cells: Vec<String>,
    excluded: usize,
    /// What the design does not tell apart, and what the metric does not say of these loads.
    #[serde(skip_serializing_if = "Option::is_none")]
    warning: Option<String>,
    loads: Vec<String>,
    stages: Vec<Stage>,
    /// The first block.
    order: Vec<String>,
    trials: usize,
    minutes: f64,
    budget_minutes: Option<f64>,
    /// Whether it fits into the budget.
    pub fits: bool,
    noise: f64,
    smallest_effect: f64,
    reach: Option<Reach>,
}

impl Plan {
    /// Costs it, with so much noise in a trial.
    pub fn of(experiment: &Experiment, noise: f64) -> Self {
        let Experiment { spec, design, possible, .. } = experiment;
        let stages = schedule::stages(spec, possible.len());
        let points = spec.load.points();
        let progress = schedule::progress(spec, design, possible, &[]);
        let mut seed = [0; 32];
        seed[..8].copy_from_slice(&spec.seed.to_le_bytes());
        let mut rng = <rand::rngs::StdRng as rand::SeedableRng>::from_seed(seed);
        let order = order::block(&design.cells, possible, &spec.factors, &design.baseline, &mut rng);
        let restarts = order::restarts(&order, &design.cells, &spec.factors, &design.baseline);
        let (trials, time) = cost::cost(&stages, &spec.timing, points.len() as u32, restarts as u32);
        debug_assert_eq!(trials, progress.left);
        let reach =
            stages.last().and_then(|last| cost::reach(noise, last.blocks, last.cells as u32, spec.level));
        let baseline =
            spec.factors.iter().map(|factor| (factor.knob.clone(), factor.levels[factor.baseline].clone()));
        Self {
            name: spec.name.clone(),
            metric: spec.metric,
            baseline: baseline.collect(),
            cells: possible.iter().map(|cell| experiment.words(Run::Cell(*cell))).collect(),
            excluded: design.excluded,
            warning: warning(spec, stages.first().map_or(0, |first| first.blocks)),
            loads: points.iter().map(|point| point.words()).collect(),
            stages,
            order: order.into_iter().map(|run| experiment.words(run)).collect(),
            trials,
            minutes: time.as_secs_f64() / 60.0,
            budget_minutes: spec.budget.map(|budget| budget.as_secs_f64() / 60.0),
            fits: spec.budget.is_none_or(|budget| time <= budget),
            noise,
            smallest_effect: spec.smallest_effect,
            reach,
        }
    }

    /// For people.
    pub fn text(&self) -> String {
        let mut text = format!("{}: {}\n\nBaseline\n", self.name, self.metric.words());
        for (knob, value) in &self.baseline {
            text.push_str(&format!("  {knob} = {value}\n"));
        }
        text.push_str(if self.cells.len() == 1 { "Cell" } else { "Cells" });
        if self.excluded > 0 {
            text.push_str(&format!(" ({} more are excluded)", self.excluded));
        }
        text.push('\n');
        for cell in self.cells.iter().take(MOST_LISTED) {
            text.push_str(&format!("  {cell}\n"));
        }
        if let Some(more @ 1..) = self.cells.len().checked_sub(MOST_LISTED) {
            text.push_str(&format!("  and {more} more: --json lists all\n"));
        }
        if let Some(warning) = &self.warning {
            text.push_str(&format!("Warning: {warning}\n"));
        }
        text.push_str(&format!("Loads\n  {}\nStages\n", self.loads.join("\n  ")));
        for Stage { cells, blocks } in &self.stages {
            text.push_str(&format!(
                "  {cells} cells in {blocks} blocks, each with 2 baselines and an A/A cell\n"
            ));
        }
        let order: Vec<&str> = self.order.iter().take(MOST_LISTED).map(String::as_str).collect();
        let more = if self.order.len() > MOST_LISTED { "\n  ..." } else { "" };
        text.push_str(&format!("A block, in the order of such a seed\n  {}{more}\n", order.join("\n  ")));
        text.push_str(&format!("Cost\n  {} trials, {:.0} minutes at most", self.trials, self.minutes));
        match (self.budget_minutes, self.fits) {
            (None, _) => text.push('\n'),
            (Some(budget), true) => text.push_str(&format!(" (budget: {budget:.0})\n")),
            (Some(budget), false) => text.push_str(&format!(
                "\n  That does NOT fit into the budget of {budget:.0} minutes: it would end before its last \
                 stage is complete. Take fewer levels or shorter trials.\n"
            )),
        }
        if let Some(Reach { half_width, found }) = self.reach {
            text.push_str(&format!(
                "Power, if a trial has {:.1} % of noise\n  an effect of {:.1} % is found in nine of ten cases; \
                 intervals reach {:.1} % to either side\n",
                self.noise * 100.0,
                found * 100.0,
                half_width * 100.0
            ));
            if found > self.smallest_effect * 1.001 {
                text.push_str(&format!(
                    "  The smallest effect of interest is {:.1} %: smaller ones may stay undecided.\n",
                    self.smallest_effect * 100.0
                ));
            }
        }
        text
    }
}

/// What to know of a spec before it is run; `blocks` has its first stage.
fn warning(spec: &Spec, blocks: u32) -> Option<String> {
    let of_loads = spec.load.points().into_iter().find_map(|point| not_said(spec.metric, point));
    let restarts = spec.factors.iter().any(|factor| factor.whole_plot) && spec.design != Kind::OneAtATime;
    let too_few = (restarts && blocks < LEAST_RESTARTS).then_some(
        "factors that take a restart are judged by their restarts, one a block, and the first stage has too \
         few: they get no verdict of their own. Write a first [[stage]] with blocks = 3.",
    );
    let all = [not_told_apart(spec), too_few, of_loads].into_iter().flatten().map(str::to_owned);
    let all: Vec<String> = all.chain(few_slow_ones(spec)).collect();
    (!all.is_empty()).then(|| all.join(" "))
}

/// A p99 that fewer transactions than this are beyond is theirs, and chance decides which they are.
const BEYOND_P99: f64 = 10.0;

/// That the lowest rate sends too few transactions for a p99.
fn few_slow_ones(spec: &Spec) -> Option<String> {
    let lowest = spec.load.rates.iter().copied().min_by(f64::total_cmp)?;
    let (measure, needed) = (spec.timing.measure.as_secs_f64(), BEYOND_P99 * 100.0);
    let few = spec.metric == Metric::P99 && lowest * measure < needed;
    few.then(|| {
        format!(
            "{:.0} transactions, which {lowest} a second for {measure} s are, have a p99 that rests on the few \
             slowest ones and differs from run to run by chance: let measure in [timing] be {:.0} s or more, or \
             send more.",
            lowest * measure,
            (needed / lowest).ceil()
        )
    })
}

/// What a metric does not say of a load.
fn not_said(metric: Metric, point: Point) -> Option<&'static str> {
    match (metric, point.rate) {
        (Metric::P99, None) => Some(
            "the p99 of a closed loop is that of the load which the cell itself lets through: one that \
             answers faster is sent more. Compare the transactions a second beside it, or judge p99 at rates \
             = [...].",
        ),
        (Metric::Throughput, Some(_)) => Some(
            "the throughput of an open loop is the rate that is sent, for every cell that keeps up: cells \
             seem equivalent. Judge it by metric = \"p99\", or throughput with threads = [...].",
        ),
        _ => None,
    }
}

/// What the cells of a design do not tell apart: half of those of few factors, and Plackett-Burman's without
/// their swapped ones.
fn not_told_apart(spec: &Spec) -> Option<&'static str> {
    match (spec.design, spec.factors.len()) {
        (Kind::Half, 0..=3) => Some(
            "half of the cells of fewer than four factors does not tell a factor from the pair of the others: \
             factors get no figure of their own. Take kind = \"full\".",
        ),
        (Kind::Half, 4) => Some(
            "half of the cells of four factors does not tell a pair of factors from the pair of the other two: \
             pairs get no figure. Take kind = \"full\" to see them.",
        ),
        // Of two factors it has every combination.
        (Kind::PlackettBurman { folded: false }, 3..) => Some(
            "plackett-burman with folded = false does not tell a factor from pairs of the others: what two \
             factors do together is mixed into the figures of a third. Leave folded = false out, or take kind = \
             \"full\".",
        ),
        _ => None,
    }
}

/// `12 min`.
pub fn length(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..=119 => format!("{seconds} s"),
        seconds @ 120..=7_199 => format!("{} min", seconds / 60),
        seconds => format!("{:.1} h", seconds as f64 / 3_600.0),
    }
}

/// How an experiment goes, in a line.
pub fn event(experiment: &Experiment, event: &Event<'_>) -> String {
    match event {
        Event::Begins { next, left, time_left } => {
            let place = &next.place;
            format!(
                "{left} left, {}: stage {} block {}: {}",
                length(*time_left),
                place.stage + 1,
                place.block + 1,
                experiment.words(next.run)
            )
        }
        Event::Over(trial) => format!("  {}", outcome(experiment.spec.metric, &trial.outcome)),
        Event::Unanswered { why, left } => {
            format!("  no answer: {why}; waiting for the server, {:.0} s at most", left.as_secs_f64())
        }
        Event::LeadIn => "  a lead-in first, which is not counted".to_owned(),
        Event::Again => "  it answers again, and everything is back: the same trial once more".to_owned(),
        Event::Returning => "the baseline once more: is everything as it was?".to_owned(),
    }
}

/// What came of a trial, in a line.
pub fn outcome(metric: Metric, outcome: &Outcome) -> String {
    match outcome {
        Outcome::Measured(measured) => {
            let unsteady = match measured.steady {
                Some(true) => "",
                Some(false) => "; the warm-up did not become steady",
                None => "; too few transactions to tell whether the warm-up became steady",
            };
            let unit = match metric {
                Metric::Throughput => "a second",
                Metric::P99 => "ms at p99",
            };
            format!("{:.1} {unit}{unsteady}", measured.figure)
        }
        Outcome::Refused { why } => format!("refused, not counted: {why}"),
        Outcome::GivenUp { why } => format!("given up: {why}"),
        Outcome::Void { why, .. } => format!("void: {why}"),
    }
}

/// What is said of a cell.
pub fn standing(standing: &Standing) -> String {
    match standing {
        Standing::Judged { verdict } => verdict_word(*verdict).to_owned(),
        Standing::Dropped { stage } => format!("dropped after stage {}", stage + 1),
        Standing::Refused { why } => format!("refused: {why}"),
        Standing::GivenUp { why } => format!("given up: {why}"),
        Standing::TooFew => "too few figures".to_owned(),
        Standing::UnderWay => "not over yet".to_owned(),
    }
}

fn verdict_word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Better => "better",
        Verdict::Worse => "worse",
        Verdict::Equivalent => "equivalent",
        Verdict::Undecided => "undecided",
    }
}

/// What is said of a factor.
pub fn factor_standing(standing: &FactorStanding) -> &'static str {
    match standing {
        FactorStanding::Judged { verdict, .. } => verdict_word(*verdict),
        FactorStanding::TooFewRestarts => "too few restarts to judge",
    }
}

/// How the winner is confirmed: blocks of a single stage are those by which it was chosen.
pub fn confirmed(report: &Report) -> &'static str {
    if report.stages.len() > 1 { "Confirmed on fresh blocks" } else { "Confirmed" }
}

/// The winner's interval, and what it allows for.
pub fn winner_range(winner: &Winner) -> String {
    let Winner { ratio, confidence, compared, .. } = winner;
    let of = if *compared > 1 { format!(" for the best of {compared} cells") } else { String::new() };
    format!("{:.0} %{of}: {} to {}", confidence * 100.0, percent(ratio.low), percent(ratio.high))
}

/// What is said of a load whose trials are over, and that has no winner.
pub fn no_winner(load: &LoadReport) -> &'static str {
    if load.is_compared() {
        "No cell is confirmed better than the baseline."
    } else {
        "No cell was compared with the baseline: why stands beside each."
    }
}

/// The settings of a cell.
pub fn settings(settings: &[(String, String)]) -> String {
    settings.iter().map(|(knob, value)| format!("{knob}={value}")).collect::<Vec<_>>().join(" ")
}

/// `+12.3 %`.
pub fn percent(ratio: f64) -> String {
    format!("{:+.1} %", (ratio - 1.0) * 100.0)
}

/// Everything to know before any figure.
pub fn warnings(report: &Report, load: &LoadReport) -> Vec<String> {
    let mut all = Vec::new();
    if load.void {
        all.push(
            "VOID: the A/A cell, which is the baseline, differs from it. Something else than settings has \
             changed; nothing here counts."
                .to_owned(),
        );
    }
    let here = report.baseline.iter().map(|(knob, _)| knob.as_str()).filter(|knob| is_of_this_machine(knob));
    let here: Vec<&str> = here.collect();
    if report.elsewhere && !here.is_empty() {
        all.push(format!(
            "{}: set on the machine that sent the load, and the server is on another one; what is said of \
             that is not of the server",
            here.join(", ")
        ));
    }
    if !report.ended {
        all.push(format!("not over: {} trials are left, nothing is judged yet", report.left));
    } else if !report.complete {
        all.push(
            "the budget was over before all trials were run: what is said is of fewer blocks".to_owned(),
        );
    }
    if report.ended && load.is_compared() && load.same.is_none() {
        all.push(
            "the A/A cell has too few figures: whether something else than settings has changed meanwhile is not \
             known"
                .to_owned(),
        );
    }
    if load.back_differs {
        let back = load.back.map(percent).unwrap_or_default();
        all.push(format!(
            "after everything the baseline was {back} from before, outside of its range: a setting may have left \
             something behind"
        ));
    }
    if report.differ.is_some() && load.baseline.is_some() && load.back.is_none() {
        all.push(
            "after everything the baseline could not be measured once more: whether a setting has left \
             something behind is not known"
                .to_owned(),
        );
    }
    all.extend(not_said(report.metric, load.point).map(str::to_owned));
    if load.unsteady > 0 {
        all.push(format!(
            "{} trials were measured although their warm-up did not become steady",
            load.unsteady
        ));
    }
    if load.undetermined > 0 {
        all.push(format!(
            "{} trials were measured after a warm-up that had too few transactions to tell whether it became \
             steady: a longer warm_up in [timing] tells",
            load.undetermined
        ));
    }
    if !load.void_trials.is_empty() {
        all.push(format!("{} trials were void and do not count", load.void_trials.len()));
    }
    all
}

/// What is said of an experiment that was cut off behind its last trial: the settings were put back by
/// whoever ended it, and nobody has compared them.
pub fn not_looked_at(report: &Report) -> Option<&'static str> {
    (report.ended && report.differ.is_none()).then_some(
        "it was cut off behind its last trial: whether every setting is as it was is not known; headroom trial \
         run --resume looks at them",
    )
}

/// The report for a terminal.
pub fn report(report: &Report) -> String {
    let mut text = format!(
        "{}: {} on {}, {} trials in {}\n",
        report.name,
        report.metric.words(),
        report.server,
        report.trials,
        length(Duration::from_secs_f64(report.seconds.max(0.0)))
    );
    for (what, words) in &report.setup {
        text.push_str(&format!("{what}: {words}\n"));
    }
    for (knob, then, now) in report.differ.iter().flatten() {
        text.push_str(&format!("WARNING: {knob} was {then} and is {now}\n"));
    }
    if let Some(words) = not_looked_at(report) {
        text.push_str(&format!("WARNING: {words}\n"));
    }
    for level in &report.refused {
        text.push_str(&format!("refused, not tried: {}={}: {}\n", level.knob, level.level, level.why));
    }
    for load in &report.loads {
        text.push_str(&format!("\n{}\n", load.words));
        for warning in warnings(report, load) {
            text.push_str(&format!("  {warning}\n"));
        }
        if let (Some(baseline), Some((low, high))) = (load.baseline, load.baseline_range) {
            let noise = load
                .noise
                .map(|noise| format!("; noise of a trial {:.1} %", noise * 100.0))
                .unwrap_or_default();
            text.push_str(&format!("  baseline {baseline:.1} ({low:.1} to {high:.1}){noise}\n"));
        }
        if let Some(same) = &load.same {
            let interval = interval(Some(&same.ratio));
            text.push_str(&format!("  A/A cell {interval} (p = {:.3})\n", same.p_differs));
        }
        text.push_str(&tables(load));
        match &load.winner {
            Some(winner) => {
                let safe = ("The best that cannot lose data", load.safe.as_ref());
                for (words, one) in [(confirmed(report), Some(winner)), safe] {
                    let Some(one) = one else { continue };
                    let danger = if one.dangerous { " (WARNING: it can lose data)" } else { "" };
                    text.push_str(&format!(
                        "{words}: {} {} ({}){danger}\n\n{}\n",
                        settings(&one.settings),
                        percent(one.ratio.estimate),
                        winner_range(one),
                        one.snippet
                    ));
                }
            }
            None if report.ended => text.push_str(&format!("{}\n", no_winner(load))),
            None => {}
        }
    }
    text
}

/// The ranking, as far as a terminal has room, and what the factors do.
fn tables(load: &LoadReport) -> String {
    let mut table = Table::new(&["CELL", ">TO BASELINE", "95 % INTERVAL", "VERDICT"]);
    let is_dropped = |cell: &CellReport| matches!(cell.standing, Standing::Dropped { .. });
    let dropped = load.cells.iter().filter(|cell| is_dropped(cell)).count();
    let mut room = if dropped > MOST_DROPPED { 0 } else { dropped };
    for cell in &load.cells {
        if is_dropped(cell) {
            let Some(left) = room.checked_sub(1) else { continue };
            room = left;
        }
        table.row(row(cell));
    }
    let mut text = table.text();
    if dropped > MOST_DROPPED {
        text.push_str(&format!(
            "{dropped} more cells were dropped before the last stage: see --html or --csv\n"
        ));
    }
    if let Some(effects) = &load.effects {
        let mut table = Table::new(&["FACTOR, OVER ALL OTHERS", ">ON AVERAGE", "95 % INTERVAL", "VERDICT"]);
        for one in &effects.main {
            let range = one.standing.ratio();
            table.row(vec![
                format!("{} {} -> {}", one.knob, one.from, one.to),
                percent(one.estimate),
                range
                    .map_or_else(String::new, |one| format!("{} to {}", percent(one.low), percent(one.high))),
                factor_standing(&one.standing).to_owned(),
            ]);
        }
        text.push_str(&format!("\n{}\n", table.text()));
        for line in mixed(&effects.mixed) {
            text.push_str(&format!("{line}\n"));
        }
    }
    text
}

/// Each factor or pair that has no figure, with the reason.
pub(crate) fn mixed(all: &[Mixture]) -> Vec<String> {
    all.iter().map(|one| format!("{}: mixed with {}; no figure", one.what, one.with.join(", "))).collect()
}

fn row(cell: &CellReport) -> Vec<String> {
    let ratio = match (&cell.ratio, cell.seen) {
        (Some(ratio), _) => percent(ratio.estimate),
        (None, Some(seen)) => format!("({})", percent(seen)),
        (None, None) => "-".to_owned(),
    };
    let interval = cell
        .ratio
        .as_ref()
        .map_or_else(String::new, |ratio| format!("{} to {}", percent(ratio.low), percent(ratio.high)));
    vec![settings(&cell.settings), ratio, interval, standing(&cell.standing)]
}

/// All of them, for a terminal.
pub fn comparisons(all: &Comparisons) -> String {
    let texts: Vec<String> = all.comparisons.iter().map(comparison).collect();
    texts.join("\n") + &drift(&all.drift)
}

/// Two experiments, for a terminal.
fn comparison(comparison: &Comparison) -> String {
    let Comparison { one, other, setups, loads, warnings } = comparison;
    let mut text = format!("{other} beside {one}\n");
    for (what, here, there) in setups {
        text.push_str(&format!("  {what}: {here}, and then {there}\n"));
    }
    for warning in warnings {
        text.push_str(&format!("  {warning}\n"));
    }
    for load in loads {
        text.push_str(&format!("\n{}\n", load.words));
        let mut table = Table::new(&["", ">RATIO", "95 %, WITHIN THE RUNS"]);
        let mut row = |name: String, compared: &Compared| {
            let ratio = &compared.ratio;
            let range = format!("{} to {}", percent(ratio.low), percent(ratio.high));
            table.row(vec![name, percent(ratio.estimate), range]);
        };
        if let Some(baseline) = &load.baseline {
            row("baseline".to_owned(), baseline);
        }
        for (name, compared) in &load.cells {
            row(format!("gain of {name}"), compared);
        }
        text.push_str(&table.text());
    }
    if !loads.is_empty() {
        text.push_str(
            "No verdict: two runs may differ by their day alone. Four or more directories show the drift.\n",
        );
    }
    text
}

/// The baseline over a history, for a terminal.
fn drift(drifts: &[Drift]) -> String {
    let mut text = String::new();
    for drift in drifts {
        text.push_str(&format!("\nBaseline over time, {}\n", drift.words));
        for (at, mean) in &drift.points {
            let days = (*at - drift.points[0].0) as f64 / 86_400.0;
            text.push_str(&format!("  after {days:.1} days: {mean:.1}\n"));
        }
        match (&drift.per_month, drift.p_differs) {
            (Some(ratio), Some(p)) => {
                text.push_str(&format!("  in 30 days {} (p = {p:.3})\n", interval(Some(ratio))));
            }
            _ => text.push_str("  no drift is judged of fewer than four experiments\n"),
        }
    }
    text
}

fn interval(ratio: Option<&::plan::Interval>) -> String {
    ratio.map_or_else(String::new, |ratio| {
        format!("{} [{} to {}]", percent(ratio.estimate), percent(ratio.low), percent(ratio.high))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Spec;

    #[test]
    fn a_plan_says_what_it_costs_and_what_it_can_find_and_whether_it_fits() {
        let spec = |budget: &str| {
            let text = format!(
                "name = \"t\"\nmetric = \"throughput\"\n{budget}\n[load]\nworkload = \"w\"\nthreads = [4]\n\
                 [timing]\nreset = \"0s\"\nwarm_up = \"3s\"\nmeasure = \"7s\"\n[[factor]]\nknob = \"server.a\"\n\
                 levels = [\"0\", \"1\", \"2\"]\n"
            );
            Experiment::new(Spec::parse(&text, "t.toml").unwrap(), &[]).unwrap()
        };
        let plan = Plan::of(&spec(""), 0.04);
        // Two cells in ten blocks, four beside them in each.
        assert_eq!((plan.trials, plan.fits, plan.cells.len()), (60, true, 2));
        let minutes = 60.0 * (10.0 + cost::AROUND.as_secs_f64()) / 60.0;
        assert!((plan.minutes - minutes).abs() < 1e-9, "{}", plan.minutes);
        let text = plan.text();
        assert!(text.contains("is found in nine of ten cases"), "{text}");
        let plan = Plan::of(&spec("budget = \"5m\""), 0.04);
        assert!(!plan.fits && plan.text().contains("does NOT fit"));
    }

    #[test]
    fn a_plan_warns_of_pairs_that_are_mixed_into_the_figures_of_factors() {
        let warning = |folded: bool, knobs: &[&str]| {
            let factor =
                |knob: &&str| format!("[[factor]]\nknob = \"server.{knob}\"\nlevels = [\"0\", \"1\"]\n");
            let factors: String = knobs.iter().map(factor).collect();
            let text = format!(
                "name = \"t\"\nmetric = \"throughput\"\n[load]\nworkload = \"w\"\nthreads = [4]\n\
                 [design]\nkind = \"plackett-burman\"\nfolded = {folded}\n{factors}"
            );
            not_told_apart(&Spec::parse(&text, "t.toml").unwrap())
        };
        assert!(warning(false, &["a", "b", "c"]).is_some_and(|warning| warning.contains("folded = false")));
        assert_eq!(warning(true, &["a", "b", "c"]), None);
        assert_eq!(warning(false, &["a", "b"]), None, "every combination");
    }

    #[test]
    fn a_plan_says_what_its_metric_does_not_say_of_its_loads() {
        let of = |metric: &str, load: &str| {
            let text = format!(
                "name = \"t\"\nmetric = \"{metric}\"\n[load]\nworkload = \"w\"\n{load}\n[[factor]]\n\
                 knob = \"server.a\"\nlevels = [\"0\", \"1\"]\n"
            );
            warning(&Spec::parse(&text, "t.toml").unwrap(), 1)
        };
        assert!(of("p99", "threads = [4]").is_some_and(|words| words.contains("closed loop")));
        assert!(of("throughput", "rates = [50.0]").is_some_and(|words| words.contains("open loop")));
        assert_eq!((of("p99", "rates = [50.0]"), of("throughput", "threads = [4]")), (None, None));
        let few = of("p99", "rates = [50.0, 20.0]").unwrap();
        assert!(few.starts_with("600 transactions, which 20 a second for 30 s are"), "{few}");
        assert!(few.contains("be 50 s or more"), "{few}");
    }

    #[test]
    fn a_plan_warns_of_too_few_restarts_to_judge_a_factor_by() {
        let text = "name = \"t\"\nmetric = \"throughput\"\n[load]\nworkload = \"w\"\nthreads = [4]\n\
                    [[factor]]\nknob = \"server.a\"\nwhole_plot = true\nlevels = [\"0\", \"1\"]\n";
        let spec = Spec::parse(text, "t.toml").unwrap();
        assert!(warning(&spec, 1).is_some_and(|words| words.contains("too few")));
        assert_eq!(warning(&spec, 3), None);
        assert_eq!(warning(&Spec { design: Kind::OneAtATime, ..spec }, 1), None);
    }

    #[test]
    fn an_experiment_whose_a_a_cell_has_too_few_figures_says_so() {
        use crate::store::tests::{EXAMPLE, begun, measured, trial};
        let experiment = Experiment::new(Spec::parse(EXAMPLE, "t.toml").unwrap(), &[]).unwrap();
        let Experiment { spec, design, possible, .. } = &experiment;
        let said = |of_same: &Outcome| {
            let mut trials = Vec::new();
            while let Some(next) = schedule::progress(spec, design, possible, &trials).next {
                let outcome = if next.run == Run::Same { of_same.clone() } else { measured(100.0) };
                trials.push(trial(next, outcome));
            }
            let (spec, begun) = (EXAMPLE.to_owned(), begun());
            let history = crate::store::History { spec, begun, trials, ended: None };
            let report = crate::report::report(&experiment, &history);
            warnings(&report, &report.loads[0]).join("\n")
        };
        let void = said(&Outcome::void("late".to_owned()));
        assert!(void.contains("the A/A cell has too few figures"), "{void}");
        assert!(!said(&measured(100.0)).contains("A/A"));
    }

    #[test]
    fn lengths_and_ratios_are_short() {
        assert_eq!(length(Duration::from_secs(90)), "90 s");
        assert_eq!(length(Duration::from_secs(900)), "15 min");
        assert_eq!((percent(1.123).as_str(), percent(0.9).as_str()), ("+12.3 %", "-10.0 %"));
    }
}
