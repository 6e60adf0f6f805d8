//! Settings that this machine cannot have changed by a test: interrupts, governors, cards, on a made tree.
//! `ethtool` and `systemctl` are recorded ones.

use knob::action::Action;
use knob::apply::{self, Manner, Outcome, Status};
use knob::journal::{Author, End};
use knob::server::ServerError;
use knob::session::{Session, Which};
use knob::{Error, Host, tuner};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

struct Tree {
    dir: tempfile::TempDir,
}

impl Tree {
    fn new(files: &[(&str, &str)]) -> Self {
        let tree = Self { dir: tempfile::tempdir().unwrap() };
        tree.put("proc/sys/kernel/random/boot_id", "b");
        tree.put("sys/devices/system/cpu/possible", "0-3");
        files.iter().for_each(|(path, text)| tree.put(path, text));
        tree
    }

    fn root(&self) -> PathBuf {
        self.dir.path().join("root")
    }

    fn put(&self, path: &str, text: &str) {
        let path = self.root().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn program(&self, name: &str, text: &str) {
        self.put(name, text);
        // A copy by another program: what this one has written is still open in what other tests start at
        // that moment, and cannot be run until that is over.
        let (written, program) = (self.root().join(name), self.root().join(format!("{name}.copy")));
        let copied = std::process::Command::new("cp").arg(&written).arg(&program).status().unwrap();
        assert!(copied.success());
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        std::fs::rename(&program, &written).unwrap();
    }

    fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.root().join(path)).unwrap().trim().to_owned()
    }

    fn session(&self) -> Session {
        let none =
            |address: &str| Err(ServerError::Unreachable { address: address.to_owned(), why: "none".into() });
        Session::open(Host::new(self.root()), &self.dir.path().join("knobs"), Box::new(none)).unwrap()
    }

    fn set(&self, session: &mut Session, changes: &[&str], patience: Duration) -> Vec<Outcome> {
        let changes: Vec<String> = changes.iter().map(|change| (*change).to_owned()).collect();
        let dangers = ["file_system.type".to_owned()];
        let checked = apply::check(&Host::new(self.root()), None, &changes, &dangers).unwrap();
        let manner = Manner { author: Author::default(), keep: true, restart: None, patience };
        session.apply(&checked, None, &manner)
    }
}

const INTERRUPTS: [(&str, &str); 4] = [
    ("proc/irq/38/smp_affinity_list", "0-3"),
    ("proc/irq/38/eth0-rx/x", ""),
    ("proc/irq/39/smp_affinity_list", "0-3"),
    ("proc/irq/39/eth0-tx/x", ""),
];

fn counts(on: [u64; 4]) -> String {
    let [a, b, c, d] = on;
    format!("    CPU0 CPU1 CPU2 CPU3\n 38: {a} {b} {c} {d} PCI-MSIX eth0-rx\n 39: 5 5 5 5 PCI-MSIX eth0-tx\n")
}

/// Interrupts that come on these CPUs while something is done; the counters are written as a whole, as the
/// kernel gives them.
fn while_interrupts_come<T>(tree: &Tree, on: [u64; 4], work: impl FnOnce() -> T) -> T {
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut total = [100_u64; 4];
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                total.iter_mut().zip(on).for_each(|(total, more)| *total += more);
                tree.put("proc/interrupts.new", &counts(total));
                std::fs::rename(tree.root().join("proc/interrupts.new"), tree.root().join("proc/interrupts"))
                    .unwrap();
                std::thread::sleep(Duration::from_millis(2));
            }
        });
        let result = work();
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        result
    })
}

#[test]
fn the_affinity_of_an_interrupt_is_proved_by_where_it_comes() {
    let tree = Tree::new(&INTERRUPTS);
    tree.put("proc/interrupts", &counts([100; 4]));
    let mut session = tree.session();
    let patience = Duration::from_secs(30);
    let right = while_interrupts_come(&tree, [0, 0, 3, 0], || {
        tree.set(&mut session, &["interrupt.affinity@eth0-rx=2"], patience)
    });
    let Status::Applied { note: Some(note) } = &right[0].status else { panic!("{right:?}") };
    assert!(note.contains("all on the CPUs asked for"), "{note}");
    assert_eq!(tree.read("proc/irq/38/smp_affinity_list"), "2");

    let stray = while_interrupts_come(&tree, [1, 0, 3, 0], || {
        tree.set(&mut session, &["interrupt.affinity@38=3"], patience)
    });
    let Status::Refused { refusal } = &stray[0].status else { panic!("{stray:?}") };
    assert!(refusal.to_string().contains("still counts interrupt 38 on CPU"), "{refusal}");
    assert_eq!(tree.read("proc/irq/38/smp_affinity_list"), "2", "what has no effect is undone");

    let silent = tree.set(&mut session, &["interrupt.affinity@39=1"], Duration::ZERO);
    assert!(
        matches!(&silent[0].status, Status::Applied { note: Some(note) } if note.contains("not proved")),
        "{silent:?}"
    );
    session.restore(&Which::All, false);
    assert_eq!(
        (tree.read("proc/irq/38/smp_affinity_list"), tree.read("proc/irq/39/smp_affinity_list")),
        ("0-3".into(), "0-3".into())
    );
}

