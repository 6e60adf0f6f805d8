//! Every step of a planned move x what can break there, on real servers: it ends undone or completed, there
//! are never two writers (asked of the servers all the while), and never none for longer than [`NO_WRITER`].
//!
//! A sample runs with the tests and is held against the table in docs/guide/switchover-faults.md. `make
//! fault-matrix` (`HEADROOM_FAULTS=all`) runs everything and writes the table; `HEADROOM_FAULTS=freeze,await`
//! runs these steps only and prints.

#![allow(clippy::disallowed_methods, reason = "which cells run is told by the environment, as make does")]
#![allow(clippy::print_stdout, reason = "the matrix shows each cell as it ends")]

use crate::gray::{self, Disk, Writers};
use crate::moving::{DEADLINE, Fleet, quick};
use fleet::ServerName;
use lab::{Account, Fault, Spec};
use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use switchover::facts;
use switchover::failover::confirm::Rule;
use switchover::failover::rejoin::{self, RejoinOutcome};
use switchover::failover::scene::Scene;
use switchover::journal::{self, Journal};
use switchover::perform::{self, Deadlines, FenceBy, Plan, Progress};
use switchover::step::{self, STEPS, State, Step};

/// Nobody takes writes for at most this long, the commands that somebody types afterwards included.
const NO_WRITER: Duration = Duration::from_secs(30);
/// A server that is asked all the while and does not answer by then takes no writes either.
const LOOK: Duration = Duration::from_millis(500);
const TABLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/switchover-faults.md");

/// What breaks the moment a step begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Breaks {
    Tool,
    PrimaryKilled,
    CandidateKilled,
    CandidateFrozen,
    /// And wakes up once the tool has ended.
    PrimaryFrozen,
    Transaction,
    /// Nothing goes from the old primary to its replicas any more.
    LinkCut,
    /// Of the old primary, while clients write: its commits hang.
    DiskFull,
}

const BREAKS: [(Breaks, &str); 8] = [
    (Breaks::Tool, "the tool is killed"),
    (Breaks::PrimaryKilled, "kill -9 of the old primary"),
    (Breaks::CandidateKilled, "kill -9 of the candidate"),
    (Breaks::CandidateFrozen, "the candidate freezes"),
    (Breaks::PrimaryFrozen, "the old primary freezes"),
    (Breaks::Transaction, "a transaction never ends"),
    (Breaks::LinkCut, "the link to the replicas is cut"),
    (Breaks::DiskFull, "the old primary's disk is full"),
];

/// How a cell ended.
#[derive(Clone, Debug)]
struct Ended {
    /// In the table's words.
    how: String,
    /// The longest time without a server that takes writes.
    no_writer: Duration,
}

#[tokio::test]
async fn whatever_breaks_at_a_step_it_is_undone_or_completed_with_one_writer() {
    let wanted = std::env::var("HEADROOM_FAULTS").unwrap_or_default();
    if wanted.is_empty() {
        ends_as_in_the_table(Step::Drain, Breaks::Transaction).await;
        ends_as_in_the_table(Step::CatchUp, Breaks::DiskFull).await;
        return;
    }
    let is_wanted = |name: &str| wanted == "all" || wanted.split(',').any(|wanted| wanted == name);
    let every = STEPS.iter().flat_map(|about| BREAKS.map(|(breaks, words)| (about, breaks, words)));
    let all: Vec<(Step, Breaks)> = every
        .filter(|(about, _, words)| is_wanted(about.name) || is_wanted(words))
        .map(|(about, breaks, _)| (about.step, breaks))
        .collect();
    // Four at a time, each with servers of its own: most of the time is waiting.
    let share = |number: usize| all.iter().skip(number).step_by(4).copied().collect::<Vec<_>>();
    let (one, two, three, four) =
        tokio::join!(cells(share(0)), cells(share(1)), cells(share(2)), cells(share(3)));
    let cells: BTreeMap<(Step, Breaks), Ended> =
        one.into_iter().chain(two).chain(three).chain(four).collect();
    if wanted == "all" {
        std::fs::write(TABLE, table(&cells)).unwrap();
    }
}

