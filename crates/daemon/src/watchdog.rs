//! Watchdog: tells systemd that we live (`WatchdogSec=`), as long as every thread of the data plane shows
//! that it does.

use crate::systemd::notify;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;

/// Tells it twice within the time that systemd allows, each time only when all have answered since the last
/// time. Does nothing where systemd has not asked for it.
pub fn keep(socket: Option<&str>, limit: Option<Duration>, mut rounds: watch::Receiver<u64>) {
    let (Some(socket), Some(limit)) = (socket.map(str::to_owned), limit) else { return };
    tokio::spawn(async move {
        let mut ticks = tokio::time::interval((limit / 2).max(Duration::from_millis(1)));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            // An error is the router's end: systemd has been told that we stop.
            if rounds.changed().await.is_err() {
                return;
            }
            rounds.mark_unchanged();
            notify(Some(&socket), "WATCHDOG=1");
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixDatagram;

    #[tokio::test]
    async fn systemd_hears_of_it_only_after_a_round_through_all() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let systemd = UnixDatagram::bind(&path).unwrap();
        systemd.set_nonblocking(true).unwrap();
        let mut heard = [0; 32];
        let rounds = watch::Sender::new(0);
        keep(path.to_str(), Some(Duration::from_millis(20)), rounds.subscribe());
        for round in 1..3 {
            tokio::time::sleep(Duration::from_millis(60)).await;
            assert!(systemd.recv(&mut heard).is_err(), "no round was complete");
            rounds.send_replace(round);
            let length = loop {
                tokio::time::sleep(Duration::from_millis(1)).await;
                if let Ok(length) = systemd.recv(&mut heard) {
                    break length;
                }
            };
            assert_eq!(&heard[..length], b"WATCHDOG=1");
        }
    }
}
