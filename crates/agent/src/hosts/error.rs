//! Why an agent does not answer with what it was asked for.

use console::web::WebError;
use fleet::Blame;

/// Why an agent does not answer with what it was asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AgentError {
    /// There is no HTTP answer.
    #[error(transparent)]
    Web(#[from] WebError),
    /// It was sent a token that is not its own.
    #[error("{at} takes another token")]
    OtherToken {
        /// Its address, without secrets.
        at: String,
    },
    /// It was sent none.
    #[error("{at} asks for its token: --agent-token-file FILE, or HEADROOM_AGENT_TOKEN in the environment")]
    NoToken { at: String },
    /// It answered with an error.
    #[error("{at} answered {code}")]
    Status {
        at: String,
        /// Of HTTP.
        code: u16,
    },
    /// It is no agent, or of a version whose answers are others.
    #[error("{at} does not answer like headroom agent of this version")]
    OtherVersion { at: String },
    /// No agent stands at this place of the command line.
    #[error("no answer")]
    NotAsked,
}

impl AgentError {
    /// Whose fault it is.
    pub fn blame(&self) -> Blame {
        match self {
            Self::Web(error) => error.blame(),
            Self::OtherToken { .. } | Self::NoToken { .. } | Self::OtherVersion { .. } => Blame::Config,
            Self::Status { .. } => Blame::Server,
            Self::NotAsked => Blame::Bug,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn an_agent_without_an_answer_has_the_words_and_the_blame_of_what_went_wrong() {
        let late = WebError::Late { at: "https://db1:9307".to_owned(), limit: Duration::from_secs(5) };
        let error = AgentError::from(late.clone());
        assert_eq!((error.to_string(), error.blame()), (late.to_string(), Blame::Network));
        let error = AgentError::NoToken { at: "https://db1:9307".to_owned() };
        assert!(error.to_string().contains("--agent-token-file"), "{error}");
        assert_eq!(error.blame(), Blame::Config);
    }
}
