//! Readers in each zone: how many survive the loss of any zone, what one more adds, what crosses zones, and
//! when growth meets the ceiling.

use crate::file::{self, FileError, Mistake};
use crate::ledger::{Answer, Kind, Observed, Prediction};
use crate::prices::Prices;
use crate::words::{ValueError, assumed, figure, percent};
use plan::Interval;
use plan::growth::Growth;
pub use plan::replicas::Question as ReplicasQuestion;
use plan::replicas::{Layout, NoPlan};
use serde::{Deserialize, Serialize};
use std::fmt::Write;
use std::path::Path;
use term::Table;

const LEVEL: f64 = 0.95;
/// Seconds of a month.
const MONTH_S: f64 = 30.4 * 86_400.0;

/// Reads that are further apart than this factor are not of the same thing.
const SAME_LEVEL: f64 = 1.25;

/// What growth predicts, and what comes: reads a second on a day.
pub(crate) const ON_DAY: &str = "reads_per_s on day";
/// Days after the last one with reads for which the reads are predicted, as far as a forecast reaches.
const DAYS: [f64; 7] = [7.0, 14.0, 30.0, 60.0, 90.0, 180.0, 365.0];

/// What else is known.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Context {
    /// Readers that are there, zone by zone.
    pub today: Option<Vec<usize>>,
    /// The upper end of what a reader carries, reads a second.
    pub reader_at_most: Option<f64>,
    /// Bytes of an answer to a read.
    pub read_bytes: Option<f64>,
    /// (day, reads a second) so far.
    pub seen: Vec<(f64, f64)>,
    /// (writes a second, the most that the primary takes).
    pub writes: Option<(f64, f64)>,
}

/// When a ceiling is met, days from the last observation of a load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Forecast {
    pub what: String,
    pub ceiling: f64,
    pub earliest: f64,
    pub expected: Option<f64>,
    pub latest: Option<f64>,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReplicasAnswer {
    pub zones: Vec<String>,
    pub reads: Vec<f64>,
    /// Reads a second that one reader adds.
    pub each: f64,
    pub fewest: Vec<usize>,
    pub today: Option<Vec<usize>>,
    /// Whether today's layout survives the loss of each zone.
    pub today_survives: Option<Vec<bool>>,
    /// How many times today's reads the plan carries when its largest zone is lost.
    pub headroom: f64,
    /// Of today's layout.
    pub headroom_today: Option<f64>,
    /// Reads a second that cross zones while no zone is lost, at the peak: with today's readers where they
    /// are named, else with the fewest.
    pub crossing: f64,
    /// What that would cost a month, if the peak lasted all of it.
    pub crossing_price: Option<f64>,
    /// Share of today's reads that one more reader adds, once the plan stands: by the lower end of what a
    /// reader carries.
    pub one_more: f64,
    /// The same by its upper end, where that is known.
    #[serde(default)]
    pub one_more_at_most: Option<f64>,
    /// Readers to buy zone by zone, so that today's layout survives the loss of any; their number, and their
    /// price a month.
    #[serde(default)]
    pub buy: Option<Vec<usize>>,
    pub to_buy: Option<usize>,
    pub price: Option<f64>,
    /// Of all prices; empty where the prices name none.
    #[serde(default)]
    pub currency: String,
    pub forecasts: Vec<Forecast>,
    /// (day, reads a second) so far, and on days to come.
    #[serde(default)]
    pub growth_seen: Vec<(f64, f64)>,
    #[serde(default)]
    pub growth_then: Vec<(f64, Interval)>,
    /// What buying the next reader on the day when today's readers no longer survive the loss of a zone, in
    /// place of today, saves of its price, by the user's trend. `None` where they do not survive it today:
    /// what is to be bought cannot wait.
    pub saved_by_waiting: Option<f64>,
    /// When one primary is outgrown, in words.
    pub primary: Option<String>,
    /// When writes meet the most that the primary takes, where growth is known and it is within reach.
    #[serde(default)]
    pub primary_forecast: Option<Forecast>,
}

