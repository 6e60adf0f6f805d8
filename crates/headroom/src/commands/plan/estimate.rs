//! `headroom plan estimate`: a larger buffer pool, from the reads that the kernel sees.

use super::{KeepArgs, none, past};
use crate::commands::knob::{blocking, credentials_as};
use crate::environment::Environment;
use clap::Args;
use fleet::Address;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use term::{exit, terminal};
use whatif::estimate::{EstimateError, answer, trace};
use whatif::memory::parse_sizes;
use whatif::server::Server;
use whatif::words::ValueError;

const EXAMPLES: &str = "\
Examples:
  headroom plan estimate --server 127.0.0.1:3306 --directory /var/lib/mysql --sizes 24G,32G,48G

Needs root on the server's host, tracefs, a data directory on a block device (ext4, xfs), and a server with pages of
16 KiB that reads past the page cache (innodb_flush_method = O_DIRECT, innodb_data_file_buffering = OFF).

Exit code 1: nothing is estimated (the text says why).";

/// Estimate what a larger buffer pool would miss, from the reads of the disk. Nothing is resized.
#[derive(Args, Debug, Clone)]
#[command(after_help = EXAMPLES)]
pub(crate) struct EstimateArgs {
    /// The server, on this host.
    #[arg(long, short, value_name = "ADDR")]
    server: Address,
    /// Account [default: from the option file, else $HEADROOM_USER].
    #[arg(long, short, value_name = "NAME")]
    user: Option<String>,
    /// Option file with user and password, in the format of ~/.my.cnf (which is the default).
    #[arg(long, value_name = "FILE")]
    option_file: Option<PathBuf>,
    /// The server's data directory: reads of the device that holds it are traced.
    #[arg(long, value_name = "DIR")]
    directory: PathBuf,
    /// Larger sizes of the pool, such as 32G.
    #[arg(long, value_name = "SIZE", value_delimiter = ',', required = true)]
    sizes: Vec<String>,
    /// How long is traced.
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = fleet::parse_duration)]
    time: Duration,
    #[command(flatten)]
    keep: KeepArgs,
}

/// Does it.
pub(crate) async fn run(args: EstimateArgs, environment: &Environment) -> anyhow::Result<ExitCode> {
    let wrong = |error: ValueError| exit::usage_error(format!("--sizes: {error}"));
    let sizes = parse_sizes(&args.sizes, 1..=20).map_err(wrong)?;
    let who = credentials_as(args.user.as_deref(), args.option_file.as_deref(), environment)?;
    let listening = term::StopFlag::listen(|| ());
    let (address, directory, time, stop) =
        (args.server.clone(), args.directory.clone(), args.time, listening.flag());
    let traced = blocking(move || {
        let server = Server::open(&address, &who).map_err(EstimateError::from);
        Ok(server.and_then(|mut server| trace(&mut server, &directory, time, &stop, terminal::complain)))
    });
    let traced = match traced.await? {
        Err(why) if why.is_refusal() => return none("estimate", why, args.keep.json),
        traced => traced?,
    };
    let entries = args.keep.path(environment).ok().map(|path| past(&path)).transpose()?;
    let subject = args.server.to_string();
    let answer = answer(subject, &traced, &sizes, &entries.unwrap_or_default());
    args.keep.finish(&answer, environment)
}
