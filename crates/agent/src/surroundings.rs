//! What surrounds a server on this host: the cgroup limits that its process lives under, the disk of its data
//! and the room there. Read where the server runs on this host; looked up anew when its process changes.

use diagnose::host::cgroup::{Kills, Limits, Reading, Sample};
use diagnose::host::{disk, process, tcp};
use diagnose::server::Settings;
use diagnose::verdict::Space;
use std::collections::VecDeque;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How often the process is looked for, and the room on its disk.
const SELDOM: Duration = Duration::from_secs(5);
/// How long after a restart it is told that a process was killed for want of memory before it: the server's
/// pool is cold for about as long.
const KILL_TOLD: Duration = Duration::from_secs(60);
/// How long a process that was found is not looked for anew while it runs: for that every process of this
/// host, and every connection of some, is looked at.
const FOUND_HOLDS: Duration = Duration::from_secs(60);
/// Over how long the room's change is followed, and after how long it tells something.
const FOLLOWED: Duration = Duration::from_secs(1200);
const TELLS: Duration = Duration::from_secs(600);

/// Why the process of a server on this host, or its cgroup, is not known.
#[derive(Debug, thiserror::Error)]
enum ProcessUnknown {
    #[error(
        "no process of its own is visible here, as where the server runs in a container or /proc hides \
         processes of others (hidepid): run the agent where it sees the server's process"
    )]
    NotVisible,
    #[error(
        "{several} database servers run here, and its pid file {} cannot be read to tell which one it is: give the \
         agent the server's group (SupplementaryGroups=mysql in the unit), or run it as root where they are \
         in containers", .pid_file.display()
    )]
    Several { several: usize, pid_file: PathBuf },
    #[error(
        "it runs in another container than we, and its cgroup is not mounted here: run the agent on the \
         host, or in the server's own container"
    )]
    Elsewhere,
}

/// The surroundings of one server.
#[derive(Debug, Default)]
pub(crate) struct Surroundings {
    looked_at: Option<Instant>,
    limits: Option<(u32, Limits)>,
    /// Why its process, and so its limits, are not known.
    process_unknown: Option<ProcessUnknown>,
    /// Readings of the window, oldest first.
    readings: VecDeque<Reading>,
    /// The process that was there at the last look, and how often processes had been killed by then.
    counted: Option<(u32, Kills)>,
    /// What was killed between one process of the server and the next, and when that was seen.
    killed: Option<(Instant, Kills)>,
    data: Option<DataDirectory>,
    /// The disk that holds the data.
    data_disk: Option<String>,
    /// The disks below that one, where it is a volume.
    disks_below: Vec<String>,
    /// Room left, oldest first.
    room: VecDeque<(Instant, u64)>,
    space: Option<Space>,
    /// The process as it was last looked for among all, where it was found.
    found: Option<FoundProcess>,
    /// The process, where it is known.
    pid: Option<u32>,
    /// Whether that is in another network than we are.
    has_own_network: bool,
    /// Its CPU time, oldest first.
    cpu_time: VecDeque<(Instant, Duration)>,
    /// What TCP counted in its network, oldest first.
    tcp: VecDeque<(Instant, tcp::Reading)>,
}

/// The process of a server, as it was found.
#[derive(Debug)]
struct FoundProcess {
    at: Instant,
    pid: u32,
    /// When it began: another process may have its number later.
    began: u64,
    /// By what it was found.
    settings: (u64, String, String, String),
}

impl FoundProcess {
    /// `None` where nothing tells when it began.
    fn new(pid: u32, settings: &Settings, at: Instant, proc: &Path) -> Option<Self> {
        let began = process::began(pid, proc)?;
        Some(Self { at, pid, began, settings: Self::found_by(settings) })
    }

    fn holds(&self, settings: &Settings, now: Instant, proc: &Path) -> bool {
        now.saturating_duration_since(self.at) < FOUND_HOLDS
            && self.settings == Self::found_by(settings)
            && process::began(self.pid, proc) == Some(self.began)
    }

    fn found_by(settings: &Settings) -> (u64, String, String, String) {
        let Settings { port, datadir, pid_file, hostname, .. } = settings;
        (*port, datadir.clone(), pid_file.clone(), hostname.clone())
    }
}

