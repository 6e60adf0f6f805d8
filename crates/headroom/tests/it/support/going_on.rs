//! A statement that is sent over and over while a test waits for something else.

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// On a thread of its own: a test may wait for more than its runtime.
pub(crate) struct GoingOn {
    over: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<()>,
}

impl GoingOn {
    pub(crate) fn start(opts: impl Into<Opts>, statement: &'static str) -> Self {
        let (over, opts) = (Arc::new(AtomicBool::new(false)), opts.into());
        let ends = over.clone();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let mut session = Conn::new(opts).await.unwrap();
                while !ends.load(Relaxed) {
                    session.query_drop(statement).await.unwrap();
                }
                session.disconnect().await.unwrap();
            });
        });
        Self { over, thread }
    }

    pub(crate) fn end(self) {
        self.over.store(true, Relaxed);
        self.thread.join().unwrap();
    }
}
