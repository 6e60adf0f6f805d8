//! Admission: how a client that was accepted is counted, from its accept to the end of its session.
//!
//! Each of these guards gives back what it counts when it is dropped, however the session ends.

use crate::listener::Listener;
use crate::refusal::{RefusalDetails, RefusalReason};
use crate::session_span;
use crate::stream::Socket;
use fleet::ListenerRole;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use tokio::time::Instant;
use tracing::Span;

/// Counts a client among the sessions of its listener until dropped, and among those that are logging in
/// until [`AdmissionPermit::logged_in`].
#[derive(Debug)]
pub(crate) struct AdmissionPermit {
    pub(crate) listener: Arc<Listener>,
    /// Where the client comes from, as far as is known; `None` by unix socket.
    pub(crate) client: Option<IpAddr>,
    connecting: bool,
}

/// Counts a session among those of a thread until dropped.
#[derive(Debug)]
pub(crate) struct ThreadSlot(Arc<AtomicUsize>);

/// Counts a session at its listener and on its thread until dropped.
#[derive(Debug)]
pub(crate) struct Admission {
    pub(crate) permit: AdmissionPermit,
    #[allow(dead_code, reason = "counts until it is dropped")]
    pub(crate) thread_slot: ThreadSlot,
}

/// A client that has been accepted and waits for a server.
#[derive(Debug)]
pub(crate) struct Arrival {
    pub(crate) socket: Socket,
    /// Where it comes from; `None` by unix socket.
    pub(crate) peer: Option<SocketAddr>,
    pub(crate) role: ListenerRole,
    pub(crate) at: Instant,
    pub(crate) admission: Admission,
}

impl AdmissionPermit {
    /// Takes a permit, if both limits leave one.
    pub(crate) fn take(listener: &Arc<Listener>, client: Option<IpAddr>) -> Result<Self, RefusalReason> {
        listener.take_place()?;
        Ok(Self { listener: listener.clone(), client, connecting: true })
    }

    /// A permit of a listener on which nobody connects.
    #[cfg(test)]
    pub(crate) fn unused() -> Self {
        let config = config::Listener::new(fleet::Address::tcp("127.0.0.1", 0), ListenerRole::Reader);
        let opened = Listener::open(&config, &mut crate::sockets::Sockets::default());
        Self::take(&opened.expect("a free port").0, None).expect("the only client")
    }

    /// The client gets no session: counted and logged.
    pub(crate) fn refuse(&self, why: RefusalReason, details: RefusalDetails) {
        self.listener.refuse(why, RefusalDetails { client: self.client, ..details });
        session_span::record_end(&Span::current(), RefusalReason::WORDS[why as usize], true);
    }

    /// The client is logged in (or goes on in a form that we cannot read).
    pub(crate) fn logged_in(&mut self) {
        if std::mem::take(&mut self.connecting) {
            self.listener.login_over();
        }
    }
}

impl Drop for AdmissionPermit {
    fn drop(&mut self) {
        self.logged_in();
        self.listener.give_back_place();
    }
}

impl ThreadSlot {
    /// One more session on the thread that has this counter.
    pub(crate) fn take(sessions: &Arc<AtomicUsize>) -> Self {
        sessions.fetch_add(1, Relaxed);
        Self(sessions.clone())
    }
}

impl Drop for ThreadSlot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

impl Admission {
    /// Counted where nobody looks.
    #[cfg(test)]
    pub(crate) fn unused() -> Self {
        Self { permit: AdmissionPermit::unused(), thread_slot: ThreadSlot::take(&Arc::default()) }
    }
}
