//! One thread that sends: it connects its clients, runs the phases it is given, and says what came of each.

use super::clients::Clients;
use super::connections::Connections;
use super::transactions::PhaseRun;
use super::{Message, Phase, Shared};
use crate::error::LoadError;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};

/// Which of the threads this is, and of how many.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    pub(super) number: usize,
    pub(super) threads: usize,
}

impl Share {
    /// The numbers of the things that are this thread's, of `all` that are dealt out in turn.
    pub(super) fn of(self, all: u32) -> impl Iterator<Item = u32> {
        (0..all).skip(self.number).step_by(self.threads.max(1))
    }
}

/// Runs a thread until its commands end.
pub(super) fn run(
    shared: &Arc<Shared>,
    share: Share,
    commands: &Receiver<Phase>,
    messages: &Sender<Message>,
) {
    // 50 us of slack, the default, would make every arrival late.
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
    let mut connections = match connect(shared, share) {
        Ok((connections, why_not_ring)) => {
            if messages.send(Message::Connected(Ok(why_not_ring))).is_err() {
                return;
            }
            connections
        }
        Err(error) => return drop(messages.send(Message::Connected(Err(error)))),
    };
    let limit = share.of(shared.clients).count();
    let mut clients = Clients::new(share.of(shared.connections), limit, shared.workload.slots);
    while let Ok(phase) = commands.recv() {
        let counts = PhaseRun::new(shared, &phase, share, &mut connections, &mut clients, messages).run();
        connections.reconnect();
        if messages.send(Message::Done(Box::new(counts))).is_err() {
            break;
        }
    }
    connections.quit();
}

fn connect(shared: &Arc<Shared>, share: Share) -> Result<(Connections, Option<String>), LoadError> {
    let (mut connections, why_not_ring) = Connections::new(shared, share.of(shared.connections))?;
    connections.connect_all()?;
    Ok((connections, why_not_ring))
}
