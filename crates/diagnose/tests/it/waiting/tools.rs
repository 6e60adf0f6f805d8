//! Our reading of /proc against the tools that everybody reads it with, over the same minute of this machine:
//! mpstat and iostat (sysstat), ss (iproute2).
//!
//! Tools and we read the counters at not quite the same moments: a tenth of a second at either end, of sixty.
//! For CPUs, what may differ is that share of what can happen, and the tools' own rounding to two digits. A
//! disk can do half of a minute's work in such a tenth; there what the tool saw must lie between what we saw
//! within its minute and what we saw around it.

use diagnose::host::{Roots, Sample, Sampler, disk};
use serde_json::Value;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// The minute.
const SECONDS: u32 = 60;
/// Two tenths of a second of it.
const APART: f64 = 0.2 / SECONDS as f64;
/// A tool has read for the first time this long after its start, and does so for the last time not before the
/// minute is over.
const UNDER_WAY: Duration = Duration::from_secs(2);

#[test]
fn a_minute_of_this_machine_is_what_mpstat_and_iostat_and_ss_say_it_is() {
    let mut sampler = Sampler::new(Roots::default());
    // The first opens the files.
    sampler.read();
    let tool = |program: &str, arguments: &[&str]| {
        let mut command = Command::new(program);
        command.args(arguments).args([&SECONDS.to_string(), "1"]).env("LC_ALL", "C").stdout(Stdio::piped());
        command.spawn().unwrap_or_else(|error| panic!("{program} (scripts/install.sh bench): {error}"))
    };
    let (before, start) = (sampler.read(), Instant::now());
    let mpstat = tool("mpstat", &["-P", "ALL", "-o", "JSON"]);
    let iostat = tool("iostat", &["-x", "-y", "-o", "JSON"]);
    std::thread::sleep(UNDER_WAY);
    let (began, inner) = (sampler.read(), Instant::now());
    std::thread::sleep(Duration::from_secs(u64::from(SECONDS)).saturating_sub(start.elapsed()));
    let (ending, inner) = (sampler.read(), inner.elapsed());
    let (mpstat, iostat) =
        (statistics(&mpstat.wait_with_output().unwrap()), statistics(&iostat.wait_with_output().unwrap()));
    let (sample, outer) = (sampler.read().since(&before).unwrap(), start.elapsed());
    let within = ending.since(&began).unwrap();
    for line in mpstat["cpu-load"].as_array().unwrap() {
        let name = line["cpu"].as_str().unwrap();
        let ours = match name.parse::<u32>() {
            Ok(number) => sample.cpu.each.iter().find(|(n, _)| *n == number).unwrap().1,
            Err(_) => sample.cpu.all,
        };
        let theirs = |names: &[&str]| names.iter().map(|n| line[n].as_f64().unwrap()).sum::<f64>() / 100.0;
        let pairs = [
            ("user", ours.user, theirs(&["usr", "nice", "guest", "gnice"])),
            ("system", ours.system, theirs(&["sys"])),
            ("irq", ours.irq, theirs(&["irq"])),
            ("softirq", ours.softirq, theirs(&["soft"])),
            ("steal", ours.steal, theirs(&["steal"])),
            ("iowait", ours.iowait, theirs(&["iowait"])),
            ("idle", ours.idle, theirs(&["idle"])),
        ];
        for (what, ours, theirs) in pairs {
            assert!(
                (ours - theirs).abs() <= APART + 2e-4,
                "CPU {name} {what}: {ours} here, {theirs} by mpstat"
            );
        }
    }
    for line in iostat["disk"].as_array().unwrap() {
        let name = line["disk_device"].as_str().unwrap();
        let named = |sample: &'_ Sample| sample.disks.iter().find(|disk| disk.name == name).cloned();
        let (Some(least), Some(most)) = (named(&within), named(&sample)) else { continue };
        let (least, most) = (amounts(&least, inner), amounts(&most, outer));
        for ((what, least), (_, most)) in least.into_iter().zip(most) {
            let theirs = line[what].as_f64().unwrap() * f64::from(SECONDS);
            // Two digits, of a rate, over a minute that is one to a hundredth of a second.
            let rounding = 0.01 * f64::from(SECONDS) + theirs * 1e-3;
            let range = least - rounding..=most + rounding;
            assert!(range.contains(&theirs), "{name} {what}: {theirs} by iostat, {range:?} here");
        }
    }
    the_connections_are_those_that_ss_counts(&mut sampler);
}

/// What a disk did in all, by iostat's names of the rates.
fn amounts(disk: &disk::Sample, time: Duration) -> [(&'static str, f64); 7] {
    let flushed = disk.flushed.unwrap_or_default();
    [
        ("r/s", disk.read.per_s),
        ("w/s", disk.written.per_s),
        ("f/s", flushed.per_s),
        ("rkB/s", disk.read.bytes_per_s / 1024.0),
        ("wkB/s", disk.written.bytes_per_s / 1024.0),
        ("aqu-sz", disk.queue),
        ("util", disk.busy * 100.0),
    ]
    .map(|(what, rate)| (what, rate * time.as_secs_f64()))
}

/// Connections come and go while two programs count: the count that `ss` finds lies within what we find
/// around it.
fn the_connections_are_those_that_ss_counts(sampler: &mut Sampler) {
    let seen = (0..20).any(|_| {
        let before = sampler.read().tcp.established;
        // The kernel's CurrEstab counts those whose far end has closed too.
        let ss = Command::new("ss")
            .args(["-Htn", "state", "established", "state", "close-wait"])
            .output()
            .unwrap();
        let after = sampler.read().tcp.established;
        let theirs = String::from_utf8_lossy(&ss.stdout).lines().count() as u64;
        (before.min(after)..=before.max(after)).contains(&theirs)
    });
    assert!(seen, "in none of 20 looks did ss count as many connections as /proc/net/snmp");
}

fn statistics(output: &Output) -> Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let all: Value = serde_json::from_slice(&output.stdout).unwrap();
    all["sysstat"]["hosts"][0]["statistics"][0].clone()
}
