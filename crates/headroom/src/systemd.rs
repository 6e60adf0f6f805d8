//! systemd: tells it that we are ready or stopping, where it asked for that (`Type=notify`; one datagram,
//! nothing depends on it), and takes the listening sockets that it opened for us.

use anyhow::Context;
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// systemd's first descriptor.
const LISTEN_FDS_START: i32 = 3;

/// Sends a state such as `READY=1` to the socket that `NOTIFY_SOCKET` names.
pub(crate) fn notify(socket: Option<&str>, state: &str) {
    let Some(socket) = socket else { return };
    let address = match socket.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(socket),
    };
    let sent = address.and_then(|address| UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address));
    if let Err(error) = sent {
        tracing::warn!(%error, socket, "could not tell systemd {state}");
    }
}

/// The sockets that systemd opened for us (`LISTEN_FDS`), duplicated: `count` descriptors from the third on.
/// They stay open there whatever becomes of us.
pub(crate) fn listening_sockets(count: u32) -> anyhow::Result<Vec<OwnedFd>> {
    let last = LISTEN_FDS_START + i32::try_from(count)?;
    (LISTEN_FDS_START..last)
        .map(|number| {
            zerohop::duplicate(number).with_context(|| {
                format!("descriptor {number}, which LISTEN_FDS promises, cannot be duplicated")
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
