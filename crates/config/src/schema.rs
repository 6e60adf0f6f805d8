//! The schema of the configuration file, for editors and programs that write one: JSON Schema, draft 7, which
//! taplo and most others read.
//!
//! Nothing is described twice. What a key may be comes from the readers of the sections themselves, which run
//! over an empty document and note each question (`section.rs`); what it means, its default and an example
//! come from `headroom.example.toml`, which a test holds against the code. What only a reader can say (two
//! listeners that clash, an address block that is none) is not in it: `headroom check` is the last word.

use super::complaint::Ledger;
use super::draft::Draft;
use super::section::Section;
use serde_json::{Map, Value, json};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

const EXAMPLE: &str = include_str!("../../../headroom.example.toml");
/// `500ms`, `1.5s`, `2m`: what `fleet::parse_duration` takes.
const DURATION: &str = r"^\s*([0-9]+\.?[0-9]*|\.[0-9]+)\s*(ms|s|m|min|h|d)\s*$";

/// What a section takes, while it is asked.
#[derive(Clone, Debug, Default)]
pub(super) struct Description(Rc<RefCell<Keys>>);

#[derive(Debug, Default)]
struct Keys {
    known: Vec<(&'static str, Shape)>,
    required: Vec<&'static str>,
}

/// What the value of a key may be.
#[derive(Clone, Debug)]
pub(super) enum Shape {
    Text,
    Choice(Vec<&'static str>),
    /// At least this.
    Duration(Duration),
    Number(f64, f64),
    Count(u32, u32),
    Flag,
    Texts,
    /// Names and texts.
    Pairs,
    Section(Description),
    Sections(Description),
}

impl Description {
    /// A key; if it is known already, nothing changes.
    pub(super) fn add(&self, key: &'static str, shape: Shape) {
        let known = &mut self.0.borrow_mut().known;
        if !known.iter().any(|(other, _)| *other == key) {
            known.push((key, shape));
        }
    }

    /// The section is refused without this key.
    pub(super) fn require(&self, key: &'static str) {
        self.0.borrow_mut().required.push(key);
    }
}

/// The schema.
pub fn schema() -> Value {
    let (whole, ledger) = (Description::default(), Ledger::new("", ""));
    let mut document = Section::described(&whole, &ledger);
    // What is missing is complained of, which is not what was asked.
    drop(Draft::read(&mut document));
    let mut schema = object(&whole, "");
    schema.insert("$schema".to_owned(), json!("http://json-schema.org/draft-07/schema#"));
    schema.insert("title".to_owned(), json!("headroom.toml"));
    schema.insert("description".to_owned(), json!("The configuration of headroom."));
    Value::Object(schema)
}

/// The schema as text, a line end at its end: what `headroom.schema.json` holds.
pub fn text() -> String {
    format!("{:#}\n", schema())
}

/// The schema of a section whose name in the file is `path`; empty for the file.
fn object(description: &Description, path: &str) -> Map<String, Value> {
    let keys = description.0.borrow();
    let properties: Map<_, _> =
        keys.known.iter().map(|(key, shape)| ((*key).to_owned(), property(shape, path, key))).collect();
    let mut object = Map::new();
    object.insert("type".to_owned(), json!("object"));
    object.insert("additionalProperties".to_owned(), json!(false));
    object.insert("properties".to_owned(), Value::Object(properties));
    if !keys.required.is_empty() {
        object.insert("required".to_owned(), json!(keys.required));
    }
    object
}

fn property(shape: &Shape, section: &str, key: &str) -> Value {
    let path = if section.is_empty() { key.to_owned() } else { format!("{section}.{key}") };
    let mut value = match shape {
        Shape::Text => json!({"type": "string", "minLength": 1}),
        Shape::Choice(words) => json!({"type": "string", "enum": words}),
        Shape::Duration(_) => json!({"type": "string", "pattern": DURATION}),
        Shape::Number(low, high) => json!({"type": "number", "minimum": low, "maximum": high}),
        Shape::Count(low, high) => json!({"type": "integer", "minimum": low, "maximum": high}),
        Shape::Flag => json!({"type": "boolean"}),
        Shape::Texts => json!({"type": "array", "items": {"type": "string"}}),
        Shape::Pairs => json!({"type": "object", "additionalProperties": {"type": "string", "minLength": 1}}),
        Shape::Section(inner) => Value::Object(object(inner, &path)),
        Shape::Sections(inner) => json!({"type": "array", "items": object(inner, &path)}),
    };
    let documented = match shape {
        Shape::Section(_) | Shape::Sections(_) => Documented::section(&path),
        _ => Documented::key(section, key),
    };
    let mut text = documented.text;
    if let Shape::Duration(least) = shape
        && !least.is_zero()
    {
        text += &format!(" At least {}.", fleet::duration_text(*least));
    }
    let rest = [
        ("description", (!text.trim().is_empty()).then(|| json!(text.trim()))),
        ("default", documented.default),
        ("examples", documented.example.map(|example| json!([example]))),
    ];
    for (name, content) in rest {
        if let Some(content) = content {
            value[name] = content;
        }
    }
    value
}

/// What `headroom.example.toml` says of something.
#[derive(Debug, Default)]
struct Documented {
    text: String,
    default: Option<Value>,
    example: Option<Value>,
}

impl Documented {
    /// The comment above the first header of this section.
    fn section(path: &str) -> Self {
        let mut comment = Vec::new();
        for line in EXAMPLE.lines() {
            match ExampleLine::of(line) {
                ExampleLine::Header(name) if name == path => {
                    return Self { text: paragraph(&comment), ..Self::default() };
                }
                ExampleLine::Comment(words) => comment.push(words),
                _ => comment.clear(),
            }
        }
        Self::default()
    }

