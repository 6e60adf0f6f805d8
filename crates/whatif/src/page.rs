//! One page: today's ceilings, what each purchase would buy with its interval and price, ranked, and what was
//! assumed. It is made of the newest answer to each question about one server in the ledger (placement and
//! readers are of all servers), and needs nothing else: no script, no network.
//!
//! Purchases are ranked among those whose headroom is measured in the same unit: a share of one server's load
//! and a share of all reads cannot be compared.

mod html;

pub use html::document;

use crate::baseline::Baseline;
use crate::disks::DisksAnswer;
use crate::estimate::EstimateAnswer;
use crate::ledger::{Answer, Entry, Kind};
use crate::load_answer::LoadAnswer;
use crate::memory::{MemoryAnswer, in_words};
use crate::now::{self, BottleneckNow};
use crate::placement::PlacementAnswer;
use crate::prices::Prices;
use crate::replicas::ReplicasAnswer;
use crate::words::{bytes, figure, interval, percent};
use plan::Interval;
use serde::Serialize;
use std::collections::BTreeSet;
use std::fmt::Write;

/// The newest answers about a server.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// The server, as it was named when it was measured; `None` where none was.
    pub subject: Option<String>,
    /// Other servers that the ledger has answers about.
    pub others: Vec<String>,
    pub load: Option<LoadAnswer>,
    pub memory: Option<MemoryAnswer>,
    pub disks: Option<DisksAnswer>,
    pub estimate: Option<EstimateAnswer>,
    pub placement: Option<PlacementAnswer>,
    pub replicas: Option<ReplicasAnswer>,
    /// What stops the server today, where that was asked.
    pub now: Vec<BottleneckNow>,
    /// By unit; within one the most headroom for its price first, then what has no price.
    pub purchases: Vec<Purchase>,
    pub currency: String,
    /// Answers that cannot be read, with the reason.
    pub unread: Vec<String>,
    #[serde(skip)]
    entries: Vec<Entry>,
}

/// Something that could be bought.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Purchase {
    pub what: String,
    /// For what it is bought: a server, or all readers.
    pub subject: String,
    /// In `unit`; `None` where it is measured in something else.
    pub headroom: Option<Interval>,
    /// Of the headroom: rows of the same unit can be compared.
    pub unit: Option<String>,
    /// In words.
    pub buys: String,
    /// A month.
    pub price: Option<f64>,
    /// Headroom for each unit of the price.
    pub per_price: Option<f64>,
}

impl Report {
    /// From the ledger and the user's prices, about one server: the one that is named, else that of the
    /// newest answer about more load, else of the newest answer about any.
    pub fn new(entries: Vec<Entry>, prices: &Prices, subject: Option<&str>) -> Self {
        let of_server = |entry: &&Entry| !matches!(entry.kind, Kind::Placement | Kind::Replicas);
        let servers = || entries.iter().rev().filter(of_server);
        let usual = servers().find(|entry| entry.kind == Kind::Load).or_else(|| servers().next());
        let subject = subject.or_else(|| usual.map(|entry| &*entry.subject)).map(str::to_owned);
        let others: BTreeSet<&String> =
            servers().map(|entry| &entry.subject).filter(|other| Some(*other) != subject.as_ref()).collect();
        let others = others.into_iter().cloned().collect();
        let mut report = Self { currency: prices.currency.clone(), others, ..Self::default() };
        let newest = |kind: Kind| {
            let own = |entry: &&Entry| {
                entry.kind == kind && (!of_server(entry) || Some(&entry.subject) == subject.as_ref())
            };
            entries.iter().rev().find(own).map(|entry| entry.answer.clone())
        };
        let mut unread = Vec::new();
        report.load = newest(Kind::Load).and_then(|json| of(json, "more load", &mut unread));
        report.memory = newest(Kind::Memory).and_then(|json| of(json, "memory", &mut unread));
        report.disks = newest(Kind::Disks).and_then(|json| of(json, "another disk", &mut unread));
        report.estimate = newest(Kind::Estimate).and_then(|json| of(json, "an estimate", &mut unread));
        report.placement = newest(Kind::Placement).and_then(|json| of(json, "placement", &mut unread));
        report.replicas = newest(Kind::Replicas).and_then(|json| of(json, "replicas", &mut unread));
        report.unread = unread;
        report.subject.clone_from(&subject);
        report.entries = entries;
        report.purchases = report.rank(prices);
        report
    }

