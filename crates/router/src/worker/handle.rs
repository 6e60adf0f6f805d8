//! Worker handle: how the rest of the router reaches one thread of the data plane.

use super::message::Message;
use crate::admission::ThreadSlot;
use crate::heartbeat::Heartbeat;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// The handle that others have of a thread. The thread ends when its last handle is dropped and its sessions
/// have ended.
#[derive(Debug)]
pub(crate) struct WorkerHandle {
    messages: UnboundedSender<Message>,
    sessions: Arc<AtomicUsize>,
    heartbeat: Arc<Heartbeat>,
}

impl WorkerHandle {
    /// The handle of a thread that shows by `heartbeat` that it lives, and the other end of its channel.
    pub(crate) fn new(heartbeat: Arc<Heartbeat>) -> (Self, UnboundedReceiver<Message>) {
        let (messages, inbox) = unbounded_channel();
        (Self { messages, sessions: Arc::default(), heartbeat }, inbox)
    }

    /// Sessions on this thread, arrivals under way included.
    pub(crate) fn sessions(&self) -> usize {
        self.sessions.load(Relaxed)
    }

    /// Counts one more session on this thread, until the slot is dropped.
    pub(crate) fn take_slot(&self) -> ThreadSlot {
        ThreadSlot::take(&self.sessions)
    }

    /// Sends the thread a message.
    ///
    /// # Errors
    /// It has ended; the message comes back.
    pub(crate) fn send(&self, message: Message) -> Result<(), Message> {
        self.messages.send(message).map_err(|unsent| unsent.0)
    }

    /// How the thread shows that it lives.
    pub(crate) fn heartbeat(&self) -> &Heartbeat {
        &self.heartbeat
    }
}
