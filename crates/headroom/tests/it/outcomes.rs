//! Every command with a wrong host, a wrong password, a server that refuses, a missing argument, an
//! interruption and a closed pipe: the exit code says what came of it (0 done, 1 "no" is the answer, 2 error,
//! 64 usage), and the first line why.

use lab::{Account, DATABASE, Lab, Spec};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::Permissions;
use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Nobody listens here.
const NOBODY: &str = "127.0.0.1:1";
const LIMIT: Duration = Duration::from_secs(60);

/// What is typed (`{primary}`, `{replica}`, `{login}`, `{admin}` and `{dir}` stand for the lab's), the exit
/// code, what the first line says.
type Row = (&'static str, i32, &'static str);

/// No server is needed: these end before they reach one, or find none.
const ALONE: [Row; 80] = [
    ("", 64, ""),
    ("rout", 64, "unrecognized subcommand 'rout'"),
    ("route", 64, "name one with --server"),
    ("route --server db1", 64, "name a listener with --reader"),
    ("route --server db1 --reader 127.0.0.1:3306 --log verbose", 64, "'verbose' is no level"),
    ("route --server db1 --reader 127.0.0.1:3306 --log ruoter=debug", 64, "no part is called 'ruoter'"),
    ("fleet", 64, "name one with --server"),
    ("fleet --server 127.0.0.1:1", 1, "No primary is known: no server answers."),
    ("fleet --config nowhere.toml", 2, "; name a file that is there, and that this user may read"),
    ("check --server 127.0.0.1:1 --option-file nowhere.cnf", 2, "cannot read the option file nowhere.cnf: "),
    ("check --server 127.0.0.1:1 --option-file nowhere.cnf --json", 2, "{"),
    ("failover --resume --from-servers --json --server 127.0.0.1:1", 2, "no server was read"),
    ("status --admin 127.0.0.1:1", 2, "is it running there?"),
    ("top --once --admin 127.0.0.1:1", 2, "is it running there?"),
    ("drain", 64, "required arguments"),
    ("drain db1 --admin 127.0.0.1:1", 2, ""),
    ("undrain db1 --admin 127.0.0.1:1", 2, ""),
    (
        "watch --once --window 2s --server 127.0.0.1:1",
        2,
        "There are no figures of any server: 127.0.0.1:1: Connection refused",
    ),
    ("watch --once --agent http://127.0.0.1:1", 2, "no agent has answered"),
    ("watch --once --json --agent http://127.0.0.1:1", 2, "{"),
    (
        "watch --compare 20m..10m 10m..now --agent http://127.0.0.1:1",
        2,
        "cannot be reached: Connection refused (os error 111); is headroom agent running there?",
    ),
    ("guard --listen 0.0.0.0:9308 --server 127.0.0.1:1", 64, "such as 127.0.0.1:9308"),
    ("watch --window 1s", 64, "not between 2s and 60s"),
    ("watch --explain cpu-limit --json", 0, "{"),
    ("watch --explain cpu-limit --once", 64, "cannot be used with"),
    ("watch --explain the-moon --json", 64, "no rule is called 'the-moon'"),
    ("agent --listen nonsense", 64, "invalid value 'nonsense'"),
    ("probe --list --store {dir}/empty.sqlite", 1, "the history has no probe of this host"),
    ("probe --yes --no-store --no-disk --server 127.0.0.1:1", 2, ""),
    ("load", 64, ""),
    ("load list --json", 0, "["),
    ("load run", 64, "required arguments"),
    ("load run oltp_read_only --user app", 64, "name a server with --server"),
    ("load run oltp_read_only --server 127.0.0.1:1 --no-store", 64, "no account is named"),
    (
        "load run nowhere.toml --server 127.0.0.1:1 --user app --no-store",
        2,
        "cannot read the workload nowhere.toml: No such file or directory (os error 2); name a file",
    ),
    (
        "load run endpoints --server 127.0.0.1:1 --user app --no-store --tables 4",
        64,
        "only sysbench's workloads take --tables; endpoints has tables and statements of its own",
    ),
    ("load run oltp_read_only --server 127.0.0.1:1 --user app --no-store --rate 0", 64, "a rate must be"),
    ("load run oltp_read_only --server 127.0.0.1:1 --user app --no-store --time 0s", 64, "a run of no time"),
    ("load run oltp_read_write --reader 127.0.0.1:1 --user app --no-store", 64, "writes, and no address"),
    ("load run oltp_raed_only --server 127.0.0.1:1 --user app", 64, "no workload is called 'oltp_raed_only'"),
    (
        "load run oltp_read_only --server 127.0.0.1:1 --user app --no-store",
        2,
        "cannot connect to 127.0.0.1:1: Connection refused",
    ),
    ("measure oltp_read_only --user app --objective p99<5s", 64, "name a server with --server"),
    (
        "measure oltp_read_only --server 127.0.0.1:1 --user app --objective p99<5s --width 0",
        64,
        "--width must be",
    ),
    (
        "measure oltp_read_only --server 127.0.0.1:1 --user app --objective p99<5s",
        2,
        "cannot connect to 127.0.0.1:1",
    ),
    (
        "replay nowhere.hrec --server 127.0.0.1:1 --user app",
        2,
        "cannot open nowhere.hrec: No such file or directory (os error 2); name a recording that is there",
    ),
    ("replay", 64, "required arguments"),
    ("record", 64, "required arguments"),
    (
        "record --from-slow-log nowhere.log --out {dir}/r.hrec",
        2,
        "cannot open nowhere.log: No such file or directory (os error 2); SELECT @@GLOBAL.slow_query_log_file",
    ),
    ("record --out {dir}/r.hrec --for 25h", 64, "--for must be above 0 and at most 24h"),
    ("report --store nowhere.sqlite", 2, "there is no history at nowhere.sqlite"),
    ("knob list innodb --root {dir}", 1, "this host has no knob like 'innodb'; headroom knob list --all"),
    ("knob list innodb --all", 1, "knob show server.VARIABLE --server HOST:PORT"),
    ("knob set server.sync_binlog=0 --dry-run --root {dir}", 1, "is dangerous: "),
    ("knob set server.sync_binlog=0 --dry-run --root {dir} --json", 1, "{"),
    ("trial plan", 64, "required arguments"),
    (
        "trial run nowhere.toml --user app",
        2,
        "cannot read nowhere.toml: No such file or directory (os error 2); name a spec that is there",
    ),
    ("trial init --server 127.0.0.1:1 --user app", 2, "Connection refused"),
    ("trial report nowhere", 2, "nowhere holds no experiment; name the directory of a headroom trial run"),
    ("plan memory oltp_read_only --sizes 1G,2G,3G", 64, "name the server with --server"),
    (
        "plan memory oltp_read_only --server 127.0.0.1:1 --user app --sizes 1G,1024M,2G",
        64,
        "--sizes: name 3 to 7 different sizes; there are 2",
    ),
    ("plan report --ledger {dir}/empty.jsonl", 1, "no report: "),
    ("plan report --ledger {dir}/empty.jsonl --json", 1, "{"),
    ("plan check --lets-encrypt", 0, "Let's Encrypt"),
    ("plan check --lets-encrypt --json", 0, "{"),
    ("plan replicas --zone a=400 --reader-per-s 500", 1, "no plan: one zone cannot survive its own loss"),
    ("plan replicas --zone a=400 --reader-per-s 500 --json", 1, "{"),
    ("plan replicas --zone a=0 --zone b=0 --reader-per-s 500", 64, "no zone has reads: give --zone"),
    (
        "plan replicas --zone a=400 --zone b=300 --reader-per-s 500 --fill 0",
        64,
        "must be a share above 0 and at most 1, such as 0.9",
    ),
    ("plan placement nowhere.csv", 2, "(os error 2); name a file that is there, and that this user may read"),
    ("plan placement small.csv", 1, "no placement: what roles want is not known: network of r1"),
    ("plan placement small.csv --json", 1, "{"),
    ("demo --only z", 64, "'z' is no part of the demo"),
    ("demo --rate 0", 64, "--rate is between 0.1 and 100"),
    ("lab fault a2 lag 0.2", 64, "the seconds are whole"),
    ("lab status --base {dir}", 2, "no lab runs in"),
    ("lab up --base {dir} --replicas 1,1,1,1", 64, "4 numbers of replicas for 3 zones; give one a zone"),
    ("lab up --base {dir} --replicas 199 --detach", 64, "a zone has at most 199 servers"),
    ("lab up --base {dir} --zones a,a", 64, "zone 'a' is there twice"),
    (
        "lab up --base {dir} --config nowhere.toml",
        2,
        "cannot read nowhere.toml: No such file or directory (os error 2); name a file that is there",
    ),
    ("bench relay", 64, "benchmarks are in a program of their own: headroom-bench"),
];

