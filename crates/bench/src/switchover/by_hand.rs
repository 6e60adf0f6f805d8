//! `headroom-bench switchover --by-hand`: the same lab, the same clients and the same load; the primary is
//! moved by Headroom through its routers and by hand through HAProxy, in turn.
//!
//! "By hand" is what a careful operator types, sent by a program without a pause between two commands, which
//! no person matches:
//!
//! 1. HAProxy: `set server .../<old> state maint`: it accepts no new session; those that are open stay.
//! 2. old: `SET GLOBAL read_only = 1`, then `FLUSH TABLES WITH READ LOCK`, which waits for what is under way.
//! 3. old: its position; new: `MASTER_GTID_WAIT`.
//! 4. new: `STOP SLAVE`, `RESET SLAVE ALL`, `SET GLOBAL read_only = 0`.
//! 5. HAProxy: `set server .../<new> state ready`, `shutdown sessions server .../<old>`.
//! 6. old: `UNLOCK TABLES`; old and the others follow new.
//!
//! Each move has a stretch of load of its own, with calm before and after. The stall of a move is the longest
//! time in which no transaction at all was acknowledged; beside it stands what the client waited that fared
//! worst, which says little where errors come at once.

use super::SwitchoverBenchArgs;
use super::clients::{ClientReport, Response, Writers};
use super::fixture::MoveFixture;
use super::history::Anomalies;
use super::under_writes::{QUIET_LOOK, anomalies, nothing_lost, quantile};
use super::{MOVE, PATIENCE, output};
use crate::promise::{self, Promise};
use crate::report::section::section;
use ::switchover::step::State;
use anyhow::{Context, anyhow, bail};
use lab::Account;
use lab::process::Process;
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, OptsBuilder};
use probe::Machine;
use serde::Serialize;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use term::{interrupted, terminal};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

/// Load before and after each move.
const CALM: Duration = Duration::from_secs(2);
/// HAProxy starts in this time.
const READY: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(20);
const PROGRAMS: [&str; 2] = ["/usr/sbin/haproxy", "/usr/local/sbin/haproxy"];
const SERVERS: [&str; 3] = ["a1", "a2", "b1"];

/// How a primary is moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
enum Way {
    Headroom,
    ByHand,
}

impl Way {
    fn name(self) -> &'static str {
        match self {
            Self::Headroom => "headroom switchover",
            Self::ByHand => "by hand, HAProxy",
        }
    }
}

