//! The schema of the configuration file against the reader of it: what the one takes, the other takes, and
//! neither takes what is unknown.

use config::{Config, schema};
use jsonschema::Validator;
use serde_json::{Value, json};

const EXAMPLE: &str = include_str!("../../../../headroom.example.toml");
const PAGES: [(&str, &str); 4] = [
    ("configuration.md", include_str!("../../../../docs/guide/configuration.md")),
    ("objectives.md", include_str!("../../../../docs/guide/objectives.md")),
    ("routing.md", include_str!("../../../../docs/guide/routing.md")),
    ("tls.md", include_str!("../../../../docs/guide/tls.md")),
];
/// What makes a whole file of a part.
const WHOLE: &str = "[fleet]\nseeds = [\"db1:3306\"]\n";

fn validator() -> Validator {
    jsonschema::draft7::new(&schema::schema()).expect("the schema is one")
}

/// What the schema says against this text.
fn complaints(validator: &Validator, text: &str) -> Vec<String> {
    let document: toml::Table = text.parse().unwrap_or_else(|error| panic!("{error}\n{text}"));
    let document = serde_json::to_value(document).expect("TOML is JSON");
    validator.iter_errors(&document).map(|error| format!("{}: {error}", error.instance_path())).collect()
}

#[test]
fn the_committed_schema_is_that_of_the_code() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../headroom.schema.json");
    let text = std::fs::read_to_string(path).expect("the schema is committed");
    // Values, not texts: the order of keys depends on what else is built.
    assert!(
        serde_json::from_str::<Value>(&text).ok() == Some(schema::schema()),
        "headroom.schema.json is of another version: headroom check --schema > headroom.schema.json, and read the \
         difference"
    );
}

#[test]
fn the_schema_takes_the_example_and_every_block_of_the_guide() {
    let validator = validator();
    assert_eq!(complaints(&validator, EXAMPLE), Vec::<String>::new());
    let options: String = EXAMPLE
        .lines()
        .filter_map(|line| line.strip_prefix('#').filter(|rest| !rest.starts_with(' ')).or(Some(line)))
        .map(|line| line.to_owned() + "\n")
        .collect();
    assert_eq!(complaints(&validator, &options), Vec::<String>::new(), "with every option written");
    for (name, page) in PAGES {
        let blocks: Vec<&str> =
            page.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
        assert!(!blocks.is_empty(), "{name}");
        for block in blocks {
            assert_eq!(complaints(&validator, block), Vec::<String>::new(), "{name}:\n{block}");
        }
    }
}

/// Each key of the schema with its section: `("[[listener]]", "role", ...)`.
fn keys(schema: &Value, header: &str, found: &mut Vec<(String, String, Value)>) {
    for (key, value) in schema["properties"].as_object().expect("a section has keys") {
        let path = if header.is_empty() {
            key.clone()
        } else {
            format!("{}.{key}", header.trim_matches(['[', ']']))
        };
        if value["items"]["properties"].is_object() {
            keys(&value["items"], &format!("[[{path}]]"), found);
        } else if value["properties"].is_object() {
            keys(value, &format!("[{path}]"), found);
        } else {
            found.push((header.to_owned(), key.clone(), value.clone()));
        }
    }
}

/// Of each key a value of the wrong kind, and one beyond its limits.
fn wrong(value: &Value) -> Vec<&'static str> {
    let mut wrong = match value["type"].as_str().expect("a key has a type") {
        "string" => vec!["17", "true", "\"\""],
        "boolean" => vec!["\"true\"", "1"],
        "array" => vec!["\"text\"", "[17]"],
        "object" => vec!["\"text\"", "{ rack = 7 }"],
        _ => vec!["\"text\"", "-1", "1e9"],
    };
    if value["pattern"].is_string() {
        wrong.extend(["\"10\"", "\"10 parsecs\""]);
    }
    if value["enum"].is_array() {
        wrong.push("\"colour\"");
    }
    wrong
}

#[test]
fn what_the_schema_refuses_the_reader_refuses_at_the_same_key() {
    let validator = validator();
    let mut found = Vec::new();
    keys(&schema::schema(), "", &mut found);
    assert!(found.len() > 80, "{}", found.len());
    for (header, key, value) in found {
        let fleet = if header == "[fleet]" { "" } else { WHOLE };
        for value in wrong(&value) {
            let text = format!("{fleet}{header}\n{key} = {value}\n");
            let refused = !complaints(&validator, &text).is_empty();
            let complaints = Config::parse(&text, "probe").err().map(|complaints| complaints.0);
            let at_it = complaints.is_some_and(|all| all.iter().any(|one| one.line == text.lines().count()));
            assert!(refused && at_it, "the schema refuses it: {refused}, the reader: {at_it}:\n{text}");
        }
        let unknown = format!("{fleet}{header}\nqqqqqqqq = 1\n");
        assert!(!complaints(&validator, &unknown).is_empty(), "{unknown}");
    }
    assert!(!complaints(&validator, &format!("{WHOLE}[colours]\nred = 1\n")).is_empty());
}

#[test]
fn defaults_are_of_their_kind() {
    let schema = schema::schema();
    let mut found = Vec::new();
    keys(&schema, "", &mut found);
    let with_default = found.iter().filter(|(_, _, value)| !value["default"].is_null());
    let mut count = 0;
    for (header, key, value) in with_default {
        let judge = jsonschema::draft7::new(value).unwrap();
        assert!(judge.is_valid(&value["default"]), "{header} {key}");
        count += 1;
    }
    assert!(count > 40, "{count}");
    assert_eq!(schema["$schema"], json!("http://json-schema.org/draft-07/schema#"));
}
