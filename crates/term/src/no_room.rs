//! Lines that go to where there may be no room: a log or an output file on a full disk, or at its size limit.
//!
//! Who writes them goes on. What found no room is counted, and the first line that finds room again says how
//! many are missing and why. A line that was cut in the middle is ended first, so that each that follows is
//! whole.

use rustix::process::Signal;
use std::io::{self, ErrorKind, Write};
use std::sync::{Mutex, PoisonError};
use tokio::signal::unix::{SignalKind, signal};

/// A sentence, or a JSON document, that says how many lines are missing and why; without the line's end.
type Words = fn(u64, &str) -> String;

/// The lines that one place gets.
pub struct Lines {
    words: Words,
    missing: Mutex<Missing>,
}

#[derive(Default)]
struct Missing {
    lines: u64,
    why: String,
    /// The last line stands there without its end.
    cut: bool,
}

/// Whether an error says that there is no room, now: freed, it can be written again.
pub fn is_no_room(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge)
}

impl Lines {
    /// For a place where `words` tells what is missing. From now on a file at its size limit is an error of
    /// the write, not the end of the process.
    pub fn new(words: Words) -> Self {
        // The handler stays when the stream is dropped.
        let _ = signal(SignalKind::from_raw(Signal::XFSZ.as_raw()));
        Self::told_by(words)
    }

    fn told_by(words: Words) -> Self {
        Self { words, missing: Mutex::default() }
    }

    /// This many lines did not come as far as here.
    pub fn miss(&self, lines: u64, why: &str) {
        if lines > 0 {
            let mut missing = self.missing.lock().unwrap_or_else(PoisonError::into_inner);
            missing.lines += lines;
            why.clone_into(&mut missing.why);
        }
    }

    /// Writes whole lines; with none, what is missing is told.
    ///
    /// # Errors
    /// They could not be written, and count as missing.
    pub fn write(&self, out: &mut impl Write, lines: &[u8]) -> io::Result<()> {
        let mut missing = self.missing.lock().unwrap_or_else(PoisonError::into_inner);
        let written = missing.tell(out, self.words).and_then(|()| missing.put(out, lines));
        if let Err(error) = &written {
            let least = usize::from(!lines.is_empty());
            missing.lines += lines.iter().filter(|byte| **byte == b'\n').count().max(least) as u64;
            missing.why = error.to_string();
        }
        written
    }
}

impl Missing {
    /// Says what is missing, once.
    fn tell(&mut self, out: &mut impl Write, words: Words) -> io::Result<()> {
        if self.cut {
            self.put(out, b"\n")?;
        }
        if self.lines > 0 {
            self.put(out, (words(self.lines, &self.why) + "\n").as_bytes())?;
            self.lines = 0;
        }
        Ok(())
    }

    fn put(&mut self, out: &mut impl Write, mut text: &[u8]) -> io::Result<()> {
        while !text.is_empty() {
            match out.write(text) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => {
                    self.cut = text[count - 1] != b'\n';
                    text = &text[count..];
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk with so much room.
    struct Disk {
        room: usize,
        holds: Vec<u8>,
    }

    impl Write for Disk {
        fn write(&mut self, text: &[u8]) -> io::Result<usize> {
            let count = text.len().min(self.room);
            if count == 0 {
                return Err(ErrorKind::StorageFull.into());
            }
            self.room -= count;
            self.holds.extend_from_slice(&text[..count]);
            Ok(count)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn what_found_no_room_is_counted_and_told_of_and_every_line_is_whole() {
        let lines = Lines::told_by(|missing, why| format!("{missing} missing ({why})"));
        let mut disk = Disk { room: 9, holds: Vec::new() };
        lines.write(&mut disk, b"first\n").unwrap();
        let error = lines.write(&mut disk, b"second\n").unwrap_err();
        assert!(is_no_room(&error));
        lines.write(&mut disk, b"third\nfourth\n").unwrap_err();
        // Room for half of what is to be told: that is no line either.
        disk.room = 8;
        lines.write(&mut disk, b"fifth\n").unwrap_err();
        disk.room = 1000;
        lines.write(&mut disk, b"sixth\n").unwrap();
        lines.write(&mut disk, b"seventh\n").unwrap();
        let text = String::from_utf8(disk.holds).unwrap();
        let whole: Vec<_> = text.lines().collect();
        let why = ErrorKind::StorageFull.to_string();
        assert_eq!(whole[..2], ["first", "sec"]);
        assert_eq!(whole[whole.len() - 3..], [&format!("4 missing ({why})"), "sixth", "seventh"]);
    }
}
