//! Whether a server lets us log in now: for whoever sees connections to it end and wants to know if it is the
//! server.

use crate::ask::{AskError, ControlConnection};
use config::{Credentials, FleetConfig};
use fleet::{Blame, ServerName, Snapshot};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;

/// Tries logins; cheap to clone and to send.
#[derive(Clone)]
pub struct LoginProbe {
    snapshots: watch::Receiver<Arc<Snapshot>>,
    terms: Arc<Mutex<(Credentials, Duration)>>,
}

/// Why a server does not let us log in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoginError {
    /// It was left out since, by discovery or by the configuration.
    #[error("{0} is not part of the fleet any more")]
    NotInTheFleet(ServerName),
    #[error(transparent)]
    Asked(#[from] AskError),
}

impl LoginError {
    /// Whose fault it is.
    pub fn blame(&self) -> Blame {
        match self {
            Self::NotInTheFleet(_) => Blame::Config,
            Self::Asked(error) => error.blame(),
        }
    }
}

impl LoginProbe {
    pub(crate) fn new(
        who: Credentials,
        deadline: Duration,
        snapshots: watch::Receiver<Arc<Snapshot>>,
    ) -> Self {
        Self { snapshots, terms: Arc::new(Mutex::new((who, deadline))) }
    }

    pub(crate) fn reconfigure(&self, config: &FleetConfig) {
        *self.terms() = (config.credentials.clone(), config.deadline);
    }

    /// Logs in, on a connection made for it and closed again.
    ///
    /// # Errors
    /// The server is no longer known, cannot be reached, or refuses the account.
    pub async fn log_in(&self, server: &ServerName) -> Result<(), LoginError> {
        let reach = self.snapshots.borrow().server(server).map(|known| known.reach.clone());
        let reach = reach.ok_or_else(|| LoginError::NotInTheFleet(server.clone()))?;
        let (who, deadline) = self.terms().clone();
        ControlConnection::open(&reach, &who, deadline).await?.close().await;
        Ok(())
    }

    fn terms(&self) -> MutexGuard<'_, (Credentials, Duration)> {
        // Every change is one assignment.
        self.terms.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
