//! The file that describes an experiment: raw, then checked. Unknown keys are refused, and every complaint
//! has its line and column and says what would be right.
//!
//! ```toml
//! name = "block layer"
//! metric = "throughput"          # or "p99"
//! smallest_effect = 0.03         # less is of no interest: 3 %
//! seed = 1
//! server = "127.0.0.1:3306"      # or --server
//! managed = "db1.toml"           # or --managed: how the server is restarted, for what needs that
//!
//! [load]
//! workload = "oltp_read_write"
//! threads = [16, 32]
//! database = "sbtest"
//! tables = 4
//! table_size = 100000
//!
//! [reset]                        # before each trial dirty pages are written; and the data:
//! data = "tables"                # made anew before each block; or "program", "keep"
//! fill = true                    # tables are read once after settings are applied: the same cache for each
//!
//! [guard]                        # a cell is given up beyond these
//! latency = 2.0                  # p99, times the baseline's
//! errors = 0.01                  # share of failed transactions, above the baseline's
//! memory = 0.9                   # share of the memory in use, of the host's or of the server's cgroup
//! steal = 0.05                   # void: share of the CPU that the hypervisor took
//!
//! [design]
//! kind = "full"                  # or "half", "one-at-a-time", "plackett-burman" (folded unless folded = false)
//!
//! [[factor]]
//! knob = "block.scheduler@vda"
//! levels = ["mq-deadline", "none", "bfq"]   # the first is the baseline, unless baseline = says another
//!
//! [[factor]]
//! knob = "server.innodb_doublewrite"
//! levels = ["ON", "OFF"]
//! danger = true                  # a dangerous level is meant
//! whole_plot = true              # a restart: changed as seldom as the order allows
//!
//! [[exclude]]                    # cells that make no sense
//! "block.scheduler@vda" = "bfq"
//! "server.innodb_doublewrite" = "OFF"
//! ```
//!
//! Hosts are compared by naming them in place of `server`; they become a factor called `host`, the first its
//! baseline. Beside it only variables of the servers can be varied: they are set on the host that is tried.
//!
//! ```toml
//! [[host]]
//! name = "8 cores"
//! server = "10.0.0.8:3306"
//!
//! [[host]]
//! name = "16 cores"
//! server = "10.0.0.16:3306"
//! ```

mod check;

use crate::cost::Timing;
use crate::halving::Stage;
use crate::verdict::Good;
use check::Checker;
use config::Complaints;
use fleet::{Address, AddressError, Blame};
use load::distribution::Distribution;
use load::workload::sysbench::Options;
use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;
use toml::Spanned;

/// A checked experiment.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    pub name: String,
    /// What cells are judged by.
    pub metric: Metric,
    /// Less than this is of no interest, as a share.
    pub smallest_effect: f64,
    /// The share of experiments that may be wrong.
    pub level: f64,
    /// It ends by then.
    pub budget: Option<Duration>,
    /// Of everything that is random.
    pub seed: u64,
    /// The server, unless the command line names one.
    pub server: Option<String>,
    /// The hosts that are compared, in the order of the levels of the factor [`HOST`]; empty without it.
    pub hosts: Vec<TrialHost>,
    /// The file that says how the server is restarted, unless the command line names one.
    pub managed: Option<String>,
    pub load: Load,
    /// How each trial finds the data and the cache.
    pub reset: Reset,
    /// When a cell is given up.
    pub guard: Guard,
    /// How long a trial takes.
    pub timing: Timing,
    /// How cells are made.
    pub design: Kind,
    pub factors: Vec<Factor>,
    /// What makes no sense.
    pub constraints: Vec<Constraint>,
    /// The stages, if they are not to be chosen by the number of cells.
    pub stages: Option<Vec<Stage>>,
}

/// The factor that hosts are.
pub const HOST: &str = "host";

/// Whether a factor is a setting of the machine that Headroom runs on. Where the server is on another one it
/// changes the load generator alone.
pub fn is_of_this_machine(knob: &str) -> bool {
    knob != HOST && !knob.starts_with("server.")
}

/// A host that is compared with others, by its server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrialHost {
    pub name: String,
    /// Its server's address.
    pub server: Address,
}

/// What cells are judged by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Metric {
    /// Transactions a second.
    Throughput,
    /// The 99th percentile of response times.
    P99,
}

