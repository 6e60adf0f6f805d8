//! Reads everything about this host at once, cheaply: each file stays open and is read from its start again
//! (`pread`), into one buffer that is kept. Interrupts, link speeds and the frequencies of some CPUs are read
//! only every [`SELDOM`].
//!
//! A file that is not there (an old kernel, a container, conntrack not loaded) is tried again every
//! [`SELDOM`].

use super::{
    Pressures, Reading, SlowReading, cpu, disk, frequency, interrupt, memory, nic, pressure, softnet, table,
    tcp,
};
use rustix::time::{ClockId, clock_gettime};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often the costly files are read, and absent ones looked for.
const SELDOM: Duration = Duration::from_secs(5);
/// No file of /proc that we read is longer; what is longer is cut there.
const LONGEST: usize = 4 << 20;

/// Where things are; elsewhere in tests.
#[derive(Clone, Debug)]
pub struct Roots {
    /// `/proc`
    pub proc: PathBuf,
    /// `/sys`
    pub sys: PathBuf,
}

impl Default for Roots {
    fn default() -> Self {
        Self { proc: "/proc".into(), sys: "/sys".into() }
    }
}

/// Open files and the buffer they are read into.
#[derive(Debug)]
pub struct Sampler {
    places: Roots,
    buffer: Vec<u8>,
    kept: Vec<OpenFile>,
    disks: Vec<String>,
    seldom: Option<Arc<SlowReading>>,
}

#[derive(Debug)]
struct OpenFile {
    path: PathBuf,
    file: Option<File>,
    looked: Instant,
}

impl Sampler {
    /// A sampler; nothing is opened yet.
    pub fn new(places: Roots) -> Self {
        let (buffer, kept, disks) = (vec![0; 64 << 10], Vec::new(), Vec::new());
        Self { places, buffer, kept, disks, seldom: None }
    }

    /// Reads everything now. What cannot be read is empty: a host without one file is still a host.
    pub fn read(&mut self) -> Reading {
        let (began, cpu_before) = (Instant::now(), thread_time());
        let proc = self.places.proc.clone();
        // Before the moment that the counters count as of: some kernels take tens of milliseconds to tell
        // frequencies.
        let seldom = self.seldom(&proc, began);
        let at = Instant::now();
        let mut disks = disk::parse(self.bytes(&proc.join("diskstats")));
        if !self.disks.is_empty() {
            disks.retain(|disk| self.disks.contains(&disk.name));
        }
        let pressure = self.pressures(|kind| proc.join("pressure").join(kind));
        let arc = memory::parse_arc(self.bytes(&proc.join("spl/kstat/zfs/arcstats")));
        let mut reading = Reading {
            at,
            took: Duration::ZERO,
            cost: Duration::ZERO,
            cpu: cpu::parse(self.bytes(&proc.join("stat"))),
            pressure,
            memory: memory::Reading {
                level: memory::parse_level(self.bytes(&proc.join("meminfo"))).with_cache(arc),
                reclaim: memory::parse_reclaim(self.bytes(&proc.join("vmstat"))),
            },
            disks,
            nics: nic::parse(self.bytes(&proc.join("net/dev"))),
            softnet: softnet::parse(self.bytes(&proc.join("net/softnet_stat"))),
            tcp: self.tcp(&proc),
            neighbours: self.neighbours(&proc),
            conntrack: self.conntrack(&proc),
            seldom,
        };
        reading.took = began.elapsed();
        reading.cost = thread_time().saturating_sub(cpu_before);
        reading
    }

    fn tcp(&mut self, proc: &Path) -> tcp::Reading {
        let snmp = self.bytes(&proc.join("net/snmp")).to_vec();
        tcp::parse(&snmp, self.bytes(&proc.join("net/netstat")))
    }

