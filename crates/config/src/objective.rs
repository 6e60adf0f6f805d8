//! `[[objective]]`: what is promised of whose statements, and when a breach is an incident.

use super::section::Section;
use super::value;
use fleet::duration_text;
use std::time::Duration;

/// An SLO: the share of statements within a latency, and its alert thresholds.
///
/// The defaults are those of the SRE workbook, chapter 5 ("Alerting on SLOs"), for a budget of 30 days: 2 %
/// of it gone in an hour (a burn rate of 14.4), or 5 % in six hours (6).
#[derive(Clone, Debug, PartialEq)]
pub struct Objective {
    /// What people call it; unique.
    pub name: String,
    /// Whose statements.
    pub target: Target,
    /// The latency within which a statement is good.
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
    /// An incident is closed when no window has burned for this long.
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
pub(super) fn read(document: &mut Section<'_>) -> Vec<Objective> {
    let mut objectives: Vec<Objective> = Vec::new();
    for (at, section) in document.sections("objective").into_iter().enumerate() {
        if at == Objective::MOST {
            let wrong = format!("there are more than {} objectives", Objective::MOST);
            section.complain("", wrong, "keep those that a person would be woken for");
        }
        objectives.extend(objective(section, &objectives));
    }
    objectives
}

fn objective(mut section: Section<'_>, before: &[Objective]) -> Option<Objective> {
    let name = section.plain("name");
    section.require("name", "write what people call it: name = \"checkout\"");
    let target = target(&mut section);
    let second = Duration::from_secs(1);
    let threshold = section.duration("threshold", Duration::from_micros(1));
    section.require("threshold", "write how long a good statement takes: threshold = \"15ms\"");
    let share = section.number("share", (0.5, 0.99999));
    section.require("share", "write the share that must be good: share = 0.99 (p99)");
    let days = section.count("window_days", (1, 90));
    // A twelfth of a window is looked at too, and figures come once a second.
    let fast = section.duration("fast", 12 * second);
    let slow = section.duration("slow", 12 * second);
    let fast_burn = section.number("fast_burn", (1.0, 1e5));
    let slow_burn = section.number("slow_burn", (1.0, 1e5));
    let calm = section.duration("calm", second);
    let read = match (name, target, threshold, share) {
        (Some(name), Some(target), Some(threshold), Some(share)) => {
            let default = Objective::new(name, target, threshold, share);
            let read = Objective {
                window_days: days.unwrap_or(default.window_days),
                fast: fast.unwrap_or(default.fast),
                slow: slow.unwrap_or(default.slow),
                fast_burn: fast_burn.unwrap_or(default.fast_burn),
                slow_burn: slow_burn.unwrap_or(default.slow_burn),
                calm: calm.unwrap_or(default.calm),
                ..default
            };
            contradictions(&read, before, &section);
            Some(read)
        }
        _ => None,
    };
    section.finish();
    read
}

fn contradictions(objective: &Objective, before: &[Objective], section: &Section<'_>) {
    if before.iter().any(|known| known.name == objective.name) {
        let wrong = format!("there are two objectives '{}'", objective.name);
        section.complain("name", wrong, "give each a name of its own");
    }
    if objective.slow <= objective.fast {
        let (fast, slow) = (duration_text(objective.fast), duration_text(objective.slow));
        let wrong = format!("slow is {slow}, which is not longer than fast ({fast})");
        section.complain(
            "slow",
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
            section.complain(key, wrong, right);
        }
    }
}

fn target(section: &mut Section<'_>) -> Option<Target> {
    let listener = section.text("listener", value::listening_address);
    let found = [
        ("endpoint", section.plain("endpoint").map(Target::Endpoint)),
        ("server", section.plain("server").map(Target::Server)),
        ("listener", listener.map(|address| Target::Listener(address.get_ref().to_string()))),
    ];
    let mut found = found.into_iter().filter_map(|(key, target)| Some((key, target?)));
    let first = found.next();
    if first.is_none() {
        let right = "write one of endpoint = \"checkout\", server = \"db1\", listener = \"127.0.0.1:3306\"";
        section.complain("", "an [[objective]] must say whose statements it is about", right);
    }
    if let Some((key, _)) = found.next() {
        let wrong = "an [[objective]] is about one endpoint, server or listener";
        section.complain(key, wrong, "keep one of endpoint, server and listener");
        return None;
    }
    first.map(|(_, target)| target)
}
