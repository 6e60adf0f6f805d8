//! `[[objective]]` and `[webhook]`: what is promised of whose statements, when a breach is an incident, and who is told.

use super::complaint::Ledger;
use super::section::{Placed, Section};
use super::value;
use super::PasswordFrom;
use fleet::duration_text;
use std::path::PathBuf;
use std::time::Duration;

/// So many statements of somebody take at most so long, and when that is broken badly enough to tell a person.
///
/// The defaults are those of the SRE workbook, chapter 5 ("Alerting on SLOs"), for a budget of 30 days: 2 % of it gone in an
/// hour (a burn rate of 14.4), or 5 % in six hours (6).
#[derive(Clone, Debug, PartialEq)]
pub struct Objective {
    /// What people call it; unique.
    pub name: String,
    /// Whose statements.
    pub target: Target,
    /// A statement that takes at most so long is good.
    pub threshold: Duration,
    /// Share of statements that must be good, 0.5 to 0.99999.
    pub share: f64,
    /// Days that the budget of bad statements is for.
    pub window_days: u32,
    /// Length of the fast window; a twelfth of it is looked at beside it.
    pub fast: Duration,
    /// Burn rate above which the fast window opens an incident.
    pub fast_burn: f64,
    /// Length of the slow window.
    pub slow: Duration,
    /// Burn rate above which the slow window opens one.
    pub slow_burn: f64,
    /// An incident is closed when it was calm for so long.
    pub calm: Duration,
}

/// Whose statements an objective is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// Of an endpoint of the application.
    Endpoint(String),
    /// Answered by a server, by its name.
    Server(String),
    /// That came in at a listener, by its address.
    Listener(String),
}

/// Who is told of incidents, by POST with JSON. `Debug` shows no address: it may hold a secret.
#[derive(Clone, Debug, PartialEq)]
pub struct Webhook {
    /// Where its address is to be found.
    pub url: PasswordFrom,
    /// Authorities that may vouch for it; those that the web trusts by default.
    pub ca: Option<PathBuf>,
}

impl Objective {
    /// Objectives at most: memory is bounded.
    pub const MOST: usize = 64;

    /// One with the default of everything but what it is about.
    pub fn new(name: String, target: Target, threshold: Duration, share: f64) -> Self {
        Self {
            name,
            target,
            threshold,
            share,
            window_days: 30,
            fast: Duration::from_secs(3600),
            fast_burn: 14.4,
            slow: Duration::from_secs(6 * 3600),
            slow_burn: 6.0,
            calm: Duration::from_secs(600),
        }
    }

    /// What is promised, in words: `99 % of statements of endpoint checkout within 15ms`.
    pub fn text(&self) -> String {
        let share = format!("{:.3}", self.share * 100.0);
        let share = share.trim_end_matches('0').trim_end_matches('.');
        format!("{share} % of statements {} within {}", self.target, duration_text(self.threshold))
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Endpoint(name) => write!(f, "of endpoint {name}"),
            Self::Server(name) => write!(f, "on server {name}"),
            Self::Listener(name) => write!(f, "at listener {name}"),
        }
    }
}

