//! `headroom-bench relay`: the relay table, in one run on this machine.

use super::progress::Progress;
use super::report::{Report, markdown};
use super::sample::{Cost, Found, Sample};
use super::schedule::{Block, Condition, Plan, Subject};
use super::server::Server;
use super::subject::{self, Running, SubjectEnv};
use super::{RelayArgs, client, load, output, process, sysbench};
use crate::binary;
use anyhow::{Context, anyhow};
use lab::process::Process;
use plan::quantile::{nearest_rank, sorted};
use probe::Machine;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use term::{exit, interrupted, terminal};

/// Where distributions put programs.
const DIRECTORIES: [&str; 6] =
    ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];
/// Put there by `scripts/mysql-root.sh`.
const HAPROXY_NEWER: &str = "target/haproxy-new/haproxy";
const MYSQL_ROUTER: &str = "target/mysqlrouter/mysqlrouter";
/// Files a process has open beside its sessions.
const SPARE_FILES: u64 = 200;
/// This long we watch whether others use the machine.
const QUIET_LOOK: Duration = Duration::from_secs(2);
/// A step that is not a load (logins, a stop) hangs when it takes longer.
const STEP: Duration = Duration::from_secs(60);

/// Programs that are needed, found before anything starts.
#[derive(Clone, Debug)]
struct Tools {
    sysbench: PathBuf,
    haproxy: PathBuf,
    haproxy_newer: Option<PathBuf>,
    mysql_router: Option<PathBuf>,
    headroom: PathBuf,
}

/// Measures, writes the run's directory, prints the tables.
pub(crate) async fn run(args: RelayArgs) -> anyhow::Result<ExitCode> {
    let tools = Tools::find(&args)?;
    let plan = args.plan(&tools.rivals())?;
    subject::ports_are_free(args.port)?;
    allow_files(u64::from(plan.most_sessions()))?;
    let directory = output::Directory::new(args.out.as_deref(), "relay", args.quick)?;
    announce(&plan, directory.path());
    let mut machine = Machine::look(&tools.programs(), QUIET_LOOK).await?;
    let mut samples = Vec::new();
    let outcome = {
        let measuring = measured(&args, &tools, &plan, &mut machine, &mut samples);
        tokio::select! {
            outcome = tokio::time::timeout(plan.deadline(), measuring) => {
                outcome.unwrap_or_else(|_| Err(anyhow!("the run hangs: it took three times as long as planned")))
            }
            () = interrupted() => Err(anyhow!("interrupted: everything that was started is stopped")),
        }
    };
    let directory = if outcome.is_ok() { directory } else { output::Directory::unfinished("relay") };
    let mut report = Report::new(directory.date().to_owned(), machine, plan, samples);
    if let Err(error) = outcome {
        report.warnings.push(format!("the run was not finished: {error:#}"));
        if !report.samples.is_empty() {
            write(&report, directory)?;
        }
        return Err(error);
    }
    write(&report, directory)?;
    print(&report, args.json)?;
    Ok(exit::DONE)
}

impl Tools {
    fn find(args: &RelayArgs) -> anyhow::Result<Self> {
        let find = |name: &str| {
            let found = DIRECTORIES.iter().map(|d| Path::new(d).join(name)).find(|path| path.is_file());
            found.with_context(|| format!("{name} is missing; run scripts/install.sh bench"))
        };
        let newer = args.haproxy_newer.clone().or_else(|| Some(PathBuf::from(HAPROXY_NEWER)));
        let unasked = (!args.quick).then(|| PathBuf::from(MYSQL_ROUTER));
        let router = args.mysql_router.clone().or(unasked);
        Ok(Self {
            sysbench: find("sysbench")?,
            haproxy: args.haproxy.clone().map_or_else(|| find("haproxy"), Ok)?,
            haproxy_newer: newer.filter(|path| path.is_file() && !args.quick),
            mysql_router: router.filter(|path| path.is_file()),
            headroom: binary::headroom()?,
        })
    }

    /// The subjects that not every machine has.
    fn rivals(&self) -> Vec<Subject> {
        let newer = self.haproxy_newer.as_ref().map(|_| Subject::HaproxyNewer);
        let router = self.mysql_router.as_ref().map(|_| Subject::MysqlRouter);
        let zero_hop =
            zerohop::possible().inspect_err(|why| terminal::complain(&format!("no zero-hop here: {why}")));
        let past = [Subject::HeadroomZeroHop, Subject::HeadroomZeroHopInsight];
        newer.into_iter().chain(router).chain(zero_hop.into_iter().flat_map(|()| past)).collect()
    }

