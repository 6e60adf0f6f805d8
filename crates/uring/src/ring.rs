//! The ring itself: what is asked for, one call into the kernel, what came of it.

mod sending;

use crate::chunk::{Chunks, GROUP};
use crate::event::{Event, Incoming, Kind, Token};
use crate::kernel::{Size, Unavailable, Uring, unavailable};
use crate::outstanding::{Outstanding, outstanding};
use crate::table::Table;
use crate::waker::Waker;
use io_uring::squeue::{Entry, Flags};
use io_uring::types::Fd;
use io_uring::{cqueue, opcode};
use rustix::io::Errno;
use rustix::net::{RecvFlags, Shutdown};
use std::collections::VecDeque;
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

/// Wait for readiness before trying (`IORING_RECVSEND_POLL_FIRST`): saves a try that would find nothing.
const POLL_FIRST: u16 = 1;
/// How long a dropped ring waits for the kernel to let go of its memory, in steps of [`LAST_STEP`].
const LAST_STEPS: u32 = 50;
const LAST_STEP: Duration = Duration::from_millis(20);

/// One thread's ring. Belongs to the thread that made it.
#[derive(Debug)]
pub struct Ring {
    uring: Uring,
    // Declared after the kernel's side, and so dropped after it.
    chunks: Chunks,
    table: Table,
    waker: Arc<Waker>,
    /// Where the kernel writes the waker's count.
    count: Box<u64>,
    waker_armed: bool,
    /// The waker was used out of turn: it is to be listened to again.
    woken_early: bool,
    /// What has happened and was not handed out, with the socket where there is one.
    events: VecDeque<(Option<u32>, Event)>,
    /// Sends to be settled: the number of the request, and the socket.
    at_once: VecDeque<(u32, u32)>,
    /// Requests ever queued, wrapping.
    queued: u32,
    /// Receives that found no chunk, and wait for one.
    starved: Vec<u32>,
    /// Sockets whose owner waits for the end of a send.
    awaited: usize,
    /// Closed sockets that may be released once all events have been handed out.
    leaving: Vec<u32>,
    /// Requests were handed over while there was no room for more: what came of them has not been fetched.
    unseen: bool,
    /// Sends ever asked for, to tell one from another; wraps at [`GENERATIONS`](crate::event::GENERATIONS).
    sends: u32,
    /// Sends that were not taken at once.
    slow_sends: u64,
}

impl Ring {
    /// A ring for the current thread.
    ///
    /// # Errors
    /// When the kernel has none to give, with the reason.
    pub fn new(size: Size) -> Result<Self, Unavailable> {
        let uring = Uring::new(size)?;
        let mut chunks = Chunks::new(size.chunks, size.chunk_bytes).map_err(Unavailable::Failed)?;
        chunks.register(&uring.0).map_err(unavailable)?;
        let mut ring = Self {
            uring,
            chunks,
            table: Table::default(),
            waker: Arc::new(Waker::new().map_err(Unavailable::Failed)?),
            count: Box::new(0),
            waker_armed: false,
            woken_early: false,
            events: VecDeque::new(),
            at_once: VecDeque::new(),
            queued: 0,
            starved: Vec::new(),
            awaited: 0,
            leaving: Vec::new(),
            unseen: false,
            sends: 0,
            slow_sends: 0,
        };
        ring.listen();
        // Where setting up is allowed and using is not (a container's seccomp profile), it is known before
        // anybody depends on it.
        ring.enter(Some(Duration::ZERO)).map_err(unavailable)?;
        Ok(ring)
    }

    /// What wakes this ring from other threads.
    pub fn waker(&self) -> Arc<Waker> {
        self.waker.clone()
    }

    /// Takes a connected stream socket over. Its events carry `owner`.
    ///
    /// # Errors
    /// When its mode cannot be changed; the socket is then closed.
    pub fn add(&mut self, fd: OwnedFd, owner: u32) -> io::Result<Token> {
        // The kernel does not wait on behalf of a socket that says it must not be waited on.
        rustix::io::ioctl_fionbio(&fd, false)?;
        Ok(Token(self.table.add(fd, owner)))
    }

    /// Asks for what comes next, unless that has been asked already. `soon`: bytes are there already.
    pub fn receive(&mut self, token: Token, soon: bool) {
        let Some(socket) = self.table.at_mut(token.0) else { return };
        if !mem::replace(&mut socket.receiving, true) {
            self.queue_receive(token.0, soon);
        }
    }

