//! Programs that end with us, whatever happens: dropped (an error, a panic, Ctrl-C) they are killed; if we
//! are killed ourselves the kernel kills them (`setpriv --pdeathsig` of util-linux, which then becomes the
//! program, so its process id is the program's). The lab starts its servers so (`children.rs`), demo and
//! bench their routers and clients.

use crate::Error;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

/// A program may take this long to end when it is asked to.
const FAREWELL: Duration = Duration::from_secs(5);
const SETPRIV: [&str; 2] = ["/usr/bin/setpriv", "/bin/setpriv"];

/// A running program.
#[derive(Debug)]
pub struct Process {
    name: &'static str,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts it; complaints go to `log`, output too unless it is taken with [`Process::start_with_output`].
    ///
    /// Call it from a thread that lives as long as the program: the kernel counts the thread as the parent.
    pub fn start(
        name: &'static str,
        program: &Path,
        arguments: &[String],
        log: &Path,
    ) -> Result<Self, Error> {
        let output = log_file(log)?;
        Self::spawn(name, command(program), arguments, log, output.into())
    }

    /// Starts a command, of [`command`] or [`command_in_own_session`], and gives its output as a stream.
    pub fn start_with_output(
        name: &'static str,
        command: Command,
        arguments: &[String],
        log: &Path,
    ) -> Result<(Self, ChildStdout), Error> {
        let mut program = Self::spawn(name, command, arguments, log, Stdio::piped())?;
        let output = program.child.stdout.take().ok_or_else(|| program.ended("without an output"))?;
        Ok((program, output))
    }

    /// Starts it, and gives a stream to its input.
    pub fn start_with_input(
        name: &'static str,
        program: &Path,
        arguments: &[String],
        log: &Path,
    ) -> Result<(Self, ChildStdin), Error> {
        let (output, mut command) = (log_file(log)?, command(program));
        command.stdin(Stdio::piped());
        let mut program = Self::spawn(name, command, arguments, log, output.into())?;
        let input = program.child.stdin.take().ok_or_else(|| program.ended("without an input"))?;
        Ok((program, input))
    }

    fn spawn(
        name: &'static str,
        mut command: Command,
        arguments: &[String],
        log: &Path,
        output: Stdio,
    ) -> Result<Self, Error> {
        command.args(arguments).stdout(output).stderr(log_file(log)?);
        let child = command.spawn().map_err(Error::io(format!("start {name}")))?;
        Ok(Self { name, child, log: log.to_owned() })
    }

    /// Its process id.
    ///
    /// # Errors
    /// It has ended; with the end of what it said.
    pub fn pid(&mut self) -> Result<u32, Error> {
        self.alive()?;
        self.child.id().ok_or_else(|| self.ended("has ended"))
    }

    /// Fails, with the end of what it said, if it has ended.
    pub fn alive(&mut self) -> Result<(), Error> {
        match self.child.try_wait().map_err(Error::io(format!("look after {}", self.name)))? {
            None => Ok(()),
            Some(status) => Err(self.ended(&status.to_string())),
        }
    }

    /// Waits for its own end and fails unless that is a success.
    pub async fn finish(mut self, deadline: Duration) -> Result<(), Error> {
        let ended = tokio::time::timeout(deadline, self.child.wait()).await.map_err(|_| Error::TooLate {
            what: format!("the end of {}", self.name),
            limit: deadline,
            last: self.last_words(),
        })?;
        let status = ended.map_err(Error::io(format!("wait for {}", self.name)))?;
        if status.success() { Ok(()) } else { Err(self.ended(&status.to_string())) }
    }

    /// Asks it to end, and kills it if it does not.
    pub async fn stop(mut self) -> Result<(), Error> {
        let pid = self.child.id().and_then(|id| rustix::process::Pid::from_raw(i32::try_from(id).ok()?));
        if let Some(pid) = pid {
            let failed = || Error::io(format!("stop {}", self.name));
            let asked = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
            asked.map_err(std::io::Error::from).map_err(failed())?;
            if tokio::time::timeout(FAREWELL, self.child.wait()).await.is_err() {
                self.child.kill().await.map_err(failed())?;
            }
        }
        Ok(())
    }

    fn ended(&self, status: &str) -> Error {
        Error::Ended { program: self.name.to_owned(), status: status.to_owned(), said: self.last_words() }
    }

