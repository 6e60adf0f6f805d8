//! `headroom status`: a running router, asked at its admin address.

use crate::environment::Environment;
use clap::Args;
use console::admin_client::AdminClient;
use console::{status_text, wait_warm};
use std::process::ExitCode;
use std::time::Duration;
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
  headroom status --wait-warm db4 --timeout 10m && headroom drain db3     the next of a rolling restart

With --wait-warm: exit code 0 when db4 is warm, 1 when it is not warm in time, 2 when it cannot be waited for.

The same as a page for a browser: http://127.0.0.1:9306/";

/// Ask a running `headroom route` how things stand.
#[derive(Args, Debug, Clone)]
#[command(after_help = STATUS_EXAMPLES)]
pub(crate) struct StatusArgs {
    /// Where it answers.
    #[command(flatten)]
    pub(crate) admin: AdminArgs,
    /// Wait until this server takes reads and counts as warm; for scripts.
    #[arg(long, value_name = "SERVER")]
    pub(crate) wait_warm: Option<String>,
    /// Give up waiting after this long.
    #[arg(long, value_name = "DURATION", value_parser = fleet::parse_duration, requires = "wait_warm",
        default_value = "15m")]
    pub(crate) timeout: Duration,
}

/// Runs `headroom status`.
pub(crate) async fn run(args: StatusArgs, environment: &Environment) -> anyhow::Result<ExitCode> {
    let router = AdminClient::new(environment.router(args.admin.admin.as_deref()));
    if let Some(server) = &args.wait_warm {
        return wait_warm::run(&router, server, args.timeout, args.admin.json).await;
    }
    let status = router.status().await?;
    if args.admin.json {
        terminal::print_json(&status)?;
    } else {
        terminal::print(&status_text::text(&status, Paint::for_stdout(environment.no_colour)))?;
    }
    Ok(exit::DONE)
}