// The rest of the sample: apart, because each cell is a quarter of a minute, and most of it waiting.

#[tokio::test]
async fn a_move_whose_servers_freeze_is_undone_or_completed_with_one_writer() {
    ends_as_in_the_table(Step::Await, Breaks::CandidateFrozen).await;
    ends_as_in_the_table(Step::StopReplication, Breaks::CandidateFrozen).await;
}

#[tokio::test]
async fn a_move_whose_primary_freezes_or_dies_is_undone_or_completed_with_one_writer() {
    ends_as_in_the_table(Step::Await, Breaks::PrimaryFrozen).await;
    ends_as_in_the_table(Step::Await, Breaks::PrimaryKilled).await;
}

#[tokio::test]
async fn a_move_whose_tool_or_candidate_dies_is_undone_or_completed_with_one_writer() {
    ends_as_in_the_table(Step::Freeze, Breaks::Tool).await;
    ends_as_in_the_table(Step::Mark, Breaks::CandidateKilled).await;
}

async fn ends_as_in_the_table(step: Step, breaks: Breaks) {
    if breaks == Breaks::DiskFull && !testkit::root_or_not_tested("a disk of its own needs root") {
        return;
    }
    let ended = cell(step, breaks).await;
    let table = std::fs::read_to_string(TABLE).unwrap();
    let row = table.lines().find(|line| line.starts_with(&format!("| {} |", step.about().name))).unwrap();
    let column = BREAKS.iter().position(|(other, _)| *other == breaks).unwrap();
    let cell = row.split('|').nth(column + 2).unwrap().trim();
    assert_eq!(ended.how, cell, "{step} x {breaks:?}; make fault-matrix writes the table anew");
}

async fn cells(all: Vec<(Step, Breaks)>) -> Vec<((Step, Breaks), Ended)> {
    let mut done = Vec::new();
    for (step, breaks) in all {
        let ended = cell(step, breaks).await;
        println!("{step} x {breaks:?}: {} ({:.1} s)", ended.how, ended.no_writer.as_secs_f64());
        done.push(((step, breaks), ended));
    }
    done
}

fn table(cells: &BTreeMap<(Step, Breaks), Ended>) -> String {
    let longest = cells.values().map(|ended| ended.no_writer).max().unwrap_or_default();
    let mut text = String::from(
        "# What happens when something breaks during a switchover?\n\n\
         After this page you know, for each step and each fault, whether a switchover is undone or completed, and which\n\
         command you have to give.\n\n\
         `make fault-matrix` writes this page. It breaks one thing at the moment a step begins, on real MariaDB\n\
         servers with semi-sync. All the while it asks every server whether it takes writes: never two did.\n\n\
         - *Undone*: the old primary takes writes as before.\n\
         - *Undecided*: the old primary refuses writes and does not answer, so that it cannot be told to take some\n\
         \x20 again. Nobody takes writes until it answers and `headroom switchover --resume` is typed (*resumed*), or\n\
         \x20 `headroom failover`.\n\
         - *Completed*: the candidate does.\n\
         - *Failover*: the rest had no primary, because it was killed; `headroom failover` promoted a replica.\n\
         - *Gray failover*: the old primary's commits still hang, because its disk is full; it was killed, and\n\
         \x20 `headroom failover --gray` promoted a replica.\n\
         - *Resumed*: `headroom switchover --resume` was typed after the tool was killed, or after a frozen candidate\n\
         \x20 woke up.\n\
         - *Given up*: the candidate was killed at the moment of its promotion. Nothing moved until\n\
         \x20 `headroom switchover --undo` was typed.\n\n\
         A candidate that freezes while its replication is being stopped may stop it when it wakes up. Type there\n\
         what the outcome says: `START REPLICA`, and with semi-sync the statement for its switch before that.\n\n\
         At the end everything is healed, and a row that the last primary takes arrives on all other servers.\n\n",
    );
    let longest = format!(
        "The commands were typed at once. No server took writes for at most {:.0} s in any cell; the test allows\n\
         {} s.\n\n",
        longest.as_secs_f64().ceil(),
        NO_WRITER.as_secs()
    );
    text.push_str(&longest);
    let _ = writeln!(text, "| step | {} |", BREAKS.map(|(_, words)| words).join(" | "));
    let _ = writeln!(text, "|---|{}", "---|".repeat(BREAKS.len()));
    for about in STEPS {
        let how = BREAKS
            .map(|(breaks, _)| cells.get(&(about.step, breaks)).map_or("-", |ended| ended.how.as_str()));
        let _ = writeln!(text, "| {} | {} |", about.name, how.join(" | "));
    }
    text
}

