//! Reads every server that matters and makes the plan of a switchover of it.

use crate::check::{self, AskingRouters, Finding, Limits, Situation};
use crate::connection::{BRIEFLY, Connection};
use crate::facts::{self, Channel, Facts};
use crate::failover::exposure::{self, Exposure};
use crate::login::{self, LoginAttempt};
use crate::perform::{Deadlines, Kind, Member, Plan};
use crate::semi_sync::Switches;
use crate::{Error, announce};
use config::{Credentials, FleetConfig};
use fleet::{Address, ServerName, Snapshot, WriterStatus};
use std::time::Duration;

/// What was read.
#[derive(Clone, Debug)]
pub struct Survey {
    /// Who takes writes now.
    pub primary: Facts,
    /// Who shall.
    pub candidate: Facts,
    pub others: Vec<Facts>,
    /// Servers that are known and did not answer, with the reason.
    pub silent: Vec<(ServerName, String)>,
    /// The highest epoch that is recorded; 0 before the first switchover.
    pub epoch: u64,
    /// What a crash would lose, where that was measured.
    pub exposure: Option<Exposure>,
    /// Where the account of the former primary's replication got to, where it was tried.
    pub login: Option<LoginAttempt>,
}

impl Survey {
    /// Reads the fleet of a snapshot. Replicas are read before the primary, so that what it writes meanwhile
    /// does not look as if a replica had made it up.
    ///
    /// # Errors
    /// When no primary is known, the candidate is not known or is the primary, or one of the two does not
    /// answer.
    pub async fn read(
        snapshot: &Snapshot,
        candidate: &ServerName,
        who: &Credentials,
        deadline: Duration,
    ) -> Result<Self, Error> {
        let refused = |why: String| Error::Refused { server: candidate.clone(), why };
        let primary = match &snapshot.writer {
            WriterStatus::Known { server } => server.clone(),
            WriterStatus::Unknown { why } => {
                return Err(refused(format!(
                    "no primary is known: {why}; headroom fleet shows what each server says, headroom failover \
                     --check whether a dead one can be replaced"
                )));
            }
        };
        if primary == *candidate {
            return Err(refused("is the primary already".to_owned()));
        }
        let known: Vec<String> = snapshot.servers.iter().map(|server| server.name.to_string()).collect();
        let Some(chosen) = snapshot.server(candidate) else {
            return Err(refused(format!("is not known; the servers are {}", known.join(", "))));
        };
        let mut candidate_facts = facts::read(candidate, &chosen.reach, who, deadline).await?;
        candidate_facts.reserved.clone_from(&chosen.reserved);
        let (mut others, mut silent) = (Vec::new(), Vec::new());
        for server in
            snapshot.servers.iter().filter(|server| server.name != primary && server.name != *candidate)
        {
            match facts::read(&server.name, &server.reach, who, deadline).await {
                Ok(facts) => others.push(facts),
                Err(error) => silent.push((server.name.clone(), error.to_string())),
            }
        }
        let primary =
            snapshot.server(&primary).ok_or_else(|| refused("the primary left the fleet".to_owned()))?;
        let primary_facts = facts::read(&primary.name, &primary.reach, who, deadline).await?;
        let mut highest = epoch(&primary.name, &primary.reach, who, deadline).await?;
        // A primary that was promoted by hand may lack the last one: no epoch is given twice.
        for server in snapshot.servers.iter().filter(|server| server.name != primary.name) {
            highest = highest.max(epoch(&server.name, &server.reach, who, deadline).await.unwrap_or(0));
        }
        let epoch = highest;
        Ok(Self {
            primary: primary_facts,
            candidate: candidate_facts,
            others,
            silent,
            epoch,
            exposure: None,
            login: None,
        })
    }

    /// Without semi-sync: counts for this long what a crash would lose. Nothing where a server does not
    /// answer.
    pub async fn measure_exposure(&mut self, who: &Credentials, over: Duration, deadline: Duration) {
        if self.primary.semi_sync_source() {
            return;
        }
        let replicas: Vec<&Facts> = std::iter::once(&self.candidate)
            .chain(&self.others)
            .filter(|facts| facts.channels.iter().any(|channel| check::is_source(&self.primary, channel)))
            .collect();
        self.exposure = exposure::measure(&self.primary, &replicas, who, over, deadline).await.ok();
    }

    /// Tries the account (user and password) with which the former primary will replicate.
    pub async fn try_replication_login(
        &mut self,
        replication: &(String, String),
        admin: &Credentials,
        deadline: Duration,
    ) {
        self.login = Some(login::attempt(&self.candidate, replication, admin, deadline).await);
    }

    /// The routers that ask the primary; `None` where they cannot be counted.
    pub async fn count_routers(
        &self,
        fleet: &FleetConfig,
        who: &Credentials,
        deadline: Duration,
    ) -> Option<AskingRouters> {
        let (server, reach) = (&self.primary.server, &self.primary.reach);
        let mut conn = Connection::open(server, reach, who, deadline, BRIEFLY).await.ok()?;
        let taken = announce::seats_taken(&mut conn, fleet.asking.connections, deadline).await;
        conn.close().await;
        Some(AskingRouters::of(fleet, taken?))
    }