    fn programs(&self) -> Vec<(&str, &Path)> {
        let mut programs =
            vec![("sysbench", self.sysbench.as_path()), (Subject::Haproxy.name(), self.haproxy.as_path())];
        programs.extend(self.haproxy_newer.as_deref().map(|path| (Subject::HaproxyNewer.name(), path)));
        programs.extend(self.mysql_router.as_deref().map(|path| (Subject::MysqlRouter.name(), path)));
        programs
    }
}

/// Lets us and the programs we start have a file for each session, twice in a relay.
fn allow_files(sessions: u64) -> anyhow::Result<()> {
    let limit = getrlimit(Resource::Nofile);
    let needed = files_for(sessions, limit.maximum.unwrap_or(u64::MAX)).map_err(|words| anyhow!(words))?;
    let current = limit.current.map_or(needed, |current| current.max(needed));
    setrlimit(Resource::Nofile, Rlimit { current: Some(current), maximum: limit.maximum })
        .context("raising the limit of open files")
}

/// The open files that a relay of this many sessions needs; in words what to do when at most `most` are
/// allowed.
fn files_for(sessions: u64, most: u64) -> Result<u64, String> {
    let needed = 2 * sessions + SPARE_FILES;
    if needed <= most {
        return Ok(needed);
    }
    let enough_for = most.saturating_sub(SPARE_FILES) / 2;
    Err(format!(
        "{sessions} sessions need {needed} open files in each relay, two a session, but at most {most} are allowed here \
         (ulimit -Hn), which is enough for {enough_for}; allow more (root: ulimit -n {needed}; systemd: \
         LimitNOFILE={needed}; a container: --ulimit nofile={needed}), or use fewer with --idle"
    ))
}

fn announce(plan: &Plan, directory: &Path) {
    let minutes = plan.expected().as_secs().div_ceil(60);
    let subjects: Vec<&str> = plan.subjects.iter().map(|s| s.name()).collect();
    terminal::complain(&format!(
        "{} cells ({}; {}), about {minutes} min; at most {} min. Result: {}",
        plan.cells(),
        subjects.join(", "),
        plan.rounds_in_words(),
        plan.deadline().as_secs().div_ceil(60),
        directory.display()
    ));
    if cfg!(debug_assertions) {
        terminal::complain(
            "\n*** headroom is a DEBUG build: its figures will mean nothing. Use make bench, or cargo build --release.\n",
        );
    }
}

/// Takes all samples of the plan; the server is up for this long only.
async fn measured(
    args: &RelayArgs,
    tools: &Tools,
    plan: &Plan,
    machine: &mut Machine,
    samples: &mut Vec<Sample>,
) -> anyhow::Result<()> {
    let base = output::scratch();
    let server = Server::up(&base, plan.most_sessions()).await?;
    machine.programs.insert(0, ("mariadbd".to_owned(), server.version.clone()));
    let bench = Bench::new(args, tools, plan, &server, machine.cores)?;
    let outcome = bench.run(samples).await;
    server.down().await?;
    outcome
}

/// Everything that a cell needs.
struct Bench<'a> {
    plan: &'a Plan,
    sysbench: &'a Path,
    rows: u32,
    server_pid: u32,
    env: SubjectEnv,
    progress: Progress,
}

impl<'a> Bench<'a> {
    fn new(
        args: &RelayArgs,
        tools: &'a Tools,
        plan: &'a Plan,
        server: &Server,
        cores: usize,
    ) -> anyhow::Result<Self> {
        let directory = server.directory().join("bench");
        std::fs::create_dir(&directory).context("making a directory for configurations")?;
        let env = SubjectEnv {
            server: server.address,
            option_file: server.option_file(),
            first_port: args.port,
            directory,
            cores,
            sessions: plan.most_sessions(),
            haproxy: tools.haproxy.clone(),
            haproxy_newer: tools.haproxy_newer.clone(),
            mysql_router: tools.mysql_router.clone(),
            headroom: tools.headroom.clone(),
        };
        let progress = Progress::new(plan.cells());
        Ok(Self { plan, sysbench: &tools.sysbench, rows: args.rows, server_pid: server.pid, env, progress })
    }

