//! What CPUs and memory can do: plain loops of fixed work, on one thread and on all. Figures to compare hosts
//! by; no database does just this.

use serde::{Deserialize, Serialize};
use std::hint::black_box;
use std::thread;
use std::time::{Duration, Instant};

/// Of each buffer that is copied: far beyond any cache together.
const BUFFER: usize = 64 << 20;
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
    Compute {
        cpus,
        one_cpu_per_s: together(1, || steps(each)),
        all_cpus_per_s: together(cpus, || steps(each)),
        one_copy_bytes_per_s: together(1, || copies(each)),
        all_copy_bytes_per_s: together(cpus, || copies(each)),
    }
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

fn copies(time: Duration) -> f64 {
    let (from, mut to) = (vec![1u8; BUFFER], vec![0u8; BUFFER]);
    let (start, mut copied) = (Instant::now(), 0usize);
    while start.elapsed() < time {
        to.copy_from_slice(black_box(&from));
        black_box(&to);
        copied += BUFFER;
    }
    copied as f64 / start.elapsed().as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_is_there() {
        let compute = measure(Duration::from_millis(20));
        for figure in [compute.one_cpu_per_s, compute.all_cpus_per_s, compute.one_copy_bytes_per_s] {
            assert!(figure.is_finite() && figure > 0.0);
        }
        assert!(compute.cpus > 0 && compute.all_copy_bytes_per_s > 0.0);
    }
}
