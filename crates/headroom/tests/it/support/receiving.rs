//! Somebody who is told of incidents: a receiver of webhooks over TLS.

use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use testkit::certificate::Certificate;

pub(crate) const SECRET: &str = "T0-a-secret-in-the-path";
const LIMIT: Duration = Duration::from_secs(60);

/// A receiver of webhooks on loopback: the first call is refused for now, the others are taken.
pub(crate) struct Receiving {
    pub(crate) port: u16,
    calls: Receiver<(String, Value)>,
}

impl Receiving {
    pub(crate) fn start(certificate: &Certificate) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let config = tls::https::server(&certificate.cert, &certificate.key).unwrap();
        let (give, calls) = channel();
        std::thread::spawn(move || {
            for (n, stream) in listener.incoming().enumerate() {
                let session = rustls::ServerConnection::new(config.clone()).unwrap();
                let answer = if n == 0 { "503 Later" } else { "204 Taken" };
                let Ok(call) = take(rustls::StreamOwned::new(session, stream.unwrap()), answer) else {
                    continue;
                };
                if give.send(call).is_err() {
                    return;
                }
            }
        });
        Self { port, calls }
    }

    /// The next calls, as many as it takes to tell one event; they say the same.
    pub(crate) fn told(&self, event: &str, calls: usize) -> Value {
        let mut bodies = Vec::new();
        for _ in 0..calls {
            let (first, body) = self.next();
            assert_eq!(first, format!("POST /services/{SECRET} HTTP/1.1"));
            assert_eq!(body["event"], event, "{body}");
            bodies.push(body);
        }
        bodies.dedup();
        assert_eq!(bodies.len(), 1, "what is repeated is the same: {bodies:?}");
        bodies.remove(0)
    }

    fn next(&self) -> (String, Value) {
        self.calls.recv_timeout(LIMIT).expect("nobody called")
    }
}

/// One request: its first line and its body.
fn take(
    mut stream: rustls::StreamOwned<rustls::ServerConnection, TcpStream>,
    answer: &str,
) -> std::io::Result<(String, Value)> {
    let mut reader = BufReader::new(&mut stream);
    let (mut first, mut length) = (String::new(), 0);
    reader.read_line(&mut first)?;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        if line.trim().is_empty() {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    write!(stream, "HTTP/1.1 {answer}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")?;
    stream.flush()?;
    Ok((first.trim().to_owned(), serde_json::from_slice(&body).unwrap()))
}
