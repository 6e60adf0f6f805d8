//! What an experiment is run on: settings through `knob`, journaled and read back; the workload through
//! `load`, in this process; this host's figures through `diagnose`.

use crate::guard::Window;
use crate::run::{Assignment, Restore, Rig, RigError, Stretch};
use crate::spec::{Data, HOST, Point, Reset, TrialHost};
use crate::store::{HostFigures, Second};
use config::Credentials;
use diagnose::host::cgroup::Limits;
use diagnose::host::{Roots, Sample, Sampler, disk, process};
use diagnose::{Recent, server, verdict};
use fleet::Address;
use knob::apply::{self, Change, Manner, Outcome, Status};
use knob::command_output::CommandOutput;
use knob::identity::Facts;
use knob::item::Access;
use knob::server::{Server, ServerError, restarted};
use knob::session::{RestoreOutcome, Which};
use knob::{Host, Refusal, Session, name, resolve, tuner};
use load::arrivals::{Open, Spacing};
use load::workload::sysbench;
use load::{Arrivals, Load, Plan, Seed, Target, Workload};
use std::collections::{BTreeMap, BTreeSet};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A server that is asked beside a load answers within this, or is not asked.
const ANSWER: Duration = Duration::from_secs(2);
/// Waiting looks at the stop flag so often.
const SLICE: Duration = Duration::from_millis(50);

/// The user lock of a server that a trial holds: the journal keeps two of one host apart, not of two hosts.
const LOCK: &str = "headroom.trial";

/// What a server that refuses to write its dirty pages may lack.
const NEEDS: &str =
    "; writing dirty pages needs RELOAD and LOCK TABLES, and is left out with drain = false in [reset]";

/// A host, a server and a load; or the servers of several hosts, one of them in turn.
pub struct HostRig {
    pub session: Session,
    /// Whose settings.
    pub host: Host,
    /// The server's address, of the host that is in turn; `None` when only the host is varied.
    pub server: Option<String>,
    /// The hosts that are compared; empty with one server.
    pub hosts: Vec<TrialHost>,
    /// How settings are changed.
    pub manner: Manner,
    /// Programs that change the same settings and may go on.
    pub beside: Vec<String>,
    pub workload: Arc<Workload>,
    pub target: Target,
    /// Everything is to end.
    pub stop: Arc<AtomicBool>,
    /// How the data become as they were.
    pub reset: Reset,
    /// The workload's tables, if it is a built-in one.
    pub tables: Option<sysbench::Options>,
    sampler: Sampler,
    load: Option<(Load, Arrivals)>,
    /// The server of the load, and when it was started, from the moment when the settings were in force.
    ran: Option<(String, Facts)>,
    /// Of the cgroup of that server's process, where it runs on this host and is known.
    server_limits: Option<Limits>,
    /// Names of the knobs that were set and are to be put back: those that are held, and the others.
    held: BTreeSet<String>,
    own: BTreeSet<String>,
}

/// The server, asked beside the load.
struct Beside {
    runtime: tokio::runtime::Runtime,
    sampler: server::Sampler,
}

impl Beside {
    fn new(address: &Address, target: &Target) -> Option<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
        let who = Credentials {
            user: Some(target.account.user.clone()),
            password: Some(target.account.password.clone()),
            option_file: None,
            tls: target.tls.clone().unwrap_or_default(),
        };
        Some(Self { runtime, sampler: server::Sampler::new(address.clone(), who, ANSWER) })
    }

    fn read(&mut self) -> Option<server::Reading> {
        self.runtime.block_on(self.sampler.read()).ok()
    }
}

impl std::fmt::Debug for HostRig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostRig").field("server", &self.server).finish_non_exhaustive()
    }
}

impl HostRig {
    /// What is tried, in words.
    pub fn words(&self) -> String {
        let of = |host: &TrialHost| format!("{} ({})", host.name, host.server);
        match self.hosts.as_slice() {
            [] => self.server.clone().unwrap_or_default(),
            hosts => hosts.iter().map(of).collect::<Vec<_>>().join(", "),
        }
    }

