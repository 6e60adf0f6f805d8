//! Killed at every step, and out of power at every step: afterwards every setting equals its start.
//!
//! A child process applies a list of changes and puts them back; it kills itself (SIGKILL) before its n-th
//! step that leaves the process: making the journal, appending to it, syncing it, writing a setting, and
//! after each write. The parent then restores as the next start of the command does. For the power loss the
//! host starts anew, and of what the journal had not synced nothing, a part, or all is there. And the restore
//! itself is killed on its way, at another step each time, and begun once more.

pub(crate) mod sim;

use knob::apply::{self, Manner, Outcome};
use knob::host::Host;
use knob::journal::{Author, End, Journal};
use knob::server::ServerError;
use knob::session::{Connect, Session, Which};
use sim::{Kernel, make, put, reboot, settings};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Tells the child what to do: the directory and the step.
const CHILD: &str = "KNOB_CRASH_CHILD";

const CHANGES: [&str; 17] = [
    "block.scheduler@vda=bfq",
    "block.iosched.slice_idle@vda=0",
    "block.nr_requests@vda=32",
    "block.rq_affinity@vda=2",
    "network.rps@eth0=0-1",
    "memory.dirty_bytes=268435456",
    "memory.dirty_background_ratio=5",
    "sysctl.vm.overcommit_kbytes=1048576",
    "memory.swappiness=1",
    "memory.min_free_kbytes=2048",
    "memory.thp=never",
    "memory.thp_defrag=never",
    "sysctl.net.ipv4.tcp_rmem=4096 87380 4194304",
    "mount.options@/data=noatime,commit=30",
    "cgroup.cpu.max@/db=1.5",
    "cgroup.memory.max@/db=1G",
    "zfs.recordsize@tank/mysql=16k",
];

fn unreachable() -> Connect {
    Box::new(|address| {
        Err(ServerError::Unreachable { address: address.to_owned(), why: "no server here".into() })
    })
}

fn manner(keep: bool) -> Manner {
    Manner { author: Author::default(), keep, restart: None, patience: Duration::ZERO }
}

struct Scene {
    dir: tempfile::TempDir,
}

impl Scene {
    fn new() -> Self {
        let dir = tempfile::tempdir_in(quick()).unwrap();
        make(&dir.path().join("root"));
        Self { dir }
    }

    fn root(&self) -> PathBuf {
        self.dir.path().join("root")
    }

    fn journal(&self) -> PathBuf {
        self.dir.path().join("knobs")
    }

    fn open(&self) -> Session {
        open(self.dir.path(), Kernel::immortal())
    }

    /// Runs the child, which dies before its step `at`; what that step was and what of the journal was
    /// synced, or `None` if the child came to its end.
    fn die_at(&self, at: usize) -> Option<(u64, u64, String)> {
        self.child(at, "apply")
    }

    fn child(&self, at: usize, what: &str) -> Option<(u64, u64, String)> {
        std::fs::remove_file(self.dir.path().join("note")).ok();
        let test = "crash::every_setting_equals_its_start_after_a_kill_and_after_a_power_loss_at_any_step";
        let mut child = Command::new(std::env::current_exe().unwrap());
        child
            .args(["--exact", test, "--nocapture"])
            .env(CHILD, format!("{} {at} {what}", self.dir.path().display()));
        let output = child.output().unwrap();
        let Ok(note) = std::fs::read_to_string(self.dir.path().join("note")) else {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
            return None;
        };
        let mut words = note.splitn(3, ' ');
        let mut number = || words.next().unwrap().parse().unwrap();
        let (synced, appended) = (number(), number());
        Some((synced, appended, words.next().unwrap().to_owned()))
    }
}

/// A directory where syncing costs nothing: what is dropped by a power loss is dropped by the test itself.
pub(crate) fn quick() -> PathBuf {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() }
}

fn open(dir: &Path, kernel: Kernel) -> Session {
    let host = Host::with_effects(dir.join("root"), Arc::new(kernel));
    Session::open(host, &dir.join("knobs"), unreachable()).unwrap()
}

fn apply(session: &mut Session, dir: &Path, changes: &[&str], keep: bool) -> Vec<Outcome> {
    let host = Host::new(dir.join("root"));
    let changes: Vec<String> = changes.iter().map(|change| (*change).to_owned()).collect();
    // One after the other, as several commands would: a setting of bfq cannot be checked before bfq is there.
    let mut outcomes = Vec::new();
    for change in &changes {
        let dangers = ["cgroup.memory.max".to_owned()];
        let checked = apply::check(&host, None, std::slice::from_ref(change), &dangers).unwrap();
        outcomes.extend(session.apply(&checked, None, &manner(keep)));
    }
    outcomes
}