#[test]
fn an_interrupt_number_that_belongs_to_another_device_by_now_is_left_alone() {
    let tree = Tree::new(&INTERRUPTS);
    tree.put("proc/interrupts", &counts([100; 4]));
    let mut session = tree.session();
    tree.set(&mut session, &["interrupt.affinity@38=1"], Duration::ZERO);
    std::fs::rename(tree.root().join("proc/irq/38/eth0-rx"), tree.root().join("proc/irq/38/nvme0q1"))
        .unwrap();
    let restored = session.restore(&Which::All, false);
    assert!(matches!(&restored[0].end, Some(End::Gone { why }) if why.contains("nvme0q1")), "{restored:?}");
    assert_eq!(tree.read("proc/irq/38/smp_affinity_list"), "1");
}

/// Features and coalescing as files; `lro` is fixed, `tx-frames` is rounded to eights as some drivers do.
const ETHTOOL: &str = r#"#!/bin/sh
at="${0%/usr/sbin/ethtool}/card"
case $1 in
    -k) echo "Features for $2:"; cat "$at/features" ;;
    -K) sed -i "s/^generic-receive-offload: .*/generic-receive-offload: $4/" "$at/features" ;;
    -c) echo "Coalesce parameters for $2:"; cat "$at/coalesce" ;;
    -C) value=$4; [ "$3" = tx-frames ] && value=$((value / 8 * 8))
        [ "$3" = rx-frames ] && { echo 'netlink error: Operation not supported' >&2; exit 1; }
        sed -i "s/^$3:.*/$3: $value/" "$at/coalesce" ;;
esac
"#;

#[test]
fn offloads_and_coalescing_are_read_back_through_ethtool() {
    let tree = Tree::new(&[
        ("card/features", "generic-receive-offload: on\nlarge-receive-offload: off [fixed]\n"),
        ("card/coalesce", "Adaptive RX: off  TX: off\nrx-usecs: 3\nrx-frames: 0\ntx-frames: 16\n"),
        ("sys/class/net/eth0/ifindex", "2"),
    ]);
    let changes = [
        "network.coalesce.rx-usecs@eth0=64",
        "network.coalesce.rx-frames@eth0=8",
        "network.coalesce.tx-frames@eth0=12",
        "network.offload.gro@eth0=off",
        "network.offload.lro@eth0=on",
    ];
    let mut session = tree.session();
    let absent = tree.set(&mut session, &changes, Duration::ZERO);
    assert!(absent.iter().all(|outcome| !outcome.is_in_force()), "there is no ethtool");
    assert!(format!("{:?}", absent[0].status).contains("the program ethtool"), "{absent:?}");

    tree.program("usr/sbin/ethtool", ETHTOOL);
    let words: Vec<String> = tree
        .set(&mut session, &changes, Duration::ZERO)
        .iter()
        .map(|one| format!("{:?}", one.status))
        .collect();
    assert!(words[0].contains("Applied") && words[3].contains("Applied"), "{words:?}");
    assert!(words[1].contains("Operation not supported"), "{words:?}");
    assert!(words[2].contains("ReadsBack"), "{words:?}");
    assert!(words[4].contains("the driver fixes large-receive-offload"), "{words:?}");
    assert!(
        tree.read("card/coalesce").contains("rx-usecs: 64")
            && tree.read("card/coalesce").contains("tx-frames: 16")
    );
    assert!(tree.read("card/features").contains("generic-receive-offload: off"));
    session.restore(&Which::All, false);
    assert!(tree.read("card/coalesce").contains("rx-usecs: 3"));
    assert!(tree.read("card/features").contains("generic-receive-offload: on"));
}

