//! What people see of objectives: in `/status.json`, on the page, in `headroom status` and `headroom watch`.

use insight::objective::{Burning, Pace, Tracked};
use serde::{Deserialize, Serialize};
use std::time::Instant;
use term::{Paint, Table};

/// One objective.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ObjectiveView {
    /// What people call it.
    pub name: String,
    /// What is promised, in words.
    pub promise: String,
    /// Why nothing is judged now, if so, and what to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_judged: Option<String>,
    /// How fast the budget is spent: 1 is what is allowed. Absent where too little was seen.
    pub burn: BurnView,
    /// The incident under way.
    pub incident: Option<IncidentView>,
    /// Incidents since the start of the process.
    pub opened: u64,
    /// Of those, over.
    pub closed: u64,
    /// Incidents opened in the last seven days, the seven before, and so on, since the start of the process.
    pub by_week: Vec<u64>,
}

/// Burn rates by window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct BurnView {
    pub fast: Option<f64>,
    pub fast_short: Option<f64>,
    pub slow: Option<f64>,
    pub slow_short: Option<f64>,
}

/// An incident under way.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct IncidentView {
    /// For how long.
    pub for_s: f64,
    /// `fast` or `slow`: the windows that found it.
    pub pace: String,
    /// The greatest burn rate of the shortest window so far.
    pub worst_burn: f64,
    /// For how long it has been calm, if it is; it closes when that was long enough.
    pub calm_for_s: Option<f64>,
}

/// Who is told.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WebhookView {
    /// Where, without path.
    pub to: String,
    /// Told.
    pub delivered: u64,
    /// Tries that failed and were or will be repeated.
    pub tried_again: u64,
    /// Given up: refused for good, out of time, or no room to wait.
    pub lost: u64,
    /// Waiting to be told.
    pub waiting: u64,
    /// Why the last try failed, if it did.
    pub failed_because: Option<String>,
}

impl IncidentView {
    /// In words.
    pub fn text(&self) -> String {
        let calm = self.calm_for_s.map_or(String::new(), |calm| format!(", calm for {calm:.0} s"));
        format!("open for {:.0} s, at worst {:.1} times the allowed rate{calm}", self.for_s, self.worst_burn)
    }
}

/// One objective at `now`.
pub(super) fn objective(tracked: &Tracked, now: Instant) -> ObjectiveView {
    let Burning { fast, fast_short, slow, slow_short } = tracked.burning();
    let ago = |at: Instant| now.saturating_duration_since(at).as_secs_f64();
    let book = tracked.book();
    ObjectiveView {
        name: tracked.objective().name.clone(),
        promise: tracked.objective().text(),
        not_judged: None,
        burn: BurnView { fast, fast_short, slow, slow_short },
        incident: book.open().map(|open| IncidentView {
            for_s: ago(open.since),
            pace: pace(open.pace).to_owned(),
            worst_burn: open.worst,
            calm_for_s: open.calm_since.map(ago),
        }),
        opened: book.opened(),
        closed: book.closed(),
        by_week: book.by_week(now).to_vec(),
    }
}

/// The word for a pair of windows.
pub(super) fn pace(pace: Pace) -> &'static str {
    match pace {
        Pace::Fast => "fast",
        Pace::Slow => "slow",
    }
}

/// Incidents first, then every objective with its burn rates; nothing where nothing is promised.
pub fn text(objectives: &[ObjectiveView], webhook: Option<&WebhookView>, paint: Paint) -> String {
    if objectives.is_empty() {
        return String::new();
    }
    let mut table = Table::new(&["OBJECTIVE", "PROMISE", ">BURN FAST", ">SLOW", ">THIS WEEK", "INCIDENT"]);
    for one in objectives {
        let burn = |burn: Option<f64>| burn.map_or("-".to_owned(), |burn| format!("{burn:.1}"));
        table.row(vec![
            paint.bold(&one.name),
            one.promise.clone(),
            burn(one.burn.fast),
            burn(one.burn.slow),
            one.by_week.first().copied().unwrap_or_default().to_string(),
            one.incident.as_ref().map_or("none".to_owned(), |incident| paint.red(&incident.text())),
        ]);
    }
    let mut text = table.text();
    for (one, why) in objectives.iter().filter_map(|one| Some((one, one.not_judged.as_ref()?))) {
        text.push_str(&format!("{} {} is not judged: {why}\n", paint.yellow("!"), one.name));
    }
    if let Some(WebhookView { to, lost, failed_because: Some(why), .. }) = webhook {
        text.push_str(&format!(
            "{} the webhook at {to} is not told: {why}; {lost} lost\n",
            paint.yellow("!")
        ));
    }
    text
}
