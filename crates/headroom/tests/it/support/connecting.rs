//! Connections that come and go while something happens to what serves them.

use super::told::{LIMIT, options};
use lab::Lab;
use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use std::net::SocketAddrV4;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Connects, asks and leaves, over and over, in the background.
pub(super) struct Connecting {
    stop: Arc<AtomicBool>,
    done: Arc<AtomicU64>,
    task: tokio::task::JoinHandle<mysql_async::Result<()>>,
}

impl Connecting {
    pub(super) fn start(lab: &Lab, address: SocketAddrV4) -> Self {
        let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (ended, counted, opts) =
            (stop.clone(), done.clone(), options(lab, *address.ip(), address.port()));
        let task = tokio::spawn(async move {
            while !ended.load(Relaxed) {
                let mut session = Conn::new(opts.clone()).await?;
                session.query_drop("SELECT 1").await?;
                session.disconnect().await?;
                counted.fetch_add(1, Relaxed);
            }
            Ok(())
        });
        Self { stop, done, task }
    }

    /// Returns when some more connections have been made; when one has failed, `end` says so.
    pub(super) async fn some_more(&self) {
        let (before, deadline) = (self.done.load(Relaxed), Instant::now() + LIMIT);
        while self.done.load(Relaxed) < before + 30 && !self.task.is_finished() {
            assert!(Instant::now() < deadline, "connections hang");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    pub(super) async fn end(self) {
        self.stop.store(true, Relaxed);
        self.task.await.unwrap().expect("every connection works, whether headroom runs or not");
    }
}