/// Where a server's data are for us.
#[derive(Debug, PartialEq)]
enum DataDirectory {
    At(PathBuf),
    /// We may not look there; it is on this device, `MAJOR:MINOR`.
    On(String),
    /// In a container whose process is not known.
    Unknown,
}

impl Surroundings {
    /// Looks now, unless that was done moments ago.
    pub(crate) fn look(
        &mut self,
        settings: &Settings,
        now: Instant,
        window: Duration,
        roots: &Path,
        sys: &Path,
    ) {
        if self.looked_at.is_none_or(|at| now.saturating_duration_since(at) >= SELDOM) {
            self.looked_at = Some(now);
            let pid = self.find_limits(settings, roots);
            if self.pid != pid {
                self.pid = pid;
                self.cpu_time.clear();
                self.tcp.clear();
            }
            self.has_own_network = pid.is_some_and(|pid| has_own_network(pid, roots));
            let data = data_directory(settings, pid, roots);
            self.data_disk = match &data {
                DataDirectory::At(path) => disk::holding(path, sys),
                DataDirectory::On(device) => disk::called(device, sys),
                DataDirectory::Unknown => None,
            };
            if self.data_disk.is_none() && data != DataDirectory::Unknown {
                let (its, ours) = (mounts_of(pid, roots), mounts_of(None, roots));
                self.data_disk = disk::beneath(Path::new(&settings.datadir), &its, &ours, sys);
            }
            let volume = self.data_disk.as_deref();
            self.disks_below = volume.map_or_else(Vec::new, |volume| disk::below(volume, sys));
            if self.data.as_ref() != Some(&data) {
                self.room.clear();
            }
            self.measure_room(settings, &data, now);
            self.data = Some(data);
        }
        if let Some((_, limits)) = &self.limits {
            let reading = limits.read();
            while self
                .readings
                .front()
                .is_some_and(|first| first.seconds_before(&reading) > window.as_secs_f64())
                && self.readings.len() > 1
            {
                self.readings.pop_front();
            }
            self.readings.push_back(reading);
        }
        let Some(pid) = self.pid else { return };
        add(&mut self.cpu_time, process::cpu_time(pid, roots), now, window);
        // What TCP counts in our own network is the host's, and read with it.
        let counted = if self.has_own_network { tcp_of(pid, roots) } else { None };
        add(&mut self.tcp, counted, now, window);
    }

    /// CPU seconds a second that the server's process uses, over the window; `None` where that is not known.
    pub(crate) fn cpus(&self) -> Option<f64> {
        let ((began, first), (ended, last)) = (self.cpu_time.front()?, self.cpu_time.back()?);
        let seconds = ended.saturating_duration_since(*began).as_secs_f64();
        let used = last.checked_sub(*first)?;
        (seconds >= 1e-3).then(|| used.as_secs_f64() / seconds)
    }

    /// TCP in the network of the server's process over the window, where that is not ours; `None` where it is
    /// not known.
    pub(crate) fn tcp(&self) -> Option<tcp::Sample> {
        let ((began, first), (ended, last)) = (self.tcp.front()?, self.tcp.back()?);
        let seconds = ended.saturating_duration_since(*began).as_secs_f64();
        (seconds >= 1e-3).then(|| last.since(first, seconds))
    }

    /// The limits over the window, with the kill that may have begun it; `None` where there are none.
    pub(crate) fn limits(&self, now: Instant) -> Option<Sample> {
        let (first, last) = (self.readings.front()?, self.readings.back()?);
        let is_told = |at: Instant| now.saturating_duration_since(at) <= KILL_TOLD;
        let killed = self.killed.as_ref().filter(|(at, _)| is_told(*at));
        let killed = killed.map_or_else(Kills::default, |(_, killed)| killed.clone());
        self.limits.as_ref()?.1.between_after(first, last, &killed)
    }

    /// What is not known of its surroundings, and what mends it.
    pub(crate) fn missing(&self) -> Option<String> {
        let what = match self.data {
            Some(DataDirectory::Unknown) => "its cgroup limits, its disk and the room there",
            _ => "its cgroup limits",
        };
        self.process_unknown.as_ref().map(|why| format!("{what} are not known: {why}"))
    }

