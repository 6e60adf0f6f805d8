//! The page: everything the demo found in one file, without scripts and without anything from elsewhere.
//!
//! Charts are SVG written here; their colours are CSS variables, so that they follow the reader's light or
//! dark. Each chart stands in a grid that becomes one column on a phone. Whatever was measured goes through
//! [`escape`].

mod crossing;
mod latency;
mod load;
mod map;
mod series;
mod tables;
mod text;

use crate::figures::{PhaseFigures, Report, Verdict};
use chart::escape;
use std::fmt::Write;

const STYLE: &str = include_str!("html/style.css");

/// The page, complete.
pub(crate) fn page(report: &Report) -> String {
    let mut body = String::new();
    for section in [
        header(report),
        cards(report),
        verdicts(&report.verdicts),
        section("Where reads go", text::MAP, &grid(&maps(report))),
        section("Requests, one zone against three", text::LATENCY, &grid(&latency::panels(&report.phases))),
        section("Load of each replica", text::LOAD, &grid(&load::panels(&report.phases))),
        section("Reads that cross zones", text::CROSSING, &crossing::panel(&report.phases)),
        series_section(report),
        moves_section(report),
        section("All figures", text::TABLES, &tables::all(report)),
        how(report),
    ] {
        body.push_str(&section);
    }
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>Headroom demo</title>\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n{body}</main>\n</body>\n</html>\n"
    )
}

fn header(report: &Report) -> String {
    let about = &report.about;
    let busy = report.too_busy().map_or(String::new(), |busy| {
        format!(
            "<p class=\"busy\">The machine's CPU was {:.0} % busy: times show queueing for it rather than distance.</p>\n",
            busy * 100.0
        )
    });
    let met = report.met();
    let all = report.verdicts.len();
    format!(
        "<header>\n<p class=\"brand\">Headroom</p>\n<h1>Reads go to the nearest replica that has room</h1>\n\
         <p class=\"lead\">{met} of {all} promises met, on {} with {} simulated zones on one machine, {}.</p>\n\
         <p class=\"facts\">{} · {} cores, shared by servers, links, routers and applications · {} ms round trip within a \
         zone, {} ms between zones (simulated) · headroom {} · its sessions: {} · {:.0} s in all</p>\n{busy}</header>\n",
        escape(&about.servers),
        about.zones.len(),
        escape(&about.date),
        escape(&about.cpu),
        about.cores,
        about.within_zone_ms,
        about.between_zones_ms,
        escape(&about.headroom),
        escape(&about.sessions),
        about.took_s
    )
}

/// The few figures that a hurried reader takes away.
fn cards(report: &Report) -> String {
    let mut cards = String::new();
    let mut card = |figure: String, what: String| {
        // Writing to a String cannot fail.
        let _ = writeln!(
            cards,
            "<div class=\"card\"><b>{}</b><span>{}</span></div>",
            escape(&figure),
            escape(&what)
        );
    };
    if let Some(won) = report.won_back() {
        card(format!("{:.0} %", won * 100.0), "of what round robin over zones lost is won back".to_owned());
    }
    if let (Some(backup), Some(headroom)) = (report.phase("d1"), report.phase("d3")) {
        let what = format!(
            "the busiest replica against the mean, a zone without a reader; first backup: {:.2} x",
            backup.busiest_of_mean
        );
        card(format!("{:.2} x", headroom.busiest_of_mean), what);
        let what = format!(
            "of reads cross zones there; the least possible is {:.1} %, round robin {:.1} %",
            headroom.least_cross_zone * 100.0,
            report.phase("d2").map_or(0.0, |p| p.cross_zone * 100.0)
        );
        card(format!("{:.1} %", headroom.cross_zone * 100.0), what);
    }
    if let Some(killed) = report.faults.first() {
        let what = format!(
            "requests failed when a reader was killed, but for {} that had a statement on it",
            killed.failed_on_it
        );
        card(killed.failed_other.to_string(), what);
    }
    if let Some(longest) = report.moves.iter().map(|m| m.longest_ms).reduce(f64::max) {
        let failed: u64 = report.moves.iter().map(|m| m.failed).sum();
        let what = format!("the longest a write waited while the primary moved, with {failed} errors");
        card(format!("{:.2} s", longest / 1e3), what);
    }
    format!("<section class=\"cards\">\n{cards}</section>\n")
}

