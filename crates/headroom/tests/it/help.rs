//! Every help text as a user reads it, held against the one that was reviewed: `snapshots/` has a file for
//! each command, with those of its subcommands below it. After a change: `INSTA_UPDATE=always cargo test -p
//! headroom --test it help::`, and read the difference.

use std::process::Command;

fn help(path: &[String]) -> String {
    let output =
        Command::new(env!("CARGO_BIN_EXE_headroom")).args(path).arg("--help").env_clear().output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{path:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The names of its list of commands.
pub(crate) fn subcommands(help: &str) -> Vec<String> {
    help.lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| !line.is_empty())
        // A line that goes on is indented further.
        .filter_map(|line| line.strip_prefix("  ").filter(|rest| !rest.starts_with(' ')))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .map(str::to_owned)
        .collect()
}

/// This command's help, and that of each command below it.
fn pages(path: &[String]) -> String {
    let own = help(path);
    let below = subcommands(&own).into_iter().map(|name| pages(&[path, &[name]].concat()));
    let title = [&["headroom".to_owned()], path].concat().join(" ");
    below.fold(format!("$ {title} --help\n{own}"), |all, page| all + "\n" + &page)
}

#[test]
fn help_texts_are_those_that_were_reviewed() {
    let top = help(&[]);
    let commands = subcommands(&top);
    assert!(commands.len() > 10, "{commands:?}");
    insta::assert_snapshot!("headroom", top);
    for command in commands {
        let text = pages(std::slice::from_ref(&command));
        insta::assert_snapshot!(command, text);
    }
}
