//! Man pages and completions: none lacks a command, none is empty, and `man` finds nothing to complain about.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

fn headroom(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_headroom")).args(args).env_clear().output().unwrap()
}

fn text(args: &[&str]) -> String {
    let output = headroom(args);
    assert_eq!(output.status.code(), Some(0), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The commands of the help, with those below them: `lab`, `lab up`, ...
fn commands(above: &[&str]) -> Vec<Vec<String>> {
    let own = super::help::subcommands(&text(&[above, &["--help"]].concat()));
    let below = own.into_iter().flat_map(|name| {
        let words = [above, &[&name]].concat();
        let mut all = vec![words.iter().map(|&word| word.to_owned()).collect()];
        all.extend(commands(&words));
        all
    });
    below.collect()
}

#[test]
fn every_command_has_a_man_page_and_no_page_is_empty() {
    let directory = tempfile::tempdir().unwrap();
    let into = directory.path().join("share/man/man1");
    text(&["man", "--directory", into.to_str().unwrap()]);
    let written: BTreeSet<String> = std::fs::read_dir(&into)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let commands = commands(&[]);
    assert!(commands.len() > 40, "{commands:?}");
    let file = |words: &Vec<String>| format!("headroom-{}.1", words.join("-"));
    let expected: BTreeSet<String> = commands.iter().map(file).chain(["headroom.1".to_owned()]).collect();
    assert_eq!(written, expected);
    for name in &written {
        let page = std::fs::read_to_string(into.join(name)).unwrap();
        for section in [".SH NAME", ".SH SYNOPSIS", ".SH DESCRIPTION", ".SH OPTIONS"] {
            assert!(page.contains(section), "{name} has no {section}");
        }
        let name_line = page.lines().skip_while(|line| *line != ".SH NAME").nth(1).unwrap();
        assert!(name_line.contains(" \\- "), "{name}: {name_line}");
    }
    check(&written.iter().map(|name| into.join(name)).collect::<Vec<_>>());
    // What is printed for one command is what was written.
    let printed = text(&["man", "lab", "up"]);
    assert_eq!(printed, std::fs::read_to_string(into.join("headroom-lab-up.1")).unwrap());
}

/// `groff` reads the pages without a warning.
fn check(pages: &[PathBuf]) {
    let groff =
        Command::new("groff").args(["-man", "-Tutf8", "-ww"]).args(pages).stdout(Stdio::null()).output();
    let Ok(output) = groff else { return testkit::not_tested("no groff to read the man pages") };
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && complaints.is_empty(), "{complaints}");
}

#[test]
fn completions_of_each_shell_contain_every_command() {
    let commands = commands(&[]);
    for shell in ["bash", "zsh", "fish"] {
        let script = text(&["completions", shell]);
        let words: BTreeSet<&str> = script.split(|c: char| !c.is_alphanumeric() && c != '-').collect();
        for command in &commands {
            let name = command.last().unwrap();
            assert!(words.contains(name.as_str()), "{shell}: {command:?}");
        }
        // A shell that is installed takes the script.
        let checked = Command::new(shell).args(["-n", "/dev/stdin"]).stdin(Stdio::piped()).spawn();
        let Ok(mut child) = checked else { continue };
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), script.as_bytes()).unwrap();
        assert!(child.wait().unwrap().success(), "{shell} -n");
    }
    assert_eq!(headroom(&["completions", "csh"]).status.code(), Some(64));
    assert_eq!(headroom(&["man", "rout"]).status.code(), Some(64));
}
