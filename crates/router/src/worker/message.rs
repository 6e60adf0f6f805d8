//! Message: what the threads of the data plane are sent.

use crate::admission::Arrival;
use crate::closed::Closed;
use crate::fault::Fault;
use crate::session_registry::SessionRegistry;
use fleet::ServerName;
use insight::{Ledger, Snapshot};
use std::cell::RefCell;

/// What a thread is told. Unbounded in form; arrivals are bounded by the listeners' `max_sessions`.
#[derive(Debug)]
pub(crate) enum Message {
    /// A client.
    Arrival(Arrival),
    /// Something about sessions that it has.
    Rebalance(RebalanceCommand),
    /// Hand over a copy of the ledger.
    Ledger(LedgerRequest),
    /// Show that you live, and look after sessions.
    Beat,
    /// Meet a fault, so that a test sees it made good.
    Fault(Fault),
}

/// What placement wants of a thread.
#[derive(Clone, Debug)]
pub(crate) enum RebalanceCommand {
    /// Some server has sessions that should leave: look for quiet ones.
    Look,
    /// Cut the sessions on this server.
    Cut(ServerName, Closed),
    /// Cut everything.
    CutAll(Closed),
}

/// Asks for copies of the ledgers of a thread and of the ring's thread beside it.
#[derive(Clone, Debug)]
pub(crate) struct LedgerRequest {
    /// With its cells, which is most of it.
    pub(crate) cells: bool,
    pub(crate) reply: std::sync::mpsc::Sender<Snapshot>,
}

impl LedgerRequest {
    /// Hands over a copy of this ledger.
    pub(crate) fn answer(&self, ledger: &RefCell<Ledger>) {
        // Whoever asked may have given up.
        let _ = self.reply.send(ledger.borrow_mut().snapshot(self.cells));
    }
}

impl RebalanceCommand {
    /// Cuts the sessions that it names.
    pub(crate) fn cut(&self, registry: &SessionRegistry) {
        match self {
            Self::Look => {}
            Self::Cut(server, why) => {
                let sessions = registry.cut(*why, |slot| slot.counters.name() == *server);
                if sessions > 0 {
                    tracing::warn!(%server, sessions, why = why.words(), "sessions cut");
                }
            }
            Self::CutAll(why) => {
                let sessions = registry.cut(*why, |_| true);
                if sessions > 0 {
                    tracing::warn!(sessions, why = why.words(), "sessions cut");
                }
            }
        }
    }
}
