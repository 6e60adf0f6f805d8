//! `headroom doctor` in the three places that count: a full host as root, an account without privileges, and
//! a container's default seccomp profile and capabilities. What it says of io_uring is held against a router
//! that is started in the same place.

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, SeccompRule};
use serde_json::Value;
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// System calls that Docker's default profile refuses to a container without further capabilities.
const REFUSED: [libc::c_long; 30] = [
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_setns,
    libc::SYS_unshare,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_userfaultfd,
    libc::SYS_kexec_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_fsopen,
    libc::SYS_fsmount,
    libc::SYS_move_mount,
    libc::SYS_open_by_handle_at,
    libc::SYS_syslog,
];
/// Those that a container has unless told otherwise.
const CONTAINER: &str = "-all,+chown,+dac_override,+fowner,+fsetid,+kill,+setgid,+setuid,+setpcap,\
    +net_bind_service,+net_raw,+sys_chroot,+mknod,+audit_write,+setfcap";

/// The binary where every account can start it, and a runtime directory of its own.
struct Place {
    directory: tempfile::TempDir,
    program: PathBuf,
}

impl Place {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let program = directory.path().join("headroom");
        std::fs::copy(env!("CARGO_BIN_EXE_headroom"), &program).unwrap();
        Self { directory, program }
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    /// `headroom ARGS`, started by `by`.
    fn command(&self, by: &[&str], args: &[&str]) -> Command {
        let words: Vec<&str> = by.iter().copied().chain([self.program.to_str().unwrap()]).collect();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).args(args).current_dir(self.path()).env_clear();
        command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        command
    }
}

/// The findings by what was looked at.
fn findings(output: &Output) -> BTreeMap<String, Value> {
    let words = || String::from_utf8_lossy(&output.stderr).into_owned();
    let report: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", words()));
    let all = report["findings"].as_array().unwrap().iter();
    all.map(|finding| (finding["check"].as_str().unwrap().to_owned(), finding.clone())).collect()
}

fn status(findings: &BTreeMap<String, Value>, check: &str) -> String {
    findings[check]["status"].as_str().unwrap().to_owned()
}

fn text(findings: &BTreeMap<String, Value>, check: &str, key: &str) -> String {
    findings[check][key].as_str().unwrap_or_default().to_owned()
}

/// Runs it on a thread that a filter with these refusals holds for, as it does for what the thread starts.
fn under_the_filter(mut command: Command) -> Output {
    let refused: BTreeMap<i64, Vec<SeccompRule>> = REFUSED.iter().map(|call| (*call, Vec::new())).collect();
    let not_permitted = SeccompAction::Errno(libc::EPERM as u32);
    let arch = std::env::consts::ARCH.try_into().unwrap();
    let filter = SeccompFilter::new(refused, SeccompAction::Allow, not_permitted, arch).unwrap();
    let program: BpfProgram = filter.try_into().unwrap();
    let thread = std::thread::spawn(move || {
        seccompiler::apply_filter(&program).unwrap();
        command.output().unwrap()
    });
    thread.join().unwrap()
}

fn is_root() -> bool {
    testkit::root_or_not_tested("other accounts, capabilities and bpf(2) need root")
}

#[test]
fn a_full_host_passes_as_root() {
    if !is_root() {
        return;
    }
    let place = Place::new();
    let runtime = place.path().join("run");
    let output =
        place.command(&[], &["doctor", "--json"]).env("HEADROOM_RUNTIME_DIR", &runtime).output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let found = findings(&output);
    for check in ["kernel", "account", "io_uring", "zero-hop", "agent", "runtime directory"] {
        assert_eq!(status(&found, check), "pass", "{:?}", found[check]);
    }
    assert!(text(&found, "account", "found").starts_with("root, CAP_NET_ADMIN"), "{:?}", found["account"]);
    assert!(!runtime.exists(), "nothing is left behind");
}

#[test]
fn an_account_without_privileges_is_told_what_it_lacks() {
    if !is_root() {
        return;
    }
    let place = Place::new();
    let nobody = [
        "setpriv",
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
        "--inh-caps=-all",
        "--bounding-set=-all",
    ];
    let output = place.command(&nobody, &["doctor", "--json"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let found = findings(&output);
    assert!(
        text(&found, "account", "found").starts_with("user 65534, no capabilities"),
        "{:?}",
        found["account"]
    );
    assert_eq!((status(&found, "io_uring"), status(&found, "zero-hop")), ("pass".into(), "warn".into()));
    assert_eq!(text(&found, "zero-hop", "costs"), "zero-hop is not available: the relay is used");
    assert!(text(&found, "zero-hop", "mend").contains("CAP_BPF CAP_NET_ADMIN"), "{:?}", found["zero-hop"]);
    assert!(!Path::new("/tmp/headroom-65534").exists(), "nothing is left behind");
}

#[test]
fn a_container_with_the_default_seccomp_profile_is_told_that_the_profile_forbids_it() {
    if !is_root() {
        return;
    }
    let place = Place::new();
    let output = under_the_filter(place.command(&[], &["doctor", "--json"]));
    let found = findings(&output);
    assert!(text(&found, "account", "found").ends_with("under a seccomp filter"), "{:?}", found["account"]);
    for check in ["io_uring", "zero-hop"] {
        assert_eq!(status(&found, check), "warn");
        assert!(text(&found, check, "found").contains("seccomp filter"), "{:?}", found[check]);
    }
    assert!(text(&found, "io_uring", "mend").contains("io_uring_setup"));

    // With a container's capabilities too, it is those that bpf(2) lacks first.
    let bounding = format!("--bounding-set={CONTAINER}");
    let container = ["setpriv", "--inh-caps=-all", &bounding];
    let output = under_the_filter(place.command(&container, &["doctor", "--json"]));
    let found = findings(&output);
    assert!(
        text(&found, "account", "found").contains("no capabilities that count"),
        "{:?}",
        found["account"]
    );
    assert!(text(&found, "zero-hop", "mend").contains("--cap-add BPF"), "{:?}", found["zero-hop"]);

    // A router that demands io_uring does not start there, and doctor says so of the same file.
    let file = "[fleet]\nseeds = [\"127.0.0.1:1\"]\n[router]\ndata_path = \"io_uring\"\nzero_hop = \"off\"\n\
                [[listener]]\naddress = \"127.0.0.1:3399\"\nrole = \"reader\"\n";
    std::fs::write(place.path().join("headroom.toml"), file).unwrap();
    let route =
        under_the_filter(place.command(&[], &["route", "--config", "headroom.toml", "--admin", "off"]));
    let words = String::from_utf8_lossy(&route.stderr).into_owned();
    assert!(route.status.code() == Some(2) && words.contains("io_uring"), "{words}");
    let output = under_the_filter(place.command(&[], &["doctor", "--config", "headroom.toml", "--json"]));
    let found = findings(&output);
    assert_eq!((output.status.code(), status(&found, "io_uring")), (Some(1), "fail".to_owned()));
    assert!(text(&found, "zero-hop", "found").contains("not asked for"), "{:?}", found["zero-hop"]);
}
