//! The binary: flags, configuration file, terminal, status page, exit codes. Everything else is in the crates
//! below.

mod cli;
mod commands;
mod credentials;
mod environment;
mod key;
mod option_files;
mod reads;
mod source;
mod telemetry;
mod version;

use std::process::ExitCode;
use term::{exit, terminal};

fn main() -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            terminal::complain(&format!("headroom: cannot start: {error}"));
            return exit::error();
        }
    };
    let code = runtime.block_on(run());
    // Whatever is still under way on threads beside, a look-up of a name above all, is of no use to anybody.
    runtime.shutdown_background();
    code
}

async fn run() -> ExitCode {
    let cli = match cli::parse() {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            return if error.use_stderr() { exit::usage() } else { exit::DONE };
        }
    };
    let environment = environment::Environment::read();
    let outcome = match cli.command {
        cli::Command::Check(args) => commands::check::run(args, &environment).await,
        cli::Command::Doctor(args) => commands::doctor::run(args, &environment).await,
        cli::Command::Man(args) => commands::man::run(&args),
        cli::Command::Completions(args) => commands::completions::run(&args),
        cli::Command::Route(args) => commands::route::run(args, &environment).await,
        cli::Command::Fleet(args) => commands::fleet::run(args, &environment).await,
        cli::Command::Status(args) => commands::status::run(args, &environment).await,
        cli::Command::Watch(args) => commands::watch::run(args, &environment).await,
        cli::Command::Probe(args) => commands::probe::run(*args, &environment).await,
        cli::Command::Agent(args) => commands::agent::run(args, &environment).await,
        cli::Command::Top(args) => commands::top::run(args, &environment).await,
        cli::Command::Drain(args) => commands::drain::drain(args, &environment),
        cli::Command::Undrain(args) => commands::drain::undrain(args, &environment),
        cli::Command::Switchover(args) => commands::switchover::run(*args, &environment).await,
        cli::Command::Failover(args) => commands::failover::run(*args, &environment).await,
        cli::Command::Guard(args) => commands::guard::run(*args, &environment).await,
        cli::Command::ZeroHop(command) => commands::zero_hop::run(command),
        cli::Command::Knob(command) => commands::knob::run(command, &environment).await,
        cli::Command::Trial(command) => commands::trial::run(command, &environment).await,
        cli::Command::Inventory(args) => commands::inventory::run(args, &environment).await,
        cli::Command::Plan(command) => commands::plan::run(command, &environment).await,
        #[cfg(feature = "lab")]
        cli::Command::Lab(command) => commands::lab::run(command, &environment).await,
        cli::Command::Load(command) => commands::load::run(command, &environment).await,
        cli::Command::Measure(args) => commands::measure::run(*args, &environment).await,
        cli::Command::Record(args) => commands::record::run(args, &environment).await,
        cli::Command::Replay(args) => commands::replay::run(*args, &environment).await,
        cli::Command::Report(args) => commands::report::run(&args, &environment),
        #[cfg(feature = "lab")]
        cli::Command::Demo(args) => commands::demo::run(args, &environment).await,
    };
    outcome.unwrap_or_else(|error| {
        terminal::complain(&format!("headroom: {}", exit::reason(&error)));
        let source = error.downcast_ref::<source::SourceError>().is_some_and(source::SourceError::is_usage);
        let knob = error.downcast_ref::<knob::Error>().is_some_and(knob::Error::is_usage);
        if source || knob || error.is::<exit::UsageError>() { exit::usage() } else { exit::error() }
    })
}
