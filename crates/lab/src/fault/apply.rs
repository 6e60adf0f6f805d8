//! Makes faults happen and ends them.

use super::{Change, Fault, Target};
use crate::link::{Mode, Pace};
use crate::running::{Running, SQL_LIMIT, START_LIMIT, STOP_LIMIT};
use crate::server::{ProcessState, Server};
use crate::{Error, replication};
use std::sync::PoisonError;
use std::time::Duration;

/// What is wrong now, and who follows whom: kept apart from the servers, because a dead one cannot be asked.
#[derive(Debug)]
pub(crate) struct InForce {
    pub(crate) faults: Vec<(Target, Fault)>,
    /// Whom each server follows, by index.
    pub(crate) sources: Vec<Option<usize>>,
    /// Which servers refuse writes.
    pub(crate) read_only: Vec<bool>,
    /// What each link was told last.
    modes: Vec<Mode>,
}

impl InForce {
    pub(crate) fn new(sources: Vec<Option<usize>>, links: usize) -> Self {
        let read_only = sources.iter().map(Option::is_some).collect();
        Self { faults: Vec::new(), sources, read_only, modes: vec![Mode::Open; links] }
    }

    /// The faults in force somewhere.
    pub(crate) fn at(&self, target: Target) -> Vec<Fault> {
        self.faults.iter().filter(|(t, _)| *t == target).map(|(_, fault)| *fault).collect()
    }

    /// The seconds a replica is told to be late.
    pub(crate) fn lag(&self, server: usize) -> u32 {
        let lag = |fault: &Fault| match fault {
            Fault::Lag { seconds } => Some(*seconds),
            _ => None,
        };
        self.at(Target::Server(server)).iter().find_map(lag).unwrap_or(0)
    }
}

impl Running {
    /// Begins or ends a fault. One change at a time.
    pub(crate) async fn change(&self, target: &str, change: Change) -> Result<(), Error> {
        let target = Target::parse(target, &self.layout)?;
        let _turn = self.turn.lock().await;
        match change {
            Change::Begin(fault) => self.begin(target, fault).await,
            Change::End(fault) => self.end(target, fault).await,
            Change::Heal => self.heal(target).await,
        }
    }

    /// Ends everything that is wrong anywhere.
    pub(crate) async fn heal_all(&self) -> Result<(), Error> {
        let _turn = self.turn.lock().await;
        let targets: Vec<Target> = self.in_force(|f| f.faults.iter().map(|(target, _)| *target).collect());
        for target in targets {
            self.heal(target).await?;
        }
        Ok(())
    }

    async fn heal(&self, target: Target) -> Result<(), Error> {
        // What lets a server answer comes before what is asked of it.
        let mut faults = self.in_force(|f| f.at(target));
        faults.sort_by_key(|fault| !matches!(fault, Fault::Kill | Fault::Stop | Fault::Freeze));
        for fault in faults {
            self.end(target, fault).await?;
        }
        Ok(())
    }

    async fn begin(&self, target: Target, fault: Fault) -> Result<(), Error> {
        match target {
            Target::Server(index) => self.begin_at(index, fault).await?,
            Target::Zones(..) if fault.mode().is_some() => {}
            Target::Zones(..) => match fault {
                Fault::Slow { round_trip_us } => {
                    self.set_round_trip(target, Some(Duration::from_micros(round_trip_us.into())))?;
                }
                _ => return Err(self.senseless(target, fault, "it happens to one server; name one")),
            },
        }
        self.in_force(|f| {
            f.faults.retain(|(t, other)| *t != target || !other.is_same_kind(fault));
            f.faults.push((target, fault));
        });
        self.update_links()
    }

    async fn end(&self, target: Target, fault: Fault) -> Result<(), Error> {
        match target {
            Target::Server(index) => self.end_at(index, fault).await?,
            Target::Zones(..) => {
                if matches!(fault, Fault::Slow { .. }) {
                    self.set_round_trip(target, None)?;
                }
            }
        }
        let stops = |fault: Fault| matches!(fault, Fault::Kill | Fault::Stop);
        let promotes = |fault: Fault| matches!(fault, Fault::Promote | Fault::PromoteAlone);
        let ended = |other: Fault| {
            // One word ends both of these.
            other.is_same_kind(fault)
                || (stops(other) && stops(fault))
                || (promotes(other) && promotes(fault))
        };
        self.in_force(|f| f.faults.retain(|(t, other)| *t != target || !ended(*other)));
        self.update_links()
    }

