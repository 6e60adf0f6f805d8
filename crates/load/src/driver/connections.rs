//! The connections of a thread: made a few at a time, lost, made again, cut at the end of a phase.

use super::connection::{Connection, Progress};
use super::connection_error::ConnectionError;
use super::sockets::{SocketEvent, Sockets};
use super::{CONNECT, Shared};
use crate::error::LoadError;
use crate::reply::Reply;
use crate::workload::ClientDraws;
use rustix::io::Errno;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// Connections of a thread that may be in the making at the same time: more would overflow the server's
/// backlog.
const CONNECTS_AT_ONCE: usize = 16;
/// A lost connection is tried again after this.
const RETRY_NS: u64 = 100_000_000;
/// A connection made again has this long until it can be used, as a server of MySQL gives a login by default.
/// One that is accepted and hears no more would wait for ever, and keep others from being made.
const ATTEMPT_NS: u64 = 10_000_000_000;
/// After a phase, lost connections are made again for at most this long.
const RECONNECT_NS: u64 = 2_000_000_000;
/// How long to wait at a time while connecting, and for what is left after a phase.
const CONNECT_TICK: Duration = Duration::from_millis(50);
const RECONNECT_TICK: Duration = Duration::from_millis(5);

/// The connections of a thread, each client's to all lanes of the workload.
#[derive(Debug)]
pub(super) struct Connections {
    shared: Arc<Shared>,
    sockets: Sockets,
    /// Those of client n begin at n times the number of lanes.
    connections: Vec<Connection>,
    /// Connections to be opened, with the moment from which on, in ns.
    down: VecDeque<(u64, usize)>,
    /// Connections in the making, with the moment at which each is given up, in ns; the earliest first.
    opening: Vec<(u64, usize)>,
    reconnects: u64,
    last_error: Option<LoadError>,
}

/// What has happened to a connection. Clients are numbered within the thread.
#[derive(Debug)]
pub(super) enum ConnectionEvent {
    /// It can be used now.
    Ready { client: usize },
    /// What was sent on it is answered; and how long the answer had lain there, where that is known.
    Reply { client: usize, reply: Reply, read_late_ns: Option<u64> },
    /// It broke, and will be made again.
    Lost { client: usize },
}

/// The connection broke, and will be made again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ConnectionLost;

impl Connections {
    /// Of clients with these numbers over all threads, none of them open yet; and why not over io_uring
    /// although that would be better.
    pub(super) fn new(
        shared: &Arc<Shared>,
        clients: impl Iterator<Item = u32>,
    ) -> Result<(Self, Option<String>), LoadError> {
        let (sockets, why_not_ring) = Sockets::new(shared.data_path, shared.busy)?;
        let mut connections = Vec::new();
        for client in clients {
            for (lane, peers) in &shared.lanes {
                let peer = peers[client as usize % peers.len()].clone();
                connections.push(Connection::new(peer, *lane, connections.len()));
            }
        }
        let new = Self {
            shared: shared.clone(),
            sockets,
            down: (0..connections.len()).map(|number| (0, number)).collect(),
            connections,
            opening: Vec::with_capacity(CONNECTS_AT_ONCE),
            reconnects: 0,
            last_error: None,
        };
        Ok((new, why_not_ring))
    }

    /// Opens everything once; the first refusal ends it.
    pub(super) fn connect_all(&mut self) -> Result<(), LoadError> {
        let deadline_ns = self.shared.now_ns() + CONNECT.as_nanos() as u64;
        while self.connections.iter().any(|connection| !connection.is_ready()) {
            let now_ns = self.shared.now_ns();
            if now_ns > deadline_ns {
                let ready = self.connections.iter().filter(|connection| connection.is_ready()).count();
                let clients = self.connections.len();
                return Err(LoadError::NotReady { ready, clients, seconds: CONNECT.as_secs() });
            }
            self.open_some(now_ns);
            self.wait(CONNECT_TICK)?;
            while self.next_event().is_some() {}
            if let Some(error) = self.last_error.take() {
                return Err(error);
            }
        }
        Ok(())
    }

