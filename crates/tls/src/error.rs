//! What cannot be used for TLS: the file or the name, and why.

use fleet::Blame;
use rustls::pki_types::pem;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read, or is not PEM of the kind that is needed.
    #[error("{}: {source}", file.display())]
    Pem { file: PathBuf, source: pem::Error },
    #[error("{} holds no certificate in PEM form", file.display())]
    NoCertificate { file: PathBuf },
    /// A certificate that can vouch for no other.
    #[error("{}: {source}", file.display())]
    Authority { file: PathBuf, source: rustls::Error },
    /// A key that is another certificate's, or of a kind that we do not know.
    #[error("{} and {}: {source}", cert.display(), key.display())]
    Pair { cert: PathBuf, key: PathBuf, source: rustls::Error },
    #[error("'{0}' is no name of a host")]
    HostName(String),
    /// The library refuses what is the same for every configuration.
    #[error("{0}")]
    Setup(String),
}

impl TlsError {
    /// Whose fault it is.
    pub fn blame(&self) -> Blame {
        match self {
            Self::Setup(_) => Blame::Bug,
            _ => Blame::Config,
        }
    }
}
