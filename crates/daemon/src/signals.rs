//! Signals, as a stream of what they mean.

use tokio::signal::unix::{self, SignalKind};

/// What a signal asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// HUP: read the configuration again.
    Reload,
    /// USR2: start this program anew, which takes over.
    Renew,
    /// INT or TERM: end; with its name.
    Stop(&'static str),
}

/// The signals of this process from now on.
pub struct Signals {
    hang_up: unix::Signal,
    user_2: unix::Signal,
    interrupt: unix::Signal,
    terminate: unix::Signal,
}

impl Signals {
    /// Takes them over from the defaults, which end the process.
    pub fn new() -> std::io::Result<Self> {
        Ok(Self {
            hang_up: unix::signal(SignalKind::hangup())?,
            user_2: unix::signal(SignalKind::user_defined2())?,
            interrupt: unix::signal(SignalKind::interrupt())?,
            terminate: unix::signal(SignalKind::terminate())?,
        })
    }

    /// The next one.
    pub async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.hang_up.recv() => Signal::Reload,
            _ = self.user_2.recv() => Signal::Renew,
            _ = self.interrupt.recv() => Signal::Stop("SIGINT"),
            _ = self.terminate.recv() => Signal::Stop("SIGTERM"),
        }
    }
}
