//! Sending: handed to the kernel with the next call, taken all at once as a rule, else kept and sent as the
//! peer makes room.

use super::Ring;
use crate::chunk::Chunk;
use crate::event::{Event, GENERATIONS, Kind, Token};
use crate::table::{Outgoing, Sending};
use io_uring::opcode;
use io_uring::squeue::Flags;
use io_uring::types::Fd;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use std::mem;
use std::os::fd::AsRawFd;

/// All or a failure that says how much (`MSG_WAITALL`).
const WAITALL: i32 = RecvFlags::WAITALL.bits() as i32;

impl Ring {
    /// Sends a chunk. Only when [`Ring::is_sending`] says no: else the session would be sent out of order, so
    /// the chunk is dropped and the socket reported as broken.
    pub fn send(&mut self, token: Token, chunk: Chunk) {
        if let Some(token) = self.may_send(token) {
            self.send_at_once(token, Outgoing::Chunk(chunk));
        }
    }

    /// Sends a copy of these bytes, in memory that the socket keeps for that. Else as [`Ring::send`].
    pub fn send_bytes(&mut self, token: Token, bytes: &[u8]) {
        let Some(token) = self.may_send(token) else { return };
        let Some(socket) = self.table.at_mut(token.0) else { return };
        let mut copy = mem::take(&mut socket.spare);
        copy.extend_from_slice(bytes);
        self.send_at_once(token, Outgoing::Bytes(copy));
    }

    /// Sends bytes for as long as the peer takes; [`Event::Sent`] ends it. Only when [`Ring::is_sending`]
    /// says no.
    pub fn send_patiently(&mut self, token: Token, bytes: Vec<u8>) {
        let Some(token) = self.may_send(token) else { return };
        let Some(socket) = self.table.at_mut(token.0) else { return };
        let flags = SendFlags::NOSIGNAL.bits() as i32 | WAITALL;
        let request = opcode::Send::new(Fd(socket.fd.as_raw_fd()), bytes.as_ptr(), bytes.len() as u32)
            .flags(flags)
            .build()
            .user_data(Kind::Patient.tag(token.0));
        socket.sending = Sending::Patiently(bytes);
        self.queue(&request);
    }

    /// Whether the kernel has not yet taken, or not said that it took, what was last sent.
    pub fn is_sending(&self, token: Token) -> bool {
        self.table.at(token.0).is_some_and(|socket| !matches!(socket.sending, Sending::Nothing))
    }

    /// The end of what is being sent is to be reported, even if the kernel takes it at once.
    pub fn notify_when_sent(&mut self, token: Token) {
        let Some(socket) = self.table.at_mut(token.0) else { return };
        if matches!(socket.sending, Sending::AtOnce { .. }) && !mem::replace(&mut socket.notify, true) {
            self.awaited += 1;
        }
    }

    /// Sends one small packet now, if the kernel takes it and nothing else is being sent.
    pub fn send_now(&self, token: Token, packet: &[u8]) {
        if let Some(socket) = self.table.at(token.0)
            && matches!(socket.sending, Sending::Nothing)
        {
            // A peer that does not take it has left or does not read: nothing is owed to it.
            let _ = rustix::net::send(&socket.fd, packet, SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
        }
    }

    /// How often so far the kernel did not take all at once of what was sent.
    pub fn slow_sends(&self) -> u64 {
        self.slow_sends
    }

    /// The socket, if it is there and nothing is being sent on it.
    fn may_send(&mut self, token: Token) -> Option<Token> {
        let socket = self.table.at(token.0)?;
        if matches!(socket.sending, Sending::Nothing) {
            return Some(token);
        }
        self.events.push_back((Some(token.0), Event::Broken { owner: socket.owner }));
        None
    }

    fn send_at_once(&mut self, token: Token, bytes: Outgoing) {
        let Some(socket) = self.table.at_mut(token.0) else { return };
        self.sends = (self.sends + 1) % GENERATIONS;
        socket.sending = Sending::AtOnce { bytes, generation: self.sends, outcome: None };
        self.queue_send(token.0);
    }

    /// Queues what a socket has to send at once.
    fn queue_send(&mut self, number: u32) {
        let Some(socket) = self.table.at(number) else { return };
        let Sending::AtOnce { bytes, generation, .. } = &socket.sending else { return };
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        // All of it, or a failure with the count: only then the kernel reports it.
        let flags = flags.bits() as i32 | WAITALL;
        let request = opcode::Send::new(Fd(socket.fd.as_raw_fd()), bytes.as_ptr(), bytes.len() as u32)
            .flags(flags)
            .build()
            .flags(Flags::SKIP_SUCCESS)
            .user_data(Kind::AtOnce.tag_of(number, *generation));
        self.queue(&request);
        self.at_once.push_back((self.queued, number));
    }

    /// A patient send has ended.
    pub(super) fn sent(&mut self, number: u32, result: i32) {
        let Some(socket) = self.table.at_mut(number) else { return };
        let Sending::Patiently(bytes) = mem::replace(&mut socket.sending, Sending::Nothing) else { return };
        let (owner, taken) = (socket.owner, usize::try_from(result));
        if socket.closed {
            return self.leaving.push(number);
        }
        match taken {
            Ok(taken) if taken == bytes.len() => self.events.push_back((Some(number), Event::Sent { owner })),
            Ok(taken @ 1..) => self.send_patiently(Token(number), bytes[taken..].to_vec()),
            _ => self.events.push_back((Some(number), Event::Broken { owner })),
        }
    }

    /// A send was not taken at once, or not all of it.
    pub(super) fn not_taken(&mut self, number: u32, of: u32, result: i32) {
        if let Some(socket) = self.table.at_mut(number)
            && let Sending::AtOnce { generation, outcome, .. } = &mut socket.sending
            && *generation == of
        {
            *outcome = Some(result);
        }
    }

    /// Sends that the kernel has seen: those it did not complain of are done. Only when every completion has
    /// been fetched, those that found no room in the queue too: a complaint may be among them.
    pub(super) fn settle(&mut self) {
        let unseen = self.uring.0.submission().len() as u32;
        while let Some((request, number)) = self.at_once.front().copied() {
            if self.queued.wrapping_sub(request) < unseen {
                return;
            }
            self.at_once.pop_front();
            self.settle_one(number);
        }
    }

    fn settle_one(&mut self, number: u32) {
        let Some(socket) = self.table.at_mut(number) else { return };
        let Sending::AtOnce { bytes, outcome, .. } = mem::replace(&mut socket.sending, Sending::Nothing)
        else {
            return;
        };
        let taken = match outcome {
            None => bytes.len(),
            Some(taken @ 0..) => taken as usize,
            Some(error) if error == -Errno::AGAIN.raw_os_error() => 0,
            Some(_) => {
                if socket.closed {
                    self.leaving.push(number);
                } else {
                    self.events.push_back((Some(number), Event::Broken { owner: socket.owner }));
                }
                return;
            }
        };
        if socket.closed {
            return self.leaving.push(number);
        }
        let rest = bytes.get(taken..).map(<[u8]>::to_vec).unwrap_or_default();
        if let Outgoing::Bytes(mut bytes) = bytes {
            bytes.clear();
            socket.spare = bytes;
        }
        if mem::take(&mut socket.notify) {
            self.awaited -= 1;
            if rest.is_empty() {
                self.events.push_back((Some(number), Event::Sent { owner: socket.owner }));
            }
        }
        if !rest.is_empty() {
            self.slow_sends += 1;
            self.send_patiently(Token(number), rest);
        }
    }
}
