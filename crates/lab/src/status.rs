//! What a running lab says of itself.

use crate::account::Account;
use crate::fault::{Fault, Target};
use crate::lab::credentials_file;
use crate::link::{LinkReport, Pace};
use crate::running::Running;
use crate::server::{ProcessState, Server, close};
use crate::{Error, replication};
use mysql_async::prelude::Queryable;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::SocketAddrV4;
use std::path::PathBuf;
use std::time::Duration;

/// A server that needs longer to say how it is counts as not answering.
const ANSWER_LIMIT: Duration = Duration::from_secs(1);

/// A lab as it is now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// The directory everything is in.
    pub dir: PathBuf,
    /// Process that owns the lab.
    pub owner: u32,
    /// Flavour and version of the servers.
    pub version: String,
    pub port: u16,
    pub zones: Vec<String>,
    /// Servers, zone by zone.
    pub servers: Vec<ServerStatus>,
    /// Links, zone by zone.
    pub links: Vec<LinkReport>,
    /// Faults between zones: (`a:b`, fault).
    pub network_faults: Vec<(String, Fault)>,
    pub database: String,
    /// Option files with user and password.
    pub credentials: BTreeMap<Account, PathBuf>,
}

/// A server as it is now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServerStatus {
    pub name: String,
    pub zone: String,
    /// Where it really listens, and what it calls itself.
    pub real: SocketAddrV4,
    /// How each zone reaches it.
    pub reach: BTreeMap<String, SocketAddrV4>,
    pub socket: PathBuf,
    /// Its process, if it has one.
    pub pid: Option<u32>,
    pub process: ProcessState,
    /// What the lab made it.
    pub role: Role,
    /// Whom it follows.
    pub source: Option<String>,
    /// What it said; `None` when it did not answer.
    pub answer: Option<Answer>,
    /// What is wrong with it by our doing.
    pub faults: Vec<Fault>,
}

/// What a server says of itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// Whether it refuses writes.
    pub read_only: bool,
    /// Its own figure; `None` on a primary and while replication does not run.
    pub seconds_behind: Option<u64>,
    /// Whether both replication threads run; `None` when it follows nobody.
    pub replicates: Option<bool>,
    /// Its last replication error, or nothing.
    pub replication_error: String,
}

/// What a server is in the lab.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Takes the writes.
    Primary,
    /// Follows another.
    Replica,
    /// Follows nobody and is not followed: a demoted primary, or one that thinks it is one.
    Alone,
}

impl Running {
    pub(crate) async fn status(&self) -> Status {
        let mut servers = Vec::with_capacity(self.servers.len());
        for index in 0..self.servers.len() {
            servers.push(self.server_status(index).await);
        }
        let network_faults = self.in_force(|f| {
            let of_zones = f.faults.iter().filter(|(target, _)| matches!(target, Target::Zones(..)));
            of_zones.map(|(target, fault)| (target.name(&self.layout), *fault)).collect()
        });
        let credentials = Account::ALL.map(|a| (a, credentials_file(self.dir.path(), a)));
        Status {
            dir: self.dir.path().to_owned(),
            owner: std::process::id(),
            version: self.program.to_string(),
            port: self.port,
            zones: self.layout.zones.iter().map(ToString::to_string).collect(),
            servers,
            links: self.link_reports(),
            network_faults,
            database: crate::DATABASE.to_owned(),
            credentials: credentials.into_iter().collect(),
        }
    }

    async fn server_status(&self, index: usize) -> ServerStatus {
        let server = &self.servers[index];
        let source = self.in_force(|f| f.sources[index]);
        let role = match source {
            Some(_) => Role::Replica,
            None if self.primary() == index => Role::Primary,
            None => Role::Alone,
        };
        let zones = self.layout.zones.iter().enumerate();
        let reach = zones
            .map(|(z, name)| (name.to_string(), SocketAddrV4::new(self.layout.link(z, index), self.port)));
        let answer = match server.state() {
            ProcessState::Running => {
                tokio::time::timeout(ANSWER_LIMIT, self.ask(server)).await.ok().and_then(Result::ok)
            }
            ProcessState::Frozen | ProcessState::Dead => None,
        };
        ServerStatus {
            name: server.name().to_owned(),
            zone: self.layout.zones[server.place.zone].to_string(),
            real: server.real,
            reach: reach.collect(),
            socket: server.socket(),
            pid: server.pid(),
            process: server.state(),
            role,
            source: source.map(|s| self.servers[s].name().to_owned()),
            answer,
            faults: self.in_force(|f| f.at(Target::Server(index))),
        }
    }

    async fn ask(&self, server: &Server) -> Result<Answer, Error> {
        let mut conn = server.connect().await?;
        let ask = "SELECT @@GLOBAL.read_only";
        let read_only: Option<bool> = conn.query_first(ask).await.map_err(|e| server.sql_error(ask, &e))?;
        let standing = replication::standing(self.program.flavour, server, &mut conn).await?;
        close(conn).await;
        Ok(Answer {
            read_only: read_only.unwrap_or_default(),
            seconds_behind: standing.as_ref().and_then(|s| s.seconds_behind),
            replicates: standing.as_ref().map(|s| s.receiver_runs && s.applier_runs),
            replication_error: standing.map(|s| s.last_error).unwrap_or_default(),
        })
    }

    pub(crate) fn link_reports(&self) -> Vec<LinkReport> {
        let report = |(link, (from, server))| {
            let pace = self.pace(from, server);
            self.links.counters(link).report(&self.layout, (from, server), pace)
        };
        self.layout.links().enumerate().map(report).collect()
    }

    /// The pace of a link as it is now.
    fn pace(&self, from: usize, server: usize) -> Pace {
        let mut pace = Pace::of(&self.network, &self.layout, from, server);
        let slow = self.in_force(|f| {
            let covering = f.faults.iter().filter(|(target, _)| target.covers(&self.layout, from, server));
            covering.filter_map(|(_, fault)| fault.round_trip()).next_back()
        });
        if let Some(time) = slow {
            pace.one_way = time / 2;
        }
        pace
    }
}
