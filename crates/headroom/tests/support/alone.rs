//! `headroom route` in front of one real server, with a listener for writers on TCP and one on a unix socket.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic where it stands")]
#![allow(dead_code, reason = "each test that shares this uses a part of it")]

use lab::{Account, Lab, Spec};
use mysql_async::{Conn, OptsBuilder};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

pub(crate) const LIMIT: Duration = Duration::from_secs(20);
pub(crate) const POLL: Duration = Duration::from_millis(20);

/// The lab, the addresses, and every router that was started, each with what it starts a group of processes: killed at
/// the end.
pub(crate) struct Alone {
    pub(crate) lab: Lab,
    pub(crate) writer: SocketAddr,
    pub(crate) socket: PathBuf,
    pub(crate) admin: SocketAddr,
    file: PathBuf,
    pub(crate) log: PathBuf,
    groups: Vec<Pid>,
    _base: tempfile::TempDir,
}

impl Alone {
    /// The lab, without a router; `more` is added to both listeners.
    pub(crate) async fn up(more: &str) -> Self {
        let base = tempfile::tempdir().unwrap();
        let lab = Lab::up(&Spec::new(&[("a", 1)]), base.path()).await.unwrap();
        let free = || TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let (writer, admin) = (free(), free());
        let socket = lab.dir().join("writer.sock");
        let text = format!(
            "[fleet]\nseeds = [\"{}\"]\ndiscover = false\n[credentials]\noption_file = \"{}\"\n\
             [router]\nzero_hop = \"off\"\n[router.replace]\ndrain_deadline = \"15s\"\n[admin]\naddress = \"{admin}\"\n\
             [[listener]]\naddress = \"{writer}\"\nrole = \"writer\"\n{more}\n\
             [[listener]]\naddress = \"{}\"\nrole = \"writer\"\n{more}\n",
            lab.real("a1").unwrap(),
            lab.credentials_file(Account::Headroom).display(),
            socket.display(),
        );
        let (file, log) = (lab.dir().join("alone.toml"), lab.dir().join("alone.log"));
        std::fs::write(&file, text).unwrap();
        Self { lab, writer, socket, admin, file, log, groups: Vec::new(), _base: base }
    }

    /// Starts a router; `descriptors` limits what it may open.
    pub(crate) fn start(&mut self, more: &[&str], descriptors: Option<u32>) -> Child {
        let program = env!("CARGO_BIN_EXE_headroom");
        let mut command = match descriptors {
            Some(most) => {
                let mut shell = Command::new("/bin/sh");
                shell.arg("-c").arg(format!("ulimit -n {most}; exec \"$0\" \"$@\"")).arg(program);
                shell
            }
            None => Command::new(program),
        };
        let log = std::fs::OpenOptions::new().create(true).append(true).open(&self.log).unwrap();
        let child = command
            .args(["route", "--config"])
            .arg(&self.file)
            .args(more)
            .env_clear()
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        self.groups.push(Pid::from_raw(child.id().cast_signed()).unwrap());
        child
    }

    /// Starts a router as systemd does with a socket unit: `listener` is its descriptor 3.
    pub(crate) fn start_activated(&mut self, listener: &TcpListener) -> Child {
        // The shell moves its standard input to descriptor 3 and knows its own pid, which stays the router's.
        let line = "exec 3<&0 </dev/null; LISTEN_FDS=1 LISTEN_PID=$$ exec \"$0\" \"$@\"";
        let log = std::fs::OpenOptions::new().create(true).append(true).open(&self.log).unwrap();
        let child = Command::new("/bin/sh")
            .args(["-c", line, env!("CARGO_BIN_EXE_headroom"), "route", "--config"])
            .arg(&self.file)
            .env_clear()
            .process_group(0)
            .stdin(Stdio::from(std::os::fd::OwnedFd::from(listener.try_clone().unwrap())))
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        self.groups.push(Pid::from_raw(child.id().cast_signed()).unwrap());
        child
    }

    pub(crate) fn status(&self) -> Option<Value> {
        let mut stream = TcpStream::connect_timeout(&self.admin, LIMIT).ok()?;
        stream.set_read_timeout(Some(LIMIT)).ok()?;
        write!(stream, "GET /status.json HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n", self.admin)
            .ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        serde_json::from_str(answer.split_once("\r\n\r\n")?.1).ok()
    }

    pub(crate) async fn until(&self, what: &str, so: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + LIMIT;
        loop {
            let status = self.status();
            if let Some(status) = status.as_ref().filter(|status| so(status)) {
                return status.clone();
            }
            assert!(Instant::now() < deadline, "never: {what}: {status:?}\n{}", self.words());
            tokio::time::sleep(POLL).await;
        }
    }

    /// A router serves, and knows who takes writes.
    pub(crate) async fn ready(&self) -> Value {
        self.until("ready", |status| !status["writer"].is_null()).await
    }

    pub(crate) fn opts(&self) -> OptsBuilder {
        OptsBuilder::default()
            .ip_or_hostname(self.writer.ip().to_string())
            .tcp_port(self.writer.port())
            .user(Some(Account::App.user()))
            .pass(Some(self.lab.password(Account::App)))
            .max_allowed_packet(Some(1 << 20))
            .wait_timeout(Some(600))
            .prefer_socket(false)
    }

    pub(crate) async fn connect(&self) -> mysql_async::Result<Conn> {
        Conn::new(self.opts()).await
    }

    pub(crate) fn words(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    pub(crate) fn signal(&self, pid: u64, signal: Signal) {
        kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), signal).unwrap();
    }

    /// Waits until a router has ended, and says how.
    pub(crate) async fn ended(&self, child: &mut Child) -> std::process::ExitStatus {
        let deadline = Instant::now() + LIMIT;
        loop {
            if let Some(status) = child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < deadline, "still there\n{}", self.words());
            tokio::time::sleep(POLL).await;
        }
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        for group in &self.groups {
            // Nobody is left of it where everything ended in peace.
            let _ = kill_process_group(*group, Signal::KILL);
        }
    }
}
