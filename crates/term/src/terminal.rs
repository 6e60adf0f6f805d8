//! What people read: standard output and standard error, colour only on a terminal, a closed pipe is no
//! error.

use anyhow::bail;
use std::io::{BufRead, IsTerminal, Write};

/// Writes text to standard output. A reader that went away (`| head`) ends the output quietly.
///
/// # Errors
/// Standard output cannot be written.
pub fn print(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => Ok(other?),
    }
}

/// Writes a value as JSON, one document and a line end.
///
/// # Errors
/// The value has no JSON, or standard output cannot be written.
pub fn print_json(value: &impl serde::Serialize) -> anyhow::Result<()> {
    print(&(serde_json::to_string_pretty(value)? + "\n"))
}

/// Writes a line to standard error.
pub fn complain(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// A text that somebody else chose, such as a client's statement or the name of a table, without what a
/// terminal obeys and what ends a line.
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Asks on the terminal; only `y` or `yes` is yes.
///
/// # Errors
/// Standard input is no terminal: nobody is there to answer, and `--yes` is named.
pub fn ask(question: &str) -> anyhow::Result<bool> {
    if !std::io::stdin().is_terminal() {
        bail!("nobody is here to answer '{question}': say --yes");
    }
    let mut error = std::io::stderr();
    write!(error, "{question} [y/N] ")?;
    error.flush()?;
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}

/// How text is coloured on standard output.
#[derive(Clone, Copy, Debug, Default)]
pub struct Paint {
    on: bool,
}

impl Paint {
    /// Colour if standard output is a terminal, unless it is unwanted.
    pub fn for_stdout(unwanted: bool) -> Self {
        Self { on: std::io::stdout().is_terminal() && !unwanted }
    }

    /// Never.
    pub const fn off() -> Self {
        Self { on: false }
    }

    /// Good.
    pub fn green(self, text: &str) -> String {
        self.wrap("32", text)
    }

    /// Worth a look.
    pub fn yellow(self, text: &str) -> String {
        self.wrap("33", text)
    }

    /// Bad.
    pub fn red(self, text: &str) -> String {
        self.wrap("31", text)
    }

    /// Of less weight.
    pub fn dim(self, text: &str) -> String {
        self.wrap("2", text)
    }

    /// Of more weight.
    pub fn bold(self, text: &str) -> String {
        self.wrap("1", text)
    }

    fn wrap(self, code: &str, text: &str) -> String {
        if self.on && !text.is_empty() { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_of_somebody_else_commands_no_terminal() {
        assert_eq!(printable("a\u{1b}[2Jb\nc\u{9b}d ä"), "a [2Jb c d ä");
    }
}
