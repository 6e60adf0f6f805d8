//! `headroom load`: send a workload and say what came of it. Flags become a plan here; what is sent and how
//! it is measured is the crate `load`.

pub(crate) mod tls;
mod workload;

use crate::commands::knob::{credentials_as, restore_line};
use crate::commands::report;
use crate::environment::Environment;
use crate::option_files;
use anyhow::{Context, anyhow, bail};
use clap::{Args, Subcommand, ValueEnum};
use config::option_file::Login;
use config::{Credentials, DataPath, Tls};
use fleet::Address;
use load::arrivals::{Arrivals, Open, Spacing};
use load::store::Store;
use load::tables::{TablesChange, TablesReport};
use load::workload::Named;
use load::workload::file::File;
use load::{Account, LoadError, Plan, PlanError, ProgressView, Target};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use term::{Paint, StopFlag, exit, terminal};
pub(crate) use workload::{WorkloadArgs, named};

const EXAMPLES: &str = "\
Examples:
  headroom load prepare oltp_read_write --server db1 --database sbtest --tables 4 --table-size 100000
  headroom load run oltp_read_write --server db1 --database sbtest --tables 4 --table-size 100000 --clients 16
      A closed loop of 16 clients, comparable with sysbench --threads=16.
  headroom load run oltp_read_only --server db1 --database sbtest --rate 500 --clients 64 --time 60s
      An open loop: 500 transactions a second, whatever the server does; response time from the intended start.
  headroom load run oltp_read_only --server db1 --database sbtest --clients 16 --idle 5000
      5016 open connections, 16 of them busy at a time, as behind large pools.
  headroom load run oltp_point_select --reader db2 --reader db3 --database sbtest --json > run.json

Exit code 1: there are figures, and they must not be used (the text says why).";

const RUN_EXAMPLES: &str = "\
Examples:
  headroom load run oltp_read_write --server db1 --tables 4 --table-size 100000 --clients 16
      A closed loop.
  headroom load run oltp_read_only --server db1 --rate 500 --clients 64 --time 60s
      An open loop: 500 transactions a second, whatever the server does.
  headroom load run shop.toml --reader db2 --writer db1 --database shop --json
      A workload of your own.

Exit code 1: there are figures, and they must not be used (the text says why).";

const PREPARE_EXAMPLES: &str = "\
Examples:
  headroom load prepare oltp_read_write --server db1 --tables 4 --table-size 100000
  headroom load prepare shop.toml --server db1 --database shop
      A workload of your own: the statements that its file has for this.";

const CLEANUP_EXAMPLES: &str = "\
Examples:
  headroom load cleanup oltp_read_write --server db1 --tables 4
  headroom load cleanup shop.toml --server db1 --database shop
      A workload of your own: the statements that its file has for this.";

/// Send a workload and report rates, latencies and errors.
#[derive(Subcommand, Debug, Clone)]
#[command(after_help = EXAMPLES)]
pub(crate) enum LoadCommand {
    /// Send it, measure, print.
    Run(Box<RunArgs>),
    /// Make and fill the tables (sysbench's own: either tool can prepare, both can run).
    #[command(after_help = PREPARE_EXAMPLES)]
    Prepare(PrepareArgs),
    /// Remove the tables.
    #[command(after_help = CLEANUP_EXAMPLES)]
    Cleanup(PrepareArgs),
    /// What can be sent.
    List(ListArgs),
}

/// Where the load goes.
#[derive(Args, Debug, Clone)]
pub(crate) struct TargetArgs {
    /// The server (or router) for everything: host:port, or the path of a unix socket.
    #[arg(long, short, value_name = "ADDR")]
    server: Option<Address>,
    /// Reads go here [default: as --server]. Repeatable: clients are spread evenly.
    #[arg(long, value_name = "ADDR")]
    reader: Vec<Address>,
    /// Writes go here [default: as --server]. Repeatable.
    #[arg(long, value_name = "ADDR")]
    writer: Vec<Address>,
    /// Account [default: from the option file, else $HEADROOM_USER].
    #[arg(long, short, value_name = "NAME")]
    user: Option<String>,
    /// Database.
    #[arg(long, short, value_name = "NAME", default_value = "sbtest")]
    database: String,
    /// Option file with user and password, in the format of ~/.my.cnf (which is the default).
    #[arg(long, value_name = "FILE")]
    option_file: Option<PathBuf>,
    #[command(flatten)]
    tls: tls::TlsArgs,
}

