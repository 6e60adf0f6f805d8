//! What CPUs and memory can do: plain loops of fixed work, on one thread and on all. Figures to compare hosts
//! by; no database does just this.

use crate::machine;
use serde::{Deserialize, Serialize};
use std::hint::black_box;
use std::thread;
use std::time::{Duration, Instant};

/// Of each buffer that is copied, at most: far beyond any cache together.
const BUFFER: usize = 64 << 20;
/// Of each buffer at least: still beyond the caches that a CPU has for itself.
const LEAST: usize = 4 << 20;
/// All buffers together take at most this, and a quarter of what is free, if that is not less than the least
/// of each: with some ten CPUs and more those of 64 MiB would push out a server's pages, or have the kernel
/// kill it.
const ALL: usize = 2 << 30;
const SHARE_OF_FREE: usize = 4;
/// Steps between two looks at the clock.
const STEPS: u64 = 100_000;

/// CPUs and memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Compute {
    /// Threads that "all" are: the CPUs we may use.
    pub cpus: usize,
    /// Steps of SplitMix64 (each waits for the one before) a second on one thread.
    pub one_cpu_per_s: f64,
    /// On all of them at once.
    pub all_cpus_per_s: f64,
    /// Bytes a second that one thread copies (each is read once and written once).
    pub one_copy_bytes_per_s: f64,
    /// All of them at once.
    pub all_copy_bytes_per_s: f64,
}

/// Measures for four times `each`. Blocks.
pub(crate) fn measure(each: Duration) -> Compute {
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    let free = machine::free_bytes();
    let (of_one, of_all) = (buffer(1, free), buffer(cpus, free));
    Compute {
        cpus,
        one_cpu_per_s: together(1, || steps(each)),
        all_cpus_per_s: together(cpus, || steps(each)),
        one_copy_bytes_per_s: together(1, || copies(each, of_one)),
        all_copy_bytes_per_s: together(cpus, || copies(each, of_all)),
    }
}

/// Bytes of each buffer, where this many threads have two each; `free`: of the host's memory, where it tells.
fn buffer(threads: usize, free: Option<u64>) -> usize {
    let free = free.and_then(|free| usize::try_from(free).ok());
    let all = free.map_or(ALL, |free| ALL.min(free / SHARE_OF_FREE));
    (all / (2 * threads.max(1))).clamp(LEAST, BUFFER)
}

/// The sum of what this many threads do at once.
fn together(threads: usize, work: impl Fn() -> f64 + Sync) -> f64 {
    thread::scope(|scope| {
        let all: Vec<_> = (0..threads).map(|_| scope.spawn(&work)).collect();
        all.into_iter().filter_map(|one| one.join().ok()).sum()
    })
}

fn steps(time: Duration) -> f64 {
    let (start, mut done, mut state) = (Instant::now(), 0u64, 1u64);
    while start.elapsed() < time {
        for _ in 0..STEPS {
            state = split_mix(state);
        }
        black_box(state);
        done += STEPS;
    }
    done as f64 / start.elapsed().as_secs_f64()
}

fn split_mix(state: u64) -> u64 {
    let state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let state = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let state = (state ^ (state >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    state ^ (state >> 31)
}

fn copies(time: Duration, bytes: usize) -> f64 {
    let (from, mut to) = (vec![1u8; bytes], vec![0u8; bytes]);
    let (start, mut copied) = (Instant::now(), 0usize);
    while start.elapsed() < time {
        to.copy_from_slice(black_box(&from));
        black_box(&to);
        copied += bytes;
    }
    copied as f64 / start.elapsed().as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_that_is_copied_is_bounded_on_a_host_with_many_cpus_or_little_room() {
        let mib = |threads, free: Option<u64>| buffer(threads, free) >> 20;
        assert_eq!((mib(1, Some(64 << 30)), mib(16, Some(64 << 30)), mib(16, None)), (64, 64, 64));
        assert_eq!(mib(64, Some(64 << 30)), 16, "2 GiB in all");
        assert_eq!(mib(8, Some(2 << 30)), 32, "a quarter of what is free");
        assert_eq!(mib(256, Some(1 << 20)), 4);
    }

    #[test]
    fn every_figure_is_there() {
        let compute = measure(Duration::from_millis(20));
        for figure in [compute.one_cpu_per_s, compute.all_cpus_per_s, compute.one_copy_bytes_per_s] {
            assert!(figure.is_finite() && figure > 0.0);
        }
        assert!(compute.cpus > 0 && compute.all_copy_bytes_per_s > 0.0);
    }
}
