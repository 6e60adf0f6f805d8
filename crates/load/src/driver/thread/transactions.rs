//! The transactions of a thread: begun when they are due and a client is free, taken step by step, counted when they are
//! over.

use super::Thread;
use crate::arrivals::Arrivals;
use crate::driver::Phase;
use crate::driver::client::Task;
use crate::driver::connection::Connection;
use crate::reply::Reply;
use crate::tally::Failure;
use crate::workload::{ClientDraws, Step};
use std::cmp::Reverse;

/// How much later than intended the generator itself began transactions of late. A start that is late by 4 ms delays also
/// those that come with it in one burst, so that its lateness is an excuse for all that begin within the objective's
/// time after it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Excuse {
    longest: u64,
    until: u64,
}

impl Excuse {
    /// The excuse of a transaction that begins now, this late.
    fn of(&mut self, lateness: u64, now: u64, objective: Option<u64>) -> u64 {
        if lateness >= self.longest || now > self.until {
            *self = Self { longest: lateness, until: now + objective.unwrap_or_default() };
        }
        self.longest
    }
}

impl Thread<'_> {
    /// A client has nothing to do: it waits for its turn.
    pub(super) fn release(&mut self, place: usize, now: u64) {
        let client = &mut self.clients[place];
        client.free_since = now;
        if !std::mem::replace(&mut client.queued, true) {
            self.free.push_back(place);
        }
    }

    /// Whose turn it is, if anybody's.
    fn turn(&mut self) -> Option<usize> {
        while let Some(place) = self.free.pop_front() {
            self.clients[place].queued = false;
            if self.is_free(place) {
                return Some(place);
            }
        }
        None
    }

    /// In a closed loop, those whose turn it is begin to think. The moment of a phase's start is in the future, so that all
    /// begin together.
    pub(super) fn engage(&mut self, now: u64) {
        while self.schedule.is_none() && self.in_flight + self.thinking.len() < self.most {
            let Some(place) = self.turn() else { return };
            self.thinking.push(Reverse((now + self.think, place)));
        }
    }

    /// Begins what is due; returns when the next is, if there is a next and a client for it.
    pub(super) fn begin_due(&mut self, mut now: u64, phase: &Phase) -> Option<u64> {
        match &phase.arrivals {
            Arrivals::Closed { .. } => loop {
                let Reverse((at, place)) = *self.thinking.peek()?;
                if at >= phase.end || now >= phase.end {
                    return None;
                }
                if at > now {
                    return Some(at);
                }
                self.thinking.pop();
                if self.is_free(place) {
                    self.begin(place, at, now, None);
                } else {
                    self.engage(now);
                }
            },
            Arrivals::Open(_) => loop {
                let at = phase.start + self.schedule.as_ref()?.peek().at;
                if at >= phase.end {
                    return None;
                }
                if at > now {
                    return Some(at);
                }
                let free = if self.in_flight < self.most { self.turn() } else { None };
                // Due, and nobody free: the end of a transaction or of the phase comes next.
                let Some(place) = free else { return Some(u64::MAX) };
                let arrival = self.schedule.as_mut()?.take();
                self.begin(place, at, now, Some(arrival.number));
                // The next of a burst begins later by what it took to send this one.
                now = self.shared.now();
            },
        }
    }

    pub(super) fn begin(&mut self, place: usize, due: u64, now: u64, arrival: Option<u64>) {
        let Some(phase) = &self.phase else { return };
        let client = &mut self.clients[place];
        self.tally.arrivals += 1;
        let (mut lateness, mut excuse) = (0, 0);
        if let Some(number) = arrival {
            client.reseed(phase.seed, number);
            lateness = now.saturating_sub(due.max(client.free_since).max(self.room_since));
            self.tally.lateness.saturating_record(lateness);
            excuse = self.excuse.of(lateness, now, phase.objective);
        }
        let transaction = self.shared.workload.choose(&mut client.rng);
        // In a closed loop nobody waits, so that the intended start is the actual one.
        let due = if arrival.is_some() { due } else { now };
        client.task = Some(Task {
            transaction,
            step: 0,
            due,
            began: now,
            statement: 0,
            sent: now,
            excuse,
            own: Some(lateness),
            failed: false,
        });
        self.in_flight += 1;
        self.advance(place, now);
    }

    /// Takes steps until a statement is out or the transaction is over.
    pub(super) fn advance(&mut self, place: usize, now: u64) {
        let shared = self.shared;
        let client = &mut self.clients[place];
        let Some(task) = &mut client.task else { return };
        let mut draws = ClientDraws {
            rng: &mut client.rng,
            slots: &mut client.slots,
            client: (client.number, shared.connections),
            last_insert_id: client.last_insert_id,
            scratch: &mut self.scratch,
        };
        for step in &shared.workload.transactions[task.transaction].steps[task.step..] {
            task.step += 1;
            match step {
                Step::Draw { slot, draw } => draws.slots[*slot] = draw.number(&mut draws),
                Step::Send { statement, variant } => {
                    let variant = variant.map_or(0, |slot| (draws.slots[slot] - 1).max(0) as usize);
                    task.statement = *statement;
                    task.sent = now;
                    let lane = shared.workload.statements[*statement].lane;
                    let lane = shared.lanes.iter().position(|(other, _)| *other == lane).unwrap_or(0);
                    let token = place * shared.lanes.len() + lane;
                    let sent = self.connections[token].send(
                        &mut self.sockets,
                        shared,
                        *statement,
                        variant,
                        &mut draws,
                    );
                    if let Err(trouble) = sent {
                        self.lost(token, trouble, now);
                    }
                    return;
                }
            }
        }
        self.finish(place, now, None);
    }

    /// Takes the answer to a client's statement, and by how much it was read late, where that is known.
    pub(super) fn replied(&mut self, token: usize, reply: Reply, read_late: Option<u64>, now: u64) {
        let place = token / self.shared.lanes.len();
        let client = &mut self.clients[place];
        let Some(task) = &mut client.task else { return };
        // The stamp is of the wall clock: where that was set forward in between, an answer seems to have been there before
        // it was asked for.
        let since_sent = now.saturating_sub(task.sent);
        task.own = task.own.zip(read_late).map(|(own, late)| own + late.min(since_sent));
        if task.failed {
            return self.finish(place, now, None);
        }
        let measured = self.phase.as_ref().is_some_and(|phase| now <= phase.grace);
        let count = &mut self.tally.statements[task.statement];
        if measured {
            self.tally.queries += 1;
            self.second.queries += 1;
            count.rows += reply.rows;
        }
        if let Some(code) = reply.error {
            let failure = Failure::Code(code);
            count.fail(failure);
            self.tally.transactions[task.transaction].fail(failure);
            self.second.failed += 1;
            task.failed = true;
            if self.connections[token].in_transaction {
                if let Err(trouble) = self.connections[token].send_text(&mut self.sockets, "ROLLBACK") {
                    self.lost(token, trouble, now);
                }
                return;
            }
            return self.finish(place, now, None);
        }
        count.response.saturating_record(now.saturating_sub(task.sent));
        if reply.last_insert_id > 0 {
            client.last_insert_id = reply.last_insert_id;
        }
        self.advance(place, now);
    }

    /// Counts a transaction that is over, and gives its client something new to do.
    pub(super) fn finish(&mut self, place: usize, now: u64, failure: Option<Failure>) {
        let Some(task) = self.clients[place].task.take() else { return };
        let Some(phase) = &self.phase else { return };
        if self.in_flight == self.most {
            self.room_since = now;
        }
        self.in_flight -= 1;
        let count = &mut self.tally.transactions[task.transaction];
        if let Some(failure) = failure {
            if !task.failed {
                count.fail(failure);
                self.second.failed += 1;
            }
        } else if !task.failed {
            let open = phase.arrivals.is_open();
            // A closed loop counts what ends in time; an open one everything that was due in time.
            if open || now <= phase.end {
                let response = now.saturating_sub(task.due);
                count.response.saturating_record(response);
                self.second.response.saturating_record(response);
                if let Some(own) = task.own {
                    self.tally.own.saturating_record(own);
                }
                if phase.objective.is_some_and(|objective| response > objective) {
                    self.tally.late += 1;
                    self.second.late += 1;
                    let without = Some(response.saturating_sub(task.excuse));
                    self.tally.excused += u64::from(without <= phase.objective);
                }
                if open {
                    count.service.saturating_record(now.saturating_sub(task.began));
                }
            }
        }
        if failure == Some(Failure::ConnectionLost) {
            // Not begun from here: with a dead server that would go through all connections, each inside the other.
            return self.engage(now);
        }
        self.next(place, now);
    }

    /// What comes next, now that a client may have become free. A closed loop without think time goes on at once.
    pub(super) fn next(&mut self, place: usize, now: u64) {
        let Some(phase) = &self.phase else { return };
        let ends = phase.end;
        if self.is_free(place) {
            self.release(place, now);
        }
        if self.schedule.is_some() || self.think > 0 {
            return self.engage(now);
        }
        if now < ends
            && self.in_flight + self.thinking.len() < self.most
            && let Some(place) = self.turn()
        {
            self.begin(place, now, now, None);
        }
    }

    pub(super) fn is_free(&self, place: usize) -> bool {
        let lanes = self.shared.lanes.len();
        self.clients[place].task.is_none()
            && self.connections[place * lanes..(place + 1) * lanes].iter().all(Connection::is_ready)
    }
}
