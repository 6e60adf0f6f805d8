//! `/proc/interrupts` and `/proc/softirqs`: which CPU is interrupted by what.
//!
//! The first line names the CPUs that have a column, `CPU0 CPU2 ...`; each further line is `36: 0 3455485 ...
//! what it is`. Lines such as `ERR:` have one figure only. Costly on machines with many CPUs: read seldom.

use super::text::{decimal, grown, lines, named, text, words};
use serde::{Deserialize, Serialize};

/// One interrupt, or one kind of soft interrupt, since boot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interrupt {
    /// `36`, `NMI`, `NET_RX`.
    pub name: String,
    /// Device and controller as the kernel words them; empty for soft interrupts.
    pub what: String,
    /// How often, a figure for each CPU of the heading.
    pub counts: Vec<u64>,
}

/// One of the two files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// CPU numbers, in the order of the columns.
    pub cpus: Vec<u32>,
    /// The lines that have ever counted.
    pub lines: Vec<Interrupt>,
}

/// How often one thing interrupted one CPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// `36`, `NET_RX`.
    pub name: String,
    pub what: String,
    pub cpu: u32,
    /// Times a second.
    pub per_s: f64,
}

/// Reads either file.
pub fn parse(bytes: &[u8]) -> Reading {
    let mut all = lines(bytes);
    let heading = all.next().unwrap_or_default();
    let cpus: Vec<u32> =
        words(heading).filter_map(|word| u32::try_from(decimal(word.strip_prefix(b"CPU")?)?).ok()).collect();
    let lines = all.filter_map(|line| counted(line, cpus.len())).collect();
    Reading { cpus, lines }
}

fn counted(line: &[u8], cpus: usize) -> Option<Interrupt> {
    let (name, rest) = named(line)?;
    let mut words = words(rest);
    let counts: Vec<u64> = words.by_ref().take(cpus).map_while(decimal).collect();
    if counts.len() < cpus || counts.iter().all(|count| *count == 0) {
        return None;
    }
    let what: Vec<&[u8]> = words.collect();
    Some(Interrupt { name: text(name), what: text(&what.join(&b' ')), counts })
}

impl Interrupt {
    /// Whether it is of timers and calls from one CPU to another, which every CPU has. Soft ones have no
    /// words.
    fn is_the_kernels(&self) -> bool {
        !self.what.is_empty() && !is_of_device(&self.name, &self.what)
    }
}

impl Sample {
    /// Whether a device interrupts.
    pub fn is_of_device(&self) -> bool {
        is_of_device(&self.name, &self.what)
    }
}

/// Interrupts of devices are numbered, those of timers and calls from one CPU to another have names (`LOC`,
/// `RES`). On arm64 and in guests of Xen some of these have numbers, too, and are known by their words:
/// `GICv3 27 Level arch_timer`, `xen-percpu -virq timer0`.
fn is_of_device(name: &str, what: &str) -> bool {
    let of_each_cpu = ["timer", "xen-percpu", "IPI"].iter().any(|word| what.contains(word));
    decimal(name.as_bytes()).is_some() && !what.is_empty() && !of_each_cpu
}

impl Reading {
    /// The `most` busiest pairs of interrupt and CPU since `before`, `seconds` ago, busiest first; those of
    /// devices before the kernel's own, which alone would fill the list of a machine with many CPUs.
    pub fn busiest(&self, before: &Self, seconds: f64, most: usize) -> Vec<Sample> {
        let mut pairs: Vec<(f64, usize, usize)> = Vec::new();
        for (at, line) in self.lines.iter().enumerate() {
            let earlier = before.lines.iter().find(|b| b.name == line.name);
            for (column, count) in line.counts.iter().enumerate() {
                let cpu = self.cpus.get(column);
                let old = before.cpus.iter().position(|c| Some(c) == cpu);
                let old = old.and_then(|old| earlier.and_then(|line| line.counts.get(old)));
                let per_s = grown(*count, old.copied().unwrap_or(0)) as f64 / seconds;
                if per_s > 0.0 {
                    pairs.push((per_s, at, column));
                }
            }
        }
        let place = |(per_s, at, _): &(f64, usize, usize)| (self.lines[*at].is_the_kernels(), *per_s);
        pairs.sort_by(|a, b| {
            let (a, b) = (place(a), place(b));
            a.0.cmp(&b.0).then(b.1.total_cmp(&a.1))
        });
        pairs.truncate(most);
        let sample = |(per_s, at, column): (f64, usize, usize)| {
            let line = &self.lines[at];
            Sample { name: line.name.clone(), what: line.what.clone(), cpu: self.cpus[column], per_s }
        };
        pairs.into_iter().map(sample).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_each_cpu_has_is_no_device_whether_it_has_a_number_or_a_name() {
        for (name, what, expected) in [
            ("36", "PCI-MSIX-0000:00:05.0 1-edge virtio1-req.0", true),
            ("LOC", "Local timer interrupts", false),
            ("11", "GICv3 27 Level arch_timer", false),
            ("48", "xen-percpu -virq timer0", false),
            ("49", "xen-dyn -event eth0-q0-rx", true),
            ("NET_RX", "", false),
        ] {
            assert_eq!(is_of_device(name, what), expected, "{name}: {what}");
        }
    }

    #[test]
    fn both_files_of_this_kernel_are_read() {
        let hard = parse(include_bytes!("../../tests/recorded/linux-6.18/interrupts"));
        let disk = hard.lines.iter().find(|line| line.name == "36").unwrap();
        assert!(disk.what.ends_with("virtio1-req.0") && disk.counts[1] > 3_000_000);
        let soft = parse(include_bytes!("../../tests/recorded/linux-6.18/softirqs"));
        assert!(soft.lines.iter().any(|line| line.name == "NET_RX"));
        assert!(soft.lines.iter().all(|line| line.what.is_empty()));
    }

    #[test]
    fn the_busiest_pair_comes_first_and_columns_are_found_by_cpu_number() {
        let before = parse(b"  CPU0 CPU1\n 36: 10 100 PCI-MSI 1-edge nvme0q1\n 40: 5 0 eth0\n");
        let now =
            parse(b"  CPU0 CPU1 CPU2\n 36: 10 150 0 PCI-MSI 1-edge nvme0q1\n 40: 5 0 500 eth0\nERR: 0\n");
        let busiest = now.busiest(&before, 10.0, 5);
        assert_eq!(busiest.len(), 2);
        assert_eq!((busiest[0].cpu, busiest[0].per_s, &*busiest[0].what), (2, 50.0, "eth0"));
        assert_eq!((busiest[1].cpu, busiest[1].per_s), (1, 5.0));
    }

    #[test]
    fn devices_come_before_the_timers_that_every_cpu_has() {
        let before = parse(b"  CPU0 CPU1\n 40: 5 0 PCI-MSI eth0\nLOC: 9 9 Local timer interrupts\n");
        let now = parse(b"  CPU0 CPU1\n 40: 505 0 PCI-MSI eth0\nLOC: 9009 8009 Local timer interrupts\n");
        let busiest = now.busiest(&before, 10.0, 2);
        let names: Vec<(&str, u32)> = busiest.iter().map(|one| (one.name.as_str(), one.cpu)).collect();
        assert_eq!(names, [("40", 0), ("LOC", 0)]);
    }
}
