//! What tests of several crates share. Only tests use it: nothing of it is in a program that is shipped.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

pub mod certificate;
pub mod disk;

use std::io::Write;
use std::path::PathBuf;

/// The mysqld of `scripts/mysql-root.sh`. A test without it fails and says what brings it.
pub fn mysqld() -> PathBuf {
    let path = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/mysql/mysqld"));
    assert!(path.exists(), "no mysqld in {}: run scripts/mysql-root.sh (or make test-mysql)", path.display());
    path
}

/// Whether this is root. If not, says that the test of this thread was not made, and of what (`why`:
/// "zero-hop needs root").
pub fn root_or_not_tested(why: &str) -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        not_tested(why);
    }
    root
}

/// Says that the test of this thread was not made, or not all of it, and why; the closing count has it among
/// the skipped.
///
/// The line goes straight to the descriptor: what a test that passes prints is not shown otherwise.
pub fn not_tested(why: &str) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    std::io::stderr().write_all(format!("NOT TESTED: {test}: {why}\n").as_bytes()).unwrap();
}
