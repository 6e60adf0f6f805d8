//! From a name and flags to a workload.

use clap::Args;
use load::LoadError;
use load::distribution::Distribution;
use load::workload::sysbench::Options;
use load::workload::{Named, Protocol};
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
    #[arg(long, value_name = "H", value_parser = share)]
    pareto_h: Option<f64>,
    /// Shape of zipfian.
    #[arg(long, value_name = "EXPONENT", value_parser = exponent)]
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
    /// As it was typed.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// sysbench's options.
    ///
    /// # Errors
    /// A shape stands without its distribution.
    pub(crate) fn options(&self) -> anyhow::Result<Options> {
        Ok(Options {
            tables: self.tables,
            table_size: self.table_size,
            distribution: self.shaped()?,
            protocol: if self.text { Protocol::Text } else { Protocol::Prepared },
            range_size: self.range_size,
            point_selects: self.point_selects,
            range_selects: !self.no_range_selects,
            skip_trx: self.skip_trx,
            random_points: self.random_points,
            ..Options::default()
        })
    }

    /// The distribution in its shape. The shape of another one would be left out, and the figures taken for
    /// those that were asked for.
    fn shaped(&self) -> anyhow::Result<Distribution> {
        let distribution = self.distribution;
        if self.pareto_h.is_some() && !matches!(distribution, Distribution::Pareto { .. }) {
            return Err(exit::usage_error("--pareto-h goes with --distribution pareto"));
        }
        if self.zipfian_exponent.is_some() && !matches!(distribution, Distribution::Zipfian { .. }) {
            return Err(exit::usage_error("--zipfian-exponent goes with --distribution zipfian"));
        }
        Ok(match distribution {
            Distribution::Pareto { h } => Distribution::Pareto { h: self.pareto_h.unwrap_or(h) },
            Distribution::Zipfian { exponent } => {
                Distribution::Zipfian { exponent: self.zipfian_exponent.unwrap_or(exponent) }
            }
            other => other,
        })
    }

    /// What stands behind the name.
    ///
    /// # Errors
    /// As [`WorkloadArgs::options`]; nothing has that name, its file cannot be read, or it takes none of
    /// sysbench's options and one is set.
    pub(crate) fn named(&self) -> anyhow::Result<Named> {
        let options = self.options()?;
        let named = named(&self.name, &options)?;
        let set = set_for_sysbench(&options);
        if matches!(named, Named::File(_)) && !set.is_empty() {
            return Err(exit::usage_error(format!(
                "only sysbench's workloads take {}; {} has tables and statements of its own",
                set.join(", "),
                self.name
            )));
        }
        Ok(named)
    }
}

/// The flags that only sysbench's workloads follow, as far as they are not as usual. A workload with
/// statements of its own would leave them out, and the figures be taken for those that were asked for.
fn set_for_sysbench(options: &Options) -> Vec<&'static str> {
    let usual = Options::default();
    let flags = [
        ("--tables", options.tables != usual.tables),
        ("--table-size", options.table_size != usual.table_size),
        ("--distribution", options.distribution != usual.distribution),
        ("--skip-trx", options.skip_trx != usual.skip_trx),
        ("--no-range-selects", options.range_selects != usual.range_selects),
        ("--point-selects", options.point_selects != usual.point_selects),
        ("--range-size", options.range_size != usual.range_size),
        ("--random-points", options.random_points != usual.random_points),
    ];
    flags.into_iter().filter(|(_, set)| *set).map(|(flag, _)| flag).collect()
}

/// What stands behind a name; one that means nothing is a wrong command line.
pub(crate) fn named(name: &str, options: &Options) -> anyhow::Result<Named> {
    Named::find(name, options).map_err(|error| match error {
        LoadError::UnknownWorkload { .. } => exit::usage_error(error.to_string()),
        other => other.into(),
    })
}

fn distribution(name: &str) -> Result<Distribution, String> {
    Distribution::named(name)
        .ok_or_else(|| format!("'{name}' is none of uniform, gaussian, special, pareto and zipfian"))
}

/// Beyond its ends a pareto distribution is none, and would ask for one row only.
fn share(text: &str) -> Result<f64, String> {
    let share = text.parse::<f64>().ok().filter(|share| *share > 0.0 && *share < 1.0);
    share.ok_or_else(|| format!("'{text}' is not between 0 and 1"))
}

fn exponent(text: &str) -> Result<f64, String> {
    let exponent = text.parse::<f64>().ok().filter(|exponent| *exponent >= 0.0 && exponent.is_finite());
    exponent.ok_or_else(|| format!("'{text}' is not 0 or more"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::FromArgMatches;

    fn parsed(line: &str) -> WorkloadArgs {
        let command = WorkloadArgs::augment_args(clap::Command::new("run"));
        let matches = command.try_get_matches_from(line.split(' ')).unwrap();
        WorkloadArgs::from_arg_matches(&matches).unwrap()
    }

    #[test]
    fn the_shape_of_a_distribution_that_is_not_asked_for_is_a_wrong_command_line() {
        let asked = |flags: &str| {
            let options = parsed(&format!("run oltp_read_only {flags}")).options();
            options.map(|options| options.distribution)
        };
        let skewed = asked("--distribution pareto --pareto-h 0.1").unwrap();
        assert_eq!(skewed, Distribution::Pareto { h: 0.1 });
        let steep = asked("--distribution zipfian --zipfian-exponent 2").unwrap();
        assert_eq!(steep, Distribution::Zipfian { exponent: 2.0 });
        assert_eq!(asked("--distribution pareto").unwrap(), Distribution::Pareto { h: 0.2 });
        for wrong in [
            "--pareto-h 0.1",
            "--distribution zipfian --pareto-h 0.1",
            "--zipfian-exponent 2",
            "--distribution pareto --pareto-h 0.1 --zipfian-exponent 2",
        ] {
            assert!(asked(wrong).unwrap_err().is::<exit::UsageError>(), "{wrong}");
        }
        assert!(parsed("run oltp_read_only --pareto-h 0.1").named().is_err());
    }

    #[test]
    fn flags_of_sysbench_beside_a_workload_with_statements_of_its_own_are_a_wrong_command_line() {
        let named = |line: &str| parsed(&format!("run {line}")).named();
        for right in ["endpoints", "endpoints --text", "oltp_read_only --tables 4 --skip-trx"] {
            assert!(named(right).is_ok(), "{right}");
        }
        for flag in [
            "--tables 4",
            "--table-size 5",
            "--distribution uniform",
            "--distribution pareto --pareto-h 0.1",
            "--skip-trx",
            "--no-range-selects",
            "--point-selects 1",
            "--range-size 5",
            "--random-points 5",
        ] {
            let Err(error) = named(&format!("endpoints {flag}")) else { panic!("{flag} must be refused") };
            let first = flag.split(' ').next().unwrap_or_default();
            assert!(error.is::<exit::UsageError>() && error.to_string().contains(first), "{error}");
        }
    }

    #[test]
    fn shapes_that_would_ask_for_one_row_only_are_refused() {
        assert_eq!((share("0.2"), share("0.9")), (Ok(0.2), Ok(0.9)));
        for wrong in ["0", "1", "20", "-0.2", "nan", "inf", "a fifth"] {
            assert!(share(wrong).is_err(), "{wrong}");
        }
        assert_eq!((exponent("0"), exponent("1.5")), (Ok(0.0), Ok(1.5)));
        for wrong in ["-0.8", "nan", "inf", ""] {
            assert!(exponent(wrong).is_err(), "{wrong}");
        }
    }
}
