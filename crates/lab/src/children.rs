//! Starts processes that die with us, even when we are killed.
//!
//! The kernel's parent-death signal is sent when the *thread* that started the child ends, so one thread of
//! the lab starts all servers and does nothing else until the lab has ended. Where `setpriv` is missing
//! ([`ending_with_us`]), the next sweep kills what is left.

use crate::process::ending_with_us;
use std::io;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;

type Request = (Command, mpsc::Sender<io::Result<Child>>);

/// The thread that starts processes. Ends when dropped; by then its children must have been killed.
#[derive(Debug)]
pub(crate) struct Children {
    requests: mpsc::Sender<Request>,
}

impl Children {
    pub(crate) fn start() -> io::Result<Self> {
        let (requests, inbox) = mpsc::channel::<Request>();
        thread::Builder::new().name("lab-children".to_owned()).spawn(move || {
            while let Ok((mut command, answer)) = inbox.recv() {
                // An asker that gave up must not leave a server behind.
                if let Err(mpsc::SendError(Ok(mut orphan))) = answer.send(command.spawn()) {
                    let _ = orphan.kill().and_then(|()| orphan.wait());
                }
            }
        })?;
        if ending_with_us().is_empty() {
            tracing::info!(
                "setpriv (util-linux) is missing: servers of a killed lab run on until the next sweep"
            );
        }
        Ok(Self { requests })
    }

    /// Runs `program` with its output (both kinds) appended to `log` and no input. `environment` is
    /// `NAME=VALUE` lines beyond our own; the words of `NUMACTL` stand before the program.
    pub(crate) fn spawn(
        &self,
        program: &Path,
        arguments: &[String],
        environment: &str,
        log: &Path,
    ) -> io::Result<Child> {
        let before = ending_with_us().into_iter().chain(numactl(environment)).map(AsRef::as_ref);
        let mut words = before.chain([program.as_os_str()]);
        let mut command = Command::new(words.next().unwrap_or(program.as_os_str()));
        command.args(words);
        let assignments = environment.lines().filter(|line| !line.starts_with('#'));
        command.envs(assignments.filter_map(|line| line.split_once('=')));
        let log = std::fs::File::options().create(true).append(true).open(log)?;
        command.args(arguments).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        // A Ctrl-C on the terminal is for the owner, which takes the servers down in order.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let (answer, child) = mpsc::channel();
        let gone = || io::Error::other("the lab is going down");
        self.requests.send((command, answer)).map_err(|_| gone())?;
        child.recv().map_err(|_| gone())?
    }
}

/// What stands before the program to give it a NUMA policy.
fn numactl(environment: &str) -> impl Iterator<Item = &str> {
    let words = environment.lines().filter_map(|line| line.strip_prefix("NUMACTL="));
    words.flat_map(str::split_whitespace)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_numactl_are_taken_from_its_line_alone() {
        let of = |text| numactl(text).collect::<Vec<_>>();
        let line = "# NUMACTL was default\nNUMACTL=numactl --interleave=all\nLD_PRELOAD=/l.so\n";
        assert_eq!(of(line), ["numactl", "--interleave=all"]);
        assert!(of("LD_PRELOAD=/l.so\n").is_empty());
    }
}
