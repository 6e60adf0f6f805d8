//! Connections as the kernel shows them to those who ask over netlink (`sock_diag`): bytes, how long quiet,
//! and the way to end one from outside. Ending needs CAP_NET_ADMIN and a kernel with
//! CONFIG_INET_DIAG_DESTROY.

use crate::bytes::{u32_at, u64_at};
use rustix::net::netlink::SOCK_DIAG;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

const BY_FAMILY: u16 = 20;
const DESTROY: u16 = 21;
const MESSAGE_ERROR: u16 = 2;
const MESSAGE_DONE: u16 = 3;
const REQUEST: u16 = 0x1;
const ACK: u16 = 0x4;
const DUMP: u16 = 0x300;
const INET: u8 = 2;
const INET6: u8 = 10;
const TCP: u8 = 6;
const ESTABLISHED: u32 = 1 << 1;
/// The attribute with `struct tcp_info`.
const INFO: u16 = 2;
const HEADER: usize = 16;
const ANSWER: usize = 72;
const IDENTITY: usize = 48;
/// A look usually takes 5 to 10 us. One that took longer than this was interrupted, or the machine is slow;
/// the next may take twice as long.
const QUICK: Duration = Duration::from_micros(25);
/// This many times somebody looks before a connection is left alone.
const LOOKS: u32 = 6;

/// An established TCP connection of this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Socket {
    /// The kernel's name of it.
    pub cookie: u64,
    /// Our end.
    pub local: SocketAddr,
    /// The other end.
    pub peer: SocketAddr,
    /// Bytes that the other end has acknowledged; of a connection made from here, one more for its beginning.
    pub sent: u64,
    /// Bytes received.
    pub received: u64,
    /// No data went either way for this long; the kernel's clock ticks every few milliseconds.
    pub quiet: Duration,
    /// Bytes are under way: unread here, not yet acknowledged there, or not even sent.
    pub busy: bool,
    family: u8,
    identity: [u8; IDENTITY],
}

/// Every established TCP connection of this network namespace.
///
/// # Errors
/// What the system said.
pub fn established() -> io::Result<Vec<Socket>> {
    let mut all = Vec::new();
    for family in [INET, INET6] {
        let netlink = open()?;
        let request = request(BY_FAMILY, REQUEST | DUMP, family, &[0; IDENTITY]);
        send(&netlink, &request, SendFlags::empty())?;
        let mut buffer = vec![0; 64 * 1024];
        while !take(&netlink, &mut buffer, |kind, payload| match kind {
            MESSAGE_DONE => Ok(true),
            MESSAGE_ERROR => Err(error_of(payload).unwrap_or_else(|| io::Error::from(io::ErrorKind::Other))),
            BY_FAMILY => {
                all.extend(socket(payload));
                Ok(false)
            }
            _ => Ok(false),
        })? {}
    }
    Ok(all)
}

impl Socket {
    /// Bytes of the application that the other end has acknowledged, of a connection made from here.
    pub fn data_sent(&self) -> u64 {
        self.sent.saturating_sub(1)
    }

    /// Ends it as [`Socket::end`] does, but only if nothing has gone either way since this was read, and
    /// nothing is under way. Returns whether it did; not where it had ended already, either.
    ///
    /// What is sent between the last look and the end is lost, unless it is held back
    /// ([`crate::Bypass::close`]). That is some 10 us, because a look that took long is none: who was
    /// interrupted looks again.
    ///
    /// # Errors
    /// `Unsupported` when the kernel was built without it; whatever else the system said.
    pub(crate) fn end_if_unused_since(&self) -> io::Result<bool> {
        let (to_look, to_end) = (open()?, open()?);
        for look in 0..LOOKS {
            let begun = Instant::now();
            if !self.is_unused_since(&to_look)? {
                return Ok(false);
            }
            // How quick this machine is, nobody knows: what is expected of it gets less.
            if begun.elapsed() <= QUICK * 2u32.pow(look) {
                return match self.end_over(&to_end) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
                    ended => ended.map(|()| true),
                };
            }
        }
        Ok(false)
    }

    /// Ends it, as a reset does: both ends see it closed.
    ///
    /// # Errors
    /// `NotFound` when it has ended already, `Unsupported` when the kernel was built without it.
    pub fn end(&self) -> io::Result<()> {
        self.end_over(&open()?)
    }

    /// `false` too when it has ended.
    fn is_unused_since(&self, netlink: &OwnedFd) -> io::Result<bool> {
        let now = self.again(netlink)?;
        Ok(now.is_some_and(|now| (now.sent, now.received, now.busy) == (self.sent, self.received, false)))
    }

    /// The same connection as it is now; `None` when it has ended.
    fn again(&self, netlink: &OwnedFd) -> io::Result<Option<Self>> {
        send(netlink, &request(BY_FAMILY, REQUEST, self.family, &self.identity), SendFlags::empty())?;
        let mut buffer = [0; 1024];
        let mut found = None;
        take(netlink, &mut buffer, |kind, payload| {
            found = (kind == BY_FAMILY).then(|| socket(payload)).flatten();
            Ok(true)
        })?;
        Ok(found)
    }

    fn end_over(&self, netlink: &OwnedFd) -> io::Result<()> {
        send(netlink, &request(DESTROY, REQUEST | ACK, self.family, &self.identity), SendFlags::empty())?;
        let mut buffer = [0; 1024];
        let mut answer = Ok(());
        while !take(netlink, &mut buffer, |kind, payload| {
            if kind == MESSAGE_ERROR {
                answer = error_of(payload).map_or(Ok(()), Err);
            }
            Ok(kind == MESSAGE_ERROR)
        })? {}
        answer
    }
}

