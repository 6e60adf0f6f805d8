//! `headroom bench`: the relay beside HAProxy and a direct connection, in one run on this machine.

use clap::Args;
use std::process::ExitCode;

/// Flags of `headroom bench`.
#[derive(Args, Clone, Debug)]
pub(crate) struct BenchArgs {}

/// Runs the bench.
pub(crate) async fn run(_args: BenchArgs) -> anyhow::Result<ExitCode> {
    anyhow::bail!("headroom bench is not there yet; try headroom lab up and headroom route")
}
