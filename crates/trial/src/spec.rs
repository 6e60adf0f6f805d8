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
//! memory = 0.9                   # share of the host's memory in use
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

use crate::cost::Timing;
use crate::halving::Stage;
use crate::verdict::Good;
use config::{Complaint, Complaints};
use fleet::Address;
use load::distribution::Distribution;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::Range;
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
    /// So large a share of the host's memory is in use.
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
    exclude: Vec<Spanned<BTreeMap<String, Spanned<String>>>>,
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
    clients: Option<u32>,
    database: Option<String>,
    tables: Option<u32>,
    table_size: Option<u32>,
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
    levels: Spanned<Vec<Spanned<String>>>,
    baseline: Option<Spanned<String>>,
    #[serde(default)]
    whole_plot: bool,
    #[serde(default)]
    danger: bool,
}

impl Spec {
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

struct Checker<'a> {
    text: &'a str,
    file: &'a str,
    complaints: Vec<(usize, Complaint)>,
}

impl Checker<'_> {
    fn add(&mut self, span: &Range<usize>, wrong: impl Into<String>, right: impl Into<String>) {
        let before = self.text.get(..span.start).unwrap_or(self.text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        let (file, wrong, right) = (self.file.to_owned(), wrong.into(), right.into());
        self.complaints.push((span.start, Complaint { file, line, column, wrong, right }));
    }

    fn into_complaints(mut self) -> Complaints {
        self.complaints.sort_by_key(|(at, _)| *at);
        Complaints(self.complaints.into_iter().map(|(_, complaint)| complaint).collect())
    }

    fn spec(&mut self, raw: Raw) -> Spec {
        if raw.name.get_ref().trim().is_empty() {
            self.add(&raw.name.span(), "the name is empty", "name = \"block layer\"");
        }
        let hosts = self.hosts(&raw);
        let smallest_effect = self.share(raw.smallest_effect, 0.03, 0.5);
        let level = self.share(raw.level, 0.05, 0.5);
        let budget = raw.budget.and_then(|text| self.duration(&text));
        let load = self.load(raw.load);
        let reset = self.reset(raw.reset);
        let guard = self.guard(raw.guard);
        let timing = self.timing(raw.timing);
        let design = self.design(raw.design);
        let mut factors = self.factors(raw.factor.as_ref(), &raw.name.span(), &hosts);
        if !hosts.is_empty() {
            let levels = hosts.iter().map(|host| host.name.clone()).collect();
            let host =
                Factor { knob: HOST.to_owned(), levels, baseline: 0, whole_plot: false, danger: false };
            factors.insert(0, host);
        }
        let constraints =
            raw.exclude.iter().filter_map(|exclude| self.constraint(exclude, &factors)).collect();
        let stages = raw.stage.map(|stages| self.stages(stages));
        let (name, metric, seed) = (raw.name.into_inner(), raw.metric, raw.seed.unwrap_or(1));
        let (server, managed) = (raw.server.map(Spanned::into_inner), raw.managed.map(Spanned::into_inner));
        Spec {
            name,
            metric,
            smallest_effect,
            level,
            budget,
            seed,
            server,
            hosts,
            managed,
            load,
            reset,
            guard,
            timing,
            design,
            factors,
            constraints,
            stages,
        }
    }

    fn share(&mut self, value: Option<Spanned<f64>>, default: f64, most: f64) -> f64 {
        let Some(value) = value else { return default };
        let share = *value.get_ref();
        if !(share > 0.0 && share < most) {
            self.add(
                &value.span(),
                format!("{share} is not between 0 and {most}"),
                format!("a share such as {default}"),
            );
        }
        share
    }

    fn duration(&mut self, text: &Spanned<String>) -> Option<Duration> {
        match fleet::parse_duration(text.get_ref()) {
            Ok(duration) => Some(duration),
            Err(wrong) => {
                self.add(&text.span(), wrong.to_string(), "a time such as \"90s\" or \"100m\"");
                None
            }
        }
    }

    fn load(&mut self, raw: RawLoad) -> Load {
        if raw.threads.is_empty() && raw.rates.is_empty() {
            self.add(
                &raw.workload.span(),
                "neither threads nor rates say how much is sent",
                "threads = [16, 32]",
            );
        }
        for threads in raw.threads.iter().filter(|threads| !(1..=100_000).contains(threads.get_ref())) {
            self.add(&threads.span(), format!("{} threads", threads.get_ref()), "1 to 100000");
        }
        for rate in raw.rates.iter().filter(|rate| !(*rate.get_ref() > 0.0 && rate.get_ref().is_finite())) {
            self.add(&rate.span(), format!("a rate of {}", rate.get_ref()), "transactions a second, above 0");
        }
        let threads = raw.threads.into_iter().map(Spanned::into_inner).collect();
        let rates = raw.rates.into_iter().map(Spanned::into_inner).collect();
        Load {
            workload: raw.workload.into_inner(),
            threads,
            rates,
            clients: raw.clients.unwrap_or(64).max(1),
            database: raw.database.unwrap_or_else(|| "sbtest".to_owned()),
            tables: raw.tables.unwrap_or(1).max(1),
            table_size: raw.table_size.unwrap_or(10_000).max(1),
            distribution: raw.distribution.map_or(Distribution::Special, |name| self.distribution(&name)),
        }
    }

    fn distribution(&mut self, name: &Spanned<String>) -> Distribution {
        Distribution::named(name.get_ref()).unwrap_or_else(|| {
            let wrong = format!("{} is no distribution of keys", name.get_ref());
            self.add(&name.span(), wrong, "uniform, gaussian, special, pareto or zipfian");
            Distribution::Special
        })
    }

    fn reset(&mut self, raw: RawReset) -> Reset {
        let every = raw.every.unwrap_or(Every::Block);
        let (drain, fill) = (raw.drain.unwrap_or(true), raw.fill);
        let named = raw.data.as_ref().map(|data| *data.get_ref());
        let data = match (named, raw.program) {
            (None, None) | (Some(RawData::Keep), None) => Data::Keep,
            (Some(RawData::Tables), None) => Data::Tables,
            (None | Some(RawData::Program), Some(program)) => Data::Program(program.into_inner()),
            (Some(RawData::Keep | RawData::Tables), Some(program)) => {
                self.add(&program.span(), "data says another way than this program", "data = \"program\"");
                Data::Keep
            }
            (Some(RawData::Program), None) => {
                let span = raw.data.map_or(0..0, |data| data.span());
                self.add(&span, "nothing says which program", "program = \"/usr/local/bin/restore-data\"");
                Data::Keep
            }
        };
        Reset { data, every, drain, fill }
    }

    fn guard(&mut self, raw: Option<Spanned<Guard>>) -> Guard {
        let Some(raw) = raw else { return Guard::default() };
        let guard = *raw.get_ref();
        let share = |value: f64| value > 0.0 && value <= 1.0;
        if !(guard.latency > 1.0 && share(guard.errors) && share(guard.memory) && share(guard.steal)) {
            self.add(
                &raw.span(),
                "these guards stop everything or nothing",
                "latency above 1; errors, memory and steal are shares up to 1",
            );
        }
        guard
    }

    fn timing(&mut self, raw: RawTiming) -> Timing {
        let mut time = |text: Option<Spanned<String>>, seconds: u64| {
            text.and_then(|text| self.duration(&text)).unwrap_or(Duration::from_secs(seconds))
        };
        Timing {
            reset: time(raw.reset, 5),
            warm_up: time(raw.warm_up, 15),
            measure: time(raw.measure, 30),
            restart: time(raw.restart, 15),
        }
    }

    fn design(&mut self, raw: Option<RawDesign>) -> Kind {
        let Some(RawDesign { kind, folded }) = raw else { return Kind::Full };
        if let (RawKind::Full | RawKind::Half | RawKind::OneAtATime, Some(folded)) = (kind, &folded) {
            self.add(&folded.span(), "only plackett-burman can be folded", "leave folded out");
        }
        match kind {
            RawKind::Full => Kind::Full,
            RawKind::Half => Kind::Half,
            RawKind::OneAtATime => Kind::OneAtATime,
            RawKind::PlackettBurman => {
                Kind::PlackettBurman { folded: folded.is_none_or(|folded| *folded.get_ref()) }
            }
        }
    }

    fn hosts(&mut self, raw: &Raw) -> Vec<TrialHost> {
        let mut hosts: Vec<TrialHost> = Vec::new();
        for one in &raw.host {
            let RawHost { name, server } = one.get_ref();
            let free = |host: &TrialHost| host.name != *name.get_ref();
            if name.get_ref().trim().is_empty() || !hosts.iter().all(free) {
                self.add(&name.span(), "this name is empty, or another host's", "a name of its own");
            }
            match server.get_ref().parse() {
                Ok(server) => hosts.push(TrialHost { name: name.get_ref().clone(), server }),
                Err(error) => self.add(&server.span(), format!("{error}"), "server = \"10.0.0.8:3306\""),
            }
        }
        let (Some(first), count) = (raw.host.first(), raw.host.len()) else { return hosts };
        if count < 2 {
            self.add(&first.span(), "one host is compared with nothing", "a second [[host]], or server =");
        }
        if let Some(server) = &raw.server {
            self.add(&server.span(), "hosts are named, each with its server", "leave this out");
        }
        if let Some(managed) = &raw.managed {
            self.add(&managed.span(), "servers of several hosts are not restarted", "leave this out");
        }
        hosts
    }

    fn factors(
        &mut self,
        raw: Option<&Spanned<Vec<RawFactor>>>,
        name: &Range<usize>,
        hosts: &[TrialHost],
    ) -> Vec<Factor> {
        let none = raw.is_none_or(|raw| raw.get_ref().is_empty());
        if none && hosts.is_empty() {
            let span = raw.map_or_else(|| name.clone(), Spanned::span);
            self.add(&span, "there is no factor", "at least one [[factor]] with knob and levels");
        }
        let mut factors: Vec<Factor> = Vec::new();
        for factor in raw.iter().flat_map(|raw| raw.get_ref()) {
            let knob = factor.knob.get_ref();
            if knob == HOST {
                self.add(&factor.knob.span(), "hosts are no knob", "name each as a [[host]]");
            }
            if !hosts.is_empty() && !knob.starts_with("server.") {
                self.add(
                    &factor.knob.span(),
                    format!("{knob} is a setting of the machine that Headroom runs on, not of each host"),
                    "server.VARIABLE; set the hosts' own before, by headroom knob set --keep on each",
                );
            }
            if !hosts.is_empty() && factor.whole_plot {
                self.add(
                    &factor.knob.span(),
                    format!("{knob} needs a restart, and servers of several hosts are not restarted"),
                    "a variable that can be set while the server runs",
                );
            }
            if factors.iter().any(|other| other.knob == *knob) {
                self.add(
                    &factor.knob.span(),
                    format!("{knob} is varied twice"),
                    "one [[factor]] with all levels",
                );
            }
            let mut levels: Vec<String> = Vec::new();
            for level in factor.levels.get_ref() {
                if levels.contains(level.get_ref()) {
                    self.add(
                        &level.span(),
                        format!("the level {} stands twice", level.get_ref()),
                        "each level once",
                    );
                }
                levels.push(level.get_ref().clone());
            }
            if levels.len() < 2 {
                self.add(
                    &factor.levels.span(),
                    format!("{knob} has {} level", levels.len()),
                    "at least two levels",
                );
            }
            let baseline = match &factor.baseline {
                None => 0,
                Some(named) => {
                    levels.iter().position(|level| level == named.get_ref()).unwrap_or_else(|| {
                        let right = format!("one of {}", levels.join(", "));
                        self.add(
                            &named.span(),
                            format!("the baseline {} is no level", named.get_ref()),
                            right,
                        );
                        0
                    })
                }
            };
            let (whole_plot, danger) = (factor.whole_plot, factor.danger);
            factors.push(Factor { knob: knob.clone(), levels, baseline, whole_plot, danger });
        }
        factors
    }

    fn constraint(
        &mut self,
        raw: &Spanned<BTreeMap<String, Spanned<String>>>,
        factors: &[Factor],
    ) -> Option<Constraint> {
        let mut not = Vec::new();
        for (knob, level) in raw.get_ref() {
            let factor = factors.iter().position(|factor| factor.knob == *knob);
            let Some(at) = factor else {
                let knobs: Vec<&str> = factors.iter().map(|factor| factor.knob.as_str()).collect();
                self.add(
                    &level.span(),
                    format!("{knob} is no factor"),
                    format!("one of {}", knobs.join(", ")),
                );
                continue;
            };
            match factors[at].levels.iter().position(|one| one == level.get_ref()) {
                Some(level) => not.push((at, level)),
                None => {
                    let right = format!("one of {}", factors[at].levels.join(", "));
                    self.add(&level.span(), format!("{} is no level of {knob}", level.get_ref()), right);
                }
            }
        }
        if raw.get_ref().is_empty() {
            self.add(
                &raw.span(),
                "it excludes every cell",
                "factors with the levels that must not come together",
            );
        }
        (!not.is_empty()).then_some(Constraint { not })
    }

    fn stages(&mut self, raw: Spanned<Vec<Stage>>) -> Vec<Stage> {
        let stages = raw.get_ref();
        let shrink = stages.windows(2).all(|pair| pair[1].cells <= pair[0].cells);
        let sound = stages.iter().all(|stage| stage.cells > 0 && stage.blocks > 0);
        if !shrink || !sound || stages.last().is_none_or(|last| last.blocks < 3) {
            let right = "stages of fewer and fewer cells, the last with at least 3 blocks";
            self.add(&raw.span(), "these stages lead to no verdict", right);
        }
        raw.into_inner()
    }
}

#[cfg(test)]
pub(crate) mod tests;
