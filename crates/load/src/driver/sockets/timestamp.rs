//! How long bytes had been there before they were read, by the time stamp that the kernel gives to what
//! arrives (`SO_TIMESTAMPNS`): before TCP has looked at it, so that this is a little more than the reader's
//! own delay, never less.
//!
//! Unix sockets have no such stamp. While any socket of a host asks for stamps, its kernel reads the clock
//! for each packet; it begins with that a moment after the first has asked, so that what arrives at once may
//! have none.

use nix::sys::socket::sockopt::ReceiveTimestampns;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, setsockopt};
use nix::sys::time::TimeSpec;
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};
use std::io::IoSliceMut;
use std::os::fd::{AsRawFd, OwnedFd};

const SECOND: i64 = 1_000_000_000;

/// Receives with stamps.
#[derive(Debug)]
pub(super) struct TimestampedReceiver {
    control: Vec<u8>,
}

impl TimestampedReceiver {
    pub(super) fn new() -> Self {
        Self { control: nix::cmsg_space!(TimeSpec) }
    }

    /// What arrives on this socket is stamped from about now on, where the kernel does that.
    pub(super) fn begin(socket: &OwnedFd) {
        let _ = setsockopt(socket, ReceiveTimestampns, &true);
    }

    /// Receives; for how many ns the last of the bytes had been there.
    #[inline]
    pub(super) fn receive(
        &mut self,
        socket: &OwnedFd,
        buffer: &mut [u8],
    ) -> rustix::io::Result<(usize, Option<u64>)> {
        let mut into = [IoSliceMut::new(buffer)];
        let control = Some(&mut *self.control);
        let received = recvmsg::<()>(socket.as_raw_fd(), &mut into, control, MsgFlags::empty())
            .map_err(|error| Errno::from_raw_os_error(error as i32))?;
        let stamp = received.cmsgs().ok().and_then(|mut messages| {
            messages.find_map(|message| match message {
                ControlMessageOwned::ScmTimestampns(stamp) => Some(stamp),
                _ => None,
            })
        });
        let now = clock_gettime(ClockId::Realtime);
        let since = |stamp: TimeSpec| (now.tv_sec - stamp.tv_sec()) * SECOND + now.tv_nsec - stamp.tv_nsec();
        // Below 0 when the clock was set back in between.
        Ok((received.bytes, stamp.map(|stamp| since(stamp).max(0).unsigned_abs())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    #[test]
    fn bytes_that_lay_there_say_for_how_long() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut ours = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let theirs: OwnedFd = listener.accept().unwrap().0.into();
        TimestampedReceiver::begin(&theirs);
        let mut buffer = [0; 16];
        let stamped = (0..1000).any(|_| {
            ours.write_all(b"early").unwrap();
            std::thread::sleep(Duration::from_millis(1));
            TimestampedReceiver::new().receive(&theirs, &mut buffer).unwrap().1.is_some()
        });
        assert!(stamped, "the kernel never began with stamps");
        ours.write_all(b"answer").unwrap();
        std::thread::sleep(Duration::from_millis(20));
        let (count, waited) = TimestampedReceiver::new().receive(&theirs, &mut buffer).unwrap();
        assert_eq!(&buffer[..count], b"answer");
        assert!(waited.unwrap() >= 19_000_000, "{waited:?}");
        drop(ours);
        assert_eq!(TimestampedReceiver::new().receive(&theirs, &mut buffer).unwrap().0, 0, "the end");
    }

    #[test]
    fn unix_sockets_have_no_stamp() {
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        let theirs: OwnedFd = theirs.into();
        TimestampedReceiver::begin(&theirs);
        ours.write_all(b"answer").unwrap();
        assert_eq!(TimestampedReceiver::new().receive(&theirs, &mut [0; 16]).unwrap(), (6, None));
    }
}
