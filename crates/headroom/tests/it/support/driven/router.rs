//! The router under the drivers: `headroom route` as a child process.

use super::PASSWORD;
use lab::{Lab, RouterOptions};
use mysql_async::prelude::Queryable;
use std::net::SocketAddrV4;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// `headroom route` in zone a; killed when dropped.
pub(super) struct Router {
    child: Child,
    pub(super) reader: SocketAddrV4,
    pub(super) writer: SocketAddrV4,
    log: PathBuf,
}

impl Router {
    pub(super) async fn start(lab: &Lab) -> Self {
        let (status, dir) = (lab.status().await, lab.dir());
        let addresses = status.router_addresses("a").unwrap();
        let options = RouterOptions {
            reader_socket: Some(dir.join("reader.sock")),
            writer_socket: Some(dir.join("writer.sock")),
            zero_hop: Some("off"),
            ..RouterOptions::default()
        };
        let mut text = status.router_config("a", &options).unwrap();
        // Programs share this machine with other tests: what looks like a pause of a client is often not one.
        text.push_str("\n[router.rebalance]\nquiet = \"30ms\"\n");
        let (file, log) = (dir.join("drivers.toml"), dir.join("drivers.log"));
        std::fs::write(&file, text).unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_headroom"))
            .args(["route", "--config"])
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(&log).unwrap())
            .spawn()
            .unwrap();
        Self { child, reader: addresses.reader, writer: addresses.writer, log }
    }

    /// Waits until the reader sends sessions to a replica and the writer to the primary.
    pub(super) async fn wait_ready(&self) {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let (reader, writer) = (read_only(self.reader).await, read_only(self.writer).await);
            if reader == Some(true) && writer == Some(false) {
                return;
            }
            assert!(Instant::now() < deadline, "not ready: {reader:?} {writer:?}\n{}", self.words());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    fn words(&self) -> String {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        log.lines()
            .rev()
            .take(20)
            .collect::<Vec<_>>()
            .into_iter()
            .rev()
            .map(|l| l.to_owned() + "\n")
            .collect()
    }

    pub(super) fn stop(mut self) -> String {
        let words = self.words();
        let alive = self.child.try_wait().unwrap().is_none();
        assert!(alive, "headroom route ended by itself:\n{words}");
        words
    }
}

impl Drop for Router {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

async fn read_only(address: SocketAddrV4) -> Option<bool> {
    let opts = mysql_async::OptsBuilder::default()
        .ip_or_hostname(address.ip().to_string())
        .tcp_port(address.port())
        .prefer_socket(Some(false))
        .user(Some("driver"))
        .pass(Some(PASSWORD));
    let mut connection = mysql_async::Conn::new(opts).await.ok()?;
    let read_only: Option<i64> = connection.query_first("SELECT @@read_only").await.ok()?;
    let _ = connection.disconnect().await;
    read_only.map(|r| r == 1)
}