impl Metric {
    /// With its unit, for people.
    pub fn words(self) -> &'static str {
        match self {
            Self::Throughput => "transactions a second",
            Self::P99 => "p99 of response times in ms",
        }
    }

    pub fn good(self) -> Good {
        match self {
            Self::Throughput => Good::More,
            Self::P99 => Good::Less,
        }
    }
}

/// What is sent, to every cell alike.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    /// A built-in workload or a file.
    pub workload: String,
    /// Closed loops of this many clients, each an experiment of its own.
    pub threads: Vec<u32>,
    /// Open loops of this many transactions a second, each an experiment of its own.
    pub rates: Vec<f64>,
    /// Clients of an open loop: the most transactions at a time.
    pub clients: u32,
    pub database: String,
    /// sysbench's tables.
    pub tables: u32,
    /// Rows of each.
    pub table_size: u32,
    /// How keys are spread over them.
    pub distribution: Distribution,
}

impl Load {
    /// sysbench's options for its tables; everything else is as usual.
    pub fn options(&self) -> Options {
        let Self { tables, table_size, distribution, .. } = *self;
        Options { tables, table_size, distribution, ..Options::default() }
    }
}

/// How each trial finds the data and the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reset {
    pub data: Data,
    pub every: Every,
    /// Whether dirty pages are written before each trial, so that none inherits those of the one before.
    pub drain: bool,
    /// Whether the workload's tables are read once after the settings are applied: the same cache for each.
    pub fill: bool,
}

/// What is done to have the same data again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Data {
    /// Nothing: the workload leaves as many rows as it finds.
    Keep,
    /// The workload's tables are made anew, from the same seed.
    Tables,
    /// A program does it: it may stop the server, put a prepared data directory back and start it.
    Program(String),
}

/// How often.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Every {
    Block,
    Trial,
}

impl Load {
    /// Every load that is sent, each an experiment of its own.
    pub fn points(&self) -> Vec<Point> {
        let threads = self.threads.iter().map(|clients| Point { clients: *clients, rate: None });
        let rates = self.rates.iter().map(|rate| Point { clients: self.clients, rate: Some(*rate) });
        threads.chain(rates).collect()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// The most transactions at a time.
    pub clients: u32,
    /// Transactions a second in an open loop; `None` is a closed loop.
    pub rate: Option<f64>,
}

impl Point {
    pub fn words(self) -> String {
        match self.rate {
            None => format!("{} threads, closed loop", self.clients),
            Some(rate) => format!("{rate} transactions a second, open loop"),
        }
    }
}

/// When a cell is given up.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Guard {
    /// Its p99 is above this many times the baseline's.
    pub latency: f64,
    /// So large a share of its transactions fails, beyond the baseline's.
    pub errors: f64,
    /// So large a share of the memory is in use, of the host's or of what the server's cgroup may have.
    pub memory: f64,
    /// A measurement is void when the hypervisor took more of the CPU.
    pub steal: f64,
}

impl Default for Guard {
    fn default() -> Self {
        Self { latency: 2.0, errors: 0.01, memory: 0.9, steal: 0.05 }
    }
}

/// How cells are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Every combination.
    Full,
    /// Two levels each, a fraction of the combinations.
    PlackettBurman {
        /// With every cell once more, all levels swapped.
        folded: bool,
    },
    /// Half of the combinations: those with an even number of factors off their baseline.
    Half,
    /// The baseline with one level changed.
    OneAtATime,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Factor {
    /// The knob with its target.
    pub knob: String,
    /// Its levels, each once.
    pub levels: Vec<String>,
    /// Which of them is the baseline's.
    pub baseline: usize,
    /// Whether a change is expensive.
    pub whole_plot: bool,
    /// Whether a dangerous level is meant.
    pub danger: bool,
}

/// Levels that must not come together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Constraint {
    /// Factors and their levels, by place.
    pub not: Vec<(usize, usize)>,
}

impl Constraint {
    pub fn excludes(&self, cell: &[usize]) -> bool {
        self.not.iter().all(|(factor, level)| cell.get(*factor) == Some(level))
    }
}

/// Why it is not known which server is tried.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoServer {
    /// Hosts of the spec, and one of the command line.
    #[error("the spec names hosts, each with its server: leave --server out")]
    HostsAndServer,
    /// The spec's is no address.
    #[error("server = \"{text}\": {source}")]
    NoAddress { text: String, source: AddressError },
    /// Neither the spec nor the command line names one.
    #[error("nothing says which server; name one with --server, or server = in the spec")]
    NotNamed,
}