    fn last_words(&self) -> String {
        let said = std::fs::read_to_string(&self.log).unwrap_or_default();
        let mut last: Vec<&str> = said.lines().filter(|line| !line.trim().is_empty()).rev().take(3).collect();
        last.reverse();
        if last.is_empty() { "it said nothing".to_owned() } else { last.join(" / ") }
    }
}

/// A command without input that ends with us. A Ctrl-C on the terminal is for us alone; we then stop it in
/// order.
pub fn command(program: &Path) -> Command {
    let mut command = started_by(&ending_with_us(), program);
    command.process_group(0);
    command
}

/// The same as the head of a session, as a service is: with `sched_autogroup` the kernel shares the cores out
/// between sessions first, and then within each. Not in a process group of its own: who leads one cannot
/// begin a session, `setsid` would fork, and its process id would not be the program's.
pub fn command_in_own_session(program: &Path) -> Command {
    let mut starters = vec!["setsid"];
    starters.extend(ending_with_us());
    started_by(&starters, program)
}

/// Programs that become the next one in turn, and `program` in the end.
fn started_by(starters: &[&str], program: &Path) -> Command {
    let mut all = starters.iter().map(AsRef::as_ref).chain([program.as_os_str()]);
    let mut command = Command::new(all.next().unwrap_or(program.as_os_str()));
    command.args(all).stdin(Stdio::null()).kill_on_drop(true);
    command
}

/// What stands before a program so that the kernel kills it when the thread that started it ends; nothing
/// where setpriv is missing.
pub(crate) fn ending_with_us() -> Vec<&'static str> {
    let setpriv = SETPRIV.into_iter().find(|path| Path::new(path).exists());
    setpriv.map(|setpriv| vec![setpriv, "--pdeathsig", "KILL", "--"]).unwrap_or_default()
}

fn log_file(path: &Path) -> Result<std::fs::File, Error> {
    let file = std::fs::File::options().create(true).append(true).open(path);
    file.map_err(Error::io(format!("write {}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, log: &Path) -> Process {
        Process::start("shell", Path::new("/bin/sh"), &["-c".to_owned(), script.to_owned()], log).unwrap()
    }

    #[tokio::test]
    async fn a_program_that_failed_is_quoted() {
        let dir = tempfile::tempdir().unwrap();
        let program = shell("echo first; echo cannot bind >&2; exit 3", &dir.path().join("log"));
        let error = program.finish(Duration::from_secs(10)).await.unwrap_err().to_string();
        assert!(error.contains("cannot bind") && error.contains('3'), "{error}");
    }

    #[tokio::test]
    async fn a_program_that_is_stopped_is_gone() {
        let dir = tempfile::tempdir().unwrap();
        let mut program = shell("echo up; exec sleep 600", &dir.path().join("log"));
        let pid = program.pid().unwrap();
        program.stop().await.unwrap();
        assert!(!Path::new(&format!("/proc/{pid}")).exists());
    }

    #[tokio::test]
    async fn a_program_in_its_own_session_leads_it_under_the_id_that_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let sleep = ["sleep", "600"].map(str::to_owned);
        let env = command_in_own_session(Path::new("/usr/bin/env"));
        let (mut program, _output) =
            Process::start_with_output("env", env, &sleep, &dir.path().join("log")).unwrap();
        let pid = program.pid().unwrap();
        let deadline = tokio::time::Instant::now() + Duration::from_secs(10);
        // In /proc/PID/stat behind the name: state, parent, process group, session.
        let is_there = || {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            let behind = stat.strip_prefix(&format!("{pid} (sleep) ")).unwrap_or_default();
            behind.split(' ').nth(3) == Some(&pid.to_string())
        };
        while !is_there() {
            assert!(tokio::time::Instant::now() < deadline, "{pid} leads no session");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        program.stop().await.unwrap();
    }

    #[tokio::test]
    async fn a_dropped_program_is_killed() {
        let dir = tempfile::tempdir().unwrap();
        let mut program = shell("exec sleep 600", &dir.path().join("log"));
        let pid = program.pid().unwrap();
        drop(program);
        let deadline = tokio::time::Instant::now() + Duration::from_secs(10);
        let running = || {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            !stat.is_empty() && !stat.contains(") Z ")
        };
        while running() {
            assert!(tokio::time::Instant::now() < deadline, "{pid} still runs");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}