fn verdicts(verdicts: &[Verdict]) -> String {
    let mut rows = String::new();
    for v in verdicts {
        let (class, mark) = if v.met { ("met", "✓ met") } else { ("missed", "✗ missed") };
        let _ = writeln!(
            rows,
            "<tr class=\"{class}\"><td class=\"part\">({})</td><td>{}</td><td class=\"value\">{}</td><td \
             class=\"mark\">{mark}</td></tr>",
            v.part,
            escape(&v.asked),
            escape(&v.measured)
        );
    }
    let table = format!(
        "<div class=\"scroll\"><table class=\"verdicts\">\n<thead><tr><th></th><th>asked</th><th>measured</th><th></th>\
         </tr></thead>\n<tbody>\n{rows}</tbody></table></div>"
    );
    section("Asked and measured", "", &table)
}

fn maps(report: &Report) -> Vec<String> {
    let shown = ["b", "c", "d1", "d2", "d3", "d6"];
    shown.iter().filter_map(|id| report.phase(id)).map(|phase| map::panel(&report.about, phase)).collect()
}

fn series_section(report: &Report) -> String {
    match &report.series {
        Some(series) => {
            section("A reader fails and comes back", text::SERIES, &series::panel(series, &report.faults))
        }
        None => String::new(),
    }
}

fn moves_section(report: &Report) -> String {
    if report.moves.is_empty() {
        return String::new();
    }
    section("The primary moves while the application writes", text::MOVES, &tables::moves(&report.moves))
}

fn how(report: &Report) -> String {
    let mut items = String::new();
    for v in &report.verdicts {
        let _ = writeln!(items, "<dt>({}) {}</dt><dd>{}</dd>", v.part, escape(&v.asked), escape(&v.how));
    }
    let about = &report.about;
    let run = format!(
        "<p>This run: {} slices of {} s for each of (a), (b), (c); {} reader sessions in each application; seed {}; the \
         servers were up and replicating after {:.1} s.</p>",
        about.rounds, about.slice_s, about.reader_sessions, about.seed, about.lab_up_s
    );
    section(
        "How each number was obtained",
        "",
        &format!("{}{run}\n<dl>\n{items}</dl>\n{}", text::HOW, text::LIMITS),
    )
}

fn section(title: &str, intro: &str, content: &str) -> String {
    let intro = if intro.is_empty() { String::new() } else { format!("<p>{intro}</p>\n") };
    format!("<section>\n<h2>{title}</h2>\n{intro}{content}\n</section>\n")
}

/// Panels beside each other, as many as fit.
fn grid(panels: &[String]) -> String {
    format!("<div class=\"grid\">\n{}\n</div>", panels.join("\n"))
}

/// A chart with its title and what to see in it.
fn figure(title: &str, note: &str, svg: &str) -> String {
    format!(
        "<figure>\n<figcaption><b>{}</b><span>{}</span></figcaption>\n{svg}\n</figure>",
        escape(title),
        escape(note)
    )
}

/// `(d1) zone c has no reader, first backup`.
fn name(phase: &PhaseFigures) -> String {
    super::summary::name(phase)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample_report::report;

    #[test]
    fn the_page_is_complete_and_takes_nothing_from_elsewhere() {
        let page = page(&report());
        for part in [
            "<svg",
            "Asked and measured",
            "prefers-color-scheme",
            "A reader fails",
            "(d1)",
            "b1 killed",
            "The primary moves",
            "a1 → a2",
        ] {
            assert!(page.contains(part), "{part}");
        }
        for foreign in ["<script", "src=", "@import", "url(", "<link"] {
            assert!(!page.contains(foreign), "{foreign}");
        }
    }

    /// Writes it where a browser can be shown it: `HEADROOM_DEMO_PAGE=FILE cargo test
    /// the_page_can_be_looked_at`.
    #[test]
    fn the_page_can_be_looked_at() {
        let page = page(&report());
        #[allow(clippy::disallowed_methods, reason = "whoever looks at the page says so by the environment")]
        if let Ok(path) = std::env::var("HEADROOM_DEMO_PAGE") {
            std::fs::write(path, &page).unwrap();
        }
        assert!(page.ends_with("</html>\n"));
    }

    #[test]
    fn every_tag_is_closed() {
        let page = page(&report());
        for tag in
            ["section", "figure", "svg", "table", "tr", "td", "th", "div", "text", "g", "dl", "dt", "dd", "p"]
        {
            let opened =
                page.matches(&format!("<{tag}>")).count() + page.matches(&format!("<{tag} ")).count();
            assert_eq!(opened, page.matches(&format!("</{tag}>")).count(), "{tag}");
        }
    }

    #[test]
    fn what_was_measured_cannot_become_markup() {
        let mut report = report();
        report.faults[0].failures = vec!["<b>&\"".to_owned()];
        report.about.cpu = "<script>".to_owned();
        let page = page(&report);
        assert!(!page.contains("<script>") && !page.contains("<b>&\""));
    }
}
