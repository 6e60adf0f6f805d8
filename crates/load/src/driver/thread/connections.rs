//! The connections of a thread: made a few at a time, lost, made again, cut at the end of a phase.

use super::{TICK, Thread};
use crate::driver::CONNECT;
use crate::driver::connection::{Got, Trouble};
use crate::driver::sockets::Event;
use crate::error::LoadError;
use crate::tally::Failure;
use std::time::Duration;

/// Connections of a thread that may be in the making at the same time: more would overflow the server's backlog.
const CONNECTS_AT_ONCE: usize = 16;
/// A lost connection is tried again after this.
const RETRY: u64 = 100_000_000;
/// After a phase, lost connections are made again for at most this long.
const RECONNECT: u64 = 2_000_000_000;

impl Thread<'_> {
    /// Opens everything once; the first refusal ends it.
    pub(super) fn connect_all(&mut self) -> Result<(), LoadError> {
        let deadline = self.shared.now() + CONNECT.as_nanos() as u64;
        while self.connections.iter().any(|connection| !connection.is_ready()) {
            let now = self.shared.now();
            if now > deadline {
                let ready = self.connections.iter().filter(|connection| connection.is_ready()).count();
                let clients = self.connections.len();
                return Err(LoadError::NotReady { ready, clients, seconds: CONNECT.as_secs() });
            }
            self.open_some(now);
            self.wait(now + TICK, now)?;
            if let Some(trouble) = self.last_trouble.take() {
                return Err(trouble);
            }
        }
        Ok(())
    }

    /// Makes again what the phase has cut or lost, as far as the server lets us in that time: the next phase is to begin
    /// with all its clients.
    pub(super) fn reconnect(&mut self) {
        let deadline = self.shared.now() + RECONNECT;
        loop {
            let now = self.shared.now();
            self.open_some(now);
            if now > deadline || (self.down.is_empty() && self.opening == 0) {
                return;
            }
            if self.wait(now + TICK / 10, now).is_err() {
                return;
            }
        }
    }

    pub(super) fn open_some(&mut self, now: u64) {
        while self.opening < CONNECTS_AT_ONCE {
            match self.down.front() {
                Some((from, _)) if *from <= now => {}
                _ => return,
            }
            let Some((_, token)) = self.down.pop_front() else { return };
            self.opening += 1;
            if let Err(trouble) = self.connections[token].open(&mut self.sockets, self.shared) {
                self.opening -= 1;
                self.lost(token, trouble, now);
            }
        }
    }

    /// Waits until a moment, and takes what happened; returns whether that was anything, or anything was sent.
    pub(super) fn wait(&mut self, until: u64, now: u64) -> Result<bool, LoadError> {
        let longest = if self.shared.busy { 0 } else { until.saturating_sub(now) };
        let work = self.sockets.wait(Duration::from_nanos(longest))?;
        while let Some(event) = self.sockets.event() {
            self.take(event);
        }
        Ok(work)
    }

    #[inline]
    fn take(&mut self, event: Event) {
        let mut read_late = None;
        let (token, got) = match event {
            Event::Bytes { number, bytes, waited } => {
                let got = self.connections[number].take(&mut self.sockets, self.shared, &bytes);
                self.sockets.give_back(bytes);
                read_late = waited;
                (number, got)
            }
            Event::Room(token) => (token, self.connections[token].flush(&mut self.sockets).map(|()| None)),
            Event::Over(token, error) => (token, Err(error.map_or(Trouble::Closed, Trouble::Io))),
        };
        match got {
            Ok(None) => {}
            Ok(Some(Got::Reply(reply))) => self.replied(token, reply, read_late, self.shared.now()),
            Ok(Some(Got::Ready)) => {
                self.opening -= 1;
                let place = token / self.shared.lanes.len();
                self.next(place, self.shared.now());
            }
            Err(trouble) => self.lost(token, trouble, self.shared.now()),
        }
    }

    /// A connection broke: its transaction has failed, and it is made again after a while.
    pub(super) fn lost(&mut self, token: usize, trouble: Trouble, now: u64) {
        let connection = &mut self.connections[token];
        if connection.is_down() && !matches!(trouble, Trouble::Io(_)) {
            return;
        }
        if connection.is_connecting() {
            self.opening -= 1;
        }
        let error = trouble.into_error(&connection.peer);
        tracing::debug!(%error, "a connection was lost");
        self.last_trouble = Some(error);
        connection.close(&mut self.sockets);
        self.tally.reconnects += 1;
        self.down.push_back((now + RETRY, token));
        let place = token / self.shared.lanes.len();
        if let Some(task) = self.clients[place].task {
            self.tally.statements[task.statement].fail(Failure::ConnectionLost);
            self.finish(place, now, Some(Failure::ConnectionLost));
        }
    }

    pub(super) fn cut(&mut self, place: usize) {
        let lanes = self.shared.lanes.len();
        for token in place * lanes..(place + 1) * lanes {
            if self.connections[token].is_busy() {
                self.connections[token].close(&mut self.sockets);
                self.down.push_back((0, token));
            }
        }
    }

    pub(super) fn quit(&mut self) {
        for connection in &mut self.connections {
            connection.quit(&mut self.sockets);
        }
    }
}