async fn cell(step: Step, breaks: Breaks) -> Ended {
    let spec = Spec::new(&[("a", 2), ("b", 1)])
        .option("read_only", "ON")
        .option("init_rpl_role", "SLAVE")
        .option("rpl_semi_sync_slave_enabled", "ON")
        .option("slave_net_timeout", "4");
    let mut fleet = Fleet::up_read_only(spec).await;
    if breaks == Breaks::DiskFull {
        fleet = fleet.on_small_disk().await;
    }
    let fleet = Arc::new(fleet);
    // As after a first move. A MariaDB replica that is killed while it applies a definition may stop at it.
    assert!(matches!(fleet.switch("b1", quick()).await.state, State::Done));
    assert!(matches!(fleet.switch("a1", quick()).await.state, State::Done));
    for server in ["a2", "b1"] {
        fleet.lab.wait_applied(server, "a1", DEADLINE * 6).await.unwrap();
    }
    fleet.semi_sync("a1", &["a2", "b1"]).await;
    let writers = match breaks {
        Breaks::DiskFull => {
            fleet.lab.connect("a1").await.unwrap().query_drop(Writers::TABLE).await.unwrap();
            Some(Writers::start(&fleet))
        }
        _ => None,
    };
    // Some of them are waited for in full.
    let deadlines =
        Deadlines { prepare_ms: 100, catch_up_ms: 3_000, verify_ms: 5_000, ..Deadlines::default() };
    let plan = fleet.survey("a2").await.plan(deadlines, "test");
    let mut journal = Journal::create(fleet.journals.path(), &plan).unwrap();
    let watch = Watch::start(fleet.clone());
    let mut transaction = None;
    let ended = moved(&fleet, &plan, &mut journal, step, breaks, &mut transaction).await;
    let mut how = match &ended {
        Some(state) => words(state),
        None => format!("resumed: {}", words(&resume(&fleet, &plan, &journal).await)),
    };
    if ended.as_ref().is_some_and(|state| matches!(state, State::Undecided { .. })) {
        let frozen = match breaks {
            Breaks::CandidateFrozen => Some("a2"),
            Breaks::PrimaryFrozen => Some("a1"),
            _ => None,
        };
        how = if let Some(frozen) = frozen {
            fleet.lab.heal(frozen).await.unwrap();
            format!("undecided, resumed: {}", words(&resume(&fleet, &plan, &journal).await))
        } else if breaks == Breaks::PrimaryKilled {
            how
        } else {
            let (mut journal, lines) = Journal::reopen(journal.path()).unwrap();
            let (begun, _, ended) = journal::last(&lines).unwrap();
            let promoted = perform::promoted(&plan, &fleet.logins()).await;
            let state = step::give_up(begun, ended.as_ref(), promoted).unwrap();
            if promoted.is_none() {
                journal.give_up_promotion();
            }
            format!("undecided, given up: {}", words(&run(&fleet, &plan, &mut journal, state).await))
        };
    }
    if breaks == Breaks::PrimaryFrozen {
        fleet.lab.heal("a1").await.unwrap();
    }
    if breaks == Breaks::DiskFull && takes_writes(&fleet, "a1", DEADLINE).await == Some(true) {
        fail_over_gray(&fleet).await;
        how.push_str(", gray failover");
    }
    if let Some(dead) = dead(&fleet).await {
        if breaks == Breaks::CandidateFrozen {
            // It may wake up and take writes: this is what `--fence` is for.
            fleet.lab.fault(dead, Fault::Kill).await.unwrap();
        }
        fail_over(&fleet, dead).await;
        how.push_str(", failover");
    }
    let acknowledged = match writers {
        Some(writers) => writers.stop().await,
        None => BTreeSet::new(),
    };
    if let Some((conn, runtime)) = transaction {
        drop(conn);
        runtime.shutdown_background();
    }
    restored(&fleet, step, breaks).await;
    let no_writer = watch.stop().await;
    assert!(no_writer <= NO_WRITER, "{step} x {breaks:?}: no writer for {no_writer:?}");
    if breaks == Breaks::DiskFull {
        let found = gray::ids(&fleet, "a2").await;
        let lost: Vec<_> = acknowledged.difference(&found).collect();
        assert!(lost.is_empty(), "{step} x {breaks:?}: acknowledged and lost: {lost:?}");
    }
    let fleet = Arc::into_inner(fleet).unwrap();
    fleet.lab.down().await.unwrap();
    Ended { how, no_writer }
}