/// What the child does.
fn child(dir: &Path, die_at: usize, what: &str) {
    let kernel = Kernel { die_at, notes: Some(dir.join("note")), state: Mutex::default() };
    let mut session = open(dir, kernel);
    if what == "recover" {
        session.recover();
        return;
    }
    let outcomes = apply(&mut session, dir, &CHANGES, false);
    let refused: Vec<&str> =
        outcomes.iter().filter(|one| !one.is_in_force()).map(|one| one.knob.as_str()).collect();
    assert_eq!(refused, ["memory.min_free_kbytes"], "it reads back as 8192");
    assert_ne!(settings(&dir.join("root")), settings_at_the_start());
    let restored = session.restore(&Which::Own, false);
    assert!(restored.iter().all(|one| one.end == Some(End::Restored)), "{restored:?}");
}

fn settings_at_the_start() -> std::collections::BTreeMap<&'static str, String> {
    let dir = tempfile::tempdir().unwrap();
    make(dir.path());
    settings(dir.path())
}

#[test]
#[allow(
    clippy::disallowed_methods,
    reason = "the test is its own child process, and is told so by a variable"
)]
fn every_setting_equals_its_start_after_a_kill_and_after_a_power_loss_at_any_step() {
    if let Ok(task) = std::env::var(CHILD) {
        let [dir, at, what] = task.split(' ').collect::<Vec<_>>()[..] else { panic!("{task}") };
        return child(Path::new(dir), at.parse().unwrap(), what);
    }
    let start = settings_at_the_start();
    let mut table = Vec::new();
    let (mut kinds, mut killed_twice) = (BTreeSet::new(), 0);
    for at in 0.. {
        let scene = Scene::new();
        let Some((synced, appended, step)) = scene.die_at(at) else { break };
        kinds.insert(step.split([' ', '(']).next().unwrap().to_owned());
        // What the power loss finds is what the kill left; it is tried first, on copies.
        for left in losses(synced, appended) {
            let other = Scene::new();
            copy(scene.dir.path(), other.dir.path());
            lose(&other.journal(), left);
            reboot(&other.root());
            let mut session = other.open();
            let recovered = session.recover();
            assert!(
                recovered.iter().all(knob::session::RestoreOutcome::is_back),
                "step {at} {step}: {recovered:?}"
            );
            drop(session);
            assert_eq!(
                settings(&other.root()),
                start,
                "power lost at step {at} ({step}), journal cut to {left:?}"
            );
            assert!(Journal::read(&other.journal()).unwrap().iter().all(|entry| !entry.is_open()));
        }
        // Any step of the restore, another one each time.
        if scene.child(at * 7 % 41, "recover").is_some() {
            killed_twice += 1;
        }
        let mut session = scene.open();
        let recovered = session.recover();
        assert!(
            recovered.iter().all(knob::session::RestoreOutcome::is_back),
            "step {at} {step}: {recovered:?}"
        );
        drop(session);
        assert_eq!(settings(&scene.root()), start, "killed at step {at} ({step})");
        assert!(Journal::read(&scene.journal()).unwrap().iter().all(|entry| !entry.is_open()));
        // And nothing is left to do.
        assert!(scene.open().restore(&Which::All, false).is_empty());
        table.push(format!("{at:>4}  {step}"));
    }
    println!("{}", table.join("\n"));
    assert!(table.len() > 150, "only {} steps", table.len());
    assert!(killed_twice > 50, "only {killed_twice} restores were killed");
    let all = ["Append", "Create", "Sync", "SyncDirectory", "Write", "Written"].map(str::to_owned);
    assert_eq!(kinds, BTreeSet::from(all), "every kind of step was died at");
}

/// How long the journal may be after a power loss; `None` is no journal at all.
pub(crate) fn losses(synced: u64, appended: u64) -> Vec<Option<u64>> {
    match (synced, appended) {
        // Its directory was not synced yet, or it was not there.
        (0, 0) => vec![None, Some(u64::MAX)],
        (synced, appended) if synced == appended => vec![Some(u64::MAX)],
        (synced, appended) => {
            [synced, synced + 1, (synced + appended) / 2, appended - 1, appended].map(Some).to_vec()
        }
    }
}

