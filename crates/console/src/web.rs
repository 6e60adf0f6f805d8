//! One request to an HTTP or HTTPS address, one answer, a deadline: what reads agents and rings webhooks.
//!
//! No redirects, no cookies, no kept connections. Whoever answers over TLS is verified by name. An address
//! may hold a secret in its path (webhooks do), so only `scheme://host:port` of it is ever shown.

mod answer;
mod url;

pub use url::Url;

use answer::Answer;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// Why there is no answer. Shows no path, no header and no body of ours.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WebError {
    /// Nobody is there, or not in time.
    #[error("{at} cannot be reached: {why}")]
    Unreached { at: String, why: String },
    /// TLS cannot be agreed on, or the certificate is not right.
    #[error("{at}: TLS failed: {why}")]
    Tls { at: String, why: String },
    /// It was cut short, too long or no HTTP.
    #[error("{at} gave no whole HTTP answer: {why}")]
    Broken { at: String, why: String },
    /// The deadline has passed.
    #[error("{at} did not answer within {} s", .limit.as_secs())]
    Late { at: String, limit: Duration },
}

/// What is asked.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// `GET` or `POST`.
    pub method: &'a str,
    /// Header lines without their ends, beside `Host`, `Connection` and `Content-Length`. May hold secrets.
    pub headers: &'a [String],
    /// JSON, or nothing.
    pub body: &'a str,
}

/// Asks one address, again and again.
#[derive(Clone)]
pub struct Web {
    url: Url,
    /// There where the address is HTTPS.
    tls: Option<TlsConnector>,
    deadline: Duration,
    /// Bytes of an answer at most.
    largest: usize,
}

impl Web {
    /// Asks `url`. Its certificate must come from `authority`; by default from one that the web trusts.
    pub fn new(
        url: Url,
        authority: Option<&std::path::Path>,
        deadline: Duration,
        largest: usize,
    ) -> Result<Self, tls::TlsError> {
        let tls = match url.is_sealed() {
            true => Some(TlsConnector::from(tls::https::client(authority)?)),
            false => None,
        };
        Ok(Self { url, tls, deadline, largest })
    }

    /// The same place and trust, another path.
    pub fn at(&self, target: &str) -> Self {
        Self { url: self.url.at(target), ..self.clone() }
    }

    /// Where it asks.
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// The status code and the body.
    pub async fn ask(&self, request: Request<'_>) -> Result<(u16, Vec<u8>), WebError> {
        let late = WebError::Late { at: self.url.to_string(), limit: self.deadline };
        tokio::time::timeout(self.deadline, self.exchange(request)).await.map_err(|_| late)?
    }

    async fn exchange(&self, request: Request<'_>) -> Result<(u16, Vec<u8>), WebError> {
        let at = || self.url.to_string();
        let stream = TcpStream::connect((self.url.host(), self.url.port()))
            .await
            .map_err(|e| WebError::Unreached { at: at(), why: e.to_string() })?;
        let Some(tls) = &self.tls else { return self.talk(stream, request).await };
        let name = rustls::pki_types::ServerName::try_from(self.url.host().to_owned())
            .map_err(|e| WebError::Tls { at: at(), why: e.to_string() })?;
        let stream =
            tls.connect(name, stream).await.map_err(|e| WebError::Tls { at: at(), why: e.to_string() })?;
        self.talk(stream, request).await
    }

    async fn talk(
        &self,
        mut stream: impl AsyncRead + AsyncWrite + Unpin,
        request: Request<'_>,
    ) -> Result<(u16, Vec<u8>), WebError> {
        let broken = |why: String| WebError::Broken { at: self.url.to_string(), why };
        let text = self.text(request);
        stream.write_all(text.as_bytes()).await.map_err(|e| broken(e.to_string()))?;
        stream.flush().await.map_err(|e| broken(e.to_string()))?;
        let mut read = Vec::new();
        loop {
            let ended = match stream.read_buf(&mut read).await {
                Ok(count) => count == 0,
                // Many close TLS without saying goodbye; whether the answer is whole, its length tells.
                Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => true,
                Err(error) => return Err(broken(error.to_string())),
            };
            match Answer::read(&read, ended) {
                Answer::Whole(code, body) => return Ok((code, body)),
                Answer::Wrong(why) => return Err(broken(why.to_owned())),
                Answer::Part if ended => return Err(broken("it ended in the middle".to_owned())),
                Answer::Part if read.len() > self.largest => {
                    return Err(broken(format!("it is longer than {} bytes", self.largest)));
                }
                Answer::Part => {}
            }
        }
    }

    fn text(&self, request: Request<'_>) -> String {
        let Request { method, headers, body } = request;
        let mut text = format!(
            "{method} {} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nUser-Agent: headroom/{}\r\n",
            self.url.target(),
            self.url.authority(),
            env!("CARGO_PKG_VERSION"),
        );
        for header in headers {
            text.push_str(header);
            text.push_str("\r\n");
        }
        if method != "GET" {
            let length = body.len();
            text.push_str(&format!("Content-Type: application/json\r\nContent-Length: {length}\r\n"));
        }
        text.push_str("\r\n");
        text.push_str(body);
        text
    }
}

impl std::fmt::Debug for Web {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Web({})", self.url)
    }
}