/// Flags of `headroom load run`.
#[derive(Args, Debug, Clone)]
#[command(after_help = RUN_EXAMPLES)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    workload: WorkloadArgs,
    #[command(flatten)]
    target: TargetArgs,
    /// Clients: the most transactions at a time.
    #[arg(long, short, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    clients: u32,
    /// Connections beyond one for each client: that many are idle at any time, and all take turns.
    #[arg(long, value_name = "CONNECTIONS", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=100_000))]
    idle: u32,
    /// Threads that send [default: one for every 64 clients, at most one a core].
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Never sleep: look for arrivals and answers again and again. For latencies below 0.1 ms; each thread
    /// needs a core of its own.
    #[arg(long)]
    busy: bool,
    /// How bytes get to the servers and back, for comparisons: io_uring unless it is not available.
    #[arg(long, value_name = "WAY", default_value = "auto", hide = true)]
    data_path: DataPathArg,
    /// Transactions a second, begun at moments fixed in advance (open loop) [default: a closed loop].
    #[arg(long, value_name = "PER_SECOND")]
    rate: Option<f64>,
    /// How those moments are spread.
    #[arg(long, value_name = "HOW", default_value = "poisson", requires = "rate")]
    arrivals: SpacingArg,
    /// The rate grows to its full height in this time.
    #[arg(long, value_name = "DURATION", value_parser = fleet::parse_duration, requires = "rate")]
    ramp: Option<Duration>,
    /// Pause of a client between two transactions (closed loop).
    #[arg(long, value_name = "DURATION", value_parser = fleet::parse_duration, conflicts_with = "rate")]
    think: Option<Duration>,
    /// How long is measured.
    #[arg(long, short, value_name = "DURATION", default_value = "10s", value_parser = fleet::parse_duration)]
    time: Duration,
    /// Load before that, not counted; its queue is drained.
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = fleet::parse_duration)]
    warm_up: Duration,
    /// What was due before the end may be answered this much later.
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = fleet::parse_duration)]
    grace: Duration,
    /// From which keys and moments follow.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Answers later than this are counted as late.
    #[arg(long, value_name = "DURATION", value_parser = fleet::parse_duration)]
    objective: Option<Duration>,
    /// Refuse workloads that change data; the sessions are read-only for the server too.
    #[arg(long)]
    read_only: bool,
    /// The history that the run is kept in [default: headroom/history.sqlite in the user's data directory].
    #[arg(long, value_name = "FILE")]
    store: Option<PathBuf>,
    /// Keep nothing.
    #[arg(long, conflicts_with = "store")]
    no_store: bool,
    /// What the run is called in the history.
    #[arg(long, value_name = "TEXT", default_value = "")]
    label: String,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Flags of `headroom load prepare` and `cleanup`.
#[derive(Args, Debug, Clone)]
pub(crate) struct PrepareArgs {
    #[command(flatten)]
    workload: WorkloadArgs,
    #[command(flatten)]
    target: TargetArgs,
    /// Sessions that fill tables at the same time.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=256))]
    sessions: u32,
    /// Print what was done as JSON.
    #[arg(long)]
    json: bool,
}

/// Flags of `headroom load list`.
#[derive(Args, Debug, Clone)]
#[command(after_help = "Examples:\n  headroom load list\n  headroom load list --json")]
pub(crate) struct ListArgs {
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// `--arrivals`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum SpacingArg {
    /// Exponential gaps, as of independent users.
    Poisson,
    /// Equal gaps.
    Even,
}

/// `--data-path`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum DataPathArg {
    Auto,
    #[value(name = "io_uring")]
    IoUring,
    Epoll,
}

impl From<DataPathArg> for DataPath {
    fn from(arg: DataPathArg) -> Self {
        match arg {
            DataPathArg::Auto => Self::Auto,
            DataPathArg::IoUring => Self::IoUring,
            DataPathArg::Epoll => Self::Epoll,
        }
    }
}

/// Does what was asked.
pub(crate) async fn run(command: LoadCommand, environment: &Environment) -> anyhow::Result<ExitCode> {
    match command {
        LoadCommand::Run(args) => send(*args, environment).await,
        LoadCommand::Prepare(args) => prepare(args, environment).await,
        LoadCommand::Cleanup(args) => cleanup(args, environment).await,
        LoadCommand::List(args) => {
            if args.json {
                terminal::print_json(&load::workload::named::all())?;
            } else {
                terminal::print(&load::workload::named::list())?;
            }
            Ok(exit::DONE)
        }
    }
}