#[test]
fn a_program_that_tunes_by_itself_is_named_before_anything_is_touched() {
    let tree = Tree::new(&INTERRUPTS);
    tree.put("proc/7/comm", "irqbalance\n");
    tree.put("proc/sys/vm/swappiness", "60");
    let tuners = tuner::running(&Host::new(tree.root()));
    let check =
        |change: &str| apply::check(&Host::new(tree.root()), None, &[change.to_owned()], &[]).unwrap();
    let disturbed = apply::alone(&tuners, &check("interrupt.affinity@38=1"), &[]).unwrap_err();
    assert!(matches!(&disturbed, Error::Tuner { pid: 7, .. }), "{disturbed}");
    assert!(disturbed.to_string().contains("--beside irqbalance"), "{disturbed}");
    apply::alone(&tuners, &check("interrupt.affinity@38=1"), &["irqbalance".to_owned()]).unwrap();
    apply::alone(&tuners, &check("memory.swappiness=1"), &[]).unwrap();
    apply::alone(&tuners, &check("interrupt.irqbalance=off"), &[]).unwrap();

    // Stopped by systemctl, proved by /proc, started again.
    tree.program(
        "bin/systemctl",
        "#!/bin/sh\nproc=\"${0%/bin/systemctl}/proc\"\ncase $1 in stop) rm -r $proc/7 ;; start) mkdir $proc/7; echo irqbalance > $proc/7/comm ;; esac\n",
    );
    let mut session = tree.session();
    let outcome = &tree.set(&mut session, &["interrupt.irqbalance=off"], Duration::ZERO)[0];
    assert!(outcome.is_in_force() && !tree.root().join("proc/7").exists(), "{outcome:?}");
    session.restore(&Which::All, false);
    assert_eq!(tuner::running(&Host::new(tree.root())).len(), 1);
}

