//! The status for a terminal: what `headroom status` prints.

use crate::fleet_view::{self, percent};
use crate::objectives;
use crate::status_view::{ListenerView, RoutingView, ServerView, StatusView};
use fleet::long;
use std::time::Duration;
use term::{Paint, Table};

/// The status for a terminal: what is wrong first, then servers, flow, listeners.
pub fn text(status: &StatusView, paint: Paint) -> String {
    let mut text = String::new();
    if let Some(reload) = status.process.reload.as_ref().filter(|reload| !reload.accepted) {
        let notes = reload.notes.join("\n  ");
        text.push_str(
            &paint.red(&format!("Reload rejected, keeping the previous configuration:\n  {notes}")),
        );
        text.push('\n');
    }
    if status.process.stopping {
        text.push_str(&paint.yellow("It stops: no new clients; it ends when its sessions have ended.\n"));
    }
    if let Some(held_back) = &status.process.held_back {
        text.push_str(&format!("{} this router is {held_back}\n", paint.yellow("!")));
    }
    if let Some(recording) = &status.recording {
        text.push_str(&paint.red(&format!("RECORDING: {}\n", recording.text())));
    }
    for (one, incident) in status.objectives.iter().filter_map(|one| Some((one, one.incident.as_ref()?))) {
        text.push_str(&paint.red(&format!("INCIDENT: {}: {}\n", one.name, incident.text())));
    }
    for trouble in &status.troubles {
        text.push_str(&format!("{} {trouble}\n", paint.red("!")));
    }
    for fallback in &status.fallbacks {
        text.push_str(&format!("{} fallback {}: {}\n", paint.yellow("!"), fallback.name, fallback.text));
    }
    text.push_str(&servers(status, paint));
    text.push('\n');
    text.push_str(&fleet_view::summary(&status.fleet, paint));
    if !status.flow.zones.is_empty() {
        text.push('\n');
        text.push_str(&flow(status, paint));
    }
    text.push_str(&leaving(status));
    text.push('\n');
    text.push_str(&listeners(status));
    let objectives = objectives::view::text(&status.objectives, status.webhook.as_ref(), paint);
    if !objectives.is_empty() {
        text.push_str(&format!("\n{objectives}\n"));
    }
    if !status.data_path.is_empty() {
        text.push_str(&format!("Bytes are moved with {}.\n", status.data_path));
    }
    if let Some(most) = status.most_sessions {
        text.push_str(&format!("File descriptors are for {most} sessions.\n"));
    }
    text.push_str(&events(status, paint));
    text
}

fn servers(status: &StatusView, paint: Paint) -> String {
    let mut table = Table::new(&["SERVER", "ROLE", "ZONE", ">LAG", "STATE", ">SESSIONS", ">LOAD", "READS"]);
    for server in &status.fleet.servers {
        table.row(vec![
            paint.bold(&server.name),
            server.role.clone(),
            server.zone.as_ref().map_or("?".to_owned(), |zone| zone.zone.clone()),
            fleet_view::lag(server),
            fleet_view::state(server, paint),
            server.routing.as_ref().map_or("-".to_owned(), |routing| routing.sessions.to_string()),
            server.share_of_load.map_or("-".to_owned(), percent),
            reads(server, paint),
        ]);
    }
    if status.fleet.servers.is_empty() { "No server is known.\n".to_owned() } else { table.text() }
}

fn reads(server: &ServerView, paint: Paint) -> String {
    let Some(routing) = &server.routing else { return server.because.clone() };
    if routing.reads.eligible {
        let words = match counts_for_less(routing) {
            Some(why) => paint.yellow(why),
            None => paint.green("eligible"),
        };
        return routing.work.as_ref().map_or_else(|| words.clone(), |work| format!("{words}; {work}"));
    }
    routing.reads.reason.clone().unwrap_or_else(|| server.because.clone())
}

/// Why a server counts for less than its weight, if it does. One that is slow and cold counts for the lower
/// of both.
fn counts_for_less(routing: &RoutingView) -> Option<&String> {
    let (slow, warming) = (routing.slow.as_ref(), routing.warming.as_ref());
    let is_colder = routing.warmth.zip(routing.speed).is_some_and(|(warmth, speed)| warmth < speed);
    if is_colder { warming.or(slow) } else { slow.or(warming) }
}

fn flow(status: &StatusView, paint: Paint) -> String {
    let flow = &status.flow;
    let headings: Vec<String> = std::iter::once("READS FROM".to_owned())
        .chain(flow.zones.iter().map(|zone| format!(">to {zone}")))
        .collect();
    let mut table = Table::new(&headings.iter().map(String::as_str).collect::<Vec<_>>());
    for (zone, row) in flow.zones.iter().zip(&flow.rows) {
        let cell = |share: &f64| if *share < 0.0005 { paint.dim("-") } else { percent(*share) };
        table.row(std::iter::once(zone.clone()).chain(row.iter().map(cell)).collect());
    }
    table.text()
}

