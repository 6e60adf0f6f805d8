//! `headroom completions`: what a shell completes.

use crate::cli;
use clap::Args;
use manual::Shell;
use std::process::ExitCode;
use term::{exit, terminal};

const EXAMPLES: &str = "\
Examples:
  headroom completions bash > /etc/bash_completion.d/headroom
  headroom completions zsh > /usr/local/share/zsh/site-functions/_headroom
  headroom completions fish > ~/.config/fish/completions/headroom.fish

They take effect in the next shell.";

/// Print completions for a shell.
#[derive(Args, Debug, Clone)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CompletionsArgs {
    /// The shell that will read them.
    #[arg(value_enum)]
    shell: Shell,
}

/// Runs `headroom completions`.
pub(crate) fn run(args: &CompletionsArgs) -> anyhow::Result<ExitCode> {
    terminal::print(&manual::completions(cli::table(), args.shell))?;
    Ok(exit::DONE)
}
