//! Help epilogues that fit a terminal. Clap wraps each of their lines by itself, so that text that was
//! wrapped in the source becomes ragged, and the second half of a long command looks like another one. So,
//! before clap sees them:
//!
//! - lines of a paragraph (not indented) are joined; clap then wraps the whole;
//! - an example that is too long is broken before an option, with a backslash, as a shell would take it;
//! - an example with its explanation beside it gets the explanation below, where the two do not fit.

use clap::Command;

/// Columns of the terminals that everybody has.
const COLUMNS: usize = 80;

/// The command with its epilogue and those of its subcommands as above.
pub fn fit(command: Command) -> Command {
    let epilogue = command.get_after_help().map(|text| fitted(&text.to_string()));
    let command = command.mut_subcommands(fit);
    match epilogue {
        Some(epilogue) => command.after_help(epilogue),
        None => command,
    }
}

/// Lines of epilogues that a terminal would show ragged although [`fit`] was there, each after its command:
/// an example that is too long, or a paragraph in two lines. None, if the epilogues are right.
pub fn ragged(command: &Command) -> Vec<String> {
    let epilogue = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let lines: Vec<&str> = epilogue.lines().collect();
    // What is further in is wrapped by clap, with its indentation.
    let long = lines.iter().filter(|line| line.chars().count() > COLUMNS && is_example(line)).copied();
    let split = lines.windows(2).filter(|pair| goes_on(pair[0], pair[1])).map(|pair| pair[1]);
    let own = long.chain(split).map(|line| format!("{}: {line}", command.get_name()));
    own.chain(command.get_subcommands().flat_map(ragged)).collect()
}

fn fitted(text: &str) -> String {
    let beside = text.lines().filter_map(explained).all(|(example, _)| width_of(text, example) <= COLUMNS);
    let mut lines: Vec<String> = Vec::new();
    for line in text.lines() {
        match (explained(line), lines.last_mut()) {
            (Some((example, explanation)), _) if !beside => {
                lines.extend(broken(example));
                lines.push(format!("      {explanation}"));
            }
            (None, Some(above)) if goes_on(above, line) => {
                above.push(' ');
                above.push_str(line);
            }
            _ if is_example(line) => lines.extend(broken(line)),
            _ => lines.push(line.to_owned()),
        }
    }
    lines.join("\n")
}

/// Whether this line belongs to the paragraph above.
fn goes_on(above: &str, line: &str) -> bool {
    let plain = |line: &str| !line.is_empty() && !line.starts_with(' ');
    let heading = above.ends_with(':') && !above.contains(' ');
    plain(above) && plain(line) && !heading
}

/// `  headroom status`, in the third column; explanations stand further in.
fn is_example(line: &str) -> bool {
    line.strip_prefix("  ").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_lowercase()))
}

/// An example and its explanation, if they share a line: `  headroom demo      about two minutes`.
fn explained(line: &str) -> Option<(&str, &str)> {
    if !line.starts_with("  headroom ") {
        return None;
    }
    let (example, explanation) = line.split_at_checked(line[2..].find("   ")? + 2)?;
    Some((example, explanation.trim_start()))
}

/// Width of the line that begins with this example.
fn width_of(text: &str, example: &str) -> usize {
    text.lines().find(|line| line.starts_with(example)).map_or(0, |line| line.chars().count())
}

/// An example as lines that fit, broken before options and pipes.
fn broken(line: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for (at, word) in parts(line).into_iter().enumerate() {
        let Some(last) = lines.last_mut() else { continue };
        // Two columns for the backslash.
        if at > 0 && last.chars().count() + 1 + word.chars().count() > COLUMNS - 2 {
            last.push_str(" \\");
            lines.push(format!("    {word}"));
        } else {
            if at > 0 {
                last.push(' ');
            }
            last.push_str(word);
        }
    }
    lines
}

/// Where a command may be broken: an option stays with its value, and what is quoted stays whole.
fn parts(line: &str) -> Vec<&str> {
    let (mut parts, mut from, mut quoted) = (Vec::new(), 0, false);
    for (at, letter) in line.char_indices() {
        quoted ^= letter == '\'';
        let next = &line[at + letter.len_utf8()..];
        if letter == ' ' && !quoted && ["--", "| ", "> "].iter().any(|start| next.starts_with(start)) {
            parts.push(&line[from..at]);
            from = at + 1;
        }
    }
    parts.push(&line[from..]);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_ragged_is_named_after_its_command_and_none_is_when_it_was_fitted() {
        let long = format!("Examples:\n  headroom load --server {} --json", "x".repeat(70));
        let load = Command::new("load").after_help(long + "\n\nOne\nparagraph.");
        let program = Command::new("headroom").subcommand(load);
        let found = ragged(&program);
        assert!(found.len() == 2 && found.iter().all(|line| line.starts_with("load: ")), "{found:?}");
        assert_eq!(ragged(&fit(program)), Vec::<String>::new());
    }

    #[test]
    fn paragraphs_are_joined_and_examples_are_broken_as_a_shell_takes_them() {
        let text = "\
Examples:
  headroom load run oltp_read_write --server db1 --database sbtest --tables 4 --table-size 100000 --clients 16
      A closed loop.

Two lines of
one paragraph.";
        let expected = "\
Examples:
  headroom load run oltp_read_write --server db1 --database sbtest --tables 4 \\
    --table-size 100000 --clients 16
      A closed loop.

Two lines of one paragraph.";
        assert_eq!(fitted(text), expected);
    }

    #[test]
    fn an_explanation_stands_beside_its_example_where_both_fit_and_below_elsewhere() {
        let short = "  headroom demo         two minutes\n  headroom demo --keep    until Ctrl-C";
        assert_eq!(fitted(short), short);
        let long =
            format!("  headroom demo         {}\n  headroom demo --keep    until Ctrl-C", "x".repeat(60));
        let expected =
            format!("  headroom demo\n      {}\n  headroom demo --keep\n      until Ctrl-C", "x".repeat(60));
        assert_eq!(fitted(&long), expected);
    }

    #[test]
    fn what_is_quoted_is_not_broken_and_only_headings_stand_alone() {
        let below = "What is not sent:\ndocs/guide/record.md.\n\nExamples:\n  headroom replay";
        assert_eq!(fitted(below), "What is not sent: docs/guide/record.md.\n\nExamples:\n  headroom replay");
        assert_eq!(fitted("Examples:\nheadroom replay"), "Examples:\nheadroom replay");
        assert_eq!(parts("  a --b c | jq '.x | .y'"), ["  a", "--b c", "| jq '.x | .y'"]);
    }
}
