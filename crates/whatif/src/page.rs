//! One page: today's ceilings, what each purchase would buy with its interval and price, ranked, and what was
//! assumed. It is made of the newest answer to each question in the ledger, and needs nothing else: no
//! script, no network.

use crate::disks::DisksAnswer;
use crate::estimate::EstimateAnswer;
use crate::ledger::{Answer, Entry, Kind};
use crate::load_answer::LoadAnswer;
use crate::memory::MemoryAnswer;
use crate::outcome::check;
use crate::placement::PlacementAnswer;
use crate::prices::Prices;
use crate::replicas::ReplicasAnswer;
use crate::words::{bytes, figure, interval, percent};
use chart::{Bars, Line, Lines, escape};
use plan::Interval;
use serde::Serialize;
use std::fmt::Write;

const STYLE: &str = include_str!("page.css");

/// The newest answers.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    pub load: Option<LoadAnswer>,
    pub memory: Option<MemoryAnswer>,
    pub disks: Option<DisksAnswer>,
    pub estimate: Option<EstimateAnswer>,
    pub placement: Option<PlacementAnswer>,
    pub replicas: Option<ReplicasAnswer>,
    /// Ranked: the most headroom for its price first, then what has no price.
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
    /// Of today's load; `None` where it is measured in something else.
    pub headroom: Option<Interval>,
    /// In words.
    pub buys: String,
    /// A month.
    pub price: Option<f64>,
    /// Headroom for each unit of the price.
    pub per_price: Option<f64>,
}

/// A page of its own around this body: style and all, no script, no network.
pub fn document(title: &str, body: &str) -> String {
    let title = escape(title);
    format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <title>{title}</title><style>{STYLE}{}</style><h1>{title}</h1>\n{body}",
        chart::STYLE
    )
}

impl Report {
    /// From the ledger and the user's prices.
    pub fn new(entries: Vec<Entry>, prices: &Prices) -> Self {
        let mut report = Self { currency: prices.currency.clone(), ..Self::default() };
        let newest = |kind: Kind| {
            entries.iter().rev().find(|entry| entry.kind == kind).map(|entry| entry.answer.clone())
        };
        let mut unread = Vec::new();
        report.load = newest(Kind::Load).and_then(|json| of(json, "more load", &mut unread));
        report.memory = newest(Kind::Memory).and_then(|json| of(json, "memory", &mut unread));
        report.disks = newest(Kind::Disks).and_then(|json| of(json, "another disk", &mut unread));
        report.estimate = newest(Kind::Estimate).and_then(|json| of(json, "an estimate", &mut unread));
        report.placement = newest(Kind::Placement).and_then(|json| of(json, "placement", &mut unread));
        report.replicas = newest(Kind::Replicas).and_then(|json| of(json, "replicas", &mut unread));
        report.unread = unread;
        report.entries = entries;
        report.purchases = report.rank(prices);
        report
    }

    /// Whether there is nothing to show.
    pub fn is_empty(&self) -> bool {
        let measured =
            self.load.is_some() || self.memory.is_some() || self.disks.is_some() || self.estimate.is_some();
        !measured && self.placement.is_none() && self.replicas.is_none()
    }

