//! SQL text, as far as a proxy has to understand it: one lexer, and what is read with it. It parses nothing,
//! keeps nothing of a text but what it is asked for, and allocates nothing for a statement.
//!
//! Uses no crate of ours, has no I/O. `wire` classifies the statements that pass, `insight` asks for digests
//! and tags, whoever records asks what is secret. The three files to read first: `lexer.rs`, `classify.rs`,
//! `digest.rs`.
//!
//! | question | file |
//! |---|---|
//! | where do words, strings, names and comments begin and end | `lexer` |
//! | which state does a statement leave in its session, how does it begin | `classify` |
//! | when are two statements the same | `digest` |
//! | which endpoint or request does a comment name | `tag` |
//! | may a statement be recorded | `secret` |
//! | what would a session lose if it were moved | `sticky` |

pub mod fold;

mod classify;
mod digest;
mod lexer;
mod secret;
mod sticky;
mod tag;

pub use classify::{Findings, Scanner, Verb, scan, used_database};
pub use digest::{Dialect, Digester, LIMIT, Span};
pub use secret::is_secret;
pub use sticky::Sticky;
pub use tag::{TagKeys, TagValue, Tags, last_comment};