/// Reads lines `DAY,READS_PER_SECOND`; the first may be a heading that begins with a letter. `name` is the
/// file's.
fn growth(text: &str, name: &str) -> Result<Vec<(f64, f64)>, FileError> {
    let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()).peekable();
    // Further down a line of that kind is a slip, and must not make the growth shorter.
    lines.next_if(|(_, line)| line.trim().starts_with(char::is_alphabetic));
    let point = |(at, line): (usize, &str)| {
        let number = |text: &str| text.trim().parse::<f64>().ok();
        let both = line.split_once(',').and_then(|(day, load)| number(day).zip(number(load)));
        let sound = |(day, load): &(f64, f64)| day.is_finite() && load.is_finite() && *load >= 0.0;
        both.filter(sound).ok_or_else(|| {
            let source = Mistake::NoGrowth { text: line.to_owned() };
            FileError::WrongLine { name: name.to_owned(), line: at + 1, source }
        })
    };
    lines.map(point).collect()
}

/// Growth so far, from a file of lines `DAY,READS_PER_SECOND`; a heading is left out.
///
/// # Errors
/// It cannot be read, or a line is wrong.
pub fn read_growth(path: &Path) -> Result<Vec<(f64, f64)>, FileError> {
    growth(&file::read(path)?, &path.display().to_string())
}

/// Reads `NAME=READS`, such as `a=400`.
///
/// # Errors
/// It is not of this form.
pub fn parse_zone(text: &str) -> Result<(String, f64), ValueError> {
    let parts = text.split_once('=').and_then(|(name, reads)| Some((name.to_owned(), reads.parse().ok()?)));
    let fine = parts.filter(|(_, reads): &(String, f64)| *reads >= 0.0 && reads.is_finite());
    fine.ok_or_else(|| ValueError::NoZone { text: text.to_owned() })
}

/// Answers.
///
/// # Errors
/// There is no plan.
pub fn answer(
    question: &ReplicasQuestion,
    context: &Context,
    prices: &Prices,
) -> Result<ReplicasAnswer, NoPlan> {
    let plan = question.fewest()?;
    let today = context.today.clone().map(|readers| Layout { readers });
    let crossing = question.crossing(today.as_ref().unwrap_or(&plan));
    let buy = today.as_ref().map(|today| question.additions(today)).transpose()?;
    let to_buy = buy.as_ref().map(|buy| buy.iter().sum::<usize>());
    let growth = Growth::new(&context.seen);
    let meets = |what: &str, ceiling: f64| {
        let meeting = growth.as_ref()?.meets(ceiling, LEVEL)?;
        let (earliest, expected, latest) = (meeting.earliest, meeting.expected, meeting.latest);
        Some(Forecast { what: what.to_owned(), ceiling, earliest, expected, latest })
    };
    let of_today = today.as_ref().and_then(|today| {
        meets("today's readers, with a zone lost", question.headroom(today) * question.reads())
    });
    let wait = of_today.as_ref().filter(|_| to_buy == Some(0)).and_then(|forecast| forecast.expected);
    let mut forecasts: Vec<Forecast> = of_today.into_iter().collect();
    forecasts
        .extend(meets("the planned readers, with a zone lost", question.headroom(&plan) * question.reads()));
    let price = to_buy.zip(prices.reader).map(|(count, reader)| count as f64 * reader);
    let primary_forecast = context.writes.filter(|(now, most)| most > now).and_then(|(now, most)| {
        // Writes are taken to grow as the reads do: they meet their ceiling when the reads have grown as
        // much.
        let reads = growth.as_ref()?.now() * most / now;
        Some(Forecast { ceiling: most, ..meets("one primary", reads)? })
    });
    Ok(ReplicasAnswer {
        zones: question.zones.iter().map(|(zone, _)| zone.clone()).collect(),
        reads: question.zones.iter().map(|(_, reads)| *reads).collect(),
        each: question.each(),
        today_survives: today.as_ref().map(|today| question.survives(today)),
        headroom: question.headroom(&plan),
        headroom_today: today.as_ref().map(|today| question.headroom(today)),
        crossing,
        crossing_price: context
            .read_bytes
            .zip(prices.zone_gb)
            .map(|(bytes, gb)| crossing * bytes / 1e9 * MONTH_S * gb),
        one_more: question.each() / question.reads().max(1e-9),
        one_more_at_most: context.reader_at_most.map(|most| {
            let question = ReplicasQuestion { reader_per_s: most, ..question.clone() };
            question.each() / question.reads().max(1e-9)
        }),
        buy,
        to_buy,
        price,
        currency: prices.currency.clone(),
        saved_by_waiting: prices
            .reader
            .zip(wait)
            .and_then(|(reader, days)| prices.saved_by_waiting(reader, days)),
        primary: context
            .writes
            .map(|(now, most)| primary(now, most, growth.as_ref(), primary_forecast.as_ref())),
        primary_forecast,
        today: context.today.clone(),
        fewest: plan.readers.clone(),
        forecasts,
        growth_then: growth.as_ref().map(then).unwrap_or_default(),
        growth_seen: context.seen.clone(),
    })
}