    /// With what stops the server today.
    #[must_use]
    pub fn beside(mut self, now: Vec<BottleneckNow>) -> Self {
        self.now = now::about(self.subject.as_deref(), now);
        self
    }

    /// What the models on this page take to hold, each with the question that it answers.
    pub fn assumptions(&self) -> Vec<(&'static str, Vec<String>)> {
        fn of(answer: Option<&impl Answer>) -> Vec<String> {
            answer.map(Answer::assumptions).unwrap_or_default()
        }
        let all = [
            ("More load, more cores", of(self.load.as_ref())),
            ("Memory", of(self.memory.as_ref())),
            ("Memory, estimated", of(self.estimate.as_ref())),
            ("Another disk", of(self.disks.as_ref())),
            ("Readers", of(self.replicas.as_ref())),
            ("Placement", of(self.placement.as_ref())),
        ];
        all.into_iter().filter(|(_, lines)| !lines.is_empty()).collect()
    }

    /// Whether there is nothing to show.
    pub fn is_empty(&self) -> bool {
        !self.has_server() && self.placement.is_none() && self.replicas.is_none()
    }

    /// Whether there is an answer about the server itself, and not of all servers alone.
    pub fn has_server(&self) -> bool {
        self.load.is_some() || self.memory.is_some() || self.disks.is_some() || self.estimate.is_some()
    }

