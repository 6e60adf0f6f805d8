//! A rule in words: when it names a bottleneck, where its thresholds come from, what it explains and what to
//! try. `headroom watch --explain` shows it.

use diagnose::verdict::{Name, RULES, Rule};
use fleet::Blame;
use serde::Serialize;
use std::collections::BTreeMap;

/// Marks of sources in a rule's text, and what they stand for.
const SOURCES: [(&str, &str); 3] =
    [("N", "Netdata's stock alarms"), ("K", "the kernel's documentation"), ("I", "reasoned")];

/// A rule, as `headroom watch --explain RULE --json` prints it.
#[derive(Clone, Debug, Serialize)]
pub struct RuleView {
    pub name: Name,
    /// Its name for people.
    pub title: &'static str,
    /// What must hold, with marks of its sources.
    pub when: &'static str,
    /// What the marks in it stand for.
    pub source: BTreeMap<&'static str, &'static str>,
    /// Bottlenecks that are its effects.
    pub explains: Vec<Name>,
    /// The cheapest first.
    #[serde(rename = "try")]
    pub tries: &'static [&'static str],
}

impl RuleView {
    /// The rule of this name, as JSON or people have it.
    ///
    /// # Errors
    /// No rule has this name; the message has all names.
    pub fn find(name: &str) -> Result<Self, UnknownRule> {
        let named = |rule: &&Rule| rule_name(rule) == name || rule.called == name;
        let rule = RULES.iter().find(named).ok_or_else(|| UnknownRule(name.to_owned()))?;
        Ok(Self {
            name: rule.name,
            title: rule.called,
            when: rule.when,
            source: sources(rule.when),
            explains: rule.explains.to_vec(),
            tries: rule.next,
        })
    }

    /// For people.
    pub fn text(&self) -> String {
        let Self { title, when, .. } = self;
        let mut text = format!("{title} ({})\n\nnamed when  {when}\n", rule_name(self.name.rule()));
        let legend = SOURCES.map(|(mark, source)| format!("{mark} {source}")).join(", ");
        text.push_str(&format!("sources     {legend}\n"));
        if !self.explains.is_empty() {
            let effects: Vec<&str> = self.explains.iter().map(|name| name.rule().called).collect();
            text.push_str(&format!(
                "explains    {} (named after it where both are there)\n",
                effects.join(", ")
            ));
        }
        for (at, advice) in self.tries.iter().enumerate() {
            text.push_str(&format!("{}{advice}\n", if at == 0 { "try first   " } else { "then        " }));
        }
        text
    }
}

/// Of the marks that stand in brackets, as in `(K, I)`.
fn sources(when: &str) -> BTreeMap<&'static str, &'static str> {
    let brackets = when.split('(').skip(1).filter_map(|rest| Some(rest.split_once(')')?.0));
    let known = |mark: &str| SOURCES.iter().copied().find(|(known, _)| *known == mark);
    brackets.flat_map(|inside| inside.split(", ")).filter_map(known).collect()
}

/// There is no such rule.
#[derive(Debug, thiserror::Error)]
#[error("no rule is called '{0}'; there are: {names}", names = RULES.iter().map(rule_name).collect::<Vec<_>>().join(", "))]
pub struct UnknownRule(String);

impl UnknownRule {
    /// Whose fault it is: whoever wrote it.
    pub fn blame(&self) -> Blame {
        Blame::Config
    }
}

fn rule_name(rule: &Rule) -> String {
    let name = serde_json::to_value(rule.name).ok();
    name.as_ref().and_then(|name| name.as_str()).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_is_explained_with_its_sources_and_an_unknown_one_brings_the_names_of_all() {
        for rule in RULES {
            let view = RuleView::find(&rule_name(rule)).unwrap();
            let text = view.text();
            assert!(text.contains(rule.when) && text.contains(rule.next[0]), "{text}");
            assert!(!view.source.is_empty(), "{text}");
        }
        let error = RuleView::find("the moon").unwrap_err().to_string();
        assert!(error.contains("'the moon'") && error.contains("cpu-limit"), "{error}");
    }

    #[test]
    fn the_sources_of_a_rule_are_those_that_its_text_marks() {
        let marks = |when: &str| sources(when).into_keys().collect::<Vec<_>>();
        assert_eq!(marks("busy >= 85 % (N), and waits >= 20 % (K, I)"), ["I", "K", "N"]);
        assert_eq!(marks("one statement for each row (N+1), in seconds"), [""; 0]);
    }

    #[test]
    fn the_legend_of_the_text_names_every_mark() {
        let text = RuleView::find("cpu-limit").unwrap().text();
        let legend = "sources     N Netdata's stock alarms, K the kernel's documentation, I reasoned\n";
        assert!(text.contains(legend), "{text}");
    }
}