    /// The comment above this key, or above those that share it, and its value.
    fn key(section: &str, key: &str) -> Self {
        let (mut here, mut comment, mut fresh) = ("", Vec::new(), true);
        for line in EXAMPLE.lines() {
            match ExampleLine::of(line) {
                ExampleLine::Header(name) => (here, fresh) = (name, true),
                ExampleLine::Comment(words) => {
                    if std::mem::take(&mut fresh) {
                        comment.clear();
                    }
                    comment.push(words);
                }
                ExampleLine::Blank => fresh = true,
                ExampleLine::Option { name, value, default } => {
                    if here == section && name == key {
                        let (value, text) = (value_of(value), paragraph(&comment));
                        let (default, example) = if default { (value, None) } else { (None, value) };
                        return Self { text, default, example };
                    }
                    fresh = true;
                }
            }
        }
        Self::default()
    }
}

/// A line of the example.
enum ExampleLine<'a> {
    Blank,
    /// `[router.tls]`, `#[[zone]]`.
    Header(&'a str),
    Comment(&'a str),
    /// A key that is written, or shown behind `#`: its default, or what ends in `# example`.
    Option {
        name: &'a str,
        value: &'a str,
        default: bool,
    },
}

impl<'a> ExampleLine<'a> {
    fn of(line: &'a str) -> Self {
        let (rest, shown) = line.strip_prefix('#').map_or((line, false), |rest| (rest, true));
        if rest.starts_with('[') && rest.ends_with(']') {
            return Self::Header(rest.trim_matches(['[', ']']));
        }
        let is_key =
            |name: &str| !name.is_empty() && name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
        match rest.split_once(" = ") {
            Some((name, value)) if is_key(name) => {
                let (value, example) = match value.strip_suffix("# example") {
                    Some(value) => (value.trim(), true),
                    None => (value.trim(), false),
                };
                Self::Option { name, value, default: shown && !example }
            }
            _ if line.is_empty() || line.starts_with("# ---") => Self::Blank,
            _ => Self::Comment(rest.trim()),
        }
    }
}

fn paragraph(comment: &[&str]) -> String {
    comment.join(" ").trim().to_owned()
}

/// A value of the example as JSON.
fn value_of(text: &str) -> Option<Value> {
    let document: toml::Table = format!("value = {text}").parse().ok()?;
    serde_json::to_value(document.get("value")?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at<'a>(schema: &'a Value, path: &[&str]) -> &'a Value {
        path.iter().fold(schema, |schema, key| {
            let table = if schema["type"] == "array" { &schema["items"] } else { schema };
            &table["properties"][*key]
        })
    }

    #[test]
    fn keys_have_their_kind_their_limits_their_words_and_their_default() {
        let schema = schema();
        let interval = at(&schema, &["fleet", "interval"]);
        assert_eq!((&interval["type"], &interval["default"]), (&json!("string"), &json!("500ms")));
        assert!(interval["description"].as_str().unwrap().ends_with("as fresh as this. At least 50ms."));
        assert_eq!(at(&schema, &["listener", "role"])["enum"], json!(["reader", "writer"]));
        assert_eq!(at(&schema, &["router", "rebalance", "pace"])["maximum"], json!(1.0));
        assert_eq!(at(&schema, &["router", "insight", "endpoints"])["default"], json!(200));
        assert_eq!(at(&schema, &["server", "labels"])["examples"], json!([{"rack": "7"}]));
        assert_eq!(at(&schema, &["listener"])["items"]["required"], json!(["address", "role"]));
        assert_eq!(at(&schema, &["fleet"])["required"], json!(["seeds"]));
    }

    #[test]
    fn every_key_and_every_section_is_described_and_refuses_what_is_unknown() {
        fn look(value: &Value, path: &str, missing: &mut Vec<String>) {
            let table = if value["type"] == "array" { &value["items"] } else { value };
            if value["description"].as_str().is_none_or(str::is_empty) {
                missing.push(path.to_owned());
            }
            let Some(properties) = table["properties"].as_object() else { return };
            assert_eq!(table["additionalProperties"], json!(false), "{path}");
            for (key, value) in properties {
                look(value, &format!("{path}.{key}"), missing);
            }
        }
        let mut missing = Vec::new();
        look(&schema(), "", &mut missing);
        assert!(missing.is_empty(), "{missing:?}");
    }
}
