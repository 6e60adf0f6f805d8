//! The same proof as `crash.rs`, row by row: of *every* row of the catalogue a setting is made on a tree, and
//! a child process is killed (SIGKILL) before each of its steps; and of what its journal had not synced
//! nothing, a part, or all is lost, with a reboot. Afterwards the setting is what it was at the start. A row
//! without an example fails, so that a new row needs one.
//!
//! Where a program or a server keeps the value (`zfs`, `ethtool`, `systemctl`, a MySQL), a script or a
//! file-backed server stands in for it.

use crate::crash::sim::Kernel;
use crate::crash::{lose, losses};
use knob::action::ProgramAction;
use knob::apply::{self, Manner, Outcome};
use knob::catalogue::{CATALOGUE, Knob, Place, Shape};
use knob::host::Host;
use knob::identity::Facts;
use knob::journal::{Author, End, Journal};
use knob::name;
use knob::server::{Kind, Server, ServerError, Variable};
use knob::session::{Connect, RestoreOutcome, Session, Which};
use knob::value::Values;
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Tells the child what to do: the directory, the step and the row.
const CHILD: &str = "KNOB_ROWS_CHILD";
const TEST: &str = "rows::every_row_is_at_its_start_after_a_kill_and_after_a_power_loss_at_any_step";
const SERVER: &str = "127.0.0.1:1";

/// An example of a row.
struct Example {
    /// Files of the tree that hold the value, as they are at the start.
    files: Vec<(String, String)>,
    /// What is set.
    assignment: String,
}

/// The value at the start as its file shows it, and another one.
fn values(knob: &Knob, shape: Shape) -> (String, String) {
    let text = |now: &str, next: &str| (now.to_owned(), next.to_owned());
    match (shape, knob.values) {
        (Shape::Bracket, _) => text("none [mq-deadline] bfq", "none"),
        (Shape::Mask, _) => text("00000002", "0-1"),
        // The kernel makes 8192 of less.
        _ if knob.name == "memory.min_free_kbytes" => text("67584", "66560"),
        (_, Values::Whole { min, step, .. }) => {
            (format!("{}", min + 4 * step), format!("{}", min + 2 * step))
        }
        (_, Values::PowerOfTwo { .. }) => text("128", "256"),
        (_, Values::OneOf(words)) => text(words[0], words[1]),
        (_, Values::OfferedBy(_)) => text("powersave", "performance"),
        (_, Values::Cpus | Values::SomeCpus) => text("1", "0-1"),
        (_, Values::LikeNow) => text("7 8", "9 10"),
        _ => text("5", "6"),
    }
}

fn example(knob: &Knob) -> Example {
    let target = match knob.target {
        knob::catalogue::Target::None => "",
        knob::catalogue::Target::Disk => "vda",
        knob::catalogue::Target::Interface => "eth0",
        knob::catalogue::Target::Interrupt => "36",
        knob::catalogue::Target::IdleState => "state2",
        knob::catalogue::Target::Mount => "/data",
        knob::catalogue::Target::Cgroup => "/db",
        knob::catalogue::Target::CgroupDevice => "/db,vda",
        knob::catalogue::Target::Dataset => "tank",
        knob::catalogue::Target::Any => "x",
    };
    let at = if target.is_empty() { String::new() } else { format!("@{target}") };
    let row = |rest: &str, value: &str, files: Vec<(String, String)>| Example {
        assignment: format!("{}{rest}{at}={value}", knob.name.trim_end_matches('*')),
        files,
    };
    let file = |path: &str, text: &str| vec![(path.to_owned(), text.to_owned())];
    match knob.place {
        Place::File(pattern, shape) => {
            let (now, next) = values(knob, shape);
            let paths = ["0", "1"].map(|number| pattern.replace("{}", target).replace('*', number));
            row("", &next, paths.map(|path| (path, now.clone())).to_vec())
        }
        Place::Sysctl(dotted) => {
            let (now, next) = values(knob, Shape::Plain);
            row("", &next, file(&format!("proc/sys/{}", dotted.replace('.', "/")), &now))
        }
        Place::AnySysctl => row("kernel.example", "9 10", file("proc/sys/kernel/example", "7\t8")),
        Place::Iosched => row("read_expire", "80", file("sys/block/vda/queue/iosched/read_expire", "123")),
        Place::Irq => row("", "0-1", file("proc/irq/36/smp_affinity_list", "1")),
        Place::Service(_) => row("", "on", file("tree/service", "off")),
        Place::Offload => row("gro", "off", file("tree/gro", "on")),
        Place::Coalesce => row("rx-usecs", "20", file("tree/rx-usecs", "3")),
        Place::Mount => {
            let line = "42 27 7:0 / /data rw,relatime - ext4 /dev/vda rw";
            row("", "noatime,commit=30", file("proc/self/mountinfo", line))
        }
        Place::Cgroup("cpu.max") => row("", "1.5", file("sys/fs/cgroup/db/cpu.max", "max 50000")),
        Place::Cgroup("io.max") => {
            row("", "wiops=100", file("sys/fs/cgroup/db/io.max", "254:0 rbps=5 wbps=max riops=max wiops=max"))
        }
        Place::Cgroup(limit) => row("", "1G", file(&format!("sys/fs/cgroup/db/{limit}"), "max")),
        Place::Dataset => row("recordsize", "16384", file("tree/recordsize", "131072\tdefault")),
        Place::Pool => row("autoreplace", "on", file("tree/autoreplace", "off")),
        Place::ZfsModule => {
            row("zfs_txg_timeout", "9", file("sys/module/zfs/parameters/zfs_txg_timeout", "5"))
        }
        Place::Variable => {
            let most = file("tree/innodb_io_capacity_max", "4000");
            row("innodb_io_capacity", "2000", [file("tree/innodb_io_capacity", "200"), most].concat())
        }
        Place::Action => row("", "xfs", file("tree/action", "ext4")),
    }
}

