//! The run as Markdown that reads as well on a terminal.

use super::super::promise;
use super::super::report::section::section;
use super::{Case, Report, Row, Sample, Tool};
use plan::Ratio;

/// The whole summary.
pub(super) fn markdown(report: &Report) -> String {
    let mut text = format!(
        "# headroom load beside sysbench, {}, {} rounds of {} s\n\n{}\n\n",
        report.date,
        report.rounds,
        report.seconds,
        report.machine.line()
    );
    for warning in &report.warnings {
        text.push_str(&format!("**{warning}**\n\n"));
    }
    text.push_str(&promise::table(&report.promises));
    let head = [
        "case",
        ">QPS sysbench",
        ">QPS headroom",
        ">ratio (95 %)",
        ">client's CPU us/query sysbench",
        ">headroom",
        ">ratio (95 %)",
        ">own code sysbench",
        ">headroom",
        ">server's CPU, ratio (95 %)",
        ">both, ratio (95 %)",
        ">p99 ratio (95 %)",
    ];
    let row = |row: &Row| {
        vec![
            words(row.case).to_owned(),
            format!("{:.0}", row.sysbench_qps),
            format!("{:.0}", row.headroom_qps),
            ratio(row.qps),
            format!("{:.2}", row.sysbench_cpu_us),
            format!("{:.2}", row.headroom_cpu_us),
            ratio(row.client_cpu),
            format!("{:.2}", row.sysbench_user_us),
            format!("{:.2}", row.headroom_user_us),
            ratio(row.server_cpu),
            ratio(row.both_cpu),
            ratio(row.p99),
        ]
    };
    text.push_str(&section("Closed loop", &head, report.rows.iter().map(row)));
    let head = [
        "client",
        ">rate",
        ">CPU share of its thread",
        ">p50 us",
        ">p95 us",
        ">p99 us",
        ">over 50 us",
        ">begun late, p99 us",
        ">begun or read late, p95 us",
        ">p99 us",
        ">machine alone p99 us",
        ">over 50 us",
    ];
    let us = |ms: Option<f64>| ms.map_or_else(|| "-".to_owned(), |ms| format!("{:.0}", ms * 1e3));
    let rows = report.own_latency.iter().map(|own| {
        vec![
            if own.busy { "--busy" } else { "sleeps" }.to_owned(),
            format!("{:.0}", own.rate),
            format!("{:.0} %", own.cpu_share * 100.0),
            format!("{:.0}", own.p50_ms * 1e3),
            format!("{:.0}", own.p95_ms * 1e3),
            format!("{:.0}", own.p99_ms * 1e3),
            format!("{:.2} %", own.beyond * 100.0),
            format!("{:.0}", own.lateness_p99_ms * 1e3),
            us(own.own_p95_ms),
            us(own.own_p99_ms),
            format!("{:.0}", own.machine.p99_us),
            format!("{:.2} %", own.machine.beyond * 100.0),
        ]
    });
    text.push_str(&section("Its own part of a latency: open loop against the null server", &head, rows));
    text.push_str(&super::freeze::table(&report.frozen));
    if let Some(likeness) = &report.likeness {
        text.push_str(&likeness.tables());
    }
    text
}

/// One load, while it runs.
pub(super) fn line(sample: &Sample) -> String {
    let tool = match sample.tool {
        Tool::Sysbench => "sysbench",
        Tool::Headroom => "headroom",
    };
    format!(
        "round {}  {:<44} {tool:<9} {:>8.0} QPS  {:.2} us CPU a query  p99 {:.3} ms",
        sample.round,
        words(sample.case),
        sample.qps,
        sample.client_cpu_us,
        sample.p99_ms
    )
}

/// A case, for people.
pub(super) fn words(case: Case) -> &'static str {
    match case {
        Case::PointSelects => "16 clients, point selects, prepared",
        Case::PointSelectsText => "16 clients, point selects, text",
        Case::ReadWrite => "16 clients, read-write, prepared",
        Case::PointSelectsOwnSession => "the first, client in a session of its own",
        Case::ReadWriteOwnSession => "read-write, client in a session of its own",
        Case::PointSelectsSocket => "the first over a unix socket",
        Case::PointSelectsApart => "the first, client and server on a core each",
        Case::ReadWriteApart => "read-write, client and server on a core each",
        Case::PointSelectsMany => "the first by 64 clients",
        Case::OneCore => "null server, 16 clients on one core",
    }
}

fn ratio(ratio: Option<Ratio>) -> String {
    match ratio {
        None => "-".to_owned(),
        Some(Ratio { mean, interval: None, .. }) => format!("{mean:.2}"),
        Some(Ratio { mean, interval: Some((low, high)), .. }) => format!("{mean:.2} ({low:.2} to {high:.2})"),
    }
}