    fn neighbours(&mut self, proc: &Path) -> table::Reading {
        let limit = self.bytes(&proc.join("sys/net/ipv4/neigh/default/gc_thresh3")).to_vec();
        table::parse_neighbours(self.bytes(&proc.join("net/stat/arp_cache")), &limit)
    }

    fn conntrack(&mut self, proc: &Path) -> Option<table::Reading> {
        let count = self.bytes(&proc.join("sys/net/netfilter/nf_conntrack_count")).to_vec();
        if count.is_empty() {
            return None;
        }
        let limit = self.bytes(&proc.join("sys/net/netfilter/nf_conntrack_max")).to_vec();
        Some(table::parse_conntrack(self.bytes(&proc.join("net/stat/nf_conntrack")), &count, &limit))
    }

    fn pressures(&mut self, path: impl Fn(&str) -> PathBuf) -> Pressures<pressure::Reading> {
        Pressures {
            cpu: pressure::parse(self.bytes(&path("cpu"))),
            memory: pressure::parse(self.bytes(&path("memory"))),
            io: pressure::parse(self.bytes(&path("io"))),
        }
    }

    fn seldom(&mut self, proc: &Path, now: Instant) -> Arc<SlowReading> {
        if let Some(last) = &self.seldom
            && now.saturating_duration_since(last.at) < SELDOM
        {
            return last.clone();
        }
        self.disks = names(&self.places.sys.join("block"));
        let net = self.places.sys.join("class/net");
        let speed = |name: String| {
            let speed = nic::parse_speed(&std::fs::read(net.join(&name).join("speed")).ok()?)?;
            (!has_no_link(&net, &name)).then_some((name, speed))
        };
        let links = names(&net).into_iter().filter_map(speed).collect();
        let seldom = Arc::new(SlowReading {
            at: now,
            interrupts: interrupt::parse(self.bytes(&proc.join("interrupts"))),
            softirqs: interrupt::parse(self.bytes(&proc.join("softirqs"))),
            links,
            frequency: frequency::read(&self.places.sys),
        });
        self.seldom = Some(seldom.clone());
        seldom
    }

    /// The whole file, from its start; empty when it cannot be read.
    fn bytes(&mut self, path: &Path) -> &[u8] {
        let at = match self.kept.iter().position(|kept| kept.path == path) {
            Some(at) => at,
            None => {
                let kept =
                    OpenFile { path: path.to_owned(), file: File::open(path).ok(), looked: Instant::now() };
                self.kept.push(kept);
                self.kept.len() - 1
            }
        };
        let kept = &mut self.kept[at];
        if kept.file.is_none() && kept.looked.elapsed() >= SELDOM {
            *kept = OpenFile { path: path.to_owned(), file: File::open(path).ok(), looked: Instant::now() };
        }
        let Some(file) = &kept.file else { return &[] };
        match read_whole(file, &mut self.buffer) {
            Ok(length) => &self.buffer[..length],
            Err(_) => {
                // A cgroup that went, a module that was unloaded: looked for again later.
                kept.file = None;
                &[]
            }
        }
    }
}

/// A file of /proc is made whole by one read if the buffer has room for it.
fn read_whole(file: &File, buffer: &mut Vec<u8>) -> std::io::Result<usize> {
    let mut length = 0;
    loop {
        match file.read_at(&mut buffer[length..], length as u64)? {
            0 => return Ok(length),
            read => length += read,
        }
        if length == buffer.len() {
            if length >= LONGEST {
                return Ok(length);
            }
            buffer.resize(length * 2, 0);
        }
    }
}

