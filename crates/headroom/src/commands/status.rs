//! `headroom status`: a running router, asked at its admin address.

use crate::environment::Environment;
use clap::Args;
use console::admin_client::AdminClient;
use console::status_text;
use std::process::ExitCode;
use term::{Paint, exit, terminal};

/// Where a running router answers.
#[derive(Args, Debug, Clone)]
pub(crate) struct AdminArgs {
    /// Admin address of the running router [default: $HEADROOM_ADMIN, else 127.0.0.1:9306].
    #[arg(long, value_name = "ADDR")]
    pub(crate) admin: Option<String>,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

const STATUS_EXAMPLES: &str = "\
Examples:
  headroom status
  headroom status --admin 10.0.0.7:9306 --json | jq .fallbacks

The same as a page for a browser: http://127.0.0.1:9306/";

/// Ask a running `headroom route` how things stand.
#[derive(Args, Debug, Clone)]
#[command(after_help = STATUS_EXAMPLES)]
pub(crate) struct StatusArgs {
    /// Where it answers.
    #[command(flatten)]
    pub(crate) admin: AdminArgs,
}

/// Runs `headroom status`.
pub(crate) async fn run(args: StatusArgs, environment: &Environment) -> anyhow::Result<ExitCode> {
    let status = AdminClient::new(environment.router(args.admin.admin.as_deref())).status().await?;
    if args.admin.json {
        terminal::print_json(&status)?;
    } else {
        terminal::print(&status_text::text(&status, Paint::for_stdout(environment.no_colour)))?;
    }
    Ok(exit::DONE)
}
