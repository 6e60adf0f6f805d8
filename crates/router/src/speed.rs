//! Speed: how fast a server answers the statements that it gets, beside the same ones elsewhere. Pure: the
//! times, the servers and the clock are arguments.
//!
//! **What is compared.** Of each digest on each server the typical time of the last [`WINDOW`] (the geometric
//! mean: one statement that waited a minute for a lock hardly moves it), less the round trip. It is the model
//! `log time = digest + server`, fitted by medians (Tukey's median polish): a server's term is the median
//! over its digests, weighted by how often they came, of what they take longer there than elsewhere. So a
//! server with harder statements is not slow, and neither is one with a single digest that got a hundred
//! times dearer. When all are slow the servers' terms stay what they were.
//!
//! Servers are compared with those that get the same statements for the most part. Where each zone keeps its
//! reads, and its applications differ, nothing says how statements of one zone compare with another's.
//!
//! Our own questions are the same on all servers of one flavour, and cost the same in one release series, so
//! they are compared within these. They stand in for a server whose statements cannot be compared, and must
//! differ more before they count. Where many routers ask, each asks seldom, so these times are kept for
//! [`QUESTIONS_KEPT`] of them. Where nothing can be compared for [`UNKNOWN_AFTER`], a fallback says so.
//!
//! **Distance is no slowness.** The round trip is the shortest of the recent ones. What is left of a time
//! that is mostly distance is uncertain, so a part of the longest round trip among the servers that a digest
//! was sent to is added on all of them again.
//!
//! **Noise is no slowness.** The logarithms of the times of one digest differ by about 1, so the mean of `n`
//! is known to about `1 / sqrt(n)`, and the difference of two servers to `sqrt(1/n + 1/m)`. A server counts
//! as slow where it takes longer by [`NOISE`] such errors and by [`STEP`]; one that counts as slow already,
//! where it does so by [`NOISE_SLOW`] of them. `n` is the number of times that a server's digests are worth
//! together, where a few of them weigh most. Worked example: 12 times on each server can only tell a factor
//! of 3.4 from noise, 100 one of 1.5, 400 one of 1.24.
//!
//! Nor is a burst: something else that runs for a second or two makes all times of that while long, and a
//! server counts as slow only once it has been found so for all of [`SUSTAINED`]. Nor is a line that comes
//! and goes: its statements wait together, so a hundred of them may say no more than one. So how the times
//! differ from second to second tells an error as well, with each second for one time. A server that counts
//! for all of its weight must have been slower by [`NOISE`] of these, too, for [`SUSTAINED_BY_SECONDS`].
//!
//! **Load is no slowness.** Where servers do all that they can, a statement takes as long as its line is,
//! which tells what its server was given: of three equal servers with three, three and two busy sessions, two
//! take 1.5 times as long as the third. Given less they would be fast, and the third slow. Where
//! sessions are busy, a time grows at most in step with their number (`time = sessions / throughput`, and
//! more of them do not make the throughput less). So beside one that is given less, a server is slow only by
//!
//! ```text
//! its time / (the other's time x what it is given / what the other is given)
//! ```
//!
//! and beside one that is given as much or more by the times as they are. What it is given is what our
//! sessions there are beside its share of them (`given.rs`): they come in whole numbers, and move one by one.
//! Beside one that warms up the times count as they are: what it leaves to others waits for want of room, and
//! one that is cold and fast is to relieve them.
//!
//! **What fails is not fast.** What a server refuses at once (a table that is missing there, a full disk) has
//! no time, or that server would be the measure, and all the others slow. What ran until it was given up has
//! (`insight` counts so).
//!
//! **From times to a factor.** The fastest quarter of the servers is the measure. How a factor follows what
//! was measured, and what keeps it where it is, stands in `tracked.rs`.
//!
//! [`NOISE`]: tracked::NOISE
//! [`NOISE_SLOW`]: tracked::NOISE_SLOW
//! [`STEP`]: tracked::STEP
//! [`SUSTAINED`]: tracked::SUSTAINED
//! [`SUSTAINED_BY_SECONDS`]: tracked::SUSTAINED_BY_SECONDS

mod given;
mod tracked;

