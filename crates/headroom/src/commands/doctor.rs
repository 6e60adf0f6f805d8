//! `headroom doctor`: what this host and these servers allow, on one page.

use crate::commands::check;
use crate::credentials;
use crate::environment::Environment;
use crate::source::{self, SourceArgs, SourceError};
use clap::Args;
use doctor::host::{self, Demands, RuntimeDirectory};
use doctor::{Finding, Report};
use std::process::ExitCode;
use term::exit;

const EXAMPLES: &str = "\
Examples:
  headroom doctor                                       this host
  headroom doctor --config /etc/headroom/headroom.toml  also the servers, and what the file asks of the host
  sudo -u headroom headroom doctor --json | jq '.findings[] | select(.mend) | .mend'

Run it as the user that will run the router: what is allowed depends on who asks. Exit code 1 when something fails that the
configuration asks for.";

/// What this host and the servers allow, what is lost by it, and the line that mends it.
///
/// Tries io_uring and bpf(2), reads limits, capabilities, cgroup and clock, and asks each server for what
/// Headroom needs of it. Changes nothing. Without --config and --server, the file in its usual place is read
/// if there is one.
#[derive(Args, Debug, Clone)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DoctorArgs {
    /// Where the fleet is found.
    #[command(flatten)]
    source: SourceArgs,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Runs `headroom doctor`.
pub(crate) async fn run(args: DoctorArgs, environment: &Environment) -> anyhow::Result<ExitCode> {
    let sourced = check::checked(source::for_fleet(&args.source));
    let demands = Demands::of(sourced.as_ref().ok().map(|sourced| &sourced.config));
    let directory = match environment.possible_control_directory() {
        Ok(directory) => RuntimeDirectory::Usable(directory),
        Err(error) => RuntimeDirectory::Unusable(exit::reason(&error)),
    };
    let facts = host::gather::facts(directory);
    let mut report = Report { findings: host::findings(&facts, &demands) };
    match sourced {
        Ok(mut sourced) => {
            report.findings.extend(check::file_findings(&sourced));
            match credentials::resolve(&sourced.config, environment) {
                Ok(resolved) => {
                    sourced.config.fleet.credentials = resolved;
                    report.findings.extend(check::server_findings(&sourced).await);
                }
                Err(error) => {
                    report.findings.push(Finding::fail("configuration", "account", exit::reason(&error)));
                }
            }
        }
        // This host alone is what was asked about.
        Err(error) if matches!(error.downcast_ref(), Some(SourceError::Nothing)) => {}
        Err(error) => {
            let wrong = error.to_string();
            report.findings.extend(wrong.lines().map(|line| Finding::fail("configuration", "file", line)));
        }
    }
    check::print(&report, args.json, environment)
}
