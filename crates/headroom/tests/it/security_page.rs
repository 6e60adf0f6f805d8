//! The guide's page about security names tests: each of them is there.

use std::path::Path;

/// What stands between backquotes.
fn quoted(line: &str) -> Vec<&str> {
    line.split('`').skip(1).step_by(2).collect()
}

#[test]
fn every_test_that_the_page_names_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = std::fs::read_to_string(root.join("docs/guide/security.md")).unwrap();
    let mut found = 0;
    for (number, line) in page.lines().enumerate() {
        // A name without a file is in the file named before it in the same line.
        let mut file = String::new();
        for words in quoted(line) {
            let (path, name) = words.split_once("::").unwrap_or(("", words));
            if path.ends_with(".rs") {
                let path = root.join("crates").join(path);
                file = std::fs::read_to_string(&path)
                    .unwrap_or_else(|error| panic!("line {}: {}: {error}", number + 1, path.display()));
            } else if file.is_empty() || !name.contains('_') || name.contains(' ') {
                continue;
            }
            assert!(file.contains(&format!("fn {name}(")), "line {}: there is no test {name}", number + 1);
            found += 1;
        }
    }
    assert!(found >= 18, "{found} tests are named");
}
