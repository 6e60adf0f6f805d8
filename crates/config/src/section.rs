//! A section of the document while it is read: values are taken out by key, what is of the wrong kind or impossible is
//! noted with its place, and what nobody asked for is an unknown key. Reading goes on after each complaint, so that
//! the operator sees all of them at once; that is why this is not a derived deserializer, which stops at the first.

use super::complaint::Ledger;
use super::nearest::nearest;
use super::value::{self, Refusal};
use std::ops::Range;
use std::time::Duration;
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

/// A value with its place in the text.
#[derive(Clone, Debug)]
pub(super) struct Placed<T> {
    pub(super) value: T,
    pub(super) span: Range<usize>,
}

/// One table of the document.
pub(super) struct Section<'t, 'i> {
    name: String,
    span: Range<usize>,
    table: Option<&'t DeTable<'i>>,
    asked: Vec<&'static str>,
}

/// What a value should have been.
type Wanted<'w> = (&'w str, &'w str);

impl<'t, 'i> Section<'t, 'i> {
    /// The document itself, or any table; `name` is how people call it, e.g. `[fleet]`.
    pub(super) fn new(name: impl Into<String>, table: &'t DeTable<'i>, span: Range<usize>) -> Self {
        Self { name: name.into(), span, table: Some(table), asked: Vec::new() }
    }

    /// Where it starts.
    pub(super) fn span(&self) -> Range<usize> {
        self.span.clone()
    }

    /// Whether the document has it at all.
    pub(super) fn is_present(&self) -> bool {
        self.table.is_some()
    }

    /// The section `[key]` in here; an empty one where the document has none.
    pub(super) fn section(&mut self, key: &'static str, ledger: &mut Ledger<'_>) -> Section<'t, 'i> {
        let name = self.inner_name(key);
        match self.raw(key) {
            None => Section { name, span: self.span.clone(), table: None, asked: Vec::new() },
            Some(found) => match found.get_ref() {
                DeValue::Table(table) => Section::new(name, table, found.span()),
                other => {
                    let right = format!("write a section {name}");
                    ledger.add(&found.span(), format!("{key} is {}, not a section", kind(other)), right);
                    Section { name, span: found.span(), table: None, asked: Vec::new() }
                }
            },
        }
    }

    /// The sections `[[key]]` in here, in the order of the file.
    pub(super) fn sections(&mut self, key: &'static str, ledger: &mut Ledger<'_>) -> Vec<Section<'t, 'i>> {
        let Some(found) = self.raw(key) else { return Vec::new() };
        let DeValue::Array(array) = found.get_ref() else {
            let right = format!("write it in double brackets, once for each: [[{key}]]");
            ledger.add(
                &found.span(),
                format!("{key} is {}, not a list of sections", kind(found.get_ref())),
                right,
            );
            return Vec::new();
        };
        let mut sections = Vec::new();
        for item in array {
            match item.get_ref() {
                DeValue::Table(table) => {
                    sections.push(Section::new(format!("[[{key}]]"), table, item.span()));
                }
                other => {
                    let wrong = format!("an entry of {key} is {}, not a section", kind(other));
                    ledger.add(&item.span(), wrong, format!("write [[{key}]] for each"));
                }
            }
        }
        sections
    }

    /// A text that means something: `read` says what, or why it cannot be.
    pub(super) fn text<T>(
        &mut self,
        key: &'static str,
        ledger: &mut Ledger<'_>,
        read: impl FnOnce(&str) -> Result<T, Refusal>,
    ) -> Option<Placed<T>> {
        let found = self.raw(key)?;
        let span = found.span();
        let DeValue::String(text) = found.get_ref() else {
            self.wrong_kind(key, found, ("a text in quotes", "put it in double quotes"), ledger);
            return None;
        };
        match read(text) {
            Ok(value) => Some(Placed { value, span }),
            Err((wrong, right)) => {
                ledger.add(&span, format!("{key}: {wrong}"), right);
                None
            }
        }
    }

