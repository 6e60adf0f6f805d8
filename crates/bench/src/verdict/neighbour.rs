//! The table of neighbours, nearly full: reachable entries on the far end of a pair of interfaces. All
//! namespaces of a host share one table and its limit (`gc_thresh3`), so that the entries count here, too,
//! and go with the pair. Nobody is refused one: the table is filled to less than its limit.

use super::veth::{FAR_NAME, Pair, batch};
use anyhow::{Context, bail};
use diagnose::host::table;
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What the kernel took back in order to make room is added again this often.
const AGAIN: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(100);
/// More than this many entries are not made.
pub(super) const MOST: u64 = 16_384;

/// The entries; dropped, they end.
pub(super) struct Neighbours {
    stop: Arc<AtomicBool>,
    keeper: Option<JoinHandle<()>>,
    _pair: Pair,
}

impl Neighbours {
    /// Fills the table to this share of its limit.
    pub(super) fn begin(share: f64, until: Instant) -> anyhow::Result<Self> {
        let pair = Pair::make()?;
        let table = now().context("the table of neighbours cannot be read")?;
        let wanted = (table.limit as f64 * share) as u64;
        if wanted > MOST {
            bail!("{wanted} entries would be needed, more than {MOST} are not made");
        }
        let lines = entries(wanted.saturating_sub(table.entries));
        batch(&lines)?;
        let mut neighbours = Self { stop: Arc::default(), keeper: None, _pair: pair };
        let stop = neighbours.stop.clone();
        neighbours.keeper = Some(std::thread::spawn(move || keep(&lines, until, &stop)));
        Ok(neighbours)
    }
}

impl Drop for Neighbours {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(keeper) = self.keeper.take() {
            let _ = keeper.join();
        }
    }
}

/// The table as it is now.
pub(super) fn now() -> Option<table::Reading> {
    let stat = std::fs::read("/proc/net/stat/arp_cache").ok()?;
    let limit = std::fs::read("/proc/sys/net/ipv4/neigh/default/gc_thresh3").ok()?;
    Some(table::parse_neighbours(&stat, &limit)).filter(|table| table.limit > 0)
}

fn keep(lines: &str, until: Instant, stop: &AtomicBool) {
    let mut last = Instant::now();
    while Instant::now() < until && !stop.load(Ordering::Relaxed) {
        std::thread::sleep(LOOK);
        if last.elapsed() >= AGAIN {
            let _ = batch(lines);
            last = Instant::now();
        }
    }
}

fn entries(count: u64) -> String {
    let mut lines = String::new();
    for number in 0..count {
        let (high, low) = (number >> 8, number & 0xff);
        // Writing to a String cannot fail.
        let _ = writeln!(
            lines,
            "neigh replace 198.19.{high}.{low} lladdr 02:00:00:00:{high:02x}:{low:02x} nud reachable dev {FAR_NAME}"
        );
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_has_an_address_of_its_own() {
        let lines = entries(300);
        assert!(
            lines.starts_with(
                "neigh replace 198.19.0.0 lladdr 02:00:00:00:00:00 nud reachable dev hrbench1\n"
            )
        );
        assert!(
            lines
                .ends_with("neigh replace 198.19.1.43 lladdr 02:00:00:00:01:2b nud reachable dev hrbench1\n")
        );
        assert_eq!(lines.lines().count(), 300);
    }
}