    /// The disk of its data directory, as last looked up.
    pub(crate) fn disk(&self) -> Option<String> {
        self.data_disk.clone()
    }

    /// The disks below that one, where it is a volume.
    pub(crate) fn disks_below(&self) -> Vec<String> {
        self.disks_below.clone()
    }

    pub(crate) fn space(&self) -> Option<Space> {
        self.space.clone()
    }

    /// The process, where it is known, with its limits.
    fn find_limits(&mut self, settings: &Settings, proc: &Path) -> Option<u32> {
        let (pid, unknown) = match self.find_process(settings, proc) {
            Ok(pid) => (Some(pid), Limits::are_elsewhere(pid, proc).then_some(ProcessUnknown::Elsewhere)),
            Err(why) => (None, Some(why)),
        };
        self.process_unknown = unknown;
        let found = pid.and_then(|pid| Some((pid, Limits::of(pid, proc)?)));
        if let Some((pid, limits)) = &found {
            let kills = limits.kills(&limits.read());
            let before = self.counted.replace((*pid, kills.clone())).filter(|(before, _)| before != pid);
            let killed = before.map(|(_, counted)| kills.since(&counted)).filter(|killed| !killed.is_empty());
            if let Some(killed) = killed {
                tracing::info!(pid, "came back after a process was killed for want of memory");
                self.killed = self.looked_at.map(|at| (at, killed));
            }
        }
        if found != self.limits {
            self.readings.clear();
            self.limits = found;
        }
        pid
    }

    fn find_process(&mut self, settings: &Settings, proc: &Path) -> Result<u32, ProcessUnknown> {
        let now = self.looked_at.unwrap_or_else(Instant::now);
        if let Some(found) = self.found.as_ref().filter(|found| found.holds(settings, now, proc)) {
            return Ok(found.pid);
        }
        let pid = server_process(settings, proc);
        self.found = pid.as_ref().ok().and_then(|pid| FoundProcess::new(*pid, settings, now, proc));
        pid
    }

    fn measure_room(&mut self, settings: &Settings, data: &DataDirectory, now: Instant) {
        let room = match data {
            DataDirectory::At(path) => disk::room(path),
            DataDirectory::On(_) | DataDirectory::Unknown => None,
        };
        self.space = room.map(|(total, available)| {
            self.room.push_back((now, available));
            while self.room.front().is_some_and(|(at, _)| now.saturating_duration_since(*at) > FOLLOWED) {
                self.room.pop_front();
            }
            Space { path: settings.datadir.clone(), total, available, full_in_s: full_in_s(&self.room) }
        });
    }
}

/// Whether a process is in another network than we are. All that are in a network see the same files of it;
/// where that cannot be told it counts as another.
fn has_own_network(pid: u32, proc: &Path) -> bool {
    let file = |process: &str| {
        let file = std::fs::metadata(proc.join(process).join("net/snmp")).ok()?;
        Some((file.dev(), file.ino()))
    };
    let ours = file("self");
    ours.is_none() || file(&pid.to_string()) != ours
}

/// Adds a reading to those of the window; one that failed ends them.
fn add<T>(readings: &mut VecDeque<(Instant, T)>, reading: Option<T>, now: Instant, window: Duration) {
    let Some(reading) = reading else { return readings.clear() };
    while readings.len() > 1
        && readings.front().is_some_and(|(at, _)| now.saturating_duration_since(*at) > window)
    {
        readings.pop_front();
    }
    readings.push_back((now, reading));
}

/// What TCP has counted in the network of a process: a container may have one of its own, whose counters are
/// not the host's.
fn tcp_of(pid: u32, proc: &Path) -> Option<tcp::Reading> {
    let net = proc.join(format!("{pid}/net"));
    let file = |name: &str| std::fs::read(net.join(name)).unwrap_or_default();
    let (snmp, netstat) = (file("snmp"), file("netstat"));
    (!snmp.is_empty()).then(|| tcp::parse(&snmp, &netstat))
}

/// The directory of a process, or ours.
fn directory_of(pid: Option<u32>, proc: &Path) -> PathBuf {
    proc.join(pid.map_or("self".to_owned(), |pid| pid.to_string()))
}