impl NoServer {
    /// Whose fault it is: whoever wrote the spec or the command line.
    pub fn blame(&self) -> Blame {
        Blame::Config
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    name: Spanned<String>,
    metric: Metric,
    smallest_effect: Option<Spanned<f64>>,
    level: Option<Spanned<f64>>,
    budget: Option<Spanned<String>>,
    seed: Option<u64>,
    server: Option<Spanned<String>>,
    managed: Option<Spanned<String>>,
    #[serde(default)]
    host: Vec<Spanned<RawHost>>,
    load: RawLoad,
    #[serde(default)]
    reset: RawReset,
    guard: Option<Spanned<Guard>>,
    #[serde(default)]
    timing: RawTiming,
    design: Option<RawDesign>,
    factor: Option<Spanned<Vec<RawFactor>>>,
    #[serde(default)]
    exclude: Vec<Spanned<BTreeMap<String, Spanned<RawLevel>>>>,
    stage: Option<Spanned<Vec<Stage>>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawHost {
    name: Spanned<String>,
    server: Spanned<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawLoad {
    workload: Spanned<String>,
    #[serde(default)]
    threads: Vec<Spanned<u32>>,
    #[serde(default)]
    rates: Vec<Spanned<f64>>,
    clients: Option<Spanned<u32>>,
    database: Option<String>,
    tables: Option<Spanned<u32>>,
    table_size: Option<Spanned<u32>>,
    distribution: Option<Spanned<String>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawReset {
    data: Option<Spanned<RawData>>,
    program: Option<Spanned<String>>,
    every: Option<Every>,
    drain: Option<bool>,
    #[serde(default)]
    fill: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum RawData {
    Keep,
    Tables,
    Program,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawTiming {
    reset: Option<Spanned<String>>,
    warm_up: Option<Spanned<String>>,
    measure: Option<Spanned<String>>,
    restart: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawDesign {
    kind: RawKind,
    folded: Option<Spanned<bool>>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum RawKind {
    Full,
    Half,
    PlackettBurman,
    OneAtATime,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFactor {
    knob: Spanned<String>,
    levels: Spanned<Vec<Spanned<RawLevel>>>,
    baseline: Option<Spanned<RawLevel>>,
    #[serde(default)]
    whole_plot: bool,
    #[serde(default)]
    danger: bool,
}

/// A level's text. Most are numbers and switches, and stand without quotes as well.
struct RawLevel(String);

impl<'de> Deserialize<'de> for RawLevel {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(LevelVisitor)
    }
}

struct LevelVisitor;

impl Visitor<'_> for LevelVisitor {
    type Value = RawLevel;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a string, a number, true or false")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<RawLevel, E> {
        Ok(RawLevel(text.to_owned()))
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<RawLevel, E> {
        Ok(RawLevel(value.to_string()))
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<RawLevel, E> {
        Ok(RawLevel(value.to_string()))
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<RawLevel, E> {
        Ok(RawLevel(value.to_string()))
    }

    /// `75.0` stays `75.0`.
    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<RawLevel, E> {
        Ok(RawLevel(format!("{value:?}")))
    }
}

impl Spec {
    /// The first server that is tried: of the first host, else the one that is named, else the file's.
    ///
    /// # Errors
    /// See [`NoServer`].
    pub fn address(&self, named: Option<&Address>) -> Result<Address, NoServer> {
        match (named, &self.server, self.hosts.first()) {
            (Some(_), _, Some(_)) => Err(NoServer::HostsAndServer),
            (None, _, Some(host)) => Ok(host.server.clone()),
            (Some(address), ..) => Ok(address.clone()),
            (None, Some(text), None) => {
                text.parse().map_err(|source| NoServer::NoAddress { text: text.clone(), source })
            }
            (None, None, None) => Err(NoServer::NotNamed),
        }
    }

    /// Reads and checks a file's text; `file` is its name in complaints.
    ///
    /// # Errors
    /// Everything that is wrong, in the order of the file.
    pub fn parse(text: &str, file: &str) -> Result<Self, Complaints> {
        let mut checker = Checker { text, file, complaints: Vec::new() };
        let raw: Raw = match toml::from_str(text) {
            Ok(raw) => raw,
            Err(error) => {
                let span = error.span().unwrap_or(0..0);
                checker.add(&span, error.message().trim().to_owned(), "");
                return Err(checker.into_complaints());
            }
        };
        let spec = checker.spec(raw);
        if checker.complaints.is_empty() { Ok(spec) } else { Err(checker.into_complaints()) }
    }
}

#[cfg(test)]
pub(crate) mod tests;
