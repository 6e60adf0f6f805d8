//! Why our own questions to a server have no answer.

use fleet::Blame;
use observe::AskError;

/// Why our own questions to a server have no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FactsError {
    /// The asking itself ended early.
    #[error("it was not asked")]
    NotAsked,
    /// It did not answer, or not as it should.
    #[error(transparent)]
    Ask(#[from] AskError),
}

impl FactsError {
    /// Whose fault it is.
    pub fn blame(&self) -> Blame {
        match self {
            Self::NotAsked => Blame::Bug,
            Self::Ask(error) => error.blame(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_without_an_answer_has_the_words_and_the_blame_of_what_went_wrong() {
        let error = FactsError::from(AskError::NoTls);
        assert_eq!((error.to_string(), error.blame()), (AskError::NoTls.to_string(), Blame::Server));
        assert_eq!(FactsError::NotAsked.blame(), Blame::Bug);
    }
}