    /// Makes again what the phase has cut or lost, as far as the server lets us in that time: the next phase
    /// is to begin with all its clients.
    pub(super) fn reconnect(&mut self) {
        let deadline_ns = self.shared.now_ns() + RECONNECT_NS;
        loop {
            let now_ns = self.shared.now_ns();
            self.make_again(now_ns);
            if now_ns > deadline_ns || (self.down.is_empty() && self.opening.is_empty()) {
                return;
            }
            if self.wait(RECONNECT_TICK).is_err() {
                return;
            }
            while self.next_event().is_some() {}
        }
    }

    /// Gives up what is too long in the making, and opens what is down and may be tried.
    pub(super) fn make_again(&mut self, now_ns: u64) {
        while let Some(&(until_ns, number)) = self.opening.first() {
            if until_ns > now_ns {
                break;
            }
            self.lose(number, ConnectionError::Io(Errno::TIMEDOUT), now_ns);
        }
        self.open_some(now_ns);
    }

    fn open_some(&mut self, now_ns: u64) {
        while self.opening.len() < CONNECTS_AT_ONCE {
            match self.down.front() {
                Some((from_ns, _)) if *from_ns <= now_ns => {}
                _ => return,
            }
            let Some((_, number)) = self.down.pop_front() else { return };
            self.opening.push((now_ns + ATTEMPT_NS, number));
            if let Err(error) = self.connections[number].open(&mut self.sockets, &self.shared) {
                self.lose(number, error, now_ns);
            }
        }
    }

    /// Sends what is to be sent, and waits for something to happen; returns whether that was anything, or
    /// anything was sent.
    #[inline]
    pub(super) fn wait(&mut self, longest: Duration) -> Result<bool, LoadError> {
        let longest = if self.shared.busy { Duration::ZERO } else { longest };
        self.sockets.wait(longest)
    }

    /// The next thing that has happened.
    #[inline]
    pub(super) fn next_event(&mut self) -> Option<ConnectionEvent> {
        loop {
            let event = self.sockets.event()?;
            if let Some(event) = self.understand(event) {
                return Some(event);
            }
        }
    }

    #[inline]
    fn understand(&mut self, event: SocketEvent) -> Option<ConnectionEvent> {
        let mut read_late_ns = None;
        let (number, progress) = match event {
            SocketEvent::Bytes { number, bytes, waited_ns } => {
                let progress = self.connections[number].take(&mut self.sockets, &self.shared, &bytes);
                self.sockets.give_back(bytes);
                read_late_ns = waited_ns;
                (number, progress)
            }
            SocketEvent::Room(number) => {
                (number, self.connections[number].flush(&mut self.sockets).map(|()| None))
            }
            SocketEvent::Over(number, error) => {
                (number, Err(error.map_or(ConnectionError::Closed, ConnectionError::Io)))
            }
        };
        let client = number / self.shared.lanes.len();
        match progress {
            Ok(None) => None,
            Ok(Some(Progress::Reply(reply))) => Some(ConnectionEvent::Reply { client, reply, read_late_ns }),
            Ok(Some(Progress::Ready)) => {
                self.opening.retain(|(_, opening)| *opening != number);
                Some(ConnectionEvent::Ready { client })
            }
            Err(error) => {
                let now_ns = self.shared.now_ns();
                self.lose(number, error, now_ns).then_some(ConnectionEvent::Lost { client })
            }
        }
    }

    /// A connection broke: it is made again after a while. Returns whether that was news.
    fn lose(&mut self, number: usize, error: ConnectionError, now_ns: u64) -> bool {
        let connection = &mut self.connections[number];
        if connection.is_down() && !matches!(error, ConnectionError::Io(_)) {
            return false;
        }
        self.opening.retain(|(_, opening)| *opening != number);
        let error = error.at(connection.peer.address.clone());
        tracing::debug!(%error, "a connection was lost");
        self.last_error = Some(error);
        connection.close(&mut self.sockets);
        self.reconnects += 1;
        self.down.push_back((now_ns + RETRY_NS, number));
        true
    }

    /// Whether all connections of a client can be used.
    #[inline]
    pub(super) fn are_ready(&self, client: usize) -> bool {
        let lanes = self.shared.lanes.len();
        self.connections[client * lanes..(client + 1) * lanes].iter().all(Connection::is_ready)
    }