    /// A text as it stands; an empty one is refused.
    pub(super) fn plain(&mut self, key: &'static str, ledger: &mut Ledger<'_>) -> Option<Placed<String>> {
        self.text(key, ledger, |text| {
            if text.trim().is_empty() {
                Err(("it is empty".to_owned(), "write a value, or remove the line".to_owned()))
            } else {
                Ok(text.to_owned())
            }
        })
    }

    /// One word of a short list.
    pub(super) fn choice<T: Copy>(
        &mut self,
        key: &'static str,
        ledger: &mut Ledger<'_>,
        choices: &[(&'static str, T)],
    ) -> Option<Placed<T>> {
        self.text(key, ledger, |text| {
            let known = choices.iter().find(|(word, _)| word.eq_ignore_ascii_case(text));
            known.map(|(_, value)| *value).ok_or_else(|| {
                let words: Vec<_> = choices.iter().map(|(word, _)| *word).collect();
                let all = words.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(", ");
                let right = match nearest(text, words.iter().copied()) {
                    Some(word) => format!("did you mean \"{word}\"? It is one of {all}"),
                    None => format!("it is one of {all}"),
                };
                (format!("'{text}' is not known here"), right)
            })
        })
    }

    /// A duration of at least `least`.
    pub(super) fn duration(
        &mut self,
        key: &'static str,
        ledger: &mut Ledger<'_>,
        least: Duration,
    ) -> Option<Placed<Duration>> {
        if let Some(found) = self.table.and_then(|table| table.get(key))
            && matches!(found.get_ref(), DeValue::Integer(_) | DeValue::Float(_))
        {
            self.asked.push(key);
            let right = "write a number and a unit in quotes: \"500ms\", \"10s\", \"2m\"";
            ledger.add(&found.span(), format!("{key} is a number without a unit"), right);
            return None;
        }
        self.text(key, ledger, |text| {
            let duration = fleet::parse_duration(text).map_err(|error| value::split(&error.to_string()))?;
            if duration < least {
                let right = format!("it must be at least {}", fleet::duration_text(least));
                return Err((format!("'{text}' is too short"), right));
            }
            Ok(duration)
        })
    }

    /// A number in `low..=high`.
    pub(super) fn number(
        &mut self,
        key: &'static str,
        ledger: &mut Ledger<'_>,
        (low, high): (f64, f64),
    ) -> Option<Placed<f64>> {
        let found = self.raw(key)?;
        let number = match found.get_ref() {
            DeValue::Integer(i) => i128::from_str_radix(i.as_str(), i.radix()).ok().map(|i| i as f64),
            DeValue::Float(f) => f.as_str().parse::<f64>().ok(),
            _ => {
                self.wrong_kind(key, found, ("a number", "write it without quotes"), ledger);
                return None;
            }
        };
        match number.filter(|n| (low..=high).contains(n)) {
            Some(value) => Some(Placed { value, span: found.span() }),
            None => {
                let wrong = format!("{key} = {} is out of range", number_text(found.get_ref()));
                ledger.add(&found.span(), wrong, format!("it lies between {low} and {high}"));
                None
            }
        }
    }

    /// A whole number in `low..=high`.
    pub(super) fn count(
        &mut self,
        key: &'static str,
        ledger: &mut Ledger<'_>,
        (low, high): (usize, usize),
    ) -> Option<Placed<usize>> {
        let found = self.raw(key)?;
        let DeValue::Integer(integer) = found.get_ref() else {
            self.wrong_kind(
                key,
                found,
                ("a whole number", "write it without quotes and without a point"),
                ledger,
            );
            return None;
        };
        match usize::from_str_radix(integer.as_str(), integer.radix()) {
            Ok(value) if (low..=high).contains(&value) => Some(Placed { value, span: found.span() }),
            _ => {
                let wrong = format!("{key} = {integer} is out of range");
                ledger.add(&found.span(), wrong, format!("it lies between {low} and {high}"));
                None
            }
        }
    }

    /// `true` or `false`.
    pub(super) fn flag(&mut self, key: &'static str, ledger: &mut Ledger<'_>) -> Option<Placed<bool>> {
        let found = self.raw(key)?;
        if let DeValue::Boolean(value) = found.get_ref() {
            return Some(Placed { value: *value, span: found.span() });
        }
        self.wrong_kind(key, found, ("true or false", "write true or false without quotes"), ledger);
        None
    }

    /// A list of texts, each read by `read`; entries that are refused are left out.
    pub(super) fn texts<T>(
        &mut self,
        key: &'static str,
        ledger: &mut Ledger<'_>,
        read: impl Fn(&str) -> Result<T, Refusal>,
    ) -> Option<Vec<Placed<T>>> {
        let found = self.raw(key)?;
        let DeValue::Array(array) = found.get_ref() else {
            self.wrong_kind(key, found, ("a list", "write it in brackets: [\"...\", \"...\"]"), ledger);
            return None;
        };
        Some(read_texts(key, array, ledger, read))
    }

    /// A small table of texts, e.g. `labels = { rack = "7" }`.
    pub(super) fn pairs(&mut self, key: &'static str, ledger: &mut Ledger<'_>) -> Vec<(String, String)> {
        let Some(found) = self.raw(key) else { return Vec::new() };
        let DeValue::Table(table) = found.get_ref() else {
            self.wrong_kind(key, found, ("a small table", "write { key = \"value\", ... }"), ledger);
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
                    ledger.add(&value.span(), wrong, "write a text in quotes");
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

    /// Notes that `key` is needed and absent, unless it is there (and was refused already).
    pub(super) fn require(&self, key: &'static str, ledger: &mut Ledger<'_>, right: &str) {
        if self.table.is_none_or(|table| !table.contains_key(key)) {
            ledger.add(&self.span, format!("{} has no {key}", self.name), right);
        }
    }

    /// Notes every key nobody asked for. Returns the keys that were asked for, for the tests of the example.
    pub(super) fn finish(self, ledger: &mut Ledger<'_>) {
        let Some(table) = self.table else { return };
        for (key, _) in table {
            let name = key.get_ref().as_ref();
            if !self.asked.contains(&name) {
                let right = match nearest(name, self.asked.iter().copied()) {
                    Some(known) => format!("did you mean {known}?"),
                    None => format!("{} knows {}", self.name, self.asked.join(", ")),
                };
                let what = if self.name == "the file" { "section" } else { "key" };
                ledger.add(&key.span(), format!("unknown {what} '{name}' in {}", self.name), right);
            }
        }
    }

    fn raw(&mut self, key: &'static str) -> Option<&'t Spanned<DeValue<'i>>> {
        self.asked.push(key);
        self.table.and_then(|table| table.get(key))
    }

    fn wrong_kind(
        &self,
        key: &str,
        found: &Spanned<DeValue<'_>>,
        (wanted, right): Wanted<'_>,
        ledger: &mut Ledger<'_>,
    ) {
        ledger.add(&found.span(), format!("{key} is {}, not {wanted}", kind(found.get_ref())), right);
    }

    fn inner_name(&self, key: &str) -> String {
        match self.name.strip_prefix('[').and_then(|name| name.strip_suffix(']')) {
            Some(outer) => format!("[{outer}.{key}]"),
            None => format!("[{key}]"),
        }
    }
}

fn read_texts<T>(
    key: &str,
    array: &DeArray<'_>,
    ledger: &mut Ledger<'_>,
    read: impl Fn(&str) -> Result<T, Refusal>,
) -> Vec<Placed<T>> {
    let mut values = Vec::new();
    for item in array {
        let span = item.span();
        match item.get_ref() {
            DeValue::String(text) => match read(text) {
                Ok(value) => values.push(Placed { value, span }),
                Err((wrong, right)) => ledger.add(&span, format!("{key}: {wrong}"), right),
            },
            other => {
                let wrong = format!("an entry of {key} is {}, not a text", kind(other));
                ledger.add(&span, wrong, "put it in double quotes");
            }
        }
    }
    values
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
