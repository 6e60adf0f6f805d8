//! Mirror handle: how the rest of the router reaches the thread that follows mirrored sessions (`mirror`).

use crate::session_registry::Facts;
use crate::worker::message::LedgerRequest;
use std::collections::HashMap;
use std::io;
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, Sender, channel};
use zerohop::Mirror;

/// What is known of a session that was followed from its first byte.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ObservedState {
    pub(crate) facts: Facts,
    /// The client's bytes up to which that is true.
    pub(crate) sent: u64,
    /// The server's.
    pub(crate) received: u64,
}

/// What is known of sessions, by the kernel's name of their sockets; those that are not in it are not known.
pub(crate) type States = HashMap<u64, ObservedState>;

/// Where the thread that follows mirrored sessions is reached, from when it is first needed to the end of the
/// router.
#[derive(Debug, Default)]
pub(crate) struct MirrorHandle(OnceLock<Sender<MirrorMessage>>);

/// What the thread is sent.
pub(crate) enum MirrorMessage {
    /// Listen to this from now on, or to nothing.
    Listen(Option<Box<Mirror>>),
    /// Hand over a copy of the ledger.
    Ledger(LedgerRequest),
    /// Say what is known of these sessions, up to now.
    States(Vec<u64>, Box<dyn FnOnce(States) + Send>),
}

impl MirrorHandle {
    /// Asks for a copy of its ledger; without a thread there is nothing to copy.
    pub(crate) fn send_ledger_request(&self, request: LedgerRequest) {
        // A thread that has ended has nothing to say.
        let _ = self.send(MirrorMessage::Ledger(request));
    }

    /// Has `answer` called with what is known of these sessions; at once where nobody follows any.
    pub(crate) fn states(&self, of: Vec<u64>, answer: impl FnOnce(States) + Send + 'static) {
        if let Err(MirrorMessage::States(_, answer)) = self.send(MirrorMessage::States(of, Box::new(answer)))
        {
            answer(States::new());
        }
    }

    /// Listens to `mirror` from now on; `start` starts the thread if there is none and something to listen
    /// to.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(crate) fn listen(
        &self,
        mirror: Option<Mirror>,
        start: impl FnOnce(Receiver<MirrorMessage>) -> io::Result<()>,
    ) -> io::Result<()> {
        if mirror.is_some() && self.0.get().is_none() {
            let (sender, inbox) = channel();
            start(inbox)?;
            let _ = self.0.set(sender);
        }
        // A thread that has ended listens to nothing.
        let _ = self.send(MirrorMessage::Listen(mirror.map(Box::new)));
        Ok(())
    }

    /// The message comes back where there is no thread.
    fn send(&self, message: MirrorMessage) -> Result<(), MirrorMessage> {
        match self.0.get() {
            Some(sender) => sender.send(message).map_err(|unsent| unsent.0),
            None => Err(message),
        }
    }
}
