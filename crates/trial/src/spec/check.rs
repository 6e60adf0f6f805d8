//! What is wrong with an experiment's file, each with its place; and what is left out, as it is meant.

use super::{
    Constraint, Data, Every, Factor, Guard, HOST, Kind, Load, Raw, RawData, RawDesign, RawFactor, RawHost,
    RawKind, RawLevel, RawLoad, RawReset, RawTiming, Reset, Spec, TrialHost,
};
use crate::cost::Timing;
use crate::halving::Stage;
use config::{Complaint, Complaints};
use knob::{Host, name};
use load::distribution::Distribution;
use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;
use toml::Spanned;

/// The file's text and what is wrong with it.
pub(super) struct Checker<'a> {
    pub(super) text: &'a str,
    pub(super) file: &'a str,
    pub(super) complaints: Vec<(usize, Complaint)>,
}

impl Checker<'_> {
    pub(super) fn add(&mut self, span: &Range<usize>, wrong: impl Into<String>, right: impl Into<String>) {
        let before = self.text.get(..span.start).unwrap_or(self.text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        let (file, wrong, right) = (self.file.to_owned(), wrong.into(), right.into());
        self.complaints.push((span.start, Complaint { file, line, column, wrong, right }));
    }

    pub(super) fn into_complaints(mut self) -> Complaints {
        self.complaints.sort_by_key(|(at, _)| *at);
        Complaints(self.complaints.into_iter().map(|(_, complaint)| complaint).collect())
    }

    pub(super) fn spec(&mut self, raw: Raw) -> Spec {
        if raw.name.get_ref().trim().is_empty() {
            self.add(&raw.name.span(), "the name is empty", "name = \"block layer\"");
        }
        let hosts = self.hosts(&raw);
        let smallest_effect = self.share(raw.smallest_effect, 0.03, 0.5);
        let level = self.share(raw.level, 0.05, 0.5);
        let budget = raw.budget.and_then(|text| self.length(&text));
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

    /// A time in which something is done.
    fn length(&mut self, text: &Spanned<String>) -> Option<Duration> {
        let length = self.duration(text)?;
        if length.is_zero() {
            self.add(&text.span(), "nothing is measured in no time", "a time such as \"90s\" or \"100m\"");
            return None;
        }
        Some(length)
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
        self.once(&raw.threads, "threads");
        self.once(&raw.rates, "transactions a second");
        let clients = self.count(raw.clients, "clients", 64);
        let tables = self.count(raw.tables, "tables", 1);
        let table_size = self.count(raw.table_size, "rows", 10_000);
        let threads = raw.threads.into_iter().map(Spanned::into_inner).collect();
        let rates = raw.rates.into_iter().map(Spanned::into_inner).collect();
        Load {
            workload: raw.workload.into_inner(),
            threads,
            rates,
            clients,
            database: raw.database.unwrap_or_else(|| "sbtest".to_owned()),
            tables,
            table_size,
            distribution: raw.distribution.map_or(Distribution::Special, |name| self.distribution(&name)),
        }
    }

    /// Each load is an experiment of its own: the same one twice is a slip.
    fn once<T: PartialEq + std::fmt::Display>(&mut self, all: &[Spanned<T>], what: &str) {
        for (at, one) in all.iter().enumerate() {
            if all[..at].iter().any(|other| other.get_ref() == one.get_ref()) {
                self.add(&one.span(), format!("{} {what} stand twice", one.get_ref()), "each load once");
            }
        }
    }

    fn count(&mut self, given: Option<Spanned<u32>>, what: &str, default: u32) -> u32 {
        let Some(given) = given else { return default };
        if *given.get_ref() == 0 {
            self.add(&given.span(), format!("0 {what}"), format!("1 or more, or nothing for {default}"));
        }
        (*given.get_ref()).max(1)
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
        let measure = raw.measure.and_then(|text| self.length(&text)).unwrap_or(Duration::from_secs(30));
        let mut time = |text: Option<Spanned<String>>, seconds: u64| {
            text.and_then(|text| self.duration(&text)).unwrap_or(Duration::from_secs(seconds))
        };
        Timing {
            reset: time(raw.reset, 5),
            warm_up: time(raw.warm_up, 15),
            measure,
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
                    "server.VARIABLE; set the hosts' own before, by headroom knob set --keep on each, or run \
                     the spec on each host without [[host]] and hold both beside each other by headroom trial \
                     compare",
                );
            }
            if !hosts.is_empty() && factor.whole_plot {
                self.add(
                    &factor.knob.span(),
                    format!("{knob} needs a restart, and servers of several hosts are not restarted"),
                    "a variable that can be set while the server runs; or run the spec on each host without \
                     [[host]] and hold both beside each other by headroom trial compare",
                );
            }
            if factors.iter().any(|other| is_one_knob(&other.knob, knob)) {
                self.add(
                    &factor.knob.span(),
                    format!("{knob} is varied twice"),
                    "one [[factor]] with all levels",
                );
            }
            let mut levels: Vec<String> = Vec::new();
            for level in factor.levels.get_ref() {
                let RawLevel(text) = level.get_ref();
                if let Some(other) = levels.iter().find(|other| is_same(knob, other, text)) {
                    let wrong = match other == text {
                        true => format!("the level {other} stands twice"),
                        false => format!("the levels {other} and {text} are the same value"),
                    };
                    self.add(&level.span(), wrong, "each level once");
                }
                levels.push(text.clone());
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
                    let RawLevel(text) = named.get_ref();
                    levels.iter().position(|level| level == text).unwrap_or_else(|| {
                        let right = format!("one of {}", levels.join(", "));
                        self.add(&named.span(), format!("the baseline {text} is no level"), right);
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
        raw: &Spanned<BTreeMap<String, Spanned<RawLevel>>>,
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
            let RawLevel(text) = level.get_ref();
            match factors[at].levels.iter().position(|one| one == text) {
                Some(level) => not.push((at, level)),
                None => {
                    let right = format!("one of {}", factors[at].levels.join(", "));
                    self.add(&level.span(), format!("{text} is no level of {knob}"), right);
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

/// Whether two names are one knob: to a server, case is nothing.
fn is_one_knob(one: &str, other: &str) -> bool {
    let nowhere = Host::new("/nowhere");
    let spelled = |text: &str| name::parse(&nowhere, text).ok().map(|name| name.to_string());
    one == other || spelled(one).is_some_and(|one| spelled(other) == Some(one))
}

/// Whether two levels are one value: to a server ON is 1, and 1M is 1048576.
fn is_same(knob: &str, one: &str, other: &str) -> bool {
    one == other || (knob.starts_with("server.") && knob::server::is_same_value(one, other))
}
