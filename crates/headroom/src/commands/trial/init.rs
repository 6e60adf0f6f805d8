//! `headroom trial init`: a spec from what a server offers, and this host. Nothing is touched.

use crate::commands::knob::{blocking, connect_as};
use crate::commands::refused;
use crate::environment::Environment;
use clap::Args;
use fleet::Address;
use knob::Host;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use term::{exit, terminal};
use trial::init::{self, Request};

const EXAMPLES: &str = "\
Examples:
  headroom trial init --server 127.0.0.1:3306 > t.toml
  headroom trial init --server 127.0.0.1:3306 --workload oltp_read_only --threads 16 --threads 32 --budget 100m

The tables of the workload must be there: headroom load prepare WORKLOAD --server ... makes them.

Exit code 1: the server has none of the variables that are worth a trial.";

/// Write a spec from what a server and this host offer.
///
/// Variables of the server that can be set while it runs and lose no data, each with its present value as the
/// baseline. Settings of this host are written as comments: they concern everything that runs on it. So are
/// variables that can lose data, and what takes a restart: more variables, allocator and file system.
#[derive(Args, Debug, Clone)]
#[command(after_help = EXAMPLES)]
pub(crate) struct InitArgs {
    /// The server.
    #[arg(long, short, value_name = "HOST:PORT")]
    server: Address,
    /// Account [default: from the option file, else $HEADROOM_USER].
    #[arg(long, short, value_name = "NAME")]
    user: Option<String>,
    /// Option file with user, password and TLS, in the format of ~/.my.cnf (which is the default).
    #[arg(long, value_name = "FILE")]
    option_file: Option<PathBuf>,
    /// What is sent (headroom load list).
    #[arg(long, value_name = "NAME", default_value = "oltp_read_write")]
    workload: String,
    /// Clients of a closed loop. Repeatable, each an experiment of its own.
    #[arg(long, value_name = "CLIENTS", default_value = "16", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    threads: Vec<u32>,
    /// Database.
    #[arg(long, value_name = "NAME", default_value = "sbtest")]
    database: String,
    /// Tables sbtest1 to sbtestN.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    tables: u32,
    /// Rows of each table.
    #[arg(long, default_value_t = 10_000)]
    table_size: u32,
    /// All of it is to take this long at most.
    #[arg(long, value_name = "DURATION", default_value = "60m", value_parser = fleet::parse_duration)]
    budget: Duration,
    /// Print JSON: the text, and what was left out, or {"refused": WHY}.
    #[arg(long)]
    json: bool,
}

pub(super) async fn init(args: InitArgs, environment: &Environment) -> anyhow::Result<ExitCode> {
    let mut connect = connect_as(args.user.as_deref(), args.option_file.as_deref(), environment)?;
    let address = args.server.to_string();
    let ((factors, left_out), dangerous, by_restart) = blocking(move || {
        let mut server = connect(&address)?;
        let plain = init::of_server(&mut *server)?;
        let by_restart = init::by_restart(&mut *server, &Host::new("/"))?;
        Ok((plain, init::dangerous(&mut *server)?, by_restart))
    })
    .await?;
    if factors.is_empty() {
        let why = "this server has none of the variables that are worth a trial";
        terminal::complain(&format!("headroom: {why}"));
        return refused(why, args.json);
    }
    let host = init::of_host(&Host::new("/"));
    let request = Request {
        server: args.server,
        workload: args.workload,
        threads: args.threads,
        database: args.database,
        tables: args.tables,
        table_size: args.table_size,
        budget: args.budget,
    };
    let text = init::spec(&request, &factors, &dangerous, &by_restart, &host);
    for words in &left_out {
        terminal::complain(&format!("left out: {words}"));
    }
    if args.json {
        terminal::print_json(&serde_json::json!({ "spec": text, "left_out": left_out }))?;
    } else {
        terminal::print(&text)?;
    }
    Ok(exit::DONE)
}