use config::Capacity as Switches;
use fleet::ServerName;
pub use given::Given;
use given::Loads;
use insight::OTHER;
use std::collections::HashMap;
use std::time::{Duration, Instant};
pub use tracked::LEAST;
use tracked::TrackedSpeed;

/// Time constant in which old times are forgotten.
const WINDOW: Duration = Duration::from_secs(8);
/// The same for our own questions, in times between two of them, and at most.
const QUESTIONS_KEPT: u32 = 8;
const LONGEST_WINDOW: Duration = Duration::from_secs(60);
/// Nothing was compared for this long.
const UNKNOWN_AFTER: Duration = Duration::from_secs(60);
/// No single look says more than one of this length: between two looks we may have stood still ourselves.
const LONGEST_LOOK: Duration = Duration::from_secs(2);
/// What was known of a server that does not answer, or is none of the replicas, is kept for this long.
const ABSENT: Duration = Duration::from_secs(60);
/// How many times of a digest on a server are wanted, how many of all digests of a server, and how many of
/// our own questions.
const FEW: f64 = 3.0;
const ENOUGH: f64 = 12.0;
const ENOUGH_QUESTIONS: f64 = 6.0;
/// The variance of the logarithms of one digest's times on one server, and of those of our own questions,
/// which are all the same and touch no table.
const VARIANCE: f64 = 1.0;
const VARIANCE_OF_QUESTIONS: f64 = 0.25;
/// This part of the longest round trip, and this time, may be wrong in a time without its round trip.
const DISTANCE_ERROR: f64 = 0.25;
const CLOCK_ERROR_NS: f64 = 20_000.0;
/// Rounds of the fit.
const POLISHES: usize = 8;

/// The digest of our own questions; the registry of statements gives out no such number.
const QUESTIONS: u32 = u32::MAX;

/// Times of one digest on one server, since the last look.
#[derive(Clone, Debug)]
pub struct Times {
    pub server: ServerName,
    pub digest: u32,
    pub count: f64,
    /// Estimated, where the sessions that were measured stand for others.
    pub of_all: f64,
    /// The natural logarithms of the times in ns, summed.
    pub log_sum: f64,
    /// The times, summed, ns.
    pub sum_ns: f64,
}

/// A server that may be compared.
#[derive(Clone, Debug)]
pub struct Peer {
    pub name: ServerName,
    /// The shortest of the recent ones.
    pub round_trip: Option<Duration>,
    /// What the last of our own questions took, and when it was answered.
    pub question: Option<(Duration, Instant)>,
    /// Flavour and release series, as far as it is known: others are asked other questions.
    pub dialect: Option<String>,
    /// `None` while it gets no reads.
    pub given: Option<Given>,
}

/// What is known of a server's speed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Speed {
    /// What its weight is multiplied by, [`LEAST`] to 1.
    pub factor: f64,
    /// How many times as long its statements take as elsewhere, as far as it is known; below 1 where less.
    pub times: Option<f64>,
    /// How many times as long on average, while that holds its factor down: a few wait for long.
    pub on_average: Option<f64>,
    /// Since when it has counted for less than its weight.
    pub since: Option<Instant>,
    /// Nothing but our own questions could be compared.
    pub by_questions: bool,
}

/// A change of a factor.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    pub server: ServerName,
    pub before: f64,
    pub now: Speed,
}

/// The speeds of a fleet as one router sees them.
#[derive(Clone, Debug, Default)]
pub struct Speeds {
    book: HashMap<(u32, ServerName), Sum>,
    known: HashMap<ServerName, TrackedSpeed>,
    asked: HashMap<ServerName, QuestionRhythm>,
    loads: Loads,
    /// Since when there has been something to compare, and nothing that compares it.
    unknown_since: Option<Instant>,
}

/// Our own questions to a server.
#[derive(Clone, Copy, Debug)]
struct QuestionRhythm {
    answered: Instant,
    /// Time constant in which their times are forgotten.
    window: Duration,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    count: f64,
    log_sum: f64,
    /// For each time the logarithm of the average, ns, of those that came between the same two looks: while a
    /// server gets faster, its times of before are no tail.
    average_log_sum: f64,
}

