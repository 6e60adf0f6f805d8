//! Readers in each zone: how many survive the loss of any zone, what one more adds, what crosses zones, and
//! when growth meets the ceiling.

use crate::file::{self, FileError};
use crate::ledger::{Answer, Kind};
use crate::prices::Prices;
use crate::words::figure;
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

/// What else is known.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Context {
    /// Readers that are there, zone by zone.
    pub today: Option<Vec<usize>>,
    /// Bytes of an answer to a read.
    pub read_bytes: Option<f64>,
    /// (day, reads a second) so far.
    pub seen: Vec<(f64, f64)>,
    /// (writes a second, the most that the primary takes).
    pub writes: Option<(f64, f64)>,
}

/// When a ceiling is met, days from the last observation.
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
    /// Reads a second that cross zones while no zone is lost.
    pub crossing: f64,
    /// What that costs a month.
    pub crossing_price: Option<f64>,
    /// Share of today's reads that one more reader adds, once the plan stands.
    pub one_more: f64,
    /// Readers to buy, and their price a month.
    pub to_buy: Option<usize>,
    pub price: Option<f64>,
    pub forecasts: Vec<Forecast>,
    /// What waiting for the expected day saves of the price, by the user's trend.
    pub saved_by_waiting: Option<f64>,
    /// When one primary is outgrown, in words.
    pub primary: Option<String>,
}

/// Reads lines `DAY,READS_PER_SECOND`; a heading that begins with a letter is left out.
///
/// # Errors
/// `line: what is wrong`.
pub fn growth(text: &str) -> Result<Vec<(f64, f64)>, String> {
    let lines = text.lines().enumerate().filter(|(_, line)| {
        let line = line.trim();
        !line.is_empty() && !line.starts_with(char::is_alphabetic)
    });
    let point = |(at, line): (usize, &str)| {
        let parts = line.split_once(',');
        let both = parts.and_then(|(day, load)| Some((day.trim().parse().ok()?, load.trim().parse().ok()?)));
        both.ok_or_else(|| format!("{}: '{line}' is not DAY,READS_PER_SECOND", at + 1))
    };
    lines.map(point).collect()
}

/// The same of a file.
///
/// # Errors
/// It cannot be read, or what is wrong in it.
pub fn read_growth(path: &Path) -> Result<Vec<(f64, f64)>, FileError> {
    growth(&file::read(path)?).map_err(|why| FileError::Wrong(format!("{}:{why}", path.display())))
}

/// Reads `NAME=READS`, such as `a=400`.
///
/// # Errors
/// What is wrong, in words.
pub fn parse_zone(text: &str) -> Result<(String, f64), String> {
    let parts = text.split_once('=').and_then(|(name, reads)| Some((name.to_owned(), reads.parse().ok()?)));
    let fine = parts.filter(|(_, reads): &(String, f64)| *reads >= 0.0 && reads.is_finite());
    fine.ok_or_else(|| "write NAME=READS, such as a=400".to_owned())
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
    let crossing = question.crossing(&plan);
    let to_buy = today.as_ref().map(|today| {
        plan.readers.iter().zip(&today.readers).map(|(then, now)| then.saturating_sub(*now)).sum::<usize>()
    });
    let growth = Growth::new(&context.seen);
    let meets = |what: &str, ceiling: f64| {
        let meeting = growth.as_ref()?.meets(ceiling, LEVEL)?;
        let (earliest, expected, latest) = (meeting.earliest, meeting.expected, meeting.latest);
        Some(Forecast { what: what.to_owned(), ceiling, earliest, expected, latest })
    };
    let mut forecasts = Vec::new();
    if let Some(today) = &today {
        let ceiling = question.headroom(today) * question.reads();
        forecasts.extend(meets("today's readers, with a zone lost", ceiling));
    }
    forecasts
        .extend(meets("the planned readers, with a zone lost", question.headroom(&plan) * question.reads()));
    let price = to_buy.zip(prices.reader).map(|(count, reader)| count as f64 * reader);
    let wait = forecasts.first().and_then(|forecast| forecast.expected);
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
        to_buy,
        price,
        saved_by_waiting: price.zip(wait).and_then(|(price, days)| prices.saved_by_waiting(price, days)),
        primary: context.writes.map(|(now, most)| primary(now, most, growth.as_ref())),
        today: context.today.clone(),
        fewest: plan.readers.clone(),
        forecasts,
    })
}