async fn send(args: RunArgs, environment: &Environment) -> anyhow::Result<ExitCode> {
    let plan = args.plan(environment)?;
    let store = args.history(environment)?;
    let target = args.target.words();
    let flag = StopFlag::listen(|| ());
    let stop = flag.flag();
    let outcome = tokio::task::spawn_blocking(move || {
        let view = ProgressView::new(&plan);
        load::run(&plan, &stop, |progress| view.show(&progress))
    });
    let outcome = outcome.await.context("the load generator ended unexpectedly")?;
    let outcome = outcome.map_err(or_wrong_command_line)?;
    if flag.is_set() {
        // What is under way at the end of a warm-up counts as begun, and nothing of it was answered.
        if outcome.totals.done + outcome.totals.failed == 0 {
            bail!("interrupted before anything was measured; there are no figures");
        }
        terminal::complain(&format!("interrupted: the figures are of the first {:.1} s", outcome.seconds));
    }
    // Whoever cannot be shown the figures has them in the history, and the other way round.
    let kept = store.map(|store| store.keep(&outcome, &target, &args.label));
    if args.json {
        terminal::print_json(&outcome)?;
    } else {
        terminal::print(&load::outcome::text::outcome(&outcome, Paint::for_stdout(environment.no_colour)))?;
    }
    if let Some(run) = kept.transpose()? {
        terminal::complain(&format!("kept as run {run}: headroom report {run}"));
    }
    Ok(if outcome.is_sound() { exit::DONE } else { exit::no() })
}

/// A load that no server could be sent is a wrong command line; everything else is an error.
pub(crate) fn or_wrong_command_line(error: LoadError) -> anyhow::Error {
    match error {
        LoadError::Plan(PlanError::NoTime | PlanError::Rate | PlanError::NoAddress { .. }) => {
            exit::usage_error(error.to_string())
        }
        other => other.into(),
    }
}

async fn prepare(args: PrepareArgs, environment: &Environment) -> anyhow::Result<ExitCode> {
    let target = args.target.resolve(environment)?;
    if let Named::File(file) = args.workload.named()? {
        return args.statements(TablesChange::Prepared, target, file.prepare).await;
    }
    let options = args.workload.options()?;
    let (sessions, sent) = (args.sessions, options.clone());
    let made = |table: u32| terminal::complain(&format!("sbtest{table} is ready"));
    let stop = StopFlag::listen(ending);
    let flag = stop.flag();
    let made = tokio::task::spawn_blocking(move || {
        load::tables::prepare_until(&target, &sent, sessions, 1, &flag, made)
    });
    let left = "what was not ready is removed again, and what was stays; headroom load cleanup removes that";
    made.await?.map_err(|error| interrupted(error, left))?;
    let (tables, rows_each) = (load::tables::names(&options), Some(options.table_size));
    args.show(&TablesReport { tables, rows_each, ..args.report(TablesChange::Prepared) })
}

async fn cleanup(args: PrepareArgs, environment: &Environment) -> anyhow::Result<ExitCode> {
    let target = args.target.resolve(environment)?;
    if let Named::File(file) = args.workload.named()? {
        // What a file of the user's own removes is the user's to know.
        if File::built_in(args.workload.name()).is_some() {
            let (to, prepare) = (target.clone(), file.prepare.clone());
            let checked = tokio::task::spawn_blocking(move || load::tables::check_own(&to, &prepare));
            checked.await?.map_err(or_wrong_command_line)?;
        }
        return args.statements(TablesChange::Removed, target, file.cleanup).await;
    }
    let options = args.workload.options()?;
    let tables = load::tables::names(&options);
    let stop = StopFlag::listen(ending);
    let flag = stop.flag();
    let removed = tokio::task::spawn_blocking(move || load::tables::cleanup_until(&target, &options, &flag));
    removed.await?.map_err(|error| interrupted(error, NOT_REMOVED))?;
    args.show(&TablesReport { tables, ..args.report(TablesChange::Removed) })
}

const NOT_REMOVED: &str = "not everything is removed; the same command removes the rest";

/// Said when somebody asks for the end of a statement that may take long.
fn ending() {
    terminal::complain("ending what the server is at");
}

