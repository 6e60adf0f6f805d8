//! What `headroom knob` prints for people.

use crate::apply::{Outcome, Status, Write};
use crate::error::Refusal;
use crate::journal::{End, Entry, Phase};
use crate::profile::{Profile, Today};
use crate::session::RestoreOutcome;
use crate::view::{KnobView, Preview, Writes};
use term::Table;

/// One line for each change.
pub fn outcomes(outcomes: &[Outcome]) -> String {
    let mut table = Table::new(&["KNOB", "WAS", "IS", "RESULT"]);
    for Outcome { knob, value, before, status } in outcomes {
        let was = before.clone().unwrap_or_else(|| "-".to_owned());
        let (is, words) = match status {
            Status::Applied { note: None } => (value.clone(), "applied, read back".to_owned()),
            Status::Applied { note: Some(note) } => (value.clone(), format!("applied, read back; {note}")),
            Status::Already => (value.clone(), "so already".to_owned()),
            Status::Refused { refusal } => (was.clone(), format!("REFUSED {value}: {refusal}")),
        };
        table.row(vec![knob.clone(), was, is, words]);
    }
    table.text()
}

/// What would be written.
pub fn preview(all: &[Preview]) -> String {
    let mut table = Table::new(&["KNOB", "ITEM", "IS", "WOULD BE"]);
    for Preview { knob, writes, .. } in all {
        match writes {
            Writes::Refused(refusal) => {
                table.row(vec![knob.clone(), String::new(), String::new(), format!("refused: {refusal}")]);
            }
            Writes::Writes(writes) if writes.is_empty() => {
                table.row(vec![knob.clone(), String::new(), String::new(), "so already".to_owned()]);
            }
            Writes::Writes(writes) => {
                for Write { item, from, to, note } in writes {
                    let to = note.as_ref().map_or_else(|| to.clone(), |note| format!("{to}; {note}"));
                    table.row(vec![knob.clone(), item.clone(), from.clone(), to]);
                }
            }
        }
    }
    table.text()
}

/// One line for each state, and below what is not back the original values, and what can be done about it;
/// `restore` is the command with the flags of this journal and server.
pub fn restored(all: &[RestoreOutcome], restore: &str) -> String {
    let mut text = String::new();
    for outcome in all {
        let RestoreOutcome { knobs, before, end, failed, .. } = outcome;
        let words = match (end, failed) {
            (_, Some(refusal)) => format!("NOT put back, still in the journal: {refusal}"),
            (Some(end), None) => ended(end),
            (None, None) => String::new(),
        };
        text.push_str(&format!("{}  {words}\n", knobs.join(", ")));
        if matches!(end, Some(End::Left { .. } | End::Gone { .. } | End::Forgotten { .. }))
            || failed.is_some()
        {
            text.push_str(&format!("  before: {}\n", before.join("; ")));
        }
        let server = outcome.server().map_or_else(String::new, |at| format!(" --server '{at}'"));
        let knobs = knobs.join("' '");
        if matches!(end, Some(End::Left { .. })) {
            text.push_str(&format!("  to overwrite it: {restore}{server} --force '{knobs}'\n"));
        }
        if matches!(failed, Some(Refusal::Unreachable { .. })) {
            text.push_str(&format!("  if it is removed for good: {restore}{server} --forget '{knobs}'\n"));
        }
    }
    text
}

fn ended(end: &End) -> String {
    match end {
        End::Refused { why } => format!("was refused: {why}"),
        End::Restored => "put back, read back".to_owned(),
        End::Already => "was back already".to_owned(),
        End::Restarted => "back since the restart of the host or server".to_owned(),
        End::Left { why } => format!("LEFT as somebody else changed it: {why}"),
        End::Gone { why } => format!("not put back, it is another thing now: {why}"),
        End::Forgotten { left } => format!("FORGOTTEN on request, not put back; left at: {left}"),
    }
}

/// One line for each entry.
pub fn journal(entries: &[Entry], now: u64) -> String {
    let mut table = Table::new(&[">ID", "KNOB", "BEFORE", "SET TO", "STATE", "BY", "AGO"]);
    for Entry { id, intent, phase } in entries {
        let written =
            |one: &&crate::item::ItemValue| intent.writes.iter().any(|write| write.item == one.item);
        let mut before: Vec<&str> =
            intent.before.iter().filter(written).map(|one| one.value.as_str()).collect();
        before.dedup();
        let state = match phase {
            Phase::Opened => "announced; not known whether it was written".to_owned(),
            Phase::Written { .. } if intent.keep => "in force, to be kept".to_owned(),
            Phase::Written { .. } => "in force".to_owned(),
            Phase::Restoring { .. } => "being put back".to_owned(),
            Phase::Closed { end, .. } => ended(end),
        };
        table.row(vec![
            id.to_string(),
            intent.knob.clone(),
            before.join(" | "),
            intent.value.clone(),
            state,
            format!("{} ({})", intent.author.user, intent.author.pid),
            ago(now.saturating_sub(intent.at)),
        ]);
    }
    table.text()
}

fn ago(seconds: u64) -> String {
    match seconds {
        0..=119 => format!("{seconds} s"),
        120..=7_199 => format!("{} min", seconds / 60),
        7_200..=172_799 => format!("{} h", seconds / 3_600),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// A line for each knob.
pub fn list(rows: &[KnobView]) -> String {
    let mut table = Table::new(&["KNOB", "VALUE", "TAKES", "CHANGE", "DANGER"]);
    for row in rows {
        let value = row.value.clone().unwrap_or_else(|| "-".to_owned());
        let danger = if row.danger.is_some() { "must be named" } else { "" };
        table.row(vec![
            row.knob.clone(),
            value,
            row.takes.clone(),
            row.change.words().to_owned(),
            danger.to_owned(),
        ]);
    }
    table.text()
}

/// Everything about one knob.
pub fn one(row: &KnobView) -> String {
    let mut text = format!("{}\n  {}\n", row.knob, row.help);
    let mut line = |label: &str, words: &str| text.push_str(&format!("  {label:<9} {words}\n"));
    if let Some(danger) = &row.danger {
        line("Warning", danger);
    }
    match (&row.value, &row.unreadable) {
        (Some(value), _) => line("now", value),
        (None, Some(why)) => line("now", &format!("cannot be read: {why}")),
        (None, None) => {}
    }
    line("takes", &row.takes);
    line("change", row.change.words());
    line("verified", row.proof.words());
    if let Some(with) = &row.state_with {
        line("one state", &format!("with {with}"));
    }
    line("source", row.source);
    text
}

/// A profile, a line for each of its rows.
pub fn profile(profile: &Profile) -> String {
    let mut table = Table::new(&["PUBLISHED", "KNOB TODAY", "STATE", "REASON", "TODAY"]);
    for row in profile.rows {
        let state = match row.today {
            Today::Current => "current",
            Today::Disputed => "disputed",
            Today::Replaced => "replaced",
            Today::Default => "default now",
            Today::Gone => "gone",
        };
        let knob = row.knob.unwrap_or("by hand");
        table.row([row.published, knob, state, row.reason, row.note].map(str::to_owned).to_vec());
    }
    format!("{}\nMade for: {}\nSource:   {}\n\n{}", profile.title, profile.host, profile.source, table.text())
}