    fn rank(&self, prices: &Prices) -> Vec<Purchase> {
        let mut all = Vec::new();
        let mut add = |what: String, headroom: Option<Interval>, buys: String, price: Option<f64>| {
            let per_price =
                headroom.zip(price.filter(|price| *price > 0.0)).map(|(gain, price)| gain.estimate / price);
            all.push(Purchase { what, headroom, buys, price, per_price });
        };
        if let Some(load) = &self.load {
            let now = load.by_cores.iter().find(|with| with.cores == load.cores);
            for (with, now) in load
                .by_cores
                .iter()
                .filter(|with| with.cores > load.cores)
                .filter_map(|with| Some((with, now?)))
            {
                let gain = |then: f64, now: f64| (then - now) / load.today_per_s.max(1e-9);
                let (then, now) = (with.saturation, now.saturation);
                let gain = Interval {
                    low: gain(then.low, now.low),
                    estimate: gain(then.estimate, now.estimate),
                    high: gain(then.high, now.high),
                };
                let more = with.cores - load.cores;
                let buys =
                    format!("full at {} instead of {} a second", figure(then.estimate), figure(now.estimate));
                add(
                    format!("{more} more cores"),
                    Some(gain),
                    buys,
                    prices.core.map(|core| core * f64::from(more)),
                );
            }
        }
        if let Some(replicas) = &self.replicas {
            let gain = replicas.one_more;
            let gain = Interval { low: gain, estimate: gain, high: gain };
            let buys = format!("{} reads a second more; writes gain nothing", figure(replicas.each));
            add("1 more reader".to_owned(), Some(gain), buys, prices.reader);
        }
        if let Some(disks) = &self.disks
            && disks.refused.is_none()
        {
            add(format!("the disk of {}", disks.other.name), disks.headroom(), disks.buys(), prices.disk);
        }
        if let Some(memory) = &self.memory {
            let today =
                memory.rows.iter().find(|row| (row.factor - 1.0).abs() < 1e-9).and_then(|row| row.predicted);
            if today.is_some_and(|today| today.miss_ratio.high < plan::memory::FITS) {
                add(
                    "more buffer pool".to_owned(),
                    None,
                    "nothing: all that is used fits already".to_owned(),
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
                    interval(&then.p99_ms),
                    interval(&now.p99_ms)
                );
                add(
                    format!("{} more buffer pool", bytes(row.bytes - memory.today_bytes)),
                    None,
                    buys,
                    prices.gib.map(|price| price * gib),
                );
            }
        }
        all.sort_by(|a, b| b.per_price.unwrap_or(-1.0).total_cmp(&a.per_price.unwrap_or(-1.0)));
        all
    }

    /// The page.
    pub fn html(&self) -> String {
        let mut page = String::new();
        for why in &self.unread {
            let _ = writeln!(page, "<p class=\"said bad\">{}</p>", escape(why));
        }
        self.today(&mut page);
        self.bought(&mut page);
        self.charts(&mut page);
        self.growth(&mut page);
        self.rest(&mut page);
        document("What would it buy?", &page)
    }

    fn today(&self, page: &mut String) {
        page.push_str("<h2>Today</h2>\n<div class=\"cards\">");
        let mut card = |name: &str, value: String, words: String| {
            let _ = write!(
                page,
                "<div class=\"card{}\">{}<b>{}</b><span class=\"soft\">{}</span></div>",
                if value.starts_with("NOT") { " bad" } else { "" },
                escape(name),
                escape(&value),
                escape(&words)
            );
        };
        if let Some(load) = &self.load {
            if let Some(now) = load.by_cores.iter().find(|with| with.cores == load.cores) {
                let times = |rate: f64| rate / load.today_per_s.max(1e-9);
                card(
                    "Load until the CPUs are full",
                    format!("{} times", figure(times(now.saturation.estimate))),
                    format!(
                        "{} to {} times today's {} a second on {} cores",
                        figure(times(now.saturation.low)),
                        figure(times(now.saturation.high)),
                        figure(load.today_per_s),
                        load.cores
                    ),
                );
                if let (Some((rate, sure)), Some(limit)) = (now.within_objective, load.objective_ms) {
                    card(
                        &format!("Load with p99 below {} ms", figure(limit)),
                        format!("{} times", figure(times(rate))),
                        format!(
                            "surely {} times; no rate beyond the model's edge counts",
                            figure(times(sure))
                        ),
                    );
                }
            }
            if let Some(why) = &load.queue_refused {
                card("Response times", "not predicted".to_owned(), why.clone());
            }
        }
        if let Some(memory) = &self.memory {
            let today =
                memory.rows.iter().find(|row| (row.factor - 1.0).abs() < 1e-9).and_then(|row| row.predicted);
            if let Some(today) = today {
                let knee = memory.knee.map_or("no knee within what was measured".to_owned(), |knee| {
                    format!("knee at about {}", bytes(knee))
                });
                card(
                    "Misses of the buffer pool",
                    format!("{} %", figure(today.miss_ratio.estimate * 100.0)),
                    format!("with {}; {knee}", bytes(memory.today_bytes)),
                );
            }
        }
        if let Some(replicas) = &self.replicas {
            let survives = replicas.today_survives.as_ref().map(|all| all.iter().all(|well| *well));
            let value = match survives {
                Some(true) => "survived",
                Some(false) => "NOT survived",
                None => "not known",
            };
            card(
                "The loss of any one zone",
                value.to_owned(),
                format!("{} readers are needed in all", replicas.fewest.iter().sum::<usize>()),
            );
        }
        if let Some(placement) = &self.placement {
            let gap = if placement.gap < 1e-6 {
                "none is cheaper".to_owned()
            } else {
                format!("gap {:.1} %", placement.gap * 100.0)
            };
            let today =
                placement.price_today.map(|today| format!("today {}; ", figure(today))).unwrap_or_default();
            card(
                "Hosts for all roles",
                format!("{} a month", figure(placement.price)),
                format!("{today}{} hosts; {gap}", placement.hosts.len()),
            );
        }
        page.push_str("</div>\n");
    }