fn mounts_of(pid: Option<u32>, proc: &Path) -> String {
    std::fs::read_to_string(directory_of(pid, proc).join("mountinfo")).unwrap_or_default()
}

/// Where the data of process `pid` are for us. A container has mounts of its own: what has the same path here
/// may be another file system, as `/var/lib/mysql` of a package that nobody uses. Then it is looked at
/// through the process, which its user and root may do; for others its mounts still tell the device.
fn data_directory(settings: &Settings, pid: Option<u32>, proc: &Path) -> DataDirectory {
    let path = Path::new(&settings.datadir);
    if pid.is_none() {
        let elsewhere = is_called_otherwise(settings, proc);
        return if elsewhere { DataDirectory::Unknown } else { DataDirectory::At(path.to_owned()) };
    }
    let (its, ours) = (mounts_of(pid, proc), mounts_of(None, proc));
    match disk::mounted(&its, path) {
        Some(device) if disk::mounted(&ours, path) != Some(device) || !path.is_dir() => {
            let through = directory_of(pid, proc).join("root").join(path.strip_prefix("/").unwrap_or(path));
            if through.is_dir() { DataDirectory::At(through) } else { DataDirectory::On(device.to_owned()) }
        }
        _ => DataDirectory::At(path.to_owned()),
    }
}

/// Seconds until nothing is left, if it goes on as between the first and the last. What fell in one half
/// alone was a file that somebody copied, a temporary table, a redo log of another size.
fn full_in_s(room: &VecDeque<(Instant, u64)>) -> Option<f64> {
    let ((began, first), (ended, last)) = (room.front()?, room.back()?);
    let seconds = ended.saturating_duration_since(*began);
    let half = room.iter().find(|(at, _)| at.saturating_duration_since(*began) >= seconds / 2)?.1;
    let fell = *first > half && half > *last;
    let taken = first.checked_sub(*last).filter(|taken| *taken > 0)?;
    (fell && seconds >= TELLS).then(|| *last as f64 / (taken as f64 / seconds.as_secs_f64()))
}

/// Whether the server says another host name than ours, as in a container of its own: what has the path of a
/// file of its own here may be another server's.
fn is_called_otherwise(settings: &Settings, proc: &Path) -> bool {
    let ours = std::fs::read_to_string(proc.join("sys/kernel/hostname")).unwrap_or_default();
    let (ours, its) = (ours.trim(), settings.hostname.as_str());
    !ours.is_empty() && !its.is_empty() && ours != its
}

