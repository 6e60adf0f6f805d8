//! A file of `NAME=VALUE` lines that belongs to Headroom alone, beside the server's own: a line is added to
//! change something and taken out to put it back, so that afterwards the server reads what it read before.

use crate::error::Refusal;
use crate::host::Host;

/// What a line was put in the place of: `# NAME was VALUE`.
const WAS: &str = " was ";

/// Sets a line; with the value that was there before it came, takes it out. A file without lines is removed.
pub(super) fn set(
    host: &Host,
    path: &str,
    section: Option<&str>,
    name: &str,
    before: &str,
    value: &str,
) -> Result<(), Refusal> {
    let now = host.read(path).unwrap_or_default();
    put(host, path, &next(&now, section, name, before, value))
}

/// Makes this the file's text; a file without lines is removed.
pub(super) fn put(host: &Host, path: &str, text: &str) -> Result<(), Refusal> {
    match text.trim_end() {
        "" => host.remove_file(path),
        lines => host.write_file(path, &format!("{lines}\n")),
    }
}

/// Takes out every line that was set here.
pub(super) fn clear(host: &Host, path: &str, section: Option<&str>) -> Result<(), Refusal> {
    let Ok(now) = host.read(path) else { return Ok(()) };
    put(host, path, &cleared(&now, section))
}

/// What a line of this name was put in the place of; `None` without one.
pub(super) fn was<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix("# ")?.strip_prefix(name)?.strip_prefix(WAS))
}

/// The text of the file without the lines that were set here.
fn cleared(now: &str, section: Option<&str>) -> String {
    let noted = |line: &str| {
        let (name, was) = line.strip_prefix("# ")?.split_once(WAS)?;
        Some((name.to_owned(), was.to_owned()))
    };
    let notes: Vec<(String, String)> = now.lines().filter_map(noted).collect();
    notes.iter().fold(now.to_owned(), |text, (name, was)| next(&text, section, name, was, was))
}

/// The text of the file afterwards; empty when nothing is left.
fn next(now: &str, section: Option<&str>, name: &str, before: &str, value: &str) -> String {
    let note = format!("# {name}{WAS}");
    let was = now.lines().find_map(|line| line.strip_prefix(&note)).unwrap_or(before).to_owned();
    let assigns = |line: &&str| line.split_once('=').is_some_and(|(left, _)| left.trim() == name);
    let others = now.lines().filter(|line| !line.starts_with(&note) && !assigns(line));
    let mut lines: Vec<String> =
        others.filter(|line| Some(*line) != section && !line.is_empty()).map(str::to_owned).collect();
    if !crate::server::same(&was, value) {
        lines.push(format!("{note}{was}"));
        lines.push(format!("{name}={value}"));
    }
    if lines.is_empty() {
        return String::new();
    }
    lines.splice(0..0, section.map(str::to_owned));
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_added_changed_and_taken_out_again_and_others_stay() {
        let one = next("", Some("[mysqld]"), "a", "1", "2");
        assert_eq!(one, "[mysqld]\n# a was 1\na=2\n");
        let two = next(&one, Some("[mysqld]"), "b", "ON", "OFF");
        let three = next(&two, Some("[mysqld]"), "a", "2", "3");
        assert_eq!(three, "[mysqld]\n# b was ON\nb=OFF\n# a was 1\na=3\n");
        let four = next(&three, Some("[mysqld]"), "a", "3", "1");
        assert_eq!(four, "[mysqld]\n# b was ON\nb=OFF\n");
        assert_eq!(next(&four, Some("[mysqld]"), "b", "OFF", "1"), "", "1 is ON");
        assert_eq!(
            next("", None, "LD_PRELOAD", "glibc", "/l.so"),
            "# LD_PRELOAD was glibc\nLD_PRELOAD=/l.so\n"
        );
        assert_eq!((was(&three, "a"), was(&three, "c")), (Some("1"), None));
        assert_eq!(cleared(&three, Some("[mysqld]")), "");
        assert_eq!(cleared("[mysqld]\n# a was 1\na=2\nc=3\n", Some("[mysqld]")), "[mysqld]\nc=3\n");
    }
}
