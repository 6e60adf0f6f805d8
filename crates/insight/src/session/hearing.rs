//! A session while bytes are read: what the tracker tells becomes flights, and flights become figures.

use super::flight::{Coming, Flight, text};
use super::life::Life;
use crate::figures::Done;
use crate::ledger::{Ledger, Tag, Text, Told};
use sql::Dialect;
use sql::fold::Map;
use std::time::Instant;
use wire::{Command, Finish, Observer, Start, attributes};

/// Prepared statements of one session that are known by their text.
const PREPARED: usize = 1024;

/// A session while bytes are read.
pub(super) struct Hearing<'a> {
    pub(super) ledger: &'a mut Ledger,
    pub(super) life: &'a mut Life,
    pub(super) now: Instant,
    pub(super) dialect: Dialect,
    pub(super) in_transaction: bool,
}

impl Hearing<'_> {
    fn flight(&mut self, start: &Start<'_>) -> Flight {
        Flight {
            command: start.command,
            started: self.life.begun.take().unwrap_or(self.now),
            first_byte: None,
            told: Told::default(),
            prepares: Told::default(),
            bytes: start.bytes,
            in_transaction: self.in_transaction,
        }
    }

    /// A statement's text is there.
    fn read(&mut self, mut flight: Flight, text: &Text<'_>) {
        self.ledger.counts.long += u64::from(!text.tail.is_empty());
        let prepares = flight.command == Command::StmtPrepare;
        let told = self.ledger.statement(text, self.dialect, prepares);
        if prepares {
            flight.prepares = told;
            self.life.last_prepared = told;
            flight.told = Told { digest: self.ledger.command(flight.command), tag: told.tag };
        } else {
            flight.told = told;
        }
        self.life.settle(self.ledger, flight);
    }

    fn execute(&mut self, mut flight: Flight, start: &Start<'_>) {
        let id = start.body.first_chunk::<4>().map_or(0, |id| u32::from_le_bytes(*id));
        let known = if id == u32::MAX { Some(&self.life.last_prepared) } else { self.life.prepared.get(&id) };
        flight.told = known.copied().unwrap_or_default();
        if known.is_none() {
            self.ledger.counts.unknown_prepared += 1;
        }
        if start.attributes
            && start.command == Command::StmtExecute
            && let Some(attributes) = attributes::of_execute(start.body)
        {
            let tag = self.ledger.attributes(attributes);
            let of_text = flight.told.tag;
            flight.told.tag =
                Tag { endpoint: tag.endpoint.or(of_text.endpoint), request: tag.request.or(of_text.request) };
        }
        self.life.settle(self.ledger, flight);
    }
}

impl Observer for Hearing<'_> {
    fn begins(&mut self) {
        self.life.begun.get_or_insert(self.now);
    }

    fn started(&mut self, start: Start<'_>) {
        let mut flight = self.flight(&start);
        match start.command {
            Command::Query | Command::StmtPrepare => {
                let attributes = start.attributes && start.command == Command::Query;
                if start.whole {
                    self.read(flight, &text(start.body, attributes));
                } else {
                    let mut kept = self.ledger.buffer();
                    kept.extend_from_slice(start.body);
                    self.life.coming = Some(Coming { kept, attributes });
                    self.life.flight.push_back(flight);
                }
            }
            Command::StmtExecute | Command::StmtBulkExecute => self.execute(flight, &start),
            command => {
                flight.told.digest = self.ledger.command(command);
                self.life.settle(self.ledger, flight);
            }
        }
    }

    fn more(&mut self, body: &[u8]) {
        if let Some(coming) = &mut self.life.coming {
            coming.add(body);
        }
    }

    fn whole(&mut self) {
        let Some(coming) = self.life.coming.take() else { return };
        let Some(flight) = self.life.flight.pop_back() else { return };
        self.read(flight, &coming.text());
        self.ledger.give(coming.kept);
    }

    fn closed(&mut self, statement: u32) {
        self.life.prepared.remove(&statement);
    }

    fn answering(&mut self) {
        if let Some(flight) = self.life.flight.front_mut() {
            flight.first_byte = Some(self.now);
        }
    }

    fn finished(&mut self, finish: Finish) {
        let Some(flight) = self.life.flight.pop_front() else { return };
        if let Some((earlier, done)) = self.life.answered.take() {
            self.life.count(self.ledger, &earlier, &done);
        }
        if let Some(id) = finish.prepared
            && self.life.prepared.len() < PREPARED
        {
            self.life.prepared.insert(id, flight.prepares);
        }
        if finish.error.is_none() && matches!(flight.command, Command::ResetConnection | Command::ChangeUser)
        {
            self.life.prepared = Map::default();
            self.life.identified = false;
        }
        let since = |at: Instant| at.saturating_duration_since(flight.started);
        let done = Done {
            time: since(self.now),
            first_byte: since(flight.first_byte.unwrap_or(self.now)),
            bytes_to_server: flight.bytes,
            finish,
        };
        self.life.answered = Some((flight, done));
    }
}