/// Reads every `[[objective]]`.
pub(super) fn objectives(whole: &mut Section<'_, '_>, ledger: &mut Ledger<'_>) -> Vec<Objective> {
    let mut objectives: Vec<Objective> = Vec::new();
    let sections = whole.sections("objective", ledger);
    if let Some(beyond) = sections.get(Objective::MOST) {
        let wrong = format!("there are more than {} objectives", Objective::MOST);
        ledger.add(&beyond.span(), wrong, "keep those that a person would be woken for");
    }
    for mut section in sections {
        let name = section.plain("name", ledger);
        section.require("name", ledger, "write what people call it: name = \"checkout\"");
        let target = target(&mut section, ledger);
        let second = Duration::from_secs(1);
        let threshold = section.duration("threshold", ledger, Duration::from_micros(1));
        section.require("threshold", ledger, "write how long a good statement takes: threshold = \"15ms\"");
        let share = section.number("share", ledger, (0.5, 0.99999));
        section.require("share", ledger, "write the share that must be good: share = 0.99 (p99)");
        let days = section.count("window_days", ledger, (1, 90));
        // A twelfth of a window is looked at too, and figures come once a second.
        let fast = section.duration("fast", ledger, 12 * second);
        let slow = section.duration("slow", ledger, 12 * second);
        let fast_burn = section.number("fast_burn", ledger, (1.0, 1e5));
        let slow_burn = section.number("slow_burn", ledger, (1.0, 1e5));
        let calm = section.duration("calm", ledger, second);
        let span = section.span();
        let windows = section.place_of("slow");
        section.finish(ledger);
        let (Some(name), Some(target), Some(threshold), Some(share)) = (name, target, threshold, share)
        else {
            continue;
        };
        if objectives.iter().any(|known| known.name == name.value) {
            let wrong = format!("there are two objectives '{}'", name.value);
            ledger.add(&name.span, wrong, "give each a name of its own");
        }
        let default = Objective::new(name.value, target, threshold.value, share.value);
        let objective = Objective {
            window_days: days.map_or(default.window_days, |v| v.value as u32),
            fast: fast.map_or(default.fast, |v| v.value),
            slow: slow.map_or(default.slow, |v| v.value),
            fast_burn: fast_burn.map_or(default.fast_burn, |v| v.value),
            slow_burn: slow_burn.map_or(default.slow_burn, |v| v.value),
            calm: calm.map_or(default.calm, |v| v.value),
            ..default
        };
        if objective.slow <= objective.fast {
            let (fast, slow) = (duration_text(objective.fast), duration_text(objective.slow));
            let wrong = format!("slow is {slow}, which is not longer than fast ({fast})");
            ledger.add(
                &windows,
                wrong,
                "the slow window finds what burns for longer: give it some times fast",
            );
        }
        let most = 1.0 / (1.0 - objective.share);
        for (key, burn) in [("fast_burn", objective.fast_burn), ("slow_burn", objective.slow_burn)] {
            if burn >= most {
                let wrong =
                    format!("{key} = {burn} can never be reached: with every statement bad it is {most:.1}");
                let right = format!("write a smaller one ({key} = {:.1}), or a greater share", most * 0.6);
                ledger.add(&span, wrong, right);
            }
        }
        objectives.push(objective);
    }
    objectives
}

fn target(section: &mut Section<'_, '_>, ledger: &mut Ledger<'_>) -> Option<Target> {
    let endpoint = section.plain("endpoint", ledger).map(|v| (v.span, Target::Endpoint(v.value)));
    let server = section.plain("server", ledger).map(|v| (v.span, Target::Server(v.value)));
    let listener = section
        .text("listener", ledger, value::listening_address)
        .map(|v| (v.span, Target::Listener(v.value.to_string())));
    let mut found: Vec<_> = [endpoint, server, listener].into_iter().flatten().collect();
    match found.len() {
        1 => Some(found.remove(0).1),
        0 => {
            let right =
                "write one of endpoint = \"checkout\", server = \"db1\", listener = \"127.0.0.1:3306\"";
            ledger.add(&section.span(), "an [[objective]] must say whose statements it is about", right);
            None
        }
        _ => {
            let wrong = "an [[objective]] is about one endpoint, server or listener";
            ledger.add(&found[1].0, wrong, "keep one of endpoint, server and listener");
            None
        }
    }
}

/// Reads `[webhook]`.
pub(super) fn webhook(whole: &mut Section<'_, '_>, ledger: &mut Ledger<'_>) -> Option<Webhook> {
    let mut section = whole.section("webhook", ledger);
    let written = section.plain("url", ledger);
    let file = section.plain("url_file", ledger);
    let environment = section.plain("url_env", ledger);
    let ca = section.plain("ca", ledger);
    let mut sources: Vec<Placed<PasswordFrom>> = Vec::new();
    let place = |v: &Placed<String>| v.span.clone();
    sources.extend(written.map(|v| Placed { span: place(&v), value: PasswordFrom::Written(v.value) }));
    sources.extend(file.map(|v| Placed { span: place(&v), value: PasswordFrom::File(v.value.into()) }));
    sources
        .extend(environment.map(|v| Placed { span: place(&v), value: PasswordFrom::Environment(v.value) }));
    if let Some(second) = sources.get(1) {
        ledger.add(
            &second.span,
            "the address of the webhook is given more than once",
            "keep one of url_file, url_env and url",
        );
    }
    if let (Some(ca), true) = (&ca, sources.is_empty()) {
        ledger.add(&ca.span, "ca has no use without an address", "write url_file = \"/path/to/file\"");
    }
    section.finish(ledger);
    let url = sources.into_iter().next()?.value;
    Some(Webhook { url, ca: ca.map(|v| PathBuf::from(v.value)) })
}
