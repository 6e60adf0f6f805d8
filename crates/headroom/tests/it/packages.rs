//! What is packed, without building a package: the files as `scripts/dist.sh` lays them out, the units'
//! command lines by the program's own flags, and the sandbox by systemd's own judgement.

use crate::pages_link;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use switchover::perform::Deadlines;

/// The exposure that systemd-analyze may find, times ten: 0 is a service that can do nothing.
const MOST_EXPOSED: &str = "20";

const UNITS: [&str; 3] = ["headroom-route.service", "headroom-agent.service", "headroom-guard.service"];

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn unit(name: &str) -> String {
    let text = std::fs::read_to_string(repository().join("packaging/systemd").join(name)).unwrap();
    text.replace("\\\n", " ")
}

/// The values of a directive, in order.
fn values<'a>(unit: &'a str, directive: &str) -> Vec<&'a str> {
    unit.lines().filter_map(|line| line.strip_prefix(directive)?.strip_prefix('=')).collect()
}

#[test]
fn the_files_are_laid_out_as_they_are_installed_and_all_of_them_are_packed() {
    let base = tempfile::tempdir().unwrap();
    let stage = base.path().join("stage");
    let output = Command::new(repository().join("scripts/dist.sh"))
        .args(["stage", env!("CARGO_BIN_EXE_headroom")])
        .arg(&stage)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for path in [
        "usr/bin/headroom",
        "etc/headroom/headroom.toml",
        "usr/lib/sysusers.d/headroom.conf",
        "usr/lib/systemd/system/headroom-route.service",
        "usr/share/bash-completion/completions/headroom",
        "usr/share/doc/headroom/changelog.gz",
        "usr/share/doc/headroom/guide/install.md",
        "usr/share/doc/headroom/decisions/README.md",
        "usr/share/doc/headroom/LICENSE",
        "usr/share/doc/headroom/README.md",
        "usr/share/doc/headroom/SECURITY.md",
        "usr/share/fish/vendor_completions.d/headroom.fish",
        "usr/share/headroom/headroom.schema.json",
        "usr/share/headroom/zero-hop.conf",
        "usr/share/man/man1/headroom.1.gz",
        "usr/share/man/man1/headroom-route.1.gz",
        "usr/share/zsh/vendor-completions/_headroom",
    ] {
        assert!(stage.join(path).metadata().is_ok_and(|file| file.len() > 0), "{path} is missing or empty");
    }
    // The rpm's list is made from this tree; the deb's is written down, by folder.
    let manifest = std::fs::read_to_string(repository().join("crates/headroom/Cargo.toml")).unwrap();
    let packed: BTreeSet<String> = manifest
        .split("target/dist/stage/")
        .skip(1)
        .filter_map(|rest| {
            Some(rest.split_once('"')?.0.trim_end_matches("**/*").trim_end_matches('*').to_owned())
        })
        .collect();
    for file in files(&stage) {
        let path = file.strip_prefix(&stage).unwrap().to_str().unwrap();
        assert!(packed.iter().any(|prefix| path.starts_with(prefix.as_str())), "the deb leaves {path} out");
    }
    let pages = files(&stage).into_iter().filter(|file| file.extension().is_some_and(|end| end == "md"));
    let broken: Vec<String> = pages.flat_map(|page| broken_links(&stage, &page)).collect();
    assert!(broken.is_empty(), "{broken:#?}");
}

/// Links of an installed page to files that are not installed.
fn broken_links(stage: &Path, page: &Path) -> Vec<String> {
    let links = pages_link::links(&pages_link::prose(page));
    assert!(!page.ends_with("README.md") || !links.is_empty(), "{}", page.display());
    let is_broken = |link: &&String| {
        let target = link.split('#').next().unwrap_or_default();
        let file = match target.strip_prefix('/') {
            Some(absolute) => stage.join(absolute),
            None => page.parent().unwrap().join(target),
        };
        !link.contains("://") && !target.is_empty() && !file.exists()
    };
    links.iter().filter(is_broken).map(|link| format!("{}: {link}", page.display())).collect()
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() {
            found.extend(files(&entry));
        } else {
            found.push(entry);
        }
    }
    found
}

#[test]
fn the_file_that_is_installed_is_right_and_listens_on_loopback_only() {
    let file = repository().join("headroom.example.toml");
    let output = Command::new(env!("CARGO_BIN_EXE_headroom"))
        .args(["route", "--check", "--json", "--config"])
        .arg(&file)
        .output()
        .unwrap();
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&answer["right"], &answer["listeners"]), (&true.into(), &2.into()), "{answer}");
    let text = std::fs::read_to_string(file).unwrap();
    let addresses: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("address = ")).collect();
    assert_eq!(addresses, ["\"127.0.0.1:3306\"", "\"127.0.0.1:3307\""]);
}

#[test]
fn every_command_of_a_unit_is_one_that_this_program_understands() {
    let mut found = 0;
    for name in UNITS {
        let unit = unit(name);
        for directive in ["ExecStart", "ExecStartPre", "ExecReload", "ExecStop"] {
            for line in values(&unit, directive) {
                let Some(words) = line.strip_prefix("/usr/bin/headroom ") else {
                    assert_eq!(line, "/bin/kill -HUP $MAINPID", "{name}");
                    continue;
                };
                // What stands before --help is read all the same, and complained about.
                let output = Command::new(env!("CARGO_BIN_EXE_headroom"))
                    .args(words.split_whitespace())
                    .arg("--help")
                    .output()
                    .unwrap();
                assert!(
                    output.status.success(),
                    "{name}: {line}: {}",
                    String::from_utf8_lossy(&output.stderr)
                );
                found += 1;
            }
        }
    }
    assert_eq!(found, 4);
    let wrong = Command::new(env!("CARGO_BIN_EXE_headroom"))
        .args(["route", "--nonsense", "--help"])
        .output()
        .unwrap();
    assert!(!wrong.status.success(), "so that the loop above proves something");
}

