//! Which of two servers that both take writes is the former primary: the one whose epoch is over.
//!
//! Every switchover and failover writes its epoch into `headroom.switchover` of the new primary, from where
//! it replicates; a primary that was frozen or cut off meanwhile does not have it. We remember the highest
//! epoch that any server ever showed us, over restarts too where there is a file for it, and:
//!
//! 1. A server of a lower epoch is no writer and announces nothing, even if it alone answers.
//! 2. Between a promotion and its record (milliseconds) the new primary is of the same epoch as the former
//!    one. While the operation holds its lock there, and we have routed writes of this epoch to another
//!    server, its claim waits for the record, at most [`UNRECORDED_FOR`]: an operation may have been frozen
//!    between the two. Whoever never heard of the former primary cannot tell, and believes it.
//! 3. A server whose epoch cannot be read (a missing privilege) is judged as if there were no epochs, and
//!    the status says so. A promotion by hand has no epoch of its own, and is accepted.
//!
//! Pure but for [`file`]; what is seen and when are arguments.

pub(crate) mod file;

use file::Remembered;
use fleet::{Claim, EpochSource, EpochStatus, IgnoredClaim, ServerName};
use std::time::{Duration, Instant};

/// The newest finished operation that a server knows of.
pub(crate) const EPOCH: &str =
    "SELECT epoch FROM headroom.switchover WHERE state = 'done' ORDER BY epoch DESC LIMIT 1";

/// How long a promotion may go without a record.
pub(crate) const UNRECORDED_FOR: Duration = Duration::from_secs(5);

/// What a server's own table says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ServerEpoch {
    /// The newest finished operation; 0 where there was none.
    Known(u64),
    Unknown {
        /// Why, and what mends it.
        why: String,
    },
}

impl ServerEpoch {
    pub(crate) fn known(&self) -> Option<u64> {
        match self {
            Self::Known(epoch) => Some(*epoch),
            Self::Unknown { .. } => None,
        }
    }
}

/// What a server says that concerns the writer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ServerClaim<'a> {
    /// The same for the same server.
    pub(crate) key: &'a str,
    pub(crate) epoch: Option<u64>,
    pub(crate) takes_writes: bool,
    pub(crate) announces: bool,
    /// An operation holds its lock there.
    pub(crate) operation: bool,
}

/// What is remembered of epochs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fence {
    highest: u64,
    source: EpochSource,
    /// The last server that writes were routed to, and its epoch.
    writer: Option<(u64, String)>,
    /// A server whose promotion is not recorded yet, and since when.
    unrecorded: Option<(String, Instant)>,
    ignored: Vec<IgnoredClaim>,
    ignored_total: u64,
}

impl Fence {
    /// One that goes on from what was remembered.
    pub(crate) fn from_memory(remembered: Option<Remembered>) -> Self {
        let Some(Remembered { epoch, writer }) = remembered else { return Self::default() };
        let writer = writer.map(|key| (epoch, key));
        Self { highest: epoch, source: EpochSource::Remembered, writer, ..Self::default() }
    }

    pub(crate) fn highest(&self) -> u64 {
        self.highest
    }

    /// What should survive a restart.
    pub(crate) fn memory(&self) -> Remembered {
        let writer = self.writer.as_ref().filter(|(epoch, _)| *epoch == self.highest);
        Remembered { epoch: self.highest, writer: writer.map(|(_, key)| key.clone()) }
    }

    /// A server shows this epoch.
    pub(crate) fn saw(&mut self, server: &ServerName, epoch: u64) {
        if epoch > self.highest {
            tracing::info!(%server, epoch, before = self.highest, "a switchover or failover was finished");
            self.highest = epoch;
            self.source = EpochSource::Server { server: server.clone() };
        }
    }

    /// Writes are routed to this server.
    pub(crate) fn acted(&mut self, key: &str, epoch: u64) {
        if epoch == self.highest && self.writer.as_ref().is_none_or(|(of, who)| *of != epoch || who != key) {
            self.writer = Some((epoch, key.to_owned()));
        }
    }

    /// Why what a server says does not count; `None` when it does.
    pub(crate) fn refuses(&mut self, claim: ServerClaim<'_>, now: Instant) -> Option<Claim> {
        let epoch = claim.epoch?;
        if epoch < self.highest {
            return match (claim.takes_writes, claim.announces) {
                (true, _) => Some(Claim::Writes),
                (false, true) => Some(Claim::Announces),
                (false, false) => None,
            };
        }
        let (of, writer) = self.writer.as_ref()?;
        if *of == epoch && writer != claim.key && claim.takes_writes && claim.operation {
            let since = match &self.unrecorded {
                Some((key, since)) if key == claim.key => *since,
                _ => {
                    self.unrecorded = Some((claim.key.to_owned(), now));
                    now
                }
            };
            return (now.saturating_duration_since(since) < UNRECORDED_FOR).then_some(Claim::Unrecorded);
        }
        self.unrecorded.take_if(|(key, _)| key == claim.key);
        None
    }

    /// What is ignored now. A claim that was not ignored before is logged and counted.
    pub(crate) fn ignores(&mut self, now_ignored: Vec<IgnoredClaim>) {
        for IgnoredClaim { server, epoch, claim } in now_ignored.iter().filter(|c| !self.ignored.contains(c))
        {
            self.ignored_total += 1;
            let (claim, highest) = (claim.word(), self.highest);
            tracing::warn!(%server, epoch, highest, claim, "ignored: its epoch is over, or not recorded yet");
        }
        self.ignored = now_ignored;
    }

    pub(crate) fn status(&self, unknown: Vec<(ServerName, String)>, memory: &Memory) -> EpochStatus {
        EpochStatus {
            highest: self.highest,
            source: self.source.clone(),
            survives_restart: memory.is_kept,
            trouble: memory.trouble.clone(),
            unknown,
            ignored: self.ignored.clone(),
            ignored_total: self.ignored_total,
        }
    }
}

/// Whether what is remembered is kept for the next start.
#[derive(Clone, Debug, Default)]
pub(crate) struct Memory {
    pub(crate) is_kept: bool,
    /// Why not, where it should be.
    pub(crate) trouble: Option<String>,
}

/// Why a server whose claim is refused is no writer.
pub(crate) fn because(claim: Claim, own: u64, highest: u64) -> String {
    match claim {
        Claim::Writes | Claim::Announces => format!(
            "takes writes by epoch {own}, and epoch {highest} was seen: a former primary. Make it a replica \
             (headroom failover --rejoin). If it is right and the epochs were lost, remove the router's \
             epoch_file and restart it"
        ),
        Claim::Unrecorded => format!(
            "was promoted by an operation that has not recorded its epoch yet; {highest} was that of another \
             server"
        ),
    }
}

/// When a server is asked for its epoch again: in each look where it may matter now, else now and then.
pub(crate) fn is_due(age: Option<Duration>, takes_writes: bool, matters: bool, least: Duration) -> bool {
    let Some(age) = age else { return true };
    let usual = Duration::from_secs(if takes_writes { 1 } else { 5 });
    matters || age >= usual.max(least)
}

#[cfg(test)]
mod tests;
