//! `/proc/meminfo` and `/proc/vmstat`: how much memory is left, and whether the kernel has to search for it.
//!
//! Names moved over the years: `pgscan_direct_normal` and its sisters became `pgscan_direct` in 4.8,
//! `allocstall` became `allocstall_normal` and sisters in 4.10, `workingset_refault` became
//! `workingset_refault_file` in 5.9. All are read; sisters are added up.
//!
//! OpenZFS keeps its cache beside the page cache, and `MemAvailable` does not count it, though it shrinks
//! when memory is wanted: on such a host most of the memory would seem to be in use for good. What it would
//! give back stands in `/proc/spl/kstat/zfs/arcstats`.

use super::text::{decimal, grown, lines, named, words};
use serde::{Deserialize, Serialize};

/// What both files say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    pub level: Level,
    /// Counters since boot.
    pub reclaim: Reclaim,
}

/// Bytes now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Level {
    pub total: u64,
    pub free: u64,
    /// What programs could still get without swapping; free plus caches before Linux 3.14. With what OpenZFS
    /// would give back.
    pub available: u64,
    /// The page cache.
    pub cached: u64,
    /// Waits to be written.
    pub dirty: u64,
    /// Is being written.
    pub writeback: u64,
    pub swap_total: u64,
    /// Swap space unused.
    pub swap_free: u64,
}

/// Counters since boot, in pages unless said otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reclaim {
    /// Read back from swap.
    pub swapped_in: u64,
    /// Written to swap.
    pub swapped_out: u64,
    /// Looked at by a program that needed memory at once.
    pub scanned_direct: u64,
    /// Looked at by the kernel's own threads for this; `None` where it does not say.
    pub scanned_by_kernel: Option<u64>,
    /// Times a program had to wait for reclaim.
    pub stalls: u64,
    /// Page faults that had to read.
    pub major_faults: u64,
    /// File pages read again soon after they were dropped.
    pub refaults: u64,
    /// Programs killed for want of memory.
    pub killed: u64,
}

/// Memory between two readings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Levels at the later reading, bytes.
    pub level: Level,
    /// Pages read back from swap a second.
    pub swapped_in_per_s: f64,
    /// Pages written to swap a second.
    pub swapped_out_per_s: f64,
    /// Pages that programs scanned themselves for want of memory, a second.
    pub scanned_direct_per_s: f64,
    /// These and what the kernel scanned for them, because the host had little left: what is scanned for the
    /// limit of a cgroup is not counted (`mm/vmscan.c`). `None`: not known.
    #[serde(default)]
    pub scanned_per_s: Option<f64>,
    /// Waits for reclaim a second.
    pub stalls_per_s: f64,
    /// Page faults that had to read, a second.
    pub major_faults_per_s: f64,
    /// File pages read again soon after they were dropped, a second.
    pub refaults_per_s: f64,
    /// Programs killed for want of memory in the window.
    pub killed: u64,
}

/// Reads `/proc/meminfo`.
pub fn parse_level(bytes: &[u8]) -> Level {
    let mut level = Level::default();
    let mut available = None;
    let mut buffers = 0;
    for line in lines(bytes) {
        let Some((name, rest)) = named(line) else { continue };
        let Some(kibibytes) = words(rest).next().and_then(decimal) else { continue };
        let value = kibibytes.saturating_mul(1024);
        match name {
            b"MemTotal" => level.total = value,
            b"MemFree" => level.free = value,
            b"MemAvailable" => available = Some(value),
            b"Buffers" => buffers = value,
            b"Cached" => level.cached = value,
            b"Dirty" => level.dirty = value,
            b"Writeback" => level.writeback = value,
            b"SwapTotal" => level.swap_total = value,
            b"SwapFree" => level.swap_free = value,
            _ => {}
        }
    }
    level.available =
        available.unwrap_or_else(|| level.free.saturating_add(buffers).saturating_add(level.cached));
    level
}

/// Reads `arcstats` of OpenZFS: bytes that its cache would give back, which is all above its least size; 0
/// where there is none.
pub fn parse_arc(bytes: &[u8]) -> u64 {
    let figure = |wanted: &[u8]| {
        lines(bytes).find_map(|line| {
            // `size  4  1234`: a name, a type, a value.
            let mut words = words(line);
            let name = words.next()?;
            words.nth(1).and_then(decimal).filter(|_| name == wanted)
        })
    };
    figure(b"size").zip(figure(b"c_min")).map_or(0, |(size, least)| size.saturating_sub(least))
}

impl Level {
    /// The same, where a cache that the kernel does not count as available would give back this number of
    /// bytes. More than is not free is somebody else's: a container of LXC has its own `meminfo`, and sees
    /// the host's cache.
    #[must_use]
    pub fn with_cache(mut self, bytes: u64) -> Self {
        if bytes <= self.total.saturating_sub(self.free) {
            self.available = self.available.saturating_add(bytes).min(self.total);
        }
        self
    }
}

