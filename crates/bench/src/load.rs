//! One load: sysbench run to its end, while the processes that serve it are watched.
//!
//! CPU is counted from the moment all clients are connected to the end, so that connecting 256 clients is not
//! put on the queries' bill.

use super::process::{self, Memory};
use super::sysbench::{self, Outcome};
use anyhow::Context;
use lab::process::{Process, command};
use std::path::Path;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, BufReader};

/// How often resident memory is looked at.
const LOOK: Duration = Duration::from_millis(250);
/// Beyond its own time, a load may take this long to connect, to end and to report.
pub(crate) const GRACE: Duration = Duration::from_secs(45);

/// What a watched process used during a load.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Used {
    /// User and system time.
    pub(crate) cpu: Duration,
    /// The most resident memory seen.
    pub(crate) memory: Memory,
}

/// Runs sysbench and watches `pids`; one [`Used`] each, in their order.
pub(crate) async fn run(
    program: &Path,
    arguments: &[String],
    log: &Path,
    pids: &[u32],
    deadline: Duration,
) -> anyhow::Result<(Outcome, Vec<Used>)> {
    let (sysbench, output) = Process::start_with_output("sysbench", command(program), arguments, log)?;
    let watching = async {
        let mut lines = BufReader::new(output).lines();
        let mut watch = Watch::start(pids)?;
        let mut report = String::new();
        let mut look = tokio::time::interval(LOOK);
        loop {
            tokio::select! {
                line = lines.next_line() => {
                    let Some(line) = line.context("reading sysbench's report")? else { break };
                    if line.starts_with(sysbench::STARTED) {
                        watch.begin()?;
                    }
                    report.push_str(&line);
                    report.push('\n');
                }
                _ = look.tick() => watch.look()?,
            }
        }
        anyhow::Ok((report, watch.end()?))
    };
    let watched = tokio::time::timeout(deadline, watching).await;
    let (report, used) = watched.with_context(|| format!("the load did not end within {deadline:?}"))??;
    // Its report first: it says more of a failure than its exit status.
    let outcome = sysbench::parse(&report);
    if outcome.is_ok() {
        sysbench.finish(GRACE).await?;
    }
    Ok((outcome?, used))
}

struct Watch<'a> {
    pids: &'a [u32],
    begun: Vec<Duration>,
    most: Vec<Memory>,
}

impl<'a> Watch<'a> {
    fn start(pids: &'a [u32]) -> anyhow::Result<Self> {
        let mut watch = Self { pids, begun: Vec::new(), most: vec![Memory::default(); pids.len()] };
        watch.begin()?;
        Ok(watch)
    }

    fn begin(&mut self) -> anyhow::Result<()> {
        self.begun = self.cpu()?;
        Ok(())
    }

    fn look(&mut self) -> anyhow::Result<()> {
        for (most, pid) in self.most.iter_mut().zip(self.pids) {
            *most = (*most).max(process::memory(*pid)?);
        }
        Ok(())
    }

    fn end(&self) -> anyhow::Result<Vec<Used>> {
        let now = self.cpu()?;
        let used = now.iter().zip(&self.begun).zip(&self.most);
        Ok(used
            .map(|((now, then), memory)| Used { cpu: now.saturating_sub(*then), memory: *memory })
            .collect())
    }

    fn cpu(&self) -> anyhow::Result<Vec<Duration>> {
        self.pids.iter().map(|pid| process::cpu(*pid)).collect()
    }
}
