//! Supervision: a part of the data plane that ends or stands still is seen within a second, and made good or
//! said.
//!
//! | part | when it panics | when it stands still |
//! |---|---|---|
//! | thread that lets sessions in | takes the next message; its sessions stay | new sessions go to other threads |
//! | ring's thread | its sessions are cut, it starts again; too often: new sessions are polled | new sessions are polled |
//! | listener | accepts again, on the same socket | its thread stands still |
//! | rebalancer | starts again | reported |
//! | what adds up statements | reported; sessions go on | whoever asks waits |
//!
//! Too often is more than [`MOST_RESTARTS`](crate::health::MOST_RESTARTS) times in a minute.
//!
//! A thread on which nothing can be started any more, or that stands still for
//! [`HOPELESS`](crate::health::HOPELESS) beats, ends the process: its sessions hang, and whoever supervises
//! the process (systemd, a container's runtime) starts it anew.
//!
//! A thread of its own asks each part for a sign of life, four times a second; an answer has been through the
//! part's own loop. That beat is also the clock by which threads look after their sessions' peers (`peer`).
//! When the whole process was stopped (a suspended machine) the beat was too, and nothing is missed.

use crate::health::Health;
use crate::heartbeat::BEAT;
use crate::worker::{Message, WorkerHandle};
use std::sync::{Arc, Weak};

/// Starts the supervisor's thread. It ends by itself when the threads that it asks have.
pub(crate) fn start(health: Arc<Health>, workers: &Arc<[WorkerHandle]>) -> std::io::Result<()> {
    let workers: Weak<[WorkerHandle]> = Arc::downgrade(workers);
    let run = move || {
        loop {
            std::thread::sleep(BEAT);
            let Some(workers) = workers.upgrade() else { return };
            health.beat();
            ask(&health, &workers);
        }
    };
    std::thread::Builder::new().name("headroom-watch".to_owned()).spawn(run).map(drop)
}

/// Asks every thread that lets sessions in for a sign of life; each asks the ring's thread beside it.
fn ask(health: &Health, workers: &[WorkerHandle]) {
    for worker in workers {
        if worker.heartbeat().ask() && worker.send(Message::Beat).is_err() {
            health.fail(format!("{} has ended", worker.heartbeat().part));
        }
    }
}