pub(crate) fn lose(directory: &Path, left: Option<u64>) {
    let path = directory.join("journal");
    match (left, std::fs::OpenOptions::new().write(true).open(&path)) {
        (None, Ok(_)) => std::fs::remove_file(path).unwrap(),
        (Some(length), Ok(file)) if length < file.metadata().unwrap().len() => file.set_len(length).unwrap(),
        _ => {}
    }
}

fn copy(from: &Path, to: &Path) {
    let status = Command::new("cp").arg("-a").arg(from.join(".")).arg(to).status().unwrap();
    assert!(status.success());
}

#[test]
fn what_somebody_else_changed_meanwhile_stays_and_everything_else_goes_back() {
    let theirs = [
        ("sys/class/net/eth0/queues/rx-1/rps_cpus", "0000000c\n", "network.rps@eth0"),
        ("proc/sys/vm/swappiness", "10\n", "memory.swappiness"),
        ("sys/block/vda/queue/nr_requests", "99\n", "block.scheduler@vda"),
        ("proc/self/mountinfo", "42 27 7:0 / /data rw,nodiratime - ext4 /dev/vda rw", "mount.options@/data"),
        ("zfs/recordsize", "8192\tlocal", "zfs.recordsize@tank/mysql"),
    ];
    for (path, text, knob) in theirs {
        let scene = Scene::new();
        let mut session = scene.open();
        apply(&mut session, scene.dir.path(), &CHANGES, true);
        drop(session);
        put(&scene.root(), path, text);
        let left = settings(&scene.root());
        let mut session = scene.open();
        assert!(session.recover().is_empty(), "they are meant to stay");
        let restored = session.restore(&Which::All, false);
        let others: Vec<_> = restored.iter().filter(|one| !one.is_back()).collect();
        assert_eq!(others.len(), 1, "{others:?}");
        let said = others[0];
        assert!(said.knobs.iter().any(|name| name == knob), "{said:?}");
        assert!(matches!(&said.end, Some(End::Left { .. })), "{said:?}");
        assert!(!said.before.is_empty(), "the original is told");
        let (now, start) = (settings(&scene.root()), settings_at_the_start());
        let state = |path: &str| {
            said.before.iter().any(|line| {
                line.contains(&format!("/{path}"))
                    || path.starts_with("proc/self") && line.contains("/data")
                    || path.starts_with("zfs") && line.contains("zfs")
            })
        };
        for (setting, value) in &start {
            let expected = if state(setting) { left.get(setting) } else { Some(value) };
            // logbias is another property of the same dataset, which nobody touched.
            let expected = if *setting == "zfs/logbias" { Some(value) } else { expected };
            assert_eq!(now.get(setting), expected, "{setting}, where somebody else had changed {path}");
        }
    }
}

#[test]
fn a_value_that_the_kernel_had_bent_when_we_were_killed_is_told_from_one_that_somebody_else_set() {
    let written = |at: &usize| {
        let (_, _, step) = Scene::new().die_at(*at).expect("the write comes before the end");
        step.contains("Written(\"/proc/sys/vm/min_free_kbytes")
    };
    let at = (0..).find(written).unwrap();
    for (found, expected) in [("8192\n", "67584"), ("9999\n", "9999"), ("2048\n", "67584")] {
        let scene = Scene::new();
        scene.die_at(at).unwrap();
        put(&scene.root(), "proc/sys/vm/min_free_kbytes", found);
        scene.open().recover();
        assert_eq!(settings(&scene.root())["proc/sys/vm/min_free_kbytes"], expected, "found {found}");
    }
}

#[test]
fn force_puts_back_what_somebody_else_changed() {
    let scene = Scene::new();
    let mut session = scene.open();
    apply(&mut session, scene.dir.path(), &["memory.swappiness=1"], true);
    put(&scene.root(), "proc/sys/vm/swappiness", "10\n");
    assert!(session.restore(&Which::All, true).iter().all(knob::session::RestoreOutcome::is_back));
    assert_eq!(settings(&scene.root()), settings_at_the_start());
}

/// dirty_ratio is 20 already, and dirty_bytes sets it to zero.
#[test]
fn a_setting_that_was_so_already_and_that_a_later_change_undoes_is_refused() {
    let scene = Scene::new();
    let host = Host::new(scene.root());
    let changes = ["memory.dirty_ratio=20", "memory.dirty_bytes=268435456"].map(str::to_owned);
    let checked = apply::check(&host, None, &changes, &[]).unwrap();
    let outcomes = scene.open().apply(&checked, None, &manner(false));
    let apply::Status::Refused { refusal } = &outcomes[0].status else { panic!("{outcomes:?}") };
    assert!(refusal.to_string().contains("reads back '0'"), "{refusal}");
    assert!(outcomes[1].is_in_force(), "{outcomes:?}");
}

