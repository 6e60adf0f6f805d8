//! Rules whose bottleneck is not made on every machine (`headroom-bench verdict` says which and why), on
//! readings in the kernel's own words: the files of a host as they were recorded, with what ten seconds of
//! that bottleneck add to them, through the sampler, the differences and the rules.

use super::*;
use crate::host::cgroup::Limits;
use crate::host::{Roots, Sampler};
use std::time::Duration;

const APART: Duration = Duration::from_secs(10);
const PID: u32 = 42;
/// Where a recorded file lies on a host.
const FILES: [(&str, &str); 8] = [
    ("proc/stat", include_str!("../../../tests/recorded/linux-6.18/stat")),
    ("proc/vmstat", include_str!("../../../tests/recorded/linux-6.18/vmstat")),
    ("proc/meminfo", include_str!("../../../tests/recorded/linux-6.18/meminfo")),
    ("proc/net/dev", include_str!("../../../tests/recorded/linux-6.18/net_dev")),
    ("proc/net/snmp", include_str!("../../../tests/recorded/linux-6.18/net_snmp")),
    ("proc/net/netstat", include_str!("../../../tests/recorded/linux-6.18/net_netstat")),
    ("proc/net/softnet_stat", include_str!("../../../tests/recorded/linux-6.18/net_softnet_stat")),
    ("proc/net/stat/arp_cache", include_str!("../../../tests/recorded/linux-6.18/arp_cache")),
];
/// What was not recorded with them.
const BESIDE: [(&str, &str); 5] = [
    ("proc/pressure/memory", "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\nfull avg10=0.00 total=0\n"),
    ("proc/pressure/cpu", "some avg10=1.00 avg60=1.00 avg300=1.00 total=0\nfull avg10=0.00 total=0\n"),
    ("proc/sys/net/ipv4/neigh/default/gc_thresh3", "1024\n"),
    ("proc/sys/net/netfilter/nf_conntrack_max", "262144\n"),
    ("proc/sys/net/netfilter/nf_conntrack_count", "120\n"),
];

/// The files of a host, at a moment and ten seconds later.
struct RecordedHost {
    root: tempfile::TempDir,
}

impl RecordedHost {
    fn new() -> Self {
        let host = Self { root: tempfile::tempdir().unwrap() };
        FILES.iter().chain(&BESIDE).for_each(|(name, text)| host.write(name, text));
        host.write(
            "proc/net/stat/nf_conntrack",
            include_str!("../../../tests/recorded/linux-6.18/nf_conntrack"),
        );
        host
    }

    /// And a server in a cgroup of version 2 with these files.
    fn with_cgroup(files: &[(&str, &str)]) -> Self {
        let host = Self::new();
        let mount = host.root.path().join("cg");
        host.write("proc/self/mounts", &format!("cgroup2 {} cgroup2 rw 0 0\n", mount.display()));
        host.write(&format!("proc/{PID}/cgroup"), "0::/pod/db\n");
        files.iter().for_each(|(name, text)| host.write(name, text));
        host
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.root.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.root.path().join(name)).unwrap()
    }

    /// What is named after these ten seconds: two CPUs a third busy, and what `then` changes.
    fn named_after(&self, then: impl FnOnce(&Self)) -> Option<Name> {
        self.judged_after(then).bottleneck.map(|finding| finding.name)
    }

    fn judged_after(&self, then: impl FnOnce(&Self)) -> Verdict {
        let proc = self.root.path().join("proc");
        let roots = Roots { proc: proc.clone(), sys: self.root.path().join("sys") };
        let mut sampler = Sampler::new(roots);
        let limits = Limits::of(PID, &proc);
        let (mut before, limited_before) = (sampler.read(), limits.as_ref().map(Limits::read));
        before.at = before.at.checked_sub(APART).unwrap();
        self.passed([250, 0, 60, 680, 0, 0, 10, 0]);
        then(self);
        let host = sampler.read().since(&before);
        let limits = limits
            .as_ref()
            .zip(limited_before)
            .and_then(|(limits, before)| limits.between(&before.earlier(APART), &limits.read()));
        judge(&Window { host, limits, ..healthy() })
    }

    /// Adds ticks to each CPU: user, nice, system, idle, iowait, irq, softirq, steal.
    fn passed(&self, ticks: [u64; 8]) {
        let line = |line: &str| {
            let mut words = line.split_whitespace();
            let name = words.next().unwrap_or_default();
            if !name.starts_with("cpu") {
                return format!("{line}\n");
            }
            let of = if name == "cpu" { 2 } else { 1 };
            let added = ticks.into_iter().chain([0, 0]);
            let figures = words.zip(added).map(|(word, more)| word.parse::<u64>().unwrap() + more * of);
            let figures: Vec<String> = figures.map(|figure| figure.to_string()).collect();
            format!("{name} {}\n", figures.join(" "))
        };
        self.write("proc/stat", &self.text("proc/stat").lines().map(line).collect::<String>());
    }

    /// Adds to figures of a file that has a line of names and then one of figures for each family.
    fn counted(&self, file: &str, family: &str, more: &[(&str, u64)]) {
        let text = self.text(file);
        let (mut names, mut changed): (Vec<&str>, String) = Default::default();
        for line in text.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            if words.first() != Some(&family) || names.is_empty() {
                changed += &format!("{line}\n");
            } else {
                let figures = names.iter().zip(&words).map(|(name, word)| {
                    let added = more.iter().find(|(wanted, _)| wanted == name);
                    added.map_or((*word).to_owned(), |(_, more)| {
                        (word.parse::<u64>().unwrap() + more).to_string()
                    })
                });
                changed += &format!("{}\n", figures.collect::<Vec<_>>().join(" "));
            }
            if words.first() == Some(&family) {
                names = words;
            }
        }
        self.write(file, &changed);
    }
}

