//! `headroom-bench failover`: the primary is killed, or frozen, at a random moment while clients write
//! through two routers; a replica takes over, the old primary comes back as a replica, and again. Each part
//! of the time is told apart, from the fault on: until it is confirmed dead, until it is decided who takes
//! over, until that server takes writes, and until the first client's write is acknowledged. What clients
//! were told is held against what the servers have.

use super::super::output;
use super::super::promise::{self, Promise};
use super::clients::Writers;
use super::fixture::{FixtureSpec, MoveFixture};
use super::history::Anomalies;
use super::under_writes::{
    self, LEAD, QUICK, QUIET_LOOK, WriteArgs, errors_and_remarks, nothing_lost, quantile, times,
};
use ::switchover::facts;
use ::switchover::failover::confirm::Rule;
use ::switchover::failover::exposure::{self, Exposure};
use ::switchover::failover::rejoin::{RejoinOutcome, rejoin};
use ::switchover::failover::scene::Scene;
use ::switchover::failover::source;
use ::switchover::journal::Journal;
use ::switchover::perform::{self, Deadlines, FenceBy, Progress};
use ::switchover::step::{State, Step};
use anyhow::{anyhow, bail};
use clap::{Args, ValueEnum};
use fleet::ServerName;
use lab::Fault;
use mysql_async::prelude::Queryable;
use probe::Machine;
use serde::Serialize;
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use term::{interrupted, terminal};

/// As an application's statement timeout: a session with a frozen server is given up.
const PATIENCE: Duration = Duration::from_secs(3);
const STATEMENT: Duration = Duration::from_secs(5);
/// Without semi-sync servers stand this far apart (round trip): what is lost was under way to the replicas,
/// and on one machine that is nothing.
const APART: Duration = Duration::from_millis(20);
const WITHIN: Duration = Duration::from_secs(60);
const READY: Duration = Duration::from_secs(60);