/// One move and what its clients saw.
#[derive(Clone, Debug, Serialize)]
struct HandMove {
    number: u32,
    way: Way,
    from: String,
    to: String,
    done: bool,
    /// From the first command to the last, milliseconds.
    took_ms: f64,
    /// The longest time without any acknowledged transaction, milliseconds.
    stall_ms: f64,
    /// What the client waited that fared worst and was acknowledged, milliseconds.
    waited_ms: Option<f64>,
    /// Transactions and reads that ended with an error.
    errors: u64,
    transactions: u64,
    remarks: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Report {
    date: String,
    machine: Machine,
    build: &'static str,
    warnings: Vec<String>,
    clients: u32,
    rate: f64,
    anomalies: Anomalies,
    /// What clients were told that was no success, by way and kind.
    errors: BTreeMap<Way, BTreeMap<String, u64>>,
    promises: Vec<Promise>,
    moves: Vec<HandMove>,
}

/// Measures both ways in turn, writes the run's directory, prints the tables.
pub(super) async fn run(mut args: SwitchoverBenchArgs) -> anyhow::Result<ExitCode> {
    if args.program.is_some() {
        bail!("--by-hand types MariaDB's commands; leave out --program");
    }
    if args.writes.quick {
        args.moves = 2;
    }
    let program = PROGRAMS.iter().map(PathBuf::from).find(|path| path.is_file());
    let program = program.context("haproxy is missing; run scripts/install.sh bench")?;
    let directory =
        output::Directory::new(args.writes.out.as_deref(), "switchover-by-hand", args.writes.quick)?;
    terminal::complain(&format!(
        "{} moves each way, about {:.0} min. Result: {}",
        args.moves,
        f64::from(args.moves) * 16.0 / 60.0 + 0.5,
        directory.path().display()
    ));
    let mut machine = Machine::look(&[("haproxy", program.as_path())], QUIET_LOOK).await?;
    let mut fixture = MoveFixture::up(&output::scratch(), &args.wanted()).await?;
    machine.programs.push(("server".to_owned(), fixture.version()));
    let measured = tokio::select! {
        measured = measure(&args, &mut fixture, &program) => measured,
        () = interrupted() => Err(anyhow!("interrupted: everything that was started is stopped")),
    };
    fixture.down().await?;
    let report = measured?.report(directory.date(), machine, &args);
    let met = promise::all_met(&report.promises);
    output::finish(&directory.create()?, "run.json", &report, &report.markdown(), met, args.writes.json)
}

#[derive(Default)]
struct Measured {
    moves: Vec<HandMove>,
    errors: BTreeMap<Way, BTreeMap<String, u64>>,
    anomalies: Anomalies,
    transactions: u64,
}

async fn measure(
    args: &SwitchoverBenchArgs,
    fixture: &mut MoveFixture,
    program: &Path,
) -> anyhow::Result<Measured> {
    let proxy = Proxy::start(fixture, program, args.writes.clients).await?;
    let mut measured = Measured::default();
    let mut told = ClientReport::default();
    // Each stretch has clients of its own: their histories stand beside each other.
    let mut first = 0;
    for number in 1..=args.moves {
        // A B, B A, ...: neither way always follows the other.
        let order = if number % 2 == 1 { [Way::Headroom, Way::ByHand] } else { [Way::ByHand, Way::Headroom] };
        for way in order {
            let (moved, seen) = one(args, fixture, &proxy, way, number, first).await?;
            first += args.writes.clients;
            terminal::complain(&format!(
                "{number} of {}, {}: stall {:.0} ms, {} errors",
                args.moves,
                way.name(),
                moved.stall_ms,
                moved.errors
            ));
            let errors = measured.errors.entry(way).or_default();
            for (what, count) in &seen.errors {
                *errors.entry(what.clone()).or_default() += count;
            }
            measured.transactions += moved.transactions;
            measured.moves.push(moved);
            told.clients.extend(seen.clients);
        }
    }
    proxy.stop().await?;
    let servers = fixture.finals().await.context("reading what the servers have")?;
    measured.anomalies = anomalies(&told, &servers, true);
    Ok(measured)
}

/// One stretch of load with a move in it.
async fn one(
    args: &SwitchoverBenchArgs,
    fixture: &mut MoveFixture,
    proxy: &Proxy,
    way: Way,
    number: u32,
    first: u32,
) -> anyhow::Result<(HandMove, ClientReport)> {
    let (from, to) = (fixture.primary.clone(), fixture.next_candidate(number));
    let addresses = match way {
        Way::Headroom => fixture.writers(),
        Way::ByHand => proxy.writers(fixture),
    };
    // HAProxy learns by hand who takes writes, whoever moved it last.
    proxy.only(&from).await?;
    let writers = Writers::start_from(first, &addresses, args.writes.clients, args.writes.rate, PATIENCE);
    tokio::time::sleep(CALM).await;
    let begun = Instant::now();
    let moving = async {
        match way {
            Way::Headroom => {
                let (outcome, remarks) = fixture.switch(&to).await?;
                anyhow::Ok((outcome.state == State::Done, [outcome.remarks, remarks].concat()))
            }
            Way::ByHand => {
                by_hand(fixture, proxy, &from, &to).await?;
                fixture.primary.clone_from(&to);
                Ok((true, fixture.wrong().await?))
            }
        }
    };
    let moved = tokio::time::timeout(MOVE, moving).await;
    let (done, remarks) = moved.map_err(|_| anyhow!("move {number} ({}) hangs", way.name()))??;
    let took = begun.elapsed();
    tokio::time::sleep(CALM).await;
    let seen = writers.stop().await;
    let moved = HandMove {
        number,
        way,
        from,
        to,
        done,
        took_ms: took.as_secs_f64() * 1e3,
        stall_ms: stall(&seen.responses).as_secs_f64() * 1e3,
        waited_ms: super::longest(&acknowledged(&seen.responses), begun, begun + took),
        errors: seen.errors.values().sum(),
        transactions: seen.responses.len() as u64,
        remarks,
    };
    Ok((moved, seen))
}

fn acknowledged(responses: &[Response]) -> Vec<Response> {
    responses.iter().copied().filter(|response| response.acknowledged).collect()
}

/// The longest time between two acknowledgements of any client.
fn stall(responses: &[Response]) -> Duration {
    let mut ends: Vec<Instant> = acknowledged(responses).iter().map(|r| r.due + r.took).collect();
    ends.sort_unstable();
    ends.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or_default()
}

/// What the operator types.
async fn by_hand(fixture: &MoveFixture, proxy: &Proxy, from: &str, to: &str) -> anyhow::Result<()> {
    let (mut old, mut new) = (fixture.lab.connect(from).await?, fixture.lab.connect(to).await?);
    proxy.set(from, "maint").await?;
    old.query_drop("SET GLOBAL read_only = 1").await?;
    old.query_drop("FLUSH TABLES WITH READ LOCK").await?;
    let position: Option<String> = old.query_first("SELECT @@GLOBAL.gtid_binlog_pos").await?;
    let position = position.context("the primary says no position")?;
    let waited: Option<i64> = new.query_first(format!("SELECT MASTER_GTID_WAIT('{position}', 20)")).await?;
    if waited != Some(0) {
        bail!("{to} does not reach {position}");
    }
    for statement in ["STOP SLAVE", "RESET SLAVE ALL", "SET GLOBAL read_only = 0"] {
        new.query_drop(statement).await?;
    }
    proxy.set(to, "ready").await?;
    proxy.shutdown(from).await?;
    old.query_drop("UNLOCK TABLES").await?;
    old.query_drop(format!("SET GLOBAL gtid_slave_pos = '{position}'")).await?;
    follow(&mut old, fixture, to).await?;
    for other in SERVERS.into_iter().filter(|server| *server != from && *server != to) {
        let mut other = fixture.lab.connect(other).await?;
        other.query_drop("STOP SLAVE").await?;
        follow(&mut other, fixture, to).await?;
        other.disconnect().await?;
    }
    old.disconnect().await?;
    new.disconnect().await?;
    Ok(())
}

async fn follow(replica: &mut Conn, fixture: &MoveFixture, source: &str) -> anyhow::Result<()> {
    let at = fixture.lab.real(source)?;
    let statement = format!(
        "CHANGE MASTER TO MASTER_HOST = '{}', MASTER_PORT = {}, MASTER_USER = '{}', MASTER_PASSWORD = '{}', \
         MASTER_USE_GTID = slave_pos, MASTER_CONNECT_RETRY = 1",
        at.ip(),
        at.port(),
        Account::Repl.user(),
        fixture.lab.password(Account::Repl)
    );
    replica.query_drop(statement).await?;
    Ok(replica.query_drop("START SLAVE").await?)
}

/// HAProxy with one address a zone, as two application hosts would have it, and its admin socket.
struct Proxy {
    program: Process,
    socket: PathBuf,
    addresses: Vec<SocketAddrV4>,
}

impl Proxy {
    async fn start(fixture: &MoveFixture, program: &Path, clients: u32) -> anyhow::Result<Self> {
        let directory = fixture.lab.dir();
        let (socket, file) = (directory.join("haproxy.sock"), directory.join("haproxy.cfg"));
        let addresses = vec![free_port()?, free_port()?];
        let configuration = configuration(fixture, &socket, &addresses, clients)?;
        std::fs::write(&file, configuration).with_context(|| format!("writing {}", file.display()))?;
        let arguments = ["-db", "-q", "-f", &file.display().to_string()].map(str::to_owned);
        let program = Process::start("haproxy", program, &arguments, &directory.join("haproxy.log"))?;
        let mut proxy = Self { program, socket, addresses };
        let deadline = Instant::now() + READY;
        while proxy.ask("show info").await.is_err() {
            proxy.program.alive()?;
            if Instant::now() > deadline {
                bail!("haproxy does not answer on its admin socket");
            }
            tokio::time::sleep(POLL).await;
        }
        Ok(proxy)
    }

