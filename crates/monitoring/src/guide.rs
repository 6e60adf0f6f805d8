//! The parts of `docs/guide/monitoring.md` that are made here: the tables of dashboards, of alerts and of
//! recording rules.

use crate::alert::{GROUPS, RECORDINGS};
use anyhow::Context;
use std::fmt::Write;
use std::path::Path;

const PAGE: &str = "docs/guide/monitoring.md";

/// The page with its tables made anew; `None` if it lacks their marks.
pub fn page(text: &str) -> Option<String> {
    let text = between(text, "dashboards", &dashboards())?;
    let text = between(&text, "alerts", &alerts())?;
    between(&text, "recordings", &recordings())
}

/// Puts them into the repository's page.
pub fn write(root: &Path) -> anyhow::Result<()> {
    let path = root.join(PAGE);
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let text = page(&text).with_context(|| format!("{PAGE} lacks the marks of its tables"))?;
    std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// Replaces what stands between `<!-- name: ... -->` and `<!-- end of name -->`.
pub fn between(text: &str, name: &str, table: &str) -> Option<String> {
    let begin = text.find(&format!("<!-- {name}:"))?;
    let begin = begin + text[begin..].find('\n')? + 1;
    let end = begin + text[begin..].find(&format!("<!-- end of {name} -->"))?;
    Some(format!("{}{table}{}", &text[..begin], &text[end..]))
}

fn dashboards() -> String {
    let mut table = "| dashboard | shows | file |\n|---|---|---|\n".to_owned();
    for dashboard in crate::dashboard::all() {
        let _ = writeln!(table, "| {} | {} | `{}` |", dashboard.title, dashboard.description, dashboard.path);
    }
    table
}

fn alerts() -> String {
    let mut text = String::new();
    for group in GROUPS {
        let _ = writeln!(text, "**{}**\n\n| alert | fires | do first |\n|---|---|---|", group.called);
        for alert in group.alerts {
            let hold =
                if alert.hold == "0m" { "at once".to_owned() } else { format!("after {}", alert.hold) };
            let first = plain(alert.first);
            let _ = writeln!(
                text,
                "| `{}`, {} | {hold}: {} | {first} ([guide]({})) |",
                alert.name,
                alert.severity.word(),
                plain(alert.summary),
                alert.guide
            );
        }
        text.push('\n');
    }
    text
}

fn recordings() -> String {
    let mut table = "| rule | is |\n|---|---|\n".to_owned();
    for recording in RECORDINGS {
        let _ = writeln!(table, "| `{}` | `{}` |", recording.name, recording.expr);
    }
    table
}

/// Templates as a reader understands them: `{{ $labels.server }}` is *server*, `{{ $value | ... }}` *value*.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("{{") {
        let Some((template, after)) = after.split_once("}}") else { break };
        plain.push_str(before);
        let word = template.split_whitespace().next().unwrap_or_default();
        match word {
            "with" => plain.push_str("*server* (or the host)"),
            "." | "end" | "$value" if word == "$value" => plain.push_str("*value*"),
            "else" => {
                // What stands in place of an empty label was said with the label.
                let (_, after) = after.split_once("{{ end }}").unwrap_or(("", after));
                rest = after;
                continue;
            }
            label if label.starts_with("$labels.") => {
                let _ = write!(plain, "*{}*", label.trim_start_matches("$labels."));
            }
            _ => {}
        }
        rest = after;
    }
    plain.push_str(rest);
    plain.replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_are_words() {
        assert_eq!(plain("{{ $labels.server }} has {{ $value | humanize }}"), "*server* has *value*");
        let either = "{{ with $labels.server }}{{ . }}{{ else }}The host{{ end }} is full";
        assert_eq!(plain(either), "*server* (or the host) is full");
    }

    #[test]
    fn a_table_is_replaced_between_its_marks() {
        let page = "a\n<!-- x: from here -->\nold\n<!-- end of x -->\nb\n";
        let made = between(page, "x", "new\n").unwrap();
        assert_eq!(made, "a\n<!-- x: from here -->\nnew\n<!-- end of x -->\nb\n");
        assert_eq!(between(page, "y", ""), None);
    }
}
