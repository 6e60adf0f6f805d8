//! `headroom knob` on the kernel of this machine: only on things that the test makes itself and removes (a
//! loop device, its mount, a veth pair in a network namespace of its own, a cgroup of its own). Needs root.

mod made;

use made::{Cgroup, Disk, Scene, headroom, json, until};
use serde_json::Value;

#[test]
fn block_settings_of_a_loop_device_are_applied_read_back_and_put_back_as_one_state() {
    let (scene, disk) = (Scene::new(), Disk::new());
    let start = disk.queue_state();
    let name = &disk.name;
    let set = [
        // In the wrong order: a change of the scheduler resets nr_requests.
        format!("block.nr_requests@{name}=32"),
        format!("block.scheduler@{name}=mq-deadline"),
        format!("block.rq_affinity@{name}=2"),
        format!("block.nomerges@{name}=2"),
        format!("block.read_ahead_kb@{name}=256"),
        format!("block.wbt_lat_usec@{name}=0"),
    ];
    let set: Vec<&str> = set.iter().map(String::as_str).collect();
    let done = json(&scene.knob(&[&["set", "--keep", "--json"], &set[..]].concat()));
    for outcome in done["outcomes"].as_array().unwrap() {
        assert_eq!(outcome["status"], "applied", "{outcome}");
    }
    for (file, expected) in [
        ("nr_requests", "32"),
        ("rq_affinity", "2"),
        ("nomerges", "2"),
        ("read_ahead_kb", "256"),
        ("wbt_lat_usec", "0"),
    ] {
        assert_eq!(disk.queue(file), expected, "{file}");
    }
    assert!(disk.queue("scheduler").contains("[mq-deadline]"));
    json(&scene.knob(&["set", "--keep", "--json", &format!("block.iosched.read_expire@{name}=80")]));
    assert_eq!(disk.queue("iosched/read_expire"), "80");

    let journal = json(&scene.knob(&["journal", "--json"]));
    assert_eq!(journal.as_array().unwrap().len(), 7);
    assert!(
        journal[0]["facts"]["loop/backing_file"].as_str().unwrap().contains("disk.img"),
        "{}",
        journal[0]
    );
    let restored = json(&scene.knob(&["restore", "--json"]));
    for state in restored.as_array().unwrap() {
        assert_eq!(state["end"]["how"], "restored", "{state}");
    }
    assert_eq!(disk.queue_state(), start);
    assert_eq!(json(&scene.knob(&["journal", "--json"])), Value::Array(vec![]));
    let again = scene.knob(&["restore", &format!("block.scheduler@{name}")]);
    assert_eq!(again.status.code(), Some(1), "it is not in the journal any more: {again:?}");
}

#[test]
fn what_somebody_else_changed_stays_and_is_named_and_what_the_kernel_refuses_is_refused() {
    let (scene, disk) = (Scene::new(), Disk::new());
    let name = &disk.name;
    let (deep, ahead) = (format!("block.nr_requests@{name}=9"), format!("block.read_ahead_kb@{name}=512"));
    // The queue of a loop device has a depth that nr_requests cannot pass.
    let impossible = format!("block.nr_requests@{name}=60000");
    let output = scene.knob(&["set", "--keep", &deep, &ahead]);
    assert!(output.status.success(), "{output:?}");
    let refused = scene.knob(&["set", "--keep", "--json", &impossible, &format!("block.nomerges@{name}=1")]);
    assert_eq!(refused.status.code(), Some(1));
    let report: Value = serde_json::from_slice(&refused.stdout).unwrap();
    let results: Vec<&str> =
        report["outcomes"].as_array().unwrap().iter().map(|one| one["status"].as_str().unwrap()).collect();
    assert_eq!(results, ["refused", "applied"], "the rest goes on: {report}");
    assert_eq!(disk.queue("nr_requests"), "9", "what was refused is as it was");

    std::fs::write(disk.queue_path("read_ahead_kb"), "1024").unwrap();
    let restored = scene.knob(&["restore"]);
    let words = String::from_utf8_lossy(&restored.stdout).into_owned();
    assert_eq!(restored.status.code(), Some(1), "{words}");
    assert!(words.contains("LEFT as somebody else changed it") && words.contains("'1024'"), "{words}");
    assert!(words.contains("before: /sys/block/") && words.contains("read_ahead_kb = "), "{words}");
    assert!(words.contains(&format!("--force 'block.read_ahead_kb@{name}'")), "{words}");
    assert_eq!(disk.queue("read_ahead_kb"), "1024");
    assert_ne!(disk.queue("nr_requests"), "9");
}

