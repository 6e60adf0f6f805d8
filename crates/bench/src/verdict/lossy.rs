//! A way to a server on which segments are lost: a relay behind a unix socket, whose connections to the
//! server throw away a share of the segments that come to them, at random, before TCP has seen them. So the
//! server has to send them again.
//!
//! It is done by a filter on the relay's own sockets (`SO_ATTACH_FILTER`, classic BPF): no rule of a
//! firewall, no queue of an interface and nobody else's connection has a part in it.

use anyhow::Context;
use socket2::{SockFilter, SockRef};
use std::net::SocketAddrV4;
use std::path::{Path, PathBuf};
use tokio::net::{TcpStream, UnixListener, UnixStream};
use tokio::task::{AbortHandle, JoinSet};

/// The way; dropped, it is closed.
pub(super) struct LossyWay {
    path: PathBuf,
    relay: AbortHandle,
}

impl LossyWay {
    /// Opens it in `directory`; this share of what the server sends is lost.
    pub(super) fn open(directory: &Path, server: SocketAddrV4, share: f64) -> anyhow::Result<Self> {
        let path = directory.join("lossy");
        let _ = std::fs::remove_file(&path);
        let listener =
            UnixListener::bind(&path).with_context(|| format!("listening at {}", path.display()))?;
        let relay = tokio::spawn(serve(listener, server, share)).abort_handle();
        Ok(Self { path, relay })
    }

    /// The unix socket.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for LossyWay {
    fn drop(&mut self) {
        self.relay.abort();
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Connections end with this.
async fn serve(listener: UnixListener, server: SocketAddrV4, share: f64) {
    let mut connections = JoinSet::new();
    while let Ok((near, _)) = listener.accept().await {
        connections.spawn(async move {
            if let Err(error) = relay(near, server, share).await {
                tracing::warn!(%error, "a connection over the lossy way ended");
            }
        });
        while connections.try_join_next().is_some() {}
    }
}

async fn relay(mut near: UnixStream, server: SocketAddrV4, share: f64) -> std::io::Result<()> {
    let mut far = TcpStream::connect(server).await?;
    far.set_nodelay(true)?;
    SockRef::from(&far).attach_filter(&filter(share))?;
    tokio::io::copy_bidirectional(&mut near, &mut far).await?;
    Ok(())
}

/// Reads a random number of 32 bits; below the share's part of all of them the segment is dropped, else all
/// of it is kept.
fn filter(share: f64) -> [SockFilter; 4] {
    /// `BPF_LD | BPF_W | BPF_ABS`, at an offset where the kernel has a random number (`SKF_AD_RANDOM`).
    const LOAD: u16 = 0x20;
    const RANDOM: u32 = 0xffff_f000 + 56;
    /// `BPF_JMP | BPF_JGE | BPF_K`.
    const IF_AT_LEAST: u16 = 0x35;
    /// `BPF_RET | BPF_K`: how many bytes are kept.
    const KEEP: u16 = 0x06;
    let lost = (f64::from(u32::MAX) * share) as u32;
    [
        SockFilter::new(LOAD, 0, 0, RANDOM),
        SockFilter::new(IF_AT_LEAST, 1, 0, lost),
        SockFilter::new(KEEP, 0, 0, 0),
        SockFilter::new(KEEP, 0, 0, u32::MAX),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;
    use std::time::Duration;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    #[tokio::test]
    async fn bytes_arrive_whole_and_in_order_though_segments_are_lost() {
        let dir = tempfile::tempdir().unwrap();
        let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = server.local_addr().unwrap().port();
        let way = LossyWay::open(dir.path(), SocketAddrV4::new(Ipv4Addr::LOCALHOST, port), 0.2).unwrap();
        let mut client = UnixStream::connect(way.path()).await.unwrap();
        let (mut session, _) = server.accept().await.unwrap();
        let exchange = async {
            for number in 0..20u8 {
                client.write_all(&[number]).await.unwrap();
                let mut asked = [0];
                session.read_exact(&mut asked).await.unwrap();
                session.write_all(&[asked[0] + 1]).await.unwrap();
                let mut answer = [0];
                client.read_exact(&mut answer).await.unwrap();
                assert_eq!(answer[0], number + 1);
            }
        };
        tokio::time::timeout(Duration::from_secs(60), exchange).await.unwrap();
        let path = way.path().to_owned();
        drop(way);
        assert!(!path.exists());
    }
}
