//! Why a recording cannot be written or read.

use std::io;

/// What is wrong with a recording, or with the key to it.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// The file system said no.
    #[error("{doing} the recording: {source}")]
    Io {
        /// `writing` or `reading`.
        doing: &'static str,
        /// Why.
        source: io::Error,
    },
    /// Another kind of file.
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
    /// Of a later version.
    #[error(
        "the recording has format {found}, and this headroom knows {known}; read it with the headroom that wrote it"
    )]
    Version {
        /// The file's.
        found: u16,
        /// Ours.
        known: u16,
    },
    /// Sealed, and no key was given.
    #[error("the recording is sealed; name its key with --key-file or --key-env")]
    NeedsKey,
    /// Sealed with another key.
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
    /// The text of a key.
    #[error("{0}")]
    BadKey(String),
    /// A log that is none.
    #[error("{0}")]
    BadLog(String),
    /// The system has no random numbers, or the like.
    #[error("the recording cannot be sealed: the system gives no random numbers")]
    Seal,
}
