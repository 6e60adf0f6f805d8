//! What stands in the way of an export: a setting, our own text, or what the collector answers. No text shows
//! a header, nor what follows the host in an address: both may hold secrets.

use console::web::{WebAddressError, WebError};
use fleet::Blame;
use std::time::Duration;
use tls::TlsError;

/// Why nothing is sent, or why it did not arrive.
#[derive(Debug, thiserror::Error)]
pub enum OtlpError {
    /// A variable that is to hold an address.
    #[error("{variable} holds no address: {source}")]
    Address { variable: String, source: WebAddressError },
    /// A variable with a value that is not known, or not within its limits.
    #[error("{variable} is '{value}'; write {right}")]
    Value { variable: String, value: String, right: &'static str },
    /// An entry, counted from 1, of a variable that holds a list. Nothing of the list is shown.
    #[error("entry {entry} of {variable} {why}; write key=value, with commas between them")]
    Entry { variable: String, entry: usize, why: &'static str },
    /// A certificate of our own is asked for.
    #[error(
        "{variable} is set, and Headroom shows collectors no certificate; send to one on this host that does"
    )]
    ClientCertificate { variable: String },
    /// The authority of the collector's certificate cannot be used.
    #[error("{variable}: {source}")]
    Authority { variable: String, source: Box<TlsError> },
    /// Our own `/metrics` is not what we take it for.
    #[error("line {line} of the metrics {why}")]
    Exposition { line: usize, why: &'static str },
    /// There is no text of the metrics.
    #[error("there are no metrics now")]
    NoExposition,
    #[error("a message could not be compressed: {0}")]
    Compression(#[from] std::io::Error),
    /// There is no answer.
    #[error(transparent)]
    Web(#[from] WebError),
    /// The collector cannot take it now, and may say when.
    #[error("{at} answered {code}: not now")]
    Busy { at: String, code: u16, after: Option<Duration> },
    /// The collector does not take it, now or later.
    #[error("{at} answered {code}")]
    Refused { at: String, code: u16 },
}

impl OtlpError {
    /// Whose fault it is.
    pub fn blame(&self) -> Blame {
        match self {
            Self::Address { source, .. } => source.blame(),
            Self::Authority { source, .. } => source.blame(),
            Self::Value { .. } | Self::Entry { .. } | Self::ClientCertificate { .. } => Blame::Config,
            // A wrong path, a token that is not accepted.
            Self::Refused { .. } => Blame::Config,
            Self::Exposition { .. } | Self::NoExposition | Self::Compression(_) => Blame::Bug,
            Self::Web(error) => error.blame(),
            Self::Busy { .. } => Blame::Server,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_collector_refuses_is_for_whoever_wrote_the_settings() {
        let at = || "http://collector:4318".to_owned();
        assert_eq!(OtlpError::Refused { at: at(), code: 401 }.blame(), Blame::Config);
        assert_eq!(OtlpError::Busy { at: at(), code: 503, after: None }.blame(), Blame::Server);
        let late = WebError::Late { at: at(), limit: Duration::from_secs(10) };
        assert_eq!(OtlpError::from(late).blame(), Blame::Network);
        assert_eq!(OtlpError::Exposition { line: 1, why: "" }.blame(), Blame::Bug);
    }
}
