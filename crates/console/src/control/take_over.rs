//! Take over: a new process takes the listening sockets over from the running one, so that no connect is
//! refused.
//!
//! The running process waits at a control socket ([`super`]), which only its own user reaches. A
//! new one, started with `--take-over`, connects there:
//!
//! | new process | running process |
//! |---|---|
//! | connects, says `T`: I take over | both check that the other runs as exactly the same user |
//! | | sends the listening sockets, the admin address's too (`SCM_RIGHTS`) |
//! | starts, looks at the fleet, serves | serves as before |
//! | says `R`: ready | accepts nobody any more |
//! | | says `G`: gone; lets its sessions end within its drain deadline, and exits |
//!
//! Both have the same sockets, so a client that comes in between waits in a queue that one of them empties. A
//! new process that dies before it is ready changes nothing.

use super::{ControlListener, Directory, Purpose, Unavailable, check_peer, reach};
use anyhow::Context;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use std::io::{IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// How long either side waits for a word of the other that needs no work.
const WORD: Duration = Duration::from_secs(10);
/// How long a new process may take from the sockets to ready.
const START: Duration = Duration::from_secs(120);
/// How long we try for the name that the process before us has just left.
const NAME: Duration = Duration::from_secs(10);
/// The kernel passes at most 253 descriptors in one message.
const MOST: usize = 250;

const TAKE: u8 = b'T';
const READY: u8 = b'R';
const GONE: u8 = b'G';

/// The sockets of the process before us, which still serves them.
pub struct Taken {
    pub sockets: Vec<OwnedFd>,
    before: UnixStream,
}

/// Asks the running process that is known by this address for its sockets; `None` when there is none.
pub fn take_over(directory: &Directory, address: &str) -> anyhow::Result<Option<Taken>> {
    let asked = reach(directory, Purpose::TakeOver, address);
    let Some(mut before) = asked.context("cannot ask the running process for its sockets")? else {
        return Ok(None);
    };
    before.set_read_timeout(Some(WORD))?;
    before.write_all(&[TAKE])?;
    let sockets = receive(&before).context("the running process gave no sockets")?;
    Ok(Some(Taken { sockets, before }))
}

impl Taken {
    /// We serve: the process before us accepts nobody any more once this returns.
    pub fn ready(mut self) -> anyhow::Result<()> {
        self.before.write_all(&[READY])?;
        let mut word = [0];
        self.before.read_exact(&mut word).context("the process before us did not say that it has gone")?;
        anyhow::ensure!(word == [GONE], "the process before us said something else than that it has gone");
        Ok(())
    }
}

/// Waits, on a thread of its own, for a process that takes over. `sockets` gives what is to be handed over,
/// `leave` stops accepting; then `told` is called, once.
pub fn offer(
    directory: Directory,
    address: String,
    sockets: impl Fn() -> Vec<OwnedFd> + Send + 'static,
    leave: impl FnOnce() + Send + 'static,
    told: impl FnOnce() + Send + 'static,
) -> std::io::Result<()> {
    let wait = move || {
        let listener = match bind(&directory, &address) {
            Ok(listener) => listener,
            Err(error) => {
                tracing::warn!("no process will be able to take over from this one: {error}");
                return;
            }
        };
        let mut after = successor(&listener, &sockets);
        leave();
        drop(listener);
        // It may have left meanwhile; then it has ended and so do we, as it asked.
        let _ = after.write_all(&[GONE]);
        told();
    };
    std::thread::Builder::new().name("headroom-upgrade".to_owned()).spawn(wait).map(drop)
}

/// The first process that takes the sockets and gets ready.
fn successor(listener: &ControlListener, sockets: &impl Fn() -> Vec<OwnedFd>) -> UnixStream {
    loop {
        let Ok((after, _)) = listener.listener().accept() else {
            std::thread::sleep(Duration::from_millis(100));
            continue;
        };
        match hand_out(&after, &sockets()) {
            Ok(true) => return after,
            // It only looked whether somebody answers here.
            Ok(false) => {}
            Err(error) => tracing::warn!("a process wanted to take over and did not: {error:#}; we go on"),
        }
    }
}

/// Whether it has taken over; `false`: it left before it said that it wants to.
fn hand_out(mut after: &UnixStream, sockets: &[OwnedFd]) -> anyhow::Result<bool> {
    check_peer(after)?;
    after.set_write_timeout(Some(WORD))?;
    after.set_read_timeout(Some(WORD))?;
    let mut word = [0];
    if after.read(&mut word)? == 0 {
        return Ok(false);
    }
    anyhow::ensure!(word == [TAKE], "it said something else than that it takes over");
    after.set_read_timeout(Some(START))?;
    tracing::info!(sockets = sockets.len(), "another process takes over: it is given the listening sockets");
    send(after, sockets)?;
    after.read_exact(&mut word).context("it left before it was ready")?;
    anyhow::ensure!(word == [READY], "it said something else than ready");
    Ok(true)
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

fn receive(from: &UnixStream) -> anyhow::Result<Vec<OwnedFd>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut count = [0];
    let got = recvmsg(from, &mut [IoSliceMut::new(&mut count)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    anyhow::ensure!(got.bytes == 1, "it closed the connection");
    let mut sockets = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(fds) = message {
            sockets.extend(fds);
        }
    }
    let announced = usize::from(count[0]);
    anyhow::ensure!(sockets.len() == announced, "{} of {announced} sockets arrived", sockets.len());
    Ok(sockets)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

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
        let (leave, told) = (move || leave.send("left").unwrap(), move || told.send("told").unwrap());
        offer(there, here.to_owned(), give, leave, told).unwrap();
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
        taken.ready().unwrap();
        assert_eq!(heard.recv().unwrap(), "left");
        assert_eq!(heard.recv().unwrap(), "told");
    }
}
