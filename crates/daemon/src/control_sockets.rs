//! Where another process that takes over, and commands of our user, find a running one. Clients are served
//! without it, too.

use crate::process::Process;
use console::control::{self, Directory, take_over};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use tokio::sync::Notify;

/// The control sockets of a process.
pub struct ControlSockets {
    directory: anyhow::Result<Directory>,
    /// What this process is known by.
    address: String,
    /// Set once this process is known by another address.
    moved: Arc<AtomicBool>,
    /// Another process has taken over.
    handed_over: Arc<Notify>,
}

impl ControlSockets {
    /// Answers from now on, under this address; without a directory nobody is answered, which is logged.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn open(
        process: &Arc<Process>,
        directory: anyhow::Result<Directory>,
        address: String,
    ) -> std::io::Result<Self> {
        if let Err(error) = &directory {
            tracing::error!(
                "no command reaches this process (drain, undrain, record), and no other can take over from it: {error:#}"
            );
        }
        let sockets = Self { directory, address, moved: Arc::default(), handed_over: Arc::default() };
        sockets.answer(process)?;
        Ok(sockets)
    }

    /// Told once another process has taken over.
    pub(crate) fn handed_over(&self) -> Arc<Notify> {
        self.handed_over.clone()
    }

    fn answer(&self, process: &Arc<Process>) -> std::io::Result<()> {
        let Ok(directory) = &self.directory else { return Ok(()) };
        process.serve_commands(directory.clone(), self.address.clone(), self.moved.clone())?;
        let (giving, ordered) = (process.clone(), process.clone());
        let (leaving, telling) = (process.clone(), self.handed_over.clone());
        take_over::offer(
            directory.clone(),
            self.address.clone(),
            move || giving.listening(),
            move || ordered.engine().orders(),
            move || leaving.hand_over(),
            move || telling.notify_one(),
            self.moved.clone(),
        )
    }

    /// After a reload: answers under the address that commands and the next process will look for.
    pub(crate) fn follow(&mut self, process: &Arc<Process>) {
        let address = process.control_address();
        if address == self.address {
            return;
        }
        self.moved.store(true, Relaxed);
        self.withdraw();
        (self.address, self.moved) = (address, Arc::default());
        if let Err(error) = self.answer(process) {
            tracing::error!(%error, address = self.address, "no command reaches this process at its new address");
        }
    }

    /// Removes the files.
    pub fn withdraw(&self) {
        if let Ok(directory) = &self.directory {
            control::withdraw(directory, &self.address);
        }
    }
}