    /// Sends a statement of a client.
    #[inline]
    pub(super) fn send(
        &mut self,
        client: usize,
        statement: usize,
        variant: usize,
        draws: &mut ClientDraws<'_>,
        now_ns: u64,
    ) -> Result<(), ConnectionLost> {
        let shared = &self.shared;
        let lane = shared.workload.statements[statement].lane;
        let lane = shared.lanes.iter().position(|(other, _)| *other == lane).unwrap_or(0);
        let number = client * shared.lanes.len() + lane;
        let sent = self.connections[number].send(&mut self.sockets, shared, statement, variant, draws);
        self.or_lose(number, sent, now_ns)
    }

    /// Rolls back a transaction that is open on one of a client's connections, which need not be the one that
    /// failed; returns whether there was one.
    pub(super) fn roll_back(&mut self, client: usize, now_ns: u64) -> Result<bool, ConnectionLost> {
        let open = |number: &usize| {
            let connection = &self.connections[*number];
            connection.is_ready() && connection.in_transaction
        };
        let Some(number) = self.of(client).find(open) else { return Ok(false) };
        let sent = self.connections[number].send_text(&mut self.sockets, "ROLLBACK");
        self.or_lose(number, sent, now_ns).map(|()| true)
    }

    /// Closes those connections of a client on which a transaction is open, because another one of it was
    /// lost: the server rolls back what cannot be ended. They are made again.
    pub(super) fn cut_open(&mut self, client: usize) {
        for number in self.of(client) {
            let connection = &mut self.connections[number];
            if connection.in_transaction && (connection.is_ready() || connection.is_busy()) {
                connection.close(&mut self.sockets);
                self.down.push_back((0, number));
            }
        }
    }

    /// The connections of a client, one for each lane.
    fn of(&self, client: usize) -> Range<usize> {
        let lanes = self.shared.lanes.len();
        client * lanes..(client + 1) * lanes
    }

    fn or_lose(
        &mut self,
        number: usize,
        sent: Result<(), ConnectionError>,
        now_ns: u64,
    ) -> Result<(), ConnectionLost> {
        sent.map_err(|error| {
            self.lose(number, error, now_ns);
            ConnectionLost
        })
    }

    /// Closes those connections of a client that wait for an answer; they are made again.
    pub(super) fn cut(&mut self, client: usize) {
        let lanes = self.shared.lanes.len();
        for number in client * lanes..(client + 1) * lanes {
            if self.connections[number].is_busy() {
                self.connections[number].close(&mut self.sockets);
                self.down.push_back((0, number));
            }
        }
    }

    /// How many connections were lost, and how many sends were not taken at once, since the last call.
    pub(super) fn take_counts(&mut self) -> (u64, u64) {
        (std::mem::take(&mut self.reconnects), self.sockets.saturated())
    }

    /// Says goodbye on all.
    pub(super) fn quit(&mut self) {
        for connection in &mut self.connections {
            connection.quit(&mut self.sockets);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::login::Account;
    use crate::run::Plan;
    use crate::target::Target;
    use crate::workload::sysbench;
    use config::DataPath;
    use std::net::TcpListener;

    #[test]
    fn what_a_server_lets_in_and_never_greets_is_given_up_and_tried_again() {
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = silent.local_addr().unwrap().to_string().parse().unwrap();
        let workload = sysbench::workload("oltp_point_select", &sysbench::Options::default()).unwrap();
        let target = Target::single(address, Account::default());
        let plan = Plan {
            data_path: DataPath::Epoll,
            ..Plan::new(workload.into(), target, 1, Duration::from_secs(1))
        };
        let shared = Arc::new(Shared::new(&plan).unwrap());
        let (mut connections, _) = Connections::new(&shared, 0..1).unwrap();
        for (now_ns, opening, given_up) in [
            (0, 1, 0),
            (ATTEMPT_NS - 1, 1, 0),
            (ATTEMPT_NS, 0, 1),
            (ATTEMPT_NS + RETRY_NS, 1, 0),
            (2 * ATTEMPT_NS + RETRY_NS - 1, 1, 0),
        ] {
            connections.make_again(now_ns);
            let (lost, _) = connections.take_counts();
            assert_eq!((connections.opening.len(), lost), (opening, given_up), "at {now_ns} ns");
        }
    }
}
