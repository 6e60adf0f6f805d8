//! Things of this machine that a test makes itself and removes, also when it fails.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(60);

pub(crate) fn headroom(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_headroom")).args(args).env_clear().env("PATH", path()).output().unwrap()
}

fn path() -> &'static str {
    "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
}

/// The JSON of a command that succeeded.
pub(crate) fn json(output: &Output) -> Value {
    let words =
        String::from_utf8_lossy(&[output.stdout.as_slice(), output.stderr.as_slice()].concat()).into_owned();
    assert!(output.status.success(), "{words}");
    serde_json::from_slice(&output.stdout).unwrap()
}

pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !holds() {
        assert!(Instant::now() < deadline, "{what}: not within {} s", LIMIT.as_secs());
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub(crate) fn pid(child: &Child) -> rustix::process::Pid {
    rustix::process::Pid::from_raw(child.id().cast_signed()).unwrap()
}

/// A journal of the test's own.
pub(crate) struct Scene {
    dir: tempfile::TempDir,
}

impl Scene {
    pub(crate) fn new() -> Self {
        assert!(rustix::process::getuid().is_root(), "nothing was tested: settings of the kernel need root");
        Self { dir: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn journal(&self) -> PathBuf {
        self.dir.path().join("knobs")
    }

    pub(crate) fn places(&self) -> [String; 2] {
        ["--journal".to_owned(), self.journal().display().to_string()]
    }

    /// `headroom knob SUBCOMMAND` with this journal; whatever runs beside it on this machine does not matter
    /// here.
    pub(crate) fn knob(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    pub(crate) fn start(&self, args: &[&str]) -> Child {
        self.command(args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    fn command(&self, args: &[&str]) -> Command {
        let (subcommand, rest) = args.split_first().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_headroom"));
        command.args(["knob", subcommand]);
        if *subcommand != "profile" && !(*subcommand == "list" && rest.contains(&"--all")) {
            command.args(self.places());
        }
        command.args(rest).env_clear().env("PATH", path());
        command
    }
}

/// A loop device on a file of the test's own. Its queue outlives it: what the last user left there is found
/// by the next, so it begins with known values, and ends with those that it had.
pub(crate) struct Disk {
    pub(crate) name: String,
    dir: tempfile::TempDir,
    found: BTreeMap<String, String>,
}

/// In this order: a change of the scheduler resets the rest.
const KNOWN: [(&str, &str); 6] = [
    ("scheduler", "none"),
    ("nr_requests", "64"),
    ("rq_affinity", "1"),
    ("nomerges", "0"),
    ("read_ahead_kb", "128"),
    ("wbt_lat_usec", "3000"),
];

impl Disk {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("disk.img");
        std::fs::File::create(&file).unwrap().set_len(64 << 20).unwrap();
        // Another test may take the free device that losetup has found.
        let deadline = Instant::now() + LIMIT;
        loop {
            let output = Command::new("losetup").args(["--find", "--show"]).arg(&file).output().unwrap();
            if output.status.success() {
                let device = String::from_utf8(output.stdout).unwrap();
                let name = device.trim().trim_start_matches("/dev/").to_owned();
                let mut disk = Self { name, dir, found: BTreeMap::new() };
                for (file, value) in KNOWN {
                    disk.found.insert(file.to_owned(), disk.queue(file));
                    std::fs::write(disk.queue_path(file), value).unwrap();
                }
                return disk;
            }
            assert!(Instant::now() < deadline, "{}", String::from_utf8_lossy(&output.stderr));
        }
    }

    pub(crate) fn queue_path(&self, file: &str) -> PathBuf {
        format!("/sys/block/{}/queue/{file}", self.name).into()
    }

    pub(crate) fn queue(&self, file: &str) -> String {
        std::fs::read_to_string(self.queue_path(file)).unwrap_or_default().trim().to_owned()
    }

    /// Every setting of the queue, those of the scheduler included.
    pub(crate) fn queue_state(&self) -> BTreeMap<String, String> {
        let mut state = BTreeMap::new();
        for directory in ["", "iosched/"] {
            for entry in std::fs::read_dir(self.queue_path(directory)).into_iter().flatten().flatten() {
                let file = format!("{directory}{}", entry.file_name().to_string_lossy());
                if entry.path().is_file() {
                    state.insert(file.clone(), self.queue(&file));
                }
            }
        }
        state
    }

    pub(crate) fn mount(&self) -> Mount {
        let point = self.dir.path().join("mounted");
        std::fs::create_dir(&point).unwrap();
        let device = format!("/dev/{}", self.name);
        run("mkfs.ext4", &["-q", &device]);
        run("mount", &[&device, point.to_str().unwrap()]);
        Mount { point }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        for (file, _) in KNOWN {
            let found = &self.found[file];
            let word = found
                .split_once('[')
                .and_then(|(_, rest)| rest.split_once(']'))
                .map_or(found.as_str(), |(word, _)| word);
            let _ = std::fs::write(self.queue_path(file), word);
        }
        let _ = Command::new("losetup").args(["--detach", &format!("/dev/{}", self.name)]).status();
    }
}

/// A file system on a disk of the test's own.
pub(crate) struct Mount {
    point: PathBuf,
}

impl Mount {
    pub(crate) fn point(&self) -> &str {
        self.point.to_str().unwrap()
    }

    pub(crate) fn options(&self) -> BTreeSet<String> {
        let text = std::fs::read_to_string("/proc/mounts").unwrap();
        let line = text.lines().find(|line| line.contains(self.point())).unwrap();
        line.split(' ').nth(3).unwrap().split(',').map(str::to_owned).collect()
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.point).status();
    }
}

fn run(program: &str, args: &[&str]) {
    let output = Command::new(program).args(args).env("PATH", path()).output().unwrap();
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A cgroup of the test's own, in v2 or in each hierarchy of v1 that counts CPU and memory.
pub(crate) struct Cgroup {
    pub(crate) path: String,
    directories: Vec<PathBuf>,
}

impl Cgroup {
    pub(crate) fn new() -> Self {
        static COUNT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let count = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let path = format!("/headroom-test-{}-{count}", std::process::id());
        let v2 = Path::new("/sys/fs/cgroup/cgroup.controllers");
        let roots: &[&str] = if v2.exists() {
            &["/sys/fs/cgroup"]
        } else {
            &["/sys/fs/cgroup/cpu", "/sys/fs/cgroup/memory", "/sys/fs/cgroup/blkio"]
        };
        let directories: Vec<PathBuf> = roots.iter().map(|root| format!("{root}{path}").into()).collect();
        let cgroup = Self { path, directories };
        cgroup.make();
        cgroup
    }

    fn make(&self) {
        for directory in &self.directories {
            std::fs::create_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
        }
    }

    pub(crate) fn make_again(&self) {
        self.directories.iter().for_each(|directory| std::fs::remove_dir(directory).unwrap());
        self.make();
    }

    /// The limits, file by file.
    pub(crate) fn state(&self) -> Vec<String> {
        let files = [
            "cpu.max",
            "memory.max",
            "io.max",
            "cpu.cfs_quota_us",
            "cpu.cfs_period_us",
            "memory.limit_in_bytes",
            "blkio.throttle.read_bps_device",
            "blkio.throttle.write_iops_device",
        ];
        let all = self.directories.iter().flat_map(|directory| files.map(|file| directory.join(file)));
        all.filter_map(|file| std::fs::read_to_string(file).ok()).map(|text| text.trim().to_owned()).collect()
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        for directory in &self.directories {
            let _ = std::fs::remove_dir(directory);
        }
    }
}
