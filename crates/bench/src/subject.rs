//! Who carries the queries: started fresh for each cell, so that no cell inherits another's memory or
//! sessions.
//!
//! HAProxy as one would write it down for MySQL: mode tcp, a thread a core, no logging, no health checks
//! (headroom asks its servers twice a second all the while, and pays for it), long timeouts. MySQL Router
//! with one static destination, a thread a core, sessions passed through. Headroom with its defaults.

use super::client::Session;
use super::schedule::Subject;
use anyhow::Context;
use lab::process::Process;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use zerohop::RouterPins;

/// A subject must answer its first query in this time.
const READY: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(50);

/// What is needed to start any subject.
#[derive(Clone, Debug)]
pub(crate) struct SubjectEnv {
    /// The server behind all of them.
    pub(crate) server: SocketAddr,
    /// How headroom asks that server: an option file.
    pub(crate) option_file: PathBuf,
    /// [`PORTS`] ports from here on are ours, on 127.0.0.1.
    pub(crate) first_port: u16,
    /// Configurations and logs are written here.
    pub(crate) directory: PathBuf,
    /// Threads for the others; headroom takes as many by itself.
    pub(crate) cores: usize,
    /// Sessions that every subject must be able to take.
    pub(crate) sessions: u32,
    /// HAProxy of the distribution.
    pub(crate) haproxy: PathBuf,
    /// A newer one.
    pub(crate) haproxy_newer: Option<PathBuf>,
    /// MySQL Router.
    pub(crate) mysql_router: Option<PathBuf>,
    /// Our own program.
    pub(crate) headroom: PathBuf,
}

/// Ports of [`SubjectEnv::first_port`] on that are used.
pub(crate) const PORTS: u16 = 6;

/// A subject that answers queries.
#[derive(Debug)]
pub(crate) struct Running {
    /// Where clients go.
    pub(crate) address: SocketAddr,
    program: Option<Process>,
    /// Goes away after the program.
    pinned: Option<RouterPins>,
}

/// Fails if one of the ports is taken, before anything is started.
pub(crate) fn ports_are_free(first: u16) -> anyhow::Result<()> {
    for port in (first..).take(usize::from(PORTS)) {
        TcpListener::bind((Ipv4Addr::LOCALHOST, port)).with_context(|| {
            format!("port {port} on 127.0.0.1 cannot be ours; choose {PORTS} free ports with --port")
        })?;
    }
    Ok(())
}

impl Running {
    /// Starts the subject and waits until a query is answered through it.
    pub(crate) async fn start(subject: Subject, env: &SubjectEnv) -> anyhow::Result<Self> {
        let (address, program) = match subject {
            Subject::Direct => (env.server, None),
            Subject::Haproxy => haproxy(subject, env, &env.haproxy, 0)?,
            Subject::HaproxyNewer => {
                let program = env.haproxy_newer.as_deref().context("there is no newer haproxy")?;
                haproxy(subject, env, program, 1)?
            }
            Subject::HaproxyAgain => haproxy(subject, env, &env.haproxy, 4)?,
            Subject::MysqlRouter => mysql_router(env)?,
            Subject::Headroom
            | Subject::HeadroomInsightOff
            | Subject::HeadroomZeroHop
            | Subject::HeadroomZeroHopInsight => headroom(subject, env)?,
        };
        let pinned =
            subject.goes_past().then(|| RouterPins::new(configuration_of(subject, env), term::complain));
        let mut running = Self { address, program, pinned };
        running.answers().await.with_context(|| format!("{subject} is not ready"))?;
        Ok(running)
    }

    /// Its process id; `None` for the direct connection.
    pub(crate) fn pid(&mut self) -> anyhow::Result<Option<u32>> {
        Ok(self.program.as_mut().map(Process::pid).transpose()?)
    }

    /// How many connections have bypassed it; `None` where none should.
    pub(crate) fn past(&self) -> Option<u64> {
        self.pinned.as_ref().map(RouterPins::bypassed)
    }

    /// Ends it.
    pub(crate) async fn stop(self) -> anyhow::Result<()> {
        match self.program {
            Some(program) => Ok(program.stop().await?),
            None => Ok(()),
        }
    }

