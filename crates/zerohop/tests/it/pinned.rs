//! Programs in the kernel for one test, and connections through them.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};
use zerohop::{Bypass, Page, Spec, Terms, pins};

pub(super) const ALIVE: Duration = Duration::from_secs(60);
pub(super) const LIMIT: Duration = Duration::from_secs(10);

/// Programs under a name of their own; removed at the end, on panic too.
pub(super) struct Pinned {
    pub(super) bypass: Bypass,
    pub(super) name: String,
    pub(super) terms: Terms,
}

impl Pinned {
    pub(super) fn new(test: &str) -> Self {
        let name = format!("test-{test}-{}", std::process::id());
        let mut bypass = Bypass::open(&spec(&name)).unwrap_or_else(|error| panic!("{error}"));
        bypass.beat(ALIVE, ALIVE).unwrap();
        Self { bypass, name, terms: Terms::default() }
    }

    /// Sends connections on `listener` to these, in turn; `None` is the ordinary listener.
    pub(super) fn send(
        &mut self,
        listener: SocketAddr,
        servers: &[Option<SocketAddr>],
    ) -> (u32, Vec<Option<u32>>) {
        let number = self.bypass.listener(listener, self.terms).unwrap();
        let picks: Vec<Option<u32>> =
            servers.iter().map(|s| s.map(|s| self.bypass.target(number, s, false).unwrap())).collect();
        self.bypass.set_page(number, &Page { picks: picks.clone(), wrap: 0, mirror: 0 }).unwrap();
        (number, picks)
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        pins::remove(std::slice::from_ref(&self.name)).unwrap();
    }
}

pub(super) fn spec(name: &str) -> Spec {
    Spec { name: name.to_owned(), title: "a test".to_owned(), cgroup: None }
}

/// Accepts one connection, says its word, and hands the connection back.
pub(super) fn answers(listener: &TcpListener, word: &str) -> TcpStream {
    listener.set_nonblocking(true).unwrap();
    let mut accepted = None;
    wait_for("a connection comes", || {
        accepted = listener.accept().ok();
        accepted.is_some()
    });
    let (mut stream, _) = accepted.unwrap();
    stream.set_nonblocking(false).unwrap();
    stream.write_all(word.as_bytes()).unwrap();
    stream
}

pub(super) fn word(mut stream: &TcpStream) -> String {
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    let mut word = [0; 5];
    stream.read_exact(&mut word).unwrap();
    String::from_utf8_lossy(&word).into_owned()
}

pub(super) fn wait_for(what: &str, mut so: impl FnMut() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !so() {
        assert!(Instant::now() < deadline, "not within {LIMIT:?}: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The listener and two servers, on this address.
pub(super) fn three(ip: &str) -> [(TcpListener, SocketAddr); 3] {
    [0; 3].map(|_| {
        let listener = TcpListener::bind(format!("{ip}:0")).unwrap();
        let address = listener.local_addr().unwrap();
        (listener, address)
    })
}

pub(super) fn root() -> bool {
    testkit::root_or_not_tested("zero-hop needs root")
}
