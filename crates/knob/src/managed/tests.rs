//! The parts that need no server; with real ones it is tested by the command.

use super::*;

pub(super) fn example() -> Managed {
    let lines = include_str!("../managed.rs").lines().skip_while(|line| !line.contains("```toml")).skip(1);
    let lines = lines.take_while(|line| !line.contains("```"));
    let text: String =
        lines.map(|line| format!("{}\n", line.trim_start_matches("//!").trim_start())).collect();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a1.toml");
    std::fs::write(&path, text).unwrap();
    Managed::read(&path).unwrap()
}

#[test]
fn a_description_goes_into_the_journal_and_comes_out_of_it() {
    let managed = example();
    assert_eq!(Managed::of_program(&managed.program()).unwrap().unwrap(), managed);
    assert!(Managed::of_program("/usr/local/bin/restart").is_none());
    assert!(Managed::of_program("managed:{").unwrap().is_err());
}

#[test]
fn a_description_that_could_erase_the_data_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a1.toml");
    let mut managed = example();
    managed.work_dir = format!("{}/work", managed.data_dir);
    std::fs::write(&path, toml::to_string(&managed).unwrap()).unwrap();
    assert!(Managed::read(&path).unwrap_err().to_string().contains("one in the other"));
    managed.work_dir = "work".to_owned();
    std::fs::write(&path, toml::to_string(&managed).unwrap()).unwrap();
    assert!(Managed::read(&path).unwrap_err().to_string().contains("no absolute path"));
}

/// What mountinfo and loop devices show has no links and no slash at its end.
#[test]
fn paths_are_kept_as_the_kernel_shows_them() {
    let dir = tempfile::tempdir().unwrap();
    let real = dir.path().canonicalize().unwrap();
    std::fs::create_dir(real.join("mysql")).unwrap();
    for (link, to) in [("data", "mysql"), ("by-id", "vdz"), ("vdz", "vdz.node")] {
        std::os::unix::fs::symlink(real.join(to), real.join(link)).unwrap();
    }
    std::fs::write(real.join("vdz.node"), "").unwrap();
    let at = |name: &str| format!("{}/{name}", real.display());
    let mut managed = example();
    managed.data_dir = at("data/");
    managed.work_dir = at("data/../not made yet/work/");
    managed.device = Some(at("by-id"));
    let path = real.join("a1.toml");
    std::fs::write(&path, toml::to_string(&managed).unwrap()).unwrap();
    assert!(Managed::read(&path).unwrap_err().to_string().contains("no absolute path"));
    managed.work_dir = at("not made yet/work/");
    std::fs::write(&path, toml::to_string(&managed).unwrap()).unwrap();
    let read = Managed::read(&path).unwrap();
    assert_eq!(read.data_dir, at("mysql"));
    assert_eq!(read.work_dir, at("not made yet/work"));
    assert_eq!(read.device, Some(at("vdz.node")));
    // Two names of one place are seen to lie one in the other.
    managed.work_dir = at("mysql/work");
    std::fs::write(&path, toml::to_string(&managed).unwrap()).unwrap();
    assert!(Managed::read(&path).unwrap_err().to_string().contains("one in the other"));
}

#[test]
fn the_allocator_is_what_is_mapped_into_the_process() {
    let maps = |library: &str| {
        format!("7f00 r-xp 0 fe:00 1 /usr/lib/{library}\n7f01 r-xp 0 fe:00 2 /usr/lib/libc.so.6\n")
    };
    assert_eq!(allocator_of(&maps("libjemalloc.so.2")), "jemalloc");
    assert_eq!(allocator_of(&maps("libtcmalloc_minimal.so.4")), "tcmalloc");
    assert_eq!(allocator_of(&maps("libm.so.6")), "glibc");
}

#[test]
fn the_library_of_an_allocator_is_itself_before_its_variants() {
    let root = tempfile::tempdir().unwrap();
    let lib = root.path().join("usr/lib64");
    std::fs::create_dir_all(&lib).unwrap();
    for name in [
        "libmimalloc-debug.so.2",
        "libmimalloc-secure.so.2",
        "libmimalloc.so.2",
        "libtcmalloc_minimal.so.4",
        "libtcmalloc_minimal_debug.so.4",
    ] {
        std::fs::write(lib.join(name), "").unwrap();
    }
    let host = Host::new(root.path());
    assert_eq!(library(&host, "mimalloc").unwrap(), "/usr/lib64/libmimalloc.so.2");
    assert_eq!(library(&host, "tcmalloc").unwrap(), "/usr/lib64/libtcmalloc_minimal.so.4");
}

#[test]
fn a_marker_of_a_process_that_is_dead_or_another_one_by_now_holds_nobody_up() {
    let host = Host::new("/");
    assert!(alive(&host, &this_process(&host)));
    assert!(!alive(&host, &format!("{} 1", std::process::id())), "another process of that number");
    assert!(!alive(&host, "4194303 77"));
    assert!(!alive(&host, ""));
}