impl Sum {
    fn add(&mut self, more: Self) {
        self.count += more.count;
        self.log_sum += more.log_sum;
        self.average_log_sum += more.average_log_sum;
    }

    /// What is left of it.
    fn keep(&mut self, part: f64) {
        self.count *= part;
        self.log_sum *= part;
        self.average_log_sum *= part;
    }

    /// The geometric mean.
    fn mean_ns(self) -> f64 {
        (self.log_sum / self.count).exp()
    }

    /// The average between two looks, typically.
    fn average_ns(self) -> f64 {
        (self.average_log_sum / self.count).exp()
    }
}

impl Peer {
    /// One with nothing known but its name.
    pub fn new(name: ServerName) -> Self {
        Self { name, round_trip: None, question: None, dialect: None, given: None }
    }
}

impl Times {
    /// What one of them typically took, ns.
    pub fn mean_ns(&self) -> f64 {
        (self.log_sum / self.count).exp()
    }
}

/// What the fit says of a server.
#[derive(Clone, Copy, Debug)]
struct Fit {
    peer: usize,
    /// The logarithm of how much longer its statements take than elsewhere.
    longer: f64,
    /// The variance of that.
    variance: f64,
}

/// How a server stands beside the fastest.
#[derive(Clone, Copy, Debug)]
struct Beside {
    /// The logarithm of how much longer its statements take.
    longer: f64,
    /// What of that is not for being given more.
    slower: f64,
    /// The same of the average, which a few long ones move.
    slower_on_average: f64,
    /// The standard error of that by the number of times, and by how they differ from second to second.
    error: f64,
    error_by_seconds: f64,
    by_questions: bool,
    /// It has not got the share yet that it was given.
    short: bool,
}

impl Default for Speed {
    fn default() -> Self {
        Self { factor: 1.0, times: None, on_average: None, since: None, by_questions: false }
    }
}

impl Speed {
    /// Why the server counts for less than its weight, e.g. `counts as 0.45: its statements take 2.2 times as
    /// long as the same ones elsewhere, for 40 s`; `None` when it does not.
    pub fn reason(&self, now: Instant) -> Option<String> {
        let since = self.since?;
        let what = if self.by_questions { "answers to our questions" } else { "statements" };
        let times = self.times.map_or_else(
            || "were slower than the same ones elsewhere when last compared".to_owned(),
            |times| {
                let average = self.on_average.map(|average| format!(" ({average:.1} times on average)"));
                let average = average.unwrap_or_default();
                format!("take {times:.1} times as long as the same ones elsewhere{average}")
            },
        );
        let lasts = fleet::long(now.saturating_duration_since(since));
        Some(format!("counts as {:.2}: its {what} {times}, for {lasts}", self.factor))
    }
}

impl Speeds {
    /// What is known of a server.
    pub fn of(&self, server: &ServerName) -> Speed {
        self.known.get(server).map_or_else(Speed::default, |known| known.speed)
    }

    /// Whether there are servers to compare and none could be compared for a while, up to `now`.
    pub fn are_unknown(&self, now: Instant) -> bool {
        self.unknown_since.is_some_and(|since| now.saturating_duration_since(since) > UNKNOWN_AFTER)
    }

    /// What a statement of each digest typically takes, on whichever server, ns; of those sent lately.
    pub fn typical_ns(&self) -> HashMap<u32, f64> {
        let mut sums: HashMap<u32, Sum> = HashMap::new();
        for ((digest, _), more) in &self.book {
            sums.entry(*digest).or_default().add(*more);
        }
        sums.into_iter().map(|(digest, sum)| (digest, sum.mean_ns())).collect()
    }

    /// A server has another name from now on.
    pub fn rename(&mut self, before: &ServerName, name: &ServerName) {
        if let Some(known) = self.known.remove(before) {
            self.known.insert(name.clone(), known);
        }
        if let Some(asked) = self.asked.remove(before) {
            self.asked.insert(name.clone(), asked);
        }
        self.loads.rename(before, name);
        let old: Vec<u32> = self.book.keys().filter(|at| at.1 == *before).map(|at| at.0).collect();
        for digest in old {
            let more = self.book.remove(&(digest, before.clone())).unwrap_or_default();
            self.book.entry((digest, name.clone())).or_default().add(more);
        }
    }