    /// The addresses of all servers.
    pub fn addresses(&self) -> Vec<String> {
        match self.hosts.as_slice() {
            [] => self.server.iter().cloned().collect(),
            hosts => hosts.iter().map(|host| host.server.to_string()).collect(),
        }
    }

    /// Whether a server is on another machine: then its memory cannot be watched.
    pub fn is_elsewhere(&self) -> bool {
        let hosts = self.hosts.iter().map(|host| &host.server);
        !self.target.writers.iter().chain(hosts).all(diagnose::host::is_here)
    }

    /// Nothing is touched or connected yet.
    #[allow(clippy::too_many_arguments, reason = "each is another thing, and there is one caller")]
    pub fn new(
        session: Session,
        host: Host,
        server: Option<String>,
        manner: Manner,
        beside: Vec<String>,
        workload: Arc<Workload>,
        target: Target,
        stop: Arc<AtomicBool>,
    ) -> Self {
        let sampler = Sampler::new(Roots::default());
        let reset = Reset { data: Data::Keep, every: crate::spec::Every::Block, drain: false, fill: false };
        let (held, own) = (BTreeSet::new(), BTreeSet::new());
        let (tables, load, hosts) = (None, None, Vec::new());
        Self {
            session,
            host,
            server,
            hosts,
            manner,
            beside,
            workload,
            target,
            stop,
            reset,
            tables,
            sampler,
            load,
            ran: None,
            server_limits: None,
            held,
            own,
        }
    }

    /// From here on this host is in turn.
    fn turn_to(&mut self, host: &TrialHost) {
        self.server = Some(host.server.to_string());
        self.target.readers = vec![host.server.clone()];
        self.target.writers = vec![host.server.clone()];
    }

    /// On each host in turn, or on the one server that there is; the first host is in turn afterwards.
    fn on_each<T>(
        &mut self,
        mut work: impl FnMut(&mut Self) -> Result<T, RigError>,
    ) -> Result<Vec<T>, RigError> {
        if self.hosts.is_empty() {
            return Ok(vec![work(self)?]);
        }
        let mut all = Vec::new();
        for host in self.hosts.clone() {
            self.turn_to(&host);
            all.push(work(self)?);
        }
        self.turn_to(&self.hosts[0].clone());
        Ok(all)
    }

    /// What a host is, as far as its server says.
    fn version(&mut self) -> Result<String, RigError> {
        let Some(address) = self.server.clone() else { return Ok(String::new()) };
        let server = self.session.server(&address).map_err(knob::Error::Server)?;
        Ok(server.global("version").map_err(knob::Error::Server)?)
    }

    /// On what it is tried, in words: this machine, the version of each server, and what is sent, for a file
    /// may be changed under its name. A server that cannot be asked is left out.
    pub fn setup(&mut self) -> Vec<(String, String)> {
        let kernel = rustix::system::uname().release().to_string_lossy().into_owned();
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let gib = self.sampler.read().memory.level.total as f64 / f64::from(1 << 30);
        let machine = format!("Linux {kernel}, {cpus} CPUs, {gib:.1} GiB of memory");
        let names: Vec<String> = match self.hosts.as_slice() {
            [] => vec!["server".to_owned()],
            hosts => hosts.iter().map(|host| format!("server of {}", host.name)).collect(),
        };
        let versions = self.on_each(Self::version).unwrap_or_default();
        let servers = names.into_iter().zip(versions).filter(|(_, version)| !version.is_empty());
        let sent = ("workload".to_owned(), self.workload.in_words());
        std::iter::once(("this machine".to_owned(), machine)).chain(servers).chain([sent]).collect()
    }

