//! `headroom demo`: the product's main job on real servers, start to finish.

use clap::Args;
use std::process::ExitCode;

/// Flags of `headroom demo`.
#[derive(Args, Clone, Debug)]
pub(crate) struct DemoArgs {}

/// Runs the demo.
pub(crate) async fn run(_args: DemoArgs) -> anyhow::Result<ExitCode> {
    anyhow::bail!("headroom demo is not there yet; try headroom lab up and headroom route")
}