/// Sessions on their way elsewhere, and what that waits for.
fn leaving(status: &StatusView) -> String {
    let line = |l: &crate::status_view::LeavingView| {
        let (n, s) = (l.sessions, if l.sessions == 1 { "" } else { "s" });
        format!(
            "{n} {} session{s} should leave {} ({}); waiting for {}.\n",
            l.role, l.server, l.why, l.waits_for
        )
    };
    status.leaving.iter().map(line).collect()
}

/// The last changes, newest first; the JSON and the page have more.
fn events(status: &StatusView, paint: Paint) -> String {
    const SHOWN: usize = 8;
    if status.events.is_empty() {
        return String::new();
    }
    let words = |seconds: f64| long(Duration::try_from_secs_f64(seconds).unwrap_or_default());
    let mut table = Table::new(&["WHEN", "EVENT", "BEFORE THAT"]);
    for event in status.events.iter().take(SHOWN) {
        let text = if event.severity == "warn" { paint.yellow(&event.text) } else { event.text.clone() };
        let before = event.lasted_s.map_or_else(|| "-".to_owned(), |lasted| format!("for {}", words(lasted)));
        table.row(vec![format!("{} ago", words(event.age_s)), text, before]);
    }
    format!("\n{}", table.text())
}

fn listeners(status: &StatusView) -> String {
    let mut table = Table::new(&["LISTENER", "FOR", ">OPEN", ">BYPASS", ">CONNECTIONS", ">REFUSED"]);
    let mut words = String::new();
    for listener in &status.listeners {
        if !listener.zero_hop.text.is_empty() {
            let mode = if listener.zero_hop.in_force { "zero-hop" } else { "no zero-hop" };
            words.push_str(&format!("{}  {mode}: {}\n", listener.address, listener.zero_hop.text));
        }
        table.row(vec![
            listener.address.clone(),
            format!("{}s", listener.role),
            listener.open.to_string(),
            listener.zero_hop.sessions.to_string(),
            listener.connections.to_string(),
            listener.refused.values().sum::<u64>().to_string(),
        ]);
    }
    let limits = status.zero_hop.limits.iter().map(|limit| format!("! {limit}\n"));
    if status.listeners.len() > 1 {
        let sum = |of: fn(&ListenerView) -> u64| status.listeners.iter().map(of).sum::<u64>().to_string();
        let refused = |listener: &ListenerView| listener.refused.values().sum::<u64>();
        let [open, bypass] = [sum(|l| l.open), sum(|l| l.zero_hop.sessions)];
        table.row(vec!["all".to_owned(), String::new(), open, bypass, sum(|l| l.connections), sum(refused)]);
    }
    table.text() + &words + &limits.collect::<String>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_sessions_count_for_by_their_work_is_shown_also_where_it_is_not_known() {
        let mut status = crate::sample_status::status();
        let replica =
            status.fleet.servers.iter_mut().find(|s| s.routing.as_ref().is_some_and(|r| r.reads.eligible));
        let replica = replica.unwrap();
        let name = replica.name.clone();
        let line = |server: &ServerView| reads(server, Paint::off());
        assert_eq!(line(replica), "eligible", "{name}");
        let work = "what its sessions do is unknown: each counts as the mean";
        replica.routing.as_mut().unwrap().work = Some(work.to_owned());
        assert_eq!(line(replica), format!("eligible; {work}"), "{name}");
    }

    #[test]
    fn a_router_that_its_own_limit_holds_back_says_so_at_the_top() {
        let mut status = crate::sample_status::status();
        assert!(!text(&status, Paint::off()).contains("this router is"));
        status.process.held_back = Some("held back by its own limit of 0.50 CPUs".to_owned());
        let text = text(&status, Paint::off());
        assert!(text.contains("! this router is held back by its own limit of 0.50 CPUs\n"), "{text}");
    }

    #[test]
    fn one_that_is_slow_and_cold_says_what_it_counts_for() {
        let said = |speed: f64, warmth: f64| {
            let words = |factor: f64| (factor < 1.0).then(|| format!("counts as {factor:.2}"));
            let routing = RoutingView {
                speed: Some(speed),
                slow: words(speed),
                warmth: Some(warmth),
                warming: words(warmth),
                ..RoutingView::default()
            };
            counts_for_less(&routing).cloned()
        };
        assert_eq!(said(0.45, 0.12).as_deref(), Some("counts as 0.12"));
        assert_eq!(said(0.45, 0.8).as_deref(), Some("counts as 0.45"));
        assert_eq!(said(1.0, 0.8).as_deref(), Some("counts as 0.80"));
        assert_eq!(said(1.0, 1.0), None);
    }

    #[test]
    fn sessions_that_bypass_the_router_are_in_the_totals() {
        let mut status = crate::sample_status::status();
        let reader = &mut status.listeners[0];
        (reader.open, reader.connections, reader.zero_hop.sessions) = (68, 1988, 20);
        let text = listeners(&status);
        let cells = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let lines: Vec<Vec<String>> = text.lines().map(cells).collect();
        assert_eq!(lines[1][2..], ["68", "20", "1988", "0"], "{text}");
        assert_eq!(lines[3], ["all", "80", "20", "2480", "0"], "{text}");
    }
}
