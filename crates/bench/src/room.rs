//! `headroom-bench room`: does each replica get what it can carry?
//!
//! Readers of a lab have a limit of CPU time each; one has less. Three ways in turn: weights that say the
//! truth (`by hand`), the speed measured (`measured`), and neither (`off`, as it was before). Each runs on
//! routers of its own, started for it. All figures are ratios within a round. In the part `cold` (`cold.rs`)
//! the one reader is restarted instead, and warms up by its heat or by the clock.

mod clients;
mod cold;
mod cpu_limit;
mod disk_limit;
mod fixture;
mod report;

use super::output::{Directory, finish, scratch};
use anyhow::Context;
use clap::{Args, ValueEnum};
use clients::{Clients, Demand, Order, Pace};
use fixture::{RoomLab, Route, Way};
use plan::quantile::{nearest_rank, sorted};
use probe::Machine;
use report::{Cell, Report, Second};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use term::{interrupted, terminal};

const SECOND: Duration = Duration::from_secs(1);
/// What a statement keeps a core busy for.
const STATEMENT: Duration = Duration::from_millis(1);
/// What a reader may use of a core when it is not the slow one: three of them, the router and the clients fit
/// on two cores.
const FULL: f64 = 0.3;
/// The share of what all readers carry that is asked for in an open loop.
const ASKED: f64 = 0.6;
/// Statements a second of each zone where pools hand out their newest session first: six at a time.
const LIFO_RATE: f64 = 40.0;
/// Sessions of a pool, and how many clients use them in a closed loop.
const SESSIONS: usize = 24;
const CLIENTS: usize = 8;
/// The reader that is slow.
const SLOW: &str = "a1";

/// A part of the bench.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Three readers in one zone, one slow; open loop.
    Slow,
    /// The same in a closed loop.
    Closed,
    /// Zones with 3, 1 and 0 readers, pools that hand out their newest session first.
    Lifo,
    /// Three zones, the slow reader alone in its own.
    Alone,
    /// Equal readers: nothing is to happen.
    Equal,
    /// Three readers in one zone, one restarted with an empty buffer pool.
    Cold,
}

/// Flags of `headroom-bench room`.
#[derive(Args, Clone, Debug)]
pub(crate) struct RoomArgs {
    /// Only these parts.
    #[arg(long, alias = "part", value_delimiter = ',', value_enum,
          default_values_t = [Part::Slow, Part::Closed, Part::Lifo, Part::Alone, Part::Equal, Part::Cold])]
    only: Vec<Part>,
    /// How often the parts with several ways are measured.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=50))]
    rounds: u32,
    /// Seconds from the moment at which the reader becomes slow to the measurement.
    #[arg(long, default_value_t = 45, value_parser = clap::value_parser!(u64).range(2..=600))]
    settle: u64,
    /// Seconds of each measurement.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(2..=600))]
    seconds: u64,
    /// Seconds of the part `equal`.
    #[arg(long, default_value_t = 600, value_parser = clap::value_parser!(u64).range(5..=7200))]
    equal: u64,
    /// Seconds of each warm-up of the part `cold`.
    #[arg(long, default_value_t = 70, value_parser = clap::value_parser!(u64).range(5..=3600))]
    warm_up: u64,
    /// A smoke run: one round with 20 s to settle and 10 s to measure, 30 s of equal readers, and warm-ups of
    /// 45 s.
    #[arg(long)]
    quick: bool,
    /// From which arrivals are drawn.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where the run's files go [default: benchmarks/runs/room/YYYY-MM-DD-room, with --quick target/bench].
    #[arg(long)]
    out: Option<PathBuf>,
    /// Print everything as JSON instead of a table.
    #[arg(long)]
    json: bool,
}

/// Runs it.
pub(crate) async fn run(mut args: RoomArgs) -> anyhow::Result<ExitCode> {
    if args.quick {
        (args.rounds, args.settle, args.seconds, args.equal) = (1, 20, 10, 30);
        args.warm_up = 45;
    }
    let directory = Directory::new(args.out.as_deref(), "room", args.quick)?;
    let machine = Machine::look(&[], 2 * SECOND).await?;
    let mut report = Report::new(directory.date().to_owned(), machine, ASKED, FULL);
    for part in args.only.clone() {
        let cells = tokio::select! {
            cells = measured(&args, part) => cells.with_context(|| format!("part {part:?}"))?,
            () = interrupted() => {
                anyhow::ensure!(!report.cells.is_empty(), "interrupted");
                // What was measured takes long, and is worth as much without the rest.
                terminal::complain(&format!("interrupted: {part:?} and what follows are not measured"));
                break;
            }
        };
        report.cells.extend(cells);
    }
    let (text, met) = (report.markdown(), report.met());
    finish(&directory.create()?, "room.json", &report, &text, met, args.json)
}