/// Reads on days to come. They count from where the trend ends, as the days of a ceiling do.
fn then(growth: &Growth) -> Vec<(f64, Interval)> {
    let days = DAYS.iter().filter(|after| **after <= growth.horizon()).map(|after| growth.last_day() + after);
    days.map(|day| (day, growth.on(day, LEVEL))).collect()
}

/// When writes outgrow one primary. They are taken to grow as the reads do.
fn primary(now: f64, most: f64, growth: Option<&Growth>, meets: Option<&Forecast>) -> String {
    let room = most / now.max(1e-9);
    if room <= 1.0 {
        return format!(
            "the primary is outgrown: {} writes a second of {}; replicas do not help, sharding does",
            figure(now),
            figure(most)
        );
    }
    let carries = format!("one primary carries {} times today's writes", figure(room));
    match (growth, meets) {
        (Some(_), Some(meets)) => format!(
            "{carries}: if they grow as the reads do, that is used up in {}; look at sharding (Vitess, TiDB) well before",
            meets.days()
        ),
        (Some(growth), None) => format!(
            "{carries}: if they grow as the reads do, that is not used up within the {:.0} days that can be forecast",
            growth.horizon()
        ),
        (None, _) => format!("{carries}; when that is used up is not known without growth"),
    }
}

impl Forecast {
    /// `41 days (95 %: 38 days to 45 days)`.
    fn days(&self) -> String {
        let day = |day: Option<f64>| {
            day.map_or_else(|| "beyond what can be forecast".to_owned(), |day| format!("{day:.0} days"))
        };
        format!("{} (95 %: {:.0} days to {})", day(self.expected), self.earliest, day(self.latest))
    }
}

impl ReplicasAnswer {
    /// A price with its currency, where the prices name one.
    fn money(&self, price: f64) -> String {
        format!("{} {}", figure(price), self.currency).trim_end().to_owned()
    }

    /// Share of today's reads that one more reader adds: from the lower to the upper end of what was measured
    /// of one; where only the lower is known, that.
    pub fn one_more(&self) -> Interval {
        let (low, high) = (self.one_more, self.one_more_at_most.unwrap_or(self.one_more));
        Interval { low, estimate: f64::midpoint(low, high), high }
    }

    /// The last day with reads, where others without any come after it: a forecast counts from there.
    fn counted_from(&self) -> Option<f64> {
        let from = Growth::new(&self.growth_seen)?.last_day();
        self.growth_seen.iter().any(|(day, _)| *day > from).then_some(from)
    }