/// The process of the server: by its pid file, if that can be read and names a server here, else by what is
/// visible of the servers' processes.
fn server_process(settings: &Settings, proc: &Path) -> Result<u32, ProcessUnknown> {
    let pid_file = PathBuf::from(&settings.datadir).join(&settings.pid_file);
    let text = std::fs::read_to_string(&pid_file).ok().filter(|_| !is_called_otherwise(settings, proc));
    let by_file = text.and_then(|text| text.trim().parse().ok());
    if let Some(server) = by_file.and_then(|pid| process::database_server(pid, proc)) {
        return Ok(server.pid);
    }
    let servers = process::database_servers(proc);
    let Settings { port, datadir, hostname, .. } = settings;
    process::serving(&servers, *port, datadir, hostname, proc).ok_or(match servers.len() {
        0 | 1 => ProcessUnknown::NotVisible,
        several => ProcessUnknown::Several { several, pid_file },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_that_fills_is_full_when_its_room_is_used_up_and_not_told_too_early() {
        let start = Instant::now();
        let at = |s: u64, available| (start + Duration::from_secs(s), available);
        let room = |a: (u64, u64), b: (u64, u64), c: (u64, u64)| {
            full_in_s(&VecDeque::from([at(a.0, a.1), at(b.0, b.1), at(c.0, c.1)]))
        };
        assert_eq!(room((0, 1000), (300, 950), (600, 900)), Some(5400.0));
        assert_eq!(room((0, 1000), (30, 950), (60, 900)), None, "too early");
        assert_eq!(room((0, 900), (300, 950), (600, 1000)), None, "it empties");
        assert_eq!(room((0, 1000), (300, 900), (600, 900)), None, "something was copied, and that was it");
        assert_eq!(room((0, 1000), (300, 1000), (600, 900)), None, "it has only begun");
        assert_eq!(full_in_s(&VecDeque::new()), None);
    }

    #[test]
    fn a_pid_file_that_names_another_program_names_no_server() {
        let root = tempfile::tempdir().unwrap();
        let settings = Settings {
            datadir: root.path().display().to_string(),
            pid_file: "db.pid".to_owned(),
            ..Settings::default()
        };
        std::fs::write(root.path().join("db.pid"), "42\n").unwrap();
        std::fs::create_dir(root.path().join("42")).unwrap();
        for (called, expected) in [("mariadbd\n", Some(42)), ("bash\n", None)] {
            std::fs::write(root.path().join("42/comm"), called).unwrap();
            assert_eq!(server_process(&settings, root.path()).ok(), expected);
        }
    }

    #[test]
    fn a_server_in_a_container_is_not_taken_for_the_one_whose_files_have_its_paths_here() {
        let root = tempfile::tempdir().unwrap();
        let (proc, data) = (root.path().join("proc"), root.path().join("data"));
        write(root.path(), "data/db.pid", "42\n");
        write(&proc, "sys/kernel/hostname", "db-host\n");
        for (pid, listens) in [(42, "0100007F:0CEA"), (43, "00000000:0CEA")] {
            write(&proc, &format!("{pid}/comm"), "mariadbd\n");
            let line = format!("   0: {listens} 00000000:0000 0A 00000000:00000000\n");
            write(&proc, &format!("{pid}/net/tcp"), &line);
        }
        let found = |hostname: &str| {
            let settings = Settings {
                datadir: data.display().to_string(),
                pid_file: "db.pid".to_owned(),
                hostname: hostname.to_owned(),
                port: 3306,
                ..Settings::default()
            };
            let pid = server_process(&settings, &proc).ok();
            (pid, data_directory(&settings, pid, &proc))
        };
        assert_eq!(found("db-host"), (Some(42), DataDirectory::At(data.clone())));
        assert_eq!(found("3f2a9c11d0be"), (None, DataDirectory::Unknown), "either may be it");
        write(&proc, "43/cmdline", "mariadbd\0--port=3306\0");
        assert_eq!(found("3f2a9c11d0be").0, Some(43));
    }

    #[test]
    fn what_tcp_sends_again_is_counted_in_the_network_of_the_server() {
        let proc = tempfile::tempdir().unwrap();
        let (start, mut surroundings) = (Instant::now(), Surroundings::default());
        write(proc.path(), "42/comm", "mariadbd\n");
        let mut again = |s: u64, sent: u64, again: u64| {
            let text = format!("Tcp: OutSegs RetransSegs\nTcp: {sent} {again}\n");
            write(proc.path(), "42/net/snmp", &text);
            let (at, window) = (start + Duration::from_secs(s), Duration::from_secs(10));
            surroundings.look(&Settings::default(), at, window, proc.path(), Path::new("/none"));
            surroundings.tcp().and_then(|tcp| tcp.sent_again_share)
        };
        assert_eq!(again(0, 1000, 900), None, "one look counts nothing");
        assert_eq!(again(5, 2000, 950), Some(0.05));
        assert_eq!((again(10, 3000, 1000), again(15, 4000, 1000)), (Some(0.05), Some(0.025)));
        std::fs::rename(proc.path().join("42"), proc.path().join("43")).unwrap();
        assert_eq!(again(20, 5000, 1000), None, "another process");
    }

    #[test]
    fn what_tcp_counts_in_our_own_network_is_that_of_the_host_and_not_read_again() {
        let proc = tempfile::tempdir().unwrap();
        let (start, mut surroundings) = (Instant::now(), Surroundings::default());
        let text = "Tcp: OutSegs RetransSegs\nTcp: 1000 900\n";
        write(proc.path(), "42/comm", "mariadbd\n");
        write(proc.path(), "42/net/snmp", text);
        let mut is_read = |s: u64| {
            let (at, window) = (start + Duration::from_secs(s), Duration::from_secs(10));
            surroundings.look(&Settings::default(), at, window, proc.path(), Path::new("/none"));
            !surroundings.tcp.is_empty()
        };
        assert!(is_read(0), "ours is not known");
        write(proc.path(), "self/net/snmp", text);
        assert!(is_read(5), "another one that says the same");
        std::fs::remove_file(proc.path().join("self/net/snmp")).unwrap();
        std::fs::hard_link(proc.path().join("42/net/snmp"), proc.path().join("self/net/snmp")).unwrap();
        assert!(!is_read(10));
    }

    #[test]
    fn a_process_that_was_found_is_not_looked_for_again_each_time_while_it_runs() {
        let proc = tempfile::tempdir().unwrap();
        let mut settings = Settings { port: 3306, ..Settings::default() };
        let (start, mut surroundings) = (Instant::now(), Surroundings::default());
        let process = |pid: u32, began: u32| {
            write(proc.path(), &format!("{pid}/comm"), "mariadbd\n");
            let stat = format!("{pid} (mariadbd) S{} {began} 0\n", " 1".repeat(18));
            write(proc.path(), &format!("{pid}/stat"), &stat);
        };
        let mut found = |s: u64, settings: &Settings| {
            surroundings.looked_at = Some(start + Duration::from_secs(s));
            surroundings.find_process(settings, proc.path()).ok()
        };
        process(42, 100);
        assert_eq!(found(0, &settings), Some(42));
        process(43, 200);
        assert_eq!(found(55, &settings), Some(42), "another one that looks the same came later");
        assert_eq!(found(60, &settings), None, "either may be it");
        std::fs::remove_dir_all(proc.path().join("43")).unwrap();
        assert_eq!(found(65, &settings), Some(42));
        process(42, 300);
        process(43, 200);
        assert_eq!(found(70, &settings), None, "another process of its number");
        std::fs::remove_dir_all(proc.path().join("43")).unwrap();
        assert_eq!(found(75, &settings), Some(42));
        process(43, 200);
        settings.port = 3307;
        assert_eq!(found(80, &settings), None, "another server answers there");
    }

    #[test]
    fn the_cpu_time_of_the_server_is_that_of_its_process() {
        let proc = tempfile::tempdir().unwrap();
        let (start, mut surroundings) = (Instant::now(), Surroundings::default());
        write(proc.path(), "42/comm", "mariadbd\n");
        let mut cpus = |s: u64, ticks: Option<u64>| {
            let text = ticks.map(|ticks| format!("42 (mariadbd) S 1 1 1 0 -1 0 0 0 0 0 {ticks} 0 0 0\n"));
            write(proc.path(), "42/stat", &text.unwrap_or_default());
            let (at, window) = (start + Duration::from_secs(s), Duration::from_secs(10));
            surroundings.look(&Settings::default(), at, window, proc.path(), Path::new("/none"));
            surroundings.cpus()
        };
        assert_eq!((cpus(0, Some(100)), cpus(5, Some(600))), (None, Some(1.0)));
        assert_eq!((cpus(6, None), cpus(7, Some(800))), (None, None), "it could not be read");
    }

    /// A file below a directory, with the directories above it.
    fn write(below: &Path, name: &str, text: &str) {
        let path = below.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    #[test]
    fn a_server_of_another_container_has_limits_that_are_not_known_and_that_is_said() {
        let proc = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| write(proc.path(), name, text);
        write("42/comm", "mariadbd\n");
        write("self/mounts", &format!("cgroup2 {} cgroup2 ro 0 0\n", proc.path().join("cg").display()));
        write("cg/cpu.max", "10000 100000\n");
        let mut surroundings = Surroundings::default();
        for (group, known) in [("0::/../db\n", false), ("0::/\n", true)] {
            write("42/cgroup", group);
            surroundings.find_limits(&Settings::default(), proc.path());
            assert_eq!(surroundings.limits.is_some(), known, "{group}");
            let said = surroundings.missing();
            assert_eq!(said.is_some_and(|said| said.contains("another container")), !known, "{group}");
        }
    }

    #[test]
    fn a_server_that_was_killed_for_want_of_memory_is_told_of_for_a_while_after_it_came_back() {
        let proc = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| write(proc.path(), name, text);
        let server = |pid: u32| {
            write(&format!("{pid}/comm"), "mariadbd\n");
            write(&format!("{pid}/cgroup"), "0::/db\n");
        };
        write("self/mounts", &format!("cgroup2 {} cgroup2 ro 0 0\n", proc.path().join("cg").display()));
        write("cg/db/memory.max", "500000\n");
        write("cg/db/memory.current", "400000\n");
        write("cg/db/memory.events", "max 5\noom_kill 0\n");
        server(42);
        let (mut surroundings, start) = (Surroundings::default(), Instant::now());
        let settings = Settings { datadir: proc.path().display().to_string(), ..Settings::default() };
        let mut killed = |s: u64| {
            let at = start + Duration::from_secs(s);
            for _ in 0..2 {
                surroundings.look(&settings, at, Duration::from_secs(10), proc.path(), Path::new("/none"));
                std::thread::sleep(Duration::from_millis(2));
            }
            surroundings.limits(at)?.memory.map(|memory| memory.killed)
        };
        assert_eq!(killed(0), Some(0));
        std::fs::remove_dir_all(proc.path().join("42")).unwrap();
        assert_eq!(killed(10), None, "it is down");
        write("cg/db/memory.events", "max 9\noom_kill 1\n");
        server(43);
        assert_eq!((killed(20), killed(70), killed(90)), (Some(1), Some(1), Some(0)));
        std::fs::remove_dir_all(proc.path().join("43")).unwrap();
        server(44);
        assert_eq!(killed(100), Some(0), "restarted by somebody");
    }

    #[test]
    fn the_data_of_a_container_are_not_looked_for_at_the_same_path_of_the_host() {
        let (root, datadir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (proc, sys) = (root.path().join("proc"), root.path().join("sys"));
        let write = |path: PathBuf, text: &str| {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let mounts = |device: &str| format!("1 0 {device} / / rw - ext4 /dev/x rw\n");
        write(proc.join("42/comm"), "mariadbd\n");
        write(proc.join("self/mountinfo"), &mounts("8:1"));
        std::fs::create_dir_all(sys.join("devices/sdb")).unwrap();
        std::fs::create_dir_all(sys.join("dev/block")).unwrap();
        std::os::unix::fs::symlink(sys.join("devices/sdb"), sys.join("dev/block/8:16")).unwrap();
        let settings = Settings { datadir: format!("{}/", datadir.path().display()), ..Settings::default() };
        let looked = || {
            let mut surroundings = Surroundings::default();
            surroundings.look(&settings, Instant::now(), Duration::from_secs(10), &proc, &sys);
            (surroundings.space().is_some(), surroundings.disk())
        };
        write(proc.join("42/mountinfo"), &mounts("8:1"));
        assert!(looked().0, "the same mounts");
        write(proc.join("42/mountinfo"), &mounts("8:16"));
        assert_eq!(looked(), (false, Some("sdb".to_owned())), "the container's: closed, its device is known");
        let through = proc.join("42/root").join(datadir.path().strip_prefix("/").unwrap());
        std::fs::create_dir_all(through).unwrap();
        assert!(looked().0, "through the process");
    }

    #[test]
    fn a_server_whose_pid_file_cannot_be_read_is_found_in_proc_or_said_to_be_missing() {
        let proc = tempfile::tempdir().unwrap();
        let settings = Settings {
            datadir: "/no/such/directory/".to_owned(),
            pid_file: "/no/such/file".to_owned(),
            port: 3306,
            ..Settings::default()
        };
        let mut surroundings = Surroundings::default();
        surroundings.find_limits(&settings, proc.path());
        assert!(surroundings.missing().unwrap().contains("its cgroup limits are not known: no process"));
        let process = |pid: &str| {
            std::fs::create_dir(proc.path().join(pid)).unwrap();
            std::fs::write(proc.path().join(pid).join("comm"), "mariadbd\n").unwrap();
        };
        process("42");
        assert_eq!(server_process(&settings, proc.path()).ok(), Some(42));
        surroundings.find_limits(&settings, proc.path());
        assert_eq!(surroundings.missing(), None);
        process("43");
        surroundings.find_limits(&settings, proc.path());
        let missing = surroundings.missing().unwrap();
        assert!(
            missing.contains("/no/such/file") && missing.contains("SupplementaryGroups=mysql"),
            "{missing}"
        );
    }
}
