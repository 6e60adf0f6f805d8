//! A host name that changes its address, as names of managed services do when the primary moves: `headroom route` with a
//! `/etc/hosts` of its own, in a mount namespace of its own.

#![allow(clippy::unwrap_used, reason = "a test that cannot do its next step has failed")]

use lab::{Account, Lab, Spec};
use mysql_async::prelude::Queryable;
use std::net::SocketAddrV4;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(30);

#[tokio::test]
async fn writers_follow_a_host_name_to_its_new_address_though_the_old_server_still_answers() {
    let base = tempfile::tempdir().unwrap();
    let lab = Lab::up(&Spec::new(&[("a", 2)]), base.path()).await.unwrap();
    let hosts = lab.dir().join("hosts");
    point(&hosts, &lab, "a1");
    let router = Route::start(&lab, &hosts);
    router.wait_for_writes_on("a1", &lab).await;

    lab.change("a2", "promote".parse().unwrap()).await.unwrap();
    point(&hosts, &lab, "a2");
    router.wait_for_writes_on("a2", &lab).await;
    assert!(lab.connect("a1").await.is_ok(), "the old server answers all the while");
    router.wait_for_word("the host name leads elsewhere").await;
    router.wait_for_writes_on("a2", &lab).await;
    drop(router);
    lab.down().await.unwrap();
}

/// Written in place: the file is mounted over /etc/hosts, so a new file of the same name would not be seen.
fn point(hosts: &Path, lab: &Lab, server: &str) {
    std::fs::write(hosts, format!("{} db.test\n", lab.reach("a", server).unwrap().ip())).unwrap();
}

/// `headroom route` that knows the servers by the name `db.test` alone; killed when dropped.
struct Route {
    child: Child,
    writer: SocketAddrV4,
    log: PathBuf,
}

impl Route {
    fn start(lab: &Lab, hosts: &Path) -> Self {
        let writer = SocketAddrV4::new(lab.client_address("a", 31).unwrap(), lab.port());
        let (file, log) = (lab.dir().join("names.toml"), lab.dir().join("names.log"));
        let text = format!(
            "[fleet]\nseeds = [\"db.test:{}\"]\ndiscover = false\n\
             [credentials]\noption_file = \"{}\"\n\
             [router]\nzone = \"a\"\nzero_hop = \"off\"\nhold_deadline = \"1s\"\n\
             [[listener]]\naddress = \"{writer}\"\nrole = \"writer\"\n\
             [admin]\nenabled = false\n",
            lab.port(),
            lab.credentials_file(Account::Headroom).display(),
        );
        std::fs::write(&file, text).unwrap();
        // Root needs no user namespace for it; others are root in one of their own.
        let namespaces: &[&str] =
            if rustix::process::getuid().is_root() { &["--mount"] } else { &["--map-root-user", "--mount"] };
        let child = Command::new("unshare")
            .args(namespaces)
            .args(["sh", "-c", "mount --bind \"$0\" /etc/hosts && exec \"$@\""])
            .arg(hosts)
            .args([env!("CARGO_BIN_EXE_headroom"), "route", "--config"])
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(&log).unwrap())
            .spawn()
            .unwrap();
        Self { child, writer, log }
    }

    async fn wait_for_writes_on(&self, server: &str, lab: &Lab) {
        let wanted = lab.real(server).unwrap().ip().to_string();
        let deadline = Instant::now() + LIMIT;
        loop {
            let found = self.ask(lab).await;
            if found.as_ref().is_ok_and(|found| *found == wanted) {
                return;
            }
            assert!(Instant::now() < deadline, "not on {server}: {found:?}\n{}", self.words());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Sessions are connected by name and arrive at once; that the watcher saw it too, the log says.
    async fn wait_for_word(&self, word: &str) {
        let deadline = Instant::now() + LIMIT;
        while !self.words().contains(word) {
            assert!(Instant::now() < deadline, "'{word}' is not in\n{}", self.words());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Which server a new writer session gets.
    async fn ask(&self, lab: &Lab) -> Result<String, mysql_async::Error> {
        let opts = mysql_async::OptsBuilder::default()
            .ip_or_hostname(self.writer.ip().to_string())
            .tcp_port(self.writer.port())
            .prefer_socket(false)
            .user(Some(Account::App.user()))
            .pass(Some(lab.password(Account::App)));
        let mut session = mysql_async::Conn::new(opts).await?;
        let found: Option<String> = session.query_first("SELECT @@bind_address").await?;
        session.disconnect().await?;
        Ok(found.unwrap_or_default())
    }

    fn words(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Route {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
