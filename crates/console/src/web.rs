//! One request to an HTTP or HTTPS address, one answer, a deadline: what reads agents and routers, calls
//! webhooks and sends to collectors.
//!
//! No redirects, no cookies, no kept connections. Whoever answers over TLS is verified by name. An address
//! may hold a secret in its path (webhooks do), so only `scheme://host:port` of it is ever shown.

use crate::token::Token;
use fleet::Blame;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Body, Bytes};
use hyper::client::conn::http1;
use hyper::header::{AUTHORIZATION, CONNECTION, CONTENT_TYPE, HOST, USER_AGENT};
use hyper::http::request::Builder;
use hyper::{HeaderMap, Method, Request, Response};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use std::fmt;
use std::path::Path;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_util::task::AbortOnDropHandle;
use url::{Host, Url};

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

impl WebError {
    /// Whose fault it is. A certificate that is not right is mended by a file: its own, or our authority's.
    pub fn blame(&self) -> Blame {
        match self {
            Self::Unreached { .. } | Self::Late { .. } => Blame::Network,
            Self::Tls { .. } => Blame::Config,
            Self::Broken { .. } => Blame::Server,
        }
    }
}

/// An address that is asked, again and again.
#[derive(Clone)]
pub struct Web {
    address: WebAddress,
    /// There where the address is HTTPS.
    tls: Option<TlsConnector>,
    deadline: Duration,
    /// Bytes of an answer at most.
    largest: usize,
}

impl Web {
    /// Asks `address`. Its certificate must come from `authority`; by default from one that the web trusts.
    pub fn new(
        address: WebAddress,
        authority: Option<&Path>,
        deadline: Duration,
        largest: usize,
    ) -> Result<Self, tls::TlsError> {
        let tls = match address.is_https() {
            true => Some(TlsConnector::from(tls::https::client(authority)?)),
            false => None,
        };
        Ok(Self { address, tls, deadline, largest })
    }

    /// The same place and trust, another path and query.
    pub fn at(&self, target: &str) -> Self {
        Self { address: self.address.at(target), ..self.clone() }
    }

    /// Where it asks.
    pub fn address(&self) -> &WebAddress {
        &self.address
    }

    /// Reads what is there; the status code and the body.
    ///
    /// # Errors
    /// There is no whole answer in time.
    pub async fn get(&self, token: Option<&Token>) -> Result<(u16, Bytes), WebError> {
        let mut request = self.request(Method::GET);
        if let Some(token) = token {
            request = request.header(AUTHORIZATION, token.header());
        }
        self.ask(request.body(Full::default())).await.map(code_and_body)
    }

    /// Sends JSON there; the status code and the body.
    ///
    /// # Errors
    /// There is no whole answer in time.
    pub async fn post(&self, json: String) -> Result<(u16, Bytes), WebError> {
        let request = self.request(Method::POST).header(CONTENT_TYPE, "application/json");
        self.ask(request.body(Full::from(json))).await.map(code_and_body)
    }

    /// Sends bytes there with headers of the sender's, the kind of the bytes among them; the answer with its
    /// own headers.
    ///
    /// # Errors
    /// There is no whole answer in time.
    pub async fn send(&self, headers: &HeaderMap, body: Bytes) -> Result<Response<Bytes>, WebError> {
        let mut request = self.request(Method::POST);
        if let Some(all) = request.headers_mut() {
            // Theirs instead of ours, where both have one.
            all.extend(headers.clone());
        }
        self.ask(request.body(Full::from(body))).await
    }

    fn request(&self, method: Method) -> Builder {
        Request::builder()
            .method(method)
            .uri(self.address.target())
            .header(HOST, self.address.authority())
            .header(CONNECTION, "close")
            .header(USER_AGENT, concat!("headroom/", env!("CARGO_PKG_VERSION")))
    }

    async fn ask(
        &self,
        request: hyper::http::Result<Request<Full<Bytes>>>,
    ) -> Result<Response<Bytes>, WebError> {
        let at = || self.address.to_string();
        let broken = |why: String| WebError::Broken { at: at(), why };
        let request = request.map_err(|error| broken(error.to_string()))?;
        let answered = async {
            let stream = TcpStream::connect((self.address.host(), self.address.port()))
                .await
                .map_err(|error| WebError::Unreached { at: at(), why: error.to_string() })?;
            let Some(tls) = &self.tls else {
                return exchange(stream, request, self.largest).await.map_err(broken);
            };
            let failed = |why: String| WebError::Tls { at: at(), why };
            let name =
                ServerName::try_from(self.address.host()).map_err(|error| failed(error.to_string()))?;
            let stream = tls.connect(name, stream).await.map_err(|error| failed(error.to_string()))?;
            exchange(stream, request, self.largest).await.map_err(broken)
        };
        let late = || WebError::Late { at: at(), limit: self.deadline };
        tokio::time::timeout(self.deadline, answered).await.map_err(|_| late())?
    }
}

