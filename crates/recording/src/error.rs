//! Why a recording cannot be written or read.

use fleet::Blame;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// What is wrong with a recording, or with the key to it.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// The file system said no.
    #[error("{doing} the recording: {source}")]
    Io { doing: &'static str, source: io::Error },
    #[error("this is no recording of headroom: it does not begin as one")]
    NoRecording,
    /// Shorter than its own head.
    #[error(
        "the recording ends within its first {needed} bytes: it was broken off before anything was recorded"
    )]
    NoHead {
        /// Bytes that every recording has.
        needed: usize,
    },
    #[error(
        "the recording has format {found}, and this headroom knows {known}; read it with the headroom that wrote it"
    )]
    Version { found: u16, known: u16 },
    /// Sealed, and no key was given.
    #[error("the recording is sealed; name its key with --key-file or --key-env")]
    NeedsKey,
    #[error("the key does not open this recording: it was sealed with another one, or its head was changed")]
    WrongKey,
    /// A frame that is whole and cannot be opened or understood.
    #[error(
        "frame {frame} of the recording is whole and makes no sense; the file was changed, or this is a fault of headroom"
    )]
    Frame {
        /// Counted from 0.
        frame: u64,
    },
    /// A key that is too short or too long.
    #[error(
        "a key is {needed} hexadecimal digits and this one has {found} characters; make one with: openssl rand -hex {}",
        needed / 2
    )]
    KeyLength { needed: usize, found: usize },
    /// A key of other characters; they are not shown.
    #[error("a key is hexadecimal digits only (0-9, a-f), and this one has others")]
    KeyDigits,
    /// A log that is none.
    #[error("this is no {kind} log of MariaDB or MySQL, or it is empty: no statement with a time was found")]
    NoLog { kind: &'static str },
    /// Why a log that is named gives no recording.
    #[error("{log}")]
    Log { log: String, source: Box<RecordingError> },
    #[error("cannot make {} (one that is there is replaced with --force)", path.display())]
    Make { path: PathBuf, source: io::Error },
    #[error("cannot look at {}", path.display())]
    LookAt { path: PathBuf, source: io::Error },
    #[error(
        "{} is a link or no ordinary file, which --force does not replace: remove it, or name another file",
        path.display()
    )]
    NoOrdinaryFile { path: PathBuf },
    #[error("cannot replace {}", path.display())]
    Replace { path: PathBuf, source: io::Error },
    /// An event is not in the file.
    #[error("the recording ends here; what {} has is whole up to that and can be replayed", path.display())]
    EndsHere { path: PathBuf, source: Box<RecordingError> },
    #[error("{} ends too early", path.display())]
    EndsEarly { path: PathBuf, source: Box<RecordingError> },
    #[error("{} may not be on the disk", path.display())]
    NotOnDisk { path: PathBuf, source: io::Error },
    #[error("the router broke off")]
    BrokeOff { source: io::Error },
    /// It neither sends events nor says that it has ended.
    #[error("the router has said nothing for {} s after its time; the file is whole", silence.as_secs())]
    Silent { silence: Duration },
    /// The system has no random numbers, or the like.
    #[error("the recording cannot be sealed: the system gives no random numbers")]
    Seal,
}

impl RecordingError {
    /// Whose fault it is: nearly always that of what was named: a file, a key, a log, a router.
    pub fn blame(&self) -> Blame {
        match self {
            Self::Io { .. }
            | Self::NoRecording
            | Self::NoHead { .. }
            | Self::Version { .. }
            | Self::NeedsKey
            | Self::WrongKey
            | Self::Frame { .. }
            | Self::KeyLength { .. }
            | Self::KeyDigits
            | Self::NoLog { .. }
            | Self::Make { .. }
            | Self::LookAt { .. }
            | Self::NoOrdinaryFile { .. }
            | Self::Replace { .. }
            | Self::NotOnDisk { .. } => Blame::Config,
            Self::Log { source, .. } | Self::EndsHere { source, .. } | Self::EndsEarly { source, .. } => {
                source.blame()
            }
            Self::BrokeOff { .. } | Self::Silent { .. } => Blame::Network,
            Self::Seal => Blame::Bug,
        }
    }
}
