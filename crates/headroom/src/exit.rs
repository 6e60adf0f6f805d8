//! Exit codes, the same for every command.

use std::process::ExitCode;

/// Done.
pub(crate) const DONE: ExitCode = ExitCode::SUCCESS;

/// "No" is the answer: no primary known, drain refused.
pub(crate) fn no() -> ExitCode {
    ExitCode::from(1)
}

/// Something went wrong; standard error says what.
pub(crate) fn error() -> ExitCode {
    ExitCode::from(2)
}

/// The command line was not understood.
pub(crate) fn usage() -> ExitCode {
    ExitCode::from(64)
}

/// An error with its causes, in a line. A cause that the sentence above it gives already is not repeated.
pub(crate) fn reason(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !text.ends_with(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    text
}

/// What the command line lacks, or asks for and cannot be: exit code 64, as when clap refuses it.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct UsageError(String);

/// This sentence as an error that ends with [`usage`].
pub(crate) fn usage_error(text: impl Into<String>) -> anyhow::Error {
    UsageError(text.into()).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;

    #[test]
    fn a_cause_is_told_once() {
        let refused = || std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        let in_it = load::LoadError::Connect { address: "127.0.0.1:1".parse().unwrap(), source: refused() };
        assert_eq!(reason(&in_it.into()), "cannot connect to 127.0.0.1:1: connection refused");
        let around = Err::<(), _>(refused()).context("asking db1").unwrap_err();
        assert_eq!(reason(&around), "asking db1: connection refused");
    }
}
