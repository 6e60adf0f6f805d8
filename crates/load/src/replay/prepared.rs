//! The numbers that the target gives to prepared statements, for those of the recording.

use super::script::ScriptStep;
use std::collections::HashMap;
use wire::Command;

/// Stands for what was prepared last (MariaDB's `-1`).
const LAST: u32 = u32::MAX;
/// A number that no server gives to a prepared statement: what is executed by it has to fail, not to meet
/// another statement.
pub(super) const REFUSED: u32 = u32::MAX - 1;

/// One session's prepared statements.
pub(super) struct PreparedNumbers {
    /// The target's, by the recorded ones.
    numbers: HashMap<u32, u32>,
    last: u32,
}

impl PreparedNumbers {
    pub(super) fn new() -> Self {
        Self { numbers: HashMap::new(), last: LAST }
    }

    /// The target gave this number to what was prepared last.
    pub(super) fn last(&mut self, number: u32) {
        self.last = number;
    }

    /// What was prepared last had this number in the recording.
    pub(super) fn recorded(&mut self, number: u32) {
        self.numbers.insert(number, self.last);
    }

    /// Forgets all.
    pub(super) fn forget(&mut self) {
        self.numbers.clear();
    }

    /// A step that names a prepared statement, by the target's number; `None` for all others. A statement
    /// that is closed is forgotten. The target counts for itself, so that a recorded number which it gave
    /// nothing for may be that of another statement there.
    pub(super) fn translated(&mut self, step: &ScriptStep) -> Option<Vec<u8>> {
        let names = matches!(
            step.command,
            Command::StmtExecute
                | Command::StmtClose
                | Command::StmtReset
                | Command::StmtSendLongData
                | Command::StmtFetch
        );
        let (number, rest) = step.body.split_first_chunk().filter(|_| names)?;
        let recorded = u32::from_le_bytes(*number);
        let number = match recorded {
            LAST => self.last,
            recorded => self.numbers.get(&recorded).copied().unwrap_or(REFUSED),
        };
        if step.command == Command::StmtClose {
            self.numbers.remove(&recorded);
        }
        Some([&number.to_le_bytes(), rest].concat())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(command: Command, number: u32) -> ScriptStep {
        let body = [&number.to_le_bytes()[..], b"rest"].concat();
        ScriptStep { session: 0, at_us: 0, command, body, group: 0, recorded: None }
    }

    #[test]
    fn statements_are_named_as_the_target_numbered_them() {
        let mut prepared = PreparedNumbers::new();
        let named = |prepared: &mut PreparedNumbers, command, number: u32| {
            let body = prepared.translated(&step(command, number))?;
            assert_eq!(body[4..], *b"rest");
            body.first_chunk().map(|number| u32::from_le_bytes(*number))
        };
        prepared.last(70);
        prepared.recorded(3);
        prepared.last(71);
        assert_eq!(named(&mut prepared, Command::StmtExecute, 3), Some(70));
        assert_eq!(named(&mut prepared, Command::StmtExecute, LAST), Some(71), "the last");
        assert_eq!(named(&mut prepared, Command::StmtExecute, 9), Some(REFUSED), "never seen");
        assert_eq!(named(&mut prepared, Command::Query, 3), None, "text");
        assert_eq!(named(&mut prepared, Command::StmtClose, 3), Some(70));
        assert_eq!(named(&mut prepared, Command::StmtReset, 3), Some(REFUSED), "closed");
        prepared.last(REFUSED);
        assert_eq!(named(&mut prepared, Command::StmtExecute, LAST), Some(REFUSED), "the last was refused");
    }
}