/// The first restore says what it leaves, and `--force` overwrites that afterwards.
#[test]
fn force_puts_back_what_an_earlier_restore_has_left() {
    let scene = Scene::new();
    let mut session = scene.open();
    apply(&mut session, scene.dir.path(), &["memory.swappiness=1", "memory.swappiness=2"], true);
    put(&scene.root(), "proc/sys/vm/swappiness", "10\n");
    let left = session.restore(&Which::All, false);
    assert!(matches!(left[0].end, Some(End::Left { .. })), "{left:?}");
    drop(session);
    assert!(scene.open().restore(&Which::All, false).is_empty());
    let other = Which::Knobs(vec!["memory.thp".to_owned()]);
    assert!(scene.open().restore(&other, true).is_empty());
    assert_eq!(settings(&scene.root())["proc/sys/vm/swappiness"], "10");
    let restored = scene.open().restore(&Which::Knobs(vec!["memory.swappiness".to_owned()]), true);
    assert_eq!(restored[0].end, Some(End::Restored), "{restored:?}");
    assert_eq!(settings(&scene.root()), settings_at_the_start());
    assert!(scene.open().restore(&Which::All, true).is_empty(), "once");

    // What we have changed since is judged by that change.
    let mut session = scene.open();
    apply(&mut session, scene.dir.path(), &["memory.swappiness=1"], true);
    put(&scene.root(), "proc/sys/vm/swappiness", "10\n");
    session.restore(&Which::All, false);
    apply(&mut session, scene.dir.path(), &["memory.swappiness=3"], true);
    assert_eq!(session.restore(&Which::All, true)[0].end, Some(End::Restored));
    assert_eq!(settings(&scene.root())["proc/sys/vm/swappiness"], "10");
}

/// A trial puts its own settings back between its runs; what the user kept before is the baseline.
#[test]
fn what_was_kept_stays_when_our_own_of_the_same_state_is_put_back() {
    let scene = Scene::new();
    let mut session = scene.open();
    apply(&mut session, scene.dir.path(), &["block.scheduler@vda=none"], true);
    drop(session);
    let kept = settings(&scene.root());
    let mut session = scene.open();
    apply(&mut session, scene.dir.path(), &["block.nr_requests@vda=32", "memory.swappiness=1"], false);
    let of_disk = Which::OwnKnobs(vec!["block.nr_requests@vda".to_owned()]);
    let restored = session.restore(&of_disk, false);
    assert_eq!((restored.len(), &restored[0].end), (1, &Some(End::Restored)), "{restored:?}");
    let now = settings(&scene.root());
    assert!(now["sys/block/vda/queue/scheduler"].contains("[none]"), "{now:?}");
    assert_eq!(now["proc/sys/vm/swappiness"], "1", "another state is not touched");
    drop(session);
    assert_eq!(settings(&scene.root()), kept);
    assert!(scene.open().restore(&Which::All, false).iter().all(knob::session::RestoreOutcome::is_back));
    assert_eq!(settings(&scene.root()), settings_at_the_start());
}

#[test]
fn another_disk_of_the_same_name_is_not_touched() {
    let scene = Scene::new();
    let mut session = scene.open();
    apply(&mut session, scene.dir.path(), &["block.rq_affinity@vda=2"], true);
    put(&scene.root(), "sys/block/vda/serial", "B2");
    let restored = session.restore(&Which::All, false);
    assert!(
        matches!(&restored[0].end, Some(End::Gone { why }) if why.contains("serial was A1, is B2")),
        "{restored:?}"
    );
    assert_eq!(settings(&scene.root())["sys/block/vda/queue/rq_affinity"], "2");
}

#[test]
fn a_volume_that_has_grown_is_put_back_at_once_or_where_nothing_identifies_it_by_force() {
    for serial in [true, false] {
        let scene = Scene::new();
        if !serial {
            std::fs::remove_file(scene.root().join("sys/block/vda/serial")).unwrap();
        }
        let mut session = scene.open();
        apply(&mut session, scene.dir.path(), &["block.rq_affinity@vda=2"], true);
        put(&scene.root(), "sys/block/vda/size", "2048");
        let restored = session.restore(&Which::All, false);
        assert_eq!(restored[0].end, serial.then_some(End::Restored), "{restored:?}");
        if !serial {
            assert!(restored[0].failed.as_ref().unwrap().to_string().contains("--force"), "{restored:?}");
            assert_eq!(session.restore(&Which::All, true)[0].end, Some(End::Restored));
        }
        assert_eq!(settings(&scene.root()), settings_at_the_start());
    }
}

