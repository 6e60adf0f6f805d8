//! The command line: what can be asked for, with the help texts. What the flags mean is in the module of each
//! command.

use crate::commands;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

const EXIT_CODES: &str = "\
Exit codes: 0 done; 1 the answer is no (no primary known, a bottleneck, figures that must not be used, refused); 2 error; 64 wrong command line.

Guides: docs/guide/. Every option of the configuration file: headroom.example.toml.";

/// Reads go to the nearest MySQL or MariaDB replica that has room.
///
/// Headroom finds, shows and gives back the performance left in a tier of one primary and its replicas. It
/// sits beside each application, asks the servers themselves who is primary, how far behind and where the
/// reads come from, and gives every new connection the nearest server with room. Authentication passes
/// through end to end.
#[derive(Parser, Debug)]
#[command(name = "headroom", version = crate::version::version(), after_help = EXIT_CODES, max_term_width = 110)]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Every command and option: what help texts, man pages and completions are made of.
pub(crate) fn table() -> clap::Command {
    manual::fit(Cli::command())
}

/// Reads the command line.
///
/// # Errors
/// It is not understood, or it asks for help; the error's text is what to print.
pub(crate) fn parse() -> Result<Cli, clap::Error> {
    let mut command = table();
    // What proves our figures is a program of its own, and not shipped.
    if std::env::args_os().nth(1).is_some_and(|first| first == "bench") {
        let words =
            "benchmarks are in a program of their own: headroom-bench (cargo build --release -p bench)\n";
        return Err(command.error(clap::error::ErrorKind::InvalidSubcommand, words));
    }
    Cli::from_arg_matches(&command.try_get_matches()?)
}

/// What to do.
#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Give every new connection the nearest server that has room.
    Route(commands::route::RouteArgs),
    /// Ask the servers once: who is primary, how far behind, in which zone.
    Fleet(commands::fleet::FleetArgs),
    /// Ask a running `headroom route` how things stand.
    Status(commands::status::StatusArgs),
    /// Name the bottleneck of this host and of its servers, with evidence.
    Watch(commands::watch::WatchArgs),
    /// Measure what this host can do at most: disk, CPUs, memory, the way to each server.
    Probe(Box<commands::probe::ProbeArgs>),
    /// What `watch` shows, for other programs: JSON and OpenMetrics.
    Agent(commands::agent::AgentArgs),
    /// Which statements, endpoints and servers take the time, as a running `headroom route` measures it.
    Top(commands::top::TopArgs),
    /// Empty a server: no new sessions, and the present ones leave when they can.
    Drain(commands::drain::DrainArgs),
    /// Let a drained server take sessions again.
    Undrain(commands::drain::UndrainArgs),
    /// Move the primary: writes are held, not refused, and what fails before the end is undone.
    Switchover(Box<commands::switchover::SwitchoverArgs>),
    /// Let a replica take over from a dead primary, and bring the dead one back as a replica.
    Failover(Box<commands::failover::FailoverArgs>),
    /// Fail over by itself when the primary dies, where nothing acknowledged can be lost.
    Guard(Box<commands::guard::GuardArgs>),
    /// What lets connections bypass the router and go straight to a server: show it, remove it.
    #[command(subcommand)]
    ZeroHop(commands::zero_hop::ZeroHopCommand),
    /// Settings of this host and of a server: shown, changed with read-back, put back.
    #[command(subcommand)]
    Knob(commands::knob::KnobCommand),
    /// Compare settings by an experiment: which matter, how much, how sure.
    #[command(subcommand)]
    Trial(commands::trial::TrialCommand),
    /// Which guest runs on which host, compared with what servers and agents say.
    Inventory(commands::inventory::InventoryArgs),
    /// What more load, cores, memory, disks, hosts, replicas or a zone would mean, with intervals.
    #[command(subcommand)]
    Plan(commands::plan::PlanCommand),
    /// Real servers with replication, zones, distance and faults on this machine.
    #[cfg(feature = "lab")]
    #[command(subcommand)]
    Lab(commands::lab::LabCommand),
    /// Send a workload to servers or routers and report rates, latencies and errors.
    #[command(subcommand)]
    Load(commands::load::LoadCommand),
    /// Find the largest rate that still meets an objective.
    Measure(Box<commands::measure::MeasureArgs>),
    /// Record what clients send, for a replay.
    Record(commands::record::RecordArgs),
    /// Send a recording again, and compare.
    Replay(Box<commands::replay::ReplayArgs>),
    /// Turn runs of the history into one HTML page.
    Report(commands::report::ReportArgs),
    /// Show the product's main job on real servers of this machine.
    #[cfg(feature = "lab")]
    Demo(crate::commands::demo::DemoArgs),
    /// Check the configuration, and ask the servers whether it works.
    Check(commands::check::CheckArgs),
    /// What this host and the servers allow, what is lost by it, and the line that mends it.
    Doctor(commands::doctor::DoctorArgs),
    /// Show or write the man pages.
    Man(commands::man::ManArgs),
    /// Print completions for a shell.
    Completions(commands::completions::CompletionsArgs),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_flags_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn no_epilogue_is_ragged_in_eighty_columns() {
        assert_eq!(manual::ragged(&table()), Vec::<String>::new());
    }
}