/// The agent's file needs no listener, and `route --check` refuses one without: it checks the router's alone.
#[test]
fn a_reload_of_the_agent_is_not_refused_for_what_the_agent_does_not_need() {
    let checks = |name: &str| {
        let unit = unit(name);
        values(&unit, "ExecReload").iter().filter(|line| line.contains("route --check")).count()
    };
    assert_eq!((checks("headroom-route.service"), checks("headroom-agent.service")), (1, 0));
}

#[test]
fn the_services_run_as_the_user_that_the_package_makes_and_a_stop_waits_for_sessions_and_failovers() {
    let sysusers = std::fs::read_to_string(repository().join("packaging/systemd/sysusers.conf")).unwrap();
    assert!(sysusers.contains("\nu headroom "), "{sysusers}");
    for name in UNITS {
        assert_eq!(values(&unit(name), "User"), ["headroom"], "{name}");
    }
    let route = unit("headroom-route.service");
    // As a router of this user looks for it; see docs/guide/upgrade.md.
    assert_eq!(values(&route, "RuntimeDirectory"), ["headroom"]);
    assert_eq!(values(&route, "RuntimeDirectoryMode"), ["0700"]);
    assert_eq!(values(&route, "CapabilityBoundingSet"), [""], "rights are in the drop-in for zero-hop alone");
    let stop = fleet_duration(values(&route, "TimeoutStopSec")[0]);
    assert!(stop > std::time::Duration::from_secs(60), "longer than drain_deadline's default: {stop:?}");
    let stop = fleet_duration(values(&unit("headroom-guard.service"), "TimeoutStopSec")[0]);
    // Receivers stop in 75 s, --apply has ten minutes by default.
    let steps = Deadlines { await_ms: 600_000, ..Deadlines::default() };
    let failover = 75_000 + steps.fence_ms + steps.await_ms + steps.verify_ms + 10 * steps.statement_ms;
    assert!(stop > std::time::Duration::from_millis(failover), "longer than a failover: {stop:?}");
}

/// What differs by host: where the program lies, how it is reloaded and how it gets its password.
#[test]
fn the_unit_in_the_guide_says_what_the_packaged_one_says() {
    let guide = std::fs::read_to_string(repository().join("docs/guide/configuration.md")).unwrap();
    let (_, after) = guide.split_once("```ini\n[Service]\n").unwrap();
    let shown = after.split_once("```").unwrap().0;
    let packaged = unit("headroom-route.service");
    let lines = shown.lines().filter(|line| !line.starts_with('#'));
    for line in lines {
        let directive = line.split_once('=').unwrap().0;
        if !["ExecStart", "ExecReload", "LoadCredential"].contains(&directive) {
            assert!(packaged.lines().any(|packaged| packaged == line), "{line}");
        }
    }
    // An upgrade by USR2 ends the service without these.
    for needed in ["Type", "NotifyAccess", "RuntimeDirectory", "RuntimeDirectoryPreserve", "Restart"] {
        assert_eq!(values(shown, needed), values(&packaged, needed), "{needed}");
    }
}

/// systemd's "5min" in the words of our own files.
fn fleet_duration(text: &str) -> std::time::Duration {
    let minutes: u64 = text.strip_suffix("min").unwrap().parse().unwrap();
    std::time::Duration::from_secs(60 * minutes)
}

#[test]
fn systemd_itself_calls_the_sandbox_tight() {
    for name in UNITS {
        let output = Command::new("systemd-analyze")
            .args(["security", "--offline=yes", "--no-pager", "--threshold", MOST_EXPOSED])
            .arg(repository().join("packaging/systemd").join(name))
            .output()
            .expect("systemd-analyze is needed: scripts/install.sh units");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(
            text.contains("Overall exposure level"),
            "{name}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        assert!(output.status.success(), "{name}: {}", text.lines().last().unwrap_or_default());
    }
}

/// Directives that systemd does not know are ignored with a warning, and the sandbox would be less than it
/// says.
#[test]
fn systemd_knows_every_directive() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("etc/systemd/system");
    std::fs::create_dir_all(folder.join("headroom-route.service.d")).unwrap();
    for name in UNITS {
        std::fs::write(folder.join(name), unit(name)).unwrap();
    }
    let with = repository().join("packaging/systemd/zero-hop.conf");
    std::fs::copy(with, folder.join("headroom-route.service.d/zero-hop.conf")).unwrap();
    for name in UNITS {
        let output = Command::new("systemd-analyze")
            .args(["verify", "--man=no", "--recursive-errors=no", "--root"])
            .arg(root.path())
            .arg(name)
            .output()
            .expect("systemd-analyze is needed: scripts/install.sh units");
        let words = String::from_utf8_lossy(&output.stderr);
        // Programs and other units are not below this root.
        let bad: Vec<&str> = words
            .lines()
            .filter(|line| {
                ["Unknown", "Invalid", "Failed to parse", "ignoring"].iter().any(|w| line.contains(w))
            })
            .collect();
        assert!(bad.is_empty(), "{name}: {bad:?}");
    }
}
