//! Why the engine does not do what a command asks for.

use fleet::Blame;

/// Why the engine does not do what a command asks for.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// Nothing is begun any more.
    #[error("the router is stopping")]
    Stopping,
    /// No server of the fleet has this name.
    #[error("there is no server '{server}'; there are {}", known.join(", "))]
    UnknownServer {
        server: String,
        /// Those that there are, by name.
        known: Vec<String>,
    },
    /// It was found a moment ago, and the data plane has not heard of it.
    #[error("the router does not know {server} yet; try again in a second")]
    NotKnownYet { server: String },
    /// It takes sessions as it did before.
    #[error("{server} was not being drained")]
    NotDrained { server: String },
    /// No recording begins.
    #[error(transparent)]
    Recording(router::Error),
}

impl EngineError {
    /// Whose fault it is.
    pub fn blame(&self) -> Blame {
        match self {
            Self::Stopping
            | Self::UnknownServer { .. }
            | Self::NotKnownYet { .. }
            | Self::NotDrained { .. } => Blame::Client,
            Self::Recording(error) => error.blame(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_not_there_is_answered_with_those_that_are() {
        let known = vec!["db1".to_owned(), "db2".to_owned()];
        let error = EngineError::UnknownServer { server: "bd1".to_owned(), known };
        assert_eq!(error.to_string(), "there is no server 'bd1'; there are db1, db2");
        assert_eq!(error.blame(), Blame::Client);
        let under_way = EngineError::Recording(router::Error::Recording);
        assert_eq!(under_way.to_string(), router::Error::Recording.to_string());
        assert_eq!(under_way.blame(), router::Error::Recording.blame());
    }
}
