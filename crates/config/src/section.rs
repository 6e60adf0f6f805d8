//! A section of the document while it is read: values are taken out by key, what is of the wrong kind or
//! impossible is noted with its place, and what nobody asked for is an unknown key. Reading goes on after
//! each complaint, so that the operator sees all of them at once; that is why this is not a derived
//! deserializer, which stops at the first.

use super::complaint::Ledger;
use super::schema::{Description, Shape};
use super::value::{self, Refusal};
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;
use strsim::osa_distance;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// One table of the document.
pub(super) struct Section<'a> {
    name: String,
    span: Range<usize>,
    table: Option<&'a DeTable<'a>>,
    ledger: &'a Ledger<'a>,
    asked: Vec<&'static str>,
    /// What was asked for and what it may be, where that is what is wanted (`schema.rs`).
    description: Option<Description>,
}

impl<'a> Section<'a> {
    pub(super) fn document(table: &'a DeTable<'a>, ledger: &'a Ledger<'a>) -> Self {
        Self::new("the file", Some(table), 0..0, ledger)
    }

    /// A document without content whose readers describe what they take.
    pub(super) fn described(description: &Description, ledger: &'a Ledger<'a>) -> Self {
        Self { description: Some(description.clone()), ..Self::new("the file", None, 0..0, ledger) }
    }

    fn new(
        name: impl Into<String>,
        table: Option<&'a DeTable<'a>>,
        span: Range<usize>,
        ledger: &'a Ledger<'a>,
    ) -> Self {
        Self { name: name.into(), span, table, ledger, asked: Vec::new(), description: None }
    }

    /// Whether the document has it at all.
    pub(super) fn is_present(&self) -> bool {
        self.table.is_some() || self.description.is_some()
    }

    /// The section `[key]` in here; an empty one where the document has none.
    pub(super) fn section(&mut self, key: &'static str) -> Self {
        let name = self.inner_name(key);
        if let Some(description) = self.inside(key, Shape::Section) {
            return Self::described(&description, self.ledger).named(name);
        }
        match self.raw(key) {
            None => Self::new(name, None, self.span.clone(), self.ledger),
            Some(found) => match found.get_ref() {
                DeValue::Table(table) => Self::new(name, Some(table), found.span(), self.ledger),
                other => {
                    let right = format!("write a section {name}");
                    self.ledger.add(&found.span(), format!("{key} is {}, not a section", kind(other)), right);
                    Self::new(name, None, found.span(), self.ledger)
                }
            },
        }
    }

    /// The sections `[[key]]` in here, in the order of the file.
    pub(super) fn sections(&mut self, key: &'static str) -> Vec<Self> {
        if let Some(description) = self.inside(key, Shape::Sections) {
            return vec![Self::described(&description, self.ledger).named(format!("[[{key}]]"))];
        }
        let Some(found) = self.raw(key) else { return Vec::new() };
        let DeValue::Array(array) = found.get_ref() else {
            let right = format!("write it in double brackets, once for each: [[{key}]]");
            let wrong = format!("{key} is {}, not a list of sections", kind(found.get_ref()));
            self.ledger.add(&found.span(), wrong, right);
            return Vec::new();
        };
        let mut sections = Vec::new();
        for item in array {
            match item.get_ref() {
                DeValue::Table(table) => {
                    sections.push(Self::new(format!("[[{key}]]"), Some(table), item.span(), self.ledger));
                }
                other => {
                    let wrong = format!("an entry of {key} is {}, not a section", kind(other));
                    self.ledger.add(&item.span(), wrong, format!("write [[{key}]] for each"));
                }
            }
        }
        sections
    }

