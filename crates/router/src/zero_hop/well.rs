//! Well: a server that the kernel put in doubt because sessions ended is asked for a login. One that gives it is well, and
//! what raised the doubt was somebody's goodbye: a client that says so lets the server close first, as a dying one does.
//!
//! Without this, applications that end sessions and open others at once would get the ordinary listener for a second, for
//! sessions that then stay relayed for all their life. A login, because a server that is being shut down still answers the
//! sessions that it has. A server that refused a connection, or let one wait, stays in doubt for its whole second.

use super::Witness;
use super::count::Counts;
use fleet::ServerName;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use zerohop::{Bell, Bypass, Error, monotonic_ns};

/// Least time between two logins to a server: a client that closes many sessions takes a moment over it.
const PAUSE: Duration = Duration::from_millis(5);

/// A target in doubt because sessions ended.
pub(super) struct Doubted {
    pub(super) listener: u32,
    pub(super) at: SocketAddr,
    pub(super) server: ServerName,
    /// CLOCK_MONOTONIC, ns.
    pub(super) since: u64,
}

/// Which servers are being asked, and what they said.
#[derive(Debug)]
pub(super) struct Logins {
    asked: HashMap<ServerName, Asked>,
    answered: Arc<Notify>,
}

#[derive(Debug)]
struct Asked {
    began: Instant,
    answer: Arc<Mutex<Option<Answer>>>,
}

/// When the login began (CLOCK_MONOTONIC, ns), and whether it was given.
#[derive(Clone, Copy, Debug)]
struct Answer {
    began: u64,
    given: bool,
}

impl Logins {
    /// `answered` is told when there is news.
    pub(super) fn new(answered: Arc<Notify>) -> Self {
        Self { asked: HashMap::new(), answered }
    }

    /// One look; free while nobody is in doubt.
    pub(super) fn look(
        &mut self,
        bypass: &mut Bypass,
        counts: &Counts,
        witness: &Arc<dyn Witness>,
    ) -> Result<(), Error> {
        let doubted: Vec<Doubted> = counts.doubted(bypass).collect();
        self.asked.retain(|server, _| doubted.iter().any(|d| d.server == *server));
        for doubt in doubted {
            let answer = self.asked.get(&doubt.server).map(Asked::answer);
            match answer {
                // One that began before the doubt says nothing against it.
                Some(Some(Answer { began, given: true })) if began > doubt.since => {
                    bypass.seen_well(doubt.listener, doubt.at, began)?;
                    tracing::debug!(server = %doubt.server, "sessions ended, and it gives logins: not in doubt");
                }
                // What fails is for `observe` to look at; here the second of doubt is left to pass.
                Some(None | Some(Answer { given: false, .. })) => {}
                Some(Some(_)) | None => self.ask(&doubt.server, witness),
            }
        }
        Ok(())
    }

    fn ask(&mut self, server: &ServerName, witness: &Arc<dyn Witness>) {
        let rested = self.asked.get(server).map_or(PAUSE, |asked| asked.began.elapsed());
        let pause = PAUSE.saturating_sub(rested);
        let answer = Arc::new(Mutex::new(None));
        let (slot, done) = (answer.clone(), self.answered.clone());
        let (server, witness) = (server.clone(), witness.clone());
        self.asked.insert(server.clone(), Asked { began: Instant::now() + pause, answer });
        tokio::spawn(async move {
            tokio::time::sleep(pause).await;
            let began = monotonic_ns();
            let given = witness.login(&server).await.is_ok();
            *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(Answer { began, given });
            done.notify_one();
        });
    }
}

impl Asked {
    fn answer(&self) -> Option<Answer> {
        *self.answer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tells of the kernel's rings for as long as somebody holds what is returned. Without the bell the ticks must do.
pub(super) fn listen_for_rings(bypass: &Bypass) -> Arc<Notify> {
    /// The thread sees after this long that nobody listens any more.
    const LOOK_UP: Duration = Duration::from_secs(1);
    let rung = Arc::new(Notify::new());
    let listener = Arc::downgrade(&rung);
    let listen = |bell: Bell| {
        std::thread::Builder::new().name("headroom-bell".to_owned()).spawn(move || {
            while let Some(rung) = listener.upgrade() {
                if bell.wait(LOOK_UP) {
                    rung.notify_one();
                }
            }
        })
    };
    let started = bypass.bell().map_err(|error| error.to_string());
    if let Err(why) = started.and_then(|bell| listen(bell).map_err(|error| error.to_string())) {
        tracing::warn!(why, "the kernel cannot ring when a server comes to be in doubt");
    }
    rung
}