#[test]
fn settings_are_held_while_a_command_runs_and_after_kill_9_the_next_start_puts_them_back() {
    let (scene, disk) = (Scene::new(), Disk::new());
    let set = format!("block.read_ahead_kb@{}=512", disk.name);
    let before = disk.queue("read_ahead_kb");
    let look = format!("cat {} && exit 7", disk.queue_path("read_ahead_kb").display());
    let output = scene.knob(&["set", &set, "--", "sh", "-c", &look]);
    let words = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(7), "the command's own: {words}");
    assert!(words.lines().any(|line| line == "512"), "{words}");
    assert_eq!(disk.queue("read_ahead_kb"), before);

    let output = scene.knob(&["set", &set, "--", "sh", "-c", "kill -9 $$"]);
    assert_eq!(output.status.code(), Some(128 + 9), "it was killed: {output:?}");
    assert_eq!(disk.queue("read_ahead_kb"), before);

    // Ctrl-C, and the end that systemd asks for.
    for signal in [rustix::process::Signal::INT, rustix::process::Signal::TERM, rustix::process::Signal::HUP]
    {
        let mut holder = scene.start(&["set", &set]);
        until("it is set", || disk.queue("read_ahead_kb") == "512");
        let second = scene.knob(&["restore"]);
        let words = String::from_utf8_lossy(&second.stderr).into_owned();
        assert_eq!(second.status.code(), Some(2), "{words}");
        assert!(words.contains(&format!("process {}", holder.id())), "{words}");
        rustix::process::kill_process(made::pid(&holder), signal).unwrap();
        assert!(holder.wait().unwrap().success(), "{signal:?}");
        assert_eq!(disk.queue("read_ahead_kb"), before, "{signal:?}");
    }

    let mut holder = scene.start(&["set", &set]);
    until("it is set", || disk.queue("read_ahead_kb") == "512");
    rustix::process::kill_process(made::pid(&holder), rustix::process::Signal::KILL).unwrap();
    holder.wait().unwrap();
    assert_eq!(disk.queue("read_ahead_kb"), "512");
    // The next command that changes something begins with that.
    let next = json(&scene.knob(&[
        "set",
        "--json",
        &format!("block.nomerges@{}=1", disk.name),
        "--",
        "echo",
        "words",
    ]));
    assert_eq!(next["recovered"][0]["end"]["how"], "restored", "{next}");
    assert_eq!(disk.queue("read_ahead_kb"), before);
}

#[test]
fn mount_options_are_changed_by_a_remount_and_put_back_to_their_defaults() {
    let (scene, disk) = (Scene::new(), Disk::new());
    let mount = disk.mount();
    let start = mount.options();
    let knob = format!("mount.options@{}", mount.point());
    let set = format!("{knob}=noatime,commit=30,discard");
    json(&scene.knob(&["set", "--keep", "--json", &set]));
    assert!(
        ["noatime", "commit=30", "discard"].iter().all(|option| mount.options().contains(*option)),
        "{:?}",
        mount.options()
    );
    let shown = json(&scene.knob(&["show", "--json", &knob]));
    assert!(shown["value"].as_str().unwrap().contains("commit=30"), "{shown}");
    json(&scene.knob(&["restore", "--json"]));
    assert_eq!(mount.options(), start);
    // The other way round is a danger that must be named.
    let refused = scene.knob(&["set", "--keep", &format!("{knob}=nobarrier")]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("--danger nobarrier"), "{refused:?}");
    json(&scene.knob(&["set", "--keep", "--json", &format!("{knob}=nobarrier"), "--danger", "nobarrier"]));
    assert!(mount.options().contains("nobarrier"));
    json(&scene.knob(&["restore", "--json"]));
    assert_eq!(mount.options(), start);
}

