//! Reader: frames one after the other, as far as they are whole.

use super::layout::{FRAME, HEAD, LONGEST, MAGIC, SALT, SEALED, VERSION, checksum};
use crate::error::RecordingError;
use crate::event::Event;
use crate::seal::{Key, Seal};
use std::io::Read;

/// Reads a recording from its beginning. Holds one frame at a time.
#[derive(Debug)]
pub struct Reader<R> {
    input: R,
    seal: Option<Seal>,
    frame: Vec<u8>,
    /// What of the frame has been read.
    at: usize,
    frames: u64,
    ending: Ending,
    stopped: bool,
}

/// How a recording ends, known once its last event was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ending {
    /// With the event that says so.
    Whole,
    /// After a whole frame, without that event: whoever wrote it was ended.
    #[default]
    Unfinished,
    /// Within a frame.
    Torn {
        /// Bytes that are left out.
        left_out: u64,
    },
}

impl<R: Read> Reader<R> {
    /// Reads the head.
    ///
    /// # Errors
    /// When this is no recording, of a later version, or sealed and no key is given.
    pub fn new(mut input: R, key: Option<&Key>) -> Result<Self, RecordingError> {
        let mut head = [0; HEAD];
        let got = fill(&mut input, &mut head)?;
        if !head[..got].starts_with(&MAGIC[..got.min(MAGIC.len())]) || got == 0 {
            return Err(RecordingError::NoRecording);
        }
        if got < HEAD {
            return Err(RecordingError::NoHead { needed: HEAD });
        }
        let found = u16::from_le_bytes([head[8], head[9]]);
        if found != VERSION {
            return Err(RecordingError::Version { found, known: VERSION });
        }
        let (body, sum) = head.split_at(HEAD - 4);
        if crc32fast::hash(body).to_le_bytes() != *sum {
            return Err(RecordingError::NoRecording);
        }
        let sealed = u16::from_le_bytes([head[10], head[11]]) & SEALED != 0;
        let seal = match key {
            None if sealed => return Err(RecordingError::NeedsKey),
            Some(key) if sealed => Some(Seal::new(key, &head[12..12 + SALT], &head)?),
            _ => None,
        };
        let ending = Ending::default();
        Ok(Self { input, seal, frame: Vec::new(), at: 0, frames: 0, ending, stopped: false })
    }

    /// The next event; `None` at the end, which [`Reader::ending`] then knows.
    ///
    /// # Errors
    /// A key that does not open it, a frame that makes no sense, what the file system says.
    #[allow(clippy::should_implement_trait, reason = "an iterator of results would be no easier to use")]
    pub fn next(&mut self) -> Result<Option<Event>, RecordingError> {
        while self.at == self.frame.len() {
            if !self.read_frame()? {
                return Ok(None);
            }
        }
        let mut rest = &self.frame[self.at..];
        let event = Event::read(&mut rest).ok_or(RecordingError::Frame { frame: self.frames - 1 })?;
        self.at = self.frame.len() - rest.len();
        self.stopped |= matches!(event, Event::RecordingEnd(_));
        Ok(Some(event))
    }

    pub fn ending(&self) -> Ending {
        if self.stopped && self.ending == Ending::Unfinished { Ending::Whole } else { self.ending }
    }

    /// Reads a frame; `false` when there is none that is whole.
    fn read_frame(&mut self) -> Result<bool, RecordingError> {
        let mut head = [0; FRAME];
        let got = fill(&mut self.input, &mut head)?;
        if got < FRAME {
            return self.torn(got, 0);
        }
        let [a, b, c, d, sum @ ..] = head;
        let length = [a, b, c, d];
        let wanted = u32::from_le_bytes(length) as usize;
        self.frame.clear();
        self.at = 0;
        // Grows with what is there: a length that is damaged does not take memory.
        let taken = (&mut self.input).take(wanted.min(LONGEST) as u64).read_to_end(&mut self.frame);
        let taken = taken.map_err(io)?;
        if taken < wanted || checksum(length, &self.frame) != sum {
            self.frame.clear();
            return self.torn(FRAME, taken);
        }
        if let Some(seal) = &self.seal {
            let Some(opened) = seal.open(self.frames, &mut self.frame).map(<[u8]>::len) else {
                let first = self.frames == 0;
                let frame = self.frames;
                return Err(if first { RecordingError::WrongKey } else { RecordingError::Frame { frame } });
            };
            self.frame.truncate(opened);
        }
        self.frames += 1;
        Ok(true)
    }

    fn torn(&mut self, head: usize, taken: usize) -> Result<bool, RecordingError> {
        let rest = std::io::copy(&mut self.input, &mut std::io::sink()).map_err(io)?;
        let left_out = (head + taken) as u64 + rest;
        if left_out > 0 {
            self.ending = Ending::Torn { left_out };
        }
        Ok(false)
    }
}

/// Reads until the buffer is full or the input ends.
fn fill(input: &mut impl Read, buffer: &mut [u8]) -> Result<usize, RecordingError> {
    let mut got = 0;
    while got < buffer.len() {
        match input.read(&mut buffer[got..]) {
            Ok(0) => break,
            Ok(count) => got += count,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(io(error)),
        }
    }
    Ok(got)
}

fn io(source: std::io::Error) -> RecordingError {
    RecordingError::Io { doing: "reading", source }
}
