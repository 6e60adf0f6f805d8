//! Sockets on epoll: two system calls a statement, and one for each wait.

use super::timestamp::TimestampedReceiver;
use super::{Bytes, SocketEvent};
use crate::driver::epoll::{Epoll, Readiness};
use crate::error::LoadError;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, sockopt};
use std::mem;
use std::os::fd::OwnedFd;
use std::time::Duration;

/// Read from a socket at once, at most.
const BUFFER: usize = 64 * 1024;

/// Sockets by number, and what the last wait has brought.
#[derive(Debug)]
pub(in super::super) struct EpollSockets {
    epoll: Epoll,
    sockets: Vec<Option<Socket>>,
    /// Sockets that the last wait has brought, and how many of them were looked at.
    count: usize,
    looked_at: usize,
    /// What of the last one that was looked at is still to be handed out.
    left: Option<Readiness>,
    buffer: Vec<u8>,
    /// Where it is to be known how long bytes had been there.
    timestamps: Option<TimestampedReceiver>,
    saturated: u64,
}

#[derive(Debug)]
struct Socket {
    fd: OwnedFd,
    /// On its way to the server.
    connecting: bool,
    /// Registered for room to write.
    writes: bool,
}

impl EpollSockets {
    /// `timestamps`: it is known how long bytes had been there before they were read.
    pub(super) fn new(timestamps: bool) -> Result<Self, LoadError> {
        Ok(Self {
            epoll: Epoll::new()?,
            sockets: Vec::new(),
            count: 0,
            looked_at: 0,
            left: None,
            buffer: vec![0; BUFFER],
            timestamps: timestamps.then(TimestampedReceiver::new),
            saturated: 0,
        })
    }

    pub(super) fn add(&mut self, number: usize, fd: OwnedFd) -> rustix::io::Result<()> {
        self.epoll.watch(&fd, number as u64, true)?;
        if self.timestamps.is_some() {
            TimestampedReceiver::begin(&fd);
        }
        if self.sockets.len() <= number {
            self.sockets.resize_with(number + 1, || None);
        }
        self.sockets[number] = Some(Socket { fd, connecting: true, writes: true });
        Ok(())
    }

    #[inline]
    pub(super) fn send(&mut self, number: usize, bytes: &[u8]) -> rustix::io::Result<usize> {
        let socket = self.sockets.get_mut(number).and_then(Option::as_mut).ok_or(Errno::NOTCONN)?;
        let mut sent = 0;
        while sent < bytes.len() {
            match rustix::net::send(&socket.fd, &bytes[sent..], SendFlags::NOSIGNAL) {
                Ok(count) => sent += count,
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        let full = sent < bytes.len();
        self.saturated += u64::from(full);
        socket.write(&self.epoll, number, full)?;
        Ok(sent)
    }

    pub(super) fn close(&mut self, number: usize) {
        if let Some(socket) = self.sockets.get_mut(number) {
            *socket = None;
        }
    }

    pub(super) fn wait(&mut self, longest: Duration) -> Result<bool, LoadError> {
        self.count = self.epoll.wait(longest)?;
        self.looked_at = 0;
        Ok(self.count > 0)
    }

    #[inline]
    pub(super) fn event(&mut self) -> Option<SocketEvent> {
        loop {
            let mut ready = self.left.take().or_else(|| self.look())?;
            let number = ready.token as usize;
            let Some(socket) = self.sockets.get_mut(number).and_then(Option::as_mut) else { continue };
            if mem::take(&mut ready.writable) && socket.writes {
                if !mem::take(&mut socket.connecting) {
                    self.left = Some(ready);
                    return Some(SocketEvent::Room(number));
                }
                let connected = sockopt::socket_error(&socket.fd).and_then(|outcome| outcome);
                if let Err(error) = connected.and_then(|()| socket.write(&self.epoll, number, false)) {
                    return Some(SocketEvent::Over(number, Some(error)));
                }
            }
            if !ready.readable || socket.connecting {
                continue;
            }
            let received = match &mut self.timestamps {
                Some(receiver) => receiver.receive(&socket.fd, &mut self.buffer),
                // Goes to the socket directly, where `read` asks the file system layer first.
                None => rustix::net::recv(&socket.fd, &mut *self.buffer, RecvFlags::empty())
                    .map(|(count, _)| (count, None)),
            };
            match received {
                Ok((0, _)) => return Some(SocketEvent::Over(number, None)),
                Ok((count, waited_ns)) => {
                    // A short read has emptied the socket: the next bytes are a new event.
                    self.left = (count == self.buffer.len()).then_some(ready);
                    let bytes = Bytes::Buffer(mem::take(&mut self.buffer), count);
                    return Some(SocketEvent::Bytes { number, bytes, waited_ns });
                }
                Err(Errno::AGAIN) => {}
                Err(Errno::INTR) => self.left = Some(ready),
                Err(error) => return Some(SocketEvent::Over(number, Some(error))),
            }
        }
    }

    fn look(&mut self) -> Option<Readiness> {
        let number = self.looked_at;
        (number < self.count).then(|| {
            self.looked_at += 1;
            self.epoll.ready(number)
        })
    }

    #[inline]
    pub(super) fn give_back(&mut self, buffer: Vec<u8>) {
        self.buffer = buffer;
    }

    pub(super) fn saturated(&mut self) -> u64 {
        mem::take(&mut self.saturated)
    }
}

impl Socket {
    /// Is to be told of room to write, or no longer.
    #[inline]
    fn write(&mut self, epoll: &Epoll, number: usize, wants: bool) -> rustix::io::Result<()> {
        if self.writes != wants {
            epoll.rewatch(&self.fd, number as u64, wants)?;
            self.writes = wants;
        }
        Ok(())
    }
}
