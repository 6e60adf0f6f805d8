//! Take over: a new process takes the listening sockets over from the running one, so that no connect is
//! refused.
//!
//! The running process waits at a control socket ([`super`]), which only its own user reaches. A
//! new one, started with `--take-over`, connects there:
//!
//! | new process | running process |
//! |---|---|
//! | connects, says `S`: I take over | both check that the other runs as exactly the same user |
//! | | sends the listening sockets, the admin address's too (`SCM_RIGHTS`), and its [`Orders`] |
//! | starts, carries out the orders, looks at the fleet, serves | serves as before |
//! | says `R`: ready | accepts nobody any more |
//! | | says `G`: gone, and its orders once more, which may have changed |
//! | | lets its sessions end within its drain deadline, and exits |
//!
//! A process that says `T` instead of `S` is given no orders: it is of a version that does not know them. One
//! that does not know `S` closes the connection, and is asked again with `T`.
//!
//! Both have the same sockets, so a client that comes in between waits in a queue that one of them empties. A
//! new process that dies before it is ready changes nothing.

use super::server::readable;
use super::{ControlListener, Directory, Purpose, Unavailable, check_peer, reach};
use anyhow::Context;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use serde::{Deserialize, Serialize};
use std::io::{IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// How long either side waits for a word of the other that needs no work.
const WORD: Duration = Duration::from_secs(10);
/// How long a new process may take from the sockets to ready.
const START: Duration = Duration::from_secs(120);
/// How long we try for the name that the process before us has just left.
const NAME: Duration = Duration::from_secs(10);
/// Between two looks whether we still wait under this address.
const SELDOM: Duration = Duration::from_millis(500);
/// The kernel passes at most 253 descriptors in one message.
const MOST: usize = 250;

/// Orders are shorter than this.
const LONGEST: usize = 1 << 20;

const TAKE: u8 = b'T';
const TAKE_WITH_ORDERS: u8 = b'S';
const READY: u8 = b'R';
const GONE: u8 = b'G';

/// What a process has been asked to do, and its successor has to go on with. Another version may know more or
/// less.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Orders {
    /// Servers being emptied.
    pub drains: Vec<DrainOrder>,
    /// Files of unix sockets that systemd opened, and that are not to be removed.
    pub lent: Vec<PathBuf>,
}

/// A server being emptied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DrainOrder {
    /// Its name.
    pub server: String,
    /// Milliseconds to its deadline; 0 when that has passed.
    pub left_ms: u64,
}

/// The sockets of the process before us, which still serves them.
pub struct Taken {
    pub sockets: Vec<OwnedFd>,
    /// What it has been asked to do; `None` where it does not say.
    pub orders: Option<Orders>,
    before: UnixStream,
}

/// Asks the running process that is known by this address for its sockets; `None` when there is none.
pub fn take_over(directory: &Directory, address: &str) -> anyhow::Result<Option<Taken>> {
    let ask = || -> anyhow::Result<Option<UnixStream>> {
        let before = reach(directory, Purpose::TakeOver, address);
        let before = before.context("cannot ask the running process for its sockets")?;
        before.as_ref().map(|before| before.set_read_timeout(Some(WORD))).transpose()?;
        Ok(before)
    };
    let Some(mut before) = ask()? else { return Ok(None) };
    before.write_all(&[TAKE_WITH_ORDERS])?;
    if let Some(sockets) = receive(&before).context("the running process gave no sockets")? {
        let orders = Some(receive_orders(&before)?);
        return Ok(Some(Taken { sockets, orders, before }));
    }
    let Some(mut before) = ask()? else { return Ok(None) };
    before.write_all(&[TAKE])?;
    let sockets = receive(&before).context("the running process gave no sockets")?;
    let sockets = sockets.context("the running process gave no sockets: it closed the connection")?;
    Ok(Some(Taken { sockets, orders: None, before }))
}

impl Taken {
    /// We serve: the process before us accepts nobody any more once this returns. Returns what it has been
    /// asked to do up to then; `None` where it does not say.
    ///
    /// # Errors
    /// It did not say that it has gone.
    pub fn ready(mut self) -> anyhow::Result<Option<Orders>> {
        self.before.write_all(&[READY])?;
        let mut word = [0];
        self.before.read_exact(&mut word).context("the process before us did not say that it has gone")?;
        anyhow::ensure!(word == [GONE], "the process before us said something else than that it has gone");
        // It has gone: what it said before holds where this does not come.
        Ok(self.orders.map(|first| receive_orders(&self.before).unwrap_or(first)))
    }
}