    async fn answers(&mut self) -> anyhow::Result<()> {
        let deadline = Instant::now() + READY;
        loop {
            let address = self.address;
            let asked = tokio::task::spawn_blocking(move || {
                let mut session = Session::login(address)?;
                session.query("SELECT 1")?;
                session.close()
            });
            let outcome = asked.await?;
            if let Some(program) = &mut self.program {
                program.alive()?;
            }
            // Until the server has been looked at, connections come through the listener.
            let outcome = outcome.and_then(|()| match &self.pinned {
                Some(pinned) if pinned.bypassed() == 0 => {
                    Err(anyhow::anyhow!("connections do not bypass it"))
                }
                _ => Ok(()),
            });
            match outcome {
                Ok(()) => return Ok(()),
                Err(error) if Instant::now() >= deadline => return Err(error),
                Err(_) => tokio::time::sleep(POLL).await,
            }
        }
    }
}

type Started = (SocketAddr, Option<Process>);

fn haproxy(subject: Subject, env: &SubjectEnv, program: &Path, offset: u16) -> anyhow::Result<Started> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, env.first_port + offset));
    let file = written(env, &format!("{subject}.cfg"), &haproxy_configuration(env, address))?;
    // -db: stay in the foreground, one process; -q: only warnings and worse.
    let arguments = ["-db", "-q", "-f", &file].map(str::to_owned);
    let program = Process::start(subject.name(), program, &arguments, &log(env, subject))?;
    Ok((address, Some(program)))
}

fn mysql_router(env: &SubjectEnv) -> anyhow::Result<Started> {
    let subject = Subject::MysqlRouter;
    let program = env.mysql_router.as_deref().context("there is no MySQL Router")?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, env.first_port + 5));
    let file = written(env, &format!("{subject}.conf"), &mysql_router_configuration(env, address))?;
    let arguments = ["--config", &file].map(str::to_owned);
    let program = Process::start(subject.name(), program, &arguments, &log(env, subject))?;
    Ok((address, Some(program)))
}

fn headroom(subject: Subject, env: &SubjectEnv) -> anyhow::Result<Started> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, env.first_port + 2));
    let admin = SocketAddr::from((Ipv4Addr::LOCALHOST, env.first_port + 3));
    let text = headroom_configuration(subject, env, address, admin);
    let file = written(env, &format!("{subject}.toml"), &text)?;
    let arguments = ["route", "--config", &file].map(str::to_owned);
    let program = Process::start(subject.name(), &env.headroom, &arguments, &log(env, subject))?;
    Ok((address, Some(program)))
}

fn configuration_of(subject: Subject, env: &SubjectEnv) -> PathBuf {
    env.directory.join(format!("{subject}.toml"))
}

fn written(env: &SubjectEnv, name: &str, text: &str) -> anyhow::Result<String> {
    let path = env.directory.join(name);
    std::fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
    Ok(path.display().to_string())
}

fn log(env: &SubjectEnv, subject: Subject) -> PathBuf {
    env.directory.join(format!("{subject}.log"))
}

fn haproxy_configuration(env: &SubjectEnv, address: SocketAddr) -> String {
    let SubjectEnv { server, cores, .. } = env;
    let most = env.sessions + 1000;
    format!(
        "global
    nbthread {cores}
    maxconn {most}
defaults
    mode tcp
    timeout connect 5s
    timeout client 1h
    timeout server 1h
listen mysql
    bind {address}
    maxconn {most}
    server primary {server}
"
    )
}

/// One destination that is always the same, so that it needs no metadata of an InnoDB cluster; what it logs
/// goes to its output.
fn mysql_router_configuration(env: &SubjectEnv, address: SocketAddr) -> String {
    let SubjectEnv { server, cores, .. } = env;
    let directory = env.directory.display();
    let most = env.sessions + 1000;
    format!(
        "[DEFAULT]
runtime_folder = {directory}
data_folder = {directory}
max_total_connections = {most}
unknown_config_option = warning
[logger]
level = WARNING
[io]
threads = {cores}
[routing:bench]
bind_address = {}
bind_port = {}
destinations = {server}
routing_strategy = first-available
protocol = classic
client_ssl_mode = PASSTHROUGH
server_ssl_mode = AS_CLIENT
max_connections = {most}
",
        address.ip(),
        address.port()
    )
}

