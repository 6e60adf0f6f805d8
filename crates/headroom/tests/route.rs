//! `headroom route` as a child process on a lab of real servers: clients, status, metrics, drain, reload, end.

#![allow(clippy::unwrap_used, reason = "a test that cannot do its next step has failed")]

use lab::{Account, Lab, Spec};
use mysql_async::prelude::Queryable;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{SocketAddr, SocketAddrV4, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(50);

#[tokio::test]
async fn clients_are_routed_and_everything_is_shown_changed_and_ended_in_peace() {
    let base = tempfile::tempdir().unwrap();
    let lab = Lab::up(&Spec::new(&[("a", 2), ("b", 1)]), base.path()).await.unwrap();
    let router = Route::start(&lab);
    let all_well = |status: &Value| {
        let eligible = |s: &Value| s["routing"]["reads"]["eligible"] == true;
        status["writer"] == "a1"
            && status["servers"].as_array().unwrap().iter().filter(|s| eligible(s)).count() == 2
    };
    router.wait_for("two replicas eligible", all_well).await;
    router.wait_for("that nobody reads", |status| status["demand"]["idle"] == true).await;
    let status = router.status();
    assert_eq!(status["demand"]["source"], "no reads yet: equal shares");
    assert_eq!(status["fallbacks"], serde_json::json!([]), "an idle fleet lacks nothing");

    clients_reach_the_right_servers(&lab, &router).await;
    metrics_agree(&router);
    secrets_stay_secret(&lab, &router);
    a_drained_server_is_empty_until_it_is_undrained(&router).await;
    reload_takes_over_what_is_right_and_refuses_what_is_wrong(&lab, &router).await;
    router.ends_in_peace(&lab).await;
    lab.down().await.unwrap();
}

async fn clients_reach_the_right_servers(lab: &Lab, router: &Route) {
    let server_of = async |address: SocketAddrV4| -> String {
        let mut conn = connect(lab, address).await.unwrap();
        let found: Option<String> = conn.query_first("SELECT @@bind_address").await.unwrap();
        conn.disconnect().await.unwrap();
        found.unwrap()
    };
    assert_eq!(server_of(router.reader).await, lab.real("a2").unwrap().ip().to_string());
    assert_eq!(server_of(router.writer).await, lab.real("a1").unwrap().ip().to_string());
    let status = router.status();
    let server = |name: &str| {
        status["servers"].as_array().unwrap().iter().find(|s| s["name"] == name).unwrap().clone()
    };
    assert_eq!(status["own_zone"]["zone"], "a");
    assert_eq!(server("a1")["role"], "primary");
    assert_eq!(server("b1")["zone"]["zone"], "b");
    assert!(server("a2")["lag_ms"].is_number(), "{}", server("a2"));
    assert_eq!(server("a2")["routing"]["picks"]["own zone"], 1, "{}", server("a2"));
    assert_eq!(server("a1")["routing"]["reads"]["reason_label"], "is_primary");
    assert_eq!(status["flow"]["zones"], serde_json::json!(["a", "b"]));
    assert_eq!(status["listeners"][0]["accepted"], 1);
}

fn metrics_agree(router: &Route) {
    let metrics = router.get("/metrics");
    assert!(metrics.ends_with("# EOF\n"), "{metrics}");
    for sample in metrics.lines().filter(|line| !line.starts_with('#')) {
        let value = sample.rsplit_once(' ').map(|(_, value)| value.parse::<f64>());
        assert!(matches!(value, Some(Ok(_))), "{sample}");
    }
    for sample in [
        "headroom_writer_known 1.0",
        r#"headroom_server_up{server="b1"} 1.0"#,
        r#"headroom_server_eligible{server="a1",listener="reader",reason="is_primary"} 0.0"#,
        r#"headroom_picks_total{server="a1",because="primary"} 1"#,
    ] {
        assert!(metrics.contains(sample), "{sample} is not in\n{metrics}");
    }
}

fn secrets_stay_secret(lab: &Lab, router: &Route) {
    let command_line = std::fs::read_to_string(format!("/proc/{}/cmdline", router.child.id())).unwrap();
    let shown =
        [router.get("/"), router.get("/status.json"), router.get("/metrics"), router.log(), command_line];
    for account in Account::ALL {
        for text in &shown {
            assert!(!text.contains(lab.password(account)), "the password of {account} is in\n{text}");
        }
    }
}

async fn a_drained_server_is_empty_until_it_is_undrained(router: &Route) {
    let output = router.headroom(&["drain", "nobody"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("there are a1, a2, b1"), "{output:?}");
    assert!(router.headroom(&["drain", "a2", "--deadline", "5s"]).status.success());
    let drained = |status: &Value| routing(status, "a2")["reads"]["reason_label"] == "draining";
    router.wait_for("a2 draining", drained).await;
    let shown = router.headroom(&["status"]);
    assert!(String::from_utf8_lossy(&shown.stdout).contains("drained by command"), "{shown:?}");
    assert!(router.headroom(&["undrain", "a2"]).status.success());
    router.wait_for("a2 back", |status| routing(status, "a2")["reads"]["eligible"] == true).await;
}

async fn reload_takes_over_what_is_right_and_refuses_what_is_wrong(lab: &Lab, router: &Route) {
    let mut kept = connect(lab, router.reader).await.unwrap();
    let right = std::fs::read_to_string(&router.file).unwrap();
    let wrong = right.replace("role = \"writer\"", "role = \"wirter\"");
    std::fs::write(&router.file, wrong).unwrap();
    router.signal(Signal::HUP);
    router.wait_for("a refused reload", |status| status["process"]["reload"]["accepted"] == false).await;
    let note = router.status()["process"]["reload"]["notes"][0].as_str().unwrap().to_owned();
    assert!(note.contains("route.toml:") && note.contains("did you mean \"writer\"?"), "{note}");
    assert!(router.get("/metrics").contains("headroom_configuration_accepted 0.0"));
    assert!(connect(lab, router.writer).await.is_ok(), "the old configuration is in force");

    let reserved = format!("{right}\n[[server]]\nmatch = \"{}\"\nreserved = true\n", lab.real("b1").unwrap());
    std::fs::write(&router.file, reserved).unwrap();
    router.signal(Signal::HUP);
    router
        .wait_for("b1 reserved", |status| routing(status, "b1")["reads"]["reason_label"] == "reserved")
        .await;
    let status = router.status();
    assert_eq!(status["process"]["reload"]["accepted"], true, "{}", status["process"]);
    let still: Option<u8> = kept.query_first("SELECT 1").await.unwrap();
    assert_eq!(still, Some(1), "a session outlives a reload");
    kept.disconnect().await.unwrap();
}

/// `headroom route` in zone a; killed when dropped.
struct Route {
    child: Child,
    file: PathBuf,
    log: PathBuf,
    reader: SocketAddrV4,
    writer: SocketAddrV4,
    admin: SocketAddr,
}

impl Route {
    fn start(lab: &Lab) -> Self {
        let at = |k| SocketAddrV4::new(lab.client_address("a", k).unwrap(), lab.port());
        let (reader, writer, admin) = (at(30), at(31), SocketAddr::from(at(32)));
        let (file, log) = (lab.dir().join("route.toml"), lab.dir().join("route.log"));
        std::fs::write(&file, config(lab, reader, writer, admin)).unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_headroom"))
            .args(["route", "--config"])
            .arg(&file)
            .env_clear()
            .stdin(Stdio::null())
            .stdout(std::fs::File::create(lab.dir().join("route.out")).unwrap())
            .stderr(std::fs::File::create(&log).unwrap())
            .spawn()
            .unwrap();
        Self { child, file, log, reader, writer, admin }
    }

    fn headroom(&self, args: &[&str]) -> Output {
        let admin = self.admin.to_string();
        let mut command = Command::new(env!("CARGO_BIN_EXE_headroom"));
        command.args(args).env_clear().env("HEADROOM_ADMIN", admin).output().unwrap()
    }

    fn try_get(&self, path: &str) -> std::io::Result<String> {
        let mut stream = TcpStream::connect_timeout(&self.admin, LIMIT)?;
        stream.set_read_timeout(Some(LIMIT))?;
        write!(stream, "GET {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n", self.admin)?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default())
    }

    fn get(&self, path: &str) -> String {
        self.try_get(path).unwrap()
    }

    fn status(&self) -> Value {
        serde_json::from_str(&self.get("/status.json")).unwrap()
    }

    async fn wait_for(&self, what: &str, so: impl Fn(&Value) -> bool) {
        let deadline = Instant::now() + LIMIT;
        loop {
            let status = self.try_get("/status.json").ok().and_then(|text| serde_json::from_str(&text).ok());
            if status.as_ref().is_some_and(&so) {
                return;
            }
            assert!(Instant::now() < deadline, "{what}: not within {LIMIT:?}: {status:?}\n{}", self.log());
            tokio::time::sleep(POLL).await;
        }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.child.id().cast_signed()).unwrap(), signal).unwrap();
    }

    async fn ends_in_peace(mut self, lab: &Lab) {
        let mut last = connect(lab, self.writer).await.unwrap();
        last.query_drop("BEGIN").await.unwrap();
        self.signal(Signal::TERM);
        let stops = |status: &Value| status["process"]["stopping"] == true;
        self.wait_for("that it says it stops", stops).await;
        let status = self.status();
        assert_eq!(routing(&status, "a1")["writers"], 1, "a transaction is waited for, and seen: {status}");
        assert_eq!(status["listeners"].as_array().unwrap().len(), 2);
        last.query_drop("COMMIT").await.unwrap();
        let deadline = Instant::now() + LIMIT;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < deadline, "still there after SIGTERM\n{}", self.log());
            tokio::time::sleep(POLL).await;
        };
        assert_eq!(status.code(), Some(0), "{}", self.log());
        assert!(TcpStream::connect(self.reader).is_err(), "nobody listens any more");
    }

    fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }
}