    pub fn checks(&self, limits: Limits, has_replication_login: bool) -> Vec<Finding> {
        let (primary, candidate, others) = (&self.primary, &self.candidate, self.others.as_slice());
        let exposure = self.exposure.as_ref();
        let login = self.login.as_ref();
        check::all(&Situation { primary, candidate, others, limits, has_replication_login, login, exposure })
    }

    /// What is to be done.
    pub fn plan(&self, deadlines: Deadlines, by: &str) -> Plan {
        Plan {
            kind: Kind::Switchover,
            epoch: self.epoch + 1,
            primary: self.member(&self.primary),
            primary_id: self.primary.server_id,
            candidate: self.member(&self.candidate),
            others: self.others.iter().map(|facts| self.member(facts)).collect(),
            events: self.primary.events.clone().unwrap_or_default(),
            events_left: Vec::new(),
            events_enabled: Vec::new(),
            events_unknown: self.primary.events.is_none(),
            semi_sync: self.primary.semi_sync_source(),
            // The former primary acknowledges at least.
            semi_sync_stays_off: false,
            protection: self.candidate.channels.first().map_or_else(Vec::new, |c| c.protection.clone()),
            deadlines,
            by: by.to_owned(),
        }
    }

    fn member(&self, facts: &Facts) -> Member {
        let follows_primary = facts.channels.iter().any(|channel| check::is_source(&self.primary, channel));
        let stopped = facts.channels.first().and_then(Channel::stopped_by_hand);
        Member { follows_primary, stopped, ..member(facts) }
    }
}

/// A server as a plan names it; whom it follows is for the caller to say.
pub(crate) fn member(facts: &Facts) -> Member {
    let filled = |name: &str| facts.variable(&[name]).filter(|value| !value.is_empty() && *value != "0");
    let reached = match &facts.reach {
        Address::Tcp { host, port } => Some((host.clone(), *port)),
        Address::Unix(_) => None,
    };
    let port = filled("report_port").or(filled("port")).and_then(|port| port.parse().ok()).unwrap_or(3306);
    let registered = filled("report_host").map(|host| (host.to_owned(), port));
    let by_name = || (filled("hostname").unwrap_or_default().to_owned(), port);
    let (host, port) = registered.or(reached).unwrap_or_else(by_name);
    Member {
        name: facts.server.to_string(),
        reach: facts.reach.to_string(),
        host,
        port,
        version: facts.variable(&["version"]).unwrap_or_default().to_owned(),
        follows_primary: false,
        stopped: None,
        read_only: facts.refuses_writes(),
        semi_sync_replica: facts.is_on(&["rpl_semi_sync_slave_enabled", "rpl_semi_sync_replica_enabled"])
            == Some(true),
        semi_sync: Switches::of(facts),
    }
}

/// The highest recorded epoch. No table yet (1146), or no database (1049), is epoch 0.
pub(crate) async fn epoch(
    server: &ServerName,
    reach: &Address,
    who: &Credentials,
    deadline: Duration,
) -> Result<u64, Error> {
    let mut conn = Connection::open(server, reach, who, deadline, BRIEFLY).await?;
    let asked = epoch_of(&mut conn, deadline).await;
    conn.close().await;
    asked
}

/// The same on an open connection.
pub(crate) async fn epoch_of(conn: &mut Connection, deadline: Duration) -> Result<u64, Error> {
    match conn.scalar("SELECT COALESCE(MAX(epoch), 0) FROM headroom.switchover", deadline).await {
        Ok(epoch) => Ok(epoch.and_then(|epoch| epoch.parse().ok()).unwrap_or(0)),
        Err(Error::Server { source: observe::AskError::Answered { code: 1146 | 1049, .. }, .. }) => Ok(0),
        Err(error) => Err(error),
    }
}

/// The newest operation that a server knows of: its epoch, its state and its plan.
pub(crate) async fn newest_record(
    server: &ServerName,
    reach: &Address,
    who: &Credentials,
    deadline: Duration,
) -> Result<Option<(u64, String, String)>, Error> {
    let mut conn = Connection::open(server, reach, who, deadline, BRIEFLY).await?;
    let newest = newest_record_of(&mut conn, deadline).await;
    conn.close().await;
    newest
}

/// The same over a connection that is open.
pub(crate) async fn newest_record_of(
    conn: &mut Connection,
    deadline: Duration,
) -> Result<Option<(u64, String, String)>, Error> {
    const ASK: &str = "SELECT epoch, state, plan FROM headroom.switchover ORDER BY epoch DESC LIMIT 1";
    match conn.ask(ASK, deadline).await {
        Ok(rows) => Ok(rows.into_iter().next().and_then(|mut row| {
            Some((row.remove("epoch")?.parse().ok()?, row.remove("state")?, row.remove("plan")?))
        })),
        Err(Error::Server { source: observe::AskError::Answered { code: 1146 | 1049, .. }, .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn without_a_primary_it_says_where_to_look() {
        let mut snapshot = Snapshot::empty(std::time::Instant::now());
        snapshot.writer = WriterStatus::Unknown { why: "no server answers".to_owned() };
        let (candidate, who) = (ServerName::new("a2"), Credentials::default());
        let read = Survey::read(&snapshot, &candidate, &who, Duration::from_secs(1)).await;
        let refused = read.unwrap_err().to_string();
        assert!(refused.contains("no server answers; headroom fleet"), "{refused}");
        assert!(refused.contains("headroom failover --check"), "{refused}");
    }
}
