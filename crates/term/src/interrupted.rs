//! The end that a person asks for, for commands that have something to take down first.
//!
//! HUP, too, asks for the end: the terminal was closed. Where it was ignored from the start (`nohup`), it
//! stays ignored: a handler would undo what somebody asked for.

use rustix::process::Signal as Number;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinHandle;

/// Returns on Ctrl-C or when we are asked to end. Not on HUP, which asks daemons for something else.
pub async fn interrupted() {
    let asked = async {
        match signal(SignalKind::terminate()) {
            Ok(mut terminate) => {
                terminate.recv().await;
            }
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        () = asked => {}
    }
}

/// Ctrl-C, TERM and HUP, heard from the moment this is made.
#[derive(Debug)]
pub struct StopSignals {
    interrupt: Signal,
    terminate: Signal,
    /// `None` where it was ignored before: it stays so.
    hang_up: Option<Signal>,
}

impl StopSignals {
    /// Takes them over from the defaults, which end the process; HUP only if it is not ignored.
    ///
    /// # Errors
    /// The system refuses it.
    pub fn listen() -> std::io::Result<Self> {
        // Without /proc nobody can tell, and a closed terminal must not end us in the middle.
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let hears = !is_ignored(&status, Number::HUP);
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: hears.then(|| signal(SignalKind::hangup())).transpose()?,
        })
    }

    /// Returns when one of them has come; at once if it came before.
    pub async fn received(&mut self) {
        let Self { interrupt, terminate, hang_up } = self;
        let hung_up = async {
            match hang_up {
                Some(hang_up) => {
                    hang_up.recv().await;
                }
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            () = hung_up => {}
        }
    }
}

/// Whether a process with this `/proc/PID/status` ignores a signal: bit n - 1 of `SigIgn` is signal n.
fn is_ignored(status: &str, signal: Number) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|text| u64::from_str_radix(text.trim(), 16).ok()).unwrap_or(0);
    mask >> (signal.as_raw() - 1) & 1 == 1
}

/// A flag that is set when a person asks for the end, by Ctrl-C, TERM or HUP; dropped, nobody listens any
/// more.
#[derive(Debug)]
pub struct StopFlag {
    flag: Arc<AtomicBool>,
    listening: JoinHandle<()>,
}

impl StopFlag {
    /// Listens from now on; `told` is what is done when it is set.
    pub fn listen(told: impl FnOnce() + Send + 'static) -> Self {
        let flag = Arc::new(AtomicBool::new(false));
        let set = flag.clone();
        let signals = StopSignals::listen();
        let listening = tokio::spawn(async move {
            match signals {
                Ok(mut signals) => signals.received().await,
                Err(_) => interrupted().await,
            }
            set.store(true, Ordering::Relaxed);
            told();
        });
        Self { flag, listening }
    }

    /// For whoever works on another thread.
    pub fn flag(&self) -> Arc<AtomicBool> {
        self.flag.clone()
    }

    /// Whether it is set.
    pub fn is_set(&self) -> bool {
        self.flag.load(Ordering::Relaxed)
    }

    /// Returns when it is set; at once if it is.
    pub async fn until_set(&mut self) {
        // A task that has ended must not be waited for again.
        if !self.listening.is_finished() {
            let _ = (&mut self.listening).await;
        }
    }
}

impl Drop for StopFlag {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{getpid, kill_process};
    use std::process::Command;
    use std::time::{Duration, Instant};

    /// Tells the child which signals it is to send to itself.
    const CHILD: &str = "TERM_HANG_UP_CHILD";
    const LIMIT: Duration = Duration::from_secs(30);

    #[test]
    fn what_is_ignored_is_read_from_the_mask() {
        let status = |mask: &str| format!("SigBlk:\t0000000000000001\nSigIgn:\t{mask}\nSigCgt:\t0\n");
        assert!(is_ignored(&status("0000000000001001"), Number::HUP));
        assert!(!is_ignored(&status("0000000000001000"), Number::HUP), "PIPE alone");
        assert!(is_ignored(&status("0000000000004000"), Number::TERM));
        assert!(!is_ignored("", Number::HUP));
    }

    /// A process with this disposition of HUP; it fails if it is not as it is to be.
    fn child(disposition: &str) {
        let test = "interrupted::tests::hang_up_sets_the_flag_unless_it_was_ignored_from_the_start";
        let mut child = Command::new("env");
        child.arg(disposition).arg(std::env::current_exe().unwrap());
        child.args(["--exact", test, "--nocapture"]).env(CHILD, disposition);
        let output = child.output().unwrap();
        let words = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success() && words.contains("1 passed"), "{disposition}: {words}");
    }

    async fn is_set_in_time(flag: &StopFlag) -> bool {
        let began = Instant::now();
        while !flag.is_set() && began.elapsed() < LIMIT {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        flag.is_set()
    }

    #[tokio::test]
    #[allow(
        clippy::disallowed_methods,
        reason = "the test is its own child process, and is told so by a variable"
    )]
    async fn hang_up_sets_the_flag_unless_it_was_ignored_from_the_start() {
        let Ok(disposition) = std::env::var(CHILD) else {
            child("--default-signal=HUP");
            child("--ignore-signal=HUP");
            return;
        };
        let flag = StopFlag::listen(|| ());
        let mut signals = StopSignals::listen().unwrap();
        kill_process(getpid(), Number::HUP).unwrap();
        if disposition == "--default-signal=HUP" {
            assert!(is_set_in_time(&flag).await, "HUP is heard");
            tokio::time::timeout(LIMIT, signals.received()).await.unwrap();
            return;
        }
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        assert!(is_ignored(&status, Number::HUP), "HUP stays ignored: {status}");
        kill_process(getpid(), Number::TERM).unwrap();
        assert!(is_set_in_time(&flag).await, "TERM is heard all the same");
    }
}