    /// A text that means something: `read` says what, or why it cannot be.
    pub(super) fn text<T>(
        &mut self,
        key: &'static str,
        read: impl FnOnce(&str) -> Result<T, Refusal>,
    ) -> Option<Spanned<T>> {
        self.describe(key, || Shape::Text);
        let found = self.raw(key)?;
        let DeValue::String(text) = found.get_ref() else {
            self.wrong_kind(key, found, "a text in quotes", "put it in double quotes");
            return None;
        };
        match read(text) {
            Ok(value) => Some(Spanned::new(found.span(), value)),
            Err((wrong, right)) => {
                self.ledger.add(&found.span(), format!("{key}: {wrong}"), right);
                None
            }
        }
    }

    /// A text as it stands; an empty one is refused.
    pub(super) fn plain(&mut self, key: &'static str) -> Option<String> {
        let text = self.text(key, |text| {
            if text.trim().is_empty() {
                Err(("it is empty".to_owned(), "write a value, or remove the line".to_owned()))
            } else {
                Ok(text.to_owned())
            }
        });
        text.map(Spanned::into_inner)
    }

    /// The path of a file or directory; whether it is there, nobody looks.
    pub(super) fn path(&mut self, key: &'static str) -> Option<PathBuf> {
        self.plain(key).map(PathBuf::from)
    }

