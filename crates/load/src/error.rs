//! What can keep a run from starting. Once it runs, nothing ends it early: errors are counted.

use crate::driver::TlsChannelError;
use crate::login::LoginError;
use crate::measure::Heading;
use crate::workload::file::FileError;
use crate::workload::{Lane, WorkloadError};
use fleet::{Address, Blame};
use std::io;
use std::path::PathBuf;

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The workload makes no sense.
    #[error("workload {workload}: {source}")]
    Workload { workload: String, source: WorkloadError },
    /// No workload has this name.
    #[error(
        "no workload is called '{name}'; headroom load list names them, and a file of your own ends in .toml"
    )]
    UnknownWorkload { name: String },
    #[error(
        "cannot read the workload {name}: {error}; name a file that is there, and that this user may read, or one \
         of headroom load list"
    )]
    UnreadWorkload { name: String, error: io::Error },
    /// A workload's file is wrong.
    #[error(transparent)]
    WorkloadFile(#[from] FileError),
    /// An address that no connection can be made to.
    #[error("cannot connect to {address}: {source}")]
    Connect { address: Address, source: io::Error },
    /// The server said no before the load began.
    #[error("{address} refused: error {code}: {message}{}", remedy(*code))]
    Refused { address: Address, code: u16, message: String },
    /// The server does not speak as it should.
    #[error("{address} does not speak the MySQL protocol as expected: {source}")]
    Wire { address: Address, source: wire::WireError },
    /// A login that we cannot do.
    #[error("cannot log in at {address}: {source}")]
    Login { address: Address, source: LoginError },
    /// TLS could not be begun, or broke.
    #[error("TLS with {address}: {source}; see --ssl-mode and --ssl-ca")]
    Tls { address: Address, source: Box<TlsChannelError> },
    /// Nothing came of the connections in time.
    #[error(
        "only {ready} of {clients} connections were made after {seconds} s; does the server answer at all?"
    )]
    NotReady { ready: usize, clients: usize, seconds: u64 },
    /// Each connection is an open file.
    #[error("{connections} connections need {needed} open files, and {most} are allowed (ulimit -Hn)")]
    Files { connections: u64, needed: u64, most: u64 },
    /// The run is asked for something impossible.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A recording cannot be read.
    #[error(transparent)]
    Recording(#[from] recording::RecordingError),
    /// The file of a recording cannot be opened.
    #[error(
        "cannot open {}: {error}; name a recording that is there, and that this user may read (headroom record \
         --out FILE makes one)",
        path.display()
    )]
    Open { path: PathBuf, error: io::Error },
    /// A file's recording cannot be used.
    #[error("{}: {source}", path.display())]
    RecordingFile { path: PathBuf, source: Box<LoadError> },
    /// Nothing of a recording is left once what must not be sent is left out.
    #[error("{}: nothing of it can be sent: {why}", path.display())]
    NothingToSend { path: PathBuf, why: String },
    /// Tables that were to be removed are not those of the workload.
    #[error(
        "{address}: {tables} of the database {database} have other columns than this workload's, so that they are \
         somebody's; nothing was removed (--database names another one)"
    )]
    NotOurs { address: Address, database: String, tables: String },
    /// Most commands of a recording failed.
    #[error("{failed} of the recording's {all} commands failed at {target}: {why}")]
    MostFailed { target: Address, failed: usize, all: usize, why: String },
    /// The file of a search's trials cannot be read or written.
    #[error("cannot use {} for trials: {source}", path.display())]
    TrialFile { path: PathBuf, source: io::Error },
    /// A line of that file is none of ours.
    #[error("{}:{line}: not a line of a measurement: {source}", path.display())]
    TrialLine { path: PathBuf, line: usize, source: serde_json::Error },
    /// Trials of different measurements must not be mixed.
    #[error(
        "{} holds trials of {} at {} for p{} < {:?}{}, and this is another measurement; name another file",
        path.display(), found.workload, found.target, found.objective.percent(), found.objective.within,
        found.clients.map_or_else(String::new, |clients| format!(" with {clients} clients"))
    )]
    OtherMeasurement { path: PathBuf, found: Box<Heading> },
    /// The machine refused something.
    #[error("{doing}: {source}")]
    Io { doing: &'static str, source: io::Error },
    /// io_uring was demanded.
    #[error("no io_uring: {0}; --data-path auto takes epoll instead")]
    NoRing(#[source] uring::Unavailable),
    /// Somebody asked for the end.
    #[error("interrupted")]
    Interrupted,
    /// Somebody asked for the end, and what the server was at did not end.
    #[error(
        "interrupted, but {address} may still be at '{statement}': {why}{}",
        session.map_or_else(String::new, |session| format!("; KILL QUERY {session} ends it there"))
    )]
    StillRunning {
        address: Address,
        /// Its first words.
        statement: Box<str>,
        /// The server's number of the session, where it is known.
        session: Option<u64>,
        why: Box<str>,
    },
    /// A thread of the driver ended unexpectedly.
    #[error("a thread of the load generator ended unexpectedly; this is a fault of headroom")]
    ThreadLost,
}