/// Waits, on a thread of its own, for a process that takes over. `sockets` and `orders` give what is to be
/// handed over, `leave` stops accepting; then `told` is called, once. Nobody is waited for any more once
/// `moved` is set: another thread waits under another address.
///
/// # Errors
/// No thread can be started.
pub fn offer(
    directory: Directory,
    address: String,
    sockets: impl Fn() -> Vec<OwnedFd> + Send + 'static,
    orders: impl Fn() -> Orders + Send + 'static,
    leave: impl FnOnce() + Send + 'static,
    told: impl FnOnce() + Send + 'static,
    moved: Arc<AtomicBool>,
) -> std::io::Result<()> {
    let wait = move || {
        let listener = match bind(&directory, &address) {
            Ok(listener) => listener,
            Err(error) => {
                tracing::warn!("no process will be able to take over from this one: {error}");
                return;
            }
        };
        let Some((mut after, wants_orders)) = successor(&listener, &sockets, &orders, &moved) else { return };
        leave();
        drop(listener);
        let mut word = vec![GONE];
        if wants_orders {
            word.extend(line(&orders()));
        }
        // It may have left meanwhile; then it has ended and so do we, as it asked.
        let _ = after.write_all(&word);
        told();
    };
    std::thread::Builder::new().name("headroom-upgrade".to_owned()).spawn(wait).map(drop)
}

/// The first process that takes the sockets and gets ready, and whether it knows orders; `None` once `moved`
/// is set.
fn successor(
    listener: &ControlListener,
    sockets: &impl Fn() -> Vec<OwnedFd>,
    orders: &impl Fn() -> Orders,
    moved: &AtomicBool,
) -> Option<(UnixStream, bool)> {
    while !moved.load(Relaxed) {
        if !readable(listener.listener(), SELDOM) {
            continue;
        }
        let Ok((after, _)) = listener.listener().accept() else {
            std::thread::sleep(Duration::from_millis(100));
            continue;
        };
        match hand_out(&after, &sockets(), &orders()) {
            Ok(Some(wants_orders)) => return Some((after, wants_orders)),
            // It only looked whether somebody answers here.
            Ok(None) => {}
            Err(error) => tracing::warn!("a process wanted to take over and did not: {error:#}; we go on"),
        }
    }
    None
}

/// Whether a process that has taken over knows orders; `None`: it left before it said that it wants to.
fn hand_out(mut after: &UnixStream, sockets: &[OwnedFd], orders: &Orders) -> anyhow::Result<Option<bool>> {
    check_peer(after)?;
    after.set_write_timeout(Some(WORD))?;
    after.set_read_timeout(Some(WORD))?;
    let mut word = [0];
    if after.read(&mut word)? == 0 {
        return Ok(None);
    }
    let wants_orders = word == [TAKE_WITH_ORDERS];
    anyhow::ensure!(wants_orders || word == [TAKE], "it said something else than that it takes over");
    after.set_read_timeout(Some(START))?;
    tracing::info!(sockets = sockets.len(), "another process takes over: it is given the listening sockets");
    send(after, sockets)?;
    if wants_orders {
        after.write_all(&line(orders))?;
    }
    after.read_exact(&mut word).context("it left before it was ready")?;
    anyhow::ensure!(word == [READY], "it said something else than ready");
    Ok(Some(wants_orders))
}

/// Orders as a line.
fn line(orders: &Orders) -> Vec<u8> {
    let mut line = serde_json::to_vec(orders).unwrap_or_default();
    line.push(b'\n');
    line
}

fn receive_orders(mut from: &UnixStream) -> anyhow::Result<Orders> {
    let (mut line, mut byte) = (Vec::new(), [0]);
    // One by one: what follows is for somebody else to read.
    while from.read(&mut byte).context("the running process did not say what it was asked to do")? == 1
        && byte != [b'\n']
    {
        anyhow::ensure!(line.len() < LONGEST, "what the running process was asked to do is too long");
        line.push(byte[0]);
    }
    serde_json::from_slice(&line).context("what the running process was asked to do cannot be read")
}

fn bind(directory: &Directory, address: &str) -> Result<ControlListener, Unavailable> {
    let begun = Instant::now();
    loop {
        match ControlListener::bind(directory, Purpose::TakeOver, address) {
            Err(Unavailable::InUse { .. }) if begun.elapsed() < NAME => {
                std::thread::sleep(Duration::from_millis(50));
            }
            other => return other,
        }
    }
}

