//! What is asked of the load generator, beside what came of it.

use super::super::promise::Promise;
use super::{Case, OwnLatency, Row};
use plan::Ratio;
use plan::quantile::median;

/// QPS may be this much below sysbench's.
const SAME_QPS: f64 = 0.98;
/// Client CPU per query, over sysbench's.
const CPU: f64 = 0.5;
/// QPS of one core, over sysbench's.
const ONE_CORE: f64 = 1.5;
/// The generator's own p99, microseconds.
pub(super) const OWN_P99_US: f64 = 50.0;

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
            // Nothing was asked of them: they show where the rest goes.
            Case::PointSelectsSocket | Case::PointSelectsMany => {}
            Case::PointSelects
            | Case::PointSelectsText
            | Case::ReadWrite
            | Case::PointSelectsOwnSession
            | Case::ReadWriteOwnSession
            | Case::PointSelectsApart
            | Case::ReadWriteApart => {
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
    promises.extend(own_latency(own));
    promises
}

/// The whole latency at the null server, and what of it is the generator's.
fn own_latency(own: &[OwnLatency]) -> Vec<Promise> {
    let middle = |value: fn(&OwnLatency) -> Option<f64>| {
        median(&own.iter().filter(|own| own.busy).filter_map(value).collect::<Vec<_>>()).unwrap_or_default()
    };
    let us = |value| middle(value) * 1e3;
    let percent = |value| middle(value) * 100.0;
    let promise = |asked: &str, p99: f64, more: String| {
        let asked = format!("{asked}: p99 at most {OWN_P99_US:.0} us");
        Promise::new(&asked, format!("{p99:.0} us{more}"), p99 <= OWN_P99_US)
    };
    if !own.iter().any(|own| own.busy) {
        return Vec::new();
    }
    let where_from = format!(
        " (p95 {:.0} us); {:.2} % took longer than {OWN_P99_US:.0} us, while this machine alone keeps {:.2} % of all moments waiting longer",
        us(|own| Some(own.p95_ms)),
        percent(|own| Some(own.beyond)),
        percent(|own| Some(own.machine.beyond))
    );
    let whole = us(|own| Some(own.p99_ms));
    let mut promises = vec![promise("null server at half of a core, --busy", whole, where_from)];
    if own.iter().any(|own| own.own_p99_ms.is_some()) {
        let part = us(|own| own.own_p99_ms);
        let more = format!(
            " (p95 {:.0} us; the machine alone: p99 {:.0} us)",
            us(|own| own.own_p95_ms),
            us(|own| Some(own.machine.p99_us / 1e3))
        );
        promises.push(promise("of that the generator's own, begun late and read late", part, more));
    }
    promises
}

fn words(ratio: Ratio) -> String {
    match ratio.interval {
        None => format!("{:.2}", ratio.mean),
        Some((low, high)) => format!("{:.2} ({low:.2} to {high:.2})", ratio.mean),
    }
}