fn words(state: &State) -> String {
    match state {
        State::Done => "completed",
        State::Undone { .. } => "undone",
        _ => "undecided",
    }
    .to_owned()
}

/// Moves the primary; the fault happens as the step begins. `None` when it was the tool that was killed: its
/// connections close as those of a killed process do.
async fn moved(
    fleet: &Fleet,
    plan: &Plan,
    journal: &mut Journal,
    at: Step,
    breaks: Breaks,
    transaction: &mut Option<(Option<Conn>, tokio::runtime::Runtime)>,
) -> Option<State> {
    let logins = fleet.logins();
    let (begins, mut begun) = tokio::sync::mpsc::unbounded_channel();
    let mut progress = |progress: Progress<'_>| {
        if matches!(progress, Progress::Begins { step, undo: false } if step == at) {
            // The step waits until it has happened; a runtime of its own, because this one is busy here.
            let apart = || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                (runtime.block_on(inflict(fleet, breaks)), runtime)
            };
            *transaction = Some(std::thread::scope(|scope| scope.spawn(apart).join().unwrap()));
            let _ = begins.send(());
        }
    };
    let run = perform::run(plan, &logins, journal, State::START, &|| false, &mut progress);
    if breaks != Breaks::Tool {
        return Some(run.await.unwrap().state);
    }
    tokio::select! {
        outcome = run => panic!("it was not killed: {outcome:?}"),
        () = async {
            begun.recv().await.unwrap();
            tokio::time::sleep(Duration::from_millis(2)).await;
        } => None,
    }
}

async fn inflict(fleet: &Fleet, breaks: Breaks) -> Option<Conn> {
    match breaks {
        Breaks::Tool => {}
        Breaks::PrimaryKilled => fleet.lab.fault("a1", Fault::Kill).await.unwrap(),
        Breaks::CandidateKilled => fleet.lab.fault("a2", Fault::Kill).await.unwrap(),
        Breaks::CandidateFrozen => fleet.lab.fault("a2", Fault::Freeze).await.unwrap(),
        Breaks::PrimaryFrozen => fleet.lab.fault("a1", Fault::Freeze).await.unwrap(),
        Breaks::LinkCut => fleet.lab.fault("a1", Fault::Blackhole).await.unwrap(),
        Breaks::DiskFull => Disk::IsFull.begin(fleet),
        Breaks::Transaction => {
            // Wherever the application would write: from the freeze on it is refused or waits, which is as
            // good.
            let mut conn = Conn::new(fleet.lab.opts("a", "a1", Account::App).unwrap()).await.unwrap();
            conn.query_drop("BEGIN").await.unwrap();
            let insert = conn.query_drop("INSERT INTO app.writes VALUES (1000)");
            let _ = tokio::time::timeout(Duration::from_millis(300), insert).await;
            return Some(conn);
        }
    }
    None
}

async fn run(fleet: &Fleet, plan: &Plan, journal: &mut Journal, state: State) -> State {
    perform::run(plan, &fleet.logins(), journal, state, &|| false, &mut |_| ()).await.unwrap().state
}