/// What there is apart from settings. Programs keep their values below `tree/`.
const SURROUNDINGS: [(&str, &str); 13] = [
    ("proc/sys/kernel/random/boot_id", "first boot"),
    ("proc/interrupts", "CPU0 CPU1\n 36: 1 1 x\n"),
    ("proc/irq/36/virtio1-req.0/x", ""),
    ("sys/devices/system/cpu/possible", "0-3"),
    ("sys/devices/system/cpu/cpu0/cpufreq/scaling_available_governors", "powersave performance"),
    ("sys/devices/system/cpu/cpu0/cpufreq/energy_performance_available_preferences", "powersave performance"),
    ("sys/block/vda/dev", "254:0"),
    ("sys/block/vda/size", "1024"),
    ("sys/block/vda/serial", "A1"),
    ("sys/class/net/eth0/ifindex", "2"),
    ("tree/guid", "1234\t-"),
    ("tree/started", "1000"),
    ("sys/fs/cgroup/cgroup.controllers", "cpu io memory"),
];

const SCRIPTS: [(&str, &str); 6] = [
    (
        "usr/sbin/zfs",
        r#"case $1 in
    get) case $5 in value) cut -f1 "$tree/$6";; *) cat "$tree/$6";; esac ;;
    set) printf '%s\tlocal' "${2#*=}" > "$tree/${2%%=*}" ;;
    inherit) printf '131072\tdefault' > "$tree/$2" ;;
esac"#,
    ),
    (
        "usr/sbin/zpool",
        r#"case $1 in get) cut -f1 "$tree/$6";; set) printf '%s' "${2#*=}" > "$tree/${2%%=*}" ;; esac"#,
    ),
    (
        "usr/sbin/ethtool",
        r#"case $1 in
    -k) echo "generic-receive-offload: $(cat "$tree/gro")" ;;
    -c) echo "rx-usecs: $(cat "$tree/rx-usecs")" ;;
    -K|-C) printf '%s' "$4" > "$tree/$3" ;;
esac"#,
    ),
    (
        "usr/bin/systemctl",
        r#"case $1 in
    start) mkdir -p "$tree/../proc/77"; echo "$2" > "$tree/../proc/77/comm"; printf on > "$tree/service" ;;
    stop) rm -rf "$tree/../proc/77"; printf off > "$tree/service" ;;
esac"#,
    ),
    (
        "usr/bin/mount",
        r#"shown=
for option in $(echo "$4" | tr , ' '); do
    case $option in remount|commit=0|nodiscard|strictatime) ;; *) shown="$shown${shown:+,}$option" ;; esac
done
printf '42 27 7:0 / %s %s - ext4 /dev/vda rw' "$5" "$shown" > "$tree/../proc/self/mountinfo""#,
    ),
    (
        "usr/bin/change",
        r#"case $1 in read) cat "$tree/action" ;; apply) printf '%s' "$2" > "$tree/action" ;; esac"#,
    ),
];

