//! Our reading of /proc against the tools that everybody reads it with, over the same minute of this machine: mpstat and
//! iostat (sysstat), ss (iproute2).
//!
//! Tools and we read the counters at not quite the same moments: a tenth of a second at either end, of sixty. What may
//! differ is that share of what can happen, and the tools' own rounding to two digits.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use observe::host::{Places, Sampler};
use serde_json::Value;
use std::process::{Command, Output, Stdio};

/// The minute.
const SECONDS: u32 = 60;
/// Two tenths of a second of it.
const APART: f64 = 0.2 / SECONDS as f64;

#[test]
fn a_minute_of_this_machine_is_what_mpstat_and_iostat_and_ss_say_it_is() {
    let mut sampler = Sampler::new(Places::default());
    // The first opens the files.
    sampler.read();
    let tool = |program: &str, arguments: &[&str]| {
        let mut command = Command::new(program);
        command.args(arguments).args([&SECONDS.to_string(), "1"]).env("LC_ALL", "C").stdout(Stdio::piped());
        command.spawn().unwrap_or_else(|error| panic!("{program} (scripts/install.sh bench): {error}"))
    };
    let before = sampler.read();
    let mpstat = tool("mpstat", &["-P", "ALL", "-o", "JSON"]);
    let iostat = tool("iostat", &["-x", "-y", "-o", "JSON"]);
    let (mpstat, iostat) =
        (statistics(&mpstat.wait_with_output().unwrap()), statistics(&iostat.wait_with_output().unwrap()));
    let sample = sampler.read().since(&before).unwrap();
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
        let Some(ours) = sample.disks.iter().find(|disk| disk.name == name) else { continue };
        let theirs = |name: &str| line[name].as_f64().unwrap();
        let flushed = ours.flushed.unwrap_or_default();
        let pairs = [
            ("r/s", ours.read.per_s, theirs("r/s")),
            ("w/s", ours.written.per_s, theirs("w/s")),
            ("f/s", flushed.per_s, theirs("f/s")),
            ("rkB/s", ours.read.bytes_per_s / 1024.0, theirs("rkB/s")),
            ("wkB/s", ours.written.bytes_per_s / 1024.0, theirs("wkB/s")),
            ("aqu-sz", ours.queue, theirs("aqu-sz")),
            ("busy", ours.busy * 100.0, theirs("util")),
        ];
        for (what, ours, theirs) in pairs {
            // What happens at the ends may be some times what happens on average.
            let most = theirs.max(ours) * APART * 10.0 + 2.0;
            assert!((ours - theirs).abs() <= most, "{name} {what}: {ours} here, {theirs} by iostat");
        }
    }
    the_connections_are_those_that_ss_counts(&mut sampler);
}

/// Connections come and go while two programs count: the count that `ss` finds lies within what we find around it.
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
