//! systemd: tells it that we are ready or stopping, where it asked for that (`Type=notify`), leaves listening
//! sockets with it (one datagram each, nothing depends on them), and takes those that it has for us.
//!
//! **The sockets.** With `FileDescriptorStoreMax=`, systemd holds what we leave there while a process that
//! died is started again, and passes it to the next one (`LISTEN_FDS`): clients that come in between wait
//! instead of being refused. A process that is told to stop takes them back, because nobody would come for
//! them.

use anyhow::Context;
use console::control::take_over::Taken;
use router::{OpenedBy, Sockets};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// systemd's first descriptor.
const LISTEN_FDS_START: i32 = 3;
/// The name of all of our sockets in systemd's store, by which they are taken back.
const NAME: &str = "FDNAME=headroom";
/// The kernel passes at most 253 descriptors in one message.
const MOST: usize = 250;

/// Sends a state such as `READY=1` to the socket that `NOTIFY_SOCKET` names.
pub fn notify(socket: Option<&str>, state: &str) {
    tell(socket, state, &[]);
}

/// Leaves these sockets with systemd, in place of those left before.
pub fn store(socket: Option<&str>, sockets: &[OwnedFd]) {
    take_back(socket);
    for some in sockets.chunks(MOST) {
        tell(socket, &format!("FDSTORE=1\n{NAME}"), some);
    }
}

/// Takes back what was left with systemd.
pub fn take_back(socket: Option<&str>) {
    tell(socket, &format!("FDSTOREREMOVE=1\n{NAME}"), &[]);
}

fn tell(socket: Option<&str>, state: &str, sockets: &[OwnedFd]) {
    let Some(socket) = socket else { return };
    if let Err(error) = send(socket, state, sockets) {
        tracing::warn!(%error, socket, "could not tell systemd {state}");
    }
}

fn send(socket: &str, state: &str, sockets: &[OwnedFd]) -> io::Result<()> {
    let address = match socket.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(socket)?,
    };
    let datagram = UnixDatagram::unbound()?;
    datagram.connect_addr(&address)?;
    let fds: Vec<_> = sockets.iter().map(AsFd::as_fd).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(&fds)) {
        return Err(io::Error::other("the sockets do not fit into one message"));
    }
    sendmsg(&datagram, &[IoSlice::new(state.as_bytes())], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// The sockets of the process before us, which is given back, or `count` that systemd has for us.
///
/// # Errors
/// A descriptor is no listening socket, or not there.
pub fn inherited(taken: Option<Taken>, count: Option<u32>) -> anyhow::Result<(Sockets, Option<Taken>)> {
    let (fds, before) = match (taken, count) {
        (Some(mut taken), _) => (std::mem::take(&mut taken.sockets), Some(taken)),
        (None, Some(count)) => (listening_sockets(count)?, None),
        (None, None) => (Vec::new(), None),
    };
    let opened_by = if before.is_some() { OpenedBy::Predecessor } else { OpenedBy::Systemd };
    let sockets = Sockets::new(fds, opened_by).context("an inherited descriptor is no listening socket")?;
    Ok((sockets, before))
}

/// The sockets that systemd has for us (`LISTEN_FDS`): `count` descriptors from the third on. It has them
/// once more, whatever becomes of ours. One that no listener takes is closed here, so that nobody waits in
/// it.
fn listening_sockets(count: u32) -> anyhow::Result<Vec<OwnedFd>> {
    let last = LISTEN_FDS_START + i32::try_from(count)?;
    (LISTEN_FDS_START..last)
        .map(|number| {
            zerohop::take_listening(number).with_context(|| {
                format!("descriptor {number}, which LISTEN_FDS promises, is no listening socket")
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{
        RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, getsockname, recvmsg,
        sockopt::socket_acceptconn,
    };
    use std::io::IoSliceMut;
    use std::net::TcpListener;

    #[test]
    fn systemd_hears_it_where_it_listens_and_nowhere_else() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let systemd = UnixDatagram::bind(&path).unwrap();
        notify(path.to_str(), "READY=1");
        let mut heard = [0; 16];
        let length = systemd.recv(&mut heard).unwrap();
        assert_eq!(&heard[..length], b"READY=1");
        notify(Some("/nowhere/notify"), "READY=1");
        notify(None, "READY=1");
    }

    #[test]
    fn sockets_are_left_there_in_place_of_those_before() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let systemd = UnixDatagram::bind(&path).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        store(path.to_str(), &[listener.try_clone().unwrap().into()]);
        let mut text = [0; 64];
        let length = systemd.recv(&mut text).unwrap();
        assert_eq!(&text[..length], b"FDSTOREREMOVE=1\nFDNAME=headroom");

        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::CMSG_CLOEXEC;
        let got = recvmsg(&systemd, &mut [IoSliceMut::new(&mut text)], &mut ancillary, flags).unwrap();
        assert_eq!(&text[..got.bytes], b"FDSTORE=1\nFDNAME=headroom");
        let mut left = Vec::new();
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(fds) = message {
                left.extend(fds);
            }
        }
        assert_eq!(left.len(), 1);
        assert_eq!(getsockname(&left[0]).unwrap(), getsockname(&listener).unwrap());
        assert!(socket_acceptconn(&left[0]).unwrap());
    }
}