    /// The reads at which the growth ends, where the zones have others: then one is not of the same thing as
    /// the other, and ceilings are met on another day.
    fn other_level(&self) -> Option<f64> {
        let now = Growth::new(&self.growth_seen)?.now();
        let reads = self.reads.iter().sum::<f64>();
        (now < reads / SAME_LEVEL || now > reads * SAME_LEVEL).then_some(now)
    }

    /// The zones, as a subject: `the readers of zones a, b`.
    pub fn zones_in_words(&self) -> String {
        format!("the readers of zones {}", self.zones.join(", "))
    }
}

impl Answer for ReplicasAnswer {
    fn about(&self) -> (Kind, String, String) {
        (Kind::Replicas, self.zones.join(", "), String::new())
    }

    fn predictions(&self) -> Vec<Prediction> {
        let of = |(day, reads): &(f64, Interval)| Prediction {
            model: "growth".to_owned(),
            what: ON_DAY.to_owned(),
            at: *day,
            cores: None,
            value: *reads,
            level: LEVEL,
        };
        self.growth_then.iter().map(of).collect()
    }

    fn observed(&self) -> Vec<Observed> {
        let of = |(day, reads): &(f64, f64)| Observed {
            what: ON_DAY.to_owned(),
            at: *day,
            cores: None,
            value: *reads,
        };
        self.growth_seen.iter().map(of).collect()
    }

    fn assumptions(&self) -> Vec<String> {
        let mut all = vec![
            "A further reader carries as much as the one that was measured, and repeats all writes."
                .to_owned(),
            "The reads of a lost zone's users arrive in the other zones, at the same peak.".to_owned(),
        ];
        if !self.growth_then.is_empty() {
            all.push(
                "Reads go on growing as they did; beyond three times that stretch nothing is said."
                    .to_owned(),
            );
        }
        if self.primary.is_some() {
            all.push("Writes grow as the reads do.".to_owned());
        }
        all
    }

    /// Today's readers survive the loss of each zone, or are not known.
    fn is_good(&self) -> bool {
        self.today_survives.as_ref().is_none_or(|all| all.iter().all(|well| *well))
    }

