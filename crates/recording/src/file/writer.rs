//! Writer: events gathered into frames, and written whole.

use super::layout::{FRAME, HEAD, MAGIC, SALT, SEALED, VERSION, checksum};
use crate::error::RecordingError;
use crate::event::Event;
use crate::seal::{Key, Seal, random};
use std::io::Write;

/// A frame is written when this much has come.
const FULL: usize = 64 * 1024;

/// Writes a recording. What was pushed since the last [`Writer::flush`] is lost when it is dropped.
#[derive(Debug)]
pub struct Writer<W> {
    out: W,
    seal: Option<Seal>,
    /// Room for a frame's head, then its events.
    frame: Vec<u8>,
    frames: u64,
    written: u64,
}

impl<W: Write> Writer<W> {
    /// Writes the head; frames are sealed if a key is given.
    ///
    /// # Errors
    /// What the file system says.
    pub fn new(mut out: W, key: Option<&Key>) -> Result<Self, RecordingError> {
        let mut head = Vec::with_capacity(HEAD);
        head.extend_from_slice(&MAGIC);
        head.extend_from_slice(&VERSION.to_le_bytes());
        head.extend_from_slice(&if key.is_some() { SEALED } else { 0 }.to_le_bytes());
        let salt: [u8; SALT] = random()?;
        head.extend_from_slice(&salt);
        let sum = crc32fast::hash(&head);
        head.extend_from_slice(&sum.to_le_bytes());
        out.write_all(&head).map_err(io)?;
        let seal = key.map(|key| Seal::new(key, &salt, &head)).transpose()?;
        Ok(Self { out, seal, frame: vec![0; FRAME], frames: 0, written: HEAD as u64 })
    }

    /// Adds an event; writes a frame when enough have come.
    ///
    /// # Errors
    /// What the file system says; then the file ends before this frame, or within it.
    pub fn push(&mut self, event: &Event) -> Result<(), RecordingError> {
        event.write(&mut self.frame);
        if self.frame.len() >= FULL { self.flush() } else { Ok(()) }
    }

    /// Writes what has come.
    ///
    /// # Errors
    /// As [`Writer::push`].
    pub fn flush(&mut self) -> Result<(), RecordingError> {
        if self.frame.len() == FRAME {
            return Ok(());
        }
        if let Some(seal) = &self.seal {
            let mut events = self.frame.split_off(FRAME);
            seal.close(self.frames, &mut events)?;
            self.frame.append(&mut events);
        }
        let length = u32::try_from(self.frame.len() - FRAME).unwrap_or(u32::MAX).to_le_bytes();
        let sum = checksum(length, &self.frame[FRAME..]);
        self.frame[..4].copy_from_slice(&length);
        self.frame[4..FRAME].copy_from_slice(&sum);
        let written = self.out.write_all(&self.frame).and_then(|()| self.out.flush());
        self.frames += 1;
        self.written += self.frame.len() as u64;
        self.frame.truncate(FRAME);
        written.map_err(io)
    }

    /// Bytes of the file so far, what is not flushed left out.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Writes what is left and gives back what was written to.
    ///
    /// # Errors
    /// As [`Writer::push`].
    pub fn finish(mut self) -> Result<W, RecordingError> {
        self.flush()?;
        Ok(self.out)
    }
}

fn io(source: std::io::Error) -> RecordingError {
    RecordingError::Io { doing: "writing", source }
}