#[test]
fn what_a_device_of_several_disks_refuses_is_to_be_set_at_the_disks_below_it() {
    // LVM on a partition and on an array of two disks.
    let tree = Tree::new(&[
        ("sys/block/dm-0/queue/scheduler", "none\n"),
        ("sys/block/dm-0/slaves/vda1/partition", "1\n"),
        ("sys/block/dm-0/slaves/md0/dev", "9:0\n"),
        ("sys/block/md0/slaves/vdb/dev", "252:16\n"),
        ("sys/block/md0/slaves/vdc/dev", "252:32\n"),
        ("sys/block/vda/vda1/partition", "1\n"),
        ("sys/block/vda/queue/scheduler", "[none] mq-deadline\n"),
    ]);
    let check = |change: &str| {
        let checked = apply::check(&Host::new(tree.root()), None, &[change.to_owned()], &[]);
        checked.unwrap_err().to_string()
    };
    let below = |knob: &str| ["vda", "vdb", "vdc"].iter().all(|disk| knob.contains(&format!("@{disk}")));
    let refused = check("block.scheduler@dm-0=mq-deadline");
    assert!(refused.contains("dm-0 passes its requests on") && below(&refused), "{refused}");
    assert!(!check("block.scheduler@vda=bfq").contains("passes its requests on"), "a disk");
    let mut session = tree.session();
    match &tree.set(&mut session, &["block.wbt_lat_usec@dm-0=0"], Duration::ZERO)[0].status {
        Status::Refused { refusal } => {
            let words = refusal.to_string();
            assert!(words.contains("not here") && words.contains("block.wbt_lat_usec@vdb"), "{words}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_governor_of_every_cpu_is_one_knob_and_takes_what_the_kernel_offers() {
    let governor = |cpu: u32| format!("sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor");
    let tree = Tree::new(&[(
        "sys/devices/system/cpu/cpu0/cpufreq/scaling_available_governors",
        "performance powersave\n",
    )]);
    tree.put(&governor(0), "powersave\n");
    tree.put(&governor(1), "performance\n");
    let host = Host::new(tree.root());
    let wrong =
        apply::check(&host, None, &["cpu.governor=ondemand".to_owned()], &[]).unwrap_err().to_string();
    assert!(wrong.contains("performance, powersave"), "{wrong}");
    let mut session = tree.session();
    let outcome = tree.set(&mut session, &["cpu.governor=performance"], Duration::ZERO).remove(0);
    assert_eq!(outcome.before.as_deref(), Some("powersave | performance"));
    assert_eq!(tree.read(&governor(0)), "performance");
    session.restore(&Which::All, false);
    assert_eq!(
        (tree.read(&governor(0)), tree.read(&governor(1))),
        ("powersave".into(), "performance".into())
    );
}

/// What a caller's action has done; the value is the last.
struct Recorded(Arc<Mutex<Vec<String>>>);

impl Action for Recorded {
    fn read(&mut self) -> Result<String, knob::Refusal> {
        Ok(self.0.lock().unwrap().last().unwrap().clone())
    }

    fn apply(&mut self, value: &str) -> Result<(), knob::Refusal> {
        self.0.lock().unwrap().push(value.to_owned());
        Ok(())
    }
}

#[test]
fn what_the_caller_changes_in_its_own_way_has_the_same_journal_read_back_and_restore() {
    let tree = Tree::new(&[]);
    let done = Arc::new(Mutex::new(vec!["ext4".to_owned()]));
    let mut session = tree.session();
    let without = tree.set(&mut session, &["file_system.type@/dev/loop9=xfs"], Duration::ZERO);
    assert!(format!("{without:?}").contains("--action"), "{without:?}");
    session.act("file_system.type@/dev/loop9", Box::new(Recorded(done.clone())));
    let outcome = &tree.set(&mut session, &["file_system.type@/dev/loop9=xfs"], Duration::ZERO)[0];
    assert_eq!((outcome.is_in_force(), outcome.before.as_deref()), (true, Some("ext4")));
    session.restore(&Which::All, false);
    assert_eq!(*done.lock().unwrap(), ["ext4", "xfs", "ext4"]);
}

#[test]
fn a_program_of_the_caller_is_in_the_journal_so_that_a_later_process_can_put_back_what_it_did() {
    let tree = Tree::new(&[("allocator", "glibc\n")]);
    tree.program(
        "act",
        "#!/bin/sh\nat=\"${0%/act}/allocator\"\ncase $1 in read) cat \"$at\" ;; apply) echo \"$2\" > \"$at\" ;; esac\n",
    );
    let mut session = tree.session();
    let action = knob::action::ProgramAction::new(Host::new(tree.root()), "/act");
    session.act("allocator.library@db", Box::new(action));
    let outcome = &tree.set(&mut session, &["allocator.library@db=jemalloc"], Duration::ZERO)[0];
    assert!(outcome.is_in_force(), "{outcome:?}");
    assert_eq!(tree.read("allocator"), "jemalloc");
    drop(session);
    assert!(Path::new(&tree.root()).exists());
    let restored = tree.session().restore(&Which::All, false);
    assert_eq!(restored[0].end, Some(End::Restored), "{restored:?}");
    assert_eq!(tree.read("allocator"), "glibc");
}

/// Answers recorded from the manual pages and messages of OpenZFS 2.2; a property is a file: value, tab,
/// source.
const ZFS: &str = r#"#!/bin/sh
at="${0%/usr/sbin/zfs}/zfs"
no() { echo "$1" >&2; exit 1; }
case $1 in
    get)
        file="$at/$7/$6"; [ -e "$file" ] || no "bad property list: invalid property '$6'"
        if [ "$5" = value ]; then cut -f1 "$file"; else cat "$file"; fi ;;
    set)
        name=${2%%=*}; value=${2#*=}; file="$at/$3/$name"
        [ -e "$file" ] || no "cannot set property for '$3': invalid property '$name'"
        case $name,$value in
            logbias,latency|logbias,throughput) ;;
            logbias,*) no "cannot set property for '$3': 'logbias' must be one of 'latency | throughput'" ;;
            acltype,posixacl) value=posix ;;
        esac
        printf '%s\tlocal\n' "$value" > "$file" ;;
    inherit) cp "$at/$3/$2.inherited" "$at/$3/$2" ;;
esac
"#;

const ZPOOL: &str = r#"#!/bin/sh
at="${0%/usr/sbin/zpool}/zpool"
case $1 in
    get) cat "$at/$7/$6" 2>/dev/null || { echo "bad property list: invalid property '$6'" >&2; exit 1; } ;;
    set) echo "${2#*=}" > "$at/$3/${2%%=*}" ;;
esac
"#;

