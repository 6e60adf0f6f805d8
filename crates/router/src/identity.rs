//! Identity: who the client is, as a proxy in front of us tells it, and as we tell it to servers.
//!
//! Both ways it is a PROXY protocol header of version 2. It is taken only from addresses that the configuration names,
//! and demanded of those; it is sent only to servers that the configuration names.

use crate::stream::Stream;
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, timeout_at};
use wire::proxy::{self, FIXED, Said};

/// The client that a trusted proxy speaks for; `None` when it speaks for itself. The error is in words.
pub(crate) async fn told_by_proxy(from: &mut Stream, until: Instant) -> Result<Option<SocketAddr>, String> {
    let read = async {
        let gone = |_| "no PROXY protocol header".to_owned();
        let mut fixed = [0; FIXED];
        from.read_exact(&mut fixed).await.map_err(gone)?;
        let mut rest = vec![0; proxy::length(&fixed).map_err(|e| e.to_string())?];
        from.read_exact(&mut rest).await.map_err(gone)?;
        proxy::read(&fixed, &rest).map_err(|e| e.to_string())
    };
    match timeout_at(until, read).await {
        Ok(Ok(Said::Client(client))) => Ok(Some(client)),
        Ok(Ok(Said::Nobody)) => Ok(None),
        Ok(Err(why)) => Err(why),
        Err(_) => Err("no PROXY protocol header in time".to_owned()),
    }
}

/// Tells the server who the client is, before anything else is said to it.
pub(crate) async fn tell(server: &mut Stream, client: SocketAddr) -> std::io::Result<()> {
    // What the client dialled matters to nobody; the server's own end is as good as any.
    let own = match server {
        Stream::Tcp(tcp) => tcp.peer_addr()?,
        _ => SocketAddr::new(std::net::Ipv4Addr::UNSPECIFIED.into(), 0),
    };
    server.write_all(&proxy::write(client, own)).await
}
