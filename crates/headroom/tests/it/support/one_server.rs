//! `headroom route` in front of one real server, with a listener for writers on TCP and one on a unix socket.

pub(crate) use crate::support::told::{LIMIT, POLL};

use crate::support::told::{Told, options};
use lab::{Account, Lab, Spec};
use mysql_async::{Conn, OptsBuilder};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::Value;
use std::net::{SocketAddr, TcpListener};
use std::ops::Deref;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The lab, the addresses, and every router that was started, each with what it starts a group of processes:
/// killed at the end.
pub(crate) struct Alone {
    pub(crate) lab: Lab,
    pub(crate) writer: SocketAddr,
    pub(crate) socket: PathBuf,
    told: Told,
    pub(crate) file: PathBuf,
    /// Where control sockets are to be.
    pub(crate) runtime_dir: Option<PathBuf>,
    groups: Vec<Pid>,
    _base: tempfile::TempDir,
}

impl Deref for Alone {
    type Target = Told;

    fn deref(&self) -> &Told {
        &self.told
    }
}

impl Alone {
    /// The lab, without a router; `more` is added to both listeners.
    pub(crate) async fn up(more: &str) -> Self {
        Self::with(&Spec::new(&[("a", 1)]), more).await
    }

    /// The same with a server of this kind.
    pub(crate) async fn with(spec: &Spec, more: &str) -> Self {
        let base = tempfile::tempdir().unwrap();
        let lab = Lab::up(spec, base.path()).await.unwrap();
        let free = || TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let (writer, admin) = (free(), free());
        let socket = lab.dir().join("writer.sock");
        let text = format!(
            "[fleet]\nseeds = [\"{}\"]\ndiscover = false\n[credentials]\noption_file = \"{}\"\n\
             [router]\nzero_hop = \"off\"\n[router.rebalance]\ndrain_deadline = \"15s\"\n[admin]\naddress = \"{admin}\"\ncache = \"0s\"\n\
             [[listener]]\naddress = \"{writer}\"\nrole = \"writer\"\n{more}\n\
             [[listener]]\naddress = \"{}\"\nrole = \"writer\"\n{more}\n",
            lab.real("a1").unwrap(),
            lab.credentials_file(Account::Headroom).display(),
            socket.display(),
        );
        let (file, log) = (lab.dir().join("alone.toml"), lab.dir().join("alone.log"));
        std::fs::write(&file, text).unwrap();
        Self {
            lab,
            writer,
            socket,
            told: Told { admin, log },
            file,
            runtime_dir: None,
            groups: Vec::new(),
            _base: base,
        }
    }

    /// Starts a router; `descriptors` limits what it may open.
    pub(crate) fn start(&mut self, more: &[&str], descriptors: Option<u32>) -> Child {
        let program = env!("CARGO_BIN_EXE_headroom");
        let command = match descriptors {
            Some(most) => {
                let mut shell = Command::new("/bin/sh");
                shell.arg("-c").arg(format!("ulimit -n {most}; exec \"$0\" \"$@\"")).arg(program);
                shell
            }
            None => Command::new(program),
        };
        self.spawn(command, more, Stdio::null())
    }

    /// Starts a router as systemd does with a socket unit: `listener` is its descriptor 3.
    pub(crate) fn start_activated(&mut self, listener: &TcpListener) -> Child {
        // The shell moves its standard input to descriptor 3 and knows its own pid, which stays the router's.
        let line = "exec 3<&0 </dev/null; LISTEN_FDS=1 LISTEN_PID=$$ exec \"$0\" \"$@\"";
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", line, env!("CARGO_BIN_EXE_headroom")]);
        self.spawn(shell, &[], Stdio::from(OwnedFd::from(listener.try_clone().unwrap())))
    }

    /// Starts a router whose wall clock is moved by as many seconds as `moved` says, at any time.
    pub(crate) fn start_with_clock(&mut self, shim: &Path, moved: &Path) -> Child {
        let mut shell = Command::new("/bin/sh");
        shell.arg("-c").arg(format!(
            "CLOCK_MOVED_BY='{}' LD_PRELOAD='{}' exec \"$0\" \"$@\"",
            moved.display(),
            shim.display()
        ));
        shell.arg(env!("CARGO_BIN_EXE_headroom"));
        self.spawn(shell, &[], Stdio::null())
    }

    /// Starts a router that is told by its input what is to fail.
    pub(crate) fn start_with_faults(&mut self) -> Child {
        let command = Command::new(env!("CARGO_BIN_EXE_headroom"));
        self.spawn(command, &["--faults-from-stdin"], Stdio::piped())
    }

    /// Starts a router that logs much, to a pipe that nobody reads.
    pub(crate) fn start_unread(&mut self) -> Child {
        let mut shell = Command::new("/bin/sh");
        // The shell moves its standard input, a pipe, to where the log goes.
        let (unread, pipe) = std::io::pipe().unwrap();
        std::mem::forget(unread);
        shell.args(["-c", "exec 2>&0 </dev/null \"$0\" \"$@\"", env!("CARGO_BIN_EXE_headroom")]);
        self.spawn(shell, &["--log", "trace"], Stdio::from(pipe))
    }

    fn spawn(&mut self, mut command: Command, more: &[&str], input: Stdio) -> Child {
        let log = std::fs::OpenOptions::new().create(true).append(true).open(&self.told.log).unwrap();
        let child = command
            .args(["route", "--config"])
            .arg(&self.file)
            .args(more)
            .env_clear()
            .envs(self.runtime_dir.iter().map(|dir| ("HEADROOM_RUNTIME_DIR", dir)))
            .process_group(0)
            .stdin(input)
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        self.groups.push(Pid::from_raw(child.id().cast_signed()).unwrap());
        child
    }

    /// Writes another admin address into the file, and looks for the router there from now on.
    pub(crate) fn move_admin(&mut self, from: &str, to: SocketAddr) {
        let text = std::fs::read_to_string(&self.file).unwrap();
        assert!(text.contains(from), "{text}");
        std::fs::write(&self.file, text.replace(from, &to.to_string())).unwrap();
        self.told.admin = to;
    }

    /// A router serves, and knows who takes writes.
    pub(crate) async fn ready(&self) -> Value {
        self.wait_for("ready", |status| !status["writer"].is_null()).await
    }

    pub(crate) fn opts(&self) -> OptsBuilder {
        options(&self.lab, self.writer.ip(), self.writer.port())
            .max_allowed_packet(Some(1 << 20))
            .wait_timeout(Some(600))
    }

    pub(crate) async fn connect(&self) -> mysql_async::Result<Conn> {
        Conn::new(self.opts()).await
    }

    pub(crate) fn signal(&self, pid: u64, signal: Signal) {
        kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), signal).unwrap();
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