/// Reads `/proc/vmstat`.
pub fn parse_reclaim(bytes: &[u8]) -> Reclaim {
    let mut reclaim = Reclaim::default();
    for line in lines(bytes) {
        let mut words = words(line);
        let (Some(name), Some(value)) = (words.next(), words.next().and_then(decimal)) else { continue };
        let into = match name {
            b"pswpin" => &mut reclaim.swapped_in,
            b"pswpout" => &mut reclaim.swapped_out,
            b"pgmajfault" => &mut reclaim.major_faults,
            b"workingset_refault" | b"workingset_refault_file" => &mut reclaim.refaults,
            b"oom_kill" => &mut reclaim.killed,
            b"pgscan_direct_throttle" => continue,
            name if name.starts_with(b"pgscan_direct") => &mut reclaim.scanned_direct,
            name if name.starts_with(b"pgscan_kswapd") => reclaim.scanned_by_kernel.get_or_insert_default(),
            name if name.starts_with(b"allocstall") => &mut reclaim.stalls,
            _ => continue,
        };
        *into = into.saturating_add(value);
    }
    reclaim
}

impl Reading {
    /// What happened since `before`, `seconds` ago.
    pub fn since(&self, before: &Self, seconds: f64) -> Sample {
        let per_s = |of: fn(&Reclaim) -> u64| grown(of(&self.reclaim), of(&before.reclaim)) as f64 / seconds;
        let scanned_direct_per_s = per_s(|r| r.scanned_direct);
        let by_kernel = self.reclaim.scanned_by_kernel.zip(before.reclaim.scanned_by_kernel);
        let by_kernel = by_kernel.map(|(now, before)| grown(now, before) as f64 / seconds);
        Sample {
            level: self.level,
            swapped_in_per_s: per_s(|r| r.swapped_in),
            swapped_out_per_s: per_s(|r| r.swapped_out),
            scanned_direct_per_s,
            scanned_per_s: by_kernel.map(|by_kernel| by_kernel + scanned_direct_per_s),
            stalls_per_s: per_s(|r| r.stalls),
            major_faults_per_s: per_s(|r| r.major_faults),
            refaults_per_s: per_s(|r| r.refaults),
            killed: grown(self.reclaim.killed, before.reclaim.killed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_kernel_is_read() {
        let level = parse_level(include_bytes!("../../tests/recorded/linux-6.18/meminfo"));
        assert_eq!(level.total, 24_684_084 * 1024);
        assert!(level.available > level.free && level.cached > 0);
        let reclaim = parse_reclaim(include_bytes!("../../tests/recorded/linux-6.18/vmstat"));
        assert!(reclaim.major_faults > 0 && reclaim.refaults > 0);
        assert_eq!((reclaim.swapped_in, reclaim.scanned_direct, reclaim.stalls), (0, 0, 0));
    }

    #[test]
    fn what_openzfs_would_give_back_is_available() {
        let arc = b"13 1 0x01 147 39984 4258153342 9046103\nname type data\nhits 4 77\nc 4 900\n\
                    c_min                           4    100\nc_max 4 1000\n\
                    size                            4    700\ncompressed_size 4 5\n";
        assert_eq!(parse_arc(arc), 600);
        assert_eq!((parse_arc(b""), parse_arc(b"size 4 700\n")), (0, 0), "unknown is nothing");
        let level = parse_level(b"MemTotal: 1 kB\nMemFree: 0 kB\nMemAvailable: 0 kB\n");
        assert_eq!((level.with_cache(600).available, level.with_cache(9_000).available), (600, 0));
        let level = parse_level(b"MemTotal: 2 kB\nMemFree: 0 kB\nMemAvailable: 1 kB\n");
        assert_eq!(level.with_cache(1_500).available, 2048, "all at most");
    }

    #[test]
    fn the_names_of_old_kernels_are_read_and_sisters_added_up() {
        let reclaim = parse_reclaim(
            b"pgscan_direct_dma 1\npgscan_direct_normal 20\npgscan_direct_throttle 99\nallocstall 7\n\
              workingset_refault 5\n",
        );
        assert_eq!((reclaim.scanned_direct, reclaim.stalls, reclaim.refaults), (21, 7, 5));
        assert_eq!(reclaim.scanned_by_kernel, None);
        let reclaim = parse_reclaim(b"pgscan_kswapd_dma 1\npgscan_kswapd_normal 20\n");
        assert_eq!(reclaim.scanned_by_kernel, Some(21));
        let reclaim = parse_reclaim(b"allocstall_dma 1\nallocstall_normal 2\nallocstall_movable 4\n");
        assert_eq!(reclaim.stalls, 7);
        let level = parse_level(b"MemTotal: 100 kB\nMemFree: 10 kB\nBuffers: 5 kB\nCached: 20 kB\n");
        assert_eq!(level.available, 35 * 1024);
    }
}
