//! Replay: a recording sent again, at its own moments, to one server (or router).
//!
//! An open loop: each command is due at its recorded moment (divided by the speed), and its response time
//! counts from there, whatever the target does. Within a session the order stays: a command is not sent
//! before the one before it is answered, as no client would. So a target that is slower than the recorded one
//! shows in the response time (from the intended start) and not in a lower rate; the service time (from
//! sending) is beside it.
//!
//! Sessions are opened so that they are logged in at their recorded moment, those that were there before
//! recording began before the first command is due. Statements are prepared as recorded, and executions name
//! what the target called them.
//!
//! Worked example, speed 2: a command that came 10 s after recording began is due 5 s after the replay does.
//! The one before it is answered at 5.2 s: it is sent then, 200 ms late, and answered 1 ms later: response
//! 201 ms, service 1 ms.

pub mod compare;
mod connection;
mod kind;
mod player;
mod prepared;
mod reads;
mod script;
pub mod text;

pub use kind::{StatementKind, kind};
pub use reads::Reads;
pub use script::{GroupBy, LeftOut, Script, ScriptOptions, ScriptSession, ScriptStep};

use crate::error::{LoadError, PlanError};
use crate::files::allow_most_files;
use crate::login::Account;
use crate::target::{Peer, TlsClient};
use config::Tls;
use fleet::Address;
use player::Player;
use recording::Reader;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};
use term::Seconds;

/// All begin together, this long after they are ready.
const LEAD: Duration = Duration::from_millis(20);
/// Between two looks at how it comes along.
const LOOK: Duration = Duration::from_millis(200);

/// What a replay is asked for.
#[derive(Clone, Debug)]
pub struct ReplayPlan {
    pub target: Address,
    /// TLS to it, as MySQL's clients understand these words; `None` is never.
    pub tls: Option<Tls>,
    /// Who logs in, for all sessions; its database where a session was in none.
    pub account: Account,
    /// Recorded time over replayed time.
    pub speed: f64,
    /// Sessions are read-only for the server, too.
    pub read_only: bool,
    /// Threads that send.
    pub threads: usize,
    /// After the last moment, what is under way may take this time.
    pub grace: Duration,
}

/// A recording ready to be sent, and the names of its groups.
///
/// # Errors
/// A file that cannot be read, or not with this key, or not within this memory.
pub fn open(
    file: &Path,
    key: Option<&recording::Key>,
    options: ScriptOptions,
) -> Result<(Script, compare::Groups), LoadError> {
    let opened = File::open(file);
    let opened = opened.map_err(|error| LoadError::Open { path: file.to_owned(), error })?;
    let unusable = |source| LoadError::RecordingFile { path: file.to_owned(), source: Box::new(source) };
    let reader = Reader::new(BufReader::new(opened), key).map_err(|error| unusable(error.into()))?;
    let mut groups = compare::Groups::default();
    let script = Script::read(reader, options, |what| groups.of(what)).map_err(unusable)?;
    Ok((script, groups))
}

/// Sends it again and again until it is over.
///
/// # Errors
/// As [`once`].
pub fn repeat(script: &Script, plan: &ReplayPlan, over: &AtomicBool) -> Result<(), LoadError> {
    while !over.load(Relaxed) {
        once(script, plan, over)?;
    }
    Ok(())
}

/// Sends it once, where its answers matter: to warm a server, or to time it.
///
/// # Errors
/// As [`replay`]; and [`LoadError::MostFailed`] where more than half of the commands failed or were never
/// answered.
pub fn once(script: &Script, plan: &ReplayPlan, stop: &AtomicBool) -> Result<ReplayOutcome, LoadError> {
    let all = script.steps.len();
    let sent = replay(script, plan, stop, |_| ())?;
    let answered = sent.answered();
    if !sent.stopped && answered * 2 < all {
        let lost = sent.lost_sessions.iter().map(|(why, count)| format!("{count} sessions: {why}"));
        let error = sent.outcomes.iter().flatten().find_map(|outcome| outcome.error);
        let error = error.map(|code| format!("the first error is {code}"));
        let why = lost.chain(error).collect::<Vec<_>>().join("; ");
        let (target, failed) = (plan.target.clone(), all - answered);
        return Err(LoadError::MostFailed { target, failed, all, why });
    }
    Ok(sent)
}

/// How a replay comes along.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReplayProgress {
    /// Seconds since the first command was due; 0 while connecting.
    pub seconds: f64,
    /// Commands answered.
    pub done: u64,
    /// Of them, with an error.
    pub failed: u64,
}

