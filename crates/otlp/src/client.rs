//! One export: a message encoded and compressed, one POST, and what the answer means to OTLP.

use crate::error::OtlpError;
use console::web::{Web, WebAddress};
use flate2::Compression;
use flate2::write::GzEncoder;
use hyper::body::Bytes;
use hyper::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use hyper::{HeaderMap, Response, StatusCode};
use prost::Message;
use std::fmt;
use std::io::Write;
use std::time::Duration;

/// Where messages of one kind go, and with what.
pub struct Signal {
    web: Web,
    /// What the operator adds, and the kind of the body.
    headers: HeaderMap,
    gzip: bool,
    /// Secrets go there unencrypted, and not only within this machine.
    shows_headers: bool,
}

impl Signal {
    pub(crate) fn new(web: Web, mut headers: HeaderMap, gzip: bool) -> Self {
        let address = web.address();
        let shows_headers = !headers.is_empty() && !address.is_https() && !address.is_loopback();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf"));
        if gzip {
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        Self { web, headers, gzip, shows_headers }
    }

    /// Where it sends to; shown without its path.
    pub fn address(&self) -> &WebAddress {
        self.web.address()
    }

    pub(crate) fn shows_headers(&self) -> bool {
        self.shows_headers
    }

    /// Sends one message; the body of the answer, which says what of it was not taken.
    pub(crate) async fn export(&self, message: &impl Message) -> Result<Bytes, OtlpError> {
        let body = message.encode_to_vec();
        let body = if self.gzip { compressed(&body)? } else { body };
        let answer = self.web.send(&self.headers, body.into()).await?;
        judged(answer, self.address())
    }
}

fn compressed(body: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(body.len() / 8), Compression::fast());
    encoder.write_all(body)?;
    encoder.finish()
}

/// Only 429, 502, 503 and 504 are worth the same message once more.
fn judged(answer: Response<Bytes>, address: &WebAddress) -> Result<Bytes, OtlpError> {
    let (at, code) = (|| address.to_string(), answer.status().as_u16());
    match answer.status() {
        status if status.is_success() => Ok(answer.into_body()),
        StatusCode::TOO_MANY_REQUESTS
        | StatusCode::BAD_GATEWAY
        | StatusCode::SERVICE_UNAVAILABLE
        | StatusCode::GATEWAY_TIMEOUT => {
            Err(OtlpError::Busy { at: at(), code, after: after(answer.headers()) })
        }
        _ => Err(OtlpError::Refused { at: at(), code }),
    }
}

/// When to come again. A date counts as nothing said: its clock is another one.
fn after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?;
    text.trim().parse().ok().map(Duration::from_secs)
}

impl fmt::Debug for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Signal({})", self.address())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(code: u16, retry_after: Option<&str>) -> Result<Bytes, OtlpError> {
        let mut answer = Response::builder().status(code);
        if let Some(text) = retry_after {
            answer = answer.header(RETRY_AFTER, text);
        }
        let address = WebAddress::parse("http://collector:4318/secret").unwrap();
        judged(answer.body(Bytes::new()).unwrap(), &address)
    }

    #[test]
    fn four_codes_say_not_now_and_the_rest_no() {
        assert!(answered(200, None).is_ok() && answered(202, None).is_ok());
        for code in [429, 502, 503, 504] {
            assert!(matches!(answered(code, None), Err(OtlpError::Busy { after: None, .. })), "{code}");
        }
        for code in [301, 400, 401, 404, 413, 500, 501] {
            let error = answered(code, Some("1")).unwrap_err();
            assert_eq!(error.to_string(), format!("http://collector:4318 answered {code}"));
        }
    }

    #[test]
    fn a_collector_says_in_seconds_when_to_come_again() {
        for (text, after) in
            [("7", Some(Duration::from_secs(7))), ("Thu, 26 Nov 2026 05:00:00 GMT", None), ("-1", None)]
        {
            let error = answered(503, Some(text)).unwrap_err();
            assert!(
                matches!(error, OtlpError::Busy { after: said, .. } if said == after),
                "{text}: {error:?}"
            );
        }
    }
}