    fn bought(&self, page: &mut String) {
        if self.purchases.is_empty() {
            return;
        }
        page.push_str("<h2>What a purchase would buy</h2>\n<div class=\"scroll\"><table><tr><th>purchase</th><th class=\"n\">headroom, times today's load</th><th>what it buys</th>");
        let _ = write!(
            page,
            "<th class=\"n\">{} a month</th><th class=\"n\">headroom for 100</th></tr>",
            escape(if self.currency.is_empty() { "price" } else { &self.currency })
        );
        for one in &self.purchases {
            let gain = one.headroom.as_ref().map_or_else(|| "in other units".to_owned(), added);
            let or = |value: Option<f64>, times: f64| {
                value.map_or_else(|| "no price".to_owned(), |value| figure(value * times))
            };
            let _ = write!(
                page,
                "<tr><td>{}</td><td class=\"n\">{}</td><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td></tr>",
                escape(&one.what),
                escape(&gain),
                escape(&one.buys),
                or(one.price, 1.0),
                one.per_price.map_or_else(|| "-".to_owned(), |per| figure(per * 100.0))
            );
        }
        page.push_str("</table></div>\n<p class=\"soft\">Ranked by headroom for its price. Prices are those of your file; what is not in it is not priced. Intervals are 95 %.</p>\n");
    }

    fn charts(&self, page: &mut String) {
        page.push_str("<div class=\"charts\">");
        let gains = self.purchases.iter().filter_map(|one| Some((one, one.headroom?)));
        let mut bars = Bars::new("Headroom that a purchase adds", "times today's load");
        for (one, gain) in gains {
            let reach = (gain.low < gain.high).then_some((gain.low, gain.high));
            bars = bars.bar(one.what.clone(), gain.estimate, reach);
        }
        page.push_str(&bars.html());
        if let Some(law) = self.load.as_ref().and_then(|load| load.law.as_ref()) {
            let points = |of: fn(&Interval) -> f64| law.curve.iter().map(move |(at, value)| (*at, of(value)));
            let band = law
                .curve
                .iter()
                .map(|(at, value)| (*at, value.low, value.high.min(value.estimate * 3.0)))
                .collect();
            let seen =
                self.load.iter().flat_map(|load| &load.seen).map(|one| (one.at_work, one.per_s)).collect();
            let model = Line::new("scalability law", points(|value| value.estimate).collect()).band(band);
            page.push_str(
                &Lines::new("Throughput", "a second")
                    .x_axis("transactions at work")
                    .line(model)
                    .line(Line::new("measured", seen).dots())
                    .html(),
            );
        }
        if let Some(memory) = &self.memory {
            page.push_str(&crate::memory_chart::figures(memory, &[]));
        }
        page.push_str("</div>\n");
    }

