//! A measurement for people: the curve, the bounds, the headroom.

use super::Measured;
use crate::table::Table;
use load::measure::{Capacity, Trial};
use std::fmt::Write;

/// A bar as long as this is twice the objective's time.
const BAR: f64 = 30.0;

/// All of it.
pub(super) fn text(measured: &Measured) -> String {
    let mut text = curve(measured);
    text.push('\n');
    let objective = format!("p{} < {:?}", measured.objective.percent(), measured.objective.within);
    let workload = &measured.workload;
    let _ = match (&measured.refused, measured.capacity) {
        (Some(why), _) => {
            let _ = writeln!(text, "No figure: {why}");
            Ok(())
        }
        (None, Some(Capacity { lower: Some(lower), upper: Some(upper) })) => {
            writeln!(text, "{workload}: {lower:.1} transactions a second meet {objective}; {upper:.1} do not")
        }
        (None, Some(Capacity { lower: Some(lower), upper: None })) => writeln!(
            text,
            "{workload}: {lower:.1} transactions a second meet {objective}; more was not tried (--most)"
        ),
        _ => writeln!(text, "{workload}: not even the lowest rate tried meets {objective}"),
    };
    if let (Some(contradiction), None) = (measured.contradiction, &measured.refused) {
        let _ = writeln!(
            text,
            "Trials contradict each other: {contradiction}; the limit moved meanwhile, or --trial is too short"
        );
    }
    if let (Some(headroom), Some(current)) = (measured.headroom, measured.current) {
        let from = measured.current_from.as_deref().unwrap_or_default();
        let _ = writeln!(text, "Headroom: {headroom:.2} times today's {current:.1} a second ({from})");
    }
    let _ = writeln!(
        text,
        "Evidence: {} trials, {:.0} s, {} more did not count; this machine wakes up {:.2} ms late at p{} by itself",
        measured.trials.len(),
        measured.trials.iter().map(|trial| trial.seconds).sum::<f64>(),
        measured.voided.len(),
        measured.noise_ms,
        measured.objective.percent()
    );
    text
}

/// A row for each rate: the median of its trials, and a bar that shows where the objective lies.
fn curve(measured: &Measured) -> String {
    let within = measured.objective.within.as_secs_f64() * 1e3;
    let mut rates: Vec<f64> = measured.trials.iter().map(|trial| trial.rate).collect();
    rates.sort_by(f64::total_cmp);
    rates.dedup();
    let percentile = format!(">p{} ms", measured.objective.percent());
    let mut table = Table::new(&[">rate", ">trials", ">p50 ms", &percentile, ">lost %", "", ""]);
    for rate in rates {
        let of: Vec<&Trial> = measured.trials.iter().filter(|trial| trial.rate == rate).collect();
        let middle = |value: fn(&Trial) -> f64| {
            let mut all: Vec<f64> = of.iter().map(|trial| value(trial)).collect();
            all.sort_by(f64::total_cmp);
            all[all.len() / 2]
        };
        let time = middle(|trial| trial.at_objective_ms);
        let meets = of.iter().filter(|trial| trial.loss() <= measured.goal.loss).count();
        table.row(vec![
            format!("{rate:.1}"),
            of.len().to_string(),
            format!("{:.2}", middle(|trial| trial.p50_ms)),
            format!("{time:.2}"),
            format!("{:.2}", middle(Trial::loss) * 100.0),
            bar(time / within),
            format!("{meets} of {} meet it", of.len()),
        ]);
    }
    table.text()
}

/// `share` of the objective's time, which is marked in the middle.
fn bar(share: f64) -> String {
    let full = (share * BAR / 2.0).round().clamp(0.0, BAR) as usize;
    let mark = (BAR / 2.0) as usize;
    let cell = |n: usize| match (n < full, n == mark) {
        (true, true) => '╋',
        (true, false) => '━',
        (false, true) => '│',
        (false, false) => ' ',
    };
    (0..BAR as usize).map(cell).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_objective_is_in_the_middle_of_the_bar() {
        assert_eq!(bar(0.0).chars().position(|c| c == '│'), Some(15));
        assert_eq!(bar(0.5).chars().filter(|c| *c == '━').count(), 8);
        assert_eq!(bar(9.0).chars().filter(|c| *c == '━').count(), 29);
    }
}
