//! A former primary that was frozen when another took its place, and wakes up taking writes: no router
//! sends it a writer session, not even while it alone answers, and not after a restart.

use crate::support::told::{Told, options, server_of};
use lab::{Account, Fault, Lab, RouterOptions, Spec};
use serde_json::Value;
use std::net::SocketAddrV4;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

/// `headroom route` in a zone of the lab; killed when dropped.
struct ZoneRoute {
    child: Child,
    told: Told,
    file: PathBuf,
    writer: SocketAddrV4,
}

impl ZoneRoute {
    async fn start(lab: &Lab, zone: &str, remembers: bool) -> Self {
        let status = lab.status().await;
        let at = status.router_addresses(zone).unwrap();
        let options = RouterOptions { zero_hop: Some("off"), ..RouterOptions::default() };
        let epochs = lab.dir().join(format!("epoch-{zone}"));
        let epochs = remembers.then(|| format!("epoch_file = \"{}\"\n", epochs.display()));
        let more = format!("[router]\nhold_deadline = \"500ms\"\n{}", epochs.unwrap_or_default());
        let text = status.router_config(zone, &options).unwrap().replace("[router]\n", &more);
        // All of them: from a replica of a frozen primary the other replicas cannot be found.
        let reach = |server| format!("\"{}\"", lab.reach(zone, server).unwrap());
        let seeds = format!("seeds = [{}]", ["a1", "a2", "b1"].map(reach).join(", "));
        let rest = text.split_once(']').unwrap().1.split_once(']').unwrap().1;
        let text = format!("[fleet]\n{seeds}{rest}");
        let (file, log) =
            (lab.dir().join(format!("route-{zone}.toml")), lab.dir().join(format!("route-{zone}.log")));
        std::fs::write(&file, text).unwrap();
        let child = spawned(&file, &log);
        Self { child, told: Told { admin: at.admin.into(), log }, file, writer: at.writer }
    }

    /// Killed without a word, and started anew.
    fn restart(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.child = spawned(&self.file, &self.told.log);
    }

    /// The first status for which this is so.
    async fn until(&self, what: &str, so: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let status = self
                .told
                .try_get("/status.json")
                .ok()
                .and_then(|text| serde_json::from_str::<Value>(&text).ok());
            if let Some(status) = status.as_ref().filter(|status| so(status)) {
                return status.clone();
            }
            assert!(Instant::now() < deadline, "never: {what}: {status:?}\n{}", self.told.words());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    async fn until_writes_go_to(&self, server: &str) -> Value {
        self.until(&format!("writes go to {server}"), |status| status["writer"] == server).await
    }

    async fn until_ignored(&self, server: &str) -> Value {
        let ignored = |status: &Value| {
            let ignored = status["epoch"]["ignored"].as_array();
            ignored
                .is_some_and(|all| all.iter().any(|one| one["server"] == server && one["claim"] == "writes"))
        };
        self.until(&format!("{server} is ignored"), ignored).await
    }

    /// The server that a new writer session gets.
    async fn asked(&self, lab: &Lab) -> mysql_async::Result<String> {
        let mut session = mysql_async::Conn::new(options(lab, *self.writer.ip(), self.writer.port())).await?;
        let found = server_of(&mut session).await;
        session.disconnect().await?;
        Ok(found)
    }
}

impl Drop for ZoneRoute {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawned(file: &std::path::Path, log: &std::path::Path) -> Child {
    let log = std::fs::OpenOptions::new().create(true).append(true).open(log).unwrap();
    Command::new(env!("CARGO_BIN_EXE_headroom"))
        .args(["route", "--config"])
        .arg(file)
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .unwrap()
}

async fn failover(lab: &Lab, config: &std::path::Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_headroom"));
    command.args(["failover", "a2", "--yes", "--confirm", "600ms", "--within", "40s", "--accept-loss"]);
    command.args(["--fence", "test -n \"$1\"", "--config"]).arg(config);
    command.arg("--admin-option-file").arg(lab.credentials_file(Account::Admin));
    command.arg("--replication-option-file").arg(lab.credentials_file(Account::Repl));
    command.arg("--journal").arg(lab.dir().join("journals"));
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

#[tokio::test]
async fn a_former_primary_that_wakes_up_gets_no_writer_session_even_while_it_alone_answers() {
    let base = tempfile::tempdir().unwrap();
    let spec = Spec::new(&[("a", 2), ("b", 1)]).option("slave_net_timeout", "4");
    let lab = Lab::up(&spec, base.path()).await.unwrap();
    let mut steady = ZoneRoute::start(&lab, "a", true).await;
    let mut restarted = ZoneRoute::start(&lab, "b", true).await;
    for router in [&steady, &restarted] {
        let status = router.until_writes_go_to("a1").await;
        assert_eq!(status["epoch"]["highest"], 0);
    }

    lab.fault("a1", Fault::Freeze).await.unwrap();
    let done = failover(&lab, &steady.file).await;
    assert_eq!(done.status.code(), Some(0), "{}", String::from_utf8_lossy(&done.stderr));
    for router in [&steady, &restarted] {
        router.until_writes_go_to("a2").await;
        let known = |status: &Value| {
            let epoch = &status["epoch"];
            epoch["highest"] == 1 && epoch["survives_restart"] == true
        };
        router.until("the epoch is known", known).await;
    }

    // It wakes up, takes writes, and nobody else answers: to the last router just as that one starts.
    for server in ["a2", "b1"] {
        lab.fault(server, Fault::Freeze).await.unwrap();
    }
    lab.heal("a1").await.unwrap();
    restarted.restart();
    for router in [&steady, &restarted] {
        router.until_ignored("a1").await;
        for _ in 0..5 {
            let got = router.asked(&lab).await;
            assert!(got.is_err(), "a writer session got {got:?}\n{}", router.told.words());
        }
        let status = router.until_ignored("a1").await;
        assert!(status["writer"].is_null(), "{status}");
        let why = status["writer_unknown_because"].as_str().unwrap();
        let silent = "a2 was the primary and does not answer";
        assert!(why.contains("epoch 1 was seen") || why.contains(silent), "{why}");
        assert!(router.told.words().contains("ignored: its epoch is over"), "{}", router.told.words());
        let metrics = router.told.get("/metrics");
        for line in ["headroom_epoch 1", "headroom_ignored_claim_epoch{server=\"a1\",claim=\"writes\"} 0"] {
            assert!(metrics.contains(line), "{line}\n{metrics}");
        }
    }
    let source = restarted.until_ignored("a1").await["epoch"]["source"].clone();
    assert_eq!(source, "remembered from before the restart");

    // What would happen without the memory: nothing tells this router that another was promoted.
    drop(restarted);
    restarted = ZoneRoute::start(&lab, "b", false).await;
    let status = restarted.until_writes_go_to("a1").await;
    assert_eq!(status["epoch"]["survives_restart"], false);

    // The others answer again: it learns the epoch of them, and believes the former primary no more.
    for server in ["a2", "b1"] {
        lab.heal(server).await.unwrap();
    }
    for router in [&mut steady, &mut restarted] {
        router.until_writes_go_to("a2").await;
        router.until_ignored("a1").await;
    }
    lab.down().await.unwrap();
}
