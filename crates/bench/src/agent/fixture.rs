//! The server with its tables and a little to do, and whoever watches it.

use super::super::output::scratch;
use crate::binary;
use anyhow::{Context, bail};
use console::web::{Web, WebAddress};
use lab::process::Process;
use lab::{Account, Lab, Spec};
use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;

const NAME: &str = "a1";
const DATABASE: &str = "many";
/// The account of mysqld_exporter, with what its guide asks for.
const EXPORTER: &str = "exporter";
/// A program may take this long until it answers.
const UP_WITHIN: Duration = Duration::from_secs(15);
const DEADLINE: Duration = Duration::from_secs(5);
const LARGEST: usize = 16 << 20;

/// Who watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    /// `headroom agent`.
    Agent,
    /// node_exporter and mysqld_exporter, together.
    Exporters,
}

/// A server that is watched.
pub(super) struct AgentFixture {
    lab: Lab,
    work: JoinHandle<()>,
    address: SocketAddr,
    port: u16,
    /// node_exporter and mysqld_exporter.
    exporters: [PathBuf; 2],
    /// Option file of mysqld_exporter.
    option_file: PathBuf,
    /// The server's process.
    pub(super) server: u32,
    /// What it says of its version.
    pub(super) version: String,
}

/// Programs that watch, and where each is scraped.
pub(super) struct Watching {
    each: Vec<(Process, Web)>,
}

impl Subject {
    pub(super) const ALL: [Self; 2] = [Self::Agent, Self::Exporters];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Exporters => "exporters",
        }
    }
}

impl AgentFixture {
    pub(super) async fn up(
        tables: u32,
        rate: u32,
        port: u16,
        exporters: [PathBuf; 2],
    ) -> anyhow::Result<Self> {
        let base = scratch();
        let lab = Lab::up(&Spec::new(&[("a", 1)]), &base).await.context("bringing up the server")?;
        let mut root = lab.connect(NAME).await?;
        root.query_drop(format!("CREATE DATABASE {DATABASE}")).await?;
        for table in 0..tables {
            let columns = "id INT PRIMARY KEY, at TIMESTAMP, word VARCHAR(40), KEY (at)";
            root.query_drop(format!("CREATE TABLE {DATABASE}.t{table} ({columns})")).await?;
        }
        let password = lab.password(Account::Headroom).to_owned();
        for statement in [
            format!("CREATE USER '{EXPORTER}'@'%' IDENTIFIED BY '{password}'"),
            format!("GRANT PROCESS, REPLICATION CLIENT, SELECT ON *.* TO '{EXPORTER}'@'%'"),
            // MariaDB has taken the state of replication out of REPLICATION CLIENT.
            format!("GRANT SLAVE MONITOR ON *.* TO '{EXPORTER}'@'%'"),
        ] {
            root.query_drop(statement).await?;
        }
        let told: Option<(String, String)> = root.query_first("SELECT VERSION(), @@pid_file").await?;
        let (version, pid_file) = told.context("the server did not tell its version")?;
        let server = std::fs::read_to_string(&pid_file).context("reading the server's pid file")?;
        let server = server.trim().parse().context("the server's pid file holds no number")?;
        let address = SocketAddr::from(lab.real(NAME)?);
        let option_file = lab.dir().join("exporter.cnf");
        let text = format!(
            "[client]\nuser={EXPORTER}\npassword={password}\nhost={}\nport={}\n",
            address.ip(),
            address.port()
        );
        let mut file =
            std::fs::File::options().create_new(true).write(true).mode(0o600).open(&option_file)?;
        std::io::Write::write_all(&mut file, text.as_bytes())?;
        let work = tokio::spawn(work(root, tables, rate));
        Ok(Self { lab, work, address, port, exporters, option_file, server, version })
    }

    /// Starts a subject and waits until all of it answers.
    pub(super) async fn start(&self, subject: Subject) -> anyhow::Result<Watching> {
        let log = |name: &str| self.lab.dir().join(format!("{name}.log"));
        let at = |n: u16| format!("127.0.0.1:{}", self.port + n);
        let mut each = Vec::new();
        let mut add = |name, program: &Path, arguments: &[String], n: u16| -> anyhow::Result<()> {
            let program = Process::start(name, program, arguments, &log(name))?;
            let url = WebAddress::parse(&format!("http://{}/metrics", at(n))).map_err(anyhow::Error::msg)?;
            each.push((program, Web::new(url, None, DEADLINE, LARGEST)?));
            Ok(())
        };
        match subject {
            Subject::Agent => {
                let own = binary::headroom()?;
                let file = self.lab.credentials_file(Account::Headroom).display().to_string();
                let (server, listen) = (self.address.to_string(), at(0));
                let words = ["agent", "--server", &server, "--option-file", &file, "--listen", &listen];
                add("agent", &own, &words.map(str::to_owned), 0)?;
            }
            Subject::Exporters => {
                let [node, mysqld] = &self.exporters;
                add("node_exporter", node, &[format!("--web.listen-address={}", at(1))], 1)?;
                let file = format!("--config.my-cnf={}", self.option_file.display());
                add("mysqld_exporter", mysqld, &[format!("--web.listen-address={}", at(2)), file], 2)?;
            }
        }
        let mut watching = Watching { each };
        watching.answer(subject).await?;
        Ok(watching)
    }

    /// Takes everything down.
    pub(super) async fn down(self) -> anyhow::Result<()> {
        self.work.abort();
        Ok(self.lab.down().await?)
    }
}

impl Watching {
    /// Where they are scraped.
    pub(super) fn addresses(&self) -> Vec<Web> {
        self.each.iter().map(|(_, web)| web.clone()).collect()
    }

    /// Their processes.
    pub(super) fn pids(&mut self) -> anyhow::Result<Vec<u32>> {
        self.each.iter_mut().map(|(program, _)| Ok(program.pid()?)).collect()
    }

    pub(super) async fn stop(self) -> anyhow::Result<()> {
        for (program, _) in self.each {
            program.stop().await?;
        }
        Ok(())
    }

    /// Waits until each says of the server that it is up: who cannot log in would be cheap.
    async fn answer(&mut self, subject: Subject) -> anyhow::Result<()> {
        let deadline = Instant::now() + UP_WITHIN;
        loop {
            let mut said = String::new();
            for (program, web) in &mut self.each {
                program.alive()?;
                if let Ok((200, body)) = web.get(None).await {
                    said.push_str(&String::from_utf8_lossy(&body));
                }
            }
            let up = match subject {
                Subject::Agent => said
                    .lines()
                    .any(|line| line.starts_with("headroom_watched_server_up{") && line.ends_with(" 1.0")),
                Subject::Exporters => {
                    said.lines().any(|line| line == "mysql_up 1") && said.contains("node_cpu_seconds_total{")
                }
            };
            if up {
                return Ok(());
            }
            if Instant::now() > deadline {
                bail!("{} did not see the server within {} s", subject.name(), UP_WITHIN.as_secs());
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
}

/// A read and a write in turn, of one table after the other, so that figures move.
async fn work(mut conn: Conn, tables: u32, rate: u32) {
    let mut tick = tokio::time::interval(Duration::from_secs(1) / rate.max(1));
    for n in (0..tables).cycle() {
        tick.tick().await;
        let statement = match n % 2 {
            0 => format!("SELECT * FROM {DATABASE}.t{n} WHERE id = 7"),
            _ => format!("REPLACE INTO {DATABASE}.t{n} (id, word) VALUES (7, 'x')"),
        };
        if conn.query_drop(statement).await.is_err() {
            return;
        }
    }
}
