//! Our own zone from the cloud's metadata service: EC2's, version 2 (a token first, then the value).
//!
//! The id (`euw1-az2`) is asked for, not the name (`eu-west-1b`): names mean different places in different
//! accounts. The service is one hop away and answers in milliseconds or not at all, so the whole talk has a
//! short deadline. A few lines of HTTP/1.1 by hand: two requests to a fixed address need no client library.

use fleet::Zone;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Where EC2's metadata service listens.
pub(crate) const EC2: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::new(169, 254, 169, 254)), 80);

/// An answer longer than this is not one of ours.
const LONGEST: u64 = 16 * 1024;

/// Why the zone is not known from there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum MetadataError {
    #[error("the cloud's metadata service at {0} does not answer")]
    Silent(SocketAddr),
    #[error("the cloud's metadata service at {at} answered {status} to {path}")]
    Refused { at: SocketAddr, path: &'static str, status: u16 },
    #[error("the cloud's metadata service at {0} does not speak HTTP")]
    Nonsense(SocketAddr),
}

/// Asks for the id of our availability zone.
pub(crate) async fn own_zone(at: SocketAddr, deadline: Duration) -> Result<Zone, MetadataError> {
    let talk = async {
        let token =
            request(at, "PUT", "/latest/api/token", "X-aws-ec2-metadata-token-ttl-seconds: 60").await?;
        let path = "/latest/meta-data/placement/availability-zone-id";
        let zone = request(at, "GET", path, &format!("X-aws-ec2-metadata-token: {token}")).await?;
        Ok(Zone::new(&zone))
    };
    tokio::time::timeout(deadline, talk).await.unwrap_or(Err(MetadataError::Silent(at)))
}

async fn request(
    at: SocketAddr,
    method: &str,
    path: &'static str,
    header: &str,
) -> Result<String, MetadataError> {
    let silent = |_| MetadataError::Silent(at);
    let mut stream = TcpStream::connect(at).await.map_err(silent)?;
    let text = format!(
        "{method} {path} HTTP/1.1\r\nHost: {at}\r\n{header}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(text.as_bytes()).await.map_err(silent)?;
    let mut answer = Vec::new();
    stream.take(LONGEST).read_to_end(&mut answer).await.map_err(silent)?;
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer.split_once("\r\n\r\n").ok_or(MetadataError::Nonsense(at))?;
    let status = head
        .strip_prefix("HTTP/1.")
        .and_then(|rest| rest.split(' ').nth(1))
        .and_then(|status| status.parse().ok())
        .ok_or(MetadataError::Nonsense(at))?;
    let body = body.trim();
    // What comes back goes into a header or becomes a name: one plain word.
    let plain = !body.is_empty() && body.bytes().all(|b| b.is_ascii_graphic());
    match status {
        200 if plain => Ok(body.to_owned()),
        200 => Err(MetadataError::Nonsense(at)),
        status => Err(MetadataError::Refused { at, path, status }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;

    /// Serves a metadata service that gives `zone` to those who bring the token.
    async fn serve(zone: &'static str) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        tokio::spawn(async move {
            for _ in 0..2 {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut buffer = vec![0; 1024];
                let n = stream.read(&mut buffer).await.unwrap();
                let asked = String::from_utf8_lossy(&buffer[..n]).into_owned();
                let answer = if asked.starts_with("PUT /latest/api/token")
                    && asked.contains("ttl-seconds: 60")
                {
                    "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nt0ken".to_owned()
                } else if asked.contains("availability-zone-id") && asked.contains("metadata-token: t0ken") {
                    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{zone}", zone.len())
                } else {
                    "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n".to_owned()
                };
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        });
        at
    }

    #[tokio::test]
    async fn the_zone_id_is_asked_with_a_token() {
        let at = serve("euw1-az2").await;
        assert_eq!(own_zone(at, Duration::from_secs(60)).await, Ok(Zone::new("euw1-az2")));
    }

    #[tokio::test]
    async fn a_service_that_is_not_there_or_says_nothing_is_named() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mute = listener.local_addr().unwrap();
        assert_eq!(own_zone(mute, Duration::from_millis(50)).await, Err(MetadataError::Silent(mute)));
        drop(listener);
        assert_eq!(own_zone(mute, Duration::from_secs(5)).await, Err(MetadataError::Silent(mute)));
    }
}
