//! No circle of files crosses a folder: who reads one folder does not have to read another, and come back. A
//! file and the files of its folder may use each other (`pick.rs` and `pick/*`), and so may the files of one
//! folder. Read from the source: `use` and paths from `crate`, `super` and `self`, followed through `pub use`
//! to the file that has the thing. Tests do not count.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// A file by its place in the tree of modules; the root is empty.
type Module = Vec<String>;

/// Circles that stay, by crate and one of their files, each with its reason.
const STAY: [(&str, &str, &str); 4] = [
    ("lab", "fault/apply", "what runs is changed by faults, which are methods of it"),
    ("load", "counts", "errors name the parts that they are of, and each part returns them"),
    ("load", "driver", "a session, the sockets under it and the thread around it are one loop"),
    ("switchover", "journal", "the journal writes the plan that steps perform, and steps write the journal"),
];

struct Crate {
    /// Each file, without comments, tests and what it re-exports.
    files: BTreeMap<Module, String>,
    /// What a file re-exports: the name, and the path it comes from.
    exports: BTreeMap<Module, BTreeMap<String, Vec<String>>>,
}

impl Crate {
    fn read(source: &Path) -> Self {
        let mut found = Self { files: BTreeMap::new(), exports: BTreeMap::new() };
        let mut all = Vec::new();
        walk(source, &mut Vec::new(), &mut all);
        let names: BTreeSet<Module> = all.iter().map(|(module, _)| module.clone()).collect();
        for (module, text) in all {
            let (exports, rest) = split_exports(&without_comments(&text));
            let ours = |path: &Vec<String>| {
                ["crate", "self", "super"].contains(&path[0].as_str())
                    || names.contains(&[&module[..], &path[..1]].concat())
            };
            let paths = exports.iter().flat_map(|tree| paths(tree)).filter(ours);
            let named = paths.filter_map(|path| Some((path.last()?.clone(), path))).collect();
            found.exports.insert(module.clone(), named);
            found.files.insert(module, rest);
        }
        found
    }

    /// The path from the root; `None` when it is another crate's.
    fn absolute(&self, module: &Module, path: &[String]) -> Option<Module> {
        match path.first()?.as_str() {
            "crate" => Some(path[1..].to_vec()),
            "self" => Some([module, &path[1..]].concat()),
            "super" => {
                let ups = path.iter().take_while(|part| *part == "super").count();
                Some([&module[..module.len().checked_sub(ups)?], &path[ups..]].concat())
            }
            first => {
                let inside = [&module[..], &[first.to_owned()]].concat();
                self.files.contains_key(&inside).then(|| [module, path].concat())
            }
        }
    }

    /// The file that has what a path from the root names.
    fn resolve(&self, path: &[String], follows: usize) -> Module {
        let length = (0..=path.len()).rev().find(|n| self.files.contains_key(&path[..*n])).unwrap_or(0);
        let (module, rest) = (path[..length].to_vec(), &path[length..]);
        let export = rest.first().and_then(|name| self.exports.get(&module)?.get(name));
        match export.and_then(|from| self.absolute(&module, from)) {
            Some(from) if follows < 5 => self.resolve(&from, follows + 1),
            _ => module,
        }
    }

    fn edges(&self) -> BTreeMap<Module, BTreeSet<Module>> {
        let used = |(module, text): (&Module, &String)| {
            let found = uses(text).iter().flat_map(|tree| paths(tree)).collect::<Vec<_>>();
            let inline = inline_paths(text);
            let targets = found.iter().chain(&inline).filter_map(|path| self.absolute(module, path));
            let targets = targets.map(|path| self.resolve(&path, 0)).filter(|target| target != module);
            (module.clone(), targets.collect())
        };
        self.files.iter().map(used).collect()
    }

    /// Files that reach each other, and do not all belong to one file and its folder.
    fn circles(&self) -> Vec<BTreeSet<Module>> {
        let edges = self.edges();
        let reached: BTreeMap<&Module, BTreeSet<&Module>> =
            edges.keys().map(|from| (from, reach(from, &edges))).collect();
        let mut circles = BTreeSet::new();
        for (from, far) in &reached {
            let back = far.iter().filter(|other| reached[**other].contains(from));
            let circle: BTreeSet<Module> = back.map(|module| (*module).clone()).collect();
            if circle.len() > 1 && !in_one_folder(&circle) {
                circles.insert(circle);
            }
        }
        circles.into_iter().collect()
    }
}

fn reach<'a>(from: &Module, edges: &'a BTreeMap<Module, BTreeSet<Module>>) -> BTreeSet<&'a Module> {
    let mut far = BTreeSet::new();
    let mut open: Vec<&Module> = edges[from].iter().collect();
    while let Some(next) = open.pop() {
        if far.insert(next) {
            open.extend(&edges[next]);
        }
    }
    far
}

fn in_one_folder(circle: &BTreeSet<Module>) -> bool {
    let owners = circle.iter().flat_map(|module| [&module[..], &module[..module.len().saturating_sub(1)]]);
    let within = |owner: &[String], module: &Module| {
        module == owner || module.len() == owner.len() + 1 && module.starts_with(owner)
    };
    owners.into_iter().any(|owner| circle.iter().all(|module| within(owner, module)))
}

fn walk(folder: &Path, at: &mut Module, found: &mut Vec<(Module, String)>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        if name == "tests" {
            continue;
        }
        at.push(name.clone());
        if path.is_dir() {
            walk(&path, at, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let is_root = at.len() == 1 && ["lib", "main"].contains(&name.as_str());
            found.push((
                if is_root { Vec::new() } else { at.clone() },
                std::fs::read_to_string(&path).unwrap(),
            ));
        }
        at.pop();
    }
}

