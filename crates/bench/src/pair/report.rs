//! What was asked and what came of it, and the run as Markdown that reads as well on a terminal.

use super::super::bound::{Bound, MET};
use super::super::promise::{self, Promise};
use super::super::report::section::section;
use super::{Comparison, Report, Row};
use plan::Ratio;

/// QPS of zero-hop, of direct's; at least.
const QPS: f64 = 0.97;
/// p99 of zero-hop, of direct's; at most.
const P99: f64 = 1.03;
/// QPS with insight, of those without; at least.
const INSIGHT: f64 = 0.95;
/// What "no CPU" is: of one core, beyond housekeeping.
const NO_CPU: f64 = 0.005;

/// All of them, of what was measured.
pub(super) fn promises(rows: &[Row]) -> Vec<Promise> {
    rows.iter()
        .flat_map(|row| match row.comparison {
            Comparison::Control { .. } => Vec::new(),
            Comparison::ZeroHop { .. } => {
                let qps = ratio(row, "QPS", row.qps, Bound::AtLeast(QPS), "direct's");
                let p99 = ratio(row, "p99", row.p99, Bound::AtMost(P99), "direct's");
                [qps, p99, no_cpu(row)].into_iter().flatten().collect()
            }
            Comparison::InsightPast { .. } | Comparison::InsightRelayed { .. } => {
                let without = "those without";
                ratio(row, "QPS", row.qps, Bound::AtLeast(INSIGHT), without).into_iter().collect()
            }
            Comparison::BeforeRelayed { .. } | Comparison::BeforeZeroHop { .. } => {
                let qps = not_worse(row, "QPS", row.qps, |(_, high)| high >= 1.0);
                let p99 = not_worse(row, "p99", row.p99, |(low, _)| low <= 1.0);
                [qps, p99].into_iter().flatten().collect()
            }
        })
        .collect()
}

fn ratio(row: &Row, figure: &str, ratio: Option<Ratio>, bound: Bound, of: &str) -> Option<Promise> {
    let Ratio { mean, interval, .. } = ratio?;
    let verdict = bound.verdict(mean, interval);
    let asked = format!("{}: {figure} {} x {of}", name(row.comparison), bound.words());
    Some(Promise::new(&asked, format!("{}: {verdict}", text(ratio)), verdict == MET))
}

/// A change is clearly worse when all of its interval is; one that reaches to the other side proves nothing.
fn not_worse(
    row: &Row,
    figure: &str,
    ratio: Option<Ratio>,
    holds: fn((f64, f64)) -> bool,
) -> Option<Promise> {
    let interval = ratio?.interval?;
    let asked = format!("{}: {figure} not worse beyond its interval", name(row.comparison));
    Some(Promise::new(&asked, text(ratio), holds(interval)))
}

fn no_cpu(row: &Row) -> Option<Promise> {
    let (busy, rests) = row.router_cpu?;
    let asked = format!(
        "{}: no CPU of headroom's beyond its housekeeping ({:.1} % of a core)",
        name(row.comparison),
        NO_CPU * 100.0
    );
    let measured = format!("{:.2} % under load, {:.2} % at rest", busy * 100.0, rests * 100.0);
    Some(Promise::new(&asked, measured, busy - rests <= NO_CPU))
}