/// Flags of `headroom-bench failover`.
#[derive(Args, Clone, Debug)]
pub(crate) struct FailoverBenchArgs {
    /// How often the primary dies.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    times: u32,
    /// How it dies.
    #[arg(long, value_enum, default_value_t = Death::Kill)]
    fault: Death,
    /// Without semi-sync: what is lost is measured. Each time with servers of its own.
    #[arg(long)]
    asynchronous: bool,
    #[command(flatten)]
    writes: WriteArgs,
    /// From which the moments are drawn.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// How a primary dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
enum Death {
    /// kill -9.
    Kill,
    /// SIGSTOP: accepts connections, answers nobody.
    Freeze,
    /// Its host is lost: packets to it go nowhere, no connection is closed. Each time with servers of its
    /// own.
    Blackhole,
}

impl Death {
    fn fault(self) -> Fault {
        match self {
            Self::Kill => Fault::Kill,
            Self::Freeze => Fault::Freeze,
            Self::Blackhole => Fault::Drop,
        }
    }
}

/// One death, milliseconds after the fault.
#[derive(Clone, Debug, Serialize)]
struct Takeover {
    number: u32,
    died: String,
    took_over: String,
    /// Confirmed dead.
    detected_ms: f64,
    /// Read all replicas and chosen.
    decided_ms: f64,
    /// Takes writes, and the first one of ours is done.
    promoted_ms: f64,
    /// A client's write is acknowledged.
    first_write_ms: Option<f64>,
    /// Transactions that the old primary had and nobody else, where it was not truncated.
    own: u64,
    /// What could be lost, as `headroom failover --check` said before the fault; `None`: nothing.
    predicted: Option<String>,
    /// Without semi-sync: what `headroom switchover --check` counted before the fault.
    exposure: Option<Exposure>,
    /// Without semi-sync: acknowledged transactions that the new primary does not have.
    lost: Option<u64>,
    remarks: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Report {
    date: String,
    machine: Machine,
    fault: Death,
    asynchronous: bool,
    clients: u32,
    rate: f64,
    transactions: u64,
    anomalies: Anomalies,
    errors: BTreeMap<String, u64>,
    promises: Vec<Promise>,
    deaths: Vec<Takeover>,
}

/// Measures, writes the run's directory, prints the tables; "no" when a promise was missed.
pub(crate) async fn run(mut args: FailoverBenchArgs) -> anyhow::Result<ExitCode> {
    if args.writes.quick {
        args.times = args.times.min(QUICK);
    }
    let what = match (args.fault, args.asynchronous) {
        (Death::Kill, false) => "failover",
        (Death::Freeze, false) => "failover-freeze",
        (Death::Blackhole, false) => "failover-blackhole",
        (_, true) => "failover-asynchronous",
    };
    let directory = output::Directory::new(args.writes.out.as_deref(), what, args.writes.quick)?;
    terminal::complain(&format!(
        "the primary dies {} times. Result: {}",
        args.times,
        directory.path().display()
    ));
    let machine = Machine::look(&[], QUIET_LOOK).await?;
    let measured = tokio::select! {
        measured = measure(&args) => measured,
        () = interrupted() => Err(anyhow!("interrupted: everything that was started is stopped")),
    };
    let Measured { deaths, anomalies, errors, transactions } = measured?;
    let promises = promises(&args, &deaths, &anomalies, transactions);
    let (fault, asynchronous, clients, rate) =
        (args.fault, args.asynchronous, args.writes.clients, args.writes.rate);
    let date = directory.date().to_owned();
    let report = Report {
        date,
        machine,
        fault,
        asynchronous,
        clients,
        rate,
        transactions,
        anomalies,
        errors,
        promises,
        deaths,
    };
    let met = promise::all_met(&report.promises);
    output::finish(&directory.create()?, "run.json", &report, &report.markdown(), met, args.writes.json)
}

#[derive(Default)]
struct Measured {
    deaths: Vec<Takeover>,
    anomalies: Anomalies,
    errors: BTreeMap<String, u64>,
    transactions: u64,
}

async fn measure(args: &FailoverBenchArgs) -> anyhow::Result<Measured> {
    let mut measured = Measured::default();
    if !args.asynchronous && args.fault != Death::Blackhole {
        series(args, 1..=args.times, &mut measured).await?;
        return Ok(measured);
    }
    // What the old primary has of its own cannot be discarded, and after a takeover servers no longer follow
    // over links that can break: each death has new servers.
    for number in 1..=args.times {
        series(args, number..=number, &mut measured).await?;
    }
    Ok(measured)
}

async fn series(
    args: &FailoverBenchArgs,
    numbers: std::ops::RangeInclusive<u32>,
    measured: &mut Measured,
) -> anyhow::Result<()> {
    let (clients, semi_sync) = (args.writes.clients, !args.asynchronous);
    let round_trip = args.asynchronous.then_some(APART);
    let wanted = FixtureSpec { clients, zero_hop: false, program: None, semi_sync, round_trip };
    let mut fixture = MoveFixture::up(&output::scratch(), &wanted).await?;
    let done = deaths(args, numbers, &mut fixture, measured).await;
    fixture.down().await?;
    done
}

async fn deaths(
    args: &FailoverBenchArgs,
    numbers: std::ops::RangeInclusive<u32>,
    fixture: &mut MoveFixture,
    measured: &mut Measured,
) -> anyhow::Result<()> {
    let writers = Writers::start(&fixture.writers(), args.writes.clients, args.writes.rate, PATIENCE);
    tokio::time::sleep(LEAD).await;
    let mut spans = Vec::new();
    for number in numbers {
        if !args.asynchronous {
            acknowledging(fixture).await?;
        }
        tokio::time::sleep(moment(args.seed, number)).await;
        spans.push(death(args, number, fixture).await?);
        if number % 10 == 0 {
            terminal::complain(&format!("{number} of {} deaths", args.times));
        }
    }
    tokio::time::sleep(LEAD).await;
    let seen = writers.stop().await;
    // Without semi-sync the old primary has a history of its own, which nobody is asked to believe.
    let finals = if args.asynchronous { fixture.of_primary().await? } else { fixture.finals().await? };
    let anomalies = under_writes::anomalies(&seen, &finals, !args.asynchronous);
    // Such a series is one death.
    let lost = args.asynchronous.then_some(anomalies.lost);
    measured.anomalies.add(anomalies);
    measured.transactions += seen.responses.len() as u64;
    for (what, count) in seen.errors {
        *measured.errors.entry(what).or_default() += count;
    }
    for (mut death, began, confirmed) in spans {
        let done = |response: &super::Response| response.due + response.took;
        let written =
            seen.responses.iter().filter(|response| response.acknowledged && done(response) > confirmed);
        let first = written.map(done).min();
        death.lost = lost;
        death.first_write_ms = first.map(|at| (at - began).as_secs_f64() * 1e3);
        measured.deaths.push(death);
    }
    Ok(())
}

/// Between 0 and 500 ms, drawn from the seed (splitmix64).
fn moment(seed: u64, number: u32) -> Duration {
    let mut z = seed.wrapping_add(u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    Duration::from_micros((z ^ (z >> 31)) % 500_000)
}

/// The primary dies and is replaced; it comes back. With the moments of the fault and of its confirmation.
async fn death(
    args: &FailoverBenchArgs,
    number: u32,
    fixture: &mut MoveFixture,
) -> anyhow::Result<(Takeover, Instant, Instant)> {
    let (logins, snapshot) = (fixture.logins(), fixture.snapshot()?);
    let old = fixture.primary.clone();
    let name = ServerName::new(&old);
    let scene = Scene::read(&snapshot, Some(&name), &logins.admin, STATEMENT, &logins.flags).await?;
    // Remembered while it lives, as a guard does.
    let evidence = source::ask(&scene.primary, &logins.admin, STATEMENT).await;
    let predicted = scene.rule_out_loss(&evidence).err().map(|loss| loss.to_string());
    let exposure = if args.asynchronous { Some(exposure(fixture, &old).await?) } else { None };
    let began = Instant::now();
    fixture.lab.fault(&old, args.fault.fault()).await?;
    scene.confirm(&logins.admin, &Rule::default(), WITHIN).await?;
    let confirmed = Instant::now();
    let scene = Scene::read(&snapshot, Some(&name), &logins.admin, STATEMENT, &logins.flags).await?;
    let fence = match scene.rule_out_loss(&evidence) {
        Ok(facts) => FenceBy::SemiSync { facts },
        Err(_) if args.asynchronous => FenceBy::Nothing,
        Err(loss) => bail!("death {number}: {loss}"),
    };
    let candidate = scene.choose(None)?;
    let plan = scene.plan(&candidate, fence, Deadlines::default(), "bench")?;
    let decided = Instant::now();
    let mut journal = Journal::create(&fixture.journals, &plan)?;
    let mut promoted = None;
    let mut progress = |progress: Progress<'_>| {
        if let Progress::Ended { step: Step::Mark, .. } = progress {
            promoted = Some(Instant::now());
        }
    };
    let outcome = perform::run(&plan, &logins, &mut journal, State::START, &|| false, &mut progress).await?;
    if outcome.state != State::Done {
        bail!("death {number} of {old}: {:?}", outcome.state);
    }
    fixture.primary = candidate.to_string();
    let mut remarks = outcome.remarks;
    let own = bring_back(args, &old, fixture, &mut remarks).await?;
    let ms = |at: Instant| (at - began).as_secs_f64() * 1e3;
    let death = Takeover {
        number,
        died: old,
        took_over: candidate.to_string(),
        detected_ms: ms(confirmed),
        decided_ms: ms(decided),
        promoted_ms: promoted.map_or(f64::NAN, ms),
        first_write_ms: None,
        own,
        predicted,
        exposure,
        lost: None,
        remarks,
    };
    Ok((death, began, confirmed))
}

/// As `headroom switchover --check` counts it.
async fn exposure(fixture: &MoveFixture, primary: &str) -> anyhow::Result<Exposure> {
    let (logins, snapshot) = (fixture.logins(), fixture.snapshot()?);
    let mut all = Vec::new();
    for server in &snapshot.servers {
        all.push(facts::read(&server.name, &server.reach, &logins.admin, STATEMENT).await?);
    }
    let (primary, replicas): (Vec<_>, Vec<_>) =
        all.iter().partition(|facts| facts.server.as_str() == primary);
    let primary = primary.first().ok_or_else(|| anyhow!("the primary is not known"))?;
    Ok(exposure::measure(primary, &replicas, &logins.admin, Duration::from_secs(1), STATEMENT).await?)
}

/// The old primary starts again and follows; what it has of its own is counted.
async fn bring_back(
    args: &FailoverBenchArgs,
    old: &str,
    fixture: &MoveFixture,
    remarks: &mut Vec<String>,
) -> anyhow::Result<u64> {
    if args.fault != Death::Kill {
        // What a fence does: one that wakes up again still has commits that wait for an acknowledgement.
        fixture.lab.fault(old, Fault::Kill).await?;
    }
    fixture.lab.heal(old).await?;
    let (logins, snapshot) = (fixture.logins(), fixture.snapshot()?);
    let read = async |name: &str| {
        let server = snapshot.server(&ServerName::new(name)).ok_or_else(|| anyhow!("{name} is not known"))?;
        anyhow::Ok(facts::read(&server.name, &server.reach, &logins.admin, STATEMENT).await?)
    };
    let (returned, new) = (read(old).await?, read(&fixture.primary).await?);
    match rejoin(&returned, &new, &[], &logins, READY).await? {
        RejoinOutcome::Follows => {}
        RejoinOutcome::Refused { own, .. } if args.asynchronous => return Ok(own.count),
        RejoinOutcome::Refused { own, .. } => bail!("{old} has {own} of its own: it cannot go on"),
    }
    if !args.asynchronous {
        remarks.extend(fixture.wrong().await?);
    }
    Ok(0)
}

/// Both replicas acknowledge.
async fn acknowledging(fixture: &MoveFixture) -> anyhow::Result<()> {
    let mut conn = fixture.lab.connect(&fixture.primary).await?;
    let until = Instant::now() + READY;
    loop {
        let ask = "SHOW STATUS LIKE 'Rpl_semi_sync_master_clients'";
        let clients: Option<(String, String)> = conn.query_first(ask).await?;
        if clients.is_some_and(|(_, clients)| clients == "2") {
            return Ok(conn.disconnect().await?);
        }
        if Instant::now() > until {
            bail!("{} has not two semi-sync replicas", fixture.primary);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn promises(
    args: &FailoverBenchArgs,
    deaths: &[Takeover],
    anomalies: &Anomalies,
    transactions: u64,
) -> Vec<Promise> {
    let done = Promise::new(
        "a replica takes over every time",
        format!("{} of {}", deaths.len(), args.times),
        deaths.len() == args.times as usize,
    );
    let remarks = deaths.iter().filter(|death| !death.remarks.is_empty()).count();
    let topology = Promise::new(
        "one writer, everybody follows it, after each",
        format!("{remarks} with a remark"),
        remarks == 0,
    );
    let (limit, words) = match args.fault {
        Death::Kill => (5_000.0, "half of the first writes are acknowledged within 5 s of the crash"),
        Death::Blackhole => {
            (10_000.0, "half of the first writes are acknowledged within 10 s of the loss of the host")
        }
        Death::Freeze => (15_000.0, "half of the first writes are acknowledged within 15 s of the freeze"),
    };
    let first: Vec<f64> = deaths.iter().filter_map(|death| death.first_write_ms).collect();
    let median = quantile(&first, 0.5);
    let time = Promise::new(
        words,
        median.map_or("nothing measured".to_owned(), |ms| format!("{:.1} s", ms / 1e3)),
        first.len() == deaths.len() && median.is_some_and(|ms| ms <= limit),
    );
    let predicted = deaths.iter().filter(|death| death.predicted.is_some()).count();
    if args.asynchronous {
        let all = predicted == deaths.len();
        let words = format!("{predicted} of {} times", deaths.len());
        let within = deaths.iter().filter(|death| death.is_within_prediction()).count();
        return vec![
            done,
            Promise::new("the check says before each death that writes could be lost", words, all),
            Promise::new(
                "no more is lost than the check counted before the death",
                format!("{within} of {} times", deaths.len()),
                within == deaths.len(),
            ),
            time,
        ];
    }
    let none = Promise::new(
        "the check says before each death that nothing acknowledged can be lost",
        format!("{} of {} times", deaths.len() - predicted, deaths.len()),
        predicted == 0,
    );
    vec![done, nothing_lost(anomalies, transactions), none, topology, time]
}

impl Takeover {
    fn is_within_prediction(&self) -> bool {
        self.exposure.as_ref().zip(self.lost).is_some_and(|(exposure, lost)| lost <= exposure.most)
    }
}

impl Report {
    fn markdown(&self) -> String {
        let way = if self.asynchronous { "asynchronous" } else { "semi-sync (AFTER_SYNC, never falls back)" };
        let mut text = format!(
            "# The primary died {} times ({:?}), {}, {way}, {} transactions a second over {} clients, two routers\n\n{}\n\n",
            self.deaths.len(),
            self.fault,
            self.date,
            self.rate,
            self.clients,
            self.machine.line()
        );
        for warning in self.machine.warnings() {
            text.push_str(&format!("**{warning}**\n\n"));
        }
        text.push_str(&promise::table(&self.promises));
        let of = |figure: fn(&Takeover) -> Option<f64>| {
            self.deaths.iter().filter_map(figure).collect::<Vec<f64>>()
        };
        let rows = [
            ("noticed and confirmed", of(|d| Some(d.detected_ms))),
            ("decided who takes over", of(|d| Some(d.decided_ms - d.detected_ms))),
            ("promoted", of(|d| Some(d.promoted_ms - d.decided_ms))),
            ("from there to the first write of a client", of(|d| Some(d.first_write_ms? - d.promoted_ms))),
            ("**from the fault to the first write of a client**", of(|d| d.first_write_ms)),
        ];
        let rows = rows.into_iter().map(|(name, values)| (name.to_owned(), values));
        text.push_str(&times("Time, ms", rows));
        if self.asynchronous {
            let with = self.deaths.iter().filter(|death| death.own > 0).count();
            let most = self.deaths.iter().map(|death| death.own).max().unwrap_or(0);
            text.push_str(&format!(
                "\nWithout semi-sync: {} acknowledged writes lost of {} transactions over all deaths; {with} of {} old \
                 primaries had transactions that nobody else has, at most {most}.\n",
                self.anomalies.lost,
                self.transactions,
                self.deaths.len()
            ));
            text.push_str(&self.predictions());
        }
        let remarks = self.deaths.iter().map(|death| (death.number, death.remarks.as_slice()));
        text.push_str(&errors_and_remarks(&self.errors, "death", remarks));
        text
    }

    /// What was counted before each death, beside what it lost.
    fn predictions(&self) -> String {
        let mut text = String::from(
            "\n## Predicted and lost, transactions\n\n| death | counted before it, at most | lost |\n|---:|---:|---:|\n",
        );
        for death in &self.deaths {
            let most = death.exposure.as_ref().map_or("-".to_owned(), |exposure| exposure.most.to_string());
            let lost = death.lost.map_or("-".to_owned(), |lost| lost.to_string());
            text.push_str(&format!("| {} | {most} | {lost} |\n", death.number));
        }
        text
    }
}
