//! What the machine itself adds to a latency: how long threads that never sleep are kept from running.
//!
//! A request that comes at a moment of its own waits for what is left of a stall that it meets. With stalls
//! of lengths `g` in a time `T`, the share of moments that wait longer than `x` is
//!
//! ```text
//! sum of max(g - x, 0) / T
//! ```
//!
//! and the p99 is the `x` at which that share is 1 %. A request meets the client's core and the server's, so
//! their shares add up (for small shares). Requests that queue up behind a stall wait longer still: it is a
//! lower bound.

use super::process::run_here_on;
use anyhow::anyhow;
use serde::Serialize;
use std::time::{Duration, Instant};

/// Between two readings of the clock less than this has passed: no stall.
const LEAST: Duration = Duration::from_micros(2);
/// One in a hundred waits longer.
const BEYOND: f64 = 0.01;

/// What a moment waits that meets both cores (one, on a machine that has no more).
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct MachineStalls {
    pub(crate) p99_us: f64,
    /// The share of moments that wait longer than this many microseconds.
    pub(crate) beyond: f64,
}

/// Looks for this long; `beyond_us` as in [`MachineStalls::beyond`].
pub(crate) fn look(cores: [usize; 2], time: Duration, beyond_us: f64) -> anyhow::Result<MachineStalls> {
    let different = if cores[0] == cores[1] { &cores[..1] } else { &cores[..] };
    let spinning: Vec<_> =
        different.iter().copied().map(|core| std::thread::spawn(move || stalls(core, time))).collect();
    let mut all = Vec::new();
    for thread in spinning {
        all.extend(thread.join().map_err(|_| anyhow!("the thread that looks for stalls has panicked"))??);
    }
    let time = time.as_secs_f64() * 1e6;
    let beyond = all.iter().map(|stall| (stall - beyond_us).max(0.0)).sum::<f64>() / time;
    Ok(MachineStalls { p99_us: exceeded(&mut all, time, BEYOND), beyond })
}

/// Looks at the clock again and again on one core: every time in which it could not, microseconds.
fn stalls(core: usize, time: Duration) -> anyhow::Result<Vec<f64>> {
    run_here_on(core)?;
    let mut stalls = Vec::with_capacity(1 << 16);
    let began = Instant::now();
    let mut last = began;
    while last - began < time {
        let now = Instant::now();
        if now - last >= LEAST {
            stalls.push((now - last).as_secs_f64() * 1e6);
        }
        last = now;
    }
    Ok(stalls)
}

/// The wait that this share of the moments of `time` exceeds; 0 when fewer wait at all.
fn exceeded(stalls: &mut [f64], time: f64, share: f64) -> f64 {
    stalls.sort_by(f64::total_cmp);
    let wanted = share * time;
    // From the longest down: with the n longest of sum s, the wait x at which s - n x is what is wanted.
    let (mut sum, mut count) = (0.0, 0.0);
    for (at, stall) in stalls.iter().enumerate().rev() {
        sum += stall;
        count += 1.0;
        let next = if at == 0 { 0.0 } else { stalls[at - 1] };
        let x = (sum - wanted) / count;
        if x >= next {
            return x.max(0.0);
        }
    }
    0.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_wait_for_the_rest_of_the_stall_they_meet() {
        // 100 stalls of 100 in 500,000: 2 % of the moments meet one, half of those wait longer than 50.
        assert!((exceeded(&mut [100.0; 100], 500_000.0, 0.01) - 50.0).abs() < 1e-9);
        assert!(exceeded(&mut [100.0; 100], 2_000_000.0, 0.01).abs() < 1e-9, "too few");
        // With a long one beside them: 5,000 = (1,000 - x) + 100 (100 - x).
        let mut stalls = [vec![100.0; 100], vec![1000.0]].concat();
        assert!((exceeded(&mut stalls, 500_000.0, 0.01) - 6000.0 / 101.0).abs() < 1e-9);
        assert!(exceeded(&mut [], 1e6, 0.01).abs() < 1e-9);
    }
}
