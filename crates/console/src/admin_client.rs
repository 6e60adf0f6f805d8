//! Asks the admin address of a running `headroom route`: one small HTTP request, one answer, a deadline.

use crate::insight_view::{InsightView, Question};
use crate::status_view::{ServerView, StatusView};
use crate::web;
use anyhow::{Context, anyhow, bail, ensure};
use config::Admin;
use fleet::ServerName;
use http_body_util::Full;
use hyper::Request;
use hyper::header::{CONNECTION, HOST};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::watch;

const DEADLINE: Duration = Duration::from_secs(5);
/// A status is some kilobytes; this is a router of ten thousand servers.
const LARGEST: usize = 32 << 20;

/// A router that takes longer to say how things stand is not heard.
const SOON: Duration = Duration::from_secs(2);

/// Which server's commits hang, by the first of these routers that says so, with its evidence; asked again
/// and again while anybody listens. One that does not answer is logged, once: nothing is known by it.
pub fn watch_gray(routers: &[String], every: Duration) -> watch::Receiver<Option<(ServerName, String)>> {
    let (publish, latest) = watch::channel(None);
    let client = |at: &String| (AdminClient::new(Some(at)), false);
    let mut clients: Vec<(AdminClient, bool)> = routers.iter().map(client).collect();
    tokio::spawn(async move {
        while !publish.is_closed() {
            let mut found = None;
            for (client, is_silent) in &mut clients {
                let answer = tokio::time::timeout(SOON, client.status()).await;
                let status = match answer.unwrap_or_else(|_| Err(anyhow!("no answer within {SOON:?}"))) {
                    Ok(status) => status,
                    Err(error) => {
                        if !std::mem::replace(is_silent, true) {
                            let router = client.address();
                            tracing::warn!(router, "asked whether commits hang, it tells nothing: {error:#}");
                        }
                        continue;
                    }
                };
                if std::mem::take(is_silent) {
                    tracing::info!(router = client.address(), "tells again whether commits hang");
                }
                let hangs = |server: &ServerView| {
                    Some((ServerName::new(&server.name), server.routing.as_ref()?.gray.clone()?))
                };
                found = found.or_else(|| status.fleet.servers.iter().find_map(hangs));
            }
            publish.send_replace(found);
            tokio::time::sleep(every).await;
        }
    });
    latest
}

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
        let no_router = || {
            format!(
                "{} does not answer like headroom route; name its admin address with --admin",
                self.address
            )
        };
        let status: StatusView = serde_json::from_str(&body).with_context(no_router)?;
        // Each field has a default: what a guard answers would be a router that knows no server.
        ensure!(!status.process.version.is_empty(), no_router());
        Ok(status)
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
        let asked = async {
            let stream = TcpStream::connect(&self.address).await.with_context(|| {
                format!(
                    "no headroom route answers at {}; is it running there? Name its admin address with --admin",
                    self.address
                )
            })?;
            // The number, not the name: a router on loopback answers to no foreign name.
            let host = stream.peer_addr()?.to_string();
            let request = Request::builder().uri(path).header(HOST, host).header(CONNECTION, "close");
            let answer = web::exchange(stream, request.body(Full::default())?, LARGEST)
                .await
                .map_err(|why| anyhow!("{} does not answer like headroom route: {why}", self.address))?;
            Ok((answer.status().as_u16(), String::from_utf8_lossy(answer.body()).into_owned()))
        };
        tokio::time::timeout(DEADLINE, asked)
            .await
            .with_context(|| format!("{} did not answer within {} s", self.address, DEADLINE.as_secs()))?
    }
}

/// An admin address as people write it, by default the usual one.
pub(crate) fn address(named: Option<&str>) -> String {
    named.map_or_else(
        || Admin::DEFAULT_ADDRESS.to_string(),
        |text| text.trim_start_matches("http://").trim_end_matches('/').to_owned(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::{self, ServiceStatus};
    use std::time::Instant;

    #[test]
    fn a_url_is_an_address_and_without_any_it_is_the_usual_one() {
        assert_eq!(AdminClient::new(Some("http://127.0.0.1:2/")).address, "127.0.0.1:2");
        assert_eq!(AdminClient::new(None).address, "127.0.0.1:9306");
    }

    #[tokio::test]
    async fn a_guard_is_no_router_that_knows_no_server() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let json = r#"{"primary":"db1","active":true,"rounds":7}"#.to_owned();
        let (at, fresh) = (Instant::now(), Duration::from_secs(30));
        let (_tell, latest) = watch::channel(ServiceStatus { at, fresh, json, metrics: String::new() });
        tokio::spawn(service::serve(listener, latest));
        let words = AdminClient::new(Some(&address)).status().await.unwrap_err().to_string();
        assert!(words.contains("does not answer like headroom route"), "{words}");
    }
}