    async fn begin_at(&self, index: usize, fault: Fault) -> Result<(), Error> {
        let server = &self.servers[index];
        let flavour = self.program.flavour;
        let target = Target::Server(index);
        let follows = self.in_force(|f| f.sources[index].is_some());
        let is_replica = || {
            let why = "it replicates from nobody; name a replica";
            if follows { Ok(()) } else { Err(self.senseless(target, fault, why)) }
        };
        match fault {
            Fault::Kill => {
                server.kill();
                Ok(())
            }
            Fault::Stop => {
                server.stop(STOP_LIMIT).await;
                Ok(())
            }
            Fault::Freeze => {
                let frozen = server.freeze().await?;
                let why = "it does not run; start it first";
                if frozen { Ok(()) } else { Err(self.senseless(target, fault, why)) }
            }
            Fault::Blackhole | Fault::Drop | Fault::Refuse => Ok(()),
            Fault::Lag { seconds } => {
                is_replica()?;
                server.run(&replication::delay(flavour, seconds), SQL_LIMIT).await
            }
            Fault::ReadOnly => self.set_read_only(index, true).await,
            Fault::Writable => self.set_read_only(index, false).await,
            Fault::StopApplier => {
                is_replica()?;
                server.run(&replication::stop_applier(flavour), SQL_LIMIT).await
            }
            Fault::Promote => {
                is_replica()?;
                self.promote(index).await
            }
            Fault::PromoteAlone => {
                is_replica()?;
                self.promote_alone(index).await
            }
            Fault::Slow { .. } => {
                Err(self.senseless(target, fault, "it happens between zones; name two, as in a:b"))
            }
        }
    }

    async fn end_at(&self, index: usize, fault: Fault) -> Result<(), Error> {
        let server = &self.servers[index];
        let flavour = self.program.flavour;
        match fault {
            Fault::Kill | Fault::Stop => self.restart(server, index).await,
            Fault::Freeze => {
                server.thaw();
                Ok(())
            }
            Fault::Lag { .. } => server.run(&replication::delay(flavour, 0), SQL_LIMIT).await,
            Fault::ReadOnly | Fault::Writable => {
                let read_only = self.in_force(|f| f.sources[index].is_some());
                self.set_read_only(index, read_only).await
            }
            Fault::StopApplier => server.run(&replication::start(flavour), SQL_LIMIT).await,
            Fault::Promote | Fault::PromoteAlone => self.demote(index).await,
            Fault::Blackhole | Fault::Drop | Fault::Refuse | Fault::Slow { .. } => Ok(()),
        }
    }

    /// Starts a server that was killed or stopped, as it was; its replication goes on by itself.
    async fn restart(&self, server: &Server, index: usize) -> Result<(), Error> {
        if server.state() == ProcessState::Dead {
            server.start(&self.children, self.in_force(|f| f.read_only[index]))?;
            server.wait_ready(START_LIMIT).await?;
        }
        Ok(())
    }

    pub(super) async fn set_read_only(&self, index: usize, on: bool) -> Result<(), Error> {
        self.servers[index].run(&replication::read_only(self.program.flavour, on), SQL_LIMIT).await?;
        self.in_force(|f| f.read_only[index] = on);
        Ok(())
    }

    /// Sets the round-trip time of a pair of zones; `None` is what the description says.
    pub(crate) fn set_round_trip(&self, target: Target, time: Option<Duration>) -> Result<(), Error> {
        for (link, (from, server)) in self.layout.links().enumerate() {
            if target.covers(&self.layout, from, server) {
                let mut pace = Pace::of(&self.network, &self.layout, from, server);
                pace.one_way = time.map_or(pace.one_way, |t| t / 2);
                self.links.set_pace(link, pace)?;
            }
        }
        Ok(())
    }

    /// Tells the links what the faults in force, and servers without a process, make of them.
    fn update_links(&self) -> Result<(), Error> {
        let dead: Vec<bool> = self.servers.iter().map(|s| s.state() == ProcessState::Dead).collect();
        for (link, (from, server)) in self.layout.links().enumerate() {
            let mode = self.in_force(|f| {
                let covering =
                    f.faults.iter().filter(|(target, _)| target.covers(&self.layout, from, server));
                let of_faults = covering.filter_map(|(_, fault)| fault.mode());
                // Nobody listens where no process is.
                let of_death = dead[server].then_some(Mode::Refusing);
                of_faults.chain(of_death).max().unwrap_or(Mode::Open)
            });
            if self.in_force(|f| std::mem::replace(&mut f.modes[link], mode)) != mode {
                self.links.set_mode(link, mode)?;
            }
        }
        Ok(())
    }

    pub(super) fn senseless(&self, target: Target, fault: Fault, why: &str) -> Error {
        Error::Fault { fault: fault.to_string(), target: target.name(&self.layout), why: why.to_owned() }
    }

    /// Reads or changes what is in force.
    pub(crate) fn in_force<T>(&self, with: impl FnOnce(&mut InForce) -> T) -> T {
        with(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
