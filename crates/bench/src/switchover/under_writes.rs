//! What the benches of a primary that moves and of one that dies share: the flags of the writers, and how
//! what clients were told is held against the rows of every server.

use super::super::promise::Promise;
use super::super::report::section::section;
use super::clients::ClientReport;
use super::history::{Anomalies, ServerContent, check};
use clap::Args;
use plan::quantile::{nearest_rank, sorted};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;
use term::terminal;

pub(super) const QUIET_LOOK: Duration = Duration::from_secs(2);
/// Writers go on for this long before the first move and after the last.
pub(super) const LEAD: Duration = Duration::from_secs(3);
/// Repetitions of a smoke run.
pub(super) const QUICK: u32 = 3;

/// Flags of both.
#[derive(Args, Clone, Debug)]
pub(super) struct WriteArgs {
    /// Clients that write, half of them through each router.
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u32).range(2..=1000))]
    pub(super) clients: u32,
    /// Transactions a second that all clients together begin.
    #[arg(long, default_value_t = 200.0)]
    pub(super) rate: f64,
    /// A smoke run: three times.
    #[arg(long)]
    pub(super) quick: bool,
    /// Where the run's files go [default: benchmarks/runs/<bench>/YYYY-MM-DD-<bench>, with --quick
    /// target/bench].
    #[arg(long)]
    pub(super) out: Option<PathBuf>,
    /// Print everything as JSON instead of tables.
    #[arg(long)]
    pub(super) json: bool,
}

/// Holds what clients were told against what servers have; says which server differs, where that is an error.
pub(super) fn anomalies(
    told: &ClientReport,
    servers: &BTreeMap<String, ServerContent>,
    is_error: bool,
) -> Anomalies {
    let mut all = Anomalies::default();
    for (server, content) in servers {
        let found = check(&told.clients, content);
        if is_error && !found.none() {
            terminal::complain(&format!("on {server}: {found:?}"));
        }
        all.add(found);
    }
    all
}

/// Nothing acknowledged is lost.
pub(super) fn nothing_lost(anomalies: &Anomalies, transactions: u64) -> Promise {
    let Anomalies { lost, duplicated, invented, out_of_order, stale, torn, .. } = anomalies;
    let measured = format!(
        "{lost} lost, {duplicated} duplicated, {invented} invented, {out_of_order} out of order, {stale} stale, \
         {torn} torn of {transactions} transactions"
    );
    Promise::new("no acknowledged write is lost, doubled or out of order", measured, anomalies.none())
}

/// A table of times, each with its quantiles.
pub(super) fn times(title: &str, rows: impl Iterator<Item = (String, Vec<f64>)>) -> String {
    let row = |(name, values): (String, Vec<f64>)| {
        let at = |share: f64| quantile(&values, share).map_or("-".to_owned(), |ms| format!("{ms:.0}"));
        vec![name, at(0.5), at(0.9), at(0.99), at(1.0)]
    };
    section(title, &["what", ">p50", ">p90", ">p99", ">most"], rows.map(row))
}

/// The errors that clients saw, and what was not as it should be after which move.
pub(super) fn errors_and_remarks<'a>(
    errors: &BTreeMap<String, u64>,
    each: &str,
    remarks: impl Iterator<Item = (u32, &'a [String])>,
) -> String {
    let rows = errors.iter().map(|(what, count)| vec![what.clone(), count.to_string()]);
    let errors = section("What clients were told that was no success", &["what", ">how often"], rows);
    let rows = remarks.flat_map(|(number, all)| all.iter().map(move |r| vec![number.to_string(), r.clone()]));
    errors + &section("Remarks", &[each, "what"], rows)
}

/// The value below which a share of all lie, in any order; nearest rank.
pub(super) fn quantile(values: &[f64], share: f64) -> Option<f64> {
    nearest_rank(&sorted(values.to_vec()), share)
}
