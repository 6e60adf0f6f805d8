//! What people read: standard output and standard error, colour only on a terminal, a closed pipe is no error.

use crate::environment::Environment;
use std::io::{IsTerminal, Write};

/// Writes text to standard output. A reader that went away (`| head`) ends the output quietly.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => Ok(other?),
    }
}

/// Writes a value as JSON, one document and a line end.
pub(crate) fn print_json(value: &impl serde::Serialize) -> anyhow::Result<()> {
    print(&(serde_json::to_string_pretty(value)? + "\n"))
}

/// Writes a line to standard error.
pub(crate) fn complain(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// How text is coloured on standard output.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Paint {
    on: bool,
}

impl Paint {
    /// Colour if standard output is a terminal that wants it.
    pub(crate) fn for_stdout(environment: &Environment) -> Self {
        Self { on: std::io::stdout().is_terminal() && !environment.no_colour }
    }

    /// Never.
    #[cfg(test)]
    pub(crate) const fn off() -> Self {
        Self { on: false }
    }

    /// Good.
    pub(crate) fn green(self, text: &str) -> String {
        self.wrap("32", text)
    }

    /// Worth a look.
    pub(crate) fn yellow(self, text: &str) -> String {
        self.wrap("33", text)
    }

    /// Bad.
    pub(crate) fn red(self, text: &str) -> String {
        self.wrap("31", text)
    }

    /// Of less weight.
    pub(crate) fn dim(self, text: &str) -> String {
        self.wrap("2", text)
    }

    /// Of more weight.
    pub(crate) fn bold(self, text: &str) -> String {
        self.wrap("1", text)
    }

    fn wrap(self, code: &str, text: &str) -> String {
        if self.on && !text.is_empty() { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}
