//! A workload of your own, as a TOML file.
//!
//! ```toml
//! name = "shop"
//! prepare = ["CREATE TABLE item (id INT PRIMARY KEY, body TEXT)"]    # headroom load prepare
//! cleanup = ["DROP TABLE IF EXISTS item"]                            # headroom load cleanup
//!
//! [values]                             # drawn anew wherever a statement names them with a colon
//! item = "zipfian 1..100000"
//! body = "template ####-@@@@"
//!
//! [statements]
//! read = { sql = "SELECT body FROM item WHERE id = :item" }
//! write = { sql = "UPDATE item SET body = :body WHERE id = :item", to = "writer" }
//!
//! [[transaction]]
//! name = "GET /item"
//! weight = 9
//! steps = ["read x10"]
//!
//! [[transaction]]
//! name = "POST /item"
//! weight = 1
//! steps = ["let item", "read", "write"]      # after `let`, all see the same item
//! ```
//! Everything is checked before anything is sent; complaints name file, line and column.

mod compile;
mod value;

use super::{Protocol, Workload};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use toml::Spanned;

/// Workloads that come with the program, in the same language.
pub const BUILT_IN: [(&str, &str, &str); 2] = [
    (
        "endpoints",
        "the API of the demo: a read-heavy, a mixed and a write-heavy endpoint",
        include_str!("../../workloads/endpoints.toml"),
    ),
    (
        "issuance",
        "the life of a certificate order at a certificate authority",
        include_str!("../../workloads/issuance.toml"),
    ),
];

/// A workload and what surrounds it.
#[derive(Clone, Debug)]
pub struct File {
    /// What is sent.
    pub workload: Workload,
    /// Statements that make its tables, in order.
    pub prepare: Vec<String>,
    /// Statements that remove them.
    pub cleanup: Vec<String>,
}

/// What is wrong with a file, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileError {
    /// The file as it was named.
    pub file: String,
    /// From 1.
    pub line: usize,
    /// In characters, from 1.
    pub column: usize,
    /// What is wrong and what would be right.
    pub what: String,
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: {}", self.file, self.line, self.column, self.what)
    }
}

impl std::error::Error for FileError {}

/// The file as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    name: String,
    #[serde(default)]
    protocol: RawProtocol,
    #[serde(default)]
    prepare: Vec<String>,
    #[serde(default)]
    cleanup: Vec<String>,
    #[serde(default)]
    values: BTreeMap<String, Spanned<String>>,
    statements: BTreeMap<String, RawStatement>,
    transaction: Vec<RawTransaction>,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum RawProtocol {
    #[default]
    Prepared,
    Text,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawStatement {
    sql: Spanned<String>,
    #[serde(default)]
    to: RawLane,
    protocol: Option<RawProtocol>,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum RawLane {
    #[default]
    Reader,
    Writer,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTransaction {
    name: Spanned<String>,
    #[serde(default = "one")]
    weight: u32,
    steps: Vec<Spanned<String>>,
}

fn one() -> u32 {
    1
}

/// What is wrong, and where in the text.
struct Wrong {
    at: Range<usize>,
    what: String,
}

impl File {
    /// The workload of this name that comes with the program.
    pub fn built_in(name: &str) -> Option<Self> {
        let (_, _, text) = BUILT_IN.iter().find(|(known, ..)| *known == name)?;
        Self::parse(text, name).ok()
    }

    /// Reads and checks a file's text; `file` is its name for complaints.
    ///
    /// # Errors
    /// The first thing that is wrong, with its place.
    pub fn parse(text: &str, file: &str) -> Result<Self, FileError> {
        let complain = |wrong: Wrong| {
            let (line, column) = place(text, wrong.at.start);
            FileError { file: file.to_owned(), line, column, what: wrong.what }
        };
        let raw: Raw = toml::from_str(text).map_err(|error| {
            complain(Wrong { at: error.span().unwrap_or(0..0), what: error.message().to_owned() })
        })?;
        let mut workload = compile::workload(&raw).map_err(complain)?;
        workload.options = format!("text {:08x}", checksum(text));
        workload.check().map_err(|error| complain(Wrong { at: 0..0, what: error.to_string() }))?;
        Ok(Self { workload, prepare: raw.prepare, cleanup: raw.cleanup })
    }

    /// The same with another protocol for all statements that do not insist on one.
    #[must_use]
    pub fn with_protocol(mut self, protocol: Protocol) -> Self {
        let before = self.workload.protocol;
        for statement in &mut self.workload.statements {
            if statement.protocol == before {
                statement.protocol = protocol;
            }
        }
        self.workload.protocol = protocol;
        self
    }
}

/// Tells a file's text from another of the same name (FNV-1a, 32 bits).
fn checksum(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |sum, byte| (sum ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// Line and column of a byte offset, from 1.
fn place(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let start = before.rfind('\n').map_or(0, |at| at + 1);
    (before.matches('\n').count() + 1, before[start..].chars().count() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Step;

    const SHOP: &str = r##"
name = "shop"
[values]
item = "zipfian 1..100000"
body = "template ####-@@@@"
[statements]
read = { sql = "SELECT body FROM item WHERE id = :item AND note <> ':item'" }
write = { sql = "UPDATE item SET body = :body WHERE id = :item", to = "writer" }
[[transaction]]
name = "GET"
weight = 9
steps = ["read x10"]
[[transaction]]
name = "POST"
steps = ["let item", "read", "write"]
"##;

    #[test]
    fn a_file_becomes_transactions_with_statements_of_their_own() {
        let workload = File::parse(SHOP, "shop.toml").unwrap().workload;
        let names: Vec<_> = workload.statements.iter().map(|s| s.name.as_str()).collect();
        assert_eq!(names, ["GET: read", "POST: read", "POST: write"]);
        assert_eq!(workload.statements[0].sql(0), "SELECT body FROM item WHERE id = ? AND note <> ':item'");
        assert_eq!(workload.transactions[0].steps.len(), 10);
        assert_eq!(workload.transactions[0].weight, 9);
        assert!(matches!(workload.transactions[1].steps[0], Step::Draw { slot: 0, .. }));
        assert!(workload.writes);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        for (from, to, expected) in [
            ("zipfian 1..100000", "zipfy 1..2", "shop.toml:4:8: 'zipfy 1..2' is no value"),
            (":item AND", ":itm AND", "shop.toml:7:16: :itm is not among the values"),
            ("read x10", "red x10", "shop.toml:12:10: no statement is called 'red'"),
            ("let item", "let itm", "shop.toml:15:10: itm is not among the values"),
            ("weight = 9", "wight = 9", "shop.toml:11:1: unknown field `wight`"),
            ("to = \"writer\"", "to = \"master\"", "shop.toml:8:"),
        ] {
            let text = SHOP.replacen(from, to, 1);
            let error = File::parse(&text, "shop.toml").unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }

    #[test]
    fn what_comes_with_the_program_is_sound() {
        for (name, _, text) in BUILT_IN {
            let file = File::parse(text, name).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(file.workload.name, name);
            assert!(!file.prepare.is_empty() && !file.cleanup.is_empty());
        }
    }
}
