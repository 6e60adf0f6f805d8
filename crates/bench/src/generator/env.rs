//! Where everything is measured: one load of one tool, run to its end, with what it said and what it cost.

use super::super::process::{self, Cpu};
use super::super::server::{Server, null};
use super::super::{stalls, sysbench};
use super::promises::OWN_P99_US;
use super::{CLIENTS, Case, GRACE, GeneratorArgs, MANY_CLIENTS, OwnLatency, Sample, Tool};
use crate::binary;
use anyhow::{Context, bail};
use lab::null::{NullServer, Service};
use lab::process::{Process, command, command_in_own_session};
use load::outcome::Times;
use serde_json::Value;
use std::fmt::Display;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::process::Command;

/// A core's share at which the generator's own latency is asked for.
const HALF: f64 = 0.5;
/// About so much of what one core can send takes that; a short load tells it better.
const GUESS: f64 = 0.25;
const GUESS_SECONDS: u32 = 1;

/// Where and with what everything is measured.
pub(super) struct BenchEnv<'a> {
    pub(super) args: &'a GeneratorArgs,
    pub(super) tools: &'a [PathBuf; 2],
    pub(super) server: &'a Server,
    pub(super) log: PathBuf,
}

impl BenchEnv<'_> {
    pub(super) async fn sample(&self, round: u32, case: Case, tool: Tool) -> anyhow::Result<Sample> {
        let null = (case == Case::OneCore).then(|| null(Service::Immediate)).transpose()?;
        let target = null.as_ref().map_or(self.server.address, NullServer::address);
        let arguments = match tool {
            Tool::Sysbench => self.sysbench(case, target),
            Tool::Headroom => self.headroom(case, target, self.args.seconds, &[]),
        };
        let program = match tool {
            Tool::Sysbench => self.tools[0].clone(),
            Tool::Headroom => ourselves()?,
        };
        let before = process::cpu(self.server.pid)?;
        let apart = is_apart(case);
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        if apart {
            process::run_on(self.server.pid, cores - 1..cores)?;
        }
        let (text, client) = self.client(&program, arguments, ClientPlace::of(case)).await?;
        if apart {
            process::run_on(self.server.pid, 0..cores)?;
        }
        let server = process::cpu(self.server.pid)?.saturating_sub(before);
        let (queries, qps, p50_ms, p99_ms) = match tool {
            Tool::Sysbench => {
                let found = sysbench::parse(&text)?;
                (found.queries, found.qps, found.p50_ms, found.p99_ms)
            }
            Tool::Headroom => {
                let found = outcome(&text)?;
                let number = |pointer: &str| figure(&found, pointer);
                let failed = number("/totals/failed")?;
                if failed > 0.0 {
                    bail!("{failed} transactions failed during the load; none are allowed");
                }
                (
                    number("/totals/queries")? as u64,
                    number("/totals/queries_per_second")?,
                    number("/response/p50_ms")?,
                    number("/response/p99_ms")?,
                )
            }
        };
        let each = |time: Duration| time.as_secs_f64() * 1e6 / queries.max(1) as f64;
        let server_cpu_us = (case != Case::OneCore).then(|| each(server));
        let (client_cpu_us, client_user_us) = (each(client.total()), each(client.user));
        Ok(Sample { round, case, tool, qps, client_cpu_us, client_user_us, server_cpu_us, p50_ms, p99_ms })
    }

    /// Its own latency at a rate that takes it half of a core. `qps` is the most that one core can send.
    pub(super) async fn own_latency(&self, qps: f64, busy: bool) -> anyhow::Result<OwnLatency> {
        let last = std::thread::available_parallelism().map_or(0, |cores| usize::from(cores) - 1);
        let time = Duration::from_secs(u64::from(self.args.seconds));
        let machine =
            tokio::task::spawn_blocking(move || stalls::look([0, last], time, OWN_P99_US)).await??;
        let null = null(Service::Immediate)?;
        let guess = (qps * GUESS).round();
        let found = self.open_loop(null.address(), guess, busy, GUESS_SECONDS).await?;
        let rate = (guess * HALF / figure(&found, "/generator/cpu_share")?).min(qps).round();
        let found = self.open_loop(null.address(), rate, busy, self.args.seconds).await?;
        let response: Times = serde_json::from_value(found["response"].clone())?;
        let all = response.whole().context("headroom's histogram cannot be read")?;
        let within = all.count_between(0, (OWN_P99_US * 1e3) as u64);
        let own = |name: &str| found.pointer(&format!("/generator/own/{name}")).and_then(Value::as_f64);
        Ok(OwnLatency {
            busy,
            rate,
            cpu_share: figure(&found, "/generator/cpu_share")?,
            p50_ms: response.p50_ms,
            p95_ms: response.p95_ms,
            p99_ms: response.p99_ms,
            lateness_p99_ms: figure(&found, "/generator/lateness/p99_ms")?,
            own_p95_ms: own("p95_ms"),
            own_p99_ms: own("p99_ms"),
            beyond: 1.0 - within as f64 / all.len().max(1) as f64,
            machine,
        })
    }

    /// What headroom says of an open loop of this many a second.
    async fn open_loop(
        &self,
        null: SocketAddr,
        rate: f64,
        busy: bool,
        seconds: u32,
    ) -> anyhow::Result<Value> {
        let mut open = vec!["--rate".to_owned(), rate.to_string()];
        open.extend(busy.then(|| "--busy".to_owned()));
        let arguments = self.headroom(Case::OneCore, null, seconds, &open);
        outcome(&self.client(&ourselves()?, arguments, ClientPlace::FirstCore).await?.0)
    }

    fn sysbench(&self, case: Case, target: SocketAddr) -> Vec<String> {
        let mut arguments = sysbench::run(target, self.args.rows, clients(case), self.args.seconds);
        workload(case).clone_into(&mut arguments[0]);
        if !is_text(case) {
            arguments.retain(|argument| argument != "--db-ps-mode=disable");
        }
        if case == Case::PointSelectsSocket {
            sysbench::over_socket(&mut arguments, &self.server.socket);
        }
        arguments
    }

    fn headroom(&self, case: Case, target: SocketAddr, seconds: u32, more: &[String]) -> Vec<String> {
        let given = [
            ("--distribution", "uniform".to_owned()),
            ("--table-size", self.args.rows.to_string()),
            ("--clients", clients(case).to_string()),
            ("--time", format!("{seconds}s")),
        ];
        let server = match case {
            Case::PointSelectsSocket => self.server.socket.display().to_string(),
            _ => target.to_string(),
        };
        let mut arguments = load(workload(case), server, &given);
        if is_text(case) {
            arguments.push("--text".to_owned());
        }
        arguments.extend_from_slice(more);
        arguments
    }

    async fn client(
        &self,
        program: &Path,
        arguments: Vec<String>,
        place: ClientPlace,
    ) -> anyhow::Result<(String, Cpu)> {
        let (command, arguments) = match place {
            ClientPlace::Beside => (command(program), arguments),
            ClientPlace::OwnSession => (command_in_own_session(program), arguments),
            ClientPlace::FirstCore => {
                let mut all = vec!["-c".to_owned(), "0".to_owned(), program.display().to_string()];
                all.extend(arguments);
                (command(&self.tools[1]), all)
            }
        };
        client(command, &arguments, &self.log, self.args.seconds).await
    }
}