    fn growth(&self, page: &mut String) {
        let Some(load) = self.load.as_ref().filter(|load| !load.rows.is_empty()) else { return };
        let _ = write!(
            page,
            "<h2>More load</h2><p class=\"soft\">{} on {}</p><div class=\"scroll\"><table><tr><th class=\"n\">cores</th><th class=\"n\">times today</th><th class=\"n\">a second</th><th class=\"n\">busy</th><th class=\"n\">mean ms</th><th class=\"n\">p99 ms</th></tr>",
            escape(&load.workload),
            escape(&load.subject)
        );
        for row in &load.rows {
            let figures = match (&row.mean_ms, &row.p99_ms, &row.refused) {
                (Some(mean), Some(p99), _) => {
                    format!("<td class=\"n\">{}</td><td class=\"n\">{}</td>", interval(mean), interval(p99))
                }
                (Some(mean), None, why) => format!(
                    "<td class=\"n\">{}</td><td>{}</td>",
                    interval(mean),
                    escape(why.as_deref().unwrap_or(""))
                ),
                (None, _, why) => format!("<td colspan=\"2\">{}</td>", escape(why.as_deref().unwrap_or(""))),
            };
            let _ = write!(
                page,
                "<tr><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>{figures}</tr>",
                row.cores,
                figure(row.growth),
                figure(row.per_s),
                percent(&row.busy)
            );
        }
        page.push_str("</table></div>\n");
    }

    fn rest(&self, page: &mut String) {
        let mut section = |title: &str, text: Option<String>| {
            if let Some(text) = text {
                let _ = writeln!(
                    page,
                    "<details><summary>{}</summary><pre>{}</pre></details>",
                    escape(title),
                    escape(&text)
                );
            }
        };
        section("Readers in each zone", self.replicas.as_ref().map(Answer::text));
        section("Placement of roles", self.placement.as_ref().map(Answer::text));
        section("A larger buffer pool, estimated", self.estimate.as_ref().map(Answer::text));
        section("Another disk", self.disks.as_ref().map(Answer::text));
        section("Memory, size by size", self.memory.as_ref().map(Answer::text));
        let checked = check(&self.entries);
        if checked.scores.iter().any(|score| score.does_badly) {
            page.push_str("<p class=\"said bad\">A model has done badly here before: see the past predictions below.</p>\n");
        }
        let mut section = |title: &str, text: String| {
            let _ = writeln!(
                page,
                "<details><summary>{}</summary><pre>{}</pre></details>",
                escape(title),
                escape(&text)
            );
        };
        section("Past predictions beside what came", checked.text());
        section("A published case: Let's Encrypt, 2021", crate::lets_encrypt::text());
        if let Some(load) = &self.load {
            page.push_str("<h2>Assumed</h2>\n<ul>");
            for line in &load.assumptions {
                let _ = write!(page, "<li>{}</li>", escape(line));
            }
            page.push_str("</ul>\n");
        }
    }

    /// As text.
    pub fn text(&self) -> String {
        let mut table = term::Table::new(&["purchase", ">headroom", ">a month", ">for 100", "what it buys"]);
        for one in &self.purchases {
            let or = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), figure);
            let gain = one.headroom.as_ref().map_or_else(|| "-".to_owned(), added);
            table.row(vec![
                one.what.clone(),
                gain,
                or(one.price),
                or(one.per_price.map(|per| per * 100.0)),
                one.buys.clone(),
            ]);
        }
        let mut text = if self.purchases.is_empty() { String::new() } else { table.text() + "\n" };
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

/// Headroom that is added: with its interval, or where the lower end of what was measured went in, at least
/// that.
fn added(gain: &Interval) -> String {
    if gain.low < gain.high {
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
        let report = Report::new(entries, &prices);
        assert_eq!(report.purchases[0].per_price, Some(0.5 / 250.0));
        let page = report.html();
        assert!(page.contains("1 more reader") && page.contains("EUR a month"));
        assert!(!page.contains("<a>"), "names are escaped");
        assert!(page.contains("kept by another version"));
    }
}
