//! Every link of the pages leads somewhere: to a file that is there, and to a heading of it. Every page of
//! the guide stands in docs/SUMMARY.md, the order for a newcomer, and a page that stands there links to no
//! page that is left out. Links to other sites are not followed.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Every page of the repository, from its top.
fn pages() -> Vec<PathBuf> {
    let arguments = ["ls-files", "-c", "-o", "--exclude-standard", "*.md"];
    let output = Command::new("git").args(arguments).current_dir(root()).output().expect("git starts");
    let listed = String::from_utf8(output.stdout).unwrap();
    let pages: Vec<PathBuf> =
        listed.lines().map(PathBuf::from).filter(|page| root().join(page).exists()).collect();
    assert!(pages.len() > 50, "{pages:?}");
    pages
}

/// The text without blocks of code.
pub(crate) fn prose(page: &Path) -> String {
    let mut code = false;
    let text = std::fs::read_to_string(root().join(page)).unwrap();
    let kept = text.lines().filter(|line| {
        let fence = line.trim_start().starts_with("```");
        code ^= fence;
        !code && !fence
    });
    kept.map(|line| line.to_owned() + "\n").collect()
}

/// The targets of `[text](target)`; what stands between backquotes is no link.
pub(crate) fn links(prose: &str) -> Vec<String> {
    let plain: String = prose.split('`').step_by(2).collect();
    let targets = plain.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    targets.map(|target| target.split_whitespace().next().unwrap_or_default().to_owned()).collect()
}

/// The name that a heading gets on the forges and in the site.
fn anchor(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = text.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

fn anchors(page: &Path) -> BTreeSet<String> {
    prose(page).lines().filter(|line| line.starts_with('#')).map(anchor).collect()
}

/// `docs/guide` and `../../README.md` -> `README.md`.
fn joined(from: &Path, target: &str) -> PathBuf {
    let mut path = PathBuf::new();
    for part in from.parent().unwrap().join(target).components() {
        match part {
            Component::ParentDir => drop(path.pop()),
            Component::Normal(name) => path.push(name),
            _ => {}
        }
    }
    path
}

/// Each link inside the repository: where it stands, and the file and heading that it names.
fn inside(page: &Path) -> Vec<(String, PathBuf, Option<String>)> {
    let elsewhere = |target: &String| target.contains("://") || target.starts_with("mailto:");
    let of = |target: String| {
        let (file, heading) = match target.split_once('#') {
            Some((file, heading)) => (file, Some(heading.to_owned())),
            None => (target.as_str(), None),
        };
        let file = if file.is_empty() { page.to_owned() } else { joined(page, file) };
        (target.clone(), file, heading)
    };
    links(&prose(page)).into_iter().filter(|target| !elsewhere(target)).map(of).collect()
}

#[test]
fn every_link_of_every_page_leads_to_a_file_and_a_heading() {
    let (mut broken, mut followed) = (Vec::new(), 0);
    for page in pages() {
        for (target, file, heading) in inside(&page) {
            followed += 1;
            let there = root().join(&file).exists();
            let found = match &heading {
                Some(heading) if there && file.extension().is_some_and(|kind| kind == "md") => {
                    anchors(&file).contains(heading)
                }
                _ => there,
            };
            if !found {
                broken.push(format!("{}: {target}", page.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
    assert!(followed > 300, "{followed}");
}

/// The pages that docs/SUMMARY.md names.
fn summary() -> BTreeSet<PathBuf> {
    let summary = Path::new("docs/SUMMARY.md");
    inside(summary).into_iter().map(|(_, file, _)| file).collect()
}

/// The pages of the site: those, and every decision.
fn site() -> BTreeSet<PathBuf> {
    let decisions = pages().into_iter().filter(|page| page.starts_with("docs/decisions"));
    summary().into_iter().chain(decisions).collect()
}

#[test]
fn every_page_of_the_guide_stands_in_the_summary_once() {
    let summary = summary();
    let is_guide = |page: &PathBuf| page.starts_with("docs/guide");
    let missing: Vec<_> =
        pages().into_iter().filter(is_guide).filter(|page| !summary.contains(page)).collect();
    assert!(missing.is_empty(), "not in docs/SUMMARY.md: {missing:?}");
    let listed = links(&prose(Path::new("docs/SUMMARY.md"))).len();
    assert_eq!(listed, summary.len(), "a page stands there twice");
}

#[test]
fn a_page_of_the_site_links_to_no_page_that_the_site_lacks() {
    let site = site();
    for page in &site {
        for (target, file, _) in inside(page) {
            // Runs are data, not pages.
            let is_page = file.extension().is_some_and(|kind| kind == "md");
            if is_page && !file.starts_with("benchmarks/runs") {
                assert!(site.contains(&file), "{}: {target}", page.display());
            }
        }
    }
}

#[test]
fn headings_become_the_names_that_links_use() {
    assert_eq!(anchor("## Why a server is not eligible"), "why-a-server-is-not-eligible");
    assert_eq!(anchor("### `io_uring`, and why not"), "io_uring-and-why-not");
    assert_eq!(links("see [a](b.md#c) and `[x](y)`, [d](<e>)"), ["b.md#c", "<e>"]);
}