    fn text(&self) -> String {
        let mut table = Table::new(&["zone", ">reads a second", ">readers today", ">fewest from nothing"]);
        for (at, zone) in self.zones.iter().enumerate() {
            let today = self.today.as_ref().map_or_else(|| "-".to_owned(), |today| today[at].to_string());
            table.row(vec![zone.clone(), figure(self.reads[at]), today, self.fewest[at].to_string()]);
        }
        let mut text = table.text();
        let _ = writeln!(
            text,
            "\nWith the fewest readers from nothing the loss of any one zone is survived, and {} times today's reads are still carried.",
            figure(self.headroom)
        );
        if let (Some(survives), Some(headroom)) = (&self.today_survives, self.headroom_today) {
            let lost: Vec<&str> = self
                .zones
                .iter()
                .zip(survives)
                .filter(|(_, well)| !**well)
                .map(|(zone, _)| zone.as_str())
                .collect();
            let _ = match lost.is_empty() {
                true => writeln!(
                    text,
                    "Today's readers survive that as well, with {} times today's reads.",
                    figure(headroom)
                ),
                false => {
                    writeln!(text, "Today's readers do NOT survive the loss of zone {}.", lost.join(" or "))
                }
            };
        }
        let _ = writeln!(
            text,
            "One more reader adds {} of today's reads ({} a second at least, after what it spends on the primary's writes).",
            match self.one_more_at_most {
                Some(_) => percent(&self.one_more()),
                None => format!("at least {:.0} %", self.one_more * 100.0),
            },
            figure(self.each)
        );
        let with = if self.today.is_some() { "today's readers" } else { "the fewest readers" };
        let _ = write!(
            text,
            "With {with} {} reads a second cross zones at the peak while no zone is lost",
            figure(self.crossing)
        );
        let _ = match self.crossing_price {
            Some(price) => {
                writeln!(text, ": {} a month, if the peak lasted all month.", self.money(price))
            }
            None => writeln!(text, "."),
        };
        if let Some(count) = self.to_buy {
            let price =
                self.price.map(|price| format!(" at {} a month", self.money(price))).unwrap_or_default();
            let zones = self.zones.iter().zip(self.buy.iter().flatten()).filter(|(_, more)| **more > 0);
            let zones: Vec<String> = zones.map(|(zone, more)| format!("{more} in {zone}")).collect();
            let _ = match zones.is_empty() {
                true => writeln!(text, "To buy: {count} readers{price}."),
                false => writeln!(text, "To buy: {count} readers ({}){price}.", zones.join(", ")),
            };
        }
        for one in &self.forecasts {
            let _ = writeln!(
                text,
                "Growth meets the ceiling of {} ({} reads a second) in {}.",
                one.what,
                figure(one.ceiling),
                one.days()
            );
        }
        if self.forecasts.is_empty() && !self.growth_seen.is_empty() {
            let _ = match Growth::new(&self.growth_seen) {
                Some(growth) => writeln!(
                    text,
                    "Growth meets no ceiling within the {:.0} days that can be forecast.",
                    growth.horizon()
                ),
                None => writeln!(
                    text,
                    "Growth is not forecast: that takes {} days or more with reads.",
                    plan::growth::FEWEST
                ),
            };
        }
        if let Some(now) = self.other_level() {
            let _ = writeln!(
                text,
                "The growth ends at {} reads a second, and the zones have {}: the days are those of the former. Where it \
                 is of means and the zones are at their peak, a ceiling is met sooner.",
                figure(now),
                figure(self.reads.iter().sum())
            );
        }
        if let Some(day) = self.counted_from() {
            let _ = writeln!(
                text,
                "Days count from day {day}, the last one with reads: those after it are left out."
            );
        }
        if let Some(saved) = self.saved_by_waiting {
            let verb = if saved >= 0.0 { "saves" } else { "costs" };
            let _ = writeln!(
                text,
                "Buying the next reader on the day of today's ceiling instead of today {verb} {} a month, by the trend in your prices.",
                self.money(saved.abs())
            );
        }
        if let Some(primary) = &self.primary {
            let _ = writeln!(text, "Writes: {primary}.");
        }
        text += &assumed(&self.assumptions());
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_read_with_its_line_numbers() {
        let read = |text: &str| growth(text, "g.csv");
        assert_eq!(read("day,reads\n0,100\n1, 101.5\n").unwrap(), [(0.0, 100.0), (1.0, 101.5)]);
        assert_eq!(
            read("0,100\n1;2\n").unwrap_err().to_string(),
            "g.csv:2: '1;2' is not DAY,READS_PER_SECOND"
        );
        // A heading stands first. What is no number would not come back from where answers are kept.
        for (line, wrong) in [(2, "0,100\nMon,101\n"), (2, "day,reads\nx,1\n"), (1, "0,nan\n"), (1, "0,-1\n")]
        {
            let refused = read(wrong).unwrap_err().to_string();
            assert!(refused.starts_with(&format!("g.csv:{line}: ")), "{refused}");
        }
    }

    #[test]
    fn growth_that_tells_no_day_says_why() {
        let zones = vec![("a".to_owned(), 400.0), ("b".to_owned(), 400.0)];
        let question = ReplicasQuestion { zones, reader_per_s: 500.0, apply_share: 0.0, fill: 1.0 };
        let of = |days: i32| {
            let seen = (0..days).map(|day| (f64::from(day), 500.0)).collect();
            let context = Context { seen, ..Context::default() };
            answer(&question, &context, &Prices::default()).unwrap().text()
        };
        assert!(of(30).contains("Growth meets no ceiling within the 87 days"), "{}", of(30));
        assert!(of(3).contains("Growth is not forecast: that takes 5 days"), "{}", of(3));
        assert!(!of(0).contains("Growth"), "{}", of(0));
    }

    #[test]
    fn growth_of_another_level_than_the_zones_reads_is_remarked() {
        let zones = vec![("a".to_owned(), 400.0), ("b".to_owned(), 400.0)];
        let question = ReplicasQuestion { zones, reader_per_s: 500.0, apply_share: 0.0, fill: 1.0 };
        let of = |reads: f64| {
            let seen = (0..30).map(|day| (f64::from(day), reads * 1.01_f64.powi(day - 29))).collect();
            let context = Context { today: Some(vec![2, 2]), seen, ..Context::default() };
            answer(&question, &context, &Prices::default()).unwrap().text()
        };
        let means = of(300.0);
        assert!(means.contains("ends at 300 reads a second, and the zones have 800"), "{means}");
        assert!(!of(820.0).contains("The growth ends"), "{}", of(820.0));
    }

    #[test]
    fn days_without_reads_at_the_end_move_no_forecast() {
        let zones = vec![("a".to_owned(), 400.0), ("b".to_owned(), 400.0)];
        let question = ReplicasQuestion { zones, reader_per_s: 500.0, apply_share: 0.0, fill: 1.0 };
        let of = |empty: i32| {
            let reads = |day: i32| if day < 30 { 500.0 * 1.01_f64.powi(day) } else { 0.0 };
            let seen = (0..30 + empty).map(|day| (f64::from(day), reads(day))).collect();
            let context = Context { seen, ..Context::default() };
            answer(&question, &context, &Prices::default()).unwrap()
        };
        let (whole, cut) = (of(0), of(5));
        assert_eq!(whole.growth_then[0].0, 36.0);
        assert_eq!((&whole.growth_then, &whole.forecasts), (&cut.growth_then, &cut.forecasts));
        assert!(cut.text().contains("Days count from day 29, the last one with reads"), "{}", cut.text());
        assert!(!whole.text().contains("Days count from"), "{}", whole.text());
    }

    #[test]
    fn todays_readers_are_judged_and_growth_is_priced() {
        let zones = vec![("a".to_owned(), 400.0), ("b".to_owned(), 400.0)];
        let question = ReplicasQuestion { zones, reader_per_s: 500.0, apply_share: 0.2, fill: 1.0 };
        let seen = (0..30).map(|day| (f64::from(day), 500.0 * 1.01_f64.powi(day))).collect();
        let context = Context {
            today: Some(vec![2, 1]),
            read_bytes: Some(2000.0),
            seen,
            writes: Some((100.0, 150.0)),
            ..Context::default()
        };
        let prices = Prices {
            reader: Some(300.0),
            currency: "EUR".to_owned(),
            zone_gb: Some(0.02),
            trend_a_year: Some(-0.1),
            ..Prices::default()
        };
        let answer = answer(&question, &context, &prices).unwrap();
        assert_eq!(
            (answer.fewest.as_slice(), answer.to_buy, answer.price),
            ([2, 2].as_slice(), Some(1), Some(300.0))
        );
        assert_eq!(answer.today_survives, Some(vec![false, true]));
        let text = answer.text();
        assert!(text.contains("do NOT survive the loss of zone a"), "{text}");
        // 800 reads, a third of the readers in b, where half of them are born.
        assert!((answer.crossing - (400.0 - 800.0 / 3.0)).abs() < 1e-9, "{}", answer.crossing);
        assert!(text.contains("With today's readers 133 reads a second cross zones at the peak"), "{text}");
        assert!(text.contains("EUR a month, if the peak lasted all month"), "{text}");
        let primary = answer.primary_forecast.as_ref().unwrap();
        assert!((primary.expected.unwrap() - 40.7).abs() < 0.5 && primary.ceiling == 150.0, "{primary:?}");
        assert!(text.contains("With the fewest readers from nothing the loss of any one zone"), "{text}");
        assert!(text.contains("used up in 41 days (95 %: 41 days to 41 days)"), "{text}");
        assert!(text.contains("To buy: 1 readers (1 in b) at 300 EUR a month"), "{text}");
        assert_eq!(answer.saved_by_waiting, None, "what is needed today cannot wait");
    }

    #[test]
    fn the_next_reader_may_wait_until_todays_no_longer_survive() {
        let zones = vec![("a".to_owned(), 400.0), ("b".to_owned(), 400.0)];
        let question = ReplicasQuestion { zones, reader_per_s: 500.0, apply_share: 0.0, fill: 1.0 };
        let seen = (0..60).map(|day| (f64::from(day), 800.0 * 1.01_f64.powi(day - 59))).collect();
        let context = Context { today: Some(vec![2, 2]), seen, ..Context::default() };
        let prices = Prices { reader: Some(300.0), trend_a_year: Some(-0.1), ..Prices::default() };
        let found = answer(&question, &context, &prices).unwrap();
        // 1,000 reads a second are left to carry: 1.01^d = 1.25 after 22.4 days.
        let saved = 300.0 * (1.0 - 0.9_f64.powf(22.4 / 365.0));
        assert_eq!(found.to_buy, Some(0));
        assert!((found.saved_by_waiting.unwrap() - saved).abs() < 0.05, "{found:?}");
        assert!(found.text().contains("Buying the next reader on the day of today's ceiling"));
        // Beyond the forecast's reach no day is known, and another layout's is not taken for it.
        let many = Context { today: Some(vec![20, 20]), ..context };
        assert_eq!(answer(&question, &many, &prices).unwrap().saved_by_waiting, None);
    }

    #[test]
    fn growth_is_judged_by_the_reads_of_the_days_that_came() {
        let zones = vec![("a".to_owned(), 400.0), ("b".to_owned(), 400.0)];
        let question = ReplicasQuestion { zones, reader_per_s: 500.0, apply_share: 0.0, fill: 1.0 };
        // Days count from 2,000: 3 % of a day's number is no tolerance of days.
        let until = |days: i32| {
            let reads = |day: i32| 500.0 * 1.01_f64.powi(day) * [0.99, 1.01][day as usize % 2];
            let seen = (0..days).map(|day| (2000.0 + f64::from(day), reads(day))).collect();
            let context = Context { seen, ..Context::default() };
            crate::ledger::Entry::of(&answer(&question, &context, &Prices::default()).unwrap()).unwrap()
        };
        let check = crate::outcome::check(&[until(20), until(40)]);
        let days: Vec<f64> = check.judged.iter().map(|one| one.at).collect();
        assert_eq!(days, [2026.0, 2033.0], "of the days that were predicted only two have come: {check:?}");
        assert!(check.is_good(), "{check:?}");
    }

    #[test]
    fn a_primary_that_is_outgrown_beyond_the_forecasts_reach_has_no_day() {
        let zones = vec![("a".to_owned(), 400.0), ("b".to_owned(), 400.0)];
        let question = ReplicasQuestion { zones, reader_per_s: 500.0, apply_share: 0.0, fill: 1.0 };
        let wave = [0.99, 1.01];
        let seen = (0..10).map(|day| (f64::from(day), 800.0 * 1.001_f64.powi(day) * wave[day as usize % 2]));
        let context = Context {
            today: Some(vec![3, 5]),
            seen: seen.collect(),
            writes: Some((100.0, 900.0)),
            ..Context::default()
        };
        let answer = answer(&question, &context, &Prices::default()).unwrap();
        assert_eq!((answer.primary_forecast.as_ref(), answer.to_buy), (None, Some(0)));
        let text = answer.text();
        assert!(text.contains("not used up within the 27 days that can be forecast"), "{text}");
    }
}
