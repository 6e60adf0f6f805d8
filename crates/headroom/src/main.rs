//! The binary: flags, configuration file, terminal, status page, exit codes.

mod bench;
mod cli;
mod demo;

use clap::Parser;
use std::process::ExitCode;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let outcome = match cli::Cli::parse().command {
        cli::Command::Demo(args) => demo::run(args).await,
        cli::Command::Bench(args) => bench::run(args).await,
    };
    outcome.unwrap_or_else(|error| {
        use std::io::Write;
        let _ = writeln!(std::io::stderr(), "headroom: {error:#}");
        ExitCode::from(2)
    })
}
