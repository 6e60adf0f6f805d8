//! A command that is printed for a person to copy.

use std::path::Path;

/// A command with the flags that matter, quoted for a shell.
#[derive(Clone, Debug)]
pub struct CommandLine(String);

impl CommandLine {
    /// These words as they are, or none; more may follow.
    pub fn new(words: &str) -> Self {
        Self(words.to_owned())
    }

    /// One word more, in quotes where the shell would not take it as it is.
    pub fn word(&mut self, word: &str) {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@,=+".contains(c);
        let quoted = match !word.is_empty() && word.chars().all(plain) {
            true => word.to_owned(),
            false => format!("'{}'", word.replace('\'', r"'\''")),
        };
        if !self.0.is_empty() {
            self.0.push(' ');
        }
        self.0.push_str(&quoted);
    }

    /// A flag with its value, where there is one.
    pub fn flag(&mut self, name: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.word(name);
            self.word(value);
        }
    }

    /// The same with a path.
    pub fn path(&mut self, name: &str, value: Option<&Path>) {
        self.flag(name, value.map(|path| path.display().to_string()).as_deref());
    }

    /// All of it.
    pub fn line(self) -> String {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_to_copy_has_its_flags_quoted_for_a_shell() {
        let mut command = CommandLine::new("headroom knob restore");
        command.path("--journal", Some(Path::new("/my journal")));
        command.flag("--user", None);
        command.flag("--server", Some("db1:3306"));
        command.word("it's");
        assert_eq!(
            command.line(),
            r"headroom knob restore --journal '/my journal' --server db1:3306 'it'\''s'"
        );
    }
}