    /// Takes in what was measured in the `elapsed` time up to `now`, and says which factors changed.
    pub fn update(
        &mut self,
        fresh: &[Times],
        peers: &[Peer],
        switches: Switches,
        elapsed: Duration,
        now: Instant,
    ) -> Vec<Change> {
        self.known.retain(|name, known| {
            if peers.iter().any(|peer| peer.name == *name) {
                known.here_at = now;
            } else {
                (known.slow_for, known.slow_by_seconds_for) = Default::default();
            }
            now.saturating_duration_since(known.here_at) < ABSENT
        });
        if switches.speed || switches.work {
            // The work of sessions is counted in what each digest takes, whether or not speeds are used.
            self.note(fresh, peers, elapsed);
            let usual = self.typical_ns();
            self.loads.note(fresh, peers, &usual, elapsed);
        } else {
            (self.book, self.asked, self.loads) = Default::default();
        }
        if !switches.speed {
            self.unknown_since = None;
            let slow =
                std::mem::take(&mut self.known).into_iter().filter(|(_, known)| known.speed.factor < 1.0);
            return slow
                .map(|(server, known)| change(server, known.speed.factor, Speed::default()))
                .collect();
        }
        let compared = self.compared(peers);
        let unknown = peers.len() > 1 && compared.is_empty();
        self.unknown_since = unknown.then(|| self.unknown_since.unwrap_or(now));
        let mut changes = Vec::new();
        for peer in peers {
            let known = self.known.entry(peer.name.clone()).or_insert_with(|| TrackedSpeed::new(now));
            let before = known.speed.factor;
            known.follow(compared.get(&peer.name).copied(), elapsed.min(LONGEST_LOOK), now);
            if known.speed.factor != before {
                changes.push(change(peer.name.clone(), before, known.speed));
            }
        }
        changes
    }

    /// Forgets a part of what was, and adds what is new.
    fn note(&mut self, fresh: &[Times], peers: &[Peer], elapsed: Duration) {
        self.book.retain(|(digest, server), sum| {
            let questions = self.asked.get(server).filter(|_| *digest == QUESTIONS);
            let window = questions.map_or(WINDOW, |asked| asked.window).as_secs_f64();
            let keep = (-elapsed.as_secs_f64() / window).exp();
            sum.keep(keep);
            sum.count > 0.1 && peers.iter().any(|peer| peer.name == *server)
        });
        let mut add = |digest, server: &ServerName, sum| {
            self.book.entry((digest, server.clone())).or_default().add(sum);
        };
        for Times { digest, server, count, log_sum, sum_ns, .. } in fresh {
            let average_log_sum = count * (sum_ns / count).max(1.0).ln();
            add(*digest, server, Sum { count: *count, log_sum: *log_sum, average_log_sum });
        }
        self.asked.retain(|name, _| peers.iter().any(|peer| peer.name == *name));
        for peer in peers {
            let last = self.asked.get(&peer.name);
            if let Some((took, answered)) = peer.question
                && last.is_none_or(|last| last.answered != answered)
            {
                let between = last.map(|last| answered.saturating_duration_since(last.answered));
                let window = between.map_or(WINDOW, |between| between * QUESTIONS_KEPT);
                let window = window.clamp(WINDOW, LONGEST_WINDOW);
                self.asked.insert(peer.name.clone(), QuestionRhythm { answered, window });
                let ns = (took.as_nanos() as f64).max(1.0);
                let log_sum = ns.ln();
                add(QUESTIONS, &peer.name, Sum { count: 1.0, log_sum, average_log_sum: log_sum });
            }
        }
    }

