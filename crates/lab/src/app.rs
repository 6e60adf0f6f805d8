//! An application simulator: what an API server in one zone does to its databases, counted from its own side.
//!
//! One [`App`] stands for the application hosts of one zone. It has the endpoints of [`endpoint`], a pool of
//! reader sessions and a pool of writer sessions, and takes requests at a given rate. It behaves as
//! applications on common drivers do, because a simulator that is kinder than they are would flatter whatever
//! stands between it and the servers:
//!
//! - Sessions are opened once and kept. Where a session landed is where its statements go for its whole life.
//! - A statement outside a transaction checks out a session, runs, and gives it back; a transaction keeps one
//!   to its end (`database/sql` of Go does the same). The longest-idle session is next, so that every session
//!   carries the same; or the one returned last, where [`PoolOrder`] says so.
//! - At check-out a session is looked at without a round trip, and opened anew if the other side has closed
//!   it (go-sql-driver does the same). Nothing is retried: a statement that fails makes its request fail.
//! - Each statement says which endpoint sent it, as a comment tag (`/*endpoint='timeline'*/`).
//!
//! The driver is `mysql_async`, text protocol. Requests arrive on a schedule that does not wait for earlier
//! ones (an open loop), and a request's time counts from when it was due.

mod counts;
mod endpoint;
mod failure;
mod pool;
mod request;
mod schema;
mod traffic;

pub use counts::{AppCounts, EndpointTally, Pool as PoolName, Tick};
pub use endpoint::{DataSize, Endpoint, Step};
pub use failure::{Failure, FailureKind};
pub use schema::{is_ready, load};
pub use traffic::{Rates, Traffic};

use fleet::{Address, Zone};
use pool::Pool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What an application of one zone is told.
#[derive(Clone, Debug)]
pub struct AppSpec {
    /// Where it runs. Only a label: the addresses below are those of its zone already.
    pub zone: Zone,
    /// Where reads go. Sessions are spread over them in turn; one address (a router's) is the common case.
    pub readers: Vec<Address>,
    /// Where writes go.
    pub writer: Address,
    /// Sessions kept open for reads.
    pub reader_sessions: usize,
    /// Sessions kept open for writes.
    pub writer_sessions: usize,
    /// Which session a pool hands out.
    pub order: PoolOrder,
    /// Password of [`crate::Account::App`], as which it logs in.
    pub password: String,
    /// A statement without an answer for this long fails, as a driver's read timeout makes it.
    pub statement_deadline: Duration,
    /// A new session must be open by then.
    pub connect_deadline: Duration,
    /// Size of the data that [`load`] put there.
    pub data: DataSize,
    /// Ticks of the tally count from here; the same for all applications that are compared.
    pub epoch: Instant,
}

/// Which of its idle sessions a pool hands out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PoolOrder {
    /// The one that was returned first: every session carries the same.
    #[default]
    OldestFirst,
    /// The one that was returned last, as Go's database/sql does: most sessions rest.
    NewestFirst,
}

/// The application of one zone, with its sessions open.
#[derive(Clone, Debug)]
pub struct App {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    spec: AppSpec,
    readers: Pool,
    writers: Pool,
    tally: Mutex<AppCounts>,
}

impl App {
    /// Opens all sessions of both pools.
    ///
    /// # Errors
    /// The first session that could not be opened.
    pub async fn open(spec: AppSpec) -> Result<Self, Failure> {
        let readers = Pool::new(PoolName::Readers, &spec, &spec.readers, spec.reader_sessions);
        let writers =
            Pool::new(PoolName::Writers, &spec, std::slice::from_ref(&spec.writer), spec.writer_sessions);
        readers.open_all().await?;
        writers.open_all().await?;
        Ok(Self { shared: Arc::new(Shared { spec, readers, writers, tally: Mutex::default() }) })
    }

    /// Where it runs.
    pub fn zone(&self) -> &Zone {
        &self.shared.spec.zone
    }

    /// Begins to take requests; [`Traffic::stop`] ends it and waits for those under way.
    pub fn begin(&self, rates: Rates, seed: u64) -> Traffic {
        Traffic::begin(&self.shared, rates, seed)
    }

    /// Everything counted since the last call.
    pub fn take(&self) -> AppCounts {
        std::mem::take(&mut *self.shared.tally.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Open reader sessions per `@@server_id`, as last seen (a session that was closed meanwhile still counts
    /// for the server it was on until its next check-out).
    pub fn reader_sessions(&self) -> std::collections::BTreeMap<u32, usize> {
        self.shared.readers.sessions()
    }

    /// Opens one session to the reader address outside the pools, asks it which server it is on, and closes
    /// it.
    ///
    /// # Errors
    /// The session could not be opened, or did not answer.
    pub async fn probe(&self) -> Result<u32, Failure> {
        pool::probe(&self.shared.spec).await
    }

    /// Closes every session that is not in use.
    pub async fn close(&self) {
        self.shared.readers.close().await;
        self.shared.writers.close().await;
    }
}

impl Shared {
    /// Adds what one request did.
    fn count(&self, add: impl FnOnce(&mut AppCounts)) {
        add(&mut self.tally.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Which tick an instant lies in.
    fn tick(&self, at: Instant) -> u32 {
        let since = at.saturating_duration_since(self.spec.epoch).as_millis();
        u32::try_from(since / Tick::LENGTH.as_millis()).unwrap_or(u32::MAX)
    }
}