/// What came of one command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommandOutcome {
    /// From due to sent.
    pub late_ns: u64,
    /// The part of that in which the session was free: the generator's own.
    pub own_late_ns: u64,
    /// From due to answered.
    pub response_ns: u64,
    /// From sent to answered. 0 for commands that are not answered.
    pub service_ns: u64,
    /// The number of the error, if it was one.
    pub error: Option<u16>,
    /// Whether it was one is not known (as recorded in most slow logs); `error` is `None` then.
    pub error_unknown: bool,
    /// Rows sent.
    pub rows: u64,
    /// Rows changed; `None` where that is not known.
    pub affected: Option<u64>,
}

/// What came of a replay.
#[derive(Debug, Default)]
pub struct ReplayOutcome {
    /// By step of the script; `None` for what was not sent or not answered.
    pub outcomes: Vec<Option<CommandOutcome>>,
    /// From the first moment to the last answer, seconds.
    pub seconds: f64,
    /// Share of the threads' time in which they ran.
    pub cpu_share: f64,
    /// Sessions that were lost or never came to be, by reason.
    pub lost_sessions: BTreeMap<String, u64>,
    /// It was stopped before its end.
    pub stopped: bool,
}

/// What all threads share.
struct ReplayContext<'a> {
    script: &'a Script,
    plan: &'a ReplayPlan,
    peer: Peer,
    /// How TLS is begun; `None` where it never is.
    tls: Option<TlsClient>,
    stop: &'a AtomicBool,
    done: AtomicU64,
    failed: AtomicU64,
}

/// What a thread did.
#[derive(Debug, Default)]
struct ThreadResult {
    outcomes: Vec<(u32, CommandOutcome)>,
    lost: BTreeMap<String, u64>,
    ended_ns: u64,
    cpu_ns: u64,
}

enum Message {
    Connected(Result<(), LoadError>),
    Over(Result<ThreadResult, LoadError>),
}

/// Sends it all.
///
/// # Errors
/// When sessions cannot be opened before the first command is due, or the machine refuses something. Later,
/// errors are counted.
pub fn replay(
    script: &Script,
    plan: &ReplayPlan,
    stop: &AtomicBool,
    mut progress: impl FnMut(ReplayProgress),
) -> Result<ReplayOutcome, LoadError> {
    if !(plan.speed > 0.0 && plan.speed.is_finite()) {
        return Err(PlanError::Speed.into());
    }
    let peer = Peer::resolve(&plan.target)?;
    allow_most_files(script.sessions.len() as u64);
    let (done, failed) = (AtomicU64::new(0), AtomicU64::new(0));
    let tls = TlsClient::of(plan.tls.as_ref())?;
    let context = ReplayContext { script, plan, peer, tls, stop, done, failed };
    let threads = plan.threads.clamp(1, script.sessions.len().max(1));
    std::thread::scope(|scope| {
        let (sender, messages) = channel();
        let mut begins: Vec<Sender<Instant>> = Vec::new();
        for number in 0..threads {
            let (begin, begins_at) = channel();
            begins.push(begin);
            let (sender, context) = (sender.clone(), &context);
            scope.spawn(move || {
                let mut player = match Player::connect(context, (number, threads)) {
                    Ok(player) => player,
                    Err(error) => return drop(sender.send(Message::Connected(Err(error)))),
                };
                // Whoever waits for either has failed elsewhere.
                if sender.send(Message::Connected(Ok(()))).is_ok()
                    && let Ok(start) = begins_at.recv()
                {
                    let _ = sender.send(Message::Over(player.play(start)));
                }
            });
        }
        drop(sender);
        for _ in 0..threads {
            match messages.recv() {
                Ok(Message::Connected(connected)) => connected?,
                _ => return Err(LoadError::ThreadLost),
            }
        }
        let start = Instant::now() + LEAD;
        for begin in &begins {
            begin.send(start).map_err(|_| LoadError::ThreadLost)?;
        }
        let mut outcome =
            ReplayOutcome { outcomes: vec![None; script.steps.len()], ..ReplayOutcome::default() };
        let (mut left, mut cpu_ns) = (threads, 0);
        while left > 0 {
            match messages.recv_timeout(LOOK) {
                Ok(Message::Over(result)) => {
                    left -= 1;
                    cpu_ns += outcome.add(result?);
                }
                Ok(Message::Connected(_)) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(LoadError::ThreadLost),
            }
            progress(ReplayProgress {
                seconds: start.elapsed().as_secs_f64(),
                done: context.done.load(Relaxed),
                failed: context.failed.load(Relaxed),
            });
        }
        outcome.stopped = stop.load(Relaxed);
        outcome.cpu_share = cpu_ns as f64 / 1e9 / (outcome.seconds * threads as f64).max(1e-9);
        Ok(outcome)
    })
}

