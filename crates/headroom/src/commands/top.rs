//! `headroom top`: which statements, endpoints and servers take the time. A screen on a terminal, a table
//! elsewhere.

use crate::commands::status::AdminArgs;
use crate::environment::Environment;
use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use console::admin_client::AdminClient;
use console::insight_view::{By, Question, ROWS, Sort};
use console::top;
use insight::Since;
use std::process::ExitCode;
use term::{Paint, exit, terminal};

const EXAMPLES: &str = "\
Examples:
  headroom top                                  a screen: digests of the last seconds, most time first
  headroom top --by endpoint --sort p99
  headroom top --by request --once              queries per request, by endpoint: the N+1 finder
  headroom top --endpoint checkout --once       the statements that this endpoint sends
  headroom top --json --since-start | jq '.rows[] | [.count, .p99_ms, .name]'

What each figure is and what cannot be seen: docs/guide/insight.md.";

/// Which statements, endpoints and servers take the time, as a running `headroom route` measures it.
#[derive(Args, Debug, Clone)]
#[command(after_help = EXAMPLES)]
pub(crate) struct TopArgs {
    /// What the figures are grouped by.
    #[arg(long, value_parser = by(), default_value = "digest")]
    by: By,
    /// What stands first [default: queries for requests, else time].
    #[arg(long, value_parser = sort())]
    sort: Option<Sort>,
    /// Only statements of this endpoint.
    #[arg(long, value_name = "NAME")]
    endpoint: Option<String>,
    /// Only statements that this server answered.
    #[arg(long, value_name = "NAME")]
    server: Option<String>,
    /// Only this digest, by its id.
    #[arg(long, value_name = "ID")]
    digest: Option<String>,
    /// Since the router started, in place of the last ten to fifteen seconds.
    #[arg(long)]
    since_start: bool,
    /// Rows at most.
    #[arg(long, value_name = "N", default_value_t = ROWS)]
    limit: usize,
    /// Print a table once and end; so it does when the output is no terminal.
    #[arg(long)]
    once: bool,
    /// Where the router answers.
    #[command(flatten)]
    admin: AdminArgs,
}

fn by() -> impl TypedValueParser<Value = By> {
    let words = By::ALL.map(|by| PossibleValue::new(by.word()).help(by.about()));
    PossibleValuesParser::new(words).try_map(|word| By::named(&word).ok_or("unknown"))
}

fn sort() -> impl TypedValueParser<Value = Sort> {
    let words = Sort::ALL.map(|sort| PossibleValue::new(sort.word()).help(sort.about()));
    PossibleValuesParser::new(words).try_map(|word| Sort::named(&word).ok_or("unknown"))
}

/// Runs `headroom top`.
pub(crate) async fn run(args: TopArgs, environment: &Environment) -> anyhow::Result<ExitCode> {
    let client = AdminClient::new(environment.router(args.admin.admin.as_deref()));
    let question = Question {
        by: args.by,
        sort: args.sort,
        since: if args.since_start { Since::Start } else { Since::Recent },
        limit: args.limit,
        digest: args.digest,
        endpoint: args.endpoint,
        server: args.server,
    };
    if args.admin.json {
        terminal::print_json(&client.insight(&question).await?)?;
    } else if args.once || !environment.has_screen() {
        let view = client.insight(&question).await?;
        terminal::print(&top::text(&view, Paint::for_stdout(environment.no_colour)))?;
    } else {
        top::run(&client, question).await?;
    }
    Ok(exit::DONE)
}
