//! The threads that send: each has its own clients, sockets and counts, and shares nothing while it runs.
//!
//! A run is a sequence of phases (warm-up, measurement, or the trials of a search) over the same connections.
//! Between phases nothing is in flight: every phase begins with an empty queue.

mod client;
mod clients;
mod connection;
mod connection_error;
mod connections;
pub(crate) mod epoll;
mod phase;
mod recorder;
mod shared;
mod sockets;
mod thread;
pub(crate) mod tls_channel;
mod transactions;

pub(crate) use connection_error::ConnectionError;
pub(crate) use phase::Phase;
pub(crate) use shared::Shared;
pub use tls_channel::TlsChannelError;
pub(crate) use tls_channel::{TlsChannel, begin as begin_tls};

use crate::counts::{PhaseCounts, Second};
use crate::error::LoadError;
use config::DataPath;
use rustix::time::{ClockId, clock_gettime};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;
use thread::Share;

/// What a thread reports.
enum Message {
    /// All its clients are connected, or cannot be; and why not over io_uring although that would be better.
    Connected(Result<Option<String>, LoadError>),
    /// A second is over.
    Second(Second),
    /// The phase is over.
    Done(Box<Result<PhaseCounts, LoadError>>),
}

/// The threads of a run.
#[derive(Debug)]
pub(crate) struct Driver {
    shared: Arc<Shared>,
    commands: Vec<Sender<Phase>>,
    messages: Receiver<Message>,
    threads: Vec<JoinHandle<()>>,
    /// Why a thread could not have io_uring that would have liked it.
    why_not_ring: Option<String>,
}

/// All clients must be connected within this time.
const CONNECT: Duration = Duration::from_secs(30);

impl Driver {
    /// Starts the threads and connects all clients.
    ///
    /// # Errors
    /// The first thing that keeps a client from logging in.
    pub(crate) fn start(shared: Shared, threads: usize) -> Result<Self, LoadError> {
        let shared = Arc::new(shared);
        let (report, messages) = channel();
        let mut driver =
            Self { shared, commands: Vec::new(), messages, threads: Vec::new(), why_not_ring: None };
        for number in 0..threads {
            let (command, commands) = channel();
            let (shared, report) = (driver.shared.clone(), report.clone());
            let run = move || thread::run(&shared, Share { number, threads }, &commands, &report);
            let thread = std::thread::Builder::new().name(format!("load-{number}")).spawn(run);
            let doing = "starting a thread";
            driver.threads.push(thread.map_err(|source| LoadError::Io { doing, source })?);
            driver.commands.push(command);
        }
        for _ in 0..threads {
            match driver.messages.recv() {
                Ok(Message::Connected(outcome)) => {
                    let why_not = outcome?;
                    driver.why_not_ring = driver.why_not_ring.take().or(why_not);
                }
                _ => return Err(LoadError::ThreadLost),
            }
        }
        Ok(driver)
    }

    /// Runs a phase on all threads. `each_second` gets every second as soon as a thread has reported it.
    ///
    /// # Errors
    /// A thread that ended.
    pub(crate) fn run(
        &self,
        phase: &Phase,
        mut each_second: impl FnMut(Second),
    ) -> Result<PhaseCounts, LoadError> {
        for command in &self.commands {
            command.send(phase.clone()).map_err(|_| LoadError::ThreadLost)?;
        }
        let mut whole = PhaseCounts::new(&self.shared.workload);
        let mut left = self.threads.len();
        while left > 0 {
            match self.messages.recv() {
                Ok(Message::Second(second)) => each_second(second),
                Ok(Message::Done(counts)) => {
                    whole.add(&(*counts)?);
                    left -= 1;
                }
                _ => return Err(LoadError::ThreadLost),
            }
        }
        Ok(whole)
    }

    /// The way that bytes take.
    pub(crate) fn data_path(&self) -> DataPath {
        match self.shared.data_path {
            DataPath::Epoll => DataPath::Epoll,
            _ if self.why_not_ring.is_some() => DataPath::Epoll,
            _ => DataPath::IoUring,
        }
    }

    /// Why it is not io_uring although that would be better.
    pub(crate) fn why_not_ring(&self) -> Option<&str> {
        self.why_not_ring.as_deref()
    }

    /// What all threads share.
    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.commands.clear();
        for thread in self.threads.drain(..) {
            // A thread that panicked has said so already.
            let _ = thread.join();
        }
    }
}

/// CPU time of this thread.
pub(crate) fn cpu_time_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
