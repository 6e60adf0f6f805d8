//! How long the scheduler lets a thread run before it looks for another: its *slice*, which any thread may choose for itself
//! (sched_setattr(2), Linux 6.12 and later; earlier kernels take the call and do nothing).
//!
//! A thread with the longest slice is chosen later than others that want to run, and stays longer when it has been: right for one
//! that sends to servers on the same cores and has them answer while it waits, wrong for one that has to be on time.

#![allow(unsafe_code, reason = "two system calls that no crate has a safe function for")]

use std::io;
use std::mem;
use std::time::Duration;

/// What the kernel gives everybody.
pub(super) const USUAL: Duration = Duration::ZERO;
/// The longest it gives.
pub(super) const LONGEST: Duration = Duration::from_millis(100);

/// Asks for a slice for this thread; everything else about its scheduling stays. It is no more than a wish: whoever is not
/// scheduled fairly (real-time policies) or is forbidden to ask goes on as before.
pub(super) fn ask(slice: Duration) {
    let asked = attributes().and_then(|mut attributes| {
        let fair = [libc::SCHED_OTHER, libc::SCHED_BATCH].map(|policy| policy as u32);
        if fair.contains(&attributes.sched_policy) {
            attributes.sched_runtime = slice.as_nanos() as u64;
            set(&attributes)?;
        }
        Ok(())
    });
    if let Err(error) = asked {
        tracing::debug!(%error, "the scheduler keeps its usual slice");
    }
}

/// How this thread is scheduled; its slice as `sched_runtime`, in ns, from Linux 6.12 on.
fn attributes() -> io::Result<libc::sched_attr> {
    let size = mem::size_of::<libc::sched_attr>();
    // SAFETY: all fields are numbers.
    let mut attributes: libc::sched_attr = unsafe { mem::zeroed() };
    // SAFETY: the kernel writes at most the given size, into memory of that size.
    let done = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size, 0) };
    if done == 0 { Ok(attributes) } else { Err(io::Error::last_os_error()) }
}

fn set(attributes: &libc::sched_attr) -> io::Result<()> {
    // SAFETY: the kernel reads as many bytes as its first field says, which the kernel itself has filled in.
    let done = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const *attributes, 0) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In a thread of its own: others of this process keep theirs.
    fn aside<T: Send + 'static>(what: impl FnOnce() -> T + Send + 'static) -> T {
        std::thread::spawn(what).join().expect("the thread panicked")
    }

    #[test]
    fn the_slice_changes_and_nothing_else_does() {
        let [before, long, after] = aside(|| {
            let before = attributes().expect("sched_getattr");
            ask(LONGEST);
            let long = attributes().expect("sched_getattr");
            ask(USUAL);
            [before, long, attributes().expect("sched_getattr")]
        });
        // Kernels before 6.12 tell of no slice, and have none to choose.
        if before.sched_runtime > 0 {
            assert_eq!(Duration::from_nanos(long.sched_runtime), LONGEST);
            assert_eq!(after.sched_runtime, before.sched_runtime);
        }
        for other in [long, after] {
            assert_eq!(other.sched_policy, before.sched_policy);
            assert_eq!(other.sched_nice, before.sched_nice);
        }
    }

    #[test]
    fn a_nice_thread_stays_nice() {
        let nice = aside(|| {
            let mut attributes = super::attributes().expect("sched_getattr");
            attributes.sched_nice = 7;
            set(&attributes).expect("being nicer needs no right");
            ask(LONGEST);
            super::attributes().expect("sched_getattr").sched_nice
        });
        assert_eq!(nice, 7);
    }
}
