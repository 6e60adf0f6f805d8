//! The table of crates in ARCHITECTURE.md is the design, `cargo metadata` is the code: here they are
//! compared, so that neither can move without the other.
//!
//! Only arrows between our own crates count. Those of the product are exactly what the table grants: one that
//! is granted and not used is an error too. Tests (dev-dependencies) may use what the table grants, `lab`,
//! `testkit`, and what [`ONLY_TESTS`] says.
//!
//! Its other table, of where to look, stays short enough to be read, and names files that are there.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Crate -> crates of ours that it uses (or may use).
type Arrows = BTreeMap<String, BTreeSet<String>>;

/// Crate -> what its tests use, and its product must not.
const ONLY_TESTS: [(&str, &str); 4] =
    [("headroom", "monitoring"), ("headroom", "wire"), ("lab", "config"), ("router", "observe")];

#[test]
fn the_crates_use_what_architecture_md_says_and_nothing_else() {
    let granted = granted();
    let drawn = drawn(false);
    let names = |arrows: &Arrows| arrows.keys().cloned().collect::<BTreeSet<_>>();
    assert_eq!(
        names(&drawn),
        names(&granted),
        "crates in the workspace (left) and in ARCHITECTURE.md (right)"
    );
    for (name, uses) in &drawn {
        assert_eq!(
            uses, &granted[name],
            "what {name} uses (left), and what ARCHITECTURE.md grants it (right)"
        );
    }
}

#[test]
fn tests_use_only_the_lab_the_testkit_and_what_the_table_grants() {
    let granted = granted();
    for (name, uses) in drawn(true) {
        let is_granted = |used: &str| {
            ["lab", "testkit"].contains(&used)
                || granted[&name].contains(used)
                || ONLY_TESTS.contains(&(&name, used))
        };
        let beyond: Vec<_> = uses.iter().filter(|used| !is_granted(used)).collect();
        assert!(beyond.is_empty(), "tests of {name} use {beyond:?}, which ARCHITECTURE.md does not grant it");
    }
}

#[test]
fn the_arrows_of_the_table_form_no_circle() {
    let mut left = granted();
    while !left.is_empty() {
        let free: Vec<_> = left
            .iter()
            .filter(|(_, uses)| uses.iter().all(|used| !left.contains_key(used)))
            .map(|(name, _)| name.clone())
            .collect();
        assert!(!free.is_empty(), "these crates use each other in a circle: {:?}", left.keys());
        left.retain(|name, _| !free.contains(name));
    }
}

#[test]
fn only_the_bench_is_built_by_name_alone_and_no_crate_uses_it() {
    let metadata = metadata();
    let members = |key: &str| metadata[key].as_array().unwrap().to_vec();
    let defaults = members("workspace_default_members");
    let left_out: Vec<_> =
        members("workspace_members").into_iter().filter(|member| !defaults.contains(member)).collect();
    assert!(left_out.len() == 1 && left_out[0].as_str().unwrap().contains("/bench#"), "{left_out:?}");
    assert!(drawn(false).values().chain(drawn(true).values()).all(|uses| !uses.contains("bench")));
}

#[test]
fn where_to_look_has_at_most_25_rows_and_names_files_that_are_there() {
    let text = std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let rows: Vec<Vec<String>> = text
        .lines()
        .map(cells)
        .skip_while(|row| row.first().is_none_or(|cell| cell != "question"))
        .skip(2)
        .take_while(|row| row.len() == 2)
        .collect();
    assert!((1..=25).contains(&rows.len()), "ARCHITECTURE.md has {} rows of questions", rows.len());
    let crates = root().join("crates");
    for row in &rows {
        let files = row[1].split([' ', ',', ';', ':']).filter(|word| word.contains("/src/"));
        let missing: Vec<&str> = files.filter(|file| !crates.join(file).exists()).collect();
        assert!(missing.is_empty(), "{}: {missing:?}", row[0]);
    }
}

/// The table of ARCHITECTURE.md whose columns are `crate | is | may use`.
fn granted() -> Arrows {
    let path = root().join("ARCHITECTURE.md");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let rows: Vec<Vec<String>> = text
        .lines()
        .map(cells)
        .skip_while(|row| row.first().is_none_or(|cell| cell != "crate") || row.last().unwrap() != "may use")
        .skip(2)
        .take_while(|row| row.len() == 3)
        .collect();
    assert!(!rows.is_empty(), "ARCHITECTURE.md has no table with the columns crate | is | may use");
    let all: BTreeSet<String> = rows.iter().map(|row| row[0].clone()).collect();
    let mut arrows = Arrows::new();
    for row in rows {
        let uses: BTreeSet<String> =
            row[2].split(',').map(|word| word.trim().to_owned()).filter(|word| word != "-").collect();
        for used in &uses {
            assert!(all.contains(used), "ARCHITECTURE.md lets {} use {used}, which has no row", row[0]);
        }
        assert!(arrows.insert(row[0].clone(), uses).is_none(), "ARCHITECTURE.md has two rows for {}", row[0]);
    }
    arrows
}

/// The cells of one line of a markdown table, without backticks; empty for any other line.
fn cells(line: &str) -> Vec<String> {
    let Some(row) = line.trim().strip_prefix('|').and_then(|rest| rest.strip_suffix('|')) else {
        return Vec::new();
    };
    row.split('|').map(|cell| cell.trim().replace('`', "")).collect()
}

/// The arrows that Cargo knows: those of the product, or those that only tests have.
fn drawn(of_tests: bool) -> Arrows {
    let metadata = metadata();
    let packages = metadata["packages"].as_array().unwrap();
    let name_of = |package: &serde_json::Value| package["name"].as_str().unwrap().to_owned();
    let ours: BTreeSet<String> = packages.iter().map(name_of).collect();
    let arrows_of = |package: &serde_json::Value| {
        let dependencies = package["dependencies"].as_array().unwrap();
        dependencies
            .iter()
            .filter(|dependency| (dependency["kind"] == "dev") == of_tests)
            .map(name_of)
            .filter(|name| ours.contains(name))
            .collect()
    };
    packages.iter().map(|package| (name_of(package), arrows_of(package))).collect()
}

fn metadata() -> serde_json::Value {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--offline", "--no-deps", "--format-version", "1"])
        .current_dir(root())
        .output()
        .expect("cargo metadata starts");
    assert!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("cargo metadata prints JSON")
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}