impl fmt::Debug for Web {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Web({})", self.address)
    }
}

fn code_and_body(answer: Response<Bytes>) -> (u16, Bytes) {
    (answer.status().as_u16(), answer.into_body())
}

/// Sends one request over a connection of its own; the whole answer, or why there is none.
pub(crate) async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: Request<Full<Bytes>>,
    largest: usize,
) -> Result<Response<Bytes>, String> {
    let words = |error: hyper::Error| match error.is_parse() {
        true => "it does not speak HTTP".to_owned(),
        false => error.to_string(),
    };
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(words)?;
    // Ends with the answer, however long the other side leaves the connection open.
    let _connection = AbortOnDropHandle::new(tokio::spawn(connection));
    let answer = sender.send_request(request).await.map_err(words)?;
    if answer.body().size_hint().lower() > largest as u64 {
        return Err(format!("it is longer than {largest} bytes"));
    }
    let (head, body) = answer.into_parts();
    let body = Limited::new(body, largest).collect().await.map_err(|error| error.to_string())?;
    Ok(Response::from_parts(head, body.to_bytes()))
}

/// Why a text is no address; nothing of its path is in it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WebAddressError {
    #[error("it begins with neither https:// nor http://")]
    Scheme,
    #[error("its host or port is not right ({0})")]
    Place(url::ParseError),
    #[error("it holds a user or password before the host; remove it")]
    Login,
    #[error("what follows its host is no port")]
    Port,
}

impl WebAddressError {
    /// Whose fault it is: whoever wrote it.
    pub fn blame(&self) -> Blame {
        Blame::Config
    }
}

/// `http://` or `https://`, host, port, and what is asked for there. Shown without path and query: those may
/// hold secrets.
#[derive(Clone, PartialEq, Eq)]
pub struct WebAddress(Url);

impl WebAddress {
    /// Reads an address; complaints show nothing of its path.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, WebAddressError> {
        if !text.starts_with("https://") && !text.starts_with("http://") {
            return Err(WebAddressError::Scheme);
        }
        let url = Url::parse(text).map_err(WebAddressError::Place)?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(WebAddressError::Login);
        }
        if url.port() == Some(0) {
            return Err(WebAddressError::Port);
        }
        Ok(Self(url))
    }

    /// The same place, another path and query.
    pub fn at(&self, target: &str) -> Self {
        let mut url = self.0.clone();
        let (path, query) =
            target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
        url.set_path(path);
        url.set_query(query);
        Self(url)
    }

    /// An address below this one: `/v1/metrics` of a collector. A query stays.
    pub fn below(&self, path: &[&str]) -> Self {
        let mut url = self.0.clone();
        // Those of HTTP always have a path.
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        Self(url)
    }

    /// Whether it is HTTPS.
    pub fn is_https(&self) -> bool {
        self.0.scheme() == "https"
    }

    /// Whether it can only be this machine.
    pub fn is_loopback(&self) -> bool {
        match self.0.host() {
            Some(Host::Domain(name)) => name == "localhost",
            Some(Host::Ipv4(ip)) => ip.is_loopback(),
            Some(Host::Ipv6(ip)) => ip.is_loopback(),
            None => false,
        }
    }

    /// The host's name or number, as it is looked up.
    fn host(&self) -> String {
        match self.0.host() {
            Some(Host::Ipv6(ip)) => ip.to_string(),
            Some(host) => host.to_string(),
            None => String::new(),
        }
    }

    fn port(&self) -> u16 {
        self.0.port_or_known_default().unwrap_or(80)
    }

    /// Path and query. May hold a secret.
    fn target(&self) -> String {
        match self.0.query() {
            Some(query) => format!("{}?{query}", self.0.path()),
            None => self.0.path().to_owned(),
        }
    }

    /// Host and port, for the header `Host` and for people.
    fn authority(&self) -> String {
        format!("{}:{}", self.0.host_str().unwrap_or_default(), self.port())
    }
}

impl fmt::Display for WebAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.0.scheme(), self.authority())
    }
}