#[test]
fn a_host_as_it_was_recorded_is_no_bottleneck() {
    let verdict = RecordedHost::new().judged_after(|_| {});
    assert_eq!(verdict.bottleneck, None, "{verdict:#?}");
    for name in [Name::Steal, Name::HostMemory, Name::Retransmits, Name::PacketDrops, Name::Nic] {
        assert_eq!(verdict.not_judged.contains(&name), name == Name::Nic, "{name:?}");
    }
}

#[test]
fn cpu_time_that_the_host_of_a_guest_takes_is_named_from_a_tenth_on() {
    let stolen =
        |ticks: u64| RecordedHost::new().named_after(|host| host.passed([0, 0, 0, 0, 0, 0, 0, ticks]));
    assert_eq!(stolen(300), Some(Name::Steal));
    assert_eq!(stolen(50), None);
}

#[test]
fn memory_of_the_host_is_named_where_everybody_waits_for_it_or_pages_come_back_from_swap() {
    let waited = |some_us: u64, full_us: u64, swapped_in: u64, scanned: u64| {
        RecordedHost::new().named_after(|host| {
            host.write("proc/pressure/memory", &totals(some_us, full_us));
            let text = host.text("proc/vmstat").replace("pswpin 0", &format!("pswpin {swapped_in}"));
            host.write("proc/vmstat", &text.replace("pgscan_kswapd 0", &format!("pgscan_kswapd {scanned}")));
        })
    };
    assert_eq!(waited(4_000_000, 1_500_000, 0, 9000), Some(Name::HostMemory));
    assert_eq!(waited(2_500_000, 0, 4000, 9000), Some(Name::HostMemory), "they come back from swap");
    assert_eq!(
        waited(2_500_000, 100_000, 0, 9000),
        None,
        "page cache is given back, and nobody stands still"
    );
    assert_eq!(
        waited(8_000_000, 3_000_000, 4000, 0),
        None,
        "some cgroup is at its limit, and the host is not"
    );
}

#[test]
fn a_cgroup_at_its_memory_limit_is_named_and_not_the_host_that_counts_its_waits_too() {
    let limited = || {
        RecordedHost::with_cgroup(&[
            ("cg/pod/db/memory.max", "117440512\n"),
            ("cg/pod/db/memory.current", "117436416\n"),
            ("cg/pod/db/memory.events", "low 0\nhigh 0\nmax 500\noom 0\noom_kill 0\n"),
            ("cg/pod/db/memory.pressure", &totals(0, 0)),
        ])
    };
    let waits = |host: &RecordedHost| {
        let waited = totals(8_000_000, 3_000_000);
        host.write("cg/pod/db/memory.pressure", &waited);
        host.write("proc/pressure/memory", &waited);
    };
    let at_its_limit = limited().judged_after(|host| {
        waits(host);
        host.write("cg/pod/db/memory.events", "low 0\nhigh 0\nmax 41500\noom 0\noom_kill 0\n");
    });
    assert_eq!(
        at_its_limit.bottleneck.as_ref().map(|first| first.name),
        Some(Name::MemoryLimit),
        "{at_its_limit:#?}"
    );
    // The host is short: whoever waits for its memory waits in some cgroup, whose limit has no part in that.
    let short = limited().named_after(|host| {
        waits(host);
        host.write("proc/vmstat", &host.text("proc/vmstat").replace("pgscan_kswapd 0", "pgscan_kswapd 9000"));
    });
    assert_eq!(short, Some(Name::HostMemory));
    let killed = limited().named_after(|host| {
        host.write("cg/pod/db/memory.events", "low 0\nhigh 0\nmax 501\noom 1\noom_kill 1\n");
    });
    assert_eq!(killed, Some(Name::MemoryLimit));
}

