//! The user's end of a ring that programs in the kernel write (`BPF_MAP_TYPE_RINGBUF`), as memory.

#![allow(unsafe_code, reason = "the memory of a ring has no safe wrapper; all access to it is here")]

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The user's end of a ring in the kernel. One process reads it; where two do during a takeover, what they
/// read may be nonsense, but is memory of the ring.
#[derive(Debug)]
pub(crate) struct Ring {
    fd: OwnedFd,
    size: usize,
    /// How far we have read: ours to write.
    consumer: Mapping,
    /// How far the kernel has written, then the records, twice in a row: its own.
    producer: Mapping,
}

/// Memory of a ring; it begins with a position.
#[derive(Debug)]
struct Mapping {
    start: NonNull<AtomicU64>,
    length: usize,
}

/// Marks a record that the kernel is still writing, ...
const BUSY: u32 = 1 << 31;
/// ... and one that it has given up.
const DISCARDED: u32 = 1 << 30;
/// Bytes of a record before its content.
const RECORD_HEAD: usize = 8;

impl Ring {
    /// The ring of this map, which has this many bytes.
    pub(super) fn open(fd: OwnedFd, size: usize) -> io::Result<Self> {
        let page = rustix::param::page_size();
        let consumer = Mapping::new(&fd, 0, page, ProtFlags::READ | ProtFlags::WRITE)?;
        let producer = Mapping::new(&fd, page as u64, page + 2 * size, ProtFlags::READ)?;
        Ok(Self { fd, size, consumer, producer })
    }

    /// Everything written so far counts as read.
    pub(crate) fn skip(&self) {
        let written = self.producer.position().load(Ordering::Acquire);
        self.consumer.position().store(written, Ordering::Release);
    }

    /// Hands out the records that are complete, oldest first, and says how many bytes of the ring they took.
    pub(crate) fn read(&self, record: &mut Vec<u8>, mut each: impl FnMut(&[u8])) -> usize {
        let begin = self.consumer.position().load(Ordering::Acquire);
        let (mut at, written) = (begin, self.producer.position().load(Ordering::Acquire));
        while at < written {
            let offset = rustix::param::page_size() + at as usize % self.size;
            let head = self.producer.head(offset).load(Ordering::Acquire);
            let length = (head & !(BUSY | DISCARDED)) as usize;
            if head & BUSY != 0 || length > self.size {
                break;
            }
            if head & DISCARDED == 0 {
                self.producer.copy(offset + RECORD_HEAD, length, record);
                each(record);
            }
            at += (RECORD_HEAD + length).next_multiple_of(8) as u64;
            self.consumer.position().store(at, Ordering::Release);
        }
        (at - begin) as usize
    }
}

impl std::os::fd::AsFd for Ring {
    fn as_fd(&self) -> BorrowedFd<'_> {
        std::os::fd::AsFd::as_fd(&self.fd)
    }
}

// SAFETY: the mapping belongs to the process, not to a thread, and is only touched as an atomic.
unsafe impl Send for Mapping {}
// SAFETY: the same.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn new(fd: &OwnedFd, offset: u64, length: usize, access: ProtFlags) -> io::Result<Self> {
        // SAFETY: a new mapping at an address of the kernel's choice, shared with nothing of this program.
        let start = unsafe { mmap(std::ptr::null_mut(), length, access, MapFlags::SHARED, fd, offset)? };
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, length })
    }

    fn position(&self) -> &AtomicU64 {
        // SAFETY: the memory lives as long as `self`, is aligned, and begins with a 64-bit position (kernel,
        // ringbuf.c). The producer's is only read.
        unsafe { self.start.as_ref() }
    }

    /// The first word of the record at this offset.
    fn head(&self, offset: usize) -> &AtomicU32 {
        assert!(offset.is_multiple_of(8) && offset + RECORD_HEAD <= self.length);
        // SAFETY: inside the mapping and aligned, as was just asserted; written by the kernel, here only
        // read.
        unsafe { self.start.cast::<AtomicU32>().byte_add(offset).as_ref() }
    }

    /// Makes `to` these bytes.
    fn copy(&self, offset: usize, length: usize, to: &mut Vec<u8>) {
        assert!(offset + length <= self.length);
        to.clear();
        to.reserve(length);
        // SAFETY: the source is inside the mapping, as was just asserted, the destination has room for as
        // much; they cannot overlap. The kernel does not write a record again before it counts as read.
        unsafe {
            std::ptr::copy_nonoverlapping(
                self.start.as_ptr().cast::<u8>().add(offset),
                to.as_mut_ptr(),
                length,
            );
            to.set_len(length);
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this length, and nobody holds a reference into it any more.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.length) };
    }
}