    async fn run(&self, samples: &mut Vec<Sample>) -> anyhow::Result<()> {
        self.progress.doing(format!("filling a table of {} rows", self.rows));
        let prepare = sysbench::prepare(self.env.server, self.rows);
        let filling = Process::start("sysbench", self.sysbench, &prepare, &self.log())?;
        filling.finish(STEP).await.context("filling the table")?;
        for block in self.plan.blocks() {
            for &subject in &block.subjects {
                self.progress.doing(format!("round {}, {}, {subject}", block.round, block.condition));
                let sample = self.cell(&block, subject, samples.len() + 1).await;
                let sample = sample
                    .with_context(|| format!("round {}, {}, {subject}", block.round, block.condition))?;
                self.progress.done(&sample);
                samples.push(sample);
            }
        }
        Ok(())
    }

    async fn cell(&self, block: &Block, subject: Subject, position: usize) -> anyhow::Result<Sample> {
        let mut running = Running::start(subject, &self.env).await?;
        let found = match block.condition {
            Condition::Load { clients, idle } => self.load(&mut running, clients, idle).await,
            Condition::Connect { cycles } => connect(&running, cycles).await,
        };
        // What a dead subject said explains more than what its clients saw.
        let found = found.or_else(|seen| running.pid().and(Err(seen)))?;
        running.stop().await?;
        Ok(Sample { round: block.round, position, subject, condition: block.condition, found })
    }

    async fn load(&self, running: &mut Running, clients: u32, idle: u32) -> anyhow::Result<Found> {
        let address = running.address;
        let memory = |pid: Option<u32>| pid.map(process::memory).transpose();
        let empty = memory(running.pid()?)?;
        let sessions = blocking(move || client::open_idle(address, idle)).await?;
        let with_idle = memory(running.pid()?)?;
        self.sysbench(running, clients, self.plan.warm_up_seconds).await?;
        let (outcome, used) = self.sysbench(running, clients, self.plan.seconds).await?;
        let sessions = blocking(move || client::all_answer(sessions)).await?;
        drop(sessions);
        let a_query = |cpu: Duration| cpu.as_secs_f64() * 1e6 / outcome.queries as f64;
        let server_cpu_us = used.first().map(|used| a_query(used.cpu)).unwrap_or_default();
        let cost = match (empty, with_idle, used.get(1)) {
            (Some(empty), Some(idle), Some(used)) => {
                Some(Cost { cpu_us: a_query(used.cpu), empty, idle, loaded: used.memory })
            }
            _ => None,
        };
        Ok(Found::Load { clients: outcome, server_cpu_us, cost })
    }

    /// One run of sysbench while the server and the subject, in this order, are watched.
    async fn sysbench(
        &self,
        running: &mut Running,
        clients: u32,
        seconds: u32,
    ) -> anyhow::Result<(sysbench::Outcome, Vec<load::Used>)> {
        let arguments = sysbench::run(running.address, self.rows, clients, seconds);
        let pids: Vec<u32> = std::iter::once(self.server_pid).chain(running.pid()?).collect();
        let deadline = Duration::from_secs(u64::from(seconds)) + load::GRACE;
        load::run(self.sysbench, &arguments, &self.log(), &pids, deadline).await
    }

    fn log(&self) -> PathBuf {
        self.env.directory.join("sysbench.log")
    }
}

async fn connect(running: &Running, cycles: u32) -> anyhow::Result<Found> {
    let address = running.address;
    let times = sorted(blocking(move || client::connect_cycles(address, cycles)).await?);
    let at = |share| nearest_rank(&times, share).context("no connect was measured");
    Ok(Found::Connect { p50_us: at(0.5)?, p99_us: at(0.99)? })
}

/// Runs what blocks on a thread of its own, bounded in time.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> anyhow::Result<T> + Send + 'static,
) -> anyhow::Result<T> {
    tokio::time::timeout(STEP, tokio::task::spawn_blocking(work)).await.context("clients hang")??
}

fn write(report: &Report, directory: output::Directory) -> anyhow::Result<()> {
    let path = directory.create()?;
    output::keep(&path, "samples.json", output::json_to_keep(report)?.as_bytes())?;
    output::write(&path, "summary.md", &markdown::page(report))?;
    terminal::complain(&format!("written: {}", path.display()));
    Ok(())
}

fn print(report: &Report, json: bool) -> anyhow::Result<()> {
    if json {
        terminal::print(&output::json_to_keep(report)?)
    } else {
        terminal::print(&markdown::tables(report))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_thousand_idle_sessions_are_begun_only_where_their_files_are_allowed() {
        assert_eq!(files_for(10_016, 65_536), Ok(20_232));
        let words = files_for(10_016, 20_000).unwrap_err();
        assert!(words.contains("need 20232") && words.contains("enough for 9900"), "{words}");
        assert!(words.contains("LimitNOFILE=20232") && words.contains("--idle"), "{words}");
    }
}
