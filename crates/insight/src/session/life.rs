//! What is known of a session: its commands under way, its prepared statements, whose its transaction is.

use super::flight::{Coming, Flight};
use crate::figures::Done;
use crate::ledger::{Cell, Ledger, Place, Sent, Tag, Told, named};
use sql::fold::Map;
use std::collections::VecDeque;
use std::time::Instant;
use wire::tracker::OpaqueBecause;
use wire::{Phase, Progress};

/// What is known of a session.
#[derive(Debug)]
pub(super) struct Life {
    pub(super) place: Place,
    pub(super) listener: Box<str>,
    /// The user is known, and the endpoint of what has no tag with it.
    pub(super) identified: bool,
    pub(super) untagged: u32,
    /// Commands not answered yet, oldest first; the tracker bounds them.
    pub(super) flight: VecDeque<Flight>,
    pub(super) prepared: Map<u32, Told>,
    /// The statement whose preparation was asked for last (MariaDB lets it be executed before it has an id).
    pub(super) last_prepared: Told,
    /// The statement that is coming in pieces.
    pub(super) coming: Option<Coming>,
    /// When the first bytes of a packet came that were too few to tell what it is.
    pub(super) begun: Option<Instant>,
    /// The tag of the transaction under way.
    pub(super) transaction: Tag,
    /// The command that was answered last, not counted yet.
    pub(super) answered: Option<(Flight, Done)>,
    /// The one that opened a transaction, waiting for the next command's tag.
    pub(super) opened: Option<(Flight, Done)>,
    pub(super) ended: bool,
    /// The ledger's era that `place` and `untagged` are of.
    pub(super) era: u64,
    /// What it has sent, where it stands for others.
    sent: Sent,
    /// Commands of which the start and the end was heard, or noticed later.
    pub(super) progress: Progress,
}

impl Life {
    /// Of a session that begins.
    pub(super) fn new(place: Place, listener: &str, era: u64) -> Self {
        Self {
            place,
            listener: listener.into(),
            identified: false,
            untagged: 0,
            flight: VecDeque::new(),
            prepared: Map::default(),
            last_prepared: Told::default(),
            coming: None,
            begun: None,
            transaction: Tag::default(),
            answered: None,
            opened: None,
            ended: false,
            era,
            sent: Sent::default(),
            progress: Progress::default(),
        }
    }

    pub(super) fn identify(&mut self, ledger: &mut Ledger, user: Option<&str>) {
        self.identified = true;
        let names = ledger.names();
        self.place.user = named(&names.users, user.unwrap_or("(no name)"));
        self.untagged = match user {
            Some(user) => named(&names.endpoints, &format!("(user {user})")),
            None => named(&names.endpoints, &format!("({})", self.listener)),
        };
    }

    /// The tracker has been shown bytes elsewhere (a change of user that was carried through as a login): commands that
    /// were answered meanwhile are let go, uncounted.
    pub(super) fn catch_up(&mut self, progress: Progress) {
        if progress == self.progress {
            return;
        }
        let outstanding = (progress.started - progress.completed) as usize;
        while self.flight.len() > outstanding {
            self.flight.pop_front();
        }
        self.prepared = Map::default();
        self.identified = false;
        self.progress = progress;
    }

    /// The statement of a command is known: it gets the tag it goes by, and so does what waited for it.
    pub(super) fn settle(&mut self, ledger: &mut Ledger, mut flight: Flight) {
        let tag = &mut flight.told.tag;
        if tag.endpoint.is_none() && flight.in_transaction {
            *tag = Tag { request: tag.request.or(self.transaction.request), ..self.transaction };
        } else if flight.in_transaction {
            self.transaction = *tag;
        }
        if let Some((mut opened, done)) = self.opened.take() {
            opened.told.tag = *tag;
            self.count(ledger, &opened, &done);
        }
        self.flight.push_back(flight);
    }

    /// Answers have been read: counts what can be, and follows the transaction.
    pub(super) fn after_answers(&mut self, ledger: &mut Ledger, in_transaction: bool) {
        let Some((flight, done)) = self.answered.take() else { return };
        let tagged = flight.told.tag.endpoint.is_some();
        if !in_transaction {
            self.transaction = Tag::default();
        } else if tagged && self.flight.is_empty() {
            self.transaction = flight.told.tag;
        }
        if in_transaction && !flight.in_transaction && !tagged && self.flight.is_empty() {
            self.opened = Some((flight, done));
        } else {
            self.count(ledger, &flight, &done);
        }
    }

    pub(super) fn count(&mut self, ledger: &mut Ledger, flight: &Flight, done: &Done) {
        let endpoint = flight.told.tag.endpoint.unwrap_or(self.untagged);
        ledger.record(Cell::new(flight.told.digest, endpoint, self.place), done);
        if self.place.one_in > 1 {
            ledger.sample(self.place, &mut self.sent);
        }
        if let Some(id) = flight.told.tag.request {
            ledger.request(id, endpoint, flight.started, done.time);
        }
    }

    /// A session that cannot be read on is counted once.
    pub(super) fn notice_end(&mut self, ledger: &mut Ledger, phase: Phase) {
        let counts = &mut ledger.counts;
        match phase {
            Phase::Opaque(OpaqueBecause::Tls) => counts.opaque_tls += 1,
            Phase::Opaque(OpaqueBecause::Compression) => counts.opaque_compression += 1,
            Phase::Opaque(OpaqueBecause::OldProtocol) => counts.opaque_old += 1,
            Phase::Lost(_) => self.lost(ledger),
            _ => return,
        }
        self.ended = true;
    }

    pub(super) fn lost(&mut self, ledger: &mut Ledger) {
        ledger.counts.lost += 1;
        ledger.counts.unanswered += self.flight.len() as u64;
        self.flight.clear();
        self.ended = true;
    }
}
