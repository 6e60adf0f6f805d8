//! The router's process while it runs: memory, descriptors and CPU, once a second, written down as they come.

use super::client_pool::{ClientPool, Totals};
use crate::process;
use anyhow::Context;
use serde::Serialize;
use std::fs::File;
use std::io::Write;
use std::path::Path;

/// A line for each of them; it grows while the soak runs.
pub(super) const SAMPLES: &str = "samples.csv";

/// One second.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Sample {
    /// Seconds since the start of the load.
    pub(super) at_s: f64,
    pub(super) resident_kib: u64,
    pub(super) anonymous_kib: u64,
    pub(super) descriptors: u64,
    /// CPU seconds since the process started.
    pub(super) cpu_s: f64,
    #[serde(flatten)]
    pub(super) counted: Totals,
}

/// What has been seen, kept in memory and in a file.
#[derive(Debug)]
pub(super) struct Watch {
    pub(super) samples: Vec<Sample>,
    file: File,
}

impl Watch {
    /// Begins [`SAMPLES`] in `directory`.
    pub(super) fn new(directory: &Path) -> anyhow::Result<Self> {
        let path = directory.join(SAMPLES);
        let mut file = File::create(&path).with_context(|| format!("writing {}", path.display()))?;
        writeln!(
            file,
            "at_s,resident_kib,anonymous_kib,descriptors,cpu_s,sessions,statements,wrong,by_fault,moved,unexplained"
        )?;
        Ok(Self { samples: Vec::new(), file })
    }

    /// Looks once.
    pub(super) fn look(&mut self, pid: u32, pool: &ClientPool) -> anyhow::Result<()> {
        let memory = process::memory(pid)?;
        let (cpu_s, counted) = (process::cpu(pid)?.as_secs_f64(), pool.counted());
        let (resident_kib, anonymous_kib) = (memory.resident_kib, memory.anonymous_kib);
        let sample = Sample {
            at_s: pool.now(),
            resident_kib,
            anonymous_kib,
            descriptors: descriptors(pid)?,
            cpu_s,
            counted,
        };
        let Totals { sessions, statements, wrong, by_fault, moved, unexplained, .. } = counted;
        writeln!(
            self.file,
            "{:.2},{resident_kib},{anonymous_kib},{},{cpu_s:.2},{sessions},{statements},{wrong},{by_fault},{moved},{unexplained}",
            sample.at_s, sample.descriptors
        )?;
        self.samples.push(sample);
        Ok(())
    }
}

/// Files and sockets that the process has open.
pub(super) fn descriptors(pid: u32) -> anyhow::Result<u64> {
    let path = format!("/proc/{pid}/fd");
    Ok(std::fs::read_dir(&path).with_context(|| format!("reading {path}"))?.count() as u64)
}
