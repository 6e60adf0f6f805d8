//! The command line.

use clap::{Parser, Subcommand};

/// Headroom finds, shows and gives back the performance left in a tier of MySQL or MariaDB servers.
#[derive(Parser, Debug)]
#[command(name = "headroom", version)]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to do.
#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Show the product's main job on real servers of this machine.
    Demo(crate::demo::DemoArgs),
    /// Measure the relay beside HAProxy and a direct connection.
    Bench(crate::bench::BenchArgs),
}