async fn measured(args: &RoomArgs, part: Part) -> anyhow::Result<Vec<Cell>> {
    let zones: &[(&str, u8)] = match part {
        Part::Slow | Part::Closed | Part::Equal | Part::Cold => &[("a", 3)],
        Part::Lifo => &[("a", 3), ("b", 1), ("c", 0)],
        Part::Alone => &[("a", 1), ("b", 1), ("c", 1)],
    };
    let mut lab = RoomLab::up(&scratch(), zones, FULL).await?;
    let cells = in_turn(args, part, &mut lab).await;
    lab.down().await?;
    cells
}

async fn in_turn(args: &RoomArgs, part: Part, lab: &mut RoomLab) -> anyhow::Result<Vec<Cell>> {
    let times = lab.calibrate(STATEMENT).await?;
    // How sessions are used is no matter of CPU time: their statements wait.
    let statement: Arc<str> = match part {
        Part::Cold => cold::statement(times).into(),
        Part::Lifo => "SELECT SLEEP(0.15)".into(),
        _ => format!("SELECT BENCHMARK({times}, MD5('room'))").into(),
    };
    let on = Way { speed: true, work: true, heat: true, ..Way::default() };
    let off = Way::default();
    let mut cells = Vec::new();
    if part == Part::Cold {
        return cold::in_turn(args, lab, &statement).await;
    }
    if part == Part::Equal {
        let carried = lab.carry(&statement, args.seed).await?;
        let bench = Bench { args, part, lab, statement: &statement, carried, round: 1 };
        return Ok(vec![bench.equal(&on).await?]);
    }
    for round in 1..=args.rounds {
        // A shared machine is not as fast in one quarter of an hour as in the next.
        let carried = lab.carry(&statement, args.seed).await?;
        let weights = |speed: f64| Way { weights: [(SLOW.to_owned(), speed)].into(), ..Way::default() };
        let ways: Vec<(&str, f64, Way)> = match part {
            Part::Slow | Part::Closed => [0.5, 0.2]
                .into_iter()
                .flat_map(|speed| {
                    [
                        ("by hand", speed, weights(speed)),
                        ("measured", speed, on.clone()),
                        ("off", speed, off.clone()),
                    ]
                })
                .collect(),
            Part::Alone => vec![("measured", 0.5, on.clone()), ("off", 0.5, off.clone())],
            Part::Lifo | Part::Equal | Part::Cold => {
                let halves: BTreeMap<String, f64> = lab.readers().into_iter().map(|r| (r, 0.5)).collect();
                let one_half = Way { weights: [("a2".to_owned(), 0.5)].into(), ..on.clone() };
                vec![
                    ("measured", 1.0, on.clone()),
                    ("weights 0.5", 1.0, Way { weights: halves, ..on.clone() }),
                    ("a2 weighs 0.5", 1.0, one_half),
                    ("off", 1.0, off.clone()),
                ]
            }
        };
        for (name, speed, way) in ways {
            terminal::complain(&format!("{part:?}, round {round}: {name}, speed {speed}"));
            let mut bench = Bench { args, part, lab, statement: &statement, carried, round };
            cells.push(bench.cell(name, speed, &way).await?);
        }
    }
    Ok(cells)
}

/// What a cell needs.
struct Bench<'a> {
    args: &'a RoomArgs,
    part: Part,
    lab: &'a mut RoomLab,
    statement: &'a Arc<str>,
    /// Statements a second that all readers answer together at full speed.
    carried: f64,
    round: u32,
}