fn send(to: &UnixStream, sockets: &[OwnedFd]) -> anyhow::Result<()> {
    anyhow::ensure!(sockets.len() <= MOST, "more than {MOST} listeners cannot be handed over");
    let fds: Vec<_> = sockets.iter().map(AsFd::as_fd).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let fits = fds.is_empty() || ancillary.push(SendAncillaryMessage::ScmRights(&fds));
    anyhow::ensure!(fits, "the listening sockets do not fit into one message");
    let count = [u8::try_from(fds.len())?];
    sendmsg(to, &[IoSlice::new(&count)], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// `None`: it closed the connection.
fn receive(from: &UnixStream) -> anyhow::Result<Option<Vec<OwnedFd>>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut count = [0];
    let got = recvmsg(from, &mut [IoSliceMut::new(&mut count)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    if got.bytes == 0 {
        return Ok(None);
    }
    let mut sockets = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(fds) = message {
            sockets.extend(fds);
        }
    }
    let announced = usize::from(count[0]);
    anyhow::ensure!(sockets.len() == announced, "{} of {announced} sockets arrived", sockets.len());
    Ok(Some(sockets))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;
    use std::sync::mpsc;

    fn drain(left_ms: u64) -> Orders {
        let drains = vec![DrainOrder { server: "db3".to_owned(), left_ms }];
        Orders { drains, lent: vec![PathBuf::from("/run/lent.sock")] }
    }

    fn listener() -> OwnedFd {
        std::net::TcpListener::bind("127.0.0.1:0").unwrap().into()
    }

    #[test]
    fn sockets_go_over_and_the_process_before_leaves_only_when_the_new_one_is_ready() {
        let base = tempfile::tempdir().unwrap();
        let directory = Directory::open_or_make(&base.path().join("headroom")).unwrap();
        let (there, here) = (directory.clone(), "127.0.0.1:9306");
        let (said, heard) = mpsc::channel();
        let (leave, told) = (said.clone(), said);
        let ours = listener();
        let port = |fd: &OwnedFd| rustix::net::getsockname(fd).unwrap();
        let before = port(&ours);
        assert!(take_over(&directory, here).unwrap().is_none(), "nobody is there yet");
        let give = move || vec![ours.try_clone().unwrap()];
        let asked = Arc::new(AtomicU64::new(0));
        let looks = asked.clone();
        // Time passes from one look to the next.
        let orders = move || drain(9_000 - looks.fetch_add(1, Relaxed));
        let (leave, told) = (move || leave.send("left").unwrap(), move || told.send("told").unwrap());
        offer(there, here.to_owned(), give, orders, leave, told, Arc::default()).unwrap();
        let begun = Instant::now();
        let taken = loop {
            match take_over(&directory, here).unwrap() {
                Some(taken) => break taken,
                None => assert!(begun.elapsed() < WORD, "the name never came up"),
            }
        };
        drop(taken);
        let taken = take_over(&directory, here).unwrap().expect("a process that died changed nothing");
        assert_eq!((taken.sockets.len(), port(&taken.sockets[0])), (1, before));
        assert!(heard.try_recv().is_err());
        let first = taken.orders.clone().unwrap();
        assert_eq!(first, drain(first.drains[0].left_ms));
        let last = taken.ready().unwrap().unwrap();
        assert_eq!(last, drain(first.drains[0].left_ms - 1), "and what came meanwhile");
        assert_eq!(asked.load(Relaxed), 9_001 - last.drains[0].left_ms);
        assert_eq!(heard.recv().unwrap(), "left");
        assert_eq!(heard.recv().unwrap(), "told");
    }

    #[test]
    fn a_process_that_knows_no_orders_gives_its_sockets_and_takes_them() {
        let base = tempfile::tempdir().unwrap();
        let directory = Directory::open_or_make(&base.path().join("headroom")).unwrap();
        let here = "127.0.0.1:9306";
        // One of a version before orders: it closes on a word that it does not know.
        let old = ControlListener::bind(&directory, Purpose::TakeOver, here).unwrap();
        let serve = move || {
            let mut word = [0];
            for expected in [TAKE_WITH_ORDERS, TAKE] {
                let (mut after, _) = old.listener().accept().unwrap();
                after.read_exact(&mut word).unwrap();
                assert_eq!(word, [expected]);
                if word == [TAKE] {
                    send(&after, &[listener()]).unwrap();
                    after.read_exact(&mut word).unwrap();
                    after.write_all(&[GONE]).unwrap();
                }
            }
            // And the other way round: what takes over has never heard of orders.
            let (after, mut new) = UnixStream::pair().unwrap();
            let hands = std::thread::spawn(move || hand_out(&after, &[listener()], &drain(1)).unwrap());
            new.write_all(&[TAKE]).unwrap();
            assert_eq!(receive(&new).unwrap().unwrap().len(), 1);
            new.write_all(&[READY]).unwrap();
            assert_eq!(hands.join().unwrap(), Some(false));
            let mut rest = Vec::new();
            new.read_to_end(&mut rest).unwrap();
            assert!(rest.is_empty(), "{rest:?}");
        };
        let served = std::thread::spawn(serve);
        let taken = take_over(&directory, here).unwrap().unwrap();
        assert_eq!((taken.sockets.len(), &taken.orders), (1, &None));
        assert_eq!(taken.ready().unwrap(), None);
        served.join().unwrap();
    }
}