/// The reader listener: with a single server the primary answers reads, as it may by default. The zone is
/// given, so that nobody outside this machine is asked for it.
fn headroom_configuration(
    subject: Subject,
    env: &SubjectEnv,
    address: SocketAddr,
    admin: SocketAddr,
) -> String {
    let (zero_hop, insight) = match subject {
        Subject::HeadroomZeroHop => ("require", "off"),
        Subject::HeadroomZeroHopInsight => ("require", "on"),
        Subject::HeadroomInsightOff => ("off", "off"),
        _ => ("off", "on"),
    };
    format!(
        "[fleet]
seeds = [\"{}\"]
discover = false

[credentials]
option_file = \"{}\"

[router]
zone = \"a\"
zero_hop = \"{zero_hop}\"

[[zone]]
name = \"a\"
members = [\"127.0.0.0/8\"]

[[listener]]
address = \"{address}\"
role = \"reader\"
max_sessions = {}
insight = \"{insight}\"

[admin]
address = \"{admin}\"
",
        env.server,
        env.option_file.display(),
        env.sessions + 1000
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(directory: &Path) -> SubjectEnv {
        SubjectEnv {
            server: "127.1.0.1:4000".parse().unwrap(),
            option_file: PathBuf::from("/tmp/lab/headroom.cnf"),
            first_port: 23300,
            directory: directory.to_owned(),
            cores: 2,
            sessions: 1016,
            haproxy: PathBuf::from("/usr/sbin/haproxy"),
            haproxy_newer: None,
            mysql_router: None,
            headroom: PathBuf::from("/bin/false"),
        }
    }

    #[test]
    fn headrooms_configuration_is_one_that_it_accepts() {
        for subject in [
            Subject::Headroom,
            Subject::HeadroomInsightOff,
            Subject::HeadroomZeroHop,
            Subject::HeadroomZeroHopInsight,
        ] {
            let text = headroom_configuration(
                subject,
                &env(Path::new("/tmp")),
                "127.0.0.1:23302".parse().unwrap(),
                "127.0.0.1:23303".parse().unwrap(),
            );
            let config = config::Config::parse(&text, "headroom.toml").unwrap();
            assert_eq!(config.listeners[0].address.to_string(), "127.0.0.1:23302");
            assert_eq!(config.listeners[0].max_sessions, 2016, "as many as the others take");
            assert_eq!(config.fleet.seeds[0].to_string(), "127.1.0.1:4000");
            assert_eq!(config.router.zero_hop == config::ZeroHop::Off, !subject.goes_past());
            assert_eq!(
                config.listeners[0].insight == config::Insight::On,
                matches!(subject, Subject::Headroom | Subject::HeadroomZeroHopInsight)
            );
        }
    }

    #[test]
    fn haproxy_takes_all_sessions_and_has_a_thread_a_core() {
        let text = haproxy_configuration(&env(Path::new("/tmp")), "127.0.0.1:23300".parse().unwrap());
        assert!(text.contains("maxconn 2016") && text.contains("nbthread 2"), "{text}");
    }

    #[test]
    fn mysql_router_takes_all_sessions_too() {
        let text = mysql_router_configuration(&env(Path::new("/tmp")), "127.0.0.1:23305".parse().unwrap());
        assert!(text.contains("max_connections = 2016") && text.contains("threads = 2"), "{text}");
        assert!(
            text.contains("bind_port = 23305") && text.contains("destinations = 127.1.0.1:4000"),
            "{text}"
        );
    }

    #[test]
    fn a_taken_port_is_named_before_anything_starts() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = taken.local_addr().unwrap().port();
        let error = ports_are_free(port).unwrap_err().to_string();
        assert!(error.contains(&port.to_string()) && error.contains("--port"), "{error}");
    }

    #[tokio::test]
    async fn a_subject_that_cannot_start_is_quoted_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let error = Running::start(Subject::Headroom, &env(dir.path())).await.unwrap_err();
        assert!(format!("{error:#}").contains("ended by itself"), "{error:#}");
    }
}
