//! Another server becomes the primary, and the first one again.
//!
//! This plays what happens to a fleet; it is no switchover tool: writers are refused while it goes on.

use super::{Fault, Target};
use crate::running::{POLL, Running, SQL_LIMIT};
use crate::server::{ProcessState, close};
use crate::{Error, replication};
use std::time::{Duration, Instant};

impl Running {
    /// A replica becomes the primary. The old one, if it lives, refuses writes first, so that nothing is
    /// lost; it is left without a source. Whoever followed the old one follows the new one.
    pub(super) async fn promote(&self, new: usize) -> Result<(), Error> {
        let flavour = self.program.flavour;
        let old = self.primary();
        if self.servers[old].state() == ProcessState::Running {
            self.set_read_only(old, true).await?;
            self.wait_caught_up(new, old).await?;
        }
        self.stand_alone(new).await?;
        let followers = |f: &mut super::InForce| -> Vec<usize> {
            let followed = |s: &usize| *s != new && (f.sources[*s] == Some(old));
            (0..f.sources.len()).filter(followed).collect()
        };
        for follower in self.in_force(followers) {
            if self.servers[follower].state() == ProcessState::Running {
                self.repoint(follower, new).await?;
            }
        }
        tracing::info!(new = self.servers[new].name(), old = self.servers[old].name(), ?flavour, "promoted");
        Ok(())
    }

    /// A replica thinks it is the primary; nothing else changes.
    pub(super) async fn promote_alone(&self, new: usize) -> Result<(), Error> {
        self.stand_alone(new).await
    }

    /// Gives the role back to the server that had it first, and every server the source of the description.
    pub(super) async fn demote(&self, usurper: usize) -> Result<(), Error> {
        let first = self.layout.primary;
        let first_follows_nobody_writable =
            self.in_force(|f| f.sources[first].is_none() && !f.read_only[first]);
        self.set_read_only(usurper, true).await?;
        if !first_follows_nobody_writable {
            self.repoint_from_own_position(first, usurper).await?;
            self.wait_caught_up(first, usurper).await?;
            self.stand_alone(first).await?;
        }
        for index in 0..self.servers.len() {
            let (now, wanted) = (self.in_force(|f| f.sources[index]), self.layout.servers[index].source);
            let Some(source) = wanted.filter(|_| now != wanted) else { continue };
            if now.is_none() {
                self.repoint_from_own_position(index, source).await?;
            } else {
                self.repoint(index, source).await?;
            }
            let diverged = |error: Error| {
                let why = format!("it has writes that the others lack; take the lab down and up ({error})");
                self.senseless(Target::Server(usurper), Fault::Promote, &why)
            };
            self.wait_replicating(&self.servers[index]).await.map_err(diverged)?;
        }
        Ok(())
    }

    /// The server that takes writes by right: it follows nobody and others follow it.
    pub(crate) fn primary(&self) -> usize {
        let is_followed = |f: &super::InForce, s: usize| f.sources.contains(&Some(s));
        self.in_force(|f| {
            let heads = (0..f.sources.len()).filter(|s| f.sources[*s].is_none());
            let writable = |s: &usize| !f.read_only[*s];
            let mut heads: Vec<usize> = heads.collect();
            heads.sort_by_key(|s| (!is_followed(f, *s), !writable(s)));
            heads.first().copied().unwrap_or(self.layout.primary)
        })
    }

    /// Follows nobody, takes writes.
    async fn stand_alone(&self, index: usize) -> Result<(), Error> {
        self.servers[index].run(&replication::forget(self.program.flavour), SQL_LIMIT).await?;
        self.in_force(|f| f.sources[index] = None);
        self.set_read_only(index, false).await
    }

    async fn repoint(&self, follower: usize, source: usize) -> Result<(), Error> {
        let lag = self.in_force(|f| f.lag(follower));
        self.servers[follower].run(&self.follow(follower, source, lag), SQL_LIMIT).await?;
        self.in_force(|f| f.sources[follower] = Some(source));
        self.set_read_only(follower, true).await
    }

    /// For a server that was a primary: what it wrote itself counts as its position.
    async fn repoint_from_own_position(&self, follower: usize, source: usize) -> Result<(), Error> {
        let own = replication::take_own_position(self.program.flavour);
        self.servers[follower].run(&own, SQL_LIMIT).await?;
        self.repoint(follower, source).await
    }

    async fn wait_caught_up(&self, replica: usize, other: usize) -> Result<(), Error> {
        self.wait_for_all(replica, other, SQL_LIMIT).await
    }

    /// Waits until a replica has executed everything that another server has now.
    pub(crate) async fn wait_for_all(
        &self,
        replica: usize,
        other: usize,
        limit: Duration,
    ) -> Result<(), Error> {
        let flavour = self.program.flavour;
        let (behind, ahead) = (&self.servers[replica], &self.servers[other]);
        let mut conn = ahead.connect().await?;
        let position = replication::position(flavour, ahead, &mut conn).await?;
        close(conn).await;
        let mut conn = behind.connect().await?;
        let deadline = Instant::now() + limit;
        while !replication::has_all(flavour, behind, &mut conn, &position).await? {
            if Instant::now() > deadline {
                let what = format!("server {} having all of {}", behind.name(), ahead.name());
                return Err(Error::TooLate { what, limit, last: position });
            }
            tokio::time::sleep(POLL).await;
        }
        close(conn).await;
        Ok(())
    }
}
