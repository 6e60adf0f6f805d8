//! What is under way to a peer and not acknowledged (`TCP_INFO`): how a dead peer is told from one
//! that does not read.

use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

/// What a TCP connection waits for from its peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outstanding {
    /// Segments that are sent and not acknowledged.
    pub segments: u32,
    /// Questions whether the peer has room again, or is still there, that are not answered. A peer that does
    /// not read answers them.
    pub probes: u8,
    /// Bytes that wait here, because there is no room there or on the way.
    pub unsent: u32,
    /// Since the last acknowledgement of any kind.
    pub last_heard: Duration,
}

impl Outstanding {
    /// Whether the peer owes an acknowledgement.
    pub fn is_owed(self) -> bool {
        self.segments > 0 || self.probes > 0
    }
}

/// Asks the kernel; `None` where it has no answer, as for a unix socket.
pub fn outstanding(socket: impl AsFd) -> Option<Outstanding> {
    // SAFETY: all of its fields are numbers, for which zero is a value.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut length = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: both pointers are to locals of the sizes that are said; the kernel writes at most that much.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut info).cast(),
            &raw mut length,
        )
    };
    let last_heard = Duration::from_millis(u64::from(info.tcpi_last_ack_recv));
    // The count of unsent bytes stands behind what older kernels and libraries tell.
    let whole =
        length as usize >= std::mem::offset_of!(libc::tcp_info, tcpi_notsent_bytes) + size_of::<u32>();
    let unsent = if whole { info.tcpi_notsent_bytes } else { 0 };
    let (segments, probes) = (info.tcpi_unacked, info.tcpi_probes);
    (result == 0).then_some(Outstanding { segments, probes, unsent, last_heard })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use std::time::Instant;

    #[test]
    fn a_peer_that_does_not_read_owes_nothing_for_long() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let mut stream = TcpStream::connect(listener.local_addr().expect("an address")).expect("connects");
        let (_silent, _) = listener.accept().expect("accepts");
        stream.set_nonblocking(true).expect("a mode");
        while stream.write(&[0; 1 << 16]).is_ok() {}
        let deadline = Instant::now() + Duration::from_secs(10);
        while outstanding(&stream).expect("a TCP socket").is_owed() {
            assert!(Instant::now() < deadline, "{:?}", outstanding(&stream));
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn a_unix_socket_has_no_answer() {
        let (one, _other) = std::os::unix::net::UnixStream::pair().expect("a pair");
        assert_eq!(outstanding(&one), None);
    }
}
