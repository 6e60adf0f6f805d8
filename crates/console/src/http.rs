//! HTTP that cannot be leaned on: at most a few connections, each with a deadline, and answers
//! that are made at most once in a while however often they are asked for.
//!
//! The admin address and the agent stand beside a data plane in one process or on one host. Their connections
//! are descriptors that sessions could need, and their answers make every thread of the data plane copy its
//! counters. So whoever opens many connections, sends a request slowly, does not read, or asks in a loop
//! costs a fixed, small amount.

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::serve::Listener;
use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OnceCell, OwnedSemaphorePermit, Semaphore};
use tokio::time::Sleep;

/// What a connection may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections at the same time; further ones are closed at once.
    pub most: usize,
    /// From the first moment of a request to the first byte of its answer.
    pub request: Duration,
    /// Between an answer and the next request, and for each step of an answer that is not read.
    pub quiet: Duration,
}

impl Limits {
    /// Of an admin address. Fewer connections than the data plane leaves descriptors for (`reserve.rs` of
    /// `router`).
    pub const ADMIN: Self =
        Self { most: 16, request: Duration::from_secs(10), quiet: Duration::from_secs(60) };
    /// Of an agent, which stands beside no data plane.
    pub const AGENT: Self = Self { most: 64, ..Self::ADMIN };
}

/// A listener whose connections are bounded in number and time.
pub struct BoundedListener {
    listener: TcpListener,
    permits: Arc<Semaphore>,
    limits: Limits,
}

impl BoundedListener {
    pub fn new(listener: TcpListener, limits: Limits) -> Self {
        Self { listener, permits: Arc::new(Semaphore::new(limits.most)), limits }
    }
}

impl Listener for BoundedListener {
    type Io = Connection<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, SocketAddr) {
        loop {
            let (stream, from) = match self.listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    // One that makes way for another on its port does not listen.
                    if error.kind() != io::ErrorKind::InvalidInput {
                        tracing::warn!(%error, "a connection could not be accepted");
                    }
                    // Mostly a want of descriptors, which takes a moment to pass.
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            };
            match self.permits.clone().try_acquire_owned() {
                Ok(permit) => return (Connection::new(stream, permit, self.limits), from),
                Err(_) => tracing::debug!(%from, "closed: {} connections are open", self.limits.most),
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// A connection with its permit among the others, and until when it has to get on.
///
/// Bytes that trickle in do not count as getting on: the time of a request runs from its first byte (of the
/// first request: from the connect) until we write.
pub struct Connection<S> {
    stream: S,
    limits: Limits,
    until: Pin<Box<Sleep>>,
    /// A request is under way: more of it does not renew the time.
    in_request: bool,
    _permit: OwnedSemaphorePermit,
}

impl<S> Connection<S> {
    pub fn new(stream: S, permit: OwnedSemaphorePermit, limits: Limits) -> Self {
        let until = Box::pin(tokio::time::sleep(limits.request));
        Self { stream, limits, until, in_request: true, _permit: permit }
    }

    fn renew(&mut self, time: Duration) {
        self.until.as_mut().reset(tokio::time::Instant::now() + time);
    }

    /// Nothing comes or goes: the connection may wait, until it may not.
    fn waits<T>(&mut self, context: &mut Context<'_>) -> Poll<io::Result<T>> {
        self.until.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }

    fn wrote<T>(&mut self, context: &mut Context<'_>, polled: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if polled.is_pending() {
            return self.waits(context);
        }
        self.in_request = false;
        self.renew(self.limits.quiet);
        polled
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Connection<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        match Pin::new(&mut self.stream).poll_read(context, buffer) {
            Poll::Pending => self.waits(context),
            ready => {
                if buffer.filled().len() > before && !self.in_request {
                    self.in_request = true;
                    let time = self.limits.request;
                    self.renew(time);
                }
                ready
            }
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Connection<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.wrote(context, polled)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match Pin::new(&mut self.stream).poll_flush(context) {
            Poll::Pending => self.waits(context),
            ready => ready,
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match Pin::new(&mut self.stream).poll_shutdown(context) {
            Poll::Pending => self.waits(context),
            ready => ready,
        }
    }
}

/// Answers that are given again while they are young.
#[derive(Clone)]
pub struct Cache(Arc<Answers>);

struct Answers {
    /// For how long; asked anew each time, because it can be configured anew.
    age: Box<dyn Fn() -> Duration + Send + Sync>,
    kept: Mutex<HashMap<String, Arc<Entry>>>,
}

/// One answer, made once by whoever asks first.
struct Entry {
    since: Instant,
    answer: OnceCell<Answer>,
}

#[derive(Clone)]
struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

impl Cache {
    /// For how long answers are given again unless something else is written.
    pub const AGE: Duration = Duration::from_secs(1);
    /// Different questions within that time; further ones are refused.
    const QUESTIONS: usize = 32;
    const LONGEST_QUESTION: usize = 1024;
    const LONGEST_ANSWER: usize = 64 << 20;

    pub fn new(age: impl Fn() -> Duration + Send + Sync + 'static) -> Self {
        Self(Arc::new(Answers { age: Box::new(age), kept: Mutex::default() }))
    }

    /// The permit of this question's answer; `None` when too many different ones are asked.
    fn place(&self, question: &str, now: Instant, age: Duration) -> Option<Arc<Entry>> {
        let mut kept = self.0.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|_, kept| now.saturating_duration_since(kept.since) < age);
        if let Some(there) = kept.get(question) {
            return Some(there.clone());
        }
        if kept.len() >= Self::QUESTIONS || question.len() > Self::LONGEST_QUESTION {
            return None;
        }
        let made = Arc::new(Entry { since: now, answer: OnceCell::new() });
        kept.insert(question.to_owned(), made.clone());
        Some(made)
    }
}

/// Gives the answer of the last second again; whoever asks while it is made waits for it.
///
/// Who asks for the head alone gets that of the same answer: made for it alone it would cost as much, each
/// time. The body is left out when it is sent.
pub async fn cached(State(cache): State<Cache>, mut request: Request, next: Next) -> Response {
    let age = (cache.0.age)();
    if age.is_zero() || ![Method::GET, Method::HEAD].contains(request.method()) {
        return next.run(request).await;
    }
    *request.method_mut() = Method::GET;
    let question = request.uri().path_and_query().map_or("/", |whole| whole.as_str()).to_owned();
    let Some(kept) = cache.place(&question, Instant::now(), age) else {
        let text = "too many different questions at once; ask again in a second\n";
        return (StatusCode::TOO_MANY_REQUESTS, text).into_response();
    };
    let made = kept.answer.get_or_init(|| async move {
        let (head, body) = next.run(request).await.into_parts();
        match to_bytes(body, Cache::LONGEST_ANSWER).await {
            Ok(body) => Answer { status: head.status, headers: head.headers, body },
            Err(_) => Answer {
                status: StatusCode::INTERNAL_SERVER_ERROR,
                headers: HeaderMap::new(),
                body: Bytes::from_static(b"the answer could not be made whole\n"),
            },
        }
    });
    let Answer { status, headers, body } = made.await.clone();
    let mut response = Response::new(Body::from(body));
    (*response.status_mut(), *response.headers_mut()) = (status, headers);
    response
}

#[cfg(test)]
#[path = "http/tests.rs"]
mod tests;