/// Why a run cannot be as it is asked for.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    #[error("no clients: at least one is needed to send anything")]
    NoClients,
    #[error("no threads: at least one is needed to send anything")]
    NoThreads,
    #[error("{workload} changes data, and this load may only read")]
    WritesRefused { workload: String },
    #[error("a run of no time measures nothing")]
    NoTime,
    #[error("a rate must be above 0")]
    Rate,
    #[error("a speed must be above 0")]
    Speed,
    #[error(
        "the workload {}, and no address is given for that; name one with {}, or with --server for both",
        if *.lane == Lane::Reader { "reads" } else { "writes" },
        if *.lane == Lane::Reader { "--reader" } else { "--writer" }
    )]
    NoAddress { lane: Lane },
    #[error(transparent)]
    Tls(tls::TlsError),
    /// Values of a workload are read by a query before the run.
    #[error("'{sql}': its answer is larger than 64 MiB; give it a LIMIT")]
    AnswerTooLarge { sql: String },
    #[error(
        "the recording takes more than {mib} MB of memory; allow more with --memory, or record a sample or a \
         shorter time"
    )]
    RecordingTooLarge { mib: u64 },
}

impl LoadError {
    /// Whose fault it is.
    pub fn blame(&self) -> Blame {
        match self {
            Self::Workload { .. } | Self::Login { .. } | Self::Plan(_) | Self::NoRing(_) => Blame::Config,
            Self::UnknownWorkload { .. } | Self::UnreadWorkload { .. } | Self::WorkloadFile(_) => {
                Blame::Config
            }
            Self::Refused { .. } | Self::Wire { .. } | Self::NotReady { .. } | Self::MostFailed { .. } => {
                Blame::Server
            }
            Self::StillRunning { .. } => Blame::Server,
            Self::Connect { .. } | Self::Tls { .. } => Blame::Network,
            Self::Recording(_) | Self::Open { .. } | Self::TrialFile { .. } | Self::TrialLine { .. } => {
                Blame::Config
            }
            Self::OtherMeasurement { .. } | Self::Files { .. } | Self::Io { .. } => Blame::Config,
            Self::NothingToSend { .. } | Self::NotOurs { .. } => Blame::Config,
            Self::RecordingFile { source, .. } => source.blame(),
            Self::Interrupted => Blame::Client,
            Self::ThreadLost => Blame::Bug,
        }
    }

    pub(crate) fn io(doing: &'static str) -> impl Fn(rustix::io::Errno) -> Self {
        move |source| Self::Io { doing, source: source.into() }
    }
}

/// What to do about a refusal whose words do not say it.
fn remedy(code: u16) -> &'static str {
    match code {
        1044 | 1049 => "; is it there, and may this account use it (--database, --user)?",
        // An account that requires TLS is refused with the words for a wrong password.
        1045 => "; see --user and --option-file, and where the account requires TLS, --ssl-mode=REQUIRED",
        1050 => "; it is left as it is (headroom load cleanup removes what was prepared before)",
        3159 => "; this server takes connections over TLS only: --ssl-mode=REQUIRED",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_names_no_address_for_what_is_sent_is_told_the_flag() {
        let text = |lane| PlanError::NoAddress { lane }.to_string();
        assert!(text(Lane::Reader).contains("reads") && text(Lane::Reader).contains("--reader"));
        assert!(text(Lane::Writer).contains("writes") && text(Lane::Writer).contains("--writer"));
    }

    #[test]
    fn who_is_refused_for_want_of_tls_is_told_so() {
        let refused = |code| {
            let address = "db1:3306".parse().unwrap();
            LoadError::Refused { address, code, message: "no".to_owned() }.to_string()
        };
        assert!(refused(1045).contains("--user") && refused(1045).contains("--ssl-mode=REQUIRED"));
        assert!(refused(3159).ends_with("--ssl-mode=REQUIRED"));
        assert_eq!(refused(1146), "db1:3306 refused: error 1146: no");
    }
}