    fn writers(&self, fixture: &MoveFixture) -> Vec<OptsBuilder> {
        self.addresses.iter().map(|at| fixture.writer_at(*at)).collect()
    }

    /// One command on the admin socket. An empty answer is consent.
    async fn ask(&self, command: &str) -> anyhow::Result<String> {
        let mut stream = UnixStream::connect(&self.socket).await?;
        stream.write_all(format!("{command}\n").as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok(answer)
    }

    async fn change(&self, command: &str) -> anyhow::Result<()> {
        let answer = self.ask(command).await?;
        if answer.trim().is_empty() { Ok(()) } else { bail!("haproxy: {command}: {}", answer.trim()) }
    }

    async fn set(&self, server: &str, state: &str) -> anyhow::Result<()> {
        for zone in 0..self.addresses.len() {
            self.change(&format!("set server writer{zone}/{server} state {state}")).await?;
        }
        Ok(())
    }

    async fn shutdown(&self, server: &str) -> anyhow::Result<()> {
        for zone in 0..self.addresses.len() {
            self.change(&format!("shutdown sessions server writer{zone}/{server}")).await?;
        }
        Ok(())
    }

    /// Sends writes to this server and no other.
    async fn only(&self, server: &str) -> anyhow::Result<()> {
        for other in SERVERS.into_iter().filter(|other| *other != server) {
            self.set(other, "maint").await?;
        }
        self.set(server, "ready").await
    }

    async fn stop(self) -> anyhow::Result<()> {
        Ok(self.program.stop().await?)
    }
}

fn configuration(
    fixture: &MoveFixture,
    socket: &Path,
    addresses: &[SocketAddrV4],
    clients: u32,
) -> anyhow::Result<String> {
    let most = clients * 3 + 100;
    let mut text = format!(
        "global\n    nbthread 1\n    maxconn {most}\n    stats socket {} mode 600 level admin\n\
         defaults\n    mode tcp\n    timeout connect 5s\n    timeout client 1h\n    timeout server 1h\n",
        socket.display()
    );
    for (zone, at) in addresses.iter().enumerate() {
        text.push_str(&format!("listen writer{zone}\n    bind {at}\n    maxconn {most}\n"));
        for server in SERVERS {
            // Over the same links as the routers.
            let reach = fixture.lab.reach(["a", "b"][zone], server)?;
            text.push_str(&format!("    server {server} {reach} disabled\n"));
        }
    }
    Ok(text)
}

/// Given back at once, and taken by HAProxy a moment later.
fn free_port() -> anyhow::Result<SocketAddrV4> {
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
    Ok(SocketAddrV4::new(Ipv4Addr::LOCALHOST, port))
}

impl Measured {
    fn report(self, date: &str, machine: Machine, args: &SwitchoverBenchArgs) -> Report {
        let mut warnings = machine.warnings();
        if args.writes.quick {
            warnings.push("a smoke run: it shows that everything works, not how fast".to_owned());
        }
        let build = if cfg!(debug_assertions) { "debug" } else { "release" };
        if cfg!(debug_assertions) {
            warnings
                .push("a debug build: the routers are several times slower than they are shipped".to_owned());
        }
        let promises = promises(&self.moves, &self.anomalies, self.transactions);
        Report {
            date: date.to_owned(),
            machine,
            build,
            warnings,
            clients: args.writes.clients,
            rate: args.writes.rate,
            anomalies: self.anomalies,
            errors: self.errors,
            promises,
            moves: self.moves,
        }
    }
}

fn of(moves: &[HandMove], way: Way) -> impl Iterator<Item = &HandMove> {
    moves.iter().filter(move |one| one.way == way)
}

/// The median stall, where there is one.
fn median(moves: &[HandMove], way: Way) -> Option<f64> {
    quantile(&of(moves, way).map(|one| one.stall_ms).collect::<Vec<_>>(), 0.5)
}

fn promises(moves: &[HandMove], anomalies: &Anomalies, transactions: u64) -> Vec<Promise> {
    let done = moves.iter().filter(|one| one.done && one.remarks.is_empty()).count();
    let errors = |way| of(moves, way).map(|one| one.errors).sum::<u64>();
    let (ours, hand) = (median(moves, Way::Headroom), median(moves, Way::ByHand));
    let stalls = match (ours, hand) {
        (Some(ours), Some(hand)) => format!("{ours:.0} ms against {hand:.0} ms in the median"),
        _ => "nothing measured".to_owned(),
    };
    vec![
        Promise::new(
            "every move of both ways is done, one writer, everybody follows it",
            format!("{done} of {}", moves.len()),
            done == moves.len(),
        ),
        nothing_lost(anomalies, transactions),
        Promise::new(
            "no error for clients of headroom",
            format!("{}; by hand {}", errors(Way::Headroom), errors(Way::ByHand)),
            errors(Way::Headroom) == 0,
        ),
        // A comparison, no promise: the hand's stall is short where errors come at once.
        Promise::new("for comparison: the longest time without an acknowledged write", stalls, None),
    ]
}

impl Report {
    fn markdown(&self) -> String {
        let each = self.moves.len() / 2;
        let mut text = format!(
            "# The primary moved {each} times by headroom and {each} times by hand through HAProxy, {}, {} transactions a \
             second over {} clients, {} build\n\n{}\n\n",
            self.date,
            self.rate,
            self.clients,
            self.build,
            self.machine.line()
        );
        for warning in &self.warnings {
            text.push_str(&format!("**{warning}**\n\n"));
        }
        text.push_str(&promise::table(&self.promises));
        let rows = [Way::Headroom, Way::ByHand].map(|way| self.row(way));
        let head = [
            "way",
            ">moves",
            ">stall p50",
            ">stall p90",
            ">stall most",
            ">longest wait p50",
            ">longest wait most",
            ">errors",
            ">errors a move, p50",
            ">transactions",
        ];
        text.push_str(&section("Both ways, ms", &head, rows.into_iter()));
        let errors = self.errors.iter().flat_map(|(way, errors)| {
            errors.iter().map(|(what, count)| vec![way.name().to_owned(), what.clone(), count.to_string()])
        });
        text.push_str(&section(
            "What clients were told that was no success",
            &["way", "what", ">how often"],
            errors,
        ));
        let remarks = self.moves.iter().flat_map(|one| {
            let named = move |remark: &String| {
                vec![one.number.to_string(), one.way.name().to_owned(), remark.clone()]
            };
            one.remarks.iter().map(named)
        });
        text.push_str(&section("Remarks", &["move", "way", "what"], remarks));
        text.push_str(
            "Stall: the longest time in which no client's transaction was acknowledged. Longest wait: of a transaction that \
             was acknowledged, from when it should have begun. By hand means the commands of a careful operator, sent by a \
             program without a pause; a person adds seconds between them. The order of the two ways alternates.\n",
        );
        text
    }

