//! Upgrade: a new process takes the listening sockets over from the running one, so that no connect is refused.
//!
//! The running process waits on an abstract unix socket named after its admin address (else its first listener). A new
//! one, started with `--take-over`, connects there:
//!
//! | new process | running process |
//! |---|---|
//! | connects | both check that the other runs as the same user, or as root |
//! | | sends the listening sockets, the admin address's too (`SCM_RIGHTS`) |
//! | starts, looks at the fleet, serves | serves as before |
//! | says `R`: ready | accepts nobody any more |
//! | | says `G`: gone; lets its sessions end within its drain deadline, and exits |
//!
//! Both have the same sockets, so a client that comes in between waits in a queue that one of them empties. A new
//! process that dies before it is ready changes nothing.
//!
//! Sockets can also come from systemd (`LISTEN_FDS`): then they stay open whatever becomes of us.

use anyhow::Context;
use fleet::config::Config;
use rustix::net::sockopt::socket_peercred;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use std::io::{IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::{Duration, Instant};

/// How long either side waits for a word of the other that needs no work.
const WORD: Duration = Duration::from_secs(10);
/// How long a new process may take from the sockets to ready.
const START: Duration = Duration::from_secs(120);
/// How long we try for the name that the process before us has just left.
const NAME: Duration = Duration::from_secs(10);
/// The kernel passes at most 253 descriptors in one message.
const MOST: usize = 250;
/// systemd's first descriptor.
const LISTEN_FDS_START: i32 = 3;

const READY: u8 = b'R';
const GONE: u8 = b'G';

/// The sockets of the process before us, which still serves them.
pub(crate) struct Taken {
    pub(crate) sockets: Vec<OwnedFd>,
    before: UnixStream,
}

/// The name under which processes of one configuration find each other on this host.
pub(crate) fn name(config: &Config) -> String {
    format!("headroom-route/{}", address(config))
}

/// What a running router is known by on this host: its admin address, else its first listener.
pub(crate) fn address(config: &Config) -> String {
    match (config.admin, config.listeners.first()) {
        (Some(admin), _) => admin.to_string(),
        (None, Some(listener)) => listener.address.to_string(),
        (None, None) => String::new(),
    }
}

/// Asks the running process for its sockets; `None` when there is none.
pub(crate) fn take_over(name: &str) -> anyhow::Result<Option<Taken>> {
    let before = match UnixStream::connect_addr(&SocketAddr::from_abstract_name(name)?) {
        Ok(before) => before,
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => return Ok(None),
        Err(error) => return Err(error).context("cannot ask the running process for its sockets"),
    };
    check_peer(&before)?;
    before.set_read_timeout(Some(WORD))?;
    let sockets = receive(&before).context("the running process gave no sockets")?;
    Ok(Some(Taken { sockets, before }))
}

impl Taken {
    /// We serve: the process before us accepts nobody any more once this returns.
    pub(crate) fn ready(mut self) -> anyhow::Result<()> {
        self.before.write_all(&[READY])?;
        let mut word = [0];
        self.before.read_exact(&mut word).context("the process before us did not say that it has gone")?;
        anyhow::ensure!(word == [GONE], "the process before us said something else than that it has gone");
        Ok(())
    }
}

/// Waits, on a thread of its own, for a process that takes over. `sockets` gives what is to be handed over, `leave`
/// stops accepting; then `told` is called, once.
pub(crate) fn offer(
    name: String,
    sockets: impl Fn() -> Vec<OwnedFd> + Send + 'static,
    leave: impl FnOnce() + Send + 'static,
    told: impl FnOnce() + Send + 'static,
) -> std::io::Result<()> {
    let wait = move || {
        let listener = match bind(&name) {
            Ok(listener) => listener,
            Err(error) => {
                tracing::warn!(name, %error, "no process will be able to take over from this one");
                return;
            }
        };
        let mut after = successor(&listener, &sockets);
        leave();
        drop(listener);
        // It may have left meanwhile; then it is gone and so are we, as it asked.
        let _ = after.write_all(&[GONE]);
        told();
    };
    std::thread::Builder::new().name("headroom-upgrade".to_owned()).spawn(wait).map(drop)
}

/// The first process that takes the sockets and gets ready.
fn successor(listener: &UnixListener, sockets: &impl Fn() -> Vec<OwnedFd>) -> UnixStream {
    loop {
        let Ok((after, _)) = listener.accept() else {
            std::thread::sleep(Duration::from_millis(100));
            continue;
        };
        match hand_out(&after, &sockets()) {
            Ok(()) => return after,
            Err(error) => tracing::warn!("a process wanted to take over and did not: {error:#}; we go on"),
        }
    }
}

fn hand_out(mut after: &UnixStream, sockets: &[OwnedFd]) -> anyhow::Result<()> {
    check_peer(after)?;
    after.set_write_timeout(Some(WORD))?;
    after.set_read_timeout(Some(START))?;
    tracing::info!(sockets = sockets.len(), "another process takes over: it is given the listening sockets");
    send(after, sockets)?;
    let mut word = [0];
    after.read_exact(&mut word).context("it left before it was ready")?;
    anyhow::ensure!(word == [READY], "it said something else than ready");
    Ok(())
}

/// Whoever takes or gives sockets runs as our user, or as root.
///
/// # Errors
/// When it does not, or nobody can say.
pub(crate) fn check_peer(peer: &UnixStream) -> anyhow::Result<()> {
    let (theirs, ours) = (socket_peercred(peer)?.uid, rustix::process::geteuid());
    let trusted = theirs == ours || theirs.is_root();
    anyhow::ensure!(trusted, "the other process runs as user {}, not as ours", theirs.as_raw());
    Ok(())
}

fn bind(name: &str) -> std::io::Result<UnixListener> {
    let begun = Instant::now();
    loop {
        match UnixListener::bind_addr(&SocketAddr::from_abstract_name(name)?) {
            Err(error) if error.kind() == std::io::ErrorKind::AddrInUse && begun.elapsed() < NAME => {
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

/// The sockets that systemd opened for us: `count` descriptors from the third on, once more.
pub(crate) fn from_systemd(count: u32) -> anyhow::Result<Vec<OwnedFd>> {
    use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
    // Through a descriptor of our own process, so that numbers become descriptors that the compiler knows the owner of.
    let ourselves = pidfd_open(getpid(), PidfdFlags::empty())?;
    let last = LISTEN_FDS_START + i32::try_from(count)?;
    (LISTEN_FDS_START..last)
        .map(|number| {
            pidfd_getfd(&ourselves, number, PidfdGetfdFlags::empty())
                .with_context(|| format!("descriptor {number}, which LISTEN_FDS promises, cannot be had"))
        })
        .collect()
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
        let name = format!("headroom-test/{}-over", std::process::id());
        let (said, heard) = mpsc::channel();
        let (leave, told) = (said.clone(), said);
        let ours = listener();
        let port = |fd: &OwnedFd| rustix::net::getsockname(fd).unwrap();
        let before = port(&ours);
        assert!(take_over(&name).unwrap().is_none(), "nobody is there yet");
        let give = move || vec![ours.try_clone().unwrap()];
        offer(name.clone(), give, move || leave.send("left").unwrap(), move || told.send("told").unwrap())
            .unwrap();
        let begun = Instant::now();
        let taken = loop {
            match take_over(&name).unwrap() {
                Some(taken) => break taken,
                None => assert!(begun.elapsed() < WORD, "the name never came up"),
            }
        };
        drop(taken);
        let taken = take_over(&name).unwrap().expect("a process that died changed nothing");
        assert_eq!((taken.sockets.len(), port(&taken.sockets[0])), (1, before));
        assert!(heard.try_recv().is_err());
        taken.ready().unwrap();
        assert_eq!(heard.recv().unwrap(), "left");
        assert_eq!(heard.recv().unwrap(), "told");
    }
}
