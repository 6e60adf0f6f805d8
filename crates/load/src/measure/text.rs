//! A measurement for people: the curve, the bounds, the headroom.

use super::{Capacity, MeasureReport, Trial};
use std::fmt::Write;
use term::Table;

/// A bar as long as this is twice the objective's time.
const BAR: f64 = 30.0;

/// All of it.
pub fn text(report: &MeasureReport) -> String {
    // Without a figure the reason stands first, else the figure below what it was found from.
    let (curve, answer) = (curve(report), answer(report));
    let mut text = match (&report.refused, report.trials.is_empty()) {
        (Some(_), true) => format!("{answer}\n"),
        (Some(_), false) => format!("{answer}\n\n{curve}\n"),
        (None, _) => format!("{curve}\n{answer}\n"),
    };
    text.push_str(&headroom(report));
    if report.too_few_clients {
        text.push_str(
            "The clients are the limit: transactions waited for a free one, and once it was asked the server answered \
             about as fast as at a low rate. Give more of them (--clients) to find the server's own limit.\n",
        );
    }
    let _ = writeln!(
        text,
        "Evidence: {} trials, {:.0} s, {} more did not count; this machine wakes up {:.2} ms late at p{} by itself",
        report.trials.len(),
        report.trials.iter().map(|trial| trial.seconds).fold(0.0, |sum, seconds| sum + seconds),
        report.voided.len(),
        report.noise_ms,
        report.objective.percent()
    );
    text
}

/// The figure with its interval, or why there is none.
fn answer(report: &MeasureReport) -> String {
    let objective = format!("p{} < {:?}", report.objective.percent(), report.objective.within);
    let (workload, seconds) = (&report.workload, report.goal.trial);
    if let Some(why) = &report.refused {
        return format!("No figure: {why}");
    }
    let Some(Capacity { rate: Some(rate), lower: Some(lower), upper, nine_of_ten, one_of_ten }) =
        report.capacity
    else {
        return format!("{workload}: not even the lowest rate tried meets {objective}");
    };
    let Some(upper) = upper else {
        return format!(
            "{workload}: {lower:.1} transactions a second meet {objective}; more was not tried (--most)"
        );
    };
    let mut text = format!(
        "{workload}: {rate:.0} transactions a second meet {objective} (90 % sure: {lower:.0} to {upper:.0})"
    );
    if upper > lower * (1.0 + report.goal.width) {
        let _ =
            write!(text, "; wider than asked, more trials (--at-most) or longer ones (--trial) would tell");
    }
    if let (Some(nine), Some(one)) = (nine_of_ten, one_of_ten) {
        let _ = write!(
            text,
            "\nTrials of {seconds} s: at {nine:.0} a second nine of ten meet it, at {one:.0} one of ten"
        );
    }
    text
}

/// How many times today's rate can be served; nothing where that was not asked, or not found.
fn headroom(report: &MeasureReport) -> String {
    let from = report.current_from.as_deref().unwrap_or_default();
    match (report.headroom, report.current) {
        (Some(headroom), Some(current)) => {
            format!("Headroom: at least {headroom:.2} times today's {current:.1} a second ({from})\n")
        }
        (None, Some(current)) if current <= 0.0 => {
            format!("Headroom: no figure, for nothing is served today ({from})\n")
        }
        _ => String::new(),
    }
}

/// A row for all trials of about the same rate: their medians, and a bar that shows where the objective lies.
fn curve(report: &MeasureReport) -> String {
    let within = report.objective.within.as_secs_f64() * 1e3;
    let percentile = format!(">p{} ms", report.objective.percent());
    let mut table = Table::new(&[">rate", ">trials", ">p50 ms", &percentile, ">lost %", "", ""]);
    for of in rows(&report.trials, report.goal.width) {
        let middle = |value: fn(&Trial) -> f64| {
            let mut all: Vec<f64> = of.iter().map(|trial| value(trial)).collect();
            all.sort_by(f64::total_cmp);
            all[all.len() / 2]
        };
        // Times are those of trials in which something was answered.
        let middle_ms = |value: fn(&Trial) -> f64| {
            let mut all: Vec<f64> = of.iter().map(|trial| value(trial)).filter(|ms| *ms > 0.0).collect();
            all.sort_by(f64::total_cmp);
            all.get(all.len() / 2).copied()
        };
        let ms = |time: Option<f64>| time.map_or_else(|| "-".to_owned(), |ms| format!("{ms:.2}"));
        let (time, lost) = (middle_ms(|trial| trial.at_objective_ms), middle(Trial::loss));
        let meets = of.iter().filter(|trial| trial.loss() <= report.goal.loss).count();
        table.row(vec![
            format!("{:.0}", middle(|trial| trial.rate)),
            of.len().to_string(),
            ms(middle_ms(|trial| trial.p50_ms)),
            ms(time),
            format!("{:.2}", lost * 100.0),
            // Where all was lost, it is as long as can be.
            bar(time.map_or(if lost < 1.0 { 0.0 } else { f64::INFINITY }, |time| time / within)),
            format!("{meets} of {} meet it", of.len()),
        ]);
    }
    table.text()
}