impl Drop for Route {
    fn drop(&mut self) {
        // Already gone when it ended in peace.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn routing(status: &Value, server: &str) -> Value {
    let servers = status["servers"].as_array();
    let found = servers.and_then(|servers| servers.iter().find(|s| s["name"] == server));
    found.map_or(Value::Null, |server| server["routing"].clone())
}

async fn connect(lab: &Lab, address: SocketAddrV4) -> mysql_async::Result<mysql_async::Conn> {
    let opts = mysql_async::OptsBuilder::default()
        .ip_or_hostname(address.ip().to_string())
        .tcp_port(address.port())
        .user(Some(Account::App.user()))
        .pass(Some(lab.password(Account::App)))
        .prefer_socket(false);
    mysql_async::Conn::new(opts).await
}

fn config(lab: &Lab, reader: SocketAddrV4, writer: SocketAddrV4, admin: SocketAddr) -> String {
    let credentials: &Path = &lab.credentials_file(Account::Headroom);
    let mut text = format!(
        "[fleet]\nseeds = [\"{}\"]\n\
         [credentials]\noption_file = \"{}\"\n\
         [router]\nzone = \"a\"\nzero_hop = \"off\"\n\
         [[listener]]\naddress = \"{reader}\"\nrole = \"reader\"\n\
         [[listener]]\naddress = \"{writer}\"\nrole = \"writer\"\n\
         [admin]\naddress = \"{admin}\"\n\
         [[zone]]\nname = \"a\"\nmembers = [\"127.1.0.0/16\"]\n\
         [[zone]]\nname = \"b\"\nmembers = [\"127.2.0.0/16\"]\n",
        lab.reach("a", "a1").unwrap(),
        credentials.display(),
    );
    for ((says, reach), name) in lab.address_map("a").unwrap().into_iter().zip(lab.servers()) {
        text.push_str(&format!("[[map]]\nsays = \"{says}\"\nreach = \"{reach}\"\n"));
        text.push_str(&format!("[[server]]\nmatch = \"{says}\"\nname = \"{name}\"\n"));
    }
    text
}
