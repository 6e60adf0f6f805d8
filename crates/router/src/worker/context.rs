//! Worker context: what the sessions of one thread work with.

use super::ring::RingThread;
use crate::buffer::Pool;
use crate::heartbeat::Heartbeat;
use crate::session_registry::SessionRegistry;
use crate::shared_state::SharedState;
use insight::Ledger;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

/// What the tasks of one thread share; nobody else touches it.
#[derive(Debug)]
pub(crate) struct WorkerContext {
    pub(crate) shared: Arc<SharedState>,
    pub(crate) registry: Rc<SessionRegistry>,
    pub(crate) pool: Rc<Pool>,
    pub(crate) ledger: Rc<RefCell<Ledger>>,
    /// Its number, for the shards of the counters.
    pub(crate) thread: usize,
    /// The ring's thread, where there is one.
    pub(crate) ring: Option<RingThread>,
    pub(crate) heartbeat: Arc<Heartbeat>,
}
