//! Accept: takes clients off the listeners and hands each to the thread that has the fewest sessions.
//!
//! One thread, the first of the workers, accepts for all listeners. The hash of `SO_REUSEPORT` would leave
//! cores idle with few clients; an accept and a hand-over cost a few microseconds a session, and nothing a
//! query.

use crate::admission::{Admission, AdmissionPermit, Arrival};
use crate::catch_panic::{PAUSE, Panicked, caught};
use crate::health::Health;
use crate::listener::{Listener, ListeningSocket};
use crate::refusal::{RefusalDetails, RefusalReason};
use crate::refuse;
use crate::reserve::{Reserve, is_exhausted};
use crate::stream::Socket;
use crate::worker::{Message, WorkerHandle};
use rustix::io::Errno;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::time::Instant;

/// The pause after an accept that failed for want of descriptors.
const NO_DESCRIPTOR_PAUSE: Duration = Duration::from_millis(50);
/// Between two looks at a socket that does not listen.
const PAUSED_LOOK: Duration = Duration::from_millis(5);
/// Before a listener that cannot be watched is tried again.
const WATCH_AGAIN: Duration = Duration::from_secs(1);

/// Accepts until the listener is closed, and starts again after a panic or an error. All listeners together
/// have at most `most_sessions`, where there is such a limit.
pub(crate) async fn keep(
    listener: Arc<Listener>,
    fd: OwnedFd,
    workers: Arc<[WorkerHandle]>,
    most_sessions: Option<usize>,
    health: Arc<Health>,
) {
    let part = format!("listener {}", listener.bound);
    let mut fd = Some(fd);
    // Without a socket the listener has been closed.
    while let Some(fd) = fd.take().or_else(|| listener.socket()) {
        match caught(serve(&listener, fd, &workers, most_sessions, || health.set_idle(&part, None))).await {
            Ok(Ok(Served::Closed)) => break,
            Ok(Ok(Served::Paused)) => tokio::time::sleep(PAUSED_LOOK).await,
            Ok(Err(error)) => {
                tracing::error!(address = %listener.address, %error, "cannot poll the listening socket, retrying");
                health.set_idle(&part, Some(format!("it cannot be watched ({error}): nobody is accepted")));
                tokio::time::sleep(WATCH_AGAIN).await;
            }
            Err(Panicked) => {
                health.ended(&part, "it panicked");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
    health.set_idle(&part, None);
}

/// Why nobody is accepted any more.
enum Served {
    /// The listener was closed.
    Closed,
    /// It does not listen: a reload tries to bind another socket to its port. It is watched anew.
    Paused,
}

async fn serve(
    listener: &Arc<Listener>,
    fd: OwnedFd,
    workers: &[WorkerHandle],
    most_sessions: Option<usize>,
    serves: impl FnOnce(),
) -> io::Result<Served> {
    let listening = ListeningSocket::new(&listener.address, fd)?;
    serves();
    let mut reserve = Reserve::new();
    loop {
        let accepted = tokio::select! {
            biased;
            () = listener.closing.notified() => {
                assert!(!listener.takes_fault(), "a fault was asked for");
                return Ok(Served::Closed);
            }
            accepted = listening.accept() => accepted,
        };
        match accepted {
            Ok((socket, peer)) => admit(listener, socket, peer, workers, most_sessions),
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) if error.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => {
                return Ok(Served::Paused);
            }
            Err(error) if is_exhausted(&error) && reserve.refuse_one(&listening) => {
                listener.refusals.add(RefusalReason::NoDescriptor);
                reserve.log(listener, &error);
            }
            Err(error) => {
                reserve.log(listener, &error);
                tokio::time::sleep(NO_DESCRIPTOR_PAUSE).await;
                reserve.restock();
            }
        }
    }
}

fn admit(
    listener: &Arc<Listener>,
    socket: Socket,
    peer: Option<SocketAddr>,
    workers: &[WorkerHandle],
    most_sessions: Option<usize>,
) {
    // A proxy's clients are looked at when it has told who they are.
    let stranger = peer.filter(|peer| {
        let access = &listener.terms().access;
        !access.trusts(peer.ip()) && !access.admits(peer.ip())
    });
    if let Some(stranger) = stranger {
        let error = refuse::not_allowed(stranger.ip());
        listener.refuse(RefusalReason::NotAllowed, RefusalDetails::sent(&error).from(Some(stranger.ip())));
        let _ = rustix::io::write(socket.fd(), &error.before_greeting());
        return;
    }
    let sessions: usize = workers.iter().map(WorkerHandle::sessions).sum();
    let permit = match (AdmissionPermit::take(listener, peer.map(|peer| peer.ip())), most_sessions) {
        (Ok(_), Some(most)) if sessions >= most => {
            Err((RefusalReason::NoDescriptor, refuse::no_descriptor(most)))
        }
        (Ok(permit), _) => Ok(permit),
        (Err(why @ RefusalReason::MaxConnecting), _) => {
            Err((why, refuse::too_many_connecting(listener.max_connecting())))
        }
        (Err(why), _) => Err((why, refuse::too_many(listener.max_sessions()))),
    };
    let permit = match permit {
        Ok(permit) => permit,
        Err((why, error)) => {
            listener.refuse(why, RefusalDetails::sent(&error).from(peer.map(|peer| peer.ip())));
            // One small packet into a fresh socket always fits.
            let _ = rustix::io::write(socket.fd(), &error.before_greeting());
            return;
        }
    };
    listener.accepted.fetch_add(1, Relaxed);
    // Threads that stand still come last.
    let Some(worker) = workers.iter().min_by_key(|w| (w.heartbeat().is_unfit(), w.sessions())) else {
        return;
    };
    let admission = Admission { permit, thread_slot: worker.take_slot() };
    let arrival = Arrival { socket, peer, role: listener.role(), at: Instant::now(), admission };
    if let Err(Message::Arrival(arrival)) = worker.send(Message::Arrival(arrival)) {
        // The process ends because of it, as soon as that is seen.
        listener.refusals.add(RefusalReason::NoServer);
        let error = refuse::own_fault("one of its threads has ended");
        let _ = rustix::io::write(arrival.socket.fd(), &error.before_greeting());
    }
}
