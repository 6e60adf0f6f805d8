//! Why a connection cannot be used any more, and what that means for a run that has not begun.

use super::tls_channel::TlsChannelError;
use crate::error::LoadError;
use crate::login::LoginFailure;
use fleet::Address;
use rustix::io::Errno;
use std::io;
use wire::WireError;

/// Why a connection cannot be used any more.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectionError {
    #[error("{}", io::Error::from(*.0))]
    Io(Errno),
    #[error("the server closed the connection")]
    Closed,
    #[error(transparent)]
    Login(LoginFailure),
    #[error(transparent)]
    Tls(Box<TlsChannelError>),
    #[error(transparent)]
    Wire(WireError),
    /// While preparing a statement, or setting a session up by one.
    #[error("error {code} while preparing '{sql}'")]
    Prepare { code: u16, sql: String },
    #[error("the server refused to set a session up: error {code}")]
    SetUp { code: u16 },
}

impl ConnectionError {
    /// The error of a run that could not start because of it.
    pub(crate) fn at(self, address: Address) -> LoadError {
        match self {
            Self::Io(error) => LoadError::Connect { address, source: error.into() },
            Self::Closed => LoadError::Connect { address, source: io::Error::other(Self::Closed) },
            Self::Login(failure) => failure.at(address),
            Self::Tls(source) => LoadError::Tls { address, source },
            Self::Wire(source) => LoadError::Wire { address, source },
            Self::Prepare { code, sql } => {
                let message =
                    format!("while preparing '{sql}'; are the tables there? (headroom load prepare)");
                LoadError::Refused { address, code, message }
            }
            Self::SetUp { code } => {
                let message = "while setting a session up".to_owned();
                LoadError::Refused { address, code, message }
            }
        }
    }
}

impl From<Errno> for ConnectionError {
    fn from(error: Errno) -> Self {
        Self::Io(error)
    }
}

impl From<LoginFailure> for ConnectionError {
    fn from(failure: LoginFailure) -> Self {
        Self::Login(failure)
    }
}

impl From<TlsChannelError> for ConnectionError {
    fn from(error: TlsChannelError) -> Self {
        Self::Tls(Box::new(error))
    }
}
