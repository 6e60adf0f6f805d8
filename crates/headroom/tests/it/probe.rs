//! `headroom probe` on this machine's own disk: bounded, kept, nothing left behind. Needs fio.

use lab::{Account, Lab, Spec};
use mysql_async::prelude::Queryable;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use testkit::certificate::Authority;

fn probe(dir: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_headroom"));
    // fio is looked for where it usually is; nothing else of the environment matters.
    command.arg("probe").args(args).current_dir(dir).env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin");
    command.output().unwrap()
}

fn json(output: &Output) -> Value {
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_probe_measures_the_disk_keeps_its_figures_and_leaves_nothing_but_the_history() {
    let dir = tempfile::tempdir().unwrap();
    let all = ["--yes", "--json", "--seconds", "1", "--file-mib", "64", "--store", "history.sqlite"];
    let output = probe(dir.path(), &all);
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(words.contains("kept in history.sqlite"), "{words}");
    let measured = json(&output);
    let disk = &measured["disk"];
    for figure in ["/idle_read/mean_ms", "/idle_write/mean_ms", "/flush/per_s", "/read_bytes_per_s"] {
        assert!(disk.pointer(figure).unwrap().as_f64().unwrap() > 0.0, "{figure} of {disk}");
    }
    assert_eq!((disk["reads"].as_array().unwrap().len(), disk["writes"].as_array().unwrap().len()), (5, 5));
    assert!(measured["compute"]["one_cpu_per_s"].as_f64().unwrap() > 0.0);
    let names = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name());
    assert_eq!(names.collect::<Vec<_>>(), ["history.sqlite"]);
    let kept = json(&probe(dir.path(), &["--list", "--json", "--store", "history.sqlite"]));
    // Figures are not compared digit by digit: they went through text once more.
    let (kept, all) = (&kept[0], kept.as_array().unwrap().len());
    assert_eq!((all, &kept["at"], &kept["disk"]["device"]), (1, &measured["at"], &disk["device"]));
}

#[test]
fn a_probe_whose_terminal_is_closed_leaves_no_file() {
    let dir = tempfile::tempdir().unwrap();
    // Where the tests were started with nohup, HUP is ignored, and that is inherited.
    let mut command = Command::new("/usr/bin/env");
    command.args(["--default-signal=HUP", env!("CARGO_BIN_EXE_headroom"), "probe"]);
    command.args(["--yes", "--no-store", "--seconds", "10", "--file-mib", "64"]).current_dir(dir.path());
    command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin");
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let files = || std::fs::read_dir(dir.path()).unwrap().count();
    let deadline = Instant::now() + Duration::from_secs(60);
    while files() == 0 {
        assert_eq!(child.try_wait().unwrap(), None, "it ended before it made its file");
        assert!(Instant::now() < deadline, "no file is made");
        std::thread::sleep(Duration::from_millis(10));
    }
    kill_process(Pid::from_child(&child), Signal::HUP).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(2));
    assert_eq!(files(), 0);
}

#[test]
fn an_answer_that_is_no_is_told_to_a_program_too() {
    let dir = tempfile::tempdir().unwrap();
    // By its name a server that runs here, so that it asks.
    std::os::unix::fs::symlink("/bin/sleep", dir.path().join("mysqld")).unwrap();
    let mut server = Command::new(dir.path().join("mysqld")).arg("60").spawn().unwrap();
    // It asks on a terminal alone.
    let typed = format!("{} probe --no-disk --no-store --json >said", env!("CARGO_BIN_EXE_headroom"));
    let mut command = Command::new("script");
    command.args(["-qec", &typed, "/dev/null"]).current_dir(dir.path());
    command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin");
    let mut asked = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    asked.stdin.take().unwrap().write_all(b"n\n").unwrap();
    let output = asked.wait_with_output().unwrap();
    server.kill().unwrap();
    server.wait().unwrap();
    let words = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{words}");
    assert!(words.contains("mysqld runs here"), "{words}");
    let said: Value = serde_json::from_slice(&std::fs::read(dir.path().join("said")).unwrap()).unwrap();
    assert_eq!(said, serde_json::json!({ "refused": "nothing was measured" }));
}

#[test]
fn a_directory_that_is_none_is_refused_in_words_and_nothing_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let output = probe(dir.path(), &["--yes", "--directory", "nowhere", "--store", "history.sqlite"]);
    let words = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{words}");
    assert!(words.contains("nowhere"), "{words}");
    let list = probe(dir.path(), &["--list", "--store", "history.sqlite"]);
    assert_eq!(list.status.code(), Some(1), "an empty list is a no");
}

#[tokio::test]
async fn the_way_to_a_server_is_measured_over_the_tls_that_the_option_file_asks_for() {
    let (base, dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (authority, stranger) =
        (Authority::new(dir.path(), "authority"), Authority::new(dir.path(), "stranger"));
    let server = authority.sign("server", &["db.test"]);
    let spec = Spec::new(&[("a", 1)])
        .option("ssl_ca", &authority.ca.display().to_string())
        .option("ssl_cert", &server.cert.display().to_string())
        .option("ssl_key", &server.key.display().to_string());
    let lab = Lab::up(&spec, base.path()).await.unwrap();
    let mut root = lab.connect("a1").await.unwrap();
    root.query_drop("ALTER USER headroom@'%' REQUIRE SSL").await.unwrap();
    root.disconnect().await.unwrap();

    let at = lab.real("a1").unwrap().to_string();
    let way = |mode: &str, ca: &Authority| {
        let file = dir.path().join(format!("{mode}.cnf"));
        let login = std::fs::read_to_string(lab.credentials_file(Account::Headroom)).unwrap();
        std::fs::write(&file, format!("{login}\nssl-mode={mode}\nssl-ca={}\n", ca.ca.display())).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        let file = file.display().to_string();
        let all = ["--yes", "--json", "--no-disk", "--no-store", "--seconds", "1", "--server", &at];
        probe(dir.path(), &[&all[..], &["--option-file", &file]].concat())
    };
    let measured = json(&way("VERIFY_CA", &authority));
    let rate = measured["servers"][0]["round_trips_per_s"].as_f64().unwrap();
    assert!(rate > 0.0 && measured["servers"][0]["round_trip_p50_ms"].as_f64().unwrap() > 0.0, "{measured}");
    let refused = way("VERIFY_CA", &stranger);
    let words = String::from_utf8_lossy(&refused.stderr);
    assert!(refused.status.code() == Some(2) && words.contains("certificate"), "{words}");
    lab.down().await.unwrap();
}
