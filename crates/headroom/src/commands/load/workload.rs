//! From a name and flags to a workload.

use anyhow::Context;
use clap::Args;
use load::distribution::Distribution;
use load::workload::file::{BUILT_IN, File};
use load::workload::sysbench::{self, Options, WORKLOADS};
use load::workload::{Protocol, Workload};
use std::fmt::Write;
use term::exit;

/// What is sent.
#[derive(Args, Debug, Clone)]
pub(crate) struct WorkloadArgs {
    /// The workload's name (headroom load list).
    #[arg(value_name = "WORKLOAD")]
    name: String,
    /// Tables sbtest1 to sbtestN.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    tables: u32,
    /// Rows of each table.
    #[arg(long, default_value_t = 10_000)]
    table_size: u32,
    /// How keys are spread: uniform, gaussian, special, pareto or zipfian, each as in sysbench.
    #[arg(long, default_value = "special", value_parser = distribution)]
    distribution: Distribution,
    /// Shape of pareto.
    #[arg(long, value_name = "H")]
    pareto_h: Option<f64>,
    /// Shape of zipfian.
    #[arg(long, value_name = "EXPONENT")]
    zipfian_exponent: Option<f64>,
    /// Write parameters into the statement's text instead of preparing it (sysbench: --db-ps-mode=disable).
    #[arg(long)]
    text: bool,
    /// Leave out BEGIN and COMMIT.
    #[arg(long)]
    skip_trx: bool,
    /// Leave out the four kinds of range reads.
    #[arg(long)]
    no_range_selects: bool,
    /// Point selects of a transaction.
    #[arg(long, default_value_t = 10)]
    point_selects: u32,
    /// Rows of a range.
    #[arg(long, default_value_t = 100)]
    range_size: u32,
    /// Points of select_random_points, ranges of select_random_ranges.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000))]
    random_points: u32,
}

impl WorkloadArgs {
    /// A workload with nothing else than usual.
    pub(crate) fn plain(name: &str, tables: u32, table_size: u32, distribution: Distribution) -> Self {
        Self {
            name: name.to_owned(),
            tables,
            table_size,
            distribution,
            pareto_h: None,
            zipfian_exponent: None,
            text: false,
            skip_trx: false,
            no_range_selects: false,
            point_selects: 10,
            range_size: 100,
            random_points: 10,
        }
    }

    /// sysbench's options.
    pub(crate) fn options(&self) -> Options {
        let distribution = match self.distribution {
            Distribution::Pareto { h } => Distribution::Pareto { h: self.pareto_h.unwrap_or(h) },
            Distribution::Zipfian { exponent } => {
                Distribution::Zipfian { exponent: self.zipfian_exponent.unwrap_or(exponent) }
            }
            other => other,
        };
        Options {
            tables: self.tables,
            table_size: self.table_size,
            distribution,
            protocol: if self.text { Protocol::Text } else { Protocol::Prepared },
            range_size: self.range_size,
            point_selects: self.point_selects,
            range_selects: !self.no_range_selects,
            skip_trx: self.skip_trx,
            random_points: self.random_points,
            ..Options::default()
        }
    }

    /// What stands behind the name: one of sysbench's, one that comes with us, or a file.
    pub(crate) fn named(&self) -> anyhow::Result<Named> {
        if let Some(workload) = sysbench::workload(&self.name, &self.options()) {
            return Ok(Named::Sysbench(workload));
        }
        let file = match File::built_in(&self.name) {
            Some(file) => file,
            None if self.name.ends_with(".toml") => {
                let text = std::fs::read_to_string(&self.name)
                    .with_context(|| format!("cannot read the workload {}", self.name))?;
                File::parse(&text, &self.name)?
            }
            None => {
                return Err(exit::usage_error(format!(
                    "no workload is called '{}'; headroom load list names them, and a file of your own ends in .toml",
                    self.name
                )));
            }
        };
        Ok(Named::File(Box::new(if self.text { file.with_protocol(Protocol::Text) } else { file })))
    }
}

/// A workload and what surrounds it.
pub(crate) enum Named {
    /// One of sysbench's, on sysbench's tables.
    Sysbench(Workload),
    /// One with statements of its own for its tables.
    File(Box<File>),
}

impl Named {
    /// What is sent.
    pub(crate) fn workload(self) -> Workload {
        match self {
            Self::Sysbench(workload) => workload,
            Self::File(file) => file.workload,
        }
    }
}

/// All names with what they send.
pub(crate) fn list() -> String {
    let ours = BUILT_IN.iter().map(|(name, purpose, _)| (*name, *purpose));
    let mut text = WORKLOADS.iter().copied().chain(ours).fold(String::new(), |mut text, (name, purpose)| {
        let _ = writeln!(text, "{name:<24}{purpose}");
        text
    });
    let _ = writeln!(text, "{:<24}a workload of your own (docs/guide/load.md)", "FILE.toml");
    text
}

fn distribution(name: &str) -> Result<Distribution, String> {
    Distribution::named(name)
        .ok_or_else(|| format!("'{name}' is none of uniform, gaussian, special, pareto and zipfian"))
}