fn open() -> io::Result<OwnedFd> {
    let kind = SocketType::DGRAM;
    Ok(socket_with(AddressFamily::NETLINK, kind, SocketFlags::CLOEXEC, Some(SOCK_DIAG))?)
}

/// Reads one batch of messages; `true` when `each` has said that it was the last.
fn take(
    netlink: &OwnedFd,
    buffer: &mut [u8],
    mut each: impl FnMut(u16, &[u8]) -> io::Result<bool>,
) -> io::Result<bool> {
    let (length, _) = recv(netlink, &mut *buffer, RecvFlags::empty())?;
    let mut rest = &buffer[..length];
    while rest.len() >= HEADER {
        let length = u32_at(rest, 0) as usize;
        let kind = u16::from_ne_bytes([rest[4], rest[5]]);
        if length < HEADER || length > rest.len() {
            return Err(io::Error::from(io::ErrorKind::InvalidData));
        }
        if each(kind, &rest[HEADER..length])? {
            return Ok(true);
        }
        rest = &rest[length.next_multiple_of(4).min(rest.len())..];
    }
    Ok(false)
}

fn request(kind: u16, flags: u16, family: u8, identity: &[u8; IDENTITY]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER + 8 + IDENTITY);
    bytes.extend(((HEADER + 8 + IDENTITY) as u32).to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    bytes.extend([0; 8]);
    bytes.extend([family, TCP, 1 << (INFO - 1), 0]);
    bytes.extend(ESTABLISHED.to_ne_bytes());
    bytes.extend(identity);
    bytes
}

/// The error in an answer; `None` is an acknowledgement.
fn error_of(payload: &[u8]) -> Option<io::Error> {
    let code = payload.get(..4).map_or(0, |_| u32_at(payload, 0) as i32);
    (code != 0).then(|| io::Error::from_raw_os_error(-code))
}

fn socket(answer: &[u8]) -> Option<Socket> {
    let head = answer.get(..ANSWER)?;
    let family = head[0];
    let mut identity = [0; IDENTITY];
    identity.copy_from_slice(&head[4..4 + IDENTITY]);
    let info = attribute(&answer[ANSWER..], INFO)?;
    // Kernels before 4.6 have no such counts; none of those runs the programs.
    let counts = info.get(..148)?;
    // The kernel reads these two, like the counts below, under the socket's lock.
    let under_way = u32_at(counts, 24) > 0 || u32_at(counts, 144) > 0;
    let (since_sent_ms, since_received_ms) = (u32_at(counts, 44), u32_at(counts, 52));
    Some(Socket {
        cookie: u64_at(&identity, 40),
        local: address(family, &identity, 0, 4),
        peer: address(family, &identity, 2, 20),
        sent: u64_at(counts, 120),
        received: u64_at(counts, 128),
        quiet: Duration::from_millis(since_sent_ms.min(since_received_ms).into()),
        busy: under_way || u32_at(head, 56) > 0 || u32_at(head, 60) > 0,
        family,
        identity,
    })
}

fn address(family: u8, identity: &[u8], port: usize, ip: usize) -> SocketAddr {
    let port = u16::from_be_bytes([identity[port], identity[port + 1]]);
    let ip: IpAddr = if family == INET {
        Ipv4Addr::new(identity[ip], identity[ip + 1], identity[ip + 2], identity[ip + 3]).into()
    } else {
        let mut octets = [0; 16];
        octets.copy_from_slice(&identity[ip..ip + 16]);
        IpAddr::V6(Ipv6Addr::from(octets)).to_canonical()
    };
    SocketAddr::new(ip, port)
}

fn attribute(mut bytes: &[u8], wanted: u16) -> Option<&[u8]> {
    while bytes.len() >= 4 {
        let length = usize::from(u16::from_ne_bytes([bytes[0], bytes[1]]));
        let kind = u16::from_ne_bytes([bytes[2], bytes[3]]);
        let payload = bytes.get(4..length)?;
        if kind == wanted {
            return Some(payload);
        }
        bytes = bytes.get(length.next_multiple_of(4)..)?;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn a_connection_of_this_process_is_found_with_what_it_carried() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        client.write_all(b"hello").unwrap();
        server.read_exact(&mut [0; 5]).unwrap();
        let all = established().unwrap();
        let (local, peer) = (client.local_addr().unwrap(), client.peer_addr().unwrap());
        let found = all.iter().find(|s| s.local == local && s.peer == peer).unwrap();
        assert_eq!((found.sent >= 5, found.received), (true, 0));
        let other = all.iter().find(|s| s.local == peer && s.peer == local).unwrap();
        assert_eq!(other.received, 5);
    }

    #[test]
    fn a_connection_is_unused_until_a_byte_goes_either_way_and_never_after_its_end() {
        let unused = |socket: &Socket| socket.is_unused_since(&open().unwrap()).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        let (local, peer) = (client.local_addr().unwrap(), client.peer_addr().unwrap());
        let look = || {
            let is_it = |s: &Socket| s.local == local && s.peer == peer;
            established().unwrap().into_iter().find(is_it).unwrap()
        };
        let before = look();
        assert!(unused(&before));
        client.write_all(b"hello").unwrap();
        assert!(!unused(&before));
        server.read_exact(&mut [0; 5]).unwrap();
        assert!(!unused(&before), "what was sent since stays counted after it was read");
        let later = look();
        server.write_all(b"unread").unwrap();
        assert!(!unused(&later));
        drop((client, server));
        assert!(!unused(&later));
    }
}
