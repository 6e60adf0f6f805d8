//! `/sys/devices/system/cpu`: at which part of their highest frequency CPUs run, and how often heat held them
//! back.
//!
//! Of a machine's CPUs a few are looked at, seldom: some kernels measure a CPU's frequency when they are
//! asked for it, which takes 10 ms each. A guest mostly has none of these files, which is unknown and not
//! 100 %; AMD counts no throttling here. An idle CPU runs slowly because it may: the frequency says something
//! of busy ones alone. Where the highest includes what a single busy core may take, all of them together stay
//! below.
//!
//! Sources: the kernel's `pm/cpufreq.rst` (`scaling_cur_freq`, `cpuinfo_max_freq`, kHz) and
//! `arch/x86/kernel/cpu/mce/therm_throt.c` (`core_throttle_count`, `package_throttle_count`).

use super::text::{decimal, grown, words};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// How many CPUs are looked at.
const LOOKED_AT: usize = 4;

/// What a few CPUs said.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reading {
    /// Mean of their frequencies as shares of the highest; `None` where none tells.
    pub share: Option<f64>,
    /// How often heat held a CPU, and its package, back since boot, of those that count it.
    pub throttled: Vec<(u32, [u64; 2])>,
}

/// Between two readings. `None`: not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Of their highest frequency, at which CPUs run: 1 and, where boosts are not counted in it, more.
    pub share_of_highest: Option<f64>,
    /// How often heat held back the CPU, of those looked at, that was held back most.
    pub throttled: Option<u64>,
}

/// Reads some of the CPUs below `sys`.
pub fn read(sys: &Path) -> Reading {
    let dir = sys.join("devices/system/cpu");
    let entries = std::fs::read_dir(&dir).into_iter().flatten().flatten();
    let number = |entry: std::fs::DirEntry| entry.file_name().to_str()?.strip_prefix("cpu")?.parse().ok();
    let mut numbers: Vec<u32> = entries.filter_map(number).collect();
    numbers.sort_unstable();
    let (mut shares, mut throttled) = (Vec::new(), Vec::new());
    for number in some_of(&numbers) {
        let figure = |file: &str| figure(&dir.join(format!("cpu{number}/{file}")));
        let frequencies = figure("cpufreq/scaling_cur_freq").zip(figure("cpufreq/cpuinfo_max_freq"));
        shares.extend(frequencies.filter(|(_, most)| *most > 0).map(|(now, most)| now as f64 / most as f64));
        let counts = ["core", "package"].map(|of| figure(&format!("thermal_throttle/{of}_throttle_count")));
        if counts.iter().any(Option::is_some) {
            throttled.push((number, counts.map(Option::unwrap_or_default)));
        }
    }
    let share = (!shares.is_empty()).then(|| shares.iter().sum::<f64>() / shares.len() as f64);
    Reading { share, throttled }
}

/// A few, spread over all, odd and even ones: some machines number the CPUs of their packages in turns.
fn some_of(numbers: &[u32]) -> Vec<u32> {
    let step = numbers.len().div_ceil(LOOKED_AT).max(1);
    let place = |at: usize| at * step + if step > 1 { at % 2 } else { 0 };
    (0..LOOKED_AT).filter_map(|at| numbers.get(place(at)).copied()).collect()
}

fn figure(path: &Path) -> Option<u64> {
    let bytes = std::fs::read(path).ok()?;
    words(&bytes).next().and_then(decimal)
}

impl Reading {
    /// What happened since `before`; how often they were held back is not known where that is the same look.
    pub fn since(&self, before: &Self, is_another_look: bool) -> Sample {
        let shares: Vec<f64> = [before.share, self.share].into_iter().flatten().collect();
        let earlier = |cpu: u32| before.throttled.iter().find(|(other, _)| *other == cpu);
        let times = |(cpu, now): &(u32, [u64; 2])| {
            let (_, before) = earlier(*cpu)?;
            now.iter().zip(before).map(|(now, before)| grown(*now, *before)).max()
        };
        let throttled = self.throttled.iter().filter_map(times).max();
        Sample {
            share_of_highest: (!shares.is_empty()).then(|| shares.iter().sum::<f64>() / shares.len() as f64),
            throttled: throttled.filter(|_| is_another_look),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine of this many CPUs, each with the same files.
    fn machine(cpus: u32, files: &[(&str, &str)]) -> tempfile::TempDir {
        let sys = tempfile::tempdir().unwrap();
        for cpu in 0..cpus {
            let dir = sys.path().join(format!("devices/system/cpu/cpu{cpu}"));
            std::fs::create_dir_all(dir.join("cpufreq")).unwrap();
            std::fs::create_dir_all(dir.join("thermal_throttle")).unwrap();
            for (name, text) in files {
                std::fs::write(dir.join(name), text).unwrap();
            }
        }
        std::fs::create_dir_all(sys.path().join("devices/system/cpu/cpuidle")).unwrap();
        sys
    }

    #[test]
    fn a_hot_machine_runs_below_its_highest_frequency_and_was_held_back() {
        let sys = machine(
            2,
            &[
                ("cpufreq/scaling_cur_freq", "1860000\n"),
                ("cpufreq/cpuinfo_max_freq", "3000000\n"),
                ("thermal_throttle/core_throttle_count", "7\n"),
                ("thermal_throttle/package_throttle_count", "30\n"),
            ],
        );
        let before = read(sys.path());
        let count = "devices/system/cpu/cpu1/thermal_throttle/package_throttle_count";
        std::fs::write(sys.path().join(count), "44\n").unwrap();
        let now = read(sys.path());
        let sample = now.since(&before, true);
        assert_eq!(sample.throttled, Some(14));
        assert!((sample.share_of_highest.unwrap() - 0.62).abs() < 1e-9, "{sample:?}");
        assert_eq!(now.since(&now, false).throttled, None, "not looked at again yet");
    }

    #[test]
    fn what_a_guest_does_not_tell_is_unknown() {
        let unknown = Sample { share_of_highest: None, throttled: None };
        let untold = [("cpufreq/scaling_cur_freq", "<unknown>\n"), ("cpufreq/cpuinfo_max_freq", "0\n")];
        for sys in [machine(2, &[]), machine(0, &[]), machine(1, &untold)] {
            let reading = read(sys.path());
            assert_eq!(reading.since(&reading, true), unknown);
        }
    }

    #[test]
    fn of_many_cpus_a_few_are_looked_at_and_of_two_packages_that_take_turns_both() {
        let some = some_of(&(0..128).collect::<Vec<_>>());
        assert_eq!(some, [0, 33, 64, 97]);
        assert_eq!(some_of(&[0, 1, 2]), [0, 1, 2]);
        assert_eq!(some_of(&[]), [0; 0]);
    }
}
