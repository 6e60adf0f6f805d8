//! What a program says, in a file in memory. A pipe would block a program that says much, and would not end
//! while a daemon that the program leaves behind has it open.

use rustix::fs::{MemfdFlags, SealFlags};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Bytes of it that are kept; a program that says more is ended by whoever looks.
pub(crate) const OUTPUT_LIMIT: u64 = 16 << 20;

/// One stream of a program's output.
pub struct CommandOutput(File);

impl CommandOutput {
    /// An empty one.
    ///
    /// # Errors
    /// The system has no memory or no descriptor left.
    pub fn new() -> io::Result<Self> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        Ok(Self(File::from(rustix::fs::memfd_create("output", flags)?)))
    }

    /// What the program gets as its standard output or error.
    ///
    /// # Errors
    /// The system has no descriptor left.
    pub fn writer(&self) -> io::Result<File> {
        self.0.try_clone()
    }

    pub(crate) fn length(&self) -> u64 {
        self.0.metadata().map_or(0, |metadata| metadata.len())
    }

    /// What it has said so far.
    #[must_use]
    pub fn text(&self) -> String {
        let mut bytes = vec![0; usize::try_from(self.length().min(OUTPUT_LIMIT)).unwrap_or(0)];
        let read = self.0.read_at(&mut bytes, 0).unwrap_or(0);
        String::from_utf8_lossy(&bytes[..read]).into_owned()
    }
}

impl Drop for CommandOutput {
    fn drop(&mut self) {
        // What a daemon that was left behind says later is refused, and fills no memory.
        let _ = rustix::fs::fcntl_add_seals(&self.0, SealFlags::GROW | SealFlags::WRITE);
    }
}