/// Trials by rate, those together that lie at most so far apart.
fn rows(trials: &[Trial], apart: f64) -> Vec<Vec<&Trial>> {
    let mut sorted: Vec<&Trial> = trials.iter().collect();
    sorted.sort_by(|a, b| a.rate.total_cmp(&b.rate));
    let mut rows: Vec<Vec<&Trial>> = Vec::new();
    for trial in sorted {
        match rows.last_mut() {
            Some(row) if trial.rate <= row[0].rate * (1.0 + apart) => row.push(trial),
            _ => rows.push(vec![trial]),
        }
    }
    rows
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
    use crate::measure::{Goal, Objective};
    use std::time::Duration;

    #[test]
    fn trials_of_about_the_same_rate_share_a_row() {
        let trials = [1040.0, 100.0, 1000.0, 1041.0].map(|rate| Trial { rate, ..Trial::default() });
        let found: Vec<Vec<f64>> =
            rows(&trials, 0.04).iter().map(|row| row.iter().map(|trial| trial.rate).collect()).collect();
        assert_eq!(found, [vec![100.0], vec![1000.0, 1040.0], vec![1041.0]]);
    }

    #[test]
    fn the_times_of_a_rate_are_those_of_trials_that_were_answered() {
        let report =
            |times: &[f64]| MeasureReport { trials: times.iter().map(|ms| trial(*ms)).collect(), ..report() };
        let silent = curve(&report(&[0.0, 0.0]));
        assert!(!silent.contains(" 0.00") && silent.contains('╋'), "{silent}");
        let mixed = curve(&report(&[0.0, 0.0, 7.25]));
        assert!(mixed.contains("7.25"), "{mixed}");
    }

    /// A search that has found nothing yet.
    fn report() -> MeasureReport {
        let objective = Objective::parse("p99 < 15ms").unwrap();
        MeasureReport {
            workload: "w".to_owned(),
            target: "db1".to_owned(),
            objective,
            goal: Goal::new(objective, Duration::from_secs(10), 100.0, 1e6),
            capacity: None,
            refused: None,
            current: None,
            current_from: None,
            headroom: None,
            noise_ms: 0.0,
            too_few_clients: false,
            voided: Vec::new(),
            trials: Vec::new(),
        }
    }

    fn trial(ms: f64) -> Trial {
        Trial { rate: 100.0, due: 10, lost: 10, p50_ms: ms, at_objective_ms: ms, ..Trial::default() }
    }

    #[test]
    fn no_rate_today_is_said_in_the_place_of_the_headroom() {
        let of = |headroom, current| {
            let current_from = Some("0 statements a second at db1".to_owned());
            super::headroom(&MeasureReport { current, current_from, headroom, ..report() })
        };
        assert!(of(None, Some(0.0)).contains("nothing is served today (0 statements a second at db1)"));
        assert!(of(Some(2.0), Some(100.0)).starts_with("Headroom: at least 2.00 times today's 100.0"));
        assert_eq!((of(None, Some(100.0)), of(None, None)), (String::new(), String::new()));
    }

    #[test]
    fn the_objective_is_in_the_middle_of_the_bar() {
        assert_eq!(bar(0.0).chars().position(|c| c == '│'), Some(15));
        assert_eq!(bar(0.5).chars().filter(|c| *c == '━').count(), 8);
        assert_eq!(bar(9.0).chars().filter(|c| *c == '━').count(), 29);
    }
}