/// What is there when tables were to be made or removed, and somebody asked for the end.
fn interrupted(error: LoadError, left: &str) -> anyhow::Error {
    match error {
        LoadError::Interrupted => anyhow!("interrupted: {left}"),
        other => or_wrong_command_line(other),
    }
}

impl PrepareArgs {
    /// Of a workload that has statements of its own for its tables.
    async fn statements(
        &self,
        done: TablesChange,
        target: Target,
        statements: Vec<String>,
    ) -> anyhow::Result<ExitCode> {
        let count = statements.len();
        let stop = StopFlag::listen(ending);
        let flag = stop.flag();
        let sent =
            tokio::task::spawn_blocking(move || load::tables::statements_until(&target, &statements, &flag));
        let left = match done {
            TablesChange::Prepared => "what was sent before stays; headroom load cleanup removes it",
            TablesChange::Removed => NOT_REMOVED,
        };
        sent.await?.map_err(|error| interrupted(error, left))?;
        self.show(&TablesReport { statements: count, ..self.report(done) })
    }

    fn report(&self, done: TablesChange) -> TablesReport {
        TablesReport {
            done,
            workload: self.workload.name().to_owned(),
            target: self.target.words(),
            database: self.target.database.clone(),
            tables: Vec::new(),
            rows_each: None,
            statements: 0,
        }
    }

    /// People see on standard error what was made.
    fn show(&self, report: &TablesReport) -> anyhow::Result<ExitCode> {
        if self.json {
            terminal::print_json(report)?;
        }
        Ok(exit::DONE)
    }
}

impl RunArgs {
    fn plan(&self, environment: &Environment) -> anyhow::Result<Plan> {
        let workload = self.workload.named()?.workload();
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Ok(Plan {
            workload: Arc::new(workload),
            target: self.target.resolve(environment)?,
            clients: self.clients,
            idle: self.idle,
            read_only: self.read_only,
            threads: self.threads.map_or_else(|| Plan::usual_threads(self.clients, cores), usize::from),
            busy: self.busy,
            data_path: self.data_path.into(),
            arrivals: self.arrivals(),
            warm_up: self.warm_up,
            time: self.time,
            grace: self.grace,
            seed: self.seed,
            objective: self.objective,
        })
    }

    /// Opened before the load, so that a history that cannot be written is noticed before an hour is spent.
    fn history(&self, environment: &Environment) -> anyhow::Result<Option<Store>> {
        if self.no_store {
            return Ok(None);
        }
        let path = self.store.clone().or_else(|| report::usual_store(environment));
        let path =
            path.context("no home directory is known; name a history with --store, or use --no-store")?;
        Ok(Some(Store::open(&path)?))
    }

    fn arrivals(&self) -> Arrivals {
        let Some(rate) = self.rate else {
            return Arrivals::Closed { think: self.think.unwrap_or_default() };
        };
        let spacing = match self.arrivals {
            SpacingArg::Poisson => Spacing::Poisson,
            SpacingArg::Even => Spacing::Even,
        };
        Arrivals::Open(Open { rate, ramp: self.ramp.map(|time| (0.0, time)), spacing })
    }
}

impl TargetArgs {
    /// What puts back settings that this journal has, by the same account.
    pub(crate) fn restore_line(&self, journal: Option<&Path>) -> String {
        restore_line(journal, None, self.user.as_deref(), self.option_file.as_deref())
    }

    /// Where it goes, for people.
    pub(crate) fn words(&self) -> String {
        let all = self.server.iter().chain(&self.reader).chain(&self.writer);
        all.map(Address::to_string).collect::<Vec<_>>().join(", ")
    }

    /// The server for reads, if one is named.
    pub(crate) fn server(&self) -> Option<Address> {
        self.reader.first().or(self.server.as_ref()).cloned()
    }

    /// Who asks servers and sets their variables beside the load.
    pub(crate) fn credentials(&self, environment: &Environment) -> anyhow::Result<Credentials> {
        credentials_with_tls(self.user.as_deref(), self.option_file.as_deref(), &self.tls, environment)
    }

    /// Addresses and account, from flags, option file and environment.
    pub(crate) fn resolve(&self, environment: &Environment) -> anyhow::Result<Target> {
        let or_server = |named: &[Address]| match named {
            [] => self.server.iter().cloned().collect(),
            some => some.to_vec(),
        };
        let (readers, writers) = (or_server(&self.reader), or_server(&self.writer));
        if readers.is_empty() && writers.is_empty() {
            return Err(exit::usage_error(
                "nothing says where to send it; name a server with --server db1:3306",
            ));
        }
        let (account, tls) = account_with_tls(
            self.user.as_deref(),
            self.option_file.as_deref(),
            &self.database,
            &self.tls,
            environment,
        )?;
        Ok(Target { readers, writers, account, tls })
    }
}

