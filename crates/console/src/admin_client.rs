//! Asks the admin address of a running `headroom route`: one small HTTP request, one answer, a deadline.

use crate::insight_view::{InsightView, Question};
use crate::status_view::StatusView;
use anyhow::{Context, bail};
use config::Admin;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const DEADLINE: Duration = Duration::from_secs(5);
/// A status is some kilobytes; this is a router of ten thousand servers.
const LARGEST: u64 = 32 << 20;

/// A running router, by its admin address.
#[derive(Clone, Debug)]
pub struct AdminClient {
    address: String,
}

impl AdminClient {
    /// The router at this address, by default the usual one.
    pub fn new(named: Option<&str>) -> Self {
        Self { address: address(named) }
    }

    /// Where it is asked.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// How things stand.
    pub async fn status(&self) -> anyhow::Result<StatusView> {
        let (code, body) = self.ask("/status.json").await?;
        if code != 200 {
            bail!("{} answered {code}: {}", self.address, body.trim());
        }
        serde_json::from_str(&body).with_context(|| {
            format!(
                "{} does not answer like headroom route; name its admin address with --admin",
                self.address
            )
        })
    }

    /// What statements tell.
    pub async fn insight(&self, question: &Question) -> anyhow::Result<InsightView> {
        let (code, body) = self.ask(&format!("/insight.json?{}", question.query())).await?;
        if code != 200 {
            bail!("{} answered {code}: {}", self.address, body.trim());
        }
        serde_json::from_str(&body).with_context(|| {
            format!(
                "{} is no headroom route of this version; name its admin address with --admin",
                self.address
            )
        })
    }

    async fn ask(&self, path: &str) -> anyhow::Result<(u16, String)> {
        let exchange = async {
            let mut stream = TcpStream::connect(&self.address).await.with_context(|| {
                format!(
                    "no headroom route answers at {}; is it running there? Name its admin address with --admin",
                    self.address
                )
            })?;
            // The number, not the name: a router on loopback answers to no foreign name.
            let host = stream.peer_addr()?;
            let request = format!("GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
            stream.write_all(request.as_bytes()).await?;
            let mut answer = Vec::new();
            stream.take(LARGEST).read_to_end(&mut answer).await?;
            anyhow::Ok(answer)
        };
        let answer = tokio::time::timeout(DEADLINE, exchange)
            .await
            .with_context(|| format!("{} did not answer within {} s", self.address, DEADLINE.as_secs()))??;
        parse(&answer).with_context(|| format!("{} does not speak HTTP as headroom route does", self.address))
    }
}

/// An admin address as people write it, by default the usual one.
pub(crate) fn address(named: Option<&str>) -> String {
    named.map_or_else(
        || Admin::DEFAULT_ADDRESS.to_string(),
        |text| text.trim_start_matches("http://").trim_end_matches('/').to_owned(),
    )
}

/// Status code and body of an answer that ends with its connection.
fn parse(answer: &[u8]) -> Option<(u16, String)> {
    let text = String::from_utf8_lossy(answer);
    let (head, body) = text.split_once("\r\n\r\n")?;
    let mut first = head.lines().next()?.split(' ');
    let code = first.next().filter(|v| v.starts_with("HTTP/")).and_then(|_| first.next())?.parse().ok()?;
    Some((code, body.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_cut_at_the_empty_line_and_anything_else_is_none() {
        let answer = b"HTTP/1.1 409 Conflict\r\ncontent-length: 2\r\n\r\nno";
        assert_eq!(parse(answer), Some((409, "no".to_owned())));
        assert_eq!(parse(b"J\0\0\0\n5.5.5-10.11.6-MariaDB"), None);
    }

    #[test]
    fn a_url_is_an_address_and_without_any_it_is_the_usual_one() {
        assert_eq!(AdminClient::new(Some("http://127.0.0.1:2/")).address, "127.0.0.1:2");
        assert_eq!(AdminClient::new(None).address, "127.0.0.1:9306");
    }
}
