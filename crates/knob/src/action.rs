//! What the caller changes in its own way: the type of a file system (made anew on an empty device), the
//! allocator of a server (restarted with another `LD_PRELOAD`); by a program of its own, or by what
//! [`crate::managed`] knows of the server. Such a knob has values, danger and a journal
//! entry as every other one, and an [`Action`] does the work.

use crate::error::Refusal;
use crate::host::{Host, LONG_LIMIT};

/// A change of the caller's own.
pub trait Action: Send {
    /// The present value.
    ///
    /// # Errors
    /// It cannot be read.
    fn read(&mut self) -> Result<String, Refusal>;

    /// Makes it so.
    ///
    /// # Errors
    /// It could not.
    fn apply(&mut self, value: &str) -> Result<(), Refusal>;

    /// Whether it could be made so, as far as that shows without trying.
    ///
    /// # Errors
    /// Why not.
    fn check(&mut self, _value: &str) -> Result<(), Refusal> {
        Ok(())
    }

    /// Whether a change restarts the server.
    fn restarts(&self) -> bool {
        false
    }

    /// The program that does it, if a program does: what the journal keeps, so that a later process can put
    /// it back.
    fn program(&self) -> Option<String> {
        None
    }
}

/// A program of the caller: `PROGRAM read` prints the present value, `PROGRAM apply VALUE` makes it so.
#[derive(Debug)]
pub struct ProgramAction {
    host: Host,
    program: String,
}

impl ProgramAction {
    /// That program; an absolute path.
    pub fn new(host: Host, program: &str) -> Self {
        Self { host, program: program.to_owned() }
    }
}

impl Action for ProgramAction {
    fn read(&mut self) -> Result<String, Refusal> {
        self.host.ask(&self.program, &["read"])
    }

    fn apply(&mut self, value: &str) -> Result<(), Refusal> {
        self.host.ask_within(&self.program, &["apply", value], LONG_LIMIT).map(drop)
    }

    fn program(&self) -> Option<String> {
        Some(self.program.clone())
    }
}
