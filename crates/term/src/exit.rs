//! Exit codes, the same for every command.

use std::process::ExitCode;

/// Done.
pub const DONE: ExitCode = ExitCode::SUCCESS;

/// "No" is the answer: no primary known, drain refused.
pub fn no() -> ExitCode {
    ExitCode::from(1)
}

/// Something went wrong; standard error says what.
pub fn error() -> ExitCode {
    ExitCode::from(2)
}

/// The command line was not understood.
pub fn usage() -> ExitCode {
    ExitCode::from(64)
}

/// An error with its causes, in a line. A cause that the sentence above it gives already is not repeated.
pub fn reason(error: &anyhow::Error) -> String {
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
pub struct UsageError(String);

/// This sentence as an error that ends with [`usage`].
pub fn usage_error(text: impl Into<String>) -> anyhow::Error {
    UsageError(text.into()).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;

    /// Its sentence ends with its cause.
    #[derive(Debug, thiserror::Error)]
    #[error("cannot connect: {0}")]
    struct Connect(#[source] std::io::Error);

    #[test]
    fn a_cause_is_told_once() {
        let refused = || std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        assert_eq!(reason(&Connect(refused()).into()), "cannot connect: connection refused");
        let around = Err::<(), _>(refused()).context("asking db1").unwrap_err();
        assert_eq!(reason(&around), "asking db1: connection refused");
    }
}
