//! What goes first in a call: what is sent to peers on this thread's own core. What is sent to peers on other cores goes last.
//!
//! A peer on another core begins while the rest is still being sent, and sends, acknowledges and wakes into the same sockets and queues; one on
//! this core cannot begin before the call is over. Near ones first, the thread is nearly through when the others begin.

use super::Ring;
use rustix::net::sockopt::socket_incoming_cpu;
use rustix::thread::sched_getcpu;

/// In which order a call sends.
#[derive(Debug, Default)]
pub(super) struct Order {
    /// This thread's core; `None`: as was asked.
    here: Option<u32>,
    /// Sockets whose sends are for the end of the call.
    last: Vec<u32>,
    /// The socket at which the next look begins.
    next: u32,
}

impl Order {
    /// Whether what is sent to a peer on this core is for the end.
    pub(super) fn is_for_the_end(&self, core: Option<u32>) -> bool {
        self.here.is_some_and(|here| core != Some(here))
    }

    /// A socket has something to send at the end.
    pub(super) fn at_the_end(&mut self, socket: u32) {
        self.last.push(socket);
    }

    /// How many have.
    pub(super) fn waiting(&self) -> usize {
        self.last.len()
    }

    /// The thread may have moved.
    pub(super) fn follow(&mut self) {
        if self.here.is_some() {
            self.here = Some(sched_getcpu() as u32);
        }
    }
}

impl Ring {
    /// From now on every call sends first what goes to peers on this thread's own core. Looks where the peers of up to `most` sockets are,
    /// others each time: threads move, so this is to be asked for again now and then. Returns whether that is known of any.
    ///
    /// The kernel tells on which core it took in what came last (`SO_INCOMING_CPU`): over TCP on this machine that is where the
    /// peer has sent it. Of peers elsewhere it says nothing, and order is of no matter there.
    pub fn near_first(&mut self, most: usize) -> bool {
        self.order.here = Some(sched_getcpu() as u32);
        let sockets = self.table.numbers();
        let mut known = false;
        for _ in 0..most.min(sockets as usize) {
            let number = self.order.next % sockets;
            self.order.next = number + 1;
            if let Some(socket) = self.table.at_mut(number) {
                // -1 where nothing has come, or nothing that has a core.
                socket.core = socket_incoming_cpu(&socket.fd).ok().filter(|core| *core != u32::MAX);
                known |= socket.core.is_some();
            }
        }
        known
    }

    /// From now on every call sends in the order that was asked for, as at first.
    pub fn as_asked(&mut self) {
        self.order.here = None;
    }

    /// Hands over what was kept for the end.
    pub(super) fn queue_last(&mut self) {
        let mut last = std::mem::take(&mut self.order.last);
        last.drain(..).for_each(|socket| self.queue_send(socket));
        self.order.last = last;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Size, Token};
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    const SMALL: Size = Size { requests: 8, completions: 16, chunks: 4, chunk_bytes: 1024 };

    /// A socket of a ring, and its peer.
    fn peer(ring: &mut Ring) -> (Token, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let peer = TcpStream::connect(listener.local_addr().expect("an address")).expect("connects");
        let (ours, _) = listener.accept().expect("accepts");
        (ring.add(ours.into(), 0).expect("added"), peer)
    }

    fn core_of(ring: &Ring, token: Token) -> Option<u32> {
        ring.table.at(token.0).expect("it is there").core
    }

    #[test]
    fn where_a_peer_has_sent_from_is_known_and_what_goes_to_other_cores_waits_for_the_call() {
        // In a thread of its own, which stays where it is.
        let test = || {
            let mut here = rustix::thread::CpuSet::new();
            here.set(sched_getcpu());
            rustix::thread::sched_setaffinity(None, &here).expect("a thread may stay where it is");
            let core = sched_getcpu() as u32;
            let mut ring = Ring::new(SMALL).expect("this test needs io_uring");
            let [(near, mut near_peer), (far, mut far_peer)] = [peer(&mut ring), peer(&mut ring)];
            near_peer.write_all(b"x").expect("sent");
            far_peer.write_all(b"x").expect("sent");
            assert!(ring.near_first(2));
            assert_eq!([near, far].map(|token| core_of(&ring, token)), [Some(core); 2]);
            // As if its peer were elsewhere.
            ring.table.at_mut(far.0).expect("it is there").core = Some(core + 1);
            ring.send_bytes(far, b"far");
            ring.send_bytes(near, b"near");
            assert_eq!(ring.order.last, [far.0]);
            assert!(ring.is_sending(far), "as good as handed over");
            assert_eq!(ring.waiting_requests(), 2);
            ring.enter(Some(std::time::Duration::from_millis(1))).expect("the ring works");
            assert!(!ring.is_sending(far) && !ring.is_sending(near));
            let mut words = [[0; 3], [0; 3]];
            far_peer.read_exact(&mut words[0]).expect("it has come");
            near_peer.read_exact(&mut words[1]).expect("it has come");
            assert_eq!(words, [*b"far", *b"nea"]);
            ring.as_asked();
            ring.send_bytes(far, b"again");
            assert_eq!(ring.order.last, []);
        };
        std::thread::spawn(test).join().expect("the thread panicked");
    }

    #[test]
    fn a_ring_that_goes_away_has_nothing_left_to_send() {
        let mut ring = Ring::new(SMALL).expect("this test needs io_uring");
        let (token, mut peer) = peer(&mut ring);
        ring.near_first(0);
        ring.send_bytes(token, b"last");
        assert_eq!(ring.order.waiting(), 1);
        drop(ring);
        let mut rest = Vec::new();
        // Sent or not, the connection is over and nothing hangs.
        let _ = peer.read_to_end(&mut rest);
        assert!(rest.is_empty() || rest == b"last");
    }

    #[test]
    fn all_sockets_are_looked_at_in_turn() {
        let mut ring = Ring::new(SMALL).expect("this test needs io_uring");
        let mut peers: Vec<_> = (0..5).map(|_| peer(&mut ring)).collect();
        peers.iter_mut().for_each(|(_, peer)| peer.write_all(b"x").expect("sent"));
        let known = |ring: &Ring| peers.iter().filter(|(token, _)| core_of(ring, *token).is_some()).count();
        for expected in [2, 4, 5] {
            assert!(ring.near_first(2));
            assert_eq!(known(&ring), expected);
        }
    }
}