#[test]
fn after_a_reboot_what_does_not_last_is_closed_and_what_lasts_is_put_back() {
    let scene = Scene::new();
    let mut session = scene.open();
    apply(&mut session, scene.dir.path(), &["memory.swappiness=1", "zfs.recordsize@tank/mysql=16k"], true);
    drop(session);
    reboot(&scene.root());
    // A sysctl.d of the host sets it at boot: not ours.
    put(&scene.root(), "proc/sys/vm/swappiness", "5\n");
    let restored = scene.open().restore(&Which::All, false);
    let ends: Vec<_> = restored.iter().map(|one| (one.knobs[0].as_str(), one.end.clone().unwrap())).collect();
    assert_eq!(ends, [("zfs.recordsize@tank/mysql", End::Restored), ("memory.swappiness", End::Restarted)]);
    assert_eq!(
        settings(&scene.root())["zfs/recordsize"],
        "131072\tdefault",
        "inherited again, not merely equal"
    );
    assert_eq!(settings(&scene.root())["proc/sys/vm/swappiness"], "5");
}

#[test]
fn a_panic_puts_back_what_was_not_meant_to_stay() {
    let scene = Scene::new();
    let mut session = scene.open();
    apply(&mut session, scene.dir.path(), &["memory.swappiness=1"], true);
    drop(session);
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let mut session = scene.open();
        apply(&mut session, scene.dir.path(), &["memory.swappiness=2", "memory.thp=never"], false);
        panic!("in the middle of a trial");
    }));
    assert!(panicked.is_err());
    let now = settings(&scene.root());
    assert_eq!(now["proc/sys/vm/swappiness"], "1", "what was kept before stays kept");
    assert_eq!(now["sys/kernel/mm/transparent_hugepage/enabled"], "always [madvise] never");
    assert_eq!(scene.open().restore(&Which::All, false).len(), 1);
    assert_eq!(settings(&scene.root()), settings_at_the_start());
}

#[test]
fn a_host_that_refuses_some_knobs_completes_with_the_rest_and_says_which() {
    let scene = Scene::new();
    let mut session = scene.open();
    let changes = [
        "memory.swappiness=1",
        "memory.min_free_kbytes=2048",
        "cpu.no_turbo=1",
        "sysctl.vm.drop_caches=1",
        "network.rps@eth7=0",
    ];
    put(&scene.root(), "proc/sys/vm/drop_caches", "0");
    let outcomes = apply(&mut session, scene.dir.path(), &changes, false);
    let words: Vec<String> = outcomes
        .iter()
        .map(|outcome| match &outcome.status {
            apply::Status::Refused { refusal } => format!("{}: {refusal}", outcome.knob),
            other => format!("{}: {other:?}", outcome.knob),
        })
        .collect();
    assert!(words[0].contains("Applied"), "{words:?}");
    assert!(words[1].contains("wrote '2048'") && words[1].contains("reads back '8192'"), "{words:?}");
    assert!(words[2].contains("not here"), "{words:?}");
    assert!(words[3].contains("holds no state"), "{words:?}");
    assert!(words[4].contains("not here"), "{words:?}");
    assert_eq!(
        settings(&scene.root())["proc/sys/vm/min_free_kbytes"],
        "67584",
        "what was refused is undone at once"
    );
    drop(session);
    assert_eq!(settings(&scene.root()), settings_at_the_start());
}

#[test]
fn a_setting_is_not_touched_while_the_journal_cannot_be_written() {
    struct FullDisk;
    impl knob::host::Effects for FullDisk {
        fn before(&self, step: knob::host::Step<'_>) -> std::io::Result<()> {
            match step {
                knob::host::Step::Append { .. } => Err(std::io::Error::from_raw_os_error(28)),
                _ => Ok(()),
            }
        }
    }
    let scene = Scene::new();
    let host = Host::with_effects(scene.root(), Arc::new(FullDisk));
    let mut session = Session::open(host, &scene.journal(), unreachable()).unwrap();
    let outcomes = apply(&mut session, scene.dir.path(), &["memory.swappiness=1"], false);
    let apply::Status::Refused { refusal } = &outcomes[0].status else { panic!("{outcomes:?}") };
    assert!(refusal.to_string().contains("No space left"), "{refusal}");
    assert_eq!(settings(&scene.root()), settings_at_the_start());
}
