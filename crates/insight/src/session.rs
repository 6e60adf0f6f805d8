//! Session: hears one session's tracker, times its commands and hands them to the thread's ledger.
//!
//! A command's time runs from the moment at which its first byte was read from the client to that at which the last byte of
//! its answer was read from the server. Commands sent ahead run each from their own first byte, so they overlap. The clock
//! is read once for each chunk of bytes.
//!
//! **Whose a command is.** A tag in its text or attributes says the endpoint; for a prepared statement the tags of its text.
//! In a transaction a statement without tags belongs to the endpoint of the tagged one before it, so that `COMMIT` counts
//! where its transaction does; the statement that opens a transaction waits for the next one and goes with that. What
//! is left belongs to its user, or, when that has no name, to its listener.

mod flight;
mod hearing;
mod life;

use crate::ledger::{Ledger, Place, named};
use hearing::Hearing;
use life::Life;
use sql::Dialect;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Instant;
use wire::{Observer, Phase, Status, Tracker};

/// One session's part in insight; nothing at all when its listener is not measured.
#[derive(Debug, Default)]
pub struct Session(Option<Box<Watch>>);

#[derive(Debug)]
struct Watch {
    ledger: Rc<RefCell<Ledger>>,
    life: Life,
}

impl Session {
    /// A session of a listener that is not measured.
    pub fn off() -> Self {
        Self(None)
    }

    /// A session that begins on this server. `listener` is what people call it, e.g. `reader 127.0.0.1:3306`.
    pub fn begin(ledger: Rc<RefCell<Ledger>>, server: &str, listener: &str) -> Self {
        Self::begin_one_in(1, ledger, server, listener)
    }

    /// The same, of a session that was picked as one in `one_in` and stands for as many.
    pub fn begin_one_in(one_in: u32, ledger: Rc<RefCell<Ledger>>, server: &str, listener: &str) -> Self {
        let place = {
            let mut ledger = ledger.borrow_mut();
            ledger.counts.sessions += 1;
            let names = ledger.names();
            Place {
                server: named(&names.servers, server),
                listener: named(&names.listeners, listener),
                user: 0,
                one_in,
            }
        };
        let life = Life::new(place, listener, ledger.borrow().era);
        Self(Some(Box::new(Watch { ledger, life })))
    }

    /// Shows the tracker bytes of the client.
    #[inline]
    pub fn client_bytes(&mut self, tracker: &mut Tracker, bytes: &[u8]) {
        self.client_bytes_heard(tracker, bytes, &mut ());
    }

    /// The same, and `also` hears what insight hears.
    #[inline]
    pub fn client_bytes_heard(&mut self, tracker: &mut Tracker, bytes: &[u8], also: &mut impl Observer) {
        match &mut self.0 {
            Some(watch) => watch.client_bytes(tracker, bytes, Instant::now(), also),
            _ => tracker.client_bytes_heard(bytes, also),
        }
    }

    /// Shows the tracker bytes that the client sent at `at`: of a session that is heard of later.
    pub fn client_bytes_at(&mut self, tracker: &mut Tracker, bytes: &[u8], at: Instant) {
        match &mut self.0 {
            Some(watch) => watch.client_bytes(tracker, bytes, at, &mut ()),
            _ => tracker.client_bytes(bytes),
        }
    }

    /// Shows the tracker bytes that the server sent and that came at `at`.
    pub fn server_bytes_at(&mut self, tracker: &mut Tracker, bytes: &[u8], at: Instant) {
        match &mut self.0 {
            Some(watch) => watch.server_bytes(tracker, bytes, at, &mut ()),
            _ => tracker.server_bytes(bytes),
        }
    }

    /// Bytes of it are missing from here on: it cannot be read on, and is counted so.
    pub fn lose(&mut self) {
        let Some(watch) = &mut self.0 else { return };
        if !watch.life.ended {
            watch.life.lost(&mut watch.ledger.borrow_mut());
        }
    }

    /// Shows the tracker bytes of the server.
    #[inline]
    pub fn server_bytes(&mut self, tracker: &mut Tracker, bytes: &[u8]) {
        self.server_bytes_heard(tracker, bytes, &mut ());
    }

    /// The same, and `also` hears what insight hears.
    #[inline]
    pub fn server_bytes_heard(&mut self, tracker: &mut Tracker, bytes: &[u8], also: &mut impl Observer) {
        match &mut self.0 {
            Some(watch) => watch.server_bytes(tracker, bytes, Instant::now(), also),
            _ => tracker.server_bytes_heard(bytes, also),
        }
    }
}

impl Watch {
    fn client_bytes(&mut self, tracker: &mut Tracker, bytes: &[u8], now: Instant, also: &mut impl Observer) {
        if self.life.ended {
            return tracker.client_bytes_heard(bytes, also);
        }
        self.life.catch_up(tracker.progress());
        let mut ledger = self.ledger.borrow_mut();
        if self.life.era != ledger.era {
            // The numbers that it knows itself by may have been given up.
            (self.life.era, self.life.identified) = (ledger.era, false);
        }
        if !self.life.identified && matches!(tracker.phase(), Phase::Idle | Phase::Busy) {
            self.life.identify(&mut ledger, tracker.user());
        }
        let status = tracker.status();
        let dialect = Dialect {
            mariadb: tracker.is_mariadb(),
            plain_backslash: status.contains(Status::NO_BACKSLASH_ESCAPES),
            ansi_quotes: tracker.is_mariadb() && status.contains(Status::ANSI_QUOTES),
        };
        let in_transaction = tracker.in_transaction();
        let mut hearing = Hearing { ledger: &mut ledger, life: &mut self.life, now, dialect, in_transaction };
        tracker.client_bytes_heard(bytes, &mut (&mut hearing, also));
        self.life.progress = tracker.progress();
        self.life.notice_end(&mut ledger, tracker.phase());
    }

    fn server_bytes(&mut self, tracker: &mut Tracker, bytes: &[u8], now: Instant, also: &mut impl Observer) {
        if self.life.ended {
            return tracker.server_bytes_heard(bytes, also);
        }
        self.life.catch_up(tracker.progress());
        let mut ledger = self.ledger.borrow_mut();
        let in_transaction = tracker.in_transaction();
        let dialect = Dialect::default();
        let mut hearing = Hearing { ledger: &mut ledger, life: &mut self.life, now, dialect, in_transaction };
        tracker.server_bytes_heard(bytes, &mut (&mut hearing, also));
        self.life.progress = tracker.progress();
        self.life.after_answers(&mut ledger, tracker.in_transaction());
        self.life.notice_end(&mut ledger, tracker.phase());
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut ledger = self.ledger.borrow_mut();
        for (flight, done) in [self.life.opened.take(), self.life.answered.take()].into_iter().flatten() {
            self.life.count(&mut ledger, &flight, &done);
        }
        ledger.counts.unanswered += self.life.flight.len() as u64;
        if let Some(coming) = self.life.coming.take() {
            ledger.give(coming.kept);
        }
    }
}

#[cfg(test)]
#[path = "session/tests.rs"]
mod tests;
