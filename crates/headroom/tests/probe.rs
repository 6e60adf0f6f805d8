//! `headroom probe` on this machine's own disk: bounded, kept, nothing left behind. Needs fio.

#![allow(clippy::unwrap_used, reason = "a test that cannot start its program has failed")]

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

fn probe(dir: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_headroom"));
    // fio is looked for where it usually is; nothing else of the environment matters.
    command.arg("probe").args(args).current_dir(dir).env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin");
    command.output().unwrap()
}

fn json(output: &Output) -> Value {
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_probe_measures_the_disk_keeps_its_figures_and_leaves_nothing_but_the_history() {
    let dir = tempfile::tempdir().unwrap();
    let all = ["--yes", "--json", "--seconds", "1", "--file-mib", "64", "--store", "history.sqlite"];
    let measured = json(&probe(dir.path(), &all));
    let disk = &measured["disk"];
    for figure in ["/idle_read/mean_ms", "/idle_write/mean_ms", "/flush/per_s", "/read_bytes_per_s"] {
        assert!(disk.pointer(figure).unwrap().as_f64().unwrap() > 0.0, "{figure} of {disk}");
    }
    assert_eq!((disk["reads"].as_array().unwrap().len(), disk["writes"].as_array().unwrap().len()), (5, 5));
    assert!(measured["compute"]["one_cpu_per_s"].as_f64().unwrap() > 0.0);
    let names = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name());
    assert_eq!(names.collect::<Vec<_>>(), ["history.sqlite"]);
    let kept = json(&probe(dir.path(), &["--list", "--json", "--store", "history.sqlite"]));
    // Figures are not compared digit by digit: they went through text once more.
    let (kept, all) = (&kept[0], kept.as_array().unwrap().len());
    assert_eq!((all, &kept["at"], &kept["disk"]["device"]), (1, &measured["at"], &disk["device"]));
}

#[test]
fn a_directory_that_is_none_is_refused_in_words_and_nothing_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let output = probe(dir.path(), &["--yes", "--directory", "nowhere", "--store", "history.sqlite"]);
    let words = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{words}");
    assert!(words.contains("nowhere"), "{words}");
    let list = probe(dir.path(), &["--list", "--store", "history.sqlite"]);
    assert_eq!(list.status.code(), Some(1), "an empty list is a no");
}