#[test]
fn the_lets_encrypt_profile_is_set_on_a_recorded_openzfs_and_put_back_to_what_was_set_or_inherited() {
    let tree = Tree::new(&[
        ("zpool/tank/guid", "77"),
        ("zpool/tank/autoreplace", "off\n"),
        ("sys/module/zfs/parameters/zfs_prefetch_disable", "0"),
    ]);
    for dataset in ["tank", "tank/mysql"] {
        for (property, value, source) in [
            ("guid", "5", "-"),
            ("atime", "on", "default"),
            ("compression", "off", "default"),
            ("primarycache", "all", "local"),
            ("recordsize", "131072", "default"),
            ("xattr", "on", "default"),
            ("acltype", "off", "default"),
            ("dnodesize", "legacy", "default"),
            ("logbias", "latency", "inherited from tank"),
            ("redundant_metadata", "all", "default"),
        ] {
            tree.put(&format!("zfs/{dataset}/{property}"), &format!("{value}\t{source}\n"));
            tree.put(&format!("zfs/{dataset}/{property}.inherited"), &format!("{value}\t{source}\n"));
        }
    }
    tree.program("usr/sbin/zfs", ZFS);
    tree.program("usr/sbin/zpool", ZPOOL);
    let state = || {
        let list = std::process::Command::new("find").arg(tree.root()).args(["-type", "f"]).output().unwrap();
        let mut paths: Vec<String> =
            String::from_utf8(list.stdout).unwrap().lines().map(str::to_owned).collect();
        paths.sort();
        paths
            .into_iter()
            .map(|path| (path.clone(), std::fs::read_to_string(path).unwrap()))
            .collect::<Vec<_>>()
    };
    let start = state();
    let given = [("pool", "tank"), ("parent", "tank"), ("dataset", "tank/mysql")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
    let rows = knob::profile::find("letsencrypt").unwrap().rows;
    let assignments: Vec<String> = rows
        .iter()
        .filter_map(|row| row.assignment(&given).unwrap())
        .filter(|assignment| assignment.starts_with('z'))
        .collect();
    assert_eq!(assignments.len(), 12, "{assignments:?}");
    let mut session = tree.session();
    let all: Vec<&str> = assignments.iter().map(String::as_str).collect();
    let outcomes = tree.set(&mut session, &all, Duration::ZERO);
    let refused: Vec<&Outcome> = outcomes.iter().filter(|outcome| !outcome.is_in_force()).collect();
    assert!(refused.is_empty(), "{refused:?}");
    assert_eq!(tree.read("zfs/tank/mysql/recordsize"), "16384\tlocal");
    assert_eq!(tree.read("zfs/tank/mysql/logbias"), "throughput\tlocal");
    assert_eq!(tree.read("zpool/tank/autoreplace"), "on");
    assert_eq!(tree.read("sys/module/zfs/parameters/zfs_prefetch_disable"), "1");
    let wrong = tree.set(&mut session, &["zfs.logbias@tank=fast", "zfs.nonsense@tank=1"], Duration::ZERO);
    assert!(format!("{:?}", wrong[0].status).contains("must be one of 'latency | throughput'"), "{wrong:?}");
    assert!(format!("{:?}", wrong[1].status).contains("invalid property 'nonsense'"), "{wrong:?}");
    session.restore(&Which::All, false);
    let different: Vec<_> = state().into_iter().filter(|file| !start.contains(file)).collect();
    assert!(different.is_empty(), "{different:?}");
}

#[test]
fn each_interrupt_of_a_device_may_come_once_more_where_it_came_before() {
    let tree = Tree::new(&INTERRUPTS);
    tree.put("sys/class/net/eth0/device/msi_irqs/38", "msix");
    tree.put("sys/class/net/eth0/device/msi_irqs/39", "msix");
    let table = |rx: [u64; 4], tx: [u64; 4]| {
        let row = |counts: [u64; 4]| counts.map(|count| count.to_string()).join(" ");
        format!(
            "    CPU0 CPU1 CPU2 CPU3\n 38: {} PCI-MSIX eth0-rx\n 39: {} PCI-MSIX eth0-tx\n",
            row(rx),
            row(tx)
        )
    };
    tree.put("proc/interrupts", &table([9, 0, 0, 0], [0, 9, 0, 0]));
    let mut session = tree.session();
    let outcome = std::thread::scope(|scope| {
        scope.spawn(|| {
            // Once it is set: first the one, then the other where it came before, then both where they shall.
            let deadline = std::time::Instant::now() + Duration::from_secs(30);
            while tree.read("proc/irq/39/smp_affinity_list") != "2" && std::time::Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(1));
            }
            for (rx, tx) in [
                ([10, 0, 0, 0], [0, 9, 0, 0]),
                ([10, 0, 0, 0], [0, 10, 0, 0]),
                ([10, 0, 5, 0], [0, 10, 5, 0]),
            ] {
                std::thread::sleep(Duration::from_millis(60));
                tree.put("proc/interrupts.new", &table(rx, tx));
                std::fs::rename(tree.root().join("proc/interrupts.new"), tree.root().join("proc/interrupts"))
                    .unwrap();
            }
        });
        tree.set(&mut session, &["interrupt.affinity@eth0=2"], Duration::from_secs(30)).remove(0)
    });
    let Status::Applied { note: Some(note) } = &outcome.status else { panic!("{outcome:?}") };
    assert!(note.contains("10 interrupts came since"), "{note}");
}
