//! Why a recording cannot be written or read.

use fleet::Blame;
use std::io;

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
    /// The system has no random numbers, or the like.
    #[error("the recording cannot be sealed: the system gives no random numbers")]
    Seal,
}

impl RecordingError {
    /// Whose fault it is: nearly always that of what was named: a file, a key, a log.
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
            | Self::NoLog { .. } => Blame::Config,
            Self::Seal => Blame::Bug,
        }
    }
}
