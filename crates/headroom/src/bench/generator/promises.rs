//! What is asked of the load generator, beside what came of it.

use super::super::promise::Promise;
use super::super::statistics::{Ratio, median};
use super::{Case, OwnLatency, Row};

/// QPS may be this much below sysbench's.
const SAME_QPS: f64 = 0.98;
/// Client CPU per query, over sysbench's.
const CPU: f64 = 0.5;
/// QPS of one core, over sysbench's.
const ONE_CORE: f64 = 1.5;
/// The generator's own p99, microseconds.
const OWN_P99_US: f64 = 50.0;

/// All of them, of what was measured.
pub(super) fn of(rows: &[Row], own: &[OwnLatency]) -> Vec<Promise> {
    let mut promises = Vec::new();
    for row in rows {
        let name = super::table::words(row.case);
        match row.case {
            Case::OneCore => {
                promises.extend(row.qps.map(|qps| {
                    Promise::new(
                        &format!("{name}: at least {ONE_CORE} times its QPS"),
                        words(qps),
                        qps.mean >= ONE_CORE,
                    )
                }));
            }
            Case::PointSelects | Case::PointSelectsText | Case::ReadWrite => {
                promises.extend(row.qps.map(|qps| {
                    Promise::new(
                        &format!("{name}: sysbench's QPS, at most 2 % less"),
                        words(qps),
                        qps.mean >= SAME_QPS,
                    )
                }));
                promises.extend(row.client_cpu.map(|cpu| {
                    Promise::new(
                        &format!("{name}: at most {CPU} of its client CPU a query"),
                        words(cpu),
                        cpu.mean <= CPU,
                    )
                }));
            }
        }
    }
    let busy: Vec<f64> = own.iter().filter(|own| own.busy).map(|own| own.p99_ms * 1e3).collect();
    promises.extend(median(&busy).map(|p99| {
        let asked = format!("own latency at half of a core, --busy: p99 at most {OWN_P99_US:.0} us");
        let machine: Vec<f64> = own.iter().map(|own| own.machine_p99_ms * 1e3).collect();
        let machine = median(&machine).unwrap_or(0.0);
        let measured = format!(
            "{p99:.0} us (median of {}); the machine alone lets a thread that never sleeps wait {machine:.0} us at p99",
            busy.len()
        );
        Promise::new(&asked, measured, p99 <= OWN_P99_US)
    }));
    promises
}

fn words(ratio: Ratio) -> String {
    match ratio.interval {
        None => format!("{:.2}", ratio.mean),
        Some((low, high)) => format!("{:.2} ({low:.2} to {high:.2})", ratio.mean),
    }
}