#[test]
fn packet_steering_of_a_veth_in_a_namespace_of_its_own_is_set_on_every_queue() {
    let scene = Scene::new();
    // With /sys of the namespace: an interface is seen only in its own.
    let script = format!(
        "set -e; mount --make-rprivate /; mount -t sysfs headroom-test /sys; \
         ip link add hr0 numrxqueues 2 numtxqueues 2 type veth peer name hr1 numrxqueues 2 numtxqueues 2; \
         look() {{ cat /sys/class/net/hr0/queues/rx-*/rps_cpus /sys/class/net/hr0/queues/rx-*/rps_flow_cnt /proc/sys/net/core/somaxconn | xargs; }}; \
         look; {0} knob set --keep {1} network.rps@hr0=all network.rfs_flow_cnt@hr0=256 network.somaxconn=1234 >&2; look; \
         {0} knob restore {1} >&2; look",
        env!("CARGO_BIN_EXE_headroom"),
        scene.places().join(" "),
    );
    let output = std::process::Command::new("unshare")
        .args(["--net", "--mount", "sh", "-c", &script])
        .output()
        .unwrap();
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{words}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let [start, set, back] = text.lines().collect::<Vec<_>>()[..] else { panic!("{text}{words}") };
    let cpus = std::thread::available_parallelism().unwrap().get();
    let fields: Vec<&str> = set.split(' ').collect();
    assert!(u64::from_str_radix(fields[0], 16).unwrap().count_ones() as usize >= cpus.min(2), "{text}");
    assert_eq!(fields[0], fields[1], "both queues");
    assert_eq!(fields[2..], ["256", "256", "1234"], "{text}");
    assert_eq!(back, start);
}

#[test]
fn limits_of_a_cgroup_are_set_by_one_name_in_v1_and_v2() {
    let scene = Scene::new();
    let cgroup = Cgroup::new();
    let start = cgroup.state();
    let path = &cgroup.path;
    let disk = Disk::new();
    let (cpu, memory) = (format!("cgroup.cpu.max@{path}=0.5"), format!("cgroup.memory.max@{path}=512M"));
    let io = format!("cgroup.io.max@{path},{}=rbps=100M wiops=2000", disk.name);
    json(&scene.knob(&["set", "--keep", "--json", &cpu, &memory, &io, "--danger", "cgroup.memory.max"]));
    let state = cgroup.state();
    assert!(state.iter().any(|text| text.contains("50000")), "{state:?}");
    assert!(state.iter().any(|text| text.contains("536870912")), "{state:?}");
    assert!(state.iter().any(|text| text.contains("104857600")), "{state:?}");
    assert!(state.iter().any(|text| text.contains("2000")), "{state:?}");
    json(&scene.knob(&["restore", "--json"]));
    assert_eq!(cgroup.state(), start);
}

#[test]
fn a_cgroup_that_was_made_again_under_its_name_is_another_one() {
    let scene = Scene::new();
    let cgroup = Cgroup::new();
    json(&scene.knob(&["set", "--keep", "--json", &format!("cgroup.cpu.max@{}=0.5", cgroup.path)]));
    cgroup.make_again();
    let restored = scene.knob(&["restore", "--json"]);
    let said: Value = serde_json::from_slice(&restored.stdout).unwrap();
    assert_eq!(said[0]["end"]["how"], "gone", "{said}");
}