    fn rank(&self, prices: &Prices) -> Vec<Purchase> {
        let mut all = Vec::new();
        let mut add = |what: String, subject: &str, gain: Option<Gain>, buys: String, price: Option<f64>| {
            let headroom = gain.as_ref().map(|gain| gain.headroom);
            let per_price =
                headroom.zip(price.filter(|price| *price > 0.0)).map(|(gain, price)| gain.estimate / price);
            let (subject, unit) = (subject.to_owned(), gain.map(|gain| gain.unit));
            all.push(Purchase { what, subject, headroom, unit, buys, price, per_price });
        };
        if let Some(load) = &self.load {
            let now = load.by_cores.iter().find(|with| with.cores == load.cores);
            // Then the rate at which the cores are full is out of reach, with more of them as without.
            let ends = load.ends_before_the_cores();
            for (with, now) in load
                .by_cores
                .iter()
                .filter(|with| with.cores > load.cores)
                .filter_map(|with| Some((with, now?)))
            {
                let (then, now) = (with.saturation, now.saturation);
                let more_per_s = Interval {
                    low: then.low - now.low,
                    estimate: then.estimate - now.estimate,
                    high: then.high - now.high,
                };
                let more = with.cores - load.cores;
                let buys = format!(
                    "full at {} instead of {} {} a second",
                    interval(&then),
                    interval(&now),
                    load.baseline.unit.many()
                );
                let gain = Gain::of_load(more_per_s, &load.baseline, &load.subject, &load.workload);
                add(
                    format!("{more} more cores"),
                    &load.subject,
                    Some(gain).filter(|_| ends.is_none()),
                    ends.clone().unwrap_or(buys),
                    prices.core.map(|core| core * f64::from(more)),
                );
            }
        }
        if let Some(replicas) = &self.replicas {
            let buys = format!("{} reads a second more at least; writes gain nothing", figure(replicas.each));
            let gain =
                Gain { headroom: replicas.one_more(), unit: "times today's reads of all zones".to_owned() };
            add("1 more reader".to_owned(), &replicas.zones_in_words(), Some(gain), buys, prices.reader);
        }
        if let Some(disks) = &self.disks
            && disks.refused.is_none()
        {
            let gain = disks
                .headroom()
                .map(|more| Gain::of_load(more, &disks.baseline, &disks.subject, &disks.workload));
            add(format!("the disk of {}", disks.other.name), &disks.subject, gain, disks.buys(), prices.disk);
        }
        if let Some(memory) = &self.memory {
            let today = memory.today();
            if today.is_some_and(|today| today.miss_ratio.high < plan::memory::FITS) {
                add(
                    "more buffer pool".to_owned(),
                    &memory.subject,
                    None,
                    "nothing: all that was read fits already".to_owned(),
                    None,
                );
            }
            for row in memory.rows.iter().filter(|row| row.factor > 1.0) {
                let (Some(then), Some(now)) = (row.predicted, today) else { continue };
                if now.miss_ratio.high < plan::memory::FITS {
                    continue;
                }
                let gib = (row.bytes - memory.today_bytes) as f64 / (1_u64 << 30) as f64;
                let buys = format!(
                    "misses {} instead of {}; p99 {} instead of {} ms",
                    percent(&then.miss_ratio),
                    percent(&now.miss_ratio),
                    in_words(then.p99_ms),
                    in_words(now.p99_ms)
                );
                add(
                    format!("{} more buffer pool", bytes(row.bytes - memory.today_bytes)),
                    &memory.subject,
                    memory.more_per_s(&then).map(|more| Gain {
                        headroom: more,
                        unit: format!("transactions a second of {} ({})", memory.subject, memory.workload),
                    }),
                    buys,
                    prices.gib.map(|price| price * gib),
                );
            }
        }
        // A unit stands where its first row did; rows without one are last.
        let mut units: Vec<String> = Vec::new();
        for unit in all.iter().filter_map(|one| one.unit.as_ref()) {
            if !units.contains(unit) {
                units.push(unit.clone());
            }
        }
        let place = |one: &Purchase| {
            one.unit
                .as_ref()
                .and_then(|unit| units.iter().position(|other| other == unit))
                .unwrap_or(units.len())
        };
        all.sort_by(|a, b| {
            let price = |one: &Purchase| one.per_price.unwrap_or(-1.0);
            place(a).cmp(&place(b)).then(price(b).total_cmp(&price(a)))
        });
        all
    }

    /// Purchases whose headroom has the same unit, in the order of [`Self::purchases`].
    fn by_unit(&self) -> impl Iterator<Item = &[Purchase]> {
        self.purchases.chunk_by(|a, b| a.unit == b.unit)
    }

    /// What else there is to show.
    fn and_others(&self) -> String {
        match self.others.as_slice() {
            [] => String::new(),
            others => format!("; --subject shows {} instead", others.join(" or ")),
        }
    }

    /// As text.
    pub fn text(&self) -> String {
        let mut text = String::new();
        if let Some(subject) = &self.subject {
            let _ = writeln!(text, "Of {subject}{}\n", self.and_others());
        }
        for now in &self.now {
            let why = now.why();
            let why = if why.is_empty() { why } else { format!(" ({why})") };
            let _ = writeln!(text, "{} now: {}{why}", now.of, now.verdict);
        }
        text += if self.now.is_empty() { "" } else { "\n" };
        for rows in self.by_unit() {
            if let Some(unit) = &rows[0].unit {
                let _ = writeln!(text, "Headroom in {unit}:");
            }
            let month = if self.currency.is_empty() { "price" } else { &*self.currency };
            let month = format!(">{month} a month");
            let headings = ["purchase", "for", ">headroom", &*month, ">headroom for 100", "what it buys"];
            let mut table = term::Table::new(&headings);
            for one in rows {
                let or = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), figure);
                table.row(vec![
                    one.what.clone(),
                    one.subject.clone(),
                    one.headroom.as_ref().map_or_else(|| "-".to_owned(), added),
                    or(one.price),
                    or(one.per_price.map(|per| per * 100.0)),
                    one.buys.clone(),
                ]);
            }
            text += &table.text();
            text.push('\n');
        }
        text += &self.load.as_ref().map(Answer::text).unwrap_or_default();
        for more in [
            self.memory.as_ref().map(Answer::text),
            self.estimate.as_ref().map(Answer::text),
            self.disks.as_ref().map(Answer::text),
            self.replicas.as_ref().map(Answer::text),
            self.placement.as_ref().map(Answer::text),
        ] {
            text += &more.map(|more| format!("\n{more}")).unwrap_or_default();
        }
        text
    }
}