/// `headroom switchover --resume`.
async fn resume(fleet: &Fleet, plan: &Plan, journal: &Journal) -> State {
    let (mut journal, lines) = Journal::reopen(journal.path()).unwrap();
    let promoted = perform::promoted(plan, &fleet.logins()).await;
    run(fleet, plan, &mut journal, journal::go_on(&lines, promoted)).await
}

/// The primary that was killed, when nobody takes writes for that.
async fn dead(fleet: &Fleet) -> Option<&'static str> {
    let mut silent = None;
    for server in ["a1", "a2", "b1"] {
        match takes_writes(fleet, server, DEADLINE).await {
            Some(true) => return None,
            Some(false) => {}
            None => silent = Some(server),
        }
    }
    silent
}

/// `headroom failover --gray`, with a fence that ends the old primary.
async fn fail_over_gray(fleet: &Fleet) {
    gray::gray(fleet).await;
    let scene = gray::scene(fleet).await;
    fleet.lab.fault("a1", Fault::Kill).await.unwrap();
    let fence = FenceBy::Command { command: "true".to_owned() };
    let plan = scene.plan(&scene.choose(None).unwrap(), fence, quick(), "test").unwrap().of_gray_primary();
    let mut journal = Journal::create(fleet.journals.path(), &plan).unwrap();
    assert_eq!(run(fleet, &plan, &mut journal, State::START).await, State::Done);
}

/// `headroom failover`.
async fn fail_over(fleet: &Fleet, dead: &str) {
    let (logins, known, name) = (fleet.logins(), fleet.known(), ServerName::new(dead));
    let rule = Rule { looks: 3, over: Duration::from_millis(600) };
    let limit = Duration::from_secs(5);
    let scene = Scene::read(&known, Some(&name), &logins.admin, limit, &logins.flags).await.unwrap();
    scene.confirm(&logins.admin, &rule, DEADLINE * 6).await.unwrap();
    let scene = Scene::read(&known, Some(&name), &logins.admin, limit, &logins.flags).await.unwrap();
    // It was killed: there is nothing left to fence.
    let fence = FenceBy::Command { command: "true".to_owned() };
    let plan = scene.plan(&scene.choose(None).unwrap(), fence, quick(), "test").unwrap();
    let mut journal = Journal::create(fleet.journals.path(), &plan).unwrap();
    assert_eq!(run(fleet, &plan, &mut journal, State::START).await, State::Done);
}

