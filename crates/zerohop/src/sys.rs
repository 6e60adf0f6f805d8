//! What no safe crate offers: `bpf(2)`, one socket option, a descriptor that is known by its number alone; in
//! `ring` the memory of a ring. Only these two files have `unsafe`.
//!
//! `bpf(2)` takes a union whose members are numbers and pointers at fixed offsets. It is built as bytes by
//! [`Attr`], which borrows the slices that its pointers name.

#![allow(unsafe_code, reason = "bpf(2) has no safe wrapper; every call is made here")]

mod ring;

use crate::bytes::{u32_at, u64_at};
pub(crate) use ring::Ring;
use std::ffi::CString;
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Bytes of an instruction.
pub(crate) const INSTRUCTION: usize = 8;
/// Bytes of the union; longer than any member that is used here.
const ATTR: usize = 144;
const SO_NETNS_COOKIE: libc::c_int = 71;
/// What the verifier may say about a program it refuses.
const LOG: usize = 256 * 1024;
/// Of the Apache licence the kernel knows nothing; none of the helpers used asks for the GPL.
const LICENCE: &[u8] = b"Apache-2.0\0";

/// Commands of `bpf(2)`.
#[derive(Clone, Copy)]
enum Command {
    MapCreate = 0,
    MapLookup = 1,
    MapUpdate = 2,
    MapDelete = 3,
    MapNextKey = 4,
    ProgramLoad = 5,
    Pin = 6,
    Get = 7,
    Info = 15,
    LinkCreate = 28,
    LinkUpdate = 29,
    LinkDetach = 34,
}

/// The union, zeroed but for what was put. It borrows every slice that a pointer in it names.
struct Attr<'a> {
    bytes: [u8; ATTR],
    slices: PhantomData<&'a mut [u8]>,
}

impl<'a> Attr<'a> {
    fn new() -> Self {
        Self { bytes: [0; ATTR], slices: PhantomData }
    }

    fn u32(mut self, at: usize, value: u32) -> Self {
        self.bytes[at..at + 4].copy_from_slice(&value.to_ne_bytes());
        self
    }

    fn u64(mut self, at: usize, value: u64) -> Self {
        self.bytes[at..at + 8].copy_from_slice(&value.to_ne_bytes());
        self
    }

    fn bytes(mut self, at: usize, bytes: &[u8]) -> Self {
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        self
    }

    fn fd(self, at: usize, fd: BorrowedFd<'a>) -> Self {
        self.u32(at, fd.as_raw_fd() as u32)
    }

    fn read(self, at: usize, slice: &'a [u8]) -> Self {
        self.u64(at, slice.as_ptr() as u64)
    }

    fn write(self, at: usize, slice: &'a mut [u8]) -> Self {
        self.u64(at, slice.as_mut_ptr() as u64)
    }

    fn call(mut self, command: Command) -> io::Result<libc::c_long> {
        // SAFETY: the union is as long as is said; every pointer in it was made by `read` or `write` above
        // from a slice that is borrowed for `'a`, so beyond this call, and whose length is what the kernel
        // expects there (sizes of a map's key and value are asserted, lengths are passed along for the
        // others).
        let result =
            unsafe { libc::syscall(libc::SYS_bpf, command as libc::c_long, self.bytes.as_mut_ptr(), ATTR) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
    }

    fn descriptor(self, command: Command) -> io::Result<OwnedFd> {
        let fd = self.call(command)?;
        // SAFETY: the commands that are called this way answer with a descriptor that is new and ours.
        Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
    }
}

/// What a map looks like.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MapSpec {
    pub(crate) name: &'static str,
    pub(crate) kind: u32,
    pub(crate) key: u32,
    pub(crate) value: u32,
    pub(crate) entries: u32,
    pub(crate) flags: u32,
}

/// A map in the kernel.
#[derive(Debug)]
pub(crate) struct MapFd {
    fd: OwnedFd,
    key: usize,
    value: usize,
    /// Entries; bytes for a ring.
    entries: usize,
}

impl MapFd {
    /// Makes it.
    pub(crate) fn create(spec: &MapSpec) -> io::Result<Self> {
        let attr = Attr::new()
            .u32(0, spec.kind)
            .u32(4, spec.key)
            .u32(8, spec.value)
            .u32(12, spec.entries)
            .u32(16, spec.flags)
            .bytes(28, &short(spec.name));
        Ok(Self::new(attr.descriptor(Command::MapCreate)?, spec))
    }

    /// Finds a pinned one; refuses one of another shape.
    pub(crate) fn get(path: &Path, spec: &MapSpec) -> io::Result<Self> {
        let map = Self::new(get(path)?, spec);
        let mut info = [0; 80];
        read_info(&map.fd, &mut info)?;
        let at = |n: usize| u32_at(&info, n);
        if [at(0), at(8), at(12), at(16)] != [spec.kind, spec.key, spec.value, spec.entries] {
            return Err(io::Error::from(io::ErrorKind::InvalidData));
        }
        Ok(map)
    }