/// Headroom in its unit.
struct Gain {
    headroom: Interval,
    unit: String,
}

impl Gain {
    /// A higher rate, in the unit of the baseline: as a multiple of today's load where that is known.
    fn of_load(more_per_s: Interval, baseline: &Baseline, subject: &str, workload: &str) -> Self {
        let counted = baseline.unit.many();
        match baseline.times(&more_per_s) {
            Some(headroom) => {
                let today = figure(baseline.per_s.estimate);
                let unit = format!("times today's {today} {counted} a second of {subject} ({workload})");
                Self { headroom, unit }
            }
            None => Self {
                headroom: more_per_s,
                unit: format!("{counted} a second of {subject} ({workload}); today's load is not known"),
            },
        }
    }
}

/// Headroom that is added: with its interval, or where the lower end of what was measured went in, at least
/// that.
fn added(gain: &Interval) -> String {
    if gain.high <= 0.0 {
        "none".to_owned()
    } else if gain.low < gain.high {
        format!("+{}", interval(gain))
    } else {
        format!("at least +{}", figure(gain.low))
    }
}

fn of<T: serde::de::DeserializeOwned>(
    json: serde_json::Value,
    what: &str,
    unread: &mut Vec<String>,
) -> Option<T> {
    match serde_json::from_value(json) {
        Ok(answer) => Some(answer),
        Err(error) => {
            unread.push(format!(
                "the last answer about {what} was kept by another version and cannot be read: {error}"
            ));
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::baseline::BaselineSource;
    use crate::load_answer::{self, Law, LoadQuestion};
    use crate::load_point::LoadPoint;
    use plan::replicas::Question;

    fn entry(kind: Kind, answer: serde_json::Value) -> Entry {
        Entry {
            at: 1,
            kind,
            subject: "db1".into(),
            workload: "w".into(),
            predictions: vec![],
            seen: vec![],
            answer,
        }
    }

    #[test]
    fn purchases_are_ranked_by_headroom_for_their_price_and_unpriced_ones_come_last() {
        let zones = vec![("<a>".to_owned(), 400.0), ("b".to_owned(), 400.0)];
        let question = Question { zones, reader_per_s: 400.0, apply_share: 0.0, fill: 1.0 };
        let prices = Prices { reader: Some(250.0), currency: "EUR".into(), ..Prices::default() };
        let answer =
            crate::replicas::answer(&question, &crate::replicas::Context::default(), &prices).unwrap();
        let entries = vec![
            entry(Kind::Replicas, serde_json::to_value(&answer).unwrap()),
            entry(Kind::Load, serde_json::json!({"old": 1})),
        ];
        let report = Report::new(entries, &prices, None);
        assert_eq!(report.purchases[0].per_price, Some(0.5 / 250.0));
        let page = report.html();
        assert!(page.contains("1 more reader") && page.contains("EUR a month"));
        assert!(!page.contains("<a>"), "names are escaped");
        assert!(page.contains("kept by another version"));
    }

    fn ladder(subject: &str, baseline: Baseline) -> Entry {
        let seen = |rate: f64| {
            let mean_ms = 1e3 * (0.002 + plan::queue::mean_wait(rate, 0.002, 2));
            let (at_work, busy) = (rate * mean_ms / 1e3, Some(rate * 0.001));
            LoadPoint { per_s: rate, mean_ms, at_work, busy, ..LoadPoint::default() }
        };
        let points = [100.0, 200.0, 300.0, 400.0, 500.0].map(|rate| [seen(rate * 0.99), seen(rate)]);
        let question = LoadQuestion {
            subject: subject.into(),
            workload: "w".into(),
            cores: 2,
            baseline,
            growths: vec![1.0],
            cores_then: vec![4],
            objective_ms: None,
            notes: Vec::new(),
        };
        let answer = load_answer::answer(&question, points.into_iter().flatten().collect());
        assert!(answer.says_something(), "{}", answer.text());
        Entry { subject: subject.into(), ..entry(Kind::Load, serde_json::to_value(&answer).unwrap()) }
    }

    #[test]
    fn cores_buy_no_headroom_where_something_else_ends_the_load_before_them() {
        let mut entry = ladder("db1", Baseline::named(400.0));
        let mut answer: LoadAnswer = serde_json::from_value(entry.answer.clone()).unwrap();
        let most = Interval { low: 300.0, estimate: 305.0, high: 310.0 };
        answer.law = Some(Law {
            parameters: [most; 3],
            most: Some((most, 4.0)),
            curve: Vec::new(),
            scatter: 0.01,
            open: true,
        });
        entry.answer = serde_json::to_value(&answer).unwrap();
        let prices = Prices { core: Some(11.0), ..Prices::default() };
        let report = Report::new(vec![entry], &prices, None);
        let one = &report.purchases[0];
        assert!(one.what == "2 more cores" && one.headroom.is_none() && one.per_price.is_none(), "{one:?}");
        assert!(report.html().contains("something else runs out first"), "{one:?}");
    }

    #[test]
    fn without_todays_load_gains_are_in_transactions_a_second_and_name_the_server() {
        let sent = Baseline::of(500.0, BaselineSource::HighestSent);
        let report = Report::new(vec![ladder("db1", sent)], &Prices::default(), None);
        let one = &report.purchases[0];
        assert!(one.headroom.unwrap().estimate > 500.0, "{one:?}");
        assert!(one.unit.as_ref().unwrap().starts_with("transactions a second of db1"), "{one:?}");
        let page = report.html();
        assert!(!page.contains("times today"), "{page}");
        assert!(page.contains("the highest rate sent was 500") && page.contains("cores of db1"), "{page}");
    }

    fn pool(closed: bool) -> Entry {
        let at = |mib: u64, misses: f64, per_s: f64| plan::memory::Measured {
            bytes: mib << 20,
            miss_ratio: vec![misses; 3],
            p99_ms: vec![2.0 + 40.0 * misses; 3],
            per_s: vec![per_s, per_s * 1.01, per_s * 0.99],
            requests_each: 50.0,
            steady: true,
        };
        let sizes = vec![at(64, 0.4, 100.0), at(128, 0.2, 180.0), at(256, 0.05, 400.0)];
        let measurement =
            crate::memory::Measurement { sizes, today_bytes: 128 << 20, notes: Vec::new(), is_back: true };
        let answer = crate::memory::answer("db1".into(), "w, 8 clients".into(), measurement).unwrap();
        entry(Kind::Memory, serde_json::to_value(MemoryAnswer { closed, ..answer }).unwrap())
    }

    #[test]
    fn memory_is_ranked_by_what_a_closed_loop_got_done_more() {
        let prices = Prices { gib: Some(4.0), ..Prices::default() };
        let report = Report::new(vec![pool(true)], &prices, None);
        let double = report.purchases.iter().find(|one| one.what == "128 MiB more buffer pool").unwrap();
        let gain = double.headroom.unwrap();
        assert!((gain.estimate - 220.0).abs() < 1.0, "{gain:?}");
        assert!(gain.low < gain.estimate && gain.estimate < gain.high, "{gain:?}");
        assert_eq!(double.unit.as_deref(), Some("transactions a second of db1 (w, 8 clients)"));
        // An eighth of a GiB at 4 is 0.5 a month.
        assert!((double.per_price.unwrap() - gain.estimate / 0.5).abs() < 1e-9);
        let best = report.purchases.first().unwrap().per_price;
        assert!(report.purchases.iter().all(|one| one.per_price <= best));
        // At a rate that is given the same gets done at every size.
        let report = Report::new(vec![pool(false)], &prices, None);
        assert!(report.purchases.iter().all(|one| one.headroom.is_none()), "{:?}", report.purchases);
    }

    #[test]
    fn the_page_says_what_stops_the_server_now_and_what_each_of_its_models_assumes() {
        let now = BottleneckNow {
            of: "db1".into(),
            verdict: "the disk (certain)".into(),
            evidence: vec!["busy 97 % (counts from 85 %)".into()],
            next: Some("a larger buffer pool".into()),
        };
        let other = BottleneckNow { of: "db2".into(), ..BottleneckNow::default() };
        let report =
            Report::new(vec![pool(true), ladder("db1", Baseline::named(400.0))], &Prices::default(), None);
        let report = report.beside(vec![now, other]);
        let (page, text) = (report.html(), report.text());
        for said in
            ["What stops db1 now", "the disk (certain)", "busy 97 %", "try next: a larger buffer pool"]
        {
            assert!(page.contains(said), "{said}");
        }
        assert!(text.contains("db1 now: the disk (certain) (busy 97 %") && !text.contains("db2"), "{text}");
        let of: Vec<&str> = report.assumptions().iter().map(|(of, _)| *of).collect();
        assert_eq!(of, ["More load, more cores", "Memory"]);
        assert!(page.contains("<h3>Memory</h3>") && page.contains("more clients may get more"), "{page}");
    }

    #[test]
    fn one_more_reader_has_both_ends_of_what_was_measured_of_one() {
        let zones = vec![("a".to_owned(), 400.0), ("b".to_owned(), 400.0)];
        let question = Question { zones, reader_per_s: 400.0, apply_share: 0.0, fill: 1.0 };
        let of = |reader_at_most: Option<f64>| {
            let context = crate::replicas::Context { reader_at_most, ..Default::default() };
            let answer = crate::replicas::answer(&question, &context, &Prices::default()).unwrap();
            let entry = entry(Kind::Replicas, serde_json::to_value(&answer).unwrap());
            Report::new(vec![entry], &Prices::default(), None)
        };
        let report = of(Some(480.0));
        let gain = report.purchases[0].headroom.unwrap();
        assert!((gain.low - 0.5).abs() < 1e-9 && (gain.high - 0.6).abs() < 1e-9, "{gain:?}");
        assert!(report.text().contains("adds 55.0 (50.0 to 60.0) % of today's reads"), "{}", report.text());
        assert!(of(None).text().contains("at least +0.500"), "{}", of(None).text());
    }

    #[test]
    fn rows_are_ranked_within_their_unit_and_answers_of_other_servers_stay_out() {
        let zones = vec![("a".to_owned(), 400.0), ("b".to_owned(), 400.0)];
        let question = Question { zones, reader_per_s: 400.0, apply_share: 0.0, fill: 1.0 };
        let prices = Prices { reader: Some(1.0), core: Some(1e6), ..Prices::default() };
        let readers =
            crate::replicas::answer(&question, &crate::replicas::Context::default(), &prices).unwrap();
        let readers = entry(Kind::Replicas, serde_json::to_value(&readers).unwrap());
        let entries =
            vec![ladder("db2", Baseline::named(100.0)), ladder("db1", Baseline::named(400.0)), readers];
        let report = Report::new(entries.clone(), &prices, None);
        assert_eq!(
            (report.subject.as_deref(), report.others.as_slice()),
            (Some("db1"), &["db2".to_owned()][..])
        );
        let units: Vec<_> = report.purchases.iter().map(|one| one.unit.clone().unwrap()).collect();
        assert!(units[0].contains("today's 400 transactions a second of db1"), "{units:?}");
        assert!(units[1].contains("reads of all zones"), "cheap readers do not pass another unit: {units:?}");
        assert_eq!(Report::new(entries, &prices, Some("db2")).load.unwrap().subject, "db2");
    }
}
