//! What a machine shared with others gives us at a moment, apart from the clock of its CPUs: room in the last cache, and how long it
//! takes to wake a thread on another core.
//!
//! A calculation in registers takes the same time whatever the neighbours do; a server does not. Where guests share a processor,
//! its last cache belongs to whoever fills it, and an interrupt from core to core goes by way of the host.

use super::super::process::run_here_on;
use anyhow::{Context, anyhow};
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use serde::Serialize;
use std::io::{PipeReader, PipeWriter, Read, Write};
use std::time::{Duration, Instant};

/// More than the caches of a core hold, less than a last cache.
const BYTES: usize = 8 << 20;
const LINE: usize = 64;
/// Loads between two looks at the clock.
const STRIDE: usize = 10_000;

/// What was found.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Neighbours {
    /// A load that depends on the one before, anywhere in 8 MiB, ns: some 15 from the last cache, 100 and more from memory.
    pub(super) load_ns: f64,
    /// From a thread to a sleeping one on another core and back, us. `None` on a machine with one core.
    pub(super) there_and_back_us: Option<f64>,
}

/// Looks again and again.
pub(super) struct Lookout {
    /// Each line names the next one to look at; all are one ring.
    ring: Vec<u32>,
}

impl Lookout {
    pub(super) fn new() -> Self {
        let mut order: Vec<u32> = (0..(BYTES / LINE) as u32).collect();
        order.shuffle(&mut StdRng::seed_from_u64(1));
        let places = LINE / size_of::<u32>();
        let mut ring = vec![0; order.len() * places];
        for (from, to) in order.iter().zip(order.iter().cycle().skip(1)) {
            ring[*from as usize * places] = *to * places as u32;
        }
        Self { ring }
    }

    /// Looks for about this long.
    ///
    /// # Errors
    /// A thread or a pipe that cannot be had.
    pub(super) fn look(&self, time: Duration) -> anyhow::Result<Neighbours> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let load_ns = self.loads(time / 2);
        let there_and_back_us = if cores > 1 { Some(there_and_back(time / 2)?) } else { None };
        Ok(Neighbours { load_ns, there_and_back_us })
    }

    fn loads(&self, time: Duration) -> f64 {
        let (mut at, mut count) = (0, 0);
        // Once round, or the first loads would find out who came before us.
        for _ in 0..BYTES / LINE {
            at = self.ring[at] as usize;
        }
        let began = Instant::now();
        while began.elapsed() < time {
            for _ in 0..STRIDE {
                at = self.ring[at] as usize;
            }
            count += STRIDE;
        }
        std::hint::black_box(at);
        began.elapsed().as_secs_f64() * 1e9 / count as f64
    }
}

/// Wakes a thread on the second core from the first, which wakes it back, us.
fn there_and_back(time: Duration) -> anyhow::Result<f64> {
    let (theirs_in, ours_out) = std::io::pipe().context("making a pipe")?;
    let (ours_in, theirs_out) = std::io::pipe().context("making a pipe")?;
    let echo = std::thread::spawn(move || echo(theirs_in, theirs_out));
    let asking = std::thread::spawn(move || ask(ours_in, ours_out, time));
    let asked = asking.join().map_err(|_| anyhow!("the thread that wakes another one has panicked"))?;
    echo.join().map_err(|_| anyhow!("the thread that is woken has panicked"))??;
    asked
}

fn echo(mut from: PipeReader, mut to: PipeWriter) -> anyhow::Result<()> {
    run_here_on(1)?;
    let mut byte = [0];
    while from.read(&mut byte)? == 1 {
        to.write_all(&byte)?;
    }
    Ok(())
}

fn ask(mut from: PipeReader, mut to: PipeWriter, time: Duration) -> anyhow::Result<f64> {
    run_here_on(0)?;
    let (mut byte, mut count) = ([0], 0.0);
    let began = Instant::now();
    while began.elapsed() < time {
        to.write_all(&byte)?;
        from.read_exact(&mut byte)?;
        count += 1.0;
    }
    Ok(began.elapsed().as_secs_f64() * 1e6 / count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_visited_once_a_round() {
        let lookout = Lookout::new();
        let (mut at, mut seen) = (0, 0);
        loop {
            at = lookout.ring[at] as usize;
            seen += 1;
            if at == 0 {
                break;
            }
        }
        assert_eq!(seen, BYTES / LINE);
    }

    #[test]
    fn a_look_has_times() {
        let found = Lookout::new().look(Duration::from_millis(4)).unwrap();
        assert!(found.load_ns > 0.0 && found.there_and_back_us.is_none_or(|time| time > 0.0), "{found:?}");
    }
}