#[test]
fn a_cgroup_at_its_limit_of_io_is_named_with_what_it_is_used_for() {
    let used = |reads: u64| {
        let host = RecordedHost::with_cgroup(&[
            ("cg/pod/db/io.max", "259:0 rbps=max wbps=max riops=400 wiops=400\n"),
            ("cg/pod/db/io.stat", "259:0 rbytes=1 wbytes=1 rios=10 wios=10 dbytes=0 dios=0\n"),
        ]);
        host.named_after(|host| {
            let stat = format!("259:0 rbytes=1 wbytes=1 rios={} wios=40 dbytes=0 dios=0\n", 10 + reads);
            host.write("cg/pod/db/io.stat", &stat);
        })
    };
    assert_eq!(used(3990), Some(Name::IoLimit));
    assert_eq!(used(2000), None);
}

#[test]
fn full_tables_of_the_kernel_are_named() {
    let tracked = |count: &str| {
        RecordedHost::new().named_after(|host| host.write("proc/sys/net/netfilter/nf_conntrack_count", count))
    };
    assert_eq!((tracked("255000\n"), tracked("200000\n")), (Some(Name::ConntrackTable), None));
    let neighbours = |entries: &str| {
        RecordedHost::new().named_after(|host| {
            let stat = host.text("proc/net/stat/arp_cache").replace("\n00000002 ", &format!("\n{entries} "));
            host.write("proc/net/stat/arp_cache", &stat);
        })
    };
    assert_eq!((neighbours("000003f0"), neighbours("00000300")), (Some(Name::NeighbourTable), None));
}

#[test]
fn what_gets_lost_on_the_way_is_named_by_where_it_is_counted() {
    let sent_again = |again: u64| {
        RecordedHost::new().named_after(|host| {
            host.counted("proc/net/snmp", "Tcp:", &[("OutSegs", 20_000), ("RetransSegs", again)]);
        })
    };
    assert_eq!((sent_again(800), sent_again(300)), (Some(Name::Retransmits), None));
    let dropped = |dropped: &str| {
        RecordedHost::new().named_after(|host| {
            // The first CPU has handled 10,000 packets more.
            let stat = host.text("proc/net/softnet_stat");
            host.write(
                "proc/net/softnet_stat",
                &stat.replace("05db8300 00000000", &format!("05dbaa10 {dropped}")),
            );
        })
    };
    assert_eq!((dropped("000003e8"), dropped("00000032")), (Some(Name::PacketDrops), None));
    let sent = |bytes: u64, is_tunnel: bool| {
        let host = RecordedHost::new();
        host.write("sys/class/net/eth0/speed", "1000\n");
        if is_tunnel {
            host.write("sys/class/net/eth0/tun_flags", "0x1001\n");
        }
        host.named_after(|host| {
            let line = |line: &str| match line.trim_start().strip_prefix("eth0:") {
                Some(figures) => {
                    let mut words: Vec<u64> =
                        figures.split_whitespace().map(|word| word.parse().unwrap()).collect();
                    words[8] += bytes;
                    let words: Vec<String> = words.iter().map(u64::to_string).collect();
                    format!("eth0: {}\n", words.join(" "))
                }
                None => format!("{line}\n"),
            };
            host.write("proc/net/dev", &host.text("proc/net/dev").lines().map(line).collect::<String>());
        })
    };
    assert_eq!((sent(1_150_000_000, false), sent(600_000_000, false)), (Some(Name::Nic), None));
    assert_eq!(sent(1_150_000_000, true), None, "what a tunnel's driver says is no link's speed");
}

/// A pressure file with these totals.
fn totals(some_us: u64, full_us: u64) -> String {
    format!(
        "some avg10=0.00 avg60=0.00 avg300=0.00 total={some_us}\nfull avg10=0.00 avg60=0.00 avg300=0.00 total={full_us}\n"
    )
}
