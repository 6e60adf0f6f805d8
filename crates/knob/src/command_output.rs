//! What a program says, in a file in memory. A pipe would block a program that says much, and would not end
//! while a daemon that the program leaves behind has it open.

use rustix::fs::{MemfdFlags, SealFlags};
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Bytes of it that are kept; a program that says more is ended by whoever looks.
pub(crate) const OUTPUT_LIMIT: u64 = 16 << 20;

/// One stream of a program's output.
pub struct CommandOutput(File);

impl CommandOutput {
    /// An empty one.
    ///
    /// # Errors
    /// The system's words, when it has no memory or no descriptor left.
    pub fn new() -> Result<Self, String> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = rustix::fs::memfd_create("output", flags).map_err(|error| error.to_string())?;
        Ok(Self(File::from(file)))
    }

    /// What the program gets as its standard output or error.
    ///
    /// # Errors
    /// The system's words, when it has no descriptor left.
    pub fn writer(&self) -> Result<File, String> {
        self.0.try_clone().map_err(|error| error.to_string())
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