fn put(root: &Path, path: &str, text: &str) {
    let path = root.join(path.trim_start_matches('/'));
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

fn make(root: &Path, example: &Example) {
    for (path, text) in SURROUNDINGS {
        put(root, path, text);
    }
    for (path, text) in &example.files {
        put(root, path, text);
    }
    for (path, text) in SCRIPTS {
        let depth = path.split('/').count() - 1;
        put(root, path, &format!("#!/bin/sh\ntree=\"${{0%/*}}/{}tree\"\n{text}\n", "../".repeat(depth)));
        std::fs::set_permissions(root.join(path), std::fs::Permissions::from_mode(0o755)).unwrap();
    }
}

/// Blanks and the zeros before a mask do not count.
fn tidy(text: &str) -> String {
    let words = text.split_whitespace().map(|word| match word.trim_start_matches('0') {
        "" => "0",
        rest => rest,
    });
    words.collect::<Vec<_>>().join(" ")
}

fn settings(root: &Path, example: &Example) -> Vec<(String, String)> {
    let read = |(path, _): &(String, String)| {
        let text = std::fs::read_to_string(root.join(path.trim_start_matches('/'))).unwrap_or_default();
        (path.clone(), tidy(&text))
    };
    example.files.iter().map(read).collect()
}

/// The kernel begins anew, and so does the server; what lasts is there.
fn reboot(root: &Path, knob: &Knob, example: &Example) {
    let lasting = knob::catalogue::lasts(&knob.place).then(|| {
        let kept = example
            .files
            .iter()
            .map(|(path, _)| (path.clone(), std::fs::read_to_string(root.join(path)).unwrap()));
        kept.collect::<Vec<_>>()
    });
    std::fs::remove_dir_all(root.join("proc/77")).ok();
    make(root, example);
    for (path, text) in lasting.unwrap_or_default() {
        put(root, &path, &text);
    }
    put(root, "proc/sys/kernel/random/boot_id", "second boot");
    put(root, "tree/started", "9000");
}

/// A server whose one variable is a file.
struct FileServer(PathBuf);

impl Server for FileServer {
    fn identity(&mut self) -> Result<Facts, ServerError> {
        let started = std::fs::read_to_string(self.0.join("started")).unwrap();
        let facts = [("uuid", "1"), ("address", SERVER), ("started", started.trim())];
        let mut facts: Facts =
            facts.map(|(key, value)| (key.to_owned(), value.to_owned())).into_iter().collect();
        facts.insert("started_since_boot".to_owned(), started.trim().to_owned());
        Ok(facts)
    }

    fn describe(&mut self, variable: &str) -> Result<Option<Variable>, ServerError> {
        let kind = Kind::Number { min: 100.0, max: 1e6 };
        Ok(self.0.join(variable).exists().then_some(Variable { kind, dynamic: Some(true) }))
    }

    fn global(&mut self, variable: &str) -> Result<String, ServerError> {
        Ok(std::fs::read_to_string(self.0.join(variable)).unwrap().trim().to_owned())
    }

    fn set_global(&mut self, variable: &str, value: &str) -> Result<(), ServerError> {
        std::fs::write(self.0.join(variable), value).unwrap();
        Ok(())
    }

    fn reconnect(&mut self) -> Result<(), ServerError> {
        Ok(())
    }
}

fn open(dir: &Path, kernel: Kernel) -> Session {
    let host = Host::with_effects(dir.join("root"), Arc::new(kernel));
    let tree = dir.join("root/tree");
    let connect: Connect = Box::new(move |_| Ok(Box::new(FileServer(tree.clone())) as Box<dyn Server>));
    Session::open(host, &dir.join("knobs"), connect).unwrap()
}

fn set(session: &mut Session, dir: &Path, example: &Example, keep: bool) -> Outcome {
    let host = Host::new(dir.join("root"));
    let (knob, _) = name::assignment(&example.assignment).unwrap();
    let name = name::parse(&host, knob).unwrap();
    if name.knob.place == Place::Action {
        session.act(knob, Box::new(ProgramAction::new(host.clone(), "/usr/bin/change")));
    }
    let dangers = [name.bare(), name.rest.clone()];
    let server = session.server(SERVER).unwrap();
    let changes =
        apply::check(&host, Some(server), std::slice::from_ref(&example.assignment), &dangers).unwrap();
    let manner = Manner { author: Author::default(), keep, restart: None, patience: Duration::ZERO };
    session.apply(&changes, Some(SERVER), &manner).remove(0)
}

fn child(dir: &Path, die_at: usize, row: usize) {
    let example = example(CATALOGUE[row]);
    let kernel = Kernel { die_at, notes: Some(dir.join("note")), state: Mutex::default() };
    let mut session = open(dir, kernel);
    let outcome = set(&mut session, dir, &example, false);
    assert!(outcome.is_in_force(), "{outcome:?}");
    let restored = session.restore(&Which::Own, false);
    assert!(restored.iter().all(|one| one.end == Some(End::Restored)), "{restored:?}");
}

/// Runs the child, which dies before its step `at`: how long the journal was synced and written; `None` if it
/// came to its end.
#[allow(clippy::disallowed_methods, reason = "the test is its own child process")]
fn die_at(dir: &Path, at: usize, row: usize) -> Option<(u64, u64)> {
    let mut child = Command::new(std::env::current_exe().unwrap());
    let task = format!("{} {at} {row}", dir.display());
    let output = child.args(["--exact", TEST, "--nocapture"]).env(CHILD, task).output().unwrap();
    let Ok(note) = std::fs::read_to_string(dir.join("note")) else {
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        return None;
    };
    let mut words = note.split(' ').map(|word| word.parse().unwrap_or(0));
    Some((words.next().unwrap(), words.next().unwrap()))
}

fn scene(example: &Example) -> tempfile::TempDir {
    let dir = tempfile::tempdir_in(crate::crash::quick()).unwrap();
    make(&dir.path().join("root"), example);
    dir
}

/// Restores as the next start of the command does.
fn recover(dir: &Path, example: &Example, what: &str) {
    let mut session = open(dir, Kernel::immortal());
    let recovered = session.recover();
    assert!(recovered.iter().all(RestoreOutcome::is_back), "{what}: {recovered:?}");
    drop(session);
    let start: BTreeMap<_, _> = settings_of(example).into_iter().collect();
    assert_eq!(settings(&dir.join("root"), example).into_iter().collect::<BTreeMap<_, _>>(), start, "{what}");
    assert!(Journal::read(&dir.join("knobs")).unwrap().iter().all(|entry| !entry.is_open()), "{what}");
}

fn settings_of(example: &Example) -> Vec<(String, String)> {
    example.files.iter().map(|(path, text)| (path.clone(), tidy(text))).collect()
}

#[test]
#[allow(
    clippy::disallowed_methods,
    reason = "the test is its own child process, and is told so by a variable"
)]
fn every_row_is_at_its_start_after_a_kill_and_after_a_power_loss_at_any_step() {
    if let Ok(task) = std::env::var(CHILD) {
        let [dir, at, row] = task.split(' ').collect::<Vec<_>>()[..] else { panic!("{task}") };
        return child(Path::new(dir), at.parse().unwrap(), row.parse().unwrap());
    }
    let rows = || 0..CATALOGUE.len();
    let steps: Vec<usize> = std::thread::scope(|scope| {
        let half =
            |odd: usize| move || rows().filter(|row| row % 2 == odd).map(kill_everywhere).collect::<Vec<_>>();
        let halves = [0, 1].map(|odd| scope.spawn(half(odd)));
        halves.into_iter().flat_map(|half| half.join().unwrap()).collect()
    });
    println!("{} rows, {} kills", steps.len(), steps.iter().sum::<usize>());
    assert_eq!(steps.len(), CATALOGUE.len());
    assert!(steps.iter().all(|count| *count >= 9), "{steps:?}");
}