/// With a server that refuses.
const REFUSED: [Row; 7] = [
    ("watch --once --window 2s --server {primary}", 2, "There are no figures of any server: "),
    ("fleet --server {primary}", 1, "No primary is known: no server answers."),
    ("load run oltp_read_only --server {primary} --no-store", 2, "Access denied"),
    ("load prepare oltp_read_only --server {primary}", 2, "Access denied"),
    ("measure oltp_read_only --server {primary} --objective p99<5s", 2, "Access denied"),
    ("probe --yes --no-store --no-disk --seconds 1 --server {primary}", 2, ""),
    ("watch --once --window 2s --json --server {primary}", 2, "{"),
];

fn command(dir: &Path, typed: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_headroom"));
    command
        .args(typed.split(' ').filter(|word| !word.is_empty()))
        .current_dir(dir)
        .env_clear()
        .env("HOME", dir)
        .env("TMPDIR", dir);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Standard output, or standard error where that is empty: what a person sees first. Progress is no answer.
fn first_line(output: &Output) -> String {
    let text = if output.stdout.is_empty() { &output.stderr } else { &output.stdout };
    let text = String::from_utf8_lossy(text);
    let answer = |line: &&str| !line.starts_with("the way to ") && !line.starts_with("note: ");
    text.lines().find(answer).unwrap_or_default().to_owned()
}

fn check(rows: &[Row], dir: &Path, fill: impl Fn(&str) -> String, with: impl Fn(&mut Command)) {
    let mut wrong = Vec::new();
    for (typed, code, says) in rows {
        let mut command = command(dir, &fill(typed));
        with(&mut command);
        let output = command.output().unwrap();
        let first = first_line(&output);
        if output.status.code() != Some(*code) || !first.contains(says) {
            wrong.push(format!("{typed}: {:?}, wanted {code} and '{says}': {first}", output.status.code()));
        }
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(!error.contains("panicked"), "{typed}: {error}");
        assert!(!error.contains("refused (os error 111): Connection refused"), "{typed}: twice: {error}");
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn without_a_server_the_exit_code_and_the_first_line_say_why() {
    let dir = tempfile::tempdir().unwrap();
    let base = dir.path().to_str().unwrap();
    let inventory = "kind,name,cpu,memory,iops,mb_s,network\nhost,h1,8,64,4000,400,1000\nrole,r1,1,1,1,1,\n";
    std::fs::write(dir.path().join("small.csv"), inventory).unwrap();
    check(&ALONE, dir.path(), |typed| typed.replace("{dir}", base), |_| ());
}

/// bpffs is root's alone on most hosts: who may not look is not told that nothing is pinned.
#[test]
fn what_is_not_pinned_is_no_and_what_cannot_be_seen_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let looked = std::fs::read_dir("/sys/fs/bpf/headroom");
    let unseen = looked.is_err_and(|error| error.kind() != ErrorKind::NotFound);
    let (code, says, json) = match unseen {
        true => (2, "what is pinned is not known: ", "what is pinned is not known: "),
        false => (1, "nothing is pinned as 'nowhere'", "{"),
    };
    let rows = [("zero-hop off nowhere", code, says), ("zero-hop off nowhere --json", code, json)];
    check(&rows, dir.path(), str::to_owned, |_| ());
}

/// Nobody answers: what was cut off at its first step is undone, and whether the primary takes writes is not
/// known.
#[test]
fn what_was_undone_since_hides_nothing_from_whoever_resumes() {
    use serde_json::{Value, json};
    let dir = tempfile::tempdir().unwrap();
    let login = dir.path().join("a.cnf");
    std::fs::write(&login, "[client]\nuser = a\npassword = b\n").unwrap();
    std::fs::set_permissions(&login, Permissions::from_mode(0o600)).unwrap();
    let member = |name: &str, reach: &str| {
        json!({
            "name": name, "reach": reach, "host": name, "port": 3306, "version": "10.11.6-MariaDB",
            "follows_primary": name == "a2", "read_only": name == "a2", "semi_sync_replica": false,
        })
    };
    let plan = |primary: Value, candidate: Value| {
        let plan = json!({
            "epoch": 3, "primary": primary, "candidate": candidate, "others": [], "events": [],
            "semi_sync": false, "by": "test", "deadlines": switchover::perform::Deadlines::default(),
        });
        json!({ "line": "plan", "at_ms": 1, "plan": plan })
    };
    let elsewhere = plan(member("x1", "127.0.0.1:2"), member("x2", "127.0.0.1:2"));
    let plan = plan(member("a1", NOBODY), member("a2", NOBODY));
    let begun = json!({ "line": "begun", "at_ms": 1, "step": "lock", "undo": false });
    let over = json!({ "line": "over", "at_ms": 1, "state": { "is": "undone", "why": "w" } });
    let journals = dir.path().join("journals");
    std::fs::create_dir(&journals).unwrap();
    let write = |number: u32, lines: &[&Value]| {
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        std::fs::write(journals.join(format!("switchover-{number}.jsonl")), text).unwrap();
    };
    write(0, &[&elsewhere, &begun]);
    write(1, &[&plan, &begun]);
    write(2, &[&plan, &begun, &over]);
    write(3, &[]);
    let typed = "switchover --resume --json --journal journals --admin-option-file a.cnf \
                 --replication-option-file a.cnf";
    let resumed = || {
        let output = command(dir.path(), typed).output().unwrap();
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
        (output.status.code(), answer, String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, answer, error) = resumed();
    assert_eq!((code, &answer["state"]["is"]), (Some(2), &json!("undone")), "{answer} {error}");
    assert!(error.contains("journals/switchover-1.jsonl is not: it goes on"), "{error}");
    assert!(error.contains("switchover-3.jsonl: it does not begin with a plan; what it began"), "{error}");
    std::fs::remove_file(journals.join("switchover-3.jsonl")).unwrap();
    let (code, answer, error) = resumed();
    assert_eq!((code, &answer["over"]["is"]), (Some(0), &json!("undone")), "{answer} {error}");
    assert_eq!(answer["journal"], "journals/switchover-2.jsonl");
    assert!(
        error.contains("switchover-0.jsonl is not over, and names no server of the newest one"),
        "{error}"
    );
}

#[test]
fn a_log_filter_of_the_environment_is_checked_too() {
    let dir = tempfile::tempdir().unwrap();
    let row =
        ("route --server db1 --reader 127.0.0.1:3306 --admin off", 2, "HEADROOM_LOG: 'verbose' is no level");
    let with = |command: &mut Command| {
        command.env("HEADROOM_LOG", "verbose");
    };
    check(&[row], dir.path(), str::to_owned, with);
}

#[test]
fn a_router_whose_standard_output_has_no_room_serves() {
    // Others must not reach the control sockets in it.
    let dir = tempfile::Builder::new().permissions(Permissions::from_mode(0o700)).tempdir().unwrap();
    let free = || std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (reader, admin) = (free(), free());
    let here = |typed: &str| {
        let mut command = command(dir.path(), typed);
        command.env("HEADROOM_RUNTIME_DIR", dir.path());
        command
    };
    let mut router = here(&format!("route --server 127.0.0.1:1 --reader {reader} --admin {admin}"));
    router.stdout(std::fs::File::options().write(true).open("/dev/full").unwrap()).stderr(Stdio::null());
    let mut router = router.spawn().unwrap();
    // Its control socket is the last to be opened: "no" is a router's answer.
    let (began, mut answer) = (Instant::now(), None);
    while answer != Some(1) && began.elapsed() < LIMIT && router.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(20));
        answer = here(&format!("drain nobody --admin {admin}")).output().unwrap().status.code();
    }
    let _ = router.kill();
    let _ = router.wait();
    assert_eq!(answer, Some(1));
}

#[test]
fn the_version_names_the_commit_and_the_parts() {
    let dir = tempfile::tempdir().unwrap();
    let output = command(dir.path(), "--version").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let commit = text.trim().strip_prefix(concat!("headroom ", env!("CARGO_PKG_VERSION"), " (commit "));
    let inside = commit.and_then(|rest| rest.strip_suffix(')')).unwrap_or_else(|| panic!("{text}"));
    let (commit, parts) = inside.split_once(", with ").unwrap_or((inside, ""));
    let hexadecimal = commit.len() >= 12 && commit.chars().all(|c| c.is_ascii_hexdigit());
    assert!(hexadecimal || commit == "unknown", "{text}");
    assert_eq!(parts.split(", ").any(|part| part == "lab"), cfg!(feature = "lab"), "{text}");
    assert_eq!(parts.split(", ").any(|part| part == "zero-hop"), zerohop::BUILT, "{text}");
}

#[tokio::test]
async fn with_servers_a_result_that_is_none_is_no_success() {
    let base = tempfile::tempdir().unwrap();
    let lab = Lab::up(&Spec::new(&[("a", 2)]), base.path()).await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let fill = |typed: &str| {
        let (login, admin) = (lab.credentials_file(Account::App), lab.credentials_file(Account::Admin));
        typed
            .replace("{primary}", &lab.real("a1").unwrap().to_string())
            .replace("{replica}", &lab.real("a2").unwrap().to_string())
            .replace("{login}", login.to_str().unwrap())
            .replace("{admin}", admin.to_str().unwrap())
            .replace("{tables}", &format!("--database {DATABASE} --tables 1 --table-size 100"))
    };
    let refused = |command: &mut Command| {
        command.env("HEADROOM_USER", Account::App.user()).env("HEADROOM_PASSWORD", "wrong");
    };
    check(&REFUSED, dir.path(), fill, refused);
    let fleet = {
        let mut command = command(dir.path(), &fill("fleet --server {primary}"));
        refused(&mut command);
        command.output().unwrap()
    };
    let text = String::from_utf8_lossy(&fleet.stdout).into_owned();
    assert_eq!(text.matches("Access denied").count(), 1, "an error is told once:\n{text}");

    let rows: [Row; 7] = [
        ("load prepare oltp_read_write --option-file {login} --server {primary} {tables}", 0, ""),
        (
            "load run oltp_read_write --option-file {login} --server {replica} {tables} --time 1s --no-store",
            1,
            "VOID: none of ",
        ),
        (
            "load run oltp_read_only --option-file {login} --server {primary} {tables} --time 1s --no-store",
            0,
            "oltp_read_only",
        ),
        (
            "measure oltp_write_only --option-file {login} --server {replica} {tables} --objective p99<60s --start 5",
            1,
            "No figure: none of ",
        ),
        ("failover --json --option-file {admin} --server {primary}", 1, "{"),
        ("failover --resume --from-servers --json --option-file {admin} --server {primary}", 0, "{"),
        ("switchover --resume --from-servers --json --option-file {admin} --server {primary}", 0, "{"),
    ];
    check(&rows, dir.path(), fill, |_| ());
    let written = command(dir.path(), &fill(rows[1].0)).output().unwrap();
    let first = first_line(&written);
    assert!(first.contains("error 1290: the server refuses writes (read_only)"), "{first}");
    assert!(first.contains("--writer"), "what to do: {first}");

    interrupted(dir.path(), &fill);
    lab.down().await.unwrap();
}

/// Ctrl-C: what was measured is shown; who asked for one answer has none.
fn interrupted(dir: &Path, fill: &impl Fn(&str) -> String) {
    for (typed, first_progress, code, says) in [
        ("watch --once --window 60s", false, 2, "interrupted before the window was over"),
        ("watch", false, 0, ""),
        ("agent --listen 127.0.0.1:0", false, 0, ""),
        ("lab up --detach --base labs --zones a", false, 2, "interrupted; nothing is left behind"),
        ("lab up --zones a", false, 2, "interrupted; nothing is left behind"),
        (
            "load run oltp_read_only --option-file {login} --server {primary} {tables} --warm-up 60s --no-store",
            false,
            2,
            "interrupted before anything was measured",
        ),
        (
            "load run oltp_read_only --option-file {login} --server {primary} {tables} --warm-up 0s --time 60s --no-store",
            true,
            0,
            "oltp_read_only",
        ),
    ] {
        let mut child = command(dir, &fill(typed)).spawn().unwrap();
        until_it_minds(&child, Signal::INT);
        let mut progress = BufReader::new(child.stderr.take().unwrap());
        let mut error = String::new();
        if first_progress {
            progress.read_line(&mut error).unwrap();
        }
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        progress.read_to_string(&mut error).unwrap();
        let output = Output { stderr: error.into_bytes(), ..ended(child, typed) };
        assert_eq!(output.status.code(), Some(code), "{typed}: {output:?}");
        let said = if code == 0 {
            first_line(&output)
        } else {
            String::from_utf8_lossy(&output.stderr).into_owned()
        };
        assert!(said.contains(says), "{typed}: {output:?}");
    }
    let names = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name());
    let left: Vec<_> = names.filter(|name| name.to_string_lossy().contains("lab")).collect();
    assert!(left.is_empty(), "{left:?}");
}