    /// How servers stand beside the fastest of those that they can be compared with: by statements, else by
    /// our own questions. Nothing of those with too few times, and of one alone.
    fn compared(&self, peers: &[Peer]) -> HashMap<ServerName, Beside> {
        let (questions, statements): (Vec<Row>, Vec<Row>) =
            self.rows(peers).into_iter().partition(|row| row.digest == QUESTIONS);
        let by_statements = related(&statements, peers.len()).into_iter().map(|rows| (rows, false));
        // A row for each dialect.
        let by_questions = questions.into_iter().map(|row| (vec![row], true));
        let mut compared = HashMap::new();
        for (rows, by_questions) in by_statements.chain(by_questions) {
            let enough = if by_questions { ENOUGH_QUESTIONS } else { ENOUGH };
            let fits = fit(&rows, peers.len(), enough, |point| point.log);
            let on_average = fit(&rows, peers.len(), enough, |point| point.log_average);
            let Some(first) = fastest(&fits) else { continue };
            for (fit, average) in fits.iter().zip(&on_average) {
                let name = &peers[fit.peer].name;
                // What the others would take at most if they were given as much.
                let as_loaded = |other: &Fit| {
                    let more = self.loads.more(name, &peers[other.peer].name);
                    Fit { longer: other.longer + more, ..*other }
                };
                let measure = |fits: &[Fit]| fastest(&fits.iter().map(as_loaded).collect::<Vec<Fit>>());
                let (Some(measure), Some(measure_average)) = (measure(&fits), measure(&on_average)) else {
                    continue;
                };
                let by_seconds = self.loads.variance(name, &peers[measure.peer].name);
                let slower = fit.longer - measure.longer;
                let slower_on_average = average.longer - measure_average.longer;
                let beside = Beside {
                    longer: fit.longer - first.longer,
                    slower,
                    // Of a few questions one long one would say too much.
                    slower_on_average: if by_questions { slower } else { slower_on_average },
                    error: (fit.variance + measure.variance).sqrt(),
                    error_by_seconds: if by_questions { 0.0 } else { by_seconds.sqrt() },
                    by_questions,
                    short: self.loads.is_short(name),
                };
                compared.entry(name.clone()).or_insert(beside);
            }
        }
        compared
    }

    /// Each digest that more than one of these was sent, our own questions in each dialect apart.
    fn rows(&self, peers: &[Peer]) -> Vec<Row> {
        let mut digests: HashMap<Asked<'_>, Vec<(usize, Sum)>> = HashMap::new();
        for ((digest, server), sum) in &self.book {
            let Some(at) = peers.iter().position(|peer| peer.name == *server) else { continue };
            // What is not told apart is not the same everywhere.
            if sum.count >= FEW && *digest != OTHER {
                let dialect = peers[at].dialect.as_deref().filter(|_| *digest == QUESTIONS);
                digests.entry((*digest, dialect)).or_default().push((at, *sum));
            }
        }
        let round_trip = |peer: usize| peers[peer].round_trip.unwrap_or_default().as_nanos() as f64;
        let row = |((digest, _), sums): (Asked<'_>, Vec<(usize, Sum)>)| {
            let longest = sums.iter().map(|(peer, _)| round_trip(*peer)).fold(0.0, f64::max);
            let error = CLOCK_ERROR_NS + DISTANCE_ERROR * longest;
            let point = |(peer, sum): (usize, Sum)| {
                let beyond = |ns: f64| (ns - round_trip(peer)).max(0.0) + error;
                let (beyond, average) = (beyond(sum.mean_ns()), beyond(sum.average_ns()));
                let variance = if digest == QUESTIONS { VARIANCE_OF_QUESTIONS } else { VARIANCE } / sum.count;
                // Dear statements say more of a server than cheap ones, which are mostly the way there.
                let weight = sum.count * beyond.sqrt();
                Point {
                    peer,
                    log: beyond.ln(),
                    log_average: average.ln(),
                    count: sum.count,
                    variance,
                    weight,
                }
            };
            Row { digest, points: sums.into_iter().map(point).collect() }
        };
        let shared = digests.into_iter().filter(|(_, sums)| sums.len() > 1);
        let mut rows: Vec<Row> = shared.map(row).collect();
        // The order of a map is no reason for a difference.
        rows.sort_by_key(|row| (row.digest, row.points.iter().map(|point| point.peer).min()));
        rows
    }
}

/// A digest, and of our own questions the dialect that they are asked in.
type Asked<'a> = (u32, Option<&'a str>);