#[test]
fn what_this_host_lacks_is_refused_before_anything_is_stopped() {
    let dir = tempfile::tempdir().unwrap();
    let host = Host::new(dir.path());
    let check = |knob: &str, value: &str| {
        let mut action = ManagedAction::new(host.clone(), example(), knob).unwrap();
        action.check(value).unwrap_err().to_string()
    };
    assert!(check("allocator.library@server", "jemalloc").contains("libjemalloc"));
    assert!(check("allocator.library@server", "hoard").contains("not known"));
    assert!(check("numa.policy@server", "interleave").contains("not here: a second NUMA node"));
    assert!(check("file_system.type@server", "hfs").contains("as-it-is, ext4, xfs, btrfs, zfs"));
    assert!(check("file_system.type@server", "zfs ashift=12").contains("zpool"));
    assert!(check("file_system.type@server", "xfs noatime").contains("mkfs.xfs"));
    assert!(check("cgroup.cpu.max@server", "max 100000").contains("does not run"));
    assert!(ManagedAction::new(host, example(), "file_system.type@/data").is_none());
}

/// A server that does not start while one of its two files has a word that it does not like.
struct Picky {
    dir: tempfile::TempDir,
    managed: Managed,
}

impl Picky {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name).display().to_string();
        let (options, environment) = (at("options.cnf"), at("environment"));
        let start = format!(
            "if cat {options} {environment} 2>/dev/null | grep -q poison; then echo it is poison >&2; exit 1; fi; \
             echo started >> {}",
            at("log")
        );
        let shell = |script: &str| ["/bin/sh", "-c", script].map(str::to_owned).to_vec();
        let managed = Managed {
            stop: shell("true"),
            start: shell(&start),
            pid_file: at("pid"),
            data_dir: at("data"),
            option_file: options,
            environment,
            work_dir: at("work"),
            image_mib: None,
            device: None,
        };
        Self { dir, managed }
    }

    fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.dir.path().join(name)).unwrap_or_default()
    }

    fn put(&self, name: &str, text: &str) {
        std::fs::create_dir_all(self.dir.path().join("work")).unwrap();
        std::fs::write(self.dir.path().join(name), text).unwrap();
    }
}

#[test]
fn a_value_with_which_the_server_does_not_start_is_taken_out_and_the_server_runs_as_before() {
    let (picky, host) = (Picky::new(), Host::new("/"));
    picky.managed.set_option(&host, "a", "1", "2").unwrap();
    let refused = picky.managed.set_option(&host, "b", "food", "poison").unwrap_err().to_string();
    assert!(refused.contains("runs as before") && refused.contains("it is poison"), "{refused}");
    assert_eq!(picky.text("options.cnf"), "[mysqld]\n# a was 1\na=2\n");
    assert_eq!(picky.text("log"), "started\nstarted\n");
    assert!(!Path::new(&picky.managed.marker()).exists());
}

#[test]
fn after_a_death_in_a_restart_the_server_starts_even_if_it_is_by_our_lines_that_it_does_not() {
    let (picky, host) = (Picky::new(), Host::new("/"));
    picky.put("work/restarting", "4194303 77");
    picky.put("options.cnf", "[mysqld]\n# b was food\nb=poison\ntheirs=1\n");
    picky.put("environment", "# LD_PRELOAD was glibc\nLD_PRELOAD=/l.so\n");
    picky.managed.tidy(&host).unwrap();
    assert_eq!(
        (picky.text("options.cnf").as_str(), picky.text("environment").as_str()),
        ("[mysqld]\ntheirs=1\n", "")
    );
    assert_eq!(picky.text("log"), "started\n");
    assert!(!Path::new(&picky.managed.marker()).exists());
    // What is not ours stays, and so does the marker: the next restore tries again.
    picky.put("work/restarting", "4194303 77");
    picky.put("options.cnf", "[mysqld]\ntheirs=poison\n");
    let stuck = picky.managed.tidy(&host).unwrap_err().to_string();
    assert!(stuck.contains("nor without settings of ours"), "{stuck}");
    assert!(Path::new(&picky.managed.marker()).exists());
}

#[test]
fn reading_a_setting_restarts_nothing_after_a_death_in_a_restart() {
    let (picky, host) = (Picky::new(), Host::new("/"));
    picky.put("work/restarting", "4194303 77");
    let managed = picky.managed.clone();
    let mut action = ManagedAction::new(host, managed, "file_system.type@server").unwrap();
    let refused = action.read().unwrap_err().to_string();
    assert!(refused.contains("headroom knob restore"), "{refused}");
    assert_eq!(picky.text("log"), "");
    action.managed.tidy(&action.host).unwrap();
    assert_eq!(action.read().unwrap(), AS_IT_IS);
}