/// Waits until the process has a handler of its own for the signal.
fn until_it_minds(child: &Child, signal: Signal) {
    let began = Instant::now();
    let minds = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap().trim().to_owned();
        u64::from_str_radix(&caught, 16).unwrap() & (1 << (signal.as_raw() - 1)) != 0
    };
    while !minds() {
        assert!(began.elapsed() < LIMIT, "no handler for {signal:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn ended(mut child: Child, typed: &str) -> Output {
    let began = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if began.elapsed() > LIMIT {
            child.kill().unwrap();
            panic!("{typed} did not end");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    child.wait_with_output().unwrap()
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let dir = tempfile::tempdir().unwrap();
    let fleet = format!("fleet --server {NOBODY}");
    for (typed, code) in [
        ("--help", 0),
        ("route --help", 0),
        ("load list", 0),
        (fleet.as_str(), 1),
        ("watch --json --window 2s", 0),
        ("watch --window 2s", 0),
    ] {
        let mut child = command(dir.path(), typed).spawn().unwrap();
        let mut line = String::new();
        let mut out = BufReader::with_capacity(1, child.stdout.take().unwrap());
        out.read_line(&mut line).unwrap();
        assert!(!line.is_empty(), "{typed}");
        // The terse view prints a line only when something changes: it may be waiting, and then Ctrl-C ends
        // it. With the pipe open it does not end by itself.
        let waits = typed.starts_with("watch --window");
        if waits {
            until_it_minds(&child, Signal::INT);
        }
        drop(out);
        if waits {
            kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        }
        let mut error = String::new();
        child.stderr.take().unwrap().read_to_string(&mut error).unwrap();
        let output = ended(child, typed);
        assert_eq!(output.status.code(), Some(code), "{typed}: {error}");
        assert!(!error.contains("panicked") && !error.contains("ipe"), "{typed}: {error}");
    }
}
