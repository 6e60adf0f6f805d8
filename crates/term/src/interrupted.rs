//! The end that a person asks for, for commands that have something to take down first.

use tokio::signal::unix::{SignalKind, signal};

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
