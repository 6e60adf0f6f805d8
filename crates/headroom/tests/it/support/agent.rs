//! `headroom agent` as a child process, and who reads it over TLS or without.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

pub(crate) const LIMIT: Duration = Duration::from_secs(60);
/// For what takes several deadlines of the agent's own.
const PATIENCE: Duration = Duration::from_secs(90);
pub(crate) const TOKEN: &str = "a-token-that-nobody-guesses-0123456789";

/// Ended when dropped.
pub(crate) struct Agent {
    child: Child,
    log: PathBuf,
    /// Where it answers, on loopback.
    pub(crate) address: SocketAddr,
}

/// The binary, in this directory and with nothing in its environment.
pub(crate) fn headroom(dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_headroom"));
    command.current_dir(dir).env_clear();
    command
}

pub(crate) fn words(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

impl Agent {
    /// Starts it with these words, and waits until it answers.
    pub(crate) fn start(dir: &Path, name: &str, args: &[&str]) -> Self {
        Self::start_by(headroom(dir), dir, name, args)
    }

    /// The same by a command with an environment of its own.
    pub(crate) fn start_by(mut command: Command, dir: &Path, name: &str, args: &[&str]) -> Self {
        let log = dir.join(format!("{name}.log"));
        let file = std::fs::File::create(&log).unwrap();
        command.arg("agent").args(["--log-format", "json"]).args(args);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(file).spawn().unwrap();
        let mut agent = Self { child, log, address: SocketAddr::from(([127, 0, 0, 1], 0)) };
        let line = agent.said("the agent answers");
        let line: Value = serde_json::from_str(&line).unwrap();
        let bound: SocketAddr = line["address"].as_str().unwrap().parse().unwrap();
        agent.address.set_port(bound.port());
        agent
    }

    /// The first line of its log with these words.
    pub(crate) fn said(&mut self, what: &str) -> String {
        let deadline = Instant::now() + LIMIT;
        loop {
            let log = self.log();
            if let Some(line) = log.lines().find(|line| line.contains(what)) {
                return line.to_owned();
            }
            assert!(self.child.try_wait().unwrap().is_none(), "it has ended:\n{log}");
            assert!(Instant::now() < deadline, "never said: {what}\n{log}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    pub(crate) fn command_line(&self) -> String {
        std::fs::read_to_string(format!("/proc/{}/cmdline", self.child.id())).unwrap()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.pid().cast_signed()).unwrap(), signal).unwrap();
    }

    pub(crate) fn hang_up(&self) {
        self.signal(Signal::HUP);
    }

    /// What it answers as JSON, without TLS and token.
    pub(crate) fn json(&self, path: &str) -> Value {
        let answer = self.plain(path, "");
        let body = answer.split_once("\r\n\r\n").unwrap().1;
        serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {answer}\n{}", self.log()))
    }

    /// The first such answer for which this is so.
    pub(crate) async fn wait_until(&self, what: &str, path: &str, so: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let answer = self.json(path);
            if so(&answer) {
                return answer;
            }
            assert!(Instant::now() < deadline, "never: {what}\n{answer:#}\n{}", self.log());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// What it answers without TLS.
    pub(crate) fn plain(&self, path: &str, headers: &str) -> String {
        read(self.connect(), self.address, path, headers).unwrap()
    }

    /// What it answers over TLS to whoever trusts `ca`, and knows it by `name`.
    pub(crate) fn sealed(&self, ca: &Path, name: &str, path: &str, headers: &str) -> std::io::Result<String> {
        let config = tls::https::client(Some(ca)).unwrap();
        let name = rustls::pki_types::ServerName::try_from(name.to_owned()).unwrap();
        let session = rustls::ClientConnection::new(config, name).unwrap();
        read(rustls::StreamOwned::new(session, self.connect()), self.address, path, headers)
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect_timeout(&self.address, LIMIT).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        stream
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read(mut stream: impl Read + Write, at: SocketAddr, path: &str, headers: &str) -> std::io::Result<String> {
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {at}\r\nConnection: close\r\n{headers}\r\n")?;
    stream.flush()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}
