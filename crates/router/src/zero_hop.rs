//! Zero-hop: where the kernel allows it, connections to a listener bypass this process and go straight to the
//! picked server.
//!
//! `zerohop` is the mechanism; here is what it is used for. Ten times a second, at every change of the view,
//! and when the kernel wakes us because a server became suspect:
//!
//! 1. `count`: what the kernel counted becomes part of the server counters, so that pick and placement see
//!    bypassed sessions as they see those of the relay; a server that refused one is suspected as if it had
//!    refused us.
//! 2. `page`: each listener's next picks, made by the same [`pick`](crate::pick) that places relayed
//!    sessions, are written for the kernel to take one by one. It decides nothing itself.
//! 3. `login_probe`: a server that is suspect because sessions ended gets a test login; if that succeeds it
//!    is healthy.
//! 4. `mirror`: the kernel copies what passes on sessions, so that their state is known, and measured where
//!    insight asks for it.
//! 5. `close`: sessions that placement wants moved are closed, when their state is known and allows it.
//!
//! `runner` is the thread that does this, and `step` says when it begins and ends.
//!
//! **If in doubt, the ordinary listener** serves, which can wait, try other servers and refuse in words: when
//! nobody is eligible, for a server that just failed, beyond `max_sessions`, for listeners whose options need
//! the relay (`fit`), and for sessions that insight measures where the kernel cannot mirror them.
//!
//! **When this process is killed** all of it stays in the kernel: new readers go to the servers picked last
//! for `zero_hop_keep`, new writers for one second ([`runner::ALIVE`]). When it ends on purpose and nobody
//! takes over, it removes what it has pinned.
//!
//! **The process that listens on an address** decides about its connections: what another process has pinned
//! for it is taken over or removed ([`zerohop::pins::claim`]), also where this one's zero-hop is off. One
//! that takes over from a running process touches nothing before that one has left: should it fail before,
//! the other goes on with all that it had.

mod close;
mod count;
mod fit;
mod login_probe;
pub(crate) mod mirror;
pub(crate) mod mirror_handle;
mod overview;
mod page;
mod runner;
mod step;

use crate::error::Error;
use crate::listener::Listener;
use crate::shared_state::SharedState;
use arc_swap::ArcSwap;
pub use login_probe::{LoginProber, LoginResult};
pub(crate) use overview::ZeroHopOverview;
pub use overview::{Identity, ListenerZeroHop, ZeroHopStatus};
use runner::{Runner, Signals};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use tokio::sync::watch;

/// The handle of the thread that does it.
#[derive(Debug)]
pub(crate) struct ZeroHop {
    overview: Arc<ArcSwap<ZeroHopOverview>>,
    signals: Signals,
}

impl ZeroHop {
    /// Starts the thread; it ends when the sender of `listeners` is dropped. As long as `waits` is set, the
    /// process before this one has not left.
    pub(crate) fn start(
        shared: Arc<SharedState>,
        listeners: watch::Receiver<Vec<Arc<Listener>>>,
        identity: Identity,
        prober: Arc<dyn LoginProber>,
        waits: Arc<AtomicBool>,
    ) -> Result<(Self, JoinHandle<()>), Error> {
        let overview = Arc::new(ArcSwap::default());
        let signals = Signals { waits, ..Signals::default() };
        let zero_hop = Self { overview: overview.clone(), signals: signals.clone() };
        let mut runner = Runner::new(shared, identity, prober, overview, signals);
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Error::Thread)?;
        let entered = runtime.enter();
        if let Err(error) = runner.begin(&listeners.borrow()) {
            // The caller may be a task, in which no runtime can be dropped.
            drop(entered);
            runtime.shutdown_background();
            return Err(Error::ZeroHop(error));
        }
        drop(entered);
        let thread = std::thread::Builder::new()
            .name("headroom-0-hop".to_owned())
            .spawn(move || {
                runtime.block_on(runner.run(listeners));
                runtime.shutdown_background();
            })
            .map_err(Error::Thread)?;
        Ok((zero_hop, thread))
    }

    pub(crate) fn status(&self) -> ZeroHopOverview {
        self.overview.load().as_ref().clone()
    }

    /// The listeners are about to close: the kernel shall not count on them any more.
    pub(crate) fn leave(&self) {
        self.signals.leaving.store(true, Relaxed);
    }

    /// Another process has taken over: what is in the kernel is its from now on, and is not touched here any
    /// more once this returns.
    pub(crate) fn hand_over(&self) {
        *self.signals.handed_over.lock().unwrap_or_else(PoisonError::into_inner) = true;
    }
}