/// Whether the speed of an interface is that of no link: whatever it carries, the driver of a tunnel (tun,
/// tap) says 10 Mbit/s, that of a container's pair (veth) 10 Gbit/s, and a bridge what its best port does.
fn has_no_link(net: &Path, name: &str) -> bool {
    let dir = net.join(name);
    let lower = || names(&dir).into_iter().filter_map(|file| Some(file.strip_prefix("lower_")?.to_owned()));
    let text = |file: &str| std::fs::read_to_string(dir.join(file)).unwrap_or_default();
    if dir.join("bridge").exists() {
        return lower().all(|port| has_no_link(net, &port));
    }
    // The other end of a pair has a number of its own. What lies on another interface (macvlan) says its
    // kind, also where a container does not see the other one.
    let is_pair = || {
        let lies_on_another = lower().next().is_some() || text("uevent").contains("DEVTYPE=");
        text("ifindex") != text("iflink") && !dir.join("device").exists() && !lies_on_another
    };
    dir.join("tun_flags").exists() || is_pair()
}

fn names(dir: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
    entries.filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned())).collect()
}

/// CPU time of this thread.
fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_host_is_read_twice_and_the_shares_of_its_cpus_add_up() {
        let mut sampler = Sampler::new(Roots::default());
        let before = sampler.read();
        let deadline = Instant::now() + Duration::from_secs(10);
        // Ticks are 10 ms: work until some have passed.
        let sample = loop {
            let now = sampler.read();
            assert!(Instant::now() < deadline, "/proc/stat does not count");
            let sample = now.since(&before).unwrap_or_default();
            if sample.cpu.all.busy() > 0.0 && sample.seconds > 0.05 {
                break sample;
            }
        };
        assert!(!sample.cpu.each.is_empty() && sample.memory.level.total > 0 && !sample.nics.is_empty());
        assert!(sample.cost_ms > 0.0);
    }

    #[test]
    fn what_pairs_of_containers_and_bridges_of_those_say_is_no_links_speed() {
        let sys = tempfile::tempdir().unwrap();
        let net = sys.path().join("class/net");
        let interface = |name: &str, files: &[(&str, &str)]| {
            std::fs::create_dir_all(net.join(name)).unwrap();
            for (file, text) in [("speed", "10000\n")].iter().chain(files) {
                std::fs::write(net.join(name).join(file), text).unwrap();
            }
        };
        let pair = [("ifindex", "5\n"), ("iflink", "4\n"), ("uevent", "INTERFACE=veth1\nIFINDEX=5\n")];
        interface("veth1", &pair);
        interface("eth0", &[("ifindex", "2\n"), ("iflink", "2\n"), ("device", "")]);
        let on_eth0 =
            [("ifindex", "6\n"), ("iflink", "2\n"), ("lower_eth0", ""), ("uevent", "DEVTYPE=vlan\n")];
        interface("eth0.7", &on_eth0);
        interface("macvlan1", &[("ifindex", "7\n"), ("iflink", "2\n"), ("uevent", "DEVTYPE=macvlan\n")]);
        interface("bond0", &[("ifindex", "8\n"), ("iflink", "8\n"), ("lower_eth0", "")]);
        interface("docker0", &[("bridge", ""), ("lower_veth1", "")]);
        interface("br0", &[("bridge", ""), ("lower_veth1", ""), ("lower_eth0", "")]);
        interface("tun0", &[("tun_flags", "0x1001\n")]);
        let mut sampler = Sampler::new(Roots { proc: sys.path().join("proc"), sys: sys.path().into() });
        let mut links: Vec<String> =
            sampler.read().seldom.links.iter().map(|(name, _)| name.clone()).collect();
        links.sort_unstable();
        assert_eq!(links, ["bond0", "br0", "eth0", "eth0.7", "macvlan1"]);
    }

    #[test]
    fn a_host_without_any_file_is_empty_and_no_panic() {
        let nowhere = tempfile::tempdir().unwrap();
        let places = Roots { proc: nowhere.path().into(), sys: nowhere.path().into() };
        let mut sampler = Sampler::new(places);
        let before = sampler.read();
        assert!(before.cpu.each.is_empty() && before.conntrack.is_none() && before.pressure.cpu.is_none());
        std::thread::yield_now();
        let _ = sampler.read().since(&before);
    }
}