    /// Asks a server; once more where the connection had ended since the last question.
    fn ask<T>(
        &mut self,
        address: &str,
        question: impl Fn(&mut (dyn Server + 'static)) -> Result<T, ServerError>,
    ) -> Result<T, RigError> {
        let server = self.session.server(address).map_err(knob::Error::Server)?;
        let answer = match question(server) {
            Err(ServerError::Unanswered { .. }) => question(server),
            answer => answer,
        };
        Ok(answer.map_err(knob::Error::Server)?)
    }

    /// The limits of the cgroup of the server that is in turn; `None` where it runs elsewhere, or it is not
    /// known which process it is.
    fn limits_of_server(&mut self) -> Option<Limits> {
        if !self.target.writers.iter().all(diagnose::host::is_here) {
            return None;
        }
        let address = self.server.clone()?;
        let port = self.ask(&address, |server| server.global("port")).ok()?.parse().ok()?;
        let datadir = self.ask(&address, |server| server.global("datadir")).ok()?;
        let hostname = self.ask(&address, |server| server.global("hostname")).unwrap_or_default();
        let proc = Roots::default().proc;
        let pid = process::serving(&process::database_servers(&proc), port, &datadir, &hostname, &proc)?;
        Limits::of(pid, &proc)
    }

    fn present(&mut self, knob: &str) -> Result<String, RigError> {
        let host = self.host.clone();
        let name = name::parse(&host, knob)?;
        let managed = resolve::managed(&name, self.manner.restart.as_deref());
        let setting = resolve::resolve(&host, &name, managed)?;
        let read = |access: &mut Access<'_>| {
            let values = setting.written.iter().map(|item| access.read(item));
            values.collect::<Result<Vec<_>, _>>()
        };
        let values = self.with_access(&host, read)??;
        Ok(setting.together(&values))
    }

    fn refused_here(&mut self, level: &Assignment) -> Result<Option<Refusal>, RigError> {
        let changes = self.checked(std::slice::from_ref(level))?;
        let (host, manner) = (self.host.clone(), self.manner.clone());
        for change in &changes {
            let preview = self.with_access(&host, |access| apply::preview(access, change, &manner))?;
            if let Err(refusal) = preview {
                return Ok(Some(refusal));
            }
        }
        Ok(None)
    }

    fn reset_here(&mut self, data: bool) -> Result<(), RigError> {
        if data {
            match (self.reset.data.clone(), &self.tables) {
                (Data::Keep, _) => {}
                (Data::Program(program), _) => self.run_program(&program)?,
                (Data::Tables, Some(options)) => {
                    let failed =
                        |error: load::LoadError| RigError::ResetLoad { source: Box::new(error), hint: "" };
                    load::tables::cleanup_until(&self.target, options, &self.stop).map_err(failed)?;
                    let cores = std::thread::available_parallelism().map_or(1, usize::from) as u32;
                    load::tables::prepare_until(&self.target, options, cores, 1, &self.stop, |_| {})
                        .map_err(failed)?;
                }
                (Data::Tables, None) => {
                    return Err(RigError::Reset(
                        "only tables of a built-in workload can be made anew; name a program".to_owned(),
                    ));
                }
            }
        }
        match self.tables.clone() {
            Some(options) if self.reset.drain => self.drain(&options),
            _ => Ok(()),
        }
    }

    fn set(&mut self, assignments: &[Assignment], held: bool) -> Result<(), RigError> {
        let assignments: Vec<Assignment> =
            assignments.iter().filter(|one| one.held == held).cloned().collect();
        if assignments.is_empty() {
            return Ok(());
        }
        let changes = self.checked(&assignments)?;
        let names = changes.iter().map(|change| change.name.to_string());
        if held {
            self.held.extend(names);
        } else {
            self.own.extend(names);
        }
        let outcomes = self.session.apply(&changes, self.server.as_deref(), &self.manner);
        let refused = outcomes.iter().filter_map(|outcome| match outcome {
            Outcome { knob, value, status: Status::Refused { refusal }, .. } => {
                Some((format!("{knob}={value}"), refusal.clone()))
            }
            _ => None,
        });
        let refused: Vec<_> = refused.collect();
        if refused.is_empty() { Ok(()) } else { Err(RigError::Refused(refused)) }
    }

    /// Runs the program that makes the data as they were, and connects anew: it may have restarted the
    /// server. Of several hosts it is given the address.
    fn run_program(&mut self, program: &str) -> Result<(), RigError> {
        let failed = |why: String| RigError::Reset(format!("{program}: {why}"));
        let address = self.server.as_deref().filter(|_| !self.hosts.is_empty());
        run_to_end(program, address.as_slice()).map_err(failed)?;
        if let Some(address) = self.server.clone() {
            let server = self.session.server(&address).map_err(knob::Error::Server)?;
            server.reconnect().map_err(knob::Error::Server)?;
        }
        Ok(())
    }

    /// Writes the dirty pages of the workload's tables: a flush for export does that, and changes no setting.
    fn drain(&self, options: &sysbench::Options) -> Result<(), RigError> {
        let names: Vec<String> = (1..=options.tables).map(|table| format!("sbtest{table}")).collect();
        let flush = format!("FLUSH TABLES {} FOR EXPORT", names.join(", "));
        let statements = [flush, "UNLOCK TABLES".to_owned()];
        load::tables::statements_until(&self.target, &statements, &self.stop).map_err(|error| {
            let refused = matches!(error, load::LoadError::Refused { .. });
            RigError::ResetLoad { source: Box::new(error), hint: if refused { NEEDS } else { "" } }
        })
    }

    fn checked(&mut self, assignments: &[Assignment]) -> Result<Vec<Change>, RigError> {
        let dangers: Vec<String> = assignments.iter().filter(|one| one.danger).flat_map(named).collect();
        let texts: Vec<String> =
            assignments.iter().map(|one| format!("{}={}", one.knob, one.value)).collect();
        let server = match self.server.as_deref() {
            Some(address) => Some(self.session.server(address).map_err(knob::Error::Server)?),
            None => None,
        };
        let changes = apply::check(&self.host, server, &texts, &dangers).map_err(|error| match error {
            knob::Error::Danger { name, value, why, .. } => RigError::Danger { name, value, why },
            other => RigError::Knob(other),
        })?;
        apply::alone(&tuner::running(&self.host), &changes, &self.beside)?;
        Ok(changes)
    }

    /// The writes of a run: what, from what, to what.
    ///
    /// # Errors
    /// The spec is wrong, or a knob would be refused.
    pub fn writes(&mut self, assignments: &[Assignment]) -> Result<Vec<apply::Write>, RigError> {
        let (turn, assignments): (Vec<_>, Vec<_>) =
            assignments.iter().cloned().partition(|one| one.knob == HOST);
        let named = turn.first().and_then(|one| self.hosts.iter().find(|host| host.name == one.value));
        if let Some(host) = named.cloned() {
            self.turn_to(&host);
        }
        let changes = self.checked(&assignments)?;
        let (host, manner) = (self.host.clone(), self.manner.clone());
        let mut writes = Vec::new();
        for change in &changes {
            let one = self.with_access(&host, |access| apply::preview(access, change, &manner));
            writes
                .extend(one?.map_err(|refusal| RigError::Refused(vec![(change.name.to_string(), refusal)]))?);
        }
        Ok(writes)
    }

    fn with_access<T>(
        &mut self,
        host: &Host,
        work: impl FnOnce(&mut Access<'_>) -> T,
    ) -> Result<T, RigError> {
        let server = match self.server.as_deref() {
            Some(address) => Some(self.session.server(address).map_err(knob::Error::Server)?),
            None => None,
        };
        let mut actions = BTreeMap::new();
        Ok(work(&mut Access { host, server, actions: &mut actions }))
    }
}

/// What may stand behind `--danger` for a level.
fn named(assignment: &Assignment) -> Vec<String> {
    let bare = assignment.knob.split('@').next().unwrap_or_default();
    let last = bare.rsplit('.').next().unwrap_or_default();
    let options = assignment.value.split(',').map(|option| option.trim().to_owned());
    [bare.to_owned(), last.to_owned()].into_iter().chain(options).collect()
}

/// Share of this host's memory that is in use.
fn memory(level: &diagnose::host::memory::Level) -> f64 {
    if level.total == 0 { 0.0 } else { 1.0 - level.available as f64 / level.total as f64 }
}

impl Rig for HostRig {
    fn answers(&mut self) -> Result<(), RigError> {
        self.addresses()
            .iter()
            .try_for_each(|address| self.ask(address, |server| server.global("version")).map(drop))
    }

    fn ran_through(&mut self) -> Result<(), RigError> {
        let Some((address, then)) = self.ran.take() else { return Ok(()) };
        let now = self.ask(&address, Server::identity)?;
        // A trial is no longer than a boot of this host.
        if restarted(&then, &now, true) {
            return Err(RigError::Restarted { server: address });
        }
        Ok(())
    }

    fn value(&mut self, knob: &str) -> Result<String, RigError> {
        let values = self.on_each(|rig| if knob == HOST { rig.version() } else { rig.present(knob) })?;
        if self.hosts.is_empty() {
            return Ok(values.join(", "));
        }
        let named = values.iter().zip(&self.hosts);
        Ok(named.map(|(value, host)| format!("{value} on {}", host.name)).collect::<Vec<_>>().join(", "))
    }

    fn refusal(&mut self, level: &Assignment) -> Result<Option<Refusal>, RigError> {
        if level.knob == HOST {
            // That it answers is known by its version.
            return Ok(None);
        }
        let refused = self.on_each(|rig| rig.refused_here(level))?;
        Ok(refused.into_iter().flatten().next())
    }

    fn reset(&mut self, data: bool) -> Result<(), RigError> {
        // All hosts: what one still writes would be in the next one's time.
        self.on_each(|rig| rig.reset_here(data)).map(|_| ())
    }

    fn apply(&mut self, assignments: &[Assignment]) -> Result<(), RigError> {
        let (host, settings): (Vec<_>, Vec<_>) =
            assignments.iter().cloned().partition(|one| one.knob == HOST);
        if let Some(named) = host.first()
            && let Some(host) = self.hosts.iter().find(|host| host.name == named.value).cloned()
        {
            self.turn_to(&host);
        }
        if let Some(address) = self.server.clone()
            && let Some(session) = self.ask(&address, |server| server.claim(LOCK))?
        {
            return Err(RigError::Claimed { server: address, session });
        }
        // A restart loses variables that were set before it.
        self.set(&settings, true)?;
        self.set(&settings, false)?;
        // From here on a restart that is not ours loses them, also before the clients are connected.
        self.ran = match self.server.clone() {
            Some(address) => Some((address.clone(), self.ask(&address, Server::identity)?)),
            None => None,
        };
        Ok(())
    }

    fn restore(&mut self, what: Restore) -> Result<(), RigError> {
        let own = std::mem::take(&mut self.own);
        let which = match what {
            Restore::All => {
                self.held.clear();
                Which::Own
            }
            Restore::NotHeld => Which::OwnKnobs(own.difference(&self.held).cloned().collect()),
        };
        let restored = self.session.restore(&which, false);
        let left: Vec<&RestoreOutcome> = restored.iter().filter(|one| !one.is_back()).collect();
        let silent = |one: &&RestoreOutcome| {
            matches!(one.failed, Some(Refusal::Unreachable { .. } | Refusal::Unanswered { .. }))
        };
        let (all, all_silent) = (left.iter().map(|one| words(one)).collect(), left.iter().all(silent));
        match left.is_empty() {
            true => Ok(()),
            false if all_silent => Err(RigError::NotBackYet(all)),
            false => Err(RigError::NotBack(all)),
        }
    }

    fn pause(&mut self, time: Duration) {
        let mut left = time;
        while !left.is_zero() && !self.stop.load(Ordering::Relaxed) {
            let slice = left.min(SLICE);
            std::thread::sleep(slice);
            left -= slice;
        }
    }

    fn connect(&mut self, point: Point) -> Result<(), RigError> {
        if let Some(options) = self.tables.as_ref().filter(|_| self.reset.fill) {
            let read =
                (1..=options.tables).map(|table| format!("SELECT SUM(LENGTH(pad)) FROM sbtest{table}"));
            load::tables::statements_until(&self.target, &read.collect::<Vec<_>>(), &self.stop)?;
        }
        let arrivals = match point.rate {
            None => Arrivals::Closed { think: Duration::ZERO },
            Some(rate) => Arrivals::Open(Open { rate, ramp: None, spacing: Spacing::Poisson }),
        };
        let plan = Plan {
            arrivals: arrivals.clone(),
            grace: Duration::from_secs(1),
            ..Plan::new(self.workload.clone(), self.target.clone(), point.clients, SLICE)
        };
        let load = Load::connect_until(plan, &self.stop)?;
        self.load = Some((load, arrivals));
        // Anew for each trial: its settings may have moved a limit, or restarted the server.
        self.server_limits = self.limits_of_server();
        Ok(())
    }

    fn send(
        &mut self,
        time: Duration,
        seed: Seed,
        go_on: &mut dyn FnMut(&Second, Option<f64>) -> bool,
    ) -> Result<Stretch, RigError> {
        let Some((load, arrivals)) = &self.load else { return Err(RigError::NotConnected) };
        let began = Instant::now();
        let before = self.sampler.read();
        // What holds the generator back falsifies every figure of the stretch.
        let limits = Limits::of(std::process::id(), &Roots::default().proc);
        let limits_before = limits.as_ref().map(Limits::read);
        let mut beside =
            self.server.as_ref().and_then(|address| Beside::new(&address.parse().ok()?, &self.target));
        let mut recent = Recent::new(time + ANSWER);
        // The bottleneck is the server's; this host is looked at only if the server runs on it.
        let here = self.target.writers.iter().all(diagnose::host::is_here);
        let mut look = |recent: &mut Recent, host: diagnose::host::Reading| {
            if here {
                recent.add_host(Arc::new(host));
            }
            if let Some(reading) = beside.as_mut().and_then(Beside::read) {
                recent.add_server(Arc::new(reading));
            }
        };
        look(&mut recent, before.clone());
        // Its own flag, so that a guard can end this stretch and nothing else; Ctrl-C ends it too.
        let over = Arc::new(AtomicBool::new(self.stop.load(Ordering::Relaxed)));
        let mut watcher = Sampler::new(Roots::default());
        let server_limits = self.server_limits.as_ref();
        // A server in a container is killed at its own limit, however much the host has.
        let fuller = |of_host: f64| of_host.max(server_limits.and_then(Limits::memory_in_use).unwrap_or(0.0));
        let outcome = load.send(arrivals, time, seed, &over, |moment| {
            let second = Second { done: moment.done, failed: moment.failed, p99_ms: moment.p99_ms };
            let host = watcher.read();
            // The generator's memory says nothing of a server elsewhere.
            let go_on = go_on(&second, here.then(|| fuller(memory(&host.memory.level))));
            look(&mut recent, host);
            if !go_on || self.stop.load(Ordering::Relaxed) {
                over.store(true, Ordering::Relaxed);
            }
        });
        let outcome = outcome?;
        let mut sample = self.sampler.read().since(&before).unwrap_or_default();
        let sys = Roots::default().sys;
        sample.disks.retain(|one| !disk::lies_on_others(&one.name, &sys));
        let throttled = limits
            .as_ref()
            .zip(limits_before.as_ref())
            .and_then(|(limits, before)| Some(limits.between(before, &limits.read())?.cpu?.throttled));
        let found = verdict::judge(&recent.window(Instant::now())).bottleneck;
        let bottleneck =
            found.and_then(|found| serde_json::to_value(found.name).ok()?.as_str().map(str::to_owned));
        let stretch = stretch(outcome, &sample, throttled.unwrap_or(0.0));
        let memory = here.then(|| fuller(stretch.host.memory));
        Ok(Stretch { took: began.elapsed(), bottleneck, memory, ..stretch })
    }

    fn disconnect(&mut self) {
        self.load = None;
    }
}

/// Runs a program; its last words where it fails. What it leaves running is not waited for.
///
/// It gets a session of its own. A Ctrl-C on the terminal is for us: the server is not left stopped over half
/// of its data. And without the terminal a program that asks for a password there fails, in place of waiting
/// for it unseen.
fn run_to_end(program: &str, arguments: &[&str]) -> Result<(), String> {
    let system = |error: std::io::Error| error.to_string();
    let words = CommandOutput::new().map_err(system)?;
    let mut command = Command::new("setsid");
    command.arg(program).args(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(words.writer().map_err(system)?);
    let status = command.status().map_err(system)?;
    if status.success() { Ok(()) } else { Err(format!("{status}: {}", words.text().trim())) }
}

fn words(restored: &RestoreOutcome) -> String {
    let RestoreOutcome { knobs, before, end, failed, .. } = restored;
    let why = match (failed, end) {
        (Some(refusal), _) => refusal.to_string(),
        (None, Some(knob::journal::End::Left { why } | knob::journal::End::Gone { why })) => why.clone(),
        (None, _) => String::new(),
    };
    format!("{}: {why} (before: {})", knobs.join(", "), before.join("; "))
}

fn stretch(outcome: load::Outcome, sample: &Sample, throttled: f64) -> Stretch {
    let totals = &outcome.totals;
    let share = |part: u64| part as f64 / totals.arrivals.max(1) as f64;
    let open = outcome.arrivals.is_open();
    let window = Window {
        per_second: totals.per_second,
        p50_ms: outcome.response.p50_ms,
        p99_ms: outcome.response.p99_ms,
        failed: share(totals.failed),
        // A closed loop always has as many under way as it has clients.
        missing: if open { share(totals.not_started + totals.unfinished) } else { 0.0 },
        transactions: totals.arrivals,
    };
    let error = if open { outcome.response.median_error() } else { outcome.response.count_error() };
    let each = |per_s: f64| per_s / totals.per_second.max(1e-9);
    let disks = |of: fn(&disk::Sample) -> f64| sample.disks.iter().map(of).sum::<f64>();
    let cpu = &sample.cpu.all;
    let host = HostFigures {
        cpu: cpu.busy(),
        system: cpu.system,
        softirq: cpu.softirq,
        iowait: cpu.iowait,
        steal: cpu.steal,
        switches: each(sample.cpu.switches_per_s),
        read_kib: each(disks(|disk| disk.read.bytes_per_s) / 1024.0),
        written_kib: each(disks(|disk| disk.written.bytes_per_s) / 1024.0),
        flushes: each(disks(|disk| disk.flushed.as_ref().map_or(0.0, |work| work.per_s))),
        memory: memory(&sample.memory.level),
        cpus: u32::try_from(sample.cpu.each.len()).ok().filter(|cpus| *cpus > 0),
        throttled,
    };
    let series = whole_seconds(&outcome.series, outcome.seconds);
    let (void, notes) = (outcome.void, outcome.notes);
    Stretch { window, error, void, notes, series, host, ..Stretch::default() }
}

/// Of a measurement of 6.1 seconds the first six: a tenth of a second has a tenth of the transactions, and
/// would look like a stall.
fn whole_seconds(series: &[load::outcome::Moment], seconds: f64) -> Vec<Second> {
    // The clocks of threads end a little early.
    let whole = series.iter().filter(|one| one.second as f64 + 0.95 <= seconds);
    whole.map(|one| Second { done: one.done, failed: one.failed, p99_ms: one.p99_ms }).collect()
}

#[cfg(test)]
mod tests;