/// Who logs in, and TLS: the flags, else the option file, else the environment.
///
/// # Errors
/// An option file that cannot be read, no account at all, TLS whose files are not named.
pub(crate) fn account_with_tls(
    user: Option<&str>,
    option_file: Option<&Path>,
    database: &str,
    tls: &tls::TlsArgs,
    environment: &Environment,
) -> anyhow::Result<(Account, Option<Tls>)> {
    let (file, note) = option_files::find(option_file, environment)?;
    note.iter().for_each(|note| terminal::complain(note));
    let tls = tls.complete(&file)?;
    Ok((account(user, file, database, environment)?, tls))
}

/// The same account for connections that ask servers and set their variables beside a load, with the same
/// TLS. Where nothing names a mode these use TLS if the server offers it: it costs them nothing that is
/// measured.
///
/// # Errors
/// As [`account_with_tls`].
pub(crate) fn credentials_with_tls(
    user: Option<&str>,
    option_file: Option<&Path>,
    tls: &tls::TlsArgs,
    environment: &Environment,
) -> anyhow::Result<Credentials> {
    let mut who = credentials_as(user, option_file, environment)?;
    // What is to be noted of it was, of the same file.
    let (file, _) = option_files::find(option_file, environment)?;
    if let Some(tls) = tls.complete(&file)? {
        who.tls = tls;
    }
    Ok(who)
}

fn account(
    user: Option<&str>,
    file: Login,
    database: &str,
    environment: &Environment,
) -> anyhow::Result<Account> {
    let user = user.map(str::to_owned).or(file.user).or_else(|| environment.user.clone());
    Ok(Account {
        user: user.ok_or_else(|| {
            exit::usage_error("no account is named; use --user, an option file or $HEADROOM_USER")
        })?,
        password: file.password.or_else(|| environment.password.clone()).unwrap_or_default(),
        database: database.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use config::TlsMode;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        target: TargetArgs,
    }

    /// What the load and what the connections beside it make of the same flags and option file.
    fn both(flags: &str, option_file: &str) -> (Option<Tls>, Tls) {
        let home = tempfile::tempdir().unwrap();
        let text = format!("[client]\nuser = app\npassword = secret\n{option_file}\n");
        std::fs::write(home.path().join(".my.cnf"), text).unwrap();
        let environment = Environment { home: Some(home.path().to_owned()), ..Environment::default() };
        let words = ["headroom", "--server", "db1"].into_iter().chain(flags.split_whitespace());
        let target = Line::try_parse_from(words).unwrap().target;
        let (load, beside) =
            (target.resolve(&environment).unwrap(), target.credentials(&environment).unwrap());
        assert_eq!(Some(load.account.user), beside.user);
        assert_eq!(Some(load.account.password), beside.password);
        (load.tls, beside.tls)
    }

    #[test]
    fn every_connection_of_an_account_has_the_tls_of_the_flags_and_of_the_option_file() {
        let tls = |mode: TlsMode, ca: &str| Tls { mode, ca: Some(ca.into()), ..Tls::default() };
        for (flags, option_file, expected) in [
            ("--ssl-mode VERIFY_IDENTITY --ssl-ca /ca.pem", "", tls(TlsMode::VerifyIdentity, "/ca.pem")),
            ("--ssl-ca /ca.pem", "", tls(TlsMode::VerifyCa, "/ca.pem")),
            ("", "ssl-mode = VERIFY_CA\nssl-ca = /file.pem", tls(TlsMode::VerifyCa, "/file.pem")),
            ("--ssl-mode VERIFY_IDENTITY", "ssl-ca = /file.pem", tls(TlsMode::VerifyIdentity, "/file.pem")),
            ("--ssl-mode DISABLED", "ssl-mode = REQUIRED", Tls { mode: TlsMode::Disabled, ..Tls::default() }),
        ] {
            assert_eq!(both(flags, option_file), (Some(expected.clone()), expected), "{flags} {option_file}");
        }
        assert_eq!(both("", ""), (None, Tls::default()), "the load without TLS, the others as it is offered");
    }
}
