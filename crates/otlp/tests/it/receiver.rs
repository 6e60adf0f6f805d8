//! A receiver of OTLP on loopback, over TLS if wanted. It answers each request as the test says, and keeps
//! it.

use otlp::proto::collector::metrics::v1::ExportMetricsServiceRequest;
use otlp::proto::collector::trace::v1::ExportTraceServiceRequest;
use prost::Message;
use std::collections::{HashMap, VecDeque};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver as Inbox, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use testkit::certificate::Certificate;

/// For what has to come.
const LIMIT: Duration = Duration::from_secs(20);

/// What a request is answered with.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    /// Code, headers with their line ends, body.
    Say(u16, &'static str, Vec<u8>),
    /// Nothing, for ever.
    Silence,
}

/// One request.
pub(crate) struct Request {
    pub(crate) path: String,
    pub(crate) headers: HashMap<String, String>,
    body: Vec<u8>,
}

/// Listens until the test ends.
pub(crate) struct Receiver {
    pub(crate) port: u16,
    requests: Inbox<Request>,
    answers: Arc<Mutex<VecDeque<Answer>>>,
}

trait Stream: Read + Write {}

impl<T: Read + Write> Stream for T {}

impl Receiver {
    pub(crate) fn start() -> Self {
        Self::listen(|stream| Box::new(stream))
    }

    pub(crate) fn start_tls(certificate: &Certificate) -> Self {
        let config = tls::https::server(&certificate.cert, &certificate.key).unwrap();
        Self::listen(move |stream| {
            let session = rustls::ServerConnection::new(config.clone()).unwrap();
            Box::new(rustls::StreamOwned::new(session, stream))
        })
    }

    fn listen(open: impl Fn(TcpStream) -> Box<dyn Stream + Send> + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (give, requests) = channel();
        let answers = Arc::<Mutex<VecDeque<Answer>>>::default();
        let next = answers.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, next, give) = (open(stream.unwrap()), next.clone(), give.clone());
                std::thread::spawn(move || serve(stream, &next, &give));
            }
        });
        Self { port, requests, answers }
    }

    /// What the next requests are answered with, each once; later ones with 200.
    pub(crate) fn answer(&self, answers: impl IntoIterator<Item = Answer>) {
        self.answers.lock().unwrap().extend(answers);
    }

    pub(crate) fn next(&self) -> Request {
        self.requests.recv_timeout(LIMIT).expect("nothing came")
    }

    /// Whether nothing comes within this time.
    pub(crate) fn is_quiet_for(&self, time: Duration) -> bool {
        matches!(self.requests.recv_timeout(time), Err(RecvTimeoutError::Timeout))
    }
}

/// One request and its answer. A client that is content with less has gone.
fn serve(mut stream: Box<dyn Stream + Send>, answers: &Mutex<VecDeque<Answer>>, give: &Sender<Request>) {
    let Some(request) = read(&mut stream) else { return };
    let answer = answers.lock().unwrap().pop_front().unwrap_or(Answer::Say(200, "", Vec::new()));
    let _ = give.send(request);
    match answer {
        Answer::Say(code, headers, body) => {
            let head = format!("HTTP/1.1 {code} Said\r\ncontent-length: {}\r\n{headers}\r\n", body.len());
            let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body));
            let _ = stream.flush();
        }
        Answer::Silence => loop {
            std::thread::park();
        },
    }
}

fn read(stream: &mut Box<dyn Stream + Send>) -> Option<Request> {
    let mut reader = BufReader::new(stream);
    let mut first = String::new();
    reader.read_line(&mut first).ok().filter(|length| *length > 0)?;
    let path = first.strip_prefix("POST ")?.split(' ').next()?.to_owned();
    let mut headers = HashMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        headers.insert(name.to_ascii_lowercase(), value.to_owned());
    }
    let mut body = vec![0; headers.get("content-length")?.parse().ok()?];
    reader.read_exact(&mut body).ok()?;
    Some(Request { path, headers, body })
}

impl Request {
    fn decoded<M: Message + Default>(&self) -> M {
        assert_eq!(self.headers["content-type"], "application/x-protobuf");
        if self.headers.get("content-encoding").is_none_or(|encoding| encoding != "gzip") {
            return M::decode(&self.body[..]).unwrap();
        }
        let mut body = Vec::new();
        flate2::read::GzDecoder::new(&self.body[..]).read_to_end(&mut body).unwrap();
        M::decode(&body[..]).unwrap()
    }

    pub(crate) fn metrics(&self) -> ExportMetricsServiceRequest {
        assert_eq!(self.path, "/v1/metrics");
        self.decoded()
    }

    pub(crate) fn traces(&self) -> ExportTraceServiceRequest {
        assert_eq!(self.path, "/v1/traces");
        self.decoded()
    }
}
