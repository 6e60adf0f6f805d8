//! The ring's sockets: each stays until the kernel is done with it, whatever its owner does.

use crate::chunk::Chunk;
use std::ops::Deref;
use std::os::fd::OwnedFd;

/// A socket, and what the kernel does with it.
#[derive(Debug)]
pub(crate) struct Socket {
    pub(crate) fd: OwnedFd,
    pub(crate) owner: u32,
    /// A receive is under way.
    pub(crate) receiving: bool,
    /// It goes on until the socket is closed.
    pub(crate) all: bool,
    pub(crate) sending: Sending,
    /// The owner has closed it; nothing more is reported.
    pub(crate) closed: bool,
    /// The owner waits for the end of what is being sent.
    pub(crate) notify: bool,
    /// Empty memory for the next bytes to be sent.
    pub(crate) spare: Vec<u8>,
}

/// What is being sent on a socket.
#[derive(Debug)]
pub(crate) enum Sending {
    Nothing,
    /// Asked for, to be taken at once or not at all; settled by the next enter.
    AtOnce {
        bytes: Outgoing,
        /// Which of the ring's sends it is: a completion of another is none of its.
        generation: u32,
        /// When it is not all.
        outcome: Option<i32>,
    },
    /// Under way for as long as the peer takes.
    Patiently(Vec<u8>),
}

/// Whose memory is sent from.
#[derive(Debug)]
pub(crate) enum Outgoing {
    Chunk(Chunk),
    Bytes(Vec<u8>),
}

impl Deref for Outgoing {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Chunk(chunk) => chunk,
            Self::Bytes(bytes) => bytes,
        }
    }
}

impl Socket {
    /// Whether the kernel has let go of it and its memory.
    fn is_idle(&self) -> bool {
        !self.receiving && matches!(self.sending, Sending::Nothing)
    }
}

/// Sockets by number; numbers of released ones are given out again.
#[derive(Debug, Default)]
pub(crate) struct Table {
    sockets: Vec<Option<Socket>>,
    free: Vec<u32>,
}

impl Table {
    pub(crate) fn add(&mut self, fd: OwnedFd, owner: u32) -> u32 {
        let socket = Socket {
            fd,
            owner,
            receiving: false,
            all: false,
            sending: Sending::Nothing,
            closed: false,
            notify: false,
            spare: Vec::new(),
        };
        match self.free.pop() {
            Some(number) => {
                self.sockets[number as usize] = Some(socket);
                number
            }
            None => {
                self.sockets.push(Some(socket));
                (self.sockets.len() - 1) as u32
            }
        }
    }

    pub(crate) fn at(&self, number: u32) -> Option<&Socket> {
        self.sockets.get(number as usize)?.as_ref()
    }

    pub(crate) fn at_mut(&mut self, number: u32) -> Option<&mut Socket> {
        self.sockets.get_mut(number as usize)?.as_mut()
    }

    /// Closes the descriptor of a socket that its owner and the kernel have let go of.
    pub(crate) fn release(&mut self, number: u32) {
        if self.at(number).is_some_and(|socket| socket.closed && socket.is_idle()) {
            self.sockets[number as usize] = None;
            self.free.push(number);
        }
    }

    /// Closes every socket. The receives of `starved` are not with the kernel.
    pub(crate) fn close_all(&mut self, starved: &[u32]) {
        for number in starved {
            if let Some(socket) = self.at_mut(*number) {
                socket.receiving = false;
            }
        }
        for socket in self.sockets.iter_mut().flatten() {
            socket.closed = true;
            let _ = rustix::net::shutdown(&socket.fd, rustix::net::Shutdown::Both);
        }
    }

    /// Forgets every socket, closing descriptors and leaking the memory that is being sent from: the kernel
    /// may still read it.
    pub(crate) fn leak(&mut self) {
        for socket in self.sockets.drain(..).flatten() {
            std::mem::forget(socket.sending);
        }
        self.free.clear();
    }

    /// Whether the kernel has let go of every socket.
    pub(crate) fn is_idle(&self) -> bool {
        self.sockets.iter().flatten().all(Socket::is_idle)
    }

    /// Sockets that the kernel or an owner still has.
    pub(crate) fn len(&self) -> usize {
        self.sockets.len() - self.free.len()
    }
}