impl Bench<'_> {
    fn zones(&self) -> &'static [&'static str] {
        match self.part {
            Part::Lifo | Part::Alone => &["a", "b", "c"],
            _ => &["a"],
        }
    }

    /// Statements a second that are asked for in an open loop.
    fn asked(&self, speed: f64) -> Option<f64> {
        let readers = self.lab.readers().len() as f64;
        match self.part {
            Part::Closed => None,
            Part::Lifo => Some(LIFO_RATE * self.zones().len() as f64),
            _ => Some(ASKED * self.carried * (readers - 1.0 + speed) / readers),
        }
    }

    /// Clients in each zone, with equal demand.
    async fn clients(&self, routes: &[Route], speed: f64) -> anyhow::Result<Vec<Clients>> {
        let demand = Demand {
            sessions: SESSIONS,
            order: if self.part == Part::Lifo { Order::NewestFirst } else { Order::OldestFirst },
            pace: self
                .asked(speed)
                .map_or(Pace::Closed(CLIENTS), |all| Pace::Open(all / routes.len() as f64)),
            statement: self.statement.clone(),
            seed: self.args.seed + u64::from(self.round),
        };
        let mut clients = Vec::new();
        for (at, route) in routes.iter().enumerate() {
            let demand = Demand { seed: demand.seed * 10 + at as u64, ..demand.clone() };
            clients.push(Clients::start(&route.opts(), &demand).await?);
        }
        Ok(clients)
    }

    async fn cell(&mut self, name: &str, speed: f64, way: &Way) -> anyhow::Result<Cell> {
        let routes = self.lab.routes(self.zones(), way).await?;
        let clients = self.clients(&routes, speed).await?;
        let mut cell = Cell::new(&format!("{:?}", self.part), self.round, name, speed);
        cell.carried_per_s = self.carried;
        cell.asked_per_s = self.asked(speed);
        cell.seconds = self.args.seconds;
        if self.part != Part::Lifo {
            self.watch(&routes, &clients, 10, &mut cell).await?;
            self.lab.set_speed(SLOW, speed)?;
        }
        cell.slow_at_s = cell.series.len();
        self.watch(&routes, &clients, self.args.settle, &mut cell).await?;
        let (before, crossed) = (self.lab.statements().await?, commands(&routes).await?);
        let mut times = Vec::new();
        for _ in 0..self.args.seconds {
            times.extend(self.watch(&routes, &clients, 1, &mut cell).await?);
        }
        let after = self.lab.statements().await?;
        cell.statements = after.iter().map(|(name, n)| (name.clone(), n - before[name])).collect();
        cell.crossing = crossing(&crossed, &commands(&routes).await?);
        let times = sorted(times);
        cell.answers = times.len();
        (cell.p50_ms, cell.p99_ms) = (quantile(&times, 0.5), quantile(&times, 0.99));
        cell.recovered_at_s = cell.series.len();
        if self.part == Part::Slow && name == "measured" {
            self.lab.set_speed(SLOW, 1.0)?;
            self.watch(&routes, &clients, if self.args.quick { 30 } else { 75 }, &mut cell).await?;
        }
        drop(clients);
        for route in routes {
            route.stop().await?;
        }
        self.lab.set_speed(SLOW, 1.0)?;
        Ok(cell)
    }

    /// Equal readers for a long time.
    async fn equal(mut self, way: &Way) -> anyhow::Result<Cell> {
        terminal::complain(&format!("Equal: {} s", self.args.equal));
        let routes = self.lab.routes(self.zones(), way).await?;
        let clients = self.clients(&routes, 1.0).await?;
        let mut cell = Cell::new("Equal", 1, "measured", 1.0);
        cell.carried_per_s = self.carried;
        self.watch(&routes, &clients, self.args.equal, &mut cell).await?;
        drop(clients);
        for route in routes {
            route.stop().await?;
        }
        Ok(cell)
    }

    /// Notes for some seconds what the first router says of the slow reader, and what clients see.
    async fn watch(
        &mut self,
        routes: &[Route],
        clients: &[Clients],
        seconds: u64,
        cell: &mut Cell,
    ) -> anyhow::Result<Vec<f64>> {
        let mut all = Vec::new();
        for _ in 0..seconds {
            tokio::time::sleep(SECOND).await;
            let status = routes[0].status().await?;
            let routed = status.fleet.servers.iter().filter_map(|s| Some((s, s.routing.as_ref()?)));
            let slow = routed.clone().find(|(server, _)| server.name == SLOW);
            let least = routed.filter_map(|(_, routing)| routing.speed).fold(1.0, f64::min);
            let mut seen = Second {
                share: slow.map_or(0.0, |(_, routing)| routing.share),
                speed: slow.and_then(|(_, routing)| routing.speed).unwrap_or(1.0),
                warmth: slow.and_then(|(_, routing)| routing.warmth).unwrap_or(1.0),
                least_speed: least,
                sessions: slow.map_or(0, |(_, routing)| routing.readers),
                moved: status.counters.closed.get("moved: balance").copied().unwrap_or_default(),
                p99_ms: 0.0,
            };
            for clients in clients {
                let answers = clients.take();
                cell.errors.extend(answers.errors);
                all.extend(answers.times_ms);
            }
            seen.p99_ms = quantile(&sorted(all.clone()), 0.99);
            cell.series.push(seen);
            if seconds > 1 {
                all.clear();
            }
        }
        Ok(all)
    }
}

/// 0 where nothing was answered.
fn quantile(sorted: &[f64], q: f64) -> f64 {
    nearest_rank(sorted, q).unwrap_or_default()
}

/// Commands that each router has sent to each zone's servers: by the router's zone and the server's.
async fn commands(routes: &[Route]) -> anyhow::Result<BTreeMap<(String, String), u64>> {
    let mut all = BTreeMap::new();
    for route in routes {
        for server in route.status().await?.fleet.servers {
            let zone = server.zone.map(|zone| zone.zone).unwrap_or_default();
            let commands = server.routing.map_or(0, |routing| routing.commands);
            *all.entry((route.zone.clone(), zone)).or_default() += commands;
        }
    }
    Ok(all)
}

/// The share of commands between two counts that went to another zone.
fn crossing(before: &BTreeMap<(String, String), u64>, after: &BTreeMap<(String, String), u64>) -> f64 {
    let since = |(at, n): (&(String, String), &u64)| {
        (at.0 != at.1, n.saturating_sub(before.get(at).copied().unwrap_or_default()))
    };
    let all: Vec<(bool, u64)> = after.iter().map(since).collect();
    let sum =
        |of: &dyn Fn(bool) -> bool| all.iter().filter(|(c, _)| of(*c)).map(|(_, n)| n).sum::<u64>() as f64;
    sum(&|crosses| crosses) / sum(&|_| true).max(1.0)
}
