//! `headroom route` as a child process in zone a of a lab, with a listener for reads and one for writes.

use crate::support::told::{Told, options};
use lab::{Account, Lab};
use mysql_async::Conn;
use rustix::process::{Pid, Signal, kill_process};
use std::net::{SocketAddr, SocketAddrV4};
use std::ops::Deref;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Output, Stdio};

/// Ended when dropped, and what it has pinned removed.
pub(crate) struct Route {
    child: Option<Child>,
    /// Another has taken over from it.
    first: Option<Child>,
    pub(crate) file: PathBuf,
    pub(crate) reader: SocketAddrV4,
    pub(crate) writer: SocketAddrV4,
    told: Told,
}

impl Deref for Route {
    type Target = Told;

    fn deref(&self) -> &Told {
        &self.told
    }
}

impl Route {
    /// Writes its configuration and starts nothing. `router` and `listener` are lines added to those
    /// sections, `servers` says where the servers are.
    pub(crate) fn new(lab: &Lab, router: &str, listener: &str, servers: &str) -> Self {
        let at = |k| SocketAddrV4::new(lab.client_address("a", k).unwrap(), lab.port());
        let (reader, writer, admin) = (at(30), at(31), SocketAddr::from(at(32)));
        let text = format!(
            "[credentials]\noption_file = \"{}\"\n\
             [router]\nzone = \"a\"\n{router}\n\
             [[listener]]\naddress = \"{reader}\"\nrole = \"reader\"\n{listener}\n\
             [[listener]]\naddress = \"{writer}\"\nrole = \"writer\"\n{listener}\n\
             [admin]\naddress = \"{admin}\"\ncache = \"0s\"\n\
             [[zone]]\nname = \"a\"\nmembers = [\"127.1.0.0/16\"]\n\
             [[zone]]\nname = \"b\"\nmembers = [\"127.2.0.0/16\"]\n\
             {servers}",
            lab.credentials_file(Account::Headroom).display(),
        );
        let (file, log) = (lab.dir().join("route.toml"), lab.dir().join("route.log"));
        std::fs::write(&file, text).unwrap();
        Self { child: None, first: None, file, reader, writer, told: Told { admin, log } }
    }

    pub(crate) fn start(&mut self) {
        self.start_by(&[]);
    }

    /// Starts a second process that takes over from this one.
    pub(crate) fn take_over(&mut self) {
        self.first = self.child.take();
        self.start_with(&[], &["--take-over"]);
    }

    /// The process that takes over dies before it has.
    pub(crate) fn kill_second(&mut self) {
        if let Some(mut second) = std::mem::replace(&mut self.child, self.first.take()) {
            second.kill().unwrap();
            second.wait().unwrap();
        }
    }

    /// Waits for the end of the process that another took over from.
    pub(crate) async fn first_end(&mut self) -> ExitStatus {
        let ended = self.told.ended(self.first.as_mut().unwrap()).await;
        self.first = None;
        ended
    }

    /// Starts it by another program, which is to become it.
    pub(crate) fn start_by(&mut self, program: &[&str]) {
        self.start_with(program, &[]);
    }

    fn start_with(&mut self, program: &[&str], more: &[&str]) {
        let words = [program, &[env!("CARGO_BIN_EXE_headroom"), "route", "--config"]].concat();
        let log = std::fs::OpenOptions::new().create(true).append(true).open(&self.told.log).unwrap();
        let child = Command::new(words[0])
            .args(&words[1..])
            .arg(&self.file)
            .args(more)
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HEADROOM_LOG", "info,router::zero_hop=debug")
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        self.child = Some(child);
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.as_ref().map(Child::id).unwrap()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.pid().cast_signed()).unwrap(), signal).unwrap();
    }

    /// Waits for the end that it was told, or that it comes to by itself.
    pub(crate) async fn end(&mut self) -> ExitStatus {
        let ended = self.told.ended(self.child.as_mut().unwrap()).await;
        self.child = None;
        ended
    }

    /// Another command of the same binary, about this router.
    pub(crate) fn headroom(&self, args: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_headroom"));
        command.args(args).env_clear().env("HEADROOM_ADMIN", self.told.admin.to_string()).output().unwrap()
    }

    /// The same beside what else the test has under way.
    pub(crate) async fn headroom_beside(&self, args: &[&str]) -> Output {
        let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_headroom"));
        command.args(args).env_clear().env("HEADROOM_ADMIN", self.told.admin.to_string());
        command.output().await.unwrap()
    }

    /// What its pins are called by.
    pub(crate) fn title(&self) -> String {
        self.file.canonicalize().unwrap().display().to_string()
    }
}

impl Drop for Route {
    fn drop(&mut self) {
        for mut child in [self.first.take(), self.child.take()].into_iter().flatten() {
            let _ = child.kill();
            let _ = child.wait();
        }
        let title = self.title();
        let ours = zerohop::pins::list().into_iter().filter(|p| p.title == title).map(|p| p.name);
        let names: Vec<String> = ours.collect();
        if !names.is_empty() {
            zerohop::pins::remove(&names).unwrap();
        }
    }
}

pub(crate) async fn connect(lab: &Lab, address: SocketAddrV4) -> mysql_async::Result<Conn> {
    Conn::new(options(lab, *address.ip(), address.port())).await
}