/// The same to one target after the other, until `stop`; a person sees how it comes along. Returns what came
/// of each, by the target's name. A later target that nothing can be sent to has answered nothing, and takes
/// no figures from those before it.
///
/// # Errors
/// As [`replay`], at the first target.
pub fn replay_each(
    script: &Script,
    plans: &[ReplayPlan],
    stop: &AtomicBool,
) -> Result<Vec<(String, ReplayOutcome)>, LoadError> {
    let mut runs = Vec::new();
    for plan in plans {
        if !runs.is_empty() && stop.load(Relaxed) {
            break;
        }
        let mut shown = Seconds::new(Duration::from_micros(script.length_us).div_f64(plan.speed));
        let total = script.steps.len();
        let outcome = replay(script, plan, stop, |progress: ReplayProgress| {
            shown.show(Duration::from_secs_f64(progress.seconds), || {
                let ReplayProgress { done, failed, .. } = progress;
                format!("{}: {done} of {total} commands answered, {failed} failed", plan.target)
            });
        });
        let outcome = match outcome {
            Err(error) if !runs.is_empty() => ReplayOutcome::never_begun(script, &error),
            outcome => outcome?,
        };
        runs.push((plan.target.to_string(), outcome));
    }
    Ok(runs)
}

impl ReplayOutcome {
    /// Of a target that nothing was sent to, for this reason.
    fn never_begun(script: &Script, why: &LoadError) -> Self {
        let lost_sessions = [(why.to_string(), script.sessions.len() as u64)].into();
        Self { outcomes: vec![None; script.steps.len()], lost_sessions, ..Self::default() }
    }

    /// Commands answered without an error.
    pub fn answered(&self) -> usize {
        self.outcomes.iter().flatten().filter(|outcome| outcome.error.is_none()).count()
    }

    /// This share of the commands that were answered without an error had a response time of at most that,
    /// ms; `None` where there was none.
    pub fn response_ms(&self, share: f64) -> Option<f64> {
        let answered = self.outcomes.iter().flatten();
        // Commands that are not answered have no time.
        let answered = answered.filter(|outcome| outcome.error.is_none() && outcome.service_ns > 0);
        let mut times: Vec<u64> = answered.map(|outcome| outcome.response_ns).collect();
        times.sort_unstable();
        plan::quantile::nearest_rank(&times, share).map(|ns| ns as f64 / 1e6)
    }

    /// Adds a thread's result; returns its CPU time in nanoseconds.
    fn add(&mut self, result: ThreadResult) -> u64 {
        for (step, command) in result.outcomes {
            self.outcomes[step as usize] = Some(command);
        }
        for (why, count) in result.lost {
            *self.lost_sessions.entry(why).or_default() += count;
        }
        self.seconds = self.seconds.max(result.ended_ns as f64 / 1e9);
        result.cpu_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab::scripted::{Reply, Script as Answers, ScriptedServer};
    use wire::Command;

    #[tokio::test]
    async fn a_second_target_that_is_not_there_takes_no_figures_from_the_first() {
        let server = ScriptedServer::start(Answers::new("8.0.39", |_, _| Reply::Ok)).await.unwrap();
        let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let plan = |port| ReplayPlan {
            target: Address::tcp("127.0.0.1", port),
            tls: None,
            account: Account { user: "load".to_owned(), ..Account::default() },
            speed: 1.0,
            read_only: true,
            threads: 1,
            grace: Duration::from_secs(5),
        };
        let (there, not_there) = (plan(server.address().port()), plan(nobody.port()));
        let each = |plans: Vec<ReplayPlan>| {
            tokio::task::spawn_blocking(move || {
                let (command, body) = (Command::Query, b"SELECT 1".to_vec());
                let step = ScriptStep { session: 0, at_us: 1, command, body, group: 0, recorded: None };
                let session = ScriptSession { steps: vec![0], ..ScriptSession::default() };
                let script = Script { sessions: vec![session], steps: vec![step], ..Script::default() };
                replay_each(&script, &plans, &AtomicBool::new(false))
            })
        };
        let runs = each(vec![there.clone(), not_there.clone()]).await.unwrap().unwrap();
        assert_eq!((runs[0].1.answered(), runs[1].1.answered()), (1, 0), "{runs:?}");
        let why = runs[1].1.lost_sessions.keys().next().unwrap();
        assert!(why.contains("cannot connect"), "{why}");
        assert!(each(vec![not_there, there]).await.unwrap().is_err(), "nothing was measured yet");
    }
}
