//! Why a connection cannot be used any more, and what that means for a run that has not begun.

use crate::error::LoadError;
use crate::login::LoginFailure;
use crate::target::Peer;
use rustix::io::Errno;
use wire::WireError;

/// Why a connection cannot be used any more.
#[derive(Debug)]
pub(in super::super) enum Trouble {
    Io(Errno),
    Closed,
    Login(LoginFailure),
    Tls(String),
    Wire(WireError),
    Prepare(u16, String),
}

impl Trouble {
    /// The error of a run that could not start because of it.
    pub(in super::super) fn into_error(self, peer: &Peer) -> LoadError {
        let address = peer.address.clone();
        match self {
            Self::Io(error) => LoadError::Connect { address, source: error.into() },
            Self::Closed => LoadError::Connect {
                address,
                source: std::io::Error::other("the server closed the connection"),
            },
            Self::Login(LoginFailure::Refused(error)) => {
                LoadError::Refused { address, code: error.code, message: error.message }
            }
            Self::Login(LoginFailure::Impossible(what)) => LoadError::Login { address, what },
            Self::Tls(what) => LoadError::Tls { address, what },
            Self::Wire(source) | Self::Login(LoginFailure::Wire(source)) => {
                LoadError::Wire { address, source }
            }
            Self::Prepare(code, sql) => {
                let message =
                    format!("while preparing '{sql}'; are the tables there? (headroom load prepare)");
                LoadError::Refused { address, code, message }
            }
        }
    }
}
