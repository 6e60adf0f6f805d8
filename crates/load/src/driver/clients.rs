//! The clients of a thread, and whose turn it is. There may be more of them than transactions at a time: then
//! most are idle, and they take turns.

use super::client::{Client, Task};
use super::connections::Connections;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// The clients of a thread, by number within the thread.
#[derive(Debug)]
pub(super) struct Clients {
    clients: Vec<Client>,
    turns: Vec<Turn>,
    /// Clients without a transaction that wait for something to do, longest first.
    queue: VecDeque<usize>,
    /// Clients that think, with the moment at which they go on.
    thinking: BinaryHeap<Reverse<(u64, usize)>>,
    in_flight: usize,
    /// Transactions at a time, at most.
    limit: usize,
    /// Since when there has been room for another transaction.
    room_since_ns: u64,
}

/// Where a client stands in the queue.
#[derive(Clone, Copy, Debug)]
struct Turn {
    free_since_ns: u64,
    queued: bool,
}

impl Clients {
    /// Clients with these numbers over all threads, at most `limit` of them with a transaction at a time.
    pub(super) fn new(numbers: impl Iterator<Item = u32>, limit: usize, slots: usize) -> Self {
        let clients: Vec<_> = numbers.map(|number| Client::new(number, slots)).collect();
        Self {
            turns: vec![Turn { free_since_ns: 0, queued: false }; clients.len()],
            clients,
            queue: VecDeque::new(),
            thinking: BinaryHeap::new(),
            in_flight: 0,
            limit,
            room_since_ns: 0,
        }
    }

    /// All begin anew; whoever can begin is in the queue.
    pub(super) fn begin_phase(&mut self, seed: u64, start_ns: u64, connections: &Connections) {
        self.thinking.clear();
        self.queue.clear();
        self.room_since_ns = start_ns;
        for number in 0..self.clients.len() {
            let client = &mut self.clients[number];
            client.reseed(seed, u64::from(client.number));
            self.turns[number] = Turn { free_since_ns: start_ns, queued: false };
            self.release(number, start_ns, connections);
        }
    }

    #[inline]
    pub(super) fn at(&mut self, number: usize) -> &mut Client {
        &mut self.clients[number]
    }

    pub(super) fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// A client that has nothing to do waits for its turn; one with a transaction, or with a connection that
    /// is not ready, does not.
    pub(super) fn release(&mut self, number: usize, now_ns: u64, connections: &Connections) {
        if !self.is_free(number, connections) {
            return;
        }
        let turn = &mut self.turns[number];
        turn.free_since_ns = now_ns;
        if !std::mem::replace(&mut turn.queued, true) {
            self.queue.push_back(number);
        }
    }

    /// Whose turn it is to begin a transaction, if anybody's.
    pub(super) fn take_turn(&mut self, connections: &Connections) -> Option<usize> {
        if self.in_flight + self.thinking.len() < self.limit { self.first_free(connections) } else { None }
    }

    /// In a closed loop, those whose turn it is begin to think, until `until_ns`.
    pub(super) fn think(&mut self, until_ns: u64, connections: &Connections) {
        while let Some(number) = self.take_turn(connections) {
            self.thinking.push(Reverse((until_ns, number)));
        }
    }

    /// When the next of those who think has thought.
    pub(super) fn thinks_until_ns(&self) -> Option<u64> {
        self.thinking.peek().map(|Reverse((until_ns, _))| *until_ns)
    }

    /// Takes the next of those who think; `None` inside if it cannot begin.
    pub(super) fn take_thinker(&mut self, connections: &Connections) -> Option<usize> {
        let Reverse((_, number)) = self.thinking.pop()?;
        Some(number).filter(|number| self.is_free(*number, connections))
    }

    /// Since when a client could have begun: it was free, and there was room for another transaction.
    pub(super) fn could_begin_since_ns(&self, number: usize) -> u64 {
        self.turns[number].free_since_ns.max(self.room_since_ns)
    }

    pub(super) fn begin(&mut self, number: usize, task: Task) {
        self.clients[number].task = Some(task);
        self.in_flight += 1;
    }

    /// Its transaction is over.
    pub(super) fn end(&mut self, number: usize, now_ns: u64) -> Option<Task> {
        let task = self.clients[number].task.take()?;
        if self.in_flight == self.limit {
            self.room_since_ns = now_ns;
        }
        self.in_flight -= 1;
        Some(task)
    }

    /// Gives up all transactions under way; returns them with their clients.
    pub(super) fn abandon(&mut self) -> Vec<(usize, Task)> {
        self.in_flight = 0;
        let tasks = self.clients.iter_mut().enumerate();
        tasks.filter_map(|(number, client)| Some((number, client.task.take()?))).collect()
    }

    fn is_free(&self, number: usize, connections: &Connections) -> bool {
        self.clients[number].task.is_none() && connections.are_ready(number)
    }

    fn first_free(&mut self, connections: &Connections) -> Option<usize> {
        while let Some(number) = self.queue.pop_front() {
            self.turns[number].queued = false;
            if self.is_free(number, connections) {
                return Some(number);
            }
        }
        None
    }
}