#[test]
fn what_this_host_has_is_listed_with_its_values_and_a_dry_run_writes_nothing() {
    let (scene, disk) = (Scene::new(), Disk::new());
    let list = json(&scene.knob(&["list", "--json"]));
    let list = list.as_array().unwrap();
    let row = |name: &str| {
        list.iter().find(|row| row["knob"] == name).unwrap_or_else(|| panic!("{name} is not listed"))
    };
    let scheduler = row(&format!("block.scheduler@{}", disk.name));
    assert!(scheduler["takes"].as_str().unwrap().contains("none, "), "{scheduler}");
    assert_eq!(
        row("memory.swappiness")["value"],
        std::fs::read_to_string("/proc/sys/vm/swappiness").unwrap().trim()
    );
    let all = json(&scene.knob(&["list", "--all", "--json"]));
    assert!(all.as_array().unwrap().len() > 60);

    let before = disk.queue_state();
    let dry =
        json(&scene.knob(&["set", "--dry-run", "--json", &format!("block.scheduler@{}=bfq", disk.name)]));
    assert_eq!(dry[0]["writes"][0]["to"], "bfq", "{dry}");
    assert_eq!(disk.queue_state(), before);
    assert!(!scene.journal().exists(), "nothing was touched");
}

#[test]
fn wrong_input_is_refused_before_anything_is_touched_with_what_would_be_right() {
    let (scene, disk) = (Scene::new(), Disk::new());
    let right = format!("block.nomerges@{}=1", disk.name);
    let before = disk.queue_state();
    for (wrong, code, words) in [
        (format!("block.scheduler@{}=noop", disk.name), 64, "this host offers"),
        (format!("block.read_ahead_kb@{}=333", disk.name), 64, "steps of 4"),
        ("block.scheduler=none".to_owned(), 64, "say which"),
        ("memory.swapiness=1".to_owned(), 64, "no knob is called"),
        (format!("block.write_cache@{}=write through", disk.name), 1, "--danger block.write_cache"),
        ("server.innodb_io_capacity=1".to_owned(), 1, "must be named: --server"),
    ] {
        let output = scene.knob(&["set", "--keep", &right, &wrong]);
        let said = String::from_utf8_lossy(&[output.stdout.as_slice(), output.stderr.as_slice()].concat())
            .into_owned();
        assert!(said.contains(words), "{wrong}: {said}");
        assert_eq!(output.status.code(), Some(code), "{wrong}: {said}");
        if code == 64 {
            assert_eq!(disk.queue_state(), before, "{wrong}");
        }
        scene.knob(&["restore"]);
    }
}

#[test]
fn a_profile_is_shown_with_its_reasons_and_set_as_far_as_it_goes() {
    let (scene, disk) = (Scene::new(), Disk::new());
    let output = headroom(&["knob", "profile", "pinterest"]);
    let words = String::from_utf8_lossy(&output.stdout).into_owned();
    for part in ["noop", "block.scheduler@{disk}=none", "replaced", "nobarrier", "gone"] {
        assert!(words.contains(part), "{part}: {words}");
    }
    let other = headroom(&["knob", "profile", "hatena"]);
    assert!(String::from_utf8_lossy(&other.stderr).contains("letsencrypt and pinterest"), "{other:?}");
    let dry =
        scene.knob(&["set", "--dry-run", "--profile", "pinterest", "--for", &format!("disk={}", disk.name)]);
    let said = String::from_utf8_lossy(&[dry.stdout.as_slice(), dry.stderr.as_slice()].concat()).into_owned();
    assert!(said.contains(&format!("block.scheduler@{}", disk.name)), "{said}");
    assert!(said.contains("left out: mount: noatime: say which mount"), "{said}");
    assert!(said.contains("Nothing was written."), "{said}");
}

#[test]
fn a_damaged_journal_is_refused_in_words_and_nothing_is_changed() {
    let (scene, disk) = (Scene::new(), Disk::new());
    json(&scene.knob(&["set", "--keep", "--json", &format!("block.nomerges@{}=1", disk.name)]));
    let path = scene.journal().join("journal");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replacen("\"before\"", "\"xefore\"", 1)).unwrap();
    for args in [&["restore"][..], &["journal"], &["set", "--keep", "memory.swappiness=60"]] {
        let output = scene.knob(args);
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && words.contains("damaged at line 2"), "{args:?}: {words}");
    }
    assert_eq!(disk.queue("nomerges"), "1");
}

