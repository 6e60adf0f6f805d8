//! A process from its start to its end: signals are answered, until one of them, or another process that has
//! taken over, says stop.

use crate::control_sockets::ControlSockets;
use crate::process::Process;
use crate::signals::{Signal, Signals};
use crate::systemd::{self, notify};
use fleet::duration_text;
use std::sync::Arc;

/// Why a process stops that another has taken over from; systemd hears nothing of it.
const HANDED_OVER: &str = "handed over";

/// How a process came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Its sessions ended, or were cut at its deadline.
    InOrder,
    /// A second signal did not wait for them.
    AtOnce,
}

/// Answers signals until one of them says stop, and stops.
pub async fn until_stopped(
    process: &Arc<Process>,
    mut signals: Signals,
    control: &mut ControlSockets,
) -> End {
    let handed_over = control.handed_over();
    loop {
        tokio::select! {
            signal = signals.next() => match signal {
                Signal::Reload => {
                    process.reload().await;
                    control.follow(process);
                }
                Signal::Renew => process.renew(),
                Signal::Stop(name) => return stop(process, name, signals).await,
            },
            () = handed_over.notified() => return stop(process, HANDED_OVER, signals).await,
        }
    }
}

/// Lets sessions end while they are idle; a second signal ends them at once.
async fn stop(process: &Process, name: &str, mut signals: Signals) -> End {
    let deadline = process.stop_deadline();
    let sessions = process.sessions();
    if name != HANDED_OVER {
        notify(process.notify_socket(), "STOPPING=1");
        systemd::take_back(process.notify_socket());
    }
    tracing::info!(
        sessions,
        "{name}: no new clients; sessions end as they become idle, all of them within {} (a second signal: now)",
        duration_text(deadline)
    );
    let impatient = async { while !matches!(signals.next().await, Signal::Stop(_)) {} };
    tokio::select! {
        cut = process.stop(deadline) => {
            tracing::info!(cut, "stopped");
            End::InOrder
        }
        () = impatient => {
            tracing::warn!("stopped at once by a second signal");
            End::AtOnce
        }
    }
}

/// Makes the faults that standard input names, on a thread of its own; for the soak, which holds the other
/// end.
pub fn make_faults_from_stdin(process: Arc<Process>) {
    tracing::warn!("--faults-from-stdin: parts of this router are made to fail on purpose");
    std::thread::spawn(move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            match line.parse() {
                Ok(fault) => {
                    tracing::warn!(fault = line, "made on purpose");
                    process.engine().inject(fault);
                }
                Err(error) => tracing::warn!("{error}"),
            }
        }
    });
}
