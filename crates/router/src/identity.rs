//! Identity: who the client is, as a proxy in front of us says, and as servers are sent it.
//!
//! Both ways it is a PROXY protocol header: of either version from proxies, of version 2 to servers. It is
//! taken only from addresses that the configuration names, and demanded of those; it is sent only to servers
//! that the configuration names.

use crate::stream::Stream;
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, timeout_at};
use wire::proxy::{self, FIXED, LONGEST_LINE, ProxyError, ProxySource};

/// Why a trusted proxy's header could not be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HeaderError {
    /// The proxy closed without a word, as its own health checks do.
    #[error("nothing at all")]
    Silent,
    /// It closed in the middle of it, or its connection broke.
    #[error("no PROXY protocol header")]
    Missing,
    /// It did not come within the deadline.
    #[error("no PROXY protocol header in time")]
    Late,
    /// It makes no sense.
    #[error("{0}")]
    Wrong(String),
}

/// The client that a trusted proxy speaks for; `None` when it speaks for itself.
pub(crate) async fn read_proxy_header(
    from: &mut Stream,
    until: Instant,
) -> Result<Option<SocketAddr>, HeaderError> {
    let read = async {
        let missing = |_| HeaderError::Missing;
        let wrong = |error: ProxyError| HeaderError::Wrong(error.to_string());
        let mut fixed = [0; FIXED];
        // A check may end with a reset.
        let begun = from.read(&mut fixed[..1]).await.unwrap_or_default();
        if begun == 0 {
            return Err(HeaderError::Silent);
        }
        if proxy::is_line(fixed[0]) {
            let mut line = vec![fixed[0]];
            // One by one: what follows the line is the client's.
            while !line.ends_with(b"\n") && line.len() < LONGEST_LINE {
                line.push(from.read_u8().await.map_err(missing)?);
            }
            return proxy::read_line(&line).map_err(wrong);
        }
        from.read_exact(&mut fixed[begun..]).await.map_err(missing)?;
        let length = proxy::length(&fixed).map_err(wrong)?;
        let mut rest = vec![0; length];
        from.read_exact(&mut rest).await.map_err(missing)?;
        proxy::read(&fixed, &rest).map_err(wrong)
    };
    match timeout_at(until, read).await {
        Ok(Ok(ProxySource::Client(client))) => Ok(Some(client)),
        Ok(Ok(ProxySource::Nobody)) => Ok(None),
        Ok(Err(why)) => Err(why),
        Err(_) => Err(HeaderError::Late),
    }
}

/// Sends the server the client's address, before anything else.
pub(crate) async fn send_proxy_header(server: &mut Stream, client: SocketAddr) -> std::io::Result<()> {
    // What the client dialled matters to nobody; the server's own end is as good as any.
    let own = match server {
        Stream::Tcp(tcp) => tcp.peer_addr()?,
        _ => SocketAddr::new(std::net::Ipv4Addr::UNSPECIFIED.into(), 0),
    };
    server.write_all(&proxy::write(client, own)).await
}