    /// One word of a short list.
    pub(super) fn choice<T: Copy>(&mut self, key: &'static str, choices: &[(&'static str, T)]) -> Option<T> {
        self.describe(key, || Shape::Choice(choices.iter().map(|(word, _)| *word).collect()));
        let word = self.text(key, |text| {
            let known = choices.iter().find(|(word, _)| word.eq_ignore_ascii_case(text));
            known.map(|(_, value)| *value).ok_or_else(|| {
                let words: Vec<_> = choices.iter().map(|(word, _)| *word).collect();
                let all = words.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(", ");
                let right = match nearest(text, words) {
                    Some(word) => format!("did you mean \"{word}\"? It is one of {all}"),
                    None => format!("it is one of {all}"),
                };
                (format!("'{text}' is not known here"), right)
            })
        });
        word.map(Spanned::into_inner)
    }

    /// A duration of at least `least`.
    pub(super) fn duration(&mut self, key: &'static str, least: Duration) -> Option<Duration> {
        self.describe(key, || Shape::Duration(least));
        if let Some(found) = self.table.and_then(|table| table.get(key))
            && matches!(found.get_ref(), DeValue::Integer(_) | DeValue::Float(_))
        {
            self.asked.push(key);
            let right = "write a number and a unit in quotes: \"500ms\", \"10s\", \"2m\"";
            self.ledger.add(&found.span(), format!("{key} is a number without a unit"), right);
            return None;
        }
        let duration = self.text(key, |text| {
            let duration = value::duration(text)?;
            if duration < least {
                let right = format!("it must be at least {}", fleet::duration_text(least));
                return Err((format!("'{text}' is too short"), right));
            }
            Ok(duration)
        });
        duration.map(Spanned::into_inner)
    }

    /// A number in `low..=high`.
    pub(super) fn number(&mut self, key: &'static str, range: (f64, f64)) -> Option<f64> {
        self.number_or(key, range, |_| None)
    }

    /// The same; `instead` says for a number outside of the range what is probably meant.
    pub(super) fn number_or(
        &mut self,
        key: &'static str,
        (low, high): (f64, f64),
        instead: impl Fn(f64) -> Option<&'static str>,
    ) -> Option<f64> {
        self.describe(key, || Shape::Number(low, high));
        let found = self.raw(key)?;
        let number = match found.get_ref() {
            DeValue::Integer(i) => i128::from_str_radix(i.as_str(), i.radix()).ok().map(|i| i as f64),
            DeValue::Float(f) => f.as_str().parse::<f64>().ok(),
            _ => {
                self.wrong_kind(key, found, "a number", "write it without quotes");
                return None;
            }
        };
        let within = number.filter(|n| (low..=high).contains(n));
        if within.is_none() {
            let wrong = format!("{key} = {} is out of range", number_text(found.get_ref()));
            let right = match number.and_then(instead) {
                Some(meant) => format!("it lies between {low} and {high}; {meant}"),
                None => format!("it lies between {low} and {high}"),
            };
            self.ledger.add(&found.span(), wrong, right);
        }
        within
    }

    /// A whole number in `low..=high`.
    pub(super) fn count(&mut self, key: &'static str, (low, high): (u32, u32)) -> Option<u32> {
        self.describe(key, || Shape::Count(low, high));
        let found = self.raw(key)?;
        let DeValue::Integer(integer) = found.get_ref() else {
            let right = "write it without quotes and without a point";
            self.wrong_kind(key, found, "a whole number", right);
            return None;
        };
        let number = u32::from_str_radix(integer.as_str(), integer.radix());
        let number = number.ok().filter(|n| (low..=high).contains(n));
        if number.is_none() {
            let wrong = format!("{key} = {integer} is out of range");
            self.ledger.add(&found.span(), wrong, format!("it lies between {low} and {high}"));
        }
        number
    }

    /// `true` or `false`.
    pub(super) fn flag(&mut self, key: &'static str) -> Option<bool> {
        self.describe(key, || Shape::Flag);
        let found = self.raw(key)?;
        if let DeValue::Boolean(value) = found.get_ref() {
            return Some(*value);
        }
        self.wrong_kind(key, found, "true or false", "write true or false without quotes");
        None
    }

    /// A list of texts, each read by `read`; entries that are refused are left out.
    pub(super) fn texts<T>(
        &mut self,
        key: &'static str,
        read: impl Fn(&str) -> Result<T, Refusal>,
    ) -> Option<Vec<Spanned<T>>> {
        self.describe(key, || Shape::Texts);
        let found = self.raw(key)?;
        let DeValue::Array(array) = found.get_ref() else {
            self.wrong_kind(key, found, "a list", "write it in brackets: [\"...\", \"...\"]");
            return None;
        };
        let mut values = Vec::new();
        for item in array {
            let span = item.span();
            match item.get_ref() {
                DeValue::String(text) => match read(text) {
                    Ok(value) => values.push(Spanned::new(span, value)),
                    Err((wrong, right)) => self.ledger.add(&span, format!("{key}: {wrong}"), right),
                },
                other => {
                    let wrong = format!("an entry of {key} is {}, not a text", kind(other));
                    self.ledger.add(&span, wrong, "put it in double quotes");
                }
            }
        }
        Some(values)
    }

    /// The same without their places.
    pub(super) fn list<T>(
        &mut self,
        key: &'static str,
        read: impl Fn(&str) -> Result<T, Refusal>,
    ) -> Option<Vec<T>> {
        self.texts(key, read).map(|list| list.into_iter().map(Spanned::into_inner).collect())
    }

    /// A small table of texts, e.g. `labels = { rack = "7" }`.
    pub(super) fn pairs(&mut self, key: &'static str) -> Vec<(String, String)> {
        self.describe(key, || Shape::Pairs);
        let Some(found) = self.raw(key) else { return Vec::new() };
        let DeValue::Table(table) = found.get_ref() else {
            self.wrong_kind(key, found, "a small table", "write { key = \"value\", ... }");
            return Vec::new();
        };
        let mut pairs = Vec::new();
        for (name, value) in table {
            match value.get_ref() {
                DeValue::String(text) if !text.is_empty() => {
                    pairs.push((name.get_ref().to_string(), text.to_string()));
                }
                other => {
                    let wrong = format!("{key}.{} is {}", name.get_ref(), kind(other));
                    self.ledger.add(&value.span(), wrong, "write a text in quotes");
                }
            }
        }
        pairs
    }

    /// Whether `key` is `[]`.
    pub(super) fn is_empty_list(&self, key: &str) -> bool {
        let found = self.table.and_then(|table| table.get(key));
        found.is_some_and(|found| matches!(found.get_ref(), DeValue::Array(array) if array.is_empty()))
    }

    /// Where the value of `key` stands, else where the section starts.
    pub(super) fn place_of(&self, key: &str) -> Range<usize> {
        self.table.and_then(|table| table.get(key)).map_or(self.span.clone(), Spanned::span)
    }

    /// Notes that the value of `key` is wrong, or, where there is none, that something is wrong with the
    /// section.
    pub(super) fn complain(&self, key: &str, wrong: impl Into<String>, right: impl Into<String>) {
        self.ledger.add(&self.place_of(key), wrong, right);
    }

    /// Notes that `key` is needed and absent, unless it is there (and was refused already).
    pub(super) fn require(&self, key: &'static str, right: &str) {
        if let Some(description) = &self.description {
            description.require(key);
            return;
        }
        if self.table.is_none_or(|table| !table.contains_key(key)) {
            self.ledger.add(&self.span, format!("{} has no {key}", self.name), right);
        }
    }

    /// Notes every key nobody asked for.
    pub(super) fn finish(self) {
        let Some(table) = self.table else { return };
        for (key, _) in table {
            let name = key.get_ref().as_ref();
            if !self.asked.contains(&name) {
                let right = match nearest(name, self.asked.iter().copied()) {
                    Some(known) => format!("did you mean {known}?"),
                    None => format!("{} knows {}", self.name, self.asked.join(", ")),
                };
                let what = if self.name == "the file" { "section" } else { "key" };
                self.ledger.add(&key.span(), format!("unknown {what} '{name}' in {}", self.name), right);
            }
        }
    }

    /// Describes a key; the first description counts, which is the one that knows most.
    fn describe(&self, key: &'static str, shape: impl FnOnce() -> Shape) {
        if let Some(description) = &self.description {
            description.add(key, shape());
        }
    }

    /// Describes a section in here; `None` where a document is read.
    fn inside(&self, key: &'static str, shape: fn(Description) -> Shape) -> Option<Description> {
        let inner = self.description.as_ref().map(|_| Description::default())?;
        self.describe(key, || shape(inner.clone()));
        Some(inner)
    }

    fn named(mut self, name: String) -> Self {
        self.name = name;
        self
    }

    fn raw(&mut self, key: &'static str) -> Option<&'a Spanned<DeValue<'a>>> {
        self.asked.push(key);
        self.table.and_then(|table| table.get(key))
    }

    fn wrong_kind(&self, key: &str, found: &Spanned<DeValue<'_>>, expected: &str, right: &str) {
        let wrong = format!("{key} is {}, not {expected}", kind(found.get_ref()));
        self.ledger.add(&found.span(), wrong, right);
    }

    fn inner_name(&self, key: &str) -> String {
        match self.name.strip_prefix('[').and_then(|name| name.strip_suffix(']')) {
            Some(outer) => format!("[{outer}.{key}]"),
            None => format!("[{key}]"),
        }
    }
}

/// The candidate within a third of `word`'s length (at least one) in edits, nearest first; case counts
/// nothing.
fn nearest<'c>(word: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    let word: String = word.to_lowercase().replace('-', "_").chars().take(64).collect();
    let limit = (word.chars().count() / 3).max(1);
    candidates
        .into_iter()
        .map(|candidate| (osa_distance(&word, &candidate.to_lowercase()), candidate))
        .filter(|(distance, _)| *distance <= limit)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(text) if text.is_empty() => "an empty text",
        DeValue::String(_) => "a text",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number with a point",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a section",
    }
}

fn number_text(value: &DeValue<'_>) -> String {
    match value {
        DeValue::Integer(i) => i.to_string(),
        DeValue::Float(f) => f.to_string(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_keyboard_finds_its_word_and_nonsense_finds_none() {
        let keys = ["interval", "deadline", "seeds", "max_lag"];
        assert_eq!(nearest("intreval", keys), Some("interval"));
        assert_eq!(nearest("max-lag", keys), Some("max_lag"));
        assert_eq!(nearest("Seed", keys), Some("seeds"));
        assert_eq!(nearest("colour", keys), None);
        assert_eq!(nearest("", keys), None);
    }
}
