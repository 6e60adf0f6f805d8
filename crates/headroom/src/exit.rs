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
