//! The way to a server, on a control connection that logs in (and begins TLS) as every other does.

use crate::ask::{AskError, ControlConnection};
use config::Credentials;
use fleet::Address;
use std::time::Duration;

/// An open connection for round trips.
pub struct Pinger {
    connection: ControlConnection,
    deadline: Duration,
}

impl Pinger {
    /// Connects and logs in; that, and each ping, may take `deadline`.
    ///
    /// # Errors
    /// The server cannot be reached, refuses the account, or offers no TLS where it is asked for.
    pub async fn open(to: &Address, who: &Credentials, deadline: Duration) -> Result<Self, AskError> {
        Ok(Self { connection: ControlConnection::open(to, who, deadline).await?, deadline })
    }

    /// One round trip, timed: the server answers it without looking at any table.
    ///
    /// # Errors
    /// No answer in time, or the connection broke.
    pub async fn ping(&mut self) -> Result<Duration, AskError> {
        self.connection.ping(self.deadline).await
    }
}
