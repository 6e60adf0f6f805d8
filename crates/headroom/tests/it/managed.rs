//! A server of a lab that is restarted with another file system, allocator, limit and start-up variable: by a
//! trial, and by `headroom knob set` that is killed in the middle. Needs root, for loop devices and cgroups.

use lab::{Account, DATABASE, Lab, Spec};
use mysql_async::prelude::Queryable;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(120);

struct Scene {
    lab: Lab,
    base: tempfile::TempDir,
    dir: tempfile::TempDir,
}

impl Scene {
    async fn up() -> Self {
        let base = tempfile::tempdir().unwrap();
        let lab = Lab::up(&Spec::new(&[("a", 1)]), base.path()).await.unwrap();
        let scene = Self { lab, base, dir: tempfile::tempdir().unwrap() };
        let status = scene.lab.status().await;
        let program = Path::new(env!("CARGO_BIN_EXE_headroom"));
        let text = lab::managed::description(&status.dir, &status.servers[0], program);
        std::fs::write(scene.path("a1.toml"), text).unwrap();
        scene
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn address(&self) -> String {
        self.lab.socket("a1").unwrap().display().to_string()
    }

    /// Root comes by the socket only.
    fn headroom(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_headroom"));
        command.args(args).current_dir(self.dir.path()).env_clear().env("HOME", self.dir.path());
        command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").stdin(Stdio::null());
        if args[0] == "knob" || args[1] == "run" {
            command.arg("--journal").arg(self.path("knobs"));
        }
        command.arg("--option-file").arg(self.lab.credentials_file(Account::Root));
        command
    }

    fn work(&self) -> PathBuf {
        self.lab.socket("a1").unwrap().parent().unwrap().with_extension("work")
    }

    /// What must be the same before and after: mounts and loop devices of the lab, files of ours, cgroups.
    fn surroundings(&self) -> Vec<String> {
        let text = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
        let base = self.base.path().display().to_string();
        let mut found: Vec<String> =
            text.lines().filter(|line| line.contains(&base)).map(str::to_owned).collect();
        let files =
            ["file-system.img", "mount-options", "restarting", "staging"].map(|name| self.work().join(name));
        let server = self.work().with_extension("");
        let drop_ins = ["override.cnf", "environment"].map(|name| server.join(name));
        found.extend(
            files.iter().chain(&drop_ins).filter(|path| path.exists()).map(|path| path.display().to_string()),
        );
        let loops = Command::new("losetup").arg("--all").output().unwrap();
        found.extend(text_of(&loops).lines().filter(|line| line.contains(&base)).map(str::to_owned));
        found.extend(self.cgroup());
        found
    }

    fn cgroup(&self) -> Vec<String> {
        let pid = std::fs::read_to_string(self.lab.socket("a1").unwrap().with_file_name("pid")).unwrap();
        let text = std::fs::read_to_string(format!("/proc/{}/cgroup", pid.trim())).unwrap();
        text.lines().filter(|line| line.contains("headroom-server")).map(str::to_owned).collect()
    }

    async fn ask(&self, query: &str) -> String {
        let mut root = self.lab.connect("a1").await.unwrap();
        let answer: Option<String> = root.query_first(query).await.unwrap();
        root.disconnect().await.unwrap();
        answer.unwrap()
    }
}

/// Beside the lab, which answers on this thread.
async fn run(mut command: Command) -> Output {
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

fn text_of(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

const SPEC: &str = "\
name = \"below the server\"
metric = \"throughput\"
seed = 5
managed = \"a1.toml\"

[load]
workload = \"oltp_read_write\"
threads = [2]
database = \"{database}\"
tables = 1
table_size = 1000

[guard]                # what is slow on this machine is measured all the same
latency = 10000.0
errors = 1.0
steal = 1.0

[timing]
reset = \"0s\"
warm_up = \"200ms\"
measure = \"300ms\"

[design]
kind = \"one-at-a-time\"

[[factor]]
knob = \"file_system.type@server\"
levels = [\"as-it-is\", \"xfs noatime\", \"reiserfs\"]
whole_plot = true
danger = true

[[factor]]
knob = \"allocator.library@server\"
levels = [\"glibc\", \"jemalloc\"]
whole_plot = true

[[factor]]
knob = \"server.back_log\"
levels = [\"1000\", \"900\"]
whole_plot = true

[[factor]]
knob = \"cgroup.cpu.max@server\"
levels = [\"max\", \"0.8\"]

[[stage]]
cells = 4
blocks = 3
";

#[tokio::test]
async fn a_trial_varies_file_system_allocator_limit_and_a_start_up_variable_of_a_server_of_a_lab() {
    let scene = Scene::up().await;
    let address = scene.address();
    let prepare = ["load", "prepare", "oltp_read_write", "--server", &address, "--database", DATABASE];
    let output =
        run(scene.headroom(&[&prepare[..], &["--tables", "1", "--table-size", "1000"]].concat())).await;
    assert!(output.status.success(), "{}", text_of(&output));
    std::fs::write(scene.path("t.toml"), SPEC.replace("{database}", DATABASE)).unwrap();
    let rows = format!("SELECT COUNT(*) FROM {DATABASE}.sbtest1");
    let (before, count) = (scene.surroundings(), scene.ask(&rows).await);
    assert_eq!(before, Vec::<String>::new());

    let dry = run(scene.headroom(&["trial", "run", "t.toml", "--server", &address, "--dry-run"])).await;
    let words = text_of(&dry);
    for write in ["as-it-is -> xfs noatime", "glibc -> jemalloc", "1000 -> 900", "max 100000 -> 80000 100000"]
    {
        assert!(words.contains(write), "{write}: {words}");
    }

    let run = run(scene.headroom(&["trial", "run", "t.toml", "--server", &address, "--json"])).await;
    let words = text_of(&run);
    assert!(
        words.contains("refused, not tried: file_system.type@server=reiserfs: no file system"),
        "{words}"
    );
    let report: Value = serde_json::from_slice(&run.stdout).unwrap_or_else(|_| panic!("{words}"));
    assert_eq!(report["differ"], Value::Array(vec![]), "everything is as it was: {report}");
    let lines = std::fs::read_to_string(scene.path("trial-t/trials.jsonl")).unwrap();
    for cell in [0, 2, 3, 4] {
        let run = format!("\"run\":{{\"cell\":{cell}}}");
        let mut of = lines.lines().filter(|line| line.contains(&run));
        assert!(of.any(|line| line.contains("\"status\":\"measured\"")), "cell {cell}: {lines}");
    }
    assert!(!lines.contains("\"cell\":1}"), "it is refused and never tried: {lines}");

    assert_eq!(scene.surroundings(), before);
    assert_eq!(scene.ask("SELECT @@GLOBAL.back_log").await, "1000");
    assert_eq!(scene.ask(&rows).await, count, "the data are those that were there");
    scene.lab.down().await.unwrap();
}

#[tokio::test]
#[allow(clippy::zombie_processes, reason = "it is waited for right after it is killed")]
async fn a_restart_that_is_killed_in_the_middle_or_after_it_is_put_back_and_the_server_runs() {
    let scene = Scene::up().await;
    let address = scene.address();
    let before = scene.surroundings();
    let set = ["knob", "set", "file_system.type@server=ext4", "allocator.library@server=jemalloc"];
    let set =
        [&set[..], &["--managed", "a1.toml", "--server", &address, "--danger", "file_system.type"]].concat();
    let marker = scene.work().join("restarting");
    type Moment<'a> = (&'a str, Box<dyn Fn() -> bool + 'a>);
    let moments: [Moment<'_>; 3] = [
        ("the server is being stopped", Box::new(|| marker.exists())),
        ("the copy is made", Box::new(|| scene.work().join("staging/mysql").exists())),
        ("all is set", Box::new(|| !scene.restarts() && scene.allocator() == "jemalloc")),
    ];
    for (moment, come) in moments {
        let mut child = scene.headroom(&set).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let begun = Instant::now();
        while !come() {
            assert!(begun.elapsed() < LIMIT, "never came: {moment}");
            assert!(child.try_wait().unwrap().is_none(), "it ended before {moment}");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let restored = run(scene.headroom(&["knob", "restore", "--left"])).await;
        assert!(restored.status.success(), "{moment}: {}", text_of(&restored));
        assert_eq!(scene.surroundings(), before, "{moment}");
        assert_eq!(
            (scene.allocator().as_str(), scene.ask("SELECT 'up'").await.as_str()),
            ("glibc", "up"),
            "{moment}"
        );
    }
    scene.lab.down().await.unwrap();
}

impl Scene {
    fn allocator(&self) -> String {
        let pid =
            std::fs::read_to_string(self.lab.socket("a1").unwrap().with_file_name("pid")).unwrap_or_default();
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", pid.trim())).unwrap_or_default();
        if maps.contains("libjemalloc") { "jemalloc" } else { "glibc" }.to_owned()
    }

    /// Whether the server is being restarted.
    fn restarts(&self) -> bool {
        self.work().join("restarting").exists()
    }
}