/// When writes outgrow one primary. They are taken to grow as the reads do.
fn primary(now: f64, most: f64, growth: Option<&Growth>) -> String {
    let room = most / now.max(1e-9);
    if room <= 1.0 {
        return format!(
            "the primary is outgrown: {} writes a second of {}; replicas do not help, sharding does",
            figure(now),
            figure(most)
        );
    }
    match growth.map(|growth| growth.a_day) {
        Some(a_day) if a_day > 0.0 => {
            let days = room.ln() / (1.0 + a_day).ln();
            format!(
                "one primary carries {} times today's writes: if they grow as the reads do, for about {} days; look at sharding (Vitess, TiDB) well before",
                figure(room),
                figure(days)
            )
        }
        _ => format!(
            "one primary carries {} times today's writes; when that is used up is not known without growth",
            figure(room)
        ),
    }
}

impl ReplicasAnswer {
    /// The zones, as a subject: `the readers of zones a, b`.
    pub fn zones_in_words(&self) -> String {
        format!("the readers of zones {}", self.zones.join(", "))
    }
}

impl Answer for ReplicasAnswer {
    fn about(&self) -> (Kind, String, String) {
        let zones = self.zones.iter().zip(&self.reads).map(|(zone, reads)| format!("{zone}={reads}"));
        (Kind::Replicas, zones.collect::<Vec<_>>().join(" "), String::new())
    }

    /// Today's readers survive the loss of each zone, or are not known.
    fn is_good(&self) -> bool {
        self.today_survives.as_ref().is_none_or(|all| all.iter().all(|well| *well))
    }

    fn text(&self) -> String {
        let mut table = Table::new(&["zone", ">reads a second", ">readers today", ">readers needed"]);
        for (at, zone) in self.zones.iter().enumerate() {
            let today = self.today.as_ref().map_or_else(|| "-".to_owned(), |today| today[at].to_string());
            table.row(vec![zone.clone(), figure(self.reads[at]), today, self.fewest[at].to_string()]);
        }
        let mut text = table.text();
        let _ = writeln!(
            text,
            "\nThe loss of any one zone is survived; then it still carries {} times today's reads.",
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
            "One more reader adds {:.0} % of today's reads ({} a second, after what it spends on the primary's writes).",
            self.one_more * 100.0,
            figure(self.each)
        );
        let _ = write!(text, "{} reads a second cross zones while no zone is lost", figure(self.crossing));
        let _ = match self.crossing_price {
            Some(price) => writeln!(text, ", at {} a month.", figure(price)),
            None => writeln!(text, "."),
        };
        if let Some(count) = self.to_buy {
            let price = self.price.map(|price| format!(" at {} a month", figure(price))).unwrap_or_default();
            let _ = writeln!(text, "To buy: {count} readers{price}.");
        }
        for one in &self.forecasts {
            let day = |day: Option<f64>| {
                day.map_or_else(|| "beyond what can be forecast".to_owned(), |day| format!("{day:.0} days"))
            };
            let _ = writeln!(
                text,
                "Growth meets the ceiling of {} ({} a second) in {} (95 %: {:.0} days to {}).",
                one.what,
                figure(one.ceiling),
                day(one.expected),
                one.earliest,
                day(one.latest)
            );
        }
        if let Some(saved) = self.saved_by_waiting {
            let verb = if saved >= 0.0 { "saves" } else { "costs" };
            let _ = writeln!(
                text,
                "Buying on that day instead of today {verb} {} a month, by the trend in your prices.",
                figure(saved.abs())
            );
        }
        if let Some(primary) = &self.primary {
            let _ = writeln!(text, "Writes: {primary}.");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_read_with_its_line_numbers() {
        assert_eq!(growth("day,reads\n0,100\n1, 101.5\n").unwrap(), [(0.0, 100.0), (1.0, 101.5)]);
        assert!(growth("0,100\n1;2\n").unwrap_err().starts_with("2: "));
    }

    #[test]
    fn todays_readers_are_judged_and_growth_is_priced() {
        let zones = vec![("a".to_owned(), 400.0), ("b".to_owned(), 400.0)];
        let question = ReplicasQuestion { zones, reader_per_s: 500.0, apply_share: 0.2, fill: 1.0 };
        let seen = (0..30).map(|day| (f64::from(day), 500.0 * 1.01_f64.powi(day))).collect();
        let context =
            Context { today: Some(vec![2, 1]), read_bytes: Some(2000.0), seen, writes: Some((100.0, 150.0)) };
        let prices = Prices {
            reader: Some(300.0),
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
        assert!(text.contains("for about 41 days") || text.contains("for about 40.7 days"), "{text}");
    }
}
