//! Chunks: memory that the kernel fills, from a ring of buffers that it chooses from
//! (`IORING_REGISTER_PBUF_RING`).
//!
//! Two mappings: the chunks themselves, and the ring of entries in which we offer them. A chunk is ours or
//! the kernel's, never both: it becomes ours when a completion names it, and the kernel's again when its
//! entry is published. Pages that were never filled take no memory, so small packets touch one page a chunk.

use io_uring::types::BufRingEntry;
use io_uring::{IoUring, Submitter};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use std::cell::RefCell;
use std::ffi::c_void;
use std::io;
use std::ops::Deref;
use std::ptr::NonNull;
use std::rc::Rc;
use std::slice;
use std::sync::atomic::{AtomicU16, Ordering::Release};

/// The one group of buffers a ring has.
pub(crate) const GROUP: u16 = 0;

/// Pages of our own, zeroed, page-aligned.
#[derive(Debug)]
struct Mapping {
    start: NonNull<c_void>,
    length: usize,
}

impl Mapping {
    fn new(length: usize) -> io::Result<Self> {
        let (access, private) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory in use.
        let start = unsafe { mmap_anonymous(std::ptr::null_mut(), length, access, private)? };
        let start = NonNull::new(start).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, length })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if self.length == 0 {
            return;
        }
        // SAFETY: the mapping is ours, and whoever drops it has seen to it that nobody uses it.
        let _ = unsafe { munmap(self.start.as_ptr(), self.length) };
    }
}

/// The chunks' memory, and which of them have come back since they were last published.
#[derive(Debug)]
struct Memory {
    mapping: Mapping,
    size: usize,
    returned: RefCell<Vec<u16>>,
}

/// Bytes that were received. Goes back to its ring when dropped.
#[derive(Debug)]
pub struct Chunk {
    memory: Rc<Memory>,
    number: u16,
    length: usize,
}

impl Deref for Chunk {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let start = self.memory.mapping.start.cast::<u8>();
        // SAFETY: `number` and `length` were checked against the mapping in `Chunks::take`; the mapping lives
        // as long as `memory`; the kernel writes to a chunk only after its entry was published again, which
        // happens after the drop.
        unsafe {
            let chunk = start.add(usize::from(self.number) * self.memory.size);
            slice::from_raw_parts(chunk.as_ptr(), self.length)
        }
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        self.memory.returned.borrow_mut().push(self.number);
    }
}

/// All chunks of a ring.
#[derive(Debug)]
pub(crate) struct Chunks {
    entries: Mapping,
    memory: Rc<Memory>,
    count: u16,
    /// Entries published so far, wrapping: the kernel's measure of what it may take.
    tail: u16,
}

impl Chunks {
    /// `count` chunks, a power of two, of `size` bytes each; the kernel knows of none yet.
    pub(crate) fn new(count: u16, size: usize) -> io::Result<Self> {
        let entries = Mapping::new(usize::from(count) * size_of::<BufRingEntry>())?;
        let mapping = Mapping::new(usize::from(count) * size)?;
        let returned = RefCell::new((0..count).collect());
        let memory = Rc::new(Memory { mapping, size, returned });
        Ok(Self { entries, memory, count, tail: 0 })
    }

    /// Tells the kernel, and gives it every chunk.
    pub(crate) fn register(&mut self, ring: &IoUring) -> io::Result<()> {
        let submitter: Submitter<'_> = ring.submitter();
        let start = self.entries.start.as_ptr() as u64;
        // SAFETY: the entries are page-aligned, as long as `count` says, and outlive the kernel's use of
        // them: whoever owns the ring drops it before the chunks, and leaks both if the kernel has not let
        // go.
        unsafe { submitter.register_buf_ring_with_flags(start, self.count, GROUP, 0)? };
        self.publish();
        Ok(())
    }

    /// Gives the kernel what has come back.
    pub(crate) fn publish(&mut self) {
        let mut returned = self.memory.returned.borrow_mut();
        if returned.is_empty() {
            return;
        }
        let entries = self.entries.start.cast::<BufRingEntry>();
        for number in returned.drain(..) {
            let at = usize::from(self.tail & (self.count - 1));
            let offset = usize::from(number) * self.memory.size;
            // SAFETY: `at` is below `count`, so the entry lies in the mapping; zeroed memory is a valid
            // entry; the kernel does not read entries at or beyond the published tail, and at most `count`
            // are ever published at a time. The setters leave the last field alone, in which the first entry
            // carries the tail.
            let entry = unsafe { entries.add(at).as_mut() };
            entry.set_addr(self.memory.mapping.start.as_ptr() as u64 + offset as u64);
            entry.set_len(self.memory.size as u32);
            entry.set_bid(number);
            self.tail = self.tail.wrapping_add(1);
        }
        // SAFETY: the tail lies in the first entry, is aligned for a u16, and the kernel only reads it.
        let tail = unsafe { AtomicU16::from_ptr(BufRingEntry::tail(entries.as_ptr()).cast_mut()) };
        tail.store(self.tail, Release);
    }

    /// The chunk that a completion names, with `length` bytes in it: ours until dropped. `None` for what
    /// cannot be.
    pub(crate) fn take(&self, number: u16, length: usize) -> Option<Chunk> {
        let exists = number < self.count && length <= self.memory.size;
        exists.then(|| Chunk { memory: self.memory.clone(), number, length })
    }

    /// Never gives the memory back: the kernel may still use it.
    pub(crate) fn leak(&mut self) {
        std::mem::forget(self.memory.clone());
        // An empty stand-in: what it stands in for is never unmapped.
        let gone = Mapping { start: NonNull::dangling(), length: 0 };
        std::mem::forget(std::mem::replace(&mut self.entries, gone));
    }

    /// Bytes a chunk holds.
    pub(crate) fn size(&self) -> usize {
        self.memory.size
    }
}
