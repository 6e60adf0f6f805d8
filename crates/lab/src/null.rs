//! A server that does next to nothing, as fast as it can or after a time that is known exactly: what a load
//! generator measures on it is either the generator's own error, or a queue whose waiting times theory gives
//! to the digit.
//!
//! It greets, lets everybody in, prepares whatever it is asked to, answers reads with one row and all else
//! with OK. With [`Service::Queue`] it is a queue with `servers` places: a statement that arrives at `a` is
//! answered at `max(a, the moment the first place is free) + its time`. These moments are worked out, not
//! waited for one after the other, so that a late wake-up delays one answer and shifts no other. One thread,
//! epoll, no allocation a query.

mod client;
pub mod theory;

use client::{Answer, Client, greeting};
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::thread::{CpuSet, sched_setaffinity};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use wire::packet;

/// How long a statement takes.
#[derive(Clone, Debug, PartialEq)]
pub enum Service {
    /// No time.
    Immediate,
    /// A queue: in Kendall's notation the part behind the first slash.
    Queue {
        /// Statements that are worked on at the same time.
        servers: usize,
        /// How long each takes.
        time: Time,
    },
}

/// How long the work on a statement takes.
#[derive(Clone, Debug, PartialEq)]
pub enum Time {
    /// Always the same (D).
    Constant(Duration),
    /// Exponentially distributed around this mean, from a seed (M).
    Exponential(Duration, u64),
}

/// A running null server; it ends when this is dropped.
#[derive(Debug)]
pub struct NullServer {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

const LISTENER: u64 = u64::MAX;
/// The loop looks at the stop signal at least this often.
const TICK: Duration = Duration::from_millis(20);
const ENOUGH: usize = 16 * 1024;

impl NullServer {
    /// Listens on a free port of 127.0.0.1 and serves in a thread of its own.
    ///
    /// # Errors
    /// What the system refuses.
    pub fn start(service: Service) -> io::Result<Self> {
        Self::serve(service, None)
    }

    /// The same on a core that nobody else needs: it never sleeps there, so that no statement waits for a
    /// core to wake up, which takes longer than all the rest.
    ///
    /// # Errors
    /// What the system refuses, among it a core that is not there.
    pub fn on_its_own_core(service: Service, core: usize) -> io::Result<Self> {
        let mut cores = CpuSet::new();
        cores.set(core);
        Self::serve(service, Some(cores))
    }

    fn serve(service: Service, cores: Option<CpuSet>) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let (tell, told) = channel();
        let run = move || {
            // Without it, every answer would be up to 50 us late.
            let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
            let sleeps = cores.is_none();
            let pinned = cores.map_or(Ok(()), |cores| sched_setaffinity(None, &cores));
            let ready = pinned.is_ok();
            if tell.send(pinned).is_err() || !ready {
                return;
            }
            let served =
                Serving::new(listener, service, stopped, sleeps).and_then(|mut serving| serving.run());
            if let Err(error) = served {
                tracing::warn!(%error, "a null server ended");
            }
        };
        let thread = std::thread::Builder::new().name("null-server".to_owned()).spawn(run)?;
        let server = Self { address, stop, thread: Some(thread) };
        told.recv().map_err(io::Error::other)??;
        Ok(server)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for NullServer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It has nothing to tell.
            let _ = thread.join();
        }
    }
}

struct Serving {
    listener: TcpListener,
    epoll: OwnedFd,
    events: Vec<Event>,
    clients: HashMap<u64, Client>,
    next: u64,
    queue: Queue,
    /// Answers that are due later: moment, client, whether a row is among it, and in which form.
    due: BinaryHeap<Reverse<(Duration, u64, Answer)>>,
    base: Instant,
    stop: Arc<AtomicBool>,
    buffer: Vec<u8>,
    /// It waits for what comes instead of looking again and again.
    sleeps: bool,
}

/// When which place of the queue is free.
struct Queue {
    free_at: BinaryHeap<Reverse<Duration>>,
    time: Option<Time>,
    rng: rand::rngs::SmallRng,
}

impl Queue {
    fn new(service: Service) -> Self {
        use rand::SeedableRng;
        let (servers, time) = match service {
            Service::Immediate => (0, None),
            Service::Queue { servers, time } => (servers.max(1), Some(time)),
        };
        let seed = if let Some(Time::Exponential(_, seed)) = &time { *seed } else { 0 };
        let free_at = std::iter::repeat_n(Reverse(Duration::ZERO), servers).collect();
        Self { free_at, time, rng: rand::rngs::SmallRng::seed_from_u64(seed) }
    }

    /// When a statement that arrives now is answered; `None` is at once.
    fn answered(&mut self, now: Duration) -> Option<Duration> {
        use rand::Rng;
        let time = match self.time.as_ref()? {
            Time::Constant(time) => *time,
            Time::Exponential(mean, _) => mean.mul_f64(-(1.0 - self.rng.random::<f64>()).ln()),
        };
        let Reverse(free) = self.free_at.pop()?;
        let end = free.max(now) + time;
        self.free_at.push(Reverse(end));
        Some(end)
    }
}

