//! The polled driver: one task a session polls both directions of two streams. For whatever tokio can read
//! and write: TLS, and every session where io_uring is not available.
//!
//! What one read brought is written at once, without asking for readiness first; a direction is not read
//! again before the other side has taken everything. Per query: two reads, two writes.

use super::{Action, AfterClient, LINGER, Outcome, QUIT, Relay};
use crate::buffer::Pool;
use crate::closed::Closed;
use crate::stream::{Stream, Waiting};
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// One session's bytes. Resolves to why it ended; both sockets are closed when it is dropped.
#[derive(Debug)]
pub(crate) struct Polled {
    relay: Relay,
    client: Stream,
    server: Stream,
    up: Half,
    down: Half,
    linger: Option<Pin<Box<Sleep>>>,
}

/// One direction.
#[derive(Debug)]
struct Half {
    pool: Rc<Pool>,
    /// What the other side has not taken yet: the buffer, and the part of it that is left.
    left: Option<(Box<[u8]>, usize, usize)>,
    /// The source has said its last.
    ended: bool,
    /// And the target has been told.
    done: bool,
    /// Nothing more is read: what follows is somebody else's.
    hands_over: bool,
}

/// Which end broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Broken {
    Source,
    Target,
}

/// Why a direction stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    /// Its source ended and its target knows.
    Done,
    Broken(Broken),
    Close(Closed),
    HandOver,
}

impl Polled {
    /// Takes over a session that is logged in: `relay` knows where it stands, and nothing is under way.
    pub(crate) fn new((client, server): (Stream, Stream), relay: Relay, pool: Rc<Pool>) -> Self {
        let (up, down) = (Half::new(pool.clone()), Half::new(pool));
        Self { relay, client, server, up, down, linger: None }
    }

    /// Client, server and what is known of the session, after [`Outcome::ChangeUser`].
    pub(crate) fn into_parts(self) -> ((Stream, Stream), Relay) {
        ((self.client, self.server), self.relay)
    }

    fn client_to_server(&mut self, cx: &mut Context<'_>) -> Poll<Stop> {
        let relay = &mut self.relay;
        let see = |bytes: &[u8]| relay.client_bytes(bytes);
        self.up.pump(cx, &mut self.client, &mut self.server, see)
    }

    fn server_to_client(&mut self, cx: &mut Context<'_>) -> Poll<Stop> {
        let relay = &mut self.relay;
        let see = |bytes: &[u8]| {
            relay.server_bytes(bytes);
            Action::Pass
        };
        self.down.pump(cx, &mut self.server, &mut self.client, see)
    }

    /// Whether nothing is under way and the kernel holds nothing from either side.
    fn is_silent(&self) -> bool {
        self.up.left.is_none()
            && self.down.left.is_none()
            && self.server.waiting() == Waiting::Nothing
            && self.client.waiting() == Waiting::Nothing
    }

    fn say_goodbye(&mut self) {
        if self.relay.may_say_goodbye() && self.up.left.is_none() {
            self.server.send_now(&QUIT);
        }
    }

    /// The client has left. The server gets to finish what it does, and the client to take what it asked for.
    fn after_client(&mut self, cx: &mut Context<'_>) -> Poll<Closed> {
        self.relay.handle().unsettle();
        if self.down.left.is_some() {
            return Poll::Pending;
        }
        match self.relay.after_client() {
            AfterClient::Over => return Poll::Ready(Closed::ClientLeft),
            AfterClient::Answer => return Poll::Pending,
            AfterClient::Linger => {}
        }
        let linger = self.linger.get_or_insert_with(|| Box::pin(tokio::time::sleep(LINGER)));
        linger.as_mut().poll(cx).map(|()| Closed::ClientLeft)
    }
}