/// The whole summary.
pub(super) fn markdown(report: &Report) -> String {
    let mut text = format!(
        "# Two ways in turn, {}, {} blocks of four turns of {} ms each\n\n{}\n\n",
        report.date,
        report.blocks_each,
        report.turn_ms,
        report.machine.line()
    );
    for warning in &report.warnings {
        text.push_str(&format!("**{warning}**\n\n"));
    }
    text.push_str(&promise::table(&report.promises));
    let head = [
        "what",
        ">QPS",
        ">QPS of the other",
        ">ratio (95 %)",
        ">p50 ratio (95 %)",
        ">p99 ratio (95 %)",
        ">router's CPU, % of a core: in its turns",
        ">at rest",
        ">blocks left out",
    ];
    let rows = report.rows.iter().map(|row| {
        let share = |of: Option<f64>| of.map_or("-".to_owned(), |share| format!("{:.2}", share * 100.0));
        vec![
            name(row.comparison),
            format!("{:.0}", row.ours_qps),
            format!("{:.0}", row.other_qps),
            self::text(row.qps),
            self::text(row.p50),
            self::text(row.p99),
            share(row.router_cpu.map(|(busy, _)| busy)),
            share(row.router_cpu.map(|(_, rests)| rests)),
            row.left_out.to_string(),
        ]
    });
    text.push_str(&section("Ratios within a block", &head, rows));
    text.push_str(
        "Left out are blocks in which sessions that should have bypassed the router were relayed.\n",
    );
    text
}

/// One comparison, once it is done.
pub(super) fn line(row: &Row) -> String {
    format!("{}: QPS {}, p50 {}, p99 {}", name(row.comparison), text(row.qps), text(row.p50), text(row.p99))
}

fn name(comparison: Comparison) -> String {
    let what = match comparison {
        Comparison::Control { .. } => "direct against direct, which is chance alone",
        Comparison::ZeroHop { .. } => "zero-hop against direct",
        Comparison::InsightPast { .. } => "insight on against off, bypassing the router",
        Comparison::InsightRelayed { .. } => "insight on against off, relayed",
        Comparison::BeforeRelayed { .. } => "this program against the earlier one, relayed",
        Comparison::BeforeZeroHop { .. } => "this program against the earlier one, bypassed",
    };
    let clients = comparison.clients();
    format!("{what}, {clients} client{}", if clients == 1 { "" } else { "s" })
}

fn text(ratio: Option<Ratio>) -> String {
    match ratio {
        None => "-".to_owned(),
        Some(Ratio { mean, interval: None, .. }) => format!("{mean:.3}"),
        Some(Ratio { mean, interval: Some((low, high)), .. }) => format!("{mean:.3} ({low:.3} to {high:.3})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(comparison: Comparison, qps: (f64, f64)) -> Row {
        let ratio = |interval: (f64, f64)| {
            Some(Ratio {
                rounds: 30,
                median: 1.0,
                mean: f64::midpoint(interval.0, interval.1),
                interval: Some(interval),
            })
        };
        Row {
            comparison,
            ours_qps: 1.0,
            other_qps: 1.0,
            qps: ratio(qps),
            p50: None,
            p99: ratio((0.99, 1.01)),
            router_cpu: Some((0.006, 0.004)),
            left_out: 0,
        }
    }

    #[test]
    fn a_promise_is_kept_when_all_of_its_interval_is() {
        let zero_hop = |qps| promises(&[row(Comparison::ZeroHop { clients: 1 }, qps)]);
        let met = |promises: Vec<Promise>| {
            promises.iter().map(|promise| promise.met == Some(true)).collect::<Vec<_>>()
        };
        assert_eq!(met(zero_hop((0.98, 1.02))), [true, true, true]);
        assert_eq!(met(zero_hop((0.96, 1.02))), [false, true, true]);
        assert!(zero_hop((0.96, 1.02))[0].measured.ends_with("met on average, the interval reaches beyond"));
        assert!(zero_hop((0.90, 0.92))[0].measured.ends_with("missed"));
        assert_eq!(met(promises(&[row(Comparison::InsightPast { clients: 16 }, (0.951, 1.0))])), [true]);
        assert_eq!(promises(&[row(Comparison::Control { clients: 16 }, (0.5, 0.6))]), []);
        let before = |qps| promises(&[row(Comparison::BeforeRelayed { clients: 16 }, qps)]);
        assert_eq!(met(before((0.95, 1.01))), [true, true], "an interval that has no change in it");
        assert_eq!(met(before((0.95, 0.99))), [false, true], "clearly slower");
    }
}