#[tokio::test]
async fn a_variable_of_a_server_is_shown_held_while_a_command_runs_and_put_back() {
    let (scene, base) = (Scene::new(), tempfile::tempdir().unwrap());
    let lab = lab::Lab::up(&lab::Spec::new(&[("a", 1)]), base.path()).await.unwrap();
    let file = lab.credentials_file(lab::Account::Root).display().to_string();
    let socket = lab.socket("a1").unwrap().display().to_string();
    let login = ["--server", &socket, "--option-file", &file];
    let shown = json(&scene.knob(&[&["show", "server.innodb_io_capacity", "--json"], &login[..]].concat()));
    assert!(shown["takes"].as_str().unwrap().starts_with("100 to"), "{shown}");
    let before = shown["value"].as_str().unwrap().to_owned();
    let client = [
        "mariadb",
        &format!("--defaults-file={file}"),
        "-S",
        &socket,
        "-Ne",
        "SELECT @@GLOBAL.innodb_io_capacity",
    ];
    let set = ["set", "server.innodb_io_capacity=3333"];
    let output = scene.knob(&[&set, &login[..], &["--"], &client].concat());
    let words =
        String::from_utf8_lossy(&[output.stdout.as_slice(), output.stderr.as_slice()].concat()).into_owned();
    assert!(output.status.success() && words.lines().any(|line| line == "3333"), "{words}");
    let after = json(&scene.knob(&[&["show", "server.innodb_io_capacity", "--json"], &login[..]].concat()));
    assert_eq!(after["value"], before.as_str());
    // An account that may only look is told what it lacks.
    let reader = lab.credentials_file(lab::Account::Headroom).display().to_string();
    let at = lab.real("a1").unwrap().to_string();
    let refused = scene.knob(&[
        "set",
        "--keep",
        "server.innodb_io_capacity=3333",
        "--server",
        &at,
        "--option-file",
        &reader,
    ]);
    let words = String::from_utf8_lossy(&refused.stdout).into_owned();
    assert_eq!(refused.status.code(), Some(1), "{words}");
    assert!(words.contains("GRANT"), "{words}");
    assert!(scene.knob(&["journal"]).stdout.starts_with(b"Nothing is changed"));
    lab.down().await.unwrap();
}

#[test]
fn a_device_that_is_not_empty_is_never_made_a_file_system_on() {
    let (scene, disk) = (Scene::new(), Disk::new());
    let (device, dir) = (format!("/dev/{}", disk.name), tempfile::tempdir().unwrap());
    let at = |name: &str| dir.path().join(name).display().to_string();
    std::fs::create_dir(at("data")).unwrap();
    let description = format!(
        "stop = [\"/bin/false\"]\nstart = [\"/bin/false\"]\npid_file = {:?}\ndata_dir = {:?}\n\
         option_file = {:?}\nenvironment = {:?}\nwork_dir = {:?}\ndevice = {device:?}\n",
        at("pid"),
        at("data"),
        at("override.cnf"),
        at("environment"),
        at("work")
    );
    std::fs::write(at("server.toml"), description).unwrap();
    let set = ["set", "--danger", "file_system.type", "--managed", &at("server.toml"), "--dry-run"];
    let dry = |value: &str| {
        let output = scene.knob(&[&set[..], &[&format!("file_system.type@server={value}")]].concat());
        String::from_utf8_lossy(&[output.stdout.as_slice(), output.stderr.as_slice()].concat()).into_owned()
    };
    let words = dry("ext4");
    assert!(words.contains("as-it-is") && !words.contains("REFUSED"), "an empty one: {words}");
    let made = std::process::Command::new("mkfs.ext4").args(["-q", &device]).output().unwrap();
    assert!(made.status.success(), "{made:?}");
    let words = dry("xfs");
    assert!(words.contains("is not empty") && words.contains("signature ext4"), "{words}");
    let unnamed = scene.knob(&["set", "--managed", &at("server.toml"), "file_system.type@server=xfs"]);
    assert_eq!(unnamed.status.code(), Some(1), "a danger that is not named: {unnamed:?}");
}
