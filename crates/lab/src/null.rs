//! A server that does next to nothing, as fast as it can or after a time that is known exactly: what a load generator
//! measures on it is either the generator's own error, or a queue whose waiting times theory gives to the digit.
//!
//! It greets, lets everybody in, prepares whatever it is asked to, answers reads with one row and all else with OK.
//! With [`Service::Queue`] it is a queue with `servers` places: a statement that arrives at `a` is answered at
//! `max(a, the moment the first place is free) + its time`. These moments are worked out, not waited for one after the
//! other, so that a late wake-up delays one answer and shifts no other. One thread, epoll, no allocation a query.

pub mod theory;

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use wire::response::{Column, OkPacket};
use wire::{Capabilities, Command, Greeting, Login, Status, auth, packet, response, write};

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
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let run = move || {
            // Without it, every answer would be up to 50 us late.
            let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
            let served = Serving::new(listener, service, stopped).and_then(|mut serving| serving.run());
            if let Err(error) = served {
                tracing::warn!(%error, "a null server ended");
            }
        };
        let thread = std::thread::Builder::new().name("null-server".to_owned()).spawn(run)?;
        Ok(Self { address, stop, thread: Some(thread) })
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
}

struct Client {
    stream: TcpStream,
    input: Vec<u8>,
    logged_in: bool,
    capabilities: Capabilities,
    /// Whether each prepared statement reads.
    reads: Vec<bool>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Answer {
    Ok,
    TextRow,
    BinaryRow,
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
    fn new(listener: TcpListener, service: Service, stop: Arc<AtomicBool>) -> io::Result<Self> {
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
        let now = self.base.elapsed();
        let until = self.due.peek().map_or(TICK, |Reverse((at, ..))| at.saturating_sub(now).min(TICK));
        let timeout = Timespec { tv_sec: 0, tv_nsec: i64::from(until.subsec_nanos()) };
        self.events.clear();
        // epoll counts whole milliseconds, ppoll nanoseconds.
        let mut fds = [PollFd::from_borrowed_fd(self.epoll.as_fd(), PollFlags::IN)];
        match rustix::event::poll(&mut fds, Some(&timeout)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => return Ok(()),
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut self.events), Some(&at_once))?;
        Ok(())
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
                let capabilities = Capabilities::empty();
                let client =
                    Client { stream, input: Vec::new(), logged_in: false, capabilities, reads: Vec::new() };
                self.clients.insert(number, client);
            }
        }
    }

    fn read(&mut self, number: u64) -> io::Result<()> {
        let Some(client) = self.clients.get_mut(&number) else { return Ok(()) };
        let count = match client.stream.read(&mut self.buffer) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        };
        let now = self.base.elapsed();
        client.input.extend_from_slice(&self.buffer[..count]);
        let input = std::mem::take(&mut client.input);
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
        client.input = input;
        client.input.drain(..used);
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

impl Client {
    /// Takes a packet; a statement's answer is returned, all else is answered here and at once.
    fn take(&mut self, sequence: u8, payload: &[u8]) -> io::Result<Option<Answer>> {
        if !self.logged_in {
            let login = Login::parse(payload).map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))?;
            self.capabilities = login.capabilities & offered();
            self.logged_in = true;
            self.send(sequence.wrapping_add(1), &[&ok()])?;
            return Ok(None);
        }
        let Some((command, body)) = payload.split_first() else { return Ok(None) };
        match Command::from_byte(*command) {
            Command::Query if reads(body) => Ok(Some(Answer::TextRow)),
            Command::StmtExecute => {
                let number = body.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
                let reads = self.reads.get(number as usize).copied().unwrap_or_default();
                Ok(Some(if reads { Answer::BinaryRow } else { Answer::Ok }))
            }
            Command::StmtPrepare => {
                self.prepare(body)?;
                Ok(None)
            }
            Command::Quit => Err(io::ErrorKind::ConnectionAborted.into()),
            Command::StmtClose => Ok(None),
            _ => Ok(Some(Answer::Ok)),
        }
    }

    fn prepare(&mut self, sql: &[u8]) -> io::Result<()> {
        let parameters = sql.iter().filter(|byte| **byte == b'?').count();
        let mut head = vec![0];
        head.extend_from_slice(&(self.reads.len() as u32).to_le_bytes());
        head.extend_from_slice(&[0, 0]);
        head.extend_from_slice(&(parameters as u16).to_le_bytes());
        head.extend_from_slice(&[0, 0, 0]);
        self.reads.push(reads(sql));
        let parameter = Column::text("?").encode();
        let mut parts: Vec<&[u8]> = vec![&head];
        parts.extend(std::iter::repeat_n(parameter.as_slice(), parameters));
        let eof = response::Eof::default().encode();
        if parameters > 0 && !self.capabilities.contains(Capabilities::DEPRECATE_EOF) {
            parts.push(&eof);
        }
        self.send(1, &parts)
    }

    fn answer(&mut self, answer: Answer) -> io::Result<()> {
        let end = OkPacket { status: Status::AUTOCOMMIT, ..OkPacket::default() };
        let column = Column::text("c").encode();
        let end_of_rows = end.encode_end_of_rows(self.capabilities);
        let eof = response::Eof { status: Status::AUTOCOMMIT, ..response::Eof::default() }.encode();
        let row: &[u8] = match answer {
            Answer::Ok => return self.send(1, &[&ok()]),
            Answer::TextRow => b"\x011",
            Answer::BinaryRow => b"\0\0\x011",
        };
        if self.capabilities.contains(Capabilities::DEPRECATE_EOF) {
            self.send(1, &[&[1], &column, row, &end_of_rows])
        } else {
            self.send(1, &[&[1], &column, &eof, row, &eof])
        }
    }

    fn send(&mut self, first: u8, payloads: &[&[u8]]) -> io::Result<()> {
        let (mut out, mut sequence) = (Vec::with_capacity(128), first);
        for payload in payloads {
            packet::write(&mut out, &mut sequence, payload);
        }
        // Answers are small, and who does not read them is no concern of a test.
        self.stream.write_all(&out)
    }
}

fn reads(sql: &[u8]) -> bool {
    sql.get(..6).is_some_and(|word| word.eq_ignore_ascii_case(b"SELECT"))
}

fn offered() -> Capabilities {
    Capabilities::ORDINARY.with(Capabilities::DEPRECATE_EOF)
}

fn greeting(number: u64) -> Vec<u8> {
    let greeting = Greeting {
        version: "8.0.39-null".to_owned(),
        connection_id: number as u32,
        nonce: vec![b'n'; 20],
        capabilities: offered(),
        charset: 45,
        status: Status::AUTOCOMMIT,
        auth_plugin: auth::NATIVE_PASSWORD.to_owned(),
    };
    let mut out = Vec::new();
    packet::write(&mut out, &mut 0, &greeting.encode());
    out
}

fn ok() -> Vec<u8> {
    let mut out = vec![0];
    write::lenenc(&mut out, 0);
    write::lenenc(&mut out, 0);
    out.extend_from_slice(&Status::AUTOCOMMIT.bits().to_le_bytes());
    out.extend_from_slice(&[0, 0]);
    out
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
}
