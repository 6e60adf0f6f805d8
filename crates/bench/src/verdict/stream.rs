//! A stream of bytes over a pair of interfaces, at a share of what a network of 10 Gbit/s carries. Segments
//! are as large as the kernel makes them, and what arrives is thrown away unread, so that it costs a part of
//! one CPU.

use super::veth::{FAR, NEAR, Pair};
use anyhow::Context;
use rustix::net::{RecvFlags, recv};
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const PORT: u16 = 9;
/// What the pair stands for each way, bytes a second.
pub(super) const LINK: f64 = 1.25e9;
/// Bytes between two looks at the clock.
const CHUNK: usize = 1 << 20;
/// Nobody waits longer than this for the other end.
const STUCK: Duration = Duration::from_secs(2);
/// After a hitch what was missed is not sent all at once.
const BEHIND: Duration = Duration::from_millis(50);

/// The stream; dropped, it ends and the pair is removed.
pub(super) struct Stream {
    stop: Arc<AtomicBool>,
    ends: Vec<JoinHandle<()>>,
    _pair: Pair,
}

impl Stream {
    /// Begins to send `share` of what the link carries.
    pub(super) fn begin(share: f64, until: Instant) -> anyhow::Result<Self> {
        let pair = Pair::make()?;
        let listener = pair.far(|| TcpListener::bind((FAR, PORT)).context("binding in the namespace"))?;
        let mut stream = Self { stop: Arc::default(), ends: Vec::new(), _pair: pair };
        let near = TcpStream::connect_timeout(&(FAR, PORT).into(), STUCK)
            .with_context(|| format!("connecting from {NEAR} to {FAR}"))?;
        let (far, _) = listener.accept().context("taking the connection")?;
        near.set_write_timeout(Some(STUCK))?;
        far.set_read_timeout(Some(STUCK))?;
        let stop = stream.stop.clone();
        stream.ends.push(std::thread::spawn(move || send(near, share, until, &stop)));
        stream.ends.push(std::thread::spawn(move || discard(&far)));
        Ok(stream)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for end in self.ends.drain(..) {
            let _ = end.join();
        }
    }
}

fn send(mut to: TcpStream, share: f64, until: Instant, stop: &AtomicBool) {
    let chunk = vec![0; CHUNK];
    let every = Duration::from_secs_f64(CHUNK as f64 / (LINK * share));
    let mut due = Instant::now();
    while Instant::now() < until && !stop.load(Ordering::Relaxed) {
        if to.write_all(&chunk).is_err() {
            return;
        }
        due = (due + every).max(Instant::now().checked_sub(BEHIND).unwrap_or(due));
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
    }
}

/// The kernel throws away what is read with `MSG_TRUNC`, without copying it (tcp(7)).
fn discard(from: &TcpStream) {
    let mut nowhere = vec![0u8; CHUNK];
    while let Ok((_, length)) = recv(from, nowhere.as_mut_slice(), RecvFlags::TRUNC) {
        if length == 0 {
            return;
        }
    }
}
