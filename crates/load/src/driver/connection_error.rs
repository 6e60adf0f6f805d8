//! Why a connection cannot be used any more, and what that means for a run that has not begun.

use super::tls_channel::TlsChannelError;
use crate::error::LoadError;
use crate::login::LoginFailure;
use crate::meaning::meaning;
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
                let meaning = meaning(code).map_or_else(String::new, |meaning| format!(": {meaning}"));
                let message = format!("while preparing '{sql}'{meaning}");
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn why_a_statement_cannot_be_prepared_is_told_by_its_number() {
        let of = |code| {
            let error = ConnectionError::Prepare { code, sql: "SELECT c FROM sbtest1".to_owned() };
            error.at("db1:3306".parse().unwrap()).to_string()
        };
        assert!(of(1146).contains("'SELECT c FROM sbtest1'") && of(1146).contains("headroom load prepare"));
        assert!(of(1461).contains("max_prepared_stmt_count") && !of(1461).contains("load prepare"));
        assert!(of(1142).contains("lacks a privilege"));
        assert!(of(1064).ends_with("error 1064: while preparing 'SELECT c FROM sbtest1'"));
    }
}
