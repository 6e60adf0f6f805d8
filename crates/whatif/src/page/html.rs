//! The report as a page: cards, tables and charts.

use super::{Report, added};
use crate::baseline::Baseline;
use crate::ledger::Answer;
use crate::outcome::check;
use crate::words::{bytes, figure, interval, percent};
use chart::{Bars, Line, Lines, escape};
use plan::Interval;
use std::fmt::Write;

const STYLE: &str = include_str!("../page.css");

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
    /// The page.
    pub fn html(&self) -> String {
        let mut page = String::new();
        if let Some(subject) = &self.subject {
            let _ =
                writeln!(page, "<p class=\"soft\">Of {}{}</p>", escape(subject), escape(&self.and_others()));
        }
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
        for now in &self.now {
            card(&format!("What stops {} now", now.of), now.verdict.clone(), now.why());
        }
        if let Some(load) = &self.load {
            if let Some(now) = load.by_cores.iter().find(|with| with.cores == load.cores) {
                let on = format!("{} on {} cores of {}", load.workload, load.cores, load.subject);
                let unit = load.baseline.unit.many();
                let (value, words) = full(&load.baseline, &now.saturation);
                card("Load until the CPUs are full", value, format!("{words}; {on}"));
                if let Some(limit) = load.objective_ms {
                    let (value, words) = match now.within_objective {
                        Some((rate, sure)) => (
                            format!("{} {unit} a second", figure(rate)),
                            format!(
                                "surely {} {unit} a second; {}; {on}",
                                figure(sure),
                                if now.model_ends_there {
                                    "the model ends there, and more may meet it, too"
                                } else {
                                    "no rate beyond the model's edge counts"
                                }
                            ),
                        ),
                        None => ("none named".to_owned(), format!("{}; {on}", load.without_objective(limit))),
                    };
                    card(&format!("Load with p99 below {} ms", figure(limit)), value, words);
                }
            }
            if let Some(why) = &load.queue_refused {
                card("Response times", "not predicted".to_owned(), format!("{why}; {}", load.subject));
            }
        }
        if let Some(memory) = &self.memory
            && let Some(today) = memory.today()
        {
            let knee = memory.knee.map_or("no knee within what was measured".to_owned(), |knee| {
                format!("knee at about {}", bytes(knee))
            });
            card(
                "Misses of the buffer pool",
                percent(&today.miss_ratio),
                format!("with {} on {}; {knee}", bytes(memory.today_bytes), memory.subject),
            );
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
                format!(
                    "{} readers are needed in all of {}",
                    replicas.fewest.iter().sum::<usize>(),
                    replicas.zones_in_words()
                ),
            );
        }
        if let Some(placement) = &self.placement {
            let gap = if placement.gap < 1e-6 {
                format!("none is better{}", placement.by_count())
            } else {
                format!("gap {:.1} %", placement.gap * 100.0)
            };
            let today = match placement.price {
                Some(_) => placement.price_today.map(|today| format!("today {}; ", figure(today))),
                None => {
                    placement.hosts_today.map(|today| format!("today {today}; what they cost is not known; "))
                }
            };
            let today = today.unwrap_or_default();
            card(
                "Hosts for all roles",
                placement.price.map_or_else(
                    || format!("{} hosts", placement.hosts.len()),
                    |price| format!("{} a month", figure(price)),
                ),
                format!("{today}{} hosts; {gap}", placement.hosts.len()),
            );
        }
        page.push_str("</div>\n");
    }

    fn bought(&self, page: &mut String) {
        if self.purchases.is_empty() {
            return;
        }
        let month = if self.currency.is_empty() { "price" } else { &self.currency };
        let month = escape(month);
        page.push_str("<h2>What a purchase would buy</h2>\n");
        for rows in self.by_unit() {
            let unit = rows[0].unit.as_deref();
            let headroom =
                escape(&unit.map_or_else(|| "headroom".to_owned(), |unit| format!("headroom, {unit}")));
            let _ = write!(
                page,
                "<div class=\"scroll\"><table class=\"stack\"><tr><th>purchase</th><th class=\"n\">{headroom}</th><th class=\"n\">{month} a month</th><th class=\"n\">headroom for 100</th><th>for</th><th>what it buys</th></tr>"
            );
            for one in rows {
                let gain = one.headroom.as_ref().map_or_else(|| "in other units".to_owned(), added);
                let _ = write!(
                    page,
                    "<tr><td>{}</td><td class=\"n\" data-is=\"{headroom}\">{}</td><td class=\"n\" data-is=\"{month} a month\">{}</td><td class=\"n\" data-is=\"headroom for 100\">{}</td><td data-is=\"for\">{}</td><td data-is=\"what it buys\">{}</td></tr>",
                    escape(&one.what),
                    escape(&gain),
                    one.price.map_or_else(|| "no price".to_owned(), figure),
                    one.per_price.map_or_else(|| "-".to_owned(), |per| figure(per * 100.0)),
                    escape(&one.subject),
                    escape(&one.buys)
                );
            }
            page.push_str("</table></div>\n");
        }
        page.push_str("<p class=\"soft\">Each table is ranked by headroom for its price; what has no price is last. Rows of different tables cannot be compared. Prices are those of your file; what is not in it is not priced. Intervals are 95 %.</p>\n");
        if let Some(load) = &self.load {
            let _ = writeln!(page, "<p class=\"soft\">{}</p>", escape(&load.baseline.words()));
        }
    }

    fn charts(&self, page: &mut String) {
        page.push_str("<div class=\"charts\">");
        for rows in self.by_unit() {
            let Some(unit) = &rows[0].unit else { continue };
            let mut bars = Bars::new("Headroom that a purchase adds", unit);
            for (one, gain) in rows.iter().filter_map(|one| Some((one, one.headroom?))) {
                let reach = (gain.low < gain.high).then_some((gain.low, gain.high));
                bars = bars.bar(one.what.clone(), gain.estimate, reach);
            }
            page.push_str(&bars.html());
        }
        if let Some((load, law)) = self.load.as_ref().and_then(|load| Some((load, load.law.as_ref()?))) {
            let points = |of: fn(&Interval) -> f64| law.curve.iter().map(move |(at, value)| (*at, of(value)));
            let band = law
                .curve
                .iter()
                .map(|(at, value)| (*at, value.low, value.high.min(value.estimate * 3.0)))
                .collect();
            let seen = load.seen.iter().map(|one| (one.at_work, one.per_s)).collect();
            let model = Line::new("scalability law", points(|value| value.estimate).collect()).band(band);
            page.push_str(
                &Lines::new("Throughput", "a second")
                    .x_axis(format!("{} at work", load.baseline.unit.many()))
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
            "<h2>More load</h2><p class=\"soft\">{} on {}. {}</p><div class=\"scroll\"><table><tr><th class=\"n\">cores</th><th class=\"n\">times {}</th><th class=\"n\">{} a second</th><th class=\"n\">busy</th><th class=\"n\">mean ms</th><th class=\"n\">p99 ms</th></tr>",
            escape(&load.workload),
            escape(&load.subject),
            escape(&load.baseline.words()),
            load.baseline.name(),
            load.baseline.unit.many()
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
        section("A published case: Let's Encrypt, 2021", crate::lets_encrypt::case().text());
        for (at, (of, lines)) in self.assumptions().iter().enumerate() {
            page.push_str(if at == 0 { "<h2>Assumed</h2>\n" } else { "" });
            let _ = write!(page, "<h3>{}</h3>\n<ul>", escape(of));
            for line in lines {
                let _ = write!(page, "<li>{}</li>", escape(line));
            }
            page.push_str("</ul>\n");
        }
    }
}

/// The rate at which the cores are full, as a headline and its explanation.
fn full(baseline: &Baseline, saturation: &Interval) -> (String, String) {
    let range = |of: &Interval| format!("{} to {}", figure(of.low), figure(of.high));
    let unit = baseline.unit.many();
    match baseline.times(saturation) {
        Some(times) => (
            format!("{} times", figure(times.estimate)),
            format!("{} times today's {} {unit} a second", range(&times), figure(baseline.per_s.estimate)),
        ),
        None => (
            format!("{} {unit} a second", figure(saturation.estimate)),
            format!(
                "{}; the highest rate sent was {}, and today's load is not known (--current names it)",
                range(saturation),
                figure(baseline.per_s.estimate)
            ),
        ),
    }
}