    /// Asks for all that comes from now on until the socket is closed, with one request. For owners who take
    /// what comes as it comes: one socket may fill many chunks before the next call.
    pub fn receive_all(&mut self, token: Token) {
        if let Some(socket) = self.table.at_mut(token.0) {
            socket.all = true;
            self.receive(token, false);
        }
    }

    /// Whether the peer has sent nothing that was not handed out yet, and has not closed. Asks the kernel.
    /// No, where something may have been received since the last [`Ring::enter`].
    pub fn is_silent(&self, token: Token) -> bool {
        if self.unseen {
            return false;
        }
        let Some(socket) = self.table.at(token.0) else { return false };
        let look = rustix::net::recv(&socket.fd, &mut [0u8; 1], RecvFlags::PEEK | RecvFlags::DONTWAIT);
        matches!(look, Err(Errno::AGAIN | Errno::INTR))
    }

    /// What is under way to the peer; `None` where the kernel does not tell, as of unix sockets.
    pub fn outstanding(&self, token: Token) -> Option<Outstanding> {
        outstanding(&self.table.at(token.0)?.fd)
    }

    /// Ends our half of the connection. What is being sent must have been settled.
    pub fn close_half(&self, token: Token) {
        if let Some(socket) = self.table.at(token.0) {
            let _ = rustix::net::shutdown(&socket.fd, Shutdown::Write);
        }
    }

    /// Closes a socket. The peer sees it now; what the kernel still does for it ends soon and is not
    /// reported.
    pub fn close(&mut self, token: Token) {
        let Some(socket) = self.table.at_mut(token.0) else { return };
        socket.closed = true;
        if mem::take(&mut socket.notify) {
            self.awaited -= 1;
        }
        // Ends what the kernel waits for on our behalf.
        let _ = rustix::net::shutdown(&socket.fd, Shutdown::Both);
        self.leaving.push(token.0);
    }

    /// Sockets that the kernel or their owner still has.
    pub fn sockets(&self) -> usize {
        self.table.len()
    }

    /// Whether something has happened that was not handed out.
    pub fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    /// Requests that the kernel does not know of yet.
    pub fn waiting_requests(&mut self) -> usize {
        self.uring.0.submission().len()
    }

    /// Starts everything that was asked for, sleeps until something has happened or `patience` is over, and
    /// fetches it. Does not sleep while there are events to be handed out.
    ///
    /// # Errors
    /// When the kernel refuses; then the ring is of no more use.
    pub fn enter(&mut self, patience: Option<Duration>) -> io::Result<()> {
        if self.events.is_empty() {
            self.leaving.drain(..).for_each(|number| self.table.release(number));
        }
        self.chunks.publish();
        let urgent = patience == Some(Duration::ZERO)
            || !self.events.is_empty()
            || !self.starved.is_empty()
            || self.awaited > 0;
        self.uring.enter(if urgent { Some(Duration::ZERO) } else { patience })?;
        if self.fetch_all()? | mem::take(&mut self.woken_early) {
            self.listen();
        }
        self.settle();
        for socket in mem::take(&mut self.starved) {
            self.queue_receive(socket, true);
        }
        Ok(())
    }

    /// The next thing that has happened.
    pub fn event(&mut self) -> Option<Event> {
        loop {
            let (number, event) = self.events.pop_front()?;
            let of_closed =
                number.and_then(|number| self.table.at(number)).is_some_and(|socket| socket.closed);
            if !of_closed {
                return Some(event);
            }
        }
    }

    /// Fetches what there is, those completions too that the kernel had no room for: until all are seen, a
    /// send that failed looks like one that was taken. Returns whether the waker was used.
    fn fetch_all(&mut self) -> io::Result<bool> {
        let mut woken = self.fetch();
        while self.uring.has_overflown() {
            self.uring.enter(Some(Duration::ZERO))?;
            woken |= self.fetch();
        }
        self.unseen = false;
        Ok(woken)
    }

