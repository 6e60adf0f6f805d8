//! Login probe: a server that became suspect because sessions ended is asked for a login. If the login
//! succeeds the server is healthy, and the close was a normal disconnect: a client that says goodbye lets the
//! server close first, as a dying server does.
//!
//! Without this, applications that end sessions and open others at once would get the ordinary listener for a
//! second, for sessions that then stay relayed for all their life. A login, because a server that is being
//! shut down still answers the sessions that it has. A server that refused a connection, or let one wait,
//! stays suspect for its whole second.

use super::count::{KernelCounts, SuspectTarget};
use fleet::ServerName;
use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use zerohop::{Bypass, Error, Wakeup, monotonic_ns};

/// Least time between two logins to a server: a client that closes many sessions takes a moment over it.
const PAUSE: Duration = Duration::from_millis(5);

/// Whether a login succeeded, once that is known.
pub type LoginResult = Pin<Box<dyn Future<Output = bool> + Send>>;

/// Logs in to servers, to see whether they are healthy.
pub trait LoginProber: Send + Sync {
    /// Whether the server lets us log in now.
    fn login(&self, server: &ServerName) -> LoginResult;
}

/// Which servers are being probed, and the results.
#[derive(Debug)]
pub(super) struct LoginProbes {
    probes: HashMap<ServerName, Probe>,
    answered: Arc<Notify>,
}

#[derive(Debug)]
struct Probe {
    began: Instant,
    result: Arc<Mutex<Option<ProbeResult>>>,
}

/// When the login began (CLOCK_MONOTONIC, ns), and whether it succeeded.
#[derive(Clone, Copy, Debug)]
struct ProbeResult {
    began: u64,
    succeeded: bool,
}

impl LoginProbes {
    /// `answered` is notified when there is a result.
    pub(super) fn new(answered: Arc<Notify>) -> Self {
        Self { probes: HashMap::new(), answered }
    }

    /// One look; free while no server is suspect.
    pub(super) fn look(
        &mut self,
        bypass: &mut Bypass,
        counts: &KernelCounts,
        prober: &Arc<dyn LoginProber>,
    ) -> Result<(), Error> {
        let suspects: Vec<SuspectTarget> = counts.suspects(bypass).collect();
        self.probes.retain(|server, _| suspects.iter().any(|suspect| suspect.server == *server));
        for suspect in suspects {
            let result = self.probes.get(&suspect.server).map(Probe::result);
            match result {
                // A login that began before proves nothing.
                Some(Some(ProbeResult { began, succeeded: true })) if began > suspect.since => {
                    bypass.mark_healthy(suspect.listener, suspect.at, began)?;
                    tracing::debug!(server = %suspect.server, "sessions ended, and a test login succeeded: healthy");
                }
                // What fails is for `observe` to look at; here it stays suspect for its second.
                Some(None | Some(ProbeResult { succeeded: false, .. })) => {}
                Some(Some(_)) | None => self.ask(&suspect.server, prober),
            }
        }
        Ok(())
    }

    fn ask(&mut self, server: &ServerName, prober: &Arc<dyn LoginProber>) {
        let rested = self.probes.get(server).map_or(PAUSE, |probe| probe.began.elapsed());
        let pause = PAUSE.saturating_sub(rested);
        let result = Arc::new(Mutex::new(None));
        let (slot, done) = (result.clone(), self.answered.clone());
        let (server, prober) = (server.clone(), prober.clone());
        self.probes.insert(server.clone(), Probe { began: Instant::now() + pause, result });
        tokio::spawn(async move {
            tokio::time::sleep(pause).await;
            let began = monotonic_ns();
            let succeeded = prober.login(&server).await;
            *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(ProbeResult { began, succeeded });
            done.notify_one();
        });
    }
}

impl Probe {
    fn result(&self) -> Option<ProbeResult> {
        *self.result.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Notifies when the kernel wakes us, for as long as somebody holds what is returned. Without it the ticks
/// must do.
pub(super) fn wakeups(bypass: &Bypass) -> Arc<Notify> {
    /// The thread sees within this time that nobody listens any more.
    const LOOK_UP: Duration = Duration::from_secs(1);
    let woken = Arc::new(Notify::new());
    let listener = Arc::downgrade(&woken);
    let listen = |wakeup: Wakeup| {
        std::thread::Builder::new().name("headroom-wakeup".to_owned()).spawn(move || {
            while let Some(woken) = listener.upgrade() {
                if wakeup.wait(LOOK_UP) {
                    woken.notify_one();
                }
            }
        })
    };
    let started = Wakeup::open(bypass).map_err(|error| error.to_string());
    if let Err(why) = started.and_then(|wakeup| listen(wakeup).map_err(|error| error.to_string())) {
        tracing::warn!(why, "the kernel cannot wake the router when a server becomes suspect");
    }
    woken
}