    fn new(fd: OwnedFd, spec: &MapSpec) -> Self {
        Self { fd, key: spec.key as usize, value: spec.value as usize, entries: spec.entries as usize }
    }

    /// Finds a pinned one of any shape.
    pub(crate) fn get_any(path: &Path) -> io::Result<Self> {
        let fd = get(path)?;
        let mut info = [0; 80];
        read_info(&fd, &mut info)?;
        let at = |n: usize| u32_at(&info, n) as usize;
        Ok(Self { fd, key: at(8), value: at(12), entries: at(16) })
    }

    /// The same map once more.
    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        Ok(Self { fd: self.fd.try_clone()?, ..*self })
    }

    /// The user's end of a ring.
    pub(crate) fn ring(&self) -> io::Result<Ring> {
        Ring::open(self.fd.try_clone()?, self.entries)
    }

    pub(crate) fn raw(&self) -> i32 {
        self.fd.as_raw_fd()
    }

    pub(crate) fn pin(&self, path: &Path) -> io::Result<()> {
        pin(&self.fd, path)
    }

    /// The value of a key; `None` where there is none.
    pub(crate) fn lookup(&self, key: &[u8]) -> io::Result<Option<Vec<u8>>> {
        assert_eq!(key.len(), self.key);
        // The kernel writes values in whole words.
        let mut value = vec![0; self.value.next_multiple_of(8)];
        let found = self.attr(key).write(16, &mut value).call(Command::MapLookup);
        value.truncate(self.value);
        match found {
            Ok(_) => Ok(Some(value)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Sets the value of a key. With `only_existing`, a key that is not there is an error (`NotFound`).
    pub(crate) fn update(&self, key: &[u8], value: &[u8], only_existing: bool) -> io::Result<()> {
        assert_eq!((key.len(), value.len()), (self.key, self.value));
        let mut whole = value.to_vec();
        whole.resize(self.value.next_multiple_of(8), 0);
        let flags = if only_existing { 2 } else { 0 };
        self.attr(key).read(16, &whole).u64(24, flags).call(Command::MapUpdate).map(drop)
    }

    pub(crate) fn delete(&self, key: &[u8]) -> io::Result<()> {
        assert_eq!(key.len(), self.key);
        self.attr(key).call(Command::MapDelete).map(drop)
    }

    /// Every key; bounded, because keys that come and go meanwhile could make the walk start over.
    pub(crate) fn keys(&self, most: usize) -> io::Result<Vec<Vec<u8>>> {
        let mut keys: Vec<Vec<u8>> = Vec::new();
        while keys.len() < most {
            let mut next = vec![0; self.key];
            let attr = Attr::new().fd(0, self.borrow()).write(16, &mut next);
            let attr = match keys.last() {
                Some(last) => attr.read(8, last),
                None => attr,
            };
            match attr.call(Command::MapNextKey) {
                Ok(_) => keys.push(next),
                Err(error) if error.kind() == io::ErrorKind::NotFound => break,
                Err(error) => return Err(error),
            }
        }
        Ok(keys)
    }

    fn attr<'a>(&'a self, key: &'a [u8]) -> Attr<'a> {
        Attr::new().fd(0, self.borrow()).read(8, key)
    }

    fn borrow(&self) -> BorrowedFd<'_> {
        std::os::fd::AsFd::as_fd(&self.fd)
    }
}

/// Loads a program; the error's text ends with what the verifier said last.
pub(crate) fn load(name: &str, kind: u32, attach: u32, code: &[u8]) -> io::Result<OwnedFd> {
    let named = short(name);
    fn with_log<'a>(attr: Attr<'a>, log: &'a mut [u8]) -> Attr<'a> {
        attr.u32(24, 1).u32(28, log.len() as u32).write(32, log)
    }
    let attr = || {
        Attr::new()
            .u32(0, kind)
            .u32(4, (code.len() / INSTRUCTION) as u32)
            .read(8, code)
            .read(16, LICENCE)
            .bytes(48, &named)
            .u32(68, attach)
    };
    let first = match attr().descriptor(Command::ProgramLoad) {
        Ok(fd) => return Ok(fd),
        Err(error) if matches!(error.raw_os_error(), Some(libc::EPERM)) => return Err(error),
        Err(error) => error,
    };
    // Once more, to hear why.
    let mut log = vec![0; LOG];
    match with_log(attr(), &mut log).descriptor(Command::ProgramLoad) {
        Ok(fd) => Ok(fd),
        Err(_) => {
            let end = log.iter().position(|b| *b == 0).unwrap_or(log.len());
            let text = String::from_utf8_lossy(&log[..end]);
            let said: Vec<&str> = text.lines().filter(|line| !line.starts_with("processed ")).collect();
            let last = said.iter().rev().take(3).rev().copied().collect::<Vec<_>>().join("; ");
            Err(io::Error::other(format!("{first}: {last}")))
        }
    }
}

/// Attaches a program to a cgroup, beside those of others; ends when the last descriptor and pin of the link
/// are closed.
pub(crate) fn attach(program: &OwnedFd, cgroup: BorrowedFd<'_>, attach: u32) -> io::Result<OwnedFd> {
    Attr::new().fd(0, borrow(program)).fd(4, cgroup).u32(8, attach).descriptor(Command::LinkCreate)
}

/// Puts another program into a link, at once: no call falls between the two.
pub(crate) fn replace(link: &OwnedFd, program: &OwnedFd) -> io::Result<()> {
    Attr::new().fd(0, borrow(link)).fd(4, borrow(program)).call(Command::LinkUpdate).map(drop)
}

/// Takes the program of a link out of its cgroup, at once: without it, that happens some time after the last
/// pin is removed.
pub(crate) fn detach(link: &OwnedFd) -> io::Result<()> {
    Attr::new().fd(0, borrow(link)).call(Command::LinkDetach).map(drop)
}

/// The number of the cgroup that a link is attached to.
pub(crate) fn cgroup_of(link: &OwnedFd) -> io::Result<u64> {
    let mut info = [0; 64];
    read_info(link, &mut info)?;
    Ok(u64_at(&info, 16))
}

pub(crate) fn pin(fd: &OwnedFd, path: &Path) -> io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    Attr::new().read(0, path.as_bytes_with_nul()).fd(8, borrow(fd)).call(Command::Pin).map(drop)
}