    fn row(&self, way: Way) -> Vec<String> {
        let values = |figure: fn(&HandMove) -> Option<f64>| {
            of(&self.moves, way).filter_map(figure).collect::<Vec<_>>()
        };
        let (stalls, waits) = (values(|one| Some(one.stall_ms)), values(|one| one.waited_ms));
        let errors = values(|one| Some(one.errors as f64));
        let at =
            |values: &[f64], share| quantile(values, share).map_or("-".to_owned(), |ms| format!("{ms:.0}"));
        vec![
            way.name().to_owned(),
            stalls.len().to_string(),
            at(&stalls, 0.5),
            at(&stalls, 0.9),
            at(&stalls, 1.0),
            at(&waits, 0.5),
            at(&waits, 1.0),
            format!("{:.0}", errors.iter().sum::<f64>()),
            at(&errors, 0.5),
            of(&self.moves, way).map(|one| one.transactions).sum::<u64>().to_string(),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stall_is_the_longest_time_without_an_acknowledgement_whoever_waits() {
        let start = Instant::now();
        let at = |due: u64, took: u64, acknowledged| Response {
            due: start + Duration::from_millis(due),
            took: Duration::from_millis(took),
            acknowledged,
        };
        let responses =
            [at(0, 10, true), at(100, 10, true), at(200, 1, false), at(150, 400, true), at(560, 10, true)];
        assert_eq!(stall(&responses), Duration::from_millis(440));
        assert_eq!(stall(&responses[..1]), Duration::ZERO);
    }
}
