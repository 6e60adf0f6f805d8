//! What can keep a run from starting. Once it runs, nothing ends it early: errors are counted.

use crate::measure::Heading;
use fleet::Address;
use std::io;
use std::path::PathBuf;

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The workload makes no sense.
    #[error("workload {workload}: {what}")]
    Workload {
        /// Its name.
        workload: String,
        /// What is wrong with it.
        what: String,
    },
    /// An address that no connection can be made to.
    #[error("cannot connect to {address}: {source}")]
    Connect {
        /// The address.
        address: Address,
        /// Why.
        source: io::Error,
    },
    /// The server said no before the load began.
    #[error("{address} refused: error {code}: {message}")]
    Refused {
        /// Who.
        address: Address,
        /// The error's number.
        code: u16,
        /// In its words.
        message: String,
    },
    /// The server does not speak as it should.
    #[error("{address} does not speak the MySQL protocol as expected: {source}")]
    Wire {
        /// Who.
        address: Address,
        /// What is wrong.
        source: wire::WireError,
    },
    /// A login that we cannot do.
    #[error("cannot log in at {address}: {what}")]
    Login {
        /// Who asked for it.
        address: Address,
        /// What, and what to do.
        what: String,
    },
    /// TLS could not be begun, or broke.
    #[error("TLS with {address}: {what}; see --ssl-mode and --ssl-ca")]
    Tls {
        /// With whom.
        address: Address,
        /// What went wrong.
        what: String,
    },
    /// Nothing came of the connections in time.
    #[error(
        "only {ready} of {clients} connections were made after {seconds} s; does the server answer at all?"
    )]
    NotReady {
        /// Connections that are.
        ready: usize,
        /// Connections that should be.
        clients: usize,
        /// How long was waited.
        seconds: u64,
    },
    /// The run is asked for something impossible.
    #[error("{0}")]
    Plan(String),
    /// A recording cannot be read.
    #[error(transparent)]
    Recording(recording::RecordingError),
    /// A file cannot be opened.
    #[error("cannot open {}: {source}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file's recording cannot be used.
    #[error("{}: {source}", path.display())]
    RecordingFile {
        /// The file.
        path: PathBuf,
        /// Why.
        source: Box<LoadError>,
    },
    /// The file of a search's trials cannot be read or written.
    #[error("cannot use {} for trials: {source}", path.display())]
    TrialFile {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A line of that file is none of ours.
    #[error("{}:{line}: not a line of a measurement: {source}", path.display())]
    TrialLine {
        /// The file.
        path: PathBuf,
        /// Which line, from 1.
        line: usize,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// Trials of different measurements must not be mixed.
    #[error(
        "{} holds trials of {} at {} for p{} < {:?}, and this is another measurement; name another file",
        path.display(), found.workload, found.target, found.objective.percent(), found.objective.within
    )]
    OtherMeasurement {
        /// The file.
        path: PathBuf,
        /// What its trials are of.
        found: Box<Heading>,
    },
    /// The machine refused something.
    #[error("{doing}: {source}")]
    Io {
        /// What was being done.
        doing: &'static str,
        /// Why it failed.
        source: io::Error,
    },
    /// io_uring was demanded.
    #[error("no io_uring: {0}; --data-path auto takes epoll instead")]
    NoRing(#[source] uring::Unavailable),
    /// A thread of the driver ended unexpectedly.
    #[error("a thread of the load generator ended unexpectedly; this is a fault of headroom")]
    ThreadLost,
}

impl LoadError {
    pub(crate) fn io(doing: &'static str) -> impl Fn(rustix::io::Errno) -> Self {
        move |source| Self::Io { doing, source: source.into() }
    }
}