pub(crate) fn get(path: &Path) -> io::Result<OwnedFd> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    Attr::new().read(0, path.as_bytes_with_nul()).descriptor(Command::Get)
}

/// The cookie of this process's network namespace.
pub(crate) fn netns_cookie() -> io::Result<u64> {
    let socket = std::net::UdpSocket::bind((std::net::Ipv4Addr::LOCALHOST, 0))?;
    let mut cookie = 0u64;
    let mut length = size_of::<u64>() as libc::socklen_t;
    // SAFETY: both pointers are to locals of the sizes that are said.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_NETNS_COOKIE,
            (&raw mut cookie).cast(),
            &raw mut length,
        )
    };
    if result == 0 { Ok(cookie) } else { Err(io::Error::last_os_error()) }
}

fn read_info(fd: &OwnedFd, info: &mut [u8]) -> io::Result<()> {
    let length = info.len() as u32;
    Attr::new().fd(0, borrow(fd)).u32(4, length).write(8, info).call(Command::Info).map(drop)
}

fn borrow(fd: &OwnedFd) -> BorrowedFd<'_> {
    std::os::fd::AsFd::as_fd(fd)
}

/// A name as the kernel takes it: at most 15 bytes.
fn short(name: &str) -> Vec<u8> {
    name.bytes().take(15).collect()
}

/// Takes a listening socket that is known by its number alone, as those are that a service manager passes on.
/// It is closed with what this returns, and no program that is started from here inherits it.
///
/// To be called before this process listens anywhere: the number of a listening socket is then one that it
/// was started with, and nobody in it owns it.
///
/// # Errors
/// No such descriptor is open, or it is no listening socket.
pub fn take_listening(number: i32) -> io::Result<OwnedFd> {
    let mut listens: libc::c_int = 0;
    let mut length = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: both pointers are to locals of the sizes that are said; a number that is not open is refused.
    let result = unsafe {
        libc::getsockopt(
            number,
            libc::SOL_SOCKET,
            libc::SO_ACCEPTCONN,
            (&raw mut listens).cast(),
            &raw mut length,
        )
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    if listens == 0 {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: the call reads no memory.
    if unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it is open, and as said above nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::IntoRawFd;

    #[test]
    fn a_listening_socket_is_taken_by_its_number_and_nothing_else_is() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let connected = TcpStream::connect(address).unwrap();
        assert!(take_listening(connected.as_raw_fd()).is_err(), "it is connected");
        assert!(take_listening(-1).is_err());
        let file = File::open("/dev/null").unwrap();
        assert!(take_listening(file.as_raw_fd()).is_err(), "it is no socket");
        let number = listener.into_raw_fd();
        let taken = take_listening(number).unwrap();
        assert_eq!(taken.as_raw_fd(), number, "not a copy of it");
        assert!(rustix::io::fcntl_getfd(&taken).unwrap().contains(rustix::io::FdFlags::CLOEXEC));
        drop(taken);
        assert!(TcpStream::connect(address).is_err(), "nobody has it any more");
    }
}