impl Future for Polled {
    type Output = Outcome;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome> {
        let this = self.get_mut();
        let closed = |why| Poll::Ready(Outcome::Closed(why));
        if let Poll::Ready(stop) = this.client_to_server(cx) {
            match stop {
                Stop::Done => {}
                // An older answer may be under way to the client. What the server says next is not ours to
                // read.
                Stop::HandOver if this.down.left.is_none() => return Poll::Ready(Outcome::ChangeUser),
                Stop::HandOver => this.down.hands_over = true,
                Stop::Broken(Broken::Source) => return closed(Closed::ClientLeft),
                Stop::Broken(Broken::Target) => return closed(this.relay.after_server()),
                Stop::Close(why) => {
                    this.say_goodbye();
                    return closed(why);
                }
            }
        }
        match this.server_to_client(cx) {
            Poll::Pending => {}
            Poll::Ready(Stop::HandOver) => return Poll::Ready(Outcome::ChangeUser),
            Poll::Ready(Stop::Broken(Broken::Target)) => return closed(Closed::ClientLeft),
            Poll::Ready(_) if this.up.ended => return closed(Closed::ClientLeft),
            Poll::Ready(_) => return closed(this.relay.after_server()),
        }
        // A cut is obeyed by a session whose client has left, too.
        let outstanding = || [&this.client, &this.server].map(uring::outstanding);
        if let Some(why) = this.relay.due(|| this.is_silent(), outstanding) {
            // Before the server, which wakes others when it is sent something: what the client sends until it
            // sees the end is lost.
            this.client.close_now();
            this.say_goodbye();
            return closed(why);
        }
        if this.up.done
            && let Poll::Ready(why) = this.after_client(cx)
        {
            return closed(why);
        }
        this.relay.handle().waits(cx.waker());
        Poll::Pending
    }
}

impl Drop for Half {
    fn drop(&mut self) {
        if let Some((buffer, ..)) = self.left.take() {
            self.pool.give(buffer);
        }
    }
}

impl Half {
    fn new(pool: Rc<Pool>) -> Self {
        Self { pool, left: None, ended: false, done: false, hands_over: false }
    }

    /// Moves what can be moved now. `see` sees every byte once, before it is passed on.
    fn pump(
        &mut self,
        cx: &mut Context<'_>,
        source: &mut Stream,
        target: &mut Stream,
        mut see: impl FnMut(&[u8]) -> Action,
    ) -> Poll<Stop> {
        loop {
            if self.done {
                return Poll::Ready(Stop::Done);
            }
            if self.left.is_some() && ready!(self.drain(cx, target)).is_err() {
                return Poll::Ready(Stop::Broken(Broken::Target));
            }
            if self.hands_over {
                return Poll::Ready(Stop::HandOver);
            }
            if self.ended {
                // The target may have closed already; it has been told either way.
                let _ = ready!(Pin::new(&mut *target).poll_shutdown(cx));
                self.done = true;
                continue;
            }
            let mut buffer = self.pool.take();
            let mut read = ReadBuf::new(&mut buffer);
            let outcome = Pin::new(&mut *source).poll_read(cx, &mut read);
            let length = read.filled().len();
            match outcome {
                Poll::Ready(Ok(())) if length > 0 => {}
                other => {
                    self.pool.give(buffer);
                    match other {
                        Poll::Pending => return Poll::Pending,
                        Poll::Ready(Err(_)) => return Poll::Ready(Stop::Broken(Broken::Source)),
                        Poll::Ready(Ok(())) => self.ended = true,
                    }
                    continue;
                }
            }
            match see(&buffer[..length]) {
                Action::Pass => {}
                Action::PassAndHandOver => self.hands_over = true,
                Action::Close(why) => {
                    self.pool.give(buffer);
                    return Poll::Ready(Stop::Close(why));
                }
            }
            self.left = Some((buffer, 0, length));
        }
    }

    /// Writes what is left and gives the buffer back.
    fn drain(&mut self, cx: &mut Context<'_>, target: &mut Stream) -> Poll<io::Result<()>> {
        while let Some((buffer, from, to)) = &mut self.left {
            if *from == *to {
                // TLS may have taken it all and still hold some of it.
                ready!(Pin::new(&mut *target).poll_flush(cx))?;
                if let Some((buffer, ..)) = self.left.take() {
                    self.pool.give(buffer);
                }
                break;
            }
            match ready!(Pin::new(&mut *target).poll_write(cx, &buffer[*from..*to])) {
                Ok(0) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Ok(written) => *from += written,
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        Poll::Ready(Ok(()))
    }
}