/// How many steps the row has; the child was killed before each of them.
fn kill_everywhere(row: usize) -> usize {
    let (knob, example) = (CATALOGUE[row], example(CATALOGUE[row]));
    for at in 0.. {
        let dir = scene(&example);
        let what = format!("{} killed at step {at}", example.assignment);
        let Some((synced, appended)) = die_at(dir.path(), at, row) else { return at };
        let losses = losses(synced, appended);
        // Where nothing was unsynced a power loss is a reboot: once is enough, after the first write.
        let bare = losses.len() == 1 && at != 8;
        for left in losses.into_iter().filter(|_| !bare) {
            let other = tempfile::tempdir_in(crate::crash::quick()).unwrap();
            let from = dir.path().join(".");
            assert!(Command::new("cp").arg("-a").arg(from).arg(other.path()).status().unwrap().success());
            lose(&other.path().join("knobs"), left);
            reboot(&other.path().join("root"), knob, &example);
            recover(other.path(), &example, &format!("{what}, power lost, journal cut to {left:?}"));
        }
        recover(dir.path(), &example, &what);
    }
    unreachable!("it ends")
}

#[test]
fn a_disk_or_an_interface_that_is_another_one_by_now_is_not_touched() {
    let mut tried = 0;
    for knob in CATALOGUE.iter() {
        let another = match knob.target {
            // The disk has come back under another number, and another disk has its name.
            knob::catalogue::Target::Disk => ("sys/block/vda/dev", "254:16"),
            knob::catalogue::Target::Interface => ("sys/class/net/eth0/ifindex", "9"),
            _ => continue,
        };
        let example = example(knob);
        let dir = scene(&example);
        let mut session = open(dir.path(), Kernel::immortal());
        assert!(set(&mut session, dir.path(), &example, true).is_in_force(), "{}", knob.name);
        let left = settings(&dir.path().join("root"), &example);
        put(&dir.path().join("root"), another.0, another.1);
        let restored = session.restore(&Which::All, false);
        assert!(matches!(&restored[0].end, Some(End::Gone { .. })), "{}: {restored:?}", knob.name);
        assert_eq!(settings(&dir.path().join("root"), &example), left, "{}", knob.name);
        tried += 1;
    }
    assert!(tried >= 20, "{tried}");
}