fn without_comments(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod tests").next().unwrap();
    text.lines().map(|line| line.split("//").next().unwrap().to_owned() + "\n").collect()
}

/// Each `use` that is public, up to its semicolon, and the text without them.
fn split_exports(text: &str) -> (Vec<String>, String) {
    let (mut exports, mut rest, mut inside) = (Vec::new(), String::new(), None::<String>);
    for line in text.lines() {
        let trimmed = line.trim_start();
        let begins = trimmed.starts_with("pub") && trimmed.split("use ").next().is_some_and(is_visibility);
        if begins && trimmed.contains("use ") {
            inside = Some(String::new());
        }
        match &mut inside {
            Some(tree) => {
                tree.push_str(line);
                if line.contains(';') {
                    let tree = inside.take().unwrap();
                    let (_, tree) = tree.split_once("use ").unwrap();
                    exports.push(tree.split(';').next().unwrap().to_owned());
                }
            }
            None => rest.push_str(&format!("{line}\n")),
        }
    }
    (exports, rest)
}

/// `pub`, `pub(crate)`, `pub(super)`, `pub(in ...)`.
fn is_visibility(text: &str) -> bool {
    let rest = text.trim().strip_prefix("pub").unwrap_or("x").trim();
    rest.is_empty() || rest.starts_with('(') && rest.ends_with(')')
}

/// The trees of private `use`s.
fn uses(text: &str) -> Vec<String> {
    let mut trees = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find("use ") {
        let begins = rest[..at].chars().next_back().is_none_or(char::is_whitespace);
        let (tree, after) = rest[at + 4..].split_once(';').unwrap_or((&rest[at + 4..], ""));
        if begins && !tree.contains(['(', '=']) {
            trees.push(tree.to_owned());
            rest = after;
        } else {
            rest = &rest[at + 4..];
        }
    }
    trees
}

/// Every path of a tree: `a::{b, c::d}` has two.
fn paths(tree: &str) -> Vec<Vec<String>> {
    let tree = tree.trim();
    let Some((before, inside)) = tree.split_once('{') else {
        let name = tree.split(" as ").next().unwrap().trim();
        return vec![name.split("::").map(|part| part.trim().to_owned()).collect()];
    };
    let inside = inside.trim_end().strip_suffix('}').unwrap_or(inside);
    let (mut depth, mut from, mut found) = (0, 0, Vec::new());
    let ends = inside.char_indices().chain([(inside.len(), ',')]).collect::<Vec<_>>();
    for (at, c) in ends {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                let part = inside[from..at].trim();
                if !part.is_empty() {
                    found.extend(paths(&format!("{before}{part}")));
                }
                from = at + 1;
            }
            _ => {}
        }
    }
    found
}

/// Paths in the text that begin with `crate`, `super` or `self`.
fn inline_paths(text: &str) -> Vec<Vec<String>> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let words = text.split(|c| !is_part(c)).filter(|word| word.contains("::"));
    let ours =
        words.filter(|word| ["crate::", "super::", "self::"].iter().any(|root| word.starts_with(root)));
    ours.map(|word| word.split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect()).collect()
}

#[test]
fn no_circle_of_files_crosses_a_folder() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let (mut wrong, mut stayed) = (Vec::new(), BTreeSet::new());
    for entry in std::fs::read_dir(&crates).unwrap() {
        let folder = entry.unwrap().path();
        let name = folder.file_name().unwrap().to_str().unwrap().to_owned();
        if name == "bench" || !folder.join("src").is_dir() {
            continue;
        }
        for circle in Crate::read(&folder.join("src")).circles() {
            let files: BTreeSet<String> = circle.iter().map(|module| module.join("/")).collect();
            match STAY.iter().find(|(of, file, _)| *of == name && files.contains(*file)) {
                Some(stays) => {
                    stayed.insert(*stays);
                }
                None => wrong.push(format!("{name}: {files:?}")),
            }
        }
    }
    assert!(wrong.is_empty(), "circles of files that cross a folder:\n{}", wrong.join("\n"));
    assert_eq!(stayed, BTreeSet::from(STAY), "circles that were opened (right) need no exception any more");
}

#[test]
fn paths_and_circles_are_read_as_the_compiler_reads_them() {
    let of = |tree: &str| paths(tree).into_iter().map(|path| path.join("::")).collect::<Vec<_>>();
    assert_eq!(of("crate::{a::{b, self}, c as d}"), ["crate::a::b", "crate::a::self", "crate::c"]);
    let module = |path: &str| path.split('/').map(str::to_owned).collect::<Module>();
    let circle = |files: &[&str]| files.iter().map(|file| module(file)).collect::<BTreeSet<_>>();
    assert!(in_one_folder(&circle(&["pick", "pick/a", "pick/b"])) && in_one_folder(&circle(&["a", "b"])));
    assert!(!in_one_folder(&circle(&["pick/a", "flow"])));
    let names = |name: &str| (vec![name.to_owned()], String::new());
    let mut files = BTreeMap::from([names("a"), names("b")]);
    files.insert(module("b/c"), "use crate::a::Thing;\n".to_owned());
    files.insert(module("a"), "use crate::b::Other;\n".to_owned());
    let exports = BTreeMap::from([(module("b"), BTreeMap::from([("Other".to_owned(), module("c/Other"))]))]);
    let whole = Crate { files, exports };
    assert_eq!(whole.circles(), [circle(&["a", "b/c"])]);
}