/// Takes rows apart by the servers that can be compared: two can where what
/// both get is the larger part of what either gets. A smaller part would not move a server's median, and
/// leave the difference of the two open.
fn related(rows: &[Row], servers: usize) -> Vec<Vec<Row>> {
    let mut all = vec![0.0; servers];
    let mut common = vec![vec![0.0; servers]; servers];
    for row in rows {
        for point in &row.points {
            all[point.peer] += point.weight;
            row.points.iter().for_each(|other| common[point.peer][other.peer] += point.weight);
        }
    }
    // Each group goes by the lowest number in it.
    let mut group: Vec<usize> = (0..servers).collect();
    for (a, b) in (0..servers).flat_map(|a| (0..a).map(move |b| (a, b))) {
        if common[a][b] > all[a] / 2.0 && common[b][a] > all[b] / 2.0 {
            let (from, to) = (group[a].max(group[b]), group[a].min(group[b]));
            group.iter_mut().filter(|group| **group == from).for_each(|group| *group = to);
        }
    }
    let of_group = |which: usize| {
        let row = |row: &Row| {
            let here = row.points.iter().filter(|point| group[point.peer] == which);
            Row { digest: row.digest, points: here.copied().collect() }
        };
        rows.iter().map(row).filter(|row| row.points.len() > 1).collect::<Vec<Row>>()
    };
    (0..servers).map(of_group).filter(|rows| !rows.is_empty()).collect()
}

/// Fits `log time = digest + server`, `log` being the time of a point; of servers with `enough` times.
fn fit(rows: &[Row], servers: usize, enough: f64, log: impl Fn(&Point) -> f64) -> Vec<Fit> {
    let mut longer = vec![0.0; servers];
    for _ in 0..POLISHES {
        let typical: Vec<f64> = rows
            .iter()
            .map(|Row { points, .. }| {
                points.iter().map(|p| log(p) - longer[p.peer]).sum::<f64>() / points.len() as f64
            })
            .collect();
        for (peer, longer) in longer.iter_mut().enumerate() {
            let of_peer = rows.iter().zip(&typical).flat_map(|(row, typical)| {
                let here = row.points.iter().filter(|p| p.peer == peer);
                here.map(|p| (log(p) - typical, p.weight)).collect::<Vec<_>>()
            });
            *longer = weighted_median(of_peer.collect()).unwrap_or_default();
        }
    }
    let fit = |(peer, longer): (usize, f64)| {
        let points = || rows.iter().flat_map(|row| &row.points).filter(|point| point.peer == peer);
        let count: f64 = points().map(|p| p.count).sum();
        let weight: f64 = points().map(|p| p.weight).sum();
        let variance = points().map(|p| (p.weight / weight).powi(2) * p.variance).sum();
        (count >= enough).then_some(Fit { peer, longer, variance })
    };
    longer.into_iter().enumerate().filter_map(fit).collect()
}

/// The last of the fastest quarter, at least the fastest one; `None` where there is nothing to compare.
fn fastest(fits: &[Fit]) -> Option<Fit> {
    let mut all = fits.to_vec();
    all.sort_by(|a, b| a.longer.total_cmp(&b.longer));
    if all.len() < 2 { None } else { all.get(all.len().div_ceil(4) - 1).copied() }
}

/// What several servers took for one digest.
#[derive(Clone, Debug)]
struct Row {
    digest: u32,
    points: Vec<Point>,
}

/// A digest on a server.
#[derive(Clone, Copy, Debug)]
struct Point {
    peer: usize,
    /// The logarithms of the typical and of the average time.
    log: f64,
    log_average: f64,
    count: f64,
    /// Of its logarithm.
    variance: f64,
    weight: f64,
}

fn change(server: ServerName, before: f64, now: Speed) -> Change {
    Change { server, before, now }
}

fn weighted_median(mut of: Vec<(f64, f64)>) -> Option<f64> {
    of.sort_by(|a, b| a.0.total_cmp(&b.0));
    let half = of.iter().map(|(_, weight)| weight).sum::<f64>() / 2.0;
    let mut before = 0.0;
    of.iter().find_map(|(value, weight)| {
        before += weight;
        (before >= half).then_some(*value)
    })
}

#[cfg(test)]
mod tests;
