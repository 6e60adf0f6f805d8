//! `headroom check`: is the configuration right, and do the servers agree with it? `headroom route --check`
//! is its first half, which connects to nothing.

use crate::credentials;
use crate::environment::Environment;
use crate::source::{self, SourceArgs, SourceError};
use clap::Args;
use config::Sourced;
use doctor::{Finding, Report, route};
use serde::Serialize;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;
use term::{Paint, exit, terminal};

const EXAMPLES: &str = "\
Examples:
  headroom check /etc/headroom/headroom.toml
  headroom check --server db1:3306 --json | jq '.findings[] | select(.status == \"fail\")'
  headroom check --schema > headroom.schema.json      for an editor: docs/guide/configuration.md

Exit codes: 0 right, 1 a finding says fail, 2 the file is wrong or cannot be read. It asks the servers and changes nothing; what
connects to nothing is headroom route --check.";

/// Check the configuration, and ask the servers whether it works.
///
/// Reads the file, then logs in to each server as a router would: reachable, login, privileges, roles, lag,
/// TLS, zones, clocks, and which servers each listener would use. Without FILE, ./headroom.toml or
/// /etc/headroom/headroom.toml is read.
#[derive(Args, Debug, Clone)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CheckArgs {
    /// Configuration file.
    #[arg(value_name = "FILE", conflicts_with_all = ["config", "server"])]
    file: Option<PathBuf>,
    /// Where the fleet is found.
    #[command(flatten)]
    source: SourceArgs,
    /// Print the JSON schema of the configuration file, and check nothing.
    #[arg(long, conflicts_with_all = ["file", "config", "server", "json"])]
    schema: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Runs `headroom check`.
pub(crate) async fn run(args: CheckArgs, environment: &Environment) -> anyhow::Result<ExitCode> {
    if args.schema {
        terminal::print(&config::schema::text())?;
        return Ok(exit::DONE);
    }
    let mut source = args.source;
    source.config = args.file.or(source.config);
    let mut sourced = match checked(source::for_fleet(&source)) {
        Ok(sourced) => sourced,
        Err(error) => return refused(error, args.json),
    };
    sourced.config.fleet.credentials = match credentials::resolve(&sourced.config, environment) {
        Ok(resolved) => resolved,
        Err(error) => return refused(error, args.json),
    };
    let mut report = Report { findings: file_findings(&sourced) };
    report.findings.extend(server_findings(&sourced).await);
    print(&report, args.json, environment)
}

/// Prints a report; exit code 1 if something fails.
pub(crate) fn print(report: &Report, json: bool, environment: &Environment) -> anyhow::Result<ExitCode> {
    if json {
        terminal::print_json(report)?;
    } else {
        terminal::print(&report.text(Paint::for_stdout(environment.no_colour)))?;
    }
    Ok(if report.is_sound() { exit::DONE } else { exit::no() })
}

/// What the file says, once it is right.
pub(crate) fn file_findings(sourced: &Sourced) -> Vec<Finding> {
    let config = &sourced.config;
    let passes =
        Finding::pass("configuration", "file", format!("{} is right: {}", sourced.name(), sourced.parts()));
    let note = router::passwords_in_clear(&config.listeners, &config.router.tls);
    let note = note.map(|note| {
        Finding::warn("configuration", "passwords", note)
            .costs("whoever is between router and servers can read them")
            .mend("[router.tls] mode = \"verify_identity\", or server_public_key (docs/guide/tls.md)")
    });
    [passes].into_iter().chain(note).collect()
}

/// What the servers say, and which of them each listener would use.
pub(crate) async fn server_findings(sourced: &Sourced) -> Vec<Finding> {
    let config = &sourced.config;
    let (snapshot, mut findings) = doctor::survey(&config.fleet).await;
    findings.extend(route::listener_findings(&config.listeners, &config.router, &snapshot, Instant::now()));
    findings
}

/// The configuration, if also its certificates can be used.
pub(crate) fn checked(sourced: Result<Sourced, SourceError>) -> anyhow::Result<Sourced> {
    let sourced = sourced?;
    router::check_tls(&sourced.config.listeners, &sourced.config.router.tls)?;
    Ok(sourced)
}

/// What `route --check --json` prints, and `check --json` of a file that is wrong.
#[derive(Debug, Default, Serialize)]
struct Checked {
    right: bool,
    /// `null` when flags stood in its place, or when nothing could be read.
    file: Option<PathBuf>,
    seeds: usize,
    zones: usize,
    listeners: usize,
    /// Each with file, line and column.
    complaints: Vec<String>,
    /// What is right and has consequences that its author may not expect.
    notes: Vec<String>,
}

/// `headroom route --check`: the file is right, or we are not here any more.
pub(crate) fn without_servers(sourced: Result<Sourced, SourceError>, json: bool) -> anyhow::Result<ExitCode> {
    let sourced = match checked(sourced) {
        Ok(sourced) => sourced,
        Err(error) => return refused(error, json),
    };
    let config = &sourced.config;
    let note = router::passwords_in_clear(&config.listeners, &config.router.tls);
    if json {
        terminal::print_json(&Checked {
            right: true,
            seeds: config.fleet.seeds.len(),
            zones: config.fleet.zones.len(),
            listeners: config.listeners.len(),
            complaints: Vec::new(),
            notes: note.into_iter().collect(),
            file: sourced.file,
        })?;
        return Ok(exit::DONE);
    }
    let note = note.map_or_else(String::new, |note| format!("{note}.\n"));
    terminal::print(&format!("{} is right: {}.\n{note}", sourced.name(), sourced.parts()))?;
    Ok(exit::DONE)
}

/// Complaints as JSON where that was asked for; else the error is printed as every other.
fn refused(error: anyhow::Error, json: bool) -> anyhow::Result<ExitCode> {
    let usage = error.downcast_ref::<SourceError>().is_some_and(SourceError::is_usage);
    if !json || usage {
        return Err(error);
    }
    let complaints = exit::reason(&error).lines().map(str::to_owned).collect();
    terminal::print_json(&Checked { complaints, ..Checked::default() })?;
    Ok(exit::error())
}