    /// Turns completions into events. Returns whether the waker was used.
    fn fetch(&mut self) -> bool {
        let mut woken = false;
        while let Some(done) = { self.uring.0.completion().next() } {
            let (number, result) = (Kind::number(done.user_data()), done.result());
            match Kind::of(done.user_data()) {
                Kind::Receive => self.received(number, result, done.flags()),
                Kind::Patient => self.sent(number, result),
                Kind::AtOnce => self.not_taken(number, Kind::generation(done.user_data()), result),
                Kind::Wake => {
                    self.waker.reset();
                    self.waker_armed = false;
                    self.events.push_back((None, Event::Woken));
                    woken = true;
                }
            }
        }
        woken
    }

    fn received(&mut self, number: u32, result: i32, flags: u32) {
        // Taken even when nobody wants it any more: it goes back when dropped.
        let length = usize::try_from(result).unwrap_or(0);
        let chunk = cqueue::buffer_select(flags).and_then(|chunk| self.chunks.take(chunk, length));
        let Some(socket) = self.table.at_mut(number) else { return };
        if result == -Errno::NOBUFS.raw_os_error() && !socket.closed {
            self.starved.push(number);
            return;
        }
        socket.receiving = cqueue::more(flags);
        if socket.closed {
            if !socket.receiving {
                self.leaving.push(number);
            }
            return;
        }
        let incoming = match (result, chunk) {
            (1.., Some(chunk)) => Incoming::Bytes { chunk, more: cqueue::sock_nonempty(flags) },
            (0, _) => Incoming::End,
            (..0, _) => Incoming::Broken(Errno::from_raw_os_error(-result)),
            // A chunk that cannot be.
            (1.., None) => Incoming::Broken(Errno::IO),
        };
        // The kernel ends a long row of receives now and then.
        let again = socket.all && !socket.receiving && matches!(incoming, Incoming::Bytes { .. });
        self.events.push_back((Some(number), Event::Received { owner: socket.owner, incoming }));
        if again {
            self.receive(Token(number), true);
        }
    }

    fn queue_receive(&mut self, number: u32, soon: bool) {
        let Some(socket) = self.table.at(number) else { return };
        if socket.all {
            let request = opcode::RecvMulti::new(Fd(socket.fd.as_raw_fd()), GROUP).build();
            return self.queue(&request.user_data(Kind::Receive.tag(number)));
        }
        let request =
            opcode::Recv::new(Fd(socket.fd.as_raw_fd()), std::ptr::null_mut(), self.chunks.size() as u32)
                .buf_group(GROUP)
                .ioprio(if soon { 0 } else { POLL_FIRST })
                .build()
                .flags(Flags::BUFFER_SELECT)
                .user_data(Kind::Receive.tag(number));
        self.queue(&request);
    }

    fn listen(&mut self) {
        let count: *mut u64 = &raw mut *self.count;
        let request = opcode::Read::new(Fd(self.waker.descriptor()), count.cast(), size_of::<u64>() as u32)
            .build()
            .user_data(Kind::Wake.tag(0));
        self.waker_armed = true;
        self.queue(&request);
    }

    /// Queues a request. What it points to belongs to the ring until its completion has been fetched.
    fn queue(&mut self, request: &Entry) {
        // SAFETY: sockets stay in the table until their requests have completed; sends point into memory that
        // the socket's `sending` holds until then, receives into chunks, the waker's read into `count`; a
        // ring that is dropped waits for its requests, and leaks their memory if they do not end.
        while unsafe { self.uring.0.submission().push(request) }.is_err() {
            // Full: hand over what is there. Should the kernel want its completions fetched first, that is
            // done too.
            self.unseen = true;
            if self.uring.0.submit().is_err() {
                self.woken_early |= self.fetch();
            }
        }
        self.queued = self.queued.wrapping_add(1);
    }

    /// Whether the kernel holds nothing of ours.
    fn is_idle(&self) -> bool {
        self.table.is_idle() && !self.waker_armed
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        self.table.close_all(&mem::take(&mut self.starved));
        for _ in 0..LAST_STEPS {
            self.waker.wake();
            let _ = self.uring.enter(Some(LAST_STEP));
            if self.fetch_all().is_err() {
                break;
            }
            self.settle();
            if self.is_idle() {
                return;
            }
        }
        // The kernel may still write there. What it reads or writes is leaked; descriptors it holds for
        // itself.
        self.chunks.leak();
        self.table.leak();
        mem::forget(mem::take(&mut self.count));
    }
}