impl Serving {
    fn new(listener: TcpListener, service: Service, stop: Arc<AtomicBool>, sleeps: bool) -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
        Ok(Self {
            listener,
            epoll,
            events: Vec::with_capacity(256),
            clients: HashMap::new(),
            next: 0,
            queue: Queue::new(service),
            due: BinaryHeap::new(),
            base: Instant::now(),
            stop,
            buffer: vec![0; ENOUGH],
            sleeps,
        })
    }

    fn run(&mut self) -> io::Result<()> {
        while !self.stop.load(Ordering::Relaxed) {
            self.answer_due();
            self.wait()?;
            for n in 0..self.events.len() {
                match self.events[n].data.u64() {
                    LISTENER => self.accept(),
                    number => {
                        if self.read(number).is_err() {
                            self.clients.remove(&number);
                        }
                    }
                }
            }
        }
        Ok(())
    }

    fn wait(&mut self) -> io::Result<()> {
        let mut timeout = Timespec { tv_sec: 0, tv_nsec: 0 };
        self.events.clear();
        if let Some(Reverse((at, ..))) = self.due.peek().filter(|_| self.sleeps) {
            // epoll counts whole milliseconds, ppoll nanoseconds.
            let until = at.saturating_sub(self.base.elapsed()).min(TICK);
            let until = Timespec { tv_sec: 0, tv_nsec: i64::from(until.subsec_nanos()) };
            let mut fds = [PollFd::from_borrowed_fd(self.epoll.as_fd(), PollFlags::IN)];
            match rustix::event::poll(&mut fds, Some(&until)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => return Ok(()),
                Ok(_) => {}
                Err(error) => return Err(error.into()),
            }
        } else if self.sleeps {
            timeout.tv_nsec = i64::from(TICK.subsec_nanos());
        }
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut self.events), Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn accept(&mut self) {
        while let Ok((mut stream, _)) = self.listener.accept() {
            let number = self.next;
            self.next += 1;
            let ready = stream.set_nonblocking(true).is_ok()
                && stream.set_nodelay(true).is_ok()
                && stream.write_all(&greeting(number)).is_ok()
                && epoll::add(&self.epoll, &stream, EventData::new_u64(number), EventFlags::IN).is_ok();
            if ready {
                self.clients.insert(number, Client::new(stream));
            }
        }
    }

    fn read(&mut self, number: u64) -> io::Result<()> {
        let Some(client) = self.clients.get_mut(&number) else { return Ok(()) };
        let count = match client.read(&mut self.buffer) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        };
        let now = self.base.elapsed();
        let mut input = client.with_rest(&self.buffer[..count]);
        let mut used = 0;
        while let Some(found) = packet::first(&input[used..]) {
            used += found.used;
            if let Some(answer) = client.take(found.sequence, found.payload)? {
                match self.queue.answered(now) {
                    None => client.answer(answer)?,
                    Some(at) => self.due.push(Reverse((at, number, answer))),
                }
            }
        }
        input.drain(..used);
        client.keep(input);
        Ok(())
    }

    fn answer_due(&mut self) {
        while let Some(Reverse((at, number, answer))) = self.due.peek().copied() {
            if at > self.base.elapsed() {
                return;
            }
            self.due.pop();
            let gone = self.clients.get_mut(&number).is_some_and(|client| client.answer(answer).is_err());
            if gone {
                self.clients.remove(&number);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_answers_one_after_the_other_and_idles_when_nobody_comes() {
        let ms = Duration::from_millis;
        let mut queue = Queue::new(Service::Queue { servers: 1, time: Time::Constant(ms(10)) });
        let answered: Vec<_> = [0, 1, 2, 100].map(|at| queue.answered(ms(at)).unwrap()).into();
        assert_eq!(answered, [ms(10), ms(20), ms(30), ms(110)]);
        let mut two = Queue::new(Service::Queue { servers: 2, time: Time::Constant(ms(10)) });
        let answered: Vec<_> = [0, 1, 2, 3].map(|at| two.answered(ms(at)).unwrap()).into();
        assert_eq!(answered, [ms(10), ms(11), ms(20), ms(21)]);
        assert_eq!(Queue::new(Service::Immediate).answered(ms(1)), None);
    }

    #[test]
    fn a_server_on_its_own_core_answers_at_once_and_one_on_a_core_that_is_not_there_is_refused() {
        let server = NullServer::on_its_own_core(Service::Immediate, 0).unwrap();
        let mut stream = std::net::TcpStream::connect(server.address()).unwrap();
        let mut greeting = [0; 5];
        std::io::Read::read_exact(&mut stream, &mut greeting).unwrap();
        assert_eq!(greeting[4], 10, "the protocol's version");
        assert!(NullServer::on_its_own_core(Service::Immediate, 1000).is_err());
    }
}