/// Where a client runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClientPlace {
    /// Where the server does, as a program that was started in the same shell.
    Beside,
    /// On the same cores, in a session of its own.
    OwnSession,
    /// On the first core alone.
    FirstCore,
}

impl ClientPlace {
    pub(super) fn of(case: Case) -> Self {
        match case {
            Case::PointSelectsOwnSession | Case::ReadWriteOwnSession => Self::OwnSession,
            Case::PointSelectsApart | Case::ReadWriteApart | Case::OneCore => Self::FirstCore,
            Case::PointSelects
            | Case::PointSelectsText
            | Case::ReadWrite
            | Case::PointSelectsSocket
            | Case::PointSelectsMany => Self::Beside,
        }
    }
}

fn workload(case: Case) -> &'static str {
    match case {
        Case::ReadWrite | Case::ReadWriteApart | Case::ReadWriteOwnSession => "oltp_read_write",
        _ => "oltp_point_select",
    }
}

fn is_apart(case: Case) -> bool {
    matches!(case, Case::PointSelectsApart | Case::ReadWriteApart)
}

fn is_text(case: Case) -> bool {
    matches!(case, Case::PointSelectsText | Case::OneCore)
}

fn clients(case: Case) -> u32 {
    if case == Case::PointSelectsMany { MANY_CLIENTS } else { CLIENTS }
}

/// Runs a client for about this many seconds, to its end: what it said, and its CPU time.
pub(super) async fn client(
    command: Command,
    arguments: &[String],
    log: &Path,
    seconds: u32,
) -> anyhow::Result<(String, Cpu)> {
    let (mut client, mut output) = Process::start_with_output("the client", command, arguments, log)?;
    let pid = client.pid()?;
    let mut text = String::new();
    let deadline = Duration::from_secs(u64::from(seconds)) + GRACE;
    let ended = tokio::time::timeout(deadline, async {
        output.read_to_string(&mut text).await?;
        while !is_over(pid) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        process::cpu_by_place(pid)
    });
    let cpu = ended.await.with_context(|| format!("the load did not end within {deadline:?}"))??;
    // What it said is looked at; exit code 1 is headroom's word that its figures are its own limit, as asked
    // here.
    let finished = client.finish(GRACE).await;
    if text.trim().is_empty() {
        finished?;
    }
    Ok((text, cpu))
}

/// Arguments of headroom's own load on this server, JSON on its output and nothing kept.
pub(super) fn load(workload: &str, server: impl Display, more: &[(&str, String)]) -> Vec<String> {
    let mut arguments: Vec<String> =
        ["load", "run", workload, "--json", "--no-store"].map(str::to_owned).to_vec();
    for (flag, value) in [
        ("--server", server.to_string()),
        ("--user", sysbench::ACCOUNT.to_owned()),
        ("--database", sysbench::DATABASE.to_owned()),
        // sysbench has no warm-up either.
        ("--warm-up", "0s".to_owned()),
    ]
    .iter()
    .chain(more)
    {
        arguments.push((*flag).to_owned());
        arguments.extend((!value.is_empty()).then(|| value.clone()));
    }
    arguments
}

/// This program.
pub(super) fn ourselves() -> anyhow::Result<PathBuf> {
    binary::headroom()
}

/// What headroom printed.
pub(super) fn outcome(text: &str) -> anyhow::Result<Value> {
    serde_json::from_str(text).context("headroom's JSON cannot be read")
}

pub(super) fn figure(found: &Value, pointer: &str) -> anyhow::Result<f64> {
    found.pointer(pointer).and_then(Value::as_f64).with_context(|| format!("no {pointer}"))
}

/// Whether a process has ended and waits to be reaped.
fn is_over(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_none_or(|(_, rest)| rest.trim_start().starts_with('Z'))
}