impl fmt::Debug for WebAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WebAddress({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[test]
    fn silence_is_the_networks_fault_and_a_certificate_the_files() {
        let (at, why) = (|| "https://hooks.example".to_owned(), || "refused".to_owned());
        let late = WebError::Late { at: at(), limit: Duration::from_secs(1) };
        for (error, blame) in [
            (WebError::Unreached { at: at(), why: why() }, Blame::Network),
            (late, Blame::Network),
            (WebError::Tls { at: at(), why: why() }, Blame::Config),
            (WebError::Broken { at: at(), why: why() }, Blame::Server),
        ] {
            assert_eq!(error.blame(), blame, "{error}");
        }
        assert_eq!(WebAddress::parse("ftp://x").unwrap_err().blame(), Blame::Config);
    }

    #[test]
    fn addresses_are_taken_apart_and_have_the_usual_ports() {
        let address = WebAddress::parse("https://Hooks.example/services/T0/secret?x=1#top").unwrap();
        assert_eq!(
            (address.host().as_str(), address.port(), address.target().as_str()),
            ("hooks.example", 443, "/services/T0/secret?x=1")
        );
        let address = WebAddress::parse("http://[::1]:9307").unwrap();
        assert_eq!((address.host().as_str(), address.port(), address.target().as_str()), ("::1", 9307, "/"));
        assert!(address.is_loopback());
        assert_eq!(address.to_string(), "http://[::1]:9307");
        assert_eq!(WebAddress::parse("http://db1?x").unwrap().target(), "/?x");
        assert_eq!(address.at("/watch.json?a=1").target(), "/watch.json?a=1");
        for (base, whole) in [
            ("http://db1:4318", "/v1/metrics"),
            ("http://db1:4318/", "/v1/metrics"),
            ("https://db1/otlp/", "/otlp/v1/metrics"),
            ("https://db1/otlp?tenant=1", "/otlp/v1/metrics?tenant=1"),
        ] {
            assert_eq!(WebAddress::parse(base).unwrap().below(&["v1", "metrics"]).target(), whole);
        }
    }

    #[test]
    fn nothing_of_the_path_is_ever_shown() {
        let address = WebAddress::parse("https://hooks.example/secret").unwrap();
        let shown = format!("{address} {address:?}");
        assert_eq!(shown, "https://hooks.example:443 WebAddress(https://hooks.example:443)");
    }

    #[test]
    fn what_is_no_address_is_refused_in_words() {
        for (wrong, why) in [
            ("hooks.example", "begins with"),
            ("https://", "host"),
            ("https://user:pass@host/", "password"),
            ("https://host:port/", "port"),
            ("https://host:0/", "port"),
            ("https://ho st/", "host"),
        ] {
            let said = WebAddress::parse(wrong).unwrap_err().to_string();
            assert!(said.contains(why) && !said.contains("pass@"), "{wrong}: {said}");
        }
    }

    #[test]
    fn a_path_cannot_add_a_header() {
        let target = WebAddress::parse("https://host/a b\r\nx: y").unwrap().target();
        assert!(target.chars().all(|c| c.is_ascii_graphic()), "{target}");
    }

    /// The answer to a request where the other side sends these bytes and then closes or waits.
    async fn answered(bytes: &'static [u8], closes: bool) -> Result<(u16, Bytes), String> {
        let (ours, mut theirs) = tokio::io::duplex(4096);
        let serving = tokio::spawn(async move {
            let _ = theirs.read(&mut [0; 1024]).await;
            theirs.write_all(bytes).await.unwrap();
            if !closes {
                std::future::pending::<()>().await;
            }
        });
        let request = Request::builder().uri("/").header(HOST, "here").body(Full::default()).unwrap();
        let answer = exchange(ours, request, 1024).await;
        serving.abort();
        answer.map(code_and_body)
    }

    #[tokio::test]
    async fn an_answer_is_whole_by_its_length_by_its_chunks_or_by_the_end() {
        let sized = answered(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", false).await;
        assert_eq!(sized, Ok((200, Bytes::from_static(b"ok"))));
        let chunks = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n1\r\n!\r\n0\r\n\r\n";
        assert_eq!(answered(chunks, false).await, Ok((200, Bytes::from_static(b"ok!"))));
        let open = answered(b"HTTP/1.0 500 No\r\n\r\nwhy", true).await;
        assert_eq!(open, Ok((500, Bytes::from_static(b"why"))));
    }

    #[tokio::test]
    async fn a_part_is_no_answer_nor_is_something_else_or_too_much() {
        assert!(answered(b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\nok", true).await.is_err());
        assert!(answered(b"", true).await.is_err());
        let other = answered(b"J\0\0\0\n5.5.5-10.11.6-MariaDB\r\n\r\n", true).await;
        assert_eq!(other, Err("it does not speak HTTP".to_owned()));
        let long = answered(b"HTTP/1.1 200 OK\r\nContent-Length: 4096\r\n\r\n", false).await;
        assert!(long.is_err(), "{long:?}");
    }
}
