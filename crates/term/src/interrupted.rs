//! The end that a person asks for, for commands that have something to take down first.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinHandle;

/// Returns on Ctrl-C or when we are asked to end.
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
pub struct StopSignals([Signal; 3]);

impl StopSignals {
    /// Takes them over from the defaults, which end the process.
    ///
    /// # Errors
    /// The system refuses it.
    pub fn listen() -> std::io::Result<Self> {
        let [interrupt, terminate, hangup] =
            [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()].map(signal);
        Ok(Self([interrupt?, terminate?, hangup?]))
    }

    /// Returns when one of them has come; at once if it came before.
    pub async fn received(&mut self) {
        let [interrupt, terminate, hangup] = &mut self.0;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
    }
}

/// A flag that is set when a person asks for the end; dropped, nobody listens any more.
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
        let listening = tokio::spawn(async move {
            interrupted().await;
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
}

impl Drop for StopFlag {
    fn drop(&mut self) {
        self.listening.abort();
    }
}
