//! What `headroom knob` prints for people.

use knob::Refusal;
use knob::apply::{Outcome, Status, Write};
use knob::journal::{End, Entry, Phase};
use knob::session::RestoreOutcome;
use term::Table;

/// One line for each change.
pub(super) fn outcomes(outcomes: &[Outcome]) -> String {
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
pub(super) fn preview(all: &[(String, Result<Vec<Write>, Refusal>)]) -> String {
    let mut table = Table::new(&["KNOB", "ITEM", "IS", "WOULD BE"]);
    for (knob, writes) in all {
        match writes {
            Err(refusal) => {
                table.row(vec![knob.clone(), String::new(), String::new(), format!("refused: {refusal}")]);
            }
            Ok(writes) if writes.is_empty() => {
                table.row(vec![knob.clone(), String::new(), String::new(), "so already".to_owned()]);
            }
            Ok(writes) => {
                for Write { item, from, to } in writes {
                    table.row(vec![knob.clone(), item.clone(), from.clone(), to.clone()]);
                }
            }
        }
    }
    table.text()
}

/// One line for each state, and below what was left the original values.
pub(super) fn restored(all: &[RestoreOutcome]) -> String {
    let mut text = String::new();
    for RestoreOutcome { knobs, before, end, failed } in all {
        let words = match (end, failed) {
            (_, Some(refusal)) => format!("NOT put back, still in the journal: {refusal}"),
            (Some(end), None) => ended(end),
            (None, None) => String::new(),
        };
        text.push_str(&format!("{}  {words}\n", knobs.join(", ")));
        if matches!(end, Some(End::Left { .. })) || failed.is_some() {
            text.push_str(&format!("  before: {}\n", before.join("; ")));
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
    }
}

/// One line for each entry.
pub(super) fn journal(entries: &[Entry], now: u64) -> String {
    let mut table = Table::new(&[">ID", "KNOB", "BEFORE", "SET TO", "STATE", "BY", "AGO"]);
    for Entry { id, intent, phase } in entries {
        let written = |one: &&knob::item::ItemValue| intent.writes.iter().any(|write| write.item == one.item);
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