/// Everything is healed: one server takes writes, and what it writes arrives everywhere.
async fn restored(fleet: &Fleet, step: Step, breaks: Breaks) {
    if breaks == Breaks::DiskFull {
        Disk::IsFull.end(fleet);
        // Whatever waits for space looks again only once a minute.
        fleet.lab.fault("a1", Fault::Kill).await.unwrap();
    }
    fleet.lab.heal_all().await.unwrap();
    let mut writers = Vec::new();
    for server in ["a1", "a2", "b1"] {
        // What the tool said while it was frozen is done before anybody looks.
        fleet.lab.wait_gone(server, "admin", DEADLINE * 6).await.unwrap();
        if takes_writes(fleet, server, DEADLINE).await.unwrap() {
            writers.push(server);
        }
    }
    let [primary] = writers.as_slice() else { panic!("{step} x {breaks:?}: {writers:?} take writes") };
    let logins = fleet.logins();
    let known = fleet.known();
    let read = async |name: &str| {
        let server = known.server(&ServerName::new(name)).unwrap();
        facts::read(&server.name, &server.reach, &logins.admin, DEADLINE).await.unwrap()
    };
    let new = read(primary).await;
    for server in ["a1", "a2", "b1"].into_iter().filter(|server| server != primary) {
        let frozen = breaks == Breaks::CandidateFrozen && server == "a2";
        let stands = |facts: &facts::Facts| {
            facts.channels.iter().any(|channel| !channel.receiver_runs && !channel.receiver_tries)
        };
        let (mut facts, began) = (read(server).await, Instant::now());
        // A server that was killed answers before its receiver has started again.
        while !frozen && stands(&facts) && began.elapsed() < DEADLINE * 6 {
            tokio::time::sleep(Duration::from_millis(100)).await;
            facts = read(server).await;
        }
        // A number may be that of a source before, which was never reached.
        let port = fleet.lab.real(primary).unwrap().port();
        let follows =
            facts.channels.iter().any(|channel| channel.source_id == new.server_id && channel.port == port);
        if !follows {
            let (_, protection) =
                rejoin::new_primary(&known, &ServerName::new(server), &logins.admin, DEADLINE).await.unwrap();
            let rejoined = rejoin::rejoin(&facts, &new, &protection, &logins, DEADLINE).await.unwrap();
            assert_eq!(rejoined, RejoinOutcome::Follows, "{step} x {breaks:?}: {server}");
        } else if stands(&facts) {
            // It froze while its replication was being stopped, and stopped it when it woke up: the outcome
            // says so, and what to type.
            assert!(frozen, "{step} x {breaks:?}: {server}: {:?}", facts.channels);
            let mut conn = fleet.lab.connect(server).await.unwrap();
            conn.query_drop("SET GLOBAL rpl_semi_sync_master_enabled = OFF").await.unwrap();
            conn.query_drop("START SLAVE").await.unwrap();
        }
    }
    let mut conn = fleet.lab.connect(primary).await.unwrap();
    conn.query_drop("INSERT INTO app.writes VALUES (2000)").await.unwrap();
    for server in ["a1", "a2", "b1"].into_iter().filter(|server| server != primary) {
        if let Err(error) = fleet.lab.wait_applied(server, primary, DEADLINE * 6).await {
            let facts = read(server).await;
            panic!(
                "{step} x {breaks:?}: {error}; {:#?}; semi-sync {:?}; doing {:#?}",
                facts.channels,
                switchover::semi_sync::Switches::of(&facts),
                sessions(fleet, server).await
            );
        }
        let source = switchover::semi_sync::Switches::of(&read(server).await).source;
        assert!(source.is_none_or(|source| !source.on), "{step} x {breaks:?}: {server} waits as a source");
    }
}

async fn sessions(fleet: &Fleet, server: &str) -> Vec<(String, Option<String>, Option<String>)> {
    const ASK: &str = "SELECT USER, STATE, INFO FROM information_schema.PROCESSLIST";
    fleet.lab.connect(server).await.unwrap().query(ASK).await.unwrap()
}

async fn takes_writes(fleet: &Fleet, server: &str, limit: Duration) -> Option<bool> {
    let asked = async {
        let mut conn = fleet.lab.connect(server).await.ok()?;
        let value: Option<String> = conn.query_first("SELECT @@GLOBAL.read_only").await.ok()?;
        Some(matches!(value?.as_str(), "0" | "OFF"))
    };
    tokio::time::timeout(limit, asked).await.ok().flatten()
}

/// Asks the servers all the while.
struct Watch {
    stop: Arc<AtomicBool>,
    task: tokio::task::JoinHandle<Duration>,
}

impl Watch {
    fn start(fleet: Arc<Fleet>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopping = stop.clone();
        let task = tokio::spawn(async move {
            let (mut longest, mut last) = (Duration::ZERO, Instant::now());
            while !stopping.load(Relaxed) {
                let mut writers = Vec::new();
                for server in ["a1", "a2", "b1"] {
                    if takes_writes(&fleet, server, LOOK).await == Some(true) {
                        writers.push(server);
                    }
                }
                // Asked one after the other: two at once only when the first still does after the second did.
                if writers.len() > 1 {
                    let still = takes_writes(&fleet, writers[0], LOOK).await == Some(true);
                    assert!(!still, "{writers:?} take writes at once");
                }
                if !writers.is_empty() {
                    last = Instant::now();
                }
                longest = longest.max(last.elapsed());
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            longest
        });
        Self { stop, task }
    }

    async fn stop(self) -> Duration {
        self.stop.store(true, Relaxed);
        self.task.await.unwrap()
    }
}
